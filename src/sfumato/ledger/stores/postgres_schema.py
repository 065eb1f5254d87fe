"""The schema of a ledger in PostgreSQL: created by its owner, who lets others spend, and compared with its definition.

Lines and large answers are only ever added: a trigger that is always on refuses every change. Whoever spends may read
and add lines and lock the book, and has no right to more.

Indexes are checked against their tables: by the server itself, or by counting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerUnavailable
from sfumato.ledger.sealed_rows import COLUMNS, Row
from sfumato.ledger.stores.store import PendingCharge
from sfumato.mechanisms import bits

if TYPE_CHECKING:
    import psycopg


_INTEGER_COLUMNS = {"number", "time", "tab", "about", "terms"}
_TEXT, _NUMBER = 'text COLLATE "C"', "bigint"

TABLES: dict[str, dict[str, str]] = {
    "book": {"one": "boolean", "version": _NUMBER, "id": _TEXT, "key": _TEXT, "held": "boolean"},
    "lines": {column: _NUMBER if column in _INTEGER_COLUMNS else _TEXT for column in COLUMNS},
    "bodies": {"hash": _TEXT, "content": "bytea"},
    "under_way": {column: _NUMBER if column in _INTEGER_COLUMNS else _TEXT for column in PendingCharge._fields},
}
"""Every table and its columns, none of which may be NULL. The book has one row: the version of the schema, the id and
the key of the ledger; ``held`` has no meaning but that whoever may update it may lock the row.
"""
CONSTRAINTS: dict[tuple[str, str], str] = {
    ("book", "book_pkey"): "PRIMARY KEY (one)",
    ("book", "one_row"): "CHECK (one)",
    ("lines", "lines_pkey"): "PRIMARY KEY (number)",
    ("lines", "one_chain"): "UNIQUE (previous)",
    ("bodies", "bodies_pkey"): "PRIMARY KEY (hash)",
    ("bodies", "named_by_content"): "CHECK ((hash = encode(sha256(content), 'hex'::text)))",
    ("under_way", "under_way_pkey"): "PRIMARY KEY (number)",
}
INDEXES: dict[tuple[str, str], str] = {
    ("lines", "by_account"): "(account, number)",
    ("lines", "by_analyst"): "(account, analyst, number) WHERE (analyst <> ''::text)",
    ("lines", "by_tab"): "(tab, number) WHERE (tab <> 0)",
    ("lines", "by_about"): "(about, number) WHERE (about <> 0)",
    ("lines", "by_plan"): "(account, plan, data, number) WHERE ((kind = 'answer'::text) AND (plan <> ''::text))",
    ("lines", "by_request"): (
        "(account, analyst, request, number) WHERE ((kind = 'answer'::text) AND (request <> ''::text))"
    ),
    ("lines", "every_account"): "(kind, number) WHERE (kind = 'account-open'::text)",
    ("lines", "every_acknowledgement"): "(kind, number) WHERE (kind = 'acknowledge'::text)",
    ("lines", "every_source"): "(kind, number) WHERE (kind = 'source'::text)",
    ("lines", "every_tab"): "(kind, number) WHERE (kind = 'tab-open'::text)",
    ("under_way", "by_question"): "(account, plan, data)",
    ("under_way", "by_asker"): "(account, analyst, request)",
}
"""The indexes of the SQLite store, with the number last: the newest line of whatever is looked for is found at once."""
UNIQUE = {("book", "book_pkey"): "(one)", ("lines", "lines_pkey"): "(number)", ("lines", "one_chain"): "(previous)"}
UNIQUE |= {("bodies", "bodies_pkey"): "(hash)", ("under_way", "under_way_pkey"): "(number)"}
_REFUSE = "BEGIN RAISE EXCEPTION 'a ledger is never changed, only continued'; END"
_PROTECTED_TABLES = ("book", "lines", "bodies")
RIGHTS = {
    "book": "SELECT, UPDATE (held)",
    "lines": "SELECT, INSERT",
    "bodies": "SELECT, INSERT",
    "under_way": "SELECT, INSERT, DELETE",
}
"""What a spender may do with each table."""


def _create_statements(schema: str) -> tuple[str, ...]:
    """Return the statements that create the first version of the schema."""
    statements = []
    for table, columns in TABLES.items():
        definitions = [f'"{name}" {kind} NOT NULL' for name, kind in columns.items()]
        definitions += [
            f"CONSTRAINT {name} {text}" for (owner_table, name), text in CONSTRAINTS.items() if owner_table == table
        ]
        statements.append(f"CREATE TABLE {schema}.{table} ({', '.join(definitions)})")
    statements += [f"CREATE INDEX {name} ON {schema}.{table} {text}" for (table, name), text in INDEXES.items()]
    statements.append(f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $${_REFUSE}$$")
    for table in _PROTECTED_TABLES:
        statements.append(f"CREATE TRIGGER kept {_trigger_definition(schema, table)}")
        statements.append(f"ALTER TABLE {schema}.{table} ENABLE ALWAYS TRIGGER kept")
    return tuple(statements)


def _trigger_definition(schema: str, table: str) -> str:
    events = "BEFORE DELETE OR UPDATE OR TRUNCATE"
    return f"{events} ON {schema}.{table} FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse()"


MIGRATIONS = (_create_statements,)
"""What each version of the schema adds to the one before, given the schema's name."""


