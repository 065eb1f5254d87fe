"""Layout of a chart: title, footer (privacy unit, price, confidence, date), axes, and drawings side by side.

Linear, logarithmic and time scales with their ticks, and ``ChartData``: one column of an answer to draw.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar

from sfumato.plots.picture import (
    FIT_STYLE,
    INK,
    PAPER,
    QUIET,
    RULE,
    Picture,
    box,
    escape,
    horizontal_step,
    join_and_wrap,
    label,
    path,
    text_width,
    translated,
    vertical_step,
)
from sfumato.quick_dataclass import dataclass

Tick = tuple[float, str]
"""A number, and its label."""
MAX_DRAWN = 1e300
"""The largest absolute value that is drawn: differences must be finite too."""
_UNITS = ((1e9, 1e9, "bn"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
"""Thresholds from which numbers are written in a unit, the unit, and its suffix."""


@dataclass(frozen=True)
class LinearScale:
    """A linear map from [low, high] to pixels [start, end]; numbers outside are clamped."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        return self.coordinates((number,))[0]

    def coordinates(self, numbers: Sequence[float]) -> list[float]:
        """Return the pixel coordinates of many numbers."""
        low, high, start = self.low, self.high, self.start
        span, room = high - low, self.end - start
        if not span > 0:
            return [start + 0.5 * room] * len(numbers)
        clamped = [low if number < low else high if number > high else number for number in numbers]
        return [start + (number - low) / span * room for number in clamped]

    def ticks(self, most: int) -> list[Tick]:
        """Return at most ``most`` round numbers between the ends, with their labels."""
        step = _round_step((self.high - self.low) / max(1, most - 1))
        if not (step > 0 and math.isfinite(step)):
            return [(self.low, format_tick(self.low, 0.0))]
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        candidates = [multiple * step for multiple in range(first, min(last, first + 50) + 1)]
        values = candidates[:: math.ceil(len(candidates) / max(1, most)) or 1]
        largest = max(map(abs, values), default=0.0)
        return [(value, format_tick(value, step, largest)) for value in values]


@dataclass(frozen=True)
class KeyScale(LinearScale):
    """A scale of group keys: 1990 is written without a separator; where both ends are integers, all ticks are."""

    def ticks(self, most: int) -> list[Tick]:
        """Return at most ``most`` round numbers between the ends, with their labels."""
        ticks = super().ticks(most)
        if float(self.low).is_integer() and float(self.high).is_integer():
            ticks = [tick for tick in ticks if float(round(tick[0], 9)).is_integer()]
        return [(value, f"{value:.9g}" if abs(value) < 1e9 else text) for value, text in ticks]


