"""Parse a client's catalog statement and refuse every construct, function and type that is not listed.

The functions of catalog statements: our own definitions, which are DuckDB macros over the catalog's own values.

A statement may call what is listed here and nothing else. In generated SQL every one of them has ``MACRO_PREFIX``, so
a name outside the list cannot reach a function of DuckDB.

Lookups read maps held in variables rather than tables: DuckDB's macros are textual and would capture the names of the
statement around them, and it refuses correlated subqueries in some joins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import Unsupported
from sfumato.server.postgres.catalog.relations import FUNCTION_SCHEMA, SCHEMA, CatalogRelation, catalog_relations
from sfumato.server.postgres.protocol import SERVER_VERSION
from sfumato.untrusted import escape_unprintable
from sfumato.version import __version__

MACRO_PREFIX = "sf_"
SETTINGS: Mapping[str, str] = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "150000",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
"""What ``current_setting`` returns, and the rows of ``pg_settings``."""
_SCALARS = """
version() = 'PostgreSQL {version} (Sfumato {package})'
pg_table_is_visible(o) = getvariable('relation_visible')[o::UINTEGER]
pg_type_is_visible(o) = getvariable('type_visible')[o::UINTEGER]
pg_function_is_visible(o) = true
pg_collation_is_visible(o) = true
pg_operator_is_visible(o) = true
pg_opclass_is_visible(o) = true
pg_opfamily_is_visible(o) = true
pg_conversion_is_visible(o) = true
pg_ts_config_is_visible(o) = true
pg_statistics_obj_is_visible(o) = true
pg_get_userbyid(o) = coalesce(getvariable('role_name')[o::UINTEGER], 'unknown (OID=' || o || ')')
format_type(o, m) = CASE WHEN o = 0 THEN '-' WHEN o > 0 THEN coalesce(sf_type_name(o), '???') END
to_regclass(t) = coalesce(getvariable('relation_oid')[t], getvariable('relation_oid')[replace(t, '"', '')])
to_regtype(t) = coalesce(getvariable('type_oid')[t], getvariable('type_oid')[lower(replace(t, '"', ''))])
to_regnamespace(t) = getvariable('namespace_oid')[t]
to_regrole(t) = getvariable('role_oid')[t]
obj_description(o, c) = getvariable('object_comment')[c || '/' || o]
obj_description(o) = getvariable('object_comment')['pg_class/' || o]
col_description(o, n) = getvariable('column_comment')[o || '/' || n]
shobj_description(o, c) = NULL::VARCHAR
pg_get_expr(a, b) = NULL::VARCHAR
pg_get_expr(a, b, c) = NULL::VARCHAR
pg_get_constraintdef(a) = NULL::VARCHAR
pg_get_constraintdef(a, b) = NULL::VARCHAR
pg_get_indexdef(a) = NULL::VARCHAR
pg_get_indexdef(a, b, c) = NULL::VARCHAR
pg_get_viewdef(a) = NULL::VARCHAR
pg_get_viewdef(a, b) = NULL::VARCHAR
pg_get_ruledef(a) = NULL::VARCHAR
pg_get_ruledef(a, b) = NULL::VARCHAR
pg_get_triggerdef(a) = NULL::VARCHAR
pg_get_triggerdef(a, b) = NULL::VARCHAR
pg_get_partkeydef(a) = NULL::VARCHAR
pg_get_functiondef(a) = NULL::VARCHAR
pg_get_function_result(a) = NULL::VARCHAR
pg_get_function_arguments(a) = NULL::VARCHAR
pg_get_function_identity_arguments(a) = NULL::VARCHAR
pg_get_function_sqlbody(a) = NULL::VARCHAR
pg_get_statisticsobjdef(a) = NULL::VARCHAR
pg_get_statisticsobjdef_columns(a) = NULL::VARCHAR
pg_get_serial_sequence(a, b) = NULL::VARCHAR
pg_sequence_last_value(a) = NULL::BIGINT
pg_relation_is_publishable(a) = false
pg_relation_size(a) = 0::BIGINT
pg_relation_size(a, b) = 0::BIGINT
pg_table_size(a) = 0::BIGINT
pg_total_relation_size(a) = 0::BIGINT
pg_indexes_size(a) = 0::BIGINT
pg_database_size(a) = 0::BIGINT
pg_tablespace_size(a) = 0::BIGINT
pg_stat_get_numscans(a) = 0::BIGINT
pg_size_pretty(a) = a || ' bytes'
pg_tablespace_location(a) = ''
pg_encoding_to_char(a) = CASE WHEN a = 6 THEN 'UTF8' ELSE '' END
pg_char_to_encoding(a) = CASE WHEN lower(a) IN ('utf8', 'utf-8') THEN 6 ELSE -1 END
pg_client_encoding() = 'UTF8'
getdatabaseencoding() = 'UTF8'
pg_is_in_recovery() = false
pg_advisory_unlock_all() = ''
pg_is_other_temp_schema(a) = false
pg_my_temp_schema() = 0::UINTEGER
inet_server_addr() = NULL::VARCHAR
inet_client_addr() = NULL::VARCHAR
inet_server_port() = NULL::INTEGER
has_database_privilege(a, p) = sf_may_read(p)
has_database_privilege(u, a, p) = sf_may_read(p)
has_schema_privilege(a, p) = sf_may_read(p)
has_schema_privilege(u, a, p) = sf_may_read(p)
has_table_privilege(a, p) = sf_may_read(p)
has_table_privilege(u, a, p) = sf_may_read(p)
has_any_column_privilege(a, p) = sf_may_read(p)
has_any_column_privilege(u, a, p) = sf_may_read(p)
has_column_privilege(a, c, p) = sf_may_read(p)
has_column_privilege(u, a, c, p) = sf_may_read(p)
has_function_privilege(a, p) = sf_may_read(p)
has_function_privilege(u, a, p) = sf_may_read(p)
has_sequence_privilege(a, p) = sf_may_read(p)
has_type_privilege(a, p) = sf_may_read(p)
has_tablespace_privilege(a, p) = false
pg_has_role(r, p) = r::VARCHAR IN (getvariable('user_name'), getvariable('user_oid')::VARCHAR)
pg_has_role(u, r, p) = r::VARCHAR IN (getvariable('user_name'), getvariable('user_oid')::VARCHAR)
current_database() = getvariable('database_name')
current_schema() = 'public'
current_schemas(a) = CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END
current_user() = getvariable('user_name')
current_setting(n) = sf_setting(n)
current_setting(n, missing) = getvariable('setting')[lower(n)]
array_upper(a, d) = nullif(len(a), 0)::INTEGER
array_lower(a, d) = CASE WHEN len(a) > 0 THEN 1 END
array_length(a, d) = nullif(len(a), 0)::INTEGER
array_ndims(a) = CASE WHEN len(a) > 0 THEN 1 END
array_position(a, e) = nullif(list_position(a, e), 0)::INTEGER
array_to_string(a, s) = array_to_string(a, s)
array_to_string(a, s, n) = array_to_string(list_transform(a, lambda e: coalesce(e::VARCHAR, n)), s)
string_to_array(t, s) = string_split(t, s)
cardinality(a) = len(a)::INTEGER
quote_ident(t) = CASE WHEN sf_is_plain_name(t) THEN t ELSE '"' || replace(t, '"', '""') || '"' END
quote_literal(t) = '''' || replace(t, '''', '''''') || ''''
lower(t) = lower(t)
upper(t) = upper(t)
length(t) = length(t)::INTEGER
char_length(t) = length(t)::INTEGER
ltrim(t) = ltrim(t)
rtrim(t) = rtrim(t)
btrim(t) = trim(t)
replace(t, a, b) = replace(t, a, b)
substring(t, f) = substring(t, f)
substring(t, f, n) = substring(t, f, n)
split_part(t, s, n) = split_part(t, s, n)
starts_with(t, p) = starts_with(t, p)
strpos(t, p) = strpos(t, p)::INTEGER
"""
_INNER = """
sf_type_name(o) = getvariable('type_name')[o::UINTEGER]
sf_regclass_name(o) = CASE WHEN o = 0 THEN '-' ELSE coalesce(getvariable('relation_name')[o::UINTEGER], o::VARCHAR) END
sf_regtype_name(o) = CASE WHEN o = 0 THEN '-' ELSE coalesce(sf_type_name(o), o::VARCHAR) END
sf_regnamespace_name(o) = coalesce(getvariable('namespace_name')[o::UINTEGER], o::VARCHAR)
sf_regrole_name(o) = coalesce(getvariable('role_name')[o::UINTEGER], o::VARCHAR)
sf_expandarray(a) = list_transform(a, lambda e, i: {'x': e, 'n': i})
sf_procedure_oid(n) = CASE WHEN n = '-' THEN 0::UINTEGER ELSE getvariable('procedure_oid')[n] END
sf_is_plain_name(t) = regexp_matches(t, '^[a-z_][a-z0-9_]*$') AND NOT list_contains(getvariable('quoted_keywords'), t)
sf_may_read(p) = regexp_matches(upper(p), 'SELECT|USAGE|CONNECT|EXECUTE')
sf_setting(n) = coalesce(getvariable('setting')[lower(n)], error('no such setting'))
"""
EMPTY_TABLE_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "pg_available_extensions": ("name", "default_version", "comment"),
    "pg_partition_ancestors": ("relid",),
    "pg_partition_tree": ("relid", "parentrelid", "isleaf", "level"),
    "pg_timezone_names": ("name", "abbrev", "utc_offset", "is_dst"),
}
"""Functions that return tables, and return no rows here, with their columns."""
SETTABLE = ("application_name", "bytea_output", "extra_float_digits", "jit")
"""What ``set_config`` accepts: settings without effect on a catalog statement."""


@cache
def function_arities() -> Mapping[str, frozenset[int]]:
    """Return the numbers of arguments with which each listed function may be called."""
    arities: dict[str, set[int]] = {}
    for name, arguments, _ in _parse_function_definitions(_SCALARS):
        arities.setdefault(name, set()).add(len(arguments))
    return {name: frozenset(counts) for name, counts in arities.items()}


def create_macro_statements() -> Iterator[str]:
    """Yield the statements that create the macros, those that others call first."""
    for prefix, text in (("", _INNER), (MACRO_PREFIX, _SCALARS)):
        overloads: dict[str, list[str]] = {}
        for name, arguments, body in _parse_function_definitions(text):
            overloads.setdefault(name, []).append(f"({', '.join(arguments)}) AS {body}")
        for name, variants in overloads.items():
            yield f"CREATE MACRO main.{prefix}{name}{', '.join(variants)}"


def _parse_function_definitions(text: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield name, arguments and body of each definition."""
    for line in text.strip().splitlines():
        heading, _, body = line.partition(" = ")
        parsed = re.fullmatch(r"(\w+)\((.*)\)", heading)
        assert parsed is not None, heading
        arguments = tuple(parsed[2].split(", ")) if parsed[2] else ()
        yield parsed[1], arguments, body.replace("{version}", SERVER_VERSION).replace("{package}", __version__)


