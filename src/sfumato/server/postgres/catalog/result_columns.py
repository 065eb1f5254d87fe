"""The names that PostgreSQL gives to a result's columns, and their declared types.

DuckDB holds both as VARCHAR, and clients decode them differently.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.server.postgres.catalog.parsing import require_type_name, table_schema
from sfumato.server.postgres.catalog.relations import catalog_relations, type_oid

Columns = list[tuple[str, int | None]]
"""Names and type OIDs; None where the type follows from the value."""
_REG_TYPES = ("regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper")
_TEXT, _NAME = 25, 19
_NAME_FUNCTIONS = ("pg_get_userbyid", "pg_encoding_to_char", "getdatabaseencoding", "pg_client_encoding")
_NAME_KEYWORDS = (
    exp.CurrentDatabase,
    exp.CurrentCatalog,
    exp.CurrentSchema,
    exp.CurrentUser,
    exp.SessionUser,
    exp.CurrentRole,
)
"""What returns a value of type name."""


def declared_oids(tree: exp.Query) -> list[int | None] | None:
    """Return the declared type of each column; None if the columns themselves are not known from the text."""
    columns = _query_columns(tree, {})
    return None if columns is None else [oid for _, oid in columns]


def _query_columns(query: exp.Expr, outer: Mapping[str, Columns | None]) -> Columns | None:
    cte_columns = dict(outer)
    for cte in query.args["with_"].expressions if query.args.get("with_") else ():
        cte_columns[cte.alias.lower()] = None  # a recursive query sees its own name
        cte_columns[cte.alias.lower()] = _with_column_aliases(
            _query_columns(cte.this, cte_columns), cte.args.get("alias")
        )
    if isinstance(query, exp.SetOperation):
        return _query_columns(query.left, cte_columns)
    if isinstance(query, exp.Subquery):
        return _query_columns(query.this, cte_columns)
    return _select_columns(query, cte_columns) if isinstance(query, exp.Select) else None


def _with_column_aliases(columns: Columns | None, alias: exp.Expr | None) -> Columns | None:
    names = [column.name.lower() for column in (alias.args.get("columns") or ())] if alias is not None else []
    if columns is None or len(names) > len(columns):
        return None
    return [(name, oid) for name, (_, oid) in zip(names, columns, strict=False)] + columns[len(names) :]


def _select_columns(select: exp.Select, cte_columns: Mapping[str, Columns | None]) -> Columns | None:
    clause = select.args.get("from_")
    joined = [clause.this] if clause is not None else []
    joined += [join.this for join in select.args.get("joins") or ()]
    sources = {source.alias_or_name.lower(): _source_columns(source, cte_columns) for source in joined}
    columns: Columns = []
    for projection in select.expressions:
        if projection.is_star:
            expanded = _expand_star(projection, sources)
            if expanded is None:
                return None
            columns += expanded
        else:
            columns.append((projection.alias_or_name.lower(), _expression_oid(projection, sources, cte_columns)))
    return columns


def _expand_star(star: exp.Expr, sources: Mapping[str, Columns | None]) -> Columns | None:
    """Return the columns of all sources, or of the one that is named; None if one of them is not cte_columns."""
    table = star.text("table").lower()
    wanted = [sources.get(table)] if table else [*sources.values()]
    return [column for columns in wanted for column in columns or ()] if None not in wanted else None


def _source_columns(source: exp.Expr, cte_columns: Mapping[str, Columns | None]) -> Columns | None:
    if isinstance(source, exp.Subquery):
        return _with_column_aliases(_query_columns(source.this, cte_columns), source.args.get("alias"))
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return None
    if not source.db and source.name.lower() in cte_columns:
        return cte_columns[source.name.lower()]
    relation = catalog_relations().get((table_schema(source), source.name.lower()))
    if relation is None:
        return None
    return [(name, _TEXT if kind in _REG_TYPES else type_oid(kind)) for name, kind in relation.columns.items()]


def _expression_oid(
    node: exp.Expr, sources: Mapping[str, Columns | None], cte_columns: Mapping[str, Columns | None]
) -> int | None:
    inner = node.unalias() if isinstance(node, exp.Alias) else node
    if isinstance(inner, exp.Paren):
        return _expression_oid(inner.this, sources, cte_columns)
    if isinstance(inner, exp.Subquery):
        columns = _query_columns(inner.this, cte_columns)
        return columns[0][1] if columns else None
    if isinstance(inner, exp.Cast):
        return _cast_oid(inner)
    if isinstance(inner, (exp.Coalesce, exp.Nullif)):
        return _expression_oid(inner.this, sources, cte_columns)
    if isinstance(inner, exp.Dot) or _returns_name(inner):
        return _NAME if _returns_name(inner.expression if isinstance(inner, exp.Dot) else inner) else None
    if not isinstance(inner, exp.Column):
        return None
    table = inner.table.lower()
    searched = [sources.get(table)] if table else [*sources.values()]
    matches = [oid for columns in searched for name, oid in columns or () if name == inner.name.lower()]
    return matches[0] if len(matches) == 1 else None


def _returns_name(function: exp.Expr) -> bool:
    is_listed = isinstance(function, exp.Anonymous) and function.name.lower() in _NAME_FUNCTIONS
    return is_listed or isinstance(function, _NAME_KEYWORDS)


def _cast_oid(cast: exp.Cast) -> int | None:
    try:
        name = require_type_name(cast.to)
    except Unsupported:
        return None
    return _TEXT if name.removeprefix("_") in _REG_TYPES else type_oid(name)


UNNAMED = "?column?"
_NAME_BY_NODE_TYPE: Mapping[type[exp.Expr], str] = {
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
    if type(node) in _NAME_BY_NODE_TYPE:
        return _NAME_BY_NODE_TYPE[type(node)], True
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower(), True
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Connector, exp.Binary)):
        return node.sql_name().lower(), True
    return "", False
