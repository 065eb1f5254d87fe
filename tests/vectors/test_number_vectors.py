"""Vectors of roundings to units, a search over integers, and functions that would cancel if written plainly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.privacy import numbers
from vectors.formula_words import LOSS_PARAMETERS, LOSS_WORDS
from vectors.laws import MP, Real, real
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(Scope(("privacy/numbers.py",), words=LOSS_WORDS, parameters=LOSS_PARAMETERS),),
    exempt={},
)


@REGISTRY.formula("privacy.numbers.units_rounded_up")
def _charge_units() -> Iterator[Vector]:
    for amount, units in ((F(1, 3), (10**30 + 2) // 3), (F(1, 10**31), 1), (F(2), 2 * 10**30), (F(0), 0)):
        yield exact(units, numbers.units_rounded_up, amount)


@REGISTRY.formula("privacy.numbers.units_rounded_down")
def _allowance_units() -> Iterator[Vector]:
    for amount, units in ((F(1, 3), (10**30 - 1) // 3), (F(9, 10**31), 0), (F(2), 2 * 10**30)):
        yield exact(units, numbers.units_rounded_down, amount)


@REGISTRY.formula("privacy.numbers.least_integer_where")
def _least_whole() -> Iterator[Vector]:
    for start, least in ((0, 0), (0, 1), (1, 2), (3, 7), (5, 5), (2, 10**9 + 7), (0, 2**60 + 1)):
        yield exact(least, lambda s=start, n=least: numbers.least_integer_where(lambda number: number >= n, s))


def _mp(function: Any, *points: float) -> Iterator[tuple[float, Real]]:
    """Evaluate with 100 digits: cancelling takes some of them."""
    with MP.workdps(100):
        found = [(x, function(MP.mpf(x))) for x in points]
    yield from found


@REGISTRY.formula("privacy.numbers.excess_exp")
def _excess_exp() -> Iterator[Vector]:
    yield exact(0.5, numbers.excess_exp, 0.0)
    for y, truth in _mp(lambda y: (MP.exp(y) - 1 - y) / y**2, 1e-12, 0.3, -0.3, 0.30001, -2.0, 30.0):
        yield exact(truth, numbers.excess_exp, y)


@REGISTRY.formula("privacy.numbers.sinhc_minus_one")
def _mean_excess() -> Iterator[Vector]:
    yield exact(0.0, numbers.sinhc_minus_one, 0.0)
    for y, truth in _mp(lambda y: MP.sinh(y) / y - 1, 1e-9, 0.5, 1.0, -1.0, 1.0001, 20.0):
        yield exact(truth, numbers.sinhc_minus_one, y)


@REGISTRY.formula("privacy.numbers.power_excess")
def _convex_excess() -> Iterator[Vector]:
    for y, truth in _mp(lambda y: y * MP.exp(y) - MP.exp(y) + 1, 1e-9, -3.0, 2.0):
        yield exact(truth, numbers.power_excess, y, 1.0)
    for order in (1.5, 2.0, 8.0):
        for y, truth in _mp(lambda y, a=order: MP.exp(a * y) - 1 - a * (MP.exp(y) - 1), 1e-9, -3.0, 2.0):
            yield exact(truth, numbers.power_excess, y, order)


@REGISTRY.formula("privacy.numbers.log_ratio")
def _log_ratio() -> Iterator[Vector]:
    tiny = F(1, 10**320)
    for p, q in ((F(1), F(1) + F(1, 10**30)), (F(2, 3), F(1, 3)), (F(1), 3 * tiny), (7 * tiny, F(1)), (F(1, 2), F(1))):
        with MP.workdps(100):
            truth = MP.log(real(p)) - MP.log(real(q))
        yield exact(truth, numbers.log_ratio, p, q)


@REGISTRY.formula("privacy.numbers.exprel_minus_real")
def _shrink_real() -> Iterator[Vector]:
    yield exact(1.0, numbers.exprel_minus_real, 0.0)
    for y, truth in _mp(lambda y: MP.quad(lambda x: MP.exp(-x * y), [0, 1]), 1e-15, 0.5, 3.0, 60.0):
        yield exact(truth, numbers.exprel_minus_real, y)


@REGISTRY.formula("privacy.numbers.log_exprel_minus_ratio")
def _log_shrink_gap() -> Iterator[Vector]:
    for low, high in ((1e-7, 2e-7), (0.001, 0.0099), (0.0, 0.02), (0.5, 3.0), (39.0, 45.0), (41.0, 41.5), (1e5, 1e9)):
        with MP.workdps(100):
            a, b = MP.mpf(low), MP.mpf(high)
            one = MP.log((1 - MP.exp(-a)) / a) if low else MP.mpf(0)
            truth = one - MP.log((1 - MP.exp(-b)) / b)
        yield exact(truth, numbers.log_exprel_minus_ratio, low, high)


@REGISTRY.formula("privacy.numbers.mills_ratio")
def _mills() -> Iterator[Vector]:
    for x in (0.0, 1.0, 4.99, 5.0, 12.0, 1000.0):
        truth = MP.quad(
            lambda t, x=x: MP.exp(-t * MP.mpf(x) - t * t / 2), [0, 1 / (1 + MP.mpf(x)), 10 / (1 + MP.mpf(x)), MP.inf]
        )
        yield exact(truth, numbers.mills_ratio, x)


@REGISTRY.formula("privacy.numbers.exprel_minus")
def _shrink() -> Iterator[Vector]:
    for y in (1e-9 + 0j, 0.5 + 2j, 30.0 - 1j, 0j):
        truth = MP.quad(lambda t, y=y: MP.exp(-t * MP.mpc(y)), [0, 0.25, 0.5, 0.75, 1])
        yield exact(
            (truth.real, truth.imag if y.imag else 0.0),
            lambda y=y: (
                (found := numbers.exprel_minus(np.array([y]))[0]).real,
                found.imag if y.imag else 0.0,
            ),
        )


@REGISTRY.formula("privacy.numbers.log_theta_ratio")
def _log_theta_ratio() -> Iterator[Vector]:
    for u, variance in ((0.3, 0.04), (0.5, 0.25), (0.25, 0.99), (0.25, 1.0), (0.5, 1.1)):
        with MP.workdps(60):
            here, there = (
                MP.fsum(MP.exp(-((x + MP.mpf(v)) ** 2) / (2 * MP.mpf(variance))) for x in range(-30, 31))
                for v in (u, 0.0)
            )
            truth = MP.log(here / there)
        yield between(
            float(truth) - 1e-12 * abs(float(truth)) - 1e-16,
            float(truth) + 1e-12 * abs(float(truth)) + 1e-16,
            lambda u=u, v=variance: float(numbers.log_theta_ratio(np.array([complex(u)]), v)[0].real),
        )


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