VARIABLES: Mapping[str, str] = {
    "relation_visible": "SELECT MAP(list(oid), list(relnamespace IN (11, 2200))) FROM {schema}.pg_class",
    "type_visible": "SELECT MAP(list(oid), list(typnamespace IN (11, 2200))) FROM {schema}.pg_type",
    "role_name": "SELECT MAP(list(oid), list(rolname)) FROM {schema}.pg_roles",
    "role_oid": "SELECT MAP(list(rolname), list(oid)) FROM {schema}.pg_roles",
    "namespace_name": "SELECT MAP(list(oid), list(nspname)) FROM {schema}.pg_namespace",
    "namespace_oid": "SELECT MAP(list(nspname), list(oid)) FROM {schema}.pg_namespace",
    "procedure_oid": (
        "SELECT MAP(list(proname), list(oid)) "
        "FROM (SELECT proname, min(oid) AS oid FROM {schema}.pg_proc GROUP BY proname)"
    ),
    "setting": "SELECT MAP(list(lower(name)), list(setting)) FROM {schema}.pg_settings",
    "object_comment": (
        "SELECT MAP(list(c.relname || '/' || d.objoid), list(d.description)) FROM {schema}.pg_description AS d "
        "JOIN {schema}.pg_class AS c ON c.oid = d.classoid WHERE d.objsubid = 0"
    ),
    "column_comment": (
        "SELECT MAP(list(d.objoid || '/' || d.objsubid), list(d.description)) FROM {schema}.pg_description AS d "
        "WHERE d.objsubid > 0"
    ),
}
"""The maps that macros look values up in, each a query over the catalog's tables."""


