"""A standalone Spark with two workers at addresses of their own, for what Spark does between hosts alone.

Spark starts no second copy of a slow task at the host of the first, and all executors of ``local-cluster`` have one.
A process has one Spark, so this is run as a program beside that of the tests: it reads the totals of a file in each
bounding while an executor is stopped, and prints them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.tables import tuples
from engines.spark.conftest import Cluster, free_port
from engines.spark.retries import BOUNDINGS, executors, policy, reading, running_tasks, wait_until
from sfumato.engine.spark.driver import Spark

_HOSTS = "127.0.0.2", "127.0.0.3"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1024m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.sql.files.openCostInBytes": "0",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.25",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@contextlib.contextmanager
def _daemon(folder: Path, *words: str) -> Iterator[None]:
    """Run one of Spark's own servers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(folder), "SPARK_DAEMON_MEMORY": "256m"}
    with (folder / f"{words[0]} {words[2]}.log").open("wb") as log:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    from pyspark.sql import SparkSession

    (folder / "events").mkdir()
    with contextlib.ExitStack() as servers:
        address = f"spark://127.0.0.1:{(port := free_port())}"
        place = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        servers.enter_context(_daemon(folder, "master.Master", *place))
        for host in _HOSTS:
            size = ("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g", "-d", str(folder / host))
            servers.enter_context(_daemon(folder, "worker.Worker", *size, address))
        builder = SparkSession.builder.master(address).config("spark.eventLog.dir", str(folder / "events"))
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield Cluster(spark, "", folder)
        finally:
            spark.stop()


def _speculated(cluster: Cluster, start: int) -> int:
    """How many second copies of tasks were started."""
    infos = [event["Task Info"] for event in cluster.events(start) if event["Event"] == "SparkListenerTaskStart"]
    return sum(info["Speculative"] for info in infos)


def _stop_for_a_while(cluster: Cluster, start: int, ended: threading.Event) -> None:
    """Stop an executor while it has a task, until another executor computes the same task."""
    wait_until(lambda: ended.is_set() or running_tasks(cluster) == 2, "both executors have a task each")
    executor = executors()[0]
    os.kill(executor, signal.SIGSTOP)
    try:
        wait_until(lambda: ended.is_set() or _speculated(cluster, start), "a task is computed twice", 100)
    finally:
        os.kill(executor, signal.SIGCONT)


def _read_while_stopped(cluster: Cluster, spark: Spark, bounding: str) -> dict[str, Any]:
    start, ended = cluster.event_log.stat().st_size, threading.Event()
    stopper = threading.Thread(target=_stop_for_a_while, args=(cluster, start, ended))
    stopper.start()
    totals = tuples(spark.read(reading(spark, bounding), 3))
    ended.set()
    stopper.join()
    return {"totals": totals, "speculated": _speculated(cluster, start)}


def main(rows: str, folder: str) -> None:
    with standalone(Path(folder)) as cluster:
        frame = cluster.classic.read.parquet(rows)
        with contextlib.closing(Spark(policy(frame))) as spark:
            print(json.dumps({bounding: _read_while_stopped(cluster, spark, bounding) for bounding in BOUNDINGS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
