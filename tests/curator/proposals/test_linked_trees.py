"""More than two linked tables, by several links of one parent and by chains; and what the policy declares of every
row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import sfumato as sf
from publish.linked.worlds import LIMIT, PARENTS, curator, hospital_people, hospital_policy, people
from sfumato.cli import main
from sfumato.errors import InvalidParameter, SynopsisDamaged, Unsupported
from sfumato.publish.files import sealed_files
from sfumato.publish.synthetic_tables import ModelPair, TablesManifest
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
KEYS = 7_000_000
"""What is added to the ids of the data, so that none could be a new key."""
HOSPITAL = ["patients", "visits", "drugs", "tests"]
CLINIC = ["patients", "visits"]
HOSPITAL_LIMITS = {"patients": 1, "visits": PARENTS, "drugs": LIMIT, "tests": LIMIT}
FEW_COLUMNS: dict[str, Any] = {"columns": ["patients.sex", "visits.ward"], "ways": 2}


def _far_hospital(count: int) -> Any:
    """A hospital beyond all limits, whose keys could not be new ones."""
    patients, visits, drugs, tests = hospital_people(5, count)
    owners = [(who + KEYS, *row) for who, *row in patients]
    stays = [(who + KEYS, visit + KEYS, *row) for who, visit, *row in visits]
    stays += [(KEYS, KEYS + 5 + number, "A", 3) for number in range(4 * PARENTS)]
    takes = [(who + KEYS, *row) for who, *row in drugs] + [(KEYS + 1, "x")] * 4 * LIMIT
    return owners, stays, takes, [(visit + KEYS, *row) for visit, *row in tests] + [(KEYS + 5, "p")] * 4 * LIMIT


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.SyntheticTables]:
    with curator(tmp_path_factory.mktemp("hospital"), hospital_policy(_far_hospital(300))) as opened:
        tables = opened.synthesize(["tests", "patients", "visits", "drugs"], **FEW_COLUMNS).release(epsilon=40)
        steps = [line for line in opened.history() if line.kind == "step"]
        assert len(steps) == sum(len(model.steps) for model in tables.models.values())
        assert opened._context.account.spent["pure"] == 40
        yield tables


def test_children_of_several_tables_and_of_children_have_their_parents(hospital: sf.SyntheticTables) -> None:
    assert hospital.names == ("patients", "visits", "tests", "drugs")
    for count in (None, 1, 200):
        tables = hospital.to_pandas(count)
        patients, visits, tests, drugs = tables.values()
        assert patients.who.tolist() == list(range(1, len(patients) + 1))
        assert visits.visit.tolist() == list(range(1, len(visits) + 1))
        assert [list(rows) for rows in tables.values()] == [
            ["who", "sex"],
            ["who", "visit", "ward"],
            ["visit", "result"],
            ["who", "drug"],
        ]
        assert {*visits.who} | {*drugs.who} <= {*patients.who}
        owned_tests = tests.merge(visits, on="visit")
        assert len(owned_tests) == len(tests)
        for table, rows in {"visits": visits, "drugs": drugs, "tests": owned_tests}.items():
            assert len(rows) == 0 or rows.groupby("who").size().max() <= HOSPITAL_LIMITS[table]
    assert len(owned_tests) > 20


def test_children_of_children_keep_the_limit_of_their_unit(
    hospital: sf.SyntheticTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row gets as many children as one unit may have: a patient's second visit is left without tests."""
    monkeypatch.setattr(
        ModelPair, "_draw_child_counts", lambda pair, cells: np.full(len(cells), pair.link.max_children)
    )
    patients, visits, tests, _ = hospital.to_pandas(50).values()
    assert (visits.groupby("who").size() == PARENTS).all()
    assert len(visits) == PARENTS * len(patients)
    assert (tests.merge(visits, on="visit").groupby("who").size() == LIMIT).all()


def test_prices_of_several_tables_add_up_to_the_price(tmp_path: Path) -> None:
    with curator(tmp_path, hospital_policy(hospital_people(1, 5))) as opened:
        states = opened.synthesize(HOSPITAL)._start_state(Price(3)).states
    assert sum(state.setting.currency.total for state in states.values()) == 3


