"""Answers below each other: every row says whose it is, and what a question does not ask is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.release.answers import stacked_answers
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.answers.stacked_answers import stack_answers

RECEIPT = Receipt(
    *("SELECT", "person", "add-remove", "ε = 1", "clinic", (), "", "", (), "", "", "", 7, "", "2026-11-16T00:00:00"),
    free=False,
    confidence="0.95",
    remaining="",
)


def answer(columns: dict[str, Type], *rows: tuple[Any, ...], keys: tuple[str, ...] = (), **ends: Any) -> Answer:
    return Answer(tuple(columns), tuple(columns.values()), rows, ends, keys, RECEIPT, ())


def test_columns_of_one_name_and_type_are_one_and_others_are_missing() -> None:
    total = answer({"n": Type.INTEGER}, (10,), n=((8.0, 12.0),))
    sexes = answer({"sex": Type.TEXT, "n": Type.INTEGER}, ("f", 4), ("m", None), keys=("sex",), n=((1.0, 7.0), None))
    found = stack_answers(["all", "=by sex"], [total, sexes], RECEIPT, ("a warning",))
    assert (found.columns, found.types) == (("question", "n", "sex"), (Type.TEXT, Type.INTEGER, Type.TEXT))
    assert found.rows == (("all", 10, None), ("=by sex", 4, "f"), ("=by sex", None, "m"))
    assert found.intervals == {"n": ((8.0, 12.0), (1.0, 7.0), None)}
    assert (found.keys, found.warnings, found.receipt) == (("question", "sex"), ("a warning",), RECEIPT)
    assert found.to_csv().splitlines()[2] == "'=by sex,4,f,1,7"  # no spreadsheet runs it
    assert found.to_arrow().column("sex").to_pylist() == [None, "f", "m"]


def test_columns_of_one_name_and_several_types_are_named_by_their_questions() -> None:
    whole = answer({"x": Type.INTEGER, "b: x": Type.TEXT}, (1, "own"), x=((0.0, 2.0),))
    real = answer({"x": Type.REAL, "question": Type.TEXT}, (0.5, "what"), x=((0.0, 1.0),))
    found = stack_answers(["a", "b"], [whole, real], RECEIPT, ())
    assert found.columns == ("question_", "a: x", "b: x", "b: x_", "question")
    assert found.rows == (("a", 1, "own", None, None), ("b", None, None, 0.5, "what"))
    assert found.intervals == {"a: x": ((0.0, 2.0), None), "b: x_": (None, (0.0, 1.0))}


def test_what_is_said_of_a_column_goes_with_it() -> None:
    """A median is shown by its range, and a mean within what it can be; a count of the same name is another column."""
    median = replace(answer({"x": Type.REAL}, (2.0,), x=((0.0, 2.0),)), ranks={"x": 0.5}, possible={"x": (0.0, 9.0)})
    plain = answer({"x": Type.REAL}, (3.0,), x=((1.0, 5.0),))
    found = stack_answers(["a", "b"], [median, plain], RECEIPT, ())
    assert found.columns == ("question", "a: x", "b: x")
    assert (found.ranks, found.possible) == ({"a: x": 0.5}, {"a: x": (0.0, 9.0)})


def test_two_questions_never_share_a_column_by_their_names_alone() -> None:
    first = answer({"c": Type.INTEGER, "b: c": Type.INTEGER}, (1, 2))
    second = answer({"c": Type.REAL, "b: c": Type.REAL}, (1.5, 2.5))
    found = stack_answers(["a: b", "a"], [first, second], RECEIPT, ())
    assert len(set(found.columns)) == 5
    assert found.rows == (("a: b", 1, 2, None, None), ("a", None, None, 1.5, 2.5))


def test_more_cells_than_a_table_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked_answers, "MAX_CELLS", 4)
    two = [answer({each: Type.INTEGER}, (1,), (2,)) for each in "ab"]
    with pytest.raises(InvalidParameter, match="8 cells"):
        stack_answers(["x", "y"], two, RECEIPT, ())
    assert stack_answers(["x", "y"], [two[0], two[0]], RECEIPT, ()).rows[-1] == ("y", 2)
