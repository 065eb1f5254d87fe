"""Values become whole numbers of steps, within their range, and sums of these become numbers again."""

from __future__ import annotations

from fractions import Fraction

from sfumato.engine.lowering.relational import Constant, Operation, Scalar, Wide, apply, whole
from sfumato.engine.lowering.row_lowering import real
from sfumato.plan.aggregates.measures import Contribution
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Type

_HALF = 2**48


def wide(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Wide.INTEGER,))


def narrow(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Type.INTEGER,))


def as_real(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Type.REAL,))


def real_of_wide(scalar: Scalar) -> Scalar:
    """Find the double nearest to a whole number of at most 100 bits: by halves, whose conversion is exact
    everywhere.
    """
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
    exact = expression.domain.type is Type.INTEGER and step == 1
    if not isinstance(expression, Column):
        least, most = ((end + origin) * step for end in (low, high))
        value = clamped(value, *((whole(int(end)) if exact else real(float(end))) for end in (least, most)))
    if exact:
        counted = apply(Operation.SUBTRACT, value, whole(origin)) if origin else value
    else:
        counted = apply(Operation.NEAREST, _in_steps(expression, value, step, origin))
    if isinstance(expression, Column) and not origin:
        return counted  # clamped at the scan, and rounding a number of so few steps is exact
    return clamped(counted, whole(low), whole(high))


def _in_steps(expression: Expression, value: Scalar, step: Fraction, origin: int) -> Scalar:
    value = as_real(value) if expression.domain.type is Type.INTEGER and isinstance(expression, Column) else value
    moved = apply(Operation.SUBTRACT, value, real(float(origin * step))) if origin else value
    return apply(Operation.DIVIDE, moved, real(float(step)))


def clamped(scalar: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return apply(Operation.LEAST, apply(Operation.GREATEST, scalar, low), high)
