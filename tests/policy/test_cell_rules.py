"""Cell rules in policies: what they mean, how they are written, and every mistake named by rule, place and fix."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy import PublicFace, read
from sfumato.policy.cell_rules import DIRECTIVES, RULE_KEYS, CellRules, parse_format
from sfumato.policy.toml_files import to_toml

MESSY = """
[unit]
name = "patient"
budget = { epsilon = 3 }

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 3
nulls = ["NA", ""]
[tables.visits.columns]
day    = { type = "date", format = "%B %d %Y" }
seen   = { type = "timestamp", format = ["%d.%m.%Y %H:%M", "%Y-%m-%d"], nulls = ["?"] }
smoker = { type = "boolean", true = ["Y"], false = ["N"] }
cost   = { type = "real", bounds = [0, 5000], decimal = ",", thousands = ".", currency = "€" }
sex    = { values = ["female", "male"], case = "lower", trim = true, map = { "f" = "female", "m" = "male" } }
state  = { values = ["NA", "KH"], nulls = [] }
dose   = { type = "integer", bounds = [0, 99], possible = [-1, 150] }
age    = { type = "integer" }
"""


def parsed(folder: Path, text: str = MESSY) -> sf.Policy:
    path = folder / "clinic.toml"
    path.write_text(text)
    return read(path)


def test_the_file_means_what_it_says(tmp_path: Path) -> None:
    policy = parsed(tmp_path)
    rules, table_nulls = policy.cell_rules("visits"), ("NA", "")
    assert rules == {
        "day": CellRules(format=("%B %d %Y",), nulls=table_nulls),
        "seen": CellRules(format=("%d.%m.%Y %H:%M", "%Y-%m-%d"), nulls=("?",)),
        "smoker": CellRules(true=("Y",), false=("N",), nulls=table_nulls),
        "cost": CellRules(decimal=",", thousands=".", currency="€", nulls=table_nulls),
        "sex": CellRules(case="lower", trim=True, map=(("f", "female"), ("m", "male")), nulls=table_nulls),
        "dose": CellRules(nulls=table_nulls, possible=(-1, 150)),
        "age": CellRules(nulls=table_nulls),
    }
    assert {key for column in rules.values() for key in column.keys} == {*RULE_KEYS}


def test_reading_inverts_writing(tmp_path: Path) -> None:
    policy = parsed(tmp_path)
    again = parsed(tmp_path, to_toml(policy, tmp_path))
    assert again == policy
    assert again.tables["visits"].rules["state"] == CellRules(nulls=())


def test_python_declares_rules_as_a_file_does() -> None:
    columns: dict[str, Any] = {
        "day": {"type": "date", "format": "%d.%m.%Y", "nulls": [dt.date(9999, 12, 31)]},
        "age": {"type": "integer", "nulls": [-999, Decimal("0.5")]},
        "ward": {"values": ["a"], "trim": False},
    }
    table = sf.Table("visits", "visits.csv", columns, id="row")
    assert table.rules == {
        "day": CellRules(format=("%d.%m.%Y",), nulls=("9999-12-31",)),
        "age": CellRules(nulls=("-999", "0.5")),
    }
    assert sf.Table("visits", "visits.csv", table.columns, id="row", rules=table.rules).rules == table.rules


def test_rules_are_declared_by_key() -> None:
    for rules in ("%d.%m.%Y", None, ["format"]):
        with pytest.raises(InvalidPolicy, match="a mapping of keys to values"):
            sf.Table("visits", "visits.csv", {"day": {"type": "date"}}, id="row", rules={"day": rules})  # type: ignore[dict-item]


def test_analysts_read_the_rules(tmp_path: Path) -> None:
    face = parsed(tmp_path).public_face()
    assert face.table("visits").column("cost").rules == CellRules(
        decimal=",", thousands=".", currency="€", nulls=("NA", "")
    )
    assert face.table("visits").column("state").rules is None
    assert PublicFace.from_json(face.to_json()) == face


@pytest.mark.parametrize(
    ("column", "place", "rule"),
    [
        ('age = { type = "integer", format = "%d.%m.%Y" }', "age.format", "date or timestamp"),
        ('age = { type = "integer", true = ["Y"] }', "age.true", "type boolean"),
        ('age = { type = "date", decimal = "," }', "age.decimal", "integer or real"),
        ('age = { type = "text", case = "lower" }', "age.case", "listed values"),
        ('age = { type = "text", trim = true }', "age.trim", "listed values"),
        ('age = { type = "integer", map = { "a" = "b" } }', "age.map", "type text"),
        ('age = { values = ["a"], map = { "x" = "b" } }', "age.map", "listed values"),
        ('age = { values = ["a", "b"], map = { "a" = "b" } }', "age.map", "from texts that are not listed values"),
        (
            'age = { values = ["a"], case = "lower", map = { "X" = "a" } }',
            "age.map",
            "in lower case, because the cells",
        ),
        ('age = { values = ["Ab"], case = "upper" }', "age.values", "written in upper case, because the cells"),
        (
            'age = { values = ["a "], trim = true }',
            "age.values",
            "written without spaces at the ends, because the cells",
        ),
        ('age = { type = "text", values = ["NA"], nulls = ["NA"] }', "age.nulls", "listed value"),
        ('age = { values = ["NA", "B"] }', "age.nulls", "listed value"),
        ('age = { type = "real", thousands = "." }', "age.thousands", "different from the decimal"),
        ('age = { type = "real", decimal = ";" }', "age.decimal", "a comma or a point"),
        ('age = { type = "real", thousands = "x" }', "age.thousands", "one of"),
        ('age = { type = "real", currency = "1" }', "age.currency", "without digits"),
        ('age = { type = "real", currency = "" }', "age.currency", "must be non-empty"),
        ('age = { type = "integer", nulls = "NA" }', "age.nulls", "a list"),
        ('age = { type = "integer", nulls = [" NA"] }', "age.nulls", "without spaces at the ends"),
        ('age = { type = "integer", nulls = ["NA", "NA"] }', "age.nulls", "repeated"),
        ('age = { type = "integer", nulls = [true] }', "age.nulls", "strings of at most 100 characters"),
        ('age = { type = "boolean", true = ["Y"], false = ["Y"] }', "age.false", "no entry in common with"),
        ('age = { type = "boolean", true = ["Y"], nulls = ["Y"] }', "age.true", "no entry in common with"),
        ('age = { values = ["a"], case = "Lower" }', "age.case", "lower or upper"),
        ('age = { values = ["a"], trim = "yes" }', "age.trim", "true or false"),
        ('age = { type = "date", format = "%d.%m" }', "age.format", "the month (%m, %b or %B) and the day (%d)"),
        ('age = { type = "date", format = [] }', "age.format", "must be non-empty"),
        (
            'age = { type = "text", most_items = 3, nulls = ["NA"] }',
            "age",
            "nulls cannot be set for a list column",
        ),
        ('patient = { type = "text", nulls = ["NA"] }', "patient.nulls", "merge or split units"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(tmp_path: Path, column: str, place: str, rule: str) -> None:
    text = MESSY.replace('age    = { type = "integer" }', column)
    with pytest.raises(InvalidPolicy) as refused:
        parsed(tmp_path, text)
    assert refused.value.place == f"tables.visits.columns.{place}"
    assert rule in refused.value.rule
    assert refused.value.fix


def test_columns_that_decide_the_unit_have_no_rules() -> None:
    """Neither a foreign key, nor the key it names, nor the period; the table's own nulls pass over them."""
    columns: dict[str, Any] = {"visit": {"type": "integer"}, "day": {"type": "date"}, "cost": {"type": "real"}}
    ruled = {"visit": {"nulls": ["0"]}, "day": {"format": "%d.%m.%Y"}}

    def policy(rules_of: str, column: str) -> sf.Policy:
        rules = {name: {column: ruled[column]} if name == rules_of else {} for name in ("visits", "tests")}
        visits = sf.Table("visits", "a.csv", columns, id="patient", max_rows=3, rules=rules["visits"], nulls=("NA",))
        path = {"via": "visits", "on": "visit"}
        tests = sf.Table("tests", "b.csv", columns, id=path, max_rows=3, rules=rules["tests"])
        unit = sf.PrivacyUnit("patient", period="day", period_column="day")
        return sf.Policy(unit, sf.Budget(1), {"visits": visits, "tests": tests})

    for table, column in (("visits", "visit"), ("tests", "visit"), ("visits", "day"), ("tests", "day")):
        with pytest.raises(InvalidPolicy, match="merge or split units") as refused:
            policy(table, column)
        assert refused.value.place.startswith(f"tables.{table}.columns.{column}.")
    assert policy("", "visit").cell_rules("visits") == {"cost": CellRules(nulls=("NA",))}


