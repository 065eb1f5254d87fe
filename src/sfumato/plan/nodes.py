"""A question as a typed, frozen tree: what is measured about the rows, and what is done with the noisy numbers.

    Query
    ├── plan: Aggregate             touches private rows; everything in it is bounded, priced and charged
    │   ├── source: Scan | Join | Filter
    │   ├── keys                    the groups
    │   └── measures                what is asked of every group's rows (``plan.measures``)
    └── finish: Finish              runs on noisy numbers only: free

Row-wise subqueries and common table expressions leave no node: a derived column is its expression, put where it is
used. So two texts that mean the same have the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.plan.expressions import Expression
from sfumato.plan.measures import Measure
from sfumato.policy import Value
from sfumato.privacy import codec


@codec.value("scan")
@dataclass(frozen=True)
class Scan:
    """The rows of the private table."""

    table: str


@codec.value("join")
@dataclass(frozen=True)
class Join:
    """Every row beside its matches in a public table, of which there are at most ``multiplicity``."""

    input: Relation
    table: str
    source: int
    """The number by which fields name this table."""
    pairs: tuple[tuple[Expression, str], ...]
    """An expression over the input equals a column of the public table."""
    outer: bool
    """Rows without a match are kept."""
    multiplicity: int


@codec.value("filter")
@dataclass(frozen=True)
class Filter:
    input: Relation
    predicate: Expression


Relation = Scan | Join | Filter


@codec.value("aggregate")
@dataclass(frozen=True)
class Aggregate:
    """The only node that reads private rows into numbers."""

    source: Relation
    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]

    @property
    def table(self) -> str:
        return next(node.table for node in relations(self.source) if isinstance(node, Scan))


@dataclass(frozen=True)
class Output:
    """One column of the answer, over keys and results."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Order:
    expression: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Finish:
    outputs: tuple[Output, ...]
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Query:
    plan: Aggregate
    finish: Finish


def relations(relation: Relation) -> Iterator[Relation]:
    """The relation and everything under it."""
    yield relation
    while not isinstance(relation, Scan):
        relation = relation.input
        yield relation


def multiplicity(relation: Relation) -> int:
    """The most rows that one row of the private table becomes."""
    most = 1
    for node in relations(relation):
        most *= node.multiplicity if isinstance(node, Join) else 1
    return most


GroupKey = tuple[Value | None, ...]
"""One group's key: a value for each key expression; None is NULL."""
