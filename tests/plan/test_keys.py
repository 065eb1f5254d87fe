"""Groups come from the policy: every key is there, impossible ones are not."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import pytest

import sfumato as sf
from plan.described import CATALOG, VISITS
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unsupported
from sfumato.plan import costs, keys as plan_keys
from sfumato.plan.aggregates.unit_measures import UnitRowCount
from sfumato.plan.keys import conditions_met_by_rows, possible_group_keys, undeclared_key_indices
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Filter, GroupValues, LimitRowsPerUnit, PerUnit, Scan, SemiJoin, UnitJoin
from sfumato.plan.sql.statements import parse
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type


@pytest.fixture(scope="module")
def engine() -> DuckDB:
    import pyarrow

    columns = {name: pyarrow.array([], pyarrow.string()) for name in VISITS}
    empty = pyarrow.table({**columns, "patient_id": pyarrow.array([], pyarrow.int64())})
    table = sf.Table("visits", empty, VISITS, id="patient_id", max_rows=1)
    return DuckDB(sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(1), {"visits": table}))


def keys(engine: DuckDB, expressions: str) -> tuple[GroupValues, ...]:
    query = parse(f"SELECT COUNT(*) AS n FROM visits GROUP BY {expressions}", CATALOG)
    return possible_group_keys(query.plan.keys, engine.values)


def test_no_group_is_one_group(engine: DuckDB) -> None:
    assert possible_group_keys((), engine.values) == ((),)


def test_declared_values_are_the_keys_in_their_order(engine: DuckDB) -> None:
    assert keys(engine, "region") == (("north",), ("south",), ("east",), ("west",))


def test_a_bucket_of_a_bounded_column(engine: DuckDB) -> None:
    assert keys(engine, "FLOOR(age / 10) * 10") == tuple((10 * k,) for k in range(12))


def test_a_case_has_the_values_it_can_have(engine: DuckDB) -> None:
    assert set(keys(engine, "CASE WHEN age < 18 THEN 'child' WHEN age > 200 THEN 'giant' ELSE 'adult' END")) == {
        ("child",),
        ("adult",),
    }


def test_buckets_of_a_declared_range(engine: DuckDB) -> None:
    """Of days by the days themselves, of times by the hour or by the starts in the range."""
    found = keys(engine, "TIME_BUCKET(INTERVAL '2 weeks', day)")
    assert found[0] == (calendar.Bucket(2, "week", calendar.MONDAY).start_of(dt.date(2024, 1, 1)),)
    assert len(found) == 27
    assert len(keys(engine, "TIME_BUCKET(INTERVAL '6 hours', at), EXTRACT(dow FROM at)")) == 8
    assert len(keys(engine, "TIME_BUCKET(INTERVAL '5 minutes', at)")) == 48 * 12
    assert keys(engine, "DATE_TRUNC('decade', day)") == ((dt.date(2020, 1, 1),),)
    assert keys(engine, "EXTRACT(yearweek FROM day)")[-1] == (202501,)
    assert (202453,) not in keys(engine, "EXTRACT(yearweek FROM day)")


def test_months_of_a_declared_year(engine: DuckDB) -> None:
    found = keys(engine, "DATE_TRUNC('month', day)")
    assert found[0] == (dt.date(2024, 1, 1),)
    assert len(found) == 12


def test_keys_over_one_column_are_found_together(engine: DuckDB) -> None:
    """Months and quarters of the same day: twelve pairs, not forty-eight."""
    assert len(keys(engine, "DATE_TRUNC('month', day), EXTRACT(quarter FROM day)")) == 12
    assert len(keys(engine, "EXTRACT(quarter FROM day), region")) == 16


def test_hours_of_a_declared_time(engine: DuckDB) -> None:
    assert len(keys(engine, "DATE_TRUNC('hour', at)")) == 48
    assert len(keys(engine, "EXTRACT(hour FROM at)")) == 24
    assert len(keys(engine, "DATE_TRUNC('minute', at)")) == 48 * 60


def test_rounded_reals_are_keys(engine: DuckDB) -> None:
    assert keys(engine, "FLOOR(cost)") == tuple((k,) for k in range(5001))
    assert keys(engine, "TRUNC(cost / 1000)") == tuple((k,) for k in range(6))
    assert keys(engine, "CEIL(-cost / 1000)") == tuple((k,) for k in range(-5, 1))
    assert keys(engine, "ROUND(cost, -3)") == tuple((1000 * k,) for k in range(6))
    assert keys(engine, "ROUND(cost / 5000, 1)") == tuple((Fraction(k, 10),) for k in range(11))
    assert keys(engine, "FLOOR(cost / 1000) * 1000") == tuple((1000 * k,) for k in range(6))
    assert keys(engine, "CAST(cost / 1000 AS INTEGER) * 1000") == tuple((1000 * k,) for k in range(6))
    assert keys(engine, "CAST(FLOOR(cost / 100) AS INTEGER) // 10") == tuple((k,) for k in range(6))
    assert keys(engine, "WIDTH_BUCKET(cost, 0, 5000, 5) * 10") == tuple((10 * k,) for k in range(1, 7))
    assert keys(engine, "CAST(CAST(cost / 2500 AS INTEGER) AS VARCHAR) || '!'") == (("0!",), ("1!",), ("2!",))
    assert len(keys(engine, "FLOOR(cost / 1000), ROUND(cost, -3), region")) == 6 * 6 * 4


def test_conditions_narrow_rounded_reals(engine: DuckDB) -> None:
    text = "SELECT COUNT(*) FROM visits WHERE cost BETWEEN 1500 AND 2999 AND age > 5 GROUP BY FLOOR(cost / 1000) * 1000"
    query = parse(text, CATALOG)
    assert possible_group_keys(query.plan.keys, engine.values, conditions_met_by_rows(query.plan.source)) == (
        (1000,),
        (2000,),
    )
    text = "SELECT COUNT(*) FROM visits WHERE age > cost AND age < 10 GROUP BY FLOOR(cost / 1000) * 1000, age // 5"
    query = parse(text, CATALOG)
    assert len(possible_group_keys(query.plan.keys, engine.values, conditions_met_by_rows(query.plan.source))) == 6 * 2


@pytest.mark.parametrize("text", ["FLOOR(score)", "FLOOR(cost) + cost", "ROUND(cost, 3)", "FLOOR(cost * 1e6)", "-cost"])
def test_reals_with_too_many_values_are_refused(engine: DuckDB, text: str) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        keys(engine, text)
    assert refusal.value.code == "unknown-keys"


def test_dates_in_words_stand_as_time_goes_by(engine: DuckDB) -> None:
    assert keys(engine, "STRFTIME(day, '%b %Y')")[:2] == (("Jan 2024",), ("Feb 2024",))
    assert [key[0] for key in keys(engine, "MONTHNAME(day)")] == list(calendar.MONTHS)
    assert [key[0] for key in keys(engine, "DAYNAME(day)")] == list(calendar.WEEKDAYS)
    assert len(keys(engine, "STRFTIME(day, '%d.%m.')")) == 366
    assert keys(engine, "STRFTIME(at, '%d, %H h')")[23:25] == (("01, 23 h",), ("02, 00 h",))
    found = keys(engine, "STRFTIME(day, '%B'), EXTRACT(quarter FROM day)")
    assert found[:4] == (("January", 1), ("February", 1), ("March", 1), ("April", 2))
    assert keys(engine, "CASE WHEN age > 5 THEN 'a' END, DAYNAME(day)")[-1] == (None, "Sunday")
    with pytest.raises(sf.Unsupported, match="unknown-keys"):
        keys(engine, "STRFTIME(at, '%H:%M')")


def test_null_is_a_key_only_where_it_may_be(engine: DuckDB) -> None:
    assert keys(engine, "urgent") == ((False,), (True,))
    assert (None,) in keys(engine, "CASE WHEN age > 5 THEN 'old' END")
    assert ("none",) in keys(engine, "COALESCE(region, 'none')")


@pytest.mark.parametrize("text", ["ward", "score", "LOWER(ward)", "cost", "at"])
def test_unknown_keys_are_not_listed(engine: DuckDB, text: str) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        keys(engine, text)
    assert refusal.value.code == "unknown-keys"
    plan = parse(f"SELECT region, {text}, COUNT(*) FROM visits GROUP BY 1, 2", engine.catalog()).plan
    assert undeclared_key_indices(plan.keys) == (1,)


def test_a_condition_that_lists_the_values_declares_them(engine: DuckDB) -> None:
    for condition, found in (("ward IN ('a', 'b')", ()), ("ward = 'a'", ()), ("ward <> 'a'", (0,)), ("age > 5", (0,))):
        plan = parse(f"SELECT ward, COUNT(*) FROM visits WHERE {condition} GROUP BY ward", engine.catalog()).plan
        assert undeclared_key_indices(plan.keys, conditions_met_by_rows(plan.source)) == found


def test_too_many_groups_are_refused(engine: DuckDB) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        keys(engine, "age, day, hospital")
    assert refusal.value.code == "too-many-groups"


def kept(engine: DuckDB, expressions: str, where: str) -> list[object]:
    """The groups of a question with a condition; a single key as its value."""
    plan = parse(f"SELECT COUNT(*) AS n FROM visits WHERE {where} GROUP BY {expressions}", CATALOG).plan
    found = possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source))
    every = possible_group_keys(plan.keys, engine.values)
    assert [key for key in every if key in set(found)] == list(found)  # the same groups in the same order, but fewer
    return [key[0] if len(key) == 1 else key for key in found]


def test_groups_that_no_row_can_be_in_are_left_out(engine: DuckDB) -> None:
    """WHERE year BETWEEN 2010 AND 2012 answered 32 years, 29 of them noise."""
    assert kept(engine, "age", "age BETWEEN 10 AND 12") == [10, 11, 12]
    assert kept(engine, "age", "age > 107 AND urgent") == [108, 109, 110]
    assert kept(engine, "region", "region <> 'south' AND region IN ('west', 'north')") == ["north", "west"]
    assert kept(engine, "FLOOR(age / 10) * 10", "age < 25") == [0, 10, 20]
    assert kept(engine, "EXTRACT(month FROM day)", "day >= DATE '2024-11-03'") == [11, 12]
    assert kept(engine, "EXTRACT(hour FROM at)", "EXTRACT(hour FROM at) < 3") == [0, 1, 2]
    assert kept(engine, "EXTRACT(hour FROM at)", "at < TIMESTAMP '2024-01-01 02:30:00'") == [0, 1, 2]
    assert kept(engine, "age, region", "age = 3 AND region = 'east'") == [(3, "east")]
    assert kept(engine, "urgent", "NOT urgent") == [False]
    assert kept(engine, "COALESCE(region, 'none')", "region IS NULL") == ["none"]


def test_groups_stay_unless_the_condition_is_about_them_alone(engine: DuckDB) -> None:
    assert kept(engine, "region", "region = 'south' OR age > 3") == ["north", "south", "east", "west"]
    assert kept(engine, "region", "age > 3 AND ward = 'x'") == ["north", "south", "east", "west"]
    assert len(kept(engine, "age", "age + hospital > 100")) == 111


def test_conditions_of_subqueries_count_too(engine: DuckDB) -> None:
    text = "WITH s AS (SELECT age AS a FROM visits WHERE age > 50) SELECT a, COUNT(*) FROM s WHERE a < 53 GROUP BY a"
    plan = parse(text, CATALOG).plan
    assert possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source)) == ((51,), (52,))


def test_a_condition_that_no_row_can_meet_is_refused(engine: DuckDB) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        kept(engine, "age", "age > 200")
    assert refusal.value.code == "no-groups"


def test_dear_conditions_leave_every_group(engine: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.plan.keys.MAX_STEPS", 100)
    assert len(kept(engine, "age", "age % 7 = 3")) == 111
    assert kept(engine, "age", "age % 2 = 0 AND age BETWEEN 10 AND 12") == [10, 11, 12]


def test_rows_are_in_no_group_that_was_left_out(engine: DuckDB) -> None:
    """The engine's own word for it: of all declared values, those that meet the condition are in the groups kept."""
    for where in ("age % 7 = 3", "age < 5 OR age > 105", "NOT (age >= 3)", "SQRT(age) = FLOOR(SQRT(age))"):
        plan = parse(f"SELECT COUNT(*) AS n FROM visits WHERE {where} GROUP BY age", CATALOG).plan
        found = possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source))
        met = engine.sources.run(f"SELECT age FROM (SELECT unnest(range(111)) AS age) WHERE {where} ORDER BY age")
        assert list(found) == met


