"""HTML fragments for notebooks: every text is escaped, and nothing is loaded or run.

Colours are inherited from the page, light or dark; a page that removes styles still shows every word.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from sfumato.untrusted import escape_unprintable

_RIGHT, _LEFT = (f' style="text-align:{side};vertical-align:top"' for side in ("right", "left"))


def escape(text: str) -> str:
    """Escape a text for HTML, control characters included."""
    return html.escape(escape_unprintable(text))


def paragraph(text: str, *, strong: bool = False) -> str:
    """Render a paragraph, with its line breaks."""
    inner = "<br>".join(map(escape, text.splitlines()))
    return f"<p>{f'<strong>{inner}</strong>' if strong else inner}</p>" if text else ""


def paragraphs(texts: Iterable[str]) -> str:
    """Render one paragraph for each text."""
    return "".join(map(paragraph, texts))


def preformatted(text: str) -> str:
    """Render a text whose columns are aligned by spaces."""
    lines = "\n".join(map(escape, text.splitlines()))
    return f'<pre style="white-space:pre-wrap">{lines}</pre>'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = (), caption: str = "") -> str:
    """Render a table of texts, with ``numeric`` columns aligned right. Without column names, the first cell of each row
    is its header.
    """
    right_aligned = set(numeric)
    styles = [_RIGHT if name in right_aligned else _LEFT for name in columns]
    head = "".join(f"<th{style}>{escape(name)}</th>" for name, style in zip(columns, styles, strict=True))
    body = "".join(f"<tr>{_row_cells(row, styles)}</tr>" for row in rows)
    caption_element = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{caption_element}{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _row_cells(row: Sequence[str], styles: Sequence[str]) -> str:
    if styles:
        return "".join(f"<td{style}>{escape(cell)}</td>" for cell, style in zip(row, styles, strict=True))
    first, *others = row
    return f"<th{_LEFT}>{escape(first)}</th>" + "".join(f"<td{_LEFT}>{escape(cell)}</td>" for cell in others)


def collapsed(summary: str, inner: str) -> str:
    """Render trusted HTML in a collapsed section."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def bar(share: float) -> str:
    """Render a bar of a remaining share, from 0 to 1."""
    clamped = min(max(share, 0.0), 1.0)
    frame = "width:16em;height:0.6em;border:1px solid currentColor;border-radius:0.3em;overflow:hidden"
    inner = f'<div style="width:{100 * clamped:.1f}%;height:100%;background:#4b8bbf"></div>'
    return f'<div role="img" aria-label="{100 * clamped:.0f} % is left" style="{frame}">{inner}</div>'
