"""Released survival curves: noisy cells of periods, and what follows from them. All of it is post-processing.

Their picture is the one that clinicians know: steps with bands, and the numbers at risk below the axis.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.extras import install_command
from sfumato.html_fragments import paragraphs, preformatted, table
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.survival_estimates import LifeTable, LogRank, log_rank
from sfumato.plots.frame import INNER_WIDTH, SMALL_FONT, Drawing, LinearScale, fitting_ticks, framed_picture, stacked
from sfumato.plots.lines import MAX_LINES, LineAxes, PlottedLine, line_chart, line_x_scale
from sfumato.plots.picture import LINES, QUIET, Picture, label, save_if_path, text_width
from sfumato.privacy import codec
from sfumato.privacy.numbers import exact, format_number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_pictures import caption_lines
from sfumato.release.answers.receipts import PREVIEW_NOTE, Receipt
from sfumato.release.parts.scales import NoisyScale
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    import pandas


_ROW_HEIGHT = 17.0


@dataclass(frozen=True)
class SurvivalLine:
    """One curve: survival at the end of each period with its band, and the numbers at risk at its periods' starts."""

    name: str
    times: tuple[float, ...]
    survival: tuple[float, ...]
    band: tuple[tuple[float, float], ...]
    starts: tuple[float, ...]
    at_risk: tuple[float, ...]


def draw_survival(
    curves: Sequence[SurvivalLine], title: str, time: str, notes: Sequence[str], caption: Sequence[str]
) -> Picture:
    """Draw the curves; more than eight are not drawn, and said so."""
    drawn = curves[:MAX_LINES]
    origin = min(curve.starts[0] for curve in drawn)
    lines = [_stepped_line(curve, origin) for curve in drawn]
    names = [curve.name for curve in drawn]
    # the first number at risk is centred on the start of the axis, beside its name
    half_number = max(text_width(f"{curve.at_risk[0]:,.0f}", SMALL_FONT) for curve in drawn) / 2
    widest_name = max(text_width(name, SMALL_FONT) for name in (*names, "at risk"))
    axis_width = min(max(widest_name, 32.0), 150.0) + half_number + 8
    axes = LineAxes("", time, y_range=(0.0, 1.0))
    chart = line_chart(lines, axes, 320.0, min_axis_width=axis_width)
    scale = line_x_scale(lines, axes, axis_width, INNER_WIDTH)
    more = [f"{len(curves) - MAX_LINES} more groups are not drawn"] if len(curves) > MAX_LINES else []
    drawing = stacked([chart, _risk_table(drawn, scale, axis_width - half_number)], gap=8.0)
    return framed_picture(drawing, title, caption, [*notes, *more])


def _stepped_line(curve: SurvivalLine, origin: float) -> PlottedLine:
    """Return the steps of a curve, which begins at 1."""
    return PlottedLine(
        curve.name,
        (origin, *curve.times),
        (1.0, *curve.survival),
        ((1.0, 1.0), *curve.band),
        stepped=True,
    )


def _risk_table(curves: Sequence[SurvivalLine], scale: LinearScale, name_width: float) -> Drawing:
    """Write the noisy number at risk of each curve below the ticks of the time axis."""
    parts = [label(0, 12, "at risk", size=SMALL_FONT, fill=QUIET)]
    ticks = fitting_ticks(scale, SMALL_FONT, wide=True)
    for row, curve in enumerate(curves):
        y = 12 + _ROW_HEIGHT * (row + 1)
        parts.append(label(0, y, curve.name, size=SMALL_FONT, fill=LINES[row], max_width=name_width))
        for time, _ in ticks:
            number = _at_risk_at(curve, time)
            if number is not None:
                parts.append(label(scale(time), y, f"{number:,.0f}", anchor="middle", size=SMALL_FONT, fill=LINES[row]))
    return Drawing(tuple(parts), INNER_WIDTH, 14 + _ROW_HEIGHT * (len(curves) + 1))


def _at_risk_at(curve: SurvivalLine, time: float) -> float | None:
    """Return the number at risk in the period of this time, no less than 0; None after the curve's end."""
    period = max((index for index, start in enumerate(curve.starts) if start <= time), default=0)
    return max(0.0, curve.at_risk[period]) if period < len(curve.at_risk) else None


_MAX_PRINTED_PERIODS = 13
"""How many periods of a group its text shows."""
Cells = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class MedianSurvival:
    """The time at which half are left, and the ends of its range; None where the curve does not reach one half."""

    time: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        middle, low, high = (_time_text(time) for time in (self.time, self.low, self.high))
        return f"{middle} ({low} to {high})"


def _time_text(time: float | None) -> str:
    return "not reached" if time is None else format_number(time)