def test_keys_that_share_columns_are_counted_before_they_are_listed(engine: DuckDB) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        keys(
            engine,
            "DATE_TRUNC('minute', at), EXTRACT(minute FROM at), WIDTH_BUCKET(EXTRACT(minute FROM at), 0, 60, 60)",
        )
    assert refusal.value.code == "too-many-groups"


def test_rows_without_a_match_have_a_group_unless_the_condition_is_about_what_they_lack(engine: DuckDB) -> None:
    text = "SELECT COUNT(*) FROM visits LEFT JOIN hospitals h ON hospital = h.id WHERE {} GROUP BY city"
    expected = {
        "age > 3": ["Ulm", "Bonn", None],
        "city = 'Ulm' OR city IS NULL": ["Ulm", None],
        "city <> 'Ulm'": ["Bonn"],
    }
    for where, cities in expected.items():
        plan = parse(text.format(where), CATALOG).plan
        assert [
            key[0] for key in possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source))
        ] == cities


def test_conditions_hold_where_whole_rows_are_kept() -> None:
    """What is asked of the right of an outer join does not hold for rows without a match; nor for what is found of a
    unit's rows.
    """
    domain = Domain("integer", bounds=(0, 9))
    left, right = (
        Scan("t", False, number, {Field(number, "t", "x"): domain}, ContributionLimits(3, 3, 3)) for number in (0, 1)
    )
    small = [call("<", Column(Field(number, "t", "x"), domain), literal(Type.INTEGER, 5)) for number in (0, 1)]
    for outer, held in ((False, {*small}), (True, {small[0]})):
        both = UnitJoin(Filter(left, small[0]), Filter(right, small[1]), (), None, outer)
        assert set(conditions_met_by_rows(LimitRowsPerUnit(both, 2))) == held
    assert conditions_met_by_rows(PerUnit(Filter(left, small[0]), 2, (), (("n", UnitRowCount(None, 3)),))) == ()
    assert conditions_met_by_rows(SemiJoin(Filter(left, small[0]), Filter(right, small[1]), (), None, False)) == (
        small[0],
    )
    by = PerUnit(Filter(left, small[0]), 2, (("x", Column(Field(0, "t", "x"), domain)),), ())
    assert conditions_met_by_rows(by) == (call("<", Column(Field(2, "", "x"), domain), literal(Type.INTEGER, 5)),)


