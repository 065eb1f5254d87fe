"""Logistic regression by noisy Newton steps, with intervals from the last scan.

Let S(β) = Σ (y − σ(β·x))·x be the score of the rows at hand, and β̂ its root. A scan at β₀, the coefficients that the
earlier scans led to, releases g̃ = S(β₀) + e and H̃ = H(β₀) + E, where H = −∂S/∂β. To first order S(β) = g − H·(β − β₀),
so that g̃ − H̃·(β̂ − β₀) is e − E·(β̂ − β₀): noise alone, whose covariance is known for every β̂. This is the score of a
least-squares fit with the Gram matrix H̃ (``inference.linear``), and the same test is inverted.

Theorem (far from β₀). Let one coefficient of a column |x| ≤ r be s above its value in β₀, the others unchanged. Then
its score S(β₀ + s) is that of the linear form at a step k/r, for some k between 1 − e^(−sr) and e^(sr) − 1. *Proof.*
The curvature w = σ(1 − σ) has |w′| ≤ w, so w(η + d) is within e^(±|d|) of w(η) (Bach 2010), and S(β₀ + s) − S(β₀) =
−∫ Σ w(η + tx)·x² dt over t from 0 to s, with |tx| ≤ tr. ∎ So a value is rejected only if the linear test rejects all
those k: an interval of the linear test from k₁/r to k₂/r above β₀ becomes one from ln(1 + k₁)/r to −ln(1 − k₂)/r. Close
to β₀ that is the same. An end by which the odds would change more than the curvature at β₀ can show, k₁ ≤ −1 or k₂ ≥ 1,
is unbounded: a rare value with hardly an event has no end below. All of it is computed from released numbers.

The other coefficients move with the tested one: what that leaves out is of second order in a step that the earlier
scans have made small; ``bench/inference.py`` measures it.

For the population the rows' own error is added: in a logistic model the score's covariance is H itself.

Earlier steps only lead to β₀. Eigenvalues of H̃ that its noise may have made are raised there, so that no step follows
noise far out. The last step is plain.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.inference.design import Design
from sfumato.inference.linear import CoefficientTest, LinearFit
from sfumato.inference.logistic_scans import NoisyScan, ScanWeights, row_count_and_estimates
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, rounded_coefficients
from sfumato.quick_dataclass import dataclass

_FLOOR = 0.75
"""The least eigenvalue of the curvature in a step that is not the last, in units of its noise's σ·√p."""

_FARTHEST = 100.0
"""The largest change of a row's score of which the exponential is computed."""


@dataclass(frozen=True)
class LogisticFit(LinearFit):
    """A Newton step from the coefficients of one scan."""

    offset: Floats
    """β₀: the coefficient of every coordinate but the last, at which the scan was made."""
    count: float
    """The released number of rows."""

    @classmethod
    def from_scan(
        cls, noisy: NoisyScan, weights: ScanWeights, design: Design, *, one_row_per_unit: bool
    ) -> LogisticFit:
        """Return the step from a released scan; ``design`` may name reference values."""
        count, moments = row_count_and_estimates(noisy, weights)
        offset = np.array(noisy.coefficients) / COEFFICIENT_STEPS
        return cls(design, moments, one_row_per_unit, offset, count)

    @property
    def rows(self) -> float:
        return self.count

    @cached_property
    def target_middle_and_slope(self) -> tuple[float, float]:
        return 0.0, 1.0

    @cached_property
    def _coordinate_matrix(self) -> Floats:
        """The matrix with (β − β₀, −1) = matrix·(θ, 1)."""
        matrix = np.zeros((len(self.design.coordinates), len(self.regressors) + 1))
        matrix[:-1, :-1] = self.coordinate_basis
        matrix[:-1, -1] = -self.offset
        matrix[-1, -1] = -1
        return matrix

    @cached_property
    def error_variance(self) -> float:
        """1: the score's variance is the curvature."""
        return 1.0

    @cached_property
    def _start_coefficients(self) -> Floats:
        """β₀ as coefficients of the scaled regressors."""
        return np.asarray(np.linalg.lstsq(self.coordinate_basis, self.offset, rcond=None)[0])

    @cached_property
    def _max_regressor_sizes(self) -> Floats:
        """r: the largest size of every scaled regressor, centred where that is the intercept's part."""
        reaches = np.abs(self.coordinate_basis[1:]).max(axis=0, initial=0.0)
        return np.where(reaches > 0, reaches, np.abs(self.coordinate_basis[0]))

    def unrejected_interval(self, test: CoefficientTest, index: int, quantile: float) -> tuple[float, float]:
        """Return the values that the test does not reject, with their ends as far as the curvature may have changed."""
        start, reach = float(self._start_coefficients[index]), float(self._max_regressor_sizes[index])
        low, high = ((end - start) * reach for end in super().unrejected_interval(test, index, quantile))
        return start + _log1p_or_minus_infinity(low) / reach, start - _log1p_or_minus_infinity(-high) / reach

    def z_of_zero(self, test: CoefficientTest, index: int) -> float:
        """Return z at the step nearest to the estimate that a coefficient of 0 may be."""
        start, reach = float(self._start_coefficients[index]), float(self._max_regressor_sizes[index])
        step = min(max(-start * reach, -_FARTHEST), _FARTHEST)
        nearest = min(max((float(self.estimate[index]) - start) * reach, -math.expm1(-step)), math.expm1(step))
        return test.z(index, start + nearest / reach)

    @property
    def design_with_references(self) -> Design:
        """The design with the reference values of this fit named, so that later scans have the same coefficients."""
        categories = zip(self.design.categories, self.references, strict=True)
        return replace(
            self.design, categories=tuple(replace(category, reference=index) for category, index in categories)
        )

    def next_coefficients(self) -> tuple[int, ...]:
        """Return the coefficients of the next scan: a Newton step that does not follow noise."""
        gradient = self.coordinate_basis.T @ self.moments.gram(self.design)[:-1, -1]
        values, vectors = np.linalg.eigh(self._regressor_gram)
        floor = _FLOOR * self.curvature_deviation * math.sqrt(len(self.regressors))
        step = vectors @ ((vectors.T @ gradient) / np.maximum(values, floor))
        return rounded_coefficients(self.offset + self.coordinate_basis @ step)

    @property
    def curvature_deviation(self) -> float:
        """The deviation of the noise of a diagonal entry of the curvature."""
        return float(np.linalg.norm(self.moments.factor[0]))


def _log1p_or_minus_infinity(step: float) -> float:
    """Return ln(1 + step), −∞ for a step of −1 or less."""
    return math.log1p(step) if step > -1 else -math.inf
