"""What the site adds to MkDocs: its menu, the files beside the docs that pages link to, and the index of its search."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

from sfumato.manual import markdown_pages, search

ROOT = Path(__file__).resolve().parent.parent.parent
BESIDE = "repository"
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:src|tests|docs|demo|examples|README|CONTRIBUTING|LICENSE)[^)#]*)\)")


def menu(text: str) -> list[dict[str, Any]]:
    """Make the menu of the lists under the headings of the first page: one line, one page."""
    sections = [
        {section.heading: [{title: path} for title, path in section.entries]} for section in markdown_pages.menu(text)
    ]
    return [{"Home": "README.md"}, *sections]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read the menu from the first page, so that pages are listed in one place."""
    config.nav = menu((Path(config.docs_dir) / "README.md").read_text())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take along what pages link to outside the docs, as it is, and the colours of code."""
    texts = [Path(each.abs_src_path).read_text() for each in files.documentation_pages() if each.abs_src_path]
    for path in sorted({path for text in texts for path in OUTSIDE.findall(text)}):
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


def on_post_build(config: MkDocsConfig) -> None:
    """Write the index as a script, which a page that is read from a disk may load as well."""
    index = search.build_index(markdown_pages.read_pages(Path(config.docs_dir)))
    script = json.dumps(encode_index(index), ensure_ascii=False, separators=(",", ":"))
    (Path(config.site_dir) / "search-index.js").write_text(f"window.searchIndex={script};\n")


def encode_index(index: search.Index) -> dict[str, Any]:
    """Return the index as search.js reads it, with everything that both searches must agree on."""
    levels = sorted({weight for sections in index.section_weights.values() for weight in sections.values()})
    letters = dict(zip(levels, string.ascii_uppercase, strict=False))
    return {
        "pages": [_page_entry(page, index.group_by_page.get(page.path, "")) for page in index.pages],
        "sections": [
            _section_entry(section.anchor, section.heading if place else "")
            for page in index.pages
            for place, section in enumerate(page.sections)
        ],
        "words": " ".join(index.words),
        "postings": " ".join(_postings(index.section_weights[word], letters) for word in index.words),
        "weights": levels,
        "synonyms": [
            [
                phrase,
                synonym.words,
                [index.section_numbers[page] for page in synonym.pages if page in index.section_numbers],
            ]
            for phrase, synonym in index.synonyms.items()
        ],
        "common": sorted(search.COMMON_WORDS),
        "exact": search.EXACT,
        "shortestPrefix": search.SHORTEST_PREFIX,
        "shortestStem": search.SHORTEST_STEM,
        "maxEnding": search.MAX_ENDING,
        "maxLetters": search.MAX_LETTERS,
    }


def _page_entry(page: markdown_pages.Page, group: str) -> list[Any]:
    url = "index.html" if page.path == markdown_pages.FRONT_PAGE else page.path.removesuffix(".md") + ".html"
    return [url, page.title, page.summary, group, len(page.sections)]


def _section_entry(anchor: str, heading: str) -> list[str]:
    """Return a section's heading, and its anchor where search.js would not make it of the heading.

    >>> _section_entry("by-the-id", "By the id"), _section_entry("", "")
    (['By the id'], ['', ''])
    """
    plain = re.sub(r"[- ]+", "-", re.sub(r"[^a-z0-9_ -]", "", heading.lower()).strip())
    return [heading] if plain and plain == anchor else [heading, anchor]


def _postings(weights: Mapping[int, int], letters: Mapping[int, str]) -> str:
    """Write each section as its distance from the last one, in base 36 unless it is 1, and a letter for the weight.

    >>> _postings({0: 4, 1: 20, 46: 4}, {4: "A", 20: "B"})
    'AB19A'
    """
    steps = zip(weights.items(), (-1, *weights), strict=False)
    return "".join(
        ("" if section - last == 1 else _base36(section - last)) + letters[w] for (section, w), last in steps
    )


def _base36(number: int) -> str:
    digits = string.digits + string.ascii_lowercase
    return (_base36(number // 36) if number >= 36 else "") + digits[number % 36]
