"""SHOW TABLES and DESCRIBE: what the policy declares, free, and nothing of what the data hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run, spent

POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = 3.0 }}

[tables.visits]
source = "visits.csv"
id = "patient_id"
max_rows = 5

[tables.visits.columns]
ward = {{ values = ["A", "B"], nullable = true }}
age = {{ type = "integer", bounds = [0, 110] }}
cost = {{ type = "real", bounds = [0, 60.5], grid = 0.25 }}
note = {{ type = "text", max_length = 40 }}
{more}

[tables.wards]
source = "wards.csv"
public = true
"""
ROWS = "patient_id,ward,age,cost,note,secret\n1,A,50,1.5,x,9\n2,B,60,2.5,y,8\n"


def written(folder: Path, more: str = "", rows: str = ROWS) -> Path:
    (folder / "visits.csv").write_text(rows)
    (folder / "wards.csv").write_text("ward,floor\nA,1\nB,2\n")
    (folder / "clinic.toml").write_text(POLICY.format(more=more))
    return folder / "clinic.toml"


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sf.Curator]:
    with sf.open(written(tmp_path)) as curator:
        yield curator


@pytest.fixture(scope="module")
def uncharged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """A curator that refuses, and is charged nothing."""
    with sf.open(written(tmp_path_factory.mktemp("clinic"))) as curator:
        yield curator


def test_tables_are_listed_free(clinic: sf.Curator) -> None:
    before = len(list(clinic.history()))
    asked = clinic.sql("show tables;")
    found = asked.release(epsilon=1, fresh=True, request_id="x")
    assert found.columns == ("table", "kind", "about")
    assert found.rows[0][:2] == ("visits", "private")
    assert "all rows of one patient" in found.rows[0][2]
    assert "5 rows" in found.rows[0][2]
    assert found.rows[1] == ("wards", "public", "protects nobody")
    assert asked.price({"n": 5}) == 0
    assert asked.error(epsilon=1).accepted
    assert "free" in str(asked.explain())
    assert len(list(clinic.history())) == before
    assert "<table>" in found._repr_html_()
    assert repr(found).splitlines()[0].split() == ["table", "kind", "about"]
    assert sf.Listing.from_json(found.to_json()) == found
    assert found.to_csv().startswith("table,kind,about\nvisits,private,")


def test_columns_are_listed_as_they_are_declared(clinic: sf.Curator) -> None:
    for text in ("DESCRIBE visits", "desc Visits", "DESCRIBE main.visits", 'DESCRIBE "visits"'):
        assert clinic.sql(text).release().rows == (
            ("patient_id", "id", "identifies the unit of a row; COUNT(DISTINCT …) counts units"),
            ("ward", "text", "one of A, B, NULL is a group"),
            ("age", "integer", "from 0 to 110"),
            ("cost", "real", "from 0 to 60.5, in steps of 0.25"),
            ("note", "text", "at most 40 letters"),
        )
    assert [row[:2] for row in clinic.sql("DESCRIBE wards").release().rows] == [("ward", "text"), ("floor", "integer")]


def test_a_summary_offers_a_priced_question_about_each_column(clinic: sf.Curator) -> None:
    """The facts are those of DESCRIBE; the offers are questions that parse and have a price."""
    summary = clinic.sql("SUMMARIZE visits")
    assert tuple(row[:3] for row in summary.rows) == clinic.sql("DESCRIBE visits").rows
    offers = {row[0]: row[3] for row in summary.rows}
    assert offers == {
        "patient_id": "",
        "ward": "SELECT ward, COUNT(*) AS count FROM visits GROUP BY ward",
        "age": "SELECT QUANTILE_CONT(age, [0.25, 0.5, 0.75]) AS age FROM visits",
        "cost": "SELECT QUANTILE_CONT(cost, [0.25, 0.5, 0.75]) AS cost FROM visits",
        "note": "",  # its values are not declared, and the account has no δ to find them
    }
    for sql in filter(None, offers.values()):
        assert clinic.sql(sql).error(epsilon=1).accepted
    assert clinic.sql("SUMMARIZE wards").columns == ("column", "type", "declared")
    assert not any(clinic.budget.spent.values())


def test_a_view_describes_its_own_columns(clinic: sf.Curator) -> None:
    described = clinic.table("visits").where("age > 40").derive(months="age * 12").describe()
    offers = {row[0]: row[3] for row in described.rows}
    assert offers["months"] == (
        "SELECT QUANTILE_CONT(age * 12, [0.25, 0.5, 0.75]) AS months FROM visits WHERE age > 40"
    )
    assert clinic.sql(offers["months"]).error(0.5).accepted
    assert {row[0]: row[2] for row in described.rows}["months"] == "from 0 to 1320"


