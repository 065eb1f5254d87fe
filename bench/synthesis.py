"""How near synthetic tables come, and what they take: total variation of all 3-way marginals, CPU seconds, memory.

.venv/bin/python bench/synthesis.py [--adult FOLDER] [--nist national2019.csv] [--repeat 5] [--methods aim,mst]

ADULT is the encoded table of 14 columns (48,842 rows, UCI) with its domain; NIST's excerpt has 27,253 rows and, with
ages, densities and incomes in bins, 20 columns. δ = 1e-9. The error is that of the model, before rows are drawn, over
all sets of three columns with at most 10,000 cells. Every run draws fresh noise; one line is a mean with its deviation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import sfumato as sf
from sfumato.publish.synthetic import Synthetic

MOST_CELLS = 10_000
PRICES = {"adult": ("0.1", "1", "10"), "nist": ("1",)}
GOALS = {("adult", "0.1"): 0.150, ("adult", "1"): 0.0622, ("adult", "10"): 0.036, ("nist", "1"): 0.079}


def adult(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    domain = json.loads((folder / "adult_encoded_domain.json").read_text())
    return pd.read_csv(folder / "adult_encoded.csv")[list(domain)], domain


def nist(path: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    """Code the excerpt: ages by 5 years, densities in 9 bins, incomes by 50 points of the poverty line."""
    raw = pd.read_csv(path, dtype=str)
    found = {}
    for name in raw.columns:
        if name in ("INDP", "PINCP", "PWGTP", "WGTP"):
            continue
        texts = raw[name].fillna("N")
        if name == "AGEP":
            texts = (pd.to_numeric(texts) // 5).clip(0, 19).astype(int).astype(str)
        elif name == "DENSITY":
            ends = [-1, 150, 500, 1000, 2000, 3000, 5000, 8000, 15000, 1e9]
            texts = pd.cut(pd.to_numeric(texts), ends, labels=False).astype(str)
        elif name == "POVPIP":
            texts = texts.map(lambda each: each if each in ("N", "501") else str(int(float(each)) // 50))
        elif name in ("NOC", "NPF"):
            texts = texts.map(lambda each: each if each == "N" else str(min(int(float(each)), 8)))
        found[name] = texts.astype("category").cat.codes
    rows = pd.DataFrame(found)
    return rows, {name: int(rows[name].max()) + 1 for name in rows}


def sets_of(domain: dict[str, int], count: int = 3) -> list[tuple[str, ...]]:
    chosen = itertools.combinations(domain, count)
    return [each for each in chosen if math.prod(domain[name] for name in each) <= MOST_CELLS]


def model_error(found: Synthetic, rows: pd.DataFrame, sets: list[tuple[str, ...]]) -> float:
    """The mean total variation between the table's marginals and the model's."""
    model, sizes_of = found.model, found.model.sizes
    names = list(found.columns)
    places = [tuple(sorted(names.index(name) for name in each)) for each in sets]
    errors = []
    for each, predicted in zip(places, model.marginals(places), strict=True):
        sizes = [sizes_of[place] for place in each]
        flat = np.ravel_multi_index([rows[names[place]].to_numpy() for place in each], sizes)
        truth = np.bincount(flat, minlength=math.prod(sizes)) / len(rows)
        errors.append(0.5 * np.abs(truth - predicted.ravel() / predicted.sum()).sum())
    return float(np.mean(errors))


def run(data: str, path: str, method: str, epsilon: str) -> dict[str, Any]:
    """One release in this process."""
    rows, domain = adult(Path(path)) if data == "adult" else nist(Path(path))
    columns = {name: {"type": "integer", "values": list(range(size))} for name, size in domain.items()}
    table = sf.Table("people", pa.Table.from_pandas(rows.astype("int64")), columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(100, "1e-6"), {"people": table})
    sets = sets_of(domain)
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu, wall = time.process_time(), time.time()
        proposal = curator.synthesize("people", method, [list(each) for each in sets])
        found = proposal.release(epsilon=epsilon, delta="1e-9")
        taken = time.process_time() - cpu, time.time() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = model_error(found, rows, sets)
    return {"error": error, "cpu": taken[0], "wall": taken[1], "mb": peak / 1024, "more_mb": (peak - before) / 1024} | {
        "rounds": len(found.rounds)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", help="the folder with adult_encoded.csv and its domain")
    parser.add_argument("--nist", help="national2019.csv")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--methods", default="aim,mst,mwem,independent")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(*given.one)))
        return
    for data in ("adult", "nist"):
        path = getattr(given, data)
        for epsilon, method in itertools.product(PRICES[data] if path else (), given.methods.split(",")):
            found = [_apart(data, path, method, epsilon) for _ in range(given.repeat)]
            mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
            spread = float(np.std([each["error"] for each in found]))
            goal = GOALS.get((data, epsilon)) if method == "aim" else None
            print(
                f"{data:6} ε = {epsilon:4} {method:12} error {mean['error']:.4f} ±{spread:.4f}"
                f"{f' (goal {goal})' if goal else ''}  {mean['cpu']:.1f} CPU-s  {mean['rounds']:.0f} measured  "
                f"{mean['mb']:.0f} MB, {mean['more_mb']:.0f} of it for the release",
                flush=True,
            )


def _apart(*one: str) -> dict[str, Any]:
    """Each run has a process of its own, so that its memory is its own."""
    own = [sys.executable, "-W", "ignore", __file__, "--one", *one]
    found: dict[str, Any] = json.loads(subprocess.run(own, check=True, capture_output=True, text=True).stdout)
    return found


if __name__ == "__main__":
    main()
