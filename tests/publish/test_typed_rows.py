"""Values of rows: each in its cell, of its type, and no row that the policy rules out."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from sfumato.policy import Table
from sfumato.publish.cells.answering import QueryableTable, parse_condition
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, RangeCell, coded_attribute
from sfumato.publish.sampling import ColumnSampler, SampledRows, arrow_schema, remove_impossible_rows

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m", "ü"]},
    "smokes": {"type": "boolean"},
    "code": {"type": "integer", "values": [7, -3]},
    "dose": {"type": "real", "values": [0.1, 2.5]},
    "age": {"type": "integer", "bounds": [0, 110], "bins": [0, 18, 30, 65]},
    "far": {"type": "integer", "bounds": [-(2**62), 2**62], "bins": 3},
    "whole": {"type": "integer", "bounds": [-(2**62), 2**62], "bins": 1},
    "near": {"type": "integer", "bounds": [2**53 - 2, 2**53 + 6], "bins": 3},
    "tenths": {"type": "real", "bounds": [0, 1], "grid": 0.1, "bins": 5},
    "thirds": {"type": "real", "bounds": [0, 1], "grid": "1/3", "bins": 2},
    "cents": {"type": "real", "bounds": [0, "1e15"], "grid": 0.01, "bins": 7},
    "coarse": {"type": "real", "bounds": [0, 10], "grid": 4, "bins": [0, 1, 2, 10]},
    "free": {"type": "real", "bounds": [-1, 1], "bins": [-1, 0.1, 0.3, 1]},
    "huge": {"type": "real", "bounds": [-(2**500), 2**500], "grid": "1e-6", "bins": 3},
    "day": {"type": "date", "bounds": ["0001-01-01", "9999-12-31"], "bins": 5},
    "month": {"type": "date", "bounds": ["2024-01-05", "2024-04-30"], "bins": "month"},
    "time": {"type": "timestamp", "bounds": ["2024-01-05 10:00", "2024-04-30 03:00"], "bins": "month"},
    "tick": {"type": "timestamp", "bounds": ["2024-01-05 10:00:00.000001", "2024-01-05 10:00:00.000009"], "bins": 2},
    "ages": {"type": "timestamp", "bounds": ["0001-01-01", "9999-12-31 23:59:59.999999"], "bins": 4},
    "income": {"type": "integer", "bounds": [0, 1000], "bins": [0, 5, 100, 1000], "spikes": [0, 2, 1000]},
    "spend": {"type": "real", "bounds": [0, 10], "grid": 0.5, "bins": [0, 1, 10], "spikes": [0, 0.25, 7]},
    "loss": {"type": "real", "bounds": [-1, 1], "bins": 1, "spikes": [0, 1]},
    "due": {"type": "date", "bounds": ["2024-01-01", "2024-01-31"], "bins": 3, "spikes": ["2024-01-01"]},
}


def column(name: str) -> ColumnSampler:
    table = Table("t", object(), {name: COLUMNS[name]}, id="row")
    return ColumnSampler.for_attribute(
        coded_attribute(name, table.columns[name], table.codings.get(name)), table.columns[name]
    )


def rows_of(name: str, codes: Any) -> SampledRows:
    found = np.asarray(codes, np.int32).reshape(-1, 1)
    return SampledRows.from_codes([column(name)], np.asfortranarray(found))


def place(attribute: Attribute, value: Any) -> int:
    """Code a value again, by comparisons of what a row stores."""
    if value is None:
        return attribute.size - 1
    listed = [
        k for k, cell in enumerate(attribute.cells) if isinstance(cell, ListedCell) and plain(cell.value) == value
    ]
    if listed:
        return listed[0]
    for k, cell in enumerate(attribute.cells):
        if isinstance(cell, RangeCell) and plain(cell.low) <= value <= plain(cell.high):
            inside = cell.closed or value < plain(cell.high)
            if inside:
                return k
    return attribute.size - 1


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


@pytest.mark.parametrize("name", list(COLUMNS))
def test_every_value_lies_in_its_cell(name: str) -> None:
    made = column(name)
    codes = np.tile(np.arange(made.attribute.size), 300)
    rows = rows_of(name, codes)
    (array,) = rows.to_arrow().columns
    assert [place(made.attribute, value) for value in array.to_pylist()] == codes.tolist()
    assert rows.to_arrow().schema == arrow_schema([made.attribute])


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", [name for name in COLUMNS if column(name).has_bins])
def test_the_ends_of_cells_lie_in_them(name: str, end: int) -> None:
    made = column(name)
    codes = np.arange(made.attribute.size, dtype=np.int32)
    rows = rows_of(name, codes)
    rows.values[0][:] = made.extremes(codes)[end]
    kept = rows.to_arrow().column(0).to_pylist()
    assert [place(made.attribute, value) for value in kept] == codes.tolist()


@pytest.mark.parametrize(("name", "cell", "wanted"), [
    ("age", 0, range(18)),
    ("near", 1, range(2**53 + 1, 2**53 + 4)),
    ("tenths", 4, [0.8, 0.9, 1.0]),
    ("thirds", 1, [2 / 3, 1.0]),
    ("month", 0, [dt.date(2024, 1, 5) + dt.timedelta(days=k) for k in range(27)]),
    ("tick", 0, [dt.datetime(2024, 1, 5, 10, 0, 0, k) for k in (1, 2, 3, 4)]),
    ("income", 3, [1, 3, 4]),
    ("spend", 3, [0.5]),
])  # fmt: skip
def test_values_are_uniform_over_all_that_a_cell_holds(name: str, cell: int, wanted: Any) -> None:
    rows, values = 20_000, list(wanted)
    found = rows_of(name, np.full(rows, cell)).to_arrow().column(0).to_pylist()
    counts = np.array([found.count(each) for each in values])
    assert counts.sum() == rows
    score = ((counts - rows / len(values)) ** 2 / (rows / len(values))).sum()
    assert score < chi2.isf(1e-7, max(1, len(values) - 1))


def test_reals_are_on_their_grid_and_times_at_whole_seconds() -> None:
    cents = rows_of("cents", np.arange(7).repeat(200)).to_arrow().column(0).to_pylist()
    assert all(each == float(round(Fraction(each) * 100) / Fraction(100)) for each in cents)
    times = rows_of("time", np.arange(4).repeat(200)).to_arrow().column(0).to_pylist()
    assert all(each.microsecond == 0 for each in times)
    assert len({each.second for each in times}) > 30


def test_types_are_those_of_the_policy() -> None:
    names = ["sex", "smokes", "age", "tenths", "month", "time"]
    attributes = [column(name).attribute for name in names]
    kinds = [pa.string(), pa.bool_(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us")]
    assert arrow_schema(attributes) == pa.schema(list(zip(names, kinds, strict=True)))


def test_a_column_of_missing_values_keeps_its_type() -> None:
    for name in COLUMNS:
        rows = rows_of(name, np.full(5, column(name).attribute.size - 1)).to_arrow()
        assert rows.column(0).null_count == 5
        assert rows.schema == arrow_schema([column(name).attribute])
    assert rows_of("age", []).to_arrow().num_rows == 0


def test_a_column_may_have_one_cell_alone() -> None:
    bare = Attribute("none", "integer", (OtherCell(),))
    table = Table("t", object(), {"none": COLUMNS["code"]}, id="row")
    made = SampledRows.from_codes(
        [ColumnSampler.for_attribute(bare, table.columns["none"])], np.zeros((3, 1), np.int32)
    )
    assert made.to_arrow().column(0).to_pylist() == [None] * 3


# ── what the policy rules out ──────────────────────────────────────────────────────────────────


def ruled(names: list[str], conditions: list[str], codes: Any) -> tuple[SampledRows, QueryableTable]:
    table = Table("t", object(), {name: COLUMNS[name] for name in names}, id="row")
    attributes = tuple(coded_attribute(name, table.columns[name], table.codings.get(name)) for name in names)
    face = QueryableTable("t", attributes, tuple(table.columns.values()), None, None)  # type: ignore[arg-type]
    samplers = [ColumnSampler.for_attribute(*each) for each in zip(attributes, face.domains, strict=True)]
    rows = SampledRows.from_codes(samplers,
                   np.asfortranarray(np.asarray(codes, np.int32)))  # fmt: skip
    remove_impossible_rows(rows, [parse_condition(face, each) for each in conditions], face)
    return rows, face


def every(*sizes: int, times: int = 40) -> np.ndarray:
    return np.indices(sizes).reshape(len(sizes), -1).T.repeat(times, axis=0)


def test_conditions_that_cut_cells_hold_in_every_row() -> None:
    rows, _ = ruled(["age", "sex"], ["age < 20 AND sex = 'm'", "age % 7 = 3"], every(4, 4, times=400))
    found = rows.to_arrow().to_pylist()
    assert not any(each["age"] is not None and each["age"] < 20 and each["sex"] == "m" for each in found)
    assert not any(each["age"] is not None and each["age"] % 7 == 3 for each in found)
    assert any(each["age"] is not None and each["age"] < 20 for each in found)
    assert {each["age"] for each in found if each["sex"] == "f"} > set(range(18)) - {3, 10, 17}


def test_a_condition_that_leaves_one_value_of_a_bin_leaves_that() -> None:
    rows, _ = ruled(["far"], ["far > -4611686018427387904"], [[0]] * 50)
    assert rows.to_arrow().column(0).to_pylist() == [-(2**62)] * 50


def test_rows_without_a_place_become_copies_of_others_and_else_null() -> None:
    rows, _ = ruled(["age", "sex"], ["sex = 'm'"], [[0, 1]] * 20 + [[2, 0]] * 3)
    assert set(rows.to_arrow().column("sex").to_pylist()) == {"f"}
    assert all(30 <= each <= 65 for each in rows.to_arrow().column("age").to_pylist())
    rows, _ = ruled(["age", "sex"], ["age >= 0"], [[0, 1]] * 20)
    assert rows.to_arrow().column("age").null_count == 20


def test_missing_values_meet_no_comparison() -> None:
    codes = [[3, 3]] * 9
    rows, _ = ruled(["age", "sex"], ["age < 200", "sex <> 'x'"], codes)
    assert rows.codes.tolist() == codes


def test_conditions_on_dates_and_times_hold() -> None:
    rows, _ = ruled(["month", "time"], ["time < month", "EXTRACT(day FROM month) = 9"], every(5, 5))
    for each in rows.to_arrow().to_pylist():
        if each["month"] is not None:
            assert each["month"].day != 9
            assert each["time"] is None or each["time"].date() >= each["month"]
