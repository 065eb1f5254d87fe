"""Finish: arithmetic, HAVING, ORDER BY and LIMIT on noisy numbers. Post-processing: free.

Ranges are carried along by interval arithmetic, so that the range of ``SUM(x) / COUNT(*)`` holds whenever those of
its parts hold. What is picked by HAVING, ORDER BY or LIMIT keeps only simultaneous ranges.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.expressions import Call, Column, Expression, Key, Literal, Reference, Result, walk
from sfumato.plan.measures import Estimate, Floats
from sfumato.plan.nodes import Finish, GroupKey
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


@dataclass(frozen=True)
class Truths:
    """A column of true, false and unknown."""

    true: Bools
    known: Bools


@dataclass(frozen=True)
class Keys:
    """A column of public values; None is NULL."""

    value: NDArray[Any]


Evaluated = Numbers | Truths | Keys


@dataclass(frozen=True)
class Finished:
    """The answer's columns, and which groups are shown in which order."""

    columns: tuple[Evaluated, ...]
    shown: NDArray[np.intp]


Estimated = Callable[[int], Sequence[Estimate]]
"""Every measure, with ranges that hold for so many noises at once."""


def finish(query: Finish, groups: Sequence[GroupKey], estimated: Estimated, *, joint: bool) -> Finished:
    """The answer's columns over all groups, and the groups it shows.

    A range holds for its own cell, made of so many noises; or for all cells at once when they are asked for
    together, or when rows are picked by what their noisy numbers are.
    """
    width = len(groups[0]) if groups else _keys_read(query)  # no group may have enough units to be shown
    keys: dict[Reference, Evaluated] = {
        Key(index): Keys(_objects([group[index] for group in groups])) for index in range(width)
    }
    together = simultaneous(query, len(groups)) if joint or picks(query) else None

    def evaluated(expression: Expression) -> Evaluated:
        found = estimated(max(1, together or _parts(expression)))
        names = keys | {Result(index): Numbers(each.value, each.low, each.high) for index, each in enumerate(found)}
        return _evaluate(expression, names, len(groups))

    columns = tuple(evaluated(output.expression) for output in query.outputs)
    shown: NDArray[np.intp] = np.arange(len(groups))
    if query.having is not None:
        kept = _truths(evaluated(query.having))
        shown = shown[(kept.true & kept.known)[shown]]
    for order in reversed(query.order):
        ranks = _ranks(evaluated(order.expression), order.descending, order.nulls_first)
        shown = shown[np.argsort(ranks[shown], kind="stable")]
    end = None if query.limit is None else query.offset + query.limit
    return Finished(columns, shown[query.offset : end])


def picks(query: Finish) -> bool:
    """Whether rows are chosen by what their noisy numbers are."""
    return query.having is not None or (bool(query.order) and (query.limit is not None or query.offset > 0))


def simultaneous(query: Finish, groups: int) -> int:
    """How many noises stand behind all cells of an answer."""
    return groups * sum(_parts(output.expression) for output in query.outputs)


def _parts(expression: Expression) -> int:
    """How many noises an expression is made of: a mean is made of two."""
    read = {node.reference for node in walk(expression) if isinstance(node, Column)}
    return sum(each.noises for each in read if isinstance(each, Result))


def _noisy(expression: Expression) -> bool:
    """Whether an expression reads a noisy number, and not keys and literals alone."""
    return any(isinstance(node, Column) and isinstance(node.reference, Result) for node in walk(expression))


def _keys_read(query: Finish) -> int:
    """How many keys a finish may read."""
    made = [*(each.expression for each in query.outputs), *(each.expression for each in query.order)]
    made += [] if query.having is None else [query.having]
    read = [node.reference for each in made for node in walk(each) if isinstance(node, Column)]
    return max((each.index + 1 for each in read if isinstance(each, Key)), default=0)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _evaluate(expression: Expression, names: dict[Reference, Evaluated], count: int) -> Evaluated:
    if isinstance(expression, Column):
        return names[expression.reference]
    if isinstance(expression, Literal):
        return _constant(expression, count)
    arguments = [_evaluate(each, names, count) for each in expression.arguments]
    return _FUNCTIONS[expression.function](expression, arguments)


