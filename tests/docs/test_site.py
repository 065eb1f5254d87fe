"""The documentation is a site: it is built with warnings as errors, every link leads somewhere, nothing is loaded."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shutil
import string
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

from server.browsers import Chromium, chromium
from sfumato.manual.markdown_pages import REFERENCE, Page, read_pages
from sfumato.manual.search import build_index

ROOT = Path(__file__).parent.parent.parent
LOADING = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", folder]
    return subprocess.run(command, capture_output=True, text=True, cwd=config.parent, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@dataclass
class Found(HTMLParser):
    """Collects what one page loads, where it leads, and which places in it can be led to."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.places.add(value or "")
            elif (tag, name) in LOADING:
                self.loads.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")


@lru_cache(maxsize=500)
def read(page: Path) -> Found:
    found = Found()
    found.feed(_COLOURED.sub("", page.read_text()))
    return found


_COLOURED = re.compile(r'<span class="\w+">|</span>')
"""Most tags of a page with code: they have neither a place nor a link, and a parser takes its time for each."""


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_page_is_built(site: Path) -> None:
    written = {each.relative_to(ROOT / "docs").with_suffix(".html") for each in (ROOT / "docs").rglob("*.md")}
    expected = {Path("index.html") if each == Path("README.html") else each for each in written}
    assert {each.relative_to(site) for each in pages(site)} == expected


def test_every_link_leads_to_a_page_and_to_a_place_in_it(site: Path) -> None:
    wrong = [
        f"{page.relative_to(site)}: {link}"
        for page in pages(site)
        for link in read(page).links
        if not (_is_place(page, link) if link.startswith("#") else _leads_somewhere(page.parent, link))
    ]
    assert not wrong, "\n".join(wrong)


@cache
def _leads_somewhere(folder: Path, link: str) -> bool:
    """Tell whether a link of the pages of one folder, most of which they share, is to a page and a place."""
    target = urlsplit(link)
    return target.scheme in {"http", "https"} or _is_place((folder / unquote(target.path)).resolve(), link)


def _is_place(page: Path, link: str) -> bool:
    fragment = urlsplit(link).fragment
    return page.is_file() and (not fragment or unquote(fragment) in read(page).places)


def test_nothing_is_loaded_from_the_network(site: Path) -> None:
    for page in pages(site):
        for source in read(page).loads:
            assert source == "data:," or (not urlsplit(source).netloc and not urlsplit(source).scheme), (page, source)
            assert source == "data:," or (page.parent / source).resolve().is_file(), (page, source)


def test_no_style_script_or_picture_of_the_site_names_another_host(site: Path) -> None:
    names = re.compile(r"(?:https?:)?//[\w-]+\.[\w.-]+")
    for path in site.rglob("*"):
        if path.suffix in {".css", ".svg"} or path.name == "search.js":
            found = {each for each in names.findall(path.read_text()) if "www.w3.org" not in each}
            assert not found, (path, found)
    fetching = re.compile(r"\bfetch\(|XMLHttpRequest|import\(|WebSocket|sendBeacon")
    assert not fetching.search((site / "search.js").read_text())


def test_the_front_page_opens_with_three_doors_of_five_pages() -> None:
    """Before anything else: three headings, and below each five pages with a line about each."""
    text = (ROOT / "docs/README.md").read_text()
    doors = re.split(r"^## ", text, flags=re.M)[1:4]
    assert [door.partition("\n")[0] for door in doors] == ["I own data", "I ask questions", "I want the mathematics"]
    for door in doors:
        assert len(re.findall(r"^- \[[^]]+\]\([\w/-]+\.md\): [^\n]+\.$", door, re.M)) == 5, door
        assert door.count("\n- ") == 5, door


def _anchor(heading: str, anchor: str | None = None) -> str:
    """The anchor that search.js goes to: it is made of the heading where none is given."""
    letters = "".join(letter for letter in heading.lower() if letter in string.ascii_lowercase + string.digits + "_- ")
    return "-".join(letters.replace("-", " ").split()) if anchor is None else anchor


def test_the_search_knows_every_page(site: Path) -> None:
    script = (site / "search-index.js").read_text()
    index = json.loads(script.removeprefix("window.searchIndex=").removesuffix(";\n"))
    assert {url for url, *_ in index["pages"]} == {str(page.relative_to(site)) for page in pages(site)}
    urls = [url for url, *_, sections in index["pages"] for _ in range(sections)]
    places = [f"{url}#{_anchor(*section)}" for url, section in zip(urls, index["sections"], strict=True)]
    assert not [place for place in places if place.partition("#")[2] not in read(site / place.partition("#")[0]).places]


def test_no_code_is_loaded_that_the_site_does_not_hold(site: Path) -> None:
    """The pages of docs/theme are all there is: no theme of somebody else's slips in."""
    scripts = {each.name for each in site.rglob("*.js")}
    styles = {each.name for each in site.rglob("*.css")}
    assert scripts == {"search.js", "search-index.js"}
    assert styles == {"style.css", "code.css"}


def test_the_index_is_small(site: Path) -> None:
    """A phone loads page and index within 2 seconds (measured below): what it loads is bounded here."""
    script = (site / "search-index.js").read_bytes()
    assert len(script) < 200_000
    assert len(gzip.compress(script)) < 90_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as running:
        yield running


QUERIES = (
    "LAG",
    "percentiles",
    "strptim",
    "rolling average",
    "GDPR",
    "ε",
    "Rényi's divergence",
    "calculating 10 medians",
    "",
    "?",
)


