"""The noise that a share of a price buys, from the formulas of each family: never less, to thirteen digits."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.additive import LEAST_STEPS, MAX_STEPS
from sfumato.privacy import Sensitivity
from sfumato.release.parts.other_parts import _clamp_epsilon
from sfumato.release.parts.shares import (
    NoiseStrength,
    calibrated_noise,
    noise_family,
    rounded_down_to_13_digits,
    rounded_up_to_13_digits,
)
from sfumato.release.prices import Price

THIRD = Fraction(1, 3)


@pytest.mark.parametrize("decade", [-5, 0, 7])
def test_sizes_are_rounded_to_thirteen_digits(decade: int) -> None:
    ten = Fraction(10) ** decade
    for size in (THIRD * ten, Fraction(2, 7) * ten, ten * Fraction(10**13 - 1, 10**13) + ten / 10**14):
        down, up = rounded_down_to_13_digits(size), rounded_up_to_13_digits(size)
        unit = Fraction(10) ** (math.ceil(math.log10(size)) - 13)
        assert down < size < up == down + unit
        assert (down / unit).denominator == 1
    assert rounded_down_to_13_digits(ten) == rounded_up_to_13_digits(ten) == ten


@pytest.mark.parametrize("share", [Fraction(1), THIRD, Fraction(1, 50)])
def test_a_share_of_a_price_buys_the_noise_of_its_closed_form(share: Fraction) -> None:
    """b = Δ₁/ε and σ = Δ₂/√(2ρ): a Laplace scale is exact, a standard deviation is rounded up."""
    laplace = NoiseStrength(sf.Laplace, Price(epsilon="0.7"))
    assert laplace.size(share) == 1 / (Fraction("0.7") * share)
    assert laplace.epsilon(share) == Fraction("0.7") * share
    change = Sensitivity.of(3)
    assert calibrated_noise(laplace, change, share) == sf.Laplace(3 / (Fraction("0.7") * share))
    gaussian = NoiseStrength(sf.Gaussian, Price(rho="0.02"))
    exact = 1 / math.sqrt(2 * 0.02 * share)
    assert float(gaussian.size(share)) == pytest.approx(exact, rel=1e-12)
    noise = calibrated_noise(gaussian, change, share)
    assert isinstance(noise, sf.Gaussian)
    (size,) = noise.sizes
    assert size == rounded_up_to_13_digits(size)
    assert 1 <= float(size) / (3 * exact) <= 1 + 3e-12


@pytest.mark.parametrize("share", [Fraction(1), THIRD])
def test_without_a_price_noise_is_relative_to_that_of_the_whole(share: Fraction) -> None:
    """Size s/f, or s/√f, and a selection of ε = f/s, or 2√f/s."""
    size = Fraction(5, 2)
    for family, divisor, factor in ((sf.Laplace, share, 1), (sf.Gaussian, Fraction(math.sqrt(share)), 2)):
        strength = NoiseStrength(family, size_without_price=size)
        assert strength.size(share) == size / divisor
        assert strength.epsilon(share) == rounded_down_to_13_digits(factor * divisor / size)
        assert calibrated_noise(strength, Sensitivity.of(2), share).sizes == (
            rounded_up_to_13_digits(2 * size / divisor),
        )


def test_noise_that_is_too_large_is_refused_and_too_small_is_raised() -> None:
    def noise(size: Fraction) -> tuple[Fraction, ...]:
        return calibrated_noise(NoiseStrength(sf.Laplace, Price(1 / size)), Sensitivity.of(1), Fraction(1)).sizes

    assert noise(Fraction(MAX_STEPS)) == (MAX_STEPS,)
    with pytest.raises(InvalidParameter, match="too large to draw exactly"):
        noise(MAX_STEPS + Fraction(1, 1000))
    assert noise(Fraction(LEAST_STEPS) / 2) == (LEAST_STEPS,)
    assert noise(Fraction(LEAST_STEPS) * 2) == (2 * LEAST_STEPS,)


def test_a_selection_is_drawn_within_its_range_by_row() -> None:
    """From 1e-6 to 500 for each row of a unit."""
    for rows in (1, 3):
        assert _clamp_epsilon(Fraction(1, 10**7), rows) == Fraction(rows, 10**6)
        assert _clamp_epsilon(Fraction(10**4), rows) == 500 * rows
        assert _clamp_epsilon(Fraction(7), rows) == 7


def test_families_are_named_by_class_or_by_word() -> None:
    assert noise_family(None) is None
    assert noise_family(sf.Laplace) is noise_family("LAPLACE") is sf.Laplace
    assert noise_family("gaussian") is sf.Gaussian
    for wrong in ("normal", int, 3, sf.Laplace(2)):
        with pytest.raises(InvalidParameter, match="mechanism"):
            noise_family(wrong)  # type: ignore[arg-type]
