"""What one unit moves in the marginals of linked tables, exactly, and that all together are one vector."""

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
    clinic_policy,
    clinic_worlds,
    exact_counts,
    exact_worlds,
    hospital_policy,
    hospital_worlds,
    pairs,
    people,
    pharmacy_policy,
    pharmacy_worlds,
)
from sfumato.curator.proposals.linked_tables import (
    LinkedTablesProposal,
    impossible_positions,
    out_of_order_zeros,
    split_price_evenly,
)
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.curator.proposals.synthesis_series import run_steps
from sfumato.plan.readings.cell_rows import CellCounts, CellRows
from sfumato.publish.synthesis.budget import sigma_or_scale
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.synthesis.state import SynthesisSetting
from sfumato.publish.tab_steps import MeasureStep
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
PRICE = Price(2)
Case = tuple[Any, Any, list[str], dict[str, Any], tuple[int, ...]]
CASES: dict[str, Case] = {
    "by the unit, in an order": (
        clinic_policy,
        clinic_worlds,
        ["patients", "visits"],
        {"order": "day", "ends": True},
        (1, LIMIT),
    ),
    "by a key, in an order": (
        pharmacy_policy,
        pharmacy_worlds,
        ["visits", "drugs"],
        {"order": "drug", "ends": True, "given": ["ward"]},
        (PARENTS, LIMIT),
    ),
    "several children and a chain": (
        hospital_policy,
        hospital_worlds,
        ["patients", "visits", "drugs", "tests"],
        {"columns": ["patients.sex", "visits.ward"]},
        (1, PARENTS, LIMIT, LIMIT),
    ),
}


def _parent(proposal: LinkedTablesProposal) -> SynthesisProposal:
    return proposal.parts[proposal.first_link.parent]


def _child(proposal: LinkedTablesProposal) -> SynthesisProposal:
    return proposal.parts[proposal.first_link.child]


def _marginals(reading: CellRows, rows: Any) -> list[Any]:
    columns = len(reading.cells)
    sets = [places for count in (0, 1, 2) for places in itertools.combinations(range(columns), count)]
    every = replace(reading, sets=(*sets, tuple(range(columns))))
    return [CellCounts(every, places).extract(rows) for places in every.sets]


@pytest.mark.parametrize("case", CASES)
def test_one_unit_moves_all_marginals_of_all_tables_within_its_limits(case: str) -> None:
    """On every pair of neighbours, each marginal moves by what it is charged for, and a marginal of every table
    together cost no more than the price; some neighbours attain the bound of each table.
    """
    policy_of, worlds_of, tables, options, limits = CASES[case]
    worlds = worlds_of("add-remove")
    proposal, exact = exact_worlds([policy_of(world) for world in worlds], PRICE, tables, **options)
    prices = split_price_evenly(PRICE, len(tables))
    settings = [part.setting(price) for part, price in zip(proposal.parts.values(), prices, strict=True)]
    counts = [
        [_marginals(setting.reading, rows) for setting, rows in zip(settings, read, strict=True)] for read in exact
    ]
    assert worlds_of("replace") == worlds[1:]
    _check_moves(counts, settings, "add-remove", limits)
    replaced, _ = exact_worlds([policy_of(worlds[0], "replace")], PRICE, tables, **options)
    parts = zip(replaced.parts.values(), prices, strict=True)
    _check_moves(counts[1:], [part.setting(price) for part, price in parts], "replace", limits)


def _check_moves(counts: list[Any], settings: list[SynthesisSetting], relation: str, limits: tuple[int, ...]) -> None:
    factor = 2 if relation == "replace" else 1
    sensitivities = [CellCounts(setting.reading, (0,)).sensitivity for setting in settings]
    for setting, sensitivity, limit in zip(settings, sensitivities, limits, strict=True):
        assert sensitivity.total * setting.unit_value == limit * factor
    most = [Fraction(0)] * len(limits)
    for one, other in pairs(relation, counts):
        loss = Fraction(0)
        for number, (setting, sensitivity) in enumerate(zip(settings, sensitivities, strict=True)):
            moved = [np.abs(before - after) for before, after in zip(one[number], other[number], strict=True)]
            largest = Fraction(int(max(change.sum() for change in moved)))
            assert largest <= sensitivity.total
            assert max((change**2).sum() for change in moved) <= sensitivity.squares
            most[number] = max(most[number], largest * setting.unit_value)
            loss += setting.currency.total * largest / sensitivity.total
        assert loss <= PRICE.epsilon
    assert most == [limit * factor for limit in limits]


def test_the_number_of_children_is_counted_before_any_is_left_out() -> None:
    """Patient 7 has 20 visits, of which 3 count: in both tables their number is in the top band."""
    world: Any = ([(7, "f", 30)], [(7, "A", day) for day in range(20)])
    proposal, exact = exact_counts(clinic_policy(world), PRICE, ["patients", "visits"])
    assert proposal.first_link.band_labels == ("0", "1", "2", f"{LIMIT} or more")
    for part, rows, counted in zip((_parent(proposal), _child(proposal)), exact, (1, LIMIT), strict=True):
        place = [attribute.name for attribute in part.attributes].index(proposal.first_link.child_count_column)
        cells = [getattr(cell, "value", None) for cell in part.attributes[place].cells]
        totals = rows.marginal((place,)) * part.setting(PRICE).unit_value
        assert totals[cells.index(f"{LIMIT} or more")] == totals.sum() == counted


