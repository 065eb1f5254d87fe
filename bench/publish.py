"""What publishing once buys and takes: errors beside other plans, coverage, time of a release and of a question.

.venv/bin/python bench/publish.py [--full] [--adult adult_encoded.csv]

Errors of a plan follow from the numbers of cells alone; they are those of 20 columns of NIST's excerpts. Without the
encoded Adult table (48,842 rows, UCI) rows with the same numbers of values are made up. The first run is small.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from timing import cpu_seconds

import sfumato as sf
from sfumato.policy import Type
from sfumato.publish.attributes import Attribute, Listed, Other
from sfumato.publish.planning import Workload, independent_variances, plan_gaussian

NIST = {
    "PUMA": 6,
    "AGEP": 20,
    "SEX": 3,
    "MSP": 8,
    "HISP": 6,
    "RAC1P": 9,
    "NOC": 8,
    "NPF": 9,
    "HOUSING_TYPE": 4,
    "OWN_RENT": 4,
    "DENSITY": 6,
    "INDP_CAT": 21,
    "EDU": 14,
    "PINCP_DECILE": 12,
    "POVPIP": 12,
    "DVET": 8,
    "DREM": 4,
    "DPHY": 4,
    "DEYE": 3,
    "DEAR": 3,
}
"""Cells of each column, with the one for what is missing: AGEP in 5 years, DENSITY in 5 bins, POVPIP in 10."""
ADULT = {"workclass": 9, "education-num": 16, "marital-status": 7, "relationship": 6, "race": 5, "sex": 2}
PRICE = {"epsilon": 1, "delta": "1e-9"}
CELL = "SELECT COUNT(*) AS n FROM people WHERE sex = 1 AND race = 2"
GROUPED = 'SELECT sex, "education-num", COUNT(*) AS n FROM people GROUP BY sex, "education-num"'
OUTSIDE = f"{CELL} AND workclass = 3 AND relationship = 2"


def attributes(sizes: list[int]) -> tuple[Attribute, ...]:
    cells = [(*(Listed(value) for value in range(size - 1)), Other()) for size in sizes]
    return tuple(Attribute(f"c{place}", Type.INTEGER, own) for place, own in enumerate(cells))


def per_cell(variances: list[float], cells: list[int]) -> float:
    """The root of the mean variance of all cells."""
    return math.sqrt(float(np.dot(variances, cells)) / sum(cells))


def after_least_squares(sets: list[tuple[int, ...]], sizes: list[int], variances: list[float]) -> list[float]:
    """Cell variances of marginals with noise of their own once all of them are combined."""
    precision: dict[tuple[int, ...], float] = {}
    for each, variance in zip(sets, variances, strict=True):
        for block in subsets(each):
            rest = math.prod(sizes[place] for place in each if place not in block)
            precision[block] = precision.get(block, 0.0) + 1 / (variance * rest)
    return [sum(factor(each, block, sizes) / precision[block] for block in subsets(each)) for each in sets]


def subsets(places: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return (block for count in range(len(places) + 1) for block in itertools.combinations(places, count))


def factor(places: tuple[int, ...], block: tuple[int, ...], sizes: list[int]) -> float:
    """By how much the variance of a block counts in a cell."""
    return math.prod((1 - 1 / sizes[place]) if place in block else sizes[place] ** -2 for place in places)


def closed_form(sets: list[tuple[int, ...]], sizes: list[int]) -> float:
    """The least sum of variances at 2ρ = 1: (Σ√(v_B p_B))²."""
    counts: dict[tuple[int, ...], float] = {}
    for each in sets:
        cells = math.prod(sizes[place] for place in each)
        for block in subsets(each):
            counts[block] = counts.get(block, 0.0) + cells * factor(each, block, sizes)
    own = (v * math.prod(1 - 1 / sizes[place] for place in block) for block, v in counts.items())
    return sum(math.sqrt(each) for each in own) ** 2


def plans(sizes: list[int]) -> None:
    """All marginals of at most three of 20 columns: four other plans at one price."""
    own, work = attributes(sizes), Workload.ways(len(sizes), 3, fewer=True)
    sets, cells = list(work.sets), [math.prod(sizes[place] for place in each) for each in work.sets]
    taken = cpu_seconds(lambda: plan_gaussian(work, own), repeats=2)
    plan = plan_gaussian(work, own)
    ours = [float(plan.cell_variances(each).reshape(-1)[0]) for each in sets]
    equal = [float(len(sets))] * len(sets)
    best = independent_variances(work, own, 1, "0.5", "total").tolist()
    bound = math.sqrt(closed_form(sets, sizes) / sum(cells))
    error = per_cell(ours, cells)
    print(f"{len(sets):,} marginals of {len(sizes)} columns, {sum(cells):,} cells, {len(plan.blocks):,} blocks; 2ρ = 1")
    print(f"  planned in {taken:.2f} s of CPU  target ≤ 1 s")
    print(f"  error per cell {error:.4f}; the closed form {bound:.4f}: {error / bound - 1:+.1e}")
    for name, others in (("equal noise", equal), ("the best noise", best)):
        alone, combined = per_cell(others, cells), per_cell(after_least_squares(sets, sizes, others), cells)
        print(f"  beside {name} for each marginal: {error / alone:.3f}×, after least squares {error / combined:.3f}×")
    print("  targets ≤ 0.53× and ≤ 0.65×")


def people(source: Path | None) -> pd.DataFrame:
    """Six columns of Adult, or as many rows with the same numbers of values, each depending on the one before."""
    if source is not None:
        return pd.read_csv(source)[list(ADULT)]
    rng = np.random.default_rng(7)
    found: dict[str, np.ndarray] = {}
    last = np.zeros(48_842, np.int64)
    for name, size in ADULT.items():
        last = (last + rng.geometric(0.4, last.size) - 1) % size
        found[name] = last
    return pd.DataFrame(found)


def opened(table: sf.Table, folder: Path) -> sf.Curator:
    unit = sf.PrivacyUnit("person", every_row=True)
    policy = sf.Policy(unit, sf.Budget(1000, "1e-3"), {table.name: table})
    return sf.open(policy, ledger=folder / f"{table.name}.ledger")


def conjunctions(frame: pd.DataFrame, count: int, releases: int, folder: Path) -> sf.Synopsis:
    """Conjunctions of one to three columns: mean error as a share of the rows, and coverage."""
    names = list(frame)
    table = sf.Table("people", frame, {name: {"values": list(range(ADULT[name]))} for name in names}, id="row")
    with opened(table, folder) as curator:
        wanted = curator.marginals("people", 3)
        made = [wanted.release(**PRICE, fresh=True) for _ in range(releases)]
    print(f"{count:,} conjunctions of 1–3 of {len(names)} columns, ε = 1, δ = 1e-9, {releases} releases of three ways")
    for kind, share in (("a value of each column", 0.0), ("half of the values of each", 0.5)):
        errors = np.concatenate([missed(frame, each, count // releases, share) for each in made], axis=1)
        mean, coverage = errors[0].mean() / len(frame), 1 - errors[1].mean()
        print(f"  {kind}: mean error {mean:.5f} of the rows, coverage {coverage:.3f}  targets ≤ .0008, .94–.96")
    return made[-1]


def missed(frame: pd.DataFrame, synopsis: sf.Synopsis, count: int, share: float) -> np.ndarray:
    """Errors of conjunctions in rows, and whether they are beyond their ranges."""
    rng = np.random.default_rng(11)
    every = [each for k in (1, 2, 3) for each in itertools.combinations(range(len(synopsis.columns)), k)]
    exact = {each: exact_marginal(frame, synopsis, each) for each in every}
    found = []
    for _ in range(count):
        chosen = synopsis.places(rng.choice(synopsis.columns, rng.integers(1, 4), replace=False).tolist())
        query = conjunction(rng, [synopsis.attributes[place].size for place in chosen], share)
        error = abs(synopsis.estimates.linear(query, chosen)[0] - float((query * exact[chosen]).sum()))
        found.append((error, error > synopsis.estimates.half_width(query, chosen, 0.05)))
    return np.array(found, np.float64).T


def conjunction(rng: np.random.Generator, sizes: list[int], share: float) -> np.ndarray:
    query = np.ones((1,) * len(sizes))
    for axis, size in enumerate(sizes):
        own = rng.random(size) < share
        own[rng.integers(size - 1)], own[-1] = True, False
        query = query * own.reshape([-1 if each == axis else 1 for each in range(len(sizes))])
    return query


def exact_marginal(frame: pd.DataFrame, synopsis: sf.Synopsis, places: tuple[int, ...]) -> np.ndarray:
    sizes = [synopsis.attributes[place].size for place in places]
    codes = np.ravel_multi_index([frame[synopsis.columns[place]].to_numpy() for place in places], sizes)
    return np.bincount(codes, minlength=math.prod(sizes)).reshape(sizes)


def large(side: int, rows: int, folder: Path) -> None:
    """One histogram of side³ cells beside a bare scan, a bincount and as many draws."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({name: rng.integers(0, side - 1, rows) for name in "abc"})
    source = folder / "cells.parquet"
    frame.to_parquet(source)
    columns = {name: {"values": list(range(side - 1))} for name in "abc"}
    table = sf.Table("cells", source, columns, id="row")
    noise = sf.Gaussian(10**6)

    def bare() -> None:
        read = pd.read_parquet(source)
        codes = (read["a"].to_numpy() * side + read["b"].to_numpy()) * side + read["c"].to_numpy()
        noise.apply(np.bincount(codes, minlength=side**3).astype(np.int64))

    with opened(table, folder) as curator:
        proposal = curator.histogram("cells", list("abc"))
        start = time.process_time()
        proposal.release(**PRICE)
        ours = time.process_time() - start
    theirs = cpu_seconds(bare, repeats=1)
    print(f"{side**3:,} cells of {rows:,} rows released in {ours:.2f} s of CPU")
    print(f"  beside scan, bincount and draws, {theirs:.2f} s: {ours / theirs:.2f}×  target ≤ 2×")


