"""Letter case as every engine has it: Unicode's simple mappings, one letter for one, wherever a letter stands.

İ becomes i and every Σ becomes σ; a letter without a single capital is left as it is, and ẞ is written ß. Texts
therefore keep their length, and a pattern can be folded apart from its text.
"""

from __future__ import annotations


def lower(text: str) -> str:
    """Return what LOWER makes of a text.

    >>> lower("ΑΣ İ ß")
    'ασ i ß'
    """
    return "".join("i" if letter == "İ" else letter.lower() for letter in text)


def upper(text: str) -> str:
    """Return what UPPER makes of a text.

    >>> upper("straße ŉ ᾳ")
    'STRAßE ŉ ᾼ'
    """
    return "".join(map(_capital, text))


def _capital(letter: str) -> str:
    """Return Unicode's simple capital: upper() is the full one, and title() is single where a capital exists."""
    single_letters = (capital for capital in (letter.upper(), letter.title()) if len(capital) == 1)
    capital = next(single_letters, letter)
    return "ß" if capital == "ẞ" else capital
