"""Where the rows of a policy are when its safety is tested: here, read by DuckDB, or on a PostgreSQL server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.opening import open_engine
from sfumato.engine.protocols import Engine
from sfumato.policy import Policy

_SCHEMA = re.compile(r'"rows\d+"')


@dataclass(frozen=True)
class Place:
    """A place has its engine; a policy is moved there with its private rows."""

    name: str
    moved: Callable[[Policy], Policy]
    share: int
    """In the normal run one of so many questions is asked there, beside those that are asked of DuckDB."""

    def engine(self, policy: Policy) -> Engine:
        """An engine over rows there; of DuckDB with one thread, since tables are tiny and many are open at once."""
        return DuckDB(policy, threads=1) if self is HERE else open_engine(self.moved(policy))


HERE = Place("DuckDB", lambda policy: policy, 1)


def on_server(sessions: Any) -> Place:
    """The place of a PostgreSQL server, by a session of its administrator."""
    return Place("PostgreSQL", sessions.policy, 6)


def log(engine: Any) -> Any:
    """The statements that were sent to an engine, which can be cleared."""
    return engine.sources.statements if isinstance(engine, DuckDB) else engine.server.statements


def sent(engine: Any) -> list[str]:
    """The same, without the names under which a server has the tables of one test."""
    return [_SCHEMA.sub('"rows"', each) for each in log(engine)]


@pytest.fixture(scope="module", params=["DuckDB", "PostgreSQL"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Each of the places."""
    if request.param == "DuckDB":
        yield HERE
        return
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")
    from engine.on_postgres import Sessions

    sessions = Sessions(request.getfixturevalue("postgres"))
    yield on_server(sessions)
    sessions.close()
