"""Static replies are the same for everybody: the description of the interface, the style, the script and the icon.

Each is written and compressed once, when the server starts, and has a mark by which a client that has it already is
told so without its bytes (304).

Nothing else is compressed. How short a text becomes tells whether one part of it repeats another, so a reply that holds
a secret beside what a stranger chose would give the secret away, letter by letter (BREACH: Gluck, Harris & Prado 2013).
Pages hold form tokens beside questions, and answers and refusals hold texts of those who ask: they go as they are.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

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
