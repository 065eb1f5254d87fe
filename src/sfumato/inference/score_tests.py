"""Tests of noisy totals, valid under the noise: each statistic is a score, a sum that is 0 on average under the null.

A score is linear in the totals to first order, so its noise is a known linear form, and stays finite where a noisy
group size is near 0 and a ratio would not. Its covariance V is that of sampling plus that of the noise; the statistic
is T = uᵀV⁻¹u, the general form of Kifer & Rogers (2017) with the covariance of the noise in the weights.

*The null.* T is compared with T of tables simulated under the null: counts of disjoint cells as independent Poisson
numbers (given their sum they are multinomial, and the scores do not depend on it), sums as normal numbers, and the
noise by its own law (Gaboardi et al. 2016). Nuisance parameters are estimated from the noisy margins, so a p-value is
asymptotic: it is right where margins are many times their noise. Negative margins are projected on nonnegative ones
with the same total. The draws are seeded by the released numbers; p = (1 + #{T* ≥ T})/(1 + draws) is never 0.

*A share of a known number of units* has an exact p-value: the convolution of the binomial and the noise (beyond a σ of
4,096 steps with a relative error below 7 · 10⁻⁷, ``_noise_tail``). With discrete
Laplace noise this is the p-value of Awan & Slavković (2018), whose test is uniformly most powerful: their noise is the
discrete Laplace one plus a uniform number, which is drawn here from the hash of the ledger line.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sfumato.array_types import Floats
from sfumato.inference.noise_laws import NoiseLaw, SeededDraws, invert_cumulative, nonnegative_cells
from sfumato.quick_dataclass import dataclass

NULL_DRAWS = 4999
SMALL_COUNT = 5.0
_LEAST_VARIANCE = 0.01
"""The least variance of a value, as a part of the largest that its mean allows: less cannot be told from noise."""


@dataclass(frozen=True)
class ScoreTest:
    """A statistic, its p-value and what it was compared with."""

    statistic: float
    p_value: float
    draws: int
    """How many tables were simulated; 0 for an exact p-value."""
    small: int = 0
    """How many expected counts are below 5."""


UNTESTABLE = ScoreTest(0.0, 1.0, 0)
"""The test of a table whose noisy total is not positive: nothing can be told."""


def _test_score(score: Floats, null_scores: Floats, covariance: Floats, small: int = 0) -> ScoreTest:
    precision = np.linalg.inv(covariance)
    statistic = float(score @ precision @ score)
    null = (null_scores @ precision * null_scores).sum(axis=1)
    draws = len(null)
    return ScoreTest(statistic, (1 + int((null >= statistic * (1 - 1e-12)).sum())) / (draws + 1), draws, small)


def independence(cells: Floats, law: NoiseLaw, draws: int = NULL_DRAWS) -> ScoreTest:
    """Test whether the rows and columns of a table of noisy counts are independent (χ² with noise).

    u = x − r·c/N to first order is (I − p1ᵀ)X(I − 1qᵀ), so V is N·(diag p − ppᵀ)⊗(diag q − qqᵀ), plus the variance of
    the noise times (I − p1ᵀ)(I − p1ᵀ)ᵀ ⊗ (I − q1ᵀ)(I − q1ᵀ)ᵀ.
    """
    total = float(cells.sum())
    if total <= 0:
        return UNTESTABLE
    row_share = nonnegative_cells(cells.sum(axis=1)) / total
    column_share = nonnegative_cells(cells.sum(axis=0)) / total
    expected = total * np.outer(row_share, column_share)
    sampling = total * np.kron(_multinomial_covariance(row_share), _multinomial_covariance(column_share))
    noise = law.variance * np.kron(_centring_covariance(row_share), _centring_covariance(column_share))
    covariance = np.asarray(sampling + noise, dtype=np.float64)
    seeded = SeededDraws("independence", cells.tolist(), law)
    simulated = seeded.poisson(expected, draws) + law.draw(seeded, draws, *cells.shape)
    score, null_scores = _observed_minus_expected(cells[None])[0], _observed_minus_expected(simulated)
    return _test_score(score, null_scores, covariance, int((expected < SMALL_COUNT).sum()))


def _multinomial_covariance(share: Floats) -> Floats:
    """Return diag p − ppᵀ without the last row and column, which follow from the others."""
    return np.asarray((np.diag(share) - np.outer(share, share))[:-1, :-1])


def _centring_covariance(share: Floats) -> Floats:
    """Return (I − p1ᵀ)(I − p1ᵀ)ᵀ without the last row and column."""
    centred = np.eye(len(share)) - share[:, None]
    return np.asarray((centred @ centred.T)[:-1, :-1])


def _observed_minus_expected(tables: Floats) -> Floats:
    """Return observed minus expected counts of each table, without the last row and column."""
    rows, columns = tables.sum(axis=2, keepdims=True), tables.sum(axis=1, keepdims=True)
    totals = np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    differences = tables - rows * columns / totals
    return np.asarray(differences[:, :-1, :-1].reshape(len(tables), -1))


def goodness_of_fit(cells: Floats, shares: Floats, law: NoiseLaw, draws: int = NULL_DRAWS) -> ScoreTest:
    """Test whether noisy counts come from these shares (χ² of fit with noise)."""
    total = float(cells.sum())
    if total <= 0:
        return UNTESTABLE
    expected = total * shares
    covariance = total * _multinomial_covariance(shares) + law.variance * _centring_covariance(shares)
    seeded = SeededDraws("fit", cells.tolist(), shares.tolist(), law)
    simulated = seeded.poisson(expected, draws) + law.draw(seeded, draws, len(cells))
    null_scores = (simulated - simulated.sum(axis=1, keepdims=True) * shares)[:, :-1]
    return _test_score((cells - expected)[:-1], null_scores, covariance, int((expected < SMALL_COUNT).sum()))


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The two noisy sums of each group's mean, Σ(x − low) and Σ(high − x), and the variance of its values.

    A share is the mean of 0 and 1: its sums are the counts with and without the outcome.
    """

    above: Floats
    """Σ(x − low) of each group."""
    below: Floats
    """Σ(high − x) of each group."""
    law: NoiseLaw
    """The law of each of these sums."""
    width: float = 1.0
    """high − low."""
    variances: Floats | None = None
    """The variance of each group's values, from released squares; None for the largest that the mean allows."""
    low: float = 0.0
    """The low end of the range."""

    @property
    def sizes(self) -> Floats:
        """The number of rows in each group, no less than 0, with the noisy total."""
        return nonnegative_cells((self.above + self.below) / self.width)

    @property
    def pooled_mean(self) -> float:
        """The mean of all groups, from 0 at the low end of the range to 1 at the high end."""
        total = float((self.above + self.below).sum())
        return min(1.0, max(0.0, float(self.above.sum()) / total)) if total > 0 else 0.5

    def value_variances(self, position: float | Floats) -> Floats:
        """Return the variance of each group's values: what was released, or the most that a mean at this position of
        the range allows (Bhatia & Davis 2000).
        """
        most = np.broadcast_to(position * (1 - position) * self.width**2, self.above.shape)
        if self.variances is None:
            return np.asarray(most)
        return np.asarray(np.clip(self.variances, _LEAST_VARIANCE * most, most))

    def scores(self) -> Floats:
        """Return Σ(x − m) of each group, with m the mean of all."""
        return (1 - self.pooled_mean) * self.above - self.pooled_mean * self.below


