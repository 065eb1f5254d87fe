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
    AggregateFunction,
    CleanTable,
    Constant,
    GroupTotal,
    Ordered,
    Rank,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    Wide,
    WindowFrame,
    WindowTotal,
    apply,
    whole,
)
from sfumato.engine.proofs import row_cases, statement_cases
from sfumato.engine.proofs.proved_rows import ALL, KINDS, ROWS, Case, Row, meant, of, one, there
from sfumato.engine.proofs.statement_cases import StatementCase
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.values import calendar, grammars
from sfumato.plan.values.functions.temporal import PARTS
from sfumato.plan.values.grammars import GRAMMARS
from sfumato.policy import Type

Scan = Callable[[Carried, list[object]], str]
"""Writes what FROM says to read carried values, and adds what is handed over beside the statement."""
Run = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Dialect:
    """A dialect is what an engine proves: its spellings, and how it is asked to compute."""

    spelling: Spelling
    scan: Scan
    run: Run
    lists: str = "ARRAY[{}]"
    """How a list of items is made of what stands in the braces."""
    compute: Callable[[StagedSelect, Callable[[str], str]], list[tuple[Any, ...]]] | None = None
    """How a whole statement is computed over the tables that FROM reads so, where it is not written as one text."""


_SURELY_HELD = 2**60
"""Doubles up to this size are surely held as whole numbers of 64 bits."""
LETTERS = (
    "aAzZ éÉ ßẞ İıIi ŉ ǅǆǄ ſ ΑΣασς ᾳᾼ ΐ ЖжЁё Ԥԥ ԱաՖֆև ẖ Åå K ﬁ Ⅷⅷ ⓐⒶ Ａａ 𐐀𐐨 😀",
    "ΣΑΣ ΟΔΟΣ straße ISTANBUL İSTANBUL ﬀ ŸÿŽž ƀɃ ȺⱥɐⱯ",
)
"""Letters that servers turn in different ways: with more than one letter, by where they stand, or not at all."""


def _numbers() -> list[Case]:
    return [*_rounded(), *_whole_numbers(), *_reals(), *_over_rows()]


def _rounded() -> list[Case]:
    return [
        one("FLOOR", ScalarFunction.FLOOR, "d", lambda x: float(math.floor(x))),
        one("CEIL", ScalarFunction.CEILING, "d", lambda x: float(math.ceil(x))),
        one("TRUNC", ScalarFunction.TRUNCATE, "d", lambda x: float(math.trunc(x))),
        one("ROUND", ScalarFunction.HALF_AWAY, "d", _away),
        _held("the nearest whole number", ScalarFunction.NEAREST, lambda x: round(Fraction(x))),
        _held("the whole number toward zero", ScalarFunction.TOWARD_ZERO, int),
    ]


def _away(x: float) -> float:
    """Round to the nearest whole number, halves away from zero."""
    size = Fraction(abs(x)) + Fraction(1, 2)
    return math.copysign(float(math.floor(size)), x) if size < 2**53 else x


def _held(name: str, operation: ScalarFunction, means: Callable[[float], int]) -> Case:
    """Round a double where a whole number of 64 bits surely holds it; NULL elsewhere."""
    d, ends = of("d"), (Constant(Fraction(end), Type.REAL) for end in (-_SURELY_HELD, _SURELY_HELD))
    guarded = apply(ScalarFunction.CASE, apply(ScalarFunction.BETWEEN, d, *ends), apply(operation, d))
    return meant(name, guarded, ("d",), lambda x: means(x) if abs(x) <= _SURELY_HELD else None)


