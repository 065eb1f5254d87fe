"""Variance, covariance, correlation and regression are estimated from noisy totals of one group of rows.

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

In such a box the extremes are found exactly (``_most_correlated``, ``_steepest``), and the range of the result is from
the least to the greatest of all slices. A slice holds all that its numbers of rows allow, so no range is too narrow;
more slices make it less wide. Where fewer rows than needed are possible, the range is what is known beforehand. ∎
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import ClassVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Floats, GroupEstimate, Width
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact

Range = tuple[Floats, Floats]
Widths = Sequence[Width]
"""A half-width for each total: one number, or one for each group."""

_SLICES = 16
_FLOATING = 2.0**-40
"""Doubles err by far less, in parts of the largest square or product of a row."""


@codec.value("moment-axis")
@dataclass(frozen=True)
class Axis:
    """An axis says from where the totals of one column are counted."""

    low: Fraction
    high: Fraction
    """Its two sums are of the distances from these, which hold every value."""
    middle: Fraction
    """Its squares and products are of distances from here."""
    rounding: Fraction
    """A value is held within this of what it was."""

    def __init__(self, low: Number, high: Number, middle: Number, rounding: Number = 0) -> None:
        for name, value in (("low", low), ("high", high), ("middle", middle), ("rounding", rounding)):
            object.__setattr__(self, name, exact(value, name))
        if not self.low <= self.middle <= self.high or self.low == self.high or self.rounding < 0:
            raise InvalidParameter("axis", self, "low ≤ middle ≤ high, low < high and no negative rounding")

    @property
    def width(self) -> float:
        return float(self.high - self.low)

    @property
    def reach(self) -> float:
        """Give the largest distance of a value from the middle."""
        return float(max(self.high - self.middle, self.middle - self.low))

    @property
    def ends(self) -> tuple[float, float]:
        """Give the two ends, counted from the middle."""
        return float(self.low - self.middle), float(self.high - self.middle)


# What is asked


@codec.value("spread-estimator")
@dataclass(frozen=True)
class SpreadEstimate:
    """A variance or a standard deviation is found from a, b and the squares of one column.

    Of a sample it is n/(n − 1) times as much, which is asked of two rows or more: so it is at most twice as much.
    """

    axis: Axis
    rounding: Fraction
    """Each square is held within this of what it was."""
    sample: bool
    root: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self, "rounding")

    def estimate(self, totals: Sequence[Floats], widths: Widths) -> GroupEstimate:
        above, below, squares = totals
        sums, held = _sums(totals[:2], widths[:2]), _positive(squares, widths[2])

        def variance(times: Range) -> Range:
            return _times(_variance(self.axis, sums, held, self.rounding, times), times, self.sample)

        known = 0.0, (self.axis.width / 2) ** 2 * (2 if self.sample else 1)
        low, high = _over_slices(_rows(self.axis, sums), 2 if self.sample else 1, variance, known)
        rows = (above + below) / self.axis.width
        at = _reciprocal(rows)
        value = squares * at - _mean_at(self.axis, above, at) ** 2
        made = _estimate(_of_sample(value, rows, self.sample), low, high)
        return GroupEstimate(np.sqrt(made.value), np.sqrt(made.low), np.sqrt(made.high)) if self.root else made


@codec.value("covariance-estimator")
@dataclass(frozen=True)
class Covariance:
    """A covariance is found from a and b of two columns and their products."""

    x: Axis
    y: Axis
    rounding: Fraction
    """Each product is held within this of what it was."""
    sample: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self, "rounding")

    def estimate(self, totals: Sequence[Floats], widths: Widths) -> GroupEstimate:
        pairs = _Pairs(self.x, self.y, totals, widths, totals[4], widths[4], self.rounding)

        def covariance(times: Range) -> Range:
            return _times(pairs.covariance(times), times, self.sample)

        most = self.x.width * self.y.width / 4 * (2 if self.sample else 1)
        low, high = _over_slices(pairs.rows, 2 if self.sample else 1, covariance, (-most, most))
        return _estimate(_of_sample(pairs.value, pairs.count, self.sample), low, high)


@codec.value("correlation-estimator")
@dataclass(frozen=True)
class Correlation:
    """A correlation, or its square, is found from a and b of two columns, their squares and their products. It is NULL
    where one of the noisy variances is not positive.
    """

    x: Axis
    y: Axis
    roundings: tuple[Fraction, Fraction, Fraction]
    """The squares of x, those of y and the products are each held within these of what they were."""
    squared: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_all(self, "roundings")

    def estimate(self, totals: Sequence[Floats], widths: Widths) -> GroupEstimate:
        of_x, of_y, of_products = self.roundings
        pairs = _Pairs(self.x, self.y, totals, widths, totals[6], widths[6], of_products)
        squares_x, squares_y = _positive(totals[4], widths[4]), _positive(totals[5], widths[5])

        def correlation(times: Range) -> Range:
            means, products = pairs.means(times), pairs.products(times)
            q_x = _squares(self.x, squares_x, of_x, times)
            q_y = _squares(self.y, squares_y, of_y, times)
            most = _most_correlated(products[1], *means, q_x, q_y)
            least = -_most_correlated(-products[0], means[0], _negative(means[1]), q_x, q_y)
            return np.clip(least, -1, 1), np.clip(most, -1, 1)

        low, high = _over_slices(pairs.rows, 1, correlation, (-1.0, 1.0))
        at, (mean_x, mean_y) = _reciprocal(pairs.count), pairs.mean_values
        spread = _if_positive(totals[4] * at - mean_x**2) * _if_positive(totals[5] * at - mean_y**2)
        made = _estimate(pairs.value / np.sqrt(spread), low, high)
        return _squared(made) if self.squared else made


@codec.value("line-estimator")
@dataclass(frozen=True)
class RegressionLine:
    """The line of least squares through y over x has a slope and an intercept: from a and b of both columns, the
    squares of x and the products. They are NULL where the noisy variance of x is not positive.
    """

    x: Axis
    y: Axis
    roundings: tuple[Fraction, Fraction]
    """The squares of x and the products are each held within these of what they were."""
    intercept: bool
    adds_up: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_all(self, "roundings")

    def estimate(self, totals: Sequence[Floats], widths: Widths) -> GroupEstimate:
        of_squares, of_products = self.roundings
        pairs = _Pairs(self.x, self.y, totals, widths, totals[5], widths[5], of_products)
        held = _positive(totals[4], widths[4])

        def line(times: Range) -> Range:
            slope = self._slopes(pairs, held, of_squares, times)
            return self._intercepts(slope, pairs.means(times)) if self.intercept else slope

        unknown = -np.inf, np.inf
        low, high = _over_slices(pairs.rows, 1, line, unknown)
        mean_x, mean_y = pairs.mean_values
        value = pairs.value / _if_positive(totals[4] * _reciprocal(pairs.count) - mean_x**2)
        if self.intercept:
            value = mean_y + float(self.y.middle) - value * (mean_x + float(self.x.middle))
        return _estimate(value, low, high)

    def _slopes(self, pairs: _Pairs, held: Range, rounding: Fraction, times: Range) -> Range:
        (m_x, m_y), products = pairs.means(times), pairs.products(times)
        q_x = _squares(self.x, held, rounding, times)
        most = _steepest(products[1], m_x, m_y, q_x)
        least = -_steepest(-products[0], m_x, _negative(m_y), q_x)
        with np.errstate(divide="ignore", invalid="ignore"):  # |slope| ≤ √(variance of y / variance of x)
            limit = np.sqrt(_widest(self.y, m_y) / _variance_of(self.x, m_x, q_x)[0])
        limit = np.where(np.isnan(limit), np.inf, limit)
        return np.clip(least, -limit, limit), np.clip(most, -limit, limit)

    def _intercepts(self, slope: Range, means: tuple[Range, Range]) -> Range:
        m_x, m_y = (
            tuple(end + float(axis.middle) for end in each) for axis, each in zip((self.x, self.y), means, strict=True)
        )
        with np.errstate(invalid="ignore"):
            ends = [np.nan_to_num(s * m, nan=0.0, posinf=np.inf, neginf=-np.inf) for s, m in product(slope, m_x)]
        return m_y[0] - np.maximum.reduce(ends), m_y[1] - np.minimum.reduce(ends)


# Two columns


class _Pairs:
    """These are the rows where both of two columns are there."""

    def __init__(
        self,
        x: Axis,
        y: Axis,
        totals: Sequence[Floats],
        widths: Widths,
        products: Floats,
        width: Width,
        rounding: Fraction,
    ) -> None:
        self.x, self.y, self.totals, self.rounding = x, y, totals, float(rounding)
        self.sums = _sums(totals[:2], widths[:2]), _sums(totals[2:4], widths[2:4])
        self.held: Range = (products - width, products + width)
        self.product_values = products

    @property
    def rows(self) -> Range:
        """Both columns count the same rows; ranges that do not meet do not hold, and any order of them will do."""
        fewest, most = zip(_rows(self.x, self.sums[0]), _rows(self.y, self.sums[1]), strict=True)
        low, high = np.maximum(*fewest), np.minimum(*most)
        return np.minimum(low, high), np.maximum(low, high)

    @property
    def count(self) -> Floats:
        a, b, c, d = self.totals[:4]
        return np.asarray(((a + b) / self.x.width + (c + d) / self.y.width) / 2)

    @property
    def mean_values(self) -> tuple[Floats, Floats]:
        """Give the means of what was measured, counted from the middles."""
        a, b, c, d = self.totals[:4]
        at_x, at_y = _reciprocal((a + b) / self.x.width), _reciprocal((c + d) / self.y.width)
        return _mean_at(self.x, a, at_x), _mean_at(self.y, c, at_y)

    @property
    def value(self) -> Floats:
        """Give the covariance of what was measured."""
        mean_x, mean_y = self.mean_values
        return np.asarray(self.product_values * _reciprocal(self.count) - mean_x * mean_y)

    def means(self, times: Range) -> tuple[Range, Range]:
        return _mean(self.x, self.sums[0], times), _mean(self.y, self.sums[1], times)

    def products(self, times: Range) -> Range:
        first, last = times
        low, high = self.held
        most = self.x.reach * self.y.reach
        slack = self.rounding + _FLOATING * most
        ends = np.minimum(low * first, low * last) - slack, np.maximum(high * first, high * last) + slack
        return np.clip(ends[0], -most, most), np.clip(ends[1], -most, most)

    def covariance(self, times: Range) -> Range:
        """Find all p − m·m′: each of the three is at an end, because it is linear in each."""
        (m_x, m_y), (low, high) = self.means(times), self.products(times)
        ends = [one * other for one, other in product(m_x, m_y)]
        limit = np.sqrt(_widest(self.x, m_x) * _widest(self.y, m_y))  # the two standard deviations (Cauchy–Schwarz)
        least, most = low - np.maximum.reduce(ends), high - np.minimum.reduce(ends)
        return np.clip(least, -limit, limit), np.clip(most, -limit, limit)


def _most_correlated(product_end: Floats, m_x: Range, m_y: Range, q_x: Range, q_y: Range) -> Floats:
    """Find the largest N/D, N = p − m·m′, D = √((q − m²)(q′ − m′²)), in a box; p is at its upper end.

    In m alone N is linear and D concave, so where N > 0 and D > 0 the quotient is quasi-convex: on the interval of such
    m it is largest at an end, where m is an end of the box, N = 0 or D = 0. The same holds for m′. So if N > 0
    anywhere, the largest is at a corner, with the least q and q′, or has no limit where D = 0 at a corner. If not,
    |N|/D is to be least, with the largest q and q′: it is quasi-convex in each of m and m′ too, so its least value is
    at a corner, on an edge where its derivative is zero (m·p = m′·q for a given m′, m′·p = m·q′ for a given m), or
    inside where both hold: at m = m′ = 0, or on a line of equal values that meets the edge (p² = q·q′). ∎
    """
    middle = _clip(np.zeros_like(product_end), m_x), _clip(np.zeros_like(product_end), m_y)
    points = [
        *((m, _clip(_quotient(m * q_y[1], product_end), m_y)) for m in m_x),
        *((_clip(_quotient(w * q_x[1], product_end), m_x), w) for w in m_y),
        middle,
    ]

    def spread(m: Floats, w: Floats, end: int) -> Floats:
        return _root(q_x[end], m) * _root(q_y[end], w)

    return _largest(product_end, list(product(m_x, m_y)), points, spread)


def _steepest(product_end: Floats, m_x: Range, m_y: Range, q_x: Range) -> Floats:
    """Find the largest N/D, N = p − m·m′, D = q − m², in a box; p is at its upper end.

    As in ``_most_correlated`` the largest is at a corner with the least q if N > 0 anywhere. If not, |N|/D is least
    with the largest q; it is linear in m′, which is at an end, and quasi-convex in m: m is at an end, or where the
    derivative is zero, m′·m² − 2·p·m + m′·q = 0. ∎
    """
    points = []
    for w in m_y:
        root = np.sqrt(np.maximum(product_end**2 - w**2 * q_x[1], 0))
        points += [(_clip(_quotient(product_end + sign * root, w), m_x), w) for sign in (-1, 1)]

    def spread(m: Floats, w: Floats, end: int) -> Floats:  # noqa: ARG001
        return np.maximum(q_x[end] - m**2, 0)

    return _largest(product_end, list(product(m_x, m_y)), points, spread)


_Point = tuple[Floats, Floats]


def _largest(
    product_end: Floats, corners: list[_Point], points: list[_Point], spread: Callable[[Floats, Floats, int], Floats]
) -> Floats:
    """Find the largest quotient among the corners where N is positive; where it is nowhere, the one nearest to zero."""
    tops = [product_end - m * w for m, w in corners]
    bottoms = [spread(m, w, 0) for m, w in corners]
    anywhere = np.maximum.reduce(tops) > 0
    most = np.maximum.reduce([_quotient(top, bottom) for top, bottom in zip(tops, bottoms, strict=True)])
    least = np.minimum.reduce([_quotient(m * w - product_end, spread(m, w, 1)) for m, w in (*corners, *points)])
    return np.where(anywhere, most, np.where(np.isfinite(least), -least, np.inf))


def _quotient(above: Floats, below: Floats) -> Floats:
    """Divide; what is divided by nothing is without limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below != 0, above / below, np.inf)


