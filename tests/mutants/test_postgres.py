"""Seeded bugs where rows are read on PostgreSQL: collations, snapshots, addresses, and what is proved of a server."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "engine/test_postgres.py"
_HOSTILE = "engine/test_postgres_hostile_sources.py"
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
        "engine/clean_cells.py",
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
        "0 and -0 are two units of a period",
        Kind.SENSITIVITY,
        "engine/postgres/stored_cells.py",
        "CASE WHEN {x} = 0 THEN CAST(0 AS FLOAT8) ELSE NULLIF(CAST({x} AS FLOAT8), 'NaN') END",
        "NULLIF(CAST({x} AS FLOAT8), 'NaN')",
        (f"{_HOSTILE}::test_minus_zero_is_the_unit_that_zero_is",),
    ),
    Mutant(
        "ids beyond the calendar are one unit",
        Kind.SENSITIVITY,
        "engine/postgres/stored_cells.py",
        'return f"CAST({x} AS DATE)"',
        "return self.plain(column)",
        (f"{_HOSTILE}::test_ids_beyond_the_calendar_are_as_many_units",),
    ),
    Mutant(
        "a table is known by its name alone",
        Kind.REUSE,
        "engine/postgres/driver.py",
        '        addresses += [f"postgresql://{system}/{number}/{own}" for _, _, own in relation.made_of]\n',
        "",
        (f"{_HOSTILE}::test_a_table_under_another_name_has_no_second_budget",),
    ),
    Mutant(
        "patterns are held against cells of any length",
        Kind.NAN,
        "engine/duckdb/scan.py",
        "WHEN strlen({x}) > {LONGEST} THEN NULL ",
        "",
        ("engine/test_reading.py::test_a_cell_is_read_up_to_its_longest",),
    ),
    Mutant(
        "patterns are held against cells of any length on a server",
        Kind.NAN,
        "engine/postgres/stored_cells.py",
        'return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"',
        "return x",
        (f"{_HOSTILE}::test_a_cell_beyond_the_longest_is_no_number",),
    ),
    Mutant(
        "a session at another server is taken for the one that was opened",
        Kind.REUSE,
        "engine/postgres/driver.py",
        "if _here(run) != self.database:",
        "if False:",
        (f"{_HOSTILE}::test_another_database_at_the_same_address_is_noticed",),
    ),
    Mutant(
        "settings are those that a pool left behind",
        Kind.KEYS,
        "engine/postgres/connection.py",
        "    if session.autocommit:  # it is new\n",
        "    if not session.autocommit:\n        return\n    if True:\n",
        (f"{_HOSTILE}::test_settings_hold_in_every_transaction",),
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
