"""A statement can be put together step by step in Python: it is the same tree that the SQL parser makes of a text.

A ``RowSelection`` is FROM, JOIN and WHERE; a ``QuestionBuilder`` adds GROUP BY, aggregates, HAVING, ORDER BY and LIMIT.
What people write as strings is read by the SQL parser, part by part, and put into the tree as a tree: no text is ever
joined with another. Each step is checked when it is made, by the rules and with the refusals of SQL.

A derived column is its expression wherever it is named later, and a condition on rows that stands before a join means
the same after it: so the statement stays as flat as people would type it, and has the same plan. A subquery is made
where the order of steps matters: one row per unit, functions over a window, and tests of other rows of the unit before
a join of two private tables, of which each unit's rows are limited first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import ErrorLevel, exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.nodes import Query
from sfumato.plan.sql.aggregations import Asked, aggregate
from sfumato.plan.sql.fragments import (
    Names,
    Tree,
    called,
    column,
    conjunction,
    filled,
    identifier,
    meant,
    operand,
    owned,
    parts,
    plainly,
    read,
    refused_at,
    told,
)
from sfumato.plan.sql.histograms import Histogram
from sfumato.plan.sql.rows import RowSource, rows, unlisted
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.statements import query
from sfumato.plan.sql.text import fragment
from sfumato.plan.sql.text_positions import nearest
from sfumato.plan.sql.unit_joins import period_words
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain

On = str | Sequence[str] | None
"""How rows of two tables match: names of columns that both have, a condition, or by the unit."""


@dataclass(frozen=True)
class RowSelection:
    """A selection is rows under construction: a statement's FROM, JOIN and WHERE, and the columns that can be named
    after it.
    """

    catalog: Catalog = field(repr=False, compare=False)
    table: Described = field(repr=False, compare=False)
    """The private table it began with: its id says whose row it is."""
    alias: str
    steps: tuple[str, ...] = field(compare=False)
    """What was done, in words, one step after another."""
    tree: exp.Select = field(repr=False)
    """Never changed: each step copies it."""
    names: Names = field(repr=False, hash=False)

    @property
    def rows(self) -> RowSource:
        """Read the typed rows of all steps so far; they are refused as in SQL."""
        return rows(self.selecting([exp.Star()]), self.catalog, {})

    @property
    def columns(self) -> dict[str, Domain]:
        """List every column that can be named, with what is known of it."""
        known = self.rows
        return {shown: expression(tree.copy(), known.resolve).domain for shown, tree in self.names.values()}

    @property
    def every(self) -> list[Tree]:
        """List every column, and the one that says whose row it is, for a subquery."""
        unit = self.table.id
        first = [column(self.alias, unit)] if unit is not None and unit.lower() not in self.names else []
        return [*first, *(called(tree, shown) for shown, tree in self.names.values())]

    def selecting(self, items: Sequence[Tree]) -> exp.Select:
        """Make a statement of all steps so far, with these columns."""
        tree = self.tree.copy()
        tree.set("expressions", [each.copy() for each in items])
        return plainly(tree, self.alias)

    def then(self, step: str, tree: exp.Select, names: Names | None = None) -> RowSelection:
        """Go one step further, if SQL allows it."""
        made = replace(self, tree=tree, names=self.names if names is None else names, steps=(*self.steps, step))
        made.rows  # noqa: B018 - refuses what is not understood
        return made


def selection(catalog: Catalog, name: str, alias: str | None = None) -> RowSelection:
    """Start with all rows of one private table."""
    with refused_at(f"table {told(name)}"):
        table = _table(catalog, name)
        known = table.name if alias is None else alias
        tree = _from(_named(table, known))
        step = table.name if alias is None else f"{table.name} as {alias}"
        return RowSelection(catalog, table, known, (), tree, owned(known, table.columns)).then(step, tree)


def _table(catalog: Catalog, name: object) -> Described:
    known = {each.name.lower(): each for each in catalog.tables.values()}
    called_so = identifier(name)
    if called_so.name.lower() not in known:
        rows(_from(exp.Table(this=called_so)), catalog, {})  # refuses it as SQL does
    return known[called_so.name.lower()]


def _from(source: Tree) -> exp.Select:
    return exp.Select(from_=exp.From(this=source))


def _named(table: Described, alias: str) -> exp.Table:
    made = exp.Table(this=identifier(table.name))
    if alias != table.name:
        made.set("alias", _alias(alias))
    return made


def where(source: RowSelection, text: str) -> RowSelection:
    """Keep the rows that meet a condition."""
    with refused_at(step := f"where {told(text)}"):
        tree = source.tree.copy()
        before = [] if tree.args.get("where") is None else [tree.args["where"].this]
        tree.set("where", exp.Where(this=conjunction([*before, meant(read(text), source.names)])))
        return source.then(step, tree)


def derive(source: RowSelection, name: str, text: str) -> RowSelection:
    """Add one column more: an expression over one row, or a function over a window of a unit's rows."""
    with refused_at(step := f"derive {name} = {told(text)}"):
        made = meant(read(text), source.names)
        identifier(name)
        if made.find(exp.Window) is not None:
            return _windowed(source, name, made, step)
        expression(made.copy(), source.rows.resolve)
        return replace(source, names={**source.names, name.lower(): (name, made)}, steps=(*source.steps, step))