def _root(squares: Floats, mean: Floats) -> Floats:
    return np.sqrt(np.maximum(squares - mean**2, 0))


def _clip(value: Floats, to: Range) -> Floats:
    return np.clip(value, np.minimum(*to), np.maximum(*to))


def _negative(found: Range) -> Range:
    return -found[1], -found[0]


def _squared(made: GroupEstimate) -> GroupEstimate:
    ends = made.low**2, made.high**2
    low = np.where((made.low <= 0) & (made.high >= 0), 0.0, np.minimum(*ends))
    return GroupEstimate(made.value**2, low, np.maximum(*ends))


# One column


def _sums(totals: Sequence[Floats], widths: Widths) -> tuple[Range, Range]:
    above, below = (_positive(total, width) for total, width in zip(totals, widths, strict=True))
    return above, below


def _positive(total: Floats, width: Width) -> Range:
    """Find the range of a total that is known not to be negative: it is moved there first, so that no range is
    narrower than its noise.
    """
    return np.maximum(total - width, 0), np.maximum(total, 0) + width


def _rows(axis: Axis, sums: tuple[Range, Range]) -> Range:
    above, below = sums
    return (above[0] + below[0]) / axis.width, (above[1] + below[1]) / axis.width


def _mean(axis: Axis, sums: tuple[Range, Range], times: Range) -> Range:
    """Find all means of a slice, counted from the middle."""
    (a_least, a_most), (b_least, b_most) = sums
    low, high = axis.ends

    def crossing(a: Floats, b: Floats, inner: Callable[[Floats, Floats], Floats]) -> Floats:
        at = np.clip(_quotient(np.asarray(axis.width), a + b), *times)
        return inner(low + a * at, high - b * at)

    least = crossing(a_least, b_most, np.maximum) - float(axis.rounding)
    most = crossing(a_most, b_least, np.minimum) + float(axis.rounding)
    return np.clip(least, low, high), np.clip(most, low, high)


