"""Coded columns: every row is in the cell that SQL says it is in, whatever is stored."""

from __future__ import annotations

import datetime as dt
import math
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.tables import policy_of
from sfumato.curator.checking import CheckedTable
from sfumato.curator.context import Context
from sfumato.curator.listings import list_declarations
from sfumato.curator.policy_account import read_policy
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import InvalidPolicy, Unsupported
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.dense_readings import Marginals
from sfumato.plan.sql.rows import lower_rows
from sfumato.plan.sql.text import ListingRequest, parse_select
from sfumato.policy import Domain, Table
from sfumato.publish.cells.answering import level_labels
from sfumato.publish.marginals.attributes import (
    ListedCell,
    OtherCell,
    RangeCell,
    code_columns,
    coded_attribute,
    measurable_column_names,
)

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "smokes": {"type": "boolean"},
    "age": {"type": "integer", "bounds": [0, 110], "bins": [0, 18, 30, 65]},
    "width": {"type": "integer", "bounds": [-3, 20], "bins": [-2, 5, 12, 18]},
    "cost": {"type": "real", "bounds": [0, 1], "bins": 10},
    "dose": {"type": "real", "bins": [0.1, 0.3, 0.7]},
    "day": {"type": "date", "bounds": ["2024-01-05", "2024-04-30"], "levels": ["day", "month"]},
    "week": {"type": "date", "bounds": ["2024-01-05", "2024-04-30"], "bins": "week"},
    "month": {"type": "date", "bounds": ["2024-01-05", "2024-04-30"], "bins": "month"},
    "time": {"type": "timestamp", "bounds": ["2024-01-05 10:00", "2024-04-30 03:00"], "bins": "day"},
    "far": {"type": "integer", "bounds": [-(2**62), 2**62], "bins": 4},
    "income": {"type": "integer", "bounds": [-9, 999], "bins": [0, 10, 20, 30], "spikes": [0, 15, 500]},
    "loss": {"type": "real", "bounds": [0, 1], "bins": [0.1, 0.3, 0.7], "spikes": [0.1, 0.5]},
}
DAYS = [dt.date(2024, 1, 5) + dt.timedelta(days=step) for step in (-9, 0, 1, 2, 3, 27, 28, 55, 56, 115, 116, 117, 999)]
TIMES = [dt.datetime(2024, 1, 5, 9), dt.datetime(2024, 1, 5, 10), dt.datetime(2024, 1, 5, 23, 59, 59, 999999)]
CELLS: dict[str, list[Any]] = {
    "sex": ["f", "m", "x", "", None],
    "smokes": [True, False, None],
    "age": [-7, 0, 17, 18, 29, 30, 64, 65, 66, 110, 111, None],
    "width": [-9, -3, -2, 4, 5, 11, 12, 17, 18, 19, None],
    "cost": [-1.0, 0.0, 0.1, 0.3, 0.1 + 0.2, 0.7, 0.1 + 0.6, 0.9, 1.0, 2.0, math.nan, math.inf, -math.inf, None],
    "dose": [0.0, 0.1, 0.2, 0.3, 0.30000000000000004, 0.7, 0.7000000000000001, math.nan, math.inf, None],
    "day": [*DAYS, None],
    "week": [*DAYS, None],
    "month": [*DAYS, None],
    "time": [*TIMES, dt.datetime(2024, 1, 6), dt.datetime(2024, 4, 30), dt.datetime(2024, 5, 1), None],
    "income": [-9, -1, 0, 1, 9, 10, 14, 15, 16, 29, 30, 31, 499, 500, 501, None],
    "loss": [0.0, 0.1, 0.1 + 1e-17, 0.10000000000000002, 0.3, 0.5, 0.5000000000000001, 0.7, 0.8, None],
    "far": [-(2**62), -(2**61) - 1, -(2**61), -1, 0, 2**61, 2**62, None],
}
STORED = {
    "sex": pa.string(),
    "smokes": pa.bool_(),
    **dict.fromkeys(("age", "width", "far", "income"), pa.int64()),
    **dict.fromkeys(("cost", "dose", "loss"), pa.float64()),
    **dict.fromkeys(("day", "week", "month"), pa.date32()),
    "time": pa.timestamp("us"),
}


def table_of(name: str, cells: list[Any], **more: Any) -> Table:
    return Table("t", pa.table({name: pa.array(cells, STORED[name])}), {name: COLUMNS[name]}, id="row", **more)


def counted(engine: DuckDB, table: Table, name: str) -> np.ndarray:
    """How many rows each cell of one column has."""
    source = lower_rows(parse_select("SELECT * FROM t"), engine.catalog(), {})
    (made,) = code_columns(table, [name.upper()], source.resolve)
    plan = Aggregate(source.relation, (made.key,), (Count(),))
    (bounded,) = candidate_bounded_plans(plan, ContributionLimits.from_table(table), made.attribute.size)
    (marginal,) = engine.read(Marginals(bounded, (made.codes,), ((0,),)), 1)
    return marginal


def told(engine: DuckDB, table: Table, name: str, cell: Any) -> int:
    """How many rows SQL over the column finds in a cell, by comparisons written out."""
    written = f"{name} = {_sql(cell.value)}" if isinstance(cell, ListedCell) else _between(name, cell)
    source = lower_rows(parse_select(f"SELECT * FROM t WHERE {written}"), engine.catalog(), {})
    (bounded,) = candidate_bounded_plans(
        Aggregate(source.relation, (), (Count(),)), ContributionLimits.from_table(table), 1
    )
    (total,) = engine.read(Marginals(bounded, (), ((),)), 1)
    return int(total)


