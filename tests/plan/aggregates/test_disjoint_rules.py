"""When two conditions certainly exclude each other, and which value disjoint measures have."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.plan.aggregates.disjoint import (
    DisjointMeasures,
    _negated,
    _operand_and_values,
    _operand_of_null_test,
)
from sfumato.plan.aggregates.measures import Count, Mean, Sum
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type

COLUMNS = {
    "age": Column(Field(0, "visits", "age"), Domain("integer", bounds=(0, 99))),
    "cost": Column(Field(0, "visits", "cost"), Domain("real", bounds=(0, 99))),
    "sex": Column(Field(0, "visits", "sex"), Domain("text", values=("f", "m"))),
}


@pytest.mark.parametrize(
    ("column", "kind", "value"), [("age", Type.INTEGER, 3), ("sex", Type.TEXT, "f"), ("cost", Type.REAL, Fraction(3))]
)
def test_lists_of_values_exclude_each_other_but_those_of_doubles(column: str, kind: Type, value: object) -> None:
    """Two literals of which each is written with many digits may be one double."""
    operand = COLUMNS[column]
    expected = None if kind is Type.REAL else (operand, frozenset([value]))
    assert _operand_and_values(call("=", operand, literal(kind, value))) == expected  # type: ignore[arg-type]
    assert _operand_and_values(call("IN", operand, literal(kind, value))) == expected  # type: ignore[arg-type]
    for other in ("<>", "<="):
        assert _operand_and_values(call(other, operand, literal(kind, value))) is None  # type: ignore[arg-type]
    assert _operand_and_values(operand) is None


def test_what_a_condition_requires_is_excluded_by_its_negation() -> None:
    condition = call("IS NULL", COLUMNS["age"])
    assert _negated(condition) == call("NOT", condition)
    assert _negated(call("NOT", condition)) == condition
    member = Column(Field(0, "visits", "member"), Domain("boolean"))
    assert _negated(member) == call("NOT", member)
    assert _operand_of_null_test(condition) == COLUMNS["age"]
    for other in (call("NOT", condition), COLUMNS["age"], call("=", COLUMNS["age"], literal(Type.INTEGER, 1))):
        assert _operand_of_null_test(other) is None


def test_the_value_of_disjoint_measures_is_that_of_a_member_with_one() -> None:
    def when(age: int) -> Expression:
        return call("=", COLUMNS["age"], literal(Type.INTEGER, age))

    cost = COLUMNS["cost"]
    counts = tuple(Count(when(age)) for age in (1, 2))
    assert DisjointMeasures(counts).value is None
    assert DisjointMeasures((*counts, Mean(cost, when(3)))).value == cost
    assert DisjointMeasures((Sum(cost, when(3)), Sum(cost, when(4)))).value == cost
    assert DisjointMeasures((*counts, Mean(cost, when(3)))).noise_count == 2 + Mean(cost).noise_count
