"""An analyst sees the same of a question whoever is in the table, but for its noise: this puts down what they see.

Whether it is refused, in which words, what it is said to cost and how wrong it will be, which columns and rows an
answer has, what was charged, and what was written down: none of it may depend on a row. Only numbers that were drawn
may differ, and keys that were found in the data, whose selection is drawn.

Cells with names hold everything that a release tells, and two worlds are compared by numbers made of them.

What becomes of an answer after it was released tells nothing more (Dwork & Roth 2014, Prop. 2.1), so whatever these
numbers show of the tables, the answer did. Which cells there are, and how they are weighed, is fixed by a pilot whose
releases take no other part: what is measured later is a function that was fixed before.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.invented_tables import InventedPopulation
from sfumato.curator import Curator, Question
from sfumato.errors import SfumatoError
from sfumato.release.answers.answer import Answer

_MOMENTARY = ("time", "hash", "line", "remaining", "data")
"""Of a receipt: when and where it was written down, and which data, which differ between tables by their nature."""

Ask = Callable[[Curator], Any]
"""This makes the same proposal at any curator."""
Outcome = dict[str, str]
"""What is seen, by what it is."""


@dataclass(frozen=True)
class OutcomeDifference:
    """A difference is something that an analyst sees in one table and not in its neighbour."""

    what: str
    first: InventedPopulation
    second: InventedPopulation
    seen: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.what} differs between {self.first} and {self.second}"


def outcome(curator: Curator, asked: str | Ask, price: Mapping[str, Any]) -> Outcome:
    """Ask a question once, and put down everything about it that is not drawn."""
    before, (last, _) = curator.budget.remaining, curator.ledger.head
    seen: Outcome = {}
    try:
        question: Any = put(asked, curator)
        seen |= _answered(question, question.release(**price))
    except SfumatoError as refused:
        seen["refusal"] = f"{type(refused).__name__} {getattr(refused, 'code', '')} {refused}"
    after = curator.budget.remaining
    seen["charge"] = repr({name: before[name] - after[name] for name in before if name in after})
    seen["ledger"] = repr([(line.kind, line.question, line.plan) for line in curator.history(after=last)])
    return seen


def forecast(curator: Curator, asked: str | Ask, price: Mapping[str, Any]) -> Outcome:
    """Put down what is said of a question before it is asked: how it is understood, its cost, and its error."""
    paid = {name: each for name, each in price.items() if name != "fresh"}
    try:
        question: Any = put(asked, curator)
        if not isinstance(question, Question) or question.free:
            return {}
        return {"explanation": str(question.explain(**paid)), "forecast": str(question.error(**paid, fresh=True))}
    except SfumatoError as refused:
        return {"refusal beforehand": str(refused)}


def put(asked: str | Ask, curator: Curator) -> Any:
    """Put a question to a curator: a text, or what makes the same proposal at any curator."""
    return curator.sql(asked) if isinstance(asked, str) else asked(curator)


def _answered(question: Any, answer: Any) -> Outcome:
    receipt = {each.name: getattr(answer.receipt, each.name) for each in fields(answer.receipt)}
    seen = {
        "columns": repr((answer.columns, answer.types, answer.keys)),
        "receipt": repr({name: each for name, each in receipt.items() if name not in _MOMENTARY}),
        "warnings": repr(answer.warnings) if not question.found else "",
    }
    if not _drawn_keys(question):
        places = [answer.columns.index(each) for each in answer.keys]
        seen["groups"] = repr([tuple(row[each] for each in places) for row in answer.rows])
    return seen


def _drawn_keys(question: Question) -> bool:
    """Tell whether what was drawn decides which rows are shown, or in which order."""
    finish, words = question.query.finish, question.text.upper()
    return (
        bool(question.found or question.query.outer)
        or any(each in words for each in ("HAVING", "ORDER", "LIMIT", "QUALIFY", "FETCH", "OFFSET", "OVER"))
        or bool(finish.windows)
    )


def differences(outcomes: Sequence[tuple[InventedPopulation, Outcome]]) -> tuple[OutcomeDifference, ...]:
    """List what is not the same in every table, each compared with the first of them."""
    (first, expected), *others = outcomes
    found = []
    for other, seen in others:
        for what in dict.fromkeys([*expected, *seen]):
            pair = expected.get(what, "nothing"), seen.get(what, "nothing")
            if pair[0] != pair[1]:
                found.append(OutcomeDifference(what, first, other, pair))
    return tuple(found)


Told = dict[str, Any]
"""What one release tells: by the name of a cell, a number, a text or None."""
Numbers = NDArray[np.float64]

_MOST = 4
"""Cells that are compared by themselves; all of them are compared together, too."""
_NOT_TOLD = ("receipt", "purchase", "time", "hash", "salt")
"""Parts of a stored value that are not drawn: when and on what terms it was bought."""


def told(value: Any) -> Told:
    """Put down what a released value tells: an answer by its keys and columns, anything else as its JSON text does."""
    if isinstance(value, Answer):
        return {"rows": len(value.rows), **dict(_cells(value))}
    return dict(_leaves(json.loads(value.to_json()), ""))


def _cells(answer: Answer) -> Iterator[tuple[str, Any]]:
    places = [answer.columns.index(each) for each in answer.keys]
    for number, row in enumerate(answer.rows):
        key = repr(tuple(row[each] for each in places)) if places else str(number)
        for name, cell in zip(answer.columns, row, strict=True):
            if name not in answer.keys:
                yield f"{key} {name}", _plain(cell)
        yield f"{key} shown", 1


def _plain(cell: Any) -> Any:
    return float(cell) if isinstance(cell, (int, float)) else None if cell is None else str(cell)


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, each in tree.items():
            if name not in _NOT_TOLD:
                yield from _leaves(each, f"{path}/{name}")
    elif isinstance(tree, list):
        yield f"{path}/length", len(tree)
        for place, each in enumerate(tree):
            yield from _leaves(each, f"{path}/{place}")
    elif (packed := _packed(tree)) is not None:
        yield from ((f"{path}/{place}", float(each)) for place, each in enumerate(packed))
    else:
        yield path, _plain(tree)


def _packed(text: Any) -> NDArray[np.int64] | None:
    """Read the whole numbers of 64 bits that a published table stores in one text; None for any other text. A text
    that only looks like them is told by these numbers as well as by its letters.
    """
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return None
    return np.frombuffer(content, "<i8") if content and len(content) % 8 == 0 else None


@dataclass(frozen=True)
class Coordinates:
    """These are the cells by which two worlds are compared, as a pilot of releases in both has shown them."""

    names: tuple[str, ...]
    texts: Mapping[str, Mapping[str, int]]
    missing: Numbers
    """The number that stands for a cell that is not there, below all others."""
    middles: tuple[Numbers, Numbers]
    scales: Numbers
    kept: NDArray[np.intp]
    """The cells that the pilot's worlds differ in most, and the one they differ in least: whoever draws one noise for
    all cells moves all of them alike, and only a cell that the unit moved beside one that it did not tells the worlds
    apart. Which of the two looks further apart is a matter of luck, so the last is looked at as well as the first."""

    @classmethod
    def of(cls, first: Sequence[Told], second: Sequence[Told]) -> Coordinates:
        """Choose the cells from a pilot. No later release may have a part in this."""
        seen = [*first, *second]
        names = tuple(dict.fromkeys(name for each in seen for name in each))
        texts = {name: _places(seen, name) for name in names}
        raw = _matrix(seen, names, texts, np.full(len(names), np.nan))
        low, high = (np.nan_to_num(edge(raw, axis=0)) for edge in (_least, _greatest))
        missing = low - (high - low) - 1
        filled = np.where(np.isnan(raw), missing, raw)
        middles = np.median(filled[: len(first)], axis=0), np.median(filled[len(first) :], axis=0)
        nearest = np.where(np.arange(len(seen))[:, None] < len(first), middles[0], middles[1])
        scales = np.maximum(np.abs(filled - nearest).mean(axis=0), 1e-9 * (1 + np.abs(middles[0])))
        apart = np.abs(middles[0] - middles[1]) / scales
        changing = np.flatnonzero(np.ptp(filled, axis=0) > 0)
        ranked = changing[np.argsort(-apart[changing], kind="stable")]
        kept = np.union1d(ranked[:_MOST], ranked[-1:])
        return cls(names, texts, missing, middles, scales, kept)

    def numbers(self, releases: Sequence[Told]) -> Numbers:
        """Give a row for each release: how much more it looks like the second world than like the first, and the cells
        that differ most.

        The first number is the logarithm of a likelihood ratio where every cell has Laplace noise of its own around the
        middle that the pilot found (Neyman & Pearson 1933: no other number tells two such worlds apart better).
        """
        cells = _matrix(releases, self.names, self.texts, self.missing)
        cells = np.where(np.isnan(cells), self.missing, cells)
        first, second = (np.abs(cells - each) / self.scales for each in self.middles)
        ratio = np.clip(first - second, -1e6, 1e6).sum(axis=1)
        return np.column_stack([ratio, cells[:, self.kept]])


def _places(seen: Sequence[Told], name: str) -> dict[str, int]:
    found = sorted({cell for each in seen if isinstance(cell := each.get(name), str)})
    return {text: place for place, text in enumerate(found)}


def _matrix(
    seen: Sequence[Told], names: Sequence[str], texts: Mapping[str, Mapping[str, int]], gap: Numbers
) -> Numbers:
    made = np.tile(gap, (len(seen), 1))
    column = {name: place for place, name in enumerate(names)}
    for row, each in enumerate(seen):
        for name, cell in each.items():
            place = column.get(name)
            if place is not None and cell is not None:
                made[row, place] = texts[name].get(cell, -1) if isinstance(cell, str) else cell
    return made


def _least(cells: Numbers, axis: int) -> Numbers:
    return np.min(np.where(np.isnan(cells), np.inf, cells), axis=axis, initial=np.inf)


def _greatest(cells: Numbers, axis: int) -> Numbers:
    return np.max(np.where(np.isnan(cells), -np.inf, cells), axis=axis, initial=-np.inf)
