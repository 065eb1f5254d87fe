"""Computes every charge again."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from mariadb_server import mariadb  # noqa: F401 - a fixture
from pooled_databases import own_databases, pooled_databases  # noqa: F401 - a fixture
from postgres_server import postgres  # noqa: F401 - a fixture


def _keep() -> None:
    """A forked child that collects an engine which its parent had dropped dies of it: its threads stayed behind."""
    gc.freeze()
    gc.enable()


os.register_at_fork(before=gc.disable, after_in_parent=gc.enable, after_in_child=_keep)


def pytest_runtest_setup() -> None:
    """Ctrl-C is Python's own in every test: a run in the background begins without, and Spark leaves another behind."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def engines_share_databases() -> Iterator[None]:
    with pooled_databases():
        yield


@pytest.fixture(scope="session", autouse=True)
def every_charge_is_what_its_line_says_was_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every ledger that any test wrote, in whatever process, is read when all tests are done."""
    yield
    from ledger.recomputing import ledgers, wrong

    found = [each for path in ledgers(tmp_path_factory.getbasetemp()) for each in wrong(path)]
    assert not found, "\n".join(found)
