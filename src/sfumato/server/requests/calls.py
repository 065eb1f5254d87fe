"""A request becomes a call of the counter: who calls, what they sent, and a thread in which it is answered.

An operation is one call of the interface over HTTP. The routes and ``openapi.json`` are made from the same ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.server.counter import Counter
from sfumato.server.people.known_people import Caller, Credentials, Role
from sfumato.server.requests import proposals

JSON = "application/json"
OWNER, ANALYST, AUDITOR = "owner", "analyst", "auditor"
EVERYBODY = (OWNER, ANALYST, AUDITOR)
Handler = Callable[[Request], Awaitable[Response]]
MOST_DIGITS = 15
"""Of a number in an address: no ledger has more lines."""


class _Number(IntegerConvertor):
    """A number in an address is one that can be looked up; an address with a longer one is not there."""

    regex = f"[0-9]{{1,{MOST_DIGITS}}}"


register_url_convertor("number", _Number())
_REFUSED = (400, 401, 403, 404, 429, 503)


@dataclass(frozen=True)
class Parameter:
    """A parameter stands in the path, in the query or in a header."""

    name: str
    where: Literal["path", "query", "header"]
    words: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True)
class RestOperation:
    """An operation says how it is called, by whom, what it takes and what it may answer."""

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    words: str
    handler: Handler
    roles: tuple[str, ...] = EVERYBODY
    """Who may call it; nobody has to be known where it is empty."""
    body: Any = None
    """The type of what is sent."""
    bodies: Mapping[str, Any] = field(default_factory=dict)
    """Where what is sent depends on a part of the path, the type by that part's value."""
    parameters: tuple[Parameter, ...] = ()
    answers: tuple[str, ...] = (JSON,)
    """The forms of what comes back."""
    told: Mapping[int, Any] = field(default_factory=dict)
    """The type of what comes back as JSON, by status; None where nothing does."""
    tells: Mapping[str, Any] = field(default_factory=dict)
    """Where that depends on a part of the path, the type by that part's value."""
    refused: tuple[int, ...] = ()
    """What it may be refused with beside what any call may be."""

    @property
    def takes_body(self) -> bool:
        return self.body is not None or bool(self.bodies)

    @property
    def refusals(self) -> tuple[int, ...]:
        """List every status with which it may be refused."""
        known = _REFUSED if self.roles else (429, 503)
        sent = (408, 413, 415) if self.takes_body else ()
        return tuple(sorted({*known, *sent, *self.refused, 500}))


MOST_LISTED = 1000
CURSOR = (
    Parameter("after", "query", "What comes after this number.", {"type": "integer", "minimum": 0, "maximum": 10**15}),
    Parameter("limit", "query", "At most so many.", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}),
)
"""Of what is listed page by page."""


T = TypeVar("T")


def counter_of(request: Request) -> Counter:
    """Give the counter of the application that answers."""
    found: Counter = request.app.state.counter
    return found


async def in_thread(call: Callable[..., T], *given: Any, **more: Any) -> T:
    """Call something that waits for files in a thread of its own: others are answered meanwhile."""
    return await run_in_threadpool(call, *given, **more)


async def identified(request: Request) -> Caller:
    """Find who calls, in a thread of its own."""
    return await in_thread(identify, request)


def identify(request: Request) -> Caller:
    """Find who calls, by the token alone: no browser adds that by itself, so no other site can make it do so."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    operation: RestOperation = request.state.operation
    return known(request, Credentials(token=token.strip() if kind.lower() == "bearer" else None), operation.name)


def known(request: Request, shown: Credentials, route: str) -> Caller:
    """Find who shows this, and count what only looks; what is sent is counted by what is done with it."""
    caller = counter_of(request).caller(shown, route)
    if request.method in ("GET", "HEAD"):
        counter_of(request).look(caller)
    return caller


async def sent(request: Request, caller: Caller, kind: type[Any]) -> Any:
    """Read what was sent as a value of this type."""
    body = await request.body()
    with reading(request, caller):
        require_json(request)
        return proposals.read(kind, body)


def reading(request: Request, caller: Caller) -> AbstractContextManager[None]:
    """Let the counter see who calls before anything is read that they sent: nobody who may not is told what is wrong
    with it.
    """
    operation: RestOperation = request.state.operation
    return counter_of(request).reading(caller, operation.name, *map(Role, operation.roles))


def require_json(request: Request) -> None:
    """Refuse what is sent unless it is called JSON: no form of another site is."""
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise InvalidRequest("what is sent is JSON", place="Content-Type", fix=f"send Content-Type: {JSON}")


def whole(request: Request, name: str, otherwise: int, most: int, least: int = 0) -> int:
    """Read a whole number of the query."""
    given = request.query_params.get(name)
    if given is None:
        return otherwise
    if not (given.isascii() and given.isdigit() and len(given) <= 18) or not least <= int(given) <= most:
        rule = f"{name} is a whole number from {least} to {most:,}"
        raise InvalidRequest(rule, place=f"the query, {name}", fix=f"leave it out, or write {name}={otherwise}")
    return int(given)
