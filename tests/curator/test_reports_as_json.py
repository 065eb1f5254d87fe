"""Explanations, forecasts and standings read back what they write; nothing else is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from sfumato.curator.previews.explaining import PlanStep
from sfumato.curator.standings import Standing
from sfumato.publish.synopsis import Synopsis
from sfumato.publish.synthetic import Synthetic

amounts = st.fractions(0, 100, max_denominator=10**6)
widths = st.floats(0, allow_nan=False)
names = st.text() | st.just("kind")


@pytest.fixture(scope="module")
def flights() -> Iterator[sf.Curator]:
    with sf.open(sf.example()) as curator:
        yield curator


@given(
    st.dictionaries(names, widths | st.dictionaries(st.integers(1, 10**9), widths, max_size=3), max_size=3),
    st.fractions("1/100", "99/100"),
    st.text(),
    st.booleans(),
    st.lists(st.text()).map(tuple),
)
@settings(max_examples=30)
def test_a_forecast_reads_back_what_it_wrote(
    columns: dict[str, float | dict[int, float]], confidence: Fraction, price: str, accepted: bool, warned: tuple[str]
) -> None:
    forecast = sf.Forecast(columns, confidence, price, accepted, warned)
    assert sf.Forecast.from_json(forecast.to_json()) == forecast
    json.loads(forecast.to_json(), parse_constant=pytest.fail)


@given(st.text(), st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=1), st.lists(st.text()).map(tuple))
def test_an_explanation_reads_back_what_it_wrote(
    words: str, steps: list[tuple[str, str, str]], warned: tuple[str]
) -> None:
    made = sf.Explanation(words, words, tuple(PlanStep(*each) for each in steps), words, warned)
    assert sf.Explanation.from_json(made.to_json()) == made


@given(st.dictionaries(st.sampled_from(["pure", "rho", "renyi"]), st.none() | amounts), amounts, st.floats(0, 100))
def test_a_standing_reads_back_what_it_wrote(
    allowed: dict[str, Fraction | None], amount: Fraction, largest: float
) -> None:
    left = dict.fromkeys(list(allowed)[:1], amount)
    made = Standing(amount, amount / 1000, allowed, dict.fromkeys(allowed, amount), left, {"Laplace": largest})
    assert Standing.from_json(made.to_json()) == made


@pytest.mark.parametrize("budget", [sf.Budget("1/3"), sf.Budget(3, "1e-6"), sf.Budget(1).charge(sf.Curve.pure("1/3"))])
def test_the_standing_of_a_budget_reads_back(budget: sf.Budget) -> None:
    made = Standing.of(budget)
    assert Standing.from_json(made.to_json()) == made
    assert str(Standing.from_json(made.to_json())) == str(made)


def test_what_a_question_says_reads_back(flights: sf.Curator) -> None:
    ask = flights.sql("SELECT origin, COUNT(*) AS n, AVG(delay) AS d, 1 / COUNT(*) AS r FROM flights GROUP BY origin")
    forecast, explained = ask.error(epsilon=1), ask.explain(epsilon=1)
    assert sf.Forecast.from_json(forecast.to_json()) == forecast
    assert str(sf.Forecast.from_json(forecast.to_json())) == str(forecast)
    assert sf.Explanation.from_json(explained.to_json()) == explained
    answer = ask.release(epsilon=1)
    assert sf.Answer.from_json(answer.to_json()) == answer
    assert sf.loads(answer.to_json()) == answer
    assert repr(sf.Answer.from_json(answer.to_json())) == repr(answer)


FORECAST = json.loads(sf.Forecast({"n": 1.5, "d": {100: 2.5}}, Fraction("0.95"), "ε = 1", True, ()).to_json())
EXPLANATION = json.loads(sf.Explanation("q", "p", (PlanStep("scan", "t", "e"),), "r", ()).to_json())
STANDING = json.loads(Standing.of(sf.Budget(3, "1e-6")).to_json())


@pytest.mark.parametrize(
    ("kind", "written", "name", "value"),
    [
        (sf.Forecast, FORECAST, "columns", []),
        (sf.Forecast, FORECAST, "columns", {"n": None}),
        (sf.Forecast, FORECAST, "columns", {"n": "wide"}),
        (sf.Forecast, FORECAST, "columns", {"n": {"many": 1}}),
        (sf.Forecast, FORECAST, "columns", {"n": {"-1": 1}}),
        (sf.Forecast, FORECAST, "columns", {"n": {"100": {"1": 1}}}),
        (sf.Forecast, FORECAST, "confidence", "2"),
        (sf.Forecast, FORECAST, "accepted", 1),
        (sf.Forecast, FORECAST, "price", 1),
        (sf.Forecast, FORECAST, "warnings", [1]),
        (sf.Forecast, FORECAST, "kind", "explanation/1"),
        (sf.Explanation, EXPLANATION, "operators", []),
        (sf.Explanation, EXPLANATION, "operators", ["scan"]),
        (sf.Explanation, EXPLANATION, "operators", 7),
        (sf.Explanation, EXPLANATION, "operators", [{"name": "scan", "what": "t", "effect": "e"}]),
        (sf.Explanation, EXPLANATION, "operators", [{"kind": "operator/1", "name": 1, "what": "t", "effect": "e"}]),
        (sf.Explanation, EXPLANATION, "question", None),
        (Standing, STANDING, "epsilon", "-1"),
        (Standing, STANDING, "epsilon", None),
        (Standing, STANDING, "allowed", []),
        (Standing, STANDING, "allowed", {}),
        (Standing, STANDING, "allowed", {"pure": "much"}),
        (Standing, STANDING, "spent", {}),
        (Standing, STANDING, "left", {"gold": "1"}),
        (Standing, STANDING, "left", {"pure": None}),
        (Standing, STANDING, "largest", {"Uniform": 1}),
        (Standing, STANDING, "largest", {"Laplace": "nan"}),
        (Standing, STANDING, "largest", 3),
    ],
    ids=str,
)
def test_hostile_reports_are_refused(
    kind: type[sf.Forecast | sf.Explanation | Standing],
    written: dict[str, object],
    name: str,
    value: object,
) -> None:
    assert kind.from_json(json.dumps(written))
    with pytest.raises(sf.InvalidParameter):
        kind.from_json(json.dumps({**written, name: value}))


def test_nothing_that_is_shown_has_the_salt_of_its_line(flights: sf.Curator) -> None:
    """Who knew the salt could test guesses of what else the line says against its hash."""
    found: list[Any] = [
        flights.bounds("flights", "delay").release("0.05"),
        flights.limits("flights").release("0.05"),
        flights.auction("flights", "distance", prices=[100, 500]).release("0.05"),
        flights.marginals("flights", [["origin"]]).release(epsilon="0.05"),
        flights.synthesize("flights", "independent", 1, columns=["origin"]).release(epsilon="0.05"),
    ]
    for each in found:
        assert '"salt"' not in each.to_json()
        again = type(each).from_json(each.to_json())
        assert again.to_json() == each.to_json() or isinstance(each, Synthetic)
    synopsis = Synopsis.from_json(found[3].to_json())
    assert synopsis.marginal(["origin"]).rows == found[3].marginal(["origin"]).rows
    assert synopsis.receipt == found[3].receipt
    synthetic = Synthetic.from_json(found[4].to_json())
    question = "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin"
    assert synthetic.sql(question).rows == found[4].sql(question).rows
    for hostile in ('{"kind":"synthetic/1","file":"%"}', '{"kind":"synopsis/1","published":1,"receipt":2}', "{}"):
        for kind in (Synopsis, Synthetic):
            with pytest.raises(sf.SfumatoError):
                kind.from_json(hostile)