def test_keys_of_units_are_narrowed_by_what_their_rows_meet(engine: DuckDB) -> None:
    inner = "SELECT patient_id, hospital, COUNT(*) AS n FROM visits WHERE hospital <= 3 AND age > 9 GROUP BY ALL"
    plan = parse(f"SELECT hospital, AVG(n) FROM ({inner}) GROUP BY hospital", CATALOG).plan
    assert possible_group_keys(plan.keys, engine.values, conditions_met_by_rows(plan.source)) == ((1,), (2,), (3,))


# The parts that lists of keys are made of, at their edges


def reference(name: str) -> Column:
    return Column(Field(0, "t", name), Domain("integer"))


def test_spans_of_numbers_days_and_hours() -> None:
    assert list(plan_keys.KeySpan(3, 4)) == [3, 4, 5, 6]
    assert list(plan_keys.KeySpan(dt.date(2024, 2, 28), 3)) == [
        dt.date(2024, 2, 28),
        dt.date(2024, 2, 29),
        dt.date(2024, 3, 1),
    ]
    assert list(plan_keys.KeySpan(dt.datetime(2024, 1, 1, 23), 2)) == [
        dt.datetime(2024, 1, 1, 23),
        dt.datetime(2024, 1, 2),
    ]
    assert len(plan_keys.KeySpan(3, 4)) == 4


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (Domain("integer", bounds=(-2, 1)), [-2, -1, 0, 1]),
        (Domain("integer", values=(5, 1)), [5, 1]),
        (Domain("integer"), None),
        (Domain("boolean"), [False, True]),
        (Domain("date", bounds=("2024-01-31", "2024-02-01")), [dt.date(2024, 1, 31), dt.date(2024, 2, 1)]),
        (Domain("text"), None),
        (Domain("real", bounds=(0, 1)), None),
        (Domain("timestamp", bounds=("2024-01-01 00:00:00", "2024-01-01 02:00:00")), None),
    ],
)
def test_the_values_of_a_domain(domain: Domain, expected: list[Any] | None) -> None:
    choices = plan_keys._domain_choices(domain)
    assert (None if choices is None else list(choices)) == expected


