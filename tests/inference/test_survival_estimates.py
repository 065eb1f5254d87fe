"""Life tables: curves, variances and bands beside other routes; coverage; the level of the log-rank test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sfumato.array_types import Floats
from sfumato.inference import survival_estimates
from sfumato.inference.noise_laws import NoiseLaw, nonnegative_cells
from sfumato.inference.survival_estimates import LifeTable, log_rank, nonincreasing, upper_quantiles

_NONE = NoiseLaw(1, 1e-3)
"""Noise that is 0 with a probability of all but e^{−1000}."""


def cohort(generator: np.random.Generator, units: int, hazards: Floats, censoring: float) -> tuple[Floats, Floats]:
    """Follow units through periods: the event, or else censoring; the rest is censored in the last period."""
    events, censored, left = np.zeros(len(hazards)), np.zeros(len(hazards)), units
    for period, hazard in enumerate(hazards):
        events[period] = generator.binomial(left, hazard)
        left -= int(events[period])
        censored[period] = generator.binomial(left, censoring) if period < len(hazards) - 1 else left
        left -= int(censored[period])
    return events, censored


def laplace(generator: np.random.Generator, scale: float, shape: tuple[int, ...]) -> Floats:
    success = -np.expm1(-1 / scale)
    return (generator.geometric(success, shape) - generator.geometric(success, shape)).astype(np.float64)


def test_without_noise_it_is_kaplan_and_meiers_curve() -> None:
    """Freireich et al. (1963): remission under 6-MP, as in every textbook: S(6) = 0.857."""
    relapse, censored = {6: 3, 7: 1, 10: 1, 13: 1, 16: 1, 22: 1, 23: 1}, {6: 1, 9: 1, 10: 1, 11: 1, 17: 1, 19: 1, 20: 1}
    censored |= {25: 1, 32: 2, 34: 1, 35: 1}
    cells = np.array([[counts.get(week, 0) for week in range(36)] for counts in (relapse, censored)], dtype=np.float64)
    life_table = LifeTable(50 * cells[0], 50 * cells[1], _NONE)
    assert life_table.survival[[6, 7, 10, 13, 16, 22, 23]] == pytest.approx(
        [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4
    )
    middle, low, high = life_table.median_period_with_ends()
    assert (middle, low) == (23, 23)
    assert high == 23
    # Greenwood's standard error of S(10) is 0.0963 for 21 patients (Collett 2015, example 2.4)
    greenwood = np.sqrt(
        np.cumsum(life_table.greenwood_variances - 1 / life_table.at_risk[: life_table.period_count] ** 2)
    )
    assert greenwood[10] * life_table.survival[10] * np.sqrt(50) == pytest.approx(0.0963, abs=5e-4)


def test_noise_weights_are_the_derivatives_of_log_survival() -> None:
    events, censored = np.array([30.0, 41, 25, 9]), np.array([7.0, 12, 30, 60])
    life_table = LifeTable(events, censored, _NONE)

    def log_survival(cells: Floats) -> Floats:
        at_risk = np.array([cells[:, period:].sum() for period in range(4)])
        return np.log(np.cumprod(1 - cells[0] / at_risk))

    step = 1e-5
    for cell in range(8):
        change = np.zeros((2, 4))
        change[divmod(cell, 4)] = step
        cells = np.stack([events, censored])
        slope = (log_survival(cells + change) - log_survival(cells - change)) / (2 * step)
        assert life_table.log_survival_derivatives[:, cell] == pytest.approx(slope, rel=1e-6, abs=1e-12)


def test_a_number_at_risk_has_the_noise_of_all_later_cells() -> None:
    law = NoiseLaw(2, 3.0)
    life_table = LifeTable(np.full(5, 100.0), np.full(5, 50.0), law)
    assert life_table.at_risk.tolist() == [750, 600, 450, 300, 150]
    assert life_table.at_risk_deviation**2 == pytest.approx([90, 72, 54, 36, 18])


def test_a_curve_ends_where_noise_could_be_all_that_is_left() -> None:
    events, censored = np.array([20.0, 20, 10, 2, 1]), np.array([200.0, 100, 20, 2, 3])
    assert LifeTable(events, censored, NoiseLaw(2, 1.0)).period_count == 3
    assert LifeTable(events, censored, NoiseLaw(2, 30.0)).period_count == 0
    empty = LifeTable(-events, censored * 0, NoiseLaw(1, 1.0))
    assert empty.period_count == 0
    assert empty.survival.tolist() == empty.band[0].tolist() == []
    assert empty.median_period_with_ends() == (None, None, None)


def count_covered(units: int, periods: int, scale: float, tables: int) -> tuple[int, int, int]:
    """Count the tables whose band, whose interval in the middle, and whose noise interval hold."""
    generator, hazards = np.random.default_rng([units, periods]), np.full(periods, 0.05)
    truth, law = np.cumprod(1 - hazards), NoiseLaw(1, scale)
    covered = np.zeros(3, dtype=int)
    for _ in range(tables):
        events, censored = cohort(generator, units, hazards, 0.02)
        own = LifeTable(events, censored, _NONE).log_survival
        noise = laplace(generator, scale, (2, periods))
        life_table = LifeTable(events + noise[0], censored + noise[1], law)
        middle, length = life_table.period_count // 2, life_table.period_count
        low, high = life_table.band
        distance = np.abs(life_table.log_survival - np.log(truth[:length]))
        covered += (
            bool(((low <= truth[:length]) & (truth[:length] <= high)).all()),
            distance[middle] <= life_table.log_survival_half_width[middle],
            abs(life_table.log_survival[middle] - own[middle]) <= life_table.log_survival_noise_half_width[middle],
        )
    return tuple(covered.tolist())


def test_bands_and_intervals_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is most of the error, and then sampling is: a band without either fails in one of them. False alarms: once
    in 10⁶.
    """
    monkeypatch.setattr(survival_estimates, "DRAWS", 400)
    for scale in (4.0, 0.5):
        assert min(count_covered(400, 10, scale, 300)) >= stats.binom.ppf(1e-6, 300, 0.95)


