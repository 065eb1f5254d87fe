"""Vectors of what composes, calibrates and adds up: sums over enumerated pairs, roots in 50 digits, exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.privacy import amounts, calibration, inversion
from sfumato.privacy.inversion import Moments
from sfumato.privacy.losses import BoundedRangeLoss, Loss, ResponseLoss
from sfumato.privacy.noise_losses import GaussianLoss, LaplaceLoss
from vectors.formula_words import LOSS_PARAMETERS, LOSS_WORDS
from vectors.laws import MP, Pairs, Real, hockey_stick, laplace_law, product, real, renyi, response
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction
AMOUNT_WORDS = frozenset({"add", "amount", "subtract"})

REGISTRY = Registry(
    scopes=(
        Scope(
            ("privacy/inversion.py", "privacy/calibration.py", "privacy/amounts.py"),
            words=LOSS_WORDS | AMOUNT_WORDS,
            parameters=LOSS_PARAMETERS,
        ),
    ),
    exempt={
        "privacy.inversion.chernoff_epsilon_and_log_delta": "it chooses c, and every c > 0 gives bounds",
        "privacy.inversion.Inversion.lower_delta": "delta_range_of has vectors, of which it is the lower end",
        "privacy.inversion.Inversion._interpolated_delta": "both ends of delta_range_of come from it",
        "privacy.inversion.Inversion.smoothed_delta": "both ends of delta_range_of, which has vectors, come from it",
        "privacy.amounts.format_guarantee": "it writes amounts, and rounds none",
        "privacy.inversion._LossStack.log_decay": "it weighs what each family bounds, which tests compare with moments",
        "privacy.inversion._LossStack.log_moment": "it is the sum that Moments.log_moment has vectors for",
        "privacy.inversion._LossStack.log_bound": "it is the sum that Moments.log_bound has vectors for",
    },
)

Bag = list[tuple[Loss, int]]


def _laplace(scale: str, shift: int) -> tuple[Loss, Pairs]:
    """Give the loss, and its pairs with the two rays outside the shift as one outcome each."""
    law = laplace_law(F(scale))
    left, right = (MP.fsum(mass for x, mass in law.items() if x <= end) for end in (0, -shift))
    inside = [(law[x], law[x - shift]) for x in range(1, shift)]
    return LaplaceLoss(shift / F(scale), 1 / F(scale)), [(left, right), *inside, (right, left)]


def _bags() -> list[tuple[Bag, Pairs]]:
    """Compose a few losses, each beside its enumerated pairs."""
    one, its_pairs = _laplace("2", 1)
    two, their_pairs = _laplace("4", 3)
    asked = ResponseLoss(F(1, 2), 3)
    return [
        ([(one, 2)], product(its_pairs, its_pairs)),
        ([(two, 1), (asked, 2)], product(their_pairs, response("0.5", 3), response("0.5", 3))),
        ([(asked, 3)], product(*[response("0.5", 3)] * 3)),
    ]


def _log_moment(pairs: Pairs, z: complex) -> Real:
    """Compute ln E_P[e^{zL}] outcome by outcome."""
    power = MP.mpc(z.real, z.imag)
    return MP.log(MP.fsum(p * MP.exp(power * MP.log(p / q)) for p, q in pairs if p and q))


@REGISTRY.formula("privacy.inversion.Moments.log_moment")
def _moments() -> Iterator[Vector]:
    for bag, pairs in _bags():
        for z in (0.3 + 0j, 2.5 + 0j, 1.2 + 0.8j):
            truth = _log_moment(pairs, z)
            moments = Moments.from_pairs(bag)
            yield exact(float(truth.real), lambda m=moments, z=z: float(m.log_moment(np.array([z]))[0].real))
    gaussian = Moments.from_pairs([(GaussianLoss(F(1, 4)), 2)])
    for c in (0.5, 3.0):
        yield exact(
            float(2 * renyi_of_gaussian("0.5", 1 + c) * c),
            lambda c=c: float(gaussian.log_moment(np.array([c + 0j]))[0].real),
        )


def renyi_of_gaussian(mu: str, order: float) -> Real:
    """Integrate p^α·q^{1−α} of two unit normals that are μ apart."""
    shift, alpha = real(mu), MP.mpf(order)

    def density(x: Real) -> Real:
        return MP.npdf(x - shift) ** alpha * MP.npdf(x) ** (1 - alpha)

    centre = alpha * shift
    return MP.log(MP.quad(density, [centre - 14, centre - 4, centre, centre + 4, centre + 14])) / (alpha - 1)


@REGISTRY.formula("privacy.inversion.Moments.log_bound")
def _bounds_of_moments() -> Iterator[Vector]:
    """Along the line, no |M(c + is)| for s ≥ t is above the bound, and the bound is no higher than M(c)."""
    cases: list[tuple[Loss, float, float]] = [
        (BoundedRangeLoss(F(1, 2)), 0.4, 3.0),
        (BoundedRangeLoss(F(3)), 2.0, 0.5),
        (BoundedRangeLoss(F(3)), 0.1, 40.0),
        (LaplaceLoss(F(1)), 0.7, 2.0),
        (LaplaceLoss(F(4)), 3.0, 9.0),
        (GaussianLoss(F(1)), 1.0, 2.0),
    ]
    for loss, c, t in cases:
        along = max(_log_size(loss, c, t + k * t / 7) for k in range(60))
        yield between(along - 1e-12, _envelope(loss, c, t) + 1e-9, Moments.from_pairs([(loss, 1)]).log_bound, c, t)


def _log_size(loss: Loss, c: float, s: float) -> float:
    """Compute ln|E e^{(c+is)L}| by integrals of the loss's own law."""
    z = MP.mpc(c, s)
    if isinstance(loss, BoundedRangeLoss):
        eta = real(loss.eta)
        return float(
            MP.log(abs((MP.exp((z + 0.5) * eta) - MP.exp(-(z + 0.5) * eta)) / (z + 0.5) / (4 * MP.sinh(eta / 2))))
        )
    if isinstance(loss, LaplaceLoss):  # atoms at ±ε of 1/2 and e^{−ε}/2, between them the density e^{(l−ε)/2}/4
        x = real(loss.epsilon)
        between_atoms = MP.exp(-x / 2) / 4 * (MP.exp((z + 0.5) * x) - MP.exp(-(z + 0.5) * x)) / (z + 0.5)
        return float(MP.log(abs(MP.exp(z * x) / 2 + MP.exp(-(z + 1) * x) / 2 + between_atoms)))
    assert isinstance(loss, GaussianLoss)
    return float((z * (z + 1)).real * real(loss.mu_squared) / 2)


