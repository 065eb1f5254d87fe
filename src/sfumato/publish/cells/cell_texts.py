"""Functions of texts are evaluated on cells: a cell has one text, NULL, or one that is not known.

Each means what it means in every engine (``plan.functions.textual``): letters are code points, a capital is one letter,
and what is joined or replaced is cut where texts end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.plan.values import grammars
from sfumato.plan.values.expressions import Call, Literal
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.publish.cells.cell_values import Cells, Evaluation, PossibleTruths, Spans, Texts

Each = Callable[..., Any]
"""Makes of single texts and whole numbers, none of them NULL, what a function makes of them; NULL is None."""


def _like(call: Call, arguments: list[Cells]) -> PossibleTruths:
    found, pattern = arguments[0], call.arguments[1]
    assert isinstance(pattern, Literal)
    if not isinstance(found, Texts):
        found = Texts(np.full(found.sure.shape, None, dtype=object), np.zeros(found.sure.shape, bool))
    folded = call.function == "ILIKE"
    written = grammars.lower(str(pattern.value)) if folded else str(pattern.value)
    parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in written)
    test = re.compile("".join(parts), re.DOTALL)
    texts = found.value.ravel().tolist()
    flat = (each is not None and bool(test.fullmatch(grammars.lower(each) if folded else each)) for each in texts)
    true = np.fromiter(flat, bool, found.value.size).reshape(found.value.shape)
    return PossibleTruths(true | found.open, (~true & ~found.null) | found.open, found.null | found.open)


def _argument(found: Cells) -> tuple[Any, Any]:
    """Give what an argument is in each cell, None for NULL, and where that is not known."""
    if isinstance(found, Texts):
        return found.value, found.open
    if not isinstance(found, Spans):
        return np.full(found.sure.shape, None, dtype=object), ~found.null
    values = np.full(found.low.shape, None, dtype=object)
    known = found.there & found.sure
    values[known] = [int(each) for each in found.low[known]]
    return values, ~found.sure


def _applied(function: Each, arguments: list[Cells]) -> tuple[Any, Any]:
    """Apply a function cell by cell; NULL where an argument is, and not known where one is not known."""
    read = [_argument(each) for each in arguments]
    arrays = np.broadcast_arrays(*(values for values, _ in read))
    open_ = np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*(each for _, each in read))), arrays[0].shape)
    found = np.full(arrays[0].shape, None, dtype=object)
    kept: dict[tuple[Any, ...], Any] = {}
    for place, each in enumerate(zip(*(array.flat for array in arrays), strict=True)):
        if None in each:
            continue
        if each not in kept:
            kept[each] = function(*each)
        found.flat[place] = kept[each]
    return found, open_


def _text(function: Each) -> Evaluation:
    return lambda _, arguments: Texts(*_applied(function, arguments))


def _length(call: Call, arguments: list[Cells]) -> Spans:
    found, open_ = _applied(len, arguments)
    low, high = (float(each) for each in call.domain.bounds or (0, LONGEST))  # type: ignore[arg-type]
    there = np.asarray(found != None)  # noqa: E711 - cell by cell
    values = np.full(found.shape, np.nan)
    values[there] = found[there].astype(float)
    return Spans(np.where(open_, low, values), np.where(open_, high, values), there | open_, ~there | open_)


def _starts_with(_: Call, arguments: list[Cells]) -> PossibleTruths:
    found, open_ = _applied(lambda text, start: text.startswith(start), arguments)
    true, false = (np.asarray(found == each) for each in (True, False))
    return PossibleTruths(true | open_, false | open_, ~(true | false) | open_)


def _concat(_: Call, arguments: list[Cells]) -> Texts:
    """Join texts, passing over those that are missing."""
    there = [_present(each) for each in arguments]
    return Texts(*_applied(lambda *texts: "".join(texts)[:LONGEST], there))


def _present(found: Cells) -> Cells:
    values, open_ = _argument(found)
    filled = values.copy()
    filled[values == None] = ""  # noqa: E711 - cell by cell
    return Texts(filled, open_)


def _replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new)[:LONGEST] if old else text


def _slice(text: str, first: int, count: int) -> str:
    """Give so many letters from a position on, counted from 1."""
    return text[first - 1 : first - 1 + count]


def _substr(text: str, start: int, count: int | None = None) -> str:
    first = len(text) + 1 + start if start < 0 else start
    begin = max(first, 1)
    return _slice(text, begin, len(text) if count is None else max(first + count - begin, 0))


def _left(text: str, count: int) -> str:
    return _slice(text, 1, max(len(text) + count if count < 0 else count, 0))


def _right(text: str, count: int) -> str:
    return _slice(text, max(-count if count < 0 else len(text) - count, 0) + 1, len(text))


TEXT_FUNCTIONS: dict[str, Evaluation] = {
    "LIKE": _like,
    "ILIKE": _like,
    "LOWER": _text(grammars.lower),
    "UPPER": _text(grammars.upper),
    "TRIM": _text(lambda text, trimmed=" ": text.strip(trimmed)),
    "LTRIM": _text(lambda text, trimmed=" ": text.lstrip(trimmed)),
    "RTRIM": _text(lambda text, trimmed=" ": text.rstrip(trimmed)),
    "SUBSTR": _text(_substr),
    "LEFT": _text(_left),
    "RIGHT": _text(_right),
    "LENGTH": _length,
    "CONCAT": _concat,
    "||": _text(lambda *texts: "".join(texts)[:LONGEST]),
    "REPLACE": _text(_replaced),
    "STARTS_WITH": _starts_with,
}
