"""A refusal over HTTP is a problem (RFC 9457): the status, and the error's own code, rule, place, fix and facts.

What went wrong inside is never told: such a problem has one text, whatever happened, since what happened may depend on
private rows.

A body is bounded before it is read: in bytes, in time and in form. Nothing that is compressed is taken apart.

It wraps the whole application: whoever reads a body behind it reads one that is there already, and small.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato import errors
from sfumato.errors import BodyTooLarge, InvalidRequest, SfumatoError

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal says the rule that was broken, where, and what would work instead."""

    type: str = "about:blank"
    title: str
    status: int
    kind: str
    """The code of the error's class, by which a client makes the same error again."""
    code: str
    rule: str
    place: str
    fix: str
    facts: dict[str, Any]


msgspec.json.Decoder(Problem)  # its type is looked at before there are threads, of which no two may do so at once


def problem(error: SfumatoError, status: int | None = None) -> Response:
    """Answer with a refusal; its status is the error's unless HTTP itself has one for it."""
    code = errors.outcome(error).http_status if status is None else status
    said = msgspec.json.decode(errors.to_json(error), type=dict[str, Any])
    found = msgspec.convert({**said, "title": HTTPStatus(code).phrase, "status": code}, Problem)
    return Response(msgspec.json.encode(found), code, _problem_headers(error, code), MEDIA_TYPE)


def _problem_headers(error: SfumatoError, status: int) -> dict[str, str]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="sfumato"'}
    wait = getattr(error, "retry_after", None)
    if wait is None and status == HTTPStatus.SERVICE_UNAVAILABLE:
        wait = 1
    return {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}


def fault(error: Exception) -> Response:
    """Answer where the server itself failed: with one text, whatever happened."""
    fix = "ask again under the same Idempotency-Key: what was charged is answered from what is stored"
    return problem(failed(error, fix), HTTPStatus.INTERNAL_SERVER_ERROR)


def failed(error: Exception, fix: str) -> SfumatoError:
    """Tell whoever runs the server where it failed, and give what others are told, whatever happened."""
    print(f"fault: {_place(error)}", file=sys.stderr, flush=True)  # noqa: T201
    return SfumatoError("the server could not finish this request", place="the server", fix=fix)


def _place(error: Exception) -> str:
    """Name the kind of an error and the line it came from: its own text may hold what was asked."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_globals.get('__name__', '')}, line {place.tb_lineno}"
    return f"{type(error).__name__}{where}"


BODY_SECONDS = 10
"""How long a body may take to arrive."""


class BoundedBodies:
    """Everything behind it gets bodies of at most so many bytes, which have arrived."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._body(scope, receive), BODY_SECONDS)
        except ClientDisconnect:
            return
        except TimeoutError:
            await _refuse(_slow(), 408, scope, receive, send)
        except SfumatoError as refusal:
            status = 415 if refusal.place == "Content-Encoding" else None
            await _refuse(refusal, status, scope, receive, send)
        else:
            await self.app(scope, _arrived(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the whole body; what is too long is refused by what it says of itself, or as soon as it is seen."""
        if any(each.strip().lower() != b"identity" for each in _header_values(scope, b"content-encoding")):
            raise _compressed()
        for length in _header_values(scope, b"content-length"):
            if not length.isdigit() or len(length) > 18 or int(length) > self.most:
                raise BodyTooLarge(self.most)
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            size += len(message.get("body", b""))
            if size > self.most:
                raise BodyTooLarge(self.most)
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)


def _header_values(scope: Scope, name: bytes) -> Iterable[bytes]:
    return (value for key, value in scope["headers"] if key.lower() == name)


def _arrived(body: bytes, receive: Receive) -> Receive:
    """Give the body once, and then whatever the connection says: that it has ended."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(error: SfumatoError, status: int | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer without the rest of the body, and end the connection: what is left in it is not a request."""
    answer = problem(error, status)
    answer.headers["Connection"] = "close"
    await answer(scope, receive, send)


def _compressed() -> InvalidRequest:
    return InvalidRequest(
        "what is sent is not compressed", place="Content-Encoding", fix="send the body as it is, without this header"
    )


def _slow() -> InvalidRequest:
    return InvalidRequest(
        f"a body arrives within {BODY_SECONDS:g} seconds", place="the body", fix="send the whole request at once"
    )
