"""SVG elements as text, with every text escaped and nothing loaded; estimated text widths, and truncation to fit."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from sfumato.untrusted import escape_unprintable

SIZE = 12.0
"""The default font size in pixels."""
_MAX_COMBINING_MARKS = 3
"""The most combining marks on one letter: more would be drawn over the lines above and below."""
_MAX_CHARACTERS = 200
"""The most characters of a text, however narrow: combining marks have no width, and may be many."""
_NARROW = dict.fromkeys("ijl.,:;'|!I", 0.3) | dict.fromkeys('ftr()[]{}/\\-" `', 0.37)
_NARROW |= dict.fromkeys("−±–", 0.6)
_BROAD = dict.fromkeys("mwMW@%…", 0.98) | dict.fromkeys("ABCDEGHKNOPQRSTUVXY&+=<>~", 0.76)


class _Widths(dict[str, float]):
    """Character widths, computed on demand for rare characters."""

    def __missing__(self, letter: str) -> float:
        return _character_width(letter)


@lru_cache(maxsize=4096)
def _character_width(letter: str) -> float:
    """Return an upper estimate of a character's width in the usual fonts, in units of the font size."""
    if letter in _NARROW or letter in _BROAD:
        return _NARROW.get(letter) or _BROAD[letter]
    if unicodedata.combining(letter):
        return 0.0
    return 0.62 if letter < "\u0250" else 1.05 if unicodedata.east_asian_width(letter) in "WF" else 0.8


_WIDTHS = _Widths((letter, _character_width(letter)) for letter in map(chr, range(0x20, 0x7F)))


def text_width(text: str, size: float = SIZE) -> float:
    """Return an upper estimate of a text's width in pixels."""
    return sum(map(_WIDTHS.__getitem__, text)) * size


def visible_text(text: str) -> str:
    """Return a text without control characters, and with at most three combining marks on one letter."""
    visible = escape_unprintable(text)
    if visible.isascii():
        return visible
    letters: list[str] = []
    mark_count = 0
    for letter in visible:
        mark_count = mark_count + 1 if unicodedata.category(letter)[0] == "M" else 0
        if mark_count <= _MAX_COMBINING_MARKS:
            letters.append(letter)
    return "".join(letters)


def truncate(text: str, room: float, size: float = SIZE) -> str:
    """Truncate a text to a width in pixels, with "…" where something was cut; control characters are escaped."""
    visible = visible_text(text[: _MAX_CHARACTERS + 1])
    if len(text) <= _MAX_CHARACTERS and text_width(visible, size) <= room + 0.5:
        return visible
    remaining = room - size
    length = 0
    for length, letter in enumerate(visible[:_MAX_CHARACTERS]):  # noqa: B007 - how many fit
        remaining -= _character_width(letter) * size
        if remaining < 0:
            break
    return visible[:length].rstrip() + "…"


def wrap(pieces: list[str], room: float, size: float) -> list[str]:
    """Join pieces with " · " into lines of at most this width; truncate a piece that is wider than a line."""
    lines: list[str] = []
    for piece in (truncate(each, room, size) for each in pieces if each):
        joined = f"{lines[-1]} · {piece}" if lines else piece
        if lines and text_width(joined, size) <= room:
            lines[-1] = joined
        else:
            lines.append(piece)
    return lines