def set_variable_statements() -> Iterator[str]:
    for name, query in VARIABLES.items():
        yield f"SET VARIABLE {name} = ({query.format(schema=SCHEMA)})"


MAX_LENGTH, MAX_TOKENS = 50_000, 3_000
"""The most characters and tokens of a statement, which bound the time of rewriting it; of the captured ones, the
longest has 6,000 characters and 1,000 tokens."""
_ARRAY_SUFFIX = "_sf_array"
"""Marks an array of object identifiers (``oid[]``), which the parser does not know as a type."""
_FIRST_TOKENS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES)
_KEYWORD_ALIASES = (TokenType.SELECT, TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE, TokenType.TABLE)
_STRUCTURE = (
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Fetch, exp.Distinct, exp.Union, exp.Intersect, exp.Except, exp.Subquery, exp.With, exp.CTE, exp.Lateral,
    exp.Table, exp.TableAlias, exp.Values, exp.Tuple, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Dot,
    exp.Paren, exp.Literal, exp.Null, exp.Boolean, exp.Parameter, exp.ByteString, exp.DataType, exp.ObjectIdentifier,
    exp.DataTypeParam, exp.Var, exp.Window, exp.WindowSpec, exp.Filter, exp.Array, exp.Bracket, exp.Slice, exp.Unnest,
)  # fmt: skip
_OPERATORS = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like,
    exp.ILike, exp.Escape, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg,
    exp.BitwiseAnd, exp.BitwiseOr, exp.DPipe, exp.Any, exp.All, exp.Operator, exp.Collate, exp.RegexpLike,
    exp.RegexpILike, exp.Exists,
)  # fmt: skip
_FUNCTIONS = (
    exp.Case, exp.If, exp.Cast, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Min, exp.Max, exp.Count, exp.Sum,
    exp.ArrayAgg, exp.GroupConcat, exp.LogicalAnd, exp.LogicalOr, exp.RowNumber, exp.Explode, exp.GenerateSeries,
    exp.ExplodingGenerateSeries, exp.Substring, exp.Lower, exp.Upper, exp.Replace, exp.Trim, exp.Length, exp.Concat,
    exp.Left, exp.Right, exp.StrPosition, exp.SplitPart, exp.CurrentDatabase, exp.CurrentCatalog, exp.CurrentSchema,
    exp.CurrentSchemas, exp.CurrentUser, exp.SessionUser, exp.CurrentRole, exp.CurrentVersion,
    exp.ArraySize, exp.ArrayToString, exp.StartsWith, exp.Format, exp.Anonymous,
)  # fmt: skip
NODES: frozenset[type[exp.Expr]] = frozenset((*_STRUCTURE, *_OPERATORS, *_FUNCTIONS))
"""The constructs a catalog statement may contain; the functions among ``Anonymous`` are listed by name."""
REWRITTEN_FUNCTIONS = frozenset(
    ("_pg_expandarray", "all", "concat", "format", "generate_subscripts", "json_build_object", "regexp_split_to_table",
     "pg_get_keywords", "set_config", "unnest", *EMPTY_TABLE_FUNCTIONS)
)  # fmt: skip
"""Functions that are no macro: the rewriting gives each its own form."""
CATALOG_SCHEMAS = ("pg_catalog", "information_schema")


