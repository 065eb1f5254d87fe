"""Opened sources: which files, under which lock, saying what when something is wrong."""

from __future__ import annotations

import datetime as dt
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from engine.tables import DATA, SOURCES, in_csv, in_database, in_parquet, policy_of, private, public
from sfumato.engine.duckdb import files
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.file_inspection import schema, tables
from sfumato.errors import EngineClosed, EngineFailed, InvalidParameter, InvalidPolicy, SourceChanged
from sfumato.policy import Domain, Table, Type
from sfumato.policy.policies import MAX_ROWS, ROW_CEILING

PEOPLE = pa.table({"who": ["a", "b", "b"], "age": [10, 200, 30]})
AGE = {"age": {"type": "integer", "bounds": [0, 110]}}
SUM = "SELECT sum(age) FROM sf_t"


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_is_scanned(kind: str, tmp_path: Path) -> None:
    relation = {"relation": "t"} if kind == "duckdb" else {}
    with Sources(private(SOURCES[kind](PEOPLE, tmp_path), AGE, unit="who", **relation)) as sources:
        assert sources.run("SELECT sf_unit, sum(age) FROM sf_t GROUP BY ALL ORDER BY ALL") == [("a", 10), ("b", 140)]
        assert sources.columns("t") == {"age": Domain("integer", bounds=(0, 110))}
        assert sources.arrow("SELECT age FROM sf_t ORDER BY age").column("age").to_pylist() == [10, 30, 110]
        sources.check_unchanged()


def test_sums_are_exact_whole_numbers(tmp_path: Path) -> None:
    large = pa.table({"age": [2**62] * 3})
    with Sources(private(in_parquet(large, tmp_path), {"age": {"type": "integer"}})) as sources:
        assert sources.run(SUM) == [(3 * 2**62,)]
        assert sources.run("SELECT count(*) FROM sf_t WHERE age > ?", [2**61]) == [(3,)]


def test_globs_schemas_and_views(tmp_path: Path) -> None:
    for part in range(3):
        pyarrow.parquet.write_table(PEOPLE, tmp_path / f"part-{part}.parquet")
    with Sources(private(tmp_path / "part-*.parquet", AGE)) as sources:
        assert sources.run("SELECT count(*) FROM sf_t") == [(9,)]
        pyarrow.parquet.write_table(PEOPLE, tmp_path / "part-3.parquet")
        with pytest.raises(SourceChanged):
            sources.check_unchanged()
    pyarrow.parquet.write_table(pa.table({"who": ["a"], "age": ["10"]}), tmp_path / "part-4.parquet")
    with pytest.raises(InvalidPolicy, match="different columns or types"):
        Sources(private(tmp_path / "part-*.parquet", AGE))
    with duckdb.connect(str(tmp_path / "c.duckdb")) as connection:
        connection.execute("CREATE SCHEMA ward; CREATE VIEW ward.v AS SELECT 1 AS age, 'a' AS \"odd name\"")
    with Sources(private(tmp_path / "c.duckdb", AGE, relation="ward.v")) as sources:
        assert sources.run(SUM) == [(1,)]


def test_the_tables_of_a_database_are_listed(tmp_path: Path) -> None:
    path = in_database(PEOPLE, tmp_path)
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            'CREATE SCHEMA ward; CREATE VIEW ward.v AS SELECT 1; CREATE TABLE a(b INT); CREATE TABLE "c.d"(b INT)'
        )
    assert tables(path) == ["a", "t", "ward.v"]
    assert tables(in_parquet(PEOPLE, tmp_path)) == []
    with pytest.raises(InvalidPolicy, match=r"one of a, t, ward\.v"):
        Sources(private(path, AGE))


def test_two_tables_of_one_database(tmp_path: Path) -> None:
    path = in_database(PEOPLE, tmp_path)
    first = Table("t", path, AGE, id="row", relation="t")
    with Sources(policy_of(first, Table("u", path, public=True, relation="t"))) as sources:
        one, other = sources.scan("t"), sources.scan("u")
        assert sources.run(f"SELECT (SELECT sum(age) FROM {one}), (SELECT sum(age) FROM {other})") == [(150, 240)]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_has_no_more_rows_than_its_ceiling(kind: str, tmp_path: Path) -> None:
    source, relation = SOURCES[kind](PEOPLE, tmp_path), {"relation": "t"} if kind == "duckdb" else {}
    for make in (lambda **more: private(source, AGE, unit="who", **more), lambda **more: public(source, **more)):
        with Sources(make(row_ceiling=3, **relation)) as sources:
            table = next(each for each in sources.policy.tables.values() if each.row_ceiling == 3)
            assert sources.run(f"SELECT count(*) FROM {sources.scan(table.name)}") == [(3,)]
        refusals = []
        for ceiling in (1, 2):
            with pytest.raises(InvalidPolicy, match="more rows than row_ceiling allows") as refusal:
                Sources(make(row_ceiling=ceiling, **relation))
            refusals.append(str(refusal.value))
        assert refusals[0] == refusals[1]  # how many there are is not told
        assert f"tables.{table.name}.row_ceiling" in refusals[0]