def _windowed(source: RowSelection, name: str, made: Tree, step: str) -> RowSelection:
    others = replace(source, names={key: each for key, each in source.names.items() if key != name.lower()})
    shown = [each for each, _ in others.names.values()]
    return source.then(step, _around(others, [*others.every, called(made, name)]), owned(source.alias, [*shown, name]))


def _around(source: RowSelection, items: Sequence[Tree]) -> exp.Select:
    """Make a statement about the rows of a subquery, which is called as the table was."""
    return _from(_subquery(source.selecting(items), source.alias))


def _subquery(inner: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=inner, alias=_alias(alias))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=identifier(name))


# Joins


@dataclass(frozen=True)
class _Side:
    """This is the right side of a join."""

    table: Described
    alias: str
    tree: Tree
    names: Names


def join(source: RowSelection, other: RowSelection | str, on: On, *, left: bool) -> RowSelection:
    """Put beside each row the rows of another table that match it; with ``left``, rows without a match are kept."""
    name = other.alias if isinstance(other, RowSelection) else told(other)
    said = "" if on is None else f" on {told(on if isinstance(on, str) else ', '.join(map(str, on)))}"
    with refused_at(step := f"{'left join' if left else 'join'} {name}{said}"):
        right = _side(source.catalog, other)
        before = source.tree.args.get("where")
        if not right.table.public and before is not None and before.find(exp.Query) is not None:
            shown = [each for each, _ in source.names.values()]
            source = replace(source, tree=_around(source, source.every), names=owned(source.alias, shown))
        using, condition, same = _matching(source, right, on)
        clause = fragment("LEFT JOIN t" if left else "JOIN t", exp.Join)
        clause.set("this", right.tree)
        clause.set("using", [identifier(each) for each in using] or None)
        clause.set("on", condition)
        tree = source.tree.copy()
        tree.append("joins", clause)
        listed = _listed(source, right, same) if right.table.public and not left else {}
        return source.then(step, tree, {**_both_sides(source, right, same), **listed})


def _side(catalog: Catalog, other: RowSelection | str) -> _Side:
    if not isinstance(other, RowSelection):
        table = _table(catalog, other)
        return _Side(table, table.name, _named(table, table.name), owned(table.name, table.columns))
    names = owned(other.alias, [shown for shown, _ in other.names.values()])
    if len(other.steps) == 1:
        return _Side(other.table, other.alias, _named(other.table, other.alias), names)
    return _Side(other.table, other.alias, _subquery(other.selecting(other.every), other.alias), names)


