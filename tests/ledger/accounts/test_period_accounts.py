"""One account for each period: charged together or not at all, opened with the same budget, never mixed up."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import log
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import pure
from ledger.test_races import in_processes
from sfumato.errors import WeakLedger
from sfumato.ledger import PeriodAccounts
from sfumato.ledger.accounts.period_accounts import _max_totals
from sfumato.ledger.proofs.verification_runs import verify_part
from sfumato.privacy import Cost
from sfumato.privacy.numbers import UNIT

MONTH = sf.PrivacyUnit("patient", period="month", period_column="day")
SPRING = ("2024-03", "2024-04", "2024-05")


def opened(ledger: sf.Ledger, budget: sf.Budget | None = None, name: str = "clinic") -> PeriodAccounts:
    found = ledger.account(name, unit=MONTH, budget=budget or sf.Budget(1), per="month")
    assert isinstance(found, PeriodAccounts)
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sf.Ledger]:
    with sf.Ledger.open(tmp_path / "small.ledger") as opened_ledger:
        yield opened_ledger


def spent(clinic: PeriodAccounts) -> dict[str, Fraction]:
    return {each: clinic.for_periods((each,)).spent["pure"] for each in clinic.opened}  # type: ignore[misc]


def test_every_period_that_is_read_pays_the_whole_price(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    line = clinic.for_periods(SPRING).charge(pure("0.3"))
    clinic.for_periods(SPRING[:1]).charge(pure("0.2"))
    assert spent(clinic) == {"2024-03": Fraction(1, 2), "2024-04": Fraction(3, 10), "2024-05": Fraction(3, 10)}
    assert (line.account, line.kind) == ("clinic", "charge")
    first = ["account-open", "charge", *["account-open", "period"] * 3]
    assert [each.kind for each in ledger] == [*first, "charge", "period"]
    assert ledger.verify().holds
    assert clinic.budget.remaining == {"pure": 1}  # a period that nobody asked about
    assert clinic.for_periods(("2024-04", "2024-03")).budget.remaining == {"pure": Fraction(1, 2)}  # the fullest


def test_a_charge_is_made_in_all_periods_or_in_none(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    clinic.for_periods(("2024-04",)).charge(pure("0.8"))
    before = [line.hash for line in ledger]
    with pytest.raises(sf.Overspent, match="the account of 2024-04"):
        clinic.for_periods(SPRING).charge(pure("0.3"))
    with pytest.raises(sf.Overspent, match=r"ε = 0\.2"):
        clinic.for_periods(SPRING).ask(pure("0.3", plan="p", data="d"), {}).begin()
    assert [line.hash for line in ledger] == before
    assert clinic.opened == ("2024-04",)
    clinic.for_periods(("2024-03", "2024-05")).charge(pure("1"))
    assert ledger.verify().holds


def test_without_periods_nothing_is_charged(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    for call in (lambda: clinic.charge(pure()), lambda: clinic.ask(pure(), {}), lambda: clinic.open_tab(pure())):
        with pytest.raises(sf.Unsupported):
            call()
    with pytest.raises(sf.Unsupported, match="needs the account of a single period"):
        clinic.for_periods(SPRING).correct(sf.Curve.pure(1), reason="found later")
    with pytest.raises(sf.InvalidParameter):
        clinic.for_periods(())
    ledger.account("clinic 2024-03", unit=MONTH, budget=sf.Budget(1))
    with pytest.raises(sf.AccountDiffers, match="needs this name for one of its periods"):
        clinic.for_periods(SPRING).charge(pure())
    assert [line.kind for line in ledger] == ["account-open", "account-open"]


def test_the_period_is_fixed_for_life(ledger: sf.Ledger) -> None:
    opened(ledger).for_periods(SPRING).charge(pure())
    for per in ("", "year"):
        with pytest.raises(sf.AccountDiffers, match="one budget for each month"):
            ledger.account("clinic", unit=MONTH, budget=sf.Budget(1), per=per)
    with pytest.raises(sf.AccountDiffers, match="one period of 'clinic'"):
        ledger.account("clinic 2024-03", unit=MONTH, budget=sf.Budget(1))
    ledger.account("other", unit=MONTH, budget=sf.Budget(1))
    with pytest.raises(sf.AccountDiffers, match="one budget for all"):
        ledger.account("other", unit=MONTH, budget=sf.Budget(1), per="month")
    assert ledger.account("clinic 2024-03").spent["pure"] == Fraction(1, 10)


def test_a_share_is_a_part_of_every_period(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    clinic.analyst("ana", share="0.5")
    clinic.for_periods(SPRING[:1]).charge(pure("0.4", analyst="ana"))
    clinic.for_periods(SPRING[:1]).charge(pure("0.3"))
    with pytest.raises(sf.Overspent, match="the analyst's share of 2024-03"):
        clinic.for_periods(SPRING).charge(pure("0.2", analyst="ana"))
    clinic.for_periods(SPRING[1:]).charge(pure("0.5", analyst="ana"))
    assert clinic.for_periods(SPRING).analyst("ana").budget.remaining == {"pure": 0}
    assert clinic.for_periods(SPRING[:1]).analyst("ana").budget.remaining == {"pure": Fraction(1, 10)}
    assert [each.remaining["pure"] for each in clinic.for_periods(SPRING[:1]).budgets("ana")] == [
        Fraction(3, 10),
        Fraction(1, 10),
    ]
    assert clinic.analyst("ana").budget.remaining == {"pure": Fraction(1, 2)}
    assert ledger.verify().holds


def test_an_analyst_without_a_share_may_spend_all_of_a_new_period(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    clinic.for_periods(SPRING).charge(pure("0.3", analyst="ana"))
    assert clinic.analyst("ana").budget.remaining == {"pure": 1}
    clinic.analyst("ana", share="0.5")
    assert clinic.analyst("ana").budget.remaining == {"pure": Fraction(1, 2)}


def test_a_budget_is_amended_in_all_periods_or_in_none(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    clinic.for_periods(SPRING[:1]).charge(pure("0.9"))
    clinic.for_periods(SPRING[1:]).charge(pure("0.2"))
    before = [line.hash for line in ledger]
    with pytest.raises(sf.InvalidParameter, match="spent"):
        clinic.amend(reason="less", epsilon="0.5")
    assert [line.hash for line in ledger] == before
    clinic.amend(reason="second year", epsilon=2)
    assert {each: clinic.for_periods((each,)).budget.remaining["pure"] for each in (*SPRING, "2024-06")} == {
        "2024-03": Fraction(11, 10),
        "2024-04": Fraction(9, 5),
        "2024-05": Fraction(9, 5),
        "2024-06": 2,
    }
    assert clinic.epsilons == (1, 2)
    assert opened(ledger, sf.Budget(2)).for_periods(SPRING).charge(pure("1"))
    assert ledger.verify().holds


def test_equal_questions_are_paid_once(ledger: sf.Ledger) -> None:
    clinic = opened(ledger).for_periods(SPRING)
    first = clinic.ask(pure("0.3", plan="p", data="d", request_id="r"), {})
    assert first.begin() is None
    with pytest.raises(sf.AnswerPending):
        clinic.ask(pure("0.3", plan="p", data="d"), {}).begin(0)
    clinic.answer(first.line, '"body"', {})
    assert clinic.ask(pure("0.3", plan="p", data="d"), {}).begin() is not None
    assert clinic.requested("r", plan="p") is not None
    with pytest.raises(sf.RequestDiffers):  # a request id is one of the population, whatever it is about
        opened(ledger).for_periods(("2025-01",)).ask(pure("0.3", plan="q", data="d", request_id="r"), {}).begin()
    assert set(spent(opened(ledger)).values()) == {Fraction(3, 10)}


def test_sources_belong_to_the_population(ledger: sf.Ledger) -> None:
    clinic = opened(ledger)
    clinic.join("memory://visits", fingerprint="1")
    clinic.for_periods(SPRING).charge(pure())
    clinic.join("memory://visits", fingerprint="1")
    with pytest.raises(sf.SourceTaken):
        opened(ledger, name="copy").join("memory://visits", fingerprint="1")


def test_a_lost_charge_is_raised_in_every_period(tmp_path: Path) -> None:
    path, kept = tmp_path / "whole.ledger", tmp_path / "kept.anchor"
    with sf.Ledger.open(path) as ledger:
        clinic = opened(ledger)
        clinic.for_periods(SPRING[:1]).charge(pure("0.1"))
        ledger.backup(tmp_path / "old.ledger")
        clinic.for_periods(SPRING).charge(pure("0.5"))
        ledger.anchor().save(kept)
    with pytest.warns(WeakLedger, match="is missing or was changed"):
        ledger = sf.Ledger.open(tmp_path / "old.ledger", anchor=kept)
    with ledger:
        with pytest.raises(sf.LedgerBehind):
            opened(ledger).for_periods(SPRING).charge(pure("0.1"))
        ledger.acknowledge(reason="the disk was lost")
        clinic = opened(ledger)
        found = spent(clinic)
        assert found.pop("2024-03") >= Fraction(3, 5)  # what may be known twice counts twice
        assert found == {"2024-04": Fraction(1, 2), "2024-05": Fraction(1, 2)}
        assert ledger.verify().holds


def test_a_period_that_paid_less_than_the_charge_is_found(ledger: sf.Ledger) -> None:
    clinic = opened(ledger).for_periods(SPRING[:1])
    line = clinic.charge(pure("0.5"))
    with ledger._guarded.writing() as transaction:
        transaction.append("period", "clinic 2024-03", {"detail": str(line.number)}, cost=Cost(1, None, 0))
    assert "is missing, or has another cost or analyst" in ledger.verify().why


def test_a_period_of_another_account_is_found(ledger: sf.Ledger) -> None:
    opened(ledger, name="other").for_periods(SPRING[:1]).charge(pure("0.5"))
    line = opened(ledger).for_periods(SPRING[:1]).charge(pure("0.5"))
    with ledger._guarded.writing() as transaction:
        transaction.append("period", "other 2024-03", {"detail": str(line.number)}, cost=line.cost)
    assert "not a period of the account" in ledger.verify().why


def test_verifying_may_begin_between_a_charge_and_its_periods(ledger: sf.Ledger) -> None:
    line = opened(ledger).for_periods(SPRING).charge(pure("0.5"))
    last = list(ledger)[-1].number
    for start in range(line.number, last):
        assert verify_part(ledger._guarded.store, start, last).holds
    with ledger._guarded.writing() as transaction:
        transaction.append("period", "clinic 2024-03", {"detail": str(line.number)}, cost=Cost(1, None, 0))
    assert not verify_part(ledger._guarded.store, last, last + 1).holds


def test_two_processes_race_over_overlapping_months(tmp_path: Path) -> None:
    """Whoever wins, no month is overdrawn, and every charge was made in all of its months."""
    path = tmp_path / "race.ledger"
    with sf.Ledger.open(path) as inherited:
        opened(inherited)

        def work(index: int) -> int:
            ledger = inherited if index % 2 else sf.Ledger.open(path)
            clinic, won = opened(ledger).for_periods(SPRING[index % 2 : index % 2 + 2]), 0
            while True:
                try:
                    clinic.charge(pure("3/70"))
                except sf.Overspent:
                    return won
                won += 1

        won = in_processes(6, work)
        assert all(isinstance(each, int) for each in won), won
        most = UNIT // sf.Budget(1).cost(sf.Curve.pure("3/70")).pure
        paid = [line for line in inherited if line.kind == "period"]
        each = {period: sum(line.account.endswith(period) for line in paid) for period in SPRING}
        assert each["2024-04"] == most == sum(won)  # type: ignore[arg-type]
        assert each["2024-03"] + each["2024-05"] == most
        assert inherited.verify().holds


def test_killed_between_the_charge_and_the_answer_every_month_has_paid(tmp_path: Path) -> None:
    path = tmp_path / "killed.ledger"

    def die() -> None:
        clinic = opened(sf.Ledger.open(path)).for_periods(SPRING)
        assert clinic.ask(pure("0.4", plan="p", data="d"), {}).begin() is None
        os.kill(os.getpid(), signal.SIGKILL)

    child = multiprocessing.get_context("fork").Process(target=die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    with sf.Ledger.open(path) as ledger:
        clinic = opened(ledger)
        assert spent(clinic) == dict.fromkeys(SPRING, Fraction(2, 5))
        with pytest.raises(sf.Overspent):
            clinic.for_periods(("2024-05",)).charge(pure("0.7"))
        assert (
            clinic.for_periods(SPRING).ask(pure("0.4", plan="p", data="d"), {}).begin(0) is None
        )  # nobody is waited for
        assert spent(clinic) == dict.fromkeys(SPRING, Fraction(4, 5))
        assert ledger.verify().holds


def test_the_fullest_is_found_in_each_currency() -> None:
    found = _max_totals([Cost(1, 5, 0), Cost(3, 2, 7)])
    assert found == Cost(3, 5, 7)
    assert _max_totals([Cost(1, 5, 0), Cost(None, 2, 0)]).pure is None
    assert _max_totals([Cost(1, None, 0)]) == Cost(1, None, 0)


# ── what all answers together tell of one unit, by exact enumeration ───────────────────────────────

_STEP = log(3)  # what one randomised answer tells
_READS = [read for size in (1, 2, 3) for read in combinations("pqr", size)]


@cache
def worst(touched: str, left: tuple[int, ...]) -> float:
    """The most that the transcript of any adaptive analyst tells of a change in these periods, where each period's
    account affords so many more answers. One who sees answers can do no better than the best fixed next question:
    the loss of every transcript is a sum, and whatever comes next is chosen for the largest.
    """
    options = [read for read in _READS if all(left["pqr".index(each)] for each in read)]
    return max(
        (
            _STEP * bool(set(read) & set(touched))
            + worst(touched, tuple(n - (each in read) for each, n in zip("pqr", left, strict=True)))
            for read in options
        ),
        default=0.0,
    )


def test_a_unit_of_one_period_loses_what_its_account_allows() -> None:
    assert worst("p", (2, 2, 2)) == pytest.approx(2 * _STEP)


def test_a_unit_that_moves_loses_what_two_accounts_allow() -> None:
    """So accounts of half the budget keep the whole, and accounts of the whole do not."""
    assert worst("pq", (1, 1, 1)) == pytest.approx(2 * _STEP)
    assert worst("pq", (2, 2, 2)) == pytest.approx(4 * _STEP)
