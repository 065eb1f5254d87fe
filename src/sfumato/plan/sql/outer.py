"""Lower an outer SELECT over one that aggregates: all it reads are noisy rows, so it is free.

Where it only selects, computes and orders, it leaves no node: its columns are substituted into the inner SELECT, and
its WHERE is a HAVING. So two texts that mean the same are the same query. Where it aggregates rows, has windows
(OVER), or reads rows that a LIMIT has cut, it is an ``OuterSelect``.

A subquery that groups by the unit's id has rows of units, which are private: it is lowered with the rows (``rows``).

Aggregates and windows over noisy rows are lowered in ``noisy_windows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import FINISHING, Finish, NoisyAggregate, NoisyWindow, OuterSelect, Output
from sfumato.plan.sql.noisy_windows import (
    PAIR_TOTALS,
    ROW_TOTALS,
    TOTALS_FIX,
    check_noiseless_key,
    lower_noisy_aggregate,
    lower_noisy_window,
    window_result_column,
)
from sfumato.plan.sql.rows import lower_rows
from sfumato.plan.sql.sql_expressions import NodeLowering, Read as ReadExpression, lower_with
from sfumato.plan.sql.text_positions import default_column_name, fix_for_unknown_name, node_text, refusal_at
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Key,
    NoisyColumn,
    Order,
    Result,
    noise_count,
    reads_only_keys,
)
from sfumato.plan.values.functions import call
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass


def check_noisy_functions(expression: Expression, node: exp.Expr) -> None:
    """Refuse functions that are not applied to noisy rows. An expression over keys alone is public: it may use any."""
    if not isinstance(expression, Call) or reads_only_keys(expression):
        return
    if expression.function == "CAST" and not expression.domain.type.numeric:
        raise refusal_at(
            node,
            "finish-cast",
            "a noisy number can only be cast to a numeric type",
            "cast it to INTEGER or DOUBLE, or leave out the cast",
        )
    if expression.function not in FINISHING and not noise_count(expression):
        rule = f"{expression.function.upper()} cannot be applied to the group keys of aggregated rows"
        raise refusal_at(node, "finish-function", rule, "compute it in the inner SELECT, and use its column here")
    if expression.function not in FINISHING and any(argument.domain.type.temporal for argument in expression.arguments):
        rule = f"{expression.function.upper()} is not supported on a date that is itself a noisy result"
        fix = "select the dates themselves, and compute with them in pandas, which is free"
        raise refusal_at(node, "finish-function", rule, fix)
    if expression.function not in FINISHING:
        raise refusal_at(
            node,
            "finish-function",
            f"{expression.function.upper()} cannot be applied to noisy numbers",
            "use arithmetic, comparisons, CASE, COALESCE, ROUND, ABS, LEAST, GREATEST",
        )
    for argument in expression.arguments:
        check_noisy_functions(argument, node)


MAX_COLUMNS = 100
MAX_OUTER = 8
MAX_DEEP = 40
"""The most SELECTs around one that aggregates: each is lowered separately, so this bounds the cost of lowering."""
_TOTALS: tuple[type[exp.Expr], ...] = (exp.Filter, *ROW_TOTALS, *PAIR_TOTALS)


def inner_aggregate_select(select: exp.Select, catalog: Catalog) -> exp.Select | None:
    """Return the SELECT below this one whose noisy rows it reads; None where it reads rows of tables.

    The chain below is walked in place, however long it is; only what is lowered further is copied.
    """
    chain = _selects_and_ctes_below(select)
    first = next(chain, None)
    for depth, (level, visible) in enumerate(() if first is None else (first, *chain)):
        if level.args.get("group") and groups_by_unit(with_referenced_ctes(level, visible), catalog):
            return None
        if has_aggregates(level) and depth >= MAX_DEEP:
            rule = f"at most {MAX_DEEP} SELECTs can be nested around one that aggregates"
            raise refusal_at(select, "too-deep", rule, "merge some of them")
        if has_aggregates(level):
            return with_referenced_ctes(*first) if first is not None else None
    return None


CteScope = dict[str, exp.Expr]
"""Common table expressions by their lower-case names, in the order of their definition."""


def _selects_and_ctes_below(select: exp.Select) -> Iterator[tuple[exp.Select, CteScope]]:
    """Iterate over the chain of SELECTs below, through subqueries and common table expressions, each with the common
    table expressions in its scope.
    """
    visible: CteScope = {}
    scopes: dict[int, CteScope] = {}
    while select.args.get("from_") is not None and not select.args.get("joins"):
        for cte in select.args["with_"].expressions if select.args.get("with_") else ():
            scopes[id(cte)] = visible
            visible = {**visible, cte.alias.lower(): cte}
        node = select.args["from_"].this
        inner_select: exp.Expr | None = node.this if isinstance(node, exp.Subquery) else None
        if isinstance(node, exp.Table) and not node.args.get("db") and node.name.lower() in visible:
            referenced_cte = visible[node.name.lower()]
            inner_select, visible = referenced_cte.this, scopes[id(referenced_cte)]
        if not isinstance(inner_select, exp.Select):
            return
        select = inner_select
        yield select, visible


def with_referenced_ctes(select: exp.Select, visible: CteScope) -> exp.Select:
    """Return the SELECT with the common table expressions that it references, directly or through others."""
    copied = select.copy()
    referenced = {table.name.lower() for table in copied.find_all(exp.Table)}
    needed_ctes: list[exp.Expr] = []
    for name, cte in reversed(visible.items()):
        if name in referenced:
            referenced |= {table.name.lower() for table in cte.find_all(exp.Table)}
            needed_ctes.insert(0, cte.copy())
    if needed_ctes:
        existing_ctes = copied.args["with_"].expressions if copied.args.get("with_") else []
        copied.set("with_", exp.With(expressions=[*needed_ctes, *existing_ctes]))
    return copied


def has_aggregates(select: exp.Select) -> bool:
    """Return whether a SELECT groups or aggregates rows itself."""
    if select.args.get("group") or select.args.get("having") or select.args.get("distinct"):
        return True
    aggregate_nodes = [node for item in select.expressions for node in item.find_all(exp.AggFunc)]
    return any(node.find_ancestor(exp.Select) is select and not _is_windowed(node) for node in aggregate_nodes)


def _is_windowed(node: exp.Expr) -> bool:
    ancestor = node.parent
    while isinstance(ancestor, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        ancestor = ancestor.parent
    return isinstance(ancestor, exp.Window) and ancestor.this.find(type(node)) is node


def groups_by_unit(select: exp.Select, catalog: Catalog) -> bool:
    """Return whether a SELECT groups by the unit: such rows are private."""
    group = select.args.get("group")
    if group is None:
        return False
    try:
        source = lower_rows(select, catalog, {})
    except Unsupported:  # what it reads aggregates itself, or is refused where it is read
        return False
    aliased = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    items = [item.unalias() for item in select.expressions] if group.args.get("all") else group.expressions
    for item in items:
        definition = aliased.get(item.name.lower(), item) if isinstance(item, exp.Column) else item
        if isinstance(item, exp.Literal) and item.this.isdigit() and 1 <= int(item.this) <= len(select.expressions):
            definition = select.expressions[int(item.this) - 1].unalias()
        if any(source.is_unit_id(candidate) for candidate in (item, definition)):
            return True
    return False


def lower_outer_select(select: exp.Select, inner: Query) -> Query:
    """Return the query that an outer SELECT makes of the one below it."""
    if len(inner.outer) >= MAX_OUTER:
        raise refusal_at(select, "too-deep", f"at most {MAX_OUTER} SELECTs can be nested", "merge some of them")
    if any(value and part not in _CLAUSES for part, value in select.args.items()):
        extra = next(part for part, value in select.args.items() if value and part not in _CLAUSES)
        raise refusal_at(
            select,
            "clause",
            f"{extra.strip('_').upper()} over aggregated rows is not supported",
            "use SELECT, FROM, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY, LIMIT",
        )
    if not inner.plan.measures:
        rule = "the inner SELECT has no aggregate, so the outer SELECT would read rows of the table"
        raise refusal_at(
            select, "no-aggregate", rule, "write the inner SELECT with GROUP BY and COUNT(*), without DISTINCT"
        )
    is_plain = _can_inner_absorb(select, inner)
    alias = select.args["from_"].this.alias_or_name
    building = OuterBuilder(select, scope_columns(alias, inner.outputs, defined=is_plain))
    if is_plain:
        return replace(inner, finish=building.merged_finish(inner.finish))
    return replace(inner, outer=(*inner.outer, building.outer()))


def _can_inner_absorb(select: exp.Select, inner: Query) -> bool:
    """Return whether the inner SELECT can absorb an outer one: no rows are aggregated, and none were cut before."""
    finish = inner.finish
    has_cut = finish.limit is not None or finish.offset or finish.windows or finish.qualify or inner.outer
    return not (has_aggregates(select) or has_cut or select.args.get("qualify") or any(_select_windows(select)))


@dataclass(frozen=True)
class ScopeColumn:
    """A column of the noisy rows that a SELECT reads."""

    table: str
    """The name of the rows that it belongs to, in FROM."""
    name: str
    expression: Expression
    is_hidden: bool = False
    """Whether only its qualified name refers to it, because USING has merged it with another."""


def scope_columns(table: str, outputs: Sequence[Output], *, first: int = 0, defined: bool = False) -> list[ScopeColumn]:
    """Return the columns of noisy rows, numbered from ``first``; or with ``defined`` as their own definitions."""
    return [
        ScopeColumn(
            table,
            output.name,
            output.expression
            if defined
            else Column(NoisyColumn(first + index, noise_count(output.expression)), output.expression.domain),
        )
        for index, output in enumerate(outputs)
    ]


_CLAUSES = {
    "expressions",
    "from_",
    "where",
    "with_",
    "group",
    "having",
    "windows",
    "qualify",
    "order",
    "limit",
    "offset",
}
"""The supported clauses. DISTINCT is none of them: noisy rows are not compared."""


def _select_windows(select: exp.Select) -> Iterator[exp.Expr]:
    """Iterate over the windows of a SELECT, without those of its subqueries."""
    return (node for node in select.find_all(exp.Window) if node.find_ancestor(exp.Select) is select)


class OuterBuilder:
    """The totals and windows of an outer SELECT, collected while its columns are lowered."""

    def __init__(self, select: exp.Select, columns: Sequence[ScopeColumn]) -> None:
        self.select, self.columns = select, columns
        self.totals: dict[NoisyAggregate, Column] = {}
        self.windows: dict[NoisyWindow, Column] = {}
        self.expression_by_name: dict[str, Expression] = {}
        """The outer SELECT's own names, which HAVING and ORDER BY may use."""
        self.grouped = has_aggregates(select)
        self.keys: dict[Expression, Column] = {}

    def merged_finish(self, inner: Finish) -> Finish:
        """Return the finish of the inner SELECT with this one merged into it."""
        where = self._lower_condition_clause("where")
        outputs = self._lower_outputs()
        predicates = [predicate for predicate in (inner.having, where) if predicate is not None]
        return Finish(
            outputs,
            None
            if not predicates
            else predicates[0]
            if len(predicates) == 1
            else call("AND", *sorted(predicates, key=repr)),
            self._lower_order(outputs) or inner.order,
            parse_row_count(self.select, "limit"),
            parse_row_count(self.select, "offset") or 0,
            inner.sets,
        )

    def outer(self) -> OuterSelect:
        """Return this SELECT as one over the rows below it."""
        where = self._lower_condition_clause("where")
        self._lower_group_keys()
        outputs = self._lower_outputs()
        having = self._lower_condition_clause("having", renamed=True)
        qualify = self._lower_condition_clause("qualify", renamed=True)
        order = self._lower_order(outputs)
        finish = Finish(
            outputs,
            having,
            order,
            parse_row_count(self.select, "limit"),
            parse_row_count(self.select, "offset") or 0,
            windows=tuple(self.windows),
            qualify=qualify,
        )
        return OuterSelect(finish, where, tuple(self.keys), tuple(self.totals))

    def _lower_group_keys(self) -> None:
        group = self.select.args.get("group")
        if group is None:
            return
        if any(value and part not in ("expressions", "all") for part, value in group.args.items()):
            raise refusal_at(
                group,
                "grouping-sets",
                "GROUP BY over aggregated rows takes columns of the inner SELECT only",
                "name the columns of the inner SELECT",
            )
        items = self.select.expressions
        nodes = group.expressions
        if group.args.get("all"):
            nodes = [item.unalias() for item in items if item.find(exp.AggFunc, exp.Window) is None]
        for node in nodes:
            definition = node
            if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
                raise refusal_at(
                    node,
                    "grouping-sets",
                    "GROUP BY over aggregated rows takes columns of the inner SELECT only",
                    "write ROLLUP, CUBE or GROUPING SETS in the inner SELECT",
                )
            if isinstance(node, exp.Literal):
                if not node.this.isdigit() or not 1 <= int(node.this) <= len(items):
                    rule = "GROUP BY <number> must be the position of a column in SELECT, counted from 1"
                    raise refusal_at(node, "ordinal", rule, "name the column")
                definition = items[int(node.this) - 1].unalias()
            elif isinstance(node, exp.Column) and not self._has_visible_column(node.name):
                definition = next((item.this for item in items if item.alias.lower() == node.name.lower()), node)
            lowered_key = self._lower_then_check(definition, self._lower_inner_column)
            check_noiseless_key(lowered_key, node, "GROUP BY")
            self.keys.setdefault(lowered_key, Column(Key(len(self.keys)), lowered_key.domain))

    def _has_visible_column(self, name: str) -> bool:
        return any(column.name.lower() == name.lower() and not column.is_hidden for column in self.columns)

    def lower_over_rows(self, node: exp.Expr) -> Expression:
        """Lower an expression over the columns of the rows below."""
        return self._lower_then_check(node, self._lower_inner_column)

    def _lower_inner_column(self, part: exp.Expr, _: ReadExpression) -> Expression | None:
        """Lower a column of the inner SELECT, as its expression or as a column of its rows."""
        if not isinstance(part, exp.Column):
            return None
        tables = list(dict.fromkeys(column.table for column in self.columns if column.table.strip()))
        if part.table.strip() and part.table.lower() not in map(str.lower, tables):
            rule = f"no table in this question is named '{part.table[:60]}'"
            raise Unsupported("unknown-alias", rule, fix=fix_for_unknown_name(part.table, tables))
        candidates = [
            column
            for column in self.columns
            if column.name.lower() == part.name.lower()
            and (column.table.lower() == part.table.lower() if part.table else not column.is_hidden)
        ]
        if not candidates:
            rule = f"the inner SELECT has no column named '{part.name[:60]}'"
            names = dict.fromkeys(column.name for column in self.columns if not column.is_hidden)
            raise Unsupported("unknown-column", rule, fix=fix_for_unknown_name(part.name, names))
        if len(candidates) > 1:
            owners = " or ".join(f"{column.table}.{column.name}" for column in candidates)
            raise Unsupported(
                "ambiguous", f"{part.name[:60]} is a column of several joined tables", fix=f"write {owners}"
            )
        return candidates[0].expression

    def _lower_finish_part(self, part: exp.Expr, read: ReadExpression) -> Expression | None:
        """Lower a column; or, in an aggregating SELECT, a key, a total or a window."""
        if isinstance(part, exp.Window):
            window, domain = lower_noisy_window(
                part, lambda node: self._lower_then_check(node, self._lower_finish_part_but_windows)
            )
            return window_result_column(self.windows, window, domain)
        return self._lower_finish_part_but_windows(part, read)

    def _lower_finish_part_but_windows(self, part: exp.Expr, read: ReadExpression) -> Expression | None:
        if isinstance(part, _TOTALS):
            row_aggregate, domain = lower_noisy_aggregate(
                part, lambda node: self._lower_then_check(node, self._lower_inner_column)
            )
            return self.totals.setdefault(row_aggregate, Column(Result(len(self.totals)), domain))
        if isinstance(part, (exp.AggFunc, exp.Window)):
            rule = f"{node_text(part)} over aggregated rows is not supported"
            if isinstance(part, exp.Window):
                rule = "a window function cannot be an argument of an aggregate or of another window"
                raise refusal_at(part, "window", rule, "compute it in a subquery, and aggregate its column outside")
            raise refusal_at(part, "row-aggregate", rule, TOTALS_FIX)
        if not self.grouped:
            return self._lower_inner_column(part, read)
        if self.keys and isinstance(part, (exp.Condition, exp.Func)) and not isinstance(part, exp.Literal):
            try:
                key_column = self.keys.get(self._lower_then_check(part, self._lower_inner_column))
            except Unsupported:
                key_column = None
            if key_column is not None:
                return key_column
        if isinstance(part, exp.Column):
            column = self._lower_inner_column(part, read)  # an unknown column says so first
            total = "SUM" if column is not None and column.domain.type.numeric else "COUNT"
            fix = f"add GROUP BY {node_text(part)}, or use {total}({node_text(part)})"
            raise refusal_at(
                part, "not-grouped", f"{node_text(part)} is neither in GROUP BY nor inside an aggregate", fix
            )
        return None

    def _lower_output_name(self, part: exp.Expr, read: ReadExpression) -> Expression | None:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in self.expression_by_name:
            return self.expression_by_name[part.name.lower()]
        return self._lower_finish_part(part, read)

    def _lower_then_check(self, node: exp.Expr, lower_part: NodeLowering) -> Expression:
        lowered = lower_with(node, lower_part)
        check_noisy_functions(lowered, node)
        return lowered

    def _lower_outputs(self) -> tuple[Output, ...]:
        outputs: list[Output] = []
        for item in self.select.expressions:
            outputs += self._star_outputs(item) if isinstance(item, exp.Star) else [self._lower_output(item)]
        for index, output in enumerate(outputs):
            if output.name.lower() in {other.name.lower() for other in outputs[:index]}:
                rule = f"two columns are named {output.name}"
                raise refusal_at(self.select, "duplicate-column", rule, "rename one with AS")
        if len(outputs) > MAX_COLUMNS:
            rule = f"an answer can have at most {MAX_COLUMNS} columns"
            raise refusal_at(self.select, "too-many-columns", rule, "split it into two questions")
        self.expression_by_name = {output.name.lower(): output.expression for output in outputs}
        return tuple(outputs)

    def _star_outputs(self, item: exp.Star) -> list[Output]:
        if self.grouped or any(item.args.values()):
            raise refusal_at(
                item,
                "star",
                "* over aggregated rows cannot be combined with GROUP BY, aggregates or EXCLUDE",
                "name the columns",
            )
        visible_columns = (column for column in self.columns if not column.is_hidden)
        return [Output(column.name, column.expression) for column in visible_columns]

    def _lower_output(self, item: exp.Expr) -> Output:
        inner = item.unalias()
        name = item.alias_or_name if isinstance(item, (exp.Alias, exp.Column)) else default_column_name(inner)
        return Output(name, self._lower_then_check(inner, self._lower_finish_part))

    def _lower_condition_clause(self, clause: str, *, renamed: bool = False) -> Expression | None:
        node = self.select.args.get(clause)
        if node is None:
            return None
        predicate = self._lower_then_check(node.this, self._lower_output_name if renamed else self._lower_inner_column)
        if predicate.domain.type is not Type.BOOLEAN:
            raise refusal_at(
                node,
                "type-mismatch",
                f"{clause.upper()} must be a condition",
                "compare it with something, such as n > 100",
            )
        return predicate

    def _lower_order(self, outputs: tuple[Output, ...]) -> tuple[Order, ...]:
        return lower_order_by(self.select, outputs, lambda node: self._lower_then_check(node, self._lower_output_name))