def _squares(axis: Axis, held: Range, rounding: Fraction, times: Range) -> Range:
    first, last = times
    most = axis.reach**2
    slack = float(rounding) + _FLOATING * most
    return np.clip(held[0] * first - slack, 0, most), np.clip(held[1] * last + slack, 0, most)


def _variance(axis: Axis, sums: tuple[Range, Range], held: Range, rounding: Fraction, times: Range) -> Range:
    return _variance_of(axis, _mean(axis, sums, times), _squares(axis, held, rounding, times))


def _variance_of(axis: Axis, mean: Range, squares: Range) -> Range:
    """Find all q − m²: it rises in q and falls in |m|."""
    nearest = _clip(np.zeros_like(mean[0]), mean) ** 2
    farthest = np.maximum(mean[0] ** 2, mean[1] ** 2)
    least = np.maximum(squares[0] - farthest, 0)
    return least, np.maximum(np.minimum(squares[1] - nearest, _widest(axis, mean)), 0)


def _widest(axis: Axis, mean: Range) -> Floats:
    """Give the largest variance that these means allow: (high − mean)(mean − low), largest nearest to its middle."""
    low, high = axis.ends
    at = _clip(np.full_like(mean[0], (low + high) / 2), mean)
    return np.maximum((high - at) * (at - low), 0)


