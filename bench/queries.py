"""Questions on a Parquet file beside the plain DuckDB query: ratios in CPU time, from one run.

.venv/bin/python bench/queries.py [--rows 10000000] [--folder somewhere]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from timing import cpu_seconds, installed

import sfumato as sf

POLICY = """
[unit]
name = "{unit}"
budget = {{ epsilon = 100000, delta = 1e-6 }}

[tables.visits]
source = "{source}"
id = "{id}"
{limits}

[tables.visits.columns]
region = {{ values = [{regions}] }}
age = {{ type = "integer", bounds = [0, 110] }}
cost = {{ type = "real", bounds = [0, 5000], grid = 0.01 }}
"""

GROUPED = "SELECT region, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY region"
COUNTED = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
PER_PERSON = (
    "SELECT AVG(n) AS n, AVG(spent) AS spent FROM "
    "(SELECT person, COUNT(*) AS n, SUM(cost) AS spent FROM visits GROUP BY person) AS t"
)
FIRST = "SELECT person, FIRST(region ORDER BY age) AS region FROM visits GROUP BY person"
NUMBERED = "SELECT cost, ROW_NUMBER() OVER (PARTITION BY person ORDER BY age) AS place FROM visits"
TREES = (
    ("per person: AVG of COUNT, of SUM", PER_PERSON, 2),
    ("per person by the first region", f"SELECT region, COUNT(*) AS n FROM ({FIRST}) AS t GROUP BY region", None),
    ("the first visit of each", f"SELECT COUNT(*) AS n, SUM(cost) AS c FROM ({NUMBERED}) AS t WHERE place = 1", None),
)


def make(folder: Path, rows: int) -> Path:
    """A table of visits: ten for each person on average, fifty regions."""
    path = folder / f"visits-{rows}.parquet"
    if not path.exists():
        duckdb.connect().execute(
            f"""COPY (SELECT (hash(i * 7919) % {rows // 10})::BIGINT AS person,
            'r' || (hash(i * 31 + 1) % 50) AS region,
            (hash(i * 17 + 3) % 111)::INTEGER AS age, ROUND((hash(i * 13 + 5) % 500000) / 100.0, 2) AS cost
            FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
        )
    return path


def policy(folder: Path, source: Path, *, users: bool, most: int = 20) -> Path:
    path = folder / (f"users{most}.toml" if users else "rows.toml")
    limits = f"max_rows = {most}" if users else ""
    path.write_text(
        POLICY.format(
            unit="person" if users else "visit",
            source=source,
            id="person" if users else "row",
            limits=limits,
            regions=", ".join(f'"r{index}"' for index in range(50)),
        )
    )
    for left in folder.glob("*.ledger*"):
        left.unlink()  # one table under several policies: each gets a ledger of its own
    return path


def show(name: str, ours: float, plain: float, target: float | None = None) -> None:
    goal = "" if target is None else f"target ≤ {target:g}×"
    print(f"{name:<52}{ours:>9.3f} s {plain:>9.3f} s {ours / plain:>8.2f}×  {goal}", flush=True)


def asked(curator: sf.Curator, text: str, *, strategy: str | None = None) -> Callable[[], object]:
    question = curator.sql(text)
    if strategy is not None:
        question = question.limit(strategy=strategy)
    return lambda: question.release(epsilon=1, fresh=True)


def large(folder: Path, rows: int, repeats: int, memory: str | None) -> None:
    source = make(folder, rows)
    plain_session = duckdb.connect()
    plain_session.execute("SET threads = 2")

    def plain(text: str) -> float:
        return cpu_seconds(lambda: plain_session.sql(text.replace("visits", f"'{source}'")).fetchall(), repeats)

    print(f"\n{rows:,} rows in {source.stat().st_size / 1e6:.0f} MB of Parquet; CPU seconds, ours, plain, ratio")
    with sf.Curator(policy(folder, source, users=False), memory=memory) as curator:
        show("each row a unit: COUNT by 50 groups", cpu_seconds(asked(curator, COUNTED), repeats), plain(COUNTED), 2)
        show(
            "each row a unit: COUNT, SUM by 50 groups", cpu_seconds(asked(curator, GROUPED), repeats), plain(GROUPED), 2
        )
    for most in (20, 10):  # of ten rows on average: one person in 600 has more than 20, four in ten more than 10
        with sf.Curator(policy(folder, source, users=True, most=most), memory=memory) as curator:
            print(f"each person a unit, of whose rows {most} count:")
            distinct = "SELECT region, COUNT(DISTINCT person) AS n FROM visits GROUP BY region"
            for strategy, target in (("reweight", 10), ("clip-l1", 20), ("clip-l2", 20), ("sample", None)):
                if strategy == "sample" and rows > 20_000_000:
                    continue  # ranks every row of every unit
                price = (
                    {"epsilon": 1, "delta": 1e-7, "mechanism": sf.Gaussian} if strategy == "clip-l2" else {"epsilon": 1}
                )
                question = curator.sql(GROUPED).limit(strategy=strategy)
                ours = cpu_seconds(lambda q=question, p=price: q.release(fresh=True, **p), repeats)
                show(f"  {strategy}: COUNT, SUM by 50 groups", ours, plain(GROUPED), target)
            alone = cpu_seconds(asked(curator, "SELECT COUNT(*) FROM visits"), repeats)
            show("  COUNT, no groups", alone, plain("SELECT COUNT(DISTINCT person) FROM visits"))
            show("  people by 50 groups", cpu_seconds(asked(curator, distinct), repeats), plain(distinct))
            for name, text, target in TREES:
                show(f"  {name}", cpu_seconds(asked(curator, text), repeats), plain(text), target)


def small(folder: Path) -> None:
    """A warm count on a thousand rows, the two commits of the ledger told apart."""
    source = make(folder, 1000)
    with sf.open(policy(folder, source, users=False)) as curator:
        question = curator.sql("SELECT COUNT(*) FROM visits")
        question.release(epsilon=1, fresh=True)
        begin = time.perf_counter()
        for _ in range(50):
            question.release(epsilon=1, fresh=True)
        each = (time.perf_counter() - begin) / 50
        with tempfile.TemporaryDirectory(dir=folder) as spare:
            commit = durable_commit(Path(spare))
        print(
            f"\nwarm count on 1,000 rows: {each * 1e3:.2f} ms, two bare durable commits {2 * commit * 1e3:.2f} ms; "
            "target ≤ 3 ms beside them"
        )


def durable_commit(folder: Path) -> float:
    import sqlite3

    session = sqlite3.connect(folder / "bare.db", isolation_level=None)
    session.execute("PRAGMA journal_mode = WAL")
    session.execute("PRAGMA synchronous = FULL")
    session.execute("CREATE TABLE t (x)")
    begin = time.perf_counter()
    for index in range(100):
        session.execute("INSERT INTO t VALUES (?)", (index,))
    return (time.perf_counter() - begin) / 100


def many_groups(folder: Path) -> None:
    """An answer of 200,000 groups beside the engine's own time for its totals, and the same answer found again."""
    path = folder / "pairs.parquet"
    duckdb.connect().execute(
        f"""COPY (SELECT (hash(i) % 400)::INTEGER AS a, 'r' || (hash(i * 31 + 1) % 500) AS b FROM range(1000000) t(i))
        TO '{path}' (FORMAT parquet)"""
    )
    columns = {
        "a": sf.Domain("integer", bounds=(0, 399)),
        "b": sf.Domain("text", values=[f"r{index}" for index in range(500)]),
    }
    table = sf.Table("pairs", path, columns, id="row")
    made = sf.Policy(sf.PrivacyUnit("pair", every_row=True), sf.Budget(1000), {"pairs": table})
    with sf.Curator(made, folder / "pairs.ledger") as curator:
        question = curator.sql("SELECT a, b, COUNT(*) AS n FROM pairs GROUP BY a, b")
        question.release(epsilon=1, fresh=True)
        plain = f"SELECT a, b, COUNT(*) FROM '{path}' GROUP BY a, b"
        engine = cpu_seconds(lambda: duckdb.sql(plain).to_arrow_table(), 3)
        fresh = cpu_seconds(lambda: question.release(epsilon=1, fresh=True), 3)
        found = cpu_seconds(lambda: question.release(epsilon=1), 3)
    print(
        f"{len(question.groups):,} groups: {fresh:.2f} s, of which the engine's own {engine:.2f} s of CPU; found again "
        f"{found:.2f} s; target ≤ 1 s beyond the engine, and found in as little"
    )


def cold(folder: Path) -> None:
    source = make(folder, 1000)
    path = policy(folder, source, users=False)
    command = [
        shutil.which("sfumato", path=str(Path(sys.executable).parent)) or "sfumato",
        "query",
        str(path),
        COUNTED,
        "--epsilon",
        "1",
    ]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    print(f"cold `sfumato query`: {time.perf_counter() - begin:.2f} s (exit {done.returncode}); target ≤ 1 s")


def peer(folder: Path, rows: int) -> None:
    """OpenDP on the same file, each row a unit, where it is installed."""
    opendp, polars = installed("opendp"), installed("polars")
    if opendp is None or polars is None:
        print("opendp: not installed here")
        return
    import opendp.prelude as dp

    dp.enable_features("contrib")
    source = make(folder, rows)
    context = dp.Context.compositor(
        data=polars.scan_parquet(source),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=100.0),
        split_evenly_over=100,
        margins=[dp.polars.Margin(by=["region"], invariant="keys", max_length=rows)],
    )
    ours = cpu_seconds(lambda: context.query().group_by("region").agg(dp.len()).release().collect(), 1)
    print(f"opendp, each row a unit: COUNT by 50 groups {ours:.3f} s of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--memory", help='what one question may take, such as "4GB"; beyond it works on disk')
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        folder = given.folder or Path(spare)
        folder.mkdir(parents=True, exist_ok=True)
        small(folder)
        cold(folder)
        many_groups(folder)
        large(folder, given.rows, given.repeats, given.memory)
        peer(folder, given.rows)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {most:.2f} GiB of the whole run on {os.cpu_count()} cores; target ≤ 1 GiB")


if __name__ == "__main__":
    main()
