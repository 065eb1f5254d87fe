"""What leaves a MariaDB server is at most the cells that were asked for, whatever rows there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pymysql", reason="PyMySQL is not installed: MariaDB is NOT tested")

import sfumato as sf
from engine import sent_rows
from engine.on_mariadb import Sessions
from engine.sent_rows import KINDS, ROWS
from mariadb_server import MariaDBServer
from sfumato.engine import self_test
from sfumato.engine.lowering import reading_statements
from sfumato.engine.mariadb.connection import MariaDBSessions
from sfumato.errors import Unsupported

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")


@pytest.fixture(scope="module")
def curator(mariadb: MariaDBServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """Over tables that are opened without the proof of the server, which ``test_mariadb_meanings`` lets it give."""
    sessions = Sessions(mariadb)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self_test, "require_correct_results", lambda *_: None)
        patch.setattr(self_test, "_changes_case_alike", lambda *_: True)
        opened = sf.Curator(sessions.policy(sent_rows.policy()), tmp_path_factory.mktemp("sent") / "c.ledger")
    with opened:
        yield opened
    sessions.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each statement that read the table."""
    counts: list[int] = []
    fetch = MariaDBSessions.fetch

    def fetch_and_count(server: MariaDBSessions, session: Any, statement: str, parameters: Any) -> Any:
        rows = fetch(server, session, statement, parameters)
        if re.search(r'FROM "rows\d+"\."people"', statement) and not statement.startswith("EXPLAIN"):
            counts.append(0 if re.fullmatch(r'SELECT 1 FROM "rows\d+"\."people" LIMIT [01]', statement) else len(rows))
        return rows

    monkeypatch.setattr(MariaDBSessions, "fetch", fetch_and_count)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_the_cells_that_are_asked_for_leave_the_server(
    kind: str, curator: sf.Curator, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are 3,000, nearly all different: each kind has fewer cells than that."""
    sent_rows.count_few_steps(monkeypatch)
    KINDS[kind].release(curator)
    assert 0 < sum(sent) <= KINDS[kind].cells < ROWS


def test_what_a_client_could_not_hold_is_refused_before_the_charge(
    curator: sf.Curator, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    charged = len(list(curator.ledger.lines()))
    monkeypatch.setattr(reading_statements, "MAX_SENT_ROWS", 400)
    with pytest.raises(Unsupported, match="at most 400"):
        KINDS["quantiles of groups"].release(curator)
    assert not sum(sent)
    assert len(list(curator.ledger.lines())) == charged
