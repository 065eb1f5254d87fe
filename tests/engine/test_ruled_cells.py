"""Cells mean what the rules of their columns say: by hand, and against a reading of their own in Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.ruled import COLUMNS, READINGS, hand_made, meaning, policy_of, random_cells
from engine.tables import in_csv, in_database, in_parquet
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.inspection import DuckDBInspector
from sfumato.plan.costs import MAX_STEPS
from sfumato.plan.values.grammars import max_cell_steps
from sfumato.policy import Policy, Table
from sfumato.policy.cell_rules import MAX_FORMATS, MAX_MAPPED, MAX_WORDS, CellRules
from sfumato.privacy import Budget, PrivacyUnit


def clean(policy: Policy, order: str = "n") -> list[tuple[Any, ...]]:
    with Sources(policy) as sources:
        return sources.run(f"SELECT * FROM {sources.scan('t')} ORDER BY {order}")


def test_every_rule_means_what_its_table_says() -> None:
    policy, meant = hand_made()
    for name, *cells in zip(meant, *clean(policy), strict=True):
        stored = [
            None if cell is None else str(cell)[:40] for cell in policy.tables["t"].source.table[name].to_pylist()
        ]
        assert list(zip(stored, cells, strict=True)) == list(zip(stored, meant[name], strict=True)), name


@pytest.mark.parametrize("column", list(READINGS))
def test_random_cells_mean_what_python_reads(column: str) -> None:
    """4,000 texts, most of the column's form: NUL, other digits, marks and letters put in anywhere."""
    random = Random(f"cells of {column}")
    cells = random_cells(column, 4_000, random)
    rows = pa.table({"n": range(len(cells)), column: cells})
    read = clean(policy_of({"n": {"type": "integer"}, column: READINGS[column][0]}, rows))
    expected = [meaning(column, cell) for cell in cells]
    assert 1_000 < sum(value is not None for value in expected) < 3_700
    for cell, (_, value), wanted in zip(cells, read, expected, strict=True):
        assert value == wanted, (cell, value, wanted)


@pytest.mark.parametrize("stored", [in_parquet, in_csv, in_database, lambda table, _: table])
def test_every_source_is_read_by_the_same_rules(stored: Callable[[pa.Table, Path], Any], tmp_path: Path) -> None:
    cells = ["5.3.2024", "31.2.2024", "NA", " 7.3.2024"]
    table = pa.table({"n": range(4), "day": cells})
    source = stored(table, tmp_path)
    columns = {"n": {"type": "integer"}, "day": COLUMNS["german"].declared}
    relation = {"relation": "t"} if stored is in_database else {}
    days = [None if day is None else day.day for _, day in clean(policy_of(columns, source, **relation))]
    assert days == [5, None, None, 7]


def test_a_clock_without_a_day_is_of_the_first_day_of_1900() -> None:
    cells = ["10:00AM", "9:58 pm", "12:00AM", "12:30PM", "13:00AM", "10:00", "1900-01-01 10:00"]
    columns = {"n": {"type": "integer"}, "at": {"type": "timestamp", "format": ["%I:%M%p", "%I:%M %p"]}}
    read = [at for _, at in clean(policy_of(columns, pa.table({"n": range(len(cells)), "at": cells})))]
    clock = [(10, 0), (21, 58), (0, 0), (12, 30)]
    assert read == [*(dt.datetime(1900, 1, 1, hour, minute) for hour, minute in clock), None, None, None]


def test_public_tables_are_read_by_rules_too() -> None:
    private = Table("t", pa.table({"a": [1]}), {"a": {"type": "integer"}}, id="row")
    rows = pa.table({"code": ["F", "m ", "NA"]})
    columns = {"code": {"values": ["f", "m"], "trim": True, "case": "lower"}}
    public = Table("p", rows, columns, public=True, nulls=("NA",))
    unit = PrivacyUnit("row", every_row=True)
    with Sources(Policy(unit, Budget(1), {"t": private, "p": public})) as sources:
        assert sources.run(f"SELECT code FROM {sources.scan('p')} ORDER BY code") == [("f",), ("m",), (None,)]


