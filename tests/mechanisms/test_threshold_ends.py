"""Key thresholds, widths of sums and quantiles at the ends of what they take, beside 50 digits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.mechanisms import key_thresholds, laplace, noise_sums
from sfumato.mechanisms.quantiles import LegacyQuantiles, Quantiles

F = Fraction
MP = mpmath.MPContext()
MP.dps = 50


# ── key thresholds ─────────────────────────────────────────────────────────────────────────────


def test_a_group_of_exactly_a_million_units_may_be_needed() -> None:
    needed = 2 * math.log(10**6)
    at = needed / 1e6
    exactly = next(e for e in (at, math.nextafter(at, 0), math.nextafter(at, 1)) if needed / e == 1e6)
    assert sf.KeyThreshold(exactly, "1e-6").epsilon == F(repr(exactly))
    fewer = exactly
    while needed / fewer == 1e6:
        fewer = math.nextafter(fewer, 0)
    assert_refused(lambda: sf.KeyThreshold(fewer, "1e-6"), "a group of a million units")


@pytest.mark.parametrize("sigma", [F(1, 2), F(9, 2), F(5), F(31, 7), F(2500), F(10**5, 3)])
def test_a_gaussian_threshold_is_the_least_whose_bound_fits(sigma: Fraction) -> None:
    """1 − (1 − erfc((τ − 3/2)/σ√2)/2)^g ≤ δ, and no nearer to the centre than σ + 2, where that is no bound."""
    s = MP.mpf(sigma.numerator) / sigma.denominator

    def leak(threshold: int, groups: int) -> Any:
        return 1 - (1 - MP.erfc((threshold - MP.mpf(3) / 2) / (s * MP.sqrt(2))) / 2) ** groups

    for groups in (1, 2, 30, 1000):
        for delta in (F(1, 1000), F(1, 10**6), F(3, 10**10), F(1, 10**30)):
            found = key_thresholds._gaussian_threshold(sigma, delta, groups)
            assert leak(found, groups) <= MP.mpf(delta.numerator) / delta.denominator
            assert found == math.ceil(sigma) + 2 or leak(found - 1, groups) > delta
    for delta in (F(49, 100), F(1, 4)):
        assert key_thresholds._gaussian_threshold(sigma, delta, 1) == math.ceil(sigma) + 2


def test_a_leak_of_all_of_delta_is_allowed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    half = -math.expm1(math.log1p(-0.5))
    for delta, expected in ((half, 20), (math.nextafter(half, 0), 40)):
        key_thresholds._gaussian_threshold.cache_clear()
        tails = {t: 0.5 if t < 39 else 0.25 for t in range(200)} | dict.fromkeys(range(19), 0.75)
        monkeypatch.setattr(key_thresholds, "_gaussian_tail_bound", lambda _, t, tails=tails: tails.get(t, 0.0))
        assert key_thresholds._gaussian_threshold(F(3), F(delta), 1) == expected
    key_thresholds._gaussian_threshold.cache_clear()


def test_a_laplace_threshold_allows_all_of_delta_and_begins_at_one() -> None:
    for weighted in (False, True):
        leak = key_thresholds.leak_probability(20, F(3), 4, weighted)
        assert key_thresholds._laplace_threshold(F(3), leak, 4, weighted) == 20
        assert key_thresholds._laplace_threshold(F(3), leak - F(1, 10**50), 4, weighted) == 21
    assert key_thresholds._laplace_threshold(F(1000), F(9, 10), 2, False) == 1


def test_counts_beyond_all_noise_pass_and_noise_is_drawn_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = sf.KeyThreshold(1, "1e-6", 3)
    drawn: list[tuple[Fraction, int]] = []

    def noise(scale: Fraction, count: int) -> np.ndarray:
        drawn.append((scale, count))
        return np.arange(count, dtype=np.int64) - 2

    monkeypatch.setattr(laplace, "draw", noise)
    t = rule.threshold
    assert rule.choose([t + 1, t, t, t + 2, t - 2]).tolist() == [False, False, True, True, True]
    assert drawn == [(F(3), 5)]
    monkeypatch.setattr(laplace, "draw", lambda _, count: np.full(count, -(2**47)))
    assert rule.choose([2**63 - 1, 2**62, 2**47 + t, 2**47 + t - 1]).tolist() == [True, True, True, False]
    monkeypatch.setattr(laplace, "draw", lambda _, count: np.full(count, 2**47))
    assert rule.choose([2**63 - 1, 0]).tolist() == [True, False]


# ── widths ─────────────────────────────────────────────────────────────────────────────────────


GRID = [*np.geomspace(1e-6, 0.5, 100).tolist(), *(1 - np.geomspace(1e-6, 0.5, 100)).tolist()]
"""The slopes that Chernoff's bound is taken at, beside the scale's inverse."""


def continuous_chernoff(squares: Any, miss: Any) -> Any:
    return min((-squares * MP.log1p(-(MP.mpf(s) ** 2)) + MP.log(2 / miss)) / s for s in GRID)


def test_chernoff_s_widths_are_the_least_of_those_of_two_hundred_slopes() -> None:
    miss = 0.05
    for squares in (1.0, 4.0, 300.0, math.log(2 / miss) / 1e-12):  # of the last the least slope is the best
        (width,) = noise_sums._continuous_chernoff_widths(np.array([[math.sqrt(squares)]]), miss)
        assert width == pytest.approx(float(continuous_chernoff(MP.mpf(squares), MP.mpf(miss))), rel=1e-10, abs=0)
    for scale in (0.5, 30.0):
        b, q = MP.mpf(scale), MP.exp(-1 / MP.mpf(scale))
        for row in ([1.0, -3.0, 2.0], [1.0] * 40):
            terms, expected = MP.fsum(MP.mpf(a) ** 2 for a in row) / max(map(abs, row)) ** 2, []
            for slope in GRID:
                s = MP.mpf(slope) / b
                moment = 2 * MP.log(1 - q) - MP.log(1 - q * MP.exp(s)) - MP.log(1 - q * MP.exp(-s))
                expected.append((terms * moment + MP.log(2 / MP.mpf(miss))) / s)
            (width,) = noise_sums._discrete_chernoff_widths(np.array([row]), scale, miss)
            assert width / max(map(abs, row)) == pytest.approx(float(min(expected)) * (1 + 1e-9), rel=1e-11, abs=0)


def test_a_series_decides_where_what_it_leaves_out_is_below_half_the_miss() -> None:
    """For one variable, φ(x) = 1/(1 + x²): its 256 points leave out more than a small miss allows."""
    decided = []
    for miss_bound in (0.05, 1e-3, 6e-4, 4e-4):
        miss = MP.mpf(miss_bound) * (1 - MP.mpf(noise_sums._SLACK))
        high, far = (continuous_chernoff(MP.mpf(1), miss * share) for share in (1, MP.mpf(1e-4)))
        last = 256.5 * 2 * MP.pi / (high + far)
        error = 2 / (1 + last**2) * (1 + last**-2) / MP.pi + miss * 1e-4 + 1e-13
        (width,) = noise_sums.continuous_widths(np.array([[3.0]]), miss_bound)
        assert bool(np.isfinite(width)) is bool(error < miss / 2)
        decided.append(float(error / miss))
        if error < miss / 2:  # P(|X| > w) = e^{−w/3}
            assert MP.exp(-MP.mpf(width) / 3) <= miss <= MP.exp(-MP.mpf(width) / 3) + 2 * error
    assert any(0.5 < ratio < 1 for ratio in decided)
    assert any(0.25 < ratio < 0.5 for ratio in decided)
    assert math.isinf(noise_sums.continuous_widths(np.array([[1.0, 0.5]]), 1e-11)[0])
    assert math.isinf(noise_sums.continuous_widths(np.ones((1, 250_001)), 0.05)[0])


# ── quantiles ──────────────────────────────────────────────────────────────────────────────────


def test_the_ends_of_what_quantiles_accept() -> None:
    for epsilon, rows in ((2000, 1), (6000, 3), ("2e-10", 1), ("6e-10", 3)):
        assert sf.Quantiles(F(1, 2), epsilon, (0, 9), rows).rows_per_unit == rows
    for epsilon, rows in (("2000.1", 1), ("6000.1", 3), ("1.99e-10", 1), ("5.99e-10", 3)):
        limits = {1: "from 2e-10 to 2000 for rows_per_unit = 1", 3: "from 6e-10 to 6000 for rows_per_unit = 3"}[rows]
        assert_refused(lambda e=epsilon, r=rows: sf.Quantiles(F(1, 2), e, (0, 9), r), limits)
    assert sf.Quantiles([F(1, 4), F(3, 4)], 4000, (0, 9)).levels == 2
    assert_refused(lambda: sf.Quantiles([F(1, 4), F(3, 4)], "4000.1", (0, 9)), "from 4e-10 to 4000")
    for offset in (-(2**40), 2**40):
        assert sf.Quantiles(F(1, 2), 1, (0, 9), offset=offset).offset == offset
        assert_refused(lambda o=offset: sf.Quantiles(F(1, 2), 1, (0, 9), offset=o * 2), "")
    assert_refused(lambda: sf.Quantiles(F(1, 2), 1, (0, 9), offset=2**40 + 1), "at most 1,099,511,627,776 rows")
    largest = 2**61
    assert sf.Quantiles(F(1, 2), 1, (-largest, largest)).bounds == (-largest, largest)
    for bounds in ((1, 2, 3), (1,), 5, "ab", (0, 1.5), (False, 3), None):
        assert_refused(lambda b=bounds: sf.Quantiles(F(1, 2), 1, b), "a pair of whole numbers")
    for low, high in ((3, 3), (4, 3), (-largest - 1, 0), (0, largest + 1)):
        assert_refused(lambda b=(low, high): sf.Quantiles(F(1, 2), 1, b), "low < high")


def test_a_histogram_is_two_lists_of_one_length() -> None:
    rule = sf.Quantiles(F(1, 2), 1, (0, 9))
    assert rule.choose_histogram([3, 4], [0, 5])[0] in range(10)
    for values, counts in (([[3]], [[1]]), ([3], [1, 2]), ([3, 4], [1]), ([3], [-1]), (3, 1)):
        assert_refused(lambda v=values, c=counts: rule.choose_histogram(v, c), "one whole number ≥ 0 for each value")
    for values in ([[3]], [4, 3], 3):
        assert_refused(lambda v=values: rule.choose(v), "in ascending order")


def test_an_old_charge_of_one_quantile_is_one_bounded_range() -> None:
    for neighbours in ("add-remove", "replace"):
        old = LegacyQuantiles(F(1, 3), 2, (0, 9), 1, neighbours)
        assert old.curve() == sf.Curve.bounded_range(2, neighbours)
        two = LegacyQuantiles([F(2, 5), F(1, 2)], 2, (0, 9), 1, neighbours)
        # the first is the second of the two; the other lies at 4/5 of what is below it
        cost = F(8, 5) if neighbours == "replace" else F(1)
        shares = [2 / (1 + cost), 2 * cost / (1 + cost)]
        assert two.curve() == sf.compose(sf.Curve.pure(share, neighbours) for share in shares)


def test_a_level_of_an_old_charge_costs_what_its_worst_quantile_does() -> None:
    """Under replace the second level of ¼ | ½ | 9/10 has shares of a half and of 4/5: it costs 8/5 of the first."""
    old = LegacyQuantiles([F(1, 4), F(1, 2), F(9, 10)], 2, (0, 9), 1, "replace")
    assert [old._relative_level_cost(level) for level in range(old.levels)] == [1, F(8, 5)]
    first, second = F(2) * F(5, 13), F(2) * F(8, 13)
    assert old.curve() == sf.compose([sf.Curve.pure(first, "replace"), sf.Curve.pure(second, "replace")])
    low = LegacyQuantiles([F(1, 10), F(1, 2), F(3, 4)], 2, (0, 9), 1, "replace")
    assert low._relative_level_cost(1) == F(8, 5)
    added = LegacyQuantiles([F(1, 4), F(1, 2), F(9, 10)], 2, (0, 9), 1)
    assert added.curve() == sf.compose([(sf.Curve.pure(1), 2)])


def test_of_two_quantiles_in_the_middle_the_nearer_to_half_of_the_part_is_chosen_first() -> None:
    for probabilities, first in (
        ([F("0.45"), F("0.9")], F("0.45")),
        ([F("0.1"), F("0.55")], F("0.55")),
        ([F("0.1"), F("0.3"), F("0.6"), F("0.9")], F("0.6")),
        ([F("0.1"), F("0.45"), F("0.6"), F("0.9")], F("0.45")),
        ([F("0.4"), F("0.6")], F("0.4")),
    ):
        nodes = Quantiles(probabilities, 1, (0, 9))._nodes
        assert (nodes[0].probability, nodes[0].below, nodes[0].above, nodes[0].level) == (first, 0, 1, 0)
    upper = Quantiles([F("0.5"), F("0.7"), F("0.95")], 1, (0, 9))._nodes
    assert [(node.probability, node.level) for node in upper] == [(F("0.7"), 0), (F("0.5"), 1), (F("0.95"), 1)]


def test_targets_are_moved_by_one_row_more_than_a_choice_may_err() -> None:
    """Of q from 10 numbers at ε = 1: (ln 10 + ln 2k/β)/rate rows. That of the least value is already a row inside."""
    assert Quantiles([F(1, 2)], 1, (0, 9)).safety_offset_rows("0.95") == 1 + math.ceil(math.log(400)) == 7
    assert Quantiles([F(1, 2)], 1, (0, 9)).safety_offset_rows("0.95", 5) == 1 + math.ceil(math.log(2000)) == 9
    assert Quantiles.minimum(1, (0, 9)).offset == 1 + math.floor(2 * math.log(400)) == 12
    assert Quantiles.maximum(1, (0, 9)).offset == -12
    two = Quantiles([F(1, 2), F(3, 4)], 1, (0, 9), rows_per_unit=3)
    # two levels of ε/2 each, units of three rows
    assert two.safety_offset_rows("0.95") == 1 + math.ceil(math.log(800) * 2 * 3) == 42
    assert [end.offset for end in two.ends(1)] == [-42, 42]
    assert {end.epsilon for end in two.ends("0.5")} == {F(1, 2)}


def test_refusals_of_values_tell_tables_from_lists() -> None:
    rule = Quantiles([F(1, 2)], 1, (0, 9))
    flat = {str(assert_refused(lambda c=counts: rule.choose_histogram([3], c)).value) for counts in ([1, 2], [-1])}
    table = str(assert_refused(lambda: rule.choose_histogram([[3]], [[1]])).value)
    mixed = str(assert_refused(lambda: rule.choose_histogram([[3]], [1])).value)
    assert len(flat) == 1
    assert not {table, mixed} & flat
    assert str(assert_refused(lambda: rule.choose([[3]])).value) != str(
        assert_refused(lambda: rule.choose([4, 3])).value
    )
