"""Score tests: statistics beside textbooks', levels under noise, power, and what noise is in their variance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from inference.test_survival_estimates import laplace
from sfumato.array_types import Floats
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.score_tests import (
    UNTESTABLE,
    GroupSums,
    PairSums,
    ScoreTest,
    _noise_tail,
    correlation,
    equal_means,
    goodness_of_fit,
    independence,
    share_p_values,
    share_tails,
)

_NONE = NoiseLaw(1, 1e-3)
Generator = np.random.Generator


def test_without_noise_they_are_the_textbooks_statistics() -> None:
    cells = np.array([[20.0, 30, 25], [30.0, 20, 40], [15.0, 25, 60]])
    assert independence(cells, _NONE).statistic == pytest.approx(
        stats.chi2_contingency(cells, correction=False).statistic
    )
    shares = np.array([0.2, 0.3, 0.5])
    assert goodness_of_fit(cells[0], shares, _NONE).statistic == pytest.approx(
        stats.chisquare(cells[0], 75 * shares).statistic
    )
    two = np.array([[45.0, 55], [30, 90]])
    sums = GroupSums(two[:, 0], two[:, 1], _NONE)
    assert equal_means(sums).statistic == pytest.approx(stats.chi2_contingency(two, correction=False).statistic)


def test_a_trend_is_cochran_and_armitages() -> None:
    """χ² = N(N·Σcᵢkᵢ − K·Σcᵢnᵢ)² / (K(N − K)(N·Σcᵢ²nᵢ − (Σcᵢnᵢ)²)) (Armitage 1955)."""
    cases, others, scores = np.array([19.0, 29, 24]), np.array([497.0, 560, 269]), np.array([0.0, 1, 2])
    sizes, total = cases + others, (cases + others).sum()
    top = total * (total * (scores @ cases) - cases.sum() * (scores @ sizes)) ** 2
    bottom = cases.sum() * others.sum() * (total * (scores**2 @ sizes) - (scores @ sizes) ** 2)
    assert equal_means(GroupSums(cases, others, _NONE), scores).statistic == pytest.approx(top / bottom)


def test_two_means_are_compared_by_their_sums() -> None:
    """Without noise: (m₁ − m₂)²/(v₁/n₁ + v₂/n₂) with the variances that were released."""
    generator = np.random.default_rng(2)
    first, second = generator.uniform(2, 8, 300), generator.uniform(2.5, 8.5, 200)
    low, high = 0.0, 10.0
    sums = GroupSums(
        np.array([first.sum(), second.sum()]),
        np.array([(high - first).sum(), (high - second).sum()]),
        _NONE,
        high - low,
        np.array([first.var(), second.var()]),
    )
    welch = (first.mean() - second.mean()) ** 2 / (first.var() / 300 + second.var() / 200)
    test = equal_means(sums)
    assert test.statistic == pytest.approx(welch)
    assert test.p_value == pytest.approx(stats.chi2.sf(welch, 1), abs=0.02)


def test_noise_is_in_the_variances() -> None:
    """Where there are no rows to vary, T is u²/Var(noise of u) of the linear form."""
    law = NoiseLaw(2, 10.0)
    sums = GroupSums(np.array([4.0, 4.0]), np.array([5.0, 3.0]), law)
    position, sizes = 0.5, np.array([9.0, 7.0])
    u = (1 - position) * 4 - position * 5
    weight = np.array([1 - sizes[0] / 16, -sizes[0] / 16])
    variance = weight**2 @ (sizes * position * (1 - position) + 100 * (2 * position**2))
    assert equal_means(sums, draws=9).statistic == pytest.approx(u**2 / variance)


def test_the_noise_of_the_number_of_rows_is_in_the_variance_of_a_correlation() -> None:
    """Beside numeric derivatives of Σxy − Σx·Σy/n in the four sums and the products."""
    law_x, law_y, law, rows = NoiseLaw(2, 3.0), NoiseLaw(2, 5.0), NoiseLaw(2, 2.0), 400.0
    pairs = PairSums(rows, (-300.0, 640.0), (300.0, 1100.0), -450.0, (law_x, law_y), law, (1.0, 2.0))
    sums = np.array([100.0, 700, 1440, 160, -450])  # above and below of x in [−1, 1], of y in [−2, 2]; products

    def score(totals: Floats) -> float:
        number = ((totals[0] + totals[1]) / 2 + (totals[2] + totals[3]) / 4) / 2
        return float(totals[4] - (totals[0] - totals[1]) / 2 * (totals[2] - totals[3]) / 2 / number)

    slopes = np.array([score(sums + step) - score(sums - step) for step in 1e-3 * np.eye(5)]) / 2e-3
    noise = slopes**2 @ np.array([9.0, 9, 25, 25, 4])
    variance_x, variance_y = pairs.variances
    assert correlation(pairs, draws=9).statistic == pytest.approx(
        score(sums) ** 2 / (rows * variance_x * variance_y + noise), rel=1e-6
    )


def test_the_noise_of_the_number_of_rows_is_in_the_null_of_a_correlation() -> None:
    """With Gaussian noise and many rows near one end the score is normal, and p that of χ²; an exact n gives 0.028."""
    law, rows = NoiseLaw(2, 1000.0), 1e5
    deviation = 1000 * np.sqrt(1.25)  # of Σx, Σy: law/2 each; of n: law/4
    pairs = PairSums(rows, (-rows, -rows), (rows, rows), rows + 1.96 * deviation, (law, law), _NONE, (1.0, 1.0))
    assert correlation(pairs).p_value == pytest.approx(0.05, abs=0.012)


def count_rejected(simulate: Callable[[Generator], ScoreTest], tables: int, seed: int) -> int:
    generator = np.random.default_rng(seed)
    return sum(simulate(generator).p_value <= 0.05 for _ in range(tables))


def _table(scale: float, total: int, rows: Floats, columns: Floats) -> Callable[[Generator], ScoreTest]:
    law, shares = NoiseLaw(1, scale), np.outer(rows, columns)

    def simulate(generator: Generator) -> ScoreTest:
        cells = generator.multinomial(total, shares.ravel()).reshape(shares.shape)
        return independence(cells + laplace(generator, scale, shares.shape), law, draws=199)

    return simulate


def _fit(scale: float, total: int, shares: Floats) -> Callable[[Generator], ScoreTest]:
    law = NoiseLaw(1, scale)
    return lambda generator: goodness_of_fit(
        generator.multinomial(total, shares) + laplace(generator, scale, shares.shape), shares, law, draws=199
    )


def _shares(
    scale: float, sizes: tuple[int, ...], shares: tuple[float, ...], contrast: Floats | None = None
) -> Callable[[Generator], ScoreTest]:
    law = NoiseLaw(1, scale)

    def simulate(generator: Generator) -> ScoreTest:
        cases = generator.binomial(sizes, shares)
        noise = laplace(generator, scale, (2, len(sizes)))
        return equal_means(GroupSums(cases + noise[0], np.array(sizes) - cases + noise[1], law), contrast, draws=199)

    return simulate


def _means(
    scale: float, sizes: tuple[int, ...], shift: float, contrast: Floats | None = None
) -> Callable[[Generator], ScoreTest]:
    """Values in [0, 10] with a mean near 3, and noise of ten times the scale on their sums."""
    law, variance = NoiseLaw(1, 10 * scale), 100 * 10 / (49 * 8)

    def simulate(generator: Generator) -> ScoreTest:
        values = [10 * generator.beta(2, 5, size) + shift * group for group, size in enumerate(sizes)]
        sums = np.array([group.sum() for group in values])
        noise = laplace(generator, 10 * scale, (2, len(sizes)))
        variances = np.full(len(sizes), variance)
        released = GroupSums(sums + noise[0], 10.0 * np.array(sizes) - sums + noise[1], law, 10.0, variances)
        return equal_means(released, contrast, draws=199)

    return simulate


def _pairs(scale: float, rows: int, slope: float) -> Callable[[Generator], ScoreTest]:
    law = NoiseLaw(1, scale)

    def simulate(generator: Generator) -> ScoreTest:
        x = generator.uniform(-1, 1, rows)
        y = np.clip(slope * x + 0.6 * generator.uniform(-1, 1, rows) + 0.3, -1, 1)
        noise = laplace(generator, scale, (7,))
        sums = x.sum() + (noise[0] - noise[1]) / 2, y.sum() + (noise[2] - noise[3]) / 2
        squares = (x**2).sum() + noise[4], (y**2).sum() + noise[5]
        return correlation(
            PairSums(rows, sums, squares, (x * y).sum() + noise[6], (law, law), law, (1.0, 1.0)), draws=199
        )

    return simulate


def _low_pairs(scale: float, rows: int) -> Callable[[Generator], ScoreTest]:
    """Values near the low end −1 of both ranges, where most of the score's noise is that of the number of rows."""
    law = NoiseLaw(1, scale)

    def simulate(generator: Generator) -> ScoreTest:
        x, y = 2 * generator.beta(0.2, 5, (2, rows)) - 1
        noise = laplace(generator, scale, (7,))
        above, below = np.array([(1 + x).sum(), (1 + y).sum()]), np.array([(1 - x).sum(), (1 - y).sum()])
        above, below = above + noise[:2], below + noise[2:4]
        noisy_rows, (sum_x, sum_y) = float((above + below).sum()) / 4, (above - below) / 2
        squares = float((x**2).sum() + noise[4]), float((y**2).sum() + noise[5])
        sums, products = (float(sum_x), float(sum_y)), float((x * y).sum() + noise[6])
        return correlation(PairSums(noisy_rows, sums, squares, products, (law, law), law, (1.0, 1.0)), draws=199)

    return simulate


