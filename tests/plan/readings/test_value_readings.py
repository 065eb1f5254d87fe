"""How many different values one unit can have: a sample of pairs keeps no more; and pairs that are matched to units."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from itertools import combinations, product
from random import Random

import numpy as np
import pytest

from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings import dense_readings
from sfumato.plan.readings.dense_readings import match_values_to_units, pair_limits, possible_value_count
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type

DAY = dt.date(2024, 2, 28)
VALUES = Field(0, "visits", "value")


@pytest.mark.parametrize(
    ("domain", "most"),
    [
        (Domain(Type.TEXT, values=("a", "b", "c")), 3),
        (Domain(Type.INTEGER, values=(4,)), 1),
        (Domain(Type.BOOLEAN), 2),
        (Domain(Type.INTEGER, bounds=(0, 4)), 5),
        (Domain(Type.INTEGER, bounds=(-3, -3)), 1),
        (Domain(Type.DATE, bounds=(DAY, dt.date(2024, 3, 1))), 3),
        (Domain(Type.REAL, bounds=(0, 1)), 9),
        (Domain(Type.TEXT), 9),
        (Domain(Type.INTEGER, bounds=(0, 8)), 9),
        (Domain(Type.INTEGER, bounds=(0, 100)), 9),
    ],
    ids=str,
)
def test_pairs_are_limited_by_the_values_there_can_be(domain: Domain, most: int) -> None:
    limits = ContributionLimits(rows=20, groups=2, rows_per_group=9)
    assert pair_limits(limits, Column(VALUES, domain)).rows_per_group == most


def _column(name: str, domain: Domain) -> Expression:
    return Column(Field(0, "visits", name), domain)


def test_the_values_of_an_expression_are_those_of_its_columns_together() -> None:
    towns, days = Domain(Type.TEXT, values=("a", "b", "c")), Domain(Type.INTEGER, bounds=(1, 5))
    town, day = _column("town", towns), _column("day", days)
    assert possible_value_count(town) == 3
    assert possible_value_count(call("||", town, town)) == 3
    assert possible_value_count(call("||", town, _column("to", towns))) == 9
    assert possible_value_count(call("||", town, _column("note", Domain(Type.TEXT)))) is None
    assert possible_value_count(_column("note", Domain(Type.TEXT))) is None
    assert possible_value_count(call("=", town, call("||", town, town))) == 2
    assert possible_value_count(day) == 5


World = tuple[int | None, ...]
"""For each unit the set of its pairs, as bits; None where there is no such unit."""
Counts = tuple[int, int]
GROUPS = (0, 0, 1, 1)
"""The group of each pair."""


def _members(world: World) -> Iterator[tuple[int, int]]:
    return (
        (unit, pair) for unit, held in enumerate(world) if held is not None for pair in range(4) if held >> pair & 1
    )


def _matched(world: World, max_values: int) -> Counts:
    rows = np.array([*_members(world)], np.int64).reshape(-1, 2)
    kept = rows[match_values_to_units(rows[:, 0], rows[:, 1], max_values), 1]
    assert len(set(kept.tolist())) == len(kept), "a value counts once"
    in_second = sum(GROUPS[pair] for pair in kept.tolist())
    return len(kept) - in_second, in_second


def _rarest_first(world: World, max_values: int) -> Counts:
    """A broken twin: each unit takes the values first that fewest units have."""
    holders = [sum(held is not None and held >> pair & 1 for held in world) for pair in range(4)]
    taken: set[int] = set()
    for held in (held for held in world if held is not None):
        free = [pair for pair in range(4) if held >> pair & 1 and pair not in taken]
        taken |= set(sorted(free, key=lambda pair: (holders[pair], pair))[:max_values])
    in_second = sum(GROUPS[pair] for pair in taken)
    return len(taken) - in_second, in_second


def _moves(count: Callable[[World, int], Counts], units: int, pairs: int, max_values: int) -> dict[str, set[Counts]]:
    """Count every world of so many units and pairs; return by how much two that are neighbours differ."""
    subsets = range(1 << pairs)
    counted = {world: count(world, max_values) for world in product((None, *subsets), repeat=units)}
    added, replaced = set(), set()
    for world, after in counted.items():
        for unit in (unit for unit in range(units) if world[unit] is not None):
            before = counted[(*world[:unit], None, *world[unit + 1 :])]
            added.add((after[0] - before[0], after[1] - before[1]))
            others = (counted[(*world[:unit], other, *world[unit + 1 :])] for other in subsets)
            replaced |= {(after[0] - other[0], after[1] - other[1]) for other in others}
    return {"added": added, "replaced": replaced}


@pytest.mark.parametrize(("units", "pairs", "max_values"), [(3, 4, 1), (3, 4, 2), (4, 3, 1), (4, 3, 2)])
def test_a_unit_adds_at_most_as_many_values_as_are_matched_to_it(units: int, pairs: int, max_values: int) -> None:
    """Every world of a few units: one that comes takes nothing away and adds at most the limit in all groups together,
    and one that is replaced moves each group by at most that. Both are reached.
    """
    moves = _moves(_matched, units, pairs, max_values)
    assert min(min(move) for move in moves["added"]) == 0
    assert max(map(sum, moves["added"])) == max_values
    assert max(max(map(abs, move)) for move in moves["replaced"]) == max_values
    most = 2 * max_values if pairs == 4 else max_values + 1  # the second group has one pair of the three
    assert max(sum(map(abs, move)) for move in moves["replaced"]) == most
    assert max(abs(sum(move)) for move in moves["replaced"]) == max_values, "without groups it is the limit itself"


def test_an_order_that_others_decide_is_noticed() -> None:
    moves = _moves(_rarest_first, 3, 4, 1)
    assert max(sum(map(abs, move)) for move in moves["added"]) > 1
    assert min(map(min, moves["added"])) < 0


def _largest_union(world: World, max_values: int) -> int:
    kept = [
        [
            set(part)
            for size in range(max_values + 1)
            for part in combinations([p for p in range(4) if held >> p & 1], size)
        ]
        for held in world
        if held is not None
    ]
    return max(len(set().union(*choice)) for choice in product(*kept))


@pytest.mark.parametrize("max_values", [1, 2])
def test_at_least_half_of_the_largest_union_is_matched(max_values: int) -> None:
    random = Random(max_values)
    for _ in range(200):
        world = tuple(random.randrange(16) for _ in range(4))
        assert _largest_union(world, max_values) <= 2 * sum(_matched(world, max_values))


def test_where_nobody_has_more_than_the_limit_every_value_counts() -> None:
    for world in product(range(16), repeat=3):
        assert sum(_matched(world, 4)) == (world[0] | world[1] | world[2]).bit_count()


def test_rows_are_matched_in_any_order_and_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    rows = np.unique(random.integers(0, 40, (300, 2)) * [3, 7], axis=0)
    whole = {tuple(row) for row in rows[match_values_to_units(rows[:, 0], rows[:, 1], 2)].tolist()}
    monkeypatch.setattr(dense_readings, "_MATCHED_ROWS", 3)
    random.shuffle(rows)
    assert {tuple(row) for row in rows[match_values_to_units(rows[:, 0], rows[:, 1], 2)].tolist()} == whole
    assert max(sum(unit == other for other, _ in whole) for unit, _ in whole) == 2
