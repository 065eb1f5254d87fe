"""What ends in the middle ends alone: a reading, a session; and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from engine.tables import tuples
from engines.spark.conftest import PANDAS, Cluster
from engines.spark.retries import SECONDS, in_a_thread, running_tasks, wait_until
from engines.spark.test_spark import _policy, _reading, _rows
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.sessions import connect, open_sibling_session
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.plan.bounding import Strategy

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS), pytest.mark.long]
_PLACE = "tables.t.source"


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
    return not running_tasks(cluster) and not cluster.classic.sparkContext.statusTracker().getActiveJobsIds()


def test_a_reading_that_is_ended_as_it_begins_leaves_nothing(cluster: Cluster, spark: Spark) -> None:
    """Spark begins the jobs of one statement in several threads, and an interrupt ended those that it met. Half of the
    readings had a job that came after: none of twenty is one chance in a million.
    """
    for _ in range(20):
        with in_a_thread(lambda: _endless(spark)) as (thread, found):
            wait_until(lambda: found or spark.interrupt(thread.ident), "it is ended")
        assert isinstance(found[0], EngineFailed)
    assert spark.tables.run(lambda: spark.tables.session.spark.range(1))
    wait_until(lambda: _nothing_runs(cluster), "their jobs end", 30)


def test_a_reading_of_a_closed_engine_ends(cluster: Cluster, spark: Spark) -> None:
    with in_a_thread(lambda: _endless(spark)) as (_, found):
        wait_until(lambda: running_tasks(cluster), "a reading runs")
        spark.close()
    assert isinstance(found[0], EngineFailed)
    wait_until(lambda: _nothing_runs(cluster), "its jobs end", 30)


def test_a_reading_that_is_closed_as_it_begins_ends(cluster: Cluster, spark: Spark) -> None:
    with in_a_thread(lambda: _endless(spark)) as (_, found):
        wait_until(lambda: spark.tables._running_threads, "a reading is asked")
        spark.close()
    assert isinstance(found[0], EngineFailed)
    wait_until(lambda: _nothing_runs(cluster), "its jobs end", 30)


def _endless_scan(spark: Spark) -> Any:
    """Clean rows without end, of many people: statements over them have all their stages, and none ends by itself."""
    columns = "id % 100003 AS sf_unit", "IF(id % 2 = 0, 'north', 'it\\'s') AS place", "CAST(id % 90 AS DOUBLE) AS cost"
    return spark.tables.session.spark.range(10**15).selectExpr(*columns)


def _cancelled(spark: Spark, thread: threading.Thread) -> None:
    spark.interrupt(thread.ident)


def _closed(spark: Spark, _: threading.Thread) -> None:
    spark.close()


@pytest.mark.parametrize("end", [_cancelled, _closed])
@pytest.mark.parametrize("bounding", [Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE])
def test_interrupted_readings_leave_no_task_after_30_seconds(
    cluster: Cluster, rows_here: Path, bounding: Strategy, end: Callable[[Spark, threading.Thread], None]
) -> None:
    """At a Connect server, of every bounding: interrupted when tasks run, once and not again."""
    policy = _policy(cluster.address, path=str(rows_here), format="parquet")
    with contextlib.closing(Spark(policy)) as spark:
        spark.tables._scan_frames["t"] = _endless_scan(spark)
        reading = _reading(spark, bounding, "SELECT place, COUNT(*), SUM(cost) FROM t GROUP BY place")
        with in_a_thread(lambda: spark.read(reading, 3)) as (thread, found):
            wait_until(lambda: found or running_tasks(cluster) == 2, "tasks run")
            assert not found
            end(spark, thread)
            wait_until(lambda: _nothing_runs(cluster), "its tasks end", 30)
        assert isinstance(found[0], EngineFailed)
        assert _nothing_runs(cluster)


def test_a_reading_ends_with_a_control_c(cluster: Cluster, spark: Spark) -> None:
    def press() -> None:
        wait_until(lambda: running_tasks(cluster), "a reading runs")
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        _endless(spark)
    presser.join(SECONDS)
    wait_until(lambda: _nothing_runs(cluster), "its jobs end", 30)
    assert not spark.tables._running_threads


def test_a_reading_is_ended_and_the_session_goes_on(cluster: Cluster, spark: Spark, rows_here: Path) -> None:
    with in_a_thread(lambda: _endless(spark)) as (other, later):
        wait_until(lambda: running_tasks(cluster), "a reading runs")
        with in_a_thread(lambda: _endless(spark)) as (thread, found):
            wait_until(lambda: len(spark.tables._running_threads) == 2, "another one is asked")
            spark.interrupt(thread.ident)
            wait_until(lambda: found or spark.interrupt(thread.ident), "it is ended")
        assert isinstance(found[0], EngineFailed)
        wait_until(lambda: running_tasks(cluster), "the first one goes on")
        assert not later
        spark.interrupt(other.ident)
    assert isinstance(later[0], EngineFailed)
    wait_until(lambda: not running_tasks(cluster), "their tasks end")
    reading = _reading(spark, Strategy.CLIP_L1)
    with contextlib.closing(DuckDB(_policy(rows_here))) as here:
        assert tuples(spark.check(reading).read(reading, 3)) == tuples(here.read(reading, 3))
    assert not spark.tables._running_threads


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
                open_sibling_session(frame, _PLACE).close()
        assert _sessions(cluster) == sessions
        wait_until(lambda: threading.active_count() <= threads, "threads of closed sessions end")
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
    wait_until(lambda: _copies(cluster) <= copies, "copies of rows are let go")
    wait_until(lambda: threading.active_count() <= threads + 1, "threads of closed engines end")
    assert not cluster.classic.sparkContext.getJobTags()