# Slices


def _over_slices(rows: Range, needed: int, ranges: Callable[[Range], Range], known: tuple[float, float]) -> Range:
    """Unite the ranges of all slices; where fewer rows than are needed are possible, give what is known."""
    fewest = np.maximum(rows[0], needed)
    found = [ranges(each) for each in _slices(fewest, np.maximum(rows[1], fewest))]
    low = np.minimum.reduce([each for each, _ in found])
    high = np.maximum.reduce([each for _, each in found])
    few = rows[0] < needed
    return np.where(few, known[0], np.maximum(low, known[0])), np.where(few, known[1], np.minimum(high, known[1]))


def _slices(fewest: Floats, most: Floats) -> Iterator[Range]:
    """Cut 1/most to 1/fewest into slices with equal quotients of their ends."""
    steps = [(fewest / most) ** (1 - index / _SLICES) / fewest for index in range(_SLICES + 1)]
    steps[0], steps[-1] = 1 / most, 1 / fewest
    yield from pairwise(steps)


def _times(found: Range, times: Range, sample: bool) -> Range:
    """Multiply by n/(n − 1) = 1/(1 − t) for a sample."""
    if not sample:
        return found
    factors = [1 / (1 - each) for each in times]
    low, high = found
    return np.minimum(*(low * each for each in factors)), np.maximum(*(high * each for each in factors))


