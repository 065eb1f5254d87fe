"""One unit can change only so much: the query limits it by one of these strategies, each with the sensitivity it
proves.

Notation: a unit has at most m rows that count, g groups, c rows in one group; M is the largest size of one row's
contribution. T = min(m, g·c) rows in all. Every contribution is a whole number of steps.

- *whole*: every unit has one row (k rows after joins with public tables): Δ₁ = Δ∞ = kM.
- *reweight*: each row counts min(1, m/R), R the unit's rows after joins and WHERE. All of it may fall in one group:
  Δ₁ = Δ₂ = Δ∞ = mM. Weighted values round toward zero.
- *clip*: a unit's vector over groups is cut to Δ∞ = cM per group and then scaled to the norm of the noise:
  Δ₁ = TM, or Δ₂ = the longest vector that c per group and T in all allow: ⌊T/c⌋ groups of c and one of the rest.
  Scaled values round toward zero. Where c ≥ T and values have one sign, a unit's rows are scaled one by one, with the
  same claims and no cap before (``engine.lowering.clip_scaling``).
- *sample*: at most g groups, c rows in a group and m rows in all are kept, those of the smallest ranks. A rank mixes a
  seed, drawn from a fresh key and the unit's id, with the group's key, or the row's key and values
  (``engine.lowering.sample_ranks``), or the unit's groups are taken in turn from one that the seed decides
  (``engine.lowering.sampled_rows``); equal ranks are ordered by the keys and values themselves, so rows that still tie
  are equal and either may be kept. Limits that the others imply are not applied (g ≥ m: m rows lie in at most g
  groups), and a unit within all limits keeps its rows.
- *match*: of distinct values alone. A unit keeps at most m pairs of a group and a value, those that no unit before it
  keeps: Δ₁ = Δ₂ = Δ∞ = m. What it keeps depends on other units; the proof is in ``readings.dense_readings``.

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

Rounded totals. Where one unit may add more than ``MAX_STEPS`` steps, a total t is released as r(t) = ⌊t/u + 1/2⌋, its
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
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import cast

from sfumato.caching import cached_property
from sfumato.plan.aggregates.disjoint import members_of
from sfumato.plan.aggregates.measures import (
    MAX_STEPS,
    Count,
    DistinctUnits,
    Measure,
    RowContribution,
    step_rounding_error,
)
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import (
    Aggregate,
    AnySemiJoin,
    BoundContributions,
    Filter,
    PublicJoin,
    Relation,
    Scan,
    SemiJoin,
    Union,
    Unnest,
    Window,
    relations,
)
from sfumato.policy.policies import MAX_ROWS
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.quick_dataclass import dataclass

_FRACTION_BITS = 20


@dataclass(frozen=True)
class ScaledMember:
    """A measure of which results are computed: one taken alone, or one of several that are taken together."""

    measure: Measure
    step: Fraction
    low: int
    high: int
    unit_value: Fraction
    """The value of one unit of its totals."""
    rounding: Fraction
    """The largest error of its totals from rounding."""
    share_index: int
    """The index of the scaled measure that it is released with, and whose share of the price pays for it."""

    @property
    def coordinates(self) -> int:
        return self.measure.noise_count

    @property
    def size(self) -> int:
        return self.measure.max_row_contribution(self.low, self.high)

    @property
    def middle_row_contributions(self) -> tuple[Fraction, ...]:
        """What a row in the middle of its range adds to each total, in the measure's own terms."""
        return self.measure.middle_row_contributions(self.step, self.low, self.high)