def lower_order_by(select: exp.Select, outputs: tuple[Output, ...], read: ReadExpression) -> tuple[Order, ...]:
    """Lower ORDER BY: columns by name or by number."""
    order_nodes = select.args["order"].expressions if select.args.get("order") else ()
    if len(order_nodes) > MAX_COLUMNS:
        raise refusal_at(
            select.args["order"], "order", f"ORDER BY can have at most {MAX_COLUMNS} columns", "order by fewer columns"
        )
    order_terms = []
    for node in order_nodes:
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise refusal_at(
                node, "order", "ORDER BY takes columns of the answer, with ASC or DESC", "name a column of the answer"
            )
        sort_expression = _output_at_ordinal(node.this, outputs) or read(node.this)
        order_terms.append(Order(sort_expression, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return tuple(order_terms)


def _output_at_ordinal(target: exp.Expr, outputs: tuple[Output, ...]) -> Expression | None:
    if not isinstance(target, exp.Literal) or target.is_string:
        return None
    index = int(target.this) if target.this.isdigit() else 0
    if not 1 <= index <= len(outputs):
        raise refusal_at(
            target,
            "ordinal",
            "ORDER BY <number> must be the position of a column in SELECT, counted from 1",
            "name the column",
        )
    return outputs[index - 1].expression


def _without_integer_casts(value: exp.Expr) -> exp.Expr:
    """Return the number in ``10::INTEGER`` and ``(10)``, as drivers write it around a parameter."""
    while isinstance(value, exp.Paren) or (
        isinstance(value, exp.Cast) and value.to.is_type(*exp.DataType.INTEGER_TYPES)
    ):
        value = value.this
    return value


def parse_row_count(select: exp.Select, clause: str) -> int | None:
    """Parse LIMIT or OFFSET."""
    node = select.args.get(clause)
    if node is None:
        return None
    value = _without_integer_casts(node.expression)
    if any(part for name, part in node.args.items() if name != "expression"):
        raise refusal_at(
            node,
            clause,
            f"{clause.upper()} takes a number of rows, without PERCENT or WITH TIES",
            f"write {clause.upper()} 10",
        )
    if not (isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit() and len(value.this) < 10):
        raise refusal_at(
            node,
            clause,
            f"{clause.upper()} must be a whole number written in the question",
            f"write {clause.upper()} 10",
        )
    return int(value.this)
