"""Cells that are bought for linked tables: once each, inside the price, and the same wherever a column is repeated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from publish.linked.worlds import (
    LIMIT,
    UNCODED_PATIENTS,
    UNCODED_VISITS,
    clinic_policy,
    clinic_worlds,
    curator,
    exact_worlds,
    pairs,
    people,
)
from publish.synthesis.test_canaries import _likelier
from sfumato.curator.proposals.linked_tables import LinkedTablesProposal
from sfumato.curator.proposals.synthesis_series import run_steps
from sfumato.plan.readings.cell_rows import CellCounts, CodedRows
from sfumato.publish.links import LinkedState
from sfumato.publish.marginals.attributes import GroupCell, RangeCell
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.synthesis.private_cells import MAX_BINS, MAX_SINGLE_VALUE_CELLS
from sfumato.publish.synthesis.released import BoughtCells
from sfumato.publish.tab_steps import ChooseQuantileCellsStep
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
TABLES = ["patients", "visits"]
COLUMNS = UNCODED_PATIENTS, UNCODED_VISITS
OPTIONS: dict[str, Any] = {"order": "day", "given": ["age"], "ways": 2}
PRICE = Price(2)
REPEATED = {"patients.age": ("patients", "age"), "previous day": ("visits", "day")}


def uncoded_policy(world: Any, relation: str = "add-remove") -> sf.Policy:
    return clinic_policy(world, relation, columns=COLUMNS)


@cache
def read_worlds(relation: str) -> tuple[LinkedTablesProposal, list[tuple[CodedRows, ...]]]:
    """The proposal, and what it reads of both tables in each of the worlds."""
    policies = [uncoded_policy(world, relation) for world in clinic_worlds(relation)]
    return exact_worlds(policies, PRICE, TABLES, **OPTIONS)


def release(proposal: LinkedTablesProposal, exact: Any, price: Price) -> tuple[LinkedState, list[tuple[str, Any, Any]]]:
    """Run all steps on exact rows; return the table, the step and the outcome of each."""
    state, released = proposal._start_state(price), []
    tables = {part.setting.reading: table for table, part in state.states.items()}
    rows = dict(zip(TABLES, exact, strict=True))

    def run(step: Any) -> Any:
        table = tables[step.readings[0]]
        outcome = step.draw(lambda reading: rows[tables[reading]])
        released.append((table, step, outcome))
        return outcome

    run_steps(state.steps(aim), run)
    state.finish()
    return state, released


def attribute(state: LinkedState, table: str, name: str) -> Any:
    return next(each for each in state.states[table].setting.attributes if each.name == name)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_release_with_bought_cells_leaks_no_more_than_its_price(relation: str) -> None:
    """On neighbours beyond all limits, with orphans: what the steps that select quantiles count moves by the rows they
    are charged for, and all other steps of one release together are likelier by at most the rest of the price.
    """
    proposal, exact = read_worlds(relation)
    for one, other in pairs(relation, exact)[-3:]:
        state, released = release(proposal, other, PRICE)
        selecting = [step for _, step, _ in released if isinstance(step, ChooseQuantileCellsStep)]
        names = [cells.column for part in state.states.values() for cells in part.bought_cells]
        assert names == ["age", "ward", "day"]
        unit_values = [part.setting.unit_value for part in state.states.values()]
        charged_rows = [step.ranks.rows_per_unit * value for step, value in zip(selecting, unit_values, strict=True)]
        assert charged_rows == [1, LIMIT]
        loss, spent = 0.0, Fraction(0)
        for table, step, outcome in released:
            rows = [worlds_rows[TABLES.index(table)] for worlds_rows in (one, other)]
            if isinstance(step, ChooseQuantileCellsStep):
                spent += state.states[table].setting.currency.quantiles_cost(step.mechanism)
                counts = [step.ranks.extract(each).astype(int) for each in rows]
                moved = np.abs(counts[0] - counts[1]).sum()
                assert moved <= step.ranks.rows_per_unit * (2 if relation == "replace" else 1)
            else:
                loss += _likelier(step, outcome, *rows)
        assert abs(loss) <= float(PRICE.epsilon - spent) + 1e-9
        assert sum(part.budget.spent for part in state.states.values()) == PRICE.epsilon


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_unit_moves_counts_of_bought_cells_within_its_limit(relation: str) -> None:
    """In every pair of columns of both tables, with the cells that one release bought."""
    proposal, exact = read_worlds(relation)
    state, _ = release(proposal, exact[-1], PRICE)
    largest = []
    for table, part in state.states.items():
        setting = part.setting
        sets = [(first, second) for second in range(len(setting.sizes)) for first in range(second)]
        reading = replace(setting.reading, sets=tuple(sets))
        views = [CellCounts(reading, places, setting.merged_cells) for places in sets]
        counts = [[view.extract(rows[TABLES.index(table)]) for view in views] for rows in exact]
        most = 0
        for one, other in pairs(relation, counts):
            for before, after, view in zip(one, other, views, strict=True):
                moved = np.abs(before - after)
                assert moved.sum() <= view.sensitivity.total
                assert (moved**2).sum() <= view.sensitivity.squares
                most = max(most, int(moved.sum()))
        largest.append(most * setting.unit_value)
    factor = 2 if relation == "replace" else 1
    assert largest == [factor, LIMIT * factor]


def test_repeated_columns_have_the_cells_that_were_bought_once() -> None:
    """Ages of patients beside visits, and the previous day, have the bins of ages and of days, at no price."""
    proposal, (exact,) = exact_worlds([uncoded_policy(people(3, 200))], Price(20), TABLES, **OPTIONS)
    assert proposal.first_link.conditioning_columns[1:] == ("patients.age", "previous day")
    state, released = release(proposal, exact, Price(20))
    bought = [cells for part in state.states.values() for cells in part.bought_cells]
    assert [type(cells) for cells in bought] == [BoughtCells] * 3
    assert sum(isinstance(step, ChooseQuantileCellsStep) for _, step, _ in released) == 2
    for name, (table, source) in REPEATED.items():
        cells = attribute(state, table, source).cells
        assert attribute(state, "visits", name).cells == cells
        assert all(isinstance(cell, RangeCell) for cell in cells[:-1])
        assert 2 < len(cells) <= MAX_BINS + 1
        planned = proposal.parts[table].attributes
        assert next(each for each in planned if each.name == source).cells != cells  # not those that were planned
    wards = attribute(state, "visits", "ward").cells[:-1]
    assert {"A", "B"} <= {getattr(cell, "value", None) for cell in wards}
    assert sum(isinstance(cell, GroupCell) for cell in wards) == 1
    assert len(wards) <= MAX_SINGLE_VALUE_CELLS + 1


def test_tables_with_bought_cells_are_released_and_drawn(tmp_path: Path) -> None:
    """The price is kept, drawn rows are in order and in the bounds, and wards still depend on the sex."""
    with curator(tmp_path, uncoded_policy(people(4, 400))) as clinic:
        proposal = clinic.synthesize(TABLES, order="day", given=["sex"])
        assert "cells of age bought too" in proposal.question
        assert "cells of ward, day bought too" in proposal.question
        assert "quantiles among 100 public cells" in str(proposal.explain(epsilon=30))
        assert proposal.preview(epsilon=30, rows=50).child.total > 0
        tables = proposal.release(epsilon=30)
        assert all(check.holds for check in tables.verify().checks)
        assert clinic._context.account.spent["pure"] == 30
    rows = tables.to_pandas(2000)
    visits = rows["visits"].merge(rows["patients"], on="who")
    assert visits.groupby("who").day.apply(lambda days: days.dropna().is_monotonic_increasing).all()
    assert visits.day.dropna().between(0, 29).all()
    assert rows["patients"].age.dropna().between(0, 99).all()
    assert visits.day.nunique() > 20
    assert (visits[visits.sex == "f"].ward == "A").mean() > 0.7
    assert (visits[visits.sex == "m"].ward == "B").mean() > 0.5
    again = sf.SyntheticTables.from_json(tables.to_json())
    assert again.child.attributes == tables.child.attributes
    answer = again.sql("SELECT COUNT(*) AS n FROM visits v JOIN patients p ON v.who = p.who WHERE p.sex = 'f'")
    assert answer.rows[0][0] > 100