@dataclass(frozen=True)
class ScaledMeasure:
    """A measure in whole steps: the contribution of each row is an integer in [low, high]."""

    measure: Measure
    step: Fraction
    """The value of one step."""
    low: int
    high: int
    bits: int
    """Totals are in units of 2^-bits steps: fractions of a step, or, if negative, several steps to which each total is
    rounded.
    """
    sensitivity: Sensitivity
    """What one unit changes under the neighbours of the release, in units of the totals."""
    add_remove_sensitivity: Sensitivity
    """What adding or removing one unit changes, whatever the neighbours are."""

    @property
    def contributions(self) -> tuple[RowContribution, ...]:
        """What a row adds to each total."""
        return self.measure.contributions(self.step, self.low, self.high)

    @property
    def coordinates(self) -> int:
        """The number of totals per group."""
        return self.measure.noise_count

    @property
    def middle_row_contributions(self) -> tuple[Fraction, ...]:
        """What a row in the middle of its range adds to each total, in the measure's own terms."""
        return self.measure.middle_row_contributions(self.step, self.low, self.high)

    @property
    def size(self) -> int:
        """The largest contribution of one row to all totals together: for a mean, to its two sums."""
        return self.measure.max_row_contribution(self.low, self.high)

    @property
    def signed(self) -> bool:
        """Whether contributions to a total may have both signs."""
        return any(contribution.low < 0 < contribution.high for contribution in self.contributions)

    @property
    def row_contribution_bounds(self) -> tuple[int, int] | None:
        """The bounds of what one row, which may be missing, adds to the only total; None if there are several."""
        if self.coordinates > 1:
            return None
        (contribution,) = self.contributions
        return min(contribution.low, 0), max(contribution.high, 0)

    @property
    def unit_value(self) -> Fraction:
        """The value of one unit of the totals."""
        return self.step / Fraction(2) ** self.bits

    @property
    def rounding(self) -> Fraction:
        """Bound the error of a total of at most ``MAX_ROWS`` rows from rounding, apart from limits: the total is
        rounded to a unit once, and each value to a step, unless all values are whole steps.
        """
        return self._total_rounding_error(self.measure, self.unit_value)

    def members(self, share_index: int) -> tuple[ScaledMember, ...]:
        """Return the measures that results are computed from; ``share_index`` is the index of this measure."""
        return tuple(self._member(measure, share_index) for measure in members_of(self.measure))

    def _member(self, measure: Measure, share_index: int) -> ScaledMember:
        if measure.value is None:  # a row counts as much as a value may: 1 where no values are summed
            unit = self.unit_value / (self.size * self.step)
            return ScaledMember(
                measure, Fraction(1), 0, 1, unit, self._total_rounding_error(measure, unit), share_index
            )
        rounding_error = self._total_rounding_error(measure, self.unit_value)
        return ScaledMember(measure, self.step, self.low, self.high, self.unit_value, rounding_error, share_index)

    def _total_rounding_error(self, measure: Measure, unit: Fraction) -> Fraction:
        total_rounding = unit / 2 if self.bits < 0 else Fraction(0)
        return (
            total_rounding
            if measure.value is None
            else total_rounding + MAX_ROWS * step_rounding_error(measure.value, self.step)
        )


@dataclass(frozen=True)
class BoundedPlan:
    """A plan with bounded rows: what the engine computes, and what one unit can change."""

    plan: Aggregate
    measures: tuple[ScaledMeasure, ...]
    discovers_groups: bool = False
    """Whether groups are discovered in the data; the last measure then counts the units of a key, selects the groups,
    and gets no noise of its own.
    """
    sample: Fraction | None = None
    """The probability with which each unit is read, all its rows or none; None where all units are."""

    @property
    def noisy_measures(self) -> tuple[ScaledMeasure, ...]:
        """The measures whose totals are released with noise."""
        return self.measures[:-1] if self.discovers_groups else self.measures

    @cached_property
    def members(self) -> tuple[ScaledMember, ...]:
        """The measures that results are computed from, in the order of their noisy totals."""
        return tuple(member for share, scaled in enumerate(self.noisy_measures) for member in scaled.members(share))

    @cached_property
    def first_columns(self) -> tuple[int, ...]:
        """The first column of each measure among the totals of all."""
        return tuple(accumulate((scaled.coordinates for scaled in self.measures[:-1]), initial=0))

    @property
    def bounding_node(self) -> BoundContributions:
        """The node below the aggregate, which limits what one unit contributes."""
        source = self.plan.source
        assert isinstance(source, BoundContributions)
        return source

    @property
    def strategy(self) -> Strategy:
        return self.bounding_node.strategy

    @property
    def every_row_is_unit(self) -> bool:
        """Whether the rows of the private table are the units."""
        return any(isinstance(node, Scan) and node.every_row for node in relations(self.plan.source))

    @property
    def limits(self) -> ContributionLimits:
        return self.bounding_node.limits


