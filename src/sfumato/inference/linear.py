"""Least squares on noisy moments, with intervals that account for the noise in the Gram matrix.

Let G be the exact Gram matrix of the regressors, g their products with the target, and β̂ the coefficients of the table
at hand: Gβ̂ = g. Released are A = G + E and b = g + e. For the true β̂ the score r(β) = b − Aβ is e − Eβ̂: noise alone, a
linear map of the moments' noises whose coefficients depend on β̂ only. Its covariance V(β) is therefore known for every
β, however close A is to singular (Anderson & Rubin 1949).

A coefficient's interval inverts the test of it. Let v be row j of A⁻¹: v·r(β) = β̃ⱼ − βⱼ, whatever the other
coefficients are, since v is orthogonal to all other columns of A. Its variance at βⱼ = β̃ⱼ + s is vᵀV(β)v = a + 2bs +
cs², with the other coefficients where least squares puts them for this βⱼ. The interval holds all s with s² ≤
q²·(a + 2bs + cs²), as of a ratio of two noisy numbers (Fieller 1954); where q²c ≥ 1 it has no ends: the noise may have
made all that varies of column j, and at this price the coefficient cannot be told. The test is exact for one regressor
and given the other columns of A; what v owes to their noise is of second order, and measured in ``bench/inference.py``.

For the population the rows' own error is added: with one row per unit and errors of one variance τ², g − Gβ has the
covariance τ²G. τ² is the released residual sum of squares, plus one standard deviation of its noise, over n − p; G is
A with negative eigenvalues set to 0. Rows of one unit correlate, so with several rows per unit this part is not shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.inference.design import Design, Regressor, regressors
from sfumato.inference.moments import MomentEstimates
from sfumato.quick_dataclass import dataclass

_TOTAL_DEVIATIONS = 4.0
"""How many standard deviations of its noise the total sum of squares needs for a range of R²."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient with the ± of its noise and of its sample, and the interval for both together."""

    name: str
    value: float
    noise: tuple[float, float]
    """The interval for the coefficient of the table at hand."""
    sampling: float | None
    """The half-width of the sampling error alone; None with several rows per unit."""
    combined: tuple[float, float] | None
    """The interval for the population's coefficient."""
    z: float | None
    p: float | None


