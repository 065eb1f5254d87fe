"""How clipping scales a unit's totals: in one group to what its rows there may count, over all groups to a norm.

Notation: a unit has n rows in at least G groups, n_k of them in group k; at most c rows count in a group and T in all,
and a row adds a vector v with Σ|v| ≤ M. Coordinates of a group are clipped where Σ|·| > cM, the length L of all of
them is scaled to B where L > B. B = ⌊√x⌋ with x the largest Σw² that |w| ≤ cM and Σ|w| ≤ TM allow.

*Units that no length clips.* Theorem: if p = n − G + 1 ≤ c and p² + G − 1 ≤ ⌊B²/M²⌋, nothing of the unit is clipped or
scaled, so leaving it out changes no total. *Proof.* Every group of the unit has a row, so n_k ≤ n − (G' − 1) ≤ p, with
G' ≥ G its number of groups; the rows of a group add at most n_k·M ≤ cM. L² ≤ M²·Σn_k² by the triangle inequality, and
Σn_k², convex, is largest where one group has n − G' + 1 rows and the others one: (n − G' + 1)² + G' − 1, which falls
as G' grows to n (one row more there and one less here changes it by 1 − (2p − 1) ≤ 0). ∎ The number of different
remainders by 62 of numbers that groups determine is such a G: equal groups have equal remainders.

*Row by row.* Where c ≥ T, and contributions to the only total of a measure have one sign, a row x of a unit with S =
Σ|x| > B = TM counts x·B/S, rounded toward zero, and any other row x. Theorem: what a unit adds has Δ₁ ≤ B in all and Δ∞
≤ B ≤ cM in a group, with that sign, for any number of rows; a replaced unit moves at most 2B in all and cM in a group.
*Proof.* Rounding toward zero only shrinks: Σ|x·B/S| ≤ B; if S ≤ B the rows add S. A group's part is a partial sum of
terms of one sign, and two such parts differ by at most the larger. ∎ (The doubles are those of ``_scale_to_bound``,
whose proof is for any number of parts.) A group with more than cM is not clipped before the norm is taken, unlike where
totals are scaled: the unit keeps its proportions. Of mixed signs S would be larger than the norm of the totals, in
which they cancel: they are scaled group by group. A unit beyond the norm loses less than one unit of the totals per row
to rounding, as where rows are reweighted, which is at most 2^-20 of B (``plan.bounding``)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.engine.lowering.applications import real_constant
from sfumato.engine.lowering.relation_lowering import Columns
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    Apply,
    Constant,
    GroupTotal,
    Reference,
    Scalar,
    ScalarFunction,
    Wide,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.unit_lowering import (
    as_real,
    clamped,
    convert_to_integer,
    to_wide_integer,
    wide_integer_to_real,
)
from sfumato.plan import nodes
from sfumato.plan.bounding import BoundedPlan, max_squared_norm
from sfumato.plan.keys import MAX_GROUPS
from sfumato.plan.limits import Strategy
from sfumato.policy.policies import MAX_ROWS
from sfumato.quick_dataclass import dataclass

MAX_UNIT_TOTAL = 2**61
"""A unit's total is clamped here before it is scaled: two of them together fit 64 bits."""
_MAX_SQUARED_ROWS = 2**30
"""The most rows that may count of a unit where their number is squared in 64 bits."""


def sum_of_group(scalar: Scalar) -> Scalar:
    return GroupTotal(AggregateFunction.SUM, scalar)


def max_unit_totals(bounded_plan: BoundedPlan) -> list[int]:
    """Return, for each value, the largest total that a unit has in any table."""
    max_rows = MAX_ROWS * nodes.max_rows_per_private_row(bounded_plan.plan.source)
    return [max_rows * measure.size for measure in bounded_plan.measures for _ in range(measure.coordinates)]


def can_scale_rows_separately(bounded_plan: BoundedPlan, max_totals: Sequence[int]) -> bool:
    """Return whether the rows of a unit may be scaled one by one: the cap of a group is not below the norm, and every
    measure has one total, to which rows contribute with one sign.
    """
    limits = bounded_plan.limits
    return (
        bounded_plan.strategy is Strategy.CLIP_L1
        and limits.rows_per_group >= limits.total
        and max(max_totals) <= MAX_UNIT_TOTAL
        and not any(bounded_measure.measure.once_per_unit for bounded_measure in bounded_plan.measures)
        and all(0 in (measure.row_contribution_bounds or ()) for measure in bounded_plan.measures)
    )