@pytest.mark.long
@pytest.mark.parametrize(
    ("units", "periods", "scale"), [(300, 12, 1.0), (300, 12, 2.0), (2000, 40, 2.0), (200, 8, 0.5)]
)
def test_bands_and_intervals_cover_at_length(units: int, periods: int, scale: float) -> None:
    least = 1000 * (0.95 - 4 * np.sqrt(0.05 * 0.95 / 1000))
    assert min(count_covered(units, periods, scale, 1000)) >= least


@pytest.mark.parametrize(
    "events", [(10, 20, 470), (45, 0, 15), (10, 20, 12), (450, 0, 20), (90, -20, 30), (30, 400, -10), (500, 1, 1)]
)
@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_a_curve_lies_within_its_ranges_whatever_its_hazards(events: tuple[int, ...], scale: float) -> None:
    """Also where everybody left has the event, one event more would be all of few, and noise lets the curve rise."""
    life_table = LifeTable(np.array(events, dtype=np.float64), np.zeros(3), NoiseLaw(1, scale))
    noise_limits = life_table.survival_limits(life_table.log_survival_noise_half_width, with_sampling=False)
    for lower, upper in (life_table.band, life_table.survival_limits(life_table.log_survival_half_width), noise_limits):
        assert ((lower >= 0) & (lower <= life_table.survival) & (life_table.survival <= upper) & (upper <= 1)).all()
    for end in life_table.band:
        assert (np.diff(end) <= 0).all()


