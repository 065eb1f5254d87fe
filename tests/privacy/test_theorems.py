"""Every test vector of the theory's sections on guarantees and composition, and the textbook results."""

from __future__ import annotations

import itertools
import math
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from refusals import assert_refused
from sfumato import theorems


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"), [("0.5", "1e-6", 5.22153444453), ("0.01", "1e-9", 0.810174467868)]
)
def test_rho_to_epsilon(rho: str, delta: str, epsilon: float) -> None:
    assert theorems.rho_to_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-11)
    assert theorems.rho_to_delta(rho, epsilon) == pytest.approx(float(delta), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta", "rho"), [("1", "1e-6", 0.0243559703595), ("3", "1e-9", 0.120582428911)])
def test_the_rho_that_a_guarantee_allows(epsilon: str, delta: str, rho: float) -> None:
    allowance = theorems.renyi_allowance(sf.Guarantee(epsilon, delta))
    assert float(allowance.rho) == pytest.approx(rho, rel=1e-11)
    # Rounded down: spending it all is still within the guarantee, in 60 digits.
    with mpmath.workdps(60):
        alpha, r = (mpmath.mpf(x.numerator) / x.denominator for x in (allowance.order, allowance.divergence))
        spent = mpmath.exp((alpha - 1) * (r - mpmath.mpf(epsilon))) * (1 - 1 / alpha) ** alpha / (alpha - 1)
        assert spent <= mpmath.mpf(delta)
        assert spent >= mpmath.mpf(delta) * (1 - mpmath.mpf(10) ** -30)


def test_the_order_that_a_guarantee_allows() -> None:
    allowance = theorems.renyi_allowance(sf.Guarantee(1, "1e-6"))
    assert float(allowance.order) == pytest.approx(21.9845, abs=5e-4)
    assert float(allowance.divergence) == pytest.approx(0.535455, abs=5e-6)


@pytest.mark.parametrize(("mu", "delta", "epsilon"), [("1", "1e-6", 4.88655411746), ("0.25", "1e-9", 1.39561571386)])
def test_mu_to_epsilon(mu: str, delta: str, epsilon: float) -> None:
    assert theorems.mu_to_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-11)
    assert theorems.mu_to_delta(mu, epsilon) == pytest.approx(float(delta), rel=1e-9)


def test_advanced_composition() -> None:
    total = theorems.advanced(sf.Guarantee("0.1", "1e-8"), 100, "1e-6")
    assert float(total.epsilon) == pytest.approx(6.30823095051, rel=1e-11)
    assert total.delta == Fraction(2, 10**6)


def test_optimal_composition() -> None:
    by_epsilon = {round(float(g.epsilon), 9): float(g.delta) for g in theorems.optimal("0.1", 10)}
    assert by_epsilon[0.8] == pytest.approx(2.88233857619e-4, rel=1e-11)
    assert by_epsilon[0.4] == pytest.approx(0.0160801319932, rel=1e-11)
    assert by_epsilon[1.0] == 0


@settings(max_examples=10)
@given(st.floats(0.01, 2).map(lambda x: f"{x:.3g}"), st.integers(1, 60))
def test_optimal_composition_is_what_compose_finds(epsilon: str, k: int) -> None:
    curve = sf.compose([(sf.Curve.pure(epsilon), k)])
    for promise in theorems.optimal(epsilon, k):
        low, high = curve.delta_range(promise.epsilon)
        assert low <= float(promise.delta) * (1 + 1e-11) + 1e-300
        assert high >= float(promise.delta) * (1 - 1e-11)
        assert high - low <= 1e-9


