"""Calendar arithmetic on exact dates and times from year 1 to 9999, and STRFTIME formats.

STRFTIME writes a few letters, each a part of a date in digits of fixed width or an English name.

Every engine can keep to that: a part is a whole number, its digits are those of the number with zeros before it, and a
name is looked up by its number. Texts can be told apart again, so that groups named by them stand in the order of time
and not of the alphabet.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Sequence
from typing import TypeVar

from sfumato.errors import Unsupported
from sfumato.quick_dataclass import dataclass

Moment = TypeVar("Moment", dt.date, dt.datetime)

DAYS = ("year", "quarter", "month", "week", "day")
"""Units of whole days."""
UNITS = (*DAYS, "hour", "minute", "second")
YEARS = {"decade": 10, "century": 100, "millennium": 1000}
"""Units of several years: each begins in a year that is divisible by its length."""
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_LAST_MONTH = 9999 * 12 + 11
_LENGTH = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1}


def period_number(unit: str, moment: dt.date) -> int:
    """Return the number of unit boundaries before the moment, from a fixed origin."""
    if unit in _MONTHS:
        return (moment.year * 12 + moment.month - 1) // _MONTHS[unit]
    days = moment.toordinal() - 1  # 0001-01-01 was a Monday
    if unit in ("week", "day"):
        return days // _LENGTH[unit]
    seconds = 0
    if isinstance(moment, dt.datetime):
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return (days * 86400 + seconds) // _SECONDS[unit]


def periods_between(unit: str, start: dt.date, end: dt.date) -> int:
    """Return the number of unit boundaries crossed; weeks are full seven days, as in the engine."""
    if unit != "week":
        return period_number(unit, end) - period_number(unit, start)
    days = period_number("day", end) - period_number("day", start)
    return days // 7 if days >= 0 else -(-days // 7)


def truncate(unit: str, moment: Moment) -> Moment:
    """Return the start of the year, month, … that holds the moment."""
    if isinstance(moment, dt.datetime):
        if unit == "millisecond":
            return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        if unit in _SECONDS:
            return dt.datetime.min + dt.timedelta(seconds=period_number(unit, moment) * _SECONDS[unit])
        day = truncate(unit, moment.date())
        return dt.datetime(day.year, day.month, day.day)
    return period_start(unit, period_number(unit, moment))


def period_start(unit: str, number: int) -> dt.date:
    """Return the first day of the year, month, … that has this count."""
    if unit in _MONTHS:
        months = number * _MONTHS[unit]
        return dt.date(months // 12, months % 12 + 1, 1)
    return dt.date.fromordinal(number * _LENGTH[unit] + 1)


def shift(moment: Moment, amount: int, unit: str) -> Moment | None:
    """Shift the moment by so many units, to the month's end at the latest; None outside the calendar."""
    try:
        if unit in _MONTHS:
            months = moment.year * 12 + moment.month - 1 + amount * _MONTHS[unit]
            year, month = divmod(months, 12)
            return moment.replace(year=year, month=month + 1, day=min(moment.day, _days_in_month(year, month + 1)))
        if unit == "millisecond":
            return moment + dt.timedelta(milliseconds=amount)
        if unit in _SECONDS:
            return moment + dt.timedelta(seconds=amount * _SECONDS[unit])
        return moment + dt.timedelta(days=amount * _LENGTH[unit])
    except (OverflowError, ValueError):
        return None


