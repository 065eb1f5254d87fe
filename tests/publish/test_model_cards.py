"""Model cards: they tell what was released, and nothing that was not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from publish.models import synthetic
from publish.synthesis import clinic
from sfumato.errors import InvalidParameter
from sfumato.publish.synthetic import Synthetic

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")


@pytest.fixture(scope="module")
def made() -> Synthetic:
    return synthetic()


def test_a_card_tells_what_was_measured_its_price_and_its_errors(made: Synthetic) -> None:
    card = made.card(licence="CC BY 4.0", contact="curator@clinic.example")
    assert [column.name for column in card.columns] == list(made.columns)
    assert (card.guarantee, card.rows, card.licence) == ("ρ = 0.5", made.total, "CC BY 4.0")
    quality = made.quality()
    assert [(each.columns, each.distance, each.low, each.high) for each in card.measured] == [
        (each.columns, each.distance, each.low, each.high) for each in quality.marginals
    ]
    assert card.unmeasured == quality.unmeasured
    parsed = json.loads(card.to_json())
    assert parsed["kind"] == "sfumato-model-card"
    assert parsed["guarantee"] == "ρ = 0.5"
    for text in (card.to_markdown(), card.to_html()):
        for word in ("CC BY 4.0", "ρ = 0.5", "one person", "add-remove", "age × smokes × weight", "standard errors"):
            assert word in text
    assert made.card().to_markdown().count("not stated") == 1


def test_a_card_never_shows_what_is_left_of_the_budget(made: Synthetic) -> None:
    told = replace(made, receipt=replace(made.receipt, remaining="ε = 1.2345", share="ann")).card()
    for text in (told.to_json(), told.to_markdown(), told.to_html()):
        assert "1.2345" not in text
        assert "ann" not in text.replace("cannot", "")


def test_texts_of_the_publisher_are_no_markup(made: Synthetic) -> None:
    card = made.card(name="<script>x</script>", description="**b** [a](javascript:x)", licence="<img src=x>\n# y")
    page = card.to_html()
    assert "<script>" not in page
    assert "<img" not in page
    assert "[a](" not in card.to_markdown()
    assert "\n# y" not in card.to_markdown()


def test_a_preview_promises_nothing(tmp_path: Path) -> None:
    with clinic.curator(tmp_path, clinic.people(1, 50)) as curator:
        card = curator.synthesize("people", "independent").preview(epsilon=1, rows=50).card()
    assert card.guarantee == "none: this is a preview on invented rows"


def test_scores_are_bought_and_named_with_their_price(tmp_path: Path) -> None:
    with clinic.curator(tmp_path, clinic.people(1, 300)) as curator:
        made = curator.synthesize("people", "independent").release(epsilon=1)
        rows = made.sample(300, seed=1)
        score = curator.score(rows, "people", k=2).release(epsilon=1)
        card = made.card(scores=[score])
        assert "bought for ε = 1" in card.scores[0]
        assert f"score {score.score:.0f} of 1000" in card.to_html()
        exact = sf.quality.compare(rows, rows)
        for wrong in (exact, curator.score(rows, "people", k=2).preview(epsilon=1), 990):
            with pytest.raises(InvalidParameter, match="results bought with"):
                made.card(scores=[wrong])  # type: ignore[list-item]


def test_files_are_written_by_their_ending_or_refused(tmp_path: Path, made: Synthetic) -> None:
    card = made.card()
    for ending, text in (("json", card.to_json()), ("md", card.to_markdown()), ("html", card.to_html())):
        card.save(tmp_path / f"card.{ending}")
        assert (tmp_path / f"card.{ending}").read_text(encoding="utf-8") == text
    wrong: list[tuple[Any, str]] = [("card.txt", "ends in"), ("none/card.md", "a file that can be written")]
    for path, rule in wrong:
        with pytest.raises(InvalidParameter, match=rule):
            card.save(tmp_path / path)
    with pytest.raises(InvalidParameter, match="licence"):
        made.card(licence=7)  # type: ignore[arg-type]
