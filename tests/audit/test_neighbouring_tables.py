"""Tables are invented from a policy alone, with a unit at every limit, below it and beyond it."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit.generated_tables import (
    MAX_ROWS,
    GeneratedCells,
    GeneratedPopulation,
    ListCells,
    NeighbouringTables,
    RangeEnds,
    as_text_file_cell,
    neighbours_of,
)
from sfumato.engine.opening import open_engine
from sfumato.policy import Domain, Policy, Table
from sfumato.policy.domains import ListColumn
from sfumato.privacy import Budget, PrivacyUnit

COLUMNS = {
    "ward": {"values": [f"ward {index}" for index in range(8)]},
    "age": {"type": "integer", "bounds": [0, 110]},
    "cost": {"type": "real", "bounds": ["0", "50"], "grid": "0.5"},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
    "seen": {"type": "timestamp", "bounds": ["2024-01-01", "2024-12-31"]},
    "note": {"type": "text"},
    "urgent": {"type": "boolean"},
    "drugs": {"type": "text", "values": ["a", "b", "c"], "most_items": 2},
}
NOWHERE = "/nowhere/visits.parquet"


def policy(
    relation: str = "add-remove", *, limits: tuple[int, int, int] | None = (5, 3, 2), unit: PrivacyUnit | None = None
) -> Policy:
    """One table, at a place that is not there: whoever opened it would fail."""
    rows, groups, inside = limits or (None, None, None)
    table = Table(
        "visits",
        NOWHERE,
        COLUMNS,
        id="row" if limits is None else "who",
        max_rows=rows,
        max_groups=groups,
        max_rows_per_group=inside,
    )
    whose = unit or PrivacyUnit("person", every_row=limits is None)
    return Policy(whose, Budget(3, "1e-6", neighbours=relation), {"visits": table}, size=100)


def _unit(population: GeneratedPopulation, table: str = "visits") -> list[dict[str, Any]]:
    """The rows of the unit that was added: it has the last id."""
    rows = population.tables[table].to_pylist()
    return [row for row in rows if row["who"] == "1000"]


def _shape(rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    """How many rows there are, in how many groups, and how many in the largest of them."""
    groups = Counter(row["ward"] for row in rows)
    return len(rows), len(groups), max(groups.values())


def test_units_are_at_every_limit_and_one_below_and_one_beyond() -> None:
    made = {each.name: each for each in neighbours_of(policy()).populations_with_extra_unit}
    shapes = {name: _shape(_unit(each)) for name, each in made.items() if "cells" not in name}
    assert shapes == {
        "one row": (1, 1, 1),
        "one row less than the limit": (4, 1, 4),
        "as many rows as the limit": (5, 1, 5),
        "one row more than the limit": (6, 1, 6),
        "as many rows in a group as the limit": (2, 1, 2),
        "one row more in a group than the limit": (3, 1, 3),
        "as many groups as the limit": (3, 3, 1),
        "one group more than the limit": (4, 4, 1),
        "one row and one group more than the limits": (6, 4, 2),
        "rows at the low end, one more than the limit": (6, 1, 6),
        "rows in other groups": (6, 3, 2),
        "rows far beyond the limit, each of its own": (23, 8, 3),
    }


def test_no_row_of_the_owner_is_looked_at() -> None:
    """The source is not there, and with one that is there nothing is opened: its text is no table at all."""
    made = neighbours_of(policy())
    assert not Path(NOWHERE).exists()
    for each in made.populations:
        engine = open_engine(made.policy_over(each), None, 1)
        engine.close()


def test_the_others_are_the_same_in_every_table() -> None:
    made = neighbours_of(policy())
    others = made.ordinary_population.tables["visits"].to_pylist()
    for each in made.populations_with_extra_unit:
        rows = each.tables["visits"].to_pylist()
        assert rows[: len(others)] == others
        assert {row["who"] for row in rows[len(others) :]} == {"1000"}


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_pairs_are_what_the_policy_calls_neighbours(relation: str) -> None:
    made = neighbours_of(policy(relation))
    if relation == "add-remove":
        assert made.pairs == tuple((made.ordinary_population, each) for each in made.populations_with_extra_unit)
    else:
        assert made.pairs == tuple(combinations(made.populations, 2))
        rows = neighbours_of(policy(relation, limits=None))
        assert rows.pairs == tuple(combinations(rows.populations_with_extra_unit, 2))
    assert len({each.name for each in made.populations_with_extra_unit}) == len(made.populations_with_extra_unit)


def test_a_unit_that_is_one_row_adds_one_row() -> None:
    made = neighbours_of(policy(limits=None))
    assert len(made.populations_with_extra_unit) > 10
    assert {each.tables["visits"].num_rows for each in made.populations_with_extra_unit} == {
        made.ordinary_population.tables["visits"].num_rows + 1
    }


def test_cells_are_missing_outside_and_strange() -> None:
    made = {each.name: _unit(each) for each in neighbours_of(policy()).populations_with_extra_unit}
    assert {row["age"] for row in made["missing cells"]} == {None}
    assert {row["age"] for row in made["outside cells"]} == {111, -1}
    assert {row["ward"] for row in made["outside cells"]} == {"not listed"}
    assert {len(row["drugs"]) for row in made["outside cells"]} == {3}
    costs = [row["cost"] for row in made["strange cells"]]
    assert any(cost != cost for cost in costs)
    assert float("inf") in costs
    assert any("DROP TABLE" in (row["note"] or "") for row in made["strange cells"])


def test_a_unit_within_a_period_stays_in_it() -> None:
    """Rows of another day would be another unit's: they would not be neighbours."""
    made = neighbours_of(policy(unit=PrivacyUnit("person", period="day", period_column="day")))
    for each in made.populations_with_extra_unit:
        assert len({row["day"] for row in _unit(each)}) == 1, each.name