def test_children_depend_on_all_tables_above(hospital: sf.SyntheticTables) -> None:
    """In the data a woman's tests are p and a man's q, whatever the ward: the patient's sex passes through visits."""
    patients, visits, tests, drugs = hospital.to_pandas(2000).values()
    tested = tests.merge(visits, on="visit").merge(patients, on="who")
    assert ((tested.sex == "f") == (tested.result == "p")).mean() > 0.85
    taken = drugs.merge(patients, on="who")
    assert ((taken.sex == "f") == (taken.drug == "x")).mean() > 0.85


def test_every_table_of_several_is_charged_for_its_own_limit(hospital: sf.SyntheticTables) -> None:
    for table, model in hospital.models.items():
        for step in model.steps:
            if step.sensitivity is not None:
                assert step.sensitivity.total * model.released.unit_value == HOSPITAL_LIMITS[table]
    assert all(check.holds for check in hospital.verify().checks)
    for epsilon, is_kept in ((40, True), ("39.999", False)):
        stated = replace(
            hospital, price=Price(epsilon), receipt=replace(hospital.receipt, guarantee=str(Price(epsilon)))
        )
        assert {check.name: check.holds for check in stated.verify().checks}["promise"] is is_kept


def test_questions_about_joins_along_the_links(hospital: sf.SyntheticTables) -> None:
    patients, visits, _, tests = hospital_people(5, 300)
    sexes, owners = {who: sex for who, sex, _ in patients}, {visit: who for who, visit, *_ in visits}
    chain = "tests t JOIN visits v ON t.visit = v.visit JOIN patients p ON p.who = v.who"
    turned = "patients p JOIN visits v USING (who) JOIN tests t USING (visit)"
    for join in (chain, turned):
        answer = hospital.sql(f"SELECT p.sex, COUNT(*) AS n FROM {join} WHERE t.result = 'p' GROUP BY p.sex")
        assert answer.columns == ("sex", "n")
        for sex, counted in answer.rows:
            true = sum(sexes[owners[visit]] == sex and result == "p" for visit, result in tests)
            assert abs(counted - true) < 40
    per_visit = hospital.sql("SELECT COUNT(*) AS n FROM visits v JOIN patients p ON v.who = p.who WHERE sex = 'm'")
    assert abs(per_visit.rows[0][0] - sum(sexes[who] == "m" for who, *_ in visits)) < 40
    tested = hospital.sql("SELECT COUNT(*) AS n FROM visits WHERE \"number of tests\" = '1'")
    assert abs(tested.rows[0][0] - len({visit for visit, _ in tests})) < 40
    assert {*hospital.quality()} == {*HOSPITAL}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits v JOIN drugs d ON v.who = d.who",
        "SELECT COUNT(*) FROM tests t JOIN patients p ON t.visit = p.who",
        "SELECT COUNT(*) FROM tests t JOIN visits v ON t.visit = v.visit JOIN patients p ON p.who = v.visit",
        "SELECT COUNT(*) FROM tests t JOIN visits v ON t.visit = v.visit JOIN patients p ON t.visit = v.visit",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON v.who = p.who JOIN patients q ON v.who = q.who",
    ],
)
def test_joins_beside_the_links_are_refused(hospital: sf.SyntheticTables, text: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        hospital.sql(text)
    assert refusal.value.code == "join"
    assert refusal.value.fix


def test_several_tables_are_written_and_read_back(hospital: sf.SyntheticTables, tmp_path: Path) -> None:
    question = "SELECT p.sex, COUNT(*) AS n FROM visits v JOIN patients p ON v.who = p.who GROUP BY p.sex"
    hospital.save(tmp_path / "hospital.sfu")
    for again in (sf.SyntheticTables.from_json(hospital.to_json()), sf.synopsis(tmp_path / "hospital.sfu")):
        assert isinstance(again, sf.SyntheticTables)
        assert (again.links, again.price, again.names) == (hospital.links, hospital.price, hospital.names)
        assert [link.inherited_columns for link in again.links] == [link.inherited_columns for link in hospital.links]
        assert again.sql(question).rows == hospital.sql(question).rows
        assert [*map(str, again.verify().checks)] == [*map(str, hospital.verify().checks)]
        again.save(tmp_path / "again.sfu")
        assert (tmp_path / "again.sfu").read_bytes() == (tmp_path / "hospital.sfu").read_bytes()
    shown = CliRunner().invoke(main, ["synopsis", "show", str(tmp_path / "hospital.sfu")])
    assert "visits.visit = tests.visit; tests are drawn given" in shown.stdout
    asked = CliRunner().invoke(main, ["ask", str(tmp_path / "hospital.sfu"), question, "--csv"])
    assert asked.stdout.startswith("sex,n")
    drawn = CliRunner().invoke(main, ["sample", str(tmp_path / "hospital.sfu"), "-o", str(tmp_path / "rows.csv")])
    assert "this file has several" in drawn.stderr


def test_an_edited_file_of_several_tables_is_refused(hospital: sf.SyntheticTables, tmp_path: Path) -> None:
    path = tmp_path / "hospital.sfu"
    hospital.save(path)
    content = path.read_bytes()
    for place in range(7, len(content), len(content) // 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(SynopsisDamaged):
            sf.synopsis(path)
    manifest = TablesManifest(
        1, sealed_files.member_hashes({"models.zip": b""}), hospital.links, Price(1), hospital.receipt
    )
    path.write_bytes(sealed_files.to_bytes(manifest, {"models.zip": b""}))
    with pytest.raises(SynopsisDamaged, match="a model of each table"):
        sf.synopsis(path)


def test_files_of_other_links_are_refused(hospital: sf.SyntheticTables) -> None:
    for links in ((), hospital.links[1:], (hospital.links[0],) * 3, hospital.links[::-1]):
        with pytest.raises(InvalidParameter):
            replace(hospital, links=links)


def test_tables_under_other_names_answer_and_draw(hospital: sf.SyntheticTables) -> None:
    other = hospital.renamed("people", "stays", "labs", "pills")
    text = "SELECT COUNT(*) AS n FROM {} t JOIN {} v ON t.visit = v.visit JOIN {} p ON p.who = v.who"
    assert (
        other.sql(text.format("labs", "stays", "people")).rows
        == hospital.sql(text.format("tests", "visits", "patients")).rows
    )
    assert tuple(other.draw(3)) == ("people", "stays", "labs", "pills")
    for names in (("people", "stays"), ("people",) * 4):
        with pytest.raises(InvalidParameter, match="different names"):
            hospital.renamed(*names)


def test_given_columns_and_orders_are_named_by_their_tables(tmp_path: Path) -> None:
    with curator(tmp_path, hospital_policy(hospital_people(1, 5))) as opened:
        options: dict[str, Any] = {"given": ["patients.sex", "visits.ward"], "order": "visits.Day"}
        links = {link.child: link for link in opened.synthesize(HOSPITAL, **options).links}
        assert (links["visits"].order, links["tests"].order, links["drugs"].order) == ("day", "", "")
        assert links["drugs"].linked_columns == links["visits"].linked_columns == ("sex",)
        assert (links["tests"].linked_columns, links["tests"].inherited_columns) == (("ward",), ("patients.sex",))
        bare = opened.synthesize(HOSPITAL, order="drug", given=["age"]).links
        assert [link.order for link in bare] == ["", "drug", ""]
        by_table = opened.synthesize(HOSPITAL, order={"visits": "day", "drugs": "drug"}).links
        assert {link.child: link.order for link in by_table} == {"visits": "day", "drugs": "drug", "tests": ""}
        with pytest.raises(sf.InvalidParameter, match="one column of each table, but visits has day, ward"):
            opened.synthesize(HOSPITAL, order=["visits.day", "visits.ward"])
        with pytest.raises(sf.InvalidParameter, match="order"):
            opened.synthesize(HOSPITAL, order={"visits": "height"})
        assert [link.linked_columns for link in bare] == [("age",), ("age",), ("ward", "day")]
        assert "tests are drawn given number of tests, visits.ward" in str(opened.synthesize(HOSPITAL).explain())


def test_a_key_that_refers_upwards_identifies_no_rows(tmp_path: Path) -> None:
    policy = hospital_policy(hospital_people(1, 5))
    stays = replace(policy.tables["visits"], columns={**policy.tables["visits"].columns, "who": {"type": "integer"}})
    tests = replace(policy.tables["tests"], id={"via": "visits", "on": "visit", "key": "who"})
    tables = {**policy.tables, "visits": stays, "tests": tests}
    with curator(tmp_path, replace(policy, tables=tables)) as opened, pytest.raises(Unsupported) as refusal:
        opened.synthesize(["patients", "visits", "tests"])
    assert refusal.value.code == "ambiguous-key"


# ── what the policy declares of every row ────────────────────────────────────────────────────────


def _ruled_policy(**more: Any) -> sf.Policy:
    """A clinic in which a day, if it is known, determines its week, and a city its region by its levels."""
    patients, visits = people(6, 120)
    cities = ["Kiel", "Bonn", "Ulm"]
    parent = pd.DataFrame(patients, columns=["who", "sex", "age"])
    parent["city"] = [cities[age % 3] for age in parent.age]
    parent["region"] = ["north" if city == "Kiel" else "south" for city in parent.city]
    child = pd.DataFrame(visits, columns=["who", "ward", "day"])
    child["day"] %= 8
    child["week"] = child.day // 4
    child["day"] = child.day.astype("Int64").mask(child.index % 3 == 0)
    levels = {"north": ["Kiel"], "south": ["Bonn", "Ulm"]}
    tables = {
        "patients": sf.Table(
            "patients",
            parent,
            {"city": {"values": cities, "levels": levels}, "region": {"values": ["north", "south"]}},
            id="who",
            max_rows=1,
            implies={"city": "region"},
        ),
        "visits": sf.Table(
            "visits",
            child,
            {
                "day": {"type": "integer", "values": [*range(8)], "nullable": True},
                "week": {"type": "integer", "values": [0, 1]},
                "ward": {"values": ["A", "B"]},
                "who": {"type": "integer", "bounds": [0, 999], "bins": 10},
            },
            id="who",
            max_rows=LIMIT,
            implies={"day": "week", **more},
        ),
    }
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(50, "1e-6"), tables, size=120)


@pytest.mark.parametrize("order", ["day", pytest.param(None, marks=pytest.mark.long)])
def test_implied_columns_are_implied_in_every_row(tmp_path: Path, order: str | None) -> None:
    """Also after rows are sorted by a column that determines another, and at a price at which noise outweighs rows."""
    with curator(tmp_path, _ruled_policy()) as clinic:
        proposal = clinic.synthesize(CLINIC, order=order, ways=2)
        assert "day → week" in str(proposal.explain(epsilon=1))
        tables = proposal.release(epsilon=2)
        drawn = tables.to_pandas(2000)
    assert tables.warnings == ()
    assert (drawn["visits"].groupby("day").week.nunique() == 1).all()
    assert ((drawn["patients"].city == "Kiel") == (drawn["patients"].region == "north")).all()
    assert drawn["visits"].day.nunique() > 3


def test_a_key_that_determines_a_column_is_refused_with_a_fix(tmp_path: Path) -> None:
    with curator(tmp_path, _ruled_policy(who="ward")) as clinic:
        with pytest.raises(Unsupported) as refusal:
            clinic.synthesize(CLINIC)
        assert refusal.value.code == "implied-key"
        assert refusal.value.fix == "leave the column out: columns=['visits.day', 'visits.week']"
        assert clinic.synthesize(CLINIC, columns=["visits.day", "visits.week"]).first_link.child_columns == (
            "day",
            "week",
        )
        assert not any(line.kind in ("charge", "tab-open") for line in clinic.history())
    (tmp_path / "other").mkdir()
    with curator(tmp_path / "other", _ruled_policy(ward="who")) as clinic, pytest.raises(Unsupported) as refusal:
        clinic.synthesize(CLINIC)
    assert refusal.value.code == "implied-key"


def test_an_implication_that_no_model_can_hold_is_refused(tmp_path: Path) -> None:
    with curator(tmp_path, _ruled_policy()) as clinic, pytest.raises(Unsupported) as refusal:
        clinic.synthesize(CLINIC, given=[], memory=8 * 20)
    assert refusal.value.code == "too-many-cells"
