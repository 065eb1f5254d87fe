"""One JSON form for every frozen value.

A value is written as an object with its type's name and its fields; exact numbers are strings, so nothing is
rounded on the way. The outermost object carries the version of the form. A value's constructor accepts its
own fields as they are written, so reading is nothing but validating: a hostile text gets ``InvalidParameter``.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import text

VERSION = 1
_LONGEST = 1 << 22
_PLAIN = frozenset([int, str, bool])

_types: dict[str, type] = {}
_later: list[str] = []
_V = TypeVar("_V", bound=type)


def value(cls: _V) -> _V:
    """Register a frozen dataclass under its own name: decorate the class, above ``@dataclass``."""
    _types[cls.__name__] = cls
    return cls


def later(module: str) -> None:
    """Name a module whose values are registered when it is imported: ``loads`` imports it when it meets a type it
    does not know.
    """
    _later.append(module)


def _known(name: object) -> type | None:
    if not isinstance(name, str):
        return None
    while name not in _types and _later:
        import_module(_later.pop())
    return _types.get(name)


def dumps(item: object) -> str:
    """The canonical JSON text of a registered value: sorted keys, no spaces, equal text for equal values."""
    written = _write(item)
    if not isinstance(written, dict):
        raise InvalidParameter("item", item, "one of our frozen values")
    return json.dumps({"version": VERSION, **written}, sort_keys=True, separators=(",", ":"))


def loads(source: str, *, longest: int = _LONGEST) -> Any:
    """The value a JSON text stands for; newer versions, unknown types and texts beyond ``longest`` are refused."""
    if not isinstance(source, str) or len(source) > longest:
        raise InvalidParameter("source", source, f"a text of at most {longest} characters")
    try:
        data = json.loads(source, parse_float=str, parse_constant=str, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter("source", source, "JSON text in which no name stands twice") from error
    if not isinstance(data, dict) or str(data.pop("version", None)) != str(VERSION):
        raise InvalidParameter("source", source, f"a value written in version {VERSION} of the form")
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
    if type(item).__name__ in _types and dataclasses.is_dataclass(item):
        fields = {f.name: _write(getattr(item, f.name)) for f in dataclasses.fields(item) if f.init}
        return {"type": type(item).__name__, **fields}
    raise InvalidParameter("item", item, "one of our frozen values")


def _read(data: Any) -> Any:
    if isinstance(data, list):
        if _PLAIN.issuperset(map(type, data)):
            return tuple(data)
        return tuple(_read(each) for each in data)
    if not isinstance(data, dict):
        return data
    fields = dict(data)
    name = fields.pop("type", None)
    cls = _known(name)
    if cls is None:
        raise InvalidParameter("type", name, "one of " + ", ".join(sorted(_types)))
    known = [f.name for f in dataclasses.fields(cls) if f.init]
    try:
        if set(fields) <= set(known):
            return cls(**{key: _read(each) for key, each in fields.items()})
    except InvalidParameter:
        raise
    except (TypeError, ValueError):
        pass  # a field without a default is missing, or has a shape the constructor cannot take
    raise InvalidParameter(str(name), sorted(fields), "an object with the fields " + ", ".join(known))
