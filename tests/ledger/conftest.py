"""Runs the tests of ledgers on both stores: a path that a test opens names a schema of a real server instead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from ledger.ledger_schemas import LedgerSchemas
from postgres_server import PostgresServer
from sfumato.ledger import ledgers
from sfumato.ledger.stores.opening import open_store
from sfumato.ledger.stores.store import Store

SPENDER = "spender"
BOTH = {
    "test_accounts",
    "test_pending_queries",
    "test_holds",
    "test_joined_sources",
    "test_period_accounts",
    "test_races",
}
BOTH |= {
    "test_publications",
    "test_spending_limits",
    "test_recomputing",
    "test_exact_amounts",
    "test_approval_requests",
}
"""The modules whose tests are about what is above a store. Others look into a file, or into a schema
(``test_postgres``), with the same questions.
"""
ONE = {
    "test_a_clock_that_goes_back_does_not_move_an_expiry",
    "test_a_clock_that_jumps_ends_an_approval_early_and_never_revives_one",
    "test_a_request_of_an_earlier_version_belongs_to_every_server_and_its_text_is_the_same",
    "test_a_line_that_was_changed_in_the_file_is_not_believed",
    "test_a_part_is_a_mechanism_with_the_sensitivity_it_needs",
    "test_a_process_is_alive_until_it_ends",
    "test_a_request_with_impossible_terms_is_refused",
    "test_every_step_in_every_state",
    "test_killed_at_each_line_of_a_requests_life",
    "test_requests_are_written_and_read_back",
    "test_the_lives_of_requests_have_so_many_lines",
    "test_the_digest_covers_every_column_the_requester_and_the_policy",
    "test_two_approvals_are_of_two_people",
    "test_what_has_expired_is_neither_approved_nor_released",
    "test_who_may_take_a_step",
    "test_a_unit_of_one_period_loses_what_its_account_allows",
    "test_a_unit_that_moves_loses_what_two_accounts_allow",
    "test_an_earlier_ledger_goes_on_with_fractions",
    "test_an_entry_has_one_json_form",
    "test_exports_and_copies_keep_fractions",
    "test_spent_and_held_are_never_below_the_true_sums",
    "test_what_is_lost_is_added_exactly",
    "test_whole_units_of_an_earlier_ledger_stay_and_verify",
    "test_spending_forgets_no_tab",
    "test_the_epsilon_of_a_release_is_its_pure_one_or_that_at_the_accounts_delta",
    "test_the_fullest_is_found_in_each_currency",
    "test_the_walk_over_all_ledgers_finds_a_sensitivity_that_does_not_fit_its_cost",
}
"""Tests of these modules that open no ledger, or look into its file."""
SLOW = {
    "test_any_interleaving_of_tabs_keeps_the_rule",
    "test_an_interrupt_at_any_line_leaves_no_other_thread_waiting",
    "test_equal_questions_at_once_cost_once",
    "test_exactly_as_many_win_as_the_budget_pays_for",
    "test_an_approximate_budget_is_never_exceeded",
    "test_many_may_open_a_ledger_that_is_not_there_yet",
    "test_no_version_tells_whether_two_tables_in_memory_are_equal",
}
"""Tests that are run on PostgreSQL in the long run alone."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module, test = metafunc.module.__name__.rpartition(".")[2], metafunc.function.__name__
    if module in BOTH and test not in ONE:
        marks = [pytest.mark.long] if test in SLOW else []
        metafunc.parametrize("kept_in", ["SQLite", pytest.param("PostgreSQL", marks=marks)], indirect=True)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the anchors of another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def kept_in(request: pytest.FixtureRequest, _own_state: None) -> Iterator[None]:
    """Where the ledgers of a test are. A test that is said to run on PostgreSQL is seen to open one there."""
    if getattr(request, "param", "SQLite") == "SQLite":
        yield
        return
    opened: Path = request.getfixturevalue("in_postgres")
    yield
    assert opened.exists(), "this test has opened no ledger in PostgreSQL: it belongs to those of one store"


@pytest.fixture(scope="session")
def ledger_schemas(postgres: PostgresServer) -> Iterator[LedgerSchemas]:
    schemas = LedgerSchemas(postgres, SPENDER)
    yield schemas
    schemas.close()


@pytest.fixture
def in_postgres(
    postgres: PostgresServer, ledger_schemas: LedgerSchemas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Path]:
    """Every path that is opened is a ledger of its own on the server, made when it is first opened. The file that is
    given is there when that has happened, in this process or in a child.
    """
    made: set[str] = set()
    marker = tmp_path / "opened-in-postgres"

    def opened(path: str | os.PathLike[str], schema: str | None, timeout: float) -> Store:
        if not isinstance(path, (str, os.PathLike)) or "\ud800" in os.fspath(path):
            return open_store(path, schema, timeout)  # refused before anything is opened
        name = f"t{sha256(os.path.realpath(path).encode()).hexdigest()[:20]}" if schema is None else schema
        if name not in made:
            ledger_schemas.make(name)
            made.add(name)
            marker.touch()
        return open_store(postgres.address(user=SPENDER), name, timeout)

    monkeypatch.setattr(ledgers, "open_store", opened)
    yield marker
    ledger_schemas.give_back(made)
