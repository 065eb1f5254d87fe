"""Published private tests, written from their papers, beside which ours are measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Floats = NDArray[np.float64]
Generator = np.random.Generator


def awan_slavkovic_power(units: int, null_share: float, true_share: float, epsilon: float, level: float) -> float:
    """Return the exact power of the most powerful one-sided private test of a share (Awan & Slavković 2018)."""
    numbers, steps, decay = np.arange(units + 1), np.arange(-300, units + 301), np.exp(-epsilon)
    noise = np.exp(-np.abs(steps[:, None] - numbers) * epsilon) * (1 - decay) / (1 + decay)
    null, truth = (noise @ stats.binom.pmf(numbers, units, share) for share in (null_share, true_share))
    tail = np.cumsum(null[::-1])[::-1]
    return float(truth @ np.clip((level - (tail - null)) / null, 0, 1))


def kifer_rogers_fit(cells: Floats, shares: Floats, rows: int, sigma: float) -> float:
    """Return the p-value of their projected statistic for a fit; the number of rows is public (Kifer & Rogers 2017)."""
    off = cells - rows * shares
    covariance = rows * (np.diag(shares) - np.outer(shares, shares)) + sigma**2 * np.eye(len(cells))
    projection = np.eye(len(cells)) - 1 / len(cells)
    return float(stats.chi2.sf(off @ projection @ np.linalg.inv(covariance) @ projection @ off, len(cells) - 1))


def kifer_rogers(cells: Floats, sigma: float) -> float:
    """Return the p-value of their projected statistic, minimised over independent tables (their section 5)."""
    total, (rows, columns) = max(cells.sum(), 1.0), cells.shape
    projection = np.eye(cells.size) - 1 / cells.size
    start = np.clip(np.concatenate([cells.sum(axis=1)[:-1], cells.sum(axis=0)[:-1]]) / total, 0.02, 0.98)

    def shares(free: Floats) -> Floats:
        first, second = np.append(free[: rows - 1], 1 - free[: rows - 1].sum()), free[rows - 1 :]
        return np.outer(first, np.append(second, 1 - second.sum())).ravel()

    guess = shares(start)
    covariance = total * (np.diag(guess) - np.outer(guess, guess)) + sigma**2 * np.eye(cells.size)
    weights = projection @ np.linalg.inv(covariance) @ projection

    def statistic(free: Floats) -> float:
        off = cells.ravel() - total * shares(free)
        return float(off @ weights @ off)

    least = optimize.minimize(statistic, start, method="Nelder-Mead").fun
    return float(stats.chi2.sf(least, (rows - 1) * (columns - 1)))


def alabi_vadhan(
    statistics: Floats, draw: Callable[[Generator, int], Floats], generator: Generator, draws: int
) -> float:
    """Return the p-value of a Monte Carlo test of no slope from noisy (n, Σx, Σy, Σx², Σy², Σxy): their F statistic in
    tables of two independent normal columns with the released means and variances, noise included (Alabi & Vadhan
    2022).
    """
    rows = max(2.0, float(statistics[0]))
    means = statistics[1:3] / rows
    deviations = np.sqrt(np.maximum(statistics[3:5] / rows - means**2, 1e-6))
    simulated = np.empty((draws, 6))
    for index in range(draws):
        x, y = means[:, None] + deviations[:, None] * generator.normal(size=(2, int(rows)))
        simulated[index] = rows, x.sum(), y.sum(), x @ x, y @ y, x @ y
    null = _slope_statistic(simulated + draw(generator, draws))
    return float((1 + (null >= _slope_statistic(statistics[None])[0]).sum()) / (draws + 1))


def _slope_statistic(statistics: Floats) -> Floats:
    """Return F of no slope up to a monotone function: the squared correlation."""
    rows, x, y, xx, yy, xy = statistics.T
    rows = np.maximum(rows, 2.0)
    spread = np.maximum(xx - x**2 / rows, 1e-6) * np.maximum(yy - y**2 / rows, 1e-6)
    squares: Floats = (xy - x * y / rows) ** 2 / spread
    return squares
