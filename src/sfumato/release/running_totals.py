"""Release running totals by matrix factorisation: noise on the encoded totals, decoded to one total per period.

The answer's rows are the periods in their order.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.errors import InvalidParameter
from sfumato.mechanisms.factorisations import Factorisation
from sfumato.mechanisms.noise_sums import continuous_widths, gaussian_widths, laplace_widths
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import ScaledMeasure
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plots.answers import draw_lines
from sfumato.plots.frame import ChartData
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pictures import altair_line_chart, caption_lines, key_column, mark_notes
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch
from sfumato.release.parts.scales import ONE_GROUP, GroupKeys
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import Price


@codec.serialisable("running-noise")
@dataclass(frozen=True)
class RunningNoise:
    """The noise of running totals: a factorisation, and the mechanism applied to its encoded totals."""

    factorisation: Factorisation
    mechanism: Additive
    unit_value: Fraction
    """What one integer step of the totals is worth."""
    lengths: tuple[float, ...]
    """For each period, the L2 norm of its row of the decoder."""
    rounding: Fraction = Fraction(0)
    """The largest rounding error of one measured period's total."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value"))
        object.__setattr__(self, "rounding", exact(self.rounding, "rounding"))
        object.__setattr__(self, "lengths", tuple(codec.parse_float(length, "lengths") for length in self.lengths))

    @classmethod
    def from_factorisation(
        cls, factorisation: Factorisation, mechanism: Additive, scaled: ScaledMeasure
    ) -> RunningNoise:
        lengths = tuple(factorisation.decoder_row_norms.tolist())
        return cls(factorisation, mechanism, scaled.unit_value, lengths, scaled.rounding)

    def widths(self, confidence: Number = DEFAULT_CONFIDENCE, together: int = 1) -> Floats:
        """Return the half-width of each period's running total, in the measure's own unit.

        ``together`` many totals hold simultaneously (a union bound). A running total is rounded once per summed period.
        """
        failure_probability = float(1 - exact(confidence, "confidence", CONFIDENCE)) / together * (1 - 1e-12)
        scale = float(self.mechanism.sizes[0]) * (1 + 1e-12)
        if self.mechanism.order == 1:
            noise_widths = laplace_widths(
                self.factorisation.decoder,
                _unit_scale_widths(self.factorisation, failure_probability),
                scale,
                failure_probability,
            )
        else:
            noise_widths = gaussian_widths(
                np.array(self.lengths), len(self.factorisation.weights), scale, failure_probability
            )
        return noise_widths * float(self.unit_value) + float(self.rounding) * np.arange(1, len(self.lengths) + 1)

    def words(self) -> str:
        """Describe the noise, with its size in units of one row."""
        return f"{self.mechanism.words(self.unit_value / 2**self.factorisation.bits)}, on {self.factorisation.words()}"


@lru_cache(maxsize=64)
def _unit_scale_widths(factorisation: Factorisation, failure_probability: float) -> Floats:
    """Cache the widths for noise of scale 1, which do not depend on the price."""
    return continuous_widths(factorisation.decoder, failure_probability)


@codec.serialisable("running-measured")
@dataclass(frozen=True)
class NoisyRunningTotals:
    """Noisy running totals with the keys of their rows, and the terms of their purchase."""

    noise: RunningNoise
    totals: tuple[float, ...]
    """In the measure's own unit: one series after the other, each in the order of its periods."""
    keys: GroupKeys = ONE_GROUP
    purchase: PurchaseTerms = NOT_BOUGHT

    def __post_init__(self) -> None:
        object.__setattr__(self, "totals", tuple(codec.parse_float(total, "totals") for total in self.totals))
        if not self.totals or len(self.totals) % len(self.noise.lengths):
            raise InvalidParameter("totals", len(self.totals), "a number for each period of each series")

    @property
    def series_count(self) -> int:
        return len(self.totals) // len(self.noise.lengths)


@dataclass(frozen=True)
class RunningTotalsRelease(GroupTotalsRelease[NoisyRunningTotals]):
    """The release of running totals: discrete noise on encoded totals, decoded per period."""

    batch: Batch
    noise: RunningNoise
    groups: tuple[GroupValues, ...]
    """One series after the other, each in the order of its periods."""
    types: tuple[Type, ...]
    price: Price
    version: str
    reason: str

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """Return the worst and the root-mean-square half-width, which a stored release must not exceed."""
        widths = self.noise.widths()
        return {"worst": _format_width(widths.max()), "typical": _format_width(np.sqrt((widths**2).mean()))}

    def draw_from(self, totals: Integers) -> NoisyRunningTotals:
        (measurement,) = self.batch.measurements
        noisy_encoded = measurement.draw(measurement.reading.extract(totals)).astype(np.float64)
        decoder = self.noise.factorisation.decoder
        running_totals = noisy_encoded.reshape(-1, decoder.shape[1]) @ decoder.T * float(self.noise.unit_value)
        terms = purchase_terms([self.batch.bounded], self.price, self.version)
        return NoisyRunningTotals(self.noise, tuple(running_totals.reshape(-1).tolist()), self._keys, terms)

    @property
    def _keys(self) -> GroupKeys:
        return GroupKeys.encode(self.groups, self.types)


def _format_width(number: float) -> str:
    return f"{number:.12g}"


@codec.serialisable("running-answer")
@dataclass(frozen=True, repr=False)
class RunningAnswer(Answer):
    """An answer whose rows are periods in their order, each with the total of all periods so far."""

    period: str = ""
    """The column of the periods."""

    def plot(self, path: str | None = None) -> Picture:
        """Draw one line per series with a band for its confidence intervals.

        The picture shows itself in a notebook; with a path (.svg, .png, .html) it is also saved.
        """
        (column,) = self.intervals
        series_keys = [key_column(name, self.column(name)) for name in self.keys if name != self.period]
        periods = key_column(self.period, self.column(self.period))
        charts = [self.chart_data(column)]
        return save_if_path(
            draw_lines(charts, periods, series_keys, caption_lines(self.receipt), mark_notes(charts, self.above)), path
        )

    def to_altair(self) -> Any:
        """Return the lines and their bands as an Altair chart."""
        (column,) = self.intervals
        axis_type = "Q" if self.types[self.columns.index(self.period)] is Type.INTEGER else "T"
        return altair_line_chart([*self._series_charts(column)], axis_type)

    def _series_charts(self, column: str) -> list[ChartData]:
        all_rows = self.chart_data(column)
        series_columns = [index for index, name in enumerate(self.columns) if name in self.keys and name != self.period]
        series_names = [" · ".join(str(row[index]) for index in series_columns) or all_rows.name for row in self.rows]
        periods = [period.isoformat() if isinstance(period, dt.date) else period for period in self.column(self.period)]
        rows_of_series: dict[str, list[int]] = {}
        for index, name in enumerate(series_names):
            rows_of_series.setdefault(name, []).append(index)
        return [
            ChartData(
                name,
                self.period,
                tuple(periods[index] for index in indices),
                tuple(all_rows.values[index] for index in indices),
                tuple(all_rows.intervals[index] for index in indices),
                (),
            )
            for name, indices in rows_of_series.items()
        ]
