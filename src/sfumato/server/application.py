"""The ASGI application: the REST interface under /v1 and the pages beside it.

Middleware around both bounds request bodies, checks addresses, adds security headers and turns unexpected exceptions
into one fixed reply.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import InvalidRequest, NotThere
from sfumato.server.connections import ReplyTickMiddleware, ReplyTicks
from sfumato.server.gateway import Gateway
from sfumato.server.pages import page_routes
from sfumato.server.pages.rendering import static_files
from sfumato.server.requests.calls import run_in_thread
from sfumato.server.requests.problems import BodyLimitMiddleware, fault_response, problem_response
from sfumato.server.rest import interface as rest
from sfumato.server.rest.routes_health import Metrics, Readiness
from sfumato.server.settings import ServerSettings

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Defaults for every response; a response that sets one of them itself keeps its own value."""
_HTTPS_HEADERS = {"Strict-Transport-Security": "max-age=31536000"}


def build_application(gateway: Gateway, extra_routes: Sequence[BaseRoute] = ()) -> Starlette:
    """Build the Starlette application; every process of a server builds its own."""
    headers = {**HEADERS, **(_HTTPS_HEADERS if gateway.settings.secure else {})}
    rest.openapi_reply()  # rendered and compressed now, like the static files, not while a client waits
    static_files()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        app.state.ticks = ReplyTicks(asyncio.get_running_loop())
        yield
        stop_accepting(app)
        await run_in_thread(gateway.drain)
        app.state.ticks.end()

    app = Starlette(
        routes=[*rest.routes(), *page_routes.routes(), *extra_routes],
        middleware=[
            Middleware(ReplyTickMiddleware),
            Middleware(_DefaultHeaders, headers=headers),
            Middleware(_FaultHandler),
            Middleware(_AddressCheck, settings=gateway.settings),
            Middleware(BodyLimitMiddleware, most=gateway.settings.body_bytes),
        ],
        exception_handlers={HTTPException: _answer_unknown_route},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.gateway, app.state.metrics, app.state.stopping = gateway, Metrics(), False
    app.state.readiness = Readiness(gateway.require_ready)
    return app


def stop_accepting(app: Starlette) -> None:
    """Refuse new work from now on; work in progress goes on."""
    app.state.stopping = True
    app.state.gateway.stop_accepting()


async def _answer_unknown_route(request: Request, error: Exception) -> Response:
    """Answer a request for an unknown path, or with a method that the path does not accept."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        missing = NotThere("this address")
        wants_html = "text/html" in request.headers.get("Accept", "")  # a browser, not a program
        return await page_routes.render_refusal(request, missing) if wants_html else problem_response(missing)
    refusal = InvalidRequest(
        "this address does not accept this HTTP method",
        place="the method",
        fix="use one of the methods that GET /v1/openapi.json lists",
    )
    response = problem_response(refusal, status)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


class _DefaultHeaders:
    """Middleware that adds the default headers to every response."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, _wrap_send_with_headers(self.headers, send) if scope["type"] == "http" else send)


def _wrap_send_with_headers(headers: dict[str, str], send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            response_headers = MutableHeaders(scope=message)
            for name, value in headers.items():
                response_headers.setdefault(name, value)
        await send(message)

    return send_with_headers


class _AddressCheck:
    """Middleware that refuses addresses that nobody types: a path with encoded letters or slashes, and another host.

    An encoded path would be routed like the plain one and logged and limited unlike it. A page of another site whose
    name points to this machine (DNS rebinding) has that name as its host.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal_response(scope) if scope["type"] == "http" else None
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def _refusal_response(self, scope: Scope) -> Response | None:
        if _ENCODED_PLAIN.search(scope.get("raw_path") or b""):
            return problem_response(NotThere("this address"))
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        if scope["path"] in _HEALTH_PATHS or self.settings.accepts_host(host, scope.get("server")):
            return None
        refusal = InvalidRequest(
            "this server does not answer under this host name",
            place="Host",
            fix="use the address that `sfumato serve` printed; behind a proxy, the owner sets public_url",
        )
        return problem_response(refusal, 421)


_ENCODED_PLAIN = re.compile(rb"%(?:2[DEF]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)", re.IGNORECASE)
"""A slash, or a character that is never encoded (RFC 3986, unreserved)."""
_HEALTH_PATHS = ("/healthz", "/readyz")
"""Asked by load balancers, which have no name for the server."""


class _FaultHandler:
    """Middleware that answers an unexpected exception with one fixed text and prints only where it was raised: the
    exception's own text may quote a question.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal response_started
            response_started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except Exception as error:
            if response_started or scope["type"] != "http":
                raise
            await fault_response(error)(scope, receive, send)
