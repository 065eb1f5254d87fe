"""Self-contained HTML pages: no script, font or picture is fetched from anywhere."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.plots.picture import Picture
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The content security policy of a page: nothing may be loaded but its inline style."""
_BEGINNING = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_ELSE}">'
    '<meta name="referrer" content="no-referrer"><title>'
)
"""The start of every page: whatever follows, a browser loads and runs nothing."""
_ELSEWHERE = re.compile(r"<(meta|link|base|script|iframe|frame|object|embed|form)\b", re.I)
"""Elements that could navigate the browser elsewhere, or have no use in a page."""
_STYLE = """
:root { color-scheme: light dark; --ink: #20262e; --quiet: #5b6470; --rule: #dfe3e8; --paper: #fff; --card: #f5f7f9;
  --link: #0067a5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --quiet: #a3adb9; --rule: #3a434e; --paper: #15191e;
  --card: #1f252c; --link: #7cc0ee; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 50rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: 1.2rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; margin: 0 0 .5rem; }
p, ul, ol { margin: .6rem 0; } li { margin: .25rem 0; }
a { color: var(--link); } .quiet, figcaption, footer { color: var(--quiet); font-size: .9rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .7rem; margin: 1.2rem 0; }
.facts div, .card { background: var(--card); border-radius: .5rem; padding: .8rem 1rem; }
.facts b { display: block; font-size: 1.15rem; overflow-wrap: anywhere; }
.facts span { color: var(--quiet); font-size: .85rem; }
.card { margin: 1.2rem 0; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem 1.1rem .3rem 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; font-size: .9rem; } .number { text-align: right; white-space: nowrap; }
code, pre { font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--card); border-radius: .5rem; padding: .7rem .9rem; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: .6rem 0; }
.card pre { background: var(--paper); }
.hash { overflow-wrap: anywhere; font-size: .78rem; }
summary { cursor: pointer; color: var(--link); margin: .6rem 0; }
figure { margin: 1rem 0; } .picture { overflow-x: auto; } .picture svg { display: block; min-width: 33rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: 1rem; }
@media (max-width: 30rem) { body { font-size: 15px; } h1 { font-size: 1.4rem; } .card { padding: .7rem; } }
@media print { :root { --ink: #000; --quiet: #444; --rule: #bbb; --paper: #fff; --card: #fff; --link: #000; }
  body { max-width: none; padding: 0; font-size: 10.5pt; } .card, .facts div { border: 1px solid var(--rule); }
  .card, figure, tr, .facts { break-inside: avoid; } h2, h3 { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .picture, .wide { overflow: visible; } .picture svg { min-width: 0; } }
"""


@dataclass(frozen=True, repr=False)
class HtmlPage:
    """A whole HTML page, to be saved, published or shown in a notebook."""

    title: str
    body: str

    @property
    def html(self) -> str:
        """The HTML text of the page."""
        head = f"{escape_html(self.title)}</title><style>{_STYLE}</style>"
        return f"{_BEGINNING}{head}</head>\n<body>\n{self.body}\n</body></html>\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file that ends in .html or .htm."""
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise SfumatoError(
                "a page can only be saved as .html", place=str(path), fix="give the file a name that ends in .html"
            )
        try:
            Path(path).write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise SfumatoError(
                f"the page cannot be written ({os.strerror(error.errno or 0)})",
                place=str(path),
                fix="name a file in an existing folder that you can write to, on a disk with free space",
            ) from None

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:40rem;border:0" sandbox srcdoc="{html.escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"<Page {self.title!r}: .html, .save('page.html')>"


def is_self_contained(text: str) -> bool:
    """Return whether a browser that shows this page loads nothing, runs nothing and does not navigate."""
    return text.startswith(_BEGINNING) and not _ELSEWHERE.search(text, len(_BEGINNING))


def escape_html(text: str) -> str:
    """Escape a text for HTML."""
    return html.escape(escape_unprintable(text))


def paragraph(text: str, css_class: str = "") -> str:
    """Render a paragraph of plain text."""
    return f"<p{f' class={chr(34)}{css_class}{chr(34)}' if css_class else ''}>{_escape_with_unbroken_numbers(text)}</p>"


def _escape_with_unbroken_numbers(text: str) -> str:
    """Escape a text so that no line breaks between a Greek letter and its number, or within a small number."""
    unbroken_numbers = re.sub(r"[0-9.]+e-[0-9]+", r"<span class=number>\g<0></span>", escape_html(text))
    return re.sub(r"([εδ]) = ", "\\1\u00a0=\u00a0", unbroken_numbers)


def bullet_list(texts: Iterable[str], ordered: bool = False) -> str:
    """Render a list of plain texts."""
    tag = "ol" if ordered else "ul"
    return f"<{tag}>{''.join(f'<li>{escape_html(text)}</li>' for text in texts)}</{tag}>"


def preformatted_block(text: str) -> str:
    """Render preformatted text."""
    return f"<pre>{'&#10;'.join(escape_html(line) for line in text.splitlines())}</pre>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric_flags: Sequence[bool] = ()) -> str:
    """Render a table of plain texts, numeric columns right-aligned; it scrolls where it is too wide."""
    is_numeric = [*numeric_flags, *[False] * (len(head) - len(numeric_flags))]

    def render_row(tag: str, cells: Sequence[str]) -> str:
        aligned_cells = zip(cells, is_numeric, strict=True)
        cells_html = "".join(
            f"<{tag}{' class=number' if number else ''}>{escape_html(cell)}</{tag}>" for cell, number in aligned_cells
        )
        return f"<tr>{cells_html}</tr>"

    body = "".join(render_row("td", row) for row in rows)
    return f'<div class="wide"><table><thead>{render_row("th", head)}</thead><tbody>{body}</tbody></table></div>'


def figure(picture: Picture, caption: str = "") -> str:
    """Render a picture, which scrolls on a narrow screen so that its text stays readable."""
    caption_html = f"<figcaption>{escape_html(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="picture">{picture.svg}</div>{caption_html}</figure>'


def fact_boxes(facts_and_labels: Iterable[tuple[str, str]]) -> str:
    """Render key facts: a few words each, with a label."""
    facts_html = "".join(
        f"<div><b>{_escape_with_unbroken_numbers(fact)}</b><span>{escape_html(label)}</span></div>"
        for fact, label in facts_and_labels
    )
    return f'<div class="facts">{facts_html}</div>'
