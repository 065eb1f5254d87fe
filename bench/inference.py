"""Regressions at a price: errors of coefficients in true standard errors, misses and widths of their intervals, and the
time that their moments take.

Run with: .venv/bin/python bench/inference.py [--adult FOLDER] [--pums FILE] [--nist FILE] [--flights FOLDER]
[--draws 300] [--parts linear robust logistic prediction speed] [--only TEXT] [--prices 0.3 1 4]

A table is read once, and its exact moments get fresh noise for every draw. *table* counts the intervals that miss the
coefficient of the table at hand, for the noise alone; *population* draws the rows anew from the table, with
replacement, and counts the intervals for noise and sampling that miss the coefficient of the whole table. An interval
without ends covers; its share stands beside it. Intervals of one error variance miss more where variances differ:
what they would miss without any noise, by the exact sandwich of the table, stands beside the worst. *zero* is how
often a coefficient that is 0, of a column whose values are shuffled anew for every draw, is found at the level of 5
%. Logistic regressions make all their scans in numpy, with the same rounding, noise and fit as a release.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import sfumato as sf
from sfumato.curator.proposals.logistic import LogisticProposal, WideLogisticProposal
from sfumato.curator.proposals.regressions import ClusteredProposal, RegressionProposal, RobustProposal
from sfumato.inference.design import Category, Design
from sfumato.inference.gradient_descent import WIDE_SCAN_SHARES, LikelihoodDescent
from sfumato.inference.linear import LinearFit
from sfumato.inference.logistic import LogisticFit, NoisyScan, ScanWeights
from sfumato.inference.moments import MomentEstimates, NoisyMoments
from sfumato.inference.noise_laws import StepNoise
from sfumato.inference.robust import RESIDUAL_STEPS, SQUARE_STEPS, NoisyMeat, RobustFit
from sfumato.inference.row_expressions import COEFFICIENT_STEPS
from sfumato.mechanisms import Gaussian
from sfumato.release.prices import Price

Floats = NDArray[np.float64]
DELTA = "1e-6"


@dataclass(frozen=True)
class Case:
    """A table, what is declared of it, and a formula."""

    name: str
    frame: pd.DataFrame
    columns: Mapping[str, Mapping[str, Any]]
    formula: str
    rows_per_unit: int = 1


def _whole(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "bounds": [low, high]}


def _values(*values: object) -> dict[str, Any]:
    return {"values": list(values)}


def adult(folder: Path) -> Iterator[Case]:
    rows = pd.read_csv(folder / "adult_encoded.csv").rename(
        columns=lambda name: name.replace("-", "_").replace(">", "_")
    )
    rows = rows[:39_074].assign(shuffled=np.random.default_rng(1).permutation(rows["age"][:39_074]))
    columns = {
        "age": _whole(0, 84),
        "hours_per_week": _whole(0, 98),
        "education_num": _whole(0, 15),
        "sex": _values(0, 1),
        "race": _values(0, 1, 2, 3, 4),
        "relationship": _values(*range(6)),
        "income_50K": _values(0, 1),
        "shuffled": _whole(0, 84),
    }
    four = "hours_per_week ~ age + sex + education_num + income_50K"
    yield Case("adult, 4", rows, columns, four)
    six = "hours_per_week ~ age + sex + income_50K + race + relationship + C(education_num)"
    yield Case("adult, 6 and 16 levels", rows, columns, six)
    yield Case("adult, 3 rows per person", rows.assign(who=np.arange(len(rows)) // 3), columns, four, 3)
    yield Case("adult, zero", rows, columns, f"{four} + shuffled")
    yield Case("adult, 6 and 16 levels, zero", rows, columns, f"{six} + shuffled")


def pums(file: Path) -> Iterator[Case]:
    rows = pd.read_csv(file)
    rows = rows[rows["income"].between(0, 200_000)]
    columns = {
        "income": _whole(0, 200_000),
        "age": _whole(16, 95),
        "educ": _whole(1, 16),
        "sex": _values(0, 1),
        "married": _values(0, 1),
        "employed": _values(0, 1),
        "disability": _values(0, 1),
    }
    yield Case("pums", rows, columns, "income ~ age + educ + sex + married + employed")
    six = "income ~ age + sex + married + employed + disability + C(educ)"
    yield Case("pums, 6 and 16 levels", rows, columns, six)


def nist(file: Path) -> Iterator[Case]:
    rows = pd.read_csv(file, na_values="N").dropna(subset=["PINCP_DECILE", "EDU"])
    rows = rows.astype({"PINCP_DECILE": int, "EDU": int, "MSP": int})
    columns = {
        "PINCP_DECILE": _whole(0, 9),
        "AGEP": _whole(0, 99),
        "EDU": _whole(1, 12),
        "SEX": _values(1, 2),
        "DVET": _whole(0, 7),
        "HISP": _values(0, 1, 2, 3, 4),
        "MSP": _values(*range(1, 7)),
        "INDP_CAT": _values(*range(19)),
    }
    yield Case("nist", rows, columns, "PINCP_DECILE ~ AGEP + EDU + SEX")
    employed = rows.dropna(subset=["INDP_CAT"]).astype({"INDP_CAT": int}).reset_index(drop=True)
    six = "PINCP_DECILE ~ AGEP + EDU + SEX + C(MSP) + C(HISP) + C(INDP_CAT)"
    yield Case("nist, 6 and 19 levels", employed, columns, six)


def opened(case: Case, folder: str) -> sf.Curator:
    is_row = case.rows_per_unit == 1
    most = None if is_row else case.rows_per_unit
    table = sf.Table("people", case.frame, dict(case.columns), id="row" if is_row else "who", max_rows=most)
    unit = sf.PrivacyUnit("person", every_row=is_row)
    return sf.Curator(sf.Policy(unit, sf.Budget(100, "1e-5"), {"people": table}), Path(folder) / "bench.ledger")


def coordinates(design: Design, frame: pd.DataFrame) -> Floats:
    """Reckon the coordinates of every row as the engine does, in units in which an indicator is 1."""
    numbers = {}
    for column in design.columns:
        (name,) = column.factors
        if column.sql == "0":  # the residual of a logistic design
            numbers[name] = np.zeros(len(frame))
            continue
        scaled = (frame[name].to_numpy(float) - float(column.middle)) / float(column.slope)
        numbers[name] = np.floor(scaled * design.scale + 0.5) / design.scale
    rows = np.ones((len(frame), len(design.coordinates)))
    for index, coordinate in enumerate(design.coordinates):
        if coordinate.column is not None:
            rows[:, index] *= numbers[design.columns[coordinate.column].factors[0]]
        for category, value in coordinate.levels:
            rows[:, index] *= has_value(design.categories[category], value, frame)
    return rows


def has_value(category: Category, value: int, frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows have a value of a category, or a number in one of its ranges."""
    cells = frame[category.column].to_numpy()
    if category.edges:
        return np.asarray(np.searchsorted([float(edge) for edge in category.edges], cells, "right") == value)
    return np.asarray(cells == category.values[value])