def test_no_more_values_are_listed_than_are_allowed() -> None:
    assert plan_keys.MAX_COMBINATIONS == plan_keys.MAX_GROUPS == 200_000
    most = plan_keys._domain_choices(Domain("integer", bounds=(1, 200_000)))
    assert most is not None
    assert len(most) == 200_000
    assert plan_keys._domain_choices(Domain("integer", bounds=(1, 200_001))) is None
    hours = plan_keys._hour_span_if_short(Domain("timestamp", bounds=("2024-01-01 10:30:00", "2024-01-01 12:00:00")))
    assert list(hours or ()) == [dt.datetime(2024, 1, 1, hour) for hour in (10, 11, 12)]
    before = plan_keys._hour_span_if_short(Domain("timestamp", bounds=("2024-01-01 10:00:00", "2024-01-01 11:59:59")))
    assert list(before or ()) == [dt.datetime(2024, 1, 1, hour) for hour in (10, 11)]


def test_starts_of_periods_within_a_range() -> None:
    january, may = dt.date(2024, 1, 1), dt.date(2024, 5, 1)
    assert plan_keys._starts_within(january, january, may, 2, "month") == (january, dt.date(2024, 3, 1), may)
    assert plan_keys._starts_within(january, dt.date(2024, 1, 2), dt.date(2024, 4, 30), 1, "month") == tuple(
        dt.date(2024, month, 1) for month in (2, 3, 4)
    )
    last = january + dt.timedelta(days=plan_keys.MAX_STARTS - 1)
    assert len(plan_keys._starts_within(january, january, last, 1, "day") or ()) == plan_keys.MAX_STARTS == 10_000
    assert plan_keys._starts_within(january, january, last + dt.timedelta(days=1), 1, "day") is None
    assert plan_keys._starts_within(dt.date(9999, 12, 1), january, dt.date.max, 1, "month") == (dt.date(9999, 12, 1),)


