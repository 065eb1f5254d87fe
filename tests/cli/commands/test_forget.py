"""``sfumato forget``: every copy of a private table is removed, and nothing else."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from sfumato.cli import main


def run(*typed: object, keyboard: str = "") -> Result:
    return CliRunner().invoke(main, list(map(str, typed)), input=keyboard)


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A policy over copies of a TSV file and of a SQLite table, which was asked once."""
    (tmp_path / "t.tsv").write_text("user_id\tage\n1\t2\n")
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE visits (user_id INTEGER, cost REAL)")
    database.close()
    policy = tmp_path / "clinic.toml"
    done = run("init", tmp_path / "t.tsv", tmp_path / "d.sqlite", "-o", policy, "--epsilon", "3", "--yes")
    assert done.exit_code == 0, done.output
    assert run("query", policy, "SELECT COUNT(*) FROM t", "--epsilon", "1").exit_code == 0
    return policy


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_only_copies_are_removed_and_the_rest_is_named(clinic: Path) -> None:
    (clinic.parent / "clinic.copies" / "mine.parquet").write_bytes(b"mine")
    before = files(clinic.parent)
    done = run("forget", clinic, "--yes")
    assert done.exit_code == 0, done.output
    assert before - files(clinic.parent) == {"clinic.copies/t.parquet", "clinic.copies/visits.parquet"}
    for kept in ("clinic.toml", "sfumato.ledger", "t.tsv", "d.sqlite", "clinic.copies/mine.parquet"):
        assert str(clinic.parent / kept) in done.output.partition("Left in place:")[2]
    assert f"clinic.copies/t.parquet: a copy of {clinic.parent / 't.tsv'}\n" in done.output
    (clinic.parent / "clinic.copies" / "mine.parquet").unlink()
    again = run("forget", clinic, "--yes")
    assert (again.exit_code, "were removed earlier" in again.output) == (0, True)
    asked = run("query", clinic, "SELECT COUNT(*) FROM t", "--epsilon", "1", "--fresh")
    assert asked.exit_code == 1
    assert "a copy that sfumato init made, and sfumato forget removes such copies" in asked.stderr


def test_the_owner_is_asked_and_an_empty_folder_goes_too(clinic: Path) -> None:
    before = files(clinic.parent)
    for keyboard in ("n\n", "\n"):
        done = run("forget", clinic, keyboard=keyboard)
        assert "Nothing was removed" in done.output
        assert files(clinic.parent) == before
    assert run("forget", clinic).exit_code != 0  # no answer is no yes
    assert files(clinic.parent) == before
    assert run("forget", clinic, keyboard="y\n").exit_code == 0
    assert not (clinic.parent / "clinic.copies").exists()


def test_copies_of_an_init_that_was_not_finished_are_removed(clinic: Path) -> None:
    clinic.unlink()
    (clinic.parent / "clinic.copies" / "t.parquet.new").write_bytes(b"half")
    done = run("forget", clinic, "--yes")
    assert done.exit_code == 0, done.output
    assert "t.parquet.new: unfinished" in done.output
    assert "Removed: 3 copies" in done.output
    assert not (clinic.parent / "clinic.copies").exists()


def test_a_copy_of_a_renamed_policy_is_removed(clinic: Path) -> None:
    renamed = clinic.rename(clinic.with_name("hospital.toml"))
    assert run("forget", renamed, "--yes").exit_code == 0
    assert not list((clinic.parent / "clinic.copies").iterdir())


def test_a_copy_beside_its_original_is_removed(tmp_path: Path) -> None:
    """An earlier version wrote copies there, and recorded the name of the original alone."""
    (tmp_path / "t.tsv").write_text("user_id\tage\n1\t2\n")
    rows = pa.table({"user_id": ["1"], "age": ["2"]})
    record = json.dumps([json.dumps(["t.tsv", 1, 2]), 0])
    parquet.write_table(rows.replace_schema_metadata({"sfumato.copy_of": record}), tmp_path / "t.parquet")
    assert run("init", tmp_path / "t.parquet", "-o", tmp_path / "p.toml", "--epsilon", "1", "--yes").exit_code == 0
    done = run("forget", tmp_path / "p.toml", "--yes")
    assert f"{tmp_path / 't.parquet'}: a copy of {tmp_path / 't.tsv'}\n" in done.output
    assert files(tmp_path) == {"t.tsv", "p.toml"}


def test_a_copy_whose_original_is_gone_is_told(clinic: Path) -> None:
    (clinic.parent / "t.tsv").unlink()
    done = run("forget", clinic, keyboard="n\n")
    assert f"a copy of {clinic.parent / 't.tsv'}; the original is gone" in done.output


def test_a_link_is_not_followed(tmp_path: Path, clinic: Path) -> None:
    elsewhere = (clinic.parent / "clinic.copies").rename(tmp_path / "elsewhere")
    (clinic.parent / "clinic.copies").symlink_to(elsewhere)
    clinic.unlink()
    assert "there is no policy file" in run("forget", clinic, "--yes").output
    assert len(list(elsewhere.iterdir())) == 2


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run("forget", tmp_path / "none.toml", "--yes")
    assert (done.exit_code, "there is no policy file" in done.output) == (1, True)