def moments(design: Design, rows: Floats) -> Floats:
    return gram_moments(design, rows.T @ rows)


def gram_moments(design: Design, gram: Floats) -> Floats:
    values = np.zeros(len(design.gram_entry_count_by_moment))
    values[design.gram_index[design.gram_index >= 0]] = gram[design.gram_index >= 0]
    return values


def draws(mechanism: Gaussian, design: Design, exact: Floats) -> MomentEstimates:
    """Return the estimates of a fresh draw of noise on exact moments."""
    totals = np.array([round(value) for value in exact * _units(design)], np.int64)
    return MomentEstimates.from_noisy_moments(NoisyMoments(tuple(mechanism.apply(totals).tolist()), mechanism), design)


def _units(design: Design) -> Floats:
    from sfumato.inference.moments import moment_weight

    return (
        np.array([moment_weight(entries) for entries in design.gram_entry_count_by_moment.values()])
        * float(design.scale) ** 2
    )


def measure(case: Case, proposal: RegressionProposal, epsilon: str, count: int) -> None:
    """Print the errors and misses of so many draws at one price."""
    design, random = proposal.design, np.random.default_rng(11)
    mechanism = proposal._strategy_at(Price(epsilon, DELTA)).mechanism  # noqa: SLF001
    rows = coordinates(design, case.frame)
    exact = moments(design, rows)
    truth = _fit(design, MomentEstimates(exact, 1e-9 * np.eye(len(exact))), case)
    references = tuple(truth.references)
    pinned = _pinned(design, references)
    true = [each.value for each in _fit(pinned, truth.moments, case).coefficients(0.95)]
    deviations = [(each.sampling or 0) / 1.959964 for each in _fit(pinned, truth.moments, case).coefficients(0.95)]
    errors, missed, endless, population, found, ratios = [], [], [], [], [], []
    for _ in range(count):
        table = _fit(pinned, draws(mechanism, design, exact), case).coefficients(0.95)
        errors.append([each.value - value for each, value in zip(table, true, strict=True)])
        missed.append([not each.noise[0] <= value <= each.noise[1] for each, value in zip(table, true, strict=True)])
        endless.append([not np.isfinite(each.noise[1] - each.noise[0]) for each in table])
        ratios.append([each.noise[1] - each.noise[0] for each in table])
        if case.rows_per_unit == 1:
            weights = random.multinomial(len(rows), np.full(len(rows), 1 / len(rows)))
            resampled = moments(design, rows * np.sqrt(weights)[:, None])
            table = _fit(pinned, draws(mechanism, design, resampled), case).coefficients(0.95)
            ends = [each.combined or (0, 0) for each in table]
            population.append([not low <= value <= high for (low, high), value in zip(ends, true, strict=True)])
        if case.name.endswith("zero"):  # the last regressor is shuffled anew: its coefficient is 0 on the average
            shuffled = rows.copy()
            shuffled[:, -2] = random.permutation(shuffled[:, -2])
            table = _fit(pinned, draws(mechanism, design, moments(design, shuffled)), case).coefficients(0.95)
            found.append((table[-1].p or 0) < 0.05)
    rms = np.sqrt((np.array(errors) ** 2).mean(axis=0))
    needed = 2 * 1.959964 * rms
    line = [f"{case.name:<36} ε = {epsilon:<4}"]
    if case.rows_per_unit == 1:
        ratio = rms / np.array(deviations)
        line.append(f"rms {ratio.mean():6.2f} se (worst {ratio.max():.2f})")
    line.append(f"misses: table {100 * np.mean(missed):.1f} % (worst {100 * np.mean(missed, axis=0).max():.1f} %)")
    if population:
        by_term = 100 * np.mean(population, axis=0)
        worst = int(np.argmax(by_term))
        without_noise = 100 * textbook_misses(truth, pinned, rows)[worst]
        line.append(
            f"population {by_term.mean():.1f} % (worst {by_term[worst]:.1f} %, {truth.regressors[worst].label}, "
            f"{without_noise:.1f} % without noise)"
        )
    line.append(f"unbounded {100 * np.mean(endless):.1f} %")
    line.append(f"width/needed {np.median(np.median(np.array(ratios), axis=0) / needed):.2f}")
    if case.name.endswith("zero"):
        line.append(f"level of zero {100 * np.mean(found):.1f} %")
    print("  ".join(line), flush=True)


