"""A builder of statements, step by step in Python: it makes the same tree as the SQL parser makes of a text.

A ``RowSelection`` is FROM, JOIN and WHERE; a ``QuestionBuilder`` adds GROUP BY, aggregates, HAVING, ORDER BY and LIMIT.
Strings of expressions are parsed by the SQL parser, part by part, and put into the tree as trees: no text is ever
concatenated with another. Each step is checked when it is made, by the rules and with the refusals of SQL.

A derived column is its expression wherever it is named later, and a condition on rows that stands before a join means
the same after it: so the statement stays as flat as people would type it, and has the same plan. A subquery is made
where the order of steps matters: one row per unit, functions over a window, and tests of other rows of the unit before
a join of two private tables, of which each unit's rows are limited first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from sqlglot import ErrorLevel, exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.nodes import Query
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.aggregations import AggregateText, Histogram, aggregate_tree
from sfumato.plan.sql.fragments import (
    Names,
    Tree,
    as_operand,
    conjunction,
    drop_qualifier,
    identifier,
    nodes_outside_subqueries,
    one_line_excerpt,
    parse_expression,
    qualified_column,
    qualified_columns,
    step_in_refusals,
    substitute_columns_in_place,
    substitute_names,
    with_alias,
)
from sfumato.plan.sql.row_sources import RowSource
from sfumato.plan.sql.rows import lacks_values_and_range, lower_rows, lower_subquery
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.statements import lower_query
from sfumato.plan.sql.text import parse_fragment, parse_select
from sfumato.plan.sql.text_positions import fix_for_unknown_name
from sfumato.plan.sql.unit_joins import period_sql
from sfumato.policy import Domain
from sfumato.quick_dataclass import dataclass

_QUERY_ALIAS = "selected_rows"
"""The alias of a SELECT that a selection starts with."""
On = str | Sequence[str] | None
"""How rows of two tables match: names of shared columns, a condition, or None for the unit."""


@dataclass(frozen=True)
class RowSelection:
    """The rows of a statement under construction: its FROM, JOIN and WHERE, and the columns that later steps
    may name.
    """

    catalog: Catalog = field(repr=False, compare=False)
    table: CatalogTable = field(repr=False, compare=False)
    """The private table it began with: its id names the unit of a row."""
    alias: str
    steps: tuple[str, ...] = field(compare=False)
    """The steps taken, in words."""
    tree: exp.Select = field(repr=False)
    """Never changed: each step copies it."""
    names: Names = field(repr=False, hash=False)

    @property
    def rows(self) -> RowSource:
        """The typed rows of all steps so far; they are refused as in SQL."""
        return lower_rows(self.select_statement([exp.Star()]), self.catalog, {})

    @property
    def columns(self) -> dict[str, Domain]:
        """Every column that can be named, with its domain."""
        source = self.rows
        return {name: lower_expression(tree.copy(), source.resolve).domain for name, tree in self.names.values()}

    @property
    def all_columns(self) -> list[Tree]:
        """Every column, and the id of the unit, for a subquery."""
        unit = self.table.id
        unit_column = (
            [qualified_column(self.alias, unit)] if unit is not None and unit.lower() not in self.names else []
        )
        return [*unit_column, *(with_alias(tree, name) for name, tree in self.names.values())]

    def select_statement(self, items: Sequence[Tree]) -> exp.Select:
        """Return the statement of all steps so far, with these columns."""
        tree = self.tree.copy()
        tree.set("expressions", [item.copy() for item in items])
        return drop_qualifier(tree, self.alias)

    def with_step(self, step: str, tree: exp.Select, names: Names | None = None) -> RowSelection:
        """Return the selection one step further, if SQL allows it."""
        selection_after = replace(
            self, tree=tree, names=self.names if names is None else names, steps=(*self.steps, step)
        )
        selection_after.rows  # noqa: B018 - refuses what is not understood
        return selection_after


def start_selection(catalog: Catalog, name: str, alias: str | None = None) -> RowSelection:
    """Start with all rows of one private table."""
    with step_in_refusals(f"table {one_line_excerpt(name)}"):
        table = _find_table(catalog, name)
        effective_alias = table.name if alias is None else alias
        tree = _select_from(_table_node(table, effective_alias))
        step = table.name if alias is None else f"{table.name} as {alias}"
        return RowSelection(
            catalog, table, effective_alias, (), tree, qualified_columns(effective_alias, table.columns)
        ).with_step(step, tree)


def select_from_query(catalog: Catalog, text: str) -> RowSelection:
    """Start with the rows of a SELECT: of joined tables, one for each unit, or of several SELECTs by UNION ALL."""
    with step_in_refusals(step := one_line_excerpt(text)):
        query = parse_select(text, None, catalog.column_names())
        source = lower_subquery(query.copy(), catalog, {})
        tree = _select_from(_subquery(query, _QUERY_ALIAS))
        names = qualified_columns(_QUERY_ALIAS, source.scope[""])
        return RowSelection(catalog, source.table, _QUERY_ALIAS, (), tree, names).with_step(step, tree)


def _find_table(catalog: Catalog, name: object) -> CatalogTable:
    tables = {table.name.lower(): table for table in catalog.tables.values()}
    table_name = identifier(name)
    if table_name.name.lower() not in tables:
        lower_rows(_select_from(exp.Table(this=table_name)), catalog, {})  # refuses it as SQL does
    return tables[table_name.name.lower()]


def _select_from(source: Tree) -> exp.Select:
    return exp.Select(from_=exp.From(this=source))


def _table_node(table: CatalogTable, alias: str) -> exp.Table:
    node = exp.Table(this=identifier(table.name))
    if alias != table.name:
        node.set("alias", _table_alias(alias))
    return node


def where(source: RowSelection, text: str) -> RowSelection:
    """Keep the rows that meet a condition."""
    with step_in_refusals(step := f"where {one_line_excerpt(text)}"):
        tree = source.tree.copy()
        conditions = [] if tree.args.get("where") is None else [tree.args["where"].this]
        tree.set(
            "where",
            exp.Where(
                this=conjunction([*conditions, substitute_names(parse_expression(text, source.names), source.names)])
            ),
        )
        return source.with_step(step, tree)


def derive(source: RowSelection, name: str, text: str) -> RowSelection:
    """Add a column: an expression over one row, or a window function over a unit's rows."""
    with step_in_refusals(step := f"derive {name} = {one_line_excerpt(text)}"):
        derived_tree = substitute_names(parse_expression(text, source.names), source.names)
        identifier(name)
        if derived_tree.find(exp.Window) is not None:
            return _derive_window(source, name, derived_tree, step)
        lower_expression(derived_tree.copy(), source.rows.resolve)
        return replace(source, names={**source.names, name.lower(): (name, derived_tree)}, steps=(*source.steps, step))