def equal_means(groups: GroupSums, contrast: Floats | None = None, draws: int = NULL_DRAWS) -> ScoreTest:
    """Test whether all groups have one mean: two means or shares, one-way analysis of variance, or with a ``contrast``
    the trend along these scores.

    u_g = Σ_g (x − m) sums to 0 over the groups, so V = P·diag(n_g·v_g + noise)·Pᵀ with P = I − p1ᵀ, p the groups'
    shares of all rows. Its noise is that of (1 − m)·above − m·below.
    """
    sizes, position = groups.sizes, groups.pooled_mean
    total = float(sizes.sum())
    if total <= 0:
        return UNTESTABLE
    variance = groups.value_variances(position)
    noise = groups.law.variance * ((1 - position) ** 2 + position**2)
    centred = np.eye(len(sizes)) - (sizes / total)[:, None]
    covariance = centred @ np.diag(sizes * variance + noise) @ centred.T
    weights = np.eye(len(sizes))[:-1] if contrast is None else contrast[None, :]
    null_scores = _simulate_scores(groups, sizes, variance, draws)
    small = int((sizes < SMALL_COUNT).sum())
    return _test_score(weights @ groups.scores(), null_scores @ weights.T, weights @ covariance @ weights.T, small)


def _simulate_scores(groups: GroupSums, sizes: Floats, variance: Floats, draws: int) -> Floats:
    seeded = SeededDraws("means", groups.above.tolist(), groups.below.tolist(), groups.law, variance.tolist())
    noise = groups.law.draw(seeded, draws, 2, len(sizes))
    position, width = groups.pooled_mean, groups.width
    if groups.variances is None and width == 1:
        means = np.stack([sizes * position, sizes * (1 - position)])
        above, below = np.moveaxis(seeded.poisson(means, draws) + noise, 1, 0)
    else:
        rows = seeded.poisson(sizes, draws)
        sums = rows * position * width + np.sqrt(rows * variance) * seeded.normals(draws, len(sizes))
        above, below = sums + noise[:, 0], width * rows - sums + noise[:, 1]
    totals = (above + below).sum(axis=1, keepdims=True)
    pooled = np.clip(above.sum(axis=1, keepdims=True) / np.maximum(totals, 1e-9 * width), 0.0, 1.0)
    return np.asarray((1 - pooled) * above - pooled * below)


