from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato import InvalidParameter
from sfumato.privacy.numbers import (
    POSITIVE,
    Range,
    decimal_float_above,
    decimal_float_below,
    exact,
    exact_integer,
    format_exact,
    format_percent,
    least_integer_where,
    means_plus_infinity,
    units_rounded_down,
    units_rounded_up,
)


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int8(7), Fraction(7)),
        ("0.1", Fraction(1, 10)),
        (" 1e-6 ", Fraction(1, 10**6)),
        ("1/3", Fraction(1, 3)),
        ("-7/2", Fraction(-7, 2)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(2, 7), Fraction(2, 7)),
        (1e-300, Fraction(1, 10**300)),
        ("+.5", Fraction(1, 2)),
        (10**40, Fraction(10**40)),
    ],
)
def test_a_number_means_its_shortest_decimal(value: object, meaning: Fraction) -> None:
    assert exact(value, "x") == meaning  # type: ignore[arg-type]


HOSTILE = [
    5e-324, "1e301", 10**301, Fraction(1, 10**301), "--1/2", "1_0", "१/२", np.timedelta64(1, "D"), 10**4000,
    None, True, "", "abc", "1,5", "nan", "inf", "1/0", "1/-3", "1//2", "0x10", "1e999999999", "9" * 5000, "½",
    math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity"), Decimal("1e99999"),
    1j, b"1", [], [1], {}, object(), np.array([1.0, 2.0]), np.bool_(True), np.float64("nan"),
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: repr(v)[:20])
def test_anything_else_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        exact(value, "epsilon")  # type: ignore[arg-type]
    assert refusal.value.parameter == "epsilon"
    assert "epsilon must be a finite number" in str(refusal.value)


@pytest.mark.parametrize("value", [-1, 1.5, "2.5", None, "one", math.nan])
def test_whole_numbers(value: object) -> None:
    with pytest.raises(InvalidParameter, match="whole number ≥ 0"):
        exact_integer(value, "k")  # type: ignore[arg-type]
    assert exact_integer("3", "k") == exact_integer(3.0, "k") == exact_integer(np.int64(3), "k") == 3


_LONG = 1 << 300_000


@pytest.mark.parametrize(
    "value",
    [Fraction(_LONG + 1, _LONG), Fraction(_LONG, 3), Fraction(-3, _LONG), _LONG, -_LONG],
    ids=["near 1", "large", "small", "integer", "negative"],
)
def test_a_number_of_too_many_digits_is_refused_by_its_length_alone(value: Fraction | int) -> None:
    """Comparing, reducing or writing a million digits takes a minute; a hundred thousand took half a second each."""
    with pytest.raises(InvalidParameter) as refused:
        exact(value, "x", POSITIVE)
    kind = "an integer" if isinstance(value, int) else "a fraction"
    assert f"must be a finite number > 0: between 1e-300 and 1e300; got {kind} of 300001 bits" in str(refused.value)
    assert refused.value.facts["value"] == f"{kind} of 300001 bits"
    with pytest.raises(InvalidParameter, match=f"got {kind} of 300001 bits"):
        exact_integer(value, "x", at_least=1)


def test_numbers_of_4096_bits_are_read() -> None:
    assert exact(1 + Fraction(1, 1 << 4095), "x") == 1 + Fraction(1, 1 << 4095)
    with pytest.raises(InvalidParameter, match="got about 1"):
        exact(1 + Fraction(1, 1 << 4096), "x")
    with pytest.raises(InvalidParameter, match="got about 2"):
        exact(Fraction((1 << 4096) + 1, (1 << 4095)), "x")
    with pytest.raises(InvalidParameter, match="got about 1"):
        exact(1 + Fraction(1, 1 << 8191), "x")
    with pytest.raises(InvalidParameter, match="got a fraction of 8193 bits"):
        exact(1 + Fraction(1, 1 << 8192), "x")


