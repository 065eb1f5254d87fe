"""An auction among a curator's bids: charged before it is drawn, and drawn as the theorem says."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato import games
from sfumato.cli import main
from sfumato.games.auctions import digital_goods

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
        proposal = games.sell(made, "bids", "bid", PRICES)
        assert "20 prices" in proposal.explain(1)
        assert made.budget.remaining["pure"] == 10  # all that was free
        sold = proposal.release(epsilon=4, counting="0.25")
        assert made.budget.remaining["pure"] == 6
        assert [line.kind for line in made.ledger][-2:] == ["charge", "answer"]
        meant = [Fraction(str(bid)) for bid in bids if bid is not None]  # 0.6 is three fifths, and reaches them
        best, revenue = (max(p * sum(bid >= p for bid in meant) for p in among) for among in (PRICES, [sold.price]))
        assert revenue >= best - proposal.error(4, "0.25", confidence=1 - 1e-7)
        low, high = sold.revenue_range() or (0, 0)
        assert low - 200 <= revenue <= high + 200  # P(outside) ≤ 5 %, and by 200 more below 1e-6
        assert sf.loads(next(line for line in made.ledger if line.kind == "answer").body) == sold
        assert proposal.release(epsilon=4, counting="0.25") == sold  # bought already
        assert proposal.release(epsilon=2) == sold  # and as accurate
        assert made.budget.remaining["pure"] == 6


def test_the_same_counts_as_without_a_table(tmp_path: Path) -> None:
    bids = [0.05, 0.5, 0.50001, 0.999, 1.0, 0.0, 0.1, 0.3]
    with curator(tmp_path, [*bids]) as made:
        proposal = games.sell(made, "bids", "bid", PRICES)
        totals = made._context.engine.totals(proposal.bounded, proposal.question.groups, 0)
        assert proposal._reached(totals).tolist() == digital_goods(bids, 1, PRICES)._counts.tolist()


def test_two_bids_of_one_bidder_cost_twice(tmp_path: Path) -> None:
    with curator(tmp_path, [0.5] * 40, bidders=[k // 4 for k in range(40)]) as made:
        proposal = games.sell(made, "bids", "bid", PRICES)
        assert proposal.bounded.limits.rows == 2
        totals = made._context.engine.totals(proposal.bounded, proposal.question.groups, 0)
        assert sum(count for (count,) in totals) == 20  # two of each bidder's four
        assert proposal.error(1) == pytest.approx(2 * _alone(tmp_path / "alone").error(1))
        assert proposal.curve(1).max_divergence == 1


def _alone(folder: Path) -> games.TableAuction:
    folder.mkdir()
    return games.sell(curator(folder, [0.5]), "bids", "bid", PRICES)


def test_what_is_no_column_of_bids_is_refused(tmp_path: Path) -> None:
    with curator(tmp_path, [0.5]) as made:
        for table, column in (("none", "bid"), ("bids", "none")):
            with pytest.raises(sf.InvalidParameter, match="column of numbers"):
                games.sell(made, table, column, PRICES)
        with pytest.raises(sf.Overspent), pytest.warns(sf.WeakPrivacy):
            games.sell(made, "bids", "bid", PRICES).release(epsilon=11)
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
    assert CliRunner().invoke(main, [*asked[:2], "--epsilon", "0.1"]).exit_code == 2


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
