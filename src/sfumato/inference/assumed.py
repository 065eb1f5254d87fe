"""Assumed data for forecasts: independent columns, even over their declared ranges, from the policy alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.inference.design import Design

_ROWS = 2048
_PRIMES = 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97


def assumed_moments(design: Design, rows: int) -> Floats:
    """Return the moments of so many assumed rows, in units in which an indicator is 1 and a column in [−1, 1].

    The rows are a lattice, x_j = the fractional parts of multiples of √p_j (Weyl), so that no randomness is needed.
    """
    coordinates = coordinates_of_assumed_rows(design)
    gram = coordinates.T @ coordinates * (rows / _ROWS)
    index = design.gram_index
    moments = np.zeros(len(design.gram_entries_by_moment))
    moments[index[index >= 0]] = gram[index >= 0]
    return moments


def coordinates_of_assumed_rows(design: Design) -> Floats:
    """Return the coordinates of assumed rows."""
    steps = np.arange(1, _ROWS + 1)
    names = [column.factors[0] for column in design.columns if len(column.factors) == 1]
    uniform = {name: _irrational_multiples(steps, index) * 2 - 1 for index, name in enumerate(names)}
    columns = [np.prod([uniform[name] for name in column.factors], axis=0) for column in design.columns]
    values = [
        np.floor(_irrational_multiples(steps, len(names) + index) * len(category.values))
        for index, category in enumerate(design.categories)
    ]
    rows = np.ones((_ROWS, len(design.coordinates)))
    for index, coordinate in enumerate(design.coordinates):
        if coordinate.column is not None:
            rows[:, index] *= columns[coordinate.column]
        for category, value in coordinate.levels:
            rows[:, index] *= values[category] == value
    return rows


def _irrational_multiples(steps: NDArray[np.int64], index: int) -> Floats:
    """Return the fractional parts of multiples of an irrational number of its own."""
    irrational = math.sqrt(_PRIMES[index % len(_PRIMES)]) * (1 + index // len(_PRIMES) / math.pi)
    return np.asarray((steps * irrational) % 1.0)
