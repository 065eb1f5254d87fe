"""Vectors of the mathematics of loss: curves, divergences, conversions, readings and what an account is charged.

Finite and discrete laws are enumerated, continuous ones integrated, best parameters searched for (``laws``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import sfumato as sf
from privacy.test_vectors import shifts, truth as worst_shift
from sfumato.privacy import divergences, numbers, stable_functions, theorems
from sfumato.privacy.losses import BoundedRangeLoss, ConcentratedLoss, PairLoss, ResponseLoss, excess_power
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, GaussianLoss, LaplaceLoss
from sfumato.privacy.precedents import believed
from sfumato.privacy.reading import _log_odds, posterior, reading
from sfumato.privacy.sensitivity import _root_above
from sfumato.privacy.threshold_losses import (
    GaussianThresholdLoss,
    LaplaceThresholdLoss,
    laplace_tail,
    most_passing,
)
from sfumato.privacy.vector_losses import DiscreteGaussianVectorLoss, largest_shifts
from vectors.laws import (
    MP,
    Pairs,
    Real,
    as_fraction,
    at_least,
    binomial,
    conversion,
    down,
    enclosing,
    epsilon_of,
    gaussian_law,
    hockey_stick,
    laplace_law,
    least_value,
    most_value,
    moved,
    partitions,
    product,
    real,
    renyi,
    response,
    root,
    up,
    upper,
    upper_fraction,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction
_ROUNDED = 1e-12
"""2^−40, by which computed reals are rounded up, and a bit."""
_TIGHT = 1e-13
"""How close the bounds of a closed form lie."""
_INVERTED = 3e-10
"""How close the bounds of an inverted moment function lie."""

REGISTRY = Registry(
    scopes=(
        Scope(
            tuple(
                f"privacy/{name}.py"
                for name in (
                    "budget",
                    "curve",
                    "composition",
                    "divergences",
                    "losses",
                    "noise_losses",
                    "numbers",
                    "odometer",
                    "precedents",
                    "reading",
                    "sensitivity",
                    "shape",
                    "stable_functions",
                    "theorems",
                    "threshold_losses",
                    "vector_losses",
                )
            ),
            words=frozenset(
                "above adaptive advanced allowance azuma believed bound charge chernoff concentrated cost delta epsilon"
                " excess failure gap gaussian gdp group laplace least line log mean mills most odds optimal order passing"
                " posterior pure quantile ratio renyi rho root share shrink slack squares stirling tail theta times units"
                " usual tradeoff".split()
            ),
            parameters=frozenset({"confidence", "delta", "order", "rho", "slack", "signed"}),
        ),
    ),
    exempt={
        "privacy.budget.Budget.__init__": "its allowances are those of renyi_allowance and allowance_units",
        "privacy.budget.Budget.charge": "it adds a cost, which has vectors",
        "privacy.losses.ResponseLoss.log_moment": "composed curves of it have vectors",
        "privacy.losses.BoundedRangeLoss.log_moment": "composed curves of it have vectors",
        "privacy.losses.BoundedRangeLoss.log_bound": "composed curves of it have vectors",
        "privacy.losses.PairLoss.log_moment": "composed curves of it have vectors",
        "privacy.losses.PairLoss.log_decay": "composed curves of it have vectors",
        "privacy.losses.ResponseLoss.log_decay": "composed curves of it have vectors",
        "privacy.noise_losses.LaplaceLoss.log_moment": "composed curves of it have vectors",
        "privacy.noise_losses.LaplaceLoss.log_bound": "composed curves of it have vectors",
        "privacy.noise_losses.LaplaceLoss.log_decay": "composed curves of it have vectors",
        "privacy.noise_losses.DiscreteGaussianLoss.log_moment": "composed curves of it have vectors",
        "privacy.noise_losses.DiscreteGaussianLoss.log_decay": "composed curves of it have vectors",
        "privacy.theorems._best_order.rho": "renyi_allowance without an order has vectors",
        "privacy.theorems._best_order": "renyi_allowance without an order has vectors",
        "privacy.reading._log_odds.bound": "the whole search over it has vectors",
    },
)


def _power(base: Any, exponent: int) -> Real:
    """Multiply, one factor after the other."""
    found = MP.mpf(1)
    for _ in range(exponent):
        found *= base
    return found


# ── theorems ───────────────────────────────────────────────────────────────────────────────────


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

        yield between((as_fraction(truth), total), (as_fraction(truth * (1 + _ROUNDED)), total), call)
    yield between(6.3082309505, 6.30823095053, lambda: theorems.advanced(sf.Guarantee("0.1"), 100, "1e-6").epsilon)


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
        yield between(low, [as_fraction(each * (1 + _ROUNDED)) + F(1, 10**45) for each in truths], call)


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

        most = as_fraction(truth * (1 + _ROUNDED))
        yield between((k * F(epsilon), as_fraction(truth)), (k * F(epsilon), most), call)


@REGISTRY.formula("privacy.losses.ResponseLoss.group")
def _group_of_responses() -> Iterator[Vector]:
    for epsilon, delta, k in (("1", "1e-6", 2), ("0.25", "1e-4", 7), ("0", "0.01", 3)):
        truth = real(delta) * MP.fsum(MP.exp(j * real(epsilon)) for j in range(k))
        curve = sf.Curve.approximate(epsilon, delta)
        yield upper_fraction(truth, _ROUNDED, lambda curve=curve, k=k: curve.group(k).failure)


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
        yield upper(truth, _ROUNDED, theorems.renyi_to_epsilon, order, divergence, delta)
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
        yield upper(MP.exp(log), _ROUNDED, theorems.chernoff_additive, samples, deviation)
    yield exact(1.0, theorems.chernoff_additive, 3, 0)


@REGISTRY.formula("privacy.theorems.chernoff_multiplicative")
def _chernoff_multiplicative() -> Iterator[Vector]:
    for samples, mean, ratio, part in ((100, "0.2", "0.5", 3), (30, "0.5", "-0.4", 2), (7, "1", "1", 3)):
        truth = _power(MP.exp(-real(mean) * real(ratio) ** 2 / part), samples)
        yield upper(truth, _ROUNDED, theorems.chernoff_multiplicative, samples, mean, ratio)
    yield exact(1.0, theorems.chernoff_multiplicative, 3, "0.5", 0)


@REGISTRY.formula("privacy.theorems.azuma")
def _azuma() -> Iterator[Vector]:
    for effects, deviation in (((1, 2, 3), "4"), (("0.5",) * 10, "1"), ((1,), "0.25")):
        squares = MP.fsum(real(c) ** 2 for c in effects)
        log = least_value(lambda x, s=squares, t=deviation: x * x * s / 8 - x * real(t), 0, 50)
        yield upper(MP.exp(log), _ROUNDED, theorems.azuma, effects, deviation)
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


# ── divergences of finite laws ─────────────────────────────────────────────────────────────────

_P, _Q = ("0.5", "0.3", "0.15", "0.05"), ("0.1", "0.2", "0.3", "0.4")
_KNOWN: Pairs = [(real(p), real(q)) for p, q in zip(_P, _Q, strict=True)]
_RARE = ("0.999999", "0.000001"), ("0.999998", "0.000002")
_RARE_PAIRS: Pairs = [(real(p), real(q)) for p, q in zip(*_RARE, strict=True)]


@REGISTRY.formula("privacy.divergences.renyi")
def _renyi_of_pairs() -> Iterator[Vector]:
    for order in ("0.5", "0.01", "1", "1.5", "2", "32"):
        yield exact(renyi(_KNOWN, order), divergences.renyi, _P, _Q, order)
        yield exact(renyi(_RARE_PAIRS, order), divergences.renyi, *_RARE, order)
    far = ("0.999", "0.001", 0), (0, "1e-9", "0.999999999")
    apart = MP.log(real("0.001") ** real("0.3") * real("1e-9") ** real("0.7")) / real("-0.7")
    yield exact(apart, divergences.renyi, *far, "0.3")
    close = ("0.9", "0.1", 0), ("0.8", "0.15", "0.05")
    alone = MP.log(MP.fsum(real(p) ** real("0.3") * real(q) ** real("0.7") for p, q in zip(*close, strict=True))) / real("-0.7")
    yield exact(alone, divergences.renyi, *close, "0.3")
    yield exact(math.inf, divergences.renyi, [1, 0], [0, 1], 2)
    yield exact(math.inf, divergences.renyi, [1, 0], [0, 1], "0.5")


@REGISTRY.formula("privacy.losses.PairLoss.renyi")
def _renyi_of_exact_pairs() -> Iterator[Vector]:
    """Also where powers overflow, and outside a failure in both directions, normalised apart."""
    for order in ("1", "7", "300"):
        worst = max(renyi(_KNOWN, order), renyi([(q, p) for p, q in _KNOWN], order))
        yield exact(worst, lambda order=order: sf.Curve.pair(_P, _Q).renyi(order))
    near = float(max(renyi(_KNOWN, "1.001"), renyi([(q, p) for p, q in _KNOWN], "1.001")))
    yield between(near - 1e-12, near + 1e-12, lambda: sf.Curve.pair(_P, _Q).renyi("1.001"))  # 1e-15/(α − 1)
    inside: Pairs = [(MP.mpf(1) / 3, MP.mpf(3) / 7), (MP.mpf(2) / 3, MP.mpf(4) / 7)]  # of (.3, .6, .1, 0), (.3, .4, 0, .3)
    worst = max(renyi(inside, 5), renyi([(q, p) for p, q in inside], 5))
    yield exact(worst, lambda: sf.Curve.pair(("0.3", "0.6", "0.1", 0), ("0.3", "0.4", 0, "0.3")).renyi(5))


@REGISTRY.formula("privacy.losses.PairLoss._mean")
def _mean_of_exact_pairs() -> Iterator[Vector]:
    """The KL divergence where e^loss is beyond e^30."""
    for rare in ("1e-20", "1e-100", "1e-200"):
        far: Pairs = [(MP.mpf("0.5"), real(rare)), (MP.mpf("0.5"), 1 - real(rare))]
        loss = PairLoss((F(1, 2), F(1, 2)), (F(rare), 1 - F(rare)))
        yield exact(renyi(far, 1), loss._mean)


@REGISTRY.formula("privacy.losses.PairLoss.delta")
def _delta_of_pairs() -> Iterator[Vector]:
    for epsilon in ("0", "0.5", "1.5"):
        worst = max(hockey_stick(_KNOWN, epsilon), hockey_stick([(q, p) for p, q in _KNOWN], epsilon))
        yield enclosing(worst, 1e-13, sf.Curve.pair(_P, _Q).delta_range, epsilon)


@REGISTRY.formula("privacy.losses.PairLoss.failure")
@REGISTRY.formula("privacy.losses.PairLoss._other_failure")
def _failure_of_pairs() -> Iterator[Vector]:
    for p, q, failure in (
        ((1, 0, 0), ("0.5", "0.25", "0.25"), F(1, 2)),
        (("0.9", "0.1", 0), ("0.7", 0, "0.3"), F(3, 10)),
        (("0.5", "0.5"), ("0.25", "0.75"), F(0)),
    ):
        curve = sf.Curve.pair(p, q)
        yield exact((failure, failure), lambda c=curve: (c.failure, sf.Curve(c.parts).failure + 0 * c.renyi_above(F(2))))


@REGISTRY.formula("privacy.losses.excess_power")
def _excess_power() -> Iterator[Vector]:
    for b, y, order in ((0.5, 40.0, 1.0), (1e-200, 300.0, 2.0), (0.25, -50.0, 1.5), (0.5, -40.0, 1.0), (0.5, 1.0, 2.0)):
        x, weight = MP.exp(MP.mpf(y)), MP.mpf(b)
        truth = weight * (x * y - x + 1) if order == 1 else weight * (x ** MP.mpf(order) - 1 - MP.mpf(order) * (x - 1))
        yield exact(truth, excess_power, b, y, order)


# ── functions that would cancel ────────────────────────────────────────────────────────────────


def _mp(function: Any, *points: float) -> Iterator[tuple[float, Real]]:
    """Evaluate with 100 digits: cancelling takes some of them."""
    with MP.workdps(100):
        found = [(x, function(MP.mpf(x))) for x in points]
    yield from found


@REGISTRY.formula("privacy.stable_functions.excess_exp")
def _excess_exp() -> Iterator[Vector]:
    yield exact(0.5, stable_functions.excess_exp, 0.0)
    for y, truth in _mp(lambda y: (MP.exp(y) - 1 - y) / y**2, 1e-12, 0.3, -0.3, 0.30001, -2.0, 30.0):
        yield exact(truth, stable_functions.excess_exp, y)


@REGISTRY.formula("privacy.stable_functions.mean_excess")
def _mean_excess() -> Iterator[Vector]:
    yield exact(0.0, stable_functions.mean_excess, 0.0)
    for y, truth in _mp(lambda y: MP.sinh(y) / y - 1, 1e-9, 0.5, 1.0, -1.0, 1.0001, 20.0):
        yield exact(truth, stable_functions.mean_excess, y)


@REGISTRY.formula("privacy.stable_functions.convex_excess")
def _convex_excess() -> Iterator[Vector]:
    for y, truth in _mp(lambda y: y * MP.exp(y) - MP.exp(y) + 1, 1e-9, -3.0, 2.0):
        yield exact(truth, stable_functions.convex_excess, y, 1.0)
    for order in (1.5, 2.0, 8.0):
        for y, truth in _mp(lambda y, a=order: MP.exp(a * y) - 1 - a * (MP.exp(y) - 1), 1e-9, -3.0, 2.0):
            yield exact(truth, stable_functions.convex_excess, y, order)


@REGISTRY.formula("privacy.stable_functions.log_ratio")
def _log_ratio() -> Iterator[Vector]:
    tiny = F(1, 10**320)
    for p, q in ((F(1), F(1) + F(1, 10**30)), (F(2, 3), F(1, 3)), (F(1), 3 * tiny), (7 * tiny, F(1)), (F(1, 2), F(1))):
        with MP.workdps(100):
            truth = MP.log(real(p)) - MP.log(real(q))
        yield exact(truth, stable_functions.log_ratio, p, q)


@REGISTRY.formula("privacy.stable_functions.shrink_real")
def _shrink_real() -> Iterator[Vector]:
    yield exact(1.0, stable_functions.shrink_real, 0.0)
    for y, truth in _mp(lambda y: MP.quad(lambda x: MP.exp(-x * y), [0, 1]), 1e-15, 0.5, 3.0, 60.0):
        yield exact(truth, stable_functions.shrink_real, y)


@REGISTRY.formula("privacy.stable_functions.log_shrink_gap")
def _log_shrink_gap() -> Iterator[Vector]:
    for low, high in ((1e-7, 2e-7), (0.001, 0.0099), (0.0, 0.02), (0.5, 3.0), (39.0, 45.0), (41.0, 41.5), (1e5, 1e9)):
        with MP.workdps(100):
            a, b = MP.mpf(low), MP.mpf(high)
            one = MP.log((1 - MP.exp(-a)) / a) if low else MP.mpf(0)
            truth = one - MP.log((1 - MP.exp(-b)) / b)
        yield exact(truth, stable_functions.log_shrink_gap, low, high)


@REGISTRY.formula("privacy.stable_functions.mills")
def _mills() -> Iterator[Vector]:
    for x in (0.0, 1.0, 4.99, 5.0, 12.0, 1000.0):
        truth = MP.quad(lambda t, x=x: MP.exp(-t * MP.mpf(x) - t * t / 2), [0, 1 / (1 + MP.mpf(x)), 10 / (1 + MP.mpf(x)), MP.inf])
        yield exact(truth, stable_functions.mills, x)


@REGISTRY.formula("privacy.stable_functions.shrink")
def _shrink() -> Iterator[Vector]:
    for y in (1e-9 + 0j, 0.5 + 2j, 30.0 - 1j, 0j):
        truth = MP.quad(lambda t, y=y: MP.exp(-t * MP.mpc(y)), [0, 0.25, 0.5, 0.75, 1])
        yield exact(
            (truth.real, truth.imag if y.imag else 0.0),
            lambda y=y: ((found := stable_functions.shrink(np.array([y]))[0]).real, found.imag if y.imag else 0.0),
        )


@REGISTRY.formula("privacy.stable_functions.log_theta_ratio")
def _log_theta_ratio() -> Iterator[Vector]:
    for u, variance in ((0.3, 0.04), (0.5, 0.25), (0.25, 0.99), (0.25, 1.0), (0.5, 1.1)):
        with MP.workdps(60):
            here, there = (
                MP.fsum(MP.exp(-((x + MP.mpf(v)) ** 2) / (2 * MP.mpf(variance))) for x in range(-30, 31)) for v in (u, 0.0)
            )
            truth = MP.log(here / there)
        yield between(
            float(truth) - 1e-12 * abs(float(truth)) - 1e-16,
            float(truth) + 1e-12 * abs(float(truth)) + 1e-16,
            lambda u=u, v=variance: float(stable_functions.log_theta_ratio(np.array([complex(u)]), v)[0].real),
        )


# ── losses of noise ────────────────────────────────────────────────────────────────────────────


def _continuous_laplace(x: Real, function: Any) -> Real:
    """Integrate over a unit Laplace and one moved by x."""
    ends = [-60 - 0 * x, MP.mpf(0), x, x + 60] if x else [-60, 0, 60]

    def at(z: Real) -> Real:
        return function(MP.exp(-abs(z)) / 2, MP.exp(-abs(z - x)) / 2)

    with MP.workdps(25):
        return MP.quad(at, ends)


def _laplace_delta(x: Any, epsilon: Any) -> Real:
    """The loss falls from x to −x over the shift: below the middle less ε/2 P is the larger."""
    cut, growth = (real(x) - real(epsilon)) / 2, MP.exp(real(epsilon))
    ends = [-MP.inf, 0, cut] if cut > 0 else [-MP.inf, cut]
    return MP.quad(lambda z: (MP.exp(-abs(z)) - growth * MP.exp(-abs(z - real(x)))) / 2, ends)


@REGISTRY.formula("privacy.noise_losses.LaplaceLoss.delta")
def _delta_of_laplace() -> Iterator[Vector]:
    for scale, epsilon in (("1", "0.5"), ("2", "0"), ("0.25", "3.5")):
        truth = _laplace_delta(1 / F(scale), epsilon)
        yield enclosing(truth, 1e-13, sf.Curve.laplace(scale).delta_range, epsilon)
    for scale, shift, epsilon in (("1", 1, "0.5"), ("2", 3, "0.2"), ("10", 7, "0"), ("0.5", 2, "3"), ("3", 5, "1.6"), ("4", 4, "0.51")):
        truth = hockey_stick(moved(laplace_law(F(scale)), shift), epsilon)
        yield enclosing(truth, 1e-13, sf.Curve.discrete_laplace(scale, shift).delta_range, epsilon)
    yield exact((0.0, 0.0), LaplaceLoss(F(3, 2), F(1, 2)).delta, 1.51)


@REGISTRY.formula("privacy.noise_losses.LaplaceLoss.renyi")
def _renyi_of_laplace() -> Iterator[Vector]:
    """Small and large products of order and loss, order 1, both kinds of noise."""
    for scale, order in (("1", "2"), ("10", "10"), ("2", "32"), ("1", "1"), ("0.25", "1"), ("0.05", "3"), ("0.5", "200")):
        x, alpha = 1 / real(scale), real(order)
        if alpha == 1:
            truth = _continuous_laplace(x, lambda p, q: p * MP.log(p / q))
        else:
            truth = MP.log(_continuous_laplace(x, lambda p, q, a=alpha: p * (p / q) ** (a - 1))) / (alpha - 1)
        yield exact(truth, LaplaceLoss(1 / F(scale)).renyi, float(order))
    for scale, shift, order in (
        ("1", 1, "2"),
        ("10", 1, "10"),
        ("2", 1, "32"),
        ("3", 4, "1"),
        ("0.5", 1, "1"),
        ("0.1", 1, "1.5"),
        ("0.5", 3, "40"),
        ("20", 3, "1.0001"),
    ):
        truth = renyi(moved(laplace_law(F(scale)), shift), order)
        yield exact(truth, lambda s=scale, k=shift, o=order: sf.Curve.discrete_laplace(s, k).renyi(o))


@REGISTRY.formula("privacy.noise_losses.LaplaceLoss.group")
def _group_of_laplace() -> Iterator[Vector]:
    """k units move a number k times as far."""
    for scale, shift, k, epsilon in (("3", 1, 2, "0.3"), ("3", 2, 3, "0.3"), ("5", 1, 5, "0")):
        truth = hockey_stick(moved(laplace_law(F(scale)), k * shift), epsilon)
        curve = sf.Curve.discrete_laplace(scale, shift)
        yield enclosing(truth, 1e-13, lambda c=curve, k=k, e=epsilon: c.group(k).delta_range(e))


def _gaussian_delta(mu: Any, epsilon: Any) -> Real:
    m = real(mu)
    start = real(epsilon) / m + m / 2
    width = 1 / (1 + abs(start))
    ends = [start, start + width, start + 5 * width, start + 10 * width, start + 30 * width, MP.inf]
    growth, unit = MP.exp(real(epsilon)), MP.sqrt(2 * MP.pi)
    with MP.workdps(min(MP.dps, 24)):
        return MP.quad(lambda z: (MP.exp(-((z - m) ** 2) / 2) - growth * MP.exp(-z * z / 2)) / unit, ends)


@REGISTRY.formula("privacy.noise_losses.GaussianLoss.delta")
@REGISTRY.formula("privacy.curve.Curve.gdp")
def _delta_of_gaussian() -> Iterator[Vector]:
    for mu, epsilon in (("1", "4.88655411746"), ("0.25", "1"), ("2", "0"), ("3", "0.5"), ("0.1", "0.6"), ("5", "30")):
        yield enclosing(_gaussian_delta(mu, epsilon), 1e-12, lambda m=mu, e=epsilon: sf.Curve.gdp(m).delta_range(e))


@REGISTRY.formula("privacy.noise_losses.GaussianLoss.renyi")
def _renyi_of_gaussian() -> Iterator[Vector]:
    for sigma, change, order in (("2", "1", "3"), ("1", "0.5", "1"), ("10", "3", "64")):
        m, a = real(change) / real(sigma), real(order)
        unit = MP.sqrt(2 * MP.pi)
        if a == 1:
            truth = MP.quad(lambda z, m=m: MP.exp(-((z - m) ** 2) / 2) / unit * (z * m - m * m / 2), [-15, 0, m, 15 + m])
        else:
            peak = a * m
            raised = MP.quad(
                lambda z, m=m, a=a: MP.exp(-((z - m) ** 2) / 2 + (a - 1) * (z * m - m * m / 2)) / unit,
                [peak - 20, peak - 3, peak, peak + 3, peak + 20],
            )
            truth = MP.log(raised) / (a - 1)
        yield exact(truth, lambda s=sigma, c=change, o=order: sf.Curve.gaussian(s, c).renyi(o))


@REGISTRY.formula("privacy.noise_losses.GaussianLoss.group")
def _group_of_gaussian() -> Iterator[Vector]:
    for mu, k, epsilon in (("0.5", 2, "1"), ("0.25", 3, "0.1"), ("1", 4, "8")):
        truth = _gaussian_delta(k * F(mu), epsilon)
        yield enclosing(truth, 1e-12, lambda m=mu, k=k, e=epsilon: sf.Curve.gdp(m).group(k).delta_range(e))


@REGISTRY.formula("privacy.curve.Curve.gaussian")
def _curve_of_gaussian() -> Iterator[Vector]:
    """Several coordinates count by their Euclidean length."""
    for sigma, change, length in (
        ("3", sf.Sensitivity(4, 2), "4"),
        ("5", sf.Sensitivity(3, 1, 2), MP.sqrt(2)),
        ("2", sf.Sensitivity(2, 3, neighbours="replace"), MP.sqrt(18)),
    ):
        mu = (real(length) if isinstance(length, str) else length) / real(sigma)
        yield enclosing(_gaussian_delta(mu, 1), 1e-12, lambda s=sigma, c=change: sf.Curve.gaussian(s, c).delta_range(1))


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianLoss.renyi")
def _renyi_of_discrete_gaussian() -> Iterator[Vector]:
    for sigma, shift, order in (("0.3", 1, "1.5"), ("0.5", 2, "3"), ("2", 1, "1.25"), ("0.4", 1, "1"), ("0.9", 3, "2.7")):
        with MP.workdps(60):
            truth = renyi(moved(gaussian_law(F(sigma)), shift), order)
        yield exact(truth, DiscreteGaussianLoss(F(sigma) ** 2, shift).renyi, float(order))


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianLoss.group")
def _group_of_discrete_gaussian() -> Iterator[Vector]:
    for sigma, shift, k, epsilon in (("2", 1, 2, "0.5"), ("4", 2, 3, "1"), ("0.7", 1, 2, "0")):
        truth = hockey_stick(moved(gaussian_law(F(sigma)), k * shift), epsilon)
        curve = sf.Curve.discrete_gaussian(sigma, shift)
        yield enclosing(truth, _INVERTED, lambda c=curve, k=k, e=epsilon: c.group(k).delta_range(e))


@REGISTRY.formula("privacy.curve.Curve.discrete_gaussian")
def _curve_of_discrete_gaussian() -> Iterator[Vector]:
    """Every coordinate may move fully: the product of their laws, one by one; else the worst shift of all."""
    for sigma, change, shift in (
        ("1.5", sf.Sensitivity(2, 1), (1, 1)),
        ("2", sf.Sensitivity(1, "1.5"), (2,)),  # a real change is rounded up
        ("4.224678889326844", sf.Sensitivity(1, 1), (1,)),
    ):
        law = moved(gaussian_law(F(sigma)), shift[0])
        truth = hockey_stick(product(law, law) if len(shift) == 2 else law, 1)
        yield enclosing(truth, _INVERTED, lambda s=sigma, c=change: sf.Curve.discrete_gaussian(s, c).delta_range(1))
    change = sf.Sensitivity(3, 2, 3)
    truth = max(worst_shift("2", shift, "1") for shift in shifts(change))
    yield enclosing(MP.mpf(truth), 1e-7, lambda: sf.Curve.discrete_gaussian(2, change).delta_range(1))


@REGISTRY.formula("privacy.curve.Curve.laplace")
@REGISTRY.formula("privacy.curve.Curve.discrete_laplace")
def _curve_of_laplace() -> Iterator[Vector]:
    """Of all whole changes within a sensitivity the worst is found by trying each of them."""
    law = laplace_law(F(3))
    few = {size: _merged(moved(law, size)) for size in (1, 2, 3)}
    for change, epsilon in ((sf.Sensitivity(2, 3, 4), "0.4"), (sf.Sensitivity(3, 2, 3), "0.2"), (sf.Sensitivity(2, 2), "0")):
        tried = [
            hockey_stick(product(*(few[size] for size in split)), epsilon)
            for split in partitions(int(change.total), int(change.per_group))
            if len(split) <= change.groups
        ]
        yield enclosing(max(tried), _INVERTED, _both_laplace, change, epsilon)


def _both_laplace(change: sf.Sensitivity, epsilon: str) -> tuple[float, float]:
    """The continuous noise leaks no more, and takes the same way."""
    assert sf.Curve.laplace(3, change).delta(epsilon) <= sf.Curve.discrete_laplace(3, change).delta(epsilon)
    return sf.Curve.discrete_laplace(3, change).delta_range(epsilon)


def _merged(pairs: Pairs) -> Pairs:
    """Add up outcomes of one loss."""
    found: dict[str, list[Real]] = {}
    for p, q in pairs:
        cell = found.setdefault(MP.nstr(p / q, 25), [MP.mpf(0), MP.mpf(0)])
        cell[0], cell[1] = cell[0] + p, cell[1] + q
    return [(p, q) for p, q in found.values()]


# ── losses of promises ─────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("privacy.losses.ResponseLoss.renyi")
def _renyi_of_response() -> Iterator[Vector]:
    for epsilon, choices, order in (("1", 2, "2"), ("0.1", 5, "10"), ("3", 4, "40"), ("2", 3, "1"), ("1e-6", 2, "1.5"), ("40", 2, "1")):
        truth = renyi(response(epsilon, choices), order)
        yield exact(truth, ResponseLoss(F(epsilon), choices).renyi, float(order))


@REGISTRY.formula("privacy.losses.ResponseLoss.delta")
def _delta_of_response() -> Iterator[Vector]:
    for epsilon, choices, at in (("1", 2, "0"), ("1", 5, "0.5"), ("3", 4, "2.9")):
        truth = hockey_stick(response(epsilon, choices), at)
        yield enclosing(truth, _TIGHT, sf.Curve.randomized_response(epsilon, choices).delta_range, at)
    for epsilon, reveal, at in (("1", "0.01", "0.5"), ("0.5", "1e-6", "0"), ("1", "1e-9", "0.9")):
        truth = hockey_stick(response(epsilon, 2, reveal), at)
        yield enclosing(truth, _TIGHT, sf.Curve.approximate(epsilon, reveal).delta_range, at)


def _ranged(eta: Any, t: Real) -> Pairs:
    """Two outcomes of loss t and t − η: their probabilities solve two linear equations."""
    high, low = MP.exp(t), MP.exp(t - real(eta))
    q = (1 - low) / (high - low)
    return [(q * high, q), ((1 - q) * low, 1 - q)]


@REGISTRY.formula("privacy.losses.BoundedRangeLoss.delta")
def _delta_of_ranges() -> Iterator[Vector]:
    for eta, epsilon in (("1", "0"), ("1", "0.5"), ("0.01", "0.001"), ("6", "2")):
        truth = most_value(lambda t, e=epsilon, n=eta: hockey_stick(_ranged(n, t), e), real(epsilon), real(eta))
        yield enclosing(truth, 1e-12, sf.Curve.bounded_range(eta).delta_range, epsilon)


@REGISTRY.formula("privacy.losses.BoundedRangeLoss.renyi")
def _renyi_of_ranges() -> Iterator[Vector]:
    for eta, order in (("1", "2"), ("0.1", "22"), ("1", "1"), ("3", "64"), ("50", "1"), ("1e-4", "5")):
        truth = most_value(lambda t, a=order, n=eta: renyi(_ranged(n, t), a), real(eta) / 10**6, real(eta) * (1 - MP.mpf(10) ** -6))
        yield exact(truth, BoundedRangeLoss(F(eta)).renyi, float(order))


@REGISTRY.formula("privacy.losses.BoundedRangeLoss.group")
def _group_of_ranges() -> Iterator[Vector]:
    """Ranges of a chain of neighbours add up."""
    for eta, k, epsilon in (("0.5", 2, "0.25"), ("0.1", 7, "0"), ("1", 3, "1")):
        whole = k * F(eta)
        truth = most_value(lambda t, e=epsilon, n=whole: hockey_stick(_ranged(n, t), e), real(epsilon), real(whole))
        yield enclosing(truth, 1e-12, lambda n=eta, k=k, e=epsilon: sf.Curve.bounded_range(n).group(k).delta_range(e))


def _concentrated_delta(rho: Any, epsilon: Any) -> Real:
    r, e = real(rho), real(epsilon)

    def log(log_z: Real) -> Real:
        z = MP.exp(log_z)
        return MP.log(conversion(1 + z, 0, 0)) + z * ((1 + z) * r - e)

    return MP.exp(least_value(log, -4, 6, 50))


@REGISTRY.formula("privacy.losses.ConcentratedLoss.renyi")
def _delta_of_concentration() -> Iterator[Vector]:
    for rho, order in (("0.5", "2"), ("0.01", "30"), ("2", "1")):
        truth = renyi([(MP.mpf(1), MP.mpf(1))], 2) + real(rho) * real(order)
        yield exact(truth, lambda r=rho, o=order: sf.Curve.concentrated(r).renyi(o))
    for rho, epsilon in (("0.5", "5.22153444453"), ("0.01", "0.5"), ("1", "2")):
        truth = _concentrated_delta(rho, epsilon)
        yield upper(truth, 1e-8, _with_divergence, rho, epsilon)


def _with_divergence(rho: str, epsilon: str) -> float:
    assert ConcentratedLoss(F(rho)).renyi(3.0) == 3 * float(F(rho))
    return theorems.rho_to_delta(rho, epsilon)


@REGISTRY.formula("privacy.losses.ConcentratedLoss.group")
def _group_of_concentration() -> Iterator[Vector]:
    for rho, k in (("0.5", 2), ("0.01", 3), ("1", 10)):
        yield exact(F(rho) * sum(2 * j + 1 for j in range(k)), lambda r=rho, k=k: sf.Curve.concentrated(r).group(k).parts[0][0].rho)


# ── curves ─────────────────────────────────────────────────────────────────────────────────────


def _composed(*parts: tuple[Pairs, int]) -> Pairs:
    found: Pairs = [(MP.mpf(1), MP.mpf(1))]
    for pairs, count in parts:
        for _ in range(count):
            found = _merged(product(found, pairs)) if len(pairs) < 400 else product(found, pairs)
    return found


def _curves() -> Iterator[tuple[sf.Curve, Pairs]]:
    law = laplace_law(F(2))
    yield sf.compose([(sf.Curve.pure("0.5"), 5)]), _composed((response("0.5"), 5))
    yield sf.compose([sf.Curve.discrete_laplace(2, 2), sf.Curve.pure("0.3")]), _composed((_merged(moved(law, 2)), 1), (response("0.3"), 1))
    yield (
        sf.compose([(sf.Curve.randomized_response("0.4", 3), 3), sf.Curve.randomized_response("0.7")]),
        _composed((response("0.4", 3), 3), (response("0.7"), 1)),
    )
    yield sf.compose([(sf.Curve.pair(_P, _Q), 2)]), _composed((_KNOWN, 2))


@REGISTRY.formula("privacy.composition.delta_range")
def _delta_range() -> Iterator[Vector]:
    for curve, pairs in _curves():
        back = [(q, p) for p, q in pairs]
        for epsilon in ("0", "0.2", "0.9"):
            truth = max(hockey_stick(pairs, epsilon), hockey_stick(back, epsilon))
            if truth:
                yield enclosing(truth, 2e-4 if curve.parts[0][0].lattice is None else 1e-8, curve.delta_range, epsilon)
    many = sf.compose([(sf.Curve.approximate("0.1", "1e-6"), 3)])
    failed = 1 - _power(1 - real("1e-6"), 3)
    yield upper(failed * (1 - MP.mpf(10) ** -15), 3e-15, lambda: many.delta_range("0.3")[1])  # as the decimal it means


@REGISTRY.formula("privacy.composition.epsilon_range")
def _epsilon_range() -> Iterator[Vector]:
    for curve, pairs in _curves():
        back = [(q, p) for p, q in pairs]
        for delta in ("0.2", "0.01"):
            truth = max(epsilon_of(pairs, delta), epsilon_of(back, delta))
            if truth:
                yield enclosing(truth, 2e-4 if curve.parts[0][0].lattice is None else 1e-7, curve.epsilon_range, delta)
        truth = max(epsilon_of(pairs, "1e-6"), epsilon_of(back, "1e-6"))
        yield upper(truth, 2e-4, lambda c=curve: c.epsilon_range("1e-6")[1])
    for scale, shift, delta in (("2", 3, "0.1"), ("5", 2, "1e-12"), ("1", 1, "0.3")):
        truth = epsilon_of(moved(laplace_law(F(scale)), shift), delta)
        yield enclosing(truth, 1e-12, sf.Curve.discrete_laplace(scale, shift).epsilon_range, delta)
    yield exact((0.5, 0.5), sf.Curve.laplace(2).epsilon_range, 0)


@REGISTRY.formula("privacy.composition._invert")
def _invert() -> Iterator[Vector]:
    """At an ε whose δ is integrated, the least ε for that δ is the same, to the digits that δ is rounded to."""
    for mu, epsilon in (("1", "4.75"), ("0.25", "1.375"), ("3", "0.5")):
        delta = F(MP.nstr(_gaussian_delta(mu, epsilon), 25))
        yield enclosing(real(epsilon), 1e-12, sf.Curve.gdp(mu).epsilon_range, delta)


@REGISTRY.formula("privacy.composition.renyi")
def _renyi_adds() -> Iterator[Vector]:
    for curve, pairs in _curves():
        for order in ("2", "9"):
            worst = max(renyi(pairs, order), renyi([(q, p) for p, q in pairs], order))
            yield exact(worst, curve.renyi, order)


@REGISTRY.formula("privacy.curve.Curve.renyi_above")
def _renyi_above() -> Iterator[Vector]:
    """What an account charges is never below the divergence."""
    for curve, pairs in _curves():
        for order in ("2", "21.9845", "1.01"):
            worst = max(renyi(pairs, order), renyi([(q, p) for p, q in pairs], order))
            high = worst * (1 + MP.mpf("1e-12")) + MP.mpf("3e-14") / (real(order) - 1)
            yield between(as_fraction(worst), as_fraction(high), curve.renyi_above, F(order))


@REGISTRY.formula("privacy.composition.failure_range")
def _failure_range() -> Iterator[Vector]:
    for shares in ((("0.01", 3),), (("0.5", 1), ("0.1", 2)), (("1e-6", 64),)):
        kept = F(1)
        for share, count in shares:
            for _ in range(count):
                kept *= 1 - F(share)
        yield exact(1 - kept, lambda s=shares: sf.compose([(sf.Curve.approximate("0.1", d), n) for d, n in s]).failure)
    for share, count in (("1e-6", 65), ("1e-9", 10**6)):
        truth = 1 - (1 - real(share)) ** count
        yield upper_fraction(truth, _ROUNDED, lambda s=share, n=count: sf.compose([(sf.Curve.approximate("0.1", s), n)]).failure)


@REGISTRY.formula("privacy.curve.Curve.tradeoff")
@REGISTRY.formula("privacy.shape.best_line")
def _tradeoff() -> Iterator[Vector]:
    """The best test, outcome by outcome (Neyman & Pearson): a lower bound of what it misses."""
    for curve, pairs, rate in (
        (sf.Curve.pure(1), response(1), "0.05"),
        (sf.Curve.randomized_response("0.5", 4), response("0.5", 4), "0.3"),
        (sf.Curve.approximate(1, "0.01"), response(1, 2, "0.01"), "0.2"),
        (sf.Curve.pure(2), response(2), "0.6"),
    ):
        truth = _missed(pairs, real(rate))
        yield between(down(truth) - 1e-6, down(truth), curve.tradeoff, rate)


def _missed(pairs: Pairs, rate: Real) -> Real:
    """Reject P where Q is likelier, until P is rejected as often as allowed."""
    missed = MP.mpf(1)
    for p, q in sorted(pairs, key=lambda pq: pq[1] / pq[0] if pq[0] else MP.inf, reverse=True):
        share = min(MP.mpf(1), rate / p) if p else MP.mpf(1)
        missed, rate = missed - share * q, rate - share * p
    return missed


@REGISTRY.formula("privacy.shape.least_rho")
def _least_rho() -> Iterator[Vector]:
    """sup D_α/α over all orders, searched for."""
    for curve, pairs in ((sf.Curve.pure(1), response(1)), (sf.Curve.randomized_response(3, 4), response(3, 4)), (sf.Curve.discrete_laplace(2, 3), _merged(moved(laplace_law(F(2)), 3)))):
        best = max(renyi(pairs, 1), most_value(lambda log, p=pairs: _per_order(p, 1 + MP.exp(log)), -12, 6))
        yield upper(best, 2e-7, curve.rho)
    yield exact(0.02, sf.Curve.discrete_gaussian(5, 1).rho)


def _per_order(pairs: Pairs, order: Real) -> Real:
    return renyi(pairs, order) / real(order)


@REGISTRY.formula("privacy.shape.PrivacyLoss.quantile")
@REGISTRY.formula("privacy.shape.PrivacyLoss._tail")
def _loss_of_pairs() -> Iterator[Vector]:
    """P(L > ε), outcome by outcome, away from the losses themselves; quantiles are such a loss."""
    for curve, pairs in ((sf.Curve.randomized_response(1, 4), response(1, 4)), (sf.compose([(sf.Curve.pure("0.5"), 3)]), _composed((response("0.5"), 3)))):
        for at in ("0.25", "-0.75", "0.9"):
            truth = MP.fsum(p for p, q in pairs if MP.log(p / q) > real(at))
            beyond = 1 - truth + (1 if truth == 1 else 0)

            def call(curve: sf.Curve = curve, at: str = at, share: Real = beyond) -> float:
                loss = curve.loss()
                assert loss.quantile(F(float(share / 2))) <= float(at) + 1e-6 or share == 1
                return loss.tail(at)

            yield upper(truth, 2e-4, call)


@REGISTRY.formula("privacy.shape.PrivacyLoss._delta_range")
def _delta_below_zero() -> Iterator[Vector]:
    for at in (-0.5, -1.5, 0.5):
        pairs = response("0.7", 3)
        truth = MP.fsum(max(MP.mpf(0), p - MP.exp(MP.mpf(at)) * q) for p, q in pairs)
        loss = sf.Curve.randomized_response("0.7", 3).loss()
        yield between(float(truth) * (1 - 1e-13), float(truth) * (1 + 1e-13), lambda x=at, s=loss: s._delta_range(x)[0])
        yield between(float(truth) * (1 - 1e-13), float(truth) * (1 + 1e-13), lambda x=at, s=loss: s._delta_range(x)[1])


# ── key thresholds ─────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("privacy.threshold_losses.laplace_tail")
def _laplace_tail() -> Iterator[Vector]:
    for scale, t in (("2", 5), ("2", 0), ("3", -4), ("0.5", 1), ("10", 200)):
        truth = at_least(laplace_law(F(scale)), t)
        yield between(float(truth) * (1 - 1e-15), float(truth) * (1 + 1e-15), laplace_tail, F(scale), t)


@REGISTRY.formula("privacy.threshold_losses.most_passing")
def _most_passing() -> Iterator[Vector]:
    """All ways to spread the weight are tried; the bound is theirs where equal keys are worst."""
    for scale, threshold, weight, most, gap in (("2", 20, 4, 1, 1e-30), ("2", 12, 4, 4, 1e-30), ("5", 30, 6, 2, 1e-30), ("1", 9, 5, 3, 3.0)):
        law = laplace_law(F(scale))
        tried = []
        for split in partitions(weight, most):
            hidden = MP.mpf(1)
            for size in split:
                hidden *= 1 - at_least(law, threshold - size)
            tried.append(1 - hidden)
        yield upper_fraction(max(tried), gap, most_passing, F(scale), threshold, weight, most)


@REGISTRY.formula("privacy.threshold_losses.LaplaceThresholdLoss.pure")
@REGISTRY.formula("privacy.threshold_losses.LaplaceThresholdLoss.renyi")
def _laplace_threshold() -> Iterator[Vector]:
    """Counts of 1 on every key, or all weight on one, and twice that under replace."""
    for scale, weight, most, neighbours in (("3", 3, 1, "add-remove"), ("3", 3, 3, "add-remove"), ("4", 2, 1, "replace"), ("4", 2, 2, "replace")):
        curve = sf.Curve.laplace_threshold(scale, 40, "1e-4", weight=weight, most=most, neighbours=neighbours)
        copies = (2 if neighbours == "replace" else 1) * weight // most
        one = moved(laplace_law(F(scale)), most)
        largest = MP.log(max(p / q for p, q in one)) * copies
        yield exact((largest, copies * renyi(one, 7)), lambda c=curve: (c.max_divergence, c.renyi(7)))


@REGISTRY.formula("privacy.threshold_losses.LaplaceThresholdLoss.group")
def _group_of_thresholds() -> Iterator[Vector]:
    for scale, threshold, weight, k in (("3", 30, 2, 2), ("2", 25, 1, 3), ("4", 40, 3, 2)):
        law = laplace_law(F(scale))
        worst = max(_passes(law, threshold, split) for split in partitions(k * weight, k))
        curve = sf.Curve.laplace_threshold(scale, threshold, "0.001", weight=weight)
        yield upper_fraction(worst, 1e-15, lambda c=curve, k=k: c.group(k).failure)
        loss = LaplaceThresholdLoss(F(scale), threshold, F("0.001"), weight).group(k)
        yield exact(k * weight / real(scale), lambda c=curve, k=k, same=loss: c.group(k).max_divergence if same else 0)


def _passes(law: Any, threshold: int, split: tuple[int, ...]) -> Real:
    hidden = MP.mpf(1)
    for size in split:
        hidden *= 1 - at_least(law, threshold - size)
    return 1 - hidden


@REGISTRY.formula("privacy.threshold_losses.GaussianThresholdLoss.renyi")
def _gaussian_threshold() -> Iterator[Vector]:
    """Cut both laws where their ratio passes e^ε, as the proof does: that divergence is bounded from above."""
    for sigma, epsilon, delta, order, gap in (("4", "1", "0.02", "3", 0.06), ("6", "0.7", "1e-3", "22", 0.05), ("3", "2", "0.01", "2", 0.06)):
        pairs, growth = moved(gaussian_law(F(sigma)), 1), MP.exp(real(epsilon))
        assert hockey_stick(pairs, epsilon) <= real(delta) / 2
        cut = [(min(p, growth * q), min(q, growth * p)) for p, q in pairs]
        kept = MP.fsum(p for p, _ in cut)
        truth = renyi([(p / kept, q / kept) for p, q in cut], order)
        loss = GaussianThresholdLoss(F(sigma) ** 2, 1, F(epsilon), F(delta))
        yield upper(truth, gap, loss.renyi, float(order))
    tight = GaussianThresholdLoss(F(4), 9, F(1, 10), F("0.5"))  # so little ε that randomised response proves more
    yield exact(renyi(response("0.1"), 5), tight.renyi, 5.0)


@REGISTRY.formula("privacy.curve.Curve.gaussian_threshold")
def _curve_of_gaussian_threshold() -> Iterator[Vector]:
    """ε and all of δ; the composed curve is the noise of each key beside a failure of δ/2."""
    for sigma, keys, epsilon, delta, neighbours in (("3", 1, "2", "0.02", "add-remove"), ("4", 1, "1", "0.1", "replace"), ("3", 2, "2", "0.1", "add-remove")):
        count = keys * (2 if neighbours == "replace" else 1)
        one = moved(gaussian_law(F(sigma)), 1)
        noise = hockey_stick(product(*[one] * count), "0.5")
        half = real(delta) / 2
        curve = lambda s=sigma, k=keys, e=epsilon, d=delta, n=neighbours: sf.Curve.gaussian_threshold(s, k, e, d, n)  # noqa: E731
        yield exact((F(epsilon), F(delta)), lambda c=curve: (c().max_divergence, c().failure))
        yield enclosing(half + (1 - half) * noise, 1e-9, lambda c=curve: c().delta_range("0.5"))


# ── vectors of whole numbers ───────────────────────────────────────────────────────────────────

_CHANGE = sf.Sensitivity(3, 2, 3)  # squares at most 5


@REGISTRY.formula("privacy.vector_losses.DiscreteGaussianVectorLoss.renyi")
@REGISTRY.formula("privacy.vector_losses.DiscreteGaussianVectorLoss.rho")
def _divergence_of_vectors() -> Iterator[Vector]:
    """The largest of all shifts: each coordinate's own, by sums."""
    for sigma, order in (("2", 2), ("6", 3), ("1.5", 5)):
        law = gaussian_law(F(sigma))
        worst = max(MP.fsum(renyi(moved(law, size), order) for size in shift) for shift in shifts(_CHANGE))
        loss = DiscreteGaussianVectorLoss(F(sigma) ** 2, 3, 2, 3, 5)
        yield upper(worst * (1 - MP.mpf(10) ** -15), 1e-9, loss.renyi, float(order))


