"""Robust errors: what one unit moves in the meat, its noise, the sandwich without noise, and intervals that hold."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from covering_cases import covering
from inference.rows import COLUMNS, curator, people
from sfumato.curator.proposals.moment_proposals import select_rows
from sfumato.curator.proposals.regressions import STEP_SHARES, RobustProposal
from sfumato.engine.duckdb.driver import StatementReader
from sfumato.errors import RequestDiffers, SfumatoError, Unsupported
from sfumato.inference.linear import LinearFit
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.regression_answers import RegressionAnswer
from sfumato.inference.robust import (
    SQUARE_STEPS,
    MeatFactors,
    MeatRelease,
    MeatTerms,
    NoisyMeat,
    RobustFit,
    meat_estimates,
    residual_clamp,
    residual_coefficients,
)
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, rounded_coefficients
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.bounding import bound_by_whole_rows
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql import building
from sfumato.privacy import codec, compose
from sfumato.release.prices import Price

WORLD: dict[str, dict[str, Any]] = {
    "world": {"type": "integer", "bounds": [0, 10_000]},
    "x": {"type": "integer", "bounds": [-1, 3]},
    "w": {"type": "real", "bounds": [-2, 1]},
    "c": {"values": ["a", "b"]},
    "y": {"type": "integer", "bounds": [0, 10]},
}
ROWS: list[tuple[Any, ...]] = [
    *product([-1, 3], [-2.0, 1.0], ["a", "b"], [0, 10]),
    (9, 5.0, "a", 40),
    (1, -0.5, "b", 5),
    (None, 1.0, "a", 10),
    (3, 1.0, "else", 0),
    (3, 1.0, "b", None),
]
"""Corners of the declared ranges, one beyond them, one inside, and rows with a missing value."""
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
FORMULA = "hours ~ age + C(sex, F) + C(arm, a)"


def worlds(most: int) -> list[tuple[tuple[Any, ...], ...]]:
    telling = [ROWS[0], ROWS[1], ROWS[6], ROWS[7], ROWS[9], ROWS[15], ROWS[16]]
    many = [held for size in range(2, most + 2) for held in combinations_with_replacement(telling, size)]
    return [(), *((row,) for row in ROWS), *(many if most > 1 else [])]


def meat_of_worlds(
    proposal: RobustProposal, rows: Any, limits: Any, count: int, terms: MeatTerms, totals: WeightedTotals
) -> np.ndarray:
    """Return what the engine reads of each world, as it is measured."""
    design = proposal.meat_design
    selected = building.where(rows, design.residual.row_condition)
    sums = {f"m{index}": text for index, text in enumerate(design.factor_sums)}
    query = building.start_question(selected, building.lower_keys(selected, ["world"], {}), sums).query
    grouped = replace(terms, factors=MeatFactors.from_measures(query.plan.measures, design))
    groups = tuple((number,) for number in range(count))
    bounded = bound_by_whole_rows(replace(query.plan, measures=grouped.measures), limits or query.plan.limits, count)
    reading = GroupTotals(bounded, groups)
    with proposal._context.engine.check(reading) as opened:
        read = opened.read(reading, 7)
    return np.array([totals.extract(row[None]) for row in read])


def test_a_meat_that_cannot_be_bound_is_refused_before_the_moments_are_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with curator(people(20), tmp_path) as made:
        proposal: Any = made.regress(FORMULA, "people", robust=True)
        check = StatementReader._check

        def refuse(reader: Any, reading: Any) -> None:
            if reading.bounded == proposal._meat_at_zero.bounded:
                raise Unsupported("unbound", "the engine does not take this", fix="ask for something else")
            check(reader, reading)

        monkeypatch.setattr(StatementReader, "_check", refuse)
        head = made.ledger.head
        with pytest.raises(Unsupported, match="does not take this"):
            proposal.release(**PRICE)
        assert made.ledger.head == head


@covering({"neighbours": ("add-remove", "replace"), "most": (1, 2)})
def test_no_unit_moves_the_meat_further_than_is_charged(neighbours: str, most: int, tmp_path: Path) -> None:
    """The theorem holds for m rows of a unit, though a release uses one: rows of a unit correlate."""
    held = worlds(most)
    rows = [(number, number, *row) for number, world in enumerate(held) for row in world]
    frame = pd.DataFrame(rows, columns=["who", "world", "x", "w", "c", "y"])
    reached = 0.0
    with curator(frame, tmp_path, neighbours=neighbours, max_rows=most, columns=WORLD) as made:
        proposal = made.regress("y ~ x + w + c + x:c", "people", rows=1, robust=True)
        assert isinstance(proposal, RobustProposal)
        size = len(proposal.design.coordinates) - 1
        steep = np.zeros(size)
        steep[1] = 50.0
        limits = made.regress("y ~ x + w + c + x:c", "people").question.limits
        for values, clamp in [(np.zeros(size), residual_clamp(1.0)), (steep, Fraction(16, COEFFICIENT_STEPS))]:
            single = proposal.meat_totals_at(rounded_coefficients(values), clamp)
            terms = proposal.meat_terms_at(rounded_coefficients(values), clamp)
            plan = proposal.meat_question.query.plan
            several = bound_by_whole_rows(replace(plan, measures=terms.measures), limits, 1)
            totals = single if most == 1 else replace(single, bounded=for_world(several, neighbours))
            assert totals.rows_per_unit == most
            selected = select_rows(made._context.engine.catalog(), "people", None)
            measured = meat_of_worlds(proposal, selected, limits, len(held), terms, totals).astype(float)
            gram = measured @ measured.T
            squares = np.diag(gram)
            moved = squares if neighbours == "add-remove" else squares[:, None] + squares[None, :] - 2 * gram
            assert totals.sensitivity.neighbours.value == neighbours
            assert moved.max() <= float(totals.sensitivity.squares)
            assert np.abs(measured).max() <= totals.sensitivity.per_group
            reached = max(reached, moved.max() / float(totals.sensitivity.squares))
    # equal rows beyond the clamp reach it, but for the rounding of weights; rows of a world are not at right angles
    assert reached >= (0.95 if neighbours == "add-remove" else 0.7)


def for_world(bounded: Any, neighbours: str) -> Any:
    from sfumato.plan.bounding import for_neighbours
    from sfumato.privacy import Neighbours

    return for_neighbours(bounded, Neighbours(neighbours))


def heteroskedastic(rows: int, seed: int) -> pd.DataFrame:
    """Return people whose hours vary much where the age is extreme, and little elsewhere; the slope is 0.1."""
    random = np.random.default_rng(seed)
    age = np.where(random.random(rows) < 0.04, random.choice([20, 78], rows), 49)
    hours = 30 + 0.1 * (age - 49) + random.choice([-1.0, 1.0], rows) * np.where(age == 49, 0.5, 15)
    frame = people(rows, seed)
    return frame.assign(age=age, hours=np.clip(np.round(hours), 0, 60), sex="F")


def sandwich(frame: pd.DataFrame, columns: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and HC1 errors of the rows (White 1980)."""
    matrix, y = np.array([np.asarray(each, float) for each in columns]).T, np.asarray(frame["hours"], float)
    bread = np.linalg.inv(matrix.T @ matrix)
    beta = bread @ matrix.T @ y
    scaled = matrix * (y - matrix @ beta)[:, None]
    covariance = bread @ (scaled.T @ scaled) @ bread * len(y) / (len(y) - len(beta))
    return beta, np.sqrt(np.diag(covariance))


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_without_noise_it_is_the_sandwich_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a high price, so that no deviation of noise is added. Regressors are rounded to 1/64 of half their range."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    frame = people(1500)
    frame["hours"] = np.clip(np.round(30 + (frame["hours"] - 30) * (frame["age"].fillna(40) - 18) / 62), 0, 60)
    # ages have 71 values: on the meat's scale they reach 70 of 128 steps, and nearly all of 2048 on the moments'
    columns_of = {**COLUMNS, "age": {"type": "integer", "bounds": [10, 80]}}
    with curator(frame, tmp_path, columns=columns_of) as made:
        answer = made.regress(FORMULA, "people", robust=True).release(epsilon=3000, delta="1e-6")
        used = frame.dropna(subset=["age", "sex"])
        columns = [np.ones(len(used)), used["age"], used["sex"] == "M", used["arm"] == "b", used["arm"] == "c"]
        beta, errors = sandwich(used, columns)
        assert answer.column("coefficient") == pytest.approx(beta.tolist(), rel=1e-2, abs=1e-2)
        assert answer.sampling is not None
        shown = np.array(answer.sampling["coefficient"], float)
        assert shown == pytest.approx(1.959964 * errors, rel=0.03)
        plain = made.regress(FORMULA, "people").release(epsilon=3000, delta="1e-6")
        assert plain.sampling is not None
        assert np.abs(np.array(plain.sampling["coefficient"], float) / shown - 1).max() > 0.1
        assert 0 < answer.residual_clamp < 60
        assert plain.residual_clamp == 0
        assert "robust to unequal variances" in str(answer)
        assert "errors of equal variance" in str(plain)
        assert RegressionAnswer.from_json(answer.to_json()) == answer


