"""A function call whose arguments are lowered, and the scalars that every lowering of a function is made of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from sfumato.engine.lowering.relational_form import Apply, Constant, Scalar, ScalarFunction, apply
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.policy import Type, Value
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.quick_dataclass import dataclass

CALENDAR = {Type.DATE: (dt.date.min, dt.date.max), Type.TIMESTAMP: (dt.datetime.min, dt.datetime.max)}


class RowScope(Protocol):
    """The rows that expressions are lowered over."""

    def compute_once(self, scalar: Scalar) -> Scalar:
        """Compute a value once."""
        ...

    def limit_real(self, scalar: Scalar) -> Scalar:
        """Flush a small real to 0, and map a large one to NULL."""
        ...

    def null_outside_calendar(self, scalar: Scalar, low: Value, high: Value, sql_type: Type) -> Scalar:
        """Map dates outside the calendar to NULL."""
        ...


def within_test(x: Scalar, low: Value, high: Value, sql_type: Type) -> Scalar:
    return apply(ScalarFunction.BETWEEN, x, Constant(low, sql_type), Constant(high, sql_type))


def real_constant(value: Fraction | float) -> Constant:
    return Constant(Fraction(value), Type.REAL)


def null_constant(sql_type: Type) -> Constant:
    return Constant(None, sql_type)


def not_null_test(x: Scalar) -> Scalar:
    return apply(ScalarFunction.NOT, apply(ScalarFunction.IS_NULL, x))


def choice(test: Scalar, yes: Constant, no: Constant) -> Scalar:
    """Choose one of two public values; NULL where the test is NULL."""
    return apply(ScalarFunction.CASE, test, yes, apply(ScalarFunction.NOT, test), no, Constant(None, yes.kind))


def case(*pairs: Scalar, otherwise: Scalar | None = None) -> Apply:
    return apply(ScalarFunction.CASE, *pairs, *(() if otherwise is None else (otherwise,)))


@dataclass(frozen=True)
class Application:
    """A function call whose arguments are already lowered."""

    rows: RowScope
    node: Call
    arguments: tuple[Scalar, ...]

    @property
    def kind(self) -> Type:
        return self.node.domain.type

    def literal_argument(self, index: int) -> Any:
        """Return the value of an argument that must be a literal."""
        argument = self.node.arguments[index]
        assert isinstance(argument, Literal)
        return argument.value

    def shared_argument(self, index: int = 0) -> Scalar:
        """Compute once an argument that is used more than once."""
        return self.rows.compute_once(self.arguments[index])

    def limit_real(self, computed: Scalar) -> Scalar:
        """Limit a computed real, unless its domain proves that it is within limits."""
        is_proved = self.node.domain.range is not None and _is_zero_or_normal(self.node)
        return computed if is_proved else self.rows.limit_real(computed)

    def divisor(self) -> Scalar:
        """Return the second argument, NULL where it is 0."""
        kind, divisor_range = self.node.arguments[1].domain.type, intervals.double_range(self.node.arguments[1].domain)
        if divisor_range is not None and not divisor_range[0] <= 0 <= divisor_range[1]:
            return self.arguments[1]
        y = self.shared_argument(1)
        return case(apply(ScalarFunction.UNEQUAL, y, Constant(0, kind)), y, otherwise=null_constant(kind))


def _is_zero_or_normal(node: Call) -> bool:
    """Return whether a computed real is surely 0 or no smaller than a real may be.

    It is when its range ends before 0, when a number is multiplied by one of at least 1 (or divided by at most 1) in
    size, and when one of two numbers that are added is 0 or far from being small: where they nearly cancel the other is
    as large, and their difference is a multiple of its last place.
    """
    value_range = intervals.double_range(node.domain)
    if value_range is not None and (value_range[0] >= SMALLEST_REAL or value_range[1] <= -SMALLEST_REAL):
        return True
    match node.function:
        case "+" | "-":
            return any(_lower_bound_of_nonzero_size(argument) >= _FAR_FROM_SMALL for argument in node.arguments)
        case "*":
            return any(_lower_bound_of_nonzero_size(argument) >= 1 for argument in node.arguments)
        case "/":
            divisor = intervals.double_range(node.arguments[1].domain)
            return divisor is not None and max(map(abs, divisor)) <= 1
    return False


_FAR_FROM_SMALL = Fraction(1, 2**400)


def _lower_bound_of_nonzero_size(expression: Expression) -> Fraction:
    """Return a lower bound on the size of a value that is not 0."""
    if isinstance(expression, Call) and expression.function == "CAST":
        return Fraction(expression.arguments[0].domain.type in (Type.INTEGER, Type.BOOLEAN))
    value_range = intervals.double_range(expression.domain)
    return Fraction(0) if value_range is None else max(value_range[0], -value_range[1], Fraction(0))


Lowering = Callable[[Application], Scalar]


def direct_lowering(operation: ScalarFunction) -> Lowering:
    return lambda call: Apply(operation, call.arguments)
