"""JSON schemas of frozen values, derived from the types of their fields.

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
"""The schema of each plain type; ``Any`` is a cell, or a list of cells, and ``object`` is described elsewhere."""


class SchemaBuilder:
    """Builds schemas that refer to each other by name; ``components`` holds those needed so far."""

    def __init__(self, reference: str, kinds: Mapping[type, str] | None = None) -> None:
        self.components: dict[str, Schema] = {}
        self._reference = reference
        self._kinds = dict(kinds or {})
        """The kinds of values that write themselves, with all of their fields."""

    def schema_of(self, annotation: Any, type_arguments: Mapping[Any, Any] | None = None) -> Schema:
        """Return the schema of a type; ``type_arguments`` maps its type variables to types."""
        if annotation in (type_arguments or {}):
            return self.schema_of((type_arguments or {})[annotation])
        if annotation in _PLAIN:
            return dict(_PLAIN[annotation])
        origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is None:
            return self._class_schema(annotation)
        for generic, describe in self._describers:
            if origin is generic or (
                isinstance(origin, type) and isinstance(generic, type) and issubclass(origin, generic)
            ):
                return describe(self, parts, type_arguments)
        return self._object_schema(origin, dict(zip(origin.__parameters__, parts, strict=True)))

    def _class_schema(self, cls: type[Any]) -> Schema:
        if issubclass(cls, Enum):
            return {"enum": [member.value for member in cls]}
        if getattr(cls, "_is_protocol", False):
            return {
                "anyOf": [
                    self.schema_of(registered)
                    for registered in codec.kind_by_registered_class()
                    if _has_members_of(registered, cls)
                ]
            }
        written_class = codec.written_class(cls)
        kind = self._kinds.get(cls) or codec.kind_by_registered_class().get(written_class)
        name = written_class.__name__ if kind is None else kind.replace("/", ".")
        if name not in self.components:
            self.components[name] = {}  # it may be part of itself
            self.components[name] = self._object_schema(written_class, {})
        return {"$ref": self._reference.format(name=name)}

    def _object_schema(self, cls: type[Any], type_arguments: Mapping[Any, Any]) -> Schema:
        """Return the schema of an object with the fields of a dataclass."""
        registered_kind, init_fields = (
            codec.kind_by_registered_class().get(cls),
            [field for field in dataclasses.fields(cls) if field.init],
        )
        kind = registered_kind or self._kinds.get(cls)
        kind_property = {} if kind is None else {"kind": {"const": kind}}
        optional = {
            codec.written_field_name(field)
            for field in init_fields
            if registered_kind is not None and field.default is not dataclasses.MISSING
        }
        properties = {
            codec.written_field_name(field): self.schema_of(_field_type(cls, field), type_arguments)
            for field in init_fields
        }
        return {
            "type": "object",
            "properties": {**kind_property, **properties},
            "required": [*kind_property, *(name for name in properties if name not in optional)],
            "additionalProperties": False,
        }

    def _union_schema(self, parts: tuple[Any, ...], type_arguments: Mapping[Any, Any] | None) -> Schema:
        return {"anyOf": [self.schema_of(part, type_arguments) for part in parts]}

    def _literal_json_schema(self, parts: tuple[Any, ...], _: Mapping[Any, Any] | None) -> Schema:
        return {"enum": [part.value if isinstance(part, Enum) else part for part in parts]}

    def _mapping_schema(self, parts: tuple[Any, ...], type_arguments: Mapping[Any, Any] | None) -> Schema:
        return {"type": "object", "additionalProperties": self.schema_of(parts[1], type_arguments)}

    def _array_schema(self, parts: tuple[Any, ...], type_arguments: Mapping[Any, Any] | None) -> Schema:
        if len(parts) == 1 or parts[1] is ...:
            return {"type": "array", "items": self.schema_of(parts[0], type_arguments)}
        items = [self.schema_of(part, type_arguments) for part in parts]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    _describers: tuple[tuple[Any, Callable[..., Schema]], ...] = (
        (typing.Union, _union_schema),
        (types.UnionType, _union_schema),
        (typing.Literal, _literal_json_schema),
        (Mapping, _mapping_schema),
        (Sequence, _array_schema),
    )


def _field_type(cls: type[Any], field: dataclasses.Field[Any]) -> Any:
    """Return the type of a field, whose annotation is a text in the module of the class that declares it."""
    declaring_class = next(base for base in cls.__mro__ if field.name in inspect.get_annotations(base))
    annotated = types.SimpleNamespace(__annotations__={field.name: field.type})
    return typing.get_type_hints(annotated, vars(sys.modules[declaring_class.__module__]))[field.name]


def _has_members_of(cls: type[Any], protocol: type[Any]) -> bool:
    """Return whether a class has every member that a protocol names."""
    members = {*dir(cls), *(field.name for field in dataclasses.fields(cls))}
    return members.issuperset(_protocol_member_names(protocol))


def _protocol_member_names(protocol: type[Any]) -> Iterator[str]:
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base is not typing.Protocol:
            names = (*vars(base), *inspect.get_annotations(base))
            yield from (name for name in names if not name.startswith("_"))
