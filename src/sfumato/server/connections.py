"""A connection has to say what it wants: the head of a request is short, and arrives within seconds.

Whoever opens connections and sends little or nothing, or headers without end, holds none of them for long.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10
"""How long the head of a request may take to arrive."""
MOST_HEAD = 65536
"""Bytes of a head, about."""


class BoundedConnection(HttpToolsProtocol):
    """A connection is closed when a head does not arrive in time, or does not end."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._ending: asyncio.TimerHandle | None = None
        self._head: int | None = 0
        """Bytes of a head that has not ended; None after it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is None:
            return
        self._head += len(data)
        if self._head > MOST_HEAD:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        self._head = None
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head = 0
        self._ending = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