def test_a_ceiling_holds_where_none_is_declared(tmp_path: Path, long: bool) -> None:
    """It was as good as none: 2^40 rows, which nobody counted. Many names of one file of empty cells are many rows."""
    pa.parquet.write_table(pa.table({"age": pa.nulls(1 << 25, pa.int8())}), tmp_path / "000.parquet")
    for index in range(1, ROW_CEILING >> 25):
        os.link(tmp_path / "000.parquet", tmp_path / f"{index:03}.parquet")
    Sources(private(tmp_path / "*.parquet", AGE)).close()
    os.link(tmp_path / "000.parquet", tmp_path / "more.parquet")
    with pytest.raises(InvalidPolicy, match="more rows than row_ceiling allows"):
        Sources(private(tmp_path / "*.parquet", AGE))
    if long:  # rows are counted one by one
        Sources(private(tmp_path / "*.parquet", AGE, row_ceiling=MAX_ROWS)).close()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("age", 0),
        ("age\n", 0),
        ("age\n1", 1),
        ("age\r\n1\r\n", 1),
        ("age\r1\r2\r", 2),
        ("age\r1\r2", 2),
        ("age\n1\n2\r", 2),
        ('\ufeff"age"\n"1"\n"2"\n', 2),
    ],
)
def test_the_rows_of_a_csv_file_are_its_lines(text: str, rows: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    found = files.find_files(path, "t")
    assert files.count_csv_records(found, "t") == rows
    with Sources(private(path, AGE, row_ceiling=max(1, rows))) as sources:
        assert sources.run(f"SELECT count(*) FROM {sources.scan('t')}") == [(rows,)]
    if rows > 1:
        with pytest.raises(InvalidPolicy, match="more rows than row_ceiling allows"):
            Sources(private(path, AGE, row_ceiling=rows - 1))


def test_odd_names_of_files_and_columns_are_only_text(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "odd"; DROP é'
    odd.mkdir()
    table = pa.table({'a "b"; --': [1], "": [2], "age": [3], "x'y": [4]})
    for source in (in_parquet(table, odd), shutil.copy(in_csv(table, tmp_path), odd / "t.csv"), table):
        with Sources(private(source, AGE)) as sources:
            assert sources.run(SUM) == [(3,)]


def test_a_path_that_looks_like_a_pattern_never_means_another_file(tmp_path: Path) -> None:
    for odd, other in (("t[1].parquet", "t1.parquet"), ("a*b.parquet", "axb.parquet"), ("q?.parquet", "q1.parquet")):
        for name in (odd, other):
            pyarrow.parquet.write_table(PEOPLE, tmp_path / name)
        with pytest.raises(InvalidPolicy, match="pattern"):
            Sources(private(tmp_path / odd, AGE))
    (tmp_path / "link").symlink_to(tmp_path)
    with Sources(private(tmp_path / "link" / ".." / "link" / "t1.parquet", AGE)) as sources:
        assert sources.run(SUM) == [(150,)]


def test_names_are_matched_exactly_then_in_any_case(tmp_path: Path) -> None:
    both = pa.table({"Age": [1], "age": [2]})
    for source in (in_parquet(both, tmp_path), in_csv_as_written(tmp_path, "Age,age\n1,2\n"), both):
        with Sources(private(source, AGE)) as sources:
            assert sources.run(SUM) == [(2,)]
        with pytest.raises(InvalidPolicy, match="several columns"):
            Sources(private(source, {"AGE": {"type": "integer"}}))
    with Sources(private(pa.table({"AGE": [5]}), AGE)) as sources:
        assert sources.run(SUM) == [(5,)]
    nested = pa.table({"s": [{"age": 7, "t": {"u": 1}}], "age": [2], "l": [[{"age": 3}]], "Age": [9]})
    with Sources(private(in_parquet(nested, tmp_path), AGE)) as sources:
        assert sources.run(SUM) == [(2,)]


def in_csv_as_written(folder: Path, text: str | bytes) -> Path:
    path = folder / "written.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


MISSING: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "no file": ("none.parquet", {}, "tables.t.source", "no such file"),
    "no match": ("none-*.parquet", {}, "tables.t.source", "no such file"),
    "no database": ("none.duckdb", {"relation": "t"}, "tables.t.source", "no such file"),
    "a folder": ("folder.csv", {}, "tables.t.source", "no such file"),
    "a pipe": ("pipe.csv", {}, "tables.t.source", "no such file"),
    "no kind": ("t.xlsx", {}, "tables.t.source", "files with this extension cannot be read"),
    "not Parquet": ("fake.parquet", {}, "tables.t.source", "Parquet"),
    "not a database": ("fake.duckdb", {"relation": "t"}, "tables.t.source", "DuckDB"),
    "empty CSV": ("empty.csv", {}, "tables.t.source", "column names"),
    "semicolons": ("semicolons.csv", {}, "tables.t.source", "this header uses semicolons"),
    "tabs": ("tabs.csv", {}, "tables.t.source", "this header uses tabs"),
    "no relation": ("t.duckdb", {}, "tables.t.relation", "several tables.*\\n.*\\n.*one of t$"),
    "no table": ("empty.duckdb", {}, "tables.t.relation", "create a table"),
    "no such relation": ("t.duckdb", {"relation": "u"}, "tables.t.relation", "no readable table"),
    "an object": (object(), {}, "tables.t.source", "file or a table in memory"),
    "a list": ([1, 2], {}, "tables.t.source", "file or a table in memory"),
    "an array": (pa.array([1]), {}, "tables.t.source", "not a table"),
}


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that cannot be opened as they are written in a policy."""
    folder = tmp_path_factory.mktemp("mistaken")
    in_database(PEOPLE, folder)
    for name in ("fake.parquet", "fake.duckdb"):
        (folder / name).write_text("nothing of the kind" * 1000)
    (folder / "empty.csv").touch()
    duckdb.connect(str(folder / "empty.duckdb")).close()
    (folder / "semicolons.csv").write_text("who;age\na;10,5\n")
    (folder / "tabs.csv").write_text("who\tage\na\t10\n")
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    return folder


@pytest.mark.parametrize("case", MISSING)
def test_what_cannot_be_opened_is_a_mistake_in_the_policy(case: str, mistaken: Path) -> None:
    source, more, place, word = MISSING[case]
    with pytest.raises(InvalidPolicy, match=word) as refusal:
        Sources(private(mistaken / source if isinstance(source, str) else source, AGE, **more))
    assert refusal.value.place == place


def test_a_file_that_may_not_be_read_is_refused_and_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: str, *given: Any, **named: Any) -> int:
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(path)
        return os_open(path, *given, **named)

    os_open = os.open

    for kind in (in_parquet, in_csv, in_database):
        policy = private(kind(PEOPLE, tmp_path), AGE, **({"relation": "t"} if kind is in_database else {}))
        with Sources(policy) as sources, monkeypatch.context() as patched:
            patched.setattr(os, "open", forbidden)  # nothing is forbidden to root
            with pytest.raises(InvalidPolicy, match="cannot be read") as refusal:
                Sources(policy)
            assert (refusal.value.place, refusal.value.fix) == ("tables.t.source", "check its permissions")
            with pytest.raises(SourceChanged):
                sources.check_unchanged()


def test_missing_columns_are_named_when_opening(tmp_path: Path) -> None:
    for source in (in_parquet(PEOPLE, tmp_path), in_csv(PEOPLE, tmp_path), PEOPLE):
        with pytest.raises(InvalidPolicy) as refusal:
            Sources(private(source, {"agee": {"type": "integer"}}))
        assert refusal.value.place == "tables.t.columns.agee"
        with pytest.raises(InvalidPolicy) as refusal:
            Sources(private(source, AGE, unit="person"))
        assert refusal.value.place == "tables.t.id"


RAGGED = {
    "too short": (b"a,10\nb\nc,20\n", 30, 3),
    "too long": (b"a,10,x,y\nb,5\n", 15, 2),
    "empty lines": (b"\n\na,10\n\nb,5\n\n", 15, 2),
    "not UTF-8 in the id": (b"\xff\xfe,10\nb,5\n", 5, 1),
    "NUL": (b"a\0b,10\nb,5\n", 15, 2),
    "quotes": (b'"a",10\n"b""","5"\n"",""\n"c,d",7\n', 22, 4),
    "old Macintosh lines": (b"a,10\rb,5\r", 15, 2),
    "carriage returns": (b"a,10\r\nb,5\r\n", 15, 2),
    "a line of 5 MB": (b"x" * 5_000_000 + b",10\nb,5\n", 5, 1),
    "no last newline": (b"a,10\nb,5", 15, 2),
    "only a header": (b"", None, 0),
}


