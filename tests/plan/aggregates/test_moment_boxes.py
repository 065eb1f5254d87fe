"""The extremes of moments in a box are those that a fine grid over it finds, and none that it does not."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates import moments
from sfumato.plan.aggregates.measures import GroupEstimate
from sfumato.plan.aggregates.moments import (
    CentredRange,
    CorrelationEstimate,
    CovarianceEstimate,
    SlopeOrInterceptEstimate,
    SpreadEstimate,
)

AXIS = CentredRange(-2, 6, 1, Fraction(1, 8))
"""Off its middle: from −3 to 5, which reaches 5."""
FINEST = 2.0**-40


def boxes(seed: int, product: tuple[float, float], count: int = 40) -> Any:
    """Draw boxes of both means and both squares in which no variance reaches 0."""
    bits = np.random.default_rng(seed)
    m_x, m_y = (np.sort(bits.uniform(-0.8, 0.8, (2, count)), axis=0) for _ in range(2))
    q_x, q_y = (np.sort(bits.uniform(0.8, 1.6, (2, count)), axis=0) for _ in range(2))
    return bits.uniform(*product, count), tuple(m_x), tuple(m_y), tuple(q_x), tuple(q_y)


def between(ends: Any, parts: int = 41) -> Any:
    return np.linspace(ends[0], ends[1], parts)


SIGNS = [(-1.5, -0.7), (-0.3, 0.3), (0.5, 1.5)]


@pytest.mark.parametrize("product", SIGNS)
def test_the_largest_correlation_in_a_box(product: tuple[float, float]) -> None:
    p, m_x, m_y, q_x, q_y = boxes(1, product)
    m, w = between(m_x)[:, None], between(m_y)[None, :]
    largest = np.full_like(p, -np.inf)
    for q, r in itertools.product(q_x, q_y):
        largest = np.maximum(largest, ((p - m * w) / np.sqrt((q - m**2) * (r - w**2))).max(axis=(0, 1)))
    found = moments._max_correlation(p, m_x, m_y, q_x, q_y)
    assert (found >= largest - 1e-12).all()
    assert (found <= largest + 2e-3).all()


@pytest.mark.parametrize("product", SIGNS)
def test_the_steepest_slope_in_a_box(product: tuple[float, float]) -> None:
    p, m_x, m_y, q_x, _ = boxes(2, product)
    m, w = between(m_x, 401)[:, None], between(m_y, 3)[None, :]
    largest = np.maximum(*(((p - m * w) / (q - m**2)).max(axis=(0, 1)) for q in q_x))
    found = moments._max_slope(p, m_x, m_y, q_x)
    assert (found >= largest - 1e-12).all()
    assert (found <= largest + 1e-4).all()


def test_an_extreme_inside_a_box_is_found() -> None:
    """Where p < 0 everywhere and both means may be 0, the correlation nearest to 0 is neither at a corner nor 0."""
    one = np.ones(1)
    p, m_x, m_y, q = -0.5 * one, (-0.2 * one, 0.7 * one), (0.3 * one, 0.6 * one), (one, one)
    # on the edge m′ = 0.3 the derivative in m is 0 at m = m′·q/p = −0.6, outside; at m = −0.2, m′ = −0.2·q′/p = 0.4
    expected = (-0.5 + 0.2 * 0.4) / np.sqrt((1 - 0.04) * (1 - 0.16))
    assert moments._max_correlation(p, m_x, m_y, q, q) == pytest.approx(expected)
    around = (-0.2 * one, 0.1 * one), (-0.1 * one, 0.2 * one)
    m, w = np.meshgrid(np.linspace(-0.2, 0.1, 301), np.linspace(-0.1, 0.2, 301))
    best = ((-0.5 - m * w) / np.sqrt((1 - m**2) * (1 - w**2))).max()
    assert moments._max_correlation(p, *around, q, q) == pytest.approx(best)


def test_a_quotient_has_no_limit_where_a_variance_may_be_zero() -> None:
    one = np.ones(1)
    box = 0.9 * one, (0 * one, one), (0 * one, 0.5 * one), (one, one)
    assert moments._max_slope(*box) == np.inf
    assert moments._max_correlation(*box, (one, one)) == np.inf
    assert moments._quotient_or_infinity(one, 0 * one) == np.inf
    assert moments._quotient_or_infinity(one, 4 * one) == 0.25


def test_the_range_of_a_mean() -> None:
    bits = np.random.default_rng(4)
    rows = bits.integers(2, 60, 50)
    a, b = bits.uniform(0, 8, 50) * rows, bits.uniform(0, 8, 50) * rows
    sums = (0.9 * a, 1.1 * a), (0.8 * b, 1.05 * b)
    first, last = 1 / (1.3 * rows), 1 / (0.9 * rows)
    t = between((first, last), 4001)
    least = np.maximum(-3 + sums[0][0] * t, 5 - sums[1][1] * t).min(axis=0) - 0.125
    greatest = np.minimum(-3 + sums[0][1] * t, 5 - sums[1][0] * t).max(axis=0) + 0.125
    found = moments._mean_ends(AXIS, sums, (first, last))
    assert found[0] == pytest.approx(np.clip(least, -3, 5), abs=5e-3)
    assert found[1] == pytest.approx(np.clip(greatest, -3, 5), abs=5e-3)


def test_the_range_of_squares_and_products_per_row() -> None:
    """Rounding and what doubles may err by widen both ends; no square is above 5², no product above 5·2."""
    t, square = (np.array([0.25]), np.array([0.5])), (np.array([10.0]), np.array([14.0]))
    slack = 0.75 + 25 * FINEST
    assert moments._mean_square_ends(AXIS, square, Fraction(3, 4), t) == ([2.5 - slack], [7 + slack])
    assert moments._mean_square_ends(AXIS, (square[0] / 100, square[1] * 100), Fraction(3, 4), t) == ([0], [25])
    totals = [np.array([8.0]), np.array([24.0]), np.array([4.0]), np.array([4.0])]
    for total, low, high in ((4.0, 0.25 * 2, 0.5 * 6), (-4.0, -0.5 * 6, -0.25 * 2), (1.0, -0.5, 1.5)):
        pairs = moments._PairSums(
            AXIS, CentredRange(0, 2, 0), totals, [0.0] * 4, np.array([total]), 2.0, Fraction(1, 4)
        )
        slack = 0.25 + 10 * FINEST
        assert pairs.product_mean_ends(t) == ([low - slack], [high + slack])
    wide = moments._PairSums(AXIS, CentredRange(0, 2, 0), totals, [0.0] * 4, np.array([0.0]), 100.0, Fraction(0))
    assert wide.product_mean_ends(t) == ([-10], [10])


@pytest.mark.parametrize(
    ("mean", "squares"), [((-1, 2), (7, 9)), ((1, 2), (7, 9)), ((-3, -2), (0, 10)), ((2, 5), (0, 25))]
)
def test_the_range_of_a_variance(mean: tuple[float, float], squares: tuple[float, float]) -> None:
    m, q = between(mean, 3001)[:, None], np.array(squares)
    values = q - m**2
    largest = ((5 - m) * (m + 3)).max()
    low, high = moments._variance_from_moments(
        AXIS,
        tuple(np.array([float(end)]) for end in mean),
        tuple(np.array([float(end)]) for end in squares),  # type: ignore[arg-type]
    )
    assert low[0] == pytest.approx(max(values.min(), 0))
    assert high[0] == pytest.approx(max(min(values.max(), largest), 0))


def test_slices_cover_every_number_of_rows_in_equal_quotients() -> None:
    for groups in (1, 3, 2_000, 2**14 + 1):
        fewest, most = np.full(groups, 2.0), np.full(groups, 2.0 * 3**16)
        batches = list(moments._inverse_row_slices(fewest, most))
        cells = max(1, 2**14 // groups)
        assert [len(first) for first, _ in batches] == [min(cells, 16 - start) for start in range(0, 16, cells)]
        first, last = (np.concatenate(ends)[:, 0] for ends in zip(*batches, strict=True))
        assert first == pytest.approx(1 / (2.0 * 3.0 ** np.arange(16, 0, -1)))
        assert last == pytest.approx(1 / (2.0 * 3.0 ** np.arange(15, -1, -1)))
        assert (first[0], last[-1]) == (1 / most[0], 0.5)


def test_ranges_are_united_over_slices_and_prior_where_rows_may_be_missing() -> None:
    rows = np.array([4.0, 1.5, 0.5, 9.0]), np.array([8.0, 8.0, 0.75, 3.0])
    low, high = moments._range_over_row_slices(rows, 2, lambda t: (t[0], t[1]), (-5.0, 0.4))
    assert low == pytest.approx([1 / 8, -5, -5, 1 / 9])
    assert high == pytest.approx([1 / 4, 0.4, 0.4, 1 / 9])
    exactly = moments._range_over_row_slices((np.array([2.0]), np.array([2.0])), 2, lambda t: t, (-5.0, 0.4))
    assert exactly == ([0.5], [0.4])
    assert moments._range_over_row_slices((np.array([4.0]), np.array([4.0])), 2, lambda t: t, (0.3, 0.4))[0] == [0.3]


def test_the_scale_of_a_sample() -> None:
    t = np.array([0.25]), np.array([0.5])
    population = np.array([-3.0]), np.array([6.0])
    assert moments._ends_scaled_to_sample(population, t, False) is population
    assert moments._ends_scaled_to_sample(population, t, True) == ([-6.0], [12.0])
    assert moments._ends_scaled_to_sample((np.array([3.0]), np.array([-6.0])), t, True) == ([4.0], [-8.0])
    values, rows = np.array([6.0, 6.0, 6.0]), np.array([1.99, 2.0, 3.0])
    assert moments._scaled_to_sample_or_nan(values, rows, True) == pytest.approx([np.nan, 12.0, 9.0], nan_ok=True)
    assert moments._scaled_to_sample_or_nan(values, rows, False) is values


def test_numbers_that_are_no_moments_are_nan() -> None:
    assert moments._inverse_rows_or_nan(np.array([0.99, 1.0, 4.0])) == pytest.approx([np.nan, 1.0, 0.25], nan_ok=True)
    assert moments._nan_unless_positive(np.array([-1.0, 0.0, 2.0])) == pytest.approx([np.nan, np.nan, 2.0], nan_ok=True)
    assert moments._mean_estimate(AXIS, np.array([4.0, -4.0, 90.0]), np.array([0.5] * 3)).tolist() == [-1.0, -3.0, 5.0]


def test_a_square_holds_zero_where_its_root_may_be_zero() -> None:
    low, high = np.array([-0.5, 0.25, -0.5, 0.0, -0.5]), np.array([0.25, 0.5, -0.25, 0.5, 0.0])
    squared = moments._squared_group(GroupEstimate((low + high) / 2, low, high))
    assert squared.low.tolist() == [0, 0.0625, 0.0625, 0, 0]
    assert squared.high.tolist() == [0.25, 0.25, 0.25, 0.25, 0.25]
    assert squared.value == pytest.approx(((low + high) / 2) ** 2)


def test_a_total_that_is_not_negative() -> None:
    low, high = moments._nonnegative_ends(np.array([-5.0, 1.0, 5.0]), 2.0)
    assert (low.tolist(), high.tolist()) == ([0, 0, 3], [2, 3, 7])


def test_both_columns_count_the_rows() -> None:
    """The range of the number of rows is what both allow; what is between two ranges that do not meet, otherwise."""
    totals = [np.array([8.0]), np.array([24.0]), np.array([3.0]), np.array([4.0])]
    pairs = moments._PairSums(
        AXIS, CentredRange(0, 2, 0), totals, [2.0, 6.0, 0.5, 0.5], np.array([6.0]), 2.0, Fraction(0)
    )
    assert pairs.row_count_ends == ([3.0], [4.0])  # [24, 40]/8 and [6, 8]/2
    assert pairs.row_count_estimate == [(4 + 3.5) / 2]
    assert [mean[0] for mean in pairs.mean_estimates] == [-3 + 8 / 4, 3 / 3.5]
    assert pairs.covariance_estimate == pytest.approx(6 / 3.75 + 3 / 3.5)
    apart = moments._PairSums(AXIS, CentredRange(0, 2, 0), totals, [0.0] * 4, np.array([6.0]), 2.0, Fraction(0))
    assert apart.row_count_ends == ([3.5], [4.0])


def test_a_covariance_is_at_most_the_product_of_both_deviations() -> None:
    """With products unknown, |covariance| reaches √((high − mean)(mean − low)) of each column and no further."""
    totals = [np.array([16.0]), np.array([16.0]), np.array([2.0]), np.array([6.0])]
    pairs = moments._PairSums(
        CentredRange(-2, 6, 1), CentredRange(0, 2, 0), totals, [0.0] * 4, np.array([0.0]), 1e6, Fraction(0)
    )
    quarter = np.array([0.25]), np.array([0.25])
    limit = np.sqrt((5 - 1) * (1 + 3) * (2 - 0.5) * 0.5)
    assert np.concatenate(pairs.covariance_ends(quarter)) == pytest.approx([-limit, limit])
    near = moments._PairSums(
        CentredRange(-2, 6, 1), CentredRange(0, 2, 0), totals, [0.0] * 4, np.array([2.0]), 1.0, Fraction(0)
    )
    assert np.concatenate(near.covariance_ends(quarter)) == pytest.approx([0.25 - 0.5, 0.75 - 0.5])


X, Y = CentredRange(-2, 6, 1), CentredRange(0, 2, Fraction(1, 2))
ROWS = np.array([(-1.0, 0.25), (0.5, 0.75), (5.0, 1.75), (3.0, 0.5), (2.0, 1.0)])
N = len(ROWS)


def totals(names: str) -> list[Any]:
    x, y = ROWS.T
    sums = {
        "a": x + 2, "b": 6 - x, "c": y, "d": 2 - y,
        "xx": (x - 1) ** 2, "yy": (y - 0.5) ** 2, "xy": (x - 1) * (y - 0.5),
    }  # fmt: skip
    return [np.array([sums[name].sum()]) for name in names.split()]


VAR_X, VAR_Y = (float(np.var(column)) for column in ROWS.T)
COVARIANCE = float(np.cov(*ROWS.T, ddof=0)[0, 1])
ROUNDINGS = {
    # what is rounded by 1/16 per row, and the range that this alone leaves
    (1, 0, 0): (COVARIANCE / np.sqrt((VAR_X + 1 / 16) * VAR_Y), COVARIANCE / np.sqrt((VAR_X - 1 / 16) * VAR_Y)),
    (0, 1, 0): (COVARIANCE / np.sqrt(VAR_X * (VAR_Y + 1 / 16)), COVARIANCE / np.sqrt(VAR_X * (VAR_Y - 1 / 16))),
    (0, 0, 1): ((COVARIANCE - 1 / 16) / np.sqrt(VAR_X * VAR_Y), (COVARIANCE + 1 / 16) / np.sqrt(VAR_X * VAR_Y)),
}


@pytest.mark.parametrize("rounded", ROUNDINGS)
def test_what_rounding_leaves_of_a_correlation(rounded: tuple[int, int, int]) -> None:
    roundings = tuple(Fraction(each, 16) for each in rounded)
    for squared in (False, True):
        made = CorrelationEstimate(X, Y, roundings, squared).estimate(totals("a b c d xx yy xy"), [0.0] * 7)  # type: ignore[arg-type]
        power = 2 if squared else 1
        assert made.low[0] == pytest.approx(ROUNDINGS[rounded][0] ** power)
        assert made.high[0] == pytest.approx(min(ROUNDINGS[rounded][1], 1) ** power)
        assert made.value[0] == pytest.approx((COVARIANCE / np.sqrt(VAR_X * VAR_Y)) ** power)


def test_a_negative_correlation_mirrors_a_positive_one() -> None:
    sums = totals("a b c d xx yy xy")
    turned = [sums[0], sums[1], sums[3], sums[2], sums[4], sums[5], -sums[6]]
    widths, none = [1.0, 1.0, 0.3, 0.3, 1.0, 0.2, 0.4], (Fraction(0),) * 3
    middle = CentredRange(0, 2, 1)
    plain = CorrelationEstimate(X, middle, none, False).estimate(sums, widths)
    mirrored = CorrelationEstimate(X, middle, none, False).estimate(turned, widths)
    assert (mirrored.low[0], mirrored.high[0]) == pytest.approx((-plain.high[0], -plain.low[0]))


@pytest.mark.parametrize("rounded", [(1, 0), (0, 1)])
def test_what_rounding_leaves_of_a_line(rounded: tuple[int, int]) -> None:
    slopes = {
        (1, 0): (COVARIANCE / (VAR_X + 1 / 16), COVARIANCE / (VAR_X - 1 / 16)),
        (0, 1): ((COVARIANCE - 1 / 16) / VAR_X, (COVARIANCE + 1 / 16) / VAR_X),
    }[rounded]
    roundings: Any = tuple(Fraction(each, 16) for each in rounded)
    mean_x, mean_y = ROWS.mean(axis=0)
    for intercept in (False, True):
        made = SlopeOrInterceptEstimate(X, Y, roundings, intercept).estimate(totals("a b c d xx xy"), [0.0] * 6)
        ends = sorted(mean_y - slope * mean_x for slope in slopes) if intercept else slopes
        assert (made.low[0], made.high[0]) == pytest.approx(ends)
        slope = COVARIANCE / VAR_X
        assert made.value[0] == pytest.approx(mean_y - slope * mean_x if intercept else slope)


def test_a_slope_is_at_most_the_quotient_of_deviations() -> None:
    """With products unknown: √(the largest variance of y / the variance of x)."""
    made = SlopeOrInterceptEstimate(X, Y, (Fraction(0),) * 2, False).estimate(
        totals("a b c d xx xy"), [0.0] * 5 + [1e6]
    )  # type: ignore[arg-type]
    mean_y = float(ROWS[:, 1].mean())
    limit = np.sqrt((2 - mean_y) * mean_y / VAR_X)
    assert (made.low[0], made.high[0]) == pytest.approx((-limit, limit))


def test_what_rounding_leaves_of_a_covariance_and_a_variance() -> None:
    made = CovarianceEstimate(X, Y, Fraction(1, 16), False).estimate(totals("a b c d xy"), [0.0] * 5)
    assert (made.low[0], made.high[0]) == pytest.approx((COVARIANCE - 1 / 16, COVARIANCE + 1 / 16))
    sample = CovarianceEstimate(X, Y, Fraction(1, 16), True).estimate(totals("a b c d xy"), [0.0] * 5)
    assert (sample.low[0], sample.high[0]) == pytest.approx((1.25 * made.low[0], 1.25 * made.high[0]))
    for root, bessel in itertools.product((False, True), repeat=2):
        spread = SpreadEstimate(X, Fraction(1, 16), bessel, root).estimate(totals("a b xx"), [0.0] * 3)
        ends = [(VAR_X + each) * (1.25 if bessel else 1) for each in (-1 / 16, 1 / 16)]
        assert (spread.low[0], spread.high[0]) == pytest.approx(np.sqrt(ends) if root else ends)


def test_what_is_known_beforehand_of_one_row_and_of_two() -> None:
    """With rows in [1, …] a population has a variance up to (width/2)², a sample of two one twice as large."""
    sums, wide = [np.array([8.0]), np.array([8.0]), np.array([20.0])], [4.0, 4.0, 1e6]
    for bessel, largest in ((False, 16), (True, 32)):
        made = SpreadEstimate(X, Fraction(0), bessel, False).estimate(sums, wide)
        assert (made.low[0], made.high[0]) == pytest.approx((0, largest))
    both = [*sums[:2], np.array([2.0]), np.array([2.0]), np.array([0.0])]
    for bessel, largest in ((False, 4), (True, 8)):
        made = CovarianceEstimate(X, Y, Fraction(0), bessel).estimate(both, [4.0, 4.0, 1.0, 1.0, 1e6])
        assert (made.low[0], made.high[0]) == pytest.approx((-largest, largest))


def test_roundings_and_axes_at_their_edges() -> None:
    assert (AXIS.width, AXIS.largest_distance, AXIS.centred_ends) == (8, 5, (-3, 5))
    assert CentredRange(-2, 6, 4).largest_distance == 6
    assert CentredRange(0, 1, 0).middle == 0
    assert CentredRange(0, 1, 1).middle == 1
    for made in (
        lambda: CorrelationEstimate(X, Y, (Fraction(0), Fraction(-1), Fraction(0)), False),
        lambda: CovarianceEstimate(X, Y, Fraction(-1, 10**9), False),
    ):
        with pytest.raises(InvalidParameter):
            made()


@pytest.mark.parametrize("ends", [(-3, -3), (-3, 5), (-1, 0), (0, 2), (1, 1), (3, 5), (4.5, 6), (-9, -4), (-9, -2.9)])
def test_the_largest_variance_that_means_allow(ends: tuple[float, float]) -> None:
    """Values from −3 to 5 with the mean m have at most the variance of a coin over both ends, by its own formula."""
    means = [ends[0] + (ends[1] - ends[0]) * step / 16 for step in range(17)]
    chances = [((mean + 3) / 8, mean) for mean in means if -3 <= mean <= 5]
    expected = max((chance * (5 - mean) ** 2 + (1 - chance) * (-3 - mean) ** 2 for chance, mean in chances), default=0)
    for mean in (ends, ends[::-1]):
        found = moments._largest_variance(AXIS, (np.array([mean[0]]), np.array([mean[1]])))
        assert found.tolist() == pytest.approx([expected])
