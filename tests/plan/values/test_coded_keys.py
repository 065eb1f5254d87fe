"""The key of a coded column names the cell that the coding names, for every value: evaluated in plain Python."""

from __future__ import annotations

import datetime as dt
import operator
from fractions import Fraction
from typing import Any

import pytest

from sfumato.plan.values.countable import coded_key_and_cell_values
from sfumato.plan.values.expressions import Column, Expression, Field, Literal
from sfumato.policy import Domain
from sfumato.policy.codings import parse_coding

BINARY = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "+": operator.add,
    "-": operator.sub,
    "//": operator.floordiv,
}


def evaluate(node: Expression, value: Any) -> Any:
    """Evaluate a key for one value of its only column, with SQL's NULL."""
    if isinstance(node, Column):
        return value
    if isinstance(node, Literal):
        return node.value
    arguments: Any = node.arguments  # type: ignore[union-attr]
    match node.function:  # type: ignore[union-attr]
        case "CASE":
            *branches, otherwise = arguments if len(arguments) % 2 else (*arguments, None)
            for test, result in zip(branches[::2], branches[1::2], strict=True):
                if evaluate(test, value) is True:
                    return evaluate(result, value)
            return None if otherwise is None else evaluate(otherwise, value)
        case "AND":
            return all(evaluate(argument, value) is True for argument in arguments)
        case "DATE_DIFF":
            start, end = (evaluate(argument, value) for argument in arguments[1:])
            return None if end is None else (end - start).days
        case function:
            left, right = (evaluate(argument, value) for argument in arguments)
            return None if None in (left, right) else BINARY[function](left, right)


WHOLE, DAYS = Domain("integer", bounds=(-5, 30)), Domain("date", bounds=("2024-01-01", "2024-03-10"))
CODED = {
    "edges": (WHOLE, ([-5, 0, 3, 4, 20, 30], None)),
    "one bin": (WHOLE, ([0, 10], None)),
    "regular": (WHOLE, (6, None)),
    "regular edges without bounds": (Domain("integer"), ([0, 5, 10, 15], None)),
    "spikes": (WHOLE, ([-5, 0, 3, 4, 20, 30], [0, 17])),
    "a spike among regular bins": (WHOLE, (9, [2])),
    "reals": (Domain("real", bounds=(0, 30)), (4, [Fraction(5, 2)])),
    "months": (DAYS, ("month", None)),
    "weeks": (DAYS, ("week", None)),
    "weeks without bounds": (Domain("date"), ([f"2024-01-{day:02}" for day in (1, 8, 15, 21)], None)),
}


@pytest.mark.parametrize("name", CODED)
def test_the_key_of_a_value_is_its_cell(name: str) -> None:
    domain, (bins, spikes) = CODED[name]
    coding = parse_coding(domain, bins, None, spikes)
    key, cells = coded_key_and_cell_values(Column(Field(0, "t", "x"), domain), coding)
    assert cells == tuple(range(len(coding.starts) + len(coding.spikes)))
    values = [
        DAYS.bounds[0] + dt.timedelta(days=day) if domain.type.temporal else Fraction(day, 2)  # type: ignore[operator,index]
        for day in range(-20, 90)
    ]
    if domain is WHOLE or name == "regular edges without bounds":
        values = [int(value) for value in values if value.denominator == 1]  # type: ignore[attr-defined,misc]
    if domain.bounds is not None:  # a scan clamps the others
        values = [value for value in values if domain.bounds[0] <= value <= domain.bounds[1]]  # type: ignore[operator]
    assert evaluate(key, None) is None
    assert [evaluate(key, value) for value in values] == [coding.cell_index(value) for value in values]
    regular = coding.width is not None and domain.bounds is not None
    assert ("//" in repr(key)) == regular == (name in ("regular", "a spike among regular bins", "weeks"))
    assert ("function='+'" in repr(key)) == (regular or bool(coding.spikes))  # nothing is added to a bin's own number


@pytest.mark.parametrize("values", [(1, 2, 7), None])
def test_listed_values_are_cells_of_their_own_and_null_is_one_more(values: tuple[int, ...] | None) -> None:
    domain = Domain("boolean") if values is None else Domain("integer", values=values)
    for coding in (None, parse_coding(domain, None, None)):
        key, cells = coded_key_and_cell_values(Column(Field(0, "t", "x"), domain), coding)
        assert isinstance(key, Column)
        assert key.domain.nullable
        assert cells == (values or (False, True))
