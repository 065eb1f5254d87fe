"""``sfumato above``: what it prints, what it spends, how it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run, spent
from sfumato.release.comparisons import ThresholdAnswer

LATE, ALL = "SELECT COUNT(*) FROM flights WHERE delay > 179", "SELECT COUNT(*) FROM flights"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sf.example(tmp_path / "flights")


def session(policy: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return ("above", policy, "--threshold", "20000", "--epsilon", "1", *more)


def test_questions_of_a_file_are_answered_until_enough_are_above(policy: Path, tmp_path: Path) -> None:
    source = tmp_path / "questions.sql"
    source.write_text(f"-- who is late\n{LATE};\n\n{ALL}; {LATE};")
    explained = run(*session(policy, "--file", source, "--explain"))
    assert "charged in full" in explained.stdout
    assert spent(policy) == 0
    done = run(*session(policy, "--file", source))
    assert done.exit_code == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first == f"below  {LATE}"
    assert second == f"above  {ALL}"
    assert "protects" in rest[1]
    assert not any(LATE in line for line in rest)
    assert spent(policy) == 1


def test_lines_are_read_and_a_bad_one_is_refused_by_itself(policy: Path) -> None:
    done = run(*session(policy, "--json", "--values-epsilon", "0.5"), given=f"SELECT nonsense\n\n{LATE};\n{ALL}\n{ALL}")
    assert done.exit_code == 0, done.stderr
    assert "fix:" in done.stderr
    low, high = (ThresholdAnswer.from_json(line) for line in done.stdout.splitlines())
    assert (low.above, high.above, high.value is not None) == (False, True, True)
    assert spent(policy) == 1


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "at least one"),
        (" ; -- nothing\n ;", "at least one"),
        (f"{ALL};\n\nSELECT AVG(delay) FROM flights;", "question 2, line 3"),
        (f"{ALL};\nSELECT SUM(distance) FROM flights", "question 2, line 2"),
        ("SELECT 'open", "close every quote"),
    ],
)
def test_a_file_with_a_bad_question_spends_nothing(policy: Path, tmp_path: Path, written: str, said: str) -> None:
    source = tmp_path / "questions.sql"
    source.write_text(written)
    done = run(*session(policy, "--file", source))
    assert done.exit_code in (1, 2)  # of a question, or of a parameter
    assert said in done.stderr
    assert spent(policy) == 0