def _derive_window(source: RowSelection, name: str, window_tree: Tree, step: str) -> RowSelection:
    others = replace(source, names={key: definition for key, definition in source.names.items() if key != name.lower()})
    column_names = [name for name, _ in others.names.values()]
    return source.with_step(
        step,
        _wrap_in_select(others, [*others.all_columns, with_alias(window_tree, name)]),
        qualified_columns(source.alias, [*column_names, name]),
    )


def _wrap_in_select(source: RowSelection, items: Sequence[Tree]) -> exp.Select:
    """Return a statement over the rows of a subquery, which has the alias of the table."""
    return _select_from(_subquery(source.select_statement(items), source.alias))


def _subquery(inner: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=inner, alias=_table_alias(alias))


def _table_alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=identifier(name))


# Joins


@dataclass(frozen=True)
class _JoinSide:
    """The right side of a join."""

    table: CatalogTable
    alias: str
    tree: Tree
    names: Names


def join(source: RowSelection, other: RowSelection | str, on: On, *, left: bool) -> RowSelection:
    """Join each row with the matching rows of another table; with ``left``, rows without a match are kept."""
    name = other.alias if isinstance(other, RowSelection) else one_line_excerpt(other)
    on_text = "" if on is None else f" on {one_line_excerpt(on if isinstance(on, str) else ', '.join(map(str, on)))}"
    with step_in_refusals(step := f"{'left join' if left else 'join'} {name}{on_text}"):
        right = _join_side(source.catalog, other)
        where_clause = source.tree.args.get("where")
        if not right.table.public and where_clause is not None and where_clause.find(exp.Query) is not None:
            column_names = [column_name for column_name, _ in source.names.values()]
            source = replace(
                source,
                tree=_wrap_in_select(source, source.all_columns),
                names=qualified_columns(source.alias, column_names),
            )
        using, condition, same = _using_condition_and_same_names(source, right, on)
        clause = parse_fragment("LEFT JOIN t" if left else "JOIN t", exp.Join)
        clause.set("this", right.tree)
        clause.set("using", [identifier(column_name) for column_name in using] or None)
        clause.set("on", condition)
        tree = source.tree.copy()
        tree.append("joins", clause)
        public_columns = _public_columns(source, right, same) if right.table.public and not left else {}
        return source.with_step(step, tree, {**_names_after_join(source, right, same), **public_columns})


