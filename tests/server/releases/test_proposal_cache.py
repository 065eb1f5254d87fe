"""What is kept of a curator between calls: proposals of one user under one policy, and no curator that was replaced."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from server.small_server import COUNT, SmallServer, open_server, questions
from sfumato.curator import Curator
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Overspent, TooManyRequests, Unanswered
from sfumato.server.releases.answer_clock import QuestionRateLimit
from sfumato.server.releases.running_releases import _MAX_CACHED, ProposalCache, ProposalKey, RunningReleases

EPSILON = {"epsilon": "0.1"}
SENT = ProposalKey("ana", "questions", "{}", spends=True, until=None)


def policies(small: SmallServer) -> list[Any]:
    return [small.served.curator(name).policy for name in small.served.names]


def test_a_proposal_is_made_once_for_each_who_sends_it(two_policies: SmallServer) -> None:
    known, made = ProposalCache(), []
    one, other = policies(two_policies)

    def make() -> object:
        made.append(object())
        return made[-1]

    first = known.get_or_make(SENT, one, make)
    assert known.get_or_make(SENT, one, make) is first
    for sent in (SENT._replace(user="ben"), SENT._replace(spends=False), SENT._replace(kind="bounds")):
        assert known.get_or_make(sent, one, make) is not first
    assert known.get_or_make(SENT, other, make) is not first  # the policy was opened again
    assert len(made) == 5


def test_only_so_many_proposals_are_kept(small: SmallServer) -> None:
    known, (policy,) = ProposalCache(), policies(small)
    first = known.get_or_make(SENT, policy, object)
    for number in range(_MAX_CACHED):
        known.get_or_make(SENT._replace(spec=str(number)), policy, object)
    assert known.get_or_make(SENT, policy, object) is not first


def test_a_text_is_understood_once(small: SmallServer, monkeypatch: pytest.MonkeyPatch) -> None:
    understood: list[str] = []
    sql = Curator.sql
    monkeypatch.setattr(Curator, "sql", lambda self, text: understood.append(text) or sql(self, text))
    small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    understood.clear()
    for _ in range(3):
        assert small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "one").free
        small.counter.call_free(small.ana, "clinic", "questions", "columns", COUNT)
    assert len(understood) == 1  # the answer is kept as it was told, and what is free is understood once


def test_nobody_is_given_the_proposal_of_somebody_else(small: SmallServer) -> None:
    """A proposal asks, and is charged, under the name of whoever sent it."""
    for who in (small.ana, small.ben):
        small.counter.call_free(who, "clinic", "questions", "columns", COUNT)
        proposal = small.counter._proposal(who, "clinic", "questions", COUNT, spends=True)
        assert proposal._context.analyst == who.user


def test_a_known_proposal_is_asked_under_the_policy_as_it_is_written(small: SmallServer) -> None:
    before = small.counter.call_free(small.ana, "clinic", "questions", "error", COUNT, EPSILON)
    path = small.folder / "clinic.toml"
    path.write_text(path.read_text().replace("max_rows = 2", "max_rows = 1"))
    after = small.counter.call_free(small.ana, "clinic", "questions", "error", COUNT, EPSILON)
    assert after != before


def test_a_known_proposal_that_may_not_spend_spends_nothing(small: SmallServer) -> None:
    """What looks for a stored answer is kept apart from what buys."""
    token = small.with_token("ana", most="0.15")
    small.counter.release(token, "clinic", "questions", COUNT, EPSILON, "one")
    for number in range(2):
        with pytest.raises(Overspent):
            small.counter.release(token, "clinic", "questions", questions(number), EPSILON, f"more {number}")
        small.counter.call_free(token, "clinic", "questions", "columns", questions(number))
    assert small.charges() == 1


# ── curators that were replaced ──────────────────────────────────────────────────────────────────


def test_a_replaced_curator_is_closed_when_the_last_release_has_ended(
    small: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.freeze()  # what other tests left is not looked through
    closed: list[object] = []
    close, read = DuckDB.close, DuckDB.read
    going, reading = threading.Event(), threading.Event()

    def slow(self: DuckDB, *given: Any) -> Any:
        reading.set()
        assert going.wait(60)
        return read(self, *given)

    monkeypatch.setattr(DuckDB, "close", lambda self: closed.append(id(self)) or close(self))
    old = id(small.served.curator("clinic")._context.engine)
    small.counter.call_free(small.ana, "clinic", "questions", "columns", COUNT)
    monkeypatch.setattr(DuckDB, "read", slow)
    flight = small.counter.start(small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    assert reading.wait(60)
    small.served.reopen(small.owner, "clinic", small.served.last_open_policy("clinic"))
    gc.collect()
    assert old not in closed
    going.set()
    assert not flight.wait_for_result().free
    small.counter.drain(60)
    gc.collect()
    assert closed == [old]
    assert small.counter.progress(small.ana, "clinic", "one").line


def test_what_is_replaced_and_in_use_is_closed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.freeze()  # what other tests left is not looked through
    closed: list[object] = []
    close = DuckDB.close
    monkeypatch.setattr(DuckDB, "close", lambda self: closed.append(id(self)) or close(self))
    small = open_server(tmp_path)
    old = id(small.served.curator("clinic")._context.engine)
    kept = small.served.curator("clinic").sql(COUNT["sql"])
    small.served.reopen(small.owner, "clinic", small.served.last_open_policy("clinic"))
    gc.collect()
    assert kept.error(epsilon=1).columns
    assert old not in closed
    small.close()
    assert old in closed


# ── requests ─────────────────────────────────────────────────────────────────────────────────────

WORKLOAD = {"questions": [COUNT["sql"], questions(3)["sql"]]}
BOUGHT = {
    "questions": (COUNT, EPSILON),
    "fresh questions": (COUNT, {**EPSILON, "fresh": True}),
    "workloads": (WORKLOAD, EPSILON),
    "fresh workloads": (WORKLOAD, {**EPSILON, "fresh": True}),
}


@pytest.mark.parametrize("name", BOUGHT)
def test_a_crash_before_the_answer_is_noted_charges_nobody_again(
    name: str, small: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is in the ledger, and the people file knows nothing of it."""
    (spec, price), kind = BOUGHT[name], name.rpartition(" ")[2]
    end = RunningReleases.finish
    with monkeypatch.context() as dying:
        dying.setattr(RunningReleases, "finish", lambda self, request, _, late: end(self, request, None, late))
        first = small.counter.release(small.ana, "clinic", kind, spec, price, "one")
    assert not first.free
    lines = [line.number for line in small.ledger.lines() if line.kind in ("charge", "tab-open")]
    other = small.again()
    again = other.counter.release(other.ana, "clinic", kind, spec, price, "one")
    assert again.free
    assert str(again.answer.to_json())[:60] == str(first.answer.to_json())[:60]
    assert lines == [line.number for line in small.ledger.lines() if line.kind in ("charge", "tab-open")]
    assert other.counter.answer_on_line(other.ana, "clinic", again.line).free
    other.close()


def test_a_request_that_was_charged_and_stopped_is_not_charged_again(
    small: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(DuckDB, "read", failing)
        with pytest.raises(Unanswered):
            small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    with pytest.raises(Unanswered):
        small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    assert small.charges() == 1
    assert not small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "two").free


# ── rehearsals ───────────────────────────────────────────────────────────────────────────────────


def test_a_rehearsal_counts_as_several_free_questions(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=6)
    small.counter._rate_limit = QuestionRateLimit(6, now=lambda: 0.0)
    small.counter.call_free(small.ana, "clinic", "questions", "preview", COUNT, {"epsilon": 1})
    small.counter.call_free(small.ana, "clinic", "questions", "columns", COUNT)
    with pytest.raises(TooManyRequests):
        small.counter.call_free(small.ana, "clinic", "questions", "preview", COUNT, {"epsilon": 1})
    small.close()


def test_rehearsals_share_rows_and_no_account(small: SmallServer) -> None:
    price = {"epsilon": 2}
    found = [
        small.counter.call_free(small.ana, "clinic", "questions", "preview", COUNT, price).receipt for _ in range(3)
    ]  # of ε = 3
    assert not any(each.free for each in found)
