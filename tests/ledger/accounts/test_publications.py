"""Published answers are listed whole, by whoever opened the ledger first, and each line is read once."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.errors import LedgerDamaged
from sfumato.ledger import Publication, entries


def publish(clinic: sf.Account, plan: str, data: str = "d", body: str = "1") -> int:
    line = clinic.charge(pure("0.001", plan=plan, data=data))
    return clinic.answer(line, body, {"worst": 5}).number


def listed(clinic: sf.Account, data: str = "d") -> list[int]:
    return [each.number for each in clinic.published("shelf-", data=data)]


def test_every_one_is_listed_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that another opening of the ledger wrote meanwhile, and none of other shelves, data or accounts."""
    monkeypatch.setattr(entries, "_PAGE", 2)
    with sf.Ledger.open(tmp_path / "l.db") as ledger, sf.Ledger.open(tmp_path / "l.db") as other:
        clinic, writer = account(ledger), account(other)
        assert listed(clinic) == []
        numbers = [publish(clinic, f"shelf-{each}") for each in range(5)]
        publish(clinic, "shelf", "d")
        publish(clinic, "shelf-1", "other data")
        publish(clinic, "shelg-1")
        publish(account(ledger, name="other"), "shelf-1")
        assert listed(clinic) == numbers
        numbers += [publish(writer, f"shelf-{each}") for each in range(3)]
        assert listed(clinic) == numbers == listed(writer)


def test_a_line_is_described_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described, own = [], Publication.from_row.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Publication, "from_row", classmethod(lambda cls, row: described.append(row.number) or own(cls, row))
    )
    with sf.Ledger.open(tmp_path / "l.db") as ledger:
        clinic = account(ledger)
        first = publish(clinic, "shelf-1")
        for _ in range(2):
            assert listed(clinic) == [first] == described
        second = publish(clinic, "shelf-1")
        assert listed(clinic) == [first, second] == described


def test_the_body_is_read_on_demand_and_only_of_the_line_that_was_listed(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "l.db") as ledger:
        clinic = account(ledger)
        publish(clinic, "shelf-1", body="a body")
        (found,) = clinic.published("shelf-", data="d")
        assert clinic.read_published(found).body == "a body"
        changed = Publication(found.number, "0" * 64, found.plan, found.accuracy)
        for lost in (changed, Publication(found.number + 7, found.hash, found.plan, found.accuracy)):
            with pytest.raises(LedgerDamaged, match="it differs from the line that was read before"):
                clinic.read_published(lost)


def test_lines_that_a_failover_took_are_not_listed(tmp_path: Path) -> None:
    """What is known of the ledger before is put beside one that has another line in its place."""
    with sf.Ledger.open(tmp_path / "l.db") as ledger, sf.Ledger.open(tmp_path / "m.db") as other:
        first, second = account(ledger), account(other)
        publish(first, "shelf-1")
        assert len(listed(first)) == 1
        other._guarded.shelves = ledger._guarded.shelves
        known = next(iter(ledger._guarded.shelves._shelves))
        kept = ledger._guarded.shelves._shelves[known]
        here = second._guarded.hash_data_version("d")
        ledger._guarded.shelves._shelves[known[0], here, known[2]] = kept
        number = publish(second, "another shelf")
        assert number == kept.last_number
        assert listed(second) == []


def test_the_shelf_that_was_read_longest_ago_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are kept: a third one leaves the second and forgets the first, whose lines are then read once more."""
    monkeypatch.setattr(entries, "_MAX_SHELVES", 2)
    described, own = [], Publication.from_row.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Publication, "from_row", classmethod(lambda cls, row: described.append(row.plan) or own(cls, row))
    )
    with sf.Ledger.open(tmp_path / "l.db") as ledger:
        clinic = account(ledger)
        for shelf in "abc":
            publish(clinic, shelf)
        for shelf in "abacbcab":
            assert len(clinic.published(shelf, data="d")) == 1
        assert "".join(described) == "abcbab"
        assert len(ledger._guarded.shelves._shelves) == 2
