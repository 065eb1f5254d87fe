"""What private totals cost an engine: its CPU beside that of the plain query, in one run.

    .venv/bin/python bench/engines.py [rows] [--engine duckdb|postgresql|spark] [--workload NAME]

COUNT and SUM by 50 groups of people with ten rows each on average: *within* has integer ids, and 20 rows and groups
count; *beyond* has text ids, and 8 rows and 5 groups count, so that everybody is beyond a limit; *zipf* has the same
limits, and as many rows per person as one over the person's place. A PostgreSQL server is started in a temporary
folder with no parallel workers, and the CPU is that of its processes; of DuckDB over Parquet it is that of all threads;
of Spark that of a driver and two executors, also over Parquet (``bench/engines_spark.py`` has more of it).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import engines_spark

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering.reading_statements import server_statement
from sfumato.engine.postgres.driver import Postgres
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.frames import FrameWriter
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.keys import possible_group_keys
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.quick_dataclass import dataclass

GROUPS = 50
TOTALS = "SELECT ward, COUNT(*), SUM(age) FROM visits GROUP BY ward"
PEOPLE = "SELECT ward, COUNT(DISTINCT who) FROM visits GROUP BY ward"
ALLOWED = {
    ("postgresql", "within"): {"rows": 2, "reweight": 6, "clip-l1": 6, "clip-l2": 6, "sample": 30, "people": 3},
    ("postgresql", "beyond"): {"reweight": 6, "clip-l1": 8, "clip-l2": 8, "sample": 20},
    ("spark", "beyond"): {"reweight": 8, "clip-l1": 11, "clip-l2": 11, "sample": 16},
    ("duckdb", "beyond"): {"reweight": 10, "clip-l1": 15, "clip-l2": 15, "sample": 20},
}
"""The most times the plain query's CPU; of Zipf's people what is allowed of *beyond*."""
_DRAWN = "((i * 48271) % 2147483647) / 2147483647.0"
_ROWS = "{who} AS who, CONCAT('ward ', {ward}) AS ward, CAST(i % 111 AS INTEGER) AS age"


@dataclass(frozen=True)
class Workload:
    """People and their rows: SQL of the row ``i`` that every engine reads alike."""

    who: str
    ward: str
    max_rows: int
    max_groups: int

    def columns(self, people: int) -> str:
        return _ROWS.format(who=self.who.format(people=people), ward=self.ward)


WORKLOADS = {
    "within": Workload("CAST(FLOOR(i / 10) AS INTEGER)", "(i * 7919) % 50", 20, 20),
    "beyond": Workload("CONCAT('person ', CAST(FLOOR(i / 10) AS BIGINT))", "(i * 7919) % 50", 8, 5),
    "zipf": Workload(
        f"CONCAT('person ', CAST(FLOOR(EXP({_DRAWN} * LN({{people}}))) AS BIGINT))",
        "((i * 16807) % 2147483647) % 50",
        8,
        5,
    ),
}
Cpu = Callable[[Callable[[], object]], float]
"""The CPU seconds of an action: the least of a few runs."""


def policy(workload: Workload, unit: str, **stored: Any) -> Policy:
    columns = {
        "ward": {"values": [f"ward {each}" for each in range(GROUPS)]},
        "age": {"type": "integer", "bounds": [0, 110]},
    }
    limits = {} if unit == "row" else {"max_rows": workload.max_rows, "max_groups": workload.max_groups}
    table = Table("visits", columns=columns, id=unit, **stored, **limits)  # type: ignore[arg-type]
    return Policy(PrivacyUnit("person", every_row=unit == "row"), Budget(1), {"visits": table})


def least(used: Callable[[], float], action: Callable[[], object], times: int = 3) -> float:
    seconds = []
    for _ in range(times):
        before = used()
        action()
        seconds.append(used() - before)
    return min(seconds)


def compare(
    name: tuple[str, str],
    engine: Any,
    cpu: Cpu,
    plain: Callable[[str], object],
    read: Callable[[GroupTotals], object] | None = None,
) -> None:
    """Print what each bounding of the totals, and of people, costs beside the plain query."""
    unit = engine._policy.tables["visits"].id  # noqa: SLF001 - as the engine opened it
    allowed = ALLOWED.get(name, ALLOWED.get((name[0], "beyond"), {}))
    for text, prefix in (
        ((TOTALS, ""),) if unit == "row" or name[1] != "within" else ((TOTALS, ""), (PEOPLE, "people "))
    ):
        base = cpu(partial(plain, text))
        plan = parse(text, engine.catalog()).plan
        declared = tuple(possible_group_keys(plan.keys, engine.values))
        print(f"{' '.join(name)}: plain {base:.3f} s of CPU, load {os.getloadavg()[0]:.1f}  {text}", flush=True)
        for bounded in candidate_bounded_plans(plan, plan.limits, len(declared)):
            called = "rows" if bounded.strategy is Strategy.WHOLE else f"{prefix}{bounded.strategy.value}"
            reading = GroupTotals(bounded, declared)
            ours = cpu(partial(read or partial(engine.read, sampling_key=7), reading))
            most = allowed.get("people" if prefix and "clip" in called else called)
            verdict = "" if most is None or ours <= most * base else f"  ABOVE {most}"
            print(f"  {called:<16} {ours:8.3f} s of CPU {ours / base:6.1f} times{verdict}", flush=True)


# PostgreSQL


def server_cpu(postmaster: int) -> float:
    """The seconds of CPU of all processes of a server."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def started_postgres() -> Iterator[Any]:
    from postgres_server import PostgresServer, installations

    server = PostgresServer(installations()[0], {"max_parallel_workers_per_gather": "0", "shared_buffers": "512MB"})
    try:
        yield server.make().start()
    finally:
        server.remove()