def _constant(literal: Literal, count: int) -> Evaluated:
    if literal.domain.type.numeric and literal.value is not None:
        value = np.full(count, float(literal.value))  # type: ignore[arg-type]
        return Numbers(value, value, value)
    if isinstance(literal.value, bool):
        return Truths(np.full(count, literal.value), np.ones(count, bool))
    return Keys(_objects([literal.value] * count))


def _numbers(column: Evaluated) -> Numbers:
    if isinstance(column, Numbers):
        return column
    if isinstance(column, Truths):
        value = np.where(column.known, column.true.astype(np.float64), np.nan)
    else:
        value = np.array([np.nan if each is None else float(each) for each in column.value], dtype=np.float64)
    return Numbers(value, value, value)


def _truths(column: Evaluated) -> Truths:
    if isinstance(column, Truths):
        return column
    value = column.value
    known = np.array([each is not None for each in value], bool)
    return Truths(np.array([bool(each) for each in value], bool) & known, known)


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
    """An operation whose range is reached at the corners."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        left, right = map(_numbers, arguments)
        with np.errstate(all="ignore"):
            corners = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
            return _finite(operate(left.value, right.value), np.minimum.reduce(corners), np.maximum.reduce(corners))

    return evaluate


def _divide(_: Call, arguments: list[Evaluated]) -> Evaluated:
    left, right = map(_numbers, arguments)
    with np.errstate(all="ignore"):
        corners = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
        crosses = (right.low <= 0) & (right.high >= 0)
        low = np.where(crosses, -np.inf, np.minimum.reduce(corners))
        high = np.where(crosses, np.inf, np.maximum.reduce(corners))
        return _finite(np.where(right.value == 0, np.nan, left.value / right.value), low, high)


def _divide_whole(call: Call, arguments: list[Evaluated]) -> Evaluated:
    return _rising(np.trunc)(call, [_divide(call, arguments)])


def _modulo(_: Call, arguments: list[Evaluated]) -> Evaluated:
    left, right = map(_numbers, arguments)
    with np.errstate(all="ignore"):
        value = np.fmod(left.value, right.value)
    return _finite(value, np.full(len(value), -np.inf), np.full(len(value), np.inf))


def _rising(operate: Callable[..., Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """A function that never falls: ends go to ends."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        columns = [_numbers(each) for each in arguments]
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
    only = _numbers(arguments[0])
    return Numbers(-only.value, -only.high, -only.low)


def _abs(_: Call, arguments: list[Evaluated]) -> Evaluated:
    only = _numbers(arguments[0])
    high = np.maximum(np.abs(only.low), np.abs(only.high))
    low = np.where((only.low <= 0) & (only.high >= 0), 0, np.minimum(np.abs(only.low), np.abs(only.high)))
    return Numbers(np.abs(only.value), low, high)


