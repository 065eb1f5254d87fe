"""A chart as SVG text: elements with every text escaped, estimated text widths, and the finished file.

It has every colour of a picture, and the dashes that tell lines apart without colour.
"""

from __future__ import annotations

import html
import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.extras import install_command
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable, refuse_malformed

INK, QUIET, RULE, PAPER = "#20262e", "#5b6470", "#dfe3e8", "#ffffff"
"""Text, secondary text, grid lines, background."""
BAR, ERROR_BAR, BAR_LABEL, SAMPLE = "#8fb3d9", "#1b3a57", "#1b3a57", "#c2410c"
"""A bar, its error bar and its number, and a highlighted sample or threshold."""
LINES = ("#0067a5", "#b24a00", "#00755a", "#7a3b96", "#8a5a00", "#4d4d4d", "#b0327a", "#2f6f8f")
"""A colour-blind-safe palette (after Okabe and Ito), all dark enough on white."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 3", "6 2 1 2 1 2")
"""Dash patterns of the lines, so that they differ without colour too."""
FIRST, SECOND = "#1b3a57", "#e69f00"
"""Paired bars: dark blue and orange, distinguishable with any colour vision, and in greyscale."""
HEAT_LARGEST, HEAT_NEGATIVE = (8, 55, 107), (166, 76, 0)
"""RGB of a heat map's largest and most negative number: blue and brown, distinguishable with any colour vision."""
BLACK = "#000000"
"""A heat map's numbers on light cells; on dark ones they have the colour of the paper."""
VEGA_BAR, VEGA_ERROR_BAR, VEGA_AXIS = "#7a8ca5", "#2b3a4f", "#999"
"""The charts handed to Altair, which draws on a notebook's own background."""


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

    def __missing__(self, character: str) -> float:
        return _character_width(character)


@lru_cache(maxsize=4096)
def _character_width(character: str) -> float:
    """Return an upper estimate of a character's width in the usual fonts, in units of the font size."""
    if character in _NARROW or character in _BROAD:
        return _NARROW.get(character) or _BROAD[character]
    if unicodedata.combining(character):
        return 0.0
    return 0.62 if character < "\u0250" else 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.8


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


def join_and_wrap(pieces: list[str], room: float, size: float) -> list[str]:
    """Join pieces with " · " into lines of at most this width; truncate a piece that is wider than a line."""
    lines: list[str] = []
    for piece in (truncate(text, room, size) for text in pieces if text):
        joined = f"{lines[-1]} · {piece}" if lines else piece
        if lines and text_width(joined, size) <= room:
            lines[-1] = joined
        else:
            lines.append(piece)
    return lines


_MAX_TOOLTIP = 300
"""The most characters of a tooltip."""


def format_length(number: float) -> str:
    """Format a length with at most two decimals, always the same way."""
    short = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def format_lengths(numbers: Sequence[float]) -> list[str]:
    """Format many lengths at once exactly as ``format_length`` does, in a fraction of the time."""
    formatted = "%.2f\n" * len(numbers) % tuple(numbers)
    return formatted.replace("-0.00\n", "0.00\n").replace("0\n", "\n").replace(".0\n", "\n").split()


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


SUFFIXES = (".svg", ".png", ".html")
FIT_STYLE = ' style="max-width:100%;height:auto"'
"""The only style in a picture: it is never wider than its container."""
JSON_KIND = "picture/1"
_PNG_SCALE = 2
"""PNG pixels per SVG pixel."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A chart as SVG text: it loads nothing and runs nothing, and the same numbers give the same text."""

    svg: str
    width: float
    height: float
    title: str = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as .svg, .png or .html; PNG needs the extra ``plot``."""
        check_picture_path(path)
        suffix = Path(path).suffix.lower()
        content = self.png() if suffix == ".png" else (self.svg if suffix == ".svg" else self.html_page()).encode()
        try:
            Path(path).write_bytes(content)
        except OSError as error:
            raise SfumatoError(
                f"the picture cannot be written ({os.strerror(error.errno or 0)})",
                place=str(path),
                fix="name another file; the answer itself is stored, and asking for it again is free",
            ) from None

    def png(self) -> bytes:
        """Return the picture as PNG, at twice its size."""
        return bytes(_import_converter().svg_to_png(self.svg, scale=_PNG_SCALE))

    def without_style(self) -> str:
        """Return the SVG without its inline style, for a page whose content security policy forbids one."""
        return self.svg.replace(FIT_STYLE, "", 1)

    def html_page(self) -> str:
        """Return an HTML page that shows the picture and nothing else."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title>'
        return f"<!doctype html><html lang=en><head>{head}</head><body>{self.svg}</body></html>\n"

    def to_json(self) -> str:
        """Serialise the picture as JSON text, with a kind and a version."""
        fields = {"svg": self.svg, "width": self.width, "height": self.height, "title": self.title}
        return json.dumps({"kind": JSON_KIND, **fields})

    @classmethod
    def from_json(cls, source: str) -> Picture:
        """Parse the output of ``to_json``; refuse any other text."""
        fix = "pass the text that Picture.to_json() returned"
        with refuse_malformed(lambda: InvalidParameter("source", source, "the JSON text of a picture", fix=fix)):
            fields = json.loads(source)
            if fields.pop("kind") != JSON_KIND or set(fields) != {"svg", "width", "height", "title"}:
                raise ValueError
            return cls(str(fields["svg"]), float(fields["width"]), float(fields["height"]), str(fields["title"]))

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"

    def __repr__(self) -> str:
        return f"<Picture {self.title!r}, {self.width:.0f} × {self.height:.0f}: .svg, .save('picture.svg')>"


def save_if_path(picture: Picture, path: str | os.PathLike[str] | None) -> Picture:
    """Return a picture; save it first if a path is given."""
    if path is not None:
        picture.save(path)
    return picture


def check_picture_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which a picture could not be saved, before anything is spent on it."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        fix = "name a .svg file; for other formats, save the chart that answer.to_altair() returns"
        raise InvalidParameter("plot", str(path), "a file that ends in " + join_with_or(SUFFIXES), fix=fix)
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        rule = "a file that you can write to, in a folder that exists"
        raise InvalidParameter("plot", str(path), rule, fix="make the folder first, or name another file")
    if file.suffix.lower() == ".png":
        _import_converter()


def _import_converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise SfumatoError(
            "PNG files need vl-convert, which is not installed",
            place="Picture.save",
            fix=f"{install_command('plot')}; or save it as .svg, which needs no extra package",
        ) from None
    return vl_convert