def test_columns_that_are_shared_link_keys() -> None:
    a, b, c, d = ({reference(name).reference} for name in "abcd")
    assert plan_keys._connected_components([a, b, c]) == [(0,), (1,), (2,)]
    assert plan_keys._connected_components([a, b, a | b]) == [(0, 1, 2)]
    assert plan_keys._connected_components([a | b, c | d, b, d | c, set()]) == [(0, 2), (1, 3), (4,)]
    assert plan_keys._connected_components([]) == []


def test_keys_are_sorted_with_null_last_and_as_numbers() -> None:
    values = [(None,), (Fraction(1, 3),), (Fraction(-2),), (Fraction(10),)]
    assert sorted(values, key=plan_keys.group_sort_key) == [(-2,), (Fraction(1, 3),), (10,), (None,)]
    assert plan_keys.group_sort_key((None, 3)) == ((True, 0), (False, 3))
    required, nullable = (
        Column(Field(0, "t", "x"), Domain("integer")),
        Column(Field(0, "t", "y"), Domain("integer", nullable=True)),
    )
    pairs: list[Any] = [(2, None), (None, 1), (1, 5), (2, 1)]
    assert plan_keys._sorted_existing_keys(pairs, [required, nullable]) == [(1, 5), (2, 1), (2, None)]
    assert plan_keys._sorted_existing_keys(pairs, [required, required]) == [(1, 5), (2, 1)]
    assert plan_keys._sorted_existing_keys(pairs, [nullable, nullable]) == [(1, 5), (2, 1), (2, None), (None, 1)]


