"""Routes of all REST operations, and the generated ``openapi.json``.

Routes hold no logic: they parse the request and call the gateway, which decides who may do what. Every refusal is a
problem response.
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
from sfumato.plots.picture import JSON_KIND, Picture
from sfumato.privacy.codec_schemas import Schema, SchemaBuilder
from sfumato.server.requests import responses as problems
from sfumato.server.requests.calls import (
    JSON,
    MAX_DIGITS,
    REVALIDATED,
    Handler,
    Parameter,
    RestOperation,
    StaticReply,
    static_reply,
)
from sfumato.server.requests.responses import Description, fault_response, problem_response
from sfumato.server.rest import routes_approvals, routes_health, routes_owner, routes_releases
from sfumato.server.rest.routes_health import Metrics
from sfumato.version import __version__

_REF = "#/components/schemas/{name}"
_ABOUT = """Differentially private answers with error bars, under a privacy budget. Only POST …/releases, and POST
…/release of an approved request, spend; everything else is free. Exact numbers are strings."""
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 10**MAX_DIGITS - 1}
_FORMS = {
    "text/csv": {"type": "string"},
    "text/plain": {"type": "string"},
    "image/svg+xml": {"type": "string"},
    "application/vnd.apache.arrow.stream": {"type": "string", "format": "binary"},
    "application/vnd.apache.arrow.file": {"type": "string", "format": "binary"},
}


def openapi_document(operations: Sequence[RestOperation]) -> dict[str, Any]:
    """Describe these operations in OpenAPI 3.1."""
    types = [*dict.fromkeys(_body_types(operations)), problems.Problem]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    body_schemas = dict(zip(types, schemas, strict=True))
    response_schemas = SchemaBuilder(_REF, {Picture: JSON_KIND})
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        for path, name, body, answers in _paths_by_kind(operation):
            described = {status: answer and response_schemas.schema_of(answer) for status, answer in answers.items()}
            described_operation = _describe_operation(operation, path, name, body_schemas.get(body), described)
            paths.setdefault(path, {})[operation.method.lower()] = described_operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sfumato", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**components, **response_schemas.components},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _body_types(operations: Sequence[RestOperation]) -> Iterator[Any]:
    for operation in operations:
        yield from operation.bodies_by_kind.values()
        if operation.body is not None:
            yield operation.body


def _paths_by_kind(operation: RestOperation) -> Iterator[tuple[str, str, Any, Mapping[int, Any]]]:
    """Yield the path of an operation, or one path per kind if the body and response depend on it."""
    path = operation.path.replace(":number}", "}")
    if not operation.bodies_by_kind:
        yield path, operation.name, operation.body, operation.responses
    for kind, body in operation.bodies_by_kind.items():
        yield path.replace("{kind}", kind), f"{operation.name}_{kind}", body, {200: operation.responses_by_kind[kind]}


def _describe_operation(
    operation: RestOperation, path: str, name: str, body: Schema | None, answers: Mapping[int, Schema | None]
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": name,
        "summary": operation.summary,
        "parameters": [_describe_parameter(parameter) for parameter in _all_parameters(operation, path)],
        "responses": {**_describe_responses(operation, answers), **_describe_refusals(operation)},
        "security": [{"token": []}] if operation.roles else [],
    }
    if operation.roles:
        described["x-roles"] = list(operation.roles)
    if body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return described


def _all_parameters(operation: RestOperation, path: str) -> Iterator[Parameter]:
    for part in path.split("/"):
        if part.startswith("{"):
            is_number = f"{part[:-1]}:number}}" in operation.path
            schema = _NUMBER if is_number else {"type": "string", "minLength": 1}
            yield Parameter(part[1:-1], "path", "As returned by the list operations.", schema, required=True)
    yield from operation.parameters


def _describe_parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.location,
        "description": parameter.description,
        "required": parameter.required,
        "schema": dict(parameter.schema),
    }


def _describe_responses(operation: RestOperation, schemas: Mapping[int, Schema | None]) -> dict[str, Any]:
    responses: dict[str, Any] = {str(status): {"description": HTTPStatus(status).phrase} for status in schemas}
    for status, schema in schemas.items():
        if schema is not None:
            responses[str(status)]["content"] = {
                form: {"schema": _FORMS.get(form, schema)} for form in operation.media_types
            }
    return responses


def _describe_refusals(operation: RestOperation) -> dict[str, Any]:
    schema = {"schema": {"$ref": _REF.format(name="Problem")}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": {problems.MEDIA_TYPE: schema}}
        for status in operation.refusals
    }


async def describe(request: Request) -> Response:
    """Return the OpenAPI document."""
    return openapi_reply().respond(request)


@cache
def openapi_reply() -> StaticReply:
    """Encode the OpenAPI document, once."""
    return static_reply(msgspec.json.encode(openapi_document(OPERATIONS)), JSON, REVALIDATED)


OPERATIONS = (
    *routes_releases.OPERATIONS,
    *routes_approvals.OPERATIONS,
    *routes_owner.OPERATIONS,
    *routes_owner.AUDITOR_OPERATIONS,
    *routes_health.OPERATIONS,
    RestOperation(
        "describe",
        "GET",
        "/v1/openapi.json",
        "This description; compressed if the client accepts gzip.",
        describe,
        roles=(),
        parameters=(Parameter("If-None-Match", "header", "The ETag of the cached version."),),
        responses={200: Description, 304: None},
    ),
)
_STATUS_BY_HEADER = {"Content-Type": 415, "Accept": 406}
"""By the header at fault, the HTTP status made for it."""


def routes() -> list[Route]:
    """Return a route for every operation."""
    return [
        Route(operation.path, _wrap_handler(operation), methods=[operation.method], name=operation.name)
        for operation in OPERATIONS
    ]


def _wrap_handler(operation: RestOperation) -> Handler:
    async def handle(request: Request) -> Response:
        metrics: Metrics = request.app.state.metrics
        metrics.count_call(operation.name)
        request.state.operation = operation
        try:
            return await operation.handler(request)
        except SfumatoError as refusal:
            status = _STATUS_BY_HEADER.get(refusal.place) if isinstance(refusal, InvalidRequest) else None
            response = problem_response(refusal, status)
            metrics.count_refusal(response.status_code)
            return response
        except Exception as error:
            return fault_response(error)

    return handle
