"""One unit can change only so much: the query limits it by one of these strategies, each with the sensitivity it
proves.

Notation: a unit has at most m rows that count, g groups, c rows in one group; M is the largest size of one row's
contribution. T = min(m, g·c) rows in all. Every contribution is a whole number of steps.

- *whole*: every unit has one row (k rows after joins with public tables): Δ₁ = Δ∞ = kM.
- *reweight*: each row counts min(1, m/R), R the unit's rows after joins and WHERE. All of it may fall in one group:
  Δ₁ = Δ₂ = Δ∞ = mM. Weighted values round toward zero.
- *clip*: a unit's vector over groups is cut to Δ∞ = cM per group and then scaled to the norm of the noise:
  Δ₁ = TM, or Δ₂ = the longest vector that c per group and T in all allow: ⌊T/c⌋ groups of c and one of the rest.
  Scaled values round toward zero.
- *sample*: at most g groups, c rows in a group and m rows in all are kept, those of the smallest ranks. The rank of a
  group is the MD5 of a fresh secret key and of the group's key as text, that of a row of its values too; equal ranks
  are ordered by the keys and values themselves, so rows that still tie are equal and either may be kept. Limits that
  the others imply are not applied (g ≥ m: m rows lie in at most g groups), and a unit within all limits keeps its rows.

Proof for reweight, clip and sample: what a unit contributes is a function of its own rows (and the key) alone, so
neighbours differ by one such vector, whose norms are bounded by construction (theory of bounded contributions:
Wilson et al. 2020). ∎

A replaced unit. Let one row of a measure with a single total add between −B ≤ 0 and A ≥ 0, with M = max(A, B). Under
every strategy a unit's part v of a group lies in the box [−cB, cA] (reweight: m for c): sampled rows are at most c,
weights are at most m in all, and clipping cuts to the box first and then scales toward 0, which stays in it. So two
units' parts differ by at most c(A + B) in a group. They differ by at most 2TM in all (reweight: 2mM), and Σd² ≤
max|d|·Σ|d| ≤ 2T·c·M·(A + B). After clipping to a length, ‖d‖₂ is at most twice that, √2 times if values have one sign.
A + B is M for one sign and 2M for equal bounds; it is never high − low: a row may be missing, or NULL. A measure with
several totals is scaled as one vector, which keeps the ratio of its totals but no box: there every norm doubles,
unless all values have one sign. ∎

Rounded totals. Where one unit may add more than ``MOST_STEPS`` steps, a total t is released as r(t) = ⌊t/u + 1/2⌋, its
number of units of u steps. Theorem: let v be what a unit adds to the totals of the others, t, and w = r(t + v) − r(t).
Then w has the signs of v or is 0, w_j = 0 where v_j = 0, |w_j| ≤ ⌈|v_j|/u⌉, and over h totals with v_j ≠ 0
Σ|w_j| ≤ ⌈Σ|v_j|/u⌉ + h − 1 and ‖w‖₂ ≤ ‖v‖₂/u + √h. *Proof.* r never falls, and r(t + k·u) = r(t) + k for whole k: so
0 ≤ v_j ≤ k·u gives 0 ≤ w_j ≤ k, and a unit that takes away −v_j is the same read backwards. Σ⌈x_j⌉ is a whole number
below Σx_j + h, or Σx_j itself; ⌈x_j⌉ ≤ x_j + 1. ∎ (Rounding halves away from 0 would not do: −u/2 and u/2 are u apart,
and would become −1 and 1.) A replaced unit moves the totals of the others by w − w′, of which each obeys the theorem:
everything above, and in ``readings``, holds for w as it does for v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from sfumato.plan.aggregates.measures import (
    MOST_STEPS,
    Contribution,
    Count,
    Distinct,
    Measure,
    rounding,
)
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import (
    Aggregate,
    Bound,
    Filter,
    Join,
    Relation,
    Scan,
    SemiJoin,
    Union,
    Unnest,
    Window,
    relations,
)
from sfumato.policy.values import MOST_ROWS
from sfumato.privacy import Neighbours, Sensitivity

_FRACTION_BITS = 20


@dataclass(frozen=True)
class ScaledMeasure:
    """A measure is scaled to whole steps: each row's contribution is a whole number in [low, high]."""

    measure: Measure
    step: Fraction
    """What one step of a row's value is worth."""
    low: int
    high: int
    bits: int
    """Totals are in 2^-bits of a step: parts of steps, or, below 0, several steps, to which each total is rounded."""
    sensitivity: Sensitivity
    """What one unit changes, in units of the totals."""
    added: Sensitivity
    """What a unit that is added or removed changes, whatever the neighbours are."""

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        """List what a row adds to each total."""
        return self.measure.contributions(self.step, self.low, self.high)

    @property
    def coordinates(self) -> int:
        """Count the totals in a group."""
        return self.measure.noises

    @property
    def middle(self) -> tuple[Fraction, ...]:
        """Give what a row in the middle of its range adds to each total, in the measure's own terms."""
        return self.measure.middle(self.step, self.low, self.high)

    @property
    def size(self) -> int:
        """Give the largest contribution of one row: for a mean, to its two sums together."""
        return self.measure.size(self.low, self.high)

    @property
    def signed(self) -> bool:
        """Tell whether contributions to a total have both signs."""
        return any(each.low < 0 < each.high for each in self.contributions)

    @property
    def box(self) -> tuple[int, int] | None:
        """Bound what one row, which may be missing, adds to the only total; None where it adds to several."""
        if self.coordinates > 1:
            return None
        (only,) = self.contributions
        return min(only.low, 0), max(only.high, 0)

    @property
    def unit_value(self) -> Fraction:
        """Say what one whole number in the totals is worth."""
        return self.step / Fraction(2) ** self.bits

    @property
    def rounding(self) -> Fraction:
        """Bound how far a total of at most ``MOST_ROWS`` rows lies from the sum of their values, apart from limits: the
        total is rounded to a unit once, and each value to a step, unless all of them are whole steps.
        """
        value, once = self.measure.value, self.unit_value / 2 if self.bits < 0 else Fraction(0)
        return once if value is None else once + MOST_ROWS * rounding(value, self.step)


