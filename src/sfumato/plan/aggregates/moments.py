"""Estimators of variance, covariance, correlation and regression from the noisy totals of a group.

A column x has two sums a = Σ(x − low) and b = Σ(high − x), as its mean has; its squares are Σ(x − c)² and the products
with another column Σ(x − c)(y − d), where c and d are the middles of the declared bounds. Every total is within a
half-width of its own of what was measured, and then every range here holds: none of them needs another chance to fail.

Method. With t = 1/n, n the number of rows, the moments per row are m = mean − c, q = Σ(x − c)²·t and
p = Σ(x − c)(y − d)·t. The possible t are cut into slices. In a slice each moment has a range:

- mean = low + a·t = high − b·t, so it is at least max(low + a₋·t, high − b₊·t). One of the two rises and the other
  falls in t, so the least of it in a slice is where they cross, or at the end of the slice that is nearest to that. The
  most is found alike.
- q and p are products with t > 0, so their ends are at the ends of their factors.
- What was rounded is rounded per row, by no more than a known amount, which is added to each range, as is what doubles
  may err by.
- Known beforehand: low ≤ mean ≤ high, 0 ≤ q ≤ (the larger distance from c)², |p| at most the product of both distances,
  |covariance| at most that of both standard deviations, and the variance at most (high − mean)(mean − low) (Bhatia &
  Davis 2000).

In such a box the extremes are found exactly (``_max_correlation``, ``_max_slope``), and the range of the result is from
the least to the greatest of all slices. A slice holds all that its numbers of rows allow, so no range is too narrow;
more slices make it less wide. Where fewer rows than needed are possible, the range is what is known beforehand. ∎
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import GroupEstimate, Width
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.quick_dataclass import dataclass

Range = tuple[Floats, Floats]
Widths = Sequence[Width]
"""The half-width of each total: one number, or one for each group."""

_SLICES = 16
_MAX_CELLS = 2**14
"""Slices × groups computed in one array: few arrays for a small answer, little memory for a large one."""
_FLOATING = 2.0**-40
"""A bound on the relative error of doubles, in parts of the largest square or product of a row."""


@codec.serialisable("moment-axis")
@dataclass(frozen=True)
class CentredRange:
    """The range and the origin of the totals of one column."""

    low: Fraction
    high: Fraction
    """The ends of the range, which the two sums are distances from."""
    middle: Fraction
    """The origin of squares and products."""
    rounding: Fraction
    """The largest rounding error of a value."""

    def __init__(self, low: Number, high: Number, middle: Number, rounding: Number = 0) -> None:
        for name, value in (("low", low), ("high", high), ("middle", middle), ("rounding", rounding)):
            object.__setattr__(self, name, exact(value, name))
        if not self.low <= self.middle <= self.high or self.low == self.high or self.rounding < 0:
            raise InvalidParameter("axis", self, "a range with low < high, low ≤ middle ≤ high and rounding ≥ 0")

    @property
    def width(self) -> float:
        return float(self.high - self.low)

    @property
    def largest_distance(self) -> float:
        """The largest distance of a value from the middle."""
        return float(max(self.high - self.middle, self.middle - self.low))

    @property
    def centred_ends(self) -> tuple[float, float]:
        """The two ends, relative to the middle."""
        return float(self.low - self.middle), float(self.high - self.middle)


# What is asked


@codec.serialisable("spread-estimator")
@dataclass(frozen=True)
class SpreadEstimate:
    """The variance or standard deviation, from a, b and the squares of one column.

    The sample variance is n/(n − 1) times the population's and needs two rows: so it is at most twice as large.
    """

    axis: CentredRange
    rounding: Fraction
    """The largest rounding error of a square."""
    sample: bool
    root: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_nonnegative_fraction(self, "rounding")

    def estimate(self, totals: Sequence[Floats], half_widths: Widths) -> GroupEstimate:
        low_sum, high_sum, squares = totals
        sums, squares_range = _sum_ranges(totals[:2], half_widths[:2]), _nonnegative_ends(squares, half_widths[2])

        def variance(inverse_rows_range: Range) -> Range:
            return _ends_scaled_to_sample(
                _variance_range(self.axis, sums, squares_range, self.rounding, inverse_rows_range),
                inverse_rows_range,
                self.sample,
            )

        prior_range = 0.0, (self.axis.width / 2) ** 2 * (2 if self.sample else 1)
        low, high = _range_over_row_slices(
            _row_count_ends(self.axis, sums), 2 if self.sample else 1, variance, prior_range
        )
        rows = (low_sum + high_sum) / self.axis.width
        inverse_rows = _inverse_rows_or_nan(rows)
        value = squares * inverse_rows - _mean_estimate(self.axis, low_sum, inverse_rows) ** 2
        variance_estimate = _clipped_estimate(_scaled_to_sample_or_nan(value, rows, self.sample), low, high)
        return (
            GroupEstimate(
                np.sqrt(variance_estimate.value), np.sqrt(variance_estimate.low), np.sqrt(variance_estimate.high)
            )
            if self.root
            else variance_estimate
        )


@codec.serialisable("covariance-estimator")
@dataclass(frozen=True)
class CovarianceEstimate:
    """The covariance, from a and b of two columns and their products."""

    x: CentredRange
    y: CentredRange
    rounding: Fraction
    """The largest rounding error of a product."""
    sample: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_nonnegative_fraction(self, "rounding")

    def estimate(self, totals: Sequence[Floats], half_widths: Widths) -> GroupEstimate:
        pairs = _PairSums(self.x, self.y, totals, half_widths, totals[4], half_widths[4], self.rounding)

        def covariance(inverse_rows_range: Range) -> Range:
            return _ends_scaled_to_sample(pairs.covariance_ends(inverse_rows_range), inverse_rows_range, self.sample)

        largest = self.x.width * self.y.width / 4 * (2 if self.sample else 1)
        low, high = _range_over_row_slices(
            pairs.row_count_ends, 2 if self.sample else 1, covariance, (-largest, largest)
        )
        return _clipped_estimate(
            _scaled_to_sample_or_nan(pairs.covariance_estimate, pairs.row_count_estimate, self.sample), low, high
        )


@codec.serialisable("correlation-estimator")
@dataclass(frozen=True)
class CorrelationEstimate:
    """The correlation or its square, from a and b of two columns, their squares and their products. It is NULL where
    one of the noisy variances is not positive.
    """

    x: CentredRange
    y: CentredRange
    roundings: tuple[Fraction, Fraction, Fraction]
    """The largest rounding errors of the squares of x, of the squares of y and of the products."""
    squared: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_nonnegative_fractions(self, "roundings")

    def estimate(self, totals: Sequence[Floats], half_widths: Widths) -> GroupEstimate:
        x_rounding, y_rounding, product_rounding = self.roundings
        pairs = _PairSums(self.x, self.y, totals, half_widths, totals[6], half_widths[6], product_rounding)
        squares_x, squares_y = (
            _nonnegative_ends(totals[4], half_widths[4]),
            _nonnegative_ends(totals[5], half_widths[5]),
        )

        def correlation(inverse_rows_range: Range) -> Range:
            means, products = pairs.mean_ranges(inverse_rows_range), pairs.product_mean_ends(inverse_rows_range)
            q_x = _mean_square_ends(self.x, squares_x, x_rounding, inverse_rows_range)
            q_y = _mean_square_ends(self.y, squares_y, y_rounding, inverse_rows_range)
            greatest = _max_correlation(products[1], *means, q_x, q_y)
            least = -_max_correlation(-products[0], means[0], _negated_interval(means[1]), q_x, q_y)
            return np.clip(least, -1, 1), np.clip(greatest, -1, 1)

        low, high = _range_over_row_slices(pairs.row_count_ends, 1, correlation, (-1.0, 1.0))
        inverse_rows, (mean_x, mean_y) = _inverse_rows_or_nan(pairs.row_count_estimate), pairs.mean_estimates
        variance_product = _nan_unless_positive(totals[4] * inverse_rows - mean_x**2) * _nan_unless_positive(
            totals[5] * inverse_rows - mean_y**2
        )
        correlation_estimate = _clipped_estimate(pairs.covariance_estimate / np.sqrt(variance_product), low, high)
        return _squared_group(correlation_estimate) if self.squared else correlation_estimate


@codec.serialisable("line-estimator")
@dataclass(frozen=True)
class SlopeOrInterceptEstimate:
    """The slope or the intercept of the least-squares line of y over x, from a and b of both columns, the squares of x
    and the products. It is NULL where the noisy variance of x is not positive.
    """

    x: CentredRange
    y: CentredRange
    roundings: tuple[Fraction, Fraction]
    """The largest rounding errors of the squares of x and of the products."""
    intercept: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_nonnegative_fractions(self, "roundings")

    def estimate(self, totals: Sequence[Floats], half_widths: Widths) -> GroupEstimate:
        square_rounding, product_rounding = self.roundings
        pairs = _PairSums(self.x, self.y, totals, half_widths, totals[5], half_widths[5], product_rounding)
        squares_range = _nonnegative_ends(totals[4], half_widths[4])

        def line(inverse_rows_range: Range) -> Range:
            slope = self._slope_ends(pairs, squares_range, square_rounding, inverse_rows_range)
            return self._intercept_ends(slope, pairs.mean_ranges(inverse_rows_range)) if self.intercept else slope

        unbounded = -np.inf, np.inf
        low, high = _range_over_row_slices(pairs.row_count_ends, 1, line, unbounded)
        mean_x, mean_y = pairs.mean_estimates
        value = pairs.covariance_estimate / _nan_unless_positive(
            totals[4] * _inverse_rows_or_nan(pairs.row_count_estimate) - mean_x**2
        )
        if self.intercept:
            value = mean_y + float(self.y.middle) - value * (mean_x + float(self.x.middle))
        return _clipped_estimate(value, low, high)

    def _slope_ends(
        self, pairs: _PairSums, squares_range: Range, rounding: Fraction, inverse_rows_range: Range
    ) -> Range:
        (m_x, m_y), products = pairs.mean_ranges(inverse_rows_range), pairs.product_mean_ends(inverse_rows_range)
        q_x = _mean_square_ends(self.x, squares_range, rounding, inverse_rows_range)
        greatest = _max_slope(products[1], m_x, m_y, q_x)
        least = -_max_slope(-products[0], m_x, _negated_interval(m_y), q_x)
        with np.errstate(divide="ignore", invalid="ignore"):  # |slope| ≤ √(variance of y / variance of x)
            limit = np.sqrt(_largest_variance(self.y, m_y) / _variance_from_moments(self.x, m_x, q_x)[0])
        limit = np.where(np.isnan(limit), np.inf, limit)
        return np.clip(least, -limit, limit), np.clip(greatest, -limit, limit)

    def _intercept_ends(self, slope: Range, means: tuple[Range, Range]) -> Range:
        m_x, m_y = (
            tuple(mean + float(axis.middle) for mean in mean_range)
            for axis, mean_range in zip((self.x, self.y), means, strict=True)
        )
        with np.errstate(invalid="ignore"):
            ends = [np.nan_to_num(s * m, nan=0.0, posinf=np.inf, neginf=-np.inf) for s, m in product(slope, m_x)]
        return m_y[0] - np.maximum.reduce(ends), m_y[1] - np.minimum.reduce(ends)


# Two columns


class _PairSums:
    """The rows where neither of two columns is NULL."""

    def __init__(
        self,
        x: CentredRange,
        y: CentredRange,
        totals: Sequence[Floats],
        widths: Widths,
        products: Floats,
        width: Width,
        rounding: Fraction,
    ) -> None:
        self.x, self.y, self.totals, self.rounding = x, y, totals, float(rounding)
        self.sums = _sum_ranges(totals[:2], widths[:2]), _sum_ranges(totals[2:4], widths[2:4])
        self.held: Range = (products - width, products + width)
        self.product_values = products

    @property
    def row_count_ends(self) -> Range:
        """The range of the number of rows, which both columns count. Disjoint ranges mean that one does not hold, and
        any order of the ends will do.
        """
        smallest_counts, largest_counts = zip(
            _row_count_ends(self.x, self.sums[0]), _row_count_ends(self.y, self.sums[1]), strict=True
        )
        low, high = np.maximum(*smallest_counts), np.minimum(*largest_counts)
        return np.minimum(low, high), np.maximum(low, high)

    @property
    def row_count_estimate(self) -> Floats:
        x_low, x_high, y_low, y_high = self.totals[:4]
        return np.asarray(((x_low + x_high) / self.x.width + (y_low + y_high) / self.y.width) / 2)

    @property
    def mean_estimates(self) -> tuple[Floats, Floats]:
        """The noisy means, relative to the middles."""
        x_low, x_high, y_low, y_high = self.totals[:4]
        x_inverse_rows, y_inverse_rows = (
            _inverse_rows_or_nan((x_low + x_high) / self.x.width),
            _inverse_rows_or_nan((y_low + y_high) / self.y.width),
        )
        return _mean_estimate(self.x, x_low, x_inverse_rows), _mean_estimate(self.y, y_low, y_inverse_rows)

    @property
    def covariance_estimate(self) -> Floats:
        """The noisy covariance."""
        mean_x, mean_y = self.mean_estimates
        return np.asarray(self.product_values * _inverse_rows_or_nan(self.row_count_estimate) - mean_x * mean_y)

    def mean_ranges(self, inverse_rows: Range) -> tuple[Range, Range]:
        return _mean_ends(self.x, self.sums[0], inverse_rows), _mean_ends(self.y, self.sums[1], inverse_rows)

    def product_mean_ends(self, inverse_rows: Range) -> Range:
        first, last = inverse_rows
        low, high = self.held
        largest = self.x.largest_distance * self.y.largest_distance
        slack = self.rounding + _FLOATING * largest
        ends = np.minimum(low * first, low * last) - slack, np.maximum(high * first, high * last) + slack
        return np.clip(ends[0], -largest, largest), np.clip(ends[1], -largest, largest)

    def covariance_ends(self, inverse_rows: Range) -> Range:
        """Return the range of p − m·m′: each of the three is at an end, because it is linear in each."""
        (m_x, m_y), (low, high) = self.mean_ranges(inverse_rows), self.product_mean_ends(inverse_rows)
        mean_products = [mean_x * mean_y for mean_x, mean_y in product(m_x, m_y)]
        # the two standard deviations (Cauchy–Schwarz)
        limit = np.sqrt(_largest_variance(self.x, m_x) * _largest_variance(self.y, m_y))
        least, greatest = low - np.maximum.reduce(mean_products), high - np.minimum.reduce(mean_products)
        return np.clip(least, -limit, limit), np.clip(greatest, -limit, limit)


def _max_correlation(product_end: Floats, m_x: Range, m_y: Range, q_x: Range, q_y: Range) -> Floats:
    """Return the largest N/D, N = p − m·m′, D = √((q − m²)(q′ − m′²)), in a box; p is at its upper end.

    In m alone N is linear and D concave, so where N > 0 and D > 0 the quotient is quasi-convex: on the interval of such
    m it is largest at an end, where m is an end of the box, N = 0 or D = 0. The same holds for m′. So if N > 0
    anywhere, the largest is at a corner, with the least q and q′, or has no limit where D = 0 at a corner. If not,
    |N|/D is to be least, with the largest q and q′: it is quasi-convex in each of m and m′ too, so its least value is
    at a corner, on an edge where its derivative is zero (m·p = m′·q for a given m′, m′·p = m·q′ for a given m), or
    inside where both hold: at m = m′ = 0, or on a line of equal values that meets the edge (p² = q·q′). ∎
    """
    middle = _clip_to_bounds(np.zeros_like(product_end), m_x), _clip_to_bounds(np.zeros_like(product_end), m_y)
    points = [
        *((m, _clip_to_bounds(_quotient_or_infinity(m * q_y[1], product_end), m_y)) for m in m_x),
        *((_clip_to_bounds(_quotient_or_infinity(w * q_x[1], product_end), m_x), w) for w in m_y),
        middle,
    ]

    def spread(m: Floats, w: Floats, end: int) -> Floats:
        return _standard_deviations(q_x[end], m) * _standard_deviations(q_y[end], w)

    return _largest_quotient(product_end, list(product(m_x, m_y)), points, spread)


def _max_slope(product_end: Floats, m_x: Range, m_y: Range, q_x: Range) -> Floats:
    """Return the largest N/D, N = p − m·m′, D = q − m², in a box; p is at its upper end.

    As in ``_max_correlation`` the largest is at a corner with the least q if N > 0 anywhere. If not, |N|/D is least
    with the largest q; it is linear in m′, which is at an end, and quasi-convex in m: m is at an end, or where the
    derivative is zero, m′·m² − 2·p·m + m′·q = 0. The product of its two solutions is q, so that D is 0 at the one that
    is farther from 0, which for p < 0 is the one with −√: the other is looked at. For p > 0 there is none, as
    p ≤ m·m′ ≤ √q·m′. ∎
    """
    roots = [np.sqrt(np.maximum(product_end**2 - w**2 * q_x[1], 0)) for w in m_y]
    points = [
        (_clip_to_bounds(_quotient_or_infinity(product_end + root, w), m_x), w)
        for w, root in zip(m_y, roots, strict=True)
    ]

    def spread(m: Floats, w: Floats, end: int) -> Floats:  # noqa: ARG001
        return np.maximum(q_x[end] - m**2, 0)

    return _largest_quotient(product_end, list(product(m_x, m_y)), points, spread)


_Point = tuple[Floats, Floats]


def _largest_quotient(
    product_end: Floats, corners: list[_Point], points: list[_Point], spread: Callable[[Floats, Floats, int], Floats]
) -> Floats:
    """Return the largest quotient among the corners if N is positive at one of them; else the one nearest to zero."""
    numerators = [product_end - m * w for m, w in corners]
    denominators = [spread(m, w, 0) for m, w in corners]
    has_positive = np.maximum.reduce(numerators) > 0
    greatest = np.maximum.reduce(
        [
            _quotient_or_infinity(numerator, denominator)
            for numerator, denominator in zip(numerators, denominators, strict=True)
        ]
    )
    least = np.minimum.reduce(
        [_quotient_or_infinity(m * w - product_end, spread(m, w, 1)) for m, w in (*corners, *points)]
    )
    return np.where(has_positive, greatest, np.where(np.isfinite(least), -least, np.inf))


def _quotient_or_infinity(numerator: Floats, denominator: Floats) -> Floats:
    """Divide, with ∞ for a quotient by zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator != 0, numerator / denominator, np.inf)


