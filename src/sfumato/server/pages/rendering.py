"""Rendering: Jinja templates with autoescaping, static files, underlined refusals, text tables and budget bars.

The content security policy allows no script but ours, no inline script or style and nothing from other sites; trusted
types refuse markup made by scripts.

Browser sessions: cookies, and protection of forms against cross-site requests.

A form is accepted if its ``Origin`` is this server and it holds the session's form token, which no other site can read.
The cookie is sent to this server alone (``SameSite=Strict``) and hidden from scripts (``HttpOnly``).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sfumato.curator import PeriodStandings, Standing
from sfumato.curator.described_tables import TableDescription, Tables
from sfumato.errors import InvalidRequest, SfumatoError, outcome
from sfumato.privacy.numbers import format_number as number
from sfumato.privacy.pictures import WORDS
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.server.pages.page_contexts import (
    BudgetBar,
    BudgetBars,
    CopyableQuestion,
    MarkedText,
    PageFrame,
    PolicyTab,
    RefusalMessage,
    TableContext,
    TextTable,
)
from sfumato.server.people.users import Caller, Credentials, Role
from sfumato.server.requests.calls import (
    LASTING,
    StaticReply,
    authenticate_credentials,
    request_gateway,
    run_in_thread,
    static_reply,
)
from sfumato.untrusted import single_line
from sfumato.version import __version__

RULES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy of pages."""
HEADERS = {"Content-Security-Policy": RULES, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
"""Headers of every page. Browsers send ``Origin`` with forms only if the referrer policy allows same-origin."""
_STATIC = {"sfumato.css": "text/css", "sfumato.js": "text/javascript", "sfumato.svg": "image/svg+xml"}
_EVERYBODY = (Role.OWNER, Role.ANALYST, Role.AUDITOR)
_TABS = {
    "ask": ("Ask", (Role.OWNER, Role.ANALYST)),
    "budget": ("Budget", _EVERYBODY),
    "history": ("History", _EVERYBODY),
    "data": ("Data", _EVERYBODY),
    "approvals": ("Approval", _EVERYBODY),
    "people": ("People", (Role.OWNER, Role.AUDITOR)),
    "ledger": ("Ledger", (Role.OWNER, Role.AUDITOR)),
}
"""By the last part of its path, each page's title and the roles that see it."""


def render_page(
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
    """Render a template inside the frame."""
    frame = _page_frame(request, title, caller, policy, paused)
    return HTMLResponse(_environment().get_template(template).render(frame=frame, page=page), status, HEADERS)


def page_path(policy: str, *parts: object) -> str:
    """Return the path of one of a policy's pages."""
    return "/".join(["/p", quote(policy, safe=""), *(quote(str(part), safe="") for part in parts)])


def refusal_message(error: SfumatoError, again: str = "") -> RefusalMessage:
    """Convert an error to the template's refusal."""
    return RefusalMessage(error.rule, error.place, error.fix, outcome(error).http_status, again)


@cache
def static_files() -> Mapping[str, StaticReply]:
    """Load the style sheet, the script and the icon, once."""
    folder = resources.files(__package__).joinpath("static")
    return {name: static_reply(folder.joinpath(name).read_bytes(), kind, LASTING) for name, kind in _STATIC.items()}


def _page_frame(request: Request, title: str, caller: Caller | None, policy: str, paused: bool) -> PageFrame:
    files = {name: f"/static/{name}?{static_file.content_hash}" for name, static_file in static_files().items()}
    if caller is None:
        return PageFrame(title, files=files, version=__version__)
    session = caller.session
    prefix = page_path(policy) if policy else ""
    return PageFrame(
        title,
        _policy_tabs(request, caller.role, policy, prefix) if policy else (),
        policy,
        prefix,
        caller.user,
        caller.role.value,
        session.form_token if session else "",
        paused,
        files,
        __version__,
    )


def _policy_tabs(request: Request, role: Role, policy: str, prefix: str) -> tuple[PolicyTab, ...]:
    end = request.url.path.removeprefix("/p/").partition("/")[2].partition("/")[0]
    hidden = () if request_gateway(request).requests.desk.has_rules(policy) else ("approvals",)
    current = "history" if end == "answers" else end
    return tuple(
        PolicyTab(title, f"{prefix}/{name}", name == current)
        for name, (title, roles) in _TABS.items()
        if role in roles and name not in hidden
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sfumato.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = single_line
    environment.filters["name"] = _breakable_name
    environment.filters["number"] = _breakable_number
    return environment


def _breakable_name(text: str) -> Markup:
    """Format a column or table name, with a line break allowed after each underscore."""
    return escape(single_line(text)).replace("_", Markup("_<wbr>"))


def _breakable_number(text: str) -> str:
    """Format a number, with a line break allowed only before its ±."""
    return single_line(text).replace("± ", "±\N{NO-BREAK SPACE}")


_WORD = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|\w+|\S")


def refused_character_index(error: SfumatoError, text: str) -> int:
    """Return the character index where a refusal begins in the question; -1 if it concerns the whole question."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if line is None or column is None:
        return -1
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return -1
    index = (
        sum(len(previous_line) + 1 for previous_line in lines[: line - 1])
        + min(max(1, column), len(lines[line - 1]) + 1)
        - 1
    )
    return min(index, max(0, len(text) - 1))


def mark_word_from(text: str, start: int) -> MarkedText | None:
    """Split a text around the word at or after ``start``; None if there is none."""
    word = _WORD.search(text, start) if start >= 0 else None
    if word is None:
        return None
    return MarkedText(text[: word.start()], word[0], text[word.end() :])


_MAX_LETTERS, _MAX_ROWS = 20_000, 500
"""Limits on an answer's characters and rows on a page; the downloads hold all of it."""
_MAX_COLUMN_LETTERS, _MAX_WORDS = 12_000, 300
"""Limits on the characters of all column descriptions on a page, and of one."""


def text_table(answer: Any) -> TextTable:
    """Convert an answer's rows to strings, each number with ± its half-width."""
    cells, letters = answer.cells(), 0
    rows: list[tuple[str, ...]] = []
    for row in cells[:_MAX_ROWS]:
        letters += sum(map(len, row)) + 20 * len(row)
        if letters > _MAX_LETTERS and rows:
            break
        rows.append(tuple(row))
    numbers = tuple(isinstance(answer, Answer) and name in answer.intervals for name in answer.columns)
    return TextTable(tuple(answer.columns), tuple(rows), numbers, len(cells) - len(rows))


def table_contexts(descriptions: Tables, *, questions: bool) -> tuple[TableContext, ...]:
    """Convert table descriptions to template contexts."""
    return tuple(_table_context(table, questions) for table in descriptions.values())


def _table_context(table: TableDescription, questions: bool) -> TableContext:
    columns: list[tuple[str, str]] = []
    letters = 0
    for name, description in table.columns.items():
        letters += len(name) + min(len(description), _MAX_WORDS)
        if letters > _MAX_COLUMN_LETTERS:
            columns.append(("…", f"and {len(table.columns) - len(columns):,} more (DESCRIBE lists all columns)"))
            break
        columns.append((name, description if len(description) <= _MAX_WORDS else description[: _MAX_WORDS - 1] + "…"))
    examples = tuple(
        CopyableQuestion(question.tells, question.sql, question.error, question.price) for question in table.questions
    )
    return TableContext(table.name, table.about, tuple(columns), examples if questions else ())


_MAX_PERIODS = 24
"""How many of the latest periods are shown."""


def budget_bars(standing: Standing) -> tuple[BudgetBar, ...]:
    """Return a bar for each currency that has a limit."""
    budget_bars = []
    for name, allowed in standing.allowed.items():
        if not allowed:
            continue
        spent, remaining = standing.spent[name], standing.left.get(name)
        closed = remaining is None or spent is None
        part = 0.0 if remaining is None or spent is None else min(100.0, max(0.0, float(100 * remaining / allowed)))
        amounts = (_format_amount(allowed), _format_amount(spent), _format_amount(remaining))
        budget_bars.append(BudgetBar(WORDS.get(name, name), *amounts, f"{part:.1f}", closed))
    return tuple(budget_bars)


def budget_bars_by_account(standing: Standing | PeriodStandings, title: str) -> Iterator[BudgetBars]:
    """Yield the bars of an account, or of each of its periods, latest first."""
    if isinstance(standing, Standing):
        yield BudgetBars(title, budget_bars(standing), tuple(standing.lines))
        return
    yield BudgetBars(f"{title}, any other {standing.per}", budget_bars(standing.fresh), (standing.promise,))
    latest = list(zip(standing.periods, standing.standings, strict=True))[-_MAX_PERIODS:]
    for period, period_standing in reversed(latest):
        yield BudgetBars(
            f"{title}, {period}",
            budget_bars(period_standing),
            (f"budget left for ordinary answers: {period_standing.ordinary}",),
        )


def standing_or_fresh_period(standing: Standing | PeriodStandings) -> Standing:
    """Return the standing itself, or that of an untouched period."""
    return standing if isinstance(standing, Standing) else standing.fresh


def _format_amount(amount: Fraction | None) -> str:
    return "—" if amount is None else number(float(amount), 4)


FORM = "application/x-www-form-urlencoded"
CROSS_SITE_PLACES = ("Origin", "the form's token")
"""The places of refusals of cross-site forms."""
_MAX_FIELDS = 200
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class SentForm:
    """A submitted form: every field with its values, in order."""

    fields: Mapping[str, tuple[str, ...]]

    def value(self, name: str) -> str:
        """Return the last value of a field, stripped; empty if it was not sent."""
        return self.fields.get(name, ("",))[-1].strip()

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values of a field."""
        return self.fields.get(name, ())

    def text(self, name: str) -> str:
        """Return a multi-line text; browsers send CRLF for each line end, which becomes LF."""
        return self.fields.get(name, ("",))[-1].replace("\r\n", "\n")


def cookie_name(request: Request) -> str:
    """Return the cookie's name; browsers restrict ``__Host-`` cookies to https and this very host.

    It carries the port: browsers send cookies to every port of a host, so two servers on one machine would sign each
    other's users out.
    """
    port = urlsplit(server_origin(request)).port
    name = "sfumato" if port is None else f"sfumato-{port}"
    return f"__Host-{name}" if request_gateway(request).settings.secure else name


def set_cookie(request: Request, answer: Response, cookie: str) -> None:
    """Set the session cookie: https only, unless the server speaks plain http to its own machine."""
    settings = request_gateway(request).settings
    answer.set_cookie(
        cookie_name(request),
        cookie,
        max_age=settings.session_hours * 3600,
        path="/",
        secure=settings.secure,
        httponly=True,
        samesite="strict",
    )


def delete_cookie(request: Request, answer: Response) -> None:
    """Delete the session cookie."""
    secure = request_gateway(request).settings.secure
    answer.delete_cookie(cookie_name(request), path="/", secure=secure, httponly=True, samesite="strict")


def session_cookie(request: Request) -> str | None:
    """Return the session cookie of a request."""
    return request.cookies.get(cookie_name(request))


async def authenticate_visitor(request: Request) -> Caller:
    """Authenticate the visitor of a page by cookie alone, and count the call against the rate limit."""
    return await run_in_thread(
        authenticate_credentials, request, Credentials(cookie=session_cookie(request)), _page_name(request)
    )


async def refused_page_visitor(request: Request) -> Caller:
    """Authenticate the visitor of an error page, whose call was counted before."""
    return await run_in_thread(
        request_gateway(request).caller, Credentials(cookie=session_cookie(request)), _page_name(request)
    )


def _page_name(request: Request) -> str:
    """Return the name of the requested page; ``page`` if the address is unknown."""
    return getattr(request.state, "page", "page")


async def authenticated_form(request: Request) -> tuple[Caller, SentForm]:
    """Authenticate the sender of a form and parse it, checking its origin and form token."""
    require_same_origin(request)
    caller, form = await authenticate_visitor(request), await read_form(request)
    expected_token = caller.session.form_token if caller.session else ""
    if not expected_token or not hmac.compare_digest(expected_token.encode(), form.value("token").encode()):
        raise InvalidRequest(
            "the form does not belong to the current session",
            place=CROSS_SITE_PLACES[1],
            fix="reload the page and send the form again",
        )
    return caller, form


async def read_form(request: Request) -> SentForm:
    """Parse a URL-encoded form."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media != FORM:
        raise InvalidRequest("a form must be URL-encoded", place="Content-Type", fix=f"send {FORM}")
    try:
        encoded = (await request.body()).decode()
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        rule = f"a form can have at most {_MAX_FIELDS} fields, in UTF-8"
        raise InvalidRequest(rule, place="the form", fix="reload the page and send the form again") from None
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return SentForm(fields)


def require_same_origin(request: Request) -> None:
    """Refuse a form that was not sent from a page of this server."""
    origins = request.headers.getlist("Origin")
    if origins != [server_origin(request)]:
        raise InvalidRequest(
            "the form was not sent from a page of this server",
            place=CROSS_SITE_PLACES[0],
            fix="open the page at the server's own address; behind a proxy, the owner sets that as public_url",
        )


def server_origin(request: Request) -> str:
    """Return this server's origin as browsers write it: from ``public_url``, or from the Host header."""
    settings = request_gateway(request).settings
    if not settings.public_url:
        return f"{'https' if settings.certificate else 'http'}://{request.headers.get('Host', '')}"
    parts = urlsplit(settings.public_url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{name}{port}"