def max_squared_rows_of(bounded_plan: BoundedPlan, scaling: Sequence[ClipScaling]) -> int | None:
    """Return the largest Σn² of the numbers of rows in each group with which a unit is within every length; None where
    lengths are not what units are scaled to, or squares may not fit 64 bits.
    """
    if bounded_plan.strategy is not Strategy.CLIP_L2 or bounded_plan.limits.total > _MAX_SQUARED_ROWS:
        return None
    if any(bounded_measure.measure.once_per_unit for bounded_measure in bounded_plan.measures):
        return None
    return min(part.max_squared_rows for part in scaling)


def may_exceed_norm(max_rows_per_group: int, max_squared_rows: int) -> Scalar:
    """Return whether a unit of ``n`` rows, with ``d`` different remainders of its groups, may be clipped or scaled."""
    others = apply(ScalarFunction.SUBTRACT, Reference("d"), integer_constant(1))
    in_one_group = apply(ScalarFunction.SUBTRACT, Reference("n"), others)
    capped = apply(ScalarFunction.LEAST, in_one_group, integer_constant(max_rows_per_group + 1))  # its square fits
    squared_rows = apply(ScalarFunction.ADD, apply(ScalarFunction.MULTIPLY, capped, capped), others)
    return apply(
        ScalarFunction.OR,
        apply(ScalarFunction.GREATER, in_one_group, integer_constant(max_rows_per_group)),
        apply(ScalarFunction.GREATER, squared_rows, integer_constant(max_squared_rows)),
    )


