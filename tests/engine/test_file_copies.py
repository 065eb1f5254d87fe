"""Files that the engine does not read as they are: how they are written, and their copies."""

from __future__ import annotations

import gzip
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pyarrow import parquet

from sfumato.engine.file_copies import (
    ParquetCopy,
    copies_folder,
    copy_sqlite,
    copy_text,
    detect_file_kind,
    detect_text_format,
    recorded_origin,
    sqlite_tables,
    unique_names,
    usable_names,
)
from sfumato.engine.inspecting import inferred_types
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy import Type
from sfumato.policy.domains import is_name


@pytest.mark.parametrize(
    ("name", "text", "encoding", "found"),
    [
        ("t.csv", "a,b\n1,2\n", "utf-8", (",", "utf-8", '"')),
        ("t.csv", "a;b\n1;2\n", "utf-8-sig", (";", "utf-8-sig", '"')),
        ("t.tsv", "a\tb,c\n1\t2\n", "utf-8", ("\t", "utf-8", '"')),
        ("t.csv", "a|b\n1|2\n", "utf-16", ("|", "utf-16", '"')),
        ("t.csv", "'a,x';'b'\n1;2\n", "utf-8", (";", "utf-8", "'")),
        ("t.csv", "é,b\n1,2\n", "latin-1", (",", "cp1252", '"')),
        ("t.csv", "a,b\n1,é\n", "latin-1", (",", "cp1252", '"')),
    ],
)
def test_how_a_file_is_written_is_found_out(
    tmp_path: Path, name: str, text: str, encoding: str, found: tuple[str, str, str]
) -> None:
    (tmp_path / name).write_text(text, encoding=encoding)
    made = detect_text_format(tmp_path / name, read_rows=True)
    assert (made.separator, made.encoding, made.quote) == found
    rows = parquet.read_table(copied(tmp_path / name).path).to_pylist()
    assert [list(row.values()) for row in rows] in ([["1", "2"]], [["1", "é"]])


def copied(path: Path) -> ParquetCopy:
    """Copy a text file in the way that was found out, as ``t.parquet`` into a folder for copies."""
    found = detect_text_format(path, read_rows=True)
    return copy_text(path, found, copies_folder(path.with_name("policy.toml")) / "t.parquet")


def test_without_consent_only_the_first_record_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a,b\n1,\xe9\n"x\ny",2\n')
    assert detect_text_format(tmp_path / "t.csv", read_rows=False).reasons == ()
    assert len(detect_text_format(tmp_path / "t.csv", read_rows=True).reasons) == 2


def test_quotes_between_other_separators_are_no_reason(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'"a";"\xe9"\r\n"1";"2"\r\n')
    assert detect_text_format(tmp_path / "t.csv", read_rows=True).reasons == (
        "its cells are separated by semicolons, not by commas",
        "its encoding is cp1252, not UTF-8",
    )
    (tmp_path / "u.csv").write_text('"a","b"\n"1","2"\n', encoding="utf-16")
    assert detect_text_format(tmp_path / "u.csv", read_rows=True).reasons == ("its encoding is utf-16, not UTF-8",)


