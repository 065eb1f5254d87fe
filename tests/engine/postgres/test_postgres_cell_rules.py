"""PostgreSQL reads cells by the rules of their columns as DuckDB does, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

from engine.on_postgres import Sessions
from engine.ruled import all_cells
from engine.test_ruled_cells import clean
from postgres_server import PostgresServer
from sfumato.engine.inspecting import open_inspector
from sfumato.engine.postgres.driver import Postgres, ReadTransaction


@pytest.fixture(scope="module")
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


def test_cells_mean_the_same_on_postgresql(sessions: Sessions, long: bool) -> None:
    """All cells by hand and 250 random ones of each column, or a thousand; PostgreSQL stores no NUL."""
    here = all_cells(1_000 if long else 250, storable=lambda cell: "\0" not in cell)
    there = sessions.policy(here)
    with closing(Postgres(there)) as engine, ReadTransaction(engine) as transaction:
        read = transaction.rows(f"SELECT * FROM ({engine.scans.text('t')}) AS q ORDER BY n")
    ours = clean(here)
    assert len(read) == len(ours)
    for name, theirs, own in zip(
        here.tables["t"].columns, zip(*read, strict=True), zip(*ours, strict=True), strict=True
    ):
        assert theirs == own, name
    with open_inspector(here) as own_figures, open_inspector(there) as their_figures:
        assert their_figures.inspect("t") == own_figures.inspect("t")
        for column in ("german", "day", "word", "coded_truth", "stored_real"):
            asked = "t", column, ("NA", "\\N")
            assert their_figures.lost_texts(*asked) == own_figures.lost_texts(*asked), column
