"""Estimates equal least squares by the pseudo-inverse, and their intervals hold for the real sampler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.recorded import seeded
from publish.worlds import SIZES, attributes, average, leveled, rounded, subsets, summing
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.publish.marginals import blocks
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import AttributeSet, block_coefficients
from sfumato.publish.marginals.estimating import BlockEstimates, MeasuredBlock, MeasuredMarginal, least_squares
from sfumato.publish.marginals.planning import MarginalWorkload, NoisePlan, plan_gaussian, plan_laplace

RNG = np.random.default_rng(7)
DRAWS, QUERIES, BETA = 2_000, 200, 0.05


def sizes_of(own: Attributes) -> tuple[int, ...]:
    return tuple(each.size for each in own)


def marginal(table: np.ndarray, places: AttributeSet) -> np.ndarray:
    return blocks.sum_marginal_to(table, tuple(range(table.ndim)), places)


def measured(plan: NoisePlan, table: np.ndarray, noisy: bool) -> list[MeasuredBlock]:
    found = []
    for each in plan.blocks:
        counts = marginal(table, blocks.block_attribute_indices(each.block)) * int(1 / plan.unit_value)
        exact = blocks.scaled_residual(counts, each.block, plan.attributes, each.grid)
        values = Gaussian(each.deviation).apply(exact) if noisy else exact
        found.append(MeasuredBlock(each.block, np.asarray(values), each.deviation, each.grid, plan.unit_value))
    return found


@pytest.mark.parametrize("own", [*map(attributes, SIZES), leveled(), (rounded(), *attributes((2,)))])
@pytest.mark.parametrize("unit_value", [1, Fraction(1, 16)])
def test_without_noise_every_marginal_comes_back(own: Attributes, unit_value: Fraction) -> None:
    table = RNG.integers(0, 1000, sizes_of(own))
    plan = plan_gaussian(MarginalWorkload.ways(len(own), len(own)), own, unit_value=unit_value)
    found = least_squares(own, measured(plan, table, noisy=False))
    for places in subsets(range(len(own))):
        values, variances = found.marginal_and_variances(places)
        exact = marginal(table, places)
        assert values == pytest.approx(exact, abs=1e-6)
        assert variances.shape == values.shape
        assert variances == pytest.approx(plan.cell_variances(places))
        query = RNG.normal(size=values.shape)
        value, variance = found.linear_estimate_and_variance(query, places)
        assert value == pytest.approx(float((query * exact).sum()), abs=1e-6)
        assert variance == pytest.approx(plan.query_variance(query, places))


def test_marginals_measured_whole_equal_the_vector() -> None:
    own = attributes((2, 3, 4))
    precisions = {(0, 1): "0.7", (1, 2): "0.2", (0, 2): "1.3"}
    whole = [
        MeasuredMarginal(each, np.zeros([own[p].size for p in each], np.int64), Fraction(math.sqrt(1 / Fraction(v))))
        for each, v in precisions.items()
    ]
    found = least_squares(own, (), whole)
    assert found.marginal_and_variances((0, 1))[1].max() == pytest.approx(1.0862563440, rel=1e-9)
    assert found.marginal_and_variances((1, 2))[1].max() == pytest.approx(2.7439199148, rel=1e-9)
    assert found.marginal_and_variances((0, 2))[1].max() == pytest.approx(0.6588764961, rel=1e-9)
    assert found.marginal_and_variances(())[1] == pytest.approx(3.3802816901, rel=1e-9)


@pytest.mark.parametrize("sizes", SIZES)
def test_any_measurements_are_combined_as_the_pseudo_inverse_does(sizes: tuple[int, ...]) -> None:
    """Marginals whole and blocks together, some twice: estimates and variances of random queries to 1e-10."""
    own = attributes(sizes)
    cells = math.prod(sizes)
    sets = [each for each in subsets(range(len(sizes))) if 1 <= len(each) <= 2]
    whole, rows, values, weights = [], [], [], []
    for index, places in enumerate([*sets, sets[-1]]):
        shape = [sizes[place] for place in places]
        whole.append(MeasuredMarginal(places, RNG.integers(-50, 500, shape), Fraction(3 + index, 2)))
        rows.append(summing(sizes, places))
        values.append(whole[-1].values.reshape(-1))
        weights.append(np.full(math.prod(shape), 1 / whole[-1].variance))
    own_blocks = []
    for block in [*blocks.blocks_within(tuple(range(len(sizes))), own)][:5]:
        shape = blocks.block_shape(block, own)
        own_blocks.append(MeasuredBlock(block, RNG.integers(-5000, 5000, shape), Fraction(4100), 2))
        projection = average(sizes, blocks.block_attribute_indices(block)) @ summing(
            sizes, blocks.block_attribute_indices(block)
        )
        rows.append(projection)
        values.append(own_blocks[-1].values.reshape(-1) / (2 * blocks.block_scale(block, own)))
        weights.append(np.full(math.prod(shape), 1 / own_blocks[-1].variance(own)))
    stacked, seen, trust = np.vstack(rows), np.concatenate(values), np.concatenate(weights)
    covariance = np.linalg.pinv(stacked.T @ (trust[:, None] * stacked), hermitian=True)
    solution = covariance @ (stacked.T @ (trust * seen))
    found = least_squares(own, own_blocks, whole)
    for places in sets:
        query = RNG.normal(size=[sizes[place] for place in places])
        full = query.reshape(-1) @ summing(sizes, places)
        value, variance = found.linear_estimate_and_variance(query, places)
        assert value == pytest.approx(full @ solution, rel=1e-9, abs=1e-9)
        assert variance == pytest.approx(full @ covariance @ full, rel=1e-9)
    assert stacked.shape[1] == cells


def test_two_measurements_of_one_block_are_weighed_by_precision() -> None:
    own = leveled()
    block = ((1, 3), (2, 1))
    shape = blocks.block_shape(block, own)
    one = MeasuredBlock(block, RNG.integers(-99, 99, shape), Fraction(5000), 3)
    other = MeasuredBlock(block, RNG.integers(-99, 99, shape), Fraction(9000), 1)
    both = least_squares(own, [one, other])
    trust = [1 / one.variance(own), 1 / other.variance(own)]
    assert both.variances[block] == pytest.approx(1 / sum(trust))
    expected = (trust[0] * one.differences(own) + trust[1] * other.differences(own)) / sum(trust)
    assert both.parts[block] == pytest.approx(expected)


@pytest.mark.parametrize("own", [leveled()[1:3], (rounded(), *attributes((2,)))])
def test_variances_are_those_of_the_noise_under_uneven_levels(own: Attributes) -> None:
    """The variance of every query is the exact quadratic form of the matrix that makes the estimate from y."""
    plan = plan_gaussian(MarginalWorkload(((0, 1),)), own)
    query = RNG.normal(size=sizes_of(own))
    exact = 0.0
    for each in plan.blocks:
        shape = blocks.block_shape(each.block, own)
        coefficients = []
        for cell in np.ndindex(*shape):
            values = np.zeros(shape, np.int64)
            values[cell] = 1
            zero = {one.block: MeasuredBlock(one.block, np.zeros(blocks.block_shape(one.block, own), np.int64),
                                             one.deviation, one.grid) for one in plan.blocks}  # fmt: skip
            zero[each.block] = MeasuredBlock(each.block, values, each.deviation, each.grid)
            coefficients.append(least_squares(own, zero.values()).linear_estimate_and_variance(query, (0, 1))[0])
        exact += float(each.deviation) ** 2 * float(np.square(coefficients).sum())
    assert plan.query_variance(query, (0, 1)) == pytest.approx(exact, rel=1e-9)


def missed(
    found: BlockEstimates, truth: np.ndarray, estimate: Callable[[np.ndarray, AttributeSet], np.ndarray]
) -> float:
    """The part of draws × queries whose error is beyond the half-width; ``estimate`` gives all draws of one query."""
    sets, parts = [(0, 1), (0, 2), (1, 2)], []
    for index in range(QUERIES):
        places = sets[index % 3]
        query = (RNG.random([truth.shape[place] for place in places]) < 0.5).astype(float)
        query.reshape(-1)[0] = 1
        exact = float((query * marginal(truth, places)).sum())
        values = estimate(query, places)
        assert values[0] == pytest.approx(found.linear_estimate_and_variance(query, places)[0])
        parts.append(float((np.abs(values - exact) > found.half_width(query, places, BETA)).mean()))
    return sum(parts) / QUERIES


@seeded(1)
def test_planned_intervals_hold_for_the_real_sampler() -> None:
    """Each block is drawn for all releases at once; a release's estimate is linear in what was drawn."""
    own = attributes((2, 3, 4))
    table = RNG.integers(0, 30, (2, 3, 4))
    plan = plan_gaussian(MarginalWorkload.ways(3, 2), own)
    drawn, first = {}, []
    for each in plan.blocks:
        counts = marginal(table, blocks.block_attribute_indices(each.block))
        exact = blocks.scaled_residual(counts, each.block, own, each.grid)
        values = Gaussian(each.deviation).apply(np.broadcast_to(exact, (DRAWS, *exact.shape)).copy())
        drawn[each.block] = values.reshape(DRAWS, -1) / (each.grid * blocks.block_scale(each.block, own))
        first.append(MeasuredBlock(each.block, values[0], each.deviation, each.grid))

    def estimate(query: np.ndarray, places: AttributeSet) -> np.ndarray:
        return sum(drawn[block] @ each.reshape(-1) for block, each in block_coefficients(query, places, own).items())

    outside = missed(least_squares(own, first), table, estimate)
    assert outside <= BETA + 4 * math.sqrt(BETA * (1 - BETA) / DRAWS)
    assert outside >= 0.04


