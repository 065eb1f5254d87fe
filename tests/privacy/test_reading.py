from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from privacy.families import add_remove, distributions
from refusals import assert_refused


def test_odds_move_by_e_to_the_epsilon() -> None:
    read = sf.reading(sf.Guarantee(1), prior="0.2")
    assert read.membership is not None
    assert read.membership / (1 - read.membership) == pytest.approx(0.25 * math.e)
    assert read.attribute / (1 - read.attribute) == pytest.approx(0.25 * math.e**2)
    assert read.true_positive_rate == pytest.approx(0.05 * math.e, rel=1e-9)


def test_under_replace_membership_is_public() -> None:
    read = sf.reading(sf.Curve.randomized_response(1), prior="0.2")
    assert read.membership is None
    assert read.attribute / (1 - read.attribute) == pytest.approx(0.25 * math.e)
    assert "being in the data" not in str(read)


def _loss_passes(p: list[Fraction], q: list[Fraction], limit: float) -> float:
    """P(L > limit), exactly."""
    return float(sum(a for a, b in zip(p, q, strict=True) if a > Fraction(math.exp(limit)) * b))


@settings(max_examples=4)
@given(distributions(4, zeros=True), distributions(4, zeros=True), st.sampled_from(["0.3", "0.05", "0.7"]))
def test_the_loss_passes_the_reading_with_at_most_that_probability(
    p: list[Fraction], q: list[Fraction], share: str
) -> None:
    curve = sf.Curve.pair(p, q)
    if curve.failure >= Fraction(share):
        with pytest.raises(sf.InvalidParameter, match="delta"):
            sf.reading(curve, delta=share)
        return
    read = sf.reading(curve, delta=share)
    assert max(_loss_passes(p, q, read.epsilon), _loss_passes(q, p, read.epsilon)) <= float(share)


@pytest.mark.parametrize("h", [0.05, 0.3, 1.0, 3.0])
def test_a_bare_guarantee_forgives_more_than_its_delta(h: float) -> None:
    """The worst (ε, δ)-DP pair passes ε + h with probability δ/(1 − e^{−h}): the reading there is ε + h and no less."""
    epsilon, delta = 1.0, Fraction(1, 1000)
    share = delta / Fraction(-math.expm1(-h))
    read = sf.reading(sf.Guarantee(1, delta), delta=share)
    assert read.epsilon == pytest.approx(epsilon + h, rel=1e-6)
    assert read.epsilon >= epsilon + h - 1e-9
    beyond = Fraction(math.exp(epsilon + h * (1 - 1e-9)))
    low = delta / (beyond - Fraction(math.exp(epsilon))) * Fraction("0.9999999")
    p, q = [low * beyond, 1 - low * beyond], [low, 1 - low]
    assert sf.Curve.pair(p, q).delta(1) <= delta
    assert _loss_passes(p, q, epsilon + h * (1 - 1e-8)) > 0.999 * float(share)


def test_a_gaussian_calibrated_to_one_and_a_millionth() -> None:
    """P(L > 1) is 2.0e-5, twenty times δ; at 1e-6 the loss passes 1.153 and the reading says 1.198."""
    curve = sf.Curve.gaussian("4.22467888932684")
    read = sf.reading(curve, delta="1e-6")
    mu = 1 / mpmath.mpf("4.22467888932684")
    assert float(mpmath.ncdf(-1 / mu + mu / 2)) == pytest.approx(2.0e-5, rel=0.02)
    assert read.epsilon == pytest.approx(1.198, abs=1e-3)
    assert float(mpmath.ncdf(-read.epsilon / mu + mu / 2)) <= 1e-6


def test_the_tail_of_a_dominating_pair_is_not_the_mechanisms() -> None:
    """An exponential mechanism of range 1 passes 0.5 more often than the pair that dominates it."""
    eta, t = 1.0, 0.5 + 1e-9
    curve = sf.Curve.bounded_range(1)
    p = (1 - math.exp(t - eta)) / (math.exp(t) - math.exp(t - eta)) * math.exp(t)
    assert curve.loss().tail("0.5") == pytest.approx(0.35, abs=1e-2)
    assert p == pytest.approx(0.622, abs=1e-3)
    assert sf.reading(curve, delta="0.6").epsilon > 0.5


