"""The application is everything that answers over HTTP: the interface under /v1, and pages beside it.

Around all of it stand the bounds of what is read, and headers that let no browser keep, frame or guess anything.
"""

from __future__ import annotations

import asyncio
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
from sfumato.server.connections import RepliesAtTicks, Ticks
from sfumato.server.counter import Counter
from sfumato.server.pages import page_routes
from sfumato.server.pages.rendering import static_files
from sfumato.server.requests.calls import in_thread
from sfumato.server.requests.problems import BoundedBodies, fault, problem
from sfumato.server.rest import interface as rest
from sfumato.server.rest.routes_health import Metrics

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""On every answer; one that says otherwise itself keeps what it says."""
_LASTING = {"Strict-Transport-Security": "max-age=31536000"}


def application(counter: Counter, more: Sequence[BaseRoute] = ()) -> Starlette:
    """Build what answers over HTTP: one way, which every process of a server builds for itself."""
    headers = {**HEADERS, **(_LASTING if counter.settings.secure else {})}
    rest.description()  # written and compressed now, as the files are, and not while somebody waits
    static_files()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        app.state.ticks = Ticks(asyncio.get_running_loop())
        yield
        stop(app)
        await in_thread(counter.drain)
        app.state.ticks.end()

    app = Starlette(
        routes=[*rest.routes(), *page_routes.routes(), *more],
        middleware=[
            Middleware(RepliesAtTicks),
            Middleware(_Headers, headers=headers),
            Middleware(_Faults),
            Middleware(BoundedBodies, most=counter.settings.body_bytes),
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.counter, app.state.metrics, app.state.stopping = counter, Metrics(), False
    return app


def stop(app: Starlette) -> None:
    """Take no new work from now on; what was taken goes on."""
    app.state.stopping = True
    app.state.counter.stop_taking()


async def _refused(request: Request, error: Exception) -> Response:
    """Answer where no route is called so, or by that method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        missing = NotThere("this address")
        reads = "text/html" in request.headers.get("Accept", "")  # a person looks, not a program
        return await page_routes.refused(request, missing) if reads else problem(missing)
    said = InvalidRequest("this address takes other methods", place="the method", fix="see GET /v1/openapi.json")
    answer = problem(said, status)
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


class _Headers:
    """Every answer has these headers, whoever makes it."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, _adding(self.headers, send) if scope["type"] == "http" else send)


def _adding(headers: dict[str, str], send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            found = MutableHeaders(scope=message)
            for name, value in headers.items():
                found.setdefault(name, value)
        await send(message)

    return sent


class _Faults:
    """A fault inside is answered with one text, and only its place is printed: its own text may hold what was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            await fault(error)(scope, receive, send)
