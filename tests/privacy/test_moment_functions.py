"""Moment functions of losses, their bounds along a line and the stated rounding of closed forms, in 30 digits.

Compositions hardly show a wrong bound of a moment function: the bounds are conservative, and so is the rounding that
a closed form states. Here each is compared with the sum or the integral that it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.privacy.inversion import Inversion, Moments, _alias_slope_and_log
from sfumato.privacy.losses import (
    AtomLoss,
    BoundedRangeLoss,
    ClosedFormLoss,
    ConcentratedLoss,
    PairLoss,
    ResponseLoss,
    two_atom_decay,
    weighted_power_excess,
)
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, GaussianLoss, LaplaceLoss
from sfumato.privacy.numbers import log_exprel_minus_ratio, log_ratio, log_theta_ratio
from sfumato.privacy.shape import _chord_maximum, failure_range

MP = mpmath.MPContext()
MP.dps = 30
ROUNDING = MP.mpf(2) ** -49
F = Fraction
Real = Any
POINTS = (0.5 + 0j, 2.0 + 0.7j, 0.03 + 11.5j, 9.0 - 3.2j, 1.5 + 1e-9j)


def columns(losses: list[ClosedFormLoss]) -> tuple[Any, ...]:
    """The parameters of several members side by side, as compositions hold them."""
    return tuple(np.array(each)[:, None] for each in zip(*(loss.log_moment_parameters for loss in losses), strict=True))


def response_moment(x: float, k: float, reveal: float, z: Real) -> Real:
    """One answer of loss x, one of −x, and k − 2 that say nothing; ``reveal`` of the mass is infinite."""
    odds = MP.exp(MP.mpf(x))
    total = odds + k - 1
    return (1 - MP.mpf(reveal)) * (odds / total * odds**z + odds**-z / total + (k - 2) / total)


def range_moment(eta: float, z: Real) -> Real:
    """The integral of e^{zl}·e^{l/2}/(4 sinh(η/2)) over [−η, η]."""
    return MP.sinh((z + MP.mpf("0.5")) * MP.mpf(eta)) / ((2 * z + 1) * MP.sinh(MP.mpf(eta) / 2))


def laplace_moment(x: float, beta: float, z: Real) -> Real:
    if not beta:
        return ((z + 1) * MP.exp(z * MP.mpf(x)) + z * MP.exp(-(z + 1) * MP.mpf(x))) / (2 * z + 1)
    step, shift = MP.mpf(beta), round(x / beta)
    reach = shift + int(70 / beta) + 2
    weights = [(MP.exp(-abs(y) * step), step * (abs(y - shift) - abs(y))) for y in range(-reach, reach + 1)]
    total = (1 + MP.exp(-step)) / (1 - MP.exp(-step))
    return MP.fsum(w * MP.exp(z * loss) for w, loss in weights) / total


def gaussian_moment(variance: float, shift: float, z: Real) -> Real:
    v, s = MP.mpf(variance), int(shift)
    reach = int(14 * math.sqrt(variance) + abs(s) * 12) + 3
    weights = [(y, MP.exp(-MP.mpf(y * y) / (2 * v))) for y in range(-reach, reach + 1)]
    total = MP.fsum(w for _, w in weights)
    return MP.fsum(w * MP.exp(z * (s * s - 2 * s * y) / (2 * v)) for y, w in weights) / total


CASES: list[tuple[list[ClosedFormLoss], Callable[..., Real]]] = [
    ([ResponseLoss(F(1, 2)), ResponseLoss(F(3), 5, F(1, 10)), ResponseLoss(F(1, 100), 3)], response_moment),
    ([BoundedRangeLoss(F(1, 2)), BoundedRangeLoss(F(4))], range_moment),
    ([LaplaceLoss(F(1, 2)), LaplaceLoss(F(3))], laplace_moment),
    ([LaplaceLoss(F(1, 2), F(1, 2)), LaplaceLoss(F(3), F(1)), LaplaceLoss(F(2), F(1, 4))], laplace_moment),
    ([DiscreteGaussianLoss(F(2), 1), DiscreteGaussianLoss(F(1, 2), 1)], gaussian_moment),
    (
        [DiscreteGaussianLoss(F(7, 10), 2), DiscreteGaussianLoss(F(9), 2), DiscreteGaussianLoss(F(3), 1)],
        gaussian_moment,
    ),
]
IDS = [type(losses[0]).__name__ + str(place) for place, (losses, _) in enumerate(CASES)]


@pytest.mark.parametrize(("losses", "truth"), CASES, ids=IDS)
def test_a_moment_function_is_the_sum_that_it_stands_for(
    losses: list[ClosedFormLoss], truth: Callable[..., Real]
) -> None:
    found = type(losses[0]).log_moment(np.array(POINTS), *columns(losses))
    assert found.shape == (len(losses), len(POINTS))
    for loss, row in zip(losses, found, strict=True):
        for z, value in zip(POINTS, row, strict=True):
            expected = truth(*map(float, loss.log_moment_parameters), MP.mpc(z))
            assert abs(MP.exp(MP.mpc(value)) - expected) <= 4e-14 * (1 + abs(z)) * abs(expected)


@pytest.mark.parametrize(("losses", "truth"), CASES, ids=IDS)
def test_bounds_along_a_line_are_those_that_are_proved(
    losses: list[ClosedFormLoss], truth: Callable[..., Real]
) -> None:
    family = type(losses[0])
    for c, t in ((0.5, 0.0), (2.0, 0.3), (0.25, 40.0), (3.0, 700.0)):
        bounds = family.log_bound(c, t, *columns(losses))
        decays = family.log_decay(c, np.array([t, 2.5 * t, 3.0]), *columns(losses))
        for place, loss in enumerate(losses):
            parameters = tuple(map(float, loss.log_moment_parameters))
            at_c = MP.log(truth(*parameters, MP.mpf(c)).real)
            bound = min(at_c, line_bound(loss, MP.mpf(c), MP.mpf(t)))
            assert abs(MP.mpf(float(bounds.ravel()[place])) - bound) <= 1e-13 * (1 + abs(bound))
            for height, value in zip((t, 2.5 * t, 3.0), decays[place], strict=True):
                expected = decay_bound(loss, MP.mpf(c), MP.mpf(height), at_c, truth)
                assert abs(MP.mpf(float(value)) - expected) <= 2e-12 * (1 + abs(expected) + height)


def line_bound(loss: ClosedFormLoss, c: Real, t: Real) -> Real:
    """What is proved beside E e^{cL}: the decay of an interval, and of continuous Laplace noise."""
    if isinstance(loss, BoundedRangeLoss):
        eta = MP.mpf(float(loss.eta))
        return c * eta + MP.log((1 + MP.exp(-(2 * c + 1) * eta)) / ((1 - MP.exp(-eta)) * MP.hypot(2 * c + 1, 2 * t)))
    if isinstance(loss, LaplaceLoss) and not loss.step:
        x = MP.mpf(float(loss.epsilon))
        return c * x + MP.log(MP.hypot(c + 1, t) / MP.hypot(2 * c + 1, 2 * t) + MP.exp(-(2 * c + 1) * x) / 2)
    return MP.inf


def decay_bound(loss: ClosedFormLoss, c: Real, height: Real, at_c: Real, truth: Callable[..., Real]) -> Real:
    """Two atoms at ±x and anything else, or what e^{−t²s²/2σ²} leaves within the middle period."""
    parameters = tuple(map(float, loss.log_moment_parameters))
    if isinstance(loss, (ResponseLoss, LaplaceLoss)):
        x = MP.mpf(parameters[0])
        if isinstance(loss, ResponseLoss):
            mass = (1 - MP.mpf(float(loss.reveal))) / (1 + (loss.choices - 1) * MP.exp(-x))
        else:
            mass = 1 / (1 + MP.exp(-MP.mpf(float(loss.step))))
        high, low = mass * MP.exp(c * x - at_c), mass * MP.exp(-(c + 1) * x - at_c)
        return MP.log(atoms(high, low, x * height))
    return MP.log(abs(truth(*parameters, MP.mpc(c, height)))) - at_c


def atoms(high: Real, low: Real, phase: Real) -> Real:
    both = abs(high * MP.expj(phase) + low * MP.expj(-phase))
    return max(MP.mpf(0), 1 - high - low) + both + ROUNDING * (1 + abs(phase))


def test_two_atoms_bound_a_characteristic_function() -> None:
    for high, low, phase in ((0.5, 0.25, 0.0), (0.5, 0.25, 1.0), (0.9, 0.3, 2.0), (1e-9, 0.0, 700.0), (0.5, 0.5, -1.5)):
        found = float(two_atom_decay(np.array([high]), np.array([low]), np.array([phase]))[0])
        expected = MP.log(atoms(MP.mpf(high), MP.mpf(low), MP.mpf(phase)))
        assert abs(found - expected) <= 1e-14 * (1 + abs(expected))
    # the two are the same size, and a quarter turn apart: all that is left is the rounding
    assert math.exp(two_atom_decay(np.array([0.5]), np.array([0.5]), np.array([math.pi / 2]))[0]) > 2e-15


def test_large_gaussian_noise_decays_within_its_period() -> None:
    """ln 2.5 − t²s²/2σ², t brought into the middle period 2πσ²/s; at the period's end it begins anew."""
    losses: list[ClosedFormLoss] = [DiscreteGaussianLoss(F(4), 1), DiscreteGaussianLoss(F(1), 3)]
    heights = np.array([0.0, 1.0, 30.0, 2 * math.pi * 4, 4.0])
    found = DiscreteGaussianLoss.log_decay(0.5, heights, *columns(losses))
    for (variance, shift), row in zip(((4, 1), (1, 3)), found, strict=True):
        period = 2 * math.pi * variance / shift
        for height, value in zip(heights, row, strict=True):
            within = height - round(height / period) * period
            expected = -(within**2) * shift**2 / (2 * variance) + math.log(2.5)
            assert value == pytest.approx(expected, abs=1e-9)


