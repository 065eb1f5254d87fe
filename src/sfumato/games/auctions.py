"""An auction sells at one price for everybody: a digital good, of which there are copies enough, at a posted price.

The price is selected by the revenue p·#{bids ≥ p} it would bring. Theorem (after McSherry & Talwar 2007, with half
the noise). A bid that is replaced moves all revenues the same way, by at most the highest price: raising a bid lowers
none, lowering it raises none. So the noise of monotone scores is enough, which under *replace* neighbours is false for
other scores, and with confidence 1 − β the revenue is within (top/ε)(ln|prices| + ln 1/β) of the best price on the
list. Against every price up to the top, the list's widest step costs at most n·step more. The number of bids, n, is
public.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Laplace, PermuteAndFlip
from sfumato.privacy import Curve, Neighbours, Sensitivity, compose
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import BELOW_ONE, CONFIDENCE, NONNEGATIVE, POSITIVE, Number, above, exact, text, whole
from sfumato.release.prices import Price, price_list, warn_if_weak

_MOST_SCORE = (1 << 62) - 1
_BIDS = "finite numbers ≥ 0, one for each bid"


@dataclass(frozen=True)
class Sale:
    """A sale is the price that was drawn. Only ``price`` and ``buyers`` are private releases: revenue and best are the
    seller's own figures, exact, and publishing them gives the bids away.
    """

    price: Fraction
    buyers: int | None
    """A noisy count of the bids at or above the price, if a share of ε was kept for it."""
    revenue: Fraction = field(repr=False)
    best: Fraction = field(repr=False)
    """OPT: the revenue of the best price on the list."""
    auction: Auction = field(repr=False)

    __repr__ = spelled

    def promised(self, confidence: Number = "0.95") -> float:
        """Give the theorem's bound: with this confidence the revenue is at least OPT − (top/ε)(ln|prices| + ln 1/β)."""
        return float(self.best) - self.auction.error(confidence)

    def revenue_range(self, confidence: Number = "0.95") -> tuple[float, float] | None:
        """Say where the revenue lies, from the noisy count: safe to publish."""
        noise = self.auction.counter
        if self.buyers is None or noise is None:
            return None
        reach = int(noise.error(confidence))
        held = min(max(0, self.buyers), self.auction.size)  # moved there first: no range is cut to a point
        low, high = min(held, self.buyers) - reach, max(held, self.buyers) + reach
        return float(self.price * max(0, low)), float(self.price * min(self.auction.size, high))

    def __str__(self) -> str:
        return f"price {float(self.price):g}"


