"""``openapi.json`` describes the interface over HTTP. It is made from the operations and the types that are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from sfumato.plots.picture import KIND, Picture
from sfumato.privacy.codec_schemas import Schema, Schemas
from sfumato.server.requests import problems
from sfumato.server.requests.operations import JSON, MOST_DIGITS, Operation, Parameter
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


def document(operations: Sequence[Operation]) -> dict[str, Any]:
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


def _types(operations: Sequence[Operation]) -> Iterator[Any]:
    for each in operations:
        yield from each.bodies.values()
        if each.body is not None:
            yield each.body


def _paths(operation: Operation) -> Iterator[tuple[str, str, Any, Mapping[int, Any]]]:
    """List the path of an operation, or one for each kind where what is sent and told depends on that."""
    path = operation.path.replace(":number}", "}")
    if not operation.bodies:
        yield path, operation.name, operation.body, operation.told
    for kind, body in operation.bodies.items():
        yield path.replace("{kind}", kind), f"{operation.name}_{kind}", body, {200: operation.tells[kind]}


def _operation(
    operation: Operation, path: str, name: str, body: Schema | None, answers: Mapping[int, Schema | None]
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


def _parameters(operation: Operation, path: str) -> Iterator[Parameter]:
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


def _answers(operation: Operation, told: Mapping[int, Schema | None]) -> dict[str, Any]:
    found: dict[str, Any] = {str(status): {"description": HTTPStatus(status).phrase} for status in told}
    for status, schema in told.items():
        if schema is not None:
            found[str(status)]["content"] = {form: {"schema": _FORMS.get(form, schema)} for form in operation.answers}
    return found


def _refusals(operation: Operation) -> dict[str, Any]:
    schema = {"schema": {"$ref": _REF.format(name="Problem")}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": {problems.MEDIA_TYPE: schema}}
        for status in operation.refusals
    }
