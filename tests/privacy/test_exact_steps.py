"""Small steps of the accounting, each beside the same number by another route: fractions, 40 digits or enumeration."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

import sfumato as sf
from privacy import exact
from refusals import assert_refused
from sfumato.privacy import pairs, shape, subsampled_losses
from sfumato.privacy.budget import Cost
from sfumato.privacy.calibration import _rounder_numbers_near
from sfumato.privacy.guarantee import Neighbours
from sfumato.privacy.inversion import Moments, _log_chernoff_delta
from sfumato.privacy.losses import Loss, LossPair, ResponseLoss
from sfumato.privacy.noise_losses import GaussianLoss, LaplaceLoss
from sfumato.privacy.numbers import _parse_finite_number, exact_integer, sinhc_minus_one
from sfumato.privacy.odometer import _adaptive_epsilons_and_exceptions, odometer
from sfumato.privacy.reading import _log_odds_bound
from sfumato.privacy.subsampled_losses import SubsampledLoss, _max_divergence_outside_failure

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40
LAPLACE = sf.Curve.laplace(2)


def mp(value: Fraction | float) -> mpmath.mpf:
    exact_value = Fraction(value)
    return MP.mpf(exact_value.numerator) / exact_value.denominator


def test_a_currency_that_either_cost_leaves_open_stays_open() -> None:
    assert Cost(2, 3, 4) + Cost(50, 70, 110) == Cost(52, 73, 114)
    for first, second in ((Cost(None, 3, 4), Cost(5, None, 1)), (Cost(5, None, 1), Cost(None, 3, 4))):
        assert first + second == Cost(None, None, 5)
    assert Cost(1, 2, 3) + Cost(4, None, 5) == Cost(4, None, 5) + Cost(1, 2, 3) == Cost(5, None, 8)
    for nothing in (Cost(0, 0, 0), Cost(0, None, 0)):
        assert nothing + Cost(5, 7, 1) == Cost(5, 7, 1) + nothing == Cost(5, 7, 1)


PRECISION = F(1, 2**46)


def test_rounder_numbers_are_near_and_not_below_what_was_enough() -> None:
    def decimal_above(high: Fraction) -> Fraction:
        """The ceiling to the fewest digits that is within a part in 2⁴² of a number in [0.1, 1)."""
        scaled = ((digits, F(math.ceil(high * 10**digits), 10**digits)) for digits in range(1, 30))
        return next(number for _, number in scaled if number / high <= 1 + F(1, 2**42))

    third, low = F(1, 3), F(1, 4)
    for high in (third / (1 - PRECISION), third / (1 + PRECISION)):  # as far as a rounder number may be
        assert _rounder_numbers_near(low, high) == [third, decimal_above(high)]
    for high in (third / (1 - 2 * PRECISION), third / (1 + 2 * PRECISION), F(7, 10) / F(10_001, 10_000)):
        assert _rounder_numbers_near(low, high) == [decimal_above(high)]
    assert _rounder_numbers_near(third, third + third * PRECISION / 2) == [decimal_above(third + third * PRECISION / 2)]
    assert _rounder_numbers_near(low, F(9_999, 10_000)) == [F(9_999, 10_000), F(9_999, 10_000)]
    assert _rounder_numbers_near(low, F(3_333, 10_001)) == [decimal_above(F(3_333, 10_001))]
    assert _rounder_numbers_near(low, F(9_999, 19_999)) == [decimal_above(F(9_999, 19_999))]
    assert _rounder_numbers_near(F(9, 10**5), F(1, 10**4)) == [F(1, 10**4), F(1, 10**4)]
    half = F(1, 2)
    assert _rounder_numbers_near(low, half / (1 + 16 * PRECISION)) == [half]
    for steps in (F(161, 10), F(25)):
        high = half / (1 + steps * PRECISION)
        assert _rounder_numbers_near(low, high) == [decimal_above(high)] != [half]
    long = F(1, 10) + F(5, 10**14)  # 13 digits would be 10⁻¹³ away, a part in 10¹²
    assert _rounder_numbers_near(F(1, 11), long) == [F(1, 10) + F(5, 10**14)]
    big = F(10**8) / (1 + 3 * PRECISION)
    assert _rounder_numbers_near(big / 2, big) == [F(10**8)]


def test_a_response_s_renyi_divergence_is_the_sum_over_its_answers() -> None:
    cases = [
        (F(epsilon), choices, order)
        for epsilon in ("0.01", "1", "2.5")
        for choices in (2, 3, 50, 10**6)
        for order in (1.0, 1.25, 2.0, 7.0, 11.0)
    ]
    cases += [(F("0.01"), choices, 3012.0) for choices in (2, 3, 10**6)]
    cases += (
        [(F(31), 2, 31.0)]
        + [(F(31), choices, 2.0) for choices in (2, 3, 10**6, 10**14)]
        + [(F(20), 10**9, 3.0), (F(40), 2, 3.0)]
    )
    for epsilon, choices, order in cases:
        growth = MP.exp(mp(epsilon))
        total, alpha = growth + choices - 1, mp(order)
        if order == 1:
            value = (growth - 1) / total * mp(epsilon)
        else:
            power_sum = growth**alpha + growth ** (1 - alpha) + choices - 2
            value = MP.log(power_sum / total) / (alpha - 1)
        computed = ResponseLoss(epsilon, choices).renyi(order)
        assert abs(computed - value) <= value * MP.mpf("1.2e-15"), (epsilon, choices, order)


def test_a_number_is_read_by_its_own_kind() -> None:
    class LoudFloat(float):
        def __str__(self) -> str:
            return "7"

    readings: list[tuple[object, Fraction | None]] = [
        (F(1, 3), F(1, 3)),
        (True, None),
        (Decimal("0.1"), F(1, 10)),
        ("1/3", F(1, 3)),
        (10**1500, F(10**1500)),
        (np.int64(3), F(3)),
        (0.1, F(1, 10)),
        (LoudFloat("0.1"), F(1, 10)),
        (np.float32(0.1), F(1, 10)),
        (np.array(5), None),
        (math.nan, None),
        (None, None),
    ]
    for value, meaning in readings:
        assert _parse_finite_number(value) == meaning, value


def test_whole_numbers_begin_where_they_may() -> None:
    for value in (3, "3", 3.0, F(3), 2**64, 2**64 + 1, 10**300):
        assert exact_integer(value, "k", at_least=3) == int(value)
    for value in (2, -1, "2", F(7, 2), 3.5, "three", None, True):
        assert_refused(lambda value=value: exact_integer(value, "k", at_least=3), "a whole number ≥ 3")
    assert_refused(lambda: exact_integer(10**301, "k", at_least=3), "a whole number from 3 to 1e300")


def test_the_adaptive_line_is_the_theorem_in_forty_digits() -> None:
    loud = sf.Curve.gaussian(1)
    ((epsilon,), _) = _adaptive_epsilons_and_exceptions([(loud, 3)], F(1, 100), F(2), F(1), [1])
    assert epsilon == pytest.approx(3 + math.log(100), rel=1e-11)
    quiet, leaky, laplace = sf.Curve.gaussian(10**9), sf.Curve.approximate(F(1, 10**9), F(1, 3 * 10**6)), LAPLACE
    for k in range(1, 25):
        delta, order, margin = F(k, 3 * 10**6), 1 + F(7 * k, 3), F(k, 7)
        releases = [(quiet, 1), (leaky, k), (laplace, 2)]
        line, exceptions = _adaptive_epsilons_and_exceptions(releases, delta, order, margin, [1, 2, 3])
        tail = -MP.log(mp(delta)) / mp(order - 1)
        failed = mp(F(k, 3 * 10**6))
        exact_exceptions = mp(delta) + failed / (1 - MP.exp(-mp(margin)))
        assert exceptions[0] == float(delta)
        assert exceptions[1] == exceptions[2]
        assert 0 <= exceptions[1] - exact_exceptions <= exact_exceptions * 1e-11
        failing = mp(margin) - k * MP.log(1 - 1 / MP.mpf(3 * 10**6))
        least = (tail, tail + failing, tail + failing)
        # beside the tail, no more than the divergences: 5·10⁻¹⁹·α, k·10⁻⁹, and twice the Laplace's
        added = (1e-17, 1e-17 + k * 1e-9, 1e-17 + k * 1e-9 + 2 * laplace.renyi(order))
        for epsilon, low, more in zip(line, least, added, strict=True):
            assert low <= epsilon <= (low + more) * (1 + 1e-11)


def test_failures_may_add_to_delta_exactly_and_no_further() -> None:
    third = sf.Curve.approximate(1, F(1, 3 * 10**6))
    meter = odometer([third, (third, 2), third], "1e-6")
    assert meter.steps == (1, 2, 3)
    assert meter.adaptive[0] < meter.adaptive[1] < math.inf == meter.adaptive[2]
    assert odometer([sf.Curve.approximate(1, F(1, 2))], "0.9").exceptions == (1.0,)
    for k in range(1, 40):  # the sums in floats are as often below as above the exact ones
        ((_,), (share,)) = _adaptive_epsilons_and_exceptions(
            [(sf.Curve.approximate(1, F(1, 10**12)), k)], F(k, 10**6), F(2), F(k, 9), [1]
        )
        assert share >= mp(F(k, 10**6)) + mp(F(k, 10**12)) / (1 - MP.exp(-mp(F(k, 9))))
    total_loss = sf.Curve.pair([1, 0], [0, 1])
    assert odometer([total_loss], "0.9").adaptive == (math.inf,)
    assert odometer([sf.Curve.laplace(2), sf.Curve.gaussian(1)], "0.01", order=2).adaptive[0] == pytest.approx(0.5)


def concave_value(corners: list[tuple[Fraction, Fraction]], x: Fraction) -> Fraction:
    """The least concave function above the corners at x: the highest chord."""
    below = [c for c in corners if c[0] <= x]
    above = [c for c in corners if c[0] >= x]
    chords = ((a, b) for a in below for b in above)
    return max(a[1] if a[0] == b[0] else a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]) for a, b in chords)


def test_power_curves_compose_as_functions() -> None:
    """At 21 points, and with no corner to spare; verticals and flats are masses of one side."""
    curves = [
        pairs.roc_corners((F(1, 2), F(1, 3), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2))),
        pairs.roc_corners((F(1, 2), F(1, 2), F(0)), (F(1, 4), F(1, 2), F(1, 4))),
        pairs.roc_corners((F(1, 4), F(1, 2), F(1, 4)), (F(1, 2), F(1, 2), F(0))),
        pairs.roc_corners((F(1, 10), F(2, 5), F(1, 2), F(0)), (F(3, 5), F(3, 10), F(0), F(1, 10))),
    ]
    for outer in curves:
        for inner in curves:
            composed = pairs._compose_curves(outer, inner)
            assert composed == pairs.concave_hull(composed)
            assert (composed[0], composed[-1]) == ((F(0), F(0)), (F(1), F(1)))
            for x in (F(i, 20) for i in range(21)):
                value = concave_value(outer, concave_value(inner, x))
                assert concave_value(composed, x) == value
            slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(composed) if b[0] > a[0]]
            assert slopes == sorted(set(slopes), reverse=True)


def test_the_most_concentrated_change_fills_coordinates_one_by_one() -> None:
    assert sf.Sensitivity(4, 2, 5).coordinates == ((F(2), 2), (F(1), 1))
    assert sf.Sensitivity(4, 2, 6).coordinates == ((F(2), 3),)
    assert sf.Sensitivity(3, F(1, 2)).coordinates == ((F(1, 2), 3),)
    assert sf.Sensitivity(3, 2, 1).coordinates == ((F(1), 1),)
    assert sf.Sensitivity(3, 0).coordinates == ()


def test_sinhc_is_known_to_the_last_bits() -> None:
    for y in (1e-9, 0.03, 0.3, 0.99, 1.0, 1.0001, 1.4, 2.0, 5.0, -0.7, -3.0):
        value = MP.sinh(mp(y)) / mp(y) - 1
        assert abs(sinhc_minus_one(y) - value) <= value * MP.mpf(2) ** -50
    assert sinhc_minus_one(0.0) == 0.0


def test_a_failure_adds_its_logarithm_to_the_largest_loss_and_is_rounded_up() -> None:
    for k in range(1, 40):
        top, failure = F(k, 3), F(k / 41.0)
        bound = mp(top) - MP.log(1 - mp(failure))
        got = mp(_max_divergence_outside_failure(top, failure))
        assert bound <= got <= bound + MP.mpf("1e-13")
    assert _max_divergence_outside_failure(F(5), F(0)) == 5


def test_a_loss_that_is_its_reverse_is_composed_once() -> None:
    symmetric, lopsided = ResponseLoss(F(1)), sf.Curve.pair(["0.9", "0.1"], ["0.5", "0.5"]).parts[0][0]
    forward = ((symmetric, 2), (lopsided, 3))
    assert shape.charged_directions(((symmetric, 2),), Neighbours.ADD_REMOVE) == (((symmetric, 2),),)
    both = (forward, ((symmetric, 2), (lopsided.reversed(), 3)))
    assert shape.charged_directions(forward, Neighbours.ADD_REMOVE) == both
    worst = ((symmetric.symmetrised(), 2), (lopsided.symmetrised(), 3))
    assert shape.charged_directions(forward, Neighbours.REPLACE) == (worst,)


class TwoSided(ResponseLoss):
    """A loss that other losses stand for in compositions: some bound it from above, some from below."""

    @property
    def factors(self) -> tuple[tuple[ResponseLoss, int], ...]:
        return ((ResponseLoss(self.epsilon, 2, self.reveal), 3),)

    @property
    def dominated_factors(self) -> tuple[tuple[ResponseLoss, int], ...]:
        return ((ResponseLoss(self.epsilon / 2, 2, self.reveal), 5),)


def test_what_bounds_a_composition_from_below_stands_for_each_part() -> None:
    two_sided, plain = TwoSided(F(1)), LaplaceLoss(F(1, 7))

    def below(*parts: tuple[Loss, int]) -> list[dict[LossPair, int]] | None:
        directions = sf.Curve(parts)._dominated_directions
        return None if directions is None else [dict(side) for side in directions]

    assert below((two_sided, 1)) is below((plain, 2)) is below((plain, 2), (ResponseLoss(F(2)), 1)) is None
    assert below((two_sided, 1), (TwoSided(F(3)), 1)) == [{ResponseLoss(F(1, 2)): 5, ResponseLoss(F(3, 2)): 5}]
    assert below((two_sided, 7)) == [{ResponseLoss(F(1, 2)): 35}]
    assert below((two_sided, 1), (plain, 11)) == [{ResponseLoss(F(1, 2)): 5, plain: 11}]
    assert below((ThreeFold(F(1)), 2), (two_sided, 1)) == [{ResponseLoss(F(1)): 6, ResponseLoss(F(1, 2)): 5}]


class ThreeFold(ResponseLoss):
    @property
    def factors(self) -> tuple[tuple[ResponseLoss, int], ...]:
        return ((ResponseLoss(self.epsilon), 3),)


def test_chernoff_s_bound_is_above_its_exact_value_by_rounding_alone() -> None:
    gaussian = Moments.from_pairs([(GaussianLoss(F(1, 3)), 1)])
    tiny = Moments.from_pairs([(GaussianLoss(F(1, 10**30)), 1)])
    cases = [(gaussian, F(1, 3), k / 7, 0.0) for k in range(1, 40)]
    cases += [(gaussian, F(1, 3), k / 7, k * 0.3) for k in range(1, 40)]
    cases += [(tiny, F(1, 10**30), 1e-3 * k, 1e9 / 7 * k) for k in range(1, 40)]
    cases += [(tiny, F(1, 10**30), 1e9 / 7 * k, 1e-3 * k) for k in range(1, 40)]
    for moments, mu_squared, c, epsilon in cases:
        z = mp(c)
        value = mp(mu_squared) / 2 * z * (z + 1) - z * mp(epsilon) + z * MP.log(z) - (z + 1) * MP.log(z + 1)
        computed = _log_chernoff_delta(moments, c, epsilon)
        size = 20 + z + mp(mu_squared) * z * z + z * mp(epsilon)
        assert 0 <= computed - value <= size * MP.mpf("2e-13"), (c, epsilon)


def test_the_profile_of_discrete_laplace_noise_is_the_sum_over_outcomes() -> None:
    for scale, shift in (("2.5", 1), ("0.4", 3), ("10", 7), ("3", 2), ("0.02", 1)):
        outcomes = exact.discrete_laplace(scale, shift)
        loss = LaplaceLoss(shift / F(scale), 1 / F(scale))
        for share in ("0", "0.1", "0.37", "0.5", "0.8", "0.999", "1", "1.01"):
            epsilon = float(F(share) * loss.epsilon)
            value, error = loss.delta_and_error(epsilon)
            true = exact.hockey_stick(outcomes, F(epsilon))
            assert abs(value - true) <= error <= 1e-14 * float(true + loss.epsilon + loss.step)
            assert error <= 2.0**-49
    third = LaplaceLoss(F(1, 3))  # above its nearest float
    assert sum(third.delta_and_error(1 / 3)) >= 1 - MP.exp((mp(1 / 3) - MP.mpf(1) / 3) / 2) > 0
    for epsilon in ("0.001", "1", "30"):
        loss = LaplaceLoss(F(epsilon))
        for share in ("0", "0.1", "0.5", "0.999999", "1"):
            at = float(F(share) * loss.epsilon)
            value, error = loss.delta_and_error(at)
            true = 1 - MP.exp((mp(at) - mp(loss.epsilon)) / 2)
            assert abs(value - true) <= error <= 2.0**-49 * (value + float(loss.epsilon) * (1 - value)) * (1 + 1e-12)
        assert loss.delta_and_error(float(loss.epsilon) * (1 + 2.0**-40)) == (0.0, 0.0)


def test_the_rounding_stated_for_a_large_epsilon_holds() -> None:
    """Of all rays {noise ≤ t} the best, in 40 digits; ε and the largest loss are thousands, and δ is about a half."""
    for scale, shift in ((F(45, 22), 52147), (F(43, 28), 75564), (F(1, 997), 1), (F(3, 997), 7), (F(1875, 22), 92311)):
        loss, q = LaplaceLoss(shift / scale, 1 / scale), MP.exp(-1 / mp(scale))
        for below in (0.003, 0.7, 1.1, 2.3, 9.7):
            epsilon = float(loss.epsilon) - below
            nearest = int((shift - F(epsilon) * scale) / 2)
            rays = [
                1 - q ** (t + 1) / (1 + q) - MP.exp(mp(epsilon) + (t - shift) / mp(scale)) / (1 + q)
                for t in range(max(0, nearest - 2), min(shift, nearest + 3))
            ]
            value, error = loss.delta_and_error(epsilon)
            assert abs(value - max(rays)) <= error / 4


def gaussian_delta(mu: float, epsilon: float) -> float:
    law = NormalDist()
    return law.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * law.cdf(-mu / 2 - epsilon / mu)


def test_the_reading_is_the_least_bound_of_the_loss() -> None:
    for mu, share in ((F(1, 4), F(1, 10**5)), (F(2), F(1, 2))):
        grid = ((mu * i / 200, gaussian_delta(float(mu), float(mu * i / 200))) for i in range(1501))
        least = min(float(epsilon) - math.log1p(-delta / float(share)) for epsilon, delta in grid if delta < share)
        assert least * (1 - 1e-5) <= _log_odds_bound(sf.Curve.gaussian(1 / mu), share) <= least * (1 + 1e-3)
    mixed, share = sf.compose([sf.Curve.gaussian(1), sf.Curve.approximate("0.5", F(1, 100))]), F(1, 20)
    deltas = ((i / 8, mixed.delta(F(i, 8))) for i in range(8, 48))
    least = min(epsilon - math.log1p(-delta / float(share)) for epsilon, delta in deltas if delta < share)
    assert least * 0.99 <= _log_odds_bound(mixed, share) <= least * (1 + 1e-6)
    for tiny in (F(1, 10**300), F(2, 10**300)):
        assert _log_odds_bound(sf.Curve.gaussian(1), tiny) == math.inf
    pure = sf.Curve.laplace(2)
    assert _log_odds_bound(pure, F(0)) == pure.epsilon(0)
    assert _log_odds_bound(pure, F(1, 10**9)) == pure.epsilon(0)
    assert _log_odds_bound(pure, F(9, 10)) < 0.4
    leaky = sf.Curve.approximate(1, F(1, 100))
    assert _log_odds_bound(leaky, F(1, 100)) == _log_odds_bound(None, F(1, 2)) == math.inf
    assert _log_odds_bound(leaky, F(1, 50)) == pytest.approx(1 + math.log(2), rel=1e-9)
    for k in range(20, 40):
        share = F(k, 1700)
        assert _log_odds_bound(leaky, share) >= 1 - MP.log(1 - 1 / (100 * mp(share)))


def odds(probability: float | None) -> float:
    assert probability is not None
    return probability / (1 - probability)


def test_a_reading_moves_odds_by_what_each_statement_is_about() -> None:
    guarantee = sf.reading(sf.Guarantee(1), "0.2", false_positive_rate="0.1")
    assert (guarantee.epsilon, guarantee.delta) == (pytest.approx(1), 0)
    assert odds(guarantee.membership) == pytest.approx(math.e / 4)
    assert odds(guarantee.attribute) == pytest.approx(math.e**2 / 4)
    assert guarantee.true_positive_rate == pytest.approx(0.1 * math.e)
    replaced = sf.reading(sf.Guarantee(1), "0.2", neighbours="replace")
    assert replaced.membership is None
    assert odds(replaced.attribute) == pytest.approx(math.e / 4)
    bare = sf.reading(sf.Guarantee(1, "1e-6"), "0.2")
    exchange = 1e-6 * (1 + math.e)
    assert bare.delta == pytest.approx(10 * exchange)
    assert bare.epsilon == pytest.approx(1 - math.log1p(-1e-6 / bare.delta), rel=1e-6)
    assert odds(bare.attribute) == pytest.approx(math.exp(2 - math.log1p(-0.1)) / 4, rel=1e-6)
    stated = sf.reading(sf.Guarantee(1, "1e-6"), "0.2", delta="1e-4")
    assert stated.delta == 1e-4
    assert stated.epsilon == pytest.approx(1 - math.log1p(-0.01), rel=1e-6)
    assert sf.reading(LAPLACE).delta == 0
    assert_refused(lambda: sf.reading(sf.Guarantee(1, "1e-6"), delta="1e-6"), "no finite ε")
    assert_refused(lambda: sf.reading(sf.Curve.gaussian(1)), "no finite ε")
    assert sf.reading(sf.Guarantee(40), false_positive_rate="0.5").true_positive_rate == 1.0


def test_a_test_s_power_is_rounded_up() -> None:
    curve = sf.Curve.laplace(1)
    for k in range(1, 7):
        rate = F(k, 31)
        read = sf.reading(curve, false_positive_rate=rate)
        assert F(read.true_positive_rate) >= 1 - F(curve.tradeoff(rate))


def test_a_range_of_epsilon_holds_the_failure_apart() -> None:
    leaky = ResponseLoss(F(1), 2, F(1, 10))
    assert shape.epsilon_range(((leaky, 1),), F(1, 100)) == (math.inf, math.inf)
    assert shape.epsilon_range(((leaky, 2),), F(19, 100)) == (2.0, 2.0)
    assert shape.epsilon_range(((leaky, 1),), F(1, 10)) == (1.0, 1.0)
    low, high = shape.epsilon_range(((ResponseLoss(F(1, 7), 2, F(1, 10)), 1),), F(1, 10))
    assert F(str(low)) < F(1, 7) < F(str(high)), "no float means a seventh"
    assert high == math.nextafter(low, 1)
    assert shape.epsilon_range((), F(0)) == (0.0, 0.0)
    only_failure = ResponseLoss(F(0), 2, F(1, 1000))
    assert shape.epsilon_range(((only_failure, 3),), F(1, 100)) == (0.0, 0.0)
    many = ((only_failure, 100),)
    low, high = shape.failure_range(many)
    assert low < high
    assert shape.epsilon_range(many, low) == (0.0, math.inf)
    assert shape.epsilon_range(many, high) == (0.0, 0.0)
    losses = ((ResponseLoss(F(1), 2, F(1, 1000)), 100),)
    low, high = shape.failure_range(losses)
    assert shape.epsilon_range(losses, low) == (100.0, math.inf)
    between = shape.epsilon_range(losses, (low + high) / 2)
    assert 0 <= between[0] <= 100
    assert between[1] == math.inf
    unbounded = ((ResponseLoss(F(1), 2, F(1, 1000)), 100), (GaussianLoss(F(1)), 1))
    assert shape.epsilon_range(unbounded, low) == (math.inf, math.inf)


def test_a_range_of_epsilon_holds_the_true_one() -> None:
    low, high = shape.epsilon_range(((GaussianLoss(F(1)), 1),), F(1, 1000))
    assert gaussian_delta(1, low - 1e-12) > 0.001 > gaussian_delta(1, high + 1e-12)
    assert 0 < high - low < 1e-11
    pair = exact.together([(exact.response("0.5"), 4)])
    leaky = ((ResponseLoss(F(1, 2), 2, F(1, 1000)), 4),)
    kept = F(999, 1000) ** 4
    low, high = shape.epsilon_range(leaky, F(1, 20))
    spare = (F(1, 20) - (1 - kept)) / kept
    for epsilon, sign in ((low, -1), (high, 1)):
        assert sign * (mp(spare) - MP.mpf(str(exact.hockey_stick(pair, F(epsilon))))) >= -1e-16
    assert 0 <= high - low < 1e-9


def test_golden_section_looks_inside_the_interval_and_finds_the_peak() -> None:
    for end, peak in ((0.3, 0.11), (1.0, 0.7), (50.0, 31.4), (2.0, 0.0), (2.0, 2.0)):
        seen: list[float] = []

        def parabola(x: float, peak: float = peak, seen: list[float] = seen) -> float:
            seen.append(x)
            return 3.0 - (x - peak) ** 2

        best = shape._golden_maximum(parabola, end)
        assert 0 <= min(seen) <= max(seen) <= end
        assert best == max(3.0 - (x - peak) ** 2 for x in seen)
        assert 3.0 - best <= (2e-7 * max(1.0, end)) ** 2
        # each step keeps (√5 − 1)/2 of the interval until it is below a part in ten million
        steps = math.ceil(math.log(1e-7 * max(1.0, end) / end) / math.log((math.sqrt(5) - 1) / 2))
        assert len(seen) == 4 + steps


def test_quantiles_of_a_loss_are_where_its_tail_falls() -> None:
    loss = sf.Curve.gaussian(1).loss()
    for probability in ("0.01", "0.3", "0.5", "0.9", "0.999"):
        quantile = loss.quantile(probability)
        spare = 1e-8 * max(1.0, abs(quantile))
        assert loss.tail(quantile) <= 1 - float(probability) < loss.tail(quantile - spare)
    leaky = sf.Curve.approximate(1, F(1, 10)).loss()
    assert leaky.quantile("0.9") == leaky.quantile("0.95") == math.inf
    assert leaky.quantile("0.89") == pytest.approx(1.0, abs=1e-3)
    sharp = sf.Curve.pair(["0.999", "0.001"], ["0.001", "0.999"]).loss()
    assert sharp.quantile("0.5") == pytest.approx(math.log(999), abs=1e-3)
    assert sharp.quantile("0.0005") == pytest.approx(-math.log(999), abs=1e-3)


def test_a_tangent_pair_is_below_and_near_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a lattice of 64 steps: the bound holds on any, and is near on most."""
    for name, value in (("_STEPS", 64), ("_LEAST_STEPS", 16), ("_RESOLUTION", 32)):
        monkeypatch.setattr(subsampled_losses, name, value)
    sampled = SubsampledLoss(((LaplaceLoss(F(13, 11)), 1),), F(1, 10))
    for loss in (sampled, sampled.reversed()):
        tangent = loss.dominated_tangent_pair
        for epsilon in (-0.15, -0.05, 0.0, 0.02, 0.08, 0.15):
            alpha = math.exp(epsilon)
            atoms = zip(tangent.values, tangent.masses, strict=True)
            below = math.fsum(max(0.0, mass * (1 - alpha * math.exp(-value))) for value, mass in atoms)
            if epsilon >= 0:
                high = loss.delta_range(epsilon)[1]
            else:
                high = 1 - alpha + alpha * loss.reversed().delta_range(-epsilon)[1]
            assert high * 0.98 - 1e-4 <= below <= high + 1e-15
    subsampled_losses._dominating_lattice_pair.cache_clear()
