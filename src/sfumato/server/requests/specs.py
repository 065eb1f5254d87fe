"""Frozen types of request bodies, from which ``openapi.json`` is generated.

Numbers may be JSON numbers or strings: a string such as "0.1" is exact, and a JSON number means its shortest decimal.
The range of a number is checked where it is used.

The bodies of registered release kinds are built from the fields of their specs and the terms of their prices. Fields
may be strings, numbers, flags, choices, lists and mappings of these; any other type is an error when the server starts.
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
from sfumato.curator.release_kinds import ROWS, TERMS, ReleaseKind, SizeBounds, spec_fields
from sfumato.curator.tables import TableView, selected_rows
from sfumato.errors import InvalidParameter, InvalidRequest
from sfumato.plan.sql.aggregations import Aggregation, Histogram
from sfumato.plan.sql.building import RowSelection

Amount = int | float | Annotated[str, Meta(max_length=400)]
"""A number; exact if written as a string."""
Cell = str | int | float | bool | None
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(min_length=1, max_length=65536)]
Count = Annotated[int, Meta(ge=1, le=10**9)]
Columns = Annotated[list[Name], Meta(min_length=1, max_length=1000)]
Noise = Literal["laplace", "gaussian"]
ACTS = ("propose", "columns", "explain", "error", "price", "advise", "plot", "preview", "power", "stored")
Act = Literal[
    "propose", "columns", "explain", "error", "price", "advise", "plot", "preview", "power", "stored", "rehearse"
]
"""``rehearse`` is the name of ``preview`` in version 0.1: it is accepted for one more release. ``stored`` returns the
answer that a release would find stored, and is never charged.
"""


class StrictStruct(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of request bodies: unknown fields are refused."""


# ── proposals ──────────────────────────────────────────────────────────────────────────────────


class SentLimits(StrictStruct, frozen=True):
    """Limits per unit that are tighter than the policy's: less noise, more bias."""

    rows: Count | None = None
    groups: Count | None = None
    rows_per_group: Count | None = None
    strategy: Name | None = None


class TypedCell(StrictStruct, frozen=True):
    """A value that JSON has no type for, as a string with its type."""

    type: Literal["date", "timestamp", "decimal"]
    value: Annotated[str, Meta(max_length=400)]


class AggregateSpec(StrictStruct, frozen=True, tag_field="asks", tag="aggregate"):
    """An aggregate over the rows of a group, like ``sf.mean("cost")`` in Python."""

    name: Name
    of: Text | None = None
    where: Text | None = None
    beside: Text | None = None
    at: Text | None = None
    k: Count | None = None


class HistogramSpec(StrictStruct, frozen=True, tag_field="asks", tag="histogram"):
    """A key of equal-width bins, like ``sf.histogram("cost", bins=20)`` in Python."""

    of: Text
    bins: Count = 20


Part = Text | AggregateSpec | HistogramSpec
"""A part of a question: SQL, an aggregate or a histogram."""


class StepSpec(StrictStruct, frozen=True):
    """One step of a view: the name of a table method, and its arguments."""

    step: Literal[
        "where", "derive", "join", "left_join", "union_all", "per_unit", "group_by", "agg", "having", "order_by",
        "head", "select",
    ]  # fmt: skip
    given: Annotated[list[Part | int], Meta(max_length=1000)] = []
    named: Annotated[dict[Name, Part | int], Meta(max_length=1000)] = {}
    other: Name | ViewSpec | None = None
    """The other table or view of a join or union."""
    on: Text | Columns | None = None


class ViewSpec(StrictStruct, frozen=True):
    """A table, and the steps from its rows to a question."""

    table: Name
    alias: Name | None = None
    steps: Annotated[list[StepSpec], Meta(max_length=100)] = []


class QuestionSpec(StrictStruct, frozen=True):
    """A question: SQL with the values of its ``$1``, ``?`` or ``:name``, or a table with steps."""

    sql: Text | None = None
    view: ViewSpec | None = None
    parameters: list[Cell | TypedCell] | dict[str, Cell | TypedCell] | None = None
    limit: SentLimits | Annotated[list[SentLimits], Meta(max_length=20)] | None = None


# ── prices ─────────────────────────────────────────────────────────────────────────────────────


