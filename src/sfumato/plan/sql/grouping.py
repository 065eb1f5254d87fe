"""Lower GROUP BY to the keys of the groups, and the grouping sets.

ROLLUP, CUBE and GROUPING SETS are lists of sets of keys; several items of GROUP BY are combined, every set of one with
every set of the next, as in SQL. All keys together are what is measured: a row of a smaller set is the sum of the
groups it is made of.

*Why not measure each set by itself?* Let n groups of all keys be measured with noise of variance v each. Added up, the
rows of any set have the variance n·v together, so L sets have L·n·v. Measured apart at an L-th of the price, Laplace
noise has the variance L²·v. Least squares then makes the totals agree (Hay, Rastogi, Miklau & Suciu 2010), but leaves
all of it in the directions in which groups differ and no total does: n/2 of n for ROLLUP, n/2^k for CUBE of k keys, if
every total has two parts in each key. That alone is at least L·n·v: adding up never has more squared error in all. It
leaves the groups as exact as they are without subtotals, it costs nothing beside them, and who has bought the groups
has bought their totals. (Gaussian noise at an L-th of the price has the variance L·v where all rows of a unit are in
one group, else more: about the same in all. Sets without the one of all keys are another matter: to ask for each of
them apart has less noise once the groups of all keys are many.)

Rewrite PIVOT and UNPIVOT as GROUP BY with FILTER and as UNION ALL.

The columns of a pivot are the values written after IN, or the values that the policy declares; never the values of
rows. So the columns of an answer are known before anything is measured.

Whole PIVOT and UNPIVOT statements to propose, made of the table, columns and declared values of the question.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.descriptions import literal_sql
from sfumato.plan.nodes import Query
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.dialect import find_nodes, has_node
from sfumato.plan.sql.row_sources import RowSource
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import default_column_name, full_sql_text, node_text, refusal_at
from sfumato.plan.values.expressions import Expression, columns
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

MAX_KEYS = 100
MAX_SETS = 64
Items = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Grouping:
    """All keys of a query, and its grouping sets as indices of keys."""

    keys: tuple[Expression, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """Empty for the single set of all keys."""


def lower_grouping(select: exp.Select, source: RowSource) -> Grouping:
    """Lower GROUP BY, or SELECT DISTINCT."""
    group = select.args.get("group")
    if select.args.get("distinct"):
        _check_select_distinct(select)
        return Grouping(tuple(dict.fromkeys(_lower_key(item, select, source) for item in select.expressions)))
    if group is None:
        return Grouping()
    sets = _grouping_sets(group, select)
    keys: dict[Expression, int] = {}
    key_sets = [_key_indices(items, keys, select, source) for items in sets]
    if len(keys) > MAX_KEYS:
        raise refusal_at(
            group, "too-many-columns", f"GROUP BY can have at most {MAX_KEYS} columns", "group by fewer columns"
        )
    return Grouping(tuple(keys), tuple(key_sets) if len(key_sets) > 1 else ())


def _key_indices(items: Items, keys: dict[Expression, int], select: exp.Select, source: RowSource) -> tuple[int, ...]:
    indices = (keys.setdefault(_lower_key(item, select, source), len(keys)) for item in items)
    return tuple(dict.fromkeys(indices))


def _lower_key(node: exp.Expr, select: exp.Select, source: RowSource) -> Expression:
    key = lower_expression(_resolve_item(node.unalias(), select, source), source.resolve)
    if not columns(key):
        raise refusal_at(node, "constant-key", "a group key must read at least one column", "group by a column")
    return key


def _check_select_distinct(select: exp.Select) -> None:
    """Refuse SELECT DISTINCT with groups or aggregates: alone it lists values of columns, as GROUP BY does."""
    has_aggregates = any(has_node(item, exp.AggFunc, exp.Window) for item in select.expressions)
    if select.args["distinct"].args.get("on") or select.args.get("group") or has_aggregates:
        rule = "SELECT DISTINCT cannot be combined with GROUP BY, aggregates or windows"
        raise refusal_at(select, "select-distinct", rule, "leave out DISTINCT: every group appears once anyway")
    if any(item.is_star for item in select.expressions):
        raise refusal_at(
            select,
            "star",
            "rows are never shown, so SELECT DISTINCT * is not supported",
            "name the columns whose values you want",
        )


def _grouping_sets(group: exp.Group, select: exp.Select) -> list[Items]:
    for part, value in group.args.items():
        if value and part not in ("expressions", "all", "rollup", "cube"):
            rule = f"GROUP BY {part.upper()} is not supported"
            raise refusal_at(group, "grouping-sets", rule, "use ROLLUP, CUBE, GROUPING SETS, or name the columns")
    if group.args.get("all"):
        return [tuple(item.unalias() for item in select.expressions if _is_grouped_by_all(item))]
    modifiers = [modifier for name in ("rollup", "cube") for modifier in group.args.get(name) or []]
    if modifiers:  # GROUP BY a, b WITH ROLLUP
        return _expand_item(type(modifiers[0])(expressions=group.expressions), group)
    if len(group.expressions) > MAX_KEYS:
        raise refusal_at(
            group, "too-many-columns", f"GROUP BY can have at most {MAX_KEYS} columns", "group by fewer columns"
        )
    grouping_sets: list[Items] = [()]
    for item in group.expressions:
        grouping_sets = [(*prefix, *items) for prefix in grouping_sets for items in _expand_item(item, group)]
        if len(grouping_sets) > MAX_SETS:
            raise _too_many_sets(group)
    return grouping_sets


def _is_grouped_by_all(item: exp.Expr) -> bool:
    """Return whether GROUP BY ALL groups by an item: it reads a column, and is no aggregate."""
    return not has_node(item, exp.AggFunc, exp.Window) and has_node(item, exp.Column)


def _expand_item(item: exp.Expr, group: exp.Group) -> list[Items]:
    """Return the sets that one item of GROUP BY stands for."""
    if isinstance(item, exp.GroupingSets):
        grouping_sets = [items for part in item.expressions for items in _expand_item(part, group)]
    elif isinstance(item, exp.Rollup):
        parts = [_tuple_items(element) for element in item.expressions]
        grouping_sets = [tuple(itertools.chain(*parts[:count])) for count in range(len(parts), -1, -1)]
    elif isinstance(item, exp.Cube):
        parts = [_tuple_items(element) for element in item.expressions]
        if 2 ** len(parts) > MAX_SETS:
            raise _too_many_sets(group)
        sizes = range(len(parts), -1, -1)
        grouping_sets = [
            tuple(itertools.chain(*subset)) for size in sizes for subset in itertools.combinations(parts, size)
        ]
    else:
        grouping_sets = [_tuple_items(item)]
    if len(grouping_sets) > MAX_SETS:
        raise _too_many_sets(group)
    return grouping_sets


def _tuple_items(item: exp.Expr) -> Items:
    """Read (a, b) as two keys, and () as none."""
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.unnest(),)


def _too_many_sets(group: exp.Group) -> Exception:
    return refusal_at(
        group,
        "grouping-sets",
        f"a question can have at most {MAX_SETS} grouping sets",
        "list only those you need with GROUPING SETS (…)",
    )


def _resolve_item(node: exp.Expr, select: exp.Select, source: RowSource) -> exp.Expr:
    """Return the node that a GROUP BY item refers to: an ordinal, an output's alias, or itself."""
    item: exp.Expr | None = None
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.this) if node.this.isdigit() else 0
        if not 1 <= index <= len(select.expressions):
            raise refusal_at(
                node,
                "ordinal",
                "GROUP BY <number> must be the position of a column in SELECT, counted from 1",
                "name the column",
            )
        item = select.expressions[index - 1]
        if has_node(item, exp.AggFunc, exp.Window):
            rule = f"column {index} of SELECT is an aggregate, so it cannot be a group key"
            raise refusal_at(node, "ordinal", rule, "name a column of the table, or use GROUP BY ALL")
    elif isinstance(node, exp.Column) and not node.table and not is_table_column(node, source):
        aliases = (output for output in select.expressions if isinstance(output, exp.Alias))
        item = next((output for output in aliases if output.alias.lower() == node.name.lower()), None)
    return node if item is None else item.unalias()


