"""Ledgers add fractions exactly: thirds fill a budget, a share and a hold, in every store and in every copy."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

import sfumato as sf
from ledger import earlier_thirds
from ledger.recomputing import wrong
from ledger.small_accounts import BEHIND, NEVER_AGAIN, account, pure
from sfumato.errors import WeakLedger
from sfumato.ledger.moving import copy_ledger
from sfumato.ledger.spending import NO_COST, Spending, read_cost, read_totals, write_cost
from sfumato.privacy import Cost
from sfumato.privacy.amounts import charge_amount, exact_amount
from sfumato.privacy.numbers import UNIT, amount_from_units

PRIMES = (999999937, 999999929, 999999893, 999999883, 999999797, 999999761, 999999757, 999999751, 999999739, 999999733)
THIRD = Fraction(1, 3)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sf.Ledger]:
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def test_three_thirds_fill_an_account_and_nothing_more_fits(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    for _ in range(3):
        line = clinic.charge(sf.Entry(sf.Charged(sf.Laplace(3), 1)))
        assert (line.cost.amounts["pure"], clinic.recomputed(line)) == (THIRD, line.cost)
        assert sf.Line.from_json(line.to_json()) == line
    assert (clinic.spent["pure"], clinic.remaining) == (1, {"pure": 0})
    with pytest.raises(sf.Overspent) as refusal:
        clinic.charge(pure("1e-30"))
    assert refusal.value.remaining == {"pure": 0}
    assert ledger.verify().holds


def test_equal_shares_fill_an_account(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    for name in ("ana", "ben", "eve"):
        clinic.analyst(name, share="1/3")
        for _ in range(7):
            clinic.charge(pure("1/21", analyst=name))
        with pytest.raises(sf.Overspent):
            clinic.charge(pure("1e-30", analyst=name))
        assert (clinic.analyst(name).spent["pure"], clinic.analyst(name).budget.remaining["pure"]) == (THIRD, 0)
    assert clinic.remaining == {"pure": 0}
    assert ledger.verify().holds


def test_three_steps_of_a_third_fill_a_hold_and_a_hold_of_thirds_comes_back(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    with clinic.open_tab(pure("1/3")) as kept:
        with clinic.open_tab(pure("2/3")) as tab:
            assert clinic.remaining == {"pure": 0}
            for _ in range(3):
                tab.step(pure("2/9"))
            assert tab.left["pure"] == 0
            with pytest.raises(sf.Overspent):
                tab.step(pure("1e-30"))
        kept.step(pure("1/7"))
        assert kept.left["pure"] == THIRD - Fraction(1, 7)
    assert clinic.remaining == {"pure": THIRD - Fraction(1, 7)}
    clinic.charge(pure(THIRD - Fraction(1, 7)))
    assert clinic.remaining == {"pure": 0}
    assert ledger.verify().holds


def test_thirds_at_once_are_admitted_three_times(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    admitted = []

    def charge() -> None:
        with suppress(sf.Overspent):
            admitted.append(clinic.charge(pure("1/3")))

    threads = [threading.Thread(target=charge) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(admitted), clinic.remaining) == (3, {"pure": 0})
    assert ledger.verify().holds


def test_hostile_denominators_are_rounded_up_and_replayed(ledger: sf.Ledger) -> None:
    """Nobody can make a line long, and whoever replays the lines finds the same totals."""
    clinic = account(ledger)
    with clinic.open_tab(pure("1/2")) as tab:
        for prime in PRIMES:
            clinic.charge(pure(Fraction(1, prime), analyst="eve"))
            tab.step(pure(Fraction(7, prime)))
    totals = [each.spent.amounts["pure"] for each in ledger]
    assert all(total is not None and total.denominator <= 10**60 for total in totals)
    true = sum(Fraction(8, prime) for prime in PRIMES)
    assert true < totals[-1] < true + Fraction(len(totals), UNIT)
    assert max(len(write_cost(each.spent)) for each in ledger) < 140
    assert ledger.verify().holds


def test_a_step_that_was_admitted_is_not_refused_because_a_sum_was_rounded_up(ledger: sf.Ledger) -> None:
    """Two holds fill the account to the last, and what is spent has more denominators than what each of them holds."""
    clinic = account(ledger)
    tabs = [clinic.open_tab(pure("1/2")) for _ in range(2)]
    for one, other in zip(PRIMES[:5], PRIMES[5:], strict=True):
        tabs[0].step(pure(Fraction(1, one)))
        tabs[1].step(pure(Fraction(1, other)))
    assert "pure" not in clinic.remaining  # more than all, by roundings alone
    tabs[0].step(pure("1/3"))
    for tab in tabs:
        tab.forfeit()
    assert ledger.verify().holds
    with pytest.raises(sf.Overspent):
        clinic.charge(pure("1e-30"))


def test_a_correction_still_stops_the_steps_of_a_tab(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    tab = clinic.open_tab(sf.Cost(UNIT, None, 0))
    clinic.correct(sf.Curve.pure("1e-20"), reason="forgotten")
    with pytest.raises(sf.Overspent):
        tab.step(pure("1/3"))
    tab.forfeit()


def test_exports_and_copies_keep_fractions(ledger: sf.Ledger, tmp_path: Path) -> None:
    clinic = account(ledger)
    clinic.charge(pure("1/3", analyst="ana"))
    clinic.open_tab(pure("1/7"))
    ledger.export("json", tmp_path / "lines.json")
    exported = json.loads((tmp_path / "lines.json").read_text())
    shown = [(each["cost_pure"], each["spent_pure"], each["held_pure"]) for each in exported]
    assert shown == [("0", "0", "0"), ("1/3", "1/3", "0"), ("0", "1/3", "1/7")]
    ledger.export("json", tmp_path / "all.json", complete=True)
    anchor = ledger.anchor()
    anchor.save(tmp_path / "kept.anchor")
    loaded = sf.Anchor.load(tmp_path / "kept.anchor")
    assert loaded == anchor
    assert loaded.accounts[0].total.amounts["pure"] == THIRD + Fraction(1, 7)
    lines = [line.to_json() for line in ledger]
    ledger.close()
    for each in tmp_path.glob("ledger.db*"):
        each.unlink()
    with pytest.warns(WeakLedger, match=NEVER_AGAIN):
        copy_ledger(tmp_path / "all.json", tmp_path / "copy.db", anchor=tmp_path / "kept.anchor")
    with sf.Ledger.open(tmp_path / "copy.db") as copy:
        assert copy.verify().holds
        assert [line.to_json() for line in copy] == lines
        copy.account("clinic").charge(pure(1 - THIRD - Fraction(1, 7)))
        assert copy.account("clinic").remaining == {"pure": 0}


@pytest.mark.filterwarnings(BEHIND)
def test_what_is_lost_is_added_exactly(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        clinic.charge(pure("1/3"))
        ledger.backup(tmp_path / "backup.db")
        clinic.charge(pure("1/7"))
        anchor = ledger.anchor()
    with sf.Ledger.open(tmp_path / "backup.db", anchor=anchor) as ledger:
        ledger.acknowledge(anchor, reason="the disk was lost")
        assert ledger.account("clinic").spent["pure"] == THIRD + Fraction(1, 7)
        assert ledger.verify().holds


# ── ledgers that were written before ───────────────────────────────────────────────────────────


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[sf.Ledger]:
    shutil.copy(earlier_thirds.EARLIER, tmp_path / "earlier.ledger")
    with sf.Ledger.open(tmp_path / "earlier.ledger") as opened:
        yield opened


def test_whole_units_of_an_earlier_ledger_stay_and_verify(earlier: sf.Ledger, tmp_path: Path) -> None:
    clinic = earlier.account("clinic")
    third, ninth = -(-UNIT // 3), -(-UNIT // 9)
    charged = third + -(-2 * UNIT // 7) + 2 * ninth + -(-UNIT // 11)
    assert clinic.spent["pure"] == amount_from_units(charged)
    assert clinic.remaining == {"pure": 2 - amount_from_units(charged + third - ninth)}
    assert earlier.account("keyed").spent["failure"] == amount_from_units(-(-(10**23) // 3))
    assert earlier.verify().holds
    assert [each.cost for each in earlier if each.kind == "charge"] == [
        earlier.account(each.account).recomputed(each) for each in earlier if each.kind == "charge"
    ]
    earlier.close()
    assert wrong(tmp_path / "earlier.ledger") == []


def test_an_earlier_ledger_goes_on_with_fractions(earlier: sf.Ledger) -> None:
    clinic = earlier.account("clinic")
    before = clinic.spent["pure"]
    assert before is not None
    for _ in range(3):
        clinic.charge(pure("1/9"))
    assert clinic.spent["pure"] == before + THIRD
    (opened,) = clinic.open_tabs()
    clinic.abandon(opened.number, reason="its process is gone")
    assert clinic.spent["pure"] == before + THIRD + amount_from_units(-(-UNIT // 3) - -(-UNIT // 9))
    clinic.charge(pure(clinic.budget.largest_pure()))
    assert clinic.remaining["pure"] < Fraction(2, UNIT)
    assert earlier.verify().holds


# ── the arithmetic of lines ────────────────────────────────────────────────────────────────────

PRICE = st.fractions(0, "1/4", max_denominator=30) | st.builds(
    Fraction, st.integers(1, 10**8), st.sampled_from([*PRIMES, 10**12 + 39])
)


@given(st.lists(st.tuples(st.sampled_from(["charge", "open", "step", "stop", "forfeit"]), PRICE, st.integers(0, 3))))
@example([("open", Fraction(1, prime), 0) for prime in PRIMES] + [("stop", Fraction(0), 0)] * len(PRIMES))
@settings(max_examples=150, deadline=None)
def test_spent_and_held_are_never_below_the_true_sums(lines: list[tuple[str, Fraction, int]]) -> None:
    """Whatever denominators are chosen: a hold gives back at most what it held, and any line can be replayed from."""
    spending, true, steps = Spending(), Fraction(0), 0
    tabs: list[Cost] = []
    for kind, price, place in lines:
        cost, before, left = Cost(charge_amount(price), None, 0), NO_COST, NO_COST
        if kind == "open":
            tabs.append(left := cost)
            cost = NO_COST
        elif kind != "charge" and tabs:
            before = tabs.pop(place % len(tabs))
            if kind == "step":
                left = before.minus(cost) if before.covers(cost) else before
                cost = cost if before.covers(cost) else NO_COST
                tabs.append(left)
            else:
                cost = before if kind == "forfeit" else NO_COST
        true += cost.amounts["pure"] or 0
        held = spending.held_pure
        spending = read_totals(str(spending)).after(read_cost(write_cost(cost)), before, left)
        steps += 2
        assert (before.pure or 0) - (left.pure or 0) >= held - spending.held_pure
        holding = sum((each.pure or 0 for each in tabs), Fraction(0))
        assert true <= (spending.spent.amounts["pure"] or 0) < true + Fraction(steps + 1, UNIT)
        assert holding <= spending.held_pure < holding + steps + 1
        assert spending.total.amounts["pure"] >= true + amount_from_units(holding)
        assert len(str(spending)) < 300


def test_long_fractions_of_a_hold_are_rounded_up(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "long.db") as ledger:
        clinic = account(ledger)
        long = exact_amount(Fraction(1, 7**80))
        with clinic.open_tab(sf.Cost(long, None, 0)) as tab:
            assert tab.left["pure"] == Fraction(1, UNIT)
        clinic.correct(sf.Cost(long, None, 0), reason="forgotten")
        assert clinic.spent["pure"] == Fraction(1, UNIT)
        assert ledger.verify().holds
