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
Sets = Annotated[list[Columns], Meta(min_length=1, max_length=10000)]
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


class WorkloadSpec(Given, frozen=True):
    """A workload is several questions that are one release: a list, or by name."""

    questions: Annotated[list[Text], Meta(min_length=1)] | dict[Name, Text]


class MarginalsSpec(Given, frozen=True):
    """Marginals are counts of all cells of every so many columns, or of these sets of columns."""

    table: Name
    ways: Count | Sets = 2
    weights: list[Amount] | None = None
    objective: Literal["total", "worst"] = "total"
    where: Text | None = None
    columns: Columns | None = None
    rows: Count | None = None


class SynopsisSpec(Given, frozen=True):
    """A synopsis is a model of some columns, fitted round by round to what it gets most wrong (MWEM)."""

    table: Name
    columns: Columns | None = None
    ways: Count | Sets | None = None
    queries: list[dict[Name, Cell | list[Cell]]] | None = None
    rounds: Count = 10
    textbook: bool = False
    where: Text | None = None
    rows: Count | None = None


class SynthesisSpec(Given, frozen=True):
    """A synthetic table is a model of these columns, and rows drawn from it."""

    table: Text
    method: Literal["aim", "mst", "mwem", "independent"] = "aim"
    ways: Count | Sets = 3
    columns: Columns | None = None
    weights: dict[Name, Amount] | None = None
    where: Text | None = None
    rows: Count | None = None
    one_row_per: Name | None = None
    order: Name | None = None


class SessionSpec(Given, frozen=True):
    """A session compares questions with one noisy threshold, one after the other, for one price."""

    threshold: Amount
    questions: Annotated[list[Text], Meta(min_length=1, max_length=1000)]
    positives: Count = 1
    sensitivity: Amount | None = None
    tables: Columns | None = None
    monotone: bool | None = None


class BoundsSpec(Given, frozen=True):
    """A search for bounds is about one column of numbers or dates, and a share of its values."""

    table: Name
    column: Name
    cover: Amount = "0.99"


class AuctionSpec(Given, frozen=True):
    """An auction sells a digital good to whoever bid in a column, at one of these public prices."""

    prices: Annotated[list[Amount], Meta(min_length=1, max_length=10000)]
    table: Name | None = None
    column: Name | None = None


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


class WorkloadPrice(Given, frozen=True):
    """A workload is paid with one price for all questions, or with the least that reaches these half-widths."""

    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    within: dict[str, Amount | dict[str, Amount]] | Amount | None = None
    confidence: Amount | None = None
    mechanism: Noise | None = None
    weights: dict[str, Amount] | None = None
    joint: bool | None = None
    fresh: bool | None = None


class MarginalsPrice(Given, frozen=True, rename={"for_": "for"}):
    """All marginals are paid with one price; ``within`` and ``for`` ask for one."""

    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    within: Amount | None = None
    for_: Columns | None = None
    confidence: Amount | None = None
    mechanism: Noise | None = None
    joint: bool | None = None
    fresh: bool | None = None


class ModelPrice(Given, frozen=True):
    """A model is paid with one price; ``rows`` says how many rows a rehearsal invents."""

    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    within: Amount | None = None
    confidence: Amount | None = None
    rows: Annotated[int, Meta(ge=1, le=10**6)] | None = None


class SessionPrice(Given, frozen=True):
    """A session is paid with an ε, of which a part may pay for values."""

    epsilon: Amount | None = None
    values_epsilon: Amount | None = None
    within: Amount | None = None
    confidence: Amount | None = None


class EpsilonPrice(Given, frozen=True):
    """Some proposals are paid with an ε alone."""

    epsilon: Amount | None = None
    within: Amount | None = None
    confidence: Amount | None = None
    fresh: bool | None = None


class AuctionPrice(Given, frozen=True):
    """An auction is paid with an ε, of which a share may count the buyers."""

    epsilon: Amount | None = None
    counting: Amount | None = None
    within: Amount | None = None
    confidence: Amount | None = None
    fresh: bool | None = None


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
