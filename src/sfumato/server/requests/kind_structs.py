"""Structs that read what is sent for a kind of release, made of the fields of its spec and the terms of its price.

A field may hold what JSON holds: texts, numbers, flags, choices, lists and mappings of them. Any other type is an error
when the server starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec

from sfumato.curator.release_kinds import ReleaseKind, spec_fields
from sfumato.curator.spec_types import Size
from sfumato.server.requests.specs import Amount, Given

_OPTIONS: dict[str, Any] = {"frozen": True, "forbid_unknown_fields": True, "kw_only": True, "omit_defaults": True}


def spec_struct(kind: ReleaseKind) -> type[Given]:
    """Make the struct of what is proposed; what Python alone takes is not in it."""
    fields = [
        (field.name, json_type(field.annotation), *(() if field.required else (_plain(field.default),)))
        for field in spec_fields(kind.spec)
    ]
    return _struct(kind.spec.__name__, fields, kind.spec.__doc__)


def price_struct(kind: ReleaseKind) -> type[Given]:
    """Make the struct of what is paid: every term may be left out."""
    fields = [(term.name, json_type(term.annotation) | None, None) for term in kind.terms]
    name = f"{kind.spec.__name__.removesuffix('Spec')}Price"
    return _struct(name, fields, f"What may be said of the price of one of the {kind.name}.", rename={"for_": "for"})


def _struct(name: str, fields: list[Any], doc: str | None, **more: Any) -> type[Given]:
    made = msgspec.defstruct(name, fields, bases=(Given,), namespace={"__doc__": doc}, **_OPTIONS, **more)
    return cast("type[Given]", made)


def json_type(annotation: Any) -> Any:
    """Return the type that reads JSON for a field; numbers may be written as texts, which are exact."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _sized(json_type(parts[0]), next(each for each in parts[1:] if isinstance(each, Size)))
    if origin in (Union, UnionType):
        return _union(parts)
    if origin is Sequence:
        return list[json_type(parts[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[json_type(parts[0]), json_type(parts[1])]  # type: ignore[misc]
    if origin is Literal or annotation in (str, int, float, bool, NoneType):
        return annotation
    raise TypeError(f"no field of a spec is of type {annotation}: text, number, flag, choice, list or mapping")


def _union(parts: tuple[Any, ...]) -> Any:
    """A union of what JSON can hold: objects and tuples that Python takes beside it are left out."""
    sent = [each for each in parts if each is not Any and get_origin(each) is not tuple and not _keyed_by_tuples(each)]
    if Fraction in sent:
        rest = [each for each in sent if each not in (int, float, str, Fraction, Decimal)]
        return reduce(or_, map(json_type, rest), Amount)
    return reduce(or_, map(json_type, sent))


def _keyed_by_tuples(annotation: Any) -> bool:
    return get_origin(annotation) is Mapping and get_origin(get_args(annotation)[0]) is tuple


def _sized(annotation: Any, size: Size) -> Any:
    if annotation is int:
        return Annotated[int, msgspec.Meta(ge=size.least, le=size.most)]
    return Annotated[annotation, msgspec.Meta(min_length=size.least, max_length=size.most)]


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default
