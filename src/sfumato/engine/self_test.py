"""Self-test of an engine at its opening: one SELECT over values passed as parameters shows that it computes what the
spellings mean.

Versions, settings, locales and encodings change what a function does, and a server that computes another total would
break the bound that its noise was calibrated for. So before any question, every spelling is applied to hostile values
that the server's optimiser does not know, and the results are compared with the meaning of each, computed here. The
first difference is a refusal that names the function.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

from sfumato.engine.lowering import sample_ranks
from sfumato.engine.lowering.relational_form import (
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
    integer_constant,
)
from sfumato.engine.proofs import row_cases, statement_cases
from sfumato.engine.proofs.proved_rows import (
    ALL,
    KINDS,
    ROWS,
    Row,
    SpellingCase,
    case_of_columns,
    column_reference,
    has_finite_reals,
    not_null,
    unary_case,
)
from sfumato.engine.proofs.statement_cases import StatementCase
from sfumato.engine.public_tables import PublicRows
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.values import calendar, grammars
from sfumato.plan.values.functions.temporal import PARTS
from sfumato.plan.values.grammars import GRAMMARS, date_pattern
from sfumato.policy import Type
from sfumato.policy.cell_rules import parse_format
from sfumato.quick_dataclass import dataclass

SomeSpelling = TypeVar("SomeSpelling", bound=Spelling)

Scan = Callable[[PublicRows, list[object]], str]
"""Writes what FROM says to read carried values, and adds what is handed over beside the statement."""
Run = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Dialect:
    """What an engine proves: its spellings, and how it is asked to compute."""

    spelling: Spelling
    scan: Scan
    run: Run
    lists: str | None = "ARRAY[{}]"
    """How a list of items is made of what stands in the braces; None for an engine without lists."""
    compute: Callable[[StagedSelect, Callable[[str], str]], list[tuple[Any, ...]]] | None = None
    """How a whole statement is computed over the tables that FROM reads so, where it is not written as one text."""
    lists_values: bool = True
    """Whether the engine lists declared values itself."""
    integer_truths: bool = False
    """Whether truths are the numbers 1 and 0."""
    finite_reals: bool = False
    """Whether no double is infinite or no number."""


_SURELY_HELD = 2**60
"""Doubles up to this size are surely held as whole numbers of 64 bits."""
LETTERS = (
    "aAzZ éÉ ßẞ İıIi ŉ ǅǆǄ ſ ΑΣασς ᾳᾼ ΐ ЖжЁё Ԥԥ ԱաՖֆև ẖ Åå K ﬁ Ⅷⅷ ⓐⒶ Ａａ 𐐀𐐨 😀",
    "ΣΑΣ ΟΔΟΣ straße ISTANBUL İSTANBUL ﬀ ŸÿŽž ƀɃ ȺⱥɐⱯ",
)
"""Letters that servers turn in different ways: with more than one letter, by where they stand, or not at all."""


def _number_cases() -> list[SpellingCase]:
    return [*_rounding_cases(), *_integer_cases(), *_real_cases(), *_aggregate_cases()]


def _rounding_cases() -> list[SpellingCase]:
    return [
        unary_case("FLOOR", ScalarFunction.FLOOR, "d", lambda x: float(math.floor(x))),
        unary_case("CEIL", ScalarFunction.CEILING, "d", lambda x: float(math.ceil(x))),
        unary_case("TRUNC", ScalarFunction.TRUNCATE, "d", lambda x: float(math.trunc(x))),
        unary_case("ROUND", ScalarFunction.HALF_AWAY, "d", _round_half_away),
        _guarded_rounding("the nearest whole number", ScalarFunction.NEAREST, lambda x: round(Fraction(x))),
        _guarded_rounding("the whole number toward zero", ScalarFunction.TOWARD_ZERO, int),
    ]


def _round_half_away(x: float) -> float:
    """Round to the nearest whole number, halves away from zero."""
    size = Fraction(abs(x)) + Fraction(1, 2)
    return math.copysign(float(math.floor(size)), x) if size < 2**53 else x


def _guarded_rounding(name: str, operation: ScalarFunction, means: Callable[[float], int]) -> SpellingCase:
    """Round a double where a 64-bit whole number surely holds it; NULL elsewhere."""
    d, ends = column_reference("d"), (Constant(Fraction(end), Type.REAL) for end in (-_SURELY_HELD, _SURELY_HELD))
    guarded = apply(ScalarFunction.CASE, apply(ScalarFunction.BETWEEN, d, *ends), apply(operation, d))
    return case_of_columns(name, guarded, ("d",), lambda x: means(x) if abs(x) <= _SURELY_HELD else None)


def _integer_cases() -> list[SpellingCase]:
    i, j, columns = column_reference("i"), column_reference("j"), ("i", "j")
    wide_quotient = apply(
        ScalarFunction.DIVIDE_WIDE,
        *(apply(ScalarFunction.CONVERT, argument, detail=(Wide.INTEGER,)) for argument in (i, j)),
    )
    return [
        case_of_columns("//", apply(ScalarFunction.DIVIDE_WHOLE, i, j), columns, _quotient),
        case_of_columns("%", apply(ScalarFunction.REMAINDER, i, j), columns, _truncated_remainder),
        case_of_columns(
            "// of wide numbers",
            apply(ScalarFunction.CONVERT, wide_quotient, detail=(Type.INTEGER,)),
            columns,
            _quotient,
        ),
        SpellingCase(
            "LEAST",
            apply(ScalarFunction.LEAST, i, integer_constant(5), j),
            lambda row: min(not_null(row["i"], 5, row["j"])),
        ),
        SpellingCase(
            "GREATEST",
            apply(ScalarFunction.GREATEST, i, integer_constant(5), j),
            lambda row: max(not_null(row["i"], 5, row["j"])),
        ),
    ]


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _real_cases() -> list[SpellingCase]:
    e = column_reference("e")
    return [
        case_of_columns(
            "+", apply(ScalarFunction.ADD, e, Constant(Fraction("0.2"), Type.REAL)), ("e",), lambda x: x + 0.2
        ),
        case_of_columns(
            "*", apply(ScalarFunction.MULTIPLY, e, Constant(Fraction("0.1"), Type.REAL)), ("e",), lambda x: x * 0.1
        ),
        case_of_columns(
            "/", apply(ScalarFunction.DIVIDE, Constant(Fraction(1), Type.REAL), e), ("e",), lambda x: 1 / x
        ),
        unary_case("SQRT", ScalarFunction.SQRT, "e", math.sqrt),
        case_of_columns("LN", apply(ScalarFunction.LN, e), ("e",), math.log, allows_adjacent_double=True),
        unary_case("CAST of a whole number to a real number", ScalarFunction.CONVERT, "i", float, Type.REAL),
    ]


def _aggregate_cases() -> list[SpellingCase]:
    """Test sums and orders over all rows; one sum exceeds 64 bits, so that no narrower type passes."""
    i, t = column_reference("i"), column_reference("t")
    encoded_texts = [text.encode() for text in not_null(*(row["t"] for row in ALL))]
    numbers = [row["i"] for row in ALL]
    return [
        SpellingCase(
            "SUM", _over_all_rows(GroupTotal(AggregateFunction.SUM, i)), lambda _: sum(row["i"] or 0 for row in ALL)
        ),
        SpellingCase(
            "a SUM beyond 64 bits",
            _over_all_rows(GroupTotal(AggregateFunction.SUM, i, apply(ScalarFunction.GREATER, i, integer_constant(0)))),
            lambda _: sum(max(row["i"] or 0, 0) for row in ALL),
        ),
        SpellingCase(
            "a SUM of cells",
            _over_all_rows(GroupTotal(AggregateFunction.SUM_OF_NARROW, i)),
            lambda _: sum(not_null(*numbers)),
        ),
        SpellingCase(
            "a SUM of cells beyond 64 bits",
            _over_all_rows(
                GroupTotal(AggregateFunction.SUM_OF_NARROW, i, apply(ScalarFunction.GREATER, i, integer_constant(0)))
            ),
            lambda _: sum(max(number, 0) for number in not_null(*numbers)),
        ),
        SpellingCase(
            "MAX of texts", _over_all_rows(GroupTotal(AggregateFunction.MAX, t)), lambda _: max(encoded_texts).decode()
        ),
        SpellingCase(
            "ORDER BY of texts",
            Rank((integer_constant(0),), (Ordered(t, descending=True, nulls_first=True),)),
            lambda row: 1 if row["t"] is None else 2 + sum(text > row["t"].encode() for text in encoded_texts),
        ),
    ]


def _over_all_rows(total: GroupTotal) -> Scalar:
    return WindowTotal(total, (integer_constant(0),), (), WindowFrame.WHOLE)


def _all_text_cases() -> list[SpellingCase]:
    return [*_text_cases(), *_conversion_cases()]


def _text_cases() -> list[SpellingCase]:
    t, quoted = column_reference("t"), ROWS[0][5]
    north, a, accented, bar = (Constant(text, Type.TEXT) for text in ("north", "a", "é", "|"))
    return [
        unary_case("LENGTH", ScalarFunction.LENGTH, "t", len),
        unary_case("LIKE", ScalarFunction.LIKE, "t", lambda x: "\\" in x, "%\\%"),
        unary_case("_ in LIKE", ScalarFunction.LIKE, "t", lambda x: len(x) == 3, "___"),
        case_of_columns("equality of texts", apply(ScalarFunction.EQUAL, t, north), ("t",), lambda x: x == "north"),
        case_of_columns(
            "a text with a quote",
            apply(ScalarFunction.EQUAL, t, Constant(quoted, Type.TEXT)),
            ("t",),
            lambda x: x == quoted,
        ),
        unary_case("TRIM", ScalarFunction.TRIM, "t", lambda x: x.strip(" a"), " a", True, True),
        unary_case("LTRIM", ScalarFunction.TRIM, "t", lambda x: x.lstrip(" ai"), " ai", True, False),
        unary_case("RTRIM", ScalarFunction.TRIM, "t", lambda x: x.rstrip(" "), " ", False, True),
        case_of_columns(
            "SUBSTR", apply(ScalarFunction.SLICE, t, integer_constant(2), integer_constant(3)), ("t",), lambda x: x[1:4]
        ),
        case_of_columns(
            "SUBSTR beyond the end",
            apply(ScalarFunction.SLICE, t, integer_constant(2**31), integer_constant(2**31)),
            ("t",),
            lambda _: "",
        ),
        case_of_columns(
            "REPLACE", apply(ScalarFunction.REPLACE, t, a, accented), ("t",), lambda x: x.replace("a", "é")
        ),
        case_of_columns("||", apply(ScalarFunction.JOIN, t, bar), ("t",), lambda x: x + "|"),
        unary_case("MD5", ScalarFunction.FINGERPRINT, "t", _fingerprint),
        unary_case("the conversion of a unit's id to text", ScalarFunction.UNIT_TEXT, "i", str),
        unary_case("SHA-256", ScalarFunction.HASH, "t", lambda x: hashlib.sha256(x.encode()).hexdigest()[:16]),
        unary_case("a regular expression over lines", ScalarFunction.MATCHES, "t", lambda x: x == "a", "a|b"),
    ]


def _fingerprint(text: str) -> int:
    return int(hashlib.md5(text.encode()).hexdigest()[:15], 16)


def _rank_case() -> SpellingCase:
    """Rank rows by the largest seed: a product that leaves 63 bits would be noticed."""
    columns, half = ("i", "t", "j"), 2**30
    numbers = [sample_ranks.number_of_value(column_reference(name), KINDS[name]) for name in columns]

    def expected(row: Row) -> int:
        i, t, j = (row[name] for name in columns)
        folded = 0
        for value in (i or 0, 0 if t is None else _fingerprint(t), j or 0):
            folded = _truncated_remainder(folded * 1_640_531_527 + _truncated_remainder(value, 2**31 - 1), 2**31 - 1)
        mixed = ((folded + 2**31 - 1) * half + half) % (2**31 - 1)
        return mixed * half % (2**31 - 19) * half % (2**31 - 61)

    return SpellingCase(
        "the rank of a row",
        sample_ranks.mixed_rank(numbers, (integer_constant(half), integer_constant(half))),
        expected,
    )


def _truncated_remainder(x: int, y: int) -> int:
    return x - y * _quotient(x, y)


def _conversion_cases() -> list[SpellingCase]:
    month = (date_pattern(parse_format("%Y-%m-%d")), 2)
    return [
        unary_case("CAST of a whole number to text", ScalarFunction.CONVERT, "i", str, Type.TEXT),
        unary_case("CAST of a date to text", ScalarFunction.CONVERT, "y", lambda y: y.isoformat(), Type.TEXT),
        unary_case("CAST of a time to text", ScalarFunction.CONVERT, "s", _format_time, Type.TEXT, Type.TIMESTAMP),
        unary_case("CAST to a whole number", ScalarFunction.READ, "zi", int, Type.INTEGER),
        unary_case("CAST to a real number", ScalarFunction.READ, "zr", float, Type.REAL),
        unary_case("CAST to a date", ScalarFunction.READ, "zy", dt.date.fromisoformat, Type.DATE),
        unary_case("CAST to a time", ScalarFunction.READ, "zs", _parse_utc, Type.TIMESTAMP),
        unary_case("a group of a regular expression", ScalarFunction.GROUP, "zy", lambda y: y.strip()[5:7], *month),
        unary_case("a regular expression", ScalarFunction.MATCHES, "zs", lambda _: True, GRAMMARS[Type.TIMESTAMP]),
    ]


def _format_time(time: dt.datetime) -> str:
    clock = time.strftime("%H:%M:%S") + (f".{time.microsecond:06}".rstrip("0") if time.microsecond else "")
    return f"{time.date().isoformat()} {clock}"


def _parse_utc(text: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return time if time.tzinfo is None else (time - time.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]


def _date_cases() -> list[SpellingCase]:
    epoch = dt.datetime(1, 1, 1)
    return [
        *(unary_case(f"EXTRACT({part})", ScalarFunction.PART, "s", partial(_part, part), part) for part in PARTS),
        *_truncation_cases(),
        *_interval_cases(),
        case_of_columns(
            "DATE_DIFF",
            apply(ScalarFunction.DAYS, column_reference("y"), column_reference("s")),
            ("y", "s"),
            lambda y, s: (s.date() - y).days,
        ),
        unary_case("seconds of a time", ScalarFunction.SECONDS, "s", lambda s: (s - epoch) // dt.timedelta(seconds=1)),
        unary_case(
            "CAST of a date to a timestamp",
            ScalarFunction.CONVERT,
            "y",
            lambda y: dt.datetime(y.year, y.month, y.day),
            Type.TIMESTAMP,
        ),
        case_of_columns("the time of a second", _moment_of_number("n"), ("n",), _nth_spaced_time),
        unary_case("CAST of a timestamp to a date", ScalarFunction.CONVERT, "s", lambda s: s.date(), Type.DATE),
        SpellingCase("IS TRUE", apply(ScalarFunction.IS_TRUE, column_reference("b")), lambda row: row["b"] is True),
    ]


_SECONDS_APART = 7_000_000_001


def _moment_of_number(column: str) -> Scalar:
    seconds = apply(ScalarFunction.MULTIPLY, column_reference(column), integer_constant(_SECONDS_APART))
    return apply(ScalarFunction.MOMENT, seconds)


def _nth_spaced_time(n: int) -> dt.datetime:
    return dt.datetime.min + dt.timedelta(seconds=n * _SECONDS_APART)


def _truncation_cases() -> list[SpellingCase]:
    days = ("year", "quarter", "month", "week", "day")
    of_dates = [(unit, "y", calendar.truncate, Type.DATE) for unit in days]
    of_times = [(unit, "s", _truncated, Type.TIMESTAMP) for unit in (*days, "hour", "minute", "second", "millisecond")]
    return [
        unary_case(f"DATE_TRUNC({unit})", ScalarFunction.START, column, partial(means, unit), unit, kind)
        for unit, column, means, kind in (*of_dates, *of_times)
    ]


def _interval_cases() -> list[SpellingCase]:
    """Move dates by units, those of two centuries: others might leave the calendar."""
    y, ends = column_reference("y"), (Constant(dt.date(year, 1, 1), Type.DATE) for year in (1900, 2100))
    is_within = apply(ScalarFunction.BETWEEN, y, *ends)
    return [
        case_of_columns(
            f"a date and {amount} {unit}",
            apply(ScalarFunction.CASE, is_within, apply(ScalarFunction.MOVED, y, detail=(amount, unit, Type.DATE))),
            ("y",),
            partial(_shifted, amount, unit),
        )
        for unit, amount in (("day", -1), ("week", 2), ("month", 1), ("quarter", 1), ("year", -1))
    ]


def _shifted(amount: int, unit: str, day: dt.date) -> dt.date | None:
    return calendar.shift(day, amount, unit) if 1900 <= day.year < 2100 else None


def _truncated(unit: str, time: dt.datetime) -> dt.datetime:
    if unit == "millisecond":
        return time.replace(microsecond=time.microsecond - time.microsecond % 1000)
    if unit in ("hour", "minute", "second"):
        cleared = {"second": 0} if unit in ("hour", "minute") else {}
        return time.replace(**({"minute": 0} if unit == "hour" else {}), **cleared, microsecond=0)  # type: ignore[arg-type]
    day = calendar.truncate(unit, time.date())
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
        "microsecond": 1_000_000 * s.second + s.microsecond,
    }[part]


def _rounded_total_case() -> SpellingCase:
    """Round a whole number down to units of 64, as totals are: by a quotient that 64 bits do not hold."""
    wide = apply(ScalarFunction.CONVERT, column_reference("i"), detail=(Wide.INTEGER,))
    shifted = apply(ScalarFunction.ADD, wide, Constant(2**104, Wide.INTEGER))
    quotient = apply(ScalarFunction.DIVIDE_WIDE, shifted, Constant(64, Wide.INTEGER))
    rounded = apply(ScalarFunction.SUBTRACT, quotient, Constant(2**98, Wide.INTEGER))
    ends = (Constant(end, Wide.INTEGER) for end in (-(2**62), 2**62))
    is_in_range = apply(ScalarFunction.BETWEEN, rounded, *ends)  # so that a wrong one is no failure
    narrow = apply(ScalarFunction.CASE, is_in_range, apply(ScalarFunction.CONVERT, rounded, detail=(Type.INTEGER,)))
    return case_of_columns("// beyond 64 bits", narrow, ("i",), lambda x: x // 64)


def cases() -> list[SpellingCase]:
    """List the cases of the self-test, letter case aside."""
    return [
        *_number_cases(),
        *_all_text_cases(),
        *_date_cases(),
        *row_cases.cases(),
        _rank_case(),
        _rounded_total_case(),
    ]


def require_correct_results(dialect: Dialect, policy_path: str) -> None:
    """Raise for an engine that computes something else than the spellings mean, and name it."""
    wrong_name = wrong_row_case(dialect) or wrong_statement_case(dialect)
    if wrong_name is None:
        return
    raise InvalidPolicy(
        f"this server computes {wrong_name} differently from Sfumato's SQL",
        place=policy_path,
        fix="use a tested server version with default settings: see sfumato docs postgresql or sfumato docs mariadb",
    )


def wrong_case_functions(spelling: Spelling, scan: Scan, run: Run) -> list[str]:
    """List the functions that do not change the case of letters one for one."""
    table = PublicRows(("n", "t"), (Type.INTEGER, Type.TEXT), (range(len(LETTERS)), LETTERS))
    columns = [("lower", ScalarFunction.LOWER, grammars.lower), ("upper", ScalarFunction.UPPER, grammars.upper)]
    case_columns = tuple((name, apply(operation, column_reference("t"))) for name, operation, _ in columns)
    computed_rows = _compute_columns(spelling, scan, run, table, case_columns)
    return [
        name.upper()
        for index, (name, _, means) in enumerate(columns)
        if [row[index] for row in computed_rows] != [means(letters) for letters in LETTERS]
    ]


def spelling_of_case(spellings: Iterable[SomeSpelling], scan: Scan, run: Run) -> SomeSpelling | None:
    """Return the first spelling whose collation changes the case of letters one for one; None if none does."""
    return next((spelling for spelling in spellings if _changes_case_alike(spelling, scan, run)), None)


def _changes_case_alike(spelling: Spelling, scan: Scan, run: Run) -> bool:
    try:
        return not wrong_case_functions(spelling, scan, run)
    except EngineFailed:  # no such collation
        return False


def wrong_row_case(dialect: Dialect, some: Sequence[SpellingCase] | None = None) -> str | None:
    """Return the name of the first case, of some or of all, that an engine computes differently or not at all."""
    tested_cases = cases() if some is None else some
    try:
        computed_rows = _compute_cases(dialect, tested_cases)
    except EngineFailed:
        return _first_failing(dialect, tested_cases)
    return next((case.name for case, *_ in _wrongly_computed_cases(tested_cases, computed_rows, dialect)), None)


def wrong_statement_case(dialect: Dialect, some: Sequence[StatementCase] | None = None) -> str | None:
    """Return the name of the first statement, of some or of all, that an engine computes differently or not at all."""
    declared_cases = statement_cases.declared() if dialect.compute is None and dialect.lists_values else []
    has_lists = dialect.lists is not None
    tested_cases = [*statement_cases.cases(lists=has_lists), *declared_cases] if some is None else some
    try:
        return next(
            iter(statement_cases.first_difference(tested_cases, _compute_statements(dialect, tested_cases))), None
        )
    except EngineFailed:
        if len(tested_cases) == 1:
            return tested_cases[0].names[0]
    wrong_names = (wrong_statement_case(dialect, [case]) for case in tested_cases)
    return next((name for name in wrong_names if name is not None), "several statements in one")


def _carried_rows() -> PublicRows:
    return PublicRows(tuple(KINDS), tuple(KINDS.values()), tuple(zip(*ROWS, strict=True)))


def _compute_cases(dialect: Dialect, tested_cases: Sequence[SpellingCase]) -> list[tuple[Any, ...]]:
    columns = tuple((f"c{index}", case.scalar) for index, case in enumerate(tested_cases))
    return _compute_columns(dialect.spelling, dialect.scan, dialect.run, _carried_rows(), columns)


def _compute_statements(dialect: Dialect, tested_cases: Sequence[StatementCase]) -> list[tuple[Any, ...]]:
    """Compute whole statements; the rows are read as they are, and beside lists of two of their columns."""
    parameters: list[object] = []
    rows = dialect.scan(_carried_rows(), parameters)
    items = "NULL" if dialect.lists is None else dialect.lists.format("i, j")
    lists = f"(SELECT n, CASE WHEN i IS NOT NULL THEN {items} END AS l FROM {rows} AS q)"
    sources = {statement_cases.ROWS: rows, statement_cases.LISTS: lists}
    statement = statement_cases.statement(tested_cases)
    if dialect.compute is not None:
        return dialect.compute(statement, sources.__getitem__)
    parameters.extend(list(values) for case in tested_cases for values in case.values)
    return dialect.run(Generator(dialect.spelling, lambda table: sources[table.name]).statement(statement), parameters)


def _compute_columns(
    spelling: Spelling, scan: Scan, run: Run, table: PublicRows, columns: tuple[tuple[str, Scalar], ...]
) -> list[tuple[Any, ...]]:
    """Compute columns over carried rows, in the order of their numbers."""
    parameters: list[object] = []
    source = scan(table, parameters)
    select = Select((("n", column_reference("n")), *columns), CleanTable("proof"))
    text = Generator(spelling, lambda _: source).statement(StagedSelect((), select))
    return [tuple(row[1:]) for row in sorted(run(text, parameters), key=lambda row: row[0])]


def _wrongly_computed_cases(
    tested_cases: Sequence[SpellingCase], computed_rows: Sequence[tuple[Any, ...]], dialect: Dialect
) -> list[tuple[SpellingCase, Row, Any]]:
    """List the cases and rows whose computed value differs from the expected one."""

    def expected(case: SpellingCase, row: Row) -> Any:
        value = case.means(row)
        return int(value) if dialect.integer_truths and isinstance(value, bool) else value

    return [
        (case, row, computed_rows[row_index][case_index])
        for case_index, case in enumerate(tested_cases)
        for row_index, row in enumerate(ALL)
        if not (dialect.finite_reals and case.compares_reals and not has_finite_reals(row))
        and not _is_equal(
            computed_rows[row_index][case_index],
            expected(case, row),
            allows_adjacent_double=case.allows_adjacent_double,
        )
    ]


def _first_failing(dialect: Dialect, tested_cases: Sequence[SpellingCase]) -> str:
    """Return the name of the first case that the engine cannot compute at all."""
    for case in tested_cases:
        try:
            _compute_cases(dialect, [case])
        except EngineFailed:
            return case.name
    return "several functions in one statement"


def _is_equal(computed: Any, expected: Any, *, allows_adjacent_double: bool) -> bool:
    if computed is None or expected is None:
        return computed is expected
    if isinstance(expected, float):
        computed_real = float(computed)
        return (
            math.nextafter(expected, -math.inf) <= computed_real <= math.nextafter(expected, math.inf)
            if allows_adjacent_double
            else computed_real == expected
        )
    return bool(computed == expected) and isinstance(computed, bool) == isinstance(expected, bool)
