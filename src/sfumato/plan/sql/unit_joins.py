"""Private rows meet under equality of the unit alone: JOIN, EXISTS, IN and UNION ALL between private tables.

Whatever else is compared, the whole key of the unit is: the id, and its period where units have one. It has to be
written, so that a question means what it says; what is then compared is the unit itself as the scan knows it, not the
columns. Rows of two people are never put side by side, so each node that is made here is unit-wise (``plan.nodes``).

Public tables stand beside private rows: they are joined by equal columns, or by comparisons with the ends of
bands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.nodes import (
    Cut,
    Filter,
    Join,
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
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.text_positions import nearest, refuse
from sfumato.plan.values.coded_keys import MIRRORED
from sfumato.plan.values.expressions import Call, Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.declaring import same, union
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

MOST_JOINED = 1000
"""Rows of one unit that a join may hold and be the side of another without being cut again."""


class NamedRelation(Protocol):
    """This is a relation with the names that a question may use for what is in it."""

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
class JoinCondition:
    """A match says by what rows of two relations match, apart from the unit: equalities, conditions over both, and what
    is asked of one of them alone.
    """

    pairs: tuple[tuple[Expression, Expression], ...]
    conditions: tuple[Expression, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]

    def condition(self, *more: Expression) -> Expression | None:
        return every((*self.conditions, *more))


def every(parts: Sequence[Expression]) -> Expression | None:
    """Join all of the conditions into one."""
    found = sorted(parts, key=repr)
    return None if not found else found[0] if len(found) == 1 else call("AND", *found)


def unit_join(left: NamedRelation, right: NamedRelation, match: JoinCondition, outer: bool) -> UnitJoin:
    """Put rows of two relations side by side. What is asked of one of them alone is asked before its rows are cut."""
    own = () if outer else match.left
    kept = match.left if outer else ()
    first, second = (_cut(_filtered(*each)) for each in ((left.relation, own), (right.relation, match.right)))
    return UnitJoin(first, second, match.pairs, match.condition(*kept), outer)


def semi_join(left: NamedRelation, right: NamedRelation, match: JoinCondition, anti: bool) -> Relation:
    """Keep the rows of the first that have a match among the second, or have none. A row of which more is asked inside
    the test and that does not meet it has no match.
    """
    other = _filtered(right.relation, match.right)
    condition = match.condition(*match.left) if anti else match.condition()
    first = left.relation if anti else _filtered(left.relation, match.left)
    return SemiJoin(first, other if condition is None else _cut(other), match.pairs, condition, anti)


def _filtered(relation: Relation, tests: Sequence[Expression]) -> Relation:
    predicate = every(tests)
    return relation if predicate is None else Filter(relation, predicate)


def _cut(relation: Relation) -> Relation:
    """Cut a relation to a known number of rows of each unit: what one person's rows cost is bounded by the policy."""
    most, allowed = relation.most_rows, relation.limits.rows
    return relation if most is not None and most <= max(allowed, MOST_JOINED) else Cut(relation, allowed)


def pushed(relation: Relation, tests: Sequence[Expression]) -> tuple[Relation, list[Expression]]:
    """Push what WHERE asks of one side of a join alone before that side's rows are cut, and give the rest: so a limit
    counts the rows that are wanted. Rows that an outer join adds are not asked early.
    """
    if isinstance(relation, Cut):
        inner, rest = pushed(relation.input, tests)
        return Cut(_filtered(inner, rest), relation.rows), []
    if not isinstance(relation, UnitJoin):
        return _filtered(relation, tests), []
    left = [each for each in tests if one_sided(each, relation.left)]
    right = [each for each in tests if each not in left and not relation.outer and one_sided(each, relation.right)]
    first, second = (_filtered(*pushed(*each)) for each in ((relation.left, left), (relation.right, right)))
    rest = [each for each in tests if each not in (*left, *right)]
    return UnitJoin(first, second, relation.pairs, relation.condition, relation.outer), rest


# What is written


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """List the parts of a condition that are joined by AND."""
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return [each for part in (node.this, node.expression) for each in conjuncts(part)]
    return [node]