@seeded(2)
def test_laplace_intervals_hold_for_the_real_sampler() -> None:
    own = attributes((2, 3, 4))
    plan = plan_laplace(MarginalWorkload.ways(3, 2), own, epsilon="0.5")
    table = RNG.integers(0, 30, (2, 3, 4))
    drawn = [Laplace(p.scale).apply(np.stack([marginal(table, p.attribute_set)] * DRAWS)) for p in plan.marginals]
    pairs = list(zip(plan.marginals, drawn, strict=True))
    first = least_squares(own, (), [MeasuredMarginal(p.attribute_set, v[0], p.scale, laplace=True) for p, v in pairs])

    def estimate(query: np.ndarray, places: AttributeSet) -> np.ndarray:
        noises = [first._noise_coefficients(query, places, each).reshape(-1) for each in first.laplace_marginals]
        return sum(v.reshape(DRAWS, -1) @ noise for v, noise in zip(drawn, noises, strict=True))

    assert missed(first, table, estimate) <= BETA + 4 * math.sqrt(BETA * (1 - BETA) / DRAWS)
    cells = [first.half_width(one, (0, 1), BETA) for one in np.eye(6).reshape(6, 2, 3)]
    assert cells == pytest.approx([cells[0]] * 6)


def test_laplace_coefficients_give_the_variance() -> None:
    own = attributes((2, 3, 4))
    whole = [MeasuredMarginal(each, RNG.integers(0, 9, [own[p].size for p in each]), Fraction(3 + i), laplace=True)
             for i, each in enumerate(itertools.combinations(range(3), 2))]  # fmt: skip
    found = least_squares(own, (), whole)
    query = RNG.normal(size=(2, 3))
    value, variance = found.linear_estimate_and_variance(query, (0, 1))
    coefficients = [found._noise_coefficients(query, (0, 1), each) for each in whole]
    assert value == pytest.approx(sum(float((c * m.values).sum()) for c, m in zip(coefficients, whole, strict=True)))
    assert variance == pytest.approx(
        sum(float((c**2).sum()) * m.variance for c, m in zip(coefficients, whole, strict=True))
    )


