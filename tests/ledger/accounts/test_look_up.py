"""One look before a release, one charge, one answer: what was looked up early decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.ledger.accounts.account import AnswerLookup
from sfumato.ledger.stores.sqlite import SQLiteStore

WIDTHS = {"n": 5}


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[tuple[sf.Ledger, sf.Ledger]]:
    """One ledger, opened twice, as two processes do."""
    with sf.Ledger.open(tmp_path / "ledger.db") as first:
        account(first)
        with sf.Ledger.open(tmp_path / "ledger.db") as second:
            yield first, second


def question(epsilon: str = "0.1", **rest: Any) -> sf.Entry:
    return pure(epsilon, **{"question": "how many?", "plan": "p", "data": "v", "analyst": "ana", **rest})


def look_up(clinic: sf.Account, **rest: Any) -> AnswerLookup:
    return clinic.look_up(WIDTHS, **{"plan": "p", "data": "v", "question": "how many?", "analyst": "ana", **rest})


def buy(clinic: sf.Account, body: str, width: int = 5, **rest: Any) -> sf.Line:
    return clinic.answer(clinic.charge(question(**rest)), body, {"n": width})


def test_a_look_shows_the_newest_answer_that_is_good_enough_and_the_account(
    ledgers: tuple[sf.Ledger, sf.Ledger],
) -> None:
    clinic = ledgers[0].account("clinic")
    clinic.analyst("ana", share="0.5")
    assert look_up(clinic).answer is None
    good = buy(clinic, "good")
    for turn in range(25):  # more than a page of answers that are not accurate enough
        buy(clinic, f"rough {turn}", 9, epsilon="0.001")
    found = look_up(clinic)
    assert found.answer is not None
    assert (found.answer.body, found.answer.number) == ("good", good.number)
    assert found.last_line == ledgers[0].head[0]
    assert found.statement == clinic.statement("ana")
    assert found.statement.analyst_budget is not None
    assert found.statement.analyst_budget.remaining == {"pure": Fraction("0.375")}
    assert look_up(clinic, fresh=True).answer is None
    assert look_up(clinic, plan="q").answer is None


def test_the_query_that_is_not_the_newest_version_is_the_next_best(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    """An answer to it is looked for where the current one has none that is good enough, and only there."""
    clinic = ledgers[0].account("clinic")
    buy(clinic, "former", plan="old")
    buy(clinic, "rough", 9)
    for _ in range(2):
        found = look_up(clinic, former_plan="old").answer
        assert found is not None
        assert found.body == "former"
        stored = clinic.stored(plan="p", data="v", accuracy=WIDTHS, former_plan="old")
        assert stored is not None
        assert stored.body == "former"
    buy(clinic, "current")
    found = look_up(clinic, former_plan="old").answer
    assert found is not None
    assert found.body == "current"


def test_an_earlier_answer_that_is_good_enough_comes_before_one_to_the_former_query(
    ledgers: tuple[sf.Ledger, sf.Ledger],
) -> None:
    clinic = ledgers[0].account("clinic")
    buy(clinic, "current")
    buy(clinic, "former", plan="old")
    buy(clinic, "rough", 9)
    found = look_up(clinic, former_plan="old").answer
    assert found is not None
    assert found.body == "current"


@pytest.mark.parametrize("name", ["analyst", "request_id"])
def test_a_name_that_cannot_be_written_is_refused_before_a_look(
    ledgers: tuple[sf.Ledger, sf.Ledger], name: str
) -> None:
    clinic = ledgers[0].account("clinic")
    for wrong in ("", "a\nb", "x" * 10**5):
        with pytest.raises(sf.InvalidParameter) as refused:
            look_up(clinic, **{name: wrong})
        assert refused.value.parameter == name
    assert look_up(clinic, **{name: None}).answer is None


def test_a_request_is_found_whatever_was_bought_since(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    clinic = ledgers[0].account("clinic")
    buy(clinic, "first", request_id="r")
    buy(clinic, "second")
    for fresh in (False, True):
        found = look_up(clinic, request_id="r", fresh=fresh).answer
        assert found is not None
        assert found.body == "first"
    with pytest.raises(sf.RequestDiffers):
        look_up(clinic, request_id="r", plan="another")


def test_an_answer_bought_after_the_look_is_not_paid_twice(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    here, elsewhere = (ledger.account("clinic") for ledger in ledgers)
    searched = look_up(here).last_line
    buy(elsewhere, "bought meanwhile")
    found = here.ask(question(), WIDTHS, searched=searched).begin()
    assert found is not None
    assert found.body == "bought meanwhile"
    assert here.spent["pure"] == Fraction("0.1")


def test_an_answer_on_the_very_next_line_is_not_paid_twice(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    """It was charged before the look, and answered by the first line after it."""
    here, elsewhere = (ledger.account("clinic") for ledger in ledgers)
    charge = elsewhere.charge(question())
    searched = look_up(here).last_line
    answer = elsewhere.answer(charge, "answered meanwhile", WIDTHS)
    assert (charge.number, answer.number) == (searched, searched + 1)
    found = here.ask(question(), WIDTHS, searched=searched).begin()
    assert found is not None
    assert found.body == "answered meanwhile"
    assert here.spent["pure"] == Fraction("0.1")


def test_an_answer_after_the_last_line_that_counts_is_not_reused(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    here, elsewhere = (ledger.account("clinic") for ledger in ledgers)
    here.until = look_up(here).last_line
    buy(elsewhere, "bought later")
    assert look_up(here).answer is None
    assert here.ask(question(), WIDTHS, searched=here.until).begin() is None


def before_writing(monkeypatch: pytest.MonkeyPatch, store: object, act: Callable[[], object]) -> None:
    """Act once, the moment before this store begins to write."""
    original = SQLiteStore.writing
    waiting = [act]

    def writing(self: SQLiteStore, *arguments: Any, **named: Any) -> Any:
        if self is store and waiting:
            waiting.pop()()
        return original(self, *arguments, **named)

    monkeypatch.setattr(SQLiteStore, "writing", writing)


@pytest.mark.parametrize("way", ["charge", "ask"])
def test_what_decides_is_read_in_the_transaction_that_charges(
    ledgers: tuple[sf.Ledger, sf.Ledger], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Another process spends what is left after every look, and before the charge begins."""
    here, elsewhere = (ledger.account("clinic") for ledger in ledgers)
    searched = look_up(here).last_line
    before_writing(monkeypatch, here._guarded.store, lambda: elsewhere.charge(pure("0.95")))
    entry = question()
    with pytest.raises(sf.Overspent):
        here.charge(entry) if way == "charge" else here.ask(entry, WIDTHS, searched=searched).begin()
    assert here.spent["pure"] == Fraction("0.95")


def test_an_answer_is_recorded_with_the_account_after_it(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    here, elsewhere = (ledger.account("clinic") for ledger in ledgers)
    here.analyst("ana", share="0.5")
    line = here.charge(question())
    elsewhere.charge(pure("0.2"))
    recorded = here.record_answer(line, "7", WIDTHS)
    assert recorded.line.about == line.number
    assert recorded.statement == here.statement("ana")
    assert recorded.statement.budget.remaining == {"pure": Fraction("0.7")}


def test_the_history_of_epsilon_follows_amendments(ledgers: tuple[sf.Ledger, sf.Ledger]) -> None:
    here, elsewhere = (ledger.account("clinic") for ledger in ledgers)
    assert look_up(here).statement.epsilons == (1,)
    elsewhere.amend(epsilon=2, reason="agreed")
    elsewhere.analyst("ana", share="0.25")
    found = look_up(here).statement
    assert found.epsilons == (1, 2)
    assert found.analyst_budget is not None
    assert found.analyst_budget.remaining == {"pure": Fraction("0.5")}
    elsewhere.analyst("ana", share="0.75")
    assert look_up(here).statement.analyst_budget.remaining == {"pure": Fraction("1.5")}  # type: ignore[union-attr]