def test_the_site_finds_what_sfumato_docs_finds(site: Path, browser: Chromium) -> None:
    """From a disk, without a network: the same pages and scores for what readers type, synonyms and every message."""
    index = build_index(read_pages(ROOT / "docs"))
    queries = [*QUERIES, *index.synonyms]
    with browser.window({}) as page:
        page.goto((site / "how-to/medians.html").as_uri())
        shown = page.evaluate(
            "queries => queries.map((each) => searchPages(each).map(({ url, score }) => [url, score]))", queries
        )
    for query, hits in zip(queries, shown, strict=True):
        expected = [[f"{_url(hit.page.path)}#{hit.section.anchor}", hit.score] for hit in index.search(query)]
        assert hits == expected, query


def test_the_site_finds_no_word_within_another(site: Path, browser: Chromium) -> None:
    """On pages where the next word in order has the one asked for within it."""
    texts = {"one": "# One\n\numlaut and unumlaut", "two": "# Two\n\nunumlaut", "three": "# Three\n\numlauts umlauting"}
    index = build_index(tuple(Page(f"{name}.md", text) for name, text in texts.items()), {})
    with browser.window({}) as page:
        page.goto((site / "index.html").as_uri())
        page.evaluate("index => { window.searchIndex = index; }", _hooks().encode_index(index))
        page.add_script_tag(path=site / "search.js")
        shown = page.evaluate("searchPages('umlaut').map(({ url, score }) => [url, score])")
    assert shown == [[f"{_url(hit.page.path)}#{hit.section.anchor}", hit.score] for hit in index.search("umlaut")]
    assert [url for url, _ in shown] == ["one.html#one", "three.html#three"]


def _hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs/theme/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _url(path: str) -> str:
    return "index.html" if path == "README.md" else path.removesuffix(".md") + ".html"


def test_what_is_typed_is_shown_below_the_doors_and_opened(site: Path, browser: Chromium) -> None:
    from playwright.sync_api import expect

    with browser.window({}) as page:
        page.goto((site / "how-to/medians.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("exit codes")
        expect(page.locator("#found li").first).to_have_text(REFERENCE)
        expect(page.locator("#found a b").first).to_have_text("Exit codes")
        page.keyboard.press("Enter")
        page.wait_for_url("**/reference/exit-codes.html#exit-codes")
        page.keyboard.press("/")
        page.keyboard.type("zzzz")
        expect(page.locator("#found")).to_have_text("No page has these words.")


class _Compressing(SimpleHTTPRequestHandler):
    """Serves files as hosts of static pages do: compressed."""

    def do_GET(self) -> None:
        body = gzip.compress(Path(self.translate_path(self.path)).read_bytes())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(self.path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Compressing, directory=site)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


SLOW_4G = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 750e3 / 8}
"""A slow phone line of 1.6 Mbit/s with 150 ms to the server, as Lighthouse has it."""


@pytest.mark.long
def test_a_phone_searches_within_two_seconds(site: Path, browser: Chromium) -> None:
    """Slow 4G and a quarter of this processor; the best of three, as other work here counts too."""
    seconds = []
    for _ in range(3):
        context = browser.browser.new_context(viewport={"width": 390, "height": 844})
        with _served(site) as address:
            page = context.new_page()
            session = context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", SLOW_4G)
            session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
            page.goto(f"{address}/how-to/medians.html", wait_until="domcontentloaded")
            seconds.append(page.evaluate("searchPages('median').length && performance.now()") / 1000)
        context.close()
    assert min(seconds) < 2, seconds


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    """A copy of the site's settings with one page that is wrong: the build that the tests rely on does notice."""
    shutil.copytree(ROOT / "docs/theme", tmp_path / "docs/theme")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs/README.md").write_text("# Home\n\n## Part\n\n- [Page](page.md)\n")
    (tmp_path / "docs/page.md").write_text("# Page\n\n[there](page.md#nowhere)\n")
    done = build(tmp_path / "out", tmp_path / "mkdocs.yml")
    assert done.returncode != 0
    assert "nowhere" in done.stderr
    (tmp_path / "docs/page.md").write_text("# Page\n\n[there](page.md#page)\n")
    assert build(tmp_path / "out", tmp_path / "mkdocs.yml").returncode == 0


def test_the_script_for_people_is_plain_sh() -> None:
    script = ROOT / "scripts/site"
    assert script.stat().st_mode & 0o100
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def _luminance(colour: str) -> float:
    """Of a colour such as #1a2 or #15191e, as WCAG 2.1 defines it."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_site_can_be_read_on_light_and_on_dark_paper(site: Path) -> None:
    """Every ink has a contrast of 4.5 with every paper, in both; and code has colours for both."""
    inks, papers = ("ink", "quiet", "accent"), ("paper", "code")
    shades = [dict(re.findall(r"--(\w+): (#\w+)", each)) for each in re.findall(r":root \{[^}]*", _style(site))]
    assert [set(each) for each in shades] == [{*inks, *papers, "line"}] * 2
    light, dark = shades
    assert _luminance(light["paper"]) > 0.9 > 0.05 > _luminance(dark["paper"])
    for shade in shades:
        for ink in inks:
            for paper in papers:
                low, high = sorted(_luminance(shade[each]) for each in (ink, paper))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper, shade)
    code = (site / "code.css").read_text()
    assert re.findall(r"prefers-color-scheme: (\w+)", code) == ["light", "dark"]
    assert code.count("{") == code.count("}")


def _style(site: Path) -> str:
    return (site / "style.css").read_text()