def catalog_refusal(reason_code: str, rule: str, fix: str) -> Unsupported:
    """Return the refusal of a catalog statement, decided from its text alone."""
    return Unsupported(f"catalog-{reason_code}", rule, fix=fix, place="the statement")


def printable_name(name: str) -> str:
    return escape_unprintable(name[:63])


def parse_single_query_or_none(sql: str) -> exp.Query | None:
    """Parse a text that is one SELECT; return None for any other text."""
    if len(sql) > MAX_LENGTH:
        return None
    dialect = Postgres()
    try:
        tokens = [*_adapt_tokens(dialect.tokenize(sql))]
        if not tokens or len(tokens) > MAX_TOKENS or tokens[0].token_type not in _FIRST_TOKENS:
            return None
        trees = dialect.parser().parse(tokens, sql)
    except (SqlglotError, RecursionError):
        return None
    whole = [tree for tree in trees if tree is not None]
    return whole[0] if len(whole) == 1 and isinstance(whole[0], exp.Query) else None


def _adapt_tokens(tokens: list[Token]) -> Iterator[Token]:
    """Yield tokens with each ``oid [ ]`` made one name, which the parser takes for a type of that name, and with
    keywords made names after AS, where PostgreSQL allows any.
    """
    skipped = 0
    for index, token in enumerate(tokens):
        if skipped:
            skipped -= 1
            continue
        if index and tokens[index - 1].token_type is TokenType.ALIAS and token.token_type in _KEYWORD_ALIASES:
            yield Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
            continue
        following = [next_token.token_type for next_token in tokens[index + 1 : index + 3]]
        if token.token_type is TokenType.OBJECT_IDENTIFIER and following == [TokenType.L_BRACKET, TokenType.R_BRACKET]:
            skipped = 2
            yield Token(TokenType.VAR, token.text + _ARRAY_SUFFIX, token.line, token.col, token.start, token.end)
        else:
            yield token


