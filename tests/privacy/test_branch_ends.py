"""Branches and searches of the accounting at their ends: exactly there, one below and one above."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.privacy import amounts, calibration, curve, losses, shape, theorems
from sfumato.privacy.budget import Budget, Cost, _search_largest_pure
from sfumato.privacy.calibration import _BracketingSearch, least_parameter_by_shortfall
from sfumato.privacy.losses import BoundedRangeLoss, PairLoss, ResponseLoss
from sfumato.privacy.noise_losses import GaussianLoss, LaplaceLoss
from sfumato.privacy.shape import PrivacyLoss

F = Fraction
MP = mpmath.MPContext()
MP.dps = 50


def mp(value: Fraction | float) -> Any:
    return MP.mpf(F(value).numerator) / F(value).denominator


# ── amounts and costs ──────────────────────────────────────────────────────────────────────────


def test_a_fraction_is_kept_up_to_its_longest_denominator() -> None:
    unit = 10**30
    for denominator in (10**9, 10**9 - 1, 3):
        assert amounts.charge_amount(F(1, denominator)) == F(unit, denominator)
    for denominator in (10**9 + 1, 10**9 + 7):
        assert amounts.charge_amount(F(1, denominator)) == math.ceil(F(unit, denominator))
    longest, longer = F(1, unit), F(1, unit + 1)  # of 10⁶⁰ in ε, and a little more
    for rounded in (amounts.round_up_if_long, amounts.round_down_if_long):
        assert rounded(longest) == longest
        assert rounded(F(7)) == 7
        assert type(rounded(F(7))) is int
    assert amounts.round_up_if_long(longer) == 1
    assert amounts.round_down_if_long(longer) == 0
    assert amounts.format_amount(longest) == f"1/{10**60}"
    assert amounts.parse_amount(f"1/{10**60}") == longest
    assert_refused(lambda: amounts.format_amount(longer), "at most 10^60")
    assert_refused(lambda: amounts.parse_amount(f"1/{10**60 + 1}"), "a whole number")


@pytest.mark.parametrize("name", ["pure", "renyi", "failure"])
def test_a_cost_is_made_of_amounts_of_zero_or_more(name: str) -> None:
    zero = {"pure": 0, "renyi": 0, "failure": 0}
    assert Cost(**zero).is_zero
    for wrong in (-1, True, 1.0, "x"):
        rule = "a whole number ≥ 0" if name == "renyi" else "an amount ≥ 0"
        assert_refused(lambda w=wrong: Cost(**{**zero, name: w}), rule)
    if name == "renyi":
        assert_refused(lambda: Cost(0, F(1, 3), 0))  # type: ignore[arg-type]
        return
    assert getattr(Cost(**{**zero, name: F(1, 3)}), name) == F(1, 3)
    assert type(getattr(Cost(**{**zero, name: F(4)}), name)) is int
    assert_refused(lambda: Cost(**{**zero, name: F(-1, 3)}), "an amount ≥ 0")


def test_costs_are_rounded_and_lowered_part_by_part() -> None:
    third = F(1, 3)
    assert Cost(1 + third, 5, 2 + third).in_whole_units() == Cost(2, 5, 3)
    assert Cost(None, None, third).in_whole_units() == Cost(None, None, 1)
    for cost, roundings, lowered in (
        (Cost(10, 7, 5), 3, Cost(7, 7, 2)),
        (Cost(2, 7, 1), 3, Cost(0, 7, 0)),
        (Cost(None, None, 5), 1, Cost(None, None, 4)),
    ):
        assert cost.minus_roundings(roundings) == lowered
    assert not Cost(3, 7, 5).is_rounded_sum(Cost(1, 1, 2), Cost(2, 6, 3))
    assert Cost(4, 7, 5).is_rounded_sum(Cost(1, 1, 2), Cost(2, 6, 3))
    assert Cost(3, 7, 6).is_rounded_sum(Cost(1, 1, 2), Cost(2, 6, 3))
    for first, second in ((Cost(None, 1, 2), Cost(2, 6, 3)), (Cost(1, 1, 2), Cost(None, 6, 3))):
        assert not Cost(None, 7, 5).is_rounded_sum(first, second)
        assert Cost(None, 7, 6).is_rounded_sum(first, second)


def test_the_largest_payment_is_all_that_is_left_or_whole_units(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Budget(1).charge(sf.Curve.pure("1/3"))
    assert account._largest_within_pure_currency() == F(2, 3)
    long = F(1, 3) + F(1, 10**9 - 2)  # what is left has a denominator that is charged in whole units
    left = 1 - long
    account = Budget(1).charge(sf.Curve.pure("1/3")).charge(sf.Curve.pure(F(1, 10**9 - 2)))
    units = math.floor(left * 10**30)
    assert account._largest_within_pure_currency() == F(units, 10**30)
    asked: list[Fraction] = []
    plain = Budget.affords

    def refusing(self: Budget, curve: sf.Curve) -> bool:
        asked.append(curve.max_divergence or F(0))
        return len(asked) > 1 and plain(self, curve)

    monkeypatch.setattr(Budget, "affords", refusing)
    assert account._largest_within_pure_currency() == F(units - 1, 10**30)
    assert asked == [F(units, 10**30), F(units - 1, 10**30)]


def test_the_largest_payment_in_divergence_is_found_to_a_part_in_a_billion() -> None:
    for epsilon in (20, 300):
        account = Budget(epsilon, "1e-6").charge(sf.Gaussian(2).curve())
        found = _search_largest_pure(account, account.allowances)
        assert account.affords(sf.Curve.pure(found))
        assert not account.affords(sf.Curve.pure(found + F(1, 10**9)))


def test_the_largest_epsilon_is_read_at_the_account_s_delta_where_noise_is_not_pure() -> None:
    account = Budget(1, "1e-6")
    gaussian = account.largest(sf.Gaussian)
    assert gaussian == account.largest(sf.Gaussian, delta="1e-6") < math.inf
    assert 0.9 < gaussian <= 1.1
    assert account.largest(sf.Laplace) == account.largest(sf.Laplace, delta=0) >= 1
    assert account.largest(sf.Laplace, sensitivity=3) == pytest.approx(account.largest(sf.Laplace), rel=1e-9)
    assert Budget(1).largest(sf.Gaussian) == 0.0


# ── curves ─────────────────────────────────────────────────────────────────────────────────────


def test_lists_of_parts_and_of_curves_are_pairs_or_refused() -> None:
    loss, laplace = ResponseLoss(F(1)), sf.Curve.laplace(1)
    assert sf.Curve([(loss, 2)]).parts == sf.Curve([[loss, 2]]).parts == ((loss, 2),)  # type: ignore[list-item]
    for wrong in ([(loss,)], [(loss, 1, 1)], [loss], ["ab"], [{loss: 1, "b": 2}], [("a", 1)], {loss: 1}, "ab", 5):
        assert_refused(lambda w=wrong: sf.Curve(w), "a list")
    assert sf.compose([laplace, (laplace, 2), [laplace, 1]]).parts == ((laplace.parts[0][0], 4),)  # type: ignore[list-item]
    for wrong in ([(laplace,)], [(laplace, 1, 1)], [loss], ["ab"], [("a", 1)], {laplace: 1}, "ab", laplace):
        assert_refused(lambda w=wrong: sf.compose(w), "a list")


def test_a_sample_has_a_size_and_a_number_of_units() -> None:
    replace = sf.Curve.pure(1, "replace")
    assert replace.subsampled(size=3, of=3) is replace
    assert replace.subsampled(size=1, of=2) != replace
    for size, of, rule in ((1, 0, "≥ 1"), (0, 5, "≥ 1"), (0, 0, "≥ 1"), (4, 3, "at most 3")):
        refused = assert_refused(lambda s=size, o=of: replace.subsampled(size=s, of=o), rule)
        assert refused.parameter == ("of" if (size, of) == (1, 0) else "size")


def test_a_charged_divergence_is_raised_by_its_margins() -> None:
    """A part in 2⁴¹, and 2⁻⁴⁵/(α − 1) where the logarithm of a sum is divided by α − 1."""
    for order in (F(5, 4), F(2), F(31)):
        for loss, more in ((ResponseLoss(F(1)), curve.ROUNDED_UP / (order - 1)), (GaussianLoss(F(1, 3)), 0)):
            plain = F(loss.renyi(float(order)))
            charged = sf.Curve([(loss, 1)]).renyi_above(order)
            added = charged - plain * (1 + F(1, 2**41))
            assert abs(added - F(more)) <= F(1, 2**51) * plain
    assert sf.Curve([(GaussianLoss(F(10) ** 299), 1)]).renyi_above(F(10**12)) == 10**300


def test_max_divergence_is_unbounded_where_some_direction_is() -> None:
    one_sided = sf.Curve.pair(["0.5", "0.5"], [1, 0])
    assert one_sided.max_divergence is not None
    assert sf.Curve.gaussian(1).max_divergence is None
    lopsided = sf.Curve.pair(["0.9", "0.1"], ["0.5", "0.5"])
    forward, backward = MP.log(MP.mpf(18) / 10), MP.log(5)
    assert float(lopsided.max_divergence) == pytest.approx(float(max(forward, backward)), rel=1e-12, abs=0)  # type: ignore[arg-type]


# ── calibration ────────────────────────────────────────────────────────────────────────────────


def looked_at(limit: Fraction, shortfall: Callable[[Fraction], float]) -> list[Fraction]:
    looked: list[Fraction] = []

    def noted(size: Fraction) -> float:
        looked.append(size)
        return shortfall(size)

    found = least_parameter_by_shortfall(noted, "a goal")
    assert limit <= found <= limit * (1 + F(1, 2**46))
    return looked


def test_a_bracket_is_found_by_doubling_and_halved() -> None:
    """Where there is no chord, by bisection from half the power of two that is enough, once for each parameter."""
    for limit in (F(3, 10), F(3), F(1), F(100, 3)):
        looked = looked_at(limit, lambda size, limit=limit: -math.inf if size >= limit else math.inf)
        power = F(2) ** math.ceil(math.log2(limit))
        doublings = [F(1)]
        while doublings[-1] != (power / 2 if limit <= 1 else power):
            doublings.append(doublings[-1] * (F(1, 2) if limit <= 1 else 2))
        low, high, middles = power / 2, power, []
        while high - low > high / 2**46:
            middles.append((low + high) / 2)
            low, high = (low, middles[-1]) if middles[-1] >= limit else (middles[-1], high)
        assert looked[: len(doublings) + len(middles)] == doublings + middles
        assert len(set(doublings + middles)) == len(doublings + middles)


@pytest.mark.parametrize("near", [0.0, 1e-3, 0.7, 5.0, 1e9])
def test_a_search_that_begins_elsewhere_finds_the_same(near: float) -> None:
    """Also where a mechanism takes no parameter above 1000."""

    def short(size: Fraction, limit: Fraction) -> float:
        if size > 1000:
            raise sf.InvalidParameter("size", size, "at most 1000")
        return float(limit - size)

    for limit in (F(1, 300), F(3, 10), F(7), F(100, 3)):
        found, expected = (
            least_parameter_by_shortfall(lambda size, limit=limit: short(size, limit), "a goal", near=start)
            for start in (near, 1.0)
        )
        assert found == expected


def test_a_shortfall_of_nothing_is_enough() -> None:
    for limit in (F(2), F(1, 4), F(3, 2)):
        found = least_parameter_by_shortfall(lambda size, limit=limit: 0.0 if size >= limit else 1.0, "a goal")
        assert limit <= found <= limit * (1 + F(1, 2**46))
    looked: list[Fraction] = []
    search = _BracketingSearch(lambda size: looked.append(size) or float(2 - size))  # type: ignore[func-returns-value]
    for size, enough in ((F(2), True), (F(1), False), (F(2), True), (F(3), True), (F(1), False), (F(1, 2), False)):
        assert search.is_enough(size) is enough
    assert looked == [2, 1]
    assert (search.least_checked_sufficient, search.last_shortfall) == (2, 1.0)


def test_a_round_number_is_returned_only_if_it_was_enough_itself() -> None:
    """Rounding may make a number fail between two that do not."""
    for missed in (F(3, 10), F(299999999999999, 10**15)):
        limit = F(3, 10) - F(1, 2**52)
        found = least_parameter_by_shortfall(
            lambda size, limit=limit, missed=missed: -1.0 if size >= limit and size != missed else 0.5, "a goal"
        )
        assert limit <= found <= limit * (1 + F(1, 2**44))
        assert found != missed


@pytest.mark.parametrize("precision", [F(1, 2), F(1, 8), F(1, 100)])
def test_a_search_ends_when_its_bracket_is_as_narrow_as_asked(precision: Fraction) -> None:
    """From half the power of two that is enough on, in halves: the roundest number of the last bracket."""
    for limit in (F(2, 3), F(5, 7), F(10, 3), F(1001, 1000)):
        found = least_parameter_by_shortfall(
            lambda size, limit=limit: -math.inf if size >= limit else math.inf, "a goal", precision
        )
        high = F(2) ** math.ceil(math.log2(limit))
        low = high / 2
        while high - low > high * precision:
            middle = (low + high) / 2
            low, high = (low, middle) if middle >= limit else (middle, high)
        candidates = (*calibration._rounder_numbers_near(low, high), high)
        assert found == next(candidate for candidate in candidates if candidate >= limit)


def test_the_ends_of_what_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_SMALLEST_PARAMETER", F(1, 8))
    monkeypatch.setattr(calibration, "_LARGEST_PARAMETER", F(8))

    def found(limit: Fraction) -> Fraction:
        return least_parameter_by_shortfall(lambda size: float(limit - size), "a goal")

    for limit in (F(1, 8), F(1, 15), F(16), F(9)):
        assert limit <= found(limit) <= limit * (1 + F(1, 2**46))
    assert_refused(lambda: found(F(1, 17)), "one that needs noise")
    assert_refused(lambda: found(F(17)), "one that some scale of this noise satisfies")


def test_what_makes_no_mechanism_is_refused() -> None:
    class Wrong:
        def curve(self, _: object = 1) -> object:
            return 5

    for make in (lambda _: Wrong(), lambda _: None, lambda _: 5, lambda: None, lambda a, b: None):  # noqa: ARG005
        assert_refused(lambda m=make: sf.calibrate(m, sf.Guarantee(1)), "takes one number and returns a mechanism")


# ── losses of compositions ─────────────────────────────────────────────────────────────────────


def test_a_tail_covers_the_rounding_of_its_chord(monkeypatch: pytest.MonkeyPatch) -> None:
    """δ(x) + (δ(x′) − δ(x))/(1 − e^{x′−x}), with 2⁻⁵⁰ more for the differences and of the whole."""
    loss = PrivacyLoss(((ResponseLoss(F(1)), 1),), ((ResponseLoss(F(1)), 1),))
    rng = np.random.default_rng(2)
    for _ in range(60):
        x = float(rng.uniform(-3, 3))
        low, high, before = sorted(rng.uniform(0, 1e-5, 3).tolist())
        spread = math.sqrt(2 * loss.mean)
        left = x - max(1e-4 * min(spread, 1e6), 1e-10 * abs(x), 1e-13)
        monkeypatch.setattr(
            PrivacyLoss,
            "_delta_range",
            lambda _, at, x=x, low=low, high=high, before=before: (low, high) if at == x else (before / 2, before),
        )
        more = MP.mpf(2) ** -50
        true = (mp(high) + (mp(before) - mp(low) + more) / -MP.expm1(mp(left) - mp(x))) * (1 + more)
        assert abs(mp(loss._tail(x)) / true - 1) <= MP.mpf(2) ** -51
        monkeypatch.setattr(PrivacyLoss, "_delta_range", lambda *_: (0.5, 0.25))  # a chord that rises counts as flat
        assert loss._tail(x) == 0.25 * (1 + 2.0**-50)
    monkeypatch.setattr(PrivacyLoss, "_delta_range", lambda _, at: (0.5, 0.5) if at == x else (0.9, 0.9))
    assert loss._tail(x) == 1.0


def test_a_chord_is_as_long_as_the_spread_and_the_place_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    for mu_squared, x, length in ((4, 0.5, 2e-4), (10**14, 0.5, 100.0), (4, 1e8, 0.01), (F(1, 10**20), 1e-9, 1e-13)):
        seen: list[float] = []
        loss = PrivacyLoss(((GaussianLoss(F(mu_squared)), 1),), ((GaussianLoss(F(mu_squared)), 1),))
        monkeypatch.setattr(PrivacyLoss, "_delta_range", lambda _, at, seen=seen: seen.append(at) or (0.1, 0.1))
        loss._tail(x)
        assert seen[0] == x
        assert seen[1] == x - length or abs((x - seen[1]) / length - 1) < 1e-7


def test_a_false_negative_bound_is_lowered_by_its_rounding() -> None:
    assert shape.best_false_negative_bound(lambda _: 0.25, 0.0, 0.25) == 0.5 - 2.0**-50
    assert shape.best_false_negative_bound(lambda _: 0.9, 0.0, 0.25) == 0.0


def test_a_quantile_is_found_to_a_part_in_a_billion(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = PrivacyLoss(((ResponseLoss(F(1)), 1),), ((ResponseLoss(F(1)), 1),))

    def quantile_of_atom(atom: float) -> float:
        looks = itertools.count(1)

        def tail(_: PrivacyLoss, at: float) -> float:
            assert next(looks) < 200, "the search halves floats that are neighbours"
            return 1.0 if at < atom else 0.0

        monkeypatch.setattr(PrivacyLoss, "_tail", tail)
        return loss.quantile("0.5")

    for step in (k * 2.0**-29 + 1e-10 for k in (3, 2**28, -(2**27) + 1)):
        assert step <= quantile_of_atom(step) <= step + 2.0**-30
    for scale in (2.0**20, 2.0**40):
        step = scale * (1 + 2.0**-29 + 1e-10)
        assert step <= quantile_of_atom(step) <= step * (1 + 1e-9)


def test_an_inverted_profile_counts_delta_s_own_rounding_for_and_against() -> None:
    tenth = F(1, 10)
    above, below = 0.1, math.nextafter(0.1, 0)
    assert F(below) < tenth < F(above)

    def level(value: float) -> tuple[float, float]:
        """Bound where a profile of this height until 1 passes a tenth."""
        return shape._invert_profile(lambda epsilon: (value if epsilon < 1 else 0.0, 0.0), tenth)

    up = math.nextafter(above, 1)
    last = math.nextafter(1.0, 0)
    assert level(math.nextafter(up, 1)) == (last, 1.0)
    assert level(up)[0] == 0.0  # one float above may be a tenth and its rounding
    assert level(above) == level(below) == (0.0, 1.0)
    assert level(math.nextafter(below, 0)) == (0.0, 0.0)


def test_rho_is_at_least_the_largest_loss_beside_the_last_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the last order s + 1 that is read, D∞/α is the bound: it counts where all others are smaller."""

    class Late(LaplaceLoss):
        """A divergence that is tiny at every order that is read, of a loss of at most 8."""

        def renyi(self, order: float) -> float:
            return 1.0 if order == 1.0 else 1e-9

    loss = Late(F(8))
    last = 2.0 ** math.ceil(math.log2(8.0))
    rho = shape.least_rho(loss)
    bound = max(F(8) / (1 + F(last)), F(0))
    assert bound <= rho <= bound * (1 + F(1, 2**39))
    monkeypatch.undo()


