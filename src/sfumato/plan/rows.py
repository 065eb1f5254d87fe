"""FROM, JOIN, WHERE and row-wise subqueries: from SQL to a relation and the expressions its columns stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.expressions import Column, Expression, Field
from sfumato.plan.functions import call
from sfumato.plan.nodes import Columns, Filter, Join, Relation, Scan, next_source, relations
from sfumato.plan.per_unit import Inside, WindowColumns, aggregates, per_unit
from sfumato.plan.sql_expressions import expression
from sfumato.plan.text_positions import nearest, refuse, shown
from sfumato.policy import Domain, Type

MOST_JOINS = 16
MOST_LEVELS = 40
"""Joins and conditions upon one another: the relation is walked by recursion."""
LARGEST_EXACT = 2**53
"""Every whole number up to this size is a double of its own."""

_ROW_WISE = {"expressions", "from_", "joins", "where", "with_"}
_GROUPED = _ROW_WISE | {"group", "having", "qualify"}


@dataclass(frozen=True)
class Rows:
    """A relation under construction: its node, and by alias the columns that can be named."""

    relation: Relation
    scope: Mapping[str, Mapping[str, Expression]]
    table: Described
    """The private table that comes first."""
    owners: Mapping[str, tuple[str, ...]]
    """By alias, the names under which the unit is known there: columns that say whose row it is."""
    merged: frozenset[tuple[str, str]] = frozenset()
    """(alias, column) of the right sides of USING: not ambiguous with the left."""
    public: frozenset[str] = frozenset()
    """Aliases of public tables, in small letters: no unit has rows there."""

    def resolve(self, qualifier: str | None, name: str) -> Expression:
        """The expression a column name stands for; names are compared without case, as in SQL."""
        found = [
            (alias, column, made)
            for alias, columns in self.scope.items()
            if qualifier is None or alias.lower() == qualifier.lower()
            for column, made in columns.items()
            if column.lower() == name.lower() and not (qualifier is None and (alias, column) in self.merged)
        ]
        if len(found) == 1:
            return found[0][2]
        if found:
            raise Unsupported(
                "ambiguous-column",
                f"{name[:60]} is a column of more than one table",
                fix=f"write {found[0][0]}.{name[:60]}",
            )
        if qualifier is not None and qualifier.lower() not in {alias.lower() for alias in self.scope}:
            rule = f"no table here is called {qualifier[:60]}"
            raise Unsupported("unknown-alias", rule, fix=nearest(qualifier, filter(None, self.scope)))
        known = {column for columns in self.scope.values() for column in columns}
        if self._owned(qualifier, name):
            raise Unsupported(
                "unit-column",
                f"{name[:60]} says whose row it is and never leaves",
                fix=f"count units with COUNT(DISTINCT {name[:60]})",
            )
        raise Unsupported("unknown-column", f"no declared column is called {name[:60]}", fix=nearest(name, known))

    def is_unit(self, node: exp.Expr) -> bool:
        """Whether a part of the question is the column that says whose row it is, and no other of that name."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return False
        aliases = {alias.lower() for alias in self.scope}
        if node.table and node.table.lower() not in aliases:
            expression(node, self.resolve)  # says that there is no such table
        owned = self._owned(node.table or None, node.name)
        others = [
            alias
            for alias, columns in self.scope.items()
            if (not node.table or alias.lower() == node.table.lower())
            and alias not in owned
            and node.name.lower() in map(str.lower, columns)
            and (alias, node.name) not in self.merged
        ]
        return bool(owned) and not others

    @property
    def inside(self) -> Inside:
        """The rows as a subquery's SELECT sees them."""
        names = [name for names in self.owners.values() for name in names]
        every_row = any(isinstance(node, Scan) and node.every_row for node in relations(self.relation))
        return Inside(self.relation, self.resolve, self.is_unit, None if every_row else next(iter(names), "<id>"))

    def _owned(self, qualifier: str | None, name: str) -> list[str]:
        """The aliases under which a name is the unit's."""
        return [
            alias
            for alias, names in self.owners.items()
            if (qualifier is None or alias.lower() == qualifier.lower()) and name.lower() in map(str.lower, names)
        ]


