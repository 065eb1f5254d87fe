"""MWEM: multiplicative weights with the exponential mechanism (Hardt, Ligett & McSherry 2012).

The model is a weight for every cell of a dense universe, and starts uniform with a noisy number of rows. In each round
a candidate is chosen by the distance of its counts from the model's (``CandidateCounts``), measured with noise
(``NoisyCounts``), and the weights are multiplied by e^{q(x)·(measured − predicted)/2n̂}. Only choices and measurements
read rows, and each is a complete release with a charge of its own; the model is deterministic post-processing of what
was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.plan.readings.dense_readings import CountDistances, MarginalView, sum_cells
from sfumato.plan.readings.total_readings import Integers
from sfumato.privacy import codec
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.chains import Floats

_MAX_TOTAL = 1 << 60
"""The largest total of a model, in steps, so that sums of gaps fit 64 bits."""
_MAX_PASSES, _MAX_UPDATES = 40, 4 * 10**8
"""The most passes over all measurements after each round, and the most weight updates in all."""


@codec.serialisable("mwem-counts")
@dataclass(frozen=True)
class NoisyCounts:
    """Noisy counts, in integer steps, as measured in one step."""

    values: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values or any(type(count) is not int for count in self.values):
            raise InvalidParameter("values", self.values[:3], "whole numbers")

    @classmethod
    def of(cls, counts: Integers) -> NoisyCounts:
        return cls(tuple(counts.tolist()))


# ── the model, from what was released alone ────────────────────────────────────────────────────


class MwemView(Protocol):
    """What a round measures: all cells of some attributes, or some of these cells as one count."""

    @property
    def places(self) -> AttributeSet: ...
    @property
    def cells(self) -> tuple[int, ...] | None: ...

    def sum_cells(self, whole: Floats) -> Floats:
        """Sum the weights of all cells to the numbers that are measured."""
        ...


@dataclass(frozen=True)
class CellView:
    """A view of a model alone, from which no row can be read."""

    places: AttributeSet
    cells: tuple[int, ...] | None = None

    def sum_cells(self, whole: Floats) -> Floats:
        return sum_cells(whole, tuple(range(whole.ndim)), self.places, self.cells)


@dataclass(frozen=True)
class MwemRound:
    """What one round released: the view that was chosen, and its noisy counts."""

    view: MwemView
    values: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MwemModel:
    """A weight for each cell of the universe, in steps; the weights sum to the noisy number of rows."""

    weights: Floats
    total: float
    measured: int
    """The noisy number of rows, in steps, as it was measured."""
    rounds: tuple[MwemRound, ...] = ()
    textbook: bool = False
    passes: int = 1
    added: Floats | None = None
    """For the textbook variant: the sum of the weights after every round."""

    @classmethod
    def uniform(cls, shape: tuple[int, ...], rows: int, rounds: int, *, textbook: bool = False) -> MwemModel:
        """Start with equal weights; a noisy number of rows below one step counts as one."""
        cells, total = math.prod(shape), float(min(max(1, rows), _MAX_TOTAL))
        passes = 1 if textbook else max(1, min(_MAX_PASSES, 2 * _MAX_UPDATES // (cells * rounds * (rounds + 1))))
        return cls(np.full(shape, total / cells), total, rows, (), textbook, passes)

    def updated(self, found: MwemRound) -> MwemModel:
        """Return the model after one more measurement: the textbook variant applies it once, otherwise all are
        applied in turn, several times.
        """
        rounds, weights = (*self.rounds, found), self.weights
        for _ in range(self.passes):
            for mwem_round in (found,) if self.textbook else rounds:
                weights = update_weights(weights, self.total, mwem_round)
        added = weights if self.added is None else self.added + weights
        return replace(self, weights=weights, rounds=rounds, added=added if self.textbook else None)

    @property
    def fitted(self) -> Floats:
        """The weights to answer from: the last, or for the textbook variant the mean over all rounds (Theorem 2.2)."""
        return self.weights if self.added is None else self.added / len(self.rounds)

    def predicted(self, view: MwemView) -> Integers:
        """Return the model's counts, in integer steps: public numbers with which the truth is compared."""
        return np.rint(view.sum_cells(self.weights)).astype(np.int64)


def update_weights(weights: Floats, total: float, mwem_round: MwemRound) -> Floats:
    """Multiply every weight by e^{(measured − predicted)/2n̂} of the counts it is part of, and rescale to n̂.

    Measured counts are clipped to [0, n̂], as is every count of a table with n̂ rows.
    """
    view = mwem_round.view
    gap = np.clip(np.array(mwem_round.values, np.float64), 0.0, total) - view.sum_cells(weights)
    shape = tuple(size if place in view.places else 1 for place, size in enumerate(weights.shape))
    factor = np.exp(gap / (2 * total))
    if view.cells is not None:
        cell_factors = np.ones(math.prod(shape))
        cell_factors[list(view.cells)] = factor
        factor = cell_factors
    grown = weights * factor.reshape(shape)
    scaled: Floats = grown * (total / grown.sum())
    return scaled


def replayed(start: MwemModel, rounds: Iterable[MwemRound]) -> MwemModel:
    """Recompute a model from its start and what the rounds released, bit for bit."""
    model = start
    for mwem_round in rounds:
        model = model.updated(mwem_round)
    return model


@dataclass(frozen=True)
class CandidateCounts:
    """The counts to choose from: whole views, or with ``each`` every single number of them."""

    views: tuple[MarginalView, ...]
    single_cells: bool = False

    def scores(self, predict: Callable[[MarginalView], Integers]) -> CountDistances:
        return CountDistances(self.views, tuple(map(predict, self.views)), self.single_cells)

    def __len__(self) -> int:
        return sum(view.size for view in self.views) if self.single_cells else len(self.views)

    def view(self, place: int) -> MarginalView:
        """Return what is measured when the candidate of this index is chosen."""
        if not self.single_cells:
            return self.views[place]
        ends = np.cumsum([view.size for view in self.views])
        index = int(np.searchsorted(ends, place, side="right"))
        chosen = self.views[index]
        return chosen if chosen.cells is not None else replace(chosen, cells=(place - int(ends[index]) + chosen.size,))
