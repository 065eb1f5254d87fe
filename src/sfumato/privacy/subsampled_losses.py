"""The loss of a release that is run on a secret random sample of the units.

Let a release have δ(ε) on any database, and let M′ run it on a sample. Write y = 1 + (e^ε − 1)/η.

*Poisson sampling*, each unit with probability q on its own, add-remove neighbours. With P the release's law on a sample
with the unit and Q on the same sample without it, M′ has (1 − q)Q + qP against Q, mixed over the other units, so

    δ′(ε) = q·δ(ln y) with η = q,    and in the other direction    δ′(ε) = r·δ(ln(q·e^ε/r)), r = 1 − e^ε(1 − q),

0 where r ≤ 0. Both are the divergences of a pair, ((1 − q)Q + qP, Q) and its reverse, which dominates if (P, Q) does
(Zhu, Dong & Wang 2022, Thm 11; Balle, Barthe & Gaboardi 2018, Thm 8).

*Theorem* (k units change together, or some are exchanged for others). Let T be how many of the k changed units are in
the sample, δ_i bound a change of i units and rise with i, and η = P(T ≥ 1). Then M′ has
δ′(ε) ≤ Σ_{i ≥ 1} P(T = i)·δ_i(ln y), in both orders. *Proof.* Draw both samples with the same coins: unit j of the k
is there in the one, or its counterpart in the other (one of them may be nobody), for the same coin. Then
M′(x) = (1 − η)·C + η·X and M′(y) = (1 − η)·C + η·Y, C the law when no changed unit is in the sample, X and Y mixtures,
with equal weights P(T = i)/η, of laws that differ in i units. With β = e^ε/y, advanced joint convexity (Balle, Barthe &
Gaboardi 2018, Thm 2) gives δ′(ε) = η·H_y(X ‖ (1 − β)·C + β·Y) ≤ η·((1 − β)·H_y(X ‖ C) + β·H_y(X ‖ Y)). Both terms are
at most Σ P(T = i)/η·δ_i(ln y), because hockey-stick divergence is jointly convex: X and Y differ in i units, and X and
C in at most i. ∎

Poisson sampling has T ~ Bin(k, q). Under replace neighbours, where one unit is exchanged for another, T ~ Bin(1, q):
X and Y differ in an exchange, and X and C in a unit that is there or not. So δ′(ε) ≤ q·δ(ln y) holds with the δ of an
exchange if that bounds the presence of a unit, too (``exchanged``): a curve that counts on a public number of units
does not, since the size of a Poisson sample varies. A sample of m out of n units without replacement, under replace
neighbours and with n public, has T hypergeometric; there X and C differ in i units because those of the sample that
changed can be exchanged for others; with one unit, η = m/n and δ′(ε) ≤ (m/n)·δ(ln y) (Balle, Barthe & Gaboardi 2018,
Thm 11).

*Composition.* The profile has no closed moments, so a finite pair on a lattice takes its place: between lattice points
h(e^ε) = δ′(ε), which is convex, lies below its chords, and the chords are the profile of a pair that dominates
(Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022). Lines that touch h from below are the profile of a pair that is
dominated, which gives lower bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec, shape
from sfumato.privacy.guarantee import Neighbours
from sfumato.privacy.losses import AtomLoss, Loss, LossPair, Real, sum_with_counts_rounded_up
from sfumato.privacy.numbers import INSIDE_UNIT, decimal_float_above, exact, exact_integer
from sfumato.quick_dataclass import dataclass

Bounds = tuple[float, float]

_STEPS, _LEAST_STEPS = 1 << 13, 1 << 8
"""Lattice steps up to the largest loss of either sign, and at least this many to that of the other."""
_RESOLUTION, _COARSE_RESOLUTION = 128, 32
"""Points are this fraction of their loss apart; the coarse one where each point needs an inversion."""
_TRUNCATED = 1e-30
"""The δ beyond which the loss of an unbounded release counts as failure."""
_ROUNDING = 2.0**-48
"""The relative error of a few elementary functions and products."""
_MAX_UNITS = 1000
_CHORD = 1e-3
"""The length of the chords that bound a slope, as a share of the distance to the next point."""
_MAX_TOP, _BEYOND = 500, 600.0
"""The largest finite loss that is told from a failure, and an ε beyond it."""


@codec.serialisable("subsampled-loss")
@dataclass(frozen=True, repr=False)
class SubsampledLoss(Loss):
    """The loss of a release with these ``parts``, run on one sample of the units."""

    parts: tuple[tuple[Loss, int], ...]
    rate: Fraction
    """The probability that a unit is in the sample."""
    units: int = 1
    """How many units change together."""
    population: int = 0
    """The number of units, of which rate·population are drawn without replacement; 0 for Poisson sampling."""
    backward: bool = False
    """Whether the unit is in the second database: this is the pair (Q, (1 − q)Q + qP)."""
    exchanged: bool = False
    """Whether a changed unit of a Poisson sample is exchanged for another: the parts bound that, and presence."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(map(_checked_loss_and_count, self.parts)))
        object.__setattr__(self, "rate", exact(self.rate, "rate", INSIDE_UNIT))
        object.__setattr__(self, "units", exact_integer(self.units, "units", at_least=1))
        object.__setattr__(self, "population", exact_integer(self.population, "population"))
        if self.units > _MAX_UNITS:
            raise InvalidParameter("k", self.units, f"at most {_MAX_UNITS} for a release on a sample")
        if (self.rate * self.population).denominator != 1:
            raise InvalidParameter(
                "rate",
                self.rate,
                f"a multiple of 1/{self.population}, because there are {self.population} units",
                fix=f"for example, set rate to 1/{self.population}",
            )

    @property
    def sort_key(self) -> tuple[Any, ...]:
        parts = tuple((loss.sort_key, count) for loss, count in self.parts)
        key = (self.rate, self.units, self.population, self.backward, self.exchanged, parts)
        return codec.kind_or_class_name(type(self)), (float(self.rate),), key

    @property
    def is_symmetric(self) -> bool:
        return self.units > 1 or self.is_replace

    @property
    def is_replace(self) -> bool:
        """Whether the parts are losses under replace neighbours."""
        return self.exchanged or bool(self.population)

    def reversed(self) -> SubsampledLoss:
        return self if self.is_symmetric else replace(self, backward=not self.backward)

    def symmetrised(self) -> SubsampledLoss:
        """Return itself, where it bounds both orders."""
        if not self.is_symmetric:
            rule = "losses under replace neighbours, because this one of Poisson sampling covers only an added unit"
            fix = "build the curve for add-remove neighbours, then convert it with curve.for_neighbours('replace')"
            raise InvalidParameter("parts", self, rule, fix=fix)
        return self

    def group(self, k: int) -> SubsampledLoss:
        """Return the loss when k times as many units change: each is in the sample, or not, on its own."""
        return self if k == 1 else replace(self, units=k * self.units, backward=False)

    @property
    def is_sharper_alone(self) -> bool:
        return True

    @property
    def dominated_factors(self) -> tuple[tuple[LossPair, int], ...]:
        return ((self.dominated_tangent_pair, 1),)

    @property
    def factors(self) -> tuple[tuple[LossPair, int], ...]:
        return ((self.lattice_pair, 1),)

    def delta_and_error(self, epsilon: float) -> tuple[float, float]:
        low, high = self.delta_range(epsilon)
        middle = (low + high) / 2  # itself rounded: how far both ends are from it is the error
        return middle, max(high - middle, middle - low) * (1 + _ROUNDING) + 5e-324

    def delta_range(self, epsilon: float) -> Bounds:
        """Bound δ′(ε) from both sides; for several units the lower bound is the upper one's, which is no lower bound
        of what a mechanism leaks.
        """
        return self.profile_bound(epsilon, above=False), self.profile_bound(epsilon, above=True)

    def profile_bound(self, epsilon: float, *, above: bool) -> float:
        """Bound δ′(ε) from above, or from below."""
        if self.backward:
            return self._backward_profile_bound(epsilon, above)
        weights = self.sampled_weights
        inverse_share = 1 / float(sum(weights.values()))
        base_epsilon = math.log1p(math.expm1(epsilon) * inverse_share) if epsilon < _BEYOND else epsilon
        if epsilon >= _BEYOND:
            base_epsilon += math.log(inverse_share)
        total = sum(
            float(weight) * self._delta_bound_without_sampling(units, base_epsilon, above)
            for units, weight in weights.items()
        )
        return min(1.0, total * (1 + _ROUNDING)) if above else total * (1 - _ROUNDING)

    def _backward_profile_bound(self, epsilon: float, above: bool) -> float:
        rate = float(self.rate)
        if epsilon >= _BEYOND:
            return 0.0
        removed = (1 - rate) * math.expm1(epsilon)
        error = _ROUNDING * (rate + removed) * (1 if above else -1)
        share = rate - removed + error
        if share <= 0:
            return 0.0
        base = self._delta_bound_without_sampling(1, max(0.0, epsilon + math.log(rate / share)), above)
        return min(1.0, share * base * (1 + _ROUNDING)) if above else share * base * (1 - _ROUNDING)

    def _delta_bound_without_sampling(self, changed_units: int, epsilon: float, above: bool) -> float:
        """Bound the δ of the release itself, at an ε that is moved by more than its rounding error."""
        sides = _base_directions(self.parts, changed_units, self.is_replace)
        if not self.is_symmetric:
            sides = (sides[-1] if self.backward else sides[0],)
        moved = Fraction(epsilon * (1 - _ROUNDING if above else 1 + _ROUNDING))
        return max(shape.delta_range(side, moved)[above] for side in sides)

    @cached_property
    def sampled_weights(self) -> dict[int, Fraction]:
        """The probability that i ≥ 1 of the changed units are in the sample, for each i that is possible."""
        if not self.population:
            weights = {
                i: math.comb(self.units, i) * self.rate**i * (1 - self.rate) ** (self.units - i)
                for i in range(1, self.units + 1)
            }
        else:
            size, changed = int(self.rate * self.population), min(self.units, self.population)
            weights = {
                i: Fraction(
                    math.comb(changed, i) * math.comb(self.population - changed, size - i),
                    math.comb(self.population, size),
                )
                for i in range(1, size + 1)
            }
        return {changed: weight for changed, weight in weights.items() if weight}

    @property
    def needs_inversion(self) -> bool:
        """Whether each δ of the release itself takes an inversion."""
        sides = _base_directions(self.parts, 1, self.is_replace)
        return any(len(side) != 1 or side[0][1] != 1 for side in sides)

    @property
    def is_trivial(self) -> bool:
        return all(loss.is_trivial for loss, _ in self.parts)

    @property
    def pure_epsilon(self) -> Fraction:
        return _max_divergence_outside_failure(self.largest_finite_loss, self.failure)

    @property
    def largest_finite_loss(self) -> Fraction:
        """The largest finite loss; of an unbounded release, where its lattice pair ends."""
        return (
            self.lattice_pair.largest_finite_loss
            if self.largest_loss_if_bounded is None
            else Fraction(self.largest_loss_if_bounded)
        )

    @property
    def failure(self) -> Fraction:
        if self.largest_loss_if_bounded is None:
            return self.lattice_pair.failure
        return Fraction(self.profile_bound(_BEYOND, above=True))

    def renyi(self, order: float) -> float:
        return self.lattice_pair.renyi(order)

    @property
    def magnitude(self) -> float:
        return self.lattice_pair.magnitude

    @cached_property
    def largest_loss_if_bounded(self) -> float | None:
        """A bound of the finite losses, a little above the least one; None where they are unbounded."""
        changed = max(self.sampled_weights)
        sides = _base_directions(self.parts, changed, self.is_replace)
        tops = [sum_with_counts_rounded_up((loss.largest_finite_loss, count) for loss, count in side) for side in sides]
        if not self.is_symmetric:
            tops = [tops[-1] if self.backward else tops[0]]
        if self.backward and shape.failure(sides[-1]):  # where P is 0, (1 − q)Q + qP is (1 − q)Q
            return -math.log1p(-float(self.rate)) * (1 + _ROUNDING)
        if any(top is None or top > _MAX_TOP for top in tops):
            return None
        top, share = decimal_float_above(max(top for top in tops if top is not None)), float(self.rate)
        if self.backward:
            return -math.log1p(share * math.expm1(-top)) * (1 + _ROUNDING)
        return math.log1p(float(sum(self.sampled_weights.values())) * math.expm1(top)) * (1 + _ROUNDING)

    @cached_property
    def dominated_tangent_pair(self) -> TangentLoss:
        """A finite pair that this one dominates, for lower bounds of compositions."""
        return _dominated_tangent_pair(self)

    @property
    def knots(self) -> tuple[int, ...]:
        """The lattice points from 0 on at which the profile is computed."""
        positive = (step for step in self.lattice_pair.steps if step > 0)
        return 0, *positive

    @cached_property
    def lattice_pair(self) -> LatticeLoss:
        """A finite pair that dominates this one; compositions use it. The reverse of one dominates the reverse."""
        return _dominating_lattice_pair(self.reversed()).reversed() if self.backward else _dominating_lattice_pair(self)