def _matching(source: RowSelection, right: _Side, on: On) -> tuple[list[str], Tree | None, list[str]]:
    """Read the columns of USING or the condition of ON, and the names that are the same on both sides."""
    if on is None:
        return _by_unit(source, right)
    found = [read(each) for each in ([on] if isinstance(on, str) else on)]
    same = [each.name for each in found if isinstance(each, exp.Column) and not each.table]
    if len(same) == len(found) and not any(_derived(source, name) for name in same):
        return same, None, same
    ours = {key: each for key, each in source.names.items() if key not in right.names}
    conditions = [_equal(each.name, source, right) if each.name in same else meant(each, ours) for each in found]
    return [], conjunction(conditions), same


def _by_unit(source: RowSelection, right: _Side) -> tuple[list[str], Tree | None, list[str]]:
    """Two private tables are joined on the unit unless it is said otherwise."""
    ours, theirs = source.table.id, right.table.id
    if ours is None or theirs is None:
        return [], None, []
    if ours.lower() == theirs.lower() and source.table.period is None:
        return [ours], None, [ours]
    left = [column(source.alias, ours), *_period(source.table, source.alias)]
    other = [column(right.alias, theirs), *_period(right.table, right.alias)]
    pairs = zip(left, other, strict=True)
    return [], conjunction([exp.EQ(this=here, expression=there) for here, there in pairs]), []


def _period(table: Described, alias: str) -> list[Tree]:
    """Write what says in which period a row lies, where a unit is an id within a period."""
    if table.period is None:
        return []
    moment = column(alias, table.period.column)
    if period_words(table) == quoted(table.period.column):
        return [moment]
    return [filled(read(f"DATE_TRUNC('{table.period.every}', x)"), {"x": moment})]


def _derived(source: RowSelection, name: str) -> bool:
    """Tell whether a name stands for something else than a column that is called so."""
    known = source.names.get(name.lower())
    return known is not None and not (isinstance(known[1], exp.Column) and known[1].name.lower() == name.lower())


def _equal(name: str, source: RowSelection, right: _Side) -> Tree:
    known = source.names.get(name.lower())
    ours = column(source.alias, name) if known is None else operand(known[1])
    return exp.EQ(this=ours, expression=column(right.alias, name))


def _both_sides(source: RowSelection, right: _Side, same: Sequence[str]) -> Names:
    """List the names after a join: those of columns of both sides have to be told apart by their table, as in SQL."""
    shared = {name.lower() for name in same}
    ours, theirs = source.names, {key: each for key, each in right.names.items() if key not in shared}
    twice = ours.keys() & theirs.keys()
    for key in sorted(twice):
        if _derived(source, key):
            rule = f"{ours[key][0]} was derived, and is a column of the joined table too"
            raise Unsupported("duplicate-column", rule, fix="derive it under another name")
    return {key: each for key, each in {**ours, **theirs}.items() if key not in twice}


def _listed(source: RowSelection, right: _Side, same: Sequence[str]) -> Names:
    """Take what is the same on both sides for the public column where the private one declares no values, as in SQL."""
    known = {name.lower(): domain for name, domain in source.columns.items()}
    both = [key for key in map(str.lower, same) if key in known and key in right.names]
    return {key: right.names[key] for key in both if unlisted(known[key])}


def union_all(source: RowSelection, other: RowSelection) -> RowSelection:
    """Put the rows of two views about the same units one after the other, with the columns that both have."""
    with refused_at(step := f"union all {other.alias}"):
        shared = [shown for key, (shown, _) in source.names.items() if key in other.names]
        members = [_alike(each, shared) for each in (source, other)]
        both = exp.Union(this=members[0], expression=members[1], distinct=False)
        tree = _from(exp.Subquery(this=both, alias=_alias(source.alias)))
        return source.then(step, tree, owned(source.alias, shared))


def _alike(source: RowSelection, shared: Sequence[str]) -> exp.Select:
    """Make a member of a union: its columns in the order of the others', whose row it is first."""
    names = [name for name in shared if source.table.id is None or name.lower() != source.table.id.lower()]
    first = [] if source.table.id is None else [column(source.alias, source.table.id)]
    return source.selecting([*first, *(called(source.names[name.lower()][1], name) for name in names)])


# One row per unit


