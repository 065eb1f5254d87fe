"""What is sent for a kind of release has the sizes and names of its fields, or is refused before anything is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import msgspec
import pytest

from sfumato.curator.release_kinds import Count, Name, Names, SizeBounds
from sfumato.errors import InvalidRequest
from sfumato.privacy.numbers import Number
from sfumato.server.requests import proposals
from sfumato.server.requests.specs import json_type

BOUNDS = {"table": "visits", "column": "cost"}


def _read(kind: str, spec: dict[str, Any], price: dict[str, Any] | None = None) -> Any:
    body = {"act": "propose", "spec": spec, "price": price or {}}
    return proposals.decode_act_spec_and_price(kind, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("kind", "spec", "price"),
    [
        ("bounds", {**BOUNDS, "unknown": 1}, {}),
        ("bounds", {"table": "visits"}, {}),
        ("bounds", {**BOUNDS, "table": ""}, {}),
        ("bounds", {**BOUNDS, "table": "x" * 201}, {}),
        ("bounds", BOUNDS, {"delta": "0.1"}),
        ("bounds", BOUNDS, {"epsilon": [1]}),
        ("marginals", {"table": "t", "ways": 0}, {}),
        ("marginals", {"table": "t", "ways": 10**9 + 1}, {}),
        ("marginals", {"table": "t", "ways": [[]]}, {}),
        ("marginals", {"table": "t", "objective": "best"}, {}),
        ("marginals", {"table": "t", "columns": []}, {}),
        ("marginals", {"table": "t", "columns": ["a"] * 1001}, {}),
        ("synthesis", {"table": "t", "memory": "1 GiB"}, {}),
        ("degrees", {"table": "t", "ends": ["a"], "most": 0}, {}),
        ("running", {"question": 3}, {}),
        ("workloads", {"questions": []}, {}),
    ],
)
def test_what_is_too_long_too_many_or_unknown_is_refused(kind: str, spec: Any, price: Any) -> None:
    with pytest.raises(InvalidRequest):
        _read(kind, spec, price)


def test_the_largest_that_is_taken() -> None:
    assert _read("bounds", {**BOUNDS, "table": "x" * 200})[1]["table"] == "x" * 200
    assert _read("marginals", {"table": "t", "ways": 10**9, "columns": ["a"] * 1000})[1]["ways"] == 10**9


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Number, [1, 0.5, "1/3"], [True, None, [1]]),
        (Number | None, [None, 2], ["x" * 401]),
        (Count, [1], [0, "1", 1.5]),
        (Name | Sequence[Name], ["a", ["a"]], [[1], {}]),
        (Mapping[Name | tuple[str, ...], Number], [{"a": 1}], [{"": 1}, {"a": []}]),
        (Sequence[Number] | Mapping[tuple[str, ...], Number] | None, [[1], None], [{"a": 1}]),
        (Literal["a", "b"], ["a"], ["c"]),
        (Annotated[Sequence[Names], SizeBounds(1, 2)], [[["a"]]], [[], [["a"]] * 3]),
        (Name | Any, ["a"], [1]),
    ],
)
def test_types_read_what_json_holds(annotation: Any, good: list[Any], bad: list[Any]) -> None:
    read = json_type(annotation)
    for value in good:
        assert msgspec.json.decode(json.dumps(value), type=read) == value
    for value in bad:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(value), type=read)


@pytest.mark.parametrize("annotation", [Fraction, Decimal, object, tuple[str, ...], set[str]])
def test_what_json_does_not_hold_is_an_error(annotation: Any) -> None:
    with pytest.raises(TypeError, match="a spec field cannot have type"):
        json_type(annotation)
