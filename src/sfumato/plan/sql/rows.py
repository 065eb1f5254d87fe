"""FROM, JOIN, WHERE and row-wise subqueries become a relation and the expressions its columns stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.nodes import (
    Columns,
    Filter,
    Join,
    Relation,
    Scan,
    Union,
    UnitJoin,
    Unnest,
    next_source,
    relations,
    renumbered,
)
from sfumato.plan.sql.lists import Lists, in_from, is_unnest, list_column, unnest
from sfumato.plan.sql.per_unit import Inside, WindowColumns, aggregates, per_unit
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.text_positions import nearest, refuse, shown
from sfumato.plan.sql.unit_joins import (
    Member,
    Part,
    Public,
    Test,
    check_no_query,
    check_places,
    conjuncts,
    every,
    is_test,
    matched,
    period_words,
    periods,
    public_join,
    pushed,
    semi_join,
    unit_join,
    united,
    united_selects,
    with_names,
)
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

MOST_JOINS = 16
MOST_LEVELS = 40
"""Joins and conditions upon one another: the relation is walked by recursion."""

_ROW_WISE = {"expressions", "from_", "joins", "where", "with_"}
_GROUPED = _ROW_WISE | {"group", "having", "qualify"}


@dataclass(frozen=True)
class RowSource:
    """These are rows of a relation under construction: its node, and by alias the columns that can be named."""

    relation: Relation
    scope: Mapping[str, Mapping[str, Expression]]
    table: Described
    """The private table that comes first."""
    owners: Mapping[str, tuple[str, ...]]
    """By alias, the names under which the unit is known there: columns that say whose row it is."""
    catalog: Catalog
    """What the question may refer to."""
    merged: frozenset[tuple[str, str]] = frozenset()
    """(alias, column) of the right sides of USING: not ambiguous with the left."""
    public: frozenset[str] = frozenset()
    """Aliases of public tables, in small letters: no unit has rows there."""
    lists: Lists = field(default_factory=dict)
    """By alias the lists that UNNEST may name."""

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
                fix=f"write {quoted(found[0][0])}.{quoted(name[:60])}",
            )
        if qualifier is not None and qualifier.lower() not in {alias.lower() for alias in self.scope}:
            rule = f"no table here is called {qualifier[:60]}"
            raise Unsupported("unknown-alias", rule, fix=nearest(qualifier, filter(None, self.scope)))
        known = {column for columns in self.scope.values() for column in columns}
        if self._owned(qualifier, name):
            raise Unsupported(
                "unit-column",
                f"{name[:60]} says whose row it is and never leaves",
                fix=f"count units with COUNT(DISTINCT {quoted(name[:60])})",
            )
        refused = list_column(name, self.lists)
        if refused is not None:
            raise refused
        raise Unsupported("unknown-column", f"no declared column is called {name[:60]}", fix=nearest(name, known))

    def is_unit(self, node: exp.Expr) -> bool:
        """Tell whether a part of the question is the column that says whose row it is, and no other of that name."""
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
        """Give the rows as a subquery's SELECT sees them."""
        names = [name for names in self.owners.values() for name in names]
        every_row = any(isinstance(node, Scan) and node.every_row for node in relations(self.relation))
        unit = None if every_row else next(iter(names), "<id>")
        if self.table.period is None:
            return Inside(self.relation, self.resolve, self.is_unit, unit)
        period, known = period_words(self.table), periods(self.relation, self.catalog)
        single = periods(self.relation, self.catalog, single=True)
        return Inside(self.relation, self.resolve, self.is_unit, unit, period, known, single)

    def _owned(self, qualifier: str | None, name: str) -> list[str]:
        """List the aliases under which a name is the unit's."""
        return [
            alias
            for alias, names in self.owners.items()
            if (qualifier is None or alias.lower() == qualifier.lower()) and name.lower() in map(str.lower, names)
        ]


Named = Mapping[str, RowSource]
"""Common table expressions in scope, by lower-case name."""


def rows(select: exp.Select, catalog: Catalog, named: Named) -> RowSource:
    """Read what a SELECT's FROM, JOIN and WHERE mean."""
    named = _with(select, catalog, named)
    source = select.args.get("from_")
    if source is None:
        raise refuse(select, "no-table", "a question is about a table", "add FROM <table>")
    found = _joined(source.this, select.args.get("joins") or [], catalog, named)
    return _where(found, select.args.get("where"), catalog, named)