@dataclass(frozen=True)
class BoundedPlan:
    """The rows of such a plan are bounded: this says what the engine computes, and what one unit can change."""

    plan: Aggregate
    measures: tuple[ScaledMeasure, ...]
    finds: bool = False
    """Groups are found in the data, and the last measure counts who holds a key: it selects, and gets no noise."""

    @property
    def noised(self) -> tuple[ScaledMeasure, ...]:
        """List the measures whose totals are released with noise."""
        return self.measures[:-1] if self.finds else self.measures

    @property
    def bound(self) -> Bound:
        """Give the node under the aggregate, which limits what one unit contributes."""
        found = self.plan.source
        assert isinstance(found, Bound)
        return found

    @property
    def strategy(self) -> Strategy:
        return self.bound.strategy

    @property
    def every_row(self) -> bool:
        """Tell whether the rows of the private table are the units."""
        return any(isinstance(node, Scan) and node.every_row for node in relations(self.plan.source))

    @property
    def limits(self) -> Limits:
        return self.bound.limits


def boundings(plan: Aggregate, limits: Limits, groups: int) -> tuple[BoundedPlan, ...]:
    """List every sound strategy to limit one unit in this plan, cheapest first; where the plan limits it already, that
    one.
    """
    most = whole_rows(plan.source)
    once = any(measure.once_per_unit for measure in plan.measures)
    limits = limits if most is None else Limits(most, most, most)
    if most is not None and (most == 1 or not once):
        return (_bounded(plan, Strategy.WHOLE, limits, groups),)
    clips = [Strategy.CLIP_L1, Strategy.CLIP_L2]
    strategies = [*clips, Strategy.SAMPLE]
    if not once:
        # a single group is clipped with one pass over the units; several need a second, and reweighting does not
        strategies = [*clips, Strategy.REWEIGHT, Strategy.SAMPLE] if groups == 1 else [Strategy.REWEIGHT, *strategies]
    return tuple(_bounded(plan, strategy, limits, groups) for strategy in strategies)


