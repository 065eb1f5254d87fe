"""The interface of a SQL dialect: how it quotes values and names, and what dialects write differently."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Protocol

from sfumato.engine.lowering.relational_form import Kind, Wide
from sfumato.errors import Unsupported
from sfumato.plan.values.intervals import nearest_double
from sfumato.policy import Type, Value
from sfumato.quick_dataclass import dataclass

COMMON_TYPES: Mapping[Kind, str] = {
    Type.INTEGER: "BIGINT",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
}


def quote(text: str, mark: str = "'") -> str:
    """Write a text between two marks, and each such mark within it twice: any text is safe.

    >>> quote("it's"), quote('5" pipe', '"')
    ("'it''s'", '"5"" pipe"')
    """
    return mark + text.replace(mark, mark * 2) + mark


@dataclass(frozen=True)
class Literals:
    """The literals of a dialect: dialects differ in type names, in how a text is written, and in the quote around a
    name.

    >>> plain = Literals({Type.INTEGER: "BIGINT", Type.REAL: "DOUBLE"})
    >>> plain.literal("it's"), plain.literal(Fraction(1, 4)), plain.literal(dt.date(2024, 1, 31))
    ("'it''s'", "CAST('0.25' AS DOUBLE)", "DATE '2024-01-31'")
    """

    types: Mapping[Kind, str]
    text: Callable[[str], str] = quote
    identifier_quote: str = '"'

    def literal(self, value: Value | None) -> str:
        """Write a value as a typed literal; a real is the double nearest to it."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            return f"CAST({value} AS {self.types[Type.INTEGER]})"
        if isinstance(value, Fraction):
            return self.real(nearest_double(value))
        if isinstance(value, dt.datetime):
            return f"{self.types[Type.TIMESTAMP]} '{value.isoformat(sep=' ')}'"
        return f"DATE '{value.isoformat()}'"

    def real(self, value: float) -> str:
        """Write a double by its shortest decimal, which reads back as the same double."""
        return f"CAST('{value!r}' AS {self.types[Type.REAL]})"

    def literal_list(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self.literal, values))

    def name(self, identifier: str) -> str:
        """Write a quoted identifier: any text is safe."""
        return quote(identifier, self.identifier_quote)


