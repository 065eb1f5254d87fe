"""What is sent becomes the proposal that Python would make, or is refused by its text alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from publish.linked.worlds import clinic_policy, people
from server.running_server import write_club
from server.small_server import open_server
from sfumato.client import wire
from sfumato.curator.release_kinds import all_kinds
from sfumato.errors import InvalidParameter, InvalidRequest, SfumatoError, Unsupported
from sfumato.server.releases.running_releases import decode_stored_answer
from sfumato.server.requests import proposals

COUNT = "SELECT COUNT(*) AS flights FROM flights"
SPECS: dict[str, dict[str, Any]] = {
    "questions": {"sql": COUNT},
    "workloads": {"questions": {"all": COUNT, "jfk": f"{COUNT} WHERE origin = 'JFK'"}},
    "marginals": {"table": "flights", "ways": [["origin"]]},
    "synopses": {"table": "flights", "columns": ["origin"], "ways": 1, "rounds": 1},
    "synthesis": {"table": "flights", "method": "independent", "columns": ["origin", "carrier"], "ways": 1},
    "sessions": {"threshold": 100, "questions": [COUNT]},
    "bounds": {"table": "flights", "column": "distance"},
    "auctions": {"table": "flights", "column": "distance", "prices": [100, "500.5"]},
    "clipped": {"question": "SELECT AVG(delay) AS late FROM flights", "rows": 50},
    "regress": {"table": "flights", "formula": "delay ~ distance + origin"},
    "components": {"table": "flights", "columns": ["delay", "distance"]},
    "logistic": {"table": "flights", "formula": "origin ~ distance", "event": "JFK"},
}
"""One proposal of every kind, about the bundled example,"""
NEED_DELTA = {"regress", "components", "logistic"}
EDGE_SPECS: dict[str, dict[str, Any]] = {
    "degrees": {"table": "ties", "ends": ["source", "target"], "most": 3},
    "running": {"question": "SELECT source, COUNT(*) AS ties FROM ties GROUP BY source"},
    "test": {"test": "fit", "question": "SELECT source, COUNT(*) AS n FROM ties GROUP BY source"},
}
"""and about a table of edges,"""
PATIENT_SPECS: dict[str, dict[str, Any]] = {"survival": {"table": "patients", "time": "months", "event": "died"}}
"""and about patients with one row each."""
LINKED_SPECS: dict[str, dict[str, Any]] = {
    "linked": {"tables": ["patients", "visits"], "columns": ["visits.ward"], "given": ["sex"]}
}
"""and about patients and their visits."""


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with sf.Curator(sf.example(tmp_path_factory.mktemp("served") / "flights")) as opened:
        yield opened


def body(**sent: Any) -> bytes:
    return json.dumps(sent).encode()


def told(curator: sf.Curator, kind: str, act: str, **price: Any) -> Any:
    act, spec, named = proposals.decode_act_spec_and_price(kind, body(act=act, spec=SPECS[kind], price=price))
    return getattr(proposals.propose(curator, kind, spec), act)(**named)


def test_there_is_an_example_of_every_kind() -> None:
    assert set(SPECS) | set(EDGE_SPECS) | set(PATIENT_SPECS) | set(LINKED_SPECS) == set(proposals.KINDS)
    assert proposals.KINDS.keys() - {"questions"} == {
        name for name, kind in all_kinds().items() if "rest" not in kind.refusal_by_skin
    }


@pytest.mark.parametrize("kind", SPECS)
def test_every_kind_is_explained_and_priced_for_free(curator: sf.Curator, kind: str) -> None:
    before = len(list(curator.history()))
    assert "at ε = 1" in str(told(curator, kind, "explain", epsilon=1))
    within = 10**6 if kind == "auctions" else 500
    assert 0 < told(curator, kind, "price", within=within) < 100
    assert len(list(curator.history())) == before


@pytest.mark.long
@pytest.mark.parametrize("kind", SPECS)
def test_every_kind_is_bought_and_what_is_bought_can_be_written(curator: sf.Curator, kind: str) -> None:
    asked = {"epsilon": "0.05", **({"delta": "1e-9"} if kind in NEED_DELTA else {})}
    named, spec, price = proposals.decode_kind_spec_and_price(body(kind=kind, spec=SPECS[kind], price=asked))
    assert named == kind
    proposals.propose(curator, kind, spec).release(**price)


def test_a_question_takes_parameters_and_limits(curator: sf.Curator) -> None:
    sent = {"sql": f"{COUNT} WHERE origin = $1", "parameters": ["JFK"]}
    _, spec, _ = proposals.decode_act_spec_and_price("questions", body(act="error", spec=sent))
    assert (
        proposals.propose(curator, "questions", spec).identity == curator.sql(f"{COUNT} WHERE origin = 'JFK'").identity
    )


def test_numbers_in_texts_are_exact(curator: sf.Curator) -> None:
    as_text = told(curator, "questions", "error", epsilon="0.1")
    assert as_text == told(curator, "questions", "error", epsilon=0.1) == curator.sql(COUNT).error(epsilon="1/10")


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        (b"", "the body"),
        (b"[" * 60_000, "the body"),
        (b"\xff", "the body"),
        (b'{"act": "explain"}', "the body"),
        (body(act="release", spec={"sql": COUNT}), "the body, act"),
        (body(act="error", spec={"sql": COUNT, "fresh": True}), "the body, spec"),
        (body(act="error", spec={"sql": COUNT}, price={"epsilon": [1]}), "the body, price.epsilon"),
        (body(act="error", spec={"sql": COUNT}, price={"request_id": "x"}), "the body, price"),
        (body(act="error", spec={"sql": COUNT}, price={"progress": "x"}), "the body, price"),
        (b'{"act": "error", "spec": {"sql": "x"}, "price": {"epsilon": 1e999}}', "the body, price.epsilon"),
    ],
)
def test_what_has_another_form_is_refused_at_its_place(sent: bytes, place: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        proposals.decode_act_spec_and_price("questions", sent)
    assert refused.value.place == place


def test_the_earlier_name_of_a_preview_is_read_as_the_new_one() -> None:
    for act in ("preview", "rehearse"):
        sent = body(act=act, spec=SPECS["questions"], price={"epsilon": 1})
        assert proposals.decode_act_spec_and_price("questions", sent)[0] == "preview"


def test_a_price_that_a_kind_does_not_take_is_refused(curator: sf.Curator) -> None:
    with pytest.raises(InvalidParameter, match="fresh"):
        told(curator, "marginals", "explain", epsilon=1, fresh=True)
    with pytest.raises(InvalidParameter, match='"for" must be left out'):
        told(curator, "marginals", "error", epsilon=1, **{"for": ["origin"]})


@pytest.mark.parametrize("kind", ["bounds", "auctions", "sessions"])
def test_a_price_that_is_missing_is_refused(curator: sf.Curator, kind: str) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        told(curator, kind, "error")


def test_no_path_is_read_as_a_file_of_questions(curator: sf.Curator, tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text(COUNT)
    _, spec, _ = proposals.decode_act_spec_and_price("workloads", body(act="error", spec={"questions": [str(file)]}))
    with pytest.raises(SfumatoError):
        proposals.propose(curator, "workloads", spec)
    with pytest.raises(InvalidRequest):
        proposals.decode_act_spec_and_price("workloads", body(act="error", spec={"questions": str(file)}))


def test_a_session_refuses_what_it_cannot_compare_before_any_charge(curator: sf.Curator) -> None:
    before = len(list(curator.history()))
    sent = {"threshold": 100, "questions": [COUNT, f"{COUNT} GROUP BY origin"]}
    _, spec, _ = proposals.decode_act_spec_and_price("sessions", body(act="explain", spec=sent))
    with pytest.raises(Unsupported, match="question 2"):
        proposals.propose(curator, "sessions", spec)
    assert len(list(curator.history())) == before


def test_a_session_ends_with_the_last_above_that_was_paid_for(curator: sf.Curator) -> None:
    sent = {"threshold": -(10**6), "questions": [COUNT] * 3, "positives": 2}
    _, spec, price = proposals.decode_kind_spec_and_price(body(kind="sessions", spec=sent, price={"epsilon": "0.1"}))
    found = proposals.propose(curator, "sessions", spec).release(**price)
    assert [bool(each) for each in found] == [True, True]
    assert type(found).from_json(found.to_json()) == found


_WHOLE_KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "questions": ({"sql": "SELECT COUNT(*) AS n FROM visits"}, {"epsilon": "0.1"}),
    "workloads": ({"questions": ["SELECT COUNT(*) AS n FROM visits"]}, {"epsilon": "0.2"}),
    "marginals": ({"table": "visits", "ways": 1}, {"epsilon": "0.1"}),
    "synopses": ({"table": "visits", "columns": ["region"], "ways": 1, "rounds": 1}, {"epsilon": "0.1"}),
    "synthesis": ({"table": "visits", "ways": 1, "columns": ["region"]}, {"epsilon": "0.5"}),
    "sessions": ({"threshold": 10, "questions": ["SELECT COUNT(*) FROM visits"]}, {"epsilon": "0.1"}),
    "bounds": ({"table": "visits", "column": "age"}, {"epsilon": "0.1"}),
    "auctions": ({"table": "visits", "column": "age", "prices": [1, 2]}, {"epsilon": "0.1"}),
    "running": ({"question": "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"}, {"epsilon": "0.1"}),
}


@pytest.mark.parametrize("kind", _WHOLE_KINDS)
def test_every_reading_of_every_kind_is_held_back_by_the_clock(kind: str, tmp_path: Path) -> None:
    """Between a charge and its answer rows decide how long it takes: each kind says when both are."""
    spec, price = _WHOLE_KINDS[kind]
    small = open_server(tmp_path)
    try:
        told: list[str] = []
        proposal = proposals.propose(small.served.curator_for(small.ben, "clinic"), kind, spec)
        proposal.release(**price, progress=told.append)
        lines = [line.kind for line in small.ledger.lines()]
    finally:
        small.close()
    _check_phases(kind, told, lines)


@pytest.mark.parametrize("kind", EDGE_SPECS)
def test_what_is_asked_of_edges_is_explained_priced_bought_and_held_back(kind: str, tmp_path: Path) -> None:
    told: list[str] = []
    with sf.Curator(write_club(tmp_path)) as curator:
        proposal = proposals.propose(curator, kind, EDGE_SPECS[kind])
        assert "at ε = 1" in str(proposal.explain(epsilon=1))
        assert 0 < proposal.price(within=500) < 100
        proposal.release(epsilon="0.1", progress=told.append)
        _check_phases(kind, told, [line.kind for line in curator.ledger.lines()])


@pytest.mark.parametrize("kind", PATIENT_SPECS)
def test_what_is_asked_of_patients_is_explained_priced_bought_and_held_back(kind: str, tmp_path: Path) -> None:
    told: list[str] = []
    rows = pd.DataFrame({"months": [1, 2, 3], "died": [True, False, True]})
    columns = {"months": {"type": "integer", "bounds": [0, 5]}, "died": {"type": "boolean"}}
    tables = {"patients": sf.Table("patients", rows, columns, id="row")}
    policy = sf.Policy(sf.PrivacyUnit("patient", every_row=True), sf.Budget(1), tables)
    with sf.Curator(policy, tmp_path / "ledger") as curator:
        proposal = proposals.propose(curator, kind, PATIENT_SPECS[kind])
        assert "at ε = 1" in str(proposal.explain(epsilon=1))
        assert 0 < proposal.price(within=500) < 100
        proposal.release(epsilon="0.1", progress=told.append)
        _check_phases(kind, told, [line.kind for line in curator.ledger.lines()])


@pytest.mark.parametrize("kind", LINKED_SPECS)
def test_what_is_asked_of_two_tables_is_explained_priced_bought_and_held_back(kind: str, tmp_path: Path) -> None:
    told: list[str] = []
    with sf.Curator(clinic_policy(people(1, 20)), tmp_path / "ledger") as curator:
        sent = body(act="explain", spec=LINKED_SPECS[kind], price={"epsilon": 1})
        _, spec, _ = proposals.decode_act_spec_and_price(kind, sent)
        proposal = proposals.propose(curator, kind, spec)
        assert "at ε = 1" in str(proposal.explain(epsilon=1))
        assert 0 < proposal.price(within=500) < 100
        tables = proposal.release(epsilon="0.5", progress=told.append)
        _check_phases(kind, told, [line.kind for line in curator.ledger.lines()])
    stored = decode_stored_answer(tables.to_json())
    assert stored.receipt.free
    assert wire.decode(json.loads(tables.to_json())).names == tables.names


def _check_phases(kind: str, told: list[str], lines: list[str]) -> None:
    ends = [phase for phase in told if phase in ("charging", "reading", "writing down")]
    assert ends.count("charging") == ends.count("writing down") >= 1
    assert ends.count("writing down") >= sum(each in ("charge", "step") for each in lines) or kind == "workloads"
    for place, phase in enumerate(ends):
        assert phase != "reading" or ends[:place].count("charging") == ends[:place].count("writing down") + 1