def _where(found: RowSource, where: exp.Expr | None, catalog: Catalog, named: Named) -> RowSource:
    """Keep the rows that meet a WHERE: conditions on one row, and tests of whether rows of the same unit exist
    elsewhere.
    """
    if where is None:
        return found
    parts = conjuncts(where.this)
    tests, plain = [each for each in parts if is_test(each)], [each for each in parts if not is_test(each)]
    for each in plain:
        check_no_query(each)
    _check_levels(found.relation, where)
    if plain:
        whole = [where.this] if not tests and not isinstance(found.relation, UnitJoin) else plain
        relation, rest = pushed(found.relation, [condition(each, found) for each in whole])
        predicate = every(rest)
        found = replace(found, relation=relation if predicate is None else Filter(relation, predicate))
    for test in tests:
        found = _tested(found, Test.of(test), catalog, named)
    return found


def _tested(found: RowSource, test: Test, catalog: Catalog, named: Named) -> RowSource:
    """Keep the rows for which a subquery has rows of the same unit, or has none."""
    inner, parts = _inner(test, catalog, named)
    _check_join(found, {}, test.node)
    right = _apart(inner, found)

    def resolve(qualifier: str | None, name: str) -> Expression:
        """Names are the subquery's own, and else of the rows around it."""
        try:
            return right.resolve(qualifier, name)
        except Unsupported as unknown:
            if unknown.code not in ("unknown-column", "unknown-alias"):
                raise
        return found.resolve(qualifier, name)

    match = matched([*test.equal(right), *parts], found, right, resolve, catalog, test.node)
    return replace(found, relation=semi_join(found, right, match, test.anti))


def _inner(test: Test, catalog: Catalog, named: Named) -> tuple[RowSource, list[Part]]:
    """Read the rows of a subquery that is tested for, and the conditions that may read the rows around it."""
    select = test.select
    if not {part for part, value in select.args.items() if value} <= _ROW_WISE:
        return derived(select, catalog, named), []
    named = _with(select, catalog, named)
    source = select.args.get("from_")
    if source is None:
        raise refuse(select, "no-table", "a question is about a table", "add FROM <table>")
    if source.this.name.lower() in {each.name.lower() for each in catalog.tables.values() if each.public}:
        raise refuse(
            select,
            "public-subquery",
            "a subquery that is tested for reads rows of the same unit, and a public table has none",
            "join the public table in FROM instead, by a column in which no value stands twice",
        )
    found = _joined(source.this, select.args.get("joins") or [], catalog, named)
    where = select.args.get("where")
    parts = [] if where is None else conjuncts(where.this)
    for part in parts:
        if is_test(part):
            found = _tested(found, Test.of(part), catalog, named)
    return found, [each for each in parts if not is_test(each)]


def _check_levels(relation: Relation, node: exp.Expr) -> None:
    if sum(1 for _ in relations(relation)) > MOST_LEVELS:
        rule = f"at most {MOST_LEVELS} joins and conditions stand upon one another"
        raise refuse(node, "too-deep", rule, "put conditions together with AND")


def condition(node: exp.Expr, source: RowSource) -> Expression:
    """Read a predicate over rows: boolean, nothing else."""
    found = expression(node, source.resolve)
    if found.domain.type is not Type.BOOLEAN:
        raise refuse(
            node,
            "type-mismatch",
            f"a condition is true or false; {shown(node)} is {found.domain.type.value}",
            "compare it with something",
        )
    return found


def _with(select: exp.Expr, catalog: Catalog, named: Named) -> Named:
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


def derived(select: exp.Expr, catalog: Catalog, named: Named) -> RowSource:
    """Read a subquery: its columns are expressions over the rows it is made from, or it is grouped by the unit."""
    if isinstance(select, exp.SetOperation):
        return _united(select, catalog, named)
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
    select = in_from(select)
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


def _united(node: exp.SetOperation, catalog: Catalog, named: Named) -> RowSource:
    """Read UNION ALL of tables with one unit."""
    named = _with(node, catalog, named)
    if not isinstance(node, exp.Union) or node.args.get("distinct") or node.args.get("by_name"):
        raise refuse(
            node,
            "set-operation",
            "rows of private tables are put one after the other, never compared across people",
            "use UNION ALL",
        )
    for part in ("order", "limit", "offset"):
        if node.args.get(part):
            raise refuse(
                node, "not-row-wise", f"a subquery may not use {_clause(part)}", "move it to the outermost SELECT"
            )
    selects = united_selects(node)
    first = derived(selects[0], catalog, named)
    members, at = [Member(first.relation, list(first.scope[""].items()), selects[0])], next_source(first.relation)
    for select in selects[1:]:
        found = derived(with_names(select), catalog, named)
        columns = [(name, renumbered(made, at)) for name, made in found.scope[""].items()]
        check_places(selects[0], first.owners[""], select, found.owners[""])
        members.append(Member(renumbered(found.relation, at), columns, select))
        at += next_source(found.relation)
    relation = united(members, at)
    _check_levels(relation, node)
    return _derived(first, relation, _named(relation.columns), [])


