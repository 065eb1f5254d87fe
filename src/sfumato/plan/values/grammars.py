"""Texts are read as numbers, truths and dates by grammars of our own, or in a declared form, the same on every engine.

One grammar holds for the cells of a source that are texts (all cells of a CSV file) and for CAST. A text is read as a
whole; spaces (U+0020) around it are passed over, any other letter too many makes it NULL:

- a whole number is digits, with or without a sign: up to 18 of them, or 19 of which the first is 1 to 8. Any other
  text that is a real (``5.0``, ``1e+05``) is the nearest double if that is whole and 64 bits hold it, else NULL;
- a real is at most 40 digits before and 40 after a point, with or without a sign, and an exponent of at most three
  digits; it means the nearest double. So large an exponent that the number surely is beyond 2^500 makes it infinite,
  so small a one that it surely is below 2^-500 makes it 0. ``inf`` and ``infinity`` in any letter case, with or
  without a sign, are infinite; ``nan`` is no number;
- a truth is ``true`` or ``false`` in any letter case, or ``1`` or ``0``;
- a date is YYYY-MM-DD, a day that exists in the years 1 to 9999, or a time, which is its day;
- a time is such a day, alone or followed by a space or a T and HH:MM, HH:MM:SS or up to six digits of a second more.
  After the clock may stand a zone, Z or the hours and minutes ahead of UTC such as +02, +0530 or -05:30, below 15
  hours: the time is then the same moment in UTC, which must lie in the years 1 to 9999;
- dates and times may be infinite as reals may.

A cell of more than ``LONGEST`` bytes is no number, truth, date or time, however many of them are spaces: an engine
looks at its length first, since patterns take long on long texts or fail. CAST reads texts that are cut before, at the
``max_length`` of their column.

What is infinite becomes the bound of a declared column, and NULL where there is none: in CAST always. Thousands
separators, hexadecimal digits, the words yes and t, and other orders of day, month and year are not read.

What ``GRAMMARS`` admit can be converted by every engine without an error. The patterns use brackets, bars, question
marks, stars and counts only, which all regular expressions share.

LOWER and UPPER turn letters one for one (``policy.cell_rules``).

Cells that are written in a way of their own, dates by a format, numbers with separators and a currency, have patterns
of the kind that ``GRAMMARS`` use, with escaped punctuation and groups beside. A whole cell has at most one way to match
it, so its groups are the same whichever way an engine searches, and a search takes time linear in the cell: no part
that repeats can match what begins the part after it.

*Cost.* A cell of more than ``LONGEST`` bytes is not read, nor a date of more than ``MAX_DATE_LETTERS`` letters. Every
pattern, group and replacement looks at each letter at most twice, so one cell takes at most ``max_cell_steps``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sfumato.policy.cell_rules import CellRules, FormatPart, lower as lower, parse_format, upper as upper
from sfumato.policy.domains import Type

LONGEST = 1000
"""The most bytes of a cell that is read by a grammar."""
LONGEST_ID = 1024
"""The most bytes of an id: a longer one is no id, and its row is nobody's. Ids are hashed, sorted and joined, so one of
megabytes would make every query slow.
"""
_YEAR = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_FOURS = "(0[48]|[2468][048]|[13579][26])"
_LEAP = f"([0-9]{{2}}{_FOURS}|{_FOURS}00)"
_DATE = (
    f"({_YEAR}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
    f"|{_YEAR}-(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    f"|{_YEAR}-02-(0[1-9]|1[0-9]|2[0-8])"
    f"|{_LEAP}-02-29)"
)
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
ZONE = "(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"
"""Z, or the hours and minutes ahead of UTC."""

_DIGITS = "([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})"
_ZEROS = "(0{1,40}([.]0{0,40})?|[.]0{1,40})"
_FAR = "[2-9][0-9]{2}"
"""An exponent that takes any digits but zeros beyond 2^500 or, below 0, under 2^-500: 10^±160 at the least."""
_INFINITE = "[Ii][Nn][Ff]([Ii][Nn][Ii][Tt][Yy])?"


def _allow_surrounding_spaces(pattern: str) -> str:
    return f" *{pattern} *"


TRUE = _allow_surrounding_spaces("([Tt][Rr][Uu][Ee]|1)")
FALSE = _allow_surrounding_spaces("([Ff][Aa][Ll][Ss][Ee]|0)")
GRAMMARS = {
    Type.INTEGER: _allow_surrounding_spaces("[+-]?([0-9]{1,18}|[1-8][0-9]{18})"),
    Type.REAL: _allow_surrounding_spaces(f"[+-]?{_DIGITS}([eE][+-]?[01]?[0-9]{{1,2}})?"),
    Type.BOOLEAN: f"({TRUE}|{FALSE})",
    Type.DATE: _allow_surrounding_spaces(_DATE),
    Type.TIMESTAMP: _allow_surrounding_spaces(f"{_DATE}([ T]{_CLOCK}{ZONE}?)?"),
}
"""The pattern that a whole text must match for an engine to convert it to the type."""
DECIMAL = _allow_surrounding_spaces(f"[+-]?{_DIGITS}")
"""Reals without an exponent, which are 0 or well between 2^-500 and 2^500 in size."""
ZERO = _allow_surrounding_spaces(f"[+-]?({_DIGITS}[eE]-|{_ZEROS}[eE][+]?){_FAR}")
"""Reals that are 0 by their exponent, or whatever their exponent is."""
EXACT = _allow_surrounding_spaces(
    "[+-]?(0{0,40}[0-9]{1,15}([.]0{0,40})?|[0-9]([.][0-9]{1,14})?[eE][+]?(0?[0-9]|1[0-4]))"
)
"""Numbers that a double tells from all others of these, and from all whole numbers, if it is whole: they have at most
15 digits, and are below 10^15. Two decimals of 15 digits are never one double, since 10^15 < 2^52 (Matula, "In-and-out
conversions", Communications of the ACM 11, 1968)."""
LOCAL = _allow_surrounding_spaces(f"{_DATE}([ T]{_CLOCK})?")
"""Times that name no zone."""
ZONED = _allow_surrounding_spaces(f"{_DATE}[ T]{_CLOCK}{ZONE}")
"""Times that name a zone."""
_FAR_REAL = f"({_INFINITE}|{_DIGITS}[eE][+]?{_FAR})"
BEYOND = {
    Type.REAL: (_allow_surrounding_spaces(f"-{_FAR_REAL}"), _allow_surrounding_spaces(f"[+]?{_FAR_REAL}")),
    Type.DATE: (_allow_surrounding_spaces(f"-{_INFINITE}"), _allow_surrounding_spaces(f"[+]?{_INFINITE}")),
    Type.TIMESTAMP: (_allow_surrounding_spaces(f"-{_INFINITE}"), _allow_surrounding_spaces(f"[+]?{_INFINITE}")),
}
"""The patterns of texts that lie below and above every bound, unless they are ``ZERO``; no engine converts them."""


MAX_DATE_LETTERS = 100
"""The most letters of a cell that is read by a format."""
SPACES = (" ", "\u00a0", "\u202f")
"""What stands between a number and its currency, and between groups of digits where ``thousands`` is a space."""
_SPACE = f"[{''.join(SPACES)}]"
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_NAME = 3
"""The letters of a short English name."""
_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\]")
_PASSES = 2
_WORD_STEPS = 10
"""The steps of comparing a cell with one entry of a list."""


