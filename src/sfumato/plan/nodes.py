"""A question is a typed, frozen tree: what is measured about the rows, and what is done with the noisy numbers.

    Query
    ├── plan: Aggregate             touches private rows; everything in it is bounded, priced and charged
    │   ├── source: a relation      a tree over scans; a Bound on top once it is decided how a unit is limited
    │   ├── keys                    the groups
    │   └── measures                what is asked of every group's rows (``plan.measures``)
    ├── finish: Finish              runs on noisy numbers only: free (``plan.noisy_rows``)
    └── outer: OuterSelect, …             an outer SELECT over the rows of the one before it: free

Every relation says which ``columns`` it has, what it is made from (``inputs``), which ``expressions`` it evaluates on
rows of these, how many rows of one unit it holds at most as far as the tree itself proves it (``max_rows_per_unit``,
None where it does not), and which ``limits`` a Bound above it has unless others are asked for. A node that adds columns
has a number, its ``source``, which no other node of the tree has: fields name columns by it.

*Claim.* Every node is unit-wise: what it holds of a unit is a function of that unit's rows, in all private tables, of
public tables and of the secret key of the release. A Scan is; a node whose inputs are is too, since a row of a unit is
only ever put beside rows of the same unit and rows of public tables, and is kept, grouped, ordered and numbered by
their values alone. So what one unit changes below a Bound is its own rows, and what is proved of those carries up. ∎

Row-wise subqueries and common table expressions leave no node: a derived column is its expression, put where it is
used. So two texts that mean the same have the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from sfumato.plan.aggregates.disjoint import operands
from sfumato.plan.aggregates.measures import AggregateRequest
from sfumato.plan.aggregates.unit_measures import RankingFunction, UnitMeasure, WindowFunction
from sfumato.plan.limits import ONE_ROW, ContributionLimits, Strategy
from sfumato.plan.noisy_rows import Finish, NoisySelect, OuterSelect, Output
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Reference, conjuncts
from sfumato.plan.values.narrowing import LiteralComparison, as_comparison
from sfumato.policy import Domain, Value
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

Columns = Mapping[Field, Domain]


@codec.serialisable("scan")
@dataclass(frozen=True)
class Scan:
    """The rows of a private table."""

    table: str
    every_row: bool
    """Whether every row is a unit of its own; otherwise a unit has any number of rows."""
    source: int
    columns: Columns = field(repr=False, compare=False)
    limits: ContributionLimits = field(repr=False, compare=False)
    """The limits that the policy sets for the table."""
    possible_rows: int | None = field(repr=False, compare=False, default=None)
    """The most rows that one unit can have, by the policy: further ones, by a keyed digest, are left out before
    anything else reads them (``LimitRowsPerUnit``). It proves no contribution: ``limits`` bound that, and may be
    tightened but not raised to it.
    """

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    @property
    def max_rows_per_unit(self) -> int | None:
        return 1 if self.every_row else None


@codec.serialisable("join")
@dataclass(frozen=True)
class PublicJoin:
    """An equality or band join with a public table, in which a row has at most ``multiplicity`` matches."""

    input: Relation
    table: str
    source: int
    """The number by which fields refer to this table."""
    pairs: tuple[tuple[Expression, str], ...]
    """Equalities between an expression over the input and a column of the public table."""
    outer: bool
    """Whether it is a left outer join: rows without a match are kept."""
    multiplicity: int
    theirs: Mapping[str, Domain] = field(repr=False, compare=False)
    """The columns of the public table."""
    bands: tuple[tuple[str, Expression, str], ...] = ()
    """Comparisons (<, <=, >, >=) of an expression over the input with a column of the public table."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*(expression for expression, _ in self.pairs), *(expression for _, expression, _ in self.bands))

    @property
    def added_columns(self) -> Columns:
        """The columns it adds; those of an outer join are nullable."""
        return {
            Field(self.source, self.table, name): replace(domain, nullable=domain.nullable or self.outer)
            for name, domain in self.theirs.items()
        }

    @property
    def columns(self) -> Columns:
        return {**self.input.columns, **self.added_columns}

    @property
    def max_rows_per_unit(self) -> int | None:
        input_rows = self.input.max_rows_per_unit
        return None if input_rows is None else input_rows * self.multiplicity

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits


