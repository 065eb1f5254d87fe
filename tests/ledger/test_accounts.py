"""Charging, answering, finding again; terms, shares, amendments, corrections; texts that mean harm."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from ledger.small_accounts import PATIENT, account, pure
from sfumato.privacy.numbers import UNIT


@pytest.fixture
def ledger(tmp_path: Path):
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def test_ten_tenths_fill_an_account_and_the_eleventh_changes_nothing(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    numbers = [clinic.charge(pure()).number for _ in range(10)]
    assert numbers == list(range(2, 12))
    with pytest.raises(sf.Overspent) as refusal:
        clinic.charge(pure("1e-30"))
    assert refusal.value.difference == {"pure": Fraction(1, UNIT)}
    assert len(list(ledger)) == 11
    assert clinic.remaining == {"pure": 0}
    assert clinic.spent == {"pure": 1, "failure": 0}
    assert ledger.verify().holds


def test_the_budget_outlives_the_process_that_opened_it(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger).charge(pure("0.7"))
    with sf.Ledger.open(tmp_path / "a") as ledger:
        assert account(ledger).remaining == {"pure": Fraction(3, 10)}
        assert ledger.account("clinic").budget.largest(sf.Laplace) == pytest.approx(0.3, rel=1e-5)


def test_a_line_says_what_was_run_and_what_it_cost(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(3, "1e-6"))
    noise = sf.Laplace(scale=10)
    line = clinic.charge(
        sf.Entry(sf.Charged(noise, 1), "SELECT COUNT(*) FROM visits", "ab12", "v1", analyst="ana", request_id="r-1")
    )
    assert line.cost == clinic.budget.cost(noise.curve())
    assert line.spent == line.cost
    assert [sf.loads(json.dumps(each)) for each in json.loads(line.parts)] == [sf.Charged(noise, 1)]
    assert (line.kind, line.account, line.analyst, line.request_id) == ("charge", "clinic", "ana", "r-1")
    assert abs(line.time - datetime.now(UTC)) < timedelta(minutes=1)


def test_every_currency_is_enforced_as_the_budget_says(ledger: sf.Ledger) -> None:
    """The ledger accepts exactly what a Budget in memory accepts, release by release."""
    clinic, model = account(ledger, sf.Budget(1, "1e-6")), sf.Budget(1, "1e-6")
    menu = [sf.Curve.pure("0.2"), sf.Curve.laplace(9), sf.Curve.gaussian(12), sf.Curve.approximate("0.01", "4e-8")]
    for turn in range(24):
        curve = menu[(turn * 7 + turn // 3) % 4]
        fits = model.affords(curve)
        if fits:
            model = model.charge(curve)
            clinic.charge(sf.Entry(curve))
        else:
            with pytest.raises(sf.Overspent):
                clinic.charge(sf.Entry(curve))
        assert clinic.budget == model
    assert "pure" not in clinic.remaining


def test_terms_are_fixed_for_life(ledger: sf.Ledger) -> None:
    account(ledger, sf.Budget(1, "1e-6"))
    assert account(ledger, sf.Budget(1, "1e-6")).name == "clinic"
    for unit, budget in [
        (PATIENT, sf.Budget(2, "1e-6")),
        (PATIENT, sf.Budget(1, "1e-5")),
        (PATIENT, sf.Budget(1, "1e-6", reserve="1e-8")),
        (PATIENT, sf.Budget(1, "1e-6", order=40)),
        (PATIENT, sf.Budget(1, "1e-6", neighbours="replace")),
        (PATIENT, sf.Budget(1)),
        (sf.PrivacyUnit("patient", period="day"), sf.Budget(1, "1e-6")),
        (sf.PrivacyUnit("visit", every_row=True), sf.Budget(1, "1e-6")),
    ]:
        with pytest.raises(sf.AccountDiffers, match=r"amend\("):
            ledger.account("clinic", unit=unit, budget=budget)
    assert len(list(ledger)) == 1


def test_an_account_is_opened_with_terms_and_nothing_spent(ledger: sf.Ledger) -> None:
    with pytest.raises(sf.InvalidParameter, match="unit and budget"):
        ledger.account("clinic")
    with pytest.raises(sf.InvalidParameter):
        ledger.account("clinic", unit=PATIENT)
    with pytest.raises(sf.InvalidParameter, match="an unspent Budget"):
        account(ledger, sf.Budget(1).charge(sf.Curve.pure("0.1")))
    assert list(ledger) == []


def test_accounts_of_one_ledger_do_not_share_money(ledger: sf.Ledger) -> None:
    one, other = account(ledger, name="one"), account(ledger, sf.Budget(2), name="other")
    for _ in range(10):
        one.charge(pure())
        other.charge(pure())
    assert one.remaining == {"pure": 0}
    assert other.remaining == {"pure": 1}
    assert ledger.accounts == ("one", "other")
    assert ledger.verify().holds


def test_a_curve_for_other_neighbours_is_refused(ledger: sf.Ledger) -> None:
    with pytest.raises(sf.NeighboursDiffer):
        account(ledger).charge(sf.Entry(sf.Curve.pure("0.1", "replace")))


# ── answers ────────────────────────────────────────────────────────────────────────────────────────


def test_a_stored_answer_is_found_again_and_never_names_the_buyer(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    line = clinic.charge(pure(plan="p", data="v1", analyst="ana-the-buyer"))
    clinic.answer(line, '{"n": 17}', {"n": "6.5"})
    found = clinic.stored(plan="p", data="v1")
    assert found is not None
    assert (found.body, found.accuracy, found.number) == ('{"n": 17}', {"n": Fraction(13, 2)}, 3)
    assert "ana" not in repr(found)
    assert clinic.stored(plan="p", data="v2") is None
    assert clinic.stored(plan="q", data="v1") is None
    assert account(ledger, name="other").stored(plan="p", data="v1") is None


def test_the_newest_answer_that_is_accurate_enough_is_taken(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    for width in (5, 2, 9, *[20] * 30):
        clinic.answer(clinic.charge(pure("0.001", plan="p", data="v")), f'"{width}"', {"a": width, "b": 1})
    bodies = [
        getattr(clinic.stored(plan="p", data="v", accuracy=asked), "body", None)
        for asked in ({}, {"a": 9}, {"a": "8.99"}, {"a": 2, "b": 1}, {"a": 1}, {"a": 9, "c": 100})
    ]
    assert bodies == ['"20"', '"9"', '"2"', '"2"', None, None]


def test_a_charge_pays_for_one_answer(ledger: sf.Ledger) -> None:
    clinic, other = account(ledger), account(ledger, name="other")
    line = clinic.charge(pure(plan="p", data="v"))
    clinic.answer(line, "1", {})
    with pytest.raises(sf.AlreadyAnswered):
        clinic.answer(line, "2", {})
    foreign = other.charge(pure())
    opening = next(iter(ledger))
    for wrong in (foreign, opening, "line", None):
        with pytest.raises(sf.InvalidParameter):
            clinic.answer(wrong, "3", {})  # type: ignore[arg-type]
    stored = clinic.stored(plan="p", data="v")
    assert stored is not None
    assert stored.body == "1"


def test_a_request_with_a_stored_answer_returns_it_and_without_one_is_a_new_charge(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    entry = pure(question="q", plan="p", data="v", analyst="ana", request_id="r")
    clinic.charge(entry)  # its process died before the answer
    assert clinic.requested("r", analyst="ana", plan="p") is None
    clinic.answer(clinic.charge(entry), "42", {})
    for asked in ({"plan": "p"}, {"question": "q"}, {"plan": "p", "question": "the same, spaced   otherwise"}, {}):
        found = clinic.requested("r", analyst="ana", **asked)
        assert found is not None
        assert found.body == "42"
    assert clinic.requested("r") is None
    assert clinic.requested("r", analyst="bob") is None
    assert clinic.spent["pure"] == Fraction(2, 10)


def test_an_answer_under_a_former_plan_is_found_and_a_current_one_is_better(ledger: sf.Ledger) -> None:
    clinic = account(ledger)

    def found(data: str = "v", **more: Any) -> str | None:
        stored = clinic.stored(plan="new", data=data, **more)
        looked_up = clinic.look_up({}, plan="new", data=data, question="q", **more).answer
        assert (stored and stored.body) == (looked_up and looked_up.body)
        return None if stored is None else stored.body

    clinic.answer(clinic.charge(pure(question="q", plan="old", data="v")), "old", {})
    assert found() is None
    assert found(former_plan="old") == "old"
    assert found(former_plan="older") is None
    assert found("w", former_plan="old") is None
    clinic.answer(clinic.charge(pure(question="q", plan="new", data="v")), "new", {})
    assert found(former_plan="old") == "new"


def test_a_request_for_a_former_plan_is_the_same_request(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.answer(clinic.charge(pure(question="q", plan="old", data="v", request_id="r")), "42", {})
    asked = pure(question="q", plan="new", data="v", request_id="r")
    for stored in (
        clinic.requested("r", plan="new", former_plan="old"),
        clinic.look_up({}, plan="new", data="v", question="q", request_id="r", former_plan="old").answer,
        clinic.ask(asked, {}, former_plan="old").begin(),
    ):
        assert stored is not None
        assert stored.body == "42"
    with pytest.raises(sf.RequestDiffers):
        clinic.ask(asked, {}, former_plan="other").begin()
    assert clinic.spent["pure"] == Fraction(1, 10)


def test_a_replayed_request_keeps_its_first_answer(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    entry = pure(plan="p", data="v", request_id="r")
    for body in ("first", "second"):
        clinic.answer(clinic.charge(entry), body, {})
    found = clinic.requested("r", plan="p")
    assert found is not None
    assert found.body == "first"


def test_a_request_id_names_one_question(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.answer(clinic.charge(pure(question="q", plan="p", data="v", request_id="r")), "1", {})
    before = clinic.spent
    for asked in ({"plan": "other"}, {"question": "other"}):
        with pytest.raises(sf.RequestDiffers):
            clinic.requested("r", **asked)
    with pytest.raises(sf.RequestDiffers):
        clinic.charge(pure(question="other", plan="other", data="v", request_id="r"))
    assert clinic.spent == before


def test_nothing_spent_is_ever_given_back(ledger: sf.Ledger) -> None:
    """No call of the interface lowers what is spent: there is no such line."""
    clinic = account(ledger)
    clinic.charge(pure("0.5"))
    with pytest.raises(sf.InvalidParameter):
        sf.Cost(-1, None, 0)
    clinic.correct(sf.Curve.pure("0.25"), reason="a release outside the system")
    assert clinic.spent["pure"] == Fraction(3, 4)
    clinic.correct(sf.Cost(UNIT, None, 0), reason="and a large one")
    assert clinic.remaining == {}
    with pytest.raises(sf.Overspent):
        clinic.charge(pure("1e-9"))
    with pytest.raises(sf.InvalidParameter, match="1e300"):
        clinic.correct(sf.Cost(10**5000, None, 0), reason="more digits than anybody reads")


# ── what the owner does ────────────────────────────────────────────────────────────────────────────


def test_amending_needs_a_reason_and_keeps_what_spending_is_counted_in(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(1, "1e-6"))
    order = clinic.budget.order
    clinic.charge(pure("0.9"))
    for silent in ("", "  ", None):
        with pytest.raises(sf.InvalidParameter, match="reason"):
            clinic.amend(epsilon=2, reason=silent)  # type: ignore[arg-type]
    line = clinic.amend(epsilon=2, reason="the board agreed on 3 May")
    assert (line.kind, line.question) == ("amend", "the board agreed on 3 May")
    assert clinic.budget.order == order
    assert clinic.remaining["pure"] == Fraction(11, 10)
    clinic.charge(pure("1.1"))
    assert account(ledger, sf.Budget(2, "1e-6", order=order)).unit == PATIENT
    with pytest.raises(sf.AccountDiffers):
        account(ledger, sf.Budget(1, "1e-6"))
    with pytest.raises(sf.InvalidParameter, match="what is already spent and held: ε = 2"):
        clinic.amend(epsilon="1.9", reason="and took it back")
    clinic.amend(epsilon="2", reason="as it was")
    assert not clinic.budget.affords(sf.Curve.pure("1e-9"))
    assert clinic.epsilons == (1, 2)
    assert ledger.verify().holds


@pytest.mark.parametrize("budget", [sf.Budget(5), sf.Budget(5, "1e-6"), sf.Budget(5, "1e-6", reserve="1e-6")])
@pytest.mark.parametrize("held", [False, True])
def test_an_account_is_never_amended_below_what_it_spent(ledger: sf.Ledger, budget: sf.Budget, held: bool) -> None:
    """It would print "ε = 1 for life" after 4 was spent; what open tabs hold counts as spent."""
    clinic = account(ledger, budget)
    clinic.charge(pure("1"))
    if held:
        clinic.open_tab(pure("3"))
    else:
        clinic.charge(pure("3"))
    for less in ("1", "3.999"):
        with pytest.raises(sf.InvalidParameter, match="at least what is already spent and held: ε = 4") as refused:
            clinic.amend(epsilon=less, reason="less")
        assert f"got 'ε = {less}" in str(refused.value)
        assert "-DP" not in str(refused.value)
    assert clinic.epsilons == (5,)
    clinic.amend(epsilon=4, reason="no more than this")
    assert clinic.epsilons == (5, 4)
    assert clinic.remaining["pure"] == 0


def test_what_one_currency_affords_is_not_below_the_budget(ledger: sf.Ledger) -> None:
    """The rule is the account's own: many small releases exceed ε in one currency and fit the other."""
    clinic = account(ledger, sf.Budget(3, "1e-6"))
    for _ in range(60):
        clinic.charge(sf.Entry(sf.Curve.laplace(20)))
    assert clinic.spent["pure"] == 3
    clinic.amend(epsilon="2.9", reason="the Rényi currency covers it")
    assert "pure" not in clinic.remaining
    with pytest.raises(sf.InvalidParameter, match="already spent and held: ε = 3;"):
        clinic.amend(epsilon=1, reason="neither covers it")


