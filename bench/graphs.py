"""Fitting graphical models: time and memory beside the bare cost of touching the cliques, from one run.

.venv/bin/python bench/graphs.py [--observations 40] [--cells 1000000]

Random sets of three of Adult's columns (a cell for what is missing in each) are observed as long as the model stays
within the cells; then it is fitted at once, and once more with one observation added to what was fitted.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import time

import numpy as np
from timing import cpu_seconds

from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.graph.trees import JunctionTree, predicted_bytes, predicted_cells

SIZES = (86, 10, 101, 17, 17, 8, 16, 7, 6, 3, 101, 101, 100, 43, 3)
ROWS, DEVIATION = 48_842, 40.0


def chosen(count: int, cells: int) -> list[tuple[int, ...]]:
    """All single columns, and random threes as long as their tree is small enough."""
    draw = np.random.default_rng(0)
    threes = list(itertools.combinations(range(len(SIZES)), 3))
    sets: list[tuple[int, ...]] = [(place,) for place in range(len(SIZES))]
    for at in draw.permutation(len(threes)):
        if len(sets) < len(SIZES) + count and predicted_cells([*sets, threes[at]], SIZES) <= cells:
            sets.append(threes[at])
    return sets


def observed(sets: list[tuple[int, ...]]) -> list[Observation]:
    """Skewed counts that are nearly independent, with noise."""
    draw = np.random.default_rng(1)
    ones = [draw.dirichlet(1 / (1 + np.arange(size)) + 0.01) for size in SIZES]
    found = []
    for each in sets:
        counts = ROWS * np.array(1.0)
        for place in each:
            counts = np.multiply.outer(counts, ones[place])
        found.append(Observation(each, counts + draw.normal(size=counts.shape) * DEVIATION, DEVIATION))
    return found


def touched(cells: list[int]) -> float:
    """Seconds for reading and writing every cell of every clique once."""
    tables = [np.ones(each) for each in cells]
    return cpu_seconds(lambda: [np.multiply(each, 1.0, out=each) for each in tables])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--observations", type=int, default=40)
    parser.add_argument("--cells", type=int, default=1_000_000)
    given = parser.parse_args()
    sets = chosen(given.observations, given.cells)
    tree = JunctionTree.for_sets(sets, SIZES)
    own = [math.prod(SIZES[place] for place in clique) for clique in tree.cliques]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    observations = observed(sets)
    bare = touched(own)
    print(f"{len(sets) - len(SIZES)} sets of three, {len(own)} cliques, {sum(own):,} cells, the largest {max(own):,}")
    print(f"  every cell touched once: {bare * 1e3:.1f} ms of CPU")
    models: list[GraphicalModel] = []
    for name, seen, start in (("all but one", observations[:-1], None), ("the last one added", observations, 0)):
        begun = time.process_time()
        models.append(fit_model(seen, SIZES, ROWS, start=None if start is None else models[start]))
        taken = time.process_time() - begun
        print(f"  {name}: fitted in {taken:.2f} s of CPU, {taken / bare:,.0f} times touching every cell")
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"  memory: {more:.0f} MiB more than at first; predicted {predicted_bytes(sets, SIZES) / 2**20:.0f} MiB")
    threes = list(itertools.combinations(range(len(SIZES)), 3))
    small = [each for each in threes if math.prod(SIZES[place] for place in each) <= 10_000]
    for name, asked in ((f"{len(small)} marginals of at most 10,000 cells", small), ("all of three", threes)):
        print(f"  {name}: {cpu_seconds(lambda asked=asked: models[-1].marginals(asked), 1):.2f} s of CPU")
    predicting = cpu_seconds(lambda: [predicted_cells([*sets, each], SIZES) for each in threes], 1) / len(threes)
    print(f"  predicted sizes: {predicting * 1e6:.0f} µs each")


if __name__ == "__main__":
    main()