@codec.serialisable("unnest")
@dataclass(frozen=True)
class Unnest:
    """One row for each item of a list column; rows whose list is empty or NULL are dropped.

    The scan keeps the first ``most`` items of a list, so one row becomes at most so many, whatever it holds. Which
    ones is a function of the row alone.
    """

    input: Relation
    """A scan, or public joins, filters and other unnestings over one."""
    items: Field
    """The list column of the scan."""
    source: int
    most: int
    domain: Domain
    """The domain of an item."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    @property
    def item_column(self) -> Field:
        """The column it adds: it has the list's name, whatever alias the query gives it."""
        return replace(self.items, source=self.source)

    @property
    def columns(self) -> Columns:
        return {**self.input.columns, self.item_column: self.domain}

    @property
    def max_rows_per_unit(self) -> int | None:
        input_rows = self.input.max_rows_per_unit
        return None if input_rows is None else input_rows * self.most

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits.for_multiplied_rows(self.most)


@codec.serialisable("filter")
@dataclass(frozen=True)
class Filter:
    """The rows for which a predicate holds."""

    input: Relation
    predicate: Expression

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.predicate,)

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def max_rows_per_unit(self) -> int | None:
        limits = [limit for limit in (self.input.max_rows_per_unit, _row_number_limit(self)) if limit is not None]
        return min(limits, default=None)

    @property
    def limits(self) -> ContributionLimits:
        row_limit = _row_number_limit(self)
        return self.input.limits if row_limit is None else self.input.limits.capped_at_rows(row_limit)


def _row_number_limit(node: Filter) -> int | None:
    """Return the most rows of one unit that a condition on ROW_NUMBER keeps; None where it limits nothing.

    *Claim.* Numbers over all of a unit's rows are distinct below the cap, which stands for every later one, and nothing
    between the window and the condition repeats a row. So a condition that excludes the cap keeps no more rows of a
    unit than it admits numbers, and AND no more than any of its parts. ∎
    """
    below: Relation = node.input
    while isinstance(below, (Filter, LimitRowsPerUnit, SemiJoin, AnySemiJoin)):
        below = below.input
    if not isinstance(below, Window):
        return None
    window_functions: dict[Reference, WindowFunction] = {
        Field(below.source, "", name): function for name, function in below.functions
    }
    limits: list[int | None] = []
    for part in conjuncts(node.predicate):
        comparison = as_comparison(part) if isinstance(part, Call) else None
        if comparison is None or not isinstance(comparison.operand, Column):
            continue
        row_number = window_functions.get(comparison.operand.reference)
        if isinstance(row_number, RankingFunction) and row_number.is_distinct_within_unit:
            limits.append(_count_admitted_row_numbers(comparison, row_number.cap))
    return min((limit for limit in limits if limit is not None), default=None)


def _count_admitted_row_numbers(comparison: LiteralComparison, cap: int) -> int | None:
    """Count the row numbers that a comparison admits, none as one; None where it may admit the cap."""
    operator, values = comparison.operator, comparison.values
    ranges = {"<": (1, values[0] - 1), "<=": (1, values[0]), "BETWEEN": (max(values[0], 1), values[-1])}
    if operator in ("=", "IN"):
        admitted, last = len({number for number in values if number >= 1}), max(values)
    elif operator in ranges:
        first, last = ranges[operator]
        admitted = last - first + 1
    else:
        return None
    return max(admitted, 1) if last < cap else None