def test_combinations_count_null_beside_the_values() -> None:
    x, y = reference("x"), reference("y")
    world = plan_keys.ValueCombinations(
        ((x.reference, x.domain, (1, 2)), (y.reference, y.domain, plan_keys.KeySpan(1, 4))), (x, y)
    )
    assert world.combination_count == 3 * 5
    wide = plan_keys.ValueCombinations(((x.reference, x.domain, plan_keys.KeySpan(1, 199_999)),), (x,))
    assert plan_keys.can_enumerate(wide)
    wider = plan_keys.ValueCombinations(((x.reference, x.domain, plan_keys.KeySpan(1, 200_000)),), (x,))
    assert not plan_keys.can_enumerate(wider)
    product = [Column(Field(0, "t", name), Domain("integer", bounds=(1, 400))) for name in "xy"]
    assert (
        len(plan_keys._key_product([product[0], Column(Field(0, "t", "z"), Domain("integer", bounds=(1, 500)))]))
        == 200_000
    )
    with pytest.raises(Unsupported, match="200,000 groups"):
        plan_keys._key_product([product[0], Column(Field(0, "t", "z"), Domain("integer", bounds=(1, 501)))])


def test_costs_of_evaluating_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = reference("x")
    dear = call("+", x, literal(Type.INTEGER, 1))
    steps = costs.max_evaluation_steps((dear,))
    assert steps > 0
    world = plan_keys.ValueCombinations(((x.reference, x.domain, (1, 2)),), (dear,), (dear,))
    monkeypatch.setattr(plan_keys, "MAX_STEPS", 3 * 2 * steps)
    assert plan_keys.can_enumerate(world)
    monkeypatch.setattr(plan_keys, "MAX_STEPS", 3 * 2 * steps - 1)
    assert not plan_keys.can_enumerate(world)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("2024-01-01 10:17:35.250", "2024-01-01 13:05:00"),
        ("2024-01-01 10:00:00", "2024-01-01 13:00:00"),
        ("2024-01-01 10:59:59", "2024-01-01 10:59:59.5"),
        ("2024-01-01 22:00:00.5", "2024-01-02 01:59:59"),
    ],
)
def test_hours_of_a_range_are_those_that_its_moments_lie_in(low: str, high: str) -> None:
    first, last = dt.datetime.fromisoformat(low), dt.datetime.fromisoformat(high)
    quarters = (first + dt.timedelta(minutes=15 * step) for step in range((last - first) // dt.timedelta(minutes=15)))
    hours = sorted({dt.datetime(*moment.timetuple()[:4]) for moment in (*quarters, last)})
    span = plan_keys._hour_span_if_short(Domain("timestamp", bounds=(low, high)))
    assert span is not None
    assert [*span] == hours
