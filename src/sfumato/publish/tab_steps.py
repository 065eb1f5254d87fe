"""A series of choices and measurements runs on a tab: each step is a complete release of one measurement.

A step is charged before it reads. What it shows is its noisy counts, or the place of its choice: never a score, never
an exact count, not even of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np

from sfumato.caching import cached_property
from sfumato.engine.seam import OpenReading, Reader, Unheld
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.cell_rows import CellCounts, SetMisfits
from sfumato.plan.readings.dense_readings import Counted, Misfits
from sfumato.plan.readings.total_readings import E, Integers, PlanReading
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.releasing import Read

T = TypeVar("T")


@codec.value("mwem-choice")
@dataclass(frozen=True)
class Choice:
    """This is the place of the candidate that was chosen in one step."""

    place: int

    def __post_init__(self) -> None:
        if type(self.place) is not int or self.place < 0:
            raise InvalidParameter("place", self.place, "a whole number ≥ 0")


@dataclass(frozen=True)
class MeasureStep(Generic[T]):
    """This releases all counts of a view with noise, as one step; of no columns, the number of rows."""

    view: Counted | CellCounts
    noise: Additive
    shown: Callable[[Integers], T]
    """Makes what is written down of the noisy counts."""

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.view, self.noise),))

    @property
    def readings(self) -> tuple[PlanReading[Any]]:
        return (self.view.reading,)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> T:
        (only,) = self.batch.measurements
        return self.shown(only.draw(self.view.of(read(self.readings[0]))))

    def rehearsal(self) -> T:
        return self.shown(np.full(self.view.size, LARGEST_INTEGER, np.int64))


@dataclass(frozen=True)
class ChooseStep:
    """This releases the place of one candidate, as one step."""

    scores: Misfits | SetMisfits
    mechanism: Exponential

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.scores, self.mechanism),))

    @property
    def readings(self) -> tuple[PlanReading[Any]]:
        return (self.scores.views[0].reading,)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> Choice:
        (only,) = self.batch.measurements
        return Choice(int(only.draw(self.scores.of(read(self.readings[0])))))

    def rehearsal(self) -> Choice:
        return Choice(LARGEST_INTEGER)


class ReadOnce:
    """This reads rows in the first step, once it is charged; later steps, each charged before, get the same counts."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine
        self._found: dict[Any, Any] = {}

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        missing = [each for each in readings if each not in self._found]
        return _Once(self, self._engine.check(*missing)) if missing else Unheld(self)

    def read(self, reading: PlanReading[E], key: int) -> E:
        return self.kept(reading, key, self._engine)

    def kept(self, reading: PlanReading[E], key: int, source: Reader | OpenReading) -> E:
        """Give what was read before, or read it now from this source and keep it."""
        if reading not in self._found:
            self._found[reading] = source.read(reading, key)
        found: E = self._found[reading]
        return found

    def interrupt(self, token: int | None = None) -> None:
        self._engine.interrupt(token)


@dataclass(frozen=True)
class _Once:
    """This reads what a step was charged for, on what its check bound, and keeps it for later steps."""

    steps: ReadOnce
    opened: OpenReading

    def read(self, reading: PlanReading[E], key: int) -> E:
        return self.steps.kept(reading, key, self.opened)

    def close(self) -> None:
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
