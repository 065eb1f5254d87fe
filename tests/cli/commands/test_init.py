"""``sfumato init``: the owner's answers become a policy; nothing is taken from the data."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import select
import shlex
import shutil
import sqlite3
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from engine.tables import DATA, in_database
from forked_commands import forked_command
from sfumato.cli import main
from sfumato.curator.policy_drafts import suggested_id, suggested_unit
from sfumato.engine.duckdb.file_inspection import schema
from sfumato.policy import Domain, Table, Type, Via, read

FLIGHTS = DATA / "flights" / "flights.parquet"
SECRETS = ("Zebulon", "77123", "1987-06-05")


def draft(folder: Path, answers: list[str], *more: str, data: Path = FLIGHTS) -> Result:
    given = "\n".join(answers) + "\n"
    return CliRunner().invoke(main, ["init", str(data), "-o", str(folder / "policy.toml"), *more], input=given)


def script(folder: Path, *more: str, data: Path) -> Result:
    """Without a keyboard: flags, and --yes for the rest."""
    return draft(folder, [], "--yes", *more, data=data)


def answers(**columns: list[str]) -> list[str]:
    """No look at the rows, a unit, a name, its limits, its number and its budget; then each column's answers, or a
    dash.
    """
    told = [each for name in schema(FLIGHTS) for each in columns.get(name, ["-"])]
    return ["no", "plane", "flights", "tailnum", "20", "10,000", "3 1e-6", *told]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A CSV file with a private name, number and day."""
    file = tmp_path / "people.csv"
    file.write_text("person_id,name,age,income,born\n1,Zebulon,50,77123,1987-06-05\n2,Ada,36,5,1988-01-01\n")
    return file


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


@pytest.mark.parametrize(
    ("written", "declared"),
    [
        ("integer values 0, 1", {"type": "integer", "values": [0, 1]}),
        ("integer 0 110 bins 11", {"type": "integer", "bounds": [0, 110], "bins": 11}),
        ("integer 1 16 bins 16", {"type": "integer", "bounds": [1, 16], "bins": 16}),
        ("real 0 9.5 bins 0,1.5,9.5", {"type": "real", "bounds": [0, "9.5"], "bins": [0, "1.5", "9.5"]}),
        ("integer bins 0,18,65", {"type": "integer", "bins": [0, 18, 65]}),
        ("integer values -1", {"type": "integer", "values": [-1]}),
        ("integer", {"type": "integer"}),
    ],
)
def test_a_column_of_numbers_has_bounds_values_or_bins(people: Path, written: str, declared: dict[str, Any]) -> None:
    done = yes_to_all(people, "--column", f"age={written}")
    assert done.exit_code == 0, done.output
    table = read(people.parent / "policy.toml").tables["people"]
    wanted = Table("people", people, {"age": declared}, id="row")
    assert (table.columns["age"], table.codings.get("age")) == (wanted.columns["age"], wanted.codings.get("age"))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("integer 0,1", "bounds have no comma: write '0 1' for bounds, or write 'values 0,1' for a list of values"),
        ("integer 1,2,3", "bounds have no comma: write 'values 1,2,3' for a list of values"),
        ("integer 0 110 bins many", "edges such as"),
        ("integer bins 4", "unless the column has bounds"),
        ("integer 0 110 bins 0,200", "within the bounds"),
        ("integer values low", "integer"),
    ],
)
def test_what_may_mean_bounds_or_values_is_not_guessed(people: Path, written: str, told: str) -> None:
    done = yes_to_all(people, "--column", f"age={written}")
    assert done.exit_code != 0
    assert told in done.output
    assert not (people.parent / "policy.toml").exists()


def yes_to_all(people: Path, *flags: str) -> Any:
    given = ("--id", "person_id", "--epsilon", "1", "--yes", "-o", str(people.parent / "policy.toml"), *flags)
    return CliRunner().invoke(main, ["init", str(people), *given])


def test_the_schema_is_shown_and_no_cell(tmp_path: Path) -> None:
    done = draft(tmp_path, answers(distance=["", ""]))
    assert "tailnum                  text" in done.output
    assert "distance                 integer" in done.output
    for cell in ("N14228", "IAH", "2013"):
        assert cell not in done.output + (tmp_path / "policy.toml").read_text()


def test_wrong_answers_are_asked_again(tmp_path: Path) -> None:
    told = ["no", "", "sf_name", "flights", "nobody", "tailnum", "0", "many", "20"]
    told += ["none", "0", "1.5", "10000", "-1", "half", "3 2", "3 1e-6"]
    told += answers(month=["number", "integer", "12 1", "1", "1 2 3", "low high", "1 12"])[7:]
    done = draft(tmp_path, told)
    assert done.exit_code == 0, done.output
    policy = read(tmp_path / "policy.toml")
    assert policy.unit.name == "person"  # the default
    assert "('" not in done.output  # no value of the program is shown
    assert policy.tables["flights"].columns == {"month": Domain("integer", bounds=(1, 12))}


def test_every_question_is_explained_with_what_it_costs(people: Path) -> None:
    told = [*("?", "yes", "?", "person", "?", "", "?", "", "?", "", "?", "", "?", "3"), "?", "", "?", "text"]
    told += ["?", "", "?", "", "?", "0 9", "*"]
    done = draft(people.parent, told, data=people)
    assert done.exit_code == 0, done.output
    for words in (
        "exact, without noise",
        "with every answer",
        "SELECT COUNT(*)",
        "TABLE.COLUMN",
        "ten times as noisy",
        "you would say in public",
        "e^ε",
    ):
        assert words in " ".join(done.output.split()), words
    for words in ("leaves the column out", "List the possible values", "is itself a disclosure"):
        assert words in " ".join(done.output.split()), words
    assert done.output.count("In a script: --") == 12


