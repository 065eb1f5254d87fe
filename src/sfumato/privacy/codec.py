"""The canonical JSON form of every frozen value.

A value is written as an object: its kind, which is a tag and a version such as ``guarantee/1``, and its fields. The tag
is chosen when the class is registered and stays when the class is renamed. A field that has its default value is left
out, so a new optional field changes no text that was written before it existed. A change of a default, or of the
meaning of a written field, needs a new version. Exact numbers are strings, so nothing is rounded on the way; an
infinity is the string ``Infinity`` or ``-Infinity``, because JSON has no number for it.

A field may be a mapping from names or whole numbers to plain values: ``field(metadata=codec.MAPPING)`` says so. It is
written as an object without a kind, whose names are anything at all, ``kind`` too; objects inside it are mappings
again. Whole numbers become names on the way, and the constructor makes them numbers again.

A field that is renamed keeps its name in written texts: ``field(metadata=codec.stored_name_metadata("before"))``.

A value's constructor accepts its own fields as they are written, so decoding is validation: a hostile text raises
``InvalidParameter``.

``constructor_repr`` is the ``__repr__`` of small values: as they would be typed, with exact numbers as decimals.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import date
from enum import Enum
from fractions import Fraction
from importlib import import_module
from operator import itemgetter
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato.error_facts import join_with_or, suggest_fix
from sfumato.errors import InvalidParameter, ValueWords, shorten
from sfumato.privacy.numbers import format_exact
from sfumato.untrusted import MALFORMED_INPUT

_MAX_CHARACTERS = 1 << 22
_UNCHANGED = "pass the JSON text exactly as Sfumato wrote it"
_PLAIN_TYPES = frozenset([int, str, bool, type(None)])
_REAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,1100})?([eE][+-]?[0-9]{1,4})?")
MAPPING: Mapping[str, Any] = MappingProxyType({"sfumato-mapping": True})
"""The metadata of a dataclass field that is a mapping to plain values."""
WRITER = "sfumato-writer"
"""The key, in the metadata of a field that has a written form of its own, of the function that writes it."""
_STORED_NAME = "sfumato-stored-name"

_class_by_kind: dict[str, type] = {}
_kind_by_class: dict[type, str] = {}
_written_kind: dict[type, str] = {}
_encoded_once: set[type] = set()
_ENCODED = "_encoded"
_deferred_modules: list[str] = []
_V = TypeVar("_V", bound=type)
_T = TypeVar("_T")


def serialisable(tag: str, version: int = 1, *, encoded_once: bool = False) -> Callable[[_V], _V]:
    """Register a frozen dataclass under its own tag: decorate the class, above ``@dataclass``.

    ``encoded_once`` keeps the encoded fields of each value: for small values that are in many texts.
    """

    def register(cls: _V) -> _V:
        kind = f"{tag}/{version}"
        registered = _class_by_kind.setdefault(kind, cls)
        if (registered.__module__, registered.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{kind} is already registered for {registered.__module__}.{registered.__qualname__}")
        _class_by_kind[kind], _kind_by_class[cls] = cls, kind
        if encoded_once:
            _encoded_once.add(cls)
        return cls

    return register


def written_as(tag: str, version: int = 1) -> Callable[[_V], _V]:
    """Declare that values of a class write themselves in the form registered under this tag."""

    def register(cls: _V) -> _V:
        _written_kind[cls] = f"{tag}/{version}"
        return cls

    return register


def stored_name_metadata(name: str) -> Mapping[str, Any]:
    """Return the metadata of a dataclass field that is written under another name than its own."""
    return MappingProxyType({_STORED_NAME: name})


def written_field_name(field: dataclasses.Field[Any]) -> str:
    """Return the name under which a field is written."""
    return str(field.metadata.get(_STORED_NAME, field.name))


def written_class(cls: type) -> type:
    """Return the class whose fields are written for a value of this class."""
    return _class_by_kind[_written_kind[cls]] if cls in _written_kind else cls


def kind_of_class(cls: type) -> str:
    """Return the tag and version under which values of this class are written."""
    return _kind_by_class[cls]


def kind_or_class_name(cls: type) -> str:
    """Return the kind of a class, which stays when the class is renamed; its name, if it has none."""
    return _kind_by_class.get(cls, cls.__name__)


def kind_by_registered_class() -> Mapping[type, str]:
    """Return every class registered so far, with the kind of its values."""
    return MappingProxyType(_kind_by_class)


def register_module(module: str) -> None:
    """Defer the import of a module that registers values: ``loads`` imports it at the first kind it does not know."""
    _deferred_modules.append(module)


def _class_of_kind_or_none(kind: object) -> type | None:
    if not isinstance(kind, str):
        return None
    while kind not in _class_by_kind and _deferred_modules:
        import_module(_deferred_modules.pop())
    return _class_by_kind.get(kind)


def dumps(item: object) -> str:
    """Return the canonical JSON text of a registered value: fields sorted, no spaces, equal text for equal values; only
    the names of a mapping keep their order.
    """
    encoded = _encode(item)
    if not isinstance(encoded, dict):
        raise _not_serialisable_error(item)
    return _ENCODER.encode(encoded)


def _not_serialisable_error(item: object) -> InvalidParameter:
    rule = "a value that can be written as JSON, such as a Curve or a Budget"
    return InvalidParameter("item", item, rule, fix="for example, pass Budget(1)")


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def loads(source: str, *, longest: int = _MAX_CHARACTERS) -> Any:
    """Return the value of a JSON text; unknown kinds and versions and texts beyond ``longest`` are refused."""
    if not isinstance(source, str) or len(source) > longest:
        raise InvalidParameter("source", source, f"a string of at most {longest:,} characters")
    try:
        decoded = _DECODER.decode(source)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter("source", source, "valid JSON without repeated keys", fix=_UNCHANGED) from error
    if not isinstance(decoded, dict):
        raise InvalidParameter("source", source, 'a JSON object with a "kind" key', fix=_UNCHANGED)
    try:
        return _decode(decoded)
    except RecursionError as error:
        raise InvalidParameter("source", source, "JSON with fewer levels of nesting", fix=_UNCHANGED) from error


def loads_as(cls: type[_T], source: str, *, longest: int = _MAX_CHARACTERS) -> _T:
    """Return the value of a JSON text, which must be of exactly this class."""
    loaded = loads(source, longest=longest)
    if type(loaded) is not cls:
        raise InvalidParameter("source", source, f"a JSON object of the kind {_kind_by_class[cls]}", fix=_UNCHANGED)
    return loaded


def parse_float(value: Any, name: str) -> float:
    """Convert a written floating-point number to a float, infinities included; for constructors, which are given its
    text.
    """
    if type(value) is float and not math.isnan(value):
        return value
    if value == "Infinity" or value == "-Infinity":
        return float(value)
    if (type(value) is str and _REAL.fullmatch(value)) or type(value) is int or isinstance(value, Fraction):
        with suppress(OverflowError):
            if math.isfinite(number := float(value)):
                return number
    raise InvalidParameter(name, value, "a number, Infinity or -Infinity")


def check_simple_fields(item: Any) -> None:
    """Refuse a value whose fields do not have their annotated types: for fields that are str, int, bool or tuples of
    str.
    """
    cls: Any = type(item)
    values: dict[str, Any] = item.__dict__
    for name, annotation, types, has_type in _simple_field_checks(cls):
        field_value = values[name] if name in values else getattr(item, name)
        if type(field_value) not in types or not (has_type is None or has_type(field_value)):
            raise InvalidParameter(name, field_value, _WORDS_OF_ANNOTATION[annotation])


_TypeCheck = tuple[frozenset[type], Callable[[Any], bool] | None]


@functools.cache
def _simple_field_checks(cls: Any) -> tuple[tuple[str, object, *_TypeCheck], ...]:
    checked = (field for field in dataclasses.fields(cls) if field.type in _TYPE_CHECKS)
    return tuple((field.name, field.type, *_TYPE_CHECKS[field.type]) for field in checked)


def _holds_str_alone(candidate: tuple[Any, ...]) -> bool:
    return _STR.issuperset(map(type, candidate))


def _holds_tuples_of_str_alone(candidate: tuple[Any, ...]) -> bool:
    return _TUPLE.issuperset(map(type, candidate)) and all(map(_holds_str_alone, candidate))


_STR, _TUPLE = frozenset([str]), frozenset([tuple])
_TYPE_CHECKS: dict[object, _TypeCheck] = {
    "str": (_STR, None),
    "int": (frozenset([int]), None),
    "bool": (frozenset([bool]), None),
    "str | None": (frozenset([str, NoneType]), None),
    "int | None": (frozenset([int, NoneType]), None),
    "tuple[str, ...]": (_TUPLE, _holds_str_alone),
    "tuple[tuple[str, ...], ...]": (_TUPLE, _holds_tuples_of_str_alone),
}
"""By the text of the annotation, since every module postpones the evaluation of its annotations: the types, and what
else must hold.
"""
_WORDS_OF_ANNOTATION: Mapping[object, str] = {
    "str": "a string",
    "int": "a whole number",
    "bool": "True or False",
    "str | None": "a string, or left out",
    "int | None": "a whole number, or left out",
    "tuple[str, ...]": "a list of strings",
    "tuple[tuple[str, ...], ...]": "a list of lists of strings",
}


def _dict_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_name = dict(pairs)
    if len(by_name) != len(pairs):
        raise ValueError("duplicate name")
    return by_name


_DECODER = json.JSONDecoder(parse_float=str, parse_constant=str, object_pairs_hook=_dict_without_duplicates)


def _encode(item: object) -> Any:
    cls: Any = type(item)
    if cls in _PLAIN_TYPES:
        return item
    if cls in _encoded_once:
        values: dict[str, Any] = item.__dict__
        return values[_ENCODED] if _ENCODED in values else values.setdefault(_ENCODED, _encode_fields(item, cls))
    if cls in _kind_by_class and hasattr(cls, "__dataclass_fields__"):
        return _encode_fields(item, cls)
    if isinstance(item, (int, str)):
        return item
    if isinstance(item, float):
        return _encode_float(item)
    if isinstance(item, (tuple, list)):
        return item if _are_json_scalars(item) else [_encode(element) for element in item]
    if isinstance(item, Fraction):
        return format_exact(item)
    if isinstance(item, Enum):
        return item.value
    if isinstance(item, datetime.date):
        return item.isoformat()
    raise _not_serialisable_error(item)


def _encode_fields(item: object, cls: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for name, attribute, default, write in _field_writers(cls):
        content = getattr(item, attribute)
        if type(content) is not type(default) or content != default:
            encoded[name] = write(content)
    return encoded


_FieldWriter = tuple[str, str, object, Callable[[Any], Any]]


@functools.cache
def _field_writers(cls: Any) -> tuple[_FieldWriter, ...]:
    """Return for the kind and each field, sorted by the name under which it is written: this name, the attribute that
    holds it, its default and what writes it.
    """
    writers: list[_FieldWriter] = [("kind", "__class__", dataclasses.MISSING, kind_of_class)]
    for name, field in _written_fields(cls).items():
        write = _encode_mapping if _is_mapping_field(field) else field.metadata.get(WRITER, _encode)
        writers.append((name, field.name, field.default, write))
    return tuple(sorted(writers, key=itemgetter(0)))


@functools.cache
def _written_fields(cls: Any) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of a class by the names under which they are written."""
    return {written_field_name(field): field for field in dataclasses.fields(cls) if field.init}


