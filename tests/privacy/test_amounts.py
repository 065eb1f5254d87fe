"""Amounts are exact while denominators are small, never below the true sum, and never long."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import accumulate

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from sfumato.privacy import amounts, codec
from sfumato.privacy.amounts import Amount, charge_amount, exact_amount
from sfumato.privacy.numbers import UNIT, amount_from_units

PRIMES = (999999937, 999999929, 999999893, 999999883, 999999797, 999999761, 999999757, 999999751, 999999739, 999999733)
ORDINARY = st.fractions(0, 3, max_denominator=40)
HOSTILE = st.builds(Fraction, st.integers(1, 10**9), st.sampled_from(PRIMES))
LONG = st.builds(Fraction, st.integers(1, 10**40), st.sampled_from([3**90, 7**60, 10**35 + 69, 10**31]))
PRICES = ORDINARY | HOSTILE | LONG | st.decimals(0, 3, places=30).map(Fraction)


@given(PRICES)
def test_a_charge_is_the_price_or_the_next_unit(price: Fraction) -> None:
    charged = amount_from_units(charge_amount(price))
    kept = price.denominator <= 10**9 or UNIT % price.denominator == 0
    assert charged == price if kept else price < charged < price + Fraction(1, UNIT)
    assert kept or charged.denominator <= UNIT


@given(st.lists(PRICES, max_size=40))
@settings(max_examples=50, deadline=None)
def test_a_total_is_the_sum_or_rounded_up_and_never_long(prices: list[Fraction]) -> None:
    charges = [charge_amount(each) for each in prices]
    total: Amount = 0
    roundings = 0
    for charge in charges:
        whole = amount_from_units(total) + amount_from_units(charge)
        total = amounts.add_rounded_up(total, charge)
        assert (amount_from_units(total) == whole) is (whole.denominator <= 10**60)
        roundings += amount_from_units(total) != whole
        assert amount_from_units(total).denominator <= 10**60
    true = sum(prices, Fraction(0))
    kept = sum(map(amount_from_units, charges), Fraction(0))
    assert true <= kept <= amount_from_units(total)
    assert (
        amount_from_units(total) == kept
        if not roundings
        else amount_from_units(total) < kept + Fraction(roundings, UNIT)
    )
    assert amounts.parse_amount(amounts.format_amount(total)) == total


def test_hostile_denominators_end_at_sixty_digits() -> None:
    """Six primes of nine digits fit, and the seventh is rounded up with all before it; then thirds are exact again."""
    charges = [charge_amount(Fraction(1, prime)) for prime in PRIMES[:7]]
    *_, six, seven = accumulate(charges, amounts.add_rounded_up)
    assert amount_from_units(six) == sum(Fraction(1, prime) for prime in PRIMES[:6])
    assert seven == math.ceil(six + charges[6])
    thirds = list(accumulate([seven, *[charge_amount(Fraction(1, 3))] * 3], amounts.add_rounded_up))
    assert thirds[-1] == seven + UNIT
    assert type(thirds[-1]) is int


@given(st.lists(HOSTILE | LONG, min_size=3, max_size=6), st.lists(HOSTILE | LONG, min_size=3, max_size=6))
@settings(max_examples=30)
def test_what_is_left_is_never_more_than_was_there(held: list[Fraction], steps: list[Fraction]) -> None:
    part, whole = sorted(reduce(amounts.add_rounded_up, map(charge_amount, each)) for each in (held, steps))
    left = amounts.subtract_rounded_down(whole, part)
    assert whole - part - 1 < left <= whole - part
    assert amount_from_units(left).denominator <= 10**60


@pytest.mark.parametrize("text", ["2/6", "1/0", "0/3", "-1/3", "1/-3", "+1/3", " 1/3", "1/3 ", "3/1", "1/10", "1/3/3"])
def test_an_amount_has_one_written_form(text: str) -> None:
    with pytest.raises(ValueError, match="lowest terms"):
        amounts.parse_amount(text)
    with pytest.raises(sf.InvalidParameter):
        sf.Cost(text, None, 0)  # type: ignore[arg-type]


def test_what_would_be_long_is_not_written_or_read() -> None:
    long = exact_amount(Fraction(1, math.prod(PRIMES)))
    with pytest.raises(sf.InvalidParameter):
        amounts.format_amount(long)
    with pytest.raises(sf.InvalidParameter):
        amounts.parse_amount(f"1/{math.prod(PRIMES)}")
    assert sf.Cost(long, None, long).with_short_fractions() == sf.Cost(1, None, 1)


@pytest.mark.parametrize("wrong", [0.5, -1, Fraction(-1, 3), True, None, "one", "7"])
def test_only_amounts_are_amounts(wrong: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.Cost(0, None, wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter):
        sf.Cost(0, Fraction(1, 3), 0)  # type: ignore[arg-type]


def test_fractions_are_written_in_json_as_people_write_them() -> None:
    cost = sf.Cost(exact_amount(Fraction(1, 3)), 5, exact_amount(Fraction(1, 7)))
    assert codec.dumps(cost) == '{"failure":"1/7","kind":"cost/1","pure":"1/3","renyi":5}'
    assert codec.loads(codec.dumps(cost)) == cost
    spent = sf.Budget(1, "1e-6").charge(sf.Curve.approximate("1/3", "1/30000000"))
    assert codec.loads(codec.dumps(spent)) == spent
    assert '"spent_pure":"1/3"' in codec.dumps(spent)


# ── budgets ────────────────────────────────────────────────────────────────────────────────────


@given(st.fractions("1/50", 5, max_denominator=50), st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_equal_parts_fill_a_budget_and_leave_nothing(epsilon: Fraction, parts: int) -> None:
    account = sf.Budget(epsilon)
    for _ in range(parts):
        account = account.charge(sf.Curve.pure(epsilon / parts))
    assert account.remaining == {"pure": 0}
    assert account.spent["pure"] == epsilon
    assert not account.affords(sf.Curve.pure("1e-30"))


@given(st.lists(PRICES, max_size=12), st.fractions("1/7", 9, max_denominator=10**12))
@settings(max_examples=20, deadline=None)
def test_the_largest_is_accepted_and_no_more_than_a_unit_is_missing(prices: list[Fraction], epsilon: Fraction) -> None:
    account = sf.Budget(epsilon)
    for price in filter(None, prices):
        if account.affords(sf.Curve.pure(price)):
            account = account.charge(sf.Curve.pure(price))
    largest = account.largest_pure()
    assert account.affords(sf.Curve.pure(largest))
    assert account.remaining["pure"] - Fraction(2, UNIT) < largest <= account.remaining["pure"]


def test_a_share_of_a_third_is_a_third() -> None:
    account = sf.Budget(1, "3e-7", reserve="1e-7")
    mine = account.share("1/3").charge(sf.Curve.approximate("1/3", "1/30000000"))
    assert (mine.remaining["pure"], mine.remaining["failure"]) == (0, 0)
    with pytest.raises(sf.Overspent) as refusal:
        sf.Budget("2/3").charge(sf.Curve.pure(1))
    assert refusal.value.difference == {"pure": Fraction(1, 3)}
    assert refusal.value.largest == Fraction(2, 3)


def test_thirds_of_a_reserve_fill_it() -> None:
    account = sf.Budget(1, "1e-6")
    for _ in range(3):
        account = account.charge(sf.Curve.approximate(0, "1/30000000"))
    assert account.remaining["failure"] == 0
    assert not account.affords(sf.Curve.approximate(0, "1e-30"))


def test_an_odometer_adds_failures_exactly() -> None:
    third = sf.Curve.approximate("0.1", "1/3000000")
    assert math.isfinite(sf.odometer([third] * 3, delta="1e-6").adaptive[-1])
    assert math.isinf(sf.odometer([third] * 4, delta="1e-6").adaptive[-1])
