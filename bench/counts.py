"""What one count costs beside plain DuckDB: medians of CPU time from one run, with the goals.

.venv/bin/python bench/counts.py [--repeats 5] [--only "held count"]
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import duckdb

import sfumato as sf

COUNT = "SELECT COUNT(*) AS n FROM visits WHERE age > 40"
POLICY = """
[unit]
name = "visit"
budget = {{ epsilon = 1000000, delta = 1e-6 }}

[tables.visits]
source = "{source}"
id = "row"

[tables.visits.columns]
{columns}
"""


@dataclass(frozen=True)
class Case:
    """A call whose CPU time is measured, with its goal in milliseconds."""

    name: str
    call: Callable[[], object]
    goal: float
    calls: int = 10
    """How many calls one measurement spans."""


def make_table(folder: Path, columns: int, rows: int) -> Path:
    """Write a table of this many integer columns, the first of which is ``age``."""
    others = ", ".join(f"(hash(i * {index}) % 100)::INTEGER AS c{index}" for index in range(1, columns))
    path = folder / f"visits{columns}-{rows}.parquet"
    selected = f"(hash(i) % 111)::INTEGER AS age{', ' + others if others else ''}"
    duckdb.connect().execute(f"COPY (SELECT {selected} FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)")
    return path


def write_policy(folder: Path, columns: int, rows: int = 1000) -> Path:
    declared = ["age = { type = 'integer', bounds = [0, 110] }"]
    declared += [f"c{index} = {{ type = 'integer', bounds = [0, 99] }}" for index in range(1, columns)]
    path = folder / f"visits{columns}-{rows}.toml"
    path.write_text(POLICY.format(source=make_table(folder, columns, rows), columns="\n".join(declared)))
    return path


def median_milliseconds(case: Case, repeats: int) -> float:
    """Return the median CPU time of one call in milliseconds, all threads counted."""
    case.call()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(case.calls):
            case.call()
        taken.append((time.process_time() - start) / case.calls * 1e3)
    return statistics.median(taken)


def count_cases(curator: sf.Curator) -> Iterator[Case]:
    """The ways to ask for one count, and what is free."""
    held, bounds = curator.sql(COUNT), count(1)
    buy = partial(held.release, epsilon=1, fresh=True)
    yield Case("held count", buy, 3)
    yield Case("same text", lambda: curator.sql(COUNT).release(epsilon=1, fresh=True), 4)
    yield Case("new text", lambda: curator.sql(f"{COUNT} AND age < {110 + next(bounds)}").release(epsilon=1), 7)
    yield Case("stored answer, held", lambda: held.release(epsilon=1), 0.5)
    yield Case("stored answer, by text", lambda: curator.sql(COUNT).release(epsilon=1), 1.5)
    yield Case("price", lambda: held.price({"n": 20 + next(bounds) / 1000}), 5)
    yield Case("error", lambda: held.error(epsilon=next(bounds) / 1000), 1)
    yield Case("explain", lambda: held.explain(epsilon=next(bounds) / 1000), 2)


def plain_cases(source: Path) -> Iterator[Case]:
    """Plain DuckDB on the same file, and two durable commits."""
    session = duckdb.connect()
    text = COUNT.replace("visits", f"'{source}'")
    yield Case("plain DuckDB: the same count of the file", lambda: session.execute(text).fetchall(), float("inf"))
    session.execute(f"CREATE TABLE visits AS FROM '{source}'")
    yield Case("plain DuckDB: of a table in memory", lambda: session.execute(COUNT).fetchall(), float("inf"))
    yield Case("two bare durable commits", commits(source.parent / "bare.db"), float("inf"))


def commits(path: Path) -> Callable[[], None]:
    """Return a call that commits twice to a bare SQLite file, as durably as a ledger does."""
    session = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE t (x)"):
        session.execute(statement)

    def commit_twice() -> None:
        for _ in range(2):
            session.execute("INSERT INTO t VALUES (1)")

    return commit_twice


def hundred_counts(curator: sf.Curator) -> Iterator[Case]:
    """One count of a large table, and a hundred in one question."""
    counts = ", ".join(f"COUNT_IF(age > {index}) AS n{index}" for index in range(100))
    one, many = curator.sql("SELECT COUNT_IF(age > 40) AS n FROM visits"), curator.sql(f"SELECT {counts} FROM visits")
    yield Case("one COUNT_IF of 2,000,000 rows", partial(one.release, epsilon=1, fresh=True), float("inf"), 1)
    yield Case("a hundred of them in one SELECT", partial(many.release, epsilon=1, fresh=True), float("inf"), 1)


def cold_milliseconds(folder: Path, *arguments: str) -> float:
    """Return the CPU time of a new process in milliseconds, its bytecode compiled by one before it."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    taken = []
    for _ in range(2):
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
        after = os.times()
        taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return taken[-1] * 1e3


def show(name: str, milliseconds: float, goal: float) -> None:
    target = f"goal ≤ {goal:g}" if goal < float("inf") else ""
    print(f"{name:<46}{milliseconds:>10.2f} ms  {target}", flush=True)


def work_of_one_count(curator: sf.Curator) -> tuple[int, int]:
    """Return how many functions of ours, in how many modules, one warm count runs."""
    held, root = curator.sql(COUNT), str(Path(sf.__file__).parent)
    held.release(epsilon=1, fresh=True)
    called = set()

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(root):
            called.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    try:
        held.release(epsilon=1, fresh=True)
    finally:
        sys.setprofile(None)
    return len(called), len({path for path, _ in called})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="only cases whose name has this text")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        folder = Path(spare)
        measure(folder, given.repeats, given.only)


def measure(folder: Path, repeats: int, only: str) -> None:
    def show_case(case: Case) -> float:
        if only not in case.name:
            return float("nan")
        taken = median_milliseconds(case, repeats)
        show(case.name, taken, case.goal)
        return taken

    policy = write_policy(folder, 2)
    with sf.open(policy) as curator:
        for case in (*plain_cases(folder / "visits2-1000.parquet"), *count_cases(curator)):
            show_case(case)
        if not only:
            functions, modules = work_of_one_count(curator)
            print(f"{functions} functions in {modules} modules for one held count; goal ≤ 300 in ≤ 50")
    for columns in (2, 100, 300):
        with sf.open(write_policy(folder, columns, 1001)) as curator:
            buy = partial(curator.sql(COUNT).release, epsilon=1, fresh=True)
            show_case(Case(f"held count, {columns} declared columns", buy, 5))
    with sf.open(write_policy(folder, 3, 2_000_000)) as curator:
        one, many = map(show_case, hundred_counts(curator))
        print(f"a hundred counts beside one: {many / one:.2f} ×; goal ≤ 1.5 ×")
    if not only:
        opening = f"import sfumato as sf; sf.open({str(policy)!r}).close()"
        show("open a curator, cold", cold_milliseconds(folder, "-c", opening), 400)
        asked = ("-m", "sfumato", "query", str(policy), COUNT, "--epsilon", "1")
        show("`sfumato query`, cold", cold_milliseconds(folder, *asked), 600)


if __name__ == "__main__":
    main()
