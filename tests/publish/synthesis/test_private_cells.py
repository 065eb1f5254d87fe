"""Cells that are bought: what one unit changes in them, what they cost, and that every outcome is a partition."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from mechanisms.executions import Law, law
from publish.synthesis.clinic import METHODS, RELATIONS, exact_worlds, pairs, policy_of, worlds
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows, MergedCells, RanksOfCells
from sfumato.policy import Domain
from sfumato.publish.marginals.attributes import Attribute, GroupCell, ListedCell, OtherCell, RangeCell
from sfumato.publish.synthesis import private_cells
from sfumato.publish.synthesis.budget import Concentrated, Currency, Pure
from sfumato.publish.synthesis.candidates import NoisyCells
from sfumato.publish.synthesis.private_cells import (
    MAX_BINS,
    MAX_SINGLE_VALUE_CELLS,
    QuantileBins,
    ValueGroups,
    fine_codings,
)
from sfumato.publish.tab_steps import ChooseQuantileCellsStep, MeasureStep, QuantileCells
from sfumato.release.measurement import Measurement
from sfumato.release.prices import Price

AGE = 1
CHANCES = [Fraction(1, 4), Fraction(1, 2)]
CODES = [f"C{number:04d}" for number in range(1200)]
COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "bounds": [0, 120]},
    "height": {"type": "real", "bounds": [100, 220]},
    "born": {"type": "date", "bounds": ["1900-01-01", "2020-12-31"]},
    "rooms": {"type": "integer", "bounds": [1, 9]},
    "code": {"values": CODES},
    "sex": {"values": ["f", "m"]},
}


@cache
def small_table(rows: int = 3000) -> pa.Table:
    generator = np.random.default_rng(5)
    days = [dt.date(1940, 1, 1) + dt.timedelta(days=int(day)) for day in generator.integers(0, 20_000, rows)]
    return pa.table(
        {
            "age": generator.integers(20, 60, rows),
            "height": generator.normal(170, 10, rows).clip(100, 220),
            "born": days,
            "rooms": generator.integers(1, 10, rows),
            "code": [CODES[7] if draw < 0.6 else CODES[int(1200 * draw)] for draw in generator.random(rows)],
            "sex": generator.choice(["f", "m"], rows),
        }
    )


def policy(columns: dict[str, Any] = COLUMNS, rows: int = 3000, **more: Any) -> sf.Policy:
    own = sf.Table("people", small_table(rows), columns, id="row", **more)
    return sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(5, "1e-6"), {"people": own}, size=rows or 1)


@pytest.fixture
def clinic(tmp_path: Path) -> Any:
    with sf.Curator(policy(), tmp_path / "people.ledger") as opened:
        yield opened


# ── privacy ────────────────────────────────────────────────────────────────────────────────────


@cache
def read_worlds(relation: str, units: bool) -> tuple[CellRows, list[CodedRows]]:
    """The reading at a price, and what it reads in each world."""
    policies = [policy_of(each, units=units, relation=relation) for each in worlds(relation, units)]
    proposal, read = exact_worlds(policies, Price(2))
    return proposal.setting(Price(2)).reading, read


def _widest_loss(relation: str, laws: list[Law]) -> float:
    return max(
        abs(math.log(chance / other[outcome]))
        for one, other in pairs(relation, laws)
        for outcome, chance in one.items()
    )


def _divergence(order: int, one: Law, other: Law) -> float:
    return math.log(sum(one[each] * (one[each] / other[each]) ** (order - 1) for each in one)) / (order - 1)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_selected_edges_leak_no_more_than_they_cost_by_enumeration(relation: str, units: bool) -> None:
    """The exact law of a step on all neighbours, a unit with one row too many among them; and a twin that takes a unit
    for one row.
    """
    reading, read = read_worlds(relation, units)
    ranks = RanksOfCells(reading, AGE)
    if relation == "add-remove":  # no step less than a unit has, and none more
        totals = [int(ranks.extract(rows).sum()) for rows in read]
        assert max(abs(one - other) for one, other in pairs(relation, totals)) == ranks.rows_per_unit

    def laws_of(step: ChooseQuantileCellsStep) -> list[Law]:
        return [law(lambda rows=rows: list(step.draw(lambda _: rows).cells)) for rows in read]

    pure, concentrated = Pure(Fraction(1)), Concentrated(Fraction(1, 8))
    step = ChooseQuantileCellsStep(ranks, pure.quantiles(pure.total, ranks, CHANCES))
    assert pure.quantiles_cost(step.mechanism) == 1
    assert 0.1 < _widest_loss(relation, laws_of(step)) <= 1 + 1e-9
    step = ChooseQuantileCellsStep(ranks, concentrated.quantiles(concentrated.total, ranks, CHANCES))
    rho = float(concentrated.quantiles_cost(step.mechanism))
    assert 0.99 * 0.125 <= rho <= 0.125
    for one, other in pairs(relation, laws_of(step)):
        for order in (2, 16):
            assert max(_divergence(order, one, other), _divergence(order, other, one)) <= order * rho
    if units:
        careless = sf.Quantiles(CHANCES, 1, ranks.ends, ranks.rows_per_unit // 8, relation)
        laws = [law(lambda rows=rows: careless.choose_histogram(range(3), ranks.extract(rows))) for rows in read]
        assert _widest_loss(relation, laws) > 1
        with pytest.raises(InvalidParameter, match="rows per unit"):
            Measurement(ranks, careless)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_unit_moves_counts_of_parts_within_the_bound_of_cells(relation: str, units: bool) -> None:
    reading, read = read_worlds(relation, units)
    reading = replace(reading, sets=(*reading.sets, (0, 1, 2)))
    for age_parts in ([0, 0, 1, 2], [0, 1, 1, 2], [0, 0, 0, 1]):
        merged = MergedCells((None, np.array(age_parts), np.array([0, 0, 1])))
        for columns in ((), (1,), (0, 1), (0, 1, 2)):
            view = CellCounts(reading, columns, merged)
            counts = [view.extract(rows) for rows in read]
            whole = [int(CellCounts(reading, ()).extract(rows)[0]) for rows in read]
            assert [int(each.sum()) for each in counts] == whole  # every row is in one part
            for one, other in pairs(relation, counts):
                assert np.abs(one - other).sum() <= view.sensitivity.total
                assert ((one - other) ** 2).sum() <= view.sensitivity.squares


@pytest.mark.parametrize("price", [{"epsilon": 2}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "0.1"}], ids=str)
def test_bought_cells_are_steps_within_the_price(clinic: sf.Curator, price: dict[str, Any]) -> None:
    """The sum of all steps is recomputed from what the ledger has, and cells cost the share that was said before."""
    proposal = clinic.synthesize("people", method="mst", columns=["age", "code", "sex"])
    assert "cells of age, code bought too, for 1/15 of the price" in proposal.question
    assert "1/15 of the price; values within them are drawn evenly" in str(proposal.explain(**price))
    released = proposal.release(**price)
    assert released.verify().holds
    setting = proposal.setting(Price(**price))
    steps = released.steps[1:3]
    assert isinstance(steps[0].mechanism, sf.Quantiles)
    costs = [_cost(setting.currency, each) for each in steps]
    assert all(0.999 * setting.cell_amount <= cost <= setting.cell_amount for cost in costs)
    assert "quantiles 0.0625, 0.125, …, 0.9375" in str(released.receipt)
    assert [each.column for each in released.released.bought_cells] == ["age", "code"]


def _cost(currency: Currency, charged: Any) -> Fraction:
    if charged.sensitivity is None:
        return currency.quantiles_cost(charged.mechanism)
    return currency.noise_cost(charged.mechanism, charged.sensitivity)


def test_a_file_is_verified_with_the_cost_of_its_cells(clinic: sf.Curator) -> None:
    released = clinic.synthesize("people", method="independent", columns=["age", "height", "rooms"]).release(rho="0.1")
    (charge, *_) = released.verify().checks
    assert charge.finding == "ρ = 0.1, from 6 steps"


def test_missing_values_have_no_rank() -> None:
    reading, (rows, *_) = read_worlds("replace", False)
    counts = RanksOfCells(reading, AGE).extract(rows)
    assert counts.tolist() == rows.marginal((AGE,)).tolist()[:3]


def test_an_edited_noise_of_bought_cells_is_noticed(clinic: sf.Curator) -> None:
    released = clinic.synthesize("people", method="independent", columns=["code", "sex"]).release(rho="0.01")
    (bought,) = released.released.bought_cells
    assert bought.noise is not None
    object.__setattr__(bought, "noise", 2 * bought.noise)
    assert not released.verify().holds


# ── every outcome is a partition ───────────────────────────────────────────────────────────────

FINE = Attribute(
    "x", "integer", (*(RangeCell(low, low + 1) for low in range(39)), RangeCell(39, 39, True), OtherCell())
)


@pytest.mark.parametrize(
    ("cells", "starts"),
    [
        ([0] * 15, [0, 1]),
        ([39] * 15, [0, 39]),
        (range(2, 32, 2), [0, *range(2, 32, 2)]),
        ([3, 3, 4, 4, *([9] * 11)], [0, 3, 4, 5, 9, 10]),
        ([], [0]),
    ],
)
def test_edges_wherever_they_are_give_bins(cells: Any, starts: list[int]) -> None:
    """At most as many as planned; a value that is selected several times is a bin by itself."""
    bins = QuantileBins(FINE)
    merged = bins.merge(bins.parts_from(None, QuantileCells(tuple(cells))))  # type: ignore[arg-type]
    assert [cell.low for cell in merged.cells[:-1]] == starts  # type: ignore[union-attr]
    assert merged.cells[-2].high == 39  # type: ignore[union-attr]
    assert merged.size <= MAX_BINS + 1 == bins.merge(bins.worst_case_parts).size


@pytest.mark.parametrize("noise", [Gaussian(10), Laplace(10)])
@pytest.mark.parametrize("groups", [(0,) * 1200, tuple(index // 400 for index in range(1200))])
def test_values_above_the_threshold_have_cells_and_the_others_groups(noise: Any, groups: tuple[int, ...]) -> None:
    own = ValueGroups(Attribute("code", "text", (*map(ListedCell, CODES), OtherCell())), groups)
    step = MeasureStep(None, noise, NoisyCells.from_counts)  # type: ignore[arg-type]
    for frequent in ([], [5], [0, 399, 400, 1199], list(range(300)), list(range(400))):
        counts = np.zeros(1201, np.int64)
        counts[frequent] = 1000
        merged = own.merge(own.parts_from(step, NoisyCells.from_counts(counts)))
        kept = [cell.value for cell in merged.cells if isinstance(cell, ListedCell)]
        assert kept == [CODES[index] for index in frequent[:MAX_SINGLE_VALUE_CELLS]]
        shared = [cell.values for cell in merged.cells if isinstance(cell, GroupCell)]
        assert sorted([*kept, *(value for values in shared for value in values)]) == CODES
        assert len(shared) <= len(set(groups))
        assert merged.size <= own.merge(own.worst_case_parts).size
    counts = np.full(1201, 10 * (6 if isinstance(noise, Laplace) else 3))
    assert own.merge(own.parts_from(step, NoisyCells.from_counts(counts))).size == 1 + len(set(groups))


def test_planned_parts_are_equal_bins_and_are_kept_where_the_release_ends_early(clinic: sf.Curator) -> None:
    seen: list[str] = []

    def interrupt(phase: str) -> None:
        seen.append(phase)
        if phase.startswith("round 1"):
            raise KeyboardInterrupt

    released = clinic.synthesize("people", columns=["age", "sex"]).release(rho="0.01", progress=interrupt)
    assert not released.released.complete
    ages = released.attributes[0]
    assert [cell.low for cell in ages.cells[:3]] == [0, 8, 16]  # type: ignore[union-attr]
    assert released.verify().holds
    assert set(released.sample(50)["age"].to_pylist()) <= set(range(121))


def test_no_rows_and_tiny_prices_give_bins_all_the_same(tmp_path: Path) -> None:
    with sf.Curator(policy(rows=0), tmp_path / "none.ledger") as nobody:
        columns = ["age", "code", "sex"]
        released = nobody.synthesize("people", method="independent", columns=columns).release(rho="1e-6")
        assert released.verify().holds
        assert released.sample(20).num_rows == 20


# ── grids, and what is drawn ───────────────────────────────────────────────────────────────────


def test_grids_cover_the_bounds_and_whole_numbers_have_one_width() -> None:
    columns = {**COLUMNS, "pay": {"type": "integer", "bounds": [0, 999_999]}, "seen": {"type": "timestamp"}}
    grids = fine_codings(policy(columns).tables["people"])
    assert sorted(grids) == ["age", "born", "height", "pay", "rooms"]  # no bounds, no grid
    assert grids["pay"].width == 245
    assert len(grids["pay"].starts) == 4082
    assert len(grids["age"].starts) == 121
    assert grids["born"].end == dt.date(2020, 12, 31)
    for grid, low in ((grids["height"], 100), (grids["pay"], 0)):
        assert grid.cell_index(low) == 0
        assert grid.cell_index(grid.end) == len(grid.starts) - 1


@pytest.mark.parametrize(
    "method", [pytest.param(each, marks=[pytest.mark.long] if each in ("mst", "mwem") else []) for each in METHODS]
)
def test_rows_lie_in_the_cells_they_are_drawn_from(clinic: sf.Curator, method: str) -> None:
    released = clinic.synthesize("people", method=method, ways=2).release(rho="0.1")
    ages, _, _, rooms, codes, _ = released.attributes
    assert ages.size <= MAX_BINS + 1
    assert rooms.size == 10  # few enough to need no purchase
    assert "rooms" not in [each.column for each in released.released.bought_cells]
    rows = released.sample(2000, seed=1)
    assert {*rows["code"].to_pylist()} <= {*CODES, None}
    frequent = Counter(rows["code"].to_pylist())
    assert frequent[CODES[7]] > 1000
    assert len(frequent) > 300  # the others are drawn from their group
    assert any(isinstance(cell, GroupCell) for cell in codes.cells)
    assert 99 < min(filter(None, rows["height"].to_pylist())) <= max(filter(None, rows["height"].to_pylist())) <= 220
    again = sf.Synthetic.from_json(released.to_json())
    assert again.sample(50, seed=3).equals(released.sample(50, seed=3))


def test_questions_of_groups_are_exact_of_values_with_cells_and_bounds_of_others(clinic: sf.Curator) -> None:
    released = clinic.synthesize("people", method="independent", columns=["code", "sex"]).release(rho="0.1")
    own = released.sql(f"SELECT COUNT(*) AS n FROM people WHERE code = '{CODES[7]}'")
    low, high = own.intervals["n"][0] if hasattr(own, "intervals") else own.ranges["n"][0]
    assert 1600 < low < high < 2000
    other = released.sql(f"SELECT COUNT(*) AS n FROM people WHERE code = '{CODES[9]}'")
    assert "perhaps" in str(other)
    assert "one of" in str(other)
    grouped = released.sql("SELECT code, COUNT(*) AS n FROM people GROUP BY code")
    assert any(str(key).startswith("one of") for key, *_ in grouped.rows)
    assert "bin" not in str(grouped)
    fixed = released.sample(30, conditions={"code": CODES[9]})
    assert set(fixed["code"].to_pylist()) == {CODES[9]}


def test_forecasts_and_previews_plan_with_as_many_cells_as_there_may_be(clinic: sf.Curator) -> None:
    proposal = clinic.synthesize("people", method="mst")
    assert [each.size for each in proposal.attributes] == [17, 17, 17, 10, 252, 3]
    assert proposal.forecast(rho="0.1").cells <= 252 * 17 * 4
    preview = proposal.preview(rho="0.1", rows=500)
    assert preview.is_preview
    assert preview.sample(10).num_rows == 10


def test_a_column_without_bounds_is_refused_still(tmp_path: Path) -> None:
    columns = {**COLUMNS, "age": {"type": "integer"}}
    with (
        sf.Curator(policy(columns), tmp_path / "people.ledger") as clinic,
        pytest.raises(Unsupported, match="'age' of 'people' cannot be counted by values or bins"),
    ):
        clinic.synthesize("people")


def test_a_text_decided_by_a_grouped_one_is_modelled(tmp_path: Path) -> None:
    """The policy's mapping is of values, and a group has many: so the decided column is measured, and learned."""
    levels = [CODES[:400], CODES[400:]]
    columns = {
        "code": {"values": CODES, "levels": {"low": levels[0], "high": levels[1]}},
        "half": {"values": ["low", "high"]},
        "sex": COLUMNS["sex"],
    }
    rows = small_table().select(["code", "sex"])
    halves = ["low" if code in levels[0] else "high" for code in rows["code"].to_pylist()]
    own = sf.Table("people", rows.append_column("half", [halves]), columns, id="row", implies={"code": "half"})
    unit, budget = sf.PrivacyUnit("person", every_row=True), sf.Budget(5, "1e-6")
    with sf.Curator(sf.Policy(unit, budget, {"people": own}, size=3000), tmp_path / "people.ledger") as clinic:
        proposal = clinic.synthesize("people", method="mst")
        assert not proposal.derived_columns
        assert "in 2 groups" in str(proposal.explain(rho="0.4"))
        released = proposal.release(rho="0.4")
        groups = [cell.values for cell in released.attributes[0].cells if isinstance(cell, GroupCell)]
        assert all(set(values) <= set(levels[0]) or set(values) <= set(levels[1]) for values in groups)
        drawn = released.sample(500, seed=2)
        kept = {cell.value for cell in released.attributes[0].cells if isinstance(cell, ListedCell)}
        halves_of = {
            (code, half) for code, half in zip(*(drawn[name].to_pylist() for name in ("code", "half")), strict=True)
        }
        assert max(Counter(code for code, _ in halves_of if code in kept).values()) == 1


