"""A period of a unit is read before its column is cleaned: what is then grouped by may have more values than one."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import tuples
from safety.worlds import changes, question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

Row = tuple[int, dt.date, int]
_KINDS = {"who": pa.int64(), "day": pa.date32(), "cost": pa.int64()}
_WEEK = "DATE_TRUNC('week', day)"
_YEAR = {"bounds": [dt.date(2024, 1, 1), dt.date(2024, 12, 31)]}
_LATER = {"bounds": [dt.date(2024, 2, 1), dt.date(2024, 12, 31)]}
_MONDAY = {"values": [dt.date(2024, 1, 1)], "nullable": True}
_FIRST, _OTHER = (9, dt.date(2024, 1, 1), 10), (9, dt.date(2024, 1, 3), 10)
_BOTH = "(SELECT who, day, cost FROM visits UNION ALL SELECT who, day, cost FROM claims)"


def _engine(every: str, days: tuple[Any, Any], visits: list[Row], claims: list[Row]) -> DuckDB:
    tables = {}
    for name, day, rows in zip(("visits", "claims"), days, (visits, claims), strict=True):
        source = pa.table(
            {column: pa.array([row[at] for row in rows], kind) for at, (column, kind) in enumerate(_KINDS.items())}
        )
        columns = {"day": {"type": "date", **day}, "cost": {"type": "integer", "bounds": [0, 10]}}
        tables[name] = Table(name, source, columns, id="who", max_rows=5)
    policy = Policy(PrivacyUnit("person", period=every, period_column="day"), Budget(3, "1e-6"), tables)
    return DuckDB(policy, threads=1)


def _moved(text: str, every: str, days: tuple[Any, Any], visits: list[Row], claims: list[Row]) -> list[float]:
    """By how much of what is claimed each way to limit a unit moves, when one unit with these rows is added."""
    engines = [_engine(every, days, *rows) for rows in (([], []), (visits, claims))]
    asked = question(engines[0], engines[0]._policy, text)
    found = []
    for bounded in candidate_bounded_plans(asked.query.plan, asked.limits, len(asked.groups)):
        before, after = (tuples(each.read(GroupTotals(bounded, asked.groups), 7)) for each in engines)
        found += [change.worst for change in changes(bounded, before, after)]
    for each in engines:
        each.close()
    return found


@pytest.mark.parametrize(
    ("text", "every", "days", "visits", "claims"),
    [
        (f"SELECT who, day, SUM(cost) AS s FROM {_BOTH} GROUP BY who, day", "day", (_YEAR, _LATER), [_FIRST], [_FIRST]),
        (f"SELECT who, {_WEEK} AS w, SUM(cost) AS s FROM visits GROUP BY who, {_WEEK}", "week", (_MONDAY, _YEAR),
         [_FIRST, _OTHER], []),
    ],
    ids=["tables that clamp days differently", "a list that holds some days of a week"],
)  # fmt: skip
def test_a_period_with_several_values_is_several_rows(
    text: str, every: str, days: tuple[Any, Any], visits: list[Row], claims: list[Row]
) -> None:
    assert max(_moved(f"SELECT COUNT(*), SUM(s) FROM ({text})", every, days, visits, claims)) <= 1


@pytest.mark.parametrize(("later", "rows"), [(_LATER, 1), (_YEAR, 10)])
def test_a_period_with_one_value_is_one_row(later: dict[str, Any], rows: int) -> None:
    engine = _engine("week", (_LATER, later), [], [])
    parts = " UNION ALL ".join(f"SELECT who, {_WEEK} AS w, cost FROM {table}" for table in ("visits", "claims"))
    inner = f"SELECT who, w, SUM(cost) AS s FROM ({parts}) GROUP BY who, w"
    assert question(engine, engine._policy, f"SELECT SUM(s) FROM ({inner})").limits.rows == rows
    engine.close()
