"""Fitting finds values that agree with many answers about groups: by least squares, and by a linear programme.

Least squares is one system of linear equations. The linear programme finds values within their bounds whose sums lie
nearest to the answers in all, Σ|Ax − a|, by an interior-point method: predictor and corrector after Mehrotra (1992),
reduced to one system with as many equations as there are people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

_ROUNDS = 60
_CLOSE = 1e-7
"""The gap, as a share of the aim, at which the programme is solved."""
_FIRM = 1e-12
"""What keeps a system solvable whose answers do not determine all values, as a share of its largest number."""
_SHORT = 0.995
"""How much of the way to the nearest bound a step goes."""


def least_squares(groups: NDArray[np.bool_], answers: Reals) -> Reals:
    """Find numbers whose sums over groups are nearest to the answers, shrunk toward ½ as far as the errors ask for.

    The least-squares fit leaves residuals, from which the variance of the errors is estimated. A uniform bit has mean
    ½ and variance ¼, so the linear estimate of least mean error penalises (x − ½)² with four times that variance
    (Hoerl & Kennard 1970). Answers may have a column for each of several towns. Counts below 2²⁴ are exact in single
    precision, where products are quick.
    """
    single = groups.astype(np.float32)
    people = groups.shape[1]
    normal = (single.T @ single).astype(np.float64)
    centred = answers - (single.sum(axis=1, dtype=np.float64) / 2).reshape(-1, *(1,) * (answers.ndim - 1))
    aim = _in_parts(single, centred)
    ridge = np.eye(people)
    first = _solved(normal + 1e-6 * ridge, aim)
    freedom = len(groups) - people
    if freedom <= 0:
        return first + 0.5
    residual = centred - single @ first.astype(np.float32)
    variance = float(np.square(residual).sum()) / (freedom * (answers.size // len(answers)))
    return _solved(normal + max(1e-6, 4 * variance) * ridge, aim) + 0.5


def _in_parts(groups: NDArray[np.float32], centred: Reals) -> Reals:
    """Add up in double precision, a part of the questions at a time, so that no second copy of all groups is made."""
    total = np.zeros((groups.shape[1], *centred.shape[1:]))
    for start in range(0, len(groups), 1024):
        total += groups[start : start + 1024].astype(np.float64).T @ centred[start : start + 1024]
    return total


def _solved(matrix: Reals, aim: Reals) -> Reals:
    return np.asarray(np.linalg.solve(matrix, aim), np.float64)


def least_deviations(matrix: Reals, answers: Reals, most: float = 1.0, cost: float = 0.0) -> Reals:
    """Find numbers between 0 and ``most`` for which Σ|matrix·x − answers| + cost·Σx is least.

    Written with residuals p − q and room s below the upper bounds u, it is: min Σp + Σq + cost·Σx where
    Ax + p − q = a, x + s = u, all at least 0. Each round solves (AᵀHA + D)dx = g, where H and D are diagonal and
    positive.
    """
    bounds = np.full(matrix.shape[1], float(most))
    state = _start(matrix, answers, bounds, cost)
    for _ in range(_ROUNDS):
        if state.gap() <= _CLOSE * (1 + float(state.p.sum() + state.q.sum())):
            break
        state = _round(matrix, answers, bounds, cost, state)
    return np.clip(state.x, 0.0, bounds)


@dataclass(frozen=True)
class _State:
    """This is a point inside: four positive vectors, their four prices, and the multipliers of the equations."""

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

    def moved(self, step: _State, primal: float, dual: float) -> _State:
        first = (self.x + primal * step.x, self.s + primal * step.s, self.p + primal * step.p, self.q + primal * step.q)
        second = (self.y + dual * step.y, self.w + dual * step.w, self.zx + dual * step.zx, self.zs + dual * step.zs)
        return _State(*first, *second, self.zp + dual * step.zp, self.zq + dual * step.zq)


def _start(matrix: Reals, answers: Reals, bounds: Reals, cost: float) -> _State:
    """Begin in the middle of the box, with residuals and prices for which all equations hold: they do so ever after,
    and the gap alone says how far the aim is from its least.
    """
    x = bounds / 2
    off = answers - matrix @ x
    p, q = np.maximum(off, 0) + 1.0, np.maximum(-off, 0) + 1.0
    ones, across = np.ones(len(answers)), np.ones(len(x))
    return _State(x, bounds - x, p, q, 0 * ones, -across, across + cost, across, ones, ones)


def _round(matrix: Reals, answers: Reals, bounds: Reals, cost: float, now: _State) -> _State:
    """Take one step: where it leads without centring says how much centring the real one needs."""
    spread = now.p / now.zp + now.q / now.zq
    diagonal = now.zx / now.x + now.zs / now.s
    normal = matrix.T @ (matrix / spread[:, None])
    diagonal += _FIRM * float(normal.max())
    normal[np.diag_indices_from(normal)] += diagonal
    mean = now.gap() / now.size()
    plain = _newton(matrix, answers, bounds, cost, now, normal, spread, _products(now, None, 0.0))
    reached = now.moved(plain, _reach(now, plain, primal=True), _reach(now, plain, primal=False))
    centring = (reached.gap() / now.size() / mean) ** 3 * mean
    step = _newton(matrix, answers, bounds, cost, now, normal, spread, _products(now, plain, centring))
    return now.moved(step, _SHORT * _reach(now, step, primal=True), _SHORT * _reach(now, step, primal=False))


def _products(now: _State, plain: _State | None, centring: float) -> tuple[Reals, Reals, Reals, Reals]:
    """Say by how much each product of a number and its price has to change."""
    pairs = ((now.x, now.zx), (now.s, now.zs), (now.p, now.zp), (now.q, now.zq))
    wanted = [centring - a * b for a, b in pairs]
    if plain is not None:
        second = ((plain.x, plain.zx), (plain.s, plain.zs), (plain.p, plain.zp), (plain.q, plain.zq))
        wanted = [want - a * b for want, (a, b) in zip(wanted, second, strict=True)]
    return wanted[0], wanted[1], wanted[2], wanted[3]


def _newton(
    matrix: Reals,
    answers: Reals,
    bounds: Reals,
    cost: float,
    now: _State,
    normal: Reals,
    spread: Reals,
    wanted: tuple[Reals, Reals, Reals, Reals],
) -> _State:
    """Solve the linear equations of one step, after all unknowns but dx are eliminated."""
    cx, cs, cp, cq = wanted
    off, room = answers - matrix @ now.x - now.p + now.q, bounds - now.x - now.s
    rx, rs = cost - matrix.T @ now.y - now.w - now.zx, -now.w - now.zs
    rp, rq = 1 - now.y - now.zp, 1 + now.y - now.zq
    g = (cp - now.p * rp) / now.zp - (cq - now.q * rq) / now.zq
    slack = (room - (cs - now.s * rs) / now.zs) * now.zs / now.s
    dx = _solved(normal, cx / now.x - rx + matrix.T @ ((off - g) / spread) + slack)
    dy = (off - g - matrix @ dx) / spread
    dw = slack - dx * now.zs / now.s
    dzx, dzs, dzp, dzq = rx - matrix.T @ dy - dw, rs - dw, rp - dy, rq + dy
    dp, dq = (cp - now.p * dzp) / now.zp, (cq - now.q * dzq) / now.zq
    return _State(dx, room - dx, dp, dq, dy, dw, dzx, dzs, dzp, dzq)


def _reach(now: _State, step: _State, *, primal: bool) -> float:
    """Find how far a step may go before a number, or a price, falls to 0; at most all the way."""
    names = ("x", "s", "p", "q") if primal else ("zx", "zs", "zp", "zq")
    most = 1.0
    for name in names:
        here, change = getattr(now, name), getattr(step, name)
        falling = change < 0
        if falling.any():
            most = min(most, float((-here[falling] / change[falling]).min()))
    return most