@pytest.mark.parametrize(("epsilon", "k"), [("32.8", 700), ("3.3", 301), ("0.1", 10), ("0.1", 301), ("299.9", 17)])
def test_optimal_composition_of_many_releases_is_rounded_up(epsilon: str, k: int) -> None:
    """In 60 digits: logarithms of 23,000 are rounded by more than a part in 2⁴⁰, which once made δ too small."""
    found = theorems.optimal(epsilon, k)
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        weights = [math.comb(k, lies) * mpmath.exp(-lies * e) / (1 + mpmath.exp(-e)) ** k for lies in range(9)]
        for i in range(1, min(9, len(found))):
            truth = mpmath.fsum(weights[lies] * -mpmath.expm1(-2 * (i - lies) * e) for lies in range(i))
            if truth > 1e-299:
                stated = mpmath.mpf(found[i].delta.numerator) / found[i].delta.denominator
                assert truth <= stated <= truth * (1 + mpmath.mpf("3e-11"))
                if k <= 301 and stated < 0.9:  # the slack grows with what is added and taken away
                    logs = k * mpmath.log1p(mpmath.exp(-e)) + mpmath.log(math.comb(k, k // 2))
                    slack = mpmath.mpf(2) ** -40 + mpmath.mpf(2) ** -49 * logs
                    assert abs(stated / truth - 1 - slack) < mpmath.mpf("1e-13")


def test_basic_and_group() -> None:
    parts = [sf.Guarantee("0.1", "1e-7"), sf.Guarantee("0.2"), sf.Guarantee("0.3", "2e-7")]
    assert theorems.basic(parts) == sf.Guarantee("0.6", "3e-7")
    assert theorems.basic([]) == sf.Guarantee(0)
    assert theorems.group(sf.Guarantee("0.1"), 7) == sf.Guarantee("0.7")
    growth = math.expm1(0.7) / math.expm1(0.1)
    assert float(theorems.group(sf.Guarantee("0.1", "1e-6"), 7).delta) == pytest.approx(1e-6 * growth, rel=1e-11)
    assert float(theorems.group(sf.Guarantee("0.1", "1e-6"), 7).delta) >= 1e-6 * growth


def test_replace_is_never_costed_as_add_remove() -> None:
    parts = [sf.Guarantee("0.1", "1e-7"), sf.Guarantee("0.5"), sf.Guarantee("0.3", "2e-7")]
    assert theorems.parallel(parts, "add-remove") == sf.Guarantee("0.5", "2e-7")
    assert theorems.parallel(parts, "replace") == sf.Guarantee("0.8", "3e-7")
    assert theorems.parallel(parts[:1], "replace") == parts[0]


def test_parallel_composition_by_enumeration() -> None:
    """Two disjoint parts, each a noisy bit: moving a unit between them costs both, adding one costs one."""
    flip = {0: [Fraction(3, 4), Fraction(1, 4)], 1: [Fraction(1, 4), Fraction(3, 4)]}

    def both(a: int, b: int) -> list[Fraction]:
        return [x * y for x in flip[a] for y in flip[b]]

    part = sf.Guarantee(math.log(3) * (1 + 1e-15))
    moved = sf.divergences.max_divergence(both(1, 0), both(0, 1))
    added = sf.divergences.max_divergence(both(1, 0), both(0, 0))
    assert added <= float(theorems.parallel([part, part], "add-remove").epsilon)
    assert float(theorems.parallel([part, part], "add-remove").epsilon) < moved
    assert moved <= float(theorems.parallel([part, part], "replace").epsilon)


def test_pure_to_rho_bounds_the_true_rho() -> None:
    for epsilon in ("0.01", "0.5", "1", "4"):
        assert sf.Curve.pure(epsilon).rho() <= float(theorems.pure_to_rho(epsilon))
        assert sf.Curve.bounded_range(epsilon).rho() <= float(epsilon) ** 2 / 8 * (1 + 1e-9)


def test_small_theorems_in_exact_numbers() -> None:
    assert theorems.pure_to_rho("0.3") == Fraction(9, 200)
    assert theorems.azuma([], 1) == theorems.azuma([0, 0], 1) == 0
    assert theorems.azuma([3], 0) == theorems.azuma([], 0) == 1
    assert theorems.azuma([3, 4], 5) == pytest.approx(math.exp(-2), rel=1e-11)
    assert theorems.chernoff_multiplicative(9, "0.5", 0) == 1
    assert theorems.group(sf.Guarantee(1, "1e-6"), 1) == sf.Guarantee(1, "1e-6")
    assert_refused(lambda: theorems.group(sf.Guarantee(1), 0))


def test_renyi_conversions_are_inverse() -> None:
    epsilon = theorems.renyi_to_epsilon(10, "0.2", "1e-6")
    assert theorems.renyi_to_delta(10, "0.2", epsilon) == pytest.approx(1e-6, rel=1e-9)


def test_chernoff_bounds_hold_for_coins() -> None:
    m, mean = 200, 0.3

    def tail(above: float) -> float:
        return math.fsum(math.comb(m, j) * mean**j * (1 - mean) ** (m - j) for j in range(m + 1) if j / m > above)

    for ratio in (0.1, 0.3, 0.6):
        assert tail(mean + ratio * mean) <= theorems.chernoff_additive(m, ratio * mean)
        assert tail(mean * (1 + ratio)) <= theorems.chernoff_multiplicative(m, mean, ratio)
        below = 1 - tail(mean * (1 - ratio) - 1e-9)
        assert below <= theorems.chernoff_multiplicative(m, mean, -ratio)
        assert tail(mean + ratio * mean) <= theorems.azuma([Fraction(1, m)] * m, ratio * mean) * (1 + 1e-12)
    assert theorems.chernoff_additive(100, "0.1") == pytest.approx(math.exp(-2))
    assert theorems.chernoff_multiplicative(100, "0.5", "0.2") == pytest.approx(math.exp(-2 / 3))
    assert theorems.azuma([1, 2], 3) == pytest.approx(math.exp(-18 / 5))


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 10**6])
def test_stirling_brackets_the_factorial(n: int) -> None:
    low, high = theorems.stirling(n)
    with mpmath.workdps(40):
        truth = mpmath.loggamma(n + 1)
        assert mpmath.mpf(low) * (1 - mpmath.mpf(10) ** -15) <= truth <= mpmath.mpf(high) * (1 + mpmath.mpf(10) ** -15)


