"""Levels of tests under noise, coverage of survival bands, and power beside published private tests.

Run: python bench/hypothesis_tests.py [tables]

Peers are written here from their papers: the binomial test of Awan & Slavković (2018), the χ² tests of Kifer & Rogers
(2017) under Gaussian noise, the Monte Carlo test of a slope of Alabi & Vadhan (2022), and the F₁ test of Swanberg,
Globus-Harris, Griffith, Ritz, Groce & Bray (2019).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from inference import test_power, test_score_tests as score_levels, test_survival_estimates as survival_levels
from inference.published_tests import awan_slavkovic_power
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.score_tests import GroupSums, equal_means, share_p_values

TABLES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
Generator = np.random.Generator


def _share(found: int, tables: int = TABLES) -> str:
    return f"{100 * found / tables:5.1f} % ± {400 * np.sqrt(0.05 * 0.95 / tables):.1f}"


def levels() -> None:
    print(f"rejected at 5 % under the null, {TABLES:,} tables (± 4 standard errors)")
    for name, simulate in score_levels.NULLS.items():
        print(f"  {name:10} {_share(score_levels.count_rejected(simulate, TABLES, 17))}")
    for scale in (0.5, 2.0, 6.0):
        found = survival_levels.count_log_rank_rejections(300, scale, (0.05, 0.05), TABLES)
        print(f"  log-rank, 300 units a group, scale {scale:g}: {_share(found)}")


def coverage() -> None:
    tables = max(1, TABLES // 2)
    print(f"covered at 95 %, {tables:,} tables: band, interval at one time, interval of the noise")
    for units, periods, scale in ((300, 12, 1.0), (300, 12, 2.0), (2000, 40, 2.0), (200, 8, 0.5)):
        held = survival_levels.count_covered(units, periods, scale, tables)
        print(f"  {units} units, {periods} periods, scale {scale:g}: {_percents(held, tables)}")


def _percents(found: Sequence[float], tables: int) -> str:
    return " and ".join(f"{100 * each / tables:.1f} %" for each in found)


def binomial() -> None:
    """Exact power: ours, with its uniform number, and theirs by their own formula; both one-sided at 5 %."""
    print("share 0.5 against 0.6, one-sided at 5 %: power of ours and of Awan & Slavković")
    grid = (np.arange(200) + 0.5) / 200
    for of, epsilon in ((30, 1.0), (100, 0.5), (100, 1.0), (300, 0.1)):
        law, numbers, decay = NoiseLaw(1, 1 / epsilon), np.arange(of + 1), np.exp(-epsilon)
        steps = np.arange(-300, of + 301)
        noise = np.exp(-np.abs(steps[:, None] - numbers) * epsilon) * (1 - decay) / (1 + decay)
        truth = noise @ stats.binom.pmf(numbers, of, 0.6)
        ours = [np.mean([share_p_values(float(z), of, 0.5, law, u)[0] <= 0.05 for u in grid]) for z in steps]
        theirs = awan_slavkovic_power(of, 0.5, 0.6, epsilon, 0.05)
        print(f"  n = {of}, ε = {epsilon:g}: {_percents([float(truth @ ours), theirs], 1)}")


def tables() -> None:
    print(f"Gaussian noise, {TABLES:,} tables: power of ours and of Kifer & Rogers, or Alabi & Vadhan (correlation)")
    for name, draw in test_power.TABLES.items():
        print(f"  {name}: {_percents(test_power.found_by_both(draw, TABLES), 1)}")


def swanberg(generator: Generator, values: list[np.ndarray], epsilon: float, cache: dict[int, np.ndarray]) -> bool:
    """Return whether the F₁ test at 5 % rejects: sensitivities 4 and 3, seven tenths of ε for the means."""

    def noisy(groups: list[np.ndarray]) -> tuple[float, float]:
        mean = np.concatenate(groups).mean()
        between = sum(len(group) * abs(group.mean() - mean) for group in groups)
        within = sum(np.abs(group - group.mean()).sum() for group in groups)
        return between + generator.laplace(0, 4 / (0.7 * epsilon)), within + generator.laplace(0, 3 / (0.3 * epsilon))

    sizes = [len(group) for group in values]
    degrees = sum(sizes) - len(sizes)
    between, within = noisy(values)
    deviation = max(np.sqrt(np.pi / 2) * within / degrees, 1e-3)
    key = round(deviation * 200)
    if key not in cache:
        simulated = []
        for _ in range(400):
            b, w = noisy([generator.normal(0, max(key, 1) / 200, size) for size in sizes])
            simulated.append(b / (len(sizes) - 1) / (max(w, 1e-9) / degrees))
        cache[key] = np.sort(simulated)
    return bool(between / (len(sizes) - 1) / (max(within, 1e-9) / degrees) >= cache[key][int(0.95 * 400)])


def released_sums(generator: Generator, values: list[np.ndarray]) -> GroupSums:
    """Return the sums and variances that AVG and VARIANCE release at ε = 1, of which seven tenths pay for the means."""
    noise, law = generator.laplace(0, 1 / 0.7, (2, 3)), NoiseLaw(1, 2**20 / 0.7, 2.0**-20)
    above, below = ([group.sum() for group in values] + noise[0], [(1 - group).sum() for group in values] + noise[1])
    squares = [((group - 0.5) ** 2).sum() for group in values] + generator.laplace(0, 0.25 / 0.3, 3)
    rows = np.maximum(above + below, 1.0)
    variances = (squares + np.sqrt(2) * 0.25 / 0.3) / rows - (above / rows - 0.5) ** 2
    return GroupSums(above, below, law, 1.0, variances)


def variance_analysis() -> None:
    count = max(1, TABLES // 2)
    print(f"analysis of variance, means 0.35, 0.5, 0.65, deviation 0.15, ε = 1, {count:,} tables: power of ours and F₁")
    for size in (20, 40, 80):
        generator, found, cache = np.random.default_rng(size), np.zeros(2), dict[int, np.ndarray]()
        for _ in range(count):
            values = [np.clip(generator.normal(mean, 0.15, size), 0, 1) for mean in (0.35, 0.5, 0.65)]
            ours = equal_means(released_sums(generator, values), None, 499).p_value <= 0.05
            found += ours, swanberg(generator, values, 1.0, cache)
        print(f"  {size} in each group: {_percents(found, count)}")


BENCHES: tuple[Callable[[], None], ...] = (binomial, tables, variance_analysis, levels, coverage)

if __name__ == "__main__":
    for bench in BENCHES:
        bench()