Resolve = Callable[[str | None, str], Expression]
Part = exp.Expr | tuple[exp.Expr, exp.Expr]
"""A condition over two relations, or what is equal in them: a part of the first and one of the second."""


def matched(
    parts: Sequence[Part], left: NamedRelation, right: NamedRelation, resolve: Resolve, catalog: Catalog, at: exp.Expr
) -> JoinCondition:
    """Read what conditions mean between two private relations, or refuse them and say which line is missing."""
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
            _missing(names(left)[0], names(right)[0], at),
        )
    period = left.table.period
    if period is not None and not found.meets(catalog):
        raise refuse(
            at,
            "join-without-period",
            f"a unit is an id within one {period.every}, and private tables meet within one unit alone",
            _missing(_period_words(left), _period_words(right), at),
        )
    return found.match()


class _Matching:
    """This collects what is found of the conditions between two relations."""

    def __init__(self, left: NamedRelation, right: NamedRelation, resolve: Resolve) -> None:
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
        elif not (isinstance(part, exp.EQ) and _is_unit(right, part.this) and _is_unit(right, part.expression)):
            self._place(expression(part, self._resolve), part)  # what is left out compares a unit with itself

    def _equal_units(self, first: exp.Expr, second: exp.Expr) -> bool:
        """Tell whether the unit of one side is compared with that of the other: a name that both know is the
        second's.
        """
        left, right = self._sides
        return any(
            _is_unit(left, a) and not _is_unit(right, a) and _is_unit(right, b)
            for a, b in ((first, second), (second, first))
        )

    def _place(self, made: Expression, node: exp.Expr) -> None:
        """Put a condition where it belongs: an equality between the sides, a condition of one of them, or one over
        both.
        """
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
        """Tell whether the period of one side is compared with that of the other."""
        first, second = (periods(side.relation, catalog) for side in self._sides)
        return any(a in first and b in second for a, b in self._pairs)

    def match(self) -> JoinCondition:
        pairs = tuple(sorted(set(self._pairs), key=repr))
        return JoinCondition(pairs, tuple(self._conditions), tuple(self._own[0]), tuple(self._own[1]))


def _is_unit(side: NamedRelation, node: exp.Expr) -> bool:
    """Tell whether a part names the unit of a side, and no alias of the other."""
    if not isinstance(node, exp.Column):
        return False
    named = node.table.lower()
    return (not named or named in {alias.lower() for alias in side.scope}) and side.is_unit(node)


def names(side: NamedRelation) -> list[str]:
    """List the names of the unit in a relation, each with its alias before it."""
    owned = ((alias, name) for alias, known in side.owners.items() for name in known)
    return [f"{quoted(alias)}.{quoted(name)}" if alias else quoted(name) for alias, name in owned]


def _missing(first: str, second: str, at: exp.Expr) -> str:
    """Say where the line belongs that is missing."""
    line = f"{first} = {second}"
    if isinstance(at, exp.Join):
        if at.args.get("using"):
            return _missing_using(first, second)
        return f"add AND {line} to ON" if at.args.get("on") else f"write JOIN … ON {line}"
    if first == second:
        line = f"{first} = other.{second.rpartition('.')[2]}, where other is an alias of the table there,"
    return f"add {line} to the WHERE of the subquery"


def _missing_using(first: str, second: str) -> str:
    """A column of one name stands in USING; what has two names, or is computed, needs ON."""
    name = first.rpartition(".")[2]
    if name == second.rpartition(".")[2] and "(" not in first:
        return f"add {name} to USING"
    return f"write ON instead of USING, with AND {first} = {second}"


def period_words(table: Described, alias: str = "") -> str:
    """Write in SQL what says in which period a row lies."""
    assert table.period is not None
    column = quoted(table.period.column)
    column = f"{quoted(alias)}.{column}" if alias else column
    plain = table.period.every == "day" and table.columns[table.period.column].type is Type.DATE
    return column if plain else f"DATE_TRUNC('{table.period.every}', {column})"


def _period_words(side: NamedRelation) -> str:
    return period_words(side.table, next(iter(side.scope), ""))


