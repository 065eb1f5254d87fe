"""Steps of an adaptive release on a tab: each is a complete release of one measurement or one choice.

A step is charged before it reads. It releases noisy counts, or the index of its choice: never a score, never an exact
count, not even of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Generic, Self, TypeVar

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.engine.protocols import OpenReading, Reader, StatelessReading
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Quantiles
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.cell_rows import CellCounts, ColumnSetDistances, RanksOfCells
from sfumato.plan.readings.dense_readings import CountDistances, MarginalView
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.releasing import Read

T = TypeVar("T")


@codec.serialisable("mwem-choice")
@dataclass(frozen=True)
class ChosenCandidate:
    """The index of the candidate that was chosen in one step."""

    index: int = field(metadata=codec.stored_name_metadata("place"))

    def __post_init__(self) -> None:
        if type(self.index) is not int or self.index < 0:
            raise InvalidParameter("index", self.index, "a whole number ≥ 0")


@dataclass(frozen=True)
class MeasureStep(Generic[T]):
    """A step that releases all counts of a view with noise; for a view of no columns, the number of rows."""

    view: MarginalView | CellCounts
    noise: Additive
    to_outcome: Callable[[Integers], T]
    """Converts the noisy counts to the outcome that is recorded."""

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.view, self.noise),))

    @property
    def readings(self) -> tuple[PlanReading[Any]]:
        return (self.view.reading,)

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> T:
        (measurement,) = self.batch.measurements
        return self.to_outcome(measurement.draw(self.view.extract(read(self.readings[0]))))

    def result_at_extreme_totals(self) -> T:
        return self.to_outcome(np.full(self.view.size, LARGEST_INTEGER, np.int64))


@dataclass(frozen=True)
class ChooseStep:
    """A step that releases the index of one candidate."""

    scores: CountDistances | ColumnSetDistances
    mechanism: Exponential

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.scores, self.mechanism),))

    @property
    def readings(self) -> tuple[PlanReading[Any]]:
        return (self.scores.views[0].reading,)

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> ChosenCandidate:
        (measurement,) = self.batch.measurements
        return ChosenCandidate(int(measurement.draw(self.scores.extract(read(self.readings[0])))))

    def result_at_extreme_totals(self) -> ChosenCandidate:
        return ChosenCandidate(LARGEST_INTEGER)


@codec.serialisable("chosen-cells")
@dataclass(frozen=True)
class QuantileCells:
    """The indices of the cells of a column that were selected as its quantiles, rising."""

    cells: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(self.cells))
        if not all(type(cell) is int and cell >= 0 for cell in self.cells):
            raise InvalidParameter("cells", self.cells[:3], "a list of whole numbers ≥ 0")


@dataclass(frozen=True)
class ChooseQuantileCellsStep:
    """A step that releases which cells of an ordered column are its quantiles."""

    ranks: RanksOfCells
    mechanism: Quantiles

    @cached_property
    def batch(self) -> Batch:
        return Batch((Measurement(self.ranks, self.mechanism),))

    @property
    def readings(self) -> tuple[PlanReading[Any]]:
        return (self.ranks.reading,)

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        return {}

    def draw(self, read: Read) -> QuantileCells:
        counts = self.ranks.extract(read(self.readings[0]))
        return QuantileCells(tuple(self.mechanism.choose_histogram(np.arange(counts.size), counts)))

    def result_at_extreme_totals(self) -> QuantileCells:
        return QuantileCells((LARGEST_INTEGER,) * len(self.mechanism.probabilities))


class CachingReader:
    """A reader that reads rows in the first step, once it is charged; later steps, each charged before, reuse the
    counts.
    """

    def __init__(self, engine: Reader) -> None:
        self._engine = engine
        self._results: dict[Any, Any] = {}

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        missing = [reading for reading in readings if reading not in self._results]
        return _CachingReading(self, self._engine.check(*missing)) if missing else StatelessReading(self)

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        return self.read_cached(reading, sampling_key, self._engine)

    def read_cached(self, reading: PlanReading[E], sampling_key: int, source: Reader | OpenReading) -> E:
        """Return the cached result of a reading, or read it now from this source and cache it."""
        if reading not in self._results:
            self._results[reading] = source.read(reading, sampling_key)
        result: E = self._results[reading]
        return result

    def interrupt(self, token: int | None = None) -> None:
        self._engine.interrupt(token)


@dataclass(frozen=True)
class _CachingReading:
    """An open reading that reads what a step was charged for, and caches it for later steps."""

    caching_reader: CachingReader
    opened: OpenReading

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        return self.caching_reader.read_cached(reading, sampling_key, self.opened)

    def close(self) -> None:
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