def share_tails(count: float, unit_count: int, share: float, law: NoiseLaw) -> tuple[float, float]:
    """Return P(X + noise ≥ count) and P(X + noise ≤ count) for X binomial of a known number and a share: exact up to
    floating point. Noise has whole steps.
    """
    numbers, weights = _binomial_law(unit_count, share)
    distance = (count - numbers) / law.unit
    return float(weights @ _noise_tail(distance, law)), float(weights @ _noise_tail(-distance, law))


def share_p_values(count: float, unit_count: int, share: float, law: NoiseLaw, uniform: float) -> tuple[float, float]:
    """Return the p-values against a larger and against a smaller share, randomised between the whole numbers that the
    noisy count can be: P(Y > count) + U·P(Y = count). They are exactly uniform under the null.
    """
    above, below = share_tails(count, unit_count, share, law)
    atom = max(0.0, above + below - 1)
    return above - (1 - uniform) * atom, below - uniform * atom


def draw_binomial(draws: SeededDraws, unit_count: int, share: float, count: int) -> Floats:
    """Return so many binomial numbers, by inversion."""
    numbers, weights = _binomial_law(unit_count, share)
    return np.asarray(numbers[invert_cumulative(weights, draws.uniforms(count))])


def _binomial_law(unit_count: int, share: float) -> tuple[Floats, Floats]:
    """Return the whole numbers within 40 deviations of the mean, and their probabilities."""
    deviation = math.sqrt(unit_count * share * (1 - share))
    low, high = (
        max(0, math.floor(unit_count * share - 40 * deviation) - 1),
        min(unit_count, math.ceil(unit_count * share + 40 * deviation) + 1),
    )
    numbers = np.arange(low, high + 1, dtype=np.float64)
    return numbers, _binomial_weights(numbers, unit_count, share)


def _binomial_weights(numbers: Floats, unit_count: int, share: float) -> Floats:
    if share in (0.0, 1.0):
        return np.asarray((numbers == unit_count * share).astype(np.float64))
    ratio = math.log(share) - math.log1p(-share)
    steps = np.log((unit_count - numbers[1:] + 1) / numbers[1:]) + ratio
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


_MAX_SUMMED_SIZE = 2**12
"""Up to this σ the probabilities of discrete Gaussian noise are added up, so memory does not grow with σ. Beyond, the
integral from half a step before t on is their sum, but for a relative error of (t/σ)²/24σ²: below 4 · 10⁻⁷ up to 12
deviations."""
_NORMAL_POINTS = np.linspace(-9, 37, 2**15)


@cache
def _log_normal_tails() -> Floats:
    """Return ln P(Z ≥ z) of a standard normal Z at each of the points."""
    return np.array([math.log(math.erfc(z / math.sqrt(2)) / 2) for z in _NORMAL_POINTS.tolist()])


def _normal_tail(z: Floats) -> Floats:
    """Return P(Z ≥ z), with a relative error below 3 · 10⁻⁷: its logarithm, whose second derivative is above −1, is
    interpolated between points 1.5 · 10⁻³ apart.
    """
    return np.asarray(np.exp(np.interp(z, _NORMAL_POINTS, _log_normal_tails(), right=-np.inf)))