def _standard_deviations(squares: Floats, mean: Floats) -> Floats:
    return np.sqrt(np.maximum(squares - mean**2, 0))


def _clip_to_bounds(value: Floats, bounds: Range) -> Floats:
    return np.clip(value, np.minimum(*bounds), np.maximum(*bounds))


def _negated_interval(interval: Range) -> Range:
    return -interval[1], -interval[0]


def _squared_group(estimate: GroupEstimate) -> GroupEstimate:
    ends = estimate.low**2, estimate.high**2
    low = np.where((estimate.low <= 0) & (estimate.high >= 0), 0.0, np.minimum(*ends))
    return GroupEstimate(estimate.value**2, low, np.maximum(*ends))


# One column


def _sum_ranges(totals: Sequence[Floats], widths: Widths) -> tuple[Range, Range]:
    low_sum, high_sum = (_nonnegative_ends(total, width) for total, width in zip(totals, widths, strict=True))
    return low_sum, high_sum


def _nonnegative_ends(total: Floats, half_width: Width) -> Range:
    """Return the range of a total that is known not to be negative. It is moved to 0 first, so that no range is
    narrower than its noise.
    """
    return np.maximum(total - half_width, 0), np.maximum(total, 0) + half_width


def _row_count_ends(axis: CentredRange, sums: tuple[Range, Range]) -> Range:
    low_sum, high_sum = sums
    return (low_sum[0] + high_sum[0]) / axis.width, (low_sum[1] + high_sum[1]) / axis.width