@REGISTRY.formula("privacy.vector_losses.DiscreteGaussianVectorLoss.delta")
@REGISTRY.formula("privacy.vector_losses.DiscreteGaussianVectorLoss.slack")
def _delta_of_vectors() -> Iterator[Vector]:
    """Above the worst shift's, by no more than 2/σ² of the variance costs."""
    for sigma, epsilon in (("5.7", "0.5"), ("9.45", "0"), ("9.45", "1")):
        worst = max(worst_shift(sigma, shift, epsilon) for shift in shifts(_CHANGE))
        loss = DiscreteGaussianVectorLoss(F(sigma) ** 2, 3, 2, 3, 5)
        less = _gaussian_delta(MP.sqrt(5 / (real(sigma) ** 2 - 2)), epsilon)
        yield between(max(up(MP.mpf(worst)), up(less)), up(less * (1 + MP.mpf("1e-10"))), lambda s=loss, e=epsilon: sum(s.delta(float(e)) or ()))


@REGISTRY.formula("privacy.vector_losses.DiscreteGaussianVectorLoss.mu_squared")
def _mu_squared() -> Iterator[Vector]:
    for sigma_squared, squares, wanted in ((F(34), 8, F(1, 4)), (F(52), 5, F(1, 10)), (F(102), 3, F(3, 100))):
        yield exact(wanted, lambda v=sigma_squared, n=squares: DiscreteGaussianVectorLoss(v, 9, 9, 99, n).mu_squared)