def is_table_column(node: exp.Column, source: RowSource) -> bool:
    """Return whether a column of the table has this name, whatever the answer's columns are called."""
    return any(node.name.lower() == name.lower() for names in source.scope.values() for name in names)


_MAX_EXAMPLE_VALUES = 4
"""The most values that a proposal lists."""
_DEFAULT_COLUMNS = 2
"""The columns that a proposed UNPIVOT takes where the question names none."""


@dataclass(frozen=True)
class PivotedRows:
    """The rows that are pivoted: where they come from, and their columns with their domains."""

    source: exp.Expr
    ctes: tuple[exp.Expr, ...]
    """The common table expressions that the source may name."""
    domains: dict[str, Domain]
    private: bool
    """Whether they are rows of a table, which must be grouped."""

    def column_ignoring_case(self, name: str) -> str | None:
        """Return a column as the policy spells it; None where there is none of that name."""
        return next((column for column in self.domains if column.lower() == name.lower()), None)

    @property
    def with_clause_text(self) -> str:
        return f"WITH {', '.join(map(full_sql_text, self.ctes))} " if self.ctes else ""

    @property
    def source_text(self) -> str:
        return full_sql_text(self.source)


def pivot_fix(pivot: exp.Pivot, fields: Sequence[exp.Expr], aggregates: Sequence[exp.Expr], rows: PivotedRows) -> str:
    """Propose the PIVOT statement nearest to the question, with values that can be typed."""
    names = [(field.this if isinstance(field, exp.In) else field).name for field in fields]
    key = next(filter(None, map(rows.column_ignoring_case, (*names, *_columns_with_declared_values(rows)))), None)
    if key is None:
        return "write the values after IN, one aggregate after USING, and the columns of a row after GROUP BY"
    values = _typed_values(fields, key) or _example_values(rows.domains[key])
    used = ", ".join(map(full_sql_text, aggregates)) or _aggregate_fix(rows, key)
    read = {key.lower(), *(column.name.lower() for node in aggregates for column in node.find_all(exp.Column))}
    group = _group_by_fix(pivot, names, read, rows)
    source = rows.source_text if group or not rows.private else _subquery_fix(read, rows)
    return f"write {rows.with_clause_text}PIVOT {source} ON {quoted(key)} IN ({', '.join(values)}) USING {used}{group}"


