"""A fit is all that was released for a model, from which it is computed again, always in the same way.

What was released also says how sure an answer is. Marginals that rounds measured are combined by least squares, with
ranges that hold although earlier noise decided which were measured, and when it ended (``half_widths``, measured
adaptively): for every block a precision is fixed beforehand, that of one measurement of the set, among those asked for,
that shows the block best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.dense_readings import MOST_CELLS
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, exact
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import Block, Set, checked_set
from sfumato.publish.marginals.estimating import MeasuredMarginal, least_squares
from sfumato.publish.marginals.faces import TableFace
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.measuring import largest_sets
from sfumato.publish.mwem import CellView, Model, MwemRound, replayed
from sfumato.release.prices import Price

_MOST_ROUNDS = 1000


@codec.value("mwem-round")
@dataclass(frozen=True)
class FitRound:
    """This is what one round released: the places of the columns that were chosen, which of their cells were counted as
    one (None for each by itself), and the noisy counts in steps.
    """

    places: Set
    cells: tuple[int, ...] | None
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("places", "values", *(() if self.cells is None else ("cells",))):
            found = getattr(self, name)
            if not isinstance(found, (tuple, list)) or any(type(each) is not int for each in found):
                raise InvalidParameter(name, found, "whole numbers")
            object.__setattr__(self, name, tuple(found))


@codec.value("mwem-fit")
@dataclass(frozen=True, eq=False)
class Fit:
    """These are all numbers that were released for a model, and the terms: the model follows from them to the bit."""

    attributes: Attributes
    face: TableFace
    table: str
    where: str
    unit_value: Fraction
    """What one step of the counts is worth, in rows."""
    sets: tuple[Set, ...]
    """The marginals that were asked for, each cell by itself."""
    rows: int
    """The noisy number of rows, in steps."""
    rows_noise: Additive
    choice: Exponential
    noise: Additive
    rounds: tuple[FitRound, ...]
    planned: int
    """How many rounds were paid for; fewer were run where it was interrupted."""
    textbook: bool
    price: Price

    def __post_init__(self) -> None:
        codec.check_fields(self)
        noise = type(self.rows_noise)
        kinds: dict[str, type] = {
            "face": TableFace,
            "rows_noise": noise,
            "noise": noise,
            "price": Price,
            "choice": Exponential,
        }
        for name, kind in kinds.items():
            if noise not in (Gaussian, Laplace) or not isinstance(getattr(self, name), kind):
                raise InvalidParameter(name, getattr(self, name), "what a model is fitted with")
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "rounds", tuple(self.rounds))
        whole = all(isinstance(each, Attribute) for each in self.attributes) and self.attributes
        if not whole or math.prod(each.size for each in self.attributes) > MOST_CELLS:
            raise InvalidParameter("attributes", len(self.attributes), f"columns of at most {MOST_CELLS:,} cells")
        object.__setattr__(self, "sets", tuple(checked_set(tuple(each), self.attributes) for each in self.sets))
        if not all(isinstance(each, FitRound) for each in self.rounds):
            raise InvalidParameter("rounds", len(self.rounds), "rounds of a model")
        if not len(self.rounds) <= self.planned <= _MOST_ROUNDS:
            raise InvalidParameter("planned", self.planned, f"at most {_MOST_ROUNDS:,}, and all rounds that were run")
        for each in self.rounds:
            self._check(each)

    def _check(self, found: FitRound) -> None:
        sizes = [self.attributes[place].size for place in checked_set(found.places, self.attributes)]
        cells, most = found.cells, math.prod(sizes)
        if len(found.values) != (most if cells is None else 1):
            raise InvalidParameter("rounds", len(found.values), "as many counts as a round measures")
        if cells is not None and (not cells or list(cells) != sorted({*cells} & {*range(most)})):
            raise InvalidParameter("rounds", cells[:3], f"different cells from 0 to {most - 1}, rising")

    @property
    def model(self) -> Model:
        """Compute the model again, always in the same way."""
        shape = tuple(each.size for each in self.attributes)
        start = Model.uniform(shape, self.rows, self.planned, textbook=self.textbook)
        return replayed(start, (MwemRound(CellView(each.places, each.cells), each.values) for each in self.rounds))

    @property
    def known(self) -> SynopsisEstimates:
        """Combine what was measured: the number of rows, and every marginal that rounds measured as a whole."""
        measured = [self._measured((), (self.rows,), self.rows_noise)]
        measured += [self._measured(each.places, each.values, self.noise) for each in self.rounds if each.cells is None]
        estimates = least_squares(self.attributes, (), measured)
        sets = largest_sets([each.places for each in measured])
        return SynopsisEstimates(estimates, sets, {block: self._eta(block) for block in estimates.parts})

    def _measured(self, places: Set, values: tuple[int, ...], noise: Additive) -> MeasuredMarginal:
        shape = tuple(self.attributes[place].size for place in places)
        found = np.array(values, np.int64).reshape(shape)
        return MeasuredMarginal(places, found, max(noise.sizes), unit_value=self.unit_value)

    def _eta(self, block: Block) -> float:
        """Give the precision that a block would have from one measurement of the best set that was asked for."""
        own = {*block_algebra.places(block)}
        if not own:
            return 1 / float(max(self.rows_noise.sizes) * self.unit_value) ** 2
        rest = min(
            math.prod(self.attributes[place].size for place in each if place not in own)
            for each in self.sets
            if own <= {*each}
        )
        return 1 / (rest * float(max(self.noise.sizes) * self.unit_value) ** 2)
