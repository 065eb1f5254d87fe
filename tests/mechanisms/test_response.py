from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from mechanisms.recorded import recorded, words
from refusals import assert_refused
from sfumato.mechanisms import bits, response

N = 60_000
ORACLES = [sf.RandomizedResponse(1, 5), sf.OptimizedUnaryEncoding(1, 5), sf.OptimalLocalHashing(1, 5)]


def test_two_coins() -> None:
    coins = sf.RandomizedResponse.two_coins()
    assert coins.truth == 0.75
    assert coins.curve().epsilon(0) == pytest.approx(math.log(3), rel=1e-14)
    assert coins.curve().epsilon(0) >= math.log(3)
    assert coins.distribution(1) == {0: Fraction(1, 4), 1: Fraction(3, 4)}
    assert sf.loads(sf.dumps(coins)) == coins
    assert repr(coins) == "RandomizedResponse(odds=3, choices=2)"


@pytest.mark.parametrize(
    "response",
    [sf.RandomizedResponse("0.5", 2), sf.RandomizedResponse(2, 7), sf.RandomizedResponse.of_odds("5/2", 3)],
    ids=repr,
)
def test_reports_have_the_stated_law(response: sf.RandomizedResponse) -> None:
    reports = response.choose(np.full(N, 1))
    p = response.truth
    q = (1 - p) / (response.choices - 1)
    counts = np.bincount(reports, minlength=response.choices)
    for j, count in enumerate(counts):
        chance = p if j == 1 else q
        assert abs(count - N * chance) < 5.5 * math.sqrt(N * chance * (1 - chance))
    assert isinstance(response.choose(1), int)


def test_stated_odds_never_understate_epsilon() -> None:
    for odds in ("1.001", "1.00137", "1.0013", "3", "17/4", "1000000"):
        response = sf.RandomizedResponse.of_odds(odds)
        assert sf.audit.enumerate(response, (0, 1)).holds
        assert sf.loads(sf.dumps(response)) == response


def test_the_threshold_is_exact() -> None:
    """Keeping the truth is V < (e^ε − 1)/(e^ε + k − 1): at rational odds the cut is known exactly."""
    response = sf.RandomizedResponse.of_odds(3)  # keep with probability exactly 1/2
    for word, kept in (((1 << 63) - 1, True), (1 << 63, False)):
        with recorded(words(word, 1) + b"\x00" * 8):  # one more word decides what touches the threshold
            assert bool(response.choose(np.array([1]))[0] == 1) is kept  # the uniform answer is then 0


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_estimates_are_unbiased_with_the_promised_error(oracle: sf.RandomizedResponse) -> None:
    truth = np.repeat([0, 1, 2, 3, 4], [N // 2, N // 4, N // 4, 0, 0])
    runs = [oracle.estimate(oracle.choose(truth)) for _ in range(30)]
    counts = np.array([run.counts for run in runs])
    held = np.bincount(truth, minlength=5)
    errors = runs[0].standard_errors
    assert np.all(np.abs(counts.mean(0) - held) < 5.5 * errors / math.sqrt(30))
    # The variance of 30 runs over its promise is χ²/29: outside [0.2, 3] with probability below 1e-6.
    ratio = counts.var(0, ddof=1) / errors**2
    assert np.all((ratio > 0.2) & (ratio < 3))
    low, high = runs[0].interval("0.99999999")
    assert np.all((low <= held) & (held <= high))


@pytest.mark.parametrize(
    "oracle", [sf.OptimizedUnaryEncoding(1, 50), sf.OptimalLocalHashing("1.0986122886681098", 50)], ids=repr
)
def test_variances_promised_by_the_frequency_oracles(
    oracle: sf.OptimizedUnaryEncoding | sf.OptimalLocalHashing,
) -> None:
    """n·4e^ε/(e^ε − 1)², measured over the 49 choices nobody holds, 8 runs of 20,000 reports."""
    e = math.exp(float(oracle.epsilon))
    n = 20_000
    assert oracle.variance(n) == pytest.approx(n * 4 * e / (e - 1) ** 2, rel=1e-9)
    errors = np.concatenate([oracle.estimate(oracle.choose(np.zeros(n, np.int64))).counts[1:] for _ in range(8)])
    # The mean of 392 squared normal errors has a relative deviation of 7 %: 45 % off is a false alarm below 1e-6.
    assert (errors**2).mean() == pytest.approx(oracle.variance(n), rel=0.45)


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_local_reports_are_private_for_replacement_only(oracle: sf.RandomizedResponse) -> None:
    assert oracle.curve().neighbours is sf.Neighbours.REPLACE
    assert oracle.curve().epsilon(0) == pytest.approx(1)
    with pytest.raises(sf.NeighboursDiffer):
        sf.Budget(1).charge(oracle.curve())


def test_unary_bits_have_the_stated_odds() -> None:
    rows = sf.OptimizedUnaryEncoding(1, 3).choose(np.zeros(N, np.int64))
    q = 1 / (math.e + 1)
    assert abs(rows[:, 0].sum() - N / 2) < 5.5 * math.sqrt(N / 4)
    for column in (1, 2):
        assert abs(rows[:, column].sum() - N * q) < 5.5 * math.sqrt(N * q * (1 - q))


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.RandomizedResponse(-1),
        lambda: sf.RandomizedResponse(math.nan),
        lambda: sf.RandomizedResponse(1e308),
        lambda: sf.RandomizedResponse("x"),
        lambda: sf.RandomizedResponse(1, 1),
        lambda: sf.RandomizedResponse(1, 1 << 30),
        lambda: sf.RandomizedResponse(1, 2, odds=5),
        lambda: sf.RandomizedResponse.of_odds(1),
        lambda: sf.RandomizedResponse(1, 3).choose([3]),
        lambda: sf.RandomizedResponse(1, 3).choose([-1]),
        lambda: sf.RandomizedResponse(1, 3).choose([0.5]),
        lambda: sf.RandomizedResponse(1, 3).choose(None),
        lambda: sf.RandomizedResponse(1, 3).estimate([[1, 2]]),
        lambda: sf.OptimizedUnaryEncoding(1, 3).estimate(np.zeros((4, 2))),
        lambda: sf.OptimalLocalHashing(1, 3).estimate(np.zeros((4, 2))),
        lambda: sf.OptimalLocalHashing(20, 3),
        lambda: sf.RandomizedResponse(1).error("2"),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_widths_shrink_with_the_root_of_the_reports() -> None:
    for oracle in ORACLES:
        assert oracle.error(reports=40_000) / 40_000 == pytest.approx(oracle.error(reports=10_000) / 20_000)
        assert oracle.error(k=10) > oracle.error()


def test_an_event_just_below_a_cut_of_64_bits_is_decided_exactly() -> None:
    """Its probability is 10^-70 below c/2^64 and rounds to it in 60 digits: bits that go on with ones are not below."""
    cut = 1 << 60
    chance = (cut - Fraction(1, 10**70)) / 2**64
    for following, below in ((b"\xff", False), (b"\x00", True)):
        with recorded(words(cut - 1) + following * 64):
            (event,) = response.bernoulli(lambda context: bits.to_decimal(chance, context), 1)
        assert bool(event) is below
