"""What publishing once buys and takes: errors beside other plans, coverage, time of a release and of a question.

.venv/bin/python bench/publish.py [--full] [--adult adult_encoded.csv]

Errors of a plan follow from the numbers of cells alone; they are those of 20 columns of NIST's excerpts. Without the
encoded Adult table (48,842 rows, UCI) rows with the same numbers of values are made up. The first run is small.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
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
from timing import cpu_seconds, installed

import sfumato as sf
from sfumato.curator import OnlineProposal
from sfumato.policy import Type
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.marginals.estimating import make_consistent
from sfumato.publish.marginals.planning import MarginalWorkload, independent_variances, plan_gaussian

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
    cells = [(*(ListedCell(value) for value in range(size - 1)), OtherCell()) for size in sizes]
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
    own, work = attributes(sizes), MarginalWorkload.ways(len(sizes), 3, fewer=True)
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
    print("  targets ≤ 0.53× and ≤ 0.65×; no linear plan with Gaussian noise has less error than the closed form")


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
    policy = sf.Policy(unit, sf.Budget(1000, "1e-3"), {table.name: table}, allow_large_delta=True)
    return sf.open(policy, ledger=folder / f"{table.name}.ledger")


def conjunctions(frame: pd.DataFrame, count: int, releases: int, folder: Path) -> sf.Synopsis:
    """Conjunctions of one to three columns: mean error as a share of the rows, and coverage."""
    names = list(frame)
    table = sf.Table("people", frame, {name: {"values": list(range(ADULT[name]))} for name in names}, id="row")
    sets = [each for k in (1, 2, 3) for each in itertools.combinations(names, k)]
    # A question is about one, two or three columns as often, and about each of their cells as often: so they count.
    each_cell = [1 / math.comb(len(names), len(own)) / math.prod(ADULT[name] + 1 for name in own) for own in sets]
    with opened(table, folder) as curator:
        wanted = curator.marginals("people", sets, weights=each_cell)
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
        chosen = synopsis.attribute_indices(rng.choice(synopsis.columns, rng.integers(1, 4), replace=False).tolist())
        query = conjunction(rng, [synopsis.attributes[place].size for place in chosen], share)
        error = abs(
            synopsis.estimates.linear_estimate_and_variance(query, chosen)[0] - float((query * exact[chosen]).sum())
        )
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


def sessions(frame: pd.DataFrame, count: int, releases: int, folder: Path) -> None:
    """The same with an online session, of one to six columns, beside the textbook's and noise for each question."""
    names = list(frame)
    table = sf.Table("everyone", frame, {name: {"values": list(range(ADULT[name]))} for name in names}, id="row")
    alone = sf.calibrate(sf.Gaussian, sf.Guarantee(**PRICE)).sigma * math.sqrt(count) * math.sqrt(2 / math.pi)
    print(f"{count:,} conjunctions of 1–6 of {len(names)} columns, {releases} sessions of three ways and 20 rounds")
    print(f"  Gaussian noise for each question: mean error {float(alone) / len(frame):.4f} of the rows")
    with opened(table, folder) as curator:
        for textbook in (False, True):
            proposal = curator.online("everyone", names, ways=3, rounds=20, textbook=textbook)
            for kind, share in (("a value of each column", 0.0), ("half of the values of each", 0.5)):
                errors = np.concatenate(
                    [asked(frame, proposal, count // releases, share, seed) for seed in range(releases)], axis=1
                )
                mean, wide = errors[1].mean() / len(frame), errors[1][errors[0] > 3].mean() / len(frame)
                print(
                    f"  {'textbook' if textbook else 'session'}, {kind}: mean error {mean:.5f}, of 4–6 columns "
                    f"{wide:.5f}, coverage {1 - errors[2].mean():.3f}, {errors[3].mean() * 1e3:.0f} ms a question"
                    + ("" if textbook else "  target ≤ .0010")
                )


def asked(frame: pd.DataFrame, proposal: OnlineProposal, count: int, share: float, seed: int) -> np.ndarray:
    """Columns of each conjunction, its error in rows, whether that is beyond its range, seconds."""
    rng, found, values = np.random.default_rng(seed), [], {name: frame[name].to_numpy() for name in frame}
    with proposal.release(**PRICE) as session:
        for _ in range(count):
            kept, tests = np.ones(len(frame), bool), []
            for name in rng.choice(list(frame), rng.integers(1, 7), replace=False):
                chosen = rng.random(ADULT[name]) < share
                chosen[rng.integers(ADULT[name])] = True
                kept &= chosen[values[name]]
                tests.append(f'"{name}" IN ({", ".join(map(str, np.flatnonzero(chosen)))})')
            start = time.process_time()
            answer = session.sql(f"SELECT COUNT(*) AS n FROM everyone WHERE {' AND '.join(tests)}")
            taken, (low, high) = time.process_time() - start, answer.intervals["n"][0]
            found.append((len(tests), abs(answer.rows[0][0] - kept.sum()), not low <= kept.sum() <= high, taken))
    return np.array(found, np.float64).T


def large(side: int, rows: int, folder: Path) -> None:
    """One histogram of side³ cells beside a bare scan, a bincount and as many draws."""
    rng = np.random.default_rng(3)
    source = folder / "cells.parquet"
    pd.DataFrame({name: rng.integers(0, side - 1, rows) for name in "abc"}).to_parquet(source)
    with multiprocessing.get_context("spawn").Pool(1) as alone:  # a process of its own has a peak of its own
        ours, arrays = alone.apply(released, (side, source, folder))
        theirs = alone.apply(bare, (side, source))
    print(f"{side**3:,} cells of {rows:,} rows released in {ours:.2f} s of CPU")
    print(f"  beside scan, bincount and draws, {theirs:.2f} s: {ours / theirs:.2f}×  target ≤ 2×")
    print(f"  at most {arrays:.1f} arrays of {8 * side**3:,} bytes more than before  target ≤ 6")


def released(side: int, source: Path, folder: Path) -> tuple[float, float]:
    """CPU time of a release, and by how many arrays the memory of this process grew."""
    columns = {name: {"values": list(range(side - 1))} for name in "abc"}
    with opened(sf.Table("cells", source, columns, id="row"), folder) as curator:
        proposal = curator.histogram("cells", list("abc"))
        proposal.error(**PRICE)
        start, before = time.process_time(), memory("VmRSS")
        proposal.release(**PRICE)
        return time.process_time() - start, (memory("VmHWM") - before) / (8 * side**3)


def bare(side: int, source: Path) -> float:
    start = time.process_time()
    read = pd.read_parquet(source)
    codes = (read["a"].to_numpy() * side + read["b"].to_numpy()) * side + read["c"].to_numpy()
    sf.Gaussian(10**6).apply(np.bincount(codes, minlength=side**3).astype(np.int64))
    return time.process_time() - start


def memory(name: str) -> float:
    """Bytes of memory of this process, now (VmRSS) or at most so far (VmHWM); not a number but on Linux."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(name)), math.nan)


def many(rows: int, folder: Path) -> None:
    """All marginals of at most three of NIST's columns as one release: one scan, one batch, one line."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({name: rng.integers(0, size - 1, rows) for name, size in NIST.items()})
    table = sf.Table("many", frame, {name: {"values": list(range(size - 1))} for name, size in NIST.items()}, id="row")
    sets = [list(each) for k in (1, 2, 3) for each in itertools.combinations(NIST, k)]
    with opened(table, folder) as curator:
        start = time.process_time()
        proposal = curator.marginals("many", sets)
        proposal.error(**PRICE)
        planned = time.process_time()
        proposal.release(**PRICE)
        done = time.process_time()
        lines = sum(line.kind == "charge" for line in curator.history())
    print(f"{len(sets):,} marginals of {rows:,} rows in {lines} line of the ledger, CPU")
    print(f"  proposed, planned and priced {planned - start:.2f} s, released {done - planned:.2f} s")


def beside_opendp(frame: pd.DataFrame, folder: Path) -> None:
    """All pairs of columns at one ρ: mean error of a cell, and CPU time."""
    if installed("opendp.extras.mbi") is None or installed("mbi") is None:
        print("OpenDP's mbi.Fixed on the same pairs: opendp[mbi,polars] is not installed")
        return
    rho, names = 0.0165, list(frame)
    pairs = list(itertools.combinations(range(len(names)), 2))
    table = sf.Table("pairs", frame, {name: {"values": list(range(ADULT[name]))} for name in names}, id="row")
    with opened(table, folder) as curator:
        start = time.process_time()
        made = curator.marginals("pairs", 2).release(rho=rho)
        ours = {each: made.estimates.marginal_and_variances(each)[0] for each in pairs}
        taken = time.process_time() - start
    start = time.process_time()
    theirs = opendp_pairs(frame, [(names[one], names[other]) for one, other in pairs], rho)
    beside = time.process_time() - start
    nearest = make_consistent(made.estimates, pairs)
    near = {each: nearest.marginal(each) for each in pairs}
    exact = {each: exact_marginal(frame, made, each) for each in pairs}
    print(f"all {len(pairs)} pairs of {len(names)} columns, ρ = {rho}: mean error of a cell in rows, CPU")
    for name, found in (("unbiased", ours), ("consistent", near)):
        errors = np.concatenate([np.abs(found[each] - exact[each])[:-1, :-1].ravel() for each in pairs])
        print(f"  {name}: {errors.mean():.2f}  {taken:.2f} s")
    errors = np.concatenate(
        [np.abs(their - exact[each][:-1, :-1]).ravel() for each, their in zip(pairs, theirs, strict=True)]
    )
    print(f"  OpenDP mbi.Fixed: {errors.mean():.2f}  {beside:.2f} s")


def opendp_pairs(frame: pd.DataFrame, pairs: list[tuple[str, str]], rho: float) -> list[np.ndarray]:
    import opendp.prelude as dp
    import polars

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=polars.from_pandas(frame).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    fixed = dp.mbi.Fixed(queries=[dp.mbi.Count(each) for each in pairs])
    keys = {name: list(range(ADULT[name])) for name in frame}
    table = context.query().contingency_table(keys=keys, algorithm=fixed).release()
    return [np.asarray(table.project(each))[: ADULT[each[0]], : ADULT[each[1]]] for each in pairs]


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
        many(27_000 if given.full else 5_000, Path(made))
        beside_opendp(people(given.adult), Path(made))
        sessions(people(given.adult), *((20_000, 10) if given.full else (1_000, 2)), Path(made))
        large(*((215, 10_000_000) if given.full else (100, 1_000_000)), Path(made))


if __name__ == "__main__":
    main()
