"""Files of questions: where each begins, and what is no question."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.plan.sql import text
from sfumato.plan.sql.text import WrittenQuestion, question_in_refusals, split_questions


def test_questions_stand_between_semicolons() -> None:
    source = "-- first; a comment\nSELECT ';' AS x FROM t;\n\n;;SELECT\n 2 /* ; */ FROM t ; -- the end"
    assert split_questions(source) == (
        WrittenQuestion("SELECT ';' AS x FROM t", 2),
        WrittenQuestion("SELECT\n 2 /* ; */ FROM t", 4),
    )


@pytest.mark.parametrize("source", ["", "  \n", ";;", "-- nothing\n"])
def test_a_file_without_a_question_is_refused(source: str) -> None:
    with pytest.raises(sf.Unsupported, match="at least one"):
        split_questions(source)


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sf.Unsupported, match="5,000"):
        split_questions("SELECT 1;" * 5001)
    monkeypatch.setattr(text, "LONGEST_FILE", 5)
    with pytest.raises(sf.Unsupported, match="MB"):
        split_questions("SELECT 1")


def test_a_refusal_says_which_question_it_is_about() -> None:
    with pytest.raises(sf.InvalidParameter) as refused, question_in_refusals(3, WrittenQuestion("SELECT\n  1", 7)):
        raise sf.InvalidParameter("x", 1, "2", fix="give 2")
    assert refused.value.place == "question 3, line 7 of the file, 'SELECT 1': x"
    assert str(refused.value).splitlines() == [
        '"x" must be 2; got 1',
        "  place: question 3, line 7 of the file, 'SELECT 1': x",
        "  fix:   give 2",
    ]
    assert refused.value.allowed == "2"
    assert isinstance(refused.value, SfumatoError)
