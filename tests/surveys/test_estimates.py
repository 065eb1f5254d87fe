"""Estimates of a survey as other things: a data frame, a chart, JSON; and errors of pairs before anybody is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.plots.picture import SUFFIXES

BOTH = sf.collect({"smokes": ["yes", "no"], "sport": [True, False]}, 6, split=True)
PAIR = ("smokes", "sport")
ANSWERS = [{"smokes": "yes", "sport": False}] * 200 + [{"smokes": "no", "sport": True}] * 100


@pytest.fixture(scope="module")
def found() -> sf.surveys.SurveyEstimate:
    return BOTH.estimate([*map(BOTH.answer, ANSWERS), "nothing"], pairs=[PAIR])


def test_all_counts_are_rows_of_one_data_frame(found: sf.surveys.SurveyEstimate) -> None:
    frame = found.to_pandas()
    assert list(frame) == ["question", "answer", "count", "low", "high"]
    assert frame.groupby("question", sort=False).size().to_dict() == {"smokes": 3, "sport": 3, "smokes × sport": 9}
    own = frame[(frame["question"] == "smokes × sport") & (frame["answer"] == "yes · False")]
    assert own["count"].tolist() == [found[PAIR].counts[1]]
    assert (frame["low"] <= frame["high"]).all()


def test_json_says_everything(found: sf.surveys.SurveyEstimate) -> None:
    said = json.loads(found.to_json())
    assert said["respondents"] == 300
    assert said["refused"][0]["place"] == 300
    assert said["tables"][2]["counts"] == list(found[PAIR].counts)
    assert said["confidence"] == "0.95"


def test_every_question_is_a_panel_with_its_own_labels(found: sf.surveys.SurveyEstimate, tmp_path: Path) -> None:
    text = found.plot().svg
    for label in ("yes", "True", "yes · False", "smokes × sport", "300 respondents"):
        assert f">{label}" in text
    for kind in SUFFIXES:
        found.plot(str(tmp_path / f"counts{kind}"))
        assert (tmp_path / f"counts{kind}").stat().st_size > 0


def test_errors_of_pairs_are_those_of_even_answers() -> None:
    """Among 900 people whose answers are even, the ranges of a pair are about as wide as was said beforehand."""
    said = BOTH.error(900, pairs=[PAIR])
    assert list(said) == ["smokes", "sport", PAIR]
    cells = [("yes", True), ("yes", False), ("yes", None), ("no", True), ("no", False), ("no", None)]
    cells += [(None, True), (None, False), (None, None)]
    people = [{"smokes": smokes, "sport": sport} for smokes, sport in cells] * 100
    found = BOTH.estimate(map(BOTH.answer, people), pairs=[PAIR])[PAIR]
    reach = BOTH._pair_error(0, 1, 900, 0.05)
    assert said[PAIR] == reach
    widths = [high - count for count, (low, high) in zip(found.counts, found.intervals, strict=True) if low > 0]
    assert all(0.8 * reach < each < 1.25 * reach for each in widths)
    together = BOTH.error(900, pairs=[PAIR], together=True)
    assert all(together[each] > said[each] for each in said)
    with pytest.raises(sf.SfumatoError, match="pairs of questions cannot be counted"):
        sf.collect({"a": ["x"], "b": ["y"]}, 1, split=False).error(100, pairs=[("a", "b")])
