"""Least squares with robust errors: the sandwich of noisy moments and a noisy meat.

For the population the score g − Gβ has the covariance Σ e²·zzᵀ, whatever the variance of each row's error (Eicker 1967;
White 1980). The released meat stands for it. In the direction v of a coefficient (``inference.linear``) its part of the
variance is vᵀM̃v, a linear form of the released sums whose noise has a known deviation. One such deviation is added, as
to the variance of errors of one variance, so that noise seldom makes an interval too narrow. n/(n − p) corrects for the
fit (MacKinnon & White 1985, HC1). Residuals are those at the released coefficients: their distance from the least
squares of the rows adds to the meat, and on the average never takes away from it.
"""

from __future__ import annotations

import numpy as np

from sfumato.inference.design import Design
from sfumato.inference.linear import Floats, LinearFit
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.robust_meat import NoisyMeat, meat_estimates
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.quick_dataclass import dataclass


def residual_coefficients(fit: LinearFit) -> tuple[int, ...]:
    """Return the coefficient of every regressor's coordinate, at which residuals are measured."""
    middle, slope = fit.target_scale
    coefficients = fit.coordinate_basis @ fit.estimate
    coefficients[0] -= middle / slope
    return rounded_coefficients(coefficients)


@dataclass(frozen=True)
class RobustFit(LinearFit):
    """A least-squares fit whose sampling errors are from a released meat."""

    meat: MomentEstimates
    products: Design
    clamp: float
    """k, in units of the scaled target."""

    @classmethod
    def of(cls, fit: LinearFit, noisy: NoisyMeat, products: Design) -> RobustFit:
        """Return the fit with the errors of a released meat."""
        meat = meat_estimates(noisy, products)
        return cls(fit.design, fit.moments, fit.one_row_per_unit, meat, products, float(noisy.clamp))

    def sampling_variance(self, direction: Floats) -> float:
        """Return the variance of the score in one direction: that of the meat and one deviation of its noise."""
        weights = self.coordinate_basis @ direction
        index = self.products.gram_index
        by_moment = np.zeros(len(self.meat.values))
        np.add.at(by_moment, index[index >= 0], np.outer(weights, weights)[index >= 0])
        value = float(by_moment @ self.meat.values)
        deviation = float(np.linalg.norm(by_moment @ self.meat.factor))
        freedom = max(1.0, self.rows - len(self.regressors))
        return max(value + deviation, deviation) * max(1.0, self.rows / freedom)
