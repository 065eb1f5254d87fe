"""Evaluate SQL expressions on cells: exactly on single values, and by interval arithmetic on ranges.

A condition may be true, false or NULL in a cell, or several of these; CASE and COALESCE unite all branches that may be
taken.

*Text functions:* a cell has one text, NULL, or an unknown text.

The semantics are those of every engine (``plan.functions.textual``): characters are code points, upper case maps one
character to one, and results of concatenation or replacement are truncated to the longest text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from sfumato.array_types import Bools
from sfumato.errors import Unsupported
from sfumato.plan.values import grammars
from sfumato.plan.values.expressions import Call, Column, Expression, Literal, Reference
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.plan.values.grammars import FALSE, GRAMMARS, TRUE, ZERO
from sfumato.plan.values.regular_expressions import parse_pattern, python_pattern
from sfumato.policy import Type
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.publish.cells.cell_numbers import DATE_FUNCTIONS, NUMBER_FUNCTIONS, lift_nondecreasing, moment_from_number
from sfumato.publish.cells.cell_values import (
    LARGEST,
    CellFunction,
    CellOutcomes,
    CellTexts,
    PossibleTruths,
    UndecidedText,
    ValueRanges,
    as_ranges,
    as_truths,
    constant_outcomes,
    enclosing_doubles,
    null_ranges,
    ranges_with_overflow,
)

ScalarFunction = Callable[..., Any]
"""A function of single texts and integers, none of them NULL; returns None for NULL."""


class ConditionColumn(NamedTuple):
    """A column in a condition, with the level of its attribute if it is one."""

    reference: Reference
    attribute_index: int
    level: int | None


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


def _values_and_undetermined_mask(argument: CellOutcomes) -> tuple[Any, Any]:
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
    columns = [_values_and_undetermined_mask(argument) for argument in arguments]
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
    values, open_ = _values_and_undetermined_mask(argument)
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


def _comparison_evaluator(operate: Callable[[Any, Any], Any]) -> CellFunction:
    def evaluation(_: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
        return _compare_cells(arguments[0], arguments[1], operate)

    return evaluation


def _compare_cells(left: CellOutcomes, right: CellOutcomes, operate: Callable[[Any, Any], Any]) -> PossibleTruths:
    if isinstance(left, CellTexts) and isinstance(right, CellTexts):
        return _compare_texts(left, right, operate)
    a, b = as_ranges(left), as_ranges(right)
    both, null = a.may_have_value & b.may_have_value, a.null | b.null
    with np.errstate(invalid="ignore"):
        overlap, same = (a.low <= b.high) & (b.low <= a.high), (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
        if operate is operator.eq:
            return PossibleTruths(both & overlap, both & ~same, null)
        if operate is operator.ne:
            return PossibleTruths(both & ~same, both & overlap, null)
        ends = (a.low, b.high), (a.high, b.low)
        endpoints = ends if operate in (operator.lt, operator.le) else ends[::-1]
        return PossibleTruths(both & operate(*endpoints[0]), both & ~operate(*endpoints[1]), null)


def _compare_texts(left: CellTexts, right: CellTexts, operate: Callable[[Any, Any], Any]) -> PossibleTruths:
    null = left.null | right.null
    pairs = np.broadcast_arrays(left.value, right.value, null)
    flat = (
        bool(not is_null and operate(a, b)) for a, b, is_null in zip(*(array.ravel() for array in pairs), strict=True)
    )
    true = np.fromiter(flat, bool, pairs[0].size).reshape(pairs[0].shape)
    uncertain = left.unknown | right.unknown
    if operate in (operator.eq, operator.ne):
        never_equal = _surely_unequal(left, right) | _surely_unequal(right, left)
        true, uncertain = np.where(never_equal, operate is operator.ne, true), uncertain & ~never_equal
    return PossibleTruths((true & ~null) | uncertain, (~true & ~null) | uncertain, null | uncertain)


def _surely_unequal(among: CellTexts, decided: CellTexts) -> Bools:
    """Return where a text that is one of several is compared with a known text that is none of them."""
    pairs = np.broadcast_arrays(among.value, decided.value, decided.unknown | decided.null)
    flat = (
        not is_open and isinstance(text, UndecidedText) and other not in text.options
        for text, other, is_open in zip(*(array.ravel() for array in pairs), strict=True)
    )
    return np.fromiter(flat, bool, pairs[0].size).reshape(pairs[0].shape)


def _and(_: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    conditions = [as_truths(argument) for argument in arguments]
    true = reduce(np.logical_and, [condition.true for condition in conditions])
    false = reduce(np.logical_or, [condition.false for condition in conditions])
    unfalse = reduce(np.logical_and, [condition.true | condition.null for condition in conditions])
    return PossibleTruths(true, false, unfalse & reduce(np.logical_or, [condition.null for condition in conditions]))


def _not(_: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    condition = as_truths(arguments[0])
    return PossibleTruths(condition.false, condition.true, condition.null)


def _or(call: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    return _not(call, [_and(call, [_not(call, [argument]) for argument in arguments])])


def _between(call: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    value, low, high = arguments
    return _and(call, [_compare_cells(value, low, operator.ge), _compare_cells(value, high, operator.le)])


def _in(call: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    return _or(call, [_compare_cells(arguments[0], candidate, operator.eq) for candidate in arguments[1:]])


def _is_null(_: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
    argument = arguments[0]
    if isinstance(argument, CellTexts):
        return PossibleTruths(
            argument.null | argument.unknown, ~argument.null | argument.unknown, np.zeros(argument.unknown.shape, bool)
        )
    there = argument.may_have_value if isinstance(argument, ValueRanges) else argument.true | argument.false
    return PossibleTruths(argument.null, there, np.zeros(there.shape, bool))


def _truth_test_evaluator(truth: bool) -> CellFunction:
    def evaluation(call: Call, arguments: list[CellOutcomes]) -> PossibleTruths:
        condition = as_truths(arguments[0]) if truth else _not(call, arguments)
        return PossibleTruths(condition.true, condition.false | condition.null, np.zeros(condition.true.shape, bool))

    return evaluation


def _case(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    """Evaluate WHEN … THEN … pairs and ELSE: every branch that may be taken counts."""
    pairs = [(as_truths(arguments[k]), arguments[k + 1]) for k in range(0, len(arguments) - 1, 2)]
    branches, remaining = [], np.ones((1,) * arguments[0].certain.ndim, bool)
    for test, value in pairs:
        branches.append((remaining & test.true, value))
        remaining = remaining & (test.false | test.null)
    otherwise = arguments[-1] if len(arguments) % 2 else null_ranges((1,) * remaining.ndim)
    return _unite_branches(call, [*branches, (remaining, otherwise)])


def _coalesce(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    branches, remaining = [], np.ones((1,) * arguments[0].certain.ndim, bool)
    for argument in arguments:
        is_null = _is_null(call, [argument])
        branches.append((remaining & is_null.false, _without_null(argument)))
        remaining = remaining & is_null.true
    return _unite_branches(call, [*branches, (remaining, null_ranges((1,) * remaining.ndim))])


def _without_null(cells: CellOutcomes) -> CellOutcomes:
    """Drop NULL from what the cells can be."""
    if isinstance(cells, ValueRanges):
        return ValueRanges(cells.low, cells.high, cells.may_have_value, np.zeros(cells.null.shape, bool))
    return (
        PossibleTruths(cells.true, cells.false, np.zeros(cells.null.shape, bool))
        if isinstance(cells, PossibleTruths)
        else cells
    )


def _nullif(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    same = _compare_cells(arguments[0], arguments[1], operator.eq)
    null = null_ranges((1,) * same.true.ndim)
    return _unite_branches(call, [(same.true, null), (same.false | same.null, arguments[0])])


def _unite_branches(call: Call, branches: list[tuple[Bools, CellOutcomes]]) -> CellOutcomes:
    """Unite the branches of a choice, each with the cells in which it may be taken."""
    if call.domain.type is Type.TEXT:
        return _unite_texts(branches)
    if call.domain.type is Type.BOOLEAN:
        conditions = [(taken, as_truths(cells)) for taken, cells in branches]
        parts = [[taken & getattr(cells, name) for taken, cells in conditions] for name in ("true", "false", "null")]
        return PossibleTruths(*(reduce(np.logical_or, part) for part in parts))
    numbers = [(taken, as_ranges(cells)) for taken, cells in branches]
    low = reduce(np.fmin, [np.where(taken & cells.may_have_value, cells.low, np.nan) for taken, cells in numbers])
    high = reduce(np.fmax, [np.where(taken & cells.may_have_value, cells.high, np.nan) for taken, cells in numbers])
    there = reduce(np.logical_or, [taken & cells.may_have_value for taken, cells in numbers])
    return ValueRanges(low, high, there, reduce(np.logical_or, [taken & cells.null for taken, cells in numbers]))


def _unite_texts(branches: list[tuple[Bools, CellOutcomes]]) -> CellTexts:
    shape = np.broadcast_shapes(
        *(taken.shape for taken, _ in branches), *(cells.certain.shape for _, cells in branches)
    )
    value, open_, taken_before = np.full(shape, None, dtype=object), np.zeros(shape, bool), np.zeros(shape, bool)
    for taken, cells in branches:
        if isinstance(cells, CellTexts):
            texts, uncertain = np.broadcast_to(cells.value, shape), cells.unknown
        else:
            texts, uncertain = np.full(shape, None, dtype=object), np.zeros((), bool)
        may_be_taken = np.broadcast_to(taken, shape)
        differs = np.not_equal(value, texts).astype(bool)
        open_ = open_ | (may_be_taken & (uncertain | (taken_before & differs)))
        value = np.where(may_be_taken & ~taken_before, texts, value)
        taken_before = taken_before | may_be_taken
    return CellTexts(value, open_)


CONDITION_FUNCTIONS: dict[str, CellFunction] = {
    "=": _comparison_evaluator(operator.eq),
    "<>": _comparison_evaluator(operator.ne),
    "<": _comparison_evaluator(operator.lt),
    "<=": _comparison_evaluator(operator.le),
    ">": _comparison_evaluator(operator.gt),
    ">=": _comparison_evaluator(operator.ge),
    "AND": _and,
    "OR": _or,
    "NOT": _not,
    "BETWEEN": _between,
    "IN": _in,
    "IS NULL": _is_null,
    "IS TRUE": _truth_test_evaluator(truth=True),
    "IS FALSE": _truth_test_evaluator(truth=False),
    "CASE": _case,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
}


_DAY = 86_400_000_000
_LARGEST_INTEGER_DOUBLE = 2.0**63 - 1024
"""The largest double that fits a signed 64-bit integer."""


def evaluate_on_cells(expression: Expression, columns: Mapping[Reference, CellOutcomes], axes: int) -> CellOutcomes:
    """Return what an expression can be in each combination of cells; every column has so many axes."""
    if isinstance(expression, Column):
        return columns[expression.reference]
    if isinstance(expression, Literal):
        return constant_outcomes(expression, (1,) * axes)
    if expression.function not in _FUNCTIONS:
        supported = ", ".join(sorted(_FUNCTIONS))
        rule = f"{expression.function} cannot be computed from a synopsis"
        raise Unsupported("function", rule, fix=f"use one of these functions: {supported}")
    return _FUNCTIONS[expression.function](
        expression, [evaluate_on_cells(argument, columns, axes) for argument in expression.arguments]
    )


def _cast(call: Call, arguments: list[CellOutcomes]) -> CellOutcomes:
    """Convert to another type: a real becomes an integer with ties to even, a timestamp its date."""
    argument, kind, source = arguments[0], call.domain.type, call.arguments[0].domain.type
    if kind is source or (isinstance(argument, CellTexts) and bool(argument.null.all() and not argument.unknown.any())):
        return argument
    if isinstance(argument, CellTexts):
        return _parse_texts(argument, kind)
    if kind is Type.TEXT:
        return _format_cells(argument, source)
    numbers = as_ranges(argument)
    if kind is Type.BOOLEAN:
        may_be_zero, may_be_nonzero = (numbers.low <= 0) & (numbers.high >= 0), (numbers.low != 0) | (numbers.high != 0)
        return PossibleTruths(
            numbers.may_have_value & may_be_nonzero, numbers.may_have_value & may_be_zero, numbers.null
        )
    if kind is Type.TIMESTAMP and source is Type.DATE:
        return ranges_with_overflow(numbers.low * _DAY, numbers.high * _DAY, numbers.may_have_value, numbers.null)
    if kind is Type.DATE and source is Type.TIMESTAMP:
        return lift_nondecreasing(lambda x: np.floor(x / _DAY))(call, [numbers])
    if kind is Type.INTEGER and source is Type.REAL:
        return _round_to_integer(numbers)
    return numbers


def _round_to_integer(numbers: ValueRanges) -> ValueRanges:
    """Round reals to integers; NULL where 64 bits overflow."""
    fits = (numbers.low <= _LARGEST_INTEGER_DOUBLE) & (numbers.high >= -_LARGEST_INTEGER_DOUBLE)
    overflows = numbers.may_have_value & (
        (numbers.high > _LARGEST_INTEGER_DOUBLE) | (numbers.low < -_LARGEST_INTEGER_DOUBLE)
    )
    low = np.rint(np.maximum(numbers.low, -_LARGEST_INTEGER_DOUBLE))
    high = np.rint(np.minimum(numbers.high, _LARGEST_INTEGER_DOUBLE))
    return ValueRanges(low, high, numbers.may_have_value & fits, numbers.null | overflows)


def _format_cells(argument: CellOutcomes, sql_type: Type) -> CellTexts:
    """Format truths, integers, dates and timestamps in their canonical form."""
    if sql_type is Type.BOOLEAN:
        condition = as_truths(argument)
        texts = np.full(condition.true.shape, None, dtype=object)
        texts[condition.true], texts[condition.false & ~condition.true] = "true", "false"
        return CellTexts(texts, ~condition.certain)
    numbers = as_ranges(argument)
    texts = np.full(numbers.low.shape, None, dtype=object)
    single = numbers.may_have_value & (numbers.low == numbers.high)
    texts[single] = [_format_value(number, sql_type) for number in numbers.low[single]]
    return CellTexts(texts, ~numbers.certain)


def _format_value(number: float, sql_type: Type) -> str:
    if sql_type is Type.INTEGER:
        return str(int(number))
    if sql_type is Type.DATE:
        return str(moment_from_number(number, sql_type).isoformat())
    formatted = moment_from_number(number, sql_type).isoformat(" ", "microseconds")
    return str(formatted.rstrip("0").rstrip("."))


def _parse_texts(texts: CellTexts, sql_type: Type) -> CellOutcomes:
    """Parse texts by the grammar that rows are parsed by; dates are not supported."""
    if sql_type.temporal:
        rule = "a synopsis cannot parse texts as dates"
        raise Unsupported(
            "function", rule, fix="compare the text itself, or publish a column that is declared as a date"
        )
    if sql_type is Type.BOOLEAN:
        true, false = (_matches(texts, grammar) for grammar in (TRUE, FALSE))
        return PossibleTruths(true | texts.unknown, false | texts.unknown, ~(true | false) | texts.unknown)
    low, high = np.full(texts.value.shape, np.nan), np.full(texts.value.shape, np.nan)
    matched = _matches(texts, f"{GRAMMARS[Type.REAL]}|{ZERO}")
    ends = [_parse_number(text, sql_type) for text in texts.value[matched]]
    low[matched], high[matched] = ([end[side] for end in ends] for side in (0, 1))
    there = ~np.isnan(low)
    low, high = np.where(texts.unknown, -np.inf, low), np.where(texts.unknown, np.inf, high)
    return ValueRanges(low, high, there | texts.unknown, ~there | texts.unknown)


def _matches(texts: CellTexts, grammar: str) -> Any:
    pattern = re.compile(grammar)
    flat = (text is not None and pattern.fullmatch(text) is not None for text in texts.value.ravel().tolist())
    return np.fromiter(flat, bool, texts.value.size).reshape(texts.value.shape)


def _parse_number(text: str, sql_type: Type) -> tuple[float, float]:
    """Return the doubles around a number in a text; NaN where it is too large, or not whole though it must be."""
    if sql_type is Type.INTEGER and re.fullmatch(GRAMMARS[Type.INTEGER], text):
        return enclosing_doubles(int(text))
    number = float(text)
    number = 0.0 if abs(number) < SMALLEST_REAL else number
    fits = (
        abs(number) <= LARGEST
        if sql_type is Type.REAL
        else number == np.floor(number) and abs(number) <= _LARGEST_INTEGER_DOUBLE
    )
    return (number, number) if fits else (np.nan, np.nan)


_FUNCTIONS: Mapping[str, CellFunction] = {
    **NUMBER_FUNCTIONS,
    **CONDITION_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **DATE_FUNCTIONS,
    "CAST": _cast,
}
