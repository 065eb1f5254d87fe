"""Parts of a question that are not totals: quantiles, distinct values and frequent values.

The quantiles of a column are selected by rank in one recursion, the minimum and the maximum each on their own. Beside
totals, a column's number of distinct values and its most frequent values can be measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.array_types import Integers
from sfumato.errors import Unsupported
from sfumato.mechanisms import FrequentValues, Quantiles
from sfumato.plan.aggregates.measures import MeasureSteps, ReadingKind
from sfumato.plan.aggregates.value_measures import DistinctValues, FrequentValue, Quantile
from sfumato.plan.bounding import BoundedPlan, bound_distinct_values
from sfumato.plan.descriptions import count_with_noun, expression_sql
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.dense_readings import (
    DistinctCounts,
    DistinctValueReading,
    MatchedValueReading,
    Ranks,
    ValueCounts,
    ValueFrequencies,
    ValueStepCounts,
    ValueTable,
    possible_value_count,
)
from sfumato.plan.sharing import ReadingPart
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Value
from sfumato.privacy.numbers import Number, format_number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Measurement
from sfumato.release.parts.scales import FrequentValueScale, KeyColumn, NoiseScale, NoisyScale, QuantileScale
from sfumato.release.parts.shares import (
    EXTREME_TOTALS,
    NoiseStrength,
    OtherPart,
    calibrated_noise,
    rounded_up_to_13_digits,
)

_ESTIMATE_SHARE = Fraction(1, 2)
"""The fraction of the quantiles' share that is left for them where intervals of their values are bought: each end
takes a quarter. With it, intervals extend about four times as far in ranks as the quantiles err without them.
"""
_MIN_EPSILON, _MAX_EPSILON = Fraction(1, 10**6), Fraction(500)
"""The ε per row of a unit: below the first a selection is pure chance, above the second it is deterministic."""


@dataclass(frozen=True)
class QuantilesPart:
    """Quantiles of one column, selected in one recursion for one share; minimum and maximum take a share each."""

    noisy: ClassVar[bool] = False

    bounded: BoundedPlan
    requests: tuple[Quantile, ...]
    confidence: Fraction | None = None
    """The confidence of bought intervals; None where none are bought."""

    @property
    def numbers_per_group(self) -> int:
        """Count three numbers per quantile: each may have two interval ends."""
        return 3 * len(self.requests)

    @property
    def _inner_probabilities(self) -> list[Fraction]:
        return sorted({quantile.probability for quantile in self.requests} - {0, 1})

    @property
    def _extreme_probabilities(self) -> list[Fraction]:
        return sorted({quantile.probability for quantile in self.requests} & {0, 1})

    @property
    def shares(self) -> int:
        return bool(self._inner_probabilities) + len(self._extreme_probabilities)

    def share_index(self, index: int) -> int:
        probability = self.requests[index].probability
        return (
            bool(self._inner_probabilities) + self._extreme_probabilities.index(probability)
            if probability in self._extreme_probabilities
            else 0
        )

    def reading(self, groups: tuple[GroupValues, ...]) -> ValueCounts:
        return ValueCounts(self.bounded, groups)

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        """Return the measurement of the quantiles, then of their interval ends, then of minimum and maximum."""
        view = Ranks(self.reading(()))
        settings = (view.ends, view.rows_per_unit, view.neighbours, bool(self.bounded.plan.keys))
        mechanisms: list[Quantiles] = []
        if self._inner_probabilities:
            epsilon = _clamp_epsilon(strength.epsilon(shares[0]), view.rows_per_unit)
            if self.confidence is None:
                mechanisms.append(Quantiles(self._inner_probabilities, epsilon, *settings))
            else:
                estimate = Quantiles(self._inner_probabilities, epsilon * _ESTIMATE_SHARE, *settings)
                mechanisms += [estimate, *estimate.ends(epsilon * (1 - _ESTIMATE_SHARE) / 2, self.confidence)]
        for probability, share in zip(
            self._extreme_probabilities, shares[bool(self._inner_probabilities) :], strict=True
        ):
            extreme_mechanism = Quantiles.minimum if probability == 0 else Quantiles.maximum
            mechanisms.append(extreme_mechanism(_clamp_epsilon(strength.epsilon(share), view.rows_per_unit), *settings))
        return tuple(Measurement(view, mechanism) for mechanism in mechanisms)

    def draw(self, measurements: Sequence[Measurement], exact_counts: ValueStepCounts) -> Integers:
        """Select every group's quantiles, each followed by its interval ends where they are bought."""
        selected = [measurement.mechanism.choose_groups(exact_counts) for measurement in measurements]
        columns = [
            selected[measurement_index][:, column]
            for quantile in self.requests
            for measurement_index, column in self._measurement_and_column_indices(quantile)
        ]
        return np.column_stack(columns)

    def _measurement_and_column_indices(self, quantile: Quantile) -> list[tuple[int, int]]:
        """Return where a quantile's numbers are: pairs of measurement index and column."""
        numbers_per_quantile = 1 if self.confidence is None else 3
        if quantile.probability in self._extreme_probabilities:
            return [
                (
                    bool(self._inner_probabilities) * numbers_per_quantile
                    + self._extreme_probabilities.index(quantile.probability),
                    0,
                )
            ]
        return [(index, self._inner_probabilities.index(quantile.probability)) for index in range(numbers_per_quantile)]

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        return tuple(self._quantile_scale(quantile, measurements) for quantile in self.requests)

    def _quantile_scale(self, quantile: Quantile, measurements: Sequence[Measurement]) -> QuantileScale:
        mechanism, *end_mechanisms = (
            measurements[index].mechanism for index, _ in self._measurement_and_column_indices(quantile)
        )
        return QuantileScale(self.bounded.measures[0].step, mechanism, quantile.probability, *end_mechanisms[:1])

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return tuple(self.bounded.measures[0] for _ in indices)

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        measure, scales = self.bounded.measures[0], self.scales(measurements)
        width = sum(scale.columns for scale in scales)
        return np.array([[end] * width for end in (measure.low, measure.high, measure.low)], np.int64)

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:  # noqa: ARG002
        measure = self.bounded.measures[0]
        values = (measure.low + int(quantile.probability * (measure.high - measure.low)) for quantile in self.requests)
        values_and_columns = zip(values, map(self._measurement_and_column_indices, self.requests), strict=True)
        return tuple(value for value, columns in values_and_columns for _ in columns)

    def at_strength(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> QuantilesPart:  # noqa: ARG002
        return self

    def scales_for_reuse(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        return self.scales(measurements)

    def with_ranges_if_sold(self, confidence: Fraction | None) -> QuantilesPart:
        return replace(self, confidence=confidence) if self._inner_probabilities else self

    def accuracy_for_reuse(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        """Return 1/ε of each selection by its purpose: where intervals are bought, there are more of them.

        An interval that was bought at a lower confidence is not as good, however strong the selection of its ends.
        """
        interval_ends = () if self.confidence is None else ("below", "above")
        names = ["quantiles", *interval_ends] if self._inner_probabilities else []
        names += ["greatest" if probability else "least" for probability in self._extreme_probabilities]
        errors = {
            name: 1 / measurement.mechanism.epsilon for name, measurement in zip(names, measurements, strict=True)
        }
        return errors if self.confidence is None else errors | {"missed": 1 - self.confidence}

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        column, coverage = (
            expression_sql(self.requests[0].ranked_expression),
            f"with {format_percent(confidence)} confidence",
        )
        scales = [(quantile, self._quantile_scale(quantile, measurements)) for quantile in self.requests]
        rank_errors = [
            f"{quantile.name} {_describe_rank_error(quantile, scale, confidence)}" for quantile, scale in scales
        ]
        interval_note = (
            "" if self.confidence is None else "; half of the quantiles' share pays for the intervals of values"
        )
        mechanism_words = "; ".join(dict.fromkeys(scale.words() for _, scale in scales))
        return f"{column}: {mechanism_words}", f"{'; '.join(rank_errors)}, {coverage}{interval_note}"


def _clamp_epsilon(epsilon: Fraction, rows: int) -> Fraction:
    """Clamp an ε to the drawable range: a larger one selects the same value, for less."""
    return min(max(epsilon, _MIN_EPSILON * rows), _MAX_EPSILON * rows)


def _describe_rank_error(quantile: Quantile, scale: QuantileScale, confidence: Number) -> str:
    rows = f"{scale.rank(confidence):,.0f}"
    if quantile.probability in (0, 1):
        side = "below" if quantile.probability == 0 else "above"
        return (
            f"selected at rank {abs(scale.mechanism.offset):,}, fixed by the price: at most {rows} rows "
            f"lie {side} the value"
        )
    return f"within {rows} rows of its rank"


_COVERING_UNITS = 256
"""How many units are assumed to have all possible values between them when the limit of matched values is chosen."""
_LEAST_GAIN = 8
"""How many times less noise matching must have than sampling: it counts fewer values of each unit."""


def matched_limit(max_values: int, noise_size: Fraction) -> int:
    """Return how many values are matched to one unit, where noise on a change of 1 has this size.

    It follows from the policy and the price alone. V/256 values per unit let 256 units have all V possible values
    between them. Beyond that, l values have l times the noise, and miss fewer values: V/(256·l) of them, say, so that
    the sum of both is least at l = √(V/(256·size)).
    """
    covering = Fraction(max_values, _COVERING_UNITS)
    return max(math.ceil(covering), math.isqrt(int(covering / noise_size)))


@dataclass(frozen=True)
class DistinctValuesPart:
    """The noisy number of distinct values of a column in every group, for one share.

    Where the engine matches values to units and the possible values are declared, at most ``matched_limit`` of them are
    matched to a unit. Elsewhere, and where that is more than an eighth of what the policy allows, they are sampled.
    """

    noisy: ClassVar[bool] = True

    bounded: BoundedPlan
    requests: tuple[DistinctValues, ...]
    max_values: int | None = None
    """The number of possible values of the column; None where values are sampled."""
    sampling_plan: BoundedPlan | None = None
    """Where values are matched, the plan under which they would be sampled."""

    @property
    def numbers_per_group(self) -> int:
        return 1

    @property
    def shares(self) -> int:
        return 1

    def share_index(self, index: int) -> int:  # noqa: ARG002
        return 0

    def reading(self, groups: tuple[GroupValues, ...]) -> DistinctValueReading | MatchedValueReading:
        if self.sampling_plan is not None:
            return MatchedValueReading(self.bounded, self.requests[0].value, groups)
        return DistinctValueReading(self.bounded, self.requests[0].value, groups)

    def at_strength(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> DistinctValuesPart:
        if self.max_values is None or self.bounded.strategy is not Strategy.SAMPLE:
            return self
        limit = min(matched_limit(self.max_values, strength.size(shares[0])), self.bounded.limits.rows_per_group)
        if _LEAST_GAIN * limit > self.bounded.limits.total:
            return self
        return replace(self, bounded=bound_distinct_values(self.bounded, limit), sampling_plan=self.bounded)

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        (share,), view = shares, DistinctCounts(self.reading(()))
        return (Measurement(view, calibrated_noise(strength, view.sensitivity, share)),)

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        (measurement,) = measurements
        noisy_counts: Integers = measurement.draw(measurement.reading.extract(exact))
        return noisy_counts

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        (measurement,) = measurements
        return (NoisyScale(Fraction(1), measurement.mechanism),)

    def scales_for_reuse(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        """Return the scale that sampling would have at the same price: more is counted of a unit, not less noise added,
        as the price rises, and answers of versions that only sampled stay as good as their price.
        """
        (measurement,) = measurements
        if self.sampling_plan is None:
            return self.scales(measurements)
        mechanism, plans = measurement.mechanism, (self.sampling_plan, self.bounded)
        sampled_norm, norm = (mechanism.norm(plan.measures[0].sensitivity) for plan in plans)
        return (
            NoisyScale(
                Fraction(1), mechanism.of_size(rounded_up_to_13_digits(mechanism.sizes[0] * sampled_norm / norm))
            ),
        )

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return (self.bounded.measures[0],) * len(indices)

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        return self.draw(measurements, np.array([[end] for end in EXTREME_TOTALS], np.int64))

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:
        return (size,)

    def with_ranges_if_sold(self, confidence: Fraction | None) -> DistinctValuesPart:  # noqa: ARG002
        return self

    def accuracy_for_reuse(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:  # noqa: ARG002
        return {}

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        (measurement,), sensitivity = measurements, self.bounded.measures[0].sensitivity
        width, column = measurement.mechanism.error(confidence), expression_sql(self.requests[0].value)
        in_all, in_group = format_number(float(sensitivity.l1)), format_number(float(sensitivity.linf))
        sensitivity_text = f"one unit changes the counts by at most {in_all} in total, {in_group} in one group"
        description = f"distinct values of {column}; {measurement.mechanism.words()}"
        return (
            description,
            f"{sensitivity_text}; ±{format_number(float(width))} with {format_percent(confidence)} confidence",
        )


@dataclass(frozen=True)
class FrequentValuesPart:
    """The most frequent of some public values, selected in every group for one share."""

    noisy: ClassVar[bool] = False

    bounded: BoundedPlan
    requests: tuple[FrequentValue, ...]
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        k, count = self.requests[0].k, len(self.values)
        if k > count:
            column = expression_sql(self.requests[0].value)
            possible = count_with_noun(count, "value")
            rule = f"{column} has {possible}, too few for the {k} most frequent"
            fix = f"lower the number to {count} or less" if count else "declare the values of the column in the policy"
            raise Unsupported("too-few-values", rule, fix=fix)

    @property
    def numbers_per_group(self) -> int:
        return len(self.values)

    @property
    def shares(self) -> int:
        return 1

    def share_index(self, index: int) -> int:  # noqa: ARG002
        return 0

    def reading(self, groups: tuple[GroupValues, ...]) -> ValueTable:
        return ValueTable(self.bounded, self.requests[0].value, groups, self.values)

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        (share,), view = shares, ValueFrequencies(self.reading(()))
        k = self.requests[0].k  # choices, each for an equal part of the share
        selection = FrequentValues(k * strength.epsilon(share / k), view.rows_per_unit, k, view.neighbours)
        return (Measurement(view, selection),)

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        (measurement,) = measurements
        selected: Integers = measurement.draw(measurement.reading.extract(exact))
        return selected[:, [request.place for request in self.requests]]

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        (measurement,) = measurements
        names = KeyColumn(self.requests[0].value.domain.type, self.values)
        return (FrequentValueScale(names, measurement.mechanism),) * len(self.requests)

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return (self.bounded.measures[0],) * len(indices)

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        ends = np.array(EXTREME_TOTALS, np.int64)
        return self.draw(measurements, ends[(np.arange(len(self.values)) + np.arange(3)[:, None]) % len(ends)])

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:  # noqa: ARG002
        return (0,) * len(self.requests)

    def at_strength(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> FrequentValuesPart:  # noqa: ARG002
        return self

    def scales_for_reuse(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        return self.scales(measurements)

    def with_ranges_if_sold(self, confidence: Fraction | None) -> FrequentValuesPart:  # noqa: ARG002
        return self

    def accuracy_for_reuse(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        (measurement,) = measurements
        return {"values": 1 / measurement.mechanism.epsilon}

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        (measurement,) = measurements
        description = (
            f"{expression_sql(self.requests[0].value)}: {measurement.mechanism.words()}, of {len(self.values):,}"
        )
        return description, measurement.mechanism.promise(len(self.values), confidence)


Candidates = Callable[[Expression], tuple[Value, ...]]
"""Lists an expression's possible values, from the policy alone, or refuses."""


def build_other_part(
    bounded_plan: BoundedPlan, part: ReadingPart, candidates: Candidates, *, use_matching: bool = False
) -> OtherPart:
    """Return the part of a question that is not a total, under a bounding of its rows; ``use_matching`` if distinct
    values may be matched to units.
    """
    return _PART_CONSTRUCTORS[part.reads](bounded_plan, part.requests, candidates, use_matching)


_PART_CONSTRUCTORS: dict[ReadingKind, Callable[[BoundedPlan, Any, Candidates, bool], OtherPart]] = {
    ReadingKind.RANKS: lambda bounded, requests, *_: QuantilesPart(bounded, requests),
    ReadingKind.DIFFERENT: lambda bounded, requests, _, matches: DistinctValuesPart(
        bounded, requests, possible_value_count(requests[0].value) if matches else None
    ),
    ReadingKind.FREQUENT: lambda bounded, requests, candidates, _: FrequentValuesPart(
        bounded, requests, candidates(requests[0].value)
    ),
}
