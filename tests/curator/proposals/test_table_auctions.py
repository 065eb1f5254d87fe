"""An auction among a curator's bids: charged before it is drawn, and drawn as the theorem says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato import games
from sfumato.cli import main
from sfumato.games.auctions import digital_goods
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.release.measurement import Measurement

PRICES = [Fraction(k, 20) for k in range(1, 21)]


def curator(
    folder: Path, bids: list[float | None], *, bidders: list[int] | None = None, neighbours: str = "add-remove"
) -> sf.Curator:
    columns = {"bid": sf.Domain("real", bounds=(0, 1))}
    if bidders is None:
        unit, table = (
            sf.PrivacyUnit("bid", every_row=True),
            sf.Table("bids", pyarrow.table({"bid": bids}), columns, id="row"),
        )
    else:
        held = pyarrow.table({"bid": bids, "who": bidders})
        unit, table = sf.PrivacyUnit("bidder"), sf.Table("bids", held, columns, id="who", max_rows=2)
    budget = sf.Budget(10, neighbours=neighbours)
    return sf.Curator(sf.Policy(unit, budget, {"bids": table}, size=100), folder / "bids.ledger")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_price_is_charged_and_near_the_best(tmp_path: Path, neighbours: str) -> None:
    bids = [0.1] * 300 + [0.6] * 400 + [0.9] * 100 + [None] * 7
    with curator(tmp_path, bids, neighbours=neighbours) as made:
        proposal = made.auction("bids", "bid", prices=PRICES)
        assert "20 prices" in str(proposal.explain(1))
        assert made.budget.remaining["pure"] == 10  # all that was free
        sold = proposal.release(epsilon=4, counting="0.25")
        assert made.budget.remaining["pure"] == 6
        assert [line.kind for line in made.ledger][-2:] == ["charge", "answer"]
        meant = [Fraction(str(bid)) for bid in bids if bid is not None]  # 0.6 is three fifths, and reaches them
        best, revenue = (max(p * sum(bid >= p for bid in meant) for p in among) for among in (PRICES, [sold.price]))
        assert revenue >= best - proposal.error(4, "0.25", confidence=1 - 1e-7)
        low, high = sold.revenue_range() or (0, 0)
        assert low - 200 <= revenue <= high + 200  # P(outside) ≤ 5 %, and by 200 more below 1e-6
        stored = sf.loads(next(line for line in made.ledger if line.kind == "answer").body)
        assert stored.purchase.salt
        assert replace(stored, purchase=stored.purchase.without_salt) == sold  # nobody is shown the salt of the line
        assert proposal.release(epsilon=4, counting="0.25") == sold  # bought already
        assert sold.receipt is not None
        assert (sold.receipt.guarantee, sold.receipt.neighbours, sold.receipt.free) == ("ε = 4", neighbours, False)
        assert sold.receipt.mechanisms == ("exponential mechanism, ε 3", "Laplace, scale 1")
        assert proposal.release(epsilon=2) == sold  # and as accurate
        assert made.budget.remaining["pure"] == 6


def test_the_same_counts_as_without_a_table(tmp_path: Path) -> None:
    bids = [0.05, 0.5, 0.50001, 0.999, 1.0, 0.0, 0.1, 0.3]
    with curator(tmp_path, [*bids]) as made:
        proposal = made.auction("bids", "bid", prices=PRICES)
        totals = made._context.engine.read(GroupTotals(proposal.bounded, proposal.question.groups), 0)
        _, counter = proposal.batch(1, "0.5").measurements
        assert counter.reading.extract(totals).tolist() == digital_goods(bids, 1, PRICES)._counts.tolist()


def test_two_bids_of_one_bidder_cost_twice(tmp_path: Path) -> None:
    with curator(tmp_path, [0.5] * 40, bidders=[k // 4 for k in range(40)]) as made:
        proposal = made.auction("bids", "bid", prices=PRICES)
        assert proposal.bounded.limits.rows == 2
        totals = made._context.engine.read(GroupTotals(proposal.bounded, proposal.question.groups), 0)
        assert totals.sum() == 20  # two of each bidder's four
        assert proposal.error(1) == pytest.approx(2 * _alone(tmp_path / "alone").error(1))
        assert proposal.batch(1).curve.max_divergence == 1


def _alone(folder: Path) -> games.AuctionProposal:
    folder.mkdir()
    return curator(folder, [0.5]).auction("bids", "bid", prices=PRICES)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_what_is_charged_covers_what_one_bidder_changes(tmp_path: Path, neighbours: str) -> None:
    """By enumeration of all that a bidder with two bids can do, and of both laws that are drawn from."""
    prices = [Fraction(1, 4), Fraction(1, 2), 1]
    with curator(tmp_path, [0.5], bidders=[1], neighbours=neighbours) as made:
        proposal = made.auction("bids", "bid", prices=prices)
        choice, counter = proposal.batch(2, "0.5").measurements
        bids = [np.array(each) for each in itertools.product(range(3), repeat=4) if sum(each) <= 2]
        none = np.zeros(4, np.int64)
        pairs = [(a, b) for a in bids for b in (bids if neighbours == "replace" else [none])]
        spread = rows = 0
        for a, b in pairs:
            scores, counts = (
                each.reading.extract(a[:, None]) - each.reading.extract(b[:, None]) for each in (choice, counter)
            )
            spread, rows = max(spread, int(scores.max() - scores.min())), max(rows, int(np.abs(counts).max()))
        most = 2 * 4  # two bids at the top price, which is four units
        assert spread == most if neighbours == "replace" else spread <= most
        assert choice.mechanism.rate * most == choice.mechanism.epsilon == 1
        assert Fraction(rows) / counter.mechanism.scale == 1
        assert proposal.batch(2, "0.5").curve.max_divergence == 2
        for twin in (
            sf.Exponential(1, 3),
            sf.Exponential(1, 4, neighbours=other(neighbours)),
            sf.Exponential(1, 4, grid=2),
        ):
            with pytest.raises(sf.InvalidParameter):
                Measurement(choice.reading, twin)


def other(neighbours: str) -> str:
    return "replace" if neighbours == "add-remove" else "add-remove"


def test_an_auction_is_a_proposal_like_a_question(tmp_path: Path) -> None:
    """Request ids, stored answers, receipts, prices, limits and progress: as every release has them."""
    told: list[str] = []
    with curator(tmp_path, [0.6] * 400) as made:
        proposal = made.auction("bids", "bid", prices=PRICES)
        least = proposal.price(within=20)
        assert proposal.error(least) <= 20 < proposal.error(least * 0.999)
        first = proposal.release(1, request_id="monday", progress=told.append)
        assert told == ["checking", "charging", "reading", "adding noise", "writing down"]
        again = proposal.release("0.1", request_id="monday")
        assert again == first
        assert again.receipt is not None
        assert again.receipt.free
        assert again.receipt.guarantee == "ε = 1"  # what was bought, not what was asked for
        assert made.budget.remaining["pure"] == 9
        other = made.auction("bids", "bid", prices=PRICES[:7])
        with pytest.raises(sf.RequestDiffers):
            other.release(1, request_id="monday")
        assert other.release(1) != first  # another auction
        assert proposal.release(1, fresh=True).receipt is not None
        proposal.release(1, "0.5")  # a count was never bought
        assert made.budget.remaining["pure"] == 6
        for wrong in (0, -1, "soon"):
            with pytest.raises(sf.InvalidParameter, match="seconds"):
                proposal.release(1, seconds=wrong)
        with pytest.raises(sf.Unsupported, match="takes too long to plan"):
            proposal.release(1, fresh=True, seconds="1e-9")


def test_what_is_no_column_of_bids_is_refused(tmp_path: Path) -> None:
    with curator(tmp_path, [0.5]) as made:
        for table, column in (("none", "bid"), ("bids", "none")):
            with pytest.raises(sf.InvalidParameter, match=r"one of the numeric columns of private tables: bids\.bid"):
                made.auction(table, column, prices=PRICES)
        with pytest.raises(sf.Overspent), pytest.warns(sf.WeakPrivacy):
            made.auction("bids", "bid", prices=PRICES).release(epsilon=11)
        assert made.budget.remaining["pure"] == 10


def test_the_command_charges_the_account(tmp_path: Path) -> None:
    (tmp_path / "bids.csv").write_text("bid\n" + "0.5\n" * 400)
    (tmp_path / "market.toml").write_text(
        """
