"""The calendar counts dates and times from year 1 to 9999 in units, on exact values."""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

Moment = TypeVar("Moment", dt.date, dt.datetime)

DAYS = ("year", "quarter", "month", "week", "day")
"""Units that whole days make up."""
UNITS = (*DAYS, "hour", "minute", "second")
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_LAST_MONTH = 9999 * 12 + 11
_LENGTH = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1}


def count(unit: str, moment: dt.date) -> int:
    """Count how many boundaries of the unit lie before the moment, from a fixed origin."""
    if unit in _MONTHS:
        return (moment.year * 12 + moment.month - 1) // _MONTHS[unit]
    days = moment.toordinal() - 1  # 0001-01-01 was a Monday
    if unit in ("week", "day"):
        return days // _LENGTH[unit]
    seconds = 0
    if isinstance(moment, dt.datetime):
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return (days * 86400 + seconds) // _SECONDS[unit]


def between(unit: str, start: dt.date, end: dt.date) -> int:
    """Count how many boundaries of the unit are crossed; weeks are counted as full seven days, as the engine does."""
    if unit != "week":
        return count(unit, end) - count(unit, start)
    days = count("day", end) - count("day", start)
    return days // 7 if days >= 0 else -(-days // 7)


def truncated(unit: str, moment: Moment) -> Moment:
    """Find the start of the year, month, … that holds the moment."""
    if isinstance(moment, dt.datetime):
        if unit in _SECONDS:
            return dt.datetime.min + dt.timedelta(seconds=count(unit, moment) * _SECONDS[unit])
        day = truncated(unit, moment.date())
        return dt.datetime(day.year, day.month, day.day)
    return starting(unit, count(unit, moment))


def starting(unit: str, counted: int) -> dt.date:
    """Find the first day of the year, month, … that has this count."""
    if unit in _MONTHS:
        months = counted * _MONTHS[unit]
        return dt.date(months // 12, months % 12 + 1, 1)
    return dt.date.fromordinal(counted * _LENGTH[unit] + 1)


def shifted(moment: Moment, amount: int, unit: str) -> Moment | None:
    """Move the moment by so many units, to the month's end at the latest; None outside the calendar."""
    try:
        if unit in _MONTHS:
            months = moment.year * 12 + moment.month - 1 + amount * _MONTHS[unit]
            year, month = divmod(months, 12)
            return moment.replace(year=year, month=month + 1, day=min(moment.day, _days(year, month + 1)))
        if unit in _SECONDS:
            return moment + dt.timedelta(seconds=amount * _SECONDS[unit])
        return moment + dt.timedelta(days=amount * _LENGTH[unit])
    except (OverflowError, ValueError):
        return None


def staying(amount: int, unit: str, first: Moment, last: Moment) -> tuple[Moment, Moment] | None:
    """Find the earliest and the latest moment of the calendar (from ``first`` to ``last``) that stay in it when
    shifted.
    """
    if unit in _MONTHS:
        months = amount * _MONTHS[unit]
        low, high = max(12, 12 - months), min(_LAST_MONTH, _LAST_MONTH - months)
        if low > high:
            return None
        opening = first.replace(year=low // 12, month=low % 12 + 1)
        return opening, last.replace(year=high // 12, month=high % 12 + 1, day=_days(high // 12, high % 12 + 1))
    length = dt.timedelta(days=_LENGTH[unit]) if unit in _LENGTH else dt.timedelta(seconds=_SECONDS[unit])
    try:
        return (first, last - amount * length) if amount > 0 else (first - amount * length, last)
    except OverflowError:
        return None


def spans(amount: int, unit: str) -> bool:
    """Tell whether the step stays below ten thousand years: a longer one leaves the calendar from anywhere."""
    days = amount * _LENGTH[unit] if unit in _LENGTH else amount * _SECONDS[unit] // 86400
    return abs(days) < 3_660_000


def _days(year: int, month: int) -> int:
    following = dt.date(year + month // 12, month % 12 + 1, 1) if (year, month) < (9999, 12) else None
    return 31 if following is None else (following - dt.timedelta(days=1)).day