@codec.serialisable("cut")
@dataclass(frozen=True)
class LimitRowsPerUnit:
    """At most ``rows`` rows of each unit: those with the smallest keyed rank over every column that is read above.

    Rows of equal rank are ordered by the values themselves, so what still ties is equal and either may be kept.
    """

    input: Relation
    rows: int

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def max_rows_per_unit(self) -> int | None:
        input_rows = self.input.max_rows_per_unit
        return self.rows if input_rows is None else min(input_rows, self.rows)

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits.capped_at_rows(self.rows)


@codec.serialisable("per-unit")
@dataclass(frozen=True)
class PerUnit:
    """One row for each unit, or for each unit and key: GROUP BY the unit. No row is dropped inside; every result is
    clamped to a range derived from declared domains.
    """

    input: Relation
    source: int
    keys: tuple[tuple[str, Expression], ...]
    """The key expressions beside the unit, each with the name of its column."""
    results: tuple[tuple[str, UnitMeasure], ...]
    """The aggregates over a unit's rows, each with the name of its column."""
    single: bool = False
    """Whether all rows of a unit share one key, because the keys only name the period that the unit is part of."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (
            *(key for _, key in self.keys),
            *(operand for _, aggregate in self.results for operand in aggregate.expressions),
        )

    @property
    def columns(self) -> Columns:
        domains = [(name, definition.domain) for name, definition in (*self.keys, *self.results)]
        return {Field(self.source, "", name): domain for name, domain in domains}

    @property
    def max_rows_per_unit(self) -> int | None:
        return self.input.max_rows_per_unit if self.keys and not self.single else 1

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits if self.keys and not self.single else ONE_ROW


@codec.serialisable("window")
@dataclass(frozen=True)
class Window:
    """Columns computed for every row by window functions over the rows of its unit, or of its unit and keys."""

    input: Relation
    source: int
    functions: tuple[tuple[str, WindowFunction], ...]
    """Each with the name of its column."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(operand for _, function in self.functions for operand in function.expressions)

    @property
    def added_columns(self) -> Columns:
        """The columns it adds."""
        return {Field(self.source, "", name): function.domain for name, function in self.functions}

    @property
    def columns(self) -> Columns:
        return {**self.input.columns, **self.added_columns}

    @property
    def max_rows_per_unit(self) -> int | None:
        return self.input.max_rows_per_unit

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits


