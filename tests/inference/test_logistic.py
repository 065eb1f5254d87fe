"""Scans of a logistic regression: what one unit moves, their noise, their price, and the fit without noise."""

from __future__ import annotations

import math
import signal
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
from sfumato.curator.proposals.logistic import LogisticProposal
from sfumato.curator.proposals.moment_proposals import select_rows
from sfumato.errors import InvalidParameter, RequestDiffers, SfumatoError
from sfumato.inference.design import Design
from sfumato.inference.logistic import (
    CURVATURE_STEPS,
    SCAN_SHARES,
    LogisticFit,
    NoisyScan,
    ScanFactors,
    ScanRelease,
    ScanRowTerms,
    mean_steps,
    scan_values_and_deviations,
)
from sfumato.inference.moments import MomentEstimates
from sfumato.inference.regression_answers import LogisticAnswer
from sfumato.inference.row_expressions import COEFFICIENT_STEPS, rounded_coefficients
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.mechanisms import Gaussian
from sfumato.plan.bounding import bound_by_whole_rows, candidate_bounded_plans
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql import building
from sfumato.privacy import codec, compose
from sfumato.release.prices import Price

WORLD: dict[str, dict[str, Any]] = {
    "world": {"type": "integer", "bounds": [0, 10_000]},
    "x": {"type": "integer", "bounds": [-1, 3]},
    "w": {"type": "real", "bounds": [-2, 1]},
    "c": {"values": ["a", "b"]},
    "y": {"values": ["no", "yes"]},
}
ROWS: list[tuple[Any, ...]] = [
    *product([-1, 3], [-2.0, 1.0], ["a", "b"], ["no", "yes"]),
    (9, 5.0, "a", "yes"),
    (1, -0.5, "b", "no"),
    (None, 1.0, "a", "yes"),
    (3, 1.0, "else", "no"),
    (3, 1.0, "b", None),
]
"""Corners of the declared ranges, one beyond them, one inside, and rows with a missing value."""
CLIPPING = (Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.REWEIGHT)
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def worlds(most: int) -> list[tuple[tuple[Any, ...], ...]]:
    telling = ROWS[: 20 if most == 1 else 8]
    many = [held for size in range(2, most + 2) for held in combinations_with_replacement(telling, size)]
    return [(), *((row,) for row in ROWS), *(many if most > 1 else [])]


def plan_by_world(proposal: LogisticProposal, rows: Any) -> Aggregate:
    """Return the plan of a scan's factors with a group for each world."""
    logistic = proposal.logistic
    selected = building.where(rows, logistic.design.row_condition)
    sums = {f"m{index}": text for index, text in enumerate(logistic.factor_sums)}
    return building.start_question(selected, building.lower_keys(selected, ["world"], {}), sums).query.plan


def moved_by_worlds(
    proposal: LogisticProposal, plan: Aggregate, count: int, coefficients: tuple[int, ...]
) -> tuple[WeightedTotals, np.ndarray]:
    """Return the totals of a scan, and what the engine reads of each world of a plan at these coefficients."""
    logistic, totals = proposal.logistic, proposal.totals_at(coefficients)
    factors = ScanFactors.from_measures(plan.measures, logistic)
    terms = ScanRowTerms(logistic, factors, coefficients, proposal.scan_weights.mean_steps)
    groups = tuple((number,) for number in range(count))
    reading = GroupTotals(bound_by_whole_rows(replace(plan, measures=terms.measures), plan.limits, count), groups)
    with proposal._context.engine.check(reading) as opened:
        read = opened.read(reading, 7)
    return totals, np.array([totals.extract(row[None]) for row in read])


