"""Prices to four digits, price lists and what is weak, beside plain searches over all of them."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter, WeakPrivacy
from sfumato.release import prices
from sfumato.release.prices import (
    Price,
    evenly_spaced_prices,
    least_epsilon,
    least_four_digit_price,
    parse_prices_and_denominator,
    rounded_up_to_4_digits,
    warn_if_weak,
    weak_price_warnings,
)


@pytest.mark.parametrize("decade", [-3, 0, 2])
def test_a_price_is_rounded_up_to_four_digits(decade: int) -> None:
    ten = Fraction(10) ** decade
    for given, expected in ((1, 1), ("1.0001", "1.001"), ("1.2345", "1.235"), ("1.235", "1.235"), ("9.9991", 10)):
        assert rounded_up_to_4_digits(Fraction(given) * ten) == Fraction(expected) * ten
    assert rounded_up_to_4_digits(Fraction("0.5")) == Fraction("0.5")


def numbers_around(goal: Fraction) -> list[Fraction]:
    """The numbers of four digits near a goal."""
    power = Fraction(10) ** (math.floor(math.log10(goal)) - 3)
    first = int(goal / power)
    return sorted({Fraction(each) * power for each in range(max(1000, first - 3), first + 4)})


def test_the_least_price_is_the_first_of_four_digits_that_is_enough() -> None:
    """Errors inverse to the price, and steps that are far from that, at every size."""
    random = Random(4)
    for _ in range(60):
        goal = Fraction(round(10 ** random.uniform(-6, 6), 9)).limit_denominator(10**9) or Fraction(1)
        found = least_four_digit_price(lambda price, goal=goal: math.log(goal / price))
        assert found == next(each for each in numbers_around(goal) if each >= goal)
        asked: list[Fraction] = []

        def step(price: Fraction, goal: Fraction = goal, asked: list[Fraction] = asked) -> float:
            asked.append(price)
            return -1.0 if price >= goal else 40.0

        assert least_four_digit_price(step) == found
        assert found in asked


def test_the_least_price_is_found_in_few_steps_where_errors_are_inverse_to_it() -> None:
    for goal in (Fraction("0.01234"), Fraction(1), Fraction("9.9991"), Fraction(54321)):
        asked: list[Fraction] = []

        def short(price: Fraction, goal: Fraction = goal, asked: list[Fraction] = asked) -> float:
            asked.append(price)
            return math.log(goal / price)

        least_four_digit_price(short)
        assert len(asked) <= 8


@pytest.mark.parametrize("outcome", [-1.0, 1.0])
def test_a_goal_beyond_all_prices_is_refused(outcome: float) -> None:
    with pytest.raises(InvalidParameter, match="a number from 1e-60 to 1e60"):
        least_four_digit_price(lambda _: outcome)


def test_prices_far_away_are_found() -> None:
    for least in (Fraction(10) ** 20, Fraction(10) ** -20):
        assert least_four_digit_price(lambda price, least=least: -1.0 if price >= least else 1.0) == least


@pytest.mark.parametrize("least", ["0.3", "0.9999", "1", "1.001", "12.34", "0.00001234"])
def test_a_least_epsilon_of_four_digits_is_found(least: str) -> None:
    """A search ends just above it, and the four digits above that are one too many."""
    assert least_epsilon(lambda epsilon: float(epsilon < Fraction(least)) + 0.5, "0.9") == float(least)


def test_the_least_epsilon_of_an_error_that_falls_with_it() -> None:
    for within in ("0.3", 7, 1000):
        found = least_epsilon(lambda epsilon: float(12 / epsilon), within)
        exact = 12 / Fraction(within)
        assert exact <= Fraction(found) + Fraction(1, 10**9)
        assert found <= float(exact) * (1 + 2**-14) * 1.001


def test_what_a_price_allows_and_who_keeps_it() -> None:
    pure, approximate, concentrated = Price(2), Price(2, "1e-6"), Price(rho="0.5")
    assert [price.allows_gaussian for price in (pure, approximate, concentrated)] == [False, True, True]
    assert pure.is_satisfied_by(sf.Curve.pure(2))
    assert not pure.is_satisfied_by(sf.Curve.pure("2.0001"))
    assert concentrated.is_satisfied_by(sf.Curve.concentrated("0.5"))
    assert not concentrated.is_satisfied_by(sf.Curve.concentrated("0.5001"))
    assert concentrated.log_excess_of(sf.Curve.concentrated(1)) == pytest.approx(math.log(2))
    assert concentrated.log_excess_of(sf.Curve.approximate("0.1", "1e-9")) == math.inf
    assert approximate.log_excess_of(sf.Curve.approximate(2, "1e-6")) <= 0
    assert approximate.log_excess_of(sf.Curve.approximate(2, "2e-6")) > 0
    for wrong in ({}, {"epsilon": 1, "rho": 1}, {"rho": 1, "delta": "1e-9"}, {"epsilon": 0}, {"rho": 0},
                  {"epsilon": 1, "delta": -1}, {"epsilon": 1, "delta": 1}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            Price(**wrong)  # type: ignore[arg-type]


def test_a_price_is_weak_above_five_or_one_in_a_million() -> None:
    assert weak_price_warnings(Price(5)) == weak_price_warnings(Price(5, "1e-6")) == ()
    assert len(weak_price_warnings(Price("5.01"))) == 1
    assert len(weak_price_warnings(Price(5, "1.01e-6"))) == 1
    assert len(weak_price_warnings(Price(6, "1e-3"))) == 2
    bound = bisect.bisect(
        range(1, 2000), 5, key=lambda each: sf.Curve.concentrated(Fraction(each, 1000)).epsilon(1e-6), lo=1
    ) + 1  # fmt: skip
    assert weak_price_warnings(Price(rho=Fraction(bound - 1, 1000))) == ()
    assert len(weak_price_warnings(Price(rho=Fraction(bound, 1000)))) == 1


def test_a_weak_price_is_told_where_it_was_asked_for() -> None:
    with pytest.warns(WeakPrivacy, match="ε = 9") as told:
        warn_if_weak(Price(9))
    assert told[0].filename == __file__


def test_a_price_list_is_sorted_and_made_whole() -> None:
    assert parse_prices_and_denominator(["0.5", 2, "0.75", 2]) == ((Fraction(1, 2), Fraction(3, 4), Fraction(2)), 4)
    assert parse_prices_and_denominator(range(3, 0, -1)) == ((1, 2, 3), 1)
    assert parse_prices_and_denominator(np.array([2, 1]))[0] == (1, 2)
    assert parse_prices_and_denominator([10**12]) == ((10**12,), 1)
    for wrong in ([], "12", b"12", 3, [0], [-1], [10**12 + 1], [10**12, "0.5"], None):
        with pytest.raises(InvalidParameter):
            parse_prices_and_denominator(wrong)


def test_a_price_list_has_at_most_so_many_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "MAX_PRICES", 3)
    assert parse_prices_and_denominator([1, 2, 3]) == ((1, 2, 3), 1)
    with pytest.raises(InvalidParameter, match="at most 3 prices"):
        parse_prices_and_denominator([1, 2, 3, 4])


def test_even_prices_reach_the_highest() -> None:
    assert evenly_spaced_prices(3, 4) == [Fraction(3, 4), Fraction(3, 2), Fraction(9, 4), 3]


def test_numbers_of_four_digits_are_counted_from_one() -> None:
    positions = (0, 1, 8999, 9000, 9001, -1, -9000, -9001)
    numbers = ("1", "1.001", "9.999", "10", "10.01", "0.9999", "0.1", "0.09999")
    assert [prices._four_digit_number(position) for position in positions] == [*map(Fraction, numbers)]
    for goal in ("9.9985", "9.999", "0.99989"):
        found = least_four_digit_price(lambda price, goal=goal: math.log(Fraction(goal) / price))
        assert found == (Fraction("0.9999") if goal < "1" else Fraction("9.999"))


def test_amounts_are_searched_for_to_a_quarter_of_four_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(prices, "least_parameter", lambda *arguments: asked.append(arguments[1:]) or Fraction(3))
    assert prices.least_amount_where(lambda _: True) == 3
    assert asked == [("within", Fraction(1, 16384))]


def test_a_delta_of_one_is_no_price_and_a_failure_satisfies_no_rho() -> None:
    for epsilon, delta in (("0.5", 1), (2, 1), ("0.5", 3)):
        with pytest.raises(InvalidParameter) as refusal:
            Price(epsilon, delta)
        assert refusal.value.parameter == "delta"
    assert Price("0.5", "0.999").delta == Fraction(999, 1000)
    failing = sf.compose([sf.Curve.concentrated("0.5"), sf.Curve.approximate(0, "1e-9")])
    assert not Price(rho=1).is_satisfied_by(failing)
    assert Price(rho=1).log_excess_of(failing) == math.inf
    assert Price(rho=1).is_satisfied_by(sf.Curve.concentrated("0.5"))