def _whole_numbers() -> list[Case]:
    i, j, both = of("i"), of("j"), ("i", "j")
    divided = apply(
        ScalarFunction.DIVIDE_WIDE, *(apply(ScalarFunction.CONVERT, each, detail=(Wide.INTEGER,)) for each in (i, j))
    )
    return [
        meant("//", apply(ScalarFunction.DIVIDE_WHOLE, i, j), both, _quotient),
        meant("%", apply(ScalarFunction.REMAINDER, i, j), both, lambda x, y: x - y * _quotient(x, y)),
        meant("// of wide numbers", apply(ScalarFunction.CONVERT, divided, detail=(Type.INTEGER,)), both, _quotient),
        Case("LEAST", apply(ScalarFunction.LEAST, i, whole(5), j), lambda row: min(there(row["i"], 5, row["j"]))),
        Case("GREATEST", apply(ScalarFunction.GREATEST, i, whole(5), j), lambda row: max(there(row["i"], 5, row["j"]))),
    ]


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _reals() -> list[Case]:
    e = of("e")
    return [
        meant("+", apply(ScalarFunction.ADD, e, Constant(Fraction("0.2"), Type.REAL)), ("e",), lambda x: x + 0.2),
        meant("*", apply(ScalarFunction.MULTIPLY, e, Constant(Fraction("0.1"), Type.REAL)), ("e",), lambda x: x * 0.1),
        meant("/", apply(ScalarFunction.DIVIDE, Constant(Fraction(1), Type.REAL), e), ("e",), lambda x: 1 / x),
        one("SQRT", ScalarFunction.SQRT, "e", math.sqrt),
        meant("LN", apply(ScalarFunction.LN, e), ("e",), math.log, near=True),
        one("a real of a whole number", ScalarFunction.CONVERT, "i", float, Type.REAL),
    ]


def _over_rows() -> list[Case]:
    """Prove sums and orders of all rows; one sum is beyond what 64 bits hold, so that no narrower type passes."""
    i, t = of("i"), of("t")
    texts = [each.encode() for each in there(*(row["t"] for row in ALL))]
    numbers = [row["i"] for row in ALL]
    return [
        Case("SUM", _of_all(GroupTotal(AggregateFunction.SUM, i)), lambda _: sum(row["i"] or 0 for row in ALL)),
        Case(
            "a SUM beyond 64 bits",
            _of_all(GroupTotal(AggregateFunction.SUM, i, apply(ScalarFunction.GREATER, i, whole(0)))),
            lambda _: sum(max(row["i"] or 0, 0) for row in ALL),
        ),
        Case("a SUM of cells", _of_all(GroupTotal(AggregateFunction.SUM_OF_NARROW, i)), lambda _: sum(there(*numbers))),
        Case(
            "a SUM of cells beyond 64 bits",
            _of_all(GroupTotal(AggregateFunction.SUM_OF_NARROW, i, apply(ScalarFunction.GREATER, i, whole(0)))),
            lambda _: sum(max(each, 0) for each in there(*numbers)),
        ),
        Case("MAX of texts", _of_all(GroupTotal(AggregateFunction.MAX, t)), lambda _: max(texts).decode()),
        Case(
            "ORDER BY of texts",
            Rank((whole(0),), (Ordered(t, descending=True, nulls_first=True),)),
            lambda row: 1 if row["t"] is None else 2 + sum(each > row["t"].encode() for each in texts),
        ),
    ]


def _of_all(total: GroupTotal) -> Scalar:
    return WindowTotal(total, (whole(0),), (), WindowFrame.WHOLE)


def _on_texts() -> list[Case]:
    return [*_of_texts(), *_read_and_written()]