def _noise_tail(distance: Floats, law: NoiseLaw) -> Floats:
    """Return P(noise ≥ t) for each t in steps."""
    least = np.ceil(distance - 1e-9)
    if law.order == 1:
        q = math.exp(-1 / law.size)
        tail = np.exp(-np.abs(least) / law.size) / (1 + q)
        return np.asarray(np.where(least > 0, tail, 1 - tail * q))
    if law.size > _MAX_SUMMED_SIZE:
        return _normal_tail((least - 0.5) / law.size)
    reach = math.ceil(12 * law.size) + 2
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(values**2) / (2 * law.size**2))
    tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0) / weights.sum()
    return np.asarray(tails[np.clip(least + reach, 0, len(values)).astype(int)])


@dataclass(frozen=True, eq=False)
class PairSums:
    """Noisy sums of two columns about the middles of their ranges: rows, Σx, Σy, Σx², Σy², Σxy, and their noise."""

    rows: float
    sums: tuple[float, float]
    squares: tuple[float, float]
    products: float
    sum_laws: tuple[NoiseLaw, NoiseLaw]
    """The law of each of the two sums behind a mean: Σx is half their difference."""
    product_law: NoiseLaw
    reaches: tuple[float, float]
    """Half the width of each range."""

    @property
    def means(self) -> tuple[float, float]:
        """The mean of each column about its middle, within the range."""
        x, y = (
            min(reach, max(-reach, total / self.rows)) for total, reach in zip(self.sums, self.reaches, strict=True)
        )
        return x, y

    @property
    def variances(self) -> tuple[float, float]:
        """The variance of each column, between a hundredth and all of what its mean allows."""
        most = [reach**2 - mean**2 for reach, mean in zip(self.reaches, self.means, strict=True)]
        x, y = (
            min(largest, max(_LEAST_VARIANCE * largest, square / self.rows - mean**2))
            for square, mean, largest in zip(self.squares, self.means, most, strict=True)
        )
        return x, y


def correlation(pairs: PairSums, draws: int = NULL_DRAWS) -> ScoreTest:
    """Test whether two columns are uncorrelated, by Σxy − Σx·Σy/n, whose sampling variance is then n·v_x·v_y.

    n is half of (above + below)/width of both columns, so it has noise, too: its part of the score is m_x·m_y·dn.
    """
    if pairs.rows <= 1:
        return UNTESTABLE
    (mean_x, mean_y), (variance_x, variance_y), rows = pairs.means, pairs.variances, pairs.rows
    seeded = SeededDraws("correlation", rows, pairs.sums, pairs.squares, pairs.products, pairs.product_law)
    noises = [law.draw(seeded, draws, 2) for law in pairs.sum_laws]
    simulated_x, simulated_y = (
        rows * mean + noise @ np.array([0.5, -0.5]) for mean, noise in zip(pairs.means, noises, strict=True)
    )
    row_noises = [noise.sum(axis=1) / (4 * reach) for noise, reach in zip(noises, pairs.reaches, strict=True)]
    simulated_rows = np.maximum(rows + row_noises[0] + row_noises[1], 1.0)
    sampling = math.sqrt(rows * variance_x * variance_y) * seeded.normals(draws)
    products = rows * mean_x * mean_y + sampling + pairs.product_law.draw(seeded, draws)
    null_scores = products - simulated_x * simulated_y / simulated_rows
    score = pairs.products - pairs.sums[0] * pairs.sums[1] / rows
    covariance = np.array([[rows * variance_x * variance_y + _pair_noise(pairs)]])
    return _test_score(np.array([score]), null_scores[:, None], covariance)


def _pair_noise(pairs: PairSums) -> float:
    """Return the variance of the score's noise: of Σxy, and of both sums of each column in Σx or Σy and in n."""
    mean_x, mean_y = pairs.means
    of_sums = (
        law.variance * (other**2 / 2 + (mean_x * mean_y / reach) ** 2 / 8)
        for other, law, reach in zip((mean_y, mean_x), pairs.sum_laws, pairs.reaches, strict=True)
    )
    return pairs.product_law.variance + sum(of_sums)
