"""Errors clustered by unit: what one unit moves in the meat, the sandwich without noise, and intervals that hold."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from inference.rows import COLUMNS, curator, people
from inference.test_robust import FORMULA, PRICE, ROWS, WORLD, noisy_estimates
from sfumato.curator.proposals.moment_proposals import max_rows_per_unit, select_rows
from sfumato.curator.proposals.regressions import ClusteredProposal, RobustProposal
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.linear import LinearFit
from sfumato.inference.regression_answers import RegressionAnswer
from sfumato.inference.robust import (
    RESIDUAL_STEPS,
    MeatFactors,
    NoisyMeat,
    RobustFit,
    residual_clamp,
    residual_coefficients,
)
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, rounded_coefficients
from sfumato.mechanisms import Gaussian
from sfumato.plan.aggregates.unit_measures import UnitGreatest
from sfumato.plan.bounding import bound_by_whole_rows, for_neighbours
from sfumato.plan.nodes import PerUnit
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql import building
from sfumato.plan.values.expressions import Column, Field
from sfumato.privacy import Neighbours, codec
from sfumato.release.prices import Price

MODEL = "y ~ x + w + c + x:c"


def clustered(made: sf.Curator, formula: str = FORMULA, **options: Any) -> ClusteredProposal:
    proposal = made.regress(formula, "people", robust=True, **options)
    assert isinstance(proposal, ClusteredProposal)
    return proposal


def meat_of_worlds(proposal: ClusteredProposal, count: int, values: np.ndarray, clamp: Fraction) -> np.ndarray:
    """Return what the engine reads of each world, a unit of its own with a group of its own, as it is measured."""
    rows = select_rows(proposal._context.engine.catalog(), "people", None)
    design = proposal.meat_design
    selected = building.where(rows, design.residual.row_condition)
    sums = {f"m{index}": text for index, text in enumerate(design.factor_sums)}
    query = building.start_question(selected, building.lower_keys(selected, ["world"], {}), sums).query
    scores = proposal.score_terms_at(rounded_coefficients(values), clamp)
    plan = replace(scores, factors=MeatFactors.from_measures(query.plan.measures, design)).meat_plan_over_rows_of(
        query.plan
    )
    units = plan.source
    assert isinstance(units, PerUnit)
    world = UnitGreatest(query.plan.keys[0])
    key = Column(Field(units.source, "", "world"), world.domain)
    plan = replace(plan, source=replace(units, results=(*units.results, ("world", world))), keys=(key,))
    reading = GroupTotals(
        bound_by_whole_rows(plan, query.plan.limits, count), tuple((number,) for number in range(count))
    )
    totals = proposal.meat_totals_at(rounded_coefficients(values), clamp)
    with proposal._context.engine.check(reading) as opened:
        read = opened.read(reading, 7)
    return np.array([totals.extract(row[None]) for row in read])


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("most", [2, pytest.param(3, marks=pytest.mark.long)])
def test_no_unit_moves_the_meat_further_than_is_charged(neighbours: str, most: int, tmp_path: Path) -> None:
    """Units have up to one row more than count, at corners of the declared ranges and beyond them."""
    telling = [ROWS[0], ROWS[6], ROWS[9], ROWS[15], ROWS[16]]
    many = [held for size in range(2, most + 2) for held in combinations_with_replacement(telling, size)]
    held: list[tuple[Any, ...]] = [(), *((row,) for row in ROWS), *many]
    rows = [(number, number, *row) for number, world in enumerate(held) for row in world]
    frame = pd.DataFrame(rows, columns=["who", "world", "x", "w", "c", "y"])
    reached = 0.0
    with curator(frame, tmp_path, neighbours=neighbours, max_rows=most, columns=WORLD) as made:
        proposal = clustered(made, MODEL)
        assert proposal.grid.rows == most
        size = len(proposal.design.coordinates) - 1
        steep = np.zeros(size)
        steep[1] = 50.0
        for values, clamp in [(np.zeros(size), residual_clamp(1.0)), (steep, Fraction(16, COEFFICIENT_STEPS))]:
            totals = proposal.meat_totals_at(rounded_coefficients(values), clamp)
            measured = meat_of_worlds(proposal, len(held), values, clamp).astype(float)
            gram = measured @ measured.T
            squares = np.diag(gram)
            moved = squares if neighbours == "add-remove" else squares[:, None] + squares[None, :] - 2 * gram
            assert totals.sensitivity.neighbours.value == neighbours
            assert moved.max() <= float(totals.sensitivity.squares)
            assert np.abs(measured).max() <= totals.sensitivity.per_group
            reached = max(reached, moved.max() / float(totals.sensitivity.squares))
    # equal rows beyond the clamp reach it, but for the rounding of weights; rows of a world are not at right angles
    assert reached >= (0.95 if neighbours == "add-remove" else 0.6)


def correlated(persons: int, seed: int, slope: float = 0.1, rows: int = 3) -> pd.DataFrame:
    """Return several rows of every person, who has one age and works more or less than others in all of them."""
    random = np.random.default_rng(seed)
    age, habit = random.integers(18, 81, persons), random.normal(0, 6, persons)
    frame = people(persons * rows, seed).assign(who=np.repeat(np.arange(persons), rows))
    hours = 30 + slope * (np.repeat(age, rows) - 49) + np.repeat(habit, rows) + random.normal(0, 2, persons * rows)
    return frame.assign(age=np.repeat(age, rows).astype(float), hours=np.clip(np.round(hours), 0, 60), sex="F")


def sandwich(frame: pd.DataFrame, columns: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and errors clustered by ``who`` (Liang & Zeger 1986), for as few as n/3 units."""
    matrix, y = np.array([np.asarray(each, float) for each in columns]).T, np.asarray(frame["hours"], float)
    bread = np.linalg.inv(matrix.T @ matrix)
    beta = bread @ matrix.T @ y
    scores = pd.DataFrame(matrix * (y - matrix @ beta)[:, None]).groupby(frame["who"].to_numpy()).sum().to_numpy()
    covariance = bread @ (scores.T @ scores) @ bread * len(y) / (len(y) - len(beta)) * len(y) / (len(y) - 3)
    return beta, np.sqrt(np.diag(covariance))


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_without_noise_it_is_the_clustered_sandwich_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a high price, so that no deviation of noise is added; the values of a category differ within a unit."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    frame = correlated(500, 1).assign(sex=people(1500, 2)["sex"])
    with curator(frame, tmp_path, max_rows=3) as made:
        answer = made.regress(FORMULA, "people", robust=True).release(epsilon=3000, delta="1e-6")
        used = frame.dropna(subset=["sex"])
        columns = [np.ones(len(used)), used["age"], used["sex"] == "M", used["arm"] == "b", used["arm"] == "c"]
        beta, errors = sandwich(used, columns)
        assert answer.column("coefficient") == pytest.approx(beta.tolist(), rel=1e-2, abs=1e-2)
        assert answer.sampling is not None
        shown = np.array(answer.sampling["coefficient"], float)
        assert shown == pytest.approx(1.959964 * errors, rel=0.03)
        assert answer.is_clustered
        assert "correlated rows of a unit" in str(answer)
        assert RegressionAnswer.from_json(answer.to_json()) == answer
    _, independent = sandwich(used.assign(who=np.arange(len(used))), columns)
    assert errors[1] > 1.4 * independent[1]  # of three equal ages: √3 times


