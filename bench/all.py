"""Every figure that must not creep up, in one run: medians of CPU time, beside the last committed run, with growth.

.venv/bin/python bench/all.py [--small] [--peers] [--write] [--repeats 5]

Each line is the median CPU time of a few calls, all threads counted, so that a busy machine blurs it and does not
shift it; the load is printed. ``--small`` leaves out what reads millions of rows. ``--write`` makes this run the one
that later runs are compared with (bench/all.json). What takes a quarter longer than there is marked. The growth of a
figure with a size is the slope of its logarithm; none is above 1.1, and none grows with the length of the ledger.
``--peers`` adds plain DuckDB and OpenDP over the same rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import counts
import numpy as np
import queries
from counts import Case, median_milliseconds

import ledger
import sfumato as sf

LAST = Path(__file__).with_suffix(".json")
WORSE = 1.25
STEEPEST = 1.1
Growth = tuple[str, int, float]
"""What grows, its size, and the milliseconds it takes."""


def small_cases(folder: Path) -> Iterator[Case]:
    """Questions about a small table, and noise."""
    with sf.open(counts.write_policy(folder, 2)) as curator:
        yield from counts.count_cases(curator)
    zeros = np.zeros(1_000_000, np.int64)
    for noise in (sf.Laplace(10), sf.Laplace(1000), sf.Gaussian(10), sf.Gaussian(1000)):
        yield Case(f"a million draws of {noise!r}", partial(noise.apply, zeros), math.inf, 1)
        yield Case(f"one draw of {noise!r}", partial(noise.apply, 0), math.inf, 1_000)


def large_cases(folder: Path, rows: int) -> Iterator[Case]:
    """Questions about many rows: units that are rows, and people of whom four in ten exceed their limit."""
    source = queries.make(folder, rows)
    with sf.Curator(queries.policy(folder, source, users=False)) as curator:
        yield Case(f"{rows:,} rows as units by 50 groups", queries.asked(curator, queries.COUNTED), math.inf, 1)
        found = queries.asked(curator, queries.CITIES, delta=1e-11)
        yield Case(f"{rows:,} rows by 2,000 found groups", found, math.inf, 1)
    with sf.Curator(queries.policy(folder, source, users=True, most=10)) as curator:
        for strategy in ("reweight", "clip-l1", "clip-l2", "sample"):
            call = queries.asked(curator, queries.GROUPED, strategy=strategy)
            yield Case(f"{rows:,} rows of people, {strategy}", call, math.inf, 1)
        yield Case(f"{rows:,} rows, per person", queries.asked(curator, queries.PER_PERSON), math.inf, 1)


def growth_in_columns(folder: Path, repeats: int) -> Iterator[Growth]:
    """A held count of a table with so many declared columns, of which it reads one."""
    for columns in (5, 20, 100):
        with sf.open(counts.write_policy(folder, columns, 1001)) as curator:
            call = partial(curator.sql(counts.COUNT).release, epsilon=1, fresh=True)
            yield "a held count with columns", columns, median_milliseconds(Case("", call, math.inf), repeats)


def growth_in_groups(folder: Path, repeats: int) -> Iterator[Growth]:
    """A count by so many declared groups of a small table."""
    for groups in (1_000, 10_000, 100_000):
        domain = sf.Domain("integer", bounds=(1, groups))
        table = sf.Table("t", counts.make_table(folder, 1, 1000), {"age": domain}, id="row")
        policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(10**6), {"t": table})
        with sf.Curator(policy, folder / f"groups{groups}.ledger") as curator:
            held = curator.sql("SELECT age, COUNT(*) AS n FROM t GROUP BY age")
            case = Case("", partial(held.release, epsilon=1, fresh=True), math.inf, 1)
            yield "a count by groups", groups, median_milliseconds(case, repeats)


def growth_in_lines(folder: Path, repeats: int) -> Iterator[Growth]:
    """A durable charge in a ledger of so many lines, and verifying them."""
    with sf.Ledger.open(folder / "growing.db") as opened:
        account = opened.account("clinic", unit=sf.PrivacyUnit("patient"), budget=sf.Budget(10**6, "1e-6"))
        done = 0
        for lines in (1_000, 10_000, 100_000):
            ledger.lengthen(opened, account, lines - done)
            done = lines
            case = Case("", partial(account.charge, ledger.ENTRY), math.inf, 50)
            yield "a durable charge, by lines of the ledger", lines, median_milliseconds(case, repeats)
            start = ledger.cpu_seconds()
            opened.verify()
            yield "verifying a ledger", lines, (ledger.cpu_seconds() - start) * 1e3


def growth_in_rows(folder: Path, repeats: int) -> Iterator[Growth]:
    """One count of people, of whose rows ten count, of so many rows."""
    for rows in (1_000_000, 3_000_000, 10_000_000):
        policy = queries.policy(folder, queries.make(folder, rows), users=True, most=10)
        with sf.Curator(policy) as curator:
            for strategy in ("reweight", "clip-l1", "sample"):
                case = Case("", queries.asked(curator, queries.GROUPED, strategy=strategy), math.inf, 1)
                yield f"people's rows, {strategy}", rows, median_milliseconds(case, min(repeats, 3))


def growth_in_analysts(folder: Path, repeats: int) -> Iterator[Growth]:
    """The wall time of a hundred releases of one curator, by so many threads at once."""
    del repeats
    with sf.open(counts.write_policy(folder, 2, 1002)) as curator:
        held, bounds = curator.sql(counts.COUNT), count(1)
        held.release(epsilon=1, fresh=True)
        for threads in (1, 4, 16):
            with ThreadPoolExecutor(threads) as pool:
                start = time.perf_counter()
                list(pool.map(lambda _: held.release(epsilon=1, fresh=True), range(100)))
                yield "a hundred releases, by threads (wall)", threads, (time.perf_counter() - start) * 1e3
                start = time.perf_counter()
                list(pool.map(lambda _: held.price({"n": 20 + next(bounds) / 1000}), range(100)))
                yield "a hundred prices, by threads (wall)", threads, (time.perf_counter() - start) * 1e3


def exponent(sizes: list[int], times: list[float]) -> float:
    """Return the slope of log(time) over log(size), by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def show(name: str, milliseconds: float, last: dict[str, float], goal: float = math.inf) -> None:
    before = last.get(name)
    beside = "" if before is None else f"{milliseconds / before:>6.2f} × the last run"
    mark = "  WORSE" if before is not None and milliseconds > WORSE * before else ""
    target = f"  goal ≤ {goal:g} ms" if goal < math.inf else ""
    print(f"{name:<52}{milliseconds:>12.3f} ms {beside}{mark}{target}", flush=True)