@REGISTRY.formula("privacy.vector_losses.DiscreteGaussianVectorLoss.group")
def _group_of_vectors() -> Iterator[Vector]:
    """k vectors of the set are added up, all of them."""
    few = [shift for shift in itertools.product(range(-1, 2), repeat=3) if sum(map(abs, shift)) <= 2]
    loss = DiscreteGaussianVectorLoss(F(9), 3, 1, 2, 2)
    for k in (1, 2, 3):
        sums = {tuple(map(sum, zip(*picked, strict=True))) for picked in itertools.product(few, repeat=k)}
        wanted = (max(sum(map(abs, s)) for s in sums), max(sum(x * x for x in s) for s in sums), max(max(map(abs, s)) for s in sums))
        yield exact(wanted, lambda k=k: ((g := loss.group(k)).total, g.squares, g.per_group))


@REGISTRY.formula("privacy.vector_losses.largest_shifts")
def _largest_shifts() -> Iterator[Vector]:
    for change in (_CHANGE, sf.Sensitivity(2, 3, 4), sf.Sensitivity(4, 1, 3)):
        every = set(shifts(change))
        grown = {s for s in every if not any(_covers(other, s) for other in every if other != s)}
        squares = sorted((sum(x * x for x in s) for s in grown), reverse=True)
        bounds = change.groups, int(change.per_group), int(change.total), int(change.squares)
        yield exact(squares, lambda b=bounds: [sum(x * x for x in s) for s in largest_shifts.__wrapped__(*b)])


