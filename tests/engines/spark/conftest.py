"""One Spark for the whole run: a driver and two executors, asked in this process and over Connect."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Options of Java: a short run is over before what its second compiler makes of a program is worth the making, and
twelve thousand classes of Spark's own are loaded without being verified.
"""
ICEBERG = "SFUMATO_ICEBERG_JAR"
"""The variable that names the file of Iceberg for this Spark, if there is one."""
PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"


@dataclass(frozen=True)
class Cluster:
    """A Spark that runs: its classic session, the address of its Connect server, and where it keeps its files."""

    classic: Any
    address: str
    folder: Path

    @property
    def event_log(self) -> Path:
        (log,) = (self.folder / "events").iterdir()
        return log

    def events(self, start: int = 0) -> list[dict[str, Any]]:
        """The events that were logged after so many bytes, once all of them are written."""
        self.classic.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        with self.event_log.open("rb") as lines:
            lines.seek(start)
            return [json.loads(line) for line in lines if line.endswith(b"\n")]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, long: bool) -> Iterator[Cluster]:
    java = shutil.which("java")
    if java is None or subprocess.run([java, "-version"], capture_output=True, check=False).returncode:
        pytest.skip("NO JAVA: nothing of Spark is tested. Install OpenJDK 17 or newer")
    pytest.importorskip("pyspark", reason="NO PYSPARK: nothing of Spark is tested. Install sfumato[spark]")
    folder = tmp_path_factory.mktemp("spark")
    os.environ |= {
        "JAVA_HOME": str(Path(os.path.realpath(java)).parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
    }
    started = _started(folder, port := free_port(), "" if long else _SHORT_LIVED)
    yield Cluster(started, f"sc://127.0.0.1:{port}", folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started.stop()


def _started(folder: Path, port: int, java: str) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        from pyspark.sql import SparkSession

        (folder / "events").mkdir()
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("tests")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "FATAL",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.memory": "1024m",
            "spark.worker.cleanup.enabled": "true",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(folder / "events"),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            **(_iceberg(jar, folder) if (jar := os.environ.get(ICEBERG)) else {}),
        }.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def _iceberg(jar: str, folder: Path) -> dict[str, str]:
    """A catalog of Iceberg tables in a folder, never remembered: what is changed is seen at once."""
    return {
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "iceberg"),
        "spark.sql.catalog.ice.cache-enabled": "false",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