def shiftable_range(amount: int, unit: str, first: Moment, last: Moment) -> tuple[Moment, Moment] | None:
    """Return the earliest and the latest moment from ``first`` to ``last`` that stay in the calendar when shifted."""
    if unit in _MONTHS:
        months = amount * _MONTHS[unit]
        low, high = max(12, 12 - months), min(_LAST_MONTH, _LAST_MONTH - months)
        if low > high:
            return None
        earliest = first.replace(year=low // 12, month=low % 12 + 1)
        return earliest, last.replace(
            year=high // 12, month=high % 12 + 1, day=_days_in_month(high // 12, high % 12 + 1)
        )
    length = dt.timedelta(days=_LENGTH[unit]) if unit in _LENGTH else dt.timedelta(seconds=_SECONDS[unit])
    try:
        return (first, last - amount * length) if amount > 0 else (first - amount * length, last)
    except OverflowError:
        return None


def is_shorter_than_calendar(amount: int, unit: str) -> bool:
    """Return whether the step is below ten thousand years: a longer one leaves the calendar from anywhere."""
    days = amount * _LENGTH[unit] if unit in _LENGTH else amount * _SECONDS[unit] // 86400
    return abs(days) < 3_660_000


MONDAY, NEW_YEAR = dt.date(2000, 1, 3), dt.date(2000, 1, 1)
"""Where buckets of days or less are counted from, and where those of months are, unless a question says otherwise."""


@dataclass(frozen=True)
class Bucket:
    """Consecutive spans of so many units, one of which begins at the origin."""

    amount: int
    unit: str
    origin: dt.date

    @property
    def months(self) -> int | None:
        """The months of a span; None for units of fixed length."""
        return self.amount * _MONTHS[self.unit] if self.unit in _MONTHS else None

    @property
    def seconds(self) -> int:
        """The seconds of a span of fixed length."""
        return self.amount * (_SECONDS[self.unit] if self.unit in _SECONDS else 86_400 * _LENGTH[self.unit])

    @property
    def count_offset(self) -> int:
        """The count, of months or seconds since the year 1 began, at the last start that is not after it: from -span
        to 0, so that no moment of the calendar counts below it.
        """
        if self.months is not None:
            return (period_number("month", self.origin) - _FIRST_MONTH) % self.months - self.months
        return period_number("second", self.origin) % self.seconds - self.seconds

    def start_of(self, moment: Moment) -> Moment | None:
        """Return the start of the span that holds the moment; None before the year 1."""
        if self.months is not None:
            count = period_number("month", moment) - _FIRST_MONTH
            months = (count - self.count_offset) // self.months * self.months + self.count_offset
            day = None if months < 0 else period_start("month", months + _FIRST_MONTH)
            return day if day is None or not isinstance(moment, dt.datetime) else dt.datetime(day.year, day.month, 1)
        seconds = period_number("second", moment) - self.count_offset
        first = seconds // self.seconds * self.seconds + self.count_offset
        if first < 0:
            return None
        start = dt.datetime.min + dt.timedelta(seconds=first)
        return start if isinstance(moment, dt.datetime) else start.date()


_FIRST_MONTH = 12
"""The period number of the first month of the calendar."""


def _days_in_month(year: int, month: int) -> int:
    next_month = dt.date(year + month // 12, month % 12 + 1, 1) if (year, month) < (9999, 12) else None
    return 31 if next_month is None else (next_month - dt.timedelta(days=1)).day


MONTHS = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
WEEKDAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())  # noqa: SIM905
LONGEST = 100
"""The most characters of a format."""


@dataclass(frozen=True)
class FormatCode:
    """A format code for a part of a date: the last ``width`` digits of its number, or one of ``names``, from 1 on."""

    part: str
    width: int
    names: tuple[str, ...] = ()
    sort_position: int = 0
    """The sort position: coarser parts come first when texts are put in order."""


def _abbreviations(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name[:3] for name in names)


LETTERS = {
    "Y": FormatCode("year", 4, sort_position=0),
    "y": FormatCode("year", 2, sort_position=0),
    "m": FormatCode("month", 2, sort_position=1),
    "B": FormatCode("month", 9, MONTHS, sort_position=1),
    "b": FormatCode("month", 3, _abbreviations(MONTHS), sort_position=1),
    "V": FormatCode("week", 2, sort_position=2),
    "j": FormatCode("doy", 3, sort_position=3),
    "d": FormatCode("day", 2, sort_position=4),
    "u": FormatCode("isodow", 1, sort_position=5),
    "A": FormatCode("isodow", 9, WEEKDAYS, sort_position=5),
    "a": FormatCode("isodow", 3, _abbreviations(WEEKDAYS), sort_position=5),
    "w": FormatCode("dow", 1, sort_position=5),
    "H": FormatCode("hour", 2, sort_position=6),
    "M": FormatCode("minute", 2, sort_position=7),
    "S": FormatCode("second", 2, sort_position=8),
}
CLOCK = ("hour", "minute", "second", "microsecond")


def split_format(written: str) -> tuple[str | FormatCode, ...]:
    """Split a format into texts and codes; refuse unknown codes with the list of known ones."""
    if len(written) > LONGEST:
        raise Unsupported(
            "date-format", f"a format can have at most {LONGEST} characters", fix="write a shorter format"
        )
    format_pieces: list[str | FormatCode] = []
    for text, code in re.findall(r"([^%]+)|%(.?)", written, re.DOTALL):
        if text or code == "%":
            format_pieces.append(text or code)
        elif code in LETTERS:
            format_pieces.append(LETTERS[code])
        else:
            supported_codes = ", ".join(f"%{code_letter}" for code_letter in LETTERS)
            raise Unsupported(
                "date-format", f"the format code %{code} is not supported", fix=f"use {supported_codes} and %%"
            )
    if not any(isinstance(piece, FormatCode) for piece in format_pieces):
        raise Unsupported(
            "date-format",
            "the format has no % code, so every date would become the same text",
            fix="write a format such as '%Y-%m'",
        )
    return tuple(format_pieces)


def format_parts(written: str) -> frozenset[str]:
    """Return the parts of a date that a format shows."""
    return frozenset(piece.part for piece in split_format(written) if isinstance(piece, FormatCode))


def chronological_key(written: str, text: str) -> tuple[int, ...]:
    """Return a chronological sort key for a text of this format: the numbers it shows, the coarser ones first.

    >>> chronological_key("%d %b %Y", "31 Jan 2024") < chronological_key("%d %b %Y", "01 Feb 2024")
    True
    """
    format_pieces = split_format(written)
    match = re.fullmatch(
        "".join(re.escape(piece) if isinstance(piece, str) else _code_pattern(piece) for piece in format_pieces), text
    )
    assert match is not None
    letters = [piece for piece in format_pieces if isinstance(piece, FormatCode)]
    matched_parts = zip(letters, match.groups(), strict=True)
    numbers = [
        (letter.sort_position, letter.names.index(part) if letter.names else int(part))
        for letter, part in matched_parts
    ]
    return tuple(number for _, number in sorted(numbers, key=lambda entry: entry[0]))


def _code_pattern(format_code: FormatCode) -> str:
    return f"({'|'.join(format_code.names)})" if format_code.names else f"([0-9]{{{format_code.width}}})"


def date_bounds(low: Sequence[int], high: Sequence[int]) -> tuple[dt.date, dt.date] | None:
    """Return the first and last date whose year, month and day can lie between two triples; None if none can.

    Dates are ordered as their triples are, and cutting the day to the length of its month skips no date.
    """
    first, last = max((1, 1, 1), tuple(low)), min((9999, 12, 31), tuple(high))
    if low[1] > 12 or high[1] < 1 or first > last:
        return None
    bounds = _nearest_date(*first), _nearest_date(*last)
    return bounds if bounds[0] <= bounds[1] else None


def _nearest_date(year: int, month: int, day: int) -> dt.date:
    """Return the date with a month cut to 1…12 and a day cut to the length of its month."""
    month = min(max(month, 1), 12)
    return dt.date(year, month, min(max(day, 1), monthrange(year, month)[1]))
