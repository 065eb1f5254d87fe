"""The interface over HTTP has a route for every operation, and whatever is refused is a problem.

Routes have no logic of their own. They read what was sent and call the counter, which decides who may do what.
"""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import InvalidRequest, SfumatoError
from sfumato.server.requests.operations import JSON, Handler, Operation, Parameter
from sfumato.server.requests.problems import fault, problem
from sfumato.server.requests.static_replies import REVALIDATED, StaticReply, static_reply
from sfumato.server.requests.told_values import Description
from sfumato.server.rest import routes_auditor, routes_health, routes_owner, routes_policies
from sfumato.server.rest.openapi import document
from sfumato.server.rest.routes_health import Metrics


async def describe(request: Request) -> Response:
    """Describe every operation."""
    return description().to(request)


@cache
def description() -> StaticReply:
    """Write the description of every operation, once."""
    return static_reply(msgspec.json.encode(document(OPERATIONS)), JSON, REVALIDATED)


OPERATIONS = (
    *routes_policies.OPERATIONS,
    *routes_owner.OPERATIONS,
    *routes_auditor.OPERATIONS,
    *routes_health.OPERATIONS,
    Operation(
        "describe",
        "GET",
        "/v1/openapi.json",
        "This description, which is compressed for whoever takes that.",
        describe,
        roles=(),
        parameters=(Parameter("If-None-Match", "header", "The mark of what is there already."),),
        told={200: Description, 304: None},
    ),
)
_OWN_STATUS = {"Content-Type": 415, "Accept": 406}
"""By the header that is wrong, where HTTP has a status for that."""


def routes() -> list[Route]:
    """Give a route for every operation."""
    return [Route(each.path, _answering(each), methods=[each.method], name=each.name) for each in OPERATIONS]


def _answering(operation: Operation) -> Handler:
    async def answered(request: Request) -> Response:
        metrics: Metrics = request.app.state.metrics
        metrics.arrived(operation.name)
        request.state.operation = operation
        try:
            return await operation.handler(request)
        except SfumatoError as refusal:
            status = _OWN_STATUS.get(refusal.place) if isinstance(refusal, InvalidRequest) else None
            answer = problem(refusal, status)
            metrics.refused(answer.status_code)
            return answer
        except Exception as error:
            return fault(error)

    return answered