def candidate_bounded_plans(plan: Aggregate, limits: ContributionLimits, groups: int) -> tuple[BoundedPlan, ...]:
    """List the sound bounding strategies for a plan, cheapest first; if the plan itself bounds the rows of a unit, only
    WHOLE.
    """
    proven_rows = proven_rows_per_unit(plan.source)
    counts_units = any(measure.once_per_unit for measure in plan.measures)
    limits = limits if proven_rows is None else ContributionLimits(proven_rows, proven_rows, proven_rows)
    if proven_rows is not None and (proven_rows == 1 or not counts_units):
        return (_bound_plan(plan, Strategy.WHOLE, limits, groups),)
    clips = [Strategy.CLIP_L1, Strategy.CLIP_L2]
    strategies = [*clips, Strategy.SAMPLE]
    if not counts_units:
        # a single group is clipped with one pass over the units; several need a second, and reweighting does not
        strategies = [*clips, Strategy.REWEIGHT, Strategy.SAMPLE] if groups == 1 else [Strategy.REWEIGHT, *strategies]
    return tuple(_bound_plan(plan, strategy, limits, groups) for strategy in strategies)


def proven_rows_per_unit(relation: Relation) -> int | None:
    """Return the most rows of one unit if they need no bounding: one, one with its matches in public tables or one for
    each item of its lists, or the sum over the members of a union; else None.
    """
    if relation.max_rows_per_unit == 1:
        return 1
    if isinstance(relation, (Filter, Window, SemiJoin, AnySemiJoin)):
        return proven_rows_per_unit(relation.input)
    if isinstance(relation, PublicJoin):
        input_rows = proven_rows_per_unit(relation.input)
        return None if input_rows is None else input_rows * relation.multiplicity
    if isinstance(relation, Unnest):
        input_rows = proven_rows_per_unit(relation.input)
        return None if input_rows is None else input_rows * relation.most
    if isinstance(relation, Union):
        member_rows = [rows for rows in map(proven_rows_per_unit, relation.inputs) if rows is not None]
        return sum(member_rows) if len(member_rows) == len(relation.inputs) else None
    return None


def bound_for_discovery(plan: Aggregate, limits: ContributionLimits) -> BoundedPlan:
    """Bound the rows of a plan whose groups are discovered in the data: the rows of a unit are sampled, so that it is
    in at most g groups and no more of them can show that it is there. One more measure counts the units of a key.

    A vector over unknown groups has no length; what two units together can move is at most 2g of its parts.
    """
    proven_rows = proven_rows_per_unit(plan.source)
    needs_no_sampling = proven_rows is not None and (
        proven_rows == 1 or not any(measure.once_per_unit for measure in plan.measures)
    )
    effective_limits = limits if proven_rows is None else ContributionLimits(proven_rows, proven_rows, proven_rows)
    strategy, holders = (Strategy.WHOLE, Count()) if needs_no_sampling else (Strategy.SAMPLE, DistinctUnits())
    counted_plan = replace(plan, measures=(*plan.measures, holders))
    return replace(
        _bound_plan(counted_plan, strategy, effective_limits, 2 * effective_limits.groups), discovers_groups=True
    )


