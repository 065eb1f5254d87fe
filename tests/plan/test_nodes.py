"""What every node of a tree says of itself: columns, rows of one unit, limits, numbers of sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne

import pytest

from sfumato.plan.aggregates.unit_measures import RankingFunction, RowNumbering, UnitRowCount
from sfumato.plan.bounding import proven_rows_per_unit
from sfumato.plan.join_conditions import is_separable
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import (
    Filter,
    LimitRowsPerUnit,
    PerUnit,
    PublicJoin,
    Relation,
    Scan,
    SemiJoin,
    Union,
    UnitJoin,
    Window,
    limit_rows_per_unit,
    max_rows_per_private_row,
    relations,
    unused_source_number,
)
from sfumato.plan.sql.row_sources import shift_sources
from sfumato.plan.values.expressions import Column, Expression, Field, Order
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import null_literal
from sfumato.policy import Domain, Type

AGE = Domain("integer", bounds=(0, 110))
LIMITS = ContributionLimits(6, 4, 3)


def scan(source: int = 0, *, every_row: bool = False, limits: ContributionLimits = LIMITS) -> Scan:
    return Scan("visits", every_row, source, {Field(source, "visits", "age"): AGE}, limits)


def column(source: int = 0) -> Column:
    return Column(Field(source, "visits", "age"), AGE)


OLD = call(">", column(), literal(Type.INTEGER, 40))
PUBLIC = PublicJoin(scan(), "ages", 1, ((column(), "age"),), False, 3, {"age": AGE})
OWN = PerUnit(scan(), 1, (), (("n", UnitRowCount(None, 6)),))
BY_AGE = PerUnit(scan(), 1, (("age", column()),), (("n", UnitRowCount(None, 6)),))
RIGHT = Scan("visits", False, 5, {Field(5, "visits", "age"): AGE}, ContributionLimits(9, 2, 2))
BOTH = UnitJoin(LimitRowsPerUnit(scan(), 6), LimitRowsPerUnit(RIGHT, 9), (), None, True)
MEMBERS = ((scan(), (column(),)), (RIGHT, (column(5),)))
TOGETHER = Union(MEMBERS, 6, (("age", AGE),))


@pytest.mark.parametrize(
    ("relation", "most", "limits", "whole"),
    [
        (scan(), None, LIMITS, None),
        (scan(every_row=True, limits=ContributionLimits(1, 1, 1)), 1, ContributionLimits(1, 1, 1), 1),
        (PUBLIC, None, LIMITS, None),
        (Filter(scan(), OLD), None, LIMITS, None),
        (LimitRowsPerUnit(scan(), 5), 5, ContributionLimits(5, 4, 3), None),
        (LimitRowsPerUnit(scan(), 50), 50, LIMITS, None),
        (LimitRowsPerUnit(LimitRowsPerUnit(scan(), 5), 50), 5, ContributionLimits(5, 4, 3), None),
        (OWN, 1, ContributionLimits(1, 1, 1), 1),
        (PublicJoin(OWN, "ages", 2, ((column(), "age"),), False, 3, {"age": AGE}), 3, ContributionLimits(1, 1, 1), 3),
        (BY_AGE, None, LIMITS, None),
        (BOTH, 54, ContributionLimits(9, 4, 3), None),
        (UnitJoin(OWN, LimitRowsPerUnit(RIGHT, 1), (), None, False), 1, ContributionLimits(1, 1, 1), 1),
        (SemiJoin(scan(), RIGHT, (), None, False), None, LIMITS, None),
        (SemiJoin(OWN, RIGHT, (), None, True), 1, ContributionLimits(1, 1, 1), 1),
        (TOGETHER, None, ContributionLimits(15, 6, 5), None),
    ],
)
def test_rows_and_limits_of_one_unit(
    relation: Relation, most: int | None, limits: ContributionLimits, whole: int | None
) -> None:
    assert relation.max_rows_per_unit == most
    assert relation.limits == limits
    assert proven_rows_per_unit(relation) == whole


def _places(counting: RowNumbering, *keys: Column) -> Window:
    made = RankingFunction(keys, (Order(column(), descending=False, nulls_first=False),), counting, CAP)
    return Window(scan(), 1, (("place", made),))


ROW_NUMBER = Column(Field(1, "", "place"), Domain("integer", bounds=(1, 7)))
CAP = 7
NUMBERS = range(-1, CAP + 3)
CONDITIONS = [
    *((operator, (number,)) for operator in ("=", "<>", "<", "<=", ">", ">=") for number in (*NUMBERS, 10**9)),
    *((operator, (low, high)) for operator in ("IN", "BETWEEN") for low in NUMBERS for high in NUMBERS),
    *(("IN", (1, middle, 5)) for middle in NUMBERS),
]
MEANINGS: dict[str, Callable[..., bool]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "IN": lambda number, *numbers: number in numbers,
    "BETWEEN": lambda number, low, high: low <= number <= high,
}


def _compared(operator: str, numbers: Sequence[int]) -> Expression:
    return call(operator, ROW_NUMBER, *(literal(Type.INTEGER, number) for number in numbers))


def _most_kept(operator: str, numbers: Sequence[int], rows: int) -> int:
    """Keep the rows of units with up to so many rows by what a condition means, and count those of the largest."""
    kept = [MEANINGS[operator](min(row, CAP), *numbers) for row in range(1, rows + 1)]
    return max(sum(kept[:size]) for size in range(rows + 1))


@pytest.mark.parametrize(("operator", "numbers"), CONDITIONS, ids=str)
def test_a_condition_on_row_number_keeps_so_many_rows_of_a_unit(operator: str, numbers: tuple[int, ...]) -> None:
    """Every unit of up to twice the cap's rows: the claim is the most that is kept, and none where more rows of a unit
    keep more. The last number stands for all later ones, so it limits nothing.
    """
    kept = Filter(_places(RowNumbering.ROW_NUMBER), _compared(operator, numbers))
    truth, of_larger_units = (_most_kept(operator, numbers, rows) for rows in (2 * CAP, 4 * CAP))
    claim = kept.max_rows_per_unit
    assert claim == (max(truth, 1) if truth == of_larger_units else None) or (claim is None and max(numbers) >= CAP)
    assert kept.limits == (LIMITS if claim is None else LIMITS.capped_at_rows(claim))


def test_numbers_written_out_with_null_and_on_the_left() -> None:
    assert (
        Filter(
            _places(RowNumbering.ROW_NUMBER), call("IN", ROW_NUMBER, literal(Type.INTEGER, 2), null_literal())
        ).max_rows_per_unit
        == 1
    )
    assert (
        Filter(_places(RowNumbering.ROW_NUMBER), call(">", literal(Type.INTEGER, 4), ROW_NUMBER)).max_rows_per_unit == 3
    )
    half = call("<=", ROW_NUMBER, literal(Type.REAL, Fraction(5, 2)))  # compared as reals: nothing is concluded
    assert Filter(_places(RowNumbering.ROW_NUMBER), half).max_rows_per_unit is None
    negated = call("NOT", _compared(">", [3]))
    assert Filter(_places(RowNumbering.ROW_NUMBER), negated).max_rows_per_unit is None


@pytest.mark.parametrize("operator", ["=", "IN", "<="])
def test_only_row_numbers_over_all_rows_of_a_unit_are_counted(operator: str) -> None:
    test = _compared(operator, [3])
    most = 3 if operator == "<=" else 1
    assert Filter(Filter(_places(RowNumbering.ROW_NUMBER), OLD), call("AND", OLD, test)).max_rows_per_unit == most
    both = call("AND", test, _compared("<=", [2]))
    assert Filter(_places(RowNumbering.ROW_NUMBER), both).max_rows_per_unit == min(most, 2)
    other = call(operator, column(), literal(Type.INTEGER, 3))
    assert Filter(_places(RowNumbering.ROW_NUMBER), other).max_rows_per_unit is None
    assert Filter(_places(RowNumbering.RANK), test).max_rows_per_unit is None
    assert Filter(_places(RowNumbering.DENSE_RANK), test).max_rows_per_unit is None
    assert Filter(_places(RowNumbering.ROW_NUMBER, column()), test).max_rows_per_unit is None
    joined = PublicJoin(_places(RowNumbering.ROW_NUMBER), "ages", 2, ((column(), "age"),), False, 3, {"age": AGE})
    assert Filter(joined, test).max_rows_per_unit is None
    assert Filter(_places(RowNumbering.ROW_NUMBER), call("OR", OLD, test)).max_rows_per_unit is None


def test_columns() -> None:
    assert list(OWN.columns) == [Field(1, "", "n")]
    assert [str(each) for each in BY_AGE.columns] == ["age", "n"]
    assert OWN.columns[Field(1, "", "n")].bounds == (1, 6)
    assert BOTH.columns[Field(5, "visits", "age")].nullable
    assert not BOTH.columns[Field(0, "visits", "age")].nullable
    assert list(TOGETHER.columns) == [Field(6, "", "age")]
    assert list(SemiJoin(scan(), RIGHT, (), None, False).columns) == [Field(0, "visits", "age")]


def test_a_side_of_a_join_is_cut_unless_it_is_small() -> None:
    assert limit_rows_per_unit(scan()) == LimitRowsPerUnit(scan(), 6)
    assert limit_rows_per_unit(OWN) is OWN
    assert limit_rows_per_unit(LimitRowsPerUnit(scan(), 3)) == LimitRowsPerUnit(scan(), 3)
    assert limit_rows_per_unit(BOTH) == LimitRowsPerUnit(BOTH, 9)


def test_how_often_a_row_is_met() -> None:
    assert max_rows_per_private_row(scan()) == 1
    assert max_rows_per_private_row(Filter(PUBLIC, OLD)) == 3
    assert max_rows_per_private_row(BOTH) == 9
    assert max_rows_per_private_row(TOGETHER) == 2
    assert max_rows_per_private_row(replace(BOTH, right=LimitRowsPerUnit(RIGHT, 1))) == 1


@pytest.mark.parametrize(("nullable", "outer"), [(False, False), (False, True), (True, False), (True, True)])
def test_what_a_join_adds_is_nullable_if_it_was_or_if_the_join_is_outer(nullable: bool, outer: bool) -> None:
    age = replace(AGE, nullable=nullable)
    right = replace(RIGHT, columns={Field(5, "visits", "age"): age})
    joins = (replace(PUBLIC, outer=outer, theirs={"age": age}), replace(BOTH, right=right, outer=outer))
    for join in joins:
        assert [domain.nullable for domain in join.added_columns.values()] == [nullable or outer]


def test_two_trees_have_no_number_in_common() -> None:
    moved = shift_sources(Filter(PUBLIC, OLD), unused_source_number(TOGETHER))
    assert unused_source_number(TOGETHER) == 7
    assert [node.source for node in relations(moved) if isinstance(node, (Scan, PublicJoin))] == [8, 7]
    assert moved.predicate == call(">", column(7), literal(Type.INTEGER, 40))
    assert set(moved.columns) == {Field(7, "visits", "age"), Field(8, "ages", "age")}
    assert shift_sources(moved, -7) == Filter(PUBLIC, OLD)
    assert shift_sources(OWN, 0) == OWN


def test_conditions_that_can_be_matched_by() -> None:
    left, right = scan(), RIGHT
    later = call("<", column(), column(5))
    assert is_separable(later, left, right)
    assert is_separable(call("AND", later, OLD), left, right)
    assert not is_separable(call("OR", later, OLD), left, right)
    assert not is_separable(call("<", call("+", column(), column(5)), literal(Type.INTEGER, 3)), left, right)


@pytest.mark.parametrize(("most", "expected"), [((5, 2, 1), 8), ((5, None), None), ((None, 5), None), ((4,), 4)])
def test_a_unit_has_the_rows_of_all_members_of_a_union(most: tuple[int | None, ...], expected: int | None) -> None:
    scans = [scan() if rows is None else LimitRowsPerUnit(scan(), rows) for rows in most]
    union = Union(tuple((member, (column(),)) for member in scans), 6, (("age", AGE),))
    assert union.max_rows_per_unit == expected
