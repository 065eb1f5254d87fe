"""Every step of a synthesis is a complete release: it measures one marginal, or it chooses one set of columns.

A step is charged before it reads. What it shows is its noisy cells, or the place of its choice: never a score, never an
exact count, not even of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.caching import cached_property
from sfumato.mechanisms import Exponential
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.cell_rows import CellCounts, CellRows, SetMisfits
from sfumato.plan.readings import Integers
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.publish.measuring import packed, unpacked
from sfumato.publish.mwem import Choice
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.releasing import Read


@codec.value("noisy-cells")
@dataclass(frozen=True)
class NoisyCells:
    """These are the noisy counts of one marginal, in whole steps, as one step released them."""

    values: str
    """64-bit whole numbers, the lowest byte first, in base64."""

    def __post_init__(self) -> None:
        codec.check_fields(self)

    @property
    def counts(self) -> Integers:
        return unpacked(self.values)


@dataclass(frozen=True)
class MeasureStep:
    """This releases all cells of one marginal with noise; of no columns, the number of rows."""

    view: CellCounts
    noise: Additive

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.view, self.noise),))

    @property
    def readings(self) -> tuple[CellRows]:
        return (self.view.reading,)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> NoisyCells:
        (only,) = self.batch.measurements
        return NoisyCells(packed(only.draw(self.view.of(read(self.view.reading)))))

    def rehearsal(self) -> NoisyCells:
        return NoisyCells(packed(np.full(self.view.size, LARGEST_INTEGER, np.int64)))


@dataclass(frozen=True)
class ChooseStep:
    """This releases the place of one set of columns among the candidates."""

    scores: SetMisfits
    mechanism: Exponential

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.scores, self.mechanism),))

    @property
    def readings(self) -> tuple[CellRows]:
        return (self.scores.views[0].reading,)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> Choice:
        (only,) = self.batch.measurements
        return Choice(int(only.draw(self.scores.of(read(self.readings[0])))))

    def rehearsal(self) -> Choice:
        return Choice(LARGEST_INTEGER)


Step = MeasureStep | ChooseStep
Outcome = NoisyCells | Choice
