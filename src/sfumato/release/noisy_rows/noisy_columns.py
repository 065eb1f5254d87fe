"""Columns of noisy rows and expressions over them are computed here: this is post-processing, and free.

Ranges are carried along by interval arithmetic, so that the range of ``SUM(x) / COUNT(*)`` holds whenever those of
its parts hold. A comparison is *sure* where all numbers within the ranges compare alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.aggregates.measures import Floats
from sfumato.plan.values.expressions import Call, Column, Expression, Literal, Reference, noises
from sfumato.policy import Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL

Bools = NDArray[np.bool_]
_SMALLEST, _LARGEST = float(SMALLEST_REAL), float(LARGEST_REAL)


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; NaN is NULL."""

    value: Floats
    low: Floats
    high: Floats
    sum_width: Callable[[int], float] | None = None
    """The half-width of the sum of so many rows, where their noises are independent."""


@dataclass(frozen=True)
class TruthColumn:
    """A column of true, false and unknown."""

    true: Bools
    known: Bools
    sure: Bools
    """Whether it is the same for all numbers within the ranges."""


@dataclass(frozen=True)
class Keys:
    """A column of public values; None is NULL."""

    value: NDArray[Any]
    decided: bool = False
    """Whether noisy numbers decided between values: then none of them is sure."""


Evaluated = Numbers | TruthColumn | Keys


