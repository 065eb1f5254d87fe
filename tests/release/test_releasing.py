"""One way out for every release: its cost follows from what is run, whoever pays, and what is stored has its keys."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import sfumato as sf
from sfumato.curator.proposals.table_auctions import AuctionProposal, AuctionRelease
from sfumato.ledger import Entry, StoredAnswer, Tab, spending
from sfumato.plan.readings.total_readings import GroupTotals, LinearScores, MeasureTotals
from sfumato.policy import Type
from sfumato.privacy import Cost, codec
from sfumato.release import releasing
from sfumato.release.measured import DeclaredGroupsRelease
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.parts.scales import GroupKeys
from sfumato.release.payers import BatchPayer, TabPayer
from sfumato.release.prices import Price
from sfumato.release.pricing import price_release
from sfumato.release.proposal import Proposal

DAYS = [dt.date(2024, 1, 1 + index) for index in range(3)]
ROWS = pa.table({"day": [DAYS[0]] * 6 + [None] * 2, "rate": [0.5, 2.25] * 4, "bid": [0.6] * 8})
COLUMNS = {
    "day": sf.Domain("date", values=DAYS, nullable=True),
    "rate": sf.Domain("real", values=["0.5", "2.25"]),
    "bid": sf.Domain("real", bounds=(0, 1)),
}
GROUPED = "SELECT day, rate, COUNT(*) AS n, SUM(bid) AS b FROM bids GROUP BY day, rate"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sf.Curator]:
    table = sf.Table("bids", ROWS, COLUMNS, id="row")
    policy = sf.Policy(sf.PrivacyUnit("bid", every_row=True), sf.Budget(100), {"bids": table})
    with sf.Curator(policy, tmp_path / "shop.ledger") as opened:
        yield opened


def auction(shop: sf.Curator) -> AuctionProposal:
    return shop.auction("bids", "bid", prices=["0.2", "0.4", "0.6", "0.8"])


def bodies(shop: sf.Curator) -> list[Any]:
    return [codec.loads(line.body) for line in shop.ledger if line.kind == "answer"]


# ── measurements and batches ───────────────────────────────────────────────────────────────────


def test_what_is_charged_is_the_curve_of_what_is_run(shop: sf.Curator) -> None:
    question = shop.sql(GROUPED)
    prepared = price_release(question.bounding_options, Price(1))
    curves = [each.mechanism.curve(each.reading.scaled.sensitivity) for each in prepared.batch.measurements]
    assert prepared.curve.max_divergence == sum(each.max_divergence or 0 for each in curves)
    question.release(epsilon=1)
    charge = next(line for line in shop.ledger if line.kind == "charge")
    assert charge.cost.amounts["pure"] == prepared.curve.max_divergence
    assert spending.read_parts(charge.parts) == prepared.batch.charged
    assert len(prepared.batch.mechanisms) == 2


def test_a_batch_costs_what_its_measurements_cost_together_whatever_they_read(shop: sf.Curator) -> None:
    one, other = (
        shop.sql(f"SELECT COUNT(*) FROM bids WHERE bid < {bound}").bounding_options[0] for bound in ("0.5", "0.7")
    )
    noise = sf.Laplace(1)
    assert Batch((Measurement(MeasureTotals(one), noise),) * 2).curve.max_divergence == 2
    assert (
        Batch((Measurement(MeasureTotals(one), noise), Measurement(MeasureTotals(other), noise))).curve.max_divergence
        == 2
    )
    with pytest.raises(sf.InvalidParameter, match="measurements must be non-empty"):
        Batch(())


# ── payers ─────────────────────────────────────────────────────────────────────────────────────


def _asked(shop: sf.Curator, what: str) -> releasing.ReleaseRequest:
    return releasing.ReleaseRequest(what, "", shop._context.engine.identity())


def test_a_tab_pays_for_a_choice_and_then_a_measurement_and_gives_back_the_rest(shop: sf.Curator) -> None:
    """Every step is charged before it is read, with a key of its own; the explicit end frees what is unspent."""
    account, engine, version = shop._context.account, shop._context.engine, shop._context.version
    proposal, question = auction(shop), shop.sql(GROUPED)
    choice = AuctionRelease(
        proposal.batch(2), proposal.question.groups, proposal.prices, proposal.unit, Price(2), version
    )
    assert isinstance(choice.batch.measurements[0].reading, LinearScores)
    totals = DeclaredGroupsRelease(
        price_release(question.bounding_options, Price(3)), question.shared_parts.requests, question.groups, version
    )
    with account.open_tab(account.cost(sf.Curve.pure(10)), question="choose, then measure") as tab:
        assert shop.budget.remaining["pure"] == 90
        payer = TabPayer(account, tab)
        sold = releasing.release(choice, _asked(shop, "choose"), payer=payer, engine=engine)
        assert tab.left["pure"] == 8
        measured = releasing.release(totals, _asked(shop, "measure"), payer=payer, engine=engine)
        assert tab.left["pure"] == 5
        assert (sold.value.price in proposal.prices, measured.free) == (True, False)
    assert shop.budget.remaining["pure"] == 95
    kinds = [line.kind for line in shop.ledger if line.kind not in ("account-open", "source")]
    assert kinds == ["tab-open", "step", "answer", "step", "answer", "tab-close"]
    assert bodies(shop) == [sold.value, measured.value]
    assert shop.ledger.verify().holds


def test_the_charge_of_several_questions_is_no_answer_to_one(shop: sf.Curator) -> None:
    """Its entry has neither plan nor data, so that no question finds it; a stored answer is returned uncharged."""
    opened: list[Entry] = []
    entry = Entry(sf.Curve.pure(2), "both", "a plan", "the data")

    def opening(charged: Entry) -> Tab:
        opened.append(charged)
        return shop._context.account.open_tab(shop._context.account.cost(charged.curve))

    payer = BatchPayer(opening, (), lambda _: ())
    assert payer.ask(entry, {}).begin() is None
    assert opened == [replace(entry, plan="", data="")]
    assert payer.is_charged()
    payer.stop()
    stored = StoredAnswer(1, dt.datetime.now(dt.UTC), "both", {}, "")
    repeated = BatchPayer(lambda _: stored, (), lambda _: ())
    assert repeated.ask(entry, {}).begin() is stored
    assert not repeated.is_charged()


def test_a_tab_never_pays_more_than_it_holds_and_no_row_is_read_for_it(
    shop: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, engine = shop._context.account, shop._context.engine
    question = shop.sql("SELECT COUNT(*) AS n FROM bids")
    kind = DeclaredGroupsRelease(
        price_release(question.bounding_options, Price(3)), question.shared_parts.requests, question.groups, ""
    )
    read: list[object] = []
    reads = type(engine).read
    monkeypatch.setattr(type(engine), "read", lambda *given: read.append(given) or reads(*given))
    tab = account.open_tab(account.cost(sf.Curve.pure(4)))
    payer = TabPayer(account, tab)
    releasing.release(kind, _asked(shop, "one"), payer=payer, engine=engine)
    with pytest.raises(sf.Overspent):
        releasing.release(kind, _asked(shop, "two"), payer=payer, engine=engine)
    assert len(read) == 1
    monkeypatch.setattr(type(engine), "read", lambda *_: 1 / 0)
    small = DeclaredGroupsRelease(
        price_release(question.bounding_options, Price(1)), question.shared_parts.requests, question.groups, ""
    )
    with pytest.raises(sf.Unanswered):
        releasing.release(small, _asked(shop, "three"), payer=payer, engine=engine)
    tab.stop()
    assert shop.budget.remaining["pure"] == 96  # the step that failed after its charge is spent
    with pytest.raises(sf.TabClosed):
        releasing.release(small, _asked(shop, "four"), payer=payer, engine=engine)
    assert isinstance(account.cost(sf.Curve.pure(1)), Cost)


# ── what is stored ─────────────────────────────────────────────────────────────────────────────


def test_a_stored_answer_carries_its_group_keys(shop: sf.Curator) -> None:
    question = shop.sql(GROUPED)
    answer = question.release(epsilon=1)
    (stored,) = bodies(shop)
    assert stored.keys.groups == question.groups
    assert stored.keys.codes == ()  # all combinations of four days, NULL among them, and two rates
    assert [len(column) for column in stored.columns] == [8] * 2
    again = shop.sql(GROUPED).release(epsilon=1)
    assert (again.rows, again.intervals, again.receipt.free) == (answer.rows, answer.intervals, True)
    assert {row[:2] for row in again.rows} == {(day, rate) for day in (*DAYS, None) for rate in (0.5, 2.25)}


values = {
    Type.INTEGER: st.integers(-(2**62), 2**62),
    Type.REAL: st.fractions(-(10**6), 10**6, max_denominator=1000),
    Type.TEXT: st.text(max_size=4) | st.sampled_from(["2024-01-01", "0.5", "1/3"]),
    Type.BOOLEAN: st.booleans(),
    Type.DATE: st.dates(),
    Type.TIMESTAMP: st.datetimes(),
}
keys = st.lists(st.sampled_from(list(values)), max_size=3).flatmap(
    lambda kinds: st.tuples(
        st.just(kinds), st.lists(st.tuples(*(st.none() | values[kind] for kind in kinds)), min_size=1, max_size=6)
    )
)


@given(keys)
def test_keys_of_every_type_are_read_back_as_they_were(made: tuple[list[Type], list[tuple[Any, ...]]]) -> None:
    kinds, groups = made
    written = codec.dumps(GroupKeys.encode(groups, kinds))
    read = codec.loads(written)
    assert list(read.groups) == groups
    assert [type(value) for key in read.groups for value in key] == [type(value) for key in groups for value in key]
    assert codec.dumps(read) == written


def test_totals_find_their_groups_whatever_the_order(shop: sf.Curator) -> None:
    """Keys of several types, NULL, and groups without rows; shuffled groups get shuffled totals."""
    question, engine = shop.sql(GROUPED), shop._context.engine
    bounded = question.bounding_options[0]
    found = dict(
        zip(question.groups, engine.read(GroupTotals(bounded, question.groups), 7)[:, 0].tolist(), strict=True)
    )
    half, more = Fraction(1, 2), Fraction(9, 4)
    assert found[DAYS[0], half] == found[DAYS[0], more] == 3
    assert found[None, half] == found[None, more] == 1
    assert sum(found.values()) == 8
    turned = question.groups[::-1]
    assert engine.read(GroupTotals(bounded, turned), 7)[:, 0].tolist() == [found[key] for key in turned]
    assert engine.read(GroupTotals(bounded, turned), 7).dtype == np.int64


def test_a_step_that_fails_ends_its_tab_and_gives_nothing_back(
    shop: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why a step failed may depend on rows, and whoever catches the error could otherwise ask for the rest back."""
    account, engine = shop._context.account, shop._context.engine
    question = shop.sql(GROUPED)
    kind = DeclaredGroupsRelease(
        price_release(question.bounding_options, Price(1)),
        question.shared_parts.requests,
        question.groups,
        shop._context.version,
    )
    spent = shop.budget.remaining["pure"]
    tab = account.open_tab(account.cost(sf.Curve.pure(3)), question="a series")
    with monkeypatch.context() as patch:
        patch.setattr(type(engine), "read", lambda *_: 1 / 0)
        with pytest.raises(sf.Unanswered):
            releasing.release(kind, _asked(shop, "one"), payer=TabPayer(account, tab), engine=engine)
    tab.stop()
    assert shop.budget.remaining["pure"] == spent - 3