def _extreme(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """LEAST and GREATEST, which pass over NULL."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        columns = [_numbers(each) for each in arguments]
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


def _compared(left: Evaluated, right: Evaluated, operate: Callable[[Any, Any], Any]) -> Truths:
    if isinstance(left, Numbers) or isinstance(right, Numbers):
        a, b = _numbers(left).value, _numbers(right).value
        known = ~(np.isnan(a) | np.isnan(b))
        with np.errstate(invalid="ignore"):
            return Truths(np.asarray(operate(a, b), bool) & known, known)
    ours, theirs = _plain(left), _plain(right)
    known = np.array([x is not None and y is not None for x, y in zip(ours, theirs, strict=True)], bool)
    pairs = zip(ours, theirs, known, strict=True)
    return Truths(np.array([bool(operate(x, y)) if both else False for x, y, both in pairs], bool), known)


def _plain(column: Evaluated) -> Sequence[Any]:
    if isinstance(column, Truths):
        return [bool(value) if known else None for value, known in zip(column.true, column.known, strict=True)]
    return list(column.value)


def _and(_: Call, arguments: list[Evaluated]) -> Evaluated:
    columns = [_truths(each) for each in arguments]
    false = np.logical_or.reduce([each.known & ~each.true for each in columns])
    return Truths(
        np.logical_and.reduce([each.known & each.true for each in columns]),
        false | np.logical_and.reduce([each.known for each in columns]),
    )


def _or(_: Call, arguments: list[Evaluated]) -> Evaluated:
    columns = [_truths(each) for each in arguments]
    true = np.logical_or.reduce([each.known & each.true for each in columns])
    return Truths(true, true | np.logical_and.reduce([each.known for each in columns]))


def _not(_: Call, arguments: list[Evaluated]) -> Evaluated:
    only = _truths(arguments[0])
    return Truths(~only.true & only.known, only.known)


def _between(call: Call, arguments: list[Evaluated]) -> Evaluated:
    value, low, high = arguments
    return _and(call, [_compared(value, low, operator.ge), _compared(value, high, operator.le)])


def _in(call: Call, arguments: list[Evaluated]) -> Evaluated:
    return _or(call, [_compared(arguments[0], each, operator.eq) for each in arguments[1:]])


def _missing(column: Evaluated) -> Bools:
    if isinstance(column, Numbers):
        return np.isnan(column.value)
    if isinstance(column, Truths):
        return ~column.known
    return np.array([each is None for each in column.value], bool)


def _is_null(_: Call, arguments: list[Evaluated]) -> Evaluated:
    found = _missing(arguments[0])
    return Truths(found, np.ones(len(found), bool))


def _case(call: Call, arguments: list[Evaluated]) -> Evaluated:
    """WHEN … THEN … pairs, and perhaps an ELSE."""
    pairs = [
        (_truths(arguments[k]).true & _truths(arguments[k]).known, arguments[k + 1])
        for k in range(0, len(arguments) - 1, 2)
    ]
    count = len(pairs[0][0])
    rest: Evaluated = arguments[-1] if len(arguments) % 2 else Keys(_objects([None] * count))
    for test, value in reversed(pairs):
        rest = _chosen(call, test, value, rest)
    return rest


def _chosen(call: Call, test: Bools, yes: Evaluated, no: Evaluated) -> Evaluated:
    """Which branch is taken was decided by a noisy number, so its range covers both branches."""
    if call.domain.type.numeric:
        a, b = _numbers(yes), _numbers(no)
        return Numbers(np.where(test, a.value, b.value), np.fmin(a.low, b.low), np.fmax(a.high, b.high))
    return Keys(_objects([a if take else b for take, a, b in zip(test, _plain(yes), _plain(no), strict=True)]))


def _coalesce(call: Call, arguments: list[Evaluated]) -> Evaluated:
    made = arguments[-1]
    for each in reversed(arguments[:-1]):
        made = _chosen(call, ~_missing(each), each, made)
    return made


def _nullif(call: Call, arguments: list[Evaluated]) -> Evaluated:
    same = _compared(arguments[0], arguments[1], operator.eq)
    nothing = Keys(_objects([None] * len(same.true)))
    return _chosen(call, ~same.true, arguments[0], nothing)


def _cast(call: Call, arguments: list[Evaluated]) -> Evaluated:
    only = arguments[0]
    if isinstance(only, Truths) and call.domain.type.numeric and _noisy(call.arguments[0]):
        value = _numbers(only).value  # decided by a noisy number, so the exact one may be either
        return Numbers(value, np.zeros(len(value)), np.ones(len(value)))
    if call.domain.type is Type.INTEGER:
        return _rising(np.rint)(call, [only])
    return _numbers(only) if call.domain.type is Type.REAL else only


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


def _ranks(column: Evaluated, descending: bool, nulls_first: bool) -> NDArray[np.intp]:
    """Positions that sort a column, equal for equal values."""
    missing = _missing(column)
    ranks = _places(column, ~missing)
    last = ranks.max(initial=-1) + 1
    return np.where(missing, -1 if nulls_first else last, last - 1 - ranks if descending else ranks)


def _places(column: Evaluated, known: Bools) -> NDArray[np.intp]:
    """For each known value, how many smaller ones there are."""
    ranks = np.zeros(len(known), np.intp)
    if isinstance(column, Keys):
        values = column.value[known].tolist()
        place = {value: index for index, value in enumerate(sorted(set(values), key=_comparable))}
        ranks[known] = [place[value] for value in values]
    else:
        numbers = column.value if isinstance(column, Numbers) else column.true
        ranks[known] = np.unique(numbers[known], return_inverse=True)[1]
    return ranks


def _comparable(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
