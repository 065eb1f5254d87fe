"""Ranges hold as often as they say, over many draws of the real sampler: outside what was measured, and where whoever
buys looks at the noise first. Inside, with a plan fixed beforehand, is tested in test_estimating.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from publish.tables import planned, published
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.group_totals import AmountBounds, _summed_half_width, bound_totals
from sfumato.publish.synopsis import Synopsis

SIZES = (3, 3, 4, 2)
ATTRIBUTES = tuple(
    Attribute("abcd"[k], "integer", (*map(ListedCell, range(size - 1)), OtherCell())) for k, size in enumerate(SIZES)
)
TABLE = np.random.default_rng(3).integers(0, 12, SIZES)
PAIRS = [["a", "b"], ["a", "c"], ["b", "c"], ["c", "d"]]
BETA = 0.05
LOOKS = 8


def contract(long: bool) -> tuple[int, int]:
    """Draws and queries: those of the contract, or few, of which a range that misses in a third of them still fails."""
    return (2_000, 200) if long else (50, 4)


def queries(count: int, axes: AttributeSet) -> list[np.ndarray]:
    """Conjunctions, disjunctions and sums over the cells of some attributes, each with another seed."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        tests = [rng.random(SIZES[place]) < 0.5 for place in axes]
        for each in tests:
            each[rng.integers(len(each))] = True
        join = np.logical_and if seed % 3 else np.logical_or
        weights = tests[0]
        for each in tests[1:]:
            weights = join(weights[..., None], each)
        found.append(weights * (rng.integers(-2, 3, weights.shape) if seed % 5 == 0 else 1.0))
    return [each.astype(float) for each in found]


def truth(query: np.ndarray, axes: AttributeSet) -> float:
    gone = tuple(place for place in range(len(SIZES)) if place not in axes)
    return float((query * TABLE.sum(gone)).sum())


Widths = tuple[list[float], list[float]]


def widths_of(synopsis: Synopsis, query: np.ndarray, axes: AttributeSet) -> Widths:
    """Half-widths of the bounds from below and from above: the same for every draw of a plan."""
    found = bound_totals(synopsis._synopsis_estimates, AmountBounds(query, query), axes, ())
    sides = (found.lower_bounds_with_errors, found.upper_bounds_with_errors)
    below, above = (
        [float(_summed_half_width(noises, BETA, found.bound_count, 1).item()) for _, noises in each] for each in sides
    )
    return below, above


def misses(synopsis: Synopsis, query: np.ndarray, axes: AttributeSet, widths: Widths | None = None) -> bool:
    """Whether the range of a query does not hold the truth."""
    found, exact = (
        bound_totals(synopsis._synopsis_estimates, AmountBounds(query, query), axes, ()),
        truth(query, axes),
    )
    if widths is None:
        low, high = (float(each.item()) for each in found.ends(BETA, 1))
    else:
        low = max(
            value.item() - width for (value, _), width in zip(found.lower_bounds_with_errors, widths[0], strict=True)
        )
        high = min(
            value.item() + width for (value, _), width in zip(found.upper_bounds_with_errors, widths[1], strict=True)
        )
    slack = 1e-9 * max(1.0, abs(exact))
    return not low - slack <= exact <= high + slack


def allowed(draws: int) -> float:
    """β and four standard errors, of one query in so many draws: the mean of many has a smaller one."""
    return BETA + 4 * math.sqrt(BETA * (1 - BETA) / draws)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("epsilon", [None, 1])
def test_bounds_outside_hold_for_the_real_sampler(epsilon: int | None, long: bool) -> None:
    draws, count = contract(long)
    plan = planned(PAIRS, attributes=ATTRIBUTES, epsilon=epsilon)
    axes = (0, 1, 2)
    first = published(plan, TABLE, noisy=True)
    asked = [(each, widths_of(first, each, axes)) for each in queries(count, axes)]
    assert all(misses(first, each[0], axes, each[1]) is misses(first, each[0], axes) for each in asked[:3])
    found = 0
    for _ in range(draws):
        synopsis = published(plan, TABLE, noisy=True)
        found += sum(misses(synopsis, query, axes, widths) for query, widths in asked)
    assert found / (draws * count) <= allowed(draws)


def test_bounds_that_are_taken_for_known_miss() -> None:
    """The twin without half-widths misses a total that its bounds meet: the test above would notice."""
    axes, draws = (0, 1, 2), 100
    query = np.zeros((3, 3, 4))
    query[0, 1] = 1
    plan, exact, missed = planned(PAIRS, attributes=ATTRIBUTES), truth(query, axes), 0
    for _ in range(draws):
        found = bound_totals(
            published(plan, TABLE, noisy=True)._synopsis_estimates, AmountBounds(query, query), axes, ()
        )
        high = min(value.item() for value, _ in found.upper_bounds_with_errors)
        missed += high < exact
    assert missed / draws > 2 * allowed(draws)


@pytest.mark.timeout(3600)
def test_ranges_hold_where_earlier_noise_decides_when_to_stop(long: bool) -> None:
    """An optional stopper buys the same synopsis again and again, until the interval of a fixed plan misses."""
    draws, count = contract(long)
    plan, axes = planned(PAIRS, attributes=ATTRIBUTES), (0, 1)
    asked, outside = queries(count // 2, axes), queries(count // 2, (0, 1, 2))
    aimed = np.zeros((3, 3))
    aimed[0, 1] = 1
    exact = truth(aimed, axes)
    naive = adaptive = elsewhere = 0
    for _ in range(draws):
        found = published(plan, TABLE, noisy=True)
        for line in range(4, 4 + LOOKS - 1):
            if abs(found.estimates.linear_estimate_and_variance(aimed, axes)[0] - exact) > found.estimates.half_width(
                aimed, axes, BETA
            ):
                break
            found = found + published(plan, TABLE, noisy=True, line=line)
        naive += abs(found.estimates.linear_estimate_and_variance(aimed, axes)[0] - exact) > found.estimates.half_width(
            aimed, axes, BETA
        )
        if found.earlier:
            adaptive += misses(found, aimed, axes)
            elsewhere += sum(misses(found, each, axes) for each in asked)
            elsewhere += sum(misses(found, each, (0, 1, 2)) for each in outside)
    assert not long or naive / draws > 2 * BETA
    assert adaptive / draws <= allowed(draws)
    assert elsewhere / (draws * count) <= allowed(draws)