HALVES, UNEVEN, FOUR = np.array([0.5, 0.5]), np.array([0.8, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
RISING = np.arange(4) - 1.5
NULLS = {
    "2 × 2": _table(5.0, 200, HALVES, UNEVEN),
    "2 × 4": _table(3.0, 500, UNEVEN, FOUR),
    "fit": _fit(4.0, 200, FOUR),
    "shares": _shares(4.0, (120, 80), (0.3, 0.3)),
    "means": _means(3.0, (100, 60, 40), 0.0),
    "trend of shares": _shares(4.0, (90, 70, 50, 40), (0.3,) * 4, RISING),
    "trend of means": _means(3.0, (80, 60, 50, 40), 0.0, RISING),
    "uneven trend": _shares(4.0, (150, 30, 30), (0.2,) * 3, np.array([0.0, 1, 5]) - 2),
    "pairs": _pairs(8.0, 300, 0.0),
    "low pairs": _low_pairs(20.0, 60),
}
ALTERNATIVES = {
    "shares": _shares(2.0, (500, 500), (0.3, 0.45)),
    "means": _means(1.0, (200, 200, 200), 0.5),
    "trend of shares": _shares(2.0, (250,) * 4, (0.3, 0.35, 0.4, 0.45), RISING),
    "trend of means": _means(1.0, (150,) * 4, 0.3, RISING),
    "pairs": _pairs(2.0, 500, 0.3),
}


@pytest.mark.parametrize("name", NULLS)
def test_the_level_is_kept_under_noise(name: str) -> None:
    """False alarms: less than once in 10⁶. A null that is drawn without the noise rejects far more."""
    assert count_rejected(NULLS[name], 200, 11) <= stats.binom.isf(1e-6, 200, 0.05)


def test_a_trend_is_found_more_often_than_any_difference() -> None:
    """One degree of freedom in place of three: of 60 seeded tables at least five more."""
    sizes, shares = (150,) * 4, (0.3, 0.35, 0.4, 0.45)
    trend, any_difference = (count_rejected(_shares(2.0, sizes, shares, each), 60, 14) for each in (RISING, None))
    assert trend >= any_difference + 5


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_differences_are_found(name: str) -> None:
    assert count_rejected(ALTERNATIVES[name], 40, 12) >= 30


@pytest.mark.long
@pytest.mark.parametrize("name", NULLS)
def test_the_level_is_kept_at_length(name: str) -> None:
    assert count_rejected(NULLS[name], 2000, 13) <= 2000 * 0.05 + 4 * np.sqrt(2000 * 0.05 * 0.95)


def test_a_table_without_rows_tells_nothing() -> None:
    negative = np.array([[-3.0, 1], [-2, 2]])
    law = NoiseLaw(1, 5.0)
    assert independence(negative, law) is goodness_of_fit(negative[0], HALVES, law) is UNTESTABLE
    assert equal_means(GroupSums(negative[0], negative[1], law)) is UNTESTABLE
    assert correlation(PairSums(0.5, (0, 0), (1, 1), 0, (law, law), law, (1, 1))) is UNTESTABLE
    assert UNTESTABLE.p_value == 1


def test_small_expected_counts_are_counted_and_negative_cells_are_borne() -> None:
    cells = np.array([[100.0, -4, 3], [80.0, 6, -2]])
    test = independence(cells, NoiseLaw(1, 3.0), draws=199)
    assert test.small == 4
    assert 0.05 < test.p_value <= 1


def test_p_values_repeat() -> None:
    cells = np.array([[20.0, 30], [30, 20]])
    assert independence(cells, NoiseLaw(1, 2.0)) == independence(cells.copy(), NoiseLaw(1, 2.0))


@pytest.mark.parametrize("law", [NoiseLaw(1, 2.0), NoiseLaw(2, 1.5), NoiseLaw(1, 3.0, 0.5)])
@pytest.mark.parametrize(("count", "of", "share"), [(7, 10, 0.5), (-3, 10, 0.2), (55, 40, 0.9)])
def test_tails_of_a_share_are_those_by_enumeration(law: NoiseLaw, count: int, of: int, share: float) -> None:
    steps = np.arange(-400, 401)
    weights = np.exp(-((np.abs(steps) / law.size) ** law.order) / law.order)
    weights /= weights.sum()
    numbers = np.arange(of + 1)
    together = np.outer(stats.binom.pmf(numbers, of, share), weights)
    noisy = numbers[:, None] + steps * law.unit
    above, below = share_tails(count, of, share, law)
    assert above == pytest.approx(together[noisy >= count].sum(), rel=1e-9)
    assert below == pytest.approx(together[noisy <= count].sum(), rel=1e-9)


@pytest.mark.parametrize("size", [4096.0, 4097.0])
def test_gaussian_noise_has_the_tails_of_its_sum_and_beyond_4096_of_its_integral(size: float) -> None:
    steps = np.arange(-60_000, 60_001)
    weights = np.exp(-(steps**2) / (2 * size**2))
    tails = np.cumsum(weights[::-1])[::-1] / weights.sum()
    shown = slice(60_000 - 48_000, 60_000 + 48_001, 997)
    assert _noise_tail(steps[shown] - 0.25, NoiseLaw(2, size)) == pytest.approx(tails[shown], rel=1e-6)


def test_a_share_under_any_noise_has_tails_in_little_memory() -> None:
    """The probabilities of all outcomes of this noise would take 200 TB."""
    above, below = share_tails(700.0, 1000, 0.5, NoiseLaw(2, 1e12))
    assert above == pytest.approx(0.5, rel=3e-7)
    assert above + below == pytest.approx(1, abs=1e-6)
    assert share_tails(1e14, 1000, 0.5, NoiseLaw(2, 1e12))[0] == 0


def test_the_share_test_is_awan_and_slavkovics() -> None:
    """Their p-value at z = x + Tulap is Σ_x P(Tulap ≥ z − x)·P(X = x); Tulap is discrete Laplace plus a uniform number
    on (−½, ½). Its cumulative law is written here as they do, from the round-off of z (their Definition 4.1, q = 0).
    """
    of, scale, generator = 40, 1.0, np.random.default_rng(3)
    decay = np.exp(-1 / scale)

    def tulap_cumulative(x: Floats) -> Floats:
        whole = np.round(x)
        below = decay ** (-whole) / (1 + decay) * (decay + (x - whole + 0.5) * (1 - decay))
        above = 1 - decay**whole / (1 + decay) * (decay + (whole - x + 0.5) * (1 - decay))
        return np.where(x <= 0, below, above)

    numbers = np.arange(of + 1)
    for count, uniform in zip(generator.integers(-5, 46, 30), generator.random(30), strict=True):
        noisy = count + (0.5 - uniform)  # a larger z is a smaller p-value
        theirs = tulap_cumulative(numbers - noisy) @ stats.binom.pmf(numbers, of, 0.4)
        larger, smaller = share_p_values(float(count), of, 0.4, NoiseLaw(1, scale), uniform)
        assert larger == pytest.approx(theirs, rel=1e-9, abs=1e-15)
        assert larger + smaller == pytest.approx(1)