def textbook_misses(truth: LinearFit, pinned: Design, rows: Floats) -> Floats:
    """Return how often intervals of one error variance miss in large samples without noise: the table's own errors have
    the sandwich as covariance (White 1980).
    """
    fit = LinearFit(pinned, truth.moments, one_row_per_unit=True)
    regressors = rows[:, :-1] @ fit.coordinate_basis
    residuals = rows @ np.append(fit.coordinate_basis @ fit.estimate, -1.0)
    middle, slope = fit.target_middle_and_slope
    residuals -= middle / slope
    inverse = np.linalg.inv(regressors.T @ regressors)
    scores = regressors * residuals[:, None]
    stated = np.diag(inverse) * (residuals @ residuals) / (len(rows) - len(inverse))
    ratio = np.sqrt(stated / np.diag(inverse @ (scores.T @ scores) @ inverse))
    return np.array([2 - 2 * NormalDist().cdf(1.959964 * float(each)) for each in ratio])


def _pinned(design: Design, references: tuple[int, ...]) -> Design:
    """Name the reference values, so that all draws have the same coefficients."""
    from dataclasses import replace

    categories = zip(design.categories, references, strict=True)
    return replace(design, categories=tuple(replace(each, reference=index) for each, index in categories))


def _fit(design: Design, estimates: MomentEstimates, case: Case) -> LinearFit:
    return LinearFit(design, estimates, one_row_per_unit=case.rows_per_unit == 1)