def test_a_view_of_a_table_is_described_as_the_table_is(tmp_path: Path) -> None:
    """With the id of the unit, the rules of its cells, and a median for dates."""
    day = 'day = { type = "date", bounds = [2024-01-01, 2024-12-31], format = "%d.%m.%Y" }'
    header, *lines = ROWS.splitlines()
    rows = "\n".join([f"{header},day", *(f"{line},01.02.2024" for line in lines), ""])
    with sf.open(written(tmp_path, day, rows)) as curator:
        described = curator.table("visits").describe()
        assert described.rows == curator.sql("SUMMARIZE visits").release().rows
        assert described.rows[0][:2] == ("patient_id", "id")
        assert "written as %d.%m.%Y" in described.rows[-1][2]
        assert described.rows[-1][3] == "SELECT MEDIAN(day) AS day FROM visits"
        assert curator.sql(described.rows[-1][3]).error(epsilon=1).accepted


def test_the_data_change_nothing(tmp_path: Path) -> None:
    found = []
    for name, rows in (("a", ROWS), ("b", ROWS.splitlines()[0] + "\n" + "7,C,999,-5,zzz,1\n" * 50)):
        (tmp_path / name).mkdir()
        with sf.open(written(tmp_path / name, rows=rows)) as curator:
            listings = [curator.sql(text) for text in ("SHOW TABLES", "DESCRIBE visits", "SUMMARIZE visits")]
            found.append((*listings, curator.table("visits").where("age > 5").describe()))
            assert not any(curator.budget.spent.values())
    assert found[0] == found[1]
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("DESCRIBE visit", "unknown-table"),
        ("DESCRIBE other.visits", "listing"),
        ("DESCRIBE SELECT * FROM visits", "listing"),
        ("SUMMARIZE visit", "unknown-table"),
        ("SUMMARIZE SELECT * FROM visits", "listing"),
        ("SUMMARIZE other.visits", "listing"),
        ("SHOW ALL TABLES", "listing"),
        ("SHOW COLUMNS FROM visits", "listing"),
        ("PRAGMA table_info('visits')", "listing"),
        ("SHOW TABLES; SELECT 1", "one-statement"),
        ("DESCRIBE 'visits.csv'", "unknown-table"),
        ("DESCRIBE $1", "parameter"),
    ],
)
def test_nothing_else_is_listed(uncharged: sf.Curator, text: str, code: str) -> None:
    with pytest.raises(sf.Unsupported) as refused:
        uncharged.sql(text)
    assert refused.value.code == code


def test_parameters_find_the_stored_answer(clinic: sf.Curator) -> None:
    clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 40 AND ward = 'A'").release(epsilon=1)
    again = clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE age > ? AND ward = ?", [40, "A"]).release(epsilon=1)
    named = clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE age > :a AND ward = $w", {"a": 40, "w": "A"})
    assert again.receipt.free
    assert named.release(epsilon=1).receipt.free
    assert named.text == "SELECT COUNT(*) AS n FROM visits WHERE age > 40 AND ward = 'A'"
    other = clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE age > ? AND ward = ?", [41, "A"])
    assert not other.release(epsilon="0.5").receipt.free


def test_the_command_lists_without_a_price(tmp_path: Path) -> None:
    policy = written(tmp_path)
    done = run("query", policy, "DESCRIBE visits")
    assert done.exit_code == 0, done.stderr
    assert "from 0 to 110" in done.stdout
    assert '"kind":"listing/1"' in run("query", policy, "SHOW TABLES", "--json").stdout.replace(" ", "")
    assert run("query", policy, "SHOW TABLES", "--csv").stdout.splitlines()[2] == "wards,public,protects nobody"
    assert run("query", policy, "SHOW TABLES", "--explain").exit_code == 0
    assert run("query", policy, "SHOW TABLES", "--dry-run").exit_code == 0
    assert spent(policy) == 0


def test_the_command_takes_parameters(tmp_path: Path) -> None:
    policy = written(tmp_path)
    text = "SELECT COUNT(*) AS n FROM visits WHERE age > $age AND note = $note AND cost < :cost"
    given = ("--param", "age=-40", "--param", "note='5'", "--param", "cost=1.5")
    done = run("query", policy, text, *given, "--epsilon", "0.5", "--json")
    assert done.exit_code == 0, done.stderr
    assert "note = '5' AND cost < 1.5" in done.stdout
    numbered = run("query", policy, "SELECT COUNT(*) FROM visits WHERE age > ?", "--param", "1=40", "--epsilon", "0.5")
    assert numbered.exit_code == 0, numbered.stderr
    for wrong in (("age",), ("=5",), ("age=1", "age=2")):
        options = [part for each in wrong for part in ("--param", each)]
        assert run("query", policy, text, *options, "--epsilon", "0.5").exit_code == 2
    missing = run("query", policy, text, *given[:4], "--epsilon", "0.5")
    assert missing.exit_code != 0
    assert "$cost" in missing.stderr
    assert run("query", policy, "SELECT COUNT(*) FROM visits", "--param", "a=1", "--epsilon", "1").exit_code != 0


def test_long_lists_of_values_stay_on_a_line(tmp_path: Path) -> None:
    names = [f"Square number {n} of the town" for n in range(30)]
    rows = "patient_id,ward,age,cost,note,place\n1,A,50,1.5,x,9\n"
    with sf.open(written(tmp_path, f"place = {{ values = {names} }}", rows)) as curator:
        declared = {row[0]: row[2] for row in curator.sql("DESCRIBE visits").release().rows}
    assert declared["place"] == f"one of {', '.join(names[:2])}, … 28 more"