def _max_divergence_outside_failure(top: Fraction, failure: Fraction) -> Fraction:
    """Bound D∞ of P given Q > 0 against Q given P > 0: the condition on Q raises no ratio P/Q, and that on P divides it
    by 1 − failure.
    """
    return top + Fraction(-math.log1p(-float(failure)) * (1 + _ROUNDING))


def _checked_loss_and_count(part: Any) -> tuple[Loss, int]:
    if not isinstance(part, (tuple, list)) or len(part) != 2 or not isinstance(part[0], Loss):
        raise InvalidParameter("parts", part, "a list of pairs (loss, count)")
    return part[0], exact_integer(part[1], "count", at_least=1)


@lru_cache(maxsize=256)
def _base_directions(parts: tuple[tuple[Loss, int], ...], changed: int, is_replace: bool) -> tuple[shape.Pairs, ...]:
    """Return the release's own pairs for so many changed units, in both directions."""
    grouped = tuple((loss.group(changed), count) for loss, count in parts)
    return shape.composed_directions(grouped, Neighbours.REPLACE if is_replace else Neighbours.ADD_REMOVE)


@dataclass(frozen=True, repr=False)
class LatticeLoss(AtomLoss):
    """The loss of a finite pair whose losses are multiples of ``spacing``."""

    spacing: Fraction
    steps: tuple[int, ...]
    masses: tuple[float, ...]
    """P of each loss; Q is e^−loss times that."""
    mass_at_infinity: float
    """P where Q is 0."""
    reverse_mass_at_infinity: float
    """Q where P is 0."""

    def reversed(self) -> LatticeLoss:
        masses = [
            mass * math.exp(-float(step * self.spacing)) for step, mass in zip(self.steps, self.masses, strict=True)
        ]
        steps = tuple(-step for step in reversed(self.steps))
        return LatticeLoss(
            self.spacing, steps, tuple(reversed(masses)), self.reverse_mass_at_infinity, self.mass_at_infinity
        )

    @cached_property
    def log_moment_parameters(self) -> tuple[Real, Real]:
        return np.array(self.masses)[:, None], np.array([float(step * self.spacing) for step in self.steps])[:, None]

    @property
    def spacing_and_offset(self) -> tuple[Fraction, Fraction]:
        return self.spacing, Fraction(0)

    @property
    def failure(self) -> Fraction:
        return Fraction(self.mass_at_infinity)

    @property
    def largest_finite_loss(self) -> Fraction:
        return self.spacing * max((0, *self.steps))

    @property
    def pure_epsilon(self) -> Fraction:
        return _max_divergence_outside_failure(self.largest_finite_loss, self.failure)

    @property
    def magnitude(self) -> float:
        return float(self.spacing * max(map(abs, self.steps), default=0))


