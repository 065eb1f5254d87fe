"""A guarded store of which nothing may be written: a moved ledger; and what a process keeps of a shared one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.errors import LedgerUnavailable, WeakLedger
from sfumato.ledger.accounts.approvals import ApprovalCondition
from sfumato.ledger.accounts.pending_queries import PendingQuery
from sfumato.ledger.approval_requests import GrantedShare, RequestState
from sfumato.ledger.stores.sqlite import SQLiteStore


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sf.Ledger]:
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def test_a_moved_ledger_charges_nothing_more(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.charge(pure("0.1"))
    with ledger._guarded.writing(moving="/new") as transaction:
        transaction.append("moved", "clinic", {"detail": json.dumps({"moved": "/new"})})
    before = [line.hash for line in ledger]
    for spend in (
        lambda: clinic.charge(pure("0.1")),
        lambda: clinic.open_tab(pure("0.1")),
        lambda: clinic.ask(pure("0.1"), {}).begin(),
        lambda: clinic.correct(sf.Curve.pure("0.1"), reason="found later"),
    ):
        with pytest.raises(LedgerUnavailable, match="was moved to /new"):
            spend()
    with pytest.raises(LedgerUnavailable), ledger._guarded.writing(moving="/other"):
        pass
    with ledger._guarded.writing(moving="/new"):  # who finishes moving it there may go on
        pass
    assert [line.hash for line in ledger] == before


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others write the ledger too, as one in a database."""
    monkeypatch.setattr(SQLiteStore, "shared", True)


@pytest.mark.usefixtures("shared")
def test_what_a_process_charged_to_a_shared_ledger_is_in_a_file_until_it_is_closed(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger)
        line = clinic.charge(pure("0.1"))
        kept = ledger._guarded._process_anchor_path
        assert line.hash in kept.read_text(encoding="utf-8")
        assert ledger._guarded.memory.last == (line.number, line.hash)
    assert not kept.exists()


