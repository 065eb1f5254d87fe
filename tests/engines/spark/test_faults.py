"""What ends in the middle ends alone: an executor, a reading, a session; and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from engine.tables import tuples
from engines.spark.conftest import PANDAS, Cluster
from engines.spark.test_spark import _policy, _reading, _rows
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.sessions import connect, open_beside
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.bounding import Strategy

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS), pytest.mark.long]
_SECONDS = 300
"""How long anything is waited for: an event, and never a time."""
_PLACE = "tables.t.source"


def _until(happened: Callable[[], Any], what: str, seconds: float = _SECONDS) -> Any:
    """Wait for an event."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happened():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} seconds: {what}")


def _running(cluster: Cluster) -> int:
    """How many tasks run just now."""
    tracker = cluster.classic.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    return sum(each.numActiveTasks for each in stages if each is not None)


@contextlib.contextmanager
def _in_a_thread(action: Callable[[], Any]) -> Iterator[tuple[threading.Thread, list[Any]]]:
    """What the action gives, or the one error that it may raise."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(action())
        except EngineFailed as failed:
            found.append(failed)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread, found
    finally:
        thread.join(_SECONDS)
    assert not thread.is_alive()


@pytest.fixture
def rows_here(tmp_path: Path) -> Path:
    pyarrow.parquet.write_table(_rows(), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


@pytest.fixture(params=["classic", "Connect"])
def spark(request: pytest.FixtureRequest, cluster: Cluster, rows_here: Path) -> Iterator[Spark]:
    """An engine of either kind. What a test left running is ended: the next one needs the executors."""
    source = (
        {"source": cluster.address, "path": str(rows_here), "format": "parquet"}
        if request.param == "Connect"
        else {"source": cluster.classic.read.parquet(str(rows_here))}
    )
    with contextlib.closing(Spark(_policy(**source))) as opened:
        yield opened
    cluster.classic.sparkContext.cancelAllJobs()


def _endless(spark: Spark) -> Any:
    """Read rows without end, of a frame of its own: two readings that share one wait for each other."""
    return spark.tables.run(
        lambda: spark.tables.session.spark.range(10**15).selectExpr("id % 7 AS k").groupBy("k").count()
    )


def _nothing_runs(cluster: Cluster) -> bool:
    return not _running(cluster) and not cluster.classic.sparkContext.statusTracker().getActiveJobsIds()


def test_a_reading_that_is_ended_as_it_begins_leaves_nothing(cluster: Cluster, spark: Spark) -> None:
    """Spark begins the jobs of one statement in several threads, and an interrupt ended those that it met. Half of the
    readings had a job that came after: none of twenty is one chance in a million.
    """
    for _ in range(20):
        with _in_a_thread(lambda: _endless(spark)) as (thread, found):
            _until(lambda: found or spark.interrupt(thread.ident), "it is ended")
        assert isinstance(found[0], EngineFailed)
    assert spark.tables.run(lambda: spark.tables.session.spark.range(1))
    _until(lambda: _nothing_runs(cluster), "their jobs end", 60)


def test_a_reading_of_a_closed_engine_ends(cluster: Cluster, spark: Spark) -> None:
    with _in_a_thread(lambda: _endless(spark)) as (_, found):
        _until(lambda: _running(cluster), "a reading runs")
        spark.close()
    assert isinstance(found[0], EngineFailed)
    _until(lambda: _nothing_runs(cluster), "its jobs end", 60)


def test_a_reading_that_is_closed_as_it_begins_ends(cluster: Cluster, spark: Spark) -> None:
    with _in_a_thread(lambda: _endless(spark)) as (_, found):
        _until(lambda: spark.tables._running_threads, "a reading is asked")
        spark.close()
    assert isinstance(found[0], EngineFailed)
    _until(lambda: _nothing_runs(cluster), "its jobs end", 60)


def test_a_reading_ends_with_a_control_c(cluster: Cluster, spark: Spark) -> None:
    def press() -> None:
        _until(lambda: _running(cluster), "a reading runs")
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        _endless(spark)
    presser.join(_SECONDS)
    _until(lambda: _nothing_runs(cluster), "its jobs end", 60)
    assert not spark.tables._running_threads


def test_a_reading_is_ended_and_the_session_goes_on(cluster: Cluster, spark: Spark, rows_here: Path) -> None:
    with _in_a_thread(lambda: _endless(spark)) as (other, later):
        _until(lambda: _running(cluster), "a reading runs")
        with _in_a_thread(lambda: _endless(spark)) as (thread, found):
            _until(lambda: len(spark.tables._running_threads) == 2, "another one is asked")
            spark.interrupt(thread.ident)
            _until(lambda: found or spark.interrupt(thread.ident), "it is ended")
        assert isinstance(found[0], EngineFailed)
        _until(lambda: _running(cluster), "the first one goes on")
        assert not later
        spark.interrupt(other.ident)
    assert isinstance(later[0], EngineFailed)
    _until(lambda: not _running(cluster), "their tasks end")
    reading = _reading(spark, Strategy.CLIP_L1)
    with contextlib.closing(DuckDB(_policy(rows_here))) as here:
        assert tuples(spark.check(reading).read(reading, 3)) == tuples(here.read(reading, 3))
    assert not spark.tables._running_threads


def test_an_executor_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Spark computes what was lost again: the totals are the same."""
    rows = pa.concat_tables([_rows(100_000)] * 20)
    (folder := tmp_path / "rows").mkdir()
    for number in range(8):
        pyarrow.parquet.write_table(rows, folder / f"{number}.parquet", row_group_size=100_000)
    spark = Spark(_policy(cluster.address, path=str(folder), format="parquet"))
    with contextlib.closing(DuckDB(_policy(str(folder / "*.parquet")))) as here, contextlib.closing(spark):
        reading = _reading(here, Strategy.CLIP_L1)
        wanted = tuples(here.read(reading, 3))
        for _ in range(5):
            with _in_a_thread(lambda: spark.read(reading, 3)) as (_, found):
                _until(lambda: found or _running(cluster) == 2, "both executors have a task each")
                os.kill(_executors()[0], signal.SIGKILL)
                in_the_middle = not found
            assert tuples(found[0]) == wanted
            _until(lambda: len(_executors()) == 2, "another executor comes")
            if in_the_middle:
                return
    raise AssertionError("every reading was over before an executor was killed")