# Values


def _reciprocal(rows: Floats) -> Floats:
    """Give one over the number of rows; nothing where that is below one."""
    return np.where(rows >= 1, 1 / np.maximum(rows, 1), np.nan)


def _mean_at(axis: Axis, above: Floats, at: Floats) -> Floats:
    low, high = axis.ends
    return np.clip(low + above * at, low, high)


def _of_sample(value: Floats, rows: Floats, sample: bool) -> Floats:
    return np.where(rows >= 2, value * rows / np.maximum(rows - 1, 1), np.nan) if sample else value


def _if_positive(value: Floats) -> Floats:
    return np.where(value > 0, value, np.nan)


def _estimate(value: Floats, low: Floats, high: Floats) -> GroupEstimate:
    low, high = np.minimum(low, high), np.maximum(low, high)
    return GroupEstimate(np.clip(value, low, high), low, high)


def _check(made: SpreadEstimate | Covariance, name: str) -> None:
    rounding = exact(getattr(made, name), name)
    if rounding < 0:
        raise InvalidParameter(name, rounding, "at least 0")
    object.__setattr__(made, name, rounding)


def _check_all(made: Correlation | RegressionLine, name: str) -> None:
    found = tuple(exact(each, name) for each in getattr(made, name))
    if any(each < 0 for each in found):
        raise InvalidParameter(name, found, "numbers of at least 0")
    object.__setattr__(made, name, found)
