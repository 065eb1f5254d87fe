"""Columns of an answer: names and types, which follow from the question alone; cells with their intervals; JSON.

Sampling errors stand beside noise where the rows of a table are a sample: what another sample would have shown.

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

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Result
from sfumato.plots.frame import Interval
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.noisy_columns import Evaluated, ExactColumn, NumberColumn, TruthColumn


@codec.serialisable("answer-column")
@dataclass(frozen=True)
class AnswerColumn:
    """A column of an answer: its name and its type."""

    name: str
    type: Type

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "type", Type.of(self.type))

    def to_json(self) -> str:
        """Serialize the column as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> AnswerColumn:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


Columns = tuple[AnswerColumn, ...]


def with_count_column(keys: Iterable[AnswerColumn]) -> Columns:
    """Return the columns of a marginal: its keys, and the count under an unused name."""
    key_columns = tuple(keys)
    count_name = "count"
    while count_name in {column.name for column in key_columns}:
        count_name += "_"
    return (*key_columns, AnswerColumn(count_name, Type.REAL))


_D = TypeVar("_D", bound=dt.date)


_PLURALS = {
    Type.INTEGER: "whole numbers",
    Type.REAL: "numbers",
    Type.TEXT: "texts",
    Type.BOOLEAN: "booleans",
    Type.DATE: "dates such as 2024-01-31",
    Type.TIMESTAMP: "times such as 2024-01-31T12:00:00",
}


def are_typed_or_null(values: Iterable[Any], sql_type: Type) -> bool:
    """Return whether every value has the Python type of a column type, or is None."""
    return set(map(type, values)) <= {_TYPES[sql_type][0], type(None)}


def typed_column(values: Sequence[Any], sql_type: Type, name: str) -> Sequence[Any]:
    """Convert values to the column's type, or None; serialized forms are parsed, anything else is refused."""
    python_type, parse = _TYPES[sql_type]
    try:
        return [value if value is None or type(value) is python_type else parse(value) for value in values]
    except (TypeError, ValueError):
        raise InvalidParameter(f"column {name} of rows", values, f"a list of {_PLURALS[sql_type]} and null") from None


def _refuse_every_value(value: object) -> Any:
    raise TypeError(type(value))


def _parse_whole_fraction(value: object) -> int:
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    raise TypeError(type(value))


def _strict_iso_parser(parse: Callable[[str], _D]) -> Callable[[object], _D]:
    """Return a parser of one text form: the one that is written."""

    def parse_exact(value: object) -> _D:
        if not isinstance(value, str) or (parsed := parse(value)).isoformat() != value:
            raise TypeError(type(value))
        return parsed

    return parse_exact


_TYPES: dict[Type, tuple[type, Callable[[Any], Any]]] = {
    Type.INTEGER: (int, _parse_whole_fraction),
    Type.REAL: (float, lambda value: codec.parse_float(value, "a real number")),
    Type.TEXT: (str, _refuse_every_value),
    Type.BOOLEAN: (bool, _refuse_every_value),
    Type.DATE: (dt.date, _strict_iso_parser(dt.date.fromisoformat)),
    Type.TIMESTAMP: (dt.datetime, _strict_iso_parser(dt.datetime.fromisoformat)),
}
"""The Python type of each column type, and the parser of its serialized form."""


def interval_end_columns(
    columns: tuple[str, ...], intervals: Mapping[str, tuple[Interval, ...]]
) -> dict[str, list[float | None]]:
    """Return the interval ends as columns under unused names."""
    end_columns: dict[str, list[float | None]] = {}
    for name in (column for column in columns if column in intervals):
        for end_index, end in enumerate(("low", "high")):
            unused_name = f"{name}_{end}"
            while unused_name in columns or unused_name in end_columns:
                unused_name += "_"
            end_columns[unused_name] = [
                None if interval is None else interval[end_index] for interval in intervals[name]
            ]
    return end_columns


def basis_columns(columns: tuple[str, ...], basis: Mapping[str, tuple[str, ...]] | None) -> dict[str, list[Any]]:
    """Return the basis of each number as columns under unused names."""
    return {} if basis is None else suffixed_columns(columns, "basis", basis)


def suffixed_columns(
    columns: tuple[str, ...], suffix: str, by_column: Mapping[str, tuple[Any, ...]]
) -> dict[str, list[Any]]:
    """Return annotations of some columns as further columns under unused names."""
    suffixed: dict[str, list[Any]] = {}
    for name in (column for column in columns if column in by_column):
        unused_name = f"{name}_{suffix}"
        while unused_name in columns or unused_name in suffixed:
            unused_name += "_"
        suffixed[unused_name] = list(by_column[name])
    return suffixed


def cell_values(column: Evaluated, row_indices: NDArray[np.intp], column_type: Type) -> list[Any]:
    """Return the values of the shown rows, as the column's type has them."""
    if isinstance(column, ExactColumn):
        values = column.value[row_indices].tolist()
        return [None if value is None else float(value) for value in values] if column_type is Type.REAL else values
    if isinstance(column, TruthColumn):
        return [
            bool(is_true) if is_known else None
            for is_true, is_known in zip(column.true[row_indices], column.known[row_indices], strict=True)
        ]
    numbers = column.value[row_indices]
    is_null = np.isnan(numbers)
    present = numbers[~is_null]
    return _insert_nulls(_rounded(present) if column_type is Type.INTEGER else present.tolist(), is_null)


def _rounded(numbers: Floats) -> list[int]:
    """Round to the nearest whole numbers, ties to even: at once where all of them fit into 64 bits."""
    if (np.abs(numbers) < 2.0**62).all():
        return np.rint(numbers).astype(np.int64).tolist()
    return [round(value) for value in numbers.tolist()]


def interval_list(column: NumberColumn, row_indices: NDArray[np.intp]) -> tuple[Interval, ...]:
    """Return the intervals of the shown rows; None where there is no number."""
    is_null = np.isnan(column.value[row_indices])
    low, high = (bound[row_indices][~is_null] for bound in (column.low, column.high))
    ends = zip(
        np.where(np.isnan(low), -np.inf, low).tolist(),  # an end that cannot be computed is as far as can be
        np.where(np.isnan(high), np.inf, high).tolist(),
        strict=True,
    )
    return tuple(_insert_nulls(list(ends), is_null))


def _insert_nulls(values: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
    """Insert None where a value is missing."""
    if not missing.any():
        return values
    remaining = iter(values)
    return [None if is_missing else next(remaining) for is_missing in missing]


CAVEAT = "sampling: about how far another sample of the same population could differ, in addition to the noise"


def parse_sampled_fraction(sample_of: Number, sampled_units: int | None) -> Fraction:
    """Parse the sampled fraction: a fraction below 1, or the number of units in the population."""
    fraction_or_size = exact(sample_of, "sample_of", POSITIVE)
    if fraction_or_size < 1:
        return fraction_or_size
    if sampled_units is None:
        fix = "give the share that was sampled, as in sample_of=0.1, or declare the unit's size in the policy"
        raise InvalidParameter(
            "sample_of", sample_of, "a share below 1, because the policy declares no number of units", fix=fix
        )
    if fraction_or_size < sampled_units:
        rule = f"at least {sampled_units:,}, the number of units that the policy declares"
        raise InvalidParameter(
            "sample_of", sample_of, rule, fix="give the size of the population that the units were sampled from"
        )
    return sampled_units / fraction_or_size


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
