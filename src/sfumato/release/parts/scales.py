"""Scales: how stored noisy integers are decoded, now or years later; they are stored with the numbers.

The keys of an answer's groups are stored in the same place: every value once, and an index per group.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import FrequentValues, Quantiles
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Floats, Width
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact, format_number

_PARSERS: dict[Type, Any] = {
    Type.REAL: lambda written: exact(written, "key"),
    Type.DATE: dt.date.fromisoformat,
    Type.TIMESTAMP: dt.datetime.fromisoformat,
}
"""Parsers of the types that are stored as text; other types are stored as they are."""


@codec.serialisable("key-column")
@dataclass(frozen=True)
class KeyColumn:
    """The distinct values of one key, in order of first appearance among the groups; None is NULL."""

    value_type: Type
    values: tuple[Value | None, ...]

    def __init__(self, value_type: Type | str, values: Sequence[Any]) -> None:
        column_type = Type.of(value_type)
        parse = _PARSERS.get(column_type)
        parsed = values if parse is None else [parse(value) if isinstance(value, str) else value for value in values]
        object.__setattr__(self, "value_type", column_type)
        object.__setattr__(self, "values", tuple(parsed))


@codec.serialisable("group-keys")
@dataclass(frozen=True)
class GroupKeys:
    """The keys of all groups in order: all combinations of the values, or those that ``codes`` list."""

    columns: tuple[KeyColumn, ...]
    codes: tuple[tuple[int, ...], ...] = ()
    """For each column, the index of each group's value; empty where the groups are all combinations in order."""
    count: int = 1
    """The number of groups where there is no key: one in every real answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "codes", tuple(map(tuple, self.codes)))
        if self.codes and len(self.codes) != len(self.columns):
            raise InvalidParameter("codes", f"{len(self.codes)} columns", "one list of codes for each column")

    @classmethod
    def of(cls, groups: Sequence[GroupKey], types: Sequence[Type]) -> GroupKeys:
        """Encode the keys of these groups, in their order."""
        if not types:
            return cls((), count=len(groups))
        key_lists = [list(map(operator.itemgetter(index), groups)) for index in range(len(types))]
        distinct = [tuple(dict.fromkeys(column)) for column in key_lists]
        columns = tuple(KeyColumn(key_type, values) for key_type, values in zip(types, distinct, strict=True))
        if math.prod(map(len, distinct)) == len(groups) and all(map(operator.eq, groups, itertools.product(*distinct))):
            return cls(columns)
        value_codes = [{value: index for index, value in enumerate(values)} for values in distinct]
        codes = [
            tuple(map(code_of.__getitem__, column)) for code_of, column in zip(value_codes, key_lists, strict=True)
        ]
        return cls(columns, tuple(codes))

    @property
    def groups(self) -> tuple[GroupKey, ...]:
        """The key of every group."""
        values = [column.values for column in self.columns]
        if not self.codes:
            return tuple(itertools.product(*values)) * self.count
        key_columns = (
            map(column_values.__getitem__, codes) for column_values, codes in zip(values, self.codes, strict=True)
        )
        return tuple(zip(*key_columns, strict=True))


ONE_GROUP = GroupKeys(())
"""The keys of an answer without keys."""


class WidthOfAnyTotal(ABC):
    """A scale whose half-width is that of every number."""

    @abstractmethod
    def width(self, confidence: Number, parts: int) -> float: ...

    def widths(self, totals: Floats, confidence: Number, parts: int) -> Width:  # noqa: ARG002
        return self.width(confidence, parts)


class NoiseScale(Protocol):
    """The value of one integer of a measurement, and its distance from the exact value."""

    @property
    def unit_value(self) -> Fraction:
        """The value of one integer step."""
        ...

    @property
    def columns(self) -> int:
        """Count the numbers of each group."""
        ...

    @property
    def labels(self) -> Sequence[Any] | None:
        """The values that the numbers index; None where they are numbers."""
        ...

    def width(self, confidence: Number, parts: int) -> float:
        """Return the half-width that covers ``parts`` numbers simultaneously with this confidence."""
        ...

    def widths(self, totals: Floats, confidence: Number, parts: int) -> Width:
        """Return the half-width of each of these numbers, ``parts`` of which are covered simultaneously."""
        ...

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:
        """Return the half-width that covers ``parts`` sums of ``terms`` numbers each."""
        ...

    def rank(self, confidence: Number) -> float | None:
        """Bound the rank error of a selected number; None where nothing is selected by rank."""
        ...

    def words(self) -> str:
        """Describe the mechanism."""
        ...


@codec.serialisable("noisy-scale")
@dataclass(frozen=True)
class NoisyScale(WidthOfAnyTotal):
    """The scale of totals with additive noise."""

    unit_value: Fraction
    mechanism: Additive
    columns: int = 1
    rounding: Fraction = Fraction(0)
    """The largest rounding error of the total before noise."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "rounding", exact(self.rounding, "rounding"))

    def half_width(self, confidence: Number, parts: int) -> Fraction:
        """Bound noise and rounding together."""
        return self.mechanism.error(confidence, parts) * self.unit_value + self.rounding

    def width(self, confidence: Number, parts: int) -> float:
        return float(self.half_width(confidence, parts))

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:
        return float(self.mechanism.sum_error(terms, confidence, parts) * self.unit_value + terms * self.rounding)

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.mechanism.words(self.unit_value)


@codec.serialisable("named-scale")
@dataclass(frozen=True)
class FrequentValueScale(WidthOfAnyTotal):
    """The scale of selected frequent values: numbers index the candidate values."""

    values: KeyColumn
    mechanism: FrequentValues
    columns: int = 1

    @property
    def unit_value(self) -> Fraction:
        return Fraction(1)

    @property
    def labels(self) -> Sequence[Any]:
        return self.values.values

    def selection_note(self, confidence: Number) -> str:
        """Describe how good a selection is."""
        return self.mechanism.promise(len(self.labels), confidence)

    def width(self, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return 0.0

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return 0.0

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.mechanism.words()


@codec.serialisable("chosen-scale")
@dataclass(frozen=True)
class QuantileScale(WidthOfAnyTotal):
    """The scale of numbers selected by rank, and perhaps two interval ends for each.

    Their distance from the exact value is not known otherwise.
    """

    unit_value: Fraction
    mechanism: Quantiles
    probability: Fraction
    ends: Quantiles | None = None
    """The mechanism that selected the lower end of a bought interval; the upper end is selected as its mirror image."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "probability", exact(self.probability, "probability"))

    @property
    def columns(self) -> int:
        return 1 if self.ends is None else 3

    def width(self, confidence: Number, parts: int) -> float:
        """Return 0 where the exact value lies within the selected ends with this confidence, else infinity."""
        end_mechanism = self.ends if self.probability not in (0, 1) else self.mechanism
        is_covered = end_mechanism is not None and abs(end_mechanism.offset) >= end_mechanism.safety_offset_rows(
            confidence, parts
        )
        return 0.0 if is_covered else float("inf")

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return float("inf")

    def rank(self, confidence: Number) -> float:
        """Bound how many rows lie between the number and its exact quantile."""
        index = self.mechanism.probabilities.index(self.probability)
        return float(abs(self.mechanism.offset) + math.ceil(self.mechanism.errors(confidence)[index]))

    def words(self) -> str:
        if self.ends is None:
            return self.mechanism.words()
        return (
            f"{self.mechanism.words()}, and an interval around each, ε {format_number(float(2 * self.ends.epsilon), 6)}"
        )
