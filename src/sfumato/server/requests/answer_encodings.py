"""Encodings of answers (JSON, CSV, Arrow, SVG) and static responses.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.server.requests.calls import JSON


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; exact numbers are encoded as strings."""
    return Response(encode_json(value), status, headers, JSON)


def encode_json(value: object) -> bytes:
    """Encode plain values, and codec values inside them, as JSON."""
    return msgspec.json.encode(_to_builtins(value), enc_hook=_encode_fraction)


def _to_builtins(value: object) -> Any:
    """Replace codec values by their own JSON, whose ``kind`` tag allows them to be decoded again."""
    if hasattr(value, "to_json"):
        return msgspec.Raw(value.to_json().encode())
    if isinstance(value, Budget):
        return msgspec.Raw(codec.dumps(value).encode())
    if is_dataclass(value):
        return {each.name: _to_builtins(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _to_builtins(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_builtins(each) for each in value]
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
NAMES = tuple(each.name for each in FORMS)


def negotiate_encoding(name: str | None, accepted: Iterable[str]) -> AnswerEncoding:
    """Return the encoding that is named, or else the first that the Accept headers allow."""
    if name is not None:
        return next((each for each in FORMS if each.name == name), None) or _refuse_encoding(
            f"the known forms are {_FORM_NAMES}"
        )
    ranges = [each for header in accepted for each in _accepted_media(header)]
    if not ranges:
        return FORMS[0]
    for media in ranges:
        for form in FORMS:
            if media in ("*/*", form.media_type, form.media_type.partition("/")[0] + "/*"):
                return form
    return _refuse_encoding(f"answers are available as {', '.join(each.media_type for each in FORMS)}")


def encoded_response(answer: Any, form: AnswerEncoding, name: str) -> Response:
    """Return a response with the released value in this encoding."""
    if not any(hasattr(answer, each) for each in form.any_method_of):
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
    weights = dict(_parse_weighted_coding(each) for header in accepted for each in header.split(","))
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
    tags = {each.strip().removeprefix("W/") for header in headers for each in header.split(",")}
    return tag in tags or "*" in tags
