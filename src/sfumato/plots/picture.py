"""A finished chart as SVG text, for notebooks and files."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.extras import install_command
from sfumato.untrusted import refuse_malformed

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
        with refuse_malformed(lambda: InvalidParameter("source", source, "a picture as JSON", fix=fix)):
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
        raise InvalidParameter("plot", str(path), "a file that ends in " + ", ".join(SUFFIXES), fix=fix)
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidParameter("plot", str(path), "a writable file in an existing folder")
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
