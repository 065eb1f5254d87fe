"""The relational form: an intermediate representation of the SQL that reads tables, independent of any dialect.

A value that is used more than once is computed in a subselect of its own, one stage further in, and referred to by
name; no engine then computes it twice, and texts do not double at every level of nesting. Columns of the form have
generated names (``u`` the unit, ``k0`` keys, ``v0`` values, ``c0`` columns read, ``x1`` staged values): names of the
policy occur only where a table is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from sfumato.policy import Type, Value
from sfumato.quick_dataclass import dataclass


class Wide(Enum):
    """Exact whole numbers beyond 64 bits, in which sums are formed."""

    INTEGER = "wide integer"


Kind = Type | Wide


class ScalarFunction(Enum):
    """An operation on values of one row. Each is total on the arguments that lowering passes to it."""

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
    MEMBERS_BELOW = auto()
    """Of a NUMBER_SET and a whole number from 0 to 62: how many members of the set are less."""
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
    """To another kind, which the argument surely fits; the detail is the kind, before the argument's own where a time
    becomes a text.
    """

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
    """Whether the whole text is of a grammar of ``plan.grammars``, which is the detail.

    Two more details say whether the match begins at the start of the text, and whether it ends at its end; else it may
    be any part of the text.
    """
    GROUP = auto()
    """The part of a text that a group of a pattern matches; of any other text than those that match it as a whole, no
    matter what. Details: the pattern, which has at most one match with a text, and the number of the group, from 1."""
    READ = auto()
    """A text that is of the grammar of a type, as that type, which is the detail."""
    GROUP_CODE = auto()
    """A text that is one of the detail's, which are sorted, in a form that is grouped by faster; NULL for any other.

    Codes are equal and ordered as their texts are, and CONVERT makes texts of them; a text is its own code too.
    """
    ORDINAL = auto()
    """The place of a GROUP_CODE among the texts of its detail, from 1."""
    UNIT_TEXT = auto()
    """A unit as text: its id, after ten letters of the day on which its period begins, if it has one."""
    FINGERPRINT = auto()
    """The first 60 bits of the MD5 of a text in UTF-8, as a whole number."""
    HASH = auto()
    """The first 64 bits of the SHA-256 of a text in UTF-8, as 16 hexadecimal digits, whose order is that of numbers."""

    ELEMENT = auto()
    """The value at a place of a list, from 1; NULL where it has none."""

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
    MOMENT = auto()
    """The time so many seconds after the year 1 began, which lies in the calendar."""


@dataclass(frozen=True)
class Reference:
    """A reference to a column of the source; of one of the joined relations, if ``part`` names it."""

    name: str
    alias: str | None = None


@dataclass(frozen=True)
class Constant:
    """A public value; None is NULL."""

    value: Value | None
    kind: Kind


@dataclass(frozen=True)
class SecretConstant(Constant):
    """A key that no log may show, in a filter: an engine that logs its plans joins it as a row instead."""


@dataclass(frozen=True)
class Apply:
    """An operation applied to values of one row."""

    operation: ScalarFunction
    arguments: tuple[Scalar, ...]
    detail: tuple[object, ...] = ()


class AggregateFunction(Enum):
    """How the values of a group are reduced to one."""

    COUNT = auto()
    """The number of rows; of those where the argument is not NULL, if there is one."""
    UNITS = auto()
    """The number of different values, NULL aside."""
    RESIDUES = auto()
    """The number of different remainders by 62 of whole numbers that are not negative; at least one is not NULL."""
    NUMBER_SET = auto()
    """The set of whole numbers from 0 to 61, as the bits of a 64-bit one; at least one is not NULL."""
    SUM = auto()
    """Of 64-bit or wide whole numbers, exact and wide; NULL of none."""
    SUM_OF_NARROW = auto()
    """The same of 64-bit numbers alone, which some engines add up more quickly."""
    MIN = auto()
    """Of numbers, texts (as bytes), dates or times; NULL of none."""
    MAX = auto()


@dataclass(frozen=True)
class GroupTotal:
    """An aggregate over a group of rows."""

    aggregation: AggregateFunction
    argument: Scalar | None = None
    where: Scalar | None = None
    """Only rows for which this holds."""


@dataclass(frozen=True)
class LeastValues:
    """The least values in a group of rows, in their order, as a list of at most ``count``; few engines have it."""

    argument: Scalar
    count: int


@dataclass(frozen=True)
class Ordered:
    """A sort key whose direction or NULL placement differs from the default, ascending with NULLs last."""

    scalar: Scalar
    descending: bool = False
    nulls_first: bool = False


class RowNumber(Enum):
    """A way to number the rows of a partition, from 1."""

    ROW_NUMBER = auto()
    RANK = auto()
    """Equal rows share a place, and the next is as much later."""
    DENSE_RANK = auto()
    """Equal rows share a place, and the next is the one after."""


@dataclass(frozen=True)
class Rank:
    """The rank of a row within its partition; NULLs come last unless stated otherwise. Without a partition and an order
    it numbers all rows, in an order of the engine's choice.
    """

    partition: tuple[Scalar, ...]
    order: tuple[Scalar | Ordered, ...]
    numbering: RowNumber = RowNumber.ROW_NUMBER


class WindowFrame(Enum):
    """The rows of a partition that a window function aggregates."""

    PEERS = auto()
    """Those up to the row and those that tie with it."""
    ROWS = auto()
    """Those up to the row."""
    WHOLE = auto()


@dataclass(frozen=True)
class WindowTotal:
    """An aggregate over the window frame of each row."""

    total: GroupTotal
    partition: tuple[Scalar, ...]
    order: tuple[Scalar | Ordered, ...]
    frame: WindowFrame


@dataclass(frozen=True)
class Shifted:
    """LEAD or LAG: the value ``places`` rows later in the partition, or earlier if ``places`` is negative."""

    scalar: Scalar
    offset: int
    default: Scalar | None
    """Where there is no such row; NULL if nothing is given."""
    partition: tuple[Scalar, ...]
    order: tuple[Scalar | Ordered, ...]


@dataclass(frozen=True)
class Items:
    """An unnested list: one row per item, and none where the list is empty or NULL."""

    list: Reference


Scalar = Reference | Constant | Apply | GroupTotal | LeastValues | Rank | WindowTotal | Shifted | Items


@dataclass(frozen=True)
class CleanTable:
    """The clean scan of a table of the policy."""

    name: str
    columns: tuple[str, ...] | None = None
    """The columns that the statement reads, beside the unit; None where it may read all."""


@dataclass(frozen=True)
class StageReference:
    """A reference to an earlier stage of the statement, as to a common table expression."""

    name: str


@dataclass(frozen=True)
class ValueList:
    """A relation of one column ``x``: the public values bound as a parameter of the statement, and NULL."""

    number: int
    """The place of the list among all, from 1."""
    kind: Type


@dataclass(frozen=True)
class IntegerSpan:
    """A relation of one column ``x``: ``count`` consecutive numbers, days or hours from ``first`` on, and NULL."""

    first: Constant
    count: int


@dataclass(frozen=True)
class RelationalUnion:
    """UNION ALL: duplicates are kept, columns are matched by position."""

    members: tuple[Select, ...]


Relation = CleanTable | StageReference | ValueList | IntegerSpan | RelationalUnion


@dataclass(frozen=True)
class RelationalJoin:
    """A join to another relation; without a condition, a cross join."""

    relation: Relation | Select
    alias: str
    on: Scalar | None = None
    outer: bool = False


@dataclass(frozen=True)
class Exists:
    """A semi-join predicate: another relation has a row for which the condition holds, or (negated) has none."""

    relation: Relation | Select
    alias: str
    on: Scalar
    negated: bool = False


@dataclass(frozen=True)
class AnyOf:
    """A predicate that holds where one of several does: a boolean that is never NULL, or a semi-join predicate."""

    predicates: tuple[Scalar | Exists, ...]


@dataclass(frozen=True)
class Select:
    """A SELECT: columns over the rows of a relation, with joins, filters and grouping."""

    columns: tuple[tuple[str, Scalar], ...]
    source: Relation | Select
    alias: str = "r"
    """What the source is called inside."""
    joins: tuple[RelationalJoin, ...] = ()
    where: tuple[Scalar | Exists | AnyOf, ...] = ()
    group_by: tuple[str, ...] = ()
    """Columns of the source whose values make a group; without any, all rows are one group where totals are taken."""
    having: Scalar | None = None
    all_columns: bool = False
    """Whether the columns of the source come first."""


@dataclass(frozen=True)
class StagedSelect:
    """A statement with common table expressions, each of which may use those before it."""

    stages: tuple[tuple[str, Select], ...]
    result: Select


def references(scalar: Scalar) -> Iterator[str]:
    """Yield the names of the columns that a scalar refers to."""
    if isinstance(scalar, Reference):
        yield scalar.name
    elif isinstance(scalar, Apply):
        for argument in scalar.arguments:
            yield from references(argument)


def apply(operation: ScalarFunction, *arguments: Scalar, detail: tuple[object, ...] = ()) -> Apply:
    return Apply(operation, arguments, detail)


def integer_constant(value: int) -> Constant:
    return Constant(value, Type.INTEGER)
