"""Selections: their exact laws on small worlds against their curves, their draws against their laws."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad

import sfumato as sf
from mechanisms.recorded import recorded, words
from mechanisms.test_laws import passes
from refusals import assert_refused
from sfumato.mechanisms import races
from sfumato.mechanisms.selection import ScoreSelection, gaps_and_log_weight_per_step

ALL = [sf.Exponential, sf.PermuteAndFlip, sf.NoisyMax, sf.TopK]


Law = Callable[[Sequence[int], float], list[float]]


def _cached_by_gaps(law: Law) -> Law:
    """Compute a law once for all scores that differ by a constant, which no selection depends on."""
    found = cache(law)
    return lambda scores, rate: found(tuple(score - max(scores) for score in scores), rate)


def exponential_law(scores: Sequence[int], rate: float) -> list[float]:
    weights = [math.exp(rate * (s - max(scores))) for s in scores]
    return [w / sum(weights) for w in weights]


@_cached_by_gaps
def flip_law(scores: Sequence[int], rate: float) -> list[float]:
    """Permute, then flip each in turn: by enumeration of all permutations."""
    keep = [math.exp(rate * (s - max(scores))) for s in scores]
    law = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for h in order:
            law[h] += left * keep[h] / len(orders)
            left *= 1 - keep[h]
    return law


@_cached_by_gaps
def laplace_law(scores: Sequence[int], rate: float) -> list[float]:
    """P(h has the largest score + Laplace noise) by integration between the kinks, to 1e-12."""

    def below(x: float) -> float:
        return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2

    law = []
    for h, s in enumerate(scores):
        others = [rate * (s - t) for j, t in enumerate(scores) if j != h]

        def density(x: float, others: list[float] = others) -> float:
            return math.exp(-abs(x)) / 2 * math.prod(below(x + d) for d in others)

        kinks = sorted({-40.0, 0.0, 40.0, *(-o for o in others)})
        parts = (quad(density, low, high, epsabs=1e-14, epsrel=1e-12) for low, high in itertools.pairwise(kinks))
        law.append(math.fsum(value for value, _ in parts))
    return law


LAWS = {sf.Exponential: exponential_law, sf.PermuteAndFlip: flip_law, sf.NoisyMax: laplace_law}


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize(
    "scores",
    [[3, 2, 0], [10, 9, 9, 2], *(pytest.param(each, marks=pytest.mark.long) for each in ([0, -4], [5, 5, 5], [7]))],
    ids=str,
)
def test_choices_follow_the_law(make: type[ScoreSelection], scores: list[int], long: bool) -> None:
    """At 1,500 draws of the first scores, twice the rate has a χ² of at least 146 ± 19, where 46 is refused."""
    mechanism = make("0.8")
    law = np.array(LAWS[make](scores, 0.4))
    count = 8000 if long else 1500
    seen = np.bincount([mechanism.choose(scores) for _ in range(count)], minlength=len(scores))  # type: ignore[attr-defined]
    assert law.sum() == pytest.approx(1)
    assert passes(float(((seen - count * law) ** 2 / (count * law)).sum()), len(scores))


def test_a_wrong_rate_would_be_seen() -> None:
    law = np.array(exponential_law([3, 2, 0], 0.8))
    seen = np.bincount([sf.Exponential("0.8").choose([3, 2, 0]) for _ in range(1500)], minlength=3)
    assert not passes(float(((seen - 1500 * law) ** 2 / (1500 * law)).sum()), 3)


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("monotone", [False, True])
def test_curves_cover_every_small_world(make: type[ScoreSelection], monotone: bool) -> None:
    """Three candidates, scores in 0…3, and all neighbours: both directions of every pair stay under the curve."""
    epsilon = 0.9
    mechanism = make(str(epsilon), monotone=monotone)
    curve = mechanism.curve()  # type: ignore[attr-defined]
    rate = float(mechanism.rate)
    moves = [m for m in itertools.product((-1, 0, 1), repeat=3) if not monotone or min(m) >= 0]
    worlds = (
        [(0, 0, 0), (3, 0, 1), (2, 2, 0), (1, 3, 3)]
        if make is sf.NoisyMax
        else list(itertools.product(range(3), repeat=3))
    )
    claims = {e: curve.delta(e) for e in (0.0, 0.2, 0.5, 0.8, 0.9)}
    for scores in worlds:
        p = LAWS[make](scores, rate)
        for move in moves[:: 5 if make is sf.NoisyMax else 1]:
            q = LAWS[make]([s + m for s, m in zip(scores, move, strict=True)], rate)
            losses = [math.log(a / b) for a, b in zip(p, q, strict=True)]
            assert max(map(abs, losses)) <= epsilon + 1e-9
            if make is sf.Exponential:
                assert max(losses) - min(losses) <= epsilon + 1e-9
            for e, claim in claims.items():
                for a, b in ((p, q), (q, p)):
                    assert sum(max(0.0, x - math.exp(e) * y) for x, y in zip(a, b, strict=True)) <= claim + 1e-9


def test_the_monotone_price_is_wrong_for_scores_that_move_both_ways() -> None:
    p, q = exponential_law([1, 0], 0.9), exponential_law([0, 1], 0.9)
    assert max(math.log(a / b) for a, b in zip(p, q, strict=True)) > 0.89
    p, q = exponential_law([0, 0], 0.9), exponential_law([1, -1], 0.9)
    assert max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True)) > 0.9
    with pytest.raises(sf.InvalidParameter, match="replace"):
        sf.Exponential(1, monotone=True, neighbours="replace")


def test_top_k_is_peeling() -> None:
    """One shot of Gumbel noise gives the law of drawing without replacement."""
    mechanism, scores = sf.TopK(2, k=2), [2, 1, 0]
    law: dict[tuple[int, ...], float] = {}
    first = exponential_law(scores, 0.5)
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        second = exponential_law([scores[j] for j in rest], 0.5)
        for j, chance in zip(rest, second, strict=True):
            law[i, j] = first[i] * chance
    draws = [tuple(mechanism.choose(scores)) for _ in range(2500)]
    value = sum((draws.count(pair) - 2500 * p) ** 2 / (2500 * p) for pair, p in law.items())
    assert passes(value, 6)
    assert mechanism.curve() == sf.compose([(sf.Curve.bounded_range(1), 2)])
    assert sorted(sf.TopK(1, k=3).choose([1, 2, 3])) == [0, 1, 2]


def test_no_underflow_with_a_million_candidates_or_huge_scores() -> None:
    scores = np.zeros(10**6, np.int64)
    scores[123_456] = 200
    for make in ALL:
        chosen = make(1).choose(scores)
        assert (chosen[0] if isinstance(chosen, list) else chosen) == 123_456
        assert make(1).choose([-(10**9), 10**9, -(2**62)]) in (1, [1])
        assert make(1000).choose([10**18, 10**18 - 1]) in (0, [0])
    assert gaps_and_log_weight_per_step([2**63 - 1, -(2**63)], sf.Exponential(1))[0].tolist() == [0, 2**62]


def test_one_far_leader_does_not_slow_the_field() -> None:
    scores = np.full(200_000, 5)
    scores[0] = 10**17
    assert sf.TopK(1000, k=2).choose(scores)[0] == 0


def test_the_rarest_word_gives_the_worst_candidate_its_chance() -> None:
    """U = 0 followed by zeros is an arbitrarily extreme draw: whoever has it wins against any gap."""
    for make in (sf.Exponential, sf.PermuteAndFlip, sf.NoisyMax):
        with recorded(words(1 << 63, 0) + b"\x00" * 2000):
            assert make(2).choose([100, 0]) == 1


def test_fractions_and_floats_are_scores() -> None:
    third = Fraction(1, 3)
    assert sf.Exponential(1000).choose([third, Fraction(1, 2), 0]) == 1
    assert sf.Exponential(1000).choose([third, 10**30]) == 1
    assert sf.Exponential(1000).choose([0.25, 0.5]) == 1
    gaps, rate = gaps_and_log_weight_per_step([Fraction(1, 4), Fraction(1, 2)], sf.Exponential(1))
    assert (gaps.tolist(), rate) == ([2**18, 0], Fraction(1, 2**21))
    fine = sf.PermuteAndFlip(50, sensitivity="0.5", grid=2**-6)
    assert fine.rate == 50
    assert sf.Exponential(1000, grid=1).error(2) > 1  # rounding two scores may hide a step
    assert fine.choose([math.nan, 3.5, -math.inf]) == 1


def test_photo_finishes_are_decided_exactly() -> None:
    """Two candidates whose words differ in the last bit, or not at all: more bits are asked for, and someone wins."""
    for kind in (races.GUMBEL, races.EXPONENTIAL, races.LAPLACE):
        outcomes = set()
        for _ in range(60):
            with recorded(words(1 << 40, 1 << 40)) as stream:
                outcomes.add(int(races.draw_winners(kind, np.zeros(2, np.uint64), sf.Exponential(1).rate)[0]))
                assert stream.beyond > 0
        assert outcomes == {0, 1}
    near = [(1 << 62) + 2, 1 << 62]
    with recorded(words(*near)):
        assert (
            races.draw_winners(races.GUMBEL, np.zeros(2, np.uint64), sf.Exponential(1).rate)[0] == 1
        )  # less U, less E
    with recorded(words(*near)):
        assert (
            races.draw_winners(races.EXPONENTIAL, np.zeros(2, np.uint64), sf.Exponential(1).rate)[0] == 1
        )  # less U, more E
    for byte in (b"\x00", b"\xff"):
        with recorded(byte * 64):
            assert sf.Exponential(1).choose([1, 2, 3]) in (0, 1, 2)


def test_shortfalls_hold() -> None:
    scores = np.array([0] * 99 + [30])
    for make in (sf.Exponential, sf.PermuteAndFlip, sf.NoisyMax):
        mechanism = make(1)
        limit = mechanism.error(100, "0.9")
        missed = sum(30 - scores[mechanism.choose(scores)] > limit for _ in range(500))
        assert missed <= 50 + 5 * math.sqrt(50)
    assert sf.Exponential(1).error(100, "0.9") == pytest.approx(2 * math.log(1000))
    assert sf.TopK(1, k=2).error(100, "0.9") > sf.Exponential(1).error(100, "0.9")


def test_best_selection_compares_at_the_account_s_order() -> None:
    assert isinstance(sf.best_selection(22, "0.01", 100), sf.Exponential)
    assert isinstance(sf.best_selection(22, "5", 2), sf.PermuteAndFlip)
    found = sf.best_selection(22, "0.01", 100)
    assert found.curve().renyi_above(Fraction(22)) <= Fraction(1, 100)
    assert found.curve().renyi(22) == pytest.approx(0.01, rel=1e-6)


def test_values_are_frozen_readable_and_written() -> None:
    for mechanism in (
        sf.Exponential("0.5", 2, monotone=True),
        sf.PermuteAndFlip(1, neighbours="replace"),
        sf.NoisyMax(1, noise="gumbel"),
        sf.TopK(1, k=3, grid="0.5"),
    ):
        assert sf.loads(sf.dumps(mechanism)) == mechanism
        assert repr(mechanism).startswith(type(mechanism).__name__)
        with pytest.raises(dataclasses.FrozenInstanceError):
            mechanism.epsilon = 1  # type: ignore[misc,assignment]
    assert sf.NoisyMax(1, noise="gumbel").curve() == sf.Curve.bounded_range(1)
    assert sf.NoisyMax(1, noise="exponential").curve() == sf.Curve.pure(1)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e308, "x", None])
def test_hostile_prices(make: type[ScoreSelection], epsilon: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        make(epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("scores", [[], None, "abc", [[1, 2]], [None], [1j], 3], ids=str)
def test_hostile_scores(make: type[ScoreSelection], scores: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        make(1).choose(scores)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.Exponential(1, 0),
        lambda: sf.Exponential(1, monotone="yes"),  # type: ignore[arg-type]
        lambda: sf.NoisyMax(1, noise="normal"),
        lambda: sf.TopK(1, k=0),
        lambda: sf.TopK(1, k=3).choose([1, 2]),
        lambda: sf.Exponential(1).error(0),
        lambda: sf.Exponential(1).error(5, 1),
        lambda: sf.best_selection(1, 1, 5),
        lambda: sf.best_selection(2, 1, 1),
        lambda: sf.best_selection(2, "1e-25", 10),
        lambda: sf.best_selection(10**100, 1, 5),
        lambda: sf.best_selection(2, 1, 10**300),
    ],
)
def test_hostile_settings(call: object) -> None:
    assert_refused(call)