class QuestionPrice(StrictStruct, frozen=True):
    """The price of a question: a budget, or the least one that reaches half-widths ``within``; a plot runs from
    ``least`` to ``most``, ``width`` pixels wide.
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
    sample: Amount | None = None
    least: Amount | None = None
    most: Amount | None = None
    width: Amount | None = None


# ── calls of owners ────────────────────────────────────────────────────────────────────────────


class NewLink(StrictStruct, frozen=True):
    """The user for whom a login link is created."""

    user: Name


class NewUser(StrictStruct, frozen=True):
    """The name and role of a new user."""

    name: Name
    role: Literal["owner", "analyst", "auditor"]


class ChangedUser(StrictStruct, frozen=True):
    """Whether a user is disabled."""

    disabled: bool


class NewToken(StrictStruct, frozen=True):
    """A new token: its user, lifetime in days, limit on its ε, and label."""

    user: Name
    days: Annotated[int, Meta(ge=1, le=36500)] | None = None
    most: Amount | None = None
    label: Annotated[str, Meta(max_length=200)] = ""


class Amendment(StrictStruct, frozen=True):
    """The reason of an amendment, which the ledger keeps."""

    reason: Text


class Pause(StrictStruct, frozen=True):
    """Whether a policy is paused."""

    paused: bool


class ReviewDecision(StrictStruct, frozen=True):
    """A decision on a request, with an optional note that the ledger keeps."""

    reason: Annotated[str, Meta(max_length=2000)] = ""


class Refusal(StrictStruct, frozen=True):
    """The reason of a refusal, which the ledger keeps."""

    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class NewReview(StrictStruct, frozen=True):
    """Own answers that are marked for publication, by their ledger lines, and what for."""

    lines: Annotated[list[Count], Meta(min_length=1, max_length=1000)]
    purpose: Annotated[str, Meta(min_length=1, max_length=2000)]


class NewShare(StrictStruct, frozen=True):
    """A share that an owner grants: up to an ε in all, for so many days or until the end of a day (UTC), of these
    tables, kinds and measures (empty: all).
    """

    user: Name
    epsilon: Amount
    purpose: Annotated[str, Meta(min_length=1, max_length=2000)]
    tables: Annotated[list[Name], Meta(max_length=1000)] = []
    kinds: Annotated[list[Name], Meta(max_length=100)] = []
    measures: Annotated[list[Name], Meta(max_length=100)] = []
    days: Annotated[int, Meta(ge=1, le=3650)] | None = None
    until: dt.date | None = None


_OPTIONS: dict[str, Any] = {"frozen": True, "forbid_unknown_fields": True, "kw_only": True, "omit_defaults": True}


def spec_struct(kind: ReleaseKind) -> type[StrictStruct]:
    """Build the body type of a kind's spec, without the fields that only Python takes."""
    fields = [
        (field.name, json_type(field.annotation), *(() if field.required else (_json_default(field.default),)))
        for field in spec_fields(kind.spec)
    ]
    return _define_struct(kind.spec.__name__, fields, kind.spec.__doc__)


def price_struct(kind: ReleaseKind) -> type[StrictStruct]:
    """Build the body type of a kind's price; every term is optional."""
    terms = (*kind.terms, *(TERMS[key] for key in kind.assumed_terms))
    fields = [(term.name, json_type(term.annotation) | None, None) for term in terms]
    name = f"{kind.spec.__name__.removesuffix('Spec')}Price"
    return _define_struct(name, fields, f"The price of {kind.name}.", rename={"for_": "for"})


def _define_struct(name: str, fields: list[Any], doc: str | None, **options: Any) -> type[StrictStruct]:
    struct = msgspec.defstruct(name, fields, bases=(StrictStruct,), namespace={"__doc__": doc}, **_OPTIONS, **options)
    return cast("type[StrictStruct]", struct)


