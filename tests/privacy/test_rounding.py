"""Computed reals are rounded toward privacy: sums, comparisons, conversions from exact numbers to floats."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from privacy.exact import number
from sfumato.privacy.numbers import decimal_float_above, decimal_float_below, float_above, float_below


@given(st.fractions())
def test_floats_for_computing_enclose_as_binary_numbers(value: Fraction) -> None:
    low, high = float_below(value), float_above(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert high <= math.nextafter(low, math.inf)


def test_beyond_all_floats() -> None:
    for up, down in ((decimal_float_above, decimal_float_below), (float_above, float_below)):
        assert up(Fraction(10**400)) == math.inf
        assert down(Fraction(10**400)) == sys.float_info.max
        assert up(Fraction(-(10**400))) == -sys.float_info.max
        assert down(Fraction(-(10**400))) == -math.inf
    assert float_above(Fraction(3, 10)) > 0.3
    assert decimal_float_above(Fraction(3, 10)) == 0.3


@pytest.mark.parametrize("digits", ["0.3333333333333333", "0.33333333333333332"])
@pytest.mark.parametrize("kind", ["laplace", "bounded_range"])
def test_just_below_the_largest_loss_something_still_leaks(kind: str, digits: str) -> None:
    """These ε are below 1/3, though all three are one float."""
    curve = sf.Curve.laplace(3) if kind == "laplace" else sf.Curve.bounded_range("1/3")
    epsilon = Fraction(digits)
    with mpmath.workdps(50):
        gap = 1 - mpmath.exp((number(epsilon) - mpmath.mpf(1) / 3) / 2)
        truth = gap if kind == "laplace" else gap**2 / (1 - mpmath.exp(-mpmath.mpf(1) / 3))
        assert 0 < truth <= number(curve.delta(epsilon))
    twice = sf.compose([(curve, 2)])
    assert twice.delta(2 * epsilon) > 0


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 50)), min_size=1, max_size=5))
def test_rho_is_not_below_its_exact_sum(parts: list[tuple[int, int]]) -> None:
    curve = sf.compose([(sf.Curve.concentrated(Fraction(1, n)), count) for n, count in parts])
    assert Fraction(repr(curve.rho())) >= sum(Fraction(count, n) for n, count in parts)
    assert sf.Curve.gaussian(10).rho() == 0.005


@settings(max_examples=12)
@given(st.integers(2, 10**6), st.integers(2, 10**6))
def test_failure_and_the_rest_are_added_upwards(a: int, b: int) -> None:
    """One leak that only says yes, and a response: δ = f + (1 − f)·δ₁, exactly computable."""
    f, ratio = Fraction(1, a), Fraction(b, b + 1)
    leak = sf.Curve.pair([f, 1 - f, 0], [0, 1 - f, f])
    answer = sf.Curve.pair([ratio, 1 - ratio], [1 - ratio, ratio])
    truth = f + (1 - f) * (2 * ratio - 1)
    low, high = sf.compose([leak, answer]).delta_range(0)
    assert Fraction(repr(low)) <= truth <= Fraction(repr(high))


def test_what_rounding_takes_from_a_pair_is_failure_in_both_directions() -> None:
    third = 0.3333333333333333
    curve = sf.Curve.pair([third] * 3, [third] * 3)
    missing = 1 - 3 * Fraction(str(third))
    assert curve.failure == missing
    assert Fraction(repr(curve.delta(5))) >= missing
    assert sf.loads(sf.dumps(curve)) == curve
    one_sided = sf.Curve.pair(["1/2", "1/2"], ["1/2", Fraction(1, 2) - Fraction(1, 10**10)])
    assert one_sided.failure == Fraction(1, 10**10)
    assert sf.Curve.pair([Fraction(1, 3)] * 3, ["1/3", "1/3", "1/3"]).epsilon(0) == 0


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5000000001], [0.5, 0.5]),
        ([0.5, 0.5], [0.3333333333333334] * 3 + [0]),
        ([1], [0.5]),
        ([0.5, 0.4999], [0.5, 0.5]),
        ([], []),
    ],
)
def test_more_than_one_or_much_less_is_refused_with_what_to_write(p: list[float], q: list[float]) -> None:
    with pytest.raises(sf.InvalidParameter, match=r"Fraction\(1, 3\)"):
        sf.Curve.pair(p + [0] * (len(q) - len(p)), q)


def test_spreading_missing_mass_would_hide_a_loss() -> None:
    """Scaled to 1, both worlds look alike; in truth the second may lack an outcome of the first."""
    whole = sf.Curve.pair(["1/2", "1/2"], ["1/2", "1/2"])
    short = sf.Curve.pair(["1/2", "0.4999999999"], ["1/2", "0.4999999999"])
    assert whole.epsilon(0) == 0
    assert short.epsilon(0) == math.inf
    assert short.epsilon("1e-10") == 0
