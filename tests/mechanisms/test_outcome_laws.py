"""The law of a mechanism on one input is the one of its definition, computed here another way, and sums to at most 1.

Vectors come from mpmath: theta functions for Gaussian noise, orders of arrival for permute-and-flip, quadrature for the
largest of noisy scores.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import mpmath
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import outcome_laws

MP = mpmath.MPContext()
MP.dps = 80


def _mp(value: Fraction) -> Any:
    return MP.mpf(value.numerator) / value.denominator


def _noise_mass(mechanism: sf.Laplace | sf.Gaussian, steps: int) -> Any:
    """The mass of noise by Jacobi's theta function (Gaussian) and by a difference of tails (Laplace)."""
    (size,) = mechanism.sizes
    if mechanism.order == 2:
        nome = MP.exp(-1 / (2 * _mp(size) ** 2))
        return nome ** (steps**2) / MP.jtheta(3, 0, nome)
    q = MP.exp(-1 / _mp(size))
    if steps == 0:
        return 1 - 2 * q / (1 + q)
    return (q ** abs(steps) - q ** (abs(steps) + 1)) / (1 + q)


@pytest.mark.parametrize(
    ("mechanism", "value", "grid"),
    [
        (sf.Laplace(2), 5, 1),
        (sf.Laplace("1/3"), -2, 1),
        (sf.Laplace("0.5", grid="1/4"), "0.3", Fraction(1, 4)),
        (sf.Gaussian(3), 0, 1),
        (sf.Gaussian("0.7"), 1, 1),
        (sf.Gaussian(20, grid=4), 9, 4),
    ],
    ids=repr,
)
def test_noise_has_the_law_of_its_definition(mechanism: Any, value: Any, grid: Any) -> None:
    law = mechanism.distribution(value)
    start = Fraction((2 * Fraction(value) / grid + 1) // 2)
    assert list(law) == [(start + step) * grid for step in range(-(len(law) // 2), len(law) // 2 + 1)]
    for outcome, probability in law.items():
        true = _noise_mass(mechanism, int(outcome / grid - start))
        assert _mp(probability) <= true < _mp(probability + law.rounding)
    assert 0 < law.missing <= Fraction(1, 10**12)
    assert law.missing + 2 * law[law.outcomes[0]] > Fraction(1, 10**12)  # no more outcomes than it takes


def test_an_outcome_that_is_not_listed_has_its_probability_and_others_have_none() -> None:
    law = sf.Laplace(1).distribution(0, tail="0.1")
    assert len(law) < 10
    assert law[40] == pytest.approx(float(_noise_mass(sf.Laplace(1), 40)), rel=1e-12)
    assert law.get(1.5, 0) == 0
    assert "x" not in law
    with pytest.raises(KeyError):
        law["1/2"]


def _arrival_law(weights: list[Any]) -> list[Any]:
    """Permute-and-flip as McKenna & Sheldon define it: candidates in random order, each accepted with its weight."""
    chances = [MP.mpf(0)] * len(weights)
    orders = list(permutations(range(len(weights))))
    for order in orders:
        left = MP.mpf(1) / len(orders)
        for candidate in order:
            chances[candidate] += left * weights[candidate]
            left *= 1 - weights[candidate]
    return chances


def _largest_law(scores: list[Any], rate: Any) -> list[Any]:
    """The largest score under Laplace noise, by quadrature between the scores."""

    def density(x: Any) -> Any:
        return rate / 2 * MP.exp(-rate * abs(x))

    def below(x: Any) -> Any:
        return MP.exp(rate * x) / 2 if x < 0 else 1 - MP.exp(-rate * x) / 2

    ends = [-MP.inf, *sorted(set(scores)), MP.inf]

    def chance(h: int) -> Any:
        others = [score for j, score in enumerate(scores) if j != h]
        return MP.quad(lambda x: density(x - scores[h]) * MP.fprod(below(x - s) for s in others), ends)

    return [chance(h) for h in range(len(scores))]


SCORES = [3, 1, 3, 0]


@pytest.mark.parametrize("monotone", [False, True])
def test_selections_have_the_law_of_their_definition(monotone: bool) -> None:
    epsilon = Fraction(3, 2)
    rate = _mp(epsilon) / (1 if monotone else 2)
    weights = [MP.exp(rate * (score - max(SCORES))) for score in SCORES]
    total = MP.fsum(weights)
    with MP.workdps(30):
        largest = _largest_law(SCORES, rate)
    expected = {
        sf.Exponential(epsilon, monotone=monotone): ([w / total for w in weights], 1e-58),
        sf.NoisyMax(epsilon, monotone=monotone, noise="gumbel"): ([w / total for w in weights], 1e-58),
        sf.PermuteAndFlip(epsilon, monotone=monotone): (_arrival_law(weights), 1e-58),
        sf.NoisyMax(epsilon, monotone=monotone, noise="exponential"): (_arrival_law(weights), 1e-58),
        sf.NoisyMax(epsilon, monotone=monotone): (largest, 1e-20),
    }
    for mechanism, (chances, tolerance) in expected.items():
        law = mechanism.distribution(SCORES)
        assert list(law) == [0, 1, 2, 3]
        assert 0 <= law.missing < 10 * law.rounding
        for p, chance in zip(law.values(), chances, strict=True):
            assert abs(_mp(p) - chance) < tolerance, mechanism


def test_equal_scores_and_rational_odds_give_rational_laws() -> None:
    third = Fraction(1, 3)
    for mechanism in (sf.Exponential(2), sf.PermuteAndFlip(2), sf.NoisyMax(2)):
        law = mechanism.distribution([7, 7, 7])
        assert law == {0: third, 1: third, 2: third}
        assert law.rounding == law.missing == 0
    assert sf.RandomizedResponse.of_odds(3, 3).distribution(2) == {
        0: Fraction(1, 5),
        1: Fraction(1, 5),
        2: Fraction(3, 5),
    }
    law = sf.RandomizedResponse(1, 3).distribution(0)
    growth = MP.exp(1)
    assert abs(_mp(law[0]) - growth / (growth + 2)) < 1e-58
    assert abs(_mp(law[1]) - 1 / (growth + 2)) < 1e-58
    assert 0 <= law.missing < 6 * law.rounding
    assert len(sf.TopK(1, k=2).distribution([1, 2, 3])) == 6


@pytest.mark.parametrize(
    ("mechanism", "x", "y", "sensitivity"),
    [
        (sf.Laplace(2), 4, 5, 1),
        (sf.Laplace("0.5", grid="1/2"), 1, 2, 1),
        (sf.Gaussian(2), 0, 1, 1),
        (sf.RandomizedResponse(1, 4), 0, 3, None),
        (sf.Exponential(1), [1, 2, 0], [2, 1, 0], None),
        (sf.NoisyMax(1), [1, 2, 0], [2, 1, 0], None),
        (sf.PermuteAndFlip(1), [1, 2, 0], [2, 1, 0], None),
        (sf.Exponential(1, neighbours="replace"), [1, 2, 0], [0, 3, 0], None),
    ],
    ids=repr,
)
def test_the_loss_of_an_outcome_is_the_log_ratio_of_both_laws(mechanism: Any, x: Any, y: Any, sensitivity: Any) -> None:
    first, second = mechanism.distribution(x), mechanism.distribution(y)
    losses = {outcome: mechanism.loss(outcome, x, y) for outcome in first if first[outcome] > Fraction(1, 10**30)}
    for outcome, loss in losses.items():
        if second.get(outcome, 0) > Fraction(1, 10**30):
            ratio = MP.log(_mp(first[outcome]) / _mp(second[outcome]))
            assert abs(ratio - (_mp(loss) if isinstance(loss, Fraction) else loss)) < 1e-14
        assert mechanism.loss(outcome, y, x) == pytest.approx(-loss, rel=1e-14, abs=1e-15)
    curve = mechanism.curve() if sensitivity is None else mechanism.curve(sensitivity)
    if curve.max_divergence is not None:
        assert max(map(abs, losses.values())) <= curve.max_divergence
    pair = sf.Curve.pair(first, second, curve.neighbours)
    for epsilon in ("0", "0.2", "0.7"):
        assert pair.delta(epsilon) <= curve.delta(epsilon) + 3e-12
    if sensitivity is not None:  # the pair of the worst shift is the curve itself
        assert pair.delta("0.2") == pytest.approx(curve.delta("0.2"), abs=3e-12)


def test_losses_of_several_noises_add() -> None:
    top = sf.TopK(2, k=2)
    assert top.loss([0, 1], [3, 2, 0], [2, 2, 0]) == top.loss((0, 1), [3, 2, 0], [2, 2, 0]) > 0
    assert sf.Laplace(2).loss([3, 0], [0, 0], [1, 2]) == Fraction(-1, 2) + 1
    assert sf.Laplace([2, 4]).loss([3, 0], [0, 0], [1, 2]) == Fraction(-1, 2) + Fraction(1, 2)
    assert sf.Gaussian(2).loss([3, 0], [0, 0], [1, 2]) == Fraction((4 - 9) + 4, 8)


def test_no_noise_at_all_leaks_at_epsilon_zero() -> None:
    silent = sf.RandomizedResponse(0, 4)
    assert silent.distribution(1) == dict.fromkeys(range(4), Fraction(1, 4))
    assert silent.curve().epsilon(0) == 0
    assert silent.loss(1, 1, 2) == 0
    assert silent.truth == 0.25
    assert silent.error() == float("inf")
    assert set(silent.choose([2] * 300)) == {0, 1, 2, 3}
    assert sf.loads(sf.dumps(silent)) == silent
    assert sf.audit.enumerate(silent, (0, 1)).holds
    assert_refused(lambda: silent.estimate([1, 2]), "do not depend on the answers")
    for oracle in (sf.OptimizedUnaryEncoding, sf.OptimalLocalHashing):
        assert_refused(lambda oracle=oracle: oracle(0, 3), "0.000001")


def test_what_has_no_short_law_is_refused() -> None:
    refused: list[tuple[Any, str]] = [
        (lambda: sf.Laplace(10**6).distribution(0), "coarser grid"),
        (lambda: sf.Laplace([1, 2]).distribution(0), "one scale"),
        (lambda: sf.Laplace(1).distribution([1, 2]), "finite number"),
        (lambda: sf.Laplace(1).distribution("1/2"), "whole number"),
        (lambda: sf.Laplace(1).distribution(0, tail=0), "tail"),
        (lambda: sf.Gaussian(1).distribution(2**51), "2^50"),
        (lambda: sf.Exponential(1).distribution(range(30)), "at most 24"),
        (lambda: sf.Exponential(1).loss(5, [1, 2], [2, 1]), "outcomes"),
        (lambda: sf.Exponential(1).loss([0], [1, 2], [2, 1]), "outcomes"),
        (lambda: sf.Exponential(1).loss(0, [1, 2], [2, 1, 3]), "a list of 2 scores"),
        (lambda: sf.NoisyMax(1).loss(0, [0, 900], [0, 900]), "at least 1e-40"),
        (lambda: sf.Laplace(1).loss([1, 2], [1], [1]), "equal"),
        (lambda: sf.Laplace(1).loss(0.5, 1, 2), "whole number"),
        (lambda: sf.RandomizedResponse(1, 3).distribution(3), "from 0 to 2"),
        (lambda: sf.RandomizedResponse(1, 3).loss(0, 1, 9), "from 0 to 2"),
        (lambda: sf.RandomizedResponse(1, 1 << 19).distribution(3), "at most 40,000"),
        (lambda: sf.Laplace(1).distribution(0).plot({0: 1}), "distribution(y)"),
    ]
    for call, words in refused:
        with pytest.raises(InvalidParameter) as caught:
            call()
        assert words in str(caught.value), caught.value


def test_two_laws_and_their_losses_are_drawn(tmp_path: Path) -> None:
    noise = sf.Gaussian(2)
    picture = noise.distribution(0).plot(noise.distribution(1), tmp_path / "loss.svg")
    assert "Privacy loss of each outcome" in (tmp_path / "loss.svg").read_text()
    assert "M(y)" in picture.svg
    top = sf.TopK(1, k=2)
    assert top.distribution([1, 2, 3]).plot(top.distribution([3, 2, 1])).svg
    assert repr(noise.distribution(0)).startswith("<OutcomeDistribution ")


def test_a_float_on_a_fine_grid_is_that_step() -> None:
    """Its shortest decimal would lie beside the grid."""
    noise = sf.Laplace(Fraction(1, 2**59), grid=Fraction(1, 2**60))
    law = noise.distribution(2.0**-60)
    assert law[3 * 2.0**-60] == law[-(2.0**-60)] > 0


def test_a_law_has_as_many_outcomes_as_are_listed_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for noise in (sf.Laplace(2), sf.Gaussian("0.5", grid="1/4")):
        count = len(noise.distribution(0))
        monkeypatch.setattr(outcome_laws, "MAX_OUTCOMES", count)
        assert len(noise.distribution(0)) == count
        monkeypatch.setattr(outcome_laws, "MAX_OUTCOMES", count - 1)
        assert_refused(lambda noise=noise: noise.distribution(0), f"at most {count - 1:,} outcomes")
        monkeypatch.undo()
