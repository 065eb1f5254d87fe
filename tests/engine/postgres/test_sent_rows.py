"""What leaves a PostgreSQL server is at most the cells that were asked for, whatever rows there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

import psycopg

import sfumato as sf
from engine import sent_rows
from engine.on_postgres import Sessions
from engine.sent_rows import KINDS, ROWS
from postgres_server import PostgresServer
from sfumato.engine.lowering import reading_statements
from sfumato.errors import Unsupported

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")


@pytest.fixture(scope="module")
def curator(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    sessions = Sessions(postgres)
    with sf.Curator(sessions.policy(sent_rows.policy()), tmp_path_factory.mktemp("sent") / "c.ledger") as opened:
        yield opened
    sessions.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each statement that read the table, as the driver counts them."""
    counts: list[int] = []
    fetch = psycopg.RawCursor.fetchall

    def fetch_and_count(cursor: Any) -> list[Any]:
        text = bytes(cursor._query.query)
        if re.search(rb'FROM "?rows\d+"?\."?people', text) and not text.startswith(b"EXPLAIN"):
            counts.append(cursor.rowcount)
        return fetch(cursor)

    monkeypatch.setattr(psycopg.RawCursor, "fetchall", fetch_and_count)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_the_cells_that_are_asked_for_leave_the_server(
    kind: str, curator: sf.Curator, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are 3,000, nearly all different: each kind has fewer cells than that."""
    sent_rows.count_few_steps(monkeypatch)
    KINDS[kind].release(curator)
    assert sent
    assert sum(sent) <= KINDS[kind].cells < ROWS


def test_what_a_client_could_not_hold_is_refused_before_the_charge(
    curator: sf.Curator, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    charged = len(list(curator.ledger.lines()))
    monkeypatch.setattr(reading_statements, "MAX_CELLS", 400)
    monkeypatch.setattr(reading_statements, "MAX_SENT_ROWS", 400)
    for refused in ("synthesis by AIM", "scores", "quantiles of groups"):
        with pytest.raises(Unsupported, match="at most 400"):
            KINDS[refused].release(curator)
    assert not sent
    assert len(list(curator.ledger.lines())) == charged


def test_cells_are_not_bought_from_a_server_which_would_send_pairs_of_all_fine_cells(
    curator: sf.Curator, sent: list[int]
) -> None:
    with pytest.raises(Unsupported, match='"cost" cannot be counted by values or bins'):
        curator.synthesize("people", "mst", 2, columns=["a", "cost"])
    assert not sent