class Plain:
    """A pair's loss that says nothing of how it is computed, and counts how often it is asked."""

    def __init__(self, loss: Any) -> None:
        self.loss, self.pure_epsilon, self.orders = loss, loss.pure_epsilon, list[float]()

    def renyi(self, order: float) -> float:
        self.orders.append(order)
        return self.loss.renyi(order)


def test_rho_of_a_pair_is_raised_by_what_its_values_near_order_one_may_lose() -> None:
    for p, q in (((1, 3), (2, 2)), ((10**6, 1), (1, 1)), ((10**9 + 1, 10**9 - 1), (1, 1))):
        loss = PairLoss(*(tuple(F(mass, sum(masses)) for mass in masses) for masses in (p, q)))
        plain = Plain(loss)
        ratio = shape.least_rho(loss) / shape.least_rho(plain)  # type: ignore[arg-type]
        margin = F(1, 2**40) + F(1, 2**46) / F(max(1e-7, min(1.0, float(loss.pure_epsilon or 0))))
        assert abs(ratio - (1 + margin) / (1 + F(1, 2**40))) <= F(1, 2**51)


def test_the_search_for_rho_looks_no_further_than_a_part_in_a_billion() -> None:
    for loss, most in ((ResponseLoss(F(1)), 30), (ResponseLoss(F(5), 40), 30), (LaplaceLoss(F(1, 10)), 230)):
        plain = Plain(loss)
        rho = shape.least_rho(plain)  # type: ignore[arg-type]
        best = max(loss.renyi(order) / order for order in plain.orders)
        assert best <= rho
        assert len(plain.orders) <= most
        assert len(set(plain.orders[1:])) == len(plain.orders) - 1
        assert min(plain.orders[1:]) == 1 + 1e-7