def _covers(large: tuple[int, ...], small: tuple[int, ...]) -> bool:
    return len(large) >= len(small) and all(a >= b for a, b in zip(large, small, strict=False))


# ── sensitivity ────────────────────────────────────────────────────────────────────────────────


def _vectors(groups: int, per_group: int, total: int, *, signed: bool) -> list[tuple[int, ...]]:
    """List the contributions of one unit to two coordinates more than it may touch."""
    values = range(-per_group if signed else 0, per_group + 1)
    every = itertools.product(values, repeat=groups + 1)
    return [v for v in every if sum(map(abs, v)) <= total and sum(1 for x in v if x) <= groups]


def _norms(vectors: Any) -> tuple[int, int, int]:
    return max(max(map(abs, v)) for v in vectors), max(sum(map(abs, v)) for v in vectors), max(sum(x * x for x in v) for v in vectors)


@REGISTRY.formula("privacy.sensitivity._concentrated_squares")
def _squares() -> Iterator[Vector]:
    for groups, per_group, total in ((3, 2, 5), (2, 3, 4), (3, 1, 2), (2, 2, 4)):
        wanted = _norms(_vectors(groups, per_group, total, signed=True))
        yield exact(wanted, lambda g=groups, p=per_group, t=total: ((s := sf.Sensitivity(g, p, t)).linf, s.l1, s.squares))


