"""An answer is written as JSON and read back equal; nothing else is read."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from sfumato.policy import Type

RECEIPT = sf.Receipt(
    question="SELECT COUNT(*) AS n FROM visits",
    unit="patient",
    neighbours="add-remove",
    guarantee="ε = 0.5",
    account="ε = 3, δ = 0",
    mechanisms=("Laplace, scale 2",),
    strategy="reweight",
    limits="at most 2 rows",
    bounds=(),
    policy="a" * 64,
    data="version 1",
    software="sfumato",
    line=4,
    hash="b" * 64,
    time="2026-01-02T03:04:05+00:00",
    free=False,
    confidence="0.95",
    remaining="pure 2.5",
    epsilons=("1", "3"),
)
CELLS: dict[Type, st.SearchStrategy[Any]] = {
    Type.INTEGER: st.integers(),
    Type.REAL: st.floats(allow_nan=False),
    Type.TEXT: st.text(),
    Type.BOOLEAN: st.booleans(),
    Type.DATE: st.dates(),
    Type.TIMESTAMP: st.datetimes(),
}
ends = st.floats(allow_nan=False)
names = st.text() | st.sampled_from(["kind", "rows", "version"])


@st.composite
def answers(draw: st.DrawFn) -> sf.Answer:
    columns = tuple(draw(st.lists(names, min_size=1, max_size=5, unique=True)))
    types = tuple(draw(st.sampled_from(list(Type))) for _ in columns)
    count = draw(st.integers(0, 4))
    rows = tuple(tuple(draw(st.none() | CELLS[kind]) for kind in types) for _ in range(count))
    numeric = [name for name, kind in zip(columns, types, strict=True) if kind.numeric and draw(st.booleans())]
    intervals = {name: tuple(draw(st.none() | st.tuples(ends, ends)) for _ in range(count)) for name in numeric}
    possible = {name: draw(st.tuples(ends, ends)) for name in numeric if draw(st.booleans())}
    keys = tuple(name for name in columns if name not in intervals)
    return sf.Answer(columns, types, rows, intervals, keys, RECEIPT, tuple(draw(st.lists(st.text()))), possible)


@settings(max_examples=25)
@given(answers())
def test_an_answer_reads_back_what_it_wrote(answer: sf.Answer) -> None:
    found = sf.Answer.from_json(answer.to_json())
    assert found == answer
    assert [list(map(type, row)) for row in found.rows] == [list(map(type, row)) for row in answer.rows]
    assert found.to_json() == answer.to_json()


def test_the_form_is_a_contract() -> None:
    day, moment = dt.date(2024, 6, 1), dt.datetime(2024, 6, 1, 12, 30)
    answer = sf.Answer(
        ("day", "at", "open", "n", "share"),
        (Type.DATE, Type.TIMESTAMP, Type.BOOLEAN, Type.INTEGER, Type.REAL),
        ((day, moment, True, 7, 0.5), (None, None, None, None, None)),
        {"n": ((5.0, 9.0), None), "share": ((-math.inf, math.inf), None)},
        ("day", "at", "open"),
        RECEIPT,
        (),
    )
    found = json.loads(answer.to_json())
    assert found.pop("receipt") == json.loads(RECEIPT.to_json())
    assert found == {
        "kind": "answer/1",
        "columns": ["day", "at", "open", "n", "share"],
        "types": ["date", "timestamp", "boolean", "integer", "real"],
        "rows": [["2024-06-01", "2024-06-01T12:30:00", True, 7, 0.5], [None] * 5],
        "intervals": {"n": [[5.0, 9.0], None], "share": [["-Infinity", "Infinity"], None]},
        "keys": ["day", "at", "open"],
        "warnings": [],
        "possible": {},
        "ranks": {},
        "chosen": {},
    }


WHOLE = sf.Answer(
    ("day", "n"), (Type.DATE, Type.INTEGER), ((dt.date(2024, 6, 1), 7),), {"n": ((5.0, 9.0),)}, ("day",), RECEIPT, ()
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "receipt/1"),
        ("kind", "answer/2"),
        ("columns", "day"),
        ("columns", ["day"]),
        ("columns", ["day", "day"]),
        ("columns", ["day", 7]),
        ("types", ["date"]),
        ("types", ["date", "money"]),
        ("types", ["integer", "date"]),
        ("types", [["date"], "integer"]),
        ("types", None),
        ("rows", None),
        ("rows", {}),
        ("rows", [7]),
        ("rows", ["ab"]),
        ("rows", [["2024-06-01"]]),
        ("rows", [["2024-06-01", 7], ["2024-06-01"]]),
        ("rows", [["20240601", 7]]),
        ("rows", [["2024-06-01T00:00:00", 7]]),
        ("rows", [["2024-13-01", 7]]),
        ("rows", [["2024-06-01", "7"]]),
        ("rows", [["2024-06-01", 7.5]]),
        ("rows", [["2024-06-01", True]]),
        ("rows", [["2024-06-01", [7]]]),
        ("rows", []),
        ("intervals", []),
        ("intervals", {"n": []}),
        ("intervals", {"n": [[5, 9], [5, 9]]}),
        ("intervals", {"n": [[5, 9, 9]]}),
        ("intervals", {"n": ["59"]}),
        ("intervals", {"n": [["nan", 9]]}),
        ("intervals", {"n": [{"low": 5, "high": 9}]}),
        ("intervals", {"n": 7}),
        ("intervals", {"day": [[5, 9]]}),
        ("intervals", {"other": [[5, 9]]}),
        ("keys", ["other"]),
        ("keys", "day"),
        ("receipt", None),
        ("receipt", {"kind": "guarantee/1", "epsilon": "1", "delta": "0"}),
        ("warnings", [7]),
        ("warnings", "none"),
        ("possible", {"day": [0, 1]}),
        ("possible", {"n": [0]}),
        ("possible", 7),
        ("ranks", {"other": 3.0}),
        ("ranks", {"n": "many"}),
        ("ranks", 7),
        ("chosen", {"other": "good"}),
        ("chosen", {"n": 3}),
        ("chosen", 7),
        ("more", 1),
    ],
    ids=str,
)
def test_hostile_answers_are_refused(name: str, value: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.Answer.from_json(json.dumps({**json.loads(WHOLE.to_json()), name: value}))


@pytest.mark.parametrize("missing", ["columns", "types", "rows", "intervals", "keys", "receipt", "warnings"])
def test_an_answer_is_whole_or_refused(missing: str) -> None:
    written = json.loads(WHOLE.to_json())
    del written[missing]
    with pytest.raises(sf.InvalidParameter):
        sf.Answer.from_json(json.dumps(written))


@pytest.mark.parametrize("text", ["", "null", "[]", "7", "{", RECEIPT.to_json(), None, b"{}"])
def test_what_is_no_answer_is_refused(text: Any) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.Answer.from_json(text)


def test_answers_longer_than_a_ledger_line_are_read_back() -> None:
    types, rows = (Type.TEXT, Type.INTEGER), tuple((f"{each:04000}", each) for each in range(1_100))
    answer = sf.Answer(
        WHOLE.columns, types, rows, {"n": tuple((each - 1.5, each + 1.5) for _, each in rows)}, (), RECEIPT, ()
    )
    text = answer.to_json()
    assert len(text) > 1 << 22
    assert sf.Answer.from_json(text) == answer


def test_a_receipt_reads_back_what_it_wrote() -> None:
    assert sf.Receipt.from_json(RECEIPT.to_json()) == RECEIPT
    assert str(sf.Receipt.from_json(RECEIPT.to_json())) == str(RECEIPT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("question", None),
        ("mechanisms", "Laplace"),
        ("mechanisms", [7]),
        ("bounds", {}),
        ("line", "4"),
        ("line", True),
        ("free", 0),
        ("time", "yesterday"),
        ("confidence", "2"),
        ("confidence", "surely"),
        ("version", "1"),
        ("more", ""),
    ],
)
def test_hostile_receipts_are_refused(name: str, value: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.Receipt.from_json(json.dumps({**json.loads(RECEIPT.to_json()), name: value}))
