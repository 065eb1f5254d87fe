"""What the site adds to MkDocs: its menu, the files beside the docs that pages link to, and the index of its search."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parent.parent.parent
BESIDE = "repository"
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:src|tests|docs|demo|examples|README|CONTRIBUTING|LICENSE)[^)#]*)\)")
LISTED = re.compile(r"^#+ (?P<section>.+)|^ *- \[(?P<title>[^]]+)\]\((?P<page>[^)#]+\.md)\)", re.M)
HEADING = re.compile(r'<h[1-3] id="([^"]*)"[^>]*>(.*?)</h[1-3]>', re.S)

_sections: list[tuple[str, str, str, str]] = []


def menu(text: str) -> list[dict[str, Any]]:
    """Make the menu of the lists under the headings of the first page: one line, one page."""
    found: dict[str, list[dict[str, str]]] = {}
    section = ""
    for match in LISTED.finditer(text):
        section = match["section"] or section
        if match["page"]:
            found.setdefault(section, []).append({match["title"]: match["page"]})
    return [{"Home": "README.md"}, *({title: pages} for title, pages in found.items())]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read the menu from the first page, so that pages are listed in one place."""
    _sections.clear()
    config.nav = menu((Path(config.docs_dir) / "README.md").read_text())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take along what pages link to outside the docs, as it is, and the colours of code."""
    pages = [Path(each.abs_src_path).read_text() for each in files.documentation_pages() if each.abs_src_path]
    for path in sorted({path for text in pages for path in OUTSIDE.findall(text)}):
        content = (ROOT / path).read_text()
        files.append(File.generated(config, f"{BESIDE}/{path}.txt", content=content))
    files.append(File.generated(config, "code.css", content=colours()))
    return files


def colours() -> str:
    """Give the colours of code on light paper, and on dark paper to whoever reads so."""
    light, dark = (HtmlFormatter(style=each).get_style_defs(".codehilite") for each in ("friendly", "github-dark"))
    return f"@media (prefers-color-scheme: light) {{\n{light}\n}}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links out of the docs to the copies, and let examples with prompts be coloured as such."""
    up = "../" * page.file.src_uri.count("/")
    markdown = OUTSIDE.sub(rf"]({up}{BESIDE}/\1.txt)", markdown)
    return re.sub(r"```python\n(?=>>> )", "```pycon\n", markdown)


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Note the page's sections for the search."""
    starts = list(HEADING.finditer(html))
    for place, start in enumerate(starts):
        end = starts[place + 1].start() if place + 1 < len(starts) else len(html)
        heading = _plain(start[2]) if place else str(page.title)
        _sections.append((f"{page.file.url}#{start[1]}", str(page.title), heading, _plain(html[start.end() : end])))
    return html


def _plain(html: str) -> str:
    within = re.sub(r"</?(?:a|code|em|span|strong)\b[^>]*>", "", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", within)).split())


def on_post_build(config: MkDocsConfig) -> None:
    """Write the index as a script, which a page that is read from a disk may load as well."""
    index = json.dumps(_sections, ensure_ascii=False, separators=(",", ":"))
    (Path(config.site_dir) / "search-index.js").write_text(f"window.searchIndex={index};\n")
