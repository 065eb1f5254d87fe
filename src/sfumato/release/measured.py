"""Noisy numbers are stored and read back with all that is needed to print an answer, now or years later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from sfumato.mechanisms import KeyThreshold
from sfumato.plan.aggregates.measures import CombinedEstimate, Estimator, Floats, GroupEstimate, TotalEstimate, Width
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.readings.total_readings import Integers, PlanReading
from sfumato.plan.sharing import Made
from sfumato.plan.values.expressions import Column, Result
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.release.measurement import Batch
from sfumato.release.noisy_rows.key_functions import AnswerRows
from sfumato.release.parts.question_parts import ENDS
from sfumato.release.parts.scales import ONE_GROUP, CombinedScale, GroupKeys, NamedScale, NoiseScale
from sfumato.release.payers import NOT_BOUGHT, Purchase, purchase
from sfumato.release.preparing import Prepared
from sfumato.release.releasing import Read

T = TypeVar("T")

MOST_NUMBERS = 1_000_000
"""So that every answer can be written down: refused before anything is charged."""


@codec.value("derived")
@dataclass(frozen=True)
class Derived:
    """This says how an asked number is made from what was drawn."""

    estimator: Estimator
    scales: tuple[int, ...]
    """The places of the scales whose numbers it reads."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(self.scales))


@codec.value("measured", 2)
@dataclass(frozen=True)
class Measured:
    """This holds what was drawn for every group, how it is read, and the terms on which it was bought."""

    scales: tuple[NoiseScale, ...]
    results: tuple[Derived, ...]
    """For everything that is asked, in its order."""
    columns: tuple[tuple[int, ...], ...]
    """For every scale its columns: a number for each group."""
    keys: GroupKeys = ONE_GROUP
    purchase: Purchase = NOT_BOUGHT
    selection: KeyThreshold | None = None
    """What decided which groups are shown, where they were found in the data."""


@dataclass(frozen=True)
class KnownGroups:
    """A question about groups known beforehand is released as what is drawn for each of them."""

    prepared: Prepared
    made: tuple[Made, ...]
    groups: tuple[GroupKey, ...]
    version: str
    """The version of the data, as readers are told."""

    @property
    def batch(self) -> Batch:
        return self.prepared.batch

    @property
    def readings(self) -> tuple[PlanReading[Any], ...]:
        parts = zip(self.prepared.parts, self.prepared.measured, strict=True)
        return tuple(part.reading(self.groups) for part, measured in parts if measured)

    @property
    def good_enough(self) -> dict[str, Number]:
        return good_enough(self.prepared)

    def draw(self, read: Read) -> Measured:
        return with_noise(self.prepared, self.made, drawn(self.prepared, self.groups, read), self.groups, self.version)

    def rehearsal(self) -> Measured:
        """Try what becomes of totals at the ends of what they can be, with keys that are the first group's."""
        groups = self.groups[:1] * len(ENDS)
        return with_noise(self.prepared, self.made, rehearsed(self.prepared), groups, self.version)


def good_enough(prepared: Prepared) -> dict[str, Number]:
    """A stored answer is as good as one at this price if no half-width is larger, no choice is weaker, and no range
    around a choice was bought to miss more often.
    """
    found: dict[str, Number] = {f"m{index}": width for index, width in enumerate(prepared.accuracy)}
    for index, (part, measured) in enumerate(zip(prepared.others, prepared.measured[1:], strict=True)):
        found |= {f"{name} {index}": number for name, number in part.good_enough(measured).items()}
    return found


def drawn(prepared: Prepared, groups: tuple[GroupKey, ...], read: Read) -> Integers:
    """Draw the numbers of every part, a row for each group: what is not measured is not read."""
    parts = zip(prepared.parts, prepared.measured, strict=True)
    found = [part.draw(measured, read(part.reading(groups))) for part, measured in parts if measured]
    return np.hstack([np.zeros((len(groups), 0), np.int64), *found])


def rehearsed(prepared: Prepared) -> Integers:
    """Draw for three groups without data, from the ends of what totals can be."""
    parts = zip(prepared.parts, prepared.measured, strict=True)
    return np.hstack([part.rehearsed(measured) for part, measured in parts])


def with_noise(
    prepared: Prepared, made: Sequence[Made], numbers: Integers, groups: Sequence[GroupKey], version: str
) -> Measured:
    """Put together what was drawn for these groups with all that is needed to read it."""
    keys = GroupKeys.of(groups, [each.domain.type for each in prepared.bounded.plan.keys])
    terms = purchase([each.bounded for each in prepared.parts], prepared.price, version)
    columns = tuple(map(tuple, numbers.T.tolist()))
    return Measured(scales(prepared), results(prepared, made), columns, keys, terms)


def scales(prepared: Prepared) -> tuple[NoiseScale, ...]:
    """List the scales of all parts in turn."""
    return tuple(chain.from_iterable(prepared.scales))


def results(prepared: Prepared, made: Sequence[Made]) -> tuple[Derived, ...]:
    """Say for everything that is asked how it is made from what is drawn."""
    counts = [len(each) for each in prepared.scales]
    found = []
    for each in made:
        start = sum(counts[: each.part])
        steps = prepared.parts[each.part].steps(each.measures)
        found.append(Derived(each.asked.estimator(*steps), tuple(start + place for place in each.measures)))
    return tuple(found)


def rank_errors(measured: Measured, confidence: Number) -> tuple[float | None, ...]:
    """Bound for everything that is asked how many rows lie between what was chosen and what it stands for; None where
    nothing is chosen by ranks.
    """
    return tuple(measured.scales[each.scales[0]].rank(confidence) for each in measured.results)