def test_cells_stay_the_texts_that_they_were(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id;x;y\n007;"";1,5\n"a;b";;"1,5 km"\n"two\nlines";"say ""hi""";-2,25\n')
    copy = copied(tmp_path / "t.csv").path
    rows = parquet.read_table(copy)
    assert rows.to_pydict() == {
        "id": ["007", "a;b", "two\nlines"],
        "x": ["", None, 'say "hi"'],
        "y": ["1,5", "1,5 km", "-2,25"],
    }
    assert inferred_types(copy)["id"] is Type.TEXT


def test_a_number_that_begins_with_0_is_a_code(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("zip,n,share\n01234,1,0.5\n99999,0,1\n")
    assert inferred_types(tmp_path / "t.csv") == {"zip": Type.TEXT, "n": Type.INTEGER, "share": Type.REAL}


def test_records_of_other_lengths_are_counted(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n3\n4\t5\t6\n7\t8\n")
    made = copied(tmp_path / "t.tsv")
    assert (made.skipped_records, parquet.read_table(made.path).num_rows) == (2, 2)


def test_a_copy_is_made_once_and_anew_when_the_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "t.tsv"
    file.write_text("a\n1\n")
    first = copied(file).path.stat().st_mtime_ns
    assert copied(file).path.stat().st_mtime_ns == first
    file.write_text("a\n1\n2\n")
    made = copied(file)
    assert parquet.read_table(made.path).num_rows == 2
    assert recorded_origin(made.path) is not None
    assert recorded_origin(file) is None


def test_only_the_owner_can_read_a_copy_and_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "t.tsv"
    file.write_text("a\n1\n")
    file.chmod(0o644)
    (tmp_path / "policy.copies").mkdir(mode=0o755)
    for _ in range(2):
        copy = copied(file).path
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
        copy.chmod(0o644)  # found again, it is closed again


def test_a_copy_of_another_file_is_not_replaced(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.tsv").write_text(f"{folder}\n1\n")
    target = tmp_path / "policy.copies" / "t.parquet"
    first = copy_text(tmp_path / "a" / "t.tsv", detect_text_format(tmp_path / "a" / "t.tsv", read_rows=True), target)
    with pytest.raises(InvalidPolicy, match="never overwritten"):
        copy_text(tmp_path / "b" / "t.tsv", detect_text_format(tmp_path / "b" / "t.tsv", read_rows=True), target)
    assert parquet.read_table(first.path).column_names == ["a"]


def test_copies_are_not_led_elsewhere_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\n1\n")
    (tmp_path / "shared").mkdir()
    (tmp_path / "policy.copies").symlink_to(tmp_path / "shared")
    with pytest.raises(InvalidPolicy, match="only you can read"):
        copied(tmp_path / "t.tsv")
    assert not list((tmp_path / "shared").iterdir())


@pytest.mark.parametrize("text", ["a\tb\n", "a\tb"])
def test_a_header_alone_is_a_table_without_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.tsv").write_text(text)
    made = copied(tmp_path / "t.tsv")
    assert parquet.read_table(made.path).to_pydict() == {"a": [], "b": []}


def _flip_middle(whole: bytes) -> bytes:
    """Set the bytes after the header to ones, which no compressed block begins with."""
    return whole[:10] + b"\xff" * 8 + whole[18:]


@pytest.mark.parametrize("damage", [lambda whole: whole[:20], lambda whole: b"?" + whole, _flip_middle])
def test_a_damaged_compressed_file_is_called_damaged(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    (tmp_path / "t.csv.gz").write_bytes(damage(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)))
    with pytest.raises(InvalidPolicy, match=r"^t\.csv\.gz cannot be decompressed: it is damaged or incomplete"):
        detect_text_format(tmp_path / "t.csv.gz", read_rows=False)


def test_a_file_that_ends_too_soon_leaves_no_copy(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-20])
    with pytest.raises(InvalidPolicy):
        copied(tmp_path / "t.csv.gz")
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["t.csv.gz"]


def test_a_sqlite_database_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    file = tmp_path / "it's 100% ?mine#.db"
    with sqlite3.connect(file) as database:
        database.execute('CREATE TABLE "a ""b""" (id INTEGER, x REAL, note, raw BLOB)')
        database.execute("INSERT INTO \"a \"\"b\"\"\" VALUES (1, 0.1, 'x', x'00ff'), (NULL, 'odd', 3, NULL)")
    database.close()
    assert detect_file_kind(file) == "sqlite"
    assert sqlite_tables(file) == {'a "b"': {"id": Type.INTEGER, "x": Type.REAL, "note": None, "raw": None}}
    made = copy_sqlite(file, 'a "b"', tmp_path / "policy.copies" / "a.parquet")
    assert parquet.read_table(made.path).to_pydict() == {
        "id": ["1", None],
        "x": ["0.1", "odd"],
        "note": ["x", "3"],
        "raw": [None, None],
    }


@given(st.lists(st.text(max_size=70), min_size=1, max_size=30))
def test_every_column_gets_a_name_of_its_own(names: list[str]) -> None:
    made = unique_names(names)
    assert len({each.lower() for each in made}) == len(names)
    assert all(map(is_name, made))
    assert len(usable_names(made)) == len(made)


def test_an_encoding_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(InvalidParameter, match="encoding"):
        detect_text_format(tmp_path / "t.csv", read_rows=True, encoding="klingon")