class Spelling(Protocol):
    """A SQL dialect: how it writes the forms in which dialects differ.

    Arguments and results are SQL; a method may repeat an argument only if that is cheap, since a long argument is
    staged before. Whatever the arguments hold, what is written fails for no row.
    """

    types: Mapping[Kind, str]
    """The type of each kind: 64-bit whole numbers, doubles, texts compared as bytes, and wide whole numbers."""
    staged: str
    """What ends a subselect that is to be computed once, not merged into what selects from it."""
    longest_merged: int
    """The longest text of computed columns that may be merged nevertheless."""
    length: str
    """The function that counts the letters of a text."""

    def name(self, identifier: str) -> str:
        """Quote an identifier: any text is safe."""
        ...

    def constant(self, value: Value | None, kind: Kind) -> str:
        """Write a public value as a literal of its kind; a real is the double nearest to it."""
        ...

    def convert(self, x: str, kind: Kind) -> str:
        """Convert to another kind a value that surely fits; a text is compared and ordered by its bytes."""
        ...

    def timestamp_text(self, x: str) -> str:
        """Write a time as text: without a fraction where it has none, else without zeros at its end."""
        ...

    def nearest_integer(self, x: str) -> str:
        """Round a double to the nearest 64-bit whole number, ties to even."""
        ...

    def toward_zero(self, x: str) -> str:
        """Convert a double to a 64-bit whole number, rounded toward zero."""
        ...

    def floor(self, x: str) -> str:
        """Round to the next whole double below, of any double."""
        ...

    def ceiling(self, x: str) -> str:
        """Round to the next whole double above, of any double."""
        ...

    def truncate(self, x: str) -> str:
        """Round to the next whole double toward zero, of any double."""
        ...

    def round_half_away(self, x: str) -> str:
        """Round to the nearest whole double, halves away from zero, of any double."""
        ...

    def divide_integers(self, x: str, y: str) -> str:
        """Divide two whole numbers, rounding toward zero; the second is not 0."""
        ...

    def divide_wide_integers(self, x: str, y: str) -> str:
        """Divide two wide whole numbers, rounding toward zero; the second is not 0."""
        ...

    def least(self, *xs: str) -> str:
        """Take the least, ignoring NULL."""
        ...

    def greatest(self, *xs: str) -> str:
        """Take the greatest, ignoring NULL."""
        ...

    def like(self, x: str, pattern: str) -> str:
        """Match a text against a LIKE pattern without escapes."""
        ...

    def matches(self, x: str, grammar: str, at_start: bool = True, at_end: bool = True) -> str:
        """Match a text against a regular expression of the common kind: the whole of it, or some part of it that need
        not be at its start or its end.
        """
        ...

    def group_of_whole_match(self, x: str, pattern: str, number: int) -> str:
        """Take the part of a text that a group of the pattern matches, where the whole text matches it."""
        ...

    def read(self, x: str, sql_type: Type) -> str:
        """Parse a text that matches the grammar of a type, including spaces around it, as a value of that type; a
        time's zone is honoured.
        """
        ...

    def lower(self, x: str) -> str:
        """Convert a text to lower case, letter by letter, as ``policy.cell_rules`` defines."""
        ...

    def upper(self, x: str) -> str:
        """Convert a text to upper case, letter by letter; a letter without a single capital stays."""
        ...

    def trim(self, x: str, characters: str, start: bool, end: bool) -> str:
        """Strip these letters from the chosen ends of a text."""
        ...

    def slice(self, x: str, first: str, count: str) -> str:
        """Take ``count`` letters (at least 0) from a position (at least 1) on."""
        ...

    def group_code(self, x: str, *texts: str) -> str:
        """Encode a text that is one of these for fast grouping, in the same order; the text itself will do."""
        ...

    def ordinal(self, x: str, *texts: str) -> str:
        """Find the place, from 1, of a code among these texts, one of which it surely is; NULL of NULL."""
        ...

    def unit_text(self, x: str) -> str:
        """Convert a unit to text: ten letters of its period's first day if it has one, then its id."""
        ...

    def fingerprint(self, x: str) -> str:
        """Compute the first 15 hexadecimal digits of the MD5 of a text in UTF-8, as a 64-bit whole number."""
        ...

    def hash(self, x: str) -> str:
        """Compute the first 16 hexadecimal digits of the SHA-256 of a text in UTF-8."""
        ...

    def part(self, x: str, part: str) -> str:
        """Extract a part of a date or time as a 64-bit whole number: Sunday is 0, weeks are ISO's."""
        ...

    def start(self, x: str, unit: str, sql_type: Type) -> str:
        """Truncate a date or time to its unit; weeks start on Monday."""
        ...

    def add_interval(self, x: str, amount: int, unit: str, sql_type: Type) -> str:
        """Add ``amount`` units to a date or time, clamped to the month's end; the result lies in the calendar."""
        ...

    def days(self, first: str, last: str) -> str:
        """Count the days from one date or time to another, whatever the hour."""
        ...

    def seconds(self, x: str) -> str:
        """Count the whole seconds of a date or time since the year 1 began."""
        ...

    def moment(self, x: str) -> str:
        """Return the time so many seconds after the year 1 began."""
        ...

    def sum_as_wide_integer(self, x: str, over: str = "") -> str:
        """Write the exact sum of whole numbers in a group, wide; or over a window, if ``over`` is given."""
        ...

    def narrow_sum(self, x: str, over: str = "") -> str:
        """Write the exact sum, wide, of 64-bit numbers in a group, or over a window."""
        ...

    def count_distinct_residues(self, x: str) -> str:
        """Count the different values in a group of whole numbers from 0 to 61, as a 64-bit whole number."""
        ...

    def number_set(self, x: str) -> str:
        """Return the set of a group's whole numbers from 0 to 61, as the bits of a 64-bit whole number."""
        ...

    def members_below(self, number_set: str, x: str) -> str:
        """Count the members of such a set that are less than a whole number from 0 to 62."""
        ...

    def sort_key(self, x: str, descending: bool, nulls_first: bool) -> str:
        """Write a key of ORDER BY."""
        ...

    def shifted(self, function: str, x: str, offset: int, default: str | None, over: str) -> str:
        """Write LEAD or LAG over a window; the default stands where there is no such row."""
        ...

    def select_parameter_list(self, number: int, sql_type: Type) -> str:
        """Write a SELECT of the values, as ``x``, of a list that is a parameter of the statement."""
        ...

    def items(self, x: str) -> str:
        """Write the expression that unnests a list, as a column of SELECT."""
        ...

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Write a SELECT of ``count`` whole numbers, days (of a date) or hours (of a time), as ``x``, from ``first``
        on.
        """
        ...


SECONDS_BEFORE_1970 = 62_135_596_800
"""From the start of the year 1, the calendar's first, so that no time counts below 0."""


def anchored(grammar: str, at_start: bool, at_end: bool, ends: tuple[str, str]) -> str:
    """Return a regular expression that is bound to the ends of a text, which the dialect writes so."""
    return f"{ends[0] if at_start else ''}(?:{grammar}){ends[1] if at_end else ''}"


_ESCAPES = "\\!#~^|"


def like_without_escapes(x: str, pattern: str, literal: Callable[[str], str]) -> str:
    """Match a pattern with an escape that does not occur in it, where without one it is the backslash."""
    unused = next(letter for letter in (*_ESCAPES, *map(chr, range(0x100, 0xD800))) if letter not in pattern)
    return f"({x} LIKE {literal(pattern)} ESCAPE {literal(unused)})"


