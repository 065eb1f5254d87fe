"""A scale says how numbers that were drawn are read, now or years later: it is stored with them.

The keys of an answer's groups are stored with it: every value once, and which group has which.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import FrequentValues, Quantiles
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact, shown

_READ: dict[Type, Any] = {
    Type.REAL: lambda written: exact(written, "key"),
    Type.DATE: dt.date.fromisoformat,
    Type.TIMESTAMP: dt.datetime.fromisoformat,
}
"""How a value that is written as text is read back; other types are written as they are."""


@codec.value("key-column")
@dataclass(frozen=True)
class KeyColumn:
    """A key column holds the values of one key, each once, in the order in which the groups first have them; None is
    NULL.
    """

    value_type: Type
    values: tuple[Value | None, ...]

    def __init__(self, value_type: Type | str, values: Sequence[Any]) -> None:
        kind = Type.of(value_type)
        read = _READ.get(kind)
        found = values if read is None else [read(each) if isinstance(each, str) else each for each in values]
        object.__setattr__(self, "value_type", kind)
        object.__setattr__(self, "values", tuple(found))


@codec.value("group-keys")
@dataclass(frozen=True)
class GroupKeys:
    """Group keys are the keys of all groups in order: all combinations of the values, or those that ``codes`` list."""

    columns: tuple[KeyColumn, ...]
    codes: tuple[tuple[int, ...], ...] = ()
    """For each column, which of its values each group has; left out where the groups are all combinations in order."""
    count: int = 1
    """How many groups there are where there is no key: one in every real answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "codes", tuple(map(tuple, self.codes)))
        if self.codes and len(self.codes) != len(self.columns):
            raise InvalidParameter("codes", f"{len(self.codes)} columns", "one list of codes for each column")

    @classmethod
    def of(cls, groups: Sequence[GroupKey], types: Sequence[Type]) -> GroupKeys:
        """Store the keys of these groups, in their order."""
        if not types:
            return cls((), count=len(groups))
        listed = [list(map(operator.itemgetter(index), groups)) for index in range(len(types))]
        distinct = [tuple(dict.fromkeys(column)) for column in listed]
        columns = tuple(KeyColumn(kind, values) for kind, values in zip(types, distinct, strict=True))
        if math.prod(map(len, distinct)) == len(groups) and all(map(operator.eq, groups, itertools.product(*distinct))):
            return cls(columns)
        places = [{value: index for index, value in enumerate(values)} for values in distinct]
        return cls(columns, tuple(tuple(map(place.get, column)) for place, column in zip(places, listed, strict=True)))  # type: ignore[arg-type]

    @property
    def groups(self) -> tuple[GroupKey, ...]:
        """Return every group's key."""
        values = [column.values for column in self.columns]
        if not self.codes:
            return tuple(itertools.product(*values)) * self.count
        chosen = (map(known.__getitem__, codes) for known, codes in zip(values, self.codes, strict=True))
        return tuple(zip(*chosen, strict=True))


ONE_GROUP = GroupKeys(())
"""The keys of an answer without keys."""


class NoiseScale(Protocol):
    """A scale says what the numbers of one measurement are worth and how far each may be from the exact one."""

    @property
    def unit_value(self) -> Fraction:
        """Return what one whole number is worth."""
        ...

    @property
    def columns(self) -> int:
        """Count the numbers of each group."""
        ...

    @property
    def labels(self) -> Sequence[Any] | None:
        """Return what the numbers are the places of; None where they are numbers."""
        ...

    def width(self, confidence: Number, parts: int) -> float:
        """Return the half-width within which all of so many numbers are with this confidence."""
        ...

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:
        """Return the half-width for so many sums, of so many numbers each."""
        ...

    def rank(self, confidence: Number) -> float | None:
        """Bound how many rows lie between a chosen number and what it stands for; None where nothing is chosen by
        ranks.
        """
        ...

    def words(self) -> str:
        """Describe what was drawn."""
        ...


