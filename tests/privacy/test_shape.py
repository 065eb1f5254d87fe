"""Readings of products of pairs beside sums over outcomes in 40 digits, where one formula follows another too."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest

import sfumato as sf
from privacy import exact
from sfumato.privacy import shape
from sfumato.privacy.guarantee import Neighbours
from sfumato.privacy.losses import BoundedRangeLoss, Loss, LossPair, PairLoss, ResponseLoss
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, GaussianLoss, LaplaceLoss

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40


def mp(value: Fraction | float) -> Any:
    return MP.mpf(F(value).numerator) / F(value).denominator


# ── failures ───────────────────────────────────────────────────────────────────────────────────


def failing(share: Fraction) -> ResponseLoss:
    return ResponseLoss(F(1, 7), 2, share)


def test_few_failures_are_multiplied_exactly_and_many_are_enclosed() -> None:
    calm = (ResponseLoss(F(1)), 1000)  # what never fails is not counted
    thirty, many = (failing(F(1, 3)), 30), (failing(F(1, 97)), 34)
    kept = F(2, 3) ** 30 * F(96, 97) ** 34
    assert shape.failure_range((calm, thirty, many)) == (1 - kept, 1 - kept)
    assert shape.failure((thirty, many)) == 1 - kept
    for share, count in ((F(1, 97), 65), (F(1, 10**6), 10**5), (F(1, 3), 200)):
        low, high = shape.failure_range((calm, (failing(share), count)))
        truth = 1 - (1 - mp(share)) ** count
        assert truth * (1 - MP.mpf("1e-12")) <= mp(low) < truth <= mp(high) <= truth * (1 + MP.mpf("1e-12"))
        assert high <= 1
        assert shape.failure(((failing(share), count),)) == high
    revealed = (PairLoss((F(1), F(0)), (F(0), F(1))), 1)
    assert shape.failure_range((revealed, (failing(F(1, 97)), 1000))) == (1, 1)


def test_where_all_fails_no_delta_is_below_one() -> None:
    revealed = PairLoss((F(1), F(0)), (F(0), F(1)))
    for epsilon in (F(0), F(3)):
        assert shape.delta_range(((revealed, 1), (ResponseLoss(F(1)), 2)), epsilon) == (1.0, 1.0)
    assert shape.epsilon_range(((revealed, 2),), F(99, 100)) == (math.inf, math.inf)


def test_beyond_the_largest_loss_the_failure_alone_remains() -> None:
    parts = ((ResponseLoss(F(1), 2, F(1, 3)), 2), (ResponseLoss(F(1, 2)), 1))
    low, high = shape.delta_range(parts, F(5, 2))
    failed = F(5, 9)
    assert F(low) <= failed <= F(high)
    assert high - low <= 2.0**-50
    below = shape.delta_range(parts, F(24, 10))
    assert low < below[0] < below[1]
    assert shape.delta_range(((GaussianLoss(F(1)), 1), (failing(F(1, 9)), 1)), F(10**6))[1] < 1 / 9 + 1e-12
    assert shape.delta_range((), F(0)) == (0.0, 0.0)


# ── δ and ε ────────────────────────────────────────────────────────────────────────────────────


def test_counts_and_factors_are_multiplied() -> None:
    class Twofold(ResponseLoss):
        @property
        def factors(self) -> tuple[tuple[LossPair, int], ...]:
            return ((ResponseLoss(self.epsilon), 2), (GaussianLoss(F(1)), 5))

    class Alone(Twofold):
        @property
        def is_sharper_alone(self) -> bool:
            return True

    add_remove = Neighbours.ADD_REMOVE
    twofold, alone = Twofold(F(1)), Alone(F(1))
    expected = ((ResponseLoss(F(1)), 6), (GaussianLoss(F(1)), 15))
    assert shape.composed_directions(((twofold, 3),), add_remove) == (expected,)
    assert shape.composed_directions(((alone, 3),), add_remove) == (expected,)
    assert shape.composed_directions(((alone, 1),), add_remove) == (((alone, 1),),)
    assert shape.composed_directions(((twofold, 1),), add_remove) == (
        ((ResponseLoss(F(1)), 2), (GaussianLoss(F(1)), 5)),
    )
    both = shape.composed_directions(((alone, 1), (ResponseLoss(F(3)), 1)), add_remove)
    assert both == (((ResponseLoss(F(1)), 2), (GaussianLoss(F(1)), 5), (ResponseLoss(F(3)), 1)),)


def test_ranges_of_one_response_hold_the_truth_within_bits() -> None:
    for epsilon, choices, reveal in ((F(1), 2, F(0)), (F(3, 10), 5, F(0)), (F(2), 2, F(1, 50))):
        loss = ResponseLoss(epsilon, choices, reveal)
        growth = MP.exp(mp(epsilon))
        total = growth + choices - 1
        for share in (F(0), F(1, 3), F(9, 10)):
            at = epsilon * share
            delta = mp(reveal) + (1 - mp(reveal)) * (growth - MP.exp(mp(at))) / total
            low, high = shape.delta_range(((loss, 1),), at)
            assert mp(low) <= delta <= mp(high) <= delta + MP.mpf("1e-14")
            assert delta - mp(low) <= MP.mpf("1e-14")
            target = F(int(delta * 10**30), 10**30)
            least = MP.log(growth - (mp(target) - mp(reveal)) / (1 - mp(reveal)) * total)
            low, high = shape.epsilon_range(((loss, 1),), target)
            assert mp(low) <= max(MP.mpf(0), least) <= mp(high)
            assert high - low <= 1e-13
            assert low >= 0
        top = float(epsilon)
        largest = reveal + F(1, 10**13)
        low, high = shape.epsilon_range(((loss, 1),), largest)
        assert top - 1e-11 <= low <= high <= math.nextafter(top, 9)


def test_a_delta_that_zero_meets_needs_no_epsilon() -> None:
    for loss in (ResponseLoss(F(1)), GaussianLoss(F(1)), LaplaceLoss(F(1))):
        assert shape.epsilon_range(((loss, 1),), F(99, 100)) == (0.0, 0.0)
        low, high = shape.epsilon_range(((loss, 2),), F(99, 100))
        assert low == 0.0
        assert high <= 1e-9


def test_a_range_of_many_responses_is_that_of_the_sum_over_answers() -> None:
    pairs = exact.together([(exact.response("0.5"), 3), (exact.response("0.2"), 1)])
    kept = F(99, 100) ** 3
    parts = ((ResponseLoss(F(1, 2), 2, F(1, 100)), 3), (ResponseLoss(F(1, 5)), 1))
    for epsilon in (F(0), F(2, 5), F(11, 10), F(3, 2)):
        truth = mp(1 - kept) + mp(kept) * MP.mpf(str(exact.hockey_stick(pairs, epsilon)))
        low, high = shape.delta_range(parts, epsilon)
        assert truth * (1 - 1e-8) <= mp(low) + 1e-17 <= truth + 1e-17 <= mp(high) + 2e-17 <= truth * (1 + 1e-8)
        spare = F(int(truth * 10**25), 10**25)
        low, high = shape.epsilon_range(parts, spare)
        if epsilon:
            assert low - 1e-12 <= epsilon <= high + 1e-12
            assert high - low <= 1e-6


class Worst(ResponseLoss):
    """A loss that is the worst of several products, of which some have a quick bound."""

    alternatives: tuple[Any, ...] = ()

    @property
    def products_to_maximise(self) -> tuple[Any, ...]:
        return type(self).alternatives


class Quick(ResponseLoss):
    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        return 0.125, 0.125 if epsilon < 0.5 else 0.0625


class Unknown(ResponseLoss):
    def delta_and_error(self, epsilon: float) -> Any:  # noqa: ARG002
        return None


def test_a_product_is_evaluated_unless_its_quick_bound_is_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, unknown = Quick(F(1)), Unknown(F(1))
    first, second, third = (((ResponseLoss(F(n)), 1),) for n in (1, 2, 3))
    seen: list[Any] = []
    plain_delta, plain_epsilon = shape.delta_range, shape.epsilon_range
    answers: dict[Any, tuple[float, float]] = {}

    def reading(parts: Any, _: Fraction) -> tuple[float, float]:
        seen.append(parts)
        return answers[parts]

    monkeypatch.setattr(Worst, "alternatives", ((unknown, first), (quick, second), (unknown, third)))
    monkeypatch.setattr(shape, "delta_range", reading)
    for low_of_first, evaluated in ((0.1, 3), (0.2499, 3), (0.25, 2), (0.3, 2)):
        answers |= {first: (low_of_first, 0.32), second: (0.11, 0.4), third: (0.05, 0.31)}
        seen.clear()
        assert plain_delta(((Worst(F(1)), 1),), F(1, 4)) == (
            max(low_of_first, 0.11 * (evaluated == 3)),
            [0.32, 0.4][evaluated - 2],
        )
        assert len(seen) == evaluated
    seen.clear()
    assert plain_delta(((Worst(F(1)), 1),), F(1, 2))[0] == 0.3  # the quick bound is read at ε itself
    monkeypatch.setattr(shape, "epsilon_range", reading)
    for low_of_first, delta, evaluated in ((0.1, F(1, 5), 3), (0.1, F(1, 4), 2), (0.6, F(1, 5), 2), (0.6, F(3, 16), 2)):
        answers |= {first: (low_of_first, 0.7), second: (0.65, 0.9), third: (0.2, 0.8)}
        seen.clear()
        expected = (0.65, 0.9) if evaluated == 3 else (max(low_of_first, 0.2), 0.8)
        assert plain_epsilon(((Worst(F(1)), 1),), delta) == expected
        assert len(seen) == evaluated
    two = ((Worst(F(1)), 2),)
    assert plain_epsilon(two, F(1, 100))[1] <= 2.0  # more than one is composed


def test_bisection_ends_at_neighbouring_floats() -> None:
    for last in (0.3, 1.0, 5.7, 1e-300, 123456.789, 1e200):
        for strict in (False, True):
            low, high = shape._bisect_floats(lambda x, last=last, strict=strict: x < last or (x == last and not strict))  # type: ignore[misc]
            assert math.nextafter(low, math.inf) == high
            assert (high if strict else low) == last
    assert shape._bisect_floats(lambda _: False) == (0.0, 0.0)
    low, high = shape._bisect_floats(lambda _: True)
    assert high == math.inf
    assert low < 1e300 <= 2 * low < math.inf


def test_an_inverted_profile_uses_both_ends_of_its_error() -> None:
    def profile(epsilon: float) -> tuple[float, float]:
        return max(0.0, 1 - epsilon), 0.01

    low, high = shape._invert_profile(profile, F(1, 4))
    assert low == pytest.approx(0.74, abs=1e-15)
    assert high == pytest.approx(0.76, abs=1e-15)
    assert 1 - F(low) - F(0.01) > F(1, 4) > 1 - F(high) + F(0.01) - F(1, 10**15)
    step = 2.0**-60

    def flat(epsilon: float) -> tuple[float, float]:
        return (0.5, 0.0) if epsilon < 1 else (0.25, 0.0) if epsilon < 3 else (0.0, 0.0)

    assert shape._invert_profile(flat, F(1, 4) + F(step))[1] == 3.0  # 0.25 and its rounding may be above
    assert shape._invert_profile(flat, F(1, 4) - F(step))[0] < 1.0
    assert shape._invert_profile(flat, F(1, 5)) == (math.nextafter(3.0, 0), 3.0)
    assert shape._invert_profile(flat, F(1, 2)) == (0.0, 1.0)
    assert shape._invert_profile(flat, F(3, 5)) == (0.0, 0.0)


class Stepped(ResponseLoss):
    """A closed form with a known error and a step at an ε that is no float, so that each rounding shows its side."""

    step: Fraction = F(1, 3)

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        return (0.5, 0.0625) if F(epsilon) <= self.step else (0.25, 0.03125)


@pytest.mark.parametrize("step", [F(1, 3), F(2, 3)])
def test_a_closed_form_is_read_on_the_side_of_its_error_and_of_its_rounding(step: Fraction) -> None:
    loss = type("Stepped", (Stepped,), {"step": step})(F(9))
    low, high = shape.delta_range(((loss, 1),), step)
    assert F(7, 32) - F(1, 10**15) <= F(low) < F(7, 32)
    assert F(9, 16) < F(high) <= F(9, 16) + F(1, 10**15)
    low, high = shape.epsilon_range(((loss, 1),), F(3, 10))
    assert F(low) < step < F(high)
    assert high - low < 1e-15
    sure = type("Sure", (Stepped,), {"delta_and_error": lambda *_: (0.99, 0.5)})(F(9))
    assert shape.delta_range(((sure, 1),), F(1)) == (pytest.approx(0.49), 1.0)


def test_delta_is_at_most_one_where_the_failure_is_nearly_all() -> None:
    parts = ((ResponseLoss(F(40), 2, 1 - F(1, 10**6)), 1), (GaussianLoss(F(100)), 2))
    low, high = shape.delta_range(parts, F(0))
    assert 1 - 1.1e-6 <= low <= high <= 1.0
    many = ((failing(F(1, 2)), 100), (GaussianLoss(F(10**4)), 1))
    assert 1 - 1e-9 < shape.delta_range(many, F(0))[1] <= 1.0


def test_bounds_are_moved_outwards_by_a_float_and_stay_on_their_side_of_zero() -> None:
    assert shape._next_nonnegative_float_down(0.0) == shape._next_float_up_unless_zero(0.0) == 0.0
    assert shape._next_nonnegative_float_down(1.5) < 1.5 < shape._next_float_up_unless_zero(1.5)
    assert shape._next_nonnegative_float_down(-1.0) == 0.0


# ── tails ──────────────────────────────────────────────────────────────────────────────────────


def test_a_tail_is_tight_to_a_part_in_ten_thousand() -> None:
    """A chord over a ten-thousandth of the spread costs half of that times the hazard rate, and no more."""
    for mu in (F(1, 20), F(1), F(6)):
        loss = sf.Curve.gdp(mu).loss()
        for z in (-3, F(-1, 2), 0, 1, F(5, 2), 4):
            at = mu * mu / 2 + z * mu
            tail, density = MP.ncdf(-mp(z)), MP.npdf(mp(z))
            gap = density / tail * MP.mpf("0.51e-4") + MP.mpf("1e-10") / mp(mu) / tail
            assert tail <= loss.tail(at) <= tail * (1 + gap), (mu, z)


def test_no_more_than_the_profile_is_known_of_a_concentrated_release() -> None:
    loss = sf.Curve.concentrated("0.5").loss()
    assert sf.Curve.concentrated("0.5").delta(2) > 0.01
    assert loss.tail(2) == 1.0  # a profile that falls at once to 0 below it is possible
    assert sf.Curve.gdp(1).loss().tail(2) < 0.1


def test_a_profile_is_read_forward_from_zero_on_and_backward_below() -> None:
    """δ(x) of P, Q is 1 − e^x + e^x·δ(−x) of Q, P: each direction has its own profile here."""
    loss = shape.PrivacyLoss(((ResponseLoss(F(1)), 1),), ((ResponseLoss(F(2)), 1),))
    tiny, one, two = MP.mpf(2) ** -1000, MP.e / (1 + MP.e), MP.e**2 / (1 + MP.e**2)  # the likelier of two answers
    for x, profile in ((MP.mpf(0), 2 * one - 1), (tiny, 2 * one - 1), (-tiny, 2 * two - 1)):
        low, high = loss._delta_range(float(x))
        assert mp(low) <= profile <= mp(high) <= profile * (1 + MP.mpf("1e-14")), x


def test_an_atom_counts_just_below_itself() -> None:
    loss = sf.Curve.pure(1).loss()
    chance = 1 / (1 + math.exp(-1))
    assert chance <= loss.tail("0.9") <= chance * (1 + 1e-3)
    assert chance <= loss.tail("-0.999") <= chance * (1 + 1e-3)
    assert loss.tail("-1.001") == 1.0
    assert loss.tail("1.0001") <= 1e-9
    assert 0.9 * chance < loss.tail("1.000000001") <= chance * (1 + 1e-3)
    leaky = sf.Curve.approximate(1, "0.1").loss()
    assert leaky.tail("0.5") == pytest.approx(0.1 + 0.9 * chance, rel=1e-3)
    assert leaky.tail(2) == pytest.approx(0.1, rel=1e-9)
    assert leaky.mean == math.inf
    lopsided = sf.Curve.pair(["0.9", "0.1"], ["0.5", "0.5"]).loss()
    assert lopsided.tail("-1") == pytest.approx(0.9, rel=1e-3) or lopsided.tail("-0.5") == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("mu", [F(1, 10), F(3)])
def test_quantiles_are_those_of_the_normal_law(mu: Fraction) -> None:
    loss = sf.Curve.gdp(mu).loss()
    for z in (-4, -1, 0, 2):
        probability = F(str(MP.nstr(MP.ncdf(z), 20)))
        truth = float(mu * mu / 2 + z * mu)
        slack = 3e-4 * float(mu) + 2e-9
        assert truth - 2e-9 <= loss.quantile(probability) <= truth + slack


# ── ρ ──────────────────────────────────────────────────────────────────────────────────────────


def largest_ratio(atoms: list[tuple[Any, Any]]) -> Any:
    """Search sup D_α/α over α − 1 = e^u, by sums over outcomes: first on a grid, then by golden sections around it."""
    losses = [(p, MP.log(p / q)) for p, q in atoms]

    def ratio(u: Any) -> Any:
        s = MP.exp(u)
        return MP.log1p(MP.fsum(p * MP.expm1(s * loss) for p, loss in losses)) / s / (1 + s)

    grid = [MP.mpf(n) for n in range(-20, 15)]
    best = max(range(len(grid)), key=lambda i: ratio(grid[i]))
    low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    golden = (MP.sqrt(5) - 1) / 2
    for _ in range(32):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (left, high) if ratio(left) < ratio(right) else (low, right)
    return max(MP.fsum(p * loss for p, loss in losses), ratio((low + high) / 2))


def response_of_many(epsilon: str, choices: int) -> list[tuple[Any, Any]]:
    """List the two answers that differ; the others have one loss and are put together."""
    growth = MP.exp(mp(F(epsilon)))
    total = growth + choices - 1
    return [(growth / total, 1 / total), (1 / total, growth / total), ((choices - 2) / total, (choices - 2) / total)]


RARE = [(F(1, 10**6), F(1, 10**9)), (1 - F(1, 10**6), 1 - F(1, 10**9))]
LESS_RARE = [(F(1, 50), F(1, 400)), (F(49, 50), F(399, 400))]


@pytest.mark.parametrize(
    ("loss", "atoms", "gap"),
    [
        (ResponseLoss(F(1)), exact.response("1"), 2e-7),
        (ResponseLoss(F(1, 10)), exact.response("0.1"), 2e-7),
        (ResponseLoss(F(5), 40), response_of_many("5", 40), 2e-6),
        (PairLoss(*zip(*RARE, strict=True)), RARE, 3e-9),
        (PairLoss(*zip(*LESS_RARE, strict=True)), LESS_RARE, 3e-9),
        (LaplaceLoss(F(3), F(1)), exact.discrete_laplace("1", 3), 2e-6),
    ],
)
def test_the_least_rho_is_the_largest_ratio_of_all_orders(loss: Loss, atoms: Any, gap: float) -> None:
    truth = largest_ratio(
        [(mp(p) if isinstance(p, F) else MP.mpf(p), mp(q) if isinstance(q, F) else MP.mpf(q)) for p, q in atoms]
    )
    rho = shape.least_rho(loss)
    assert truth <= mp(rho) <= truth * (1 + MP.mpf(gap)), MP.nstr(mp(rho) / truth - 1)


def masses(*weights: int | Fraction) -> tuple[Fraction, ...]:
    return tuple(F(weight) / sum(map(F, weights)) for weight in weights)


def tilted(size: Fraction) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return a pair with losses of about this size, which no symmetry of the outcomes rounds alike."""
    return masses(1 + size, 7, 5 * (1 - size / 3)), masses(1, 7, 5)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (masses(1, 10**6), masses(1, 1)),
        (masses(3, 10**12, 10**12), masses(1, 1, 1)),
        (masses(10**6, 1), masses(3, 10**6)),
        (masses(10**40, 1), masses(1, 1)),
        *(tilted(F(1, 10**digits)) for digits in (1, 3, 5, 6, 7, 8, 9)),
    ],
)
def test_no_rounding_near_order_one_takes_from_rho(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> None:
    """Where D_α/α is largest as α falls to 1, ρ is at least the mean loss, which is computed in 40 digits."""
    atoms = [(mp(a), mp(b)) for a, b in zip(p, q, strict=True)]
    mean = MP.fsum(a * MP.log(a / b) for a, b in atoms)
    assert mean <= mp(shape.least_rho(PairLoss(p, q)))
    for s in (1e-7, 2.0**-20, 0.01):
        order = 1 + s
        exact_s = MP.mpf(order) - 1
        truth = MP.log1p(MP.fsum(a * MP.expm1(exact_s * MP.log(a / b)) for a, b in atoms)) / exact_s
        assert abs(PairLoss(p, q).renyi(order) / truth - 1) <= 2e-8


def test_rho_is_known_exactly_where_there_is_a_formula() -> None:
    assert shape.least_rho(GaussianLoss(F(1, 3))) == F(1, 6)
    assert shape.least_rho(DiscreteGaussianLoss(F(5, 2), 3)) == F(9, 5)
    assert shape.least_rho(ResponseLoss(F(0))) == 0
    vector = DiscreteGaussianVectorLoss(F(4), 3, 2, 3, 5)
    assert shape.least_rho(vector) == vector.rho == F(5, 8)
    for eta in (F(1, 100), F(1)):
        rho = shape.least_rho(BoundedRangeLoss(eta))
        assert rho <= eta**2 / 8 * (1 + F(1, 10**6))  # Cesar & Rogers 2021, Lemma 3.4


def test_a_chord_over_an_interval_has_its_largest_ratio_at_an_end_or_at_its_stationary_point() -> None:
    for a, b, at_a, at_b in (
        (1.0, 4.0, 0.5, 8.0),
        (0.01, 100.0, 0.001, 90.0),
        (1.0, 2.0, 1.0, 2.0),
        (2.0, 3.0, 1.0, 1.0),
        (0.5, 8.0, 0.1, 9.0),
    ):

        def ratio(s: float, a: float = a, b: float = b, at_a: float = at_a, at_b: float = at_b) -> float:
            return (at_a + (at_b - at_a) * (s - a) / (b - a)) / (s * (s + 1))

        sampled = max(ratio(a * (b / a) ** (i / 2000)) for i in range(2001))
        assert sampled * (1 - 1e-12) <= shape._chord_maximum(a, b, at_a, at_b) <= sampled * (1 + 1e-5)


# ── trade-offs ─────────────────────────────────────────────────────────────────────────────────


def test_a_false_negative_bound_is_the_best_of_all_lines() -> None:
    def profile(top: float, failure: float) -> Callable[[float], float]:
        return lambda epsilon: failure + (1 - failure) * max(0.0, -math.expm1(epsilon - top)) / (1 + math.exp(-top))

    for top, failure, alpha in ((1.0, 0.0, 0.05), (1.0, 0.0, 0.6), (2.0, 0.1, 0.02), (0.3, 0.01, 0.9)):
        delta = profile(top, failure)
        lines = [
            max(1 - delta(e) - math.exp(e) * alpha, math.exp(-e) * (1 - delta(e) - alpha))
            for e in (top * i / 2000 for i in range(2001))
        ]
        best = max(0.0, *lines)
        found = shape.best_false_negative_bound(delta, top, alpha)
        assert best - 1e-9 <= found <= best + 1e-6 * (best > 0)
    assert shape.best_false_negative_bound(lambda _: 1.0, 3.0, 0.5) == 0.0
    flat = shape.best_false_negative_bound(lambda _: 0.25, 0.0, 0.25)
    assert 0.5 - 2.0**-49 <= flat < 0.5  # rounded down
