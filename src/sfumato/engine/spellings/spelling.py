"""A spelling writes what dialects write differently; the generator writes everything else for all of them.

Dialects have these words in common; each of them says only what it writes otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol

from sfumato.engine.lowering.relational import Kind, Wide
from sfumato.engine.spellings.literals import Literals
from sfumato.policy import Type, Value


class Spelling(Protocol):
    """A spelling says how one dialect writes the forms in which dialects differ.

    Arguments and results are SQL; a method may name an argument more than once only if that is cheap, since a long
    argument is staged before. Whatever the arguments hold, what is written fails for no row.
    """

    types: Mapping[Kind, str]
    """The type of each kind: 64-bit whole numbers, doubles, texts compared as bytes, and wide whole numbers."""
    staged: str
    """What ends a subselect that is to be computed once, not merged into what selects from it."""

    def name(self, identifier: str) -> str:
        """Quote an identifier: any text is safe."""
        ...

    def constant(self, value: Value | None, kind: Kind) -> str:
        """Write a public value as a literal of its kind; a real is the double nearest to it."""
        ...

    def convert(self, x: str, kind: Kind) -> str:
        """Convert to another kind a value that surely fits; a text is compared and ordered by its bytes."""
        ...

    def nearest(self, x: str) -> str:
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

    def half_away(self, x: str) -> str:
        """Round to the nearest whole double, halves away from zero, of any double."""
        ...

    def divide_whole(self, x: str, y: str) -> str:
        """Divide two whole numbers, rounding toward zero; the second is not 0."""
        ...

    def divide_wide(self, x: str, y: str) -> str:
        """Divide two wide whole numbers, rounding toward zero; the second is not 0."""
        ...

    def least(self, *xs: str) -> str:
        """Take the least, passing over NULL."""
        ...

    def greatest(self, *xs: str) -> str:
        """Take the greatest, passing over NULL."""
        ...

    def like(self, x: str, pattern: str) -> str:
        """Tell whether a text matches a pattern in which nothing is an escape."""
        ...

    def matches(self, x: str, grammar: str) -> str:
        """Tell whether a whole text matches a regular expression of the common kind."""
        ...

    def read(self, x: str, kind: Type) -> str:
        """Read a text that matches the grammar of a type, spaces around it and all, as a value of that type; a time's
        zone counts.
        """
        ...

    def lower(self, x: str) -> str:
        """Write a text in small letters, one for one, as ``plan.letters`` says."""
        ...

    def upper(self, x: str) -> str:
        """Write a text in capital letters, one for one; a letter without a single capital stays."""
        ...

    def trim(self, x: str, letters: str, start: bool, end: bool) -> str:
        """Strip a text of these letters at the ends named."""
        ...

    def slice(self, x: str, first: str, count: str) -> str:
        """Take so many letters (at least 0) from a position (at least 1) on."""
        ...

    def code(self, x: str, *texts: str) -> str:
        """Write a text that is one of these as what is grouped by fastest, ordered alike; the text itself will do."""
        ...

    def digest(self, *texts: str) -> str:
        """Compute the MD5, in hexadecimal, of the texts that are not NULL with a bar between them."""
        ...

    def part(self, x: str, part: str) -> str:
        """Read a part of a date or time as a 64-bit whole number: Sunday is 0, weeks are ISO's."""
        ...

    def start(self, x: str, unit: str, kind: Type) -> str:
        """Find the start of the unit that holds a date or time; weeks start on Monday."""
        ...

    def moved(self, x: str, amount: int, unit: str, kind: Type) -> str:
        """Move a date or time by so many units, at the month's end at the latest; the result lies in the calendar."""
        ...

    def days(self, first: str, last: str) -> str:
        """Count the days from one date or time to another, whatever the hour."""
        ...

    def seconds(self, x: str) -> str:
        """Count the whole seconds of a date or time since the year 1 began."""
        ...

    def wide_sum(self, x: str, over: str = "") -> str:
        """Write the exact sum of whole numbers in a group, wide; or of a window, which is written so."""
        ...

    def narrow_sum(self, x: str, over: str = "") -> str:
        """Write the exact sum, wide, of 64-bit numbers in a group, or of a window."""
        ...

    def listed(self, number: int, kind: Type) -> str:
        """Write a SELECT of the values of a list that is a parameter of the statement."""
        ...

    def items(self, x: str) -> str:
        """Spell what makes a row of each item of a list, as a column of SELECT."""
        ...

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Write a SELECT of so many whole numbers, days (of a date) or hours (of a time), from the first on."""
        ...


SECONDS_BEFORE_1970 = 62_135_596_800
"""From the start of the year 1, the calendar's first, so that no time counts below 0."""


class CommonSpelling:
    """These are the words of a ``Spelling`` that are the same SQL on most engines: CAST rounds to even, LEAST and
    GREATEST pass over NULL, FLOOR, CEIL and TRUNC give doubles.
    """

    types: Mapping[Kind, str]
    literals: Literals
    staged = ""

    def name(self, identifier: str) -> str:
        return self.literals.name(identifier)

    def constant(self, value: Value | None, kind: Kind) -> str:
        if value is None or kind is Wide.INTEGER:
            return self.convert("NULL" if value is None else str(value), kind)
        return self.literals.literal(Fraction(value) if kind is Type.REAL else value)  # type: ignore[arg-type]

    def convert(self, x: str, kind: Kind) -> str:
        return f"CAST({x} AS {self.types[kind]})"

    def nearest(self, x: str) -> str:
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

    def code(self, x: str, *_: str) -> str:
        return x

    def start(self, x: str, unit: str, kind: Type) -> str:
        return self.convert(f"date_trunc('{unit}', {x})", kind)

    def wide_sum(self, x: str, over: str = "") -> str:
        return self.convert(f"SUM({x}){over}", Wide.INTEGER)

    def narrow_sum(self, x: str, over: str = "") -> str:
        return self.wide_sum(x, over)

    def items(self, x: str) -> str:
        return f"unnest({x})"
