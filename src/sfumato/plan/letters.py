"""Capital and small letters: one letter for one letter, wherever it stands.

LOWER and UPPER use Unicode's simple mappings. İ becomes i and every Σ becomes σ; a letter without a single capital,
such as ß, is left as it is. Texts therefore keep their length, and a pattern can be folded apart from the text.
"""

from __future__ import annotations


def lower(text: str) -> str:
    """What LOWER makes of a text.

    >>> lower("ΑΣ İ ß")
    'ασ i ß'
    """
    return "".join("i" if letter == "İ" else letter.lower() for letter in text)
