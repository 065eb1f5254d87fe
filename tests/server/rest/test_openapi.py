"""The description of the interface is what the interface does: every operation is tried with what it describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from server.requests.test_proposals import SPECS
from server.running_server import RunningServer, running_server
from sfumato.server.rest.interface import OPERATIONS
from sfumato.server.rest.openapi import document

REFUSED = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
CHECKS = (*REFUSED, negative_data_rejection)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settled = {"free_per_second": 100_000, "answer_after": 0.01}
    with running_server(tmp_path_factory.mktemp("described"), **settled) as running:
        yield running


DESCRIBED = document(OPERATIONS)
NAMES = [(path, method) for path, methods in DESCRIBED["paths"].items() for method in methods]


def _without_security(described: dict[str, Any]) -> dict[str, Any]:
    """Give the description of the same calls without tokens: these are shown by whoever calls, and not generated."""
    paths = {
        path: {method: {**each, "security": []} for method, each in methods.items()}
        for path, methods in described["paths"].items()
    }
    return {**described, "paths": paths}


SCHEMA = schemathesis.openapi.from_dict(_without_security(DESCRIBED))


def _taken(path: str, method: str) -> list[str]:
    """List what an operation is given."""
    operation = DESCRIBED["paths"][path][method]
    return [each["name"] for each in operation["parameters"]] + ["body"] * ("requestBody" in operation)


def test_every_operation_is_described_once() -> None:
    names = [each["operationId"] for methods in DESCRIBED["paths"].values() for each in methods.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS) + 7  # a proposal of each of eight kinds
    assert json.loads(json.dumps(DESCRIBED)) == DESCRIBED


def test_types_are_closed_and_named() -> None:
    for name, schema in DESCRIBED["components"]["schemas"].items():
        assert schema["type"] == "object", name
        assert schema.get("additionalProperties", name == "Problem") is (name == "Problem"), name


# ── every operation, for every role, with what the schema allows and with what it forbids ──────

ROLES = {"olga": "owner", "ana": "analyst", "audrey": "auditor", "eve": "analyst", None: ""}
"""Eve is an analyst whom the policy does not name; the last shows no token."""
TAKEN = [
    (path, method)
    for path, method in NAMES
    if any(name not in ("policy", "If-None-Match") for name in _taken(path, method))
]
"""Operations that are given something that can be wrong: not only the name of a policy, which is any text."""


def test_what_can_be_wrong_is_most_of_it() -> None:
    assert len(NAMES) - len(TAKEN) == 15
    assert {path for path, method in NAMES if method != "get"} <= {path for path, _ in TAKEN}


@pytest.mark.parametrize(("path", "method"), NAMES, ids=[f"{method} {path}" for path, method in NAMES])
def test_what_is_described_is_what_happens_for_every_role(
    served: RunningServer, path: str, method: str, long: bool
) -> None:
    many = 40 if long else 4 if method == "post" else 2
    _run(served, path, method, GenerationMode.POSITIVE, many)
    if (path, method) in TAKEN:
        _run(served, path, method, GenerationMode.NEGATIVE, many)
    for user in ROLES:  # nobody was shut out by what was generated: all of this was said to who is known
        assert served.call(user, "GET", "/v1/policies").status_code == (401 if user is None else 200)


def _run(served: RunningServer, path: str, method: str, mode: GenerationMode, many: int) -> None:
    operation = SCHEMA[path][method.upper()]
    given_path = {"policy": "flights"} if "{policy}" in path else None

    @seed(19)
    @settings(
        max_examples=many,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=given_path), real=st.booleans())
    def run(case: Any, real: bool) -> None:
        if mode is GenerationMode.POSITIVE:
            _make_real(case, real)
        elif "token" in case.path_parameters and str(case.path_parameters["token"]).isdigit():
            return  # one of those that the others show
        for user, role in ROLES.items():
            headers = {} if user is None else {"Authorization": f"Bearer {served.tokens[user]}"}
            response = case.call(base_url=served.url, headers=headers)
            large = response.status_code == 413  # refused, whatever it says
            case.validate_response(response, checks=CHECKS if _may(path, method, user) and not large else REFUSED)
            _check_role(response.status_code, path, method, mode, user, role)

    run()


def _make_real(case: Any, real: bool) -> None:
    """Name what is there, half of the time: else every question is refused for what it is about."""
    kind = case.operation.path.rpartition("/")[2]
    if "token" in case.path_parameters:
        case.path_parameters["token"] += 1000  # none of those that the others show
    if real and kind in SPECS:
        case.body["spec"] = SPECS[kind]
    elif real and kind == "releases" and case.method == "POST":
        case.body.update(kind="questions", spec=SPECS["questions"])


def _may(path: str, method: str, user: str | None) -> bool:
    """Tell whether a user may make a call, as far as the description says."""
    roles = DESCRIBED["paths"][path][method].get("x-roles")
    return roles is None or (user is not None and ROLES[user] in roles and not (user == "eve" and "{policy}" in path))


def _check_role(status: int, path: str, method: str, mode: GenerationMode, user: str | None, role: str) -> None:
    """Check that who may not do something is told so, and nothing of what is wrong with what they sent."""
    roles = DESCRIBED["paths"][path][method].get("x-roles")
    if roles is None:
        assert status in (200, 304), status
    elif mode is GenerationMode.NEGATIVE and status in (404, 413):
        pass  # no address is called so, or it was not read
    elif user is None:
        assert status == 401, status
    elif role not in roles:
        assert status == 403, status
    elif not _may(path, method, user):
        assert status in (400, 404, 406, 422), (
            status
        )  # what cannot be asked of any policy, or a policy that is not there
