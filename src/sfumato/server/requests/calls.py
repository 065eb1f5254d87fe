"""REST operations, and the shared steps of a call: authenticate, parse the body, run in a worker thread.

The routes and ``openapi.json`` are generated from the same operations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Literal, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.quick_dataclass import dataclass
from sfumato.server.gateway import Gateway
from sfumato.server.people.users import Caller, Credentials, Role
from sfumato.server.requests import proposals

JSON = "application/json"
OWNER, ANALYST, AUDITOR = "owner", "analyst", "auditor"
EVERYBODY = (OWNER, ANALYST, AUDITOR)
Handler = Callable[[Request], Awaitable[Response]]
_KEY_PATTERN = re.compile(r"[!-~]{1,200}")
MAX_DIGITS = 15
"""Digits of a number in a path: no ledger has more lines."""


class _BoundedNumber(IntegerConvertor):
    """Path converter for numbers of bounded length; a longer one is an unknown path."""

    regex = f"[0-9]{{1,{MAX_DIGITS}}}"


register_url_convertor("number", _BoundedNumber())
_COMMON_REFUSALS = (400, 401, 403, 404, 429, 503)


@dataclass(frozen=True)
class Parameter:
    """A parameter in the path, the query or a header."""

    name: str
    location: Literal["path", "query", "header"]
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True)
class RestOperation:
    """One REST operation: its route, the roles that may call it, its body and its responses."""

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    handler: Handler
    roles: tuple[str, ...] = EVERYBODY
    """The roles that may call it; empty if no authentication is needed."""
    body: Any = None
    """The type of the request body."""
    bodies_by_kind: Mapping[str, Any] = field(default_factory=dict)
    """The types of the body by the value of ``{kind}`` in the path, if it depends on that."""
    parameters: tuple[Parameter, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    """The media types of the response."""
    responses: Mapping[int, Any] = field(default_factory=dict)
    """The type of the JSON response by status; None for an empty one."""
    responses_by_kind: Mapping[str, Any] = field(default_factory=dict)
    """The types of the 200 response by the value of ``{kind}`` in the path, if it depends on that."""
    extra_refusals: tuple[int, ...] = ()
    """Statuses of refusals beyond those of every operation."""

    @property
    def takes_body(self) -> bool:
        return self.body is not None or bool(self.bodies_by_kind)

    @property
    def refusals(self) -> tuple[int, ...]:
        """Every status with which the operation may be refused."""
        common = _COMMON_REFUSALS if self.roles else (429, 503)
        body_statuses = (408, 413, 415) if self.takes_body else ()
        return tuple(sorted({*common, *body_statuses, *self.extra_refusals, 500}))


MAX_LISTED = 1000
CURSOR = (
    Parameter("after", "query", "List items after this number.", {"type": "integer", "minimum": 0, "maximum": 10**15}),
    Parameter(
        "limit", "query", "The maximal number of items.", {"type": "integer", "minimum": 1, "maximum": MAX_LISTED}
    ),
)
"""Parameters of operations that list page by page."""


T = TypeVar("T")


def request_gateway(request: Request) -> Gateway:
    """Return the gateway of the application that handles a request."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def run_in_thread(call: Callable[..., T], *given: Any, **more: Any) -> T:
    """Run a blocking call in a worker thread."""
    return await run_in_threadpool(call, *given, **more)


async def authenticate(request: Request) -> Caller:
    """Authenticate the caller in a worker thread."""
    return await run_in_thread(authenticate_blocking, request)


def authenticate_blocking(request: Request) -> Caller:
    """Authenticate the caller by the bearer token alone: browsers never add one by themselves, so other sites cannot
    forge a call.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    operation: RestOperation = request.state.operation
    return authenticate_credentials(
        request, Credentials(token=token.strip() if scheme.lower() == "bearer" else None), operation.name
    )


def authenticate_credentials(request: Request, credentials: Credentials, route: str) -> Caller:
    """Authenticate these credentials, and count GET and HEAD requests against the rate limit; other calls are counted
    by their action.
    """
    caller = request_gateway(request).caller(credentials, route)
    if request.method in ("GET", "HEAD"):
        request_gateway(request).rate_limit_read(caller)
    return caller


async def parse_body(request: Request, caller: Caller, kind: type[Any]) -> Any:
    """Parse the request body as a value of this type."""
    body = await request.body()
    with authorized_parsing(request, caller):
        require_json(request)
        return proposals.decode_body(kind, body)


def authorized_parsing(request: Request, caller: Caller) -> AbstractContextManager[None]:
    """Check the caller's role before the body is parsed: callers without it learn nothing about what is wrong with the
    body.
    """
    operation: RestOperation = request.state.operation
    return request_gateway(request).authorized_parsing(caller, operation.name, *map(Role, operation.roles))


def require_json(request: Request) -> None:
    """Refuse a body without a JSON content type: HTML forms of other sites cannot send one."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise InvalidRequest("the body must be JSON", place="Content-Type", fix=f"send Content-Type: {JSON}")


def query_integer(request: Request, name: str, default: int, maximum: int, minimum: int = 0) -> int:
    """Parse a whole number from the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or not minimum <= int(text) <= maximum:
        rule = f"{name} must be a whole number from {minimum} to {maximum:,}"
        raise InvalidRequest(rule, place=f"the query, {name}", fix=f"leave out {name}, or write {name}={default}")
    return int(text)


def parse_idempotency_key(values: Sequence[str], place: str = "Idempotency-Key") -> str:
    """Return the one Idempotency-Key among these header or query values."""
    if len(values) != 1 or not _KEY_PATTERN.fullmatch(values[0]):
        raise InvalidRequest(
            "a release needs one Idempotency-Key of 1 to 200 visible ASCII characters",
            place=place,
            fix="use a new one for each release, such as a UUID, and the same one when you retry",
        )
    return values[0]
