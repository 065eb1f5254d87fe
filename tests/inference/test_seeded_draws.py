"""Seeded draws: the same for the same numbers, and of the laws they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.array_types import Floats
from sfumato.errors import Unsupported
from sfumato.inference.noise_laws import NoiseLaw, SeededDraws
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.release.parts.scales import NoisyScale, QuantileScale


def test_the_same_released_numbers_give_the_same_draws() -> None:
    first, same, other = SeededDraws("a", [1.0]), SeededDraws("a", [1.0]), SeededDraws("a", [2.0])
    numbers = first.uniforms(3, 4)
    assert numbers.tolist() == same.uniforms(3, 4).tolist() != other.uniforms(3, 4).tolist()
    assert first.uniforms(3, 4).tolist() != numbers.tolist()
    assert ((numbers > 0) & (numbers < 1)).all()


def _agrees(drawn: Floats, probability: Floats) -> bool:
    """Compare numbers 0, 1, … and the rest with their probabilities (false alarms: 10⁻⁶)."""
    counted = np.array([(drawn == number).sum() for number in range(len(probability))])
    expected = np.append(probability, 1 - probability.sum()) * drawn.size
    observed = np.append(counted, drawn.size - counted.sum())
    return bool(stats.chisquare(observed, expected).pvalue > 1e-6)


@pytest.mark.parametrize("mean", [0.3, 4.0])
def test_poisson(mean: float) -> None:
    drawn = SeededDraws("poisson").poisson(np.array([[mean, 0.0]]), 20_000)
    assert drawn.shape == (20_000, 1, 2)
    assert not drawn[:, 0, 1].any()
    numbers = np.arange(6)
    assert _agrees(drawn[:, 0, 0], stats.poisson.pmf(numbers, mean))
    assert not _agrees(drawn[:, 0, 0], stats.poisson.pmf(numbers, mean * 1.1))


def test_large_poisson_numbers_have_their_mean_and_variance() -> None:
    drawn = SeededDraws("large").poisson(np.array([5e4, 1e3]), 20_000)
    assert drawn.mean(axis=0) == pytest.approx([5e4, 1e3], abs=5 * np.sqrt(5e4 / 20_000))
    assert drawn.var(axis=0) == pytest.approx([5e4, 1e3], rel=0.06)


@pytest.mark.parametrize(("order", "size"), [(1, 0.4), (1, 3.0), (2, 0.6), (2, 4.0), (1, 500.0), (2, 500.0)])
def test_noise(order: int, size: float) -> None:
    law = NoiseLaw(order, size)
    drawn = law.draw(SeededDraws("noise"), 20_000)
    assert drawn.mean() == pytest.approx(0, abs=5 * np.sqrt(law.variance / 20_000))
    if size < 10:
        values = np.arange(-400, 401)
        weights = np.exp(-((np.abs(values) / size) ** order) / order)
        assert _agrees(np.abs(drawn), np.append(weights[400], 2 * weights[401:404]) / weights.sum())
        assert law.variance == pytest.approx(
            (values**2 * weights).sum() / weights.sum(), rel=0.05 if order == 2 else 1e-9
        )
    else:
        assert drawn.var() == pytest.approx(law.variance, rel=0.08)


def test_laws_are_in_the_unit_of_the_totals() -> None:
    assert NoiseLaw.from_scale(NoisyScale("0.5", Laplace(4))) == NoiseLaw(1, 4.0, 0.5)
    assert NoiseLaw.from_scale(NoisyScale(2, Gaussian(3))) == NoiseLaw(2, 3.0, 2.0)
    assert NoiseLaw(2, 3.0, 2.0).variance == 36


def test_selected_numbers_have_no_law() -> None:
    with pytest.raises(Unsupported, match="no additive noise"):
        NoiseLaw.from_scale(QuantileScale.__new__(QuantileScale))
