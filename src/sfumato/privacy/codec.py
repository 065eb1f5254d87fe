"""Every frozen value has one JSON form, in which it is written down.

A value is written as an object: its kind, which is a tag and a version such as ``guarantee/1``, and its fields. The tag
is chosen when the class is registered and stays when the class is renamed. A field that has its default value is left
out, so a new optional field changes no text that was written before it existed. Whoever changes what a written field
means, or a default, raises the version. Exact numbers are strings, so nothing is rounded on the way; an infinity is the
string ``Infinity`` or ``-Infinity``, because JSON has no number for it.

A field may be a mapping from names or whole numbers to plain values: ``field(metadata=codec.MAPPING)`` says so. It is
written as an object without a kind, whose names are anything at all, ``kind`` too; objects inside it are mappings
again. Whole numbers become names on the way, and the constructor makes them numbers again.

A value's constructor accepts its own fields as they are written, so reading is nothing but validating: a hostile text
gets ``InvalidParameter``.

Small values are spelled as they would be typed, with exact numbers as decimals and no type of ours inside.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import date
from enum import Enum
from fractions import Fraction
from importlib import import_module
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import text
from sfumato.untrusted import UNFORESEEN

_LONGEST = 1 << 22
_PLAIN = frozenset([int, str, bool, type(None)])
_REAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,1100})?([eE][+-]?[0-9]{1,4})?")
MAPPING: Mapping[str, Any] = MappingProxyType({"sfumato-mapping": True})
"""The metadata of a dataclass field that is a mapping to plain values."""
WRITER = "sfumato-writer"
"""The key, in the metadata of a field that has a written form of its own, of the function that writes it."""

_types: dict[str, type] = {}
_kinds: dict[type, str] = {}
_written: dict[type, str] = {}
_later: list[str] = []
_V = TypeVar("_V", bound=type)
_T = TypeVar("_T")


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


def written_as(tag: str, version: int = 1) -> Callable[[_V], _V]:
    """Say that values of a class write themselves as those that are registered under this tag are written."""

    def register(cls: _V) -> _V:
        _written[cls] = f"{tag}/{version}"
        return cls

    return register


def written_class(cls: type) -> type:
    """Give the class whose fields are written where a value of this class is."""
    return _types[_written[cls]] if cls in _written else cls


def kind(cls: type) -> str:
    """Give the tag and version under which values of this class are written."""
    return _kinds[cls]


def values() -> Mapping[type, str]:
    """Give every class that is registered so far, with the tag and version of its values."""
    return MappingProxyType(_kinds)


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
    """Write the canonical JSON text of a registered value: fields sorted, no spaces, equal text for equal values; only
    the names of a mapping keep the order they have.
    """
    written = _write(item)
    if not isinstance(written, dict):
        raise InvalidParameter("item", item, "one of our frozen values")
    return json.dumps(written, separators=(",", ":"))


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


def loads_as(cls: type[_T], source: str, *, longest: int = _LONGEST) -> _T:
    """Read the value of this very class that a JSON text stands for."""
    found = loads(source, longest=longest)
    if type(found) is not cls:
        raise InvalidParameter("source", source, f"the JSON text of a value of the kind {_kinds[cls]}")
    return found


def real(found: Any, name: str) -> float:
    """Read the floating-point number that was written; a constructor is given its text, infinities included."""
    if type(found) is float and not math.isnan(found):
        return found
    if found == "Infinity" or found == "-Infinity":
        return float(found)
    if (type(found) is str and _REAL.fullmatch(found)) or type(found) is int or isinstance(found, Fraction):
        with suppress(OverflowError):
            if math.isfinite(number := float(found)):
                return number
    raise InvalidParameter(name, found, "a number, Infinity or -Infinity")


def check_fields(item: Any) -> None:
    """Refuse a value whose fields are not what their annotations say: for those that are texts, whole numbers, truths
    or tuples of texts.
    """
    for each in dataclasses.fields(item):
        found = getattr(item, each.name)
        if each.type in _SHAPES and not _SHAPES[each.type](found):
            raise InvalidParameter(each.name, found, f"of the type {each.type}")


_SHAPES: dict[object, Callable[[Any], bool]] = {
    "str": lambda found: type(found) is str,
    "int": lambda found: type(found) is int,
    "bool": lambda found: type(found) is bool,
    "str | None": lambda found: found is None or type(found) is str,
    "int | None": lambda found: found is None or type(found) is int,
    "tuple[str, ...]": lambda found: _is_tuple_of_texts(found),
    "tuple[tuple[str, ...], ...]": lambda found: type(found) is tuple and all(map(_is_tuple_of_texts, found)),
}
"""By an annotation as it is written: annotations are texts in every module of ours."""


def _is_tuple_of_texts(found: Any) -> bool:
    return type(found) is tuple and all(type(each) is str for each in found)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _write(item: object) -> Any:
    if type(item) in _PLAIN or isinstance(item, (int, str)):
        return item
    if isinstance(item, float):
        return _write_float(item)
    if isinstance(item, Fraction):
        return text(item)
    if isinstance(item, Enum):
        return item.value
    if isinstance(item, datetime.date):
        return item.isoformat()
    if isinstance(item, (tuple, list)):
        if _is_plain(item):
            return item
        return [_write(each) for each in item]
    if type(item) in _kinds and dataclasses.is_dataclass(item):
        fields = ((f, getattr(item, f.name)) for f in dataclasses.fields(item) if f.init)
        written = {
            f.name: _write_mapping(found) if _is_mapping(f) else f.metadata.get(WRITER, _write)(found)
            for f, found in fields
            if not _default(f, found)
        }
        return dict(sorted({"kind": _kinds[type(item)], **written}.items()))
    raise InvalidParameter("item", item, "one of our frozen values")


def _write_float(number: float) -> float | str:
    if math.isnan(number):
        raise InvalidParameter("item", number, "a number")
    return number if math.isfinite(number) else "Infinity" if number > 0 else "-Infinity"


def _write_mapping(item: object) -> Any:
    """Write names and plain values; a value of ours inside would be read back as a mapping, so there is none."""
    if isinstance(item, (tuple, list)):
        return item if _is_plain(item) else [_write_mapping(each) for each in item]
    if isinstance(item, Mapping):
        if not all(type(name) in (str, int) for name in item):
            raise InvalidParameter("item", item, "a mapping from texts or whole numbers")
        return {str(name): _write_mapping(found) for name, found in item.items()}
    if dataclasses.is_dataclass(item):
        raise InvalidParameter("item", item, "a plain value inside a mapping")
    return _write(item)


def _is_plain(items: tuple[Any, ...] | list[Any]) -> bool:
    """Tell whether there is nothing among these to write otherwise: said of many at once, since answers are long."""
    kinds = set(map(type, items))
    if float not in kinds:
        return kinds <= _PLAIN
    return kinds <= _PLAIN | {float} and all(math.isfinite(each) for each in items if type(each) is float)


def _is_mapping(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("sfumato-mapping"))


def _default(field: dataclasses.Field[Any], found: object) -> bool:
    """Tell whether a field says nothing more than its default does: equal, and of the same type."""
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
    known = {f.name: _read_mapping if _is_mapping(f) else _read for f in dataclasses.fields(cls) if f.init}
    refused = InvalidParameter(str(kind), sorted(fields), "an object with the fields " + ", ".join(known))
    if not set(fields) <= set(known):
        raise refused
    try:
        made = cls(**{name: known[name](each) for name, each in fields.items()})
    except InvalidParameter:
        raise
    except UNFORESEEN as error:  # a field without a default is missing, or has a shape the constructor cannot take
        raise refused from error
    _check_values(made)
    return made


def _check_values(item: Any) -> None:
    """Refuse a value that was read with anything else in a field that holds values of ours."""
    cls: Any = type(item)
    for name, hint in _value_hints(cls).items():
        found = getattr(item, name)
        if not _fits(found, hint):
            raise InvalidParameter(name, found, f"what {_kinds[cls]} has there")


@functools.cache
def _value_hints(cls: type) -> Mapping[str, Any]:
    """Find the fields of a class whose annotations name classes of ours."""
    try:
        hints = get_type_hints(cls)
    except NameError:  # a name that is imported for type checkers alone
        return {}
    fields = (each.name for each in dataclasses.fields(cls) if each.init)
    return {name: hints[name] for name in fields if _names_ours(hints[name])}


def _names_ours(hint: Any) -> bool:
    return _is_ours(hint) or any(_names_ours(each) for each in get_args(hint))


def _is_ours(hint: Any) -> bool:
    """Tell whether an annotation is one class of ours; enumerations are read from texts by the constructors."""
    if not isinstance(hint, type) or not hint.__module__.startswith("sfumato."):
        return False
    return not issubclass(hint, Enum) and not getattr(hint, "_is_protocol", False)


def _fits(found: Any, hint: Any) -> bool:
    """Tell whether what was read is what an annotation says, as far as it names classes of ours."""
    if _is_ours(hint):
        return isinstance(found, hint)
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(found, each) for each in inner)
    if hint is NoneType:
        return found is None
    if get_origin(hint) is not tuple or not _names_ours(hint):
        return True
    if not isinstance(found, tuple):
        return False
    if inner[1:] == (...,):
        return all(_fits(each, inner[0]) for each in found)
    return len(found) == len(inner) and all(map(_fits, found, inner))


def _read_mapping(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _read_mapping(each) for name, each in data.items()}
    if isinstance(data, list):
        return tuple(data) if _PLAIN.issuperset(map(type, data)) else tuple(_read_mapping(each) for each in data)
    return data


_MOST = 6
"""Parts of a tuple or a mapping that are shown."""


def spelled(item: Any) -> str:
    """Spell a value by its fields: a class takes it as its ``__repr__``."""
    shown = [each.name for each in fields(item) if each.repr]
    return f"{type(item).__name__}({', '.join(f'{name}={_part(getattr(item, name))}' for name in shown)})"


def _part(value: object) -> str:
    if isinstance(value, Fraction):
        return text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        parts = [f"{_part(name)}: {_part(each)}" for name, each in list(value.items())[:_MOST]]
        return f"{{{_joined(parts, len(value))}}}"
    if isinstance(value, tuple):
        return f"({_joined([_part(each) for each in value[:_MOST]], len(value))})"
    return repr(value)


def _joined(parts: list[str], whole: int) -> str:
    return ", ".join(parts) + (", …" if whole > len(parts) else "")
