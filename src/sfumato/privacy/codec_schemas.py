"""The JSON form of a frozen value has a schema, which is made of the types of its fields: nobody writes one by hand.

A value that the codec knows has a ``kind``, and may leave out a field that has a default. Any other dataclass is
written with all of its fields. In both, no further field is allowed.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.privacy import codec

Schema = dict[str, Any]
_EXACT = r"^-?[0-9]+(/[0-9]+|(\.[0-9]+)?(e-?[0-9]+)?)$"
_PLAIN: Mapping[Any, Schema] = {
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    str: {"type": "string"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity"]}]},
    Fraction: {"type": "string", "pattern": _EXACT},
    datetime.date: {"type": "string", "format": "date"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    Any: {"type": ["null", "boolean", "number", "string", "array"]},
    object: {},
}
"""By type, what is written of it; ``Any`` is a cell, or a list of cells, and ``object`` what others describe."""


class Schemas:
    """Schemas refer to each other by name; ``components`` holds those that were needed so far."""

    def __init__(self, reference: str, kinds: Mapping[type, str] | None = None) -> None:
        self.components: dict[str, Schema] = {}
        self._reference = reference
        self._kinds = dict(kinds or {})
        """The kinds of values that write themselves: all of their fields, beside it."""

    def of(self, wanted: Any, given: Mapping[Any, Any] | None = None) -> Schema:
        """Describe what is written of a type, in which variables stand for the types that are given."""
        if wanted in (given or {}):
            return self.of((given or {})[wanted])
        if wanted in _PLAIN:
            return dict(_PLAIN[wanted])
        origin, parts = typing.get_origin(wanted), typing.get_args(wanted)
        if origin is None:
            return self._class(wanted)
        for known, describe in self._made:
            if origin is known or (isinstance(origin, type) and isinstance(known, type) and issubclass(origin, known)):
                return describe(self, parts, given)
        return self._fields(origin, dict(zip(origin.__parameters__, parts, strict=True)))

    def _class(self, cls: type[Any]) -> Schema:
        if issubclass(cls, Enum):
            return {"enum": [each.value for each in cls]}
        if getattr(cls, "_is_protocol", False):
            return {"anyOf": [self.of(each) for each in codec.values() if _keeps(each, cls)]}
        known = codec.written_class(cls)
        kind = self._kinds.get(cls) or codec.values().get(known)
        name = known.__name__ if kind is None else kind.replace("/", ".")
        if name not in self.components:
            self.components[name] = {}  # it may be part of itself
            self.components[name] = self._fields(known, {})
        return {"$ref": self._reference.format(name=name)}

    def _fields(self, cls: type[Any], given: Mapping[Any, Any]) -> Schema:
        """Describe an object with the fields of a dataclass."""
        known, written = codec.values().get(cls), [each for each in dataclasses.fields(cls) if each.init]
        kind = known or self._kinds.get(cls)
        first = {} if kind is None else {"kind": {"const": kind}}
        left_out = {each.name for each in written if known is not None and each.default is not dataclasses.MISSING}
        described = {each.name: self.of(_annotated(cls, each), given) for each in written}
        return {
            "type": "object",
            "properties": {**first, **described},
            "required": [*first, *(name for name in described if name not in left_out)],
            "additionalProperties": False,
        }

    def _union(self, parts: tuple[Any, ...], given: Mapping[Any, Any] | None) -> Schema:
        return {"anyOf": [self.of(each, given) for each in parts]}

    def _literal(self, parts: tuple[Any, ...], _: Mapping[Any, Any] | None) -> Schema:
        return {"enum": [each.value if isinstance(each, Enum) else each for each in parts]}

    def _mapping(self, parts: tuple[Any, ...], given: Mapping[Any, Any] | None) -> Schema:
        return {"type": "object", "additionalProperties": self.of(parts[1], given)}

    def _list(self, parts: tuple[Any, ...], given: Mapping[Any, Any] | None) -> Schema:
        if len(parts) == 1 or parts[1] is ...:
            return {"type": "array", "items": self.of(parts[0], given)}
        each = [self.of(part, given) for part in parts]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}

    _made: tuple[tuple[Any, Callable[..., Schema]], ...] = (
        (typing.Union, _union),
        (types.UnionType, _union),
        (typing.Literal, _literal),
        (Mapping, _mapping),
        (Sequence, _list),
    )


def _annotated(cls: type[Any], field: dataclasses.Field[Any]) -> Any:
    """Give the type of a field, whose annotation is a text in the module of the class that declares it."""
    home = next(each for each in cls.__mro__ if field.name in inspect.get_annotations(each))
    alone = types.SimpleNamespace(__annotations__={field.name: field.type})
    return typing.get_type_hints(alone, vars(sys.modules[home.__module__]))[field.name]


def _keeps(cls: type[Any], protocol: type[Any]) -> bool:
    """Tell whether a class has everything that a protocol names."""
    own = {*dir(cls), *(each.name for each in dataclasses.fields(cls))}
    return own.issuperset(_named(protocol))


def _named(protocol: type[Any]) -> Iterator[str]:
    for each in protocol.__mro__:
        if getattr(each, "_is_protocol", False) and each is not typing.Protocol:
            names = (*vars(each), *inspect.get_annotations(each))
            yield from (name for name in names if not name.startswith("_"))
