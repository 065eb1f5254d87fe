"""Cases of three-valued logic, comparisons, arithmetic and windows, over rows passed as parameters."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    Constant,
    GroupTotal,
    Ordered,
    Rank,
    RowNumber,
    Scalar,
    ScalarFunction,
    Shifted,
    WindowFrame,
    WindowTotal,
    apply,
    integer_constant,
)
from sfumato.engine.proofs.proved_rows import (
    ALL,
    Row,
    SpellingCase,
    case_of_columns,
    column_reference,
    not_null,
    unary_case,
)
from sfumato.plan.values import calendar
from sfumato.policy import Type

Truth = bool | None

_COMPARISONS: tuple[tuple[str, ScalarFunction, Callable[[Any, Any], bool]], ...] = (
    ("=", ScalarFunction.EQUAL, operator.eq),
    ("<>", ScalarFunction.UNEQUAL, operator.ne),
    ("<", ScalarFunction.LESS, operator.lt),
    ("<=", ScalarFunction.AT_MOST, operator.le),
    (">", ScalarFunction.GREATER, operator.gt),
    (">=", ScalarFunction.AT_LEAST, operator.ge),
)


def cases() -> list[SpellingCase]:
    """List the cases of single rows and of windows over them."""
    return [
        *_comparison_cases(),
        *_logic_cases(),
        *_choice_cases(),
        *_arithmetic_cases(),
        *_date_cases(),
        *_extreme_cases(),
        *_ranking_cases(),
        *_window_frame_cases(),
    ]


def _comparison_cases() -> list[SpellingCase]:
    """Compare whole numbers, doubles, texts by their bytes, dates and times; NULL if one of two is."""
    north, day = Constant("north", Type.TEXT), Constant(dt.date(2000, 1, 3), Type.DATE)
    noon = Constant(dt.datetime(2021, 1, 3, 12), Type.TIMESTAMP)
    f, g = (apply(ScalarFunction.CONVERT, column_reference(column), detail=(Type.REAL,)) for column in "fg")
    return [
        case
        for name, operation, means in _COMPARISONS
        for case in (
            case_of_columns(
                f"{name} of whole numbers",
                apply(operation, column_reference("n"), column_reference("j")),
                ("n", "j"),
                means,
            ),
            replace(
                case_of_columns(f"{name} of reals", apply(operation, f, g), ("f", "g"), partial(_compare_reals, means)),
                compares_reals=True,
            ),
            case_of_columns(
                f"{name} of texts",
                apply(operation, column_reference("t"), north),
                ("t",),
                partial(_compare_bytes, means),
            ),
            case_of_columns(
                f"{name} of dates",
                apply(operation, column_reference("y"), day),
                ("y",),
                partial(_compare_with, means, day.value),
            ),
            case_of_columns(
                f"{name} of times",
                apply(operation, column_reference("s"), noon),
                ("s",),
                partial(_compare_with, means, noon.value),
            ),
        )
    ]


def _compare_reals(means: Callable[[Any, Any], bool], *texts: str) -> bool:
    """Compare two doubles: NaN equals itself and is above all numbers, and −0 equals 0."""
    first, second = ((math.isnan(x), 0.0 if math.isnan(x) else x) for x in map(float, texts))
    return means(first, second)


def _compare_bytes(means: Callable[[Any, Any], bool], text: str) -> bool:
    return means(text.encode(), b"north")


def _compare_with(means: Callable[[Any, Any], bool], value: Any, x: Any) -> bool:
    return means(x, value)


def _logic_cases() -> list[SpellingCase]:
    """Test the truth tables of three-valued logic: ``b`` and ``a`` are all nine pairs."""
    b, a, n, i = column_reference("b"), column_reference("a"), column_reference("n"), column_reference("i")
    limit = apply(
        ScalarFunction.MULTIPLY, apply(ScalarFunction.REMAINDER, n, integer_constant(3)), integer_constant(31)
    )
    members = 0, 1, 31, 61
    return [
        SpellingCase(
            "the members of a set of numbers",
            apply(ScalarFunction.MEMBERS_BELOW, integer_constant(sum(1 << member for member in members)), limit),
            lambda row: sum(member < row["n"] % 3 * 31 for member in members),
        ),
        SpellingCase("AND", apply(ScalarFunction.AND, b, a), lambda row: _and(row["b"], row["a"])),
        SpellingCase("OR", apply(ScalarFunction.OR, b, a), lambda row: _or(row["b"], row["a"])),
        unary_case("NOT", ScalarFunction.NOT, "b", operator.not_),
        SpellingCase("IS NULL", apply(ScalarFunction.IS_NULL, b), lambda row: row["b"] is None),
        SpellingCase("IS FALSE", apply(ScalarFunction.IS_FALSE, b), lambda row: row["b"] is False),
        SpellingCase(
            "IN",
            apply(ScalarFunction.IN, n, integer_constant(2), i),
            lambda row: _or(row["n"] == 2, _equal(row["n"], row["i"])),
        ),
        case_of_columns("IN of texts", _is_one_of("north", "Straße"), ("t",), lambda x: x in ("north", "Straße")),
        case_of_columns(
            "BETWEEN",
            apply(ScalarFunction.BETWEEN, i, integer_constant(0), integer_constant(7)),
            ("i",),
            lambda x: 0 <= x <= 7,
        ),
        SpellingCase(
            "BETWEEN of NULL",
            apply(ScalarFunction.BETWEEN, n, integer_constant(3), i),
            lambda row: _and(row["n"] >= 3, None if row["i"] is None else row["n"] <= row["i"]),
        ),
    ]


def _is_one_of(*texts: str) -> Scalar:
    return apply(ScalarFunction.IN, column_reference("t"), *(Constant(text, Type.TEXT) for text in texts))


def _and(*truths: Truth) -> Truth:
    return False if False in truths else None if None in truths else True


def _or(*truths: Truth) -> Truth:
    return True if True in truths else None if None in truths else False


def _equal(first: Any, second: Any) -> Truth:
    return None if None in (first, second) else first == second


def _choice_cases() -> list[SpellingCase]:
    """Choose among values of which some are NULL."""
    b, a, i, n, d, e, y = map(column_reference, "baindey")
    day, text = Constant(dt.date(2000, 1, 3), Type.DATE), Constant("north", Type.TEXT)
    coded_texts = tuple(sorted(("NORTH", "north", "Straße")))
    code = apply(ScalarFunction.GROUP_CODE, column_reference("t"), detail=coded_texts)
    decoded = apply(ScalarFunction.CONVERT, code, detail=(Type.TEXT,))
    ordinal = apply(ScalarFunction.ORDINAL, code, detail=coded_texts)
    return [
        SpellingCase(
            "CASE",
            apply(ScalarFunction.CASE, b, integer_constant(1), a, integer_constant(2), integer_constant(3)),
            lambda row: 1 if row["b"] else 2 if row["a"] else 3,
        ),
        SpellingCase("COALESCE", apply(ScalarFunction.COALESCE, i, n), lambda row: not_null(row["i"], row["n"])[0]),
        *_least_and_greatest(
            "of reals", (d, e, Constant(Fraction(1, 2), Type.REAL)), lambda row: not_null(row["d"], row["e"], 0.5)
        ),
        *_least_and_greatest("of dates", (y, day), lambda row: not_null(row["y"], day.value)),
        *_least_and_greatest(
            "of texts", (column_reference("t"), text), lambda row: not_null(row["t"], "north"), lambda x: x.encode()
        ),
        case_of_columns(
            "the conversion of a text to its number in a list, and back",
            apply(ScalarFunction.CASE, _is_one_of(*coded_texts), decoded),
            ("t",),
            lambda x: x if x in coded_texts else None,
        ),
        case_of_columns(
            "the position of a text in a list",
            apply(ScalarFunction.CASE, _is_one_of(*coded_texts), ordinal),
            ("t",),
            lambda x: coded_texts.index(x) + 1 if x in coded_texts else None,
        ),
    ]


def _least_and_greatest(
    kind: str,
    scalars: tuple[Scalar, ...],
    values: Callable[[Row], list[Any]],
    key: Callable[[Any], Any] | None = None,
) -> list[SpellingCase]:
    return [
        SpellingCase(f"LEAST {kind}", apply(ScalarFunction.LEAST, *scalars), lambda row: min(values(row), key=key)),
        SpellingCase(
            f"GREATEST {kind}", apply(ScalarFunction.GREATEST, *scalars), lambda row: max(values(row), key=key)
        ),
    ]


def _arithmetic_cases() -> list[SpellingCase]:
    """Compute at the ends of 64 bits and with halves; what libraries round differently is within one step."""
    j, n, d, e, columns = (
        column_reference("j"),
        column_reference("n"),
        column_reference("d"),
        column_reference("e"),
        ("j", "n"),
    )
    real = partial(Constant, kind=Type.REAL)
    is_narrow = apply(ScalarFunction.BETWEEN, d, real(Fraction(-600)), real(Fraction(600)))
    is_small = apply(ScalarFunction.BETWEEN, e, real(Fraction(0)), real(Fraction(10**9)))
    power = apply(ScalarFunction.POWER, e, real(Fraction(5, 2)))
    return [
        case_of_columns("+ of whole numbers", apply(ScalarFunction.ADD, j, n), columns, operator.add),
        case_of_columns("- of whole numbers", apply(ScalarFunction.SUBTRACT, j, n), columns, operator.sub),
        case_of_columns("* of whole numbers", apply(ScalarFunction.MULTIPLY, j, n), columns, operator.mul),
        case_of_columns("-", apply(ScalarFunction.SUBTRACT, e, real(Fraction("0.3"))), ("e",), lambda x: x - 0.3),
        unary_case("the negative of a whole number", ScalarFunction.NEGATE, "i", operator.neg),
        unary_case("the negative of a real", ScalarFunction.NEGATE, "d", operator.neg),
        unary_case("ABS of a whole number", ScalarFunction.ABS, "i", abs),
        unary_case("ABS of a real", ScalarFunction.ABS, "d", abs),
        case_of_columns("SIGN of a whole number", _sign_of("i"), ("i",), lambda x: (x > 0) - (x < 0)),
        case_of_columns("SIGN of a real", _sign_of("d"), ("d",), lambda x: (x > 0) - (x < 0)),
        case_of_columns(
            "EXP",
            apply(ScalarFunction.CASE, is_narrow, apply(ScalarFunction.EXP, d)),
            ("d",),
            lambda x: math.exp(x) if abs(x) <= 600 else None,
            allows_adjacent_double=True,
        ),
        case_of_columns(
            "POWER",
            apply(ScalarFunction.CASE, is_small, power),
            ("e",),
            lambda x: math.pow(x, 2.5) if x <= 10**9 else None,
            allows_adjacent_double=True,
        ),
    ]


def _sign_of(column: str) -> Scalar:
    return apply(ScalarFunction.CONVERT, apply(ScalarFunction.SIGN, column_reference(column)), detail=(Type.INTEGER,))


_UNITS = (("second", -90), ("minute", 61), ("hour", -25), ("day", 1), ("week", -2), ("month", 1), ("quarter", -1))


def _date_cases() -> list[SpellingCase]:
    """Extract parts of dates and move times, those of two centuries: others might leave the calendar."""
    s, ends = column_reference("s"), (Constant(dt.datetime(year, 1, 1), Type.TIMESTAMP) for year in (1900, 2100))
    is_within, day = apply(ScalarFunction.BETWEEN, s, *ends), Constant(_DAY, Type.DATE)
    return [
        *(
            unary_case(f"EXTRACT({part}) of a date", ScalarFunction.PART, "y", means, part)
            for part, means in _PARTS_OF_DATES.items()
        ),
        *(
            case_of_columns(
                f"DATE_DIFF of {kind}",
                apply(ScalarFunction.DAYS, column_reference(column), day),
                (column,),
                _days_before,
            )
            for column, kind in (("y", "dates"), ("s", "times"))
        ),
        unary_case("seconds of a date", ScalarFunction.SECONDS, "y", lambda y: (y - dt.date.min).days * 86_400),
        *(
            case_of_columns(
                f"a time and {amount} {unit}",
                apply(
                    ScalarFunction.CASE,
                    is_within,
                    apply(ScalarFunction.MOVED, s, detail=(amount, unit, Type.TIMESTAMP)),
                ),
                ("s",),
                partial(_shifted, amount, unit),
            )
            for unit, amount in (*_UNITS, ("year", 1))
        ),
    ]


_DAY = dt.date(2000, 1, 3)


def _days_before(moment: dt.date) -> int:
    return _DAY.toordinal() - moment.toordinal()


_PARTS_OF_DATES: dict[str, Callable[[dt.date], int]] = {
    "year": lambda y: y.year,
    "quarter": lambda y: (y.month + 2) // 3,
    "month": lambda y: y.month,
    "week": lambda y: y.isocalendar()[1],
    "day": lambda y: y.day,
    "dow": lambda y: y.isoweekday() % 7,
    "isodow": lambda y: y.isoweekday(),
    "doy": lambda y: y.timetuple().tm_yday,
}


def _shifted(amount: int, unit: str, time: dt.datetime) -> dt.datetime | None:
    return calendar.shift(time, amount, unit) if 1900 <= time.year < 2100 else None


def _extreme_cases() -> list[SpellingCase]:
    """Take the least and the greatest of all rows; texts compare by their bytes."""
    kinds = {"i": "whole numbers", "d": "reals", "t": "texts", "y": "dates", "s": "times"}
    extremes: tuple[tuple[AggregateFunction, Callable[..., Any]], ...] = (
        (AggregateFunction.MIN, min),
        (AggregateFunction.MAX, max),
    )
    return [
        SpellingCase(
            f"{aggregate.name} of {kind}",
            WindowTotal(GroupTotal(aggregate, column_reference(column)), (integer_constant(0),), (), WindowFrame.WHOLE),
            partial(_extreme_of, choose, column),
        )
        for aggregate, choose in extremes
        for column, kind in kinds.items()
        if (aggregate, column) != (AggregateFunction.MAX, "t")
    ]


def _extreme_of(choose: Callable[..., Any], column: str, _: Row) -> Any:
    return choose(not_null(*(row[column] for row in ALL)), key=lambda x: x.encode() if isinstance(x, str) else x)


def _ranking_cases() -> list[SpellingCase]:
    """Number the rows by ``i``, of which two are equal and one is NULL, and read neighbouring rows."""
    i, n, all_rows = column_reference("i"), column_reference("n"), (integer_constant(0),)
    return [
        SpellingCase("ROW_NUMBER", Rank(all_rows, (Ordered(i, descending=True), n)), _row_number),
        SpellingCase("RANK", Rank(all_rows, (i,), RowNumber.RANK), lambda row: 1 + len(_keys_before(row))),
        SpellingCase(
            "DENSE_RANK", Rank(all_rows, (i,), RowNumber.DENSE_RANK), lambda row: 1 + len(set(_keys_before(row)))
        ),
        SpellingCase("LAG", Shifted(i, -1, None, all_rows, (n,)), lambda row: _value_at(row["n"] - 1, None)),
        SpellingCase(
            "LEAD", Shifted(i, 2, integer_constant(-5), all_rows, (n,)), lambda row: _value_at(row["n"] + 2, -5)
        ),
    ]


def _key(row: Row) -> tuple[bool, int]:
    """Order by ``i``, NULL last."""
    return row["i"] is None, row["i"] or 0


def _keys_before(row: Row) -> list[tuple[bool, int]]:
    return [_key(other) for other in ALL if _key(other) < _key(row)]


def _row_number(row: Row) -> int:
    ordered = sorted(ALL, key=lambda other: (other["i"] is None, -(other["i"] or 0), other["n"]))
    return 1 + ordered.index(row)


def _value_at(number: int, default: int | None) -> int | None:
    return ALL[number - 1]["i"] if 1 <= number <= len(ALL) else default


def _window_frame_cases() -> list[SpellingCase]:
    """Add up the rows before each, with and without its peers, and those of its partition."""
    i, n, b, all_rows, total = (
        column_reference("i"),
        column_reference("n"),
        column_reference("b"),
        (integer_constant(0),),
        GroupTotal(AggregateFunction.SUM, column_reference("n")),
    )
    return [
        SpellingCase(
            "a window up to its peers",
            WindowTotal(total, all_rows, (i,), WindowFrame.PEERS),
            lambda row: _sum(other for other in ALL if _key(other) <= _key(row)),
        ),
        SpellingCase(
            "a window up to its row",
            WindowTotal(total, all_rows, (i, n), WindowFrame.ROWS),
            lambda row: _sum(other for other in ALL if (_key(other), other["n"]) <= (_key(row), row["n"])),
        ),
        SpellingCase(
            "PARTITION BY",
            WindowTotal(total, (b,), (), WindowFrame.WHOLE),
            lambda row: _sum(other for other in ALL if other["b"] is row["b"]),
        ),
        SpellingCase(
            "COUNT in a window",
            WindowTotal(GroupTotal(AggregateFunction.COUNT, i), (b,), (), WindowFrame.WHOLE),
            lambda row: len(not_null(*(other["i"] for other in ALL if other["b"] is row["b"]))),
        ),
    ]


def _sum(rows: Iterable[Row]) -> int:
    return sum(row["n"] for row in rows)