@dataclass(frozen=True)
class LinearFit:
    """A least-squares fit of a design's target on its regressors, from noisy moments."""

    design: Design
    moments: MomentEstimates
    one_row_per_unit: bool

    @property
    def shows_sampling_errors(self) -> bool:
        """Whether rows are independent, so that sampling errors can be computed from them."""
        return self.one_row_per_unit

    @cached_property
    def references(self) -> tuple[int, ...]:
        """The reference value of each category: the named one, or the commonest by the released counts."""
        order = [moment.levels for moment in self.design.gram_entry_count_by_moment if not moment.columns]
        counts = {next(iter(levels)): index for index, levels in enumerate(order) if len(levels) == 1}
        values = [
            value
            for value, moment in zip(self.moments.values, self.design.gram_entry_count_by_moment, strict=True)
            if not moment.columns
        ]
        return tuple(
            category.reference
            if category.reference is not None
            else max(range(len(category.values)), key=lambda value: values[counts[index, value]])
            for index, category in enumerate(self.design.categories)
        )

    @cached_property
    def regressors(self) -> tuple[Regressor, ...]:
        return regressors(self.design, self.references)

    @cached_property
    def coordinate_basis(self) -> Floats:
        """Regressors by coordinate (without the target), each of length 1: M·diag(1/length)."""
        matrix = np.zeros((len(self.design.coordinates) - 1, len(self.regressors)))
        for column, regressor in enumerate(self.regressors):
            for index, coefficient in regressor.parts.items():
                matrix[index, column] = coefficient
        return matrix / self._regressor_lengths

    @cached_property
    def _regressor_lengths(self) -> Floats:
        return np.array([math.hypot(*regressor.parts.values()) for regressor in self.regressors])

    @cached_property
    def target_middle_and_slope(self) -> tuple[float, float]:
        """The middle and the slope of the target: y = middle + slope·z."""
        column = self.design.columns[self.design.coordinates[-1].column or 0]
        return float(column.middle), float(column.slope)

    @cached_property
    def _coordinate_matrix(self) -> Floats:
        """The matrix with (β_z, −1) = matrix·(θ, 1): coefficients of all coordinates, given those of the regressors."""
        middle, slope = self.target_middle_and_slope
        matrix = np.zeros((len(self.design.coordinates), len(self.regressors) + 1))
        matrix[:-1, :-1] = self.coordinate_basis
        matrix[0, -1] = -middle / slope
        matrix[-1, -1] = -1
        return matrix

    @cached_property
    def _moment_score_matrices(self) -> Floats:
        """For each moment, the matrix that takes (θ, 1) to its part of the score."""
        index, basis = self.design.gram_index, self.coordinate_basis
        parts = np.zeros((len(self.moments.values), len(self.regressors), len(self.regressors) + 1))
        for j, k in zip(*np.nonzero(index[:-1] >= 0), strict=True):
            parts[index[j, k]] -= np.outer(basis[j], self._coordinate_matrix[k])
        return parts

    @cached_property
    def _score_matrix(self) -> Floats:
        """The released score as a matrix: r(θ) = matrix·(θ, 1)."""
        return np.tensordot(self.moments.values, self._moment_score_matrices, 1)

    @cached_property
    def _score_noise_matrices(self) -> Floats:
        """The score's noise: for each independent noise of deviation 1, the matrix that takes (θ, 1) to its part."""
        return np.tensordot(self.moments.factor.T, self._moment_score_matrices, 1)

    @cached_property
    def estimate(self) -> Floats:
        """θ: the coefficients of the scaled regressors."""
        return np.asarray(np.linalg.lstsq(self._score_matrix[:, :-1], -self._score_matrix[:, -1], rcond=None)[0])

    @property
    def rows(self) -> float:
        """The released number of rows."""
        return float(self.moments.values[0])

    @cached_property
    def _regressor_gram(self) -> Floats:
        return self.coordinate_basis.T @ self.moments.gram(self.design)[:-1, :-1] @ self.coordinate_basis

    @cached_property
    def residual_squares_and_noise(self) -> tuple[float, float]:
        """The released residual sum of squares in units of the scaled target, and the deviation of its noise."""
        weights = self._coordinate_matrix @ np.append(self.estimate, 1.0)
        return self._quadratic_form_and_noise(np.outer(weights, weights))

    def _quadratic_form_and_noise(self, weights: Floats) -> tuple[float, float]:
        """Return Σ weights·Gram of all coordinates, and the deviation of its noise."""
        index = self.design.gram_index
        by_moment = np.zeros(len(self.moments.values))
        np.add.at(by_moment, index[index >= 0], weights[index >= 0])
        return float(by_moment @ self.moments.values), float(np.linalg.norm(by_moment @ self.moments.factor))

    @cached_property
    def error_variance(self) -> float:
        """τ²: an upper estimate of the errors' variance, in units of the scaled target."""
        squares, deviation = self.residual_squares_and_noise
        freedom = max(1.0, self.rows - len(self.regressors))
        return max(squares + deviation, deviation) / freedom

    @cached_property
    def _sampling_covariance(self) -> Floats:
        """The covariance of the score from sampling: τ²G without negative eigenvalues."""
        values, vectors = np.linalg.eigh(self._regressor_gram)
        return self.error_variance * (vectors * np.maximum(values, 0.0)) @ vectors.T

    def sampling_variance(self, direction: Floats) -> float:
        """Return the variance of the score in one direction, of another sample."""
        return max(0.0, float(direction @ self._sampling_covariance @ direction))

    def coefficients(self, confidence: float) -> tuple[Coefficient, ...]:
        """Return every coefficient with its intervals at this confidence."""
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        units = self.target_middle_and_slope[1] / self._regressor_lengths
        noise_test = CoefficientTest(self._score_matrix, self._score_noise_matrices, lambda _: 0.0, self.estimate)
        both_test = CoefficientTest(
            self._score_matrix, self._score_noise_matrices, self.sampling_variance, self.estimate
        )
        table = []
        for index, regressor in enumerate(self.regressors):
            unit = float(units[index])
            noise = _scale_interval(self.unrejected_interval(noise_test, index, quantile), unit)
            sampling = combined = z = p = None
            if self.shows_sampling_errors:
                sampling = quantile * math.sqrt(self.sampling_variance(both_test.inverse[index])) * unit
                combined = _scale_interval(self.unrejected_interval(both_test, index, quantile), unit)
                z = self.z_of_zero(both_test, index)
                p = math.erfc(abs(z) / math.sqrt(2))
            table.append(
                Coefficient(regressor.label, float(self.estimate[index]) * unit, noise, sampling, combined, z, p)
            )
        return tuple(table)

    def unrejected_interval(self, test: CoefficientTest, index: int, quantile: float) -> tuple[float, float]:
        """Return the values of one scaled coefficient that a test does not reject."""
        return test.unrejected_interval(index, quantile)

    def z_of_zero(self, test: CoefficientTest, index: int) -> float:
        """Return z, the score of a coefficient of 0 in units of its deviation."""
        return test.z(index, 0.0)

    def noise_half_widths(self, confidence: float) -> Floats:
        """Return the ± of each coefficient's noise to first order, for forecasts."""
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        noise = (
            np.linalg.pinv(self._score_matrix[:, :-1]) @ (self._score_noise_matrices @ np.append(self.estimate, 1.0)).T
        )
        widths: Floats = (
            quantile * np.linalg.norm(noise, axis=1) * self.target_middle_and_slope[1] / self._regressor_lengths
        )
        return widths

    def r_squared(self, confidence: float) -> tuple[float, float, float]:
        """Return R² and its range for the noise to first order, within [0, 1]: all of it where the total sum of squares
        is not four standard deviations above its noise.
        """
        target = len(self.design.coordinates) - 1
        gram, (residual, _) = self.moments.gram(self.design), self.residual_squares_and_noise
        mean = gram[0, target] / max(gram[0, 0], 1.0)
        centre = np.zeros(target + 1)
        centre[target], centre[0] = 1.0, -mean
        total, total_deviation = self._quadratic_form_and_noise(np.outer(centre, centre))
        if total <= 0:
            return 0.0, 0.0, 1.0
        value = 1 - residual / total
        if total < _TOTAL_DEVIATIONS * total_deviation:
            return _clip_to_unit_interval(value), 0.0, 1.0
        combination = self._coordinate_matrix @ np.append(self.estimate, 1.0)
        weights = (np.outer(combination, combination) - (1 - value) * np.outer(centre, centre)) / total
        width = NormalDist().inv_cdf((1 + confidence) / 2) * self._quadratic_form_and_noise(weights)[1]
        return (
            _clip_to_unit_interval(value),
            _clip_to_unit_interval(value - width),
            _clip_to_unit_interval(value + width),
        )

    @cached_property
    def weakest_direction_and_terms(self) -> tuple[float, tuple[str, ...]]:
        """The smallest eigenvalue of the correlation-scaled Gram matrix over its noise's norm, and who shares it."""
        scale = 1 / np.sqrt(np.maximum(np.diag(self._regressor_gram), 1e-12))
        values, vectors = np.linalg.eigh(self._regressor_gram * np.outer(scale, scale))
        noise = self._score_noise_matrices[:, :, :-1] * np.outer(scale, scale)
        direction = vectors[:, 0]
        deviation = float(np.linalg.norm(np.einsum("mjk,j,k->m", noise, direction, direction)))
        loads = np.argsort(-np.abs(direction))
        names = tuple(self.regressors[index].label for index in loads[:2] if abs(direction[index]) > 0.2)
        return float(values[0]) / max(deviation, 1e-300), names