def _between(name: str, cell: RangeCell) -> str:
    return f"{name} >= {_sql(cell.low)} AND {name} {'<=' if cell.closed else '<'} {_sql(cell.high)}"


def _sql(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return str(value) if isinstance(value, (bool, int)) else repr(float(value))


@pytest.mark.parametrize("name", list(CELLS))
def test_a_row_is_in_the_cell_that_sql_says(name: str) -> None:
    cells = CELLS[name]
    table = table_of(name, cells)
    attribute = coded_attribute(name, table.columns[name], table.codings.get(name))
    with closing(DuckDB(policy_of(table))) as engine:
        found = counted(engine, table, name)
        assert found.sum() == len(cells)  # every row is in one cell
        shown = [place for place in range(attribute.size - 1) if found[place]]
        empty = [place for place in range(attribute.size - 1) if not found[place]][:2]
        for place in (*shown, *empty):
            cell = attribute.cells[place]
            apart = [each for each in attribute.cells if isinstance(each, ListedCell) and isinstance(cell, RangeCell)]
            inside = [each for each in apart if cell.low <= each.value < cell.high]
            wanted = told(engine, table, name, cell) - sum(told(engine, table, name, each) for each in inside)
            assert wanted == found[place], cell


def test_cells_are_those_of_the_policy() -> None:
    table = table_of("age", [1])
    attribute = coded_attribute("age", table.columns["age"], table.codings["age"])
    assert attribute.cells == (RangeCell(0, 18), RangeCell(18, 30), RangeCell(30, 65, closed=True), OtherCell())
    day = table_of("day", [DAYS[0]])
    (level,) = coded_attribute("day", day.columns["day"], day.codings["day"]).levels
    assert (level[0], level[-2:]) == (0, (3, 4))  # what is missing is a part of its own


@pytest.mark.parametrize(
    ("name", "code"),
    [("who", "unit-column"), ("WHO", "unit-column"), ("note", "uncoded-column"), ("ag", "unknown-column")],
)
def test_what_has_no_cells_is_refused(name: str, code: str) -> None:
    columns = {"age": COLUMNS["age"], "note": {"type": "text"}, "who": {"type": "integer", "values": [1]}}
    table = Table("t", object(), columns, id="who", max_rows=2)
    with pytest.raises(Unsupported) as refused:
        code_columns(table, [name], lambda *_: pytest.fail("nothing is resolved"))
    assert (refused.value.code, bool(refused.value.fix)) == (code, True)
    assert measurable_column_names(table) == ["age"]


@pytest.mark.parametrize(
    "condition",
    [
        "age <",
        "age",
        "nothing < 3",
        "note = 'x'",
        "other.age < 3",
        "COUNT(*) > 3",
        "age < (SELECT 3)",
        "age IN (SELECT 3)",
    ],
)
def test_impossible_is_a_condition_on_coded_columns(condition: str) -> None:
    columns = {"age": COLUMNS["age"], "note": {"type": "text"}}
    policy = policy_of(Table("t", object(), columns, id="row", impossible=("t.age < 15 AND AGE > 3", condition)))
    with pytest.raises(InvalidPolicy) as refused:
        read_policy(policy)
    assert refused.value.place == "tables.t.impossible[1]"
    assert refused.value.fix


def test_the_nearest_name_is_told_as_it_is_declared() -> None:
    policy = policy_of(Table("t", object(), {"AGEP": COLUMNS["age"]}, id="row", impossible=("age < 15",)))
    with pytest.raises(InvalidPolicy) as refused:
        read_policy(policy)
    assert refused.value.fix == "did you mean AGEP?"


def test_cells_are_told_and_part_of_what_is_declared() -> None:
    table = table_of("age", [1])
    with closing(DuckDB(policy_of(table))) as engine:
        listing = list_declarations("DESCRIBE t", ListingRequest("t"), policy_of(table), engine.catalog())
    assert listing.rows == (("age", "integer", "from 0 to 110, 3 bins with the edges 0, 18, 30, 65"),)
    checked = CheckedTable(table, table.columns, None, None)
    assert checked.declared == {"age": "integer from 0 to 110; 3 bins with the edges 0, 18, 30, 65"}
    plain = replace(table, columns={"age": Domain("integer", bounds=(0, 110))}, codings={})
    ways = [plain, table, replace(table, impossible=("age < 3",)), table_of("age", [1], impossible=("age < 4",))]
    versions = {Context(policy_of(each), None, None, print, "").policy_version for each in ways}  # type: ignore[arg-type]
    assert len(versions) == len(ways)


def test_parts_of_levels_have_the_names_of_the_policy() -> None:
    named = {"A": {"A0": ["A00", "A01"], "A1": ["A10"]}, "B": {"B0": ["B00"]}}
    twice = {"A": {"x": ["A00", "A01"]}, "B": {"x": ["B00"]}}
    bare = [["A00", "A01"], ["B00"]]
    tables = [Table("t", "t.parquet", {"icd": {"levels": each}}, id="row") for each in (named, twice, bare)]
    found = [coded_attribute("icd", each.columns["icd"], each.codings["icd"]) for each in tables]
    assert [each.labels for each in found] == [(("A0", "A1", "B0"), ("A", "B")), ((), ("A", "B")), ()]
    assert level_labels(found[0], 1) == ["A", "A", "A", "B", None]
    assert level_labels(found[1], 0) == ["A00 … A01", "A00 … A01", "B00", None]