@pytest.mark.parametrize("case", RAGGED)
def test_ragged_csv_is_never_an_error(case: str, tmp_path: Path) -> None:
    text, total, rows = RAGGED[case]
    policy = private(in_csv_as_written(tmp_path, b"who,age\n" + text), AGE, unit="who")
    with Sources(policy) as sources:
        assert sources.run("SELECT sum(age), count(*) FROM sf_t") == [(total, rows)]


MISQUOTED = {
    "a quote never closed": (b'a,10\n"b,5\nc,7\n', 3),
    "a quote closed many lines later": (b'"a,10\n' + b"b,5\n" * 1500 + b'"c",7\n', 2),
    "lines in a quote": (b'a,10\n"a\nb",10\nc,5\n', 3),
    "a carriage return in a quote": (b'"a\rb",10\nc,5\n', 2),
    "a stray quote": (b'a"b,10\n', 2),
    "a quote after a space": (b'a,10\nb,5\n "c",5\n', 4),
    "text behind a quote": (b'"c"d,5\n', 2),
    "a quote in the last line": (b'a,10\r\nb,5\r\nc,"', 4),
    "one not doubled": (b'"c"d",5\n', 2),
    "old Macintosh lines": (b'a,10\rb,5\r"c\rd",7\r', 4),
    "a line of 40 MB": (b"a,10\n" + b"x" * 40_000_000 + b"\nb,5\n", 3),
    "beyond the first block": (b"a,10\r\n" * 3_000_000 + b'"b,5\r\n', 3_000_002),
}


