from __future__ import annotations

import math

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
    meter = sf.odometer([leaky] * 3, "1e-6")
    assert meter.adaptive[1] == pytest.approx(0.2)
    assert meter.adaptive[2] == meter.tight[2] == math.inf


def test_long_histories_are_sampled_and_the_text_says_which_line_is_which() -> None:
    meter = sf.odometer([(sf.Curve.gaussian(500), 3)] * 1000, "1e-6")
    assert len(meter.steps) == 100
    assert meter.steps[-1] == 1000
    assert "parameters fixed in advance" in str(meter)
    assert "chosen along the way" in str(meter)
    assert sf.odometer([], "1e-6").tight == ()
    assert "releases" in str(sf.odometer([], "1e-6"))


@pytest.mark.parametrize("delta", [0, 1, -1, math.nan, "x"])
def test_hostile_delta(delta: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.odometer([sf.Curve.pure(1)], delta)  # type: ignore[arg-type]