def test_each_sum_of_the_meat_has_a_noise_of_its_own(tmp_path: Path) -> None:
    """Of 15 sums over 60 draws, 900 numbers: their variance is within 25 % with a probability above 1 − 1e-6."""
    with curator(people(50), tmp_path) as made:
        proposal = made.regress(FORMULA, "people", robust=True)
        assert isinstance(proposal, RobustProposal)
        totals = proposal._meat_at_zero
        mechanism = proposal._step_noise(Price(1, "1e-6")).mechanisms[1]
        release = MeatRelease.at_coefficients(totals, mechanism, proposal._zero_coefficients, residual_clamp(1.0))
        zeros = np.zeros((1, len(totals.weights) + 1), np.int64)
        drawn = np.array([release.draw_from(zeros).totals for _ in range(60)], float) / float(mechanism.sizes[0])
        assert np.var(drawn) == pytest.approx(1, abs=0.25)
        correlation = np.corrcoef(drawn.T)
        assert np.abs(correlation[np.triu_indices(len(correlation), 1)]).max() < 0.75
        noisy = release.draw_from(zeros)
        assert codec.loads(codec.dumps(noisy)) == noisy


@pytest.mark.parametrize("price", [Price(1, "1e-6"), Price(rho="0.02")])
def test_both_steps_keep_the_price_and_use_it_up(price: Price, tmp_path: Path) -> None:
    with curator(people(20), tmp_path) as made:
        proposal = made.regress(FORMULA, "people", robust=True)
        assert isinstance(proposal, RobustProposal)
        noise = proposal._step_noise(price)
        assert sum(STEP_SHARES) == 1
        both = zip(noise.mechanisms, (proposal.moments.sensitivity, proposal._meat_at_zero.sensitivity), strict=True)
        curve = compose(mechanism.curve(sensitivity) for mechanism, sensitivity in both)
        assert price.is_satisfied_by(curve)
        if price.rho is None:
            assert curve.epsilon(price.delta) >= 0.99 * float(price.epsilon or 0)


