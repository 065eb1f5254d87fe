"""The description of the interface is what the interface does: every operation is tried with what it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import jsonschema
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

from server.requests.test_proposals import EDGE_SPECS, LINKED_SPECS, NEED_DELTA, PATIENT_SPECS, SPECS
from server.running_server import COUNT, RunningServer, running_server
from sfumato.server.requests.proposals import KINDS
from sfumato.server.requests.specs import ACTS
from sfumato.server.rest.interface import OPERATIONS, openapi_document

REFUSED = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
CHECKS = (*REFUSED, negative_data_rejection)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settled = {"free_per_second": 100_000, "answer_after": 0.01}
    with running_server(tmp_path_factory.mktemp("described"), club=True, **settled) as running:
        yield running


DESCRIBED = openapi_document(OPERATIONS)
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
    assert len(names) == len(set(names)) == len(OPERATIONS) + len(KINDS) - 1  # a proposal of each kind
    assert json.loads(json.dumps(DESCRIBED)) == DESCRIBED


def test_types_are_closed_and_named() -> None:
    for name, schema in DESCRIBED["components"]["schemas"].items():
        assert schema["type"] == "object", name
        assert schema.get("additionalProperties", name == "Problem") is (name == "Problem"), name


# ── every answer, as it is described ────────────────────────────────────────────────────────────

CLUB_SPECS = {**EDGE_SPECS, **PATIENT_SPECS}
OTHER_SPECS = {**CLUB_SPECS, **LINKED_SPECS}
PLACE = "/v1/policies/{policy}"
Answered = tuple[str, str, httpx.Response]
"""A path and a method as they are described, and what was answered there."""


def _price(kind: str) -> dict[str, str]:
    return {"epsilon": "0.05", "delta": "1e-9"} if kind in NEED_DELTA else {"epsilon": "0.01"}


class Calls:
    """Calls that are answered, at the paths that are described."""

    def __init__(self, served: RunningServer) -> None:
        self.served = served

    def __call__(self, method: str, path: str, user: str = "olga", *, at: str = "", **more: Any) -> Answered:
        named = {path.rpartition("/")[2], more.get("json", {}).get("kind")}
        policy = "club" if named & CLUB_SPECS.keys() else "clinic" if named & LINKED_SPECS.keys() else "flights"
        place = re.sub(r"{(?!policy)\w+}", at, path).replace("{policy}", policy)
        return path, method.lower(), self.served.call(user, method, place, **more)

    def bought(self, key: str, kind: str, spec: dict[str, Any], **headers: str) -> Answered:
        sent = {"kind": kind, "spec": spec, "price": _price(kind)}
        return self("POST", f"{PLACE}/releases", json=sent, headers={"Idempotency-Key": key, **headers})

    def looking(self) -> Iterator[Answered]:
        given = {"policy", "If-None-Match", "after", "limit", "form", "analyst"}
        for path, method in NAMES:
            if method == "get" and {*_taken(path, method)} <= given and "{line}" not in path:
                yield self("GET", path)
        yield self("GET", f"{PLACE}/history", params={"form": "lines"})
        mark = {"If-None-Match": self("GET", "/v1/openapi.json")[2].headers["etag"]}
        yield self("GET", "/v1/openapi.json", headers=mark)

    def asking(self, acts: Sequence[str]) -> Iterator[Answered]:
        assumed = {"epsilon": "0.05", "counts": [100] * 34}
        price = {"propose": {}, "columns": {}, "plot": {}, "price": {"within": 10**6}, "power": assumed}
        for kind, spec in (*SPECS.items(), *OTHER_SPECS.items(), ("questions", {"sql": "SHOW TABLES"})):
            for act in acts if kind == "test" else [act for act in acts if act != "power"]:
                sent = {"act": act, "spec": spec, "price": price.get(act, {"epsilon": "0.05"})}
                sent |= {"price": _price(kind)} if act == "stored" else {}
                user = "ana" if act == "power" else "olga"  # it counts as all that one user may ask in most of a second
                found = self("POST", f"{PLACE}/proposals/{kind}", user, json=sent)
                if found[2].status_code != 422:  # not every kind tells everything
                    yield found

    def buying(self) -> Iterator[Answered]:
        for kind, spec in (*SPECS.items(), ("questions", {"sql": "SHOW TABLES"})):
            key = f"{kind}-{len(spec.get('sql', ''))}"
            yield self.bought(key, kind, spec)
            ended = self("GET", f"{PLACE}/releases", params={"key": key})
            yield ended
            sent = {"act": "stored", "spec": spec, "price": _price(kind)}
            stored = self("POST", f"{PLACE}/proposals/{kind}", json=sent)
            if stored[2].status_code != 422:  # what is found by its request alone
                yield stored
            if line := ended[2].json()["line"]:
                yield self("GET", f"{PLACE}/releases/{{line}}", at=str(line))
        for kind, spec in OTHER_SPECS.items():
            yield self.bought(f"{kind}-1", kind, spec)
        other = {"sql": f"{COUNT} WHERE origin = 'EWR'"}
        yield self.bought("later", "questions", other, Prefer="respond-async")
        yield self("GET", f"{PLACE}/releases", params={"key": "later"})

    def owning(self) -> Iterator[Answered]:
        yield self("POST", "/v1/users", json={"name": "new", "role": "auditor"})
        yield self("POST", "/v1/links", json={"user": "new"})
        yield self("PUT", "/v1/users/{user}", at="new", json={"disabled": True})
        token = self("POST", "/v1/tokens", json={"user": "eve", "days": 3, "most": "1/3", "label": "one"})
        yield token
        yield self("GET", "/v1/tokens")
        yield self("DELETE", "/v1/tokens/{token}", at=str(token[2].json()["token"]["number"]))
        yield self("POST", f"{PLACE}/pause", json={"paused": False})
        policy = self.served.folder / "flights" / "flights.toml"
        policy.write_text(policy.read_text().replace("epsilon = 3.0", "epsilon = 3.5"))
        yield self("POST", f"{PLACE}/amend", json={"reason": "second year"})
        policy.write_text(f"{policy.read_text()}\n[approval]\napprovals = 1\n")
        yield from self.approving()

    def approving(self) -> Iterator[Answered]:
        one, filed = f"{PLACE}/requests/{{request}}", []
        for origin in ("EWR", "JFK", "LGA"):
            question = {"sql": f"SELECT COUNT(*) AS n FROM flights WHERE origin = '{origin}' AND distance > 7"}
            release = {"kind": "questions", "spec": question, "price": {"epsilon": "0.01"}}
            filing = self("POST", f"{PLACE}/requests", "ana", json={"release": release, "purpose": "a report"})
            filed.append(str(filing[2].json()["number"]))
            yield filing
        yield self("GET", one, at=filed[0])
        yield self("POST", f"{one}/approve", at=filed[0], json={"reason": "as agreed"})
        yield self("POST", f"{one}/release", "ana", at=filed[0], headers={"Idempotency-Key": "approved"})
        yield self("POST", f"{one}/refuse", at=filed[1], json={"reason": "too fine"})
        yield self("POST", f"{one}/withdraw", "ana", at=filed[2], json={})
        bought = self("POST", f"{one}/release", "ana", at=filed[0], headers={"Idempotency-Key": "approved"})
        review = {"lines": [bought[2].json()["line"]], "purpose": "the yearly report"}
        yield self("POST", f"{PLACE}/reviews", "ana", json=review)
        share = {"user": "ana", "epsilon": "0.1", "days": 7, "purpose": "drafts"}
        yield self("POST", f"{PLACE}/grants", json=share)
        yield self("GET", f"{PLACE}/requests")


def _validator(path: str, method: str, answer: httpx.Response) -> Any:
    """Find what is described of an answer, beside what that refers to."""
    media = answer.headers["content-type"].partition(";")[0]
    described = DESCRIBED["paths"][path][method]["responses"][str(answer.status_code)]["content"][media]["schema"]
    return jsonschema.Draft202012Validator({**described, "components": DESCRIBED["components"]})


def _broken(found: Any) -> Iterator[Any]:
    """Break an answer at every place of its own, and of what was told or bought: by another type, by what is missing,
    by what is too much.
    """
    if not isinstance(found, dict):
        yield [[{}]]
        return
    yield {**found, "unknown": 1}
    for name in found:
        yield {**found, name: [[{}]]}
        if name == "kind" or "kind" not in found:
            yield {other: each for other, each in found.items() if other != name}
    if "result" in found:
        yield from ({**found, "result": twin} for twin in _broken(found["result"]))


def test_every_answer_is_as_it_is_described(served: RunningServer, long: bool) -> None:
    calls, seen, broken = Calls(served), set(), 0
    # what is previewed is of the same types as what is bought
    acts = [act for act in ACTS if long or act != "preview"]
    for path, method, answer in (*calls.looking(), *calls.asking(acts), *calls.buying(), *calls.owning()):
        assert answer.status_code in (200, 201, 202, 304), (path, answer.text)
        at = path, method, str(answer.status_code)
        is_new = at not in seen
        seen.add(at)
        if not answer.headers.get("content-type", "").startswith("application/json"):
            continue
        validator, told = _validator(path, method, answer), answer.json()
        wrong = [f"{each.json_path}: {each.message[:300]}" for each in validator.iter_errors(told)]
        assert not wrong, (path, wrong)
        for twin in _broken(told) if is_new else ():
            assert not validator.is_valid(twin), (path, twin)
            broken += 1
    assert seen == {
        (path, method, status)
        for path, method in NAMES
        for status in DESCRIBED["paths"][path][method]["responses"]
        if status < "400"
    }
    assert broken > 200


def test_every_answer_has_a_schema() -> None:
    contents = [
        content["schema"]
        for path, method in NAMES
        for status, answer in DESCRIBED["paths"][path][method]["responses"].items()
        for content in answer.get("content", {}).values()
    ]
    assert len(contents) > len(NAMES)
    assert all(contents)


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
    many = 40 if long else 2 if method == "post" else 1
    _run(served, path, method, GenerationMode.POSITIVE, many)
    if (path, method) in TAKEN:
        _run(served, path, method, GenerationMode.NEGATIVE, many if long else 1)
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
