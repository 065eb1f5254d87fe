"""What one unit moves in the moments of a regression, by enumeration over all its possible rows, read by the engine."""

from __future__ import annotations

import re
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from covering_cases import covering
from inference.rows import curator
from sfumato.curator.proposals.moment_proposals import select_rows
from sfumato.curator.proposals.regressions import RegressionProposal
from sfumato.errors import InvalidParameter
from sfumato.inference.design import _require_distinct_predicates
from sfumato.inference.moments import WEIGHT, MomentEstimates, NoisyMoments, max_row_norm, moment_totals, moment_weight
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.plan.bounding import bound_by_whole_rows, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql import building
from sfumato.privacy import codec
from sfumato.release.prices import Price

COLUMNS: dict[str, dict[str, Any]] = {
    "world": {"type": "integer", "bounds": [0, 10_000]},
    "x": {"type": "integer", "bounds": [-1, 3]},
    "w": {"type": "real", "bounds": [-2, 1]},
    "y": {"type": "integer", "bounds": [0, 10]},
    "c": {"values": ["a", "b"]},
}
ROWS: list[tuple[Any, ...]] = [
    *product([-1, 3, 9], [-2.0, 1.0], [0, 10], ["a", "b"]),
    (1, -0.5, 5, "a"),
    (2, 0.1, 3, "b"),
    (None, 1.0, 10, "a"),
    (3, None, 10, "a"),
    (3, 1.0, 10, "else"),
    (3, 1.0, None, "b"),
]
"""Corners of the declared ranges, one beyond them, some inside, and rows with a missing value."""
FORMULA = "y ~ x + w + c + x:c + x^2"