def whole_rows(relation: Relation) -> int | None:
    """Give the most rows of one unit where they count as they are: one, one beside its matches in public tables or for
    each item of its lists, or one of each part of a union.
    """
    if relation.most_rows == 1:
        return 1
    if isinstance(relation, (Filter, Window, SemiJoin)):
        return whole_rows(relation.input)
    if isinstance(relation, Join):
        found = whole_rows(relation.input)
        return None if found is None else found * relation.multiplicity
    if isinstance(relation, Unnest):
        found = whole_rows(relation.input)
        return None if found is None else found * relation.most
    if isinstance(relation, Union):
        parts = [each for each in map(whole_rows, relation.inputs) if each is not None]
        return sum(parts) if len(parts) == len(relation.inputs) else None
    return None


def found_bounding(plan: Aggregate, limits: Limits) -> BoundedPlan:
    """Bound the rows where groups are found in the data: a unit's rows are sampled, so that it is in at most g groups
    and no more of them can show that it is there. One more measure counts who holds a key.

    A vector over unknown groups has no length; what two units together can move is at most 2g of its parts.
    """
    most = whole_rows(plan.source)
    whole = most is not None and (most == 1 or not any(measure.once_per_unit for measure in plan.measures))
    allowed = limits if most is None else Limits(most, most, most)
    strategy, holders = (Strategy.WHOLE, Count()) if whole else (Strategy.SAMPLE, Distinct())
    measured = replace(plan, measures=(*plan.measures, holders))
    return replace(_bounded(measured, strategy, allowed, 2 * allowed.groups), finds=True)


def whole_bounding(plan: Aggregate, limits: Limits, groups: int) -> BoundedPlan:
    """Bound the rows where each counts as it is or not at all: ranks have no parts of rows."""
    most = whole_rows(plan.source)
    if most is not None:
        return _bounded(plan, Strategy.WHOLE, Limits(most, most, most), groups)
    return _bounded(plan, Strategy.SAMPLE, limits, groups)


def weighted_bounding(plan: Aggregate, limits: Limits, groups: int, bits: int = _FRACTION_BITS) -> BoundedPlan:
    """Bound the rows where all rows of a unit count alike: each whole, or with one weight for all, which is a multiple
    of 2^-bits. Totals of fine groups then add up to those of coarse ones, and a unit is limited in all of them at once.
    """
    most = whole_rows(plan.source)
    if most is not None:
        return _bounded(plan, Strategy.WHOLE, Limits(most, most, most), groups)
    return _bounded(plan, Strategy.REWEIGHT, limits, groups, bits)


def for_neighbours(bounded: BoundedPlan, neighbours: Neighbours) -> BoundedPlan:
    """State the sensitivities for these neighbours."""
    return replace(
        bounded,
        measures=tuple(replace(each, sensitivity=_for_neighbours(each, neighbours)) for each in bounded.measures),
    )


def _for_neighbours(scaled: ScaledMeasure, neighbours: Neighbours) -> Sensitivity:
    """State the sensitivity for neighbours: two units may change instead of one, in a vector that is no longer for
    it; see the module's text.
    """
    own = scaled.sensitivity
    found = own.for_neighbours(neighbours, signed=scaled.signed)
    if found is own:
        return own
    moved = found.per_group if scaled.box is None else own.per_group * _width(*scaled.box) / scaled.size
    length = min(found.groups, own.groups)
    total = min(found.total, Fraction(math.isqrt(length * int(found.squares))))  # of whole numbers, by Cauchy–Schwarz
    return Sensitivity(length, math.ceil(moved), total, found.squares, found.neighbours)


