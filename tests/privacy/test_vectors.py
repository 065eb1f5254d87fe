"""Discrete Gaussian noise on several coordinates, against 50-digit sums over all whole shifts of a sensitivity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from sfumato.privacy.losses import ConcentratedLoss
from sfumato.privacy.noise_losses import DiscreteGaussianVectorLoss, GaussianLoss, maximal_shifts

Shift = tuple[int, ...]
_DIGITS = Context(prec=80, Emin=-(10**6), Emax=10**6)
_ONE = 10**70
ROUNDED = Fraction(8, 2**52)
CHANGES = (
    sf.Sensitivity(3, 2, 3),  # Δ₂² = 5
    sf.Sensitivity(10, 2, 7, 5),  # the same by squares: one may move five coordinates
    sf.Sensitivity(2, 3, 4),
)
SIGMAS = ("0.6", "2", "5.7", pytest.param("9.45", marks=pytest.mark.long))


def shifts(change: sf.Sensitivity) -> Iterator[Shift]:
    """Every falling vector of whole numbers within the bounds, by brute force."""
    for length in range(1, change.groups + 1):
        for shift in itertools.combinations_with_replacement(range(int(change.per_group), 0, -1), length):
            if sum(shift) <= change.total and sum(size * size for size in shift) <= change.squares:
                yield shift


@cache
def _power(exponent: Fraction) -> int:
    """e^x in units of 1e-70."""
    number = _DIGITS.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    return int(_DIGITS.multiply(number.exp(_DIGITS), Decimal(_ONE)))


@cache
def _moved_sum(sigma: str, shift: Shift) -> tuple[list[int], int]:
    """The law of Σvᵢxᵢ, in units of 1e-70, and where it starts: by convolution of whole numbers."""
    variance = Fraction(sigma) ** 2
    reach = math.ceil(16 * float(sigma)) + 3
    weights = [_power(Fraction(-x * x) / (2 * variance)) for x in range(-reach, reach + 1)]
    mass = sum(weights)
    law = np.array([_ONE], dtype=object)
    for size in shift:
        one = np.zeros(2 * reach * size + 1, dtype=object)
        one[::size] = [weight * _ONE // mass for weight in weights]
        law = np.convolve(law, one) // _ONE
    return list(law), -reach * sum(shift)


def truth(sigma: str, shift: Shift, epsilon: str) -> float:
    """δ(ε) of one shift: L = (Σvᵢ² + 2Σvᵢxᵢ)/2σ²."""
    law, start = _moved_sum(sigma, shift)
    variance, squares = Fraction(sigma) ** 2, sum(size * size for size in shift)
    total = 0
    for place, mass in enumerate(law):
        loss = Fraction(squares + 2 * (start + place)) / (2 * variance)
        if mass and loss > Fraction(epsilon):
            total += mass * (_ONE - _power(Fraction(epsilon) - loss)) // _ONE
    return float(Fraction(total, _ONE))


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_only_shifts_that_cannot_grow_are_looked_at(change: sf.Sensitivity) -> None:
    every = set(shifts(change))
    kept = maximal_shifts(change.groups, *map(math.floor, (change.per_group, change.total, change.squares)))
    assert set(kept) <= every

    def covers(large: Shift, small: Shift) -> bool:
        return len(large) >= len(small) and all(a >= b for a, b in zip(large, small, strict=False))

    assert all(any(covers(large, small) for large in kept) for small in every)
    assert not any(covers(a, b) for a, b in itertools.permutations(kept, 2))


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_worst_shift_by_exact_sums(sigma: str, change: sf.Sensitivity) -> None:
    """The bounds hold the largest δ of all shifts, and are tight."""
    curve = sf.Curve.discrete_gaussian(sigma, change)
    for epsilon in ("0", "0.1", "1", "3"):
        worst = max(truth(sigma, shift, epsilon) for shift in shifts(change))
        low, high = curve.delta_range(epsilon)
        assert low <= worst * (1 + 1e-12)
        assert worst <= high * (1 + 1e-12)
        assert high - low <= 1e-7 * high + 1e-14
    for delta in ("1e-3", "1e-6"):
        low, high = curve.epsilon_range(delta)
        assert curve.delta(Fraction(high)) <= float(delta) * (1 + 1e-6)
        assert low <= high <= low * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("change", [pytest.param(CHANGES[0], marks=pytest.mark.long), *CHANGES[1:]], ids=str)
@pytest.mark.parametrize("sigma", ["5.7", pytest.param("9.45", marks=pytest.mark.long)])
def test_a_rounded_gaussian_covers_every_shift(sigma: str, change: sf.Sensitivity) -> None:
    """As it is composed: alone, and twice; δ is at least that of every shift, and within what τ²/σ² costs."""
    whole = map(math.floor, (change.per_group, change.total, change.squares))
    loss = DiscreteGaussianVectorLoss(Fraction(sigma) ** 2, change.groups, *whole)
    both = sf.Curve([(loss, 2)])
    for epsilon in ("0", "0.5", "1", "2"):
        bound, error = loss.delta_and_error(float(epsilon)) or (0.0, 0.0)
        assert error <= 1e-9 * bound
        for shift in shifts(change):
            assert truth(sigma, shift, epsilon) <= bound + error
            if len(shift) < 4:
                assert truth(sigma, shift * 2, epsilon) <= both.delta(epsilon)
    alone = sf.Curve.gaussian(Fraction(sigma), sf.Sensitivity(squares=change.squares, per_group=10))
    assert sf.Curve([(loss, 1)]).group(1).epsilon("1e-6") <= alone.epsilon("1e-6") * 1.05


def test_less_noise_than_from_divergence_alone() -> None:
    """At (1, 1e-6) with Δ₂² = 5: seven per cent less."""
    change, promise = sf.Sensitivity(3, 2, 3), sf.Guarantee(1, "1e-6")
    found = sf.calibrate(sf.Gaussian, promise, change)
    before = math.sqrt(5 / (2 * 0.0243559703595))
    assert float(found.sigma) == pytest.approx(before * 0.9325, rel=1e-3)  # type: ignore[arg-type]
    worst = max(truth(str(float(found.sigma)), shift, "1") for shift in shifts(change))  # type: ignore[arg-type]
    assert 0.999e-6 < worst <= 1e-6
    wide = sf.Sensitivity(40, 3 << 20, 10 << 20)  # too many to look at
    assert float(sf.calibrate(sf.Gaussian, promise, wide).sigma) == pytest.approx(  # type: ignore[arg-type]
        4.22467888932684 * wide.l2, rel=1e-9
    )


def test_charges_are_those_of_concentration() -> None:
    """What a line cost before is what it costs now: ρ = Δ₂²/2σ², for one unit and for k."""
    for sigma, change in itertools.product((2, 6, 100), (*CHANGES, sf.Sensitivity(40, 1000, 3000))):
        curve, rho = sf.Curve.discrete_gaussian(sigma, change), sf.Curve.concentrated(change.squares / (2 * sigma**2))
        account = sf.Budget(5, "1e-6")
        assert account.cost(curve) == account.cost(rho)
        assert account.cost(curve.group(3)) == account.cost(rho.group(3))
        assert curve.rho() == rho.rho()
        assert curve.delta(1) <= rho.delta(1) * (1 + 1e-9)
        assert sf.loads(sf.dumps(curve)) == curve


def test_small_noise_on_many_steps_is_known_by_its_divergence() -> None:
    (part,) = sf.Curve.discrete_gaussian(3, sf.Sensitivity(40, 1000, 3000)).parts
    assert isinstance(part[0], ConcentratedLoss)
    few = sf.Curve.discrete_gaussian(3, sf.Sensitivity(3, 2, 3))
    composed = sf.compose([few, few])  # of few shifts too: the next release may depend on this one
    assert composed.delta(1) == pytest.approx(sf.Curve.concentrated(Fraction(5, 9)).delta(1), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 0.0])
def test_what_a_rounding_of_the_continuous_law_adds_to_its_delta(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The continuous δ̃ is asked for below ε − 4hn, never above it, and e^{hn}·δ̃ − δ̃, what ε − 4hn lies below 0 and all
    roundings come to the error.
    """
    asked: list[float] = []
    monkeypatch.setattr(
        GaussianLoss, "delta_and_error", lambda _, at_epsilon: asked.append(at_epsilon) or (0.125, 0.03125)
    )
    for groups in (1, 10**6):
        loss = DiscreteGaussianVectorLoss(Fraction(100), groups, 1, groups, groups)
        slack = Fraction(6e-17) * groups
        value, error = loss.delta_and_error(epsilon) or (0, 0)
        target = Fraction(epsilon) - slack
        assert value == 0.125
        assert max(Fraction(0), target) - Fraction(1, 2**52) <= Fraction(asked[-1]) <= max(Fraction(0), target)
        expected = (Fraction(1, 32) + max(Fraction(0), -target)) * (1 + ROUNDED) + Fraction(1, 8) * (slack + ROUNDED)
        assert abs(Fraction(error) - expected) <= Fraction(1, 2**56)
