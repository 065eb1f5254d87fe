"""Bind before charge; after it one fixed message, whatever went wrong; threads and processes never overspend."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.curator.curators import Curator
from sfumato.errors import EngineFailed, Overspent, SourceChanged, Unanswered
from sfumato.ledger.accounts.pending_queries import PendingQuery
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 7"
COUNT = "SELECT region, COUNT(*) AS n FROM people GROUP BY region"
_COLUMNS = {"region": {"values": ["north", "south"]}, "age": {"type": "integer", "bounds": [0, 110]}}


def _table(rows: int = 20) -> pa.Table:
    return pa.table({"who": range(rows), "region": ["north", "south"] * (rows // 2), "age": [40] * rows})


def _policy(source: Any, epsilon: int = 10) -> Policy:
    people = Table("people", source, _COLUMNS, id="who", max_rows=3)
    return Policy(PrivacyUnit("person"), Budget(epsilon, "1e-6"), {"people": people})


def _kinds(curator: Curator) -> list[str]:
    return [line.kind for line in curator.ledger]


def _vanish(path: Path) -> None:
    path.unlink()


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n")


def _swap(path: Path) -> None:
    """Another file of the same size under the same name."""
    content = path.read_bytes()
    other = path.with_suffix(".other")
    other.write_bytes(content)
    os.replace(other, path)


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("damage", [_vanish, _grow, _swap, _touch])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_source_that_changed_costs_nothing(tmp_path: Path, damage: Callable[[Path], None], kind: str) -> None:
    path = tmp_path / f"people.{kind}"
    write = pa.csv.write_csv if kind == "csv" else pa.parquet.write_table
    write(_table(), path)
    with Curator(_policy(path), tmp_path / "l.ledger") as curator:
        asked = curator.sql(COUNT)
        damage(path)
        with pytest.raises(SourceChanged, match="has changed since it was opened"):
            asked.release(epsilon=1)
        assert _kinds(curator) == ["account-open", "source"]
        assert curator.budget.remaining["pure"] == 10


def test_a_statement_that_does_not_bind_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine sees the very statement that will run before anything is charged."""
    with Curator(_policy(_table()), tmp_path / "l.ledger") as curator:
        asked = curator.sql(COUNT)
        monkeypatch.setattr("sfumato.engine.duckdb.driver.DuckDB._render", lambda *_: "SELECT nonsense FROM nowhere")
        with pytest.raises(EngineFailed):
            asked.release(epsilon=1)
        assert _kinds(curator) == ["account-open", "source"]


def _interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def _exits(*_: object) -> Any:
    raise SystemExit(3)


def _no_memory(*_: object) -> Any:
    raise MemoryError("row 17 of diagnosis 'flu'")


def _failing(*_: object) -> Any:
    raise ValueError("could not convert 'flu' to a number")


def _refused(curator: Curator) -> str:
    """The text of the one error, without its line's number."""
    with pytest.raises(Unanswered) as raised:
        curator.sql(COUNT).release(epsilon=1)
    error = raised.value
    assert error.__cause__ is None
    assert error.__suppress_context__
    return str(error).replace(f"line {error.number} ", "line N ")


def _after_the_charge(curator: Curator, place: str, failure: Callable[..., Any]) -> Callable[..., Any]:
    """The same function until something is charged: what is tried without data before goes well."""
    module, kind, method = place.rsplit(".", 2)
    sound = getattr(getattr(import_module(module), kind), method)
    return lambda *given, **named: (failure if _kinds(curator)[-1] == "charge" else sound)(*given, **named)


@pytest.mark.parametrize(
    "place", ["sfumato.engine.duckdb.driver.DuckDB.read", "sfumato.release.measured.DeclaredGroupsRelease.draw"]
)
def test_a_failure_after_the_charge_is_charged_and_says_one_thing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = set()
    with Curator(_policy(_table()), tmp_path / "l.ledger") as curator:
        for failure in (_interrupted, _exits, _no_memory, _failing):
            with monkeypatch.context() as patch:
                patch.setattr(place, _after_the_charge(curator, place, failure))
                texts.add(_refused(curator))
        assert len(texts) == 1
        assert not any("flu" in text for text in texts)
        assert _kinds(curator) == ["account-open", "source"] + ["charge", "stopped"] * 4
        assert curator.budget.remaining["pure"] == 6
        assert curator.ledger.verify().holds
        assert len(curator.sql(COUNT).release(epsilon=1).rows) == 2
        assert _kinds(curator)[-2:] == ["charge", "answer"]


def test_a_source_that_vanishes_after_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(_table(), path)
    with Curator(_policy(path), tmp_path / "l.ledger") as curator:
        begin = PendingQuery.begin

        def charged_then_gone(*arguments: Any) -> Any:
            found = begin(*arguments)
            path.unlink()
            return found

        monkeypatch.setattr(PendingQuery, "begin", charged_then_gone)
        _refused(curator)
        assert curator.budget.remaining["pure"] == 9
        assert curator.ledger.verify().holds


def test_a_killed_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Curator(_policy(_table()), tmp_path / "l.ledger") as curator:
        engine: Any = curator._context.engine

        def killed(*_: object) -> Any:
            engine.sources._connection.close()
            return engine.sources.run("SELECT 1")

        with monkeypatch.context() as patch:
            patch.setattr(type(engine), "read", killed)
            _refused(curator)
        assert curator.budget.remaining["pure"] == 9
        assert curator.ledger.verify().holds
    with Curator(_policy(_table()), tmp_path / "l.ledger") as again:
        assert again.budget.remaining["pure"] == 9
        assert len(again.sql(COUNT).release(epsilon=1).rows) == 2


