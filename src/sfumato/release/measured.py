"""Noisy numbers as they are stored, with everything needed to print an answer from them, now or years later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property, once_per_last_argument
from sfumato.ledger import entries
from sfumato.mechanisms import KeyThreshold
from sfumato.plan.aggregates.measures import (
    CombinedEstimate,
    Estimator,
    GroupEstimate,
    SummedEstimate,
    TotalEstimate,
    Width,
)
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.plan.sharing import MeasuredRequest
from sfumato.plan.values.expressions import Column, Result
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Batch
from sfumato.release.noisy_rows.key_functions import AnswerRows
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, LinearEstimate, NoiseForm
from sfumato.release.parts.scales import ONE_GROUP, FrequentValueScale, GroupKeys, NoiseScale, NoisyScale
from sfumato.release.parts.shares import EXTREME_TOTALS
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, with_version_and_salt
from sfumato.release.pricing import PricedRelease
from sfumato.release.releasing import Read

T = TypeVar("T")

MAX_NUMBERS = 1_000_000
"""The most numbers of an answer, so that it fits its ledger line; more are refused before the charge."""


@codec.serialisable("derived", encoded_once=True)
@dataclass(frozen=True)
class ResultEstimator:
    """A requested result: an estimator, and the scales whose noisy numbers it reads."""

    estimator: Estimator
    scales: tuple[int, ...]
    """Indices into the scales."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(self.scales))


@codec.serialisable("measured", 2)
@dataclass(frozen=True)
class NoisyMeasurements:
    """The noisy numbers of every group, their scales, and the terms on which they were bought."""

    scales: tuple[NoiseScale, ...]
    results: tuple[ResultEstimator, ...]
    """One for each requested aggregate, in order."""
    columns: tuple[tuple[int, ...], ...]
    """The columns of all scales in turn: a number for each group."""
    keys: GroupKeys = ONE_GROUP
    purchase: PurchaseTerms = NOT_BOUGHT
    selection: KeyThreshold | None = None
    """The mechanism that selected the groups, where they were discovered in the data."""


@dataclass(frozen=True)
class DeclaredGroupsRelease:
    """A release of a question whose groups are known from the policy and the query."""

    prepared: PricedRelease
    requests: tuple[MeasuredRequest, ...]
    groups: tuple[GroupValues, ...]
    version: str
    """The version of the data as it is shown to readers."""

    @property
    def batch(self) -> Batch:
        return self.prepared.batch

    @cached_property
    def readings(self) -> tuple[PlanReading[Any], ...]:
        parts = zip(self.prepared.parts, self.prepared.measurements, strict=True)
        return tuple(part.reading(self.groups) for part, measured in parts if measured)

    @cached_property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return entries.checked_widths(accuracy_for_reuse(self.prepared))

    def draw(self, read: Read) -> NoisyMeasurements:
        return noisy_measurements(
            self.prepared,
            self.requests,
            draw_noisy_numbers(self.prepared, self.groups, read),
            self.groups,
            self.version,
        )

    def result_at_extreme_totals(self) -> NoisyMeasurements:
        """Return the result for totals at the ends of their ranges, under the first group's key."""
        groups = self.groups[:1] * len(EXTREME_TOTALS)
        return noisy_measurements(
            self.prepared, self.requests, numbers_at_extreme_totals(self.prepared), groups, self.version
        )


def accuracy_for_reuse(prepared: PricedRelease) -> dict[str, Number]:
    """Return the numbers by which stored answers are compared with this release: a stored one is as good if no
    half-width is larger, no selection is weaker, and no bought interval misses more often.
    """
    accuracy: dict[str, Number] = {f"m{index}": width for index, width in enumerate(prepared.compared_half_widths)}
    for index, (part, measurements) in enumerate(zip(prepared.others, prepared.measurements[1:], strict=True)):
        accuracy |= {f"{name} {index}": number for name, number in part.accuracy_for_reuse(measurements).items()}
    return accuracy


def draw_noisy_numbers(prepared: PricedRelease, groups: tuple[GroupValues, ...], read: Read) -> Integers:
    """Draw the noisy numbers of every part, a row for each group; a part without measurements is not read."""
    parts = zip(prepared.parts, prepared.measurements, strict=True)
    part_numbers = [part.draw(measurements, read(part.reading(groups))) for part, measurements in parts if measurements]
    return np.hstack([np.zeros((len(groups), 0), np.int64), *part_numbers])


def numbers_at_extreme_totals(prepared: PricedRelease) -> Integers:
    """Draw noisy numbers for three groups without data, from totals at the ends of their ranges."""
    parts = zip(prepared.parts, prepared.measurements, strict=True)
    return np.hstack([part.draw_at_extreme_totals(measurements) for part, measurements in parts])


def noisy_measurements(
    prepared: PricedRelease,
    requests: Sequence[MeasuredRequest],
    numbers: Integers,
    groups: Sequence[GroupValues],
    version: str,
) -> NoisyMeasurements:
    """Combine the noisy numbers of these groups with everything needed to estimate results from them."""
    keys = GroupKeys.encode(groups, [key.domain.type for key in prepared.bounded.plan.keys])
    terms = with_version_and_salt(prepared.terms, version)
    columns = tuple(map(tuple, numbers.T.tolist()))
    return NoisyMeasurements(scales_of_all_parts(prepared), result_estimators(prepared, requests), columns, keys, terms)


