"""One JSON form for every frozen value that is written down.

A value is written as an object: its kind, which is a tag and a version such as ``guarantee/1``, and its fields. The tag
is chosen when the class is registered and stays when the class is renamed. A field that has its default value is left
out, so a new optional field changes no text that was written before it existed. Whoever changes what a written field
means, or a default, raises the version. Exact numbers are strings, so nothing is rounded on the way.

A value's constructor accepts its own fields as they are written, so reading is nothing but validating: a hostile text
gets ``InvalidParameter``.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import text

_LONGEST = 1 << 22
_PLAIN = frozenset([int, str, bool])

_types: dict[str, type] = {}
_kinds: dict[type, str] = {}
_later: list[str] = []
_V = TypeVar("_V", bound=type)


def value(tag: str, version: int = 1) -> Callable[[_V], _V]:
    """Register a frozen dataclass under a tag of its own: decorate the class, above ``@dataclass``."""

    def register(cls: _V) -> _V:
        kind = f"{tag}/{version}"
        known = _types.setdefault(kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{kind} is written by {known.__module__}.{known.__qualname__} already")
        _types[kind], _kinds[cls] = cls, kind
        return cls

    return register


def kind(cls: type) -> str:
    """The tag and version under which values of this class are written."""
    return _kinds[cls]


def later(module: str) -> None:
    """Name a module whose values are registered when it is imported: ``loads`` imports it when it meets a kind it
    does not know.
    """
    _later.append(module)


def _known(kind: object) -> type | None:
    if not isinstance(kind, str):
        return None
    while kind not in _types and _later:
        import_module(_later.pop())
    return _types.get(kind)


def dumps(item: object) -> str:
    """The canonical JSON text of a registered value: sorted keys, no spaces, equal text for equal values."""
    written = _write(item)
    if not isinstance(written, dict):
        raise InvalidParameter("item", item, "one of our frozen values")
    return json.dumps(written, sort_keys=True, separators=(",", ":"))


def loads(source: str, *, longest: int = _LONGEST) -> Any:
    """The value a JSON text stands for; unknown kinds and versions and texts beyond ``longest`` are refused."""
    if not isinstance(source, str) or len(source) > longest:
        raise InvalidParameter("source", source, f"a text of at most {longest} characters")
    try:
        data = json.loads(source, parse_float=str, parse_constant=str, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter("source", source, "JSON text in which no name stands twice") from error
    if not isinstance(data, dict):
        raise InvalidParameter("source", source, "the JSON text of one of our frozen values")
    try:
        return _read(data)
    except RecursionError as error:
        raise InvalidParameter("source", source, "JSON text of moderate depth") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _write(item: object) -> Any:
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    if isinstance(item, Fraction):
        return text(item)
    if isinstance(item, Enum):
        return item.value
    if isinstance(item, datetime.date):
        return item.isoformat()
    if isinstance(item, (tuple, list)):
        if _PLAIN.issuperset(map(type, item)):
            return item  # many numbers: nothing in them to write otherwise
        return [_write(each) for each in item]
    if type(item) in _kinds and dataclasses.is_dataclass(item):
        fields = ((f, getattr(item, f.name)) for f in dataclasses.fields(item) if f.init)
        return {"kind": _kinds[type(item)]} | {f.name: _write(found) for f, found in fields if not _default(f, found)}
    raise InvalidParameter("item", item, "one of our frozen values")


def _default(field: dataclasses.Field[Any], found: object) -> bool:
    """Whether a field says nothing more than its default does: equal, and of the same type."""
    return type(found) is type(field.default) and found == field.default


def _read(data: Any) -> Any:
    if isinstance(data, list):
        if _PLAIN.issuperset(map(type, data)):
            return tuple(data)
        return tuple(_read(each) for each in data)
    if not isinstance(data, dict):
        return data
    fields = dict(data)
    kind = fields.pop("kind", None)
    cls = _known(kind)
    if cls is None:
        raise InvalidParameter("kind", kind, "one of " + ", ".join(sorted(_types)))
    known = [f.name for f in dataclasses.fields(cls) if f.init]
    try:
        if set(fields) <= set(known):
            return cls(**{key: _read(each) for key, each in fields.items()})
    except InvalidParameter:
        raise
    except (TypeError, ValueError):
        pass  # a field without a default is missing, or has a shape the constructor cannot take
    raise InvalidParameter(str(kind), sorted(fields), "an object with the fields " + ", ".join(known))