def test_an_order_that_leaves_no_allowance_is_named_with_the_least_epsilon(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(5, "1e-6"))
    with pytest.raises(
        sf.InvalidParameter, match=r"epsilon must be a number above 2\.18114 at this δ.*order of 6\.13204"
    ):
        clinic.amend(epsilon=1, reason="less")
    with pytest.raises(sf.InvalidParameter, match=r"a number above 2\.18114"):
        clinic.amend(epsilon="2.1811", reason="less")
    clinic.amend(epsilon="2.1812", reason="less")


def test_an_amendment_is_seen_by_those_who_have_the_account_open(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "a") as one, sf.Ledger.open(tmp_path / "a") as other:
        mine, theirs = account(one), account(other)
        mine.amend(epsilon="0.1", reason="less")
        with pytest.raises(sf.Overspent):
            theirs.charge(pure("0.2"))


def test_an_account_without_a_renyi_currency_never_gets_one(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    with pytest.raises(sf.InvalidParameter):
        clinic.amend(delta="1e-6", reserve="1e-7", reason="wider")
    clinic.amend(delta="1e-6", reason="room for key thresholds")
    assert clinic.budget.reserve == clinic.budget.delta
    wide = account(ledger, sf.Budget(1, "1e-6"), name="wide")
    with pytest.raises(sf.InvalidParameter):
        wide.amend(delta=0, reason="narrower")
    assert ledger.verify().holds


def test_the_unit_cannot_be_amended(ledger: sf.Ledger) -> None:
    with pytest.raises(TypeError):
        account(ledger).amend(unit=sf.PrivacyUnit("visit", every_row=True), reason="weaker")  # type: ignore[call-arg]


def test_a_share_and_the_cap_must_both_afford(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    assert clinic.analyst("ana", share="0.5").budget.remaining == {"pure": Fraction(1, 2)}
    clinic.charge(pure("0.4", analyst="ana"))
    with pytest.raises(sf.Overspent, match="the analyst's share") as refusal:
        clinic.charge(pure("0.2", analyst="ana"))
    assert refusal.value.remaining == {"pure": Fraction(1, 10)}
    clinic.charge(pure("0.55", analyst="bob"))  # no share of his own: the cap alone
    with pytest.raises(sf.Overspent, match="the account"):
        clinic.charge(pure("0.1", analyst="ana"))  # hers, unspent, and still refused
    assert clinic.analyst("ana").share == Fraction(1, 2)
    assert clinic.analyst("ana").spent["pure"] == Fraction(4, 10)
    assert clinic.analyst("bob").share is None
    assert ledger.verify().holds


def test_a_share_is_of_every_allowance(ledger: sf.Ledger) -> None:
    clinic = account(ledger, sf.Budget(1, "1e-6"))
    whole = clinic.remaining
    share = clinic.analyst("ana", share="0.25").budget.remaining
    for name, amount in whole.items():
        assert amount / 4 - Fraction(1, UNIT) <= share[name] <= amount / 4
    clinic.analyst("ana", share="0.25")  # nothing new, no line
    clinic.analyst("ana", share=0)
    with pytest.raises(sf.Overspent):
        clinic.charge(pure("0.001", analyst="ana"))
    assert [line.kind for line in ledger] == ["account-open", "share", "share"]


def test_shares_of_one_account_do_not_reach_into_another(ledger: sf.Ledger) -> None:
    one, other = account(ledger, name="one"), account(ledger, name="other")
    one.analyst("ana", share="0.1")
    other.charge(pure("0.9", analyst="ana"))
    with pytest.raises(sf.Overspent):
        one.charge(pure("0.2", analyst="ana"))


# ── reading ────────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_filtered_by_account_analyst_and_time(ledger: sf.Ledger) -> None:
    clinic, other = account(ledger, sf.Budget(50)), account(ledger, name="other")
    lines = [clinic.charge(pure("0.01", analyst="ana" if turn % 3 else "bob")) for turn in range(40)]
    other.charge(pure(analyst="ana"))
    assert [line.number for line in ledger.lines(account="other")] == [2, 43]
    assert len(list(ledger.lines(analyst="ana"))) == 27
    assert len(list(ledger.lines(analyst="ana", account="clinic"))) == 26
    middle = lines[20].time
    late = [line for line in lines if line.time >= middle]
    assert list(ledger.lines(account="clinic", since=middle)) == late
    assert list(ledger.lines(analyst="bob", account="clinic", since=middle, until=lines[30].time)) == [
        line for line in late if line.analyst == "bob" and line.time < lines[30].time
    ]
    assert list(ledger.lines(since=datetime(2999, 1, 1, tzinfo=UTC))) == []
    assert len(list(ledger.lines(since=datetime(1999, 1, 1, tzinfo=UTC)))) == 43
    with pytest.raises(sf.InvalidParameter, match="time zone"):
        next(ledger.lines(since=datetime(2024, 1, 1)))


HOSTILE = [
    "",
    " ana",
    "a\0b",
    "a\nb",
    "a\u202eb",
    "\ud800",
    "e\u0301",
    "x" * 201,
    "x" * (1 << 20),
    17,
    b"ana",
    ["ana"],
]
ODD = ["'; DROP TABLE lines; --", '"ana"', "Ωμέγα", "分析者", "a\\b", "%s", "🐍", "x" * 200, "=1+1", "-", "NULL"]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda value: repr(value)[:20])
def test_ids_that_cannot_be_kept_are_refused(ledger: sf.Ledger, text: object) -> None:
    clinic = account(ledger)
    for field in ("analyst", "request_id", "plan", "data"):
        if text == "" and field in {"plan", "data"}:
            continue
        with pytest.raises(sf.InvalidParameter, match=field) as refusal:
            pure(**{field: text})
        assert len(str(refusal.value)) < 600
    with pytest.raises(sf.InvalidParameter):
        ledger.account(text, unit=PATIENT, budget=sf.Budget(1))  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter):
        clinic.requested(text)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter):
        clinic.analyst(text, share="0.5")  # type: ignore[arg-type]
    assert len(list(ledger)) == 1


