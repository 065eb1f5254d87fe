"""Scales place numbers and times on a picture, and say which of them are written beside an axis.

Chart data are one column of an answer as it is drawn: a label, a number and a range for each row.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from sfumato.plots.marks import width

Tick = tuple[float, str]
"""A number, and how it is written."""
FURTHEST = 1e300
"""No number is drawn further from zero than this: their differences must be numbers, too."""
_UNITS = ((1e9, 1e9, "bn"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
"""From where on a number is written in which unit, and its name."""


@dataclass(frozen=True)
class LinearScale:
    """A scale takes a number between two ends to a place between two others, evenly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        return self.places((number,))[0]

    def places(self, numbers: Sequence[float]) -> list[float]:
        """Give the places of many numbers."""
        low, high, start = self.low, self.high, self.start
        span, room = high - low, self.end - start
        if not span > 0:
            return [start + 0.5 * room] * len(numbers)
        held = [low if each < low else high if each > high else each for each in numbers]
        return [start + (each - low) / span * room for each in held]

    def ticks(self, most: int) -> list[Tick]:
        """List at most so many round numbers between the ends."""
        step = _round_step((self.high - self.low) / max(1, most - 1))
        if not (step > 0 and math.isfinite(step)):
            return [(self.low, written(self.low, 0.0))]
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        found = [each * step for each in range(first, min(last, first + 50) + 1)]
        kept = found[:: math.ceil(len(found) / max(1, most)) or 1]
        largest = max(map(abs, kept), default=0.0)
        return [(each, written(each, step, largest)) for each in kept]


@dataclass(frozen=True)
class KeyScale(LinearScale):
    """A scale of keys writes 1990, not 1,990; where both ends are whole, so is what is written."""

    def ticks(self, most: int) -> list[Tick]:
        """List at most so many round numbers between the ends."""
        found = super().ticks(most)
        if float(self.low).is_integer() and float(self.high).is_integer():
            found = [each for each in found if float(round(each[0], 9)).is_integer()]
        return [(each, f"{each:.9g}" if abs(each) < 1e9 else text) for each, text in found]


@dataclass(frozen=True)
class LogScale(LinearScale):
    """A scale of logarithms has equal ratios at equal distances; both ends are above zero."""

    def places(self, numbers: Sequence[float]) -> list[float]:
        """Give the places of many numbers."""
        low, span, room = math.log(self.low), math.log(self.high / self.low) or 1.0, self.end - self.start
        inner = (math.log(min(max(each, self.low), self.high)) for each in numbers)
        return [self.start + (each - low) / span * room for each in inner]

    def ticks(self, most: int) -> list[Tick]:
        """List powers of ten, or with 2 and 5 between them where there is room."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        tens = [10.0**power for power in range(first, last + 1)]
        for digits in ((1, 2, 5), (1, 3), (1,)):
            found = [ten * each for ten in tens for each in digits]
            kept = [each for each in found if self.low * (1 - 1e-9) <= each <= self.high * (1 + 1e-9)]
            if 2 <= len(kept) <= most:
                break
        every = math.ceil(len(kept) / max(1, most)) or 1
        return [(each, written(each, each)) for each in kept[::every]]


@dataclass(frozen=True)
class TimeScale(LinearScale):
    """A scale of times is in seconds since 1970; its ticks are the beginnings of days, months or years."""

    finest: ClassVar[int] = 1
    """Seconds between two ticks at least."""

    def ticks(self, most: int) -> list[Tick]:
        """List at most so many beginnings of hours, days, months or years."""
        for months, seconds, form in _STEPS:
            if (months or seconds >= self.finest) and (self.high - self.low) / (seconds or months * 30.5 * _DAY) <= max(
                1, most - 1
            ):
                found = self._months(months) if months else self._seconds(seconds)
                if 1 < len(found) <= most:
                    return [(each, _moment(each).strftime(form)) for each in found]
        return [(self.low, _moment(self.low).strftime("%Y-%m-%d %H:%M"))]

    def _seconds(self, step: int) -> list[float]:
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [float(each * step) for each in range(first, last + 1)]

    def _months(self, step: int) -> list[float]:
        first, last = _moment(self.low), _moment(self.high)
        months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month + 1)
        begun = (dt.datetime(each // 12, each % 12 + 1, 1) for each in months if each % step == 0 and each < 119988)
        return [each for each in map(seconds, begun) if self.low <= each <= self.high]


@dataclass(frozen=True)
class DayScale(TimeScale):
    """A scale of days has no hours."""

    finest: ClassVar[int] = 86400


_HOUR, _DAY = 3600, 86400
_STEPS = (
    *((0, each, "%H:%M:%S") for each in (1, 5, 15, 30)),
    *((0, each, "%d %b %H:%M") for each in (60, 300, 900, 1800, _HOUR, 2 * _HOUR, 6 * _HOUR)),
    *((0, each, "%d %b %Y") for each in (_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY)),
    *((each, 0, "%b %Y") for each in (1, 2, 3, 6)),
    *((12 * each, 0, "%Y") for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Months, or seconds, between two ticks, and how they are written."""