def per_unit(source: RowSelection, keys: Sequence[str], asked: Mapping[str, Asked]) -> RowSelection:
    """Make one row for each unit (and key), with what is asked of its rows."""
    with refused_at(step := f"per {source.table.id or 'unit'}: {_list(keys, asked)}"):
        if source.table.id is None:
            raise _no_unit(source.table)
        grouped = keyed(source, keys, {})
        period = [each for each in _period(source.table, source.alias) if each not in [tree for _, tree, _ in grouped]]
        unit = column(source.alias, source.table.id)
        results = [called(aggregate(each, source.names), name) for name, each in asked.items()]
        inner = source.selecting([unit, *(called(tree, name) for name, tree, _ in grouped), *results])
        inner.set("group", exp.Group(expressions=[unit, *period, *(tree.copy() for _, tree, _ in grouped)]))
        tree = _from(_subquery(plainly(inner, source.alias), source.alias))
        return source.then(step, tree, owned(source.alias, [*(name for name, _, _ in grouped), *asked]))


def _no_unit(table: Described) -> Unsupported:
    if table.every_row:
        rule = "every row is a unit here, so each group by unit would be one row"
        return Unsupported("rows-are-units", rule, fix="leave per_unit out and use the columns as they are")
    rule = f"whose row it is has no name of its own in {table.name}"
    return Unsupported("no-unit-name", rule, fix=f"begin with the table that knows it, and join {table.name}")


# Statements

Keys = tuple[tuple[str, Tree, Tree], ...]
"""Of each key the name, what rows are grouped by, and what is shown of it."""
Wanted = str | Histogram


@dataclass(frozen=True)
class QuestionBuilder:
    """A statement is a whole question under construction: rows, keys, and what is asked of every group."""

    source: RowSelection
    keys: Keys = field(repr=False)
    results: Names = field(repr=False, hash=False)
    """Keys and aggregates by name: what HAVING, ORDER BY and further columns may use."""
    outputs: tuple[str, ...]
    steps: tuple[str, ...] = field(compare=False)
    condition: Tree | None = field(default=None, repr=False)
    order: tuple[Tree, ...] = field(default=(), repr=False)
    most: int | None = None
    skipped: int = 0

    @property
    def tree(self) -> exp.Select:
        """Give the statement as the SQL parser would give it."""
        made = self.source.selecting([called(self.results[name.lower()][1], name) for name in self.outputs])
        if self.keys:
            made.set("group", exp.Group(expressions=[tree.copy() for _, tree, _ in self.keys]))
        if self.condition is not None:
            made.set("having", exp.Having(this=self.condition.copy()))
        if self.order:
            made.set("order", exp.Order(expressions=[each.copy() for each in self.order]))
        if self.most is not None:
            made.set("limit", exp.Limit(expression=exp.Literal(this=str(self.most), is_string=False)))
        if self.skipped:
            made.set("offset", exp.Offset(expression=exp.Literal(this=str(self.skipped), is_string=False)))
        return plainly(made, self.source.alias)

    @property
    def query(self) -> Query:
        """Say what it means, or refuse it: this is decided as for a text."""
        with refused_at(self.steps[-1]):
            return query(self.tree, self.source.catalog)

    @property
    def text(self) -> str:
        """Write the statement as SQL, for people and receipts."""
        return self.tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)


def keyed(source: RowSelection, keys: Sequence[Wanted], made: Mapping[str, Wanted]) -> Keys:
    """Read the keys of GROUP BY: columns, histograms of them, and expressions under a name."""
    with refused_at(f"group by {_list(keys, made)}"):
        plain = [(_key_name(each), each) for each in keys]
        named = [(identifier(name).name, each) for name, each in made.items()]
        known = source.rows
        return tuple((name, *_key(each, source.names, known)) for name, each in (*plain, *named))


def _key_name(key: Wanted) -> str:
    """Call a column by its own name, and bins of a column by the column's."""
    tree = read(key.of if isinstance(key, Histogram) else key)
    if isinstance(tree, exp.Column):
        return tree.name
    written = f"sf.{key}" if isinstance(key, Histogram) else f'"{told(key)}"'
    fix = f"write band={written}, or derive it first"
    raise Unsupported("unnamed-column", "a computed key needs a name", fix=fix)


