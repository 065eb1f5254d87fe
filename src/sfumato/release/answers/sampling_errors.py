"""Sampling errors stand beside noise where the rows of a table are a sample: what another sample would have shown.

Units were drawn from a population, each with probability f or a fixed number of them without replacement (the share f),
all rows of a unit with it. Of one unit at most L rows count in a group.

Counts. X = Σ mᵢ over the units drawn, 0 ≤ mᵢ ≤ L, estimates its mean. Var X ≤ (1 − f)·f·Σ mᵢ² ≤ (1 − f)·L·E[X]: exact
for units drawn one by one, and no more for a fixed number of them up to a factor N/(N − 1) (Cochran 1977, section 2.8:
the finite-population correction). E[X] is replaced by the upper end of the noisy count's range.

Means. R = Σ tᵢ / Σ mᵢ is a ratio; to first order Var R ≈ (1 − f)·Σ (tᵢ − R·mᵢ)² / X² over the units drawn (Cochran
1977, section 6.4), at most (1 − f)·L·v/X with v the variance of the values (Cauchy & Schwarz), which is at most
(high − R)(R − low) in their declared range (Bhatia & Davis 2000). X is the lower end of the noisy number of rows, which
has to be asked for, too.

Half-widths are normal ones at the answer's confidence: an approximation for groups of some dozens of units, and marked
as such. They are of the sample's own numbers, which are not scaled up. Nothing here promises more privacy for sampling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Result
from sfumato.plots.scales import Interval
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact

CAVEAT = "sampling: about how far another sample of the same population could differ, in addition to the noise"


def parse_sampled_fraction(sample_of: Number, size: int | None) -> Fraction:
    """Parse the sampled fraction: a fraction below 1, or the number of units in the population."""
    fraction_or_size = exact(sample_of, "sample_of", POSITIVE)
    if fraction_or_size < 1:
        return fraction_or_size
    if size is None:
        fix = "give the share that was drawn, as in sample_of=0.1, or declare the unit's size in the policy"
        raise InvalidParameter(
            "sample_of", sample_of, "a share below 1, such as 0.1, if the policy declares no number of units", fix=fix
        )
    if fraction_or_size < size:
        rule = f"at least {size:,}, the number of units that the policy declares"
        raise InvalidParameter("sample_of", sample_of, rule, fix="give the size of the whole population")
    return size / fraction_or_size


def sampling_half_widths(
    query: Query,
    values: Mapping[str, Sequence[Any]],
    intervals: Mapping[str, Sequence[Interval]],
    *,
    max_rows_per_unit: int,
    sampled_share: Fraction,
    confidence: Number,
) -> dict[str, tuple[float | None, ...]]:
    """Return the sampling half-widths of every count or mean; at most ``max_rows_per_unit`` rows of a unit count in a
    group.
    """
    coverage = float(exact(confidence, "confidence", CONFIDENCE))
    spread = NormalDist().inv_cdf((1 + coverage) / 2) * math.sqrt(float(1 - sampled_share))
    measures = _unchanged_measure_columns(query)
    widths: dict[str, tuple[float | None, ...]] = {}
    for name, measure in measures.items():
        rows_per_unit = 1 if measure.once_per_unit else max_rows_per_unit
        if isinstance(measure, Count):
            widths[name] = tuple(
                spread * math.sqrt(rows_per_unit * count) for count in _nonnegative_ends(intervals[name], 1)
            )
        elif isinstance(measure, Mean):
            count_column = next((column for column, request in measures.items() if request == measure.rows), None)
            if count_column is not None:
                least_counts = _nonnegative_ends(intervals[count_column], 0)
                widths[name] = _bound_mean_half_widths(
                    measure, values[name], intervals[name], least_counts, spread * math.sqrt(rows_per_unit)
                )
    return widths


def _unchanged_measure_columns(query: Query) -> dict[str, AggregateRequest]:
    """Return the output columns that are a measure and nothing else."""
    if query.outer:
        return {}
    return {
        output.name: query.plan.measures[column.reference.index]
        for output in query.outputs
        if isinstance(column := output.expression, Column) and type(column.reference) is Result
    }


def _nonnegative_ends(intervals: Sequence[Interval], end_index: int) -> list[float]:
    return [0.0 if interval is None else max(0.0, interval[end_index]) for interval in intervals]


def _bound_mean_half_widths(
    measure: Mean, values: Sequence[Any], intervals: Sequence[Interval], counts: Sequence[float], spread: float
) -> tuple[float | None, ...]:
    """Bound the half-widths of means; None where the group may be empty."""
    assert measure.possible_range is not None
    low, high = map(float, measure.possible_range)
    widths: list[float | None] = []
    for value, interval, count in zip(values, intervals, counts, strict=True):
        if value is None or interval is None or count <= 0:
            widths.append(None)
            continue
        nearest = min(max((low + high) / 2, interval[0]), interval[1])  # where the variance may be largest
        variance = max(0.0, (high - nearest) * (nearest - low))
        widths.append(min(high - low, spread * math.sqrt(variance / count)))
    return tuple(widths)
