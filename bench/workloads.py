"""A workload of a hundred counts beside one scan, in CPU time, and its ε beside the sum of what they cost one by one.

.venv/bin/python bench/workloads.py [--rows 10000000] [--folder somewhere]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from queries import make, policy, show
from timing import cpu_seconds

import sfumato as sf

COUNT = "SELECT COUNT(*) AS n FROM visits"


def questions(count: int) -> list[str]:
    """Counts of a region, of ages, and of both."""
    tests = (
        lambda i: f"region = 'r{i % 50}'",
        lambda i: f"age BETWEEN {i % 50} AND {i % 50 + 30}",
        lambda i: f"region IN ('r{i % 50}', 'r{(i * 7) % 50}') AND age > {i}",
    )
    return [f"{COUNT} WHERE {tests[i % 3](i)}" for i in range(count)]


def times(folder: Path, source: Path, *, users: bool) -> None:
    """One count, and a hundred of them together."""
    with sf.open(policy(folder, source, users=users)) as curator:
        one = curator.sql(f"{COUNT} WHERE region = 'r1' AND age > 30")
        many = curator.workload(questions(100))
        named = "patients" if users else "rows"
        scan = cpu_seconds(lambda: one.release(epsilon=1, fresh=True))
        ours = cpu_seconds(lambda: many.release(epsilon=1, fresh=True))
        show(f"a hundred counts of {named} beside one", ours, scan, 1.5)


def price(folder: Path, source: Path) -> None:
    with sf.open(policy(folder, source, users=True)) as curator:
        many, one = curator.workload(questions(100)), curator.sql(COUNT)
        for each in ("0.005", "0.02", "0.1"):
            width = one.error(epsilon=each)["n"]
            apart, together = many.price(width), many.price(width, delta="1e-6")
            said = f"ε of a hundred counts ±{width:,.0f} at δ = 1e-6: {together:.4g}, one by one {apart:.4g}"
            print(f"{said}: {together / apart:.3f}×  target ≤ 0.3×")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        folder.mkdir(exist_ok=True, parents=True)
        source = make(folder, given.rows)
        times(folder, source, users=False)
        times(folder, source, users=True)
        price(folder, source)


if __name__ == "__main__":
    main()