def test_names_of_a_source_are_not_taken(tmp_path: Path) -> None:
    """A source may have columns that are called as those that rules add."""
    names = ["SF_R0_t0", "sf_r0_x0", "sf_r1_c0", "x0"]
    table = pa.table({"n": [0], "day": ["5.3.2024"], **{name: ["NA"] for name in names}})
    columns = {"n": {"type": "integer"}, "day": COLUMNS["german"].declared, "x0": {"type": "text"}}
    path = in_parquet(table, tmp_path)
    ((_, day, x0),) = clean(policy_of(columns, path))
    assert (day.day, x0) == (5, "NA")


def test_a_cell_is_read_by_itself() -> None:
    """Other units' rows, changed or left out, change nothing in a row: factor 1 under both neighbour relations."""
    policy, _ = hand_made()
    rows = policy.tables["t"].source.table
    whole = clean(policy)
    columns = policy.tables["t"]
    for left_out in (0, 7, rows.num_rows - 1):
        without = pa.concat_tables([rows.slice(0, left_out), rows.slice(left_out + 1)])
        own = clean(policy_of(columns.columns, without, rules=columns.rules))
        assert own == whole[:left_out] + whole[left_out + 1 :]


def test_a_row_beyond_the_limit_counts_no_more() -> None:
    """One unit with max_rows + 1 rows has as many clean rows; its ids stay as they are stored."""
    rows = pa.table({"who": ["NA", "NA", "NA", " NA", None], "day": ["5.3.2024"] * 5})
    table = Table("t", rows, {"day": {"type": "date", "format": "%d.%m.%Y"}}, id="who", max_rows=2, nulls=("NA",))
    policy = Policy(PrivacyUnit("person"), Budget(1), {"t": table})
    with Sources(policy) as sources:
        read = sources.run(f"SELECT sf_unit, count(*), count(day) FROM {sources.scan('t')} GROUP BY ALL ORDER BY ALL")
    assert read == [(" NA", 1, 1), ("NA", 3, 3)]


def test_an_inspection_counts_what_rules_leave_missing() -> None:
    """NULL in the source and cells that rules call missing are missing; what fits no format is made NULL."""
    cells = ["5.3.2024", "NA", " NA", None, "31.2.2024", "2024-03-05", "1.1.1900", "5.3.2024"]
    columns = {"day": {"type": "date", "format": "%d.%m.%Y", "nulls": ["NA"], "bounds": ["2000-01-01", "2030-01-01"]}}
    with DuckDBInspector(policy_of(columns, pa.table({"day": cells}))) as inspector:
        cost = inspector.inspect("t").columns["day"]
    assert (cost.missing, cost.missing_by_rules, cost.nulled, cost.clamped_low) == (3 / 8, 2 / 8, 2 / 8, 1 / 8)


def test_no_cell_costs_more_than_a_question_may() -> None:
    formats = [f"%A %d %B %Y %I:%M:%S.%f %p %z {'x' * number}" for number in range(MAX_FORMATS)]
    words = tuple(map(str, range(MAX_WORDS)))
    pairs = tuple((f"x{number}", "a") for number in range(MAX_MAPPED))
    for rules in (
        CellRules(format=tuple(formats), nulls=words),
        CellRules(decimal=",", thousands=".", currency="EUR", nulls=words),
        CellRules(trim=True, case="lower", map=pairs, nulls=words),
        CellRules(true=words, false=tuple(f"x{word}" for word in words)),
    ):
        assert max_cell_steps(rules) <= MAX_STEPS


def test_long_cells_cost_no_more_than_the_longest_that_is_read() -> None:
    """A megabyte of spaces, separators or digits is no number and no date, and is not searched."""
    long_cells = [letter * 10**6 for letter in (" ", "1", "1.", "1 ", "€", "-")]
    columns = {
        "price": {"type": "real", "decimal": ",", "thousands": ".", "currency": "€", "nulls": ["NA"]},
        "day": {"type": "date", "format": ["%d.%m.%Y", "%B %d %Y"]},
    }
    rows = pa.table({"n": range(len(long_cells)), "price": long_cells, "day": long_cells})
    read = clean(policy_of({"n": {"type": "integer"}, **columns}, rows))
    assert [row[1:] for row in read] == [(None, None)] * len(long_cells)


def test_duckdb_itself_would_read_other_dates() -> None:
    """Why formats are grammars of our own: an engine's strptime fails a row, or reads what no format says."""
    with pytest.raises(duckdb.Error):
        duckdb.sql("SELECT strptime('31.2.2024', '%d.%m.%Y')").fetchall()