def _key(key: Wanted, names: Names, known: RowSource) -> tuple[Tree, Tree]:
    """Write what rows are grouped by, and what is shown of it."""
    if isinstance(key, Histogram):
        grouped, label = key.trees(names, known)
    else:
        grouped = label = meant(read(key), names)
    expression(grouped.copy(), known.resolve)  # refuses what is not understood
    return grouped, label


def statement(source: RowSelection, keys: Keys, asked: Mapping[str, Asked]) -> QuestionBuilder:
    """Make the question that asks these aggregates of every group."""
    grouped = [f"group by {', '.join(name for name, _, _ in keys)}"] if keys else []
    with refused_at(step := f"measure {_list((), asked)}"):
        results = {name.lower(): (name, tree) for name, _, tree in keys}
        for name, each in asked.items():
            if name.lower() in results:
                raise Unsupported("duplicate-column", f"two columns are called {name}", fix="give one another name")
            identifier(name)
            results[name.lower()] = (name, aggregate(each, source.names))
        outputs = tuple(shown for shown, _ in results.values())
        return QuestionBuilder(source, keys, results, outputs, (*source.steps, *grouped, step))


def having(found: QuestionBuilder, text: str) -> QuestionBuilder:
    """Keep the groups whose noisy numbers meet a condition."""
    with refused_at(step := f"having {told(text)}"):
        before = [] if found.condition is None else [found.condition]
        condition = conjunction([*before, _finished(read(text), found)])
        return replace(found, condition=condition, steps=(*found.steps, step))


def order_by(found: QuestionBuilder, texts: Sequence[str]) -> QuestionBuilder:
    """Show the groups in the order of these columns, each with ASC or DESC."""
    with refused_at(step := f"order by {', '.join(map(told, texts))}"):
        numbered = {
            name.lower(): (name, tree) for name, tree, _ in found.keys
        }  # bins in their order, not their labels'
        by = replace(found, results={**found.results, **numbered})
        order = tuple(_finished(fragment(text, exp.Ordered), by) for text in texts)
        return replace(found, order=order, steps=(*found.steps, step))


def head(found: QuestionBuilder, most: int, skipped: int) -> QuestionBuilder:
    """Show the first so many groups."""
    return replace(found, most=most, skipped=skipped, steps=(*found.steps, f"at most {most} rows"))


def select(found: QuestionBuilder, names: Sequence[str], made: Mapping[str, str]) -> QuestionBuilder:
    """Choose the columns that are shown: some of those there are, and arithmetic over them."""
    with refused_at(step := f"select {_list(names, made)}"):
        for name in names:
            if not isinstance(name, str) or name.lower() not in found.results:
                rule = f"no column of the answer is called {str(name)[:60]}"
                raise Unsupported(
                    "unknown-column", rule, fix=nearest(str(name), [shown for shown, _ in found.results.values()])
                )
        further = {name.lower(): (identifier(name).name, _finished(read(text), found)) for name, text in made.items()}
        outputs = (*names, *made)
        return replace(found, results={**found.results, **further}, outputs=outputs, steps=(*found.steps, step))


def _finished(node: Tree, found: QuestionBuilder) -> Tree:
    """Names within an aggregate of rows are columns of rows; elsewhere, and in a window over the groups, they are
    columns of the answer first.
    """
    found_in = [part for part in parts(node) if isinstance(part, (exp.AggFunc, exp.Filter))]
    aggregates = [part for part in found_in if not isinstance(part.parent, exp.Window)]
    for part in aggregates:
        for each in list(part.iter_expressions()):
            each.replace(meant(each, found.source.names))
    return meant(node, {**found.source.names, **found.results}, {id(part) for part in aggregates})


def _list(names: Sequence[object], made: Mapping[str, object]) -> str:
    return ", ".join([*map(told, names), *(f"{name} = {told(each)}" for name, each in made.items())])
