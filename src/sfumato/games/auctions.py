"""Digital-goods auction: unlimited supply, sold to everybody at one posted price.

The price is selected by its revenue p·#{bids ≥ p}. Theorem (after McSherry & Talwar 2007, with half the noise).
Replacing one bid changes all revenues in the same direction, by at most the highest price: raising a bid lowers none,
lowering it raises none. So the noise for monotone scores is enough, which under *replace* neighbours is false for other
scores, and with confidence 1 − β the revenue is within (top/ε)(ln|prices| + ln 1/β) of the best price on the list.
Against every price up to the top, the list's widest step costs at most n·step more. The number of bids, n, is public.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import Exponential, Laplace, PermuteAndFlip
from sfumato.mechanisms.grids import describe_array
from sfumato.privacy import Curve, Neighbours, Sensitivity, compose
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import (
    BELOW_ONE,
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    NONNEGATIVE,
    POSITIVE,
    Number,
    decimal_float_above,
    exact,
    exact_integer,
    format_exact,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price, parse_prices_and_denominator, warn_if_weak

_MAX_SCORE = (1 << 62) - 1
_BIDS = "a list of finite numbers of at least 0"
_WRITE_BIDS = "for example, write bids=[3, 4.5, 10]"


@dataclass(frozen=True)
class Sale:
    """A drawn price. Only ``price`` and ``buyers`` are private releases: ``revenue`` and ``best`` are exact figures for
    the seller, and publishing them would reveal bids.
    """

    price: Fraction
    buyers: int | None
    """A noisy count of the bids at or above the price, if a share of ε was reserved for it."""
    revenue: Fraction = field(repr=False)
    best: Fraction = field(repr=False)
    """OPT: the revenue of the best price on the list."""
    auction: Auction = field(repr=False)

    __repr__ = constructor_repr

    def revenue_bound(self, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return OPT − (top/ε)(ln|prices| + ln 1/β), which the revenue reaches with this confidence."""
        return float(self.best) - self.auction.error(confidence)

    def revenue_range(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[float, float] | None:
        """Return a confidence interval of the revenue from the noisy count: safe to publish."""
        noise = self.auction.count_noise
        if self.buyers is None or noise is None:
            return None
        half_width = int(noise.error(confidence))
        possible_buyers = min(
            max(0, self.buyers), self.auction.size
        )  # clamped first, so that no range shrinks to a point
        low, high = min(possible_buyers, self.buyers) - half_width, max(possible_buyers, self.buyers) + half_width
        return float(self.price * max(0, low)), float(self.price * min(self.auction.size, high))

    def __str__(self) -> str:
        return f"price {float(self.price):g}"


@dataclass(frozen=True, eq=False)
class Auction:
    """An auction proposal: nothing is drawn before ``release``."""

    prices: tuple[Fraction, ...]
    epsilon: Fraction
    per_bidder: int
    selection: Exponential | PermuteAndFlip
    count_noise: Laplace | None
    size: int = field(repr=False)
    """How many bids there are: public under replace neighbours."""
    _counts: NDArray[np.int64] = field(repr=False)
    _unit: int = field(repr=False)

    __repr__ = constructor_repr

    @property
    def curve(self) -> Curve:
        """The privacy curve of the price, and of the count if there is one, for one bidder under replace neighbours."""
        if self.count_noise is None:
            return self.price_curve
        change = Sensitivity(per_group=self.per_bidder, neighbours=Neighbours.REPLACE)
        return compose([self.price_curve, self.count_noise.curve(change)])

    @property
    def price_curve(self) -> Curve:
        """The privacy curve of the price alone. The selection states it for bids added or removed; by the theorem above
        it holds for replaced bids at the same ε, not at twice it.
        """
        make = Curve.bounded_range if isinstance(self.selection, Exponential) else Curve.pure
        return make(self.selection.epsilon, Neighbours.REPLACE)

    @property
    def widest_gap(self) -> Fraction:
        """The widest gap between neighbouring prices, counting 0 as the first."""
        return max(b - a for a, b in zip((Fraction(0), *self.prices), self.prices, strict=False))

    def error(self, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Bound how far the revenue falls below the best on the list, with this confidence."""
        return self.selection.error(len(self.prices), confidence, on_grid=True) / self._unit

    def price(self, within: Number, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return the ε at which ``error`` would be ``within``: the error is inversely proportional to ε."""
        target_error = exact(within, "within", POSITIVE)
        return float(self.epsilon) * self.error(confidence) / float(target_error) * (1 + 1e-12)

    def explain(self, confidence: Number = DEFAULT_CONFIDENCE) -> str:
        """Describe the guarantees to the bidders and to the seller. This is free: no bid is read."""
        top = float(self.prices[-1])
        gain = self.price_curve.delta(0) * self.per_bidder * top
        level = f"{float(exact(confidence, 'confidence', CONFIDENCE)):.4g}"
        bidder = "a bid is" if self.per_bidder == 1 else f"a bidder's {self.per_bidder} bids are"
        return "\n".join(
            [
                f"one of {len(self.prices)} prices up to {top:g}, by {type(self.selection).__name__}",
                f"privacy: ε = {format_exact(self.epsilon)} when {bidder} replaced; the number of bids is public",
                f"truthfulness: no bidder gains more than {gain:.4g} by bidding anything but their true value",
                f"revenue: with confidence {level} at most {self.error(confidence):.6g} below the best of them,",
                f"         and {float(self.widest_gap) * self.size:.6g} more against every price in between",
            ]
        )

    def release(self) -> Sale:
        """Draw the price."""
        units = np.array([int(price * self._unit) for price in self.prices], np.int64)
        # Counts are clamped to what fits 62 bits: neighbouring scores get no further apart, and no product overflows.
        scores = units * np.minimum(self._counts, _MAX_SCORE // units[-1])
        price_index = self.selection.choose(scores)
        sold = int(self._counts[price_index])
        buyers = None if self.count_noise is None else int(self.count_noise.apply(sold))
        revenue, best = (Fraction(int(score), self._unit) for score in (scores[price_index], scores.max()))
        return Sale(self.prices[price_index], buyers, revenue, best, self)


def digital_goods(
    bids: Any,
    epsilon: Number,
    prices: Sequence[Number],
    *,
    counts: Any = None,
    per_bidder: int = 1,
    count_share: Number = 0,
    mechanism: type[Exponential | PermuteAndFlip] = Exponential,
) -> Auction:
    """Propose to sell at one of the ``prices``, which are public.

    ``counts`` holds the multiplicity of each bid, where equal bids are listed once. A bidder makes at most
    ``per_bidder`` of the bids, and ε covers all of them. A share ``count_share`` of ε may be reserved to publish the
    number of buyers. The exponential mechanism gives bidders the least incentive to misreport, permute-and-flip loses
    the least revenue.

    >>> auction = digital_goods([0.2, 0.7, 0.7, 0.9] * 500, epsilon=1, prices=[0.1, 0.2, 0.5, 0.7, 0.9])
    >>> print(auction.explain())
    one of 5 prices up to 0.9, by Exponential
    privacy: ε = 1 when a bid is replaced; the number of bids is public
    truthfulness: no bidder gains more than 0.2204 by bidding anything but their true value
    revenue: with confidence 0.95 at most 4.14465 below the best of them,
             and 600 more against every price in between
    >>> auction.release().price
    Fraction(7, 10)
    """
    total = exact(epsilon, "epsilon", POSITIVE)
    warn_if_weak(Price(total))
    max_bids, share = exact_integer(per_bidder, "per_bidder", at_least=1), exact(count_share, "count_share", BELOW_ONE)
    if mechanism not in (Exponential, PermuteAndFlip):
        fix = "write mechanism=sf.Exponential, without parentheses, or leave out mechanism"
        raise InvalidParameter("mechanism", mechanism, "the class Exponential or PermuteAndFlip", fix=fix)
    sorted_prices, unit = parse_prices_and_denominator(prices)
    prices_reached = _count_reached_prices_per_bid(sorted_prices, bids)
    multiplicities = (
        np.ones(prices_reached.size, np.int64)
        if counts is None
        else _checked_multiplicities(counts, prices_reached.size)
    )
    size = int(multiplicities.sum())
    if size * int(sorted_prices[-1] * unit) >= 1 << 62:
        raise InvalidParameter(
            "prices",
            ValueWords("numbers with too many digits"),
            "a list of numbers with few digits, because the revenue is computed exactly",
            fix="round the prices, for example to 3.14 instead of 3.14159",
        )
    # A bidder's bids are replaced one after the other, each step monotone: a chain of per_bidder steps.
    selection = mechanism(total * (1 - share), sensitivity=max_bids * sorted_prices[-1] * unit, monotone=True)
    counter = Laplace(max_bids / (total * share)) if share else None
    bids_by_price = np.zeros(len(sorted_prices) + 1, np.int64)
    np.add.at(bids_by_price, prices_reached, multiplicities)
    buyers_at_price = np.cumsum(bids_by_price[::-1])[::-1][1:]
    return Auction(sorted_prices, total, max_bids, selection, counter, size, buyers_at_price, unit)


def _checked_multiplicities(counts: Any, bids: int) -> NDArray[np.int64]:
    multiplicities = np.asarray(counts)
    if (
        multiplicities.dtype.kind not in "iu"
        or multiplicities.shape != (bids,)
        or (multiplicities < 0).any()
        or not multiplicities.any()
    ):
        raise InvalidParameter(
            "counts",
            describe_array(multiplicities)
            if multiplicities.dtype.kind not in "iu" or multiplicities.ndim != 1
            else ValueWords("a list that has another length, a number below 0 or only zeros"),
            "a list of whole numbers ≥ 0, one for each bid, and not all 0",
            fix="for three bids, write counts=[2, 1, 1]",
        )
    if multiplicities.sum(dtype=np.float64) > 1 << 53:
        rule = "whole numbers whose sum is at most 2^53"
        raise InvalidParameter("counts", ValueWords("a larger sum"), rule, fix="give smaller counts, or fewer bids")
    return multiplicities.astype(np.int64)


def _count_reached_prices_per_bid(prices: tuple[Fraction, ...], bids: Any) -> NDArray[np.int64]:
    """Return for each bid the number of prices at or below it. Error messages show no bid.

    A float is at or above a price iff it is at or above the least float that is; other numbers are compared exactly.
    """
    array = bids if isinstance(bids, np.ndarray) and not isinstance(bids, np.ma.MaskedArray) else None
    if isinstance(bids, Sequence) and not isinstance(bids, (str, bytes)) and bids:
        if not all(type(bid) is float for bid in bids):
            return _count_reached_prices_per_bid_exactly(prices, bids)
        array = np.array(bids, np.float64)
    if array is None or array.dtype.kind not in "iuf" or array.ndim != 1 or not array.size:
        got = ValueWords("a value that is not a list of numbers, or has none")
        raise InvalidParameter("bids", got, _BIDS, fix=_WRITE_BIDS)
    if array.dtype.kind == "f" and array.dtype.itemsize != 8:
        return _count_reached_prices_per_bid_exactly(
            prices, list(array)
        )  # a float32 stands for its own shortest decimal
    if not (array >= 0).all() or np.isinf(array).any():
        raise InvalidParameter(
            "bids",
            ValueWords("a list with a bid that is negative, infinite or missing"),
            _BIDS,
            fix="leave out such bids, or set them to 0",
        )
    if array.dtype.kind != "f":
        array = np.minimum(array.astype(np.uint64), np.uint64(1 << 53))  # above every price, and exact as a float
    price_floats = np.array([decimal_float_above(price) for price in prices])
    return np.searchsorted(price_floats, array.astype(np.float64), side="right").astype(np.int64)


def _count_reached_prices_per_bid_exactly(prices: tuple[Fraction, ...], bids: Sequence[Any]) -> NDArray[np.int64]:
    cache: dict[tuple[type, Any], int] = {}  # equal bids are frequent, and exact parsing is slow
    try:
        for bid in bids:
            if (type(bid), bid) not in cache:
                cache[type(bid), bid] = bisect_right(prices, exact(bid, "bids", NONNEGATIVE))
        return np.array([cache[type(bid), bid] for bid in bids], np.int64)
    except (InvalidParameter, TypeError):  # an unhashable value is not a number either
        got = ValueWords("a list with a bid that is not a number of at least 0")
        raise InvalidParameter("bids", got, _BIDS, fix=_WRITE_BIDS) from None
