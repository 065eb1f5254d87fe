"""What one unit can change: the closed forms, for every way to limit it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from plan.described import CATALOG, VISITS
from sfumato.plan import bounding
from sfumato.plan.aggregates.measures import MAX_STEPS, value_range
from sfumato.plan.bounding import BoundedPlan, bound_for_discovery, candidate_bounded_plans, for_neighbours
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table
from sfumato.privacy import Neighbours

USERS = Table(
    "visits", Path("visits.parquet"), VISITS, id="patient_id", max_rows=10, max_groups=4, max_rows_per_group=3
)
ROWS = Table("visits", Path("visits.parquet"), VISITS, id="row")


def bounded_plans(text: str, table: Table = USERS, groups: int = 4) -> dict[Strategy, BoundedPlan]:
    known = {**CATALOG.tables, "visits": replace(CATALOG.tables["visits"], id=None if table.every_row else table.id)}
    query = parse(text, replace(CATALOG, tables=known))
    return {
        each.strategy: each
        for each in candidate_bounded_plans(query.plan, ContributionLimits.from_table(table), groups)
    }


def change(bounded: BoundedPlan, index: int = 0) -> tuple[Fraction, float, Fraction]:
    """Δ₁, Δ₂, Δ∞ in the measure's own terms."""
    scaled = bounded.measures[index]
    found = scaled.sensitivity
    return found.l1 * scaled.unit_value, found.l2 * float(scaled.unit_value), found.linf * scaled.unit_value


def test_a_row_that_is_a_unit_changes_a_count_by_one() -> None:
    (only,) = bounded_plans("SELECT COUNT(*) FROM visits", ROWS).values()
    assert only.strategy is Strategy.WHOLE
    assert change(only) == (1, 1.0, 1)


def test_a_row_joined_to_ten_changes_a_count_by_ten() -> None:
    (only,) = bounded_plans("SELECT COUNT(*) FROM visits JOIN hospitals ON age = beds", ROWS).values()
    assert change(only) == (10, 10.0, 10)


def test_a_row_in_both_parts_of_a_union_changes_a_count_by_two() -> None:
    both = "SELECT region FROM visits UNION ALL SELECT region FROM visits WHERE age > 3"
    (only,) = bounded_plans(f"SELECT COUNT(*) FROM ({both})", ROWS).values()
    assert change(only) == (2, 2.0, 2)


def test_counts_of_units_with_several_rows() -> None:
    """m = 10, g = 4, c = 3 in four groups: T = min(10, 12) = 10."""
    found = bounded_plans("SELECT region, COUNT(*) FROM visits GROUP BY region")
    assert list(found) == [Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE]
    assert change(found[Strategy.REWEIGHT]) == (10, 10.0, 10)
    l1, l2, linf = change(found[Strategy.CLIP_L1])
    assert (l1, linf) == (10, 3)
    assert l2 == pytest.approx((3 * 9 + 1) ** 0.5)  # 3, 3, 3, 1: the longest with Σ ≤ 10 and each ≤ 3
    _, l2, linf = change(found[Strategy.CLIP_L2])
    assert linf == 3
    assert l2 == pytest.approx((3 * 9 + 1) ** 0.5)
    assert l2 > 28**0.5  # the scaling's own rounding is covered
    assert change(found[Strategy.SAMPLE])[0] == 10


def test_units_are_counted_once_in_a_group() -> None:
    found = bounded_plans("SELECT region, COUNT(DISTINCT patient_id) FROM visits GROUP BY region")
    assert Strategy.REWEIGHT not in found  # a unit that is counted once has no rows to weigh
    assert change(found[Strategy.CLIP_L1]) == (4, 2.0, 1)
    assert change(found[Strategy.SAMPLE]) == (4, 2.0, 1)
    (alone, *_) = bounded_plans("SELECT COUNT(DISTINCT patient_id) FROM visits", groups=1).values()
    assert change(alone) == (1, 1.0, 1)


def test_sums_are_counts_times_the_largest_size() -> None:
    found = bounded_plans("SELECT region, SUM(age - 50) AS s FROM visits GROUP BY region")
    assert change(found[Strategy.REWEIGHT])[0] == 10 * 60  # [-50, 60]
    assert found[Strategy.REWEIGHT].measures[0].signed
    assert change(found[Strategy.CLIP_L1])[::2] == (600, 180)
    below = bounded_plans("SELECT region, SUM(age - 80) AS s FROM visits GROUP BY region")
    assert change(below[Strategy.REWEIGHT])[0] == 10 * 80  # [-80, 30]: the lower end is further from 0


