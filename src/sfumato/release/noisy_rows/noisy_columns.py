"""Evaluate expressions over columns of noisy rows: post-processing, which costs no privacy.

A number that is computed linearly from noisy results is a ``LinearColumn``: its interval follows from the noises behind
it (``noise_forms``), shared ones included. Everything else is propagated by interval arithmetic, so that the interval
of ``SUM(x) / COUNT(*)`` holds whenever those of its operands hold. A comparison is *sure* where all values within the
intervals compare alike.

Every interval remembers the statements that it relies on: an interval of one cell holds with the stated confidence if
those of all its statements hold at once.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Bools, Floats
from sfumato.caching import cached_property
from sfumato.plan.values.expressions import Call, Column, Expression, Literal, Reference, noise_count
from sfumato.policy import Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm, stack_forms

_SMALLEST, _LARGEST = float(SMALLEST_REAL), float(LARGEST_REAL)


_next_identity = itertools.count().__next__


@dataclass(frozen=True)
class ConfidenceStatement:
    """A column of intervals that others are computed from."""

    identity: int
    per_cell: int
    """The number of its intervals behind one cell: several where rows are combined."""
    total: int
    """The number of its intervals in all rows."""

    @classmethod
    def about(cls, rows: int, noises: int = 1) -> ConfidenceStatement:
        """Return a new statement about so many noises in each row."""
        return cls(_next_identity(), noises, noises * rows)


ConfidenceStatements = frozenset[ConfidenceStatement]
NONE: ConfidenceStatements = frozenset()


def statements_over_rows(statements: ConfidenceStatements) -> ConfidenceStatements:
    """Return the statements behind a cell that combines several rows: those about all rows."""
    return frozenset(replace(statement, per_cell=statement.total) for statement in statements)


def count_statements(statements: Iterable[ConfidenceStatement], *, jointly: bool) -> int:
    """Count the intervals behind one cell, or behind all cells jointly."""
    counts: dict[int, int] = {}
    for statement in statements:
        count = statement.total if jointly else statement.per_cell
        counts[statement.identity] = max(count, counts.get(statement.identity, 0))
    return sum(counts.values())


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers with their intervals; NaN is NULL."""

    value: Floats
    low: Floats
    high: Floats
    """Where noise decides whether a cell is NULL, the interval is that of its number, if it has one."""
    statements: ConfidenceStatements = NONE
    nulls_sure: Bools | None = None
    """Where it is the same for all values within the intervals whether a cell is NULL; None: where a cell is not NULL,
    or its interval is a point or empty."""
    is_noisy_rank: bool = False
    """Whether noisy values decided these ranks: they are shown without intervals, which decide only what is sure."""


@dataclass(frozen=True, eq=False)
class LinearColumn:
    """A column of numbers whose noise is a linear form over independent noises; NaN is NULL, whatever the noise."""

    value: Floats
    centre: Floats
    """The values before noisy results were rounded to integers."""
    form: NoiseForm
    noises: IndependentNoises
    draws: int
    """The number of intervals that hold at once."""
    statement: ConfidenceStatement
    computed_widths: Floats | None = None
    """The half-widths, if they were computed with the numbers."""

    @cached_property
    def ranged(self) -> NumberColumn:
        """The numbers with their intervals, which extend to a number that was rounded out of them."""
        widths = self.noises.widths(self.form, self.draws) if self.computed_widths is None else self.computed_widths
        low, high = np.fmin(self.centre - widths, self.value), np.fmax(self.centre + widths, self.value)
        statements = frozenset([self.statement]) if len(self.form.weights) else NONE
        return NumberColumn(self.value, low, high, statements, np.ones(len(self.value), bool))

    def derived(self, value: Floats, centre: Floats, form: NoiseForm) -> LinearColumn:
        """Return a column computed from this one and others of the same release."""
        total = max(self.statement.total, len(value))  # a join may repeat rows
        statement = ConfidenceStatement(_next_identity(), 1, total)
        return replace(self, value=value, centre=centre, form=form, statement=statement, computed_widths=None)

    def take(self, rows: NDArray[np.intp]) -> LinearColumn:
        """Return these rows; −1 is NULL."""
        value, centre = (np.where(rows >= 0, column[rows], np.nan) for column in (self.value, self.centre))
        return self.derived(value, centre, self.form.take(rows))


