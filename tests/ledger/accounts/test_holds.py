"""Holds and steps: what is held is not there for others, what is unspent comes back, and nothing else does."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.ledger.accounts.reservations import SettledAnswer
from sfumato.ledger.spending import NO_COST, Spending
from sfumato.privacy.numbers import UNIT

NOTHING_LEAKED = sf.Curve(())


@pytest.fixture
def ledger(tmp_path: Path):
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def test_a_hold_is_not_there_for_others_and_what_is_unspent_comes_back(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    tab = clinic.open_tab(pure("0.8"))
    assert clinic.remaining == {"pure": Fraction(1, 5)}
    assert clinic.spent["pure"] == 0
    with pytest.raises(sf.Overspent):
        clinic.charge(pure("0.3"))
    tab.step(pure("0.3"))
    assert tab.left["pure"] == Fraction(1, 2)
    assert clinic.remaining == {"pure": Fraction(1, 5)}
    tab.stop()
    assert clinic.remaining == {"pure": Fraction(7, 10)}
    assert clinic.spent["pure"] == Fraction(3, 10)
    assert [line.kind for line in ledger] == ["account-open", "tab-open", "step", "tab-close"]
    assert ledger.verify().holds


def test_a_request_opens_one_hold_and_its_result_is_free(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    asked = {name: sf.Entry(NOTHING_LEAKED, "asked", "plan", "", None, name) for name in "rst"}
    tab = clinic.ask_tab(pure("0.8"), asked["r"])
    assert isinstance(tab, sf.Tab)
    assert (tab.opening.kind, tab.opening.request_id, tab.left["pure"]) == ("tab-open", "r", Fraction(4, 5))
    assert (clinic.spent["pure"], clinic.remaining) == (0, {"pure": Fraction(1, 5)})
    with pytest.raises(sf.Overspent):
        clinic.ask_tab(pure("0.3"), asked["s"])
    tab.step(pure("0.3"))
    clinic.finish(tab, "42")
    assert (clinic.spent["pure"], clinic.remaining) == (Fraction(3, 10), {"pure": Fraction(7, 10)})
    repeated = clinic.ask_tab(pure("0.8"), asked["r"])
    assert not isinstance(repeated, sf.Tab)
    assert repeated.body == "42"
    whole = clinic.ask_tab(pure("0.2"), asked["t"], whole=True)
    assert isinstance(whole, sf.Tab)
    assert (whole.left["pure"], clinic.spent["pure"]) == (0, Fraction(1, 2))
    whole.stop()
    for _ in range(2):  # without an id every request is another
        other = clinic.ask_tab(pure("0.1"), sf.Entry(NOTHING_LEAKED, "asked", "plan"))
        assert isinstance(other, sf.Tab)
        assert other.opening.request_id is None
    assert clinic.remaining == {"pure": Fraction(3, 10)}
    kinds = [line.kind for line in ledger]
    series = ["tab-open", "step", "tab-close", "charge", "answer"]
    assert kinds == ["account-open", *series, "tab-open", "tab-close", "tab-open", "tab-open"]
    assert ledger.verify().holds


def test_a_hold_that_does_not_fit_is_refused_and_leaves_nothing(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    tab = clinic.open_tab(pure("0.8"))
    with pytest.raises(sf.Overspent):
        clinic.open_tab(pure("0.3"))
    with pytest.raises(sf.Overspent, match="this tab") as refusal:
        tab.step(pure("0.9"))
    assert refusal.value.remaining["pure"] == Fraction(4, 5)
    assert len(list(ledger)) == 2
    tab.stop()


def test_a_step_fits_in_every_component(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(3, "1e-6"))
    price = clinic.cost(sf.Curve.laplace(10))
    assert price.pure is not None
    assert price.renyi is not None
    for hold in (
        sf.Cost(price.pure - 1, price.renyi, 0),
        sf.Cost(price.pure, price.renyi - 1, 0),
        sf.Cost(None, price.renyi - 1, 0),
    ):
        with clinic.open_tab(hold) as tab, pytest.raises(sf.Overspent):
            tab.step(sf.Entry(sf.Curve.laplace(10)))
    leaky = sf.Curve.approximate("0.001", "1e-8")
    with clinic.open_tab(sf.Cost(UNIT, UNIT, 10**22 - 1)) as tab, pytest.raises(sf.Overspent):
        tab.step(sf.Entry(leaky))
    with clinic.open_tab(sf.Cost(price.pure, price.renyi, 0)) as tab:
        tab.step(sf.Entry(sf.Curve.laplace(10)))
        assert tab.left == {"pure": 0, "renyi": 0, "failure": 0}
    assert clinic.budget == sf.Budget(3, "1e-6").charge(sf.Curve.laplace(10))
    assert ledger.verify().holds


def test_an_unbounded_hold_closes_the_pure_currency_only_while_it_is_held(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(1, "1e-6"))
    wide = sf.Entry(sf.Curve.gaussian(20))
    first, second = clinic.open_tab(wide), clinic.open_tab(wide)
    assert "pure" not in clinic.remaining
    first.stop()
    assert "pure" not in clinic.remaining
    second.step(pure("0.001"))
    second.stop()
    assert clinic.remaining["pure"] == Fraction(999, 1000)
    with clinic.open_tab(wide) as tab:
        tab.step(sf.Entry(sf.Curve.gaussian(30)))
        with pytest.raises(sf.Overspent):
            tab.step(sf.Entry(sf.Curve.gaussian(20)))
    assert "pure" not in clinic.remaining
    assert clinic.spent["pure"] is None
    assert ledger.verify().holds


def test_a_pure_hold_takes_no_gaussian_step(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(1, "1e-6"))
    with clinic.open_tab(pure("0.5")) as tab, pytest.raises(sf.Overspent):
        tab.step(sf.Entry(sf.Curve.gaussian(1000)))
    assert clinic.remaining["pure"] == 1


def test_closing_twice_is_closing_once_and_a_closed_tab_takes_no_step(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    tab = clinic.open_tab(pure("0.5"))
    tab.stop()
    tab.stop()
    with pytest.raises(sf.TabClosed):
        tab.step(pure("0.1"))
    assert clinic.remaining == {"pure": 1}
    assert [line.kind for line in ledger] == ["account-open", "tab-open", "tab-close"]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_explicit_stop_between_steps_gives_back_what_is_unspent(ledger: sf.Ledger, steps: int) -> None:
    clinic = account(ledger)
    with clinic.open_tab(pure("0.5")) as tab:
        for _ in range(steps):
            tab.step(pure("0.1"))
        tab.stop()
        with pytest.raises(sf.TabClosed):
            tab.step(pure("0.1"))
    assert clinic.spent["pure"] == Fraction(steps, 10)
    assert clinic.remaining == {"pure": 1 - Fraction(steps, 10)}
    assert ledger.verify().holds


@pytest.mark.parametrize("caught", [False, True])
def test_a_time_limit_gives_nothing_back(ledger: sf.Ledger, caught: bool) -> None:
    """When a statement ran out of time may depend on the rows it read: a stop afterwards changes nothing."""
    clinic = account(ledger)

    def run(tab: sf.Tab) -> None:
        tab.step(pure("0.1"))
        if caught:
            tab.forfeit()
            tab.stop()
        else:
            raise TimeoutError

    with suppress(TimeoutError), clinic.open_tab(pure("0.5")) as tab:
        run(tab)
    assert clinic.spent["pure"] == Fraction(1, 2)
    assert clinic.remaining == {"pure": Fraction(1, 2)}
    assert ledger.verify().holds


def test_a_block_left_by_an_error_gives_nothing_back(ledger: sf.Ledger) -> None:
    """Where an engine fails may depend on data, so it must not show in what is left."""
    clinic = account(ledger)

    def fail() -> None:
        with clinic.open_tab(pure("0.5")) as tab:
            tab.step(pure("0.1"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert clinic.spent["pure"] == Fraction(1, 2)
    assert clinic.remaining == {"pure": Fraction(1, 2)}
    assert ledger.verify().holds


def test_hidden_state_is_charged_whole_at_opening(ledger: sf.Ledger) -> None:
    """The sparse vector technique through a tab, from opening to the last "above"."""
    clinic = account(ledger)
    watch = sf.AboveThreshold(epsilon="0.5", threshold=1000)
    tab = clinic.open_tab(sf.Entry(sf.Charged(watch), "which ward is crowded?", analyst="ana"))
    assert clinic.spent["pure"] == Fraction(1, 2)
    session = watch.start()
    for ward, patients in (("a", 3), ("b", 5000), ("c", 2)):
        if not session.remaining:
            break
        line = tab.step(sf.Entry(NOTHING_LEAKED, question=f"is {ward} above?"))
        clinic.answer(line, json.dumps({ward: session.ask(patients)}), {})
    with pytest.raises(sf.SessionClosed):
        session.ask(10)
    with pytest.raises(sf.Overspent):
        tab.step(pure("1e-30"))
    tab.stop()
    assert clinic.spent["pure"] == Fraction(1, 2)
    assert [line.body for line in ledger.lines(account="clinic") if line.kind == "answer"] == [
        '{"a": false}',
        '{"b": true}',
    ]
    assert clinic.analyst("ana").spent["pure"] == Fraction(1, 2)
    assert ledger.verify().holds


def test_hidden_state_is_no_step(ledger: sf.Ledger) -> None:
    watch = sf.AboveThreshold(epsilon="0.1", threshold=5)
    with account(ledger).open_tab(pure("0.5")) as tab, pytest.raises(sf.InvalidParameter, match="charged in full"):
        tab.step(sf.Entry(sf.Charged(watch)))


def test_anything_may_be_charged_whole(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    with clinic.open_tab(pure("0.5"), whole=True) as tab:
        tab.step(sf.Entry(NOTHING_LEAKED, question="free: already paid"))
    assert clinic.spent["pure"] == Fraction(1, 2)


def test_a_dead_process_leaves_its_hold_spent(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    child = os.fork()
    if child == 0:
        try:
            tab = account(sf.Ledger.open(path)).open_tab(pure("0.6"))
            tab.step(pure("0.1"))
        finally:
            os._exit(7)
    os.waitpid(child, 0)
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        assert clinic.remaining == {"pure": Fraction(2, 5)}
        assert clinic.spent["pure"] == Fraction(1, 10)
        (lost,) = clinic.open_tabs()
        with pytest.raises(sf.InvalidParameter, match="reason"):
            clinic.abandon(lost.number, reason=" ")
        clinic.abandon(lost.number, reason="the machine was switched off")
        assert clinic.spent["pure"] == Fraction(3, 5)
        assert clinic.remaining == {"pure": Fraction(2, 5)}
        assert clinic.open_tabs() == ()
        for wrong in (lost.number, 1, 999, 0, "x"):
            with pytest.raises(sf.InvalidParameter):
                clinic.abandon(wrong, reason="again")  # type: ignore[arg-type]
        assert ledger.verify().holds


def test_a_tab_stays_in_the_process_that_opened_it(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    tab = clinic.open_tab(pure("0.5"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            tab.step(pure("0.1"))
        except sf.TabClosed:
            try:
                tab.stop()
            except sf.TabClosed:
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    tab.step(pure("0.1"))
    tab.stop()
    assert clinic.spent["pure"] == Fraction(1, 10)


def test_threads_share_a_hold_without_passing_it(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(10))
    tab = clinic.open_tab(pure(1))
    done: list[int] = []

    def work() -> None:
        for _ in range(10):
            try:
                done.append(tab.step(pure("0.1")).number)
            except sf.Overspent:
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == len(set(done)) == 10
    assert ledger.verify().holds


def test_a_correction_may_stop_the_steps_of_an_open_tab(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    tab = clinic.open_tab(pure("0.9"))
    clinic.correct(sf.Curve.pure("0.5"), reason="a release that was forgotten")
    with pytest.raises(sf.Overspent):
        tab.step(pure("0.1"))
    tab.stop()
    clinic.charge(pure("0.5"))


def test_a_share_counts_what_its_owner_holds(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.analyst("ana", share="0.5")
    tab = clinic.open_tab(pure("0.4", analyst="ana"))
    with pytest.raises(sf.Overspent, match="share"):
        clinic.charge(pure("0.2", analyst="ana"))
    with pytest.raises(sf.Overspent, match="share"):
        clinic.open_tab(pure("0.2", analyst="ana"))
    with pytest.raises(sf.InvalidParameter, match="analyst"):
        tab.step(pure("0.1", analyst="bob"))
    tab.step(pure("0.1"))
    tab.stop()
    clinic.charge(pure("0.4", analyst="ana"))
    assert clinic.analyst("ana").spent["pure"] == Fraction(1, 2)
    assert ledger.verify().holds


def test_a_bare_hold_names_every_currency(ledger: sf.Ledger) -> None:
    with pytest.raises(sf.InvalidParameter, match="a cost without an amount for renyi"):
        account(ledger).open_tab(sf.Cost(1, 1, 0))
    with pytest.raises(sf.InvalidParameter, match="a cost with an amount for renyi"):
        account(ledger, sf.Budget(1, "1e-6"), "wide").open_tab(sf.Cost(1, None, 0))


COSTS = st.builds(
    sf.Cost, st.none() | st.integers(0, 5 * 10**29), st.integers(0, 4 * 10**29), st.integers(0, 5 * 10**22)
)


@settings(max_examples=30)
@given(data=st.data())
def test_any_interleaving_of_tabs_keeps_the_rule(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Against a model that adds plain tuples: after every step, spent and held together satisfy the account's rule,
    spent never falls, and closing frees exactly what is left.
    """
    with sf.Ledger.open(tmp_path_factory.mktemp("tabs") / "ledger.db") as ledger:
        clinic = account(ledger, sf.Budget(1, "1e-6"))
        open_tabs: list[tuple[sf.Tab, list[int | None]]] = []
        spent: list[int | None] = [0, 0, 0]
        for _ in range(data.draw(st.integers(1, 14))):
            action = data.draw(st.sampled_from(["hold", "hold", "charge", "step", "step", "close"]))
            try:
                if action == "hold":
                    hold = data.draw(COSTS)
                    open_tabs.append((clinic.open_tab(hold), [hold.pure, hold.renyi, hold.failure]))
                elif action == "charge":
                    curve = sf.Curve.pure(Fraction(data.draw(st.integers(0, 40)), 100))
                    clinic.charge(sf.Entry(curve))
                    spent = _plus(spent, clinic.cost(curve))
                elif open_tabs:
                    tab, left = data.draw(st.sampled_from(open_tabs))
                    if action == "close":
                        tab.stop()
                        open_tabs.remove((tab, left))
                    else:
                        curve = data.draw(st.sampled_from([sf.Curve.laplace(20), sf.Curve.gaussian(30)]))
                        tab.step(sf.Entry(curve))
                        cost = clinic.cost(curve)
                        spent = _plus(spent, cost)
                        left[:] = _minus(left, cost)
            except sf.Overspent:
                pass
            total = spent
            for _, left in open_tabs:
                total = [None if a is None or b is None else a + b for a, b in zip(total, left, strict=True)]
            budget = clinic.budget
            assert [budget.spent_pure, budget.spent_renyi, budget.spent_failure] == total
            assert budget.admits(NO_COST)
            assert clinic.spent == sf.Cost(spent[0], spent[1], spent[2] or 0).amounts
        assert ledger.verify().holds