def test_a_mean_costs_its_range_once_for_both_sums() -> None:
    """a = Σ(x − low), b = Σ(high − x): together c·(high − low), as the count alone would cost c."""
    found = bounded_plans("SELECT AVG(age) FROM visits", groups=1)
    scaled = found[Strategy.CLIP_L1].measures[0]
    assert scaled.coordinates == 2
    assert change(found[Strategy.CLIP_L1])[0] == 3 * 110  # one group: at most three rows count


def test_replacing_a_unit_doubles_what_adding_it_does() -> None:
    table = Table("visits", Path("x"), VISITS, id="row")
    for text, signed in (("SUM(age)", False), ("SUM(age - 55)", True), ("COUNT(*)", False), ("AVG(age - 50)", False)):
        (only,) = bounded_plans(f"SELECT region, {text} AS x FROM visits GROUP BY region", table).values()
        before, after = only.measures[0].sensitivity, for_neighbours(only, Neighbours.REPLACE).measures[0].sensitivity
        assert after.total == 2 * before.total
        assert after.per_group == (2 if signed else 1) * before.per_group
        assert after.squares == (4 if signed else 2) * before.squares


@pytest.mark.parametrize(
    ("value", "width", "size"),
    [("age - 10", 110, 100), ("age - 100", 110, 100), ("age + 5", 115, 115), ("-age", 110, 110)],
)
def test_lopsided_sums_move_by_the_width_of_their_box_when_a_unit_is_replaced(
    value: str, width: int, size: int
) -> None:
    """Δ∞ = c·(max(high, 0) − min(low, 0)), never high − low; Δ₁ = 2TM; Δ₂² ≤ 2T·c·M·width. m = T = 10, c = 3."""
    grouped = bounded_plans(f"SELECT region, SUM({value}) AS s FROM visits GROUP BY region", groups=8)
    single = bounded_plans(f"SELECT SUM({value}) AS s FROM visits", groups=1)
    for strategy, bounded in {**grouped, **{(each, 1): plan for each, plan in single.items()}}.items():
        alone = isinstance(strategy, tuple)
        kind = strategy[0] if alone else strategy
        scaled = for_neighbours(bounded, Neighbours.REPLACE).measures[0]
        found, unit = scaled.sensitivity, scaled.unit_value
        rows = 10 if kind is Strategy.REWEIGHT else 3
        assert found.linf * unit == rows * width
        if alone:
            assert found.l1 == found.linf
        elif kind is not Strategy.CLIP_L2:
            assert found.l1 * unit == 2 * 10 * size
            assert found.squares * unit**2 <= 2 * 10 * rows * size * width
        else:
            assert found.squares <= (4 if scaled.signed else 2) * scaled.add_remove_sensitivity.squares


def test_steps_are_whole_and_neither_too_fine_nor_too_coarse() -> None:
    wide = bounded_plans("SELECT SUM(age * 1000000000000) AS s FROM visits", ROWS, 1)[Strategy.WHOLE].measures[0]
    assert wide.sensitivity.l1 <= 2**27
    real = bounded_plans("SELECT SUM(SQRT(age)) AS s FROM visits", ROWS, 1)[Strategy.WHOLE].measures[0]
    assert 2**25 <= real.sensitivity.l1 <= 2**26
    assert real.rounding <= real.sensitivity.l1 * real.unit_value / 2**18
    nothing = bounded_plans("SELECT SUM(age - age) AS s FROM visits", ROWS, 1)[Strategy.WHOLE].measures[0]
    assert nothing.sensitivity.l1 >= 1


def test_limits_can_only_be_tightened() -> None:
    limits = ContributionLimits.from_table(USERS)
    assert limits.tighten(2, None, None) == ContributionLimits(2, 2, 2)
    for larger in ((11, None, None), (None, 5, None), (None, None, 4)):
        with pytest.raises(sf.InvalidParameter, match="can only lower the policy's limits"):
            limits.tighten(*larger)
    for wrong in (0, -1, "many", 1.5):
        with pytest.raises(sf.InvalidParameter):
            limits.tighten(wrong, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["2.5", "-2.5", "0", "0.1", "3", "1e150", "-1e-150", "4611686018427387904"])
def test_the_mean_of_one_number_is_that_number(value: str) -> None:
    """AVG(2.5) gave 3.0: the step was 1 where the range has no width."""
    query = parse(f"SELECT AVG({value}) AS a FROM visits", CATALOG)
    table = sf.Table("visits", "visits.csv", VISITS, id="patient_id", max_rows=3)
    for bounded in candidate_bounded_plans(query.plan, ContributionLimits.from_table(table), 1):
        (scaled,) = bounded.measures
        low, high = (end * scaled.step for end in (scaled.low, scaled.low + scaled.size))
        assert low == Fraction(value)
        assert high - low <= (abs(low) or 1) * Fraction(1, 10**12)


