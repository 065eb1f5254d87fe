"""Exact vectors of the ranges and p-values that are computed from released numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf
from scipy import stats

from sfumato.inference import hypothesis_tests, score_tests
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.score_tests import (
    _NORMAL_POINTS,
    GroupSums,
    PairSums,
    _log_normal_tails,
    share_p_values,
    share_tails,
)
from sfumato.inference.survival_estimates import LifeTable, upper_quantiles
from vectors.registry import Registry, Scope, Vector, between, exact

WORDS = frozenset({"band", "deviation", "difference", "error", "greenwood", "limits", "median", "quantiles", "spread"})
WORDS |= {"tails", "values", "variance", "variances", "width"}
FILES = ("noise_laws", "survival_estimates", "score_tests", "hypothesis_tests")
REGISTRY = Registry((Scope(tuple(f"inference/{file}.py" for file in FILES), WORDS, frozenset({"confidence"})),), {})
formula = REGISTRY.formula

TABLES = (
    ((12, 30, 7), (3, 5, 80)),
    ((1, 0, 4, 2), (20, 11, 0, 33)),
    ((50,), (150,)),
)
"""Events and censored units by period."""
LAW = NoiseLaw(2, 1.5)


def _life_table(cells: tuple[tuple[int, ...], tuple[int, ...]], confidence: float = 0.95) -> LifeTable:
    return LifeTable(np.array(cells[0], dtype=float), np.array(cells[1], dtype=float), LAW, confidence)


def _at_risk(cells: tuple[tuple[int, ...], tuple[int, ...]]) -> list[Fraction]:
    return [Fraction(sum(cells[0][period:]) + sum(cells[1][period:])) for period in range(len(cells[0]))]


def _greenwood(cells: tuple[tuple[int, ...], tuple[int, ...]]) -> list[Fraction]:
    """h/((1 − h)·N) with one event more, in fractions."""
    terms = []
    for events, at_risk in zip(cells[0], _at_risk(cells), strict=True):
        hazard = (events + 1) / at_risk
        terms.append(hazard / ((1 - hazard) * at_risk))
    return terms


def _noise_variances(cells: tuple[tuple[int, ...], tuple[int, ...]]) -> list[mpf]:
    """The squares of the derivatives of log S in every cell, times σ²: by numeric derivatives in 40 digits."""
    periods = len(cells[0])

    def log_survival(changed: list[list[mpf]], last: int) -> mpf:
        total = mpf(0)
        for period in range(last + 1):
            at_risk = sum(changed[0][period:]) + sum(changed[1][period:])
            total += mp.log(1 - changed[0][period] / at_risk)
        return total

    variances = []
    with mp.workdps(40):
        step = mpf(10) ** -12
        for last in range(periods):
            squares = mpf(0)
            for kind, period in itertools.product(range(2), range(periods)):
                ends = []
                for sign in (1, -1):
                    changed = [[mpf(count) for count in row] for row in cells]
                    changed[kind][period] += sign * step
                    ends.append(log_survival(changed, last))
                squares += ((ends[0] - ends[1]) / (2 * step)) ** 2
            variances.append(squares * mpf(LAW.size) ** 2)
    return variances


@formula("inference.noise_laws.NoiseLaw.variance")
def _noise_variance() -> Iterator[Vector]:
    for size, unit in ((0.5, 1.0), (3.0, 2.0), (40.0, 0.25)):
        squares = sum(2 * mpf(n) ** 2 * mp.exp(-mpf(n) / size) for n in range(1, 2000))
        total = 1 + sum(2 * mp.exp(-mpf(n) / size) for n in range(1, 2000))
        yield exact(float(squares / total * unit**2), lambda size, unit: NoiseLaw(1, size, unit).variance, size, unit)


@formula("inference.survival_estimates.LifeTable.at_risk_deviation")
def _deviations() -> Iterator[Vector]:
    for cells in TABLES:
        periods = len(cells[0])
        expected = [LAW.size * math.sqrt(2 * (periods - period)) for period in range(periods)]
        yield exact(expected, lambda cells: _life_table(cells).at_risk_deviation, cells)


@formula("inference.survival_estimates.LifeTable.greenwood_variances")
def _greenwoods() -> Iterator[Vector]:
    for cells in TABLES:
        yield exact(
            [float(term) for term in _greenwood(cells)], lambda cells: _life_table(cells).greenwood_variances, cells
        )


@formula("inference.survival_estimates.LifeTable.log_survival_noise_error")
def _noise_errors() -> Iterator[Vector]:
    for cells in TABLES:
        expected = [float(mp.sqrt(variance)) for variance in _noise_variances(cells)]
        yield exact(expected, lambda cells: _life_table(cells).log_survival_noise_error, cells)


@formula("inference.survival_estimates.LifeTable.log_survival_error")
def _errors() -> Iterator[Vector]:
    for cells in TABLES:
        sampling = itertools.accumulate(_greenwood(cells))
        both = zip(_noise_variances(cells), sampling, strict=True)
        expected = [math.sqrt(float(noise) + float(variance)) for noise, variance in both]
        yield exact(expected, lambda cells: _life_table(cells).log_survival_error, cells)


@formula("inference.survival_estimates.LifeTable.log_survival_band_half_width")
def _band_widths() -> Iterator[Vector]:
    """Of one period the band is the normal interval, up to the error of simulated quantiles."""
    for confidence in (0.8, 0.95, 0.99):
        life_table = _life_table(TABLES[2], confidence)
        width = stats.norm.ppf((1 + confidence) / 2) * float(life_table.log_survival_error[0])
        yield between(
            0.93 * width,
            1.07 * width,
            lambda confidence: _life_table(TABLES[2], confidence).log_survival_band_half_width,
            confidence,
        )


@formula("inference.survival_estimates.LifeTable.survival_limits")
def _limits() -> Iterator[Vector]:
    for width in (0.0, 0.1, 0.7):
        survival = Fraction(150, 200)
        ends = [float(survival) * math.exp(-width)], [min(1.0, float(survival) * math.exp(width))]
        yield exact(ends, lambda width: _life_table(TABLES[2]).survival_limits(np.array([width])), width)


@formula("inference.survival_estimates.upper_quantiles")
def _quantiles() -> Iterator[Vector]:
    for count, confidence, rank in ((19, 0.95, 19), (99, 0.9, 90), (200, 0.5, 101)):
        yield exact(float(rank), lambda n, c: upper_quantiles(np.arange(1.0, n + 1)[:, None], c), count, confidence)


@formula("inference.score_tests.GroupSums.value_variances")
def _spreads() -> Iterator[Vector]:
    """The variance of values at the two ends of the range is the largest for their mean."""
    for position, width, released in ((Fraction(1, 4), 8, None), (Fraction(2, 5), 10, 3.5), (Fraction(1, 2), 2, 9.0)):
        low_part, high_part = (1 - position) * (position * width) ** 2, position * ((1 - position) * width) ** 2
        largest = float(low_part + high_part)
        variances = None if released is None else np.array([released])
        sums = GroupSums(np.array([1.0]), np.array([1.0]), LAW, float(width), variances)
        expected = largest if released is None else min(largest, released)
        yield exact(expected, lambda sums, position: sums.value_variances(position), sums, float(position))


@formula("inference.score_tests.PairSums.variances")
def _pair_variances() -> Iterator[Vector]:
    for x, y in (((1, 2, 3), (0, 0, 4)), ((-3, 3), (1, 2)), ((0, 1, 1, 2), (4, -4, 4, -4))):
        sums = sum(x), sum(y)
        squares = sum(value**2 for value in x), sum(value**2 for value in y)
        pairs = PairSums(float(len(x)), sums, squares, 0.0, (LAW, LAW), LAW, (5.0, 5.0))
        yield exact((float(np.var(x)), float(np.var(y))), lambda pairs: pairs.variances, pairs)


def _tails(count: int, of: int, share: Fraction, size: float) -> tuple[mpf, mpf]:
    """P(X + noise ≥ count) and P(X + noise ≤ count) by enumeration of both."""
    weights = {noise: mp.exp(-abs(mpf(noise)) / mpf(size)) for noise in range(-150, 151)}
    total, tails = sum(weights.values()), [mpf(0), mpf(0)]
    for number in range(of + 1):
        chance = math.comb(of, number) * share**number * (1 - share) ** (of - number)
        weight = mpf(chance.numerator) / chance.denominator / total
        tails[0] += weight * sum(weights[noise] for noise in range(count - number, 151))
        tails[1] += weight * sum(weights[noise] for noise in range(-150, count - number + 1))
    return tails[0], tails[1]


_SHARES = ((7, 10, Fraction(1, 2), 2.0), (-3, 5, Fraction(1, 5), 1.0), (9, 8, Fraction(9, 10), 0.5))


@formula("inference.score_tests.share_tails")
def _share_tails() -> Iterator[Vector]:
    for count, of, share, size in _SHARES:
        expected = [float(tail) for tail in _tails(count, of, share, size)]
        yield between(
            [tail * (1 - 1e-11) for tail in expected],
            [tail * (1 + 1e-11) for tail in expected],
            share_tails,
            float(count),
            of,
            float(share),
            NoiseLaw(1, size),
        )


@formula("inference.score_tests._log_normal_tails")
def _log_normal_tails_in_40_digits() -> Iterator[Vector]:
    for index in (0, 6000, 6275, 20_000, 2**15 - 1):
        with mp.workdps(40):
            expected = float(mp.log(mp.erfc(mpf(float(_NORMAL_POINTS[index])) / mp.sqrt(2)) / 2))

        def tail(index: int = index) -> float:
            return float(_log_normal_tails.__wrapped__()[index])

        yield between(expected * (1 + 1e-12) - 1e-15, expected * (1 - 1e-12) + 1e-15, tail)


@formula("inference.score_tests.share_p_values")
def _p_values() -> Iterator[Vector]:
    for (count, of, share, size), uniform in zip(_SHARES, (0.25, 0.5, 0.75), strict=True):
        above, below = _tails(count, of, share, size)
        atom = above + below - 1
        expected = [float(above - atom + uniform * atom), float(below - atom + (1 - uniform) * atom)]
        yield between(
            [p * (1 - 1e-10) for p in expected],
            [p * (1 + 1e-10) for p in expected],
            share_p_values,
            float(count),
            of,
            float(share),
            NoiseLaw(1, size),
            uniform,
        )


@formula("inference.hypothesis_tests._difference_with_interval")
def _differences() -> Iterator[Vector]:
    """Two shares: the difference with ± z·√(Σ (p(1−p)/n + σ²((1−p)² + p²)/n²))."""
    for first, second, confidence in (
        ((30, 70), (50, 50), 0.95),
        ((5, 95), (40, 160), 0.9),
        ((400, 100), (90, 10), 0.99),
    ):
        variance, shares = mpf(0), []
        for cases, others in (first, second):
            size = cases + others
            share = mpf(cases) / size
            shares.append(share)
            variance += share * (1 - share) / size + mpf(LAW.size) ** 2 * ((1 - share) ** 2 + share**2) / size**2
        quantile = mp.sqrt(2) * mp.erfinv(mpf(confidence))
        estimate, half = shares[1] - shares[0], quantile * mp.sqrt(variance)
        sums = GroupSums(
            np.array([first[0], second[0]], dtype=float), np.array([first[1], second[1]], dtype=float), LAW
        )
        expected = [float(estimate), float(estimate - half), float(estimate + half)]
        yield exact(expected, hypothesis_tests._difference_with_interval, sums, confidence)


def test_the_largest_variance_bounds_every_sample() -> None:
    generator = np.random.default_rng(4)
    for values in (generator.random(9), generator.integers(0, 2, 9)):
        sums = GroupSums(np.array([values.sum()]), np.array([(1 - values).sum()]), LAW)
        assert values.var() <= sums.value_variances(float(values.mean()))[0] + 1e-12
    assert score_tests.UNTESTABLE.draws == 0


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
