"""A list of prices says at what a good may be sold; it is public, and decided without looking at the bids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import POSITIVE, Number, exact

MOST_PRICES = 1_000_000


def price_list(prices: Any) -> tuple[tuple[Fraction, ...], int]:
    """Read public prices: give them ascending and different, with the unit in which all of them are whole."""
    if isinstance(prices, (str, bytes)) or not isinstance(prices, (Sequence, np.ndarray, range)) or not len(prices):
        raise InvalidParameter("prices", prices, "a list of at least one price")
    if len(prices) > MOST_PRICES:
        raise InvalidParameter("prices", f"{len(prices)} prices", f"at most {MOST_PRICES}")
    listed = tuple(sorted({exact(price, "prices", POSITIVE) for price in prices}))
    unit = math.lcm(*(price.denominator for price in listed))
    if listed[-1] * unit > 10**12:
        raise InvalidParameter("prices", "prices with many digits", "whole multiples of one unit, at most 1e12 of it")
    return listed, unit


def evenly_spaced_prices(top: Number, steps: int) -> list[Fraction]:
    """Give so many prices up to the highest, which is decided without looking at the bids."""
    highest = exact(top, "top", POSITIVE)
    return [highest * step / steps for step in range(1, steps + 1)]
