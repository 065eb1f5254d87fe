"""A question is compared with the noisy threshold of an open session: only "above" or "below" is released.

Theorem. What an observer sees of a session is what its mechanism says (``mechanisms.sparse``), answer by answer, with
some answers left out. Each question is chosen from what was seen before, one unit moves it by at most what the
mechanism was charged for (``Measurement`` refuses any other), and the mechanism answers it at most once. So the whole
is a post-processing of the sparse vector technique with adaptive questions (Lyu, Su & Li 2017, Thm 4). ∎

A question that is stopped before the mechanism is asked has used up nothing. One that is stopped after it has used up
what its answer did, which is left out of what is seen. One that is stopped while the mechanism answers ends the
session, so that no "above" is ever given beyond those that were counted.

Many kinds of release read the totals of known groups once, and make all that they show from these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import AboveThreshold, Laplace, Session
from sfumato.plan.readings.total_readings import GroupTotals, Integers
from sfumato.plan.readings.value_readings import SteppedTotal
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact, shown
from sfumato.release.answers.receipts import INVENTED
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.releasing import Read


@codec.value("compared")
@dataclass(frozen=True)
class ThresholdAnswer:
    """A question of a session was answered: it is, noisily, above the threshold, or below it.

    It is true where it is above. Where values are paid for, an "above" comes with the noisy value.
    """

    above: bool
    value: Fraction | None = None
    noise: Laplace | None = field(default=None, repr=False)
    """The noise on the value, in steps,"""
    step: Fraction = field(default=Fraction(1), repr=False)
    """what one step is worth,"""
    rounding: Fraction = field(default=Fraction(0), repr=False)
    """and what rounding down to steps may have taken away."""
    rehearsed: bool = False
    """Whether it was invented from the policy alone."""

    def __post_init__(self) -> None:
        for name in ("value", "step", "rounding"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None and name == "value" else exact(given, name))
        codec.check_fields(self)
        if (self.value is None) is not (self.noise is None) or (self.value is not None and not self.above):
            raise InvalidParameter("value", self.value, 'given with its noise, and only with an "above"')

    def error(self, confidence: Number = "0.95") -> Fraction | None:
        """The exact value is within this of the noisy one, with this confidence; None without a value."""
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
        mark = INVENTED if self.rehearsed else ""
        if self.value is None:
            return f"{'above' if self.above else 'below'}{mark}"
        return f"above, {shown(float(self.value), 6)} ± {shown(float(self.error() or 0), 6)}{mark}"

    __repr__ = __str__


@dataclass(frozen=True)
class ThresholdComparison:
    """A question of a session is released as what the open session says of it."""

    reading: GroupTotals
    compared: SteppedTotal
    mechanism: AboveThreshold
    session: Session = field(repr=False)

    @property
    def batch(self) -> Batch:
        return Batch((Measurement(self.compared, self.mechanism),))

    @property
    def good_enough(self) -> Mapping[str, Number]:
        return {}

    @property
    def readings(self) -> tuple[GroupTotals]:
        return (self.reading,)

    def draw(self, read: Read) -> ThresholdAnswer:
        exactly = int(self.compared.of(read(self.reading))[0, 0])
        try:
            above = self.session.ask(exactly)
            return self._said(above, self.session.value)
        except BaseException:  # half an answer may have been counted, or not: nothing more is said
            self.session.close()
            raise

    def rehearsal(self) -> ThresholdAnswer:
        return self._said(True, LARGEST_INTEGER)

    def _said(self, above: bool, value: int | None) -> ThresholdAnswer:
        if not above or self.mechanism.values_epsilon is None or value is None:
            return ThresholdAnswer(above)
        noise, step = Laplace(self.mechanism.scales[2]), self.compared.grid
        return ThresholdAnswer(above, value * step, noise, step, self.compared.rounding)


T = TypeVar("T", covariant=True)


class OneReading(ABC, Generic[T]):
    """This is a release of one reading: it says what is read and what is made of the totals."""

    @property
    @abstractmethod
    def reading(self) -> GroupTotals:
        """Say what is read."""

    @abstractmethod
    def made(self, totals: Integers) -> T:
        """Draw what is written down: measurements on these totals, and nothing else."""

    @property
    def readings(self) -> tuple[GroupTotals]:
        return (self.reading,)

    def draw(self, read: Read) -> T:
        return self.made(read(self.reading))

    def rehearsal(self) -> T:
        """Try what becomes of the largest totals there can be."""
        return self.made(np.full(self.reading.shape, LARGEST_INTEGER, np.int64))
