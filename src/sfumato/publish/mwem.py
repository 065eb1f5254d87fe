"""MWEM: multiplicative weights with the exponential mechanism (Hardt, Ligett & McSherry 2012), and what it released.

The model is a weight for every cell of a dense universe, and starts uniform with a noisy number of rows. In each round
a candidate is chosen by the distance of its counts from the model's (``CandidateCounts``), measured with noise
(``NoisyCounts``), and the weights are multiplied by e^{q(x)·(measured − predicted)/2n̂}. Only choices and measurements
read rows, and each is a complete release with a charge of its own; the model is deterministic post-processing of what
was released.

*The notes' update* (a lecture's private multiplicative weights). A round whose measured count is more than 2α from the
model's multiplies every weight by 1 − s·η·q(x), s the sign of (predicted − measured), η = √(ln|X|/T); any other round
leaves the model as it is, and answers are taken from the model of the last such round.

Theorem. Let T ≥ 4 ln|X|, so that η ≤ ½, and α/n ≥ 2η. If every noise is at most α and every selected count is within α
of the worst, then some round makes no update, and in each such round all counts are within 4α. Proof. While a
round updates, s·(predicted − true) > 2α − α = α. Multiplicative weights with losses s·q in [−1, 1] have, against the
true distribution p, Σ s·⟨q, pᵗ⟩ ≤ Σ s·⟨q, p⟩ + η·U + ln|X|/η over U updates (Arora, Hazan & Kale 2012, Thm 2.1). So
U·α/n < η·U + ln|X|/η, hence U·α/2n < ln|X|/η and U < 2·√(T·ln|X|)·n/α ≤ T. Where none is made, the selected count
is within 2α + α of the truth, and the worst one within α more. ∎ ``theorems.multiplicative_weights`` states how many
people that takes. The number of rows is n̂ here, so its own error comes on top.

What was released also determines the error of an answer. Marginals that rounds measured are combined by least squares,
with ranges that hold although earlier noise decided which were measured, and when the rounds ended (``estimating``,
measured adaptively): for every block a precision is fixed beforehand, that of one measurement of the requested set
that measures the block best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.dense_readings import MAX_CELLS, CountDistances, MarginalView, sum_cells
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, exact
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attribute, Attributes, PublicTableFacts
from sfumato.publish.marginals.blocks import AttributeSet, Block, parse_attribute_indices
from sfumato.publish.marginals.estimating import MeasuredMarginal, least_squares
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.measuring import largest_sets
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price

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
            raise InvalidParameter("values", self.values[:3], "a non-empty list of whole numbers")

    @classmethod
    def from_integers(cls, counts: Integers) -> NoisyCounts:
        return cls(tuple(counts.tolist()))


# ── the model, from what was released alone ────────────────────────────────────────────────────


class MwemView(Protocol):
    """What a round measures: all cells of some attributes, or some of these cells as one count."""

    @property
    def attribute_set(self) -> AttributeSet: ...
    @property
    def cells(self) -> tuple[int, ...] | None: ...

    def sum_cells(self, whole: Floats) -> Floats:
        """Sum the weights of all cells to the numbers that are measured."""
        ...


@dataclass(frozen=True)
class CellView:
    """A view of a model alone, from which no row can be read."""

    attribute_set: AttributeSet
    cells: tuple[int, ...] | None = None

    def sum_cells(self, whole: Floats) -> Floats:
        return sum_cells(whole, tuple(range(whole.ndim)), self.attribute_set, self.cells)


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
    weights_sum: Floats | None = None
    """For the textbook variant: the sum of the weights after every round."""
    threshold: float | None = None
    """For the notes' update: 2α in steps; a count that is no further off changes nothing."""
    learning_rate: float = 0.0
    """For the notes' update: η."""
    settled_weights: Floats | None = None
    """For the notes' update: the weights of the last round that changed nothing."""

    @classmethod
    def uniform(cls, shape: tuple[int, ...], rows: int, rounds: int, *, textbook: bool = False) -> MwemModel:
        """Start with equal weights; a noisy number of rows below one step counts as one."""
        cells, total = math.prod(shape), float(min(max(1, rows), _MAX_TOTAL))
        passes = 1 if textbook else max(1, min(_MAX_PASSES, 2 * _MAX_UPDATES // (cells * rounds * (rounds + 1))))
        return cls(np.full(shape, total / cells), total, rows, (), textbook, passes)

    @classmethod
    def thresholded(cls, shape: tuple[int, ...], rows: int, rounds: int, threshold: float) -> MwemModel:
        """Start with equal weights, to be changed by the notes' update."""
        start = cls.uniform(shape, rows, rounds, textbook=True)
        return replace(start, threshold=threshold, learning_rate=math.sqrt(math.log(math.prod(shape)) / rounds))

    def updated(self, measured_round: MwemRound) -> MwemModel:
        """Return the model after one more measurement: the textbook variant applies it once, otherwise all are
        applied in turn, several times.
        """
        rounds, weights = (*self.rounds, measured_round), self.weights
        if self.threshold is not None:
            moved = threshold_update(weights, self.total, measured_round, self.threshold, self.learning_rate)
            return replace(
                self,
                weights=moved,
                rounds=rounds,
                settled_weights=weights if moved is weights else self.settled_weights,
            )
        for _ in range(self.passes):
            for mwem_round in (measured_round,) if self.textbook else rounds:
                weights = update_weights(weights, self.total, mwem_round)
        added = weights if self.weights_sum is None else self.weights_sum + weights
        return replace(self, weights=weights, rounds=rounds, weights_sum=added if self.textbook else None)

    @property
    def fitted_weights(self) -> Floats:
        """The weights to answer from: the last; for the textbook variant the mean over all rounds (Theorem 2.2); for
        the notes' update those of the last round that changed nothing.
        """
        if self.settled_weights is not None:
            return self.settled_weights
        return self.weights if self.weights_sum is None else self.weights_sum / len(self.rounds)

    def predicted_counts(self, view: MwemView) -> Integers:
        """Return the model's counts, in integer steps: public numbers with which the truth is compared."""
        return np.rint(view.sum_cells(self.weights)).astype(np.int64)


def update_weights(weights: Floats, total: float, mwem_round: MwemRound) -> Floats:
    """Multiply every weight by e^{(measured − predicted)/2n̂} of the counts it is part of, and rescale to n̂.

    Measured counts are clipped to [0, n̂], as is every count of a table with n̂ rows.
    """
    view = mwem_round.view
    gap = np.clip(np.array(mwem_round.values, np.float64), 0.0, total) - view.sum_cells(weights)
    shape = tuple(
        size if attribute_index in view.attribute_set else 1 for attribute_index, size in enumerate(weights.shape)
    )
    factor = np.exp(gap / (2 * total))
    if view.cells is not None:
        cell_factors = np.ones(math.prod(shape))
        cell_factors[list(view.cells)] = factor
        factor = cell_factors
    grown = weights * factor.reshape(shape)
    scaled: Floats = grown * (total / grown.sum())
    return scaled


def threshold_update(weights: Floats, total: float, mwem_round: MwemRound, threshold: float, rate: float) -> Floats:
    """Multiply every weight by 1 − s·η·q, s the sign of (predicted − measured), and rescale to n̂; return the weights
    themselves where the measured count is within the threshold.
    """
    view = mwem_round.view
    (gap,) = view.sum_cells(weights) - np.array(mwem_round.values, np.float64)
    if abs(gap) <= threshold:
        return weights
    assert view.cells is not None
    shape = tuple(
        size if attribute_index in view.attribute_set else 1 for attribute_index, size in enumerate(weights.shape)
    )
    factor = np.ones(math.prod(shape))
    factor[list(view.cells)] = 1 - math.copysign(rate, gap)
    changed = weights * factor.reshape(shape)
    scaled: Floats = changed * (total / changed.sum())
    return scaled


def replay_rounds(start: MwemModel, rounds: Iterable[MwemRound]) -> MwemModel:
    """Recompute a model from its start and what the rounds released, bit for bit."""
    model = start
    for mwem_round in rounds:
        model = model.updated(mwem_round)
    return model


def initial_model(
    shape: tuple[int, ...], rows: int, rounds: int, *, textbook: bool, threshold: Fraction | None
) -> MwemModel:
    """Return the uniform model that the rounds of a fit change."""
    if threshold is None:
        return MwemModel.uniform(shape, rows, rounds, textbook=textbook)
    return MwemModel.thresholded(shape, rows, rounds, float(threshold))


@dataclass(frozen=True)
class CandidateCounts:
    """The counts to choose from: whole views, or with ``each`` every single number of them."""

    views: tuple[MarginalView, ...]
    single_cells: bool = False

    def scores(self, predict: Callable[[MarginalView], Integers]) -> CountDistances:
        return CountDistances(self.views, tuple(map(predict, self.views)), self.single_cells)

    def __len__(self) -> int:
        return sum(view.size for view in self.views) if self.single_cells else len(self.views)

    def view(self, candidate_index: int) -> MarginalView:
        """Return what is measured when the candidate of this index is chosen."""
        if not self.single_cells:
            return self.views[candidate_index]
        ends = np.cumsum([view.size for view in self.views])
        index = int(np.searchsorted(ends, candidate_index, side="right"))
        chosen = self.views[index]
        return (
            chosen
            if chosen.cells is not None
            else replace(chosen, cells=(candidate_index - int(ends[index]) + chosen.size,))
        )


_MAX_ROUNDS = 1000


@codec.serialisable("mwem-round")
@dataclass(frozen=True)
class FitRound:
    """What one round released: the indices of the chosen columns, which of their cells were counted as one (None for
    each by itself), and the noisy counts in steps.
    """

    attribute_set: AttributeSet = field(metadata=codec.stored_name_metadata("places"))
    cells: tuple[int, ...] | None
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("attribute_set", "values", *(() if self.cells is None else ("cells",))):
            integers = getattr(self, name)
            if not isinstance(integers, (tuple, list)) or any(type(number) is not int for number in integers):
                raise InvalidParameter(name, integers, "a list of whole numbers")
            object.__setattr__(self, name, tuple(integers))


@codec.serialisable("mwem-fit")
@dataclass(frozen=True, eq=False)
class MwemFit:
    """All numbers that were released for a model, and the terms: the model follows from them bit for bit."""

    attributes: Attributes
    face: PublicTableFacts
    table: str
    where: str
    unit_value: Fraction
    """What one step of the counts is worth, in rows."""
    sets: tuple[AttributeSet, ...]
    """The requested marginals, each cell by itself."""
    rows: int
    """The noisy number of rows, in steps."""
    rows_noise: Additive
    choice: Exponential
    noise: Additive
    rounds: tuple[FitRound, ...]
    planned: int
    """The number of rounds that were paid for; fewer were run if the fit was interrupted."""
    textbook: bool
    price: Price
    threshold: Fraction | None = None
    """2α of the notes' update, in steps; None for the others."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        noise_type = type(self.rows_noise)
        field_types: dict[str, type] = {
            "face": PublicTableFacts,
            "rows_noise": noise_type,
            "noise": noise_type,
            "price": Price,
            "choice": Exponential,
        }
        for name, field_type in field_types.items():
            if noise_type not in (Gaussian, Laplace) or not isinstance(getattr(self, name), field_type):
                raise InvalidParameter(
                    name, getattr(self, name), f"a {field_type.__name__} that this model can be fitted with"
                )
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        if self.threshold is not None:
            object.__setattr__(self, "threshold", exact(self.threshold, "threshold", POSITIVE))
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "rounds", tuple(self.rounds))
        is_complete = all(isinstance(attribute, Attribute) for attribute in self.attributes) and self.attributes
        if not is_complete or math.prod(attribute.size for attribute in self.attributes) > MAX_CELLS:
            rule = f"a list of one or more columns that have at most {MAX_CELLS:,} cells together"
            raise InvalidParameter("attributes", ValueWords(f"{len(self.attributes)} columns"), rule)
        object.__setattr__(
            self,
            "sets",
            tuple(parse_attribute_indices(tuple(requested_set), self.attributes) for requested_set in self.sets),
        )
        if not all(isinstance(fit_round, FitRound) for fit_round in self.rounds):
            raise InvalidParameter("rounds", len(self.rounds), "a list of rounds")
        if not len(self.rounds) <= self.planned <= _MAX_ROUNDS:
            raise InvalidParameter(
                "planned",
                self.planned,
                f"a whole number from {len(self.rounds):,} (the rounds that were run) to {_MAX_ROUNDS:,}",
            )
        for fit_round in self.rounds:
            self._check_round(fit_round)

    def _check_round(self, fit_round: FitRound) -> None:
        sizes = [
            self.attributes[attribute_index].size
            for attribute_index in parse_attribute_indices(fit_round.attribute_set, self.attributes)
        ]
        cells, cell_count = fit_round.cells, math.prod(sizes)
        if len(fit_round.values) != (cell_count if cells is None else 1):
            rule = "a list in which each round has one count for each cell that it measures"
            raise InvalidParameter("rounds", ValueWords(f"a round with {len(fit_round.values)} counts"), rule)
        if cells is not None and (not cells or list(cells) != sorted({*cells} & {*range(cell_count)})):
            raise InvalidParameter(
                "rounds", cells[:3], f"a list of different cells from 0 to {cell_count - 1}, in increasing order"
            )

    @property
    def model(self) -> MwemModel:
        """The model, recomputed deterministically."""
        shape = tuple(attribute.size for attribute in self.attributes)
        start = initial_model(shape, self.rows, self.planned, textbook=self.textbook, threshold=self.threshold)
        return replay_rounds(
            start,
            (
                MwemRound(CellView(fit_round.attribute_set, fit_round.cells), fit_round.values)
                for fit_round in self.rounds
            ),
        )

    @property
    def estimates_from_measurements(self) -> SynopsisEstimates:
        """The estimates from what was measured: the number of rows, and every marginal that rounds measured as a
        whole.
        """
        measured = [self._measured_marginal((), (self.rows,), self.rows_noise)]
        measured += [
            self._measured_marginal(fit_round.attribute_set, fit_round.values, self.noise)
            for fit_round in self.rounds
            if fit_round.cells is None
        ]
        estimates = least_squares(self.attributes, (), measured)
        sets = largest_sets([marginal.attribute_set for marginal in measured])
        return SynopsisEstimates(estimates, sets, {block: self._prior_precision(block) for block in estimates.parts})

    def _measured_marginal(
        self, attribute_set: AttributeSet, values: tuple[int, ...], noise: Additive
    ) -> MeasuredMarginal:
        shape = tuple(self.attributes[attribute_index].size for attribute_index in attribute_set)
        counts = np.array(values, np.int64).reshape(shape)
        return MeasuredMarginal(attribute_set, counts, max(noise.sizes), unit_value=self.unit_value)

    def _prior_precision(self, block: Block) -> float:
        """Return the precision of a block from one measurement of the best requested set."""
        block_attribute_indices = {*block_algebra.block_attribute_indices(block)}
        if not block_attribute_indices:
            return 1 / float(max(self.rows_noise.sizes) * self.unit_value) ** 2
        other_cells = min(
            math.prod(
                self.attributes[attribute_index].size
                for attribute_index in requested_set
                if attribute_index not in block_attribute_indices
            )
            for requested_set in self.sets
            if block_attribute_indices <= {*requested_set}
        )
        return 1 / (other_cells * float(max(self.noise.sizes) * self.unit_value) ** 2)
