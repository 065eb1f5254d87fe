"""The way that errs least is chosen, by figures that are exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.privacy.numbers import format_number
from sfumato.surveys import counts
from sfumato.surveys.encodings import Encoding, support_matrix, support_probabilities
from sfumato.surveys.forms import parse_questions
from surveys.executions import law, small_hashes
from surveys.test_forms import FORMS, every_answer


@pytest.mark.parametrize("name", ["response", "unary", "hashing"])
def test_variances_are_those_of_the_drawn_law(name: str) -> None:
    form = FORMS[name]
    laws = [law(form, answers) for answers in every_answer(form)]
    with small_hashes():
        mechanism = form.mechanisms[0]
        chance = support_probabilities(mechanism)
        for held, each in enumerate(laws):
            weights = np.array([float(p) for p in each.values()])
            means = weights @ support_matrix(mechanism, [report.answers[0] for report in each])
            assert means[held] == pytest.approx(chance.p, rel=1e-12)
            assert np.delete(means, held) == pytest.approx(chance.q, rel=1e-12)
            spread = (means * (1 - means)).sum() / chance.gap**2 / form.questions[0].size
            assert spread == pytest.approx(chance.mean_variance(form.questions[0].size), rel=1e-12)


def test_the_chance_of_hashed_answers_to_meet() -> None:
    """All functions modulo a small prime, against the formula."""
    with small_hashes():
        mechanism = Encoding.HASHING.mechanism(Fraction(1), 5)
        a, b = (each.ravel() for each in np.meshgrid(np.arange(1, 5), np.arange(5)))
        meet = (mechanism.hashed(a, b, 1) == mechanism.hashed(a, b, 4)).mean()  # type: ignore[union-attr]
        truth = sf.RandomizedResponse(1, 4).truth
        assert support_probabilities(mechanism).q == pytest.approx(meet * truth + (1 - meet) * (1 - truth) / 3)


@pytest.mark.parametrize(
    ("cells", "epsilon", "encoding"),
    [(3, 1, "response"), (100, 1, "unary"), (300, 1, "hashing"), (300, 8, "response"), (300, 20, "response")],
)
def test_each_question_gets_the_encoding_that_errs_least(cells: int, epsilon: int, encoding: str) -> None:
    form = sf.collect({"a": list(range(cells - 1))}, epsilon)
    assert form.encodings == (Encoding(encoding),)
    others = [each for each in Encoding if each.is_suitable(Fraction(epsilon), cells)]
    least = min(counts.mean_count_variance(each, cells, Fraction(epsilon), 1) for each in others)
    assert counts.mean_count_variance(form.encodings[0], cells, Fraction(epsilon), 1) == least


@pytest.mark.parametrize(("epsilon", "sampled"), [("0.5", True), (1, True), (12, False)])
def test_questions_are_split_or_sampled_as_errs_less(epsilon: int, sampled: bool) -> None:
    questions = {"a": ["x", "y"], "b": ["x", "y", "z"]}
    form = sf.collect(questions, epsilon)
    assert form.sampled is sampled
    ways = {way: counts.best_design(form.questions, form.epsilon, sampled=way) for way in (False, True)}
    assert sum(ways[sampled].variances) < sum(ways[not sampled].variances)
    assert sf.collect(questions, epsilon, split=True).sampled is False
    assert sf.collect(questions, epsilon, split=False).sampled is True
    said = form.explain()
    assert ("answers one, drawn at random" in said) is sampled
    for way in ways.values():
        assert format_number(math.sqrt(1000 * way.variances[0]), 3) in said


def test_one_question_is_the_same_either_way() -> None:
    (question,) = parse_questions({"a": ["x", "y"]})
    ways = [counts.best_design((question,), Fraction(1), sampled=way) for way in (False, True)]
    assert ways[0].variances == ways[1].variances
    assert sf.collect({"a": ["x", "y"]}, 1).sampled is False
    assert "1 question at ε = 1" in sf.collect({"a": ["x", "y"]}, 1).explain()