def test_the_tab_spends_both_steps_once(tmp_path: Path) -> None:
    with curator(people(400), tmp_path) as made:
        proposal = made.regress(FORMULA, "people", robust=True)
        assert isinstance(proposal, RobustProposal)
        answer = proposal.release(**PRICE, request_id="once")
        assert proposal.release(**PRICE, request_id="once").rows == answer.rows
        account = made._context.account
        costs = [account.cost(curve) for curve in proposal._step_noise(Price(1, "1e-6")).curves]
        assert account.spent == account._opening_terms.budget.with_spent(sum(costs[1:], costs[0])).spent
        with pytest.raises(RequestDiffers):
            made.regress("hours ~ age + sex", "people", robust=True).release(**PRICE, request_id="once")
        assert proposal.identity != made.regress(FORMULA, "people").identity
        assert "squared residuals" in str(proposal.explain())
        assert proposal.error(**PRICE)["age"] > made.regress(FORMULA, "people").error(**PRICE)["age"]
        assert len(answer.receipt.mechanisms) == 2
        assert len(made.table("people").regress(FORMULA, robust=True).preview(1).rows) == 5


def robust_fit(proposal: RobustProposal, frame: pd.DataFrame, noise: tuple[Gaussian, Gaussian]) -> RobustFit:
    """Fit hours on age in numpy, with the noise, the clamp and the coefficients of a release."""
    design, products = proposal.design, proposal.meat_design.products
    age = (frame["age"].to_numpy(float) - 49) / float(design.columns[0].slope)
    hours = (frame["hours"].to_numpy(float) - 30) / float(design.columns[1].slope)
    rows = np.array([np.ones(len(frame)), age, hours]).T
    fit = LinearFit(design, noisy_estimates(design, rows.T @ rows, noise[0]), one_row_per_unit=True)
    clamp = residual_clamp(fit.error_variance**0.5)
    coefficients = residual_coefficients(fit)
    residuals = hours - rows[:, :2] @ (np.array(coefficients) / COEFFICIENT_STEPS)
    squares = np.floor(np.minimum(residuals**2 / float(clamp) ** 2, 1) * SQUARE_STEPS + 0.5)
    weights = np.array(proposal._meat_at_zero.weights, float) * [
        products.scale ** len(m.columns) for m in products.gram_entry_count_by_moment
    ]
    coarse = np.array([np.ones(len(frame)), (frame["age"].to_numpy(float) - 49) / float(products.columns[0].slope)]).T
    meat = moments_of(products, (coarse * squares[:, None]).T @ coarse)
    totals = noise[1].apply(np.rint(meat * weights).astype(np.int64))
    return RobustFit.from_meat(fit, NoisyMeat(coefficients, clamp, tuple(totals.tolist()), noise[1]), products)


def moments_of(design: Any, gram: np.ndarray) -> np.ndarray:
    values = np.zeros(len(design.gram_entry_count_by_moment))
    values[design.gram_index[design.gram_index >= 0]] = gram[design.gram_index >= 0]
    return values