def test_rows_are_read_only_when_the_owner_lets_them_be(people: Path) -> None:
    done = script(people.parent, "--no-read-rows", "--epsilon", "1", data=people)
    assert done.exit_code == 0, done.output
    assert {each.type.value for each in read(people.with_name("policy.toml")).tables["people"].columns.values()} == {
        "text"
    }
    people.with_name("policy.toml").unlink()
    done = script(people.parent, "--epsilon", "1", data=people)
    kinds = {
        name: each.type.value for name, each in read(people.with_name("policy.toml")).tables["people"].columns.items()
    }
    assert kinds == {"age": "integer", "income": "integer", "born": "date"}


def test_nothing_of_the_rows_is_written_or_shown(people: Path) -> None:
    done = script(people.parent, "--epsilon", "1", data=people)
    assert done.exit_code == 0, done.output
    shown = done.output + people.with_name("policy.toml").read_text()
    assert not any(cell in shown for cell in SECRETS)
    columns = read(people.with_name("policy.toml")).tables["people"].columns
    assert columns["age"].bounds == (0, 120)  # the name says so, whatever the rows
    assert columns["income"].bounds is None
    assert columns["born"].bounds is None
    assert "name" not in columns  # whoever wants it declares it


def test_two_files_that_differ_in_rows_have_one_draft(tmp_path: Path) -> None:
    """Under neighbouring rows every byte of the policy and of what is printed is the same."""
    texts = []
    for rows in ("1,50,7\n", "1,50,7\n2,99,100000\n"):
        (tmp_path / "t.csv").write_text("person_id,age,income\n" + rows)
        done = script(tmp_path, "--epsilon", "1", data=tmp_path / "t.csv")
        texts.append(done.output + (tmp_path / "policy.toml").read_text())
        (tmp_path / "policy.toml").unlink()
    assert texts[0] == texts[1]


def test_the_draft_is_commented(people: Path) -> None:
    script(people.parent, "--epsilon", "1", data=people)
    text = people.with_name("policy.toml").read_text()
    for words in (
        "# The unit to protect",
        "# What all answers together",
        "# The unit of a row",
        "# The most rows of one unit",
    ):
        assert words in text


def test_rows_may_be_the_units_of_a_csv_file(tmp_path: Path) -> None:
    data = Path(shutil.copy(DATA / "visits" / "visits.csv", tmp_path))
    told = ["no", "visit", "visits", "row", "", "1", "-", "-", "integer", "0 120", "-", "-"]
    assert draft(tmp_path, told, data=data).exit_code == 0
    policy = read(tmp_path / "policy.toml")
    assert policy.unit.every_row
    assert 'source = "visits.csv"' in (tmp_path / "policy.toml").read_text()


def test_names_with_spaces_accents_and_digits_are_kept(tmp_path: Path) -> None:
    data = tmp_path / "abonnés 2024.csv"
    data.write_text("Patient N°,Total Cost €,2nd visit\n1,2,3\n")
    flags = ("--id", "Patient N°", "--column", "Total Cost €=real 0 10", "--name", "abonnés_2024=2024 Visits")
    done = script(tmp_path, *flags, "--epsilon", "1", data=data)
    assert done.exit_code == 0, done.output
    table = read(tmp_path / "policy.toml").tables["2024 Visits"]
    assert list(table.columns) == ["Total Cost €", "2nd visit"]
    assert table.columns["Total Cost €"].bounds == (0, 10)


