"""Logistic regression by noisy Newton steps, with intervals from the last scan.

Let S(β) = Σ (y − σ(β·x))·x be the score of the rows at hand, and β̂ its root. A scan at β₀, the coefficients that the
earlier scans led to, releases g̃ = S(β₀) + e and H̃ = H(β₀) + E, where H = −∂S/∂β. To first order S(β) = g − H·(β − β₀),
so that g̃ − H̃·(β̂ − β₀) is e − E·(β̂ − β₀): noise alone, whose covariance is known for every β̂. This is the score of a
least-squares fit with the Gram matrix H̃ (``inference.linear``), and intervals invert the same test. What is left out is
of second order in β̂ − β₀, which the earlier steps have made small; ``bench/inference.py`` measures it.

For the population the rows' own error is added: in a logistic model the score's covariance is H itself.

Earlier steps only lead to β₀. Eigenvalues of H̃ that its noise may have made are raised there, so that no step follows
noise far out. The last step is plain.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.caching import cached_property
from sfumato.inference.design import Design
from sfumato.inference.linear import Floats, LinearFit
from sfumato.inference.logistic_scans import NoisyScan, ScanWeights, scan_estimates
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, rounded_coefficients
from sfumato.quick_dataclass import dataclass

_FLOOR = 0.75
"""The least eigenvalue of the curvature in a step that is not the last, in units of its noise's σ·√p."""


@dataclass(frozen=True)
class LogisticFit(LinearFit):
    """A Newton step from the coefficients of one scan."""

    offset: Floats
    """β₀: the coefficient of every coordinate but the last, at which the scan was made."""
    count: float
    """The released number of rows."""

    @classmethod
    def of(cls, noisy: NoisyScan, weights: ScanWeights, design: Design, *, one_row_per_unit: bool) -> LogisticFit:
        """Return the step from a released scan; ``design`` may name reference values."""
        count, moments = scan_estimates(noisy, weights)
        offset = np.array(noisy.coefficients) / COEFFICIENT_STEPS
        return cls(design, moments, one_row_per_unit, offset, count)

    @property
    def rows(self) -> float:
        return self.count

    @cached_property
    def target_scale(self) -> tuple[float, float]:
        return 0.0, 1.0

    @cached_property
    def _combination(self) -> Floats:
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
        values, vectors = np.linalg.eigh(self._gram)
        floor = _FLOOR * self.curvature_deviation * math.sqrt(len(self.regressors))
        step = vectors @ ((vectors.T @ gradient) / np.maximum(values, floor))
        return rounded_coefficients(self.offset + self.coordinate_basis @ step)

    @property
    def curvature_deviation(self) -> float:
        """The deviation of the noise of a diagonal entry of the curvature."""
        return float(np.linalg.norm(self.moments.factor[0]))
