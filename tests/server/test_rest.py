"""The interface over HTTP, as callers meet it: a real server on a loopback port."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pyarrow
import pytest
from pyarrow import csv as arrow_csv

from server.requests.test_proposals import NEED_DELTA, SPECS
from server.running_server import BY_ORIGIN, COUNT, RunningServer, running_server
from sfumato import errors
from sfumato.curator import Explanation, Forecast, Standing, Tables
from sfumato.ledger import Line
from sfumato.policy.public_faces import PublicFace
from sfumato.privacy import Budget, codec
from sfumato.release.answers.answer import Answer
from sfumato.server.requests import proposals
from sfumato.server.rest.interface import OPERATIONS

POLICY = "/v1/policies/flights"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("served"), free_per_second=1000) as running:
        yield running


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is a problem with this status and code, and that the error is read again from it."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code), problem
    assert {"type", "title", "status", "kind", "code", "rule", "place", "fix", "facts"} == set(problem)
    again = errors.from_json(answer.text)
    assert all(getattr(again, name) == problem[name] for name in ("code", "rule", "place", "fix"))
    return problem


# ── who may call what ──────────────────────────────────────────────────────────────────────────

SENT: dict[str, Any] = {
    "tell": {"act": "explain", "spec": {"sql": COUNT}},
    "release": {"kind": "questions", "spec": {"sql": COUNT}, "price": {"epsilon": "0.01"}},
    "add_user": {"name": "ana", "role": "analyst"},
    "change_user": {"disabled": False},
    "new_login_link": {"user": "ana"},
    "new_token": {"user": "nobody-of-this-name"},
    "amend": {"reason": "none was given"},
    "pause": {"paused": False},
    "file_request": {
        "release": {"kind": "questions", "spec": {"sql": COUNT}, "price": {"epsilon": "0.01"}},
        "purpose": "a report",
    },
    "approve_request": {},
    "refuse_request": {"reason": "none was given"},
    "withdraw_request": {},
    "mark_for_publication": {"lines": [999999], "purpose": "a report"},
    "grant_share": {"user": "ana", "epsilon": "0.1", "days": 7, "purpose": "drafts"},
}
"""What is sent with each operation that takes something: nothing that changes what the others see."""
PATHS = {
    "policy": "flights",
    "kind": "questions",
    "user": "nobody-of-this-name",
    "token:number": "999999",
    "line:number": "999999",
    "request:number": "999999",
}
ALLOWED = {200, 201, 400, 404, 409, 422}
"""Whoever may make a call is not turned away, though these calls name what is not there."""


def called(served: RunningServer, user: str | None, name: str) -> Any:
    operation = next(each for each in OPERATIONS if each.name == name)
    path = operation.path
    for part, value in PATHS.items():
        path = path.replace(f"{{{part}}}", value)
    more: dict[str, Any] = {"json": SENT[name]} if name in SENT else {}
    more["headers"] = {"Idempotency-Key": f"table-{user}"} if name in ("release", "release_request") else {}
    more["params"] = {"key": "unknown"} if name == "show_progress" else {}
    return served.call(user, operation.method, path, **more)


@pytest.mark.parametrize("user", [None, "olga", "ana", "audrey", "eve"])
@pytest.mark.parametrize("name", [each.name for each in OPERATIONS])
def test_every_role_may_make_its_own_calls_and_no_other(served: RunningServer, user: str | None, name: str) -> None:
    operation = next(each for each in OPERATIONS if each.name == name)
    answer = called(served, user, name)
    roles = {"olga": "owner", "ana": "analyst", "eve": "analyst", "audrey": "auditor"}
    if not operation.roles:
        assert answer.status_code == 200
    elif user is None:
        refused(answer, 401, "not-signed-in")
    elif roles[user] not in operation.roles:
        refused(answer, 403, "not-allowed")
    elif user == "eve" and "{policy}" in operation.path:
        refused(answer, 404, "not-there")
    else:
        assert answer.status_code in ALLOWED, answer.text


def test_roles_of_operations() -> None:
    open_to_all = {each.path for each in OPERATIONS if not each.roles}
    assert open_to_all == {"/healthz", "/readyz", "/v1/openapi.json"}
    asking = {each.name for each in OPERATIONS if "auditor" not in each.roles and "analyst" in each.roles}
    assert asking == {"tell", "release", "file_request", "withdraw_request", "release_request", "mark_for_publication"}
    assert not any("check" in each.path or "inspect" in each.path for each in OPERATIONS)


# ── what is free ───────────────────────────────────────────────────────────────────────────────


def test_what_is_told_reads_back(served: RunningServer) -> None:
    face = PublicFace.from_json(served.call("ana", "GET", POLICY).text)
    assert (face.account, face.analyst, str(face.share)) == ("flights", "ana", "1/2")
    assert "flights.parquet" not in served.call("ana", "GET", POLICY).text
    standing = Standing.from_json(served.call("ben", "GET", f"{POLICY}/budget").text)
    assert standing.allowed["pure"] == Fraction(3, 4)
    assert served.call("ana", "GET", "/v1/policies").json() == {"policies": ["flights"]}
    assert served.call("eve", "GET", "/v1/policies").json() == {"policies": []}


def test_account_tables_and_whole_lines_read_back(served: RunningServer) -> None:
    served.buy("ben", "whole-lines", "SELECT COUNT(*) AS n FROM flights WHERE origin = 'LGA'")
    account = served.call("ben", "GET", f"{POLICY}/account").json()
    own = codec.loads_as(Budget, json.dumps(account["budget"])).share(account["share"])
    assert own.allowances.amounts["pure"] == Fraction(3, 4)
    assert served.call("olga", "GET", f"{POLICY}/account").json()["share"] is None
    tables = Tables.from_json(served.call("ben", "GET", f"{POLICY}/tables").text)
    assert tables["flights"].questions[0].error
    assert "flights.parquet" not in tables.to_json()
    page = served.call("ben", "GET", f"{POLICY}/history", params={"form": "lines"}).json()
    lines = [Line.from_json(json.dumps(each)) for each in page["lines"]]
    assert {each.analyst for each in lines} == {"ben"}
    assert "whole-lines" in {each.request_id for each in lines}
    refused(served.call("ben", "GET", f"{POLICY}/history", params={"form": "rows"}), 400, "invalid-request")


VIEW: dict[str, Any] = {
    "table": "flights",
    "steps": [
        {"step": "where", "given": ["distance > 100"]},
        {"step": "group_by", "given": ["origin", {"asks": "histogram", "of": "distance", "bins": 3}]},
        {"step": "agg", "named": {"n": {"asks": "aggregate", "name": "count"}, "share": "COUNT(*) / 2"}},
        {"step": "head", "given": [2], "named": {"skip": 1}},
    ],
}


UNKNOWN = {"asks": "aggregate", "name": "x"}


def _nested(depth: int) -> dict[str, Any]:
    view: dict[str, Any] = {"table": "flights"}
    for _ in range(depth):
        view = {"table": "flights", "steps": [{"step": "union_all", "other": view}]}
    return {**view, "steps": [*view["steps"], VIEW["steps"][2]]}


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"view": VIEW}, 200),
        ({"view": VIEW, "limit": [{"rows": 5}, {"rows": 3}]}, 200),
        ({"view": _nested(3)}, 200),
        ({"view": _nested(9)}, 400),
        ({"view": _nested(150)}, 400),
        ({}, 400),
        ({"view": VIEW, "sql": COUNT}, 400),
        ({"view": VIEW, "parameters": [1]}, 400),
        ({"view": {"table": "flights"}}, 400),
        ({"view": {"table": "flights", "steps": [{"step": "__class__"}]}}, 400),
        ({"view": {"table": "flights", "steps": [{"step": "having", "given": ["n > 1"]}]}}, 400),
        ({"view": {"table": "flights", "steps": [{"step": "where", "given": [1]}]}}, 422),
        ({"view": {"table": "flights", "steps": [{"step": "where", "named": {"self": "x"}}]}}, 400),
        ({"view": {"table": "flights", "steps": [{"step": "join", "other": "flights", "given": ["x"]}]}}, 422),
        ({"view": {"table": "flights", "steps": [{"step": "where", "given": ["nothing > 1"]}, VIEW["steps"][2]]}}, 422),
        (
            {
                "view": {
                    "table": "flights",
                    "steps": [{"step": "agg", "named": {"n": {"asks": "aggregate", "name": "x"}}}],
                }
            },
            400,
        ),
        ({"sql": f"{COUNT} WHERE origin = $1", "parameters": [{"type": "date", "value": "yesterday"}]}, 400),
        ({"sql": f"{COUNT} WHERE distance > $1", "parameters": [{"type": "decimal", "value": "100.5"}]}, 200),
    ],
)
def test_a_question_may_be_sent_in_steps(served: RunningServer, spec: dict[str, Any], status: int) -> None:
    sent = {"act": "error", "spec": spec, "price": {"epsilon": 1}}
    answer = served.call("ana", "POST", f"{POLICY}/proposals/questions", json=sent)
    assert answer.status_code == status, answer.text
    assert status == 200 or "code" in answer.json()


def test_every_act_is_free_and_reads_back(served: RunningServer) -> None:
    before = served.spent()
    told = {act: served.ask("ana", act, BY_ORIGIN, **price).json()["result"] for act, price in ACTS.items()}
    assert Explanation.from_json(json.dumps(told["explain"])).price == "ε = 1"
    assert set(Forecast.from_json(json.dumps(told["error"])).columns) == {"flights"}
    assert 0 < told["price"] < 100
    assert [each["name"] for each in told["columns"]] == ["origin", "flights"]
    rehearsal = Answer.from_json(json.dumps(told["preview"]))
    assert rehearsal.is_preview
    assert rehearsal.column("origin") == ["EWR", "JFK", "LGA"]
    assert served.spent() == before


ACTS: dict[str, dict[str, Any]] = {
    "propose": {},
    "explain": {"epsilon": 1},
    "error": {"epsilon": 1},
    "price": {"within": 500},
    "columns": {},
    "preview": {"epsilon": 1},
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("act", ACTS)
def test_every_kind_has_every_act(served: RunningServer, kind: str, act: str) -> None:
    price = {"within": 10**6} if (kind, act) == ("auctions", "price") else ACTS[act]
    sent = {"act": act, "spec": SPECS[kind], "price": price}
    answer = served.call("ana", "POST", f"{POLICY}/proposals/{kind}", json=sent)
    if (kind, act) == ("synthesis", "error"):
        refused(answer, 422, "no-forecast")
    else:
        assert answer.status_code == 200, answer.text


# ── what is bought ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", SPECS)
def test_every_kind_is_bought_once_for_a_key_and_shown_again(served: RunningServer, kind: str) -> None:
    before = served.spent()
    price = {"epsilon": "0.05", "delta": "1e-9"} if kind in NEED_DELTA else {"epsilon": "0.013"}
    first = served.buy("ana", f"each-{kind}", kind=kind, spec=SPECS[kind], price=price)
    assert first.status_code == 200, first.text
    after = served.spent()
    assert after > before
    again = served.buy("ana", f"each-{kind}", kind=kind, spec=SPECS[kind], price=price)
    assert again.status_code == 200, again.text
    assert served.spent() == after
    shown = served.call("ana", "GET", first.headers["location"])
    assert shown.status_code == 200, shown.text
    read = codec.loads(json.dumps(first.json()["result"]), longest=1 << 30)
    assert type(codec.loads(shown.text, longest=1 << 30)) is type(read)


def test_a_free_question_is_answered_without_a_line(served: RunningServer) -> None:
    """And is told again, whole, to whoever polls: there is no other place for it."""
    for number, sql in enumerate(["SHOW TABLES", "DESCRIBE flights", "SELECT DISTINCT origin FROM flights"]):
        answer = served.buy("ana", f"free-{number}", sql, price={})
        assert answer.status_code == 200, answer.text
        assert answer.json()["free"]
        polled = served.call("ana", "GET", f"{POLICY}/releases", params={"key": f"free-{number}"})
        assert (polled.json()["phase"], polled.json()["line"]) == ("done", 0)
        assert polled.json()["result"]["rows"] == answer.json()["result"]["rows"]
        assert "location" not in polled.headers


def test_who_is_not_known_is_logged_with_what_they_called(served: RunningServer) -> None:
    before = len(served.log.read_text().splitlines())
    for path in ("/v1/policies", f"{POLICY}/budget"):
        refused(served.call(None, "GET", path), 401, "not-signed-in")
    assert served.call(None, "GET", "/p/flights/data").status_code == 401
    said = [json.loads(line) for line in served.log.read_text().splitlines()[before:]]
    assert [(each["route"], each["status"]) for each in said] == [
        ("list_policies", 401),
        ("show_budget", 401),
        ("page_show_data", 401),
    ]


def test_the_answer_is_given_in_every_form(served: RunningServer) -> None:
    bought = served.buy("ana", "forms", BY_ORIGIN)
    place = bought.headers["location"]
    answer = Answer.from_json(json.dumps(bought.json()["result"]))
    assert Answer.from_json(served.call("ana", "GET", place).text).rows == answer.rows
    arrow = served.call("ana", "GET", place, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pyarrow.ipc.open_stream(arrow.content).read_all().equals(answer.to_arrow())
    csv = served.call("ana", "GET", place, headers={"Accept": "text/csv;q=0.9, application/json;q=0.1"})
    assert csv.headers["content-type"] == "text/csv; charset=utf-8"
    assert arrow_csv.read_csv(io.BytesIO(csv.content)).column("origin").to_pylist() == ["EWR", "JFK", "LGA"]
    svg = served.call("ana", "GET", place, params={"form": "svg"})
    assert (svg.headers["content-type"], svg.text[:4]) == ("image/svg+xml", "<svg")
    refused(served.call("ana", "GET", place, headers={"Accept": "image/png"}), 406, "invalid-request")
    refused(served.call("ana", "GET", place, params={"form": "xlsx"}), 406, "invalid-request")


def test_cells_of_marginals_are_written_as_rows(served: RunningServer) -> None:
    spec = {"table": "flights", "ways": 2, "columns": ["origin", "carrier"]}
    bought = served.buy("ana", "cells", kind="marginals", spec=spec, price={"epsilon": "0.02"})
    place = bought.headers["location"]
    table = pyarrow.ipc.open_stream(served.call("ana", "GET", place, params={"form": "arrow"}).content).read_all()
    assert table.column_names[:4] == ["marginal", "origin", "carrier", "count"]
    assert (table.num_rows, set(table.column("marginal").to_pylist())) == (4 * 17, {"origin × carrier"})
    csv = served.call("ana", "GET", place, headers={"Accept": "text/csv"})
    read = arrow_csv.read_csv(io.BytesIO(csv.content))
    assert (read.column_names, read.num_rows) == (table.column_names, table.num_rows)


ROWS: dict[str, tuple[dict[str, Any], list[str], int]] = {
    "workloads": (
        {"questions": {"all": COUNT, "by origin": BY_ORIGIN}},
        ["question", "flights", "origin", "flights_low", "flights_high"],
        4,
    ),
    "sessions": (
        {"threshold": 100, "questions": [COUNT, f"{COUNT} WHERE carrier = 'AS'"]},
        ["question", "above", "value", "value_low", "value_high"],
        2,
    ),
    "bounds": (SPECS["bounds"], ["column", "low", "high", "inside", "outside", "inside_low", "inside_high"], 1),
    "auctions": (SPECS["auctions"], ["price", "buyers", "buyers_low", "buyers_high"], 1),
}
PAID: dict[str, dict[str, Any]] = {
    "workloads": {"fresh": True},  # what others have bought before has a line of its own
    "sessions": {"epsilon": "0.2", "values_epsilon": "0.01"},  # so that noise never hides the first
    "auctions": {"counting": "0.5"},
}
"""What is released beside answers and marginals, with the columns and the number of its rows, where all is paid for."""


@pytest.mark.parametrize("kind", ROWS)
def test_other_releases_are_written_as_rows_too(served: RunningServer, kind: str) -> None:
    spec, columns, rows = ROWS[kind]
    price = {"epsilon": "0.02", **PAID.get(kind, {})}
    place = served.buy("ana", f"rows-of-{kind}", kind=kind, spec=spec, price=price).headers["location"]
    arrow = served.call("ana", "GET", place, params={"form": "arrow"})
    table = pyarrow.ipc.open_stream(arrow.content).read_all()
    assert (table.column_names[: len(columns)], table.num_rows) == (columns, rows)
    csv = served.call("ana", "GET", place, headers={"Accept": "text/csv"})
    read = arrow_csv.read_csv(io.BytesIO(csv.content))
    assert (read.column_names, read.num_rows) == (table.column_names, rows)
    told = proposals.KINDS[kind].answer_class.from_json(served.call("ana", "GET", place).text)
    assert told.as_answer().to_arrow().equals(table)  # as whoever connects has it
    svg = served.call("ana", "GET", place, params={"form": "svg"})
    if kind == "workloads":
        assert (svg.headers["content-type"], svg.text[:4]) == ("image/svg+xml", "<svg")
    else:
        refused(svg, 406, "invalid-request")


def test_rows_of_a_synthetic_table_are_drawn_for_nothing(served: RunningServer) -> None:
    bought = served.buy("ana", "rows", kind="synthesis", spec=SPECS["synthesis"], price={"epsilon": "0.02"})
    before, place = served.spent(), bought.headers["location"]
    arrow = served.call("ana", "GET", place, params={"form": "arrow"})
    assert pyarrow.ipc.open_stream(arrow.content).read_all().column_names == ["origin", "carrier"]
    assert served.call("ana", "GET", place, params={"form": "csv"}).text.startswith('"origin","carrier"\n')
    assert served.call("ana", "GET", place, params={"form": "svg"}).text.startswith("<svg")
    assert served.spent() == before


def test_own_lines_only(served: RunningServer) -> None:
    place = served.buy("ana", "hers", f"{COUNT} WHERE carrier = 'AS'").headers["location"]
    assert served.call("ana", "GET", place).status_code == 200
    gone = refused(served.call("ben", "GET", place), 404, "not-there")
    never = refused(served.call("ben", "GET", f"{POLICY}/releases/99999"), 404, "not-there")
    assert {**gone, "place": "", "rule": "", "facts": {}} == {**never, "place": "", "rule": "", "facts": {}}
    for user in ("olga", "audrey"):
        assert served.call(user, "GET", place).status_code == 200


def test_a_key_is_required_and_names_one_release(served: RunningServer) -> None:
    before = served.spent()
    for headers in ({}, {"Idempotency-Key": ""}, {"Idempotency-Key": "a b"}, {"Idempotency-Key": "x" * 201}):
        answer = served.call("ana", "POST", f"{POLICY}/releases", json=SENT["release"], headers=headers)
        assert refused(answer, 400, "invalid-request")["place"] == "Idempotency-Key"
    assert served.spent() == before
    first = served.buy("ana", "one", f"{COUNT} WHERE carrier = 'UA'")
    assert first.status_code == 200
    refused(served.buy("ana", "one", f"{COUNT} WHERE carrier = 'DL'"), 409, "request-differs")
    refused(
        served.buy("ana", "one", f"{COUNT} WHERE carrier = 'UA'", price={"epsilon": "0.02"}), 409, "request-differs"
    )
    assert served.spent() == before + 1
    others = served.buy("ben", "one", f"{COUNT} WHERE carrier = 'B6'")
    assert others.status_code == 200


def test_a_release_can_be_polled(served: RunningServer) -> None:
    sql = f"{COUNT} WHERE carrier = 'AA'"
    begun = served.buy("ana", "later/1?", sql, headers={"Prefer": "wait=1, respond-async"})
    assert (begun.status_code, begun.json()["phase"]) == (202, "queued") or begun.json()["phase"] == "charged"
    place, phases = begun.headers["location"], [begun.json()["phase"]]
    while phases[-1] != "done":
        told = served.call("ana", "GET", place)
        assert told.status_code == 200, told.text
        phases.append(told.json()["phase"])
    assert list(dict.fromkeys(phases)) in (["queued", "charged", "done"], ["queued", "done"], ["charged", "done"])
    answer = served.call("ana", "GET", told.headers["location"])
    assert Answer.from_json(answer.text).columns == ("flights",)
    refused(served.call("ben", "GET", place), 404, "not-there")
    stored = served.buy("ana", "later/1?", sql, headers={"Prefer": "respond-async"})
    assert stored.status_code == 200


def test_history_is_paged_and_an_analysts_is_their_own(served: RunningServer) -> None:
    served.buy("ben", "history", f"{COUNT} WHERE carrier = 'EV'")
    every, after = [], 0
    while after is not None:
        page = served.call("olga", "GET", f"{POLICY}/history", params={"after": after, "limit": 3}).json()
        assert len(page["lines"]) <= 3
        every += page["lines"]
        after = page["next"]
    assert [each["number"] for each in every] == sorted({each["number"] for each in every})
    own = served.call("ben", "GET", f"{POLICY}/history", params={"limit": 1000}).json()["lines"]
    assert {each["analyst"] for each in own} == {"ben"}
    assert own == [each for each in every if each["analyst"] == "ben"]
    for wrong in ({"after": "-1"}, {"after": "x"}, {"limit": "1001"}, {"limit": "0"}, {"limit": "٣"}):
        refused(served.call("ben", "GET", f"{POLICY}/history", params=wrong), 400, "invalid-request")
    refused(served.call("olga", "GET", "/v1/acts", params={"limit": "0"}), 400, "invalid-request")


# ── refusals ───────────────────────────────────────────────────────────────────────────────────


def test_status_of_refusals(served: RunningServer) -> None:
    before = served.spent()
    refused(served.ask("ana", "error", epsilon=-1), 400, "invalid-parameter")
    refused(served.ask("ana", "error", epsilon="many"), 400, "invalid-parameter")
    overspent = refused(served.buy("ana", "dear", price={"epsilon": "2.9"}), 402, "overspent")
    assert overspent["facts"]["requested"]["pure"] == "2.9"
    refused(served.call("ana", "GET", "/v1/policies/salaries"), 404, "not-there")
    refused(served.call("ana", "GET", "/v1/nothing"), 404, "not-there")
    refused(served.call("ana", "POST", f"{POLICY}/proposals/checks", json={}), 404, "not-there")
    star = refused(served.ask("ana", "error", "SELECT *\nFROM flights", epsilon=1), 422, "star")
    assert star["facts"] == {"line": 1, "column": 8}
    refused(served.call("ana", "PUT", "/v1/policies"), 405, "invalid-request")
    refused(served.call("ana", "POST", f"{POLICY}/releases", content=b"{}"), 400, "invalid-request")
    assert served.spent() == before


def test_what_is_sent_is_called_json(served: RunningServer) -> None:
    for media in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""):
        sent = served.call(
            "ana", "POST", f"{POLICY}/proposals/questions", content=b"{}", headers={"Content-Type": media}
        )
        refused(sent, 415, "invalid-request")


def test_an_owner_lets_people_in_and_keeps_them_out(served: RunningServer) -> None:
    assert served.call("olga", "POST", "/v1/users", json={"name": "cy", "role": "analyst"}).status_code == 201
    made = served.call("olga", "POST", "/v1/tokens", json={"user": "cy", "days": 1, "most": "0.5", "label": "bi"})
    assert (made.status_code, made.json()["token"]["label"], made.json()["token"]["most"]) == (201, "bi", "0.5")
    served.tokens["cy"] = made.json()["text"]
    assert served.call("cy", "GET", "/v1/policies").json() == {"policies": []}
    assert made.json()["text"] not in served.call("olga", "GET", "/v1/tokens").text
    number = made.json()["token"]["number"]
    assert served.call("olga", "DELETE", f"/v1/tokens/{number}").json()["revoked"]
    refused(served.call("cy", "GET", "/v1/policies"), 401, "not-signed-in")
    link = served.call("olga", "POST", "/v1/links", json={"user": "cy"})
    assert (link.status_code, link.json()["minutes"]) == (201, 15)
    assert "Sign in" in served.call(None, "GET", link.json()["path"]).text
    refused(served.call("olga", "POST", "/v1/links", json={"user": "nobody"}), 400, "invalid-parameter")
    refused(served.call("ana", "POST", "/v1/links", json={"user": "olga"}), 403, "not-allowed")
    assert served.call("olga", "PUT", "/v1/users/cy", json={"disabled": True}).json()["disabled"]
    refused(served.call("olga", "PUT", "/v1/users/nobody", json={"disabled": True}), 404, "not-there")
    refused(served.call("olga", "DELETE", "/v1/tokens/999"), 404, "not-there")
    refused(served.call("olga", "POST", "/v1/users", json={"name": "../x", "role": "owner"}), 400, "invalid-parameter")
    acts = [each["act"] for each in served.call("audrey", "GET", "/v1/acts", params={"limit": 1000}).json()["acts"]]
    assert acts[-5:] == ["user added", "token made", "token revoked", "link made", "user disabled"]


def test_a_paused_policy_answers_nothing_new(served: RunningServer) -> None:
    served.buy("ana", "before-the-pause", f"{COUNT} WHERE carrier = 'US'")
    assert served.call("olga", "POST", f"{POLICY}/pause", json={"paused": True}).json() == {"paused": True}
    try:
        waits = served.buy("ana", "in-the-pause", f"{COUNT} WHERE carrier = 'WN'")
        refused(waits, 503, "paused")
        assert waits.headers["retry-after"] == "1"
    finally:
        served.call("olga", "POST", f"{POLICY}/pause", json={"paused": False})


def test_an_auditor_verifies_exports_and_anchors(served: RunningServer) -> None:
    assert served.call("audrey", "GET", "/v1/ledger/verify").json()["holds"]
    exported = served.call("audrey", "GET", "/v1/ledger/export").json()
    assert [each["number"] for each in exported] == list(range(1, len(exported) + 1))
    for form, start in (("csv", b"number,"), ("arrow", b"ARROW1")):
        assert served.call("audrey", "GET", "/v1/ledger/export", params={"form": form}).content.startswith(start)
    refused(served.call("audrey", "GET", "/v1/ledger/export", params={"form": "/etc"}), 400, "invalid-parameter")
    assert codec.loads(served.call("audrey", "GET", "/v1/ledger/anchor").text).number >= len(exported)
