"""What limits and bounds cut is counted with the sensitivity that is charged: by enumeration, under both relations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from curator.test_growing import SPRING, write
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.release.requests import PriceRequest

LIMIT = 2
CELLS = (None, -1, 0)
"""Bounds are 0 and 1: -1 is clamped, as is 4; None is missing."""
Row = tuple[str | None, int | None]
Unit = tuple[Row, ...]
MEAN = "SELECT AVG(cost) AS mean FROM visits"
AVG = "SELECT AVG(cost) AS mean FROM visits WHERE {world}"


def visits(worlds: Sequence[Mapping[int, Unit]], neighbours: str = "add-remove", **limits: Any) -> sf.Policy:
    """Several worlds in one table, told apart by a column: a condition on it asks about one of them."""
    rows = [(who, number, *row) for number, world in enumerate(worlds) for who, unit in world.items() for row in unit]
    names = {"who": pa.int64(), "world": pa.int64(), "ward": pa.string(), "cost": pa.int64()}
    held = {name: pa.array([row[index] for row in rows], kind) for index, (name, kind) in enumerate(names.items())}
    columns = {
        "world": {"type": "integer", "values": list(range(max(1, len(worlds))))},
        "ward": {"values": ["A", "B"]},
        "cost": {"type": "integer", "bounds": (0, 1)},
    }
    table = sf.Table("visits", pa.table(held), columns, id="who", **(limits or {"max_rows": LIMIT}))
    budget = sf.Budget(3, "1e-6", neighbours=sf.Neighbours(neighbours))
    return sf.Policy(sf.PrivacyUnit("patient"), budget, {"visits": table}, size=100)


@dataclass(frozen=True)
class Counted:
    """One count: the sensitivity that is charged for, and the exact sums of every world, read without noise."""

    both: int
    """Of the two sums together."""
    choose_one: int
    """Of one of them."""
    totals: tuple[tuple[int, ...], ...]

    def changes(self, neighbours: str) -> Iterator[tuple[int, ...]]:
        """What the step from one world to a neighbour changes; the first world lacks the unit of the others."""
        pairs = itertools.combinations(self.totals, 2)
        for first, second in pairs if neighbours == "replace" else ((self.totals[0], each) for each in self.totals):
            yield tuple(abs(one - other) for one, other in zip(first, second, strict=True))


def counted(policy: sf.Policy, path: Path, text: str, worlds: int = 1) -> dict[str, Counted]:
    counts: dict[str, Counted] = {}
    with sf.Curator(policy, path) as curator:
        for world in range(worlds):
            proposal: WorkloadProposal = curator.sql(text.format(world=f"world = {world}")).clipped()  # type: ignore[union-attr]
            for name, question in proposal.questions.items():
                prepared = question.price_release(PriceRequest(1))
                (reading,) = question.release_strategy(prepared).readings  # type: ignore[attr-defined]
                totals = np.asarray(curator._context.engine.check(reading).read(reading, 7)).ravel().tolist()
                claim = prepared.bounded.measures[0].sensitivity
                before = counts.get(name, Counted(int(claim.l1), int(claim.linf), ()))
                counts[name] = replace(before, totals=(*before.totals, tuple(totals)))
    return counts


def units(rows: Sequence[Row]) -> Iterator[Unit]:
    """Every unit with up to one row beyond the limit; none first."""
    for count in range(LIMIT + 2):
        yield from itertools.combinations_with_replacement(rows, count)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_no_unit_moves_a_count_by_more_than_is_charged(neighbours: str, tmp_path: Path) -> None:
    worlds = [{1: unit, 9: (("A", 4),)} for unit in units([("A", cell) for cell in CELLS])]
    counts = counted(visits(worlds, neighbours), tmp_path / "ledger", AVG, len(worlds))
    assert set(counts) == {"more than 2 rows", "cost outside 0…1"}
    for count in counts.values():
        assert max(map(max, count.changes(neighbours))) == count.choose_one
        assert max(map(sum, count.changes(neighbours))) == count.both  # no less and no more than is charged
    assert counts["more than 2 rows"].choose_one == 1
    assert counts["cost outside 0…1"].choose_one == LIMIT


def test_a_unit_far_beyond_the_limit_counts_once(tmp_path: Path) -> None:
    world = {1: (("A", 4),) * 500, 2: (("A", 0),) * LIMIT, 3: (("B", None),) * (LIMIT + 1)}
    found = counted(visits([world]), tmp_path / "ledger", AVG)
    assert found["more than 2 rows"].totals == ((2, 1),)
    assert found["cost outside 0…1"].totals == ((2, 2),)  # of the first unit two rows are kept, of the last no cell


GROUPED = "SELECT ward, SUM(cost) AS total FROM visits WHERE {world} GROUP BY ward"


def _is_beyond(unit: Unit) -> bool:
    wards = [ward for ward, _ in unit if ward in ("A", "B")]
    return len(wards) > 3 or len(set(wards)) > 1 or max((wards.count(ward) for ward in wards), default=0) > 2


@pytest.mark.parametrize(("neighbours", "both"), [("add-remove", 1), ("replace", 2)])
def test_groups_and_rows_in_a_group_are_limits_too(neighbours: str, both: int, tmp_path: Path) -> None:
    """Rows without a declared ward are in no group, and so beyond no limit."""
    wards: list[Row] = [("A", 0), ("B", 0), ("?", 0)]
    drawn = [unit for count in range(5) for unit in itertools.combinations_with_replacement(wards, count)]
    world = dict(enumerate(drawn))
    policy = visits([world], neighbours, max_rows=3, max_groups=1, max_rows_per_group=2)
    found = counted(policy, tmp_path / "ledger", GROUPED)
    count = found["more than 3 rows, 1 group or 2 rows in one group"]
    present = [unit for unit in drawn if any(ward != "?" for ward, _ in unit)]
    beyond = sum(map(_is_beyond, present))
    assert count.totals == ((beyond, len(present) - beyond),)
    assert (count.both, count.choose_one) == (both, 1)


def test_of_grouped_rows_as_many_cells_count_as_rows_are_kept(tmp_path: Path) -> None:
    """One group of two rows at most, of three allowed in all: two cells, and so many are charged for."""
    policy = visits([{1: (("A", 4),) * 4, 2: (("B", 0),)}], max_rows=3, max_groups=1, max_rows_per_group=2)
    count = counted(policy, tmp_path / "ledger", GROUPED)["cost outside 0…1"]
    assert (count.totals, count.choose_one, count.both) == (((2, 1),), 2, 2)


TREES = {
    "SELECT AVG(k) AS n FROM (SELECT who, COUNT(*) AS k FROM visits WHERE {world} GROUP BY who)": [
        "more than 2 rows in a subquery"
    ],
    "SELECT AVG(k) AS n FROM (SELECT who, ward, COUNT(*) AS k FROM visits WHERE {world} GROUP BY who, ward)": [
        "more than 2 rows",
        "more than 2 rows in one group of a subquery",
    ],
    "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.who = b.who AND a.cost < b.cost WHERE a.{world}": [
        "more than 2 rows before a join",
        "more than 2 rows before a join (2)",
        "cost outside 0…1",
        "visits.cost outside 0…1",
    ],
    "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE cost >= 0 AND {world}": ["cost below 0"],
}


@pytest.mark.parametrize(
    ("text", "neighbours"),
    [
        *((text, "add-remove") for text in TREES),
        *(pytest.param(text, "replace", marks=pytest.mark.long if " JOIN " in text else ()) for text in TREES),
    ],
)
def test_trees_are_counted_where_they_cut(text: str, neighbours: str, tmp_path: Path) -> None:
    worlds = [{}, *({1: (("A", cost),) * count} for count in range(1, LIMIT + 2) for cost in (-1, 1))]
    counts = counted(visits(worlds, neighbours), tmp_path / "ledger", text, len(worlds))
    assert set(TREES[text]) <= set(counts)
    for count in counts.values():
        assert max(map(max, count.changes(neighbours))) <= count.choose_one
        assert max(map(sum, count.changes(neighbours))) <= count.both


def test_a_question_that_nothing_cuts_is_refused(tmp_path: Path) -> None:
    text = "SELECT COUNT(*) AS n FROM (SELECT who, MAX(cost) AS m FROM visits GROUP BY who) WHERE m >= 1"
    with sf.Curator(visits([]), tmp_path / "ledger") as curator, pytest.raises(Unsupported) as refusal:
        curator.sql(text).clipped()  # type: ignore[union-attr]
    assert refusal.value.code == "nothing-clipped"


def test_every_row_a_unit_has_clamped_cells_and_no_limit_on_rows(tmp_path: Path) -> None:
    rows = pa.table({"cost": pa.array([-5, 0, 1, 2, None], pa.int64())})
    table = sf.Table("visits", rows, {"cost": {"type": "integer", "bounds": (0, 1)}}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(3), {"visits": table})
    found = counted(policy, tmp_path / "ledger", "SELECT AVG(cost) AS mean FROM visits")
    assert {name: count.totals for name, count in found.items()} == {"cost outside 0…1": ((2, 2),)}


@pytest.mark.parametrize(
    ("kind", "bounds", "cells", "clamped"),
    [
        ("real", ("0.3", "0.7"), pa.array([0.2, 0.3, 0.5, 0.7, 0.8, float("inf"), float("nan"), None]), 3),
        ("integer", (-(2**62), 3), pa.array([-(2**63), -(2**62), 3, 4]), 1),
        ("integer", (0, 9), pa.array(["-1", "9", "10", "1e30", "x", None]), 3),
        ("date", ("2024-01-01", "2024-12-31"), pa.array(["2023-12-31", "2024-01-01", "2025-01-01", "?"]), 2),
        ("timestamp", ("2024-01-01", "2024-12-31"), pa.array(["2023-12-31 23:59:59.9", "2024-12-31 00:00:00.1"]), 2),
    ],
)
def test_a_cell_of_every_type_counts_as_clamped_where_the_scan_moves_it(
    kind: str, bounds: Any, cells: pa.Array, clamped: int, tmp_path: Path
) -> None:
    table = sf.Table("visits", pa.table({"cost": cells}), {"cost": {"type": kind, "bounds": bounds}}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(3), {"visits": table})
    value = "cost" if kind in ("real", "integer") else "EXTRACT(day FROM cost)"
    (count,) = counted(policy, tmp_path / "ledger", f"SELECT AVG({value}) AS mean FROM visits").values()
    assert count.totals[0][0] == clamped


def test_counts_are_charged_once_recorded_and_free_again(tmp_path: Path) -> None:
    with sf.Curator(visits([dict.fromkeys(range(50), (("A", 4),) * 3)]), tmp_path / "ledger") as curator:
        ask = curator.sql(MEAN)
        before = curator.budget.spent["pure"]
        proposal = ask.clipped()  # type: ignore[union-attr]
        assert proposal.error(epsilon=1).accepted
        assert curator.budget.spent["pure"] == before  # a forecast is free
        bought = proposal.release(epsilon=1)
        assert curator.budget.spent["pure"] == before + 1
        assert [line.kind for line in curator.ledger].count("tab-open") == 1  # one charge for both
        again = curator.sql(MEAN).clipped().release(epsilon=1)  # type: ignore[union-attr]
        assert [each.rows for each in again] == [each.rows for each in bought]
        assert again.receipt is None
        assert curator.budget.spent["pure"] == before + 1
        share, beyond, total = bought["more than 2 rows"].rows[0]
        low, high = bought["more than 2 rows"].intervals["share"][0]  # type: ignore[misc]
        assert low <= 1 <= high
        assert sf.curator.Answers.from_json(bought.to_json()) == bought
        assert abs(beyond - 50) < 30
        assert abs(total - 50) < 30
        assert 0 <= share <= 1


def test_an_answer_proposes_its_own_counts_and_one_from_a_file_says_how(tmp_path: Path) -> None:
    with sf.Curator(visits([{1: (("A", 4),)}]), tmp_path / "ledger") as curator:
        answer = curator.sql(MEAN).limit(rows=1).release(epsilon="0.5")  # type: ignore[union-attr]
        proposal = answer.clipped()
        assert list(proposal.questions) == ["more than 1 row", "cost outside 0…1"]
        with pytest.raises(InvalidParameter) as refusal:
            sf.Answer.from_json(answer.to_json()).clipped()
        assert "curator.sql(…).clipped()" in refusal.value.fix


def test_a_preview_invents_counts_of_the_same_shape(tmp_path: Path) -> None:
    with sf.Curator(visits([{1: (("A", 4),)}]), tmp_path / "ledger") as curator:
        shown = curator.sql(MEAN).clipped().preview(epsilon=1)  # type: ignore[union-attr]
        assert shown.is_preview
        assert [answer.columns for answer in shown] == [
            ("share", "units beyond", "units"),
            ("share", "clamped cells", "cells"),
        ]
        assert not curator.budget.spent["pure"]


def test_what_is_cut_cannot_be_counted_where_every_period_has_its_own_account(tmp_path: Path) -> None:
    with sf.open(write(tmp_path)) as curator, pytest.raises(Unsupported) as refusal:
        curator.sql(SPRING).clipped()
    assert refusal.value.code == "period-tab"
