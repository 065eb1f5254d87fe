"""The Markdown pages of the documentation, as they were installed or as a checkout has them."""

from __future__ import annotations

import itertools
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from sfumato.caching import cached_property
from sfumato.quick_dataclass import dataclass

FRONT_PAGE = "README.md"
REFERENCE = "Reference"
_INSTALLED = Path(__file__).parent / "markdown"
_CHECKOUT = Path(__file__).parents[3]
_FENCE = re.compile(r"^ *(```+|~~~+)")
_HEADING = re.compile(r"^(#{1,6}) +(.*?)(?: +#+)?$")
_MENU_LINE = re.compile(r"^##+ (?P<heading>.+)|^ *- \[(?P<title>[^]]+)\]\((?P<path>[^)#]+\.md)\)", re.M)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_DOOR = "I "
"""How the headings of the front page begin that say who the reader is: "I own data"."""


@dataclass(frozen=True)
class Section:
    """A heading with the text below it, up to the next heading."""

    heading: str
    anchor: str
    level: int
    text: str
    """Markdown, without the heading."""


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    path: str
    """Below ``docs/``: ``how-to/medians.md``."""
    markdown: str
    """Without comments."""

    @property
    def title(self) -> str:
        return self.sections[0].heading if self.sections else self.path

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        return tuple(_sections(self.markdown))

    @property
    def summary(self) -> str:
        """The first sentence of prose, in plain text."""
        for section in self.sections:
            for paragraph in re.split(r"\n\s*\n", section.text):
                if paragraph and re.match(r"[^\W\d]|[*_`\[\"“]", paragraph) and not _FENCE.match(paragraph):
                    return _first_sentence(plain_text(paragraph))
        return ""


@dataclass(frozen=True)
class MenuSection:
    """A heading of the front page with the pages listed below it."""

    heading: str
    entries: tuple[tuple[str, str], ...]
    """Title and path of each page."""


def pages_folder() -> Path:
    """Return the folder of the pages: inside an installed package, else ``docs/`` of the checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT / "docs"


def site_folder() -> Path:
    """Return the folder that ``scripts/site`` builds the site in, whether it was built or not."""
    return _CHECKOUT / "build" / "site"


def read_pages(folder: Path | None = None) -> tuple[Page, ...]:
    """Read every page: first those of the front page's lists, in their order, then the others by path."""
    folder = pages_folder() if folder is None else folder
    pages = {path: Page(path, _without_comments(folder / path)) for path in _markdown_paths(folder)}
    menu_paths = [path for section in menu(pages[FRONT_PAGE].markdown) for _, path in section.entries if path in pages]
    return tuple(pages[path] for path in dict.fromkeys([FRONT_PAGE, *menu_paths, *pages]))


def menu(front_page: str) -> list[MenuSection]:
    """Return the lists of pages below the headings of the front page: one line is one page."""
    lists: dict[str, list[tuple[str, str]]] = {}
    heading = ""
    for match in _MENU_LINE.finditer(front_page):
        heading = match["heading"] or heading
        if match["path"]:
            lists.setdefault(heading, []).append((match["title"], match["path"]))
    return [MenuSection(heading, tuple(entries)) for heading, entries in lists.items()]


def reader_menus(front_page: str) -> list[MenuSection]:
    """Return the lists for one kind of reader each: those below headings such as "I own data"."""
    return [section for section in menu(front_page) if section.heading.startswith(_DOOR)]


def groups_by_page(front_page: str) -> Mapping[str, str]:
    """Return the group that each listed page is found in: a door, the reference, or the heading it stands below."""
    groups: dict[str, str] = {}
    for section in (*reader_menus(front_page), *menu(front_page)):
        for _, path in section.entries:
            groups.setdefault(path, REFERENCE if path.startswith("reference/") else section.heading)
    return groups


def plain_text(markdown: str) -> str:
    """Return what a reader sees of a piece of Markdown: without links, emphasis and marks of tables.

    >>> plain_text("**Ask** in [SQL](ask-in-sql.md), with `--epsilon`.")
    'Ask in SQL, with --epsilon.'
    """
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", _COMMENT.sub("", markdown))
    text = re.sub(r"\\([*\[\]|_])", r"\1", re.sub(r"\*\*|`|(?<!\w)[*_](?=\w)|(?<=[\w.!?])[*_](?!\w)", "", text))
    return " ".join(text.replace("&lt;", "<").split())


def heading_anchor(heading: str) -> str:
    """Return the anchor of a heading, as Python-Markdown's ``toc`` makes it.

    >>> heading_anchor("What is `ε`, and what is not?")
    'what-is-and-what-is-not'
    """
    ascii_only = unicodedata.normalize("NFKD", plain_text(heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def _markdown_paths(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


def _without_comments(path: Path) -> str:
    return re.sub(r"\n{3,}", "\n\n", _COMMENT.sub("", path.read_text(encoding="utf-8")))


def _sections(markdown: str) -> Iterator[Section]:
    """Split a page at its headings; what stands before the first one belongs to no section."""
    lines = markdown.splitlines()
    starts = [*_row_heading_and_level(lines), (len(lines), "", 0)]
    anchors: set[str] = set()
    for (row, heading, level), (next_row, _, _) in itertools.pairwise(starts):
        text = "\n".join(lines[row + 1 : next_row]).strip("\n")
        yield Section(plain_text(heading), _unused_anchor(heading, anchors), level, text)


def _row_heading_and_level(lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """Yield row, text and level of each heading; a line of code that begins with # is none."""
    fence = ""
    for row, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = None if fence else _HEADING.match(line)
        if heading:
            yield row, heading[2], len(heading[1])


def _unused_anchor(heading: str, taken: set[str]) -> str:
    """Return the heading's slug, with _1, _2 … if an earlier heading has it."""
    base = heading_anchor(heading)
    anchor = next(
        candidate
        for candidate in itertools.chain([base], (f"{base}_{n}" for n in itertools.count(1)))
        if candidate not in taken
    )
    taken.add(anchor)
    return anchor


def _first_sentence(text: str, shortest: int = 30, longest: int = 110) -> str:
    """Return the first sentence; one that says nothing yet, such as "Theorem.", with what follows."""
    ends = [match.end() for match in re.finditer(r"[.?!](?=\s|$)", text) if match.end() >= shortest]
    return textwrap.shorten(text[: ends[0]] if ends else text, longest, placeholder=" …")
