"""Choosing bounding, noise and split for a price, from the policy alone: free, no data read.

Every measure of a question gets an equal share of the price; its noise is calibrated to the sensitivity that the
bounding proves, and the whole is one release whose curve composes what is actually drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.plan.bounding import Bounded, Bounding
from sfumato.privacy import Budget, Curve, compose
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import Number
from sfumato.release.prices import Price

Additive = Laplace | Gaussian
Family = type[Laplace] | type[Gaussian]

_TIE = 1 + 1e-9


@dataclass(frozen=True)
class Prepared:
    """A release ready to be charged: what is computed, what noise it gets, what it leaks, and why this way."""

    bounded: Bounded
    price: Price
    mechanisms: tuple[Additive, ...]
    """One for each measure, in units of its totals."""
    curve: Curve
    reason: str

    def half_widths(self, confidence: Number = "0.95", together: int = 1) -> tuple[Fraction, ...]:
        """Of each measure's noise, in the measure's own terms."""
        return tuple(
            mechanism.error(confidence, together) * measure.worth
            for mechanism, measure in zip(self.mechanisms, self.bounded.measures, strict=True)
        )


def prepare(
    options: Sequence[Bounded], price: Price, *, account: Budget | None = None, family: Family | None = None
) -> Prepared:
    """The sound way with the least noise; among equals the cheapest to compute.

    Gaussian noise would close the account's pure currency, so while that is open it must halve the error to be
    chosen unasked.
    """
    if family is Gaussian and not price.allows_gaussian:
        raise InvalidParameter("mechanism", "Gaussian", "Laplace for a pure price", fix="give a delta, or a rho")
    families: list[Family] = [Laplace, Gaussian] if price.allows_gaussian else [Laplace]
    best = [_best(options, price, each) for each in ([family] if family is not None else families)]
    chosen = min(best, key=_noise)
    if family is None and isinstance(chosen.mechanisms[0], Gaussian):
        chosen = _kept_pure(best, chosen, account)
    return chosen


def _kept_pure(best: list[Prepared], gaussian: Prepared, account: Budget | None) -> Prepared:
    """The Laplace release instead, where Gaussian noise would close the pure currency for too little."""
    laplace = next(each for each in best if isinstance(each.mechanisms[0], Laplace))
    if account is None or "pure" not in account.remaining or not account.affords(laplace.curve):
        return gaussian
    affordable = account.affords(gaussian.curve)
    gain = math.exp((_noise(laplace) - _noise(gaussian)) / len(gaussian.mechanisms))
    if affordable and gain >= 2:
        return gaussian
    why = f"Gaussian noise would have {1 / gain:.2g} times the error but close the account's pure currency"
    return Prepared(laplace.bounded, laplace.price, laplace.mechanisms, laplace.curve, f"{laplace.reason}; {why}")


def _best(options: Sequence[Bounded], price: Price, family: Family) -> Prepared:
    suited = [
        each for each in options if each.bounding is not (Bounding.CLIP_L1 if family is Gaussian else Bounding.CLIP_L2)
    ]
    ready = [_calibrated(each, price, family) for each in suited]
    chosen = ready[0]
    for each in ready[1:]:
        if _noise(each) < _noise(chosen) - math.log(_TIE):
            chosen = each
    others = [each.bounded.bounding.value for each in ready if each is not chosen]
    reason = f"{chosen.bounded.bounding.value}: least noise" + (
        f" ({', '.join(others)}: no less)" if others else " (the only way)"
    )
    return Prepared(chosen.bounded, price, chosen.mechanisms, chosen.curve, reason)


def _noise(prepared: Prepared) -> float:
    """The sum of the logarithms of all half-widths: what is compared."""
    return sum(math.log(float(max(each, Fraction(1, 10**9)))) for each in prepared.half_widths())


def _calibrated(bounded: Bounded, price: Price, family: Family) -> Prepared:
    changes = [measure.sensitivity for measure in bounded.measures]
    count = len(changes)
    if family is Laplace and price.epsilon is not None:
        made: list[Additive] = [Laplace(change.l1 * count / price.epsilon) for change in changes]
    else:
        sizes = [
            change.l1 * count if family is Laplace else Fraction(change.l2 * math.sqrt(count)) for change in changes
        ]
        # each measure's noise starts at its share of a price of 1, and all grow together until the promise is kept
        factor = least(lambda size: price.kept_by(_curve(_family(family, sizes, size), bounded)), str(price))
        made = _family(family, sizes, factor)
    return Prepared(bounded, price, tuple(made), _curve(made, bounded), "")


def _family(family: Family, sizes: Sequence[Fraction], factor: Fraction) -> list[Additive]:
    return [family(_rounded(size * factor)) for size in sizes]


def _rounded(size: Fraction) -> Fraction:
    """Up, to thirteen significant digits: a scale that prints."""
    digits = 13 - math.ceil(math.log10(size))
    power = Fraction(10) ** digits
    return Fraction(math.ceil(size * power)) / power


def _curve(mechanisms: Sequence[Additive], bounded: Bounded) -> Curve:
    return compose(
        mechanism.curve(measure.sensitivity) for mechanism, measure in zip(mechanisms, bounded.measures, strict=True)
    )