def objects(values: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def evaluate_on(expression: Expression, names: Mapping[Reference, Evaluated], count: int) -> Evaluated:
    """Evaluate an expression on so many rows, whose columns are these."""
    if isinstance(expression, Column):
        return names[expression.reference]
    if isinstance(expression, Literal):
        return _constant(expression, count)
    arguments = [evaluate_on(each, names, count) for each in expression.arguments]
    return _FUNCTIONS[expression.function](expression, arguments)


def _constant(literal: Literal, count: int) -> Evaluated:
    if literal.domain.type.numeric and literal.value is not None:
        value = np.full(count, float(literal.value))  # type: ignore[arg-type]
        return Numbers(value, value, value)
    if isinstance(literal.value, bool):
        return TruthColumn(np.full(count, literal.value), np.ones(count, bool), np.ones(count, bool))
    return Keys(objects([literal.value] * count))


def numbers(column: Evaluated) -> Numbers:
    if isinstance(column, Numbers):
        return column
    if isinstance(column, TruthColumn):
        value = np.where(column.known, column.true.astype(np.float64), np.nan)
    else:
        value = np.array([np.nan if each is None else float(each) for each in column.value], dtype=np.float64)
        if column.decided:  # the exact one may be any other
            return Numbers(value, np.full(len(value), -np.inf), np.full(len(value), np.inf))
    return Numbers(value, value, value)


def truths(column: Evaluated) -> TruthColumn:
    """Read a column as true, false and unknown."""
    if isinstance(column, TruthColumn):
        return column
    value = column.value
    known = np.array([each is not None for each in value], bool)
    return TruthColumn(np.array([bool(each) for each in value], bool) & known, known, is_sure(column))


def _finite(value: Floats, low: Floats, high: Floats) -> Numbers:
    """Reals are as in the rows: below 2^-500 in size they are 0, and what is above 2^500 or no number is NULL.

    An end that cannot be computed, or is beyond 2^500, is that of the whole line.
    """
    value, low, high = (np.where(np.abs(each) < _SMALLEST, 0.0, each) for each in (value, low, high))
    return Numbers(
        np.where(np.abs(value) <= _LARGEST, value, np.nan),
        np.where(low >= -_LARGEST, np.minimum(low, _LARGEST), -np.inf),
        np.where(high <= _LARGEST, np.maximum(high, -_LARGEST), np.inf),
    )


def _binary(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """Compute an operation whose range is reached at the corners."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        left, right = map(numbers, arguments)
        with np.errstate(all="ignore"):
            corners = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
            return _finite(operate(left.value, right.value), np.minimum.reduce(corners), np.maximum.reduce(corners))

    return evaluate


def _divide(_: Call, arguments: list[Evaluated]) -> Evaluated:
    left, right = map(numbers, arguments)
    with np.errstate(all="ignore"):
        corners = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
        crosses = (right.low <= 0) & (right.high >= 0)
        low = np.where(crosses, -np.inf, np.minimum.reduce(corners))
        high = np.where(crosses, np.inf, np.maximum.reduce(corners))
        return _finite(np.where(right.value == 0, np.nan, left.value / right.value), low, high)


def _divide_whole(call: Call, arguments: list[Evaluated]) -> Evaluated:
    return _rising(np.trunc)(call, [_divide(call, arguments)])


def _modulo(_: Call, arguments: list[Evaluated]) -> Evaluated:
    left, right = map(numbers, arguments)
    with np.errstate(all="ignore"):
        value = np.fmod(left.value, right.value)
    return _finite(value, np.full(len(value), -np.inf), np.full(len(value), np.inf))


def _rising(operate: Callable[..., Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """Apply a function that never falls: ends go to ends."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        columns = [numbers(each) for each in arguments]
        with np.errstate(all="ignore"):
            ends = [operate(*(getattr(each, end) for each in columns)) for end in ("value", "low", "high")]
        return _finite(*ends)

    return evaluate


def _round(value: Floats, digits: Floats | None = None) -> Floats:
    places = 10.0 ** (0 if digits is None else digits)
    return np.copysign(np.floor(np.abs(value) * places + 0.5) / places, value)


def _sqrt(value: Floats) -> Floats:
    return np.sqrt(np.where(value < 0, np.nan, value))


def _negate(_: Call, arguments: list[Evaluated]) -> Evaluated:
    only = numbers(arguments[0])
    return Numbers(-only.value, -only.high, -only.low)


def _abs(_: Call, arguments: list[Evaluated]) -> Evaluated:
    only = numbers(arguments[0])
    high = np.maximum(np.abs(only.low), np.abs(only.high))
    low = np.where((only.low <= 0) & (only.high >= 0), 0, np.minimum(np.abs(only.low), np.abs(only.high)))
    return Numbers(np.abs(only.value), low, high)


def _extreme(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """Compute LEAST and GREATEST, which pass over NULL."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        columns = [numbers(each) for each in arguments]
        ends = []
        for end in ("value", "low", "high"):
            made = getattr(columns[0], end)
            for each in columns[1:]:
                made = operate(made, getattr(each, end))
            ends.append(made)
        return _finite(*ends)

    return evaluate


def _compare(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        return _compared(arguments[0], arguments[1], operate)

    return evaluate


def _compared(left: Evaluated, right: Evaluated, operate: Callable[[Any, Any], Any]) -> TruthColumn:
    if isinstance(left, Numbers) or isinstance(right, Numbers):
        ours, theirs = numbers(left), numbers(right)
        known = ~(np.isnan(ours.value) | np.isnan(theirs.value))
        with np.errstate(invalid="ignore"):
            return TruthColumn(
                np.asarray(operate(ours.value, theirs.value), bool) & known, known, _surely(ours, theirs, operate)
            )
    here, there = _plain(left), _plain(right)
    known = np.array([x is not None and y is not None for x, y in zip(here, there, strict=True)], bool)
    pairs = zip(here, there, known, strict=True)
    sure = is_sure(left) & is_sure(right)
    return TruthColumn(np.array([bool(operate(x, y)) if both else False for x, y, both in pairs], bool), known, sure)


def is_sure(column: Evaluated) -> Bools:
    """Tell where a column is the same for all numbers within the ranges."""
    if isinstance(column, Numbers):
        return np.asarray(column.low == column.high, bool)
    return column.sure if isinstance(column, TruthColumn) else np.full(len(column.value), not column.decided)


def _surely(left: Numbers, right: Numbers, operate: Callable[[Any, Any], Any]) -> Bools:
    """Return whether all corners of two ranges compare alike, and equality is not in between."""
    with np.errstate(invalid="ignore"):
        corners = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        apart = (left.high < right.low) | (left.low > right.high)
    single = (left.low == left.high) & (right.low == right.high)
    alike = np.logical_and.reduce(corners) | ~np.logical_or.reduce(corners)
    unknown = np.isnan([left.value, left.low, left.high, right.value, right.low, right.high]).any(axis=0)
    touching = operate not in (operator.eq, operator.ne)
    return np.asarray(alike & (apart | single | touching) & ~unknown, bool)


def _plain(column: Evaluated) -> Sequence[Any]:
    if isinstance(column, TruthColumn):
        return [bool(value) if known else None for value, known in zip(column.true, column.known, strict=True)]
    return list(column.value)


def _and(_: Call, arguments: list[Evaluated]) -> Evaluated:
    columns = [truths(each) for each in arguments]
    false = np.logical_or.reduce([each.known & ~each.true for each in columns])
    surely_false = np.logical_or.reduce([each.known & ~each.true & each.sure for each in columns])
    return TruthColumn(
        np.logical_and.reduce([each.known & each.true for each in columns]),
        false | np.logical_and.reduce([each.known for each in columns]),
        surely_false | np.logical_and.reduce([each.sure for each in columns]),
    )


def _or(_: Call, arguments: list[Evaluated]) -> Evaluated:
    columns = [truths(each) for each in arguments]
    true = np.logical_or.reduce([each.known & each.true for each in columns])
    surely_true = np.logical_or.reduce([each.known & each.true & each.sure for each in columns])
    sure = surely_true | np.logical_and.reduce([each.sure for each in columns])
    return TruthColumn(true, true | np.logical_and.reduce([each.known for each in columns]), sure)


def _not(_: Call, arguments: list[Evaluated]) -> Evaluated:
    only = truths(arguments[0])
    return TruthColumn(~only.true & only.known, only.known, only.sure)


def _between(call: Call, arguments: list[Evaluated]) -> Evaluated:
    value, low, high = arguments
    return _and(call, [_compared(value, low, operator.ge), _compared(value, high, operator.le)])


def _in(call: Call, arguments: list[Evaluated]) -> Evaluated:
    return _or(call, [_compared(arguments[0], each, operator.eq) for each in arguments[1:]])


def missing(column: Evaluated) -> Bools:
    if isinstance(column, Numbers):
        return np.isnan(column.value)
    if isinstance(column, TruthColumn):
        return ~column.known
    return np.array([each is None for each in column.value], bool)


def _is_null(_: Call, arguments: list[Evaluated]) -> Evaluated:
    found = missing(arguments[0])
    return TruthColumn(found, np.ones(len(found), bool), is_sure(arguments[0]))


def _case(call: Call, arguments: list[Evaluated]) -> Evaluated:
    """Evaluate WHEN … THEN … pairs, and perhaps an ELSE."""
    pairs = [
        (truths(arguments[k]).true & truths(arguments[k]).known, arguments[k + 1])
        for k in range(0, len(arguments) - 1, 2)
    ]
    count = len(pairs[0][0])
    rest: Evaluated = arguments[-1] if len(arguments) % 2 else Keys(objects([None] * count))
    for test, value in reversed(pairs):
        rest = _chosen(call, test, value, rest)
    return rest


def _chosen(call: Call, test: Bools, yes: Evaluated, no: Evaluated) -> Evaluated:
    """Choose a branch: which one was decided by a noisy number, so its range covers both branches."""
    if call.domain.type.numeric:
        a, b = numbers(yes), numbers(no)
        return Numbers(np.where(test, a.value, b.value), np.fmin(a.low, b.low), np.fmax(a.high, b.high))
    chosen = [a if take else b for take, a, b in zip(test, _plain(yes), _plain(no), strict=True)]
    return Keys(objects(chosen), decided=noises(call) > 0)


def _coalesce(call: Call, arguments: list[Evaluated]) -> Evaluated:
    made = arguments[-1]
    for each in reversed(arguments[:-1]):
        made = _chosen(call, ~missing(each), each, made)
    return made


def _nullif(call: Call, arguments: list[Evaluated]) -> Evaluated:
    same = _compared(arguments[0], arguments[1], operator.eq)
    nothing = Keys(objects([None] * len(same.true)))
    return _chosen(call, ~same.true, arguments[0], nothing)


def _cast(call: Call, arguments: list[Evaluated]) -> Evaluated:
    only = arguments[0]
    if isinstance(only, TruthColumn) and call.domain.type.numeric and noises(call.arguments[0]):
        value = numbers(only).value  # decided by a noisy number, so the exact one may be either
        return Numbers(value, np.zeros(len(value)), np.ones(len(value)))
    if call.domain.type is Type.INTEGER:
        return _rising(np.rint)(call, [only])
    return numbers(only) if call.domain.type is Type.REAL else only


_FUNCTIONS: dict[str, Callable[[Call, list[Evaluated]], Evaluated]] = {
    "+": _binary(np.add),
    "-": _binary(np.subtract),
    "*": _binary(np.multiply),
    "/": _divide,
    "//": _divide_whole,
    "%": _modulo,
    "NEGATE": _negate,
    "ABS": _abs,
    "ROUND": _rising(_round),
    "FLOOR": _rising(np.floor),
    "CEIL": _rising(np.ceil),
    "TRUNC": _rising(np.trunc),
    "SQRT": _rising(_sqrt),
    "SIGN": _rising(np.sign),
    "LEAST": _extreme(np.fmin),
    "GREATEST": _extreme(np.fmax),
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
    "CASE": _case,
    "IF": _case,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "CAST": _cast,
}


def ranks(column: Evaluated, descending: bool, nulls_first: bool) -> NDArray[np.intp]:
    """Return positions that sort a column, equal for equal values."""
    gone = missing(column)
    places = _places(column, ~gone)
    last = places.max(initial=-1) + 1
    return np.where(gone, -1 if nulls_first else last, last - 1 - places if descending else places)


def _places(column: Evaluated, known: Bools) -> NDArray[np.intp]:
    """Count for each known value the smaller ones."""
    ranks = np.zeros(len(known), np.intp)
    if isinstance(column, Keys):
        values = column.value[known].tolist()
        place = {value: index for index, value in enumerate(sorted(set(values), key=_comparable))}
        ranks[known] = [place[value] for value in values]
    else:
        compared = column.value if isinstance(column, Numbers) else column.true
        ranks[known] = np.unique(compared[known], return_inverse=True)[1]
    return ranks


def _comparable(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