INK, QUIET, RULE, PAPER = "#20262e", "#5b6470", "#dfe3e8", "#ffffff"
BAR, RANGE, SAMPLE = "#8fb3d9", "#1b3a57", "#c2410c"
LINES = ("#0067a5", "#b24a00", "#00755a", "#7a3b96", "#8a5a00", "#4d4d4d", "#b0327a", "#2f6f8f")
"""A colour-blind-safe palette (after Okabe and Ito), all dark enough on white."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 3", "6 2 1 2 1 2")
"""Dash patterns of the lines, so that they differ without colour too."""
_MAX_TOOLTIP = 300
"""The most characters of a tooltip."""


def format_length(number: float) -> str:
    """Format a length with at most two decimals, always the same way."""
    short = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def format_lengths(numbers: Sequence[float]) -> list[str]:
    """Format many lengths at once exactly as ``format_length`` does, in a fraction of the time."""
    listed = "%.2f\n" * len(numbers) % tuple(numbers)
    return listed.replace("-0.00\n", "0.00\n").replace("0\n", "\n").replace(".0\n", "\n").split()


def escape(text: str) -> str:
    """Escape a text for XML: no tag, no quote, and no character that XML forbids."""
    return html.escape(escape_unprintable(text))


def escape_all(texts: Sequence[str]) -> list[str]:
    """Escape many texts at once as ``escape`` does; joining by newlines is safe, since printable texts have none."""
    return html.escape("\n".join(map(escape_unprintable, texts))).split("\n") if texts else []


def tooltip_element(text: str) -> str:
    """Render a tooltip element."""
    return tooltip_elements((text,))[0]


def tooltip_elements(texts: Sequence[str]) -> list[str]:
    """Render a tooltip element for each text."""
    short = [text if len(text) <= _MAX_TOOLTIP else text[:_MAX_TOOLTIP] + "…" for text in texts]
    return [f"<title>{text}</title>" for text in escape_all(short)]


def label(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: float = SIZE,
    fill: str = INK,
    max_width: float | None = None,
    attributes: str = "",
    rotated: bool = False,
) -> str:
    """Render a text, ``rotated`` upward on request; if wider than ``max_width``, it is truncated with the whole as a
    tooltip.
    """
    visible = visible_text(text) if max_width is None else truncate(text, max_width, size)
    tooltip = tooltip_element(text) if visible != text else ""
    position = f'x="{format_length(x)}" y="{format_length(y)}"'
    if rotated:
        position = f'transform="translate({format_length(x)} {format_length(y)}) rotate(-90)"'
    return f"<text {position}{_text_attributes(anchor, size, fill)}{attributes}>{tooltip}{html.escape(visible)}</text>"


def labels(x: float, heights: Sequence[str], texts: Sequence[str], room: float, *, anchor: str) -> list[str]:
    """Render texts one below the other as ``label`` does, at formatted heights."""
    visible_texts = [truncate(text, room) for text in texts]
    begin, attributes = f'<text x="{format_length(x)}" y="', f'"{_text_attributes(anchor, SIZE, INK)}>'
    return [
        f"{begin}{height}{attributes}{'' if visible == text else tooltip_element(text)}{escaped_text}</text>"
        for height, visible, text, escaped_text in zip(
            heights, visible_texts, texts, escape_all(visible_texts), strict=True
        )
    ]


def _text_attributes(anchor: str, size: float, fill: str) -> str:
    attributes = "" if anchor == "start" else f' text-anchor="{anchor}"'
    attributes += "" if size == SIZE else f' font-size="{format_length(float(size))}"'
    return attributes if fill == INK else f'{attributes} fill="{fill}"'


def box(x: float, y: float, wide: float, high: float, fill: str, *, more: str = "", tooltip_text: str = "") -> str:
    """Render a rectangle; ``tooltip_text`` is its tooltip."""
    geometry = (
        f'x="{format_length(x)}" y="{format_length(y)}" width="{format_length(max(0.0, wide))}" '
        f'height="{format_length(max(0.0, high))}"'
    )
    return (
        f'<rect {geometry} fill="{fill}"{more}>{tooltip_element(tooltip_text)}</rect>'
        if tooltip_text
        else f'<rect {geometry} fill="{fill}"{more}/>'
    )


def path(steps: Iterable[str], stroke: str, wide: float = 1.0, more: str = "") -> str:
    """Render an unfilled path of these steps; an empty text where there are none."""
    commands = "".join(steps)
    if not commands:
        return ""
    return f'<path d="{commands}" fill="none" stroke="{stroke}" stroke-width="{format_length(float(wide))}"{more}/>'


def polygon(points: Sequence[tuple[float, float]], fill: str, opacity: float) -> str:
    """Render a filled polygon."""
    coordinates = " ".join(f"{format_length(x)},{format_length(y)}" for x, y in points)
    return f'<polygon points="{coordinates}" fill="{fill}" fill-opacity="{format_length(opacity)}"/>'


def horizontal_step(x: float, y: float, end: float) -> str:
    """Return the path step of a horizontal line."""
    return f"M{format_length(x)} {format_length(y)}H{format_length(end)}"


def vertical_step(x: float, y: float, end: float) -> str:
    """Return the path step of a vertical line."""
    return f"M{format_length(x)} {format_length(y)}V{format_length(end)}"


def translated(x: float, y: float, parts: Iterable[str]) -> str:
    """Group elements and translate them."""
    return f'<g transform="translate({format_length(x)} {format_length(y)})">{"".join(parts)}</g>'