def test_a_pair_of_atoms_has_the_moments_of_its_sum() -> None:
    loss = PairLoss((F(1, 2), F(3, 10), F(1, 5)), (F(1, 10), F(2, 5), F(1, 2)))
    mass, values = loss.log_moment_parameters
    found = AtomLoss.log_moment(np.array(POINTS), mass, values)[0]
    c = 0.75
    decay = AtomLoss.log_decay(c, np.array([0.0, 2.0, 40.0]), mass, values)[0]

    def moment(z: Real) -> Real:
        return MP.fsum(
            MP.mpf(float(p)) * MP.exp(z * MP.log(MP.mpf(float(p / q)))) for p, q in zip(loss.p, loss.q, strict=True)
        )

    for z, value in zip(POINTS, found, strict=True):
        assert abs(MP.exp(MP.mpc(value)) - moment(MP.mpc(z))) <= 1e-13 * abs(moment(MP.mpc(z)))
    for height, value in zip((0.0, 2.0, 40.0), decay, strict=True):
        assert abs(value - MP.log(abs(moment(MP.mpc(c, height))) / moment(MP.mpf(c)))) <= 1e-12
    empty = np.empty((0, 1))
    assert np.isneginf(AtomLoss.log_moment(np.array(POINTS), empty, empty).real).all()
    assert AtomLoss.log_moment(np.array(POINTS), empty, empty).shape == (1, len(POINTS))


