"""Theory's ceilings hold for every finite mechanism, and some mechanism reaches them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import epsilon_lower_bound, guess_ceiling, max_correct, power_ceiling, replacement_guarantee
from sfumato.attacks.ceilings import account_guess_ceiling, curve_guess_ceiling, format_percent_up
from sfumato.mechanisms.confidence_limits import binomial_upper_tail


def test_a_value_that_is_replaced_is_one_unit_or_two() -> None:
    promise = sf.Guarantee(1, "1e-6")
    assert replacement_guarantee(promise, "replace") == promise
    twice = replacement_guarantee(promise, "add-remove")
    assert twice.epsilon == 2
    assert float(twice.delta) == pytest.approx(1e-6 * (1 + math.e))
    with pytest.raises(sf.InvalidParameter, match="add-remove"):
        replacement_guarantee(promise, "nearby")


@pytest.mark.parametrize("choices", [2, 3, 10])
@pytest.mark.parametrize("delta", [0.0, 0.125])
def test_randomised_response_reaches_the_ceiling_of_uniform_values(choices: int, delta: float) -> None:
    """With probability δ the value is told, otherwise it is randomised: (ε, δ)-DP, and what is guessed right is the
    bound where there are two values; for more it is below, and at δ = 0 equal.
    """
    growth = math.exp(1.5)
    truth = growth / (growth + choices - 1)
    reached = delta + (1 - delta) * truth
    bound = guess_ceiling(sf.Guarantee(1.5, delta), f"1/{choices}", choices)
    assert reached <= bound + 1e-12
    if choices == 2 or not delta:
        assert reached == pytest.approx(bound, abs=1e-12)


def test_no_mechanism_passes_the_ceiling_of_its_own_loss() -> None:
    """Random laws of five outcomes for two to five values, with random priors: the best guess stays below."""
    draw = np.random.default_rng(20)
    closest = 1.0
    for _ in range(300):
        choices = int(draw.integers(2, 6))
        laws = draw.dirichlet(np.ones(5) * draw.uniform(0.5, 20), choices) + 1e-9
        laws /= laws.sum(axis=1, keepdims=True)
        loss = max(float(np.log(a / b).max()) for a in laws for b in laws)
        prior = draw.dirichlet(np.ones(choices))
        best = float((prior[:, None] * laws).max(axis=0).sum())
        bound = guess_ceiling(sf.Guarantee(loss), float(prior.max()), choices)
        assert best <= bound + 1e-12
        closest = min(closest, bound - best)
    assert closest < 0.02  # the bound is no trivial one


def test_no_test_passes_the_trade_off_curve() -> None:
    draw = np.random.default_rng(21)
    for _ in range(200):
        absent, present = draw.dirichlet(np.ones(6), 2) + 1e-9
        absent, present = absent / absent.sum(), present / present.sum()
        epsilon = float(draw.uniform(0, 1))
        delta = float(
            max(
                np.maximum(present - math.exp(epsilon) * absent, 0).sum(),
                np.maximum(absent - math.exp(epsilon) * present, 0).sum(),
            )
        )
        order = np.argsort(-present / absent)
        alarms, powers = np.cumsum(absent[order]), np.cumsum(present[order])
        for alarm, power in zip(alarms[:-1], powers[:-1], strict=True):
            assert power <= power_ceiling(sf.Guarantee(epsilon, min(delta + 1e-12, 0.999)), float(alarm)) + 1e-9


def test_the_trade_off_curve_is_reached_by_randomised_response() -> None:
    truth = math.e / (1 + math.e)
    assert power_ceiling(sf.Guarantee(1), 1 - truth) == pytest.approx(truth)
    assert power_ceiling(sf.Guarantee(1), 0) == 0
    assert power_ceiling(sf.Guarantee(1), 1) == 1
    assert power_ceiling(sf.Guarantee(0), "0.3") == pytest.approx(0.3)


def test_nothing_is_learnt_at_zero_and_all_may_be_at_a_large_loss() -> None:
    assert guess_ceiling(sf.Guarantee(0)) == 0.5
    assert guess_ceiling(sf.Guarantee(0), "0.7", 3) == pytest.approx(0.7)
    assert guess_ceiling(sf.Guarantee(10**6)) == 1.0
    with pytest.raises(sf.InvalidParameter, match="delta"):
        guess_ceiling(sf.Guarantee(1, 1))


@pytest.mark.parametrize(
    "epsilon", [pytest.param("0.1", marks=pytest.mark.long), "1", pytest.param("3", marks=pytest.mark.long)]
)
def test_a_curves_ceiling_is_where_its_trade_off_is_worst(epsilon: str) -> None:
    """Of ε alone it is that of randomised response; of Gaussian noise Φ(μ/2), which the best test reaches, and less
    than all that is known of ρ-zCDP allows.
    """
    assert curve_guess_ceiling(sf.Curve.pure(epsilon)) == pytest.approx(guess_ceiling(sf.Guarantee(epsilon)), abs=1e-9)
    mu = float(epsilon)
    exact = (1 + math.erf(mu / 2 / math.sqrt(2))) / 2
    reached = curve_guess_ceiling(sf.Curve.gaussian(1 / mu))
    assert exact - 1e-12 <= reached <= exact + 1e-6
    assert reached < curve_guess_ceiling(sf.Curve.concentrated(mu**2 / 2))
    curve = sf.Curve.gaussian(1 / mu)
    tests = [1 - (alarm + curve.tradeoff(alarm)) / 2 for alarm in np.linspace(0.01, 0.99, 99)]
    assert max(tests) <= reached + 1e-9
    assert max(tests) > reached - 1e-3


def test_an_account_promises_nothing_of_a_value_where_two_deltas_are_no_probability() -> None:
    assert account_guess_ceiling(sf.Guarantee(1), "replace") == guess_ceiling(sf.Guarantee(1))
    assert account_guess_ceiling(sf.Guarantee(1), "add-remove") == guess_ceiling(sf.Guarantee(2))
    assert account_guess_ceiling(sf.Guarantee(50, "0.01"), "add-remove") == 1


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "0.0 %"), (0.5, "50.0 %"), (math.nextafter(0.5, 1), "50.1 %"), (0.99901, "100.0 %"), (1.0, "100.0 %")],
)
def test_a_ceiling_is_shown_rounded_up(share: float, shown: str) -> None:
    assert format_percent_up(share) == shown


def test_a_likeliest_value_has_no_less_than_its_share() -> None:
    with pytest.raises(sf.InvalidParameter, match="at least 1/4"):
        guess_ceiling(sf.Guarantee(1), "0.2", 4)
    with pytest.raises(sf.InvalidParameter, match="choices"):
        guess_ceiling(sf.Guarantee(1), "1/2", 1)


def test_right_guesses_are_limited_by_the_exact_tail() -> None:
    for trials, ceiling in ((10, 0.5), (400, 0.7310585786300049), (2000, 0.9)):
        most = max_correct(trials, ceiling, "1e-6")
        assert binomial_upper_tail(most + 1, trials, ceiling) <= 1e-6
        assert most == 0 or binomial_upper_tail(most, trials, ceiling) > 1e-6
    assert max_correct(5, 1.0) == 5
    assert max_correct(5, 0.0) == 0
    with pytest.raises(sf.InvalidParameter, match="ceiling"):
        max_correct(5, 1.5)


def test_the_least_loss_that_guesses_prove_is_where_they_stop_to_surprise() -> None:
    proven = epsilon_lower_bound(900, 1000)
    assert 1.5 < proven < math.log(9)
    assert binomial_upper_tail(900, 1000, 1 / (1 + math.exp(-proven - 1e-6))) > 1e-6
    assert binomial_upper_tail(900, 1000, 1 / (1 + math.exp(-proven + 1e-6))) < 1e-6
    assert epsilon_lower_bound(510, 1000) == 0
    assert epsilon_lower_bound(0, 1000) == 0
    with pytest.raises(sf.InvalidParameter, match="right"):
        epsilon_lower_bound(6, 5)