@pytest.mark.usefixtures("shared")
def test_a_file_that_cannot_be_written_is_told_once_and_fails_no_charge(
    ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic = account(ledger)

    def full(*_: Any) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(type(ledger._guarded.memory), "save", full)
    with pytest.warns(WeakLedger, match="could not write its anchor file"):
        clinic.charge(pure("0.1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clinic.charge(pure("0.1"))
    assert [line.kind for line in ledger].count("charge") == 2


@pytest.mark.usefixtures("shared")
def test_a_shared_ledger_that_has_lost_the_line_of_its_move_is_not_charged(ledger: sf.Ledger) -> None:
    account(ledger).charge(pure("0.1"))
    guarded, kept = ledger._guarded, ledger.anchor()
    place = guarded.store.anchor_paths[0]
    lost = replace(kept, hash="0" * 64)
    for anchor, refused in (
        (kept, False),
        (replace(kept, moved="/new"), False),
        (lost, False),
        (replace(lost, moved="/new"), True),
    ):
        anchor.save(place)
        with guarded.reading() as transaction:
            if refused:
                with pytest.raises(LedgerUnavailable, match="was moved to /new and has lost the line"):
                    guarded.require_sealed(transaction)
            else:
                guarded.require_sealed(transaction)


def test_a_file_of_ones_own_is_never_the_old_one_of_a_move(ledger: sf.Ledger) -> None:
    account(ledger).charge(pure("0.1"))
    replace(ledger.anchor(), hash="0" * 64, moved="/new").save(ledger._guarded.store.anchor_paths[0])
    with ledger._guarded.reading() as transaction:
        ledger._guarded.require_sealed(transaction)


def test_anchors_that_are_known(tmp_path: Path) -> None:
    """The given one, or those of the opening; and that of lines this process wrote, where the ledger has lost them."""
    with sf.Ledger.open(tmp_path / "l.db") as ledger, sf.Ledger.open(tmp_path / "m.db") as other:
        clinic = account(ledger)
        clinic.charge(pure("0.1"))
        guarded, given = ledger._guarded, ledger.anchor()
        guarded.anchors = (replace(given, moved="here"),)
        assert guarded.anchors_to_check(None) == guarded.anchors
        assert guarded.anchors_to_check(given) == (given,)
        own = guarded.memory.anchor
        assert own is not None
        account(other, name="another")
        other._guarded.memory = guarded.memory  # what was written elsewhere is lost here
        assert other._guarded.anchors_to_check(None) == (*other._guarded.anchors, own)
        assert other._guarded.anchors_to_check(given) == (given, own)
        with other._guarded.reading() as transaction:
            assert other._guarded.find_missing_line(transaction) == own.number
        with guarded.reading() as transaction:
            assert guarded.find_missing_line(transaction) is None
            guarded.anchors = (replace(given, hash="0" * 64, marks=()),)
            assert guarded.find_missing_line(transaction) == given.number


def test_an_answer_of_more_than_64_kib_is_in_a_file(ledger: sf.Ledger) -> None:
    guarded, most = ledger._guarded, 1 << 16
    assert guarded.store_body("x" * most) == {"body": "x" * most}
    assert guarded.store_body("ü" * (most // 2)) == {"body": "ü" * (most // 2)}
    for large in ("x" * (most + 1), "ü" * (most // 2) + "x"):
        (name,) = guarded.store_body(large).values()
        assert guarded.store.bodies.read(name) == large
        assert guarded.store_body(large) == {"file": name}


def test_every_epsilon_of_an_account_is_told_in_order(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(1))
    clinic.charge(pure("0.1"))
    guarded = ledger._guarded
    for epsilon in (1, 3, 2):
        clinic.amend(epsilon=epsilon, reason="a new study")
        clinic.charge(pure("0.1"))
    account(ledger, sf.Budget(7), "other")
    with guarded.reading() as transaction:
        assert guarded.epsilon_history(transaction, "clinic") == (1, 3, 2)
        assert guarded.epsilon_history(transaction, "other") == (7,)
        assert guarded.terms_in_force(transaction, "clinic").budget.epsilon == 2


def test_what_is_written_is_watched_and_what_stopped_is_told(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    line = clinic.charge(pure("0.1"))
    guarded = ledger._guarded
    guarded.unrecorded_stops[line.number] = line.hash
    guarded.unrecorded_stops[line.number + 50] = "0" * 64
    assert {line.number, line.number + 50} <= {*guarded._watched_lines()}
    clinic.charge(pure("0.1"))
    assert [each.about for each in ledger if each.kind == "stopped"] == [line.number]
    assert [*guarded.unrecorded_stops] == [line.number + 50]
    assert guarded.wrote


def test_a_data_version_is_written_under_a_key_and_an_empty_one_is_not(ledger: sf.Ledger) -> None:
    guarded = ledger._guarded
    assert guarded.hash_data_version("") == ""
    assert (
        guarded.hash_data_version("v1")
        == guarded.hash_data_version("v1")
        == guarded.columns_to_write(pure("0.1", data="v1"))["data"]
    )
    assert guarded.hash_data_version("v1") != guarded.hash_data_version("v2")
    assert "v1" not in guarded.hash_data_version("v1")


def test_a_query_is_charged_once_its_line_may_be_stored() -> None:
    for charge, on_disk, charged in ((None, True, False), ("row", False, False), ("row", True, True)):
        guarded = SimpleNamespace(may_be_on_disk=lambda row, on_disk=on_disk: row == "row" and on_disk)
        query: Any = SimpleNamespace(_charge=charge, _guarded=guarded)
        assert PendingQuery.is_charged(query) is charged


def test_an_approved_share_covers_what_it_names_and_no_amount_without_a_bound() -> None:
    share = GrantedShare("ana", Fraction(1), "p", 1, 10**9, kinds=("count",), tables=("t", "u"))
    record: Any = SimpleNamespace(subject=share, used=Fraction(1, 4), state=lambda now: states[now])
    states = (RequestState.APPROVED, RequestState.EXPIRED)
    asked = {"requester": "ana", "policy": "p", "kind": "count", "tables": ("t",), "measures": None}

    def covers(epsilon: Any, now: int = 0, **changes: Any) -> bool:
        return ApprovalCondition._covers_charge(SimpleNamespace(**(asked | changes)), record, epsilon, now)  # type: ignore[arg-type]

    assert covers(Fraction(3, 4))
    assert covers(Fraction(3, 4), measures=("n",), tables=("u", "t"))
    assert not covers(Fraction(3, 4) + Fraction(1, 10**30))
    assert covers(None) is False
    for changes in ({"requester": "ben"}, {"policy": "q"}, {"kind": "sum"}, {"tables": ("t", "v")}, {"tables": None}):
        assert not covers(Fraction(0), **changes)
    assert not covers(Fraction(0), now=1)
    record.subject = GrantedShare("ana", Fraction(1), "p", 1, 10**9)  # of all kinds, tables and measures
    assert covers(Fraction(3, 4), kind="sum", tables=None)
