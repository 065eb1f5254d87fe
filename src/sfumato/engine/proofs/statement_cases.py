"""Cases of whole statements: groups and their totals, joins, EXISTS, unions and unnested lists.

All of them are members of one union, so that an engine computes them in one statement: each returns a key and up to
seven whole numbers a row, after the index of the case.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    AnyOf,
    CleanTable,
    Constant,
    Exists,
    GroupTotal,
    IntegerSpan,
    Items,
    Reference,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    StageReference,
    ValueList,
    Wide,
    apply,
    integer_constant,
)
from sfumato.engine.proofs.proved_rows import ALL, KINDS, Row, column_reference, not_null
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

ROWS, LISTS = "proof", "lists"
"""The tables that are read: the rows, and their numbers ``n`` beside lists ``l`` of ``i`` and ``j``; one is NULL."""
_WIDTH = 7


@dataclass(frozen=True)
class StatementCase:
    """A select of a key ``k`` and values ``v0``, ``v1``, …, with the expected rows in any order."""

    names: tuple[str, ...]
    """What each value is called where it is wrong; the first also where the rows or their keys are."""
    select: Select
    rows: tuple[tuple[Any, ...], ...]
    values: tuple[tuple[Any, ...], ...] = ()
    """Lists that are handed over beside the statement, after the columns of the rows; at most one case has any."""


def cases(*, lists: bool = True) -> list[StatementCase]:
    """List the statements that are proved, those of lists included."""
    unnested = [_unnest_case()] if lists else []
    return [*_group_cases(), *_join_cases(), *_exists_cases(), _union_case(), *unnested]


def declared() -> list[StatementCase]:
    """List the statements about declared values, for an engine that lists them itself: those of lists and of spans."""
    lists = tuple(
        Select(
            (
                ("k", apply(ScalarFunction.CONVERT, column_reference("x"), detail=(Type.TEXT,))),
                *_numbered_scalars(integer_constant(parameter)),
            ),
            ValueList(parameter, kind),
        )
        for parameter, kind in enumerate(_PARAMETER_VALUES, len(KINDS) + 1)
    )
    rows = (
        (_as_text(x), parameter)
        for parameter, values in enumerate(_PARAMETER_VALUES.values(), len(KINDS) + 1)
        for x in (*values, None)
    )
    all_lists = Select(
        (("k", column_reference("k")), *_numbered_scalars(column_reference("v0"))), RelationalUnion(lists)
    )
    spans = (
        StatementCase(
            (f"a span of {name}",),
            Select(
                (("k", column_reference("x")), *_numbered_scalars(integer_constant(1))),
                IntegerSpan(Constant(values[0], kind), len(values)),
            ),
            tuple((_as_text(value), 1) for value in (*values, None)),
        )
        for name, kind, values in _SPANS
    )
    return [StatementCase(("a list of values",), all_lists, tuple(rows), tuple(_PARAMETER_VALUES.values())), *spans]


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


_PARAMETER_VALUES: dict[Type, tuple[Any, ...]] = {
    Type.INTEGER: (2**62, -7, 0),
    Type.TEXT: ("north", "NORTH", "it's é😀 ", ""),
    Type.DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
}
_EVE = dt.datetime(1999, 12, 31, 23)
_SPANS: tuple[tuple[str, Type, tuple[Any, ...]], ...] = (
    ("whole numbers", Type.INTEGER, (-1, 0, 1)),
    ("days", Type.DATE, tuple(_EVE.date() + dt.timedelta(days) for days in range(4))),
    ("hours", Type.TIMESTAMP, tuple(_EVE + dt.timedelta(hours=hours) for hours in range(2))),
)


def statement(proved: Sequence[StatementCase]) -> StagedSelect:
    """Combine all cases into one statement, over a stage with the rows and a key of two letters that differ in case."""
    lower_case, upper_case = (Constant(letter, Type.TEXT) for letter in "aA")
    key = apply(
        ScalarFunction.CASE,
        column_reference("b"),
        lower_case,
        apply(ScalarFunction.IS_FALSE, column_reference("b")),
        upper_case,
        Constant(None, Type.TEXT),
    )
    rows = Select((*((name, column_reference(name)) for name in "nij"), ("k", key)), CleanTable(ROWS))
    members = tuple(_member(index, case) for index, case in enumerate(proved))
    columns = ("c", "k", *(f"v{index}" for index in range(_WIDTH)))
    return StagedSelect(
        (("p", rows),), Select(tuple((name, column_reference(name)) for name in columns), RelationalUnion(members))
    )


def _member(case_index: int, case: StatementCase) -> Select:
    """Prefix the rows of a case with its index, and pad its values with NULL."""
    value_count = len(case.names)
    values = (
        _wide(column_reference(f"v{index}")) if index < value_count else Constant(None, Wide.INTEGER)
        for index in range(_WIDTH)
    )
    key = apply(ScalarFunction.CONVERT, column_reference("k"), detail=(Type.TEXT,))
    return Select(
        (
            ("c", integer_constant(case_index)),
            ("k", key),
            *((f"v{index}", scalar) for index, scalar in enumerate(values)),
        ),
        case.select,
    )


def _wide(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.CONVERT, scalar, detail=(Wide.INTEGER,))


def first_difference(proved: Sequence[StatementCase], computed_rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the names of the values that differ from the expected ones."""
    return [
        name
        for case_index, case in enumerate(proved)
        for name in _wrong_values(case, [row for row in computed_rows if row[0] == case_index])
    ]


