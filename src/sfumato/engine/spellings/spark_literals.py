"""Values and names become Spark's SQL here, and in no other way does anything but our own words get into it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from fractions import Fraction

from sfumato.plan.intervals import nearest
from sfumato.policy import Value

_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024"})
"""In a text a backslash begins an escape; and ``${…}`` stands for a setting, wherever in a statement it is written."""


def literal(value: Value | None) -> str:
    """Write a value as a typed literal; a real is the double nearest to it.

    >>> literal("it's"), literal(Fraction(1, 4)), literal(dt.date(2024, 1, 31))
    ("'it\\\\'s'", "CAST('0.25' AS DOUBLE)", "DATE '2024-01-31'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.translate(_ESCAPED) + "'"
    if isinstance(value, int):
        return f"CAST({value} AS BIGINT)"
    if isinstance(value, Fraction):
        return real(nearest(value))
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
    return f"DATE '{value.isoformat()}'"


def real(value: float) -> str:
    """Write a double by its shortest decimal, which reads back as the same double."""
    return f"CAST('{value!r}' AS DOUBLE)"


def listed(values: Iterable[Value]) -> str:
    return ", ".join(literal(value) for value in values)


def name(identifier: str) -> str:
    """Write a quoted identifier: any text is safe where settings are not put into statements.

    >>> name("5` pipe")
    '`5`` pipe`'
    """
    return "`" + identifier.replace("`", "``") + "`"
