"""Online sessions: what one unit moves, what a gate says, how wide its ranges are, what is charged, how it ends."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from publish.marginals.test_measuring import Row, policy_of, rows
from publish.tables import counts, people, planned, published
from sfumato.curator.context import Context
from sfumato.curator.proposals.marginals import propose_marginals
from sfumato.curator.proposals.online import OnlineSession, propose_online
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.ledger import spending
from sfumato.mechanisms import AboveThreshold, Gaussian, laplace
from sfumato.mechanisms.sparse import Session
from sfumato.plan.readings.dense_readings import Marginal
from sfumato.privacy import Neighbours
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import GroupedTotals
from sfumato.publish.marginals.blocks import sum_marginal_to
from sfumato.publish.marginals.group_totals import AmountBounds
from sfumato.publish.marginals.measuring import has_fixed_total
from sfumato.publish.online import (
    FALSE_ALARM,
    GatedCounts,
    IntegerWeightedMeasure,
    SessionBatch,
    build_gate,
    close_score_bound,
    first_hypothesis,
    with_integer_weights,
    worst_error_in_row_effects,
)
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

COLUMNS = ["sex", "age", "smokes", "day"]
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-9"}
INSIDE = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
OUTSIDE = "SELECT sex, COUNT(*) AS n FROM people WHERE age < 3 AND smokes GROUP BY sex"
QUESTIONS = (
    "SELECT COUNT(*) FROM people",
    OUTSIDE,
    "SELECT sex, smokes, COUNT(*) FROM people WHERE age < 3 OR day IS NULL GROUP BY sex, smokes",
    "SELECT day_level_1, COUNT(*) FROM people WHERE sex = 'f' GROUP BY day_level_1",
    "SELECT smokes AND sex = 'f', COUNT(*) FROM people WHERE age < 5 GROUP BY 1",
)


@contextmanager
def curator(path: Path, found: list[Row], **more: Any) -> Iterator[sf.Curator]:
    with sf.Curator(policy_of(found, **{"units": True, **more}), path / "people.ledger") as opened:
        yield opened


@contextmanager
def opened(path: Path, found: list[Row], *, ways: int = 2, rounds: int = 2, **more: Any) -> Iterator[OnlineSession]:
    textbook = more.pop("textbook", False)
    with (
        curator(path, found, **more) as own,
        own.online("people", COLUMNS, ways, rounds, textbook=textbook).release(**PRICE) as session,
    ):
        yield session


def quantities(face: answering.QueryableTable, question: str) -> tuple[GroupedTotals, ...]:
    """What is asked, as a session sees it: nothing of it is taken for measured."""
    query = answering.statements.parse(question, face.catalog)
    asking = answering._QuestionEvaluator(face, query, answering._where_conditions(query.plan.source), 0.05)
    return tuple(each for each in asking.quantities[0][0] if isinstance(each, GroupedTotals))


def asking(face: answering.QueryableTable, question: str) -> IntegerWeightedMeasure:
    """The same, as a gate compares it."""
    found = with_integer_weights(quantities(face, question))
    assert found is not None
    return found


def read(found: list[Row], units: bool, relation: str) -> tuple[SessionBatch, np.ndarray]:
    """What a session runs, and the exact counts that it holds."""
    policy = policy_of(found, units=units, relation=relation)
    with closing(DuckDB(policy)) as engine:
        context = Context(policy, engine, None, lambda _: None, "version 1")  # type: ignore[arg-type]
        own = propose_online(context, engine.catalog(), "people", COLUMNS, 2, 3, where=None, rows=None, textbook=False)
        batch = own._strategy_at(Price("1", "1e-9")).batch
        return batch, engine.read(batch.reading, 7)[0]


def neighbours(found: list[Row], units: bool, relation: str) -> list[list[Row]]:
    """The same rows without one unit, or with one whose rows are all others: many, or in one cell."""
    first = found[0][0]
    without = [row for row in found if row[0] != first] if units else found[1:]
    if relation == "add-remove":
        return [without]
    wild = Random(5)
    other = [(first, wild.choice("fm"), 0, True, None) for _ in range(9 if units else 1)]
    return [[*without, *other], [*without, *other[:1]]]


@pytest.mark.parametrize("units", [True, False])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_unit_moves_scores_and_answers_no_further_than_is_charged(units: bool, relation: str, long: bool) -> None:
    for seed in range(3 if long else 1):
        found = rows(seed)
        batch, exact = read(found, units, relation)
        moved = Marginal(batch.reading, 0).sensitivity
        asked = _masks(Random(seed), exact.shape)
        for other in neighbours(found, units, relation):
            _, beside = read(other, units, relation)
            for codes in asked:
                one, two = (_grouped(codes, each) for each in (exact, beside))
                guess = np.array([3, 0, 10**7, -5])
                assert (
                    abs(worst_error_in_row_effects(one, guess, 1) - worst_error_in_row_effects(two, guess, 1))
                    <= batch.gate.sensitivity
                )
                assert np.abs(one - two).sum() <= moved.total
                assert ((one - two) ** 2).sum() <= moved.squares


def _grouped(codes: np.ndarray, table: np.ndarray) -> np.ndarray:
    return np.bincount(codes.ravel(), table.ravel(), 5)[1:].astype(np.int64)


def _masks(draw: Random, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Disjoint groups of cells: each cell is in one of four, or in none."""
    return [np.array(draw.choices(range(5), k=math.prod(shape))).reshape(shape) for _ in range(20)]


