"""An outcome says how a refusal ends: a command by its exit code, a request by its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Outcome(NamedTuple):
    """An outcome says how a refusal ends a command, and a request."""

    exit_code: int
    http_status: int


OUTCOMES: Mapping[str, Outcome] = {
    "refused": Outcome(1, 400),
    "invalid-parameter": Outcome(2, 400),
    "invalid-request": Outcome(2, 400),
    "body-too-large": Outcome(2, 413),
    "neighbours-differ": Outcome(1, 400),
    "invalid-policy": Outcome(1, 400),
    "invalid-settings": Outcome(1, 400),
    "unsupported": Outcome(1, 422),
    "overspent": Outcome(3, 402),
    "unanswered": Outcome(4, 500),
    "equal-question-stopped": Outcome(75, 503),
    "answer-pending": Outcome(75, 503),
    "draining": Outcome(75, 503),
    "entropy-stuck": Outcome(1, 500),
    "engine-failed": Outcome(1, 500),
    "engine-closed": Outcome(1, 503),
    "source-changed": Outcome(1, 409),
    "source-taken": Outcome(1, 409),
    "session-closed": Outcome(1, 409),
    "session-interrupted": Outcome(75, 503),
    "account-differs": Outcome(1, 409),
    "already-answered": Outcome(1, 409),
    "request-differs": Outcome(1, 409),
    "synopsis-damaged": Outcome(1, 400),
    "bundle-damaged": Outcome(1, 400),
    "tab-closed": Outcome(1, 409),
    "not-signed-in": Outcome(1, 401),
    "not-allowed": Outcome(1, 403),
    "not-there": Outcome(1, 404),
    "paused": Outcome(75, 503),
    "too-many-requests": Outcome(75, 429),
    "server-unavailable": Outcome(75, 503),
    "ledger-unavailable": Outcome(5, 503),
    "ledger-damaged": Outcome(5, 503),
    "ledger-in-doubt": Outcome(5, 503),
    "ledger-behind": Outcome(5, 503),
}
"""By the code of an error, or of its class, whatever skin shows it."""