def _mean_ends(axis: CentredRange, sums: tuple[Range, Range], inverse_rows: Range) -> Range:
    """Return the range of the means in a slice, relative to the middle."""
    (a_least, a_most), (b_least, b_most) = sums
    low, high = axis.centred_ends

    def mean_bound(a: Floats, b: Floats, tighter: Callable[[Floats, Floats], Floats]) -> Floats:
        crossing = np.clip(_quotient_or_infinity(np.asarray(axis.width), a + b), *inverse_rows)
        return tighter(low + a * crossing, high - b * crossing)

    least = mean_bound(a_least, b_most, np.maximum) - float(axis.rounding)
    greatest = mean_bound(a_most, b_least, np.minimum) + float(axis.rounding)
    return np.clip(least, low, high), np.clip(greatest, low, high)


def _mean_square_ends(axis: CentredRange, squares_range: Range, rounding: Fraction, inverse_rows: Range) -> Range:
    first, last = inverse_rows
    largest = axis.largest_distance**2
    slack = float(rounding) + _FLOATING * largest
    return np.clip(squares_range[0] * first - slack, 0, largest), np.clip(squares_range[1] * last + slack, 0, largest)


def _variance_range(
    axis: CentredRange, sums: tuple[Range, Range], squares_range: Range, rounding: Fraction, inverse_rows: Range
) -> Range:
    return _variance_from_moments(
        axis, _mean_ends(axis, sums, inverse_rows), _mean_square_ends(axis, squares_range, rounding, inverse_rows)
    )


