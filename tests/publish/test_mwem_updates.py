"""Multiplicative weights: single updates worked out by hand, and what a model keeps of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from plan.readings.test_reading_edges import CELLS, two_keys
from refusals import assert_refused
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.plan.readings.dense_readings import Marginals, MarginalView
from sfumato.policy import Type
from sfumato.publish import mwem
from sfumato.publish.marginals.attributes import BARE, Attribute, ListedCell, OtherCell
from sfumato.publish.mwem import (
    CandidateCounts,
    CellView,
    FitRound,
    MwemFit,
    MwemModel,
    MwemRound,
    NoisyCounts,
    initial_model,
    replay_rounds,
)
from sfumato.release.prices import Price


def test_one_update_of_a_marginal_and_of_some_cells() -> None:
    weights = np.full((2, 3), 10.0)
    changed = mwem.update_weights(weights, 60.0, MwemRound(CellView((0,)), (50, -5)))
    factors = np.exp(np.array([50 - 30, 0 - 30]) / 120)  # counts are clipped to [0, n̂]
    expected = weights * factors[:, None]
    assert changed == pytest.approx(expected * 60 / expected.sum())
    above = mwem.update_weights(weights, 60.0, MwemRound(CellView((1,)), (500, 20, 20)))
    factors = np.exp(np.array([60 - 20, 0, 0]) / 120)
    expected = weights * factors
    assert above == pytest.approx(expected * 60 / expected.sum())
    some = mwem.update_weights(weights, 60.0, MwemRound(CellView((0, 1), (1, 5)), (44,)))
    expected = weights.copy()
    expected[0, 1] *= math.exp((44 - 20) / 120)
    expected[1, 2] *= math.exp((44 - 20) / 120)
    assert some == pytest.approx(expected * 60 / expected.sum())


def test_one_update_by_a_threshold() -> None:
    weights = np.full((2, 3), 10.0)
    found = MwemRound(CellView((0, 1), (0, 1)), (5,))
    assert mwem.threshold_update(weights, 60.0, found, 15.0, 0.25) is weights
    for measured, factor in ((4, 0.75), (36, 1.25)):
        changed = mwem.threshold_update(weights, 60.0, MwemRound(found.view, (measured,)), 15.0, 0.25)
        expected = weights.copy()
        expected[0, :2] *= factor
        assert changed == pytest.approx(expected * 60 / expected.sum())
    uneven = np.array([[5.0, 15.0, 10.0], [2.0, 8.0, 20.0]])
    column = mwem.threshold_update(uneven, 60.0, MwemRound(CellView((1,), (2,)), (10,)), 15.0, 0.25)
    expected = uneven * np.array([1, 1, 0.75])
    assert column == pytest.approx(expected * 60 / expected.sum())


def test_a_model_starts_evenly() -> None:
    model = MwemModel.uniform((2, 3), 60, 4)
    assert (model.weights.tolist(), model.total, model.measured) == ([[10.0] * 3] * 2, 60.0, 60)
    assert MwemModel.uniform((2,), -7, 4).weights.tolist() == [0.5, 0.5]
    assert MwemModel.uniform((2,), -7, 4).measured == -7
    assert MwemModel.uniform((2,), 1 << 70, 4).total == mwem._MAX_TOTAL
    assert MwemModel.uniform((2,), 5, 4, textbook=True).passes == 1


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_as_many_passes_as_updates_are_allowed(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rounds together update cells·rounds·(rounds + 1)/2 weights in each pass."""
    per_pass = 6 * rounds * (rounds + 1) // 2
    for allowed, passes in (
        (per_pass * 5, 5),
        (per_pass * 5 - 1, 4),
        (per_pass - 1, 1),
        (per_pass * 10**6, mwem._MAX_PASSES),
    ):
        monkeypatch.setattr(mwem, "_MAX_UPDATES", allowed)
        assert MwemModel.uniform((2, 3), 60, rounds).passes == passes


def test_what_a_model_keeps() -> None:
    first, second = MwemRound(CellView((0,)), (50, 10)), MwemRound(CellView((1,)), (30, 20, 10))
    textbook = replay_rounds(MwemModel.uniform((2, 3), 60, 2, textbook=True), [first, second])
    one = mwem.update_weights(np.full((2, 3), 10.0), 60.0, first)
    two = mwem.update_weights(one, 60.0, second)
    assert textbook.weights == pytest.approx(two)
    assert textbook.fitted_weights == pytest.approx((one + two) / 2)
    assert textbook.rounds == (first, second)
    model = MwemModel.uniform((2, 3), 60, 2)
    again = replay_rounds(MwemModel(model.weights, 60.0, 60, passes=2), [first, second])
    weights = model.weights
    for each in (first, first, first, second, first, second):
        weights = mwem.update_weights(weights, 60.0, each)
    assert again.fitted_weights == pytest.approx(weights)
    assert again.weights_sum is None
    assert again.predicted_counts(CellView((0,))).tolist() == np.rint(weights.sum(1)).tolist()


