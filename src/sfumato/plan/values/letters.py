"""Capital and small letters are turned one for one, wherever a letter stands.

LOWER and UPPER use Unicode's simple mappings. İ becomes i and every Σ becomes σ; a letter without a single capital
is left as it is, and ẞ is written ß. Texts therefore keep their length, and a pattern can be folded apart from its
text.
"""

from __future__ import annotations


def lower(text: str) -> str:
    """Make of a text what LOWER makes of it.

    >>> lower("ΑΣ İ ß")
    'ασ i ß'
    """
    return "".join("i" if letter == "İ" else letter.lower() for letter in text)


def upper(text: str) -> str:
    """Make of a text what UPPER makes of it.

    >>> upper("straße ŉ ᾳ")
    'STRAßE ŉ ᾼ'
    """
    return "".join(map(_capital, text))


def _capital(letter: str) -> str:
    """Give Unicode's simple capital: upper() is the full one, and title() is single where a capital exists."""
    single = (each for each in (letter.upper(), letter.title()) if len(each) == 1)
    found = next(single, letter)
    return "ß" if found == "ẞ" else found
