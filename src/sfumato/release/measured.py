"""Noisy totals are stored and read back with all that is needed to print an answer, now or years later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.mechanisms import KeyThreshold
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.measures import Estimate, Estimator, Floats
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings import GroupTotals, Integers
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.release.answer_rows import AnswerRows
from sfumato.release.group_keys import ONE_GROUP, GroupKeys
from sfumato.release.measurement import Batch
from sfumato.release.preparing import Prepared
from sfumato.release.purchases import NOT_BOUGHT, Purchase, purchase

MOST_NUMBERS = 1_000_000
"""So that every answer can be written down: refused before anything is charged."""


@codec.value("scale")
@dataclass(frozen=True)
class Scale:
    """A scale says how one measure's totals are read."""

    unit_value: Fraction
    """Of one whole number in the totals."""
    mechanism: Additive
    estimator: Estimator

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))


@codec.value("measured")
@dataclass(frozen=True)
class Measured:
    """This holds noisy whole totals with the keys of their groups, and the terms on which they were bought."""

    scales: tuple[Scale, ...]
    columns: tuple[tuple[int, ...], ...]
    """For every coordinate of every measure, the total of each group."""
    keys: GroupKeys = ONE_GROUP
    purchase: Purchase = NOT_BOUGHT
    selection: KeyThreshold | None = None
    """What decided which groups are shown, where they were found in the data."""


@dataclass(frozen=True)
class KnownGroups:
    """A question about groups known beforehand is released as noise on their totals."""

    prepared: Prepared
    groups: tuple[GroupKey, ...]
    version: str
    """The version of the data, as readers are told."""

    @property
    def batch(self) -> Batch:
        return self.prepared.batch

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.prepared.bounded, self.groups)

    @property
    def good_enough(self) -> dict[str, Number]:
        """A stored answer is as good as this one if no half-width is larger."""
        return {f"m{index}": width for index, width in enumerate(self.prepared.half_widths())}

    def draw(self, totals: Integers) -> Measured:
        return self._drawn(totals, self.groups)

    def rehearsal(self) -> Measured:
        """Try what becomes of totals at the ends of what they can be, with keys that are the first group's."""
        width = sum(each.coordinates for each in self.batch.bounded.measures)
        ends = np.array([[end] * width for end in (0, LARGEST_INTEGER, -LARGEST_INTEGER)], np.int64)
        return self._drawn(ends, self.groups[:1] * len(ends))

    def _drawn(self, totals: Integers, groups: Sequence[GroupKey]) -> Measured:
        return with_noise(self.prepared, totals, groups, self.version)


def with_noise(prepared: Prepared, totals: Integers, groups: Sequence[GroupKey], version: str) -> Measured:
    """Add noise to the totals of these groups."""
    bounded = prepared.bounded
    drawn = [each.draw(each.reading.of(totals)) for each in prepared.batch.measurements[: len(bounded.noised)]]
    columns = tuple(map(tuple, np.hstack(drawn).T.tolist())) if drawn else ()
    keys = GroupKeys.of(groups, [each.domain.type for each in bounded.plan.keys])
    return Measured(scales(prepared), columns, keys, purchase(bounded, prepared.price, version))


def scales(prepared: Prepared) -> tuple[Scale, ...]:
    return tuple(
        Scale(measure.unit_value, mechanism, measure.estimator)
        for measure, mechanism in zip(prepared.bounded.noised, prepared.mechanisms, strict=True)
    )


def estimating(
    measured: Measured, confidence: Number, rows: AnswerRows | None = None
) -> Callable[[int], list[Estimate]]:
    """Make a function from ``parts`` to every measure, with ranges that hold for so many noises at once.

    With subtotals among the rows, ``parts`` are sums of noises.
    """
    totals = np.array(measured.columns, dtype=np.float64)
    columns, index = [], 0
    for scale in measured.scales:
        own = range(index, index + scale.estimator.coordinates)
        columns.append([_in_own_terms(totals[k], scale.unit_value) for k in own])
        index = own.stop
    found: dict[int, list[Estimate]] = {}

    def estimates(parts: int) -> list[Estimate]:
        if parts not in found:
            scaled = zip(measured.scales, columns, strict=True)
            found[parts] = [
                _summed(scale, own, rows, confidence, parts)
                if rows is not None and rows.sums
                else _plain(scale, own, confidence, parts)
                for scale, own in scaled
            ]
        return found[parts]

    return estimates


def _plain(scale: Scale, totals: list[Floats], confidence: Number, parts: int) -> Estimate:
    """Estimate the groups themselves, whose noises are independent.

    Of n statements k are about single noises, which all hold but with probability 1 − (1 − β)^{k/n}, and n − k about
    sums of them, each of which fails with probability at most β(1 − β)/n. Together they fail with at most β, because
    (1 − β)^x is convex: β − 1 + (1 − β)^x ≥ (1 − x)·(1 − β)·ln(1/(1 − β)) ≥ (1 − x)·β(1 − β) for x = k/n.
    """
    miss = 1 - exact(confidence, "confidence")

    def sum_width(terms: int) -> float:
        return float(scale.mechanism.sum_error(terms, 1 - miss * (1 - miss), parts) * scale.unit_value)

    found = scale.estimator.estimate(totals, float(scale.mechanism.error(confidence, parts) * scale.unit_value))
    return replace(found, sum_width=sum_width) if scale.estimator.adds_up else found


def _summed(scale: Scale, totals: list[Floats], rows: AnswerRows, confidence: Number, parts: int) -> Estimate:
    """Estimate rows that are sums of groups. What adds up is the sum of what the groups show, so that totals agree
    where they are rounded too.
    """
    counts, places = np.unique(rows.terms, return_inverse=True)
    errors = [float(scale.mechanism.sum_error(int(each), confidence, parts) * scale.unit_value) for each in counts]
    found = scale.estimator.estimate([rows.summed(each) for each in totals], np.array(errors)[places])
    if not scale.estimator.adds_up:
        return found
    value = rows.summed(scale.estimator.estimate(totals, 0.0).value)
    return Estimate(value, np.minimum(found.low, value), np.maximum(found.high, value))


def _in_own_terms(totals: Floats, unit_value: Fraction) -> Floats:
    """Express whole totals in the measure's own terms, rounded once where both are moderate, so that 5 × 0.01 is
    0.05.
    """
    with np.errstate(over="raise"):  # found by the rehearsal, whose totals are the largest
        if max(unit_value.numerator, unit_value.denominator) < 2**900:
            return totals * float(unit_value.numerator) / float(unit_value.denominator)
        return totals * float(unit_value)