def test_a_gate_for_less_than_a_unit_moves_is_refused() -> None:
    batch, _ = read(rows(1), True, "add-remove")
    less = build_gate(batch.gate.epsilon, batch.gate.sensitivity - 1, Neighbours.ADD_REMOVE)
    one_way = AboveThreshold(1, 5, 1, batch.gate.sensitivity, True)
    for gate in (less, one_way, build_gate(batch.gate.epsilon, batch.gate.sensitivity, Neighbours.REPLACE)):
        with pytest.raises(sf.InvalidParameter, match="gate"):
            SessionBatch(batch.measurements, batch.reading, gate, batch.noise, 3)


# ── the law of one gate ────────────────────────────────────────────────────────────────────────


def pmf(scale: Any, reach: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    at = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(at) / float(scale))
    return at, weights / weights.sum()


def law(gate: AboveThreshold, scores: list[int], *, fresh: bool = True) -> float:
    """The chance that all scores but the last are called close, and the last is not."""
    (at, first), (_, second) = pmf(gate.scales[0]), pmf(gate.scales[1])
    below = np.concatenate([[0.0], np.cumsum(second)])
    found = first.copy()
    for index, each in enumerate(scores):
        need = gate.threshold + at - each  # close where ν < need
        close = below[np.clip(need + 4000, 0, 8001)] if fresh else (need > 0).astype(float)
        found = found * (1 - close if index == len(scores) - 1 else close)
    return float(found.sum())


@pytest.mark.parametrize("moves", [(1, -1), (1, 1, -1), (-1, 1), (1, 1, 1, -1)])
def test_the_law_of_a_gate_keeps_its_promise_and_one_without_fresh_noise_does_not(moves: tuple[int, ...]) -> None:
    gate = build_gate(sf.mechanisms.AboveThreshold(1, 0).epsilon, 2, Neighbours.ADD_REMOVE)
    scores = [gate.threshold - 1] * (len(moves) - 1) + [gate.threshold]
    beside = [each + 2 * move for each, move in zip(scores, moves, strict=True)]
    assert abs(math.log(law(gate, scores) / law(gate, beside))) <= 1 + 1e-9
    if moves[0] > 0:  # the twin: what was close below a threshold cannot be far at a lower score
        assert law(gate, scores, fresh=False) > 0 == law(gate, beside, fresh=False)


def test_gates_draw_fresh_noise_for_every_question() -> None:
    gate = build_gate(sf.mechanisms.AboveThreshold(1, 0).epsilon, 1, Neighbours.ADD_REMOVE)
    changed = 0
    for _ in range(64):
        own = gate.start()
        said = [own.ask(gate.threshold) for _ in range(8) if own.remaining]
        changed += len(set(said)) > 1
    assert changed > 0  # of 64, with a chance of about 1/2 each


@pytest.mark.parametrize("rounds", [1, 20])
@pytest.mark.parametrize("beta", [0.3, 0.05])
def test_what_is_called_close_is_within_its_range(rounds: int, beta: float) -> None:
    gate = build_gate(sf.mechanisms.AboveThreshold(1, 0).epsilon, 1, Neighbours.ADD_REMOVE)
    (at, first), (_, second) = pmf(gate.scales[0]), pmf(gate.scales[1])
    width = close_score_bound(gate, rounds, beta)
    # the worst asker waits for the largest of all thresholds' noises, and asks what is just outside
    largest = np.diff(np.concatenate([[0.0], np.cumsum(first)]) ** rounds)
    below = np.concatenate([[0.0], np.cumsum(second)])
    miss = float((largest * below[np.clip(gate.threshold + at - width + 4000, 0, 8001)]).sum())
    assert beta / 20 < miss <= beta
    assert 1 - law(gate, [0]) >= 1 - FALSE_ALARM


