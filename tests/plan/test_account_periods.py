"""Which periods a question spends: from its text and what is declared, whatever rows there are."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan import account_periods
from sfumato.plan.catalog import Catalog, catalog_table
from sfumato.plan.descriptions import expression_sql
from sfumato.plan.nodes import Aggregate, Filter, Scan, relations
from sfumato.plan.sql.statements import parse
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Domain, Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

_YEAR = {"bounds": [dt.date(2024, 1, 1), dt.date(2024, 12, 31)]}
ALL = "12 months from 2024-01 to 2024-12"


def _policy(day: dict[str, Any] | None = None, per: str = "month", every: str = "month") -> Policy:
    columns = {
        "day": {"type": "date", **(_YEAR if day is None else day)},
        "cost": {"type": "integer", "bounds": [0, 9]},
        "other": {"type": "date", **_YEAR},
    }
    timed = {"at": {"type": "timestamp"}, "cost": columns["cost"]}
    tables = {
        "visits": Table("visits", [1], columns, id="who", max_rows=3),
        "claims": Table("claims", [1], columns, id="who", max_rows=3),
        "calls": Table("calls", [1], timed, id="who", max_rows=3, period={"column": "at"}),
    }
    return Policy(PrivacyUnit("person", period=every, period_column="day"), Budget(1), tables, per=per)


def _plan(policy: Policy, text: str) -> Aggregate:
    tables = {name: catalog_table(policy, name, table.columns) for name, table in policy.tables.items()}
    return parse(text, Catalog(tables, lambda *_: 1)).plan


def _spent(text: str, policy: Policy | None = None) -> str:
    known = policy or _policy()
    names = account_periods.period_names(account_periods.charged_periods(_plan(known, text), known), known.per)
    return account_periods.describe_periods(names, known.per)


_MET = "a.who = b.who AND DATE_TRUNC('month', a.day) = DATE_TRUNC('month', b.day)"
_MONTH = "DATE_TRUNC('month', day)"
_PER_UNIT = f"SELECT who, {_MONTH} AS m, SUM(cost) AS s FROM visits GROUP BY who, {_MONTH}"
_BY_YEAR = f"SELECT who, {_MONTH} AS m, DATE_TRUNC('year', day) AS y FROM visits GROUP BY who, {_MONTH}, y"
_EARLY = f"EXISTS (SELECT 1 FROM claims b WHERE {_MET} AND b.day < DATE '2024-02-01')"
_SECOND = "'2024-01-31 23:59:59' AND TIMESTAMP '2024-01-31 23:59:59.999999'"
_FEBRUARY, _JULY = "day = DATE '2024-02-29'", "day = DATE '2024-07-01'"
_COUNT = "SELECT COUNT(*) FROM visits"
_BOTH = "SELECT day FROM visits UNION ALL SELECT day FROM claims"
_TWO = f"SELECT day FROM visits WHERE {_FEBRUARY} UNION ALL SELECT day FROM claims WHERE {_JULY}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (_COUNT, ALL),
        (f"{_COUNT} WHERE cost > 3", ALL),
        (f"{_COUNT} WHERE day >= DATE '2024-03-05' AND day < DATE '2024-04-01'", "2024-03"),
        (f"{_COUNT} WHERE day >= DATE '2024-03-05' AND day <= DATE '2024-04-01'", "2024-03 and 2024-04"),
        (f"{_COUNT} WHERE {_FEBRUARY}", "2024-02"),
        (f"{_COUNT} WHERE day > DATE '2024-11-30'", "2024-12"),
        (f"{_COUNT} WHERE day > DATE '2024-11-29'", "2024-11 and 2024-12"),
        (f"{_COUNT} WHERE day < DATE '2024-02-01'", "2024-01"),
        (f"{_COUNT} WHERE NOT day < DATE '2024-12-01'", ALL),
        (f"{_COUNT} WHERE day <> DATE '2024-12-01'", ALL),
        (f"{_COUNT} WHERE day IS NOT NULL", ALL),
        (f"{_COUNT} WHERE day IN (DATE '2024-12-01', DATE '2024-02-01')", "2024-02 and 2024-12"),
        (f"{_COUNT} WHERE {_FEBRUARY} OR day > DATE '2024-12-01'", "2024-02 and 2024-12"),
        (f"{_COUNT} WHERE {_FEBRUARY} OR cost > 3", ALL),
        (f"{_COUNT} WHERE other = DATE '2024-02-29'", ALL),
        (f"SELECT COUNT(*) FILTER (WHERE {_FEBRUARY}) FROM visits", ALL),
        (f"{_COUNT} WHERE DATE_TRUNC('quarter', day) = DATE '2024-04-01'", "2024-04, 2024-05 and 2024-06"),
        (f"{_COUNT} WHERE EXTRACT(year FROM day) = 2024", ALL),
        (f"SELECT COUNT(*) FROM ({_PER_UNIT}) WHERE m = DATE '2024-05-01'", "2024-05"),
        (f"SELECT COUNT(*) FROM ({_PER_UNIT}) WHERE s > 3", ALL),
        (f"SELECT COUNT(*) FROM ({_BY_YEAR}) WHERE y = DATE '2024-01-01'", ALL),
        (f"SELECT COUNT(*) FROM ({_BY_YEAR}) WHERE y = DATE '2024-01-01' AND m = DATE '2024-05-01'", "2024-05"),
        (f"{_COUNT} a JOIN claims b ON {_MET} WHERE b.day < DATE '2024-02-01'", "2024-01"),
        (f"{_COUNT} a LEFT JOIN claims b ON {_MET} WHERE a.day < DATE '2024-02-01'", "2024-01"),
        (f"{_COUNT} a WHERE {_EARLY}", "2024-01"),
        (f"{_COUNT} a WHERE NOT {_EARLY}", ALL),
        (f"SELECT COUNT(*) FROM ({_TWO})", "2024-02 and 2024-07"),
        (f"SELECT COUNT(*) FROM ({_BOTH}) WHERE {_FEBRUARY}", "2024-02"),
        (f"SELECT COUNT(*) FROM (SELECT day FROM visits UNION ALL SELECT other FROM claims) WHERE {_FEBRUARY}", ALL),
        (f"SELECT COUNT(*) FROM calls WHERE at BETWEEN TIMESTAMP {_SECOND}", "2024-01"),
        ("SELECT COUNT(*) FROM calls WHERE CAST(at AS DATE) = DATE '2024-01-31'", "2024-01"),
    ],
)  # fmt: skip
def test_periods_follow_from_the_text(text: str, wanted: str) -> None:
    assert _spent(text) == wanted


@pytest.mark.parametrize(
    ("per", "every", "wanted"),
    [
        ("day", "day", "2024-02-29, 2024-03-01 and 2024-03-02"),
        ("week", "week", "2024-W09"),
        ("quarter", "month", "2024-Q1"),
        ("year", "day", "2024"),
    ],
)
def test_periods_of_every_length(per: str, every: str, wanted: str) -> None:
    text = "SELECT COUNT(*) FROM visits WHERE day BETWEEN DATE '2024-02-29' AND DATE '2024-03-02'"
    assert _spent(text, _policy(per=per, every=every)) == wanted


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT COUNT(*) FROM visits", "too-many-periods"),
        ("SELECT COUNT(*) FROM visits WHERE day < DATE '2024-02-01'", "too-many-periods"),
        ("SELECT COUNT(*) FROM visits WHERE day > DATE '2024-02-01' AND day < DATE '2023-02-01'", "no-period"),
    ],
)
def test_without_bounds_a_condition_is_needed(text: str, code: str) -> None:
    with pytest.raises(Unsupported) as refused:
        _spent(text, _policy({}))
    assert code in str(refused.value)


def test_every_scan_keeps_to_the_periods() -> None:
    policy = _policy()
    plan = _plan(policy, f"SELECT COUNT(*) FROM visits a JOIN claims b ON {_MET} WHERE a.day = DATE '2024-02-29'")
    periods = account_periods.charged_periods(plan, policy)
    made = account_periods.restrict_to_periods(plan, policy, periods)
    assert not account_periods.reads_only_periods(plan.source, policy, periods)
    assert account_periods.reads_only_periods(made.source, policy, periods)
    assert account_periods.reads_only_periods(
        made.source, policy, account_periods.parse_periods(("2024-01", "2024-02"), "month")
    )
    assert not account_periods.reads_only_periods(
        made.source, policy, account_periods.parse_periods(("2024-01", "2024-03"), "month")
    )
    assert account_periods.restrict_to_periods(made, policy, periods) == made
    held = [node.input for node in relations(made.source) if isinstance(node, Filter) and isinstance(node.input, Scan)]
    assert {scan.table for scan in held} == {"visits", "claims"}
    assert account_periods.charged_periods(made, policy) == periods


_FIRST = "ROW_NUMBER() OVER (PARTITION BY who, DATE_TRUNC('month', day) ORDER BY cost)"
_EXISTS = f"EXISTS (SELECT 1 FROM claims b WHERE {_MET})"
_TREES = {
    "a table": (_COUNT, 1),
    "a join": (f"{_COUNT} a JOIN claims b ON {_MET}", 2),
    "an outer join": (f"{_COUNT} a LEFT JOIN claims b ON {_MET}", 2),
    "EXISTS": (f"{_COUNT} a WHERE {_EXISTS}", 2),
    "NOT EXISTS": (f"{_COUNT} a WHERE NOT {_EXISTS}", 2),
    "a condition beside EXISTS": (f"{_COUNT} a WHERE {_EXISTS[:-1]} AND a.cost < b.cost)", 2),
    "EXISTS in a join": (f"{_COUNT} a JOIN claims c ON {_MET.replace('b.', 'c.')} WHERE {_EXISTS}", 3),
    "a union": (f"SELECT COUNT(*) FROM ({_BOTH})", 2),
    "units": (f"SELECT COUNT(*) FROM ({_PER_UNIT})", 1),
    "a window": (f"SELECT COUNT(*) FROM (SELECT cost, {_FIRST} AS n FROM visits) WHERE n <= 2", 1),
}


_MARCH = account_periods.parse_periods(("2024-03",), "month")


@pytest.mark.parametrize("tree", _TREES)
def test_whatever_the_tree_every_scan_in_it_is_held_to_the_periods(tree: str) -> None:
    """Nothing is read that is not paid for: rows of another account would meet none that are kept, but that is no
    reason to read them.
    """
    policy, (text, tables) = _policy(), _TREES[tree]
    held = account_periods.restrict_to_periods(_plan(policy, text), policy, _MARCH)
    above = {id(below): node for node in relations(held.source) for below in node.inputs}
    scans = [node for node in relations(held.source) if isinstance(node, Scan)]
    assert len(scans) == tables
    for scan in scans:
        kept = above[id(scan)]
        assert isinstance(kept, Filter)
        assert (
            expression_sql(kept.predicate).replace(f"{scan.table}.", "")
            == "((day >= '2024-03-01') AND (day < '2024-04-01'))"
        )


@pytest.mark.parametrize("tree", _TREES)
def test_one_scan_that_is_not_held_to_the_periods_is_noticed(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, (text, _) = _policy(), _TREES[tree]
    plan, within = _plan(policy, text), account_periods._period_condition
    assert account_periods.reads_only_periods(
        account_periods.restrict_to_periods(plan, policy, _MARCH).source, policy, _MARCH
    )
    for free in [node.source for node in relations(plan.source) if isinstance(node, Scan)]:
        with monkeypatch.context() as patch:
            patch.setattr(
                account_periods,
                "_period_condition",
                lambda scan, *given, free=free: None if scan.source == free else within(scan, *given),
            )
            broken = account_periods.restrict_to_periods(plan, policy, _MARCH)
        assert not account_periods.reads_only_periods(broken.source, policy, _MARCH)


def test_all_declared_periods_need_no_condition() -> None:
    policy = _policy()
    plan = _plan(policy, "SELECT COUNT(*) FROM visits")
    assert account_periods.restrict_to_periods(plan, policy, account_periods.charged_periods(plan, policy)) == plan


def test_rows_outside_of_a_tables_own_bounds_are_not_taken_for_others() -> None:
    """Where one table ends before another begins, none of its rows are of the periods that are spent."""
    whole = _policy()
    early = {"bounds": [dt.date(2024, 1, 1), dt.date(2024, 3, 31)]}
    columns = {**whole.tables["visits"].columns, "day": {"type": "date", **early}}
    visits = Table("visits", [1], columns, id="who", max_rows=3)
    policy = replace(whole, tables={**whole.tables, "visits": visits})
    text = f"SELECT COUNT(*) FROM ({_BOTH}) WHERE day >= DATE '2024-07-01'"
    plan = _plan(policy, text)
    made = account_periods.restrict_to_periods(plan, policy, account_periods.charged_periods(plan, policy))
    filters = [node for node in relations(made.source) if isinstance(node, Filter) and isinstance(node.input, Scan)]
    for each in filters:
        assert expression_sql(each.predicate).endswith("day >= '2024-07-01')")
    assert len(filters) == 2


def test_intervals_meet_and_join() -> None:
    meet, join = account_periods._intersect_intervals, account_periods._union_of_intervals
    assert meet(((1, 5), (8, 9)), ((4, 8),)) == ((4, 5), (8, 8))
    assert meet(((1, 5),), ((6, 9),)) == ()
    assert meet((), ((6, 9),)) == ()
    assert join([((4, 5),), ((1, 2), (9, 9))]) == ((1, 2), (4, 5), (9, 9))
    assert join([((1, 3),), ((4, 5),)]) == ((1, 5),)
    assert join([((1, 9),), ((2, 3),), ((11, 12),)]) == ((1, 9), (11, 12))
    assert join([((1, 2), (5, 6)), ((6, 8),)]) == ((1, 2), (5, 8))
    assert join([]) == ()


@pytest.mark.parametrize(
    ("per", "name", "start"),
    [
        ("day", "2024-02-29", dt.date(2024, 2, 29)),
        ("week", "2024-W01", dt.date(2024, 1, 1)),
        ("week", "2020-W53", dt.date(2020, 12, 28)),
        ("month", "2024-12", dt.date(2024, 12, 1)),
        ("quarter", "2024-Q1", dt.date(2024, 1, 1)),
        ("quarter", "2024-Q2", dt.date(2024, 4, 1)),
        ("quarter", "2024-Q4", dt.date(2024, 10, 1)),
        ("year", "0007", dt.date(7, 1, 1)),
    ],
)
def test_names_of_periods_are_read_back(per: str, name: str, start: dt.date) -> None:
    number = account_periods.parse_period(name, per)
    assert calendar.period_start(per, number) == start
    assert account_periods.period_names(((number, number + 1),), per)[0] == name
    assert len(account_periods.period_names(((number, number + 1),), per)) == 2
    assert account_periods.parse_periods([name, name], per) == ((number, number),)


@pytest.mark.parametrize(
    ("per", "name"),
    [("day", "2024-2-29"), ("week", "2024-W54"), ("week", "2024-1"), ("month", "2024-13"), ("quarter", "2024-Q5"),
     ("quarter", "2024-Q0"), ("year", "24"), ("year", 2024), ("month", "2024-1")],
)  # fmt: skip
def test_other_names_of_periods_are_refused(per: str, name: Any) -> None:
    with pytest.raises(InvalidParameter, match="period"):
        account_periods.parse_period(name, per)


def test_a_question_is_charged_to_so_many_accounts_at_most() -> None:
    first = dt.date(2020, 1, 1)
    for days, is_refused in ((2000, False), (2001, True)):
        policy = _policy({"bounds": [first, first + dt.timedelta(days=days - 1)]}, per="day", every="day")
        if is_refused:
            with pytest.raises(Unsupported, match="2,000 days"):
                account_periods.charged_periods(_plan(policy, _COUNT), policy)
        else:
            ((low, high),) = account_periods.charged_periods(_plan(policy, _COUNT), policy)
            assert high - low + 1 == days


@pytest.mark.parametrize(
    ("first", "last", "conditions"),
    [
        (2, 3, [">= '2024-02-01'", "< '2024-04-01'"]),
        (1, 3, ["< '2024-04-01'"]),
        (2, 12, [">= '2024-02-01'"]),
        (1, 12, []),
    ],
)
def test_conditions_that_keep_rows_to_an_interval(first: int, last: int, conditions: list[str]) -> None:
    """Without those that the bounds imply; a moment in the last period is before the next one starts."""
    number = calendar.period_number("month", dt.date(2024, 1, 1)) - 1
    for kind, midnight in (("date", ""), ("timestamp", " 00:00:00")):
        column = Column(Field(0, "visits", "day"), Domain(kind))
        found = account_periods._interval_conditions(
            column, number + first, number + last, (number + 1, number + 12), "month"
        )
        wanted = [f"(day {each[:-1]}{midnight}')" for each in conditions]
        assert [expression_sql(each) for each in found] == wanted
