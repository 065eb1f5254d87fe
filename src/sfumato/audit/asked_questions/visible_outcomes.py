"""Record everything visible of a query's outcome except its noise, and turn answers into comparable feature vectors.

Refusals and their messages, prices and error forecasts, columns and rows of an answer, charges and ledger lines must
not depend on any row. Only noisy numbers may differ, and discovered keys, whose selection is itself noisy.

For sampling audits, a release is flattened into named cells, and the cells into a row of numbers. By post-processing
(Dwork & Roth 2014, Prop. 2.1) these numbers leak no more than the answer. A pilot fixes the cells and their weights;
its releases are not used again, so the features are a fixed function of the measured releases.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.generated_tables import GeneratedPopulation
from sfumato.curator import Curator, Question
from sfumato.errors import SfumatoError
from sfumato.release.answers.answer import Answer

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
        visible |= _visible_answer(question, question.release(**price))
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


def _visible_answer(question: Any, answer: Any) -> Outcome:
    receipt = {entry.name: getattr(answer.receipt, entry.name) for entry in fields(answer.receipt)}
    visible = {
        "columns": repr((answer.columns, answer.types, answer.keys)),
        "receipt": repr({name: entry for name, entry in receipt.items() if name not in _VARYING_FIELDS}),
        "warnings": repr(answer.warnings) if not question.discovered_keys else "",
    }
    if not _rows_depend_on_noise(question):
        key_positions = [answer.columns.index(key) for key in answer.keys]
        visible["groups"] = repr([tuple(row[index] for index in key_positions) for row in answer.rows])
    return visible


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
                yield f"{key} {name}", _comparable(cell)
        yield f"{key} shown", 1


def _comparable(cell: Any) -> Any:
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
        yield path, _comparable(tree)


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
        kept_cells = np.union1d(ranked[:_MAX_FEATURES], ranked[-1:])
        return cls(cell_names, texts, missing, middles, scales, kept_cells)

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
