"""An auction among the bids of a curator's table: charged through its ledger, like every release.

Bids are counted by the highest price they reach, with the limits of a unit enforced in the query; the price is selected
by the revenue those counts imply. Theorem (as for ``digital_goods``): a unit's bids, at most m, come and go one by one,
and each step moves all revenues the same way, by at most the highest price. So the noise of monotone scores at
sensitivity m·top is enough, for units added or removed and for units replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import numpy as np

from sfumato.curator import Curator, Question
from sfumato.errors import InvalidParameter
from sfumato.games.auctions import Auction, price_list
from sfumato.ledger import StoredAnswer
from sfumato.mechanisms import Exponential, Laplace
from sfumato.plan.bounding import Bounded
from sfumato.plan.canonical import digest
from sfumato.plan.expressions import Column, Expression, Field
from sfumato.plan.functions import call, literal
from sfumato.plan.limits import Bounding, Limits
from sfumato.plan.measures import Count
from sfumato.plan.nodes import Aggregate, Finish, Query, Scan
from sfumato.plan.words import many
from sfumato.policy import Type
from sfumato.privacy import Curve, Sensitivity, codec, compose
from sfumato.privacy.numbers import BELOW_ONE, CONFIDENCE, POSITIVE, Number, exact, text
from sfumato.release import door
from sfumato.release.prices import Price, warn_if_weak


@codec.value("sold")
@dataclass(frozen=True)
class Sold:
    """A price drawn for a curator's table, and a noisy count of the bids at or above it, if some of ε paid for one."""

    price: Fraction
    buyers: int | None
    counter: Laplace | None = field(default=None, repr=False)
    """The noise on the count."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", exact(self.price, "price", POSITIVE))

    def revenue_range(self, confidence: Number = "0.95") -> tuple[float, float] | None:
        """Where the revenue lies, with this confidence."""
        if self.buyers is None or self.counter is None:
            return None
        reach = int(self.counter.error(confidence))
        return float(self.price * max(0, self.buyers - reach)), float(self.price * max(0, self.buyers + reach))


@dataclass(frozen=True)
class TableAuction:
    """A proposal: only ``release`` spends."""

    question: Question = field(repr=False)
    prices: tuple[Fraction, ...]
    unit: int = field(repr=False)

    @property
    def bounded(self) -> Bounded:
        return self.question.options[0]

    def explain(self, epsilon: Number, counting: Number = 0, confidence: Number = "0.95") -> str:
        """Free, in words."""
        policy, said = self.question.setting.policy, text(exact(epsilon, "epsilon", POSITIVE))
        return "\n".join(
            [
                f"one of {len(self.prices)} prices up to {float(self.prices[-1]):g}, by Exponential",
                f"privacy: ε = {said} for {policy.unit}, {policy.neighbours.value}",
                f"at most {many(self.bounded.limits.rows, 'bid')} of one unit count",
                f"revenue: with confidence {float(exact(confidence, 'confidence', CONFIDENCE)):g} at most "
                f"{self.error(epsilon, counting, confidence):.6g} below the best of them",
            ]
        )

    def error(self, epsilon: Number, counting: Number = 0, confidence: Number = "0.95") -> float:
        """With this confidence the revenue is no further than this below that of the best price on the list. Free."""
        selection, _ = self._mechanisms(epsilon, counting)
        return selection.error(len(self.prices), confidence, on_grid=True) / self.unit

    def curve(self, epsilon: Number, counting: Number = 0) -> Curve:
        """What the price, and the count if there is one, leak about one unit."""
        neighbours = self.question.setting.policy.neighbours
        selection, counter = self._mechanisms(epsilon, counting)
        chosen = Curve.bounded_range(selection.epsilon, neighbours)
        if counter is None:
            return chosen
        return compose([chosen, counter.curve(Sensitivity(1, self.bounded.limits.rows, neighbours=neighbours))])

    def release(self, epsilon: Number, counting: Number = 0, *, fresh: bool = False) -> Sold:
        """Charges ε and draws the price; a share ``counting`` of it pays for the count.

        The same auction on the same data, at least as accurate, was paid for once: it is found again, free.
        """
        selection, counter = self._mechanisms(epsilon, counting)
        setting = self.question.setting
        asked = door.Asked(
            self.question.text, self.identity, setting.engine.identity(), setting.version, setting.analyst
        )
        accuracy: dict[str, Number] = {"shortfall": f"{self.error(epsilon, counting):.12g}"}
        accuracy |= {} if counter is None else {"buyers": counter.error("0.95")}
        found = None if fresh else setting.account.stored(plan=asked.plan, data=asked.data, accuracy=accuracy)
        if found is not None:
            return cast("Sold", codec.loads(found.body))
        warn_if_weak(Price(epsilon))

        def draw(totals: list[tuple[int, ...]]) -> door.Written[Sold]:
            counts = self._reached(totals)
            sale = Auction(self.prices, selection.epsilon, 1, selection, counter, 0, counts, self.unit).release()
            sold = Sold(sale.price, sale.buyers, counter)
            return door.Written(sold, codec.dumps(sold))

        spent = door.spend(
            asked.entry(self.curve(epsilon, counting), (selection,) if counter is None else (selection, counter)),
            self.bounded,
            self.question.groups,
            draw,
            accuracy,
            account=setting.account,
            engine=setting.engine,
            fresh=fresh,
            seconds=setting.seconds,
            progress=setting.progress,
        )
        return cast("Sold", codec.loads(spent.body)) if isinstance(spent, StoredAnswer) else spent[0]

    @property
    def identity(self) -> str:
        """Of the auction: no count of the same bids is mistaken for it."""
        return digest("auction", self.question.identity, self.prices)

    def _mechanisms(self, epsilon: Number, counting: Number) -> tuple[Exponential, Laplace | None]:
        total, share = exact(epsilon, "epsilon", POSITIVE), exact(counting, "counting", BELOW_ONE)
        rows = self.bounded.limits.rows
        selection = Exponential(total * (1 - share), sensitivity=rows * self.prices[-1] * self.unit, monotone=True)
        return selection, Laplace(rows / (total * share)) if share else None

    def _reached(self, totals: list[tuple[int, ...]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Bids at or above each price, from bids by how many prices they reach."""
        exactly = np.zeros(len(self.prices) + 1, np.int64)
        for (reached,), (count,) in zip(self.question.groups, totals, strict=True):
            exactly[int(reached)] = count  # type: ignore[arg-type]
        return np.cumsum(exactly[::-1])[::-1][1:]