@REGISTRY.formula("privacy.sensitivity.Sensitivity.for_neighbours")
def _replaced() -> Iterator[Vector]:
    """Differences of all pairs of contributions; with one sign, and with both."""
    for groups, per_group, total, signed in ((2, 2, 3, True), (2, 2, 3, False), (1, 3, 3, True), (1, 3, 3, False), (2, 2, 4, False)):
        every = _vectors(groups, per_group, total, signed=signed)
        wide = [v + (0,) * groups for v in every]
        turned = [(0,) * groups + v for v in every]
        differences = [tuple(a - b for a, b in zip(v, w, strict=True)) for v in wide for w in wide + turned]
        # a bound on the squares is twice, or four times, that of one contribution
        most = (4 if signed else 2) * _norms(every)[2]
        reached = _norms(differences)

        def call(g: int = groups, p: int = per_group, t: int = total, signed: bool = signed) -> tuple[Fraction, ...]:
            found = sf.Sensitivity(g, p, t).for_neighbours("replace", signed=signed)
            return found.linf, found.l1, found.squares

        yield between(reached, (reached[0], reached[1], max(reached[2], most)), call)


@REGISTRY.formula("privacy.sensitivity.Sensitivity.times")
def _times() -> Iterator[Vector]:
    every = _vectors(2, 2, 3, signed=True)
    for k in (1, 2, 3):
        norms = [0, 0, 0]
        for picked in itertools.product(every[:: 3 if k == 3 else 1], repeat=k):
            norms = [max(a, b) for a, b in zip(norms, _norms([tuple(map(sum, zip(*picked, strict=True)))]), strict=True)]
        wanted = (2 * k, 3 * k, 5 * k * k)
        assert all(a <= b for a, b in zip(norms, wanted, strict=True))
        yield between(norms if k < 3 else wanted, wanted, lambda k=k: ((s := sf.Sensitivity(2, 2, 3).times(k)).linf, s.l1, s.squares))