def _executors() -> list[int]:
    """The executors of the Spark that this process started."""
    parents, words = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            words[int(place.name)] = (place / "cmdline").read_bytes()

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid > 1 and ours(parents.get(pid, 0)))

    return [pid for pid, said in words.items() if b"CoarseGrainedExecutorBackend" in said and ours(pid)]


# Nothing is left behind


def _sessions(cluster: Cluster) -> int:
    """How many sessions the Connect server keeps."""
    services = cluster.classic.sparkContext._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    return int(service.sessionManager().listActiveSessions().size())


def _copies(cluster: Cluster) -> int:
    """How many copies of rows the executors keep."""
    gc.collect()
    cluster.classic.sparkContext._jvm.System.gc()
    return int(cluster.classic.sparkContext._jsc.sc().getPersistentRDDs().size())


def test_closed_sessions_leave_nothing(cluster: Cluster) -> None:
    """At an address, beside a frame of Connect and beside one of classic Spark."""
    connect(cluster.address, _PLACE).close()  # whatever is made once is made
    with contextlib.closing(connect(cluster.address, _PLACE)) as own:
        frames = (own.spark.range(1), cluster.classic.range(1))
        sessions, threads = _sessions(cluster), threading.active_count()
        for _ in range(50):
            connect(cluster.address, _PLACE).close()
            for frame in frames:
                open_beside(frame, _PLACE).close()
        assert _sessions(cluster) == sessions
        _until(lambda: threading.active_count() <= threads, "threads of closed sessions end")
    assert not cluster.classic.sparkContext.getJobTags()


def test_closed_engines_leave_nothing(cluster: Cluster, rows_here: Path) -> None:
    """Engines that were opened, asked and closed, and one that was refused after its session was open."""
    given: tuple[dict[str, Any], ...] = (
        {"source": cluster.address, "path": str(rows_here), "format": "parquet"},
        {"source": cluster.classic.read.parquet(str(rows_here))},
    )
    sessions, copies, threads = _sessions(cluster), _copies(cluster), threading.active_count()
    for _ in range(5):
        for said in given:
            with contextlib.closing(Spark(_policy(**said))) as spark:
                spark.read(_reading(spark, Strategy.CLIP_L1, "SELECT COUNT(*) FROM t"), 1)
        with pytest.raises(InvalidPolicy):
            Spark(_policy(cluster.address, relation="nowhere.nothing"))
    assert _sessions(cluster) == sessions
    del spark
    _until(lambda: _copies(cluster) <= copies, "copies of rows are let go")
    _until(lambda: threading.active_count() <= threads + 1, "threads of closed engines end")
    assert not cluster.classic.sparkContext.getJobTags()
