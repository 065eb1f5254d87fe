"""Moments, scans, meats and survival counts of any rows that SQL selects: servers read the whole numbers that DuckDB
reads. Some units have more rows than count: engines choose the same by their digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from inference.engine_totals import SOURCES, compare_with_duckdb, visits_policy
from mariadb_server import MariaDBServer
from postgres_server import PostgresServer

READINGS = [(("a join", "one row per unit"), (1,), 9), pytest.param((*SOURCES,), (0, 2, 3), 33, marks=pytest.mark.long)]


@pytest.mark.parametrize(("sources", "seeds", "count"), READINGS)
def test_postgresql_reads_the_same_totals(
    sources: Sequence[str], seeds: Sequence[int], count: int, tmp_path: Path, postgres: PostgresServer
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")
    from engine.on_postgres import Sessions

    policy = visits_policy()
    with closing(Sessions(postgres)) as sessions, closing(sessions.engine(policy)) as engine:
        assert compare_with_duckdb(policy, tmp_path, engine, sources, seeds) == count


@pytest.mark.parametrize(("sources", "seeds", "count"), READINGS)
def test_mariadb_reads_the_same_totals(
    sources: Sequence[str], seeds: Sequence[int], count: int, tmp_path: Path, mariadb: MariaDBServer
) -> None:
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: MariaDB is NOT tested")
    from engine.on_mariadb import Sessions

    policy = visits_policy()
    with closing(Sessions(mariadb)) as sessions, closing(sessions.engine(policy)) as engine:
        assert compare_with_duckdb(policy, tmp_path, engine, sources, seeds) == count
