"""Indexes are checked against their tables: by the server itself, or by counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.ledger.stores.postgres_schema import INDEXES, UNIQUE

_WRONG = "its indexes contradict its tables"
_CHECKED = "SELECT nspname FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'amcheck'"


def fault(run: Callable[..., list[tuple[Any, ...]]], schema: str) -> str | None:
    """Check every index where the server has ``amcheck`` and lets us use it; else count each against its table."""
    (found, *_) = run(_CHECKED) or [()]
    if found:
        function = f'"{found[0]}".bt_index_check(regclass, boolean)'
        allowed = run("SELECT has_function_privilege(%s, 'EXECUTE')", (function,))[0][0]
        if allowed:
            return _checked(run, schema, found[0])
    return _counted(run, schema)


def _checked(run: Callable[..., list[tuple[Any, ...]]], schema: str, extension: str) -> str | None:
    """Run ``bt_index_check``, which raises an error where an index is destroyed."""
    run(
        f'SELECT "{extension}".bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class AS c ON c.oid = indrelid '
        "WHERE c.relnamespace = %s::regnamespace",
        (schema,),
    )
    return None


def _counted(run: Callable[..., list[tuple[Any, ...]]], schema: str) -> str | None:
    """Count every index, read alone, against its table, read alone."""
    run("SET LOCAL max_parallel_workers_per_gather = 0")
    for (table, _), text in {**UNIQUE, **INDEXES}.items():
        columns, _, condition = text.partition(" WHERE ")
        chosen = f"FROM {schema}.{table} WHERE {condition or 'true'}"
        _only(run, "seqscan")
        wanted = run(f"SELECT count(*) {chosen}")
        _only(run, "indexscan")
        if run(f"SELECT count(*) FROM (SELECT 1 {chosen} ORDER BY {columns.strip('()')} OFFSET 0) AS found") != wanted:
            return _WRONG
    return None


def _only(run: Callable[..., list[tuple[Any, ...]]], way: str) -> None:
    for each in ("seqscan", "indexscan", "indexonlyscan", "bitmapscan", "sort"):
        run(f"SET LOCAL enable_{each} = {'on' if each == way else 'off'}")
