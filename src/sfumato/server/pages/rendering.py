"""Pages are rendered from templates that escape every text, under rules that let a browser run nothing but our script.

No text of a page is a script or a style, nothing is loaded from elsewhere, and what a script might make of a text is
refused by the browser itself (trusted types).

A refusal is underlined where it is: its line and column lead to the word that is meant.

Tables of texts are made of answers and of descriptions, short enough for a page.

Budgets are shown as bars: one for each currency of an account, a share or a period.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sfumato.curator import PeriodStandings, Standing
from sfumato.curator.described_tables import TableDescription, Tables
from sfumato.errors import SfumatoError, outcome
from sfumato.privacy.numbers import shown as number
from sfumato.privacy.pictures import WORDS
from sfumato.release.answers.answer import Answer
from sfumato.server.pages.page_contexts import (
    Bar,
    Bars,
    PageFrame,
    PolicyTab,
    RefusalMessage,
    ShownTable,
    Suggested,
    TextTable,
    Underlined,
)
from sfumato.server.people.known_people import Caller, Role
from sfumato.server.requests.answer_forms import LASTING, StaticReply, static_reply
from sfumato.untrusted import printable
from sfumato.version import __version__

RULES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What a browser may load and run for a page."""
HEADERS = {"Content-Security-Policy": RULES, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
"""Of every page. Forms say where they come from only where the referrer may be told to this server itself."""
_STATIC = {"sfumato.css": "text/css", "sfumato.js": "text/javascript", "sfumato.svg": "image/svg+xml"}
_EVERYBODY = (Role.OWNER, Role.ANALYST, Role.AUDITOR)
_TABS = {
    "ask": ("Ask", (Role.OWNER, Role.ANALYST)),
    "budget": ("Budget", _EVERYBODY),
    "history": ("History", _EVERYBODY),
    "data": ("Data", _EVERYBODY),
    "people": ("People", (Role.OWNER, Role.AUDITOR)),
    "ledger": ("Ledger", (Role.OWNER, Role.AUDITOR)),
}
"""By the end of its address, each page's name and who sees it."""


def shown(
    request: Request,
    template: str,
    page: Any,
    *,
    title: str,
    caller: Caller | None = None,
    policy: str = "",
    paused: bool = False,
    status: int = 200,
) -> Response:
    """Answer with a page."""
    frame = _frame(request, title, caller, policy, paused)
    return HTMLResponse(_environment().get_template(template).render(frame=frame, page=page), status, HEADERS)


def address(policy: str, *parts: object) -> str:
    """Give the address of one of a policy's pages."""
    return "/".join(["/p", quote(policy, safe=""), *(quote(str(each), safe="") for each in parts)])


def refusal_of(error: SfumatoError, again: str = "") -> RefusalMessage:
    """Give a refusal as a page shows it."""
    return RefusalMessage(error.rule, error.place, error.fix, outcome(error).http_status, again)


@cache
def static_files() -> Mapping[str, StaticReply]:
    """Read the style, the script and the icon, once: they hold nothing of anybody."""
    folder = resources.files(__package__).joinpath("static")
    return {name: static_reply(folder.joinpath(name).read_bytes(), kind, LASTING) for name, kind in _STATIC.items()}


def _frame(request: Request, title: str, caller: Caller | None, policy: str, paused: bool) -> PageFrame:
    files = {name: f"/static/{name}?{each.mark}" for name, each in static_files().items()}
    if caller is None:
        return PageFrame(title, files=files, version=__version__)
    session = caller.session
    here = address(policy) if policy else ""
    return PageFrame(
        title,
        _tabs(caller.role, here, request.url.path) if policy else (),
        policy,
        here,
        caller.user,
        caller.role.value,
        session.form_token if session else "",
        paused,
        files,
        __version__,
    )


def _tabs(role: Role, here: str, path: str) -> tuple[PolicyTab, ...]:
    end = path.removeprefix("/p/").partition("/")[2].partition("/")[0]
    current = "history" if end == "answers" else end
    return tuple(
        PolicyTab(title, f"{here}/{name}", name == current) for name, (title, roles) in _TABS.items() if role in roles
    )


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("sfumato.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["plain"] = _plain
    found.filters["name"] = _name
    found.filters["number"] = _number
    return found


def _plain(text: str) -> str:
    """Write a text of others on one line, with what is no letter as an escape."""
    return printable(" ".join(text.split()))


def _name(text: str) -> Markup:
    """Write the name of a column or a table, which may go on in the next line after an underscore."""
    return escape(_plain(text)).replace("_", Markup("_<wbr>"))


def _number(text: str) -> str:
    """Write a number, which may go on in the next line before its ±, and nowhere else."""
    return _plain(text).replace("± ", "±\N{NO-BREAK SPACE}")


_WORD = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|\w+|\S")


def start_of(error: SfumatoError, text: str) -> int:
    """Give the place in a text, in letters, where a refusal begins; -1 where it means the whole text."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if line is None or column is None:
        return -1
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return -1
    start = sum(len(each) + 1 for each in lines[: line - 1]) + min(max(1, column), len(lines[line - 1]) + 1) - 1
    return min(start, max(0, len(text) - 1))


def underlined(text: str, start: int) -> Underlined | None:
    """Split a text at the word that begins here, or at the next one; None where there is none."""
    found = _WORD.search(text, start) if start >= 0 else None
    if found is None:
        return None
    return Underlined(text[: found.start()], found[0], text[found.end() :])


_LETTERS, _ROWS = 20_000, 500
"""What of an answer is on a page at most; all of it is in its files."""
_LISTED, _LONGEST = 12_000, 300
"""Letters of all columns that are listed on a page, and of one of them."""


def grid(answer: Any) -> TextTable:
    """Write an answer's rows as texts: each number with ± its half-width."""
    cells, letters = answer.cells(), 0
    rows: list[tuple[str, ...]] = []
    for row in cells[:_ROWS]:
        letters += sum(map(len, row)) + 20 * len(row)
        if letters > _LETTERS and rows:
            break
        rows.append(tuple(row))
    numbers = tuple(isinstance(answer, Answer) and name in answer.intervals for name in answer.columns)
    return TextTable(tuple(answer.columns), tuple(rows), numbers, len(cells) - len(rows))


def tables(found: Tables, *, questions: bool) -> tuple[ShownTable, ...]:
    """Show every table as it is described."""
    return tuple(_table(each, questions) for each in found.values())


def _table(table: TableDescription, questions: bool) -> ShownTable:
    columns: list[tuple[str, str]] = []
    letters = 0
    for name, words in table.columns.items():
        letters += len(name) + min(len(words), _LONGEST)
        if letters > _LISTED:
            columns.append(("…", f"and {len(table.columns) - len(columns)} more: DESCRIBE lists them"))
            break
        columns.append((name, words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"))
    copied = tuple(Suggested(each.tells, each.sql, each.error, each.price) for each in table.questions)
    return ShownTable(table.name, table.about, tuple(columns), copied if questions else ())


_PERIODS = 24
"""Periods that are shown, the last ones."""


def bars(standing: Standing) -> tuple[Bar, ...]:
    """Give a bar for each currency that has a limit."""
    found = []
    for name, allowed in standing.allowed.items():
        if not allowed:
            continue
        spent, left = standing.spent[name], standing.left.get(name)
        closed = left is None or spent is None
        part = 100.0 if spent is None else min(100.0, float(100 * spent / allowed))
        amounts = (_amount(allowed), _amount(spent), _amount(left))
        found.append(Bar(WORDS.get(name, name), *amounts, f"{part:.1f}", closed))
    return tuple(found)


def every_bar(standing: Standing | PeriodStandings, title: str) -> Iterator[Bars]:
    """Give the bars of an account, or those of each of its periods, the last ones first."""
    if isinstance(standing, Standing):
        yield Bars(title, bars(standing), tuple(standing.lines))
        return
    yield Bars(f"{title}, any other {standing.per}", bars(standing.fresh), (standing.promise,))
    last = list(zip(standing.periods, standing.standings, strict=True))[-_PERIODS:]
    for period, each in reversed(last):
        yield Bars(f"{title}, {period}", bars(each), (f"budget left for ordinary answers: {each.ordinary}",))


def first(standing: Standing | PeriodStandings) -> Standing:
    """Give the one standing, or that of a period of which nothing was asked."""
    return standing if isinstance(standing, Standing) else standing.fresh


def _amount(amount: Fraction | None) -> str:
    return "—" if amount is None else number(float(amount), 4)
