"""These routes are for whoever runs the server. None of their numbers depends on rows or on how long reading takes."""

from __future__ import annotations

import os
from collections import Counter as Tally

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sfumato.errors import Draining
from sfumato.server.requests.answer_forms import json_response
from sfumato.server.requests.calls import OWNER, RestOperation, counter_of, identified, in_thread
from sfumato.server.requests.told_values import Health
from sfumato.version import __version__


class Metrics:
    """It counts calls when they arrive, and refusals when they are told, where no data decide them.

    How a release ended is not counted, nor how long anything took, nor how much is under way: those may depend on rows.
    """

    def __init__(self) -> None:
        self._arrived: Tally[str] = Tally()
        self._refused: Tally[int] = Tally()

    def arrived(self, operation: str) -> None:
        """Count a call by the name of its operation."""
        self._arrived[operation] += 1

    def refused(self, status: int) -> None:
        """Count a refusal by its status, where that is decided by the call alone."""
        if 400 <= status < 500:
            self._refused[status] += 1

    def text(self) -> str:
        """Write all numbers as Prometheus reads them; each process has its own."""
        own = f'process="{os.getpid()}"'
        lines = [
            "# HELP sfumato_info The version that runs.",
            "# TYPE sfumato_info gauge",
            f'sfumato_info{{version="{__version__}"}} 1',
            "# HELP sfumato_calls_total Calls that arrived, by operation, of the process that answers.",
            "# TYPE sfumato_calls_total counter",
            *(f'sfumato_calls_total{{operation="{name}",{own}}} {n}' for name, n in sorted(self._arrived.items())),
            "# HELP sfumato_refusals_total Calls that were refused, by status, of the process that answers.",
            "# TYPE sfumato_refusals_total counter",
            *(f'sfumato_refusals_total{{status="{code}",{own}}} {n}' for code, n in sorted(self._refused.items())),
        ]
        return "\n".join(lines) + "\n"


async def alive(request: Request) -> Response:  # noqa: ARG001
    return json_response(Health("alive"))


async def ready(request: Request) -> Response:
    """Say whether new work is taken."""
    if request.app.state.stopping:
        raise Draining
    return json_response(Health("ready"))


async def metrics(request: Request) -> Response:
    """Tell how much is asked, to owners alone: that others ask, and when, is nobody else's to know."""
    await in_thread(counter_of(request).require_owner, await identified(request), "metrics")
    found: Metrics = request.app.state.metrics
    return PlainTextResponse(found.text())


OPERATIONS = (
    RestOperation("alive", "GET", "/healthz", "Whether the process lives.", alive, roles=(), told={200: Health}),
    RestOperation("ready", "GET", "/readyz", "Whether new work is taken.", ready, roles=(), told={200: Health}),
    RestOperation(
        "metrics", "GET", "/metrics", "Calls and refusals.", metrics, (OWNER,), answers=("text/plain",), told={200: str}
    ),
)