def test_consecutive_rows_are_paired_before_any_is_left_out() -> None:
    """A patient's wards alternate over 40 days: no visit follows one in the same ward, whichever rows count."""
    visits = [(7, "AB"[day % 2], day % 30) for day in range(30)]
    proposal, (_, children) = exact_counts(
        clinic_policy(([(7, "f", 30)], visits)), PRICE, ["patients", "visits"], order="day"
    )
    names = [attribute.name for attribute in _child(proposal).attributes]
    places = tuple(sorted((names.index("ward"), names.index("previous ward"))))
    table = children.marginal(places).reshape(3, 3)
    assert table[0, 0] == table[1, 1] == 0
    assert table.sum() * _child(proposal).setting(PRICE).unit_value == LIMIT


def test_a_child_of_two_owners_counts_once_for_each() -> None:
    """Visit 50 is a row of patients 1 and 99, each with one visit: its two drugs count for both, up to their limits."""
    visits = [(1, 50, "A", 1), (99, 50, "B", 2)]
    proposal, (_, children) = exact_counts(
        pharmacy_policy((visits, [(50, "x"), (50, "y")])), PRICE, ["visits", "drugs"]
    )
    unit_value = _child(proposal).setting(PRICE).unit_value
    names = [attribute.name for attribute in _child(proposal).attributes]
    drugs = children.marginal((names.index("drug"),)) * unit_value
    wards = children.marginal((names.index("visits.ward"),)) * unit_value
    assert drugs.tolist() == [2, 2, 0]
    assert wards.tolist() == [2, 2, 0]


def test_a_child_belongs_to_the_parent_of_its_key_alone() -> None:
    """A patient has two visits, one in each ward, and one drug at the first."""
    visits = [(1, 50, "A", 1), (1, 51, "B", 2)]
    proposal, (parents, children) = exact_counts(pharmacy_policy((visits, [(50, "x")])), PRICE, ["visits", "drugs"])
    names = [attribute.name for attribute in _child(proposal).attributes]
    wards = children.marginal((names.index("visits.ward"),)) * _child(proposal).setting(PRICE).unit_value
    assert wards.tolist() == [1, 0, 0]
    names = [attribute.name for attribute in _parent(proposal).attributes]
    place = names.index("number of drugs")
    cells = [getattr(cell, "value", None) for cell in _parent(proposal).attributes[place].cells]
    numbers = dict(zip(cells, parents.marginal((place,)) * _parent(proposal).setting(PRICE).unit_value, strict=True))
    assert (numbers["0"], numbers["1"]) == (1, 1)


def _counts(proposal: LinkedTablesProposal, exact: Any, table: str, column: str) -> dict[Any, Fraction]:
    """Return the exact count of each listed value of a column of a table's model, and of missing ones as None."""
    part = proposal.parts[table]
    place = [attribute.name for attribute in part.attributes].index(column)
    rows = dict(zip(proposal.parts, exact, strict=True))[table]
    totals = rows.marginal((place,)) * part.setting(split_price_evenly(PRICE, len(proposal.parts))[0]).unit_value
    return dict(zip((getattr(cell, "value", None) for cell in part.attributes[place].cells), totals, strict=True))


def test_rows_of_a_chain_meet_rows_of_their_own_unit_alone() -> None:
    """Visit 50 is a row of patients 1 and 2 of either sex: its test counts for both. Patient 3 has a visit and no row
    among the patients: that visit and its tests are left out.
    """
    patients = [(1, "f", 30), (2, "m", 60)]
    visits = [(1, 50, "A", 1), (2, 50, "B", 2), (2, 51, "B", 3), (3, 52, "A", 4)]
    world = (patients, visits, [(1, "x"), (1, "x"), (3, "y")], [(50, "p"), (52, "q"), (77, "q")])
    proposal, exact = exact_counts(hospital_policy(world), PRICE, ["patients", "visits", "drugs", "tests"])
    assert proposal.links[-1].conditioning_columns[-2:] == ("patients.sex", "patients.age")
    assert _counts(proposal, exact, "tests", "result") == {"p": 2, "q": 0, None: 0}
    assert _counts(proposal, exact, "tests", "patients.sex") == {"f": 1, "m": 1, None: 0}
    assert _counts(proposal, exact, "visits", "ward") == {"A": 1, "B": 2, None: 0}
    tests_per_visit = _counts(proposal, exact, "visits", "number of tests")
    assert (tests_per_visit["0"], tests_per_visit["1"]) == (1, 2)
    drugs_per_patient = _counts(proposal, exact, "patients", "number of drugs")
    assert (drugs_per_patient["0"], drugs_per_patient["2"]) == (1, 1)
    assert _counts(proposal, exact, "drugs", "drug") == {"x": 2, "y": 0, None: 0}


