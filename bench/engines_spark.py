"""What privacy costs on Spark: the processor time of each bounding beside that of the plain query, in one run.

    python bench/engines_spark.py [rows]

A driver and two executors on this machine read a Parquet table of ten rows a person in 50 groups, of which twenty a
person count. Times are those of all three processes together, the best of two.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.engine.lowering.reading_statements import server_statement
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.frames import FrameWriter
from sfumato.plan.bounding import ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

GROUPS = tuple(f"group {number}" for number in range(50))
COLUMNS: dict[str, Any] = {"kind": {"values": list(GROUPS)}, "cost": {"type": "integer", "bounds": [0, 100]}}
SUMS = "SELECT kind, COUNT(*) AS n, SUM(cost) AS s FROM t GROUP BY kind"
PEOPLE = "SELECT kind, COUNT(DISTINCT who) AS n FROM t GROUP BY kind"
ALLOWED = {Strategy.WHOLE: 1.5, Strategy.REWEIGHT: 8, Strategy.CLIP_L1: 11, Strategy.CLIP_L2: 11, Strategy.SAMPLE: 16}
PEOPLE_ALLOWED = {Strategy.CLIP_L1: 3, Strategy.CLIP_L2: 3}
"""The most times the plain query's processor time."""
TICKS = os.sysconf("SC_CLK_TCK")


def started() -> Any:
    """A driver and two executors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local-cluster[2,1,2048]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "2048m")
        return builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def processor_seconds() -> float:
    """The time of every process that descends from this one."""
    stats = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(place.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS
    ours = {os.getpid()}
    while grown := {pid for pid, (parent, _) in stats.items() if parent in ours} - ours:
        ours |= grown
    return sum(stats[pid][1] for pid in ours if pid in stats)


def best(action: Any) -> float:
    found = []
    for _ in range(2):
        before = processor_seconds()
        action()
        found.append(processor_seconds() - before)
    return min(found)


def policy(frame: Any, unit: str) -> Policy:
    limits = {} if unit == "row" else {"max_rows": 20}
    table = Table("t", frame, COLUMNS, id=unit, **limits)  # type: ignore[arg-type]
    return Policy(PrivacyUnit("person", every_row=unit == "row"), Budget(1, "1e-6"), {"t": table})


def main(rows: int) -> None:
    spark = started()
    with tempfile.TemporaryDirectory() as folder:
        made = spark.range(rows).selectExpr(
            f"CAST(xxhash64(id) & 9223372036854775807 AS BIGINT) % {rows // 10} AS who",
            "concat('group ', CAST(id % 50 AS STRING)) AS kind",
            "CAST(id % 101 AS BIGINT) AS cost",
        )
        made.write.parquet(f"{folder}/t")
        spark.stop()
        measure(f"{folder}/t")


def measure(path: str) -> None:
    spark = started()
    frame = spark.read.parquet(path)
    sums = best(lambda: frame.groupBy("kind").agg({"*": "count", "cost": "sum"}).collect())
    people = best(lambda: frame.selectExpr("kind", "who").distinct().groupBy("kind").count().collect())
    print(f"plain: COUNT and SUM {sums:.2f} s, COUNT(DISTINCT) {people:.2f} s of processor time", flush=True)
    asked = (("row", SUMS, sums, ALLOWED), ("who", SUMS, sums, ALLOWED), ("who", PEOPLE, people, PEOPLE_ALLOWED))
    for unit, question, plain, allowed in asked:
        engine = Spark(policy(frame, unit))
        plan = parse(question, engine.catalog()).plan
        limits = ContributionLimits.from_table(engine._policy.tables["t"])  # noqa: SLF001
        for bounded in candidate_bounded_plans(plan, limits, len(GROUPS)):
            if bounded.strategy not in allowed:
                continue
            statement = server_statement(GroupTotals(bounded, tuple((each,) for each in GROUPS)), 1)
            writer = FrameWriter(engine.tables.scan, engine.tables.session.expression)
            cost = best(partial(engine.tables.run, partial(writer.statement, statement)))
            verdict = "" if cost / plain <= allowed[bounded.strategy] else f"  ABOVE {allowed[bounded.strategy]}"
            print(f"{unit:4} {bounded.strategy.value:10} {cost / plain:5.1f} times{verdict}  {question}", flush=True)
        engine.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