def _of_texts() -> list[Case]:
    t, quoted = of("t"), ROWS[0][5]
    north, a, accented, bar = (Constant(each, Type.TEXT) for each in ("north", "a", "é", "|"))
    digested = apply(ScalarFunction.DIGEST, Constant("7", Type.TEXT), t, of("zi"))
    return [
        one("LENGTH", ScalarFunction.LENGTH, "t", len),
        one("LIKE", ScalarFunction.LIKE, "t", lambda x: "\\" in x, "%\\%"),
        one("_ in LIKE", ScalarFunction.LIKE, "t", lambda x: len(x) == 3, "___"),
        meant("equality of texts", apply(ScalarFunction.EQUAL, t, north), ("t",), lambda x: x == "north"),
        meant(
            "a text with a quote",
            apply(ScalarFunction.EQUAL, t, Constant(quoted, Type.TEXT)),
            ("t",),
            lambda x: x == quoted,
        ),
        one("TRIM", ScalarFunction.TRIM, "t", lambda x: x.strip(" a"), " a", True, True),
        one("LTRIM", ScalarFunction.TRIM, "t", lambda x: x.lstrip(" ai"), " ai", True, False),
        one("RTRIM", ScalarFunction.TRIM, "t", lambda x: x.rstrip(" "), " ", False, True),
        meant("SUBSTR", apply(ScalarFunction.SLICE, t, whole(2), whole(3)), ("t",), lambda x: x[1:4]),
        meant("SUBSTR far", apply(ScalarFunction.SLICE, t, whole(2**31), whole(2**31)), ("t",), lambda _: ""),
        meant("REPLACE", apply(ScalarFunction.REPLACE, t, a, accented), ("t",), lambda x: x.replace("a", "é")),
        meant("||", apply(ScalarFunction.JOIN, t, bar), ("t",), lambda x: x + "|"),
        Case("MD5", digested, lambda row: _md5("|".join(there("7", row["t"], row["zi"])))),
        one("a regular expression over lines", ScalarFunction.MATCHES, "t", lambda x: x == "a", "a|b"),
    ]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _read_and_written() -> list[Case]:
    return [
        one("CAST of a whole number to text", ScalarFunction.CONVERT, "i", str, Type.TEXT),
        one("CAST of a date to text", ScalarFunction.CONVERT, "y", lambda y: y.isoformat(), Type.TEXT),
        one("CAST of a time to text", ScalarFunction.CONVERT, "s", _shown_time, Type.TEXT),
        one("CAST to a whole number", ScalarFunction.READ, "zi", int, Type.INTEGER),
        one("CAST to a real", ScalarFunction.READ, "zr", float, Type.REAL),
        one("CAST to a date", ScalarFunction.READ, "zy", dt.date.fromisoformat, Type.DATE),
        one("CAST to a time", ScalarFunction.READ, "zs", _utc, Type.TIMESTAMP),
        one("a regular expression", ScalarFunction.MATCHES, "zs", lambda _: True, GRAMMARS[Type.TIMESTAMP]),
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
        *(one(f"EXTRACT({part})", ScalarFunction.PART, "s", partial(_part, part), part) for part in PARTS),
        *_starts(),
        *_moved(),
        meant("DATE_DIFF", apply(ScalarFunction.DAYS, of("y"), of("s")), ("y", "s"), lambda y, s: (s.date() - y).days),
        one("seconds of a time", ScalarFunction.SECONDS, "s", lambda s: (s - epoch) // dt.timedelta(seconds=1)),
        one(
            "a date as a time",
            ScalarFunction.CONVERT,
            "y",
            lambda y: dt.datetime(y.year, y.month, y.day),
            Type.TIMESTAMP,
        ),
        one("a time as a date", ScalarFunction.CONVERT, "s", lambda s: s.date(), Type.DATE),
        Case("IS TRUE", apply(ScalarFunction.IS_TRUE, of("b")), lambda row: row["b"] is True),
    ]


def _starts() -> list[Case]:
    days = ("year", "quarter", "month", "week", "day")
    of_dates = [(unit, "y", calendar.truncated, Type.DATE) for unit in days]
    of_times = [(unit, "s", _truncated, Type.TIMESTAMP) for unit in (*days, "hour", "minute", "second")]
    return [
        one(f"DATE_TRUNC({unit})", ScalarFunction.START, column, partial(means, unit), unit, kind)
        for unit, column, means, kind in (*of_dates, *of_times)
    ]


def _moved() -> list[Case]:
    """Move dates by units, those of two centuries: others might leave the calendar."""
    y, ends = of("y"), (Constant(dt.date(year, 1, 1), Type.DATE) for year in (1900, 2100))
    within = apply(ScalarFunction.BETWEEN, y, *ends)
    return [
        meant(
            f"a date and {amount} {unit}",
            apply(ScalarFunction.CASE, within, apply(ScalarFunction.MOVED, y, detail=(amount, unit, Type.DATE))),
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


def _rounded_total() -> Case:
    """Round a whole number down to units of 64, as totals are: by a quotient that 64 bits do not hold."""
    wide = apply(ScalarFunction.CONVERT, of("i"), detail=(Wide.INTEGER,))
    raised = apply(ScalarFunction.ADD, wide, Constant(2**104, Wide.INTEGER))
    quotient = apply(ScalarFunction.DIVIDE_WIDE, raised, Constant(64, Wide.INTEGER))
    lowered = apply(ScalarFunction.SUBTRACT, quotient, Constant(2**98, Wide.INTEGER))
    ends = (Constant(end, Wide.INTEGER) for end in (-(2**62), 2**62))
    guarded = apply(ScalarFunction.BETWEEN, lowered, *ends)  # so that a wrong one is no failure
    found = apply(ScalarFunction.CASE, guarded, apply(ScalarFunction.CONVERT, lowered, detail=(Type.INTEGER,)))
    return meant("// beyond 64 bits", found, ("i",), lambda x: x // 64)


def cases() -> list[Case]:
    """List what is proved, letters aside."""
    return [*_numbers(), *_on_texts(), *_dates(), *row_cases.cases(), _rounded_total()]


def prove(dialect: Dialect, place: str) -> None:
    """Refuse an engine that computes something else than our spellings mean, and name what."""
    wrong = wrong_of_rows(dialect) or wrong_of_statements(dialect)
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
    columns = [("lower", ScalarFunction.LOWER, grammars.lower), ("upper", ScalarFunction.UPPER, grammars.upper)]
    made = tuple((name, apply(operation, of("t"))) for name, operation, _ in columns)
    found = _rows(spelling, scan, run, table, made)
    return [
        name.upper()
        for place, (name, _, means) in enumerate(columns)
        if [row[place] for row in found] != [means(each) for each in LETTERS]
    ]


def wrong_of_rows(dialect: Dialect, some: Sequence[Case] | None = None) -> str | None:
    """Name the first of some cases, or of all, that an engine computes in another way or not at all."""
    proved = cases() if some is None else some
    try:
        found = _computed(dialect, proved)
    except EngineFailed:
        return _failing(dialect, proved)
    return next((case.name for case, *_ in _differing(proved, found)), None)


def wrong_of_statements(dialect: Dialect, some: Sequence[StatementCase] | None = None) -> str | None:
    """Name the first of some whole statements, or of all, that an engine computes in another way or not at all."""
    listed = statement_cases.declared() if dialect.compute is None else []
    proved = [*statement_cases.cases(), *listed] if some is None else some
    try:
        return next(iter(statement_cases.differing(proved, _stated(dialect, proved))), None)
    except EngineFailed:
        if len(proved) == 1:
            return proved[0].names[0]
    failing = (wrong_of_statements(dialect, [case]) for case in proved)
    return next((name for name in failing if name is not None), "several statements in one")


def _carried_rows() -> Carried:
    return Carried(tuple(KINDS), tuple(KINDS.values()), tuple(zip(*ROWS, strict=True)))


def _computed(dialect: Dialect, proved: Sequence[Case]) -> list[tuple[Any, ...]]:
    made = tuple((f"c{place}", case.scalar) for place, case in enumerate(proved))
    return _rows(dialect.spelling, dialect.scan, dialect.run, _carried_rows(), made)


def _stated(dialect: Dialect, proved: Sequence[StatementCase]) -> list[tuple[Any, ...]]:
    """Compute whole statements; the rows are read as they are, and beside lists of two of their columns."""
    carried: list[object] = []
    rows = dialect.scan(_carried_rows(), carried)
    lists = f"(SELECT n, CASE WHEN i IS NOT NULL THEN {dialect.lists.format('i, j')} END AS l FROM {rows} AS q)"
    sources = {statement_cases.ROWS: rows, statement_cases.LISTS: lists}
    statement = statement_cases.statement(proved)
    if dialect.compute is not None:
        return dialect.compute(statement, sources.__getitem__)
    carried.extend(list(values) for case in proved for values in case.values)
    return dialect.run(Generator(dialect.spelling, sources.__getitem__).statement(statement), carried)


def _rows(
    spelling: Spelling, scan: Scan, run: Run, table: Carried, made: tuple[tuple[str, Scalar], ...]
) -> list[tuple[Any, ...]]:
    """Compute columns over carried rows, in the order of their numbers."""
    carried: list[object] = []
    source = scan(table, carried)
    select = Select((("n", of("n")), *made), CleanTable("proof"))
    text = Generator(spelling, lambda _: source).statement(StagedSelect((), select))
    return [tuple(row[1:]) for row in sorted(run(text, carried), key=lambda row: row[0])]


def _differing(proved: Sequence[Case], found: Sequence[tuple[Any, ...]]) -> list[tuple[Case, Row, Any]]:
    """List the cases and rows in which what was computed is not what is meant."""
    return [
        (case, row, found[at][place])
        for place, case in enumerate(proved)
        for at, row in enumerate(ALL)
        if not _same(found[at][place], case.means(row), near=case.near)
    ]


def _failing(dialect: Dialect, proved: Sequence[Case]) -> str:
    """Name the first case that the engine cannot compute at all."""
    for case in proved:
        try:
            _computed(dialect, [case])
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