@pytest.mark.parametrize("case", MISQUOTED)
def test_a_record_that_might_not_be_a_line_is_refused_at_opening(case: str, tmp_path: Path) -> None:
    """One row with an open quote hid 1,500 rows of others, against a limit of 2."""
    text, line = MISQUOTED[case]
    path = in_csv_as_written(tmp_path, b"who,age\n" + text)
    with pytest.raises(InvalidPolicy, match="each record of a CSV file must be one line") as refusal:
        Sources(private(path, AGE, unit="who"))
    assert refusal.value.place == "tables.t.source"
    assert files.first_misquoted_line(str(path)) == line
    with pytest.raises(InvalidPolicy) as other:
        Sources(private(in_csv_as_written(tmp_path, b'who,age\n"'), AGE, unit="who"))
    assert str(other.value) == str(refusal.value)  # whatever the file holds


def test_quotes_are_looked_at_in_every_file_of_a_table_public_ones_too(tmp_path: Path) -> None:
    for part, text in enumerate(("who,age\na,10\n", 'who,age\n"a,10\n')):
        (tmp_path / f"part-{part}.csv").write_text(text)
    for policy in (private(tmp_path / "part-*.csv", AGE), public(tmp_path / "part-1.csv")):
        with pytest.raises(InvalidPolicy, match="must be one line"):
            Sources(policy)
    (tmp_path / "marked.csv").write_bytes(b'\xef\xbb\xbf"who","age"\n"a",10\n')
    with Sources(private(tmp_path / "marked.csv", AGE, unit="who")) as sources:
        assert sources.run(SUM) == [(10,)]


_PIECES = [
    b",",
    b"\\",
    b"\0",
    b"\xff",
    b"\xc3",
    b"1",
    b"abc",
    b" ",
    b"\t",
    b'"a""b"',
    b'""',
    b'"',
    b'"c,d"',
    b"\xef\xbb\xbf",
]


def test_every_line_of_random_bytes_is_one_record_or_refused(tmp_path: Path, long: bool) -> None:
    """Lines made of bytes that mean something to a CSV reader: each is read by itself, whatever stands before it."""
    draw, opened = random.Random(7), Counter[bool]()
    for trial in range(2000 if long else 40):
        ending = draw.choice((b"\n", b"\r\n", b"\r"))
        lines = [b"".join(draw.choices(_PIECES, k=draw.randrange(9))) for _ in range(2 if trial % 4 else 300)]
        if trial % 2:
            lines = [line.replace(b'"', b"") for line in lines]
        marked = [ending.join((line, b"marked,%d" % number)) for number, line in enumerate(lines)]
        path = in_csv_as_written(tmp_path, ending.join([b"who,age", *marked, b""]))
        refused = files.first_misquoted_line(str(path)) is not None
        opened[refused] += 1
        if refused:
            with pytest.raises(InvalidPolicy, match="must be one line"):
                Sources(private(path, AGE, unit="who"))
            continue
        policy = private(path, {"age": {"type": "integer"}, "who": {"type": "text"}}, unit="who")
        with Sources(policy, threads=2) as sources:
            found = sources.run("SELECT age FROM sf_t WHERE who = 'marked' ORDER BY age")
            assert found == [(number,) for number in range(len(lines))]
    assert min(opened[True], opened[False]) > 10