def _envelope(loss: Loss, c: float, t: float) -> float:
    """The triangle inequality on the same integrals at s = t: what a bound of this kind can say at best."""
    if isinstance(loss, BoundedRangeLoss):
        eta, z = real(loss.eta), MP.mpc(c, t)
        ends = MP.exp((c + 0.5) * eta) + MP.exp(-(c + 0.5) * eta)
        return float(min(MP.log(ends / abs(z + 0.5) / (4 * MP.sinh(eta / 2))), _log_size(loss, c, 0.0)))
    return _log_size(loss, c, 0.0) if isinstance(loss, LaplaceLoss) else _log_size(loss, c, t)


@REGISTRY.formula("privacy.inversion._log_chernoff_delta")
def _chernoff_bounds() -> Iterator[Vector]:
    for bag, pairs in _bags():
        for c, epsilon in ((0.6, 0.5), (4.0, 1.0)):
            order = MP.mpf(c) + 1
            log_delta = c * (renyi(pairs, order) - MP.mpf(epsilon)) + order * MP.log(1 - 1 / order) - MP.log(c)
            low = float(log_delta)
            yield between(low - 1e-13, low + 1e-11, inversion._log_chernoff_delta, Moments.from_pairs(bag), c, epsilon)


@REGISTRY.formula("privacy.inversion._alias_slope_and_log")
def _aliases() -> Iterator[Vector]:
    """Σ_{k>0} e^{ckΛ}·δ(ε + kΛ) is at most e^{b − sε}."""
    for bag, pairs in _bags():
        for c, wrap, epsilon in ((0.5, 0.4, 0.1), (1.5, 0.7, 0.3)):
            truth = MP.fsum(
                MP.exp(c * k * wrap) * hockey_stick(pairs, MP.mpf(epsilon) + k * MP.mpf(wrap)) for k in range(1, 12)
            )

            def bound(bag: Bag = bag, c: float = c, wrap: float = wrap, epsilon: float = epsilon) -> float:
                s, b = inversion._alias_slope_and_log(Moments.from_pairs(bag), c, wrap, epsilon, 0.0)
                assert s > c
                return math.exp(b - s * epsilon)

            yield between(float(truth), math.inf, bound)


