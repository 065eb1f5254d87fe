"""These frozen types are what callers send; ``openapi.json`` is written from the same ones.

Numbers may be JSON numbers or texts: a text such as "0.1" is exact, and a JSON number means its shortest decimal. What
a number must be is decided below, where it is used.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

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


class Given(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """It is something that a caller sends: a name that is not known is refused, and never passed over."""


# ── what is proposed ───────────────────────────────────────────────────────────────────────────


class UnitLimits(Given, frozen=True):
    """Limits for one unit may be tighter than those of the policy: less noise, more bias."""

    rows: Count | None = None
    groups: Count | None = None
    rows_per_group: Count | None = None
    strategy: Name | None = None


class TypedCell(Given, frozen=True):
    """A typed cell is a value that JSON has no form for, as a text with its type."""

    type: Literal["date", "timestamp", "decimal"]
    value: Annotated[str, Meta(max_length=400)]


class AggregateSpec(Given, frozen=True, tag_field="asks", tag="aggregate"):
    """An aggregate says what is asked of the rows of a group, as ``sf.mean("cost")`` says it in Python."""

    name: Name
    of: Text | None = None
    where: Text | None = None
    beside: Text | None = None
    at: Text | None = None
    k: Count | None = None


class HistogramSpec(Given, frozen=True, tag_field="asks", tag="histogram"):
    """A histogram is a key of equal bins, as ``sf.histogram("cost", bins=20)`` says it in Python."""

    of: Text
    bins: Count = 20


Part = Text | AggregateSpec | HistogramSpec
"""A part of a question: SQL, or what Python says in its place."""


class StepSpec(Given, frozen=True):
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


class ViewSpec(Given, frozen=True):
    """A view is a table's rows, and the steps from there to a question."""

    table: Name
    alias: Name | None = None
    steps: Annotated[list[StepSpec], Meta(max_length=100)] = []


class QuestionSpec(Given, frozen=True):
    """A question is SQL, with the values of its ``$1``, ``?`` or ``:name``, or a table and steps in its place."""

    sql: Text | None = None
    view: ViewSpec | None = None
    parameters: list[Cell | TypedCell] | dict[str, Cell | TypedCell] | None = None
    limit: UnitLimits | Annotated[list[UnitLimits], Meta(max_length=20)] | None = None


# ── what is paid ───────────────────────────────────────────────────────────────────────────────


class QuestionPrice(Given, frozen=True):
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


class NewUser(Given, frozen=True):
    """A new user has a name and one role."""

    name: Name
    role: Literal["owner", "analyst", "auditor"]


class ChangedUser(Given, frozen=True):
    """A user is kept out, or let in again."""

    disabled: bool


class NewToken(Given, frozen=True):
    """A new token is for a user: how many days it is good for, what it may ever spend, and what it is called."""

    user: Name
    days: Annotated[int, Meta(ge=1, le=36500)] | None = None
    most: Amount | None = None
    label: Annotated[str, Meta(max_length=200)] = ""


class Amendment(Given, frozen=True):
    """An amendment has a reason, which is kept for ever."""

    reason: Text


class Pause(Given, frozen=True):
    """A policy is paused, or answers again."""

    paused: bool
