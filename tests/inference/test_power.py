"""Power beside the best published private tests with the same noise: at least nine tenths of theirs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from inference.published_tests import alabi_vadhan, awan_slavkovic_power, kifer_rogers, kifer_rogers_fit
from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.noise_laws import NoiseLaw, SeededDraws
from sfumato.inference.power import TABLES as SIMULATED, AssumedCounts, AssumedGroups, AssumedShare, count_rejections
from sfumato.inference.score_tests import (
    GroupSums,
    PairSums,
    ScoreTest,
    correlation,
    draw_binomial,
    goodness_of_fit,
    independence,
    share_p_values,
)

Generator = np.random.Generator
Both = Callable[[Generator], tuple[bool, bool]]
"""Draws one table, and returns whether ours and theirs reject at 5 %."""
DRAWS = 199


def independence_of(total: int, effect: float, sigma: float) -> Both:
    probability, law = 0.25 + effect * np.array([1, -1, -1, 1]), NoiseLaw(2, sigma)

    def draw(generator: Generator) -> tuple[bool, bool]:
        noise = np.rint(generator.normal(0, sigma, (2, 2)))
        cells = generator.multinomial(total, probability).reshape(2, 2) + noise
        return independence(cells, law, DRAWS).p_value <= 0.05, kifer_rogers(cells, sigma) <= 0.05

    return draw


def fit_of(total: int, shift: float, sigma: float) -> Both:
    shares, law = np.array([0.1, 0.2, 0.3, 0.4]), NoiseLaw(2, sigma)
    truth = shares + shift * np.array([1, 1, -1, -1])

    def draw(generator: Generator) -> tuple[bool, bool]:
        cells = generator.multinomial(total, truth) + np.rint(generator.normal(0, sigma, 4))
        ours = goodness_of_fit(cells, shares, law, DRAWS).p_value
        return ours <= 0.05, kifer_rogers_fit(cells, shares, total, sigma) <= 0.05

    return draw


def correlation_of(rows: int, slope: float, sigma: float) -> Both:
    """Ours knows the sums above and below, as CORR releases them; theirs the number of rows and the sums, which have
    the same noise.
    """
    law = NoiseLaw(2, sigma)
    deviations = sigma * np.array([0.5, 0.5**0.5, 0.5**0.5, 1, 1, 1])

    def noise(generator: Generator, draws: int) -> Floats:
        return generator.normal(0, 1, (draws, 6)) * deviations

    def draw(generator: Generator) -> tuple[bool, bool]:
        x = generator.uniform(-1, 1, rows)
        y = np.clip(slope * x + 0.6 * generator.uniform(-1, 1, rows), -1, 1)
        drawn = np.rint(generator.normal(0, sigma, 7))
        noisy_rows = rows + float(drawn[:4].sum()) / 4
        sums = x.sum() + (drawn[0] - drawn[1]) / 2, y.sum() + (drawn[2] - drawn[3]) / 2
        squares, products = (x @ x + drawn[4], y @ y + drawn[5]), x @ y + drawn[6]
        ours = correlation(PairSums(noisy_rows, sums, squares, products, (law, law), law, (1.0, 1.0)), DRAWS)
        theirs = alabi_vadhan(np.array([noisy_rows, *sums, *squares, products]), noise, generator, DRAWS)
        return ours.p_value <= 0.05, theirs <= 0.05

    return draw


TABLES = {
    "independence": independence_of(1000, 0.02, 8.0),
    "independence of few": independence_of(300, 0.045, 5.0),
    "fit": fit_of(500, 0.03, 10.0),
    "fit of few": fit_of(150, 0.05, 5.0),
    "correlation": correlation_of(300, 0.12, 5.0),
    "correlation of few": correlation_of(100, 0.25, 3.0),
}


def found_by_both(draw: Both, tables: int) -> tuple[float, float]:
    generator = np.random.default_rng(21)
    ours, theirs = np.mean([draw(generator) for _ in range(tables)], axis=0)
    return float(ours), float(theirs)


@pytest.mark.parametrize("name", TABLES)
def test_ours_find_what_the_best_find(name: str) -> None:
    """Of the same 30 tables: ours and theirs differ in fewer than 11, and both find some."""
    ours, theirs = found_by_both(TABLES[name], 30)
    assert ours >= theirs - 0.35
    assert ours > 0.2


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_power_is_nine_tenths_of_the_best(name: str) -> None:
    ours, theirs = found_by_both(TABLES[name], 2000)
    print(f"{name}: {100 * ours:.1f} % of 2,000 tables, theirs {100 * theirs:.1f} %")
    assert ours >= 0.9 * theirs - 4 * (theirs * (1 - theirs) / 2000) ** 0.5
    assert 0.3 < theirs < 0.98


@pytest.mark.parametrize(
    ("units", "epsilon"),
    [(30, 1.0), *(pytest.param(*each, marks=pytest.mark.long) for each in ((100, 0.5), (300, 0.1)))],
)
def test_the_share_has_the_power_of_the_most_powerful_test(units: int, epsilon: float) -> None:
    """Exact but for the mean over 40 uniform numbers of the released hash."""
    decay, law, grid = np.exp(-epsilon), NoiseLaw(1, 1 / epsilon), (np.arange(40) + 0.5) / 40
    steps, numbers = np.arange(-300, units + 301), np.arange(units + 1)
    noise = np.exp(-np.abs(steps[:, None] - numbers) * epsilon) * (1 - decay) / (1 + decay)
    likely = noise @ stats.binom.pmf(numbers, units, 0.6)
    near = likely > 1e-7
    found = [np.mean([share_p_values(float(z), units, 0.5, law, u)[0] <= 0.05 for u in grid]) for z in steps[near]]
    assert likely[near] @ found == pytest.approx(awan_slavkovic_power(units, 0.5, 0.6, epsilon, 0.05), abs=5e-3)


@pytest.mark.parametrize("level", [1e-6, 0.05, 0.5, 1])
@pytest.mark.parametrize("share", [0.4, 0.5, 0.53])
def test_few_p_values_tell_how_many_reject(share: float, level: float) -> None:
    """The counts that reject are the ends of the sorted ones; here every p-value is computed."""
    law, assumed = NoiseLaw(1, 4.0), AssumedShare(300, share, 0.5)
    draws = SeededDraws("power", str(assumed))
    counts = draw_binomial(draws, assumed.of, share, SIMULATED) + law.draw(draws, SIMULATED)
    pairs = zip(counts.tolist(), draws.uniforms(SIMULATED).tolist(), strict=True)
    smaller = [min(share_p_values(count, assumed.of, 0.5, law, uniform)) for count, uniform in pairs]
    assert assumed.count_rejections(law, level) == sum(2 * p_value <= level for p_value in smaller)


@pytest.mark.parametrize("shape", [(101, 1), (4, 26)])
def test_a_power_that_takes_minutes_is_refused(shape: tuple[int, int]) -> None:
    """It is free, so anybody may ask a server for many."""
    assumed = AssumedCounts(np.full(shape, 50.0))
    with pytest.raises(Unsupported, match=r"at most 100 groups; this answer has 10[14]"):
        assumed.count_rejections(independence, NoiseLaw(1, 4.0), 0.05)
    groups = AssumedGroups(np.full(shape, 50.0).ravel(), np.full(shape, 0.5).ravel())
    with pytest.raises(Unsupported, match=r"at most 100 groups"):
        count_rejections(groups, GroupSums(groups.sizes, groups.sizes, NoiseLaw(1, 4.0)), None, 0.05)


def test_the_power_of_a_hundred_counts_is_simulated() -> None:
    assumed, tested = AssumedCounts(np.full((50, 2), 50.0)), []

    def reject_the_first(table: Floats, *_: object) -> ScoreTest:
        tested.append(table)
        return ScoreTest(9.0, 0.01 if len(tested) == 1 else 0.9, DRAWS)

    assert assumed.count_rejections(reject_the_first, NoiseLaw(1, 4.0), 0.05) == 1
    assert len(tested) == SIMULATED


@pytest.mark.parametrize(
    ("means", "deviation", "rule"),
    [
        ([40, 60], 5, "means"),
        ([5, 11], 1, "means"),
        ([4, -1], 5, "means"),
        ([5, 9], 3.01, "deviation"),
        ([5, 10], 1e-9, "deviation"),
    ],
)
def test_means_and_deviations_that_bounds_exclude_are_refused(means: list[int], deviation: float, rule: str) -> None:
    assumed = AssumedGroups.parse(2, 200, None, means, deviation)
    with pytest.raises(InvalidParameter, match=f"{rule} must be"):
        assumed.require_possible(GroupSums(np.zeros(2), np.zeros(2), NoiseLaw(1, 2.0), 10.0, None, 0.0))


def test_the_largest_deviation_of_values_within_bounds_is_allowed() -> None:
    assumed = AssumedGroups.parse(2, [Decimal(200), Fraction(200)], None, [5, 9], 3)
    assumed.require_possible(GroupSums(np.zeros(2), np.zeros(2), NoiseLaw(1, 2.0), 10.0, None, 0.0))
    AssumedGroups.parse(2, 200, [0.1, 0.2], None, None).require_possible(
        GroupSums(np.zeros(2), np.zeros(2), NoiseLaw(1, 2.0), 1.0, None, 0.0)
    )


@pytest.mark.parametrize("size", [100, 100.0, "100", Decimal(100), Fraction(100), np.int64(100), np.float64(100)])
def test_any_number_is_the_size_of_every_group(size: Any) -> None:
    assert AssumedGroups.parse(3, size, [0.1, 0.2, 0.3], None, None).sizes.tolist() == [100.0] * 3
    assert AssumedGroups.parse(2, np.array([7, size]), [0.1, 0.2], None, None).sizes.tolist() == [7.0, 100.0]