@dataclass(frozen=True, repr=False)
class TangentLoss(AtomLoss):
    """The loss of a finite pair, by its values and their probabilities under P."""

    values: tuple[float, ...]
    masses: tuple[float, ...]
    mass_at_infinity: float
    """P where Q is 0."""

    @cached_property
    def log_moment_parameters(self) -> tuple[Real, Real]:
        return np.array(self.masses)[:, None], np.array(self.values)[:, None]

    @property
    def failure(self) -> Fraction:
        return Fraction(self.mass_at_infinity)

    @property
    def largest_finite_loss(self) -> Fraction:
        return Fraction(max(0.0, *self.values))

    @property
    def magnitude(self) -> float:
        return max(map(abs, self.values))


def _dominated_tangent_pair(loss: SubsampledLoss) -> TangentLoss:
    """Return the pair whose profile is the largest of some lines that are not above the true one, h."""
    knots = sorted({-step for step in loss.reversed().knots} | set(loss.knots))
    spacing = loss.lattice_pair.spacing
    alphas = [math.exp(float(step * spacing)) for step in knots]
    lost = loss.profile_bound(_BEYOND, above=False)
    # Slope and intercept. With S where P > 0, or where Q = 0: no profile is below 1 − α·Q(P > 0), or below its failure.
    steepest = -(1 - loss.reversed().profile_bound(_BEYOND, above=False))
    lines = [(steepest, 1.0), (0.0, lost)]
    for left, alpha, right in zip(alphas, alphas[1:], alphas[2:], strict=False):
        slope, intercept = _supporting_line(loss, (left, alpha, right), alphas[-1])
        if steepest < slope < 0:
            lines.append((slope, intercept - 10 * _TRUNCATED))
    return _envelope_pair(lines, lost)


