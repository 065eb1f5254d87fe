"""These cases prove whole statements: groups and their totals, joins, tests for rows, unions and items of lists.

All of them are members of one union, so that an engine computes them in one statement: each gives a key and up to
seven whole numbers a row, after the place of the case.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.lowering.relational import (
    AggregateFunction,
    CleanTable,
    Constant,
    Exists,
    GroupTotal,
    IntegerSpan,
    Items,
    Named,
    Reference,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    ValueList,
    Wide,
    apply,
    whole,
)
from sfumato.engine.proofs.proved_rows import ALL, KINDS, Row, of, there
from sfumato.policy import Type

ROWS, LISTS = "proof", "lists"
"""The tables that are read: the rows, and their numbers ``n`` beside lists ``l`` of ``i`` and ``j``; one is NULL."""
_WIDTH = 7


@dataclass(frozen=True)
class StatementCase:
    """A case is a select of a key ``k`` and values ``v0``, ``v1``, …, with the rows that it means in any order."""

    names: tuple[str, ...]
    """What each value is called where it is wrong; the first also where the rows or their keys are."""
    select: Select
    rows: tuple[tuple[Any, ...], ...]
    values: tuple[tuple[Any, ...], ...] = ()
    """Lists that are handed over beside the statement, after the columns of the rows; at most one case has any."""


def cases() -> list[StatementCase]:
    """List the statements that are proved."""
    return [*_groups(), *_joins(), *_tests(), _united(), _items()]


def declared() -> list[StatementCase]:
    """List the statements about declared values, for an engine that lists them itself: those of lists and of spans."""
    lists = tuple(
        Select(
            (("k", apply(ScalarFunction.CONVERT, of("x"), detail=(Type.TEXT,))), *_values(whole(at))),
            ValueList(at, kind),
        )
        for at, kind in enumerate(_LISTED, len(KINDS) + 1)
    )
    rows = ((_shown(x), at) for at, each in enumerate(_LISTED.values(), len(KINDS) + 1) for x in (*each, None))
    both = Select((("k", of("k")), *_values(of("v0"))), RelationalUnion(lists))
    spans = (
        StatementCase(
            (f"a span of {name}",),
            Select((("k", of("x")), *_values(whole(1))), IntegerSpan(Constant(values[0], kind), len(values))),
            tuple((_shown(each), 1) for each in (*values, None)),
        )
        for name, kind, values in _SPANS
    )
    return [StatementCase(("a list of values",), both, tuple(rows), tuple(_LISTED.values())), *spans]


def _shown(value: object) -> str | None:
    return None if value is None else str(value)


_LISTED: dict[Type, tuple[Any, ...]] = {
    Type.INTEGER: (2**62, -7, 0),
    Type.TEXT: ("north", "NORTH", "it's é😀 ", ""),
    Type.DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
}
_EVE = dt.datetime(1999, 12, 31, 23)
_SPANS: tuple[tuple[str, Type, tuple[Any, ...]], ...] = (
    ("whole numbers", Type.INTEGER, (-1, 0, 1)),
    ("days", Type.DATE, tuple(_EVE.date() + dt.timedelta(each) for each in range(4))),
    ("hours", Type.TIMESTAMP, tuple(_EVE + dt.timedelta(hours=each) for each in range(2))),
)


def statement(proved: Sequence[StatementCase]) -> StagedSelect:
    """Put all cases into one statement, over a stage with the rows and a key of two letters that differ in case."""
    small, large = (Constant(each, Type.TEXT) for each in "aA")
    key = apply(
        ScalarFunction.CASE, of("b"), small, apply(ScalarFunction.IS_FALSE, of("b")), large, Constant(None, Type.TEXT)
    )
    rows = Select((*((each, of(each)) for each in "nij"), ("k", key)), CleanTable(ROWS))
    members = tuple(_member(place, case) for place, case in enumerate(proved))
    columns = ("c", "k", *(f"v{place}" for place in range(_WIDTH)))
    return StagedSelect((("p", rows),), Select(tuple((each, of(each)) for each in columns), RelationalUnion(members)))


def _member(place: int, case: StatementCase) -> Select:
    """Write the place of a case before its row, and NULL for the values that it has not."""
    own = len(case.names)
    values = (_wide(of(f"v{at}")) if at < own else Constant(None, Wide.INTEGER) for at in range(_WIDTH))
    key = apply(ScalarFunction.CONVERT, of("k"), detail=(Type.TEXT,))
    return Select((("c", whole(place)), ("k", key), *((f"v{at}", each) for at, each in enumerate(values))), case.select)


def _wide(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.CONVERT, scalar, detail=(Wide.INTEGER,))


def differing(proved: Sequence[StatementCase], found: Sequence[tuple[Any, ...]]) -> list[str]:
    """Name the values that are not what is meant."""
    return [
        name for place, case in enumerate(proved) for name in _wrong(case, [row for row in found if row[0] == place])
    ]


def _wrong(case: StatementCase, found: Sequence[tuple[Any, ...]]) -> list[str]:
    """Name the values of one case that are wrong beside their keys, or the case if only the rows are."""
    rows = [(row[1], *row[2 : 2 + len(case.names)]) for row in found]
    if Counter(rows) == Counter(case.rows):
        return []
    wrong = [name for at, name in enumerate(case.names, 1) if _column(rows, at) != _column(case.rows, at)]
    return wrong or [case.names[0]]


def _column(rows: Sequence[tuple[Any, ...]], at: int) -> Counter[tuple[Any, Any]]:
    return Counter((row[0], row[at]) for row in rows)


def _groups() -> list[StatementCase]:
    """Group by the key: by its bytes, and NULL is a key too."""
    i, totals = of("i"), ("COUNT", "COUNT of values", "COUNT DISTINCT", "SUM of a group", "a SUM of a group's cells")
    above = apply(ScalarFunction.GREATER, i, whole(0))
    greatest = GroupTotal(AggregateFunction.MAX, i)
    columns = _values(
        GroupTotal(AggregateFunction.COUNT),
        GroupTotal(AggregateFunction.COUNT, i),
        GroupTotal(AggregateFunction.UNITS, i),
        GroupTotal(AggregateFunction.SUM, i, above),
        GroupTotal(AggregateFunction.SUM_OF_NARROW, i),
        GroupTotal(AggregateFunction.MIN, i),
        greatest,
    )
    names = (*totals, "MIN of a group", "MAX of a group")
    none = apply(ScalarFunction.GREATER, of("n"), whole(100))
    kept = apply(ScalarFunction.GREATER, greatest, whole(0))
    missing = Constant(None, Type.TEXT)
    return [
        StatementCase(
            names, Select((("k", of("k")), *columns), Named("p"), grouped=("k",)), tuple(map(_totals, _KEYS))
        ),
        StatementCase(
            ("HAVING",),
            Select((("k", of("k")), *_values(greatest)), Named("p"), grouped=("k",), having=kept),
            tuple((key, _totals(key)[7]) for key in _KEYS if _totals(key)[7] > 0),
        ),
        StatementCase(
            tuple(f"{each} without rows" for each in names),
            Select((("k", missing), *columns), Named("p"), where=(none,)),
            ((None, 0, 0, 0, None, None, None, None),),
        ),
    ]


def _values(*scalars: Scalar) -> tuple[tuple[str, Scalar], ...]:
    return tuple((f"v{place}", scalar) for place, scalar in enumerate(scalars))


_KEYS = ("a", "A", None)


def _key(row: Row) -> str | None:
    return {True: "a", False: "A", None: None}[row["b"]]


def _totals(key: str | None) -> tuple[Any, ...]:
    rows = [row for row in ALL if _key(row) == key]
    own = there(*(row["i"] for row in rows))
    positive = [each for each in own if each > 0]
    return key, len(rows), len(own), len(set(own)), sum(positive) if positive else None, sum(own), min(own), max(own)


def _joins() -> list[StatementCase]:
    """Join the rows with themselves; NULL equals nothing."""
    r, other = of("n"), Reference("n", "o")
    columns = (("k", r), *_values(other))
    equal = apply(ScalarFunction.EQUAL, of("i"), Reference("i", "o"))
    named = apply(ScalarFunction.EQUAL, of("j"), other)
    less = apply(ScalarFunction.LESS, r, other)
    numbers = {row["n"] for row in ALL}
    return [
        StatementCase(
            ("INNER JOIN",),
            Select(columns, Named("p"), joins=(RelationalJoin(Named("p"), "o", equal),)),
            tuple((str(x["n"]), y["n"]) for x in ALL for y in ALL if x["i"] is not None and x["i"] == y["i"]),
        ),
        StatementCase(
            ("LEFT JOIN",),
            Select(columns, Named("p"), joins=(RelationalJoin(Named("p"), "o", named, outer=True),)),
            tuple((str(row["n"]), row["j"] if row["j"] in numbers else None) for row in ALL),
        ),
        StatementCase(
            ("CROSS JOIN",),
            Select(columns, Named("p"), joins=(RelationalJoin(Named("p"), "o"),), where=(less,)),
            tuple((str(x), y) for x in numbers for y in numbers if x < y),
        ),
    ]


def _tests() -> list[StatementCase]:
    """Ask whether another row names this one; some rows name NULL."""
    named = apply(ScalarFunction.EQUAL, of("n"), Reference("j", "o"))
    met = {row["j"] for row in ALL}
    return [
        StatementCase(
            (name,),
            Select((("k", of("n")), *_values(of("n"))), Named("p"), where=(Exists(Named("p"), "o", named, negated),)),
            tuple((str(row["n"]), row["n"]) for row in ALL if (row["n"] in met) is not negated),
        )
        for name, negated in (("EXISTS", False), ("NOT EXISTS", True))
    ]


def _united() -> StatementCase:
    member = Select((("k", of("k")), *_values(whole(1))), Named("p"))
    columns = (("k", of("k")), *_values(of("v0")))
    twice = tuple((_key(row), 1) for row in ALL) * 2
    return StatementCase(("UNION ALL",), Select(columns, RelationalUnion((member, member))), twice)


def _items() -> StatementCase:
    lists = Select((("k", of("n")), ("l", of("l"))), CleanTable(LISTS))
    select = Select((("v0", Items(Reference("l"))),), lists, everything=True)
    rows = tuple((str(row["n"]), row[each]) for row in ALL for each in "ij" if row["i"] is not None)
    return StatementCase(("items of a list",), Select((("k", of("k")), ("v0", of("v0"))), select), rows)