def _join_side(catalog: Catalog, other: RowSelection | str) -> _JoinSide:
    if not isinstance(other, RowSelection):
        table = _find_table(catalog, other)
        return _JoinSide(
            table, table.name, _table_node(table, table.name), qualified_columns(table.name, table.columns)
        )
    names = qualified_columns(other.alias, [column_name for column_name, _ in other.names.values()])
    if len(other.steps) == 1:
        return _JoinSide(other.table, other.alias, _table_node(other.table, other.alias), names)
    return _JoinSide(other.table, other.alias, _subquery(other.select_statement(other.all_columns), other.alias), names)


def _using_condition_and_same_names(
    source: RowSelection, right: _JoinSide, on: On
) -> tuple[list[str], Tree | None, list[str]]:
    """Return the columns of USING, the condition of ON, and the names that are the same on both sides."""
    if on is None:
        return _match_units(source, right)
    parsed = [parse_expression(fragment_text) for fragment_text in ([on] if isinstance(on, str) else on)]
    same = [node.name for node in parsed if isinstance(node, exp.Column) and not node.table]
    if len(same) == len(parsed) and not any(_is_derived(source, name) for name in same):
        return same, None, same
    left_names = {key: definition for key, definition in source.names.items() if key not in right.names}
    conditions = [
        _column_equality(node.name, source, right) if node.name in same else substitute_names(node, left_names)
        for node in parsed
    ]
    return [], conjunction(conditions), same


def _match_units(source: RowSelection, right: _JoinSide) -> tuple[list[str], Tree | None, list[str]]:
    """Match two private tables on the unit."""
    left_id, right_id = source.table.id, right.table.id
    if left_id is None or right_id is None:
        return [], None, []
    if left_id.lower() == right_id.lower() and source.table.period is None:
        return [left_id], None, [left_id]
    left_columns = [qualified_column(source.alias, left_id), *_period_trees(source.table, source.alias)]
    right_columns = [qualified_column(right.alias, right_id), *_period_trees(right.table, right.alias)]
    pairs = zip(left_columns, right_columns, strict=True)
    return (
        [],
        conjunction([exp.EQ(this=left_column, expression=right_column) for left_column, right_column in pairs]),
        [],
    )


def _period_trees(table: CatalogTable, alias: str) -> list[Tree]:
    """Return the trees of a row's period, where a unit is an id within a period."""
    if table.period is None:
        return []
    date_column = qualified_column(alias, table.period.column)
    if period_sql(table) == quoted(table.period.column):
        return [date_column]
    return [substitute_columns_in_place(parse_expression(f"DATE_TRUNC('{table.period.every}', x)"), {"x": date_column})]


def _is_derived(source: RowSelection, name: str) -> bool:
    """Return whether a name stands for something else than the column of that name."""
    definition = source.names.get(name.lower())
    return definition is not None and not (
        isinstance(definition[1], exp.Column) and definition[1].name.lower() == name.lower()
    )


