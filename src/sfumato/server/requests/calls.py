"""A request becomes a call of the counter: who calls, what they sent, and a thread in which it is answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from sfumato.errors import InvalidRequest
from sfumato.server.counter import Counter
from sfumato.server.people.caller import Caller, Credentials
from sfumato.server.people.known_people import Role
from sfumato.server.requests import proposals
from sfumato.server.requests.operations import JSON, Operation

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
    operation: Operation = request.state.operation
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
    operation: Operation = request.state.operation
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
