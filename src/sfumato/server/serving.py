"""Run a server: on a TCP address or a Unix socket, in one process or in several spawned (never forked) processes.

The processes share nothing but the ledger and the people file; their parent hands them connections in turn. On SIGTERM
or Ctrl-C the server refuses new work, finishes and stores charged releases, and exits with code 0. A worker process
that has not ended after ``drain_seconds`` is killed, and the exit code is 1.

The ASGI application: the REST interface under /v1 and the pages beside it.

Middleware around both bounds request bodies, checks addresses, adds security headers and turns unexpected exceptions
into one fixed reply.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from itertools import chain, count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.curator.policy_account import read_policy, users_path
from sfumato.errors import InvalidRequest, NotThere, SfumatoError, WeakLedger, WeakPrivacy, outcome
from sfumato.policy import Policy
from sfumato.quick_dataclass import dataclass
from sfumato.server.activity_log import ActivityLog
from sfumato.server.connections import (
    HEAD_SECONDS,
    BoundedConnection,
    ReplyTickMiddleware,
    ReplyTicks,
    admitted_peers,
    base_url,
    bound_http_socket,
    bound_socket,
)
from sfumato.server.gateway import Gateway
from sfumato.server.pages import page_routes
from sfumato.server.pages.rendering import static_files
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.users import Role, User
from sfumato.server.postgres.answering import StatementCatalog
from sfumato.server.postgres.catalog.relations import DescribedRelation
from sfumato.server.postgres.listening import CatalogFactory, PostgresServer, server_tls
from sfumato.server.requests.calls import run_in_thread
from sfumato.server.requests.proposals import propose
from sfumato.server.requests.responses import BodyLimitMiddleware, fault_response, problem_response
from sfumato.server.rest import interface as rest
from sfumato.server.rest.routes_health import Metrics, Readiness
from sfumato.server.served_policies import ServedPolicies
from sfumato.server.settings import ServerSettings, is_local_address
from sfumato.server.worker_processes import WorkerProcesses, confirm_connection, receive_connections

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


_CLOSE_SECONDS = 5
"""Seconds that a worker has to close its files after its charged releases are finished."""
_BACKLOG = 2048
"""Connections that may wait to be accepted."""
_ACTOR = "sfumato serve"


@dataclass(frozen=True)
class ProcessSettings:
    """What every process of a server is started with."""

    policies: tuple[Path, ...]
    ledger: Path | str | None
    settings: ServerSettings

    @property
    def people(self) -> Path:
        """The path of the people file, beside the ledger."""
        return Path(f"{os.path.realpath(users_path(read_policy(self.policies[0]), self.ledger))}.people")


def serve(process_settings: ProcessSettings, ready: Callable[[str], None]) -> int:
    """Serve until told to stop, and return the exit code.

    ``ready`` is called once the server listens, with a one-time login link for the owner.
    """
    settings = process_settings.settings
    with ExitStack() as sockets:
        listener = sockets.enter_context(bound_http_socket(settings))
        postgres = sockets.enter_context(bound_socket(settings.postgres)) if settings.postgres else None

        def announce() -> None:
            ready(_ensure_owner_and_create_link(process_settings, base_url(process_settings.settings, listener)))

        process_count = settings.processes
        if process_count == 1:
            return run_server(process_settings, listener, announce, postgres=postgres)
        patience = process_settings.settings.drain_seconds + _CLOSE_SECONDS
        return WorkerProcesses(partial(_run_worker, process_settings), listener, process_count, _BACKLOG, patience).run(
            announce
        )


def _ensure_owner_and_create_link(process_settings: ProcessSettings, base_url: str) -> str:
    """Create a login link for an owner, adding the first owner if there is none."""
    with closing(PeopleFile(process_settings.people)) as people:
        users = people.users()
        owners = [user.name for user in users if user.role is Role.OWNER and not user.disabled]
        name = owners[0] if owners else people.add_user(_unused_owner_name(users), Role.OWNER, by=_ACTOR).name
        return f"{base_url}/login/{people.new_link(name, by=_ACTOR)}"


def _unused_owner_name(users: Collection[User]) -> str:
    """Return ``owner``, or ``owner-2``, … if that name was ever taken."""
    used_names = {user.name for user in users}
    return next(name for name in chain(["owner"], (f"owner-{number}" for number in count(2))) if name not in used_names)


@contextmanager
def open_gateway(process_settings: ProcessSettings) -> Iterator[Gateway]:
    """Open the gateway of one process, and close it on exit."""
    with (
        ServedPolicies(process_settings.policies, process_settings.ledger) as served,
        closing(PeopleFile(process_settings.people)) as people,
        closing(ActivityLog(process_settings.settings.log)) as log,
    ):
        yield Gateway(process_settings.settings, people, served, propose, log=log)


def route_ledger_warnings(log: ActivityLog) -> None:
    """Print ledger warnings to standard error and the activity log; all other warnings travel with answers."""
    warnings.simplefilter("ignore", WeakPrivacy)
    warnings.simplefilter("always", WeakLedger)
    warnings.showwarning = partial(_print_warning, log)


def _print_warning(log: ActivityLog, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    print(f"{category.__name__}: {message}", file=sys.stderr, flush=True)  # noqa: T201 - for the operator
    if issubclass(category, WeakLedger):
        log.warn(f"{category.__name__}: {message}")


def run_server(
    process_settings: ProcessSettings,
    listener: socket.socket | None,
    ready: Callable[[], None] = lambda: None,
    channel: socket.socket | None = None,
    postgres: socket.socket | None = None,
) -> int:
    """Serve in this process until told to stop: from a listening socket, or from connections handed over on a channel;
    and PostgreSQL clients from another socket.
    """
    log = ActivityLog(
        process_settings.settings.log
    )  # stays open until the process ends: closing a ledger may still warn
    route_ledger_warnings(log)
    with open_gateway(process_settings) as counter:
        wire = None if postgres is None else PostgresListener(postgres, _build_catalog)
        server = UvicornServer(build_application(counter), process_settings.settings, ready, channel, wire)
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(server.serve([] if listener is None else [listener]))
    return 0


def _build_catalog(
    policy: Policy, database: str, user: str, published: tuple[DescribedRelation, ...] = ()
) -> StatementCatalog:
    """Build the catalog that PostgreSQL clients see: from the policy and what was published."""
    from sfumato.server.postgres.catalog import PolicyCatalog

    catalog: StatementCatalog = PolicyCatalog(policy, database, user, published)
    return catalog


def _run_worker(process_settings: ProcessSettings, channel: socket.socket, ready: Connection) -> None:
    """Serve in a worker process and report when ready; print a refusal without its traceback."""
    try:
        sys.exit(run_server(process_settings, None, lambda: ready.send(True), channel))
    except SfumatoError as refusal:
        print(refusal, file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(outcome(refusal).exit_code)


def _uvicorn_config(app: Starlette, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level=logging.CRITICAL + 1,  # a traceback may quote a question: faults are answered, not printed
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=settings.drain_seconds,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.certificate_key or None,
    )


@dataclass(frozen=True)
class PostgresListener:
    """The socket for PostgreSQL clients, and what builds their catalog."""

    listener: socket.socket
    catalog: CatalogFactory


class UvicornServer(uvicorn.Server):
    """A uvicorn server that returns after a signal; uvicorn's own would raise the signal again and kill the process."""

    def __init__(
        self,
        app: Starlette,
        settings: ServerSettings,
        ready: Callable[[], None] = lambda: None,
        channel: socket.socket | None = None,
        postgres: PostgresListener | None = None,
    ) -> None:
        super().__init__(_uvicorn_config(app, settings))
        self._app = app
        self._settings = settings
        self._postgres_listener = postgres
        self._postgres: PostgresServer | None = None
        self._peers = admitted_peers(settings)
        self._ready = ready
        self._channel = channel
        self._handshakes: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM or SIGINT, and when the parent process has ended."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for signal_number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(signal_number, self.stop)
        parent = multiprocessing.parent_process()
        if parent is not None:
            loop.add_reader(parent.sentinel, self._stop_when_parent_is_gone, loop, parent.sentinel)
        yield

    def _stop_when_parent_is_gone(self, loop: asyncio.AbstractEventLoop, sentinel: int) -> None:
        loop.remove_reader(sentinel)
        self.stop()

    def stop(self) -> None:
        """Refuse new work; connections close after their current reply."""
        stop_accepting(self._app)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        loop = asyncio.get_running_loop()
        for listener in sockets or []:
            server = await loop.create_server(self._new_protocol, sock=listener, backlog=_BACKLOG, **self._tls)
            self.servers.append(server)
        if self._channel is not None:
            loop.add_reader(self._channel, self._accept_handed_over, self._channel)
        if self._postgres_listener is not None:
            self._start_postgres(self._postgres_listener)
        self._ready()

    def _start_postgres(self, postgres: PostgresListener) -> None:
        """Serve PostgreSQL clients beside HTTP, with the same gateway and the same ticks."""
        certificate, key = self._settings.certificate, self._settings.certificate_key
        self._postgres = PostgresServer(
            self._app.state.gateway,
            postgres.catalog,
            self._app.state.ticks.next,
            tls=server_tls(certificate, key) if certificate else None,
            requires_tls=not is_local_address(self._settings.postgres),
        )
        self._postgres.start(postgres.listener)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
        if self._postgres is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.drain_seconds):
                    await self._postgres.stop()
        await super().shutdown(sockets)

    def _accept_handed_over(self, channel: socket.socket) -> None:
        """Start and confirm every connection that was handed over."""
        for connection in receive_connections(channel):
            confirm_connection(channel)
            task = asyncio.get_running_loop().create_task(self._begin_connection(connection))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _begin_connection(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the client has disconnected, or the TLS handshake failed
            await asyncio.get_running_loop().connect_accepted_socket(self._new_protocol, connection, **self._tls)

    def _new_protocol(self) -> BoundedConnection:
        loop = asyncio.get_running_loop()
        return BoundedConnection(self.config, self.server_state, self.lifespan.state, loop, peers=self._peers)

    @property
    def _tls(self) -> dict[str, Any]:
        """TLS arguments for a new connection, with a bounded handshake; empty without a certificate."""
        return {"ssl": self.config.ssl, "ssl_handshake_timeout": HEAD_SECONDS} if self.config.ssl else {}