def test_large_random_files_are_never_an_error(tmp_path: Path) -> None:
    draw, pieces = random.Random(8), [each for each in _PIECES if b'"' not in each] + [b"\n", b"\r", b"\r\n"]
    path = in_csv_as_written(tmp_path, b"who,age\n" + b"".join(draw.choices(pieces, k=1_000_000)))
    with Sources(private(path, AGE, unit="who"), threads=2) as sources:
        assert len(sources.run("SELECT sum(age), count(*), max(sf_unit) FROM sf_t")) == 1


def test_a_quoted_empty_cell_is_text_and_an_empty_one_is_missing(tmp_path: Path) -> None:
    path = in_csv_as_written(tmp_path, 'a,b\n"",1\n,2\n')
    with Sources(private(path, {"a": {"type": "text"}, "b": {"type": "integer"}})) as sources:
        assert sources.run("SELECT b, a FROM sf_t ORDER BY b") == [(1, ""), (2, None)]


FORBIDDEN = [
    "COPY sf_t TO '{folder}/stolen.csv'",
    "COPY (SELECT 1) TO '{folder}/t.parquet'",
    "EXPORT DATABASE '{folder}/all'",
    "ATTACH '{folder}/other.duckdb'",
    "SELECT * FROM read_csv('{folder}/other.csv')",
    "SELECT * FROM read_parquet('{folder}/other.parquet')",
    "SELECT * FROM '{folder}/other.csv'",
    "SELECT * FROM read_text('{folder}/other.csv')",
    "SELECT * FROM read_blob('{folder}/other.csv')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM outside",
    "SELECT getenv('HOME')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET GLOBAL enable_external_access = true",
    "SET lock_configuration = false",
    "SET python_enable_replacements = true",
    "SET allowed_paths = ['/etc/hostname']",
    "RESET enable_external_access",
    "PRAGMA memory_limit = '1GB'",
]


@pytest.mark.usefixtures("own_databases")
def test_the_connection_itself_refuses_whatever_is_not_a_source(tmp_path: Path) -> None:
    outside = pd.DataFrame({"a": [1]})
    in_csv(PEOPLE, tmp_path).rename(tmp_path / "other.csv")
    in_parquet(PEOPLE, tmp_path)
    shutil.copy(tmp_path / "t.parquet", tmp_path / "other.parquet")
    with Sources(private(tmp_path / "t.parquet", AGE)) as sources:
        before = sorted(os.listdir(tmp_path))
        for statement in FORBIDDEN:
            with pytest.raises(duckdb.Error):
                sources._connection.cursor().execute(statement.format(folder=tmp_path)).fetchall()
        assert sorted(os.listdir(tmp_path)) == before
        sources.check_unchanged()
        locked = ("python_enable_replacements", "enable_external_access", "autoload_known_extensions")
        shown = ", ".join(f"CAST(current_setting('{each}') AS BOOLEAN)" for each in locked)
        assert sources.run(f"SELECT {shown}") == [(False, False, False)]
    assert len(outside) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1; SELECT 2",
        "DROP VIEW sf_t",
        "CREATE TABLE a (b INTEGER)",
        "SET VARIABLE a = 1",
        "EXPLAIN SELECT 1",
        "",
        "SELEC",
    ],
)
def test_only_one_select_is_run(statement: str) -> None:
    with Sources(private(PEOPLE, AGE)) as sources:
        for act in (sources.run, sources.arrow, sources.bind):
            with pytest.raises(EngineFailed):
                act(statement)
        assert sources.run("SELECT count(*) FROM sf_t") == [(3,)]


def test_every_statement_is_logged() -> None:
    with Sources(private(PEOPLE, AGE)) as sources:
        assert any(each.startswith('CREATE OR REPLACE VIEW "sf_t"') for each in sources.statements)
        sources.statements.clear()
        sources.run(SUM)
        sources.bind("SELECT 1")
        with pytest.raises(EngineFailed):
            sources.run("SELECT none FROM sf_t")
        assert list(sources.statements) == [SUM, "SELECT 1", "SELECT none FROM sf_t"]
        assert sources.statements.maxlen is not None


def _spoil(path: Path) -> None:
    """Overwrites the data pages of a Parquet file, leaving its footer whole."""
    with path.open("r+b") as opened:
        opened.seek(4)
        opened.write(b"\xff" * 60)