def _variance_from_moments(axis: CentredRange, mean: Range, squares: Range) -> Range:
    """Return the range of q − m²: it rises in q and falls in |m|."""
    nearest = _clip_to_bounds(np.zeros_like(mean[0]), mean) ** 2
    farthest = np.maximum(mean[0] ** 2, mean[1] ** 2)
    least = np.maximum(squares[0] - farthest, 0)
    return least, np.maximum(np.minimum(squares[1] - nearest, _largest_variance(axis, mean)), 0)


def _largest_variance(axis: CentredRange, mean: Range) -> Floats:
    """Return the largest variance that these means allow: (high − mean)(mean − low), largest nearest to its middle."""
    low, high = axis.centred_ends
    mean_nearest_middle = _clip_to_bounds(np.full_like(mean[0], (low + high) / 2), mean)
    return np.maximum((high - mean_nearest_middle) * (mean_nearest_middle - low), 0)


# Slices


def _range_over_row_slices(
    row_count_ends: Range, needed_rows: int, range_of_slice: Callable[[Range], Range], prior_range: tuple[float, float]
) -> Range:
    """Unite the ranges of all slices; where fewer rows than needed are possible, return the prior range."""
    fewest = np.maximum(row_count_ends[0], needed_rows)
    slice_ranges = [
        range_of_slice(inverse_rows)
        for inverse_rows in _inverse_row_slices(fewest, np.maximum(row_count_ends[1], fewest))
    ]
    low = np.minimum.reduce([np.minimum.reduce(slice_lows) for slice_lows, _ in slice_ranges])
    high = np.maximum.reduce([np.maximum.reduce(slice_highs) for _, slice_highs in slice_ranges])
    may_lack_rows = row_count_ends[0] < needed_rows
    return np.where(may_lack_rows, prior_range[0], np.maximum(low, prior_range[0])), np.where(
        may_lack_rows, prior_range[1], np.minimum(high, prior_range[1])
    )


