"""A question is a typed, frozen tree: what is measured about the rows, and what is done with the noisy numbers.

    Query
    ├── plan: Aggregate             touches private rows; everything in it is bounded, priced and charged
    │   ├── source: a relation      a tree over scans; a Bound on top once it is decided how a unit is limited
    │   ├── keys                    the groups
    │   └── measures                what is asked of every group's rows (``plan.measures``)
    ├── finish: Finish              runs on noisy numbers only: free (``plan.noisy_rows``)
    └── outer: Outer, …             an outer SELECT over the rows of the one before it: free

Every relation says which ``columns`` it has, what it is made from (``inputs``), which ``expressions`` it evaluates on
rows of these, how many rows of one unit it holds at most as far as the tree itself proves it (``most_rows``, None where
it does not), and which ``limits`` a Bound above it has unless others are asked for. A node that adds columns has a
number, its ``source``, which no other node of the tree has: fields name columns by it.

*Claim.* Every node is unit-wise: what it holds of a unit is a function of that unit's rows, in all private tables, of
public tables and of the secret key of the release. A Scan is; a node whose inputs are is too, since a row of a unit is
only ever put beside rows of the same unit and rows of public tables, and is kept, grouped, ordered and numbered by
their values alone. So what one unit changes below a Bound is its own rows, and what is proved of those carries up. ∎

Row-wise subqueries and common table expressions leave no node: a derived column is its expression, put where it is
used. So two texts that mean the same have the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from sfumato.plan.aggregates.measures import AggregateRequest
from sfumato.plan.aggregates.unit_measures import RowPosition, UnitMeasure, WindowFunction
from sfumato.plan.limits import ONE_ROW, Limits, Strategy
from sfumato.plan.noisy_rows import Finish, Outer, Output
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Reference, columns
from sfumato.plan.values.narrowing import LiteralComparison, as_comparison
from sfumato.policy import Domain, Value
from sfumato.privacy import codec

Columns = Mapping[Field, Domain]


@codec.value("scan")
@dataclass(frozen=True)
class Scan:
    """A scan has the rows of a private table."""

    table: str
    every_row: bool
    """Every row is a unit of its own; else a unit has any number of rows."""
    source: int
    columns: Columns = field(repr=False, compare=False)
    limits: Limits = field(repr=False, compare=False)
    """Those that the policy sets for the table."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    @property
    def most_rows(self) -> int | None:
        return 1 if self.every_row else None


@codec.value("join")
@dataclass(frozen=True)
class Join:
    """A join puts every row beside its matches in a public table, of which there are at most ``multiplicity``."""

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
    bands: tuple[tuple[str, Expression, str], ...] = ()
    """An expression over the input is compared (<, <=, >, >=) with a column of the public table."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*(made for made, _ in self.pairs), *(made for _, made, _ in self.bands))

    @property
    def joined(self) -> Columns:
        """List the columns it adds; where a row may have no match they may be missing."""
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

    @property
    def limits(self) -> Limits:
        return self.input.limits


@codec.value("unnest")
@dataclass(frozen=True)
class Unnest:
    """Every row stands once for each item of a list that it holds; a row whose list is empty or missing, not at all.

    The scan keeps the first ``most`` items of a list, so one row becomes at most so many, whatever it holds. Which
    ones is a function of the row alone.
    """

    input: Relation
    """A scan, or public joins, conditions and other lists over one."""
    items: Field
    """The list, a column of the scan."""
    source: int
    most: int
    domain: Domain
    """What an item is."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return ()

    @property
    def item(self) -> Field:
        """The column it adds: called as the list is, whatever the question calls it."""
        return replace(self.items, source=self.source)

    @property
    def columns(self) -> Columns:
        return {**self.input.columns, self.item: self.domain}

    @property
    def most_rows(self) -> int | None:
        most = self.input.most_rows
        return None if most is None else most * self.most

    @property
    def limits(self) -> Limits:
        return self.input.limits.times(self.most)


@codec.value("filter")
@dataclass(frozen=True)
class Filter:
    """A filter keeps the rows for which a predicate holds."""

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
    def most_rows(self) -> int | None:
        limits = [each for each in (self.input.most_rows, _row_number_limit(self)) if each is not None]
        return min(limits, default=None)

    @property
    def limits(self) -> Limits:
        rows = _row_number_limit(self)
        return self.input.limits if rows is None else self.input.limits.at_most(rows)


def _row_number_limit(node: Filter) -> int | None:
    """Return the most rows of one unit that a condition on ROW_NUMBER keeps; None where it limits nothing.

    *Claim.* Numbers over all of a unit's rows are distinct below the cap, which stands for every later one, and nothing
    between the window and the condition repeats a row. So a condition that excludes the cap keeps no more rows of a
    unit than it admits numbers, and AND no more than any of its parts. ∎
    """
    below: Relation = node.input
    while isinstance(below, (Filter, Cut, SemiJoin)):
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
        if isinstance(row_number, RowPosition) and row_number.distinct:
            limits.append(_admitted_numbers(comparison, row_number.cap))
    return min((limit for limit in limits if limit is not None), default=None)


