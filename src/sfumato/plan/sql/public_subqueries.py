"""Subqueries over public tables: what they return is public, so it is written into the question as literals.

A scalar subquery becomes its value, ``x IN (SELECT …)`` the list of values, and ``EXISTS (SELECT …)`` over rows with
one column equal to something outside ``IN`` that column. They are evaluated before anything is priced or charged, on
the rows of public tables alone; the plan that is priced holds the values, so an answer is bought for these values.

A NULL in such a list equals nothing and empties nothing, as in tests for rows of private tables.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.sql.sql_expressions import lower_expression, with_position
from sfumato.plan.sql.text_positions import node_text, refusal_at, suggest_name
from sfumato.plan.sql.unit_joins import conjunction, conjuncts
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.policy import Value
from sfumato.quick_dataclass import dataclass

MAX_VALUES = 10_000
"""The most values of a list that a question holds."""
_CLAUSES = {"expressions", "from_", "where", "distinct"}
_FIX = "join the public table in FROM instead, on a column with unique values"


@dataclass(frozen=True)
class _PublicSelect:
    """A SELECT of rows of one public table."""

    node: exp.Select
    table: CatalogTable
    alias: str
    catalog: Catalog

    def resolve(self, qualifier: str | None, name: str) -> Expression:
        if qualifier is not None and qualifier.lower() != self.alias.lower():
            rule = "a value of a public table cannot depend on the rows around the subquery"
            raise Unsupported("public-subquery", rule, fix=_FIX)
        for column, domain in self.table.columns.items():
            if column.lower() == name.lower():
                return Column(Field(0, self.table.name, column), domain)
        rule = f"{self.alias} has no column named {name[:60]}"
        raise Unsupported("unknown-column", rule, fix=suggest_name(name, self.table.columns))

    def reads_only_public(self, node: exp.Expr) -> bool:
        """Return whether a condition can be evaluated on rows of the public table alone."""
        columns = {name.lower() for name in self.table.columns}
        return all(
            column.table.lower() == self.alias.lower() if column.table else column.name.lower() in columns
            for column in node.find_all(exp.Column)
        )

    def values(self, expression: Expression, conditions: Sequence[exp.Expr]) -> list[Value | None]:
        """Return the value of an expression in each row that meets the conditions."""
        condition = conjunction([lower_expression(node, self.resolve) for node in conditions])
        try:
            return list(self.catalog.public_values(self.table.name, expression, condition))
        except Unsupported as error:
            raise with_position(error, self.node) from None

    @property
    def conditions(self) -> list[exp.Expr]:
        where = self.node.args.get("where")
        return [] if where is None else conjuncts(where.this)


def inline_public_subqueries(statement: exp.Select, catalog: Catalog) -> exp.Select:
    """Return the statement with the values of its subqueries over public tables in their place."""
    kinds = (exp.Subquery, exp.In, exp.Exists)
    if statement.find(*kinds) is None or not any(table.public for table in catalog.tables.values()):
        return statement
    statement = statement.copy()
    for node in reversed(list(statement.find_all(*kinds))):
        replacement = _inline_subquery(node, statement, catalog)
        if replacement is not None:
            node.replace(replacement)
    return statement


def _inline_subquery(node: exp.Expr, statement: exp.Select, catalog: Catalog) -> exp.Expr | None:
    """Return what stands for a subquery over a public table; None for any other node."""
    if isinstance(node, exp.In):
        select = _public_select(node.args.get("query"), statement, catalog)
        if select is None:
            return None
        if len(select.node.expressions) == 1 and type(select.node.expressions[0].unalias()) in _AGGREGATES:
            return exp.EQ(this=node.this.copy(), expression=_inlined_scalar(select))
        return _in_list_or_false(node.this, select, select.conditions, _only_selected_item(select))
    if isinstance(node, exp.Exists):
        select = _public_select(node.this, statement, catalog)
        return None if select is None else _inlined_exists(select)
    if isinstance(node.parent, (exp.From, exp.Join, exp.In, exp.Exists, exp.CTE, exp.Subquery, exp.SetOperation)):
        return None
    select = _public_select(node, statement, catalog)
    return None if select is None else _inlined_scalar(select)


def _public_select(node: object, statement: exp.Select, catalog: Catalog) -> _PublicSelect | None:
    select = node.this if isinstance(node, exp.Subquery) else node
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        return None
    source = select.args["from_"].this
    if not isinstance(source, exp.Table) or source.name.lower() in {
        cte.alias.lower() for cte in statement.find_all(exp.CTE)
    }:
        return None
    public = (table for table in catalog.tables.values() if table.public and table.name.lower() == source.name.lower())
    table = next(public, None)
    if table is None:
        return None
    if any(value and clause not in _CLAUSES for clause, value in select.args.items()):
        rule = "a subquery over a public table can have SELECT, FROM one table and WHERE"
        raise refusal_at(select, "public-subquery", rule, _FIX)
    return _PublicSelect(select, table, source.alias or source.name, catalog)


def _only_selected_item(select: _PublicSelect) -> exp.Expr:
    items = select.node.expressions
    if len(items) != 1 or items[0].find(exp.Star, exp.AggFunc):
        rule = "this subquery over a public table must select one column"
        raise refusal_at(select.node, "public-subquery", rule, _FIX)
    return items[0].unalias()


def _in_list_or_false(
    operand: exp.Expr, select: _PublicSelect, conditions: Sequence[exp.Expr], item: exp.Expr
) -> exp.Expr:
    """Return ``operand IN (…)`` with the values of a column; FALSE without any."""
    values = select.values(lower_expression(item, select.resolve), conditions)
    listed = sorted({value for value in values if value is not None})
    if len(listed) > MAX_VALUES:
        rule = (
            f"a subquery over a public table can list at most {MAX_VALUES:,} values, and this one has {len(listed):,}"
        )
        raise refusal_at(select.node, "public-subquery", rule, _FIX)
    if not listed:
        return exp.false()
    return exp.In(this=operand.copy(), expressions=[_sql_literal(value) for value in listed])


def _inlined_exists(select: _PublicSelect) -> exp.Expr:
    """Return what EXISTS tests: a column that is among values, or whether there is a row at all."""
    own = [condition for condition in select.conditions if select.reads_only_public(condition)]
    outside = [condition for condition in select.conditions if condition not in own]
    if not outside:
        return exp.true() if _count_rows(select, own) else exp.false()
    pair = _correlated_equality(outside[0], select) if len(outside) == 1 else None
    if pair is None:
        rule = "EXISTS over a public table can compare one of its columns with one expression outside, by ="
        raise refusal_at(select.node, "public-subquery", rule, _FIX)
    # of a row without a value SQL's EXISTS is false, and not unknown: NOT EXISTS keeps it
    return exp.func("COALESCE", _in_list_or_false(pair[1], select, own, pair[0]), exp.false())


def _correlated_equality(node: exp.Expr, select: _PublicSelect) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the side of an equality that reads the public table, and the other."""
    if not isinstance(node, exp.EQ):
        return None
    for public, other in ((node.this, node.expression), (node.expression, node.this)):
        if select.reads_only_public(public) and not any(map(select.reads_only_public, other.find_all(exp.Column))):
            return public, other
    return None


