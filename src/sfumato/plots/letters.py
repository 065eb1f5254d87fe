"""Letters have widths: a text is measured before it is written, and cut where it would meet another."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from sfumato.safe_text import printable

SIZE = 12.0
"""Of letters, in pixels, where nothing else is said."""
_PILED = 3
"""Marks on one letter at most: a higher pile would be drawn over the lines above and below."""
_MOST = 200
"""Letters of a text that is drawn, however narrow they are: marks above letters have no width, and may be many."""
_NARROW = dict.fromkeys("ijl.,:;'|!I", 0.3) | dict.fromkeys('ftr()[]{}/\\-" `', 0.37)
_NARROW |= dict.fromkeys("−±–", 0.6)
_BROAD = dict.fromkeys("mwMW@%…", 0.98) | dict.fromkeys("ABCDEGHKNOPQRSTUVXY&+=<>~", 0.76)


class _Widths(dict[str, float]):
    """Widths of letters are looked up; those that are rare are found when they are needed."""

    def __missing__(self, letter: str) -> float:
        return _letter(letter)


@lru_cache(maxsize=4096)
def _letter(letter: str) -> float:
    """Give a width in parts of the letters' size that is not below that of the usual fonts."""
    if letter in _NARROW or letter in _BROAD:
        return _NARROW.get(letter) or _BROAD[letter]
    if unicodedata.combining(letter):
        return 0.0
    return 0.62 if letter < "\u0250" else 1.05 if unicodedata.east_asian_width(letter) in "WF" else 0.8


_WIDTHS = _Widths((letter, _letter(letter)) for letter in map(chr, range(0x20, 0x7F)))


def width(text: str, size: float = SIZE) -> float:
    """Say how wide a text is at most, about, in pixels."""
    return sum(map(_WIDTHS.__getitem__, text)) * size


def drawable(text: str) -> str:
    """Give a text as it is drawn: nothing in it moves a cursor, and no pile of marks on one letter leaves its line."""
    shown = printable(text)
    if shown.isascii():
        return shown
    kept: list[str] = []
    piled = 0
    for letter in shown:
        piled = piled + 1 if unicodedata.category(letter)[0] == "M" else 0
        if piled <= _PILED:
            kept.append(letter)
    return "".join(kept)


def cut(text: str, room: float, size: float = SIZE) -> str:
    """Cut a text to the room that it has, with "…" where something is left out; nothing in it moves a cursor."""
    shown = drawable(text[: _MOST + 1])
    if len(text) <= _MOST and width(shown, size) <= room + 0.5:
        return shown
    left = room - size
    kept = 0
    for kept, letter in enumerate(shown[:_MOST]):  # noqa: B007 - how many fit
        left -= _letter(letter) * size
        if left < 0:
            break
    return shown[:kept].rstrip() + "…"


def wrapped(pieces: list[str], room: float, size: float) -> list[str]:
    """Put pieces into lines with a dot between them; one that is wider than a line is cut."""
    lines: list[str] = []
    for piece in (cut(each, room, size) for each in pieces if each):
        joined = f"{lines[-1]} · {piece}" if lines else piece
        if lines and width(joined, size) <= room:
            lines[-1] = joined
        else:
            lines.append(piece)
    return lines
