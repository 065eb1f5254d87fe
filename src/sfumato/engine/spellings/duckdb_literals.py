"""Values and names become SQL text here, and in no other way does anything but our own words get into a statement."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from fractions import Fraction

from sfumato.policy import Value


def literal(value: Value | None) -> str:
    """Write a value as a typed literal; a real is the double nearest to it.

    >>> literal("it's"), literal(Fraction(1, 4)), literal(dt.date(2024, 1, 31))
    ("'it''s'", "CAST('0.25' AS DOUBLE)", "DATE '2024-01-31'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int):
        return f"CAST({value} AS BIGINT)"
    if isinstance(value, Fraction):
        return real(float(value))
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return f"DATE '{value.isoformat()}'"


def real(value: float) -> str:
    """Write a double by its shortest decimal, which reads back as the same double."""
    return f"CAST('{value!r}' AS DOUBLE)"


def listed(values: Iterable[Value]) -> str:
    return ", ".join(literal(value) for value in values)


def name(identifier: str) -> str:
    """Write a quoted identifier: any text is safe.

    >>> name('5" pipe')
    '"5"" pipe"'
    """
    return '"' + identifier.replace('"', '""') + '"'