def _supporting_line(loss: SubsampledLoss, knots: tuple[float, float, float], end: float) -> tuple[float, float]:
    """Return the slope and intercept of a line that touches h, nearly, at the middle knot α and is nowhere above it.

    With chords from α to both sides, convexity gives h(x) ≥ h(α) + s·(x − α), s the slope of the left chord where
    x > α, and that of the right chord where x < α. A line with a slope between the two is lowered by the most that it
    could pass these. If the slope is surely between those of short chords, beyond the neighbouring knots h moves away
    from the line, so they are as far as one need look; where rounding hides the curvature, as on a straight piece,
    one looks to both ends.
    """
    left, alpha, right = knots
    step = _CHORD * min(alpha - left, right - alpha)
    before, here, after = (_privacy_profile(loss, x) for x in (alpha - step, alpha, alpha + step))
    steepest, flattest = (here[1] - before[0]) / step, (after[0] - here[1]) / step
    reach, steps = (left, right), (step, step)
    if steepest > flattest:
        before, after = _privacy_profile(loss, left), _privacy_profile(loss, right)
        reach, steps = (0.0, end), (alpha - left, right - alpha)
    low_slope, high_slope = (here[0] - before[1]) / steps[0], (after[1] - here[0]) / steps[1]
    slope = (steepest + flattest) / 2 if steepest <= flattest else (low_slope + high_slope) / 2
    lowered = max((slope - low_slope) * (reach[1] - alpha), (high_slope - slope) * (alpha - reach[0]))
    return slope, here[0] - max(0.0, lowered) * (1 + _ROUNDING) - slope * alpha


