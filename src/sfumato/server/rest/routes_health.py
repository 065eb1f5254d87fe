"""Routes for operating the server. None of their numbers depends on rows or on the duration of queries."""

from __future__ import annotations

import math
import os
import time
from collections import Counter as Tally
from collections.abc import Callable
from threading import Lock

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sfumato.errors import Draining, LedgerUnavailable
from sfumato.server.requests.calls import (
    OWNER,
    RestOperation,
    authenticate,
    json_response,
    request_gateway,
    run_in_thread,
)
from sfumato.server.requests.responses import Health
from sfumato.version import __version__


class Metrics:
    """Counters of calls and refusals.

    How a release ended, how long anything took and how much is in progress are not counted: these may depend on rows.
    """

    def __init__(self) -> None:
        self._calls: Tally[str] = Tally()
        self._refusals: Tally[int] = Tally()

    def count_call(self, operation: str) -> None:
        """Count a call by the name of its operation."""
        self._calls[operation] += 1

    def count_refusal(self, status: int) -> None:
        """Count a refusal by its status, if the call alone decides it (4xx)."""
        if 400 <= status < 500:
            self._refusals[status] += 1

    def text(self) -> str:
        """Return the counters of this process in Prometheus text format."""
        process_label = f'process="{os.getpid()}"'
        lines = [
            "# HELP sfumato_info The running version.",
            "# TYPE sfumato_info gauge",
            f'sfumato_info{{version="{__version__}"}} 1',
            "# HELP sfumato_calls_total Calls received by this process, by operation.",
            "# TYPE sfumato_calls_total counter",
            *(
                f'sfumato_calls_total{{operation="{name}",{process_label}}} {n}'
                for name, n in sorted(self._calls.items())
            ),
            "# HELP sfumato_refusals_total Calls refused by this process, by status.",
            "# TYPE sfumato_refusals_total counter",
            *(
                f'sfumato_refusals_total{{status="{code}",{process_label}}} {n}'
                for code, n in sorted(self._refusals.items())
            ),
        ]
        return "\n".join(lines) + "\n"


class Readiness:
    """Whether charges and answers can be written, looked up at most once a second: anybody may ask."""

    def __init__(self, require: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self._require = require
        self._now = now
        self._lock = Lock()
        self._checked = -math.inf
        self._refusal: LedgerUnavailable | None = None

    def require(self) -> None:
        """Raise ``LedgerUnavailable`` while they cannot."""
        with self._lock:
            if self._now() - self._checked >= 1:
                self._refusal = None
                try:
                    self._require()
                except LedgerUnavailable as refusal:
                    self._refusal = refusal
                self._checked = self._now()
            if self._refusal is not None:
                raise self._refusal


async def alive(request: Request) -> Response:  # noqa: ARG001
    return json_response(Health("alive"))


async def ready(request: Request) -> Response:
    """Return 200 while new work is accepted: not while stopping, and not while charges could not be written."""
    if request.app.state.stopping:
        raise Draining
    await run_in_thread(request.app.state.readiness.require)
    return json_response(Health("ready"))


async def metrics(request: Request) -> Response:
    """Return the counters, to owners alone: when others ask is nobody else's business."""
    await run_in_thread(request_gateway(request).require_owner, await authenticate(request), "metrics")
    counters: Metrics = request.app.state.metrics
    return PlainTextResponse(counters.text())


OPERATIONS = (
    RestOperation(
        "alive", "GET", "/healthz", "Whether the process is alive.", alive, roles=(), responses={200: Health}
    ),
    RestOperation(
        "ready", "GET", "/readyz", "Whether the process accepts new work.", ready, roles=(), responses={200: Health}
    ),
    RestOperation(
        "metrics",
        "GET",
        "/metrics",
        "Counters of calls and refusals.",
        metrics,
        (OWNER,),
        media_types=("text/plain",),
        responses={200: str},
    ),
)
