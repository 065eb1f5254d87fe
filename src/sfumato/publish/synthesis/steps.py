"""Every step of a synthesis measures one marginal, or chooses one set of columns among the candidates."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.plan.readings.total_readings import Integers
from sfumato.privacy import codec
from sfumato.publish.marginals.measuring import packed, unpacked
from sfumato.publish.tab_steps import Choice, ChooseStep, MeasureStep


@codec.value("noisy-cells")
@dataclass(frozen=True)
class NoisyCells:
    """These are the noisy counts of one marginal, in whole steps, as one step released them."""

    values: str
    """64-bit whole numbers, the lowest byte first, in base64."""

    def __post_init__(self) -> None:
        codec.check_fields(self)

    @classmethod
    def of(cls, counts: Integers) -> NoisyCells:
        return cls(packed(counts))

    @property
    def counts(self) -> Integers:
        return unpacked(self.values)


Step = MeasureStep[NoisyCells] | ChooseStep
Outcome = NoisyCells | Choice
