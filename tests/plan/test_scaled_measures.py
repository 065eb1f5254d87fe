"""Measures in whole steps, and what one unit changes of them: every branch at its edges, against the formulas of the
module's text worked out by hand or by enumeration.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from plan.described import CATALOG
from plan.samples import read
from sfumato.errors import InvalidParameter
from sfumato.plan import bounding
from sfumato.plan.aggregates.disjoint import DisjointMeasures
from sfumato.plan.aggregates.measures import Count, DistinctUnits, Mean
from sfumato.plan.bounding import (
    ScaledMeasure,
    bound_by_unit_weights,
    bound_by_whole_rows,
    bound_distinct_values,
    bound_for_discovery,
    candidate_bounded_plans,
    for_neighbours,
    proven_rows_per_unit,
)
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.functions import call
from sfumato.privacy import Neighbours, Sensitivity

ONE_ROW = replace(CATALOG, tables={**CATALOG.tables, "visits": replace(CATALOG.tables["visits"], id=None)})


def plan(text: str, *, rows: bool = False) -> Aggregate:
    return parse(text, ONE_ROW if rows else CATALOG).plan


WHOLE_ROWS = {
    # a table of which every row is a unit, and the most rows that one of them becomes
    "SELECT COUNT(*) FROM visits": 1,
    "SELECT COUNT(*) FROM visits WHERE age > 3": 1,
    "SELECT COUNT(*) FROM visits JOIN hospitals ON age = beds": 10,
    "SELECT COUNT(*) FROM visits JOIN hospitals ON hospital = id": 1,
    "SELECT COUNT(*) FROM visits JOIN hospitals ON age = beds WHERE age > 3": 10,
    "SELECT COUNT(*) FROM visits, UNNEST(tags) AS t(tag)": 5,
    "SELECT COUNT(*) FROM visits JOIN hospitals ON age = beds, UNNEST(tags) AS t(tag)": 50,
    "SELECT COUNT(*) FROM (SELECT age FROM visits UNION ALL SELECT age FROM visits JOIN hospitals ON age = beds)": 11,
}


@pytest.mark.parametrize("text", WHOLE_ROWS)
def test_the_most_rows_of_a_unit_that_has_one(text: str) -> None:
    assert proven_rows_per_unit(plan(text, rows=True).source) == WHOLE_ROWS[text]
    assert proven_rows_per_unit(plan(text).source) is None
    (only,) = candidate_bounded_plans(plan(text, rows=True), ContributionLimits(7, 7, 7), 4)
    assert only.strategy is Strategy.WHOLE
    assert only.measures[0].sensitivity.per_group == WHOLE_ROWS[text]
    assert only.limits == ContributionLimits(WHOLE_ROWS[text], min(4, WHOLE_ROWS[text]), WHOLE_ROWS[text])


ONE_EACH = "SELECT patient_id, MAX(age) AS age, MAX(region) AS region FROM visits GROUP BY patient_id"


def test_rows_of_units_that_are_grouped_windowed_and_tested() -> None:
    assert proven_rows_per_unit(plan(f"SELECT COUNT(*) FROM ({ONE_EACH})").source) == 1
    tested = f"SELECT COUNT(*) FROM ({ONE_EACH}) AS t WHERE patient_id IN (SELECT patient_id FROM visits)"
    assert proven_rows_per_unit(plan(tested).source) == 1
    under_or = tested.replace("WHERE", "WHERE age > 3 OR")
    assert proven_rows_per_unit(plan(under_or).source) == 1
    joined = f"SELECT COUNT(*) FROM ({ONE_EACH}) AS t JOIN hospitals ON age = beds"
    assert proven_rows_per_unit(plan(joined).source) == 10
    mixed = f"SELECT COUNT(*) FROM (SELECT age FROM ({ONE_EACH}) UNION ALL SELECT age FROM visits)"
    assert proven_rows_per_unit(plan(mixed).source) is None


@pytest.mark.parametrize(
    ("measure", "groups", "strategies"),
    [
        ("COUNT(*)", 1, "clip-l1 clip-l2 reweight sample"),
        ("COUNT(*)", 2, "reweight clip-l1 clip-l2 sample"),
        ("COUNT(DISTINCT patient_id)", 1, "clip-l1 clip-l2 sample"),
        ("COUNT(DISTINCT patient_id)", 2, "clip-l1 clip-l2 sample"),
    ],
)
def test_strategies_from_the_cheapest(measure: str, groups: int, strategies: str) -> None:
    found = candidate_bounded_plans(plan(f"SELECT {measure} FROM visits"), ContributionLimits(5, 5, 5), groups)
    assert [each.strategy.value for each in found] == strategies.split()


@pytest.mark.parametrize(
    ("value", "max_steps", "step", "low", "high"),
    [
        ("age", 111, 1, 0, 110),
        ("age", 110, 2, 0, 55),
        ("age", 56, 2, 0, 55),
        ("age", 55, 4, 0, 28),
        ("age + 1000", 111, 1, 1000, 1110),
        ("age - 1000", 111, 1, -1000, -890),
        ("age", None, 1, 0, 110),
    ],
)
def test_values_are_rounded_to_no_more_steps_than_given(
    value: str, max_steps: int | None, step: int, low: int, high: int
) -> None:
    for rows, strategy in ((True, Strategy.WHOLE), (False, Strategy.SAMPLE)):
        bounded = bound_by_whole_rows(
            plan(f"SELECT SUM({value}) AS s FROM visits", rows=rows), ContributionLimits(3, 2, 2), 5, max_steps
        )
        (scaled,) = bounded.measures
        assert bounded.strategy is strategy
        assert (scaled.step, scaled.low, scaled.high, scaled.bits) == (step, low, high, 0)
        assert bounded.limits == (ContributionLimits(1, 1, 1) if rows else ContributionLimits(3, 2, 2))


def test_rows_are_weighted_alike() -> None:
    (scaled,) = bound_by_unit_weights(plan("SELECT COUNT(*) FROM visits"), ContributionLimits(3, 2, 2), 5).measures
    assert (scaled.bits, scaled.sensitivity) == (20, Sensitivity(5, 3 << 20, total=3 << 20))
    coarse = bound_by_unit_weights(plan("SELECT COUNT(*) FROM visits"), ContributionLimits(3, 2, 2), 5, bits=4)
    assert coarse.strategy is Strategy.REWEIGHT
    assert coarse.measures[0].sensitivity == Sensitivity(5, 3 << 4, total=3 << 4)
    one = bound_by_unit_weights(plan("SELECT COUNT(*) FROM visits", rows=True), ContributionLimits(3, 2, 2), 5)
    assert (one.strategy, one.limits) == (Strategy.WHOLE, ContributionLimits(1, 1, 1))


def test_groups_that_are_discovered_count_their_units() -> None:
    limits = ContributionLimits(5, 2, 3)
    sampled = bound_for_discovery(plan("SELECT ward, COUNT(*) FROM visits GROUP BY ward"), limits)
    assert (sampled.strategy, sampled.limits, sampled.discovers_groups) == (Strategy.SAMPLE, limits, True)
    assert [type(each.measure) for each in sampled.measures] == [Count, DistinctUnits]
    assert sampled.noisy_measures == sampled.measures[:1]
    assert [each.sensitivity for each in sampled.measures] == [
        Sensitivity(4, 3, total=5),  # two units are in at most 2·2 groups
        Sensitivity(4, 1, total=2),
    ]
    whole = bound_for_discovery(plan("SELECT ward, COUNT(*) FROM visits GROUP BY ward", rows=True), limits)
    assert (whole.strategy, whole.limits) == (Strategy.WHOLE, ContributionLimits(1, 1, 1))
    assert [type(each.measure) for each in whole.measures] == [Count, Count]


def test_matched_values_are_limited_in_all_groups_together() -> None:
    text = "SELECT region, COUNT(*) FROM visits GROUP BY region"
    for neighbours in Neighbours:
        (sample,) = (
            each
            for each in candidate_bounded_plans(plan(text), ContributionLimits(5, 4, 3), 4)
            if each.strategy is Strategy.SAMPLE
        )
        matched = bound_distinct_values(for_neighbours(sample, neighbours), 3)
        assert (matched.strategy, matched.limits) == (Strategy.MATCH, ContributionLimits(3, 3, 3))
        assert matched.measures[0].add_remove_sensitivity == Sensitivity(4, 3, total=3)
        assert matched.measures[0].sensitivity.neighbours is neighbours


def test_a_clipped_vector_of_many_groups_is_no_longer_than_its_rows() -> None:
    """Three rows, one in a group: squares of 3, whatever the number of groups; a multiple of 2^40 covers doubles."""
    clipped = bounding._add_remove_sensitivity(Strategy.CLIP_L2, 1, ContributionLimits(3, 3, 1), 100)
    assert (clipped.per_group, clipped.squares, clipped.total) == (1, 3, math.isqrt(300))
    wide = bounding._add_remove_sensitivity(Strategy.CLIP_L2, 2**20, ContributionLimits(3, 3, 1), 100)
    assert wide.squares == 3 * 2**40 + 3


def test_units_that_are_counted_are_limited_where_a_row_becomes_ten() -> None:
    joined = f"SELECT COUNT(DISTINCT patient_id) FROM ({ONE_EACH}) AS t JOIN hospitals ON age = beds"
    assert [each.limits for each in candidate_bounded_plans(plan(joined), ContributionLimits(5, 5, 5), 4)] == [
        ContributionLimits(10, 4, 10)
    ] * 3
    one = f"SELECT COUNT(DISTINCT patient_id) FROM ({ONE_EACH})"
    assert [each.strategy for each in candidate_bounded_plans(plan(one), ContributionLimits(5, 5, 5), 4)] == [
        Strategy.WHOLE
    ]
    grouped = f"SELECT age, COUNT(*) FROM ({ONE_EACH}) AS t JOIN hospitals ON age = beds GROUP BY age"
    found = bound_for_discovery(plan(grouped), ContributionLimits(5, 2, 3))
    assert (found.strategy, found.limits) == (Strategy.WHOLE, ContributionLimits(10, 10, 10))
    assert found.measures[0].sensitivity.groups == 20


def test_the_rounding_of_totals() -> None:
    """Half a unit where totals are rounded, and half a step for each of 2^40 rows where values are."""
    wide, exact, real = (
        candidate_bounded_plans(
            plan(f"SELECT SUM({value}) AS s FROM visits", rows=True), ContributionLimits(1, 1, 1), 1
        )[0].measures[0]
        for value in ("age * 10000000", "age", "SQRT(age)")
    )
    assert wide.bits < 0
    assert wide.rounding == wide.unit_value / 2 == Fraction(2) ** (-wide.bits - 1)
    assert (exact.bits, exact.rounding) == (0, 0)
    assert real.rounding == 2**40 * real.step / 2 + real.unit_value / 2


def test_bits_that_squares_need() -> None:
    """4, and half of those of the number of coordinates, rounded up: 2^(b/2) is at least its root."""
    for coordinates in (1, 2, 3, 4, 7, 8, 1000):
        spare = bounding._bits_reserved_for_squares(Strategy.CLIP_L2, coordinates)
        assert spare == 4 + math.ceil(coordinates.bit_length() / 2)
        assert bounding._bits_reserved_for_squares(Strategy.CLIP_L1, coordinates) == 0


def test_totals_that_are_rounded_to_units() -> None:
    """Against all changes of three totals of up to 6 steps, 11 in all, on every remainder: nothing moves further."""
    rounded = bounding._sensitivity_after_rounding(Sensitivity(3, 6, total=11), 4, 3)
    assert (rounded.groups, rounded.per_group, rounded.total) == (3, 2, 3 + 3 - 1)
    furthest = 0
    for change in itertools.product(range(-6, 7), repeat=3):
        if sum(map(abs, change)) <= 11:
            moves = [max(abs((start + each + 2) // 4 - (start + 2) // 4) for start in range(4)) for each in change]
            assert max(moves) <= rounded.per_group
            assert sum(each**2 for each in moves) <= rounded.squares
            furthest = max(furthest, sum(moves))
    assert furthest == rounded.total
    assert bounding._sensitivity_after_rounding(Sensitivity(3, 6, total=9), 1, 1).total == 9


def test_the_length_of_totals_that_are_rounded_to_units() -> None:
    """‖w‖ ≤ ‖v‖/u + √h, each root rounded up to a whole number: (⌊√45⌋ + 1 + 4·(⌊√50⌋ + 1))/4, squared."""
    rounded = bounding._sensitivity_after_rounding(Sensitivity(50, 6, total=47, squares=45), 4, 50)
    assert (rounded.per_group, rounded.total) == (2, 12 + 49)
    assert rounded.squares == math.ceil(Fraction(7 + 4 * 8, 4) ** 2) == 96
    assert rounded.squares >= (math.sqrt(45) / 4 + math.sqrt(50)) ** 2


REPLACED = {
    # of one row in four groups: what it moves in a group, in all, and squared, when it is replaced
    "COUNT(*)": (1, 2, 2),
    "SUM(age)": (110, 220, 2 * 110**2),
    "SUM(age - 10)": (110, 200, 110**2 + 90**2),
    "SUM(age - 55)": (110, 110, 110**2),
    "SUM(-age)": (110, 220, 2 * 110**2),
    "SUM(age + 5)": (115, 230, 2 * 115**2),
}


@pytest.mark.parametrize("measure", REPLACED)
def test_a_replaced_row(measure: str) -> None:
    """No pair of rows, in one group or in two, moves further."""
    text = f"SELECT region, {measure} AS x FROM visits GROUP BY region"
    (bounded,) = candidate_bounded_plans(plan(text, rows=True), ContributionLimits(1, 1, 1), 4)
    scaled = for_neighbours(bounded, Neighbours.REPLACE).measures[0]
    found = scaled.sensitivity
    assert scaled.add_remove_sensitivity == bounded.measures[0].sensitivity
    assert found.groups == 4
    assert (found.per_group, found.total, found.squares) == REPLACED[measure]
    for one, other in itertools.product(scaled.row_contribution_bounds or (), repeat=2):
        assert abs(one - other) <= found.per_group
        assert abs(one) + abs(other) <= found.total
        assert max(one**2 + other**2, (one - other) ** 2) <= found.squares


def test_neighbours_that_are_added_change_nothing() -> None:
    (bounded,) = candidate_bounded_plans(plan("SELECT COUNT(*) FROM visits", rows=True), ContributionLimits(1, 1, 1), 1)
    assert for_neighbours(bounded, Neighbours.ADD_REMOVE) == bounded


def test_members_of_a_scaled_measure() -> None:
    bounded = candidate_bounded_plans(
        plan("SELECT SUM(age) AS s, COUNT(*) AS n, AVG(age) AS a FROM visits"), ContributionLimits(5, 2, 3), 1
    )[0]
    assert [(member.share_index, member.coordinates) for member in bounded.members] == [(0, 1), (1, 1), (2, 2)]
    sums, count, mean = bounded.members
    assert (sums.size, sums.step, sums.low, sums.high) == (110, 1, 0, 110)
    assert (count.size, count.step, count.rounding) == (1, 1, 0)
    assert mean.middle_row_contributions == (55, 55)
    assert [scaled.row_contribution_bounds for scaled in bounded.measures] == [(0, 110), (0, 1), None]
    assert [scaled.signed for scaled in bounded.measures] == [False] * 3


# Limits


def test_limits_of_relations() -> None:
    limits = ContributionLimits(10, 4, 3)
    assert (limits.total, ContributionLimits(10, 3, 3).total, ContributionLimits(10, 5, 2).total) == (10, 9, 10)
    assert limits.capped_at_rows(3) == ContributionLimits(3, 3, 3)
    assert limits.capped_at_rows(20) == limits
    assert limits.elementwise_maximum(ContributionLimits(5, 5, 5)) == ContributionLimits(10, 5, 5)
    assert limits.plus(ContributionLimits(1, 2, 3)) == ContributionLimits(11, 6, 6)
    assert limits.for_multiplied_rows(3) == ContributionLimits(30, 12, 9)
    assert limits.for_measure(Count()) == limits
    assert limits.for_measure(DistinctUnits()) == ContributionLimits(4, 4, 1)


@pytest.mark.parametrize(
    ("limits", "asked", "largest", "tightened"),
    [
        (ContributionLimits(10, 4, 3), (10, 4, 3), None, ContributionLimits(10, 4, 3)),
        (ContributionLimits(10, 4, 3), (None, None, None), None, ContributionLimits(10, 4, 3)),
        (ContributionLimits(10, 4, 3), (2, None, None), None, ContributionLimits(2, 2, 2)),
        (ContributionLimits(10, 4, 3), (None, 2, 1), None, ContributionLimits(10, 2, 1)),
        (
            ContributionLimits(10, 10, 3),
            (12, None, None),
            ContributionLimits(20, 20, 20),
            ContributionLimits(12, 12, 3),
        ),
        (
            ContributionLimits(10, 4, 10),
            (12, None, None),
            ContributionLimits(20, 20, 20),
            ContributionLimits(12, 4, 12),
        ),
        (ContributionLimits(10, 10, 10), (12, 11, 5), ContributionLimits(20, 20, 20), ContributionLimits(12, 11, 5)),
        (
            ContributionLimits(10, 10, 10),
            (10, None, None),
            ContributionLimits(20, 20, 20),
            ContributionLimits(10, 10, 10),
        ),
        (
            ContributionLimits(10, 10, 10),
            (None, 11, None),
            ContributionLimits(20, 20, 20),
            ContributionLimits(10, 10, 10),
        ),
    ],
)
def test_limits_that_a_question_may_set(
    limits: ContributionLimits,
    asked: tuple[int | None, ...],
    largest: ContributionLimits | None,
    tightened: ContributionLimits,
) -> None:
    assert limits.tighten(*asked, largest=largest) == tightened


@pytest.mark.parametrize("asked", [(21, None, None), (None, 21, None), (None, None, 21), (0, None, None)])
def test_limits_beyond_the_largest_are_refused(asked: tuple[int | None, ...]) -> None:
    with pytest.raises(InvalidParameter):
        ContributionLimits(10, 10, 10).tighten(*asked, largest=ContributionLimits(20, 20, 20))


def test_limits_may_be_raised_to_what_the_tree_proves() -> None:
    joined = plan(f"SELECT COUNT(*) FROM ({ONE_EACH}) AS t JOIN hospitals ON age = beds")
    assert (joined.limits, joined.max_requestable_limits) == (
        ContributionLimits(1, 1, 1),
        ContributionLimits(10, 10, 10),
    )
    assert plan("SELECT COUNT(*) FROM visits").max_requestable_limits == plan("SELECT COUNT(*) FROM visits").limits
    twice = plan("SELECT COUNT(*) FROM visits v JOIN visits w ON v.patient_id = w.patient_id")
    assert (twice.limits, twice.max_requestable_limits) == (
        ContributionLimits(10, 4, 3),
        ContributionLimits(100, 100, 100),
    )


@pytest.mark.parametrize("bits", [0, 3, -2])
def test_a_member_that_counts_rows_adds_what_a_value_may(bits: int) -> None:
    """A counted row adds ``size`` steps of 2^bits units to its total, so that is the value 1."""
    missing = Count(call("IS NULL", read("pay")))
    mean, step = Mean(read("pay")), Fraction(1, 4)
    scaled = ScaledMeasure(DisjointMeasures((mean, missing)), step, -400, 4000, bits, *[Sensitivity(1, 1)] * 2)
    of_mean, of_count = scaled.members(7)
    assert (of_mean.measure, of_mean.step, of_mean.low, of_mean.high) == (mean, step, -400, 4000)
    assert of_mean.unit_value * Fraction(2) ** bits == step
    assert (of_count.measure, of_count.step, of_count.low, of_count.high) == (missing, 1, 0, 1)
    assert of_count.unit_value * Fraction(2) ** bits * scaled.size == 1
    assert of_count.rounding == (of_count.unit_value / 2 if bits < 0 else 0)
    assert of_mean.rounding > of_count.rounding
    assert (of_mean.share_index, of_count.share_index) == (7, 7)
    (alone,) = ScaledMeasure(Count(), Fraction(1), 0, 1, bits, *[Sensitivity(1, 1)] * 2).members(2)
    assert (alone.step, alone.low, alone.high, alone.share_index) == (1, 0, 1, 2)
    assert alone.unit_value * Fraction(2) ** bits == 1
