"""Frozen types of responses, from which ``openapi.json`` is generated.

Codec values inside them encode themselves, with a ``kind`` tag by which clients decode them.

Refusals as problem details (RFC 9457), and limits on request bodies.

A problem holds the status, and the error's own code, rule, place, fix and facts. An unexpected exception is answered
with one fixed text, because its details may depend on private rows.

Bodies are limited in size, time and encoding before anything is parsed; compressed bodies are refused. The middleware
wraps the whole application, so code behind it reads a body that has arrived completely and is small.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from http import HTTPStatus
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato import errors
from sfumato.curator import PeriodStandings, Standing
from sfumato.curator.request_views import RequestView
from sfumato.errors import BodyTooLarge, InvalidRequest, SfumatoError
from sfumato.ledger import Line, Verification
from sfumato.privacy import Budget
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.users import Act, Token, User
from sfumato.server.releases.running_releases import Phase

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal: the rule that was broken, where, and what would work instead."""

    type: str = "about:blank"
    title: str
    status: int
    kind: str
    """The code of the error class, from which a client rebuilds the same exception."""
    code: str
    rule: str
    place: str
    fix: str
    facts: dict[str, Any]


msgspec.json.Decoder(Problem)  # builds the type info before there are threads: two at once would crash


def problem_response(error: SfumatoError, status: int | None = None) -> Response:
    """Return the response for an error; ``status`` overrides the error's own HTTP status."""
    code = errors.outcome(error).http_status if status is None else status
    fields = msgspec.json.decode(errors.to_json(error), type=dict[str, Any])
    body = msgspec.convert({**fields, "title": HTTPStatus(code).phrase, "status": code}, Problem)
    return Response(msgspec.json.encode(body), code, _problem_headers(error, code), MEDIA_TYPE)


def _problem_headers(error: SfumatoError, status: int) -> dict[str, str]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="sfumato"'}
    wait = getattr(error, "retry_after", None)
    if wait is None and status == HTTPStatus.SERVICE_UNAVAILABLE:
        wait = 1
    return {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}


def fault_response(error: Exception) -> Response:
    """Return the fixed response for an unexpected exception."""
    fix = "send it again with the same Idempotency-Key: a charged release is answered from the stored answer"
    return problem_response(report_fault(error, fix), HTTPStatus.INTERNAL_SERVER_ERROR)


def report_fault(error: Exception, fix: str) -> SfumatoError:
    """Print where an unexpected exception was raised, and return the error that clients see in its place."""
    print(f"fault: {_error_location(error)}", file=sys.stderr, flush=True)  # noqa: T201
    return SfumatoError("the server could not finish this request", place="the server", fix=fix)


def _error_location(error: Exception) -> str:
    """Return an exception's class and source line; its text may quote a question."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    location = "" if frame is None else f" in {frame.tb_frame.f_globals.get('__name__', '')}, line {frame.tb_lineno}"
    return f"{type(error).__name__}{location}"


BODY_SECONDS = 10
"""Seconds for a body to arrive."""


class BodyLimitMiddleware:
    """Middleware that reads request bodies completely, up to a number of bytes and seconds."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._read_body(scope, receive), BODY_SECONDS)
        except ClientDisconnect:
            return
        except TimeoutError:
            await _send_refusal(_timeout_refusal(), 408, scope, receive, send)
        except SfumatoError as refusal:
            status = 415 if refusal.place == "Content-Encoding" else None
            await _send_refusal(refusal, status, scope, receive, send)
        else:
            await self.app(scope, _replay_body(body, receive), send)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """Read the whole body; refuse one that is too long by its Content-Length, or as soon as it exceeds the
        limit.
        """
        if any(coding.strip().lower() != b"identity" for coding in _header_values(scope, b"content-encoding")):
            raise _encoding_refusal()
        for length in _header_values(scope, b"content-length"):
            if not length.isdigit() or len(length) > 18 or int(length) > self.most:
                raise BodyTooLarge(self.most)
        chunks, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            size += len(message.get("body", b""))
            if size > self.most:
                raise BodyTooLarge(self.most)
            chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(chunks)


def _header_values(scope: Scope, name: bytes) -> Iterable[bytes]:
    return (value for key, value in scope["headers"] if key.lower() == name)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that yields the body once, and then the connection's own messages."""
    replayed = False

    async def receive_replayed() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_replayed


