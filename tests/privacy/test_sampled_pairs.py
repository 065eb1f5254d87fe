"""A sampled release: each bound beside the formula in 40 digits, each pair beside lines, chords and hulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import pytest

from refusals import assert_refused
from sfumato.privacy import subsampled_losses
from sfumato.privacy.losses import Loss, PairLoss, ResponseLoss
from sfumato.privacy.noise_losses import GaussianLoss, LaplaceLoss
from sfumato.privacy.subsampled_losses import SubsampledLoss, TangentLoss

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40
RATE = F(3, 10)


def mp(value: Fraction | float) -> Any:
    return MP.mpf(F(value).numerator) / F(value).denominator


def response_profile(top: Any) -> Callable[[Any], Any]:
    return lambda at: max(MP.mpf(0), (MP.exp(top) - MP.exp(at)) / (MP.exp(top) + 1))


def gaussian_profile(mu: Any) -> Callable[[Any], Any]:
    return lambda at: MP.ncdf(mu / 2 - at / mu) - MP.exp(at) * MP.ncdf(-mu / 2 - at / mu)


def encloses(loss: SubsampledLoss, epsilon: float, truth: Any, width: float = 1e-12) -> None:
    low, high = loss.delta_range(epsilon)
    assert low <= truth <= high, (epsilon, truth)
    assert high - low <= 2 * width * (float(truth) + 1e-3)


@pytest.mark.parametrize("rate", [F(1, 100), RATE, F(99, 100)])
def test_a_sampled_profile_is_the_theorem_s_in_both_directions(rate: Fraction) -> None:
    q = mp(rate)
    for base, profile in (
        (ResponseLoss(F(1)), response_profile(MP.mpf(1))),
        (GaussianLoss(F(4)), gaussian_profile(MP.mpf(2))),
    ):
        loss = SubsampledLoss(((base, 1),), rate)
        for epsilon in (0.0, 0.01, 0.3, 0.8):
            growth = MP.exp(mp(epsilon))
            encloses(loss, epsilon, q * profile(MP.log1p((growth - 1) / q)))
            rest = 1 - growth * (1 - q)
            encloses(loss.reversed(), epsilon, rest * profile(MP.log(q * growth / rest)) if rest > 0 else MP.mpf(0))
            value, error = loss.delta_and_error(epsilon)
            low, high = loss.delta_range(epsilon)
            assert F(value) - F(error) <= F(low) <= F(high) <= F(value) + F(error)
            assert error <= (high - low) * 0.51 + 1e-300


def test_profiles_are_read_beyond_what_an_exponential_holds() -> None:
    mu = MP.sqrt(3000)
    loss = SubsampledLoss(((GaussianLoss(F(3000)), 1),), F(1, 8))
    for epsilon in (599.0, 600.0, 700.0, 1500.0):
        truth = gaussian_profile(mu)(mp(epsilon) + MP.log1p((MP.mpf(1) / 8 - 1) * MP.exp(-mp(epsilon))) + MP.log(8)) / 8
        encloses(loss, epsilon, truth, 1e-9)
        assert loss.reversed().delta_range(epsilon) == (0.0, 0.0)


@pytest.mark.parametrize(("units", "population"), [(1, 0), (3, 0), (1, 10), (2, 10), (9, 10)])
def test_several_units_are_counted_as_often_as_they_are_sampled(units: int, population: int) -> None:
    """Over all counts of changed units in the sample, each with the δ of a change of so many."""
    parts = ((ResponseLoss(F(1, 2)), 1),)
    loss = SubsampledLoss(parts, RATE, units, population)
    size = 3
    if population:
        weights = {
            i: F(math.comb(units, i) * math.comb(population - units, size - i), math.comb(population, size))
            for i in range(1, size + 1)
            if size - i <= population - units
        }
    else:
        weights = {i: math.comb(units, i) * RATE**i * (1 - RATE) ** (units - i) for i in range(1, units + 1)}
    weights = {i: weight for i, weight in weights.items() if weight}
    assert loss.sampled_weights == weights
    share = mp(sum(weights.values()))
    for epsilon in (0.0, 0.2, 0.7):
        at = MP.log1p(MP.expm1(mp(epsilon)) / share)
        encloses(loss, epsilon, MP.fsum(mp(w) * response_profile(mp(F(i, 2)))(at) for i, w in weights.items()))
    top = MP.log1p(share * MP.expm1(mp(F(max(weights), 2))))
    assert top <= loss.largest_loss_if_bounded <= top * (1 + MP.mpf("1e-14"))
    assert loss.largest_finite_loss == F(loss.largest_loss_if_bounded)
    assert loss.is_symmetric == (units > 1 or population > 0)
    assert loss.is_replace == (population > 0)


def test_the_largest_loss_of_a_sample_is_known_in_both_directions() -> None:
    top, q = MP.mpf(2), mp(RATE)
    loss = SubsampledLoss(((ResponseLoss(F(2)), 1),), RATE)
    backward = -MP.log1p(q * MP.expm1(-top))
    assert backward <= loss.reversed().largest_loss_if_bounded <= backward * (1 + MP.mpf("1e-14"))
    lopsided = PairLoss((F(1, 2), F(1, 2)), (F(1, 4), F(3, 4)))
    pair = SubsampledLoss(((lopsided, 1),), RATE)
    up, down = MP.log1p(q), -MP.log1p(q * (mp(F(2, 3)) - 1))
    assert up <= pair.largest_loss_if_bounded <= up * (1 + MP.mpf("1e-13"))
    other = pair.reversed().largest_loss_if_bounded
    assert -MP.log1p(q * (MP.exp(-MP.log(MP.mpf(3) / 2)) - 1)) <= other <= down * (1 + MP.mpf("1e-13"))
    absent = PairLoss((F(1, 2), F(1, 2), F(0)), (F(1, 2), F(1, 4), F(1, 4)))
    nowhere = SubsampledLoss(((absent, 1),), RATE).reversed().largest_loss_if_bounded
    assert -MP.log1p(-q) <= nowhere <= -MP.log1p(-q) * (1 + MP.mpf("1e-14"))
    assert SubsampledLoss(((LaplaceLoss(F(500)), 1),), RATE).largest_loss_if_bounded is not None
    assert SubsampledLoss(((LaplaceLoss(F(501)), 1),), RATE).largest_loss_if_bounded is None
    assert SubsampledLoss(((GaussianLoss(F(1)), 1),), RATE).largest_loss_if_bounded is None
    two = SubsampledLoss(((ResponseLoss(F(1)), 1), (ResponseLoss(F(1, 2)), 2)), RATE)
    assert two.largest_loss_if_bounded == loss.largest_loss_if_bounded
    assert two.needs_inversion
    assert SubsampledLoss(((ResponseLoss(F(1)), 2),), RATE).needs_inversion
    assert not loss.needs_inversion


def test_parameters_are_checked_at_their_ends() -> None:
    parts: tuple[tuple[Loss, int], ...] = ((ResponseLoss(F(1)), 1),)
    assert SubsampledLoss(parts, RATE, 1000).units == 1000
    assert_refused(lambda: SubsampledLoss(parts, RATE, 1001), "at most 1000")
    assert_refused(lambda: SubsampledLoss(parts, RATE, 1, 11), "a multiple of 1/11")
    assert_refused(lambda: SubsampledLoss(parts, RATE, 0), "≥ 1")
    assert_refused(lambda: SubsampledLoss(((ResponseLoss(F(1)), 0),), RATE), "≥ 1")
    for part in (1, (ResponseLoss(F(1)),), (1, ResponseLoss(F(1))), "ab"):
        assert_refused(lambda part=part: SubsampledLoss((part,), RATE), "(loss, count)")
    loss = SubsampledLoss(parts, RATE)
    assert loss.group(1) is loss
    assert loss.reversed().group(3) == loss.group(3) == SubsampledLoss(parts, RATE, 3)
    assert loss.group(2).group(3).units == 6
    assert loss.group(2).reversed() is not loss
    assert loss.reversed().reversed() == loss != loss.reversed()
    exchanged = SubsampledLoss(parts, RATE, exchanged=True)
    assert exchanged.is_replace
    assert exchanged.symmetrised() is exchanged is exchanged.reversed()
    assert_refused(loss.symmetrised, "under replace neighbours")
    assert SubsampledLoss(((ResponseLoss(F(0)), 1),), RATE).is_trivial
    assert not loss.is_trivial
    assert loss.is_sharper_alone


# ── pairs on a lattice ─────────────────────────────────────────────────────────────────────────


def profile_of(values: Any, masses: Any, lost: float, alpha: float) -> float:
    """Sum what P has above α·Q over the atoms."""
    atoms = zip(values, masses, strict=True)
    return lost + math.fsum(max(0.0, -mass * math.expm1(math.log(alpha) - value)) for value, mass in atoms)


class Known:
    """A profile given as a function of α = e^ε, in place of a sampled loss; its bounds are an error apart."""

    def __init__(self, profile: Callable[[float], float], error: float = 0.0, top: float | None = None) -> None:
        self.profile, self.error, self.largest_loss_if_bounded = profile, error, top

    def profile_bound(self, epsilon: float, *, above: bool) -> float:
        return self.profile(math.exp(epsilon)) + (self.error if above else -self.error)

    def delta_range(self, epsilon: float) -> tuple[float, float]:
        return self.profile_bound(epsilon, above=False), self.profile_bound(epsilon, above=True)

    def reversed(self) -> Known:
        """h̃(α) = α·h(1/α) + 1 − α for the reverse pair."""
        return Known(lambda alpha: alpha * self.profile(1 / alpha) + 1 - alpha, self.error)


def convex(alpha: float) -> float:
    """A profile with h(0) = 1 whose loss is spread evenly over P from e^−1 to e."""
    low, high = math.exp(-1), math.e
    if alpha >= high:
        return 0.0
    if alpha <= low:
        return 1 - alpha * math.log(high / low) / (high - low)
    return ((high - alpha) - alpha * math.log(high / alpha)) / (high - low)


def test_lattice_points_lie_ever_further_apart() -> None:
    for count, resolution in ((0, 8), (1, 8), (40, 8), (1000, 16), (17, 100)):
        steps = subsampled_losses._lattice_steps(count, resolution)
        assert (steps[0], steps[-1]) == (0, count)
        for before, after in pairwise(steps):
            assert after == min(count, before + max(1, math.floor(before / resolution)))


def test_chords_are_the_profile_of_their_pair() -> None:
    spacing, steps = F(1, 16), (0, 1, 2, 4, 8, 12, 16, 20)
    for profile, bounded in ((convex, False), (lambda alpha: 0.125 + 0.5 * convex(alpha), False), (convex, True)):
        chords = subsampled_losses._chord_masses(Known(profile), steps, spacing, bounded=bounded)  # type: ignore[arg-type]
        values = [float(step * spacing) for step in chords.mass_by_step]
        for step in steps:
            alpha = math.exp(float(step * spacing))
            pair = profile_of(values, chords.mass_by_step.values(), chords.mass_at_infinity, alpha)
            assert pair == pytest.approx(profile(alpha), abs=1e-13)
        for left, right in pairwise(steps):
            at = [math.exp(float(step * spacing)) for step in (left, right)]
            middle = (at[0] + at[1]) / 2
            chord = (profile(at[0]) + profile(at[1])) / 2
            pair = profile_of(values, chords.mass_by_step.values(), chords.mass_at_infinity, middle)
            assert profile(middle) <= pair + 1e-15
            assert pair == pytest.approx(chord, abs=1e-13)
        assert all(mass > 0 for mass in chords.mass_by_step.values())
    stepped = subsampled_losses._chord_masses(
        Known(lambda alpha: 0.25 if alpha < 100 else 0.125), (0, 1, 2), spacing, bounded=True
    )  # type: ignore[arg-type]
    assert stepped.mass_at_infinity == 0.125  # only the failure is left at the largest loss
    assert list(stepped.mass_by_step) == [2]


def test_a_point_above_a_chord_is_no_corner() -> None:
    points = {0: 0.5, 1: 0.45, 2: 0.2, 3: 0.15, 4: 0.149}
    spacing = F(1, 4)

    def bumpy(alpha: float) -> float:
        return points[round(4 * math.log(alpha))]

    chords = subsampled_losses._chord_masses(Known(bumpy), tuple(points), spacing, bounded=False)  # type: ignore[arg-type]
    assert list(chords.mass_by_step) == [2, 3, 4]
    corners = [(math.exp(step / 4), points[step]) for step in (0, 2, 3, 4)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(corners)]
    for (alpha, _), steeper, flatter, mass in zip(
        corners[1:], slopes, [*slopes[1:], 0.0], chords.mass_by_step.values(), strict=True
    ):
        assert mass == pytest.approx(alpha * (flatter - steeper), rel=1e-12)
    assert subsampled_losses._is_above_chord((0, 1, 0), (1, 0.5, 0), (2, 0, 0))
    assert not subsampled_losses._is_above_chord((0, 1, 0), (1, 0.4999, 0), (2, 0, 0))
    assert subsampled_losses._is_above_chord((0, 1, 0), (1, 0.5001, 0), (2, 0, 0))


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_STEPS", 64), ("_LEAST_STEPS", 16), ("_RESOLUTION", 32), ("_COARSE_RESOLUTION", 8)):
        monkeypatch.setattr(subsampled_losses, name, value)
    subsampled_losses._dominating_lattice_pair.cache_clear()


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    "parts",
    [
        ((ResponseLoss(F(1)), 1),),
        ((LaplaceLoss(F(1), F(1, 2)), 1),),
        ((GaussianLoss(F(1, 4)), 1),),
        ((ResponseLoss(F(1), 2, F(1, 50)), 1),),
    ],
)
def test_the_lattice_pair_has_the_profile_at_its_points_and_dominates_between(parts: Any) -> None:
    for loss in (SubsampledLoss(parts, RATE), SubsampledLoss(parts, RATE).reversed(), SubsampledLoss(parts, RATE, 2)):
        pair = loss.lattice_pair
        values, back = [float(step * pair.spacing) for step in pair.steps], loss.reversed()
        total = MP.fsum(map(mp, pair.masses)) + mp(pair.mass_at_infinity)
        assert abs(total - 1) < 1e-12
        ends = [loss.largest_loss_if_bounded, back.largest_loss_if_bounded]
        if ends[0] is not None and not loss.backward:
            assert pair.largest_finite_loss == F(ends[0])
        assert pair.spacing <= F(1, 16) * F(min(float(max(pair.steps)), -min(pair.steps))) * pair.spacing
        for knot in loss.knots:
            epsilon = float(knot * pair.spacing)
            at = profile_of(values, pair.masses, pair.mass_at_infinity, math.exp(epsilon))
            low, high = loss.delta_range(epsilon)
            assert low - 1e-15 <= at
            assert at <= high + 1e-12 or knot == loss.knots[-1]
        for i in range(33):
            epsilon = values[-1] * i / 32
            assert (
                loss.profile_bound(epsilon, above=False)
                <= profile_of(values, pair.masses, pair.mass_at_infinity, math.exp(epsilon)) + 1e-14
            )
        assert not loss.backward or pair == back.lattice_pair.reversed()
        assert (0 < pair.mass_at_infinity <= 1e-30) == (ends[0] is None)
        assert loss.renyi(2.0) == pair.renyi(2.0)
        assert loss.magnitude == pair.magnitude == max(-values[0], values[-1])
        assert loss.factors == ((pair, 1),)
        if ends[0] is None:
            assert loss.failure == pair.failure
            assert loss.largest_finite_loss == pair.largest_finite_loss
        bound = mp(loss.largest_finite_loss) - MP.log(1 - mp(loss.failure))
        assert bound <= mp(loss.pure_epsilon) <= bound + MP.mpf("1e-13")


# ── lines from below ───────────────────────────────────────────────────────────────────────────


def test_lines_are_the_profile_of_the_pair_at_their_kinks() -> None:
    lines = [(-1.0, 1.0), (-0.5, 0.75), (-0.55, 0.7), (-0.125, 0.3), (0.0, 0.0625)]
    pair = subsampled_losses._envelope_pair(lines, 0.0625)
    for alpha in (0.01, 0.3, 0.5, 0.9, 1.0, 1.3, 1.9, 2.5, 9.0):
        truth = max(intercept + slope * alpha for slope, intercept in lines)
        found = profile_of(pair.values, pair.masses, pair.mass_at_infinity, alpha)
        assert truth - 1e-14 <= found + 1e-13
        assert found <= truth + 1e-16 * 8
    assert len(pair.values) == 3  # one line is nowhere the highest
    first, second = (-1.0, 1.0), (-0.25, 0.4)
    crossing = subsampled_losses._crossing_of_lines(first, second)
    assert first[1] + first[0] * crossing == pytest.approx(second[1] + second[0] * crossing, abs=1e-15)


@pytest.mark.parametrize("error", [0.0, 1e-12, 1e-5])
def test_a_supporting_line_is_below_the_profile_and_near_it(error: float) -> None:
    for knots in ((0.5, 0.6, 0.8), (0.9, 1.0, 1.02), (1.5, 1.6, 1.75), (2.3, 2.5, 2.7)):
        end = 2.7
        slope, intercept = subsampled_losses._supporting_line(Known(convex, error), knots, end)  # type: ignore[arg-type]
        lowest = error
        for i in range(1, 271):
            alpha = i / 100
            assert intercept + slope * alpha <= convex(alpha) + 1e-15
            lowest = min(lowest, convex(alpha) - intercept - slope * alpha)
        away = convex(knots[1]) - intercept - slope * knots[1]
        # where rounding hides the curvature the line is lowered to stay below the profile at both ends
        assert away <= (6 * error + 2e-4 * (knots[2] - knots[0]) + 1e-9 if error < 1e-6 else 0.2), (knots, away)


def test_a_profile_is_read_from_its_reverse_below_one() -> None:
    known = Known(convex, 1e-6)
    for alpha in (0.2, 0.7, 0.999, 1.0, 1.2, 2.0):
        sure = subsampled_losses._privacy_profile(Known(convex), alpha)  # type: ignore[arg-type]
        # below 1 a few sums are rounded, each by a part of 1
        assert 0.9 * 2.0**-51 * (alpha < 1) <= F(sure[1]) - F(sure[0]) <= 1.1 * 2.0**-51 * (alpha < 1)
        low, high = subsampled_losses._privacy_profile(known, alpha)  # type: ignore[arg-type]
        slack = min(1.0, alpha) * 1e-6
        assert low == pytest.approx(convex(alpha) - slack, abs=1e-15 * 3)
        assert high == pytest.approx(convex(alpha) + slack, abs=1e-15 * 3)
        assert low < convex(alpha) < high


@pytest.mark.usefixtures("coarse")
def test_the_tangent_pair_is_below_and_keeps_the_failure() -> None:
    for reveal in (F(0), F(1, 50)):
        loss = SubsampledLoss(((ResponseLoss(F(1), 2, reveal), 1),), RATE)
        tangent = loss.dominated_tangent_pair
        assert isinstance(tangent, TangentLoss)
        assert loss.dominated_factors == ((tangent, 1),)
        assert tangent.mass_at_infinity == loss.profile_bound(600.0, above=False)
        for epsilon in (0.0, 0.05, 0.2, 0.35):
            found = profile_of(tangent.values, tangent.masses, tangent.mass_at_infinity, math.exp(epsilon))
            low, high = loss.delta_range(epsilon)
            assert 0.97 * low <= found <= high


def test_several_units_are_priced_in_the_worse_direction_of_each_count() -> None:
    lopsided = PairLoss((F(1, 2), F(1, 2)), (F(1, 10), F(9, 10)))
    for base in (lopsided, lopsided.reversed()):
        loss = SubsampledLoss(((base, 1),), RATE, 2)
        for epsilon in (0.0, 0.1, 0.4):
            at = float(MP.log1p(MP.expm1(mp(epsilon)) / mp(1 - (1 - RATE) ** 2)))
            worst = [
                max(side.delta_and_error(at)[0] for side in (base.group(i), base.group(i).reversed())) for i in (1, 2)
            ]  # type: ignore[index]
            encloses(loss, epsilon, mp(2 * RATE * (1 - RATE)) * mp(worst[0]) + mp(RATE**2) * mp(worst[1]), 1e-11)
        top = max(base.group(2).largest_finite_loss or F(0), base.group(2).reversed().largest_finite_loss or F(0))
        bound = MP.log1p(mp(1 - (1 - RATE) ** 2) * MP.expm1(mp(top)))
        assert bound <= loss.largest_loss_if_bounded <= bound * (1 + MP.mpf("1e-13"))


def test_a_small_share_is_rounded_by_what_it_is_the_difference_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1/4 and 3/4·(e^ε − 1), each known to 2⁻⁴⁸ of itself."""
    loss = SubsampledLoss(((ResponseLoss(F(1)), 1),), F(1, 4), backward=True)
    monkeypatch.setattr(SubsampledLoss, "_delta_bound_without_sampling", lambda *_: 0.5)
    for epsilon in (0.1, 0.2, 0.28):
        removed = MP.expm1(mp(epsilon)) * 3 / 4
        share = MP.mpf(1) / 4 - removed
        margin = MP.mpf(2) ** -48 * ((MP.mpf(1) / 4 + removed) / share + 1)
        for above, sign in ((True, 1), (False, -1)):
            apart = sign * (mp(loss.profile_bound(epsilon, above=above)) * 2 / share - 1)
            assert abs(apart - margin) < margin / 8


@pytest.mark.usefixtures("coarse")
def test_lines_are_looked_for_up_to_the_last_point(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = SubsampledLoss(((ResponseLoss(F(1)), 1),), RATE)
    plain, seen = subsampled_losses._supporting_line, []

    def spy(loss: SubsampledLoss, knots: tuple[float, float, float], end: float) -> tuple[float, float]:
        seen.append((knots, end))
        return plain(loss, knots, end)

    monkeypatch.setattr(subsampled_losses, "_supporting_line", spy)
    subsampled_losses._dominated_tangent_pair(loss)
    top = math.exp(float(loss.knots[-1] * loss.lattice_pair.spacing))
    assert {end for _, end in seen} == {top}
    assert all(left < alpha < right for (left, alpha, right), _ in seen)
    assert seen[-1][0][2] == top
    assert seen[0][0][0] == pytest.approx(math.exp(-float(loss.reversed().knots[-1] * loss.lattice_pair.spacing)))
    assert len(seen) == len(loss.knots) + len(loss.reversed().knots) - 3
