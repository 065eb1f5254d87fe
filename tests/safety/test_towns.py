"""Over several tables, exact totals of neighbours differ by at most the claim, under either relation of neighbours."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest

from engine.tables import tuples
from safety import towns
from safety.places import HERE, Place, sent
from safety.worlds import changes, question
from sfumato.plan.bounding import candidate_bounded_plans, for_neighbours
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.privacy import Neighbours

PATHS = (
    "SELECT COUNT(*), SUM(dose) FROM drugs",
    "SELECT drug, COUNT(*), AVG(dose) FROM drugs GROUP BY drug",
    "SELECT day, COUNT(*) FROM drugs WHERE dose > 0 GROUP BY day",
    "SELECT region, SUM(cost), COUNT(*) FROM visits GROUP BY region",
    "SELECT kind, COUNT(*) FROM visits JOIN places USING (region) GROUP BY kind",
    "SELECT region, SUM(euros) FROM claims GROUP BY region",
)
JOINS = (
    "SELECT v.region, COUNT(*), SUM(c.euros) FROM visits v JOIN claims c ON v.who = c.who GROUP BY v.region",
    "SELECT region, SUM(euros) FROM visits v JOIN claims c USING (who, region) WHERE cost > 1 GROUP BY region",
    "SELECT v.region, COUNT(*), AVG(c.euros) FROM visits v LEFT JOIN claims c ON v.who = c.who AND c.euros > 5"
    " GROUP BY v.region",
    "SELECT COUNT(*), SUM(c.e) FROM visits v LEFT JOIN (SELECT who, COALESCE(euros, 0) + 1 AS e FROM claims) c"
    " ON v.who = c.who AND v.cost < c.e",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.who = b.who AND a.day < b.day",
    "SELECT d.drug, COUNT(*), SUM(v.cost) FROM visits v JOIN drugs d ON v.who = d.who GROUP BY d.drug",
    "SELECT COUNT(*) FROM visits a JOIN claims b ON a.who = b.who JOIN drugs c ON c.who = a.who AND c.dose > a.cost",
    "SELECT kind, COUNT(*) FROM places p JOIN visits v USING (region) JOIN claims c ON c.who = v.who GROUP BY kind",
    "SELECT v.region, COUNT(DISTINCT v.who) FROM visits v JOIN claims c USING (who) GROUP BY v.region",
)
TESTS = (
    "SELECT region, COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND c.euros > 5)"
    " GROUP BY region",
    "SELECT COUNT(*), SUM(cost) FROM visits v WHERE NOT EXISTS"
    " (SELECT 1 FROM claims c WHERE c.who = v.who AND c.region = v.region)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND c.day > v.day)",
    "SELECT COUNT(*) FROM claims WHERE who IN (SELECT who FROM drugs WHERE dose > 1) AND euros > 2",
    "SELECT region, COUNT(*) FROM visits WHERE who NOT IN (SELECT who FROM claims) GROUP BY region",
    "SELECT COUNT(*) FROM visits WHERE (who, region) NOT IN (SELECT who, region FROM claims)",
    "SELECT region, COUNT(*), SUM(cost) FROM visits v WHERE cost > 3 OR EXISTS"
    " (SELECT 1 FROM claims c WHERE c.who = v.who AND c.euros > v.cost) GROUP BY region",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND c.day > v.day)"
    " OR who IN (SELECT who FROM drugs WHERE dose > 1)",
)
UNIONS = (
    "SELECT day, COUNT(*), SUM(x) FROM (SELECT day, cost AS x FROM visits UNION ALL SELECT day, euros FROM claims)"
    " GROUP BY day",
    "SELECT COUNT(DISTINCT who) FROM"
    " (SELECT who FROM visits WHERE cost > 2 UNION ALL SELECT who FROM claims UNION ALL SELECT who FROM drugs)",
)
BANDS = (
    "SELECT band, COUNT(*), SUM(cost) FROM visits JOIN bands ON cost >= low AND cost < high GROUP BY band",
    "SELECT band, COUNT(*) FROM visits LEFT JOIN bands ON cost BETWEEN low AND high GROUP BY band",
    "SELECT COUNT(*) FROM visits JOIN bands ON low <= cost",
)
TREES = (
    "SELECT AVG(n), COUNT(*) FROM (SELECT v.who, COUNT(*) AS n FROM visits v JOIN claims c USING (who) GROUP BY v.who)",
    "SELECT COUNT(*), SUM(v.cost) FROM (SELECT who, SUM(dose) AS d FROM drugs GROUP BY who) a JOIN visits v USING (who)"
    " WHERE a.d > 3",
    "SELECT COUNT(*) FROM visits WHERE who NOT IN (SELECT who FROM claims GROUP BY who HAVING COUNT(*) > 1)",
    "SELECT COUNT(*), SUM(x) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS k, x FROM"
    " (SELECT who, day, cost AS x FROM visits UNION ALL SELECT who, day, euros FROM claims)) WHERE k = 1",
)
ACROSS = JOINS + TESTS + UNIONS + BANDS
UNITS = ("SELECT region, COUNT(DISTINCT who) FROM visits GROUP BY region",)
PERIODS = {
    "day": (
        "SELECT AVG(n), COUNT(*) FROM (SELECT who, day, COUNT(*) AS n FROM visits GROUP BY who, day)",
        "SELECT day, COUNT(*) FROM (SELECT who, day, SUM(cost) AS n FROM visits GROUP BY who, day) GROUP BY day",
        "SELECT COUNT(*) FROM (SELECT who, day, COUNT(*) AS n FROM visits GROUP BY who, day) a"
        " JOIN claims c ON c.who = a.who AND c.day = a.day",
        "SELECT COUNT(*), SUM(euros) FROM visits v JOIN claims c USING (who, day)",
        "SELECT COUNT(*) FROM visits v JOIN drugs d ON d.who = v.who AND d.day = v.day",
        "SELECT COUNT(*) FROM visits v WHERE (who, day) NOT IN (SELECT who, day FROM claims)",
        "SELECT COUNT(*) FROM (SELECT who, day FROM visits UNION ALL SELECT who, day FROM claims) a JOIN drugs d"
        " ON a.who = d.who AND a.day = d.day",
        "SELECT region, COUNT(DISTINCT (who, day)) FROM visits GROUP BY region",
    ),
    "week": (
        "SELECT AVG(n), COUNT(*) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY who, DATE_TRUNC('week', day))",
        "SELECT COUNT(*), SUM(euros) FROM visits v JOIN claims c ON v.who = c.who"
        " AND DATE_TRUNC('week', v.day) = DATE_TRUNC('week', c.day)",
        "SELECT COUNT(DISTINCT (who, DATE_TRUNC('week', day))) FROM claims",
    ),
    "month": ("SELECT COUNT(DISTINCT (who, DATE_TRUNC('month', day))) FROM claims",),
}


FEW = ("", "many rows", "everybody's visits", "ties", "+1 rows")
"""The tables that break most that can break."""


def replayed(
    seed: int,
    texts: tuple[str, ...],
    every: str | None = None,
    names: tuple[str, ...] | None = None,
    step: int = 1,
    place: Place = HERE,
) -> int:
    """How many pairs of totals were compared, of all tables or of some; with every strategy, or with every so manieth,
    others for the next text: how tables meet is read before a unit's rows are bounded.
    """
    random = Random(seed)
    tables = towns.town(random, every).tables()
    engines = {name: place.engine(towns.policy(tables[name], every=every)) for name in names or tables}
    try:
        seeded = f"seed {seed} {every}"
        return sum(
            _compared(seeded, random, text, engines, slice(index % step, None, step))
            for index, text in enumerate(texts)
        )
    finally:
        for each in engines.values():
            each.close()


def _compared(place: str, random: Random, text: str, engines: dict[str, Any], strategies: slice) -> int:
    asked = question(engines[""], engines[""]._policy, text)
    key, compared = random.getrandbits(62), 0
    options = candidate_bounded_plans(asked.query.plan, asked.limits, len(asked.groups))
    for bounded in options[strategies] or options:
        totals = {
            name: tuples(each.read(GroupTotals(bounded, tuple(asked.groups)), key)) for name, each in engines.items()
        }
        assert len({sent(each)[-1] for each in engines.values()}) == 1, (place, text)
        claims = {relation: for_neighbours(bounded, relation) for relation in Neighbours}
        for relation, first, second in _pairs(list(engines)):
            for change in changes(claims[relation], totals[first], totals[second]):
                compared += 1
                assert change.worst <= 1, (place, text, bounded.strategy, relation, first, second, change)
    return compared


def _pairs(names: list[str]) -> list[tuple[Neighbours, str, str]]:
    units = [name for name in names if name]
    added = [(Neighbours.ADD_REMOVE, "", name) for name in units]
    return added + [(Neighbours.REPLACE, first, second) for first, second in combinations(units, 2)]


@pytest.mark.parametrize("seed", range(1))
def test_neighbours_differ_by_at_most_the_claim(seed: int, long: bool) -> None:
    assert replayed(seed, PATHS + UNITS, names=FEW, step=1 if long else 2) > 100


@pytest.mark.parametrize("seed", range(1))
def test_tables_meet_within_one_unit(seed: int, long: bool) -> None:
    assert replayed(seed, ACROSS + TREES, names=FEW, step=2 if long else 4) > 100


@pytest.mark.parametrize("every", [pytest.param("day", marks=pytest.mark.long), "week", "month"])
def test_a_person_in_one_period_is_the_unit(every: str, long: bool) -> None:
    """The person who is added has rows in other periods already: limits are of each period by itself."""
    assert replayed(17, PATHS[:3] + PERIODS[every], every, FEW, step=2 if long else 4) > 50


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_towns(seed: int) -> None:
    every = (None, "day", "week", "month")[seed % 4]
    assert replayed(seed, PATHS + (ACROSS + TREES + UNITS if every is None else PERIODS[every]), every) > 100
