"""The names that PostgreSQL gives to unnamed columns of a result."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.server.postgres.catalog.parsing import require_type_name

UNNAMED = "?column?"
_NAMED_NODES: Mapping[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Nullif: "nullif",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Array: "array",
    exp.Exists: "exists",
    exp.Explode: "unnest",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.GenerateSeries: "generate_series",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Trim: "btrim",
    exp.StrPosition: "position",
    exp.CurrentVersion: "version",
}


def column_name(projection: exp.Expr) -> str:
    """Return the name of a column: its alias, or what PostgreSQL derives from the expression."""
    return _derived_name_and_is_strong(projection)[0] or UNNAMED


def _derived_name_and_is_strong(node: exp.Expr) -> tuple[str, bool]:
    """Return a name, and whether it is strong: a weak one gives way to the name of a type around it."""
    if isinstance(node, (exp.Alias, exp.Column)):
        return str(node.alias_or_name), True
    if isinstance(node, exp.Dot):
        return (
            _derived_name_and_is_strong(node.expression)
            if isinstance(node.expression, exp.Func)
            else (node.expression.name, True)
        )
    if isinstance(node, (exp.Paren, exp.Collate, exp.Bracket, exp.Filter, exp.Window)):
        return _derived_name_and_is_strong(node.this)
    if isinstance(node, exp.Cast):
        inner = _derived_name_and_is_strong(node.this)
        return inner if inner[1] else (require_type_name(node.to), False)
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        inner = ("", False) if default is None else _derived_name_and_is_strong(default)
        return inner if inner[1] else ("case", False)
    if isinstance(node, exp.Subquery):
        query = node.unnest()
        projections = query.selects if isinstance(query, exp.Query) else []
        return (column_name(projections[0]), True) if projections else ("", False)
    return _function_name_and_is_strong(node)


def _function_name_and_is_strong(node: exp.Expr) -> tuple[str, bool]:
    if type(node) in _NAMED_NODES:
        return _NAMED_NODES[type(node)], True
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower(), True
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Connector, exp.Binary)):
        return node.sql_name().lower(), True
    return "", False