@pytest.mark.parametrize("value", ["SQRT(age)", "-SQRT(age + 2)", "age / 7 - 3", "age * 10000000000000007"])
@pytest.mark.parametrize("measure", ["SUM", "AVG"])
def test_steps_hold_the_whole_range(measure: str, value: str) -> None:
    """Its ends lie between two steps, and a row at an end counts as the step beyond it."""
    for scaled in (each.measures[0] for each in bounded_plans(f"SELECT {measure}({value}) AS s FROM visits").values()):
        assert scaled.measure.value is not None
        low, high = value_range(scaled.measure.value)
        assert low % scaled.step or high % scaled.step
        assert scaled.low * scaled.step <= low
        assert high <= scaled.high * scaled.step
        farthest = high - low if measure == "AVG" else max(abs(low), abs(high))
        assert scaled.size * scaled.step >= farthest


def test_units_beside_a_public_table_are_counted_once() -> None:
    """One row of each unit that meets three rows of a public table: units are limited, rows count as they are."""
    inner = "SELECT patient_id, MIN(hospital) AS hospital FROM visits GROUP BY patient_id"
    joined = f"FROM ({inner}) AS t JOIN hospitals ON hospital = beds GROUP BY city"
    rows = parse(f"SELECT city, COUNT(*) {joined}", CATALOG).plan
    (only,) = candidate_bounded_plans(rows, rows.limits, 2)
    assert (only.strategy, only.measures[0].sensitivity.linf) == (Strategy.WHOLE, 10)
    units = parse(f"SELECT city, COUNT(DISTINCT patient_id) {joined}", CATALOG).plan
    for each in candidate_bounded_plans(units, units.limits, 2):
        assert each.strategy is not Strategy.WHOLE
        assert each.measures[0].sensitivity.linf * each.measures[0].unit_value == 1
        assert each.measures[0].sensitivity.groups == 2


@pytest.mark.parametrize(
    ("joined", "strategy", "most"), [("", Strategy.WHOLE, 1), (" JOIN hospitals ON a = beds", Strategy.SAMPLE, 10)]
)
def test_found_groups_count_a_unit_whole_only_where_it_has_one_row(joined: str, strategy: Strategy, most: int) -> None:
    """A unit with ten rows after a join is in up to ten groups, and counts once in each: its rows are sampled."""
    units = "SELECT patient_id, MAX(age) AS a, MAX(ward) AS w FROM visits GROUP BY patient_id"
    text = f"SELECT w, COUNT(DISTINCT patient_id) FROM ({units}) AS t{joined} GROUP BY w"
    found = bound_for_discovery(parse(text, CATALOG).plan, ContributionLimits(5, 2, 3))
    assert found.strategy is strategy
    assert found.measures[0].sensitivity.l1 == most


@pytest.mark.parametrize(
    "steps", [1, 2, 3, MAX_STEPS // 2, MAX_STEPS // 2 + 1, MAX_STEPS, MAX_STEPS + 1, 8 * MAX_STEPS]
)
def test_a_units_part_is_as_fine_as_the_steps_of_a_sum_allow(steps: int) -> None:
    """A count of rows is never coarser than a row; a sum may be, and then each total is rounded."""
    for most in (0, 1, 20):
        fine = bounding._resolution_bits(steps, most, rounds=True)
        assert steps * Fraction(2) ** fine <= MAX_STEPS
        assert fine == most or steps * Fraction(2) ** (fine + 1) > MAX_STEPS
        assert bounding._resolution_bits(steps, most, rounds=False) == max(0, fine)


def test_every_total_that_a_unit_may_touch_can_be_rounded_by_one() -> None:
    """Four rows touch four of 50 totals; a unit of any rows that is scaled to their sum may touch them all."""
    plan = parse("SELECT hospital, SUM(age * 10000000) FROM visits GROUP BY hospital", CATALOG).plan
    rounded = {
        each.strategy: each.measures[0] for each in candidate_bounded_plans(plan, ContributionLimits(4, 4, 4), 50)
    }
    assert {measure.bits for measure in rounded.values()} == {-7}
    units = {strategy: measure.sensitivity.l1 - 4 * measure.size // 2**7 for strategy, measure in rounded.items()}
    assert units[Strategy.SAMPLE] == 4 - 1
    assert units[Strategy.CLIP_L1] == units[Strategy.REWEIGHT] == 50 - 1
    assert rounded[Strategy.CLIP_L2].sensitivity.squares >= (4 * 110 * 10**7 / 2**7 + math.sqrt(50)) ** 2
