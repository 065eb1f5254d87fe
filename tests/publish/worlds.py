"""Small attributes, their marginals as matrices, and brute force over them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.marginals.attributes import Attribute, Attributes, ListedCell, OtherCell
from sfumato.publish.marginals.blocks import AttributeSet

SIZES = ((2, 3, 4), (2, 2, 2, 3), (5, 1, 4))


def attribute(size: int, levels: Sequence[Sequence[int]] = (), name: str = "a") -> Attribute:
    cells = (*map(ListedCell, range(size - 1)), OtherCell())
    return Attribute(name, "integer", cells, tuple(map(tuple, levels)))


def attributes(sizes: Sequence[int]) -> Attributes:
    return tuple(attribute(size, name=f"a{place}") for place, size in enumerate(sizes))


def leveled() -> Attributes:
    """Two attributes with levels, of parts that are split unevenly, between plain ones."""
    days = attribute(8, [(0, 0, 0, 1, 1, 2, 2, 3), (0, 0, 0, 0, 0, 5, 5, 9)], "day")
    codes = attribute(5, [(4, 7, 4, 7, 2)], "code")
    return attribute(3, name="sex"), days, codes, attribute(2, name="flag")


def rounded() -> Attribute:
    """An attribute whose parts are split by 2, 3, 5, 7, 11 and 13: weights of parents are rounded."""
    parts = [number for number, k in enumerate((2, 3, 5, 7, 11, 13)) for _ in range(k)]
    return attribute(len(parts) + 1, [(*parts, 99)])


def subsets(places: Sequence[int]) -> list[AttributeSet]:
    return [each for k in range(len(places) + 1) for each in itertools.combinations(places, k)]


def summing(sizes: Sequence[int], places: AttributeSet) -> NDArray[np.float64]:
    """The matrix that makes the marginal over these attributes from the full table."""
    found = np.ones((1, 1))
    for place, size in enumerate(sizes):
        found = np.kron(found, np.eye(size) if place in places else np.ones((1, size)))
    return found


def average(sizes: Sequence[int], places: AttributeSet) -> NDArray[np.float64]:
    """The projection P_B on the marginal over the block's attributes."""
    found = np.ones((1, 1))
    for place in places:
        found = np.kron(found, np.eye(sizes[place]) - 1 / sizes[place])
    return found


def fractions_close(one: Fraction, other: Fraction, relative: float) -> bool:
    return abs(one / other - 1) < relative