@pytest.mark.parametrize("text", ODD, ids=lambda value: value[:10])
def test_ids_that_are_merely_odd_are_kept_as_they_are(ledger: sf.Ledger, text: str) -> None:
    clinic = account(ledger, name=text)
    clinic.analyst(text, share="0.5")
    line = clinic.charge(pure(question=text, plan=text, data=text, analyst=text, request_id=text))
    clinic.answer(line, json.dumps(text), {text: 1})
    found = clinic.requested(text, analyst=text, plan=text)
    assert found is not None
    assert json.loads(found.body) == text
    assert found.accuracy == {text: 1}
    assert clinic.stored(plan=text, data=text, accuracy={text: 1}) == found
    assert [each.analyst for each in ledger.lines(analyst=text)] == [text] * 3
    assert ledger.verify().holds


def test_texts_have_limits(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.charge(pure("0.1", question="x" * (1 << 20)))
    for question in ("x" * ((1 << 20) + 1), "a\0b", "\udfff", None):
        with pytest.raises(sf.InvalidParameter, match="question"):
            pure(question=question)
    line = clinic.charge(pure("0.1"))
    for body in ("a\0b", "\udfff", b"{}", None):
        with pytest.raises(sf.InvalidParameter, match="body"):
            clinic.answer(line, body, {})  # type: ignore[arg-type]
    for accuracy in ({"n": -1}, {"n": float("nan")}, {"n": "wide"}, {3: 1}, [("n", 1)]):
        with pytest.raises(sf.InvalidParameter):
            clinic.answer(line, "{}", accuracy)  # type: ignore[arg-type]
    clinic.answer(line, "{}", {})
    for wrong in (sf.Curve.pure(1), None, {"curve": 1}):
        with pytest.raises(sf.InvalidParameter, match="entry"):
            clinic.charge(wrong)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter, match="parts"):
        sf.Entry(sf.Cost(1, None, 0))  # type: ignore[arg-type]
    for nothing in ((), object(), (object(),), sf.Laplace(1), [sf.Curve.pure(1), None]):
        with pytest.raises(sf.InvalidParameter, match="parts"):
            sf.Entry(nothing)  # type: ignore[arg-type]