def clustered_fit(proposal: ClusteredProposal, frame: pd.DataFrame, noise: tuple[Gaussian, Gaussian]) -> RobustFit:
    """Fit hours on age in numpy, with the noise, the clamp and the coefficients of a release."""
    design, grid = proposal.design, proposal.grid
    age = (frame["age"].to_numpy(float) - 49) / float(design.columns[0].slope)
    hours = (frame["hours"].to_numpy(float) - 30) / float(design.columns[1].slope)
    rows = np.array([np.ones(len(frame)), age, hours]).T
    fit = LinearFit(design, noisy_estimates(design, rows.T @ rows, noise[0]), one_row_per_unit=False)
    coefficients, clamp = proposal._coefficients_and_clamp(fit)
    assert coefficients == residual_coefficients(fit)
    residuals = hours - rows[:, :2] @ (np.array(coefficients) / COEFFICIENT_STEPS)
    steps = np.floor(np.clip(residuals / float(clamp), -1, 1) * RESIDUAL_STEPS + 0.5)
    scores = (rows[:, :2] * steps[:, None]).reshape(-1, grid.rows, 2).sum(axis=1) * design.scale
    rounded = np.floor(scores / grid.divisor + 0.5)
    exact = np.array([(rounded[:, j] * rounded[:, k]).sum() for j, k in grid.coordinate_pairs])
    totals = noise[1].apply((exact * np.array(grid.weights)).astype(np.int64))
    return RobustFit.clustered(fit, NoisyMeat(coefficients, clamp, tuple(totals.tolist()), noise[1]), grid)


