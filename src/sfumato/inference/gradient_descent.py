"""Logistic regression with many columns by noisy gradient steps, for prediction.

A curvature of p columns has p²/2 sums; for a hundred columns its noise would drown all but its largest directions. So
only its diagonal is bought, once: the spread of every column. Columns are centred at their released means, and a step
divides each part of the gradient by the released sum of squares around the mean, at least ``SPREAD_FLOOR`` times the
noise that one scan for the whole price would have: a rare value moves by no more than its rows can tell. Steps have
momentum (Polyak 1964). All constants are public, and were chosen on NIST's and PUMS's tables, not on ADULT.

The result has no intervals: where it stops is decided by the number of steps, and the floor holds rare values back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.array_types import Floats
from sfumato.inference.assumed import coordinates_of_assumed_rows
from sfumato.inference.design import Design, regressors
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.quick_dataclass import dataclass

MOMENTUM = 0.8
SPREAD_FLOOR = 120.0
"""The least sum of squares that a step divides by, in deviations of a gradient bought with the whole price."""


@dataclass(frozen=True)
class LikelihoodDescent:
    """Coefficients of centred coordinates on their way to the largest likelihood."""

    means: Floats
    """The released mean of every coordinate; 0 for the intercept, which is not centred."""
    squares: Floats
    """The sum of squares around the mean that a step divides by."""
    counts: Floats
    """The released sum of every coordinate: of indicators, how many rows have them."""
    centred: Floats
    velocity: Floats

    @classmethod
    def starting_at_zero(cls, sums: Floats, squares: Floats, deviation: float) -> LikelihoodDescent:
        """Start at 0, with the released spread and the deviation of a gradient bought with the whole price."""
        rows = max(float(sums[0]), 1.0)
        means = np.clip(sums / rows, -1.0, 1.0)
        means[0] = 0.0
        centred_squares = np.maximum(squares - rows * means**2, SPREAD_FLOOR * deviation)
        return cls(means, centred_squares, sums, np.zeros(len(sums)), np.zeros(len(sums)))

    @property
    def next_coefficients(self) -> tuple[int, ...]:
        """The coefficients of the next scan: where the momentum alone would lead (Nesterov 1983)."""
        return rounded_coefficients(self._uncentred(self.centred + MOMENTUM * self.velocity))

    @property
    def coefficients(self) -> Floats:
        """The coefficient of every coordinate."""
        return self._uncentred(self.centred)

    def _uncentred(self, centred: Floats) -> Floats:
        coefficients = centred.copy()
        coefficients[0] -= float(self.means @ centred)
        return coefficients

    def step(self, gradient: Floats) -> LikelihoodDescent:
        """Take one step along a released gradient."""
        centred_gradient = gradient - self.means * gradient[0]
        velocity = MOMENTUM * self.velocity + centred_gradient / self.squares
        return replace(self, velocity=velocity, centred=self.centred + velocity)


def commonest_references(design: Design, counts: Floats) -> tuple[int, ...]:
    """Return the reference value of each category: the named one, or the commonest by the released counts."""
    index = {
        coordinate.levels: position
        for position, coordinate in enumerate(design.coordinates)
        if coordinate.column is None
    }
    return tuple(
        category.reference
        if category.reference is not None
        else max(range(len(category.values)), key=lambda value: counts[index[frozenset({(number, value)})]])
        for number, category in enumerate(design.categories)
    )


def regressor_coefficients(design: Design, references: tuple[int, ...], coefficients: Floats) -> dict[str, float]:
    """Return the coefficients of the model's regressors that predict the same for every row: all values of a category
    add up to 1, so those of its reference go to the intercept.
    """
    fitted = regressors(design, references)
    basis = np.zeros((len(coefficients), len(fitted)))
    for column, regressor in enumerate(fitted):
        for coordinate_index, part in regressor.parts.items():
            basis[coordinate_index, column] = part
    lengths = np.linalg.norm(basis, axis=0)
    rows = coordinates_of_assumed_rows(design)[:, : len(coefficients)]
    solution = np.linalg.lstsq(rows @ (basis / lengths), rows @ coefficients, rcond=None)[0]
    return {regressor.label: float(value) for regressor, value in zip(fitted, solution / lengths, strict=True)}