def bound_by_whole_rows(
    plan: Aggregate, limits: ContributionLimits, groups: int, max_steps: int | None = None
) -> BoundedPlan:
    """Bound the rows by sampling whole rows, as ranks need: a row counts in full or not at all. Values have at most
    ``max_steps`` steps: each row's value is rounded to them, so a unit moves no more ranks than it has rows.
    """
    proven_rows = proven_rows_per_unit(plan.source)
    if proven_rows is not None:
        limits = ContributionLimits(proven_rows, proven_rows, proven_rows)
        return _bound_plan(plan, Strategy.WHOLE, limits, groups, max_steps=max_steps)
    return _bound_plan(plan, Strategy.SAMPLE, limits, groups, max_steps=max_steps)


def bound_distinct_values(bounded_plan: BoundedPlan, max_values: int) -> BoundedPlan:
    """Bound a count of distinct values by matching: at most so many values of one unit, in all groups together."""
    (scaled,) = bounded_plan.measures
    assert bounded_plan.sample is None
    assert not bounded_plan.discovers_groups
    plan, limits = (
        replace(bounded_plan.plan, source=bounded_plan.bounding_node.input),
        ContributionLimits(max_values, max_values, max_values),
    )
    matched = _bound_plan(plan, Strategy.MATCH, limits, scaled.add_remove_sensitivity.groups)
    return for_neighbours(matched, scaled.sensitivity.neighbours)


def bound_by_unit_weights(
    plan: Aggregate, limits: ContributionLimits, groups: int, bits: int = _FRACTION_BITS
) -> BoundedPlan:
    """Bound the rows so that all rows of a unit have the same weight, 1 or a multiple of 2^-bits. Totals of fine groups
    then add up to those of coarse ones, and a unit is limited in all of them at once.
    """
    proven_rows = proven_rows_per_unit(plan.source)
    if proven_rows is not None:
        return _bound_plan(plan, Strategy.WHOLE, ContributionLimits(proven_rows, proven_rows, proven_rows), groups)
    return _bound_plan(plan, Strategy.REWEIGHT, limits, groups, bits)


def for_neighbours(bounded_plan: BoundedPlan, neighbours: Neighbours) -> BoundedPlan:
    """Return the plan with the sensitivities for these neighbours."""
    return replace(
        bounded_plan,
        measures=tuple(
            replace(scaled, sensitivity=_sensitivity_for_neighbours(scaled, neighbours))
            for scaled in bounded_plan.measures
        ),
    )


