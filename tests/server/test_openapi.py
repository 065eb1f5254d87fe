"""The description of the interface is what the interface does: every operation is tried with what it describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from server.running_server import RunningServer, running_server
from sfumato.server.openapi import document
from sfumato.server.rest import OPERATIONS

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settled = {"free_per_second": 100_000, "answer_after": 0.01}
    with running_server(tmp_path_factory.mktemp("described"), **settled) as running:
        yield running


DESCRIBED = document(OPERATIONS)
SCHEMA = schemathesis.openapi.from_dict(DESCRIBED)
NAMES = [(path, method) for path, methods in DESCRIBED["paths"].items() for method in methods]


def test_every_operation_is_described_once() -> None:
    names = [each["operationId"] for methods in DESCRIBED["paths"].values() for each in methods.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS) + 7  # a proposal of each of eight kinds
    assert json.loads(json.dumps(DESCRIBED)) == DESCRIBED


def test_types_are_closed_and_named() -> None:
    for name, schema in DESCRIBED["components"]["schemas"].items():
        assert schema["type"] == "object", name
        assert schema.get("additionalProperties", name == "Problem") is (name == "Problem"), name


@pytest.mark.parametrize(("path", "method"), NAMES, ids=[f"{method} {path}" for path, method in NAMES])
def test_what_is_described_is_what_happens(served: RunningServer, path: str, method: str) -> None:
    operation = SCHEMA[path][method.upper()]
    headers = {"Authorization": f"Bearer {served.tokens['olga']}"}

    @seed(19)
    @settings(
        max_examples=6 if method == "post" else 2,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case: Any) -> None:
        case.path_parameters = {**case.path_parameters, **({"policy": "flights"} if "policy" in path else {})}
        response = case.call(base_url=served.url, headers=headers)
        case.validate_response(response, checks=CHECKS)

    run()
