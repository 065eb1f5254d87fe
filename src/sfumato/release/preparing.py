"""Bounding, noise and split are chosen for a price from the policy alone: this is free, and no data are read.

Every measurement of a question gets a share of the price, for the least error of what is asked (``splitting``); its
noise is calibrated to the sensitivity that the bounding proves, and the whole is one release whose curve composes what
is actually drawn. Where groups are found in the data, the selection of those to show is one share more, and pays with δ
too: with all of it beside Laplace noise, with half of it beside Gaussian noise.

Theorem (found groups). The keys K are selected by a key threshold, and then noise is added to the totals of K with all
declared values of the other keys. For each fixed K those totals move by no more than the bounding proves, whether the
data hold the keys of K or not. So the release is an adaptive composition of the two (Dwork & Roth 2014, Thm 3.16), and
its curve is that of both together, under either relation of neighbours. ∎
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import KeyThreshold
from sfumato.mechanisms.additive import FAMILIES
from sfumato.mechanisms.key_thresholds import MOST_KEYS, MOST_WEIGHT
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import Holders
from sfumato.privacy import Budget, Curve, Neighbours
from sfumato.privacy.budget_words import ENDS
from sfumato.privacy.calibration import least_by
from sfumato.privacy.numbers import Number, chance
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.parts.question_parts import Family, NoisyTotals, OtherPart, QuestionPart, Strength
from sfumato.release.parts.scales import NoiseScale, NoisyScale
from sfumato.release.parts.shares import PriceSplit, WeightedRequest, shared_out
from sfumato.release.prices import GAUSSIAN_NEEDS, GIVE_DELTA, Price

_PRECISION = Fraction(1, 2**16)
"""Noise within this part of the least is found in a third of the steps."""


@dataclass(frozen=True)
class Prepared:
    """This is a release that is ready to be charged: what is measured with what noise, at what price, and why so."""

    totals: NoisyTotals
    """All totals of the question: there may be none,"""
    others: tuple[OtherPart, ...]
    """and what else is measured."""
    measured: tuple[tuple[Measurement, ...], ...]
    """The measurements of each part, in units of its totals,"""
    chosen: tuple[Measurement, ...]
    """and the choice of groups, if any."""
    split: PriceSplit
    price: Price
    reason: str
    idle: str = ""
    """Why a δ that was given changes nothing; empty where none was, or it buys something."""

    @property
    def parts(self) -> tuple[QuestionPart, ...]:
        return (self.totals, *self.others)

    @cached_property
    def batch(self) -> Batch:
        """Give everything that is measured, the choice of groups last."""
        return Batch((*(each for part in self.measured for each in part), *self.chosen))

    @property
    def bounded(self) -> BoundedPlan:
        """Give the plan of the totals."""
        return self.totals.bounded

    @property
    def used(self) -> tuple[BoundedPlan, ...]:
        """List the plans under which something is measured: that of the totals, and those of what is beside them."""
        found = [part.bounded for part, measured in zip(self.parts, self.measured, strict=True) if measured]
        return tuple(found or [self.bounded])

    @property
    def mechanisms(self) -> tuple[Additive, ...]:
        """Give the noise of each total."""
        return tuple(each.mechanism for each in self.measured[0])

    @property
    def selection(self) -> KeyThreshold | None:
        """Say what decides which groups are shown, where they are found in the data."""
        return self.chosen[0].mechanism if self.chosen else None

    @property
    def curve(self) -> Curve:
        return self.batch.curve

    @cached_property
    def scales(self) -> tuple[tuple[NoiseScale, ...], ...]:
        """List for each part how the numbers that are drawn for it are read."""
        return tuple(part.scales(measured) for part, measured in zip(self.parts, self.measured, strict=True))

    @cached_property
    def noises(self) -> tuple[NoisyScale, ...]:
        """List everything that gets noise, beside the totals too."""
        return tuple(scale for part in self.scales for scale in part if isinstance(scale, NoisyScale))

    @cached_property
    def accuracy(self) -> tuple[Fraction, ...]:
        """List the half-widths at 95 %, by which stored answers are compared."""
        return self.half_widths()

    @property
    def pure(self) -> bool:
        """Tell whether an ε alone bounds what its noise leaks: a choice of groups needs a δ beside it."""
        return all(each.mechanism.pure for each in self.noises)

    def half_widths(self, confidence: Number = "0.95", together: int = 1) -> tuple[Fraction, ...]:
        """Give the half-width of all that gets noise, in the measures' own terms."""
        return tuple(each.half_width(confidence, together) for each in self.noises)