def _column_equality(name: str, source: RowSelection, right: _JoinSide) -> Tree:
    definition = source.names.get(name.lower())
    left_operand = qualified_column(source.alias, name) if definition is None else as_operand(definition[1])
    return exp.EQ(this=left_operand, expression=qualified_column(right.alias, name))


def _names_after_join(source: RowSelection, right: _JoinSide, same: Sequence[str]) -> Names:
    """Return the names after a join; columns that both sides have must be qualified by their table, as in SQL."""
    shared = {name.lower() for name in same}
    left_names = source.names
    right_names = {key: definition for key, definition in right.names.items() if key not in shared}
    duplicates = left_names.keys() & right_names.keys()
    for key in sorted(duplicates):
        if _is_derived(source, key):
            rule = f"{left_names[key][0]} is a derived column and also a column of the joined table"
            raise Unsupported(
                "duplicate-column", rule, fix="give the derived column another name, such as derive(other_name=…)"
            )
    return {key: definition for key, definition in {**left_names, **right_names}.items() if key not in duplicates}


def _public_columns(source: RowSelection, right: _JoinSide, same: Sequence[str]) -> Names:
    """Return the public column for each matched name whose private column declares no values, as in SQL."""
    domains = {name.lower(): domain for name, domain in source.columns.items()}
    matched_names = [key for key in map(str.lower, same) if key in domains and key in right.names]
    return {key: right.names[key] for key in matched_names if lacks_values_and_range(domains[key])}


def union_all(source: RowSelection, other: RowSelection) -> RowSelection:
    """Concatenate the rows of two selections about the same units, with the columns that both have."""
    with step_in_refusals(step := f"union all {other.alias}"):
        shared = [column_name for key, (column_name, _) in source.names.items() if key in other.names]
        members = [_union_member(member, shared) for member in (source, other)]
        union = exp.Union(this=members[0], expression=members[1], distinct=False)
        tree = _select_from(exp.Subquery(this=union, alias=_table_alias(source.alias)))
        return source.with_step(step, tree, qualified_columns(source.alias, shared))


def _union_member(source: RowSelection, shared: Sequence[str]) -> exp.Select:
    """Return a member of a union: the unit first, then the columns in the order of the others'."""
    column_names = [
        column_name
        for column_name in shared
        if source.table.id is None or column_name.lower() != source.table.id.lower()
    ]
    unit_column = [] if source.table.id is None else [qualified_column(source.alias, source.table.id)]
    return source.select_statement(
        [*unit_column, *(with_alias(source.names[column_name.lower()][1], column_name) for column_name in column_names)]
    )


# One row per unit


def per_unit(source: RowSelection, keys: Sequence[str], aggregates: Mapping[str, AggregateText]) -> RowSelection:
    """Aggregate the rows to one row for each unit (and key)."""
    with step_in_refusals(step := f"per {source.table.id or 'unit'}: {_step_text(keys, aggregates)}"):
        if source.table.id is None:
            raise _no_unit_refusal(source.table)
        key_trees = lower_keys(source, keys, {})
        period = [
            period_tree
            for period_tree in _period_trees(source.table, source.alias)
            if period_tree not in [tree for _, tree, _ in key_trees]
        ]
        unit = qualified_column(source.alias, source.table.id)
        results = [with_alias(aggregate_tree(request, source.names), name) for name, request in aggregates.items()]
        inner = source.select_statement([unit, *(with_alias(tree, name) for name, tree, _ in key_trees), *results])
        inner.set("group", exp.Group(expressions=[unit, *period, *(tree.copy() for _, tree, _ in key_trees)]))
        tree = _select_from(_subquery(drop_qualifier(inner, source.alias), source.alias))
        return source.with_step(
            step, tree, qualified_columns(source.alias, [*(name for name, _, _ in key_trees), *aggregates])
        )


