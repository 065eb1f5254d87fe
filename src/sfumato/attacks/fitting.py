"""Solvers that fit values to many answers about groups: least squares and linear programming.

Least squares is one linear system. The linear programme finds values within their bounds that minimise Σ|Ax − a| by a
primal-dual interior-point method (Mehrotra 1992, predictor-corrector), reduced to one system with as many equations as
people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

_MAX_ITERATIONS = 60
_RELATIVE_GAP = 1e-7
"""The duality gap, relative to the objective, at which the programme counts as solved."""
_REGULARIZATION = 1e-12
"""Regularisation of underdetermined systems, relative to the largest matrix entry."""
_STEP_FRACTION = 0.995
"""The fraction of the distance to the nearest bound that a step takes."""


def least_squares(groups: NDArray[np.bool_], answers: Reals) -> Reals:
    """Fit values to sums over groups by ridge regression toward ½.

    The variance of the errors is estimated from the residuals of an ordinary fit. A uniform bit has mean ½ and variance
    ¼, so the best linear estimate penalises (x − ½)² with four times that variance (Hoerl & Kennard 1970). Answers may
    have a column for each of several towns. Counts below 2²⁴ are exact in single precision, which is faster.
    """
    single = groups.astype(np.float32)
    people = groups.shape[1]
    normal = (single.T @ single).astype(np.float64)
    centred = answers - (single.sum(axis=1, dtype=np.float64) / 2).reshape(-1, *(1,) * (answers.ndim - 1))
    target = _transposed_product(single, centred)
    ridge = np.eye(people)
    unpenalised = _solve(normal + 1e-6 * ridge, target)
    degrees_of_freedom = len(groups) - people
    if degrees_of_freedom <= 0:
        return unpenalised + 0.5
    residual = centred - single @ unpenalised.astype(np.float32)
    variance = float(np.square(residual).sum()) / (degrees_of_freedom * (answers.size // len(answers)))
    return _solve(normal + max(1e-6, 4 * variance) * ridge, target) + 0.5


def _transposed_product(groups: NDArray[np.float32], centred: Reals) -> Reals:
    """Return groupsᵀ·centred in double precision, by blocks of questions to avoid a second copy."""
    total = np.zeros((groups.shape[1], *centred.shape[1:]))
    for start in range(0, len(groups), 1024):
        total += groups[start : start + 1024].astype(np.float64).T @ centred[start : start + 1024]
    return total


def _solve(matrix: Reals, target: Reals) -> Reals:
    return np.asarray(np.linalg.solve(matrix, target), np.float64)


def least_deviations(matrix: Reals, answers: Reals, upper_bound: float = 1.0, cost: float = 0.0) -> Reals:
    """Find values between 0 and ``most`` that minimise Σ|matrix·x − answers| + cost·Σx.

    With residuals p − q and slack s below the upper bounds u: min Σp + Σq + cost·Σx subject to Ax + p − q = a,
    x + s = u, all nonnegative. Each iteration solves (AᵀHA + D)dx = g with positive diagonal H and D.
    """
    bounds = np.full(matrix.shape[1], float(upper_bound))
    point = _starting_point(matrix, answers, bounds, cost)
    for _ in range(_MAX_ITERATIONS):
        if point.gap() <= _RELATIVE_GAP * (1 + float(point.p.sum() + point.q.sum())):
            break
        point = _iterate(matrix, answers, bounds, cost, point)
    return np.clip(point.x, 0.0, bounds)


@dataclass(frozen=True)
class _InteriorPoint:
    """A strictly interior point: four positive primal vectors, their dual prices, and two multiplier vectors."""

    x: Reals
    s: Reals
    p: Reals
    q: Reals
    y: Reals
    w: Reals
    zx: Reals
    zs: Reals
    zp: Reals
    zq: Reals

    def gap(self) -> float:
        return float(self.x @ self.zx + self.s @ self.zs + self.p @ self.zp + self.q @ self.zq)

    def size(self) -> int:
        return 2 * len(self.x) + 2 * len(self.p)

    def moved(self, step: _InteriorPoint, primal: float, dual: float) -> _InteriorPoint:
        first = (self.x + primal * step.x, self.s + primal * step.s, self.p + primal * step.p, self.q + primal * step.q)
        second = (self.y + dual * step.y, self.w + dual * step.w, self.zx + dual * step.zx, self.zs + dual * step.zs)
        return _InteriorPoint(*first, *second, self.zp + dual * step.zp, self.zq + dual * step.zq)


def _starting_point(matrix: Reals, answers: Reals, bounds: Reals, cost: float) -> _InteriorPoint:
    """Start at the centre of the box with feasible residuals and prices.

    All iterates stay feasible, so the duality gap alone measures the distance from the optimum.
    """
    x = bounds / 2
    residual = answers - matrix @ x
    p, q = np.maximum(residual, 0) + 1.0, np.maximum(-residual, 0) + 1.0
    ones, ones_per_value = np.ones(len(answers)), np.ones(len(x))
    return _InteriorPoint(
        x, bounds - x, p, q, 0 * ones, -ones_per_value, ones_per_value + cost, ones_per_value, ones, ones
    )


def _iterate(matrix: Reals, answers: Reals, bounds: Reals, cost: float, point: _InteriorPoint) -> _InteriorPoint:
    """Take one predictor-corrector step; the predictor's gap determines the centring."""
    spread = point.p / point.zp + point.q / point.zq
    diagonal = point.zx / point.x + point.zs / point.s
    normal = matrix.T @ (matrix / spread[:, None])
    diagonal += _REGULARIZATION * float(normal.max())
    normal[np.diag_indices_from(normal)] += diagonal
    mean = point.gap() / point.size()
    predictor = _newton_step(
        matrix, answers, bounds, cost, point, normal, spread, _complementarity_targets(point, None, 0.0)
    )
    predicted = point.moved(
        predictor, _max_step(point, predictor, primal=True), _max_step(point, predictor, primal=False)
    )
    centring = (predicted.gap() / point.size() / mean) ** 3 * mean
    step = _newton_step(
        matrix, answers, bounds, cost, point, normal, spread, _complementarity_targets(point, predictor, centring)
    )
    return point.moved(
        step,
        _STEP_FRACTION * _max_step(point, step, primal=True),
        _STEP_FRACTION * _max_step(point, step, primal=False),
    )