def worlds(most: int) -> list[tuple[tuple[Any, ...], ...]]:
    """Return what one unit may hold: nothing, every single row, and multisets of as many telling ones as count, and
    one more.
    """
    telling = [*ROWS[:8], *ROWS[12:16], ROWS[24], ROWS[26]]
    many = [held for size in range(2, most + 2) for held in combinations_with_replacement(telling[: 14 // most], size)]
    return [(), *((row,) for row in ROWS), *many]


def contributions(neighbours: str, most: int, folder: Path) -> tuple[WeightedTotals, np.ndarray]:
    """Return the moments, and what the engine reads of every world, each held by a unit of its own in a group of its
    own, as it is measured.
    """
    held = worlds(most)
    rows = [(number, number, *row) for number, world in enumerate(held) for row in world]
    frame = pd.DataFrame(rows, columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, folder, neighbours=neighbours, max_rows=most, columns=COLUMNS) as made:
        return read_worlds(made.regress(FORMULA, "people"), select_rows(_catalog(made), "people", None), len(held))


def _catalog(made: sf.Curator) -> Any:
    return made._context.engine.catalog()


def read_worlds(proposal: Any, rows: Any, count: int) -> tuple[WeightedTotals, np.ndarray]:
    """Return the moments, and what the engine reads of each world."""
    context, design = proposal._context, proposal.design
    selected = building.where(rows, design.row_condition)
    sums = {f"m{index}": design.moment_sql(moment) for index, moment in enumerate(design.gram_entry_count_by_moment)}
    query = building.start_question(selected, building.lower_keys(selected, ["world"], {}), sums).query
    groups = tuple((number,) for number in range(count))
    reading = GroupTotals(bound_by_whole_rows(query.plan, query.plan.limits, len(groups)), groups)
    with context.engine.check(reading) as opened:
        totals = opened.read(reading, 7)
    return proposal.moments, np.array([proposal.moments.extract(row[None]) for row in totals])


def _read(proposal: RegressionProposal) -> np.ndarray:
    reading = GroupTotals(proposal.moments.bounded, ((),))
    with proposal._context.engine.check(reading) as opened:
        return proposal.moments.extract(opened.read(reading, 7))


@covering({"neighbours": ("add-remove", "replace"), "most": (1, 2)})
def test_no_unit_moves_the_moments_further_than_is_charged(neighbours: str, most: int, tmp_path: Path) -> None:
    moments, measured = contributions(neighbours, most, tmp_path)
    sensitivity = moments.sensitivity
    assert sensitivity.neighbours.value == neighbours
    gram = measured.astype(float) @ measured.astype(float).T
    squares = np.diag(gram)
    moved = squares if neighbours == "add-remove" else squares[:, None] + squares[None, :] - 2 * gram
    assert moved.max() <= float(sensitivity.squares)
    # corners reach it, but for the rounding of weights to whole numbers, and rows that are nearly at right angles
    assert moved.max() >= 0.95 * float(sensitivity.squares)
    assert np.abs(measured).max() <= sensitivity.per_group
    assert float(sensitivity.l2) == pytest.approx(
        most * moments.row_squares**0.5 * (1 if neighbours == "add-remove" else 2**0.5)
    )


SECONDS = [f"2020-01-01 00:00:{second:02}" for second in range(6)]
CATEGORIES: dict[str, dict[str, Any]] = {
    "seconds of one day": {"type": "timestamp", "values": SECONDS},
    "days": {"type": "date", "values": [f"2020-01-{day:02}" for day in range(1, 7)]},
    "texts": {"values": ["a", "A", "a ", "ä", "a'b", ""]},
    "reals": {"type": "real", "values": [0.1, 0.1 + 2**-56, -0.5, 1e100, 2**53]},
    "integers": {"type": "integer", "values": [-7, 0, 2**53, 2**53 + 1]},
    "booleans": {"type": "boolean"},
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_a_row_is_in_one_value_of_a_category_of_every_type(kind: str, tmp_path: Path) -> None:
    """A row in two of them would move more than is charged: seconds of one day, written as dates, were one value."""
    declared = CATEGORIES[kind]
    values = declared.get("values", [False, True])
    cells = pd.to_datetime(values) if declared.get("type") in ("timestamp", "date") else values
    frame = pd.DataFrame({"who": range(len(values)), "world": range(len(values)), "y": 10, "c": cells})
    columns = {"world": COLUMNS["world"], "y": COLUMNS["y"], "c": declared}
    with curator(frame, tmp_path, max_rows=1, columns=columns) as made:
        rows = select_rows(_catalog(made), "people", None)
        moments, measured = read_worlds(made.regress("y ~ C(c)", "people"), rows, len(values))
        squares = (measured.astype(float) ** 2).sum(axis=1)
        assert squares.min() > 0  # every row is counted
        assert squares.max() <= float(moments.sensitivity.squares)


def test_times_of_one_day_that_a_question_derives_are_told_apart(tmp_path: Path) -> None:
    count = len(SECONDS)
    frame = pd.DataFrame({"who": range(count), "world": range(count), "x": 0, "y": 10})
    columns = {name: COLUMNS[name] for name in ("world", "x", "y")}
    cases = " ".join(f"WHEN world = {n} THEN TIMESTAMP '{second}'" for n, second in enumerate(SECONDS[:-1]))
    with curator(frame, tmp_path, max_rows=1, columns=columns) as made:
        table = made.table("people").derive(z=f"CASE {cases} ELSE TIMESTAMP '{SECONDS[-1]}' END")
        moments, measured = read_worlds(table.regress("y ~ C(z)"), table._rows, count)
        assert (measured.astype(float) ** 2).sum(axis=1).max() <= float(moments.sensitivity.squares)


def test_values_that_sql_cannot_tell_apart_are_no_category() -> None:
    with pytest.raises(InvalidParameter, match="two values of c are equal"):
        _require_distinct_predicates("c", ["c = 1", "c = 2", "c = 1"])


def test_a_row_with_a_missing_value_counts_in_no_moment(tmp_path: Path) -> None:
    rows = [(1, 0, 3, 1.0, 10, "a"), (2, 0, None, 1.0, 10, "a"), (3, 0, 3, 1.0, None, "a"), (4, 0, 3, 1.0, 10, "z")]
    frame = pd.DataFrame(rows, columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, columns=COLUMNS) as made:
        every, alone = (
            made.regress(FORMULA, "people", where=where) for where in (None, "c = 'a' AND x = 3 AND y = 10")
        )
        assert (_read(every) == _read(alone)).all()
        count = _read(every)[0] / every.moments.weights[0]
        assert count == 1


def test_scaling_is_decided_by_the_policy_alone(tmp_path: Path) -> None:
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")] * 3, columns=["who", "world", "x", "w", "y", "c"])
    other = pd.DataFrame([(1, 0, 3, 1.0, 9, "b")] * 50, columns=["who", "world", "x", "w", "y", "c"])
    designs = []
    for number, rows in enumerate((frame, other)):
        (tmp_path / str(number)).mkdir()
        with curator(rows, tmp_path / str(number), columns=COLUMNS) as made:
            proposal = made.regress(FORMULA, "people")
            designs.append((proposal.design, proposal.moments.sensitivity, proposal.identity))
            most = len(proposal.design.blocks) * proposal.design.scale**2
            norm = max_row_norm(proposal.moments.bounded, proposal.design)
            assert 0.9 * most < norm <= most  # bounds are S steps from their middle
    assert designs[0] == designs[1]


def test_off_diagonal_sums_have_half_the_variance_and_shared_sums_less() -> None:
    assert moment_weight(1) == WEIGHT
    for entries in range(1, 12):
        weight = moment_weight(entries)
        assert weight**2 <= entries * WEIGHT**2 < (weight + 1) ** 2
        assert weight**2 >= 0.96 * entries * WEIGHT**2


def test_each_moment_has_a_noise_of_its_own(tmp_path: Path) -> None:
    """Of 60 releases over an empty table, no two moments have the same signs, nor opposite ones; false alarm ≤
    C(25, 2)·2·2⁻⁵⁹·n < 1e-6.
    """
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, columns=COLUMNS) as made:
        proposal = made.regress("y ~ x + w + c", "people", where="world = 77")
        draw = proposal._strategy_at(Price(1, "1e-6"))
        zeros = np.zeros(draw.reading.shape, np.int64)
        signs = np.sign([draw.draw_from(zeros).totals for _ in range(60)])
    products = np.abs(signs.T @ signs)
    np.fill_diagonal(products, 0)
    assert products.max() < 60


def test_the_noise_has_the_deviation_that_is_charged(tmp_path: Path) -> None:
    """Σ u²/σ² over 60 releases of 20 moments is χ² with 1,200 degrees of freedom: six deviations are ±294."""
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, columns=COLUMNS) as made:
        proposal = made.regress("y ~ x + w + c", "people", where="world = 77")
        draw = proposal._strategy_at(Price(1, "1e-6"))
        curve = draw.mechanism.curve(proposal.moments.sensitivity)
        assert curve.delta(1) <= 1e-6
        assert draw.batch.curve.delta(1) == curve.delta(1)
        zeros = np.zeros(draw.reading.shape, np.int64)
        totals = np.array([draw.draw_from(zeros).totals for _ in range(60)], float)
        scaled = ((totals / float(draw.mechanism.sizes[0])) ** 2).sum(axis=0)
        assert abs(scaled.sum() - totals.size) < 6 * (2 * totals.size) ** 0.5
        assert scaled.min() > 15  # each of them: χ²₆₀ is below 15 with probability 1e-10


@pytest.mark.parametrize(("formula", "neighbours"), [("y ~ x", "add-remove"), (FORMULA, "replace")])
def test_no_more_noise_is_added_than_the_norm_needs(formula: str, neighbours: str, tmp_path: Path) -> None:
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, neighbours=neighbours, columns=COLUMNS) as made:
        proposal = made.regress(formula, "people")
        sigma = float(proposal._strategy_at(Price(1, "1e-6")).mechanism.sizes[0])
    needed = sf.calibrate(sf.Gaussian, sf.Guarantee(1, "1e-6"), 10**6)  # one number that moves by a million steps
    norm = float(proposal.moments.sensitivity.l2)
    assert sigma / norm == pytest.approx(float(needed.sizes[0]) / 10**6, rel=1e-4)


def test_estimates_keep_what_the_policy_implies(tmp_path: Path) -> None:
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, columns=COLUMNS) as made:
        proposal = made.regress("y ~ x + w + c", "people")
        draw = proposal._strategy_at(Price(1, "1e-6"))
        noisy = draw.draw_from(np.full(draw.reading.shape, 1000, np.int64))
    estimates, design = MomentEstimates.from_noisy_moments(noisy, proposal.design), proposal.design
    assert len(design.constraints) >= 4
    assert np.abs(design.constraints @ estimates.values).max() < 1e-9 * np.abs(estimates.values).max()
    assert np.abs(design.constraints @ estimates.factor).max() < 1e-9 * np.abs(estimates.factor).max()
    plain = float(noisy.mechanism.sizes[0]) / (moment_weight(1) * design.scale**2)
    assert np.linalg.norm(estimates.factor[0]) < plain


