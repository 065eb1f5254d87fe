"""The most rows that one value meets, against trying every value."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato.plan.values.countable import max_band_matches

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
chosen = st.lists(st.sampled_from(sorted(OPERATORS)), min_size=1, max_size=3)


@given(st.data())
def test_no_value_meets_more_and_some_value_meets_as_many(data: st.DataObject) -> None:
    """Values between the bounds are halves, so every value that can be told apart by them is tried."""
    operators = data.draw(chosen)
    bounds = st.lists(st.integers(-3, 3), min_size=len(operators), max_size=len(operators))
    rows = data.draw(st.lists(st.tuples(st.tuples(st.integers(0, 1)), bounds), max_size=8))

    def met(key: Any, value: float) -> int:
        tests = [OPERATORS[each] for each in operators]
        return sum(
            own == key and all(test(value, bound) for test, bound in zip(tests, ends, strict=True))
            for own, ends in rows
        )

    tried = [met((key,), half / 2) for key in (0, 1) for half in range(-8, 9)]
    assert max_band_matches(rows, operators) == max(tried)


@pytest.mark.parametrize(
    ("rows", "operators", "most"),
    [
        ([], (">=", "<"), 0),
        ([((), (0, 3)), ((), (3, 8)), ((), (8, 9))], (">=", "<"), 1),
        ([((), (0, 3)), ((), (3, 8)), ((), (8, 9))], (">=", "<="), 2),
        ([((), (5, 3))], (">=", "<"), 0),
        ([((), ("a", "b")), ((), ("a", "a"))], (">=", "<="), 2),
        ([((), (1,)), ((), (2,)), ((), (3,))], (">",), 3),
    ],
)
def test_a_few_by_hand(rows: Any, operators: Any, most: int) -> None:
    assert max_band_matches(rows, operators) == most
