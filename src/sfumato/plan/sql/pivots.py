"""Rewrite PIVOT and UNPIVOT as GROUP BY with FILTER and as UNION ALL.

The columns of a pivot are the values written after IN, or the values that the policy declares; never the values of
rows. So the columns of an answer are known before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import Query
from sfumato.plan.sql.text_positions import default_column_name, node_text, refuse
from sfumato.policy import Domain

MAX_VALUES = 100
_PIVOT_FIX = "write PIVOT m ON region IN ('north', 'south') USING SUM(n) GROUP BY month"
_UNPIVOT_FIX = "write UNPIVOT m ON a, b INTO NAME kind VALUE n"

_ROW_CODES = ("star", "no-aggregate")
"""The codes by which a SELECT of all columns of private rows is refused."""
LowerProbe = Callable[[exp.Select], Query]


def expand_pivots(select: exp.Select, catalog: Catalog, lower: LowerProbe) -> exp.Select:
    """Return a SELECT in which every PIVOT and UNPIVOT of FROM is a subquery."""
    if not any(source.args.get("pivots") for source in select.find_all(exp.Table, exp.Subquery)):
        return select
    expanded = select.copy()
    sources = [source for source in expanded.find_all(exp.Table, exp.Subquery) if source.args.get("pivots")]
    for source in reversed(sources):  # inner ones first
        pivots = source.args["pivots"]
        if len(pivots) > 1:
            raise refuse(source, "pivot", "one PIVOT can follow a table", "write the first one as a subquery")
        bare = source.copy()
        bare.set("pivots", None)
        bare.set("alias", None)
        columns = _source_columns(source, bare, catalog, lower)
        body = _unpivot(pivots[0], bare, columns) if pivots[0].args.get("unpivot") else _pivot(pivots[0], bare, columns)
        alias = pivots[0].args.get("alias") or source.args.get("alias")
        source.replace(exp.Subquery(this=body, alias=alias.copy() if alias is not None else _unnamed()))
    return expanded


def _unnamed() -> exp.Expr:
    return exp.TableAlias(this=exp.to_identifier("pivoted"))


@dataclass(frozen=True)
class _Columns:
    """The columns of the rows that are pivoted, with their domains."""

    domains: dict[str, Domain]
    private: bool
    """Whether they are rows of a table, which must be grouped."""


def _source_columns(source: exp.Expr, bare: exp.Expr, catalog: Catalog, lower: LowerProbe) -> _Columns:
    scope = _visible_ctes(source)
    names = {cte.alias.lower() for cte in scope}
    tables = {name.lower(): table for name, table in catalog.tables.items()}
    if isinstance(bare, exp.Table) and bare.name.lower() not in names and bare.name.lower() in tables:
        return _Columns(dict(tables[bare.name.lower()].columns), private=True)
    probe = exp.select("*").from_(bare.copy() if isinstance(bare, exp.Table) else _aliased(bare))
    if scope:
        probe.set("with_", exp.With(expressions=[cte.copy() for cte in scope]))
    try:
        outputs = lower(probe).outputs
    except Unsupported as refusal:
        if refusal.code not in _ROW_CODES:
            raise
        return _Columns({}, private=True)
    return _Columns({output.name: output.expression.domain for output in outputs}, private=False)


def _aliased(subquery: exp.Expr) -> exp.Expr:
    copied = subquery.copy()
    copied.set("alias", _unnamed())
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


def _pivot(pivot: exp.Pivot, source: exp.Expr, columns: _Columns) -> exp.Select:
    """Return GROUP BY the other columns with one FILTER for each value and aggregate."""
    is_statement = bool(pivot.args.get("using"))
    fields = pivot.expressions if is_statement else pivot.args.get("fields") or []
    aggregates = pivot.args["using"] if is_statement else pivot.expressions
    if len(fields) != 1 or not aggregates:
        raise refuse(pivot, "pivot", "PIVOT takes one column and at least one aggregate", _PIVOT_FIX)
    (field,) = fields
    key = field.this if isinstance(field, exp.In) else field
    values = _listed_values(field) if isinstance(field, exp.In) else _declared_values(field, columns)
    keys = _group_columns(pivot, key, aggregates, columns)
    items: list[exp.Expr] = [exp.column(name, quoted=True) for name in keys]
    items += [
        _filtered(aggregate, key, value, _column_name(label, aggregate, len(aggregates)))
        for value, label in values
        for aggregate in aggregates
    ]
    select = exp.select(*items).from_(source if isinstance(source, exp.Table) else _aliased(source))
    return select.group_by(*(exp.column(name, quoted=True) for name in keys)) if keys else select


def _listed_values(field: exp.In) -> list[tuple[exp.Expr, str]]:
    """Return the values after IN with the names of their columns."""
    values: list[tuple[exp.Expr, str]] = []
    for item in field.expressions:
        value = item.this if isinstance(item, (exp.PivotAlias, exp.Alias)) else item
        if not isinstance(value, (exp.Literal, exp.Boolean)):
            rule = f"the columns of PIVOT are values written in the question; {node_text(value)} is none"
            raise refuse(field, "pivot-values", rule, _PIVOT_FIX)
        is_named = isinstance(item, (exp.PivotAlias, exp.Alias))
        label = item.alias if is_named else value.name or node_text(value).lower()
        values.append((value, label))
    if not 0 < len(values) <= MAX_VALUES:
        rule = f"PIVOT takes from 1 to {MAX_VALUES} values after IN, written in the question"
        raise refuse(field, "pivot-values", rule, _PIVOT_FIX)
    return values


def _declared_values(field: exp.Expr, columns: _Columns) -> list[tuple[exp.Expr, str]]:
    """Return the values that the policy declares for a column."""
    domain = next((domain for name, domain in columns.domains.items() if name.lower() == field.name.lower()), None)
    if domain is None or not domain.values or len(domain.values) > MAX_VALUES:
        rule = f"PIVOT ON {node_text(field)} needs its values: the columns of an answer never come from rows"
        raise refuse(field, "pivot-values", rule, f"name them: ON {node_text(field)} IN ('north', 'south')")
    return [(exp.convert(value), str(value)) for value in domain.values]


def _group_columns(pivot: exp.Pivot, key: exp.Expr, aggregates: Sequence[exp.Expr], columns: _Columns) -> list[str]:
    """Return the columns that PIVOT groups by: those of GROUP BY, or all that it does not read."""
    group = pivot.args.get("group")
    if group is not None:
        return [item.name for item in group.expressions]
    read = {column.name.lower() for node in (key, *aggregates) for column in node.find_all(exp.Column)}
    if columns.private:
        rule = "PIVOT of a table would group by all its other columns"
        raise refuse(pivot, "pivot", rule, _PIVOT_FIX)
    return [name for name in columns.domains if name.lower() not in read]


def _filtered(aggregate: exp.Expr, key: exp.Expr, value: exp.Expr, name: str) -> exp.Expr:
    condition = exp.EQ(this=key.copy(), expression=value.copy())
    filtered = exp.Filter(this=aggregate.unalias().copy(), expression=exp.Where(this=condition))
    return exp.alias_(filtered, name, quoted=True)


def _column_name(label: str, aggregate: exp.Expr, count: int) -> str:
    if aggregate.alias:
        return f"{label}_{aggregate.alias}"
    return label if count == 1 else f"{label}_{default_column_name(aggregate)}"


def _unpivot(pivot: exp.Pivot, source: exp.Expr, columns: _Columns) -> exp.Expr:
    """Return UNION ALL of the other columns with each unpivoted one."""
    into = pivot.args.get("into")
    if into is not None:
        name, value, chosen = into.this.name, into.expressions[0].name, [item.name for item in pivot.expressions]
    else:
        fields = pivot.args.get("fields") or []
        if len(fields) != 1 or len(pivot.expressions) != 1:
            raise refuse(pivot, "unpivot", "UNPIVOT takes one name and one value", _UNPIVOT_FIX)
        name, value = fields[0].this.name, pivot.expressions[0].name
        chosen = [item.unalias().name for item in fields[0].expressions]
    known = {column.lower(): column for column in columns.domains}
    unknown = [column for column in chosen if column.lower() not in known]
    if columns.private or unknown or not chosen:
        rule = f"UNPIVOT takes columns of aggregated rows{'; there is no ' + unknown[0][:60] if unknown else ''}"
        raise refuse(pivot, "unpivot", rule, _UNPIVOT_FIX)
    kept = [column for column in columns.domains if column.lower() not in {item.lower() for item in chosen}]
    members = []
    for item in chosen:
        column = known[item.lower()]
        items: list[exp.Expr] = [exp.column(other, quoted=True) for other in kept]
        items += [exp.alias_(exp.Literal.string(column), name, quoted=True)]
        items += [exp.alias_(exp.column(column, quoted=True), value, quoted=True)]
        members.append(exp.select(*items).from_(source.copy() if isinstance(source, exp.Table) else _aliased(source)))
    united: exp.Expr = members[0]
    for member in members[1:]:
        united = exp.Union(this=united, expression=member, distinct=False)
    return united
