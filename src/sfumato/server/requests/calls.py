"""REST operations, and the shared steps of a call: authenticate, parse the body, run in a worker thread.

The routes and ``openapi.json`` are generated from the same operations.

Encodings of answers (JSON, CSV, Arrow, SVG) and static responses.

Every encoding is made from the released value alone, so all of them are free.

Static responses are the same for everybody: the OpenAPI description, the style sheet, the script and the icon. Each is
encoded and compressed once, when the server starts, and has an entity tag for 304 replies. Nothing else is compressed:
the compressed length reveals whether one part of a text repeats another, so a response that holds a secret beside text
chosen by an attacker would leak the secret byte by byte (BREACH: Gluck, Harris & Prado 2013). Pages hold form tokens
beside questions, and answers and refusals quote the caller's text, so they are sent uncompressed.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, fields, is_dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import format_exact
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


MAX_PAGE_SIZE = 1000
CURSOR = (
    Parameter("after", "query", "List items after this number.", {"type": "integer", "minimum": 0, "maximum": 10**15}),
    Parameter(
        "limit", "query", "The maximum number of items.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE}
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


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; exact numbers are encoded as strings."""
    return Response(encode_json(value), status, headers, JSON)


def encode_json(value: object) -> bytes:
    """Encode plain values, and codec values inside them, as JSON."""
    return msgspec.json.encode(_to_json_builtins(value), enc_hook=_encode_fraction)