def create_or_migrate(connection: psycopg.Connection, schema: str, spender: str | None, place: str) -> None:
    """Create the schema or migrate it to this version, and let a role spend: all of it or nothing."""
    run = _runner(connection)
    with connection.transaction():
        run("SET LOCAL search_path = pg_catalog")
        run("SELECT pg_advisory_xact_lock(hashtext('sfumato ledger'), hashtext(%s))", schema)
        exists = run("SELECT to_regnamespace(%s) IS NOT NULL", schema)[0][0]
        if not exists:
            run(f"CREATE SCHEMA {schema}")
        version = _read_version(run, schema, place)
        if version == 0 and _object_names(run, schema):
            raise LedgerUnavailable(
                "this schema contains something other than a ledger",
                place=place,
                fix="name another schema for the ledger; nothing was changed",
            )
        for migration in MIGRATIONS[version:]:
            for statement in migration(schema):
                run(statement)
        if version == 0:
            values = (len(MIGRATIONS), f"{bits.random_bits(128):032x}", f"{bits.random_bits(256):064x}")
            run(f"INSERT INTO {schema}.book VALUES (true, %s, %s, %s, false)", *values)
        elif version < len(MIGRATIONS):
            change_book(run, schema, "version", len(MIGRATIONS))
        if spender is not None:
            _grant_spending(run, schema, spender)


def change_book(run: Callable[..., object], schema: str, column: str, value: str | int) -> None:
    """Change a column of the book, as its owner alone can: its trigger is disabled and enabled again."""
    run(f"ALTER TABLE {schema}.book DISABLE TRIGGER kept")
    run(f"UPDATE {schema}.book SET {column} = %s", value)
    run(f"ALTER TABLE {schema}.book ENABLE ALWAYS TRIGGER kept")


def _grant_spending(run: _RunStatement, schema: str, spender: str) -> None:
    if not run("SELECT true FROM pg_roles WHERE rolname = %s", spender):
        run(f"CREATE ROLE {spender} LOGIN")
    run(f"GRANT USAGE ON SCHEMA {schema} TO {spender}")
    for table, rights in RIGHTS.items():
        run(f"REVOKE ALL ON {schema}.{table} FROM {spender}")
        run(f"GRANT {rights} ON {schema}.{table} TO {spender}")


def _read_version(run: _RunStatement, schema: str, place: str) -> int:
    """Read the version of a schema; 0 if there is no book."""
    if not run("SELECT to_regclass(%s) IS NOT NULL", f"{schema}.book")[0][0]:
        return 0
    versions = run(f"SELECT version FROM {schema}.book FOR UPDATE")
    version = versions[0][0] if len(versions) == 1 and type(versions[0][0]) is int else -1
    require_current_version(version, place, making=True)
    return version


def require_current_version(version: int, place: str, *, making: bool = False) -> None:
    """Raise for a schema of another version than the one that is written here."""
    if version > len(MIGRATIONS):
        raise LedgerUnavailable(
            f"this ledger was written by a newer Sfumato (schema {version}; this version reads up to "
            f"{len(MIGRATIONS)})",
            place=place,
            fix="upgrade Sfumato; the ledger was not changed",
        )
    if version < 1 or (version < len(MIGRATIONS) and not making):
        raise LedgerUnavailable(
            f"this ledger was written by an older Sfumato (schema {version}; this version needs {len(MIGRATIONS)})",
            place=place,
            fix="as its owner, run `sfumato ledger init` with this address: it migrates the ledger",
        )


def _object_names(run: _RunStatement, schema: str) -> list[tuple[object, ...]]:
    return run("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s)::oid", schema) + run(
        "SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(%s)::oid", schema
    )


class _RunStatement:
    """A runner of single statements on a connection, which returns their rows."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def __call__(self, statement: str, *values: str | int) -> list[tuple[object, ...]]:
        cursor = self._connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


_runner = _RunStatement

# ── its shape ──────────────────────────────────────────────────────────────────────────────────

_OURS = "SELECT oid, relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind <> 'i'"
SHAPE = f"""
WITH ours AS ({_OURS})
SELECT 'table', relname::text, '',
    concat_ws(' ', relkind, relpersistence, relrowsecurity, relforcerowsecurity, relispartition)
    FROM pg_class WHERE relnamespace = '{{schema}}'::regnamespace AND relkind NOT IN ('i', 't')
UNION ALL SELECT 'column', ours.relname, attname, concat_ws(' ', attnum, format_type(atttypid, atttypmod),
    (SELECT collname FROM pg_collation WHERE pg_collation.oid = attcollation), attnotnull, atthasdef,
    nullif(attgenerated::text, ''), nullif(attidentity::text, ''))
    FROM pg_attribute JOIN ours ON attrelid = ours.oid WHERE attnum > 0