def flights(folder: Path) -> Iterator[Case]:
    """Flights that are units, and at most 12 flights of every plane: delays of one plane correlate."""
    rows = pd.read_parquet(folder / "flights.parquet").dropna(subset=["tailnum", "arr_delay", "dep_delay", "air_time"])
    rows = rows.assign(arr_delay=rows["arr_delay"].clip(-60, 240).astype(int), distance=rows["distance"].clip(0, 3000))
    rows = rows.assign(late=(rows["arr_delay"] > 15).astype(int)).sample(frac=1, random_state=1)
    planes = rows.groupby("tailnum").head(12).sort_values("tailnum")
    planes = planes.assign(who=planes["tailnum"].astype("category").cat.codes).reset_index(drop=True)
    columns = {
        "late": _values(0, 1),
        "arr_delay": _whole(-60, 240),
        "distance": _whole(0, 3000),
        "hour": _whole(0, 24),
        "month": _whole(1, 12),
        "origin": _values("EWR", "JFK", "LGA"),
    }
    formula = "arr_delay ~ distance + hour + month + origin"
    yield Case("flights", rows[:40_000].reset_index(drop=True), columns, formula)
    yield Case("flights, 12 per plane", planes, columns, formula, 12)


def correlated(cases: Iterator[Case]) -> Iterator[Case]:
    """Three rows of a third of ADULT's people, who work about as much in each."""
    for case in cases:
        if case.name == "adult, 4":
            people = case.frame[: len(case.frame) // 3]
            rows = people.loc[people.index.repeat(3)].assign(who=np.repeat(np.arange(len(people)), 3))
            change = np.random.default_rng(2).normal(0, 3, len(rows)).round()
            rows = rows.assign(hours_per_week=(rows["hours_per_week"] + change).clip(0, 98).astype(int))
            yield Case("adult, 3 alike rows", rows.reset_index(drop=True), case.columns, case.formula, 3)


def alike_rows(frame: pd.DataFrame, event: str) -> pd.DataFrame:
    """Return three rows of a third of the people, whose event differs from their own in one row of ten."""
    people = frame[: len(frame) // 3].reset_index(drop=True)
    rows = people.loc[people.index.repeat(3)].assign(who=np.repeat(np.arange(len(people)), 3))
    changed = np.random.default_rng(2).random(len(rows)) < 0.1
    return rows.assign(**{event: rows[event] ^ changed}).astype({event: int}).reset_index(drop=True)


@dataclass(frozen=True)
class RobustRows:
    """The rows of a robust regression in numpy: coordinates on both scales, and the unit of each row."""

    proposal: RobustProposal
    residual: Floats
    products: Floats
    units: NDArray[np.intp]
    """Rising, from 0."""

    @classmethod
    def of(cls, proposal: RobustProposal, case: Case) -> RobustRows:
        frame, design = case.frame, proposal.meat_design
        units = np.arange(len(frame)) if case.rows_per_unit == 1 else frame["who"].to_numpy(np.intp)
        return cls(proposal, coordinates(design.residual, frame), coordinates(design.products, frame), units)

    def fit(self, noise: StepNoise, weights: Floats, pinned: Design, case: Case) -> RobustFit:
        """Make both steps of a release, where every unit counts so many times."""
        counts_row_by_row, design = weights[self.units], self.proposal.design
        gram = (self.residual * counts_row_by_row[:, None]).T @ self.residual
        fit = _fit(pinned, draws(noise.mechanisms[0], design, gram_moments(design, gram)), case)
        coefficients, clamp = self.proposal._coefficients_and_clamp(fit)  # noqa: SLF001
        residuals = self.residual @ np.array([*coefficients, -COEFFICIENT_STEPS]) / COEFFICIENT_STEPS / float(clamp)
        exact = (
            self._scores(residuals, weights) if case.rows_per_unit > 1 else self._squares(residuals, counts_row_by_row)
        )
        drawn = noise.mechanisms[1].apply(np.rint(exact).astype(np.int64))
        meat = NoisyMeat(coefficients, clamp, tuple(drawn.tolist()), noise.mechanisms[1])
        return self.proposal._robust_fit(fit, meat)  # noqa: SLF001

    def _squares(self, residuals: Floats, counts_row_by_row: Floats) -> Floats:
        """Return the weighted sums of squared residuals times products."""
        design = self.proposal.meat_design.products
        squares = np.floor(np.minimum(residuals**2, 1) * SQUARE_STEPS + 0.5)
        gram = (self.products * (counts_row_by_row * squares)[:, None]).T @ self.products
        return gram_moments(design, gram) * _units(design)

    def _scores(self, residuals: Floats, weights: Floats) -> Floats:
        """Return the weighted products of the units' scores."""
        assert isinstance(self.proposal, ClusteredProposal)
        grid = self.proposal.grid
        steps = np.floor(np.clip(residuals, -1, 1) * RESIDUAL_STEPS + 0.5)
        scores = np.add.reduceat(self.products * steps[:, None], np.flatnonzero(np.diff(self.units, prepend=-1)))
        rounded = np.floor(scores * grid.design.scale / grid.divisor + 0.5)
        gram = (rounded * weights[:, None]).T @ rounded
        return np.array([gram[pair] for pair in grid.coordinate_pairs]) * np.array(grid.weights)


def measure_robust(case: Case, proposal: RobustProposal, epsilon: str, count: int) -> None:
    """Print the misses of robust intervals for the population: units are drawn anew from the table's."""
    design, random = proposal.design, np.random.default_rng(11)
    noise, rows = proposal._step_noise(Price(epsilon, DELTA)), RobustRows.of(proposal, case)  # noqa: SLF001
    exact = moments(design, rows.residual)
    truth = _fit(design, MomentEstimates(exact, 1e-9 * np.eye(len(exact))), case)
    pinned = _pinned(design, tuple(truth.references))
    true = [each.value for each in _fit(pinned, truth.moments, case).coefficients(0.95)]
    units = int(rows.units.max()) + 1
    missed, endless, widths = [], [], []
    for _ in range(count):
        weights = random.multinomial(units, np.full(units, 1 / units)).astype(float)
        table = rows.fit(noise, weights, pinned, case).coefficients(0.95)
        ends = [each.combined or (0, 0) for each in table]
        missed.append([not low <= value <= high for (low, high), value in zip(ends, true, strict=True)])
        endless.append([not np.isfinite(high - low) for low, high in ends])
        widths.append([(high - low) / 2 for low, high in ends])
    misses = 100 * np.mean(missed, axis=0)
    worst = int(np.argmax(misses))
    print(
        f"{case.name:<36} ε = {epsilon:<4} robust: misses {misses.mean():.1f} % (worst {misses[worst]:.1f} %, "
        f"{truth.regressors[worst].label})  unbounded {100 * np.mean(endless):.1f} %  half-widths "
        f"{', '.join(f'{width:.3g}' for width in np.median(widths, axis=0)[:6])}",
        flush=True,
    )


def logistic_cases(options: argparse.Namespace) -> Iterator[Case]:
    for case in () if options.adult is None else adult(options.adult):
        if case.name == "adult, 4":
            four = "income_50K ~ age + sex + education_num + hours_per_week"
            yield Case("adult income, 4", case.frame, case.columns, four)
            yield Case("adult income, zero", case.frame, case.columns, f"{four} + shuffled")
            levels = "income_50K ~ age + sex + hours_per_week + race + relationship + C(education_num)"
            yield Case("adult income, 6 and 16 levels", case.frame, case.columns, levels)
            yield Case("adult income, 6 and 16 levels, zero", case.frame, case.columns, f"{levels} + shuffled")
    for case in () if options.adult is None else correlated(adult(options.adult)):
        yield Case("adult income, 3 alike rows", case.frame, case.columns, four, 3)
    for case in () if options.pums is None else pums(options.pums):
        if case.name == "pums":
            formula = "employed ~ age + educ + sex + married"
            yield Case("pums employed", case.frame, case.columns, formula)
            yield Case("pums employed, 3 alike rows", alike_rows(case.frame, "employed"), case.columns, formula, 3)
    for case in () if options.flights is None else flights(options.flights):
        name = case.name.replace("flights", "flights late")
        yield Case(name, case.frame, case.columns, case.formula.replace("arr_delay", "late"), case.rows_per_unit)
    for case in () if options.nist is None else nist(options.nist):
        if case.name != "nist":
            continue
        rows = case.frame.dropna(subset=["DPHY"])
        rows = rows.assign(difficulty=(rows["DPHY"] == 1).astype(int)).reset_index(drop=True)
        columns = {**case.columns, "difficulty": _values(0, 1)}
        yield Case("nist difficulty", rows, columns, "difficulty ~ AGEP + EDU + PINCP_DECILE + SEX")


@dataclass(frozen=True)
class Rows:
    """The rows of a logistic design in numpy: coordinates in units of 1, the event, and how often each row counts."""

    coordinates: Floats
    event: Floats
    weights: Floats

    def scan(self, scan_weights: ScanWeights, coefficients: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the weighted sums of a scan as the engine reads them, up to the rounding of sums."""
        design, steps = scan_weights.logistic.design, scan_weights.mean_steps
        score = np.clip(self.coordinates @ (np.array(coefficients) / COEFFICIENT_STEPS), -30, 30)
        mean = np.floor(steps / (1 + np.exp(-score)) + 0.5) / steps
        gradient = self.coordinates.T @ (self.weights * (self.event - mean))
        curvature = (self.coordinates * (self.weights * mean * (1 - mean))[:, None]).T @ self.coordinates
        size = len(design.coordinates)
        gram = np.zeros((size, size))
        gram[:-1, :-1], gram[:-1, -1], gram[-1, :-1] = curvature, gradient, gradient
        values = np.zeros(len(design.gram_entry_count_by_moment))
        values[design.gram_index[design.gram_index >= 0]] = gram[design.gram_index >= 0]
        by_moment = dict(zip(design.gram_entry_count_by_moment, values, strict=True))
        sums = [self.weights.sum(), *(by_moment[moment] for moment in scan_weights.logistic.moments)]
        return np.rint(np.array(sums) / scan_weights.deviation_units).astype(np.int64)


def logistic_fit(
    proposal: LogisticProposal, rows: Rows, noise: StepNoise, design: Design, *, noisy: bool = True
) -> LogisticFit:
    """Make all scans of rows in numpy."""
    coefficients = (0,) * (len(design.coordinates) - 1)
    fit = None
    for mechanism in noise.mechanisms if noisy else noise.mechanisms[-1:] * 12:
        exact = rows.scan(proposal.scan_weights, coefficients)
        drawn = mechanism.apply(exact) if noisy else exact
        scan = NoisyScan(coefficients, tuple(drawn.tolist()), mechanism)
        fit = LogisticFit.from_scan(scan, proposal.scan_weights, design, one_row_per_unit=proposal.one_row_per_unit)
        coefficients = fit.next_coefficients()
    assert fit is not None
    return fit


def measure_logistic(case: Case, proposal: LogisticProposal, epsilon: str, count: int) -> None:
    """Print the errors and misses of so many logistic fits at one price."""
    random, noise = np.random.default_rng(5), proposal._scan_noise(Price(epsilon, DELTA))  # noqa: SLF001
    ones = np.ones(len(case.frame))
    event = case.frame[proposal.logistic.design.columns[-1].factors[0]].to_numpy(float)
    rows = Rows(coordinates(proposal.logistic.design, case.frame)[:, :-1], event, ones)
    precise = proposal._scan_noise(Price(50, DELTA))  # noqa: SLF001
    truth = logistic_fit(proposal, rows, precise, proposal.logistic.design, noisy=False)
    pinned = truth.design_with_references
    table = logistic_fit(proposal, rows, precise, pinned, noisy=False).coefficients(0.95)
    true, deviations = [each.value for each in table], np.array([each.sampling or 0 for each in table]) / 1.959964
    errors, missed, endless, population, found, widths = [], [], [], [], [], []
    for _ in range(count):
        table = logistic_fit(proposal, rows, noise, pinned).coefficients(0.95)
        errors.append([each.value - value for each, value in zip(table, true, strict=True)])
        missed.append([not each.noise[0] <= value <= each.noise[1] for each, value in zip(table, true, strict=True)])
        endless.append([not np.isfinite(each.noise[1] - each.noise[0]) for each in table])
        widths.append([each.noise[1] - each.noise[0] for each in table])
        if case.rows_per_unit == 1:
            weights = random.multinomial(len(event), ones / len(event)).astype(float)
            resampled = Rows(rows.coordinates, event, weights)
            table = logistic_fit(proposal, resampled, noise, pinned).coefficients(0.95)
            ends = [each.combined or (0, 0) for each in table]
            population.append([not low <= value <= high for (low, high), value in zip(ends, true, strict=True)])
        if case.name.endswith("zero"):  # the last column is shuffled anew: its coefficient is 0 on the average
            shuffled = rows.coordinates.copy()
            shuffled[:, -1] = random.permutation(shuffled[:, -1])
            table = logistic_fit(proposal, Rows(shuffled, event, ones), noise, pinned).coefficients(0.95)
            found.append((table[-1].p or 0) < 0.05)
    rms = np.sqrt((np.array(errors) ** 2).mean(axis=0))
    line = [f"{case.name:<36} ε = {epsilon:<4}"]
    line.append(f"misses: table {100 * np.mean(missed):.1f} % (worst {100 * np.mean(missed, axis=0).max():.1f} %)")
    if population:
        ratio, by_term = rms / deviations, 100 * np.mean(population, axis=0)
        line.append(f"population {by_term.mean():.1f} % (worst {by_term.max():.1f} %)")
        line.append(f"rms {ratio.mean():.2f} se (worst {ratio.max():.2f})")
    line.append(f"unbounded {100 * np.mean(endless):.1f} %")
    line.append(f"width/needed {np.median(np.median(np.array(widths), axis=0) / (2 * 1.959964 * rms)):.2f}")
    if case.name.endswith("zero"):
        line.append(f"level of zero {100 * np.mean(found):.1f} %")
    print("  ".join(line), flush=True)


def wide_case(folder: Path) -> Case:
    """All 13 columns of ADULT, categories one-hot."""
    rows = pd.read_csv(folder / "adult_encoded.csv").rename(
        columns=lambda name: name.replace("-", "_").replace(">", "_")
    )
    sizes = json.loads((folder / "adult_encoded_domain.json").read_text())
    domain = {name.replace("-", "_").replace(">", "_"): size for name, size in sizes.items()}
    numbers = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    columns = {name: _whole(0, size - 1) if name in numbers else _values(*range(size)) for name, size in domain.items()}
    terms = " + ".join(name if name in numbers else f"C({name})" for name in domain if name != "income_50K")
    return Case("adult income, 13 columns", rows, columns, f"income_50K ~ {terms}")


def measure_prediction(case: Case, proposal: WideLogisticProposal, epsilon: str, splits: int) -> None:
    """Print the area under the curve on a fifth of the rows, fitted on the others in numpy with the released noise."""
    design, noise = proposal.logistic.design, proposal._scan_noise(Price(epsilon, DELTA))  # noqa: SLF001
    rows = coordinates(design, case.frame)[:, :-1]
    event = case.frame[design.columns[-1].factors[0]].to_numpy(float)
    deviations = proposal._gradient_deviations(noise)  # noqa: SLF001
    spread = float(noise.mechanisms[0].sizes[0]) / float(design.scale) ** 2
    areas = []
    for split in range(splits):
        random = np.random.default_rng(split)
        order = random.permutation(len(rows))
        train, held_out = order[: len(rows) * 4 // 5], order[len(rows) * 4 // 5 :]
        sums = rows[train].sum(axis=0) + random.normal(0, spread, rows.shape[1])
        squares = (rows[train] ** 2).sum(axis=0) + random.normal(0, spread, rows.shape[1])
        indicators = np.array([each.column is None for each in design.coordinates[:-1]])
        descent = LikelihoodDescent.starting_at_zero(
            sums, np.where(indicators, sums, squares), deviations[0] * float(WIDE_SCAN_SHARES[1]) ** 0.5
        )
        for deviation in deviations:
            score = rows[train] @ (np.array(descent.next_coefficients) / COEFFICIENT_STEPS)
            gradient = rows[train].T @ (event[train] - 1 / (1 + np.exp(-score)))
            descent = descent.step(gradient + random.normal(0, deviation, len(gradient)))
        areas.append(_area(event[held_out] > 0, rows[held_out] @ descent.coefficients))
    shown = ", ".join(f"{area:.4f}" for area in areas)
    print(f"{case.name:<30} ε = {epsilon:<4} held-out AUC {np.mean(areas):.4f} ({shown})", flush=True)


def _area(event: NDArray[np.bool_], score: Floats) -> float:
    """Return how often an event has the higher score, with ties counted half."""
    _, ranks, counts = np.unique(score, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - (counts - 1) / 2)[ranks]
    events = int(event.sum())
    return float((middle[event].sum() - events * (events + 1) / 2) / (events * (len(event) - events)))


def speed(rows: int) -> None:
    """Compare the time of all moments of ten columns with plain sums of the same products."""
    import duckdb

    random = np.random.default_rng(0)
    names = [f"x{index}" for index in range(9)]
    frame = pd.DataFrame({name: random.integers(0, 101, rows) for name in [*names, "y"]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        frame.to_parquet(path)
        columns = {name: _whole(0, 100) for name in frame.columns}
        table = sf.Table("people", path, columns, id="row")
        unit = sf.PrivacyUnit("person", every_row=True)
        policy = sf.Policy(unit, sf.Budget(100, "1e-5"), {"people": table})
        with sf.Curator(policy, Path(folder) / "bench.ledger") as made:
            proposal = made.regress(f"y ~ {' + '.join(names)}", "people")
            whole = least_cpu_seconds(lambda: proposal.release(epsilon=1, delta=DELTA, fresh=True))
        pairs = [f"SUM({a} * {b})" for i, a in enumerate(frame.columns) for b in frame.columns[i:]]
        sums = ", ".join([*pairs, *(f"SUM({a})" for a in frame.columns)])
        plain = least_cpu_seconds(lambda: duckdb.sql(f"SELECT COUNT(*), {sums} FROM '{path}'").fetchall())
    print(f"{rows:,} rows, 10 columns: release {whole:.2f} s, plain sums {plain:.2f} s, ratio {whole / plain:.1f}")


def least_cpu_seconds(run: Callable[[], object]) -> float:
    """Return the least CPU time of three runs, over all threads."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def robust_cases(options: argparse.Namespace) -> Iterator[Case]:
    if options.adult is not None:
        yield from (
            case for case in adult(options.adult) if case.rows_per_unit == 1 and "levels, zero" not in case.name
        )
        yield from correlated(adult(options.adult))
    if options.pums is not None:
        yield from pums(options.pums)
    if options.nist is not None:
        yield from nist(options.nist)
    if options.flights is not None:
        yield from flights(options.flights)


PARTS = ("linear", "robust", "logistic", "prediction", "speed")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--pums", type=Path)
    parser.add_argument("--nist", type=Path)
    parser.add_argument("--flights", type=Path)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--only", default="", help="only cases whose name has this text")
    parser.add_argument("--prices", nargs="*", default=["0.3", "1", "4"])
    return parser.parse_args()


def linear_cases(options: argparse.Namespace) -> Iterator[Case]:
    sources = ((adult, options.adult), (pums, options.pums), (nist, options.nist), (flights, options.flights))
    for source, path in sources:
        yield from () if path is None else source(path)


def measure_cases(options: argparse.Namespace) -> None:
    """Measure every case of the chosen parts at every price."""
    parts: dict[str, tuple[Iterator[Case], Any, dict[str, Any], Any]] = {
        "linear": (linear_cases(options), sf.Curator.regress, {}, measure),
        "robust": (robust_cases(options), sf.Curator.regress, {"robust": True}, measure_robust),
        "logistic": (logistic_cases(options), sf.Curator.logistic, {}, measure_logistic),
    }
    for part in (part for part in parts if part in options.parts):
        cases, propose, how, measure_case = parts[part]
        for case in (case for case in cases if options.only in case.name):
            with tempfile.TemporaryDirectory() as folder, opened(case, folder) as made:
                proposal = propose(made, case.formula, "people", **how)
                for epsilon in options.prices:
                    measure_case(case, proposal, epsilon, options.draws)


def main() -> None:
    options = parse_options()
    warnings.simplefilter("ignore", sf.WeakPrivacy)
    measure_cases(options)
    if "prediction" in options.parts and options.adult is not None:
        case = wide_case(options.adult)
        with tempfile.TemporaryDirectory() as folder, opened(case, folder) as made:
            wide = made.logistic(case.formula, "people")
            assert isinstance(wide, WideLogisticProposal)
            for epsilon in ("0.1", "0.5", "1"):
                measure_prediction(case, wide, epsilon, 3)
    if "speed" in options.parts:
        speed(options.rows)


if __name__ == "__main__":
    main()