@codec.serialisable("unit-join")
@dataclass(frozen=True)
class UnitJoin:
    """The pairs of rows of two private relations that belong to one unit, have equal ``pairs`` and meet the condition.
    A NULL equals nothing. Each side has a bounded number of rows per unit (``cut``), so that what a unit contributes to
    the join is bounded.
    """

    left: Relation
    right: Relation
    pairs: tuple[tuple[Expression, Expression], ...]
    """Equalities between an expression over the left and one over the right."""
    condition: Expression | None
    """The rest of ON, over both sides; it is ``separable``."""
    outer: bool
    """Whether it is a left outer join: rows of the left without a match are kept."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*(side for pair in self.pairs for side in pair), *_as_tuple(self.condition))

    @property
    def added_columns(self) -> Columns:
        """The columns of the right; those of an outer join are nullable."""
        return {
            reference: replace(domain, nullable=domain.nullable or self.outer)
            for reference, domain in self.right.columns.items()
        }

    @property
    def columns(self) -> Columns:
        return {**self.left.columns, **self.added_columns}

    @property
    def max_rows_per_unit(self) -> int | None:
        left, right = self.left.max_rows_per_unit, self.right.max_rows_per_unit
        return None if left is None or right is None else left * max(1, right)

    @property
    def limits(self) -> ContributionLimits:
        return self.left.limits.elementwise_maximum(self.right.limits)


@codec.serialisable("semi-join")
@dataclass(frozen=True)
class SemiJoin:
    """The rows for which another private relation has a row of the same unit with equal pairs that meets the condition;
    with ``anti``, the rows for which it has none. A NULL equals nothing, and empties nothing.

    Where there is a condition, the other relation holds a known number of rows of a unit (``cut``).
    """

    input: Relation
    other: Relation
    pairs: tuple[tuple[Expression, Expression], ...]
    condition: Expression | None
    anti: bool

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input, self.other)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*(side for pair in self.pairs for side in pair), *_as_tuple(self.condition))

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def max_rows_per_unit(self) -> int | None:
        return self.input.max_rows_per_unit

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits


@codec.serialisable("exists-test")
@dataclass(frozen=True)
class ExistsTest:
    """Whether a private relation has a row of the same unit with equal pairs that meets the condition, or has none."""

    other: Relation
    pairs: tuple[tuple[Expression, Expression], ...]
    condition: Expression | None
    anti: bool


@codec.serialisable("any-semi-join")
@dataclass(frozen=True)
class AnySemiJoin:
    """The rows for which the predicate holds, or one of the tests does: EXISTS under OR. It keeps rows of the input, so
    a unit has no more of them than there, and a test looks at rows of the same unit, cut as those of a ``SemiJoin``.
    """

    input: Relation
    predicate: Expression | None
    tests: tuple[ExistsTest, ...]

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input, *(test.other for test in self.tests))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        matches = (SemiJoin(self.input, test.other, test.pairs, test.condition, test.anti) for test in self.tests)
        return (*_as_tuple(self.predicate), *(operand for match in matches for operand in match.expressions))

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def max_rows_per_unit(self) -> int | None:
        return self.input.max_rows_per_unit

    @property
    def limits(self) -> ContributionLimits:
        return self.input.limits


@codec.serialisable("union")
@dataclass(frozen=True)
class Union:
    """The rows of several relations with the same kind of unit: UNION ALL."""

    members: tuple[tuple[Relation, tuple[Expression, ...]], ...]
    """The relations, each with the expressions of its columns in the order of the union's."""
    source: int
    named: tuple[tuple[str, Domain], ...]
    """The columns; a domain covers the expressions of all members."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return tuple(member for member, _ in self.members)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(expression for _, expressions in self.members for expression in expressions)

    @property
    def columns(self) -> Columns:
        return {Field(self.source, "", name): domain for name, domain in self.named}

    @property
    def max_rows_per_unit(self) -> int | None:
        member_rows = [member.max_rows_per_unit for member in self.inputs]
        bounded_rows = [rows for rows in member_rows if rows is not None]
        return sum(bounded_rows) if len(bounded_rows) == len(member_rows) else None

    @property
    def limits(self) -> ContributionLimits:
        combined, *other_limits = (member.limits for member in self.inputs)
        for member_limits in other_limits:
            combined = combined.plus(member_limits)
        return combined


@codec.serialisable("bound")
@dataclass(frozen=True)
class BoundContributions:
    """The contributions of each unit, kept within limits by a strategy."""

    input: Relation
    strategy: Strategy
    limits: ContributionLimits

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def max_rows_per_unit(self) -> int | None:
        return self.limits.rows


Relation = (
    Scan
    | PublicJoin
    | Unnest
    | Filter
    | LimitRowsPerUnit
    | PerUnit
    | Window
    | UnitJoin
    | SemiJoin
    | AnySemiJoin
    | Union
    | BoundContributions
)


Numbered = Scan | PublicJoin | Unnest | PerUnit | Window | Union
"""The nodes that add columns."""


def _as_tuple(condition: Expression | None) -> tuple[Expression, ...]:
    return () if condition is None else (condition,)


@codec.serialisable("aggregate")
@dataclass(frozen=True)
class Aggregate:
    """The aggregates of every group: the only node that turns private rows into numbers."""

    source: Relation
    keys: tuple[Expression, ...]
    measures: tuple[AggregateRequest, ...]
    """The requested aggregates; under a ``Bound``, the measures taken for them."""

    @property
    def table(self) -> str:
        """The first private table."""
        return next(node.table for node in relations(self.source) if isinstance(node, Scan))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions evaluated on the rows of the source: keys, conditions and values of the measures."""
        return (*self.keys, *(operand for measure in self.measures for operand in operands(measure)))

    @property
    def limits(self) -> ContributionLimits:
        """The default limits of one unit."""
        return self.source.limits

    @property
    def max_requestable_limits(self) -> ContributionLimits:
        """The largest limits that may be requested: what the tree proves, if that exceeds the policy's."""
        proven_rows = self.source.max_rows_per_unit
        return (
            self.limits
            if proven_rows is None
            else self.limits.elementwise_maximum(ContributionLimits(proven_rows, proven_rows, proven_rows))
        )