@codec.value("noisy-scale")
@dataclass(frozen=True)
class NoisyScale:
    """These numbers are totals with noise."""

    unit_value: Fraction
    mechanism: Additive
    columns: int = 1
    rounding: Fraction = Fraction(0)
    """How far the total that the noise was added to may lie from the exact one."""
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


@codec.value("named-scale")
@dataclass(frozen=True)
class NamedScale:
    """These numbers are places among values of which the most frequent were chosen."""

    values: KeyColumn
    mechanism: FrequentValues
    columns: int = 1

    @property
    def unit_value(self) -> Fraction:
        return Fraction(1)

    @property
    def labels(self) -> Sequence[Any]:
        return self.values.values

    def promise(self, confidence: Number) -> str:
        """Describe how good a choice is."""
        return self.mechanism.promise(len(self.labels), confidence)

    def width(self, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return 0.0

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return 0.0

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.mechanism.words()


@codec.value("chosen-scale")
@dataclass(frozen=True)
class ChosenScale:
    """These numbers were chosen by their ranks, and perhaps two more around each: how far each is from the exact one is
    not known otherwise.
    """

    unit_value: Fraction
    mechanism: Quantiles
    probability: Fraction
    ends: Quantiles | None = None
    """What chose the number below, where there are numbers around it: the one above is chosen as it is, mirrored."""
    labels: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "probability", exact(self.probability, "probability"))

    @property
    def columns(self) -> int:
        return 1 if self.ends is None else 3

    def width(self, confidence: Number, parts: int) -> float:
        """Return 0 where the exact value lies on the right side of what was chosen, with this confidence."""
        around = self.ends if self.probability not in (0, 1) else self.mechanism
        enough = around is not None and abs(around.offset) >= around.rows_to_lean(confidence, parts)
        return 0.0 if enough else float("inf")

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:  # noqa: ARG002
        return float("inf")

    def rank(self, confidence: Number) -> float:
        """Bound how many rows lie between the number and what it stands for."""
        place = self.mechanism.probabilities.index(self.probability)
        return float(abs(self.mechanism.offset) + math.ceil(self.mechanism.errors(confidence)[place]))

    def words(self) -> str:
        if self.ends is None:
            return self.mechanism.words()
        return f"{self.mechanism.words()}, and two numbers around each, ε {shown(float(2 * self.ends.epsilon), 6)}"


@dataclass(frozen=True)
class CombinedScale:
    """This scale is of two totals with independent noise of the same kind, put together, each times a number ≥ 0.

    With p ≥ q the noise p·X ± q·Y is (p − q)·X + q·(X ± Y), and X − Y has the law of X + Y because noise is symmetric.
    So it is within the half-widths of X and of the sum of both together, which fail half as often each. Where q = 0 or
    p = q there is one of the two alone.
    """

    scale: NoiseScale
    first: Fraction
    second: Fraction
    columns: int = 1
    labels: ClassVar[None] = None

    @property
    def unit_value(self) -> Fraction:
        return self.scale.unit_value

    def width(self, confidence: Number, parts: int) -> float:
        """Return the half-width of the combination. A sum of noises fails with at most β(1 − β)/n among n statements, as
        where sums are read beside single noises; a single noise is as likely to be wide as any other.
        """
        if not min(self.first, self.second):
            return float(max(self.first, self.second)) * self.scale.width(confidence, parts)
        miss = 1 - exact(confidence, "confidence")
        return self.sum_width(1, 1 - miss * (1 - miss), parts)

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float:
        least, most = (float(each) for each in sorted((self.first, self.second)))
        statements = parts * (1 if least in (0.0, most) else 2)
        alone = 0.0 if least == most else (most - least) * self.scale.sum_width(terms, confidence, statements)
        return alone + (least * self.scale.sum_width(2 * terms, confidence, statements) if least else 0.0)

    def rank(self, confidence: Number) -> float | None:  # noqa: ARG002
        return None

    def words(self) -> str:
        return self.scale.words()
