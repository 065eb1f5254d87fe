"""``sfumato survey``: a form is made, answered and counted, and what is wrong is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run

QUESTIONS = ("--answers", "smokes=yes, no", "--bins", "age=0,18,30,65")


@pytest.fixture
def form(tmp_path: Path) -> Path:
    path = tmp_path / "smoking.sfu"
    done = run("survey", "new", path, *QUESTIONS, "--epsilon", "6", "--split", "--respondents", "500")
    assert done.exit_code == 0, done.stderr
    assert "2 questions at ε = 6" in done.stdout
    assert "among 500 respondents" in done.stdout
    return path


def test_a_form_is_made_answered_and_counted(form: Path, tmp_path: Path) -> None:
    made = sf.form(form)
    assert [each.name for each in made.questions] == ["smokes", "age"]
    assert not made.sampled
    reports = []
    for given in (("smokes=yes", "age=44"), ("smokes=no", "age=18"), ("age=no idea",)):
        done = run("survey", "answer", form, *given)
        assert done.exit_code == 0, done.stderr
        reports.append(done.stdout.strip())
    lines = tmp_path / "reports.jsonl"
    lines.write_text("\n".join([*reports * 40, "", "nonsense"]))
    picture = tmp_path / "counts.svg"
    done = run("survey", "estimate", form, lines, "--pair", "smokes,age", "--plot", picture)
    assert done.exit_code == 0, done.stderr
    assert "refused 1 of the lines" in done.stderr
    assert "120 respondents" in done.stdout
    assert "smokes and age (120 reports)" in done.stdout
    assert picture.read_text().startswith("<svg")
    found = json.loads(run("survey", "estimate", form, lines, "--json").stdout)
    assert found["respondents"] == 120
    assert [each["questions"] for each in found["tables"]] == [["smokes"], ["age"]]


def test_answers_are_asked_for_and_typed_as_the_question_is(form: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []
    answer = sf.surveys.Form.answer
    monkeypatch.setattr(sf.surveys.Form, "answer", lambda self, given: seen.append(given) or answer(self, given))
    done = run("survey", "answer", form, given="no\n29\n")
    assert done.exit_code == 0, done.stderr
    assert "smokes (yes, no)" in done.stderr
    assert len(done.stdout.splitlines()) == 1
    run("survey", "answer", form, given="\n\n")
    assert seen == [{"smokes": "no", "age": 29}, {"smokes": "", "age": ""}]


def test_what_is_wrong_is_refused(form: Path, tmp_path: Path) -> None:
    assert run("survey", "answer", form, "height=2").exit_code == 1
    assert run("survey", "answer", form, "yes").exit_code == 2
    assert (
        run("survey", "new", tmp_path / "no.sfu", "--answers", "a=x", "--bins", "a=0,1", "--epsilon", "1").exit_code
        == 2
    )
    assert run("survey", "new", tmp_path / "no.sfu", "--bins", "a=low,high", "--epsilon", "1").exit_code != 0
    assert not (tmp_path / "no.sfu").exists()
    form.write_bytes(form.read_bytes()[:-1])
    assert run("survey", "answer", form, "smokes=yes").exit_code == 1