def _privacy_profile(loss: SubsampledLoss, alpha: float) -> Bounds:
    """Bound h(α) = sup P(S) − α·Q(S) at any α > 0; below 1 from the reverse profile."""
    if alpha >= 1:
        return loss.delta_range(math.log(alpha))  # whose own margin covers the rounding of the logarithm
    low, high = loss.reversed().delta_range(-math.log(alpha))
    return 1 - alpha + alpha * low - 2.0**-52, 1 - alpha + alpha * high + 2.0**-52


def _envelope_pair(lines: list[tuple[float, float]], lost: float) -> TangentLoss:
    """Return the pair whose profile is the largest of these lines: a kink at α is a loss of ln α."""
    hull: list[tuple[float, float]] = []
    for line in sorted(lines):
        while len(hull) > 1 and _crossing_of_lines(hull[-2], line) <= _crossing_of_lines(hull[-2], hull[-1]):
            hull.pop()
        hull.append(line)
    kinks = [(_crossing_of_lines(first, second), second[0] - first[0]) for first, second in pairwise(hull)]
    values = tuple(math.log(alpha) for alpha, _ in kinks)
    return TangentLoss(values, tuple(alpha * slope * (1 - _ROUNDING) for alpha, slope in kinks), lost)


def _crossing_of_lines(first: tuple[float, float], second: tuple[float, float]) -> float:
    return (first[1] - second[1]) / (second[0] - first[0])


