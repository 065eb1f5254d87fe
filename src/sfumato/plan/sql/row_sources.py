"""A relation under construction, and the names that a query may use for its columns.

UNNEST is one of them: a row for each item of a list column.

Lower subqueries that aggregate a unit's rows to one row, or add columns by windows over them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields, is_dataclass, replace
from itertools import chain
from typing import Any

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import conjunction, not_null_predicate
from sfumato.plan.aggregates.unit_measures import (
    MAX_ROWS,
    FrameBounds,
    RunningAggregate,
    UnitFirst,
    UnitMeasure,
    UnitRowCount,
    WindowFunction,
)
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.descriptions import expression_sql, unit_measure_sql, window_sql
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import (
    Filter,
    Numbered,
    PerUnit,
    PublicJoin,
    Relation,
    Scan,
    Union,
    Unnest,
    Window,
    relations,
    unused_source_number,
)
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.dialect import has_node
from sfumato.plan.sql.sql_expressions import cached_lowering, lower_expression, lower_with
from sfumato.plan.sql.text_positions import fix_for_unknown_name, node_text, refusal_at
from sfumato.plan.sql.unit_aggregates import (
    WindowParser,
    first_value_measure,
    is_aggregate,
    lower_predicate,
    lower_unit_measure,
)
from sfumato.plan.sql.unit_joins import period_expressions_of, period_sql
from sfumato.plan.values.expressions import Column, Expression, Field, Order, Resolve, columns
from sfumato.policy import Domain, ListColumn, Type
from sfumato.quick_dataclass import dataclass

MAX_KEYS = 20
MAX_WINDOWS = 20
"""The most windows of one subquery: each may sort a unit's rows, and a sorted row carries what all of them read."""


@dataclass(frozen=True)
class SubqueryRows:
    """The rows below a subquery's SELECT, and how their columns are named."""

    relation: Relation
    resolve: Resolve
    is_unit_id: Callable[[exp.Expr], bool]
    unit: str | None
    """The name of the unit; None where every row is one."""
    period: str | None = None
    """For a unit that is an id in a period: the SQL expression of a row's period."""
    periods: frozenset[Expression] = frozenset()
    """The expressions of the period."""
    single: frozenset[Expression] = frozenset()
    """Those of them that have one value in all rows of a unit."""


@dataclass(frozen=True)
class LoweredSubquery:
    """A subquery's rows, its columns, and the names it gives to the unit."""

    relation: Relation
    columns: dict[str, Expression]
    owners: list[str]


def find_aggregates_outside_windows(select: exp.Select) -> list[exp.Expr]:
    """Return the aggregates of a SELECT outside of windows."""
    walks = (item.walk(prune=lambda node: isinstance(node, exp.Window)) for item in select.expressions)
    return [node for walk in walks for node in walk if is_aggregate(node)]


