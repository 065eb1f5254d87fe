"""An expression is evaluated on cells, function by function: exactly on one value, and on ranges by what they bound.

Conditions and choices are evaluated on cells: whether they may be true, false or NULL, and which branch is taken.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Column, Expression, Literal, Reference
from sfumato.plan.values.grammars import FALSE, GRAMMARS, TRUE, ZERO
from sfumato.policy import Type
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.publish.cells.cell_numbers import DATE_FUNCTIONS, NUMBER_FUNCTIONS, moment, rising
from sfumato.publish.cells.cell_texts import TEXT_FUNCTIONS
from sfumato.publish.cells.cell_values import (
    LARGEST,
    Bools,
    Cells,
    Evaluation,
    PossibleTruths,
    Spans,
    Texts,
    constant,
    made,
    missing,
    point,
    spans,
    truths,
)


def _compare(operate: Callable[[Any, Any], Any]) -> Evaluation:
    def evaluation(_: Call, arguments: list[Cells]) -> Cells:
        return _compared(arguments[0], arguments[1], operate)

    return evaluation


def _compared(left: Cells, right: Cells, operate: Callable[[Any, Any], Any]) -> PossibleTruths:
    if isinstance(left, Texts) and isinstance(right, Texts):
        return _compared_texts(left, right, operate)
    a, b = spans(left), spans(right)
    both, null = a.there & b.there, a.null | b.null
    with np.errstate(invalid="ignore"):
        overlap, same = (a.low <= b.high) & (b.low <= a.high), (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
        if operate is operator.eq:
            return PossibleTruths(both & overlap, both & ~same, null)
        if operate is operator.ne:
            return PossibleTruths(both & ~same, both & overlap, null)
        ends = (a.low, b.high), (a.high, b.low)
        rising = ends if operate in (operator.lt, operator.le) else ends[::-1]
        return PossibleTruths(both & operate(*rising[0]), both & ~operate(*rising[1]), null)


def _compared_texts(left: Texts, right: Texts, operate: Callable[[Any, Any], Any]) -> PossibleTruths:
    null = left.null | right.null
    pairs = np.broadcast_arrays(left.value, right.value, null)
    flat = (bool(not gone and operate(a, b)) for a, b, gone in zip(*(each.ravel() for each in pairs), strict=True))
    true = np.fromiter(flat, bool, pairs[0].size).reshape(pairs[0].shape)
    unsure = left.open | right.open
    return PossibleTruths((true & ~null) | unsure, (~true & ~null) | unsure, null | unsure)


def _and(_: Call, arguments: list[Cells]) -> PossibleTruths:
    found = [truths(each) for each in arguments]
    true = reduce(np.logical_and, [each.true for each in found])
    false = reduce(np.logical_or, [each.false for each in found])
    unfalse = reduce(np.logical_and, [each.true | each.null for each in found])
    return PossibleTruths(true, false, unfalse & reduce(np.logical_or, [each.null for each in found]))


def _not(_: Call, arguments: list[Cells]) -> PossibleTruths:
    found = truths(arguments[0])
    return PossibleTruths(found.false, found.true, found.null)


def _or(call: Call, arguments: list[Cells]) -> PossibleTruths:
    return _not(call, [_and(call, [_not(call, [each]) for each in arguments])])


def _between(call: Call, arguments: list[Cells]) -> PossibleTruths:
    value, low, high = arguments
    return _and(call, [_compared(value, low, operator.ge), _compared(value, high, operator.le)])


def _in(call: Call, arguments: list[Cells]) -> PossibleTruths:
    return _or(call, [_compared(arguments[0], each, operator.eq) for each in arguments[1:]])


def _is_null(_: Call, arguments: list[Cells]) -> PossibleTruths:
    found = arguments[0]
    if isinstance(found, Texts):
        return PossibleTruths(found.null | found.open, ~found.null | found.open, np.zeros(found.open.shape, bool))
    there = found.there if isinstance(found, Spans) else found.true | found.false
    return PossibleTruths(found.null, there, np.zeros(there.shape, bool))


def _is(truth: bool) -> Evaluation:
    def evaluation(call: Call, arguments: list[Cells]) -> PossibleTruths:
        found = truths(arguments[0]) if truth else _not(call, arguments)
        return PossibleTruths(found.true, found.false | found.null, np.zeros(found.true.shape, bool))

    return evaluation


def _case(call: Call, arguments: list[Cells]) -> Cells:
    """Evaluate WHEN … THEN … pairs and what else: every branch that may be taken counts."""
    pairs = [(truths(arguments[k]), arguments[k + 1]) for k in range(0, len(arguments) - 1, 2)]
    branches, left = [], np.ones((1,) * arguments[0].sure.ndim, bool)
    for test, value in pairs:
        branches.append((left & test.true, value))
        left = left & (test.false | test.null)
    rest = arguments[-1] if len(arguments) % 2 else missing((1,) * left.ndim)
    return _united(call, [*branches, (left, rest)])


def _coalesce(call: Call, arguments: list[Cells]) -> Cells:
    branches, left = [], np.ones((1,) * arguments[0].sure.ndim, bool)
    for each in arguments:
        test = _is_null(call, [each])
        branches.append((left & test.false, _present(each)))
        left = left & test.true
    return _united(call, [*branches, (left, missing((1,) * left.ndim))])


def _present(found: Cells) -> Cells:
    """Give what is there of it: never NULL."""
    if isinstance(found, Spans):
        return Spans(found.low, found.high, found.there, np.zeros(found.null.shape, bool))
    return (
        PossibleTruths(found.true, found.false, np.zeros(found.null.shape, bool))
        if isinstance(found, PossibleTruths)
        else found
    )


def _nullif(call: Call, arguments: list[Cells]) -> Cells:
    same = _compared(arguments[0], arguments[1], operator.eq)
    nothing = missing((1,) * same.true.ndim)
    return _united(call, [(same.true, nothing), (same.false | same.null, arguments[0])])


def _united(call: Call, branches: list[tuple[Bools, Cells]]) -> Cells:
    """Say what a choice can be, between branches each of which may be taken where it says so."""
    if call.domain.type is Type.TEXT:
        return _united_texts(branches)
    if call.domain.type is Type.BOOLEAN:
        each = [(taken, truths(found)) for taken, found in branches]
        parts = [[taken & getattr(found, name) for taken, found in each] for name in ("true", "false", "null")]
        return PossibleTruths(*(reduce(np.logical_or, part) for part in parts))
    every = [(taken, spans(found)) for taken, found in branches]
    low = reduce(np.fmin, [np.where(taken & found.there, found.low, np.nan) for taken, found in every])
    high = reduce(np.fmax, [np.where(taken & found.there, found.high, np.nan) for taken, found in every])
    there = reduce(np.logical_or, [taken & found.there for taken, found in every])
    return Spans(low, high, there, reduce(np.logical_or, [taken & found.null for taken, found in every]))


def _united_texts(branches: list[tuple[Bools, Cells]]) -> Texts:
    shape = np.broadcast_shapes(*(taken.shape for taken, _ in branches), *(each.sure.shape for _, each in branches))
    value, open_, taken_before = np.full(shape, None, dtype=object), np.zeros(shape, bool), np.zeros(shape, bool)
    for taken, each in branches:
        if isinstance(each, Texts):
            texts, unsure = np.broadcast_to(each.value, shape), each.open
        else:
            texts, unsure = np.full(shape, None, dtype=object), np.zeros((), bool)
        here = np.broadcast_to(taken, shape)
        differs = np.not_equal(value, texts).astype(bool)
        open_ = open_ | (here & (unsure | (taken_before & differs)))
        value = np.where(here & ~taken_before, texts, value)
        taken_before = taken_before | here
    return Texts(value, open_)


CONDITION_FUNCTIONS: dict[str, Evaluation] = {
    "=": _compare(operator.eq),
    "<>": _compare(operator.ne),
    "<": _compare(operator.lt),
    "<=": _compare(operator.le),
    ">": _compare(operator.gt),
    ">=": _compare(operator.ge),
    "AND": _and,
    "OR": _or,
    "NOT": _not,
    "BETWEEN": _between,
    "IN": _in,
    "IS NULL": _is_null,
    "IS TRUE": _is(truth=True),
    "IS FALSE": _is(truth=False),
    "CASE": _case,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
}


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
        return PossibleTruths(numbers.there & other, numbers.there & zero, numbers.null)
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
        return PossibleTruths(true | found.open, false | found.open, ~(true | false) | found.open)
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
