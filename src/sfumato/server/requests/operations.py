"""An operation is one call of the interface over HTTP. The routes and ``openapi.json`` are made from the same ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

JSON = "application/json"
OWNER, ANALYST, AUDITOR = "owner", "analyst", "auditor"
EVERYBODY = (OWNER, ANALYST, AUDITOR)
Handler = Callable[[Request], Awaitable[Response]]
MOST_DIGITS = 15
"""Of a number in an address: no ledger has more lines."""


class _Number(IntegerConvertor):
    """A number in an address is one that can be looked up; an address with a longer one is not there."""

    regex = f"[0-9]{{1,{MOST_DIGITS}}}"


register_url_convertor("number", _Number())
_REFUSED = (400, 401, 403, 404, 429, 503)


@dataclass(frozen=True)
class Parameter:
    """A parameter stands in the path, in the query or in a header."""

    name: str
    where: Literal["path", "query", "header"]
    words: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """An operation says how it is called, by whom, what it takes and what it may answer."""

    name: str
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    words: str
    handler: Handler
    roles: tuple[str, ...] = EVERYBODY
    """Who may call it; nobody has to be known where it is empty."""
    body: Any = None
    """The type of what is sent."""
    bodies: Mapping[str, Any] = field(default_factory=dict)
    """Where what is sent depends on a part of the path, the type by that part's value."""
    parameters: tuple[Parameter, ...] = ()
    answers: tuple[str, ...] = (JSON,)
    """The forms of what comes back."""
    told: Mapping[int, Any] = field(default_factory=dict)
    """The type of what comes back as JSON, by status; None where nothing does."""
    tells: Mapping[str, Any] = field(default_factory=dict)
    """Where that depends on a part of the path, the type by that part's value."""
    refused: tuple[int, ...] = ()
    """What it may be refused with beside what any call may be."""

    @property
    def takes_body(self) -> bool:
        return self.body is not None or bool(self.bodies)

    @property
    def refusals(self) -> tuple[int, ...]:
        """List every status with which it may be refused."""
        known = _REFUSED if self.roles else (429, 503)
        sent = (408, 413, 415) if self.takes_body else ()
        return tuple(sorted({*known, *sent, *self.refused, 500}))


MOST_LISTED = 1000
CURSOR = (
    Parameter("after", "query", "What comes after this number.", {"type": "integer", "minimum": 0, "maximum": 10**15}),
    Parameter("limit", "query", "At most so many.", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}),
)
"""Of what is listed page by page."""
