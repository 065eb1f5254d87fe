"""A guarded store of which nothing may be written: a moved ledger; and what a process keeps of a shared one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.errors import LedgerUnavailable, WeakLedger
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
        kept = ledger._guarded._running_place
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
    with pytest.warns(WeakLedger, match="could not save an anchor"):
        clinic.charge(pure("0.1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clinic.charge(pure("0.1"))
    assert [line.kind for line in ledger].count("charge") == 2