def _to_json_builtins(value: object) -> Any:
    """Replace codec values by their own JSON, whose ``kind`` tag allows them to be decoded again."""
    if hasattr(value, "to_json"):
        return msgspec.Raw(value.to_json().encode())
    if isinstance(value, Budget):
        return msgspec.Raw(codec.dumps(value).encode())
    if is_dataclass(value):
        return {member.name: _to_json_builtins(getattr(value, member.name)) for member in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _to_json_builtins(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_builtins(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _encode_fraction(value: object) -> Any:
    if isinstance(value, Fraction):
        return format_exact(value)
    raise TypeError(type(value).__name__)


@dataclass(frozen=True)
class AnswerEncoding:
    """An encoding of answers: its name, its media type and its writer."""

    name: str
    media_type: str
    write: Callable[[Any], str | bytes]
    any_method_of: tuple[str, ...]
    """A value supports the encoding if it has one of these methods."""


def _write_arrow(answer: Any) -> bytes:
    import pyarrow

    table, sink = _arrow_table(answer), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _write_csv(answer: Any) -> str | bytes:
    if hasattr(rows := _as_answer(answer), "to_csv"):
        return rows.to_csv()
    import pyarrow
    from pyarrow import csv

    sink = pyarrow.BufferOutputStream()
    csv.write_csv(_arrow_table(answer), sink)
    return sink.getvalue().to_pybytes()


def _arrow_table(answer: Any) -> Any:
    """Return an answer's rows, the cells of marginals, or sampled rows of a synthetic table, as an Arrow table."""
    return rows.to_arrow() if hasattr(rows := _as_answer(answer), "to_arrow") else answer.table()


def _as_answer(answer: Any) -> Any:
    """Convert a released value to an answer with rows, if it can be."""
    return answer.as_answer() if hasattr(answer, "as_answer") else answer


FORMS = (
    AnswerEncoding("json", JSON, lambda answer: answer.to_json(), ("to_json",)),
    AnswerEncoding("csv", "text/csv", _write_csv, ("to_csv", "to_arrow", "as_answer", "sample")),
    AnswerEncoding("arrow", "application/vnd.apache.arrow.stream", _write_arrow, ("to_arrow", "as_answer", "sample")),
    AnswerEncoding("svg", "image/svg+xml", lambda answer: answer.plot().svg, ("plot",)),
)
NAMES = tuple(form.name for form in FORMS)


def negotiate_encoding(name: str | None, accepted: Iterable[str]) -> AnswerEncoding:
    """Return the encoding that is named, or else the first that the Accept headers allow."""
    if name is not None:
        return next((form for form in FORMS if form.name == name), None) or _refuse_encoding("this format is unknown")
    ranges = [media_range for header in accepted for media_range in _accepted_media(header)]
    if not ranges:
        return FORMS[0]
    for media in ranges:
        for form in FORMS:
            if media in ("*/*", form.media_type, form.media_type.partition("/")[0] + "/*"):
                return form
    return _refuse_encoding(
        f"the Accept header allows none of the formats {', '.join(form.media_type for form in FORMS)}"
    )


def encoded_response(answer: Any, form: AnswerEncoding, name: str) -> Response:
    """Return a response with the released value in this encoding."""
    if not any(hasattr(answer, method) for method in form.any_method_of):
        _refuse_encoding(f"this kind of release is not available as {form.media_type}")
    headers = {"Content-Disposition": f"inline; filename*=UTF-8''{quote(name)}.{form.name}"}
    return Response(form.write(answer), 200, headers, form.media_type)


_FORM_NAMES = ", ".join(NAMES)


def _accepted_media(header: str) -> list[str]:
    """Parse an Accept header into media ranges, best first; ranges with weight 0 are left out."""
    weighted = []
    for position, entry in enumerate(header.split(",")):
        media, *terms = (part.strip().lower() for part in entry.split(";"))
        weights = [term[2:] for term in terms if term.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            weight = 0.0
        if media and weight > 0:
            weighted.append((-weight, position, media))
    return [media for _, _, media in sorted(weighted)]


def _refuse_encoding(rule: str) -> Any:
    raise InvalidRequest(rule, place="Accept", fix=f"request one of {_FORM_NAMES} with ?form=… or an Accept header")


REVALIDATED = "public, no-cache"
"""May be cached, and is revalidated before each use."""
LASTING = "public, max-age=31536000, immutable"
"""May be cached for a year: the URL changes with the content."""


@dataclass(frozen=True)
class StaticReply:
    """A public response body, plain and compressed, with its entity tag."""

    body: bytes
    compressed: bytes
    content_hash: str
    media_type: str
    caching: str

    def respond(self, request: Request) -> Response:
        """Answer a request: compressed if the client accepts that, 304 if it has the current version."""
        use_gzip = accepts_gzip(request.headers.getlist("Accept-Encoding")) and len(self.compressed) < len(self.body)
        tag = f'"{self.content_hash}-gzip"' if use_gzip else f'"{self.content_hash}"'
        headers = {"ETag": tag, "Vary": "Accept-Encoding", "Cache-Control": self.caching}
        if _matches_etag(request.headers.getlist("If-None-Match"), tag):
            return Response(None, 304, headers)
        if use_gzip:
            headers["Content-Encoding"] = "gzip"
        return Response(self.compressed if use_gzip else self.body, 200, headers, self.media_type)


def static_reply(body: bytes, media_type: str, caching: str) -> StaticReply:
    """Build a static response from content that is public."""
    content_hash = hashlib.sha256(body).hexdigest()[:12]
    return StaticReply(body, gzip.compress(body, 9, mtime=0), content_hash, media_type, caching)


def accepts_gzip(accepted: Iterable[str]) -> bool:
    """Return whether the client accepts gzip, and prefers it at least as much as identity (RFC 9110, 12.5.3)."""
    weights = dict(_parse_weighted_coding(coding) for header in accepted for coding in header.split(","))
    weight = weights.get("gzip", weights.get("*", 0.0))
    return weight > 0 and weight >= weights.get("identity", 0.0)


def _parse_weighted_coding(coding: str) -> tuple[str, float]:
    name, *terms = (part.strip().lower() for part in coding.split(";"))
    weights = [term[2:] for term in terms if term.startswith("q=")]
    try:
        return name, float(weights[0]) if weights else 1.0
    except ValueError:
        return name, 0.0


def _matches_etag(headers: Iterable[str], tag: str) -> bool:
    """Return whether If-None-Match lists this entity tag, or ``*``; weak tags compare equal (RFC 9110, 13.1.2)."""
    tags = {etag.strip().removeprefix("W/") for header in headers for etag in header.split(",")}
    return tag in tags or "*" in tags
