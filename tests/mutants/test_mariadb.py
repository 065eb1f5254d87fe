"""Seeded bugs where rows are read on MariaDB: collations, wrapped numbers, rights, snapshots, and sizes of doubles."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "engine/mariadb/test_mariadb.py"
_MEANINGS = "engine/mariadb/test_mariadb_meanings.py"
MUTANTS = (
    Mutant(
        "texts on MariaDB keep the collation of their column",
        Kind.KEYS,
        "engine.mariadb.stored_tables:_PLAIN_SQL",
        "f'(CONVERT({x} USING utf8mb4) COLLATE {COLLATION})'",
        "x",
        (f"{_TESTS}::test_texts_are_told_apart_by_their_bytes",),
    ),
    Mutant(
        "unsigned numbers wrap to negative ones",
        Kind.WRAP,
        "engine.mariadb.stored_tables:_may_wrap",
        "'unsigned' in type_name",
        "False",
        (f"{_TESTS}::test_every_stored_number_is_read_as_it_is_declared",),
    ),
    Mutant(
        "a date with a zero in it is a date",
        Kind.NAN,
        "engine.mariadb.stored_tables:_existing_day",
        "BETWEEN 1 AND DAYOFMONTH(LAST_DAY({x}))",
        ">= 0",
        (f"{_TESTS}::test_what_is_no_date_is_null",),
    ),
    Mutant(
        "an account that may write is let in",
        Kind.CONSENT,
        "engine.mariadb.stored_tables:require_read_only",
        "if others or role is not None",
        "if False",
        (f"{_TESTS}::test_an_account_that_may_write_is_refused",),
    ),
    Mutant(
        "tables without a snapshot are read",
        Kind.REUSE,
        "engine.mariadb.stored_tables:find_table",
        "if matches != [('BASE TABLE', 'InnoDB')]",
        "if False",
        (f"{_TESTS}::test_what_has_no_snapshot_is_refused",),
    ),
    Mutant(
        "a transaction on MariaDB may write",
        Kind.CONSENT,
        "engine.mariadb.connection:MariaDBSessions.begin",
        "'START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY'",
        "'START TRANSACTION WITH CONSISTENT SNAPSHOT, READ WRITE'",
        (f"{_TESTS}::test_a_session_cannot_write",),
    ),
    Mutant(
        "every statement on MariaDB reads rows of its own moment",
        Kind.REUSE,
        "engine.mariadb.connection:_SETTINGS",
        "\"'REPEATABLE-READ'\"",
        "\"'READ-COMMITTED'\"",
        (f"{_TESTS}::test_a_snapshot_holds_the_rows_of_its_first_reading",),
    ),
    Mutant(
        "times on MariaDB are those of the server's zone",
        Kind.NEIGHBOURS,
        "engine.mariadb.connection:_SETTINGS",
        "\"'+00:00'\"",
        "\"'+05:30'\"",
        (f"{_TESTS}::test_what_is_no_date_is_null[timestamp NULL]",),
    ),
    Mutant(
        "spaces at the end of a text are no letters",
        Kind.KEYS,
        "engine.spellings.mariadb:COLLATION",
        "'utf8mb4_nopad_bin'",
        "'utf8mb4_bin'",
        (f"{_TESTS}::test_a_space_at_the_end_is_a_letter",),
    ),
    Mutant(
        "a rounded double is cut where a stage keeps it",
        Kind.WRAP,
        "engine.spellings.mariadb:_any_size",
        "f'CAST({x} AS DOUBLE)'",
        "x",
        (f"{_MEANINGS}::test_the_server_proves_every_function",),
    ),
    Mutant(
        "a metadata lock is not taken before the charge",
        Kind.CHARGE_ORDER,
        "engine.mariadb.driver:MariaDB.lock",
        "for relation in self.relations.values()",
        "for relation in []",
        (f"{_TESTS}::test_the_tables_of_a_policy_are_locked_before_they_are_described",),
    ),
    Mutant(
        "ids of any length are joined pair by pair",
        Kind.HOSTILE,
        "engine.mariadb.stored_tables:is_short_text",
        "int(length[1]) <= MAX_ID_LETTERS",
        "True",
        (f"{_TESTS}::test_long_texts_are_no_ids",),
    ),
    Mutant(
        "over a network MariaDB is asked without a certificate",
        Kind.CONSENT,
        "engine.mariadb.connection:_connection_options",
        "if host not in _LOCAL_HOSTS:",
        "if False:",
        (f"{_TESTS}::test_over_a_network_the_certificate_is_verified",),
    ),
)

test_the_tests_of_mariadb_notice = suite(MUTANTS)
