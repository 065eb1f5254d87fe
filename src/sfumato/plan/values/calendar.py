"""The calendar counts dates and times from year 1 to 9999 in units, on exact values.

STRFTIME writes a few letters, each a part of a date in digits of fixed width or an English name.

Every engine can keep to that: a part is a whole number, its digits are those of the number with zeros before it, and a
name is looked up by its number. Texts can be told apart again, so that groups named by them stand in the order of time
and not of the alphabet.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sfumato.errors import Unsupported

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


MONTHS = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
WEEKDAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())  # noqa: SIM905
LONGEST = 100
"""Letters of a format."""


@dataclass(frozen=True)
class Letter:
    """A letter writes a part of a date as text: in ``width`` digits, the last ones of the number, or as one of
    ``names``, from 1 on.
    """

    part: str
    width: int
    names: tuple[str, ...] = ()
    place: int = 0
    """The coarser part comes first when texts are put in order."""


def _short(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(each[:3] for each in names)


LETTERS = {
    "Y": Letter("year", 4, place=0),
    "y": Letter("year", 2, place=0),
    "m": Letter("month", 2, place=1),
    "B": Letter("month", 9, MONTHS, place=1),
    "b": Letter("month", 3, _short(MONTHS), place=1),
    "V": Letter("week", 2, place=2),
    "j": Letter("doy", 3, place=3),
    "d": Letter("day", 2, place=4),
    "u": Letter("isodow", 1, place=5),
    "A": Letter("isodow", 9, WEEKDAYS, place=5),
    "a": Letter("isodow", 3, _short(WEEKDAYS), place=5),
    "w": Letter("dow", 1, place=5),
    "H": Letter("hour", 2, place=6),
    "M": Letter("minute", 2, place=7),
    "S": Letter("second", 2, place=8),
}
CLOCK = ("hour", "minute", "second")


def pieces(written: str) -> tuple[str | Letter, ...]:
    """Split a format into the texts and letters it is made of; a refusal names the letters that are known."""
    if len(written) > LONGEST:
        raise Unsupported("date-format", f"a format has at most {LONGEST} letters", fix="write a shorter one")
    found: list[str | Letter] = []
    for text, code in re.findall(r"([^%]+)|%(.?)", written, re.DOTALL):
        if text or code == "%":
            found.append(text or code)
        elif code in LETTERS:
            found.append(LETTERS[code])
        else:
            known = ", ".join(f"%{each}" for each in LETTERS)
            raise Unsupported("date-format", "a format is made of letters that are known", fix=f"use {known} and %%")
    if not any(isinstance(each, Letter) for each in found):
        raise Unsupported("date-format", "a format names a part of the date", fix="write '%Y-%m'")
    return tuple(found)


def parts(written: str) -> frozenset[str]:
    """List the parts of a date that a format shows."""
    return frozenset(each.part for each in pieces(written) if isinstance(each, Letter))


def order(written: str, text: str) -> tuple[int, ...]:
    """Say what puts the texts of one format in order: the numbers they show, the coarser ones first.

    >>> order("%d %b %Y", "31 Jan 2024") < order("%d %b %Y", "01 Feb 2024")
    True
    """
    made = pieces(written)
    found = re.fullmatch("".join(re.escape(each) if isinstance(each, str) else _pattern(each) for each in made), text)
    assert found is not None
    letters = [each for each in made if isinstance(each, Letter)]
    shown = zip(letters, found.groups(), strict=True)
    numbers = [(letter.place, letter.names.index(part) if letter.names else int(part)) for letter, part in shown]
    return tuple(number for _, number in sorted(numbers, key=lambda each: each[0]))


def _pattern(letter: Letter) -> str:
    return f"({'|'.join(letter.names)})" if letter.names else f"([0-9]{{{letter.width}}})"
