"""The interface over HTTP has a route for every operation, and whatever is refused is a problem.

Routes have no logic of their own. They read what was sent and call the counter, which decides who may do what.

``openapi.json`` describes the interface over HTTP. It is made from the operations and the types that are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import InvalidRequest, SfumatoError
from sfumato.plots.picture import KIND, Picture
from sfumato.privacy.codec_schemas import Schema, Schemas
from sfumato.server.requests import problems
from sfumato.server.requests.answer_forms import REVALIDATED, StaticReply, static_reply
from sfumato.server.requests.calls import JSON, MOST_DIGITS, Handler, Parameter, RestOperation
from sfumato.server.requests.problems import fault, problem
from sfumato.server.requests.told_values import Description
from sfumato.server.rest import routes_auditor, routes_health, routes_owner, routes_policies
from sfumato.server.rest.routes_health import Metrics
from sfumato.version import __version__

_REF = "#/components/schemas/{name}"
_ABOUT = """Private answers with honest error bars, and a budget that holds. Only POST …/releases spends; everything
else is free. Numbers that have to be exact are texts."""
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 10**MOST_DIGITS - 1}
_FORMS = {
    "text/csv": {"type": "string"},
    "text/plain": {"type": "string"},
    "image/svg+xml": {"type": "string"},
    "application/vnd.apache.arrow.stream": {"type": "string", "format": "binary"},
    "application/vnd.apache.arrow.file": {"type": "string", "format": "binary"},
}


def document(operations: Sequence[RestOperation]) -> dict[str, Any]:
    """Describe these operations in OpenAPI 3.1."""
    types = [*dict.fromkeys(_types(operations)), problems.Problem]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    written = dict(zip(types, schemas, strict=True))
    told = Schemas(_REF, {Picture: KIND})
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        for path, name, body, answers in _paths(each):
            described = {status: answer and told.of(answer) for status, answer in answers.items()}
            found = _operation(each, path, name, written.get(body), described)
            paths.setdefault(path, {})[each.method.lower()] = found
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sfumato", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**components, **told.components},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(operations: Sequence[RestOperation]) -> Iterator[Any]:
    for each in operations:
        yield from each.bodies.values()
        if each.body is not None:
            yield each.body


def _paths(operation: RestOperation) -> Iterator[tuple[str, str, Any, Mapping[int, Any]]]:
    """List the path of an operation, or one for each kind where what is sent and told depends on that."""
    path = operation.path.replace(":number}", "}")
    if not operation.bodies:
        yield path, operation.name, operation.body, operation.told
    for kind, body in operation.bodies.items():
        yield path.replace("{kind}", kind), f"{operation.name}_{kind}", body, {200: operation.tells[kind]}


def _operation(
    operation: RestOperation, path: str, name: str, body: Schema | None, answers: Mapping[int, Schema | None]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": name,
        "summary": operation.words,
        "parameters": [_parameter(each) for each in _parameters(operation, path)],
        "responses": {**_answers(operation, answers), **_refusals(operation)},
        "security": [{"token": []}] if operation.roles else [],
    }
    if operation.roles:
        found["x-roles"] = list(operation.roles)
    if body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return found


def _parameters(operation: RestOperation, path: str) -> Iterator[Parameter]:
    for part in path.split("/"):
        if part.startswith("{"):
            whole = f"{part[:-1]}:number}}" in operation.path
            schema = _NUMBER if whole else {"type": "string", "minLength": 1}
            yield Parameter(part[1:-1], "path", "As it is listed.", schema, required=True)
    yield from operation.parameters


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.words,
        "required": parameter.required,
        "schema": dict(parameter.schema),
    }


def _answers(operation: RestOperation, told: Mapping[int, Schema | None]) -> dict[str, Any]:
    found: dict[str, Any] = {str(status): {"description": HTTPStatus(status).phrase} for status in told}
    for status, schema in told.items():
        if schema is not None:
            found[str(status)]["content"] = {form: {"schema": _FORMS.get(form, schema)} for form in operation.answers}
    return found


def _refusals(operation: RestOperation) -> dict[str, Any]:
    schema = {"schema": {"$ref": _REF.format(name="Problem")}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": {problems.MEDIA_TYPE: schema}}
        for status in operation.refusals
    }


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
    RestOperation(
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


def _answering(operation: RestOperation) -> Handler:
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
