"""Cells of columns: what bins and levels mean, and every mistake named by rule, place and fix."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain, Table, read
from sfumato.policy.codings import MAX_BINS, Coding, describe_cells, parse_coding

D = dt.date
YEAR = Domain("date", bounds=("2024-01-05", "2024-12-31"))
AGE = Domain("integer", bounds=(0, 110))
TIME = Domain("timestamp", bounds=("2024-01-05 10:00", "2024-03-02 03:00"))
ICD = {"A": {"A0": ["A00", "A01"], "A1": ["A10"]}, "B": {"B0": ["B00"]}}


def test_written_edges_are_bins() -> None:
    made = parse_coding(AGE, [0, 18, 30, 65], None)
    assert (made.starts, made.end) == ((0, 18, 30), 65)
    places = {-1: None, 0: 0, 17: 0, 18: 1, 29: 1, 30: 2, 65: 2, 66: None, None: None}
    assert {value: made.cell_index(value) for value in places} == places


def test_equal_bins_cover_the_bounds() -> None:
    made = parse_coding(AGE, 20, None)
    assert len(made.starts) == 20
    sizes = [sum(made.cell_index(age) == bin for age in range(111)) for bin in range(20)]
    assert sum(sizes) == 111
    assert {*sizes} == {5, 6}
    assert parse_coding(Domain("integer", bounds=(0, 9)), 10, None).starts == tuple(range(10))
    real = parse_coding(Domain("real", bounds=(0, 1)), 10, None)
    assert real.starts == tuple(Fraction(place, 10) for place in range(10))  # as they are written
    assert [real.cell_index(each) for each in (0.3, 0.30000000000000004, 0.1 + 0.7, 1.0)] == [3, 3, 7, 9]
    days = parse_coding(Domain("date", bounds=("2024-01-01", "2024-01-10")), 3, None)
    assert days.starts == (D(2024, 1, 1), D(2024, 1, 5), D(2024, 1, 8))


def test_the_calendar_cuts_dates_and_times() -> None:
    months = parse_coding(YEAR, "month", None)
    assert months.starts[:3] == (D(2024, 1, 5), D(2024, 2, 1), D(2024, 3, 1))
    assert (len(months.starts), months.end, months.cell_index(D(2024, 12, 31))) == (12, D(2024, 12, 31), 11)
    weeks = parse_coding(YEAR, "week", None)
    assert weeks.starts[1] == D(2024, 1, 8)  # a Monday
    assert weeks.width == 7
    times = parse_coding(TIME, "month", None)
    assert times.starts == (dt.datetime(2024, 1, 5, 10), dt.datetime(2024, 2, 1), dt.datetime(2024, 3, 1))
    assert len(parse_coding(YEAR, "quarter", None).starts) == 4
    assert len(parse_coding(YEAR, "year", None).starts) == 1


def test_levels_join_whole_cells() -> None:
    made = parse_coding(YEAR, None, ["day", "month", "year"])
    assert made == parse_coding(YEAR, "day", ["month", "year"]) == parse_coding(YEAR, "day", ["day", "month", "year"])
    assert [each.name for each in made.levels] == ["month", "year"]
    starts = [day.month - 1 for day in made.starts]
    assert made.levels[0].parts == tuple(starts)
    assert {*made.levels[1].parts} == {0}
    assert parse_coding(AGE, [0, 18, 30, 65], [[0, 30, 65]]).levels[0].parts == (0, 0, 1)


def test_lists_within_lists_are_levels_and_values() -> None:
    table = Table("t", object(), {"icd": {"levels": ICD}}, id="row")
    assert table.columns["icd"] == Domain("text", values=("A00", "A01", "A10", "B00"))
    fine, coarse = table.codings["icd"].levels
    assert (fine.parts, fine.labels) == ((0, 0, 1, 2), ("A0", "A1", "B0"))
    assert (coarse.parts, coarse.labels) == ((0, 0, 0, 1), ("A", "B"))
    plain = parse_coding(Domain("integer", values=(3, 1, 2), other=9), None, [[1, 2], [3]])
    assert plain.levels[0].parts == (1, 0, 0, 2)  # what stands for all others is a part of its own


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "integer", "bounds": [0, 9], "bins": [0, 5, 5]}, "rising order"),
    ({"type": "integer", "bounds": [0, 9], "bins": [0, 5, 10]}, "within the bounds"),
    ({"type": "integer", "bounds": [0, 9], "bins": [-1, 5]}, "within the bounds"),
    ({"type": "integer", "bounds": [0, 9], "bins": [3]}, "edges such as"),
    ({"type": "integer", "bounds": [0, 9], "bins": 11}, "at most the number of values within the bounds"),
    ({"type": "integer", "bounds": [0, 9], "bins": 0}, "number of bins"),
    ({"type": "integer", "bounds": [0, 9], "bins": True}, "edges such as"),
    ({"type": "integer", "bins": 10}, "bounds"),
    ({"type": "integer", "bounds": [3, 3], "bins": 1}, "unless the column has bounds with low < high"),
    ({"type": "integer", "bounds": [0, 9], "bins": "month"}, "for dates"),
    ({"type": "date", "bounds": ["2024-01-01", "2024-12-31"], "bins": "decade"}, "one of day"),
    ({"type": "date", "bins": "month"}, "bounds"),
    (
        {"type": "date", "bounds": ["2024-01-01", "2024-12-31"], "levels": ["week", "month"]},
        "each with some edges of the one before",
    ),
    (
        {"type": "date", "bounds": ["2024-01-01", "2024-12-31"], "levels": ["month", "day"]},
        "each with some edges of the one before",
    ),
    ({"type": "date", "bounds": ["2024-01-01", "2024-12-31"], "levels": []}, "such as"),
    (
        {"type": "integer", "bounds": [0, 9], "bins": [0, 3, 9], "levels": [[0, 4, 9]]},
        "each with some edges of the one before",
    ),
    (
        {"type": "integer", "bounds": [0, 9], "bins": [0, 3, 9], "levels": [[3, 9]]},
        "each with some edges of the one before",
    ),
    ({"type": "real", "bounds": [0, 1], "bins": MAX_BINS + 1}, "at most 1,000 bins"),
    ({"type": "text", "bins": 3}, "list its values"),
    ({"values": ["a", "b"], "bins": 2}, "each of which is counted by itself"),
    ({"values": ["a", "b"], "levels": [["a"], ["b", "c"]]}, "exactly once"),
    ({"values": ["a", "b"], "levels": [["a"]]}, "exactly once"),
    ({"values": ["a", "b"], "levels": [["a", "b"], ["b"]]}, "exactly once"),
    ({"values": ["a", "b"], "levels": ["a", "b"]}, "nested lists"),
    ({"values": ["a", "b"], "levels": [["a"], [["b"]]]}, "same depth"),
    ({"values": ["a", "b"], "levels": 3}, "nested lists"),
    ({"values": ["a"], "most_items": 3, "levels": [["a"]]}, "cannot have bins, levels or spikes"),
]


@pytest.mark.parametrize(("declared", "rule"), WRONG)
def test_mistakes_in_cells_are_named(declared: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        Table("t", object(), {"x": declared}, id="row")
    told = f"{refused.value.rule} {refused.value.fix}"
    assert rule in told
    assert refused.value.place.startswith("tables.t.columns.x.")
    assert refused.value.fix


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"implies": {"sex": "nothing"}}, "tables.t.implies.sex"),
        ({"implies": {"sex": "cost"}}, "tables.t.implies.sex"),
        ({"implies": {"sex": "sex"}}, "tables.t.implies.sex"),
        ({"implies": ["sex"]}, "tables.t.implies"),
        ({"impossible": "sex = 'f'"}, "tables.t.impossible"),
        ({"impossible": [""]}, "tables.t.impossible[0]"),
        ({"impossible": [3]}, "tables.t.impossible[0]"),
        ({"codings": {"nothing": Coding()}}, "tables.t.codings.nothing"),
    ],
)
def test_what_is_declared_of_cells_is_of_coded_columns(more: dict[str, Any], place: str) -> None:
    columns = {"sex": {"values": ["f", "m"]}, "cost": {"type": "real", "bounds": [0, 1]}}
    with pytest.raises(InvalidPolicy) as refused:
        Table("t", object(), columns, id="row", **more)
    assert refused.value.place == place


def test_a_public_table_has_no_cells() -> None:
    with pytest.raises(InvalidPolicy, match="cannot be set for a public table"):
        Table("t", object(), {"age": {"type": "integer", "bounds": [0, 9], "bins": 3}}, public=True)


def test_a_file_declares_cells(tmp_path: Path) -> None:
    (tmp_path / "clinic.toml").write_text(
        """