def test_a_ratio_of_theta_functions() -> None:
    """The sum over whole numbers, for small and large σ, and at both ends of the strip."""
    for variance in (0.05, 0.5, 0.99, 1.0, 1.01, 6.0):
        u = np.array([0.0, 0.25, 0.5, 0.8, 3.3, complex(0.2, 0.9 * math.pi * variance), complex(0.5, 0.3)])
        found = log_theta_ratio(u.astype(complex), variance)

        def theta(at: Real, variance: float = variance) -> Real:
            return MP.fsum(MP.exp(-((MP.mpf(k) + at) ** 2) / (2 * MP.mpf(variance))) for k in range(-60, 61))

        for at, value in zip(u, found, strict=True):
            expected = theta(MP.mpc(at)) / theta(MP.mpf(0))
            assert abs(MP.exp(MP.mpc(value)) - expected) <= 3e-14 * abs(expected) + 1e-300


# ── closed forms and the rounding that they state ──────────────────────────────────────────────


def is_stated(found: tuple[float, float] | None, value: Real, error: Real) -> bool:
    assert found is not None
    return bool(abs(found[0] - value) <= error + MP.mpf(5e-324) and abs(found[1] - error) <= 1e-6 * error)


def test_the_rounding_of_a_gaussian_profile() -> None:
    for squared, epsilon in ((F(1), 0.5), (F(1), 0.2), (F(4), 0.0), (F(1, 4), 0.3), (F(1, 100), 0.25), (F(9), 20.0)):
        mu = MP.sqrt(MP.mpf(squared.numerator) / squared.denominator)
        near, far = MP.mpf(epsilon) / mu - mu / 2, MP.mpf(epsilon) / mu + mu / 2
        p, q = MP.ncdf(-near), MP.exp(MP.mpf(epsilon)) * MP.ncdf(-far)
        slack = (p - q) if near >= 0 else q
        assert is_stated(
            GaussianLoss(squared).delta_and_error(epsilon), p - q, ROUNDING * (p + q + slack * (4 + near * near))
        )
    assert GaussianLoss(F(1, 10**4)).delta_and_error(10.0) == (0.0, 5e-324)


def test_the_rounding_of_a_response_profile() -> None:
    for x, k, reveal, epsilon in (
        (2.0, 2, F(0), 0.5),
        (0.5, 7, F(1, 8), 0.25),
        (3.0, 3, F(1, 4), 3.0),
        (1.0, 2, F(1, 2), 4.0),
    ):
        gap = 1 - MP.exp(min(MP.mpf(0), MP.mpf(epsilon) - MP.mpf(x)))
        told = MP.mpf(float(reveal))
        value = told + (1 - told) * gap / (1 + (k - 1) * MP.exp(-MP.mpf(x)))
        assert is_stated(
            ResponseLoss(F(x), k, reveal).delta_and_error(epsilon), value, ROUNDING * (value + x * (1 - gap))
        )


def test_the_rounding_of_a_range_profile() -> None:
    for eta, epsilon in ((2.0, 0.5), (0.125, 0.0), (3.0, 3.0), (1.0, 1.0 + 2.0**-50), (5.0, 1.0)):
        e = MP.mpf(eta)
        gap, width = 1 - MP.exp(min(MP.mpf(0), MP.mpf(epsilon) - e) / 2), 1 - MP.exp(-e)
        above = gap + ROUNDING * e
        error = ROUNDING * above * (above + e * (1 - gap)) / width
        assert is_stated(BoundedRangeLoss(F(eta)).delta_and_error(epsilon), gap * gap / width, error)
    assert BoundedRangeLoss(F(1)).delta_and_error(1.0 + 2.0**-48) == (0.0, 0.0)


