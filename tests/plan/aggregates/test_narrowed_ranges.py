"""Ranges of sums and means in rows that meet conditions: by hand, from every side of 0."""

from __future__ import annotations

from fractions import Fraction

import pytest

from plan.described import CATALOG
from plan.samples import read
from sfumato.plan import sharing
from sfumato.plan.aggregates.disjoint import DisjointMeasures, members_of
from sfumato.plan.aggregates.measures import Count, DistinctUnits, Mean, Measure, Sum
from sfumato.plan.aggregates.unit_measures import UnitMean, UnitSum
from sfumato.plan.aggregates.value_measures import NarrowedMean, NarrowedSum, narrow_range
from sfumato.plan.sharing import share_measures
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type


def column(low: int, high: int) -> Column:
    return Column(Field(0, "visits", "x"), Domain("integer", bounds=(low, high)))


def between(x: Expression, low: int, high: int) -> list[Expression]:
    return [call(">=", x, literal(Type.INTEGER, low)), call("<=", x, literal(Type.INTEGER, high))]


@pytest.mark.parametrize(
    ("declared", "rows", "alone", "with_sum"),
    [
        ((-100, 100), (20, 50), (20, 50), (0, 50)),
        ((-100, 100), (-50, -20), (-50, -20), (-50, 0)),
        ((-100, 100), (-50, 20), (-50, 20), (-50, 20)),
        ((10, 100), (20, 50), (20, 50), (10, 50)),
        ((10, 100), (20, 200), (20, 100), (10, 100)),
        ((-100, -10), (-50, -20), (-50, -20), (-50, -10)),
        ((-100, -10), (-200, -20), (-100, -20), (-100, -10)),
    ],
)
def test_a_mean_reaches_to_0_where_a_sum_is_made_of_it(
    declared: tuple[int, int], rows: tuple[int, int], alone: tuple[int, int], with_sum: tuple[int, int]
) -> None:
    x = column(*declared)
    mean, conditions = Mean(x), between(x, *rows)
    assert narrow_range(mean, conditions) == NarrowedMean(x, None, (Fraction(alone[0]), Fraction(alone[1])))
    assert narrow_range(Sum(x), conditions) == NarrowedSum(x, None, (Fraction(alone[0]), Fraction(alone[1])))
    extended = NarrowedMean(x, None, (Fraction(with_sum[0]), Fraction(with_sum[1])))
    assert narrow_range(mean, conditions, (), {mean}) == (mean if with_sum == declared else extended)


def test_members_share_the_hull_of_their_ranges() -> None:
    x = column(0, 100)
    low, high = between(x, 10, 20), between(x, 40, 70)
    means = tuple(Mean(x, call("AND", *rows)) for rows in (low, high))
    count = Count(call("IS NULL", read("age + count")))
    narrowed = narrow_range(DisjointMeasures((*means, count)), ())
    within = Fraction(10), Fraction(70)
    assert members_of(narrowed) == (*(NarrowedMean(x, mean.where, within) for mean in means), count)
    assert len(members_of(narrow_range(DisjointMeasures(means), ()))) == 2
    together = DisjointMeasures((*means, count))
    assert narrow_range(together, (), {means[1]}) is together
    assert members_of(narrow_range(together, (), (), {means[1]}))[0] == NarrowedMean(
        x, means[0].where, (Fraction(0), Fraction(70))
    )


def test_measures_without_a_range_to_narrow_stay() -> None:
    x = column(0, 100)
    rows = between(x, 10, 20)
    narrowed = narrow_range(Sum(x), rows)
    fixed: list[Measure] = [Count(), Count(rows[0]), DistinctUnits(), narrowed]
    for measure in fixed:
        assert narrow_range(measure, between(x, 12, 15)) is measure
    assert narrow_range(Sum(x), ()) == Sum(x)
    assert narrow_range(Sum(x), rows, {Sum(x)}) == Sum(x)
    assert narrow_range(Sum(x), rows, {Mean(x)}) == narrowed


@pytest.mark.parametrize(
    ("question", "ranges"),
    [
        ("SUM(cost) FROM visits WHERE cost > 100", [(100, 5000)]),
        ("MEDIAN(age), SUM(cost) FROM visits WHERE cost > 100", [(100, 5000)]),
        ("AVG(cost), COUNT(*) FROM visits WHERE cost < 100", [(0, 100)]),
        ("AVG(cost), SUM(cost) FROM visits WHERE cost > 100 AND cost < 200", [(0, 200)]),
        ("SUM(age), AVG(cost) FROM visits WHERE cost > 100 AND age > 10", [(11, 110), (100, 5000)]),
        ("VARIANCE(cost), SUM(age) FROM visits WHERE cost > 100 AND age > 10", [None, None, (11, 110)]),
        ("VARIANCE(cost), SUM(cost) FROM visits WHERE cost > 100", [None, None]),
    ],
)
def test_what_moments_are_made_from_keeps_its_range(question: str, ranges: list[tuple[int, int] | None]) -> None:
    totals, *_ = share_measures(parse(f"SELECT {question}", CATALOG).plan).parts
    assert [getattr(member, "within", None) for member in totals.members if type(member) is not Count] == ranges


def test_only_a_sum_shares_the_measure_of_a_mean() -> None:
    x, y = read("age"), read("count")
    predicate = read("member")
    means = {Mean(x), Mean(x, predicate)}
    assert sharing._has_mean_among(Sum(x), means)
    assert sharing._has_mean_among(Sum(x, predicate), means)
    assert not sharing._has_mean_among(Sum(y), means)
    assert not sharing._has_mean_among(Mean(x), means)


def test_an_aggregate_over_a_unit_reads_its_value_and_its_predicate() -> None:
    x, predicate = read("age"), read("member")
    for kind in (UnitSum, UnitMean):
        assert kind(x).expressions == (x,)
        assert kind(x, predicate).expressions == (x, predicate)
