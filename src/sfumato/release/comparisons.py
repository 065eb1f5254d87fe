"""Compare questions with the noisy threshold of an open session: only "above" or "below" is released.

Theorem. An observer of a session sees the output of its mechanism (``mechanisms.sparse``), answer by answer, with some
answers left out. Each question is chosen from earlier output, its sensitivity is at most what the mechanism was charged
for (``Measurement`` refuses any other), and the mechanism answers it at most once. So the whole is a post-processing of
the sparse vector technique with adaptive questions (Lyu, Su & Li 2017, Thm 4). ∎

A question that is stopped before the mechanism runs uses up nothing. One that is stopped after it uses up what its
answer did, and the answer is not shown. One that is stopped while the mechanism runs ends the session, so that there is
never an "above" beyond those that were counted.

``GroupTotalsRelease`` is the base of the release kinds that read the totals of known groups once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from sfumato.array_types import Integers
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import AboveThreshold, Laplace, Session
from sfumato.plan.readings.dense_readings import SteppedTotal
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number, exact, format_number
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import PREVIEW_MARK
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.releasing import Read


@codec.serialisable("compared")
@dataclass(frozen=True)
class ThresholdAnswer:
    """The answer to a question of a session: noisily above the threshold, or below it.

    It is truthy for "above". In a session that pays for values, an "above" carries the noisy value.
    """

    above: bool
    value: Fraction | None = None
    noise: Laplace | None = field(default=None, repr=False)
    """The noise on the value, in steps."""
    step: Fraction = field(default=Fraction(1), repr=False)
    """The value of one step."""
    rounding: Fraction = field(default=Fraction(0), repr=False)
    """The most that rounding down to steps may have taken away."""
    is_preview: bool = field(default=False, metadata=codec.stored_name_metadata("rehearsed"))
    """Whether it was invented from the policy alone."""

    def __post_init__(self) -> None:
        for name in ("value", "step", "rounding"):
            number = getattr(self, name)
            object.__setattr__(self, name, None if number is None and name == "value" else exact(number, name))
        codec.check_simple_fields(self)
        if (self.value is None) is not (self.noise is None):
            rule = "None, because no noise is given" if self.noise is None else "a number, because its noise is given"
            raise InvalidParameter("value", self.value, rule)
        if self.value is not None and not self.above:
            raise InvalidParameter("value", self.value, 'None, because "above" is False')

    def error(self, confidence: Number = DEFAULT_CONFIDENCE) -> Fraction | None:
        """Return the half-width of the noisy value at this confidence; None without a value."""
        return None if self.noise is None else self.noise.error(confidence) * self.step + self.rounding

    def to_json(self) -> str:
        """Write the answer as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> ThresholdAnswer:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __bool__(self) -> bool:
        return self.above

    def __str__(self) -> str:
        mark = PREVIEW_MARK if self.is_preview else ""
        if self.value is None:
            return f"{'above' if self.above else 'below'}{mark}"
        return f"above, {format_number(float(self.value), 6)} ± {format_number(float(self.error() or 0), 6)}{mark}"

    __repr__ = __str__


@dataclass(frozen=True)
class ThresholdComparison:
    """A release of one question of an open session."""

    reading: GroupTotals
    compared_total: SteppedTotal
    mechanism: AboveThreshold
    session: Session = field(repr=False)

    @property
    def batch(self) -> Batch:
        return Batch((Measurement(self.compared_total, self.mechanism),))

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return {}

    @property
    def readings(self) -> tuple[GroupTotals]:
        return (self.reading,)

    def draw(self, read: Read) -> ThresholdAnswer:
        exact_steps = int(self.compared_total.extract(read(self.reading))[0, 0])
        try:
            above = self.session.ask(exact_steps)
            return self._build_answer(above, self.session.value)
        except BaseException:  # the answer may have been counted or not, so the session ends
            self.session.close()
            raise

    def result_at_extreme_totals(self) -> ThresholdAnswer:
        return self._build_answer(True, LARGEST_INTEGER)

    def _build_answer(self, above: bool, value: int | None) -> ThresholdAnswer:
        if not above or self.mechanism.values_epsilon is None or value is None:
            return ThresholdAnswer(above)
        noise, step = Laplace(self.mechanism.scales[2]), self.compared_total.grid
        return ThresholdAnswer(above, value * step, noise, step, self.compared_total.rounding)


T = TypeVar("T", covariant=True)


class GroupTotalsRelease(ABC, Generic[T]):
    """A release of one reading of totals: subclasses define the reading and the result."""

    @property
    @abstractmethod
    def reading(self) -> GroupTotals:
        """The totals that the engine reads."""

    @abstractmethod
    def draw_from(self, totals: Integers) -> T:
        """Draw the result from measurements of these totals, and nothing else."""

    @property
    def readings(self) -> tuple[GroupTotals]:
        return (self.reading,)

    def draw(self, read: Read) -> T:
        return self.draw_from(read(self.reading))

    def result_at_extreme_totals(self) -> T:
        """Return the result for the largest possible totals."""
        return self.draw_from(np.full(self.reading.shape, LARGEST_INTEGER, np.int64))