def period_of(table: Described, source: int) -> Expression:
    """Make the expression that says in which period a row of a scan lies."""
    assert table.period is not None
    column, every = table.period.column, table.period.every
    found = Column(Field(source, table.name, column), table.columns[column])
    if every == "day" and found.domain.type is Type.DATE:
        return found
    return call("DATE_TRUNC", literal(Type.TEXT, every), found)


def periods(relation: Relation, catalog: Catalog, *, single: bool = False) -> frozenset[Expression]:
    """List the expressions over a relation that say in which period a row lies; where ``single``, those alone that have
    one value in all rows of a unit.

    A unit's period is read before its column is cleaned. Clamping keeps the days of one period in one period, so within
    one scan a period has one value; a list of declared values does not, since some days of a period may be missing from
    it. Over several scans it has one value if all of them clamp alike.
    """
    if isinstance(relation, Scan):
        table = catalog.tables[relation.table]
        listed = table.period is not None and table.columns[table.period.column].values is not None
        return frozenset() if single and listed else frozenset((period_of(table, relation.source),))
    if isinstance(relation, PerUnit):
        known = periods(relation.input, catalog, single=single)
        made = {name for name, key in relation.keys if key in known}
        return frozenset(Column(each, domain) for each, domain in relation.columns.items() if each.name in made)
    if isinstance(relation, Union):
        known_in = [periods(member, catalog, single=single) for member in relation.inputs]
        lists = list(zip(*(made for _, made in relation.members), strict=True))
        told = [
            all(map(frozenset.__contains__, known_in, each))
            and (not single or len({made.domain.range for made in each}) == 1)
            for each in lists
        ]
        both = zip(relation.columns.items(), told, strict=True)
        return frozenset(Column(each, domain) for (each, domain), told_by in both if told_by)
    if isinstance(relation, UnitJoin) and relation.outer:
        return periods(relation.left, catalog, single=single)
    return frozenset().union(
        *(periods(each, catalog, single=single) for each in relation.inputs[: 2 - isinstance(relation, SemiJoin)])
    )


# EXISTS and IN


@dataclass(frozen=True)
class Test:
    """This is a test: EXISTS (SELECT …) or … IN (SELECT …), or that it is not so."""

    node: exp.Expr
    select: exp.Select
    operands: tuple[exp.Expr, ...]
    """What is looked for among the columns of the subquery; nothing for EXISTS."""
    anti: bool

    @classmethod
    def of(cls, node: exp.Expr) -> Test:
        """Read the test that a part of WHERE is."""
        inner, anti = _bare(node)
        query = inner.this if isinstance(inner, exp.Exists) else inner.args["query"]
        select = query.this if isinstance(query, exp.Subquery) else query
        if not isinstance(select, exp.Select):
            raise refuse(select, "not-select", "a subquery that is tested for is one SELECT", "use SELECT … FROM …")
        if isinstance(inner, exp.Exists):
            if select.find(exp.AggFunc) is not None and not select.args.get("group"):
                raise refuse(
                    select, "exists-aggregate", "an aggregate always has a row", "select rows: SELECT 1 FROM …"
                )
            return cls(node, select, (), anti)
        operand = inner.this.unnest()
        operands = tuple(operand.expressions) if isinstance(operand, exp.Tuple) else (operand,)
        if len(operands) != len(select.expressions):
            raise refuse(
                node,
                "in-columns",
                f"IN compares as many columns as its subquery has: {len(operands)} and {len(select.expressions)}",
                "select the columns that are compared, in their order",
            )
        return cls(node, select, operands, anti)

    def equal(self, inner: NamedRelation) -> list[Part]:
        """Read what IN makes equal: a part of the rows outside and one of the subquery's."""
        derived = set(inner.scope) == {""}
        columns = (exp.column(each.alias_or_name) if derived else each.unalias() for each in self.select.expressions)
        return list(zip(self.operands, columns, strict=False))


def is_test(node: exp.Expr) -> bool:
    """Tell whether a part of WHERE asks whether a subquery has rows."""
    inner, _ = _bare(node)
    return isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None)


