from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import pytest

import sfumato as sf
from privacy.test_numbers import HOSTILE


@pytest.mark.parametrize("value", [*HOSTILE, -1, "-0.1"], ids=lambda v: repr(v)[:20])
def test_epsilon_outside_the_range(value: object) -> None:
    with pytest.raises(sf.InvalidParameter, match="epsilon must be a finite number ≥ 0"):
        sf.Guarantee(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1, 2, "1.0", -1e-9, math.nan, math.inf])
def test_delta_outside_the_range(value: object) -> None:
    with pytest.raises(sf.InvalidParameter, match=r"delta must be a number in \[0, 1\)"):
        sf.Guarantee(1, value)  # type: ignore[arg-type]


def test_frozen_exact_and_readable() -> None:
    promise = sf.Guarantee(0.1, "1e-6")
    assert promise.epsilon == Fraction(1, 10)
    assert repr(promise) == "Guarantee(epsilon=0.1, delta=0.000001)"
    assert str(promise) == "(0.1, 1e-06)-DP"
    with pytest.raises(dataclasses.FrozenInstanceError):
        promise.epsilon = Fraction(2)  # type: ignore[misc]
    assert sf.Guarantee(0.1).implies(sf.Guarantee(0.1, 1e-6))
    assert not promise.implies(sf.Guarantee(0.1))


def test_units_in_words() -> None:
    assert str(sf.PrivacyUnit("patient")) == "all rows of one patient"
    assert str(sf.PrivacyUnit("patient", period="day")) == "one patient-day (all rows of one patient within one day)"
    by_week = sf.PrivacyUnit("patient", period="week", period_column="day")
    assert str(by_week) == "one patient-week (all rows of one patient within one week of column day)"
    assert by_week != sf.PrivacyUnit("patient", period="week", period_column="admitted")
    assert str(sf.PrivacyUnit("visit", every_row=True)) == "one row (one visit)"
    for wrong in (
        {"name": ""},
        {"name": 3},
        {"name": "p", "period": "eon"},
        {"name": "p", "every_row": True, "period": "day"},
        {"name": "p", "period_column": "day"},
        {"name": "p", "period": "day", "period_column": 5},
    ):
        with pytest.raises(sf.InvalidParameter):
            sf.PrivacyUnit(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["bounded", "", None, 1])
def test_neighbours_by_name(value: object) -> None:
    assert sf.Neighbours.of("replace") is sf.Neighbours.REPLACE
    with pytest.raises(sf.InvalidParameter, match="'add-remove' or 'replace'"):
        sf.Neighbours.of(value)  # type: ignore[arg-type]
