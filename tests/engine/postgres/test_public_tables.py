"""A public table may be on any server, whatever engine reads the private ones; the ledger knows it by where it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.on_postgres import Sessions
from engine.tables import tuples
from postgres_server import PostgresServer
from safety.worlds import question
from sfumato import Curator
from sfumato.curator.checking import check
from sfumato.engine import server_engine
from sfumato.engine.opening import open_engine
from sfumato.errors import InvalidPolicy, SourceTaken
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

VISITS = pa.table({"who": [1, 2, 3, 4], "ward": ["A", "A", "B", "C"]})
JOINED = "SELECT zone, COUNT(*) FROM visits JOIN zones USING (ward) GROUP BY zone"


@pytest.fixture
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


@pytest.fixture
def zones(sessions: Sessions) -> str:
    relation = f"{sessions.schema()}.zones"
    sessions.copied(pa.table({"ward": ["A", "B"], "zone": ["north", "south"]}), relation)
    return relation


def _policy(visits: Any, zones: Table, account: str | None = None, **said: Any) -> Policy:
    table = Table("visits", visits, {"ward": {"values": ["A", "B", "C"]}}, id="who", max_rows=1, **said)
    return Policy(PrivacyUnit("person"), Budget(5), {"visits": table, "zones": zones}, account=account)


def _counted(policy: Policy) -> dict[Any, int]:
    with contextlib.closing(open_engine(policy)) as engine:
        asked = question(engine, policy, JOINED)  # type: ignore[arg-type]
        bounded = candidate_bounded_plans(asked.query.plan, asked.limits, len(asked.groups))[0]
        totals = tuples(engine.read(GroupTotals(bounded, tuple(asked.groups)), 7))
        return {key: total >> bounded.measures[0].bits for (key,), (total,) in zip(asked.groups, totals, strict=True)}


def test_private_rows_here_meet_public_ones_on_a_server(sessions: Sessions, zones: str, tmp_path: Path) -> None:
    policy = _policy(VISITS, Table("zones", sessions.server.address(), public=True, relation=zones))
    assert _counted(policy) == {"north": 2, "south": 1}
    with Curator(policy, tmp_path / "c.ledger") as curator:
        assert len(curator.sql(JOINED).release(epsilon=1).rows) == 2
    assert check(policy).tables


def test_a_public_table_on_a_server_has_at_most_so_many_rows(
    sessions: Sessions, zones: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit, and one row beyond it."""
    monkeypatch.setattr(server_engine, "MAX_CARRIED_ROWS", 2)
    policy = _policy(VISITS, Table("zones", sessions.server.address(), public=True, relation=zones))
    assert _counted(policy) == {"north": 2, "south": 1}
    sessions.run(f"INSERT INTO {zones} VALUES ('C', 'west')")
    with pytest.raises(InvalidPolicy, match="at most 100,000 rows"):
        open_engine(policy)


def test_what_an_account_protects_on_a_server_is_not_public(sessions: Sessions, zones: str, tmp_path: Path) -> None:
    """Whatever engine reads the private tables of the policy that says so."""
    address = sessions.server.address()
    private = Table("zones", address, {"zone": {"values": ["north"]}}, id="ward", max_rows=1, relation=zones)
    own = Policy(PrivacyUnit("ward"), Budget(5), {"zones": private}, account="first")
    Curator(own, tmp_path / "c.ledger").close()
    said = Table("zones", address, public=True, relation=zones)
    with pytest.raises(SourceTaken):
        Curator(_policy(VISITS, said, account="second"), tmp_path / "c.ledger")


def test_a_public_table_that_is_not_there_is_refused(sessions: Sessions, zones: str) -> None:
    for relation in (f"{zones}_none", "pg_catalog.pg_authid_none"):
        with pytest.raises(InvalidPolicy, match="no such"):
            open_engine(_policy(VISITS, Table("zones", sessions.server.address(), public=True, relation=relation)))