def asking(synopsis: sf.Synopsis, folder: Path) -> None:
    file = folder / "people.sfu"
    synopsis.save(file)
    read = sf.synopsis(file)
    print(f"questions to a file of {file.stat().st_size:,} bytes, CPU")
    for name, question in (("one cell", CELL), ("32 groups", GROUPED), ("outside: bounded", OUTSIDE)):
        print(f"  {name}: warm {cpu_seconds(lambda asked=question: read.sql(asked)) * 1e3:.1f} ms  target ≤ 5 ms")
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", "ask", str(file), CELL]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")  # as an installed package has it: compiled beforehand
    subprocess.run(command, check=True, capture_output=True, env=own)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=own)
    taken, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  sfumato ask, cold: {cpu:.2f} s of CPU, {taken:.2f} s by the clock  target ≤ 0.5 s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="20,000 conjunctions and 1e7 cells")
    parser.add_argument("--adult", type=Path, help="the encoded Adult table (CSV)")
    given = parser.parse_args()
    print("NIST's columns, each with a cell for what is missing")
    plans(list(NIST.values()))
    print("the same without that cell")
    plans([size - 1 for size in NIST.values()])
    with tempfile.TemporaryDirectory() as made:
        synopsis = conjunctions(people(given.adult), *((20_000, 10) if given.full else (2_000, 2)), Path(made))
        asking(synopsis, Path(made))
        large(*((215, 10_000_000) if given.full else (100, 1_000_000)), Path(made))


if __name__ == "__main__":
    main()