# ── parts, worked out by hand ──────────────────────────────────────────────────────────────────


def test_grids_divide_the_bounds_by_one_width() -> None:
    whole = private_cells._fine_grid(Domain("integer", bounds=(10, 10 + 4095)))
    assert (whole.starts, whole.end) == (tuple(range(10, 10 + 4096)), 10 + 4095)
    wide = private_cells._fine_grid(Domain("integer", bounds=(10, 10 + 4096)))
    assert (wide.starts, wide.end) == (tuple(range(10, 10 + 4097, 2)), 10 + 4096)
    days = private_cells._fine_grid(Domain("date", bounds=("2024-02-27", "2024-03-01")))
    assert days.starts == (dt.date(2024, 2, 27), dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1))
    assert days.end == dt.date(2024, 3, 1)
    assert len(private_cells._fine_grid(Domain("real", bounds=(0, 1))).starts) == 512


def test_texts_of_many_values_are_those_of_more_than_a_thousand() -> None:
    for values, many in ((1000, False), (1001, True)):
        assert private_cells.has_many_values(Domain("text", values=tuple(map(str, range(values))))) is many
    assert not private_cells.has_many_values(Domain("text"))
    assert not private_cells.has_many_values(Domain("integer", values=tuple(range(1001))))


def test_as_many_cells_may_be_bought_as_there_are_bins_or_values_and_groups() -> None:
    """And one for missing values; none of what the policy bins, of few whole numbers, or of few texts."""
    columns: dict[str, Any] = {
        "age": {"type": "integer", "bounds": [0, 16]},
        "rooms": {"type": "integer", "bounds": [0, 15]},
        "height": {"type": "real", "bounds": [100, 220], "bins": 30},
        "code": {"values": CODES},
        "sex": {"values": ["f", "m"]},
    }
    table = sf.Table("people", small_table(1), columns, id="row")
    assert private_cells.max_bought_cells(table) == {"age": 16 + 1, "code": 250 + 64 + 1}
    del columns["height"]
    assert private_cells.max_bought_cells(sf.Table("people", small_table(1), columns, public=True)) == {}