@covering({"neighbours": ("add-remove", "replace"), "most": (1, 2)})
def test_no_unit_moves_a_scan_further_than_is_charged(neighbours: str, most: int, tmp_path: Path) -> None:
    held = worlds(most)
    rows = [(number, number, *row) for number, world in enumerate(held) for row in world]
    frame = pd.DataFrame(rows, columns=["who", "world", "x", "w", "c", "y"])
    reached = 0.0
    with curator(frame, tmp_path, neighbours=neighbours, max_rows=most, columns=WORLD) as made:
        proposal = made.logistic("y ~ x + w + c + x:c", "people")
        size = len(proposal.logistic.design.coordinates) - 1
        far, near = np.zeros(size), np.zeros(size)
        far[0], near[0] = -50, 0.5  # the event is sure not to come; and a mean of 0.62, where the curvature counts most
        flat, split = np.zeros(size), np.zeros(size)
        split[2] = 50  # the event is sure where w is large, and sure not to come where it is small
        plan = plan_by_world(proposal, select_rows(made._context.engine.catalog(), "people", None))
        for values in (far, near, flat, split):
            totals, measured = moved_by_worlds(proposal, plan, len(held), rounded_coefficients(values))
            sensitivity = totals.sensitivity
            gram = measured.astype(float) @ measured.astype(float).T
            squares = np.diag(gram)
            moved = squares if neighbours == "add-remove" else squares[:, None] + squares[None, :] - 2 * gram
            assert sensitivity.neighbours.value == neighbours
            assert moved.max() <= float(sensitivity.squares)
            reached = max(reached, moved.max() / float(sensitivity.squares))
            assert squares.max() >= 0.9 * most**2 * totals.row_squares  # the curvature is at its largest, too
    # an added unit of equal rows reaches it; no two units of a world oppose each other in every column
    assert reached >= (0.99 if neighbours == "add-remove" else 0.7)