def _no_unit_refusal(table: CatalogTable) -> Unsupported:
    if table.every_row:
        rule = "in this table every row is its own unit, so a group per unit would hold one row"
        return Unsupported("rows-are-units", rule, fix="leave out per_unit(…) and use the columns directly")
    rule = f"{table.name} has no column with the unit's id"
    return Unsupported("no-unit-name", rule, fix=f"start from the table that has the unit's id, and join {table.name}")


# Statements

Keys = tuple[tuple[str, Tree, Tree], ...]
"""For each key its name, the grouping expression, and the displayed expression."""
OutputColumn = str | Histogram


@dataclass(frozen=True)
class QuestionBuilder:
    """A query under construction: rows, keys, and the aggregates of every group."""

    source: RowSelection
    keys: Keys = field(repr=False)
    results: Names = field(repr=False, hash=False)
    """Keys and aggregates by name, which HAVING, ORDER BY and further columns may use."""
    outputs: tuple[str, ...]
    steps: tuple[str, ...] = field(compare=False)
    condition: Tree | None = field(default=None, repr=False)
    order: tuple[Tree, ...] = field(default=(), repr=False)
    limit: int | None = None
    offset: int = 0

    @property
    def tree(self) -> exp.Select:
        """The statement as the SQL parser would return it."""
        statement_tree = self.source.select_statement(
            [with_alias(self.results[name.lower()][1], name) for name in self.outputs]
        )
        if self.keys:
            statement_tree.set("group", exp.Group(expressions=[tree.copy() for _, tree, _ in self.keys]))
        if self.condition is not None:
            statement_tree.set("having", exp.Having(this=self.condition.copy()))
        if self.order:
            statement_tree.set("order", exp.Order(expressions=[term.copy() for term in self.order]))
        if self.limit is not None:
            statement_tree.set("limit", exp.Limit(expression=exp.Literal(this=str(self.limit), is_string=False)))
        if self.offset:
            statement_tree.set("offset", exp.Offset(expression=exp.Literal(this=str(self.offset), is_string=False)))
        return drop_qualifier(statement_tree, self.source.alias)

    @property
    def query(self) -> Query:
        """The query it means, or a refusal, decided as for a text."""
        with step_in_refusals(self.steps[-1]):
            return lower_query(self.tree, self.source.catalog)

    @property
    def text(self) -> str:
        """The statement as SQL, for people and receipts."""
        return self.tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)


def lower_keys(source: RowSelection, keys: Sequence[OutputColumn], computed_keys: Mapping[str, OutputColumn]) -> Keys:
    """Lower the keys of GROUP BY: columns, histograms of them, and named expressions."""
    with step_in_refusals(f"group by {_step_text(keys, computed_keys)}"):
        plain_keys = [(_key_name(key), key) for key in keys]
        aliased_keys = [(identifier(name).name, key) for name, key in computed_keys.items()]
        row_source = source.rows
        return tuple(
            (name, *_grouped_and_displayed_trees(key, source.names, row_source))
            for name, key in (*plain_keys, *aliased_keys)
        )


def _key_name(key: OutputColumn) -> str:
    """Return the name of a column, or of the column of a histogram."""
    tree = parse_expression(key.of if isinstance(key, Histogram) else key)
    if isinstance(tree, exp.Column):
        return tree.name
    key_text = f"sf.{key}" if isinstance(key, Histogram) else f'"{one_line_excerpt(key)}"'
    fix = f"name it, as in band={key_text}, or use derive(…) first"
    raise Unsupported("unnamed-column", "a computed group key needs a name", fix=fix)


def _grouped_and_displayed_trees(key: OutputColumn, names: Names, row_source: RowSource) -> tuple[Tree, Tree]:
    """Return the grouping expression and the displayed expression of a key."""
    if isinstance(key, Histogram):
        grouped, label = key.bin_number_and_label(names, row_source)
    else:
        grouped = label = substitute_names(parse_expression(key, names), names)
    lower_expression(grouped.copy(), row_source.resolve)  # refuses what is not understood
    return grouped, label