@lru_cache(maxsize=64)
def _dominating_lattice_pair(loss: SubsampledLoss) -> LatticeLoss:
    """Join the chords of both profiles: that of ε ≥ 0 gives the positive losses, that of the reverse the negative."""
    profiles = loss, loss.reversed()
    ends = [profile.largest_loss_if_bounded for profile in profiles]
    largest = [
        _epsilon_with_negligible_delta(profile) if end is None else end
        for profile, end in zip(profiles, ends, strict=True)
    ]
    spacing = min(Fraction(max(largest)) / _STEPS, Fraction(min(largest)) / _LEAST_STEPS)
    if ends[0] is not None:  # so that the largest loss is a lattice point
        spacing = Fraction(largest[0]) / math.ceil(Fraction(largest[0]) / spacing)
    resolution = _COARSE_RESOLUTION if loss.needs_inversion else _RESOLUTION
    forward, backward = (
        _chord_masses(
            profile, _lattice_steps(math.ceil(Fraction(size) / spacing), resolution), spacing, bounded=end is not None
        )
        for profile, size, end in zip(profiles, largest, ends, strict=True)
    )
    # A loss of −x has P = e^−x·Q, and its Q is the P of the reverse pair.
    masses = {
        -step: mass * math.exp(-float(step * spacing)) for step, mass in backward.mass_by_step.items()
    } | forward.mass_by_step
    masses[0] = max(0.0, 1 - forward.mass_at_infinity - math.fsum(masses.values()))
    steps = sorted(step for step in masses if masses[step])
    return LatticeLoss(
        spacing,
        tuple(steps),
        tuple(masses[step] for step in steps),
        forward.mass_at_infinity,
        backward.mass_at_infinity,
    )


def _epsilon_with_negligible_delta(loss: SubsampledLoss) -> float:
    """Return an ε beyond which almost nothing of an unbounded loss is left: the rest counts as failure."""
    low, high = 0.0, 1.0
    while loss.profile_bound(high, above=True) > _TRUNCATED and high < _BEYOND:
        low, high = high, min(_BEYOND, 2 * high)
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if loss.profile_bound(middle, above=True) > _TRUNCATED else (low, middle)
    return high


def _lattice_steps(count: int, resolution: int) -> list[int]:
    """Return lattice points from 0 to ``count``: all of the first, then ever fewer."""
    steps = [0]
    while steps[-1] < count:
        steps.append(min(count, steps[-1] + max(1, steps[-1] // resolution)))
    return steps


@dataclass(frozen=True)
class _ChordMasses:
    mass_by_step: dict[int, float]
    """P of each positive loss, in steps."""
    mass_at_infinity: float


def _chord_masses(loss: SubsampledLoss, steps: Sequence[int], spacing: Fraction, *, bounded: bool) -> _ChordMasses:
    """Return the pair whose profile is the lower convex hull of the points (e^ε, δ), constant after the last.

    The true profile is convex and not above the points, so it is not above their hull. The slope between two points is
    −Q(L > ε), and P is e^ε·Q at each loss.
    """
    points = [
        (math.exp(float(step * spacing)), loss.profile_bound(float(step * spacing), above=True), step) for step in steps
    ]
    if bounded:  # only the failure is left there
        points[-1] = (points[-1][0], loss.profile_bound(_BEYOND, above=True), points[-1][2])
    hull: list[tuple[float, float, int]] = []
    for point in points:
        while len(hull) > 1 and _is_above_chord(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(hull)] + [0.0]
    atoms = {
        point[2]: point[0] * max(0.0, slopes[i] - slopes[i - 1]) * (1 + _ROUNDING)
        for i, point in enumerate(hull)
        if i > 0
    }
    return _ChordMasses({step: mass for step, mass in atoms.items() if mass}, hull[-1][1])


def _is_above_chord(a: tuple[float, float, int], b: tuple[float, float, int], c: tuple[float, float, int]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