@codec.serialisable("survival")
@dataclass(frozen=True, eq=False)
class SurvivalCurves:
    """Kaplan & Meier's curves of one or several groups, from noisy numbers of events and censored units by period."""

    time: str
    event: str
    by: str
    """The column of the groups; empty for one curve of all."""
    groups: tuple[str, ...]
    starts: tuple[float, ...]
    """The first time of each period."""
    times: tuple[float, ...]
    """The last time of each period: events are drawn there."""
    events: Cells
    """For each group, the noisy number of units whose event is in each period."""
    censored: Cells
    """For each group, the noisy number of units last seen without the event in each period."""
    scale: NoisyScale = field(repr=False)
    confidence: Fraction = Fraction(95, 100)
    purchase: PurchaseTerms = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence"))
        for name in ("starts", "times"):
            object.__setattr__(self, name, _parse_floats(getattr(self, name), name))
        for name in ("events", "censored"):
            object.__setattr__(self, name, tuple(_parse_floats(row, name) for row in getattr(self, name)))
        codec.check_simple_fields(self)
        if not isinstance(self.scale, NoisyScale):
            raise InvalidParameter("scale", self.scale, "the noise of released counts")
        rows = (*self.events, *self.censored, self.starts)
        if not self.times or not self.groups or any(len(row) != len(self.times) for row in rows):
            raise InvalidParameter("events", len(self.times), "one list for each group, with a number for each period")
        if not len(self.groups) == len(self.events) == len(self.censored):
            raise InvalidParameter("groups", self.groups, "a list with the name of each group")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SurvivalCurves) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    @property
    def is_preview(self) -> bool:
        """Whether it was invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt is not None and self.receipt.is_preview

    @cached_property
    def count_noise_law(self) -> NoiseLaw:
        """The noise of each number of events, and of censored units."""
        return NoiseLaw.from_scale(self.scale)

    @cached_property
    def life_tables(self) -> tuple[LifeTable, ...]:
        """The estimates of each group, in the order of ``groups``."""
        pairs = zip(self.events, self.censored, strict=True)
        return tuple(
            LifeTable(np.array(events), np.array(censored), self.count_noise_law, float(self.confidence))
            for events, censored in pairs
        )

    def life_table(self, group: str | None = None) -> LifeTable:
        """Return the estimates of one group; of the only one if none is named."""
        if group is None and len(self.groups) == 1:
            return self.life_tables[0]
        if group not in self.groups:
            raise InvalidParameter("group", group, f"one of {', '.join(self.groups)}")
        return self.life_tables[self.groups.index(group)]

    def median(self, group: str | None = None) -> MedianSurvival:
        """Return the median survival time of a group, with its range."""
        middle, low, high = self.life_table(group).median_period_with_ends()
        return MedianSurvival(*(None if index is None else self.times[index] for index in (middle, low, high)))

    @cached_property
    def log_rank(self) -> LogRank | None:
        """The log-rank test of equal hazards; None for one group, or where too few units are at risk to compare."""
        if len(self.groups) < 2:
            return None
        return log_rank(np.array(self.events), np.array(self.censored), self.count_noise_law)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each group and period of its curve, with all estimates and ranges."""
        return [
            self._row(group, life_table, period)
            for group, life_table in zip(self.groups, self.life_tables, strict=True)
            for period in range(life_table.period_count)
        ]

    def _row(self, group: str, life_table: LifeTable, period: int) -> dict[str, Any]:
        numbers: dict[str, Any] = {self.by: group} if self.by else {}
        numbers |= {"time": self.times[period], "at_risk": float(life_table.at_risk[period])}
        numbers |= {"events": float(life_table.events[period]), "censored": float(life_table.censored[period])}
        numbers["survival"] = float(life_table.survival[period])
        ranges = {
            ("low", "high"): life_table.survival_limits(life_table.log_survival_half_width),
            ("noise_low", "noise_high"): life_table.survival_limits(
                life_table.log_survival_noise_half_width, with_sampling=False
            ),
            ("band_low", "band_high"): life_table.band,
        }
        at_risk, noise = (
            life_table.at_risk[: life_table.period_count],
            life_table.at_risk_noise[: life_table.period_count],
        )
        ranges["at_risk_low", "at_risk_high"] = np.maximum(at_risk - noise, 0.0), at_risk + noise
        for names, ends in ranges.items():
            numbers |= {name: float(end[period]) for name, end in zip(names, ends, strict=True)}
        with np.errstate(divide="ignore"):
            hazards = {
                "cumulative_hazard": life_table.survival[period],
                "hazard_low": life_table.band[1][period],
                "hazard_high": life_table.band[0][period],
            }
            return numbers | {name: abs(float(-np.log(share))) for name, share in hazards.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Return ``rows`` as a pandas data frame, with the terms of the purchase in its ``attrs``."""
        try:
            frame = import_module("pandas").DataFrame(self.rows())
        except ImportError:
            place, fix = "SurvivalCurves.to_pandas", install_command("pandas")
            raise SfumatoError("pandas is not installed", place=place, fix=fix) from None
        frame.attrs["sfumato"] = {} if self.receipt is None else self.receipt.terms()
        return frame

    def to_json(self) -> str:
        """Write the noisy cells, their noise and the receipt as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> SurvivalCurves:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the curves as steps, each with its band, and the noisy numbers at risk below; with a path (.svg, .png,
        .html) the picture is saved, too.
        """
        lines = [
            SurvivalLine(
                escape_unprintable(group) or "all",
                tuple(self.times[: life_table.period_count]),
                tuple(life_table.survival.tolist()),
                tuple(zip(life_table.band[0].tolist(), life_table.band[1].tolist(), strict=True)),
                self.starts,
                tuple(life_table.at_risk[: max(1, life_table.period_count)].tolist()),
            )
            for group, life_table in zip(self.groups, self.life_tables, strict=True)
        ]
        # the bands are of noise and sampling, and the notes say so
        caption = [] if self.receipt is None else caption_lines(replace(self.receipt, confidence=""))
        title = f"{escape_unprintable(self.time)} until {escape_unprintable(self.event)}"
        picture = draw_survival(lines, title, escape_unprintable(self.time), self.notes(), caption)
        return save_if_path(picture, path)

    def notes(self) -> list[str]:
        """Say what the numbers mean: the band, censoring, periods, where curves end, the test."""
        level = format_percent(self.confidence)
        notes = [
            *([PREVIEW_NOTE] if self.is_preview else []),
            f"bands hold at all times together with {level} confidence, for noise and sampling (asymptotic)",
            f"units censored in a period count as at risk in it; {escape_unprintable(self.time)} beyond "
            f"{format_number(self.starts[0])}…{format_number(self.times[-1])} count in the first or last period",
        ]
        ended = [
            f"{escape_unprintable(group) or 'all'} after {_time_text(self.times[life_table.period_count - 1])}"
            if life_table.period_count
            else f"{escape_unprintable(group) or 'all'} from the start"
            for group, life_table in zip(self.groups, self.life_tables, strict=True)
            if life_table.period_count < len(self.times)
        ]
        if ended:
            notes.append(f"too few at risk for the noise, so not shown: {', '.join(ended)}")
        return notes

    def conclusions(self) -> list[str]:
        """Return the medians with their ranges, and the log-rank test, in words."""
        lines = [
            f"median {escape_unprintable(self.time)}{f', {escape_unprintable(group)}' if group else ''}: "
            f"{self.median(group)}"
            for group in self.groups
        ]
        if len(self.groups) > 1:
            lines.append(_log_rank_words(self.log_rank))
        return lines

    def _table_columns_and_rows(self) -> tuple[list[str], list[list[str]]]:
        columns = [*([self.by] if self.by else []), self.time, "at risk", "events", "survival", "band"]
        lines = []
        for group, life_table in zip(self.groups, self.life_tables, strict=True):
            for period in _evenly_spaced_indices(life_table.period_count, _MAX_PRINTED_PERIODS):
                low, high = (float(end[period]) for end in life_table.band)
                at_risk, events = (f"{float(cells[period]):,.0f}" for cells in (life_table.at_risk, life_table.events))
                at_risk += f" ± {float(life_table.at_risk_noise[period]):,.0f}"
                curve = [f"{float(life_table.survival[period]):.3f}", f"{low:.3f} to {high:.3f}"]
                lines.append([*([group] if self.by else []), _time_text(self.times[period]), at_risk, events, *curve])
        return [escape_unprintable(name) for name in columns], [list(map(escape_unprintable, line)) for line in lines]

    def __str__(self) -> str:
        columns, lines = self._table_columns_and_rows()
        widths = [max(len(line[index]) for line in [columns, *lines]) for index in range(len(columns))]
        left = bool(self.by)
        text = [
            "  ".join(
                cell.ljust(width) if left and not index else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (columns, ["─" * width for width in widths], *lines)
        ]
        return "\n".join([*text, "", *self.conclusions(), *self.notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        columns, lines = self._table_columns_and_rows()
        receipt = "" if self.receipt is None else preformatted(self.receipt.short())
        numeric = columns[1:] if self.by else columns
        text = paragraphs([*self.conclusions(), *self.notes()])
        return f"<div>{self.plot().svg}</div>{table(columns, lines, numeric)}{text}{receipt}"


def _log_rank_words(test: LogRank | None) -> str:
    if test is None:
        return "log-rank: too few at risk for the noise to compare the groups"
    least = 1 / (test.draws + 1)
    p_value = f"p < {format_number(2 * least)}" if test.p_value <= least else f"p = {format_number(test.p_value, 3)}"
    return f"log-rank: χ² = {format_number(test.statistic, 4)}, {p_value} (null simulated with the noise)"


def _parse_floats(numbers: Any, name: str) -> tuple[float, ...]:
    if not isinstance(numbers, (tuple, list)):
        raise InvalidParameter(name, numbers, "a list of numbers")
    return tuple(codec.parse_float(number, name) for number in numbers)


def _evenly_spaced_indices(count: int, limit: int) -> Sequence[int]:
    """Return at most so many indices, evenly spaced, with the first and the last."""
    if count <= limit:
        return range(count)
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]