def _encode_float(number: float) -> float | str:
    if math.isnan(number):
        raise InvalidParameter("item", number, "a number")
    return number if math.isfinite(number) else "Infinity" if number > 0 else "-Infinity"


def _encode_mapping(item: object) -> Any:
    """Encode names and plain values; a registered value inside would be decoded as a mapping, so it is refused."""
    if isinstance(item, (tuple, list)):
        return item if _are_json_scalars(item) else [_encode_mapping(element) for element in item]
    if isinstance(item, Mapping):
        if not all(type(name) in (str, int) for name in item):
            raise InvalidParameter("item", item, "a mapping whose keys are strings or whole numbers")
        return {str(name): _encode_mapping(entry) for name, entry in item.items()}
    if dataclasses.is_dataclass(item):
        raise InvalidParameter("item", item, "a mapping of plain values")
    return _encode(item)


def _are_json_scalars(items: tuple[Any, ...] | list[Any]) -> bool:
    """Return whether all items are written as they are; checked for many at once, since answers are long."""
    item_types = set(map(type, items))
    if float not in item_types:
        return item_types <= _PLAIN_TYPES
    return item_types <= _PLAIN_TYPES | {float} and all(
        math.isfinite(number) for number in items if type(number) is float
    )


def _is_mapping_field(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("sfumato-mapping"))