def prepare(
    options: Sequence[BoundedPlan],
    price: Price,
    *,
    others: tuple[OtherPart, ...] = (),
    asked: WeightedRequest | None = None,
    account: Budget | None = None,
    family: Family | None = None,
) -> Prepared:
    """Choose the sound strategy with the least noise on totals; among equals the cheapest to compute. What ``others``
    measure beside the totals has a strategy of its own. The price is split for what is ``asked``, evenly without it.

    Gaussian noise would close the account's pure currency, so while that is open it must halve the error to be
    chosen unasked.
    """
    if family is not None and not family.pure and not price.allows_gaussian:
        raise InvalidParameter("mechanism", "Gaussian", GAUSSIAN_NEEDS, fix=GIVE_DELTA)
    wanted = [family] if family is not None else _families(price, account)
    choices = not options[0].noised and not any(each.noisy for each in others)
    if choices:  # an ε alone pays for them
        wanted = [*FAMILIES[:1]]
    best = [_best(options, others, asked, price, each) for each in wanted if _suited(options, each)]
    if not best:
        raise _unsuited(options[0].strategy)
    least_noise = min(best, key=_noise)
    chosen = least_noise if family is not None or least_noise.pure else _kept_pure(best, least_noise, account)
    if not chosen.pure or chosen.selection is not None or not price.delta:  # groups that are found use the δ
        return chosen
    # Laplace noise is calibrated to ε alone: whoever reads the label need not fear a δ that nothing uses.
    why = _CHOICES if choices else _NAMED if family is not None else _idle(chosen, best)
    return replace(chosen, price=Price(price.epsilon), idle=f"The δ = {chance(price.delta)} changes nothing: {why}.")


_CHOICES = "what is asked is chosen, and an ε alone pays for a choice"
_NAMED = "Laplace noise was named, and an ε alone pays for it"


def _idle(chosen: Prepared, best: Sequence[Prepared]) -> str:
    """Say why noise that an ε alone pays for was chosen although a δ would have allowed Gaussian noise."""
    gaussian = next((each for each in best if not each.pure), None)
    if gaussian is None:
        return "an ε alone pays for the noise"
    times = math.exp((_noise(gaussian) - _noise(chosen)) / len(chosen.noises))
    if times >= 1:
        return f"Laplace noise needs no δ, and Gaussian noise would have {times:.3g} times its error"
    would = f"Gaussian noise would have {times:.2g} times the error"
    if times <= 1 / 2:
        return f"{would}, but the account cannot pay for it any more"
    keep = "but end what an ε alone pays for in this account, and is chosen unasked only if it halves the error"
    return f'{would} {keep}; mechanism="gaussian" (--mechanism gaussian) names it'


def _suited(options: Sequence[BoundedPlan], family: Family) -> list[BoundedPlan]:
    """Lengths are clipped for Gaussian noise, sums of sizes for Laplace noise; all other ways suit both."""
    return [each for each in options if each.strategy.order in (None, family.order)]


def _unsuited(strategy: Strategy) -> InvalidParameter:
    law, named = (
        ("Gaussian", "a delta or a rho") if strategy is Strategy.CLIP_L2 else ("Laplace", "mechanism=sf.Laplace")
    )
    rule = f"left out, or one that suits the noise: {strategy.value} goes with {law} noise alone"
    return InvalidParameter("strategy", strategy.value, rule, fix=f"name {named}, or another strategy")


def _families(price: Price, account: Budget | None) -> list[Family]:
    """Name the families of noise that are worth comparing. At the same ρ ≤ 2 Laplace noise is never narrower: its ρ is
    at least its mean loss ε − 1 + e^{−ε}, and its half-width ln(20)/ε then exceeds the Gaussian's 1.96/√(2ρ). But it
    keeps the account's pure currency open.
    """
    keeps = account is not None and "pure" in account.remaining
    if price.rho is not None and price.rho <= 2 and not keeps:
        return [each for each in FAMILIES if not each.pure]
    return [each for each in FAMILIES if each.pure or price.allows_gaussian]