def test_a_model_with_a_threshold_answers_from_the_last_round_that_changed_nothing() -> None:
    start = initial_model((2, 3), 60, 4, textbook=False, threshold=Fraction(15))
    assert (start.threshold, start.learning_rate) == (15.0, math.sqrt(math.log(6) / 4))
    assert (start.total, start.measured, start.textbook, start.passes) == (60.0, 60, True, 1)
    cells = CellView((0, 1), (0, 1))
    moved = start.updated(MwemRound(cells, (50,)))
    rate = start.learning_rate
    expected = mwem.threshold_update(start.weights, 60.0, MwemRound(cells, (50,)), 15.0, rate)
    assert moved.weights.tolist() == expected.tolist() != start.weights.tolist()
    assert moved.rounds == (MwemRound(cells, (50,)),)
    assert moved.settled_weights is None
    assert moved.fitted_weights is moved.weights
    kept = moved.updated(MwemRound(cells, (round(float(moved.weights[0, :2].sum())),)))
    assert kept.settled_weights is moved.weights
    later = kept.updated(MwemRound(cells, (0,)))
    assert later.fitted_weights is moved.weights
    assert initial_model((2, 3), 60, 4, textbook=True, threshold=None).textbook
    assert initial_model((2, 3), 60, 4, textbook=False, threshold=None).threshold is None


def test_candidates_are_views_or_single_counts() -> None:
    reading = Marginals(two_keys(), CELLS, ((0, 1),))
    views = (MarginalView(reading, (0,)), MarginalView(reading, (1,), (0, 2)), MarginalView(reading, (1,)))
    whole, single = CandidateCounts(views), CandidateCounts(views, single_cells=True)
    assert (len(whole), len(single)) == (3, 3 + 1 + 4)
    assert [whole.view(index) for index in range(3)] == list(views)
    chosen = [single.view(index) for index in range(8)]
    assert [view.attribute_set for view in chosen] == [(0,)] * 3 + [(1,)] * 5
    assert [view.cells for view in chosen] == [(0,), (1,), (2,), (0, 2), (0,), (1,), (2,), (3,)]
    scores = single.scores(lambda view: np.zeros(view.size, np.int64))
    assert scores.per_count
    assert not whole.scores(lambda view: np.zeros(view.size, np.int64)).per_count


def wide_column(name: str, cells: int) -> Attribute:
    """A column of so many cells, all of which list the same value object."""
    attribute = Attribute(name, Type.INTEGER, (ListedCell(0), OtherCell()))
    object.__setattr__(attribute, "cells", (ListedCell(0),) * cells)
    return attribute


def fit(**changes: Any) -> MwemFit:
    """Two columns of two and three cells, both measured, one of them twice; a step is half a row."""
    sizes = {"a": 2, "b": 3}
    terms: dict[str, Any] = {
        "attributes": [
            Attribute(name, Type.INTEGER, (*map(ListedCell, range(size - 1)), OtherCell()))
            for name, size in sizes.items()
        ],
        "face": BARE,
        "table": "people",
        "where": "",
        "unit_value": "0.5",
        "sets": [[0, 1]],
        "rows": 60,
        "rows_noise": Gaussian(4),
        "choice": Exponential(1, 1),
        "noise": Gaussian(3),
        "rounds": [FitRound((0,), None, (50, 10)), FitRound((0, 1), (1, 4), (7,)), FitRound((0,), None, (40, 20))],
        "planned": 4,
        "textbook": False,
        "price": Price(1),
        "threshold": None,
    }
    return MwemFit(**(terms | changes))


def test_a_fit_is_exact_and_its_model_follows_from_it() -> None:
    found = fit(threshold="1.5")
    assert (found.unit_value, found.threshold, found.sets) == (Fraction(1, 2), Fraction(3, 2), ((0, 1),))
    assert type(found.attributes) is type(found.rounds) is tuple
    rounds = [MwemRound(CellView(each.attribute_set, each.cells), each.values) for each in found.rounds]
    assert fit().model.weights.tolist() == replay_rounds(MwemModel.uniform((2, 3), 60, 4), rounds).weights.tolist()
    assert fit(textbook=True).model.textbook
    single = FitRound((0, 1), (1, 4), (7,))
    notes = fit(threshold="1.5", rounds=[single]).model
    assert (notes.threshold, notes.learning_rate) == (1.5, math.sqrt(math.log(6) / 4))