def _width(low: int, high: int) -> int:
    return max(1, high - low)


def _bounded(
    plan: Aggregate, strategy: Strategy, limits: Limits, groups: int, bits: int = _FRACTION_BITS
) -> BoundedPlan:
    """Rewrite a plan: a Bound is put between the aggregate and its rows."""
    effective = replace(limits, groups=min(limits.groups, groups))
    measured = cast("tuple[Measure, ...]", plan.measures)  # what is asked has become what is measured by now
    measures = tuple(_scaled(each, strategy, effective, groups, bits) for each in measured)
    return BoundedPlan(replace(plan, source=Bound(plan.source, strategy, effective)), measures)


def _scaled(measure: Measure, strategy: Strategy, limits: Limits, groups: int, most_bits: int) -> ScaledMeasure:
    own = limits.of_measure(measure)
    reach = own.rows if strategy is Strategy.REWEIGHT else own.total
    coordinates = groups * measure.noises
    step = measure.step(reach << _spare_bits(strategy, coordinates))
    low, high = measure.held(step)
    size = measure.size(low, high)
    bits = _bits(size * reach, most_bits if strategy.fractional else 0, rounds=measure.value is not None)
    change = _sensitivity(strategy, size << max(bits, 0), own, coordinates)
    if bits < 0:
        scales = strategy is not Strategy.WHOLE and strategy is not Strategy.SAMPLE
        change = _rounded(change, 1 << -bits, coordinates if scales else min(coordinates, own.total * measure.noises))
    return ScaledMeasure(measure, step, low, high, bits, change, change)


def _spare_bits(strategy: Strategy, coordinates: int) -> int:
    """Leave room for squares: those of one unit in all groups are added up in a number of 110 bits."""
    return 4 + (coordinates.bit_length() + 1) // 2 if strategy is Strategy.CLIP_L2 else 0


def _rounded(change: Sensitivity, unit: int, touched: int) -> Sensitivity:
    """Bound how far totals rounded to units move, of which a unit changes so many; see the module's text."""
    length = math.isqrt(math.ceil(change.squares)) + 1 + unit * (math.isqrt(touched) + 1)
    return Sensitivity(
        change.groups,
        math.ceil(change.per_group / unit),
        math.ceil(change.total / unit) + touched - 1,
        math.ceil(Fraction(length, unit) ** 2),
        change.neighbours,
    )


def _sensitivity(strategy: Strategy, size: int, limits: Limits, coordinates: int) -> Sensitivity:
    """Bound what one unit changes, for add-remove neighbours; see the module's text."""
    rows, per_group, total = limits.rows, limits.rows_per_group, limits.total
    if strategy is Strategy.REWEIGHT:
        return Sensitivity(coordinates, rows * size, total=rows * size)
    if strategy is Strategy.CLIP_L2:
        # the scaling is done in doubles: its relative error, below 2^-49, is covered by 2^-40
        squares = math.floor(longest(per_group * size, total * size) * (1 + Fraction(1, 2**40)))
        return Sensitivity(coordinates, per_group * size, math.isqrt(coordinates * squares), squares)
    return Sensitivity(coordinates, per_group * size, total=total * size)


def longest(per_group: int, total: int) -> int:
    """Find the largest Σv² with every |v| ≤ per_group and Σ|v| ≤ total: no unit within its limits is longer."""
    full, rest = divmod(total, per_group)
    return full * per_group**2 + rest**2


def _bits(steps: int, most: int, *, rounds: bool) -> int:
    """Find the finest parts of a step, or else the fewest steps, of which one unit adds a moderate number; a count of
    rows is never rounded.
    """
    bits = most
    while (bits > 0 or rounds) and steps * Fraction(2) ** bits > MOST_STEPS:
        bits -= 1
    return bits
