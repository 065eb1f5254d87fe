"""A model of a table is fitted step by step: the count that it gets most wrong is chosen and measured, round by round.

Multiplicative weights by the exponential mechanism (MWEM; Hardt, Ligett & McSherry 2012). The model is a weight for
every cell of a dense universe, and starts as uniform with a noisy number of rows. In each round a candidate is chosen
by how far its counts are from what the model says (``Misfits``), measured with noise (``Counted``), and the weights are
multiplied by e^{q(x)·(measured − predicted)/2n̂}. Only choices and measurements read rows, and each is a complete
release with a charge of its own; the model is computed from what was released, always in the same way, for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.plan.readings.dense_readings import Counted, Misfits, summed_cells
from sfumato.plan.readings.total_readings import Integers
from sfumato.privacy import codec
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats

_MOST_TOTAL = 1 << 60
"""What a model holds at most, in steps, so that sums of gaps stay within 64 bits."""
_MOST_PASSES, _MOST_UPDATES = 40, 4 * 10**8
"""How often all measurements are gone through after each round, and how many weights are multiplied in all."""


@codec.value("mwem-counts")
@dataclass(frozen=True)
class NoisyCounts:
    """These are noisy counts, in whole steps, as they were measured in one step."""

    values: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values or any(type(each) is not int for each in self.values):
            raise InvalidParameter("values", self.values[:3], "whole numbers")

    @classmethod
    def of(cls, counts: Integers) -> NoisyCounts:
        return cls(tuple(counts.tolist()))


# ── the model, from what was released alone ────────────────────────────────────────────────────


class MwemView(Protocol):
    """This is what a round measures: all cells of some attributes, or some of these cells as one count."""

    @property
    def places(self) -> Set: ...
    @property
    def cells(self) -> tuple[int, ...] | None: ...

    def summed(self, whole: Floats) -> Floats:
        """Add up the weights of all cells to the numbers that are measured."""
        ...


@dataclass(frozen=True)
class CellView:
    """This is a view of a model alone, from which no row can be read."""

    places: Set
    cells: tuple[int, ...] | None = None

    def summed(self, whole: Floats) -> Floats:
        return summed_cells(whole, tuple(range(whole.ndim)), self.places, self.cells)


@dataclass(frozen=True)
class MwemRound:
    """This is what one round released: which view was chosen, and its noisy counts."""

    view: MwemView
    values: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """A model has a weight for each cell of the universe, in steps; all add up to the noisy number of rows."""

    weights: Floats
    total: float
    measured: int
    """The noisy number of rows, in steps, as it was measured."""
    rounds: tuple[MwemRound, ...] = ()
    textbook: bool = False
    passes: int = 1
    added: Floats | None = None
    """Of the textbook's: the weights after every round, added up."""

    @classmethod
    def uniform(cls, shape: tuple[int, ...], rows: int, rounds: int, *, textbook: bool = False) -> Model:
        """Begin with equal weights; a noisy number of rows below one step counts as that."""
        cells, total = math.prod(shape), float(min(max(1, rows), _MOST_TOTAL))
        passes = 1 if textbook else max(1, min(_MOST_PASSES, 2 * _MOST_UPDATES // (cells * rounds * (rounds + 1))))
        return cls(np.full(shape, total / cells), total, rows, (), textbook, passes)

    def updated(self, found: MwemRound) -> Model:
        """Give the model after one more measurement: the textbook's once, otherwise all in turn, several times."""
        rounds, weights = (*self.rounds, found), self.weights
        for _ in range(self.passes):
            for each in (found,) if self.textbook else rounds:
                weights = multiplied(weights, self.total, each)
        added = weights if self.added is None else self.added + weights
        return replace(self, weights=weights, rounds=rounds, added=added if self.textbook else None)

    @property
    def fitted(self) -> Floats:
        """Give the weights to answer from: the last, or of the textbook's the mean over all rounds (Theorem 2.2)."""
        return self.weights if self.added is None else self.added / len(self.rounds)

    def predicted(self, view: MwemView) -> Integers:
        """Say what counts the model has, in whole steps: public numbers, to which the truth is compared."""
        return np.rint(view.summed(self.weights)).astype(np.int64)


def multiplied(weights: Floats, total: float, found: MwemRound) -> Floats:
    """Multiply every weight by e^{(measured − predicted)/2n̂} of the counts it is part of, and scale to n̂ again.

    What was measured is held to [0, n̂]: so is every count that a table with so many rows has.
    """
    view = found.view
    gap = np.clip(np.array(found.values, np.float64), 0.0, total) - view.summed(weights)
    shape = tuple(size if place in view.places else 1 for place, size in enumerate(weights.shape))
    factor = np.exp(gap / (2 * total))
    if view.cells is not None:
        own = np.ones(math.prod(shape))
        own[list(view.cells)] = factor
        factor = own
    grown = weights * factor.reshape(shape)
    scaled: Floats = grown * (total / grown.sum())
    return scaled


def replayed(start: Model, rounds: Iterable[MwemRound]) -> Model:
    """Compute a model anew from its beginning and what the rounds released: the same to the bit."""
    model = start
    for each in rounds:
        model = model.updated(each)
    return model


@dataclass(frozen=True)
class CandidateCounts:
    """These are the counts to choose from: whole views, or with ``each`` every single number of them."""

    views: tuple[Counted, ...]
    each: bool = False

    def scores(self, predict: Callable[[Counted], Integers]) -> Misfits:
        return Misfits(self.views, tuple(map(predict, self.views)), self.each)

    def __len__(self) -> int:
        return sum(view.size for view in self.views) if self.each else len(self.views)

    def view(self, place: int) -> Counted:
        """Give what is measured when the candidate of this place is chosen."""
        if not self.each:
            return self.views[place]
        ends = np.cumsum([view.size for view in self.views])
        index = int(np.searchsorted(ends, place, side="right"))
        own = self.views[index]
        return own if own.cells is not None else replace(own, cells=(place - int(ends[index]) + own.size,))
