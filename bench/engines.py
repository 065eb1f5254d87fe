"""What private totals cost a server: its CPU beside that of the plain query, in one run.

    .venv/bin/python bench/engines.py [rows]

COUNT and SUM by 50 groups, ten rows a person, of which 20 count. A PostgreSQL server is started in a temporary folder
with no parallel workers, and the CPU is that of its processes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from postgres_server import PostgresServer, installations
from sfumato.engine.postgres.driver import Postgres
from sfumato.plan.bounding import bounding_strategies
from sfumato.plan.keys import groups
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

GROUPS = 50
TOTALS = "SELECT ward, COUNT(*), SUM(age) FROM visits GROUP BY ward"
PEOPLE = "SELECT ward, COUNT(DISTINCT who) FROM visits GROUP BY ward"
ALLOWED = {"rows": 2, "reweight": 6, "clip-l1": 6, "clip-l2": 6, "people clip-l1": 3, "people clip-l2": 3, "sample": 30}
"""The most times the plain query's CPU."""


def _used(server: PostgresServer) -> float:
    """The seconds of CPU of all processes of a server."""
    postmaster, ticks = server.postmaster, 0
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _measured(server: PostgresServer, action: Callable[[], object], times: int = 2) -> tuple[float, float]:
    """The least CPU and wall time of a few runs."""
    found = []
    for _ in range(times):
        before, start = _used(server), time.perf_counter()
        action()
        found.append((_used(server) - before, time.perf_counter() - start))
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)


def _policy(server: PostgresServer, unit: str) -> Policy:
    columns = {
        "ward": {"values": [f"ward {each}" for each in range(GROUPS)]},
        "age": {"type": "integer", "bounds": [0, 110]},
    }
    limits = {} if unit == "row" else {"max_rows": 20, "max_groups": 20}
    table = Table("visits", server.address(), columns, id=unit, relation="public.visits", **limits)  # type: ignore[arg-type]
    return Policy(PrivacyUnit("person", every_row=unit == "row"), Budget(1), {"visits": table})


def main(rows: int) -> None:
    server = PostgresServer(installations()[0], {"max_parallel_workers_per_gather": "0", "shared_buffers": "512MB"})
    try:
        server.make().start()
        server.execute(
            "CREATE TABLE visits AS SELECT (i / 10)::int AS who, 'ward ' || (i::bigint * 7919 % 50) AS ward, "
            "(i % 111)::int AS age "
            f"FROM generate_series(0, {rows - 1}) AS i",
            "VACUUM (ANALYZE, FREEZE) visits",
        )
        engines = {unit: Postgres(_policy(server, unit)) for unit in ("row", "who")}
        plain = _measured(
            server,
            lambda: engines["row"].server.run("SELECT ward, COUNT(*), SUM(age) FROM public.visits GROUP BY ward"),
        )
        people = _measured(
            server,
            lambda: engines["row"].server.run("SELECT ward, COUNT(DISTINCT who) FROM public.visits GROUP BY ward"),
        )
        print(
            f"PostgreSQL {server.installation.version}, {rows:,} rows; plain {plain[0]:.2f} s of CPU "
            f"({plain[1]:.2f} s), people {people[0]:.2f} s"
        )
        for unit, asked, name in (("row", TOTALS, ""), ("who", TOTALS, ""), ("who", PEOPLE, "people ")):
            engine = engines[unit]
            plan = parse(asked, engine.catalog()).plan
            known = tuple(groups(plan.keys, engine.values))
            for bounded in bounding_strategies(plan, plan.limits, len(known)):
                strategy = bounded.strategy
                called = "rows" if strategy is Strategy.WHOLE else f"{name}{strategy.value}"
                if called in ALLOWED:
                    reading = GroupTotals(bounded, known)
                    cpu, wall = _measured(server, lambda: engine.read(reading, 7))  # noqa: B023 - called at once
                    base = people if name else plain
                    ratio = cpu / base[0]
                    verdict = "" if ratio <= ALLOWED[called] else f"  ABOVE {ALLOWED[called]}"
                    print(
                        f"  {called:<16} {cpu:6.2f} s of CPU {ratio:5.1f} times "
                        f"({wall / base[1]:.1f} by the clock){verdict}"
                    )
    finally:
        server.remove()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