# ── a session without a curator: exact counts, real gates ──────────────────────────────────────


WHOLE = counts(people(3))
FACE = published(planned([["sex", "age"], ["age", "smokes"], ["sex", "smokes"]]), WHOLE).face
THREE = "SELECT sex, age, COUNT(*) FROM people WHERE smokes GROUP BY sex, age"


def small(rounds: int = 3, epsilon: str = "0.5") -> Any:
    gate = build_gate(sf.mechanisms.AboveThreshold(epsilon, 0).epsilon, 1, Neighbours.ADD_REMOVE)
    noise = Gaussian(4)
    return SimpleNamespace(gate=gate, noise=noise, rounds=rounds, noise_for=lambda reach: Gaussian(4 * reach))


def test_totals_of_groups_are_those_of_their_cells() -> None:
    asked = asking(FACE, THREE)
    own = asked.extract(sum_marginal_to(WHOLE, tuple(range(WHOLE.ndim)), asked.axes))
    assert own.tolist() == WHOLE.sum((3, 4, 5))[:2, :4, 1].ravel().tolist()
    assert asked.max_row_effect == asked.scale == 1


def test_a_hypothesis_has_the_measured_marginals_and_learns_what_is_bought() -> None:
    asked = asking(FACE, THREE)
    first = first_hypothesis(FACE.estimates)
    assert first.counts.min() > 0
    assert first.counts.sum() == pytest.approx(len(people(3)))
    assert first.counts.sum((2, 3, 4, 5)) == pytest.approx(WHOLE.sum((2, 3, 4, 5)), abs=1)
    truth = asked.extract(sum_marginal_to(WHOLE, tuple(range(WHOLE.ndim)), asked.axes)).astype(float)
    for textbook in (False, True):
        start = first_hypothesis(FACE.estimates, textbook=textbook)
        (only,) = asked.parts
        after = start.updated(asked, truth, 0.5, 40.0)
        assert np.abs(after.guess_totals(only) - truth).max() < np.abs(start.guess_totals(only) - truth).max()
        assert after.counts.sum() == pytest.approx(start.total)
        assert start.updated(asked, start.guess_totals(only), 0.5, 40.0).counts == pytest.approx(start.counts)


def test_the_textbooks_update_multiplies_each_group_by_a_step_of_half_the_threshold() -> None:
    """Hardt & Rothblum 2010: by e^η where it is too low and by e^−η where it is too high, η half of the threshold as a
    share of the rows and 1 at most; not at all within the noise.
    """
    asked = asking(FACE, "SELECT sex, COUNT(*) FROM people WHERE smokes GROUP BY sex")
    start = first_hypothesis(FACE.estimates, textbook=True)
    current = start.guess_totals(asked.parts[0])
    for threshold, step in ((0.2 * start.total, 0.1), (1.5 * start.total, 0.75), (5 * start.total, 1.0)):
        for errors, signs in (((3, -3), (1, -1)), ((2, 2.5), (0, 1)), ((-2, -2.5), (0, -1))):
            after = start.updated(asked, current + np.array(errors), 2.0, threshold)
            moved = np.log(after.counts / start.counts)
            expected = np.zeros_like(moved)
            for sex, sign in enumerate(signs):
                expected[sex, :, 1] = sign * step
            assert moved - moved[-1] == pytest.approx(expected - expected[-1])  # but for the rescaling
            assert after.counts.sum() == pytest.approx(start.total)


