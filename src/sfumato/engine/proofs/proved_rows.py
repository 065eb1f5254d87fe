"""The hostile rows of an engine's self-test, and the cases that are computed over them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

from sfumato.engine.lowering.relational_form import Reference, Scalar, ScalarFunction, apply
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

KINDS = {
    "n": Type.INTEGER,
    "i": Type.INTEGER,
    "j": Type.INTEGER,
    "d": Type.REAL,
    "e": Type.REAL,
    "t": Type.TEXT,
    "y": Type.DATE,
    "s": Type.TIMESTAMP,
    "b": Type.BOOLEAN,
    "zi": Type.TEXT,
    "zr": Type.TEXT,
    "zy": Type.TEXT,
    "zs": Type.TEXT,
    "a": Type.BOOLEAN,
    "f": Type.TEXT,
    "g": Type.TEXT,
}
"""The last two are doubles, some of them infinite or no number, which no literal is: they are carried as texts."""
Row = dict[str, Any]
_CELLS: tuple[tuple[Any, ...], ...] = (
    (
        1,
        7,
        2,
        2.5,
        0.1,
        "it's 100% a_b\\c",
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 23, 59, 59, 999999),
        True,
        " 007 ",
        "1e3",
        "2024-02-29",
        "2024-02-29 23:59:59.999999+05:30",
    ),
    (
        2,
        -7,
        3,
        -2.5,
        1.0,
        "Straße",
        dt.date(1, 1, 1),
        dt.datetime(1, 1, 1),
        False,
        "-9",
        " -.5 ",
        "0001-01-01",
        "0001-01-02T00:00Z",
    ),
    (
        3,
        2**62,
        -1,
        0.49999999999999994,
        7.25,
        "NORTH",
        dt.date(9999, 12, 31),
        dt.datetime(9999, 12, 31, 23, 59),
        None,
        "8999999999999999999",
        "0.1",
        "9999-12-31",
        "9999-12-31",
    ),
    (
        4,
        -(2**62),
        9,
        -0.5,
        1e-09,
        "north",
        dt.date(1969, 12, 31),
        dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
        True,
        "+12",
        "1e-199",
        "1969-12-31",
        "1969-12-31 23:59:59.5-14:59",
    ),
    (
        5,
        0,
        4,
        1000000000000000.0 + 0.5,
        3.0,
        "",
        dt.date(2000, 1, 3),
        dt.datetime(2000, 1, 3, 0, 0, 0, 1),
        False,
        "0",
        "9007199254740993",
        "2000-01-03",
        "2000-01-03 00:00:00.000001",
    ),
    (
        6,
        2**62,
        5,
        3.5,
        123456.789,
        "é😀 ",
        dt.date(2021, 1, 3),
        dt.datetime(2021, 1, 3, 12),
        None,
        "5",
        "2.2250738585072014e-100",
        "2021-01-03",
        "2021-01-03 12:00+02",
    ),
    (7, None, None, None, None, None, None, None, None) + (None,) * 4,
    (
        8,
        -3,
        -7,
        -1e300,
        1e300,
        "a\nb",
        dt.date(2020, 12, 31),
        dt.datetime(2020, 12, 31, 6, 7, 8),
        True,
        "-0",
        "-0.0",
        "2020-12-31",
        "2020-12-31 06:07:08",
    ),
    (9, 1 - 2**63, 2, None, None, "Zz", None, None, False) + (None,) * 4,
)
_TRUTHS_AND_REALS = (
    (True, "0.0", "-0.0"),
    (False, "-0.0", "0.0"),
    (True, "NaN", "NaN"),
    (False, "Infinity", "NaN"),
    (None, "-Infinity", "1.5"),
    (False, "1.5", None),
    (None, None, None),
    (None, "-1.5", "-1.5"),
    (True, "5e-324", "-0.0"),
)
"""With the truths before them these are all nine pairs of what is true, false or NULL."""
ROWS = tuple((*cells, *more) for cells, more in zip(_CELLS, _TRUTHS_AND_REALS, strict=True))
ALL = tuple(dict(zip(KINDS, row, strict=True)) for row in ROWS)


@dataclass(frozen=True)
class SpellingCase:
    """A spelling, and its expected value for a row."""

    name: str
    scalar: Scalar
    means: Callable[[Row], Any]
    allows_adjacent_double: bool = False
    """Whether a result may be one step of a double away."""
    compares_reals: bool = False
    """Whether it compares the doubles that are carried as texts."""


def column_reference(column: str) -> Reference:
    return Reference(column, "r")


def case_of_columns(
    name: str,
    scalar: Scalar,
    columns: tuple[str, ...],
    means: Callable[..., Any],
    *,
    allows_adjacent_double: bool = False,
) -> SpellingCase:
    """Build a case whose expected value depends on some columns: NULL if one of them is."""

    def expected(row: Row) -> Any:
        values = [row[column] for column in columns]
        return None if None in values else means(*values)

    return SpellingCase(name, scalar, expected, allows_adjacent_double)


def unary_case(
    name: str, operation: ScalarFunction, column: str, means: Callable[[Any], Any], *detail: object
) -> SpellingCase:
    """Build a case of an operation on one column."""
    return case_of_columns(name, apply(operation, column_reference(column), detail=detail), (column,), means)


def has_finite_reals(row: Row) -> bool:
    """Return whether no double of a row that is carried as text is infinite or no number."""
    return all(row[column] is None or math.isfinite(float(row[column])) for column in "fg")


def not_null(*values: Any) -> list[Any]:
    return [value for value in values if value is not None]
