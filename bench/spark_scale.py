"""How the work of releases on Spark grows with rows, groups and columns.

    python bench/spark_scale.py [rows …] [--shuffle-service] [--parts NAME …]

A driver and two executors, each a process of its own on this machine, read a Parquet table that Spark itself wrote: ten
rows a person, of which 8 in 5 groups count. Releases go through Spark Connect, as a curator's do. For each: wall time,
the CPU of all processes, rows that reach the client, bytes of results that reach the driver, peak memory (RSS) of the
driver and the client, tasks, and shuffled bytes; then the exponents of growth. Metrics are those of Spark's event log.

In this mode Spark's workers start no shuffle service whatever the settings say; ``--shuffle-service`` starts Spark's
own as another process, so that shuffle files outlive their executors. The folder is removed at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from engines_spark import processor_seconds

import sfumato as sf
from sfumato.quick_dataclass import dataclass

ROWS = (5_000_000, 15_000_000, 50_000_000)
GROUPS = (10, 1_000, 10_000, 100_000)
COLUMNS = (1, 2, 4, 8)
VALUES = 10
BOUNDINGS = ("reweight", "clip-l1", "clip-l2", "sample")
PARTITIONS = 32
MEBIBYTE = 1 << 20
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.memory": "2048m",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


# The cluster


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def shuffle_service() -> Iterator[dict[str, str]]:
    """Start Spark's external shuffle service and yield the settings that make executors use it."""
    import pyspark

    port = free_port()
    command = ["java", f"-Dspark.shuffle.service.port={port}", "-cp", f"{Path(pyspark.__file__).parent}/jars/*"]
    service = subprocess.Popen(
        [*command, "org.apache.spark.deploy.ExternalShuffleService"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.2)
        yield {"spark.shuffle.service.enabled": "true", "spark.shuffle.service.port": str(port)}
    finally:
        service.terminate()
        service.wait()


@dataclass(frozen=True)
class Cluster:
    """A running Spark, the address of its Connect server and its event log."""

    spark: Any
    address: str
    log: Path

    def events(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """The events that were logged after so many bytes, once all of them are written."""
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - it has no public name
        with self.log.open() as lines:
            lines.seek(start)
            yield from map(json.loads, lines)


@contextlib.contextmanager
def started(folder: Path, further: dict[str, str]) -> Iterator[Cluster]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        (log := folder / "events").mkdir()
        port = free_port()
        builder = SparkSession.builder.master("local-cluster[2,1,2048]").appName("scale")
        own = {"spark.connect.grpc.binding.port": str(port), "spark.eventLog.dir": str(log)}
        for name, value in {**_SETTINGS, **own, **further}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    try:
        yield Cluster(spark, f"sc://127.0.0.1:{port}", next(log.iterdir()))
    finally:
        spark.stop()


# One measurement


@dataclass(frozen=True)
class Cost:
    """What one action cost."""

    wall: float
    cpu: float
    sent_rows: int
    result_bytes: int
    driver_memory: int
    client_memory: int
    tasks: int
    shuffled_bytes: int
    spilled_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.wall:7.1f} s {self.cpu:8.1f} s CPU {self.sent_rows:9,} rows {self.result_bytes / MEBIBYTE:8.2f} MiB"
            f" {self.driver_memory // MEBIBYTE:6,} {self.client_memory // MEBIBYTE:5,} MiB RSS {self.tasks:5,} tasks"
            f" {self.shuffled_bytes / MEBIBYTE:8.1f} MiB shuffled {self.spilled_bytes / MEBIBYTE:7.1f} spilled"
        )


def driver_process() -> int:
    """The JVM that is this process's own child."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return next(int(pid) for pid in children if b"SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes())


def peak_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def measured(cluster: Cluster, sent: list[int], action: Callable[[], object]) -> Cost:
    """Run an action once. Peak memory is that of the action: the kernel's mark is reset before."""
    processes, start = (driver_process(), os.getpid()), cluster.log.stat().st_size
    sent.clear()
    for pid in processes:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    cpu, wall = processor_seconds(), time.perf_counter()
    action()
    wall, cpu = time.perf_counter() - wall, processor_seconds() - cpu
    metrics = [event["Task Metrics"] for event in cluster.events(start) if event["Event"] == "SparkListenerTaskEnd"]
    return Cost(
        wall,
        cpu,
        sum(sent),
        sum(task["Result Size"] for task in metrics),
        *map(peak_memory, processes),
        len(metrics),
        sum(task["Shuffle Write Metrics"]["Shuffle Bytes Written"] for task in metrics),
        sum(task["Disk Bytes Spilled"] for task in metrics),
    )


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> str:
    """The slope of the logarithms: 1 is proportional."""
    if len(sizes) < 2 or min(costs) <= 0:
        return "-"
    return f"{np.polyfit([math.log(size) for size in sizes], [math.log(cost) for cost in costs], 1)[0]:.2f}"