def _clip_to_unit_interval(value: float) -> float:
    return min(1.0, max(0.0, float(value)))


def _scale_interval(interval: tuple[float, float], unit: float) -> tuple[float, float]:
    return interval[0] * unit, interval[1] * unit


@dataclass(frozen=True)
class CoefficientTest:
    """The test of single coefficients by a score whose covariance is known for every θ."""

    score: Floats
    """r(θ) = score·(θ, 1)."""
    noise: Floats
    """For each independent noise of deviation 1, the matrix that takes (θ, 1) to its part of the score."""
    sampling: Callable[[Floats], float]
    """The variance of the score's sampling error in a direction."""
    estimate: Floats

    @cached_property
    def inverse(self) -> Floats:
        """R⁻¹: row j is the direction in which the score moves with coefficient j alone."""
        return np.asarray(np.linalg.pinv(self.score[:, :-1]))

    def variance_polynomial(self, index: int) -> tuple[float, float, float]:
        """Return (a, b, c) with a + 2b·s + c·s² the variance of the score in the direction of one coefficient, where
        that is s above its estimate and the others follow as least squares moves them.
        """
        direction = self.inverse[index]
        path = np.append(self._coefficient_path(index), 0.0)
        at_estimate = self.noise @ np.append(self.estimate, 1.0) @ direction
        along = self.noise @ path @ direction
        sampled = self.sampling(direction)
        return float(at_estimate @ at_estimate) + sampled, float(at_estimate @ along), float(along @ along)

    def _coefficient_path(self, index: int) -> Floats:
        """Return how all coefficients move with one, by least squares of what it leaves: along column j of A⁻¹."""
        column = self.inverse[:, index]
        return column / (float(column[index]) or 1e-300)

    def z(self, index: int, value: float) -> float:
        """Return the score of a value of one coefficient in units of its deviation there."""
        a, b, c = self.variance_polynomial(index)
        shift = value - float(self.estimate[index])
        return -shift / math.sqrt(max(a + 2 * b * shift + c * shift**2, 1e-300))

    def unrejected_interval(self, index: int, quantile: float) -> tuple[float, float]:
        """Return the values that the test does not reject: s² ≤ q²·(a + 2b·s + c·s²) (Fieller 1954)."""
        a, b, c = self.variance_polynomial(index)
        centre, square = float(self.estimate[index]), quantile**2
        leading = 1 - square * c
        if leading <= 0:
            return -math.inf, math.inf
        root = math.sqrt((square * b) ** 2 + leading * square * a)
        return centre + (square * b - root) / leading, centre + (square * b + root) / leading