def test_precisions_before_any_measurement_are_those_of_the_best_requested_set() -> None:
    """One over the variance in rows², (1/2)² for the number of rows; for a set 4/9 over the cells that are added up."""
    found = fit(sets=[[0, 1], [0]])
    by_block = found.estimates_from_measurements
    assert {len(measured) for measured in by_block.sets} == {1}
    blocks = sorted(by_block.estimates.parts, key=len)
    precisions = [found._prior_precision(block) for block in blocks]
    assert precisions == pytest.approx([1 / 4, 4 / 9])
    other = fit(sets=[[0, 1], [1]])  # the set that lacks the column measures nothing of it
    assert [other._prior_precision(block) for block in blocks] == pytest.approx([1 / 4, 4 / 9 / 3])
    uneven = fit(rows_noise=Gaussian([2, 4]), noise=Gaussian([1, 3]), sets=[[0, 1], [0]])
    assert [uneven._prior_precision(block) for block in blocks] == pytest.approx([1 / 4, 4 / 9])
    wide = fit(sets=[[0, 1]])
    assert [wide._prior_precision(block) for block in blocks] == pytest.approx([1 / 4, 4 / 9 / 3])


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"rows_noise": Laplace(4)}, "noise"),
        ({"noise": Laplace(4)}, "noise"),
        ({"choice": Gaussian(4)}, "choice"),
        ({"unit_value": 0}, "unit_value"),
        ({"threshold": 0}, "threshold"),
        ({"attributes": []}, "attributes"),
        ({"attributes": [wide_column("a", mwem.MAX_CELLS + 1)], "sets": [[0]], "rounds": []}, "attributes"),
        ({"rows": "60"}, "rows"),
        ({"rows_noise": Exponential(1, 1), "noise": Exponential(1, 1)}, "face"),
        ({"attributes": ["a"]}, "attributes"),
        ({"rounds": ["a"]}, "rounds"),
        ({"planned": 2}, "planned"),
        ({"planned": 1001}, "planned"),
        ({"rounds": [FitRound((0,), None, (1,))]}, "rounds"),
        ({"rounds": [FitRound((0,), None, (1, 2, 3))]}, "rounds"),
        ({"rounds": [FitRound((0,), (0,), (1, 2))]}, "rounds"),
        ({"rounds": [FitRound((0,), (), (1,))]}, "rounds"),
        ({"rounds": [FitRound((0,), (0, 2), (1,))]}, "rounds"),
        ({"rounds": [FitRound((0,), (-1, 0), (1,))]}, "rounds"),
        ({"rounds": [FitRound((0,), (1, 0), (1,))]}, "rounds"),
        ({"rounds": [FitRound((0,), (1, 1), (1,))]}, "rounds"),
    ],
)
def test_no_other_fit_is_read(changes: dict[str, Any], parameter: str) -> None:
    assert assert_refused(lambda: fit(**changes)).parameter == parameter


def test_the_ends_of_what_a_fit_may_be() -> None:
    assert fit(planned=3).planned == 3
    assert fit(planned=1000).planned == 1000
    most = wide_column("a", mwem.MAX_CELLS)
    assert fit(attributes=[most], sets=[[0]], rounds=[]).attributes == (most,)
    assert NoisyCounts([1, -2]).values == (1, -2)  # type: ignore[arg-type]
    for values in ((), (1, 2.0), (True,)):
        assert assert_refused(lambda values=values: NoisyCounts(values)).parameter == "values"  # type: ignore[misc]
    assert fit(rounds=[FitRound((0,), (0, 1), (1,))]).rounds[0].cells == (0, 1)
    for wrong in ({"attribute_set": "0"}, {"attribute_set": (0.5,)}, {"cells": (True,)}, {"values": None}):
        terms: dict[str, Any] = {"attribute_set": (0,), "cells": (0,), "values": (1,)}
        assert assert_refused(lambda terms=terms, wrong=wrong: FitRound(**(terms | wrong))).parameter == next(
            iter(wrong)
        )
    read = FitRound([0], [1], [2])  # type: ignore[arg-type]
    assert (read.attribute_set, read.cells, read.values) == ((0,), (1,), (2,))