Named = Mapping[str, Rows]
"""Common table expressions in scope, by lower-case name."""


def rows(select: exp.Select, catalog: Catalog, named: Named) -> Rows:
    """What a SELECT's FROM, JOIN and WHERE mean."""
    named = _with(select, catalog, named)
    source = select.args.get("from_")
    if source is None:
        raise refuse(select, "no-table", "a question is about a table", "add FROM <table>")
    found = _joined(source.this, select.args.get("joins") or [], catalog, named)
    where = select.args.get("where")
    if where is None:
        return found
    predicate = condition(where.this, found)
    _check_levels(found.relation, where)
    return replace(found, relation=Filter(found.relation, predicate))


def _check_levels(relation: Relation, node: exp.Expr) -> None:
    if sum(1 for _ in relations(relation)) > MOST_LEVELS:
        rule = f"at most {MOST_LEVELS} joins and conditions stand upon one another"
        raise refuse(node, "too-deep", rule, "put conditions together with AND")


def condition(node: exp.Expr, source: Rows) -> Expression:
    """A predicate over rows: boolean, nothing else."""
    found = expression(node, source.resolve)
    if found.domain.type is not Type.BOOLEAN:
        raise refuse(
            node,
            "type-mismatch",
            f"a condition is true or false; {shown(node)} is {found.domain.type.value}",
            "compare it with something",
        )
    return found


def _with(select: exp.Select, catalog: Catalog, named: Named) -> Named:
    clause = select.args.get("with_")
    if clause is None:
        return named
    if clause.args.get("recursive"):
        raise refuse(clause, "recursive", "recursive queries are not answered", "write the steps out")
    known = dict(named)
    for each in clause.expressions:
        if each.args["alias"].args.get("columns"):
            raise refuse(each, "column-list", "columns are named inside the subquery", "write SELECT … AS name")
        known[each.alias.lower()] = derived(each.this, catalog, known)
    return known


def derived(select: exp.Expr, catalog: Catalog, named: Named) -> Rows:
    """A subquery: its columns are expressions over the rows it is made from, or it is grouped by the unit."""
    if not isinstance(select, exp.Select):
        raise refuse(
            select, "not-select", "a subquery is a SELECT over one row at a time", "use SELECT … FROM … [WHERE]"
        )
    if select.args.get("windows"):
        rule, fix = "a window is written out where it is used", "write OVER (PARTITION BY … ORDER BY …) for each"
        raise refuse(select.args["windows"][0], "window", rule, fix)
    for part, value in select.args.items():
        if value and part not in _GROUPED:
            raise refuse(
                select,
                "not-row-wise",
                f"a subquery may not use {_clause(part)}: it must treat every row by itself",
                "move it to the outermost SELECT",
            )
    source = rows(select, catalog, named)
    qualify = select.args.get("qualify")
    if select.args.get("group") or select.args.get("having") or aggregates(select):
        if qualify is not None:
            rule, fix = "QUALIFY keeps rows by windows over them, not groups", "use HAVING, or a subquery of its own"
            raise refuse(qualify, "qualify", rule, fix)
        found = per_unit(select, source.inside)
        _check_levels(found.relation, select)
        return _derived(source, found.relation, found.columns, found.owners)
    columns: dict[str, Expression] = {}
    owners: list[str] = []
    windows = WindowColumns(source.inside)
    for item in select.expressions:
        for name, made in _selected(item, source, windows.read):
            if name.lower() in {each.lower() for each in (*columns, *owners)}:
                raise refuse(item, "duplicate-column", f"two columns are called {name}", "rename one with AS")
            if made is not None:
                columns[name] = made
        owners += _owners(item, source)
    relation = windows.relation
    if qualify is not None:
        predicate = windows.condition(qualify, columns)
        if not windows.functions:
            raise refuse(qualify, "qualify", "QUALIFY is a condition on what windows find", "use WHERE")
        relation = Filter(windows.relation, predicate)
    _check_levels(relation, select)
    return _derived(source, relation, columns, owners)


