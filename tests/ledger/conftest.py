"""Runs the tests of ledgers on both stores: a path that a test opens names a schema of a real server instead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from postgres_server import PostgresServer
from sfumato.ledger import ledgers
from sfumato.ledger.opening import make_ledger, open_store
from sfumato.ledger.store import Store

SPENDER = "spender"
BOTH = {"test_accounts", "test_asking", "test_holds", "test_joined_sources", "test_period_accounts", "test_races"}
BOTH |= {"test_spending_limits", "test_recomputing"}
"""The modules whose tests are about what is above a store."""
QUICK = {"test_asking", "test_spending_limits"}
QUICK |= {"test_forks_while_other_threads_are_charging", "test_an_answer_races_with_itself_and_one_wins"}
QUICK |= {
    "test_a_child_that_outlives_its_parents_ledger_keeps_its_own_locks",
    "test_threads_share_a_hold_without_passing_it",
}
"""Modules and tests that are run on PostgreSQL by default; all others in the long run."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in BOTH:
        marks = [] if {module, metafunc.function.__name__} & QUICK else [pytest.mark.long]
        metafunc.fixturenames.insert(0, "kept_in")  # before whatever opens a ledger
        metafunc.parametrize("kept_in", ["SQLite", pytest.param("PostgreSQL", marks=marks)], indirect=True)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the anchors of another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def kept_in(request: pytest.FixtureRequest) -> None:
    if request.param == "PostgreSQL":
        request.getfixturevalue("in_postgres")


@pytest.fixture
def in_postgres(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every path that is opened is a ledger of its own on the server, made when it is first opened."""
    made: set[str] = set()

    def opened(path: str | os.PathLike[str], schema: str | None, timeout: float) -> Store:
        name = f"t{sha256(os.path.realpath(path).encode()).hexdigest()[:20]}" if schema is None else schema
        if name not in made:
            make_ledger(postgres.address(), schema=name, spender=SPENDER)
            made.add(name)
        return open_store(postgres.address(user=SPENDER), name, timeout)

    monkeypatch.setattr(ledgers, "open_store", opened)
    yield
    postgres.execute(*(f"DROP SCHEMA IF EXISTS {name} CASCADE" for name in made), "SELECT 1")
