"""Consistent marginals are ≥ 0, agree, keep declared zeros, and are no farther from the truth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from publish.marginals.test_estimating import marginal, measured
from publish.worlds import attributes, leveled, subsets
from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Block
from sfumato.publish.marginals.estimating import BlockEstimates, MeasuredMarginal, least_squares, make_consistent
from sfumato.publish.marginals.planning import MarginalWorkload, plan_gaussian

RNG = np.random.default_rng(8)
PAIRS = ((0, 1), (0, 2), (1, 2))


def noisy(own: Attributes, table: np.ndarray, rho: str) -> tuple[BlockEstimates, BlockEstimates]:
    plan = plan_gaussian(MarginalWorkload(PAIRS), own, rho=rho)
    found, exact = (least_squares(own, measured(plan, table, noisy=each)) for each in (True, False))
    return found, exact


def distance(one: BlockEstimates, parts: dict[Block, Floats], other: BlockEstimates) -> float:
    return sum(float(((parts[b] - other.parts[b]) ** 2).sum()) / one.variances[b] for b in one.parts)


def noiseless(own: Attributes, table: np.ndarray) -> BlockEstimates:
    return least_squares(own, measured(plan_gaussian(MarginalWorkload(PAIRS), own), table, noisy=False))


def inner(found: BlockEstimates, parts: dict[Block, Floats], other: BlockEstimates) -> float:
    """⟨r̂ − r, x − r⟩ in the metric: at the nearest r it is ≤ 0 for every x that a table could have."""
    return sum(
        float(((found.parts[b] - parts[b]) * (other.parts[b] - parts[b])).sum()) / found.variances[b]
        for b in found.parts
    )


@pytest.mark.parametrize("own", [attributes((2, 3, 4)), attributes((5, 1, 4)), leveled()[:3]])
def test_projections_are_what_a_table_could_have(own: Attributes) -> None:
    table = RNG.integers(0, 3, [each.size for each in own]) * RNG.integers(0, 2, [each.size for each in own])
    zeros = {(0, 1): marginal(table, (0, 1)) == 0, (2,): np.zeros(own[2].size, bool)}
    found, exact = noisy(own, table, "0.05")
    assert min(found.marginal_and_variances(each)[0].min() for each in PAIRS) < 0
    projected = make_consistent(found, PAIRS, zeros)
    total = projected.marginal(()).item()
    assert projected.largest_shortfall <= 1e-6 * max(1, total)
    for places in subsets(range(3))[:-1]:
        values = projected.marginal(places)
        assert (values >= 0).all()
        for axis in range(len(places)):
            smaller = places[:axis] + places[axis + 1 :]
            assert values.sum(axis) == pytest.approx(projected.marginal(smaller), abs=1e-4 * max(1, total))
    assert not projected.marginal((0, 1))[zeros[(0, 1)]].any()
    before = distance(found, dict(found.parts), exact)
    after = distance(found, dict(projected.estimates.parts), exact)
    assert after <= before * (1 + 1e-6)
    for other in (exact, *(noiseless(own, RNG.integers(0, 9, table.shape) * (table > 0)) for _ in range(20))):
        assert inner(found, dict(projected.estimates.parts), other) <= 1e-3 * (1 + before)


def test_the_projection_is_the_nearest() -> None:
    """One attribute with equal precisions everywhere is a projection onto ≥ 0 cell by cell, which is known."""
    own = attributes((6,))
    values = np.array([40, -7, 3, -2, 0, 12])
    found = least_squares(own, (), [MeasuredMarginal((0,), values, Fraction(5))])
    assert make_consistent(found, [(0,)]).marginal((0,)) == pytest.approx(np.maximum(values, 0), abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_projection_is_orthogonal_to_what_it_takes_away(seed: int) -> None:
    """What a table could have is a cone, so ⟨r̂ − r, r⟩ = 0 at the nearest r (Moreau), and at no other on the way."""
    own, rng = attributes((9, 7, 8)), np.random.default_rng(seed)
    table = rng.integers(0, 20, (9, 7, 8))
    noisy_pairs = [
        (each, marginal(table, each) + np.rint(rng.normal(0, size, [own[p].size for p in each])).astype(np.int64), size)
        for each, size in zip(PAIRS, (60, 40, 20), strict=True)
    ]
    found = least_squares(own, (), [MeasuredMarginal(each, values, Fraction(s)) for each, values, s in noisy_pairs])
    parts = make_consistent(found, PAIRS).estimates.parts
    taken = {b: found.parts[b] - parts[b] for b in parts}
    moved = sum(float((taken[b] ** 2).sum()) / found.variances[b] for b in parts)
    along = sum(float((taken[b] * parts[b]).sum()) / found.variances[b] for b in parts)
    assert moved > 1
    assert abs(along) <= 2e-6 * (1 + moved)


def test_what_is_consistent_stays() -> None:
    own = attributes((2, 3, 4))
    table = RNG.integers(1, 30, (2, 3, 4))
    _, exact = noisy(own, table, "0.5")
    assert make_consistent(exact, PAIRS).marginal((0, 1)) == pytest.approx(marginal(table, (0, 1)), abs=1e-6)


def test_zeros_of_a_smaller_marginal_hold_in_larger_ones() -> None:
    own = attributes((2, 3, 4))
    table = RNG.integers(1, 30, (2, 3, 4))
    table[:, 1] = 0
    found, _ = noisy(own, table, "0.05")
    projected = make_consistent(found, PAIRS, {(1,): np.array([False, True, False])})
    for places in ((0, 1), (1, 2)):
        assert np.take(projected.marginal(places), 1, places.index(1)) == pytest.approx(0, abs=1e-3)


def test_wrong_sets_and_zeros_are_refused() -> None:
    own = attributes((2, 3, 4))
    found, _ = noisy(own, np.ones((2, 3, 4), np.int64), "0.5")
    with pytest.raises(InvalidParameter):
        make_consistent(found, [(0, 1, 2)])
    with pytest.raises(InvalidParameter):
        make_consistent(found, PAIRS, {(0, 1): np.zeros((3, 2), bool)})
