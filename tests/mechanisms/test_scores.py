"""Scores on a public grid: no score decides how the others are compared, whatever kind of number it is."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from sfumato.games.environment import law_of_selection
from sfumato.mechanisms import selection
from sfumato.mechanisms.selection import ScoreSelection, gaps_and_log_weight_per_step

F = Fraction
ALL = [sf.Exponential, sf.PermuteAndFlip, sf.NoisyMax, sf.TopK]
LAWS = [sf.Exponential, sf.PermuteAndFlip]
PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139)


def largest_loss(mechanism: ScoreSelection, one: list[Any], other: list[Any]) -> float:
    """The largest |ln P/Q| over candidates, of the exact laws."""
    p, q = (law_of_selection(mechanism, each).probabilities for each in (one, other))
    return max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True) if a and b)


# ── the counterexamples: steps taken from the scores' own denominators ─────────────────────────


@pytest.mark.parametrize("make", ALL)
def test_a_tiny_fraction_does_not_blur_the_best(make: Any) -> None:
    for first in (F(0), F(1, 10**30), F(-1, 10**30)):
        for _ in range(50):
            assert make(1).choose([first, F(10**6)]) in (1, [1])


@pytest.mark.parametrize("make", ALL)
def test_nine_denominators_do_not_blur_the_best(make: Any) -> None:
    """Ratios of group sizes: one group grows by one, and nothing else may change."""
    before = [F(1, p) for p in PRIMES[:-1]] + [F(1, 137), F(1000)]
    after = [F(1, p) for p in PRIMES] + [F(1000)]
    for ratios in (before, after):
        assert all(make(1).choose(ratios) in (9, [9]) for _ in range(50))


@pytest.mark.parametrize("make", LAWS)
def test_the_counterexamples_lose_less_than_epsilon(make: Any) -> None:
    pairs: list[tuple[list[Any], list[Any]]] = [
        ([F(0), F(10**6)], [F(1, 10**30), F(10**6)]),
        ([F(1, p) for p in PRIMES] + [F(20)], [F(1, p + (p == 139)) for p in PRIMES] + [F(20)]),
        ([10**30, 10**30 - 5], [10**30, 10**30 - F(9, 2)]),
        ([2**60 + 1, 0], [2**60 + 1, 0.5]),
        ([2**60 + 1, 2**60], [2**60 + 2, F(2**60)]),
    ]
    for one, other in pairs:
        assert largest_loss(make(1), one, other) <= 1 + 1e-12


# ── every small world of fractions, under both relations ───────────────────────────────────────


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize(
    ("sensitivity", "monotone", "neighbours"),
    [
        (F(1), False, "add-remove"),
        (F(1), True, "add-remove"),
        (F(1), False, "replace"),
        (F(1, 3), False, "replace"),
        (F(1, 3), True, "add-remove"),
        (F(5, 7), False, "add-remove"),
    ],
)
@pytest.mark.parametrize("grid", [None, F(1, 4), F(2)], ids=str)
def test_every_small_world_of_fractions_stays_under_the_price(
    make: Any, sensitivity: Fraction, monotone: bool, neighbours: str, grid: Fraction | None
) -> None:
    epsilon = F(9, 10)
    mechanism = make(epsilon, sensitivity, monotone, neighbours, grid)
    moves = [F(0), sensitivity / 2, sensitivity] + ([] if monotone else [-sensitivity])
    worst = 0.0
    for start in ((F(0), F(1, 3)), (F(1, 10**30), F(2)), (F(7, 8), F(1, 8)), (F(1, 2), F(3, 2) - F(1, 10**20))):
        for move in itertools.product(moves, repeat=2):
            moved = [s + m for s, m in zip(start, move, strict=True)]
            worst = max(worst, largest_loss(mechanism, list(start), moved))
    assert worst <= float(epsilon) + 1e-12
    if grid is None:
        assert worst > 0.4 * float(epsilon)  # two candidates: it is a real comparison, not one of equals


@pytest.mark.parametrize("make", LAWS)
def test_half_the_noise_would_be_seen(make: Any) -> None:
    claimed, drawn = make(1), make(2)
    assert claimed.curve().epsilon(0) == 1
    assert max(largest_loss(drawn, [F(g), F(0)], [F(g - 1), F(1)]) for g in range(-20, 20)) > 1


NUMBERS = st.one_of(
    st.fractions(-4, 4),
    st.fractions(-(10**30), 10**30),
    st.integers(-(2**80), 2**80),
    st.sampled_from([F(2**62), F(-(2**62)), F(2**62) - F(1, 2**21), F(1, 2**21), F(-1, 2**22)]),
)
GRIDS = st.sampled_from([None, F(1, 2**60), F(1, 64), F(1), F(8), F(2**60)])
CHANGES = st.sampled_from([F(1), F(1, 3), F(1, 10**9), F(5, 2), F(10**15)])
SHARES = st.lists(st.fractions(-1, 1), min_size=6, max_size=6)


@settings(max_examples=80)
@given(
    values=st.lists(NUMBERS, min_size=1, max_size=6),
    shares=SHARES,
    change=CHANGES,
    grid=GRIDS,
    epsilon=st.sampled_from([F(1), F(1000), F(1, 10**9)]),
    monotone=st.booleans(),
)
def test_differences_of_scores_move_by_no_more_than_is_paid_for(
    values: list[Any], shares: list[Fraction], change: Fraction, grid: Fraction | None, epsilon: Any, monotone: bool
) -> None:
    """What one unit does to how far candidates are apart, in steps times the rate, is at most ε: for every mechanism
    that decides by these gaps, both ways (2Δ) or one way (Δ)."""
    mechanism = sf.Exponential(epsilon, change, monotone, grid=grid)
    moved = [v + change * (abs(s) if monotone else s) for v, s in zip(values, shares, strict=False)]
    (one, rate), (other, _) = (gaps_and_log_weight_per_step(each, mechanism) for each in (values, moved))
    moves = [int(b) - int(a) for a, b in zip(one, other, strict=True)]
    assert (max(moves) - min(moves)) * rate <= epsilon
    assert rate > 0


# ── one meaning for every kind of number ───────────────────────────────────────────────────────


def kinds_of(value: float) -> list[Any]:
    found: list[Any] = [value, Fraction(value), Decimal(value), np.float64(value)]
    if abs(value) < 1e38 and float(np.float32(value)) == value:
        found.append(np.float32(value))
    if value == int(value):
        found.append(int(value))
        found += [np.int64(value)] if abs(value) < 2**63 else []
    return found


FLOATS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-8, 8), st.integers(-99, 99).map(float))


@settings(max_examples=100)
@given(values=st.lists(FLOATS, min_size=1, max_size=5), grid=GRIDS, data=st.data())
def test_a_number_counts_the_same_whatever_kind_it_is(values: list[float], grid: Fraction | None, data: Any) -> None:
    step = grid or F(1, 2**20)
    expected = selection.score_gaps([Fraction(v) for v in values], step).tolist()
    mixed = [data.draw(st.sampled_from(kinds_of(v))) for v in values]
    for given_as in (mixed, tuple(mixed), np.array(mixed, object), values, np.array(values)):
        assert selection.score_gaps(given_as, step).tolist() == expected


@settings(max_examples=80)
@given(
    values=st.lists(
        st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(2**62 - 9, 2**62 + 9)), min_size=1, max_size=5
    ),
    grid=GRIDS,
)
def test_whole_numbers_count_the_same_in_arrays_and_as_fractions(values: list[int], grid: Fraction | None) -> None:
    step = grid or F(1, 2**20)
    expected = selection.score_gaps([Fraction(v) for v in values], step).tolist()
    assert selection.score_gaps(values, step).tolist() == expected
    assert selection.score_gaps(np.array(values), step).tolist() == expected
    if min(values) >= 0:
        assert selection.score_gaps(np.array(values, np.uint64), step).tolist() == expected


@pytest.mark.parametrize("make", ALL)
def test_what_is_no_number_or_no_end_is_the_worst_or_the_best_in_every_kind(make: Any) -> None:
    nan, inf = math.nan, math.inf
    for field in (
        [nan, 3.5, -inf],
        np.array([nan, 3.5, -inf]),
        np.array([nan, 3.5, -inf], np.float32),
        [nan, F(7, 2), -inf],
        [Decimal("NaN"), Decimal("3.5"), Decimal("-Infinity")],
        [Decimal("sNaN"), 3, -(10**400)],
        [Decimal("-1e999999"), Decimal("1e-999999"), -1e300],
        [-1e300, Decimal("1e999999"), 1],
        [0, inf, nan],
    ):
        assert make(50).choose(field) in (1, [1])
    assert selection.score_gaps([nan, -inf, -(10**30)], F(1)).tolist() == [0, 0, 0]


def test_large_whole_numbers_are_not_rounded_beside_a_float() -> None:
    for other in (0.5, F(1, 2), Decimal("0.5"), np.float32(0.5)):
        assert selection.score_gaps([2**60 + 1, 2**60, other], F(1, 4)).tolist()[:2] == [0, 4]


def test_the_cuts_lie_at_fixed_places() -> None:
    for best in (F(0), F(1, 3), F(2**61)):
        below = [best, best - 2**42, best - 2**42 - 1, best - 2**43]
        found = selection.score_gaps(below, F(1, 2**20)).tolist()
        assert found[2:] == [1 << 62, 1 << 62]
        assert found[1] in ((1 << 62) - 1, 1 << 62)
    assert selection.score_gaps([2**62, 2**62 + 5, 2**70], F(1)).tolist() == [0, 0, 0]


# ── the grid is a field, decided by price and sensitivity alone ─────────────────────────────────


def test_the_grid_is_a_field_and_is_written_down() -> None:
    for make in ALL:
        assert make(1).grid == F(1, 2**20)
        assert make(1000).grid == F(1, 2**30)
        assert make("0.001").grid == F(1, 2**20)
        assert make(1, 10**9).grid == 1
        assert make(1, F(3, 4)).grid == F(1, 2**21)
        assert make(1000, F(1, 10**9)).grid == F(1, 2**60)
        assert make(1, grid=F(1, 8)).grid == F(1, 8)
        assert "grid" not in repr(make(1))
        assert "grid=0.125" in repr(make(1, grid="0.125"))
        written = sf.dumps(make(1))
        assert '"0.00000095367431640625"' in written
        assert sf.loads(written) == make(1)
        assert sf.loads(written.replace('"0.00000095367431640625"', "null")) == make(1)  # as it was once written


def test_a_grid_that_does_not_divide_the_sensitivity_is_paid_for() -> None:
    assert sf.Exponential(1, F(1, 3), grid=F(1, 4)).rate == 1 / (2 * 2 * F(1, 4))
    assert sf.Exponential(1, F(1, 2), grid=F(1, 4)).rate == 1
    third = sf.Exponential(1, F(1, 3))
    assert F(3, 2) * (1 - F(1, 2**18)) < third.rate < F(3, 2)
    whole = sf.Exponential(1, 7).in_parts(12)
    assert (whole.sensitivity, whole.rate, whole.curve()) == (84, F(1, 168), sf.Exponential(1).curve())
    with pytest.raises(sf.InvalidParameter, match="sensitivity"):
        sf.Exponential(1, 10**12).in_parts(10**9)


def test_shortfalls_count_the_rounding_and_the_cut() -> None:
    for mechanism in (sf.Exponential(1), sf.PermuteAndFlip(1), sf.NoisyMax(1), sf.TopK(1, k=2)):
        on_grid = mechanism.error(100, on_grid=True)
        assert mechanism.error(100) == on_grid + 2.0**-20
    assert sf.Exponential("1e-9", grid=F(1, 2**60)).error(10) == math.inf  # told apart only up to 4 points


@pytest.mark.parametrize(
    "wrong",
    [[F(1, 3), "a"], [F(1, 3), None], [F(1, 3), True], [F(1, 3), 1j], [[F(1)]], [np.longdouble(1)], [[1], [2, 3]]],
)
def test_only_numbers_are_scores(wrong: Any) -> None:
    with pytest.raises(sf.InvalidParameter, match="scores"):
        sf.Exponential(1).choose(wrong)
