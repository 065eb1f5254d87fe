"""Divergences of Laplace noise, real and on whole numbers, in 50 digits: near orders of 1, and where e^x overflows."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.privacy.noise_losses import DiscreteGaussianLoss, LaplaceLoss

MP = mpmath.mp.clone()
MP.dps = 50


@pytest.mark.parametrize("order", [1.0, 1.0 + 2.0**-30, 1.25, 2.0, 17.0, 900.0])
@pytest.mark.parametrize(
    ("epsilon", "step"), [("0.001", "0"), ("0.5", "0"), ("0.5", "0.5"), ("3", "0.25"), ("60", "0"), ("900", "2")]
)
def test_divergences_of_laplace_noise(epsilon: str, step: str, order: float) -> None:
    """ln(A·e^{zε} + B·e^{−(z+1)ε})/z with A : B = sinh β(z + 1) : sinh βz; at z = 0 its limit."""
    with MP.workdps(50 + 800):
        e, beta = MP.mpf(epsilon), MP.mpf(step)
        z = MP.mpf(order) - 1 if order > 1 else MP.mpf(10) ** -300
        grow, fall = (MP.sinh(beta * (z + 1)), MP.sinh(beta * z)) if beta else (z + 1, z)
        moment = (grow * MP.exp(z * e) + fall * MP.exp(-(z + 1) * e)) / (grow + fall)
        truth = float(MP.log(moment) / z)
    loss = LaplaceLoss(Fraction(epsilon), Fraction(step))
    assert loss.renyi(order) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize(("variance", "shift"), [(Fraction(4), 1), (Fraction(9, 4), 2), (Fraction(1, 2), 1)])
def test_moments_of_discrete_normal_noise_on_and_off_the_real_line(variance: Fraction, shift: int) -> None:
    """Σ P(x)^{z+1}·P(x − s)^{−z}, added up over all integers."""
    v = MP.mpf(variance.numerator) / variance.denominator
    nodes = np.array([[0.5 + 0j, 1.5 + 0.75j, 0.25 + 2j, 3.0 - 1j]])
    found = DiscreteGaussianLoss.log_moment(nodes, np.array([[float(variance)]]), np.array([[float(shift)]]))
    total = MP.fsum(MP.exp(-(MP.mpf(x) ** 2) / (2 * v)) for x in range(-40, 41))
    for z, log_moment in zip(nodes[0].tolist(), found[0].tolist(), strict=True):
        exponents = (-((z + 1) * MP.mpf(x) ** 2 - z * MP.mpf(x - shift) ** 2) / (2 * v) for x in range(-40, 41))
        truth = MP.fsum(map(MP.exp, exponents)) / total
        assert abs(MP.exp(MP.mpc(log_moment)) / truth - 1) < 1e-12
