"""Texts are read as numbers, truths and dates by grammars of our own, so that every engine reads the same.

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

LOWER and UPPER turn letters one for one (``policy.letters``).
"""

from __future__ import annotations

from sfumato.policy.domains import Type
from sfumato.policy.letters import lower as lower, upper as upper

LONGEST = 1000
"""The most bytes of a cell that is read by a grammar."""
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


def _spaced(pattern: str) -> str:
    return f" *{pattern} *"


TRUE = _spaced("([Tt][Rr][Uu][Ee]|1)")
FALSE = _spaced("([Ff][Aa][Ll][Ss][Ee]|0)")
GRAMMARS = {
    Type.INTEGER: _spaced("[+-]?([0-9]{1,18}|[1-8][0-9]{18})"),
    Type.REAL: _spaced(f"[+-]?{_DIGITS}([eE][+-]?[01]?[0-9]{{1,2}})?"),
    Type.BOOLEAN: f"({TRUE}|{FALSE})",
    Type.DATE: _spaced(_DATE),
    Type.TIMESTAMP: _spaced(f"{_DATE}([ T]{_CLOCK}{ZONE}?)?"),
}
"""The pattern that a whole text must match for an engine to convert it to the type."""
DECIMAL = _spaced(f"[+-]?{_DIGITS}")
"""Reals without an exponent, which are 0 or well between 2^-500 and 2^500 in size."""
ZERO = _spaced(f"[+-]?({_DIGITS}[eE]-|{_ZEROS}[eE][+]?){_FAR}")
"""Reals that are 0 by their exponent, or whatever their exponent is."""
EXACT = _spaced("[+-]?(0{0,40}[0-9]{1,15}([.]0{0,40})?|[0-9]([.][0-9]{1,14})?[eE][+]?(0?[0-9]|1[0-4]))")
"""Numbers that a double tells from all others of these, and from all whole numbers, if it is whole: they have at most
15 digits, and are below 10^15. Two decimals of 15 digits are never one double, since 10^15 < 2^52 (Matula, "In-and-out
conversions", Communications of the ACM 11, 1968)."""
LOCAL = _spaced(f"{_DATE}([ T]{_CLOCK})?")
"""Times that name no zone."""
ZONED = _spaced(f"{_DATE}[ T]{_CLOCK}{ZONE}")
"""Times that name a zone."""
_FAR_REAL = f"({_INFINITE}|{_DIGITS}[eE][+]?{_FAR})"
BEYOND = {
    Type.REAL: (_spaced(f"-{_FAR_REAL}"), _spaced(f"[+]?{_FAR_REAL}")),
    Type.DATE: (_spaced(f"-{_INFINITE}"), _spaced(f"[+]?{_INFINITE}")),
    Type.TIMESTAMP: (_spaced(f"-{_INFINITE}"), _spaced(f"[+]?{_INFINITE}")),
}
"""The patterns of texts that lie below and above every bound, unless they are ``ZERO``; no engine converts them."""
