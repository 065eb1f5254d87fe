"""Marginals and values are what plain Python finds in the rows; one unit moves them no further than derived."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.refilling import refill
from engine.tables import policy_of
from sfumato.engine import arrays
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering.reading_statements import arrays_from_rows, server_statement
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Count, Sum
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.dense_readings import MAX_CELLS, Marginal, Marginals, ValueCounts
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column
from sfumato.plan.values.functions import call
from sfumato.policy import Policy, Table, Type
from sfumato.privacy import Neighbours

COLUMNS = {
    "sex": {"values": ["f", "m"]},
    "ward": {"type": "integer", "values": [1, 2, 3]},
    "smokes": {"type": "boolean"},
    "age": {"type": "integer", "bounds": [0, 5], "nullable": True},
}
CELLS = (("f", "m"), (1, 2, 3), (False, True))
SETS = ((), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))
STORED = {"who": pa.int64(), "sex": pa.string(), "ward": pa.int64(), "smokes": pa.bool_(), "age": pa.int64()}
Row = tuple[Any, ...]


def rows(seed: int, units: int = 8) -> list[Row]:
    """Units with one to nine rows, values missing and undeclared among them."""
    draw = random.Random(seed)
    return [
        (
            unit,
            draw.choice(["f", "m", "x", None]),
            draw.choice([1, 2, 3, 4, None]),
            draw.choice([False, True, None]),
            draw.choice([-7, 0, 1, 2, 5, 99, None]),
        )
        for unit in range(units)
        for _ in range(draw.randint(1, 9))
    ]


def engine(found: list[Row], *, units: bool) -> DuckDB:
    return DuckDB(declared(found, units=units))


def declared(found: list[Row], *, units: bool) -> Policy:
    columns = list(zip(*found, strict=True)) if found else [[]] * 5
    table = pa.table({name: pa.array(cells, kind) for (name, kind), cells in zip(STORED.items(), columns, strict=True)})
    limits = {"max_rows": 3, "max_groups": 2} if units else {}
    return policy_of(Table("t", table, COLUMNS, id="who" if units else "row", **limits))


def bounded(opened: DuckDB, strategy: Strategy, names: tuple[str, ...], measures: Any, groups: int = 48) -> BoundedPlan:
    """The plan with these columns as keys, under which every row counts."""
    source = parse("SELECT COUNT(*) FROM t", opened.catalog()).plan.source
    fields = {field.name: Column(field, replace(domain, nullable=True)) for field, domain in source.columns.items()}
    plan = Aggregate(source, tuple(fields[name] for name in names), measures(fields))
    table = opened._policy.tables["t"]
    return next(
        each
        for each in candidate_bounded_plans(plan, ContributionLimits.from_table(table), groups)
        if each.strategy is strategy
    )


@cache
def marginals(strategy: Strategy) -> Marginals:
    """The plan is the same whatever the rows are."""
    with closing(engine([], units=strategy is not Strategy.WHOLE)) as opened:
        return Marginals(bounded(opened, strategy, ("sex", "ward", "smokes"), lambda _: (Count(),)), CELLS, SETS)


_opened = cache(lambda units: engine([], units=units))


def read(found: list[Row], strategy: Strategy, key: int = 7) -> tuple[np.ndarray, ...]:
    units = strategy is not Strategy.WHOLE
    return refill(_opened(units), declared(found, units=units)).read(marginals(strategy), key)


FEWER_CELLS = [((0,), (1,)), ((), (2,)), ((0, 2), (1,)), ((0, 1),)]
"""Sets of marginals whose cells are fewer than the combinations of all columns, some of which no set names."""


@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.REWEIGHT, Strategy.SAMPLE])
@pytest.mark.parametrize("sets", FEWER_CELLS)
def test_a_server_adds_up_each_marginal_and_sends_no_more_rows_than_cells(
    strategy: Strategy, sets: tuple[tuple[int, ...], ...]
) -> None:
    reading = replace(marginals(strategy), sets=sets)
    assert reading.counts_set_by_set
    assert not marginals(strategy).counts_set_by_set
    with closing(engine(rows(3), units=strategy is not Strategy.WHOLE)) as opened:
        exact = opened.read(reading, 7)
        sent = opened.sources.run(opened._render(server_statement(reading, 7)))
    assert len(sent) <= reading.cell_count
    assert sum(cells.sum() for cells in exact) > 0
    for cells, added_up in zip(exact, arrays_from_rows(sent, reading), strict=True):  # type: ignore[call-overload]
        assert np.array_equal(cells, added_up)


def _cell(value: Any, cells: tuple[Any, ...]) -> int:
    return next((i for i, cell in enumerate(cells) if cell == value and type(cell) is type(value)), len(cells))


def _expected(found: list[Row], weight: dict[Any, int]) -> list[np.ndarray]:
    made = []
    for attributes in SETS:
        cells = np.zeros([len(CELLS[place]) + 1 for place in attributes], np.int64)
        for who, *row in found:
            cells[tuple(_cell(row[place], CELLS[place]) for place in attributes)] += weight.get(who, 1)
        made.append(cells)
    return made


@pytest.mark.parametrize("seed", range(4))
def test_every_marginal_counts_every_row_in_one_cell(seed: int) -> None:
    found = rows(seed)
    got = read(found, Strategy.WHOLE)
    assert [each.shape for each in got] == [tuple(len(CELLS[place]) + 1 for place in each) for each in SETS]
    for mine, expected in zip(got, _expected(found, {}), strict=True):
        assert mine.dtype == np.int64
        assert np.array_equal(mine, expected)
    assert {int(each.sum()) for each in got} == {len(found)}


@pytest.mark.parametrize("batch", [1, 3, 1 << 19])
def test_rows_are_counted_as_they_arrive_where_combinations_are_many(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(5)
    added_up = {strategy: read(found, strategy) for strategy in (Strategy.WHOLE, Strategy.REWEIGHT)}
    monkeypatch.setattr("sfumato.plan.readings.dense_readings._MAX_GROUPED", 1)
    monkeypatch.setattr(arrays, "KEYED_BATCH", batch)
    statements: list[str] = []
    stream = Sources.stream
    monkeypatch.setattr(
        Sources, "stream", lambda self, text, *more: statements.append(text) or stream(self, text, *more)
    )
    for strategy, expected in added_up.items():
        for mine, other in zip(read(found, strategy), expected, strict=True):
            assert np.array_equal(mine, other)
    assert ["GROUP BY" in each for each in statements] == [False, True]
    assert [int(each.sum()) for each in read([], Strategy.WHOLE)] == [0] * len(SETS)


def test_batches_of_many_keys_have_fewer_rows() -> None:
    rows_of_keys = {
        count: arrays.keyed_batch_rows(SimpleNamespace(cells=[(1,)] * count))  # type: ignore[arg-type]
        for count in (0, 1, 4, 14, 100, 10**7)
    }
    assert rows_of_keys[0] == rows_of_keys[1] == rows_of_keys[4] == arrays.KEYED_BATCH
    assert all(rows * count <= arrays.MAX_BATCH_CELLS for count, rows in rows_of_keys.items() if count < 10**7)
    assert rows_of_keys[100] > 10_000
    assert rows_of_keys[10**7] == 1


LARGEST = 2**63 - 1


@pytest.mark.parametrize("listed", [[4, -2, 9], [0], [LARGEST // 4, 3], [-5, 10**6 - 6], [-5, 10**7]])
def test_whole_numbers_are_found_in_their_cells(listed: list[int]) -> None:
    cells = arrays._CellLookup(listed, Type.INTEGER)
    around = {each + step for each in listed for step in (-2, -1, 0, 1, 2)}
    values = [*sorted(around), None, -LARGEST - 1, LARGEST, 7]
    wanted = [listed.index(each) if each in listed else len(listed) for each in values]
    assert cells.cell_index(pa.array(values, pa.int64())).tolist() == wanted


@pytest.mark.parametrize("seed", range(4))
def test_marginals_of_weighted_rows_share_one_weight_per_unit(seed: int) -> None:
    found = rows(seed)
    bits = marginals(Strategy.REWEIGHT).bounded.measures[0].bits
    held = Counter(who for who, *_ in found)
    weight = {who: (3 << bits) // max(3, count) for who, count in held.items()}
    for mine, expected in zip(read(found, Strategy.REWEIGHT), _expected(found, weight), strict=True):
        assert np.array_equal(mine, expected)


def test_no_rows_make_zeros() -> None:
    assert [int(np.abs(each).sum()) for each in read([], Strategy.WHOLE)] == [0] * len(SETS)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("strategy", [Strategy.REWEIGHT, Strategy.SAMPLE, Strategy.WHOLE])
def test_one_unit_moves_no_marginal_further_than_derived(strategy: Strategy, relation: Neighbours) -> None:
    """Units of up to 40 rows, all in one cell or spread: every marginal, every norm."""
    draw, worst = random.Random(5), 0.0
    for round_ in range(3):
        others = rows(round_, 4)
        mine = [(9, draw.choice("fm"), draw.choice([1, 2, 9]), draw.choice([True, None]), 1) for _ in range(40)]
        lone = [(9, "f", 1, True, 1)] * (1 if strategy is Strategy.WHOLE else 4 + round_)
        new = lone if strategy is Strategy.WHOLE or round_ % 2 else mine
        old = [] if relation is Neighbours.ADD_REMOVE else [(9, "m", 2, False, 1)] * len(lone)
        with_it, without = (read(others + each, strategy) for each in (new, old))
        reading = marginals(strategy)
        reading = replace(reading, bounded=for_neighbours(reading.bounded, relation))
        for index, (a, b) in enumerate(zip(with_it, without, strict=True)):
            change, most = np.abs(a - b), Marginal(reading, index).sensitivity
            assert change.sum() <= most.total
            assert change.max() <= most.per_group
            assert (change**2).sum() <= most.squares
            assert most.neighbours is relation
            worst = max(worst, float(change.sum() / most.total))
    assert worst > 0.99  # and the bound is reached


@pytest.mark.parametrize("strategy", [Strategy.WHOLE, Strategy.SAMPLE])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_counted_in_order(strategy: Strategy, seed: int) -> None:
    found = rows(seed)
    opened = engine(found, units=strategy is Strategy.SAMPLE)
    groups = (("f",), ("m",), (None,))

    def measures(fields: Any) -> tuple[Any, ...]:
        return Sum(fields["age"]), Count(call("NOT", call("IS NULL", fields["age"])))

    reading = ValueCounts(bounded(opened, strategy, ("sex",), measures, 3), groups)
    got = opened.read(reading, 7)
    listed = list(zip(got.group.tolist(), got.steps.tolist(), strict=True))
    assert listed == sorted(set(listed))
    assert got.counts.min() >= 1
    kept = _kept(found) if strategy is Strategy.SAMPLE else None
    expected: Counter[tuple[int, int]] = Counter()
    for who, sex, _, _, age in found:
        if age is not None and (kept is None or who in kept):
            expected[_cell(sex, ("f", "m")), min(max(age, 0), 5)] += 1
    counted = Counter(dict(zip(listed, got.counts.tolist(), strict=True)))
    if kept is None:
        assert counted == expected
        return
    assert all(counted[each] >= count for each, count in expected.items())  # units within their limits are whole
    assert sum(counted.values()) <= sum(expected.values()) + 3 * (len({who for who, *_ in found}) - len(kept))


def _kept(found: list[Row]) -> set[int]:
    """The units that are within all limits."""
    held = {who: [row for row in found if row[0] == who] for who, *_ in found}
    told = {who: {_cell(row[1], ("f", "m")) for row in own} for who, own in held.items()}
    return {who for who, own in held.items() if len(own) <= 3 and len(told[who]) <= 2}


@pytest.mark.parametrize(("limit", "waiting"), [(50, 1), (1 << 21, 1), (1 << 21, 10**6), (1 << 40, 700)])
def test_numbers_are_counted_as_they_arrive(limit: int, waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cells, or many; merged after every batch, or once."""
    monkeypatch.setattr(arrays, "_MAX_WAITING", waiting)
    draw = np.random.default_rng(3)
    counts, every = arrays._IntegerMultiset(limit), []
    for size in (0, 1, 500, 3, 800, 0):
        every.append(draw.integers(limit - 50, limit, size))
        counts.add(every[-1])
    numbers, many = counts.sorted_counts()
    expected = np.unique(np.concatenate(every), return_counts=True)
    assert np.array_equal(numbers, expected[0])
    assert np.array_equal(many, expected[1])
    nothing = arrays._IntegerMultiset(limit).sorted_counts()
    assert [each.size for each in nothing] == [0, 0]