def _derived(source: Rows, relation: Relation, columns: Mapping[str, Expression], owners: list[str]) -> Rows:
    """A subquery's columns over a relation; the unit is known by its own name too unless that is another column's."""
    taken = {name.lower() for name in (*columns, *owners)}
    kept = [name for names in source.owners.values() for name in names if name.lower() not in taken]
    known = tuple(dict.fromkeys((*owners, *kept)))
    return replace(
        source, relation=relation, scope={"": columns}, owners={"": known}, merged=frozenset(), public=frozenset()
    )


def _owners(item: exp.Expr, source: Rows) -> list[str]:
    """The names that an item of a subquery gives to the unit."""
    if _is_star(item):
        only = item.table.lower() if isinstance(item, exp.Column) else None
        found = (name for alias, names in source.owners.items() if only in (None, alias.lower()) for name in names)
        return list(dict.fromkeys(found))
    return [item.alias_or_name] if source.is_unit(item.unalias()) else []


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star)


def _selected(
    item: exp.Expr, source: Rows, read: Callable[[exp.Expr], Expression]
) -> list[tuple[str, Expression | None]]:
    """The columns of an item, by name; None for the unit where it is no declared column too."""
    if _is_star(item):
        star = item.this if isinstance(item, exp.Column) else item
        if any(star.args.values()):
            raise refuse(item, "star", "* takes no EXCLUDE, REPLACE or RENAME here", "name the columns")
        only = item.table.lower() if isinstance(item, exp.Column) else None
        return [
            (name, made)
            for alias, columns in source.scope.items()
            if only is None or alias.lower() == only
            for name, made in columns.items()
            if only is not None or (alias, name) not in source.merged
        ]
    inner = item.this if isinstance(item, exp.Alias) else item
    name = item.alias_or_name
    if not name:
        raise refuse(item, "unnamed-column", "a derived column needs a name", "add AS name")
    if source.is_unit(inner) and not _declared(inner, source):
        return [(name, None)]
    return [(name, read(inner))]


def _declared(node: exp.Expr, source: Rows) -> bool:
    return any(node.name.lower() == name.lower() for columns in source.scope.values() for name in columns)


def _joined(first: exp.Expr, joins: list[exp.Join], catalog: Catalog, named: Named) -> Rows:
    left = _source(first, catalog, named)
    rest = list(joins)
    if isinstance(left, _Public) and len(rest) == 1 and not rest[0].side:
        swapped = _source(rest[0].this, catalog, named)
        if isinstance(swapped, Rows):
            return _join(swapped, left, rest[0], catalog)
    if isinstance(left, _Public):
        raise refuse(
            first, "public-first", "the private table comes first", "write FROM <private table> JOIN <public table> …"
        )
    for join in rest:
        right = _source(join.this, catalog, named)
        if isinstance(right, Rows):
            raise refuse(
                join, "private-join", "private tables cannot be joined with each other", "join with a public table"
            )
        left = _join(left, right, join, catalog)
    return left


@dataclass(frozen=True)
class _Public:
    alias: str
    table: Described


def _source(node: exp.Expr, catalog: Catalog, named: Named) -> Rows | _Public:
    if isinstance(node, exp.Subquery):
        _only(node, {"this", "alias"}, "subquery")
        found = derived(node.this, catalog, named)
        return _called(found, node.alias)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refuse(
            node,
            "not-a-table",
            f"{shown(node)} is no declared table",
            f"use one of {', '.join(sorted(catalog.tables))}",
        )
    _only(node, {"this", "alias"}, "table")
    name, alias = node.name, node.alias or node.name
    if name.lower() in named:
        return _called(named[name.lower()], alias)
    table = next((each for each in catalog.tables.values() if each.name.lower() == name.lower()), None)
    if table is None:
        raise refuse(node, "unknown-table", f"no declared table is called {name[:60]}", nearest(name, catalog.tables))
    if table.public:
        return _Public(alias, table)
    columns = {Field(0, table.name, name): domain for name, domain in table.columns.items()}
    scan = Scan(table.name, table.id is None, 0, columns, table.limits)
    return Rows(scan, {alias: _named(scan.columns)}, table, {} if table.id is None else {alias: (table.id,)})


def _called(found: Rows, alias: str) -> Rows:
    """A subquery under an alias."""
    return replace(found, scope={alias: found.scope[""]}, owners={alias: found.owners[""]})