@pytest.mark.parametrize("hazard", [0.9, 0.98])
def test_bands_cover_where_nearly_all_have_the_event(hazard: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarms: once in 10⁶. A band about a hazard that is cut at 0.95 misses all of 0.98."""
    monkeypatch.setattr(survival_estimates, "DRAWS", 400)
    generator, truth = np.random.default_rng(98), np.array([0.7, 0.7 * (1 - hazard)])
    covered = np.zeros(2, dtype=int)
    for _ in range(300):
        cells = np.stack(cohort(generator, 300, np.array([0.3, hazard]), 0.0)) + laplace(generator, 1.0, (2, 2))
        life_table = LifeTable(cells[0], cells[1], NoiseLaw(1, 1.0))
        covered += [
            bool(((low <= truth) & (truth <= high)).all())
            for low, high in (life_table.band, life_table.survival_limits(life_table.log_survival_half_width))
        ]
    assert covered.min() >= stats.binom.ppf(1e-6, 300, 0.95)


def count_log_rank_rejections(units: int, scale: float, hazards: tuple[float, float], tables: int) -> int:
    generator, law, rejected = np.random.default_rng(units), NoiseLaw(1, scale), 0
    for _ in range(tables):
        groups = [
            cohort(generator, units, np.full(8, hazard), censoring)
            for hazard, censoring in zip(hazards, (0.02, 0.1), strict=True)
        ]
        cells = np.stack([np.stack(group) for group in groups], axis=1) + laplace(generator, scale, (2, 2, 8))
        test = log_rank(cells[0], cells[1], law, draws=199)
        rejected += test is not None and test.p_value <= 0.05
    return rejected


def test_the_log_rank_test_keeps_its_level_under_noise_and_finds_a_difference() -> None:
    """Under much noise: a null drawn without it rejects far more. False alarms: less than once in 10⁶."""
    assert count_log_rank_rejections(300, 6.0, (0.05, 0.05), 300) <= stats.binom.isf(1e-6, 300, 0.05)
    assert count_log_rank_rejections(1000, 1.0, (0.05, 0.09), 60) >= 50


@pytest.mark.long
@pytest.mark.parametrize("scale", [0.5, 2.0, 6.0])
def test_the_log_rank_test_keeps_its_level_at_length(scale: float) -> None:
    assert count_log_rank_rejections(300, scale, (0.05, 0.05), 2000) <= 2000 * 0.05 + 4 * np.sqrt(2000 * 0.05 * 0.95)


def test_log_rank_without_noise_is_the_textbooks() -> None:
    """Freireich et al.: placebo against 6-MP, χ² = 16.79 (Collett 2015, example 2.10)."""
    placebo = {1: 2, 2: 2, 3: 1, 4: 2, 5: 2, 8: 4, 11: 2, 12: 2, 15: 1, 17: 1, 22: 1, 23: 1}
    relapse, censored = {6: 3, 7: 1, 10: 1, 13: 1, 16: 1, 22: 1, 23: 1}, {6: 1, 9: 1, 10: 1, 11: 1, 17: 1, 19: 1, 20: 1}
    censored |= {25: 1, 32: 2, 34: 1, 35: 1}
    events = np.array([[counts.get(week, 0) for week in range(24)] for counts in (relapse, placebo)], dtype=np.float64)
    last = np.array([[censored.get(week, 0) for week in range(24)], [0] * 24], dtype=np.float64)
    last[0, 23] += 5
    compared = np.ones(24, dtype=bool)
    score = survival_estimates._log_rank_scores(events[None], last[None], compared)[0]
    variance = survival_estimates._log_rank_covariance(events, last, _NONE, compared)
    assert float(score[0] ** 2 / variance[0, 0]) == pytest.approx(16.79, abs=0.005)


def test_noise_is_in_the_variance_of_the_log_rank_score() -> None:
    """Beside numeric derivatives of the score in every cell."""
    events = np.array([[30.0, 20, 9, 12], [25.0, 30, 15, 3], [18.0, 22, 8, 5]])
    censored, compared = (
        np.array([[5.0, 9, 20, 60], [7.0, 3, 12, 50], [1.0, 2, 9, 40]]),
        np.array([1, 1, 1, 0], dtype=bool),
    )
    law, step, slopes = NoiseLaw(2, 5.0), 1e-4, []
    for cell in np.ndindex(2, 3, 4):
        change = np.zeros((2, 3, 4))
        change[cell] = step
        above, below = (
            survival_estimates._log_rank_scores(
                events[None] + sign * change[0], censored[None] + sign * change[1], compared
            )[0]
            for sign in (1, -1)
        )
        slopes.append((above - below) / (2 * step))
    without = survival_estimates._log_rank_covariance(events, censored, _NONE, compared)
    noise = survival_estimates._log_rank_covariance(events, censored, law, compared) - without
    assert noise == pytest.approx(25 * np.array(slopes).T @ np.array(slopes), rel=1e-5)


def test_too_few_at_risk_are_not_compared() -> None:
    assert log_rank(np.full((2, 3), 1.0), np.full((2, 3), 2.0), NoiseLaw(1, 5.0)) is None
    assert log_rank(np.zeros((2, 3)), np.full((2, 3), 2.0), NoiseLaw(1, 5.0)) is None


def test_large_tables_are_compared_with_fewer() -> None:
    test = log_rank(np.full((20, 400), 30.0), np.full((20, 400), 30.0), NoiseLaw(1, 1.0))
    assert test is not None
    assert test.draws == 250


def test_violators_are_pooled_and_cells_are_projected() -> None:
    assert nonincreasing(np.array([0.9, 0.95, 0.7, 0.8, 0.75])).tolist() == pytest.approx(
        [0.925, 0.925, 0.75, 0.75, 0.75]
    )
    assert nonnegative_cells(np.array([5.0, -2.0, 3.0])).tolist() == [4.0, 0.0, 2.0]
    assert nonnegative_cells(np.array([[-5.0, 2.0]])).tolist() == [[0.0, 0.0]]
    assert upper_quantiles(np.arange(1.0, 20)[:, None], 0.95).tolist() == [19.0]
    assert upper_quantiles(np.arange(1.0, 40)[:, None], 0.95).tolist() == [38.0]