def print_growth(name: str, sizes: Sequence[int], costs: Sequence[Cost]) -> None:
    parts = {
        "wall": [cost.wall for cost in costs],
        "CPU": [cost.cpu for cost in costs],
        "driver memory": [cost.driver_memory for cost in costs],
        "tasks": [cost.tasks for cost in costs],
        "shuffled": [cost.shuffled_bytes for cost in costs],
    }
    print(f"  {name}: exponents " + ", ".join(f"{part} {exponent(sizes, parts[part])}" for part in parts), flush=True)


# Tables and questions


def write_table(cluster: Cluster, path: Path, rows: int) -> None:
    """People's rows lie apart, and a person has about ten, as a hash of the row says."""
    number = "CAST(xxhash64(id, {seed}) & 9223372036854775807 AS BIGINT)"
    cluster.spark.range(rows).selectExpr(
        f"{number.format(seed=0)} % {rows // 10} AS who",
        f"concat('ward ', {number.format(seed=1)} % 50) AS ward",
        f"concat('note ', {number.format(seed=2)} % 1000) AS note",
        *(f"{number.format(seed=3)} % {groups} AS g{groups}" for groups in GROUPS),
        *(f"{number.format(seed=10 + column)} % {VALUES} AS c{column}" for column in range(max(COLUMNS))),
    ).write.parquet(str(path))


def policy(cluster: Cluster, path: Path, unit: str = "who") -> sf.Policy:
    wards = {"ward": {"values": [f"ward {ward}" for ward in range(50)]}, "note": {"type": "text", "max_length": 20}}
    groups = {f"g{groups}": {"type": "integer", "bounds": [0, groups - 1]} for groups in GROUPS}
    columns = {f"c{column}": {"values": list(range(VALUES))} for column in range(max(COLUMNS))}
    limits = {} if unit == "row" else {"max_rows": 8, "max_groups": 5}
    table = sf.Table(
        "t",
        cluster.address,
        wards | groups | columns,
        id=unit,
        path=str(path),
        format="parquet",
        row_ceiling=1 << 30,
        **limits,
    )
    return sf.Policy(sf.PrivacyUnit("person", every_row=unit == "row"), sf.Budget(10**6, "1e-6"), {"t": table})


@dataclass(frozen=True)
class Subject:
    """An open curator of one table."""

    cluster: Cluster
    curator: sf.Curator
    sent: list[int]

    def sql(self, name: str, text: str, strategy: str | None = None, **price: Any) -> Cost:
        question = self.curator.sql(text)
        question = question if strategy is None else question.limit(strategy=strategy)
        return self.show(name, partial(question.release, fresh=True, **(price or {"rho": 1})))

    def show(self, name: str, action: Callable[[], object]) -> Cost:
        cost = measured(self.cluster, self.sent, action)
        print(f"  {name:<34}{cost}", flush=True)
        return cost


@contextlib.contextmanager
def opened(cluster: Cluster, path: Path, unit: str = "who") -> Iterator[Subject]:
    """Open a curator whose engine counts the rows that each collect returns."""
    with tempfile.TemporaryDirectory() as folder:
        curators: list[sf.Curator] = []
        cost = measured(
            cluster, [], lambda: curators.append(sf.Curator(policy(cluster, path, unit), Path(folder) / "t.ledger"))
        )
        print(f"  {'opening, unit ' + unit:<34}{cost}", flush=True)
        sent: list[int] = []
        tables: Any = curators[0]._context.engine.tables  # type: ignore[attr-defined] # noqa: SLF001 - the engine
        run = tables.run

        def run_and_count(make: Any) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = run(make)
            sent.append(len(rows))
            return rows

        tables.run = run_and_count
        with curators[0] as curator:
            yield Subject(cluster, curator, sent)