def scales_of_all_parts(prepared: PricedRelease) -> tuple[NoiseScale, ...]:
    """Return the scales of all parts in turn."""
    return tuple(chain.from_iterable(prepared.scales))


@once_per_last_argument
def result_estimators(prepared: PricedRelease, requests: Sequence[MeasuredRequest]) -> tuple[ResultEstimator, ...]:
    """Return for each requested aggregate its estimator and the scales that it reads."""
    scale_counts = [len(part_scales) for part_scales in prepared.scales]
    derived = []
    for request in requests:
        start = sum(scale_counts[: request.part])
        steps = prepared.parts[request.part].steps(request.measures)
        derived.append(
            ResultEstimator(request.request.estimator(*steps), tuple(start + index for index in request.measures))
        )
    return tuple(derived)


def rank_errors(noisy_measurements: NoisyMeasurements, confidence: Number) -> tuple[float | None, ...]:
    """Bound the rank error of each result, in rows; None for results that are not quantiles."""
    return tuple(
        noisy_measurements.scales[derived.scales[0]].rank(confidence) for derived in noisy_measurements.results
    )


def selection_notes(noisy_measurements: NoisyMeasurements, confidence: Number) -> tuple[str | None, ...]:
    """Describe how good each selected value is; None for results that are not selected from a list of values."""
    scales = (noisy_measurements.scales[derived.scales[0]] for derived in noisy_measurements.results)
    return tuple(
        scale.selection_note(confidence) if isinstance(scale, FrequentValueScale) else None for scale in scales
    )


def notes_by_column(query: Query, result_notes: Sequence[T | None]) -> dict[str, T]:
    """Map the notes on results to the answer's columns that show a result unchanged."""
    outputs = [(output.name, output.expression) for output in query.outputs if not query.outer]
    references = [(name, expression.reference) for name, expression in outputs if isinstance(expression, Column)]
    notes = {name: result_notes[reference.index] for name, reference in references if type(reference) is Result}
    return {name: note for name, note in notes.items() if note is not None}


@dataclass(frozen=True)
class _ScaledColumns:
    """The columns of one scale, in the units of its measure."""

    scale: NoiseScale
    columns: tuple[Floats, ...]
    first_noise_index: int
    """The number of the first noise of its first column."""


def noises_and_first_indices(
    released: Sequence[NoisyMeasurements], confidence: Number
) -> tuple[IndependentNoises, tuple[int, ...]]:
    """Return the noises of several releases, and the number of the first noise of each."""
    blocks: list[tuple[NoisyScale | None, int]] = []
    first_noises: list[int] = []
    for measured in released:
        first_noises.append(sum(count for _, count in blocks))
        columns = iter(measured.columns)
        for scale in measured.scales:
            noise = scale if isinstance(scale, NoisyScale) else None
            blocks += [(noise, len(next(columns))) for _ in range(scale.columns)]
    return IndependentNoises(tuple(blocks), exact(confidence, "confidence")), tuple(first_noises)


def group_estimator(
    noisy_measurements: NoisyMeasurements,
    confidence: Number,
    rows: AnswerRows | None = None,
    noises_and_first_index: tuple[IndependentNoises, int] | None = None,
) -> Callable[[int], list[GroupEstimate]]:
    """Return a function from ``parts`` to the estimates of all results, with intervals that hold for so many noise
    draws at once.

    ``noises_and_first_index`` are those of several releases that are read together, with the number of the first one of
    this release.
    """
    if noises_and_first_index is None:
        all_noises, (first_noise,) = noises_and_first_indices([noisy_measurements], confidence)
    else:
        all_noises, first_noise = noises_and_first_index
    scaled = _scaled_columns(noisy_measurements, first_noise)
    inputs = [
        (derived.estimator, [scaled[index] for index in derived.scales]) for derived in noisy_measurements.results
    ]
    estimates_by_parts: dict[int, list[GroupEstimate]] = {}

    def estimates(parts: int) -> list[GroupEstimate]:
        if parts not in estimates_by_parts:
            estimates_by_parts[parts] = [
                _linear_estimate(estimator, columns, rows, all_noises, parts)
                if _is_linear(estimator, columns)
                else _estimate_summed_rows(estimator, columns, rows, confidence, parts)
                if rows is not None and rows.has_sums
                else _estimate_groups(estimator, columns, confidence, parts)
                for estimator, columns in inputs
            ]
        return estimates_by_parts[parts]

    return estimates


def _scaled_columns(noisy_measurements: NoisyMeasurements, first_noise: int) -> list[_ScaledColumns]:
    totals = np.array(noisy_measurements.columns, dtype=np.float64)
    scaled, start = [], 0
    for scale in noisy_measurements.scales:
        column_range = range(start, start + scale.columns)
        with np.errstate(over="raise"):  # raised in the dry run, whose totals are the largest
            columns = tuple(_in_measure_units(totals[index], scale.unit_value) for index in column_range)
        groups = totals.shape[1] if totals.ndim == 2 else 0
        scaled.append(_ScaledColumns(scale, columns, first_noise + start * groups))
        start = column_range.stop
    return scaled


