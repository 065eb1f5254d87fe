"""Misses of intervals, and the level of "coefficient = 0", of simulated tables: for the table and for the population,
with a category of 16 values, and with rows of one person that correlate. Scans and moments are made in numpy as
``bench/inference.py`` makes them of real tables.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sfumato.release.prices import Price

BENCH = Path(__file__).parents[2] / "bench" / "inference.py"
DELTA = "1e-6"
COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "bounds": [18, 90]},
    "dose": {"type": "integer", "bounds": [0, 20]},
    "grade": {"values": list(range(16))},
    "sex": {"values": [0, 1]},
    "hours": {"type": "integer", "bounds": [0, 98]},
    "cured": {"values": [0, 1]},
}


@pytest.fixture(scope="module")
def bench() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("bench_of_inference", BENCH)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def patients(rows: int, per_person: int = 1) -> pd.DataFrame:
    """Return patients of whom a person has some rows, which share what their columns leave over."""
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"who": np.arange(rows) // per_person, "age": random.integers(18, 91, rows)})
    frame["dose"], frame["sex"] = random.integers(0, 21, rows), random.integers(0, 2, rows)
    frame["grade"] = np.minimum(random.geometric(0.25, rows) - 1, 15)
    person = random.normal(0, 1, rows)[frame["who"]]
    score = 0.02 * (frame["age"] - 50) - 0.05 * frame["dose"] + 0.3 * frame["sex"] + 0.1 * frame["grade"] + 0.5 * person
    frame["cured"] = (random.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    frame["hours"] = (45 + 5 * score + random.normal(0, 8, rows)).round().clip(0, 98).astype(int)
    return frame


@dataclass(frozen=True)
class Simulated:
    """A logistic regression of one table, whose scans are made in numpy."""

    bench: ModuleType
    proposal: Any
    case: Any

    @classmethod
    def of(cls, bench: ModuleType, formula: str, folder: Path, rows: int = 6000, per_person: int = 1) -> Simulated:
        case = bench.Case("patients", patients(rows, per_person), COLUMNS, formula, per_person)
        with bench.opened(case, str(folder)) as made:
            return cls(bench, made.logistic(formula, "people"), case)

    @cached_property
    def rows(self) -> Any:
        coordinates = self.bench.coordinates(self.proposal.logistic.design, self.case.frame)[:, :-1]
        event = self.case.frame["cured"].to_numpy(float)
        return self.bench.Rows(coordinates, event, np.ones(len(event)))

    @cached_property
    def truth(self) -> Any:
        """The fit of the table without noise."""
        precise = self.proposal._scan_noise(Price(50, DELTA))
        return self.bench.logistic_fit(self.proposal, self.rows, precise, self.proposal.logistic.design, noisy=False)

    def fit(self, epsilon: str, weights: np.ndarray | None = None) -> Any:
        """Make all scans of the table, with rows that count so many times."""
        rows = self.rows if weights is None else replace(self.rows, weights=weights)
        noise = self.proposal._scan_noise(Price(epsilon, DELTA))
        return self.bench.logistic_fit(self.proposal, rows, noise, self.truth.design_with_references)

    def misses(self, epsilon: str, draws: int, *, population: bool, believed: float = 1.0) -> np.ndarray:
        """Count for each coefficient the intervals, of this part of their width, that miss it."""
        random, expected = np.random.default_rng(4), [each.value for each in self.truth.coefficients(0.95)]
        count = len(self.case.frame)
        missed = np.zeros(len(expected), int)
        for _ in range(draws):
            weights = random.multinomial(count, np.full(count, 1 / count)).astype(float) if population else None
            table = self.fit(epsilon, weights).coefficients(0.95)
            ends = [each.combined if population else each.noise for each in table]
            shifts = [value - each.value for each, value in zip(table, expected, strict=True)]
            missed += [
                not (low - each.value) * believed <= shift <= (high - each.value) * believed
                for each, (low, high), shift in zip(table, ends, shifts, strict=True)
            ]
        return missed


FOUR = "cured ~ age + dose + sex + hours"
LEVELS = "cured ~ age + sex + C(grade) + dose"


def most_misses(draws: int, chance: float = 1e-7) -> float:
    """Return what misses of 5 % exceed with less than this chance (Hoeffding): of five coefficients, once in 10⁶."""
    return 0.05 * draws + math.sqrt(draws * math.log(1 / chance) / 2)


def at_length(draws: int) -> float:
    return 0.05 * draws + 4 * math.sqrt(draws * 0.05 * 0.95)


def test_logistic_intervals_hold_for_the_population_and_a_broken_twin_is_caught(
    bench: ModuleType, tmp_path: Path
) -> None:
    simulated = Simulated.of(bench, FOUR, tmp_path)
    assert simulated.misses("1", 12, population=True).max() <= most_misses(12)
    assert simulated.misses("1", 12, population=True, believed=0.02).max() > most_misses(12)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_logistic_intervals_hold_at_every_price(epsilon: str, bench: ModuleType, tmp_path: Path) -> None:
    simulated = Simulated.of(bench, FOUR, tmp_path)
    assert simulated.misses(epsilon, 300, population=True).max() <= at_length(300)
    assert simulated.misses(epsilon, 300, population=False).max() <= at_length(300)


@pytest.mark.parametrize("draws", [12, pytest.param(300, marks=pytest.mark.long)])
def test_logistic_intervals_of_the_table_hold_where_rows_of_a_person_correlate(
    draws: int, bench: ModuleType, tmp_path: Path
) -> None:
    simulated = Simulated.of(bench, FOUR, tmp_path, per_person=3)
    assert simulated.truth.coefficients(0.95)[1].combined is None
    missed = simulated.misses("1", draws, population=False)
    assert missed.max() <= (most_misses(draws) if draws < 300 else at_length(draws))


@pytest.mark.parametrize(("draws", "rows"), [(12, 3000), pytest.param(300, 10_000, marks=pytest.mark.long)])
def test_a_coefficient_of_zero_beside_16_values_is_found_at_its_level(
    draws: int, rows: int, bench: ModuleType, tmp_path: Path
) -> None:
    """The last column is shuffled anew for each draw; 12 draws exceed the limit with a chance below 1e-6."""
    simulated, random, found = Simulated.of(bench, LEVELS, tmp_path, rows=rows), np.random.default_rng(6), 0
    for _ in range(draws):
        shuffled = simulated.rows.coordinates.copy()
        shuffled[:, -1] = random.permutation(shuffled[:, -1])
        noise = simulated.proposal._scan_noise(Price(1, DELTA))
        drawn = bench.logistic_fit(
            simulated.proposal,
            replace(simulated.rows, coordinates=shuffled),
            noise,
            simulated.truth.design_with_references,
        )
        found += (drawn.coefficients(0.95)[-1].p or 0) < 0.05
    assert found <= (stats.binom.isf(1e-6, draws, 0.05) if draws < 300 else at_length(draws))
