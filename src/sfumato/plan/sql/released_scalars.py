"""Scalar subqueries over private rows in expressions on rows: ``WHERE income > (SELECT AVG(income) FROM people)``.

Such a number is released first, at a share of the price, and the question is then asked with it as a literal
(``private_scalars``). A scalar subquery that only meets noisy rows, as in HAVING, is computed from them instead
(``noisy_relations``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import takewhile

from sqlglot import exp

from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import Query, ValueQuery
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.dialect import DIALECT, has_node
from sfumato.plan.sql.noisy_relations import (
    NoisyRowsDetector,
    Scope,
    body_and_scope,
    is_scalar_subquery,
    with_scope_ctes,
    without_parentheses,
)
from sfumato.plan.sql.outer import groups_by_unit, has_aggregates
from sfumato.plan.sql.sql_expressions import RELEASED_VALUE
from sfumato.plan.sql.text_positions import full_sql_text, node_text, refusal_at
from sfumato.plan.sql.unit_joins import is_correlated
from sfumato.plan.values.expressions import Column, ReleasedValue
from sfumato.policy import Domain, Type

MAX_VALUES = 9
"""The most numbers of one question that are released first."""

LowerSelect = Callable[[exp.Select], Query]


def lower_with_released_scalars(select: exp.Select, catalog: Catalog, lower: LowerSelect) -> Query:
    """Lower a SELECT whose rows are compared with numbers that are released first; any other as it is."""
    if not has_node(select, exp.Subquery):
        return lower(select)
    select = select.copy()
    scoped_subqueries = list(_RowScalars(NoisyRowsDetector(catalog)).scalars_of(select, {}))
    queries: list[ValueQuery] = []
    lowered = [(subquery, _value_query(subquery, scope, lower)) for subquery, scope in scoped_subqueries]
    for subquery, value in lowered:
        if value not in queries:
            queries.append(value)
        _replace_subquery_by_value(subquery, value, queries.index(value))
    if len(queries) > MAX_VALUES:
        rule = f"rows can be compared with at most {MAX_VALUES} results of subqueries; this question has {len(queries)}"
        fix = f"run this question first, and write its result in place of the subquery: {queries[-1].text}"
        raise refusal_at(scoped_subqueries[-1][0], "subquery-value", rule, fix)
    query = lower(_without_unused_ctes(select) if queries else select)
    if queries and query.combined is not None:
        rule = "a question that combines several SELECTs cannot compare rows with the result of a subquery"
        fix = f"run this question first, and write its result in place of the subquery: {queries[0].text}"
        raise refusal_at(select, "subquery-value", rule, fix)
    return replace(query, value_queries=tuple(queries)) if queries else query


class _RowScalars:
    """Finds the scalar subqueries over private rows that are part of an expression on rows."""

    def __init__(self, detector: NoisyRowsDetector) -> None:
        self._detector = detector

    def scalars_of(self, node: exp.Expr, visible: Scope) -> Iterator[tuple[exp.Subquery, Scope]]:
        """Iterate over those in a SELECT or UNION and below it, with the common table expressions in their scope."""
        node = without_parentheses(node)
        if not isinstance(node, exp.Query):
            return
        for cte in node.args["with_"].expressions if node.args.get("with_") else ():
            yield from self.scalars_of(cte.this, visible)
            visible = {**visible, cte.alias.lower(): (cte, visible)}
        if isinstance(node, exp.SetOperation):
            yield from self.scalars_of(node.this, visible)
            yield from self.scalars_of(node.expression, visible)
        elif isinstance(node, exp.Select) and node.args.get("from_") is not None:
            yield from self._scalars_of_select(node, visible)

    def _scalars_of_select(self, select: exp.Select, scope: Scope) -> Iterator[tuple[exp.Subquery, Scope]]:
        sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
        for source in sources:
            if isinstance(source, exp.Subquery):
                yield from self.scalars_of(source, scope)
        bodies = [body_and_scope(source, scope) for source in sources]
        if any(body is not None and self._detector.is_noisy(*body) for body in bodies):
            return
        is_row_wise = not has_aggregates(select) or groups_by_unit(
            with_scope_ctes(select, scope), self._detector.catalog
        )
        for subquery in [*select.find_all(exp.Subquery, exp.Exists)]:
            if subquery.find_ancestor(exp.Select) is not select:
                continue
            if not isinstance(subquery, exp.Subquery) or isinstance(subquery.parent, exp.In):
                yield from self.scalars_of(subquery.this, scope)
            elif is_scalar_subquery(subquery) and (is_row_wise or _is_read_by_rows(subquery, select)):
                body = without_parentheses(subquery)
                if not isinstance(body, exp.Select):
                    continue
                if not self._detector.reads_private_table(with_scope_ctes(body, scope)):
                    continue
                if not is_correlated(subquery):
                    yield subquery, scope
                elif not scope:
                    _require_correlation_on_unit(subquery, self._detector.catalog)


def _require_correlation_on_unit(subquery: exp.Subquery, catalog: Catalog) -> None:
    """Refuse a value for each group of other people's rows; one for each unit is refused where it is read."""
    body = without_parentheses(subquery)
    where, source, items = body.args.get("where"), body.args["from_"].this, body.args["expressions"]
    pair = where.this if where is not None and isinstance(where.this, exp.EQ) else None
    names = set() if pair is None else {pair.left.name.lower(), pair.right.name.lower()}
    table = next((table for name, table in catalog.tables.items() if name.lower() == source.name.lower()), None)
    is_plain = isinstance(source, exp.Table) and not body.args.get("joins") and len(items) == 1
    if table is None or pair is None or not is_plain or names != {pair.left.name.lower()}:
        return
    if names == {str(table.id).lower()}:
        return
    key = quoted(pair.left.name)
    grouped = f"SELECT {key}, {full_sql_text(items[0].unalias())} FROM {full_sql_text(source)} GROUP BY {key}"
    rule = f"a subquery with a value for each {key} would compare a row with rows of other people"
    raise refusal_at(subquery, "subquery-value", rule, f"compute the values of all groups instead: {grouped}")


