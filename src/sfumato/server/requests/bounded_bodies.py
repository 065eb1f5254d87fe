"""A body is bounded before it is read: in bytes, in time and in form. Nothing that is compressed is taken apart.

It wraps the whole application: whoever reads a body behind it reads one that is there already, and small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import BodyTooLarge, InvalidRequest, SfumatoError
from sfumato.server.requests.problems import problem

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
        if any(each.strip().lower() != b"identity" for each in _headers(scope, b"content-encoding")):
            raise _compressed()
        for length in _headers(scope, b"content-length"):
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


def _headers(scope: Scope, name: bytes) -> Iterable[bytes]:
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