@REGISTRY.formula("privacy.sensitivity._root_above")
def _roots() -> Iterator[Vector]:
    for square in (F(2), F(10**310), F(1, 3), F(9)):
        truth = MP.sqrt(real(square))
        yield upper(truth, 3e-16, _root_above, square)


# ── readings ───────────────────────────────────────────────────────────────────────────────────


def _posterior(prior: Any, log_odds: Real) -> Real:
    """Bayes' rule: the guess is e^{log_odds} times as likely where it is true."""
    p = real(prior)
    return p * MP.exp(log_odds) / (p * MP.exp(log_odds) + 1 - p)


@REGISTRY.formula("privacy.reading.posterior")
def _posteriors() -> Iterator[Vector]:
    for prior, log_odds in (("0.01", 1.0), ("0.5", 0.1), ("0.999", 3.0), ("1e-9", 20.0)):
        yield upper(_posterior(prior, MP.mpf(log_odds)), 1e-13, posterior, float(prior), log_odds)


@REGISTRY.formula("privacy.precedents.believed")
def _believed() -> Iterator[Vector]:
    """A loss above ε + h has probability at most δ/(1 − e^{−h}), which is ten times δ where e^{−h} is nine tenths."""
    for epsilon, delta, prior in (("1", "1e-6", "0.01"), ("0.5", "1e-9", "0.5"), ("2", "0", "0.1")):
        slack = root(lambda h: MP.exp(-h) * -10 + 9, 0, 1) if delta != "0" else MP.mpf(0)
        yield upper(_posterior(prior, real(epsilon) + slack), 1e-13, believed, sf.Guarantee(epsilon, delta), prior)


