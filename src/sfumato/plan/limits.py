"""Contribution limits of one unit, and the strategies that enforce them (proofs: ``bounding``).

A secret Poisson sample of the units: which units a release reads.

A unit with the text x is read where the first 64 bits of SHA-256(k ‖ "|" ‖ x) are below ⌊q·2⁶⁴⌋; k is a fresh key of
128 bits, as 32 hexadecimal digits. As far as SHA-256 with a secret prefix of fixed length is a pseudorandom function,
each unit is there with probability ⌊q·2⁶⁴⌋/2⁶⁴ ≤ q, independently of all others. The filter stands where a table is
scanned, beside the unit that the scan gives each row: all rows of a unit, in every table, are read or none is. A unit
has one text in one policy: ids are read in one type, and equal ids of that type have equal texts.

The bits of a reading's key above the lowest 62 are k: all readings of a release share it, and no two releases do. It is
in no reading, no ledger line and no answer.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from enum import Enum
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Measure
from sfumato.policy import Table
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, Range, exact, exact_integer
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


ROW_KEY_BITS, UNIT_KEY_BITS = 62, 128
_RATES = Range(
    "a share of the units from 0.000001 to below 1, such as 0.1 or '10 %'",
    Fraction(1, 10**6),
    Fraction(1),
    high_open=True,
)
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")


def parse_rate(sample: Number) -> Fraction:
    """Parse the share of the units in a sample: a number below 1, or a percentage as text.

    >>> parse_rate("2.5 %")
    Fraction(1, 40)
    """
    percentage = _PERCENTAGE.fullmatch(sample.strip()) if isinstance(sample, str) else None
    return exact(sample if percentage is None else Fraction(percentage[1]) / 100, "sample", _RATES)


def combined_key(unit_key: int, row_key: int) -> int:
    """Return the key of one reading of a release over a sample of units."""
    return unit_key << ROW_KEY_BITS | row_key


def hash_prefix(key: int) -> str:
    """Return what precedes a unit's text in the hash, from the key of a reading."""
    return f"{key >> ROW_KEY_BITS:032x}|"


def hash_threshold(rate: Fraction) -> str:
    """Return ⌊rate·2⁶⁴⌋ as 16 hexadecimal digits."""
    return f"{math.floor(rate * 2**64):016x}"
