"""An engine proves at its opening that it computes what our spellings mean: one SELECT, over rows that are handed over.

Versions, settings, locales and encodings change what a function does, and a server that computes another total would
break the bound that its noise was made for. So before anything is asked, every spelling is applied to hostile values
that the server's optimiser does not know, and what comes back is compared with what each means, computed here. The
first difference is a refusal that names the function.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.engine.carried_tables import Carried
from sfumato.engine.lowering.relational import (
    Aggregation,
    Constant,
    Frame,
    Operation,
    Ordered,
    Over,
    Rank,
    Reference,
    Scalar,
    Select,
    Statement,
    Table,
    Total,
    Wide,
    apply,
    whole,
)
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.values import calendar, letters
from sfumato.plan.values.functions.temporal import PARTS
from sfumato.plan.values.grammars import GRAMMARS
from sfumato.policy import Type

Scan = Callable[[Carried, list[object]], str]
"""Writes what FROM says to read carried values, and adds what is handed over beside the statement."""
Run = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

_KINDS = {
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
}
_SURELY_HELD = 2**60
"""Doubles up to this size are surely held as whole numbers of 64 bits."""
Row = dict[str, Any]
_ROWS: tuple[tuple[Any, ...], ...] = (
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
        -1,
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
)
_ALL = tuple(dict(zip(_KINDS, each, strict=True)) for each in _ROWS)
LETTERS = (
    "aAzZ éÉ ßẞ İıIi ŉ ǅǆǄ ſ ΑΣασς ᾳᾼ ΐ ЖжЁё Ԥԥ ԱաՖֆև ẖ Åå K ﬁ Ⅷⅷ ⓐⒶ Ａａ 𐐀𐐨 😀",
    "ΣΑΣ ΟΔΟΣ straße ISTANBUL İSTANBUL ﬀ ŸÿŽž ƀɃ ȺⱥɐⱯ",
)
"""Letters that servers turn in different ways: with more than one letter, by where they stand, or not at all."""


@dataclass(frozen=True)
class Case:
    """A case is one spelling with what it means of a row; a meaning is only asked for what is there."""

    name: str
    scalar: Scalar
    means: Callable[[Row], Any]
    near: bool = False
    """Whether a result may be one step of a double away."""


def _of(column: str) -> Reference:
    return Reference(column, "r")


def _meant(
    name: str, scalar: Scalar, columns: tuple[str, ...], means: Callable[..., Any], *, near: bool = False
) -> Case:
    """Prove what is meant of the values that a row has in some columns: NULL where one of them is."""

    def of_row(row: Row) -> Any:
        values = [row[each] for each in columns]
        return None if None in values else means(*values)

    return Case(name, scalar, of_row, near)


def _one(name: str, operation: Operation, column: str, means: Callable[[Any], Any], *detail: object) -> Case:
    """Apply an operation to one column."""
    return _meant(name, apply(operation, _of(column), detail=detail), (column,), means)


def _numbers() -> list[Case]:
    return [*_rounded(), *_whole_numbers(), *_reals(), *_over_rows()]


def _rounded() -> list[Case]:
    return [
        _one("FLOOR", Operation.FLOOR, "d", lambda x: float(math.floor(x))),
        _one("CEIL", Operation.CEILING, "d", lambda x: float(math.ceil(x))),
        _one("TRUNC", Operation.TRUNCATE, "d", lambda x: float(math.trunc(x))),
        _one("ROUND", Operation.HALF_AWAY, "d", _away),
        _held("the nearest whole number", Operation.NEAREST, lambda x: round(Fraction(x))),
        _held("the whole number toward zero", Operation.TOWARD_ZERO, int),
    ]


def _away(x: float) -> float:
    """Round to the nearest whole number, halves away from zero."""
    size = Fraction(abs(x)) + Fraction(1, 2)
    return math.copysign(float(math.floor(size)), x) if size < 2**53 else x


def _held(name: str, operation: Operation, means: Callable[[float], int]) -> Case:
    """Round a double where a whole number of 64 bits surely holds it; NULL elsewhere."""
    d, ends = _of("d"), (Constant(Fraction(end), Type.REAL) for end in (-_SURELY_HELD, _SURELY_HELD))
    guarded = apply(Operation.CASE, apply(Operation.BETWEEN, d, *ends), apply(operation, d))
    return _meant(name, guarded, ("d",), lambda x: means(x) if abs(x) <= _SURELY_HELD else None)


def _whole_numbers() -> list[Case]:
    i, j, both = _of("i"), _of("j"), ("i", "j")
    divided = apply(Operation.DIVIDE_WIDE, *(apply(Operation.CONVERT, each, detail=(Wide.INTEGER,)) for each in (i, j)))
    return [
        _meant("//", apply(Operation.DIVIDE_WHOLE, i, j), both, _quotient),
        _meant("%", apply(Operation.REMAINDER, i, j), both, lambda x, y: x - y * _quotient(x, y)),
        _meant("// of wide numbers", apply(Operation.CONVERT, divided, detail=(Type.INTEGER,)), both, _quotient),
        Case("LEAST", apply(Operation.LEAST, i, whole(5), j), lambda row: min(_there(row["i"], 5, row["j"]))),
        Case("GREATEST", apply(Operation.GREATEST, i, whole(5), j), lambda row: max(_there(row["i"], 5, row["j"]))),
    ]


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _there(*values: Any) -> list[Any]:
    return [each for each in values if each is not None]


def _reals() -> list[Case]:
    e = _of("e")
    return [
        _meant("+", apply(Operation.ADD, e, Constant(Fraction("0.2"), Type.REAL)), ("e",), lambda x: x + 0.2),
        _meant("*", apply(Operation.MULTIPLY, e, Constant(Fraction("0.1"), Type.REAL)), ("e",), lambda x: x * 0.1),
        _meant("/", apply(Operation.DIVIDE, Constant(Fraction(1), Type.REAL), e), ("e",), lambda x: 1 / x),
        _one("SQRT", Operation.SQRT, "e", math.sqrt),
        _meant("LN", apply(Operation.LN, e), ("e",), math.log, near=True),
        _one("a real of a whole number", Operation.CONVERT, "i", float, Type.REAL),
    ]


def _over_rows() -> list[Case]:
    """Prove sums and orders of all rows; one sum is beyond what 64 bits hold, so that no narrower type passes."""
    i, t = _of("i"), _of("t")
    texts = [each.encode() for each in _there(*(row["t"] for row in _ALL))]
    numbers = [row["i"] for row in _ALL]
    return [
        Case("SUM", _of_all(Total(Aggregation.SUM, i)), lambda _: sum(row["i"] or 0 for row in _ALL)),
        Case(
            "a SUM beyond 64 bits",
            _of_all(Total(Aggregation.SUM, i, apply(Operation.GREATER, i, whole(0)))),
            lambda _: sum(max(row["i"] or 0, 0) for row in _ALL),
        ),
        Case("a SUM of cells", _of_all(Total(Aggregation.SUM_OF_NARROW, i)), lambda _: sum(_there(*numbers))),
        Case(
            "a SUM of cells beyond 64 bits",
            _of_all(Total(Aggregation.SUM_OF_NARROW, i, apply(Operation.GREATER, i, whole(0)))),
            lambda _: sum(max(each, 0) for each in _there(*numbers)),
        ),
        Case("MAX of texts", _of_all(Total(Aggregation.MAX, t)), lambda _: max(texts).decode()),
        Case(
            "ORDER BY of texts",
            Rank((whole(0),), (Ordered(t, descending=True, nulls_first=True),)),
            lambda row: 1 if row["t"] is None else 2 + sum(each > row["t"].encode() for each in texts),
        ),
    ]


def _of_all(total: Total) -> Scalar:
    return Over(total, (whole(0),), (), Frame.WHOLE)


def _on_texts() -> list[Case]:
    return [*_of_texts(), *_read_and_written()]


def _of_texts() -> list[Case]:
    t, quoted = _of("t"), _ROWS[0][5]
    north, a, accented, bar = (Constant(each, Type.TEXT) for each in ("north", "a", "é", "|"))
    digested = apply(Operation.DIGEST, Constant("7", Type.TEXT), t, _of("zi"))
    return [
        _one("LENGTH", Operation.LENGTH, "t", len),
        _one("LIKE", Operation.LIKE, "t", lambda x: "\\" in x, "%\\%"),
        _one("_ in LIKE", Operation.LIKE, "t", lambda x: len(x) == 3, "___"),
        _meant("equality of texts", apply(Operation.EQUAL, t, north), ("t",), lambda x: x == "north"),
        _meant(
            "a text with a quote",
            apply(Operation.EQUAL, t, Constant(quoted, Type.TEXT)),
            ("t",),
            lambda x: x == quoted,
        ),
        _one("TRIM", Operation.TRIM, "t", lambda x: x.strip(" a"), " a", True, True),
        _one("LTRIM", Operation.TRIM, "t", lambda x: x.lstrip(" ai"), " ai", True, False),
        _one("RTRIM", Operation.TRIM, "t", lambda x: x.rstrip(" "), " ", False, True),
        _meant("SUBSTR", apply(Operation.SLICE, t, whole(2), whole(3)), ("t",), lambda x: x[1:4]),
        _meant("SUBSTR far", apply(Operation.SLICE, t, whole(2**31), whole(2**31)), ("t",), lambda _: ""),
        _meant("REPLACE", apply(Operation.REPLACE, t, a, accented), ("t",), lambda x: x.replace("a", "é")),
        _meant("||", apply(Operation.JOIN, t, bar), ("t",), lambda x: x + "|"),
        Case("MD5", digested, lambda row: _md5("|".join(_there("7", row["t"], row["zi"])))),
        _one("a regular expression over lines", Operation.MATCHES, "t", lambda x: x == "a", "a|b"),
    ]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _read_and_written() -> list[Case]:
    return [
        _one("CAST of a whole number to text", Operation.CONVERT, "i", str, Type.TEXT),
        _one("CAST of a date to text", Operation.CONVERT, "y", lambda y: y.isoformat(), Type.TEXT),
        _one("CAST of a time to text", Operation.CONVERT, "s", _shown_time, Type.TEXT),
        _one("CAST to a whole number", Operation.READ, "zi", int, Type.INTEGER),
        _one("CAST to a real", Operation.READ, "zr", float, Type.REAL),
        _one("CAST to a date", Operation.READ, "zy", dt.date.fromisoformat, Type.DATE),
        _one("CAST to a time", Operation.READ, "zs", _utc, Type.TIMESTAMP),
        _one("a regular expression", Operation.MATCHES, "zs", lambda _: True, GRAMMARS[Type.TIMESTAMP]),
    ]


def _shown_time(time: dt.datetime) -> str:
    shown = time.strftime("%H:%M:%S") + (f".{time.microsecond:06}".rstrip("0") if time.microsecond else "")
    return f"{time.date().isoformat()} {shown}"


def _utc(text: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return time if time.tzinfo is None else (time - time.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]


def _dates() -> list[Case]:
    epoch = dt.datetime(1, 1, 1)
    return [
        *(_one(f"EXTRACT({part})", Operation.PART, "s", partial(_part, part), part) for part in PARTS),
        *_starts(),
        *_moved(),
        _meant("DATE_DIFF", apply(Operation.DAYS, _of("y"), _of("s")), ("y", "s"), lambda y, s: (s.date() - y).days),
        _one("seconds of a time", Operation.SECONDS, "s", lambda s: (s - epoch) // dt.timedelta(seconds=1)),
        _one("a date as a time", Operation.CONVERT, "y", lambda y: dt.datetime(y.year, y.month, y.day), Type.TIMESTAMP),
        _one("a time as a date", Operation.CONVERT, "s", lambda s: s.date(), Type.DATE),
        Case("IS TRUE", apply(Operation.IS_TRUE, _of("b")), lambda row: row["b"] is True),
    ]


def _starts() -> list[Case]:
    days = ("year", "quarter", "month", "week", "day")
    of_dates = [(unit, "y", calendar.truncated, Type.DATE) for unit in days]
    of_times = [(unit, "s", _truncated, Type.TIMESTAMP) for unit in (*days, "hour", "minute", "second")]
    return [
        _one(f"DATE_TRUNC({unit})", Operation.START, column, partial(means, unit), unit, kind)
        for unit, column, means, kind in (*of_dates, *of_times)
    ]


def _moved() -> list[Case]:
    """Move dates by units, those of two centuries: others might leave the calendar."""
    y, ends = _of("y"), (Constant(dt.date(year, 1, 1), Type.DATE) for year in (1900, 2100))
    within = apply(Operation.BETWEEN, y, *ends)
    return [
        _meant(
            f"a date and {amount} {unit}",
            apply(Operation.CASE, within, apply(Operation.MOVED, y, detail=(amount, unit, Type.DATE))),
            ("y",),
            partial(_shifted, amount, unit),
        )
        for unit, amount in (("day", -1), ("week", 2), ("month", 1), ("quarter", 1), ("year", -1))
    ]


def _shifted(amount: int, unit: str, day: dt.date) -> dt.date | None:
    return calendar.shifted(day, amount, unit) if 1900 <= day.year < 2100 else None


def _truncated(unit: str, time: dt.datetime) -> dt.datetime:
    if unit in ("hour", "minute", "second"):
        cleared = {"second": 0} if unit in ("hour", "minute") else {}
        return time.replace(**({"minute": 0} if unit == "hour" else {}), **cleared, microsecond=0)  # type: ignore[arg-type]
    day = calendar.truncated(unit, time.date())
    return dt.datetime(day.year, day.month, day.day)


def _part(part: str, s: dt.datetime) -> int:
    if part in ("year", "month", "day", "hour", "minute", "second"):
        return int(getattr(s, part))
    return {
        "quarter": (s.month + 2) // 3,
        "week": s.isocalendar()[1],
        "dow": s.isoweekday() % 7,
        "isodow": s.isoweekday(),
        "doy": s.timetuple().tm_yday,
    }[part]


def cases() -> list[Case]:
    """List what is proved, letters aside."""
    return [*_numbers(), *_on_texts(), *_dates()]


def prove(spelling: Spelling, scan: Scan, run: Run, place: str) -> None:
    """Refuse an engine that computes something else than our spellings mean, and name what."""
    proved = cases()
    try:
        found = _computed(spelling, scan, run, proved)
    except EngineFailed:
        found = []
    wrong = (
        next((case.name for case, *_ in _differing(proved, found)), None) if found else _failing(spelling, scan, run)
    )
    if wrong is None:
        return
    raise InvalidPolicy(
        f"this server computes {wrong} in another way than questions mean it",
        place=place,
        fix="read the tables with a server version, settings and locale that are known to work",
    )


def wrong_letters(spelling: Spelling, scan: Scan, run: Run) -> list[str]:
    """List the functions that turn letters in another way than one for one."""
    table = Carried(("n", "t"), (Type.INTEGER, Type.TEXT), (range(len(LETTERS)), LETTERS))
    columns = [("lower", Operation.LOWER, letters.lower), ("upper", Operation.UPPER, letters.upper)]
    made = tuple((name, apply(operation, _of("t"))) for name, operation, _ in columns)
    found = _rows(spelling, scan, run, table, made)
    return [
        name.upper()
        for place, (name, _, means) in enumerate(columns)
        if [row[place] for row in found] != [means(each) for each in LETTERS]
    ]


def _computed(spelling: Spelling, scan: Scan, run: Run, proved: Sequence[Case]) -> list[tuple[Any, ...]]:
    table = Carried(tuple(_KINDS), tuple(_KINDS.values()), tuple(zip(*_ROWS, strict=True)))
    made = tuple((f"c{place}", case.scalar) for place, case in enumerate(proved))
    return _rows(spelling, scan, run, table, made)


def _rows(
    spelling: Spelling, scan: Scan, run: Run, table: Carried, made: tuple[tuple[str, Scalar], ...]
) -> list[tuple[Any, ...]]:
    """Compute columns over carried rows, in the order of their numbers."""
    carried: list[object] = []
    source = scan(table, carried)
    select = Select((("n", _of("n")), *made), Table("proof"))
    text = Generator(spelling, lambda _: source).statement(Statement((), select))
    return [tuple(row[1:]) for row in sorted(run(text, carried), key=lambda row: row[0])]


def _differing(proved: Sequence[Case], found: Sequence[tuple[Any, ...]]) -> list[tuple[Case, Row, Any]]:
    """List the cases and rows in which what was computed is not what is meant."""
    return [
        (case, row, found[at][place])
        for place, case in enumerate(proved)
        for at, row in enumerate(_ALL)
        if not _same(found[at][place], case.means(row), near=case.near)
    ]


def _failing(spelling: Spelling, scan: Scan, run: Run) -> str | None:
    """Name the first case that the engine cannot compute at all."""
    for case in cases():
        try:
            _computed(spelling, scan, run, [case])
        except EngineFailed:
            return case.name
    return "several functions in one statement"


def _same(found: Any, meant: Any, *, near: bool) -> bool:
    if found is None or meant is None:
        return found is meant
    if isinstance(meant, float):
        value = float(found)
        return math.nextafter(meant, -math.inf) <= value <= math.nextafter(meant, math.inf) if near else value == meant
    return bool(found == meant) and isinstance(found, bool) == isinstance(meant, bool)