def _admitted_numbers(comparison: LiteralComparison, cap: int) -> int | None:
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


@codec.value("cut")
@dataclass(frozen=True)
class Cut:
    """A cut keeps at most so many rows of each unit: those whose keyed digest, over every column that is read above, is
    smallest.

    Rows of equal digest are ordered by the values themselves, so what still ties is equal and either may be kept.
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
    def most_rows(self) -> int | None:
        most = self.input.most_rows
        return self.rows if most is None else min(most, self.rows)

    @property
    def limits(self) -> Limits:
        return self.input.limits.at_most(self.rows)


@codec.value("per-unit")
@dataclass(frozen=True)
class PerUnit:
    """This makes one row for each unit, or for each unit and key: GROUP BY the unit. No row is dropped inside; every
    result is clamped to a range that is derived from what is declared.
    """

    input: Relation
    source: int
    keys: tuple[tuple[str, Expression], ...]
    """What is grouped by beside the unit, each with the name of its column."""
    results: tuple[tuple[str, UnitMeasure], ...]
    """What is found of a unit's rows, each with the name of its column."""
    single: bool = False
    """All rows of a unit have the same keys: they only say in which period the unit's rows lie."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*(key for _, key in self.keys), *(each for _, made in self.results for each in made.expressions))

    @property
    def columns(self) -> Columns:
        domains = [(name, made.domain) for name, made in (*self.keys, *self.results)]
        return {Field(self.source, "", name): domain for name, domain in domains}

    @property
    def most_rows(self) -> int | None:
        return self.input.most_rows if self.keys and not self.single else 1

    @property
    def limits(self) -> Limits:
        return self.input.limits if self.keys and not self.single else ONE_ROW


@codec.value("window")
@dataclass(frozen=True)
class Window:
    """A window gives every row columns that are found from the rows of its unit, or of its unit and keys, in an
    order.
    """

    input: Relation
    source: int
    functions: tuple[tuple[str, WindowFunction], ...]
    """Each with the name of its column."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(each for _, made in self.functions for each in made.expressions)

    @property
    def found(self) -> Columns:
        """List the columns it adds."""
        return {Field(self.source, "", name): made.domain for name, made in self.functions}

    @property
    def columns(self) -> Columns:
        return {**self.input.columns, **self.found}

    @property
    def most_rows(self) -> int | None:
        return self.input.most_rows

    @property
    def limits(self) -> Limits:
        return self.input.limits


@codec.value("unit-join")
@dataclass(frozen=True)
class UnitJoin:
    """This puts rows of two private relations side by side, where both are of one unit, the pairs are equal and the
    condition holds. A NULL equals nothing. Each side holds a known number of rows of a unit (``cut``): what a person's
    rows cost is then bounded.
    """

    left: Relation
    right: Relation
    pairs: tuple[tuple[Expression, Expression], ...]
    """An expression over the left equals one over the right."""
    condition: Expression | None
    """Over both sides; part of ON, and ``separable``."""
    outer: bool
    """Rows of the left without a match are kept."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (*(each for pair in self.pairs for each in pair), *_given(self.condition))

    @property
    def joined(self) -> Columns:
        """List the columns of the right; where a row may have no match they may be missing."""
        return {
            reference: replace(domain, nullable=domain.nullable or self.outer)
            for reference, domain in self.right.columns.items()
        }

    @property
    def columns(self) -> Columns:
        return {**self.left.columns, **self.joined}

    @property
    def most_rows(self) -> int | None:
        left, right = self.left.most_rows, self.right.most_rows
        return None if left is None or right is None else left * max(1, right)

    @property
    def limits(self) -> Limits:
        return self.left.limits.larger(self.right.limits)


@codec.value("semi-join")
@dataclass(frozen=True)
class SemiJoin:
    """This keeps the rows for which another private relation has a row of the same unit with equal pairs for which the
    condition holds; or those for which it has none. A NULL equals nothing, and empties nothing.

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
        return (*(each for pair in self.pairs for each in pair), *_given(self.condition))

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def most_rows(self) -> int | None:
        return self.input.most_rows

    @property
    def limits(self) -> Limits:
        return self.input.limits


@codec.value("union")
@dataclass(frozen=True)
class Union:
    """A union has the rows of several relations of one kind of unit, one after the other: UNION ALL."""

    members: tuple[tuple[Relation, tuple[Expression, ...]], ...]
    """Each with what its columns are, in the order of the union's."""
    source: int
    named: tuple[tuple[str, Domain], ...]
    """The columns; a domain holds whatever the members' expressions can be."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return tuple(member for member, _ in self.members)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(each for _, made in self.members for each in made)

    @property
    def columns(self) -> Columns:
        return {Field(self.source, "", name): domain for name, domain in self.named}

    @property
    def most_rows(self) -> int | None:
        most = [member.most_rows for member in self.inputs]
        known = [each for each in most if each is not None]
        return sum(known) if len(known) == len(most) else None

    @property
    def limits(self) -> Limits:
        first, *others = (member.limits for member in self.inputs)
        for each in others:
            first = first.beside(each)
        return first


@codec.value("bound")
@dataclass(frozen=True)
class Bound:
    """A bound says what of each unit's rows counts, by a strategy that keeps it within limits."""

    input: Relation
    strategy: Strategy
    limits: Limits

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
    def most_rows(self) -> int | None:
        return self.limits.rows


