"""What one unit can change: the ways to limit it in the query, each with the sensitivity it proves.

Notation: a unit has at most m rows that count, g groups, c rows in one group; M is the largest size of one row's
contribution. T = min(m, g·c) rows in all. Every contribution is a whole number of steps.

- *whole*: every row is a unit (k rows after joins with public tables): Δ₁ = Δ∞ = kM.
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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.plan.nodes import Aggregate, Count, Distinct, Mean, Measure, Sum, multiplicity
from sfumato.policy import Table, Type
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.privacy.numbers import whole

_MOST_STEPS = 2**26
"""Largest change of one unit in steps: fine enough to be exact, small enough for every sampler and every engine."""
_FRACTION_BITS = 20
_DOUBLE = 2**52
"""Steps no finer than a double tells apart at the far end of the range."""


class Bounding(Enum):
    """How the limits of one unit are enforced in the query."""

    WHOLE = "whole"
    REWEIGHT = "reweight"
    CLIP_L1 = "clip-l1"
    CLIP_L2 = "clip-l2"
    SAMPLE = "sample"

    @property
    def fractional(self) -> bool:
        """Whether it scales contributions, which then are fractions of a row."""
        return self in (Bounding.REWEIGHT, Bounding.CLIP_L1, Bounding.CLIP_L2)


@dataclass(frozen=True)
class Limits:
    """At most so many rows, groups, and rows in one group, of one unit."""

    rows: int
    groups: int
    rows_per_group: int

    @classmethod
    def of(cls, table: Table) -> Limits:
        rows = table.max_rows or 1
        return cls(rows, min(table.max_groups or rows, rows), min(table.max_rows_per_group or rows, rows))

    def tighten(self, rows: int | None, groups: int | None, rows_per_group: int | None) -> Limits:
        """The same or smaller limits; larger ones are refused: the policy's are the owner's."""
        asked = {"rows": rows, "groups": groups, "rows_per_group": rows_per_group}
        for name, value in asked.items():
            if value is not None and whole(value, name, at_least=1) > getattr(self, name):
                raise InvalidParameter(name, value, f"at most {getattr(self, name)}: limits can only be tightened")
        found = replace(self, **{name: int(value) for name, value in asked.items() if value is not None})
        return Limits(found.rows, min(found.groups, found.rows), min(found.rows_per_group, found.rows))

    @property
    def total(self) -> int:
        return min(self.rows, self.groups * self.rows_per_group)


@dataclass(frozen=True)
class Scaled:
    """A measure in whole steps: each row's contribution is a whole number in [low, high]."""

    measure: Measure
    step: Fraction
    """What one step of a row's value is worth."""
    low: int
    high: int
    bits: int
    """Totals are in 2^-bits of a step."""
    sensitivity: Sensitivity
    """In units of the totals."""

    @property
    def coordinates(self) -> int:
        return 2 if isinstance(self.measure, Mean) else 1

    @property
    def size(self) -> int:
        """The largest contribution of one row: for a mean, of its two sums together."""
        return _size(self.measure, self.low, self.high)

    @property
    def signed(self) -> bool:
        """Whether contributions have both signs."""
        return isinstance(self.measure, Sum) and self.low < 0 < self.high

    @property
    def worth(self) -> Fraction:
        """What one whole number in the totals is worth."""
        return self.step / 2**self.bits


@dataclass(frozen=True)
class Bounded:
    """A plan with its limits enforced one way: what the engine computes and what one unit can change."""

    plan: Aggregate
    bounding: Bounding
    limits: Limits
    measures: tuple[Scaled, ...]


def boundings(plan: Aggregate, table: Table, limits: Limits, groups: int) -> tuple[Bounded, ...]:
    """Every sound way to limit one unit in this plan, cheapest first."""
    if table.every_row:
        most = multiplicity(plan.source)
        return (_bounded(plan, Bounding.WHOLE, Limits(most, most, most), groups),)
    clips = [Bounding.CLIP_L1, Bounding.CLIP_L2]
    ways = [*clips, Bounding.SAMPLE]
    if not any(isinstance(measure, Distinct) for measure in plan.measures):
        # a single group is clipped with one pass over the units; several need a second, and reweighting does not
        ways = [*clips, Bounding.REWEIGHT, Bounding.SAMPLE] if groups == 1 else [Bounding.REWEIGHT, *ways]
    return tuple(_bounded(plan, way, limits, groups) for way in ways)