def _inverse_row_slices(fewest_rows: Floats, max_rows: Floats) -> Iterator[Range]:
    """Cut [1/most, 1/fewest] into slices whose ends have equal quotients; yield them as arrays of slices × groups, as
    many at once as fit.
    """
    ends = [(fewest_rows / max_rows) ** (1 - index / _SLICES) / fewest_rows for index in range(_SLICES + 1)]
    ends[0], ends[-1] = 1 / max_rows, 1 / fewest_rows
    step = max(1, _MAX_CELLS // max(1, np.size(fewest_rows)))
    for start in range(0, _SLICES, step):
        batch = np.stack(ends[start : start + step + 1])
        yield batch[:-1], batch[1:]


def _ends_scaled_to_sample(population_range: Range, inverse_rows: Range, sample: bool) -> Range:
    """Multiply by n/(n − 1) = 1/(1 − t) for a sample."""
    if not sample:
        return population_range
    factors = [1 / (1 - inverse) for inverse in inverse_rows]
    low, high = population_range
    return np.minimum(*(low * factor for factor in factors)), np.maximum(*(high * factor for factor in factors))


# Values


def _inverse_rows_or_nan(rows: Floats) -> Floats:
    """Return one over the number of rows; NaN where that is below one."""
    return np.where(rows >= 1, 1 / np.maximum(rows, 1), np.nan)


def _mean_estimate(axis: CentredRange, low_sum: Floats, inverse_rows: Floats) -> Floats:
    low, high = axis.centred_ends
    return np.clip(low + low_sum * inverse_rows, low, high)


def _scaled_to_sample_or_nan(value: Floats, rows: Floats, sample: bool) -> Floats:
    return np.where(rows >= 2, value * rows / np.maximum(rows - 1, 1), np.nan) if sample else value


def _nan_unless_positive(value: Floats) -> Floats:
    return np.where(value > 0, value, np.nan)


def _clipped_estimate(value: Floats, low: Floats, high: Floats) -> GroupEstimate:
    low, high = np.minimum(low, high), np.maximum(low, high)
    return GroupEstimate(np.clip(value, low, high), low, high)


def _set_nonnegative_fraction(estimator: SpreadEstimate | CovarianceEstimate, name: str) -> None:
    rounding = exact(getattr(estimator, name), name)
    if rounding < 0:
        raise InvalidParameter(name, rounding, "at least 0")
    object.__setattr__(estimator, name, rounding)


def _set_nonnegative_fractions(estimator: CorrelationEstimate | SlopeOrInterceptEstimate, name: str) -> None:
    roundings = tuple(exact(rounding, name) for rounding in getattr(estimator, name))
    if any(rounding < 0 for rounding in roundings):
        raise InvalidParameter(name, roundings, "a tuple of numbers ≥ 0")
    object.__setattr__(estimator, name, roundings)