def test_a_range_of_delta_adds_the_failure_outwards(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ((ResponseLoss(F(9), 2, F(1, 3)), 1), (GaussianLoss(F(1)), 2))
    monkeypatch.setattr(shape, "_inverted_delta_range", lambda *_: (0.25, 0.5))
    low, high = shape.delta_range(parts, F(1))
    third = 1 / 3  # below its fraction
    assert F(third) < F(1, 3)
    assert low == math.nextafter(0.25 + third, 0)
    assert high == math.nextafter(0.5 + math.nextafter(third, 1), 1)
    monkeypatch.setattr(shape, "_inverted_delta_range", lambda *_: (0.9, 0.95))
    assert shape.delta_range(parts, F(1)) == (1.0, 1.0)


def test_no_chord_is_higher_than_the_line_and_none_is_missed() -> None:
    """On a grid of intervals: the exact maximum of a line over s(s + 1), by its stationary point in 50 digits."""
    for a, b, rise, low in itertools.product((0.25, 1.0, 3.0), (1.5, 2.0, 40.0), (0.5, 3.0, 100.0), (0.01, 0.5, 2.0)):
        end = a * b
        at_a, at_b = low * a, low * a + rise * (end - a)
        slope = (mp(at_b) - mp(at_a)) / (mp(end) - mp(a))
        intercept = mp(at_a) - slope * mp(a)
        if intercept > 0:
            continue
        points = [mp(a), mp(end)]
        if intercept < 0:
            points.append((-intercept + MP.sqrt(intercept**2 - intercept * slope)) / slope)
        best = max((intercept + slope * s) / (s * (s + 1)) for s in points if mp(a) <= s <= mp(end))
        assert abs(shape._chord_maximum(a, end, at_a, at_b) / best - 1) <= 1e-14


def test_failures_beyond_sixty_four_are_enclosed_to_a_part_in_two_to_the_fortieth() -> None:
    for count in (64, 65, 1000):
        low, high = shape.failure_range(((ResponseLoss(F(1), 2, F(1, 1000)), count),))
        true = 1 - F(999, 1000) ** count
        if count == 64:
            assert low == high == true
        else:
            assert low < true < high
            assert abs((true - low) / true - F(1, 2**40)) < F(1, 2**44)
            assert abs((high - true) / true - F(1, 2**40)) < F(1, 2**44)


def test_a_range_s_profile_states_its_rounding_up_to_its_largest_loss_and_no_further() -> None:
    """Of (1 − e^{(ε−η)/2})²/(1 − e^{−η}): the gap is known to a rounding of η, and each factor to one of itself."""
    rounding = losses.ROUNDING
    for eta in (0.25, 2.0, 40.0):
        loss, end = BoundedRangeLoss(F(eta)), eta * (1 + rounding)
        assert loss.delta_and_error(math.nextafter(end, math.inf)) == (0.0, 0.0)
        for epsilon in (0.0, 0.3 * eta, 0.999999 * eta, eta, end):
            gap = -MP.expm1(min(MP.mpf(0), mp(epsilon) - mp(eta)) / 2)
            width, above = -MP.expm1(-mp(eta)), gap + rounding * mp(eta)
            error = rounding * above * (above + mp(eta) * (1 - gap)) / width
            found = loss.delta_and_error(epsilon)
            assert found == pytest.approx((float(gap**2 / width), float(error)), rel=1e-13, abs=0)
            assert found[1] > 0
        response = ResponseLoss(F(eta), 5, F(1, 8))
        for epsilon in (0.0, 0.3 * eta, eta, 2 * eta):
            gap = -MP.expm1(min(MP.mpf(0), mp(epsilon) - mp(eta)))
            value = MP.mpf(1) / 8 + MP.mpf(7) / 8 * gap / (1 + 4 * MP.exp(-mp(eta)))
            error = rounding * (value + mp(eta) * (1 - gap))
            found = response.delta_and_error(epsilon)
            assert found == pytest.approx((float(value), float(error)), rel=1e-13, abs=0)


# ── the textbook ───────────────────────────────────────────────────────────────────────────────


def test_lists_of_guarantees_are_lists() -> None:
    for combined in (theorems.basic, lambda items: theorems.parallel(items, "add-remove")):
        for wrong in ("ab", b"ab", 5, None):
            refused = assert_refused(lambda w=wrong, c=combined: c(w), "a list")
            assert "Guarantee(1)" in refused.fix


def test_a_bound_of_a_probability_is_rounded_up_within_one_and_above_nothing() -> None:
    for log in (0.0, 3.0, -1e-14):
        assert theorems._upper_probability(log) == 1.0
    assert theorems._upper_probability(-1e5) == 5e-324
    for log in (-0.5, -20.0, -700.0):
        apart = mp(theorems._upper_probability(log)) / MP.exp(mp(log)) - 1
        assert abs(apart - MP.mpf(2) ** -40) <= MP.mpf(2) ** -51


def test_as_many_releases_as_are_composed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "_MAX_COMPOSED", 5)
    assert len(theorems.optimal("0.1", 5)) == 3
    assert_refused(lambda: theorems.optimal("0.1", 6), "at most 5")