def test_a_unit_may_have_a_key_that_leads_to_rows_of_others() -> None:
    visits = Table("visits", NOWHERE, {"ward": {"values": ["a", "b"]}}, id="who", max_rows=2)
    drugs = Table(
        "drugs",
        NOWHERE,
        {"dose": {"type": "integer", "bounds": [0, 9]}},
        id={"via": "visits", "on": "visit"},
        max_rows=3,
    )
    made = neighbours_of(Policy(PrivacyUnit("person"), Budget(3), {"visits": visits, "drugs": drugs}))
    named = {each.name: each for each in made.populations_with_extra_unit}
    shared = [row["visit"] for row in _unit(named["a key that another unit has too"])]
    assert shared == ["1"]
    assert _unit(named["one row"])[0]["visit"] == "1000"
    alone = named["rows in visits alone"]
    assert alone.tables["drugs"].num_rows == made.ordinary_population.tables["drugs"].num_rows
    assert len(_unit(alone)) == 3


def test_tables_may_be_stored_as_texts() -> None:
    made = neighbours_of(policy(), texts=True)
    kinds = {name: str(kind) for name, kind in zip(*_schema(made), strict=True)}
    assert kinds == {**dict.fromkeys(["who", *COLUMNS], "string"), "drugs": "list<item: string>"}
    for each in made.populations[::4]:
        open_engine(made.policy_over(each), None, 1).close()
    assert as_text_file_cell(True) == "true"
    assert as_text_file_cell(None) is None


def _schema(made: NeighbouringTables) -> tuple[list[str], list[pa.DataType]]:
    schema = made.ordinary_population.tables["visits"].schema
    return schema.names, schema.types


def test_limits_beyond_what_is_invented_are_told() -> None:
    made = neighbours_of(policy(limits=(MAX_ROWS, 1, 1)))
    assert made.tables_with_unreached_limit == ("visits",)
    assert max(each.tables["visits"].num_rows for each in made.populations_with_extra_unit) <= MAX_ROWS + 3
    assert neighbours_of(policy(limits=(MAX_ROWS - 1, 1, 1))).tables_with_unreached_limit == ()


def test_the_account_is_thrown_away_and_the_terms_are_the_policys() -> None:
    declared = policy("replace")
    made = neighbours_of(declared)
    opened = made.policy_over(made.ordinary_population)
    assert opened.neighbours is declared.neighbours
    assert opened.tables["visits"].max_rows == 5
    assert opened.path is None
    assert opened.budget.epsilon > 10**6


@pytest.mark.parametrize(
    ("domain", "outside"),
    [
        (Domain("integer", bounds=(0, 9)), (10, -1)),
        (Domain("real", bounds=("0.5", "2")), (3.0, -0.5)),
        (Domain("date", bounds=("0001-01-01", "9999-12-31")), ()),
        (Domain("date", bounds=("2024-01-01", "2024-01-02")), (dt.date(2024, 1, 3), dt.date(2023, 12, 31))),
        (Domain("text", values=("a",)), ("not listed",)),
        (Domain("text"), ()),
        (Domain("integer"), ()),
    ],
)
def test_what_is_outside_is_just_outside(domain: Domain, outside: tuple[Any, ...]) -> None:
    assert GeneratedCells(domain).outside == outside


def test_numbers_are_at_the_ends_that_are_asked_for() -> None:
    cells = GeneratedCells(Domain("integer", bounds=(3, 5)))
    assert [cells.ordinary(n, RangeEnds.HIGH) for n in range(3)] == [5, 5, 5]
    assert [cells.ordinary(n, RangeEnds.LOW) for n in range(3)] == [3, 3, 3]
    assert [cells.ordinary(n, RangeEnds.BOTH) for n in range(3)] == [5, 3, 5]
    assert [cells.ordinary(n, RangeEnds.SPREAD) for n in range(4)] == [5, 4, 3, 5]
    lists = ListCells(ListColumn(Domain("text", values=("a", "b")), 3))
    assert lists.ordinary(0, RangeEnds.HIGH) == ["a", "b", "a"]


def test_it_is_a_feature() -> None:
    assert sf.audit.neighbours_of(policy()).pairs
    with pytest.raises(AttributeError):
        sf.audit.nothing_of_the_kind  # noqa: B018
