"""Charge, read, write down, show: in this order, and whatever goes wrong after the charge is told in one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from safety.worlds import World
from sfumato.curator.curators import Curator
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unanswered
from sfumato.ledger import Account
from sfumato.ledger.accounts.pending_queries import PendingQuery
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

_COLUMNS = {"region": {"values": ["north", "south"]}}
_STORED = {"who": pa.int64(), "region": pa.string()}
ROWS = [{"who": who, "region": "north"} for who in range(5)]
COUNT = "SELECT region, COUNT(*) FROM people GROUP BY region"


class Stopped(BaseException):
    """An interruption that is nobody's error, as Ctrl-C is."""


@pytest.fixture
def curator(tmp_path: Path) -> Any:
    world = World(True, (2, 2, 1), _COLUMNS, _STORED, {}, ())
    with Curator(world.policy(ROWS), tmp_path / "order.ledger") as opened:
        yield opened


def test_nothing_is_read_before_the_charge_and_nothing_shown_before_it_is_written_down(
    monkeypatch: pytest.MonkeyPatch, curator: Curator
) -> None:
    happened: list[str] = []

    def noted(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def noting(*arguments: Any, **named: Any) -> Any:
            happened.append(name)
            return method(*arguments, **named)

        monkeypatch.setattr(owner, name, noting)

    for owner, name in ((DuckDB, "check"), (PendingQuery, "begin"), (DuckDB, "read"), (Account, "record_answer")):
        noted(owner, name)
    answer = curator.sql(COUNT).release(epsilon=1)
    assert happened == ["check", "begin", "read", "record_answer"]
    kinds = {line.number: line.kind for line in curator.ledger}
    assert kinds[answer.receipt.line] == "answer"


@pytest.mark.parametrize("failure", [ValueError("the diagnosis 'flu' is no number"), Stopped("at row 17")])
def test_whatever_happens_after_the_charge_is_told_alike(
    monkeypatch: pytest.MonkeyPatch, curator: Curator, failure: BaseException
) -> None:
    def failing(*_: object) -> Any:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(DuckDB, "read", failing)
        with pytest.raises(Unanswered) as raised:
            curator.sql(COUNT).release(epsilon=1)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    assert not any(word in str(raised.value) for word in ("flu", "17"))
    assert [line.kind for line in curator.ledger][-2:] == ["charge", "stopped"]


def _replaced(path: Path) -> None:
    other = path.with_suffix(".other")
    pa.parquet.write_table(pa.table({"who": [1], "region": ["south"]}), other)
    os.replace(other, path)


@pytest.mark.parametrize("damage", [_replaced, Path.unlink])
def test_a_file_that_is_replaced_while_it_is_read_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """What was read may be neither of the two versions, and is not the one that was charged."""
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(pa.table({"who": [row["who"] for row in ROWS], "region": ["north"] * 5}), path)
    table = Table("people", path, _COLUMNS, id="who", max_rows=2)
    policy = Policy(PrivacyUnit("person"), Budget(10), {"people": table})
    run = Sources.run

    def replacing(sources: Sources, statement: str, parameters: Any = ()) -> Any:
        found = run(sources, statement, parameters)
        if "people" in statement:
            damage(path)
        return found

    with Curator(policy, tmp_path / "replaced.ledger") as curator:
        asked = curator.sql(COUNT)
        assert asked.groups
        monkeypatch.setattr(Sources, "run", replacing)
        with pytest.raises(Unanswered):
            asked.release(epsilon=1)