def test_a_folder_is_drafted_with_its_foreign_keys(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("visit_id,patient_id,cost\n1,7,2.5\n")
    parquet.write_table(pa.table({"visit_id": [1], "dose": [2]}), tmp_path / "drugs.parquet")
    (tmp_path / "wards.csv").write_text("ward,beds\nA,3\n")
    (tmp_path / "notes.md").write_text("nothing")
    flags = ("--unit", "patient", "--epsilon", "3", "--delta", "1e-6", "--public", "wards", "--max-rows", "visits=5")
    done = script(tmp_path, *flags, data=tmp_path)
    assert done.exit_code == 0, done.output
    policy = read(tmp_path / "policy.toml")
    assert policy.tables["visits"].id == "patient_id"
    assert policy.tables["visits"].max_rows == 5
    assert policy.tables["drugs"].id == Via("visits", "visit_id")
    assert policy.tables["wards"].public
    assert CliRunner().invoke(main, ["check", str(tmp_path / "policy.toml")]).exit_code == 0


def test_the_tables_of_a_database_are_listed(tmp_path: Path) -> None:
    data = in_database(pa.table({"who": ["a"], "age": [1]}), tmp_path)
    with duckdb.connect(str(data)) as connection:
        connection.execute("CREATE TABLE other (x INTEGER)")
    done = draft(tmp_path, ["no", "person", "-", "", "", "who", "3", "", "1", "*"], data=data)
    assert done.exit_code == 0, done.output
    assert "The columns of other" in done.output
    assert read(tmp_path / "policy.toml").tables["t"].relation == "t"
    (tmp_path / "policy.toml").unlink()
    assert script(tmp_path, "--relation", "t", "--id", "who", "--epsilon", "1", data=data).exit_code == 0
    assert list(read(tmp_path / "policy.toml").tables) == ["t"]


def test_other_kinds_of_files_are_copied_with_consent(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id;größe\n1;1,5\n2;2,5\n", encoding="latin-1")
    (tmp_path / "b.tsv").write_text("user_id\tx\n1\t2\n")
    with gzip.open(tmp_path / "c.csv.gz", "wt") as opened:
        opened.write("user_id,x\n1,2\n")
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute('CREATE TABLE "visits of 2024" (user_id INTEGER, day DATE)')
        database.execute("INSERT INTO \"visits of 2024\" VALUES (1, '2024-01-01')")
    database.close()
    done = script(tmp_path, "--epsilon", "1", "--decimal", ",", data=tmp_path)
    assert done.exit_code == 0, done.output
    policy = read(tmp_path / "policy.toml")
    assert policy.tables["a"].columns["größe"].type.value == "real"
    assert policy.tables["visits_of_2024"].columns["day"].type.value == "date"
    copies = tmp_path / "policy.copies"
    assert {each.stem for each in copies.iterdir()} == {"a", "b", "c", "visits_of_2024"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in copies.iterdir()} == {0o600}
    assert not list(tmp_path.glob("*.parquet"))
    for copy in copies.iterdir():
        assert f"to {copy}, because " in done.output
    assert f"sfumato forget {tmp_path / 'policy.toml'}" in done.output
    assert CliRunner().invoke(main, ["check", str(tmp_path / "policy.toml")]).exit_code == 0
    (tmp_path / "policy.toml").unlink()
    again = script(tmp_path, "--epsilon", "1", "--decimal", ",", data=tmp_path)  # the copies are not tables beside them
    assert again.exit_code == 0, again.output
    assert read(tmp_path / "policy.toml") == policy


def test_a_file_is_not_copied_when_its_owner_says_no(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who;age\na;1\n")
    done = draft(tmp_path, ["no", "no"], data=tmp_path / "t.csv")
    assert done.exit_code == 1
    assert "separated by semicolons" in done.output
    assert "Parquet" in done.output
    assert not (tmp_path / "policy.copies").exists()


def test_without_copies_the_originals_are_read_where_the_engine_can(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user_id,age,sf_y\n1,2,3\n")
    (tmp_path / "u.csv").write_text("user_id;age\n1;2\n")
    done = script(tmp_path, "--epsilon", "1", "--no-copy", data=tmp_path)
    assert done.exit_code == 0, done.output
    reason = (
        "u.csv is left out: the engine cannot read it without a copy, because its cells are separated by semicolons"
    )
    assert reason in done.output
    assert "left out, because SQL cannot name them: sf_y" in done.output
    table = read(tmp_path / "policy.toml").tables["t"]
    assert (list(table.columns), table.source.path) == (["age"], tmp_path / "t.csv")
    assert not (tmp_path / "policy.copies").exists()
    assert CliRunner().invoke(main, ["check", str(tmp_path / "policy.toml")]).exit_code == 0


def test_an_existing_file_is_no_place_for_a_copy(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("who\tage\na\t1\n")
    (tmp_path / "policy.copies").mkdir()
    (tmp_path / "policy.copies" / "t.parquet").write_bytes(b"mine")
    done = script(tmp_path, "--epsilon", "1", "--id", "who", data=tmp_path / "t.tsv")
    assert done.exit_code == 1
    assert "never overwritten" in done.output
    assert (tmp_path / "policy.copies" / "t.parquet").read_bytes() == b"mine"


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    assert draft(tmp_path, answers(month=["", ""])[:-5]).exit_code == 1  # the answers end too soon
    assert not (tmp_path / "policy.toml").exists()
    (tmp_path / "policy.toml").write_text("mine")
    done = draft(tmp_path, answers(month=["", ""]))
    assert done.exit_code == 1
    assert "never overwritten" in done.output
    assert (tmp_path / "policy.toml").read_text() == "mine"


def test_an_interview_goes_on_where_it_was(people: Path) -> None:
    first = draft(people.parent, ["yes", "citizen", "", "", "4"], data=people)
    assert first.exit_code == 1
    kept = people.parent / ".sfumato-init.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not any(cell in kept.read_text() for cell in SECRETS)
    done = draft(people.parent, ["", "3", "*"], data=people)
    assert done.exit_code == 0, done.output
    assert "Continuing where the last interview stopped" in done.output
    assert "citizen (your earlier answer)" in done.output
    policy = read(people.with_name("policy.toml"))
    assert (policy.unit.name, policy.tables["people"].max_rows) == ("citizen", 4)
    assert not kept.exists()


@pytest.mark.parametrize("left", ["{", "[]", '{"version": 1, "of": [], "answers": {"unit": "x"}}', "\0", '{"of": 1}'])
def test_answers_that_are_damaged_or_of_other_data_count_for_nothing(people: Path, left: str) -> None:
    (people.parent / ".sfumato-init.json").write_text(left)
    done = script(people.parent, "--epsilon", "1", data=people)
    assert done.exit_code == 0, done.output
    assert read(people.with_name("policy.toml")).unit.name == "person"


def test_a_kept_answer_that_is_no_answer_is_asked_again(people: Path) -> None:
    draft(people.parent, ["yes", "citizen"], data=people)
    kept = people.parent / ".sfumato-init.json"
    left = json.loads(kept.read_text())
    left["answers"]["unit"] = ""
    kept.write_text(json.dumps(left))
    done = draft(people.parent, ["person", "", "", "4", "", "3", "*"], data=people)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ((), "--epsilon"),
        (("--epsilon", "x"), "epsilon"),
        (("--epsilon", "1", "--max-rows", "0"), "whole number"),
        (("--epsilon", "1", "--column", "age=number"), "type must be one of"),
    ],
)
def test_a_script_is_told_which_flag_is_missing_or_wrong(people: Path, flags: tuple[str, ...], word: str) -> None:
    done = script(people.parent, *flags, data=people)
    assert done.exit_code == 1, done.output
    assert word in done.output
    assert not people.with_name("policy.toml").exists()


@pytest.mark.parametrize("names", ["a,b", "order_id,b", "id,b", "person_id,b"])
def test_no_unit_is_guessed_unseen(tmp_path: Path, names: str) -> None:
    """A key of something else would protect that, and not whom the owner named."""
    (tmp_path / "t.csv").write_text(f"{names}\n1,2\n")
    done = script(tmp_path, "--epsilon", "1", "--unit", "household", data=tmp_path / "t.csv")
    assert done.exit_code == 1
    assert "--id" in done.output


@pytest.mark.parametrize(
    "flags", [("--id", "nobody"), ("--public", "nothing"), ("--column", "x"), ("--delta", "1e-6"), ("--name", "q=x")]
)
def test_flags_about_nothing_are_wrong_usage(people: Path, flags: tuple[str, ...]) -> None:
    assert script(people.parent, *flags, data=people).exit_code == 2


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("empty.csv", b"", "column names"),
        ("blank.csv", b"\n\n", "column names"),
        ("junk.csv", bytes(range(256)) * 40, "binary data"),
        ("junk.csv.gz", b"\x1f\x8bnot gzip", "cannot be decompressed"),
        ("junk.parquet", b"PAR1" + bytes(100), "Parquet"),
        ("junk.duckdb", bytes(5000), "DuckDB"),
        ("junk.sqlite", bytes(5000), "SQLite"),
        ("junk.xlsx", b"PK", "extension"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, content: bytes, word: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = script(tmp_path, "--epsilon", "1", "--id", "row", data=tmp_path / name)
    assert done.exit_code == 1, done.output
    assert word in done.output
    assert not (tmp_path / "policy.toml").exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert "no such file" in draft(tmp_path, [], data=tmp_path / "none.parquet").output
    assert "this folder contains no file" in draft(tmp_path, [], data=tmp_path).output


@pytest.mark.parametrize("text", ["user_id,x\n", "user_id,x\n1,2\n1\n1,2,3\n", 'user_id,"a ""b"" c"\n1,2\n'])
def test_odd_but_good_files_are_drafted(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    done = script(tmp_path, "--epsilon", "1", data=tmp_path / "t.csv")
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["check", str(tmp_path / "policy.toml")]).exit_code == 0


def test_columns_of_one_name_are_told_apart_in_a_copy(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user_id,x,X,sf_y,\n1,2,3,4,5\n")
    done = script(tmp_path, "--epsilon", "1", data=tmp_path / "t.csv")
    assert done.exit_code == 0, done.output
    assert list(read(tmp_path / "policy.toml").tables["t"].columns) == ["x", "X 2", "column 4", "column 5"]
    assert CliRunner().invoke(main, ["check", str(tmp_path / "policy.toml")]).exit_code == 0


def test_thousands_of_columns_are_drafted(tmp_path: Path, long: bool) -> None:
    many = 9_999 if long else 2_000
    names = ["user_id", *(f"c{number}" for number in range(many))]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n")
    done = draft(tmp_path, ["no", "", "", "", "", "", "1", "*"], data=tmp_path / "t.csv")
    assert done.exit_code == 0, done.output
    assert len(read(tmp_path / "policy.toml").tables["t"].columns) == many
    assert len(done.output.splitlines()) < 80


def test_names_that_a_terminal_would_obey_are_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user_id,\x1b[31mred,age\n1,2,3\n")
    done = script(tmp_path, "--epsilon", "1", data=tmp_path / "t.csv")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output + (tmp_path / "policy.toml").read_text()


def test_smartnoise_metadata_answer_the_questions(tmp_path: Path) -> None:
    (tmp_path / "PUMS.csv").write_text("pid,age,educ,secret\n1,30,9,x\n")
    lines = ["'': # any", "  PUMS:", "    PUMS:", "      max_ids: 4", "      pid:", "        type: int"]
    lines += ["        private_id: True", "      age:", "        type: int", "        lower: 0", "        upper: 100"]
    lines += ["      educ:", "        type: string"]
    (tmp_path / "pums.yaml").write_text("\n".join(lines))
    flags = ("--from-smartnoise", str(tmp_path / "pums.yaml"), "--epsilon", "1")
    done = script(tmp_path, *flags, data=tmp_path / "PUMS.csv")
    assert done.exit_code == 0, done.output
    table = read(tmp_path / "policy.toml").tables["PUMS"]
    assert (table.id, table.max_rows) == ("pid", 4)
    assert dict(table.columns) == {"age": Domain("integer", bounds=(0, 100)), "educ": Domain("text")}
    assert f"{tmp_path / 'pums.yaml'} does not name these columns of PUMS, which are left out: secret." in done.output
    assert "names columns that" not in done.output
    (tmp_path / "pums.yaml").write_text("\n".join([*lines, "      income:", "        type: string"]))
    (tmp_path / "policy.toml").unlink()
    assert (
        "names columns that PUMS does not have: income." in script(tmp_path, *flags, data=tmp_path / "PUMS.csv").output
    )


def test_an_interview_at_a_terminal(people: Path) -> None:
    """Typed at a pseudo-terminal, in a process of its own: explained, answered, done."""
    main_end, other_end = pty.openpty()
    asked = ("init", people, "-o", people.with_name("policy.toml"))
    running = forked_command(*asked, streams=[other_end] * 3, terminal=True)
    os.close(other_end)
    os.write(main_end, b"?\nyes\ncitizen\n\n\n4\n\n3\n*\n\n")
    shown = b""
    while select.select([main_end], [], [], 60)[0]:  # a question that nobody answers would be waited for for ever
        try:
            block = os.read(main_end, 4096)
        except OSError:  # as Linux says that the other end is closed
            break
        if not block:
            break
        shown += block
    else:
        running.kill()
    running.join(120)
    assert running.exitcode == 0, shown.decode()
    os.close(main_end)
    assert "exact, without noise" in shown.decode()
    assert read(people.with_name("policy.toml")).unit.name == "citizen"


def test_names_in_other_languages_are_understood(tmp_path: Path) -> None:
    data = tmp_path / "Démographie.csv"
    data.write_text("Patient ID,Nom complet,Prénom,Âge,Straße\n1,Zebulon,Ada,50,x\n")
    done = script(tmp_path, "--epsilon", "1", data=data)
    assert done.exit_code == 0, done.output
    policy = read(tmp_path / "policy.toml")
    assert policy.unit.name == "patient"  # not person: the key says it
    assert policy.tables["Démographie"].columns == {"Âge": Domain("integer", bounds=(0, 120))}


@pytest.mark.parametrize(
    ("names", "unit"),
    [
        ("patient_id,x", "patient"),
        ("VisitorId,Day", "visitor"),
        ("patient_id,user_id,x", "person"),
        ("pid,x", "person"),
        ("person_id,x", "person"),
    ],
)
def test_the_unit_is_called_as_the_one_key_of_people(tmp_path: Path, names: str, unit: str) -> None:
    (tmp_path / "t.csv").write_text(f"{names}\n1,2\n")
    done = script(tmp_path, "--epsilon", "1", data=tmp_path / "t.csv")
    assert (done.exit_code, read(tmp_path / "policy.toml").unit.name) == (0, unit), done.output


def test_an_explanation_writes_names_as_a_shell_reads_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Patient ID,Time spent (mins)\n1,2\n")
    told = ["yes", "", "", "", "", "", "1", "", "?", "", "?", ""]
    done = draft(tmp_path, told, data=tmp_path / "t.csv")
    assert "--column 'Time spent (mins)'='integer 0 110', or --column 'Time spent (mins)'=-" in done.output
    assert "'Time spent (mins)'='integer values 1..16'" in done.output


def test_a_run_of_values_is_written_short(people: Path) -> None:
    done = script(people.parent, "--epsilon", "1", "--column", "age=integer values -1..2,9", data=people)
    assert done.exit_code == 0, done.output
    assert read(people.with_name("policy.toml")).tables["people"].columns["age"].values == (-1, 0, 1, 2, 9)
    for wrong in ("9..1", "0..999999999"):
        done = script(
            people.parent, "--epsilon", "1", "--column", f"age=integer values {wrong}", "-o", "x", data=people
        )
        assert (
            "must go from its lowest to its highest value, and have at most 10,000 values, as in 'values 1..16'"
            in done.output
        )


@pytest.mark.parametrize(
    ("declared", "fix"), [("values 1,2", "'integer values 1,2'"), ("values north,south", "'text north,south'")]
)
def test_values_without_a_type_are_refused_with_the_flag_to_type(people: Path, declared: str, fix: str) -> None:
    done = script(people.parent, "--epsilon", "1", "--column", f"age={declared}", data=people)
    assert f"write the type first: --column age={fix}" in done.output


def test_columns_without_bounds_are_told(people: Path) -> None:
    done = script(people.parent, "--epsilon", "1", data=people)
    assert "Without bounds: income, born. These columns can be counted, but not summed" in done.output


def test_a_column_that_is_misspelled_is_named(people: Path) -> None:
    done = script(people.parent, "--epsilon", "1", "--column", "incom=-", data=people)
    assert "no table has a column incom: did you mean income?" in done.output


def test_all_that_yes_leaves_open_is_told_at_once(tmp_path: Path) -> None:
    """Whoever writes a script was told of one flag, and after the next run of the other."""
    (tmp_path / "a.csv").write_text("who,age\na,1\n")
    (tmp_path / "b.csv").write_text("whose,age\na,1\n")
    done = script(tmp_path, data=tmp_path)
    assert done.exit_code == 1
    assert "these questions have no safe default" in done.output
    for flag in ("--id a=COLUMN", "--id b=COLUMN", "--epsilon NUMBER"):
        assert flag in done.output
    one = script(tmp_path, "--id", "a=who", "--id", "b=whose", data=tmp_path)
    assert "this question has no safe default" in one.output
    assert "--id" not in one.output
    assert script(tmp_path, "--id", "a=who", "--id", "b=whose", "--epsilon", "1", data=tmp_path).exit_code == 0


def test_texts_of_sqlite_that_are_dates_are_proposed_as_dates(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE visits (user_id INTEGER, day TEXT, at TEXT, zip TEXT, note TEXT)")
        days = [("2024-01-01", "2024-01-01 10:30:00", "10115", "2024-01-01"), ("2024-02-29", None, "20095", "soon")]
        database.executemany("INSERT INTO visits VALUES (1, ?, ?, ?, ?)", days)
    database.close()
    done = script(tmp_path, "--epsilon", "1", data=tmp_path / "d.sqlite")
    assert done.exit_code == 0, done.output
    found = {name: each.type.value for name, each in read(tmp_path / "policy.toml").tables["visits"].columns.items()}
    assert found == {"day": "date", "at": "timestamp", "zip": "text", "note": "text"}
    (tmp_path / "policy.toml").unlink()
    unread = script(tmp_path, "--epsilon", "1", "--no-read-rows", data=tmp_path / "d.sqlite")
    assert unread.exit_code == 0, unread.output
    assert read(tmp_path / "policy.toml").tables["visits"].columns["day"].type.value == "text"


def test_rows_are_read_only_of_the_files_that_were_asked_about(tmp_path: Path) -> None:
    """A Parquet file says its types: to look into its texts takes a consent that nobody was asked for."""
    (tmp_path / "a.csv").write_text("user_id,age\n1,1\n")
    parquet.write_table(pa.table({"user_id": [1], "day": ["2024-01-01"]}), tmp_path / "b.parquet")
    done = script(tmp_path, "--epsilon", "1", data=tmp_path)
    assert done.exit_code == 0, done.output
    assert "The columns of b (no row was read)" in done.output
    assert read(tmp_path / "policy.toml").tables["b"].columns["day"].type.value == "text"


def measured(folder: Path, rows: str, *typed: str, flags: tuple[str, ...] = ()) -> Result:
    """An interview that may read the rows of a table of persons and incomes; typed are the limit and the columns."""
    (folder / "t.csv").write_text("person_id,income\n" + rows)
    limit, *columns = typed
    return draft(folder, ["yes", "", "", "", limit, "", "3", *columns], *flags, data=folder / "t.csv")


PERSONS = "".join(f"{number // 2},{number * 10}\n" for number in range(1000))
"""Five hundred persons of two rows each, with incomes from 0 to 9,990."""


@pytest.mark.parametrize(
    ("rows", "said", "limit"),
    [
        (PERSONS, "of 1 keeps 50.0 %, 2 keeps all.", 2),
        ("".join(f"{number},5\n" for number in range(50)), "of 1 keeps all.", 1),
        (PERSONS + "7,1\n" * 9, "of 1 keeps 49.6 %, 2 keeps 99.1 %, 5 keeps 99.4 %, 10 keeps 99.9 %.", 2),
    ],
)
def test_a_limit_is_proposed_with_what_it_keeps(tmp_path: Path, rows: str, said: str, limit: int) -> None:
    done = measured(tmp_path, rows, "", "-", "integer", "-", "")
    assert done.exit_code == 0, done.output
    assert f"PRIVATE, for you alone: of the rows of t, a limit per person {said}" in done.output
    assert read(tmp_path / "policy.toml").tables["t"].max_rows == limit
    text = (tmp_path / "policy.toml").read_text()
    assert "%" not in text  # what was seen is not written


@pytest.mark.parametrize(
    ("rows", "said", "bounds"),
    [
        (PERSONS, "none beyond 0 10000", (0, 10_000)),
        (PERSONS + "7,999999\n7,-3\n", "0.2 % beyond 0 10000, none beyond -5 1000000", (0, 10_000)),
        ("1,0\n" * 30, "none beyond 0 1", (0, 1)),
        ("1,\n" * 30, None, None),
        ("1,9999999999999\n" * 30, None, None),
    ],
)
def test_bounds_are_proposed_from_round_numbers_with_what_is_beyond(
    tmp_path: Path, rows: str, said: str | None, bounds: tuple[int, int] | None
) -> None:
    done = measured(tmp_path, rows, "", "-", "integer", "", "")
    assert done.exit_code == 0, done.output
    assert (said or "") in done.output
    assert ("of the cells of income" in done.output) is (said is not None)
    assert read(tmp_path / "policy.toml").tables["t"].columns["income"].bounds == bounds


def test_figures_of_rows_are_not_taken_unseen(tmp_path: Path) -> None:
    """With --yes, * and flags the policy is the same whatever the rows: 10 rows, and no bounds."""
    texts = []
    for rows in (PERSONS, "1,5\n2,5\n"):
        accepted = measured(tmp_path, rows, "7", "-", "*", "")
        assert accepted.exit_code == 0, accepted.output
        texts.append((tmp_path / "policy.toml").read_text())
        (tmp_path / "policy.toml").unlink()
        assert "of the cells of" not in accepted.output
        done = script(tmp_path, "--epsilon", "3", data=tmp_path / "t.csv")
        assert "PRIVATE" not in done.output
        texts.append((tmp_path / "policy.toml").read_text())
        (tmp_path / "policy.toml").unlink()
    assert texts[:2] == texts[2:]
    assert "max_rows = 10" in texts[1]
    assert "Assumed without reading: at most 10 rows of one person count in t." in done.output
    limited = script(tmp_path, "--epsilon", "3", "--max-rows", "2", data=tmp_path / "t.csv")
    assert "Assumed without" not in limited.output
    (tmp_path / "policy.toml").unlink()
    seen = measured(tmp_path, PERSONS, "7", "-", "integer", "*", "")  # * is for all that follows, not for a figure
    assert "of the cells of income" in seen.output
    assert read(tmp_path / "policy.toml").tables["t"].columns["income"].bounds is None


def test_figures_need_the_consent_to_read_rows(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"person_id": [1, 1], "income": [5, 6]}), tmp_path / "t.parquet")
    for consent, limit in (("yes", 2), ("no", 10)):
        told = [consent, "", "", "", "", "", "3", "-", "integer", "-", ""]
        done = draft(tmp_path, told, data=tmp_path / "t.parquet")
        assert ("PRIVATE" in done.output) is (consent == "yes")
        assert read(tmp_path / "policy.toml").tables["t"].max_rows == limit
        (tmp_path / "policy.toml").unlink()


def test_what_a_limit_keeps_is_counted_through_other_tables(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(
        "visit_id,person_id,day\n" + "".join(f"{each},{each // 3},5\n" for each in range(30))
    )
    (tmp_path / "drugs.csv").write_text("visit_id,dose\n" + "".join(f"{each},5\n" for each in range(30)))
    told = ["yes", "person", "", "", "", "", "", "", "", "", "", "3", "*", "*", ""]
    done = draft(tmp_path, told, data=tmp_path)
    assert done.exit_code == 0, done.output
    assert "of the rows of drugs, a limit per person of 1 keeps 33.3 %, 2 keeps 66.7 %, 5 keeps all." in done.output


KEYS = [
    *(
        "Patient N°",
        "patient number",
        "PatientNr",
        "PATIENT_NO",
        "Patient №",
        "Patient Nº",
        "patient-num",
        "PatientKey",
    ),
    *("patient code", "Patient Identifier", "pâtient.nr", "N° patient", "numéro patient", "ID Patient", "Patient #"),
]


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_told_by_its_name_however_it_is_written(name: str) -> None:
    """No file is there: the name alone decides."""
    assert suggested_id({"ward": Type.TEXT, name: Type.INTEGER}, "patient") == name
    assert suggested_unit([{"ward": Type.TEXT, name: Type.INTEGER}]) == "patient"
    assert suggested_id({name: Type.REAL}, "patient") is None
    assert suggested_id({name: Type.INTEGER}, "household") is None


@pytest.mark.parametrize(
    "name",
    [
        *("num_patients", "n_patient", "no_patient", "number of patients", "patient_count", "patient number of visits"),
        *("order_no", "visit number", "inpatient_id", "patientname", "patient_code_type", "id_ward", "n", "No"),
    ],
)
def test_what_counts_units_or_names_other_things_is_no_key(name: str) -> None:
    assert suggested_id({name: Type.INTEGER}, "patient") is None


def test_the_surest_key_is_taken_first() -> None:
    columns = {"member code": Type.TEXT, "member": Type.TEXT, "Member N°": Type.INTEGER, "member_id": Type.INTEGER}
    for best in ("member_id", "Member N°", "member", "member code"):
        assert suggested_id(columns, "member") == best
        columns.pop(best)
    assert suggested_id({"pcode": Type.TEXT}, "person") is None  # more often a postal code
    assert suggested_id({"pnr": Type.TEXT}, "person") == "pnr"


def test_a_draft_says_by_which_name_rows_were_given_to_units(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("Patient N°,visit_id,ward\n7,1,x\n")
    (tmp_path / "drugs.csv").write_text("visit_id,dose\n1,2\n")
    done = script(tmp_path, "--unit", "patient", "--epsilon", "1", data=tmp_path)
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "policy.toml").tables["visits"].id == "Patient N°"
    assert "rows of visits with the same Patient N° belong to one patient" in done.output
    assert "rows of drugs with the same visit_id, through the table visits, belong to one patient" in done.output
    (tmp_path / "policy.toml").unlink()
    told = script(tmp_path, "--unit", "patient", "--epsilon", "1", "--id", "visits=Patient N°", data=tmp_path)
    assert "rows of visits with" not in told.output  # whoever gave the flag knows it
    assert "rows of drugs with" in told.output


def test_what_a_draft_leaves_out_is_told_with_a_line_and_a_flag_that_declare_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("patient_id,Prénom,Doctor ID,ward,age,mail\n1,Ada,3,x,5,a\n")
    done = script(tmp_path, "--epsilon", "1", "--column", "mail=-", data=tmp_path / "t.csv")
    assert done.exit_code == 0, done.output
    assert "Left out of t: Prénom, Doctor ID. Their names suggest a person's name or a key" in done.output
    line = re.search(r"a line such as (.+?) below \[tables\.t\.columns\] in policy\.toml", done.output)
    flag = re.search(r"draft again with (--column .+?)\.\n", done.output)
    assert line
    assert flag
    written = tmp_path / "policy.toml"
    written.write_text(f"{written.read_text()}{line[1]}\n")
    assert read(written).tables["t"].columns["Prénom"] == Domain("text")
    written.unlink()
    again = script(tmp_path, "--epsilon", "1", *shlex.split(flag[1]), data=tmp_path / "t.csv")
    assert again.exit_code == 0, again.output
    assert read(written).tables["t"].columns["Prénom"] == Domain("text")
    assert "Left out of t: Doctor ID, mail." in again.output


@pytest.mark.parametrize(
    ("delta", "said"), [((), "has no δ for that"), (("--delta", "1e-6"), "shows only large groups")]
)
def test_texts_without_values_are_told_with_what_a_group_by_them_needs(
    tmp_path: Path, delta: tuple[str, ...], said: str
) -> None:
    (tmp_path / "t.csv").write_text("patient_id,ward,city,age\n1,x,y,5\n")
    columns = ("--column", "city=text Rome,Oslo")
    done = script(tmp_path, "--epsilon", "1", *delta, *columns, data=tmp_path / "t.csv")
    assert re.search(rf"Without values: ward\. .*{said}\. Write values = \[\.\.\.\] into policy\.toml", done.output)
    (tmp_path / "policy.toml").unlink()
    listed = script(tmp_path, "--epsilon", "1", *columns, "--column", "ward=text x,y", data=tmp_path / "t.csv")
    assert listed.exit_code == 0, listed.output
    assert "Without values" not in listed.output


def test_nothing_is_said_to_be_left_out_where_nothing_is_or_its_owner_typed_it(people: Path) -> None:
    told = ["yes", "", "", "", "4", "", "3", "-", "-", "integer", "0 9", "*"]
    done = draft(people.parent, told, data=people)
    assert done.exit_code == 0, done.output
    assert "Left out" not in done.output
    people.with_name("policy.toml").unlink()
    taken = draft(people.parent, ["yes", "", "", "", "4", "", "3", "*", ""], data=people)
    assert "Left out of people: name." in taken.output


def test_columns_that_no_question_can_name_are_told_by_name(tmp_path: Path) -> None:
    held = {"user_id": [1], "sf_x": [1], "X": [1], "x": [2], "bad\x1bname": [1], "": [1], "y" * 64: [1]}
    parquet.write_table(pa.table(held), tmp_path / "t.parquet")
    done = script(tmp_path, "--epsilon", "1", data=tmp_path / "t.parquet")
    assert done.exit_code == 0, done.output
    listed = f'sf_x, x, bad\\x1bname, "", {"y" * 64}. Rename them first: a name has at most 63 visible characters'
    assert f"left out, because SQL cannot name them: {listed}" in done.output
    assert "\x1b" not in done.output
    assert list(read(tmp_path / "policy.toml").tables["t"].columns) == ["X"]


def budgeted(folder: Path, *typed: str) -> Result:
    """Type the number of units and the budget, and what is asked again; the flags answer the rest."""
    (folder / "t.csv").write_text("person_id,age\n1,50\n2,60\n")
    rest = ("--read-rows", "--unit", "person", "--id", "person_id", "--max-rows", "3", "--name", "t=t")
    return draft(folder, [*typed, "*"], *rest, data=folder / "t.csv")


@pytest.mark.parametrize(
    ("typed", "delta", "allowed"),
    [
        (("500", "3 2e-5"), "2e-5", False),  # as proposed: not asked again
        (("500", "3 2.1e-5", "2.1e-5"), "2.1e-5", False),
        (
            ("500", "3 2.1e-5", "2.2e-5", "x", ""),
            "2e-5",
            False,
        ),  # another δ above it is none, Enter is the proposed one
        (("", "3 1e-9"), "1e-9", False),
        (("", "3 1e-6", "1e-6"), "1e-6", False),
        (("", "3 1e-6", "0"), "0", False),
        (("500", "3 0.05", "0.05"), "0.05", True),
        (("500", "3 0.001", "0.001"), "0.001", True),
        (("500", "3"), "0", False),
    ],
)
def test_a_delta_above_the_proposed_one_is_asked_for_again(
    tmp_path: Path, typed: tuple[str, ...], delta: str, allowed: bool
) -> None:
    done = budgeted(tmp_path, *typed)
    assert done.exit_code == 0, done.output
    policy = read(tmp_path / "policy.toml")
    assert (policy.budget.epsilon, policy.budget.delta) == (3, Fraction(delta))
    assert policy.allow_large_delta is allowed
    assert policy.size is None  # the number is not written
    proposed = "2e-05" if typed[0] else "1e-09"
    assert f"(such as '3 {proposed}')" in done.output
    assert ("again to keep it" in done.output) is (len(typed) > 2)


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--delta", "1e-6", "--people", "10000"), 0, ""),
        (("--delta", "1.1e-6", "--people", "10,000"), 0, "is above 1e-06 (1/(100 · 10,000 units))"),
        (("--delta", "1e-6"), 0, "is above 1e-09 (the number of units is unknown)"),
        (("--delta", "0.00099"), 0, "is above"),
        (("--delta", "0.001"), 1, "or add --allow-large-delta"),
        (("--delta", "0.001", "--allow-large-delta"), 0, "is above"),
        (("--people", "many"), 1, "a whole number"),
    ],
)
def test_a_delta_of_a_script_is_judged_by_its_number_of_people(
    people: Path, flags: tuple[str, ...], code: int, said: str
) -> None:
    done = yes_to_all(people, *flags)
    assert done.exit_code == code, done.output
    assert said in " ".join(done.output.split())
    assert bool(said) is ("is above" in done.output or bool(code))
    if code == 0:
        assert read(people.with_name("policy.toml")).allow_large_delta is ("--allow-large-delta" in flags)


def test_an_interview_never_counts_people(tmp_path: Path) -> None:
    """Whatever the rows are, every byte that is asked and written is the same."""
    shown = []
    for number in (1, 400):
        (tmp_path / "t.csv").write_text("person_id,age\n" + "".join(f"{each},5\n" for each in range(number)))
        done = draft(tmp_path, ["yes", "", "", "", "", "", "3 1e-6", "", "*"], data=tmp_path / "t.csv")
        assert done.exit_code == 0, done.output
        assert "roughly (empty: unknown): " in done.output
        shown.append(done.output + (tmp_path / "policy.toml").read_text())
        (tmp_path / "policy.toml").unlink()
    assert shown[0] == shown[1]
