"""Split the price of a question over its measurements, for the least relative error of its results.

The sensitivity of a result to one total is evaluated at a public point: a group of many rows, whose values are spread
evenly but not around the middle of their range, and where pairs of values are somewhat correlated, so that no moment
is without effect. The shares are therefore public, too.

Total j moves by at most s_j with one unit, in the norm of its noise. With the share f_j of the price its noise has the
size s_j·f_j^{−1/k}, in units of what the whole price gives to a total that moves by one: k = 1 for Laplace noise, whose
price is ε = Σ s_j/b_j, and k = 2 for Gaussian noise, whose price is ρ = Σ s_j²/2σ_j². Result i is wrong by at most
Σ_j a_ij·(noise of j), because its range holds whenever every total is within its own: a_ij says how far the result
moves with one total, at a group size and a spread that are public. Let c_ij = a_ij·s_j.

Theorem. Σ_j C_j·f_j^{−1/k} with Σ f_j = 1 is least at f_j ∝ C_j^{k/(k+1)}, where it is (Σ_j C_j^{k/(k+1)})^{(k+1)/k}.
Proof: by Hölder's inequality with exponents (k+1)/k and k+1, applied to C_j^{k/(k+1)} = X_j·Y_j with
X_j = (C_j·f_j^{−1/k})^{k/(k+1)} and Y_j = f_j^{1/(k+1)}, Σ C_j^{k/(k+1)} is at most the k/(k+1)-th power of
Σ C_j·f_j^{−1/k}, times (Σ f_j)^{1/(k+1)} = 1; they are equal where C_j·f_j^{−1/k} is proportional to f_j. ∎

A result alone would have the error u_i of this theorem with c_ij. What is made least is Σ_i w_i·error_i/u_i: how many
times as wrong each result is as it would be alone, by weight. That is Σ_j C_j·f_j^{−1/k}, C_j = Σ_i w_i·c_ij/u_i.
Shares follow from policy, question and price alone, so nothing is learnt from them.

Parts of a question become measurements: noise on totals, or selections by rank.

Each measurement gets a share of the price. What a share buys depends on the noise family: shares of ε are ε's for
Laplace noise, and shares of ρ for Gaussian noise, where a selection of range η costs ρ = η²/8 (Cesar & Rogers 2021)
and noise of size σ on a sensitivity of 1 costs ρ = 1/2σ².
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms.additive import FAMILIES, LEAST_STEPS, MAX_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Estimator, MeasureSteps
from sfumato.plan.bounding import BoundedPlan, ScaledMember
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import GroupTotals, MeasureTotals, PlanReading
from sfumato.plan.sharing import MeasuredRequest
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Measurement
from sfumato.release.parts.scales import NoiseScale, NoisyScale, SampledScale
from sfumato.release.prices import Price

Family = type[Additive]
NamedNoise = Family | str
"""A family of noise as a caller names it: by its class, or as "laplace" or "gaussian"."""
EXTREME_TOTALS = (0, LARGEST_INTEGER, -LARGEST_INTEGER)
"""Totals at the ends of their range, for dry runs."""


def noise_family(name_or_class: NamedNoise | None) -> Family | None:
    """Resolve a noise family from its class or its case-insensitive name; None for None.

    >>> noise_family("gaussian").__name__
    'Gaussian'
    """
    if name_or_class is None or (isinstance(name_or_class, type) and name_or_class in FAMILIES):
        return name_or_class
    family = (
        {family_class.__name__.lower(): family_class for family_class in FAMILIES}.get(name_or_class.lower())
        if isinstance(name_or_class, str)
        else None
    )
    if family is None:
        raise InvalidParameter(
            "mechanism",
            name_or_class,
            '"laplace", "gaussian", sf.Laplace or sf.Gaussian',
            fix='write mechanism="gaussian"',
        )
    return family


@dataclass(frozen=True)
class NoiseStrength:
    """The strength of measurements: turns a share of the price into a noise size, or the ε of a selection."""

    family: Family
    price: Price | None = None
    """The price, where a closed form gives the noise."""
    size_without_price: Fraction = Fraction(1)
    """Without a price, the noise relative to that of a whole price of 1."""

    def size(self, share: Fraction) -> Fraction:
        """Return the noise size for totals whose sensitivity is 1 in the family's norm."""
        if self.price is not None:
            epsilon, rho = (
                None if budget is None else budget * share for budget in (self.price.epsilon, self.price.rho)
            )
            closed_form_size = self.family.closed_form(epsilon=epsilon, rho=rho)
            assert closed_form_size is not None
            return closed_form_size
        return self.size_without_price / (share if self.family.order == 1 else Fraction(math.sqrt(share)))

    def epsilon(self, share: Fraction) -> Fraction:
        """Return the ε of a selection."""
        if self.price is not None:
            assert self.price.epsilon is not None
            return self.price.epsilon * share
        unscaled_epsilon = share if self.family.order == 1 else 2 * Fraction(math.sqrt(share))
        return rounded_down_to_13_digits(unscaled_epsilon / self.size_without_price)