def seconds(time: dt.date) -> float:
    """Give the seconds since 1970 of a day or a time; where no zone is said, it is taken for UTC."""
    whole = time if isinstance(time, dt.datetime) else dt.datetime(time.year, time.month, time.day)
    zoned = whole if whole.tzinfo is not None else whole.replace(tzinfo=dt.UTC)
    return (zoned - _START).total_seconds()


_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _moment(seconds: float) -> dt.datetime:
    return _START + dt.timedelta(seconds=seconds)


def _round_step(least: float) -> float:
    """Find the least of 1, 2 and 5 times a power of ten that is not below this."""
    if not (least > 0 and math.isfinite(least)):
        return 0.0
    ten = 10.0 ** math.floor(math.log10(least))
    return next((each * ten for each in (1, 2, 5) if each * ten >= least * (1 - 1e-9)), 10 * ten)


def written(number: float, step: float, largest: float = 0.0) -> str:
    """Write a number beside an axis whose numbers are so far apart: 1,500 and 20k, not 20000.0. All are written in the
    unit of the largest: 5k beside 20k.
    """
    size = max(abs(number), abs(step))
    if number == 0:
        return "0"
    if not 1e-4 <= size < 1e12:
        return f"{number:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")
    for least, unit, name in _UNITS:
        if max(abs(number), largest) >= least:
            return f"{number / unit:,.6g}{name}".replace("-", "−")
    after = max(0, min(6, -math.floor(math.log10(abs(step) or size) + 1e-9)))
    short = f"{number:,.{after}f}"
    return (short.rstrip("0").rstrip(".") if "." in short else short).replace("-", "−")


def fitting(scale: LinearScale, size: float, *, wide: bool) -> list[Tick]:
    """List as many ticks as have room: beside each other along the width, or above each other."""
    room = abs(scale.end - scale.start)
    for most in range(9 if wide else 7, 1, -1):
        found = scale.ticks(most)
        if not wide and room / max(1, len(found) - 1) >= 1.8 * size:
            return found
        if wide and _apart(scale, found, size):
            return found
    return scale.ticks(2)[:1]


def placed(scale: LinearScale, tick: Tick, size: float) -> tuple[str, float, float]:
    """Say how a tick's text is anchored, and from where to where it goes: none stands far out beside its axis."""
    at, wide = scale(tick[0]), width(tick[1], size)
    if at - wide / 2 < min(scale.start, scale.end) - 38:
        return "start", at, at + wide
    if at + wide / 2 > max(scale.start, scale.end) + 14:
        return "end", at - wide, at
    return "middle", at - wide / 2, at + wide / 2


def _apart(scale: LinearScale, ticks: Sequence[Tick], size: float) -> bool:
    ends = [placed(scale, each, size)[1:] for each in ticks]
    return all(one[1] + 10 <= other[0] for one, other in pairwise(ends))


def reach(
    values: Iterable[float | None], intervals: Iterable[tuple[float, float] | None], *, zero: bool
) -> tuple[float, float]:
    """Find ends that show every number, and every range but those that are so wide that they would hide the others."""
    numbers = _held([each for each in values if each is not None])
    ends = _held([end for each in intervals if each is not None for end in each if math.isfinite(end)])
    own = max(map(abs, numbers), default=0.0)
    far = max(1.25 * own, 4 * (sorted(map(abs, ends))[len(ends) // 2] if ends else 0.0))
    furthest = [min(max(end, -far), far) for end in (min(ends), max(ends))] if ends else []
    shown = [*numbers, *furthest, *([0.0] if zero else [])] or [0.0]
    low, high = min(shown), max(shown)
    if low == high:
        low, high = (min(0.0, low), max(0.0, high)) if low else (0.0, 1.0)
    return low, high


def _held(numbers: Iterable[float]) -> list[float]:
    return [float(each) if abs(each) < FURTHEST else math.copysign(FURTHEST, each) for each in numbers]


Interval = tuple[float, float] | None
"""The range that holds the exact number; None where there is no number."""


@dataclass(frozen=True)
class ChartData:
    """Chart data are one column of numbers with what is written beside each of them."""

    name: str
    by: str
    """What the labels are: the names of the group keys."""
    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    intervals: tuple[Interval, ...]
    cells: tuple[str, ...]
    """The numbers as they are printed, with their errors."""
    noisy: tuple[bool, ...] = ()
    """Which numbers are too noisy to print; empty where nobody asked."""
    sampling: tuple[float | None, ...] = ()
    """How far each number may be off because the rows are a sample; empty where they are none."""