def test_a_failure_has_one_text_and_no_cause(tmp_path: Path) -> None:
    path = in_parquet(pa.table({"age": [10, 20, 30], "name": ["secret"] * 3}), tmp_path)
    failures = []
    with Sources(private(path, {**AGE, "name": {"type": "text"}})) as sources:
        _spoil(path)
        sources.bind("SELECT name, age FROM sf_t")  # reads no row, so does not notice
        for statement in ("SELECT name, age FROM sf_t", "SELECT CAST('secret' AS INTEGER)", "SELECT none FROM sf_t"):
            with pytest.raises(EngineFailed) as failure:
                sources.run(statement)
            failures.append(failure.value)
    assert len({str(failure) for failure in failures}) == 1
    assert all(failure.__cause__ is None and failure.__context__ is None for failure in failures)


def test_changed_sources_are_noticed_before_anything_is_charged(tmp_path: Path) -> None:
    def replaced(path: Path) -> None:
        shutil.copy(path, path.with_suffix(".new"))
        path.with_suffix(".new").rename(path)

    def grown(path: Path) -> None:
        path.write_bytes(path.read_bytes() + b"\n")

    for kind in (in_parquet, in_csv, in_database):
        for change in (Path.unlink, replaced, os.utime, grown):
            folder = tmp_path / f"{kind.__name__}-{time.monotonic_ns()}"
            folder.mkdir()
            path = kind(PEOPLE, folder)
            relation = {"relation": "t"} if kind is in_database else {}
            with Sources(private(path, AGE, **relation)) as sources:
                sources.check_unchanged()
                before = sources.identity()
                change(path)
                for look in (sources.check_unchanged, lambda: sources.fingerprint("t")):
                    with pytest.raises(SourceChanged) as refusal:
                        look()
                assert refusal.value.place == "tables.t.source"
                assert sources.identity() == before


def test_identity_is_the_version_of_the_data(tmp_path: Path) -> None:
    path = in_parquet(PEOPLE, tmp_path)
    with Sources(private(path, AGE)) as one, Sources(private(path, AGE)) as two:
        first, content = one.identity(), one.fingerprint("t")
        assert (first, content) == (two.identity(), two.fingerprint("t"))
        assert one.identity() == first  # a fingerprint is not part of it
    os.utime(path)
    with Sources(private(path, AGE)) as sources:
        assert sources.identity() != first
        assert sources.fingerprint("t") == content
    pyarrow.parquet.write_table(PEOPLE.slice(1), path)
    with Sources(private(path, AGE)) as sources:
        assert sources.fingerprint("t") != content


def test_tables_in_memory_are_known_by_their_content() -> None:
    def identity(table: Any) -> str:
        with Sources(private(table, AGE)) as sources:
            assert sources.fingerprint("t")
            return sources.identity()

    assert identity(PEOPLE) == identity(pa.concat_tables([PEOPLE.slice(0, 1), PEOPLE.slice(1)]))
    assert identity(PEOPLE) != identity(PEOPLE.slice(1))
    assert identity(PEOPLE.to_pandas()) == identity(PEOPLE.to_pandas())
    assert identity(polars.from_arrow(PEOPLE)) == identity(polars.from_arrow(PEOPLE).lazy())


def test_what_becomes_of_a_table_in_memory_changes_nothing() -> None:
    frame = PEOPLE.to_pandas()
    with Sources(private(frame, AGE)) as sources:
        frame["age"] = 0
        assert sources.run(SUM) == [(150,)]


def test_public_tables_tell_their_domains() -> None:
    with Sources(public(DATA / "flights" / "planes.parquet")) as sources:
        found = sources.columns("p")
        assert found["engines"] == Domain("integer", values=(1, 2, 3, 4))
        assert found["year"].type is Type.REAL
        assert found["year"].nullable
        assert found["tailnum"].type is Type.TEXT
        assert list(found["tailnum"].values or ()) == sorted(set(found["tailnum"].values or ()))
        assert sources.max_rows_per_value("p", ["tailnum"]) == 1
        assert sources.max_rows_per_value("p", []) == sources.run("SELECT count(*) FROM sf_p")[0][0]
        planes = f"SELECT count(*) AS n FROM '{DATA}/flights/planes.parquet' GROUP BY manufacturer, engines"
        plain = duckdb.sql(f"SELECT max(n) FROM ({planes})")
        assert sources.max_rows_per_value("p", ["manufacturer", "engines"]) == plain.fetchall()[0][0]
        seen = len(sources.statements)
        sources.max_rows_per_value("p", ["tailnum"])
        sources.columns("p")
        assert len(sources.statements) == seen


