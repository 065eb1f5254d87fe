"""A curator that many share: shares, standings, pages of history, drains, and data that changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.curator import amend, curators, policy_account
from sfumato.errors import AccountDiffers, Draining, SourceChanged, SourceTaken
from sfumato.ledger import Line
from sfumato.ledger.accounts.reservations import Reservation
from sfumato.ledger.stores.sqlite import SQLiteStore
from sfumato.privacy import Curve
from sfumato.release.prices import Price, weak_price_warnings
from sfumato.release.requests import PriceRequest

POLICY = """
[unit]
name = "patient"
size = 40
neighbours = "{neighbours}"
budget = {{ epsilon = 4.0, delta = 1e-5 }}

[tables.visits]
source = "visits.parquet"
id = "who"
max_rows = 2
columns = {{ ward = {{ values = ["A", "B"] }}, day = {{ type = "date", bounds = [2024-01-01, 2024-01-07] }} }}

[analysts]
ana = {{ share = 0.25 }}
bob = {{ share = 1 }}
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"
WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def write_rows(file: Path, units: int) -> None:
    days = pa.array([date(2024, 1, 1)] * units)
    parquet.write_table(pa.table({"who": list(range(units)), "ward": ["A"] * units, "day": days}), file)


@pytest.fixture(params=["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def policy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_rows(tmp_path / "visits.parquet", 40)
    file = tmp_path / "clinic.toml"
    file.write_text(POLICY.format(neighbours=request.param))
    return file


@pytest.fixture
def clinic(policy: Path) -> Iterator[sf.Curator]:
    with sf.open(policy) as curator:
        yield curator


# ── shares ─────────────────────────────────────────────────────────────────────────────────────


def test_a_share_is_written_once_and_enforced_each_time(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.as_analyst("ana")
    head = clinic.ledger.head
    guarded = clinic.ledger._guarded
    with monkeypatch.context() as patched:  # nobody waits for a lock either
        patched.setattr(guarded, "writing", lambda **_: pytest.fail("a transaction was opened for writing"))
        for _ in range(3):
            ana = clinic.as_analyst("ana")
    assert clinic.ledger.head == head
    with pytest.raises(sf.Overspent, match="share"):
        ana.sql(COUNT).release(epsilon="1.1")
    ana.sql(COUNT).release(epsilon=1)
    with pytest.raises(sf.Overspent, match="share"):
        clinic.as_analyst("ana").sql(WARDS).release(epsilon="0.01")
    clinic.as_analyst("bob").sql(WARDS).release(epsilon="0.01")


def test_a_share_that_changed_is_written_and_enforced(policy: Path, clinic: sf.Curator) -> None:
    old = clinic.as_analyst("ana")
    head = clinic.ledger.head
    policy.write_text(policy.read_text().replace("share = 0.25", "share = 0.125"))
    with sf.open(policy) as changed:
        changed.as_analyst("ana")
        assert changed.ledger.head[0] == head[0] + 1
    with pytest.raises(sf.Overspent, match="share"):  # a view of before is held to what the ledger says now
        old.sql(COUNT).release(epsilon="0.6")


def test_a_receipt_tells_an_analyst_what_is_left_of_their_share(clinic: sf.Curator) -> None:
    ana = clinic.as_analyst("ana")
    mine = ana.sql(COUNT).release(epsilon="0.75").receipt
    assert mine.share == "ana"
    assert mine.remaining.startswith("ε = 0.25 of 1")
    assert "left of the share of ana for ordinary answers: ε = 0.25" in str(mine)
    owner = clinic.sql(WARDS).release(epsilon="0.5").receipt
    assert (owner.share, owner.remaining) == ("", "ε = 2.75 of 4")
    clinic.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon="2.625")
    again = clinic.as_analyst("ana").sql(COUNT).release(epsilon="0.5").receipt
    assert again.free
    assert again.remaining.startswith("ε = 0.125")  # the account has less left than the share would allow


# ── stored answers ─────────────────────────────────────────────────────────────────────────────


def test_a_question_shows_each_line_s_own_numbers_however_often_it_is_asked(clinic: sf.Curator) -> None:
    """What a line shows is kept with its question: not for another line, another confidence, or all numbers jointly."""
    held = clinic.sql(WARDS)
    bought = [held.release(epsilon="0.001", fresh=True) for _ in range(4)]
    assert len({answer.rows for answer in bought}) == 4
    stored = held.release(epsilon="0.001")
    (line,) = (answer for answer in bought if answer.receipt.line == stored.receipt.line)
    assert (stored.rows, stored.intervals) == (line.rows, line.intervals)
    for shown_as in ({"confidence": "0.5"}, {"joint": True}, {}):
        here = held.release(epsilon="0.001", **shown_as)
        anew = clinic.sql(f"{WARDS} ").release(epsilon="0.001", **shown_as)  # a question that keeps nothing yet
        assert here.receipt.free
        assert (here.rows, here.intervals) == (anew.rows, anew.intervals)
        assert (here.intervals != stored.intervals) is bool(shown_as)


def test_what_is_left_is_read_anew_for_a_stored_answer(clinic: sf.Curator) -> None:
    held = clinic.sql(COUNT)
    held.release(epsilon="0.5")
    before = held.release(epsilon="0.5").receipt
    clinic.sql(WARDS).release(epsilon="0.25")
    after = held.release(epsilon="0.5").receipt
    assert (before.free, after.free, before.line) == (True, True, after.line)
    assert (before.remaining, after.remaining) == ("ε = 3.5 of 4", "ε = 3.25 of 4")


def test_the_ledger_is_read_once_and_written_twice(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh release without a request id is read and decided in the transactions that write."""
    begun: list[str] = []
    begin = SQLiteStore._transaction

    def noted(store: SQLiteStore, kind: str) -> Any:
        begun.append(kind)
        return begin(store, kind)

    held = clinic.sql(COUNT)
    held.release(epsilon="0.25", fresh=True)
    monkeypatch.setattr(SQLiteStore, "_transaction", noted)
    cases: list[tuple[int, sf.Question, dict[str, Any]]] = [
        (0, held, {"fresh": True}),
        (1, held, {"fresh": True, "request_id": "r"}),
        (1, clinic.sql(WARDS), {}),
    ]
    for reads, question, options in cases:
        begun.clear()
        assert not question.release(epsilon="0.25", **options).receipt.free
        assert begun == ["BEGIN"] * reads + ["BEGIN IMMEDIATE"] * 2
    begun.clear()
    assert held.release(epsilon="0.25", fresh=True, request_id="r").receipt.free
    assert begun == ["BEGIN"]


def test_every_release_at_one_price_has_a_salt_of_its_own(clinic: sf.Curator) -> None:
    held = clinic.sql(COUNT)
    strategy = held.release_strategy(held.price_release(PriceRequest("0.5")))
    bought = [strategy.result_at_extreme_totals().purchase for _ in range(3)]
    assert len({terms.salt for terms in bought}) == 3
    assert all(len(terms.salt) == 32 for terms in bought)
    assert len({terms.without_salt for terms in bought}) == 1


# ── standings ──────────────────────────────────────────────────────────────────────────────────


def test_a_standing_is_computed_once_for_each_last_line(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str | None] = []
    real = policy_account.compute_standings

    def counted(policy: sf.Policy, account: object, analyst: str | None) -> object:
        computed.append(analyst)
        return real(policy, account, analyst)  # type: ignore[arg-type]

    monkeypatch.setattr(policy_account, "compute_standings", counted)
    ana = clinic.as_analyst("ana")
    first = clinic.standing()
    for _ in range(5):
        assert clinic.standing() == first
        assert ana.standing() == clinic.standing("ana") != first
    assert computed == [None, "ana"]
    ana.sql(COUNT).release(epsilon="0.5")
    assert clinic.standing().left["pure"] == Fraction("3.5")
    assert ana.standing().left["pure"] == Fraction("0.5")
    assert computed == [None, "ana", None, "ana"]


def test_a_standing_knows_what_others_spent_and_amended(policy: Path, clinic: sf.Curator) -> None:
    assert clinic.standing().left["pure"] == 4
    with sf.open(policy) as other:  # as another process would
        other.sql(COUNT).release(epsilon=1)
    assert clinic.standing().left["pure"] == 3
    policy.write_text(policy.read_text().replace("epsilon = 4.0", "epsilon = 5.0"))
    clinic.amend(reason="a second year")
    assert clinic.standing().epsilon == 5
    assert clinic.standing("ana").epsilon == clinic.as_analyst("ana").standing().epsilon


def test_no_charge_looks_at_a_standing(clinic: sf.Curator) -> None:
    """What is shown may be of before; the transaction that charges reads the ledger itself."""
    told = clinic.standing()
    clinic.sql(COUNT).release(epsilon="3.5")
    head = clinic.ledger.head
    clinic._standings[None] = curators._CachedStanding(head, clinic.policy, told)  # as wrong as can be
    assert clinic.standing().left["pure"] == 4
    assert not clinic.sql(WARDS).error(epsilon=1).accepted
    with pytest.raises(sf.Overspent):
        clinic.sql(WARDS).release(epsilon=1)
    assert clinic.ledger.head == head


# ── history ────────────────────────────────────────────────────────────────────────────────────


def test_history_goes_on_after_a_line(clinic: sf.Curator) -> None:
    ana = clinic.as_analyst("ana")
    for number in range(4):
        (ana if number % 2 else clinic).sql(COUNT).release(epsilon="0.01", fresh=True)
    for curator in (clinic, ana):
        every = [line.number for line in curator.history()]
        assert every == sorted(every)
        seen: list[int] = []
        while page := list(curator.history(after=seen[-1] if seen else 0, limit=2)):
            assert len(page) <= 2
            seen += [line.number for line in page]
        assert seen == every
    mine = [line.number for line in clinic.history("ana", after=0, limit=100)]
    assert mine == [line.number for line in ana.history()]
    assert all(line.analyst == "ana" for line in ana.history(limit=3))
    with pytest.raises(sf.InvalidParameter):
        ana.history("bob", after=1)
    for wrong in ({"after": -1}, {"limit": 0}, {"after": "x"}):
        with pytest.raises(sf.InvalidParameter):
            clinic.history(**wrong)  # type: ignore[arg-type]


def test_a_line_reads_back_from_json(clinic: sf.Curator) -> None:
    clinic.as_analyst("ana").sql(COUNT).release(epsilon="1/3", request_id="one")
    lines = list(clinic.history())
    assert {line.kind for line in lines} >= {"account-open", "source", "share", "charge", "answer"}
    for line in lines:
        assert Line.from_json(line.to_json()) == line
    with pytest.raises(sf.InvalidParameter):
        Line.from_json(lines[0].to_json().replace(str(lines[0].time.year), "never", 1))


# ── weak prices ────────────────────────────────────────────────────────────────────────────────


def test_a_price_in_rho_is_weak_where_the_epsilon_that_it_promises_is() -> None:
    strong, weak = Fraction("0.463"), Fraction("0.464")
    assert Curve.concentrated(strong).epsilon("1e-6") < 5 < Curve.concentrated(weak).epsilon("1e-6")
    assert weak_price_warnings(Price(rho=strong)) == ()
    (said,) = weak_price_warnings(Price(rho=weak))
    assert said == (
        "weak privacy: ρ = 0.464 at δ = 1e-06 is ε = 5.01, which lets an attacker's odds grow by a factor of up to e^ε"
    )


def test_a_weak_price_in_rho_is_told_aloud_and_with_the_answer(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("epsilon = 4.0", "epsilon = 40.0"))
    with sf.open(policy) as curator:
        with pytest.warns(sf.WeakPrivacy, match="weak privacy: ρ = 1 at δ = 1e-06 is ε = 7.77"):
            bought = curator.sql(COUNT).release(rho=1)
        assert bought.receipt.weak == weak_price_warnings(Price(rho=1))
        curator.sql(COUNT).release(rho="0.4", fresh=True)  # and says nothing


def test_a_weak_price_is_told_with_the_answer_to_whoever_reads_it(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("epsilon = 4.0", "epsilon = 40.0"))
    (weak,) = weak_price_warnings(Price(6))
    with sf.open(policy) as curator:
        with pytest.warns(sf.WeakPrivacy):
            bought = curator.sql(COUNT).release(epsilon=6)
        again = curator.as_analyst("ana").sql(COUNT).release(epsilon=1)
        assert again.receipt.free
        for answer in (bought, again, sf.Answer.from_json(bought.to_json())):
            assert answer.warnings[0] == weak
            assert answer.receipt.weak == (weak,)
            assert repr(answer).count(weak) == 1
        with pytest.warns(sf.WeakPrivacy):
            together = curator.workload([WARDS]).release(epsilon=7)
        assert any("weak privacy" in each for each in together.warnings)
        assert not curator.sql("SELECT COUNT(DISTINCT who) AS n FROM visits").release(epsilon=1).warnings


# ── draining ───────────────────────────────────────────────────────────────────────────────────


def test_a_drain_waits_for_charged_work_and_refuses_new_work(clinic: sf.Curator) -> None:
    ana = clinic.as_analyst("ana")
    stored = clinic.sql(WARDS).release(epsilon="0.5")
    charged, go, answers = threading.Event(), threading.Event(), []

    def progress(phase: str) -> None:
        if phase == "reading":  # it is charged by now
            charged.set()
            go.wait(60)

    worker = threading.Thread(target=lambda: answers.append(ana.sql(COUNT).release(epsilon="0.5", progress=progress)))
    worker.start()
    assert charged.wait(60)
    assert clinic.drain(seconds=0) is False
    head = clinic.ledger.head
    for ask in (clinic, ana):
        with pytest.raises(Draining):
            ask.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon="0.1")
    for refused in (
        lambda: clinic.workload([COUNT]).release(epsilon="0.1"),
        lambda: clinic.above(3).release("0.1"),
        lambda: clinic.limits("visits").release("0.1"),
        lambda: clinic.mwem("visits", ["ward"], 1, rounds=1).release(epsilon="0.1"),
        lambda: clinic.synthesize("visits", "independent", 1, columns=["ward"]).release(epsilon="0.1"),
        lambda: clinic.marginals("visits", [["ward"]]).release(epsilon="0.1"),
    ):
        with pytest.raises(Draining):
            refused()
    assert clinic.ledger.head == head  # nothing was charged, held or written
    assert clinic.sql(WARDS).release(epsilon="0.5").rows == stored.rows  # bought before: no new work
    assert clinic.sql(COUNT).error(epsilon=1).columns
    assert clinic.sql(COUNT).preview().is_preview
    go.set()
    assert clinic.drain() is True
    worker.join()
    assert len(answers) == 1
    assert [line.kind for line in clinic.history()][-1] == "answer"


def test_a_drained_session_answers_no_more_and_a_failed_release_is_not_waited_for(clinic: sf.Curator) -> None:
    session = clinic.above(3).release("0.5")
    with pytest.raises(sf.Overspent):
        clinic.sql(COUNT).release(epsilon="4.5")
    assert clinic.drain(seconds=0) is True
    with pytest.raises(Draining):
        session.ask(COUNT)
    session.close()
    with pytest.raises(sf.SfumatoError, match="only the owner"):
        clinic.as_analyst("ana").drain()
    with pytest.raises(sf.InvalidParameter):
        clinic.drain(seconds=-1)


# ── data that changed ──────────────────────────────────────────────────────────────────────────


def test_changed_data_are_a_new_version_of_the_same_account(policy: Path, clinic: sf.Curator) -> None:
    first = clinic.sql(COUNT).release(epsilon=1)
    write_rows(policy.parent / "visits.parquet", 41)
    with pytest.raises(SourceChanged):
        clinic.sql(WARDS).release(epsilon=1)
    ana = clinic.as_analyst("ana")
    with ana.reopen() as again, clinic.reopen() as owner:
        assert owner.name == clinic.name
        assert owner.standing() == clinic.standing()
        assert owner.standing().left["pure"] == 3
        assert owner.ledger.accounts == clinic.ledger.accounts == ("clinic",)
        answer = owner.sql(COUNT).release(epsilon=1)  # other data: bought before means nothing
        assert not answer.receipt.free
        assert (first.receipt.data, answer.receipt.data) == ("version 1", "version 2")
        assert clinic.standing().left["pure"] == 2
        with pytest.raises(sf.Overspent, match="share"):
            again.sql(WARDS).release(epsilon="1.5")
        again.sql(WARDS).release(epsilon=1)
        with pytest.raises(sf.Overspent):
            owner.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(epsilon="1.5")
    assert list(clinic.history())  # the ledger of the old one is its own to close
    with pytest.raises(SourceChanged):
        clinic.sql(WARDS).release(epsilon="0.1", fresh=True)


def test_reopening_meets_the_terms_and_sources_of_the_account(policy: Path, clinic: sf.Curator) -> None:
    other = policy.parent / "other"
    other.mkdir()
    write_rows(other / "visits.parquet", 7)
    (other / "shop.toml").write_text(policy.read_text())
    with sf.Curator(other / "shop.toml", clinic.ledger) as shop:
        (policy.parent / "visits.parquet").write_bytes((other / "visits.parquet").read_bytes())
        with pytest.raises(SourceTaken):  # the people of another account
            clinic.reopen()
        with shop.reopen() as again:  # a ledger that was given stays open
            assert again.ledger is clinic.ledger
        assert clinic.ledger.accounts == ("clinic", "shop")
    policy.write_text(policy.read_text().replace("epsilon = 4.0", "epsilon = 5.0"))
    write_rows(policy.parent / "visits.parquet", 42)
    amend(policy, reason="a second year")
    with pytest.raises(AccountDiffers):  # amended elsewhere: this curator's policy is one of before
        clinic.reopen()


class Nothing:
    """A limit within which nothing can be charged."""

    class Full(Exception):
        pass

    def reserve(self, epsilon: Fraction | None) -> Reservation:
        raise Nothing.Full(epsilon)


def test_a_limit_outlasts_new_data_and_views(clinic: sf.Curator) -> None:
    """Whoever was handed a limited curator gets an equally limited one of the data as they are now."""
    limited = clinic.limited(Nothing())
    for view in (limited, limited.as_analyst("ana")):
        with view.reopen() as again:
            for each in (view, again, again.as_analyst("bob")):
                with pytest.raises(Nothing.Full):
                    each.sql(COUNT).release(epsilon="0.1")
    assert not clinic.ledger.account("clinic").spent["pure"]