def resolve_with_query(table: exp.Table) -> exp.CTE | None:
    """Return the WITH query that a table's name means where it stands; None if it means a relation.

    A WITH query is known in the statement that its clause begins and in the queries after it in the clause; itself it
    knows under RECURSIVE alone. A name that is only declared elsewhere is a relation's, and has to be listed.
    """
    if table.db or not isinstance(table.this, exp.Identifier):
        return None
    inner: exp.Expr = table
    while (outer := inner.parent) is not None:
        clause = outer if isinstance(outer, exp.With) else outer.args.get("with_")
        if isinstance(clause, exp.With) and inner is not clause:
            for query in reversed(_with_queries_visible_to(clause, inner)):
                if _folded_identifier(query.args["alias"].this) == _folded_identifier(table.this):
                    return query
        inner = outer
    return None


def _with_queries_visible_to(clause: exp.With, part: exp.Expr) -> list[exp.CTE]:
    """Return the queries of a WITH clause that one of them knows, or the statement after it."""
    queries: list[exp.CTE] = clause.expressions
    earlier = next((index for index, query in enumerate(queries) if query is part), len(queries))
    return queries[: earlier + bool(clause.args.get("recursive"))]


def table_references(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that a statement reads by name: neither functions nor its own WITH queries."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and resolve_with_query(table) is None:
            yield table


def table_schema(table: exp.Table) -> str:
    """Return the schema of a table's name; a name alone is one of pg_catalog, which comes first in every path."""
    return _folded_identifier(table.args.get("db")) or "pg_catalog"


def find_relation(table: exp.Table, database: str) -> CatalogRelation:
    """Return the listed relation that a table names; refuse any other."""
    schema, name = table_schema(table), _folded_identifier(table.this)
    catalog = _folded_identifier(table.args.get("catalog"))
    relation = catalog_relations().get((schema, name)) if schema != FUNCTION_SCHEMA else None
    if relation is None or catalog not in ("", database):
        raise catalog_refusal(
            "relation",
            f"{printable_name(f'{schema}.{name}')} is not a relation of this catalog",
            "read pg_catalog.pg_class, pg_attribute or information_schema.columns instead",
        )
    return relation


def _folded_identifier(identifier: object) -> str:
    """Return an identifier as PostgreSQL folds it."""
    if not isinstance(identifier, exp.Identifier):
        return ""
    return identifier.name if identifier.args.get("quoted") else identifier.name.lower()


def first_unknown_function(tree: exp.Expr) -> str:
    """Return the name of a function that is not listed; empty if all are."""
    for node in tree.find_all(exp.Func):
        if type(node) not in NODES:
            return node.sql_name().lower()
        if isinstance(node, exp.Anonymous) and not _is_known_function(node):
            return node.name.lower()
    return ""


def _is_known_function(function: exp.Anonymous) -> bool:
    name = function.name.lower()
    return name in REWRITTEN_FUNCTIONS or len(function.expressions) in function_arities().get(name, ())


def refuse_unknown_constructs(tree: exp.Expr) -> None:
    """Refuse what is not listed: first functions, by their names, then any other construct."""
    name = first_unknown_function(tree)
    if name:
        raise catalog_refusal(
            "function",
            f"the function {printable_name(name)} is not known to this catalog",
            "call a function of PostgreSQL's catalog, such as format_type or obj_description",
        )
    for node in tree.walk():
        if type(node) not in NODES:
            raise catalog_refusal(
                "construct", f"{node.key.upper()} is not supported in catalog statements", "write a plain SELECT"
            )
    _refuse_long_series(tree)
    _refuse_growing_recursion(tree)


MAX_SERIES = 1_000
_LENGTHS = ("array_upper", "array_length", "cardinality", "array_lower")


def _refuse_long_series(tree: exp.Expr) -> None:
    """Refuse series whose length is not evident: ends are numbers up to the limit, or lengths of arrays."""
    for series in tree.find_all(exp.GenerateSeries, exp.ExplodingGenerateSeries):
        ends = [series.args.get(name) for name in ("start", "end", "step")]
        if not all(end is None or _is_bounded_end(end) for end in ends):
            raise catalog_refusal(
                "series",
                f"generate_series is limited to {MAX_SERIES:,} values, or the length of an array",
                f"write generate_series(1, {MAX_SERIES})",
            )


def _is_bounded_end(end: exp.Expr) -> bool:
    if isinstance(end, exp.Dot):
        return _is_bounded_end(end.expression)
    if isinstance(end, exp.Literal):
        return not end.is_string and end.name.isdigit() and int(end.name) <= MAX_SERIES
    if isinstance(end, exp.Neg):
        return _is_bounded_end(end.this)
    if isinstance(end, (exp.Add, exp.Sub)):
        return _is_bounded_end(end.this) and _is_bounded_end(end.expression)
    return isinstance(end, exp.ArraySize) or (isinstance(end, exp.Anonymous) and end.name.lower() in _LENGTHS)


def _refuse_growing_recursion(tree: exp.Expr) -> None:
    """Refuse concatenation under WITH RECURSIVE: a text that doubles at every step outgrows any limit."""
    for clause in tree.find_all(exp.With):
        grows = clause.args.get("recursive") and clause.find(exp.DPipe, exp.Concat, exp.GroupConcat)
        if grows:
            raise catalog_refusal(
                "recursion",
                "WITH RECURSIVE cannot concatenate values in a catalog statement",
                "concatenate outside of WITH RECURSIVE",
            )


_TYPE_NAMES = {
    "VARCHAR": "varchar", "TEXT": "text", "INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "BOOLEAN": "bool",
    "NAME": "name", "BPCHAR": "bpchar", "CHAR": "bpchar", "DOUBLE": "float8", "FLOAT": "float4", "DECIMAL": "numeric",
    "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamptz", "JSON": "json", "JSONB": "jsonb",
    "UUID": "uuid", "XML": "xml",
}  # fmt: skip
"""PostgreSQL's name of each type that the parser knows."""
_DOMAINS = {
    "sql_identifier": "name", "character_data": "varchar", "cardinal_number": "int4", "yes_or_no": "varchar",
    "time_stamp": "timestamptz",
}  # fmt: skip
"""The base type of each domain of information_schema."""


def require_type_name(data_type: exp.Expr) -> str:
    """Return PostgreSQL's name of a type, of an array with its prefix; refuse an unknown one."""
    name = _type_name_as_spelled(data_type)
    if name.removeprefix("_") not in _types_by_name():
        fix = "cast to text, integer, bigint, boolean, oid or regclass"
        raise catalog_refusal("type", f"the type {printable_name(name)} is not known to this catalog", fix)
    return name


@cache
def _types_by_name() -> Mapping[str, object]:
    from sfumato.server.postgres.catalog.relations import postgres_types

    return postgres_types()


def _type_name_as_spelled(data_type: exp.Expr) -> str:
    if isinstance(data_type, exp.ObjectIdentifier):
        return str(data_type.this).lower()
    assert isinstance(data_type, exp.DataType)
    if data_type.this == exp.DType.ARRAY and data_type.expressions:
        return "_" + _type_name_as_spelled(data_type.expressions[0])
    if data_type.this == exp.DType.USERDEFINED:
        kind = data_type.args.get("kind")
        name = _folded_identifier(kind.expression if isinstance(kind, exp.Dot) else kind)
        is_array = name.endswith(_ARRAY_SUFFIX)
        name = name.removesuffix(_ARRAY_SUFFIX)
        return ("_" if is_array else "") + _DOMAINS.get(name, name)
    parsed = str(getattr(data_type.this, "name", data_type.this))
    return _TYPE_NAMES.get(parsed, parsed.lower())
