"""Names with spaces, accents, digits and quotes, wherever they go: policy, source, question, answer, command line."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

import sfumato as sf
from cli.running import run
from sfumato.errors import InvalidPolicy
from sfumato.plan.quoting import quoted
from sfumato.policy.toml_files import to_toml

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
TABLE, ID, WARD, COST, DAY = "2024 Visits – Ärzte", "Patient N°", "Station", "Total Cost €", 'day "of" visit'
HOSPITALS, BEDS = "hôpitaux; DROP TABLE x", "lits'--"
COLUMNS: dict[str, Any] = {
    WARD: sf.Domain("text", values=("A", "B")),
    COST: sf.Domain("real", bounds=(0, 100)),
    DAY: sf.Domain("integer", bounds=(1, 3)),
}
ROWS = {
    ID: [f"p{index % 40}" for index in range(200)],
    WARD: ["A" if index % 3 else "B" for index in range(200)],
    COST: [float(index % 100) for index in range(200)],
    DAY: [1 + index % 3 for index in range(200)],
}
PLACES = {WARD: ["A", "B"], BEDS: ["few", "many"]}


def stored(kind: str, folder: Path, name: str, rows: dict[str, list[Any]]) -> dict[str, Any]:
    """A table in a file of this kind, or in memory: what its policy says of the source."""
    table = pyarrow.table(rows)
    if kind == "memory":
        return {"source": table}
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    elif kind == "csv":
        written = [[each.replace('"', '""') for each in rows], *zip(*rows.values(), strict=True)]
        path.write_text("\n".join(",".join(f'"{cell}"' for cell in line) for line in written) + "\n")
    else:
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")
        return {"source": path, "relation": name}
    return {"source": path}


def policy(kind: str, folder: Path) -> sf.Policy:
    private = sf.Table(TABLE, columns=COLUMNS, id=ID, max_rows=5, **stored(kind, folder, "visits", ROWS))
    public = sf.Table(HOSPITALS, public=True, **stored(kind, folder, "places", PLACES))
    path = folder / "policy.toml"
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(10), {TABLE: private, HOSPITALS: public}, path=path)


ASKED = (
    f'SELECT h.{quoted(BEDS)}, {quoted(DAY)} AS "le jour", COUNT(*) AS n, AVG({quoted(COST)}) AS {quoted(COST)}, '
    f"COUNT(DISTINCT {quoted(ID)}) AS who FROM main.{quoted(TABLE)} AS v JOIN {quoted(HOSPITALS)} AS h "
    f"USING ({quoted(WARD.lower())}) WHERE v.{quoted(COST)} >= 0 GROUP BY h.{quoted(BEDS)}, {quoted(DAY)}"
)


@pytest.mark.parametrize(
    "kind", ["csv", "duckdb", *(pytest.param(each, marks=pytest.mark.long) for each in ("parquet", "memory"))]
)
def test_names_go_everywhere(kind: str, tmp_path: Path) -> None:
    with sf.Curator(policy(kind, tmp_path), tmp_path / "ledger") as curator:
        ask = curator.sql(ASKED)
        assert quoted(COST) in str(ask.explain(epsilon=1))
        answer = ask.release(epsilon=4)
        assert answer.columns == (BEDS, "le jour", "n", COST, "who")
        assert set(answer.column(BEDS)) == {"few", "many"}
        assert sum(answer.column("n")) == pytest.approx(200, abs=200)
        assert sf.Answer.from_json(answer.to_json()) == answer
        assert COST in answer.to_csv()
        assert [row[0] for row in curator.sql("SHOW TABLES").release().rows] == [TABLE, HOSPITALS]
        assert [row[0] for row in curator.sql(f"DESCRIBE {quoted(TABLE)}").release().rows] == [ID, *COLUMNS]
        assert COST in str(curator.check())
        found = curator.sql(f"SELECT COUNT(*) FROM {quoted(TABLE)} WHERE {quoted(COST)} > $1", [50])
        assert quoted(COST) in found.text


def test_a_policy_file_and_the_command_line(tmp_path: Path) -> None:
    made = policy("parquet", tmp_path)
    assert made.path is not None
    made.path.write_text(to_toml(made, tmp_path), encoding="utf-8")
    dry = run("query", made.path, ASKED, "--within", "who=90", "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    done = run("query", made.path, ASKED, "--epsilon", "1", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["columns"] == [BEDS, "le jour", "n", COST, "who"]
    assert run("check", made.path).exit_code == 0


def test_accents_may_be_written_as_two_letters(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "Größe é")
    rows = pyarrow.table({"who": [1, 2], apart: [1, 2]})
    table = sf.Table("t", rows, {"Größe é": sf.Domain("integer", bounds=(0, 5))}, id="who", max_rows=1)
    with sf.Curator(sf.Policy(sf.PrivacyUnit("p"), sf.Budget(1), {"t": table}), tmp_path / "ledger") as curator:
        assert (
            curator.sql(f'SELECT SUM("{apart}") AS s FROM t').identity
            == curator.sql('SELECT SUM("größe é") AS s FROM t').identity
        )
    with pytest.raises(InvalidPolicy):
        sf.Table("t", rows, {apart: sf.Domain("integer")}, id="who", max_rows=1)


HOSTILE = [
    "",
    " a",
    "a ",
    "a\nb",
    "a\tb",
    "a\0",
    "\u202ea",
    "a\u200bb",
    "a\u00a0b",
    "\ud800",
    "x" * 64,
    "sf_a",
    "SF_a",
    "\u0301a",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        sf.Table("t", "t.csv", {name: sf.Domain("integer")}, id="who", max_rows=1)
    assert "sf_" in refused.value.rule or "visible characters" in refused.value.rule
    with pytest.raises(InvalidPolicy):
        sf.Table(name, "t.csv", {"a": sf.Domain("integer")}, id="who", max_rows=1)
    with pytest.raises(InvalidPolicy):
        sf.Table("t", "t.csv", {"a": sf.Domain("integer")}, id=name, max_rows=1)


@pytest.mark.parametrize(
    "name",
    [
        "'; DROP TABLE t; --",
        '" OR 1 = 1 --',
        "a.b",
        "[x]",
        "{0}",
        "%s",
        "select",
        "x" * 63,
        "?",
        "$1",
        ":a",
        "1",
        "*",
        "-- x",
    ],
)
def test_hostile_names_are_names(name: str, tmp_path: Path) -> None:
    rows = pyarrow.table({"who": list(range(50)), name: ["a"] * 30 + ["b"] * 20})
    columns = {name: sf.Domain("text", values=("a", "b"))}
    table = sf.Table(name, rows, columns, id="who", max_rows=1)
    with sf.Curator(sf.Policy(sf.PrivacyUnit("p"), sf.Budget(200), {name: table}), tmp_path / "ledger") as curator:
        ask = curator.sql(f"SELECT {quoted(name)}, COUNT(*) AS n FROM {quoted(name)} GROUP BY {quoted(name)}")
        assert ask.release(epsilon=100).rows == (("a", 30), ("b", 20))
        with pytest.raises(sf.Unsupported) as refused:
            curator.sql(f"SELECT COUNT(*) FROM {quoted(name + 'x')}")
        assert quoted(name) in refused.value.fix


def test_names_joined_by_a_space_are_told_apart(tmp_path: Path) -> None:
    """What is generated for the column "b c" of "a" is not that for the column "c" of "a b"."""
    made = {
        "a": sf.Table(
            "a",
            pyarrow.table({"who": [1], "b c": ["x"]}),
            {"b c": sf.Domain("text", values=("x",))},
            id="who",
            max_rows=1,
        ),
        "a b": sf.Table(
            "a b",
            pyarrow.table({"who": [1], "c": ["y"]}),
            {"c": sf.Domain("text", values=("y",))},
            id="who",
            max_rows=1,
        ),
        "arriving": sf.Table(
            "arriving", pyarrow.table({"who": [1], "c": ["y"]}), {"c": sf.Domain("text")}, id="who", max_rows=1
        ),
    }
    with sf.Curator(sf.Policy(sf.PrivacyUnit("p"), sf.Budget(999), made), tmp_path / "ledger") as curator:
        for text in ('SELECT "b c", COUNT(*) FROM a GROUP BY 1', 'SELECT c, COUNT(*) FROM "a b" GROUP BY 1'):
            assert curator.sql(text).release(epsilon=100).rows[0][1] == 1
        assert curator.sql("SELECT COUNT(*) FROM arriving WHERE c = 'y'").release(epsilon=100).rows == ((1,),)


@pytest.mark.parametrize(
    ("question", "fix"),
    [
        ('SELECT COUNT(DISTINCT "N° abonné") FROM t', 'use COUNT(DISTINCT ("N° abonné", DATE_TRUNC(\'day\', "vu à")))'),
        (
            'SELECT COUNT(*) FROM t WHERE "N° abonné" = 1',
            'count units: SELECT COUNT(DISTINCT ("N° abonné", DATE_TRUNC(\'day\', "vu à"))) FROM t',
        ),
        (
            'SELECT AVG(n) FROM (SELECT "N° abonné", COUNT(*) AS n FROM t GROUP BY "N° abonné")',
            'write GROUP BY "N° abonné", DATE_TRUNC(\'day\', "vu à")',
        ),
        (
            'SELECT AVG(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY Station ORDER BY "vu à") AS n FROM t)',
            'write OVER (PARTITION BY "N° abonné", Station …)',
        ),
        (
            "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.Station = b.Station",
            'add AND a."N° abonné" = b."N° abonné" to ON',
        ),
    ],
)
def test_a_fix_writes_names_as_sql_reads_them(tmp_path: Path, question: str, fix: str) -> None:
    held = pyarrow.table({"N° abonné": ["1"], "vu à": ["2024-01-01 10:00"], "Station": ["A"]})
    columns = {"vu à": sf.Domain("timestamp"), "Station": sf.Domain("text", values=("A", "B"))}
    unit = sf.PrivacyUnit("abonné", period="day", period_column="vu à")
    policy = sf.Policy(unit, sf.Budget(1), {"t": sf.Table("t", held, columns, id="N° abonné", max_rows=2)})
    with sf.Curator(policy, tmp_path / "t.ledger") as curator, pytest.raises(sf.Unsupported) as refused:
        curator.sql(question)
    assert refused.value.fix == fix