def _subquery_fix(read: set[str], rows: PivotedRows) -> str:
    """Return a subquery of the columns that are read: a pivot of it has one row, and needs no group."""
    columns = ", ".join(quoted(name) for name in rows.domains if name.lower() in read)
    return f"(SELECT {columns} FROM {rows.source_text})"


def _group_by_fix(pivot: exp.Pivot, names: Sequence[str], read: set[str], rows: PivotedRows) -> str:
    """Return GROUP BY as it was typed; without one, by a column with declared values, whose groups are certain."""
    group = pivot.args.get("group")
    if group is not None and all(isinstance(item, exp.Column) for item in group.expressions):
        return f" {full_sql_text(pivot.args['group']).strip()}"
    typed_first = sorted(
        _columns_with_declared_values(rows), key=lambda name: name.lower() not in {typed.lower() for typed in names}
    )
    chosen = next((name for name in typed_first if name.lower() not in read), None)
    return "" if chosen is None else f" GROUP BY {quoted(chosen)}"


def _columns_with_declared_values(rows: PivotedRows) -> list[str]:
    """Return the columns whose values are declared."""
    return [name for name, domain in rows.domains.items() if domain.values or domain.type is Type.BOOLEAN]


def _typed_values(fields: Sequence[exp.Expr], key: str) -> list[str]:
    """Return the values that the question lists, where all of them are values."""
    typed = [
        field.expressions for field in fields if isinstance(field, exp.In) and field.this.name.lower() == key.lower()
    ]
    items = typed[0][:_MAX_EXAMPLE_VALUES] if typed else []
    is_valid = all(isinstance(item.unalias(), (exp.Literal, exp.Boolean)) for item in items)
    return [item.sql(dialect="duckdb") for item in items] if is_valid else []


def _example_values(domain: Domain) -> list[str]:
    """Return values to type: the declared ones, the ends of the bounds, or invented ones."""
    if domain.type is Type.BOOLEAN:
        return ["TRUE", "FALSE"]
    invented: tuple[object, ...] = ("a", "b") if domain.type is Type.TEXT else (1, 2)
    values = (domain.values or domain.bounds or invented)[:_MAX_EXAMPLE_VALUES]
    return [literal_sql(value, domain.type) for value in values]


