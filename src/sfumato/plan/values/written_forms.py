"""Patterns of cells that are written in a way of their own: dates by a format, numbers with separators and a currency.

Each pattern is a regular expression of the kind that ``grammars`` use, with escaped punctuation and groups beside. A
whole cell has at most one way to match it, so its groups are the same whichever way an engine searches, and a search
takes time linear in the cell: no part that repeats can match what begins the part after it.

*Cost.* A cell of more than ``LONGEST`` bytes is not read, nor a date of more than ``MAX_DATE_LETTERS`` letters. Every
pattern, group and replacement looks at each letter at most twice, so one cell takes at most ``max_steps``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sfumato.plan.values.grammars import LONGEST, ZONE
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.date_formats import FormatPart, parse_format

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


def escape(letter: str) -> str:
    """Escape a letter that patterns give a meaning: a backslash before punctuation means the same in all engines."""
    return _SPECIAL.sub(r"\\\g<0>", letter)


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


def format_steps(text: str) -> int:
    """Return the most steps that reading one cell by a format takes, beside those of the grammars."""
    return _PASSES * MAX_DATE_LETTERS * (2 + len(MONTHS) + len(read_directives(parse_format(text))))


def max_steps(rules: CellRules) -> int:
    """Return the most steps that reading one cell by these rules takes, beside those of the grammars."""
    date_steps = sum(map(format_steps, rules.format))
    replaced = bool(rules.decimal or rules.thousands or rules.currency) * (3 + len(SPACES))
    turned = bool(rules.trim) + bool(rules.case) + bool(rules.nulls) + bool(rules.true or rules.false)
    words = len(rules.nulls or ()) + len(rules.true) + len(rules.false) + 2 * len(rules.map)
    words += 2 * (rules.possible is not None)  # compared with both ends
    return date_steps + _PASSES * LONGEST * (replaced + turned) + _WORD_STEPS * words
