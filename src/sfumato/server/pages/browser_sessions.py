"""A browser is known by the cookie of its session, and what it sends is taken only from our own pages.

A form is our own when the browser says so (``Origin``) and it holds the token of the session, which no other site can
read. The cookie is sent to nobody but this server (``SameSite=Strict``), and no script sees it (``HttpOnly``).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.server.people.known_people import Caller, Credentials
from sfumato.server.requests.calls import counter_of, in_thread, known
from sfumato.server.settings import ServerSettings

FORM = "application/x-www-form-urlencoded"
FOREIGN = ("Origin", "the form's token")
"""The places of what is refused because it comes from elsewhere."""
_FIELDS = 200
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class SentForm:
    """A form is what was sent: every field with its values, in the order in which they were sent."""

    fields: Mapping[str, tuple[str, ...]]

    def one(self, name: str) -> str:
        """Give the last value of a field, without the spaces around it; empty where it was not sent."""
        return self.fields.get(name, ("",))[-1].strip()

    def every(self, name: str) -> tuple[str, ...]:
        """Give all values of a field."""
        return self.fields.get(name, ())

    def text(self, name: str) -> str:
        """Give a text of several lines, as it was typed: browsers send two letters for each end of a line."""
        return self.fields.get(name, ("",))[-1].replace("\r\n", "\n")


def cookie_name(settings: ServerSettings) -> str:
    """Name the cookie; the browser itself holds one that begins so to https and to this very host."""
    return "__Host-sfumato" if settings.secure else "sfumato"


def keep_cookie(answer: Response, settings: ServerSettings, cookie: str) -> None:
    """Let a browser keep its cookie. It is sent by https alone, unless the server speaks plainly to its own machine."""
    answer.set_cookie(
        cookie_name(settings),
        cookie,
        max_age=settings.session_hours * 3600,
        path="/",
        secure=settings.secure,
        httponly=True,
        samesite="strict",
    )


def forget_cookie(answer: Response, settings: ServerSettings) -> None:
    """Let a browser forget the cookie."""
    name = cookie_name(settings)
    answer.delete_cookie(name, path="/", secure=settings.secure, httponly=True, samesite="strict")


def shown_cookie(request: Request) -> str | None:
    """Give the cookie that a browser sent."""
    return request.cookies.get(cookie_name(counter_of(request).settings))


async def visitor(request: Request) -> Caller:
    """Find who looks at a page, by the cookie alone, and count that."""
    return await in_thread(known, request, Credentials(cookie=shown_cookie(request)), _page(request))


async def refused_visitor(request: Request) -> Caller:
    """Find who is refused a page, which was counted before."""
    return await in_thread(counter_of(request).caller, Credentials(cookie=shown_cookie(request)), _page(request))


def _page(request: Request) -> str:
    """Name the page that is looked at; an address that is not there is no page's."""
    return getattr(request.state, "page", "page")


async def sent_form(request: Request) -> tuple[Caller, SentForm]:
    """Read a form, and find who sent it: one of our own, from the session that it was made for."""
    require_own_origin(request)
    caller, form = await visitor(request), await read_form(request)
    known = caller.session.form_token if caller.session else ""
    if not known or not hmac.compare_digest(known.encode(), form.one("token").encode()):
        raise InvalidRequest(
            "a form is sent from the page that it stands on, in the session in which that page was opened",
            place=FOREIGN[1],
            fix="open the page again, and send it from there",
        )
    return caller, form


async def read_form(request: Request) -> SentForm:
    """Read what a form sent; nothing but a plain form of text is taken."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media != FORM:
        raise InvalidRequest("a form is sent as text", place="Content-Type", fix=f"send {FORM}")
    try:
        sent = (await request.body()).decode()
        pairs = parse_qsl(sent, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        rule = f"a form has at most {_FIELDS} fields of text in UTF-8"
        raise InvalidRequest(rule, place="the form", fix="send it from its page") from None
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return SentForm(fields)


def require_own_origin(request: Request) -> None:
    """Refuse what was not sent from a page of this server."""
    given = request.headers.getlist("Origin")
    if given != [own_origin(request)]:
        raise InvalidRequest(
            "a form is sent from a page of this server",
            place=FOREIGN[0],
            fix="open the page by the server's own address; behind a proxy, the owner names that as public_url",
        )


def own_origin(request: Request) -> str:
    """Give the address of this server as browsers write it: what its owner says, or where it was asked."""
    settings = counter_of(request).settings
    if not settings.public_url:
        return f"{'https' if settings.certificate else 'http'}://{request.headers.get('Host', '')}"
    said = urlsplit(settings.public_url)
    name = f"[{said.hostname}]" if ":" in (said.hostname or "") else said.hostname
    port = "" if said.port in (None, _PORTS[said.scheme]) else f":{said.port}"
    return f"{said.scheme}://{name}{port}"