def _count_rows(select: _PublicSelect, conditions: Sequence[exp.Expr]) -> int:
    some_column = next(iter(select.table.columns))
    return len(select.values(select.resolve(None, some_column), conditions))


_AGGREGATES: dict[type[exp.Expr], Callable[[list[Value]], Value | None]] = {
    exp.Min: lambda values: min(values, default=None),
    exp.Max: lambda values: max(values, default=None),
    exp.Count: len,
    exp.Sum: lambda values: sum(values) if values else None,  # type: ignore[arg-type]
    exp.Avg: lambda values: Fraction(sum(values)) / len(values) if values else None,  # type: ignore[arg-type]
}


def _inlined_scalar(select: _PublicSelect) -> exp.Expr:
    """Return the only value of a subquery: of its only row, or of an aggregate of its rows."""
    if len(select.node.expressions) == 1:
        item = select.node.expressions[0].unalias()
        aggregate = _AGGREGATES.get(type(item))
        if aggregate is not None:
            return _sql_literal(aggregate(_aggregate_values(item, select)))
    values = select.values(lower_expression(_only_selected_item(select), select.resolve), select.conditions)
    values = list(dict.fromkeys(values)) if select.node.args.get("distinct") else values
    if len(values) > 1:
        rule = f"this subquery has {len(values):,} rows, and one value is needed"
        raise refusal_at(
            select.node, "subquery-rows", rule, "write MIN(…), MAX(…) or AVG(…) of it, or a WHERE that one row meets"
        )
    return _sql_literal(values[0] if values else None)


def _aggregate_values(item: exp.Expr, select: _PublicSelect) -> list[Value]:
    """Return the values that an aggregate of public rows is over, NULL aside."""
    if isinstance(item, exp.Count) and (item.this is None or isinstance(item.this, exp.Star)):
        return [1] * _count_rows(select, select.conditions)
    distinct = isinstance(item.this, exp.Distinct)
    operand = lower_expression(item.this.expressions[0] if distinct else item.this, select.resolve)
    if isinstance(item, (exp.Sum, exp.Avg)) and not operand.domain.type.numeric:
        rule = f"only numbers can be summed; {node_text(item.this)} is {operand.domain.type.value}"
        raise refusal_at(item, "type-mismatch", rule, "use COUNT, MIN or MAX")
    values = [value for value in select.values(operand, select.conditions) if value is not None]
    return list(dict.fromkeys(values)) if distinct else values


def _sql_literal(value: Value | None) -> exp.Expr:
    """Write a value as SQL."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case dt.date():
            kind = "TIMESTAMP" if isinstance(value, dt.datetime) else "DATE"
            return exp.cast(exp.Literal.string(str(value)), kind)
        case str():
            return exp.Literal.string(value)
    number = exp.Literal.number(str(abs(value)) if isinstance(value, int) else repr(abs(float(value))))
    return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
