"""A batch is paid with one tab, and each of its answers is stored under its own question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.ledger import Entry, StoredAnswer, Tab
from sfumato.release.payers import BatchPayer, BatchQuestion

QUESTIONS = (BatchQuestion("how many", "plan-1", {"n": 3}), BatchQuestion("how old", "plan-2", {"m": 5}))


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sf.Account]:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        yield account(ledger)


def paying(clinic: sf.Account, opened: list[Entry], *, more: bool = False) -> BatchPayer:
    def opening(entry: Entry) -> Tab:
        opened.append(entry)
        return clinic.open_tab(entry, whole=True)

    payer = BatchPayer(opening, QUESTIONS, lambda body: body.split("|"), more=more)
    assert payer.ask(pure("0.3", plan="batch", data="v1", question="both"), {}) is payer
    return payer


def test_all_are_charged_at_once_and_found_alone(clinic: sf.Account) -> None:
    opened: list[Entry] = []
    payer = paying(clinic, opened)
    assert not payer.is_charged()
    with pytest.raises(RuntimeError):
        payer.line  # noqa: B018
    assert payer.begin() is None
    (entry,) = opened
    assert (entry.plan, entry.data, entry.question) == ("", "", "both")  # never found as an answer itself
    assert payer.is_charged()
    assert payer.line.kind == "tab-open"
    line = payer.line
    assert payer.answer(line, "a|b", {}) is line
    assert [(each.plan, each.body) for each in payer.lines] == [("plan-1", "a"), ("plan-2", "b")]
    assert float(clinic.spent["pure"]) == 0.3
    assert not clinic.open_tabs()
    for question, body in zip(QUESTIONS, "ab", strict=True):
        stored = clinic.ask(pure("0.1", plan=question.plan, data="v1"), question.accuracy).begin()
        assert stored is not None
        assert stored.body == body


def test_a_tab_stays_open_for_what_follows_from_all_answers(clinic: sf.Account) -> None:
    payer = paying(clinic, [], more=True)
    payer.begin()
    payer.answer(payer.line, "a|b", {})
    assert len(clinic.open_tabs()) == 1
    payer.stop()
    assert not clinic.open_tabs()
    assert float(clinic.spent["pure"]) == pytest.approx(0.3)


def test_what_was_bought_before_is_not_charged_again(clinic: sf.Account) -> None:
    line = clinic.charge(pure("0.1", plan="p", data="v1"))
    clinic.answer(line, "a|b", {})
    stored = clinic.ask(pure("0.1", plan="p", data="v1"), {}).begin()
    assert isinstance(stored, StoredAnswer)
    payer = BatchPayer(lambda _: stored, QUESTIONS, lambda body: body.split("|"))
    payer.ask(pure("0.3"), {})
    assert payer.begin() is stored is payer.stored_answer
    assert not payer.is_charged()
    payer.stop()
    assert float(clinic.spent["pure"]) == pytest.approx(0.1)
