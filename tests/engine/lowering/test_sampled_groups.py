"""A unit's groups in a sample are the next few in turn from a place of its own; its rows are spread evenly there."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import bounded_totals, sampled_rows
from sfumato.engine.lowering.reading_statements import server_statement
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table

CITIES = [*"abcde"]
EDGES = [(9, 0, 1, 0, 0), (1, 1, 9, 9, 1), (30, 1, 1, 1, 1), (0, 0, 0, 0, 40), (1, 2, 0, 0, 0), (2, 1, 1, 1, 1)]
"""Rows of people near a limit and far beyond all."""
COUNTS = [*product(range(3), repeat=5), *EDGES]
"""How many rows each person has in each city."""
QUESTIONS = {
    "totals": "SELECT city, COUNT(*), SUM(age) FROM t GROUP BY city",
    "two keys": "SELECT city, old, COUNT(*), SUM(age) FROM t GROUP BY city, old",
    "people": "SELECT city, COUNT(DISTINCT who), SUM(age) FROM t GROUP BY city",
}
LIMITS = [(1, 2, 2), (2, 3, 3), (2, 7, 7), (3, 4, 4), (2, 4, 1), (2, 5, 3), (3, 40, 40), (4, 6, 2)]
"""Groups, rows, and rows per group."""
KEYS = 7, 10**17


def _age(who: int) -> int:
    return 1 + who % 9


def _old(who: int, city: str) -> str | None:
    """The last text of one city, and none in the next one: numbers too close to one another would meet."""
    return ("yes", None, "no")[(who + ord(city)) % 3]


@pytest.fixture(scope="module")
def towns() -> Iterator[DuckDB]:
    rows = [
        (who, city, _old(who, city), _age(who))
        for who, counts in enumerate(COUNTS)
        for city, count in zip(CITIES, counts, strict=True)
        for _ in range(count)
    ]
    names = ("who", "city", "old", "age")
    source = pa.table({name: [row[index] for row in rows] for index, name in enumerate(names)})
    declared: dict[str, Any] = {
        "city": {"values": CITIES},
        "old": {"values": ["no", "yes"], "nullable": True},
        "age": {"type": "integer", "bounds": [0, 9]},
    }
    engine = DuckDB(policy_of(Table("t", source, declared, id="who", max_rows=3)))
    yield engine
    engine.close()


def _bounded(engine: DuckDB, text: str, groups: int, rows: int, rows_per_group: int) -> BoundedPlan:
    declared = ContributionLimits.from_table(engine._policy.tables["t"])
    limits = replace(declared, rows=rows, groups=groups, rows_per_group=rows_per_group)
    plans = candidate_bounded_plans(parse(text, engine.catalog()).plan, limits, 5 * len(CITIES))
    return next(plan for plan in plans if plan.strategy is Strategy.SAMPLE)


def _reading(engine: DuckDB, name: str, limits: tuple[int, int, int]) -> GroupTotals:
    keys = product(CITIES, ("no", "yes", None)) if name == "two keys" else ((city,) for city in CITIES)
    return GroupTotals(_bounded(engine, QUESTIONS[name], *limits), tuple(keys))


def _start(key: int, who: int) -> int:
    """The first half of a unit's seed."""
    return int(hashlib.md5(f"{key}|{who}".encode()).hexdigest()[:15], 16) // 2**30 + 1


def _kept(counts: list[int], start: int, groups: int, rows: int) -> dict[int, int]:
    """How many rows count in each group of one unit, all of whose rows in a group are equal."""
    present = [group for group, count in enumerate(counts) if count]
    in_turn = {(index + start) % len(present): group for index, group in enumerate(present)}
    chosen = [in_turn[place] for place in range(min(groups, len(present)))]
    numbers = [group for group in chosen for _ in range(counts[group])]
    total = len(numbers)
    kept = (
        group
        for position, group in enumerate(numbers, 1)
        if total <= rows or position * rows // total > (position - 1) * rows // total
    )
    return Counter(kept)


@pytest.mark.parametrize("limits", [each for each in LIMITS if each[1] == each[2]])
@pytest.mark.parametrize("name", ["totals", "people"])
def test_the_sample_is_the_next_groups_in_turn(towns: DuckDB, name: str, limits: tuple[int, int, int]) -> None:
    for key in KEYS:
        expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for who, counts in enumerate(COUNTS):
            for group, kept in _kept([*counts], _start(key, who), *limits[:2]).items():
                expected[CITIES[group]][0] += 1 if name == "people" else kept
                expected[CITIES[group]][1] += kept * _age(who)
        totals = tuples(towns.read(_reading(towns, name, limits), key))
        assert totals == [tuple(expected[city]) for city in CITIES]


def _totals(engine: DuckDB, reading: GroupTotals, key: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a server's statement returns."""
    statement = server_statement(reading, key)
    with monkeypatch.context() as patch:
        patch.setattr(DuckDB, "_statement", lambda *_: engine._render(statement))
        return sorted(tuples(engine.read(reading, key)), key=str)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_units_are_settled_as_if_their_rows_were_ranked(
    towns: DuckDB, name: str, limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settled by numbers of rows alone or ranked, and numbered or not, the totals are the same."""
    reading = _reading(towns, name, limits)
    settle = sampled_rows._is_settled
    for key in KEYS:
        usual = _totals(towns, reading, key, monkeypatch)
        assert usual == sorted(tuples(towns.read(reading, key)), key=str)
        with monkeypatch.context() as patch:
            patch.setattr(
                sampled_rows,
                "_is_settled",
                lambda limits: settle(replace(limits, rows=0, rows_per_group=None)),
            )
            assert _totals(towns, reading, key, monkeypatch) == usual


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_unit_exceeds_a_limit(towns: DuckDB, name: str, limits: tuple[int, int, int]) -> None:
    """Of each person alone."""
    groups, rows, rows_per_group = limits
    reading = _reading(towns, name, limits)
    bounded = bounded_totals.group_totals_statement(reading.bounded, 7)
    text = towns._render(bounded)
    for who, counts in enumerate(COUNTS):
        if counts not in EDGES:
            continue
        alone = text.replace("FROM sf_scan0", f"FROM (SELECT * FROM sf_scan0 WHERE sf_unit = {who})")
        assert alone != text
        kept = [row[len(reading.bounded.plan.keys)] for row in towns.sources.run(alone)]
        assert sum(1 for count in kept if count) <= groups
        if name != "people":
            assert sum(kept) <= rows
            assert max(kept) <= rows_per_group


def test_more_groups_than_a_set_holds_are_ranked(towns: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """NULL is a number too."""
    for numbers in (len(CITIES), len(CITIES) + 1):
        monkeypatch.setattr(sampled_rows, "MAX_GROUP_NUMBERS", numbers)
        text = towns._render(server_statement(_reading(towns, "totals", (2, 3, 3)), 1))
        assert ("BIT_OR" in text) is (numbers > len(CITIES))


def test_more_groups_are_ranked_anew_by_each_key(towns: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_rows, "MAX_GROUP_NUMBERS", 0)
    reading = _reading(towns, "people", (1, 2, 2))
    assert tuples(towns.read(reading, KEYS[0])) != tuples(towns.read(reading, KEYS[1]))