def test_few_steps_are_bounded_by_moments() -> None:
    own = attributes((2, 3))
    shape = np.zeros((2, 3), np.int64)
    coarse = least_squares(own, (), [MeasuredMarginal((0, 1), shape, Fraction(1))])
    fine = least_squares(own, (), [MeasuredMarginal((0, 1), shape, Fraction(4096))])
    assert coarse.half_width(np.ones((2, 3)), (0, 1), BETA) == pytest.approx(math.sqrt(12 * math.log(40)))
    assert fine.half_width(np.ones((2, 3)), (0, 1), BETA) == pytest.approx(4096 * math.sqrt(6) * 1.9637637)


def test_adaptive_intervals_add_their_blocks() -> None:
    own = attributes((2, 3))
    found = least_squares(own, (), [MeasuredMarginal((0, 1), np.zeros((2, 3), np.int64), Fraction(10))])
    naive, honest = (found.half_width(np.ones((2, 3)), (0, 1), BETA),
                     found.adaptive_half_width(np.ones((2, 3)), (0, 1), BETA, 0.01))  # fmt: skip
    assert honest > naive


def test_a_marginal_of_millions_of_cells_is_made_at_once() -> None:
    own = attributes((100, 100, 100))
    plan = plan_gaussian(MarginalWorkload(((0, 1, 2),)), own)
    table = RNG.integers(0, 5, (100, 100, 100))
    values, variances = least_squares(own, measured(plan, table, noisy=False)).marginal_and_variances((0, 1, 2))
    assert np.abs(values - table).max() < 1e-6
    assert variances.strides == (0, 0, 0)


def test_what_was_not_measured_is_refused() -> None:
    own = attributes((2, 3, 4))
    found = least_squares(own, (), [MeasuredMarginal((0, 1), np.zeros((2, 3), np.int64), Fraction(1))])
    assert found.covers((1,))
    assert not found.covers((2,))
    for places in ((2,), (0, 2), (1, 0), (7,)):
        with pytest.raises(InvalidParameter):
            found.marginal_and_variances(places)
    with pytest.raises(InvalidParameter):
        found.linear_estimate_and_variance(np.zeros((3, 2)), (0, 1))
    with pytest.raises(InvalidParameter):
        least_squares(own, [MeasuredBlock(((0, 1),), np.zeros(3, np.int64), Fraction(1))])
    with pytest.raises(InvalidParameter):
        least_squares(own, (), [MeasuredMarginal((0, 1), np.zeros((3, 2), np.int64), Fraction(1))])
    with pytest.raises(InvalidParameter):
        least_squares(
            leveled(),
            [MeasuredBlock(((1, 1),), np.zeros(3, np.int64), Fraction(1))],
            [MeasuredMarginal((1,), np.zeros(8, np.int64), Fraction(1))],
        )


@pytest.mark.parametrize("laplace", [False, True])
def test_noise_that_is_next_to_nothing_can_still_be_weighed(laplace: bool) -> None:
    """A price may be so large that the square of a deviation, or a hyperbolic sine, is beyond what a float can hold."""
    one = MeasuredMarginal((0,), np.array([3, 4]), Fraction(1, 10**200), laplace)
    assert 0 < one.variance <= 1e-12
    found = least_squares(attributes((2,)), [], [one])
    assert found.marginal_and_variances((0,))[0] == pytest.approx([3, 4])
