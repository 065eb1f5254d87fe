from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import pytest

import sfumato as sf
from privacy import exact
from privacy.families import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from sfumato.privacy.calibration import least_parameter_by_shortfall, log_excess, meets
from sfumato.release.prices import Price


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        ("1", "1e-6", 4.22467888932684),
        ("0.1", "1e-9", 50.2098182630153),
        ("5", "1e-5", 0.891868264951518),
        ("0.5", "1e-10", 11.436239995092),
    ],
)
def test_analytic_gaussian_vectors(epsilon: str, delta: str, sigma: float) -> None:
    found = sf.calibrate(Gaussian, sf.Guarantee(epsilon, delta))
    assert float(found.sigma) == pytest.approx(sigma, rel=1e-12)
    assert found.curve().delta(epsilon) <= float(delta)
    wide = sf.calibrate(Gaussian, sf.Guarantee(epsilon, delta), sf.Sensitivity(groups=9))
    assert float(wide.sigma) == pytest.approx(3 * sigma, rel=2e-12)


@pytest.mark.parametrize("family", [Laplace, DiscreteLaplace])
@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "1", "2.5", "0.123456"])
def test_pure_laplace_is_exact(family: type[Laplace | DiscreteLaplace], epsilon: str) -> None:
    assert sf.calibrate(family, sf.Guarantee(epsilon)).scale == 1 / Fraction(epsilon)
    assert sf.calibrate(family, sf.Guarantee(epsilon), 7).scale == 7 / Fraction(epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.5", "1e-4"), ("3", "1e-5")])
def test_discrete_noise_is_calibrated_as_the_discrete_noise_it_is(epsilon: str, delta: str) -> None:
    found = sf.calibrate(DiscreteGaussian, sf.Guarantee(epsilon, delta))
    with mpmath.workdps(exact.DIGITS):
        truth = exact.hockey_stick(exact.discrete_gaussian(found.sigma, 1), epsilon)
        assert truth <= exact.number(delta)
        assert truth >= exact.number(delta) * (1 - mpmath.mpf(10) ** -6)


@pytest.mark.parametrize("family", [sf.Gaussian, DiscreteGaussian])
def test_gaussian_noise_without_delta_is_refused_for_its_guarantee(family: Any) -> None:
    with pytest.raises(
        sf.InvalidParameter, match="guarantee must be one that some scale of this noise satisfies"
    ) as refused:
        sf.calibrate(family, sf.Guarantee(1))
    assert "give a δ above 0" in refused.value.fix


def test_a_guarantee_out_of_reach_advises_a_delta_only_where_there_is_none() -> None:
    with pytest.raises(sf.InvalidParameter, match="one that some scale of this noise satisfies") as refused:
        sf.calibrate(sf.Gaussian, sf.Guarantee("0.0001", "1e-6"), 10**9)
    assert "δ" not in refused.value.fix
    assert refused.value.fix.startswith("give a larger ε or a smaller sensitivity")


def test_laplace_with_delta_needs_less_noise() -> None:
    pure = sf.calibrate(Laplace, sf.Guarantee("0.5"))
    eased = sf.calibrate(Laplace, sf.Guarantee("0.5", "0.01"))
    assert eased.scale < pure.scale
    assert eased.curve().delta("0.5") <= 0.01


@dataclass(frozen=True)
class Constant:
    """A family whose noise does not depend on its parameter."""

    parameter: Fraction
    epsilon: str

    def curve(self, _sensitivity: object = 1) -> sf.Curve:
        return sf.Curve.pure(self.epsilon)


def test_families_that_cannot_or_need_not() -> None:
    with pytest.raises(sf.InvalidParameter, match="one that some scale of this noise satisfies"):
        sf.calibrate(lambda x: Constant(x, "2"), sf.Guarantee(1))
    with pytest.raises(sf.InvalidParameter, match="one that needs noise"):
        sf.calibrate(lambda x: Constant(x, "0.5"), sf.Guarantee(1))
    with pytest.raises(sf.InvalidParameter, match="one that some scale of this noise satisfies"):
        sf.calibrate(Gaussian, sf.Guarantee(1))


def test_meeting_a_guarantee_is_decided_exactly_where_it_can_be() -> None:
    from sfumato.privacy.calibration import meets

    third = sf.Curve.laplace(3)
    assert meets(third, sf.Guarantee("1/3"))
    assert not meets(third, sf.Guarantee("0.3333333333333333"))
    assert meets(third, sf.Guarantee("0.3333333333333333", "1e-15"))


@pytest.mark.parametrize("place", range(40))
def test_what_is_found_is_enough_itself_where_rounding_is_not_monotone(place: int) -> None:
    """A computed δ may be larger where there is more noise, by rounding: nothing is concluded from a smaller one."""

    def short(size: Fraction) -> float:
        digest = hashlib.sha256(f"{place} {size}".encode()).digest()
        return 1 + place / 40 - float(size) + 1e-6 * (digest[0] - 127.5)

    assert short(least_parameter_by_shortfall(short, "a goal")) <= 0


def test_how_far_a_number_is_above_another_is_known_beyond_all_floats() -> None:
    tiny, huge = Fraction(1, 10**400), Fraction(10**400)
    assert log_excess(5e-324, huge) < log_excess(1.0, huge) < 0 < log_excess(1.0, tiny) < log_excess(1e308, tiny)
    assert log_excess(0.0, tiny) == -math.inf
    assert log_excess(math.inf, huge) == log_excess(math.nan, huge) == math.inf
    assert log_excess(Fraction(1, 3), Fraction(1, 3)) <= 0 < log_excess(Fraction(1, 3) + tiny, Fraction(1, 3))


def test_an_excess_over_nothing_has_no_bound() -> None:
    assert log_excess(0.5, Fraction(0)) == log_excess(math.inf, Fraction(1)) == math.inf
    assert log_excess(0.0, Fraction(0)) == log_excess(Fraction(0), Fraction(1)) == -math.inf
    assert log_excess(Fraction(1, 2), Fraction(1, 2)) == 0
    assert log_excess(Fraction(1, 2) + Fraction(1, 10**30), Fraction(1, 2)) == 2.0**-60


def test_a_curve_meets_a_guarantee_up_to_its_delta_and_no_further() -> None:
    gaussian = sf.Curve.gdp(1)
    delta = Fraction(gaussian.delta(1))
    assert meets(gaussian, sf.Guarantee(1, delta))
    assert not meets(gaussian, sf.Guarantee(1, delta * (1 - Fraction(1, 10**12))))
    assert meets(sf.Curve.pure(1), sf.Guarantee(1))
    assert not meets(sf.Curve.pure(1 + Fraction(1, 10**30)), sf.Guarantee(1))
    assert meets(sf.Curve.approximate(1, "1e-6"), sf.Guarantee(1, "1e-6"))


def test_no_guarantee_is_met_by_a_delta_that_only_its_float_is_below() -> None:
    """The float 1e-6 is a little below 10⁻⁶, and 0.3 below 3/10: what they stand for is compared."""
    for text in ("1e-6", "0.3", "0.1"):
        number, tiny = Fraction(text), Fraction(1, 10**30)
        curve, rho = sf.Curve.approximate(1, number), sf.Curve.concentrated(number)
        assert meets(curve, sf.Guarantee(1, number))
        assert not meets(curve, sf.Guarantee(1, number - tiny))
        assert Price(rho=number * (1 + Fraction(1, 10**15))).is_satisfied_by(rho)
        assert not Price(rho=number - tiny).is_satisfied_by(rho)
        assert log_excess(float(text), number - tiny) > 0 >= log_excess(number, number)
