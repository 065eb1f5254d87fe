"""Against declared outer limits, nothing that limits and bounds cut moves a number by more than its worst case says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.proposals.limit_proposals import ClippedProposal
from sfumato.errors import InvalidPolicy
from sfumato.plan.clipping import CutCounts, Shift, WorstCase, worst_cases
from sfumato.plan.limits import Strategy
from sfumato.policy import toml_files
from sfumato.policy.toml_files import to_toml
from sfumato.release.requests import PriceRequest

LIMIT, POSSIBLE_ROWS = 1, 2
BOUNDS, POSSIBLE = (1, 2), (-2, 4)
CELLS = (None, -3, -2, 1, 4, 5)
"""-3 and 5 are impossible, -2 and 4 are clamped."""
DAY = "2024-01-01"
Row = tuple[str, int | None]
Unit = tuple[Row, ...]
KEY = 7
"""The secret key of every exact reading: with it, one table leaves out the same rows under both policies."""


def units(rows: Sequence[Row]) -> Iterator[Unit]:
    """Every unit with up to one row beyond what is possible."""
    for count in range(1, POSSIBLE_ROWS + 2):
        yield from itertools.combinations_with_replacement(rows, count)


def visits(worlds: Sequence[Unit], neighbours: str = "add-remove", **changes: Any) -> sf.Policy:
    """A table with one unit in each world; ``changes`` are other limits and other keys of the column."""
    rows = [(world, f"w{world}", ward, cell) for world, unit in enumerate(worlds) for ward, cell in unit]
    kinds = {"who": pa.int64(), "world": pa.string(), "ward": pa.string(), "cost": pa.int64()}
    held = {name: pa.array([row[index] for row in rows], kind) for index, (name, kind) in enumerate(kinds.items())}
    cost = {"type": "integer", "bounds": BOUNDS, "possible": POSSIBLE} | changes.pop("cost", {})
    columns = {
        "world": {"values": [f"w{world}" for world in range(len(worlds))]},
        "ward": {"values": ["A", "B"]},
        "cost": {name: value for name, value in cost.items() if value is not None},
    }
    limits = {"max_rows": LIMIT, "possible_rows": POSSIBLE_ROWS} | changes
    table = sf.Table("visits", pa.table(held), columns, id="who", **limits)
    budget = sf.Budget(3, "1e-6", neighbours=sf.Neighbours(neighbours))
    return sf.Policy(sf.PrivacyUnit("patient"), budget, {"visits": table}, size=max(1, len(worlds)))


def exact_totals(question: Any, strategy: Strategy | None = None) -> tuple[Any, list[Any]]:
    """The totals of each group as they are before noise, and how they are scaled."""
    question = replace(question, strategy=strategy)
    prepared = question.price_release(PriceRequest(1))
    (reading,) = question.release_strategy(prepared).readings
    return np.asarray(question._context.engine.check(reading).read(reading, KEY)), list(prepared.bounded.measures)


def exact_numbers(question: Any, strategy: Strategy | None = None) -> list[Fraction | None]:
    """The number of each group as it is before noise; None where a mean has no cells."""
    totals, (scaled,) = exact_totals(question, strategy)
    numbers: list[Fraction | None] = []
    for row in totals.tolist():
        if len(row) == 1:
            numbers.append(row[0] * scaled.unit_value)
        else:
            width = scaled.measure.max_row_contribution(scaled.low, scaled.high) * scaled.step
            share = Fraction(row[0], sum(row)) if sum(row) else None
            numbers.append(None if share is None else scaled.low * scaled.step + share * width)
    return numbers


def cuts(unit: Unit, grouped: bool) -> CutCounts:
    """What a single unit has beyond limits and bounds: its clamped cells only if it is within."""
    is_beyond = len(unit) > LIMIT or (grouped and len({ward for ward, _ in unit}) > 1)
    cells = [cell for _, cell in unit if cell is not None and POSSIBLE[0] <= cell <= POSSIBLE[1]]
    clamped = 0 if is_beyond else sum(not BOUNDS[0] <= cell <= BOUNDS[1] for cell in cells)
    present = min(len(cells), POSSIBLE_ROWS)
    return CutCounts(Fraction(is_beyond), Fraction(clamped), Fraction(clamped, max(1, present)), Fraction(present))


MEASURES = {"sum": "SUM(cost)", "mean": "AVG(cost)", "count": "COUNT(*)"}
STRATEGIES = (None, Strategy.SAMPLE, Strategy.REWEIGHT)


def check(tmp_path: Path, measure: str, by: str, strategy: Strategy | None, worlds: Sequence[Unit]) -> list[Fraction]:
    """Compare the numbers of all worlds with those without limits and bounds; return how far some are moved."""
    text = f"SELECT {by}, {MEASURES[measure]} AS x FROM visits GROUP BY {by}"
    free = {"max_rows": POSSIBLE_ROWS, "cost": {"bounds": POSSIBLE}}
    with (
        sf.Curator(visits(worlds), tmp_path / "limited") as limited,
        sf.Curator(visits(worlds, **free), tmp_path / "free") as unlimited,
    ):
        question: Any = limited.sql(text)
        (case,) = worst_cases(question.query, question.row_limits("")).values()
        numbers, without = exact_numbers(question, strategy), exact_numbers(unlimited.sql(text), Strategy.SAMPLE)
    per_world, moved = len(numbers) // len(worlds), []
    for index, (number, other) in enumerate(zip(numbers, without, strict=True)):
        if number is not None and other is not None:
            counts = cuts(worlds[index // per_world], "ward" in by)
            bound = case.proven_shift(counts)
            assert -bound.less <= other - number <= bound.more, (worlds[index // per_world], number, other, bound)
            moved.append(other - number)
    return moved


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("measure", MEASURES)
def test_no_world_moves_a_number_beyond_its_worst_case(measure: str, strategy: Strategy | None, tmp_path: Path) -> None:
    worlds = list(units([("A", cell) for cell in CELLS]))
    moved = check(tmp_path, measure, "world", strategy, worlds)
    assert max(moved) > 0
    if measure != "count":
        assert min(moved) < 0


@pytest.mark.parametrize("measure", MEASURES)
def test_a_unit_in_too_many_groups_is_within_the_worst_case_of_each(measure: str, tmp_path: Path) -> None:
    worlds = list(units([(ward, cell) for ward in "AB" for cell in (-2, 1, 4)]))
    assert max(check(tmp_path, measure, "world, ward", None, worlds)) > 0


@pytest.mark.parametrize("measure", ["sum", "mean"])
def test_the_worst_case_of_clamped_cells_is_attained(measure: str, tmp_path: Path) -> None:
    moved = check(tmp_path, measure, "world", None, [(("A", 4),), (("A", -2),)])
    assert moved == [2, -3]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("measure", MEASURES)
def test_outer_limits_leave_the_sensitivity_as_it_is_charged(measure: str, neighbours: str, tmp_path: Path) -> None:
    """Every unit with up to one row more than is possible, alone in its group: added, removed or replaced."""
    worlds = list(units([("A", cell) for cell in CELLS]))
    with sf.Curator(visits(worlds, neighbours), tmp_path / "ledger") as curator:
        question: Any = curator.sql(f"SELECT world, {MEASURES[measure]} AS x FROM visits GROUP BY world")
        totals, (scaled,) = exact_totals(question)
    rows = [tuple(row) for row in totals.tolist()]
    absent = (0,) * len(rows[0])
    pairs = itertools.combinations([absent, *rows], 2) if neighbours == "replace" else ((absent, row) for row in rows)
    changes = [sum(abs(one - other) for one, other in zip(*pair, strict=True)) for pair in pairs]
    assert 0 < max(changes) <= scaled.sensitivity.l1


def test_impossible_cells_are_missing_and_further_rows_of_each_unit_are_left_out(tmp_path: Path) -> None:
    """A unit keeps its own possible rows, however many rows others have."""
    worlds = [(("A", 5),), (("A", -3), ("A", None)), (("A", 4),) * 2, (("A", 1),) * 9, (("A", 1),) * 3, (("A", 1),)]
    with sf.Curator(visits(worlds, max_rows=POSSIBLE_ROWS), tmp_path / "ledger") as curator:
        ask = "SELECT world, {} AS x FROM visits GROUP BY world"
        rows, cells = (exact_numbers(curator.sql(ask.format(count))) for count in ("COUNT(*)", "COUNT(cost)"))
    assert rows == [1, 2, 2, 2, 2, 1]
    assert cells == [0, 0, 2, 2, 2, 1]


@pytest.mark.parametrize(
    ("kind", "bounds", "possible", "cells", "present"),
    [
        ("real", (0, 1), ("-0.1", "1.1"), pa.array([-0.1, 1.1, -0.11, float("inf"), float("nan"), 1e300, None]), 2),
        ("integer", (0, 9), (-1, 10), pa.array(["-1", "10", "10.0", "11", "1e30", "-inf", "x", None]), 3),
        ("integer", (0, 9), (0, 2**62), pa.array([2**62, 2**62 + 1, -1, 5]), 2),
        ("date", (DAY, DAY), ("2023-01-01", "2025-01-01"), pa.array(["2022-12-31", "2023-01-01", "2025-01-02"]), 1),
        ("timestamp", (DAY, DAY), (DAY, "2024-01-02"), pa.array(["2024-01-02 00:00:00.1", "2024-01-02"]), 1),
    ],
)  # fmt: skip
def test_a_cell_of_every_type_is_missing_unless_it_is_surely_possible(
    kind: str, bounds: Any, possible: Any, cells: pa.Array, present: int, tmp_path: Path
) -> None:
    column = {"type": kind, "bounds": bounds, "possible": possible}
    table = sf.Table("visits", pa.table({"cost": cells}), {"cost": column}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(3), {"visits": table})
    with sf.Curator(policy, tmp_path / "ledger") as curator:
        assert exact_numbers(curator.sql("SELECT COUNT(cost) AS n FROM visits")) == [present]


def line(curator: sf.Curator, text: str) -> dict[str, str]:
    question: Any = curator.sql(text)
    return {name: said.split("; ")[-2] for name, said in question.caveat_by_column("").items()}


def test_a_number_says_its_worst_case_beside_its_limits(tmp_path: Path) -> None:
    with sf.Curator(visits([(("A", 1),)]), tmp_path / "ledger") as curator:
        assert line(curator, "SELECT AVG(cost) AS m, SUM(cost) AS s, COUNT(*) AS n FROM visits") == {
            "m": "at most 3 more or 4 less, however many rows and values exceed the limits",
            "s": "at most 2 more or 3 less for each cost outside 1…2, and 8 more or 6 less for each patient beyond "
            "the limit",
            "n": "at most 2 more for each patient beyond the limit",
        }
        said: Any = curator.sql("SELECT AVG(cost) AS m FROM visits")
        assert said.caveat_by_column("")["m"] == (
            "rows beyond the limit of 1 per patient count less or not at all; cost outside 1…2 counts as 1 or 2; "
            "cost outside -2…4 counts as missing; rows beyond the first 2 of each patient are left out; rows without "
            "who are left out; at most 3 more or 4 less, however many rows and values exceed the limits; "
            "± does not cover these effects"
        )


def test_where_every_row_is_a_unit_a_mean_is_moved_by_its_cells_alone(tmp_path: Path) -> None:
    column = {"type": "real", "bounds": (-60, 300), "possible": (-120, 1500)}
    table = sf.Table("flights", pa.table({"delay": [1.0]}), {"delay": column}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("flight", every_row=True), sf.Budget(3), {"flights": table})
    with sf.Curator(policy, tmp_path / "ledger") as curator:
        assert line(curator, "SELECT AVG(delay) AS m FROM flights") == {
            "m": "at most 1,200 more, if every delay were 1500, or 60 less, if every delay were -120"
        }


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("SELECT SUM(cost) AS x FROM visits", {"cost": {"possible": None}}),
        ("SELECT SUM(cost) AS x FROM visits", {"possible_rows": None}),
        ("SELECT SUM(2 * cost) AS x FROM visits", {}),
        ("SELECT SUM(cost) / COUNT(*) AS x FROM visits", {}),
        ("SELECT SUM(cost) AS x FROM visits WHERE cost >= 1", {}),
        ("SELECT SUM(cost) AS x FROM visits WHERE ward <> 'A'", {}),
        ("SELECT MEDIAN(cost) AS x FROM visits", {}),
        ("SELECT AVG(k) AS x FROM (SELECT who, SUM(cost) AS k FROM visits GROUP BY who)", {}),
        ("SELECT SUM(a.cost) AS x FROM visits a JOIN visits b ON a.who = b.who AND a.cost = b.cost", {}),
    ],
)
def test_a_number_that_something_else_moves_has_no_worst_case(text: str, changes: Any, tmp_path: Path) -> None:
    with sf.Curator(visits([(("A", 1),)], **changes), tmp_path / "ledger") as curator:
        question: Any = curator.sql(text)
        assert worst_cases(question.query, question.row_limits("")) == {}
        assert all(
            "at most" not in said.replace("at most 1 row per patient and table", "")
            for said in question.caveat_by_column("").values()
        )


def test_bought_counts_narrow_the_worst_case_beside_the_number(tmp_path: Path) -> None:
    worlds = [(("A", 4),)] * 40 + [(("A", 1),)] * 400 + [(("A", 1),) * 2] * 20
    text = "SELECT AVG(cost) AS m, SUM(cost) AS s FROM visits"
    with sf.Curator(visits(worlds), tmp_path / "ledger") as curator:
        question: Any = curator.sql(text)
        proposal = question.clipped()
        assert isinstance(proposal, ClippedProposal)
        bought = proposal.release(epsilon=2)
        (case, _) = worst_cases(question.query, question.row_limits("")).values()
        assert bought.answers[-1].advice.startswith("m: at most ")
        assert sf.curator.Answers.from_json(bought.to_json()) == bought
        said = question.release(epsilon="0.5").caveats["m"]
        assert "(by the released counts, with 95 % confidence each)" in said
        assert said.split("; ")[-2] in bought.answers[-1].advice
        more = float(said.partition("at most ")[2].split(" ")[0])
        true_shift = Fraction(40 * 2, 480)  # forty cells of 4 are clamped; the second rows equal the first
        assert true_shift <= more < case.whole_mean.more / 4


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward",
        "SELECT AVG(cost) FILTER (WHERE ward = 'A') AS m FROM visits",
    ],
)
def test_counts_narrow_no_mean_of_a_part(text: str, tmp_path: Path) -> None:
    """All cells of a small part are clamped: its mean is off by the whole range, whatever share of all cells it is."""
    worlds = [(("A", 4),)] * 10 + [(("B", 1),)] * 990
    with sf.Curator(visits(worlds, possible_rows=1), tmp_path / "ledger") as curator:
        question: Any = curator.sql(text)
        question.clipped().release(epsilon=2)
        said = question.release(epsilon="0.5").caveats["m"]
        assert "at most 2 more, if every cost were 4, or 3 less, if every cost were -2" in said


def test_no_unit_is_beyond_a_limit_that_no_unit_can_reach(tmp_path: Path) -> None:
    """As many rows are possible as count: only cells are cut. In one group of two, rows are."""
    with sf.Curator(visits([(("A", 1),)], possible_rows=1), tmp_path / "one") as curator:
        assert line(curator, "SELECT SUM(cost) AS s FROM visits") == {
            "s": "at most 2 more or 3 less for each cost outside 1…2"
        }
    limits = {"max_rows": 2, "max_groups": 1, "possible_rows": 2}
    with sf.Curator(visits([(("A", 1),)], **limits), tmp_path / "two") as curator:
        said = line(curator, "SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward")["s"]
        assert said.endswith("for each patient beyond the limit")


def test_a_row_that_a_public_table_doubles_counts_twice_in_the_worst_case(tmp_path: Path) -> None:
    """Two possible rows of a unit, each with two floors: four rows beyond the limit."""
    floors = sf.Table("floors", pa.table({"ward": ["A", "A", "B"], "floor": [1, 2, 3]}), public=True)
    private = visits([(("A", 1),)])
    policy = replace(private, tables={**private.tables, "floors": floors})
    with sf.Curator(policy, tmp_path / "ledger") as curator:
        question: Any = curator.sql("SELECT COUNT(*) AS n FROM visits v JOIN floors f ON v.ward = f.ward")
        cases = worst_cases(question.query, question.row_limits(""))
        assert [(case.rows, case.unit.more) for case in cases.values()] == [(4, 4)]


def test_counts_bound_a_mean_no_further_than_its_range() -> None:
    cell = replace(_case(), limits_rows=False)
    assert cell.proven_shift(CutCounts(share=Fraction(1, 2))).more == 1
    assert _case().proven_shift(CutCounts(units=Fraction(9), cells=Fraction(1))) == _case().whole_mean
    assert _case().proven_shift(CutCounts(units=Fraction(9))) == _case().whole_mean


def _case() -> WorstCase:
    return WorstCase(Shift(Fraction(2), Fraction(3)), Shift(Fraction(6), Fraction(8)), True, True, 2)


@pytest.mark.parametrize(
    ("column", "limits", "place"),
    [
        ({"type": "integer", "possible": [0, 1]}, {}, "columns.cost.possible"),
        ({"type": "integer", "bounds": [0, 9], "possible": [1, 20]}, {}, "columns.cost.possible"),
        ({"type": "integer", "bounds": [0, 9], "possible": [0, 8]}, {}, "columns.cost.possible"),
        ({"type": "integer", "bounds": [0, 9], "possible": [20, 0]}, {}, "columns.cost.possible"),
        ({"type": "integer", "bounds": [0, 9], "possible": 20}, {}, "columns.cost.possible"),
        ({"type": "integer", "bounds": [0, 9], "possible": ["a", "b"]}, {}, "columns.cost.possible"),
        ({"type": "text", "possible": [0, 1]}, {}, "columns.cost.possible"),
        ({"type": "integer", "values": [1, 2], "possible": [0, 9]}, {}, "columns.cost.possible"),
        ({"type": "integer"}, {"possible_rows": 1}, "possible_rows"),
        ({"type": "integer"}, {"possible_rows": "many"}, "possible_rows"),
        ({"type": "integer"}, {"possible_rows": 5, "id": "row", "max_rows": None}, "possible_rows"),
        ({"type": "integer"}, {"possible_rows": 5, "public": True, "id": None, "max_rows": None}, "possible_rows"),
        ({"type": "integer", "most_items": 3}, {"possible_rows": 5}, "possible_rows"),
        ({"type": "integer", "bounds": [0, 9], "possible": [0, 9]}, {"id": "cost"}, "columns.cost.possible"),
    ],
)  # fmt: skip
def test_outer_limits_that_make_no_sense_are_refused_with_their_place(column: Any, limits: Any, place: str) -> None:
    def make() -> sf.Policy:
        keys = {"id": "who", "max_rows": 2} | limits
        table = sf.Table("visits", "visits.parquet", {"cost": column}, **keys)
        return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3), {"visits": table})

    with pytest.raises(InvalidPolicy) as refusal:
        make()
    assert refusal.value.place == f"tables.visits.{place}"
    assert refusal.value.fix or refusal.value.rule


def test_a_policy_file_keeps_its_outer_limits(tmp_path: Path) -> None:
    text = """
[unit]
name = "patient"
budget = { epsilon = 1 }
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 10
possible_rows = 500
[tables.visits.columns]
delay = { type = "real", bounds = [-60, 300], possible = [-120, 1500.5] }
day = { type = "date", bounds = ["2024-01-01", "2024-12-31"], possible = ["2020-01-01", "2030-01-01"] }
"""
    (tmp_path / "clinic.toml").write_text(text)
    policy = toml_files.read(tmp_path / "clinic.toml")
    assert policy.tables["visits"].possible_rows == 500
    assert policy.tables["visits"].rules["delay"].possible == (-120, Fraction(3001, 2))
    (tmp_path / "again.toml").write_text(to_toml(policy, tmp_path))
    assert toml_files.read(tmp_path / "again.toml").tables == policy.tables
