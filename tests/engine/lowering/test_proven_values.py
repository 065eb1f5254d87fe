"""What is proven of whole numbers: never less than what an exhaustive reckoning over their columns reaches."""

from __future__ import annotations

import math
from itertools import product
from random import Random
from typing import Any

import pytest

from sfumato.engine.lowering.proven_values import ProvenValues, shared_factors
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type

X = Column(Field(0, "t", "x"), Domain("integer", bounds=(-2, 3)))
Y = Column(Field(0, "t", "y"), Domain("integer", bounds=(1, 4)))
FREE = Column(Field(0, "t", "free"), Domain("integer"))
REAL = Column(Field(0, "t", "real"), Domain("real", bounds=(-1, 1)))
CELLS = {X: (None, *range(-2, 4)), Y: (None, *range(1, 5))}
PRESENT = ProvenValues([call("AND", call("NOT", call("IS NULL", X)), call("NOT", call("IS NULL", Y)))])


def number(value: int) -> Expression:
    return literal(Type.INTEGER, value)


def value_of(expression: Expression, cells: dict[Column, Any]) -> Any:
    """Evaluate by SQL's rules: NULL spreads through arithmetic, LEAST and GREATEST ignore it."""
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Column):
        return cells[expression]
    values = [value_of(argument, cells) for argument in expression.arguments]
    present = [value for value in values if value is not None]
    match expression.function:
        case "LEAST" | "GREATEST":
            pick = min if expression.function == "LEAST" else max
            return pick(present) if present else None
        case "CASE":
            return values[1] if values[0] else values[2]
        case ">":
            return None if len(present) < 2 else values[0] > values[1]
    if len(present) < 2:
        return None
    first, second = values
    return {"+": first + second, "-": first - second, "*": first * second}[expression.function]


def drawn(random: Random, depth: int) -> Expression:
    if not depth or random.random() < 0.15:
        return random.choice([X, Y, number(random.randint(-3, 3))])
    first, second = drawn(random, depth - 1), drawn(random, depth - 1)
    function = random.choice(["+", "-", "*", "*", "LEAST", "GREATEST", "CASE"])
    if function == "CASE":
        return call("CASE", call(">", drawn(random, 0), number(0)), first, second)
    return call(function, first, second)


@pytest.mark.parametrize("seed", range(40))
def test_a_range_and_a_proof_hold_on_every_row(seed: int) -> None:
    random, nothing_filtered = Random(seed), ProvenValues()
    for _ in range(10):
        expression = drawn(random, 3)
        rows = [dict(zip(CELLS, cells, strict=True)) for cells in product(*CELLS.values())]
        for proven, held in (
            (nothing_filtered, rows),
            (PRESENT, [row for row in rows if None not in row.values()]),
        ):
            values = [value_of(expression, row) for row in held]
            low, high = proven.integer_range(expression)
            assert all(low <= value <= high for value in values if value is not None), expression
            assert not proven.is_never_null(expression) or None not in values, expression


def test_products_of_clamped_columns_are_proven_exactly() -> None:
    scaled = call("*", call("-", call("*", number(2), X), number(1)), number(10))
    squared = call("*", scaled, call("*", Y, X))
    assert PRESENT.integer_range(scaled) == (-50, 50)
    assert PRESENT.integer_range(squared) == (-600, 600)
    assert PRESENT.is_within(squared, -600, 600)
    assert not PRESENT.is_within(squared, -599, 600)
    assert not PRESENT.is_within(squared, -600, 599)
    assert PRESENT.is_never_null(squared)
    assert not ProvenValues().is_never_null(squared)
    assert not ProvenValues([call("NOT", call("IS NULL", X))]).is_never_null(squared)
    assert not ProvenValues([call("IS NULL", X), call("IS NULL", Y)]).is_never_null(squared)


def test_nothing_is_believed_of_reals_and_conversions() -> None:
    rounded = call("CAST", call("FLOOR", REAL), literal(Type.TEXT, Type.INTEGER.value))
    assert rounded.domain.range is not None
    for expression in (REAL, rounded, FREE, call("//", X, number(2)), call("*", rounded, X)):
        assert PRESENT.integer_range(expression) == (-math.inf, math.inf)
    assert PRESENT.integer_range(call("GREATEST", rounded, number(0))) == (0, math.inf)
    assert PRESENT.integer_range(call("LEAST", call("GREATEST", rounded, number(0)), number(7))) == (0, 7)
    assert not PRESENT.is_never_null(rounded)
    assert not PRESENT.is_never_null(call("*", rounded, X))


def test_shared_factors_are_those_of_several_products() -> None:
    scaled, other = call("-", X, number(1)), call("-", Y, number(1))
    values = [call("*", scaled, scaled), call("*", scaled, other), call("+", other, other)]
    assert shared_factors(values) == [scaled]
    assert all(isinstance(factor, Call) for factor in shared_factors([*values, call("*", other, X)]))
    assert not shared_factors([call("*", X, Y), call("*", X, X)])
