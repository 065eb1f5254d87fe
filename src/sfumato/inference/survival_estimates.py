"""Survival curves from noisy numbers of events and of censored units by period.

Every unit is in one cell: its period, and whether the event or censoring ended it. Units at risk in period k are the
cells from k on, N_k = Σ_{j≥k} (D_j + C_j), so their noises are sums of the cells' noises and are correlated; a count at
risk that was noised by itself would repeat a unit in every period.

*Kaplan & Meier (1958).* log S(t) = Σ_{k≤t} log(1 − h_k), h_k = D_k/N_k. To first order the noise η of the cells
moves it by A·η (the delta method):

    d log(1 − h_k) = −(dD_k − h_k·dN_k)/((1 − h_k)·N_k).

So the covariance of log S by noise is A·Var(η)·Aᵀ. Sampling adds Greenwood's (1926) independent increments
h_k/((1 − h_k)·N_k). The same sum of laws, with the noise as it was drawn, is simulated for the quantiles: of |Z_t| for
an interval at one time, and of max_t |Z_t|/se_t for a band that holds at all times together.

The curve ends before the first period whose number at risk is not four standard deviations of its own noise above
0 and at least ten: the first-order terms would not hold there. That is decided from released numbers alone.

*Where nearly all have the event*, log(1 − h) has no bounded derivative. From the first period k on whose hazard may be
above 0.95 the lower end is 0, and the upper end is that of S_{k−1} times the most of 1 − h_k that a score test does not
reject (Wilson 1927, with the noise in its variance), at half of what may be missed: the band before k gets the other
half (Bonferroni), and an interval at one time misses S_{k−1} from above with that half.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.inference.noise_laws import NoiseLaw, SeededDraws, nonnegative_cells
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE
from sfumato.quick_dataclass import dataclass

DRAWS = 2000
"""How many simulated curves the quantiles of bands are taken from."""
NULL_DRAWS = 4999
_LEAST_DRAWS, _MAX_SIMULATED = 199, 2_000_000
"""How many simulated tables the log-rank test compares with: fewer of large tables, so that they fit into memory."""
_LEAST_AT_RISK = 10.0
_NOISE_DEVIATIONS = 4.0
_MAX_HAZARD = 0.95
"""The largest hazard in a derivative, which grows beyond all bounds at 1."""
_HAZARD_DEVIATIONS = 2.0
"""How far below the largest hazard a period's hazard must be, in its standard deviations."""