@dataclass(frozen=True, eq=False)
class Auction:
    """An auction is a proposal: nothing is drawn before ``release``."""

    prices: tuple[Fraction, ...]
    epsilon: Fraction
    per_bidder: int
    selection: Exponential | PermuteAndFlip
    counter: Laplace | None
    size: int = field(repr=False)
    """How many bids there are: public under replace neighbours."""
    _counts: NDArray[np.int64] = field(repr=False)
    _unit: int = field(repr=False)

    __repr__ = spelled

    @property
    def curve(self) -> Curve:
        """Give what the price, and the count if there is one, leak about one bidder, under replace neighbours."""
        if self.counter is None:
            return self.price_curve
        change = Sensitivity(per_group=self.per_bidder, neighbours=Neighbours.REPLACE)
        return compose([self.price_curve, self.counter.curve(change)])

    @property
    def price_curve(self) -> Curve:
        """Give the curve of what the price alone leaks. The selection states it for bids added or removed; by the
        theorem above it holds for replaced ones at the same ε, not at twice it.
        """
        make = Curve.bounded_range if isinstance(self.selection, Exponential) else Curve.pure
        return make(self.selection.epsilon, Neighbours.REPLACE)

    @property
    def spacing(self) -> Fraction:
        """Give the widest step of the list, from 0 up."""
        return max(b - a for a, b in zip((Fraction(0), *self.prices), self.prices, strict=False))

    def error(self, confidence: Number = "0.95") -> float:
        """Bound how far the revenue falls below the best on the list, with this confidence."""
        return self.selection.error(len(self.prices), confidence, on_grid=True) / self._unit

    def price(self, within: Number, confidence: Number = "0.95") -> float:
        """Find the ε at which ``error`` would be this: the error is in inverse proportion to ε."""
        wanted = exact(within, "within", POSITIVE)
        return float(self.epsilon) * self.error(confidence) / float(wanted) * (1 + 1e-12)

    def explain(self, confidence: Number = "0.95") -> str:
        """Free, in words: what is promised to the bidders, and to the seller."""
        top = float(self.prices[-1])
        gain = self.price_curve.delta(0) * self.per_bidder * top
        sure = f"{float(exact(confidence, 'confidence', CONFIDENCE)):.4g}"
        bidder = "a bid is" if self.per_bidder == 1 else f"a bidder's {self.per_bidder} bids are"
        return "\n".join(
            [
                f"one of {len(self.prices)} prices up to {top:g}, by {type(self.selection).__name__}",
                f"privacy: ε = {text(self.epsilon)} when {bidder} replaced; how many bids there are is public",
                f"truth: no bidder gains more than {gain:.4g} by bidding anything but their value",
                f"revenue: with confidence {sure} at most {self.error(confidence):.6g} below the best of them,",
                f"         and {float(self.spacing) * self.size:.6g} more against every price in between",
            ]
        )

    def release(self) -> Sale:
        """Draw the price."""
        units = np.array([int(price * self._unit) for price in self.prices], np.int64)
        # Counts beyond what fits are cut: that moves no two tables further apart, and no product wraps around.
        scores = units * np.minimum(self._counts, _MOST_SCORE // units[-1])
        chosen = self.selection.choose(scores)
        sold = int(self._counts[chosen])
        buyers = None if self.counter is None else int(self.counter.apply(sold))
        revenue, best = (Fraction(int(each), self._unit) for each in (scores[chosen], scores.max()))
        return Sale(self.prices[chosen], buyers, revenue, best, self)


def digital_goods(
    bids: Any,
    epsilon: Number,
    prices: Sequence[Number],
    *,
    counts: Any = None,
    per_bidder: int = 1,
    counting: Number = 0,
    mechanism: type[Exponential | PermuteAndFlip] = Exponential,
) -> Auction:
    """Propose to sell at one of the ``prices``, which are public.

    ``counts`` says how often each bid was made, where equal bids come together. A bidder holds at most ``per_bidder``
    of the bids, and ε covers all of them. A share ``counting`` of ε may be kept to publish how many bought. The
    exponential mechanism tempts bidders least, permute-and-flip loses least revenue.

    >>> auction = digital_goods([0.2, 0.7, 0.7, 0.9] * 500, epsilon=1, prices=[0.1, 0.2, 0.5, 0.7, 0.9])
    >>> print(auction.explain())
    one of 5 prices up to 0.9, by Exponential
    privacy: ε = 1 when a bid is replaced; how many bids there are is public
    truth: no bidder gains more than 0.2204 by bidding anything but their value
    revenue: with confidence 0.95 at most 4.14465 below the best of them,
             and 600 more against every price in between
    >>> auction.release().price
    Fraction(7, 10)
    """
    total = exact(epsilon, "epsilon", POSITIVE)
    warn_if_weak(Price(total))
    held, share = whole(per_bidder, "per_bidder", at_least=1), exact(counting, "counting", BELOW_ONE)
    if mechanism not in (Exponential, PermuteAndFlip):
        raise InvalidParameter("mechanism", mechanism, "Exponential or PermuteAndFlip")
    listed, unit = price_list(prices)
    reached = _reached(listed, bids)
    many = np.ones(reached.size, np.int64) if counts is None else _counted(counts, reached.size)
    size = int(many.sum())
    if size * int(listed[-1] * unit) >= 1 << 62:
        raise InvalidParameter("prices", "prices with many digits", "prices with fewer digits")
    # A bidder's several bids are replaced one after the other, each step in one direction: a chain of per_bidder steps.
    selection = mechanism(total * (1 - share), sensitivity=held * listed[-1] * unit, monotone=True)
    counter = Laplace(held / (total * share)) if share else None
    exactly = np.zeros(len(listed) + 1, np.int64)
    np.add.at(exactly, reached, many)
    at_least = np.cumsum(exactly[::-1])[::-1][1:]
    return Auction(listed, total, held, selection, counter, size, at_least, unit)


def _counted(counts: Any, bids: int) -> NDArray[np.int64]:
    many = np.asarray(counts)
    if many.dtype.kind not in "iu" or many.shape != (bids,) or (many < 0).any() or not many.any():
        raise InvalidParameter("counts", "something else", "a whole number ≥ 0 for each bid, not all 0")
    if many.sum(dtype=np.float64) > 1 << 53:
        raise InvalidParameter("counts", "larger numbers", "at most 2^53 bids in all")
    return many.astype(np.int64)


def _reached(prices: tuple[Fraction, ...], bids: Any) -> NDArray[np.int64]:
    """Count the prices that each bid reaches; refusals show no bid.

    A float reaches a price iff it reaches the least float that means at least that price; other numbers are compared
    exactly.
    """
    array = bids if isinstance(bids, np.ndarray) and not isinstance(bids, np.ma.MaskedArray) else None
    if isinstance(bids, Sequence) and not isinstance(bids, (str, bytes)) and bids:
        if not all(type(bid) is float for bid in bids):
            return _reached_exactly(prices, bids)
        array = np.array(bids, np.float64)
    if array is None or array.dtype.kind not in "iuf" or array.ndim != 1 or not array.size:
        raise InvalidParameter("bids", "something else", _BIDS)
    if array.dtype.kind == "f" and array.dtype.itemsize != 8:
        return _reached_exactly(prices, list(array))  # a short float means its own shortest decimal
    if not (array >= 0).all() or np.isinf(array).any():
        raise InvalidParameter("bids", "a bid below 0, or none", _BIDS, fix="leave such rows out, or clamp them to 0")
    if array.dtype.kind != "f":
        array = np.minimum(array.astype(np.uint64), np.uint64(1 << 53))  # above every price, and a float
    steps = np.array([above(price) for price in prices])
    return np.searchsorted(steps, array.astype(np.float64), side="right").astype(np.int64)


def _reached_exactly(prices: tuple[Fraction, ...], bids: Sequence[Any]) -> NDArray[np.int64]:
    known: dict[tuple[type, Any], int] = {}  # equal bids are many, and reading a number exactly takes a while
    try:
        for bid in bids:
            if (type(bid), bid) not in known:
                known[type(bid), bid] = bisect_right(prices, exact(bid, "bids", NONNEGATIVE))
        return np.array([known[type(bid), bid] for bid in bids], np.int64)
    except (InvalidParameter, TypeError):  # what cannot be a key is no number either
        raise InvalidParameter("bids", "something else", _BIDS) from None
