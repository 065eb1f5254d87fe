"""Several questions are released together: one price, one charge, and one statement where their rows allow it.

Each question keeps its own measurements with its own noise, and what all of them leak is composed (``Batch``). The
draws are independent, so the composition is that of a release whose parameters are fixed in advance: they are decided
from the policy before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.plan.readings.combining import Combined, combined
from sfumato.plan.readings.total_readings import GroupTotals, Integers, Reading
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.release.measured import Measured
from sfumato.release.measurement import Batch
from sfumato.release.releasing import Kind, Read


@codec.value("measured-together")
@dataclass(frozen=True)
class MeasuredTogether:
    """This holds what was drawn for each of several questions, in their order."""

    each: tuple[Measured, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "each", tuple(self.each))
        if not all(isinstance(one, Measured) for one in self.each):
            raise InvalidParameter("each", "something else", "what was drawn for each question")


@dataclass(frozen=True)
class Together:
    """Several kinds of release are one: their measurements are one batch."""

    kinds: tuple[Kind[Measured], ...]

    @cached_property
    def batch(self) -> Batch:
        return Batch(tuple(each for kind in self.kinds for each in kind.batch.measurements))

    @cached_property
    def shared(self) -> tuple[Combined, ...]:
        """Say which readings of totals are made by which statement."""
        return combined([each for each in self._every if isinstance(each, GroupTotals)])

    @property
    def _every(self) -> Sequence[Reading[Any]]:
        return [each for kind in self.kinds for each in kind.readings]

    @property
    def readings(self) -> Sequence[Reading[Any]]:
        others = [each for each in self._every if not isinstance(each, GroupTotals)]
        return [*(each.reading for each in self.shared), *others]

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """It is not looked for as a whole: each question's answer is, by itself."""
        return {}

    def draw(self, read: Read) -> MeasuredTogether:
        totals: dict[GroupTotals, Integers] = {}
        for each in self.shared:
            exact = read(each.reading)
            totals.update({own: exact[:, columns] for own, columns in each.parts})

        def already(reading: Reading[Any]) -> Any:
            if not isinstance(reading, GroupTotals) or reading not in totals:
                return read(reading)
            return totals[reading]

        return MeasuredTogether(tuple(kind.draw(already) for kind in self.kinds))

    def rehearsal(self) -> MeasuredTogether:
        return MeasuredTogether(tuple(kind.rehearsal() for kind in self.kinds))
