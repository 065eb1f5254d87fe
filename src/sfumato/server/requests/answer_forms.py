"""An answer is written in the form that a caller wants: JSON, CSV, Arrow or SVG.

Every form is made of the released value alone, so all of them are free.

Static replies are the same for everybody: the description of the interface, the style, the script and the icon.

Each is written and compressed once, when the server starts, and has a mark by which a client that has it already is
told so without its bytes (304).

Nothing else is compressed. How short a text becomes tells whether one part of it repeats another, so a reply that holds
a secret beside what a stranger chose would give the secret away, letter by letter (BREACH: Gluck, Harris & Prado 2013).
Pages hold form tokens beside questions, and answers and refusals hold texts of those who ask: they go as they are.
"""

from __future__ import annotations

import gzip
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import InvalidRequest
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import text
from sfumato.server.requests.calls import JSON


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON text: our values as they write themselves, exact numbers as texts."""
    return Response(written(value), status, headers, JSON)


def written(value: object) -> bytes:
    """Write plain values, and our own ones inside them, as JSON."""
    return msgspec.json.encode(_plain(value), enc_hook=_written)


def _plain(value: object) -> Any:
    """Let our values write themselves: their form has a kind, by which they are read again."""
    if hasattr(value, "to_json"):
        return msgspec.Raw(value.to_json().encode())
    if isinstance(value, Budget):
        return msgspec.Raw(codec.dumps(value).encode())
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _written(value: object) -> Any:
    if isinstance(value, Fraction):
        return text(value)
    raise TypeError(type(value).__name__)


@dataclass(frozen=True)
class AnswerForm:
    """A form has a name, the media type that asks for it, and a way to write what was released."""

    name: str
    media_type: str
    write: Callable[[Any], str | bytes]
    needs: tuple[str, ...]
    """A value is written so if it can do one of these."""


def _arrow(answer: Any) -> bytes:
    import pyarrow

    table, sink = _table(answer), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _csv(answer: Any) -> str | bytes:
    if hasattr(rows := _rows(answer), "to_csv"):
        return rows.to_csv()
    import pyarrow
    from pyarrow import csv

    sink = pyarrow.BufferOutputStream()
    csv.write_csv(_table(answer), sink)
    return sink.getvalue().to_pybytes()


def _table(answer: Any) -> Any:
    """Give the rows of an answer, the cells of marginals, or the rows that are drawn from a synthetic table."""
    return rows.to_arrow() if hasattr(rows := _rows(answer), "to_arrow") else answer.table()


def _rows(answer: Any) -> Any:
    """Give what was released as an answer with rows, where it is none itself."""
    return answer.as_answer() if hasattr(answer, "as_answer") else answer


FORMS = (
    AnswerForm("json", JSON, lambda answer: answer.to_json(), ("to_json",)),
    AnswerForm("csv", "text/csv", _csv, ("to_csv", "to_arrow", "as_answer", "sample")),
    AnswerForm("arrow", "application/vnd.apache.arrow.stream", _arrow, ("to_arrow", "as_answer", "sample")),
    AnswerForm("svg", "image/svg+xml", lambda answer: answer.plot().svg, ("plot",)),
)
NAMES = tuple(each.name for each in FORMS)


def wanted(named: str | None, accepted: Iterable[str]) -> AnswerForm:
    """Find the form that is named, or else the first that the Accept header takes."""
    if named is not None:
        return next((each for each in FORMS if each.name == named), None) or _unknown(f"the forms are {_LISTED}")
    ranges = [each for header in accepted for each in _ranges(header)]
    if not ranges:
        return FORMS[0]
    for media in ranges:
        for each in FORMS:
            if media in ("*/*", each.media_type, each.media_type.partition("/")[0] + "/*"):
                return each
    return _unknown(f"an answer is given as one of {', '.join(each.media_type for each in FORMS)}")


def shown(answer: Any, form: AnswerForm, name: str) -> Response:
    """Answer with what was released in this form."""
    if not any(hasattr(answer, each) for each in form.needs):
        _unknown(f"this kind of release is not written as {form.media_type}")
    headers = {"Content-Disposition": f"inline; filename*=UTF-8''{quote(name)}.{form.name}"}
    return Response(form.write(answer), 200, headers, form.media_type)


_LISTED = ", ".join(NAMES)


def _ranges(header: str) -> list[str]:
    """List what an Accept header takes, best first; what has weight 0 is not taken."""
    found = []
    for place, each in enumerate(header.split(",")):
        media, *terms = (part.strip().lower() for part in each.split(";"))
        weights = [term[2:] for term in terms if term.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            weight = 0.0
        if media and weight > 0:
            found.append((-weight, place, media))
    return [media for _, _, media in sorted(found)]


def _unknown(rule: str) -> Any:
    raise InvalidRequest(rule, place="Accept", fix=f"ask for one of {_LISTED} by ?form=… or an Accept header")


REVALIDATED = "public, no-cache"
"""It may be kept, and is asked for again before it is used."""
LASTING = "public, max-age=31536000, immutable"
"""It may be kept for a year: its address changes when it does."""


@dataclass(frozen=True)
class StaticReply:
    """A static reply is a public text, the same one compressed, and the mark that changes when it does."""

    body: bytes
    compressed: bytes
    mark: str
    media_type: str
    caching: str

    def to(self, request: Request) -> Response:
        """Answer a request: compressed if the client takes that, and with nothing if it has the same already."""
        short = takes_gzip(request.headers.getlist("Accept-Encoding")) and len(self.compressed) < len(self.body)
        tag = f'"{self.mark}-gzip"' if short else f'"{self.mark}"'
        headers = {"ETag": tag, "Vary": "Accept-Encoding", "Cache-Control": self.caching}
        if _has(request.headers.getlist("If-None-Match"), tag):
            return Response(None, 304, headers)
        if short:
            headers["Content-Encoding"] = "gzip"
        return Response(self.compressed if short else self.body, 200, headers, self.media_type)


def static_reply(body: bytes, media_type: str, caching: str) -> StaticReply:
    """Make the reply of a text that is public, and holds nothing of anybody."""
    mark = hashlib.sha256(body).hexdigest()[:12]
    return StaticReply(body, gzip.compress(body, 9, mtime=0), mark, media_type, caching)


def takes_gzip(accepted: Iterable[str]) -> bool:
    """Tell whether a client takes what is compressed by gzip, at least as gladly as what is not (RFC 9110, 12.5.3)."""
    weights = dict(_weighted(each) for header in accepted for each in header.split(","))
    weight = weights.get("gzip", weights.get("*", 0.0))
    return weight > 0 and weight >= weights.get("identity", 0.0)


def _weighted(coding: str) -> tuple[str, float]:
    name, *terms = (part.strip().lower() for part in coding.split(";"))
    weights = [term[2:] for term in terms if term.startswith("q=")]
    try:
        return name, float(weights[0]) if weights else 1.0
    except ValueError:
        return name, 0.0


def _has(shown: Iterable[str], tag: str) -> bool:
    """Tell whether a client shows this tag, or any; the weak form of a tag means the same here (RFC 9110, 13.1.2)."""
    tags = {each.strip().removeprefix("W/") for header in shown for each in header.split(",")}
    return tag in tags or "*" in tags
