"""A question with a released number: the law of both steps, by listing outcomes, is within what is charged.

The number that rows are compared with is a count with discrete Laplace noise, and so is the answer. For whole numbers
o of the first and every answer, the largest loss of (o, answer) is (|o − a′| − |o − a|)/b₁ + |c(o) − c′(o)|/b₂, where a
and c are the exact totals that the engine reads in either world, c with o as a literal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from safety.worlds import Row, World
from sfumato.curator.context import Context
from sfumato.curator.proposals.private_scalars import VALUE_SHARE, PricedSteps, ScalarQuestion
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.released_values import extreme_values, with_released_values
from sfumato.plan.sql.statements import parse
from sfumato.privacy.numbers import Number
from sfumato.release.prices import Price
from sfumato.release.releasing import ignore_progress
from sfumato.release.requests import PriceRequest

WORLD = World(
    True,
    (2, None, None),
    {"age": {"type": "integer", "bounds": [0, 3]}},
    {"who": pa.int64(), "age": pa.int64()},
    {},
    (),
)
OTHERS: list[Row] = [{"who": 1, "age": 1}, {"who": 2, "age": 3}]
UNITS: list[tuple[Row, ...]] = [
    tuple({"who": 9, "age": age} for age in ages)
    for many in range(4)
    for ages in itertools.combinations_with_replacement((2, 9, None), many)
]
"""The rows of one unit, of which two count: none, and up to one more than that."""
ASKED = "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT COUNT(*) FROM people WHERE age > 0)"
PRICE = Price(1)
OUTCOMES = range(-1, 6)
"""The first numbers that are tried: beyond what the ages and the counts reach, all are alike."""


def _asked(relation: str, text: str = ASKED) -> ScalarQuestion:
    policy = WORLD.policy(OTHERS, relation)
    engine = DuckDB(policy, threads=1)
    query = parse(text, engine.catalog())
    account: Any = SimpleNamespace(budget=policy.budget)
    context = Context(policy, engine, account, ignore_progress, "version 1")
    return ScalarQuestion(context, text, query, query.plan.limits)


@pytest.fixture(scope="module")
def worlds() -> Iterator[list[DuckDB]]:
    with ExitStack() as opened:
        yield [opened.enter_context(closing(WORLD.engine([*OTHERS, *rows]))) for rows in UNITS]


def _total(engine: DuckDB, release: Any) -> int:
    (reading,) = release.readings
    return int(engine.read(reading, 7)[0][0])


Losses = Callable[[PricedSteps], Fraction]


def _losses(question: ScalarQuestion, prepared: PricedSteps, worlds: list[DuckDB], relation: str) -> Losses:
    """Return the largest loss over all neighbours, both ways, and all outcomes of both steps, by their noise."""
    (value_release,) = question._value_releases(prepared)
    per_row = 1 / prepared.values[0].bounded.noisy_measures[0].unit_value
    firsts = [_total(world, value_release) for world in worlds]
    seconds = {
        outcome: [_total(world, question._outer_release(prepared, (outcome,))) for world in worlds]
        for outcome in OUTCOMES
    }
    numbers = range(len(worlds))
    pairs = list(itertools.product((0,) if relation == "add-remove" else numbers, numbers))

    def largest(steps: PricedSteps) -> Fraction:
        (first,), (second,) = steps.values[0].totals_mechanisms, steps.outer.totals_mechanisms
        return max(
            Fraction(abs(outcome * per_row - firsts[b]) - abs(outcome * per_row - firsts[a])) / first.scale
            + Fraction(abs(seconds[outcome][a] - seconds[outcome][b])) / second.scale
            for x, y in pairs
            for a, b in ((x, y), (y, x))
            for outcome in OUTCOMES
        )

    return largest


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_no_outcome_of_both_steps_is_more_than_the_price_likelier_next_door(
    worlds: list[DuckDB], relation: str
) -> None:
    question = _asked(relation)
    prepared = question.price_release_at(PRICE, PriceRequest(epsilon=1))
    charged = prepared.curve.max_divergence
    losses = _losses(question, prepared, worlds, relation)
    largest = losses(prepared)
    assert charged is not None
    assert largest <= charged <= 1
    assert largest > Fraction(99, 100)
    free = PricedSteps((), prepared.outer)
    assert free.curve.max_divergence is not None
    assert largest > free.curve.max_divergence, "the twin whose first number costs nothing promises too much"
    whole = question.outer.price_release_at(PRICE, PriceRequest(epsilon=1))
    broken = PricedSteps(prepared.values, whole)
    assert losses(broken) > charged, "so does one whose second step has it all"


@pytest.mark.parametrize(
    "price", [Price(2), Price(1, "1e-6"), Price(rho="0.1")], ids=["pure", "approximate", "concentrated"]
)
def test_the_shares_add_up_to_the_price(price: Price) -> None:
    text = "SELECT SUM(age - (SELECT AVG(age) FROM people)) AS s FROM people WHERE age >= (SELECT MIN(age) FROM people)"
    request = PriceRequest(epsilon=price.epsilon, delta=price.delta, rho=price.rho)
    prepared = _asked("add-remove", text).price_release_at(price, request)
    assert len(prepared.values) == 2
    amount: Any = (lambda paid: paid.epsilon) if price.rho is None else (lambda paid: paid.rho)
    assert [amount(step.price) for step in prepared.values] == [amount(price) * VALUE_SHARE / 2] * 2
    assert amount(prepared.outer.price) == amount(price) * (1 - VALUE_SHARE)
    assert amount(prepared.price) == amount(price)
    assert price.is_satisfied_by(prepared.curve)


ANY_NUMBER: list[tuple[str, Number]] = [
    ("SELECT SUM(age) AS s FROM people WHERE age > (SELECT AVG(age) FROM people)", 3),
    ("SELECT AVG(age) FILTER (WHERE age < (SELECT MAX(age) FROM people)) AS s FROM people", 3),
    ("SELECT SUM(age - (SELECT AVG(age) FROM people)) AS s FROM people", 6),
    ("SELECT age, COUNT(*) AS s FROM people WHERE age > (SELECT MEDIAN(age) FROM people) GROUP BY age", 0),
]


@pytest.mark.parametrize(("text", "spread"), ANY_NUMBER, ids=[text for text, _ in ANY_NUMBER])
def test_the_noise_and_the_groups_are_the_same_whatever_the_number_is(text: str, spread: Number) -> None:
    """A number that narrowed the range of a sum would make the ± of a forecast too small for other numbers."""
    question = _asked("add-remove", text)
    prepared = question.price_release_at(PRICE, PriceRequest(epsilon=1))
    (domain,) = question._value_domains
    assert domain.range == (0, 3)
    measure = question.outer.shared_parts.parts[0].measures[0]
    if spread:
        low, high = measure.clamp_range  # type: ignore[attr-defined]
        assert high - low == spread
    known = []
    for value in (*extreme_values(domain), Fraction(5, 2)):
        release: Any = question._outer_release(prepared, (value,))
        known.append((release.groups, release.prepared.curve.max_divergence, release.prepared.compared_half_widths))
        assert "ReleasedValue" not in repr(release.readings)
        with question._context.engine.check(*release.readings):
            pass
    assert known == [(question.groups, prepared.outer.curve.max_divergence, prepared.outer.compared_half_widths)] * 4


def test_what_has_no_number_yet_is_never_read() -> None:
    question = _asked("add-remove")
    prepared = question.price_release_at(PRICE, PriceRequest(epsilon=1))
    pending = question.outer.release_strategy(prepared.outer)
    with pytest.raises(KeyError):
        question._context.engine.check(*pending.readings)
    assert with_released_values(prepared.values, (1,)) is prepared.values
