"""Limits say how much of one unit may count, and a strategy enforces them: ``bounding`` proves what each one costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Measure
from sfumato.policy import Table
from sfumato.privacy import codec
from sfumato.privacy.numbers import whole


class Strategy(Enum):
    """A strategy says how the limits of one unit are enforced in the query."""

    WHOLE = "whole"
    REWEIGHT = "reweight"
    CLIP_L1 = "clip-l1"
    CLIP_L2 = "clip-l2"
    SAMPLE = "sample"

    @property
    def order(self) -> int | None:
        """Name the norm it cuts a unit's contributions to; None where it is good for either."""
        return {Strategy.CLIP_L1: 1, Strategy.CLIP_L2: 2}.get(self)

    @property
    def fractional(self) -> bool:
        """Tell whether it scales contributions, which then are fractions of a row."""
        return self in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2)


@codec.value("limits")
@dataclass(frozen=True)
class Limits:
    """Limits are at most so many rows, groups, and rows in one group, of one unit."""

    rows: int
    groups: int
    rows_per_group: int

    @classmethod
    def of(cls, table: Table) -> Limits:
        rows = table.max_rows or 1
        return cls(rows, min(table.max_groups or rows, rows), min(table.max_rows_per_group or rows, rows))

    def tighten(
        self, rows: int | None, groups: int | None, rows_per_group: int | None, largest: Limits | None = None
    ) -> Limits:
        """Take the same or smaller limits; larger ones are refused: the policy's are the owner's.

        Where a tree proves more than its default limits allow, they may be raised to the ``largest``. A limit that held
        all rows goes on to hold all of them.
        """
        largest = largest or self
        asked = {"rows": rows, "groups": groups, "rows_per_group": rows_per_group}
        for name, value in asked.items():
            most = getattr(largest, name)
            if value is not None and whole(value, name, at_least=1) > most:
                rule, fix = f"at most {most}: limits can only be tightened", f"give {name} a number from 1 to {most}"
                raise InvalidParameter(name, value, rule, fix=fix)
        if rows is not None and rows > self.rows:
            held = [name for name in ("groups", "rows_per_group") if getattr(self, name) == self.rows]
            asked.update({name: rows for name in held if asked[name] is None})
        found = replace(self, **{name: int(value) for name, value in asked.items() if value is not None})
        return Limits(found.rows, min(found.groups, found.rows), min(found.rows_per_group, found.rows))

    def at_most(self, rows: int) -> Limits:
        """Narrow the limits where a unit has at most so many rows."""
        return Limits(min(self.rows, rows), min(self.groups, rows), min(self.rows_per_group, rows))

    def larger(self, other: Limits) -> Limits:
        """Take the larger of each limit."""
        return Limits(
            max(self.rows, other.rows),
            max(self.groups, other.groups),
            max(self.rows_per_group, other.rows_per_group),
        )

    def beside(self, other: Limits) -> Limits:
        """Give the limits of rows of two relations together."""
        return Limits(self.rows + other.rows, self.groups + other.groups, self.rows_per_group + other.rows_per_group)

    def times(self, most: int) -> Limits:
        """Give the limits where each row has become up to so many."""
        return Limits(self.rows * most, self.groups * most, self.rows_per_group * most)

    @property
    def total(self) -> int:
        return min(self.rows, self.groups * self.rows_per_group)

    def of_measure(self, measure: Measure) -> Limits:
        """Say what of one unit counts in a measure: its rows, or the unit itself once in every group."""
        return Limits(self.groups, self.groups, 1) if measure.once_per_unit else self


ONE_ROW = Limits(1, 1, 1)
"""Of a unit with one row."""
