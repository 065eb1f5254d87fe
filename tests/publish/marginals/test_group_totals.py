"""Totals of all groups at once are the queries that they stand for, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from publish.tables import counts, people, planned, published
from publish.worlds import attributes, leveled
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.estimating import adaptive_half_width, gaussian_half_width
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.planning import MarginalWorkload, plan_gaussian, plan_laplace
from sfumato.publish.synopsis import Synopsis

WORLDS = {"plain": attributes((2, 3, 4)), "levels": leveled()[:3]}


def _synopsis(own: Attributes, *, laplace: bool) -> Synopsis:
    make = plan_laplace if laplace else plan_gaussian
    table = np.random.default_rng(1).integers(0, 50, [each.size for each in own])
    return published(make(MarginalWorkload(((0, 1, 2),)), own), table, noisy=True)


def _query(weights: np.ndarray, own: Attributes, keys: AttributeSet, group: tuple[int, ...]) -> np.ndarray:
    """The weights in one cell of the key axes, and zero elsewhere."""
    found = np.broadcast_to(weights, [each.size for each in own]).copy()
    for axis, cell in zip(keys, group, strict=True):
        found[np.indices(found.shape)[axis] != cell] = 0
    return found


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("keys", [(), (0,), pytest.param((1,), marks=pytest.mark.long), (0, 2), (0, 1, 2)])
def test_totals_are_queries(world: str, keys: AttributeSet, laplace: bool, long: bool) -> None:
    own = WORLDS[world]
    if laplace:
        own = tuple(each.without_levels for each in own)
    found, places = _synopsis(own, laplace=laplace).estimates, (0, 1, 2)
    known = SynopsisEstimates(found, ((0, 1, 2),))
    sizes = [each.size for each in own]
    shapes = list(itertools.product([False, True], repeat=3))
    for flat in shapes if long else shapes[::3]:  # each axis is flat in one of three and full in another
        shape = [1 if one else size for one, size in zip(flat, sizes, strict=True)]
        weights = np.random.default_rng(2).normal(size=shape)
        values, noise = known.totals_and_errors(weights, places, places, keys)
        widths = noise.width(0.1, 3)
        for group in itertools.product(*(range(sizes[axis]) for axis in keys)):
            query = _query(weights, own, keys, group)
            index = [dict(zip(keys, group, strict=True)).get(axis, 0) for axis in range(3)]
            at = tuple(min(place, size - 1) for place, size in zip(index, np.shape(widths), strict=True))
            assert values[tuple(index)] == pytest.approx(found.linear_estimate_and_variance(query, places)[0], abs=1e-6)
            assert widths[at] == pytest.approx(found.half_width(query, places, 0.1, 3), rel=1e-9)


@pytest.mark.parametrize("laplace", [False, True])
def test_axes_outside_the_marginal_stay(laplace: bool) -> None:
    own = WORLDS["plain"]
    found = SynopsisEstimates(_synopsis(own, laplace=laplace).estimates, ((0, 1, 2),))
    weights = np.random.default_rng(3).normal(size=(2, 3, 4))
    values, noise = found.totals_and_errors(weights, (0, 1, 2), (0, 2), (0, 1))
    assert values.shape == (2, 3, 1)
    for cell in range(3):
        one, alone = found.totals_and_errors(weights[:, cell, :], (0, 2), (0, 2), (0,))
        assert values[:, cell] == pytest.approx(one)
        assert np.broadcast_to(noise.width(0.1, 1), (2, 3, 1))[:, cell] == pytest.approx(alone.width(0.1, 1))


def test_sums_of_releases_have_ranges_that_hold_however_the_second_was_chosen() -> None:
    table = counts(people(1))
    one, other = (published(planned([["sex"]]), table, noisy=True, line=line) for line in (3, 4))
    low, high = (one + other).sql("SELECT COUNT(*) AS n FROM people").intervals["n"][0]  # type: ignore[misc]
    precision = 1 / one.estimates.variances[()]
    assert (high - low) / 2 == pytest.approx(adaptive_half_width([(1, 2 * precision)], 0.05, precision))
    assert (high - low) / 2 > gaussian_half_width(1 / (2 * precision), 0.05)