@REGISTRY.formula("privacy.inversion.epsilon_range_of")
def _epsilon_ranges() -> Iterator[Vector]:
    for bag, pairs in _bags():
        for epsilon in ("0.2", "0.45"):
            delta = float(hockey_stick(pairs, epsilon))
            gap = 1e-6 if bag[-1][0].spacing_and_offset is None else 1e-8
            low, high = float(epsilon) - gap, float(epsilon) + gap
            yield between(
                (low, float(epsilon) - 1e-13),
                (float(epsilon) + 1e-13, high),
                inversion.epsilon_range_of,
                Moments.from_pairs(bag),
                delta,
                delta,
            )


@REGISTRY.formula("privacy.inversion._solve_epsilon")
def _roots() -> Iterator[Vector]:
    """A falling exponential passes δ where its logarithm does; what is returned lies on the safe side of it."""
    contour = inversion.build_inversion(Moments.from_pairs(_bags()[0][0]), 2.0, 0.5, -3.0)
    for rate, delta in ((2.0, 1e-3), (0.7, 0.2), (9.0, 1e-9)):
        truth = -math.log(delta) / rate

        def found(side: int, rate: float = rate, delta: float = delta, start: float = truth * 1.5) -> float:
            return inversion._solve_epsilon(lambda e: math.exp(-rate * e), delta, start, contour, side=side)

        yield between(truth * (1 - 1e-15), truth * (1 + 1e-8), found, +1)
        yield between(truth * (1 - 1e-8), truth * (1 + 1e-15), found, -1)


@REGISTRY.formula("privacy.calibration.log_excess")
def _above() -> Iterator[Vector]:
    for value, most in ((0.5, F(1, 4)), (1e-9, F(1, 10**8)), (3.0, F(10**9))):
        truth = float(MP.log(MP.mpf(value) / real(most)))
        yield exact(truth, calibration.log_excess, value, most)
    yield between(2.0**-61, 1e-15, calibration.log_excess, F(10**400 + 1), F(10**400))
    yield exact(0.0, calibration.log_excess, F(1, 3), F(1, 3))
    yield exact(-math.inf, calibration.log_excess, 0.0, F(1, 3))
    yield exact(math.inf, calibration.log_excess, math.inf, F(1, 3))


@REGISTRY.formula("privacy.calibration.least_parameter_by_shortfall")
def _least() -> Iterator[Vector]:
    for limit in (F(17, 10), F(1, 3), F(12345), F(1, 1000)):
        found = calibration.least_parameter_by_shortfall
        yield between(limit, limit * (1 + F(1, 2**46)), found, lambda size, limit=limit: float(limit - size), "it")
    yield between(F(2), F(2), calibration.least_parameter_by_shortfall, lambda size: -1.0 if size >= 2 else 1.0, "it")


@REGISTRY.formula("privacy.calibration._power_of_two_above")
def _powers() -> Iterator[Vector]:
    for near, power in ((1.0, F(1)), (3.0, F(4)), (0.3, F(1, 2)), (0.0, F(1, 2**64)), (1e300, F(2**32))):
        yield exact(power, calibration._power_of_two_above, near)


@REGISTRY.formula("privacy.amounts.exact_amount")
def _exact_amounts() -> Iterator[Vector]:
    for value, units in ((F(1, 10), 10**29), (F(1, 3), F(10**30, 3)), (F(7, 2 * 10**30), F(7, 2)), (F(0), 0)):
        yield exact(units, amounts.exact_amount, value)


@REGISTRY.formula("privacy.amounts.add_rounded_up")
def _sums() -> Iterator[Vector]:
    """Exact while the denominator of the ε is at most 10⁶⁰, and the next whole unit above where it is more."""
    third, long = F(10**30, 3), F(10**30, 7**72)  # 7⁷² is above 10⁶⁰
    yield exact(10**30, amounts.add_rounded_up, third, 2 * third)
    yield exact(10**30 + F(10**30, 7**70), amounts.add_rounded_up, 10**30, F(10**30, 7**70))
    yield exact(math.floor(long) + 6, amounts.add_rounded_up, 5, long)
    yield exact(7, amounts.add_rounded_up, 3, 4)


@REGISTRY.formula("privacy.amounts.subtract_rounded_down")
def _differences() -> Iterator[Vector]:
    third, long = F(10**30, 3), F(10**30, 7**72)
    yield exact(third, amounts.subtract_rounded_down, 10**30, 2 * third)
    yield exact(10**30 - math.floor(long) - 1, amounts.subtract_rounded_down, 10**30, long)
    yield exact(3, amounts.subtract_rounded_down, 7, 4)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