@pytest.mark.parametrize("signed", [False, True])
def test_a_bought_answer_scales_cells_by_their_weights(signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Darroch & Ratcliff 1972: cell x by Π_j (bought_j/now_j)^(w_j(x)/V), nothing counting as 10⁻¹² of the most; where
    weights have signs by exp(Σ_j w_j(x)·(bought_j − now_j)/(V²·n̂)).
    """
    monkeypatch.setattr("sfumato.publish.online._SCALING_ROUNDS", 1)
    (only,) = asking(FACE, "SELECT sex = 'f', COUNT(*) FROM people WHERE smokes GROUP BY 1").parts
    start = first_hypothesis(FACE.estimates)
    shape = tuple(FACE.attributes[axis].size for axis in only.axes)
    tables = np.random.default_rng(4).integers(-3 if signed else 0, 6, (2, *shape)).astype(float)
    weighted = replace(only, weights=tuple(AmountBounds(table, table) for table in tables))
    measure = IntegerWeightedMeasure((weighted,), 1)
    most, current = measure.max_row_effect, start.guess_totals(weighted)
    for bought in (current * [2, 0.5] + [1, 30], np.array([0.0, 7.0]), np.array([-3.0, current[1]])):
        least = 1e-12 * most * start.total
        steps = (bought - current) / (most * start.total) if signed else np.log(np.maximum(bought, least) / current)
        after = start.updated(measure, bought, 0.0, 40.0)
        moved = np.log(after.counts.sum((3, 4, 5)) / start.counts.sum((3, 4, 5)))
        wanted = np.einsum("j,j...->...", steps, tables) / most
        by_axes = np.moveaxis(moved, only.axes, range(len(only.axes))).reshape(*shape, -1)
        assert by_axes - by_axes[0, 0] == pytest.approx((wanted - wanted[0, 0])[..., None] + 0 * by_axes)
        assert after.counts.sum() == pytest.approx(start.total)


def test_a_closed_session_forgets_its_gate_too() -> None:
    gates = GatedCounts(small(), WHOLE)
    gate = gates._gate
    gates.close()
    assert gate._threshold is None
    assert not gates.remaining_answers


def test_ranges_of_a_session_hold_the_truth_as_often_as_they_say() -> None:
    asked = asking(FACE, THREE)
    truth = asked.extract(sum_marginal_to(WHOLE, tuple(range(WHOLE.ndim)), asked.axes))
    draw, beta, misses, said = Random(11), 0.1, 0, 0
    for _ in range(150):
        gates = GatedCounts(small(2), WHOLE)
        while gates.remaining_answers and said < 3000:
            far = draw.choice([0, 30, 60, close_score_bound(gates._batch.gate, 2, beta)])
            said += 1
            if gates.ask(asked, truth + far * (np.arange(truth.size) == 0)) is None:
                misses += far >= close_score_bound(gates._batch.gate, 2, beta)
            elif draw.random() < 0.3:
                break
    assert said > 200
    assert misses <= beta * said + 4 * math.sqrt(beta * said)


def test_gates_end_after_their_rounds_and_forget() -> None:
    asked = asking(FACE, THREE)
    gates, far = GatedCounts(small(2), WHOLE), np.full(len(asked.parts[0].groups.answer_keys), 10**6)
    sold = []
    for left in (1, 0):
        bought = gates.ask(asked, far)
        assert bought is not None
        sold.append(bought.tolist())
        assert np.abs(bought - asked.extract(sum_marginal_to(WHOLE, tuple(range(6)), asked.axes))).max() < 4 * 12
        assert gates.remaining_answers == left
    assert sold[0] != sold[1]  # the same totals, with noise of their own each time
    assert gates._exact is None
    with pytest.raises(sf.InvalidParameter, match="question"):
        gates.ask(asked, far)


def test_rows_that_count_twice_are_compared_with_twice_the_steps() -> None:
    asked = asking(FACE, "SELECT sex = 'f', COUNT(*) FROM people WHERE smokes AND age < 18 GROUP BY 1")
    (only,) = asked.parts
    assert asked.max_row_effect == 1
    for weights in (only.weights[:1] * 2, tuple(_times(each, 2) for each in only.weights)):
        assert IntegerWeightedMeasure((replace(only, weights=weights),), 1).max_row_effect == 2
    assert IntegerWeightedMeasure((only, only, only), 1).max_row_effect == 3
    signed = tuple(_times(each, 1 - 4 * place) for place, each in enumerate(only.weights))
    assert (
        IntegerWeightedMeasure((replace(only, weights=signed),), 1).max_row_effect == 4
    )  # +1 in one group, −3 in another


def _times(weights: AmountBounds, factor: float) -> AmountBounds:
    return AmountBounds(weights.low * factor, weights.high * factor)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rows_of_a_unit", [1, 3])
def test_one_unit_moves_weighed_totals_no_further_than_the_theorem_says(relation: str, rows_of_a_unit: int) -> None:
    """Every unit of a small world, exactly: signed weights, groups that share rows, a guess that is as near as it can
    be; and some unit moves a total as far as is allowed."""
    (only,) = asking(FACE, "SELECT sex = 'f', COUNT(*) FROM people WHERE smokes GROUP BY 1").parts
    shape = tuple(FACE.attributes[place].size for place in only.axes)
    cells, most = math.prod(shape), rows_of_a_unit
    units = [(), *itertools.combinations_with_replacement(range(cells), most), *((cell,) for cell in range(cells))]
    tables = [np.bincount(np.array(each, int), minlength=cells).reshape(shape) for each in units]
    draw, furthest = np.random.default_rng(3), 0.0
    for low in (0, -4):
        for shared, parts in itertools.product((0, 1), (1, 2)):  # a mean has two parts
            each = draw.integers(low, 8, (2, *shape)).astype(float)
            each[1] *= shared  # one group alone, or two that share rows
            weights = tuple(AmountBounds(one, one) for one in each)
            asked = IntegerWeightedMeasure(
                (replace(only, weights=weights), replace(only, weights=weights[::-1]))[:parts], 1
            )
            totals = np.array([asked.extract(each) for each in tables])
            base = totals[totals[:, 0].argmin()] if relation == "replace" else totals[0]
            for guess in (base, base + 1, base - asked.max_row_effect, base * 0):
                scores = np.array([worst_error_in_row_effects(each, guess, asked.max_row_effect) for each in totals])
                assert np.abs(scores - worst_error_in_row_effects(base, guess, asked.max_row_effect)).max() <= most
            moved = (totals - base) / asked.max_row_effect
            squares = 2 if relation == "replace" else 1
            assert np.abs(moved).max() <= most
            assert (moved**2).sum(1).max() <= squares * most**2
            furthest = max(furthest, float(np.abs(moved).max()))
    assert furthest == most


def test_weights_are_whole_or_decimals_of_few_digits() -> None:
    (only,) = quantities(FACE, "SELECT sex, COUNT(*) FROM people WHERE smokes AND age < 18 GROUP BY sex")
    found = {
        factor: with_integer_weights([replace(only, weights=tuple(_times(each, factor) for each in only.weights))])
        for factor in (1, 7, 0.1, 0.25, 123.456, 1e-6, 1 / 3, 1e-7, 2.0**20, 2.0**20 - 1, 1.0e5 + 0.01)
    }
    scales = {factor: None if each is None else (each.scale, each.max_row_effect) for factor, each in found.items()}
    assert scales[1] == (1, 1)
    assert scales[7] == (1, 7)
    assert scales[0.1] == (10, 1)
    assert scales[0.25] == (100, 25)
    assert scales[123.456] == (1000, 123456)
    assert scales[1e-6] == (10**6, 1)
    assert scales[2.0**20 - 1] == (1, 2**20 - 1)
    assert scales[1 / 3] is scales[2.0**20] is scales[1.0e5 + 0.01] is None


def test_totals_of_the_largest_counts_and_weights_do_not_overflow() -> None:
    (only,) = asking(FACE, "SELECT sex, COUNT(*) FROM people WHERE smokes AND age < 18 GROUP BY sex").parts
    shape = tuple(FACE.attributes[place].size for place in only.axes)
    for factor in (2**20 - 1, 1 - 2**20):
        asked = IntegerWeightedMeasure(
            (replace(only, weights=tuple(_times(each, factor) for each in only.weights)),), 1
        )
        for count in (0, 1, 2**17 + 5, 2**36 - 1, 2**62 // math.prod(shape)):
            exact = int(only.sum_by_group(np.ones(shape, np.int64))[0]) * factor * count
            held = max(-(2**60), min(2**60, exact))
            assert asked.extract(np.full(shape, count, np.int64)).tolist()[0] == held


def test_noise_on_a_finer_grid_leaks_as_much() -> None:
    batch, _ = read(rows(1), True, "add-remove")
    moved = Marginal(batch.reading, 0).sensitivity
    for reach in (1, 3, 250):
        finer = batch.noise_for(reach).curve(_scaled(moved, reach))
        plain = batch.noise.curve(moved)
        assert finer.rho() == pytest.approx(plain.rho(), rel=1e-9)
        assert finer.epsilon("1e-9") <= plain.epsilon("1e-9") * (1 + 1e-6)


def _scaled(moved: Any, reach: int) -> sf.Sensitivity:
    return sf.Sensitivity(moved.groups, moved.per_group * reach, neighbours=moved.neighbours)


# ── sessions of a curator ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("units", [True, False])
def test_all_is_charged_at_the_opening_and_nothing_by_a_question(tmp_path: Path, relation: str, units: bool) -> None:
    with curator(tmp_path, rows(1, 50), relation=relation, units=units) as own:
        proposal = own.online("people", COLUMNS, ways=2, rounds=2)
        proposal.explain(**PRICE)
        assert proposal.error(**PRICE) > 0
        before = own.budget
        with proposal.release(**PRICE) as session:
            spent, lines = own.budget, len(list(own.history()))
            assert spent != before
            for question in (*QUESTIONS, INSIDE):
                session.sql(question)
            assert own.budget == spent
            assert len(list(own.history())) == lines
        (line,) = (each for each in own.history() if each.parts and "above-threshold" in each.parts)
        parts = spending.read_parts(line.parts)
        gates = [each for each in parts if isinstance(each.mechanism, AboveThreshold)]  # type: ignore[union-attr]
        assert [each.times for each in gates] == [2]  # type: ignore[union-attr]
        assert parts[-1].times == 2  # type: ignore[union-attr]
        assert spending.compose_parts(parts).epsilon("1e-9") <= 1
        assert spending.compose_parts(parts).epsilon("1e-9") > 0.7


def test_every_number_says_what_it_rests_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, rows(1, 50)) as session:
        assert session.sql(INSIDE).basis == {"n": ("measured",) * 2}
        said = {False: "hypothesis", True: "bought now"}
        for above in (False, True, False, True):
            monkeypatch.setattr(Session, "ask", lambda _self, _value, above=above: above)
            answer = session.sql(OUTSIDE, strict=True)
            assert answer.basis == {"n": (said[above],) * 2}
            assert all(low <= each[1] + 0.5 and each[1] - 0.5 <= high for each, (low, high) in _ranges(answer))
        assert session.remaining == 0
        assert session.sql(OUTSIDE).basis == {"n": ("unverified",) * 2}
        assert session.sql(INSIDE, strict=True).basis == {"n": ("measured",) * 2}
        with pytest.raises(sf.Unsupported, match="all rounds of this session are used up"):
            session.sql(OUTSIDE, strict=True)
        average = session.sql("SELECT AVG(age) AS a FROM people WHERE smokes AND sex = 'f'")
        assert average.basis == {"a": ("bounded",)}
        assert "all rounds spent" in repr(session)


AGES: dict[str, Any] = {"age": {"values": list(range(10))}}
SUMS = (
    "SELECT sex, SUM(age) AS n FROM people WHERE smokes AND day IS NULL GROUP BY sex",
    "SELECT sex, AVG(age) AS n FROM people WHERE smokes AND day IS NULL GROUP BY sex",
    "SELECT sex, SUM(5 - age) AS n FROM people WHERE smokes AND day IS NULL GROUP BY sex",
    "SELECT sex, COUNT(*) AS k, SUM(age) AS n FROM people WHERE smokes AND day IS NULL GROUP BY sex",
    "SELECT sex, SUM(age) AS n FROM people WHERE smokes AND day IS NULL GROUP BY ROLLUP (sex)",
)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_sums_and_means_are_compared_and_bought_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relation: str
) -> None:
    """Whatever gates say, ranges hold the truth of a table in which every unit has one row."""
    found = [(who, *row[1:]) for who, row in enumerate(rows(2, 300))]
    with opened(tmp_path, found, rounds=40, relation=relation, **AGES) as session:
        for question in SUMS:
            for above in (False, True):
                monkeypatch.setattr(Session, "ask", lambda _self, _value, above=above: above)
                answer = session.sql(question, confidence="0.99999999", strict=True)
                assert answer.basis is not None
                assert {*answer.basis["n"]} == {"bought now" if above else "hypothesis"}
                assert not answer.warnings
                place = answer.columns.index("n")
                for row, reach in zip(answer.rows, answer.intervals["n"], strict=True):
                    truth, (low, high) = _truth(found, question, row[0]), reach or (0, 9)
                    if above:  # a gate that is told to say "close" proves nothing
                        assert low <= truth <= high
                    assert row[place] is None or low - 0.5 <= row[place] <= high + 0.5
        asked = with_integer_weights(quantities(session._face, SUMS[0]))
        assert asked is not None
        assert session._gate_step_size(asked) == 9 * float(session.synopsis.plan.unit_value)  # ages from 0 to 9
        before = session.remaining
        session.sql("SELECT SUM(age / 3.0) AS n FROM people WHERE smokes AND day IS NULL AND sex = 'f'")
        assert session.remaining == before  # thirds are no decimals: bounded, without a gate


def test_half_of_a_sum_is_bought_with_half_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of one decimal are compared as whole numbers, ten times as large, and so is their noise."""
    monkeypatch.setattr(Session, "ask", lambda *_: True)
    found = [(who, *row[1:]) for who, row in enumerate(rows(2, 60))]
    asked = "SELECT SUM({}) AS n FROM people WHERE smokes AND day IS NULL AND sex = 'f'"
    with opened(tmp_path, found, **AGES) as session:
        answers = [session.sql(asked.format(value), confidence="0.99999999") for value in ("age", "age * 0.5")]
    (low, high), (half_low, half_high) = (answer.intervals["n"][0] or (0, 0) for answer in answers)
    assert half_high - half_low == pytest.approx((high - low) / 2, rel=0.01)
    assert answers[1].rows[0][0] == pytest.approx((half_low + half_high) / 2)
    truth = _truth(found, asked, "f")
    assert low <= truth <= high
    assert half_low <= truth / 2 <= half_high
    assert half_high - half_low > 4  # noise of several rows, of up to 4.5 each


def _truth(found: list[Row], question: str, sex: str | None) -> float:
    values = [
        5 - age if "5 - age" in question else age
        for _, own, age, smokes, day in found
        if smokes and day is None and age in range(10) and own in ((sex,) if sex else ("f", "m"))
    ]
    return sum(values) / max(1, len(values)) if "AVG" in question else sum(values)


def _ranges(answer: sf.Answer) -> list[tuple[Any, Any]]:
    return list(zip(answer.rows, answer.intervals["n"], strict=True))


@pytest.mark.parametrize("textbook", [True, False])
@pytest.mark.parametrize("units", [True, False])
def test_an_empty_table_is_answered_like_any_other(tmp_path: Path, textbook: bool, units: bool) -> None:
    with opened(tmp_path, [], textbook=textbook, units=units) as session:
        for question in QUESTIONS:
            answer = session.sql(question)
            assert answer.basis is not None
        assert (session.sql(INSIDE).basis == {"n": ("measured",) * 2}) is not textbook


def test_a_question_that_is_stopped_ends_the_gates_and_says_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> bool:
        raise KeyboardInterrupt

    with opened(tmp_path, rows(1, 20)) as session:
        monkeypatch.setattr(Session, "ask", stopped)
        with pytest.raises(sf.SessionInterrupted):
            session.sql(OUTSIDE)
        assert session.remaining == 0
        assert session._gates._exact is None
        assert session.sql(OUTSIDE).basis == {"n": ("unverified",) * 2}


def test_secrets_stay_in_the_process_that_opened_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, rows(1, 20)) as session:
        for each in (session, session._gates):
            with pytest.raises(TypeError, match="secret"):
                pickle.dumps(each)
            with pytest.raises(TypeError, match="secret"):
                copy.copy(each)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert session.remaining == 0
        assert session.sql(OUTSIDE).basis == {"n": ("unverified",) * 2}


