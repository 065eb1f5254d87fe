"""Losses of key thresholds, step by step: each formula in 50 digits, where its terms matter."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from sfumato.privacy import threshold_losses
from sfumato.privacy.losses import ResponseLoss
from sfumato.privacy.noise_losses import DiscreteGaussianLoss
from sfumato.privacy.threshold_losses import GaussianKeyThresholdLoss, LaplaceKeyThresholdLoss, max_passing_probability

F = Fraction
MP = mpmath.mp.clone()
MP.dps = 50


def normal_divergence(sigma_squared: F, alpha: F) -> mpmath.mpf:
    """D_α of two discrete normal laws of which one is moved by 1, added up over all integers."""
    s, a = MP.mpf(sigma_squared.numerator) / sigma_squared.denominator, MP.mpf(alpha.numerator) / alpha.denominator
    numbers = range(-80, 81)
    mass = MP.fsum(MP.exp(-(MP.mpf(x) ** 2) / (2 * s)) for x in numbers)
    powers = MP.fsum(MP.exp(-(a * MP.mpf(x) ** 2 + (1 - a) * MP.mpf(x - 1) ** 2) / (2 * s)) for x in numbers)
    return MP.log(powers / mass) / (a - 1)


@pytest.mark.parametrize(
    ("sigma_squared", "keys", "epsilon", "delta"),
    [(F(4), 2, F(2), F(1, 10)), (F(9), 3, F(1), F(1, 100)), (F(4), 1, F(1, 10), F(1, 10**6)), (F(1), 2, F(2), F(1, 5))],
)
@pytest.mark.parametrize("order", [F(3, 2), F(2), F(7, 3), F(5)])
def test_the_divergence_of_a_gaussian_threshold(sigma_squared: F, keys: int, epsilon: F, delta: F, order: F) -> None:
    """ln[(e^{(α−1)D} + e^{−αε−(ε−ρ)²/4ρ})/(1 − δ/2)]/(α − 1) for α of at least 2, or that of ε where it is less."""
    loss = GaussianKeyThresholdLoss(sigma_squared, keys, epsilon, delta)
    alpha, rho = max(F(2), order), F(keys) / (2 * sigma_squared)
    a, e, r = (MP.mpf(number.numerator) / number.denominator for number in (alpha, epsilon, rho))
    cut = MP.exp(-a * e - max(MP.mpf(0), e - r) ** 2 / (4 * r))
    whole = MP.exp((a - 1) * keys * normal_divergence(sigma_squared, alpha)) + cut
    truth = MP.log(whole / (1 - MP.mpf(delta.numerator) / delta.denominator / 2)) / (a - 1)
    pure = ResponseLoss(epsilon).renyi(float(order))
    assert loss.renyi(float(order)) == pytest.approx(float(min(truth, pure)), rel=1e-11)


def test_the_parts_of_a_gaussian_threshold() -> None:
    loss = GaussianKeyThresholdLoss(F(4), 3, F(1), F(1, 50))
    (noise, keys), (failure, once) = loss.factors
    assert (noise, keys) == (DiscreteGaussianLoss(F(4), 1), 3)
    assert (failure, once) == (ResponseLoss(F(0), 2, F(1, 100)), 1)
    assert (loss.pure_epsilon, loss.failure) == (1, F(1, 50))
    assert loss.group(1) is loss
    assert loss.group(3) == ResponseLoss(F(1), 2, F(1, 50)).group(3)


def passing(scale: F, t: int) -> mpmath.mpf:
    """The probability that noise is at least t."""
    b = MP.mpf(scale.numerator) / scale.denominator
    if t <= 0:
        return 1 - passing(scale, 1 - t)
    return MP.exp(-t / b) / (1 + MP.exp(-1 / b))


@pytest.mark.parametrize(("scale", "threshold", "weight", "most"), [(F(2), 9, 6, 3), (F(1), 5, 4, 4), (F(3), 4, 2, 1)])
def test_some_key_passes_at_most_as_often_as_by_the_steepest_weight(
    scale: F, threshold: int, weight: int, most: int
) -> None:
    steepest = min(MP.log(1 - passing(scale, threshold - w)) / w for w in range(1, most + 1))
    truth = 1 - MP.exp(weight * steepest)
    stated = max_passing_probability(scale, threshold, weight, most)
    apart = MP.mpf(stated.numerator) / stated.denominator - truth
    assert abs(apart - MP.mpf(10) ** -40) < MP.mpf(10) ** -45
    assert stated > 0


def test_a_key_that_surely_passes_hides_nothing() -> None:
    """Of weights 1 to 130 the last is above the threshold by more than 50 digits of its noise."""
    assert max_passing_probability(F(1), 3, 130, 130) == 1
    assert max_passing_probability(F(1), 3, 3, 3) < 1


def test_a_group_has_its_own_threshold_up_to_a_weight_and_beyond_it_the_rule_for_every_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threshold_losses, "_MAX_WEIGHT", 16)
    loss = LaplaceKeyThresholdLoss(F(2), 60, F(1, 10**9), weight=6, most=3, moved=2)
    assert loss.group(1) is loss
    reveal = max_passing_probability(F(2), 60, 12, 6)
    assert loss.group(2) == LaplaceKeyThresholdLoss(F(2), 60, reveal, 12, 6, 2)
    whole = LaplaceKeyThresholdLoss(F(10), 10**4, F(1, 10**20), weight=16, most=8)
    assert isinstance(whole.group(2), LaplaceKeyThresholdLoss)  # 16 on each key
    assert whole.group(3) == ResponseLoss(F(16, 10), 2, F(1, 10**20)).group(3)