def test_groups_are_those_of_the_finest_level_with_few_parts() -> None:
    cells = (*(ListedCell(f"v{index}") for index in range(130)), OtherCell())
    fine, coarse = tuple(index // 2 for index in range(130)), tuple(7 - index // 26 for index in range(130))
    both = Attribute("x", "text", cells, ((*fine, 65), (*coarse, 9)))
    assert private_cells._level_groups(both) == tuple(4 - index // 26 for index in range(130))  # 65 parts are too many
    few = Attribute("x", "text", cells, ((*(min(part, 63) for part in fine), 65),))
    assert private_cells._level_groups(few) == tuple(min(part, 63) for part in fine)
    assert private_cells._level_groups(few.without_levels) == (0,) * 130


def test_planned_bins_are_equally_wide_and_planned_values_those_listed_first() -> None:
    planned = QuantileBins(FINE).worst_case_parts
    assert planned.tolist() == [*(cell * 16 // 40 for cell in range(40)), 16]
    own = ValueGroups(Attribute("code", "text", (*map(ListedCell, CODES), OtherCell())), (0,) * 600 + (1,) * 600)
    parts = own.worst_case_parts
    assert parts[:250].tolist() == list(range(250))
    assert {*parts[250:600].tolist()} == {250}
    assert {*parts[600:1200].tolist()} == {251}
    assert parts[1200] == 252


@pytest.mark.parametrize("noise", [Gaussian(10), Laplace(10)])
def test_the_threshold_of_values(noise: Any) -> None:
    """What noise alone reaches in about one of n values: σ·√(2·ln n), or b·ln n."""
    own = ValueGroups(Attribute("code", "text", (*map(ListedCell, CODES), OtherCell())), (0,) * 1200)
    step = MeasureStep(None, noise, NoisyCells.from_counts)  # type: ignore[arg-type]
    threshold = 10 * (math.log(1200) if isinstance(noise, Laplace) else math.sqrt(2 * math.log(1200)))
    counts = np.zeros(1201, np.int64)
    counts[[3, 8, 9]] = math.floor(threshold), math.ceil(threshold), 10**6
    counts[1200] = 10**6  # what is missing has a cell of its own in any case
    parts = own.parts_from(step, NoisyCells.from_counts(counts))
    assert (parts[8], parts[9], parts[1200]) == (0, 1, 3)
    assert {*np.delete(parts, [8, 9, 1200]).tolist()} == {2}
