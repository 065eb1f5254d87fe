"""The catalog says what the policy declares, and nothing that rows could tell."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from server.postgres.catalog.captured import FOLDER, catalog, policy, statements
from sfumato.errors import Unsupported
from sfumato.policy import read
from sfumato.server.postgres.catalog import CatalogColumn, CatalogRows, PolicyCatalog


def test_types_and_names_of_columns() -> None:
    answer = catalog().run("SELECT oid, relname, relkind, reltuples, relacl, relhasindex, 1 FROM pg_class LIMIT 0", ())
    expected = {"oid": 26, "relname": 19, "relkind": 18, "reltuples": 700, "relacl": 1034, "relhasindex": 16}
    assert answer == CatalogRows(
        (*(CatalogColumn(*each) for each in expected.items()), CatalogColumn("?column?", 23)), ()
    )


def test_a_column_s_comment_says_bounds_and_limits() -> None:
    sql = (
        "SELECT a.attname, col_description(a.attrelid, a.attnum), obj_description(a.attrelid, 'pg_class') "
        "FROM pg_attribute a WHERE a.attrelid = 'public.visits'::regclass"
    )
    comments = {name: (comment, table) for name, comment, table in catalog().run(sql, ()).rows}
    assert comments["age"][0] == "integer from 0 to 110"
    assert comments["patient_id"][0] == (
        "identifies the patient of a row: COUNT(DISTINCT patient_id) counts each patient once"
    )
    assert comments["age"][1].startswith("private; at most 10 rows of one patient count, in at most 4 groups")


def test_no_number_comes_from_rows() -> None:
    sizes = "SELECT DISTINCT reltuples, relpages, relallvisible, pg_table_size(oid), pg_total_relation_size(oid) "
    assert catalog().run(sizes + "FROM pg_class", ()).rows == ((-1.0, 0, 0, 0, 0),)
    for relation in ("pg_stat_user_tables", "pg_stat_all_tables", "pg_stats", "pg_stat_activity", "pg_stat_database"):
        assert catalog().run(f"SELECT * FROM {relation}", ()).rows == ()


def test_neighbouring_tables_have_the_same_catalog(tmp_path: Path) -> None:
    """All rows of every captured statement are equal, whatever the sources hold; no source is opened."""
    text = (FOLDER / "clinic.toml").read_text()
    catalogs = []
    for rows in (1, 1_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        (folder / "clinic.toml").write_text(text)
        pq.write_table(pa.table({"patient_id": ["p"] * rows, "age": [7] * rows}), folder / "visits.parquet")
        catalogs.append(PolicyCatalog(read(folder / "clinic.toml"), "clinic", "ana"))
    few, many = catalogs
    for statement in statements()[::25]:
        try:
            answer = few.run(statement.sql, statement.parameters)
        except Unsupported as refusal:
            with pytest.raises(Unsupported, match=refusal.code):
                many.run(statement.sql, statement.parameters)
        else:
            assert many.run(statement.sql, statement.parameters) == answer


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", True),
        ("SELECT version()", True),
        ("SELECT current_schema(), current_database()", True),
        ("SELECT * FROM pg_class", True),
        ('SELECT * FROM "pg_catalog"."pg_class" AS c', True),
        ("SELECT * FROM information_schema.tables", True),
        ("WITH c AS (SELECT * FROM pg_class) SELECT * FROM c", True),
        ("SELECT * FROM pg_shadow", True),
        ("SELECT COUNT(*) FROM visits", False),
        ("SELECT COUNT(*) FROM public.visits", False),
        ("SELECT COUNT(*) FROM pg_class, visits", False),
        ("SELECT * FROM sfumato.budget", False),
        ("SELECT read_csv_auto('x')", False),
        ("SHOW timezone", False),
        ("SET x = 1", False),
        ("", False),
        ("SELECT 1; SELECT 2", False),
        ("SELEC 1", False),
    ],
)
def test_covered_statements(sql: str, *, expected: bool) -> None:
    assert catalog().covers(sql) is expected


def test_a_table_of_the_policy_hides_a_catalog_relation(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text((FOLDER / "clinic.toml").read_text().replace("visits", "pg_class"))
    named = PolicyCatalog(read(tmp_path / "p.toml"), "clinic", "ana")
    assert not named.covers("SELECT COUNT(*) FROM pg_class")
    assert named.covers("SELECT COUNT(*) FROM pg_catalog.pg_class")


@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        ("SELECT relname FROM pg_class WHERE oid = $1", ("1259",), "pg_class"),
        ("SELECT relname FROM pg_class WHERE relname = ANY($1) AND relnamespace = 2200", ("{visits,x}",), "visits"),
        ("SELECT relname FROM pg_class WHERE relname = ANY($1)", ('{"nothing", "visits" , x}',), "visits"),
        ("SELECT typname FROM pg_type WHERE oid = ANY($1::oid[])", ("{20}",), "int8"),
        ("SELECT $1::text", ("it's; DROP TABLE x --",), "it's; DROP TABLE x --"),
        ("SELECT $1::text", (None,), None),
        ("SELECT relname FROM pg_class WHERE relname LIKE 'pg\\_cl%' LIMIT $1", ("1",), "pg_class"),
        ("SELECT 'visits'::regclass::oid::regclass::text", (), "visits"),
        ("SELECT 'SFUMATO.Budget'::regclass", (), "sfumato.budget"),
        ("SELECT format('%I.%I', 'public', 'visits')::regclass::text", (), "visits"),
        ("SELECT quote_ident('a$b')", (), '"a$b"'),
        ("SELECT quote_ident('order')", (), '"order"'),
        ("SELECT quote_ident('left')", (), '"left"'),
        ("SELECT quote_ident('between')", (), '"between"'),
        ("SELECT quote_ident('abort')", (), "abort"),
        ("SELECT quote_ident('_a1')", (), "_a1"),
        ("SELECT quote_ident('1a')", (), '"1a"'),
        ("SELECT quote_ident('Order \"1\"')", (), '"Order ""1"""'),
        ("SELECT format('%I', 'user')", (), '"user"'),
        ("SELECT '{}'::text[]", (), []),
        ("WITH a AS (SELECT 1 AS n), b AS (SELECT n + 1 AS n FROM a) SELECT a.n + b.n FROM a, b", (), 3),
        ("WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT MAX(n) FROM t", (), 3),
        ("WITH a AS (SELECT 1 AS n) SELECT (WITH a AS (SELECT 2 AS n) SELECT n FROM a) + n FROM a", (), 3),
    ],
)
def test_parameters_and_object_names(sql: str, parameters: tuple[str | None, ...], expected: object) -> None:
    assert catalog().run(sql, parameters).rows == ((expected,),)