@REGISTRY.formula("privacy.reading._log_odds")
def _odds() -> Iterator[Vector]:
    """The least ε − ln(1 − δ(ε)/p) for a Gaussian, whose δ is integrated; and for a bare (ε, δ)."""
    for mu, share, low, high in (("0.25", "1e-6", "0.9", "1.4"), ("1", "0.01", "1.4", "3")):
        with MP.workdps(15):
            truth = least_value(lambda e, m=mu, p=share: _passed(e, _gaussian_delta(m, e), p), low, high, 22)
        yield upper(truth * (1 - MP.mpf("1e-8")), 1e-4, _log_odds, sf.Curve.gdp(mu), F(share))
    for epsilon, delta, share in (("1", "1e-6", "1e-5"), ("0.3", "1e-9", "2e-9")):
        truth = real(epsilon) - MP.log(1 - real(delta) / real(share))
        yield upper(truth, 1e-12, _log_odds, sf.Curve.approximate(epsilon, delta), F(share))


def _passed(epsilon: Real, delta: Real, share: str) -> Real:
    return real(epsilon) - MP.log(1 - delta / real(share)) if delta < real(share) else MP.mpf(1000) - real(epsilon)


@REGISTRY.formula("privacy.reading._usual")
def _usual() -> Iterator[Vector]:
    """Ten times the δ of an exchange, δ(1 + e^ε); of one unit where that is 1 or more; else half way to 1."""
    for epsilon, delta in (("1", "1e-6"), ("0.5", "1e-3")):
        truth = 10 * real(delta) * (1 + MP.exp(real(epsilon)))
        yield upper(truth, _ROUNDED, lambda e=epsilon, d=delta: reading(sf.Guarantee(e, d)).delta)
    yield exact(0.5, lambda: reading(sf.Guarantee(4, "0.05")).delta)
    yield exact(0.6, lambda: reading(sf.Guarantee(1, "0.2")).delta)
    yield exact(1e-5, lambda: reading(sf.Guarantee(1, "1e-6"), neighbours="replace").delta)


