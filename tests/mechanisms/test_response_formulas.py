"""Local mechanisms beside their definitions: laws in 50 digits, estimates of expected counts, cuts at every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.mechanisms import bits, response

F = Fraction
MP = mpmath.MPContext()
MP.dps = 50
WORD = 1 << 64


def mp(value: Fraction | float) -> Any:
    return MP.mpf(F(value).numerator) / F(value).denominator


def normal_quantile(confidence: Fraction, k: int) -> float:
    """Return the z beyond which one of k normal numbers lies on either side, by a union bound."""
    return float(MP.sqrt(2) * MP.erfinv(1 - mp((1 - confidence) / k)))


def test_logarithms_of_odds_are_rounded_down_at_the_thirtieth_decimal() -> None:
    for odds in (F(3), F(7, 5), F(10001, 10000), F(10**20)):
        found = response._ln_rounded_down(odds)
        assert (found * 10**30).denominator == 1
        assert 0 <= MP.log(mp(odds)) - mp(found) < MP.mpf(10) ** -30
        exact = sf.RandomizedResponse.of_odds(odds)
        assert exact.epsilon == found + F(1, 10**30)
        assert exact.odds == odds
        assert sf.RandomizedResponse.of_odds(odds, 7).choices == 7


def test_parameters_are_accepted_up_to_their_ends() -> None:
    for epsilon in (F(0), F(1, 10**6), F(50)):
        assert sf.RandomizedResponse(epsilon).epsilon == epsilon
    for epsilon in (F(1, 10**6) - F(1, 10**9), F(50) + F(1, 10**9)):
        assert_refused(lambda e=epsilon: sf.RandomizedResponse(e), "0.000001")
    assert sf.RandomizedResponse(1, 2).choices == 2
    assert sf.RandomizedResponse(1, 1 << 20).choices == 1 << 20
    assert_refused(lambda: sf.RandomizedResponse(1, (1 << 20) + 1), "1,048,576")
    assert_refused(lambda: sf.RandomizedResponse(1, 1))
    low = response._ln_rounded_down(F(3))
    for added in (F(0), F(1, 10**30), F(1, 10**20) - F(1, 10**30)):
        assert sf.RandomizedResponse(low + added, 2, 3).odds == 3
    for added in (-F(1, 10**30), F(1, 10**20)):
        assert_refused(lambda a=added: sf.RandomizedResponse(low + a, 2, 3), "ln(odds)")
    assert sf.OptimalLocalHashing(10, 5).cells == round(math.exp(10)) + 1
    assert_refused(lambda: sf.OptimalLocalHashing(F(10) + F(1, 10**6), 5), "at most 10")
    for kind in (sf.OptimizedUnaryEncoding, sf.OptimalLocalHashing):
        assert_refused(lambda kind=kind: kind(0, 5), "0.000001")
        made = kind("0.5", 5)
        assert (made.epsilon, made.choices) == (F(1, 2), 5)


@pytest.mark.parametrize(
    ("made", "odds"),
    [
        (sf.RandomizedResponse("0.7", 5), MP.exp(MP.mpf(7) / 10)),
        (sf.RandomizedResponse(2), MP.exp(2)),
        (sf.RandomizedResponse.of_odds(3, 4), MP.mpf(3)),
        (sf.RandomizedResponse(0, 3), MP.mpf(1)),
    ],
)
def test_the_truth_is_as_much_likelier_as_stated(made: sf.RandomizedResponse, odds: Any) -> None:
    p, q = odds / (odds + made.choices - 1), 1 / (odds + made.choices - 1)
    assert abs(made.truth - p) <= p * MP.mpf("1e-15")
    kept = MP.mpf(str(made._keep_probability(bits.decimal_context(45))))
    assert abs(kept + (1 - kept) / made.choices - p) <= MP.mpf("1e-42")  # a uniform answer may be the truth too
    for value in range(made.choices):
        law = made.distribution(value)
        for outcome in range(made.choices):
            assert abs(mp(law[outcome]) - (p if outcome == value else q)) <= max(mp(law.rounding), MP.mpf("1e-45"))
    loss = made.epsilon
    assert [made.loss(0, 0, 1), made.loss(1, 0, 1), made.loss(1, 1, 1)] == [loss, -loss, 0]
    for wrong in (made.choices, -1):
        assert_refused(lambda: made.loss(wrong, 0, 1))  # noqa: B023
        assert_refused(lambda: made.distribution(wrong))  # noqa: B023


@pytest.mark.parametrize("offset", [F(0), F(1, 2), F(1, 10**9)])
def test_words_decide_wherever_they_can(monkeypatch: pytest.MonkeyPatch, offset: Fraction) -> None:
    """A word w stands for [w, w + 1)/2⁶⁴: what lies on one side of the cut is decided so, the rest by more bits."""
    for cut in (0, 1, 2, 77, WORD // 2, WORD - 2, WORD - 1, WORD):
        chance = (cut + offset) / WORD
        if chance > 1:
            continue
        words = sorted({min(WORD - 1, max(0, cut + i)) for i in (-40, -2, -1, 0, 1, 2, 40)})
        monkeypatch.setattr(bits, "random_uint64", lambda count, words=words: np.array(words[:count], np.uint64))

        def threshold(context: Context, chance: Fraction = chance) -> Decimal:
            return bits.to_decimal(chance, context)

        outcomes = response.bernoulli(threshold, len(words)).tolist()
        for word, outcome in zip(words, outcomes, strict=True):
            if F(word + 1, WORD) <= chance:
                assert outcome
            if F(word, WORD) >= chance:
                assert not outcome


def test_few_words_are_decided_by_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def below(word: int, width: int, chance: Callable[[Context], Decimal]) -> bool:
        assert (width, chance(bits.decimal_context(20))) == (64, Decimal("0.5"))
        asked.append(word)
        return True

    cut = WORD // 2
    words = [cut - 2, cut - 1, cut, cut + 1, cut + 2]
    monkeypatch.setattr(bits, "is_uniform_below", below)
    monkeypatch.setattr(bits, "random_uint64", lambda count: np.array(words[:count], np.uint64))
    assert response.bernoulli(lambda _: Decimal("0.5"), 5).tolist() == [True, True, True, True, False]
    assert asked == [cut - 1, cut, cut + 1]


def test_reports_are_the_truth_or_uniform_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = np.array([True, False, True, False])
    monkeypatch.setattr(response, "bernoulli", lambda _, count: kept[:count])
    monkeypatch.setattr(bits, "random_array_below", lambda choices, count: np.full(count, choices - 1))
    made = sf.RandomizedResponse(1, 6)
    assert made.choose([0, 1, 2, 3]).tolist() == [0, 5, 2, 5]
    only = made.choose(4)
    assert only == 4
    assert type(only) is int
    for values in ([6], [-1], [[0, 1]], [0.5], ["a"]):
        assert_refused(lambda values=values: made.choose(values))
    assert made.choose([]).size == 0
    monkeypatch.setattr(response, "bernoulli", lambda _, count: np.zeros(count, bool))
    monkeypatch.setattr(bits, "random_uint64", lambda count: np.arange(count, dtype=np.uint64) + np.uint64(6))
    rows = sf.OptimizedUnaryEncoding(1, 3).choose([2, 0, 1, 1])
    assert rows.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]]  # the last bit of each word is the true one's


def test_bits_of_others_are_drawn_in_chunks_with_their_own_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def ones(chance: Callable[[Context], Decimal], count: int) -> Any:
        false_bit = MP.mpf(str(chance(bits.decimal_context(45))))
        assert abs(false_bit - 1 / (MP.exp(1) + 1)) <= MP.mpf("1e-42")
        sizes.append(count)
        return np.ones(count, bool)

    monkeypatch.setattr(response, "bernoulli", ones)
    most = 1 << 18
    rows = sf.OptimizedUnaryEncoding(1, most).choose([0] * 9)
    assert sizes == [4 * most, 4 * most, most]
    assert (rows[:, 1:] == 1).all()


def test_expected_reports_are_estimated_to_be_the_truth() -> None:
    """p = 3/5 and q = 1/5: of 10, 5 and 0 answers 7, 5 and 3 reports are expected."""
    made = sf.RandomizedResponse.of_odds(3, 3)
    found = made.estimate([0] * 7 + [1] * 5 + [2] * 3)
    assert found.counts == pytest.approx([10, 5, 0], abs=1e-12)
    variances = [(n * F(6, 25) + (15 - n) * F(4, 25)) / F(4, 25) for n in (10, 5, 0)]
    assert found.standard_errors**2 == pytest.approx([float(v) for v in variances])
    clipped = made.estimate([0] * 15)
    assert clipped.counts == pytest.approx([30, -7.5, -7.5])
    assert clipped.standard_errors**2 == pytest.approx([22.5, 15, 15])
    nobody = made.estimate([])
    assert nobody.counts.tolist() == nobody.standard_errors.tolist() == [0, 0, 0]
    z = normal_quantile(F(9, 10), 1)
    low, high = found.interval("0.9")
    assert found.counts - low == pytest.approx(z * found.standard_errors)
    assert high - found.counts == pytest.approx(z * found.standard_errors)
    assert_refused(lambda: sf.RandomizedResponse(0).estimate([0, 1]), "do not depend on the answers")
    assert sf.RandomizedResponse(0).error() == math.inf


def test_rows_of_bits_and_of_hashes_are_estimated_by_what_supports_each_answer() -> None:
    e = math.e
    p, q = 0.5, 1 / (e + 1)
    rows = np.array([[1, 0, 1]] * 6 + [[1, 1, 0]] * 2)
    found = sf.OptimizedUnaryEncoding(1, 3).estimate(rows)
    expected = [(c - 8 * q) / (p - q) for c in (8, 2, 6)]
    assert found.counts == pytest.approx(expected)
    shares = [min(1, max(0, n / 8)) for n in expected]
    variances = [8 * (s * p * (1 - p) + (1 - s) * q * (1 - q)) / (p - q) ** 2 for s in shares]
    assert found.standard_errors**2 == pytest.approx(variances)
    for wrong in ([[1, 0]], [[0, 1, 2]], [1, 0, 1]):
        assert_refused(lambda wrong=wrong: sf.OptimizedUnaryEncoding(1, 3).estimate(np.array(wrong)))
    hashing = sf.OptimalLocalHashing(1, 4)
    cells = hashing.cells
    assert cells == 4
    p, q = e / (e + 3), 1 / 4
    reports = [
        (a, b, c) for a, b, c in zip((5, 7, 2**31 - 2, 123456), (0, 9, 2**31 - 2, 77), (1, 0, 3, 2), strict=True)
    ]
    supported = [sum((a * x + b) % (2**31 - 1) % 4 == c for a, b, c in reports) for x in range(4)]
    assert hashing.estimate(np.array(reports)).counts == pytest.approx([(n - 4 * q) / (p - q) for n in supported])
    for wrong in ([[1, 2]], [1, 2, 3]):
        assert_refused(lambda wrong=wrong: hashing.estimate(np.array(wrong)))


def test_a_hash_is_fresh_for_every_report_and_is_randomised(monkeypatch: pytest.MonkeyPatch) -> None:
    below: list[int] = []

    def largest(limit: int, count: int) -> Any:
        below.append(limit)
        return np.full(count, limit - 1)

    monkeypatch.setattr(bits, "random_array_below", largest)
    monkeypatch.setattr(sf.RandomizedResponse, "choose", lambda self, cell: (cell + 1) % self.choices)
    hashing = sf.OptimalLocalHashing("1.5", 9)
    prime = 2**31 - 1
    rows = hashing.choose([0, 8])
    assert below == [prime - 1, prime]
    for x, (a, b, cell) in zip((0, 8), rows.tolist(), strict=True):
        assert (a, b) == (prime - 1, prime - 1)  # a from 1 on, b from 0 on
        assert cell == ((a * x + b) % prime % hashing.cells + 1) % hashing.cells
    assert sf.OptimalLocalHashing("0.000001", 3).cells == 2
    assert sf.OptimalLocalHashing("1.5", 3).cells == 5
    assert hashing.curve() == sf.Curve.randomized_response("1.5", hashing.cells)
    assert sf.OptimizedUnaryEncoding(1, 3).curve() == sf.Curve.pure(1, "replace")


@pytest.mark.parametrize(("confidence", "k", "reports"), [("0.95", 1, 1000), ("0.9", 4, 37), ("0.999", 2, 1)])
def test_errors_are_normal_quantiles_of_a_rare_answer_s_variance(confidence: str, k: int, reports: int) -> None:
    z = normal_quantile(F(confidence), k)
    for made, p, q in (
        (sf.RandomizedResponse("0.7", 5), MP.exp("0.7") / (MP.exp("0.7") + 4), 1 / (MP.exp("0.7") + 4)),
        (sf.OptimizedUnaryEncoding("0.7", 5), MP.mpf(1) / 2, 1 / (MP.exp("0.7") + 1)),
        (sf.OptimalLocalHashing("0.7", 5), MP.exp("0.7") / (MP.exp("0.7") + 2), MP.mpf(1) / 3),
    ):
        variance = reports * q * (1 - q) / (p - q) ** 2
        assert made.error(confidence, k, reports=reports) == pytest.approx(z * float(MP.sqrt(variance)), rel=1e-9)
        if not isinstance(made, sf.RandomizedResponse):
            assert made.variance(reports) == pytest.approx(float(variance), rel=1e-12)
        if (confidence, k, reports) == ("0.95", 1, 1000):
            assert made.error() == made.error("0.95", 1, reports=1000)
        assert_refused(lambda made=made: made.error(reports=0), "≥ 1")
    assert_refused(lambda: sf.OptimizedUnaryEncoding(1, 3).variance(0), "≥ 1")
