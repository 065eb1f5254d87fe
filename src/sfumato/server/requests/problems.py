"""A refusal over HTTP is a problem (RFC 9457): the status, and the error's own code, rule, place, fix and facts.

What went wrong inside is never told: such a problem has one text, whatever happened, since what happened may depend on
private rows.
"""

from __future__ import annotations

import math
import sys
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from sfumato import errors
from sfumato.errors import SfumatoError

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal says the rule that was broken, where, and what would work instead."""

    type: str = "about:blank"
    title: str
    status: int
    kind: str
    """The code of the error's class, by which a client makes the same error again."""
    code: str
    rule: str
    place: str
    fix: str
    facts: dict[str, Any]


msgspec.json.Decoder(Problem)  # its type is looked at before there are threads, of which no two may do so at once


def problem(error: SfumatoError, status: int | None = None) -> Response:
    """Answer with a refusal; its status is the error's unless HTTP itself has one for it."""
    code = errors.outcome(error).http_status if status is None else status
    said = msgspec.json.decode(errors.to_json(error), type=dict[str, Any])
    found = msgspec.convert({**said, "title": HTTPStatus(code).phrase, "status": code}, Problem)
    return Response(msgspec.json.encode(found), code, _headers(error, code), MEDIA_TYPE)


def _headers(error: SfumatoError, status: int) -> dict[str, str]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="sfumato"'}
    wait = getattr(error, "retry_after", None)
    if wait is None and status == HTTPStatus.SERVICE_UNAVAILABLE:
        wait = 1
    return {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}


def fault(error: Exception) -> Response:
    """Answer where the server itself failed: with one text, whatever happened."""
    fix = "ask again under the same Idempotency-Key: what was charged is answered from what is stored"
    return problem(failed(error, fix), HTTPStatus.INTERNAL_SERVER_ERROR)


def failed(error: Exception, fix: str) -> SfumatoError:
    """Tell whoever runs the server where it failed, and give what others are told, whatever happened."""
    print(f"fault: {_place(error)}", file=sys.stderr, flush=True)  # noqa: T201
    return SfumatoError("the server could not finish this request", place="the server", fix=fix)


def _place(error: Exception) -> str:
    """Name the kind of an error and the line it came from: its own text may hold what was asked."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_globals.get('__name__', '')}, line {place.tb_lineno}"
    return f"{type(error).__name__}{where}"
