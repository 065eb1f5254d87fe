"""Everything that a synthesis released, as one value: noisy marginals, round by round, and the terms of the purchase.

The model is not part of it: it is deterministic post-processing of these numbers.
"""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, exact
from sfumato.publish.marginals.attributes import BARE, Attribute, Attributes, PublicTableFacts
from sfumato.publish.marginals.blocks import AttributeSet, parse_attribute_indices
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.marginals.measuring import decode_integers, encode_integers, require_integer_count
from sfumato.quick_dataclass import dataclass
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms
from sfumato.release.prices import Price

METHODS = ("aim", "mst", "mwem", "independent")


@codec.serialisable("released-marginal")
@dataclass(frozen=True)
class ReleasedMarginal:
    """A whole marginal with independent noise in every cell, as one step released it."""

    attribute_set: tuple[int, ...] = field(metadata=codec.stored_name_metadata("places"))
    values: str
    """64-bit little-endian integers of steps, in base64."""
    size: Fraction
    """The deviation of Gaussian noise or the scale of Laplace noise, in steps."""
    laplace: bool = False

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "attribute_set", tuple(self.attribute_set))
        object.__setattr__(self, "size", exact(self.size, "size", POSITIVE))

    @classmethod
    def encode(cls, measured: MeasuredMarginal) -> ReleasedMarginal:
        """Encode a measured marginal."""
        return cls(measured.attribute_set, encode_integers(measured.values), measured.size, measured.laplace)

    def measured(self, attributes: Attributes, unit_value: Fraction) -> MeasuredMarginal:
        """Decode the measured marginal."""
        shape = tuple(attributes[attribute_index].size for attribute_index in self.attribute_set)
        return MeasuredMarginal(
            self.attribute_set, decode_integers(self.values).reshape(shape), self.size, self.laplace, unit_value
        )


@codec.serialisable("synthesis-round")
@dataclass(frozen=True)
class SynthesisRound:
    """One round: the columns that were measured, why, at what cost, and how much the model learned from it."""

    columns: tuple[str, ...]
    what: str
    """"first" for what is measured in any case, "chosen" for what a choice selected."""
    price: str
    gain: float = 0.0
    """The rows that the round moved to other cells of these columns in the model: half the sum of all differences."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "gain", codec.parse_float(self.gain, "gain"))


@codec.serialisable("implied-column")
@dataclass(frozen=True)
class ImpliedColumn:
    """A column outside the model whose cell is decided by the cell of another column."""

    attribute: Attribute
    by: int
    """The index of the deciding column in the model."""
    cells: tuple[int, ...]
    """The cell of this column for each cell of the deciding one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(self.cells))
        are_valid = all(type(cell) is int and 0 <= cell < self.attribute.size for cell in self.cells)
        if type(self.by) is not int or not are_valid:
            raise InvalidParameter("cells", self.cells[:3], "the cells of the determined column")


@codec.serialisable("bought-cells")
@dataclass(frozen=True)
class BoughtCells:
    """How the cells of a column were chosen."""

    column: str
    words: str
    noise: Fraction | None = None
    """The deviation or scale of the noise that values were compared with, in steps; None for quantiles."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "noise", None if self.noise is None else exact(self.noise, "noise", POSITIVE))


@codec.serialisable("synthesized")
@dataclass(frozen=True, eq=False)
class ReleasedSynthesis:
    """All that a synthesis released of a table, and the terms: enough to fit its model again."""

    method: str
    attributes: Attributes
    """The columns of the model, in their order."""
    marginals: tuple[ReleasedMarginal, ...]
    """In the order in which they were measured; the first has no columns: it is the noisy number of rows."""
    rounds: tuple[SynthesisRound, ...]
    """One for each marginal but the first."""
    total: float
    """n̂, the number of rows, from everything that was released."""
    planned: int
    """The number of rounds planned at first; halved noise and interrupts make them fewer."""
    unit_value: Fraction = Fraction(1)
    """The rows that one step of the counts stands for."""
    table: str = ""
    where: str = ""
    purchase: PurchaseTerms = NOT_BOUGHT
    price: Price | None = None
    face: PublicTableFacts = BARE
    implied: tuple[ImpliedColumn, ...] = ()
    max_cells: int = field(default=1 << 18, metadata=codec.stored_name_metadata("most_cells"))
    """The most cells that the model may have."""
    complete: bool = True
    """Whether all that was planned was measured; False if the synthesis was ended before."""
    bought_cells: tuple[BoughtCells, ...] = ()
    """How cells were chosen that the policy does not declare, after the number of rows and before the rest."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if self.method not in METHODS:
            raise InvalidParameter("method", self.method, f"one of {', '.join(METHODS)}")
        object.__setattr__(self, "total", codec.parse_float(self.total, "total"))
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        if not 0 < self.total < math.inf:
            raise InvalidParameter("total", self.total, "a finite number of rows above 0")
        if len(self.rounds) != max(0, len(self.marginals) - 1):
            raise InvalidParameter(
                "rounds",
                len(self.rounds),
                "a list with one round for each marginal but the first, which is the number of rows",
            )
        for marginal in self.marginals:
            cells = math.prod(
                self.attributes[attribute_index].size
                for attribute_index in parse_attribute_indices(marginal.attribute_set, self.attributes)
            )
            require_integer_count("marginals", marginal.values, cells)

    @cached_property
    def measured(self) -> tuple[MeasuredMarginal, ...]:
        """The marginals with their noise, as they are combined; the number of rows is the first."""
        return tuple(marginal.measured(self.attributes, self.unit_value) for marginal in self.marginals)

    @property
    def noise_sizes(self) -> list[Fraction]:
        """The sizes of all noise that was added, in the order of the steps."""
        rows, *others = [marginal.size for marginal in self.marginals]
        return [rows, *(cells.noise for cells in self.bought_cells if cells.noise is not None), *others]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the model, in their order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def sets(self) -> tuple[AttributeSet, ...]:
        """The distinct sets of columns that were measured, in order."""
        return tuple(dict.fromkeys(marginal.attribute_set for marginal in self.marginals if marginal.attribute_set))

    @property
    def has_laplace_noise(self) -> bool:
        """Whether the noise is Laplace noise: the price was pure."""
        return self.marginals[0].laplace if self.marginals else False