@dataclass(frozen=True)
class TruthColumn:
    """A column of three-valued logic: true, false or unknown."""

    true: Bools
    known: Bools
    sure: Bools
    """Whether the value is the same for all numbers within the intervals."""
    statements: ConfidenceStatements = field(default=NONE)


@dataclass(frozen=True)
class ExactColumn:
    """A column of public values; None is NULL."""

    value: NDArray[Any]
    chosen_by_noise: bool = False
    """Whether noisy numbers decided between values: then none of them is sure."""
    nulls_sure: Bools | None = None
    """As in ``NumberColumn``."""


Evaluated = NumberColumn | LinearColumn | TruthColumn | ExactColumn


def object_array(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def evaluate_on(expression: Expression, names: Mapping[Reference, Evaluated], count: int) -> Evaluated:
    """Evaluate an expression over the columns of ``count`` rows."""
    if isinstance(expression, Column):
        return names[expression.reference]
    if isinstance(expression, Literal):
        return _constant_column(expression, count)
    arguments = [evaluate_on(argument, names, count) for argument in expression.arguments]
    linear = linear_function(expression, arguments)
    if linear is not None:
        return linear
    arguments = [argument.ranged if isinstance(argument, LinearColumn) else argument for argument in arguments]
    evaluated = _FUNCTIONS[expression.function](expression, arguments)
    if expression.function not in _NULL_AWARE:
        evaluated = _with_null_certainty(evaluated, arguments)
    return with_statements(evaluated, confidence_statements(*arguments))


def _with_null_certainty(column: Evaluated, arguments: Sequence[Evaluated]) -> Evaluated:
    """Return the result of a function that is NULL where an argument is: it is no surer than they are."""
    stated = [
        argument.nulls_sure
        for argument in arguments
        if isinstance(argument, (NumberColumn, ExactColumn)) and argument.nulls_sure is not None
    ]
    if not stated or isinstance(column, LinearColumn):
        return column
    sure = np.logical_and.reduce(stated)
    if isinstance(column, TruthColumn):
        return replace(column, sure=column.sure & sure)
    return replace(column, nulls_sure=are_nulls_certain(column) & sure)


def are_nulls_certain(column: Evaluated) -> Bools:
    """Return where it is the same for all numbers within the intervals whether a cell is NULL."""
    if isinstance(column, LinearColumn):
        return np.ones(len(column.value), bool)
    if not isinstance(column, TruthColumn) and column.nulls_sure is not None:
        return column.nulls_sure
    no_number = np.isnan(column.low) if isinstance(column, NumberColumn) else False
    return np.asarray(~null_mask(column) | are_values_certain(column) | no_number, bool)


def confidence_statements(*columns: Evaluated | None) -> ConfidenceStatements:
    """Return the statements behind some columns."""
    return NONE.union(*[_column_statements(column) for column in columns if column is not None])


def _column_statements(column: Evaluated) -> ConfidenceStatements:
    if isinstance(column, LinearColumn):
        return column.ranged.statements
    return NONE if isinstance(column, ExactColumn) else column.statements


def with_statements(column: Evaluated, statements: ConfidenceStatements) -> Evaluated:
    """Return a column whose intervals rely on these statements."""
    if isinstance(column, (LinearColumn, ExactColumn)) or column.statements >= statements:
        return column
    return replace(column, statements=column.statements | statements)


def _constant_column(literal: Literal, count: int) -> Evaluated:
    if literal.domain.type.numeric and literal.value is not None:
        value = np.full(count, float(literal.value))  # type: ignore[arg-type]
        return NumberColumn(value, value, value)
    if isinstance(literal.value, bool):
        return TruthColumn(np.full(count, literal.value), np.ones(count, bool), np.ones(count, bool))
    return ExactColumn(object_array([literal.value] * count))


def as_numbers(column: Evaluated) -> NumberColumn:
    if isinstance(column, NumberColumn):
        return column
    if isinstance(column, LinearColumn):
        return column.ranged
    if isinstance(column, TruthColumn):
        value = np.where(column.known, column.true.astype(np.float64), np.nan)
    else:
        value = np.array([np.nan if key is None else float(key) for key in column.value], dtype=np.float64)
        if column.chosen_by_noise:  # the exact one may be any other
            ends = np.full(len(value), -np.inf), np.full(len(value), np.inf)
            return NumberColumn(value, *ends, nulls_sure=column.nulls_sure)
    return NumberColumn(value, value, value)


def as_truths(column: Evaluated) -> TruthColumn:
    """Convert a column to three-valued logic."""
    if isinstance(column, TruthColumn):
        return column
    value = column.value
    is_known = np.array([cell is not None for cell in value], bool)
    return TruthColumn(np.array([bool(cell) for cell in value], bool) & is_known, is_known, are_values_certain(column))


def _limit_magnitudes(value: Floats, low: Floats, high: Floats) -> NumberColumn:
    """Flush magnitudes below 2^-500 to 0, and replace values above 2^500 or NaN by NULL, as for rows.

    A bound that cannot be computed, or is beyond 2^500, becomes infinite.
    """
    value, low, high = (np.where(np.abs(array) < _SMALLEST, 0.0, array) for array in (value, low, high))
    return NumberColumn(
        np.where(np.abs(value) <= _LARGEST, value, np.nan),
        np.where(low >= -_LARGEST, np.minimum(low, _LARGEST), -np.inf),
        np.where(high <= _LARGEST, np.maximum(high, -_LARGEST), np.inf),
    )


def _lift_corner_operation(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """Lift an operation whose range is attained at the corners of its operands' intervals."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        left, right = map(as_numbers, arguments)
        with np.errstate(all="ignore"):
            corners = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
            return _limit_magnitudes(
                operate(left.value, right.value), np.minimum.reduce(corners), np.maximum.reduce(corners)
            )

    return evaluate


def _divide(_: Call, arguments: list[Evaluated]) -> Evaluated:
    left, right = map(as_numbers, arguments)
    with np.errstate(all="ignore"):
        corners = [a / b for a in (left.low, left.high) for b in (right.low, right.high)]
        crosses = (right.low <= 0) & (right.high >= 0)
        low = np.where(crosses, -np.inf, np.minimum.reduce(corners))
        high = np.where(crosses, np.inf, np.maximum.reduce(corners))
        quotient = _limit_magnitudes(np.where(right.value == 0, np.nan, left.value / right.value), low, high)
        return replace(quotient, nulls_sure=~crosses | (right.low == right.high))


def _divide_integers(call: Call, arguments: list[Evaluated]) -> Evaluated:
    quotient = _divide(call, arguments)
    return _with_null_certainty(_lift_nondecreasing(np.trunc)(call, [quotient]), [quotient])


def _modulo(_: Call, arguments: list[Evaluated]) -> Evaluated:
    left, right = map(as_numbers, arguments)
    with np.errstate(all="ignore"):
        value = np.fmod(left.value, right.value)
        crosses = (right.low <= 0) & (right.high >= 0)
    remainder = _limit_magnitudes(value, np.full(len(value), -np.inf), np.full(len(value), np.inf))
    return replace(remainder, nulls_sure=~crosses | (right.low == right.high))


def _lift_nondecreasing(operate: Callable[..., Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    """Lift a non-decreasing function: interval ends map to interval ends."""

    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        columns = [as_numbers(argument) for argument in arguments]
        with np.errstate(all="ignore"):
            ends = [operate(*(getattr(column, end) for column in columns)) for end in ("value", "low", "high")]
        return _limit_magnitudes(*ends)

    return evaluate


def _round(value: Floats, digits: Floats | None = None) -> Floats:
    power_of_ten = 10.0 ** (0 if digits is None else digits)
    return np.copysign(np.floor(np.abs(value) * power_of_ten + 0.5) / power_of_ten, value)


def _square_root(call: Call, arguments: list[Evaluated]) -> Evaluated:
    """Compute SQRT, which is NULL below 0: noise decides that where an interval holds numbers on both sides."""
    operand = as_numbers(arguments[0])
    root = as_numbers(_lift_nondecreasing(lambda value: np.sqrt(np.where(value < 0, np.nan, value)))(call, arguments))
    with np.errstate(invalid="ignore"):
        is_decided = (operand.low < 0) & (operand.high >= 0)
    return replace(root, nulls_sure=~is_decided)


def _negate(_: Call, arguments: list[Evaluated]) -> Evaluated:
    operand = as_numbers(arguments[0])
    return NumberColumn(-operand.value, -operand.high, -operand.low, nulls_sure=operand.nulls_sure)


def _abs(_: Call, arguments: list[Evaluated]) -> Evaluated:
    operand = as_numbers(arguments[0])
    high = np.maximum(np.abs(operand.low), np.abs(operand.high))
    low = np.maximum(np.maximum(operand.low, -operand.high), 0)
    return NumberColumn(np.abs(operand.value), low, high)


def _least(_: Call, arguments: list[Evaluated]) -> Evaluated:
    """Compute LEAST, which ignores NULL: only what is surely there bounds it from above."""
    columns = [as_numbers(argument) for argument in arguments]
    sure = np.array([are_nulls_certain(column) & ~np.isnan(column.value) for column in columns])
    value, low = (np.fmin.reduce([getattr(column, end) for column in columns]) for end in ("value", "low"))
    highs = np.array([column.high for column in columns])
    sure_high: Floats = np.fmin.reduce(np.where(sure, highs, np.nan))
    high: Floats = np.where(np.isnan(sure_high), np.fmax.reduce(highs), sure_high)
    least = _limit_magnitudes(value, low, high)
    all_sure = np.logical_and.reduce([are_nulls_certain(column) for column in columns])
    return replace(least, nulls_sure=np.logical_or.reduce(sure) | all_sure)


def _greatest(call: Call, arguments: list[Evaluated]) -> Evaluated:
    least = as_numbers(_least(call, [_negate(call, [argument]) for argument in arguments]))
    return replace(_limit_magnitudes(-least.value, -least.high, -least.low), nulls_sure=least.nulls_sure)


def _comparison_evaluator(operate: Callable[[Any, Any], Any]) -> Callable[[Call, list[Evaluated]], Evaluated]:
    def evaluate(_: Call, arguments: list[Evaluated]) -> Evaluated:
        return _compare_columns(arguments[0], arguments[1], operate)

    return evaluate


def _compare_columns(left: Evaluated, right: Evaluated, operate: Callable[[Any, Any], Any]) -> TruthColumn:
    if isinstance(left, NumberColumn) or isinstance(right, NumberColumn):
        left_numbers, right_numbers = as_numbers(left), as_numbers(right)
        is_known = ~(np.isnan(left_numbers.value) | np.isnan(right_numbers.value))
        with np.errstate(invalid="ignore"):
            return TruthColumn(
                np.asarray(operate(left_numbers.value, right_numbers.value), bool) & is_known,
                is_known,
                _is_comparison_sure(left_numbers, right_numbers, operate),
            )
    left_values, right_values = _python_values(left), _python_values(right)
    is_known = np.array([x is not None and y is not None for x, y in zip(left_values, right_values, strict=True)], bool)
    pairs = zip(left_values, right_values, is_known, strict=True)
    sure = are_values_certain(left) & are_values_certain(right)
    return TruthColumn(np.array([bool(operate(x, y)) if both else False for x, y, both in pairs], bool), is_known, sure)


def are_values_certain(column: Evaluated) -> Bools:
    """Return where a column is the same for all numbers within the intervals."""
    if isinstance(column, LinearColumn):
        return np.asarray(column.form.noise_counts == 0, bool)
    if isinstance(column, NumberColumn):
        return np.asarray(column.low == column.high, bool)
    return column.sure if isinstance(column, TruthColumn) else np.full(len(column.value), not column.chosen_by_noise)


def _is_comparison_sure(left: NumberColumn, right: NumberColumn, operate: Callable[[Any, Any], Any]) -> Bools:
    """Return where all corners of two intervals compare alike, and equality is not in between."""
    with np.errstate(invalid="ignore"):
        corners = [operate(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
        disjoint = (left.high < right.low) | (left.low > right.high)
    both_exact = (left.low == left.high) & (right.low == right.high)
    alike = np.logical_and.reduce(corners) | ~np.logical_or.reduce(corners)
    unknown = np.isnan([left.value, left.low, left.high, right.value, right.low, right.high]).any(axis=0)
    is_ordering = operate not in (operator.eq, operator.ne)
    return np.asarray(alike & (disjoint | both_exact | is_ordering) & ~unknown, bool)


def _python_values(column: Evaluated) -> Sequence[Any]:
    if isinstance(column, TruthColumn):
        return [bool(value) if is_known else None for value, is_known in zip(column.true, column.known, strict=True)]
    return list(column.value)


def _and(_: Call, arguments: list[Evaluated]) -> Evaluated:
    columns = [as_truths(argument) for argument in arguments]
    false = np.logical_or.reduce([column.known & ~column.true for column in columns])
    surely_false = np.logical_or.reduce([column.known & ~column.true & column.sure for column in columns])
    return TruthColumn(
        np.logical_and.reduce([column.known & column.true for column in columns]),
        false | np.logical_and.reduce([column.known for column in columns]),
        surely_false | np.logical_and.reduce([column.sure for column in columns]),
    )


def _or(_: Call, arguments: list[Evaluated]) -> Evaluated:
    columns = [as_truths(argument) for argument in arguments]
    true = np.logical_or.reduce([column.known & column.true for column in columns])
    surely_true = np.logical_or.reduce([column.known & column.true & column.sure for column in columns])
    sure = surely_true | np.logical_and.reduce([column.sure for column in columns])
    return TruthColumn(true, true | np.logical_and.reduce([column.known for column in columns]), sure)


def _not(_: Call, arguments: list[Evaluated]) -> Evaluated:
    operand = as_truths(arguments[0])
    return TruthColumn(~operand.true & operand.known, operand.known, operand.sure)


def _between(call: Call, arguments: list[Evaluated]) -> Evaluated:
    value, low, high = arguments
    return _and(call, [_compare_columns(value, low, operator.ge), _compare_columns(value, high, operator.le)])


def _in(call: Call, arguments: list[Evaluated]) -> Evaluated:
    return _or(call, [_compare_columns(arguments[0], candidate, operator.eq) for candidate in arguments[1:]])


def null_mask(column: Evaluated) -> Bools:
    if isinstance(column, (NumberColumn, LinearColumn)):
        return np.isnan(column.value)
    if isinstance(column, TruthColumn):
        return ~column.known
    return np.array([key is None for key in column.value], bool)


def _is_null(_: Call, arguments: list[Evaluated]) -> Evaluated:
    is_null = null_mask(arguments[0])
    stated = arguments[0].nulls_sure if isinstance(arguments[0], (NumberColumn, ExactColumn)) else None
    return TruthColumn(
        is_null, np.ones(len(is_null), bool), are_values_certain(arguments[0]) if stated is None else stated
    )


def _case(call: Call, arguments: list[Evaluated]) -> Evaluated:
    """Evaluate WHEN … THEN … pairs with an optional ELSE."""
    pairs = [(as_truths(arguments[k]), arguments[k + 1]) for k in range(0, len(arguments) - 1, 2)]
    count = len(pairs[0][0].true)
    otherwise: Evaluated = arguments[-1] if len(arguments) % 2 else ExactColumn(object_array([None] * count))
    for test, value in reversed(pairs):
        otherwise = _select_branch(call, test.true & test.known, test.sure, value, otherwise)
    return otherwise


def _select_branch(call: Call, test: Bools, test_sure: Bools, yes: Evaluated, no: Evaluated) -> Evaluated:
    """Select a branch per row; noisy values decided which one, so the interval covers both branches."""
    yes_sure, no_sure, alike = are_nulls_certain(yes), are_nulls_certain(no), null_mask(yes) == null_mask(no)
    nulls_sure = np.where(test_sure, np.where(test, yes_sure, no_sure), yes_sure & no_sure & alike)
    if call.domain.type.numeric:
        a, b = as_numbers(yes), as_numbers(no)
        value, low, high = np.where(test, a.value, b.value), np.fmin(a.low, b.low), np.fmax(a.high, b.high)
        return NumberColumn(value, low, high, nulls_sure=nulls_sure)
    selected = [
        a if is_true else b for is_true, a, b in zip(test, _python_values(yes), _python_values(no), strict=True)
    ]
    return ExactColumn(object_array(selected), noise_count(call) > 0, nulls_sure)


def _coalesce(call: Call, arguments: list[Evaluated]) -> Evaluated:
    coalesced = arguments[-1]
    for argument in reversed(arguments[:-1]):
        coalesced = _select_branch(call, ~null_mask(argument), are_nulls_certain(argument), argument, coalesced)
    return coalesced


def _nullif(call: Call, arguments: list[Evaluated]) -> Evaluated:
    is_equal = as_truths(_with_null_certainty(_compare_columns(arguments[0], arguments[1], operator.eq), arguments))
    nulls = ExactColumn(object_array([None] * len(is_equal.true)))
    return _select_branch(call, ~is_equal.true, is_equal.sure, arguments[0], nulls)


def _cast(call: Call, arguments: list[Evaluated]) -> Evaluated:
    operand = arguments[0]
    if isinstance(operand, TruthColumn) and call.domain.type.numeric and noise_count(call.arguments[0]):
        value = as_numbers(operand).value  # decided by a noisy number, so the exact one may be either
        return NumberColumn(value, np.zeros(len(value)), np.ones(len(value)))
    if call.domain.type is Type.INTEGER:
        return _lift_nondecreasing(np.rint)(call, [operand])
    return as_numbers(operand) if call.domain.type is Type.REAL else operand


_FUNCTIONS: dict[str, Callable[[Call, list[Evaluated]], Evaluated]] = {
    "+": _lift_corner_operation(np.add),
    "-": _lift_corner_operation(np.subtract),
    "*": _lift_corner_operation(np.multiply),
    "/": _divide,
    "//": _divide_integers,
    "%": _modulo,
    "NEGATE": _negate,
    "ABS": _abs,
    "ROUND": _lift_nondecreasing(_round),
    "FLOOR": _lift_nondecreasing(np.floor),
    "CEIL": _lift_nondecreasing(np.ceil),
    "TRUNC": _lift_nondecreasing(np.trunc),
    "SQRT": _square_root,
    "SIGN": _lift_nondecreasing(np.sign),
    "LEAST": _least,
    "GREATEST": _greatest,
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
    "CASE": _case,
    "IF": _case,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "CAST": _cast,
}


_NULL_AWARE = frozenset({"CASE", "IF", "COALESCE", "NULLIF", "IS NULL", "LEAST", "GREATEST"})
"""Functions that may have a value where an argument is NULL, or NULL where none is."""


def linear_function(call: Call, arguments: list[Evaluated]) -> LinearColumn | None:
    """Evaluate a function of linear columns that is linear itself; None where it is not."""
    first = next((argument for argument in arguments if isinstance(argument, LinearColumn)), None)
    function = _LINEAR_FUNCTIONS.get(call.function)
    if first is None or function is None:
        return None
    with np.errstate(all="ignore"):
        return function(call, arguments, first)


def as_linear(column: Evaluated, like: LinearColumn) -> LinearColumn | None:
    """Return a column as a linear one: exact numbers have no noise. None where it is neither."""
    if isinstance(column, LinearColumn):
        return column
    if isinstance(column, TruthColumn) or (isinstance(column, ExactColumn) and column.chosen_by_noise):
        return None
    if isinstance(column, ExactColumn) and not all(_is_number_or_null(value) for value in column.value):
        return None
    value = as_numbers(column)
    if not (are_values_certain(value) | np.isnan(value.low)).all():
        return None
    return like.derived(value.value, value.value, NoiseForm.zero(len(value.value)))


def _is_number_or_null(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float, Fraction)) and not isinstance(value, bool))


def _none_if_too_large(column: LinearColumn) -> LinearColumn | None:
    """Return the column with magnitudes below 2^-500 flushed to 0; None where one is above 2^500."""
    if (np.abs(column.value) > _LARGEST).any():
        return None
    return replace(column, value=np.where(np.abs(column.value) < _SMALLEST, 0.0, column.value))


def _linear_sum_evaluator(sign: float) -> LinearFunction:
    def evaluate(_: Call, arguments: list[Evaluated], first: LinearColumn) -> LinearColumn | None:
        left, right = (as_linear(argument, first) for argument in arguments)
        if left is None or right is None:
            return None
        return _none_if_too_large(left.derived(
            left.value + sign * right.value,
            left.centre + sign * right.centre,
            left.form.plus(right.form.scaled(np.full(len(right.value), sign))),
        ))  # fmt: skip

    return evaluate


def _linear_product(_: Call, arguments: list[Evaluated], first: LinearColumn) -> LinearColumn | None:
    left, right = (as_linear(argument, first) for argument in arguments)
    if left is None or right is None or (len(left.form.weights) and len(right.form.weights)):
        return None
    return _scale_column(left, right.value) if len(left.form.weights) else _scale_column(right, left.value)


def _linear_quotient(_: Call, arguments: list[Evaluated], first: LinearColumn) -> LinearColumn | None:
    left, right = (as_linear(argument, first) for argument in arguments)
    if left is None or right is None or len(right.form.weights):
        return None
    divisor = np.where(right.value == 0, np.nan, right.value)
    return _none_if_too_large(
        left.derived(left.value / divisor, left.centre / divisor, left.form.scaled(np.nan_to_num(1 / divisor)))
    )


def _scale_column(column: LinearColumn, factors: Floats) -> LinearColumn | None:
    return _none_if_too_large(
        column.derived(column.value * factors, column.centre * factors, column.form.scaled(np.nan_to_num(factors)))
    )


def _linear_negation(_: Call, __: list[Evaluated], operand: LinearColumn) -> LinearColumn | None:
    return _scale_column(operand, np.full(len(operand.value), -1.0))


def _linear_cast(call: Call, _: list[Evaluated], operand: LinearColumn) -> LinearColumn | None:
    is_same = call.domain.type is Type.REAL or call.arguments[0].domain.type is Type.INTEGER
    return operand if is_same else None


def _linear_case(_: Call, arguments: list[Evaluated], first: LinearColumn) -> LinearColumn | None:
    """Evaluate a CASE whose conditions are public: each row has the noise of its own branch."""
    tests = [as_truths(test) for test in arguments[:-1:2]]
    if not all(test.sure.all() for test in tests):
        return None
    count = len(first.value)
    otherwise = arguments[-1] if len(arguments) % 2 else ExactColumn(object_array([None] * count))
    branches = [as_linear(branch, first) for branch in (*arguments[1::2], otherwise)]
    choice = np.full(count, len(tests))
    for index, test in reversed(list(enumerate(tests))):
        choice[test.true & test.known] = index
    return choose_rows(branches, choice)


def _linear_coalesce(_: Call, arguments: list[Evaluated], first: LinearColumn) -> LinearColumn | None:
    """Evaluate COALESCE of linear columns, in which NULL does not depend on noise."""
    branches = [as_linear(argument, first) for argument in arguments]
    choice = np.full(len(first.value), len(branches) - 1)
    for index, branch in reversed(list(enumerate(branches))):
        if branch is not None:
            choice[~np.isnan(branch.value)] = index
    return choose_rows(branches, choice)


def choose_rows(branches: Sequence[LinearColumn | None], choice: NDArray[np.intp]) -> LinearColumn | None:
    """Take each row from one of several columns."""
    columns = [branch for branch in branches if branch is not None]
    if len(columns) < len(branches):
        return None
    rows = choice * len(choice) + np.arange(len(choice))
    value, centre = (np.concatenate([getattr(column, part) for column in columns]) for part in ("value", "centre"))
    return columns[0].derived(value[rows], centre[rows], stack_forms([column.form for column in columns]).take(rows))


LinearFunction = Callable[[Call, list[Evaluated], LinearColumn], LinearColumn | None]
_LINEAR_FUNCTIONS: dict[str, LinearFunction] = {
    "+": _linear_sum_evaluator(1.0),
    "-": _linear_sum_evaluator(-1.0),
    "*": _linear_product,
    "/": _linear_quotient,
    "NEGATE": _linear_negation,
    "CAST": _linear_cast,
    "CASE": _linear_case,
    "IF": _linear_case,
    "COALESCE": _linear_coalesce,
}
