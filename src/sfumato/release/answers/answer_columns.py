"""Columns of an answer: names and types, which follow from the question alone; cells with their intervals; JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.plots.scales import Interval
from sfumato.policy import Type
from sfumato.privacy import codec
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


def are_typed_or_null(values: Iterable[Any], kind: Type) -> bool:
    """Return whether every value has the Python type of a column type, or is None."""
    return set(map(type, values)) <= {_TYPES[kind][0], type(None)}


def typed_column(values: Sequence[Any], kind: Type, name: str) -> Sequence[Any]:
    """Convert values to the column's type, or None; serialized forms are parsed, anything else is refused."""
    python_type, parse = _TYPES[kind]
    try:
        return [value if value is None or type(value) is python_type else parse(value) for value in values]
    except (TypeError, ValueError):
        raise InvalidParameter(f"rows, column {name}", values, f"values of the type {kind.value}, or null") from None


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


def cell_values(column: Evaluated, shown_rows: NDArray[np.intp], column_type: Type) -> list[Any]:
    """Return the values of the shown rows, as the column's type has them."""
    if isinstance(column, ExactColumn):
        values = column.value[shown_rows].tolist()
        return [None if value is None else float(value) for value in values] if column_type is Type.REAL else values
    if isinstance(column, TruthColumn):
        return [
            bool(is_true) if is_known else None
            for is_true, is_known in zip(column.true[shown_rows], column.known[shown_rows], strict=True)
        ]
    numbers = column.value[shown_rows]
    is_null = np.isnan(numbers)
    values = (
        [round(value) for value in numbers[~is_null].tolist()]
        if column_type is Type.INTEGER
        else numbers[~is_null].tolist()
    )
    return _insert_nulls(values, is_null)


def interval_list(column: NumberColumn, shown_rows: NDArray[np.intp]) -> tuple[Interval, ...]:
    """Return the intervals of the shown rows; None where there is no number."""
    is_null = np.isnan(column.value[shown_rows])
    low, high = (bound[shown_rows][~is_null] for bound in (column.low, column.high))
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