def test_public_csv_files_tell_their_types(tmp_path: Path) -> None:
    text = (
        "n,x,day,at,flag,word,none,odd name,N\n"
        "1,1.5,2024-01-01,2024-01-01 10:00:00,true,a,,1,2\n"
        "2,2,2024-01-02,2024-01-02,false,,,1,2\n"
    )
    with Sources(public(in_csv_as_written(tmp_path, text))) as sources:
        assert dict(sources.columns("p")) == {
            "n": Domain("integer", values=(1, 2)),
            "x": Domain("real", values=("1.5", 2)),
            "day": Domain("date", values=("2024-01-01", "2024-01-02")),
            "at": Domain("timestamp", values=("2024-01-01 10:00:00", "2024-01-02 00:00:00")),
            "flag": Domain("boolean", values=(False, True)),
            "word": Domain("text", values=("a",), nullable=True),
            "none": Domain("text", nullable=True),
            "odd name": Domain("integer", values=(1,)),
        }
        assert sources.max_rows_per_value("p", ["n"]) == 1


def test_a_type_that_few_rows_suggest_is_tried_on_all(tmp_path: Path) -> None:
    """Types are guessed from some rows and proved by every one; what is missing in them proves nothing."""
    late = {"n": "x", "r": "1.5", "i": "7", "d": "2024-01-01 10:00", "b": "maybe", "e": "3", "z": ""}
    early = {"n": "1", "r": "1", "i": "7", "d": "2024-01-01", "b": "true", "e": "", "z": ""}
    lines = [",".join(row.values()) for row in (early, *[early] * 2000, late)]
    with Sources(public(in_csv_as_written(tmp_path, "\n".join([",".join(late), *lines])))) as sources:
        kinds = {each: (domain.type.value, domain.nullable) for each, domain in sources.columns("p").items()}
    assert kinds == {
        "n": ("text", False),
        "r": ("real", False),
        "i": ("integer", False),
        "d": ("timestamp", False),
        "b": ("text", False),
        "e": ("integer", True),
        "z": ("text", True),
    }


def test_a_public_file_is_read_once_however_wide_it_is(tmp_path: Path) -> None:
    path = in_csv_as_written(tmp_path, ",".join(f"c{i}" for i in range(48)) + "\n" + ",".join(["1"] * 48) + "\n")
    with Sources(public(path)) as sources:
        sources.statements.clear()
        assert len(sources.columns("p")) == 48
        reading = [each for each in sources.statements if "read_csv" in each and "CREATE OR REPLACE VIEW" not in each]
        assert len(reading) == 1
        assert len(sources.statements) <= 8
        assert sources.run("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'sf reading%'") == [(0,)]


def test_a_public_table_has_a_column_that_can_be_named(tmp_path: Path) -> None:
    for source in (in_csv_as_written(tmp_path, "sf_name\n1\n"), pa.table({"odd\nname": [1]})):
        with Sources(public(source)) as sources, pytest.raises(InvalidPolicy, match="a name that SQL queries can use"):
            sources.columns("p")


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001, 15_000])
def test_the_most_values_a_public_column_lists_is_exact(count: int) -> None:
    with Sources(public(pa.table({"n": range(count), "t": [str(i) for i in range(count)]}))) as sources:
        found = sources.columns("p")
    assert (found["n"].values is not None, found["t"].values is not None) == (count <= 10_000, count <= 10_000)


def test_large_public_columns_get_bounds() -> None:
    many = pa.table(
        {
            "n": range(-5, 20_000),
            "far": [2**63 - 1 - i for i in range(20_005)],
            "t": [str(i) for i in range(20_005)],
            "d": [dt.date(1970, 1, 1) + dt.timedelta(i) for i in range(20_005)],
            "long": ["x" * 10_001] + [""] * 20_004,
        }
    )
    with Sources(public(many)) as sources:
        found = sources.columns("p")
        assert found["n"] == Domain("integer", bounds=(-5, 19_999))
        assert found["far"] == Domain("integer", bounds=(2**62, 2**62))
        assert sources.run("SELECT max(far) FROM sf_p") == [(2**62,)]
        assert found["t"] == Domain("text")
        assert found["long"] == Domain("text", values=("", "x" * 1_000))  # cut where nothing else is declared
        assert found["d"].bounds == (dt.date(1970, 1, 1), dt.date(1970, 1, 1) + dt.timedelta(20_004))


def test_names_of_tables_and_columns_never_collide_inside() -> None:
    tables = {
        "a": "b_c",
        "a_b": "c",
        "copy_of_a": "x",
        "database_0": "x",
        "arriving": "x",
        "bound": "x",
        "select": "from",
    }
    source = pa.table({column: ["v", "w"] for column in set(tables.values())})
    declared = [Table(each, source, {column: {"values": [each]}}, id="row") for each, column in tables.items()]
    with Sources(policy_of(*declared)) as sources:
        for each in tables:
            assert sources.run(f"SELECT count(*) FROM {sources.scan(each)}") == [(2,)]


