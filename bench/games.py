"""Auctions and crowds at scale, beside the physical limit: what numpy needs to touch the same numbers once.

Run with: .venv/bin/python bench/games.py
"""

from __future__ import annotations

import numpy as np
from timing import cpu_seconds

import sfumato as sf
from sfumato import games


def line(name: str, seconds: float, target: float, beside: str = "") -> None:
    print(f"{name:<64}{seconds * 1e3:>10.1f} ms (target {target * 1e3:,.0f})  {beside}")


def auctions() -> None:
    bids = np.random.default_rng(0).random(1_000_000)
    prices = [f"{i / 1000:.3f}" for i in range(1, 1001)]
    floats = np.array([float(p) for p in prices])

    def exact() -> None:
        """The best price without privacy."""
        sold = bids.size - np.searchsorted(np.sort(bids), floats)
        (floats * sold).argmax()

    limit = cpu_seconds(exact, 3)
    for kind in (sf.Exponential, sf.PermuteAndFlip):
        spent = cpu_seconds(lambda k=kind: games.digital_goods(bids, "0.5", prices, mechanism=k).release(), 3)
        name = f"an auction of 1,000,000 bids and 1,000 prices, {kind.__name__}"
        line(name, spent, 1, f"not private, by sorting: {limit * 1e3:.1f} ms ({limit / spent:.1f}×)")
    sale = games.digital_goods(bids, "0.5", prices).release()
    print(f"    revenue {float(sale.revenue):,.0f} of {float(sale.best):,.0f}")


def crowds() -> None:
    rng = np.random.default_rng(1)
    crowd = games.routes(rng.integers(0, 5, 10_000), rng.uniform(0, 0.3, (5, 50)), np.full(50, 0.6))
    settled = cpu_seconds(lambda: crowd.settle(), 1)
    mediation = games.equilibrium(crowd, 1, "1e-6")
    spent = cpu_seconds(lambda: games.equilibrium(crowd, 1, "1e-6").release().regret, 1)
    name = f"a congestion game of 10,000 players, 50 routes, {mediation.rounds} rounds"
    line(name, spent, 20, f"the exact equilibrium, not private: {settled * 1e3:.0f} ms ({settled / spent:.2f}×)")
    advice = mediation.release()
    tried = cpu_seconds(lambda: advice.deviation(2), 1)
    line("    every misreport of every type tried on 2 boards each", tried, 20)
    print(
        f"    regret {advice.regret:.4f}, with τ {advice.estimate:.4f}, textbook {advice.bound:.4f}; "
        f"welfare {advice.welfare:.4f} beside {crowd.welfare(crowd.settle()):.4f}"
    )


def enumeration() -> None:
    game = games.line(4, players=12)
    spent = cpu_seconds(lambda: games.exactly_truthful(game).proof(), 1)
    line("strict truthfulness proved: 4 places, 2 facilities, 12 players", spent, 5)


if __name__ == "__main__":
    auctions()
    crowds()
    enumeration()