def _aggregate_fix(rows: PivotedRows, key: str) -> str:
    """Return an aggregate for a question without one."""
    numeric = [name for name, domain in rows.domains.items() if domain.type.numeric and name.lower() != key.lower()]
    return "COUNT(*)" if rows.private or not numeric else f"SUM({quoted(numeric[-1])})"


def unpivot_fix(chosen: Sequence[str], rows: PivotedRows) -> str:
    """Propose the UNPIVOT statement nearest to the question, over aggregated rows."""
    chosen_columns = [name for name in rows.domains if name.lower() in {column.lower() for column in chosen}]
    numeric = [
        name for name, domain in rows.domains.items() if domain.type.numeric and (domain.range or not rows.private)
    ]
    columns = chosen_columns or numeric[-_DEFAULT_COLUMNS:] or list(rows.domains)[-1:]
    if not columns:
        return "write UNPIVOT over a subquery that aggregates, ON the columns that it selects"
    column_list = ", ".join(map(quoted, columns))
    source = f"({_aggregated_fix(columns, numeric, rows)})" if rows.private else rows.source_text
    return f"write {rows.with_clause_text}UNPIVOT {source} ON {column_list} INTO NAME name VALUE value"


def _aggregated_fix(columns: Sequence[str], numeric: Sequence[str], rows: PivotedRows) -> str:
    """Return the SELECT of one aggregate of each column, all of the same type."""
    function = "AVG" if set(columns) <= set(numeric) else "COUNT"
    items = (f"{function}({quoted(name)}) AS {quoted(name)}" for name in columns)
    return f"SELECT {', '.join(items)} FROM {rows.source_text}"


MAX_VALUES = 100
_ROW_CODES = ("star", "no-aggregate")
"""The codes by which a SELECT of all columns of private rows is refused."""
LowerProbe = Callable[[exp.Select], Query]


def expand_pivots(select: exp.Select, catalog: Catalog, lower: LowerProbe) -> exp.Select:
    """Return a SELECT in which every PIVOT and UNPIVOT of FROM is a subquery."""
    if not any(source.args.get("pivots") for source in find_nodes(select, exp.Table, exp.Subquery)):
        return select
    expanded = select.copy()
    sources = [source for source in expanded.find_all(exp.Table, exp.Subquery) if source.args.get("pivots")]
    for source in reversed(sources):  # inner ones first
        pivots = source.args["pivots"]
        if len(pivots) > 1:
            raise refusal_at(source, "pivot", "only one PIVOT can follow a table", "write the first one as a subquery")
        bare = source.copy()
        bare.set("pivots", None)
        bare.set("alias", None)
        rows = _pivoted_rows(source, bare, catalog, lower)
        body = (
            _unpivot_as_union(pivots[0], rows) if pivots[0].args.get("unpivot") else _pivot_as_select(pivots[0], rows)
        )
        alias = pivots[0].args.get("alias") or source.args.get("alias")
        source.replace(exp.Subquery(this=body, alias=alias.copy() if alias is not None else _pivoted_alias()))
    return expanded


def _pivoted_alias() -> exp.Expr:
    return exp.TableAlias(this=exp.to_identifier("pivoted"))


def _pivoted_rows(source: exp.Expr, bare: exp.Expr, catalog: Catalog, lower: LowerProbe) -> PivotedRows:
    scope = tuple(_visible_ctes(source))
    names = {cte.alias.lower() for cte in scope}
    tables = {name.lower(): table for name, table in catalog.tables.items()}
    if isinstance(bare, exp.Table) and bare.name.lower() not in names and bare.name.lower() in tables:
        return PivotedRows(bare, scope, dict(tables[bare.name.lower()].columns), private=True)
    probe = exp.select("*").from_(_source_with_alias(bare))
    if scope:
        probe.set("with_", exp.With(expressions=[cte.copy() for cte in scope]))
    try:
        outputs = lower(probe).outputs
    except Unsupported as refusal:
        if refusal.code not in _ROW_CODES:
            raise
        below = [tables[table.name.lower()] for table in bare.find_all(exp.Table) if table.name.lower() in tables]
        return PivotedRows(bare, scope, _selected_domains(bare, below), private=True)
    return PivotedRows(bare, scope, {output.name: output.expression.domain for output in outputs}, private=False)