def test_what_cannot_be_opened_is_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    with curator(tmp_path, rows(1, 20)) as own:
        before = own.budget
        with pytest.raises(sf.InvalidParameter, match="price"):
            own.online("people", COLUMNS).release(epsilon=1)
        with pytest.raises(sf.InvalidParameter, match="rounds"):
            own.online("people", COLUMNS, rounds=0)
        with pytest.raises(sf.InvalidParameter, match="textbook"):
            own.online("people", COLUMNS, textbook=1)  # type: ignore[arg-type]
        with pytest.raises(sf.Unsupported, match="who identifies the unit of each row"):
            own.online("people", [*COLUMNS, "who"])
        assert own.budget == before


def test_a_table_of_too_many_cells_is_refused(tmp_path: Path) -> None:
    wide = {
        "sex": {"values": [f"{each}" for each in range(300)]},
        "age": {"type": "integer", "bounds": [0, 400], "bins": 400},
        "day": {"type": "date", "bounds": ["2024-01-01", "2024-04-10"], "bins": "day"},
    }
    with curator(tmp_path, [], **wide) as own, pytest.raises(sf.Unsupported, match="at most 10,000,000 cells"):
        own.online("people", COLUMNS, ways=1)


def test_what_is_bought_has_noise() -> None:
    asked = asking(FACE, THREE)
    truth = asked.extract(sum_marginal_to(WHOLE, tuple(range(6)), asked.axes))
    bought = [GatedCounts(small(1), WHOLE).ask(asked, truth + 10**6) for _ in range(8)]
    errors = np.concatenate([each - truth for each in bought if each is not None])
    assert len(errors) == 64
    assert 1 < errors.std() < 10  # a deviation of 4


