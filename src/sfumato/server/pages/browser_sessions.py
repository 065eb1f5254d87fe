"""Browser sessions: cookies, and protection of forms against cross-site requests.

A form is accepted if its ``Origin`` is this server and it holds the session's form token, which no other site can read.
The cookie is sent to this server alone (``SameSite=Strict``) and hidden from scripts (``HttpOnly``).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.users import Caller, Credentials
from sfumato.server.requests.calls import authenticate_credentials, request_gateway, run_in_thread

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
