"""Compare what neighbouring tables make of a query before its noise: all that is visible, and the exact totals.

Record everything visible of a query's outcome except its noise, and turn answers into comparable feature vectors.

Refusals and their messages, prices and error forecasts, columns and rows of an answer, charges and ledger lines must
not depend on any row. Only noisy numbers may differ, and discovered keys, whose selection is itself noisy.

For sampling audits, a release is flattened into named cells, and the cells into a row of numbers. By post-processing
(Dwork & Roth 2014, Prop. 2.1) these numbers leak no more than the answer. A pilot fixes the cells and their weights;
its releases are not used again, so the features are a fixed function of the measured releases.

Compare the exact totals of neighbouring tables, read as a release reads them, with the claimed sensitivity.

No noise hides a difference, so this is the strongest test of a sensitivity: for each measurement of a release the
change between two neighbours is computed exactly, and each norm of it is divided by the norm that the noise is
calibrated to. A ratio above 1 refutes the claim; a ratio of 1 shows that the claim is tight. The rows are generated,
so they may be read; the owner's sources are never read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.generated_tables import GeneratedPopulation
from sfumato.curator import Curator, Question
from sfumato.engine.protocols import Engine
from sfumato.errors import SfumatoError
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals
from sfumato.privacy import Sensitivity
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.measurement import Measurement
from sfumato.release.pricing import PricedRelease

_VARYING_FIELDS = ("time", "hash", "line", "remaining", "data")
"""Receipt fields that differ between tables by nature: time and place in the ledger, and the data's identity."""

Ask = Callable[[Curator], Any]
"""Makes the same proposal to any curator."""
Outcome = dict[str, str]
"""Everything visible, by its kind."""


@dataclass(frozen=True)
class OutcomeDifference:
    """Something visible that differs between two neighbouring tables."""

    aspect: str
    first: GeneratedPopulation
    second: GeneratedPopulation
    visible: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.aspect} differs between {self.first} and {self.second}"


def release_and_record(curator: Curator, proposal: str | Ask, price: Mapping[str, Any]) -> Outcome:
    """Release a query once and record everything visible that is not noise."""
    remaining_before, (last_line, _) = curator.budget.remaining, curator.ledger.head
    visible: Outcome = {}
    try:
        question: Any = make_proposal(proposal, curator)
        visible |= _visible_without_noise(question, question.release(**price))
    except SfumatoError as refusal:
        visible["refusal"] = f"{type(refusal).__name__} {getattr(refusal, 'code', '')} {refusal}"
    remaining_after = curator.budget.remaining
    visible["charge"] = repr(
        {name: remaining_before[name] - remaining_after[name] for name in remaining_before if name in remaining_after}
    )
    visible["ledger"] = repr([(line.kind, line.question, line.plan) for line in curator.history(after=last_line)])
    return visible


def record_forecast(curator: Curator, proposal: str | Ask, price: Mapping[str, Any]) -> Outcome:
    """Record what is visible before a release: the explanation, the price and the error forecast."""
    price_arguments = {name: argument for name, argument in price.items() if name != "fresh"}
    try:
        question: Any = make_proposal(proposal, curator)
        if not isinstance(question, Question) or question.free:
            return {}
        return {
            "explanation": str(question.explain(**price_arguments)),
            "forecast": str(question.error(**price_arguments, fresh=True)),
        }
    except SfumatoError as refusal:
        return {"refusal beforehand": str(refusal)}


def make_proposal(proposal: str | Ask, curator: Curator) -> Any:
    """Make a query from SQL text, or call the function that makes a proposal."""
    return curator.sql(proposal) if isinstance(proposal, str) else proposal(curator)


def _visible_without_noise(question: Any, answer: Any) -> Outcome:
    noisy_fields = ("bounds",) if question.query.value_queries else ()  # they name the released numbers
    receipt_fields = [entry.name for entry in fields(answer.receipt) if entry.name not in noisy_fields]
    receipt = {name: getattr(answer.receipt, name) for name in receipt_fields}
    visible = {
        "columns": repr((answer.columns, answer.types, answer.keys)),
        "receipt": repr({name: entry for name, entry in receipt.items() if name not in _VARYING_FIELDS}),
        "warnings": "" if _warns_of_noise(question) else repr(answer.warnings),
    }
    if not _rows_depend_on_noise(question):
        key_positions = [answer.columns.index(key) for key in answer.keys]
        visible["groups"] = repr([tuple(row[index] for index in key_positions) for row in answer.rows])
    return visible


