"""Pages are rendered from templates that escape every text, under rules that let a browser run nothing but our script.

No text of a page is a script or a style, nothing is loaded from elsewhere, and what a script might make of a text is
refused by the browser itself (trusted types).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sfumato.errors import SfumatoError, outcome
from sfumato.safe_text import printable
from sfumato.server.pages.page_contexts import Frame, Refusal, Tab
from sfumato.server.people.caller import Caller
from sfumato.server.people.known_people import Role
from sfumato.server.requests.static_replies import LASTING, StaticReply, static_reply
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


def refusal_of(error: SfumatoError, again: str = "") -> Refusal:
    """Give a refusal as a page shows it."""
    return Refusal(error.rule, error.place, error.fix, outcome(error).http_status, again)


@cache
def static_files() -> Mapping[str, StaticReply]:
    """Read the style, the script and the icon, once: they hold nothing of anybody."""
    folder = resources.files(__package__).joinpath("static")
    return {name: static_reply(folder.joinpath(name).read_bytes(), kind, LASTING) for name, kind in _STATIC.items()}


def _frame(request: Request, title: str, caller: Caller | None, policy: str, paused: bool) -> Frame:
    files = {name: f"/static/{name}?{each.mark}" for name, each in static_files().items()}
    if caller is None:
        return Frame(title, files=files, version=__version__)
    session = caller.session
    here = address(policy) if policy else ""
    return Frame(
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


def _tabs(role: Role, here: str, path: str) -> tuple[Tab, ...]:
    end = path.removeprefix("/p/").partition("/")[2].partition("/")[0]
    current = "history" if end == "answers" else end
    return tuple(
        Tab(title, f"{here}/{name}", name == current) for name, (title, roles) in _TABS.items() if role in roles
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