UNION ALL SELECT 'index', ours.relname, c.relname, concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid, indisready)
    FROM pg_index JOIN ours ON indrelid = ours.oid JOIN pg_class AS c ON c.oid = indexrelid
UNION ALL SELECT 'constraint', ours.relname, conname,
    concat_ws(' ', pg_get_constraintdef(pg_constraint.oid), convalidated)
    FROM pg_constraint JOIN ours ON conrelid = ours.oid WHERE contype <> 'n'
UNION ALL SELECT 'trigger', ours.relname, tgname, concat_ws(' ', pg_get_triggerdef(pg_trigger.oid), tgenabled)
    FROM pg_trigger JOIN ours ON tgrelid = ours.oid
UNION ALL SELECT 'rule', ours.relname, rulename, '' FROM pg_rewrite JOIN ours ON ev_class = ours.oid
UNION ALL SELECT 'policy', ours.relname, polname, '' FROM pg_policy JOIN ours ON polrelid = ours.oid
UNION ALL SELECT 'child', ours.relname, inhrelid::regclass::text, ''
    FROM pg_inherits JOIN ours ON ours.oid IN (inhrelid, inhparent)
UNION ALL SELECT 'function', proname, '', concat_ws(' ', prosrc, prosecdef)
    FROM pg_proc WHERE pronamespace = '{{schema}}'::regnamespace
"""
"""Everything that decides what a line means and who can change it, as texts."""


def expected_shape(schema: str) -> set[tuple[str, str, str, str]]:
    """Return what ``SHAPE`` yields in a schema that is as it was created."""
    expected = {("table", table, "", "r p f f f") for table in TABLES}
    for table, columns in TABLES.items():
        for position, (name, kind) in enumerate(columns.items(), 1):
            type_name = kind.replace('COLLATE "C"', "C")
            expected.add(("column", table, name, f"{position} {type_name} t f"))
    for unique, indexes in (("UNIQUE ", UNIQUE), ("", INDEXES)):
        for (table, name), text in indexes.items():
            definition = f"CREATE {unique}INDEX {name} ON {schema}.{table} USING btree {text}"
            expected.add(("index", table, name, f"{definition} t t"))
    for (table, name), text in CONSTRAINTS.items():
        expected.add(("constraint", table, name, f"{text} t"))
    for table in _PROTECTED_TABLES:
        expected.add(("trigger", table, "kept", f"CREATE TRIGGER kept {_trigger_definition(schema, table)} A"))
    return expected | {("function", "refuse", "", f"{_REFUSE} f")}


SELECT_LINE = ", ".join(f'"{column}"' for column in COLUMNS)  # one of them is a word of SQL
INSERT_LINE = f"INSERT INTO {{schema}}.lines ({SELECT_LINE}) VALUES ({', '.join(['%s'] * len(Row._fields))})"


_INDEX_FAULT = "its indexes contradict its tables"
_AMCHECK_SCHEMA = (
    "SELECT nspname FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'amcheck'"
)


def index_fault(run: Callable[..., list[tuple[Any, ...]]], schema: str) -> str | None:
    """Check every index with ``amcheck`` if the server has it and allows it; else count each against its table."""
    (extension_schema, *_) = run(_AMCHECK_SCHEMA) or [()]
    if extension_schema:
        function = f'"{extension_schema[0]}".bt_index_check(regclass, boolean)'
        is_allowed = run("SELECT has_function_privilege(%s, 'EXECUTE')", (function,))[0][0]
        if is_allowed:
            return _check_with_amcheck(run, schema, extension_schema[0])
    return _check_by_counting(run, schema)


def _check_with_amcheck(run: Callable[..., list[tuple[Any, ...]]], schema: str, extension: str) -> str | None:
    """Run ``bt_index_check``, which raises an error if an index is corrupt."""
    run(
        f'SELECT "{extension}".bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class AS c ON c.oid = indrelid '
        "WHERE c.relnamespace = %s::regnamespace",
        (schema,),
    )
    return None


def _check_by_counting(run: Callable[..., list[tuple[Any, ...]]], schema: str) -> str | None:
    """Count every index, read alone, against its table, read alone."""
    run("SET LOCAL max_parallel_workers_per_gather = 0")
    for (table, _), text in {**UNIQUE, **INDEXES}.items():
        columns, _, condition = text.partition(" WHERE ")
        selection = f"FROM {schema}.{table} WHERE {condition or 'true'}"
        _allow_only_scan(run, "seqscan")
        table_count = run(f"SELECT count(*) {selection}")
        _allow_only_scan(run, "indexscan")
        if (
            run(f"SELECT count(*) FROM (SELECT 1 {selection} ORDER BY {columns.strip('()')} OFFSET 0) AS found")
            != table_count
        ):
            return _INDEX_FAULT
    return None


def _allow_only_scan(run: Callable[..., list[tuple[Any, ...]]], scan_method: str) -> None:
    for method in ("seqscan", "indexscan", "indexonlyscan", "bitmapscan", "sort"):
        run(f"SET LOCAL enable_{method} = {'on' if method == scan_method else 'off'}")