Relation = Scan | Join | Unnest | Filter | Cut | PerUnit | Window | UnitJoin | SemiJoin | Union | Bound


_Numbered = Scan | Join | Unnest | PerUnit | Window | Union
"""The nodes that add columns."""


def _given(condition: Expression | None) -> tuple[Expression, ...]:
    return () if condition is None else (condition,)


@codec.value("aggregate")
@dataclass(frozen=True)
class Aggregate:
    """This is the only node that reads private rows into numbers."""

    source: Relation
    keys: tuple[Expression, ...]
    measures: tuple[AggregateRequest, ...]
    """What is asked of every group; under a bounding, what is measured."""

    @property
    def table(self) -> str:
        """Name the private table that comes first."""
        return next(node.table for node in relations(self.source) if isinstance(node, Scan))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """List what is evaluated on the rows of the source: keys and what is measured."""
        measured = (each for measure in self.measures for each in (measure.where, measure.value) if each is not None)
        return (*self.keys, *measured)

    @property
    def limits(self) -> Limits:
        """Give the limits of one unit unless others are asked for."""
        return self.source.limits

    @property
    def largest_limits(self) -> Limits:
        """Give the limits that may be asked for: what the tree proves, where it proves something, and else the
        policy's.
        """
        most = self.source.most_rows
        return self.limits if most is None else self.limits.larger(Limits(most, most, most))


@codec.value("query")
@dataclass(frozen=True)
class Query:
    plan: Aggregate
    finish: Finish
    outer: tuple[Outer, ...] = ()
    """What is asked of the rows that the finish shows, from the inside out."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """List the columns of the answer."""
        return (self.outer[-1].finish if self.outer else self.finish).outputs


def relations(relation: Relation) -> Iterator[Relation]:
    """List the relation and everything under it, each before what it is made from."""
    waiting = [relation]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(found.inputs))


def tables(relation: Relation) -> tuple[str, ...]:
    """List the tables whose rows a relation is made from, private and public, each once."""
    return tuple(dict.fromkeys(node.table for node in relations(relation) if isinstance(node, (Scan, Join))))


def multiplicity(relation: Relation) -> int:
    """Count the most rows that one row of a private table becomes; what a union holds counts as made from one table."""
    match relation:
        case Join(input, multiplicity=most):
            return multiplicity(input) * most
        case Unnest(input, most=most):
            return multiplicity(input) * most
        case UnitJoin(left, right):
            return multiplicity(left) * max(1, right.most_rows or 1)
        case Union():
            return sum(map(multiplicity, relation.inputs))
        case Scan():
            return 1
    return multiplicity(relation.inputs[0])


def conjuncts(condition: Expression | None) -> list[Expression]:
    """List the parts that are joined by AND."""
    if isinstance(condition, Call) and condition.function == "AND":
        return [each for part in condition.arguments for each in conjuncts(part)]
    return [] if condition is None else [condition]


def one_sided(made: Expression, *sides: Relation) -> bool:
    """Tell whether an expression reads columns of one of the relations alone."""
    return any(side.columns.keys() >= columns(made).keys() for side in sides)


def separable(condition: Expression, left: Relation, right: Relation) -> bool:
    """Tell whether two relations may be matched by a condition: each of its parts reads one of them, or compares what
    is made from one with what is made from the other. Each side is then computed by itself.
    """
    return all(
        one_sided(part, left, right)
        or (
            isinstance(part, Call)
            and part.function in COMPARISONS
            and all(one_sided(each, left, right) for each in part.arguments)
        )
        for part in conjuncts(condition)
    )


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "BETWEEN")


def cut(relation: Relation) -> Relation:
    """Give the relation with a known number of rows of each unit: cut to its limit unless the tree proves as few."""
    most, allowed = relation.most_rows, relation.limits.rows
    return relation if most is not None and most <= allowed else Cut(relation, allowed)


def next_source(relation: Relation) -> int:
    """Find a number that no node of the tree has."""
    return 1 + max(node.source for node in relations(relation) if isinstance(node, _Numbered))


def renumbered(part: Any, by: int) -> Any:
    """Raise every source's number in a relation, expression or column: two trees then have none in common."""
    if isinstance(part, Field):
        return replace(part, source=part.source + by)
    if isinstance(part, tuple):
        return tuple(renumbered(each, by) for each in part)
    if isinstance(part, Mapping):
        return {renumbered(name, by): renumbered(each, by) for name, each in part.items()}
    if not is_dataclass(part) or isinstance(part, (type, Domain, Limits)):
        return part
    told = {each.name: renumbered(getattr(part, each.name), by) for each in fields(part) if each.init}
    if isinstance(part, _Numbered):
        told["source"] = part.source + by
    return replace(part, **told)


GroupKey = tuple[Value | None, ...]
"""One group's key: a value for each key expression; None is NULL."""