class QuestionPart(Protocol):
    """A part of a question under one bounding strategy: how it is read, measured and stored."""

    def share_index(self, index: int) -> int:
        """Return the index of the share that pays for the measure at this index."""
        ...

    @property
    def bounded(self) -> BoundedPlan: ...

    @property
    def shares(self) -> int:
        """Count the shares of the price that this part takes."""
        ...

    def reading(self, groups: tuple[GroupValues, ...]) -> PlanReading[Any]:
        """Return the reading of these groups."""
        ...

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        """Return the measurements at this strength."""
        ...

    def draw(self, measurements: Sequence[Measurement], exact: Any) -> Integers:
        """Draw the stored numbers, one row per group, from what was read."""
        ...

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        """Return how the stored numbers are decoded, in the order of the results made from them."""
        ...

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        """Return the measures at these indices, in integer steps."""
        ...

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        """Draw for three groups whose totals are at the extremes; reads no data."""
        ...

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:
        """Return the numbers of a hypothetical group of so many rows, spread evenly over the measure's range."""
        ...


class OtherPart(QuestionPart, Protocol):
    """A part that is not a noisy total: a selection, a histogram or a rank."""

    noisy: ClassVar[bool]
    """Whether noise is added; otherwise a value is selected."""

    @property
    def numbers_per_group(self) -> int:
        """Count the numbers per group that are held in memory while it is measured."""
        ...

    def at_strength(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> OtherPart:
        """Return the part as it is measured at this strength, where its limits follow from the price."""
        ...

    def with_ranges_if_sold(self, confidence: Fraction | None) -> OtherPart:
        """Return the part with confidence intervals around selected values, where those can be bought."""
        ...

    def scales_for_reuse(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        """Return the scales whose half-widths are compared with those of stored answers."""
        ...

    def accuracy_for_reuse(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        """Return quality figures of the selections by name, beside half-widths; less is better."""
        ...

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        """Describe what is drawn, and how good it is."""
        ...


@dataclass(frozen=True)
class NoisyTotals:
    """All totals of a question with additive noise, each measure with its own share of the price.

    Where groups are discovered, a last share pays for the discovery.
    """

    bounded: BoundedPlan

    @property
    def shares(self) -> int:
        return len(self.bounded.measures)

    def share_index(self, index: int) -> int:
        return self.bounded.members[index].share_index

    def reading(self, groups: tuple[GroupValues, ...]) -> GroupTotals:
        return GroupTotals(self.bounded, groups)

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        return tuple(
            Measurement(MeasureTotals(self.bounded, index), calibrated_noise(strength, scaled.sensitivity, share))
            for index, (scaled, share) in enumerate(zip(self.bounded.noisy_measures, shares, strict=False))
        )

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        noisy_totals = [measurement.draw(measurement.reading.extract(exact)) for measurement in measurements]
        return np.hstack(noisy_totals) if noisy_totals else np.zeros((len(exact), 0), np.int64)

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoisyScale | SampledScale, ...]:
        by_member: list[NoisyScale] = []
        by_value: dict[NoisyScale, NoisyScale] = {}  # equal ones are one object, described and encoded once
        for member in self.bounded.members:
            mechanism = measurements[member.share_index].mechanism
            scale = NoisyScale(member.unit_value, mechanism, member.coordinates, member.rounding)
            by_member.append(by_value.setdefault(scale, scale))
        scales = tuple(by_member)
        rate = self.bounded.sample
        if rate is None:
            return scales
        limits = (
            self.bounded.noisy_measures[member.share_index].add_remove_sensitivity.per_group * member.unit_value
            for member in self.bounded.members
        )
        return tuple(SampledScale(scale, rate, limit) for scale, limit in zip(scales, limits, strict=True))

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return tuple(self.bounded.members[index] for index in indices)

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        width = sum(measure.coordinates for measure in self.bounded.measures)
        return self.draw(measurements, np.array([[end] * width for end in EXTREME_TOTALS], np.int64))

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:
        share = self.bounded.sample or 1
        return tuple(
            int(share * size * total / member.unit_value)
            for member in self.bounded.members
            for total in member.middle_row_contributions
        )


def calibrated_noise(strength: NoiseStrength, change: Sensitivity, share: Fraction) -> Additive:
    """Return the noise that a share buys for totals of this sensitivity."""
    family = strength.family
    size = family.norm(change) * strength.size(share)
    if size > MAX_STEPS:
        rule = "higher: at this price the noise is too large to draw exactly"
        fix = "pay more, ask for fewer columns, or declare narrower bounds"
        raise InvalidParameter(
            "price", ValueWords(f"a price that needs noise of size {float(size):.3g}"), rule, fix=fix
        )
    keeps_exact_size = family.pure and strength.price is not None
    return family.of_size(max(size if keeps_exact_size else rounded_up_to_13_digits(size), LEAST_STEPS))


def rounded_up_to_13_digits(size: Fraction) -> Fraction:
    """Round a size up to thirteen significant digits, so that it prints exactly."""
    power = Fraction(10) ** (13 - math.ceil(math.log10(size)))
    return Fraction(math.ceil(size * power)) / power


def rounded_down_to_13_digits(size: Fraction) -> Fraction:
    """Round an ε down to thirteen significant digits, so that it prints exactly."""
    power = Fraction(10) ** (13 - math.ceil(math.log10(size)))
    return Fraction(math.floor(size * power)) / power


_MAX_UNITS = 2**24
"""The units of the largest share; shares are whole multiples of a unit."""
_MIN_UNITS = 2**14
"""The least units of a share: for a thousandth of the price, a total of little effect has noise that can be drawn."""


@dataclass(frozen=True)
class WantedResult:
    """A wanted result: the totals it reads, and its sensitivity to each of them."""

    effect_by_total: Mapping[int, float]
    """By the index of each total that is read, how far the result moves when the total moves by one."""
    weight: Fraction = field(default=Fraction(1))
    """The weight of its error."""

    def __init__(self, effect_by_total: Mapping[int, float], weight: Number = 1) -> None:
        object.__setattr__(self, "effect_by_total", dict(effect_by_total))
        object.__setattr__(self, "weight", exact(weight, "weight", POSITIVE))
        if not self.effect_by_total or not all(0 <= effect < math.inf for effect in self.effect_by_total.values()):
            raise InvalidParameter(
                "effect_by_total", self.effect_by_total, "finite numbers of at least 0, one for each total"
            )


def split_for_least_error(sizes: Sequence[float], results: Sequence[WantedResult], order: int) -> tuple[Fraction, ...]:
    """Split the price over totals for the least weighted relative error of the results; shares sum to one.

    ``sizes`` are the sensitivities of the totals, and ``order`` is the norm of the noise: 1 or 2.
    """
    costs = [0.0] * len(sizes)
    for result in results:
        alone_error = _error_at_whole_price(sizes, result, order)
        for total, effect in result.effect_by_total.items():
            costs[total] += float(result.weight) * effect * sizes[total] / alone_error if alone_error else 0.0
    optimal_shares = [cost ** (order / (order + 1)) for cost in costs]
    largest = max(optimal_shares)
    share_units = [
        max(_MIN_UNITS, round(_MAX_UNITS * optimal_share / largest)) if largest else 1
        for optimal_share in optimal_shares
    ]
    return tuple(Fraction(units, sum(share_units)) for units in share_units)


def even_shares(count: int) -> tuple[Fraction, ...]:
    """Return equal shares."""
    return (Fraction(1, count),) * count


def error_ratio(sizes: Sequence[float], result: WantedResult, shares: Sequence[Fraction], order: int) -> float:
    """Return the ratio of a result's error with these shares to its error alone at the whole price."""
    alone_error = _error_at_whole_price(sizes, result, order)
    shared_error = sum(
        effect * sizes[total] / float(shares[total]) ** (1 / order) for total, effect in result.effect_by_total.items()
    )
    return shared_error / alone_error if alone_error else 1.0


def _error_at_whole_price(sizes: Sequence[float], result: WantedResult, order: int) -> float:
    power = order / (order + 1)
    return math.fsum((effect * sizes[total]) ** power for total, effect in result.effect_by_total.items()) ** (
        1 / power
    )


_ROWS = 10_000
_NOISE = 1e-3
"""The noise of the reference group, relative to its largest total: so small that effects are linear."""
_TILT = Fraction(1, 4)
"""How far the reference values lie above the middle, in half ranges."""


@dataclass(frozen=True)
class WeightedRequests:
    """The requested results, each with the weight of its error."""

    requests: tuple[MeasuredRequest, ...]
    weights: tuple[Fraction, ...]


@dataclass(frozen=True)
class PriceSplit:
    """The share of every measurement of every part, and the resulting relative errors."""

    shares: tuple[tuple[Fraction, ...], ...]
    error_ratios: tuple[float, ...] = ()
    """For each result, its error relative to that of the result alone at the whole price."""
    even_error_ratios: tuple[float, ...] = ()
    """The same ratios if all shares were equal."""

    @property
    def has_equal_shares(self) -> bool:
        """Return whether all shares are equal."""
        return len({share for part in self.shares for share in part}) <= 1


def split_price(parts: Sequence[QuestionPart], requests: WeightedRequests | None, family: Family) -> PriceSplit:
    """Split a price over all measurements of these parts; evenly where no results are given."""
    counts = [part.shares for part in parts]
    if requests is None:
        return PriceSplit(_shares_by_part(even_shares(sum(counts)), counts))
    totals = parts[0]
    assert isinstance(totals, NoisyTotals)
    sizes = [float(family.norm(scaled.sensitivity) * scaled.unit_value) for scaled in totals.bounded.noisy_measures]
    sizes += [1.0] * (sum(counts) - len(sizes))  # choices err in inverse proportion to their share
    results = [
        _wanted_result(result, weight, parts)
        for result, weight in zip(requests.requests, requests.weights, strict=True)
    ]
    shares = split_for_least_error(sizes, [*results, *_group_discovery_results(totals)], family.order)
    equal_shares = even_shares(len(sizes))
    error_ratios, even_ratios = (
        tuple(error_ratio(sizes, result, candidate_shares, family.order) for result in results)
        for candidate_shares in (shares, equal_shares)
    )
    return PriceSplit(_shares_by_part(shares, counts), error_ratios, even_ratios)


def _shares_by_part(shares: Sequence[Fraction], counts: Sequence[int]) -> tuple[tuple[Fraction, ...], ...]:
    starts = [sum(counts[:index]) for index in range(len(counts))]
    return tuple(tuple(shares[start : start + count]) for start, count in zip(starts, counts, strict=True))


def _wanted_result(request: MeasuredRequest, weight: Fraction, parts: Sequence[QuestionPart]) -> WantedResult:
    """Return the measurements that a result reads, with its effects. A result of one total has effect 1."""
    part, totals = parts[request.part], parts[0]
    if not isinstance(part, NoisyTotals):
        first_share, (index,) = sum(earlier.shares for earlier in parts[: request.part]), request.measures
        return WantedResult({first_share + part.share_index(index): 1.0}, weight)
    assert isinstance(totals, NoisyTotals)
    members = [totals.bounded.members[index] for index in request.measures]
    if len(members) == 1:
        return WantedResult({members[0].share_index: 1.0}, weight)
    estimator: Any = request.request.estimator(*members)  # a frozen value
    effects = _effects_of_totals(estimator, tuple(map(_reference_totals, members)), tuple(map(_probe_noise, members)))
    effects_by_share: dict[int, float] = {}
    for member, effect in zip(members, effects, strict=True):
        # in the unit of the measure that it is released with
        unit_ratio = member.unit_value / totals.bounded.noisy_measures[member.share_index].unit_value
        effects_by_share[member.share_index] = effects_by_share.get(member.share_index, 0.0) + effect * float(
            unit_ratio
        )
    return WantedResult(effects_by_share, weight)


def _group_discovery_results(totals: NoisyTotals) -> list[WantedResult]:
    """Return the discovery of groups as one more result, where groups are discovered."""
    return [WantedResult({len(totals.bounded.noisy_measures): 1.0})] if totals.bounded.discovers_groups else []


def _reference_totals(scaled: ScaledMember) -> tuple[Fraction, ...]:
    """Return the totals of the reference group."""
    totals = [_ROWS * middle for middle in scaled.middle_row_contributions]
    if len(totals) == 1:
        return tuple(totals)
    above, below = totals
    return above * (1 + _TILT), below * (1 - _TILT)


def _probe_noise(scaled: ScaledMember) -> Fraction:
    """Return a small noise, in the measure's own unit."""
    return Fraction(_NOISE) * _ROWS * scaled.size * scaled.step


@lru_cache(maxsize=1024)
def _effects_of_totals(
    estimator: Estimator, reference_totals: tuple[tuple[Fraction, ...], ...], probe_noise: tuple[Fraction, ...]
) -> tuple[float, ...]:
    """Compute numerically how far a result moves with the totals of each of its measures."""
    columns = [np.array([float(total)]) for totals in reference_totals for total in totals]
    measure_of_column = [measure_index for measure_index, totals in enumerate(reference_totals) for _ in totals]

    def reach(moved_measure: int | None) -> float:
        widths: list[float | Floats] = [
            float(probe_noise[measure_index]) if measure_index == moved_measure else 0.0
            for measure_index in measure_of_column
        ]
        estimate = estimator.estimate(columns, widths)
        return float(estimate.high[0] - estimate.low[0]) / 2

    baseline = reach(None)
    effects = [(reach(index) - baseline) / float(noise) for index, noise in enumerate(probe_noise)]
    return tuple(max(effect, 0.0) if np.isfinite(effect) else 0.0 for effect in effects)