def _kept_pure(best: list[Prepared], gaussian: Prepared, account: Budget | None) -> Prepared:
    """Choose the Laplace release instead, where Gaussian noise would close the pure currency for too little."""
    laplace = next((each for each in best if each.pure), None)
    if laplace is None or account is None or "pure" not in account.remaining or not account.affords(laplace.curve):
        return gaussian
    affordable = account.affords(gaussian.curve)
    gain = math.exp((_noise(laplace) - _noise(gaussian)) / len(gaussian.noises))
    if affordable and gain >= 2:
        return gaussian
    why = f"Gaussian noise would have {1 / gain:.2g} times the error but end {ENDS}"
    return replace(laplace, reason=f"{laplace.reason}; {why}")


def _best(
    options: Sequence[BoundedPlan],
    others: tuple[OtherPart, ...],
    asked: WeightedRequest | None,
    price: Price,
    family: Family,
) -> Prepared:
    """Choose the strategy with the least sensitivity: noise grows with Δ₁ (Laplace) or Δ₂ (Gaussian), all else being
    equal.
    """
    suited = _suited(options, family)
    chosen = min(suited, key=lambda each: round(_reach(each, family), 9))  # the first, and cheapest, among equals
    worse = [each.strategy.value for each in suited if each is not chosen] if chosen.noised else []
    way = chosen if chosen.noised or not others else others[0].bounded  # nothing is added up: whole rows are chosen by
    reason = f"{way.strategy.value}, " + (
        f"for the least noise: {' and '.join(worse)} would need as much or more" if worse else "the only way"
    )
    totals = NoisyTotals(chosen)
    split = shared_out((totals, *others), asked, family)
    return _calibrated(Prepared(totals, others, (), (), split, price, reason), family)


def _reach(bounded: BoundedPlan, family: Family) -> float:
    """Give the sum of the logarithms of all sensitivities, in the measures' own terms."""
    return sum(math.log(family.norm(each.sensitivity) * each.unit_value) for each in bounded.noised)


def _noise(prepared: Prepared) -> float:
    """Give the sum of the logarithms of all half-widths: what families of noise are compared by."""
    return sum(math.log(float(max(each, Fraction(1, 10**9)))) for each in prepared.half_widths())


def _calibrated(planned: Prepared, family: Family) -> Prepared:
    """Give each measurement its share of the price: by a closed form where there is one, or everything made weaker
    until the price is kept.
    """
    price, totals, shares = planned.price, planned.totals, planned.split.shares
    epsilon = None if price.epsilon is None or not totals.bounded.finds else price.epsilon * shares[0][-1]
    chosen = _selection(totals.bounded, epsilon, price.delta if family.pure else price.delta / 2)

    def at(strength: Strength) -> Prepared:
        measured = tuple(part.measurements(strength, own) for part, own in zip(planned.parts, shares, strict=True))
        return replace(planned, measured=measured, chosen=chosen)

    if _closed_form(price, family, planned.others):
        return at(Strength(family, price))

    def weakened(factor: Fraction) -> Prepared:
        return at(Strength(family, factor=factor))

    return weakened(least_by(lambda factor: price.shortfall(weakened(factor).curve), str(price), _PRECISION))


def _closed_form(price: Price, family: Family, others: Sequence[QuestionPart]) -> bool:
    """Tell whether shares of this price are bought without a search."""
    if others and price.epsilon is None:
        return False
    return family.closed_form(epsilon=price.epsilon, rho=price.rho) is not None


def _selection(bounded: BoundedPlan, epsilon: Fraction | None, delta: Fraction) -> tuple[Measurement, ...]:
    """Choose among groups that are found by the noise with which smaller ones are shown."""
    if not bounded.finds or epsilon is None:
        return ()
    holders = Holders(bounded)
    most = MOST_WEIGHT if holders.weighted else MOST_KEYS
    if holders.most > most:
        rule = f"one unit is in at most {most:,} groups that are found in the data; here it may be in {holders.most:,}"
        fewer = "join by columns with fewer equal rows, or declare fewer most_items of a list"
        fix = fewer if holders.weighted else "tighten it, such as .limit(groups=10)"
        raise Unsupported("too-many-keys", rule, fix=fix)
    return (Measurement(holders, threshold(epsilon, delta, holders.most, holders.weighted, holders.neighbours)),)


@lru_cache(maxsize=256)
def threshold(epsilon: Fraction, delta: Fraction, most: int, weighted: bool, neighbours: Neighbours) -> KeyThreshold:
    """Give the key threshold that shows the smallest groups at this price."""
    found = [KeyThreshold(epsilon, delta, most, weighted, neighbours=neighbours)]
    if most > 1 and not weighted:
        found.append(KeyThreshold.gaussian(epsilon, delta, most, neighbours))
    return min(found, key=lambda each: each.error())