def test_the_clock_may_go_backwards_and_the_lines_do_not(ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    clinic = account(ledger)
    now = time.time_ns()
    for moment in (now + 10**13, now, 0, -(10**20), 10**24):
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        with ledger._guarded.store.reading() as rows:
            if ledger._guarded.store.shared:  # the clock is the server's
                monkeypatch.setattr(type(rows), "now", lambda _, moment=moment: moment // 1000)
        clinic.charge(pure("0.01"))
    times = [line.time for line in ledger]
    assert times == sorted(times)
    assert times[1] == times[2] == times[3] == times[4] < times[5]
    assert ledger.verify().holds


def test_an_entry_has_one_json_form() -> None:
    for parts in (sf.Curve.pure(1), sf.Charged(sf.Laplace(3), 2), (sf.Charged(sf.Exponential(1)), sf.Curve.pure(1))):
        entry = sf.Entry(parts, question="q", plan="p")  # type: ignore[arg-type]
        assert sf.loads(sf.dumps(entry)) == entry


@pytest.mark.parametrize(
    "value",
    [None, 1.5, b"x", [], {}, object(), float("nan"), "\ud800", True, json],
    ids=lambda value: type(value).__name__,
)
def test_values_of_no_use_are_refused_everywhere(ledger: sf.Ledger, tmp_path: Path, value: object) -> None:
    clinic = account(ledger)
    calls = [
        lambda: clinic.charge(value),
        lambda: clinic.answer(value, "1", {}),
        lambda: clinic.stored(plan=value, data="v"),
        lambda: clinic.requested(value),
        lambda: clinic.open_tab(value),
        lambda: clinic.amend(reason=value),
        lambda: clinic.correct(value, reason="r"),
        lambda: clinic.correct(sf.Curve.pure("0.1"), reason=value),
        lambda: clinic.analyst(value),
        lambda: clinic.abandon(value, reason="r"),
        lambda: clinic.join(value),
        lambda: ledger.account(value),
        lambda: ledger.acknowledge(value, reason="r"),
        lambda: ledger.export(value, tmp_path / "x"),
        lambda: ledger.export("json", value),
        lambda: ledger.backup(value),
        lambda: sf.Ledger.open(value),
    ]
    if value is not None:
        calls += [
            lambda: next(ledger.lines(account=value)),
            lambda: next(ledger.lines(since=value)),
            lambda: sf.Ledger.open(tmp_path / "y", anchor=value),
        ]
    for call in calls:
        with pytest.raises(sf.SfumatoError):
            call()
    assert len(list(ledger)) == 1


def test_a_line_that_was_tampered_with_is_not_answered(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    line = clinic.charge(pure())
    for change in ({"number": 1}, {"number": 10**30}, {"number": -1}, {"number": "2"}, {"hash": "0" * 64}):
        with pytest.raises(sf.InvalidParameter):
            clinic.answer(dataclasses.replace(line, **change), "1", {})  # type: ignore[arg-type]


def test_a_line_that_was_changed_in_the_file_is_not_believed(tmp_path: Path) -> None:
    """Each line that is read is checked against its seal, in a ledger that is open."""
    with sf.Ledger.open(tmp_path / "ledger") as ledger:
        clinic = account(ledger)
        clinic.answer(clinic.charge(pure(plan="p", data="v")), "1", {})
        clinic.charge(pure())
        connection = ledger._guarded.store._connection
        connection.execute("DROP TRIGGER no_update")
        connection.execute("UPDATE lines SET body = '2' WHERE number = 3")
        with pytest.raises(sf.LedgerDamaged, match="line 3"):
            clinic.stored(plan="p", data="v")


def test_a_refusal_proposes_what_account_and_share_both_accept(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "l.ledger") as ledger:
        clinic = account(ledger, sf.Budget(2))
        clinic.analyst("ana", share="0.25")
        for asked in ("3", "1"):
            with pytest.raises(sf.Overspent) as refused:
                clinic.charge(pure(asked, analyst="ana"))
            assert refused.value.largest == Fraction(1, 2)
        clinic.charge(pure("0.5", analyst="ana"))
