"""Forty ordinary questions: each is answered near its exact answer, or is on the list of those that are not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import sfumato as sf
from questions.asked import HERE, SOURCES, Asked, disagreements, exact, loaded, questions, stored

ASKED = questions()

REFUSED = {40: "noisy-key"}
"""The questions that cannot be answered yet, with the code of the refusal: each new capability makes it shorter."""


@pytest.fixture(scope="module")
def curators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, sf.Curator]]:
    folder = tmp_path_factory.mktemp("ledgers")
    opened = {name: sf.Curator(HERE / f"{name}.toml", folder / f"{name}.ledger") for name in SOURCES}
    yield opened
    for curator in opened.values():
        curator.close()


@pytest.fixture(scope="module")
def tables() -> Iterator[dict[str, duckdb.DuckDBPyConnection]]:
    connections = {policy: loaded(policy) for policy in SOURCES}
    yield connections
    for connection in connections.values():
        connection.close()


def test_there_are_forty() -> None:
    assert [each.number for each in ASKED] == list(range(1, 41))
    assert {each.policy for each in ASKED} == set(SOURCES) == {path.stem for path in Path(HERE).glob("*.toml")}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_the_exact_answer_is_the_one_that_is_stored(asked: Asked, tables: dict[str, duckdb.DuckDBPyConnection]) -> None:
    found, known = exact(asked, tables[asked.policy]), stored()[asked.number]
    if not asked.ordered:
        found, known = sorted(found, key=repr), sorted(known, key=repr)
    assert len(found) == len(known)
    for row, wanted in zip(found, known, strict=True):
        assert [_near(*pair) for pair in zip(row, wanted, strict=True)] == [True] * len(wanted), (row, wanted)


def _near(cell: object, wanted: object) -> bool:
    if isinstance(cell, float) and isinstance(wanted, (int, float)):
        return math.isclose(cell, wanted, rel_tol=1e-9)
    return cell == wanted


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
@pytest.mark.parametrize("asked", [each for each in ASKED if each.number not in REFUSED], ids=str)
def test_a_question_is_answered_near_its_exact_answer(asked: Asked, curators: dict[str, sf.Curator]) -> None:
    """At a price at which noise is small, and limits that cut nothing. One range in 10⁹ misses, for all numbers of an
    answer together.
    """
    answer = _answer(asked, curators)
    assert list(disagreements(answer, stored()[asked.number], asked)) == []


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
@pytest.mark.parametrize("number", [21, 22])
def test_quantiles_are_those_of_the_rows(number: int, curators: dict[str, sf.Curator]) -> None:
    """Their ranges are the bounds, unless they are bought: so the numbers themselves are looked at, to a minute."""
    answer = _answer(ASKED[number - 1], curators)
    (name,) = answer.ranks
    assert answer.ranks[name] < 5
    found = dict(zip(answer.column(answer.keys[0]), answer.column(name), strict=True))
    assert {key: found[key] for key, _ in stored()[number]} == pytest.approx(dict(stored()[number]), abs=1)


def _answer(asked: Asked, curators: dict[str, sf.Curator]) -> sf.Answer:
    question = curators[asked.policy].sql(asked.text)
    return question.release(**asked.price, confidence="0.999999999", joint=True)


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_answers_that_do_not_agree_are_noticed(curators: dict[str, sf.Curator]) -> None:
    flights = ASKED[0]
    answer, (first, *rest) = _answer(flights, curators), stored()[1]
    assert list(disagreements(answer, [(first[0], first[1] + 5), *rest], flights))
    assert list(disagreements(answer, [*rest, first], flights)) == ["the order differs"]
    assert next(disagreements(answer, [first, *rest, ("TEB", 3)], flights)) == "('TEB',) is missing"
    assert "has no row" in next(disagreements(answer, rest, flights))


def test_what_is_refused_is_what_is_on_the_list(curators: dict[str, sf.Curator], long: bool) -> None:
    """All others are answered above."""
    refused = {}
    for asked in ASKED:
        if not long and asked.number not in REFUSED:
            continue
        try:
            curators[asked.policy].sql(asked.text).explain(**asked.price)
        except sf.Unsupported as refusal:
            refused[asked.number] = refusal.code
    assert refused == REFUSED
