"""What one unit moves in the marginals of two linked tables, exactly, and that both together are one vector."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from publish.linked.worlds import (
    LIMIT,
    PARENTS,
    RELATIONS,
    clinic_policy,
    clinic_worlds,
    counts_of_worlds,
    exact_counts,
    pairs,
    people,
    pharmacy_policy,
    pharmacy_worlds,
)
from sfumato.curator.proposals.linked_tables import backward_cells, split_price
from sfumato.curator.proposals.synthesis_series import run_steps
from sfumato.plan.readings.cell_rows import CellCounts, CellRows
from sfumato.publish.synthesis.budget import noise_scale
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.tab_steps import MeasureStep
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
PRICE = Price(2)
CASES: dict[str, tuple[Any, Any, list[str], dict[str, Any], tuple[int, int]]] = {
    "by the unit, in an order": (clinic_policy, clinic_worlds, ["patients", "visits"], {"order": "day"}, (1, LIMIT)),
    "by a key": (pharmacy_policy, pharmacy_worlds, ["visits", "drugs"], {}, (PARENTS, LIMIT)),
}


def _marginals(reading: CellRows, rows: Any) -> list[Any]:
    columns = len(reading.cells)
    sets = [places for count in (0, 1, 2) for places in itertools.combinations(range(columns), count)]
    every = replace(reading, sets=(*sets, tuple(range(columns))))
    return [CellCounts(every, places).extract(rows) for places in every.sets]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("case", CASES)
def test_one_unit_moves_all_marginals_of_both_tables_within_its_limits(case: str, relation: str) -> None:
    """On every pair of neighbours, each marginal moves by what it is charged for, and the scaled vector of one marginal
    of each table by the sum; some neighbours attain the bound of each table.
    """
    policy_of, worlds, tables, options, limits = CASES[case]
    policies = [policy_of(world, relation) for world in worlds(relation)]
    proposal, found = counts_of_worlds(policies, PRICE, tables, **options)
    prices = split_price(PRICE)
    parts = [proposal.parent.setting(prices[0]), proposal.child.setting(prices[1])]
    factor = 2 if relation == "replace" else 1
    most = [Fraction(0), Fraction(0)]
    for number, (setting, limit) in enumerate(zip(parts, limits, strict=True)):
        sensitivity = CellCounts(setting.reading, (0,)).sensitivity
        assert sensitivity.total * setting.unit_value == limit * factor
        counts = [_marginals(setting.reading, rows[number]) for rows in found]
        for one, other in pairs(relation, counts):
            for before, after in zip(one, other, strict=True):
                moved = np.abs(before - after)
                assert moved.sum() <= sensitivity.total
                assert (moved**2).sum() <= sensitivity.squares
                most[number] = max(most[number], Fraction(int(moved.sum())) * setting.unit_value)
    assert most == [limit * factor for limit in limits]


def test_the_number_of_children_is_counted_before_any_is_left_out() -> None:
    """Patient 7 has 20 visits, of which 3 count: in both tables their number is in the top band."""
    world: Any = ([(7, "f", 30)], [(7, "A", day) for day in range(20)])
    proposal, exact = exact_counts(clinic_policy(world), PRICE, ["patients", "visits"])
    assert proposal.link.band_labels == ("0", "1", "2", f"{LIMIT} or more")
    for part, rows, counted in zip((proposal.parent, proposal.child), exact, (1, LIMIT), strict=True):
        place = [attribute.name for attribute in part.attributes].index(proposal.link.count_column)
        cells = [getattr(cell, "value", None) for cell in part.attributes[place].cells]
        totals = rows.marginal((place,)) * part.setting(PRICE).unit_value
        assert totals[cells.index(f"{LIMIT} or more")] == totals.sum() == counted


def test_consecutive_rows_are_paired_before_any_is_left_out() -> None:
    """A patient's wards alternate over 40 days: no visit follows one in the same ward, whichever rows count."""
    visits = [(7, "AB"[day % 2], day % 30) for day in range(30)]
    proposal, (_, children) = exact_counts(
        clinic_policy(([(7, "f", 30)], visits)), PRICE, ["patients", "visits"], order="day"
    )
    names = [attribute.name for attribute in proposal.child.attributes]
    places = tuple(sorted((names.index("ward"), names.index("previous ward"))))
    table = children.marginal(places).reshape(3, 3)
    assert table[0, 0] == table[1, 1] == 0
    assert table.sum() * proposal.child.setting(PRICE).unit_value == LIMIT


