"""Choose the bounding strategy, the noise and the split of the price from the policy alone; no data are read.

Every measurement of a question gets the share of the price that minimises the error of the requested columns
(``parts.shares``). Its noise is calibrated to the sensitivity that the bounding proves, and the release's privacy curve
composes the mechanisms that are actually drawn. Where groups are discovered in the data, their selection takes one more
share and also spends δ: all of it beside Laplace noise, half of it beside Gaussian noise.

Theorem (discovered groups). The keys K are selected by a key threshold, and then noise is added to the totals of K with
all declared values of the other keys. For each fixed K those totals move by no more than the bounding proves, whether
the data hold the keys of K or not. So the release is an adaptive composition of the two (Dwork & Roth 2014, Thm B.1; as
curves: Zhu, Dong & Wang 2022, Thm 10), and its curve is that of both together, under either relation of neighbours. ∎

The price of a question over a secret Poisson sample of the units.

Theorem. Let a release on all units be (ε₀, δ₀)-DP. On a sample in which each unit is with probability at most q it is
(ln(1 + q(e^ε₀ − 1)), q·δ₀)-DP, under add-remove neighbours and, if the release bounds the presence of a unit, under
replace (``privacy.subsampled_losses``; Balle, Barthe & Gaboardi 2018, Thms 8 and 2). So a price (ε, δ) buys the noise
of (ln(1 + (e^ε − 1)/q), δ/q) on the sample. A ρ-zCDP release stays ρ-zCDP on a sample, since D_α is quasi-convex, and
no smaller ρ holds at every order for Gaussian noise: a price in ρ buys the same noise, and the account is charged less,
by the curve.

What the theorem needs, and where it is kept:

- Everything that depends on rows is computed from the sample: the filter is in every scan (``plan.limits``), and
  who owns a row does not depend on other units (``engine.duckdb.owners``). Groups, bounds and limits are the policy's.
- The sample is secret, and each release has its own key: a reader who knows the key knows who is in it, and is
  protected by ε₀ alone.
- One unit's coin is tossed once: its rows are together. A row without an id has no text that the other rows lack, and a
  unit in a period is no unit of the sampled accounts: both are refused.
- The number of units that a policy declares is that of all units, not of the sample: no sensitivity uses it.
- Only noise on totals is run on a sample. Groups that are discovered in the data would be shown more often where the
  sample has many of their units, and ranges would not hold for those shown; quantiles have no range in rows of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import KeyThreshold
from sfumato.mechanisms.additive import FAMILIES, Laplace
from sfumato.mechanisms.key_thresholds import MAX_KEYS, MAX_WEIGHT, is_gaussian_surely_no_better
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import KeyHolders, MeasureTotals
from sfumato.privacy import Budget, Curve, Neighbours
from sfumato.privacy.calibration import least_parameter_by_shortfall
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number, format_probability
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.parts.scales import NoiseScale, NoisyScale, SampledScale
from sfumato.release.parts.shares import (
    Family,
    NoiseStrength,
    NoisyTotals,
    OtherPart,
    PriceSplit,
    QuestionPart,
    WeightedRequests,
    rounded_down_to_13_digits,
    split_price,
)
from sfumato.release.payers import PurchaseTerms, describe_terms
from sfumato.release.prices import GAUSSIAN_NEEDS, GIVE_DELTA, Price

_MAX_EPSILON = 400
"""Beyond this a loss on a sample is not told from a failure."""


def price_before_sampling(price: Price, rate: Fraction) -> Price:
    """Return the price that a release over all units may have, so that on the sample it has this one.

    ε is rounded down by more than the logarithms err.
    """
    if price.epsilon is None:
        return price
    if price.epsilon > _MAX_EPSILON:
        rule = f"at most {_MAX_EPSILON} for a release on a sample"
        fix = "give a smaller epsilon, or leave out sample (--sample)"
        raise InvalidParameter("epsilon", float(price.epsilon), rule, fix=fix)
    epsilon = rounded_down_to_13_digits(
        Fraction(_epsilon_before_sampling(float(price.epsilon), float(rate))) * (1 - Fraction(1, 10**12))
    )
    delta = price.delta / rate
    if delta >= 1:
        rule = f"below the sampled share of the units, {float(rate):g}"
        raise InvalidParameter("delta", float(price.delta), rule, fix="give a delta of 1e-6 or less")
    return Price(epsilon, delta)


def _epsilon_before_sampling(epsilon: float, rate: float) -> float:
    """Compute ln(1 + (e^ε − 1)/q)."""
    return math.log1p(math.expm1(epsilon) / rate)


_PRECISION = Fraction(1, 2**16)
"""The relative precision of the calibrated noise; a finer one would take three times the search steps."""
_NEGLIGIBLE = 1e-3
"""The relative difference of noise below which strategies count as equal: rounded totals of one may need a little more
than those of another that drops rows."""


@dataclass(frozen=True)
class PricedRelease:
    """A release that is ready to be charged: its measurements with their noise, its price, and the reason."""

    totals: NoisyTotals
    """All totals of the question; there may be none."""
    others: tuple[OtherPart, ...]
    """The measurements beside totals, such as quantiles."""
    measurements: tuple[tuple[Measurement, ...], ...]
    """The measurements of each part, in units of its totals."""
    group_selection: tuple[Measurement, ...]
    """The selection of discovered groups, if any."""
    split: PriceSplit
    price: Price
    reason: str
    unused_delta_reason: str = ""
    """Why a δ in the price has no effect; empty where the price has none, or the δ is used."""

    @property
    def parts(self) -> tuple[QuestionPart, ...]:
        return (self.totals, *self.others)

    @cached_property
    def batch(self) -> Batch:
        """All measurements, the selection of groups last."""
        return Batch((*(measurement for part in self.measurements for measurement in part), *self.group_selection))

    @property
    def bounded(self) -> BoundedPlan:
        """The bounded plan of the totals."""
        return self.totals.bounded

    @property
    def measured_plans(self) -> tuple[BoundedPlan, ...]:
        """The bounded plans of all parts that have measurements."""
        plans = [part.bounded for part, measurements in zip(self.parts, self.measurements, strict=True) if measurements]
        return tuple(plans or [self.bounded])

    @property
    def strategy_names(self) -> str:
        """The bounding strategies of all parts that have measurements, in words."""
        return "; ".join(dict.fromkeys(bounded.strategy.value for bounded in self.measured_plans))

    @property
    def totals_mechanisms(self) -> tuple[Additive, ...]:
        return tuple(measurement.mechanism for measurement in self.measurements[0])

    @property
    def selection(self) -> KeyThreshold | None:
        """The mechanism that decides which discovered groups are released."""
        return self.group_selection[0].mechanism if self.group_selection else None

    @property
    def curve(self) -> Curve:
        return self.batch.curve

    @cached_property
    def terms(self) -> PurchaseTerms:
        """The terms of every release at this price, but for the version of the data and the salt."""
        return describe_terms([part.bounded for part in self.parts], self.price)

    @cached_property
    def scales(self) -> tuple[tuple[NoiseScale, ...], ...]:
        """For each part, the scales of the integers that are drawn for it."""
        return tuple(
            part.scales(measurements) for part, measurements in zip(self.parts, self.measurements, strict=True)
        )

    @cached_property
    def noisy_scales(self) -> tuple[NoisyScale | SampledScale, ...]:
        """The scales of everything that gets additive noise, in all parts."""
        return tuple(scale for part in self.scales for scale in part if isinstance(scale, (NoisyScale, SampledScale)))

    @cached_property
    def compared_half_widths(self) -> tuple[Fraction, ...]:
        """The half-widths at 95 % confidence, by which stored answers are compared."""
        parts = zip(self.others, self.measurements[1:], strict=True)
        scales = chain(self.scales[0], *(part.scales_for_reuse(measurements) for part, measurements in parts))
        return tuple(
            scale.half_width(DEFAULT_CONFIDENCE, 1) for scale in scales if isinstance(scale, (NoisyScale, SampledScale))
        )

    @property
    def pure(self) -> bool:
        """Whether all noise satisfies pure ε-DP; a selection of discovered groups still needs a δ."""
        return all(scale.mechanism.pure for scale in self.noisy_scales)

    def half_widths(self, confidence: Number = DEFAULT_CONFIDENCE, together: int = 1) -> tuple[Fraction, ...]:
        """Return the half-width of everything that gets noise, in the units of its measure."""
        return tuple(scale.half_width(confidence, together) for scale in self.noisy_scales)

    def on_sample(self, price: Price, rate: Fraction | None) -> PricedRelease:
        """Return the same noise on the totals of a sample of the units, or itself without a rate."""
        if rate is None:
            return self
        bounded = replace(self.bounded, sample=rate)
        measurements = tuple(
            Measurement(MeasureTotals(bounded, index), measurement.mechanism)
            for index, measurement in enumerate(self.measurements[0])
        )
        return replace(self, totals=NoisyTotals(bounded), measurements=(measurements,), price=price)


def price_release(
    options: Sequence[BoundedPlan],
    price: Price,
    *,
    others: tuple[OtherPart, ...] = (),
    requests: WeightedRequests | None = None,
    account: Budget | None = None,
    family: Family | None = None,
    sample: Fraction | None = None,
) -> PricedRelease:
    """Return the release with the least noise on totals at this price; among equals, the cheapest to compute. With
    ``sample``, totals are those of a secret sample of the units (``price_before_sampling``).

    The parts in ``others`` have strategies of their own. The price is split to minimise the weighted errors of
    ``requests``, and evenly without it. After Gaussian noise the account can no longer be charged in pure ε, so while
    it still can, Gaussian noise is chosen by default only if it at least halves the error.
    """
    if family is not None and not family.pure and not price.allows_gaussian:
        raise InvalidParameter("mechanism", "Gaussian", GAUSSIAN_NEEDS, fix=GIVE_DELTA)
    families = [family] if family is not None else _candidate_families(price, account)
    only_selections = not options[0].noisy_measures and not any(part.noisy for part in others)
    if only_selections:  # pure ε pays for them
        families = [Laplace]
    noise_price = price if sample is None else price_before_sampling(price, sample)
    candidates = [
        _least_noise_release(options, others, requests, noise_price, candidate_family).on_sample(price, sample)
        for candidate_family in families
        if _compatible_options(options, candidate_family)
    ]
    if not candidates:
        raise _incompatible_strategy_refusal(options[0].strategy)
    least_noise = candidates[0] if len(candidates) == 1 else min(candidates, key=_sum_log_half_widths)
    chosen = least_noise if least_noise.pure else _prefer_pure(candidates, least_noise, account)
    if not chosen.pure or chosen.selection is not None or not price.delta:  # discovered groups use the δ
        return chosen
    # Laplace noise is calibrated to ε alone, so the receipt must not quote a δ that nothing uses.
    stated_reason = _ONLY_SELECTIONS if only_selections else _LAPLACE_REQUESTED if family is not None else None
    reason = stated_reason or _explain_unused_delta(chosen, candidates)
    return replace(
        chosen,
        price=Price(price.epsilon),
        unused_delta_reason=f"δ = {format_probability(price.delta)} has no effect here: {reason}.",
    )


NO_LATER_PURE_CHARGES = "later answers of this account could no longer be charged in ε alone"
"""The consequence of a first Gaussian release."""
_ONLY_SELECTIONS = "every column is a selected value, and a selection is paid for with ε alone"
_LAPLACE_REQUESTED = "you asked for Laplace noise, which is paid for with ε alone"


def _explain_unused_delta(chosen: PricedRelease, candidates: Sequence[PricedRelease]) -> str:
    """Describe why pure noise was chosen although the δ would have allowed Gaussian noise."""
    gaussian = next((candidate for candidate in candidates if not candidate.pure), None)
    if gaussian is None:
        return "the noise is paid for with ε alone"
    error_ratio = math.exp((_sum_log_half_widths(gaussian) - _sum_log_half_widths(chosen)) / len(chosen.noisy_scales))
    if error_ratio >= 1:
        gaussian_error = f"the error of Gaussian noise would be {error_ratio:.3g} times as large"
        return f"the answer has Laplace noise, which needs no δ; {gaussian_error}"
    comparison = f"Gaussian noise would have {error_ratio:.2g} times the error"
    if error_ratio <= 1 / 2:
        return f"{comparison}, but the account can no longer pay for it"
    consequence = f"but {NO_LATER_PURE_CHARGES}, so it is the default only if it halves the error"
    return f'{comparison}, {consequence}; ask for it with mechanism="gaussian" (--mechanism gaussian)'


def _compatible_options(options: Sequence[BoundedPlan], family: Family) -> list[BoundedPlan]:
    """Return the boundings that a family of noise can use: L2 clipping needs Gaussian noise, L1 clipping Laplace."""
    return [bounded for bounded in options if bounded.strategy.norm_order in (None, family.order)]


def _incompatible_strategy_refusal(strategy: Strategy) -> InvalidParameter:
    noise_name, advice = (
        ("Gaussian", "a delta or a rho") if strategy is Strategy.CLIP_L2 else ("Laplace", "mechanism=sf.Laplace")
    )
    rule = f"another strategy or left out, because {strategy.value} works only with {noise_name} noise"
    return InvalidParameter("strategy", strategy.value, rule, fix=f"give {advice}, or another strategy")


def _candidate_families(price: Price, account: Budget | None) -> list[Family]:
    """Return the families of noise that are worth comparing.

    At the same ρ ≤ 2 Laplace noise is never narrower: its ρ is at least its mean loss ε − 1 + e^{−ε}, and its
    half-width ln(20)/ε then exceeds the Gaussian's 1.96/√(2ρ). But it keeps the account chargeable in pure ε.
    """
    charges_pure = account is not None and "pure" in account.remaining
    if price.rho is not None and price.rho <= 2 and not charges_pure:
        return [family for family in FAMILIES if not family.pure]
    return [family for family in FAMILIES if family.pure or price.allows_gaussian]


def _prefer_pure(candidates: list[PricedRelease], gaussian: PricedRelease, account: Budget | None) -> PricedRelease:
    """Return the Laplace release instead where Gaussian noise gains too little to give up charging in pure ε."""
    laplace = next((candidate for candidate in candidates if candidate.pure), None)
    if laplace is None or account is None or "pure" not in account.remaining or not account.affords(laplace.curve):
        return gaussian
    affordable = account.affords(gaussian.curve)
    gain = math.exp((_sum_log_half_widths(laplace) - _sum_log_half_widths(gaussian)) / len(gaussian.noisy_scales))
    if affordable and gain >= 2:
        return gaussian
    comparison = f"Gaussian noise would have {1 / gain:.2g} times the error, but {NO_LATER_PURE_CHARGES}"
    return replace(laplace, reason=f"{laplace.reason}; {comparison}")


def _least_noise_release(
    options: Sequence[BoundedPlan],
    others: tuple[OtherPart, ...],
    requests: WeightedRequests | None,
    price: Price,
    family: Family,
) -> PricedRelease:
    """Return the release under the strategy with the least sensitivity: with all else equal, noise grows with Δ₁
    (Laplace) or Δ₂ (Gaussian).
    """
    compatible = _compatible_options(options, family)
    log_sensitivities = [_log_sensitivity(bounded, family) for bounded in compatible]
    # the first among equals is the cheapest to compute, and cuts no groups
    negligible = _NEGLIGIBLE * len(compatible[0].noisy_measures)
    chosen = next(
        bounded
        for bounded, log_sensitivity in zip(compatible, log_sensitivities, strict=True)
        if log_sensitivity <= min(log_sensitivities) + negligible
    )
    rejected = (
        [bounded.strategy.value for bounded in compatible if bounded is not chosen] if chosen.noisy_measures else []
    )
    totals = NoisyTotals(chosen)
    split = split_price((totals, *others), requests, family)
    calibrated = _calibrate_to_price(PricedRelease(totals, others, (), (), split, price, ""), family)
    described = (
        chosen if chosen.noisy_measures or not others else calibrated.others[0].bounded
    )  # without totals, only the others count
    reason = f"{described.strategy.value}, " + (
        f"for the least noise: {' and '.join(rejected)} would need as much or more"
        if rejected
        else "the only strategy that applies"
    )
    return replace(calibrated, reason=reason)


def _log_sensitivity(bounded_plan: BoundedPlan, family: Family) -> float:
    """Return the sum of the logarithms of all sensitivities, in the units of the measures."""
    return sum(math.log(family.norm(scaled.sensitivity) * scaled.unit_value) for scaled in bounded_plan.noisy_measures)


def _sum_log_half_widths(prepared: PricedRelease) -> float:
    """Return the sum of the logarithms of all half-widths, by which families of noise are compared."""
    return sum(math.log(float(max(width, Fraction(1, 10**9)))) for width in prepared.half_widths())


def _calibrate_to_price(planned: PricedRelease, family: Family) -> PricedRelease:
    """Calibrate each measurement to its share of the price: by a closed form where there is one, else by a search for
    the least factor on all noise that satisfies the price.
    """
    price, totals, shares = planned.price, planned.totals, planned.split.shares
    epsilon = None if price.epsilon is None or not totals.bounded.discovers_groups else price.epsilon * shares[0][-1]
    selection = _group_selection(totals.bounded, epsilon, price.delta if family.pure else price.delta / 2)

    def at_strength(strength: NoiseStrength) -> PricedRelease:
        others = tuple(
            part.at_strength(strength, part_shares)
            for part, part_shares in zip(planned.others, shares[1:], strict=True)
        )
        measurements = tuple(
            part.measurements(strength, part_shares)
            for part, part_shares in zip((totals, *others), shares, strict=True)
        )
        return replace(planned, others=others, measurements=measurements, group_selection=selection)

    if _has_closed_form(price, family, planned.others):
        return at_strength(NoiseStrength(family, price))

    def scaled_by(factor: Fraction) -> PricedRelease:
        return at_strength(NoiseStrength(family, size_without_price=factor))

    return scaled_by(
        least_parameter_by_shortfall(
            lambda factor: price.log_excess_of(scaled_by(factor).curve), str(price), _PRECISION, price.noise_size_near
        )
    )


def _has_closed_form(price: Price, family: Family, others: Sequence[QuestionPart]) -> bool:
    """Return whether the noise for shares of this price follows without a search."""
    if others and price.epsilon is None:
        return False
    return family.closed_form(epsilon=price.epsilon, rho=price.rho) is not None


def _group_selection(bounded_plan: BoundedPlan, epsilon: Fraction | None, delta: Fraction) -> tuple[Measurement, ...]:
    """Return the selection of discovered groups, with the noise that releases the smallest ones."""
    if not bounded_plan.discovers_groups or epsilon is None:
        return ()
    holders = KeyHolders(bounded_plan)
    max_groups = MAX_WEIGHT if holders.is_weighted else MAX_KEYS
    if holders.max_keys_per_unit > max_groups:
        rule = (
            f"groups can be found in the data only if one unit is in at most {max_groups:,} of them; here it may be "
            f"in {holders.max_keys_per_unit:,}"
        )
        fewer_rows = "join on columns with fewer matching rows, or declare a smaller most_items for the list"
        fix = fewer_rows if holders.is_weighted else "lower the limit, for example .limit(groups=10)"
        raise Unsupported("too-many-keys", rule, fix=fix)
    return (
        Measurement(
            holders, key_threshold(epsilon, delta, holders.max_keys_per_unit, holders.is_weighted, holders.neighbours)
        ),
    )


@lru_cache(maxsize=256)
def key_threshold(
    epsilon: Fraction, delta: Fraction, max_keys: int, weighted: bool, neighbours: Neighbours
) -> KeyThreshold:
    """Return the key threshold that releases the smallest groups at this price."""
    threshold = KeyThreshold(epsilon, delta, max_keys, weighted, neighbours=neighbours)
    if max_keys == 1 or weighted or is_gaussian_surely_no_better(threshold):
        return threshold
    return min(threshold, KeyThreshold.gaussian(epsilon, delta, max_keys, neighbours), key=KeyThreshold.error)