def _derived(source: RowSource, relation: Relation, columns: Mapping[str, Expression], owners: list[str]) -> RowSource:
    """Read a subquery's columns over a relation; the unit is known by its own name too unless that is another
    column's.
    """
    taken = {name.lower() for name in (*columns, *owners)}
    kept = [name for names in source.owners.values() for name in names if name.lower() not in taken]
    known = tuple(dict.fromkeys((*owners, *kept)))
    empty: frozenset[str] = frozenset()
    return replace(
        source, relation=relation, scope={"": columns}, owners={"": known}, merged=frozenset(), public=empty, lists={}
    )


def _owners(item: exp.Expr, source: RowSource) -> list[str]:
    """List the names that an item of a subquery gives to the unit."""
    if _is_star(item):
        only = item.table.lower() if isinstance(item, exp.Column) else None
        found = (name for alias, names in source.owners.items() if only in (None, alias.lower()) for name in names)
        return list(dict.fromkeys(found))
    return [item.alias_or_name] if source.is_unit(item.unalias()) else []


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star)


def _selected(
    item: exp.Expr, source: RowSource, read: Callable[[exp.Expr], Expression]
) -> list[tuple[str, Expression | None]]:
    """Read the columns of an item, by name; None for the unit where it is no declared column too."""
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


def _declared(node: exp.Expr, source: RowSource) -> bool:
    return any(node.name.lower() == name.lower() for columns in source.scope.values() for name in columns)


def _joined(first: exp.Expr, joins: list[exp.Join], catalog: Catalog, named: Named) -> RowSource:
    left, rest = _source(first, catalog, named), list(joins)
    if isinstance(left, Public):
        left = _after_public(left, first, rest, catalog, named)
        rest = rest[1:]
    for join in rest:
        if is_unnest(join):
            left = _unnested(left, join)
            continue
        right = _source(join.this, catalog, named)
        left = _beside_public(left, right, join) if isinstance(right, Public) else _beside_private(left, right, join)
    return left


def _unnested(left: RowSource, node: exp.Join) -> RowSource:
    """Repeat every row for each item of a list."""
    alias, name, relation = unnest(node, left.relation, left.lists)
    _check_join(left, {alias: {}}, node)
    item = Column(relation.item, relation.domain)
    return replace(left, relation=relation, scope={**left.scope, alias: {name: item}})


def _after_public(public: Public, first: exp.Expr, joins: list[exp.Join], catalog: Catalog, named: Named) -> RowSource:
    """Join a private table to a public one: the same as the public one joined to it."""
    private = _source(joins[0].this, catalog, named) if joins else public
    if isinstance(private, Public):
        raise refuse(
            first, "public-first", "the private table comes first", "write FROM <private table> JOIN <public table> …"
        )
    if joins[0].side == "LEFT":
        raise _preserved(joins[0], public, next(iter(private.scope)))
    return _beside_public(private, public, joins[0], swapped=True)


def _preserved(node: exp.Join, public: Public, private: str) -> Unsupported:
    return refuse(
        node,
        "public-preserved",
        f"{public.alias} is public: it supplies groups, never rows, since a row of it that nobody matches would vanish"
        " when somebody does",
        f"write FROM {private} JOIN {public.alias} … GROUP BY a column of {public.alias}: each of its values is a"
        " group, with or without rows",
    )


def _beside_public(left: RowSource, right: Public, node: exp.Join, *, swapped: bool = False) -> RowSource:
    if node.side in ("RIGHT", "FULL") and not swapped:
        raise _preserved(node, right, next(iter(left.scope)))
    keeping = ("", "RIGHT") if swapped else ("", "LEFT")
    if (node.side or "") not in keeping or (node.kind or "") not in ("", "INNER", "OUTER") or node.method:
        raise refuse(
            node, "join-kind", "a public table is joined with JOIN or LEFT JOIN", "use JOIN … ON … or USING (…)"
        )
    _check_join(left, {right.alias: {}}, node)
    join, using = public_join(left, right, node, bool(node.side), left.catalog)
    return replace(
        left,
        relation=join,
        scope={**left.scope, right.alias: _named(join.joined)},
        merged=left.merged | {_hidden(left, right, name, outer=join.outer) for name in using},
        public=left.public | {right.alias.lower()},
    )


def unlisted(domain: Domain) -> bool:
    """Tell whether nobody declared what a column may hold."""
    return domain.values is None and domain.range is None


def _hidden(left: RowSource, right: Public, name: str, *, outer: bool) -> tuple[str, str]:
    """Find the side of USING that a plain name does not stand for.

    Both are equal, unless rows without a match are kept; the public one lists its values, which makes them groups where
    the private one declares none.
    """
    made = left.resolve(None, name)
    if not outer and unlisted(made.domain):
        for alias, columns in left.scope.items():
            for column, known in columns.items():
                if known == made and column.lower() == name.lower():
                    return alias, column
    return right.alias, name