@pytest.mark.parametrize("left_out", [1, 2, 5])
def test_groups_of_several_keys_are_found(left_out: int) -> None:
    found = rows(11, 20)
    opened = engine(found, units=False)
    groups = tuple(itertools.product(("f", "m"), (1, 2, 3), (True, None)))[::left_out]

    def measures(fields: Any) -> tuple[Any, ...]:
        return Sum(fields["age"]), Count(call("NOT", call("IS NULL", fields["age"])))

    read = opened.read(ValueCounts(bounded(opened, Strategy.WHOLE, ("sex", "ward", "smokes"), measures), groups), 7)
    expected = Counter(
        (groups.index((sex, ward, smokes)), min(max(age, 0), 5))
        for _, sex, ward, smokes, age in found
        if age is not None and (sex, ward, smokes) in groups
    )
    listed = zip(read.group.tolist(), read.steps.tolist(), read.counts.tolist(), strict=True)
    assert {(group, step): count for group, step, count in listed} == expected


@pytest.mark.parametrize("relation", list(Neighbours))
def test_one_unit_moves_no_more_values_than_its_limits_allow(relation: Neighbours) -> None:
    def measures(fields: Any) -> tuple[Any, ...]:
        return Sum(fields["age"]), Count(call("NOT", call("IS NULL", fields["age"])))

    opened = engine([], units=True)
    reading = ValueCounts(bounded(opened, Strategy.SAMPLE, ("sex",), measures, 3), (("f",), ("m",), (None,)))
    stated = for_neighbours(reading.bounded, relation).measures[1].sensitivity
    for seed, ages in itertools.product(range(2), ([5] * 9, list(range(6)) * 2, [None] * 9)):
        others = rows(seed, 4)
        sides = []
        for own in ([(9, "f", 1, True, age) for age in ages], [(9, "m", 1, True, 0)] * 9):
            found = others + (own if relation is Neighbours.REPLACE or not sides else [])
            got = refill(opened, declared(found, units=True)).read(reading, 3)
            sides.append(Counter(dict(zip(zip(got.group, got.steps, strict=True), got.counts.tolist(), strict=True))))
        moved = sum((sides[0] - sides[1]).values()) + sum((sides[1] - sides[0]).values())
        assert moved <= stated.total
    opened.close()


