"""One value holds everything that a synthesis released: noisy marginals, round by round, and the terms of the purchase.

The model is not part of it: it is fitted to these numbers alone, always in the same way, for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, exact
from sfumato.publish.marginals.attributes import Attribute, Attributes
from sfumato.publish.marginals.blocks import Set, checked_set
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.marginals.faces import BARE, TableFace
from sfumato.publish.marginals.measuring import packed, unpacked
from sfumato.release.payers import NOT_BOUGHT, Purchase
from sfumato.release.prices import Price

METHODS = ("aim", "mst", "mwem", "independent")


@codec.value("released-marginal")
@dataclass(frozen=True)
class ReleasedMarginal:
    """This is a whole marginal with independent noise in every cell, as one step released it."""

    places: tuple[int, ...]
    values: str
    """64-bit whole numbers of steps, the lowest byte first, in base64."""
    size: Fraction
    """The deviation of Gaussian noise or the scale of Laplace noise, in steps."""
    laplace: bool = False

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "places", tuple(self.places))
        object.__setattr__(self, "size", exact(self.size, "size", POSITIVE))

    @classmethod
    def of(cls, measured: MeasuredMarginal) -> ReleasedMarginal:
        """Write one down."""
        return cls(measured.places, packed(measured.values), measured.size, measured.laplace)

    def measured(self, attributes: Attributes, unit_value: Fraction) -> MeasuredMarginal:
        """Read it back."""
        shape = tuple(attributes[place].size for place in self.places)
        return MeasuredMarginal(self.places, unpacked(self.values).reshape(shape), self.size, self.laplace, unit_value)


@codec.value("synthesis-round")
@dataclass(frozen=True)
class SynthesisRound:
    """This is one round: which columns were measured, why, what it cost, and how much the model learned from it."""

    columns: tuple[str, ...]
    what: str
    """"first" of what is measured in any case, "chosen" of what a choice named."""
    price: str
    gain: float = 0.0
    """How many rows the round moved to other cells of these columns in the model: half the sum of all differences."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "gain", codec.real(self.gain, "gain"))


@codec.value("implied-column")
@dataclass(frozen=True)
class ImpliedColumn:
    """This column is not in the model: the cell of another one decides its cell."""

    attribute: Attribute
    by: int
    """The place of the deciding column among the model's,"""
    cells: tuple[int, ...]
    """and for each of its cells the cell of this one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(self.cells))
        known = all(type(each) is int and 0 <= each < self.attribute.size for each in self.cells)
        if type(self.by) is not int or not known:
            raise InvalidParameter("cells", self.cells[:3], "cells of the column that is decided")


@codec.value("synthesized")
@dataclass(frozen=True, eq=False)
class Synthesized:
    """This is all that a synthesis released of a table, and the terms: enough to fit its model anew at any time."""

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
    """How many rounds the price was meant for at first; noise that is halved makes them fewer, what is interrupted
    too."""
    unit_value: Fraction = Fraction(1)
    """What one step of the counts stands for, in rows."""
    table: str = ""
    where: str = ""
    purchase: Purchase = NOT_BOUGHT
    price: Price | None = None
    face: TableFace = BARE
    implied: tuple[ImpliedColumn, ...] = ()
    most_cells: int = 1 << 18
    """How many cells the model may have."""
    complete: bool = True
    """Whether all that was planned was measured, or it was ended before."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if self.method not in METHODS:
            raise InvalidParameter("method", self.method, f"one of {', '.join(METHODS)}")
        object.__setattr__(self, "total", codec.real(self.total, "total"))
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        if len(self.rounds) != max(0, len(self.marginals) - 1) or not 0 < self.total < math.inf:
            raise InvalidParameter("rounds", len(self.rounds), "one for each marginal after the number of rows")
        for each in self.marginals:
            cells = math.prod(self.attributes[place].size for place in checked_set(each.places, self.attributes))
            if len(each.values) != -(-8 * cells // 3) * 4:
                raise InvalidParameter("marginals", len(each.values), f"8 bytes for each of {cells} cells")

    @cached_property
    def measured(self) -> tuple[MeasuredMarginal, ...]:
        """Give the marginals with their noise, as they are combined; the number of rows is the first."""
        return tuple(each.measured(self.attributes, self.unit_value) for each in self.marginals)

    @property
    def columns(self) -> tuple[str, ...]:
        """List the columns of the model, in their order."""
        return tuple(each.name for each in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Count the cells of each column."""
        return tuple(each.size for each in self.attributes)

    @property
    def sets(self) -> tuple[Set, ...]:
        """List the different sets of columns that were measured, in order."""
        return tuple(dict.fromkeys(each.places for each in self.marginals if each.places))

    @property
    def laplace(self) -> bool:
        """Tell whether the noise was Laplace's: the price was pure."""
        return self.marginals[0].laplace if self.marginals else False