def _plus(total: list[int | None], cost: sf.Cost) -> list[int | None]:
    parts = (cost.pure, cost.renyi, cost.failure)
    return [None if a is None or b is None else a + b for a, b in zip(total, parts, strict=True)]


def _minus(left: list[int | None], cost: sf.Cost) -> list[int | None]:
    parts = (cost.pure, cost.renyi, cost.failure)
    return [None if a is None else a - (b or 0) for a, b in zip(left, parts, strict=True)]


def test_spending_forgets_no_tab() -> None:
    """Holding and letting go in any order ends where it began."""
    holds = [sf.Cost(5, 3, 1), sf.Cost(None, 2, 0), sf.Cost(None, 0, 4), sf.Cost(0, 7, 0)]
    spending = Spending(1, 1, 0, 0, 0)
    start = spending
    for hold in holds:
        spending = spending.after(NO_COST, NO_COST, hold)
    assert spending.total == sf.Cost(None, 13, 5)
    for hold in (holds[2], holds[0], holds[3], holds[1]):
        spending = spending.after(NO_COST, hold, NO_COST)
    assert spending == start


def test_a_tab_is_settled_at_once_with_what_was_charged(ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several answers of one charge: all lines or none, each found by its own question."""
    clinic = account(ledger)
    answers = [
        SettledAnswer(sf.Entry(NOTHING_LEAKED, f"question {name}", plan=name, data="v1"), f'"{name}"', {"m0": 5})
        for name in ("p1", "p2")
    ]
    with pytest.raises(sf.InvalidParameter, match="without parts"):
        SettledAnswer(pure("0.1"), "{}", {})
    tab = clinic.open_tab(pure("0.5"), whole=True)
    with monkeypatch.context() as broken:
        broken.setattr("sfumato.ledger.transaction.Transaction.close_tab", _failing)
        with pytest.raises(RuntimeError):
            tab.settle(answers)
    assert clinic.stored(plan="p1", data="v1") is None
    lines = tab.settle(answers)
    assert [line.body for line in lines] == ['"p1"', '"p2"']
    found = clinic.stored(plan="p2", data="v1", accuracy={"m0": 6})
    assert found is not None
    assert found.body == '"p2"'
    assert clinic.stored(plan="p2", data="v1", accuracy={"m0": 4}) is None
    assert clinic.spent["pure"] == Fraction(1, 2)
    assert clinic.open_tabs() == ()
    with pytest.raises(sf.TabClosed):
        tab.settle(answers)
    assert ledger.verify().holds


def _failing(*_: object, **__: object) -> None:
    raise RuntimeError