def _warns_of_noise(question: Question) -> bool:
    """Return whether the lines below an answer name what noise has decided."""
    return bool(question.discovered_keys or question.query.value_queries)


def _rows_depend_on_noise(question: Question) -> bool:
    """Return whether the noise decides which rows are shown, or their order."""
    finish, sql = question.query.finish, question.text.upper()
    return (
        bool(question.discovered_keys or question.query.outer)
        or any(keyword in sql for keyword in ("HAVING", "ORDER", "LIMIT", "QUALIFY", "FETCH", "OFFSET", "OVER"))
        or bool(finish.windows)
    )


def compare_outcomes(outcomes: Sequence[tuple[GeneratedPopulation, Outcome]]) -> tuple[OutcomeDifference, ...]:
    """Return everything that differs between the first table and any other."""
    (first, expected), *others = outcomes
    different = []
    for other, visible in others:
        for what in dict.fromkeys([*expected, *visible]):
            pair = expected.get(what, "nothing"), visible.get(what, "nothing")
            if pair[0] != pair[1]:
                different.append(OutcomeDifference(what, first, other, pair))
    return tuple(different)


ReleaseCells = dict[str, Any]
"""The content of one release: a number, a text or None, by the name of its cell."""
Numbers = NDArray[np.float64]

_MAX_FEATURES = 4
"""Cells compared individually, beside the likelihood ratio over all cells."""
_UNCOMPARED_FIELDS = ("receipt", "purchase", "time", "hash", "salt")
"""Fields of a stored value that hold no noise: when and on what terms it was released."""


def flatten_release(value: Any) -> ReleaseCells:
    """Flatten a released value into named cells: an answer by key and column, anything else by its JSON path."""
    if isinstance(value, Answer):
        return {"rows": len(value.rows), **dict(_answer_cells(value))}
    return dict(_flatten_json(json.loads(value.to_json()), ""))


def _answer_cells(answer: Answer) -> Iterator[tuple[str, Any]]:
    key_positions = [answer.columns.index(key_name) for key_name in answer.keys]
    for number, row in enumerate(answer.rows):
        key = repr(tuple(row[index] for index in key_positions)) if key_positions else str(number)
        for name, cell in zip(answer.columns, row, strict=True):
            if name not in answer.keys:
                yield f"{key} {name}", _comparable_cell(cell)
        yield f"{key} shown", 1


def _comparable_cell(cell: Any) -> Any:
    return float(cell) if isinstance(cell, (int, float)) else None if cell is None else str(cell)