async def _send_refusal(error: SfumatoError, status: int | None, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a refusal and close the connection: the unread rest of the body is not a request."""
    response = problem_response(error, status)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


def _encoding_refusal() -> InvalidRequest:
    return InvalidRequest(
        "compressed bodies are not accepted", place="Content-Encoding", fix="send the body uncompressed"
    )


def _timeout_refusal() -> InvalidRequest:
    return InvalidRequest(
        f"the body must arrive within {BODY_SECONDS:g} seconds", place="the body", fix="send the whole request at once"
    )


A = TypeVar("A")
R = TypeVar("R")


def with_types(generic: Any, *types: Any) -> Any:
    """Return a generic response type with these type arguments, which are known when the server starts."""
    return generic[types]


@dataclass(frozen=True)
class PolicyNames:
    """The names of the policies that the caller may see."""

    policies: tuple[str, ...]


@dataclass(frozen=True)
class CountedBudget:
    """A budget as the ledger counts it, with the caller's share of every allowance."""

    budget: Budget
    share: Fraction | None


@dataclass(frozen=True)
class FreeReply(Generic[A, R]):
    """The result of a free call."""

    act: A
    result: R


@dataclass(frozen=True)
class Bought(Generic[R]):
    """The answer of a release, and its ledger line: 0 if nothing was bought."""

    line: int
    free: bool
    result: R


@dataclass(frozen=True)
class PendingRelease:
    """A release in progress."""

    phase: Literal[Phase.QUEUED, Phase.CHARGED]


@dataclass(frozen=True)
class Ended:
    """A completed release, with the ledger line of its answer."""

    phase: Literal[Phase.DONE]
    line: int


@dataclass(frozen=True)
class Unlisted(Generic[R]):
    """A completed release without a ledger line, because nothing was bought; the answer is included."""

    phase: Literal[Phase.DONE]
    line: Literal[0]
    result: R


@dataclass(frozen=True)
class LineSummary:
    """The summary of a ledger line (``Line.summary``)."""

    number: int
    time: str
    analyst: str | None
    kind: str
    question: str
    request_id: str | None
    about: int | None
    cost: dict[str, str | None]

    @classmethod
    def from_line(cls, line: Line, analyst: str | None = None) -> Self:
        """Summarise a line; ``analyst`` names the buyer if the account itself paid."""
        summary = line.summary()
        return cls(**{**summary, "analyst": summary["analyst"] or analyst})


@dataclass(frozen=True)
class AmendmentLine(LineSummary):
    """The line of an amendment, and why the new guarantee for life is weak; empty for a strong one."""

    warnings: tuple[str, ...] = ()
    record: Line | None = None
    """The complete line."""


@dataclass(frozen=True)
class HistoryLines:
    """Ledger lines, and the number after which the next page begins; None on the last page."""

    lines: tuple[LineSummary, ...] | tuple[Line, ...]
    next: int | None


@dataclass(frozen=True)
class Users:
    """All users."""

    users: tuple[User, ...]


@dataclass(frozen=True)
class Tokens:
    """All tokens, without their secret texts."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class CreatedToken:
    """A new token with its secret text, which is never shown again."""

    token: Token
    text: str


@dataclass(frozen=True)
class LoginLink:
    """A login link that works once: a path below the server's address, and the minutes for which it works."""

    path: str
    minutes: int


@dataclass(frozen=True)
class Shares:
    """The standing of every analyst's share."""

    shares: dict[str, Standing | PeriodStandings]


@dataclass(frozen=True)
class Requests:
    """Requests for approval, newest first."""

    requests: tuple[RequestView, ...]


@dataclass(frozen=True)
class PauseState:
    """Whether a policy is paused."""

    paused: bool


@dataclass(frozen=True)
class Acts:
    """Recorded acts of owners, in order."""

    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Overruns:
    """How many answers were later than the clock allows. PRIVATE: it depends on rows."""

    overruns: int


@dataclass(frozen=True)
class LedgerCheck:
    """The result of verifying the ledger: whether it holds, or the first bad line and why."""

    holds: bool
    lines: int
    bad: int | None
    words: str

    @classmethod
    def from_verification(cls, verification: Verification) -> LedgerCheck:
        return cls(verification.holds, verification.lines, verification.bad, str(verification))


@dataclass(frozen=True)
class Health:
    """Whether a process is alive, or ready for new work."""

    status: Literal["alive", "ready"]


@dataclass(frozen=True)
class Description:
    """An OpenAPI document."""

    openapi: str
    info: dict[str, str]
    paths: dict[str, dict[str, object]]
    components: dict[str, dict[str, object]]
