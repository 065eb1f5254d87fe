"""A picture is one SVG text: a notebook shows it, and it is saved as a file."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidParameter, SfumatoError, installing
from sfumato.untrusted import refusing

KINDS = (".svg", ".png", ".html")
FITTING = ' style="max-width:100%;height:auto"'
"""The one style in a picture: it is never wider than what shows it."""
KIND = "picture/1"
_FINENESS = 2
"""Points of a PNG for each pixel of the picture."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A picture is drawn as SVG by ourselves: it loads nothing, runs nothing, and the same numbers give the same
    text.
    """

    svg: str
    width: float
    height: float
    title: str = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that ends in .svg, .png or .html; a PNG is made by the plot extra."""
        check_picture(path)
        kind = Path(path).suffix.lower()
        made = self.png() if kind == ".png" else (self.svg if kind == ".svg" else self.page()).encode()
        try:
            Path(path).write_bytes(made)
        except OSError as error:
            raise SfumatoError(
                f"the picture cannot be written ({os.strerror(error.errno or 0)})",
                place=str(path),
                fix="name another file; an answer itself is stored, and free to ask for again",
            ) from None

    def png(self) -> bytes:
        """Give the picture as PNG, of two points for each pixel."""
        return bytes(_converter().svg_to_png(self.svg, scale=_FINENESS))

    def unstyled(self) -> str:
        """Give the SVG without a style of its own, for a page that allows none inside its text."""
        return self.svg.replace(FITTING, "", 1)

    def page(self) -> str:
        """Give a whole HTML page that shows the picture and nothing else."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title>'
        return f"<!doctype html><html lang=en><head>{head}</head><body>{self.svg}</body></html>\n"

    def to_json(self) -> str:
        """Write the picture as JSON text, with a kind and a version."""
        own = {"svg": self.svg, "width": self.width, "height": self.height, "title": self.title}
        return json.dumps({"kind": KIND, **own})

    @classmethod
    def from_json(cls, source: str) -> Picture:
        """Read back what ``to_json`` wrote; any other text is refused."""
        with refusing(lambda: InvalidParameter("source", source, "the JSON text of a picture")):
            found = json.loads(source)
            if found.pop("kind") != KIND or set(found) != {"svg", "width", "height", "title"}:
                raise ValueError
            return cls(str(found["svg"]), float(found["width"]), float(found["height"]), str(found["title"]))

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"

    def __repr__(self) -> str:
        return f"<Picture {self.title!r}, {self.width:.0f} × {self.height:.0f}: .svg, .save('picture.svg')>"


def saved(picture: Picture, path: str | os.PathLike[str] | None) -> Picture:
    """Give a picture, which is also written to a file where a path is named."""
    if path is not None:
        picture.save(path)
    return picture


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse a picture that could not be drawn or written, while nothing has been spent on it."""
    file = Path(path)
    if file.suffix.lower() not in KINDS:
        fix = "draw it as .svg; answer.to_altair() gives a chart that saves itself otherwise"
        raise InvalidParameter("plot", str(path), "a file that ends in " + ", ".join(KINDS), fix=fix)
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidParameter("plot", str(path), "a file that can be written, in a folder that is there")
    if file.suffix.lower() == ".png":
        _converter()


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise SfumatoError(
            "a PNG is made by vl-convert, which is not installed",
            place="Picture.save",
            fix=f"{installing('plot')}; or save it as .svg, which needs nothing",
        ) from None
    return vl_convert