def _slow(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own statement, made to take minutes."""
    sources: Any = curator._context.engine.sources  # type: ignore[attr-defined]
    run = type(sources).run

    def slowly(self: Any, statement: str, parameters: Any = ()) -> Any:
        if "people" not in statement:
            return run(self, statement, parameters)
        return run(self, ENDLESS)

    monkeypatch.setattr(type(sources), "run", slowly)
    monkeypatch.setattr(type(sources), "arrow", slowly)


def test_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Curator(_policy(_table()), tmp_path / "l.ledger", seconds=2) as curator:
        with monkeypatch.context() as patch:
            _slow(curator, patch)
            started = time.monotonic()
            text = _refused(curator)
            assert time.monotonic() - started < 60
        assert text.startswith("this release was charged, but it was stopped")
        assert curator.budget.remaining["pure"] == 9
        assert len(curator.sql(COUNT).release(epsilon=1).rows) == 2


def test_one_question_out_of_time_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow question's time limit ends its own statement, not those that other threads have just begun."""
    with Curator(_policy(_table()), tmp_path / "l.ledger", seconds=1) as curator:
        sources: Any = curator._context.engine.sources  # type: ignore[attr-defined]
        run, slow, began = type(sources).run, threading.local(), threading.Event()

        def read_slowly(self: Any, statement: str, parameters: Any = ()) -> Any:
            if getattr(slow, "yes", False) and "people" in statement:
                began.set()
                return run(self, ENDLESS)
            return run(self, statement, parameters)

        monkeypatch.setattr(type(sources), "run", read_slowly)

        def ask_slowly() -> None:
            slow.yes = True
            with pytest.raises(Unanswered):
                curator.sql(COUNT).release(epsilon=1, fresh=True)

        def bystander() -> Any:
            began.wait(120)
            time.sleep(0.7)
            statement = "SELECT count(*) FROM range(14000) a, range(14000) b WHERE hash(a.range, b.range) = 7"
            return run(sources, statement)

        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(bystander)
            pool.submit(ask_slowly).result()
            assert waiting.result() == [(0,)]


def test_eight_threads_ask_one_curator(tmp_path: Path) -> None:
    """Sixteen questions of ε = 1 to an account of 10: ten are answered, six refused, none lost."""
    with Curator(_policy(_table()), tmp_path / "l.ledger") as curator:

        def ask(_: int) -> bool:
            try:
                answer = curator.sql(COUNT).release(epsilon=1, fresh=True)
            except Overspent:
                return False
            assert [row[0] for row in answer.rows] == ["north", "south"]
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(ask, range(16))) == 10
        assert curator.budget.remaining["pure"] == 0
        assert curator.ledger.verify().holds


def test_eight_threads_keep_their_answers_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, each thread gets the answer to its own question."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    table = pa.table({"who": range(60), "region": ["north"] * 60, "age": range(60)})
    with Curator(_policy(table, 1000), tmp_path / "l.ledger") as curator:

        def ask(age: int) -> int:
            answer = curator.sql(f"SELECT COUNT(*) AS n FROM people WHERE age < {age}").release(epsilon=1)
            return int(answer.column("n")[0])

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(40))) == list(range(40))


def _spend(folder: str, found: Any) -> None:
    with Curator(_policy(_table()), Path(folder) / "l.ledger") as curator:
        answered = 0
        for _ in range(10):
            try:
                curator.sql(COUNT).release(epsilon=1, fresh=True)
                answered += 1
            except Overspent:
                pass
        found.put(answered)


def test_two_processes_never_overspend(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    processes = [context.Process(target=_spend, args=(str(tmp_path), found)) for _ in range(2)]
    for process in processes:
        process.start()
    answered = [found.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert sum(answered) == 10
    with sf.Ledger.open(tmp_path / "l.ledger") as ledger:
        assert ledger.verify().holds
        assert sum(line.kind == "charge" for line in ledger) == 10
        assert ledger.account("person").remaining["pure"] == Fraction(0)


@pytest.mark.parametrize("asked", ["MEDIAN(age)", "COUNT(DISTINCT age)", "COUNT(*)"])
def test_no_number_of_values_of_several_keys_makes_a_release_fail(tmp_path: Path, asked: str) -> None:
    """Keys that nobody declared hold what the rows say: 300 values of each of eight make more pairs than 64 bits
    count.
    """
    keys = [f"k{index}" for index in range(8)]
    columns: dict[str, Any] = {"who": range(300), "age": [40] * 300} | {key: [*map(str, range(300))] for key in keys}
    declared = {"age": {"type": "integer", "bounds": [0, 110]}} | {key: {"type": "text"} for key in keys}
    people = Table("people", pa.table(columns), declared, id="who", max_rows=3)
    policy = Policy(PrivacyUnit("person"), Budget(10, "1e-6"), {"people": people})
    text = f"SELECT {', '.join(keys)}, {asked} AS x FROM people GROUP BY {', '.join(keys)}"
    with Curator(policy, tmp_path / "people.ledger") as curator:
        answer = curator.sql(text).release(epsilon=1, delta="1e-7")
        assert answer.columns == (*keys, "x")
        assert not answer.rows  # each group has one person, whom no threshold lets through
        assert [line.kind for line in curator.ledger].count("charge") == 1
