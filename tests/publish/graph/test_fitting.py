"""A fitted model is the best one: its slopes say so, and a search over whole tables finds no other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from publish.graph.worlds import added_up, joint, sizes_and_sets
from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.publish.graph import fitting
from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.graph.models import GraphicalModel, Potential

SIZES = (3, 4, 5, 2)
SETS = ((0, 1), (1, 2), (2, 3), (0,), (3,), (3, 0))
TOTAL = 1000.0


def observed(
    sizes: Sequence[int] = SIZES, sets: Sequence[Sequence[int]] = SETS, deviation: float = 5.0, seed: int = 0
) -> list[Observation]:
    draw = np.random.default_rng(seed)
    truth = draw.dirichlet(np.full(math.prod(sizes), 0.3)).reshape(sizes) * TOTAL
    return [
        Observation(tuple(each), counts + draw.normal(size=counts.shape) * deviation, deviation * (1 + index % 3))
        for index, each in enumerate(sets)
        for counts in [added_up(truth, each)]
    ]


def loss(counts: Floats, observations: Sequence[Observation]) -> float:
    return sum(
        float(np.square(added_up(counts, each.attribute_set) - each.values).sum()) / (2 * each.deviation**2)
        for each in observations
    )


def slopes(counts: Floats, observations: Sequence[Observation]) -> Floats:
    """How the loss changes with each number of the whole table."""
    found = np.zeros(counts.shape)
    for each in observations:
        own = ((added_up(counts, each.attribute_set) - each.values) / each.deviation**2).transpose(
            np.argsort(each.attribute_set)
        )
        found = found + own.reshape([size if at in each.attribute_set else 1 for at, size in enumerate(counts.shape)])
    return found


def gap(counts: Floats, observations: Sequence[Observation], possible: object = True) -> float:
    """By how much the loss is at most above the least one, as it is convex (Frank & Wolfe 1956)."""
    own = slopes(counts, observations)
    return float((own * counts).sum() - counts.sum() * own[np.broadcast_to(possible, own.shape)].min())


def test_no_table_is_better_than_the_fitted_one() -> None:
    observations = observed()
    model = fit_model(observations, SIZES, TOTAL, tolerance=1e-12, max_rounds=20_000)
    assert gap(joint(model), observations) <= 1e-3 * loss(joint(model), observations)


@settings(max_examples=4)
@given(sizes_and_sets(5, 3), st.integers(0, 1000))
def test_no_table_is_better_whatever_is_observed(
    world: tuple[tuple[int, ...], list[tuple[int, ...]]], seed: int
) -> None:
    sizes, sets = world
    observations = observed(sizes, sets, 20.0, seed)
    whole = joint(fit_model(observations, sizes, TOTAL, tolerance=1e-9, max_rounds=5000))
    assert whole.sum() == pytest.approx(TOTAL)
    assert gap(whole, observations) <= 0.02 * loss(whole, observations) + 0.05


def test_the_first_step_follows_the_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The potentials are moved by −η times what finite differences of the loss give."""
    monkeypatch.setattr(fitting, "_FIRST_STEP", 1.0)
    observations = observed()
    even_potentials = [Potential(each, np.zeros([SIZES[at] for at in each])) for each in SETS]
    start = GraphicalModel.from_potentials(SIZES, even_potentials, TOTAL)
    model = fit_model(observations, SIZES, TOTAL, start=start, max_rounds=1)
    moved = np.log(joint(model)) - np.log(joint(start))
    even, differences = joint(start), np.zeros(SIZES)
    for cell in np.ndindex(*SIZES):
        shift = np.zeros(SIZES)
        shift[cell] = 1e-3
        differences[cell] = (loss(even + shift, observations) - loss(even - shift, observations)) / 2e-3
    np.testing.assert_allclose(differences, slopes(even, observations), rtol=1e-6, atol=1e-7)
    ratios = (moved - moved.mean()) / (differences - differences.mean())
    assert ratios.max() < 0
    np.testing.assert_allclose(ratios, ratios.mean(), rtol=1e-5)


def test_what_fits_is_met() -> None:
    """Marginals of one model without noise are given back, and with them every other marginal of that model."""
    draw = np.random.default_rng(3)
    truth = GraphicalModel.from_potentials(
        SIZES, [Potential(each, draw.normal(size=[SIZES[at] for at in each])) for each in SETS[:3]], TOTAL
    )
    observations = [Observation(each, truth.marginal(each), 1.0) for each in SETS[:3]]
    model = fit_model(observations, SIZES, TOTAL, tolerance=1e-9, max_rounds=2_500)
    np.testing.assert_allclose(joint(model), joint(truth), rtol=1e-4, atol=1e-3)