def check_no_query(node: exp.Expr) -> None:
    """Refuse a query inside an expression: it would have a value for each row, or for everybody at once."""
    tests = [each for each in node.find_all(exp.Exists, exp.In) if is_test(each)]
    if tests:
        raise refuse(
            tests[0],
            "subquery-place",
            "EXISTS (…) and … IN (SELECT …) are whole conditions of WHERE, joined by AND",
            "ask two questions, or put the condition inside the subquery",
        )
    if (inner := node.find(exp.Subquery)) is not None:
        raise refuse(
            inner,
            "subquery-value",
            "a query whose value is used for every row would show what other people's rows are",
            "write the value out; a value of the same unit's rows is joined in FROM, as JOIN (SELECT …, COUNT(*) AS n "
            "FROM … GROUP BY the unit) USING (the unit); so is what is found in public tables",
        )


def _bare(node: exp.Expr) -> tuple[exp.Expr, bool]:
    """Take the NOTs before a test away, and tell whether there is an odd number of them."""
    node, anti = node.unnest(), False
    while isinstance(node, exp.Not):
        node, anti = node.this.unnest(), not anti
    return node, anti


# UNION ALL


@dataclass(frozen=True)
class Member:
    """A member is one of the SELECTs of a UNION ALL: its relation, and its columns in their order."""

    relation: Relation
    columns: Sequence[tuple[str, Expression]]
    node: exp.Expr


def united_selects(node: exp.Expr) -> list[exp.Expr]:
    """List the SELECTs of a UNION ALL, from the first to the last; what is no UNION ALL is refused where it is read."""
    node = node.this if isinstance(node, exp.Subquery) and not node.alias else node
    if isinstance(node, exp.Union) and not node.args.get("distinct"):
        return [each for part in (node.this, node.expression) for each in united_selects(part)]
    return [node]


def with_names(select: exp.Expr) -> exp.Expr:
    """Name the columns of a later part of a UNION ALL: its columns need no names, since the first part's are used."""
    named = select.copy()
    for at, each in enumerate(named.expressions if isinstance(named, exp.Select) else ()):
        if not each.alias_or_name and not each.find(exp.Star):
            each.replace(exp.alias_(each.copy(), f"column {at}", quoted=True))
    return named


def check_places(first: exp.Expr, owners: Sequence[str], second: exp.Expr, others: Sequence[str]) -> None:
    """Check that the column that says whose row it is stands at the same place in all parts of a union, or in none."""
    here, there = (_places(*each) for each in ((first, owners), (second, others)))
    if None not in (here, there) and here != there:
        raise refuse(
            second,
            "union-columns",
            "the column that says whose row it is stands at the same place in all parts of a UNION ALL",
            "select the same columns in each, in the same order",
        )


def _places(select: exp.Expr, owners: Sequence[str]) -> list[int] | None:
    if not isinstance(select, exp.Select) or any(
        isinstance(each.find(exp.Star), exp.Star) for each in select.expressions
    ):
        return None
    known = [name.lower() for name in owners]
    return [at for at, each in enumerate(select.expressions) if each.alias_or_name.lower() in known]


def united(members: Sequence[Member], source: int) -> Union:
    """Put the rows of all members one after the other.

    Columns are aligned by their places and have the names of the first member's. Their types become one type, and their
    domains one that holds whatever any of them can be.
    """
    first = members[0]
    for each in members[1:]:
        if len(each.columns) != len(first.columns):
            raise refuse(
                each.node,
                "union-columns",
                f"the parts of a UNION ALL have as many columns, not {len(first.columns)} and {len(each.columns)}",
                "select the same columns in each, in the same order",
            )
    lists = [same(made for _, made in column) for column in zip(*(each.columns for each in members), strict=True)]
    names = [name for name, _ in first.columns]
    domains = [union(found, nullable=any(each.domain.nullable for each in found)) for found in lists]
    parts = tuple((each.relation, tuple(found[at] for found in lists)) for at, each in enumerate(members))
    return Union(parts, source, tuple(zip(names, domains, strict=True)))


LARGEST_EXACT = 2**53
"""Every whole number up to this size is a double of its own."""

_COMPARED: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True)
class Public:
    """This is a public table under an alias."""

    alias: str
    table: Described

    def column(self, name: str, node: exp.Expr) -> str:
        for column in self.table.columns:
            if column.lower() == name.lower():
                return column
        known = self.table.columns
        raise refuse(node, "unknown-column", f"{self.alias} has no column {name[:60]}", nearest(name, known))