def test_a_table_without_columns_has_no_nulls(tmp_path: Path) -> None:
    text = MESSY + '\n[tables.hospitals]\nsource = "hospitals.csv"\npublic = true\nnulls = ["NA"]\n'
    with pytest.raises(InvalidPolicy, match="columns of the table are declared"):
        parsed(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("%d.%m.%Y %Q", "written without %Q"),
        ("%d.%m.%Y %", "written without %"),
        ("%F", "written without %F"),
        ("%d.%m.%y %Y", "the month (%m, %b or %B) and the day (%d)"),
        ("%d.%m.%b.%Y", "the month (%m, %b or %B) and the day (%d)"),
        ("%j.%m.%Y", "written without %j"),
        ("%d.%d.%m.%Y", "without repeated directives"),
        ("%d.%m.%Y %I:%M", "completed with %p, because it has %I"),
        ("%d.%m.%Y %H:%M %p", "completed with %I, because it has %p"),
        ("%d.%m.%Y %M", "completed with the hour"),
        ("%d.%m.%Y %H:%S", "completed with %M, because it has %S"),
        ("%d.%m.%Y %z", "completed with the hour"),
        ("%d.%m.%Y5", "a separator between its numbers"),
        ("1%d.%m.%Y", "a separator between its numbers"),
        ("%H%M%S.%f%Y%m%d", "a separator between its numbers"),
        ("%H:%M%z%Y%m%d", "a separator between its numbers"),
        ("", "a string of 1 to 60 visible characters"),
        ("%d.%m.%Y\n", "visible characters"),
        ("%d" * 31, "60 visible characters"),
        (7, "a string of 1 to 60 visible characters"),
    ],
)
def test_a_format_that_is_incomplete_or_ambiguous_is_refused(text: object, rule: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parse_format(text)
    assert rule in refused.value.rule


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("%d.%m", "add the year: %Y"),
        ("%Y-%d", "add the month: %m"),
        ("%b %Y", "add the day: %d"),
        ("%d.%m.%Y %y", "keep only one of %Y and %y"),
    ],
)
def test_the_fix_of_an_incomplete_format_names_the_part(text: str, fix: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        parse_format(text)
    assert refused.value.fix == fix


def test_numbers_beside_each_other_have_their_zeros() -> None:
    padded = [part.directive for part in parse_format("%Y%m%d %H:%M") if part.is_padded]
    assert padded == ["Y", "m", "d"]
    assert {part.directive for part in parse_format("%A %d %B %Y, %I:%M:%S.%f %p %z 100%%")} <= {*DIRECTIVES, ""}


def test_the_clock_alone_is_for_times() -> None:
    CellRules(format=("%I:%M %p",)).check_fit(sf.Domain("timestamp"))
    with pytest.raises(InvalidParameter, match="year, month and day, because the column holds dates"):
        CellRules(format=("%I:%M %p",)).check_fit(sf.Domain("date"))