def _selected_domains(bare: exp.Expr, tables: Sequence[CatalogTable]) -> dict[str, Domain]:
    """Return the domains of the bare columns that a subquery selects; of all, if it selects ``*``."""
    domain_by_name = {name.lower(): domain for table in tables for name, domain in table.columns.items()}
    selected = bare.this.expressions if isinstance(bare.this, exp.Select) else []
    if any(item.is_star for item in selected):
        return {name: domain for table in tables for name, domain in table.columns.items()}
    return {item.name: domain_by_name[item.name.lower()] for item in selected if item.name.lower() in domain_by_name}


def _aliased_as_pivoted(subquery: exp.Expr) -> exp.Expr:
    copied = subquery.copy()
    copied.set("alias", _pivoted_alias())
    return copied


def _visible_ctes(node: exp.Expr) -> list[exp.Expr]:
    """Return the common table expressions that a node in FROM may reference, outermost first."""
    visible: list[exp.Expr] = []
    inside: exp.Expr = node
    while inside.parent is not None:
        parent = inside.parent
        definitions = parent.args["with_"].expressions if parent.args.get("with_") else []
        if isinstance(inside, exp.With):
            definitions = []  # those before the one that holds the node are added below
        visible = [*definitions, *visible]
        if isinstance(parent, exp.With):
            visible = [*parent.expressions[: parent.expressions.index(inside)], *visible]
        inside = parent
    return visible


def _pivot_as_select(pivot: exp.Pivot, rows: PivotedRows) -> exp.Select:
    """Return GROUP BY the other columns with one FILTER for each value and aggregate."""
    is_statement = bool(pivot.args.get("using"))
    fields = pivot.expressions if is_statement else pivot.args.get("fields") or []
    aggregates = pivot.args["using"] if is_statement else pivot.expressions
    if not is_statement and not fields:  # PIVOT t ON a, without USING
        fields, aggregates = pivot.expressions, []
    fix = pivot_fix(pivot, fields, aggregates, rows)
    if len(fields) != 1 or not aggregates:
        raise refusal_at(pivot, "pivot", "PIVOT takes one column and at least one aggregate", fix)
    (field,) = fields
    key = field.this if isinstance(field, exp.In) else field
    values = (
        _typed_values_and_names(field, fix)
        if isinstance(field, exp.In)
        else _declared_values_and_names(field, rows, fix)
    )
    keys = _group_columns(pivot, key, aggregates, rows, fix)
    items: list[exp.Expr] = [exp.column(name, quoted=True) for name in keys]
    items += [
        _filtered_aggregate(aggregate, key, value, _pivot_column_name(label, aggregate, len(aggregates)))
        for value, label in values
        for aggregate in aggregates
    ]
    select = exp.select(*items).from_(_source_with_alias(rows.source))
    return select.group_by(*(exp.column(name, quoted=True) for name in keys)) if keys else select


def _typed_values_and_names(field: exp.In, fix: str) -> list[tuple[exp.Expr, str]]:
    """Return the values after IN with the names of their columns."""
    values: list[tuple[exp.Expr, str]] = []
    for item in field.expressions:
        value = item.this if isinstance(item, (exp.PivotAlias, exp.Alias)) else item
        if not isinstance(value, (exp.Literal, exp.Boolean)):
            rule = f"the columns of PIVOT must be values written in the question; {node_text(value)} is not one"
            raise refusal_at(field, "pivot-values", rule, fix)
        is_named = isinstance(item, (exp.PivotAlias, exp.Alias))
        label = item.alias if is_named else value.name or node_text(value).lower()
        values.append((value, label))
    if not 0 < len(values) <= MAX_VALUES:
        rule = f"PIVOT takes from 1 to {MAX_VALUES} values after IN, written in the question"
        raise refusal_at(field, "pivot-values", rule, fix)
    return values


def _declared_values_and_names(field: exp.Expr, rows: PivotedRows, fix: str) -> list[tuple[exp.Expr, str]]:
    """Return the values that the policy declares for a column."""
    column = rows.column_ignoring_case(field.name)
    values = rows.domains[column].values if column is not None and not _is_private_subquery(rows) else None
    if not values or len(values) > MAX_VALUES:
        rule = f"PIVOT ON {node_text(field)} needs a list of values, since column names must not be read from the data"
        raise refusal_at(field, "pivot-values", rule, fix)
    return [(exp.convert(value), str(value)) for value in values]


