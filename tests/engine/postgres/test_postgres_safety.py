"""What DuckDB's answers are held to holds on PostgreSQL too, beyond what ``safety`` runs in both places.

The law of what is drawn is the same wherever totals come from; here are the totals, under both neighbour relations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

from engine.on_postgres import Sessions
from plan.test_joins import REFUSED
from postgres_server import PostgresServer
from safety import test_towns, test_trees, test_unknown_keys, test_values, towns
from safety.places import Place, on_server
from safety.test_outcomes import _silence, only_ours, outcome  # noqa: F401 - a fixture
from sfumato.curator.curators import Curator

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> Iterator[Place]:
    sessions = Sessions(postgres)
    yield on_server(sessions)
    sessions.close()


@pytest.mark.parametrize("seed", range(6000, 6006))
def test_trees_of_neighbours_differ_by_at_most_the_claim(server: Place, seed: int) -> None:
    test_trees.replayed(range(seed, seed + 1), 10, 300, server)


@pytest.mark.parametrize(("seed", "every"), [(100, None), (101, "day"), (102, "week"), (103, "month")])
def test_towns_of_neighbours_differ_by_at_most_the_claim(server: Place, seed: int, every: str | None) -> None:
    more = test_towns.ACROSS + test_towns.TREES + test_towns.UNITS if every is None else test_towns.PERIODS[every]
    assert test_towns.replayed(seed, test_towns.PATHS + more, every, test_towns.FEW, place=server) > 100


@pytest.mark.parametrize("seed", range(100, 106))
def test_values_of_neighbours_differ_by_at_most_the_claim(server: Place, seed: int) -> None:
    assert test_values.replayed(seed, 6, found=seed % 3 == 0, place=server) > 50


@pytest.mark.parametrize("units", [True, False], ids=["units", "every row"])
def test_found_keys_of_neighbours_differ_by_at_most_the_claim(server: Place, units: bool) -> None:
    test_unknown_keys.replayed(units, range(1, 3), server)


@pytest.mark.parametrize("how", ["add-remove", "replace", "add-remove day"])
def test_across_tables_there_is_one_outcome(server: Place, how: str, tmp_path: Path) -> None:
    relation, *every = how.split()
    town = towns.town(Random(5), *every)
    chosen = {
        "one person": town.added["random"],
        **{name: town.tables()[name] for name in ("", "many rows", "nulls")},
    }
    curators = [
        Curator(server.moved(towns.policy(rows, relation, *every)), tmp_path / f"{index}.ledger")
        for index, rows in enumerate(chosen.values())
    ]
    more = test_towns.PERIODS[every[0]] if every else test_towns.ACROSS + test_towns.UNITS
    answered = test_towns.PATHS + more
    for text in answered + tuple(text for text, *_ in REFUSED):
        first, *others = (outcome(curator, text, epsilon="0.001") for curator in curators)
        assert all(repr(other) == repr(first) for other in others), text
        assert ("answer" in first) == (text in answered), (text, first.get("refused"))
        assert bool(any(first["charged"].values())) == ("answer" in first), text
        only_ours(first)
    for each in curators:
        each.close()
