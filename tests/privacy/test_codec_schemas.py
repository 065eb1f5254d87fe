"""The schema of a value is that of its JSON form: what is written fits, and what is no such value does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, Generic, Literal, Protocol, TypeVar

import jsonschema
import pytest

from sfumato.privacy import Budget, codec
from sfumato.privacy.codec_schemas import SchemaBuilder

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Sized(Protocol):
    size: int

    def grown(self) -> Sized: ...


@codec.serialisable("tests-box")
@dataclass(frozen=True)
class Box:
    size: int
    colour: Colour = Colour.RED
    inside: tuple[Box, ...] = ()

    def grown(self) -> Box:
        return Box(self.size + 1)


@dataclass(frozen=True)
class Shelf(Generic[T]):
    name: Literal["left", "right"]
    holds: T
    ends: tuple[float, Fraction | None]
    labels: Mapping[str, str] = field(default_factory=dict)


def valid(wanted: Any, found: Any) -> bool:
    schemas = SchemaBuilder("#/components/{name}")
    schema = schemas.schema_of(wanted)
    return jsonschema.Draft202012Validator({**schema, "components": schemas.components}).is_valid(found)


BOX = {"kind": "tests-box/1", "size": 3, "colour": "blue", "inside": [{"kind": "tests-box/1", "size": 1}]}
SHELF = {"name": "left", "holds": BOX, "ends": ["Infinity", "1/3"], "labels": {"any": "text"}}


def test_what_is_written_fits() -> None:
    import json

    assert json.loads(codec.dumps(Box(3, Colour.BLUE, (Box(1),)))) == BOX
    assert valid(Box, BOX)
    assert valid(Sized, BOX)  # every value with what the protocol names
    assert valid(Shelf[Box], SHELF)
    assert valid(Shelf[Box | None], {**SHELF, "holds": None})
    assert valid(Budget, json.loads(codec.dumps(Budget("0.1", "1e-6"))))


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "tests-box/1"},
        {"kind": "tests-box/2", "size": 3},
        {"size": 3},
        {**BOX, "size": "3"},
        {**BOX, "colour": "green"},
        {**BOX, "more": 1},
        {**BOX, "inside": [{"kind": "tests-box/1", "size": 1, "more": 1}]},
        {**BOX, "inside": {}},
    ],
)
def test_what_is_no_such_value_does_not(broken: Any) -> None:
    assert not valid(Box, broken)
    assert not valid(Shelf[Box], {**SHELF, "holds": broken})


@pytest.mark.parametrize(
    "broken",
    [
        {name: each for name, each in SHELF.items() if name != "labels"},  # only what has a kind leaves defaults out
        {**SHELF, "name": "above"},
        {**SHELF, "ends": [1.5]},
        {**SHELF, "ends": [1.5, None, None]},
        {**SHELF, "ends": ["NaN", None]},
        {**SHELF, "ends": [1.5, "0.1.2"]},
        {**SHELF, "labels": {"any": 1}},
    ],
)
def test_a_dataclass_without_a_kind_has_all_of_its_fields(broken: Any) -> None:
    assert not valid(Shelf[Box], broken)