def public_join(
    left: NamedRelation, right: Public, node: exp.Join, outer: bool, catalog: Catalog
) -> tuple[Join, tuple[str, ...]]:
    """Put every row beside its matches in a public table, and the columns that USING names."""
    using = tuple(right.column(each.name, node) for each in node.args.get("using") or [])
    pairs = [(left.resolve(None, name), name) for name in using]
    bands: list[tuple[str, Expression, str]] = []
    for part in conjuncts(node.args.get("on")):
        for operator, made, column in _comparisons(left, right, part):
            if operator == "=":
                pairs.append((made, column))
            else:
                bands.append((operator, made, column))
    if not pairs and not bands:
        raise refuse(
            node, "join-condition", "a join needs equalities between columns", "add ON a = b or USING (column)"
        )
    for made, column in (*pairs, *((made, column) for _, made, column in bands)):
        call("=", made, Column(Field(0, right.table.name, column), right.table.columns[column]))
        _check_distinct(made, right.table.columns[column], node)
    equal, ordered = tuple(sorted(set(pairs), key=repr)), tuple(sorted(set(bands), key=repr))
    most = _most(right.table.name, equal, ordered, catalog)
    source = next_source(left.relation)
    return Join(left.relation, right.table.name, source, equal, outer, most, right.table.columns, ordered), using


def _most(
    table: str,
    pairs: tuple[tuple[Expression, str], ...],
    bands: tuple[tuple[str, Expression, str], ...],
    catalog: Catalog,
) -> int:
    """Count the most rows that one row meets: among those with equal columns, the most that one compared value
    meets.
    """
    equal = tuple(sorted({column for _, column in pairs}))
    found = [catalog.multiplicity(table, equal)] if equal else []
    for made in dict.fromkeys(made for _, made, _ in bands):
        own = tuple((operator, column) for operator, each, column in bands if each == made)
        found.append(catalog.overlap(table, equal, own))
    return max(1, min(found))


def _check_distinct(made: Expression, domain: Domain, node: exp.Join) -> None:
    """Refuse a join that may take two values for one, since rows that share a value are counted as the column holds it:
    whole numbers beyond 2^53 are not all told apart once they are compared with a real.
    """
    if made.domain.type is not Type.REAL or domain.type is not Type.INTEGER:
        return
    largest = None if domain.range is None else max(abs(int(end)) for end in domain.range)  # type: ignore[arg-type]
    if largest is None or largest > LARGEST_EXACT:
        raise refuse(
            node,
            "join-real",
            "a real is joined with whole numbers of at most 2^53 in size",
            "write CAST(… AS INTEGER) on the private side",
        )


def _comparisons(left: NamedRelation, right: Public, part: exp.Expr) -> Iterator[tuple[str, Expression, str]]:
    """List what is compared with a column of the public table, each as (operator, what, column): what operator
    column.
    """
    if isinstance(part, exp.Between):
        ends = ((">=", part.args["low"]), ("<=", part.args["high"]))
        if all(isinstance(end, exp.Column) and _belongs(end, left, right) for _, end in ends):
            for test, end in ends:
                yield test, expression(part.this, left.resolve), right.column(end.name, part)
            return
    operator = _COMPARED.get(type(part))
    if operator is not None:
        mirrored = (part.expression, part.this, MIRRORED.get(operator, operator))
        for here, there, as_written in ((part.this, part.expression, operator), mirrored):
            if isinstance(there, exp.Column) and _belongs(there, left, right):
                yield as_written, expression(here, left.resolve), right.column(there.name, part)
                return
    raise refuse(
        part,
        "join-condition",
        "tables are joined by comparing something with a column of the public table",
        "write ON private.column = public.column, or x >= public.low AND x < public.high",
    )


def _belongs(column: exp.Column, left: NamedRelation, right: Public) -> bool:
    if column.table:
        return column.table.lower() == right.alias.lower()
    known = {name.lower() for columns in left.scope.values() for name in columns}
    return column.name.lower() not in known and column.name.lower() in {name.lower() for name in right.table.columns}