# ── every proposal alike ───────────────────────────────────────────────────────────────────────


def test_seconds_and_progress_of_one_call(shop: sf.Curator) -> None:
    told: list[str] = []
    question = shop.sql(GROUPED)
    question.release(epsilon=1, progress=told.append, seconds=50)
    assert told == ["checking", "charging", "reading", "adding noise", "writing down"]
    before = len(list(shop.ledger))
    with pytest.raises(sf.Unsupported, match="takes too long to plan") as refused:  # before anything is charged
        question.release(epsilon=1, fresh=True, seconds="1e-9")
    assert refused.value.code == "slow-check"
    assert len(list(shop.ledger)) == before
    assert question.release(epsilon=1, fresh=True).rows  # the curator's limit is as it was
    before = len(list(shop.ledger))
    for wrong in (0, -1, "soon"):
        with pytest.raises(sf.InvalidParameter, match="seconds"):
            question.release(epsilon=1, fresh=True, seconds=wrong)
    assert len(list(shop.ledger)) == before


def test_weak_promises_are_told_where_they_are_asked_for(shop: sf.Curator) -> None:
    for weak in (
        lambda: auction(shop).release(6),
        lambda: shop.sql(GROUPED).release(epsilon=6),
        lambda: sf.games.digital_goods([0.5] * 9, epsilon=6, prices=[0.5]),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weak()
        assert [(each.category, each.filename) for each in caught] == [(sf.WeakPrivacy, __file__)]


def test_questions_and_auctions_are_proposals(shop: sf.Curator) -> None:
    proposals: list[tuple[Proposal, Any]] = [(shop.sql("SELECT COUNT(*) AS n FROM bids"), 3), (auction(shop), 3)]
    before = len(list(shop.ledger))
    for proposal, within in proposals:
        epsilon = proposal.price(within)
        assert str(proposal.explain(epsilon=epsilon))
        assert str(proposal.error(epsilon=epsilon))
    assert len(list(shop.ledger)) == before
    for proposal, within in proposals:
        epsilon = proposal.price(within)
        first, again = (proposal.release(epsilon=epsilon, request_id=proposal.identity[:9]) for _ in range(2))
        assert (first.receipt.free, again.receipt.free) == (False, True)
        assert first.receipt.hash == again.receipt.hash