def test_a_child_of_two_owners_counts_once_for_each() -> None:
    """Visit 50 is a row of patients 1 and 99, each with one visit: its two drugs count for both, up to their limits."""
    visits = [(1, 50, "A", 1), (99, 50, "B", 2)]
    proposal, (_, children) = exact_counts(
        pharmacy_policy((visits, [(50, "x"), (50, "y")])), PRICE, ["visits", "drugs"]
    )
    unit_value = proposal.child.setting(PRICE).unit_value
    names = [attribute.name for attribute in proposal.child.attributes]
    drugs = children.marginal((names.index("drug"),)) * unit_value
    wards = children.marginal((names.index("visits.ward"),)) * unit_value
    assert drugs.tolist() == [2, 2, 0]
    assert wards.tolist() == [2, 2, 0]


def test_a_child_belongs_to_the_parent_of_its_key_alone() -> None:
    """A patient has two visits, one in each ward, and one drug at the first."""
    visits = [(1, 50, "A", 1), (1, 51, "B", 2)]
    proposal, (parents, children) = exact_counts(pharmacy_policy((visits, [(50, "x")])), PRICE, ["visits", "drugs"])
    names = [attribute.name for attribute in proposal.child.attributes]
    wards = children.marginal((names.index("visits.ward"),)) * proposal.child.setting(PRICE).unit_value
    assert wards.tolist() == [1, 0, 0]
    names = [attribute.name for attribute in proposal.parent.attributes]
    place = names.index("number of drugs")
    cells = [getattr(cell, "value", None) for cell in proposal.parent.attributes[place].cells]
    numbers = dict(zip(cells, parents.marginal((place,)) * proposal.parent.setting(PRICE).unit_value, strict=True))
    assert (numbers["0"], numbers["1"]) == (1, 1)


def test_the_previous_child_is_one_of_the_same_parent() -> None:
    """Two visits of a patient with one drug each: neither drug has a previous one."""
    visits = [(1, 50, "A", 1), (1, 51, "B", 2)]
    world = (visits, [(50, "x"), (51, "y")])
    proposal, (_, children) = exact_counts(pharmacy_policy(world), PRICE, ["visits", "drugs"], order="drug")
    names = [attribute.name for attribute in proposal.child.attributes]
    previous = children.marginal((names.index("previous drug"),)) * proposal.child.setting(PRICE).unit_value
    assert previous.tolist() == [0, 0, 2]


def test_a_child_may_equal_the_previous_one_and_not_be_below_it() -> None:
    proposal, _ = exact_counts(pharmacy_policy(([], [])), PRICE, ["visits", "drugs"], order="drug")
    ((_, impossible),) = backward_cells(proposal.child.attributes, proposal.link)
    assert impossible.tolist() == [[False, True, False], [False, False, False], [False, False, False]]


def test_noise_of_both_tables_is_drawn_apart() -> None:
    """No two measurements have the same noise, in units of its size."""
    proposal, exact = exact_counts(clinic_policy(people(1, 40)), PRICE, ["patients", "visits"])
    state = proposal._start_state(PRICE)
    rows = dict(zip((state.parent.setting.reading, state.child.setting.reading), exact, strict=True))
    noises: list[tuple[float, ...]] = []

    def run(step: Any) -> Any:
        outcome = step.draw(lambda reading: rows[reading])
        if isinstance(step, MeasureStep):
            noise = outcome.counts - step.view.extract(rows[step.view.reading])
            noises.append(tuple(np.round(noise / float(noise_scale(step.noise)), 3)))
        return outcome

    run_steps(state.steps(aim), run)
    assert len(noises) > 8
    assert len({noise[:2] for noise in noises}) == len(noises)
