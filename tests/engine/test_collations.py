"""A collation of the source has no say: text is told apart letter by letter, whatever column it stands in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest

from engine.tables import policy_of, tuples
from safety.worlds import question
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.duckdb.inspection import inspect_table
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.policy import Domain, Policy, Table

ROWS = [  # who, zone, word, spelt
    ("ann", "North", "café", "a"),
    ("Ann", "north", "cafe", "A"),
    ("ANN", "NORTH", "CAFE", "á"),
    ("ánn", "south", "tea", "b"),
    ("ann", "North", "Tea", "a"),
    ("bob", "North", "téa", "B"),
]
PLACES = [("a", "North"), ("A", "north"), ("á", "South"), ("b", "south"), ("B", "NORTH")]
COLUMNS = {
    "zone": {"values": ["North", "north", "NORTH", "south"]},
    "word": {"type": "text"},
    "spelt": {"type": "text"},
}
COLLATIONS = ("NOCASE", "NOACCENT", "NOCASE.NOACCENT", "de")


def _policy(path: Path, collation: str, rows: Any = ROWS, unit: str = "who") -> Policy:
    """Two tables in a database file: private rows of people, and public places to join them with."""
    path.unlink(missing_ok=True)
    text = f"VARCHAR {collation and f'COLLATE {collation}'}"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE people (who {text}, zone {text}, word {text}, spelt {text})")
        connection.execute(f"CREATE TABLE place (name {text}, zone {text})")
        for table, cells in (("people", rows), ("place", PLACES)):
            connection.execute(f"INSERT INTO {table} VALUES {', '.join(map(str, cells))}")
        connection.execute("CREATE VIEW shown AS SELECT *, [who] AS nested FROM people")
    limits = {} if unit == "row" else {"max_rows": 2, "max_groups": 2}
    return policy_of(
        Table("people", path, COLUMNS, id=unit, relation="shown", **limits),
        Table("place", path, public=True, relation="place"),
    )


ROLES = {
    "declared values": "SELECT zone, COUNT(*) FROM people GROUP BY zone",
    "group key of a public table": "SELECT p.zone, COUNT(*) FROM people JOIN place p ON spelt = p.name GROUP BY p.zone",
    "key computed from a public one": (
        "SELECT LEFT(p.zone, 1), COUNT(*) FROM people JOIN place p ON spelt = p.name GROUP BY 1"
    ),
    "join key": "SELECT p.name, COUNT(*) FROM people JOIN place p ON spelt = p.name GROUP BY p.name",
    "outer join key": "SELECT COUNT(*) FROM people LEFT JOIN place p ON spelt = p.name WHERE p.name IS NULL",
    "computed join key": "SELECT COUNT(*) FROM people JOIN place p ON LEFT(spelt, 1) = p.name",
    "ids counted": "SELECT COUNT(DISTINCT who) FROM people",
    "ids limited": "SELECT COUNT(*) FROM people",
    "filter": "SELECT COUNT(*) FROM people WHERE word = 'cafe'",
    "filter with IN": "SELECT COUNT(*) FROM people WHERE word IN ('cafe', 'tea')",
    "order": "SELECT COUNT(*) FROM people WHERE word BETWEEN 'a' AND 'cafz'",
    "least": "SELECT COUNT(*) FROM people WHERE LEAST(word, 'D') = 'D'",
    "pattern": "SELECT COUNT(*) FROM people WHERE word LIKE '_e%'",
    "public pattern": "SELECT COUNT(*) FROM people JOIN place p ON spelt = p.name WHERE p.zone LIKE 'n%'",
    "beginning": "SELECT COUNT(*) FROM people WHERE STARTS_WITH(word, 'te')",
    "nothing if equal": "SELECT COUNT(NULLIF(word, 'tea')) FROM people",
    "columns compared": "SELECT COUNT(*) FROM people WHERE word = spelt OR LOWER(word) = word",
    "case": "SELECT CASE WHEN word = 'tea' THEN 'x' ELSE 'y' END, COUNT(*) FROM people GROUP BY 1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("collation", "unit"),
    [
        *(pytest.param(each, "who", marks=[] if "NOCASE" in each else [pytest.mark.long]) for each in COLLATIONS),
        *(pytest.param(each, "row", marks=[] if each == "NOACCENT" else [pytest.mark.long]) for each in COLLATIONS),
        *(pytest.param(each, "nested", marks=[] if each == "de" else [pytest.mark.long]) for each in COLLATIONS),
    ],
)
def test_every_question_has_the_totals_of_a_table_without_collations(
    collation: str, unit: str, tmp_path: Path, long: bool
) -> None:
    step = 1 if long else 2
    assert _totals(_policy(tmp_path / "c.duckdb", collation, unit=unit), _roles(unit), step) == _plain(unit, step)


def _roles(unit: str) -> list[str]:
    return [text.replace("who", unit) for text in ROLES.values() if unit != "row" or "DISTINCT" not in text]


@cache
def _plain(unit: str, step: int) -> dict[str, list[Any]]:
    with TemporaryDirectory() as folder:
        return _totals(_policy(Path(folder) / "p.duckdb", "", unit=unit), _roles(unit), step)


def _totals(policy: Policy, texts: list[str], step: int = 1) -> dict[str, list[Any]]:
    """For each question its groups, and their totals under every way to limit a unit, or under every so manieth,
    others for the next question.
    """
    engine, found = DuckDB(policy, threads=1), {}
    for index, text in enumerate(texts):
        asked = question(engine, policy, text)
        options = asked.bounding_options[index % step :: step] or asked.bounding_options
        found[text] = [
            asked.groups,
            *(tuples(engine.read(GroupTotals(each, asked.groups), 7)) for each in options),
        ]
    engine.close()
    return found


@pytest.mark.parametrize(
    "collation", [pytest.param(each, marks=[] if "NOCASE" in each else [pytest.mark.long]) for each in COLLATIONS]
)
def test_one_row_moves_a_joined_count_by_one(collation: str, tmp_path: Path) -> None:
    """One more row, of another spelling and met first, named the group after itself: 100 became 0."""
    text = "SELECT p.zone, COUNT(*) FROM people JOIN place p ON spelt = p.name GROUP BY p.zone"
    many = [(f"u{i}", "North", "x", "a") for i in range(100)]
    before = _totals(_policy(tmp_path / "c.duckdb", collation, many, unit="row"), [text])[text]
    for other in PLACES:
        rows = [("v", "North", "x", other[0]), *many]
        after = _totals(_policy(tmp_path / "c.duckdb", collation, rows, unit="row"), [text])[text]
        assert before[0] == after[0]
        moved = [sum(map(abs, map(int.__sub__, a, b))) for a, b in zip(before[1], after[1], strict=True)]
        assert sum(moved) == 1


@pytest.mark.parametrize("collation", COLLATIONS)
def test_public_tables_are_known_letter_by_letter(collation: str, tmp_path: Path) -> None:
    with Sources(_policy(tmp_path / "c.duckdb", collation)) as sources:
        found = sources.columns("place")
        assert found["name"] == Domain("text", values=("A", "B", "a", "b", "á"))
        assert found["zone"] == Domain("text", values=("NORTH", "North", "South", "north", "south"))
        assert sources.max_rows_per_value("place", ["name"]) == sources.max_rows_per_value("place", ["zone"]) == 1
        smallest, largest = sources.run(f"SELECT min(name), max(name) FROM {sources.scan('place')}")[0]
        assert (smallest, largest) == ("A", "á")


@pytest.mark.parametrize("collation", COLLATIONS)
def test_units_and_costs_are_those_of_the_plain_table(collation: str, tmp_path: Path) -> None:
    policies = _policy(tmp_path / "p.duckdb", ""), _policy(tmp_path / "c.duckdb", collation)
    found = []
    for policy in policies:
        with Sources(policy) as sources:
            found.append(
                (inspect_table(sources, "people"), sorted(sources.run("SELECT sf_unit, zone, word FROM sf_people")))
            )
    assert found[0] == found[1]
    assert found[0][0].units == 5


def test_a_type_of_the_owners_own_has_no_collation_either(tmp_path: Path) -> None:
    path = tmp_path / "c.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t (who VARCHAR COLLATE NOCASE, s STRUCT(a VARCHAR), d JSON)")
        connection.execute("INSERT INTO t VALUES ('a', {'a': 'x'}, '\"y\"'), ('A', {'a': 'X'}, '\"Y\"')")
        connection.execute("CREATE VIEW v AS SELECT {'who': who} AS s, [who] AS l, who COLLATE de AS w, d FROM t")
    columns = {each: {"type": "text"} for each in ("s", "l", "w", "d")}
    for unit in columns:
        with Sources(policy_of(Table("t", path, columns, id=unit, max_rows=1, relation="v"))) as sources:
            counted = ", ".join(f"count(DISTINCT {each})" for each in ("sf_unit", *columns))
            assert sources.run(f"SELECT {counted} FROM sf_t") == [(2, 2, 2, 2, 2)]
