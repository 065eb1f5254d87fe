"""Least squares with robust errors: the sandwich of noisy moments and a noisy meat.

For the population the score g − Gβ has the covariance Σ e²·zzᵀ, whatever the variance of each row's error (Eicker 1967;
White 1980). The released meat stands for it. In the direction v of a coefficient (``inference.linear``) its part of the
variance is vᵀM̃v, a linear form of the released sums whose noise has a known deviation. One such deviation is added, as
to the variance of errors of one variance, so that noise seldom makes an interval too narrow. n/(n − p) corrects for the
fit (MacKinnon & White 1985, HC1), and n/(n − m) for as few as n/m units, where scores are added up by unit. Residuals
are those at the released coefficients: their distance from the least squares of the rows adds to the meat, and on the
average never takes away from it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.inference.clustered_meat import ScoreGrid
from sfumato.inference.design import Coordinate, Design
from sfumato.inference.linear import LinearFit
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.robust_meat import NoisyMeat, meat_estimates
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.quick_dataclass import dataclass


def residual_coefficients(fit: LinearFit) -> tuple[int, ...]:
    """Return the coefficient of every regressor's coordinate, at which residuals are measured."""
    middle, slope = fit.target_middle_and_slope
    coefficients = fit.coordinate_basis @ fit.estimate
    coefficients[0] -= middle / slope
    return rounded_coefficients(coefficients)


def coordinate_ratios(design: Design, products: Design) -> Floats:
    """Return, for each regressor's coordinate of a design, one of it in units of the same coordinate on another scale.

    A whole number with few values is scaled by a whole number, which does not reach S steps on every scale alike.
    """
    slopes = [
        {column.factors: column.slope for column in compared_design.columns} for compared_design in (design, products)
    ]

    def ratio(coordinate: Coordinate) -> float:
        if coordinate.column is None:
            return 1.0
        factors = products.columns[coordinate.column].factors
        return math.prod(float(slopes[1][factor,] / slopes[0][factor,]) for factor in factors)

    return np.array([ratio(coordinate) for coordinate in products.coordinates])


@dataclass(frozen=True)
class RobustFit(LinearFit):
    """A least-squares fit whose sampling errors are from a released meat."""

    meat: MomentEstimates
    gram_index: NDArray[np.intp]
    """The index of each entry of the meat among its estimates; −1 where it is 0."""
    ratios: Floats
    """What one of each regressor's coordinates is in units of the meat's, where steps of both scales differ."""
    clamp: float
    """k, in units of the scaled target."""
    rows_per_unit: int = 1
    """m: the most rows of a unit, whose scores are added up."""

    @classmethod
    def from_meat(cls, fit: LinearFit, noisy: NoisyMeat, products: Design) -> RobustFit:
        """Return the fit with the errors of a released meat."""
        meat, ratios = meat_estimates(noisy, products), coordinate_ratios(fit.design, products)
        clamp = float(noisy.clamp)
        return cls(fit.design, fit.moments, fit.one_row_per_unit, meat, products.gram_index, ratios, clamp)

    @classmethod
    def clustered(cls, fit: LinearFit, noisy: NoisyMeat, grid: ScoreGrid) -> RobustFit:
        """Return the fit with the errors of a released meat that is clustered by unit."""
        meat, ratios = grid.meat_estimates(noisy), coordinate_ratios(fit.design, grid.design)
        clamp = float(noisy.clamp)
        return cls(fit.design, fit.moments, fit.one_row_per_unit, meat, grid.gram_index, ratios, clamp, grid.rows)

    @property
    def shows_sampling_errors(self) -> bool:
        """Whether sampling errors are known: always, since scores of rows that correlate were added up."""
        return True

    def sampling_variance(self, direction: Floats) -> float:
        """Return the variance of the score in one direction: that of the meat and one deviation of its noise."""
        weights = self.ratios * (self.coordinate_basis @ direction)
        index = self.gram_index
        by_moment = np.zeros(len(self.meat.values))
        np.add.at(by_moment, index[index >= 0], np.outer(weights, weights)[index >= 0])
        value = float(by_moment @ self.meat.values)
        deviation = float(np.linalg.norm(by_moment @ self.meat.factor))
        freedom = max(1.0, self.rows - len(self.regressors))
        units = 1.0 if self.rows_per_unit == 1 else self.rows / max(1.0, self.rows - self.rows_per_unit)
        return max(value + deviation, deviation) * max(1.0, self.rows / freedom) * max(1.0, units)