def test_the_previous_child_is_one_of_the_same_parent() -> None:
    """Two visits of a patient with one drug each: neither drug has a previous one."""
    visits = [(1, 50, "A", 1), (1, 51, "B", 2)]
    world = (visits, [(50, "x"), (51, "y")])
    proposal, (_, children) = exact_counts(pharmacy_policy(world), PRICE, ["visits", "drugs"], order="drug")
    names = [attribute.name for attribute in _child(proposal).attributes]
    previous = children.marginal((names.index("previous drug"),)) * _child(proposal).setting(PRICE).unit_value
    assert previous.tolist() == [0, 0, 2]


ENDS: dict[str, Any] = {"order": "day", "ends": True}


def test_first_last_and_only_rows_are_those_among_all_children() -> None:
    """Patient 7 has 20 visits, the first in ward A, the last in B and those between in neither: whichever 3 count, at
    most one is first and one last. An orphan has no position.
    """
    visits: list[Any] = [(7, "A", 0), *[(7, None, 1 + day) for day in range(18)], (7, "B", 25)]
    visits += [(8, "A", 5), (9, "B", 3), (9, "A", 4), (5, "A", 9), (5, "B", 9)]
    world: Any = ([(7, "f", 30), (8, "m", 30), (9, "f", 60)], visits)
    proposal, exact = exact_counts(clinic_policy(world), PRICE, ["patients", "visits"], **ENDS)
    position = proposal.first_link.position_column
    positions = _counts(proposal, exact, "visits", position)
    assert positions["only"] == 1
    assert 1 <= positions["first"] <= 2
    assert 1 <= positions["last"] <= 2
    assert sum(positions.values()) == 1 + 2 + LIMIT
    part = _child(proposal)
    names = [attribute.name for attribute in part.attributes]
    places = names.index("ward"), names.index(position)
    table = exact[1].marginal(places).reshape([part.attributes[place].size for place in places])
    cells = [getattr(cell, "value", None) for cell in part.attributes[places[1]].cells]
    unit_value = part.setting(split_price_evenly(PRICE)[0]).unit_value
    by_position = dict(zip(cells, table.T * unit_value, strict=True))
    assert by_position["only"].tolist() == [1, 0, 0]
    assert by_position["between"].tolist() == [0, 0, positions["between"]]
    for end in ("first", "last"):
        assert by_position[end][2] == 0
        assert max(by_position[end]) == 1


def test_a_child_has_its_position_among_those_of_its_own_parent() -> None:
    """Visit 50 has one drug, visit 51 of the same patient two; both patients own visit 52, whose drug is theirs."""
    visits = [(1, 50, "A", 1), (1, 51, "B", 2), (2, 52, "A", 3), (3, 52, "A", 3)]
    world = (visits, [(50, "x"), (51, "x"), (51, "y"), (52, "y")])
    proposal, exact = exact_counts(pharmacy_policy(world), PRICE, ["visits", "drugs"], order="drug", ends=True)
    counts = _counts(proposal, exact, "drugs", proposal.first_link.position_column)
    assert counts == {"first": 1, "last": 1, "between": 0, "only": 3, None: 0}


def test_every_row_of_neighbours_has_a_possible_position() -> None:
    """No world has a row in a cell that the model rules out."""
    policies = [clinic_policy(world) for world in clinic_worlds("add-remove")]
    proposal, worlds = exact_worlds(policies, PRICE, ["patients", "visits"], **ENDS)
    zeros = impossible_positions(_child(proposal).attributes, proposal.first_link)
    assert len(zeros) == 1 + len(proposal.first_link.previous_columns)
    assert all(mask.any() for _, mask in zeros)
    for _, children in worlds:
        for places, mask in zeros:
            assert not children.marginal(places)[mask.ravel()].any()


def test_a_child_may_equal_the_previous_one_and_not_be_below_it() -> None:
    proposal, _ = exact_counts(pharmacy_policy(([], [])), PRICE, ["visits", "drugs"], order="drug")
    ((_, impossible),) = out_of_order_zeros(_child(proposal).attributes, proposal.first_link)
    assert impossible.tolist() == [[False, True, False], [False, False, False], [False, False, False]]


def test_noise_of_both_tables_is_drawn_apart() -> None:
    """No two measurements have the same noise, in units of its size."""
    proposal, exact = exact_counts(clinic_policy(people(1, 40)), PRICE, ["patients", "visits"])
    state = proposal._start_state(PRICE)
    rows = dict(zip((part.setting.reading for part in state.states.values()), exact, strict=True))
    noises: list[tuple[float, ...]] = []

    def run(step: Any) -> Any:
        outcome = step.draw(lambda reading: rows[reading])
        if isinstance(step, MeasureStep):
            noise = outcome.counts - step.view.extract(rows[step.view.reading])
            noises.append(tuple(np.round(noise / float(sigma_or_scale(step.noise)), 3)))
        return outcome

    run_steps(state.steps(aim), run)
    assert len(noises) > 8
    assert len({noise[:2] for noise in noises}) == len(noises)
