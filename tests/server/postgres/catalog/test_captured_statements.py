"""What clients send is answered as PostgreSQL answers it, but for a listed few."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from postgres_server import MISSING, PostgresServer, installations
from server.postgres.catalog import captured
from server.postgres.catalog.captured import DIFFERENCES, FOLDER, Oracle, Statement, catalog, digest, statements

BY_CLIENT = collections.Counter(statement.client for statement in statements())


@pytest.fixture(scope="module")
def oids() -> dict[str, int]:
    return captured.find_oids(lambda sql: catalog().run(sql, ()).rows)


@pytest.mark.parametrize("client", sorted(BY_CLIENT))
def test_statements_of_a_client_are_answered_as_by_postgresql(client: str, oids: dict[str, int]) -> None:
    for statement in statements():
        if statement.client == client:
            sql, parameters = statement.fill(oids)
            assert catalog().covers(sql), sql
            answer = catalog().run(sql, parameters)
            assert tuple(column.name for column in answer.columns) == statement.columns, sql
            assert statement.differs in DIFFERENCES or digest(answer.rows, oids) == statement.digest, sql


def test_most_answers_are_equal() -> None:
    equal = [statement for statement in statements() if not statement.differs]
    assert (len(statements()), len(equal)) == (250, 200)


def test_a_statement_is_described_as_it_is_answered(oids: dict[str, int]) -> None:
    for statement in statements()[::5]:
        sql, parameters = statement.fill(oids)
        assert catalog().describe(sql, len(parameters)) == catalog().run(sql, parameters).columns, sql


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    """A server of its own, whose first role has the name of the catalog's owner."""
    import psycopg

    if not installations():
        pytest.skip(MISSING)
    server = PostgresServer(installations()[0])
    try:
        server.make().start()
        server.execute("CREATE ROLE helper SUPERUSER LOGIN", f"CREATE ROLE {captured.USER} LOGIN")
        server.execute(f"ALTER ROLE postgres RENAME TO {captured.OWNER}", user="helper")
        server.execute(f"CREATE DATABASE {captured.DATABASE}", "DROP ROLE helper", user=captured.OWNER)
        server.execute(
            "DROP DATABASE postgres", *captured.tables_ddl(), database=captured.DATABASE, user=captured.OWNER
        )
        with psycopg.connect(server.address(captured.DATABASE, captured.USER), autocommit=True) as connection:
            yield Oracle(connection)
    finally:
        server.remove()


@pytest.mark.long
def test_recorded_answers_are_those_of_a_real_server(oracle: Oracle) -> None:
    """Compare what was recorded with a server's answers; with ``RECORD_CATALOG`` set, record them."""
    compared = [_answered_by(oracle, statement) for statement in statements()]
    if os.environ.get("RECORD_CATALOG"):
        (FOLDER / "statements.jsonl").write_text("".join(f"{each.to_json()}\n" for each in compared), encoding="utf-8")
    changed = [
        (new.sql, new.columns, new.digest) for new, old in zip(compared, statements(), strict=True) if new != old
    ]
    assert not changed


def _answered_by(oracle: Oracle, statement: Statement) -> Statement:
    columns, rows = oracle.run(*statement.fill(oracle.oids))
    answer: Any = "" if statement.differs else digest(rows, oracle.oids)
    return replace(statement, columns=tuple(columns), digest=answer)
