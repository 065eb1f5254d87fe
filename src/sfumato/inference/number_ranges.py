"""Numbers as indicators of ranges: what a prediction from many columns is fitted to.

The declared bounds of a number are cut into ranges of equal width, each from its lower edge up to below its upper one.
The first has no lower end and the last no upper one, so every number, clamped or not, is in exactly one of them: a row
has at most one of their indicators, and what it adds to a squared norm is at most 1, as for a category or for a scaled
column. The edges follow from the policy alone.

A curve that a straight line misses is worth more than the noise on its ranges: of 4, 8, 16 and 32 ranges on four
targets of NIST's and PUMS's tables, 16 lost least to noise at ε = 0.1 and were better than straight lines on all at
ε = 1 (``bench/inference.py``); 32 are better still at ε = 1, and take twice as many sums.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.policy import Domain, Type
from sfumato.privacy.numbers import exact

RANGE_COUNTS = 16, 8, 4
"""The number of ranges of a number: the first with which a formula has few enough coordinates."""
_RANGE = re.compile(r"<(?P<first>\S+)|(?P<low>\S+) to <(?P<high>\S+)|≥(?P<last>\S+)")


def range_edges(domain: Domain, count: int) -> tuple[Fraction, ...]:
    """Return where the ranges of a bounded number meet; a range of whole numbers has at least one."""
    assert domain.range is not None
    low, high = (exact(end, "bounds") for end in domain.range)  # type: ignore[arg-type]
    if domain.type is Type.INTEGER:
        size = int(high - low) + 1
        count = min(count, size)
        return tuple(low + ceil(Fraction(index * size, count)) for index in range(1, count))
    inner = (low + index * (high - low) / count for index in range(1, count))
    return tuple(dict.fromkeys(Fraction(float(edge)) for edge in inner))  # as SQL and a label write them


def range_labels(edges: tuple[Fraction, ...]) -> tuple[str, ...]:
    """Return what stands for the ranges in the name of a coefficient: ``<20``, ``20 to <40`` and ``≥40``."""
    texts = [str(edge.numerator) if edge.denominator == 1 else repr(float(edge)) for edge in edges]
    between = (f"{low} to <{high}" for low, high in pairwise(texts))
    return (f"<{texts[0]}", *between, f"≥{texts[-1]}")


def in_labelled_range(label: str, cells: list[Any]) -> NDArray[np.bool_]:
    """Return which cells are numbers in the range of a label; none if it is the label of no range."""
    match = _RANGE.fullmatch(label)
    try:
        ends = {} if match is None else {name: float(text) for name, text in match.groupdict().items() if text}
    except ValueError:
        ends = {}
    if not ends:
        return np.zeros(len(cells), bool)
    low, high = ends.get("low", ends.get("last", -np.inf)), ends.get("high", ends.get("first", np.inf))
    is_number = [isinstance(cell, (Real, Decimal)) and not isinstance(cell, bool) for cell in cells]
    numbers = np.array([float(cell) if real else np.nan for cell, real in zip(cells, is_number, strict=True)])
    return (numbers >= low) & (numbers < high)
