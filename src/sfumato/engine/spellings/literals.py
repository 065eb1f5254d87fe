"""Quote values and names as SQL text: the only way in which user-supplied text enters a statement."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.engine.lowering.relational import Kind
from sfumato.plan.values.intervals import nearest_double
from sfumato.policy import Type, Value

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
