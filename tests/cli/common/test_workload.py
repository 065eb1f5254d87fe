"""``sfumato query --file``: many questions at one price, from the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run, spent
from sfumato.curator import Answers, Explanation, WorkloadForecast

ALL, JFK = "SELECT COUNT(*) AS n FROM flights", "SELECT COUNT(*) AS n FROM flights WHERE origin = 'JFK'"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sf.example(tmp_path / "flights")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "questions.sql"
    path.write_text(f"{ALL};\n{JFK};\n")
    return path


def test_questions_of_a_file_are_explained_forecast_and_asked(policy: Path, file: Path) -> None:
    asked = ("query", policy, "--file", file, "--epsilon", "1")
    assert "2 questions measured by 1 statement" in run(*asked, "--explain").stdout
    assert Explanation.from_json(run(*asked, "--explain", "--json").stdout).price == "ε = 1"
    dry = run(*asked, "--dry-run").stdout
    assert "together: ε = 1; the account accepts it now" in dry
    assert "Nothing was spent" in dry
    assert (
        dry.count("not rows beyond these limits") == len({line for line in dry.splitlines() if "counted:" in line}) >= 1
    )
    assert WorkloadForecast.from_json(run(*asked, "--dry-run", "--json").stdout).accepted
    assert spent(policy) == 0
    done = run(*asked)
    assert done.exit_code == 0, done.stderr
    assert f"q1  {ALL}" in done.stdout
    assert "±" in done.stdout
    assert "this answer  ε = 1" in done.stdout
    assert spent(policy) == 1
    again = run(*asked)
    assert "nothing was spent" in again.stdout
    assert Answers.from_json(run(*asked, "--json").stdout).names == ("q1", "q2")
    assert spent(policy) == 1


def test_a_request_id_is_charged_once_for_all_questions_of_a_file(policy: Path, file: Path) -> None:
    asked = ("query", policy, "--file", file, "--epsilon", "1", "--fresh", "--request-id", "r1", "--json")
    first, again = (Answers.from_json(run(*asked).stdout) for _ in range(2))
    assert [each.rows for each in again] == [each.rows for each in first]
    assert spent(policy) == 1


def test_wanted_accuracies_are_named_by_question_and_column(policy: Path, file: Path) -> None:
    asked = ("query", policy, "--file", file, "--dry-run", "--json")
    found = WorkloadForecast.from_json(run(*asked, "--within", "q1=2000", "--within", "q2.n=900").stdout)
    assert float(found["q1"]["n"]) <= 2000  # type: ignore[arg-type]
    assert float(found["q2"]["n"]) <= 900  # type: ignore[arg-type]
    assert WorkloadForecast.from_json(run(*asked, "--within", "2000").stdout).price == "ε = 0.2998"
    assert spent(policy) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((ALL, "--file", "x.sql", "--epsilon", "1"), "one question in SQL, or a --file"),
        (("--epsilon", "1"), "one question in SQL, or a --file"),
        (("--file", "FILE"), "name one price"),
        (("--file", "FILE", "--epsilon", "1", "--csv"), "leave out"),
        (("--file", "FILE", "--epsilon", "1", "--param", "a=1"), "leave out"),
        (("--file", "FILE", "--within", "q1=1", "--within", "q1.n=1"), "not both"),
        (("--file", "missing.sql", "--epsilon", "1"), "UTF-8"),
    ],
)
def test_what_cannot_be_meant_is_refused(policy: Path, file: Path, given: tuple[str, ...], said: str) -> None:
    done = run("query", policy, *(str(file) if each == "FILE" else each for each in given))
    assert done.exit_code == 2
    assert said in done.stderr
    assert spent(policy) == 0


def test_one_bad_question_is_named_and_nothing_is_spent(policy: Path, file: Path) -> None:
    file.write_text(f"{ALL};\n\nSELECT COUNT(*) FROM nowhere;")
    done = run("query", policy, "--file", file, "--epsilon", "1")
    assert done.exit_code == 1
    assert "question 2, line 3 of the file, 'SELECT COUNT(*) FROM nowhere'" in done.stderr
    assert spent(policy) == 0
