"""These frozen types are what callers send; ``openapi.json`` is written from the same ones.

Numbers may be JSON numbers or texts: a text such as "0.1" is exact, and a JSON number means its shortest decimal. What
a number must be is decided below, where it is used.

Structs that read what is sent for a kind of release, made of the fields of its spec and the terms of its price.

A field may hold what JSON holds: texts, numbers, flags, choices, lists and mappings of them. Any other type is an error
when the server starts.

The steps and typed values of a question are read here: what stands in it beside SQL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from sfumato.curator import Curator
from sfumato.curator.release_kinds import ReleaseKind, Size, spec_fields
from sfumato.errors import InvalidParameter, InvalidRequest
from sfumato.plan.sql.aggregations import Aggregation
from sfumato.plan.sql.histograms import Histogram

Amount = int | float | Annotated[str, Meta(max_length=400)]
"""A number, exact where it is written as a text."""
Cell = str | int | float | bool | None
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(min_length=1, max_length=65536)]
Count = Annotated[int, Meta(ge=1, le=10**9)]
Columns = Annotated[list[Name], Meta(min_length=1, max_length=1000)]
Noise = Literal["laplace", "gaussian"]
ACTS = ("propose", "columns", "explain", "error", "price", "advise", "plot", "rehearse")
Act = Literal["propose", "columns", "explain", "error", "price", "advise", "plot", "rehearse"]


class StrictStruct(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """It is something that a caller sends: a name that is not known is refused, and never passed over."""


# ── what is proposed ───────────────────────────────────────────────────────────────────────────


class SentLimits(StrictStruct, frozen=True):
    """Limits for one unit may be tighter than those of the policy: less noise, more bias."""

    rows: Count | None = None
    groups: Count | None = None
    rows_per_group: Count | None = None
    strategy: Name | None = None


class TypedCell(StrictStruct, frozen=True):
    """A typed cell is a value that JSON has no form for, as a text with its type."""

    type: Literal["date", "timestamp", "decimal"]
    value: Annotated[str, Meta(max_length=400)]


class AggregateSpec(StrictStruct, frozen=True, tag_field="asks", tag="aggregate"):
    """An aggregate says what is asked of the rows of a group, as ``sf.mean("cost")`` says it in Python."""

    name: Name
    of: Text | None = None
    where: Text | None = None
    beside: Text | None = None
    at: Text | None = None
    k: Count | None = None


class HistogramSpec(StrictStruct, frozen=True, tag_field="asks", tag="histogram"):
    """A histogram is a key of equal bins, as ``sf.histogram("cost", bins=20)`` says it in Python."""

    of: Text
    bins: Count = 20


Part = Text | AggregateSpec | HistogramSpec
"""A part of a question: SQL, or what Python says in its place."""


class StepSpec(StrictStruct, frozen=True):
    """A step says what a method of a table is called, and what it is given."""

    step: Literal[
        "where", "derive", "join", "left_join", "union_all", "per_unit", "group_by", "agg", "having", "order_by",
        "head", "select",
    ]  # fmt: skip
    given: Annotated[list[Part | int], Meta(max_length=1000)] = []
    named: Annotated[dict[Name, Part | int], Meta(max_length=1000)] = {}
    other: Name | ViewSpec | None = None
    """The other table, or a view of one, of a join or a union."""
    on: Text | Columns | None = None


class ViewSpec(StrictStruct, frozen=True):
    """A view is a table's rows, and the steps from there to a question."""

    table: Name
    alias: Name | None = None
    steps: Annotated[list[StepSpec], Meta(max_length=100)] = []


class QuestionSpec(StrictStruct, frozen=True):
    """A question is SQL, with the values of its ``$1``, ``?`` or ``:name``, or a table and steps in its place."""

    sql: Text | None = None
    view: ViewSpec | None = None
    parameters: list[Cell | TypedCell] | dict[str, Cell | TypedCell] | None = None
    limit: SentLimits | Annotated[list[SentLimits], Meta(max_length=20)] | None = None


# ── what is paid ───────────────────────────────────────────────────────────────────────────────


class QuestionPrice(StrictStruct, frozen=True):
    """A question is paid with a price, or with the least that reaches half-widths; a plot is drawn from ``least`` to
    ``most``.
    """

    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    within: dict[str, Amount] | Amount | None = None
    confidence: Amount | None = None
    mechanism: Noise | None = None
    weights: dict[str, Amount] | None = None
    range: Literal["value"] | None = None
    joint: bool | None = None
    fresh: bool | None = None
    free: bool | None = None
    sample_of: Amount | None = None
    least: Amount | None = None
    most: Amount | None = None