def lower_per_unit(select: exp.Select, rows: SubqueryRows) -> LoweredSubquery:
    """Lower a subquery that is grouped by the unit."""
    if rows.unit is None:
        rule = "in this table every row is its own unit, so a group per unit would hold one row"
        raise refusal_at(select, "rows-are-units", rule, "leave out GROUP BY and use the columns directly")
    group_nodes = _group_nodes(select, rows)
    if not any(map(rows.is_unit_id, group_nodes)):
        node = group_nodes[0] if group_nodes else select
        rule = "a subquery with aggregates over private rows must be grouped by the unit"
        grouping_text = ", ".join([quoted(rows.unit), *(node_text(group_node) for group_node in group_nodes)])
        raise refusal_at(
            node, "not-by-unit", rule, f"write GROUP BY {grouping_text}, or aggregate in the outermost SELECT"
        )
    keys = [_lower_key(group_node, rows) for group_node in group_nodes if not rows.is_unit_id(group_node)]
    if rows.period is not None and rows.periods.isdisjoint(keys):
        grouping_text = ", ".join([*map(node_text, group_nodes), rows.period])
        rule = "in this policy a unit is an id within one period, so grouping by the id alone would merge several units"
        raise refusal_at(group_nodes[0], "not-by-period", rule, f"write GROUP BY {grouping_text}")
    builder = _PerUnitBuilder(rows, list(dict.fromkeys(keys)), unused_source_number(rows.relation))
    columns: dict[str, Expression] = {}
    owners: list[str] = []
    for item in select.expressions:
        name, inner = item.alias_or_name, item.unalias()
        if not name:
            raise refusal_at(item, "unnamed-column", "a computed column needs a name", "add AS name")
        if name.lower() in {taken_name.lower() for taken_name in (*columns, *owners)}:
            raise refusal_at(item, "duplicate-column", f"two columns are named {name}", "rename one with AS")
        if rows.is_unit_id(inner):
            owners.append(name)
        else:
            columns[name] = builder.lower_result(inner)
    having = select.args.get("having")
    predicate = None if having is None else builder.condition(having, columns)
    relation: Relation = builder.per_unit_node
    return LoweredSubquery(relation if predicate is None else Filter(relation, predicate), columns, owners)


def _group_nodes(select: exp.Select, rows: SubqueryRows) -> list[exp.Expr]:
    """Return the nodes that GROUP BY names: columns, items of SELECT by alias or number, or all that are no
    aggregates.
    """
    group = select.args.get("group")
    if group is None:
        return []
    items = [item.unalias() for item in select.expressions]
    if group.args.get("all"):
        return [item for item in items if not any(map(is_aggregate, item.walk()))]
    for part, value in group.args.items():
        if value and part != "expressions":
            raise refusal_at(
                group, "grouping-sets", f"GROUP BY {part.upper()} is not supported in a subquery", "name the columns"
            )
    if len(group.expressions) > MAX_KEYS:
        raise refusal_at(
            group,
            "too-many-columns",
            f"GROUP BY can have at most {MAX_KEYS} columns in a subquery",
            "group by fewer columns",
        )
    return [_resolve_item(node, select, rows) for node in group.expressions]


def _resolve_item(node: exp.Expr, select: exp.Select, rows: SubqueryRows) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        ordinal = int(node.this) if node.this.isdigit() else 0
        if not 1 <= ordinal <= len(select.expressions):
            raise refusal_at(
                node,
                "ordinal",
                "GROUP BY <number> must be the position of a column in SELECT, counted from 1",
                "name the column",
            )
        return select.expressions[ordinal - 1].unalias()
    if isinstance(node, exp.Column) and not node.table and not rows.is_unit_id(node):
        column = cached_lowering(rows.resolve)(node)
        aliases = (output for output in select.expressions if isinstance(output, exp.Alias))
        item = next((output for output in aliases if output.alias.lower() == node.name.lower()), None)
        return node if column is not None or item is None else item.this
    return node


def _lower_key(node: exp.Expr, rows: SubqueryRows) -> Expression:
    key = lower_expression(node, rows.resolve)
    if not columns(key):
        raise refusal_at(node, "constant-key", "a group key must read at least one column", "group by a column")
    return key


