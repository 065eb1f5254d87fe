"""Readings beyond totals of known groups are those of DuckDB: keys that are found, values, histograms and marginals.

Random populations with hostile cells, as in ``test_postgres_meanings``; functions that libraries round in their own
ways are held to one step a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

from engine.on_postgres import Sessions
from engine.test_dense_arrays import FEWER_CELLS
from postgres_server import PostgresServer
from safety import found, test_values, worlds
from safety.worlds import KEYS, PREDICATES, REGIONS, VALUES, World
from sfumato.engine.protocols import Engine
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import bound_for_discovery, candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.dense_readings import Marginals, ValueStepCounts
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals, GroupTotals, PlanReading
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column
from sfumato.policy import Policy


@pytest.fixture(scope="module")
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


def _ranked(random: Random) -> str:
    """A question about ranks, which is answered from how often each value occurs."""
    key, value = random.choice(KEYS[:4]), random.choice(("age", "cost", "code", "ABS(cost)", "age % 7"))
    tested = f" FILTER (WHERE {random.choice(PREDICATES)})" if random.random() < 0.3 else ""
    return f"SELECT {key} AS g, MEDIAN({value}){tested} AS x FROM people GROUP BY 1"


def _found(random: Random) -> str:
    """A question whose keys are found in the data, alone or beside declared ones."""
    keys = ["note", *random.sample(KEYS[:3], random.choice((0, 1)))]
    measures = random.sample(("COUNT(*)", f"SUM({random.choice(VALUES[:12])})", "AVG(age)"), 2)
    where = f" WHERE {random.choice(PREDICATES)}" if random.random() < 0.3 else ""
    places = ", ".join(str(place + 1) for place in range(len(keys)))
    return f"SELECT {', '.join((*keys, *measures))} FROM people{where} GROUP BY {places}"


def _readings(engine: Engine, policy: Policy, text: str) -> list[PlanReading[Any]]:
    """What a question reads beside totals of known groups; nothing where it is refused."""
    try:
        asked = worlds.question(engine, policy, text)  # type: ignore[arg-type]
        groups = tuple(("7", *group) for group in asked.groups) if asked.discovered_keys else asked.groups
        others = [each.reading(groups) for each in asked.other_parts]
    except Unsupported:
        return []
    if asked.discovered_keys and not others:
        return [found.reading(asked, bound_for_discovery(with_requests_as_measures(asked.query.plan), asked.limits))]
    return others


def _marginals(engine: Engine, policy: Policy, random: Random) -> Marginals:
    """Counts of every combination of three columns, and of some of them, in one bounding."""
    source = parse("SELECT COUNT(*) FROM people", engine.catalog()).plan.source
    fields = {field.name: Column(field, replace(domain, nullable=True)) for field, domain in source.columns.items()}
    plan = Aggregate(source, tuple(fields[name] for name in ("region", "flag", "code")), (Count(),))
    options = candidate_bounded_plans(plan, ContributionLimits.from_table(policy.tables["people"]), 60)
    known = [each for each in options if each.strategy in (Strategy.WHOLE, Strategy.REWEIGHT, Strategy.SAMPLE)]
    sets = random.choice([((), (0,), (0, 1), (1, 2), (0, 1, 2)), *FEWER_CELLS])
    return Marginals(random.choice(known), (REGIONS, (False, True), (1, 2, 3)), sets)


def _same(reading: PlanReading[Any], one: Any, other: Any) -> bool:
    if isinstance(one, DiscoveredGroups) and isinstance(reading, DiscoveredTotals):
        return found.rows(one, len(reading.declared_groups)) == found.rows(other, len(reading.declared_groups))
    if isinstance(one, ValueStepCounts):
        return all(np.array_equal(getattr(one, each), getattr(other, each)) for each in ("group", "steps", "counts"))
    if isinstance(one, tuple):
        return all(map(np.array_equal, one, other))
    return bool(np.array_equal(one, other))


def _both(sessions: Sessions, seed: int) -> tuple[Random, World, Any, Any, Policy]:
    random = Random(seed)
    population = worlds.world(random)
    table = max(population.tables(random, 30).values(), key=len)
    policy = population.policy(table)
    return random, population, population.engine(table), sessions.engine(policy), policy


def _compared(sessions: Sessions, seed: int, each_kind: int) -> list[type]:
    """The kinds of what was read, equal on both engines."""
    random, _, own, server, policy = _both(sessions, seed)
    texts = [ask(random) for ask in (_ranked, _found) for _ in range(each_kind)]
    texts += [test_values.text(random, found=random.random() < 0.3) for _ in range(each_kind)]
    asked: list[tuple[str, PlanReading[Any]]] = [
        ("marginals", _marginals(own, policy, random)) for _ in range(each_kind)
    ]
    asked += [(text, each) for text in texts for each in _readings(own, policy, text)]
    with own.check() as here, server.check() as there:
        for text, reading in asked:
            key = random.getrandbits(62)
            assert _same(reading, here.read(reading, key), there.read(reading, key)), (seed, text)
    own.close()
    server.close()
    return [type(reading) for _, reading in asked]


def test_other_readings_are_those_of_duckdb(sessions: Sessions) -> None:
    """Every kind of reading but totals of known groups."""
    assert len(set(_compared(sessions, 3, 2))) == 5


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(5))
def test_hundreds_of_other_readings_are_those_of_duckdb(sessions: Sessions, part: int) -> None:
    """500 readings and more in all."""
    kinds = [each for seed in range(10) for each in _compared(sessions, 2000 + 10 * part + seed, 2)]
    assert len(kinds) >= 100
    assert len(set(kinds)) == 5


# Functions whose last place libraries round in their own ways

NEAR = ("LEAST(GREATEST(LN(cost), -2), 2)", "EXP(LEAST(cost, 3))", "LEAST(POW(ABS(cost), 0.3), 50)", "LN(ABS(age) + 1)")


def _rounded(random: Random) -> str:
    keys = random.sample(KEYS[:4], random.choice((0, 1)))
    tested = f" FILTER (WHERE {random.choice(PREDICATES)})" if random.random() < 0.3 else ""
    measures = [f"{random.choice(('SUM', 'AVG', 'COUNT'))}({random.choice(NEAR)}){tested}" for _ in range(2)]
    return f"SELECT {', '.join((*keys, *measures))} FROM people" + (" GROUP BY 1" if keys else "")


def _within(sessions: Sessions, seed: int, plans: int) -> int:
    random, _, own, server, policy = _both(sessions, seed)
    rows = policy.tables["people"].source.table.num_rows
    compared = 0
    with own.check() as here, server.check() as there:
        for text in [_rounded(random) for _ in range(plans)]:
            try:
                asked = worlds.question(own, policy, text)
                groups = tuple(asked.groups)
            except Unsupported:
                continue
            for bounded in candidate_bounded_plans(
                with_requests_as_measures(asked.query.plan), asked.limits, len(groups)
            ):
                key, reading = random.getrandbits(62), GroupTotals(bounded, groups)
                apart = _apart(here.read(reading, key), there.read(reading, key))
                steps = [_allowed(rows, each.bits) for each in bounded.measures for _ in range(each.coordinates)]
                assert all(each <= most for each, most in zip(apart, steps, strict=True)), (seed, text, apart, steps)
                compared += 1
    own.close()
    server.close()
    return compared


def _allowed(rows: int, bits: int) -> int:
    """A step a row; where steps are so fine that a last place is up to 2^6 of them, what these are in units, and one
    that rounding may add.
    """
    return rows << bits if bits >= 0 else 1 + (rows << 6 >> -bits)


def _apart(one: Any, other: Any) -> Sequence[int]:
    """How far each total is from the other engine's, at most over the groups."""
    return np.abs(one.astype(object) - other.astype(object)).max(axis=0).tolist()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_rounded_functions_are_within_a_step_a_row(sessions: Sessions) -> None:
    assert sum(_within(sessions, 3000 + seed, 8) for seed in range(12)) >= 100
