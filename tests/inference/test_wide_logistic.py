"""Logistic regressions of many columns: what one unit moves, their price, the likelihood's maximum, predictions."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from inference.rows import COLUMNS, curator, people
from sfumato.curator.proposals.logistic import WideLogisticProposal
from sfumato.curator.proposals.moment_proposals import select_rows
from sfumato.curator.proposals.regressions import RegressionForecast
from sfumato.engine.duckdb.driver import StatementReader
from sfumato.errors import InvalidParameter, SfumatoError, Unsupported
from sfumato.inference.design import DesignBuilder, coordinates_of_assumed_rows
from sfumato.inference.formula import RANGE_COUNTS, Factor, in_labelled_range, parse_formula, range_labels
from sfumato.inference.gradient_descent import (
    MOMENTUM,
    SPREAD_FLOOR,
    WIDE_SCAN_SHARES,
    GradientScans,
    LikelihoodDescent,
    regressor_coefficients,
)
from sfumato.inference.logistic import ScanFactors, range_logistic_design
from sfumato.inference.regression_answers import LogisticAnswer, predicted_probability
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.plan.bounding import bound_by_whole_rows
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql import building
from sfumato.policy import Domain, Type
from sfumato.privacy import compose
from sfumato.release.prices import Price

WORLD: dict[str, dict[str, Any]] = {
    "world": {"type": "integer", "bounds": [0, 10_000]},
    "x": {"type": "integer", "bounds": [-1, 3]},
    "w": {"type": "real", "bounds": [-2, 1]},
    "c": {"type": "integer", "bounds": [0, 49]},
    "d": {"type": "integer", "bounds": [0, 19]},
    "y": {"values": ["no", "yes"]},
}
ROWS: list[tuple[Any, ...]] = [
    *product([-1, 3], [-2.0, 1.0], [0, 49], [3], ["no", "yes"]),
    (9, 5.0, 7, 19, "yes"),
    (1, -0.5, 8, 0, "no"),
    (None, 1.0, 1, 1, "yes"),
    (3, 1.0, 70, 1, "no"),
    (3, 1.0, 1, 1, None),
]
"""Corners of the declared ranges, one beyond them, one inside, and rows with a missing value."""
MODEL = "y ~ x + w + C(c) + C(d)"
NUMBERS = [f"n{index}" for index in range(9)]
MODEL_OF_NUMBERS = "y ~ " + " + ".join([*NUMBERS, *map(":".join, combinations(NUMBERS, 2))])
"""Ranges of nine numbers and of their products have too many coordinates: they stay numbers, and their squares are
measured too."""
NUMBERS_WORLD: dict[str, dict[str, Any]] = {
    "world": WORLD["world"],
    **{name: {"type": "integer", "bounds": [-1, 3]} for name in NUMBERS},
    "y": WORLD["y"],
}
NUMBERS_ROWS: list[tuple[Any, ...]] = [
    *([*([low] * 9), event] for low, event in product([-1, 3], ["no", "yes"])),
    (*([3, -1] * 4), 3, "yes"),
    (*([3, -1] * 4), 9, "no"),
    (*([1] * 8), None, "yes"),
]
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
WIDE = {**COLUMNS, "town": {"type": "integer", "bounds": [0, 39]}, "job": {"type": "integer", "bounds": [0, 14]}}
FORMULA = "retired ~ age + hours + C(sex, F) + arm + C(town) + C(job)"


def proposal_of(made: Any, formula: str = FORMULA, **options: Any) -> WideLogisticProposal:
    proposal = made.logistic(formula, "people", **options)
    assert isinstance(proposal, WideLogisticProposal)
    return proposal


@pytest.fixture(scope="module")
def totals_read() -> dict[GroupTotals, np.ndarray]:
    """What was read of the worlds: the same of added and of replaced units, whose policies differ in no statement."""
    return {}


def read_worlds(
    proposal: WideLogisticProposal,
    rows: Any,
    count: int,
    totals: WeightedTotals,
    measures: Any,
    totals_read: dict[GroupTotals, np.ndarray],
) -> np.ndarray:
    """Return what the engine reads of each world, as it is measured."""
    logistic = proposal.logistic
    selected = building.where(rows, logistic.design.row_condition)
    sums = {f"m{index}": text for index, text in enumerate(logistic.factor_sums)}
    query = building.start_question(selected, building.lower_keys(selected, ["world"], {}), sums).query
    scans = GradientScans(logistic, ScanFactors.from_measures(query.plan.measures, logistic), proposal.scans.mean_steps)
    groups = tuple((number,) for number in range(count))

    def bound(measured: Any) -> Any:
        return bound_by_whole_rows(replace(query.plan, measures=measured), query.plan.limits, count)

    reading = GroupTotals(measures(scans, bound).bounded, groups)
    if reading not in totals_read:
        with proposal._context.engine.check(reading) as opened:
            totals_read[reading] = opened.read(reading, 7)
    return np.array([totals.extract(row[None]) for row in totals_read[reading]])


@pytest.mark.parametrize(
    ("neighbours", "most"),
    [
        pytest.param("add-remove", 1, marks=pytest.mark.long),
        ("add-remove", 2),
        pytest.param("replace", 1, marks=pytest.mark.long),
        ("replace", 2),
    ],
)
def test_no_unit_moves_a_scan_further_than_is_charged(
    neighbours: str, most: int, tmp_path: Path, totals_read: dict[GroupTotals, np.ndarray]
) -> None:
    telling = [ROWS[0], ROWS[1], ROWS[14], ROWS[15], ROWS[16]]
    many = [held for size in range(2, most + 2) for held in combinations_with_replacement(telling, size)]
    held = [(), *((row,) for row in ROWS), *(many if most > 1 else [])]
    check_scans(MODEL, WORLD, held, neighbours, most, tmp_path, totals_read)


@pytest.mark.parametrize("neighbours", ["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def test_no_unit_moves_a_scan_of_numbers_and_their_squares_further_than_is_charged(
    neighbours: str, tmp_path: Path
) -> None:
    held = [(), *((row,) for row in NUMBERS_ROWS)]
    check_scans(MODEL_OF_NUMBERS, NUMBERS_WORLD, held, neighbours, 1, tmp_path, {})


def check_scans(
    model: str,
    columns: dict[str, dict[str, Any]],
    held: list[Any],
    neighbours: str,
    most: int,
    tmp_path: Path,
    totals_read: dict[GroupTotals, np.ndarray],
) -> None:
    """Compare what units with these rows move in both kinds of scan with what is charged, which one of them reaches."""
    rows = [(number, number, *row) for number, world in enumerate(held) for row in world]
    frame = pd.DataFrame(rows, columns=["who", *columns])
    reached: list[float] = []
    with curator(frame, tmp_path, neighbours=neighbours, max_rows=most, columns=columns) as made:
        proposal = proposal_of(made, model)
        far = np.zeros(len(proposal.logistic.design.coordinates) - 1)
        far[0] = -50  # the event is sure not to come
        coefficients = rounded_coefficients(far)
        scans: list[tuple[WeightedTotals, Any]] = [
            (proposal.spread_totals, lambda wide, bound: wide.sum_and_square_totals(bound)),
            (proposal.gradient_totals_at(coefficients), lambda wide, bound: wide.gradient_totals(coefficients, bound)),
        ]
        for totals, measures in scans:
            selected = select_rows(made._context.engine.catalog(), "people", None)
            measured = read_worlds(proposal, selected, len(held), totals, measures, totals_read).astype(float)
            gram = measured @ measured.T
            squares = np.diag(gram)
            moved = squares if neighbours == "add-remove" else squares[:, None] + squares[None, :] - 2 * gram
            assert totals.sensitivity.neighbours.value == neighbours
            assert totals.rows_per_unit == most
            assert moved.max() <= float(totals.sensitivity.squares)
            assert np.abs(measured).max() <= totals.sensitivity.per_group
            reached.append(moved.max() / float(totals.sensitivity.squares))
    # equal rows at corners reach it; replaced ones cannot oppose each other in the intercept
    assert min(reached) >= (0.99 if neighbours == "add-remove" else 0.2)


def test_the_formula_and_the_policy_decide_the_estimator(tmp_path: Path) -> None:
    with curator(people(20).assign(town=1, job=2), tmp_path, columns=WIDE) as made:
        proposal = proposal_of(made)
        assert not isinstance(made.logistic("retired ~ age + C(town)", "people"), WideLogisticProposal)
        text = str(proposal.explain())
        assert "12 times" in text
        assert "prediction only" in text
        forecast = proposal.error(**PRICE)
        assert "prediction only" in str(forecast)
        assert RegressionForecast.from_json(forecast.to_json()) == forecast
        with pytest.raises(Unsupported, match="a price cannot be found for a given ±"):
            proposal.price(1)
        with pytest.raises(Unsupported, match="intercept"):
            made.logistic(f"{FORMULA} - 1", "people")
        with pytest.raises(SfumatoError, match="at most 120"):
            made.logistic("retired ~ C(age) + C(hours) + C(town)", "people")
        with pytest.raises(InvalidParameter, match="δ"):
            proposal.release(epsilon=1)


@pytest.mark.parametrize("price", [Price(1, "1e-6"), Price("0.1", "1e-6"), Price(rho="0.02")])
def test_all_scans_together_keep_the_price_and_use_it_up(price: Price, tmp_path: Path) -> None:
    with curator(people(20).assign(town=1, job=2), tmp_path, columns=WIDE) as made:
        proposal = proposal_of(made)
        noise = proposal._scan_noise(price)
        assert sum(WIDE_SCAN_SHARES) == 1
        changes = [
            proposal.spread_totals.sensitivity,
            *[proposal._gradient_totals_at_zero.sensitivity] * (len(WIDE_SCAN_SHARES) - 1),
        ]
        pairs = zip(noise.mechanisms, changes, strict=True)
        assert price.is_satisfied_by(compose(mechanism.curve(change) for mechanism, change in pairs))
        if price.rho is None:
            assert noise.curve.epsilon(price.delta) >= 0.99 * float(price.epsilon or 0)


def test_a_gradient_that_cannot_be_bound_is_refused_before_the_first_scan_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with curator(town_survey(20), tmp_path, columns=WIDE) as made:
        proposal, check = proposal_of(made), StatementReader._check

        def refuse(reader: Any, reading: Any) -> None:
            if reading.bounded == proposal._gradient_totals_at_zero.bounded:
                raise Unsupported("unbound", "the engine does not take this", fix="ask for something else")
            check(reader, reading)

        monkeypatch.setattr(StatementReader, "_check", refuse)
        head = made.ledger.head
        with pytest.raises(Unsupported, match="does not take this"):
            proposal.release(**PRICE)
        assert made.ledger.head == head


def town_survey(rows: int) -> pd.DataFrame:
    frame, random = people(rows), np.random.default_rng(5)
    frame["town"], frame["job"] = random.integers(0, 40, rows), random.integers(0, 15, rows)
    score = -1 + 0.05 * (frame["age"].fillna(45) - 45) + 1.5 * (frame["sex"] == "M") - 2 * (frame["job"] > 9)
    return frame.assign(retired=random.random(rows) < 1 / (1 + np.exp(-score)))


def area(event: np.ndarray, score: np.ndarray) -> float:
    """Return the area under the curve: how often an event has the higher score."""
    events, others = score[event], score[~event]
    return float((events[:, None] > others[None, :]).mean())


def test_a_release_predicts_is_charged_once_and_reads_back(tmp_path: Path) -> None:
    frame = town_survey(3000)
    with curator(frame, tmp_path, columns=WIDE) as made:
        proposal = proposal_of(made)
        answer = proposal.release(epsilon=4, delta="1e-6", request_id="once")
        assert proposal.release(epsilon=4, delta="1e-6", request_id="once").rows == answer.rows
        account = made._context.account
        costs = [account.cost(curve) for curve in proposal._scan_noise(Price(4, "1e-6")).curves]
        assert account.spent == account._opening_terms.budget.with_spent(sum(costs[1:], costs[0])).spent
    assert LogisticAnswer.from_json(answer.to_json()) == answer
    assert answer.for_prediction
    assert not answer.unbounded
    assert "no intervals" in str(answer)
    assert set(answer.column("p")) == {None}
    assert answer.rows_used == pytest.approx(len(frame.dropna(subset=["age", "sex"])), rel=0.1)
    used = frame.dropna(subset=["age", "sex"])
    probability = answer.predict(used)
    assert area(used["retired"].to_numpy(bool), probability) > 0.75  # 0.80 without noise; 0.5 by chance
    assert abs(probability.mean() - used["retired"].mean()) < 0.1
    row = {"age": 60, "hours": 30, "sex": "M", "arm": "b", "town": 3, "job": 2}
    assert 0 < answer.predict({**row, "sex": "F", "job": 12}) < answer.predict(row) < 1
    assert "town[3]" in answer.plot().svg or "town[4]" in answer.plot().svg


def test_steps_without_noise_lead_to_the_largest_likelihood() -> None:
    """Columns off their centre, which plain gradient steps would take hundreds of times as long for."""
    random = np.random.default_rng(3)
    rows = np.array([np.ones(4000), -0.9 + 0.1 * random.random(4000), random.random(4000) < 0.05]).T.astype(float)
    event = random.random(4000) < 1 / (1 + np.exp(-rows @ [9.0, 10.0, -1.0]))
    descent = LikelihoodDescent.starting_at_zero(rows.sum(axis=0), (rows**2).sum(axis=0), 1e-6)
    for _ in range(200):
        looked = descent.centred + MOMENTUM * descent.velocity
        coefficients = descent._uncentred(looked)
        assert np.array(descent.next_coefficients) / 4096 == pytest.approx(coefficients, abs=2e-4)
        descent = descent.step(rows.T @ (event - 1 / (1 + np.exp(-rows @ coefficients))))
    gradient = rows.T @ (event - 1 / (1 + np.exp(-rows @ descent.coefficients)))
    assert np.abs(gradient).max() < 1e-3
    assert LikelihoodDescent.starting_at_zero(np.ones(3), np.ones(3), 5.0).squares.tolist() == [5 * SPREAD_FLOOR] * 3


def test_coefficients_of_a_reference_predict_what_those_of_all_values_do(tmp_path: Path) -> None:
    with curator(people(20).assign(town=1, job=2), tmp_path, columns=WIDE) as made:
        design = proposal_of(made, f"{FORMULA} + age:sex").logistic.design
    rows = coordinates_of_assumed_rows(design)[:200, :-1]
    coefficients = np.random.default_rng(1).normal(0, 1, rows.shape[1])
    fitted = regressor_coefficients(design, (2, 0, 0, 1, 7, 3), coefficients)
    assert {"intercept", "age[<22]", "sex[M]", "age[<22]:sex[M]", "arm[a]"} <= {*fitted}
    assert not {"age[26 to <30]", "hours[<4]", "sex[F]", "arm[b]", "town[7]", "job[3]"} & {*fitted}
    frame = {}
    for number, category in enumerate(design.categories):
        held = [rows[:, place_of(design, number, value)] for value in range(len(category.values))]
        named = [*category.edges, category.edges[-1] + 1000] if category.edges else category.values
        values = [value - 1 if category.edges else str(value) for value in named]
        frame[category.column] = np.array([values[index] for index in np.argmax(held, axis=0)], object)
    expected = 1 / (1 + np.exp(-rows @ coefficients))
    assert predicted_probability(fitted, pd.DataFrame(frame)) == pytest.approx(expected, abs=1e-6)


WIDTHS: dict[str, tuple[Domain, list[float]]] = {
    "age": (Domain(Type.INTEGER, bounds=(18, 80)), [-(2**40), 17, 18, *range(20, 80, 3), *range(21, 80, 3), 80, 81]),
    "few": (Domain(Type.INTEGER, bounds=(-2, 1)), [-3, -2, -1, 0, 1, 2]),
    "cost": (Domain(Type.REAL, bounds=(Fraction(-1, 3), Fraction(5))), [-1.0, -1 / 3, 0.0, 5.0, 6.0]),
    "tight": (Domain(Type.REAL, bounds=(Fraction(10**16), Fraction(10**16 + 4))), [1e16 - 2, 1e16, 1e16 + 2, 1e16 + 4]),
}


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("count", RANGE_COUNTS)
def test_every_number_is_in_exactly_one_range(name: str, count: int) -> None:
    """At each edge, the doubles beside it, both ends and beyond them: in SQL, and where labels are read back."""
    domain, values = WIDTHS[name]
    builder = DesignBuilder(1 << 5, {name: domain}, count)
    builder.category_index(Factor(name))
    category = builder.categories[name]
    assert 2 <= len(category.values) <= count
    for edge in map(float, category.edges):
        values = [*values, edge, edge - 1, edge + 1, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf)]
    numbers = [int(value) for value in values] if domain.type is Type.INTEGER else [float(value) for value in values]
    tests = ", ".join(f"CAST({predicate} AS INTEGER)" for predicate in category.predicates)
    kind = "BIGINT" if domain.type is Type.INTEGER else "DOUBLE"
    rows = ", ".join(f"(CAST({number!r} AS {kind}))" for number in numbers)
    held = np.array(duckdb.sql(f'SELECT {tests} FROM (VALUES {rows}) AS t("{name}")').fetchall())
    assert held.sum(axis=1).tolist() == [1] * len(numbers)
    labelled = [in_labelled_range(label, [*numbers]) for label in range_labels(category.edges)]
    assert np.array(labelled).T.tolist() == held.astype(bool).tolist()
    assert not in_labelled_range("<x", [1]).any()
    assert not in_labelled_range("F", [1]).any()


def test_a_label_of_a_range_holds_numbers_and_equal_texts_only() -> None:
    fitted = {"age[20 to <40]": 1.0}
    cells = [20, 39.5, 40, 19, None, "20 to <40", "30", True, Decimal(30)]
    inside = [True, True, False, False, False, True, False, False, True]
    found = predicted_probability(fitted, {"age": np.array(cells, object)})
    assert (found > 0.5).tolist() == inside


def test_a_formula_of_many_numbers_gets_fewer_ranges() -> None:
    numbers = {f"x{index}": Domain(Type.INTEGER, bounds=(0, 100)) for index in range(119)}
    domains = {**numbers, "y": Domain(Type.BOOLEAN)}
    for count, ranges in ((29, 16), (59, 8), (119, 4)):
        formula = parse_formula(f"y ~ {' + '.join([*numbers][:count])} + x0^2")
        design = range_logistic_design(formula, domains, 32).design
        assert len(design.coordinates) == 2 + count * ranges  # without the square
        assert {len(category.values) for category in design.categories} == {ranges}
    pairs = " + ".join(f"x{index}:x{index + 1}" for index in range(50))
    design = range_logistic_design(parse_formula(f"y ~ {' + '.join([*numbers][:60])} + {pairs}"), domains, 32).design
    assert not design.categories


def place_of(design: Any, category: int, value: int) -> int:
    (index,) = [
        at for at, each in enumerate(design.coordinates) if each.levels == {(category, value)} and each.column is None
    ]
    return index


def test_labels_of_every_kind_are_predicted_and_missing_columns_refused() -> None:
    coefficients = {"intercept": -1.0, "x": 0.5, "x^2": 0.25, "center(x, 2):c[a:b]": 1.0, "c[a:b]": 2.0}
    score = -1 + 0.5 * 3 + 0.25 * 9 + 1.0 + 2
    assert predicted_probability(coefficients, {"x": 3, "c": "a:b"}) == pytest.approx(1 / (1 + np.exp(-score)))
    assert predicted_probability(coefficients, {"x": [3, 3], "c": ["a:b", "?"]})[1] < 0.95
    assert predicted_probability({"c[1]": 1.0}, {"c": [1, 1.0, np.nan]}) == pytest.approx([0.7310586, 0.7310586, 0.5])
    both = {"c[a:b]:d[x]": 1.0}
    assert predicted_probability(both, {"c": ["a:b", "a:b", "?"], "d": ["x", "y", "x"]})[0] > 0.7
    assert predicted_probability(both, {"c": ["a:b", "?"], "d": ["y", "x"]}).tolist() == [0.5, 0.5]
    with pytest.raises(InvalidParameter, match=r"every column named in the coefficient 'c\[1\]'"):
        predicted_probability({"c[1]": 1.0}, {"x": 3})
    with pytest.raises(InvalidParameter, match="each centred column has its centre"):
        predicted_probability({"center(x)": 1.0}, {"x": 3})


@pytest.mark.parametrize(
    "rows", ["none", *(pytest.param(rows, marks=pytest.mark.long) for rows in ("one value", "always"))]
)
def test_every_charged_release_answers(rows: str, tmp_path: Path) -> None:
    frame = town_survey(60)
    if rows == "none":
        frame = frame[:0]
    elif rows == "one value":
        frame = pd.DataFrame([frame.iloc[0]] * 40)
    else:
        frame["retired"] = True
    with curator(frame.reset_index(drop=True), tmp_path, columns=WIDE) as made:
        assert len(proposal_of(made).release(**PRICE).rows) == 87
