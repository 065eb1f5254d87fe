"""Each family against its vectors, against 40-digit arithmetic, and against brute-force suprema."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from privacy import exact
from privacy.families import distributions
from sfumato.privacy.losses import BoundedRangeLoss, PairLoss
from sfumato.privacy.noise_losses import LaplaceLoss
from sfumato.privacy.numbers import excess_exp, power_excess, sinhc_minus_one
from sfumato.privacy.threshold_losses import LaplaceKeyThresholdLoss


@pytest.mark.parametrize(
    ("order", "epsilon", "value"),
    [(2, "1", 0.735325664055519), (10, "0.1", 0.0438877886899322), (32, "0.5", 0.484707194058707)],
)
def test_renyi_vectors_of_the_discrete_laplace(order: int, epsilon: str, value: float) -> None:
    assert sf.Curve.discrete_laplace(1 / Fraction(epsilon)).renyi(order) == pytest.approx(value, rel=2e-15)


def test_vectors_of_the_continuous_laplace() -> None:
    assert sf.Curve.laplace(1).renyi(2) == pytest.approx(0.619123629998593, rel=2e-15)
    assert sf.Curve.laplace(1).delta("0.5") == pytest.approx(0.221199216929, rel=1e-11)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        ("1", "1e-6", "4.22467888932684"),
        ("0.1", "1e-9", "50.2098182630153"),
        ("5", "1e-5", "0.891868264951518"),
        ("0.5", "1e-10", "11.436239995092"),
    ],
)
def test_vectors_of_the_continuous_gaussian(epsilon: str, delta: str, sigma: str) -> None:
    assert sf.Curve.gaussian(sigma).delta(epsilon) == pytest.approx(float(delta), rel=1e-11)


def test_the_discrete_gaussian_is_not_the_continuous_one() -> None:
    low, high = sf.Curve.discrete_gaussian("4.22467888932684").delta_range(1)
    with mpmath.workdps(exact.DIGITS):
        truth = exact.hockey_stick(exact.discrete_gaussian("4.22467888932684", 1), 1)
    assert low <= truth <= high
    assert high == pytest.approx(1.0197e-6, rel=1e-4)
    assert high - low < 1e-15


ORDERS = ("1", "1.001", "1.5", "2", "7.3", "32", "1000")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("scale", "shift"), [("0.03", 1), ("0.5", 3), ("2", 1), ("7.7", 20), ("1e4", 1), ("1e6", 300)])
def test_renyi_of_the_discrete_laplace(order: str, scale: str, shift: int) -> None:
    with mpmath.workdps(60):
        truth = exact.renyi(exact.discrete_laplace(scale, shift), order)
    curve = sf.Curve.discrete_laplace(scale, shift)
    assert curve.renyi(order) == pytest.approx(float(truth), rel=1e-12)
    if order != "1":
        assert curve.renyi_above(Fraction(order)) >= Fraction(str(truth))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("sigma", "shift"), [("0.1", 1), ("0.4", 2), ("0.9", 1), ("1.1", 3), ("5", 7)])
def test_renyi_of_the_discrete_gaussian(order: str, sigma: str, shift: int) -> None:
    if float(order) * shift > 200:
        return  # the brute-force window would have to follow the tilt
    with mpmath.workdps(60):
        s = exact.number(sigma)
        alpha = exact.number(order)
        reach = int(20 * s + 12 + float(alpha) * shift)
        weights = [(x, -(mpmath.mpf(x) ** 2) / (2 * s * s)) for x in range(-reach, reach + 1)]
        norm = mpmath.fsum(mpmath.exp(w) for _, w in weights)
        tilt = [(w, (shift**2 - 2 * shift * x) / (2 * s * s)) for x, w in weights]
        if order == "1":
            truth = mpmath.fsum(mpmath.exp(w) * loss for w, loss in tilt) / norm
        else:
            truth = mpmath.log(mpmath.fsum(mpmath.exp(w + (alpha - 1) * loss) for w, loss in tilt) / norm) / (alpha - 1)
    curve = sf.Curve.discrete_gaussian(sigma, shift)
    assert curve.renyi(order) == pytest.approx(float(truth), rel=1e-12)
    assert curve.renyi(order) <= float(alpha) * curve.rho() * (1 + 1e-15)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("epsilon", "choices"), [("1e-9", 2), ("0.3", 2), ("0.3", 10), ("4", 3), ("60", 2)])
def test_renyi_of_randomised_response(order: str, epsilon: str, choices: int) -> None:
    with mpmath.workdps(80):
        truth = exact.renyi(exact.response(epsilon, choices), order)
    assert sf.Curve.randomized_response(epsilon, choices).renyi(order) == pytest.approx(float(truth), rel=1e-12)


def test_randomised_response_answers_the_theory() -> None:
    """D_α of ε-randomised response is ln[(e^{αε} + e^{(1−α)ε})/(1 + e^ε)]/(α − 1)."""
    for alpha, e in ((2, 0.7), (9, 0.2)):
        formula = math.log((math.exp(alpha * e) + math.exp((1 - alpha) * e)) / (1 + math.exp(e))) / (alpha - 1)
        assert sf.Curve.pure(e).renyi(alpha) == pytest.approx(formula, rel=1e-13)


def _two_atoms(eta: mpmath.mpf, t: mpmath.mpf) -> exact.Pairs:
    p = (1 - mpmath.exp(t - eta)) / (mpmath.exp(t) - mpmath.exp(t - eta))
    return [(p * mpmath.exp(t), p), ((1 - p) * mpmath.exp(t - eta), 1 - p)]


@pytest.mark.parametrize("eta", ["0.001", "0.1", "1", "5"])
def test_bounded_range_is_the_supremum_over_two_atom_pairs(eta: str) -> None:
    curve = sf.Curve.bounded_range(eta)
    with mpmath.workdps(40):
        full = exact.number(eta)
        worlds = [_two_atoms(full, full * i / 400) for i in range(1, 400)]
        for order in ("1", "2", "10", "300"):
            best = float(max(exact.renyi(world, order) for world in worlds))
            assert best <= curve.renyi(order) * (1 + 1e-12)
            assert curve.renyi(order) <= best * (1 + 1e-3)
        for share in ("0.01", "0.3", "0.9"):
            epsilon = exact.number(share) * full
            best = float(max(exact.hockey_stick(world, Fraction(str(epsilon))) for world in worlds))
            assert best <= curve.delta(Fraction(str(epsilon))) * (1 + 1e-12)
            assert curve.delta(Fraction(str(epsilon))) <= best * (1 + 1e-3)


def test_the_bounded_range_pair_is_a_distribution_with_that_profile() -> None:
    """Its moment function at 0 is 1, at −1 (the mass of Q) is 1, and its hockey-stick integral is the closed form."""
    eta = 0.8
    moments = BoundedRangeLoss.log_moment(np.array([1e-12 + 0j, 2.5 + 0j]), np.array([[eta]]))
    assert abs(moments[0, 0]) < 1e-11
    with mpmath.workdps(30):

        def density(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(x / 2) / (4 * mpmath.sinh(mpmath.mpf(eta) / 2))

        assert mpmath.quad(density, [-eta, eta]) == pytest.approx(1)
        assert mpmath.quad(lambda x: density(x) * mpmath.exp(-x), [-eta, eta]) == pytest.approx(1)
        lifted = mpmath.quad(lambda x: density(x) * mpmath.exp(2.5 * x), [-eta, eta])
        assert float(moments[0, 1].real) == pytest.approx(float(mpmath.log(lifted)), rel=1e-12)
        profile = mpmath.quad(lambda x: density(x) * (1 - mpmath.exp(0.3 - x)), [0.3, eta])
    assert sf.Curve.bounded_range(eta).delta(0.3) == pytest.approx(float(profile), rel=1e-12)


@settings(max_examples=30)
@given(distributions(3, zeros=True), distributions(3, zeros=True))
def test_a_pair_outside_its_failure_decomposes_both_worlds(p: list[Fraction], q: list[Fraction]) -> None:
    """P = (1−f)P′ + fN and Q = (1−f)Q′ + fN′ with N, N′ distributions, for the common failure f."""
    pair, back = PairLoss(tuple(p), tuple(q)), PairLoss(tuple(q), tuple(p))
    f = max(pair.failure, back.failure)
    if f == 1:
        return
    p_kept, q_kept = 1 - pair.failure, 1 - back.failure
    p_rest = [a / p_kept if b else Fraction(0) for a, b in zip(p, q, strict=True)]
    q_rest = [b / q_kept if a else Fraction(0) for a, b in zip(p, q, strict=True)]
    assert sum(p_rest) == sum(q_rest) == 1
    assert all(a >= (1 - f) * x for a, x in zip(p, p_rest, strict=True))
    assert all(b >= (1 - f) * y for b, y in zip(q, q_rest, strict=True))
    curve = sf.Curve.pair(p, q)
    for order in (1, 2, 9):
        both = max(sf.divergences.renyi(p_rest, q_rest, order), sf.divergences.renyi(q_rest, p_rest, order))
        assert curve.renyi(order) == pytest.approx(both, rel=1e-12, abs=1e-15)
    assert curve.failure == f


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.floats(0.3, 20).map(lambda x: f"{x:.3g}"))
def test_concentrating_a_change_raises_the_laplace_profile(a: int, b: int, scale: str) -> None:
    """The lemma behind ``Sensitivity.coordinates``: (a, b) is dominated by (a + 1, b − 1) when a ≥ b, and so on."""
    a, b = max(a, b), min(a, b)
    with mpmath.workdps(30):
        even = exact.together([(exact.discrete_laplace(scale, a), 1), (exact.discrete_laplace(scale, b), 1)])
        apart = [(exact.discrete_laplace(scale, a + 1), 1)]
        uneven = exact.together(apart + ([(exact.discrete_laplace(scale, b - 1), 1)] if b > 1 else []))
        for epsilon in ("0", "0.1", "0.35", "0.8", "2"):
            assert exact.hockey_stick(even, epsilon) <= exact.hockey_stick(uneven, epsilon) + mpmath.mpf(10) ** -25


DECAYING = [
    sf.Curve.discrete_laplace("3"),
    sf.Curve.discrete_laplace("0.7", 4),
    sf.Curve.laplace("1.3"),
    sf.Curve.pure("0.8"),
    sf.Curve.approximate("0.8", "0.1"),
    sf.Curve.randomized_response("0.8", 5),
    sf.Curve.discrete_gaussian("1"),
    sf.Curve.discrete_gaussian("1.05", 3),
    sf.Curve.discrete_gaussian("30", 2),
    sf.Curve.discrete_gaussian("0.6"),
    sf.Curve.bounded_range(1),
    sf.Curve.pair(["0.2", "0.3", "0.5"], ["0.5", "0.4", "0.1"]),
]


@pytest.mark.parametrize("curve", DECAYING, ids=repr)
@pytest.mark.parametrize("c", [0.01, 1.0, 30.0])
def test_cheap_bounds_of_decay_are_bounds(curve: sf.Curve, c: float) -> None:
    ((loss, _),) = curve.parts
    parameters = (
        loss.log_moment_parameters
        if isinstance(loss, PairLoss)
        else [np.array([[x]]) for x in loss.log_moment_parameters]
    )
    heights = np.concatenate([np.linspace(0, 40, 4001), np.linspace(0, 12000, 4001), [1e7]])
    cheap = type(loss).log_decay(c, heights, *parameters)
    at_c = type(loss).log_moment(np.array([c + 0j]), *parameters).real
    truth = type(loss).log_moment(c + 1j * heights, *parameters).real - at_c
    assert (cheap >= truth - 1e-7).all()


@pytest.mark.parametrize("y", [0.0, 1e-9, -1e-4, 0.29, 0.31, -0.9, 1.1, -5.0, 20.0])
def test_small_functions(y: float) -> None:
    with mpmath.workdps(60):
        x = mpmath.mpf(y)
        if y:
            assert excess_exp(y) == pytest.approx(float((mpmath.exp(x) - 1 - x) / x**2), rel=1e-14)
            assert sinhc_minus_one(y) == pytest.approx(float(mpmath.sinh(x) / x - 1), rel=1e-13)
        for order in (1.0, 1.01, 3.0):
            alpha = mpmath.mpf(order)
            truth = (
                x * mpmath.exp(x) - mpmath.exp(x) + 1
                if order == 1
                else mpmath.exp(alpha * x) - 1 - alpha * (mpmath.exp(x) - 1)
            )
            assert power_excess(y, order) == pytest.approx(float(truth), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("order", [1.01, 2.0, 17.0, 400.0])
@pytest.mark.parametrize(("shift", "step"), [(3, 20), (8, 3), (1, 40), (300, "1/8"), (2, 700)])
def test_renyi_of_large_discrete_laplace_losses(order: float, shift: int, step: int | str) -> None:
    """Every outcome is added up in 60 digits: losses of 24 to 1400, where powers of them overflow."""
    with mpmath.workdps(60):
        pairs = exact.discrete_laplace(1 / Fraction(step), shift)
        moment = mpmath.fsum(p * (p / q) ** (mpmath.mpf(order) - 1) for p, q in pairs)
        truth = mpmath.log(moment) / (mpmath.mpf(order) - 1)
        found = LaplaceLoss(shift * Fraction(step), Fraction(step)).renyi(order)
        assert abs(found / truth - 1) < 1e-12


@pytest.mark.parametrize("order", [1.01, 2.0, 17.0, 400.0])
@pytest.mark.parametrize("epsilon", [31, 45, 800])
def test_renyi_of_large_laplace_losses(order: float, epsilon: int) -> None:
    """The loss has atoms at ±ε, and between them the density e^{(l−ε)/2}/4, which is integrated in 60 digits."""
    with mpmath.workdps(60):
        z, x = mpmath.mpf(order) - 1, mpmath.mpf(epsilon)
        inside = mpmath.exp(-x / 2) / 4 * 2 * mpmath.sinh((z + 0.5) * x) / (z + 0.5)
        moment = mpmath.exp(z * x) / 2 + mpmath.exp(-(z + 1) * x) / 2 + inside
        truth = mpmath.log(moment) / z
        assert abs(LaplaceLoss(Fraction(epsilon)).renyi(order) / truth - 1) < 1e-12


def test_losses_are_listed_by_their_kinds_whatever_their_classes_are_called() -> None:
    """The text of a curve is compared with that of earlier versions."""
    threshold = LaplaceKeyThresholdLoss(Fraction(3), 30, Fraction(1, 10**4), 3, 1, 1)
    assert threshold.sort_key[0] == "laplace-threshold-loss/1"
    assert sorted([threshold, LaplaceLoss(Fraction(2))], key=lambda loss: loss.sort_key)[1] is threshold