def test_the_rounding_of_a_laplace_profile() -> None:
    for x, epsilon in ((2.0, 0.5), (0.125, 0.0), (3.0, 3.0), (5.0, 1.0)):
        value = 1 - MP.exp(min(MP.mpf(0), MP.mpf(epsilon) - x) / 2)
        assert is_stated(LaplaceLoss(F(x)).delta_and_error(epsilon), value, ROUNDING * (value + x * (1 - value)))
    assert LaplaceLoss(F(1)).delta_and_error(1.0 + 2.0**-52) == (0.0, 0.0)
    for shift, beta, epsilon in (
        (1, 0.5, 0.25),
        (1, 2.0, 0.0),
        (5, 0.25, 0.3),
        (6, 1.0, 2.0),
        (4, 40.0, 1.0),
        (2, 0.125, 0.25),
    ):
        x = MP.mpf(shift * beta)
        total = (1 + MP.exp(-MP.mpf(beta))) / (1 - MP.exp(-MP.mpf(beta)))
        law = {y: MP.exp(-abs(y) * MP.mpf(beta)) / total for y in range(-400, 401)}
        value = MP.fsum(
            max(MP.mpf(0), p - MP.exp(MP.mpf(epsilon)) * law.get(y - shift, 0))
            for y, p in law.items()
            if y - shift in law
        )
        error = ROUNDING * min(MP.mpf(1), value + x + beta)
        assert is_stated(LaplaceLoss(F(shift * beta), F(beta)).delta_and_error(epsilon), value, error)


def test_the_rounding_of_a_pair_profile() -> None:
    loss = PairLoss((F(1, 2), F(1, 2)), (F(1, 10**4), F(9999, 10**4)))
    for epsilon in (0.0, 1.5, 8.0):
        value = MP.mpf(1) / 2 - MP.exp(MP.mpf(epsilon)) / 10**4
        assert is_stated(loss.delta_and_error(epsilon), value, ROUNDING * (1 + MP.mpf(epsilon)))
    far = PairLoss._unchecked((F(1, 2), F(1, 2)), (F(1, 2**1200), 1 - F(1, 2**1200)))
    for epsilon in (700.0, 750.0, 830.0, 900.0):  # ln(2^1199) is 831
        value = max(MP.mpf(0), MP.mpf("0.5") - MP.exp(MP.mpf(epsilon) - 1200 * MP.log(2)))
        found = far.delta_and_error(epsilon)
        assert abs(found[0] - value) <= 1e-12
        assert found[1] == pytest.approx(float(ROUNDING) * (1 + epsilon), rel=1e-9)


def test_a_group_of_responses_at_the_ends_of_what_is_computed() -> None:
    loss = ResponseLoss(F(1, 2), 3, F(1, 1000))
    assert loss.group(1) is loss
    assert ResponseLoss(F(1, 2), 3).group(4) == ResponseLoss(F(2))
    assert ResponseLoss(F(0), 2, F(1, 10)).group(3) == ResponseLoss(F(0), 2, F(1, 10) * F(3 * (1 + 2.0**-40)))
    grown = loss.group(3)
    exact = MP.expm1(MP.mpf("1.5")) / MP.expm1(MP.mpf("0.5")) / 1000
    assert grown.epsilon == F(3, 2)
    assert abs(MP.mpf(grown.reveal.numerator) / grown.reveal.denominator / exact - 1 - MP.mpf(2) ** -40) < 3e-16
    tiny = F(1, 10**299)
    assert ResponseLoss(F(350), 2, tiny).group(2).failure == pytest.approx(F(math.exp(350)) * tiny, rel=1e-9)
    for call in (
        lambda: ResponseLoss(F(3501, 10), 2, tiny).group(2),
        lambda: ResponseLoss(F(0), 2, F(1, 2)).group(2),
        lambda: ResponseLoss(F(0), 2, F(1, 4)).group(4),
        lambda: ResponseLoss(F(1), 2, F(1, 4)).group(3),
    ):
        assert_refused(call)


def test_divergences_of_responses_far_out() -> None:
    """Where e^{zε} is beyond e^30, with more than two answers."""
    for x, k, order in ((4.0, 7, 9.0), (0.5, 5, 70.0), (12.0, 3, 4.0), (2.0, 2, 20.0), (1.0, 4, 1.0), (0.3, 6, 2.5)):
        z = MP.mpf(order) - 1
        odds = MP.exp(MP.mpf(x))
        total = odds + k - 1
        truth = (odds - 1) / total * x if not z else MP.log(response_moment(x, k, 0.0, z)) / z
        assert abs(ResponseLoss(F(x), k).renyi(order) - truth) <= 1e-14 * truth


def test_divergences_of_pairs_far_out() -> None:
    p, q = (F(1, 2), F(1, 2)), (F(1, 10**9), 1 - F(1, 10**9))
    loss = PairLoss(p, q)
    for order in (1.0, 1.5, 2.0, 2.5, 3.0, 40.0):
        z = MP.mpf(order) - 1
        logs = [
            (
                MP.mpf(float(a)),
                MP.log(MP.mpf(a.numerator) / a.denominator) - MP.log(MP.mpf(b.numerator) / b.denominator),
            )
            for a, b in zip(p, q, strict=True)
        ]
        truth = MP.fsum(a * y for a, y in logs) if not z else MP.log(MP.fsum(a * MP.exp(z * y) for a, y in logs)) / z
        assert abs(loss.renyi(order) - truth) <= 1e-13 * truth
    for b, y, order in (
        (1e-9, 20.0, 3.0),
        (1e-300, 29.0, 1.0),
        (0.25, -40.0, 1.0),
        (0.0, 50.0, 2.0),
        (0.5, 30.0, 1.0),
        (1e-9, 31.0, 1.0),
    ):
        x = MP.exp(MP.mpf(y))
        alpha = MP.mpf(order)
        truth = MP.mpf(b) * (x * MP.log(x) - x + 1 if order == 1 else x**alpha - 1 - alpha * (x - 1))
        assert abs(weighted_power_excess(b, y, order) - truth) <= 1e-13 * abs(truth)