def _ignoring_null(function: str, xs: tuple[str, ...]) -> str:
    """Take the least or greatest of two halves; a value is written at most as often as there are values, squared."""
    if len(xs) == 1:
        return xs[0]
    first, second = (_ignoring_null(function, half) for half in (xs[: len(xs) // 2], xs[len(xs) // 2 :]))
    return f"COALESCE({function}({first}, {second}), {first}, {second})"


class ExtremesOfNull:
    """The extremes of a dialect in which LEAST and GREATEST are NULL if one value is."""

    def least(self, *xs: str) -> str:
        return _ignoring_null("LEAST", xs)

    def greatest(self, *xs: str) -> str:
        return _ignoring_null("GREATEST", xs)


class CommonSpelling:
    """The parts of a ``Spelling`` that are the same SQL on most engines: CAST rounds to even, LEAST and GREATEST ignore
    NULL, FLOOR, CEIL and TRUNC return doubles.
    """

    types: Mapping[Kind, str]
    literals: Literals
    staged = ""
    longest_merged = 0
    length = "LENGTH"

    def name(self, identifier: str) -> str:
        return self.literals.name(identifier)

    def constant(self, value: Value | None, kind: Kind) -> str:
        if value is None or kind is Wide.INTEGER:
            return self.convert("NULL" if value is None else str(value), kind)
        return self.literals.literal(Fraction(value) if kind is Type.REAL else value)  # type: ignore[arg-type]

    def convert(self, x: str, kind: Kind) -> str:
        return f"CAST({x} AS {self.types[kind]})"

    def timestamp_text(self, x: str) -> str:
        return self.convert(x, Type.TEXT)

    def nearest_integer(self, x: str) -> str:
        return f"CAST({x} AS BIGINT)"

    def toward_zero(self, x: str) -> str:
        return f"CAST(TRUNC({x}) AS BIGINT)"

    def floor(self, x: str) -> str:
        return f"FLOOR({x})"

    def ceiling(self, x: str) -> str:
        return f"CEIL({x})"

    def truncate(self, x: str) -> str:
        return f"TRUNC({x})"

    def least(self, *xs: str) -> str:
        return f"LEAST({', '.join(xs)})"

    def greatest(self, *xs: str) -> str:
        return f"GREATEST({', '.join(xs)})"

    def group_code(self, x: str, *_: str) -> str:
        return x

    def unit_text(self, x: str) -> str:
        return self.convert(x, Type.TEXT)

    def start(self, x: str, unit: str, sql_type: Type) -> str:
        return self.convert(f"date_trunc('{unit}', {x})", sql_type)

    def sum_as_wide_integer(self, x: str, over: str = "") -> str:
        return self.convert(f"SUM({x}){over}", Wide.INTEGER)

    def narrow_sum(self, x: str, over: str = "") -> str:
        return self.sum_as_wide_integer(x, over)

    def count_distinct_residues(self, x: str) -> str:
        return f"CAST(BIT_COUNT(BIT_OR(CAST(1 AS BIGINT) << {x})) AS BIGINT)"

    def number_set(self, x: str) -> str:
        return f"BIT_OR(CAST(1 AS BIGINT) << {x})"

    def members_below(self, number_set: str, x: str) -> str:
        return f"CAST(BIT_COUNT({number_set} & ((CAST(1 AS BIGINT) << {x}) - 1)) AS BIGINT)"

    def sort_key(self, x: str, descending: bool, nulls_first: bool) -> str:
        return f"{x}{' DESC' if descending else ''} NULLS {'FIRST' if nulls_first else 'LAST'}"

    def shifted(self, function: str, x: str, offset: int, default: str | None, over: str) -> str:
        return f"{function}({x}, {offset}{'' if default is None else f', {default}'}){over}"

    def items(self, x: str) -> str:
        return f"unnest({x})"


@dataclass(frozen=True)
class CollatedSpelling(CommonSpelling):
    """What dialects share whose servers have collations: a text without U+0000, and letters changed under one of them
    and compared by bytes.
    """

    letters: str | None = None
    """The collation under which LOWER and UPPER turn letters one for one; None where the server has none."""

    bytewise = ""
    """The collation that compares bytes."""

    def upper(self, x: str) -> str:
        """Convert to upper case; ẞ becomes ß again, since not every server knows that capital."""
        return f"REPLACE({self.change_case('UPPER', x)}, 'ẞ', 'ß')"

    def slice(self, x: str, first: str, count: str) -> str:
        return f"SUBSTR({x}, {self.position(first)}, {self.position(count)})"

    def position(self, x: str) -> str:
        """Clamp a position or a count to what every server takes; NULL stays NULL."""
        return f"CASE WHEN {x} > {_MAX_POSITION} THEN {_MAX_POSITION} ELSE {x} END"

    def change_case(self, function: str, x: str) -> str:
        if self.letters is None:
            raise Unsupported(
                "engine-limits",
                f"{function} needs a collation that maps letters one to one, and this server has none",
                fix="use the text without this function, or ask the owner for a server with such a collation",
            )
        return f"({function}({x} COLLATE {self.letters}) COLLATE {self.bytewise})"


_MAX_POSITION = 1_000_000_000
"""No text is so long: a position or a count beyond it is this one, which 32 bits hold."""


def storable_text(value: str, server: str) -> str:
    """Quote a text as a literal; refuse one with a NUL or a surrogate, which this server's texts cannot hold."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        rule = f"a text in a statement for {server} cannot contain the character U+0000"
        raise Unsupported("engine-limits", rule, fix="remove that character from the text")
    return quote(value)
