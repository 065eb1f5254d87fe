from __future__ import annotations

import math
from fractions import Fraction

import pytest

import sfumato as sf


def test_both_lines_rise_and_the_adaptive_one_is_higher() -> None:
    meter = sf.odometer([sf.Curve.gaussian(20)] * 20 + [sf.Curve.laplace(30)] * 20, "1e-6")
    assert meter.steps == tuple(range(1, 41))
    assert all(a < b for a, b in zip(meter.tight, meter.tight[1:], strict=False))
    assert all(a < b for a, b in zip(meter.adaptive, meter.adaptive[1:], strict=False))
    assert all(tight < adaptive for tight, adaptive in zip(meter.tight, meter.adaptive, strict=True))
    assert meter.tight[-1] == sf.compose([(sf.Curve.gaussian(20), 20), (sf.Curve.laplace(30), 20)]).epsilon("1e-6")


def test_the_adaptive_line_is_the_formula() -> None:
    meter = sf.odometer([sf.Curve.gaussian(20)] * 5, "1e-6", order=11)
    assert meter.adaptive[-1] == pytest.approx(5 * 11 / 800 + math.log(1e6) / 10, rel=1e-11)


def test_sums_of_pure_losses_are_used_where_smaller() -> None:
    meter = sf.odometer([sf.Curve.laplace(100)] * 3, "1e-6")
    assert meter.adaptive[-1] == pytest.approx(0.03)


def test_failures_eat_the_delta() -> None:
    leaky = sf.Curve.approximate("0.1", "4e-7")
    meter = sf.odometer([leaky] * 3, "1e-6", margin="0.5")
    assert meter.adaptive[1] == pytest.approx(0.7, rel=1e-5)
    assert meter.exceptions[1] == pytest.approx(1e-6 + 8e-7 / (1 - math.exp(-0.5)), rel=1e-9)
    assert meter.adaptive[2] == meter.tight[2] == math.inf


def _tail(curve: sf.Curve, limit: float) -> float:
    """P(L > limit) of a real pair, exactly, in the worse direction."""
    ((loss, _),) = curve.parts
    worlds = ((loss.p, loss.q), (loss.q, loss.p))
    return max(float(sum(a for a, b in zip(p, q, strict=True) if a > math.exp(limit) * b)) for p, q in worlds)


@pytest.mark.parametrize("margin", ["0.1", "0.5", "1", "3"])
def test_the_adaptive_line_holds_for_the_worst_failure(margin: str) -> None:
    """A failure of mass f mixed into an outcome both worlds have: just beyond b + h the loss has mass f/(1 − e^{−h}),
    far more than f. An account of the failure alone, or a line without h, would be wrong.
    """
    f, b = Fraction(1, 10**4), 0.5
    meter = sf.odometer([sf.Curve.approximate("0.5", f)], f, margin=margin)
    beyond = Fraction(meter.adaptive[0]) + Fraction(1, 10**6)
    low = f / (Fraction(math.exp(beyond)) - Fraction(math.exp(b))) * Fraction("0.999999999")
    high = low * Fraction(math.exp(beyond))
    pair = sf.Curve.pair([high, 1 - high], [low, 1 - low])
    assert pair.delta("0.5") <= f  # so the claim is true of it
    assert float(f) * 1.04 < _tail(pair, meter.adaptive[0]) <= meter.exceptions[0]
    assert _tail(pair, 0.5) > (meter.exceptions[0] - float(f)) * 0.99


def test_a_key_threshold_is_not_said_to_stay_within_its_noise() -> None:
    """With a threshold of δ = 1e-6 and noise of ε = 1 the loss is 1.31 with probability 3.7e-6: more than 2e-6."""
    meter = sf.odometer([sf.KeyThreshold(1, "1e-6").curve()], "2e-6")
    assert meter.adaptive[0] >= 1.31
    assert meter.exceptions[0] == pytest.approx(2e-6 + 1e-6 / (1 - math.exp(-1)), rel=1e-5)


def test_no_margin_is_added_while_nothing_fails() -> None:
    whole, leaky = sf.Curve.laplace(100), sf.Curve.approximate("0.01", "1e-8")
    meter = sf.odometer([whole, leaky, whole], "1e-6")
    assert meter.exceptions[0] == 1e-6
    assert meter.adaptive[0] == pytest.approx(0.01)
    assert meter.adaptive[1] == pytest.approx(1.02, rel=1e-6)
    assert meter.adaptive[2] == pytest.approx(1.03, rel=1e-6)


def test_pairs_normalised_apart_are_put_on_one_weight() -> None:
    """P fails with probability 1/2 and Q never: the common outcome alone has a loss of ln 2 the other way."""
    lopsided = sf.Curve.pair(["1/2", "1/2"], [0, 1])
    meter = sf.odometer([lopsided], "0.6", margin="0.01")
    assert meter.adaptive[0] >= math.log(2) + 0.01


def test_long_histories_are_sampled_and_the_text_says_which_line_is_which() -> None:
    meter = sf.odometer([(sf.Curve.gaussian(500), 3)] * 1000, "1e-6")
    assert len(meter.steps) == 100
    assert meter.steps[-1] == 1000
    assert "parameters fixed in advance" in str(meter)
    assert "chosen along the way" in str(meter)
    assert sf.odometer([], "1e-6").tight == ()
    assert "releases" in str(sf.odometer([], "1e-6"))


@pytest.mark.parametrize("margin", [0, -1, math.inf, "x"])
def test_hostile_margin(margin: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.odometer([sf.Curve.pure(1)], "1e-6", margin=margin)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1, -1, math.nan, "x"])
def test_hostile_delta(delta: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.odometer([sf.Curve.pure(1)], delta)  # type: ignore[arg-type]
