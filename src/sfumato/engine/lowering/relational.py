"""The relational form says what is selected, joined, grouped and ranked, in the words of no dialect.

A value that is used more than once is computed in a subselect of its own, one stage further in, and referred to by
name; no engine then computes it twice, and texts do not double at every level of nesting. Columns of the form have
names of our own (``u`` the unit, ``k0`` keys, ``v0`` values, ``c0`` columns read, ``x1`` staged values): names of the
policy occur only where a table is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from sfumato.policy import Type, Value


class Wide(Enum):
    """Wide numbers are exact whole numbers beyond 64 bits, in which sums are formed."""

    INTEGER = "wide integer"


Kind = Type | Wide


class ScalarFunction(Enum):
    """An operation can be done with values of one row. Every one is total on the arguments that lowering gives it."""

    EQUAL = auto()
    UNEQUAL = auto()
    LESS = auto()
    AT_MOST = auto()
    GREATER = auto()
    AT_LEAST = auto()
    AND = auto()
    OR = auto()
    NOT = auto()
    BETWEEN = auto()
    IN = auto()
    IS_NULL = auto()
    IS_TRUE = auto()
    IS_FALSE = auto()
    CASE = auto()
    """Condition, value, condition, value, …, and the value where none holds."""
    COALESCE = auto()
    LEAST = auto()
    """The least that is not NULL."""
    GREATEST = auto()

    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    DIVIDE = auto()
    """The quotient of two reals."""
    DIVIDE_WHOLE = auto()
    """The quotient of two whole numbers, toward zero."""
    DIVIDE_WIDE = auto()
    """The quotient of two wide whole numbers, toward zero."""
    REMAINDER = auto()
    """Of two whole numbers, with the sign of the first."""
    NEGATE = auto()
    ABS = auto()
    SIGN = auto()
    FLOOR = auto()
    CEILING = auto()
    TRUNCATE = auto()
    """The whole real next toward zero."""
    HALF_AWAY = auto()
    """The nearest whole real, halves away from zero."""
    SQRT = auto()
    LN = auto()
    EXP = auto()
    POWER = auto()
    NEAREST = auto()
    """A real as the nearest whole number of 64 bits, ties to even."""
    TOWARD_ZERO = auto()
    """A real as a whole number of 64 bits, rounded toward zero."""
    CONVERT = auto()
    """To another kind, which the argument surely fits; the detail is the kind."""

    LENGTH = auto()
    JOIN = auto()
    """Texts one after the other; NULL where one is."""
    REPLACE = auto()
    SLICE = auto()
    """So many letters of a text, at least 0, from a position of at least 1 on."""
    LOWER = auto()
    UPPER = auto()
    TRIM = auto()
    """Details: the letters, whether at the start, whether at the end."""
    LIKE = auto()
    """The detail is the pattern: % is any text, _ any one letter, nothing is an escape."""
    MATCHES = auto()
    """Whether the whole text is of a grammar of ``plan.grammars``, which is the detail."""
    READ = auto()
    """A text that is of the grammar of a type, as that type, which is the detail."""
    CODE = auto()
    """A text that is one of the detail's, which are sorted, in a form that is grouped by faster; NULL for any other.

    Codes are equal and ordered as their texts are, and CONVERT makes texts of them; a text is its own code too.
    """
    DIGEST = auto()
    """MD5 of the texts with a bar between them, in hexadecimal; texts that are NULL are left out with their bar."""

    PART = auto()
    """A part of a date or time as a whole number; the detail is its name in ``plan.functions.temporal.PARTS``."""
    START = auto()
    """The start of a unit; details: the unit and the type."""
    MOVED = auto()
    """So many units later; details: the number, the unit, the type."""
    DAYS = auto()
    """The days from one date or time to another, whatever the hour."""
    SECONDS = auto()
    """Whole seconds since the year 1 began."""


@dataclass(frozen=True)
class Reference:
    """A reference names a column of what is selected from; of one of its parts, if that is named."""

    name: str
    part: str | None = None


@dataclass(frozen=True)
class Constant:
    """A constant is a public value; None is NULL."""

    value: Value | None
    kind: Kind


@dataclass(frozen=True)
class Apply:
    """This applies an operation to values of one row."""

    operation: ScalarFunction
    arguments: tuple[Scalar, ...]
    detail: tuple[object, ...] = ()


class AggregateFunction(Enum):
    """An aggregation says how the values of a group become one."""

    COUNT = auto()
    """The number of rows; of those where the argument is not NULL, if there is one."""
    UNITS = auto()
    """The number of different values, NULL aside."""
    SUM = auto()
    """Of 64-bit or wide whole numbers, exact and wide; NULL of none."""
    SUM_OF_NARROW = auto()
    """The same of 64-bit numbers alone, which some engines add up more quickly."""
    MIN = auto()
    """Of numbers, texts (as bytes), dates or times; NULL of none."""
    MAX = auto()


@dataclass(frozen=True)
class GroupTotal:
    """A total is one number for a group of rows."""

    aggregation: AggregateFunction
    argument: Scalar | None = None
    where: Scalar | None = None
    """Only rows for which this holds."""


@dataclass(frozen=True)
class Ordered:
    """This says what rows are ordered by, where it is not from the least to the greatest with NULLs last."""

    scalar: Scalar
    descending: bool = False
    nulls_first: bool = False


class RowNumber(Enum):
    """This says how the rows of a partition are numbered, from 1."""

    ROW_NUMBER = auto()
    RANK = auto()
    """Equal rows share a place, and the next is as much later."""
    DENSE_RANK = auto()
    """Equal rows share a place, and the next is the one after."""


@dataclass(frozen=True)
class Rank:
    """A rank is the place of a row among those of its partition; NULLs come last unless it is said otherwise."""

    partition: tuple[Scalar, ...]
    order: tuple[Scalar | Ordered, ...]
    place: RowNumber = RowNumber.ROW_NUMBER


class WindowFrame(Enum):
    """A frame says which rows of a partition are looked at."""

    PEERS = auto()
    """Those up to the row and those that tie with it."""
    ROWS = auto()
    """Those up to the row."""
    WHOLE = auto()


@dataclass(frozen=True)
class WindowTotal:
    """This is a total of the rows of a frame, for every row."""

    total: GroupTotal
    partition: tuple[Scalar, ...]
    order: tuple[Scalar | Ordered, ...]
    frame: WindowFrame


@dataclass(frozen=True)
class Beside:
    """This is the value in the row so many places later in its partition, or earlier where that is below 0."""

    scalar: Scalar
    places: int
    default: Scalar | None
    """Where there is no such row; NULL if nothing is given."""
    partition: tuple[Scalar, ...]
    order: tuple[Scalar | Ordered, ...]


@dataclass(frozen=True)
class Items:
    """A column has a row for each item of a list, and none where the list is empty or NULL."""

    list: Reference


Scalar = Reference | Constant | Apply | GroupTotal | Rank | WindowTotal | Beside | Items


@dataclass(frozen=True)
class CleanTable:
    """This reads the clean scan of a table of the policy."""

    name: str


@dataclass(frozen=True)
class Named:
    """This reads an earlier stage of the statement."""

    name: str


@dataclass(frozen=True)
class ValueList:
    """A list has one column, called ``x``: the public values that are handed over beside the statement, and NULL."""

    number: int
    """The place of the list among all, from 1."""
    kind: Type


@dataclass(frozen=True)
class IntegerSpan:
    """A span has one column, called ``x``: so many whole numbers, days or hours from the first on, and NULL."""

    first: Constant
    count: int


@dataclass(frozen=True)
class RelationalUnion:
    """A union has the rows of all its members, equal ones as often as they occur; columns are matched by place."""

    members: tuple[Select, ...]


Relation = CleanTable | Named | ValueList | IntegerSpan | RelationalUnion


@dataclass(frozen=True)
class RelationalJoin:
    """A join puts rows beside those of another relation for which the condition holds; without one, beside all."""

    relation: Relation | Select
    part: str
    on: Scalar | None = None
    outer: bool = False


@dataclass(frozen=True)
class Exists:
    """This test asks whether another relation has a row for which the condition holds, or has none."""

    relation: Relation | Select
    part: str
    on: Scalar
    negated: bool = False


@dataclass(frozen=True)
class Select:
    """A select gives columns over the rows of a relation: what is kept of them, and how they are grouped."""

    columns: tuple[tuple[str, Scalar], ...]
    source: Relation | Select
    part: str = "r"
    """What the source is called inside."""
    joins: tuple[RelationalJoin, ...] = ()
    where: tuple[Scalar | Exists, ...] = ()
    grouped: tuple[str, ...] = ()
    """Columns of the source whose values make a group; without any, all rows are one group where totals are taken."""
    having: Scalar | None = None
    everything: bool = False
    """Whether the columns of the source come first."""


@dataclass(frozen=True)
class StagedSelect:
    """A statement has named stages, each of which may use those before it, and the result."""

    stages: tuple[tuple[str, Select], ...]
    result: Select


def references(scalar: Scalar) -> Iterator[str]:
    """List the names that a value of one row refers to."""
    if isinstance(scalar, Reference):
        yield scalar.name
    elif isinstance(scalar, Apply):
        for argument in scalar.arguments:
            yield from references(argument)


def apply(operation: ScalarFunction, *arguments: Scalar, detail: tuple[object, ...] = ()) -> Apply:
    return Apply(operation, arguments, detail)


def whole(value: int) -> Constant:
    return Constant(value, Type.INTEGER)
