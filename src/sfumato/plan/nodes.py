"""A question as a typed, frozen tree: what is measured about the rows, and what is done with the noisy numbers.

    Query
    ├── plan: Aggregate             touches private rows; everything in it is bounded, priced and charged
    │   ├── source: a relation      Scan, Join, Filter; a Bound on top once it is decided how a unit is limited
    │   ├── keys                    the groups
    │   └── measures                what is asked of every group's rows (``plan.measures``)
    ├── finish: Finish              runs on noisy numbers only: free (``plan.noisy_rows``)
    └── outer: Outer, …             an outer SELECT over the rows of the one before it: free

Every relation says which columns it has, what it is made from, and how many rows of one unit it holds at most. Each is
unit-wise: it makes rows of a unit from rows of that unit alone, so what is proved of a unit's rows at one node carries
to the next. Row-wise subqueries and common table expressions leave no node: a derived column is its expression, put
where it is used. So two texts that mean the same have the same plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sfumato.plan.expressions import Expression, Field
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.measures import Measure
from sfumato.plan.noisy_rows import Finish, Outer, Output
from sfumato.policy import Domain, Value
from sfumato.privacy import codec

Columns = Mapping[Field, Domain]


@codec.value("scan")
@dataclass(frozen=True)
class Scan:
    """The rows of the private table."""

    table: str
    every_row: bool
    """Every row is a unit of its own; else a unit has any number of rows."""
    columns: Columns = field(repr=False, compare=False)

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()

    @property
    def most_rows(self) -> int | None:
        """The most rows of one unit, where the tree itself bounds them."""
        return 1 if self.every_row else None


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
    theirs: Mapping[str, Domain] = field(repr=False, compare=False)
    """The public table's own columns."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def joined(self) -> Columns:
        """The columns it adds; where a row may have no match they may be missing."""
        return {
            Field(self.source, self.table, name): replace(domain, nullable=domain.nullable or self.outer)
            for name, domain in self.theirs.items()
        }

    @property
    def columns(self) -> Columns:
        return {**self.input.columns, **self.joined}

    @property
    def most_rows(self) -> int | None:
        most = self.input.most_rows
        return None if most is None else most * self.multiplicity


@codec.value("filter")
@dataclass(frozen=True)
class Filter:
    """The rows for which a predicate holds."""

    input: Relation
    predicate: Expression

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def most_rows(self) -> int | None:
        return self.input.most_rows


@codec.value("bound")
@dataclass(frozen=True)
class Bound:
    """What of each unit's rows counts, by a strategy that keeps it within limits."""

    input: Relation
    strategy: Strategy
    limits: Limits

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def most_rows(self) -> int | None:
        return self.limits.rows


Relation = Scan | Join | Filter | Bound


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


@codec.value("query")
@dataclass(frozen=True)
class Query:
    plan: Aggregate
    finish: Finish
    outer: tuple[Outer, ...] = ()
    """What is asked of the rows that the finish shows, from the inside out."""

    @property
    def listing(self) -> bool:
        """Whether nothing is measured: the answer is what the policy declares."""
        return not self.plan.measures

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns of the answer."""
        return (self.outer[-1].finish if self.outer else self.finish).outputs


def relations(relation: Relation) -> Iterator[Relation]:
    """The relation and everything under it, each before what it is made from."""
    waiting = [relation]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(found.inputs))


def multiplicity(relation: Relation) -> int:
    """The most rows that one row of the private table becomes."""
    return math.prod(node.multiplicity for node in relations(relation) if isinstance(node, Join))


GroupKey = tuple[Value | None, ...]
"""One group's key: a value for each key expression; None is NULL."""