def test_a_step_of_many_is_as_large_as_advanced_composition_allows() -> None:
    for epsilon, steps in ((602, 3), (601, 40), (600, 7), (1, 100), (10**6, 2)):
        promise = sf.Guarantee(epsilon, "1e-6")
        step = theorems._advanced_step_epsilon(promise, steps)
        assert 0 < step <= 300
        assert theorems.advanced(sf.Guarantee(step), steps, promise.delta).epsilon <= epsilon
        more = step + F(2, 10**12) + F(epsilon, 2**39)
        assert more > 300 or theorems.advanced(sf.Guarantee(more), steps, promise.delta).epsilon > epsilon
    assert theorems.advanced(sf.Guarantee(300), 1, "0.5").epsilon > 300
    assert_refused(lambda: theorems.advanced(sf.Guarantee("300.1"), 1, "0.5"), "ε ≤ 300")


def test_a_step_is_found_by_forty_halvings_and_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 40 digits, with what the bound is rounded up by. One below 10⁻¹² is not rounded; one that fits is taken."""
    few = [("1e-6", 100), ("1e-9", 10), ("0.01", 1000), ("0.5", 3)]
    for delta, steps in [*few, *(("0.25", steps) for steps in range(7, 17))]:
        with mpmath.workdps(40):
            slope = mpmath.sqrt(2 * steps * mpmath.log(1 / mpmath.mpf(delta)))
            root = mpmath.findroot(
                lambda x, s=slope, k=steps: (s * x + k * x * mpmath.expm1(x)) * (1 + 2.0**-40) - 1, 1 / slope
            )
            low = F(int(mpmath.floor(root * 2**40)), 2**40)
        step = theorems._advanced_step_epsilon(sf.Guarantee(1, delta), steps)
        assert step == F(math.floor(low * 10**12), 10**12)
    tiny = theorems._advanced_step_epsilon(sf.Guarantee("1e-10", "1e-6"), 10**6)
    assert 0 < tiny < F(1, 10**12)
    assert theorems.advanced(sf.Guarantee(tiny), 10**6, "1e-6").epsilon <= F(1, 10**10)
    with monkeypatch.context() as exact:
        exact.setattr(theorems, "advanced", lambda guarantee, k, _: sf.Guarantee(guarantee.epsilon * k))
        assert theorems._advanced_step_epsilon(sf.Guarantee(3, "1e-6"), 4) == F(3, 4)


def test_a_loss_is_that_of_the_worse_direction_and_knows_the_other() -> None:
    rare, common = ["0.9", "0.1"], ["0.5", "0.5"]
    for p, q in ((rare, common), (common, rare)):
        made = sf.Curve.pair(p, q)
        loss, (first, second) = made.loss(), made._composed_directions
        assert {loss.forward, loss.backward} == {first, second}
        assert shape.renyi(loss.forward, 1.0) > shape.renyi(loss.backward, 1.0)
    symmetric = sf.Curve.laplace(1).loss()
    assert symmetric.forward == symmetric.backward