def promises(measured: Measured, confidence: Number) -> tuple[str | None, ...]:
    """Say of everything that is asked and chosen among values how good the choice is; None of all else."""
    scales = (measured.scales[each.scales[0]] for each in measured.results)
    return tuple(each.promise(confidence) if isinstance(each, NamedScale) else None for each in scales)


def by_column(query: Query, said: Sequence[T | None]) -> dict[str, T]:
    """Give what is said of everything that is asked by the columns that show it as it is."""
    shown = [(each.name, each.expression) for each in query.outputs if not query.outer]
    asked = [(name, made.reference) for name, made in shown if isinstance(made, Column)]
    known = {name: said[each.index] for name, each in asked if type(each) is Result}
    return {name: each for name, each in known.items() if each is not None}


@dataclass(frozen=True)
class _Numbers:
    """These are the columns of one scale, in its own terms."""

    scale: NoiseScale
    columns: tuple[Floats, ...]


def estimating(
    measured: Measured, confidence: Number, rows: AnswerRows | None = None
) -> Callable[[int], list[GroupEstimate]]:
    """Make a function from ``parts`` to everything that is asked, with ranges that hold for so many noises at once.

    With subtotals among the rows, ``parts`` are sums of noises.
    """
    totals = np.array(measured.columns, dtype=np.float64)
    numbers, index = [], 0
    for scale in measured.scales:
        own = range(index, index + scale.columns)
        numbers.append(_Numbers(scale, tuple(_in_own_terms(totals[k], scale.unit_value) for k in own)))
        index = own.stop
    read = [_combined(each.estimator, [numbers[k] for k in each.scales]) for each in measured.results]
    found: dict[int, list[GroupEstimate]] = {}

    def estimates(parts: int) -> list[GroupEstimate]:
        if parts not in found:
            found[parts] = [
                _summed(estimator, own, rows, confidence, parts)
                if rows is not None and rows.sums
                else _plain(estimator, own, confidence, parts)
                for estimator, own in read
            ]
        return found[parts]

    return estimates


def _combined(estimator: Estimator, numbers: list[_Numbers]) -> tuple[Estimator, list[_Numbers]]:
    """Read two totals that are put together as one, whose noise is that of both together; but for those that say, each
    by itself, how far rounding may have moved the number.
    """
    if not isinstance(estimator, CombinedEstimate) or estimator.rounding:
        return estimator, numbers
    (only,) = numbers
    scale = CombinedScale(only.scale, abs(estimator.first), abs(estimator.second))
    return TotalEstimate(estimator.whole), [_Numbers(scale, (estimator.combined(only.columns),))]


def _plain(estimator: Estimator, numbers: Sequence[_Numbers], confidence: Number, parts: int) -> GroupEstimate:
    """Estimate the groups themselves, whose noises are independent.

    Of n statements k are about single noises, which all hold but with probability 1 − (1 − β)^{k/n}, and n − k about
    sums of them, each of which fails with probability at most β(1 − β)/n. Together they fail with at most β, because
    (1 − β)^x is convex: β − 1 + (1 − β)^x ≥ (1 − x)·(1 − β)·ln(1/(1 − β)) ≥ (1 − x)·β(1 − β) for x = k/n.
    """
    miss = 1 - exact(confidence, "confidence")

    def sum_width(terms: int) -> float:
        (only,) = numbers
        return only.scale.sum_width(terms, 1 - miss * (1 - miss), parts)

    statements = _statements(estimator, parts)
    widths = [each.scale.width(confidence, statements) for each in numbers for _ in each.columns]
    found = estimator.estimate([column for each in numbers for column in each.columns], widths)
    found = replace(found, labels=numbers[0].scale.labels)
    alone = estimator.adds_up and len(widths) == 1
    return replace(found, sum_width=sum_width) if alone else found


def _statements(estimator: Estimator, parts: int) -> int:
    """Count the noises that hold together: a number that is put together of two counts as one until here."""
    return 2 * parts if isinstance(estimator, CombinedEstimate) else parts


def _summed(
    estimator: Estimator, numbers: Sequence[_Numbers], rows: AnswerRows, confidence: Number, parts: int
) -> GroupEstimate:
    """Estimate rows that are sums of groups. What adds up is the sum of what the groups show, so that totals agree
    where they are rounded too.
    """
    counts, places = np.unique(rows.terms, return_inverse=True)
    totals = [column for each in numbers for column in each.columns]
    widths: list[Width] = []
    for each in numbers:
        statements = _statements(estimator, parts)
        errors = np.array([each.scale.sum_width(int(terms), confidence, statements) for terms in counts])[places]
        widths += [errors] * len(each.columns)
    found = estimator.estimate([rows.summed(each) for each in totals], widths)
    if not estimator.adds_up:
        return found
    value = rows.summed(estimator.estimate(totals, [0.0] * len(totals)).value)
    return GroupEstimate(value, np.minimum(found.low, value), np.maximum(found.high, value))


def _in_own_terms(totals: Floats, unit_value: Fraction) -> Floats:
    """Express whole totals in the measure's own terms, rounded once where both are moderate, so that 5 × 0.01 is
    0.05.
    """
    with np.errstate(over="raise"):  # found by the rehearsal, whose totals are the largest
        if max(unit_value.numerator, unit_value.denominator) < 2**900:
            return totals * float(unit_value.numerator) / float(unit_value.denominator)
        return totals * float(unit_value)