def _wrong_values(case: StatementCase, computed_rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the names of the values of one case that differ beside their keys, or of the case if only its rows do."""
    rows = [(row[1], *row[2 : 2 + len(case.names)]) for row in computed_rows]
    if Counter(rows) == Counter(case.rows):
        return []
    wrong_names = [
        name for index, name in enumerate(case.names, 1) if _keyed_cells(rows, index) != _keyed_cells(case.rows, index)
    ]
    return wrong_names or [case.names[0]]


def _keyed_cells(rows: Sequence[tuple[Any, ...]], index: int) -> Counter[tuple[Any, Any]]:
    return Counter((row[0], row[index]) for row in rows)


def _group_cases() -> list[StatementCase]:
    """Group by the key: by its bytes, and NULL is a key too."""
    i, totals = (
        column_reference("i"),
        ("COUNT", "COUNT of values", "COUNT DISTINCT", "SUM of a group", "a SUM of a group's cells"),
    )
    is_positive = apply(ScalarFunction.GREATER, i, integer_constant(0))
    greatest = GroupTotal(AggregateFunction.MAX, i)
    columns = _numbered_scalars(
        GroupTotal(AggregateFunction.COUNT),
        GroupTotal(AggregateFunction.COUNT, i),
        GroupTotal(AggregateFunction.UNITS, i),
        GroupTotal(AggregateFunction.SUM, i, is_positive),
        GroupTotal(AggregateFunction.SUM_OF_NARROW, i),
        GroupTotal(AggregateFunction.MIN, i),
        greatest,
    )
    names = (*totals, "MIN of a group", "MAX of a group")
    is_absent = apply(ScalarFunction.GREATER, column_reference("n"), integer_constant(100))
    is_kept = apply(ScalarFunction.GREATER, greatest, integer_constant(0))
    null = Constant(None, Type.TEXT)
    return [
        StatementCase(
            names,
            Select((("k", column_reference("k")), *columns), StageReference("p"), group_by=("k",)),
            tuple(map(_expected_totals, _KEYS)),
        ),
        StatementCase(
            ("HAVING",),
            Select(
                (("k", column_reference("k")), *_numbered_scalars(greatest)),
                StageReference("p"),
                group_by=("k",),
                having=is_kept,
            ),
            tuple((key, _expected_totals(key)[7]) for key in _KEYS if _expected_totals(key)[7] > 0),
        ),
        _distinct_residue_count_case(),
        _number_set_case(),
        StatementCase(
            tuple(f"{name} without rows" for name in names),
            Select((("k", null), *columns), StageReference("p"), where=(is_absent,)),
            ((None, 0, 0, 0, None, None, None, None),),
        ),
    ]


def _distinct_residue_count_case() -> StatementCase:
    """Count remainders by 62 of large numbers: 0, 60 and 61, and of some keys several equal ones."""
    n = column_reference("n")
    third = apply(ScalarFunction.REMAINDER, n, integer_constant(3))
    number = apply(
        ScalarFunction.ADD,
        apply(ScalarFunction.MULTIPLY, third, integer_constant(61)),
        apply(ScalarFunction.MULTIPLY, n, integer_constant(62 << 40)),
    )
    count = GroupTotal(AggregateFunction.RESIDUES, number)
    select = Select((("k", column_reference("k")), *_numbered_scalars(count)), StageReference("p"), group_by=("k",))
    rows = tuple((key, len({row["n"] % 3 for row in ALL if _key(row) == key})) for key in _KEYS)
    return StatementCase(("the number of different remainders",), select, rows)


def _number_set_case() -> StatementCase:
    """Collect 0, 30 and 61, several of which a key may have more than once."""
    third = apply(ScalarFunction.REMAINDER, column_reference("n"), integer_constant(3))
    half = apply(ScalarFunction.MULTIPLY, third, integer_constant(30))
    number = apply(ScalarFunction.ADD, half, apply(ScalarFunction.DIVIDE_WHOLE, third, integer_constant(2)))
    numbers = GroupTotal(AggregateFunction.NUMBER_SET, number)
    select = Select((("k", column_reference("k")), *_numbered_scalars(numbers)), StageReference("p"), group_by=("k",))
    sets = {key: {(0, 30, 61)[row["n"] % 3] for row in ALL if _key(row) == key} for key in _KEYS}
    rows = tuple((key, sum(1 << member for member in members)) for key, members in sets.items())
    return StatementCase(("a set of whole numbers",), select, rows)


def _numbered_scalars(*scalars: Scalar) -> tuple[tuple[str, Scalar], ...]:
    return tuple((f"v{index}", scalar) for index, scalar in enumerate(scalars))


_KEYS = ("a", "A", None)


def _key(row: Row) -> str | None:
    return {True: "a", False: "A", None: None}[row["b"]]


def _expected_totals(key: str | None) -> tuple[Any, ...]:
    rows = [row for row in ALL if _key(row) == key]
    present_values = not_null(*(row["i"] for row in rows))
    positive = [value for value in present_values if value > 0]
    return (
        key,
        len(rows),
        len(present_values),
        len(set(present_values)),
        sum(positive) if positive else None,
        sum(present_values),
        min(present_values),
        max(present_values),
    )


def _join_cases() -> list[StatementCase]:
    """Join the rows with themselves; NULL equals nothing."""
    number, other_number = column_reference("n"), Reference("n", "o")
    columns = (("k", number), *_numbered_scalars(other_number))
    is_equal = apply(ScalarFunction.EQUAL, column_reference("i"), Reference("i", "o"))
    is_named = apply(ScalarFunction.EQUAL, column_reference("j"), other_number)
    is_less = apply(ScalarFunction.LESS, number, other_number)
    numbers = {row["n"] for row in ALL}
    return [
        StatementCase(
            ("INNER JOIN",),
            Select(columns, StageReference("p"), joins=(RelationalJoin(StageReference("p"), "o", is_equal),)),
            tuple((str(x["n"]), y["n"]) for x in ALL for y in ALL if x["i"] is not None and x["i"] == y["i"]),
        ),
        StatementCase(
            ("LEFT JOIN",),
            Select(
                columns, StageReference("p"), joins=(RelationalJoin(StageReference("p"), "o", is_named, outer=True),)
            ),
            tuple((str(row["n"]), row["j"] if row["j"] in numbers else None) for row in ALL),
        ),
        StatementCase(
            ("CROSS JOIN",),
            Select(columns, StageReference("p"), joins=(RelationalJoin(StageReference("p"), "o"),), where=(is_less,)),
            tuple((str(x), y) for x in numbers for y in numbers if x < y),
        ),
    ]


def _exists_cases() -> list[StatementCase]:
    """Test whether another row names this one; some rows name NULL."""
    is_named = apply(ScalarFunction.EQUAL, column_reference("n"), Reference("j", "o"))
    referenced_numbers = {row["j"] for row in ALL}
    is_other = apply(ScalarFunction.UNEQUAL, column_reference("n"), integer_constant(7))
    is_late = apply(ScalarFunction.AT_LEAST, column_reference("n"), integer_constant(8))
    either = Exists(StageReference("p"), "o", is_named), Exists(StageReference("p"), "o", is_other, negated=True)
    return [
        StatementCase(
            (name,),
            Select(
                (("k", column_reference("n")), *_numbered_scalars(column_reference("n"))),
                StageReference("p"),
                where=(Exists(StageReference("p"), "o", is_named, negated),),
            ),
            tuple((str(row["n"]), row["n"]) for row in ALL if (row["n"] in referenced_numbers) is not negated),
        )
        for name, negated in (("EXISTS", False), ("NOT EXISTS", True))
    ] + [
        StatementCase(
            ("EXISTS under OR",),
            Select(
                (("k", column_reference("n")), *_numbered_scalars(column_reference("n"))),
                StageReference("p"),
                where=(AnyOf((is_late, *either)),),
            ),
            tuple(
                (str(row["n"]), row["n"])
                for row in ALL
                if row["n"] >= 8 or row["n"] in referenced_numbers or row["n"] == 7
            ),
        )
    ]


def _union_case() -> StatementCase:
    member = Select((("k", column_reference("k")), *_numbered_scalars(integer_constant(1))), StageReference("p"))
    columns = (("k", column_reference("k")), *_numbered_scalars(column_reference("v0")))
    twice = tuple((_key(row), 1) for row in ALL) * 2
    return StatementCase(("UNION ALL",), Select(columns, RelationalUnion((member, member))), twice)


def _unnest_case() -> StatementCase:
    lists = Select((("k", column_reference("n")), ("l", column_reference("l"))), CleanTable(LISTS))
    select = Select((("v0", Items(Reference("l"))),), lists, all_columns=True)
    rows = tuple((str(row["n"]), row[column]) for row in ALL for column in "ij" if row["i"] is not None)
    return StatementCase(
        ("items of a list",), Select((("k", column_reference("k")), ("v0", column_reference("v0"))), select), rows
    )
