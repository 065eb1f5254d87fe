"""Asking and checking a published file from the command line: without data, curator or ledger."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run

FILE = Path(__file__).parent.parent / "publish" / "people.sfu"
QUESTION = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def test_a_question_is_answered_from_the_file_alone() -> None:
    done = run("ask", FILE, QUESTION)
    assert done.exit_code == 0
    assert "±" in done.output
    assert "protects" in done.output
    assert "software" in run("ask", FILE, QUESTION, "--receipt").output
    assert run("ask", FILE, "-", given=QUESTION).output == done.output


def test_bounds_say_that_they_are() -> None:
    done = run("ask", FILE, "SELECT COUNT(*) AS n FROM people WHERE age < 30")
    assert "perhaps" in done.output
    assert "only whole bins were published" in done.stderr


def test_answers_are_written_for_programs(tmp_path: Path) -> None:
    answer = sf.Answer.from_json(run("ask", FILE, QUESTION, "--json", "--confidence", "0.9").output)
    assert answer.basis == {"n": ("measured", "measured")}
    assert answer.receipt.confidence == "0.9"
    rows = list(csv.reader(io.StringIO(run("ask", FILE, QUESTION, "--csv", "--together").output)))
    assert rows[0] == ["sex", "n", "n_low", "n_high", "n_basis"]
    picture = tmp_path / "bars.svg"
    assert run("ask", FILE, QUESTION, "--plot", picture).exit_code == 0
    assert picture.read_text().startswith("<svg")
    assert run("ask", FILE, QUESTION, "--json", "--csv").exit_code == 2


@pytest.mark.parametrize("question", ["SELECT COUNT(*) FROM people WHERE town = 1", "DROP TABLE people", ""])
def test_what_cannot_be_answered_ends_with_one(question: str) -> None:
    done = run("ask", FILE, question)
    assert done.exit_code == 1
    assert "fix:" in done.stderr


def test_a_file_is_shown_verified_and_tabulated(tmp_path: Path) -> None:
    shown = run("synopsis", "show", FILE)
    assert "sex (2 + missing)" in shown.output
    assert "ρ = 0.5" in shown.output
    verified = run("synopsis", "verify", FILE)
    assert verified.exit_code == 0
    assert "holds    file" in verified.output
    assert "no check can show" in verified.output
    made = run("synopsis", "marginal", FILE, "sex", "age")
    assert "0 to below 18" in made.output
    assert "consistent" in made.output
    raw = json.loads(run("synopsis", "marginal", FILE, "sex", "--raw", "--json").output)
    assert raw["columns"] == ["sex", "count"]
    assert run("synopsis", "marginal", FILE, "sex", "town").exit_code == 2
    lines = tmp_path / "lines.json"
    lines.write_text("[]")
    assert run("synopsis", "verify", FILE, "--ledger", lines).exit_code == 1


def test_damaged_files_end_with_one(tmp_path: Path) -> None:
    damaged = tmp_path / "people.sfu"
    damaged.write_bytes(FILE.read_bytes()[:-3])
    for command in (["ask", damaged, QUESTION], ["synopsis", "verify", damaged], ["synopsis", "show", tmp_path]):
        done = run(*command)
        assert done.exit_code == 1
        assert "fix:" in done.stderr