def any_case(word: str) -> str:
    """Write the pattern of an English word in any letter case.

    >>> any_case("May")
    '[Mm][Aa][Yy]'
    """
    return "".join(f"[{letter.upper()}{letter.lower()}]" for letter in word)


def _one_of(words: Sequence[str]) -> str:
    return "|".join(map(any_case, words))


_PATTERNS = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "0?[1-9]|1[0-2]",
    "d": "0?[1-9]|[12][0-9]|3[01]",
    "H": "[01]?[0-9]|2[0-3]",
    "I": "0?[1-9]|1[0-2]",
    "M": "[0-5]?[0-9]",
    "S": "[0-5]?[0-9]",
    "f": "[0-9]{1,6}",
    "p": "[AaPp][Mm]",
    "z": ZONE.replace("(", "(?:"),
    "B": _one_of(MONTHS),
    "b": _one_of([month[:_SHORT_NAME] for month in MONTHS]),
    "A": _one_of(_WEEKDAYS),
    "a": _one_of([day[:_SHORT_NAME] for day in _WEEKDAYS]),
}
"""The pattern of each directive; a question mark follows what padded numbers must have."""


def read_directives(parts: Sequence[FormatPart]) -> list[str]:
    """List the directives of a format in the order of the groups in its pattern; weekdays have none."""
    return [part.directive for part in parts if part.directive not in ("", "a", "A")]