def under(bounded: Bounded, neighbours: Neighbours) -> Bounded:
    """The same, with sensitivities stated for these neighbours."""
    return replace(
        bounded, measures=tuple(replace(each, sensitivity=_under(each, neighbours)) for each in bounded.measures)
    )


def _under(scaled: Scaled, neighbours: Neighbours) -> Sensitivity:
    """Two units instead of one, in a vector that is no longer for it."""
    found = scaled.sensitivity.under(neighbours, signed=scaled.signed)
    length = min(found.groups, scaled.sensitivity.groups)
    total = min(found.total, Fraction(math.isqrt(length * int(found.squares))))  # of whole numbers, by Cauchy–Schwarz
    return Sensitivity(length, found.per_group, total, found.squares, found.neighbours)


def _bounded(plan: Aggregate, way: Bounding, limits: Limits, groups: int) -> Bounded:
    effective = replace(limits, groups=min(limits.groups, groups))
    return Bounded(plan, way, effective, tuple(_scaled(each, way, effective, groups) for each in plan.measures))


def _scaled(measure: Measure, way: Bounding, limits: Limits, groups: int) -> Scaled:
    rows, per_group, total = limits.rows, limits.rows_per_group, limits.total
    if isinstance(measure, Distinct):
        rows, per_group, total = limits.groups, 1, limits.groups
    reach = rows if way is Bounding.REWEIGHT else total
    step = _step(measure, reach)
    low, high = _whole_range(measure, step)
    size = _size(measure, low, high)
    bits = _bits(size * reach) if way.fractional else 0
    sensitivity = _sensitivity(
        way, size << bits, rows, per_group, total, groups * (2 if isinstance(measure, Mean) else 1)
    )
    return Scaled(measure, step, low, high, bits, sensitivity)


def _sensitivity(way: Bounding, size: int, rows: int, per_group: int, total: int, coordinates: int) -> Sensitivity:
    """For add-remove neighbours; see the module's text."""
    if way is Bounding.REWEIGHT:
        return Sensitivity(coordinates, rows * size, total=rows * size)
    if way is Bounding.CLIP_L2:
        # the scaling is done in doubles: its relative error, below 2^-49, is covered by 2^-40
        squares = math.floor(longest(per_group * size, total * size) * (1 + Fraction(1, 2**40)))
        return Sensitivity(coordinates, per_group * size, math.isqrt(coordinates * squares), squares)
    return Sensitivity(coordinates, per_group * size, total=total * size)


def longest(per_group: int, total: int) -> int:
    """The largest Σv² with every |v| ≤ per_group and Σ|v| ≤ total: no unit within its limits is longer."""
    full, rest = divmod(total, per_group)
    return full * per_group**2 + rest**2


def _step(measure: Measure, rows: int) -> Fraction:
    """The natural step of a value, made coarser until one unit's change is a moderate number of them."""
    if isinstance(measure, (Count, Distinct)):
        return Fraction(1)
    low, high = value_range(measure)
    largest = max(high - low, Fraction(0)) if isinstance(measure, Mean) else max(abs(low), abs(high))
    if isinstance(measure, Mean) and low == high:  # a step so small that the mean of one number is that number
        return (abs(low) or Fraction(1)) / 2**40
    domain = measure.value.domain
    step = Fraction(1) if domain.type is Type.INTEGER else domain.grid
    if step is None:
        step = _power_above(largest * rows / 2**24) if largest else Fraction(1)
    while largest * rows / step > _MOST_STEPS or max(abs(low), abs(high)) / step > _DOUBLE:
        step *= 2
    return step


def value_range(measure: Sum | Mean) -> tuple[Fraction, Fraction]:
    """The declared or derived range of what is added up."""
    found = measure.value.domain.range
    if found is None:
        raise InvalidParameter("value", measure.value.domain, "an expression with a finite range")
    low, high = found
    return Fraction(low), Fraction(high)  # type: ignore[arg-type]


def _power_above(value: Fraction) -> Fraction:
    exponent = math.floor(math.log2(value))
    power = Fraction(2) ** exponent
    return power if power >= value else power * 2


def _whole_range(measure: Measure, step: Fraction) -> tuple[int, int]:
    if isinstance(measure, (Count, Distinct)):
        return 0, 1
    low, high = value_range(measure)
    return math.floor(low / step), math.ceil(high / step)


def _size(measure: Measure, low: int, high: int) -> int:
    return max(1, high - low if isinstance(measure, Mean) else max(abs(low), abs(high)))


def _bits(steps: int) -> int:
    bits = _FRACTION_BITS
    while bits and steps << bits > _MOST_STEPS:
        bits -= 1
    return bits