def start_question(source: RowSelection, keys: Keys, aggregates: Mapping[str, AggregateText]) -> QuestionBuilder:
    """Return the query for these aggregates of every group."""
    group_step = [f"group by {', '.join(name for name, _, _ in keys)}"] if keys else []
    with step_in_refusals(step := f"measure {_step_text((), aggregates)}"):
        results = {name.lower(): (name, tree) for name, _, tree in keys}
        for name, request in aggregates.items():
            if name.lower() in results:
                raise Unsupported("duplicate-column", f"two columns are named {name}", fix="rename one of them")
            identifier(name)
            results[name.lower()] = (name, aggregate_tree(request, source.names))
        outputs = tuple(output_name for output_name, _ in results.values())
        return QuestionBuilder(source, keys, results, outputs, (*source.steps, *group_step, step))


def having(builder: QuestionBuilder, text: str) -> QuestionBuilder:
    """Keep the groups whose noisy numbers meet a condition."""
    with step_in_refusals(step := f"having {one_line_excerpt(text)}"):
        conditions = [] if builder.condition is None else [builder.condition]
        condition = conjunction([*conditions, _resolve_output_names(parse_expression(text), builder)])
        return replace(builder, condition=condition, steps=(*builder.steps, step))


def order_by(builder: QuestionBuilder, texts: Sequence[str]) -> QuestionBuilder:
    """Sort the groups by these columns, each with ASC or DESC."""
    with step_in_refusals(step := f"order by {', '.join(map(one_line_excerpt, texts))}"):
        # bins in their order, not their labels'
        sort_columns = {name.lower(): (name, tree) for name, tree, _ in builder.keys}
        sortable = replace(builder, results={**builder.results, **sort_columns})
        order = tuple(_resolve_output_names(parse_fragment(text, exp.Ordered), sortable) for text in texts)
        return replace(builder, order=order, steps=(*builder.steps, step))


def head(builder: QuestionBuilder, count: int, skipped: int) -> QuestionBuilder:
    """Keep the first groups."""
    return replace(builder, limit=count, offset=skipped, steps=(*builder.steps, f"at most {count} rows"))


def select(builder: QuestionBuilder, names: Sequence[str], computed_columns: Mapping[str, str]) -> QuestionBuilder:
    """Choose the columns of the answer: some of the existing ones, and arithmetic over them."""
    with step_in_refusals(step := f"select {_step_text(names, computed_columns)}"):
        for name in names:
            if not isinstance(name, str) or name.lower() not in builder.results:
                rule = f"the answer has no column named {str(name)[:60]}"
                raise Unsupported(
                    "unknown-column",
                    rule,
                    fix=fix_for_unknown_name(str(name), [output_name for output_name, _ in builder.results.values()]),
                )
        computed = {
            name.lower(): (identifier(name).name, _resolve_output_names(parse_expression(text), builder))
            for name, text in computed_columns.items()
        }
        outputs = (*names, *computed_columns)
        return replace(builder, results={**builder.results, **computed}, outputs=outputs, steps=(*builder.steps, step))


def _resolve_output_names(node: Tree, builder: QuestionBuilder) -> Tree:
    """Resolve names within an aggregate of rows as columns of rows; elsewhere, and in a window over the groups, as
    columns of the answer first.
    """
    aggregate_nodes = [part for part in nodes_outside_subqueries(node) if isinstance(part, (exp.AggFunc, exp.Filter))]
    aggregates = [part for part in aggregate_nodes if not isinstance(part.parent, exp.Window)]
    for part in aggregates:
        for argument in list(part.iter_expressions()):
            argument.replace(substitute_names(argument, builder.source.names))
    return substitute_names(node, {**builder.source.names, **builder.results}, {id(part) for part in aggregates})


def _step_text(names: Sequence[object], definitions: Mapping[str, object]) -> str:
    return ", ".join(
        [
            *map(one_line_excerpt, names),
            *(f"{name} = {one_line_excerpt(definition)}" for name, definition in definitions.items()),
        ]
    )