# What is measured

COUNTED = "SELECT ward, COUNT(*) FROM t GROUP BY ward"
RELEASES: dict[str, Callable[[Subject], Cost]] = {
    **{name: partial(Subject.sql, name=name, text=COUNTED, strategy=name) for name in BOUNDINGS},
    "people": partial(Subject.sql, name="people", text="SELECT ward, COUNT(DISTINCT who) FROM t GROUP BY ward"),
    "found": partial(
        Subject.sql, name="found groups", text="SELECT note, COUNT(*) FROM t GROUP BY note", epsilon=1, delta="1e-9"
    ),
    "marginals": lambda subject: subject.show("6 marginals of 4 columns", partial(release_marginals, subject.curator)),
}
WHOLE, WIDTHS = "rows-as-units", "widths"


def measure_rows(cluster: Cluster, path: Path, parts: Sequence[str]) -> dict[str, Cost]:
    """Ask of one table: the plain query, rows as units, each bounding, groups that are found, and marginals."""
    plain = Subject(cluster, None, [])  # type: ignore[arg-type] # no curator is asked
    frame = cluster.spark.read.parquet(str(path))
    costs = {"plain": plain.show("plain count", lambda: frame.groupBy("ward").count().collect())}
    if WHOLE in parts:
        with opened(cluster, path, "row") as subject:
            costs[WHOLE] = subject.sql(WHOLE, COUNTED)
    with opened(cluster, path) as subject:
        return costs | {name: release(subject) for name, release in RELEASES.items() if name in parts}


def release_marginals(curator: sf.Curator, columns: int = 4) -> None:
    names = [f"c{column}" for column in range(columns)]
    pairs = [[first, second] for index, first in enumerate(names) for second in names[index + 1 :]]
    curator.marginals("t", pairs).release(rho=1, fresh=True)


def measure_widths(cluster: Cluster, path: Path) -> None:
    """Ask one table for more groups, then for more columns."""
    with opened(cluster, path) as subject:
        for bounding in ("reweight", "clip-l2"):
            text = "SELECT g{0}, COUNT(*) FROM t GROUP BY g{0}"
            costs = [subject.sql(f"{bounding}, {groups:,} groups", text.format(groups), bounding) for groups in GROUPS]
            print_growth(f"{bounding}, against groups", GROUPS, costs)
        sums = ["SELECT ward, " + ", ".join(f"SUM(c{index})" for index in range(count)) for count in COLUMNS]
        costs = [
            subject.sql(f"reweight, sums of {count}", f"{text} FROM t GROUP BY ward", "reweight")
            for count, text in zip(COLUMNS, sums, strict=True)
        ]
        print_growth("sums, against columns", COLUMNS, costs)
        widths = COLUMNS[1:]
        costs = [
            subject.show(f"pairs of {width} columns", partial(release_marginals, subject.curator, width))
            for width in widths
        ]
        print_growth("marginals, against columns", widths, costs)


def main() -> None:
    parts = (WHOLE, *RELEASES, WIDTHS)
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rows", nargs="*", type=int, default=ROWS)
    arguments.add_argument("--shuffle-service", action="store_true")
    arguments.add_argument("--parts", nargs="*", choices=parts, default=parts)
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the folder is removed
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = stack.enter_context(shuffle_service()) if chosen.shuffle_service else {}
        os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder)}
        cluster = stack.enter_context(started(folder, service))
        found = []
        for rows in chosen.rows:
            path = folder / str(rows)
            write_table(cluster, path, rows)
            size = sum(file.stat().st_size for file in path.iterdir()) / MEBIBYTE
            print(f"{rows:,} rows, {size:,.0f} MiB of Parquet, load {os.getloadavg()[0]:.1f}", flush=True)
            found.append(measure_rows(cluster, path, chosen.parts))
        for name in found[0]:
            print_growth(f"{name}, against rows", chosen.rows, [costs[name] for costs in found])
        if WIDTHS in chosen.parts:
            print(f"{chosen.rows[0]:,} rows, groups and columns", flush=True)
            measure_widths(cluster, folder / str(chosen.rows[0]))


if __name__ == "__main__":
    main()