def _is_linear(estimator: Estimator, scaled: Sequence[_ScaledColumns]) -> bool:
    """Return whether a result is a linear combination of totals with additive noise; one that bounds the rounding of
    each value separately is none.
    """
    is_total = isinstance(estimator, (TotalEstimate, SummedEstimate)) or (
        isinstance(estimator, CombinedEstimate) and not estimator.rounding
    )
    return is_total and all(isinstance(columns.scale, NoisyScale) for columns in scaled)


def _linear_estimate(
    estimator: Estimator,
    scaled: Sequence[_ScaledColumns],
    rows: AnswerRows | None,
    noises: IndependentNoises,
    parts: int,
) -> LinearEstimate:
    """Estimate a result as a linear form over the noises of its totals.

    A row that sums groups is the sum of the groups' displayed values, so that subtotals agree with their groups after
    rounding.
    """
    totals = [column for columns in scaled for column in columns.columns]
    estimate = estimator.estimate(totals, [0.0] * len(totals))
    groups = len(estimate.value)
    first_noises = [
        columns.first_noise_index + index * groups for columns in scaled for index in range(len(columns.columns))
    ]
    form = _sum_of_blocks(zip(first_noises, linear_factors(estimator), strict=True), groups)
    value, centre = estimate.value, estimate.low
    if rows is not None and rows.has_sums:
        form = form.take(rows.groups).sum_by_group(rows.rows, len(rows.keys))
        value, centre = rows.sum_groups(value), rows.sum_groups(centre)
    widths = noises.widths(form, parts)
    low, high = np.minimum(centre - widths, value), np.maximum(centre + widths, value)
    return LinearEstimate(value, low, high, centre=centre, widths=widths, form=form, noises=noises)


def _sum_of_blocks(first_noises_and_factors: Iterable[tuple[int, Fraction]], groups: int) -> NoiseForm:
    """Return the weighted sum of blocks of noises, each of which has one noise for each group."""
    blocks = (
        NoiseForm.single_noise_form(first_noise + np.arange(groups), float(factor))
        for first_noise, factor in first_noises_and_factors
        if factor
    )
    first = next(blocks, None)
    return NoiseForm.zero(groups) if first is None else reduce(NoiseForm.plus, blocks, first)


def linear_factors(estimator: Estimator) -> tuple[Fraction, ...]:
    """Return the factors by which the totals that an estimator reads add up to its number."""
    if isinstance(estimator, SummedEstimate):
        return estimator.factors
    return (estimator.first, estimator.second) if isinstance(estimator, CombinedEstimate) else _ONE_TOTAL


_ONE_TOTAL = (Fraction(1),)


def _estimate_groups(
    estimator: Estimator, scaled: Sequence[_ScaledColumns], confidence: Number, parts: int
) -> GroupEstimate:
    """Estimate the groups themselves, whose noise draws are independent."""
    statements = _count_statements(estimator, parts)
    widths = [columns.scale.widths(column, confidence, statements) for columns in scaled for column in columns.columns]
    estimate = estimator.estimate([column for columns in scaled for column in columns.columns], widths)
    return estimate if estimate.labels is not None else replace(estimate, labels=scaled[0].scale.labels)


def _count_statements(estimator: Estimator, parts: int) -> int:
    """Count the noise draws whose bounds must hold together: a sum reads several, but counts as one part."""
    if isinstance(estimator, (CombinedEstimate, SummedEstimate)):
        return len(linear_factors(estimator)) * parts
    return parts


def _estimate_summed_rows(
    estimator: Estimator, scaled: Sequence[_ScaledColumns], rows: AnswerRows, confidence: Number, parts: int
) -> GroupEstimate:
    """Estimate rows that are sums of groups, of a result that is not linear."""
    term_counts, count_index = np.unique(rows.groups_per_row, return_inverse=True)
    totals = [column for columns in scaled for column in columns.columns]
    widths: list[Width] = []
    for columns in scaled:
        statements = _count_statements(estimator, parts)
        sum_widths = [columns.scale.sum_width(int(terms), confidence, statements) for terms in term_counts]
        widths += [np.array(sum_widths)[count_index]] * len(columns.columns)
    estimate = estimator.estimate([rows.sum_groups(column) for column in totals], widths)
    if not estimator.adds_up:
        return estimate
    value = rows.sum_groups(estimator.estimate(totals, [0.0] * len(totals)).value)
    return GroupEstimate(value, np.minimum(estimate.low, value), np.maximum(estimate.high, value))


def _in_measure_units(totals: Floats, unit_value: Fraction) -> Floats:
    """Convert integer totals to the units of the measure, rounded once where both are moderate, so that 5 × 0.01 is
    0.05.
    """
    if unit_value == 1:
        return totals
    if max(unit_value.numerator, unit_value.denominator) < 2**900:
        return totals * float(unit_value.numerator) / float(unit_value.denominator)
    return totals * float(unit_value)