@given(st.fractions())
def test_text_reads_back(value: Fraction) -> None:
    assert exact(format_exact(value), "x") == value


@given(st.fractions(max_denominator=10**9))
def test_directed_rounding_brackets_the_value_by_its_meaning(value: Fraction) -> None:
    assert exact(decimal_float_below(value), "x") <= value <= exact(decimal_float_above(value), "x")
    assert decimal_float_above(value) - decimal_float_below(value) <= 4 * math.ulp(decimal_float_above(value))


def test_directed_rounding_keeps_short_decimals() -> None:
    assert decimal_float_above(Fraction(1, 10)) == decimal_float_below(Fraction(1, 10)) == 0.1
    assert decimal_float_above(Fraction(10**400)) == math.inf


@given(st.fractions(min_value=0, max_value=10))
def test_charges_round_up_and_allowances_down(value: Fraction) -> None:
    assert units_rounded_down(value) <= value * 10**30 <= units_rounded_up(value) <= units_rounded_down(value) + 1


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "0 %"),
        (1, "100 %"),
        ("0.5", "50 %"),
        ("0.01", "1 %"),
        ("0.0105", "1.05 %"),
        ("0." + "9" * 27, "99." + "9" * 25 + " %"),
        (1 - Fraction(1, 10**30), "99." + "9" * 28 + " %"),
        ("1/3", "33.333333 %"),
        (Fraction(1, 2) + Fraction(1, 10**60), "50 %"),
    ],
)
def test_percents_are_written_as_people_write_them(share: object, words: str) -> None:
    assert format_percent(share) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "number"), [("5%", "50"), ("2.5 %", "25")])
def test_a_percentage_as_an_error_is_refused_with_an_absolute_example(given: str, number: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        exact(given, "within visits", POSITIVE)
    percent = given.rstrip("% ")
    assert (
        refused.value.fix == f"within is an absolute error: for {percent} % of a count of about 1,000, write {number}"
    )
    with pytest.raises(InvalidParameter) as other:
        exact(given, "epsilon", POSITIVE)
    assert "within" not in other.value.fix


@pytest.mark.parametrize("start", [0, 1, 7, 10**12])
def test_the_least_whole_number_with_a_property(start: int) -> None:
    for least in (0, 1, 2, 3, 7, 8, 9, 15, 1000, 10**12, 10**12 + 5, 2**40 + 1):
        asked: list[int] = []

        def holds(number: int, least: int = least, asked: list[int] = asked) -> bool:
            asked.append(number)
            return number >= least

        assert least_integer_where(holds, start) == max(start, least)
        assert min(asked) >= start
        assert len(asked) < 100


def test_only_infinity_is_infinite() -> None:
    """Whole numbers and fractions beyond all floats are finite; so are infinities below zero no order."""
    assert all(map(means_plus_infinity, (math.inf, "inf", " Infinity ", Decimal("inf"), np.float64("inf"))))
    finite = (10**400, Fraction(10**400), Fraction(1, 3), 1e308, Decimal(10) ** 400, "1e400", None, [])
    assert not any(map(means_plus_infinity, (*finite, -math.inf, "-inf", Decimal("-inf"), math.nan)))


@pytest.mark.parametrize("low_open", [False, True])
@pytest.mark.parametrize("high_open", [False, True])
@pytest.mark.parametrize("ends", [(Fraction(0), Fraction(1, 3)), (Fraction(-7, 5), None), (None, Fraction(10**40, 7))])
def test_a_range_holds_what_lies_between_its_ends(
    ends: tuple[Fraction | None, Fraction | None], low_open: bool, high_open: bool
) -> None:
    low, high = ends
    allowed = Range("a number", low, high, low_open=low_open, high_open=high_open)
    near = Fraction(1, 10**60)
    for value in (end + shift for end in ends if end is not None for shift in (-near, 0, near)):
        above = low is None or value > low or (value == low and not low_open)
        below = high is None or value < high or (value == high and not high_open)
        assert (value in allowed) is (above and below)