@dataclass
class _PerUnitBuilder:
    """The results of a subquery, collected while its columns are lowered."""

    inside: SubqueryRows
    keys: list[Expression]
    source: int
    results: dict[UnitMeasure, str] = field(default_factory=dict)
    windows: dict[WindowFunction, str] = field(default_factory=dict)
    """The numbers of equal rows, by which modes are found."""

    def __post_init__(self) -> None:
        self._attempt = cached_lowering(self.inside.resolve)
        self._names: dict[Expression, str] = {}
        for key in self.keys:
            self._names[key] = self._unused_name(expression_sql(key))

    @property
    def per_unit_node(self) -> PerUnit:
        results = sorted((name, measure) for measure, name in self.results.items())
        keys = tuple((name, key) for key, name in self._names.items())
        single = bool(keys) and self.inside.single.issuperset(self.keys)
        windows = tuple(sorted((name, function) for function, name in self.windows.items()))
        rows = Window(self.inside.relation, self._window_source, windows) if windows else self.inside.relation
        return PerUnit(rows, self.source, keys, tuple(results), single)

    @property
    def _window_source(self) -> int:
        return self.source + 1

    def lower_result(self, node: exp.Expr, definitions: dict[str, Expression] | None = None) -> Expression:
        """Lower an expression over keys and results; ``definitions`` are further columns that it may name."""

        def lower_part(part: exp.Expr, _: object) -> Expression | None:
            measure = self._lower_measure_or_none(part)
            if measure is not None:
                return self._result_column(measure, part)
            lowered = self._attempt(part) if isinstance(part, (exp.Condition, exp.Func)) else None
            if lowered in self._names:
                return Column(Field(self.source, "", self._names[lowered]), lowered.domain)
            if isinstance(part, exp.Column):
                return self._resolve_name(part, definitions or {})
            return None

        return lower_with(node, lower_part)

    def condition(self, having: exp.Having, definitions: dict[str, Expression]) -> Expression:
        predicate = self.lower_result(
            having.this, {name.lower(): definition for name, definition in definitions.items()}
        )
        if predicate.domain.type is not Type.BOOLEAN:
            raise refusal_at(
                having,
                "type-mismatch",
                "HAVING must be a condition",
                "compare an aggregate with a number, such as COUNT(*) > 3",
            )
        return predicate

    def _lower_measure_or_none(self, part: exp.Expr) -> UnitMeasure | None:
        aggregate = part.this if isinstance(part, exp.Filter) else part
        mode_operand = _mode_operand(aggregate)
        if mode_operand is not None:
            return self._lower_mode(mode_operand, part)
        count_argument = aggregate.this if isinstance(aggregate, exp.Count) else None
        if isinstance(count_argument, exp.Distinct) and any(map(self.inside.is_unit_id, count_argument.expressions)):
            row_count = part.copy()
            row_count.find(exp.Count).set("this", exp.Star())  # type: ignore[union-attr]
            return lower_unit_measure(row_count, self.inside.resolve, 1)  # a unit's rows are of one unit
        return lower_unit_measure(part, self.inside.resolve, self.inside.relation.limits.rows)

    def _lower_mode(self, operand: exp.Expr, part: exp.Expr) -> UnitMeasure:
        """Lower MODE(x): x in the first row by the number of the unit's rows with the same x, greatest first; of
        values that are equally frequent, the least.

        The number is a function of the unit's rows, as every window over them is, and only orders them.
        """
        value = lower_expression(operand, self.inside.resolve)
        is_filtered = isinstance(part, exp.Filter)
        condition = lower_predicate(part.expression.this, self.inside.resolve) if is_filtered else None
        where = conjunction(condition, not_null_predicate(value))
        partition = tuple(sorted({value, *self.keys}, key=repr))
        equal_rows = RunningAggregate(partition, (), UnitRowCount(where, MAX_ROWS), FrameBounds.WHOLE)
        if equal_rows not in self.windows:
            self.windows[equal_rows] = _unused_name(window_sql(equal_rows), self.windows.values())
        frequency = Column(Field(self._window_source, "", self.windows[equal_rows]), equal_rows.domain)
        return first_value_measure(value, (Order(frequency, descending=True, nulls_first=False),), where, last=False)

    def _result_column(self, measure: UnitMeasure, node: exp.Expr) -> Column:
        if measure not in self.results:
            if isinstance(measure, UnitFirst) and self._ordered_result_count >= MAX_WINDOWS:
                rule = (
                    f"a subquery can have at most {MAX_WINDOWS} FIRST and LAST values, since each sorts a unit's rows"
                )
                raise refusal_at(node, "too-many-windows", rule, "use fewer, or split the question")
            self.results[measure] = self._unused_name(f"{unit_measure_sql(measure)} per unit")
        return Column(Field(self.source, "", self.results[measure]), measure.domain)

    @property
    def _ordered_result_count(self) -> int:
        """The number of results so far that order a unit's rows."""
        return sum(isinstance(measure, UnitFirst) for measure in self.results)

    def _resolve_name(self, part: exp.Column, definitions: dict[str, Expression]) -> Expression:
        definition = None if part.table else definitions.get(part.name.lower())
        if definition is not None:
            return definition
        lower_expression(part, self.inside.resolve)  # an unknown column says so first
        rule = f"{node_text(part)} is neither in GROUP BY nor inside an aggregate"
        raise refusal_at(part, "not-grouped", rule, f"add {node_text(part)} to GROUP BY, or use MAX({node_text(part)})")

    def _unused_name(self, name: str) -> str:
        return _unused_name(name, {*self._names.values(), *self.results.values()})