@dataclass(frozen=True)
class ClipScaling:
    """How one measure's coordinates are clipped in each group and scaled over all of them."""

    coordinates: tuple[str, ...]
    length: str
    """The column of the unit's norm."""
    max_in_group: int
    """The largest size in one group."""
    per_group: int
    """The most rows that count in one group."""
    bits: int
    bound: int
    """The norm, rounded down."""
    squared: bool
    box: tuple[int, int] | None
    """The least and the most in one group, of a measure with one coordinate."""
    may_exceed_64_bits: bool
    """Several coordinates of a unit may together be more than 64 bits hold."""

    @classmethod
    def for_measure(cls, bounded_plan: BoundedPlan, number: int) -> ClipScaling:
        measure = bounded_plan.measures[number]
        index = sum(earlier_measure.coordinates for earlier_measure in bounded_plan.measures[:number])
        coordinates = tuple(f"v{index + offset}" for offset in range(measure.coordinates))
        limits = bounded_plan.limits.for_measure(measure.measure)
        per_group, total = limits.rows_per_group, limits.total
        bits, squared = max(0, measure.bits), bounded_plan.strategy is Strategy.CLIP_L2
        size = measure.size << bits
        bound = math.isqrt(max_squared_norm(per_group * size, total * size)) if squared else total * size
        box = (
            None
            if measure.row_contribution_bounds is None
            else (measure.row_contribution_bounds[0] * per_group, measure.row_contribution_bounds[1] * per_group)
        )
        wide_totals = box is None and max_unit_totals(bounded_plan)[index] > MAX_UNIT_TOTAL
        return cls(
            coordinates, f"n{number}", measure.size * per_group, per_group, bits, bound, squared, box, wide_totals
        )

    def clipped_columns(self) -> Columns:
        """Clip a unit's total in one group to what c rows may count; several totals are scaled together."""
        if self.box is not None:
            clamped_total = clamped(Reference(self.coordinates[0]), *(integer_constant(end) for end in self.box))
            return (
                (self.coordinates[0], apply(ScalarFunction.MULTIPLY, clamped_total, integer_constant(1 << self.bits))),
            )
        size, convert = self._absolute_sum(), wide_integer_to_real if self.may_exceed_64_bits else as_real
        is_within = apply(
            ScalarFunction.AT_MOST,
            size,
            Constant(self.max_in_group, Wide.INTEGER)
            if self.may_exceed_64_bits
            else integer_constant(self.max_in_group),
        )
        clipped_columns = []
        for name in self.coordinates:
            finer = apply(ScalarFunction.MULTIPLY, Reference(name), integer_constant(1 << self.bits))
            scaled = _scale_to_bound(convert(Reference(name)), self.max_in_group << self.bits, convert(size))
            clamped_total = apply(
                ScalarFunction.CASE, is_within, finer, to_wide_integer(scaled) if self.may_exceed_64_bits else scaled
            )
            clipped_columns.append(
                (name, convert_to_integer(clamped_total) if self.may_exceed_64_bits else clamped_total)
            )
        return tuple(clipped_columns)

    @property
    def max_squared_rows(self) -> int:
        """Return the largest Σn² of the numbers n of rows in each group with which a unit is within the norm."""
        size = (self.max_in_group // self.per_group) << self.bits
        return self.bound**2 // size**2

    @property
    def unit_norm_bound(self) -> int:
        """The norm in whole steps, before these are divided."""
        return self.bound >> self.bits

    def is_unit_norm_too_large(self) -> Scalar:
        return apply(ScalarFunction.GREATER, Reference(self.length), integer_constant(self.unit_norm_bound))

    def unit_norm_if_too_large(self) -> Scalar:
        """Return the norm of a unit's rows, in whole steps, as a real where it is too large, else NULL."""
        return apply(ScalarFunction.CASE, self.is_unit_norm_too_large(), as_real(Reference(self.length)))

    def scaled_row(self) -> Scalar:
        """Return what a row counts when its unit is scaled."""
        return _scale_to_bound(as_real(Reference(self.coordinates[0])), self.bound, Reference(self.length))

    def norm_column(self) -> tuple[str, Scalar]:
        """Compute the norm exactly, so that it does not depend on the order of groups."""
        if self.squared:
            fits_64_bits = len(self.coordinates) * (self.max_in_group << self.bits) ** 2 <= MAX_UNIT_TOTAL
            coordinates = [
                Reference(name) if fits_64_bits else to_wide_integer(Reference(name)) for name in self.coordinates
            ]
            return self.length, sum_of_group(
                _sum_of([apply(ScalarFunction.MULTIPLY, value, value) for value in coordinates])
            )
        return self.length, convert_to_integer(
            sum_of_group(self._absolute_sum())
        ) if self._fits_64_bits else sum_of_group(self._absolute_sum())

    def norm_if_too_large(self) -> Scalar:
        """Return the norm as a real where it is too large, else NULL."""
        length = Reference(self.length)
        norm = as_real(length) if self._fits_64_bits else wide_integer_to_real(length)
        bound = self.bound**2 if self.squared else self.bound
        is_large = apply(
            ScalarFunction.GREATER,
            length,
            integer_constant(bound) if self._fits_64_bits else Constant(bound, Wide.INTEGER),
        )
        return apply(ScalarFunction.CASE, is_large, apply(ScalarFunction.SQRT, norm) if self.squared else norm)

    def scaled_columns(self) -> list[tuple[str, Scalar]]:
        """Scale the clipped totals to the norm."""
        norm = Reference(self.length)
        is_within = apply(ScalarFunction.IS_NULL, norm)
        return [
            (
                name,
                apply(
                    ScalarFunction.CASE,
                    is_within,
                    Reference(name),
                    _scale_to_bound(as_real(Reference(name)), self.bound, norm),
                ),
            )
            for name in self.coordinates
        ]

    @property
    def max_full_groups(self) -> int:
        """Return in how many groups a unit may reach the cap of each, and be within the norm."""
        max_size = self.max_in_group << self.bits
        return self.bound**2 // max_size**2 if self.squared else self.bound // max_size

    @property
    def _fits_64_bits(self) -> bool:
        """Return whether 64 bits hold the norm, whatever groups there are."""
        return not self.squared and (self.max_in_group << self.bits) * MAX_GROUPS <= MAX_UNIT_TOTAL

    def _absolute_sum(self) -> Scalar:
        return _sum_of([apply(ScalarFunction.ABS, Reference(name)) for name in self.coordinates])


def _sum_of(scalars: Sequence[Scalar]) -> Scalar:
    return scalars[0] if len(scalars) == 1 else Apply(ScalarFunction.ADD, tuple(scalars))


def _scale_to_bound(value: Scalar, bound: int, size: Scalar) -> Scalar:
    """Compute value · bound / size, rounded toward zero.

    Parts of one size add up to at most the bound. Each is too large by at most 2^-48 of it, since doubles are: below
    2^40 that is less than one in all, and parts are whole; from there on the bound is lowered by more than that.
    """
    product = apply(ScalarFunction.MULTIPLY, value, real_constant(bound - (bound >> 40)))
    return apply(ScalarFunction.TOWARD_ZERO, apply(ScalarFunction.DIVIDE, product, size))
