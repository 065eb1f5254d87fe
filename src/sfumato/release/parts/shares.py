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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Estimator
from sfumato.plan.bounding import ScaledMember
from sfumato.plan.sharing import MeasuredRequest
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.parts.question_parts import Family, NoisyTotals, QuestionPart

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
