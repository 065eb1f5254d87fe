"""Dummies: invented tables that a policy alone decides."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings

from policy.test_toml_writing import domains
from sfumato.cli import main
from sfumato.curator import Curator
from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, Policy, Table, Via, read
from sfumato.policy.dummies import invent_column
from sfumato.privacy import Budget, PrivacyUnit

POLICY = """
[unit]
name = "patient"
budget = { epsilon = 3 }
[tables.visits]
source = "data/visits.csv"
id = "patient_id"
max_rows = 3
columns = { age = { type = "integer", bounds = [0, 110] }, ward = { values = ["A", "B"], nullable = true } }
[tables.drugs]
source = "drugs.parquet"
id = { via = "visits", on = "visit_id" }
max_rows = 5
columns = { dose = { type = "real", bounds = [0, 1], grid = 0.25 }, tags = { values = ["x"], most_items = 3 } }
[tables.wards]
source = "wards.csv"
public = true
"""


@given(domains)
@settings(max_examples=80)
def test_every_value_is_one_that_the_policy_allows(domain: Domain) -> None:
    made = invent_column(domain, 50, "t.x").to_pylist()
    present = [each for each in made if each is not None]
    assert domain.nullable or len(present) == 50
    if domain.values is not None:
        allowed = {float(each) if domain.type.value == "real" else each for each in domain.values}
        assert set(present) <= allowed
    elif domain.bounds is not None:
        low, high = (float(each) if domain.type.value == "real" else each for each in domain.bounds)
        assert all(low <= each <= high for each in present)
    elif domain.type.value == "text":
        assert all(len(each) <= domain.max_letters for each in present)


def test_a_dummy_is_the_same_every_time_and_keeps_the_limits(tmp_path: Path) -> None:
    (tmp_path / "clinic.toml").write_text(POLICY)
    policy = read(tmp_path / "clinic.toml")  # no source is there
    made = policy.dummy(rows=200)
    assert made == policy.dummy(rows=200)
    assert list(made) == ["visits", "drugs"]
    rows = made["visits"].group_by("patient_id").aggregate([("age", "count")])
    assert max(rows["age_count"].to_pylist()) == 3
    assert set(made["drugs"]["visit_id"].to_pylist()) <= set(made["visits"]["visit_id"].to_pylist())
    assert made["visits"].slice(0, 50) == policy.dummy(rows=50)["visits"]


def test_columns_do_not_follow_each_other() -> None:
    first, second = (
        invent_column(Domain("integer", bounds=(0, 9)), 1_000, name).to_pylist() for name in ("t.a", "t.b")
    )
    assert first != second
    assert all(60 <= first.count(number) <= 140 for number in range(10))


def test_a_column_that_is_an_id_too_is_one_column() -> None:
    columns = {"who": {"type": "text"}, "x": {"type": "boolean"}}
    tables = {
        "a": Table("a", pa.table({}), columns, id="who", max_rows=2),
        "b": Table("b", pa.table({}), {"x": {"type": "boolean"}}, id=Via("a", "k", "who"), max_rows=1),
    }
    made = Policy(PrivacyUnit("person"), Budget(1), tables).dummy(rows=10)
    assert made["a"].schema.field("who").type == pa.string()
    assert made["b"].column_names == ["k", "x"]


@pytest.mark.parametrize("rows", [0, -1, 10**9])
def test_rows_are_few_enough(rows: int, tmp_path: Path) -> None:
    (tmp_path / "clinic.toml").write_text(POLICY)
    with pytest.raises(InvalidParameter, match="rows"):
        read(tmp_path / "clinic.toml").dummy(rows=rows)


def test_the_command_writes_a_folder_that_can_be_asked(tmp_path: Path) -> None:
    (tmp_path / "clinic.toml").write_text(POLICY.partition("[tables.wards]")[0])
    asked = ["dummy", str(tmp_path / "clinic.toml"), "--rows", "1e2", "-o", str(tmp_path / "dummy")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    with Curator(tmp_path / "dummy" / "clinic.toml") as clinic:
        answer = clinic.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=1)
        assert answer.column("ward") == ["A", "B", None]
        clinic.sql("SELECT SUM(dose) AS dose FROM drugs").release(epsilon=1)
    assert CliRunner().invoke(main, asked).exit_code == 1  # a folder that is there is left alone
    assert not (tmp_path / "data").exists()
