"""A unit of a period that did not pay changes nothing that is read: exact totals stay the same to the last row.

Rows lie before, on, beside and beyond the declared bounds, which are in the middle of a period. A unit is added in each
period in turn; where its account is not among those that a question spends, every total must stay as it was.
"""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from engine.refilling import refill
from engine.tables import tuples
from safety.worlds import changes
from sfumato.curator.context import Context
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import InvalidParameter
from sfumato.ledger.guarded import Periods
from sfumato.plan import account_periods
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.plan.values import calendar
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit
from sfumato.release.running_work import ignore_progress

LOW, HIGH = dt.date(2024, 2, 7), dt.date(2024, 5, 16)
_NEW = 99
_KINDS = {"who": pa.int64(), "visit": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us"), "cost": pa.int64()}
Row = tuple[int, int, dt.date, int]
Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class _Accounts:
    """What a question needs of its account while nothing is released."""

    periods: Periods = ()

    def for_periods(self, periods: Periods) -> _Accounts:
        return _Accounts(periods)


def _table(rows: list[Row]) -> pa.Table:
    late = dt.time(23, 59, 59)
    cells = [(who, visit, day, dt.datetime.combine(day, late), cost) for who, visit, day, cost in rows]
    kinds = enumerate(_KINDS.items())
    return pa.table({name: pa.array([row[at] for row in cells], kind) for at, (name, kind) in kinds})


def _policy(rows: Rows, every: str, per: str | None) -> Policy:
    day = {"type": "date", "bounds": [LOW, HIGH]}
    at = {"type": "timestamp", "bounds": [dt.datetime(2024, 2, 7), dt.datetime(2024, 5, 16, 12)]}
    plain = {"visit": {"type": "integer"}, "cost": {"type": "integer", "bounds": [0, 10]}}
    ids: dict[str, Any] = {"visits": "who", "claims": "who", "calls": "who", "drugs": {"via": "visits", "on": "visit"}}
    tables = {
        name: Table(
            name,
            _table(rows[name]),
            {"at": at, **plain} if name == "calls" else {"day": day, **plain},
            id=whose,
            max_rows=3,
            period={"column": "at"} if name == "calls" else None,
        )
        for name, whose in ids.items()
    }
    unit = PrivacyUnit("person", period=every, period_column="day")
    return Policy(unit, Budget(3, "1e-6"), tables, per=per)


def _engine(policy: Policy) -> DuckDB:
    return DuckDB(policy, threads=1)


def _questions(every: str) -> list[str]:
    dated = "{0}day" if every == "day" else f"DATE_TRUNC('{every}', {{0}}day)"
    visits, calls = dated.format(""), f"DATE_TRUNC('{every}', at)"
    spring, may = "day >= DATE '2024-03-04' AND {0}day < DATE '2024-04-01'", "DATE '2024-05-02'"
    here, there = spring.format(""), "a." + spring.format("a.")
    met = f"a.who = b.who AND {dated.format('a.')} = {dated.format('b.')}"
    early = "SELECT day AS d, cost FROM visits WHERE day < DATE '2024-03-01'"
    union = f"{early} UNION ALL SELECT CAST(at AS DATE) AS d, cost FROM calls"
    per_unit = f"SELECT who, {visits} AS p, SUM(cost) AS s FROM visits WHERE {{0}} GROUP BY who, {visits}"
    largest = f"SELECT who, {calls} AS p, MAX(cost) AS s FROM calls GROUP BY who, {calls}"
    first = f"ROW_NUMBER() OVER (PARTITION BY who, {visits} ORDER BY cost)"
    exists = f"EXISTS (SELECT 1 FROM claims b WHERE {met})"
    return [
        "SELECT COUNT(*), SUM(cost) FROM visits",
        f"SELECT COUNT(*), SUM(cost) FROM visits WHERE {here}",
        f"SELECT COUNT(*) FROM visits WHERE day > {may}",
        "SELECT COUNT(*) FROM visits WHERE day <= DATE '2024-02-20' OR day = DATE '2024-04-30'",
        f"SELECT COUNT(*) FROM visits WHERE day IN (DATE '2024-02-09', {may})",
        "SELECT COUNT(*) FROM visits WHERE EXTRACT(month FROM day) = 3",
        "SELECT day, COUNT(*) FROM visits WHERE DATE_TRUNC('month', day) = DATE '2024-04-01' GROUP BY day",
        "SELECT COUNT(*), SUM(cost) FROM calls WHERE at BETWEEN TIMESTAMP '2024-03-02 01:00:00' AND "
        "TIMESTAMP '2024-04-30 23:59:59'",
        "SELECT COUNT(*) FROM calls WHERE CAST(at AS DATE) >= DATE '2024-05-01'",
        f"SELECT COUNT(*), SUM(a.cost) FROM visits a JOIN claims b ON {met} WHERE {there}",
        f"SELECT COUNT(*) FROM visits a JOIN claims b ON {met} WHERE b.day < DATE '2024-03-01'",
        f"SELECT COUNT(*), SUM(b.cost) FROM visits a LEFT JOIN claims b ON {met} WHERE {there}",
        f"SELECT COUNT(*) FROM visits a WHERE a.day > {may} AND {exists}",
        f"SELECT COUNT(*) FROM visits a WHERE {there} AND NOT {exists}",
        f"SELECT COUNT(*), SUM(s) FROM ({per_unit.format(here)})",
        f"SELECT COUNT(*), SUM(s) FROM ({per_unit.format('cost > 2')}) WHERE p >= {may}",
        f"SELECT COUNT(*) FROM ({largest}) WHERE s > 3",
        f"SELECT COUNT(*), SUM(cost) FROM ({union} WHERE at >= TIMESTAMP '2024-05-01 00:00:00')",
        f"SELECT COUNT(*), SUM(cost) FROM ({union}) WHERE d < DATE '2024-03-20'",
        f"SELECT COUNT(*), SUM(cost) FROM drugs WHERE {here}",
        f"SELECT COUNT(*) FROM (SELECT cost, {first} AS n FROM visits WHERE {here}) WHERE n = 1",
    ]


def _someone(random: Random, who: int, days: list[dt.date], most: int) -> Rows:
    """Rows of a person on these days, in all tables; visits have numbers that others may have too, but what the new
    person was given has a number of its own: what is found through others' visits is theirs as well.
    """
    own = 100 if who == _NEW else 1

    def some() -> list[Row]:
        many = range(random.randint(0, most))
        return [(who, random.randint(0, 5), random.choice(days), random.randint(0, 10)) for _ in many]

    visits = [*some(), *((who, own, day, 10) for day in days)]
    drugs = [(0, own, day, 10) for day in days]
    claims, calls = ([*some(), *((who, 1, day, 10) for day in days[:2])] for _ in range(2))
    return {"visits": visits, "claims": claims, "calls": calls, "drugs": drugs}


def _days(random: Random, first: dt.date, count: int) -> list[dt.date]:
    return sorted(first + dt.timedelta(random.randrange(count)) for _ in range(4))


def _both(first: Rows, second: Rows) -> Rows:
    return {name: [*first[name], *second[name]] for name in first}


def _units(random: Random, every: str) -> dict[dt.date, Rows]:
    """A unit of the new person in many periods, by the period's start: around and on the bounds, and in between."""
    around = (LOW, HIGH, dt.date(2024, 2, 1), dt.date(2024, 5, 31), dt.date(2024, 6, 1), dt.date(2024, 3, 31))
    near = [each + dt.timedelta(days) for each in around for days in (-1, 0, 1)]
    far = [dt.date(2023, 12, 5), dt.date(2024, 1, 20), dt.date(2024, 4, 12), dt.date(2024, 7, 9), dt.date(2025, 3, 9)]
    found: dict[dt.date, Rows] = {}
    for day in near + far:
        start = calendar.truncate(every, day)
        within = [each for each in (day, *near) if calendar.truncate(every, each) == start]
        more = _someone(random, _NEW, within, 5)
        found[start] = _both(found[start], more) if start in found else more
    return found


def _asked(engine: DuckDB, policy: Policy, text: str) -> Question:
    query = parse(text, engine.catalog())
    context = Context(policy, engine, _Accounts(), ignore_progress, "version 1")  # type: ignore[arg-type]
    return Question(context, text, query, query.plan.limits)


def _some_bounding(asked: Question, index: int) -> BoundedPlan:
    """One of the ways to bound a question's units, another for the next question."""
    options = candidate_bounded_plans(asked.query.plan, asked.limits, len(asked.groups))
    return for_neighbours(options[index % len(options)], Neighbours.ADD_REMOVE)


def _totals(engine: DuckDB, readings: list[GroupTotals]) -> list[list[tuple[int, ...]]]:
    return [tuples(engine.read(reading, 7)) for reading in readings]


@pytest.mark.parametrize(
    ("every", "per"),
    [
        ("week", "week"),
        ("month", "quarter"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (("day", "day"), ("day", "month"), ("month", "month"))
        ),
    ],
)
def test_units_of_unpaid_periods_change_nothing(every: str, per: str, long: bool) -> None:
    """Every third question where weeks are the periods, the others where months are: which of them a question is about
    is found in one way. All questions of all periods in the long run.
    """
    random = Random(f"{every} {per}")
    town: Rows = {name: [] for name in ("visits", "claims", "calls", "drugs")}
    for who in range(4):
        town = _both(town, _someone(random, who, _days(random, dt.date(2023, 12, 1), 220), 6))
    units = _units(random, every)
    others = _someone(random, _NEW, [dt.date(2024, 1, 3), dt.date(2024, 3, 14), dt.date(2024, 6, 12)], 3)
    policies = {None: _policy(_both(town, others), every, per)}
    policies |= {start: _policy(_both(_both(town, others), rows), every, per) for start, rows in units.items()}
    base = policies[None]
    unpaid = moved = 0
    questions = [text for at, text in enumerate(_questions(every)) if long or (at % 3 == 0) == (every == "week")]
    with closing(_engine(base)) as engine:
        asked = [_asked(engine, base, text) for text in questions]
        readings = [GroupTotals(_some_bounding(each, index), each.groups) for index, each in enumerate(asked)]
        read = {start: _totals(refill(engine, policy), readings) for start, policy in policies.items()}
    for index, text in enumerate(questions):
        paid, bounded = set(asked[index]._context.account.periods), readings[index].bounded
        totals = {start: each[index] for start, each in read.items()}
        for start in units:
            name = account_periods.period_names(((calendar.period_number(per, start),) * 2,), per)[0]
            if name in paid:
                worst = max(change.worst for change in changes(bounded, totals[None], totals[start]))
                assert worst <= 1, (text, start)
                moved += totals[start] != totals[None]
            else:
                assert totals[start] == totals[None], (text, start, name, sorted(paid))
                unpaid += 1
    assert unpaid > 2 * len(questions)
    assert moved > 0.9 * len(questions)


@pytest.mark.parametrize(("every", "per"), [("day", "day"), ("month", "month")])
def test_a_plan_held_to_periods_reads_no_other(every: str, per: str) -> None:
    """Whatever the question says, and however the periods were found: the condition of the plan alone decides."""
    random, empty = Random(f"held {every}"), {name: [] for name in ("visits", "claims", "calls", "drugs")}
    units = _units(random, every)
    base = _policy(empty, every, per)
    held = (
        (calendar.period_number(per, dt.date(2024, 3, 30)),) * 2,
        (calendar.period_number(per, dt.date(2024, 5, 16)),) * 2,
    )
    both = "SELECT day AS d FROM visits UNION ALL SELECT CAST(at AS DATE) AS d FROM calls"
    texts = ("SELECT COUNT(*) FROM visits", "SELECT COUNT(*) FROM calls", f"SELECT COUNT(*) FROM ({both})")
    with closing(_engine(base)) as engine:
        plans = [account_periods.restrict_to_periods(parse(text, engine.catalog()).plan, base, held) for text in texts]
        readings = [GroupTotals(candidate_bounded_plans(plan, plan.limits, 1)[0], ((),)) for plan in plans]
        for start, rows in units.items():
            counted = calendar.period_number(per, start)
            is_held = any(first <= counted <= last for first, last in held)
            for text, totals in zip(texts, _totals(refill(engine, _policy(rows, every, per)), readings), strict=True):
                assert any(map(any, totals)) is is_held, (text, start)


@pytest.mark.parametrize("per", ["day", "week", "month", "quarter", "year"])
def test_names_tell_periods(per: str) -> None:
    first, last = (calendar.period_number(per, day) for day in (dt.date(2019, 12, 20), dt.date(2027, 1, 10)))
    named = account_periods.period_names(((first, last),), per)
    assert len(set(named)) == last - first + 1
    assert account_periods.parse_periods(named, per) == ((first, last),)
    assert list(named) == sorted(named)
    for wrong in ("", "2024", "2024-13", "2024-3", "2024-W54", "2024-Q5", "2024-02-30", "x", None, "2024-01 "):
        if wrong not in named:
            with pytest.raises(InvalidParameter):
                account_periods.parse_period(wrong, per)  # type: ignore[arg-type]