def test_only_whole_rows_are_measured(tmp_path: Path) -> None:
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, max_rows=2, columns=COLUMNS) as made:
        proposal = made.regress("y ~ x", "people")
        plan, limits = proposal.question.query.plan, proposal.question.limits
        for bounded in candidate_bounded_plans(plan, limits, 1):
            if bounded.strategy.value != "sample":
                with pytest.raises(InvalidParameter, match="full or not at all"):
                    moment_totals(bounded, proposal.design)


def test_totals_beyond_64_bits_are_clamped_and_neighbours_stay_close(tmp_path: Path) -> None:
    """Between any two totals, a weighted moment moves forward and by no more than its weight times their distance: also
    at the ends of 64 bits, and where the product would pass them.
    """
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, columns=COLUMNS) as made:
        moments = made.regress(FORMULA, "people").moments
    edges = {2**bits // weight for weight in moments.weights for bits in (61, 62, 63, 64)} | {2**62}
    near = {edge + shift for edge in edges for shift in (-1, 0, 1) if edge + shift <= 2**62}
    totals = sorted({0, 1, *near, *(-total for total in near)})
    measured = [moments.extract(np.full((1, len(moments.weights)), total, np.int64)).tolist() for total in totals]
    for index, weight in enumerate(moments.weights):
        column = [row[index] for row in measured]
        steps = [
            (after - before, high - low)
            for before, after, low, high in zip(column, column[1:], totals, totals[1:], strict=False)
        ]
        assert all(0 <= moved <= weight * distance for moved, distance in steps)
        assert column[totals.index(1)] == weight


def test_a_receipt_says_the_deviation_of_a_square_s_noise(tmp_path: Path) -> None:
    """In units of columns in [−1, 1], as the covariance of the estimates has it."""
    frame = pd.DataFrame([(1, 0, 0, 0.0, 5, "a")], columns=["who", "world", "x", "w", "y", "c"])
    with curator(frame, tmp_path, columns=COLUMNS) as made:
        proposal = made.regress("y ~ x + w", "people")
        answer = proposal.release(epsilon=1, delta="1e-6")
        noisy, design = proposal.newest_moments(), proposal.design
    assert noisy is not None
    factor = MomentEstimates.from_noisy_moments(noisy, design).factor
    deviations = np.sqrt((factor**2).sum(axis=1))
    moments = enumerate(design.gram_entry_count_by_moment)
    squares = [deviations[index] for index, moment in moments if moment.columns == (0, 0)]
    (words,) = answer.receipt.mechanisms
    said = re.fullmatch(r"Gaussian, σ (\S+) on sums of squares of columns in \[−1, 1\]", words)
    assert said is not None
    assert squares == pytest.approx([float(said[1])], rel=1e-5)


def test_moments_read_back_from_json() -> None:
    noisy = NoisyMoments((1, -2, 3), sf.Gaussian(5))
    assert codec.loads(codec.dumps(noisy)) == noisy
    listed: Any = [1, -2, 3]
    assert NoisyMoments(listed, sf.Gaussian(5)) == noisy
    with pytest.raises(InvalidParameter):
        NoisyMoments((), sf.Gaussian(5))
