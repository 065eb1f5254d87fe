"""Trees that are built by hand, read by the engine: each node holds what a plain reckoning over lists says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random

import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import bounded_totals, relation_lowering
from sfumato.engine.lowering.relational_form import integer_constant
from sfumato.plan.aggregates.measures import Count, DistinctUnits, Sum
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate, Filter, LimitRowsPerUnit, Relation, Scan, SemiJoin, Union, UnitJoin
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Policy, Table, Type

Row = tuple[int | None, int, int | None]
"""Whose row it is, what it is matched by, and a number."""
ONCE = 1_000
"""Above every number that a unit has."""
DOMAIN = Domain("integer", bounds=(0, ONCE))
LIMITS = ContributionLimits(ONCE, ONCE, ONCE)


def _rows(random: Random, units: int) -> list[Row]:
    people = [None, *range(units)]
    drawn = [(who, random.randint(0, 3), random.choice((None, 1, 2, 5))) for who in people for _ in range(6)]
    return random.sample(drawn, random.randint(0, len(drawn)))


def _table(name: str, rows: Sequence[Row]) -> Table:
    kinds = [("who", pa.int64()), ("k", pa.int64()), ("x", pa.int64())]
    columns = {field: pa.array([row[place] for row in rows], kind) for place, (field, kind) in enumerate(kinds)}
    declared = {"k": {"type": "integer", "bounds": [0, ONCE]}, "x": {"type": "integer", "bounds": [0, ONCE]}}
    return Table(name, pa.table(columns), declared, id="who", max_rows=ONCE)


def policy(first: Sequence[Row], second: Sequence[Row]) -> Policy:
    return policy_of(_table("a", first), _table("b", second))


def scan(table: str, source: int) -> Scan:
    return Scan(table, False, source, {Field(source, table, name): DOMAIN for name in "kx"}, LIMITS)


def column(table: str, source: int, name: str) -> Column:
    return Column(Field(source, table, name), DOMAIN)


A, B = scan("a", 0), scan("b", 1)
AK, AX, BK, BX = (column(table, source, name) for table, source in (("a", 0), ("b", 1)) for name in "kx")
BOTH = Union(((A, (AX,)), (B, (BX,))), 2, (("x", DOMAIN),))
BOTH_X = Column(Field(2, "", "x"), DOMAIN)
EARLIER = call("<", AX, BX)
LARGE = call(">", BX, literal(Type.INTEGER, 1))


def bounded(relation: Relation, value: Column, strategy: Strategy = Strategy.SAMPLE) -> BoundedPlan:
    plan = Aggregate(relation, (), (Count(), Sum(value)))
    return next(
        each for each in candidate_bounded_plans(plan, LIMITS, 1) if each.strategy in (strategy, Strategy.WHOLE)
    )


def _matched(first: Sequence[Row], second: Sequence[Row], condition: bool) -> Iterator[tuple[Row, list[Row]]]:
    for row in first:
        found = [each for each in second if each[0] is not None and each[0] == row[0] and each[1] == row[1]]
        if condition:
            found = [each for each in found if None not in (row[2], each[2]) and row[2] < each[2] and each[2] > 1]  # type: ignore[operator]
        if row[0] is not None:
            yield row, found


def _totals(values: Sequence[int | None]) -> tuple[int, int]:
    return len(values), sum(each or 0 for each in values)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(each, marks=pytest.mark.long) for each in range(2, 6))])
@pytest.mark.parametrize("strategy", [Strategy.SAMPLE, Strategy.REWEIGHT, Strategy.CLIP_L1])
def test_joins_and_unions_of_private_tables(seed: int, strategy: Strategy) -> None:
    random = Random(seed)
    first, second = _rows(random, 5), _rows(random, 5)
    condition = call("AND", EARLIER, LARGE)
    engine = DuckDB(policy(first, second))
    for extra in (None, condition):
        matched = list(_matched(first, second, extra is not None))
        for outer in (False, True):
            tree = UnitJoin(LimitRowsPerUnit(A, 30), LimitRowsPerUnit(B, 30), ((AK, BK),), extra, outer)
            rows = [each[2] for _, found in matched for each in found or ([(None, 0, None)] if outer else [])]
            assert _read(engine, bounded(tree, BX, strategy)) == _totals(rows)
        for anti in (False, True):
            tree_ = SemiJoin(A, LimitRowsPerUnit(B, 30), ((AK, BK),), extra, anti)
            kept = [row[2] for row, found in matched if bool(found) is not anti]
            assert _read(engine, bounded(tree_, AX, strategy)) == _totals(kept)
    told = [row[2] for row in (*first, *second) if row[0] is not None]
    assert _read(engine, bounded(BOTH, BOTH_X, strategy)) == _totals(told)
    large = [each for each in told if each is not None and each > 1]
    above = Filter(BOTH, call(">", BOTH_X, literal(Type.INTEGER, 1)))
    assert _read(engine, bounded(above, BOTH_X, strategy)) == _totals(large)
    engine.close()


def _read(engine: DuckDB, made: BoundedPlan, key: int = 7) -> tuple[int, int]:
    bits = made.measures[0].bits
    ((count, total),) = tuples(engine.read(GroupTotals(made, ((),)), key))
    return count >> bits, total >> made.measures[1].bits


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_cut_keeps_so_many_rows_of_each_unit_and_no_more(most: int) -> None:
    """Units with one row fewer than the limit, as many, and one more; which are kept depends on the key."""
    rows: list[Row] = [(who, place, 2**place) for who in range(4) for place in range(most - 1 + who)]
    engine, shuffled = (DuckDB(policy(found, [])) for found in (rows, Random(1).sample(rows, len(rows))))
    sums = set()
    for key in range(12):
        made = bounded(LimitRowsPerUnit(A, most), AX)
        count, total = _read(engine, made, key)
        assert count == sum(min(most, each) for each in Counter(who for who, _, _ in rows).values())
        assert _read(shuffled, made, key) == (count, total)
        sums.add(total)
    assert len(sums) > 1
    engine.close()
    shuffled.close()


def test_a_cut_of_one_unit_is_not_changed_by_another() -> None:
    """Neighbours: with one more unit the rows kept of all others are the same."""
    rows: list[Row] = [(who, place, 2**place) for who in range(3) for place in range(6)]
    more: list[Row] = [(9, place, 1) for place in range(50)]
    alone, beside = DuckDB(policy(rows, [])), DuckDB(policy([*more, *rows], []))
    kept = defaultdict(set)
    for key in range(20):
        made = bounded(LimitRowsPerUnit(A, 2), AX)
        count, total = _read(beside, made, key)
        kept[_read(alone, made, key)].add((count - 2, total - 2))
    assert all(found == {each} for each, found in kept.items())
    alone.close()
    beside.close()


def test_rows_of_equal_rank_are_told_apart_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_lowering, "mixed_rank", lambda *_: integer_constant(0))
    rows: list[Row] = [(0, 1, None), (0, None, 1)]  # type: ignore[list-item]
    plan = Aggregate(LimitRowsPerUnit(A, 1), (), (Sum(AK), Sum(AX)))
    (made,) = candidate_bounded_plans(plan, LIMITS, 1)
    found = set()
    for each in (rows, rows[::-1]):
        engine = DuckDB(policy(each, []))
        found |= {tuples(engine.read(GroupTotals(made, ((),)), key))[0] for key in range(3)}
        engine.close()
    assert len(found) == 1


def test_only_units_beyond_the_limit_are_ranked() -> None:
    (_, heavy), *_ = bounded_totals.group_totals_statement(bounded(LimitRowsPerUnit(A, 2), AX), 1).stages
    assert "having=Apply(operation=<ScalarFunction.GREATER" in repr(heavy)
    assert "Rank(" not in repr(heavy)


@pytest.mark.parametrize("strategy", [Strategy.SAMPLE, Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2])
@pytest.mark.parametrize("limit", [3, 4])
def test_limits_that_a_tree_proves_are_not_looked_at(strategy: Strategy, limit: int) -> None:
    """Of two rows beside two there are four: within a limit of four by proof, beyond one of three and cut there."""
    rows: list[Row] = [(0, 0, 1)] * 2
    tree = UnitJoin(LimitRowsPerUnit(A, 2), LimitRowsPerUnit(B, 2), ((AK, BK),), None, False)
    plan = Aggregate(tree, (), (Count(), Sum(AX)))
    made = next(
        each
        for each in candidate_bounded_plans(plan, ContributionLimits(limit, 1, limit), 1)
        if each.strategy is strategy
    )
    # a sample looks at groups, and only the plan knows that there is one
    engine = DuckDB(policy(rows, rows))
    assert _read(engine, made)[0] == limit
    looked_at = {name for name, _ in bounded_totals.group_totals_statement(made, 1).stages} - {"p0", "p1"}
    assert bool(looked_at) is (limit == 3 or strategy is Strategy.SAMPLE)
    engine.close()


def test_people_of_several_rows_are_counted_once_where_a_tree_proves_the_limits() -> None:
    rows: list[Row] = [(0, 0, 1), (0, 0, 1), (1, 0, 1)]
    tree = UnitJoin(LimitRowsPerUnit(A, 2), LimitRowsPerUnit(B, 2), ((AK, BK),), None, False)
    plan = Aggregate(tree, (AK,), (DistinctUnits(), Count()))
    engine = DuckDB(policy(rows, rows))
    for made in candidate_bounded_plans(plan, ContributionLimits(4, 4, 4), 4):
        bits = [each.bits for each in made.measures]
        ((people, count),) = tuples(engine.read(GroupTotals(made, ((0,),)), 7))
        assert (people >> bits[0], count >> bits[1]) == (2, 5), made.strategy
    engine.close()
