"""Answers in files: CSV, CSV for spreadsheets, JSON and Parquet."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyarrow import parquet

import sfumato as sf
from sfumato.cli import main

QUESTION = "SELECT origin, COUNT(*) AS flights, AVG(delay) AS delay FROM flights GROUP BY origin"


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> sf.Answer:
    with sf.Curator(sf.example(), tmp_path_factory.mktemp("ledger") / "l") as flights:
        return flights.sql(QUESTION).release(epsilon=1)


def test_every_form_holds_the_same_rows(answer: sf.Answer, tmp_path: Path) -> None:
    for name in ("a.csv", "a.json", "a.parquet"):
        answer.save(tmp_path / name)
    assert (tmp_path / "a.csv").read_text() == answer.to_csv()
    assert sf.Answer.from_json((tmp_path / "a.json").read_text()) == answer
    assert parquet.read_table(tmp_path / "a.parquet") == answer.to_arrow()


def test_a_spreadsheet_reads_letters_and_decimal_commas(answer: sf.Answer, tmp_path: Path) -> None:
    answer.save(tmp_path / "a.csv", excel=True, separator=";")
    written = (tmp_path / "a.csv").read_bytes()
    assert written.startswith(b"\xef\xbb\xbforigin;flights;delay;")
    assert written.count(b"\r\n") == written.count(b"\n") == 4
    rows = list(csv.DictReader(written.decode("utf-8-sig").splitlines(), delimiter=";"))
    assert [float(row["delay"].replace(",", ".")) for row in rows] == answer.column("delay")
    assert all("." not in cell for row in rows for cell in row.values())


def test_other_files_are_refused_before_anything_is_bought(answer: sf.Answer, tmp_path: Path) -> None:
    for refused in (lambda: answer.save(tmp_path / "a.xlsx"), lambda: answer.save(tmp_path / "no" / "a.csv")):
        with pytest.raises(sf.InvalidParameter, match="path"):
            refused()
    with pytest.raises(sf.InvalidParameter, match="spreadsheet"):
        answer.save(tmp_path / "a.json", excel=True)
    with pytest.raises(sf.InvalidParameter, match="separator"):
        answer.to_csv(separator="x")


def test_the_command_writes_the_file_too(tmp_path: Path) -> None:
    ledger = tmp_path / "l.ledger"
    asked = ["query", str(sf.example()), QUESTION, "--epsilon", "1", "--ledger", str(ledger)]
    bad = CliRunner().invoke(main, [*asked, "-o", str(tmp_path / "a.txt")])
    assert bad.exit_code == 2
    assert not ledger.exists()
    assert CliRunner().invoke(main, [*asked, "--excel", ";"]).exit_code == 2
    done = CliRunner().invoke(main, [*asked, "-o", str(tmp_path / "a.csv"), "--excel", ";"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.csv").read_bytes().startswith(b"\xef\xbb\xbf")
