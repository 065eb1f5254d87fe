"""Vectors of textbook theorems and conversions between currencies."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sfumato as sf
from sfumato.privacy import theorems
from vectors.formula_words import LOSS_PARAMETERS, LOSS_WORDS
from vectors.laws import (
    MP,
    ROUNDED,
    Real,
    as_fraction,
    binomial,
    conversion,
    down,
    enclosing,
    hockey_stick,
    least_value,
    most_value,
    power,
    real,
    up,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            ("privacy/theorems.py",),
            words=LOSS_WORDS,
            parameters=LOSS_PARAMETERS,
        ),
    ),
    exempt={
        "privacy.theorems._best_order.rho": "renyi_allowance without an order has vectors",
        "privacy.theorems._best_order": "renyi_allowance without an order has vectors",
    },
)


@REGISTRY.formula("privacy.theorems.advanced")
def _advanced() -> Iterator[Vector]:
    """√(2k ln(1/δ′))·ε + kε(e^ε − 1), both functions as integrals."""
    for epsilon, delta, k, slack in (("0.1", 0, 100, "1e-6"), ("1", 0, 1, "1e-12"), ("0.01", "1e-8", 10, "0.5")):
        log = MP.quad(lambda x: 1 / x, [real(slack), 2 * real(slack), 1])
        rise = MP.quad(MP.exp, [0, real(epsilon)])
        truth = MP.sqrt(2 * k * log) * real(epsilon) + k * real(epsilon) * rise
        total = k * F(delta) + F(slack)

        def call(epsilon: str = epsilon, delta: Any = delta, k: int = k, slack: str = slack) -> tuple[Fraction, ...]:
            found = theorems.advanced(sf.Guarantee(epsilon, delta), k, slack)
            return found.epsilon, found.delta

        yield between((as_fraction(truth), total), (as_fraction(truth * (1 + ROUNDED)), total), call)
    yield between(6.3082309505, 6.30823095053, lambda: theorems.advanced(sf.Guarantee("0.1"), 100, "1e-6").epsilon)


@REGISTRY.formula("privacy.theorems._advanced_step_epsilon")
def _advanced_step() -> Iterator[Vector]:
    """The root ε₀ of √(2k ln(1/δ))·ε₀ + kε₀(e^ε₀ − 1) = ε in 50 digits, rounded down to twelve decimals."""
    for epsilon, delta, k in (("1", "1e-6", 100), ("0.1", "1e-9", 10), ("3", "0.01", 1000)):
        slope = MP.sqrt(2 * k * MP.log(1 / real(delta)))

        def excess(x: Real, slope: Real = slope, epsilon: str = epsilon, k: int = k) -> Real:
            return slope * x + k * x * (MP.exp(x) - 1) - real(epsilon)

        root = MP.findroot(excess, real(epsilon) / slope)
        step = (sf.Guarantee(epsilon, delta), k)
        yield between(
            as_fraction(root * (1 - MP.mpf("1e-8"))), as_fraction(root), theorems._advanced_step_epsilon, *step
        )


@REGISTRY.formula("privacy.theorems.optimal")
def _optimal() -> Iterator[Vector]:
    """k answers by randomised response, told apart by how many of them lie."""
    for epsilon, k in (("0.1", 10), ("1", 7), ("0.001", 4), ("3", 1)):
        lies = binomial(k, 1 / (1 + MP.exp(real(epsilon))))
        both = list(zip(lies, reversed(lies), strict=True))
        truths = [hockey_stick(both, (k - 2 * i) * F(epsilon)) for i in range(k // 2 + 1)]

        def call(epsilon: str = epsilon, k: int = k) -> list[Fraction]:
            found = theorems.optimal(epsilon, k)
            assert [each.epsilon for each in found] == [(k - 2 * i) * F(epsilon) for i in range(k // 2 + 1)]
            return [each.delta for each in found]

        low = [as_fraction(each) if each > MP.mpf(10) ** -45 else F(0) for each in truths]  # 1 − 1 is not quite 0
        yield between(low, [as_fraction(each * (1 + ROUNDED)) + F(1, 10**45) for each in truths], call)


@REGISTRY.formula("privacy.theorems.group")
def _group_of_guarantees() -> Iterator[Vector]:
    """A chain of k neighbours: P₀(S) ≤ e^ε·P₁(S) + δ ≤ …, unrolled."""
    for epsilon, delta, k in (("1", "1e-6", 3), ("0.1", "1e-9", 10), ("0", "0.01", 4), ("2", 0, 5)):
        truth = MP.mpf(0)
        for _ in range(k):
            truth = MP.exp(real(epsilon)) * truth + real(delta)

        def call(epsilon: str = epsilon, delta: Any = delta, k: int = k) -> tuple[Fraction, Fraction]:
            found = theorems.group(sf.Guarantee(epsilon, delta), k)
            return found.epsilon, found.delta

        most = as_fraction(truth * (1 + ROUNDED))
        yield between((k * F(epsilon), as_fraction(truth)), (k * F(epsilon), most), call)


@REGISTRY.formula("privacy.theorems.pure_to_rho")
def _pure_to_rho() -> Iterator[Vector]:
    for epsilon, rho in (("1", F(1, 2)), ("0.1", F(1, 200)), ("3", F(9, 2))):
        yield exact(rho, theorems.pure_to_rho, epsilon)


@REGISTRY.formula("privacy.theorems.renyi_to_delta")
def _renyi_to_delta() -> Iterator[Vector]:
    for order, divergence, epsilon in (("2", "0.5", "1"), ("32", "1", "3"), ("1.001", "0", "0.5"), ("5000", ".9", "1")):
        yield upper(conversion(order, divergence, epsilon), 3e-12, theorems.renyi_to_delta, order, divergence, epsilon)
    yield exact(1.0, theorems.renyi_to_delta, 2, 10, 0)
    yield exact(5e-324, theorems.renyi_to_delta, 100000, "0.9", 1)  # far below all floats, and not 0


@REGISTRY.formula("privacy.theorems.renyi_to_epsilon")
def _renyi_to_epsilon() -> Iterator[Vector]:
    for order, divergence, delta in (("2", "0.5", "0.01"), ("21.9845", "0.535455", "1e-6"), ("1.5", "3", "1e-12")):
        truth = _to_epsilon(order, divergence, delta)
        yield upper(truth, ROUNDED, theorems.renyi_to_epsilon, order, divergence, delta)
    yield exact(0.0, theorems.renyi_to_epsilon, 2, 0, "0.5")


def _to_epsilon(order: Any, divergence: Any, delta: Any) -> Real:
    return real(divergence) + MP.log(conversion(order, 0, 0) / real(delta)) / (real(order) - 1)


@REGISTRY.formula("privacy.theorems._conversion_cost")
def _conversion_cost() -> Iterator[Vector]:
    """Rounded up at the fortieth digit; the search for the truth ends with about 45."""
    for order, delta in (("2", "0.01"), ("21.9845", "9e-7"), ("1.01", "1e-12"), ("5000", "1e-30")):
        truth = _to_epsilon(order, 0, delta)
        low, high = (as_fraction(truth + side * MP.mpf(10) ** -36 * max(1, abs(truth))) for side in (-1, 1))
        yield between(low, high, theorems._conversion_cost, F(order), F(delta), "ROUND_CEILING")


@REGISTRY.formula("privacy.theorems.renyi_allowance")
def _renyi_allowance() -> Iterator[Vector]:
    for epsilon, delta, order in (("1", "1e-6", "21.9845"), ("3", "1e-9", "12"), ("0.5", "0.01", "40")):
        truth = real(epsilon) - _to_epsilon(order, 0, delta)
        promise = sf.Guarantee(epsilon, delta)
        low, high = (as_fraction(truth + side * MP.mpf(10) ** -36) for side in (-1, 1))
        yield between(
            (F(order), low),
            (F(order), high),
            lambda p=promise, o=order: ((found := theorems.renyi_allowance(p, o)).order, found.divergence),
        )


@REGISTRY.formula("privacy.theorems.RenyiAllowance.rho")
def _best_rho() -> Iterator[Vector]:
    """The best order is searched for again, in 50 digits."""
    for epsilon, delta in (("1", "1e-6"), ("3", "1e-9"), ("0.1", "0.001"), ("20", "1e-12")):
        best = most_value(
            lambda log, e=epsilon, d=delta: (real(e) - _to_epsilon(1 + MP.exp(log), 0, d)) / (1 + MP.exp(log)),
            -4,
            9,
            55,
        )
        promise = sf.Guarantee(epsilon, delta)
        low, high = as_fraction(best * (1 - MP.mpf("1e-10"))), as_fraction(best * (1 + MP.mpf(10) ** -36))
        yield between(low, high, lambda p=promise: theorems.renyi_allowance(p).rho)


@REGISTRY.formula("privacy.theorems.chernoff_additive")
def _chernoff_additive() -> Iterator[Vector]:
    """Hoeffding's lemma, E e^{λ(X−EX)} ≤ e^{λ²/8}, at the best λ."""
    for samples, deviation in ((10, "0.1"), (1000, "0.05"), (1, "0.5")):
        log = least_value(lambda x, m=samples, t=deviation: m * (x * x / 8 - x * real(t)), 0, 20)
        yield upper(MP.exp(log), ROUNDED, theorems.chernoff_additive, samples, deviation)
    yield exact(1.0, theorems.chernoff_additive, 3, 0)


