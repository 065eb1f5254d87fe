"""A public face says everything that a policy declares, and nothing of where its data are or who else asks."""

from __future__ import annotations

import json
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.policy import PublicFace, read

SECRET = "in-the-vault"

CLINIC = f"""
[unit]
name = "patient"
size = 500
neighbours = "{{neighbours}}"
budget = {{{{ epsilon = "1/3", delta = 1e-6 }}}}

[tables.visits]
source = "{SECRET}/visits.parquet"
id = "patient_id"
max_rows = 5
max_groups = 3
impossible = ["ward = 'A' AND urgent"]
implies = {{{{ ward = "urgent" }}}}
columns = {{{{ age = {{{{ type = "integer", bounds = [0, 110], bins = 11 }}}}, ward = {{{{ values = ["A", "B"] }}}}, \
urgent = {{{{ type = "boolean" }}}}, day = {{{{ type = "date", bounds = [2024-01-01, 2024-12-31] }}}}, \
seen = {{{{ type = "timestamp" }}}}, cost = {{{{ type = "real", bounds = [0, "1e3"], grid = "0.01" }}}}, \
codes = {{{{ type = "text", values = ["x", "y"], most_items = 4 }}}} }}}}

[tables.samples]
source = "{SECRET}/clinic.duckdb"
relation = "raw_{SECRET}"
id = {{{{ via = "visits", on = "visit_id" }}}}
max_rows = 9
columns = {{{{ level = {{{{ type = "integer", bounds = [1, 9] }}}} }}}}

[tables.wards]
source = "{SECRET}/wards.csv"
public = true

[analysts]
ana = {{{{ share = "1/3" }}}}
bob = {{{{ share = 0.5 }}}}
"""


@pytest.fixture(params=["add-remove", "replace"])
def policy(request: pytest.FixtureRequest, tmp_path: Path) -> sf.Policy:
    file = tmp_path / "clinic.toml"
    file.write_text(CLINIC.format(neighbours=request.param).replace("{{", "{").replace("}}", "}"))
    return read(file)


def test_it_says_what_is_declared(policy: sf.Policy) -> None:
    face = policy.public_face()
    assert face.account == "clinic"
    assert face.unit == policy.unit
    assert face.protects == f"all rows of one patient, {policy.neighbours.value} neighbours"
    assert face.budget == policy.budget
    assert face.size == 500
    visits, samples, wards = face.tables
    assert [each.name for each in visits.columns] == ["age", "ward", "urgent", "day", "seen", "cost", "codes"]
    assert visits.column("day").domain.bounds == (date(2024, 1, 1), date(2024, 12, 31))
    assert visits.column("codes").most_items == 4
    assert visits.column("age").cells
    assert (visits.id, visits.max_rows, visits.max_groups, visits.max_rows_per_group) == ("patient_id", 5, 3, None)
    assert visits.implies == (("ward", "urgent"),)
    assert visits.impossible == ("ward = 'A' AND urgent",)
    assert samples.foreign_key is not None
    assert (samples.foreign_key.column, samples.foreign_key.table, samples.foreign_key.key) == (
        "visit_id",
        "visits",
        "visit_id",
    )
    assert (wards.public, wards.columns, wards.foreign_key) == (True, (), None)


def test_it_says_nothing_of_sources_and_of_other_analysts(policy: sf.Policy) -> None:
    for face in (policy.public_face(), policy.public_face("ana")):
        for told in (face.to_json(), repr(face)):
            assert SECRET not in told
            assert "bob" not in told
            assert str(policy.path) not in told
            assert "parquet" not in told
    nobody = policy.public_face()
    assert (nobody.analyst, nobody.share) == ("", None)
    assert '"ana"' not in nobody.to_json()


def test_an_analyst_reads_their_own_share(policy: sf.Policy) -> None:
    face = policy.public_face("ana")
    assert (face.analyst, face.share) == ("ana", Fraction(1, 3))
    with pytest.raises(InvalidParameter):
        policy.public_face("eve")


def test_it_reads_back(policy: sf.Policy) -> None:
    for face in (policy.public_face(), policy.public_face("ana")):
        read_back = PublicFace.from_json(face.to_json())
        assert read_back == face
        assert read_back.to_json() == face.to_json()
        bounds = read_back.table("visits").column("day").domain.bounds
        assert bounds is not None
        assert type(bounds[0]) is date


def test_what_was_spent_is_no_part_of_it() -> None:
    spent = sf.Budget(1, "1e-6").charge(sf.Curve.pure("1/2"))
    columns = {"seen": sf.Domain("timestamp", bounds=(datetime(2024, 1, 1), datetime(2025, 1, 1)))}
    table = sf.Table("visits", "visits.parquet", columns, id="row")
    face = sf.Policy(sf.PrivacyUnit("visit", every_row=True), spent, {"visits": table}).public_face()
    assert face.budget == sf.Budget(1, "1e-6")
    assert (face.account, face.tables[0].id, face.tables[0].max_rows) == ("visit", "", 1)
    assert PublicFace.from_json(face.to_json()) == face


FACE = json.loads(
    sf.Policy(
        sf.PrivacyUnit("visit", every_row=True),
        sf.Budget(1),
        {"visits": sf.Table("visits", "v.csv", {"a": sf.Domain("text")}, id="row")},
    )
    .public_face()
    .to_json()
)


@pytest.mark.parametrize(
    "broken",
    [
        {"tables": [7]},
        {"tables": {}},
        {"unit": "plane"},
        {"budget": None},
        {"neighbours": "none"},
        {"source": "v.csv"},
        {"share": "many"},
        {"account": 7},
    ],
    ids=str,
)
def test_any_other_text_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        PublicFace.from_json(json.dumps(FACE | broken))