@dataclass(frozen=True)
class LogScale(LinearScale):
    """A logarithmic scale; both ends are positive."""

    def coordinates(self, numbers: Sequence[float]) -> list[float]:
        """Return the pixel coordinates of many numbers."""
        low, span, room = math.log(self.low), math.log(self.high / self.low) or 1.0, self.end - self.start
        logarithms = (math.log(min(max(number, self.low), self.high)) for number in numbers)
        return [self.start + (logarithm - low) / span * room for logarithm in logarithms]

    def ticks(self, most: int) -> list[Tick]:
        """Return powers of ten, with 2 and 5 times those where there is room."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        tens = [10.0**power for power in range(first, last + 1)]
        for digits in ((1, 2, 5), (1, 3), (1,)):
            candidates = [ten * digit for ten in tens for digit in digits]
            values = [value for value in candidates if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
            if 2 <= len(values) <= most:
                break
        stride = math.ceil(len(values) / max(1, most)) or 1
        return [(value, format_tick(value, value)) for value in values[::stride]]


@dataclass(frozen=True)
class TimeScale(LinearScale):
    """A scale of times in seconds since 1970; its ticks are the starts of hours, days, months or years."""

    finest: ClassVar[int] = 1
    """The fewest seconds between two ticks."""

    def ticks(self, most: int) -> list[Tick]:
        """Return at most ``most`` starts of hours, days, months or years."""
        for months, seconds, form in _STEPS:
            if (months or seconds >= self.finest) and (self.high - self.low) / (seconds or months * 30.5 * _DAY) <= max(
                1, most - 1
            ):
                moments = self._ticks_every_months(months) if months else self._ticks_every_seconds(seconds)
                if 1 < len(moments) <= most:
                    return [(moment, _datetime(moment).strftime(form)) for moment in moments]
        return [(self.low, _datetime(self.low).strftime("%Y-%m-%d %H:%M"))]

    def _ticks_every_seconds(self, step: int) -> list[float]:
        start = _FIRST_MONDAY if step % (7 * _DAY) == 0 else 0
        first, last = math.ceil((self.low - start) / step), math.floor((self.high - start) / step)
        return [float(start + multiple * step) for multiple in range(first, last + 1)]

    def _ticks_every_months(self, step: int) -> list[float]:
        first, last = _datetime(self.low), _datetime(self.high)
        months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month + 1)
        starts = (
            dt.datetime(month // 12, month % 12 + 1, 1) for month in months if month % step == 0 and month < 119988
        )
        return [start for start in map(seconds_since_1970, starts) if self.low <= start <= self.high]


@dataclass(frozen=True)
class DayScale(TimeScale):
    """A scale of dates, whose ticks are whole days."""

    finest: ClassVar[int] = 86400


@dataclass(frozen=True)
class MonthScale(TimeScale):
    """A scale of month starts, whose ticks are month starts too: none stands between two points."""

    finest: ClassVar[int] = 31 * 86400


_HOUR, _DAY = 3600, 86400
_FIRST_MONDAY = 4 * _DAY
"""1970-01-05, so that ticks that are weeks apart stand where DATE_TRUNC begins a week."""
_STEPS = (
    *((0, seconds, "%H:%M:%S") for seconds in (1, 5, 15, 30)),
    *((0, seconds, "%d %b %H:%M") for seconds in (60, 300, 900, 1800, _HOUR, 2 * _HOUR, 6 * _HOUR)),
    *((0, seconds, "%d %b %Y") for seconds in (_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY)),
    *((months, 0, "%b %Y") for months in (1, 2, 3, 6)),
    *((12 * years, 0, "%Y") for years in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Months or seconds between two ticks, and the strftime format of their labels."""


def seconds_since_1970(time: dt.date) -> float:
    """Return the seconds since 1970 of a date or a time; a time without a zone is taken as UTC."""
    moment = time if isinstance(time, dt.datetime) else dt.datetime(time.year, time.month, time.day)
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return (zoned - _START).total_seconds()


_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _datetime(seconds: float) -> dt.datetime:
    return _START + dt.timedelta(seconds=seconds)


