"""How clipping scales a unit's totals: in one group to what its rows there may count, over all groups to a norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.engine.lowering.applications import real_constant
from sfumato.engine.lowering.relation_lowering import Columns
from sfumato.engine.lowering.relational import (
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
from sfumato.engine.lowering.unit_lowering import as_real, clamped, narrow, real_of_wide, wide
from sfumato.plan import nodes
from sfumato.plan.bounding import BoundedPlan, max_squared_norm
from sfumato.plan.keys import MAX_GROUPS
from sfumato.plan.limits import Strategy
from sfumato.policy.policies import MAX_ROWS
from sfumato.quick_dataclass import dataclass

MAX_UNIT_TOTAL = 2**61
"""A unit's total is clamped here before it is scaled: two of them together fit 64 bits."""


def sum_of_group(scalar: Scalar) -> Scalar:
    return GroupTotal(AggregateFunction.SUM, scalar)


def max_unit_totals(bounded: BoundedPlan) -> list[int]:
    """Return, for each value, the largest total that a unit has in any table."""
    max_rows = MAX_ROWS * nodes.max_rows_per_private_row(bounded.plan.source)
    return [max_rows * each.size for each in bounded.measures for _ in range(each.coordinates)]


@dataclass(frozen=True)
class ClipScaling:
    """How one measure's coordinates are clipped in each group and scaled over all of them."""

    coordinates: tuple[str, ...]
    length: str
    """The column of the unit's norm."""
    max_in_group: int
    """The largest size in one group."""
    bits: int
    bound: int
    """The norm, rounded down."""
    squared: bool
    box: tuple[int, int] | None
    """The least and the most in one group, of a measure with one coordinate."""
    wide: bool
    """Several coordinates of a unit may together be more than 64 bits hold."""

    @classmethod
    def of(cls, bounded: BoundedPlan, number: int) -> ClipScaling:
        measure = bounded.measures[number]
        index = sum(each.coordinates for each in bounded.measures[:number])
        coordinates = tuple(f"v{index + offset}" for offset in range(measure.coordinates))
        limits = bounded.limits.for_measure(measure.measure)
        per_group, total = limits.rows_per_group, limits.total
        bits, squared = max(0, measure.bits), bounded.strategy is Strategy.CLIP_L2
        size = measure.size << bits
        bound = math.isqrt(max_squared_norm(per_group * size, total * size)) if squared else total * size
        box = (
            None
            if measure.row_contribution_bounds is None
            else (measure.row_contribution_bounds[0] * per_group, measure.row_contribution_bounds[1] * per_group)
        )
        wide_totals = box is None and max_unit_totals(bounded)[index] > MAX_UNIT_TOTAL
        return cls(coordinates, f"n{number}", measure.size * per_group, bits, bound, squared, box, wide_totals)

    def clipped_columns(self) -> Columns:
        """Clip a unit's total in one group to what c rows may count; several totals are scaled together."""
        if self.box is not None:
            clamped_total = clamped(Reference(self.coordinates[0]), *(integer_constant(end) for end in self.box))
            return (
                (self.coordinates[0], apply(ScalarFunction.MULTIPLY, clamped_total, integer_constant(1 << self.bits))),
            )
        size, convert = self._absolute_sum(), real_of_wide if self.wide else as_real
        is_within = apply(
            ScalarFunction.AT_MOST,
            size,
            Constant(self.max_in_group, Wide.INTEGER) if self.wide else integer_constant(self.max_in_group),
        )
        clipped_columns = []
        for name in self.coordinates:
            finer = apply(ScalarFunction.MULTIPLY, Reference(name), integer_constant(1 << self.bits))
            scaled = _scale_to(convert(Reference(name)), self.max_in_group << self.bits, convert(size))
            clamped_total = apply(ScalarFunction.CASE, is_within, finer, wide(scaled) if self.wide else scaled)
            clipped_columns.append((name, narrow(clamped_total) if self.wide else clamped_total))
        return tuple(clipped_columns)

    def norm_column(self) -> tuple[str, Scalar]:
        """Compute the norm exactly, so that it does not depend on the order of groups."""
        if self.squared:
            fits_64_bits = len(self.coordinates) * (self.max_in_group << self.bits) ** 2 <= MAX_UNIT_TOTAL
            coordinates = [Reference(name) if fits_64_bits else wide(Reference(name)) for name in self.coordinates]
            return self.length, sum_of_group(
                _sum_of([apply(ScalarFunction.MULTIPLY, value, value) for value in coordinates])
            )
        return self.length, narrow(sum_of_group(self._absolute_sum())) if self._fits_64_bits else sum_of_group(
            self._absolute_sum()
        )

    def norm_if_too_large(self) -> Scalar:
        """Return the norm as a real where it is too large, else NULL."""
        length = Reference(self.length)
        norm = as_real(length) if self._fits_64_bits else real_of_wide(length)
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
                    _scale_to(as_real(Reference(name)), self.bound, norm),
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


def _scale_to(value: Scalar, bound: int, size: Scalar) -> Scalar:
    """Compute value · bound / size, rounded toward zero.

    Parts of one size add up to at most the bound. Each is too large by at most 2^-48 of it, since doubles are: below
    2^40 that is less than one in all, and parts are whole; from there on the bound is lowered by more than that.
    """
    product = apply(ScalarFunction.MULTIPLY, value, real_constant(bound - (bound >> 40)))
    return apply(ScalarFunction.TOWARD_ZERO, apply(ScalarFunction.DIVIDE, product, size))
