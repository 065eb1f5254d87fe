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
city = {{ type = "text" }}
age = {{ type = "integer", bounds = [0, 110] }}
cost = {{ type = "real", bounds = [0, 5000], grid = 0.01 }}
"""
JOINED = """
[tables.people]
source = "{people}"
id = "person"
max_rows = 1

[tables.people.columns]
band = {{ values = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"] }}

[tables.bills]
source = "{bills}"
id = "person"
max_rows = 10

[tables.bills.columns]
kind = {{ values = ["k0", "k1", "k2", "k3", "k4"] }}
"""
"""Two more tables of the same people: one row each, and five on average."""

GROUPED = "SELECT region, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY region"
MEANS = "SELECT region, COUNT(*) AS n, SUM(cost) AS cost, AVG(cost) AS mean FROM visits GROUP BY region"
COUNTED = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
CITIES = "SELECT city, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY city"
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
JOINS = (
    ("visits JOIN people, one row each", "people", "band"),
    ("visits JOIN bills, five rows each", "bills", "kind"),
)


EVEN = "(hash(i * 7919) % {people})::BIGINT"
"""Ten rows for each person on average, and not many more for anyone."""
ZIPF = "floor(exp((hash(i * 7919) % 1000000007) / 1000000007.0 * ln({people})))::BIGINT"
"""As many rows as one over the person's place: half of all belong to one person in a thousand."""


def make(folder: Path, rows: int, person: str = EVEN) -> Path:
    """A table of visits: ten for each person on average, fifty regions, two thousand cities."""
    path = folder / f"visits-of-cities-{'zipf-' if person == ZIPF else ''}{rows}.parquet"
    if not path.exists():
        duckdb.connect().execute(
            f"""COPY (SELECT {person.format(people=rows // 10)} AS person,
            'r' || (hash(i * 31 + 1) % 50) AS region, 'city' || (hash(i * 101 + 7) % 2000) AS city,
            (hash(i * 17 + 3) % 111)::INTEGER AS age, ROUND((hash(i * 13 + 5) % 500000) / 100.0, 2) AS cost
            FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
        )
    return path


def make_joined(folder: Path, rows: int) -> dict[str, Path]:
    """The tables that visits are joined with."""
    made = {
        "people": f"SELECT i AS person, 'b' || (hash(i * 3 + 1) % 8) AS band FROM range({rows // 10}) t(i)",
        "bills": f"SELECT (hash(i * 77 + 5) % {rows // 10})::BIGINT AS person, 'k' || (hash(i * 3 + 1) % 5) AS kind "
        f"FROM range({rows // 2}) t(i)",
    }
    paths = {name: folder / f"{name}-{rows}.parquet" for name in made}
    for name, path in paths.items():
        if not path.exists():
            duckdb.connect().execute(f"COPY ({made[name]}) TO '{path}' (FORMAT parquet)")
    return paths


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
        # one table under several policies: each gets a ledger of its own
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return path


def show(name: str, ours: float, plain: float, target: float | None = None) -> None:
    goal = "" if target is None else f"target ≤ {target:g}×"
    print(f"{name:<52}{ours:>9.3f} s {plain:>9.3f} s {ours / plain:>8.2f}×  {goal}", flush=True)


def asked(curator: sf.Curator, text: str, *, strategy: str | None = None, delta: float = 0) -> Callable[[], object]:
    question = curator.sql(text)
    if strategy is not None:
        question = question.limit(strategy=strategy)
    return lambda: question.release(epsilon=1, delta=delta, fresh=True)


def large(folder: Path, rows: int, repeats: int, memory: str | None) -> None:
    source = make(folder, rows)
    print(f"\n{rows:,} rows in {source.stat().st_size / 1e6:.0f} MB of Parquet; CPU seconds, ours, plain, ratio")
    plain = beside(source, repeats)
    with sf.Curator(policy(folder, source, users=False), memory=memory) as curator:
        for name, text in (("COUNT", COUNTED), ("COUNT, SUM", GROUPED), ("COUNT, SUM, AVG", MEANS)):
            ours = cpu_seconds(asked(curator, text), repeats)
            show(f"each row a unit: {name} by 50 groups", ours, plain(text), 2)
        found = cpu_seconds(asked(curator, CITIES, delta=1e-11), repeats)
        show("each row a unit: COUNT, SUM by 2000 unknown groups", found, plain(CITIES))
    for most in (20, 10):  # of ten rows on average: one person in 600 has more than 20, four in ten more than 10
        print(f"each person a unit, of whose rows {most} count:")
        limited(folder, source, most, repeats, memory)
    print("each person a unit, private tables joined on the person:")
    joined(folder, source, rows, repeats, memory)
    print("each person a unit, of whose rows 10 count, rows per person by Zipf's law:")
    limited(folder, make(folder, rows, ZIPF), 10, repeats, memory)


def beside(source: Path, repeats: int) -> Callable[[str], float]:
    """The CPU time of the plain query, in a session of its own."""
    session = duckdb.connect()
    session.execute("SET threads = 2")
    return lambda text: cpu_seconds(lambda: session.sql(text.replace("visits", f"'{source}'")).fetchall(), repeats)


def limited(folder: Path, source: Path, most: int, repeats: int, memory: str | None) -> None:
    """Every way to limit what a person contributes."""
    plain = beside(source, repeats)
    with sf.Curator(policy(folder, source, users=True, most=most), memory=memory) as curator:
        distinct = "SELECT region, COUNT(DISTINCT person) AS n FROM visits GROUP BY region"
        for strategy, target in (("reweight", 10), ("clip-l1", 20), ("clip-l2", 20), ("sample", 20)):
            price = {"epsilon": 1, "delta": 1e-7, "mechanism": sf.Gaussian} if strategy == "clip-l2" else {"epsilon": 1}
            question = curator.sql(GROUPED).limit(strategy=strategy)
            ours = cpu_seconds(lambda q=question, p=price: q.release(fresh=True, **p), repeats)
            show(f"  {strategy}: COUNT, SUM by 50 groups", ours, plain(GROUPED), target)
        alone = cpu_seconds(asked(curator, "SELECT COUNT(*) FROM visits"), repeats)
        show("  COUNT, no groups", alone, plain("SELECT COUNT(DISTINCT person) FROM visits"))
        show("  people by 50 groups", cpu_seconds(asked(curator, distinct), repeats), plain(distinct))
        if most == 20:
            found = cpu_seconds(asked(curator, CITIES, delta=1e-11), repeats)
            show("  COUNT, SUM by 2000 unknown groups", found, plain(CITIES), 20)
        for name, text, target in TREES:
            show(f"  {name}", cpu_seconds(asked(curator, text), repeats), plain(text), target)


def joined(folder: Path, source: Path, rows: int, repeats: int, memory: str | None) -> None:
    """Private tables beside each other, each cut to its own limit, beside the plain join."""
    paths = make_joined(folder, rows)
    written = policy(folder, source, users=True)
    written.write_text(written.read_text() + JOINED.format(**paths))
    session = duckdb.connect()
    session.execute("SET threads = 2")
    with sf.Curator(written, memory=memory) as curator:
        for name, table, key in JOINS:
            made = (
                "SELECT {}, COUNT(*) AS n, SUM(cost) AS c FROM {} AS v JOIN {} AS j ON v.person = j.person GROUP BY 1"
            )
            plain = made.format(key, f"'{source}'", f"'{paths[table]}'")
            theirs = cpu_seconds(lambda text=plain: session.sql(text).fetchall(), repeats)
            ours = cpu_seconds(asked(curator, made.format(key, "visits", table)), repeats)
            show(f"  {name}: COUNT, SUM by group", ours, theirs, 3)


def small(folder: Path) -> None:
    """A warm count on a thousand rows, the two commits of the ledger told apart; and one by groups, in CPU time."""
    source = make(folder, 1000)
    with sf.open(policy(folder, source, users=False)) as curator:
        grouped = cpu_seconds(asked(curator, COUNTED), 50)
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
        print(f"warm count by 50 groups on 1,000 rows: {grouped * 1e3:.2f} ms of CPU; target ≤ 10 ms")


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
