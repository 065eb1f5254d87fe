"""The engine as a curator uses it: what it cannot read any more it refuses before anything is charged."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import in_csv, private
from sfumato.engine.duckdb import connection
from sfumato.engine.duckdb.connection import Sources
from sfumato.errors import EngineClosed, EngineFailed, SfumatoError, SourceChanged
from sfumato.ledger import Ledger

PEOPLE = pa.table({"who": ["a", "b", "b"], "age": [10, 200, 30]})
AGE = {"age": {"type": "integer", "bounds": [0, 110]}}


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[sf.Curator]:
    with Ledger.open(tmp_path / "sfumato.ledger") as ledger:
        curator = sf.Curator(private(in_csv(PEOPLE, tmp_path), AGE, unit="who"), ledger)
        curator.sql("SELECT COUNT(*) FROM t").release(epsilon="0.1")  # its statement is bound and remembered
        yield curator
        curator.close()


def _refused(curator: sf.Curator) -> type[SfumatoError]:
    """The refusal of a question that was answered before; nothing may be charged for it."""
    spent = curator.budget.spent
    with pytest.raises(SfumatoError) as refusal:
        curator.sql("SELECT COUNT(*) FROM t").release(epsilon="0.1", fresh=True)
    assert curator.budget.spent == spent
    return type(refusal.value)


def test_a_closed_curator_charges_nothing(curator: sf.Curator) -> None:
    curator.close()
    assert _refused(curator) is EngineClosed


def test_a_forked_child_charges_nothing(curator: sf.Curator) -> None:
    child = os.fork()
    if not child:
        try:
            os._exit(0 if _refused(curator) is EngineClosed else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    curator.sql("SELECT COUNT(*) FROM t").release(epsilon="0.1", fresh=True)


def test_a_broken_engine_charges_nothing(curator: sf.Curator) -> None:
    curator._context.engine.sources._connection.close()  # type: ignore[attr-defined]
    assert _refused(curator) is EngineFailed


def test_an_engine_that_failed_is_tried_before_the_next_charge(
    curator: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fatal error breaks every later statement, so after any failure one is run first; as long as it fails, nothing
    is charged.
    """
    sources = curator._context.engine.sources  # type: ignore[attr-defined]
    probe = "SELECT 1"
    sources.statements.clear()
    curator.sql("SELECT COUNT(*) FROM t").release(epsilon="0.1", fresh=True)
    assert probe not in sources.statements
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_parse_cached", lambda *_: 1 / 0)
        with pytest.raises(EngineFailed):
            sources.run("SELECT 2")
        assert [_refused(curator), _refused(curator)] == [EngineFailed, EngineFailed]
    curator.sql("SELECT COUNT(*) FROM t").release(epsilon="0.1", fresh=True)
    assert list(sources.statements).count(probe) == 3


def test_a_parsed_statement_reads_the_database_that_runs_it() -> None:
    """The same text is parsed once for all databases; what was set up with is no question for that."""
    text = "SELECT count(*) FROM sf_t WHERE age < 1000"
    with Sources(private(PEOPLE, AGE)) as one, Sources(private(PEOPLE.slice(1), AGE)) as other:
        assert one.run(text) == [(PEOPLE.num_rows,)]
        assert other.run(text) == [(PEOPLE.num_rows - 1,)]
        one.bind(text)
        one.drop(one.copy("t"))
        copied = one.statements[-2]
        for refused in (copied, f"PREPARE sf_bound AS {text}", f"{text}; {text}"):
            with pytest.raises(EngineFailed):
                one.run(refused)
            with pytest.raises(EngineFailed):
                one.bind(refused)


def test_no_more_statements_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = connection._ParsedStatements()
    monkeypatch.setattr(connection, "_PARSED_STATEMENTS", kept)
    monkeypatch.setattr(connection, "_MAX_PARSED", 200)
    with Sources(private(PEOPLE, AGE)) as sources:
        for number in range(50):
            assert sources.run(f"SELECT {number}") == [(number,)]
            assert sum(len(text) for _, text in kept._statements) <= 200


def test_a_file_that_cannot_be_read_any_more_charges_nothing(curator: sf.Curator, tmp_path: Path) -> None:
    (tmp_path / "t.csv").unlink()
    assert _refused(curator) is SourceChanged


def test_a_process_forked_beside_releasing_threads_is_refused_and_never_waits(tmp_path: Path, long: bool) -> None:
    policy = replace(private(PEOPLE, AGE, unit="who"), budget=sf.Budget(10_000, "1e-6"))
    done = threading.Event()
    with sf.Curator(policy, tmp_path / "sfumato.ledger") as curator:

        def ask() -> None:
            while not done.is_set():
                curator.sql("SELECT age, COUNT(*) FROM t GROUP BY age").release(epsilon="0.1", fresh=True)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for each in threads:
            each.start()
        try:
            ends = [_forked(curator) for _ in range(50 if long else 5)]
        finally:
            done.set()
            for each in threads:
                each.join()
    assert set(ends) == {0}


def _forked(curator: sf.Curator) -> int:
    """How a child ends that asks what its parent's sources would have to answer: 0 when it is refused."""
    child = os.fork()
    if not child:
        signal.alarm(60)  # a child that waits for a lock of its parent's threads is ended
        try:
            curator.sql("SELECT age > 5, COUNT(*) FROM t GROUP BY 1").release(epsilon="0.1", fresh=True)
        except EngineClosed:
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]
