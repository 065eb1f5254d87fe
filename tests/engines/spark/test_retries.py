"""Totals are those of the plan, however often and wherever Spark computes them: executors are killed, shuffle files
vanish, tasks run twice, and plans are adapted to what was counted on the way.

A statement has no rand() and no order that rows happen to have, so what is computed again is what was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.tables import tuples
from engines.spark.conftest import PANDAS, Cluster
from engines.spark.retries import (
    BOUNDINGS,
    executors,
    finished_shuffles,
    in_a_thread,
    policy,
    reading,
    running_tasks,
    wait_until,
    write_rows,
)
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.spark.driver import Spark
from sfumato.errors import EngineFailed

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings(PANDAS), pytest.mark.long]
_ATTEMPTS = 5
"""How often a reading is begun that may be over before it is disturbed."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("retries")
    write_rows(folder, 2_000_000)
    return folder


@pytest.fixture(scope="module")
def duckdb(rows: Path) -> Iterator[DuckDB]:
    with contextlib.closing(DuckDB(policy(str(rows / "*.parquet")))) as engine:
        yield engine


def _kill_executor(_: Cluster) -> None:
    os.kill(executors()[0], signal.SIGKILL)


def _remove_shuffle_files(cluster: Cluster) -> None:
    for file in cluster.folder.rglob("shuffle_*.data"):
        file.unlink(missing_ok=True)


def _both_work(cluster: Cluster) -> bool:
    return running_tasks(cluster) == 2


def _between_stages(cluster: Cluster) -> bool:
    return finished_shuffles(cluster) > 0


def _failures(cluster: Cluster, start: int) -> set[str]:
    """Why tasks ended that did not succeed."""
    ended = [event for event in cluster.events(start) if event["Event"] == "SparkListenerTaskEnd"]
    return {event["Task End Reason"]["Reason"] for event in ended} - {"Success"}


def _stage_attempts(cluster: Cluster, start: int) -> int:
    """The number of the last attempt at any stage, from 0."""
    submitted = [event for event in cluster.events(start) if event["Event"] == "SparkListenerStageSubmitted"]
    return max((event["Stage Info"]["Stage Attempt ID"] for event in submitted), default=0)


@pytest.mark.parametrize("bounding", BOUNDINGS)
@pytest.mark.parametrize(
    ("disturb", "moment", "failure"),
    [
        pytest.param(_kill_executor, _both_work, "ExecutorLostFailure", id="an executor is killed at work"),
        pytest.param(_kill_executor, _between_stages, "", id="an executor is killed between stages"),
        pytest.param(_remove_shuffle_files, _between_stages, "FetchFailed", id="shuffle files vanish"),
    ],
)
def test_what_is_computed_again_is_what_was_lost(
    cluster: Cluster,
    rows: Path,
    duckdb: DuckDB,
    bounding: str,
    disturb: Callable[[Cluster], None],
    moment: Callable[[Cluster], bool],
    failure: str,
) -> None:
    wanted = tuples(duckdb.read(reading(duckdb, bounding), 3))
    with contextlib.closing(Spark(policy(cluster.address, path=str(rows), format="parquet"))) as spark:
        for _ in range(_ATTEMPTS):
            start = cluster.event_log.stat().st_size
            with in_a_thread(lambda: spark.read(reading(spark, bounding), 3)) as (_, found):
                wait_until(lambda: found or moment(cluster), "the moment comes")
                disturb(cluster)
            assert tuples(found[0]) == wanted
            wait_until(lambda: len(executors()) == 2, "another executor comes")
            if failure in _failures(cluster, start) or _stage_attempts(cluster, start) > 0:
                return
    raise AssertionError("every reading was over before it was disturbed")


def test_a_copy_that_is_lost_is_not_read_again(cluster: Cluster, rows: Path, duckdb: DuckDB) -> None:
    """A frame without a version is read once: what its other rows would be now, nobody knows."""
    wanted = tuples(duckdb.read(reading(duckdb, "clip-l1"), 3))
    with (
        contextlib.closing(Spark(policy(cluster.classic.read.parquet(str(rows))))) as spark,
        spark.open_snapshot() as copy,
    ):
        assert tuples(copy.read(reading(spark, "clip-l1"), 3)) == wanted
        os.kill(executors()[0], signal.SIGKILL)
        wait_until(lambda: len(executors()) == 2, "another executor comes")
        with pytest.raises(EngineFailed):
            copy.read(reading(spark, "clip-l1"), 3)
        assert tuples(spark.read(reading(spark, "clip-l1"), 3)) == wanted


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("partitions", ["1", "7"])
def test_totals_do_not_depend_on_how_a_plan_is_run(
    cluster: Cluster, rows: Path, duckdb: DuckDB, adaptive: str, partitions: str
) -> None:
    with contextlib.closing(Spark(policy(cluster.classic.read.parquet(str(rows))))) as spark:
        settings = spark.tables.session.spark.conf
        settings.set("spark.sql.adaptive.enabled", adaptive)
        settings.set("spark.sql.shuffle.partitions", partitions)
        for bounding in BOUNDINGS:
            found = tuples(spark.read(reading(spark, bounding), 3))
            assert found == tuples(duckdb.read(reading(duckdb, bounding), 3)), bounding


@pytest.mark.usefixtures("cluster")
def test_tasks_that_run_twice_count_once(rows: Path, duckdb: DuckDB, tmp_path: Path) -> None:
    """An executor stops, and Spark computes its task at the other host as well; then it goes on."""
    words = [sys.executable, "-m", "engines.spark.standalone", str(rows), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=1800)
    assert run.returncode == 0, run.stderr.decode()[-3000:]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    for bounding in BOUNDINGS:
        wanted = tuples(duckdb.read(reading(duckdb, bounding), 3))
        assert [tuple(row) for row in found[bounding]["totals"]] == [tuple(row) for row in wanted], bounding
    assert sum(found[bounding]["speculated"] for bounding in BOUNDINGS)
