"""Running totals are released as noise on a factorisation of them, stored as numbers, and shown as an answer whose rows
are the periods in their order.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.factorisations import Factorisation
from sfumato.mechanisms.noise_sums import continuous_widths, gaussian_widths, laplace_widths
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import ScaledMeasure
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import GroupTotals, Integers
from sfumato.plots.answers import draw_lines
from sfumato.plots.picture import Picture, saved
from sfumato.plots.scales import ChartData
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pictures import foot, keyed, line_chart, notes
from sfumato.release.comparisons import OneReading
from sfumato.release.measurement import Batch
from sfumato.release.parts.scales import ONE_GROUP, GroupKeys
from sfumato.release.payers import NOT_BOUGHT, Purchase, purchase
from sfumato.release.prices import Price

Floats = NDArray[np.float64]


@codec.value("running-noise")
@dataclass(frozen=True)
class RunningNoise:
    """This is the noise of running totals: what is drawn, and how it is put together for each period."""

    factorisation: Factorisation
    mechanism: Additive
    unit_value: Fraction
    """Of one whole number in the totals."""
    lengths: tuple[float, ...]
    """For each period, the length of the weights with which the noises are added up."""
    rounding: Fraction = Fraction(0)
    """How far the total of one period that is measured may lie from the exact one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "rounding", exact(self.rounding, "rounding"))
        object.__setattr__(self, "lengths", tuple(codec.real(each, "lengths") for each in self.lengths))

    @classmethod
    def of(cls, factorisation: Factorisation, mechanism: Additive, scaled: ScaledMeasure) -> RunningNoise:
        lengths = tuple(factorisation.lengths.tolist())
        return cls(factorisation, mechanism, scaled.unit_value, lengths, scaled.rounding)

    def widths(self, confidence: Number = "0.95", together: int = 1) -> Floats:
        """Give the half-width of each period's running total, in the measure's own terms; of so many numbers that are
        to hold together (a union bound). A running total is rounded once for each period that it is made of.
        """
        miss = float(1 - exact(confidence, "confidence", CONFIDENCE)) / together * (1 - 1e-12)
        size = float(self.mechanism.sizes[0]) * (1 + 1e-12)
        if self.mechanism.order == 1:
            found = laplace_widths(self.factorisation.decoder, _standard(self.factorisation, miss), size, miss)
        else:
            found = gaussian_widths(np.array(self.lengths), len(self.factorisation.weights), size, miss)
        return found * float(self.unit_value) + float(self.rounding) * np.arange(1, len(self.lengths) + 1)

    def words(self) -> str:
        """Say in words what is drawn: its size is that of the noise where one row counts one."""
        return f"{self.mechanism.words(self.unit_value / 2**self.factorisation.bits)}, on {self.factorisation.words()}"


@lru_cache(maxsize=64)
def _standard(factorisation: Factorisation, miss: float) -> Floats:
    """Keep the widths for noise of scale 1: they are the same at every price."""
    return continuous_widths(factorisation.decoder, miss)


@codec.value("running-measured")
@dataclass(frozen=True)
class RunningMeasured:
    """This holds noisy running totals with the keys of their rows, and the terms on which they were bought."""

    noise: RunningNoise
    totals: tuple[float, ...]
    """In the measure's own terms: one series after the other, each in the order of its periods."""
    keys: GroupKeys = ONE_GROUP
    purchase: Purchase = NOT_BOUGHT

    def __post_init__(self) -> None:
        object.__setattr__(self, "totals", tuple(codec.real(each, "totals") for each in self.totals))
        if not self.totals or len(self.totals) % len(self.noise.lengths):
            raise InvalidParameter("totals", len(self.totals), "a number for each period of each series")

    @property
    def series(self) -> int:
        return len(self.totals) // len(self.noise.lengths)


@dataclass(frozen=True)
class RunningDraw(OneReading[RunningMeasured]):
    """Running totals are released as noise on whole numbers, of which they are made for each period."""

    batch: Batch
    noise: RunningNoise
    groups: tuple[GroupKey, ...]
    """One series after the other, each in the order of its periods."""
    types: tuple[Type, ...]
    total: Price
    version: str
    reason: str

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """Stored running totals are as good if their worst period is as close, and all of them are on the whole."""
        widths = self.noise.widths()
        return {"worst": _short(widths.max()), "typical": _short(np.sqrt((widths**2).mean()))}

    def made(self, totals: Integers) -> RunningMeasured:
        (measurement,) = self.batch.measurements
        noisy = measurement.draw(measurement.reading.of(totals)).astype(np.float64)
        decoder = self.noise.factorisation.decoder
        running = noisy.reshape(-1, decoder.shape[1]) @ decoder.T * float(self.noise.unit_value)
        terms = purchase([self.batch.bounded], self.total, self.version)
        return RunningMeasured(self.noise, tuple(running.reshape(-1).tolist()), self._keys, terms)

    @property
    def _keys(self) -> GroupKeys:
        return GroupKeys.of(self.groups, self.types)


def _short(number: float) -> str:
    return f"{number:.12g}"


@codec.value("running-answer")
@dataclass(frozen=True, repr=False)
class RunningAnswer(Answer):
    """This is an answer whose rows are periods in their order, with the total of all periods so far."""

    period: str = ""
    """The column of the periods."""

    def plot(self, path: str | None = None) -> Picture:
        """Draw a line with a band for its range, one for each series. The picture shows itself in a notebook; with a
        path (.svg, .png, .html) it is saved, too.
        """
        (column,) = self.intervals
        others = [keyed(name, self.column(name)) for name in self.keys if name != self.period]
        along = keyed(self.period, self.column(self.period))
        charts = [self.chart_data(column)]
        return saved(draw_lines(charts, along, others, foot(self.receipt), notes(charts, self.above)), path)

    def to_altair(self) -> Any:
        """Give the lines and their bands as an Altair chart, to go on drawing with."""
        (column,) = self.intervals
        kind = "Q" if self.types[self.columns.index(self.period)] is Type.INTEGER else "T"
        return line_chart([*self._lines(column)], kind)

    def _lines(self, column: str) -> list[ChartData]:
        whole = self.chart_data(column)
        others = [index for index, name in enumerate(self.columns) if name in self.keys and name != self.period]
        named = [" · ".join(str(row[index]) for index in others) or whole.name for row in self.rows]
        at = [each.isoformat() if isinstance(each, dt.date) else each for each in self.column(self.period)]
        places: dict[str, list[int]] = {}
        for index, name in enumerate(named):
            places.setdefault(name, []).append(index)
        return [
            ChartData(
                name,
                self.period,
                tuple(at[index] for index in rows),
                tuple(whole.values[index] for index in rows),
                tuple(whole.intervals[index] for index in rows),
                (),
            )
            for name, rows in places.items()
        ]