def sell(curator: Curator, table: str, column: str, prices: Sequence[Number]) -> TableAuction:
    """A proposal to sell a digital good at one of these public prices to whoever bid in a table's column."""
    listed, unit = price_list(prices)
    declared = curator.policy.tables.get(table)
    if declared is None or declared.public or column not in declared.columns:
        raise InvalidParameter("column", f"{table}.{column}", "a column of numbers in a private table")
    domain = declared.columns[column]
    if not domain.type.numeric:
        raise InvalidParameter("column", f"{table}.{column}", "a column of numbers in a private table")
    bid = Field(0, table, column)
    reached = _reaching(Column(bid, domain), listed, 0, len(listed))
    query = Query(Aggregate(Scan(table, declared.every_row, {bid: domain}), (reached,), (Count(),)), Finish(()))
    limits = Limits.of(declared)
    bounding = None if declared.every_row else Bounding.SAMPLE  # whole bids: a price is reached or it is not
    words = f"an auction among {table}.{column} at {len(listed)} prices up to {text(listed[-1])}"
    return TableAuction(Question(curator.setting, words, query, limits, bounding), listed, unit)


def _reaching(bid: Column, prices: tuple[Fraction, ...], low: int, high: int) -> Expression:
    """How many of the prices a bid reaches, found by halving: between ``low`` and ``high`` of them."""
    if low == high:
        return literal(Type.INTEGER, low)
    middle = (low + high + 1) // 2
    reaches = call(">=", bid, literal(Type.REAL, prices[middle - 1]))
    return call("CASE", reaches, _reaching(bid, prices, middle, high), _reaching(bid, prices, low, middle - 1))