def _mode_operand(node: exp.Expr) -> exp.Expr | None:
    """Return x of MODE(x) or MODE() WITHIN GROUP (ORDER BY x); None for any other node."""
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.Mode) and node.this.this is None:
        order_terms = node.expression.expressions
        return order_terms[0].this if len(order_terms) == 1 else None
    return node.this if isinstance(node, exp.Mode) and not isinstance(node.this, exp.Distinct) else None


def _unused_name(name: str, taken: Collection[str]) -> str:
    """Return a name that no other column has."""
    return next(
        candidate
        for candidate in chain([name], (f"{name} ({number})" for number in range(2, 10_000)))
        if candidate not in taken
    )


@dataclass
class WindowColumns:
    """The window functions of a row-wise subquery, collected while its columns are lowered."""

    inside: SubqueryRows
    functions: dict[WindowFunction, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inside = self.inside
        self._windows = WindowParser(
            inside.resolve,
            inside.is_unit_id,
            inside.unit,
            inside.relation.limits.rows,
            inside.period,
            inside.periods,
        )
        self._source = unused_source_number(inside.relation)

    @property
    def relation(self) -> Relation:
        """The rows with the columns of the windows."""
        functions = sorted((name, function) for function, name in self.functions.items())
        return Window(self.inside.relation, self._source, tuple(functions)) if functions else self.inside.relation

    def lower(self, node: exp.Expr, definitions: Mapping[str, Expression] | None = None) -> Expression:
        """Lower an expression over a row and its windows."""

        def lower_part(part: exp.Expr, _: object) -> Expression | None:
            if isinstance(part, exp.Window):
                return self._result_column(part)
            if not isinstance(part, exp.Column):
                return None
            definition = None if part.table else (definitions or {}).get(part.name.lower())
            return definition or lower_expression(part, self.inside.resolve)

        return lower_with(node, lower_part)

    def condition(self, qualify: exp.Qualify, definitions: Mapping[str, Expression]) -> Expression:
        """Lower QUALIFY, which may name the subquery's own columns."""
        predicate = self.lower(qualify.this, {name.lower(): definition for name, definition in definitions.items()})
        if predicate.domain.type is not Type.BOOLEAN:
            raise refusal_at(
                qualify,
                "type-mismatch",
                "QUALIFY must be a condition",
                "compare a window function with a number, such as ROW_NUMBER() OVER (…) <= 3",
            )
        return predicate

    def _result_column(self, node: exp.Window) -> Column:
        function = self._windows.lower(node)
        if function not in self.functions:
            if len(self.functions) >= MAX_WINDOWS:
                raise refusal_at(
                    node,
                    "too-many-windows",
                    f"a subquery can have at most {MAX_WINDOWS} window functions",
                    "use fewer, or split the question",
                )
            self.functions[function] = _unused_name(window_sql(function), self.functions.values())
        return Column(Field(self._source, "", self.functions[function]), function.domain)


Lists = Mapping[str, Mapping[str, tuple[Field, ListColumn]]]
"""By alias and name, the lists of the tables in FROM."""


def is_unnest(join: exp.Join) -> bool:
    """Return whether a join is with the items of a list."""
    return isinstance(_without_lateral(join.this), exp.Unnest)


def lower_unnest(join: exp.Join, relation: Relation, lists: Lists) -> tuple[str, str, Unnest]:
    """Lower UNNEST; return its alias, the name of the items, and the relation."""
    table_alias = join.this.args.get("alias")
    columns = [] if table_alias is None else table_alias.args.get("columns") or []
    unnest_node = _without_lateral(join.this)
    is_inner = not join.side and (join.kind or "") in ("", "INNER", "CROSS") and not join.method
    if not is_inner or join.args.get("using") or join.args.get("on") not in (None, exp.true()):
        raise _unnest_refusal(
            join, "UNNEST returns one row per item and none for an empty list, so only CROSS JOIN is supported", lists
        )
    if unnest_node.args.get("offset") or len(unnest_node.expressions) != 1 or len(columns) != 1 or not table_alias.name:
        raise _unnest_refusal(
            join, "UNNEST takes one list, with a name for the table and for the column of items", lists
        )
    items, column = _list_field_and_column(unnest_node.expressions[0], lists)
    base = relation
    while isinstance(base, (Filter, PublicJoin, Unnest)):
        base = base.input
    if not isinstance(base, Scan):
        rule = "a list must be unnested before its table is joined with another private table"
        raise _unnest_refusal(join, rule, lists, " JOIN …: UNNEST comes right after the table")
    source = unused_source_number(relation)
    return table_alias.name, columns[0].name, Unnest(relation, items, source, column.max_items, column.items)


def move_unnest_to_from(select: exp.Select) -> exp.Select:
    """Rewrite SELECT UNNEST(list) AS item, … FROM table to SELECT t.item, … FROM table, UNNEST(list) AS t(item)."""
    exploded = [item for item in select.expressions if isinstance(item.unalias(), exp.Explode)]
    # they look at rows before that
    reads_rows_before = any(has_node(output, exp.AggFunc, exp.Window) for output in select.expressions)
    if len(exploded) != 1 or not exploded[0].alias or reads_rows_before or select.args.get("group"):
        return select
    item_index, rewritten = select.expressions.index(exploded[0]), select.copy()
    item = rewritten.expressions[item_index]
    alias, name = exp.to_identifier(_ALIAS, quoted=True), item.args["alias"].copy()
    items_alias = exp.TableAlias(this=alias, columns=[name])
    rewritten.append(
        "joins", exp.Join(this=exp.Unnest(expressions=[item.this.this.copy()], alias=items_alias), kind="CROSS")
    )
    item.set("this", exp.Column(this=name.copy(), table=alias.copy()))
    return rewritten


_ALIAS = "sf items"
"""An alias that no table has."""


def list_column_refusal(name: str, lists: Lists) -> Unsupported | None:
    """Return the refusal of a list that is named where a single value is meant; None where no list has this name."""
    for alias, list_columns in lists.items():
        for list_name, (items, _) in list_columns.items():
            if list_name.lower() == name.lower():
                rule = f"{name[:60]} is a list, so it must first be unnested into one row per item"
                return Unsupported("list-column", rule, fix=_unnest_example(alias, items) + " and ask about item")
    return None


def _list_field_and_column(node: exp.Expr, lists: Lists) -> tuple[Field, ListColumn]:
    """Return the list that a column names."""
    if isinstance(node, exp.Column) and not node.args.get("db"):
        matches = [
            list_entry
            for alias, columns in lists.items()
            if not node.table or alias.lower() == node.table.lower()
            for name, list_entry in columns.items()
            if name.lower() == node.name.lower()
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            fix = f"write UNNEST({quoted(next(iter(lists)))}.{quoted(node.name)})"
            raise refusal_at(node, "ambiguous-column", f"more than one table has a list named {node.name[:60]}", fix)
    list_names = [quoted(name) for columns in lists.values() for name in columns]
    if not list_names:
        rule = "UNNEST takes a declared list of a table that comes before it in FROM, and these tables have no lists"
        fix = "declare it in the policy with most_items = <items per row>, and write UNNEST beside its own table"
        raise refusal_at(node, "unnest", rule, fix)
    rule = f"UNNEST takes a declared list of a table that comes before it in FROM, and {node_text(node)} is not one"
    raise refusal_at(node, "unnest", rule, fix_for_unknown_name(node.name, list_names))


def _without_lateral(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Lateral) else node


def _unnest_refusal(node: exp.Join, rule: str, lists: Lists, more: str = "") -> Unsupported:
    declared_lists = [(alias, items) for alias, columns in lists.items() for items, _ in columns.values()]
    fix = (
        _unnest_example(*declared_lists[0])
        if declared_lists
        else "declare a list column in the policy, with most_items"
    )
    return refusal_at(node, "unnest", rule, fix + more)


def _unnest_example(alias: str, items: Field) -> str:
    """Write FROM with the items of a list beside the table that holds it."""
    table = quoted(items.table) if alias.lower() == items.table.lower() else f"{quoted(items.table)} AS {quoted(alias)}"
    return f"write FROM {table} CROSS JOIN UNNEST({quoted(alias)}.{quoted(items.name)}) AS t(item)"


@dataclass(frozen=True)
class RowSource:
    """A relation under construction: its node, and by alias the columns that can be named."""

    relation: Relation
    scope: Mapping[str, Mapping[str, Expression]]
    table: CatalogTable
    """The first private table."""
    unit_columns: Mapping[str, tuple[str, ...]]
    """By alias, the names of the id columns of the unit."""
    catalog: Catalog
    """The tables and columns that the query may refer to."""
    merged: frozenset[tuple[str, str]] = frozenset()
    """(alias, column) of the right sides of USING: not ambiguous with the left."""
    public: frozenset[str] = frozenset()
    """Aliases of public tables, in lower case: no unit has rows there."""
    lists: Lists = field(default_factory=dict)
    """By alias, the lists that UNNEST may read."""

    def resolve(self, qualifier: str | None, name: str) -> Expression:
        """Return the expression that a column name stands for; names are compared without case, as in SQL."""
        matches = [
            (alias, column, definition)
            for alias, columns in self.scope.items()
            if qualifier is None or alias.lower() == qualifier.lower()
            for column, definition in columns.items()
            if column.lower() == name.lower() and not (qualifier is None and (alias, column) in self.merged)
        ]
        if len(matches) == 1:
            return matches[0][2]
        if matches:
            raise Unsupported(
                "ambiguous-column",
                f"more than one table has a column named '{name[:60]}'",
                fix=f"write {quoted(matches[0][0])}.{quoted(name[:60])}",
            )
        if qualifier is not None and qualifier.lower() not in {alias.lower() for alias in self.scope}:
            rule = f"no table in this question is named '{qualifier[:60]}'"
            raise Unsupported("unknown-alias", rule, fix=fix_for_unknown_name(qualifier, filter(None, self.scope)))
        column_names = {column for columns in self.scope.values() for column in columns}
        if self._id_aliases(qualifier, name):
            table, unit = self.table, quoted(name[:60])
            unit = unit if table.period is None else f"({unit}, {period_sql(table)})"
            rule = f"{name[:60]} identifies the unit of each row, and ids are never released"
            fix = f"count units: SELECT COUNT(DISTINCT {unit}) FROM {quoted(table.name)}"
            raise Unsupported("unit-column", rule, fix=fix)
        refusal = list_column_refusal(name, self.lists)
        if refusal is not None:
            raise refusal
        raise Unsupported(
            "unknown-column",
            f"the policy declares no column named '{name[:60]}'",
            fix=fix_for_unknown_name(name, column_names),
        )

    def is_unit_id(self, node: exp.Expr) -> bool:
        """Return whether a node is the id of the unit, and no other column of that name."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return False
        aliases = {alias.lower() for alias in self.scope}
        if node.table and node.table.lower() not in aliases:
            lower_expression(node, self.resolve)  # says that there is no such table
        unit_aliases = self._id_aliases(node.table or None, node.name)
        other_aliases = [
            alias
            for alias, columns in self.scope.items()
            if (not node.table or alias.lower() == node.table.lower())
            and alias not in unit_aliases
            and node.name.lower() in map(str.lower, columns)
            and (alias, node.name) not in self.merged
        ]
        return bool(unit_aliases) and not other_aliases

    @property
    def subquery_rows(self) -> SubqueryRows:
        """The rows as a subquery's SELECT sees them."""
        names = [name for names in self.unit_columns.values() for name in names]
        every_row = any(isinstance(node, Scan) and node.every_row for node in relations(self.relation))
        unit = None if every_row else next(iter(names), "<id>")
        if self.table.period is None:
            return SubqueryRows(self.relation, self.resolve, self.is_unit_id, unit)
        period, period_expressions = period_sql(self.table), period_expressions_of(self.relation, self.catalog)
        single_periods = period_expressions_of(self.relation, self.catalog, single=True)
        return SubqueryRows(
            self.relation, self.resolve, self.is_unit_id, unit, period, period_expressions, single_periods
        )

    def _id_aliases(self, qualifier: str | None, name: str) -> list[str]:
        """Return the aliases under which a name is the unit's id."""
        return [
            alias
            for alias, names in self.unit_columns.items()
            if (qualifier is None or alias.lower() == qualifier.lower()) and name.lower() in map(str.lower, names)
        ]


def with_distinct_source_numbers(right: RowSource, left: RowSource) -> RowSource:
    """Return the right rows with source numbers that the left has not."""
    offset = unused_source_number(left.relation)
    scope = {
        alias: {name: shift_sources(definition, offset) for name, definition in columns.items()}
        for alias, columns in right.scope.items()
    }
    return replace(right, relation=shift_sources(right.relation, offset), scope=scope)


def with_materialised_columns(right: RowSource) -> RowSource:
    """Turn computed columns into columns of their own: a row without a match has none of them, whatever a function
    makes of NULLs.
    """
    definitions = [
        (f"{alias}.{name}", definition)
        for alias, columns in right.scope.items()
        for name, definition in columns.items()
    ]
    if all(isinstance(definition, Column) for _, definition in definitions):
        return right
    source = unused_source_number(right.relation)
    typed_names = tuple((name, definition.domain) for name, definition in definitions)
    relation = Union(((right.relation, tuple(definition for _, definition in definitions)),), source, typed_names)
    scope = {
        alias: {
            name: Column(Field(source, "", f"{alias}.{name}"), definition.domain)
            for name, definition in columns.items()
        }
        for alias, columns in right.scope.items()
    }
    return replace(right, relation=relation, scope=scope)


def as_nullable(column: Expression) -> Expression:
    """Make a column nullable: a row may have no match on its side."""
    assert isinstance(column, Column)
    return replace(column, domain=replace(column.domain, nullable=True))


def shift_sources(part: Any, offset: int) -> Any:
    """Shift every source number in a relation, expression or column, so that two trees share none."""
    if isinstance(part, Field):
        return replace(part, source=part.source + offset)
    if isinstance(part, tuple):
        return tuple(shift_sources(member, offset) for member in part)
    if isinstance(part, Mapping):
        return {shift_sources(key, offset): shift_sources(value, offset) for key, value in part.items()}
    if not is_dataclass(part) or isinstance(part, (type, Domain, ContributionLimits)):
        return part
    shifted = {
        attribute.name: shift_sources(getattr(part, attribute.name), offset)
        for attribute in fields(part)
        if attribute.init
    }
    if isinstance(part, Numbered):
        shifted["source"] = part.source + offset
    return replace(part, **shifted)