def test_divergences_of_laplace_noise_near_order_one() -> None:
    """Small and large ε, with and without steps: the KL divergence is x·E[…] of both sides, added up."""
    for x, beta in (
        (0.01, 0.0),
        (0.75, 0.0),
        (1.0, 0.0),
        (5.0, 0.0),
        (0.5, 0.5),
        (0.25, 0.125),
        (3.0, 1.5),
        (2.0, 0.25),
    ):
        step = MP.mpf(beta)
        factor = step / MP.sinh(step) if beta else MP.mpf(1)
        truth = MP.mpf(x) * (1 - factor) + factor * (MP.mpf(x) - 1 + MP.exp(-MP.mpf(x)))
        assert abs(LaplaceLoss(F(x), F(beta)).renyi(1.0) - truth) <= 1e-14 * truth
    assert LaplaceLoss(F(1400), F(700)).renyi(1.0) == 1400.0
    for x, beta, order in (
        (0.01, 0.0, 2.0),
        (4.0, 0.5, 20.0),
        (40.0, 2.0, 1.5),
        (31.0, 0.0, 1.25),
        (0.5, 0.25, 1.01),
        (29.0, 1.0, 2.0),
    ):
        z = MP.mpf(order) - 1
        truth = MP.log(laplace_moment(x, beta, z).real) / z
        assert abs(LaplaceLoss(F(x), F(beta)).renyi(order) - truth) <= 3e-14 * truth


def test_divergences_of_ranges_far_out() -> None:
    """The supremum over all t of two outcomes of loss t and t − η, searched for."""
    for eta, order in ((40.0, 1.0), (4.0, 12.0), (60.0, 1.5), (0.5, 80.0), (3.0, 2.0), (35.0, 1.001)):
        e, alpha = MP.mpf(eta), MP.mpf(order)

        def divergence(t: Real, e: Real = e, alpha: Real = alpha) -> Real:
            q = (1 - MP.exp(t - e)) / (MP.exp(t) - MP.exp(t - e))
            p = q * MP.exp(t)
            if alpha == 1:
                return p * t + (1 - p) * (t - e)
            return MP.log(p * MP.exp((alpha - 1) * t) + (1 - p) * MP.exp((alpha - 1) * (t - e))) / (alpha - 1)

        low, high = MP.mpf(0), e
        for _ in range(70):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if divergence(left) < divergence(right) else (low, right)
        assert abs(BoundedRangeLoss(F(eta)).renyi(order) - divergence(low)) <= 1e-13 * divergence(low)


def test_logarithms_of_ratios_however_far_apart() -> None:
    for p, q in (
        (F(1), F(3)),
        (F(10**250), F(7)),
        (F(3), F(10**299)),
        (F(5), F(10**301)),
        (F(10**310), F(3)),
        (F(99, 100), F(1)),
        (F(10**300), F(1)),
        (F(3, 2), F(1)),
        (F(1, 2), F(1)),
    ):
        truth = MP.log(MP.mpf(p.numerator) / p.denominator) - MP.log(MP.mpf(q.numerator) / q.denominator)
        assert abs(log_ratio(p, q) - truth) <= 4e-16 * abs(truth)
    for low, high in (
        (0.001, 0.002),
        (0.0, 0.0099),
        (0.0, 0.011),
        (39.0, 45.0),
        (40.0, 41.0),
        (100.0, 1e6),
        (3.0, 5.0),
    ):
        expected = [(1 - MP.exp(-MP.mpf(y))) / MP.mpf(y) if y else MP.mpf(1) for y in (low, high)]
        truth = MP.log(expected[0] / expected[1])
        assert abs(log_exprel_minus_ratio(low, high) - truth) <= 1e-14 * truth