def test_an_empty_public_table() -> None:
    with Sources(public(pa.table({"a": pa.array([], pa.int64())}))) as sources:
        assert dict(sources.columns("p")) == {"a": Domain("integer")}
        assert sources.max_rows_per_value("p", ["a"]) == 1


def test_nothing_is_counted_for_free_in_a_private_table() -> None:
    with Sources(private(PEOPLE, AGE)) as sources:
        with pytest.raises(InvalidParameter):
            sources.max_rows_per_value("t", ["age"])
        for ask in (sources.columns, sources.scan, sources.fingerprint):
            with pytest.raises(InvalidParameter):
                ask("nobody")


def test_threads_share_the_sources() -> None:
    table = pa.table({"age": range(100_000)})
    found: Counter[Any] = Counter()
    with Sources(private(table, {"age": {"type": "integer"}})) as sources:

        def work() -> None:
            for _ in range(20):
                found[sources.run(SUM)[0]] += 1

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert found == {(sum(range(100_000)),): 160}


def test_a_running_statement_can_be_interrupted() -> None:
    with Sources(private(PEOPLE, AGE)) as sources:
        timer = threading.Timer(0.3, sources.interrupt)
        timer.start()
        with pytest.raises(EngineFailed):
            sources.run("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b")
        timer.join()
        assert sources.run("SELECT count(*) FROM sf_t") == [(3,)]


def test_closed_and_forked_sources_say_so() -> None:
    sources = Sources(private(PEOPLE, AGE))
    child = os.fork()
    if not child:
        try:
            sources.run(SUM)
        except EngineClosed:
            sources.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert sources.run(SUM) == [(150,)]
    sources.close()
    sources.close()
    for act in (sources.run, sources.arrow, sources.bind):
        with pytest.raises(EngineClosed):
            act(SUM)
    sources.interrupt()


def test_spilled_rows_are_private_and_removed(tmp_path: Path) -> None:
    table = pa.table({"age": range(3_000_000)})
    with Sources(
        private(in_parquet(table, tmp_path), {"age": {"type": "integer"}}), memory_limit="60MB", threads=1
    ) as sources:
        assert os.stat(sources._spill.path).st_mode & 0o77 == 0
        rows = sources.run("SELECT count(*) FROM (SELECT age, row_number() OVER (ORDER BY hash(age)) FROM sf_t)")
        assert rows == [(3_000_000,)]
        spill = sources._spill.path
    assert not os.path.exists(spill)


def _forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """A process with open sources that waits, and the folder in which it works on disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        sources = Sources(private(PEOPLE, AGE))
        (Path(sources._spill.path) / "rows").write_text("rows of people")
        os.write(writing, sources._spill.path.encode())
        time.sleep(600)
        os._exit(0)
    os.close(writing)
    folder = os.read(reading, 1000).decode()
    os.close(reading)
    return child, folder


def test_the_folders_of_killed_processes_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child, folder = _forked(tmp_path, monkeypatch)
    (tmp_path / "sfumato-spill-other").mkdir()  # nobody knows whose: it is left alone
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "in-use").touch()
    (tmp_path / "sfumato-spill-link").symlink_to(tmp_path / "elsewhere")
    try:
        with Sources(private(PEOPLE, AGE)) as sources:
            assert (Path(folder) / "rows").exists()  # its process is alive
            own = sources._spill.path
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.path.exists(folder)
    with Sources(private(PEOPLE, AGE)) as sources:
        left = {"sfumato-spill-other", "elsewhere", "sfumato-spill-link", os.path.basename(sources._spill.path)}
        assert set(os.listdir(tmp_path)) == left
        assert os.listdir(tmp_path / "elsewhere") == ["in-use"]
    assert not os.path.exists(own)


def test_a_folder_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child, folder = _forked(tmp_path, monkeypatch)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        Sources(private(PEOPLE, AGE)).close()
    assert os.path.exists(folder)
    Sources(private(PEOPLE, AGE)).close()
    assert not os.path.exists(folder)


@pytest.mark.parametrize("limits", [{"memory_limit": "lots"}, {"memory_limit": 5}, {"threads": 0}, {"threads": "many"}])
def test_limits_are_checked(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Sources(private(PEOPLE, AGE), **limits)


def test_a_schema_is_names_and_types_alone(tmp_path: Path) -> None:
    assert schema(in_parquet(PEOPLE, tmp_path)) == {"who": Type.TEXT, "age": Type.INTEGER}
    assert schema(in_csv(PEOPLE, tmp_path)) == {"who": None, "age": None}
    assert schema(in_database(PEOPLE, tmp_path), "t") == {"who": Type.TEXT, "age": Type.INTEGER}