def test_values_under_add_remove_are_read_from_a_change_of_two_units() -> None:
    """(ε, δ) becomes (2ε, δ(1 + e^ε)); the exception is ten times that δ unless it is given."""
    read = sf.reading(sf.Guarantee(1, "1e-6"), prior="0.2")
    double = 1e-6 * (1 + math.e)
    assert read.delta == pytest.approx(10 * double, rel=1e-9)
    assert read.epsilon == pytest.approx(1 - math.log1p(-1e-6 / read.delta), rel=1e-6)
    moved = 2 - math.log1p(-0.1)
    assert read.attribute / (1 - read.attribute) == pytest.approx(0.25 * math.exp(moved), rel=1e-6)
    under_replace = sf.reading(sf.Guarantee(1, "1e-6"), neighbours="replace")
    assert under_replace.delta == pytest.approx(1e-5)
    assert sf.reading(sf.Guarantee(3, "1e-6"), delta="2e-6").attribute == 1  # 2.1e-5 > 2e-6: nothing is promised
    assert sf.reading(sf.Guarantee(40, "1e-6")).attribute == 1


def test_mixed_orders_count_for_values() -> None:
    """Replacing a unit may turn one part of a release round and not the other."""
    p, q = ["0.1", "0.9"], ["0.2", "0.8"]
    both = sf.compose([sf.Curve.pair(p, q), sf.Curve.pair(q, p)])
    read = sf.reading(both, prior="0.5")
    one = sf.Curve.pair(p, q).for_neighbours("replace").epsilon(0)
    assert math.log(read.attribute / (1 - read.attribute)) >= 2 * one * (1 - 1e-9)


def test_bayes_never_exceeds_the_reading() -> None:
    """Any prior, any outcome of a real mechanism: the posterior stays within the reading."""
    p, q = [0.75, 0.25], [0.25, 0.75]
    read = sf.reading(sf.Curve.pair(p, q), prior="0.3")
    for a, b in zip(p, q, strict=True):
        posterior = 0.3 * a / (0.3 * a + 0.7 * b)
        assert read.membership is not None
        assert posterior <= read.membership


@settings(max_examples=4)
@given(add_remove, st.sampled_from(["0.01", "0.3"]))
def test_less_exception_means_a_larger_reading(curve: sf.Curve, share: str) -> None:
    wide, narrow = sf.reading(curve, delta=share), sf.reading(curve, delta=Fraction(share) / 5)
    assert wide.epsilon <= narrow.epsilon * (1 + 1e-3) + 1e-9
    assert curve.epsilon_range(share)[0] <= wide.epsilon + 1e-9


def test_exceptions_are_said() -> None:
    text = str(sf.reading(sf.Curve.gaussian(5), delta="1e-6"))
    assert "Except with probability 1e-06" in text
    assert "outside an event" not in text
    assert "Without exception, a test" in text
    assert "xcept" not in str(sf.reading(sf.Guarantee(1)))


def test_printed_beliefs_are_rounded_up() -> None:
    read = sf.reading(sf.Guarantee(1))
    assert read.membership is not None
    assert f"at most {math.ceil(read.membership * 1000) / 10:.1f} %" in str(read)
    assert "at most 2.7 %" in str(read)
    assert "at most 100.0 %" in str(sf.reading(sf.Guarantee(100)))
    assert "a belief of 0.001 % becomes at most 0.003 %" in str(sf.reading(sf.Guarantee(1), "0.00001"))
    assert "becomes at most 1.0 %" in str(sf.reading(sf.Guarantee(0)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.reading(1),  # type: ignore[arg-type]
        lambda: sf.reading(sf.Guarantee(1), prior=0),
        lambda: sf.reading(sf.Guarantee(1), prior=1),
        lambda: sf.reading(sf.Curve.pure(1), neighbours="replace"),
        lambda: sf.reading(sf.Guarantee(1), false_positive_rate=2),
        lambda: sf.reading(sf.Guarantee(1, "1e-6"), delta="1e-6"),
        lambda: sf.reading(sf.Curve.gaussian(5)),
        lambda: sf.reading(sf.Curve.approximate(1, "1e-6"), delta="1e-7"),
        lambda: sf.reading(sf.Curve.gaussian(5), delta=1),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)