def test_a_delta_of_one_is_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is rounded to exactly 1."""
    monkeypatch.setattr(sf.theorems, "_ROUND_UP", 1.0)
    assert sf.theorems.optimal(900, 1) == (sf.Guarantee(900),)
    monkeypatch.setattr(sf.theorems, "_ROUND_UP", 1 - 2.0**-49 * math.log(3))
    assert sf.theorems.optimal(900, 3) == (sf.Guarantee(2700),)


def test_the_textbook_refuses_what_it_does_not_compute() -> None:
    """At the last values that are computed it computes."""
    most = sf.theorems.optimal("0.01", 1020)
    assert (most[0].epsilon, most[0].delta) == (F("10.2"), 0)
    assert most[1].epsilon == F("10.18")
    assert F(1, 10**300) <= most[1].delta < F(2, 10**300)  # (1 − e^−0.02)/(1 + e^−0.01)^1020, rounded up
    assert {each.delta for each in sf.theorems.optimal(0, 6)} == {F(0)}
    assert sf.theorems.optimal(900, 3) == (sf.Guarantee(2700),)  # δ₁ = 1 − 3·e^−900 rounds to 1
    assert [each.epsilon for each in sf.theorems.optimal(26, 4)] == [104, 52]  # δ₁ = 1 − 2.04e-11, δ₂ = 1 − 2.8e-22
    assert sf.theorems.advanced(sf.Guarantee(300), 1, "0.5").epsilon > 300
    assert sf.theorems.optimal("0.001", 1)[0].delta == 0
    assert sf.theorems.kappa_secure(1, 900).delta == F(1, 2**900)
    for call in (
        lambda: sf.theorems.optimal(1, 4001),
        lambda: sf.theorems.optimal(1, 0),
        lambda: sf.theorems.advanced(sf.Guarantee("300.001"), 1, "0.5"),
        lambda: sf.theorems.kappa_secure(1, 901),
        lambda: sf.theorems.negligible_from(51),
        lambda: sf.theorems.azuma("12", 1),
        lambda: sf.theorems.azuma(3, 1),  # type: ignore[arg-type]
        lambda: sf.theorems.basic("12"),  # type: ignore[arg-type]
        lambda: sf.theorems.chernoff_multiplicative(0, "0.5", "0.1"),
        lambda: sf.theorems.chernoff_additive(0, "0.5"),
        lambda: sf.theorems.group(sf.Guarantee(1), 0),
        lambda: sf.theorems.renyi_allowance(sf.Guarantee(0, "0.1")),
        lambda: sf.theorems.renyi_allowance(sf.Guarantee(1)),
    ):
        assert_refused(call)
    assert sf.theorems.chernoff_multiplicative(1, "0.5", "0.1") < 1
    assert sf.theorems.chernoff_additive(1, "0.5") < 1
    assert sf.theorems.group(sf.Guarantee(1), 1) == sf.Guarantee(1)


def test_failures_of_many_releases() -> None:
    """Exactly while there are at most 64 of them, then in floating point within 2^-40 on either side."""
    revealing = ResponseLoss(F(0), 2, F(1, 1000))
    for parts in (((revealing, 64),), ((revealing, 30), (ResponseLoss(F(1), 2, F(1, 7)), 34))):
        success = math.prod((1 - loss.failure) ** count for loss, count in parts)
        assert failure_range(parts) == (1 - success, 1 - success)
    low, high = failure_range(((revealing, 65),))
    truth = 1 - F(999, 1000) ** 65
    assert float(low / truth - 1) == pytest.approx(-(2.0**-40), rel=1e-3, abs=0)
    assert float(high / truth - 1) == pytest.approx(2.0**-40, rel=1e-3, abs=0)
    told = PairLoss((F(1), F(0)), (F(0), F(1)))
    assert failure_range(((told, 100), (revealing, 3))) == (1, 1)
    assert failure_range(((ResponseLoss(F(0), 2, F(1, 2)), 1000),)) == (F(1 - 2.0**-40), 1)
    assert failure_range(((GaussianLoss(F(1)), 1000),)) == (0, 0)
    assert failure_range(((ResponseLoss(F(1), 2, F(1, 9)), 1), (GaussianLoss(F(1)), 5))) == (F(1, 9), F(1, 9))


def test_the_largest_ratio_on_a_chord() -> None:
    """Of the line s − 1 over s(s + 1), which is largest at 1 + √2, where it is 3 − 2√2; else at the nearer end."""
    for a, b, largest in ((1.5, 8.0, 3 - 2 * math.sqrt(2)), (4.0, 8.0, 3 / 20), (1.25, 2.0, 1 / 6)):
        assert _chord_maximum(a, b, a - 1, b - 1) == pytest.approx(largest, rel=1e-15)
    assert _chord_maximum(1.0, 2.0, 3.0, 6.0) == 1.5  # a line through 0 falls over s(s + 1) everywhere
    assert _chord_maximum(1.0, 2.0, 1.0, 1.0) == 0.5


def test_what_aliases_above_may_add() -> None:
    """e^{b − sε} by Chernoff's bound at every alias, summed as a geometric series, at the best of ten s."""
    shares = [MP.mpf(each) for each in ("1.02", "1.05", "1.1", "1.2", "1.35", "1.6", "2", "3", "5", "10")]
    for c, wrap, epsilon, mu in (
        (0.5, 30.0, 1.0, 0.0),
        (3.0, 4.0, 0.25, 0.5),
        (40.0, 0.5, 3.0, 0.0),
        (0.01, 900.0, 0.0, 1.0),
    ):
        moments = Moments.from_pairs([(GaussianLoss(F(1, 4)), 3)])
        bounds = []
        for share in shares:
            s = c * share
            away = (s - c) * wrap
            log_moment = (MP.mpf(3) / 4 + MP.mpf(mu) ** 2) / 2 * s * (s + 1)
            spread = -s * MP.log(1 + 1 / s) - MP.log(1 + s) - away - MP.log(1 - MP.exp(-away))
            bounds.append((log_moment + spread - s * epsilon, s, log_moment + spread))
        _, s, bound = min(bounds)
        found = _alias_slope_and_log(moments, c, wrap, epsilon, mu)
        assert found[0] == pytest.approx(float(s), rel=1e-14)
        raised = moments.rounding_error(np.array([float(s)]))[0]
        assert found[1] - raised == pytest.approx(float(bound), rel=1e-13)
        assert found[1] > bound
        size = 3 + 3 / 8 * s * (s + 1) + 8  # three factors, the exponent of the Gaussian part, and eight more units
        assert raised == pytest.approx(32 * 2.0**-52 * float(size), rel=1e-12, abs=0)


