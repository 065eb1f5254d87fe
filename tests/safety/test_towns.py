"""Over several tables, exact totals of neighbours differ by at most the claim, under either relation of neighbours."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from engine.tables import tuples
from safety import towns
from safety.worlds import changes, question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.bounding import boundings, for_neighbours
from sfumato.privacy import Neighbours

PATHS = (
    "SELECT COUNT(*), SUM(dose) FROM drugs",
    "SELECT drug, COUNT(*), AVG(dose) FROM drugs GROUP BY drug",
    "SELECT day, COUNT(*) FROM drugs WHERE dose > 0 GROUP BY day",
    "SELECT region, SUM(cost), COUNT(*) FROM visits GROUP BY region",
    "SELECT kind, COUNT(*) FROM visits JOIN places USING (region) GROUP BY kind",
    "SELECT region, SUM(euros) FROM claims GROUP BY region",
)
UNITS = ("SELECT region, COUNT(DISTINCT who) FROM visits GROUP BY region",)
PERIODS = {
    "day": ("SELECT region, COUNT(DISTINCT (who, day)) FROM visits GROUP BY region",),
    "week": ("SELECT COUNT(DISTINCT (who, DATE_TRUNC('week', day))) FROM claims",),
    "month": ("SELECT COUNT(DISTINCT (who, DATE_TRUNC('month', day))) FROM claims",),
}


def replayed(seed: int, texts: tuple[str, ...], every: str | None = None) -> int:
    """How many pairs of totals were compared."""
    random = Random(seed)
    engines = {name: towns.engine(rows, every) for name, rows in towns.town(random, every).tables().items()}
    try:
        return sum(_compared(f"seed {seed} {every}", random, text, engines) for text in texts)
    finally:
        for each in engines.values():
            each.close()


def _compared(place: str, random: Random, text: str, engines: dict[str, DuckDB]) -> int:
    asked = question(engines[""], engines[""]._policy, text)
    key, compared = random.getrandbits(62), 0
    for bounded in boundings(asked.query.plan, asked.limits, len(asked.groups)):
        totals = {name: tuples(each.totals(bounded, asked.groups, key)) for name, each in engines.items()}
        assert len({each.sources.statements[-1] for each in engines.values()}) == 1, (place, text)
        for relation, first, second in _pairs(list(engines)):
            claimed = for_neighbours(bounded, relation)
            for change in changes(claimed, totals[first], totals[second]):
                compared += 1
                assert change.worst <= 1, (place, text, bounded.strategy, relation, first, second, change)
    return compared


def _pairs(names: list[str]) -> list[tuple[Neighbours, str, str]]:
    units = [name for name in names if name]
    added = [(Neighbours.ADD_REMOVE, "", name) for name in units]
    return added + [(Neighbours.REPLACE, first, second) for first, second in combinations(units, 2)]


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_differ_by_at_most_the_claim(seed: int) -> None:
    assert replayed(seed, PATHS + UNITS) > 100


@pytest.mark.parametrize("every", ["day", "week", "month"])
def test_a_person_in_one_period_is_the_unit(every: str) -> None:
    """The person who is added has rows in other periods already: limits are of each period by itself."""
    assert replayed(17, PATHS + PERIODS[every], every) > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_towns(seed: int) -> None:
    every = (None, "day", "week", "month")[seed % 4]
    assert replayed(seed, PATHS + (UNITS if every is None else PERIODS[every]), every) > 100