def measure_postgres(names: list[str], rows: int) -> None:
    with started_postgres() as server:
        cpu = partial(least, lambda: server_cpu(server.postmaster))
        for name in names:
            columns = WORKLOADS[name].columns(rows // 10)
            server.execute(
                "DROP TABLE IF EXISTS visits",
                f"CREATE TABLE visits AS SELECT {columns} FROM GENERATE_SERIES(CAST(0 AS BIGINT), {rows - 1}) AS i",
                "VACUUM (ANALYZE, FREEZE) visits",
            )
            stored = {"source": server.address(), "relation": "public.visits"}
            for unit in ("row", "who") if name == "within" else ("who",):
                engine = Postgres(policy(WORKLOADS[name], unit, **stored))
                compare(("postgresql", name), engine, cpu, partial(_plain_on_server, engine))
                engine.close()


def _plain_on_server(engine: Postgres, text: str) -> object:
    return engine.server.run(text.replace("FROM visits", "FROM public.visits"))


# DuckDB


def measure_duckdb(names: list[str], rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cpu = partial(least, time.process_time)
        for name in names:
            path, columns = f"{folder}/{name}.parquet", WORKLOADS[name].columns(rows // 10)
            session = duckdb.connect()
            session.execute("SET threads = 2")
            session.execute(f"COPY (SELECT {columns} FROM range({rows}) AS r(i)) TO '{path}' (FORMAT parquet)")
            session.execute(f"CREATE VIEW visits AS SELECT * FROM '{path}'")
            for unit in ("row", "who") if name == "within" else ("who",):
                engine = DuckDB(policy(WORKLOADS[name], unit, source=path))
                compare(("duckdb", name), engine, cpu, lambda text: session.sql(text).fetchall())  # noqa: B023 - called at once
                engine.close()


# Spark


def measure_spark(names: list[str], rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = engines_spark.started()
        for name in names:
            made = session.range(rows).withColumnRenamed("id", "i")
            made.selectExpr(*_split(WORKLOADS[name].columns(rows // 10))).write.parquet(f"{folder}/{name}")
        cpu = partial(least, engines_spark.processor_seconds)
        for name in names:
            frame = session.read.parquet(f"{folder}/{name}")
            engine = Spark(policy(WORKLOADS[name], "who", source=frame))
            frame.createOrReplaceTempView("visits")
            compare(
                ("spark", name), engine, cpu, lambda text: session.sql(text).collect(), partial(_read_frames, engine)
            )
            engine.close()


def _split(columns: str) -> list[str]:
    """The columns of a SELECT, each as one expression."""
    who, rest = columns.split(" AS who, ")
    ward, age = rest.split(" AS ward, ")
    return [f"{who} AS who", f"{ward} AS ward", age]


def _read_frames(engine: Spark, reading: GroupTotals) -> object:
    writer = FrameWriter(engine.tables.scan, engine.tables.session.expression)
    return engine.tables.run(partial(writer.statement, server_statement(reading, 7)))


ENGINES = {"postgresql": measure_postgres, "duckdb": measure_duckdb, "spark": measure_spark}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rows", nargs="?", type=int, default=1_000_000)
    arguments.add_argument("--engine", choices=ENGINES, action="append")
    arguments.add_argument("--workload", choices=WORKLOADS, action="append")
    chosen = arguments.parse_args()
    for name in chosen.engine or ("postgresql", "duckdb"):
        ENGINES[name](chosen.workload or list(WORKLOADS), chosen.rows)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    main()