def measure(folder: Path, given: argparse.Namespace, last: dict[str, float]) -> dict[str, float]:
    """Measure every case and every growth, and print each as it is known."""
    figures: dict[str, float] = {}
    cases = [small_cases(folder)] if given.small else [small_cases(folder), large_cases(folder, 2_000_000)]
    for case in (case for group in cases for case in group):
        figures[case.name] = median_milliseconds(case, given.repeats)
        show(case.name, figures[case.name], last, case.goal)
    series: list[Callable[[Path, int], Iterator[Growth]]] = [growth_in_columns, growth_in_groups, growth_in_lines]
    series += [] if given.small else [growth_in_rows, growth_in_analysts]
    for growing in series:
        print_growth(list(growing(folder, given.repeats)), figures, last)
    return figures


def print_growth(points: list[Growth], figures: dict[str, float], last: dict[str, float]) -> None:
    for name in dict.fromkeys(name for name, _, _ in points):
        own = [(size, taken) for other, size, taken in points if other == name]
        for size, taken in own:
            figures[f"{name}: {size:,}"] = taken
            show(f"{name}: {size:,}", taken, last)
        slope = exponent([size for size, _ in own], [taken for _, taken in own])
        print(f"{name:<52}{'':>4}grows as size^{slope:.2f}{'  STEEP' if slope > STEEPEST else ''}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="leave out what reads millions of rows")
    parser.add_argument("--peers", action="store_true", help="add plain DuckDB and OpenDP over the same rows")
    parser.add_argument("--write", action="store_true", help="let later runs be compared with this one")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    last = json.loads(LAST.read_text())["milliseconds"] if LAST.exists() else {}
    load = os.getloadavg()[0]
    print(f"CPU time, medians of {given.repeats}; load {load:.1f} on {os.cpu_count()} cores at the start")
    with tempfile.TemporaryDirectory() as spare:
        figures = measure(Path(spare), given, last)
        if given.peers:
            queries.peer(Path(spare), 2_000_000)
    if given.write:
        rounded = {name: float(f"{milliseconds:.4g}") for name, milliseconds in sorted(figures.items())}
        written = {"load": round(load, 1), "cores": os.cpu_count(), "milliseconds": {**last, **rounded}}
        LAST.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    ratios = [figures[name] / last[name] for name in figures if name in last]
    if ratios:
        print(f"{len(ratios)} figures are {statistics.median(ratios):.2f} × the last run's, in the median")


if __name__ == "__main__":
    main()
