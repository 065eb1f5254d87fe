"""Exact vectors of what one unit changes in bounded totals and in readings made of them, by enumeration of units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from plan.readings.test_cells_by_enumeration import _CELLS, _bounded as cell_plan
from plan.test_readings import ROWS, USERS, bounded
from sfumato.plan import bounding
from sfumato.plan.aggregates.measures import Mean, Sum, _clamp_ends_in_steps
from sfumato.plan.bounding import ScaledMeasure, max_squared_norm
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, ColumnSetDistances
from sfumato.plan.readings.combining import FactoredTotals
from sfumato.plan.readings.dense_readings import CountDistances, Marginals, MarginalView, SteppedTotal
from sfumato.plan.readings.total_readings import (
    GroupSizeHistogram,
    LinearScores,
    LinearTotals,
    MeasureTotals,
    WeightMatrix,
)
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Domain
from sfumato.privacy import Neighbours, Sensitivity
from vectors.registry import Registry, Scope, Vector, exact

REGISTRY = Registry(
    (
        Scope(
            ("plan/bounding.py", "plan/readings"),
            frozenset({"sensitivity", "moved", "difference", "spread", "norm", "squares", "neighbours", "most", "max"}),
        ),
        Scope(("plan/aggregates/measures.py",), frozenset({"estimator", "contribution", "contributions", "range"})),
    ),
    {
        "plan.readings.dense_readings._max_domain_values": "it counts the values that a column is declared to have",
        "plan.bounding._sensitivity_for_neighbours": "tests enumerate every pair of units, and it is on record",
    },
)
formula = REGISTRY.formula
GROUPS = 3

Unit = tuple[int, ...]


def _units(limits: ContributionLimits) -> list[Unit]:
    """List the rows that a unit within limits can have in each of three groups."""
    each = itertools.product(range(limits.rows_per_group + 1), repeat=GROUPS)
    return [unit for unit in each if sum(unit) <= limits.rows and sum(map(bool, unit)) <= limits.groups]


def _norms(change: Sensitivity) -> tuple[Any, ...]:
    return change.l1, change.squares, change.linf


def _largest(moves: Iterable[Iterable[int]]) -> tuple[int, int, int]:
    """Find the largest Δ₁, Δ₂² and Δ∞ of all moves."""
    known = [[abs(int(each)) for each in move] for move in moves]
    return max(map(sum, known)), max(sum(each * each for each in move) for move in known), max(map(max, known))


@formula("plan.bounding._add_remove_sensitivity")
def _bounded_totals() -> Iterator[Vector]:
    """Every row of size M counts whole: the longest is where as many groups as there are rows for are full."""
    for limits, size in itertools.product(
        (
            ContributionLimits(3, 2, 2),
            ContributionLimits(4, 3, 2),
            ContributionLimits(2, 2, 1),
            ContributionLimits(5, 1, 5),
        ),
        (1, 7),
    ):
        total, squares, most = _largest([[size * rows for rows in unit] for unit in _units(limits)])
        for strategy in (Strategy.SAMPLE, Strategy.CLIP_L1, Strategy.WHOLE):
            found = bounding._add_remove_sensitivity(strategy, size, limits, GROUPS)
            yield exact((total, most), lambda s=strategy, m=size, own=limits: _sums(s, m, own))
            assert found.squares >= squares
        yield exact((squares, most), lambda m=size, own=limits: _lengths(m, own))
        weighted = limits.rows * size
        yield exact((weighted, weighted**2, weighted), lambda m=size, own=limits: _weighted(m, own))


def _sums(strategy: Strategy, size: int, limits: ContributionLimits) -> tuple[Any, ...]:
    found = bounding._add_remove_sensitivity(strategy, size, limits, GROUPS)
    return found.l1, found.linf


def _lengths(size: int, limits: ContributionLimits) -> tuple[Any, ...]:
    found = bounding._add_remove_sensitivity(Strategy.CLIP_L2, size, limits, GROUPS)
    assert found.l1 == math.isqrt(GROUPS * int(found.squares))  # of whole numbers, by Cauchy–Schwarz
    return found.squares, found.linf


def _weighted(size: int, limits: ContributionLimits) -> tuple[Any, ...]:
    return _norms(bounding._add_remove_sensitivity(Strategy.REWEIGHT, size, limits, GROUPS))


@formula("plan.bounding._sensitivity_after_rounding")
def _sensitivity_after_rounding() -> Iterator[Vector]:
    """By hand, in units: ⌈p/u⌉; ⌈t/u⌉ and one for each further total; (⌊√s⌋ + 1 + u(⌊√k⌋ + 1))² in squares of units, or
    the product of the first two where that is less.
    """
    for (groups, per_group, total, squares), unit, touched, rounded in (
        ((100, 1000, 2000, 10**6), 10, 100, (100, 100, 299, 12344)),  # 111.1² = 12343.21
        ((100, 1000, 2000, 10**6 - 1), 10, 99, (100, 100, 298, 12100)),  # (999 + 1 + 10 · 10)² = 1100²
        ((400, 50, 900, 40_000), 7, 300, (400, 8, 428, 2183)),  # (327 / 7)² = 2182.2…
        ((2, 7, 10, 58), 4, 2, (2, 2, 4, 8)),
    ):
        before = Sensitivity(groups, per_group, total, squares)
        yield exact(rounded, lambda s=before, u=unit, k=touched: _fields(bounding._sensitivity_after_rounding(s, u, k)))


def _fields(sensitivity: Sensitivity) -> tuple[int, int, Fraction, Fraction]:
    return sensitivity.groups, sensitivity.per_group, sensitivity.total, sensitivity.squares


@formula("plan.bounding._bits_reserved_for_squares")
def _bits_reserved_for_squares() -> Iterator[Vector]:
    """Four bits, and the least j with 4^j > n: the squares of n coordinates are added up."""
    for count in (1, 2, 3, 4, 15, 16, 1000):
        least = next(j for j in range(64) if 4**j > count)
        yield exact(4 + least, bounding._bits_reserved_for_squares, Strategy.CLIP_L2, count)
    yield exact(0, bounding._bits_reserved_for_squares, Strategy.CLIP_L1, 1000)


@formula("plan.bounding.max_squared_norm")
def _longest() -> Iterator[Vector]:
    for per_group, total in ((1, 3), (2, 3), (2, 5), (3, 4), (5, 5), (7, 3)):
        units = itertools.product(range(per_group + 1), repeat=total)
        yield exact(
            max(sum(v * v for v in unit) for unit in units if sum(unit) <= total), max_squared_norm, per_group, total
        )


_MATRICES = (((1, 0, 0), (0, 1, 0)), ((2, -1, 0), (0, 3, -4)), ((4, 4, 4),), ((1, 1, 1), (0, 1, 1), (0, 0, 1)))


@formula("plan.readings.total_readings.LinearTotals.sensitivity")
def _combinations() -> Iterator[Vector]:
    """All rows of a unit may lie in the group whose column is longest, in each norm; a replaced unit moves twice that.

    By convexity the bound is T times the norm of one column, which units with all T rows in one group reach.
    """
    for rows in _MATRICES:
        columns = np.array(rows).T
        for table, most in ((ROWS, 1), (USERS, 3)):
            moves = [most * column for column in columns]
            plan = bounded(table, Neighbours.ADD_REMOVE, strategy=Strategy.REWEIGHT)
            steps = 2 ** plan.measures[0].bits
            total, squares, largest = _largest(moves)
            wanted = (total * steps, squares * steps**2, largest * steps)
            yield exact(
                wanted, lambda own=plan, r=rows: _norms(LinearTotals(MeasureTotals(own), WeightMatrix(r)).sensitivity)
            )


@formula("plan.readings.total_readings.LinearScores.score_difference_bound")
def _spread_of_scores() -> Iterator[Vector]:
    for rows in _MATRICES:
        columns = [(0,) * len(rows), *zip(*rows, strict=True)]
        apart = max(max(0, *column) - min(0, *column) for column in columns)
        plan = bounded(ROWS, Neighbours.ADD_REMOVE)
        yield exact(
            apart, lambda own=plan, r=rows: LinearScores(MeasureTotals(own), WeightMatrix(r)).score_difference_bound
        )


@formula("plan.readings.total_readings.WeightMatrix.max_column_range_with_zero")
def _column_spread() -> Iterator[Vector]:
    for rows, wanted in zip(_MATRICES, (1, 4, 4, 1), strict=True):
        yield exact(wanted, lambda r=rows: WeightMatrix(r).max_column_range_with_zero)


@formula("plan.readings.total_readings.WeightMatrix.max_row_range_with_zero")
def _row_spread() -> Iterator[Vector]:
    for rows, wanted in zip(_MATRICES, (1, 7, 4, 1), strict=True):
        yield exact(wanted, lambda r=rows: WeightMatrix(r).max_row_range_with_zero)


@formula("plan.readings.total_readings.GroupSizeHistogram.sensitivity")
def _sizes() -> Iterator[Vector]:
    """A row changes the total of its group, which leaves one place of the histogram and enters another."""
    for neighbours, most in itertools.product(Neighbours, (1, 4)):
        moves = []
        for start in itertools.product(range(3), repeat=2):
            for unit in itertools.product(range(2), repeat=2):
                if sum(unit) <= 1:
                    sizes = [np.bincount(np.clip(np.add(start, each), 0, most), minlength=9) for each in ((0, 0), unit)]
                    moves.append(sizes[1] - sizes[0])
        times = 2 if neighbours is Neighbours.REPLACE else 1
        total, _, largest = _largest(moves)
        plan = bounded(ROWS, neighbours)
        yield exact((times * total, times * largest), lambda own=plan, m=most: _moved_sizes(own, m))


def _moved_sizes(plan: Any, most: int) -> tuple[Any, ...]:
    found = GroupSizeHistogram(MeasureTotals(plan), most).sensitivity
    return found.l1, found.linf


_SERIES = (np.tri(3, dtype=np.int64), np.array([[1, 1, 1], [1, 0, 0]]), np.array([[2, -1, 0], [0, 5, -2]]))


@formula("plan.readings.combining.FactoredTotals.sensitivity")
def _factored() -> Iterator[Vector]:
    """All rows of a unit may lie in one period: then the bound is reached by the largest column."""
    yield from _factored_vectors(lambda read: _norms(read.sensitivity))


@formula("plan.readings.combining.FactoredTotals._squared_norm_bound")
def _factored_squares() -> Iterator[Vector]:
    for matrix in _SERIES:
        squares = max(int((column**2).sum()) for column in matrix.T)
        for table, most in ((ROWS, 1), (USERS, 3)):
            plan = bounded(table, Neighbours.ADD_REMOVE, strategy=Strategy.REWEIGHT)
            read, steps = FactoredTotals(MeasureTotals(plan), matrix), 2 ** plan.measures[0].bits
            yield exact(
                squares * (most * steps) ** 2,
                lambda r=read: r._squared_norm_bound(r.totals.scaled.add_remove_sensitivity),
            )


def _factored_vectors(told: Callable[[FactoredTotals], Any]) -> Iterator[Vector]:
    for matrix in _SERIES:
        for table, most in ((ROWS, 1), (USERS, 3)):
            plan = bounded(table, Neighbours.ADD_REMOVE, strategy=Strategy.REWEIGHT)
            steps = 2 ** plan.measures[0].bits
            total, squares, largest = _largest([most * steps * column for column in matrix.T])
            yield exact(
                (total, squares, largest), lambda own=plan, m=matrix: told(FactoredTotals(MeasureTotals(own), m))
            )


@formula("plan.readings.dense_readings.SteppedTotal.max_change_in_steps")
def _stepped() -> Iterator[Vector]:
    """⌊(t + d)/γ⌋ − ⌊t/γ⌋, over all totals t and what a unit of at most 3 rows adds."""
    for grid in (Fraction(1), Fraction(2), Fraction(5, 3), Fraction(1, 7)):
        moves = [math.floor((t + d) / grid) - math.floor(t / grid) for t in range(40) for d in range(4)]
        plan = bounded(USERS, Neighbours.ADD_REMOVE, "SELECT COUNT(*) FROM visits", Strategy.REWEIGHT)
        yield exact(max(moves), lambda own=plan, g=grid: SteppedTotal(own, g).max_change_in_steps)


@formula("plan.readings.dense_readings.CountDistances.score_difference_bound")
def _misfits() -> Iterator[Vector]:
    """A unit of T rows raises one gap by T and lowers another by T; replaced, it does so in two cells."""
    for rows, neighbours in itertools.product((1, 3), Neighbours):
        reading = Marginals(cell_plan(rows, neighbours), _CELLS, ((0,),))
        views = (MarginalView(reading, (0,)),)
        wanted = 2 * rows * (2 if neighbours is Neighbours.REPLACE else 1)
        yield exact(wanted, lambda v=views: CountDistances(v, (np.zeros(3, np.int64),)).score_difference_bound)


@formula("plan.readings.cell_rows.ColumnSetDistances.sensitivity")
def _moved_sets() -> Iterator[Vector]:
    """One cell is moved by T, whoever is replaced; several by 2T then, each times its weight."""
    for weights, neighbours in itertools.product(((1, 1), (5, 1), (1, 3)), Neighbours):
        several = 2 if neighbours is Neighbours.REPLACE else 1
        yield exact(2 * max(weights[0], several * weights[1]), lambda w=weights, n=neighbours: _sets(w, n).sensitivity)


@formula("plan.readings.cell_rows.ColumnSetDistances.score_difference_bound")
def _spread_sets() -> Iterator[Vector]:
    for weights, wanted in (((1, 1), 8), ((5, 1), 20), ((1, 3), 24)):
        yield exact(wanted, lambda w=weights: _sets(w, Neighbours.REPLACE).score_difference_bound)


def _sets(weights: tuple[int, ...], neighbours: Neighbours) -> ColumnSetDistances:
    reading = CellRows(cell_plan(2, neighbours), _CELLS, ((), (0,)))
    views = (CellCounts(reading, ()), CellCounts(reading, (0,)))
    return ColumnSetDistances(views, (np.zeros(1, np.int64), np.zeros(3, np.int64)), weights, (0, 0))


def _column(low: int, high: int) -> Column:
    return Column(Field(0, "visits", "age"), Domain("integer", bounds=(low, high)))


def _scaled(measure: Any, step: Fraction, low: int, high: int) -> ScaledMeasure:
    change = Sensitivity(1, 1)
    return ScaledMeasure(measure, step, low, high, 0, change, change)


_RANGES = ((0, 10, Fraction(1)), (-4, 6, Fraction(1)), (3, 5, Fraction(1, 4)), (-12, -2, Fraction(5)))


@formula("plan.aggregates.measures.Mean.estimator")
def _mean_estimator() -> Iterator[Vector]:
    """A mean of rows at either end is that end: all of a is high, all of b is low."""
    for low, high, step in _RANGES:
        scaled = _scaled(Mean(_column(low, high)), step, low, high)
        yield exact((low * step, high * step), lambda own=scaled: _ends(own))


def _ends(scaled: ScaledMeasure) -> tuple[Any, ...]:
    made: Any = scaled.measure.estimator(scaled)
    return made.low, made.high


@formula("plan.aggregates.measures.Mean.middle_row_contributions")
def _mean_middle() -> Iterator[Vector]:
    """Whatever its value is, a row adds high − low to both sums together: half of it to each in the middle."""
    for low, high, step in _RANGES:
        half = (high - low) * step / 2
        yield exact((half, half), Mean(_column(low, high)).middle_row_contributions, step, low, high)


@formula("plan.aggregates.measures.Mean.max_row_contribution")
def _mean_size() -> Iterator[Vector]:
    for low, high, _ in _RANGES:
        ends = max((value - low) + (high - value) for value in range(low, high + 1))
        yield exact(ends, Mean(_column(low, high)).max_row_contribution, low, high)


@formula("plan.aggregates.measures.Sum.middle_row_contributions")
def _sum_middle() -> Iterator[Vector]:
    for low, high, step in _RANGES:
        yield exact(
            (low + high) // 2 * step,
            lambda a=low, b=high, s=step: Sum(_column(a, b)).middle_row_contributions(s, a, b)[0],
        )


@formula("plan.aggregates.measures.Sum.estimator")
def _sum_estimator() -> Iterator[Vector]:
    """Of a mean's two sums of n rows of one value the sum is n times that value."""
    for low, high, step in _RANGES:
        scaled = _scaled(Mean(_column(low, high)), step, low, high)
        for value in (low, high):
            totals = [np.array([float(3 * (value - low) * step)]), np.array([float(3 * (high - value) * step)])]
            wanted = float(3 * value * step)
            yield exact(wanted, lambda own=scaled, t=totals: _combined(own, t))


def _combined(scaled: ScaledMeasure, totals: list[Any]) -> float:
    made: Any = Sum(scaled.measure.value).estimator(scaled)  # type: ignore[arg-type]
    return float(made.combined(totals)[0])


@formula("plan.aggregates.measures._clamp_ends_in_steps")
def _held_steps() -> Iterator[Vector]:
    """The whole steps around a range: the least holds the lower end, and the greatest the upper."""
    for low, high, step in ((0, 10, Fraction(3)), (-5, 7, Fraction(2)), (-7, -1, Fraction(4)), (1, 2, Fraction(1, 3))):
        below = max(k for k in range(-99, 99) if k * step <= low)
        above = min(k for k in range(-99, 99) if k * step >= high)
        yield exact((below, above), _clamp_ends_in_steps, Sum(_column(low, high)), step)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