def json_type(annotation: Any) -> Any:
    """Return the type that decodes JSON for a field; numbers may also be strings, which are exact."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated and ROWS in parts:
        return Text | ViewSpec
    if origin is Annotated:
        return _with_size_bounds(json_type(parts[0]), next(part for part in parts[1:] if isinstance(part, SizeBounds)))
    if origin in (Union, UnionType):
        return _json_union(parts)
    if origin is Sequence:
        return list[json_type(parts[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[json_type(parts[0]), json_type(parts[1])]  # type: ignore[misc]
    if origin is Literal or annotation in (str, int, float, bool, NoneType):
        return annotation
    raise TypeError(f"a spec field cannot have type {annotation}: use text, number, flag, choice, list or mapping")


def _json_union(parts: tuple[Any, ...]) -> Any:
    """Return the union of the JSON types, leaving out objects and tuples that only Python callers pass."""
    json_parts = [
        part for part in parts if part is not Any and get_origin(part) is not tuple and not _keyed_by_tuples(part)
    ]
    if Fraction in json_parts:
        non_numeric = [part for part in json_parts if part not in (int, float, str, Fraction, Decimal)]
        return reduce(or_, map(json_type, non_numeric), Amount)
    return reduce(or_, map(json_type, json_parts))


def _keyed_by_tuples(annotation: Any) -> bool:
    return get_origin(annotation) is Mapping and get_origin(get_args(annotation)[0]) is tuple


def _with_size_bounds(annotation: Any, size: SizeBounds) -> Any:
    if annotation is int:
        return Annotated[int, msgspec.Meta(ge=size.least, le=size.most)]
    return Annotated[annotation, msgspec.Meta(min_length=size.least, max_length=size.most)]


def _json_default(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


_MAX_DEPTH = 8
"""How deeply views may be nested."""
_CELL_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "decimal": Decimal,
}


def parse_parameters(cells: list[Any] | dict[str, Any] | None) -> list[Any] | dict[str, Any] | None:
    """Convert a question's parameters to Python values of their types."""
    if isinstance(cells, list):
        return [_parse_cell(cell, str(position)) for position, cell in enumerate(cells, 1)]
    return None if cells is None else {name: _parse_cell(cell, name) for name, cell in cells.items()}


def _parse_cell(cell: Any, name: str) -> Any:
    if not isinstance(cell, TypedCell):
        return cell
    try:
        return _CELL_PARSERS[cell.type](cell.value)
    except (ValueError, InvalidOperation):
        example = {"date": "2024-01-31", "timestamp": "2024-01-31T23:59:00", "decimal": "12.50"}[cell.type]
        fix = f'for example, send {{"type": "{cell.type}", "value": "{example}"}}'
        raise InvalidParameter(
            f"parameters {name}", cell.value, f'a {cell.type} such as "{example}"', fix=fix
        ) from None


def apply_steps(curator: Curator, spec: ViewSpec, depth: int = 1) -> Any:
    """Apply the steps of a view in order, as the Python builder would; refuse a step that cannot be applied."""
    if depth > _MAX_DEPTH:
        rule = f"views can be nested at most {_MAX_DEPTH} deep"
        raise InvalidRequest(rule, place="the body, spec.view", fix="join fewer views, or write the question in SQL")
    view: Any = curator.table(spec.table, spec.alias)
    for step in spec.steps:
        view = _apply_step(curator, view, step, depth)
    return view


def rows_of_view(curator: Curator, spec: ViewSpec) -> RowSelection:
    """Return the rows that the steps of a view select; one that ends in a question is refused."""
    view = apply_steps(curator, spec)
    if not isinstance(view, TableView):
        raise InvalidRequest(
            "the view is a question, not rows of a table",
            place="the body, spec.table.steps",
            fix='leave out "agg", "group_by" and the steps after them',
        )
    return selected_rows(view)


def _apply_step(curator: Curator, view: Any, step: StepSpec, depth: int) -> Any:
    arguments: list[Any] = [_parse_aggregate_part(part) for part in step.given]
    keyword_arguments: dict[str, Any] = {name: _parse_aggregate_part(part) for name, part in step.named.items()}
    if step.other is not None:
        arguments.append(
            apply_steps(curator, step.other, depth + 1) if isinstance(step.other, ViewSpec) else step.other
        )
    if step.on is not None:
        keyword_arguments["on"] = step.on
    try:
        return getattr(view, step.step)(*arguments, **keyword_arguments)
    except (AttributeError, TypeError):  # an unknown step, or wrong arguments
        rule = f"the step {step.step} is unknown, cannot follow the step before it, or has wrong arguments"
        raise InvalidRequest(
            rule,
            place="the body, spec.view.steps",
            fix="use a method of sf.TableView, with its arguments, as the step",
        ) from None


def _parse_aggregate_part(part: Any) -> Any:
    """Convert a part of a question to what the Python builder takes."""
    if isinstance(part, AggregateSpec):
        return Aggregation(part.name, part.of, part.where, part.beside, part.at, part.k)
    return Histogram(part.of, part.bins) if isinstance(part, HistogramSpec) else part
