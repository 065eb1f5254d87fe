"""Private rows meet under equality of the unit alone: JOIN, EXISTS, IN and UNION ALL between private tables.

Whatever else is compared, the whole key of the unit is: the id, and its period where units have one. It has to be
written, so that a question means what it says; what is then compared is the unit itself as the scan knows it, not the
columns. Rows of two people are never put side by side, so each node that is made here is unit-wise (``plan.nodes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.expressions import Call, Column, Expression, Field, columns
from sfumato.plan.functions import call, literal
from sfumato.plan.functions.typing import same, union
from sfumato.plan.nodes import (
    Cut,
    Filter,
    PerUnit,
    Relation,
    Scan,
    SemiJoin,
    Union,
    UnitJoin,
    next_source,
    one_sided,
    separable,
)
from sfumato.plan.sql_expressions import expression
from sfumato.plan.text_positions import refuse, shown
from sfumato.policy import Domain, Type

MOST_JOINED = 1000
"""Rows of one unit that a join may hold and be the side of another without being cut again."""


class Known(Protocol):
    """A relation and the names that a question may use for what is in it."""

    @property
    def relation(self) -> Relation: ...

    @property
    def scope(self) -> Mapping[str, Mapping[str, Expression]]: ...

    @property
    def owners(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def table(self) -> Described: ...

    def resolve(self, qualifier: str | None, name: str) -> Expression: ...

    def is_unit(self, node: exp.Expr) -> bool: ...


@dataclass(frozen=True)
class Match:
    """By what rows of two relations match, apart from the unit: equalities, conditions over both, and what is asked of
    one of them alone.
    """

    pairs: tuple[tuple[Expression, Expression], ...]
    conditions: tuple[Expression, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]

    def condition(self, *more: Expression) -> Expression | None:
        return every((*self.conditions, *more))


def every(parts: Sequence[Expression]) -> Expression | None:
    """All of the conditions in one."""
    found = sorted(parts, key=repr)
    return None if not found else found[0] if len(found) == 1 else call("AND", *found)


def unit_join(left: Known, right: Known, match: Match, outer: bool) -> UnitJoin:
    """Rows of two relations side by side. What is asked of one of them alone is asked before its rows are cut."""
    own = () if outer else match.left
    kept = match.left if outer else ()
    first, second = (_cut(_filtered(*each)) for each in ((left.relation, own), (right.relation, match.right)))
    return UnitJoin(first, second, match.pairs, match.condition(*kept), outer)


def semi_join(left: Known, right: Known, match: Match, anti: bool) -> Relation:
    """The rows of the first that have a match among the second, or have none. What is asked of the first alone is part
    of the match: without a match on it, the row has none.
    """
    other = _filtered(right.relation, match.right)
    condition = match.condition(*match.left)
    return SemiJoin(left.relation, other if condition is None else _cut(other), match.pairs, condition, anti)


def _filtered(relation: Relation, tests: Sequence[Expression]) -> Relation:
    predicate = every(tests)
    return relation if predicate is None else Filter(relation, predicate)


def _cut(relation: Relation) -> Relation:
    """With a known number of rows of each unit: what one person's rows cost is bounded by the policy."""
    most, allowed = relation.most_rows, relation.limits.rows
    return relation if most is not None and most <= max(allowed, MOST_JOINED) else Cut(relation, allowed)


