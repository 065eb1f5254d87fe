"""Counts, sums, means and ranked values: their steps, what a row adds, and the number that totals give."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates import measures
from sfumato.plan.aggregates.measures import (
    MAX_STEPS,
    MAX_VALUE_STEPS,
    CombinedEstimate,
    Count,
    DistinctUnits,
    Mean,
    MeanEstimate,
    RowContribution,
    Sum,
    SummedEstimate,
    TotalEstimate,
)
from sfumato.plan.aggregates.value_measures import MomentsFromOrigin, Quantile, RankedValue, SelectedValueEstimate
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Domain


def column(domain: Domain) -> Column:
    return Column(Field(0, "t", "x"), domain)


AGE = column(Domain("integer", bounds=(-10, 110)))
CENTS = column(Domain("real", bounds=("-0.5", "2.25"), grid="0.01"))
REAL = column(Domain("real", bounds=(-1, 3)))
FIVE = column(Domain("integer", bounds=(5, 5)))


@dataclass(frozen=True)
class Steps:
    measure: Any
    step: Fraction
    low: int
    high: int


@pytest.mark.parametrize("value", [Fraction(1), Fraction(3), Fraction(4), Fraction(1, 3), Fraction(2**60 + 1, 2**60)])
def test_the_least_power_of_two_at_least_a_number(value: Fraction) -> None:
    power = measures.power_of_two_at_least(value)
    assert power >= value > power / 2
    assert math.log2(power).is_integer()


def test_natural_steps_are_kept_as_long_as_sums_of_them_are_exact() -> None:
    assert Sum(AGE).step_for_rows(1) == 1
    assert Sum(AGE).step_for_rows(MAX_VALUE_STEPS // 110) == 1
    assert Sum(AGE).step_for_rows(MAX_VALUE_STEPS // 110 + 1) == 2
    assert Mean(AGE).step_for_rows(MAX_VALUE_STEPS // 120) == 1
    assert Mean(AGE).step_for_rows(MAX_VALUE_STEPS // 120 + 1) == 2
    assert Sum(CENTS).step_for_rows(1) == Fraction(1, 100)
    assert Sum(CENTS).step_for_rows(2**57) == 2
    assert Sum(column(Domain("integer", bounds=(0, 2**10)))).step_for_rows(2**48) == 1
    assert Sum(column(Domain("integer", bounds=(0, 2**51)))).step_for_rows(1) == 1
    assert Count().step_for_rows(9) == 1
    wide = column(Domain("real", bounds=(0, Fraction(2**50, 100)), grid="0.01"))
    assert Sum(wide).step_for_rows(1) == Fraction(1, 100)
    wider = column(Domain("real", bounds=(0, Fraction(2**50 + 1, 100)), grid="0.01"))
    assert Sum(wider).step_for_rows(1) == measures.power_of_two_at_least(Fraction(2**50 + 1, 100) / MAX_VALUE_STEPS)
    assert Sum(REAL).step_for_rows(8) == Fraction(3 * 8, MAX_VALUE_STEPS) * Fraction(32, 24)
    assert Sum(column(Domain("integer", bounds=(0, 2**61)))).step_for_rows(1) == 8
    assert Sum(column(Domain("real", bounds=(0, 0)))).step_for_rows(1) == Fraction(1, 2**960)


def test_the_step_of_the_mean_of_one_number() -> None:
    assert Mean(FIVE).step_for_rows(7) == Fraction(5, 2**40)
    assert Mean(column(Domain("integer", bounds=(-5, -5)))).step_for_rows(7) == Fraction(5, 2**40)
    assert Mean(column(Domain("integer", bounds=(0, 0)))).step_for_rows(7) == Fraction(1, 2**40)


def test_ranges_in_steps_hold_the_values() -> None:
    assert Sum(AGE).row_value_range_in_steps(Fraction(1)) == (-10, 110)
    assert Sum(AGE).row_value_range_in_steps(Fraction(4)) == (-3, 28)
    assert Mean(CENTS).row_value_range_in_steps(Fraction(1, 100)) == (-50, 225)
    assert Count().row_value_range_in_steps(Fraction(1)) == (0, 1)
    with pytest.raises(InvalidParameter, match="finite range"):
        measures.value_range(column(Domain("integer")))


def test_what_a_row_adds() -> None:
    assert Count().contributions(Fraction(1), 2, 5) == (RowContribution(None, Fraction(1), 0, 2, 5),)
    assert Sum(AGE).contributions(Fraction(2), -5, 55) == (RowContribution(AGE, Fraction(2), 0, -5, 55),)
    low_sum, high_sum = Mean(AGE).contributions(Fraction(2), -5, 55)
    assert low_sum == RowContribution(AGE, Fraction(2), -5, 0, 60)
    assert high_sum == RowContribution(AGE, Fraction(2), -5, 0, 60, mirrored=True)
    assert [Sum(AGE).max_row_contribution(*ends) for ends in ((-5, 3), (-5, 7), (0, 0))] == [5, 7, 1]
    assert [Mean(AGE).max_row_contribution(*ends) for ends in ((-5, 3), (4, 4))] == [8, 1]
    assert Count().max_row_contribution(0, 1) == 1
    assert Sum(AGE).middle_row_contributions(Fraction(2), -5, 56) == (50,)
    assert Mean(AGE).middle_row_contributions(Fraction(2), -5, 56) == (61, 61)
    assert Count().middle_row_contributions(Fraction(1), 0, 1) == (1,)


def test_how_far_values_are_rounded() -> None:
    assert measures.step_rounding_error(AGE, Fraction(1)) == 0
    assert measures.step_rounding_error(AGE, Fraction(1, 4)) == 0
    assert measures.step_rounding_error(AGE, Fraction(4)) == 2 + Fraction(110, 2**53)
    assert measures.step_rounding_error(column(Domain("integer", bounds=(-300, 2))), Fraction(2)) == 1 + Fraction(
        300, 2**53
    )
    assert measures.step_rounding_error(CENTS, Fraction(1, 100)) == 0
    assert measures.step_rounding_error(REAL, Fraction(1, 8)) == Fraction(1, 16)
    assert measures.step_rounding_error(FIVE, Fraction(2)) == 0
    assert (measures.natural_step(AGE), measures.natural_step(CENTS), measures.natural_step(REAL)) == (
        1,
        Fraction(1, 100),
        None,
    )


def test_results_and_what_is_taken_for_them() -> None:
    assert [measure.result.type.value for measure in (Count(), Sum(AGE), Sum(REAL), Mean(AGE))] == [
        *("integer", "integer", "real", "real")
    ]
    assert Mean(AGE).result.nullable
    assert Mean(AGE).possible_range == (-10, 110)
    assert Sum(AGE).measures_for([Sum(AGE), Mean(REAL)]) == (Sum(AGE),)
    assert Sum(AGE).measures_for([Sum(AGE), Mean(AGE)]) == (Mean(AGE),)
    assert (Count().once_per_unit, DistinctUnits().once_per_unit) == (False, True)


def numbers(*values: float) -> Any:
    return np.array(values)


def test_a_total_is_its_own_estimate() -> None:
    made = TotalEstimate(whole=True).estimate([numbers(2.4, -3.6)], [1.5])
    assert (made.value.tolist(), made.low.tolist(), made.high.tolist()) == ([2, -4], [2.4 - 1.5, -5.1], [3.9, -2.1])
    assert TotalEstimate(whole=False).estimate([numbers(2.4)], [1.5]).value == 2.4


def test_a_mean_of_two_sums() -> None:
    """low + (high − low)·a/(a + b) at the corners of both, moved to 0 before; NULL where there is no row."""
    estimator = MeanEstimate(-2, 6, Fraction(1, 2))
    made = estimator.estimate([numbers(8, -1, 0), numbers(24, 4, 0)], [numbers(2, 2, 0), numbers(4, 4, 0)])
    assert made.value == pytest.approx([-2 + 8 * 8 / 32, -2, np.nan], nan_ok=True)
    assert made.low == pytest.approx([-2 + 8 * 6 / 34 - 0.5, -2, -2])
    assert made.high == pytest.approx([-2 + 8 * 10 / 30 + 0.5, 6, 6])
    small = MeanEstimate(-2, 6).estimate([numbers(0.5, 4), numbers(0.25, 0)], [numbers(0.25, 0), numbers(0.125, 0)])
    assert small.value == pytest.approx([-2 + 8 * 0.5 / 0.75, 6])
    assert small.low == pytest.approx([-2 + 8 * 0.25 / 0.625, 6])
    assert small.high == pytest.approx([-2 + 8 * 0.75 / 0.875, 6])
    exactly = MeanEstimate(-2, 6).estimate([numbers(8), numbers(24)], [0.0, 0.0])
    assert (exactly.low, exactly.value, exactly.high) == (0, 0, 0)


def test_combinations_of_totals() -> None:
    made = CombinedEstimate(Fraction(3, 2), -3, whole=False).estimate([numbers(4), numbers(-2)], [2.0, 0.5])
    assert (made.value, made.low, made.high) == (12, 12 - 4.5, 12 + 4.5)
    rounded = CombinedEstimate(1, 1, True, Fraction(1, 8)).estimate([numbers(4.2), numbers(-2)], [1.0, 0.5])
    assert rounded.value == 2
    assert (rounded.low, rounded.high) == pytest.approx((2.2 - 1.5 - 5.7 / 8, 2.2 + 1.5 + 5.7 / 8))
    summed = SummedEstimate((Fraction(1, 2), -2, 3), whole=False).estimate(
        [numbers(4), numbers(1), numbers(2)], [1.0, 2.0, 3.0]
    )
    assert (summed.value, summed.low, summed.high) == (6, 6 - 13.5, 6 + 13.5)


def test_estimators_of_what_is_measured() -> None:
    mean = Steps(Mean(AGE), Fraction(2), -5, 55)
    assert Sum(AGE).estimator(mean) == CombinedEstimate(Fraction(55, 60), Fraction(-5, 60), whole=True)
    assert Sum(REAL).estimator(Steps(Sum(REAL), Fraction(1, 8), -8, 24)) == TotalEstimate(whole=False)
    assert Mean(AGE).estimator(mean) == MeanEstimate(-10, 110, 1 + Fraction(110, 2**53))
    assert Count().estimator(Steps(Count(), Fraction(1), 0, 1)) == TotalEstimate(whole=True)
    rows = Fraction(1, 120)
    assert Count().estimator(mean) == CombinedEstimate(rows, rows, whole=True)
    both = Count().estimator(mean, Steps(Count(), Fraction(1), 0, 1))
    assert both == SummedEstimate((rows, rows, Fraction(1)), whole=True)


# Ranked values


def test_the_steps_of_ranked_values() -> None:
    assert RankedValue(AGE).step_for_rows(1) == 1
    assert RankedValue(AGE).step_for_rows(MAX_STEPS // 110) == 1
    assert RankedValue(AGE).step_for_rows(MAX_STEPS // 110 + 1) == 2
    assert RankedValue(REAL).step_for_rows(1) == Fraction(4, 2**24)
    assert RankedValue(column(Domain("integer", bounds=(0, 2**10)))).step_for_rows(2**16) == 1
    assert RankedValue(column(Domain("integer", bounds=(0, 2**10)))).step_for_rows(2**16 + 1) == 2
    assert RankedValue(column(Domain("integer", bounds=(0, 2**10)))).step_for_rows(2**19) == 8
    assert RankedValue(CENTS).step_for_rows(1) == Fraction(1, 100)
    assert Quantile(AGE, "0.5").probability == Fraction(1, 2)  # type: ignore[arg-type]
    assert RankedValue(column(Domain("real", bounds=(0, 0)))).step_for_rows(1) == 1


def test_quantiles_lie_within_the_bounds() -> None:
    half = SelectedValueEstimate(-10, 110, Fraction(1, 2))
    made = half.estimate([numbers(-50, 7, 500)], [0.0])
    assert (made.value.tolist(), made.low.tolist(), made.high.tolist()) == ([-10, 7, 110], [-10] * 3, [110] * 3)
    around = half.estimate([numbers(7, 90), numbers(9, -99), numbers(5, 80)], [0.0])
    assert (around.value.tolist(), around.low.tolist(), around.high.tolist()) == ([7, 80], [5, -10], [9, 80])
    unsure = half.estimate([numbers(7), numbers(9), numbers(5)], [numbers(0.5)])
    assert (unsure.low.tolist(), unsure.high.tolist()) == ([-10], [110])
    least = SelectedValueEstimate(-10, 110, 0).estimate([numbers(7)], [0.0])
    assert (least.low.tolist(), least.high.tolist()) == ([-10], [7])
    greatest = SelectedValueEstimate(-10, 110, 1).estimate([numbers(7)], [0.0])
    assert (greatest.low.tolist(), greatest.high.tolist()) == ([7], [110])
    assert Quantile(AGE, Fraction(1, 2)).estimator(Steps(None, Fraction(4), -3, 28)) == half
    narrow = Quantile(AGE, Fraction(1, 2)).estimator(Steps(None, Fraction(4), -1, 20))
    assert narrow == SelectedValueEstimate(-4, 80, Fraction(1, 2))


def test_quantiles_of_dates_and_times() -> None:
    days, seconds = MomentsFromOrigin.starting_at("2024-02-28"), MomentsFromOrigin.starting_at("2024-02-28T23:59:59")
    assert (days.kind.value, seconds.kind.value) == ("date", "timestamp")
    assert days[2] == dt.date(2024, 3, 1)
    assert seconds[2] == dt.datetime(2024, 2, 29, 0, 0, 1)
    assert len(days) == 1 + (dt.date.max - dt.date(2024, 2, 28)).days
    assert days[len(days) - 1] == dt.date.max
    assert seconds[len(seconds) - 1] == dt.datetime.max.replace(microsecond=0)
    shown = SelectedValueEstimate(0, 10, Fraction(1, 2), "2024-02-28").estimate([numbers(-3, 4, 99)], [0.0])
    assert shown.value.tolist() == shown.low.tolist() == shown.high.tolist() == [0, 4, 10]
    assert shown.labels == days