def noisy_estimates(design: Any, gram: np.ndarray, mechanism: Gaussian) -> MomentEstimates:
    from sfumato.inference.moments import NoisyMoments, moment_weight

    units = (
        np.array([moment_weight(entries) for entries in design.gram_entry_count_by_moment.values()])
        * float(design.scale) ** 2
    )
    totals = mechanism.apply(np.rint(moments_of(design, gram) * units).astype(np.int64))
    return MomentEstimates.from_noisy_moments(NoisyMoments(tuple(totals.tolist()), mechanism), design)


def population_misses(draws: int, rows: int, epsilon: str, folder: Path) -> tuple[int, int]:
    """Count the intervals for the population's slope of age that miss it: robust ones, and those of one variance."""
    with curator(people(20), folder) as made:
        proposal = made.regress("hours ~ age", "people", robust=True)
        assert isinstance(proposal, RobustProposal)
        first, second = proposal._step_noise(Price(epsilon, "1e-6")).mechanisms
    robust = plain = 0
    for seed in range(draws):
        fit = robust_fit(proposal, heteroskedastic(rows, seed), (first, second))
        low, high = fit.coefficients(0.95)[1].combined or (0, 0)
        robust += not low <= 0.1 <= high
        low, high = LinearFit(fit.design, fit.moments, one_row_per_unit=True).coefficients(0.95)[1].combined or (0, 0)
        plain += not low <= 0.1 <= high
    return robust, plain


def test_intervals_hold_where_those_of_one_variance_miss(tmp_path: Path) -> None:
    """Hoeffding's bound for 5 % of 80 draws is exceeded with probability 1e-7; the plain errors are 1/5 of the true."""
    robust, plain = population_misses(80, 4000, "8", tmp_path)
    limit = 0.05 * 80 + math.sqrt(80 * math.log(1e7) / 2)
    assert robust <= limit
    assert plain > limit


@pytest.mark.long
@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_intervals_hold_at_every_price(epsilon: str, tmp_path: Path) -> None:
    robust, _ = population_misses(1000, 4000, epsilon, tmp_path)
    assert robust <= 50 + 5 * math.sqrt(1000 * 0.05 * 0.95)


def test_the_sampling_variance_is_the_meat_and_one_deviation_of_its_noise(tmp_path: Path) -> None:
    with curator(people(20), tmp_path) as made:
        proposal = made.regress("hours ~ age", "people", robust=True)
        assert isinstance(proposal, RobustProposal)
        first, second = proposal._step_noise(Price(1, "1e-6")).mechanisms
        fit = robust_fit(proposal, heteroskedastic(3000, 1), (first, second))
        zero = NoisyMeat(
            (0, 0), residual_clamp(1.0), (0,) * len(proposal.meat_design.products.gram_entry_count_by_moment), second
        )
        empty = RobustFit.from_meat(fit, zero, proposal.meat_design.products)
    direction = np.array([0.3, -1.7])
    slopes = [float(design.columns[0].slope) for design in (proposal.design, proposal.meat_design.products)]
    weights = fit.coordinate_basis @ direction * [1, slopes[1] / slopes[0]]
    covariance = fit.meat.factor @ fit.meat.factor.T
    by_moment = np.array([weights[0] ** 2, 2 * weights[0] * weights[1], weights[1] ** 2])
    expected = by_moment @ fit.meat.values + math.sqrt(by_moment @ covariance @ by_moment)
    assert fit.sampling_variance(direction) == pytest.approx(expected * fit.rows / (fit.rows - 2))
    assert empty.sampling_variance(direction) > 0
    assert meat_estimates(zero, proposal.meat_design.products).values.tolist() == [0, 0, 0]


@pytest.mark.parametrize("rows", ["none", "one value", "collinear", "missing", "extreme"])
def test_every_charged_release_answers(rows: str, tmp_path: Path) -> None:
    frame = people(60)
    if rows == "none":
        frame = frame[:0]
    elif rows == "one value":
        frame = pd.DataFrame([frame.iloc[0]] * 40)
    elif rows == "collinear":
        frame["cost"] = (frame["age"] - 18) / 62 * 5
    elif rows == "extreme":
        frame["hours"] = np.where(frame.index % 2, 0, 60)
    else:
        frame["age"] = np.nan
    with curator(frame.reset_index(drop=True), tmp_path) as made:
        answer = made.regress("hours ~ age + cost + sex", "people", robust=True).release(**PRICE)
        assert len(answer.rows) == 4
        assert codec.loads(answer.to_json()) == answer


def test_robust_is_true_or_false(tmp_path: Path) -> None:
    with curator(people(60), tmp_path) as made, pytest.raises(SfumatoError, match="True or False"):
        made.regress(FORMULA, "people", robust="yes")  # type: ignore[arg-type]