def date_pattern(parts: Sequence[FormatPart]) -> str:
    """Write the pattern of a whole cell in a format, with a group for each directive that is read.

    >>> bool(re.fullmatch(date_pattern(parse_format("%d.%m.%Y")), " 5.3.2024 "))
    True
    """
    return f" *{''.join(map(_part_pattern, parts))} *"


def _part_pattern(part: FormatPart) -> str:
    if not part.directive:
        return re.sub(" +", " +", "".join(map(escape, part.literal)))
    pattern = _PATTERNS[part.directive]
    if part.is_padded:
        pattern = pattern.replace("]?[0-9]", "][0-9]").replace("0?", "0")
    return f"({pattern})" if part.directive not in ("a", "A") else f"(?:{pattern})"


def escape(character: str) -> str:
    """Escape a letter that patterns give a meaning: a backslash before punctuation means the same in all engines."""
    return _SPECIAL.sub(r"\\\g<0>", character)


def number_pattern(rules: CellRules) -> str:
    """Write the pattern of a whole cell that is a number with these separators and this currency.

    The sign stands before the number or before its currency; groups of thousands have three digits each. A cell may
    leave out the currency and the separators.
    """
    separator = _SPACE if rules.thousands == " " else escape(rules.thousands)
    point = escape(rules.decimal or ".")
    grouped = f"|[0-9]{{1,3}}(?:{separator}[0-9]{{3}}){{1,13}}" if rules.thousands else ""
    digits = f"(?:(?:[0-9]{{1,40}}{grouped})(?:{point}[0-9]{{0,40}})?|{point}[0-9]{{1,40}})"
    number = f"{digits}(?:[eE][+-]?[0-9]{{1,3}})?"
    if not rules.currency:
        return f"{_SPACE}*[+-]?{number}{_SPACE}*"
    currency = "".join(map(escape, rules.currency))
    after = f"[+-]?{number}(?:{_SPACE}*{currency})?"
    before = f"(?:(?:[+-]{_SPACE}*)?{currency}{_SPACE}*|{currency}{_SPACE}*[+-]){number}"
    return f"{_SPACE}*(?:{after}|{before}){_SPACE}*"


def format_cost(text: str) -> int:
    """Return the most steps that reading one cell by a format takes, beside those of the grammars."""
    return _PASSES * MAX_DATE_LETTERS * (2 + len(MONTHS) + len(read_directives(parse_format(text))))


def max_cell_steps(rules: CellRules) -> int:
    """Return the most steps that reading one cell by these rules takes, beside those of the grammars."""
    date_steps = sum(map(format_cost, rules.format))
    replaced = bool(rules.decimal or rules.thousands or rules.currency) * (3 + len(SPACES))
    turned = bool(rules.trim) + bool(rules.case) + bool(rules.nulls) + bool(rules.true or rules.false)
    words = len(rules.nulls or ()) + len(rules.true) + len(rules.false) + 2 * len(rules.map)
    words += 2 * (rules.possible is not None)  # compared with both ends
    return date_steps + _PASSES * LONGEST * (replaced + turned) + _WORD_STEPS * words