@pytest.mark.parametrize("spelled", ["'order'", "'\"order\"'", "'public.order'", "format('%I.%I', 'public', 'order')"])
def test_a_table_named_as_a_key_word_is_quoted_and_found(tmp_path: Path, spelled: str) -> None:
    (tmp_path / "p.toml").write_text((FOLDER / "clinic.toml").read_text().replace("visits", "order"))
    named = PolicyCatalog(read(tmp_path / "p.toml"), "clinic", "ana")
    assert named.run(f"SELECT {spelled}::regclass::oid::regclass::text", ()).rows == (('"order"',),)


def test_types_of_parameters() -> None:
    sql = "SELECT 1 FROM pg_type WHERE oid = ANY($1::oid[]) AND typname = $2 AND typlen = $3::int4 LIMIT $4"
    assert catalog().parameter_oids(sql, 4) == (1028, 25, 23, 25)


def test_users_see_their_own_name_and_database() -> None:
    other = PolicyCatalog(policy(), "ward", "bo")
    sql = "SELECT rolname, current_database(), pg_get_userbyid(10) FROM pg_roles WHERE rolname = current_user"
    assert other.run(sql, ()).rows == (("bo", "ward", "sfumato"),)
    assert catalog().run(sql, ()).rows == (("ana", "clinic", "sfumato"),)
    assert PolicyCatalog(policy(), "ward", "sfumato").run(sql, ()).rows == (("sfumato", "ward", "curator"),)


def test_connections_of_a_user_share_one_database() -> None:
    again = PolicyCatalog(policy(), "clinic", "ana")
    assert again.run("SELECT 1", ()) is catalog().run("SELECT 1", ())


def test_many_threads_ask_at_once() -> None:
    answers: list[object] = []
    sql = "SELECT COUNT(*) FROM pg_class WHERE relnamespace = 2200 AND relname <> $1"
    threads = [
        threading.Thread(target=lambda name=str(name): answers.append(catalog().run(sql, (name,)).rows))
        for name in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [((3,),)] * 16
