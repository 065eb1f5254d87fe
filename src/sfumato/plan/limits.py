"""Contribution limits of one unit, and the strategies that enforce them (proofs: ``bounding``)."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Measure
from sfumato.policy import Table
from sfumato.privacy import codec
from sfumato.privacy.numbers import exact_integer
from sfumato.quick_dataclass import dataclass


class Strategy(Enum):
    """How the limits of one unit are enforced in the query."""

    WHOLE = "whole"
    REWEIGHT = "reweight"
    CLIP_L1 = "clip-l1"
    CLIP_L2 = "clip-l2"
    SAMPLE = "sample"
    MATCH = "match"

    @property
    def norm_order(self) -> int | None:
        """The order of the norm that contributions are clipped to; None if the strategy serves both norms."""
        return {Strategy.CLIP_L1: 1, Strategy.CLIP_L2: 2}.get(self)

    @property
    def is_fractional(self) -> bool:
        """Whether contributions are scaled, and so may be fractions of a row."""
        return self in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2)

    @property
    def is_selectable(self) -> bool:
        """Whether a question may name it: WHOLE follows from the plan alone, MATCH also from the price."""
        return self not in (Strategy.WHOLE, Strategy.MATCH)


@codec.serialisable("limits")
@dataclass(frozen=True)
class ContributionLimits:
    """The most rows, groups, and rows per group that count of one unit."""

    rows: int
    groups: int
    rows_per_group: int

    @classmethod
    def from_table(cls, table: Table) -> ContributionLimits:
        rows = table.max_rows or 1
        return cls(rows, min(table.max_groups or rows, rows), min(table.max_rows_per_group or rows, rows))

    def tighten(
        self,
        rows: int | None,
        groups: int | None,
        rows_per_group: int | None,
        largest: ContributionLimits | None = None,
    ) -> ContributionLimits:
        """Return the same or smaller limits, and refuse larger ones: the policy's are the owner's decision.

        Where a tree proves more rows than its default limits allow, limits may be raised to ``largest``. A limit equal
        to the number of rows follows it.
        """
        largest = largest or self
        requested = {"rows": rows, "groups": groups, "rows_per_group": rows_per_group}
        for name, value in requested.items():
            maximum = getattr(largest, name)
            if value is not None and exact_integer(value, name, at_least=1) > maximum:
                rule = f"at most {maximum:,}, since a question can only lower the policy's limits"
                fix = f"set {name} to a number from 1 to {maximum:,}" if maximum > 1 else f"leave out {name}"
                raise InvalidParameter(name, value, rule, fix=fix)
        if rows is not None and rows > self.rows:
            equal_to_rows = [name for name in ("groups", "rows_per_group") if getattr(self, name) == self.rows]
            requested.update({name: rows for name in equal_to_rows if requested[name] is None})
        tightened = replace(self, **{name: int(value) for name, value in requested.items() if value is not None})
        return ContributionLimits(
            tightened.rows, min(tightened.groups, tightened.rows), min(tightened.rows_per_group, tightened.rows)
        )

    def capped_at_rows(self, rows: int) -> ContributionLimits:
        """Return the limits of a unit with at most ``rows`` rows."""
        return ContributionLimits(min(self.rows, rows), min(self.groups, rows), min(self.rows_per_group, rows))

    def elementwise_maximum(self, other: ContributionLimits) -> ContributionLimits:
        """Return the larger of each limit."""
        return ContributionLimits(
            max(self.rows, other.rows),
            max(self.groups, other.groups),
            max(self.rows_per_group, other.rows_per_group),
        )

    def plus(self, other: ContributionLimits) -> ContributionLimits:
        """Return the limits of the rows of two relations together."""
        return ContributionLimits(
            self.rows + other.rows, self.groups + other.groups, self.rows_per_group + other.rows_per_group
        )

    def for_multiplied_rows(self, factor: int) -> ContributionLimits:
        """Return the limits after each row has become up to ``factor`` rows."""
        return ContributionLimits(self.rows * factor, self.groups * factor, self.rows_per_group * factor)

    @property
    def total(self) -> int:
        return min(self.rows, self.groups * self.rows_per_group)

    def for_measure(self, measure: Measure) -> ContributionLimits:
        """Return the limits of what one unit adds to a measure: its rows, or the unit itself once in every group."""
        return ContributionLimits(self.groups, self.groups, 1) if measure.once_per_unit else self


ONE_ROW = ContributionLimits(1, 1, 1)
"""The limits of a unit with one row."""
