"""A process of one command exempts its imports from searches for garbage; a library's user keeps Python's own."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sfumato import garbage

POLICY = """
[unit]
name = "person"
budget = { epsilon = 2 }
[tables.people]
source = "people.csv"
id = "id"
max_rows = 1
[tables.people.columns]
city = { values = ["a", "b"] }
"""


@pytest.fixture
def collection() -> Iterator[None]:
    """Leave garbage collection as the suite has it: with what was collected at first exempted."""
    thresholds = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*thresholds)
    gc.freeze()


@pytest.mark.usefixtures("collection")
def test_imports_are_exempted_where_garbage_is_collected_rarely() -> None:
    garbage.exempt_imports("sfumato.plan")
    assert gc.get_freeze_count() == 0
    garbage.collect_rarely()
    garbage.exempt_imports("sfumato.plan")
    assert gc.get_threshold()[0] == 1_000_000
    assert gc.get_freeze_count() > 1000


@pytest.mark.parametrize(("command", "threshold"), [("query", 1_000_000), ("ask", 1_000_000), ("serve", 700)])
def test_only_short_commands_collect_rarely(command: str, threshold: int) -> None:
    program = (
        f"import atexit, gc, sys; sys.argv[1:] = [{command!r}, '--help']; from sfumato.__main__ import run;"
        " atexit.register(lambda: print('threshold', gc.get_threshold()[0])); run()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"threshold {threshold}"


def test_commands_leave_nothing_that_duckdb_would_warn_of(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,city\n1,a\n2,b\n")
    (tmp_path / "policy.toml").write_text(POLICY)
    for arguments in (
        ["query", "policy.toml", "SELECT COUNT(*) FROM people", "--epsilon", "0.5"],
        ["publish", "policy.toml", "people", "--ways", "1", "--epsilon", "0.5", "-o", "people.sfu"],
        ["ask", "people.sfu", "SELECT COUNT(*) FROM people"],
    ):
        command = [sys.executable, "-m", "sfumato", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "leaked" not in done.stderr
        assert "±" in done.stdout


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collection_is_paused_and_left_as_it_was(is_enabled: bool) -> None:
    if not is_enabled:
        gc.disable()
    try:
        with suppress(ValueError), garbage.collection_paused():
            assert not gc.isenabled()
            with garbage.collection_paused():
                pass
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()