[unit]
name = "patient"
budget = { epsilon = 3.0 }
[tables.people]
source = "people.csv"
id = "row"
impossible = ["age < 15 AND married"]
implies = { city = "region" }
[tables.people.columns]
age = { type = "integer", bounds = [0, 110], bins = [0, 15, 65, 110] }
cost = { type = "real", bounds = [0, 10], bins = 20 }
day = { type = "date", bounds = [2024-01-01, 2024-12-31], levels = ["day", "month"] }
married = { type = "boolean" }
city = { levels = { north = ["Oslo", "Bergen"], south = ["Rome"] } }
region = { values = ["north", "south"] }
"""
    )
    table = read(tmp_path / "clinic.toml").tables["people"]
    assert table.implies == {"city": "region"}
    assert table.impossible == ("age < 15 AND married",)
    assert [name for name in table.columns if table.is_coded(name)] == list(table.columns)
    assert describe_cells(table.codings["age"]) == ["3 bins with the edges 0, 15, 65, 110"]
    assert describe_cells(table.codings["cost"]) == ["20 bins with the edges 0, 0.5, 1, 1.5, …, 9.5, 10"]
    assert describe_cells(table.codings["day"])[1] == "grouped into 12 months"
    assert describe_cells(table.codings["city"]) == ["grouped into 2 parts"]


def test_values_apart_have_cells_before_the_bins() -> None:
    made = parse_coding(AGE, [0, 18, 65], None, [0, 40, 90])
    assert made.spikes == (0, 40, 90)
    places = {0: 0, 40: 1, 90: 2, 1: 3, 17: 3, 18: 4, 65: 4, 66: None, None: None}
    assert {value: made.cell_index(value) for value in places} == places
    assert describe_cells(made) == ["2 bins with the edges 0, 18, 65", "3 values counted separately: 0, 40, 90"]
    real = parse_coding(Domain("real", bounds=(0, 1)), 2, None, [0.1])
    assert [real.cell_index(each) for each in (0.1, 0.10000000000000002, 0.5)] == [0, 1, 2]


def test_values_apart_are_in_the_part_of_their_bin_or_alone() -> None:
    made = parse_coding(AGE, [0, 5, 18, 65], [[0, 18, 65]], [3, 40, 90])
    assert [each.parts for each in made.levels] == [(0, 1, 2, 0, 0, 1)]


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ({"type": "integer", "bounds": [0, 9], "bins": 2}, []),
        ({"type": "integer", "bounds": [0, 9], "bins": 2}, 0),
        ({"type": "integer", "bounds": [0, 9], "bins": 2}, [0, 0]),
        ({"type": "integer", "bounds": [0, 9], "bins": 2}, [10]),
        ({"type": "integer", "bounds": [0, 9], "bins": 2}, ["x"]),
        ({"type": "integer", "bounds": [0, 9], "bins": [0, 1, 9]}, [0]),
        ({"type": "integer", "bounds": [0, 9], "bins": [0, 8, 9]}, [8, 9]),
        ({"type": "integer", "bounds": [0, 9]}, [0]),
        ({"type": "date", "bounds": ["9999-12-30", "9999-12-31"], "bins": 2}, ["9999-12-31"]),
        ({"type": "boolean"}, [True]),
        ({"values": ["a"]}, ["a"]),
    ],
)
def test_values_apart_that_mean_nothing_are_refused(column: dict[str, Any], written: Any) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        Table("t", object(), {"c": {**column, "spikes": written}}, id="row")
    assert refused.value.place == "tables.t.columns.c.spikes"