def _round_step(least: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is at least this."""
    if not (least > 0 and math.isfinite(least)):
        return 0.0
    power_of_ten = 10.0 ** math.floor(math.log10(least))
    return next(
        (digit * power_of_ten for digit in (1, 2, 5) if digit * power_of_ten >= least * (1 - 1e-9)), 10 * power_of_ten
    )


def format_tick(number: float, step: float, largest: float = 0.0) -> str:
    """Format a tick label for ticks that are ``step`` apart: 1,500 and 20k, not 20000.0. All labels of an axis are in
    the unit of the largest: 5k beside 20k.
    """
    size = max(abs(number), abs(step))
    if number == 0:
        return "0"
    if not 1e-4 <= size < 1e12:
        return f"{number:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")
    for threshold, unit, suffix in _UNITS:
        if max(abs(number), largest) >= threshold:
            return f"{number / unit:,.6g}{suffix}".replace("-", "−")
    decimals = max(0, min(6, -math.floor(math.log10(abs(step) or size) + 1e-9)))
    formatted = f"{number:,.{decimals}f}"
    return (formatted.rstrip("0").rstrip(".") if "." in formatted else formatted).replace("-", "−")


def fitting_ticks(scale: LinearScale, font_size: float, *, wide: bool) -> list[Tick]:
    """Return as many ticks as fit without overlap: along the width if ``wide``, otherwise along the height."""
    room = abs(scale.end - scale.start)
    for limit in range(9 if wide else 7, 1, -1):
        ticks = scale.ticks(limit)
        if not wide and room / max(1, len(ticks) - 1) >= 1.8 * font_size:
            return ticks
        if wide and _labels_do_not_overlap(scale, ticks, font_size):
            return ticks
    return scale.ticks(2)[:1]


def label_extent(scale: LinearScale, tick: Tick, font_size: float) -> tuple[str, float, float]:
    """Return the text anchor of a tick label and its left and right ends, so that none sticks out of the axis far."""
    x, label_width = scale(tick[0]), text_width(tick[1], font_size)
    if x - label_width / 2 < min(scale.start, scale.end) - 38:
        return "start", x, x + label_width
    if x + label_width / 2 > max(scale.start, scale.end) + 14:
        return "end", x - label_width, x
    return "middle", x - label_width / 2, x + label_width / 2


def _labels_do_not_overlap(scale: LinearScale, ticks: Sequence[Tick], font_size: float) -> bool:
    extents = [label_extent(scale, tick, font_size)[1:] for tick in ticks]
    return all(left[1] + 10 <= right[0] for left, right in pairwise(extents))


def axis_range(
    values: Iterable[float | None], intervals: Iterable[tuple[float, float] | None], *, zero: bool
) -> tuple[float, float]:
    """Return axis ends that show every number and its range; ranges much wider than most are cut off."""
    numbers = _clamp([value for value in values if value is not None])
    ends = _clamp([end for interval in intervals if interval is not None for end in interval if math.isfinite(end)])
    largest = max(map(abs, numbers), default=0.0)
    limit = max(1.25 * largest, 4 * (sorted(map(abs, ends))[len(ends) // 2] if ends else 0.0))
    range_ends = [min(max(end, -limit), limit) for end in (min(ends), max(ends))] if ends else []
    axis_numbers = [*numbers, *range_ends, *([0.0] if zero else [])] or [0.0]
    low, high = min(axis_numbers), max(axis_numbers)
    if low == high:
        low, high = (min(0.0, low), max(0.0, high)) if low else (0.0, 1.0)
    return low, high


def _clamp(numbers: Iterable[float]) -> list[float]:
    return [float(number) if abs(number) < MAX_DRAWN else math.copysign(MAX_DRAWN, number) for number in numbers]


Interval = tuple[float, float] | None
"""The confidence interval of a number; None where there is no number."""


@dataclass(frozen=True)
class ChartData:
    """One column of numbers with labels, ranges and printed forms."""

    name: str
    key_names: str
    """The names of the group keys, which the labels are values of."""
    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    intervals: tuple[Interval, ...]
    printed: tuple[str, ...]
    """The numbers as printed, with their errors."""
    noisy: tuple[bool, ...] = ()
    """Whether each number is too noisy to rely on; empty if not determined."""
    sampling: tuple[float | None, ...] = ()
    """The half-width of each number's sampling error; empty where the rows are not a sample."""


PAGE_WIDTH, PAGE_HEIGHT, MARGIN = 760.0, 1000.0, 20.0
"""Width and height of a page in pixels, and its margin."""
INNER_WIDTH = PAGE_WIDTH - 2 * MARGIN
_TITLE, _SMALL = 15.0, 10.5
_BOLD = 1.15
"""The width of bold letters relative to regular ones."""
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Drawing:
    """SVG elements and the size of their bounding box, whose origin is the upper left corner."""

    parts: tuple[str, ...]
    width: float
    height: float


def framed_picture(
    drawing: Drawing,
    title: str,
    foot: Sequence[str] = (),
    notes: Sequence[str] = (),
    min_width: float = INNER_WIDTH,
) -> Picture:
    """Put a drawing on a page: the title above it, notes on how to read it and the terms of the answer below.

    The background is always white, so that the picture is legible on a dark screen too.
    """
    inner_width = max(min_width, drawing.width)
    top = MARGIN + (34 if title else 0)
    parts = (
        [label(MARGIN, MARGIN + 13, title, size=_TITLE, max_width=inner_width / _BOLD, attributes=' font-weight="600"')]
        if title
        else []
    )
    parts.append(translated(MARGIN, top, drawing.parts))
    y = top + drawing.height + 10
    for line in [*notes, *join_and_wrap(list(foot), inner_width, _SMALL)]:
        y += 15
        parts.append(label(MARGIN, y, line, size=_SMALL, fill=QUIET, max_width=inner_width))
    return svg_picture(parts, inner_width + 2 * MARGIN, y + (MARGIN - 4), title)


def svg_picture(parts: Sequence[str], wide: float, high: float, title: str = "") -> Picture:
    """Render elements as a complete SVG document on a white background."""
    size = f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}"'
    style = f'font-family="{FONT}" font-size="12" fill="{INK}"{FIT_STYLE}'
    title_element = f"<title>{escape(title[:300])}</title>" if title else ""
    background = box(0, 0, wide, high, PAPER, more=' rx="6"')
    content = f"{title_element}{background}{''.join(parts)}"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>{content}</svg>'
    return Picture(svg, wide, high, title)


