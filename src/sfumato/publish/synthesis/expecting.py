"""The course of a synthesis is expected from public numbers alone: how many rounds, of which sizes, and which model.

Which sets a run will choose depends on the data. What they are like does not, by much: a set is chosen when the model
has it wrong by more than noise would be, so that the noise of all its cells is a small part of all rows. So sets of
about that size are taken from the candidates, in an order that follows from their sizes alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.plan.readings.cell_rows import CellCounts
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.synthesis.aim import expected_rounds
from sfumato.publish.synthesis.budget import FOR_CHOICES, FOR_ROWS
from sfumato.publish.synthesis.candidates import Places, sets_within
from sfumato.publish.synthesis.course import Setting, mean_size

_NOISE = 0.1
"""Of the sets that are chosen the noise of all cells is about this part of all rows."""
_TAUGHT, _TAUGHT_MORE, _LEAST_TAUGHT, _MOST_TAUGHT = -0.1, 0.08, 0.15, 0.7
"""Of the rounds that AIM could pay for at first it runs a part, as those that teach nothing make later ones dearer: it
rises with the logarithm of rows / noise."""
_LATE = 1 / 3
"""In so many of AIM's rounds, the last ones, noise is half of what it was."""
_TRIED = 64
"""How many sets are tried for a round before a set is measured again."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it are spread evenly: sets of about equal size are taken from all columns alike."""


@dataclass(frozen=True)
class Expected:
    """This is what a run is expected to do."""

    firsts: int
    """How many single columns are measured first."""
    chosen: tuple[Set, ...]
    """Which sets are like those that are chosen, in order."""
    candidates: Floats
    """How many cells each of the sets has that are compared with the model in each round,"""
    choices: float
    """and how many times all of them."""
    noise: float
    """The mean size of the noise in a cell of what is chosen, or of a single column where nothing is, in rows."""
    pairs: tuple[Set, ...] = ()
    """Which pairs are measured before anything is chosen."""

    @property
    def before(self) -> int:
        """Count what is measured before anything is chosen."""
        return self.firsts + len(self.pairs)

    def sets(self, columns: int) -> list[Set]:
        """List all that is measured, in order."""
        return [*((place,) for place in range(columns if self.firsts else 0)), *self.pairs, *self.chosen]


def expected(setting: Setting, method: str, rows: int) -> Expected:
    """Say what a method is expected to do on so many rows."""
    return replace(_without_pairs(setting, method, rows), pairs=tuple(setting.pairs))


def _without_pairs(setting: Setting, method: str, rows: int) -> Expected:
    columns = len(setting.sizes)
    if method == "independent" or (method == "mst" and columns == 1):
        return Expected(columns, (), np.zeros(0), 0, _noise(setting, Fraction(1, columns)))
    if method == "mst":
        share = (1 - FOR_CHOICES - Fraction(1, 3)) / (columns - 1)
        pairs = _cells(np.array([*itertools.combinations(range(columns), 2)]), setting.sizes)
        chain = tuple(itertools.pairwise(range(columns)))  # as good a tree as any other, before anything is known
        return Expected(columns, chain, pairs, (columns - 1) / 2, _noise(setting, share))
    candidates = sets_within(setting.workload)
    cells = np.concatenate([_cells(each, setting.sizes) for each in candidates])
    if method == "mwem":
        noise = _noise(setting, (1 - FOR_CHOICES) / columns)
        return Expected(0, _typical(setting, candidates, columns, rows, noise), cells, columns, noise)
    planned = expected_rounds(setting, float(rows))
    noise = _noise(setting, (1 - FOR_CHOICES) / planned)
    taught = _TAUGHT + _TAUGHT_MORE * math.log(max(1.0, rows / noise))
    part = min(_MOST_TAUGHT, max(_LEAST_TAUGHT, taught))
    count = max(1, math.ceil(part * (planned - float(1 - FOR_CHOICES) * columns)))
    return Expected(columns, _typical(setting, candidates, count, rows, noise, _LATE), cells, count, noise)


def _cells(sets: Places, sizes: Sequence[int]) -> Floats:
    """Count the cells of each set: whole numbers, exact below 2^53, which no model comes near."""
    return np.asarray(np.prod(np.array(sizes, float)[sets], axis=1))


def _noise(setting: Setting, share: Fraction) -> float:
    """Give the mean size of the noise that this share of the price buys, in rows."""
    amount = setting.currency.total * (1 - FOR_ROWS) * share
    noise = setting.currency.noise(amount, CellCounts(setting.reading, (0,)).sensitivity)
    return mean_size(noise, setting.unit_value)


def _typical(
    setting: Setting, candidates: Sequence[Places], count: int, rows: int, noise: float, halved: float = 0.0
) -> tuple[Set, ...]:
    """Take so many sets of two columns or more, those first whose noise is most like that of sets that are chosen,
    while the model is not too large for the share of the price that is spent by then. In this part of the rounds,
    the last ones, noise is halved.
    """
    sizes = setting.sizes
    several = [each for each in candidates if each.shape[1] > 1] or [np.array([[0]])]
    most_tried = count + _TRIED  # so many are tried in all before one is measured again
    early = _by_size(several, sizes, _NOISE * rows / noise, most_tried)
    late = _by_size(several, sizes, 2 * _NOISE * rows / noise, most_tried)
    found: list[Set] = []
    for index in range(count):
        most = sum(sizes) + setting.most_cells * (index + 1) / count
        new = [each for each in (late if index >= (1 - halved) * count else early) if each not in found][:_TRIED]
        fitting = (each for each in new if predicted_cells((*found, each), sizes) <= most)
        found.append(next(fitting, found[0] if found else (0,)))
    return tuple(found)


def _by_size(sets: Sequence[Places], sizes: Sequence[int], wanted: float, count: int) -> list[Set]:
    """List the sets that are nearest to so many cells, in powers of two; equal ones are spread over all columns."""
    goal = math.log2(max(1.0, wanted))
    cells, which = np.unique(np.concatenate([_cells(each, sizes) for each in sets]), return_inverse=True)
    distances = np.array([round(abs(math.log2(each) - goal)) for each in cells.tolist()])[which]
    order = np.lexsort((np.arange(len(which)) * _GOLDEN % 1, distances))[:count]
    starts = np.cumsum([0, *map(len, sets)])
    groups = np.searchsorted(starts, order, side="right") - 1
    return [
        tuple(sets[group][index - starts[group]].tolist())
        for group, index in zip(groups.tolist(), order.tolist(), strict=True)
    ]
