"""A fit: all that was released for an MWEM model, from which the model is recomputed deterministically.

What was released also determines the error of an answer. Marginals that rounds measured are combined by least squares,
with ranges that hold although earlier noise decided which were measured, and when the rounds ended (``half_widths``,
measured adaptively): for every block a precision is fixed beforehand, that of one measurement of the requested set
that measures the block best.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.dense_readings import MAX_CELLS
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, exact
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import AttributeSet, Block, checked_attribute_set
from sfumato.publish.marginals.estimating import MeasuredMarginal, least_squares
from sfumato.publish.marginals.faces import PublicTableFacts
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.measuring import largest_sets
from sfumato.publish.mwem import CellView, MwemModel, MwemRound, initial_model, replay_rounds
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price

_MAX_ROUNDS = 1000


@codec.serialisable("mwem-round")
@dataclass(frozen=True)
class FitRound:
    """What one round released: the indices of the chosen columns, which of their cells were counted as one (None for
    each by itself), and the noisy counts in steps.
    """

    places: AttributeSet
    cells: tuple[int, ...] | None
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("places", "values", *(() if self.cells is None else ("cells",))):
            integers = getattr(self, name)
            if not isinstance(integers, (tuple, list)) or any(type(number) is not int for number in integers):
                raise InvalidParameter(name, integers, "whole numbers")
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
                raise InvalidParameter(name, getattr(self, name), "a value that a model is fitted with")
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        if self.threshold is not None:
            object.__setattr__(self, "threshold", exact(self.threshold, "threshold", POSITIVE))
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "rounds", tuple(self.rounds))
        is_complete = all(isinstance(attribute, Attribute) for attribute in self.attributes) and self.attributes
        if not is_complete or math.prod(attribute.size for attribute in self.attributes) > MAX_CELLS:
            raise InvalidParameter("attributes", len(self.attributes), f"columns of at most {MAX_CELLS:,} cells")
        object.__setattr__(
            self,
            "sets",
            tuple(checked_attribute_set(tuple(requested_set), self.attributes) for requested_set in self.sets),
        )
        if not all(isinstance(fit_round, FitRound) for fit_round in self.rounds):
            raise InvalidParameter("rounds", len(self.rounds), "a list of FitRound values")
        if not len(self.rounds) <= self.planned <= _MAX_ROUNDS:
            raise InvalidParameter(
                "planned", self.planned, f"a number from the rounds that were run to {_MAX_ROUNDS:,}"
            )
        for fit_round in self.rounds:
            self._check_round(fit_round)

    def _check_round(self, fit_round: FitRound) -> None:
        sizes = [self.attributes[place].size for place in checked_attribute_set(fit_round.places, self.attributes)]
        cells, cell_count = fit_round.cells, math.prod(sizes)
        if len(fit_round.values) != (cell_count if cells is None else 1):
            raise InvalidParameter("rounds", len(fit_round.values), "one count for each cell that the round measures")
        if cells is not None and (not cells or list(cells) != sorted({*cells} & {*range(cell_count)})):
            raise InvalidParameter(
                "rounds", cells[:3], f"distinct cells from 0 to {cell_count - 1}, in increasing order"
            )

    @property
    def model(self) -> MwemModel:
        """The model, recomputed deterministically."""
        shape = tuple(attribute.size for attribute in self.attributes)
        start = initial_model(shape, self.rows, self.planned, textbook=self.textbook, threshold=self.threshold)
        return replay_rounds(
            start,
            (MwemRound(CellView(fit_round.places, fit_round.cells), fit_round.values) for fit_round in self.rounds),
        )

    @property
    def estimates(self) -> SynopsisEstimates:
        """The estimates from what was measured: the number of rows, and every marginal that rounds measured as a
        whole.
        """
        measured = [self._measured_marginal((), (self.rows,), self.rows_noise)]
        measured += [
            self._measured_marginal(fit_round.places, fit_round.values, self.noise)
            for fit_round in self.rounds
            if fit_round.cells is None
        ]
        estimates = least_squares(self.attributes, (), measured)
        sets = largest_sets([marginal.places for marginal in measured])
        return SynopsisEstimates(estimates, sets, {block: self._prior_precision(block) for block in estimates.parts})

    def _measured_marginal(self, places: AttributeSet, values: tuple[int, ...], noise: Additive) -> MeasuredMarginal:
        shape = tuple(self.attributes[place].size for place in places)
        counts = np.array(values, np.int64).reshape(shape)
        return MeasuredMarginal(places, counts, max(noise.sizes), unit_value=self.unit_value)

    def _prior_precision(self, block: Block) -> float:
        """Return the precision of a block from one measurement of the best requested set."""
        block_attribute_indices = {*block_algebra.block_attribute_indices(block)}
        if not block_attribute_indices:
            return 1 / float(max(self.rows_noise.sizes) * self.unit_value) ** 2
        other_cells = min(
            math.prod(self.attributes[place].size for place in requested_set if place not in block_attribute_indices)
            for requested_set in self.sets
            if block_attribute_indices <= {*requested_set}
        )
        return 1 / (other_cells * float(max(self.noise.sizes) * self.unit_value) ** 2)