def test_what_nothing_was_observed_of_is_even() -> None:
    model = fit_model(observed(sets=[(0, 1)]), SIZES, TOTAL)
    np.testing.assert_allclose(model.marginal((2, 3)), np.full((5, 2), TOTAL / 10), rtol=1e-10)
    np.testing.assert_allclose(fit_model([], SIZES, TOTAL).marginal((1,)), np.full(4, TOTAL / 4), rtol=1e-12)


def test_observations_of_one_set_count_by_their_precision() -> None:
    exact, rough = np.array([700.0, 200.0, 100.0]), np.array([100.0, 200.0, 700.0])
    both = [Observation((0,), exact, 1.0), Observation((0,), rough, 3.0)]
    mean = (exact + rough / 9) / (1 + 1 / 9)
    found = fit_model(both, (3,), TOTAL, tolerance=1e-10)
    np.testing.assert_allclose(found.marginal((0,)), mean, rtol=1e-4)


def test_axes_of_an_observation_are_in_the_order_of_its_places() -> None:
    values = np.array([[100.0, 200.0, 300.0], [50.0, 150.0, 200.0]])
    one = fit_model([Observation((1, 0), values, 1.0)], (3, 2), TOTAL, tolerance=1e-10)
    np.testing.assert_allclose(one.marginal((1, 0)), values, rtol=1e-4)
    np.testing.assert_allclose(one.marginal((0, 1)), values.T, rtol=1e-4)


def test_impossible_cells_stay_exactly_zero_and_the_rest_is_best() -> None:
    impossible = np.zeros((4, 3), bool)
    impossible[1, 0] = impossible[2, 1] = True
    observations = observed()
    model = fit_model(observations, SIZES, TOTAL, zeros=[((1, 0), impossible)], tolerance=1e-12, max_rounds=20_000)
    whole = joint(model)
    assert (model.marginal((1, 0))[impossible] == 0).all()
    assert (model.marginal((3, 1, 0))[:, impossible] == 0).all()
    assert whole.sum() == pytest.approx(TOTAL)
    possible = ~impossible.T[:, :, None, None]
    assert gap(whole, observations, possible) <= 5e-3 * loss(whole, observations)


def test_zeros_need_no_observation_and_are_kept_by_what_starts_from_them() -> None:
    impossible = np.eye(3, dtype=bool)
    first = fit_model([], (3, 3), 9.0, zeros=[((0, 1), impossible)])
    np.testing.assert_allclose(first.marginal((0, 1)), np.where(impossible, 0, 1.5))
    later = fit_model([Observation((0,), np.array([5.0, 2, 2]), 1.0)], (3, 3), 9.0, start=first)
    assert (later.marginal((0, 1))[impossible] == 0).all()


@pytest.mark.parametrize(
    "zeros",
    [
        [((0, 1), np.ones((3, 4), bool))],
        [((0,), np.array([True, True, False])), ((0,), np.array([False, False, True]))],
        # 0 fixes 1, 1 fixes 2, and 2 does not go with 0
        [
            ((0, 1), np.arange(12).reshape(3, 4) > 0),
            ((1, 2), np.arange(20).reshape(4, 5) == 0),
            ((1, 2), np.arange(20).reshape(4, 5) > 1),
            ((2,), np.arange(5) == 1),
        ],
    ],
)
def test_zeros_that_leave_nothing_are_refused(zeros: list[tuple[tuple[int, ...], Floats]]) -> None:
    with pytest.raises(InvalidParameter, match="at least one cell possible"):
        fit_model([], SIZES, TOTAL, zeros=zeros)
    with pytest.raises(InvalidParameter, match="at least one cell possible"):
        fitting.require_some_possible_cell(zeros, SIZES)


def test_zeros_that_leave_something_are_accepted() -> None:
    zeros = [((0,), np.array([True, True, False]))]
    fitting.require_some_possible_cell(zeros, SIZES)
    whole = joint(fit_model([], SIZES, TOTAL, zeros=zeros))
    assert whole[:2].sum() == 0
    assert whole[2].sum() == pytest.approx(TOTAL)


@pytest.mark.parametrize("total", [0.0, -50.0, 1e-9, 1.0])
def test_a_total_below_one_row_is_one_row(total: float) -> None:
    model = fit_model(observed(), SIZES, total)
    assert model.total == 1
    assert joint(model).sum() == pytest.approx(1)
    assert np.isfinite(joint(model)).all()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6, 1e12])