@pytest.mark.parametrize(
    "call",
    [
        lambda: theorems.basic([1]),  # type: ignore[list-item]
        lambda: theorems.basic([sf.Guarantee(1, "0.6"), sf.Guarantee(1, "0.6")]),
        lambda: theorems.parallel([sf.Guarantee(1)], "both"),
        lambda: theorems.advanced(sf.Guarantee(1), 0, "1e-6"),
        lambda: theorems.advanced(sf.Guarantee(1), 3, 0),
        lambda: theorems.advanced(sf.Guarantee(1, "0.5"), 3, "1e-6"),
        lambda: theorems.optimal(-1, 3),
        lambda: theorems.optimal(1, 2.5),  # type: ignore[arg-type]
        lambda: theorems.group(sf.Guarantee(1, "0.1"), 10),
        lambda: theorems.renyi_allowance(sf.Guarantee(1)),
        lambda: theorems.renyi_allowance(sf.Guarantee(1, "1e-6"), 1),
        lambda: theorems.renyi_allowance(sf.Guarantee(1, "1e-6"), "1.1"),
        lambda: theorems.renyi_to_delta(1, 1, 1),
        lambda: theorems.rho_to_epsilon("nan", "1e-6"),
        lambda: theorems.rho_to_epsilon(1, 0),
        lambda: theorems.chernoff_additive(0, 1),
        lambda: theorems.chernoff_multiplicative(10, 2, "0.1"),
        lambda: theorems.chernoff_multiplicative(10, "0.5", 2),
        lambda: theorems.azuma([-1], 1),
        lambda: theorems.stirling(0),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_the_conversion_of_a_renyi_divergence_is_rounded_up_by_its_terms() -> None:
    """e^{(α−1)(r−ε)}·(1 − 1/α)^α/(α − 1) in 40 digits: above it by 2^-40, and 2^-50 of the terms of its logarithm."""
    for order, divergence, epsilon in ((8001, "0", "0.0875"), (5001, "0.9", "1"), ("1.000001", "0", "600000000")):
        with mpmath.workdps(40):
            z = mpmath.mpf(order) - 1
            terms = z * (mpmath.mpf(divergence) - mpmath.mpf(epsilon)), -(1 + z) * mpmath.log1p(1 / z), -mpmath.log(z)
            above = theorems.renyi_to_delta(order, divergence, epsilon) / mpmath.exp(mpmath.fsum(terms)) - 1
            expected = mpmath.mpf(2) ** -40 + mpmath.mpf(2) ** -50 * mpmath.fsum(map(abs, terms))
            assert abs(above - expected) < 1.5e-13


def test_two_to_the_minus_kappa_is_negligible() -> None:
    """Exact integers: below the stated κ some κ misses the power; from it on, none does for a long way."""
    for power in range(1, 13):
        start = theorems.negligible_from(power)
        assert all(2**kappa >= kappa**power for kappa in range(start, start + 3000))
        assert start == 1 or 2 ** (start - 1) < (start - 1) ** power
    assert [theorems.negligible_from(power) for power in (1, 2, 3, 10)] == [1, 4, 10, 59]
    assert theorems.negligible_from(50) > 400
    assert theorems.kappa_secure(1, 1) == sf.Guarantee(1, Fraction(1, 2))
    assert theorems.kappa_secure("0.5", 40) == sf.Guarantee("0.5", Fraction(1, 2**40))
    for call in (
        lambda: theorems.kappa_secure(1, 0),
        lambda: theorems.kappa_secure(1, 2000),
        lambda: theorems.kappa_secure(1, "1.5"),
        lambda: theorems.negligible_from(0),
        lambda: theorems.negligible_from(1000),
    ):
        assert_refused(call)


def test_what_multiplicative_weights_need() -> None:
    """The numbers of the statement, by mpmath: T = 4 ln|X|/α², n = 2 ln(2T|Q|/β)/(ε₀α), and ε₀ within the promise."""
    for promise in (sf.Guarantee(1), sf.Guarantee("0.5", "1e-6"), sf.Guarantee(3, "0.01")):
        plan = theorems.multiplicative_weights("0.4", "0.05", 136, 16, promise)
        assert plan.rounds == mpmath.ceil(4 * mpmath.log(16) / mpmath.mpf("0.1") ** 2)
        first = 2 * mpmath.log(2 * plan.rounds * 136 / mpmath.mpf("0.05")) / (mpmath.mpf("0.1") * float(plan.epsilon))
        assert 0 <= plan.people - first < 2
        steps = 2 * plan.rounds
        if not promise.delta:
            assert steps * plan.epsilon == promise.epsilon
        else:
            assert theorems.advanced(sf.Guarantee(plan.epsilon), steps, promise.delta).epsilon <= promise.epsilon
            more = sf.Guarantee(plan.epsilon * Fraction(1001, 1000))
            assert theorems.advanced(more, steps, promise.delta).epsilon > promise.epsilon
            assert plan.epsilon > promise.epsilon / steps
    one = theorems.multiplicative_weights("0.4", "0.05", 1, 2, sf.Guarantee(1))
    assert one.people == mpmath.ceil(2 * mpmath.log(2 * one.rounds / mpmath.mpf("0.05")) / (one.epsilon / 10.0))
    for call in (
        lambda: theorems.multiplicative_weights(2, "0.1", 1, 2, sf.Guarantee(1)),
        lambda: theorems.multiplicative_weights("0.1", 0, 1, 2, sf.Guarantee(1)),
        lambda: theorems.multiplicative_weights("0.1", "0.1", 0, 2, sf.Guarantee(1)),
        lambda: theorems.multiplicative_weights("0.1", "0.1", 1, 1, sf.Guarantee(1)),
        lambda: theorems.multiplicative_weights("0.1", "0.1", 1, 2, sf.Guarantee(0)),
    ):
        assert_refused(call)


def test_people_and_rounds_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a slack of two in place of a part in 2⁴⁰: twice the rounds; the steps' ε is half of ε over all of them."""
    exact = theorems.multiplicative_weights("0.4", "0.05", 100, 50, sf.Guarantee(1))
    assert exact.rounds == math.ceil(4 * math.log(50) / 0.01)
    monkeypatch.setattr(theorems, "_ROUND_UP", 2.0)
    doubled = theorems.multiplicative_weights("0.4", "0.05", 100, 50, sf.Guarantee(1))
    assert doubled.rounds == math.ceil(8 * math.log(50) / 0.01)
    assert doubled.epsilon == Fraction(1, 2 * doubled.rounds)
    log_term = math.log(2 * doubled.rounds * 100 / 0.05)
    assert doubled.people == math.ceil(4 * log_term * 2 * doubled.rounds / 0.1)


def test_a_cost_of_many_digits_is_rounded_up_at_its_fortieth() -> None:
    alpha, delta = Fraction(101, 100), Fraction(1, 10**6)
    up, down = (theorems._conversion_cost(alpha, delta, rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))
    assert 1000 <= down < up < 10_000
    assert up - down == Fraction(1, 10**37)
    small_up, small_down = (
        theorems._conversion_cost(Fraction(50), Fraction(1, 10), rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR)
    )
    assert small_up - small_down == Fraction(1, 10**40)


def test_the_root_that_the_notes_leave_out() -> None:
    """n grows with √ln|X|, not with ln|X|: squaring the cells twice multiplies it by about 2, and not by 4."""
    promise = sf.Guarantee(1, "1e-6")
    small, large = (theorems.multiplicative_weights("0.4", "0.05", 1000, cells, promise) for cells in (2**8, 2**32))
    assert large.rounds == pytest.approx(4 * small.rounds, rel=1e-3)
    assert 1.9 < large.people / small.people < 2.4


def test_the_cost_of_a_conversion_is_never_below_the_exact_one() -> None:
    """Near order 1 it is as large as 10²⁰: the digits that 50 do not hold are rounded up as well."""
    with mpmath.workdps(120):
        for exponent, delta in itertools.product(range(20), (Fraction(1, 7), Fraction(1, 10**6))):
            order = 1 + Fraction(3, 7 * 10**exponent)
            alpha = mpmath.mpf(order.numerator) / order.denominator
            truth = (
                -mpmath.log(mpmath.mpf(delta.numerator) / delta.denominator * (alpha - 1))
                + alpha * mpmath.log1p(-1 / alpha)
            ) / (alpha - 1)
            cost = theorems._conversion_cost(order, delta, ROUND_CEILING)
            found = mpmath.mpf(cost.numerator) / cost.denominator
            assert truth <= found <= truth + abs(truth) * mpmath.mpf(10) ** -38 + mpmath.mpf(10) ** -39
