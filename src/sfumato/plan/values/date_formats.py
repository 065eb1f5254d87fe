"""STRFTIME writes a few letters, each a part of a date in digits of fixed width or an English name.

Every engine can keep to that: a part is a whole number, its digits are those of the number with zeros before it, and a
name is looked up by its number. Texts can be told apart again, so that groups named by them stand in the order of time
and not of the alphabet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import Unsupported

MONTHS = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
DAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())  # noqa: SIM905
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
    "A": Letter("isodow", 9, DAYS, place=5),
    "a": Letter("isodow", 3, _short(DAYS), place=5),
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