def test_hostile_noise_neither_overflows_nor_stops_it(size: float) -> None:
    values = [np.full((3, 4), -size), np.full((4, 5), size), np.full(3, -size)]
    values[1][0, 0] = -50 * size
    sets = ((0, 1), (1, 2), (0,))
    observations = [Observation(at, own, dev) for at, own, dev in zip(sets, values, (1e-3, 1.0, 1e6), strict=True)]
    whole = joint(fit_model(observations, SIZES, TOTAL))
    assert np.isfinite(whole).all()
    assert whole.sum() == pytest.approx(TOTAL)


def test_a_start_on_a_smaller_tree_is_carried_over() -> None:
    observations = observed()
    small = fit_model(observations[:2], SIZES, TOTAL, tolerance=1e-6)
    predicted = [
        Observation(each.attribute_set, added_up(joint(small), each.attribute_set), 5.0) for each in observations
    ]
    same = fit_model(predicted, SIZES, TOTAL, start=small, max_rounds=0)
    assert same.tree != small.tree
    np.testing.assert_allclose(joint(same), joint(small), rtol=1e-10)
    cold = fit_model(observations, SIZES, TOTAL, tolerance=1e-12, max_rounds=20_000)
    warm = fit_model(observations, SIZES, TOTAL, start=small, tolerance=1e-12, max_rounds=20_000)
    np.testing.assert_allclose(loss(joint(warm), observations), loss(joint(cold), observations), rtol=1e-3)


def test_a_set_that_is_new_to_the_start_is_met_at_once_unless_it_is_noise() -> None:
    """Before any step: cells far above the noise have their counts, and a prediction within it hardly moves."""
    columns = [each for each in observed() if len(each.attribute_set) == 1]
    start = fit_model(columns, SIZES, TOTAL)
    (pair, *_) = observed(deviation=0.01)
    model = fit_model([*columns, pair], SIZES, TOTAL, start=start, max_rounds=0)
    np.testing.assert_allclose(model.marginal((0, 1)), pair.values, atol=0.1)
    noise = Observation((0, 1), start.marginal((0, 1))[::-1], 1e6)
    model = fit_model([*columns, noise], SIZES, TOTAL, start=start, max_rounds=0)
    np.testing.assert_allclose(joint(model), joint(start), rtol=1e-3)


def test_a_start_is_left_as_it_was() -> None:
    observations = observed()
    small = fit_model(observations[:2], SIZES, TOTAL)
    before = joint(small).copy()
    kept = small.marginal((0, 1)).copy()
    fit_model(observations, SIZES, TOTAL, start=small)
    np.testing.assert_array_equal(joint(small), before)
    np.testing.assert_array_equal(small.marginal((0, 1)), kept)


def test_a_smaller_tolerance_is_never_worse() -> None:
    observations = observed()
    models = (fit_model(observations, SIZES, TOTAL, tolerance=each) for each in (1e-1, 1e-3, 1e-6))
    found = [loss(joint(each), observations) for each in models]
    assert found == sorted(found, reverse=True)


def test_fitting_again_gives_the_same() -> None:
    one, other = (fit_model(observed(), SIZES, TOTAL) for _ in range(2))
    np.testing.assert_array_equal(joint(one), joint(other))


@pytest.mark.parametrize(
    "wrong",
    [
        Observation((0,), np.ones(4), 1.0),
        Observation((0, 1), np.ones((4, 3)), 1.0),
        Observation((0,), np.array([1.0, math.nan, 2.0]), 1.0),
        Observation((0,), np.ones(3), 0.0),
        Observation((0,), np.ones(3), -1.0),
        Observation((0,), np.ones(3), math.inf),
        Observation((0, 0), np.ones((3, 3)), 1.0),
        Observation((4,), np.ones(3), 1.0),
    ],
)
def test_observations_that_are_none_are_refused(wrong: Observation) -> None:
    with pytest.raises(InvalidParameter):
        fit_model([wrong], SIZES, TOTAL)


def test_zeros_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="zeros"):
        fit_model([], SIZES, TOTAL, zeros=[((0, 1), np.zeros((4, 3), bool))])


@pytest.mark.parametrize("total", [math.nan, math.inf])
def test_a_total_that_is_no_number_is_refused(total: float) -> None:
    with pytest.raises(InvalidParameter, match="total"):
        fit_model([], SIZES, total)