def _decode(data: Any) -> Any:
    if isinstance(data, list):
        if _PLAIN_TYPES.issuperset(map(type, data)):
            return tuple(data)
        return tuple(_decode(element) for element in data)
    if not isinstance(data, dict):
        return data
    fields = dict(data)
    kind = fields.pop("kind", None)
    cls = _class_of_kind_or_none(kind)
    if cls is None:
        raise InvalidParameter(
            "kind",
            kind,
            "one that this version of Sfumato can read",
            fix="correct the kind, or update Sfumato: a newer version may have written this text",
        )
    written = _written_fields(cls)
    if not fields.keys() <= written.keys():
        raise _field_error(kind, cls, fields)
    try:
        decoded = cls(**{written[name].name: _decode_field(written[name], fields[name]) for name in fields})
    except InvalidParameter as error:
        raise _with_unchanged_as_fix(error) from error
    except MALFORMED_INPUT as error:  # a field without a default is missing, or has a shape the constructor cannot take
        raise _field_error(kind, cls, fields) from error
    _check_field_types(decoded)
    return decoded


def _with_unchanged_as_fix(error: InvalidParameter) -> InvalidParameter:
    """Return the refusal of a field, with the fix for JSON texts unless it has a fix of its own."""
    if error.fix != suggest_fix(error.parameter, error.value, error.allowed):
        return error
    return InvalidParameter(error.parameter, error.value, error.allowed, fix=_UNCHANGED)