def _flatten_json(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, child in tree.items():
            if name not in _UNCOMPARED_FIELDS:
                yield from _flatten_json(child, f"{path}/{name}")
    elif isinstance(tree, list):
        yield f"{path}/length", len(tree)
        for index, child in enumerate(tree):
            yield from _flatten_json(child, f"{path}/{index}")
    elif (integers := _unpack_integers(tree)) is not None:
        yield from ((f"{path}/{index}", float(number)) for index, number in enumerate(integers))
    else:
        yield path, _comparable_cell(tree)


def _unpack_integers(text: Any) -> NDArray[np.int64] | None:
    """Decode the base64 64-bit integers of a published table; None for any other text.

    A text that decodes by accident is compared just as well by these integers.
    """
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return None
    return np.frombuffer(content, "<i8") if content and len(content) % 8 == 0 else None


@dataclass(frozen=True)
class ReleaseFeatures:
    """The cells by which two worlds are compared, chosen from pilot releases in both."""

    names: tuple[str, ...]
    texts: Mapping[str, Mapping[str, int]]
    missing: Numbers
    """The number that replaces an absent cell, below all others."""
    middles: tuple[Numbers, Numbers]
    scales: Numbers
    compared_cells: NDArray[np.intp]
    """The cells in which the pilot's worlds differ most, and the one in which they differ least. If one noise draw is
    shared by all cells, only the difference between a cell that the unit changed and one that it did not reveals it;
    which of the two looks further apart is chance, so both ends of the ranking are compared."""

    @classmethod
    def from_pilot(cls, first: Sequence[ReleaseCells], second: Sequence[ReleaseCells]) -> ReleaseFeatures:
        """Choose the cells from a pilot, which must share no release with the measurement."""
        releases = [*first, *second]
        cell_names = tuple(dict.fromkeys(name for release in releases for name in release))
        texts = {name: _text_codes(releases, name) for name in cell_names}
        raw = _cell_matrix(releases, cell_names, texts, np.full(len(cell_names), np.nan))
        lowest, highest = (np.nan_to_num(edge(raw, axis=0)) for edge in (_column_min, _column_max))
        missing = lowest - (highest - lowest) - 1
        filled = np.where(np.isnan(raw), missing, raw)
        middles = np.median(filled[: len(first)], axis=0), np.median(filled[len(first) :], axis=0)
        nearest = np.where(np.arange(len(releases))[:, None] < len(first), middles[0], middles[1])
        scales = np.maximum(np.abs(filled - nearest).mean(axis=0), 1e-9 * (1 + np.abs(middles[0])))
        separation = np.abs(middles[0] - middles[1]) / scales
        varying = np.flatnonzero(np.ptp(filled, axis=0) > 0)
        ranked = varying[np.argsort(-separation[varying], kind="stable")]
        feature_cells = np.union1d(ranked[:_MAX_FEATURES], ranked[-1:])
        return cls(cell_names, texts, missing, middles, scales, feature_cells)

    def feature_matrix(self, releases: Sequence[ReleaseCells]) -> Numbers:
        """Return a row per release: the log-likelihood ratio of the second world to the first, and the chosen cells.

        The ratio assumes independent Laplace noise per cell around the pilot's medians, for which it is the most
        powerful statistic (Neyman & Pearson 1933).
        """
        cells = _cell_matrix(releases, self.names, self.texts, self.missing)
        cells = np.where(np.isnan(cells), self.missing, cells)
        first, second = (np.abs(cells - centre) / self.scales for centre in self.middles)
        ratio = np.clip(first - second, -1e6, 1e6).sum(axis=1)
        return np.column_stack([ratio, cells[:, self.compared_cells]])


def _text_codes(releases: Sequence[ReleaseCells], name: str) -> dict[str, int]:
    texts = sorted({cell for release in releases if isinstance(cell := release.get(name), str)})
    return {text: code for code, text in enumerate(texts)}


def _cell_matrix(
    releases: Sequence[ReleaseCells], names: Sequence[str], texts: Mapping[str, Mapping[str, int]], missing: Numbers
) -> Numbers:
    matrix = np.tile(missing, (len(releases), 1))
    column_index = {name: index for index, name in enumerate(names)}
    for row, release in enumerate(releases):
        for name, cell in release.items():
            index = column_index.get(name)
            if index is not None and cell is not None:
                matrix[row, index] = texts[name].get(cell, -1) if isinstance(cell, str) else cell
    return matrix


def _column_min(cells: Numbers, axis: int) -> Numbers:
    return np.min(np.where(np.isnan(cells), np.inf, cells), axis=axis, initial=np.inf)


def _column_max(cells: Numbers, axis: int) -> Numbers:
    return np.max(np.where(np.isnan(cells), -np.inf, cells), axis=axis, initial=-np.inf)


_SAMPLING_KEY = 7
"""The sampling key: the same for all tables, since the claim must hold for every key."""
_L1_NORM = "the sum of changes"

Pair = tuple[GeneratedPopulation, GeneratedPopulation]


@dataclass(frozen=True)
class ReplayResult:
    """The largest change by one unit, as a share of the claimed sensitivity."""

    share: float
    """The largest ratio of change to claim over all norms, measurements and pairs; above 1 the claim is refuted."""
    norm: str
    worst_pair: Pair | None
    """The neighbours that reach that share."""
    most_distinguishable_pair: Pair | None
    """The neighbours with the largest sum of changes relative to their claims: those that an attacker would choose."""
    comparisons: int
    """The number of compared pairs of totals; 0 if the query has only selections."""

    @property
    def holds(self) -> bool:
        return self.share <= 1


@dataclass(frozen=True)
class RecordedTotals:
    """The exact input of one measurement in every population."""

    measurement: Measurement
    exact: Mapping[str, Any]
    """Integers, by the name of the population."""
    claim: Sensitivity
    """The sensitivity that the noise is calibrated to."""


def compare_recorded_totals(recorded: Sequence[RecordedTotals], pairs: Sequence[Pair]) -> ReplayResult:
    """Compare the recorded totals of all pairs of neighbours."""
    worst, largest_distance = ReplayResult(0.0, "", None, None, 0), 0.0
    for pair in pairs:
        first, second = (population.name for population in pair)
        ratios_by_measurement = [
            _claim_ratios(entry.exact[first], entry.exact[second], entry.claim) for entry in recorded
        ]
        for ratios in ratios_by_measurement:
            norm = max(ratios, key=lambda name: ratios[name])
            if ratios[norm] > worst.share:
                worst = replace(worst, share=ratios[norm], norm=norm, worst_pair=pair)
        if (distance := sum(ratios[_L1_NORM] for ratios in ratios_by_measurement)) > largest_distance:
            worst, largest_distance = replace(worst, most_distinguishable_pair=pair), distance
    return replace(worst, comparisons=len(recorded) * len(pairs))


def record_totals(
    question: Question, prepared: PricedRelease, engines: Mapping[str, Engine]
) -> tuple[RecordedTotals, ...]:
    """Read the exact input of every noisy measurement; ``engines`` maps the name of a population to its engine."""
    records: list[RecordedTotals] = []
    for part, measurements in zip(prepared.parts, prepared.measurements, strict=True):
        noisy = [measurement for measurement in measurements if measurement.sensitivity is not None]
        if not noisy:
            continue
        if question.discovered_keys and part is prepared.totals:
            reading = DiscoveredTotals(prepared.bounded, question.discovered_keys, question.groups)
            exact = _align_keys(
                {name: engine.read(reading, _SAMPLING_KEY) for name, engine in engines.items()}, reading
            )
        elif question.discovered_keys:
            continue
        else:
            exact = {
                name: engine.read(part.reading(question.groups), _SAMPLING_KEY) for name, engine in engines.items()
            }
        for measurement in noisy:
            claim = measurement.sensitivity
            assert claim is not None
            records.append(
                RecordedTotals(
                    measurement, {name: measurement.reading.extract(totals) for name, totals in exact.items()}, claim
                )
            )
    return tuple(records)


def _align_keys(discovered: Mapping[str, DiscoveredGroups], reading: DiscoveredTotals) -> dict[str, Any]:
    """Return the totals of every key of any population in one order; zeros where a population lacks the key."""
    declared = len(reading.declared_groups)
    totals_by_population = {name: dict(_totals_by_key(groups, declared)) for name, groups in discovered.items()}
    keys = sorted({key for totals in totals_by_population.values() for key in totals}, key=repr)
    width = sum(measure.coordinates for measure in reading.bounded.noisy_measures)
    zeros = np.zeros((declared, width), np.int64)
    empty = np.zeros((0, width), np.int64)
    return {
        name: np.vstack([empty, *(totals.get(key, zeros) for key in keys)])
        for name, totals in totals_by_population.items()
    }


def _totals_by_key(discovered: DiscoveredGroups, declared: int) -> Iterator[tuple[GroupValues, Any]]:
    group_index = np.arange(len(discovered.holders))
    totals = discovered.totals_for(group_index, declared).reshape(len(group_index), declared, -1)
    yield from zip(discovered.key_values(group_index), totals, strict=True)


def _claim_ratios(first: Any, second: Any, claim: Sensitivity) -> dict[str, float]:
    """Return the ratio of the change to the claim, by the name of each norm."""
    changes = [abs(x - y) for x, y in zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)]
    return {
        _L1_NORM: _ratio(sum(changes), claim.l1),
        "the squares of changes": _ratio(sum(change * change for change in changes), claim.squares),
        "the largest change": _ratio(max(changes, default=0), claim.linf),
        "the groups that change": _excess_ratio(sum(change > 0 for change in changes), claim.l0),
    }


def _excess_ratio(observed: int, claimed: int) -> float:
    """Return the ratio only if above 1: changing every allowed group is expected."""
    return observed / claimed if observed > claimed else 0.0


def _ratio(observed: int, claimed: Fraction) -> float:
    """Return the ratio, above 1 exactly when the claim is exceeded, however little."""
    if observed <= claimed:
        return min(1.0, float(observed / claimed)) if claimed else 0.0
    return max(1.0 + 1e-9, float(observed / claimed)) if claimed else float("inf")