@pytest.mark.parametrize("n", [1, 2, 7, 10**6])
def test_stirling_is_widened_by_what_floating_point_may_lose(n: int) -> None:
    low, high = sf.theorems.stirling(n)
    leading = MP.log(2 * MP.pi * n) / 2 + n * MP.log(MP.mpf(n)) - n
    slack = MP.mpf(2) ** -50 * (1 + n + n * MP.log(MP.mpf(n)))
    assert abs(low - (leading + MP.mpf(1) / (12 * n + 1) - slack)) <= slack / 4
    assert abs(high - (leading + MP.mpf(1) / (12 * n) + slack)) <= slack / 4


# ── the sum along a line ───────────────────────────────────────────────────────────────────────


def test_the_moments_of_a_composition() -> None:
    vector = DiscreteGaussianVectorLoss(F(50), 3, 2, 4, 8)
    parts = [
        (BoundedRangeLoss(F(2)), 6),
        (GaussianLoss(F(1, 4)), 3),
        (ConcentratedLoss(F(1, 8)), 2),
        (vector, 5),
        (LaplaceLoss(F(1, 2)), 4),
        (LaplaceLoss(F(3)), 1),
    ]
    moments = Moments.from_pairs(parts)
    gaussian = F(3, 4) + F(1, 2) + 5 * F(8, 48)
    slack = 5 * 3 * 6e-17
    assert (moments.moments_known, moments.largest_finite_loss, moments.spacing_and_offset) == (False, math.inf, None)
    assert moments.gaussian_mu_squared == pytest.approx(float(gaussian), rel=1e-14)
    assert moments.slack == pytest.approx(slack, rel=1e-12, abs=0)
    assert (moments.count, moments.magnitude) == (21.0, 4 * 0.5 + 3 + 6 * 2)
    for z in POINTS:
        of_all = (
            4 * MP.log(laplace_moment(0.5, 0, MP.mpc(z)))
            + MP.log(laplace_moment(3.0, 0, MP.mpc(z)))
            + 6 * MP.log(range_moment(2.0, MP.mpc(z)))
        )
        g = MP.mpf(gaussian.numerator) / gaussian.denominator
        expected = MP.exp(of_all + g / 2 * MP.mpc(z) * (MP.mpc(z) + 1))
        found = MP.exp(MP.mpc(moments.log_moment(np.array([z]))[0]))
        assert abs(found - expected) <= 1e-12 * abs(expected) * (1 + abs(z) ** 2)
    loud = replace(moments, slack=0.25)
    assert (loud.log_moment(np.array(POINTS)) - moments.log_moment(np.array(POINTS))).real == pytest.approx(
        [0.25 * (z.real + 1) for z in POINTS], rel=1e-9
    )
    for c, t in ((0.5, 0.0), (2.0, 3.0), (0.1, 0.7)):
        parts_bound = sum(stack.log_bound(c, t) for stack in moments.stacks)
        expected = float(gaussian) / 2 * (c * (c + 1) - t * t) + 0.25 * (c + 1) + parts_bound
        assert loud.log_bound(c, t) == pytest.approx(expected, rel=1e-13)
        each = (
            4 * LaplaceLoss.log_bound(c, t, np.array([[0.5]]), np.array([[0.0]]))
            + LaplaceLoss.log_bound(c, t, np.array([[3.0]]), np.array([[0.0]]))
            + 6 * BoundedRangeLoss.log_bound(c, t, np.array([[2.0]]))
        )
        assert parts_bound == pytest.approx(float(each[0, 0]), rel=1e-13)
    size = 21 + 17 * 3.5 + float(gaussian) * 2.5 * 3.5 / 2 + 8
    assert moments.rounding_error(np.array([2.5]))[0] == pytest.approx(32 * 2.0**-52 * size, rel=1e-12, abs=0)
    assert len(moments.stacks) == 2
    pairs = [(PairLoss((F(1, 2), F(1, 2)), (F(1, n), 1 - F(1, n))), n) for n in (3, 5, 3)]
    found = Moments.from_pairs(pairs).log_moment(np.array([0.5 + 0j]))[0].real
    each = [
        float(n)
        * math.log(math.fsum(float(p * p / q) ** 0.5 * float(p) ** 0.5 for p, q in zip(loss.p, loss.q, strict=True)))
        for loss, n in pairs
    ]
    assert found == pytest.approx(math.fsum(each), rel=1e-12)
    bounded = Moments.from_pairs([(LaplaceLoss(F(1, 2), F(1, 2)), 3), (ResponseLoss(F(1, 4)), 2)])
    assert bounded.moments_known
    assert bounded.spacing_and_offset == (F(1, 2), F(0))  # steps of 1 from 3/2 and of 1/2 from 1/2
    assert 2.0 <= bounded.largest_finite_loss < 2.0 + 1e-12


LINE = Inversion(
    moments=Moments.from_pairs([(ResponseLoss(F(12)), 1)]),
    c=0.75,
    period=9.0,
    heights=np.array([0.0, 1.5, 3.0]),
    terms=np.array([0.4, 0.1 + 0.05j, -0.02j]),
    log_peak=0.4,
    truncation_error=1e-3,
    constant_and_growing_error=(2e-3, 5e-4),
    smoothing_mu=0.0,
    spacing=0.0,
    offset=0.0,
    alias_slope_and_log=(1.25, -3.0),
)


