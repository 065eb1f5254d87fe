"""Formats of dates and times that are stored as text, such as ``%d.%m.%Y``: a regular subset of strptime.

A format is a grammar of our own, never an engine's strptime. A cell is read as a whole; spaces around it are passed
over, and a space in a format stands for one or more. Names of months and weekdays are English, in any letter case; the
weekday is not compared with the date. Two digits of a year from 69 on belong to the 1900s, others to the 2000s.

A number may leave out its leading zeros (``5.3.2024``), unless it stands directly beside another number: ``%d%m%Y``
needs two digits of each. So every cell has at most one reading, whichever way an engine searches for it.

A format of the clock alone, such as ``%I:%M %p``, reads times of 1900-01-01, as strptime does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sfumato.errors import InvalidParameter
from sfumato.quick_dataclass import dataclass

DIRECTIVES = {
    "Y": "the year in four digits",
    "y": "the year in two digits",
    "m": "the month as a number",
    "b": "the month's short English name",
    "B": "the month's English name",
    "d": "the day of the month",
    "a": "the weekday's short English name",
    "A": "the weekday's English name",
    "H": "the hour from 0 to 23",
    "I": "the hour from 1 to 12",
    "p": "AM or PM",
    "M": "the minute",
    "S": "the second",
    "f": "one to six digits of a second",
    "z": "the offset from UTC, such as +0200, or Z",
}
"""The directives of a format, with what each reads."""
MAX_FORMATS = 10
"""The most formats of one column."""
MAX_FORMAT_LENGTH = 60
"""The most characters of a format."""
_NUMBERS = "YymdHIMSf"
_RULE = "a text such as %d.%m.%Y, with the year, month and day of a date"


@dataclass(frozen=True)
class FormatPart:
    """A directive of a format, or the text between two directives."""

    directive: str = ""
    literal: str = ""
    is_padded: bool = False
    """Whether a number must have its leading zeros, since another number stands directly beside it."""

    @property
    def is_number(self) -> bool:
        return bool(self.directive) and self.directive in _NUMBERS


def parse_format(text: object) -> tuple[FormatPart, ...]:
    """Split a format into its parts; refuse one that is incomplete, or under which a cell could have two readings.

    >>> [part.directive or part.literal for part in parse_format("%d.%m.%Y")]
    ['d', '.', 'm', '.', 'Y']
    """
    if not isinstance(text, str) or not 0 < len(text) <= MAX_FORMAT_LENGTH or not text.isprintable():
        raise InvalidParameter("format", text, f"{_RULE}, of at most {MAX_FORMAT_LENGTH} visible characters")
    parts = _split(text)
    _check_complete(text, [part.directive for part in parts if part.directive])
    _check_unambiguous(text, parts)
    beside = {index for index, pair in enumerate(pairwise(parts)) if all(part.is_number for part in pair)}
    return tuple(
        FormatPart(part.directive, part.literal, is_padded=bool({index - 1, index} & beside))
        for index, part in enumerate(parts)
    )


def has_date(text: str) -> bool:
    """Return whether a format reads a date, and not the clock alone."""
    return any(part.directive == "d" for part in parse_format(text))


def _split(text: str) -> list[FormatPart]:
    parts: list[FormatPart] = []
    letters = iter(text)
    for letter in letters:
        directive = next(letters, "") if letter == "%" else ""
        if letter == "%" and directive not in (*DIRECTIVES, "%"):
            raise _unknown_directive(text, directive)
        if directive and directive != "%":
            parts.append(FormatPart(directive))
        elif parts and not parts[-1].directive:
            parts[-1] = FormatPart(literal=parts[-1].literal + letter)
        else:
            parts.append(FormatPart(literal=letter))
    return parts


def _unknown_directive(text: str, directive: str) -> InvalidParameter:
    directives = " ".join(f"%{name}" for name in DIRECTIVES)
    advice = {
        "e": "%d",
        "k": "%H",
        "l": "%I",
        "h": "%b",
        "F": "%Y-%m-%d",
        "T": "%H:%M:%S",
        "D": "%m/%d/%y",
        "R": "%H:%M",
    }
    fix = (
        f"write {advice[directive]} for %{directive}"
        if directive in advice
        else "leave it out, or write %% for a percent sign"
    )
    return InvalidParameter(
        "format", text, f"made of the directives {directives}; %{directive} is not one of them", fix=fix
    )


def _check_complete(text: str, directives: Sequence[str]) -> None:
    """Refuse a format that does not give each part of a date once, or a clock without its larger parts."""
    repeated = next((name for name in directives if directives.count(name) > 1), None)
    if repeated is not None:
        raise InvalidParameter("format", text, f"one with each directive once; %{repeated} is repeated")
    names = set(directives)
    is_clock = bool(names & {"H", "I"}) and not names & set("YymbBdaA")
    for part, alternatives in (("year", "Yy"), ("month", "mbB"), ("day", "d")):
        written = names.intersection(alternatives)
        if len(written) != 1 and not is_clock:
            rule = f"{_RULE}: one of %Y %y, one of %m %b %B, and %d; or of the clock alone"
            excess = " and ".join(f"%{name}" for name in directives if name in written)
            fix = f"write the {part} once, not as {excess}" if written else f"add the {part}: %{alternatives[0]}"
            raise InvalidParameter("format", text, rule, fix=fix)
    for name, needed in (("I", "p"), ("p", "I"), ("S", "M"), ("f", "S")):
        if name in names and needed not in names:
            raise InvalidParameter("format", text, f"one that contains %{needed}, because it contains %{name}")
    if len(names & {"H", "I"}) != 1 and names & {"H", "I", "M", "z"}:
        raise InvalidParameter("format", text, "one that contains %H or %I, because it contains %M or %z")


def _check_unambiguous(text: str, parts: Sequence[FormatPart]) -> None:
    for part, following in pairwise(parts):
        ends_in_digits = part.is_number or part.directive == "z" or part.literal[-1:].isdigit()
        starts_with_digits = following.is_number or following.literal[:1].isdigit()
        is_open = part.directive in ("f", "z") or bool(part.literal) or bool(following.literal)
        if ends_in_digits and starts_with_digits and is_open and (part.directive or following.directive):
            rule = "one with a separator between two numbers"
            raise InvalidParameter("format", text, rule, fix="write the character that separates them")