[unit]
name = "bid"
budget = { epsilon = 2 }

[tables.bids]
source = "bids.csv"
id = "row"

[tables.bids.columns]
bid = { type = "real", bounds = [0, 1] }
"""
    )
    asked = ["auction", str(tmp_path / "market.toml"), "--table", "bids", "--column", "bid", "--steps", "4"]
    done = CliRunner().invoke(main, [*asked, "--epsilon", "1.5"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("price    0.5\nrevenue  between ")
    assert CliRunner().invoke(main, [*asked, "--epsilon", "1.5"]).stdout == done.stdout  # the same price, found again
    assert CliRunner().invoke(main, [*asked, "--epsilon", "1.9"]).exit_code == 3
    refused = CliRunner().invoke(main, ["auction", str(tmp_path / "bids.csv"), "--epsilon", "1"])
    assert refused.exit_code == 1
    assert "market.toml" in refused.output
    assert CliRunner().invoke(main, [*asked[:2], "--column", "none", "--epsilon", "0.1"]).exit_code == 2


def test_no_number_of_bids_wraps_around() -> None:
    """p·n beyond 64 bits would turn the best price into the worst, for one bid more."""
    import numpy as np

    from sfumato.games.auctions import Auction
    from sfumato.mechanisms import Exponential

    prices, unit = (Fraction(1, 10**6), Fraction(10**6)), 10**6
    selection = Exponential(1, sensitivity=10**12, monotone=True)
    for count in (9_223_372, 9_223_373, 2**62):
        sale = Auction(prices, Fraction(1), 1, selection, None, 0, np.array([count, count]), unit).release()
        assert sale.price == 10**6


def test_what_the_policy_declares_alone_need_not_be_named(tmp_path: Path) -> None:
    with curator(tmp_path, [0.5]) as made:
        assert made.auction(prices=PRICES).identity == made.auction("bids", "bid", prices=PRICES).identity
        assert made.auction("bids", prices=PRICES).identity == made.auction(column="bid", prices=PRICES).identity
    columns = {name: sf.Domain("real", bounds=(0, 1)) for name in ("bid", "ask")}
    held = sf.Table("bids", pyarrow.table({"bid": [0.5], "ask": [0.25]}), columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("bid", every_row=True), sf.Budget(1), {"bids": held})
    with sf.Curator(policy, tmp_path / "two.ledger") as two:
        with pytest.raises(sf.InvalidParameter, match=r"bids\.bid, bids\.ask; got 'bids\.\*'"):
            two.auction("bids", prices=PRICES)
        assert "bids.ask" in two.auction(column="ask", prices=PRICES).question.text
