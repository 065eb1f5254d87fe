"""What a question costs: reading it, finding its groups, and one unit's rows at the caps of plan/costs.py.

Run with: .venv/bin/python bench/questions.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import pyarrow as pa

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan import costs
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.keys import conditions_met_by_rows, possible_group_keys
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Domain

ROWS, UNIT = 20_000, 4_000
DEAR = {
    "steps": f"s LIKE '%{'_' * 95}b%'",
    "bytes": f"REPLACE(s, 'a', '{chr(0x1F600) * 16}') = 'x'",
}
COLUMNS = {
    "k": Domain("text", values=tuple(f"v{each}" for each in range(50_000))),
    "d": Domain("date", bounds=("1600-01-01", "2100-12-31")),
    "s": Domain("text"),
}


def engine(unit: int) -> DuckDB:
    """Many people with short texts, and one who has this many of the longest, each as dear as can be."""
    table = pa.table({"id": [*range(ROWS), *[-1] * unit], "s": ["a"] * ROWS + ["a" * 1_000] * unit})
    declared = sf.Table(
        "t", table.append_column("k", table["s"]).append_column("d", table["s"]), COLUMNS, id="id", max_rows=UNIT
    )
    return DuckDB(sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1), {"t": declared}))


def timed(what: str, action: Callable[[], object]) -> None:
    taken = []
    for _ in range(3):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    print(f"{what:58} {min(taken):8.3f} s")


def reading(made: DuckDB) -> None:
    catalog = made.catalog()
    one = "k = 'v1'"
    chains = {
        "HAVING": "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING {}",
        "CASE": "SELECT k, CASE WHEN {} THEN 1 ELSE 0 END + COUNT(*) AS n FROM t GROUP BY k",
    }
    for name, text in chains.items():
        for terms in (400, 800):
            asked = text.format(" AND ".join([one] * terms))
            timed(f"read {terms} terms in {name}", lambda asked=asked: parse(asked, catalog))  # type: ignore[misc]
    for key in ("k", "UPPER(k)", "EXTRACT(year FROM d)"):
        plan = parse(f"SELECT COUNT(*) AS n FROM t GROUP BY {key}", catalog).plan
        timed(
            f"find the groups of {key}",
            lambda plan=plan: possible_group_keys(plan.keys, made.values, conditions_met_by_rows(plan.source)),
        )  # type: ignore[misc]


def dear(what: str, unit: int) -> None:
    """CPU of the dearest way to answer one question at a cap, the peak of memory, and the question's steps and bytes:
    in a process of its own.
    """
    made = engine(unit)
    plan = parse(f"SELECT COUNT(*) AS n FROM t WHERE {DEAR[what]}", made.catalog()).plan
    taken = []
    for bounded in candidate_bounded_plans(plan, ContributionLimits.from_table(made.sources.policy.tables["t"]), 1):
        start = spent()
        made.read(GroupTotals(bounded, ((),)), 0)
        taken.append(spent() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        max(taken),
        peak,
        costs.max_evaluation_steps(costs.evaluated_expressions(plan)),
        costs.max_evaluation_bytes(costs.evaluated_expressions(plan)),
    )


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def beside_none(what: str) -> None:
    found = []
    for unit in (0, UNIT):
        asked = [sys.executable, __file__, what, str(unit)]
        shown = subprocess.run(asked, check=True, capture_output=True, text=True, env=os.environ).stdout.split()
        found.append((float(shown[0]), float(shown[1])))
    (none, less), (some, more) = found
    each, made = (some - none) / UNIT * 1e6, (more - less) * 1024 / UNIT
    print(f"at the cap of {what}, without the unit: {none:.3f} s, {less:.0f} MiB")
    print(f"with its {UNIT:,} rows: {some:.3f} s, {more:.0f} MiB; {each:.0f} µs and {made:.0f} KiB a row")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        dear(sys.argv[1], int(sys.argv[2]))
    else:
        print(f"caps: {costs.MAX_STEPS:,} steps, {costs.MAX_BYTES:,} bytes for a row; {os.cpu_count()} threads")
        reading(engine(0))
        for each in DEAR:
            beside_none(each)
