"""Where no limit is reached, questions across tables have the totals that plain SQL has on the tables as declared.

The same text is given to DuckDB itself, over tables that were cleaned and joined to their owners by hand.
"""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest

from engine.tables import tuples
from safety import towns
from safety.test_towns import ACROSS, PATHS, TREES, UNITS
from safety.worlds import question
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import GroupTotals

MORE = (
    "SELECT c.region, COUNT(*), SUM(v.cost) FROM claims c LEFT JOIN visits v ON v.who = c.who AND v.region = c.region"
    " AND v.cost > c.euros GROUP BY c.region",
    "SELECT COUNT(*), SUM(e) FROM visits v LEFT JOIN (SELECT who, COALESCE(euros, 7) AS e FROM claims) c"
    " ON v.who = c.who AND v.region = 'north'",
    "SELECT v.region, COUNT(*) FROM visits v LEFT JOIN claims c ON v.who = c.who AND c.region = v.region"
    " WHERE c.euros IS NULL AND v.cost < 9 GROUP BY v.region",
    "SELECT COUNT(*) FROM visits v LEFT JOIN claims c ON v.who = c.who AND c.euros > 5 WHERE COALESCE(c.euros, 0) < 50",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND v.cost > 3)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND v.cost > 3)",
    "SELECT COUNT(*) FROM visits v WHERE v.cost > 3 OR EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who)",
    "SELECT COUNT(*) FROM visits v WHERE v.cost > 3 OR EXISTS"
    " (SELECT 1 FROM claims c WHERE c.who = v.who AND v.cost < 2 AND c.euros > v.cost)",
    "SELECT COUNT(*) FROM visits v WHERE NOT (v.cost > 3 OR EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who))",
    "SELECT COUNT(*) FROM visits v WHERE (v.cost > 1 AND EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who))"
    " OR NOT EXISTS (SELECT 1 FROM drugs d WHERE d.who = v.who AND d.dose > v.cost)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM drugs d WHERE d.who = v.who AND d.dose > v.cost)"
    " AND EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND EXISTS"
    " (SELECT 1 FROM visits w WHERE w.who = c.who AND w.region = 'south'))",
    "SELECT COUNT(*), SUM(x) FROM (SELECT who, cost + 1 AS x FROM visits UNION ALL SELECT who, dose FROM drugs) u"
    " JOIN claims c ON c.who = u.who AND c.euros >= u.x",
    "SELECT COUNT(*) FROM (SELECT * FROM visits JOIN claims USING (who, region, day)) WHERE cost > 0",
)


MEANT = {
    "SELECT COUNT(*) FROM visits WHERE (who, region) NOT IN (SELECT who, region FROM claims)": "SELECT COUNT(*) FROM"
    " visits v WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND c.region = v.region)"
}
"""What is meant otherwise than in SQL: there a NULL empties NOT IN for everybody."""


def plain(rows: towns.Rows) -> duckdb.DuckDBPyConnection:
    """The tables as the policy declares them, with an owner in every row."""
    connection = duckdb.connect()
    for name, source in towns.stored(rows).items():
        connection.register(f"raw_{name}", source)
    for name, source in towns.PUBLIC.items():
        connection.register(name, source)
    day = "least(greatest(day, DATE '2024-01-01'), DATE '2024-01-10') AS day"  # which skip NULL: no day here is
    held = "CASE WHEN NOT isnan(cost) THEN CAST(least(greatest(cost, 0), 10) AS BIGINT) END AS cost"
    region = "CASE WHEN region IN ('north', 'south') THEN region END AS region"
    cells = f"who, visit, {region}, {held}, {day}"
    connection.execute(f"CREATE TABLE visits AS SELECT {cells} FROM raw_visits WHERE who IS NOT NULL")
    connection.execute(
        f"CREATE TABLE claims AS SELECT CAST(who AS BIGINT) AS who, {region}, least(euros, 100) AS euros, {day}"
        " FROM raw_claims WHERE who IS NOT NULL"
    )
    connection.execute(
        "CREATE TABLE drugs AS SELECT o.who, CASE WHEN drug IN ('a', 'b') THEN drug END AS drug,"
        f" CASE WHEN dose IS NOT NULL THEN least(greatest(dose, -3), 5) END AS dose, {day} FROM raw_drugs d"
        " JOIN (SELECT DISTINCT who, visit FROM visits) o ON TRY_CAST(d.visit AS BIGINT) = o.visit"
    )
    return connection


@pytest.mark.parametrize("seed", [1, *(pytest.param(each, marks=pytest.mark.long) for each in (0, 2, 3))])
def test_nothing_is_lost_where_no_limit_is_reached(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(towns, "LIMITS", dict.fromkeys(towns.LIMITS, 31))
    town = towns.town(Random(seed))
    rows = {name: town.rows[name] + town.added["random"][name] for name in town.rows}
    engine, exact = towns.engine(rows), plain(rows)
    for text in PATHS + UNITS + ACROSS + TREES[:3] + MORE:
        asked = question(engine, engine._policy, text)
        bounded = next(
            each
            for each in candidate_bounded_plans(
                asked.query.plan, asked.query.plan.max_requestable_limits, len(asked.groups)
            )
            if each.strategy in (Strategy.SAMPLE, Strategy.WHOLE)
        )
        totals = tuples(engine.read(GroupTotals(bounded, tuple(asked.groups)), 11))
        assert _shown(asked, bounded, totals) == _exact(exact, MEANT.get(text, text), asked), (seed, text)
    engine.close()


def _exact(connection: duckdb.DuckDBPyConnection, text: str, asked: Any) -> dict[Any, list[float]]:
    keys = len(asked.query.plan.keys)
    return {
        row[:keys]: [round(float(each or 0), 9) for each in row[keys:]]
        for row in connection.execute(text).fetchall()
        if row[:keys] in set(asked.groups) and any(row[keys:])
    }


def _shown(asked: Any, bounded: Any, totals: Any) -> dict[Any, list[float]]:
    """The exact value of each column, from the totals."""
    found = {}
    for group, row in zip(asked.groups, totals, strict=True):
        values, at = [], 0
        for each in bounded.measures:
            own = row[at : at + each.coordinates]
            at += each.coordinates
            values.append(_value(each, own))
        if any(values):
            found[group] = values
    return found


def _value(scaled: Any, totals: Any) -> float:
    own = [np.array([float(each * scaled.unit_value)]) for each in totals]
    found = scaled.measure.estimator(scaled).estimate(own, [0.0] * len(own)).value[0]
    return 0.0 if np.isnan(found) else round(float(found), 9)