@codec.serialisable("query")
@dataclass(frozen=True)
class Query:
    plan: Aggregate
    finish: Finish
    outer: tuple[OuterSelect, ...] = ()
    """The outer SELECTs over the rows of the finish, innermost first."""
    combined: CombinedRows | None = None
    """Where the answer is computed from several aggregating SELECTs; this query is then the first of them."""
    value_queries: tuple[ValueQuery, ...] = ()
    """The queries of the numbers that conditions and expressions on rows read: they are released first."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns of the answer."""
        if self.combined is not None:
            return self.combined.rows.select.finish.outputs
        return (self.outer[-1].finish if self.outer else self.finish).outputs


@codec.serialisable("combined-rows")
@dataclass(frozen=True)
class CombinedRows:
    """A SELECT over the noisy rows of several queries, which are measured in one batch."""

    queries: tuple[Query, ...]
    rows: NoisySelect
    texts: tuple[str, ...] = field(default=(), compare=False)
    """The SQL of each query."""


@codec.serialisable("value-query")
@dataclass(frozen=True)
class ValueQuery:
    """A query with one number, which another reads as ``ReleasedValue``."""

    query: Query
    domain: Domain
    """What the number is clamped to when it is released; it may be missing."""
    text: str = field(default="", compare=False)
    """The SQL of the query, to be asked by itself."""
    written: str = field(default="", compare=False)
    """What the question says in its place."""


def relations(relation: Relation) -> Iterator[Relation]:
    """Iterate over the relation and all relations below it in pre-order."""
    stack = [relation]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.inputs))


def table_names(relation: Relation) -> tuple[str, ...]:
    """Return the names of all private and public tables below a relation, each once."""
    return tuple(dict.fromkeys(node.table for node in relations(relation) if isinstance(node, (Scan, PublicJoin))))


def max_rows_per_private_row(relation: Relation) -> int:
    """Return the most rows that one row of a private table becomes; the members of a union count as one table."""
    match relation:
        case PublicJoin(input, multiplicity=factor):
            return max_rows_per_private_row(input) * factor
        case Unnest(input, most=factor):
            return max_rows_per_private_row(input) * factor
        case UnitJoin(left, right):
            return max_rows_per_private_row(left) * max(1, right.max_rows_per_unit or 1)
        case Union():
            return sum(map(max_rows_per_private_row, relation.inputs))
        case Scan():
            return 1
    return max_rows_per_private_row(relation.inputs[0])


def limit_rows_per_unit(relation: Relation) -> Relation:
    """Return the relation with at most ``limits.rows`` rows of each unit, cut unless the tree already proves as few."""
    proven_rows, row_limit = relation.max_rows_per_unit, relation.limits.rows
    return relation if proven_rows is not None and proven_rows <= row_limit else LimitRowsPerUnit(relation, row_limit)


def unused_source_number(relation: Relation) -> int:
    """Return a source number that no node of the tree has."""
    return 1 + max(node.source for node in relations(relation) if isinstance(node, Numbered))


GroupValues = tuple[Value | None, ...]
"""One group's key: a value for each key expression; None is NULL."""