def test_gates_share_the_chance_to_miss_with_all_that_holds_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where k numbers hold together each misses with β/k: of k gates every one draws noise of its own."""
    monkeypatch.setattr(GatedCounts, "ask", lambda *_: None)
    monkeypatch.setattr(
        "sfumato.curator.proposals.online._interval_function",
        lambda _: lambda *_: (np.array(-np.inf), np.array(np.inf)),
    )

    def filtered(ages: str) -> str:
        return f"COUNT(*) FILTER (WHERE age {ages} AND smokes AND sex = 'f')"

    with opened(tmp_path, rows(1)) as session:

        def width(outputs: str, confidence: str, after: str = "") -> float:
            found = session.sql(f"SELECT {outputs} FROM people{after}", confidence=confidence)
            assert found.basis["a"] == ("hypothesis",)
            return max(high - low for low, high in found.intervals["a"])

        alone = {sure: width(f"{filtered('< 3')} AS a", sure) for sure in ("0.95", "0.99")}
        batch, unit_value = session._batch, float(session.synopsis.plan.unit_value)
        for sure, total in alone.items():  # the gate has half of β; a guess is compared in whole steps, one more
            bound = close_score_bound(batch.gate, batch.rounds, (1 - float(sure)) / 2)
            assert total == pytest.approx(2 * (bound + 1) * unit_value)
        named = {"a": "< 3", "b": "< 5", "c": ">= 3", "d": ">= 5"}
        several = ", ".join(f"{filtered(ages)} AS {name}" for name, ages in named.items())
        assert width(several, "0.95") == alone["0.95"]  # each by itself
        assert width(several, "0.96", " ORDER BY a LIMIT 1") >= alone["0.99"]
        assert width(f"{filtered('< 3')} - {filtered('< 5')} AS a", "0.98") >= 2 * alone["0.99"]
        beside = session.sql("SELECT COUNT(*) AS n FROM people", confidence="0.99").intervals["n"][0]
        assert width(f"{filtered('< 3')} - COUNT(*) AS a", "0.98") >= alone["0.99"] + beside[1] - beside[0]


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_right_hypothesis_is_above_as_seldom_as_a_gate_promises(most: int, neighbours: Neighbours) -> None:
    """With a score of 0, "above" needs ν − ξ ≥ T: T is the sum of the least widths that each noise exceeds as seldom as
    a false alarm may be.
    """
    gate = build_gate(Fraction(1, 2), most, neighbours)
    assert (gate.positives, gate.monotone, gate.sensitivity, gate.neighbours) == (1, False, most, neighbours)
    first, second, _ = gate.scales
    far = [laplace.half_width(each, FALSE_ALARM) for each in (first, second)]
    assert gate.threshold == sum(far)
    for scale, reach in zip((first, second), far, strict=True):  # 2q^(w+1)/(1+q) is P(|Z| > w)
        q = math.exp(-1 / float(scale))
        beyond = [2 * q ** (width + 1) / (1 + q) for width in (reach, reach - 1)]
        assert beyond[0] <= FALSE_ALARM < beyond[1]


def test_the_total_is_fixed_only_where_every_row_is_a_unit_and_all_count() -> None:
    """Replacing a unit then leaves the number of rows as it is; else it may move the total, which is charged for."""
    found = {}
    for units, where in itertools.product((False, True), (None, "sex = 'f'")):
        policy = policy_of(rows(1), units=units, relation="replace")
        with closing(DuckDB(policy)) as engine:
            context = Context(policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
            asked = propose_marginals(context, engine.catalog(), "people", 1, columns=["sex"], where=where)
            plan = asked._base_plan(False)
            total = next(each for each in plan.blocks if not each.block)
            found[units, where is None] = (plan.fixed_total, plan.sensitivity(total).total > 0)
            assert has_fixed_total(asked._bounded_plan(0)) is plan.fixed_total
    free, charged_for = (True, False), (False, True)
    assert found == {
        (False, True): free,
        (False, False): charged_for,
        (True, True): charged_for,
        (True, False): charged_for,
    }