def population_misses(draws: int, persons: int, epsilon: str, folder: Path) -> tuple[int, int]:
    """Count the intervals for the slope of age that miss it: clustered ones, and those of independent rows."""
    with curator(people(20), folder, max_rows=6) as made:
        proposal = clustered(made, "hours ~ age")
        first, second = proposal._step_noise(Price(epsilon, "1e-6")).mechanisms
    clustered_misses = plain = 0
    for seed in range(draws):
        fit = clustered_fit(proposal, correlated(persons, seed, rows=6), (first, second))
        low, high = fit.coefficients(0.95)[1].combined or (0, 0)
        clustered_misses += not low <= 0.1 <= high
        low, high = LinearFit(fit.design, fit.moments, one_row_per_unit=True).coefficients(0.95)[1].combined or (0, 0)
        plain += not low <= 0.1 <= high
    return clustered_misses, plain


def test_intervals_hold_for_correlated_rows_where_those_of_independent_rows_miss(tmp_path: Path) -> None:
    """Hoeffding's bound for 5 % of 80 draws is exceeded with probability 1e-7; six equal ages count as six."""
    held, plain = population_misses(80, 300, "200", tmp_path)
    limit = 0.05 * 80 + math.sqrt(80 * math.log(1e7) / 2)
    assert held <= limit
    assert plain > limit


@pytest.mark.long
@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_intervals_hold_for_correlated_rows_at_every_price(epsilon: str, tmp_path: Path) -> None:
    held, _ = population_misses(1000, 4000, epsilon, tmp_path)
    assert held <= 50 + 5 * math.sqrt(1000 * 0.05 * 0.95)


def test_the_noise_of_the_meat_follows_what_the_policy_implies(tmp_path: Path) -> None:
    """Scores over the values of a category add up to those of all rows: projected noise keeps that, and is less."""
    with curator(people(30), tmp_path, max_rows=2) as made:
        proposal = clustered(made)
        grid = proposal.grid
        mechanism = proposal._step_noise(Price(1, "1e-6")).mechanisms[1]
    totals = mechanism.apply(np.zeros(len(grid.coordinate_pairs), np.int64))
    estimates = grid.meat_estimates(NoisyMeat((0,) * 7, residual_clamp(1.0), tuple(totals.tolist()), mechanism))
    gram = estimates.values[grid.gram_index]
    labels = [next(iter(each.levels))[0] if each.levels else None for each in grid.design.coordinates]
    for category in (0, 1):
        parts = [index for index, label in enumerate(labels) if label == category]
        assert gram[parts].sum(axis=0) == pytest.approx(gram[0], rel=1e-9, abs=1e-9 * np.abs(gram).max())
    step = float(residual_clamp(1.0)) * grid.divisor / (RESIDUAL_STEPS * grid.design.scale)
    assert np.linalg.norm(estimates.factor[0]) < float(mechanism.sizes[0]) * step**2 / grid.weights[0]


def test_a_limit_of_rows_holds_for_the_moments_and_for_the_meat(tmp_path: Path) -> None:
    with curator(correlated(30, 3), tmp_path, max_rows=3) as made:
        for rows, kind in ((None, ClusteredProposal), (2, ClusteredProposal), (1, RobustProposal)):
            proposal = made.regress("hours ~ age", "people", robust=True, rows=rows)
            assert type(proposal) is kind
            for question in (proposal.question, proposal.meat_question):
                assert max_rows_per_unit(question.query.plan, question.limits) == (rows or 3)
                assert question.limits.rows == (rows or 3)


def test_another_confidence_of_a_bought_answer_is_free(tmp_path: Path) -> None:
    frame = correlated(300, 3)
    with curator(frame, tmp_path, max_rows=3) as made:
        proposal = made.regress("hours ~ age", "people", robust=True)
        first = proposal.release(**PRICE, request_id="once", confidence="0.5")
        spent = made._context.account.spent
        wider = proposal.release(**PRICE, request_id="once", confidence="0.6")
        assert made._context.account.spent == spent
        assert wider.receipt.free
        assert wider.receipt.confidence == "0.6"
        assert wider.receipt.hash == first.receipt.hash
        assert (wider.column("coefficient"), wider.column("z")) == (first.column("coefficient"), first.column("z"))
        assert all(np.array(wider.column("high")) > np.array(first.column("high")))
        assert proposal.release(**PRICE, request_id="once", confidence="0.5").rows == first.rows
        assert proposal.release(**PRICE, request_id="once", confidence="0.60").rows == wider.rows


