"""Evaluate text functions on cells: a cell has one text, NULL, or an unknown text.

The semantics are those of every engine (``plan.functions.textual``): characters are code points, upper case maps one
character to one, and results of concatenation or replacement are truncated to the longest text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.plan.values import grammars
from sfumato.plan.values.expressions import Call, Literal
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.plan.values.regular_expressions import parse_pattern, python_pattern
from sfumato.publish.cells.cell_values import CellFunction, CellOutcomes, CellTexts, PossibleTruths, ValueRanges

ScalarFunction = Callable[..., Any]
"""A function of single texts and integers, none of them NULL; returns None for NULL."""


def _like(call: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    argument, pattern = arguments[0], call.arguments[1]
    assert isinstance(pattern, Literal)
    ignore_case = call.function == "ILIKE"
    template = grammars.lower(str(pattern.value)) if ignore_case else str(pattern.value)
    parts = (".*" if character == "%" else "." if character == "_" else re.escape(character) for character in template)
    regex = re.compile("".join(parts), re.DOTALL)
    return _test_texts(argument, lambda text: bool(regex.fullmatch(grammars.lower(text) if ignore_case else text)))


def _regexp_matches(call: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    pattern = call.arguments[1]
    assert isinstance(pattern, Literal)
    regex = re.compile(python_pattern(parse_pattern(str(pattern.value))))
    return _test_texts(arguments[0], lambda text: bool(regex.search(text)))


def _test_texts(argument: CellOutcomes, test: Callable[[str], bool]) -> PossibleTruths:
    """Apply a test to the text of each cell."""
    if not isinstance(argument, CellTexts):
        argument = CellTexts(
            np.full(argument.certain.shape, None, dtype=object), np.zeros(argument.certain.shape, bool)
        )
    texts = argument.value.ravel().tolist()
    flat = (text is not None and test(text) for text in texts)
    true = np.fromiter(flat, bool, argument.value.size).reshape(argument.value.shape)
    return PossibleTruths(
        true | argument.unknown, (~true & ~argument.null) | argument.unknown, argument.null | argument.unknown
    )


def _values_and_unknown_mask(argument: CellOutcomes) -> tuple[Any, Any]:
    """Return the value of an argument in each cell, None for NULL, and where it is unknown."""
    if isinstance(argument, CellTexts):
        return argument.value, argument.unknown
    if not isinstance(argument, ValueRanges):
        return np.full(argument.certain.shape, None, dtype=object), ~argument.null
    values = np.full(argument.low.shape, None, dtype=object)
    is_known = argument.may_have_value & argument.certain
    values[is_known] = [int(number) for number in argument.low[is_known]]
    return values, ~argument.certain


def _apply_per_cell(function: ScalarFunction, arguments: list[CellOutcomes]) -> tuple[Any, Any]:
    """Apply a function cell by cell; NULL where an argument is NULL, and unknown where one is unknown."""
    columns = [_values_and_unknown_mask(argument) for argument in arguments]
    arrays = np.broadcast_arrays(*(values for values, _ in columns))
    open_ = np.broadcast_to(
        np.logical_or.reduce(np.broadcast_arrays(*(unknown for _, unknown in columns))), arrays[0].shape
    )
    results = np.full(arrays[0].shape, None, dtype=object)
    results_by_arguments: dict[tuple[Any, ...], Any] = {}
    for index, cell_arguments in enumerate(zip(*(array.flat for array in arrays), strict=True)):
        if None in cell_arguments:
            continue
        if cell_arguments not in results_by_arguments:
            results_by_arguments[cell_arguments] = function(*cell_arguments)
        results.flat[index] = results_by_arguments[cell_arguments]
    return results, open_


def _lift_text_function(function: ScalarFunction) -> CellFunction:
    return lambda _, arguments: CellTexts(*_apply_per_cell(function, arguments))


def _text_length(call: Call, arguments: list[CellOutcomes]) -> ValueRanges:
    lengths, open_ = _apply_per_cell(len, arguments)
    low, high = (float(bound) for bound in call.domain.bounds or (0, LONGEST))  # type: ignore[arg-type]
    there = np.asarray(lengths != None)  # noqa: E711 - cell by cell
    values = np.full(lengths.shape, np.nan)
    values[there] = lengths[there].astype(float)
    return ValueRanges(np.where(open_, low, values), np.where(open_, high, values), there | open_, ~there | open_)


def _starts_with(_: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    results, open_ = _apply_per_cell(lambda text, start: text.startswith(start), arguments)
    true, false = (np.asarray(results == truth) for truth in (True, False))
    return PossibleTruths(true | open_, false | open_, ~(true | false) | open_)


def _concat(_: Call, arguments: list[CellOutcomes]) -> CellTexts:
    """Concatenate texts, ignoring NULL."""
    filled = [_null_as_empty(argument) for argument in arguments]
    return CellTexts(*_apply_per_cell(lambda *texts: "".join(texts)[:LONGEST], filled))


def _null_as_empty(argument: CellOutcomes) -> CellOutcomes:
    values, open_ = _values_and_unknown_mask(argument)
    filled = values.copy()
    filled[values == None] = ""  # noqa: E711 - cell by cell
    return CellTexts(filled, open_)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new)[:LONGEST] if old else text


def _slice(text: str, first: int, count: int) -> str:
    """Return so many characters from a 1-based position on."""
    return text[first - 1 : first - 1 + count]


def _substr(text: str, start: int, count: int | None = None) -> str:
    first = len(text) + 1 + start if start < 0 else start
    start_at = max(first, 1)
    return _slice(text, start_at, len(text) if count is None else max(first + count - start_at, 0))


def _left(text: str, count: int) -> str:
    return _slice(text, 1, max(len(text) + count if count < 0 else count, 0))


def _right(text: str, count: int) -> str:
    return _slice(text, max(-count if count < 0 else len(text) - count, 0) + 1, len(text))


TEXT_FUNCTIONS: dict[str, CellFunction] = {
    "LIKE": _like,
    "ILIKE": _like,
    "REGEXP_MATCHES": _regexp_matches,
    "LOWER": _lift_text_function(grammars.lower),
    "UPPER": _lift_text_function(grammars.upper),
    "TRIM": _lift_text_function(lambda text, trimmed=" ": text.strip(trimmed)),
    "LTRIM": _lift_text_function(lambda text, trimmed=" ": text.lstrip(trimmed)),
    "RTRIM": _lift_text_function(lambda text, trimmed=" ": text.rstrip(trimmed)),
    "SUBSTR": _lift_text_function(_substr),
    "LEFT": _lift_text_function(_left),
    "RIGHT": _lift_text_function(_right),
    "LENGTH": _text_length,
    "CONCAT": _concat,
    "||": _lift_text_function(lambda *texts: "".join(texts)[:LONGEST]),
    "REPLACE": _lift_text_function(_replace),
    "STARTS_WITH": _starts_with,
}
