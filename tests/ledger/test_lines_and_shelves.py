"""Lines as JSON, shelves of publications and requests under way, with a store that is a list."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.errors import ApprovalNeeded, InvalidParameter, RequestDiffers
from sfumato.ledger import entries
from sfumato.ledger.accounts.approvals import AccountRequests, RequestState
from sfumato.ledger.accounts.pending_queries import PendingQuery


def written_line(tmp_path: Any) -> str:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        account(ledger).charge(pure())
        return list(ledger)[-1].to_json()


def test_a_line_may_be_as_long_as_two_bodies(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written_line(tmp_path)
    text += " " * (len(text) % 2)
    monkeypatch.setattr(entries, "MAX_BODY_LENGTH", len(text) // 2)
    assert json.loads(entries.Line.from_json(text).to_json()) == json.loads(text)
    monkeypatch.setattr(entries, "MAX_BODY_LENGTH", len(text) // 2 - 1)
    with pytest.raises(InvalidParameter):
        entries.Line.from_json(text)


def test_a_line_without_exactly_its_parts_is_refused(tmp_path: Any) -> None:
    text = written_line(tmp_path)
    changes: Any = (list, lambda named: named | {"other": 1}, lambda named: dict([*named.items()][1:]))
    for change in changes:
        value = json.loads(text)
        holder = value.get("value", value)
        holder["named"] = change(holder["named"])
        with pytest.raises(InvalidParameter) as refusal:
            entries.Line.from_json(json.dumps(value))
        assert refusal.value.parameter == "named"


class Shelf:
    """A transaction over a list of published lines."""

    def __init__(self, count: int) -> None:
        numbers = range(2, 3 * count + 2, 3)
        self.rows = [SimpleNamespace(number=number, hash="h", plan="p", detail="{}") for number in numbers]
        self.head: Any = SimpleNamespace(number=3 * count + 1, hash="head")
        self.reads: list[int] = []

    def answers_with_plan_prefix(self, equal: Any, plan: str, *, after: int, limit: int) -> list[Any]:
        assert (equal, plan) == ({"kind": "answer"}, "p")
        self.reads.append(after)
        assert len(self.reads) < 9, "it reads for ever"
        return [row for row in self.rows if row.number > after][:limit]


@pytest.mark.parametrize(("count", "reads"), [(0, 1), (1, 1), (4, 1), (5, 2), (8, 2), (10, 3), (12, 3)])
def test_a_shelf_is_read_in_pages_and_then_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch, count: int, reads: int
) -> None:
    monkeypatch.setattr(entries, "_PAGE", 5)
    transaction: Any = Shelf(count)
    shelf = entries._CachedPublications().extended(transaction, {"kind": "answer"}, "p")
    assert [publication.number for publication in shelf.publications] == [row.number for row in transaction.rows]
    assert transaction.reads == [0, *(transaction.rows[5 * page - 1].number for page in range(1, count // 5 + 1))]
    assert len(transaction.reads) == reads
    assert (shelf.last_number, shelf.last_hash) == (transaction.head.number, "head")
    assert shelf.extended(transaction, {"kind": "answer"}, "p") is shelf
    assert len(transaction.reads) == reads
    transaction.rows.append(SimpleNamespace(number=3 * count + 2, hash="new", plan="p", detail="{}"))
    transaction.head = SimpleNamespace(number=3 * count + 2, hash="new")
    later = shelf.extended(transaction, {"kind": "answer"}, "p")
    assert [publication.number for publication in later.publications] == [row.number for row in transaction.rows]
    transaction.head = SimpleNamespace(number=3 * count + 2, hash="another history")
    assert later.extended(transaction, {"kind": "answer"}, "p") is not later


def test_an_empty_ledger_has_empty_shelves() -> None:
    transaction: Any = Shelf(0)
    transaction.head = None
    shelf = entries._CachedPublications()
    assert shelf.extended(transaction, {"kind": "answer"}, "p") is shelf
    assert transaction.reads == []


class Charges:
    def __init__(self, plans: list[str]) -> None:
        self.pending = [SimpleNamespace(number=number) for number in range(len(plans))]
        self.plans, self.where = plans, None

    def pending_charges(self, where: Any) -> list[Any]:
        self.where = where
        return self.pending

    def line(self, number: int) -> Any:
        return SimpleNamespace(plan=self.plans[number], question="q")


def pending_query(request: str | None) -> Any:
    query: Any = object.__new__(PendingQuery)
    query._columns, query._account = {"request": request, "analyst": "ann"}, "clinic"
    query._entry, query._plans = SimpleNamespace(question="q"), ("p", "former")
    return query


def test_the_latest_charge_of_a_request_is_joined() -> None:
    for plans in (["p"], ["p", "former"], ["p", "p", "former"], ["p"] * 4):
        charges = Charges(plans)
        assert pending_query("r1")._pending_same_request(charges) is charges.pending[-1]
        assert charges.where == {"account": "clinic", "analyst": "ann", "request": "r1"}
        assert pending_query(None)._pending_same_request(charges) is None
    assert pending_query("r1")._pending_same_request(Charges([])) is None
    with pytest.raises(RequestDiffers):
        pending_query("r1")._pending_same_request(Charges(["p", "other", "p"]))


@pytest.mark.parametrize("state", [None, *RequestState])
def test_a_condition_is_refused_early_unless_the_request_was_released(state: Any) -> None:
    guarded: Any = SimpleNamespace(reading=lambda: nullcontext("transaction"))
    asked: list[Any] = []

    def require(*arguments: Any) -> None:
        asked.append(arguments)
        if state is not None:
            refusal = ApprovalNeeded("wait", place="rules", fix="wait")
            refusal.state = state.value
            raise refusal

    condition: Any = SimpleNamespace(require=require)
    charge: Any = "charge"
    requests = AccountRequests(guarded, "clinic")
    if state in (None, RequestState.RELEASED):
        requests.require_condition_met(condition, charge, None)
    else:
        with pytest.raises(ApprovalNeeded):
            requests.require_condition_met(condition, charge, None)
    assert asked == [("transaction", "charge", None)]