# What is written


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that are joined by AND."""
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return [each for part in (node.this, node.expression) for each in conjuncts(part)]
    return [node]


Resolve = Callable[[str | None, str], Expression]
Part = exp.Expr | tuple[exp.Expr, exp.Expr]
"""A condition over two relations, or what is equal in them: a part of the first and one of the second."""


def matched(parts: Sequence[Part], left: Known, right: Known, resolve: Resolve, catalog: Catalog, at: exp.Expr) -> Match:
    """What conditions mean between two private relations, or the refusal that says which line is missing."""
    if left.table.every_row:
        raise refuse(
            at,
            "no-common-unit",
            "every row is a unit of its own here, so no two rows belong to one unit",
            "name the column that says whose row it is as id in the policy, or join public tables",
        )
    found = _Matching(left, right, resolve)
    for part in parts:
        found.add(part)
    if not found.unit and names(left) and names(right):
        raise refuse(
            at,
            "join-without-unit",
            "private tables meet within one unit alone: this would put rows of two people side by side",
            f"add {_line(left, right)}",
        )
    period = left.table.period
    if period is not None and not found.meets(catalog):
        raise refuse(
            at,
            "join-without-period",
            f"a unit is an id within one {period.every}, and private tables meet within one unit alone",
            f"add that the {period.every} is the same, as in {_period_line(left, right)}",
        )
    return found.match()


class _Matching:
    """What was found so far of the conditions between two relations."""

    def __init__(self, left: Known, right: Known, resolve: Resolve) -> None:
        self._sides, self._resolve = (left, right), resolve
        self.unit = False
        self._pairs: list[tuple[Expression, Expression]] = []
        self._conditions: list[Expression] = []
        self._own: tuple[list[Expression], list[Expression]] = ([], [])

    def add(self, part: Part) -> None:
        left, right = self._sides
        if isinstance(part, tuple):
            if left.is_unit(part[0]) and right.is_unit(part[1]):
                self.unit = True
            else:
                first, second = (expression(node, side.resolve) for node, side in zip(part, self._sides, strict=True))
                self._place(call("=", first, second), part[0])
        elif isinstance(part, exp.EQ) and self._equal_units(part.this, part.expression):
            self.unit = True
        else:
            self._place(expression(part, self._resolve), part)

    def _equal_units(self, first: exp.Expr, second: exp.Expr) -> bool:
        left, right = self._sides
        return any(_is_unit(left, a) and _is_unit(right, b) for a, b in ((first, second), (second, first)))

    def _place(self, made: Expression, node: exp.Expr) -> None:
        """Where a condition belongs: an equality between the sides, a condition of one of them, or one over both."""
        if made.domain.type is not Type.BOOLEAN:
            raise refuse(node, "type-mismatch", "a condition is true or false", "compare it with something")
        left, right = (side.relation for side in self._sides)
        equal = made.arguments if isinstance(made, Call) and made.function == "=" else ()
        if one_sided(made, left):
            self._own[0].append(made)
        elif one_sided(made, right):
            self._own[1].append(made)
        elif equal and one_sided(equal[0], left) and one_sided(equal[1], right):
            self._pairs.append((equal[0], equal[1]))
        elif equal and one_sided(equal[1], left) and one_sided(equal[0], right):
            self._pairs.append((equal[1], equal[0]))
        elif separable(made, left, right):
            self._conditions.append(made)
        else:
            raise refuse(
                node,
                "join-condition",
                "private tables are joined by comparing what is of one with what is of the other",
                "write each comparison with one table on each side, joined by AND; put the rest into WHERE",
            )

    def meets(self, catalog: Catalog) -> bool:
        """Whether the period of one side is compared with that of the other."""
        first, second = (periods(side.relation, catalog) for side in self._sides)
        return any(a in first and b in second for a, b in self._pairs)

    def match(self) -> Match:
        pairs = tuple(sorted(set(self._pairs), key=repr))
        return Match(pairs, tuple(self._conditions), tuple(self._own[0]), tuple(self._own[1]))


def _is_unit(side: Known, node: exp.Expr) -> bool:
    """Whether a part names the unit of a side, and no alias of the other."""
    if not isinstance(node, exp.Column):
        return False
    named = node.table.lower()
    return (not named or named in {alias.lower() for alias in side.scope}) and side.is_unit(node)


def names(side: Known) -> list[str]:
    """The names of the unit in a relation, each with its alias before it."""
    return [f"{alias}.{name}" if alias else name for alias, known in side.owners.items() for name in known]


def _line(left: Known, right: Known) -> str:
    return f"{names(left)[0]} = {names(right)[0]}"


def period_words(table: Described, alias: str = "") -> str:
    """What says in SQL in which period a row lies."""
    assert table.period is not None
    column = f"{alias}.{table.period.column}" if alias else table.period.column
    plain = table.period.every == "day" and table.columns[table.period.column].type is Type.DATE
    return column if plain else f"DATE_TRUNC('{table.period.every}', {column})"


def _period_line(left: Known, right: Known) -> str:
    return " = ".join(period_words(side.table, next(iter(side.scope), "")) for side in (left, right))


def period_of(table: Described, source: int) -> Expression:
    """The expression that says in which period a row of a scan lies."""
    assert table.period is not None
    column, every = table.period.column, table.period.every
    found = Column(Field(source, table.name, column), table.columns[column])
    if every == "day" and found.domain.type is Type.DATE:
        return found
    return call("DATE_TRUNC", literal(Type.TEXT, every), found)


def periods(relation: Relation, catalog: Catalog) -> frozenset[Expression]:
    """The expressions over a relation that say in which period a row lies."""
    if isinstance(relation, Scan):
        return frozenset((period_of(catalog.tables[relation.table], relation.source),))
    if isinstance(relation, PerUnit):
        known = periods(relation.input, catalog)
        made = {name for name, key in relation.keys if key in known}
        return frozenset(Column(each, domain) for each, domain in relation.columns.items() if each.name in made)
    if isinstance(relation, Union):
        known_in = [periods(member, catalog) for member in relation.inputs]
        lists = zip(*(made for _, made in relation.members), strict=True)
        told = [all(map(set.__contains__, map(set, known_in), each)) for each in lists]
        both = zip(relation.columns.items(), told, strict=True)
        return frozenset(Column(each, domain) for (each, domain), told_by in both if told_by)
    if isinstance(relation, UnitJoin) and relation.outer:
        return periods(relation.left, catalog)
    return frozenset().union(*(periods(each, catalog) for each in relation.inputs[:2 - isinstance(relation, SemiJoin)]))


# UNION ALL


@dataclass(frozen=True)
class Member:
    """One of the SELECTs of a UNION ALL: its relation and its columns in their order, None for the unit."""

    relation: Relation
    columns: Sequence[tuple[str, Expression | None]]
    node: exp.Expr


def united(members: Sequence[Member]) -> tuple[Union, dict[str, Expression], list[str]]:
    """The rows of all members one after the other, its columns by name, and the names of the unit.

    Columns are aligned by their places and have the names of the first member's. Their types become one type, and their
    domains one that holds whatever any of them can be.
    """
    first = members[0]
    for each in members[1:]:
        if len(each.columns) != len(first.columns):
            raise refuse(
                each.node,
                "union-columns",
                f"all parts of a UNION ALL have as many columns: these have {len(first.columns)} and {len(each.columns)}",
                "select the same columns in each, in the same order",
            )
        if [made is None for _, made in each.columns] != [made is None for _, made in first.columns]:
            raise refuse(
                each.node,
                "union-unit",
                "the column that says whose row it is stands at the same place in all parts of a UNION ALL",
                "select the same columns in each, in the same order",
            )
    lists = [[dict(enumerate(each.columns))[at][1] for each in members] for at in range(len(first.columns))]
    typed = {name: same(found) for (name, made), found in zip(first.columns, lists, strict=True) if made is not None}  # type: ignore[arg-type]
    named = tuple(
        (name, union(found, nullable=any(each.domain.nullable for each in found))) for name, found in typed.items()
    )
    source = 1 + max(next_source(each.relation) for each in members)
    made = Union(
        tuple(
            (each.relation, tuple(found[index] for found in typed.values())) for index, each in enumerate(members)
        ),
        source,
        named,
    )
    shown_as = {reference.name: Column(reference, domain) for reference, domain in made.columns.items()}
    return made, shown_as, [name for name, made_of in first.columns if made_of is None]
