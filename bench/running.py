"""Running counts beside the published factorisations of the matrix of all sums, in one run: error of each day, ratios
to the best, and the time that planning takes.

Run with: .venv/bin/python bench/running.py

Errors are variances where one row counts one: with Gaussian noise at ρ = ½ (σ = Δ₂), with Laplace noise at ε = 1. The
optimum is bounded from below by Lagrange duality: for weights w of the days and any v > 0 no factorisation has less
than 2·tr((V^½·LᵀWL·V^½)^½) − Σv. So none, published or not, is better.
"""

from __future__ import annotations

import datetime as dt
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from timing import row

import sfumato as sf
from sfumato.mechanisms.factorisations import Factorisation, candidate_factorisations

Floats = NDArray[np.float64]


def least(periods: int, rounds: int, worst: bool) -> float:
    """The least mean variance of any factorisation (Denisov et al. 2022), or the least of the worst day."""
    sums = np.tril(np.ones((periods, periods)))
    days, best, v = np.ones(periods) / periods, 0.0, np.ones(periods)
    for _ in range(rounds):
        scale = np.sqrt(v)
        values, vectors = np.linalg.eigh(scale[:, None] * (sums.T @ (days[:, None] * sums)) * scale)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        best = max(best, 2 * float(np.trace(root)) - float(v.sum()))
        v = np.diag(root).copy()
        if worst:
            gram = root / np.outer(scale, scale)
            gram /= np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
            days *= np.einsum("ij,ji->i", sums, np.linalg.solve(gram, sums.T))
            days /= days.sum()
    return best


def square_root(periods: int) -> Floats:
    """Published: both factors are the Toeplitz matrix of C(2k, k)/4^k (Fichtenberger, Henzinger & Upadhyay 2023)."""
    steps = np.arange(1, periods)
    squares = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))]) ** 2
    return np.cumsum(squares) * squares.sum()


def blocks(periods: int, order: int) -> Floats:
    """The binary tree without refinement: a day is the sum of as many blocks as it has ones in binary."""
    levels = math.ceil(math.log2(periods)) + 1
    ones = np.array([day.bit_count() for day in range(1, periods + 1)])
    return ones * (2 * levels**2 if order == 1 else levels)


def variances(made: Factorisation, order: int) -> Floats:
    weights = made.weights.astype(float)
    moved = 2 * np.abs(weights).sum(axis=0).max() ** 2 if order == 1 else (weights**2).sum(axis=0).max()
    return made.decoder_row_norms**2 * moved


def table(periods: int) -> None:
    mean, worst = least(periods, 150, worst=False), least(periods, 300, worst=True)
    best = {
        order: min(candidate_factorisations(periods, order, 10), key=lambda c: variances(c, order).max())
        for order in (1, 2)
    }
    print(
        f"\n{periods} days, Gaussian noise: no factorisation has a mean below {mean:.4f}, a worst day below {worst:.4f}"
    )
    for name, found in (
        ("binary tree (Dwork et al. 2010)", blocks(periods, 2)),
        ("binary tree, least squares (Honaker 2015)", variances(Factorisation("tree", periods, 10, 2), 2)),
        ("square root (Fichtenberger et al. 2023)", square_root(periods)),
        (f"ours: {best[2].words()}", variances(best[2], 2)),
    ):
        ratios = (
            found.mean() / mean,
            found.max() / worst,
            math.sqrt(found.mean() / mean),
            math.sqrt(found.max() / worst),
        )
        said = "variance {:.3f} × mean, {:.3f} × worst; error {:.3f} ×, {:.3f} ×".format(*ratios)
        print(f"  {name:<58}{found.mean():>9.3f}{found.max():>9.3f}   {said}")
    elders = 0.124 * math.log2(periods) ** 3
    print(f"{periods} days, Laplace noise (subtracting blocks, Andersson et al. 2024, tends to a mean of {elders:.1f})")
    for name, found in (
        ("binary tree (Chan, Shi & Song 2011)", blocks(periods, 1)),
        ("binary tree, least squares (Honaker 2015)", variances(Factorisation("tree", periods, 10, 2), 1)),
        (f"ours: {best[1].words()}", variances(best[1], 1)),
    ):
        print(f"  {name:<72}{found.mean():>9.1f}{found.max():>9.1f}")


def planning() -> None:
    first = dt.date(2020, 1, 1)
    with tempfile.TemporaryDirectory() as folder:
        for days in (30, 365, 2_000, 100_000):
            start = first - dt.timedelta(days=days) if days > 3_000 else first
            last = start + dt.timedelta(days=days - 1)
            rows = pd.DataFrame({"day": [start + dt.timedelta(days=i * 7 % days) for i in range(10_000)]})
            visits = sf.Table("visits", rows, {"day": {"type": "date", "bounds": [str(start), str(last)]}}, id="row")
            policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(100, "1e-6"), {"visits": visits})
            with sf.Curator(policy, Path(folder) / f"{days}.ledger") as curator:
                one_question(curator, days)


def one_question(curator: sf.Curator, days: int) -> None:
    """Plans that are made anew, and a release: the first of each price, since later ones find the matrices again."""
    text = "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"
    for name, price in (("ε = 1", {"epsilon": 1}), ("ρ = 0.01", {"rho": "0.01"})):
        start = time.process_time()
        try:
            proposal = curator.running(text)
        except sf.Unsupported as refused:
            row(f"refusing {days:,} days", time.process_time() - start, note=refused.code)
            return
        worst, planned = proposal.error(**price).worst, time.process_time() - start  # type: ignore[arg-type]
        proposal.release(**price)  # type: ignore[arg-type]
        took = time.process_time() - start - planned
        row(f"planning {days:,} days at {name}", planned, note=f"±{worst:.1f} in the worst; released in {took:.3f} s")


if __name__ == "__main__":
    for length in (30, 365):
        table(length)
    print()
    planning()
