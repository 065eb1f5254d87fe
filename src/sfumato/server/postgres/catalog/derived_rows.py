"""Relations whose rows follow from other relations of the catalog: pg_tables, information_schema and others."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.server.postgres.catalog.relations import SCHEMA

DERIVED = {
    "pg_tables": """
        SELECT n.nspname AS schemaname, c.relname AS tablename, r.rolname AS tableowner, false AS hasindexes,
            false AS hasrules, false AS hastriggers, false AS rowsecurity
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE c.relkind = 'r'""",
    "pg_views": """
        SELECT n.nspname AS schemaname, c.relname AS viewname, r.rolname AS viewowner
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE c.relkind = 'v'""",
    "pg_user": """
        SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
            rolreplication AS userepl, rolbypassrls AS usebypassrls, rolpassword AS passwd
        FROM pg_roles WHERE rolcanlogin""",
    "information_schema_information_schema_catalog_name": "SELECT getvariable('database_name') AS catalog_name",
    "information_schema_enabled_roles": "SELECT getvariable('user_name') AS role_name",
    "information_schema_character_sets": """
        SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
            getvariable('database_name') AS default_collate_catalog""",
    "information_schema_schemata": """
        SELECT getvariable('database_name') AS catalog_name, n.nspname AS schema_name, r.rolname AS schema_owner
        FROM pg_namespace AS n JOIN pg_roles AS r ON r.oid = n.nspowner WHERE n.nspname <> 'pg_toast'""",
    "information_schema_tables": """
        SELECT getvariable('database_name') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
            CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
            'NO' AS is_insertable_into, 'NO' AS is_typed
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace""",
    "information_schema_columns": """
        SELECT getvariable('database_name') AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
            a.attname AS column_name, a.attnum::INTEGER AS ordinal_position, 'YES' AS is_nullable,
            CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE getvariable('type_name')[t.oid] END AS data_type,
            CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
                WHEN 'float8' THEN 53 END AS numeric_precision,
            CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 WHEN t.typname = 'numeric'
                THEN 10 END AS numeric_precision_radix,
            CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0 END AS numeric_scale,
            CASE t.typname WHEN 'date' THEN 0 WHEN 'timestamp' THEN 6 WHEN 'timestamptz' THEN 6
                END AS datetime_precision,
            CASE WHEN t.typcollation NOT IN (0, 100) THEN getvariable('database_name') END AS collation_catalog,
            CASE WHEN t.typcollation NOT IN (0, 100) THEN 'pg_catalog' END AS collation_schema,
            CASE WHEN t.typcollation NOT IN (0, 100) THEN 'C' END AS collation_name,
            getvariable('database_name') AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
            a.attnum::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity,
            'NO' AS identity_cycle, 'NEVER' AS is_generated, 'NO' AS is_updatable
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_type AS t ON t.oid = a.atttypid""",
    "information_schema_table_privileges": """
        SELECT r.rolname AS grantor, getvariable('user_name') AS grantee, getvariable('database_name') AS table_catalog,
            n.nspname AS table_schema, c.relname AS table_name, 'SELECT' AS privilege_type, 'NO' AS is_grantable,
            'YES' AS with_hierarchy
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE n.nspname IN ('public', 'sfumato')""",
    "information_schema_role_table_grants": "SELECT * FROM information_schema_table_privileges",
    "information_schema_column_privileges": """
        SELECT p.grantor, p.grantee, p.table_catalog, p.table_schema, p.table_name, c.column_name, p.privilege_type,
            p.is_grantable
        FROM information_schema_table_privileges AS p JOIN information_schema_columns AS c
            ON c.table_schema = p.table_schema AND c.table_name = p.table_name""",
}
"""The query that fills each derived relation, in an order in which what it reads is filled."""


def derived_insert_statements() -> Iterator[str]:
    """Yield the statements that fill the derived relations; columns a query leaves out are NULL."""
    for name, query in DERIVED.items():
        yield f"INSERT INTO {SCHEMA}.{name} BY NAME {query}"
