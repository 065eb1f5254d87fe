"""``sfumato init``: the owner's answers become a policy; nothing is taken from the data."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from engine.tables import DATA, in_database
from sfumato.cli import main
from sfumato.engine.duckdb.connection import schema
from sfumato.policy import Domain, read

FLIGHTS = DATA / "flights" / "flights.parquet"


def draft(folder: Path, answers: list[str], *more: str, data: Path = FLIGHTS) -> Result:
    given = "\n".join(answers) + "\n"
    return CliRunner().invoke(main, ["init", str(data), "-o", str(folder / "policy.toml"), *more], input=given)


def answers(**columns: list[str]) -> list[str]:
    """A unit, its limits and its budget; then each column's answers, or a dash."""
    told = [each for name in schema(FLIGHTS) for each in columns.get(name, ["-"])]
    return ["plane", "tailnum", "20", "3 1e-6", *told, "flights"]


def test_a_draft_is_a_policy_that_reads(tmp_path: Path) -> None:
    told = answers(dep_delay=["real", "-60 600"], origin=["", "JFK, LGA,EWR"], dest=["text", ""], month=["", "1 12"])
    done = draft(tmp_path, told)
    assert done.exit_code == 0, done.output
    policy = read(tmp_path / "policy.toml")
    table = policy.tables["flights"]
    assert (policy.unit.name, table.id, table.max_rows, policy.budget.epsilon) == ("plane", "tailnum", 20, 3)
    assert dict(table.columns) == {
        "month": Domain("integer", bounds=(1, 12)),
        "dep_delay": Domain("real", bounds=(-60, 600)),
        "origin": Domain("text", values=("JFK", "LGA", "EWR")),
        "dest": Domain("text"),
    }
    assert table.source.path.resolve() == FLIGHTS.resolve()
    assert CliRunner().invoke(main, ["check", str(tmp_path / "policy.toml")]).exit_code == 0


def test_the_schema_is_shown_and_no_cell(tmp_path: Path) -> None:
    done = draft(tmp_path, answers(distance=["", ""]))
    assert "tailnum                  text" in done.output
    assert "distance                 integer" in done.output
    for cell in ("N14228", "IAH", "2013"):
        assert cell not in done.output + (tmp_path / "policy.toml").read_text()


def test_wrong_answers_are_asked_again(tmp_path: Path) -> None:
    told = ["", "plane", "nobody", "tailnum", "0", "many", "20", "-1", "half", "3 2", "3 1e-6"]
    told += [*answers(month=["number", "integer", "12 1", "1", "1 12"])[4:-1], "sf_name", "flights"]
    done = draft(tmp_path, told)
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "policy.toml").tables["flights"].columns == {"month": Domain("integer", bounds=(1, 12))}


def test_rows_may_be_the_units_of_a_csv_file(tmp_path: Path) -> None:
    data = Path(shutil.copy(DATA / "visits" / "visits.csv", tmp_path))
    told = ["visit", "row", "1", "-", "-", "integer", "0 120", "-", "-", "visits"]
    assert draft(tmp_path, told, data=data).exit_code == 0
    policy = read(tmp_path / "policy.toml")
    assert policy.unit.every_row
    assert 'source = "visits.csv"' in (tmp_path / "policy.toml").read_text()


def test_names_with_spaces_and_accents_are_drafted(tmp_path: Path) -> None:
    data = tmp_path / "odd.csv"
    data.write_text("Patient N°,Total Cost €\n1,2\n")
    told = ["patient", "Patient N°", "3", "1", "-", "real", "0 10", "2024 Visits"]
    done = draft(tmp_path, told, data=data)
    assert done.exit_code == 0, done.output
    assert list(read(tmp_path / "policy.toml").tables["2024 Visits"].columns) == ["Total Cost €"]


def test_the_name_proposed_for_a_table_keeps_its_accents(tmp_path: Path) -> None:
    data = tmp_path / "abonnés 2024.csv"
    data.write_text("n,x\n1,2\n")
    done = draft(tmp_path, ["member", "n", "3", "1", "-", "real", "0 10", ""], data=data)
    assert done.exit_code == 0, done.output
    assert list(read(tmp_path / "policy.toml").tables) == ["abonnés_2024"]


def test_the_tables_of_a_database_are_listed_and_one_is_chosen(tmp_path: Path) -> None:
    data = in_database(pa.table({"who": ["a"], "age": [1]}), tmp_path)
    told = ["person", "who", "3", "1", "-", "integer", "0 110", "people"]
    assert draft(tmp_path, told, data=data).exit_code == 0  # there is only one
    assert read(tmp_path / "policy.toml").tables["people"].relation == "t"
    (tmp_path / "policy.toml").unlink()
    with duckdb.connect(str(data)) as connection:
        connection.execute("CREATE TABLE other (x INTEGER)")
    done = draft(tmp_path, ["none", "t", *told], data=data)
    assert done.exit_code == 0, done.output
    assert "  other\n  t\n" in done.output
    assert read(tmp_path / "policy.toml").tables["people"].relation == "t"


def test_semicolons_are_named_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who;age\na;1\n")
    done = draft(tmp_path, [], data=tmp_path / "t.csv")
    assert done.exit_code == 1
    assert "parted by semicolons" in done.output
    assert "rename" not in done.output


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    assert draft(tmp_path, answers(month=["", ""])[:-5]).exit_code == 1  # the answers end too soon
    assert not (tmp_path / "policy.toml").exists()
    (tmp_path / "policy.toml").write_text("mine")
    done = draft(tmp_path, answers(month=["", ""]))
    assert done.exit_code == 1
    assert "never overwritten" in done.output
    assert (tmp_path / "policy.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("told", "word"),
    [(answers(), "at least one column"), (["plane"], "nothing was written")],
    ids=["no column", "no answers"],
)
def test_an_interview_without_an_outcome_writes_nothing(tmp_path: Path, told: list[str], word: str) -> None:
    done = draft(tmp_path, told)
    assert done.exit_code == 1
    assert word in done.output
    assert not (tmp_path / "policy.toml").exists()


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    assert "no such file" in draft(tmp_path, [], data=tmp_path / "none.parquet").output
    odd = tmp_path / "odd.csv"
    odd.write_text("sf_a,SF_b\n1,2\n")
    assert "rename them" in draft(tmp_path, [], data=odd).output
