"""Small parts of releases, each beside plain arithmetic: noise sizes, intervals, charts and invented numbers."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from release.answers.test_stacked_answers import RECEIPT
from sfumato.inference import moments as moment_releases
from sfumato.mechanisms.additive import LEAST_STEPS, MAX_STEPS
from sfumato.policy import Type
from sfumato.privacy import Sensitivity
from sfumato.release import measured
from sfumato.release.measured import DeclaredGroupsRelease
from sfumato.release.noisy_rows.noisy_columns import NONE, ConfidenceStatement, LinearColumn
from sfumato.release.parts.other_parts import QuantilesPart
from sfumato.release.parts.shares import EXTREME_TOTALS, NoiseStrength, calibrated_noise
from sfumato.release.prices import Price
from sfumato.release.running_totals import RunningAnswer

WHOLE = Fraction(1)


def test_noise_is_refused_only_beyond_what_can_be_drawn() -> None:
    cheapest = Price(1 / MAX_STEPS)
    largest = calibrated_noise(NoiseStrength(sf.Laplace, cheapest), Sensitivity(1, 1), WHOLE)
    assert largest.sizes == (MAX_STEPS,)
    for price, change in ((cheapest, Sensitivity(2, 2)), (Price(1 / (MAX_STEPS + 1)), Sensitivity(1, 1))):
        with pytest.raises(sf.InvalidParameter, match="too large"):
            calibrated_noise(NoiseStrength(sf.Laplace, price), change, WHOLE)
    least = calibrated_noise(NoiseStrength(sf.Laplace, Price(10**6)), Sensitivity(1, 1), WHOLE)
    assert least.sizes == (LEAST_STEPS,)


def test_laplace_noise_of_a_price_is_exact_and_any_other_is_rounded_up_to_13_digits() -> None:
    third = Fraction(1, 3)
    of_price = calibrated_noise(NoiseStrength(sf.Laplace, Price(3)), Sensitivity(2, 1), WHOLE)
    assert of_price.sizes == (2 * third,)
    searched = calibrated_noise(NoiseStrength(sf.Laplace, size_without_price=third), Sensitivity(2, 1), WHOLE)
    gaussian = calibrated_noise(NoiseStrength(sf.Gaussian, Price(rho=9)), Sensitivity(2, 1), WHOLE)
    # two groups of which each moves by 1: Δ₂² = 2, and σ² = 2/(2·9)
    for noise, size in ((searched, 2 * third), (gaussian, third)):
        (rounded,) = noise.sizes
        assert size <= rounded < size * (1 + Fraction(1, 10**11))
        assert (rounded * 10**13).denominator == 1


@pytest.mark.parametrize("change", [Sensitivity(1, 1), Sensitivity(9, 5, 17)])
def test_noise_of_moments_is_the_least_that_the_price_buys(change: Sensitivity) -> None:
    moments: Any = SimpleNamespace(sensitivity=change)
    for rho in (Fraction(1, 2), Fraction(3, 100)):
        (sigma,) = moment_releases.calibrated_noise(moments, Price(rho=rho)).sizes
        assert rho * Fraction(9999, 10000) < change.squares / (2 * sigma**2) <= rho
    for price in (Price(1, "1e-6"), Price("0.25", "1e-9")):
        noise = moment_releases.calibrated_noise(moments, price)
        assert price.epsilon is not None
        assert noise.curve(change).delta(price.epsilon) <= price.delta
        assert sf.Gaussian(noise.sizes[0] * Fraction(99, 100)).curve(change).delta(price.epsilon) > price.delta
    with pytest.raises(sf.InvalidParameter, match="given with a δ"):
        moment_releases.calibrated_noise(moments, Price(1))
    with pytest.raises(sf.InvalidParameter, match="too large to draw"):
        moment_releases.calibrated_noise(moments, Price(rho=Fraction(1, 10**26)))


def test_quantiles_of_an_invented_group_lie_evenly_in_the_range() -> None:
    requests = [SimpleNamespace(probability=Fraction(part, 4)) for part in (2, 0, 3, 4)]
    for confidence, copies in ((None, 1), (Fraction(9, 10), 3)):
        part: Any = object.__new__(QuantilesPart)
        bounded = SimpleNamespace(measures=[SimpleNamespace(low=10, high=110)])
        for name, value in (("bounded", bounded), ("requests", tuple(requests)), ("confidence", confidence)):
            object.__setattr__(part, name, value)
        expected = (*[60] * copies, 10, *[85] * copies, 110)
        assert part.numbers_of_hypothetical_group(7) == expected


def column(value: list[float], centre: list[float], weights: int, known: list[float] | None) -> LinearColumn:
    noises: Any = SimpleNamespace(widths=lambda form, draws: np.array([draws * 1.0] * form.rows))
    form: Any = SimpleNamespace(weights=[1.0] * weights, rows=len(value))
    statement = ConfidenceStatement(7, 1, len(value))
    return LinearColumn(
        np.array(value), np.array(centre), form, noises, 3, statement, None if known is None else np.array(known)
    )


@pytest.mark.parametrize(("known", "width"), [(None, 3.0), ([0.25, 0.25], 0.25)])
def test_an_interval_reaches_to_a_number_that_was_rounded_out_of_it(known: list[float] | None, width: float) -> None:
    made = column([9.0, 0.0], [4.0, 6.0], 1, known).ranged
    assert made.value.tolist() == [9.0, 0.0]
    assert made.low.tolist() == [4 - width, 0.0]
    assert made.high.tolist() == [9.0, 6 + width]
    assert made.statements == {ConfidenceStatement(7, 1, 2)}
    assert made.nulls_sure is not None
    assert made.nulls_sure.tolist() == [True, True]
    assert column([9.0], [4.0], 0, [0.0]).ranged.statements == NONE


def test_extreme_totals_are_shown_under_the_key_of_the_first_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "numbers_at_extreme_totals", lambda prepared: [prepared])
    monkeypatch.setattr(measured, "noisy_measurements", lambda *arguments: arguments)
    prepared: Any = "prepared"
    release = DeclaredGroupsRelease(prepared, (), (("a",), ("b",)), "v1")
    assert release.result_at_extreme_totals() == ("prepared", (), ["prepared"], (("a",),) * len(EXTREME_TOTALS), "v1")


@pytest.mark.parametrize("dates", [True, False])
def test_a_chart_has_a_line_for_each_series_with_its_points_in_order(dates: bool) -> None:
    periods: list[Any] = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)] if dates else [1, 2]
    names = ["2024-01-01", "2024-01-02"] if dates else [1, 2]
    series = [("n", 5), ("s", 5), ("n", 6)]
    rows = [
        (period, *keys, 10 * index + place) for place, period in enumerate(periods) for index, keys in enumerate(series)
    ]
    intervals = tuple((row[3] - 1.0, row[3] + 2.0) for row in rows)
    types = (Type.DATE if dates else Type.INTEGER, Type.TEXT, Type.INTEGER, Type.INTEGER)
    columns = ("day", "region", "step", "visits")
    answer = RunningAnswer(columns, types, tuple(rows), {"visits": intervals}, columns[:3], RECEIPT, (), period="day")
    charts = answer._series_charts("visits")
    assert [chart.name for chart in charts] == ["n · 5", "s · 5", "n · 6"]
    for index, chart in enumerate(charts):
        values = (10 * index, 10 * index + 1)
        assert (chart.key_names, chart.labels, chart.values) == ("day", tuple(names), values)
        assert chart.intervals == tuple((value - 1.0, value + 2.0) for value in values)
    single = RunningAnswer(
        ("day", "visits"),
        (types[0], Type.INTEGER),
        ((periods[0], 3),),
        {"visits": ((2.0, 4.0),)},
        ("day",),
        RECEIPT,
        (),
        period="day",
    )
    assert [chart.name for chart in single._series_charts("visits")] == ["visits"]
