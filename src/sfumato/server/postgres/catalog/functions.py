"""The functions of catalog statements: our own definitions, which are DuckDB macros over the catalog's own values.

A statement may call what is listed here and nothing else. In generated SQL every one of them has ``MACRO_PREFIX``, so
a name outside the list cannot reach a function of DuckDB.

Lookups read maps held in variables rather than tables: DuckDB's macros are textual and would capture the names of the
statement around them, and it refuses correlated subqueries in some joins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from sfumato.server.postgres.catalog.relations import SCHEMA
from sfumato.server.postgres.protocol import SERVER_VERSION
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