def test_a_table_that_changed_keeps_the_confidence_that_was_bought(tmp_path: Path) -> None:
    with curator(correlated(50, 3), tmp_path, max_rows=3) as made:
        made.regress("hours ~ age", "people", robust=True).release(**PRICE, request_id="old")
    with curator(correlated(50, 4), tmp_path, max_rows=3) as made:
        proposal = made.regress("hours ~ age", "people", robust=True)
        with pytest.raises(InvalidParameter, match=r"0\.95"):
            proposal.release(**PRICE, request_id="old", confidence="0.9")
        assert proposal.release(**PRICE, request_id="old").receipt.free


@pytest.mark.parametrize(
    "rows", ["one unit", *(pytest.param(rows, marks=pytest.mark.long) for rows in ("none", "one value", "extreme"))]
)
def test_every_charged_release_answers(rows: str, tmp_path: Path) -> None:
    frame = people(60).assign(who=np.arange(60) // 3)
    if rows == "none":
        frame = frame[:0]
    elif rows == "one value":
        frame = pd.DataFrame([frame.iloc[0]] * 40)
    elif rows == "extreme":
        frame["hours"] = np.where(frame.index % 2, 0, 60)
    else:
        frame["who"] = 1
    with curator(frame.reset_index(drop=True), tmp_path, max_rows=4) as made:
        answer = made.regress("hours ~ age + cost + sex + retired + age^2", "people", robust=True).release(**PRICE)
        assert len(answer.rows) == 6
        assert codec.loads(answer.to_json()) == answer


def test_units_within_a_period_are_clusters_of_their_own(tmp_path: Path) -> None:
    """A person of two months is two units: her scores of both are not added up."""
    days = ["2024-01-03", "2024-01-09", "2024-02-03", "2024-02-09"]
    rows = [(1, day, 20.0, 60) for day in days]
    frame = pd.DataFrame(rows, columns=["who", "day", "age", "hours"])
    columns = {**{name: COLUMNS[name] for name in ("age", "hours")}, "day": {"type": "date"}}
    table = sf.Table("people", frame, columns, id="who", max_rows=2, period="day")
    unit = sf.PrivacyUnit("person", period="month")
    policy = sf.Policy(unit, sf.Budget(10, "1e-5"), {"people": table})
    with sf.Curator(policy, tmp_path / "months.ledger") as made:
        proposal = clustered(made, "hours ~ age")
        reading = GroupTotals(proposal.meat_totals_at((0, 0), residual_clamp(1.0)).bounded, ((),))
        with made._context.engine.check(reading) as opened:
            units = opened.read(reading, 7)[0][0]
    assert units == 2


def test_what_cannot_be_clustered_is_refused_before_the_charge(tmp_path: Path) -> None:
    wide = {**COLUMNS, "town": {"type": "integer", "bounds": [0, 44]}}
    with curator(people(60).assign(town=1), tmp_path, max_rows=3, columns=wide) as made:
        with pytest.raises(Unsupported, match="robust errors need too many sums") as refused:
            made.regress("hours ~ C(town)", "people", robust=True)
        assert "rows=1" in refused.value.fix
        explained = str(clustered(made, "hours ~ age").explain())
        assert "over the rows of a unit" in explained
        assert "noise and sampling" in explained
    doses = pd.DataFrame({"arm": ["a", "a"], "dose": [1, 2]})
    tables = {
        "people": sf.Table("people", people(20), COLUMNS, id="row"),
        "arms": sf.Table("arms", doses, {"arm": {"values": ["a"]}}, public=True),
    }
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(9, "1e-5"), tables)
    with sf.Curator(policy, tmp_path / "joined.ledger") as made:
        joined = made.table("people").join("arms", on=["arm"])
        with pytest.raises(Unsupported, match="a table without an id") as refused:
            joined.regress("hours ~ age", robust=True)
        assert "leave out robust" in refused.value.fix
        assert joined.regress("hours ~ age").error(**PRICE)


def test_a_plan_of_rows_is_no_clustered_meat(tmp_path: Path) -> None:
    with curator(people(20), tmp_path, max_rows=3) as made:
        proposal = clustered(made)
        plan = replace(proposal.meat_question.query.plan, measures=proposal._meat_at_zero.bounded.plan.measures[:1])
        bounded = for_neighbours(bound_by_whole_rows(plan, proposal.meat_question.limits, 1), Neighbours.ADD_REMOVE)
        with pytest.raises(InvalidParameter):
            proposal.grid.weighted_products(bounded)
