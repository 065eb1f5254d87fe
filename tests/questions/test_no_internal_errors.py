"""No text ends in anything but a question or a refusal of ours: drawn texts are parsed, priced and explained."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from questions.drawn_texts import DrawnText, empty_policy
from sfumato import Curator
from sfumato.errors import SfumatoError

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    """A curator of no rows: whatever is refused, is refused for the text."""
    with Curator(empty_policy(), Path(tmp_path_factory.mktemp("drawn")) / "ledger") as made:
        yield made


def _outcome(curator: Curator, text: str, parameters: object, stage: str) -> str:
    """Return "answered", or the code of the refusal."""
    try:
        question: Any = curator.sql(text, parameters)  # type: ignore[arg-type]
        if stage == "explain":
            str(question.explain(epsilon=1))
        elif stage == "error":
            str(question.error(epsilon=1))
    except SfumatoError as refusal:
        str(refusal)
        return refusal.code
    return "answered"


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(each, marks=pytest.mark.long) for each in range(2, 10))])
def test_a_drawn_text_is_understood_or_refused(curator: Curator, part: int, long: bool) -> None:
    """Half of those that are understood are priced too, which takes the time: explained, or asked for their error."""
    many, stages = 2_000 if long else 200, ("explain", "parse", "error", "parse")
    outcomes: Counter[str] = Counter()
    start = random.SystemRandom().randrange(10**9) if long else part * many  # other texts in every long run
    for seed in range(start, start + many):
        text, parameters = DrawnText(seed).question()
        try:
            outcomes[_outcome(curator, text, parameters, stages[seed % 4])] += 1
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{parameters!r}\n{text}")
    assert outcomes["answered"] > many / 30
    assert len(outcomes) > 25


def test_the_same_seed_is_the_same_text() -> None:
    assert DrawnText(7).question() == DrawnText(7).question() != DrawnText(8).question()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT MAX() AS n FROM visits", "arguments"),
        ("SELECT MODE(DATE '2024-02-29') AS n FROM visits", "constant-value"),
        ("SELECT COUNT(*) FROM (SELECT who, ARG_MAX(, day) AS n FROM visits GROUP BY who)", "arguments"),
        (
            "SELECT COUNT(*) FROM (SELECT ward, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS r FROM visits)"
            " WHERE ward = 'north' AND day < DATE '2024-03-01'",
            "unknown-column",
        ),
    ],
)
def test_texts_that_once_ended_in_an_internal_error(curator: Curator, text: str, code: str) -> None:
    assert _outcome(curator, text, None, "explain") == code