def _is_read_by_rows(node: exp.Expr, select: exp.Select) -> bool:
    """Return whether a part of an aggregating SELECT is read row by row, not once for each group."""
    row_wise = {id(item) for item in _grouped_items(select)}
    return any(
        isinstance(ancestor, (exp.Where, exp.Group, exp.Join, exp.AggFunc)) or id(ancestor) in row_wise
        for ancestor in takewhile(lambda above: above is not select, _ancestors(node))
    )


def _grouped_items(select: exp.Select) -> list[exp.Expr]:
    """Return the items of a SELECT that GROUP BY names by their alias or position."""
    group = select.args.get("group")
    references = [] if group is None else group.expressions
    names = {node.name.lower() for node in references if isinstance(node, (exp.Column, exp.Literal))}
    return [
        item
        for number, item in enumerate(select.expressions, 1)
        if names & {str(number), *([item.alias.lower()] if isinstance(item, exp.Alias) else [])}
    ]


def _value_query(subquery: exp.Subquery, scope: Scope, lower: LowerSelect) -> ValueQuery:
    """Lower a scalar subquery, which must be a question with one number, whatever the data."""
    body = without_parentheses(subquery)
    assert isinstance(body, exp.Select)
    whole = with_scope_ctes(body, scope)
    query = lower(whole)
    finish = query.finish
    is_one_row = not (query.plan.keys or query.outer or query.combined) and finish == Finish(finish.outputs)
    if not is_one_row or len(query.outputs) != 1 or len(query.plan.measures) != 1:
        rule = f"{node_text(subquery)} must return one number to be compared with rows"
        raise refusal_at(subquery, "scalar-subquery", rule, "select one aggregate in it, without GROUP BY or HAVING")
    return ValueQuery(query, _value_domain(query), whole.sql(dialect=DIALECT), full_sql_text(subquery))


def _replace_subquery_by_value(subquery: exp.Subquery, value: ValueQuery, index: int) -> None:
    """Put a node that stands for the released number in the place of its subquery; it is written as the subquery is."""
    node = exp.Var(this=value.written)
    node.meta.update(next((part.meta for part in subquery.walk() if "line" in part.meta), {}))
    node.meta[RELEASED_VALUE] = Column(ReleasedValue(index, value.written), value.domain)
    subquery.replace(node)


def _value_domain(query: Query) -> Domain:
    """Return the domain of a released number: it may be missing, and is clamped to the range that a measure is in."""
    domain, possible = query.outputs[0].expression.domain, query.plan.measures[0].possible_range
    is_measure = isinstance(query.outputs[0].expression, Column)
    if domain.range is not None or not is_measure or possible is None or not domain.type.numeric:
        return replace(domain, nullable=True)
    low, high = possible
    is_integer = domain.type is Type.INTEGER
    return Domain(domain.type, bounds=(math.floor(low), math.ceil(high)) if is_integer else possible, nullable=True)


def _without_unused_ctes(select: exp.Select) -> exp.Select:
    """Return the SELECT without common table expressions that only a released number has read."""
    with_clause = select.args.get("with_")
    if with_clause is None:
        return select
    for cte in reversed(with_clause.expressions):
        readers = (table for table in select.find_all(exp.Table) if table.name.lower() == cte.alias.lower())
        if all(any(node is cte for node in _ancestors(table)) for table in readers):
            cte.pop()
    if not with_clause.expressions:
        with_clause.pop()
    return select


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node
