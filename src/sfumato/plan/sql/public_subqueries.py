"""Subqueries over one public table, replaced by the values they list.

``x IN (SELECT …)`` and ``EXISTS (SELECT … WHERE public.column = x)`` over a public table say of each private row
whether its x is among values that everybody may know. The values are read when the question is, and the plan holds
them, so a row is kept or dropped by its own cells alone, and a changed public table makes another plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from sqlglot import exp

from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.sql.parameters import value_literal
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import refuse
from sfumato.plan.values.expressions import Column, Expression, Field

T = TypeVar("T", bound=exp.Expr)

MAX_PUBLIC_VALUES = 10_000
"""The most values that a subquery over a public table may list: each is compared with every row."""
_CLAUSES = {"expressions", "from_", "where", "distinct"}


def inline_public_subqueries(statement: T, catalog: Catalog) -> T:
    """Replace every test against one public table by a test against its values."""
    public = {name.lower(): table for name, table in catalog.tables.items() if table.public}
    public = {name: table for name, table in public.items() if name not in _cte_names(statement)}
    if not public or not any(_tested_table(node, public) for node in statement.find_all(exp.In, exp.Exists)):
        return statement

    def inline(node: exp.Expr) -> exp.Expr:
        table = _tested_table(node, public)
        return node if table is None else _PublicTest(table, catalog).replacement(node)

    return cast(T, statement.transform(inline))


def _cte_names(statement: exp.Expr) -> set[str]:
    return {cte.alias_or_name.lower() for cte in statement.find_all(exp.CTE)}


def _tested_select(node: exp.Expr) -> exp.Select | None:
    """Return the SELECT that EXISTS or IN tests; None for IN with a list of values."""
    query = node.this if isinstance(node, exp.Exists) else node.args.get("query") if isinstance(node, exp.In) else None
    select = query.this if isinstance(query, exp.Subquery) else query
    return select if isinstance(select, exp.Select) else None


def _tested_table(node: exp.Expr, public: dict[str, Described]) -> Described | None:
    """Return the public table that a test reads; None if it reads another, or more than one row-wise SELECT does."""
    select = _tested_select(node)
    if select is None or not {clause for clause, value in select.args.items() if value} <= _CLAUSES:
        return None
    source = select.args["from_"].this if select.args.get("from_") else None
    return public.get(source.name.lower()) if isinstance(source, exp.Table) and not source.args.get("joins") else None


class _PublicTest:
    """A test of a private row against the rows of a public table."""

    def __init__(self, table: Described, catalog: Catalog) -> None:
        self._table, self._catalog = table, catalog
        self._columns = {name.lower(): name for name in table.columns}

    def replacement(self, node: exp.Expr) -> exp.Expr:
        """Return the test against values; the node itself where it compares more than one value of a private row."""
        select = _tested_select(node)
        assert select is not None
        self._alias = select.args["from_"].this.alias_or_name.lower()
        where = select.args.get("where")
        conditions = (
            [] if where is None else list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        )
        correlated = [part for part in conditions if not self._is_public(part)]
        public_conditions = [self._lower(part) for part in conditions if self._is_public(part)]
        if isinstance(node, exp.In):
            item = select.expressions[0].unalias()
            if (
                correlated
                or len(select.expressions) != 1
                or not self._is_public(item)
                or isinstance(node.this, exp.Tuple)
            ):
                return node
            return self._membership(node, node.this, item, public_conditions, with_null=True)
        sides = self._matched_sides(correlated)
        if sides is None:
            return node
        test = self._membership(node, sides[1], sides[0], public_conditions, with_null=False)
        return exp.func("COALESCE", test, exp.false())

    def _membership(
        self, node: exp.Expr, operand: exp.Expr, item: exp.Expr, conditions: Sequence[Expression], *, with_null: bool
    ) -> exp.Expr:
        """Return ``operand IN (values)``, with NULL among them as SQL's IN has it."""
        values = self._catalog.public_values(self._table.name, self._lower(item), tuple(conditions))
        if len(values) > MAX_PUBLIC_VALUES:
            rule = f"a subquery over a public table can list at most {MAX_PUBLIC_VALUES:,} values"
            fix = f"join {self._table.name} in FROM instead: LEFT JOIN … and test its column IS NULL or IS NOT NULL"
            raise refuse(node, "public-subquery", rule, fix)
        literals = [value_literal(value) for value in values if with_null or value is not None]
        return exp.In(this=operand.copy(), expressions=literals) if literals else exp.false()

    def _matched_sides(self, correlated: Sequence[exp.Expr]) -> tuple[exp.Expr, exp.Expr] | None:
        """Return (public side, private side) of the one equality with the rows around EXISTS."""
        if len(correlated) != 1 or not isinstance(correlated[0], exp.EQ):
            return None
        left, right = correlated[0].this, correlated[0].expression
        sides = [(left, right)] if self._is_public(left) else [(right, left)] if self._is_public(right) else []
        return next(((inner, outer) for inner, outer in sides if not self._reads_public(outer)), None)

    def _resolves(self, column: exp.Column) -> bool:
        return column.name.lower() in self._columns and column.table.lower() in ("", self._alias)

    def _is_public(self, node: exp.Expr) -> bool:
        return all(map(self._resolves, node.find_all(exp.Column))) and node.find(exp.Subquery, exp.Select) is None

    def _reads_public(self, node: exp.Expr) -> bool:
        return any(map(self._resolves, node.find_all(exp.Column)))

    def _lower(self, node: exp.Expr) -> Expression:
        """Lower an expression over the columns of the public table."""
        return lower_expression(node, lambda _, name: self._column(self._columns[name.lower()]))

    def _column(self, name: str) -> Column:
        return Column(Field(0, self._table.name, name), self._table.columns[name])
