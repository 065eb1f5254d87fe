"""How texts are read as numbers, truths and dates: grammars of our own, so that every engine reads the same.

A text is read as a whole; a space, a sign too many or a digit too many makes it NULL. What a grammar admits can be
converted by every engine without an error:

- a whole number is at most 18 digits, with or without a sign;
- a real is at most 40 digits before and 40 after a point, with or without a sign, and an exponent of at most 199;
- a truth is ``true`` or ``false``, in capital or small letters;
- a date is YYYY-MM-DD, a day that exists in the years 1 to 9999;
- a time is such a date, alone or followed by a space or a T and HH:MM, HH:MM:SS or up to six digits of a second more;
  it names no zone.

The patterns use brackets, bars, question marks and counts only, which all regular expressions share.
"""

from __future__ import annotations

from sfumato.policy.domains import Type

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

TRUE = "[Tt][Rr][Uu][Ee]"
FALSE = "[Ff][Aa][Ll][Ss][Ee]"
GRAMMARS = {
    Type.INTEGER: "[+-]?[0-9]{1,18}",
    Type.REAL: "[+-]?([0-9]{1,40}([.][0-9]{0,40})?|[.][0-9]{1,40})([eE][+-]?[01]?[0-9]{1,2})?",
    Type.BOOLEAN: f"({TRUE}|{FALSE})",
    Type.DATE: _DATE,
    Type.TIMESTAMP: f"{_DATE}([ T]{_CLOCK})?",
}
"""The pattern that a whole text must match to be read as the type."""
