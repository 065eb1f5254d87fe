"""HTML for notebooks is put together here: every text in it is escaped, and nothing is loaded or run.

Colours are those of the page around it, light or dark; a page that removes styles still shows every word.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from sfumato.untrusted import printable

_RIGHT, _LEFT = (f' style="text-align:{side};vertical-align:top"' for side in ("right", "left"))


def escaped(text: str) -> str:
    """Write a text so that it is one, whatever stands in it: no tag, no quote, and nothing that moves a cursor."""
    return html.escape(printable(text))


def paragraph(text: str, *, strong: bool = False) -> str:
    """Write one sentence or more, each line of it below the other."""
    inner = "<br>".join(map(escaped, text.splitlines()))
    return f"<p>{f'<strong>{inner}</strong>' if strong else inner}</p>" if text else ""


def paragraphs(texts: Iterable[str]) -> str:
    """Write one paragraph for each text."""
    return "".join(map(paragraph, texts))


def preformatted(text: str) -> str:
    """Write a text whose columns are aligned by spaces."""
    lines = "\n".join(map(escaped, text.splitlines()))
    return f'<pre style="white-space:pre-wrap">{lines}</pre>'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = (), caption: str = "") -> str:
    """Write a table of texts; numbers stand on the right, as in the terminal. Without names of columns, the first cell
    of each row names it.
    """
    right = set(numeric)
    sides = [_RIGHT if name in right else _LEFT for name in columns]
    head = "".join(f"<th{side}>{escaped(name)}</th>" for name, side in zip(columns, sides, strict=True))
    body = "".join(f"<tr>{_cells(row, sides)}</tr>" for row in rows)
    above = f'<caption style="text-align:left">{escaped(caption)}</caption>' if caption else ""
    return f"<table>{above}{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], sides: Sequence[str]) -> str:
    if sides:
        return "".join(f"<td{side}>{escaped(each)}</td>" for each, side in zip(row, sides, strict=True))
    first, *others = row
    return f"<th{_LEFT}>{escaped(first)}</th>" + "".join(f"<td{_LEFT}>{escaped(each)}</td>" for each in others)


def folded(summary: str, inner: str) -> str:
    """Write HTML that was made here so that it is folded away until somebody wants to see it."""
    return f"<details><summary>{escaped(summary)}</summary>{inner}</details>"


def bar(share: float) -> str:
    """Draw how much of something is left, from 0 to 1."""
    kept = min(max(share, 0.0), 1.0)
    frame = "width:16em;height:0.6em;border:1px solid currentColor;border-radius:0.3em;overflow:hidden"
    inner = f'<div style="width:{100 * kept:.1f}%;height:100%;background:#4b8bbf"></div>'
    return f'<div role="img" aria-label="{100 * kept:.0f} % is left" style="{frame}">{inner}</div>'