@REGISTRY.formula("privacy.reading.reading")
def _readings() -> Iterator[Vector]:
    for epsilon, prior, rate in (("1", "0.01", "0.05"), ("0.2", "0.5", "0.3"), ("3", "0.1", "0.001")):
        e = real(epsilon)
        found = 1 - _missed(response(epsilon), real(rate))
        truths = (_posterior(prior, e), _posterior(prior, 2 * e), found)
        yield upper(
            truths,
            2e-6,
            lambda e=epsilon, p=prior, r=rate: (
                (told := reading(sf.Guarantee(e), p, false_positive_rate=r)).membership,
                told.attribute,
                told.true_positive_rate,
            ),
        )


# ── odometers and accounts ─────────────────────────────────────────────────────────────────────


@REGISTRY.formula("privacy.odometer._default_order")
def _default_order() -> Iterator[Vector]:
    """1 + 2 ln(1/δ), to four digits; at least 1.1."""
    for delta, order in (("1e-6", F("28.63")), ("0.01", F("10.21")), ("0.99", F("1.1"))):
        yield exact(order, lambda d=delta: sf.odometer([sf.Curve.pure(1)], d).order)


@REGISTRY.formula("privacy.odometer._adaptive")
@REGISTRY.formula("privacy.odometer._totals")
def _adaptive() -> Iterator[Vector]:
    """Divergences of randomised response are added up; the smaller of both lines, and what failures add to it."""
    for epsilon, delta, order, count in (("0.1", "1e-6", "30", 40), ("0.5", "0.01", "4", 3), ("0.01", "1e-3", "12", 1)):
        line = [min(t * real(epsilon), t * renyi(response(epsilon), order) - MP.log(real(delta)) / (real(order) - 1)) for t in range(1, count + 1)]
        made = lambda e=epsilon, d=delta, o=order, n=count: sf.odometer([sf.Curve.pure(e)] * n, d, order=o).adaptive  # noqa: E731
        yield upper([each * (1 - MP.mpf(10) ** -14) for each in line], 1e-11, made)
    for failure, margin in (("1e-9", "1"), ("1e-8", "0.25"), ("3e-8", "0.7"), ("7e-10", "3"), ("1.1e-8", "0.3")):
        line = [t * real("0.5") + real(margin) - t * MP.log(1 - real(failure)) for t in (1, 2, 3)]
        missed = [real("1e-6") + t * real(failure) / (1 - MP.exp(-real(margin))) for t in (1, 2, 3)]
        again = lambda f=failure, m=margin: (  # noqa: E731
            (o := sf.odometer([sf.Curve.approximate("0.5", f)] * 3, "1e-6", order=20, margin=m)).adaptive,
            o.exceptions,
        )
        yield upper([*line, *missed], 1e-11, again)
    revealed = sf.Curve.pair([1, 0], [0, 1])
    yield exact((math.inf, 1.0), lambda: ((o := sf.odometer([revealed], "1e-6")).adaptive, o.exceptions))
    both = [(sf.Curve.approximate(1, "0.6"), 2)]
    yield exact((math.inf, 1.0), lambda: ((o := sf.odometer(both, "1e-6")).adaptive, o.exceptions))


@REGISTRY.formula("privacy.numbers.charge_units")
def _charge_units() -> Iterator[Vector]:
    for amount, units in ((F(1, 3), (10**30 + 2) // 3), (F(1, 10**31), 1), (F(2), 2 * 10**30), (F(0), 0)):
        yield exact(units, numbers.charge_units, amount)


@REGISTRY.formula("privacy.numbers.allowance_units")
def _allowance_units() -> Iterator[Vector]:
    for amount, units in ((F(1, 3), (10**30 - 1) // 3), (F(9, 10**31), 0), (F(2), 2 * 10**30)):
        yield exact(units, numbers.allowance_units, amount)


@REGISTRY.formula("privacy.budget.Budget.share")
def _share() -> Iterator[Vector]:
    account = sf.Budget(1, "1e-6")
    allowed = account.allowances
    for part in (F(1, 2), F(1, 3), F(1)):
        wanted = tuple(math.floor(part * units) for units in (allowed.pure, allowed.renyi, allowed.failure) if units is not None)
        yield exact(wanted, lambda p=part: ((s := account.share(p).allowances).pure, s.renyi, s.failure))


@REGISTRY.formula("privacy.budget.Budget.largest_pure")
def _largest_pure() -> Iterator[Vector]:
    """The largest ε whose response costs no more than the Rényi allowance, or what is left of ε."""
    yield exact(F(1), sf.Budget(1).largest_pure)
    for epsilon, delta in (("1", "1e-6"), ("0.1", "1e-3")):
        account = sf.Budget(epsilon, delta)
        order, allowed = account.order, real(F(account.allowances.renyi or 0, numbers.UNIT))
        affordable = root(lambda e, o=order, r=allowed: renyi(response(e), o) - r, 0, 10)
        best = max(affordable, real(epsilon))
        yield between(float(best) - 3e-9, float(best), account.largest_pure)
    spent = sf.Budget("0.1", "1e-3").charge(sf.Curve.pure("0.06"))
    left = real(F((spent.allowances.renyi or 0) - (spent.spent_renyi or 0), numbers.UNIT))
    afforded = root(lambda e: renyi(response(e), spent.order) - left, 0, 10)
    best = max(afforded, real("0.04"))
    yield between(float(best) - 3e-9, float(best), spent.largest_pure)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