def unframed_picture(drawing: Drawing, title: str = "") -> Picture:
    """Render a drawing without title and footer, for a page that describes it."""
    return svg_picture([translated(4, 4, drawing.parts)], drawing.width + 8, drawing.height + 8, title)


def stacked(drawings: Sequence[Drawing], gap: float = 26.0) -> Drawing:
    """Stack drawings vertically."""
    parts, y = [], 0.0
    for drawing in drawings:
        parts.append(translated(0, y, drawing.parts))
        y += drawing.height + gap
    return Drawing(tuple(parts), max((drawing.width for drawing in drawings), default=0.0), max(0.0, y - gap))


def side_by_side(drawings: Sequence[Drawing], gap: float = 30.0) -> Drawing:
    """Place drawings side by side."""
    parts, x = [], 0.0
    for drawing in drawings:
        parts.append(translated(x, 0, drawing.parts))
        x += drawing.width + gap
    return Drawing(tuple(parts), max(0.0, x - gap), max((drawing.height for drawing in drawings), default=0.0))


SMALL_FONT = 10.5
X_AXIS_HEIGHT = 20.0
"""Height in pixels of the tick labels below an axis."""


def x_axis(scale: LinearScale, top: float, y: float, *, zero: bool = True) -> list[str]:
    """Draw an x axis with a light grid line at each tick; that of zero is darker."""
    return x_axis_with_ticks(scale, fitting_ticks(scale, SMALL_FONT, wide=True), top, y, zero=zero)


def x_axis_with_ticks(
    scale: LinearScale, ticks: Sequence[Tick], top: float, y: float, *, zero: bool = True
) -> list[str]:
    """Draw an x axis with given ticks."""
    marks = [path((vertical_step(scale(value), top, y) for value, _ in ticks), RULE)]
    if zero and scale.low <= 0 <= scale.high:
        marks.append(path([vertical_step(scale(0), top, y)], QUIET))
    anchors = (label_extent(scale, tick, SMALL_FONT)[0] for tick in ticks)
    marks += [
        label(scale(value), y + 14, text, anchor=anchor, size=SMALL_FONT, fill=QUIET)
        for (value, text), anchor in zip(ticks, anchors, strict=True)
    ]
    return marks


def y_axis_width(ticks: Sequence[Tick]) -> float:
    """Return the width of the tick labels of a y axis."""
    return max((text_width(text, SMALL_FONT) for _, text in ticks), default=0.0) + 8


def y_axis(scale: LinearScale, ticks: Sequence[Tick], x: float, end: float) -> list[str]:
    """Draw a y axis with a light grid line at each tick."""
    marks = [path((horizontal_step(x, scale(value), end) for value, _ in ticks), RULE)]
    if scale.low <= 0 <= scale.high:
        marks.append(path([horizontal_step(x, scale(0), end)], QUIET))
    marks += [
        label(x - 6, scale(value) + 3.5, text, anchor="end", size=SMALL_FONT, fill=QUIET) for value, text in ticks
    ]
    return marks


def heading(x: float, y: float, text: str, room: float, anchor: str = "start") -> str:
    """Draw the title of a panel."""
    return label(x, y, text, anchor=anchor, max_width=room, fill=INK, attributes=' font-weight="600"')