# ── what owners send ───────────────────────────────────────────────────────────────────────────


class NewUser(StrictStruct, frozen=True):
    """A new user has a name and one role."""

    name: Name
    role: Literal["owner", "analyst", "auditor"]


class ChangedUser(StrictStruct, frozen=True):
    """A user is kept out, or let in again."""

    disabled: bool


class NewToken(StrictStruct, frozen=True):
    """A new token is for a user: how many days it is good for, what it may ever spend, and what it is called."""

    user: Name
    days: Annotated[int, Meta(ge=1, le=36500)] | None = None
    most: Amount | None = None
    label: Annotated[str, Meta(max_length=200)] = ""


class Amendment(StrictStruct, frozen=True):
    """An amendment has a reason, which is kept for ever."""

    reason: Text


class Pause(StrictStruct, frozen=True):
    """A policy is paused, or answers again."""

    paused: bool


_OPTIONS: dict[str, Any] = {"frozen": True, "forbid_unknown_fields": True, "kw_only": True, "omit_defaults": True}


def spec_struct(kind: ReleaseKind) -> type[StrictStruct]:
    """Make the struct of what is proposed; what Python alone takes is not in it."""
    fields = [
        (field.name, json_type(field.annotation), *(() if field.required else (_plain(field.default),)))
        for field in spec_fields(kind.spec)
    ]
    return _struct(kind.spec.__name__, fields, kind.spec.__doc__)


def price_struct(kind: ReleaseKind) -> type[StrictStruct]:
    """Make the struct of what is paid: every term may be left out."""
    fields = [(term.name, json_type(term.annotation) | None, None) for term in kind.terms]
    name = f"{kind.spec.__name__.removesuffix('Spec')}Price"
    return _struct(name, fields, f"What may be said of the price of one of the {kind.name}.", rename={"for_": "for"})


def _struct(name: str, fields: list[Any], doc: str | None, **more: Any) -> type[StrictStruct]:
    made = msgspec.defstruct(name, fields, bases=(StrictStruct,), namespace={"__doc__": doc}, **_OPTIONS, **more)
    return cast("type[StrictStruct]", made)


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


_DEEPEST = 8
"""How many views may stand one inside another."""
_READERS: Mapping[str, Callable[[str], Any]] = {
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "decimal": Decimal,
}


def parameters_of(given: list[Any] | dict[str, Any] | None) -> list[Any] | dict[str, Any] | None:
    """Give the values of a question's parameters, each of its own type."""
    if isinstance(given, list):
        return [_value(each, str(place)) for place, each in enumerate(given, 1)]
    return None if given is None else {name: _value(each, name) for name, each in given.items()}


def _value(given: Any, name: str) -> Any:
    if not isinstance(given, TypedCell):
        return given
    try:
        return _READERS[given.type](given.value)
    except (ValueError, InvalidOperation):
        raise InvalidParameter(f"parameters {name}", given.value, f"the text of a {given.type}") from None


def viewed(curator: Curator, spec: ViewSpec, depth: int = 1) -> Any:
    """Take the steps of a view, one after the other, as Python would: a step that cannot be taken is refused there."""
    if depth > _DEEPEST:
        rule = f"at most {_DEEPEST} views stand one inside another"
        raise InvalidRequest(rule, place="the body, spec.view", fix="join fewer views, or write the question in SQL")
    found: Any = curator.table(spec.table, spec.alias)
    for step in spec.steps:
        found = _taken(curator, found, step, depth)
    return found


def _taken(curator: Curator, view: Any, step: StepSpec, depth: int) -> Any:
    given: list[Any] = [_part(each) for each in step.given]
    named: dict[str, Any] = {name: _part(each) for name, each in step.named.items()}
    if step.other is not None:
        given.append(viewed(curator, step.other, depth + 1) if isinstance(step.other, ViewSpec) else step.other)
    if step.on is not None:
        named["on"] = step.on
    try:
        return getattr(view, step.step)(*given, **named)
    except (AttributeError, TypeError):  # a step that is not there, or is given what it does not take
        rule = f"the step {step.step} is not taken here, or not with what it is given"
        raise InvalidRequest(rule, place="the body, spec.view.steps", fix="see what the builder takes") from None


def _part(given: Any) -> Any:
    """Give a part of a question as Python says it."""
    if isinstance(given, AggregateSpec):
        return Aggregation(given.name, given.of, given.where, given.beside, given.at, given.k)
    return Histogram(given.of, given.bins) if isinstance(given, HistogramSpec) else given
