"""Seeded bugs where rows are read on PostgreSQL: collations, snapshots, addresses, and what is proved of a server."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "engine/test_postgres.py"
_PLAIN = f"{_TESTS}::test_every_stored_type_is_read_as_it_is_declared"
MUTANTS = (
    Mutant(
        "texts keep the collation of their column",
        Kind.KEYS,
        "engine/postgres/stored_cells.py",
        'Stored.TEXT: lambda x, _: f"(CAST({x} AS TEXT) {BYTES})"',
        "Stored.TEXT: lambda x, _: x",
        (f"{_TESTS}::test_texts_are_told_apart_by_their_bytes",),
    ),
    Mutant(
        "cells that are no number are above every bound",
        Kind.NAN,
        "engine/postgres/stored_cells.py",
        "Stored.REAL: lambda x, _: f\"NULLIF(CAST({x} AS FLOAT8), 'NaN')\"",
        'Stored.REAL: lambda x, _: f"CAST({x} AS FLOAT8)"',
        (_PLAIN,),
    ),
    Mutant(
        "reals are clamped from above alone on a server",
        Kind.SENSITIVITY,
        "engine/clean_scans.py",
        "        *(apply(Operation.LESS, x, low), low),\n",
        "",
        (_PLAIN,),
    ),
    Mutant(
        "steps of a series read the rows of their own moment",
        Kind.REUSE,
        "engine/postgres/connection.py",
        "session.isolation_level = IsolationLevel.REPEATABLE_READ",
        "session.isolation_level = IsolationLevel.READ_COMMITTED",
        (f"{_TESTS}::test_a_snapshot_holds_the_rows_of_its_first_reading",),
    ),
    Mutant(
        "a view is known by its own name alone",
        Kind.REUSE,
        "engine/postgres/stored_relations.py",
        "names = tuple((schema, called, number) for schema, called, _, number in made_of)",
        "names = ((schema, called, oid),)",
        (f"{_TESTS}::test_one_source_has_one_address_whatever_it_is_called",),
    ),
    Mutant(
        "rows of every version have one identity",
        Kind.REUSE,
        "engine/postgres/driver.py",
        "told = versions if all(versions) else [self._opened, next(self._looks)]",
        "told = versions",
        (f"{_TESTS}::test_a_stored_answer_is_reused_only_for_a_declared_version",),
    ),
    Mutant(
        "rows of a table leave the server to be counted here",
        Kind.CONSENT,
        "engine/reading_statements.py",
        "        return _counted(lowering.values(reading, key))",
        "        return lowering.values(reading, key)",
        (
            f"{_TESTS}::test_nothing_but_totals_of_groups_arrives",
            f"{_TESTS}::test_marginals_and_values_are_those_of_duckdb",
        ),
    ),
    Mutant(
        "a server's own rounding is not looked at",
        Kind.AUDIT,
        "engine/proving.py",
        "if not _same(found[at][place], case.means(row), near=case.near)",
        "if False",
        ("engine/test_postgres_meanings.py::test_a_server_that_computes_otherwise_is_refused_by_the_functions_name",),
    ),
)

test_the_tests_of_postgres_notice = suite(MUTANTS)