@dataclass(frozen=True, eq=False)
class LifeTable:
    """The noisy cells of one group: events and censored units by period."""

    events: Floats
    censored: Floats
    law: NoiseLaw
    confidence: float = float(DEFAULT_CONFIDENCE)

    @cached_property
    def at_risk(self) -> Floats:
        """The noisy number of units at risk in each period: the sum of all cells from it on."""
        return np.asarray(np.cumsum((self.events + self.censored)[::-1])[::-1])

    @cached_property
    def at_risk_deviation(self) -> Floats:
        """The standard deviation of each number at risk: two noises for each period from it on."""
        remaining = np.arange(len(self.events), 0, -1)
        return np.asarray(np.sqrt(2 * remaining * self.law.variance))

    @cached_property
    def period_count(self) -> int:
        """How many periods the curve has."""
        is_enough = self.at_risk >= np.maximum(_NOISE_DEVIATIONS * self.at_risk_deviation, _LEAST_AT_RISK)
        return int(np.argmin(is_enough)) if not is_enough.all() else len(is_enough)

    @cached_property
    def hazard(self) -> Floats:
        """The noisy hazard of each period; noise may make one negative."""
        return self.events[: self.period_count] / self.at_risk[: self.period_count]

    @cached_property
    def log_survival(self) -> Floats:
        return np.asarray(np.cumsum(np.log1p(-np.minimum(self.hazard, _MAX_HAZARD))))

    @cached_property
    def survival(self) -> Floats:
        """Kaplan & Meier's curve, made nonincreasing by pooling adjacent violators, between 0 and 1."""
        raw = np.cumprod(1 - np.minimum(self.hazard, 1.0))
        return np.asarray(np.clip(nonincreasing(raw), 0.0, 1.0))

    @cached_property
    def cumulative_hazard(self) -> Floats:
        """Nelson & Aalen's sum of hazards."""
        return np.asarray(np.cumsum(self.hazard))

    @cached_property
    def log_survival_derivatives(self) -> Floats:
        """The derivatives A of log S: a row per period of the curve; a column per event cell, then censored cell."""
        hazard = np.clip(self.hazard, 0.0, _MAX_HAZARD)[:, None]
        factor = -1 / ((1 - hazard) * self.at_risk[: self.period_count, None])
        period, cell = np.arange(self.period_count)[:, None], np.arange(len(self.events))[None, :]
        at_risk_part = -hazard * (cell >= period)
        event_part = (cell == period) + at_risk_part
        return np.asarray(np.cumsum(factor * np.hstack([event_part, at_risk_part]), axis=0))

    @cached_property
    def greenwood_variances(self) -> Floats:
        """The sampling variance of each period's term of log S, at one event more than was counted: a period
        without events does not prove that its hazard is 0.
        """
        hazard = np.minimum(np.maximum(self.hazard, 0.0) + 1 / self.at_risk[: self.period_count], _MAX_HAZARD)
        return np.asarray(hazard / ((1 - hazard) * self.at_risk[: self.period_count]))

    @cached_property
    def first_exhausted_period(self) -> int:
        """The first period whose hazard may be above the largest of a derivative; the curve's length if there is none.

        The noise of D/N is ((1 − h)·dD − h·dR)/N, with R the 2r − 1 cells that are left of r periods.
        """
        at_risk, hazard = self.at_risk[: self.period_count], np.clip(self.hazard, 0.0, 1.0)
        left_cells = 2 * (len(self.events) - np.arange(self.period_count)) - 1
        noise = self.law.variance * ((1 - hazard) ** 2 + hazard**2 * left_cells) / at_risk**2
        deviation = np.sqrt(hazard * (1 - hazard) / at_risk + noise)
        first = _first_true(hazard > _MAX_HAZARD - _HAZARD_DEVIATIONS * deviation)
        return self.period_count if first is None else first

    @cached_property
    def log_survival_noise_error(self) -> Floats:
        """The standard error of log S by noise."""
        return np.asarray(np.sqrt((self.log_survival_derivatives**2).sum(axis=1) * self.law.variance))

    @cached_property
    def log_survival_error(self) -> Floats:
        """The standard error of log S by noise and sampling."""
        return np.asarray(np.sqrt(self.log_survival_noise_error**2 + np.cumsum(self.greenwood_variances)))

    @cached_property
    def _simulated_log_survival_errors(self) -> tuple[Floats, Floats]:
        """Simulated errors of log S: by noise alone, and by noise and sampling."""
        draws = SeededDraws("survival", self.events.tolist(), self.censored.tolist(), self.law)
        noise = self.law.draw(draws, DRAWS, self.log_survival_derivatives.shape[1]) @ self.log_survival_derivatives.T
        sampling = np.cumsum(draws.normals(DRAWS, self.period_count) * np.sqrt(self.greenwood_variances), axis=1)
        return noise, noise + sampling

    @cached_property
    def log_survival_noise_half_width(self) -> Floats:
        """The half-width of log S at each time, by noise alone."""
        return upper_quantiles(np.abs(self._simulated_log_survival_errors[0]), self.confidence)

    @cached_property
    def log_survival_half_width(self) -> Floats:
        """The half-width of log S at each time, by noise and sampling."""
        return upper_quantiles(np.abs(self._simulated_log_survival_errors[1]), self.confidence)

    @cached_property
    def log_survival_band_half_width(self) -> Floats:
        """The half-width of log S with which a band holds at all times together."""
        if not self.period_count:
            return np.zeros(0)
        before_exhaustion = slice(None, self.first_exhausted_period or None)
        largest = (np.abs(self._simulated_log_survival_errors[1]) / self.log_survival_error)[:, before_exhaustion].max(
            axis=1
        )
        confidence = self.confidence if self.first_exhausted_period == self.period_count else (1 + self.confidence) / 2
        return self.log_survival_error * upper_quantiles(largest[:, None], confidence)[0]

    def survival_limits(self, log_survival_half_width: Floats, *, with_sampling: bool = True) -> tuple[Floats, Floats]:
        """Return the ends of S for a half-width of log S, of noise alone or of noise and sampling; they hold the curve
        wherever noise made it rise and it was pooled.
        """
        lower, upper = (
            np.exp(self.log_survival - log_survival_half_width),
            np.exp(self.log_survival + log_survival_half_width),
        )
        first = self.first_exhausted_period
        if first < self.period_count:
            before = min(1.0, float(upper[first - 1])) if first else 1.0
            lower[first:], upper[first:] = 0.0, before * self._max_survival_step(first, sampling=with_sampling)
        ends = np.minimum(lower, self.survival), np.maximum(upper, self.survival)
        return np.clip(ends[0], 0.0, 1.0), np.clip(ends[1], 0.0, 1.0)

    @cached_property
    def _tail_quantile(self) -> float:
        """The quantile of a sum of noises in its deviations that half of what may be missed exceeds, or less."""
        missed = (1 - self.confidence) / 2
        quantile = NormalDist().inv_cdf(1 - missed)
        # one Laplace noise has a heavier tail than a normal number and than sums of it
        return max(quantile, -math.log(2 * missed) / math.sqrt(2)) if self.law.order == 1 else quantile

    @cached_property
    def at_risk_noise(self) -> Floats:
        """The ± of each number at risk by noise."""
        return self._tail_quantile * self.at_risk_deviation

    def _max_survival_step(self, period: int, *, sampling: bool) -> float:
        """Return the most of 1 − h that is not rejected: (p − x)² ≤ q²·(p(1 − p)/N + v/N²), v of all cells left."""
        quantile = self._tail_quantile
        at_risk, left = float(self.at_risk[period]), max(0.0, 1 - float(self.hazard[period]))
        sampling_term = quantile**2 / at_risk if sampling else 0.0
        noise = (quantile / at_risk) ** 2 * self.law.variance * (2 * (len(self.events) - period) - 1)
        middle = (left + sampling_term / 2) / (1 + sampling_term)
        return min(1.0, middle + math.sqrt(max(0.0, middle**2 - (left**2 - noise) / (1 + sampling_term))))

    @cached_property
    def band(self) -> tuple[Floats, Floats]:
        """The band at all times together; no curve that rises lies in it, so its ends are nonincreasing, too."""
        lower, upper = self.survival_limits(self.log_survival_band_half_width)
        falling = np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper)
        return np.minimum(falling[0], self.survival), np.maximum(falling[1], self.survival)

    def median_period_with_ends(self) -> tuple[int | None, int | None, int | None]:
        """Return the period in which half are left, and the first and last that it may be (Brookmeyer & Crowley 1982:
        where the interval at one time holds one half); None where the curve does not reach it.
        """
        lower, upper = self.survival_limits(self.log_survival_half_width)
        return _first_true(self.survival <= 0.5), _first_true(lower <= 0.5), _first_true(upper < 0.5)