def on_line(line: Inversion, epsilon: float, side: int) -> Real:
    """The sum with all that may be wrong with it, for or against."""
    e = MP.mpf(epsilon)
    total = MP.fsum((MP.mpc(t) * MP.expj(-e * MP.mpf(h))).real for t, h in zip(line.terms, line.heights, strict=True))
    error = side * (
        MP.mpf(line.truncation_error)
        + MP.mpf(line.constant_and_growing_error[0])
        + MP.mpf(line.constant_and_growing_error[1]) * abs(e)
    )
    aliases = MP.mpf(0)
    if side < 0:
        below = MP.exp(-MP.mpf(line.c) * line.period)
        aliases = below / (1 - below)
        if line.smoothing_mu or epsilon + line.period < line.moments.largest_finite_loss:
            aliases += MP.exp(min(MP.mpf(600), line.alias_slope_and_log[1] - MP.mpf(line.alias_slope_and_log[0]) * e))
    return MP.exp(MP.mpf(line.log_peak) - MP.mpf(line.c) * e) * (total + error) - aliases


@pytest.mark.parametrize("side", [1, -1])
def test_a_sum_along_a_line_with_all_that_may_be_wrong_with_it(side: int) -> None:
    lines = (
        LINE,
        replace(LINE, smoothing_mu=0.5),
        replace(LINE, alias_slope_and_log=(1.25, 700.0)),
        replace(LINE, log_peak=599.0),
    )
    for line in lines:
        for epsilon in (0.0, 0.7, 2.5, 3.0, 4.0, -1.0):
            assert abs(line.smoothed_delta(epsilon, side) / on_line(line, epsilon, side) - 1) < 1e-13
    nothing = 1.0 if side > 0 else 0.0
    assert replace(LINE, log_peak=600.5).smoothed_delta(0.0, side) == nothing
    assert replace(LINE, terms=np.array([0.4, math.nan, 0.0])).smoothed_delta(0.5, side) == nothing
    assert replace(LINE, truncation_error=math.inf).smoothed_delta(0.5, side) == nothing


def test_a_sum_on_a_lattice_is_read_between_its_points() -> None:
    """Linear in e^ε between them."""
    line = replace(LINE, spacing=0.5, offset=0.2)
    for side in (1, -1):
        for epsilon, low in ((0.3, 0.2), (0.69, 0.2), (0.2, 0.2), (1.45, 1.2), (0.1, -0.3)):
            share = (MP.exp(MP.mpf(epsilon)) - MP.exp(MP.mpf(low))) / (MP.exp(MP.mpf(low) + 0.5) - MP.exp(MP.mpf(low)))
            expected = (1 - share) * on_line(line, low, side) + share * on_line(line, low + 0.5, side)
            assert abs(line._interpolated_delta(epsilon, side) / expected - 1) < 1e-12
            assert abs(LINE._interpolated_delta(epsilon, side) / on_line(LINE, epsilon, side) - 1) < 1e-12


def test_the_ends_of_what_a_sum_says() -> None:
    assert LINE.upper_delta(12.1) == 0.0
    assert LINE.upper_delta(0.7) == pytest.approx(float(on_line(LINE, 0.7, 1)), rel=1e-13)
    assert replace(LINE, log_peak=5.0).upper_delta(0.0) == 1.0
    negative = replace(LINE, terms=-LINE.terms)
    assert (negative.upper_delta(0.5), negative.lower_delta(0.5)) == (5e-324, 0.0)
    assert LINE.lower_delta(0.7) == pytest.approx(float(on_line(LINE, 0.7, -1)), rel=1e-13)


def test_the_lower_bound_of_two_smoothings() -> None:
    """(1 + λ)·smooth_μ − λ·smooth_{rμ}, λ = R/(1 − R), R = erf(μ/√8)/erf(rμ/√8)."""
    wide = replace(
        LINE, terms=LINE.terms * 1.001, smoothing_mu=0.75, truncation_error=0.0, constant_and_growing_error=(0.0, 0.0)
    )
    line = replace(
        LINE, smoothing_mu=0.5, truncation_error=0.0, constant_and_growing_error=(0.0, 0.0), second_smoothing=wide
    )
    for epsilon in (0.0, 0.7):
        ratio = MP.erf(MP.mpf("0.5") / MP.sqrt(8)) / MP.erf(MP.mpf("0.75") / MP.sqrt(8))
        weight = ratio / (1 - ratio) * (1 + MP.mpf(2) ** -40)
        narrow, wider = on_line(line, epsilon, -1), on_line(wide, epsilon, 1)
        expected = ((1 + weight) * narrow - weight * wider) * (1 - MP.mpf(2) ** -50)
        assert expected > 0.05
        assert abs(line.lower_delta(epsilon) / expected - 1) < 1e-13
    assert replace(line, second_smoothing=replace(wide, terms=LINE.terms * 9)).lower_delta(0.0) == 0.0
    assert replace(line, second_smoothing=replace(wide, smoothing_mu=0.5)).lower_delta(0.0) == 0.0
    assert replace(line, second_smoothing=replace(wide, smoothing_mu=0.25)).lower_delta(0.0) == 0.0