def _field_error(kind: object, cls: Any, fields: Mapping[str, Any]) -> InvalidParameter:
    """Refuse an object and name the fields that it lacks, and those that its kind does not have."""
    written = _written_fields(cls)
    parameters = inspect.signature(cls).parameters.values()
    required = {parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty}
    missing = [name for name, field in written.items() if name not in fields and field.name in required]
    unknown = [shorten(name) for name in fields if name not in written][:5]
    problems = (("lacks", missing), (f"has the unknown {_field_noun(unknown)}", unknown))
    got = " and ".join(f"{problem} {', '.join(names)}" for problem, names in problems if names)
    return InvalidParameter(
        str(kind),
        ValueWords(f"an object that {got or 'has a value of the wrong type'}"),
        f"an object with the {_field_noun(written)} {', '.join(written)}",
        fix=_UNCHANGED,
    )


def _field_noun(names: Collection[str]) -> str:
    return "field" if len(names) == 1 else "fields"


def _decode_field(field: dataclasses.Field[Any], data: Any) -> Any:
    return _decode_mapping(data) if _is_mapping_field(field) else _decode(data)


def _check_field_types(item: Any) -> None:
    """Refuse a decoded value that holds anything else in a field annotated with a registered class."""
    cls: Any = type(item)
    for name, hint in _package_class_hints(cls).items():
        field_value = getattr(item, name)
        if not _matches_hint(field_value, hint):
            raise InvalidParameter(name, field_value, _describe_hint(hint), fix=_UNCHANGED)


def _describe_hint(hint: Any) -> str:
    """Name the kinds of an annotation in words."""
    if isinstance(hint, type):
        return f"JSON of the kind {kind_or_class_name(hint)}" if hint is not NoneType else "null"
    kinds = join_with_or([_describe_hint(argument) for argument in get_args(hint) if argument is not ...])
    return kinds if get_origin(hint) in (Union, UnionType) else f"a list: {kinds}"


@functools.cache
def _package_class_hints(cls: type) -> Mapping[str, Any]:
    """Return the annotations of a class's fields that name classes of this package."""
    try:
        hints = get_type_hints(cls)
    except NameError:  # a name that is imported for type checkers alone
        return {}
    field_names = (field.name for field in dataclasses.fields(cls) if field.init)
    return {name: hints[name] for name in field_names if _names_package_class(hints[name])}


def _names_package_class(hint: Any) -> bool:
    return _is_package_class(hint) or any(_names_package_class(argument) for argument in get_args(hint))


def _is_package_class(hint: Any) -> bool:
    """Return whether an annotation is a single class of this package; enumerations are excluded, since constructors
    read them from texts.
    """
    if not isinstance(hint, type) or not hint.__module__.startswith("sfumato."):
        return False
    return not issubclass(hint, Enum) and not getattr(hint, "_is_protocol", False)


def _matches_hint(decoded: Any, hint: Any) -> bool:
    """Return whether a decoded value matches an annotation, as far as that names classes of this package."""
    if _is_package_class(hint):
        return isinstance(decoded, hint)
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_matches_hint(decoded, argument) for argument in arguments)
    if hint is NoneType:
        return decoded is None
    if get_origin(hint) is not tuple or not _names_package_class(hint):
        return True
    if not isinstance(decoded, tuple):
        return False
    if arguments[1:] == (...,):
        return all(_matches_hint(element, arguments[0]) for element in decoded)
    return len(decoded) == len(arguments) and all(map(_matches_hint, decoded, arguments))


def _decode_mapping(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _decode_mapping(entry) for name, entry in data.items()}
    if isinstance(data, list):
        return (
            tuple(data)
            if _PLAIN_TYPES.issuperset(map(type, data))
            else tuple(_decode_mapping(element) for element in data)
        )
    return data


_MAX_REPR_ENTRIES = 6
"""Elements of a tuple or a mapping that ``constructor_repr`` shows."""


def constructor_repr(item: Any) -> str:
    """Format a value by its fields: a class takes it as its ``__repr__``."""
    names = [field.name for field in fields(item) if field.repr]
    return f"{type(item).__name__}({', '.join(f'{name}={_format_value(getattr(item, name))}' for name in names)})"


def _format_value(value: object) -> str:
    if isinstance(value, Fraction):
        return format_exact(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        entries = [
            f"{_format_value(name)}: {_format_value(entry)}" for name, entry in list(value.items())[:_MAX_REPR_ENTRIES]
        ]
        return f"{{{_join_truncated(entries, len(value))}}}"
    if isinstance(value, tuple):
        return f"({_join_truncated([_format_value(element) for element in value[:_MAX_REPR_ENTRIES]], len(value))})"
    return repr(value)


def _join_truncated(parts: list[str], total_count: int) -> str:
    return ", ".join(parts) + (", …" if total_count > len(parts) else "")