def _sensitivity_for_neighbours(scaled: ScaledMeasure, neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity for these neighbours. Replacing a unit changes what two units contribute, in a vector of
    the same coordinates; see the module's text.
    """
    added = scaled.sensitivity
    changed = added.for_neighbours(neighbours, signed=scaled.signed)
    if changed is added:
        return added
    per_group = (
        changed.per_group
        if scaled.row_contribution_bounds is None
        else added.per_group * _step_width(*scaled.row_contribution_bounds) / scaled.size
    )
    groups = min(changed.groups, added.groups)
    euclidean = Fraction(math.isqrt(groups * int(changed.squares)))  # of whole numbers, by Cauchy–Schwarz
    total = min(changed.total, euclidean)
    return Sensitivity(groups, math.ceil(per_group), total, changed.squares, changed.neighbours)


def _step_width(low: int, high: int) -> int:
    return max(1, high - low)


def _bound_plan(
    plan: Aggregate,
    strategy: Strategy,
    limits: ContributionLimits,
    groups: int,
    bits: int = _FRACTION_BITS,
    *,
    max_steps: int | None = None,
) -> BoundedPlan:
    """Insert ``BoundContributions`` between the aggregate and its rows, and scale the measures to whole steps."""
    effective_limits = replace(limits, groups=min(limits.groups, groups))
    plan_measures = cast("tuple[Measure, ...]", plan.measures)  # what is asked has become what is measured by now
    measures = tuple(
        _scale_measure(measure, strategy, effective_limits, groups, bits, max_steps) for measure in plan_measures
    )
    return BoundedPlan(replace(plan, source=BoundContributions(plan.source, strategy, effective_limits)), measures)


def _scale_measure(
    measure: Measure,
    strategy: Strategy,
    limits: ContributionLimits,
    groups: int,
    max_bits: int,
    max_steps: int | None = None,
) -> ScaledMeasure:
    measure_limits = limits.for_measure(measure)
    max_weight = measure_limits.rows if strategy is Strategy.REWEIGHT else measure_limits.total
    coordinates = groups * measure.noise_count
    step = measure.step_for_rows(max_weight << _bits_reserved_for_squares(strategy, coordinates))
    low, high = measure.row_value_range_in_steps(step)
    while max_steps is not None and high - low >= max_steps:
        step *= 2
        low, high = measure.row_value_range_in_steps(step)
    size = measure.max_row_contribution(low, high)
    bits = _resolution_bits(
        size * max_weight, max_bits if strategy.is_fractional else 0, rounds=measure.value is not None
    )
    sensitivity = _add_remove_sensitivity(strategy, size << max(bits, 0), measure_limits, coordinates)
    if bits < 0:
        scales_rows = strategy is not Strategy.WHOLE and strategy is not Strategy.SAMPLE
        sensitivity = _sensitivity_after_rounding(
            sensitivity,
            1 << -bits,
            coordinates if scales_rows else min(coordinates, measure_limits.total * measure.noise_count),
        )
    return ScaledMeasure(measure, step, low, high, bits, sensitivity, sensitivity)


def _bits_reserved_for_squares(strategy: Strategy, coordinates: int) -> int:
    """Return the bits to leave free for squares: those of one unit in all groups are added up in 110 bits."""
    return 4 + (coordinates.bit_length() + 1) // 2 if strategy is Strategy.CLIP_L2 else 0


def _sensitivity_after_rounding(sensitivity: Sensitivity, unit: int, touched: int) -> Sensitivity:
    """Return the sensitivity of totals rounded to units, ``touched`` of which a unit changes; see the module's text."""
    length = math.isqrt(math.ceil(sensitivity.squares)) + 1 + unit * (math.isqrt(touched) + 1)
    return Sensitivity(
        sensitivity.groups,
        math.ceil(sensitivity.per_group / unit),
        math.ceil(sensitivity.total / unit) + touched - 1,
        math.ceil(Fraction(length, unit) ** 2),
        sensitivity.neighbours,
    )


def _add_remove_sensitivity(strategy: Strategy, size: int, limits: ContributionLimits, coordinates: int) -> Sensitivity:
    """Return the add-remove sensitivity of a strategy; see the module's text."""
    rows, per_group, total = limits.rows, limits.rows_per_group, limits.total
    if strategy is Strategy.REWEIGHT:
        return Sensitivity(coordinates, rows * size, total=rows * size)
    if strategy is Strategy.CLIP_L2:
        # the scaling is done in doubles: its relative error, below 2^-49, is covered by 2^-40
        squares = math.floor(max_squared_norm(per_group * size, total * size) * (1 + Fraction(1, 2**40)))
        return Sensitivity(coordinates, per_group * size, math.isqrt(coordinates * squares), squares)
    return Sensitivity(coordinates, per_group * size, total=total * size)


def max_squared_norm(per_group: int, total: int) -> int:
    """Return the largest Σv² with every |v| ≤ per_group and Σ|v| ≤ total: no unit within its limits is longer."""
    full_groups, remainder = divmod(total, per_group)
    return full_groups * per_group**2 + remainder**2


def _resolution_bits(steps: int, max_bits: int, *, rounds: bool) -> int:
    """Return the finest resolution at which one unit adds at most ``MAX_STEPS``: fractions of a step, or several steps
    for values that may be rounded; a count of rows is never rounded. ``MAX_STEPS`` is a power of two.
    """
    finest = (MAX_STEPS - 1).bit_length() - (steps - 1).bit_length()
    return min(max_bits, finest if rounds else max(0, finest))
