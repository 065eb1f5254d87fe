"""Capital and small letters: one letter for one letter, wherever it stands.

LOWER and UPPER use Unicode's simple mappings. İ becomes i and every Σ becomes σ; a letter without a single capital
is left as it is, and ẞ is written ß. Texts therefore keep their length, and a pattern can be folded apart from its
text.
"""

from __future__ import annotations


def lower(text: str) -> str:
    """What LOWER makes of a text.

    >>> lower("ΑΣ İ ß")
    'ασ i ß'
    """
    return "".join("i" if letter == "İ" else letter.lower() for letter in text)