def _beside_private(left: RowSource, right: RowSource, node: exp.Join) -> RowSource:
    """Put rows of two private tables side by side, within one unit."""
    if (node.side or "") not in ("", "LEFT") or (node.kind or "") not in ("", "INNER", "OUTER") or node.method:
        raise refuse(
            node,
            "join-kind",
            "private tables are joined with JOIN or LEFT JOIN",
            "use JOIN or LEFT JOIN, with the table whose rows are all kept first",
        )
    _check_join(left, right.scope, node)
    outer, right = node.side == "LEFT", _apart(right, left)
    right = _projected(right) if outer else right
    both = replace(
        left,
        scope={**left.scope, **right.scope},
        owners={**left.owners, **right.owners},
        merged=left.merged | right.merged,
        public=left.public | right.public,
        lists={**left.lists, **right.lists},
    )
    using = [each.name for each in node.args.get("using") or []]
    parts: list[Part] = [(exp.column(name), exp.column(name)) for name in using]
    parts += conjuncts(node.args.get("on"))
    joined = unit_join(left, right, matched(parts, left, right, both.resolve, left.catalog, node), outer)
    shared = {
        (alias, column)
        for alias, columns in right.scope.items()
        for column in columns
        if column.lower() in map(str.lower, using)
    }
    found = replace(both, relation=joined, merged=both.merged | shared)
    if not outer:
        return found
    kept = {alias: {name: _missing(made) for name, made in each.items()} for alias, each in right.scope.items()}
    return replace(found, scope={**left.scope, **kept}, owners=left.owners)


def _check_join(left: RowSource, right: Mapping[str, object], node: exp.Expr) -> None:
    for alias in right:
        if alias.lower() in {each.lower() for each in left.scope}:
            raise refuse(node, "duplicate-alias", f"two tables are called {alias}", "give one an alias with AS")
    _check_levels(left.relation, node)
    if sum(isinstance(each, (Join, Unnest, UnitJoin)) for each in relations(left.relation)) >= MOST_JOINS:
        raise refuse(node, "too-many-joins", f"at most {MOST_JOINS} tables are joined", "join fewer tables")


def _apart(right: RowSource, left: RowSource) -> RowSource:
    """Give the same rows with numbers of sources that the others have not."""
    by = next_source(left.relation)
    scope = {
        alias: {name: renumbered(made, by) for name, made in columns.items()} for alias, columns in right.scope.items()
    }
    return replace(right, relation=renumbered(right.relation, by), scope=scope)


def _projected(right: RowSource) -> RowSource:
    """Turn what is computed from columns into columns of its own: a row without a match has none of them, whatever a
    function makes of missing values.
    """
    made = [(f"{alias}.{name}", each) for alias, columns in right.scope.items() for name, each in columns.items()]
    if all(isinstance(each, Column) for _, each in made):
        return right
    source = next_source(right.relation)
    named = tuple((name, each.domain) for name, each in made)
    relation = Union(((right.relation, tuple(each for _, each in made)),), source, named)
    scope = {
        alias: {name: Column(Field(source, "", f"{alias}.{name}"), each.domain) for name, each in columns.items()}
        for alias, columns in right.scope.items()
    }
    return replace(right, relation=relation, scope=scope)


def _missing(made: Expression) -> Expression:
    """Let a column be missing: it is of a side that a row may have no match in."""
    assert isinstance(made, Column)
    return replace(made, domain=replace(made.domain, nullable=True))


def _source(node: exp.Expr, catalog: Catalog, named: Named) -> RowSource | Public:
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
        raise refuse(node, "unknown-table", _unknown(node, name), nearest(name, catalog.tables))
    if table.public:
        return Public(alias, table)
    columns = {Field(0, table.name, name): domain for name, domain in table.columns.items()}
    scan = Scan(table.name, table.every_row, 0, columns, table.limits)
    known = {} if table.id is None else {alias: (table.id,)}
    lists = {alias: {name: (Field(0, table.name, name), each) for name, each in table.lists.items()}}
    return RowSource(scan, {alias: _named(scan.columns)}, table, known, catalog, lists=lists if table.lists else {})


def _unknown(node: exp.Table, name: str) -> str:
    """Say that no table is called so; beside a join also why a table of another policy cannot be."""
    joined = isinstance(node.parent, exp.Join)
    why = "; tables of another policy are another population, and two populations are never joined" if joined else ""
    return f"no declared table is called {name[:60]}{why}"


def _called(found: RowSource, alias: str) -> RowSource:
    """Read a subquery under an alias."""
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


def _clause(part: str) -> str:
    return _QUALIFIERS.get(part) or part.strip("_").replace("_", " ").upper()


_QUALIFIERS = {"db": "a schema other than main", "catalog": "the name of a database before it"}