@REGISTRY.formula("privacy.theorems.chernoff_multiplicative")
def _chernoff_multiplicative() -> Iterator[Vector]:
    for samples, mean, ratio, part in ((100, "0.2", "0.5", 3), (30, "0.5", "-0.4", 2), (7, "1", "1", 3)):
        truth = power(MP.exp(-real(mean) * real(ratio) ** 2 / part), samples)
        yield upper(truth, ROUNDED, theorems.chernoff_multiplicative, samples, mean, ratio)
    yield exact(1.0, theorems.chernoff_multiplicative, 3, "0.5", 0)


@REGISTRY.formula("privacy.theorems.azuma")
def _azuma() -> Iterator[Vector]:
    for effects, deviation in (((1, 2, 3), "4"), (("0.5",) * 10, "1"), ((1,), "0.25")):
        squares = MP.fsum(real(c) ** 2 for c in effects)
        log = least_value(lambda x, s=squares, t=deviation: x * x * s / 8 - x * real(t), 0, 50)
        yield upper(MP.exp(log), ROUNDED, theorems.azuma, effects, deviation)
    yield exact(0.0, theorems.azuma, [0], 1)
    yield exact(1.0, theorems.azuma, [0], 0)


@REGISTRY.formula("privacy.theorems.stirling")
def _stirling() -> Iterator[Vector]:
    """ln n! is added up; both bounds are within 1/(12n) − 1/(12n+1) of it."""
    for n in (1, 2, 10, 400):
        truth = MP.fsum(MP.log(j) for j in range(1, n + 1))
        away = MP.mpf(1) / (12 * n * (12 * n + 1)) + MP.mpf("1e-14") * n
        yield between((down(truth - away), down(truth)), (down(truth), up(truth + away)), theorems.stirling, n)
    for n in (10**6, 3 * 10**6 + 1, 10**8):  # where the bounds are closer than floats are
        yield enclosing(MP.loggamma(n + 1), 1e-14, theorems.stirling, n)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
