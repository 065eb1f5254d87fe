"""Marks are elements of SVG as text: every text in them is escaped, and nothing is loaded from elsewhere.

Letters have widths: a text is measured before it is written, and cut where it would meet another.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from sfumato.untrusted import printable

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


INK, QUIET, RULE, PAPER = "#20262e", "#5b6470", "#dfe3e8", "#ffffff"
BAR, RANGE, SAMPLE = "#8fb3d9", "#1b3a57", "#c2410c"
LINES = ("#0067a5", "#b24a00", "#00755a", "#7a3b96", "#8a5a00", "#4d4d4d", "#b0327a", "#2f6f8f")
"""Colours that people tell apart who see red and green alike (after Okabe and Ito), all dark enough on white."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 3", "6 2 1 2 1 2")
"""Lines differ in these, too: no colour is needed to tell them apart."""
_TOLD = 300
"""Letters of a text that is shown when somebody points at a mark."""


def digits(number: float) -> str:
    """Write a length with at most two digits after the point: equal pictures are equal texts."""
    short = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def lengths(numbers: Sequence[float]) -> list[str]:
    """Write many lengths at once as ``digits`` writes each, in a fraction of the time."""
    listed = "%.2f\n" * len(numbers) % tuple(numbers)
    return listed.replace("-0.00\n", "0.00\n").replace("0\n", "\n").replace(".0\n", "\n").split()


def escaped(text: str) -> str:
    """Write a text so that it is one: no tag, no quote and no letter that XML does not know."""
    return html.escape(printable(text))


def each_escaped(texts: Sequence[str]) -> list[str]:
    """Write many texts at once as ``escaped`` writes each: no line ends inside what is printable."""
    return html.escape("\n".join(map(printable, texts))).split("\n") if texts else []


def told(text: str) -> str:
    """Write what is said when somebody points at a mark."""
    return each_told((text,))[0]


def each_told(texts: Sequence[str]) -> list[str]:
    """Write what is said of each of many marks."""
    short = [text if len(text) <= _TOLD else text[:_TOLD] + "…" for text in texts]
    return [f"<title>{text}</title>" for text in each_escaped(short)]


def label(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: float = SIZE,
    fill: str = INK,
    room: float | None = None,
    more: str = "",
    turned: bool = False,
) -> str:
    """Write a text, or ``turned`` upward; where it has not the room, what fits of it, and the whole when somebody
    points at it.
    """
    shown = drawable(text) if room is None else cut(text, room, size)
    whole = told(text) if shown != text else ""
    where = f'x="{digits(x)}" y="{digits(y)}"'
    if turned:
        where = f'transform="translate({digits(x)} {digits(y)}) rotate(-90)"'
    return f"<text {where}{_look(anchor, size, fill)}{more}>{whole}{html.escape(shown)}</text>"


def labels(x: float, heights: Sequence[str], texts: Sequence[str], room: float, *, anchor: str) -> list[str]:
    """Write texts below each other as ``label`` writes each, at heights that are written already."""
    shown = [cut(text, room) for text in texts]
    begin, how = f'<text x="{digits(x)}" y="', f'"{_look(anchor, SIZE, INK)}>'
    return [
        f"{begin}{height}{how}{'' if kept == text else told(text)}{written}</text>"
        for height, kept, text, written in zip(heights, shown, texts, each_escaped(shown), strict=True)
    ]


def _look(anchor: str, size: float, fill: str) -> str:
    how = "" if anchor == "start" else f' text-anchor="{anchor}"'
    how += "" if size == SIZE else f' font-size="{digits(float(size))}"'
    return how if fill == INK else f'{how} fill="{fill}"'


def box(x: float, y: float, wide: float, high: float, fill: str, *, more: str = "", say: str = "") -> str:
    """Draw a rectangle; ``say`` is told of it."""
    where = f'x="{digits(x)}" y="{digits(y)}" width="{digits(max(0.0, wide))}" height="{digits(max(0.0, high))}"'
    return f'<rect {where} fill="{fill}"{more}>{told(say)}</rect>' if say else f'<rect {where} fill="{fill}"{more}/>'


def path(steps: Iterable[str], stroke: str, wide: float = 1.0, more: str = "") -> str:
    """Draw lines along these steps; nothing where there are none."""
    way = "".join(steps)
    if not way:
        return ""
    return f'<path d="{way}" fill="none" stroke="{stroke}" stroke-width="{digits(float(wide))}"{more}/>'


def area(points: Sequence[tuple[float, float]], fill: str, opacity: float) -> str:
    """Fill what lies inside these points."""
    listed = " ".join(f"{digits(x)},{digits(y)}" for x, y in points)
    return f'<polygon points="{listed}" fill="{fill}" fill-opacity="{digits(opacity)}"/>'


def across(x: float, y: float, end: float) -> str:
    """Give the step from one place to another at the same height."""
    return f"M{digits(x)} {digits(y)}H{digits(end)}"


def upright(x: float, y: float, end: float) -> str:
    """Give the step from one height to another at the same place."""
    return f"M{digits(x)} {digits(y)}V{digits(end)}"


def moved(x: float, y: float, parts: Iterable[str]) -> str:
    """Put marks together, at another place."""
    return f'<g transform="translate({digits(x)} {digits(y)})">{"".join(parts)}</g>'
