"""Values become whole numbers of steps, within their range, and sums of these become numbers again."""

from __future__ import annotations

from fractions import Fraction

from sfumato.engine.lowering.relational import Constant, Operation, Scalar, Wide, apply, whole
from sfumato.engine.lowering.row_lowering import real
from sfumato.plan.aggregates.measures import Contribution
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Type

_HALF = 2**48
_DOUBLE = 2**52
"""Steps that a double tells apart, and their halves."""


def wide(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Wide.INTEGER,))


def narrow(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Type.INTEGER,))


def as_real(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Type.REAL,))


def real_of_wide(scalar: Scalar) -> Scalar:
    """Find a double near a whole number of at most 110 bits, within 2^-51 of its size: by halves that 64 bits hold."""
    half = Constant(_HALF, Wide.INTEGER)
    high, low = (as_real(narrow(apply(each, scalar, half))) for each in (Operation.DIVIDE_WIDE, Operation.REMAINDER))
    return apply(Operation.ADD, apply(Operation.MULTIPLY, high, real(_HALF)), low)


def steps(expression: Expression, value: Scalar, each: Contribution) -> Scalar:
    """Write a value as a whole number of steps from an origin, rounded to the nearest, ties to even, within [low,
    high].

    A column is clamped at the scan; what is computed from columns is clamped here before it becomes a whole number, and
    after: a sum is bounded, and no conversion fails, whatever a range or a rounding missed.
    """
    step, origin, low, high = each.step, each.origin, each.low, each.high
    last = max(abs(low + origin), abs(high + origin))
    exact = expression.domain.type is Type.INTEGER and step == 1
    if not isinstance(expression, Column):
        least, most = ((end + origin) * step for end in (low, high))
        value = clamped(value, *((whole(int(end)) if exact else real(float(end))) for end in (least, most)))
    counted = value if exact else apply(Operation.NEAREST, _in_steps(expression, value, step))
    if origin:  # of whole numbers: a difference of doubles would be rounded
        counted = apply(Operation.SUBTRACT, counted, whole(origin))
    if isinstance(expression, Column) and not origin and (exact or last <= _DOUBLE):
        return counted  # clamped at the scan, and rounding a number of so few steps is exact
    return clamped(counted, whole(low), whole(high))


def _in_steps(expression: Expression, value: Scalar, step: Fraction) -> Scalar:
    value = as_real(value) if expression.domain.type is Type.INTEGER and isinstance(expression, Column) else value
    return apply(Operation.DIVIDE, value, real(float(step)))


def clamped(scalar: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return apply(Operation.LEAST, apply(Operation.GREATEST, scalar, low), high)