def _complementarity_targets(
    point: _InteriorPoint, predictor: _InteriorPoint | None, centring: float
) -> tuple[Reals, Reals, Reals, Reals]:
    """Return the change that each complementarity product should make."""
    pairs = ((point.x, point.zx), (point.s, point.zs), (point.p, point.zp), (point.q, point.zq))
    targets = [centring - a * b for a, b in pairs]
    if predictor is not None:
        predictor_pairs = (
            (predictor.x, predictor.zx),
            (predictor.s, predictor.zs),
            (predictor.p, predictor.zp),
            (predictor.q, predictor.zq),
        )
        targets = [target - a * b for target, (a, b) in zip(targets, predictor_pairs, strict=True)]
    return targets[0], targets[1], targets[2], targets[3]


def _newton_step(
    matrix: Reals,
    answers: Reals,
    bounds: Reals,
    cost: float,
    point: _InteriorPoint,
    normal: Reals,
    spread: Reals,
    targets: tuple[Reals, Reals, Reals, Reals],
) -> _InteriorPoint:
    """Solve the Newton equations of one step, with all unknowns but dx eliminated."""
    cx, cs, cp, cq = targets
    residual, bound_slack = answers - matrix @ point.x - point.p + point.q, bounds - point.x - point.s
    rx, rs = cost - matrix.T @ point.y - point.w - point.zx, -point.w - point.zs
    rp, rq = 1 - point.y - point.zp, 1 + point.y - point.zq
    g = (cp - point.p * rp) / point.zp - (cq - point.q * rq) / point.zq
    slack = (bound_slack - (cs - point.s * rs) / point.zs) * point.zs / point.s
    dx = _solve(normal, cx / point.x - rx + matrix.T @ ((residual - g) / spread) + slack)
    dy = (residual - g - matrix @ dx) / spread
    dw = slack - dx * point.zs / point.s
    dzx, dzs, dzp, dzq = rx - matrix.T @ dy - dw, rs - dw, rp - dy, rq + dy
    dp, dq = (cp - point.p * dzp) / point.zp, (cq - point.q * dzq) / point.zq
    return _InteriorPoint(dx, bound_slack - dx, dp, dq, dy, dw, dzx, dzs, dzp, dzq)


def _max_step(point: _InteriorPoint, step: _InteriorPoint, *, primal: bool) -> float:
    """Return the largest step, at most 1, that keeps all primal or all dual vectors nonnegative."""
    names = ("x", "s", "p", "q") if primal else ("zx", "zs", "zp", "zq")
    largest = 1.0
    for name in names:
        current, change = getattr(point, name), getattr(step, name)
        decreasing = change < 0
        if decreasing.any():
            largest = min(largest, float((-current[decreasing] / change[decreasing]).min()))
    return largest
