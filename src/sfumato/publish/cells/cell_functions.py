"""An expression is evaluated on cells, function by function: exactly on one value, and on ranges by what they bound."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Column, Expression, Literal, Reference
from sfumato.plan.values.grammars import FALSE, GRAMMARS, TRUE, ZERO
from sfumato.policy import Type
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.publish.cells.cell_conditions import CONDITION_FUNCTIONS
from sfumato.publish.cells.cell_dates import DATE_FUNCTIONS, moment
from sfumato.publish.cells.cell_numbers import NUMBER_FUNCTIONS, rising
from sfumato.publish.cells.cell_texts import TEXT_FUNCTIONS
from sfumato.publish.cells.cell_values import (
    LARGEST,
    Cells,
    Evaluation,
    Spans,
    Texts,
    Truths,
    constant,
    made,
    point,
    spans,
    truths,
)

_DAY = 86_400_000_000
_HELD = 2.0**63 - 1024
"""The largest double that 64 bits hold."""


def evaluate(expression: Expression, columns: Mapping[Reference, Cells], axes: int) -> Cells:
    """Say what an expression can be in each combination of cells; every column has so many axes."""
    if isinstance(expression, Column):
        return columns[expression.reference]
    if isinstance(expression, Literal):
        return constant(expression, (1,) * axes)
    if expression.function not in _FUNCTIONS:
        known = ", ".join(sorted(_FUNCTIONS))
        rule = f"{expression.function} is not evaluated on the cells of a synopsis"
        raise Unsupported("function", rule, fix=f"use one of {known}")
    return _FUNCTIONS[expression.function](expression, [evaluate(each, columns, axes) for each in expression.arguments])


def _cast(call: Call, arguments: list[Cells]) -> Cells:
    """Read as another type: a real becomes a whole number with ties to even, a time its day."""
    found, kind, before = arguments[0], call.domain.type, call.arguments[0].domain.type
    if kind is before or (isinstance(found, Texts) and bool(found.null.all() and not found.open.any())):
        return found
    if isinstance(found, Texts):
        return _read(found, kind)
    if kind is Type.TEXT:
        return _written(found, before)
    numbers = spans(found)
    if kind is Type.BOOLEAN:
        zero, other = (numbers.low <= 0) & (numbers.high >= 0), (numbers.low != 0) | (numbers.high != 0)
        return Truths(numbers.there & other, numbers.there & zero, numbers.null)
    if kind is Type.TIMESTAMP and before is Type.DATE:
        return made(numbers.low * _DAY, numbers.high * _DAY, numbers.there, numbers.null)
    if kind is Type.DATE and before is Type.TIMESTAMP:
        return rising(lambda x: np.floor(x / _DAY))(call, [numbers])
    if kind is Type.INTEGER and before is Type.REAL:
        return _nearest(numbers)
    return numbers


def _nearest(numbers: Spans) -> Spans:
    """Round reals to whole numbers; NULL where 64 bits do not hold them."""
    held = (numbers.low <= _HELD) & (numbers.high >= -_HELD)
    beyond = numbers.there & ((numbers.high > _HELD) | (numbers.low < -_HELD))
    low, high = np.rint(np.maximum(numbers.low, -_HELD)), np.rint(np.minimum(numbers.high, _HELD))
    return Spans(low, high, numbers.there & held, numbers.null | beyond)


def _written(found: Cells, kind: Type) -> Texts:
    """Write truths, whole numbers, dates and times, each in its one way."""
    if kind is Type.BOOLEAN:
        known = truths(found)
        texts = np.full(known.true.shape, None, dtype=object)
        texts[known.true], texts[known.false & ~known.true] = "true", "false"
        return Texts(texts, ~known.sure)
    numbers = spans(found)
    texts = np.full(numbers.low.shape, None, dtype=object)
    single = numbers.there & (numbers.low == numbers.high)
    texts[single] = [_digits(each, kind) for each in numbers.low[single]]
    return Texts(texts, ~numbers.sure)


def _digits(number: float, kind: Type) -> str:
    if kind is Type.INTEGER:
        return str(int(number))
    if kind is Type.DATE:
        return str(moment(number, kind).isoformat())
    written = moment(number, kind).isoformat(" ", "microseconds")
    return str(written.rstrip("0").rstrip("."))


def _read(found: Texts, kind: Type) -> Cells:
    """Read texts by the grammar that rows are read by, which is said of dates elsewhere and not here."""
    if kind.temporal:
        rule = "texts are not read as dates in the cells of a synopsis"
        raise Unsupported("function", rule, fix="compare the text itself, or publish a column of dates")
    if kind is Type.BOOLEAN:
        true, false = (_matching(found, each) for each in (TRUE, FALSE))
        return Truths(true | found.open, false | found.open, ~(true | false) | found.open)
    low, high = np.full(found.value.shape, np.nan), np.full(found.value.shape, np.nan)
    matched = _matching(found, f"{GRAMMARS[Type.REAL]}|{ZERO}")
    ends = [_number(each, kind) for each in found.value[matched]]
    low[matched], high[matched] = ([each[place] for each in ends] for place in (0, 1))
    there = ~np.isnan(low)
    low, high = np.where(found.open, -np.inf, low), np.where(found.open, np.inf, high)
    return Spans(low, high, there | found.open, ~there | found.open)


def _matching(found: Texts, grammar: str) -> Any:
    test = re.compile(grammar)
    flat = (each is not None and test.fullmatch(each) is not None for each in found.value.ravel().tolist())
    return np.fromiter(flat, bool, found.value.size).reshape(found.value.shape)


def _number(text: str, kind: Type) -> tuple[float, float]:
    """Give the doubles around a text that is a number: none where it is too large, or not whole where it must be."""
    if kind is Type.INTEGER and re.fullmatch(GRAMMARS[Type.INTEGER], text):
        return point(int(text))
    number = float(text)
    number = 0.0 if abs(number) < SMALLEST_REAL else number
    fits = abs(number) <= LARGEST if kind is Type.REAL else number == np.floor(number) and abs(number) <= _HELD
    return (number, number) if fits else (np.nan, np.nan)


_FUNCTIONS: Mapping[str, Evaluation] = {
    **NUMBER_FUNCTIONS,
    **CONDITION_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **DATE_FUNCTIONS,
    "CAST": _cast,
}