def _first_true(holds: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(holds)) if holds.any() else None


def upper_quantiles(simulated: Floats, confidence: float) -> Floats:
    """Return for each column the order statistic that a further draw exceeds with at most the rest of this confidence:
    rank ⌈confidence·(n + 1)⌉ of n.
    """
    rank = min(len(simulated), math.ceil(Fraction(confidence) * (len(simulated) + 1) - Fraction(1, 10**9)))
    return np.asarray(np.sort(simulated, axis=0)[rank - 1])


def nonincreasing(values: Floats) -> Floats:
    """Return the nonincreasing sequence nearest to these values: adjacent violators are pooled."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        total, count = float(value), 1
        while blocks and total / count > blocks[-1][0] / blocks[-1][1]:
            total, count = total + blocks[-1][0], count + blocks[-1][1]
            blocks.pop()
        blocks.append((total, count))
    return np.array([total / count for total, count in blocks for _ in range(count)])


@dataclass(frozen=True)
class LogRank:
    """Mantel's (1966) log-rank test of equal hazards, with the noise in its variance and in its simulated null."""

    statistic: float
    p_value: float
    draws: int


def log_rank(events: Floats, censored: Floats, law: NoiseLaw, draws: int | None = None) -> LogRank | None:
    """Test equal hazards of all groups, from cells of shape (groups, periods); None where no period can be compared.

    U_g = Σ_k (D_gk − D_k·N_gk/N_k) has mean 0 under the null. Its covariance is the hypergeometric one plus that of the
    noise by the delta method. The null is simulated: each cell a Poisson number of its mean under pooled hazards and
    the groups' own censoring (units are in one cell each, so given their number the cells are multinomial), plus noise.
    """
    draws = draws or max(_LEAST_DRAWS, min(NULL_DRAWS, _MAX_SIMULATED // events.size))
    cells = np.stack([nonnegative_cells(np.stack(pair)) for pair in zip(events, censored, strict=True)])
    null_events, null_censored = _null_cells(cells[:, 0], cells[:, 1])
    compared = _compared_periods(events, censored, law)
    if not compared.any():
        return None
    covariance = _log_rank_covariance(null_events, null_censored, law, compared)
    if np.linalg.matrix_rank(covariance) < len(covariance):
        return None
    precision = np.linalg.inv(covariance)
    seeded = SeededDraws("log-rank", events.tolist(), censored.tolist(), law)
    means = np.stack([null_events, null_censored])
    simulated = seeded.poisson(means, draws) + law.draw(seeded, draws, *means.shape)
    scores = _log_rank_scores(simulated[:, 0], simulated[:, 1], compared)
    null = np.einsum("bi,ij,bj->b", scores, precision, scores)
    score = _log_rank_scores(events[None], censored[None], compared)[0]
    statistic = float(score @ precision @ score)
    return LogRank(statistic, (1 + int((null >= statistic).sum())) / (draws + 1), draws)


def _at_risk(events: Floats, censored: Floats) -> Floats:
    return np.asarray(np.cumsum((events + censored)[..., ::-1], axis=-1)[..., ::-1])


def _compared_periods(events: Floats, censored: Floats, law: NoiseLaw) -> NDArray[np.bool_]:
    """Return which periods have enough units at risk in every group, or in all but one."""
    lengths = sorted(
        (LifeTable(*cells, law).period_count for cells in zip(events, censored, strict=True)), reverse=True
    )
    return np.arange(events.shape[1]) < (lengths[1] if len(lengths) > 1 else 0)


def _null_cells(events: Floats, censored: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each cell where all groups have the pooled hazard of the event, and their own of censoring."""
    at_risk = _at_risk(events, censored)
    pooled = _clipped_ratio(events.sum(axis=0), at_risk.sum(axis=0))
    remaining, null_events, null_censored = at_risk[:, 0].copy(), np.zeros_like(events), np.zeros_like(events)
    for period, hazard in enumerate(pooled):
        null_events[:, period] = remaining * hazard
        survivors = remaining - null_events[:, period]
        share = _clipped_ratio(censored[:, period], at_risk[:, period] - events[:, period])
        null_censored[:, period] = survivors * share
        remaining = survivors - null_censored[:, period]
    return null_events, null_censored


def _clipped_ratio(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0), 0.0, 1.0))


def _log_rank_scores(events: Floats, censored: Floats, compared: NDArray[np.bool_]) -> Floats:
    """Return observed minus expected events of all groups but the last, for each table of a batch."""
    at_risk, all_events = _at_risk(events, censored), events.sum(axis=1, keepdims=True)
    all_at_risk = np.maximum(at_risk.sum(axis=1, keepdims=True), 1.0)
    differences = events - all_events * at_risk / all_at_risk
    return np.asarray((differences * compared).sum(axis=2)[:, :-1])


def _log_rank_covariance(events: Floats, censored: Floats, law: NoiseLaw, compared: NDArray[np.bool_]) -> Floats:
    """Return the covariance of the scores under the null: hypergeometric in each period, plus that of the noise."""
    at_risk = _at_risk(events, censored)
    all_events, all_at_risk = events.sum(axis=0), np.maximum(at_risk.sum(axis=0), 1.0)
    share, hazard = at_risk / all_at_risk, np.minimum(all_events / all_at_risk, 1.0)
    spread = compared * all_events * (1 - hazard) * all_at_risk / np.maximum(all_at_risk - 1, 1.0)
    groups = np.eye(len(events))
    sampling = np.einsum("k,gk,ghk->gh", spread, share, groups[:, :, None] - share[None, :, :])
    event_part = (groups[:, :, None] - share[:, None, :]) * compared  # score g, noise of group h, period
    at_risk_part = -np.cumsum(hazard * event_part, axis=2)
    weights = np.stack([event_part + at_risk_part, at_risk_part])
    noise = law.variance * np.einsum("cghk,cihk->gi", weights, weights)
    return np.asarray((sampling + noise)[:-1, :-1])