def _is_private_subquery(rows: PivotedRows) -> bool:
    return rows.private and not isinstance(rows.source, exp.Table)


def _group_columns(
    pivot: exp.Pivot, key: exp.Expr, aggregates: Sequence[exp.Expr], rows: PivotedRows, fix: str
) -> list[str]:
    """Return the columns that PIVOT groups by: those of GROUP BY, or all that it does not read."""
    group = pivot.args.get("group")
    if group is not None and not all(isinstance(item, exp.Column) for item in group.expressions):
        raise refusal_at(pivot, "pivot", "GROUP BY of PIVOT takes columns by their names", fix)
    if group is not None:
        return [item.name for item in group.expressions]
    read = {column.name.lower() for node in (key, *aggregates) for column in node.find_all(exp.Column)}
    if rows.private and not (_is_private_subquery(rows) and _selects_only(rows.source, read)):
        raise refusal_at(pivot, "pivot", "PIVOT of a table would group by all its other columns", fix)
    return [name for name in rows.domains if name.lower() not in read]


def _selects_only(subquery: exp.Expr, names: set[str]) -> bool:
    """Return whether a subquery selects none but these columns, so that a pivot of it is one row."""
    selected = subquery.this.expressions if isinstance(subquery.this, exp.Select) else []
    return bool(selected) and {item.alias_or_name.lower() for item in selected} <= names


def _filtered_aggregate(aggregate: exp.Expr, key: exp.Expr, value: exp.Expr, name: str) -> exp.Expr:
    condition = exp.EQ(this=key.copy(), expression=value.copy())
    filtered = exp.Filter(this=aggregate.unalias().copy(), expression=exp.Where(this=condition))
    return exp.alias_(filtered, name, quoted=True)


def _pivot_column_name(label: str, aggregate: exp.Expr, count: int) -> str:
    if aggregate.alias:
        return f"{label}_{aggregate.alias}"
    return label if count == 1 else f"{label}_{default_column_name(aggregate)}"


def _unpivot_as_union(pivot: exp.Pivot, rows: PivotedRows) -> exp.Expr:
    """Return UNION ALL of the other columns with each unpivoted one."""
    name, value, chosen = _unpivoted_names(pivot, rows)
    unknown = [column for column in chosen if rows.column_ignoring_case(column) is None]
    if rows.private or unknown or not chosen:
        missing = f"; there is no column {unknown[0][:60]}" if unknown and not rows.private else ""
        rule = f"UNPIVOT takes columns of aggregated rows{missing}"
        raise refusal_at(pivot, "unpivot", rule, unpivot_fix(chosen, rows))
    other_columns = [column for column in rows.domains if column.lower() not in {item.lower() for item in chosen}]
    members = []
    for column in filter(None, map(rows.column_ignoring_case, chosen)):
        items: list[exp.Expr] = [exp.column(other, quoted=True) for other in other_columns]
        items += [exp.alias_(exp.Literal.string(column), name, quoted=True)]
        items += [exp.alias_(exp.column(column, quoted=True), value, quoted=True)]
        members.append(exp.select(*items).from_(_source_with_alias(rows.source)))
    united: exp.Expr = members[0]
    for member in members[1:]:
        united = exp.Union(this=united, expression=member, distinct=False)
    return united


def _unpivoted_names(pivot: exp.Pivot, rows: PivotedRows) -> tuple[str, str, list[str]]:
    """Return the names of the two new columns, and the columns to unpivot; DuckDB's names where there is no INTO."""
    into, fields = pivot.args.get("into"), pivot.args.get("fields") or []
    if not fields:
        names = ("name", "value") if into is None else (into.this.name, into.expressions[0].name)
        return *names, [item.unalias().name for item in pivot.expressions]
    if len(fields) != 1 or len(pivot.expressions) != 1:
        raise refusal_at(pivot, "unpivot", "UNPIVOT takes one name and one value", unpivot_fix((), rows))
    chosen = [item.unalias().name for item in fields[0].expressions]
    return fields[0].this.name, pivot.expressions[0].name, chosen


def _source_with_alias(source: exp.Expr) -> exp.Expr:
    return source.copy() if isinstance(source, exp.Table) else _aliased_as_pivoted(source)
