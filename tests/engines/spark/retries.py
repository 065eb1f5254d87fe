"""A table whose people exceed every limit, its questions, and how to wait for what a cluster does."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from engine.tables import policy_of
from engines.spark.conftest import Cluster
from sfumato.errors import EngineFailed
from sfumato.plan.bounding import ContributionLimits, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table

BOUNDINGS = ("reweight", "clip-l1", "clip-l2", "sample")
PLACES = tuple(f"place {number}" for number in range(12))
SECONDS = 300
"""How long anything is waited for: an event, and never a time."""


def write_rows(folder: Path, rows: int, files: int = 8) -> None:
    """Write rows of people who have forty each on average, in many places."""
    random = np.random.default_rng(7)
    for number in range(files):
        size = rows // files
        columns = {
            "who": random.integers(0, rows // 40, size),
            "place": np.array(PLACES)[random.integers(0, len(PLACES), size)],
            "cost": random.integers(-200, 2000, size) / 16,
        }
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=100_000)


def policy(source: Any, **said: Any) -> Policy:
    columns = {
        "place": {"values": list(PLACES)},
        "cost": {"type": "real", "bounds": [-10, 100], "grid": "0.25"},
    }
    limits = {"max_rows": 20, "max_groups": 5, "max_rows_per_group": 4}
    return policy_of(Table("t", source, columns, id="who", **limits, **said))  # type: ignore[arg-type]


def reading(engine: Any, bounding: str) -> GroupTotals:
    """Counts and sums by place in one bounding."""
    plan = parse("SELECT place, COUNT(*), SUM(cost) FROM t GROUP BY place", engine.catalog()).plan
    strategies = candidate_bounded_plans(plan, ContributionLimits.from_table(engine._policy.tables["t"]), len(PLACES))
    bounded = next(each for each in strategies if each.strategy.value == bounding)
    return GroupTotals(bounded, tuple((place,) for place in PLACES))


def wait_until(happened: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Wait for an event."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happened():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} seconds: {what}")


def running_tasks(cluster: Cluster) -> int:
    """How many tasks run just now."""
    tracker = cluster.classic.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def finished_shuffles(cluster: Cluster) -> int:
    """How many stages of running jobs have written all their rows for a later one."""
    tracker = cluster.classic.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(0 < stage.numTasks == stage.numCompletedTasks for stage in stages if stage is not None)


def executors() -> list[int]:
    """The executors of the Spark that this process started."""
    parents, words = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            words[int(place.name)] = (place / "cmdline").read_bytes()

    def is_ours(pid: int) -> bool:
        return pid == os.getpid() or (pid > 1 and is_ours(parents.get(pid, 0)))

    return [pid for pid, said in words.items() if b"CoarseGrainedExecutorBackend" in said and is_ours(pid)]


@contextlib.contextmanager
def in_a_thread(action: Callable[[], Any]) -> Iterator[tuple[threading.Thread, list[Any]]]:
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
        thread.join(SECONDS)
    assert not thread.is_alive()
