"""The speed of this machine is measured once per process: how fast it fits and counts numbers that are made up here.

Two chains of columns are fitted for a few rounds: one of many small tables, which shows what a table costs however
small it is, and one of a few large ones, which shows what a cell costs. No policy and no row is part of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sfumato.publish.graph.fitting import Observation, fitted

_ROUNDS, _TRIES = 12, 2
"""CPU time differs little from try to try, and a forecast is meant to be right within a factor of two."""
_SMALL, _LARGE = (3,) * 16, (100,) * 4
_COUNTED = 1 << 17


@dataclass(frozen=True)
class Speed:
    """These are CPU seconds, of what a forecast is made of."""

    per_table: float
    """To bring one small table of a model nearer to what was measured, once."""
    per_cell: float
    """For each cell of a large one beside that."""
    per_row: float
    """To count one row in one marginal."""


@lru_cache(maxsize=1)
def speed() -> Speed:
    """Measure this machine: the best of several tries each, because other programs run on it too."""
    table = _seconds(lambda: _fit(_SMALL)) / (_ROUNDS * (len(_SMALL) - 1))
    cells = sum(one * other for one, other in pairwise(_LARGE))
    whole = _seconds(lambda: _fit(_LARGE)) / _ROUNDS
    index = np.arange(_COUNTED, dtype=np.intp) * 7919 % 1000
    row = _seconds(lambda: np.bincount(index + 1, index, 1001)) / _COUNTED
    return Speed(table, max(whole - table * (len(_LARGE) - 1), 0.1 * whole) / cells, row)


def _fit(sizes: tuple[int, ...]) -> None:
    """Run a fit of pairs of neighbouring columns for so many rounds, whatever comes of it."""
    observed = [
        Observation((place, place + 1), 100 + np.arange(one * other, dtype=float).reshape(one, other) % 7, 1.0)
        for place, (one, other) in enumerate(pairwise(sizes))
    ]
    fitted(observed, sizes, 100.0 * sizes[0] * sizes[1], tolerance=0.0, most_rounds=_ROUNDS)


def _seconds(work: Callable[[], object]) -> float:
    return min(_once(work) for _ in range(_TRIES))


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return max(time.process_time() - start, 1e-6)