@pytest.mark.parametrize(
    "change",
    [
        {"cells": CELLS[:2]},
        {"cells": (("f", "f"), *CELLS[1:])},
        {"cells": (("f", None), *CELLS[1:])},
        {"cells": ((), *CELLS[1:])},
        {"sets": ()},
        {"sets": ((0, 0),)},
        {"sets": ((1, 0),)},
        {"sets": ((3,),)},
        {"sets": ((0,), (0,))},
        {"cells": (tuple(map(str, range(3_000))), tuple(range(4_000)), (True,)), "sets": ((0, 1),)},
    ],
)
def test_marginals_that_cannot_be_read_are_refused(change: dict[str, Any]) -> None:
    good = marginals(Strategy.WHOLE)
    with pytest.raises(InvalidParameter):
        replace(good, **change)
    assert MAX_CELLS < 3_001 * 4_001


def test_clipped_rows_are_refused() -> None:
    """What is clipped in fine cells is not clipped in coarse ones: the limit of a coarse marginal would not hold."""
    opened = engine(rows(1), units=True)
    clipped = bounded(opened, Strategy.CLIP_L1, ("sex", "ward", "smokes"), lambda _: (Count(),))
    with pytest.raises(InvalidParameter, match="the strategy whole, reweight or sample"):
        Marginals(clipped, CELLS, SETS)
    with pytest.raises(InvalidParameter, match="a plan with the strategy whole or sample"):
        ValueCounts(replace(clipped, measures=clipped.measures * 2), ())