def test_rows_are_rounded_as_the_enumeration_rounds_them(tmp_path: Path) -> None:
    """The residual tells each row's mean in steps, and the mean its curvature: the nearest of 64 steps of a quarter. A
    row without the event has the residual of the same row with it, less all steps.
    """
    rows = [(number, number, x, 1.0, "a", y) for number, (y, x) in enumerate(product(("yes", "no"), range(-1, 4)))]
    frame = pd.DataFrame(rows, columns=["who", "world", "x", "w", "c", "y"])
    with curator(frame, tmp_path, columns=WORLD) as made:
        proposal = made.logistic("y ~ x", "people")
        plan = plan_by_world(proposal, select_rows(made._context.engine.catalog(), "people", None))
        seen = set()
        for slope in (0.3, 1.7):
            at = rounded_coefficients(np.array([0.4, slope]))
            totals, measured = moved_by_worlds(proposal, plan, len(rows), at)
            moments, residual = proposal.logistic.moments, proposal.logistic.residual
            columns = [moment.columns for moment in moments]
            places = [1 + columns.index((residual,)), 1 + columns.index(())]
            steps = proposal.scan_weights.mean_steps
            read = [[vector[place] // totals.weights[place] for place in places] for vector in measured.tolist()]
            for (residual_steps, weight), without in zip(read[:5], read[5:], strict=True):
                mean = Fraction(steps - residual_steps, steps)
                assert weight == math.floor(4 * CURVATURE_STEPS * mean * (1 - mean) + Fraction(1, 2))
                assert without == [residual_steps - steps, weight]
                seen.add(weight)
        assert len(seen) > 5


def test_scans_read_back_from_json_and_hold_whole_numbers() -> None:
    scan = NoisyScan((4096, -1), (3, 0, -2), Gaussian(5))
    assert codec.loads(codec.dumps(scan)) == scan
    listed: list[Any] = [[4096, -1], [3, 0, -2]]
    assert NoisyScan(*listed, Gaussian(5)) == scan
    for coefficients, totals in (((1,), ()), ((1,), (0.5,)), ((0.5,), (1,)), ((True,), (1,))):
        with pytest.raises(InvalidParameter, match="whole numbers"):
            NoisyScan(coefficients, totals, Gaussian(5))  # type: ignore[arg-type]


def test_steps_of_the_mean_are_the_most_that_are_measured_exactly() -> None:
    for rows, scale in product((1, 2, 3, 1000), (1, 1 << 12, 5000)):
        steps = mean_steps(rows, scale)
        assert steps.bit_count() == 1
        assert steps * scale * rows <= 1 << 26
        assert steps == 1 << 14 or 2 * steps * scale * rows > 1 << 26


def test_sums_beyond_64_bits_are_held_at_their_ends(tmp_path: Path) -> None:
    with curator(survey(20), tmp_path) as made:
        totals = made.logistic("retired ~ age", "people")._totals_at_zero
        weights = np.array(totals.weights)
        for end in ((1 << 63) - 1, -(1 << 63)):
            held = totals.extract(np.full((1, len(weights)), end))
            assert (np.sign(held) == np.sign(end)).all()
            assert (np.abs(held.astype(object)) > (1 << 62) - 2 * weights.astype(object)).all()


def test_a_plan_that_clips_totals_is_no_scan(tmp_path: Path) -> None:
    """The theorem counts whole rows: a clipped total of a unit may be any part of them."""
    with curator(survey(20), tmp_path, max_rows=2) as made:
        totals = made.logistic("retired ~ age", "people")._totals_at_zero
        plan = replace(
            totals.bounded.plan, keys=made.sql("SELECT sex, COUNT(*) FROM people GROUP BY sex").query.plan.keys
        )
        others = [other for other in candidate_bounded_plans(plan, plan.limits, 2) if other.strategy in CLIPPING]
        assert others
        for clipped in others:
            with pytest.raises(InvalidParameter, match="a row counts in full"):
                replace(totals, bounded=clipped)


def test_a_row_that_is_sure_and_wrong_is_charged_for_all_of_its_gradient(tmp_path: Path) -> None:
    """In few steps the curvature weighs so little that no other row moves further; in many, one is nearly as far."""
    with curator(survey(20), tmp_path) as made:
        weights = made.logistic("retired ~ age", "people").scan_weights
    logistic = weights.logistic
    for scale, most in ((16, 1.0), (logistic.design.scale, 1.01)):
        scaled = replace(weights, logistic=replace(logistic, design=replace(logistic.design, scale=scale)))
        gradient = scaled.gradient_weight * scaled.mean_steps
        wrong = scaled.row_count_weight**2 + gradient**2 * scaled.max_row_norm
        assert wrong <= scaled.row_squares <= most * wrong


def test_every_row_counts_however_far_its_score(tmp_path: Path) -> None:
    """The exponential of such a score is beyond the reals of a plan, and its row counts all the same."""
    frame = people(40).assign(age=80.0, hours=60.0, cost=5.0, retired=True)
    numbers = "age * hours + age * cost + hours * cost + age^2 + hours^2 + cost^2"
    with curator(frame, tmp_path) as made:
        proposal = made.logistic(f"retired ~ {numbers}", "people")
        size = len(proposal.logistic.design.coordinates) - 1
        totals = proposal.totals_at(rounded_coefficients(np.full(size, -50.0)))
        assert 49 * size > 400
        reading = GroupTotals(totals.bounded, ((),))
        with proposal._context.engine.check(reading) as opened:
            count, *sums = opened.read(reading, 7)[0].tolist()
    logistic = proposal.logistic
    gradients = zip(logistic.moments, sums, strict=True)
    (gradient,) = (value for moment, value in gradients if moment.columns == (logistic.residual,))
    assert count == 40
    assert gradient == 40 * proposal.scan_weights.mean_steps  # the event came, and was thought impossible


def exact_fit(columns: list[Any], target: Any) -> np.ndarray:
    """Return the coefficients of a plain logistic regression, by Newton's method."""
    matrix, y = np.array([np.asarray(each, float) for each in columns]).T, np.asarray(target, float)
    beta = np.zeros(matrix.shape[1])
    for _ in range(30):
        mean = 1 / (1 + np.exp(-matrix @ beta))
        beta += np.linalg.solve((matrix * (mean * (1 - mean))[:, None]).T @ matrix, matrix.T @ (y - mean))
    return beta


def survey(rows: int, seed: int = 0) -> pd.DataFrame:
    frame, random = people(rows, seed), np.random.default_rng(seed + 1)
    score = -2 + 0.03 * frame["age"].fillna(40) + 0.8 * (frame["sex"] == "M") - 0.5 * (frame["arm"] == "c")
    return frame.assign(retired=random.random(rows) < 1 / (1 + np.exp(-score)))


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_without_noise_it_is_the_logistic_regression_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a high price, so that no step is held back for the sake of noise that is not there."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    price = {"epsilon": 200, "delta": "1e-6"}
    frame = survey(900)
    with curator(frame, tmp_path) as made:
        answer = made.logistic("retired ~ age + C(sex, F) + C(arm, a)", "people").release(**price)
        used = frame.dropna(subset=["age", "sex"])
        columns = [np.ones(len(used)), used["age"], used["sex"] == "M", used["arm"] == "b", used["arm"] == "c"]
        expected = exact_fit(columns, used["retired"])
        assert answer.column("term") == ["intercept", "age", "sex[M]", "arm[b]", "arm[c]"]
        assert answer.column("coefficient") == pytest.approx(expected.tolist(), rel=5e-3, abs=1e-3)
        assert answer.rows_used == len(used)
        assert answer.odds_ratios["sex[M]"] == pytest.approx(np.exp(answer["sex[M]"]))
        assert answer.event == "retired[True]"
        assert LogisticAnswer.from_json(answer.to_json()) == answer
        other = made.logistic("sex ~ age", "people", event="F").release(**price)
        opposite = made.logistic("sex ~ age", "people").release(**price)
        assert other["age"] == pytest.approx(-opposite["age"], abs=1e-4)


def test_noise_has_the_deviation_that_is_charged_and_is_drawn_anew(tmp_path: Path) -> None:
    """Of 27 sums over 40 draws, 1080 numbers: their variance is within 25 % with a probability above 1 − 1e-6."""
    with curator(survey(50), tmp_path) as made:
        proposal = made.logistic("retired ~ age + C(sex, F) + C(arm, a)", "people")
        coefficients = (0,) * (len(proposal.logistic.design.coordinates) - 1)
        totals = proposal.totals_at(coefficients)
        mechanism = proposal._scan_noise(Price(1, "1e-6")).mechanisms[-1]
        scan = ScanRelease.at_coefficients(totals, mechanism, coefficients)
        zeros = np.zeros((1, len(totals.weights)), np.int64)
        drawn = np.array([scan.draw_from(zeros).totals for _ in range(40)], float) / float(mechanism.sizes[0])
        assert np.var(drawn) == pytest.approx(1, abs=0.25)
        correlation = np.corrcoef(drawn.T)
        assert np.abs(correlation[np.triu_indices(len(correlation), 1)]).max() < 0.8
        values, deviations = scan_values_and_deviations(scan.draw_from(zeros), proposal.scan_weights)
        assert np.abs(values / deviations).max() < 6


PRICES = [Price(1, "1e-6"), Price("0.3", "1e-7"), *(Price(rho=rho) for rho in ("0.02", "0.1", "0.5"))]


@pytest.mark.parametrize("price", PRICES)
def test_all_scans_together_keep_the_price_and_use_it_up(price: Price, tmp_path: Path) -> None:
    with curator(survey(20), tmp_path, max_rows=2) as made:
        noise = made.logistic("retired ~ age", "people")._scan_noise(price)
        assert len(noise.mechanisms) == len(SCAN_SHARES)
        assert sum(SCAN_SHARES) == 1
        assert price.is_satisfied_by(compose(each.curve(noise.sensitivities[0]) for each in noise.mechanisms))
        if price.rho is None:
            assert noise.curve.epsilon(price.delta) >= 0.99 * float(price.epsilon or 0)
        else:
            spent = sum(noise.sensitivities[0].squares / (2 * each.sizes[0] ** 2) for each in noise.mechanisms)
            assert Fraction("0.99") * price.rho < spent <= price.rho


def test_the_tab_spends_what_all_scans_cost(tmp_path: Path) -> None:
    with curator(survey(400), tmp_path) as made:
        proposal = made.logistic("retired ~ age", "people")
        noise = proposal._scan_noise(Price(1, "1e-6"))
        answer = proposal.release(**PRICE, request_id="once")
        again = proposal.release(**PRICE, request_id="once")
        assert again.receipt.free
        assert again.rows == answer.rows
        assert not answer.receipt.free
        account = made._context.account
        costs = [account.cost(curve) for curve in noise.curves]
        total = account._opening_terms.budget.with_spent(sum(costs[1:], costs[0])).spent
        assert account.spent == total


def test_intervals_hold_the_coefficients_of_the_table(tmp_path: Path) -> None:
    """Ten intervals of a confidence of 1 − 1e-7: one misses with a probability of 1e-6."""
    frame = survey(3000, 4)
    used = frame.dropna(subset=["age", "sex"])
    columns = [np.ones(len(used)), used["age"], used["sex"] == "M", used["arm"] == "b", used["arm"] == "c"]
    expected = exact_fit(columns, used["retired"])
    with curator(frame, tmp_path) as made:
        proposal = made.logistic("retired ~ age + C(sex, F) + C(arm, a)", "people")
        for _ in range(2):
            answer = proposal.release(**PRICE, confidence="0.9999999")
            for interval, value in zip(answer.intervals["coefficient"], expected, strict=True):
                assert interval is not None
                assert interval[0] <= value <= interval[1]


@pytest.mark.parametrize("event", ["always", "where age is above 50", "without rows"])
def test_a_target_that_no_model_fits_is_answered(event: str, tmp_path: Path) -> None:
    frame = people(400)
    retired = frame["age"] > 50 if event.startswith("where") else True
    frame = frame.assign(retired=retired)[: 0 if event == "without rows" else None]
    with curator(frame, tmp_path) as made:
        assert len(made.logistic("retired ~ age", "people").release(**PRICE).rows) == 2


REFUSED: dict[str, dict[str, Any]] = {
    "a real target": {"formula": "cost ~ age"},
    "a target of three values without an event": {"formula": "arm ~ age"},
    "an event that is no value": {"formula": "arm ~ age", "event": "z"},
    "a text without values": {"formula": "note ~ age"},
    "an integer target": {"formula": "hours ~ age"},
    "the target among the terms": {"formula": "sex ~ age + sex"},
    "an unbounded column": {"formula": "sex ~ free"},
    "no formula": {"formula": None},
    "a formula and a target": {"formula": "sex ~ age", "target": "sex"},
    "an unknown column": {"formula": "sex ~ agee"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_models_are_refused_before_the_charge(case: str, tmp_path: Path) -> None:
    with curator(people(20), tmp_path, columns=COLUMNS) as made, pytest.raises(SfumatoError):
        made.logistic(table="people", **REFUSED[case])


@pytest.mark.parametrize("method", ["logistic", "regress"])
def test_columns_of_tiny_numbers_are_answered(method: str, tmp_path: Path) -> None:
    """The square of such a column, squared once more for its length, would be 0."""
    columns = {**COLUMNS, "cost": {"type": "real", "bounds": [0, "1e-140"]}}
    with curator(people(200), tmp_path, columns=columns) as made:
        target = "sex" if method == "logistic" else "hours"
        answer = getattr(made, method)(f"{target} ~ cost + cost^2", "people").release(**PRICE)
        assert codec.loads(answer.to_json()) == answer


def test_a_price_without_delta_is_refused(tmp_path: Path) -> None:
    with curator(people(20), tmp_path) as made:
        proposal = made.logistic("sex ~ age", "people")
        with pytest.raises(InvalidParameter, match="δ"):
            proposal.release(epsilon=1)
        assert proposal.price({"age": "0.1"}, delta="1e-6") > 0
        assert 0 < proposal.error(epsilon=1, delta="1e-6")["age"] < proposal.error(epsilon="0.5", delta="1e-6")["age"]
        assert COEFFICIENT_STEPS == 4096


@pytest.mark.parametrize("other", ["retired ~ age * sex", "0 + age + sex", "retired ~ age + C(sex, M)", "event"])
def test_a_request_of_another_model_of_the_same_columns_is_refused(other: str, tmp_path: Path) -> None:
    """All of them read the same columns: only their terms, or the event, tell them apart."""
    with curator(survey(200), tmp_path) as made:
        made.logistic("retired ~ age + C(sex, F)", "people", event="True").release(**PRICE, request_id="once")
        formula = {"event": "retired ~ age + C(sex, F)", "0 + age + sex": "retired ~ 0 + age + sex"}.get(other, other)
        proposal = made.logistic(formula, "people", event="False" if other == "event" else "True")
        with pytest.raises(RequestDiffers):
            proposal.release(**PRICE, request_id="once")


def last_step(design: Design, events: int, start: float) -> LogisticFit:
    """Return the step of 100 F, half of them with the event, and 100 M with so many, by a scan where M has a start."""
    rows = np.array([[1, 1, 0]] * 100 + [[1, 0, 1]] * 100, float)
    event = np.arange(200) % 100 < np.where(rows[:, 1] > 0, 50, events)
    mean = 1 / (1 + np.exp(-rows @ [0, 0, start]))
    gram, values = np.zeros((4, 4)), np.zeros(len(design.gram_entry_count_by_moment))
    gram[:3, :3] = (rows * (mean * (1 - mean))[:, None]).T @ rows
    gram[:3, 3] = gram[3, :3] = rows.T @ (event - mean)
    values[design.gram_index[design.gram_index >= 0]] = gram[design.gram_index >= 0]
    return LogisticFit(design, MomentEstimates(values, 0.3 * np.eye(len(values))), True, np.array([0, 0, start]), 200.0)


def test_a_value_without_events_has_no_end_below(tmp_path: Path) -> None:
    """Where no M has the event the root is −∞, and a scan at −1 shows the curvature there alone."""
    with curator(survey(20), tmp_path) as made:
        design = made.logistic("retired ~ C(sex, F)", "people").logistic.design
    none = last_step(design, 0, -1.0).coefficients(0.95)[1]
    assert none.noise[0] == -math.inf
    assert none.noise[1] < -1.5
    for events, start in ((27, -1.0), (30, -0.5), (8, -1.8), (85, 1.2)):
        root = math.log(events / (100 - events))
        near = last_step(design, events, start).coefficients(0.95)[1]
        assert near.noise[0] < root < near.noise[1]
        assert near.noise[1] - near.noise[0] < 1
        assert near.combined is not None
        assert near.p is not None
        assert (near.p < 0.05) == (not near.combined[0] <= 0 <= near.combined[1])


def test_another_confidence_of_a_bought_answer_is_free(tmp_path: Path) -> None:
    with curator(survey(400), tmp_path) as made:
        proposal = made.logistic("retired ~ age + arm", "people")
        first = proposal.release(**PRICE, request_id="once", confidence="0.5")
        spent = made._context.account.spent
        wider = proposal.release(**PRICE, request_id="once", confidence="0.6")
        assert made._context.account.spent == spent
        assert wider.receipt.free
        assert wider.receipt.confidence == "0.6"
        assert (wider.column("coefficient"), wider.column("z")) == (first.column("coefficient"), first.column("z"))
        assert wider.references == first.references
        assert all(np.array(wider.column("high")) >= np.array(first.column("high")))
        assert wider.column("high") != first.column("high")
        assert proposal.release(**PRICE, request_id="once", confidence="0.5").rows == first.rows


def test_an_interrupt_between_scans_frees_the_rest(tmp_path: Path) -> None:
    def interrupt(phase: str) -> None:
        if phase.startswith("reading"):
            signal.raise_signal(signal.SIGINT)

    with curator(survey(200), tmp_path) as made:
        proposal, account = made.logistic("retired ~ age", "people"), made._context.account
        noise = proposal._scan_noise(Price(1, "1e-6"))
        with pytest.raises(KeyboardInterrupt):
            proposal.release(**PRICE, progress=interrupt)
        first = account.cost(noise.curves[0])
        assert account.spent == account._opening_terms.budget.with_spent(first).spent


def test_forecasts_name_the_same_terms_at_every_price(tmp_path: Path) -> None:
    """Assumed counts are equal, so that no count says which value is the reference."""
    with curator(people(20), tmp_path, columns=COLUMNS) as made:
        proposal = made.logistic("retired ~ sex + C(arm)", "people")
        terms = {proposal.error(epsilon=price, delta="1e-6").terms for price in ("0.5", "0.7", 1, 2, 3)}
        assert len(terms) == 1
        assert proposal.price("1") > 0