def _named(columns: Columns) -> dict[str, Expression]:
    return {reference.name: Column(reference, domain) for reference, domain in columns.items()}


def _only(node: exp.Expr, allowed: set[str], what: str) -> None:
    for part, value in node.args.items():
        if value and part not in allowed:
            raise refuse(
                node,
                "table-clause",
                f"a {what} is named plainly: {_clause(part)} is not answered",
                "write its name and at most an alias",
            )
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise refuse(node, "column-list", "columns are named inside the subquery", "write SELECT … AS name")


def _join(left: Rows, right: _Public, node: exp.Join, catalog: Catalog) -> Rows:
    if (node.side or "") not in ("", "LEFT") or (node.kind or "") not in ("", "INNER", "OUTER") or node.method:
        raise refuse(
            node, "join-kind", "a public table is joined with JOIN or LEFT JOIN", "use JOIN … ON … or USING (…)"
        )
    if right.alias.lower() in {alias.lower() for alias in left.scope}:
        raise refuse(node, "duplicate-alias", f"two tables are called {right.alias}", "give one an alias with AS")
    _check_levels(left.relation, node)
    if sum(isinstance(each, Join) for each in relations(left.relation)) >= MOST_JOINS:
        raise refuse(node, "too-many-joins", f"at most {MOST_JOINS} public tables are joined", "join fewer tables")
    pairs, using = _pairs(left, right, node)
    source = next_source(left.relation)
    most = max(1, catalog.multiplicity(right.table.name, tuple(sorted({column for _, column in pairs}))))
    join = Join(left.relation, right.table.name, source, pairs, node.side == "LEFT", most, right.table.columns)
    return replace(
        left,
        relation=join,
        scope={**left.scope, right.alias: _named(join.joined)},
        merged=left.merged | {(right.alias, name) for name in using},
        public=left.public | {right.alias.lower()},
    )


def _pairs(left: Rows, right: _Public, node: exp.Join) -> tuple[tuple[tuple[Expression, str], ...], tuple[str, ...]]:
    """The equalities of a join: (expression over the left, column of the right)."""
    pairs, using = [], []
    for identifier in node.args.get("using") or []:
        column = _public_column(right, identifier.name, node)
        pairs.append((left.resolve(None, identifier.name), column))
        using.append(column)
    on = node.args.get("on")
    parts = [] if on is None else on.flatten() if isinstance(on, exp.And) else [on]
    pairs += [_equality(left, right, part.unnest()) for part in parts]
    if not pairs:
        raise refuse(
            node, "join-condition", "a join needs equalities between columns", "add ON a = b or USING (column)"
        )
    for made, column in pairs:
        call("=", made, Column(Field(0, right.table.name, column), right.table.columns[column]))
        _check_distinct(made, right.table.columns[column], node)
    return tuple(sorted(set(pairs), key=repr)), tuple(using)


def _check_distinct(made: Expression, domain: Domain, node: exp.Join) -> None:
    """Rows that share a value are counted as the column holds it, so the join may not take two values for one: whole
    numbers beyond 2^53 are not all told apart once they are compared with a real.
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


def _equality(left: Rows, right: _Public, part: exp.Expr) -> tuple[Expression, str]:
    if isinstance(part, exp.EQ):
        for here, there in ((part.this, part.expression), (part.expression, part.this)):
            if isinstance(there, exp.Column) and _belongs(there, left, right):
                return expression(here, left.resolve), _public_column(right, there.name, part)
    raise refuse(
        part,
        "join-condition",
        "tables are joined by equality with a column of the public table",
        "write ON private.column = public.column",
    )


def _belongs(column: exp.Column, left: Rows, right: _Public) -> bool:
    if column.table:
        return column.table.lower() == right.alias.lower()
    known = {name.lower() for columns in left.scope.values() for name in columns}
    return column.name.lower() not in known and column.name.lower() in {name.lower() for name in right.table.columns}


def _public_column(right: _Public, name: str, node: exp.Expr) -> str:
    for column in right.table.columns:
        if column.lower() == name.lower():
            return column
    raise refuse(node, "unknown-column", f"{right.alias} has no column {name[:60]}", nearest(name, right.table.columns))


def _clause(part: str) -> str:
    return part.strip("_").replace("_", " ").upper()
