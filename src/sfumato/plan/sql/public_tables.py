"""Public tables in a statement: joins with private rows, and subqueries that are written into the question as literals.

A scalar subquery becomes its value, ``x IN (SELECT …)`` the list of values, and ``EXISTS (SELECT …)`` over rows with
one column equal to something outside ``IN`` that column. They are evaluated before anything is priced or charged, on
the rows of public tables alone; the plan that is priced holds the values, so an answer is bought for these values.

A NULL in such a list equals nothing and empties nothing, as in tests for rows of private tables.

A row is joined with public rows by its own cells alone, so the join is unit-wise (``plan.nodes``).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.nodes import PublicJoin, unused_source_number
from sfumato.plan.sql.dialect import has_node
from sfumato.plan.sql.sql_expressions import lower_expression, with_position
from sfumato.plan.sql.text_positions import fix_for_unknown_name, node_text, refusal_at
from sfumato.plan.sql.unit_joins import NamedRelation, conjunction, conjuncts
from sfumato.plan.values.countable import MIRRORED
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type, Value
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
            rule = "a subquery over a public table cannot read columns of the outer query here"
            raise Unsupported("public-subquery", rule, fix=_FIX)
        for column, domain in self.table.columns.items():
            if column.lower() == name.lower():
                return Column(Field(0, self.table.name, column), domain)
        rule = f"{self.alias} has no column named '{name[:60]}'"
        raise Unsupported("unknown-column", rule, fix=fix_for_unknown_name(name, self.table.columns))

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
    if not any(table.public for table in catalog.tables.values()) or not has_node(statement, *kinds):
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
        rule = "a subquery over a public table can only have SELECT, FROM with one table, and WHERE"
        raise refusal_at(select, "public-subquery", rule, _FIX)
    return _PublicSelect(select, table, source.alias or source.name, catalog)


def _only_selected_item(select: _PublicSelect) -> exp.Expr:
    items = select.node.expressions
    if len(items) != 1 or items[0].find(exp.Star, exp.AggFunc):
        rule = "this subquery over a public table must select one column"
        raise refusal_at(select.node, "public-subquery", rule, f"select only one column, or {_FIX}")
    return items[0].unalias()


def _in_list_or_false(
    operand: exp.Expr, select: _PublicSelect, conditions: Sequence[exp.Expr], item: exp.Expr
) -> exp.Expr:
    """Return ``operand IN (…)`` with the values of a column; FALSE without any."""
    values = select.values(lower_expression(item, select.resolve), conditions)
    distinct_values = sorted({value for value in values if value is not None})
    if len(distinct_values) > MAX_VALUES:
        rule = (
            f"a subquery over a public table can list at most {MAX_VALUES:,} values, "
            f"and this one has {len(distinct_values):,}"
        )
        raise refusal_at(select.node, "public-subquery", rule, _FIX)
    if not distinct_values:
        return exp.false()
    return exp.In(this=operand.copy(), expressions=[_sql_literal(value) for value in distinct_values])


def _inlined_exists(select: _PublicSelect) -> exp.Expr:
    """Return what EXISTS tests: a column that is among values, or whether there is a row at all."""
    public_conditions = [condition for condition in select.conditions if select.reads_only_public(condition)]
    outside = [condition for condition in select.conditions if condition not in public_conditions]
    if not outside:
        return exp.true() if _count_rows(select, public_conditions) else exp.false()
    pair = _correlated_equality(outside[0], select) if len(outside) == 1 else None
    if pair is None:
        rule = "EXISTS over a public table can have one condition on the outer query: column = expression"
        raise refusal_at(select.node, "public-subquery", rule, _FIX)
    # of a row without a value SQL's EXISTS is false, and not unknown: NOT EXISTS keeps it
    return exp.func("COALESCE", _in_list_or_false(pair[1], select, public_conditions, pair[0]), exp.false())


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
        rule = f"this subquery has {len(values):,} rows, but one value is needed"
        fix = "select MIN(…), MAX(…) or AVG(…) in the subquery, or add a WHERE that only one row meets"
        raise refusal_at(select.node, "subquery-rows", rule, fix)
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


LARGEST_EXACT = 2**53
"""Every integer up to this size is an exact double."""

_OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True)
class MatchedPublicTable:
    """A public table under an alias."""

    alias: str
    table: CatalogTable

    def column(self, name: str, node: exp.Expr) -> str:
        for column in self.table.columns:
            if column.lower() == name.lower():
                return column
        column_names = self.table.columns
        raise refusal_at(
            node,
            "unknown-column",
            f"{self.alias} has no column named '{name[:60]}'",
            fix_for_unknown_name(name, column_names),
        )


def lower_public_join(
    left: NamedRelation, right: MatchedPublicTable, node: exp.Join, outer: bool, catalog: Catalog
) -> tuple[PublicJoin, tuple[str, ...]]:
    """Lower a join with a public table; return it with the columns of USING."""
    using = tuple(right.column(column_node.name, node) for column_node in node.args.get("using") or [])
    _check_id_declared(left, [exp.column(name) for name in using], node)
    pairs = [(left.resolve(None, name), name) for name in using]
    bands: list[tuple[str, Expression, str]] = []
    for part in conjuncts(node.args.get("on")):
        _check_id_declared(left, part.find_all(exp.Column), node)
        for operator, operand, column in _public_column_comparisons(left, right, part):
            if operator == "=":
                pairs.append((operand, column))
            else:
                bands.append((operator, operand, column))
    if not pairs and not bands:
        raise refusal_at(
            node, "join-condition", "a join needs a condition", "add ON a.column = b.column, or USING (column)"
        )
    for operand, column in (*pairs, *((operand, column) for _, operand, column in bands)):
        call("=", operand, Column(Field(0, right.table.name, column), right.table.columns[column]))
        _check_exact_real_join(operand, right.table.columns[column], node)
    equalities, comparisons = tuple(sorted(set(pairs), key=repr)), tuple(sorted(set(bands), key=repr))
    multiplicity = _max_matches(right.table.name, equalities, comparisons, catalog)
    source = unused_source_number(left.relation)
    return PublicJoin(
        left.relation, right.table.name, source, equalities, outer, multiplicity, right.table.columns, comparisons
    ), using


def _check_id_declared(left: NamedRelation, columns: Iterable[exp.Column], node: exp.Join) -> None:
    """Refuse a join on an id that is no declared column: the owner decides whether its values may be compared."""
    for column in columns:
        sides = [names for alias, names in left.scope.items() if column.table.lower() in ("", alias.lower())]
        declared = any(column.name.lower() in map(str.lower, names) for names in sides)
        if sides and not declared and left.is_unit_id(column):
            name = column.name[:60]
            rule = f"{name} is an id, and a public table can be joined on it only if the policy declares it as a column"
            raise refusal_at(node, "public-id", rule, f"add {name} to the columns of its table in the policy")


def _max_matches(
    table: str,
    pairs: tuple[tuple[Expression, str], ...],
    bands: tuple[tuple[str, Expression, str], ...],
    catalog: Catalog,
) -> int:
    """Return the most rows that one row matches: among those with equal columns, the most that one compared value
    matches.
    """
    equal_columns = tuple(sorted({column for _, column in pairs}))
    upper_bounds = [catalog.multiplicity(table, equal_columns)] if equal_columns else []
    for operand in dict.fromkeys(operand for _, operand, _ in bands):
        operand_bands = tuple((operator, column) for operator, band_operand, column in bands if band_operand == operand)
        upper_bounds.append(catalog.overlap(table, equal_columns, operand_bands))
    return max(1, min(upper_bounds))


def _check_exact_real_join(operand: Expression, domain: Domain, node: exp.Join) -> None:
    """Refuse a join that may take two values for one, since rows that share a value are counted as the column holds it:
    integers beyond 2^53 are not all distinct once they are compared with a real.
    """
    if operand.domain.type is not Type.REAL or domain.type is not Type.INTEGER:
        return
    largest = None if domain.range is None else max(abs(int(end)) for end in domain.range)  # type: ignore[arg-type]
    if largest is None or largest > LARGEST_EXACT:
        raise refusal_at(
            node,
            "join-real",
            "a real number can only be joined with whole numbers of at most 2^53 in absolute value",
            "write CAST(… AS INTEGER) on the private side",
        )


def _public_column_comparisons(
    left: NamedRelation, right: MatchedPublicTable, part: exp.Expr
) -> Iterator[tuple[str, Expression, str]]:
    """Return the comparisons with columns of the public table, each as (operator, operand, column)."""
    if isinstance(part, exp.Between):
        ends = ((">=", part.args["low"]), ("<=", part.args["high"]))
        if all(isinstance(end, exp.Column) and _is_public_column(end, left, right) for _, end in ends):
            for operator_name, end in ends:
                yield operator_name, lower_expression(part.this, left.resolve), right.column(end.name, part)
            return
    operator = _OPERATORS.get(type(part))
    if operator is not None:
        mirrored = (part.expression, part.this, MIRRORED.get(operator, operator))
        for operand, public_node, direction in ((part.this, part.expression, operator), mirrored):
            if isinstance(public_node, exp.Column) and _is_public_column(public_node, left, right):
                yield direction, lower_expression(operand, left.resolve), right.column(public_node.name, part)
                return
    raise refusal_at(
        part,
        "join-condition",
        "a join with a public table must compare an expression with a column of that table",
        "write ON private.column = public.column, or x >= public.low AND x < public.high",
    )


def _is_public_column(column: exp.Column, left: NamedRelation, right: MatchedPublicTable) -> bool:
    if column.table:
        return column.table.lower() == right.alias.lower()
    left_names = {name.lower() for columns in left.scope.values() for name in columns}
    return column.name.lower() not in left_names and column.name.lower() in {
        name.lower() for name in right.table.columns
    }
