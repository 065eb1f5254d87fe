"""A disk that fills up under a server: nothing is charged that cannot be answered, and it stops and recovers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from server.running_server import running_server
from server.small_server import open_server, questions
from sfumato.errors import LedgerUnavailable
from sfumato.server.rest.routes_health import Readiness
from small_disks import small_disk

PRICE = {"epsilon": "0.01"}


def test_a_full_disk_refuses_uncharged_and_recovers(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24) as disk:
        small = open_server(disk.folder)
        small.counter.release(small.ana, "clinic", "questions", questions(1), PRICE, "first")
        assert small.charges() == 1
        disk.fill()
        for number in range(2, 5):
            with pytest.raises(LedgerUnavailable):
                small.counter.release(small.ana, "clinic", "questions", questions(number), PRICE, f"request {number}")
        with pytest.raises(LedgerUnavailable, match="the server cannot read or write its files"):
            small.counter.require_ready()
        assert small.charges() == 1
        disk.empty()
        small.counter.require_ready()
        small.counter.release(small.ana, "clinic", "questions", questions(2), PRICE, "request 2")
        assert small.charges() == 2
        small.close()
        assert not small.served.reserve.path.exists()


def test_what_was_charged_is_answered_when_the_disk_fills_up_meanwhile(tmp_path: Path) -> None:
    """The disk is full when the rows have been read: the reserve makes room for the answer."""
    with small_disk(tmp_path / "disk", 24) as disk:
        small = open_server(disk.folder)
        account = small.served.curator("clinic")._context.account
        original = account._append_answer

        def fill_and_append(*arguments: object) -> object:
            if not (disk.folder / "filler").exists():
                disk.fill()
            return original(*arguments)

        account._append_answer = fill_and_append  # type: ignore[method-assign]
        released = small.counter.release(small.ana, "clinic", "questions", questions(1), PRICE, "first")
        assert small.charges() == 1
        assert not small.served.reserve.path.exists()
        disk.empty()
        again = small.counter.release(small.ana, "clinic", "questions", questions(1), PRICE, "first")
        assert (again.line, small.charges()) == (released.line, 1)
        small.close()


def test_a_full_disk_is_not_ready_and_stops_in_time(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24) as disk:
        with running_server(disk.folder, answer_after=0.05) as served:
            assert served.buy("ana", "first").status_code == 200
            assert served.call(None, "GET", "/readyz").status_code == 200
            disk.fill()
            refused = served.buy("ana", "second", "SELECT COUNT(*) AS n FROM flights WHERE distance > 500")
            assert (refused.status_code, refused.json()["code"]) == (503, "ledger-unavailable")
            time.sleep(1.1)  # readiness is looked up once a second
            unready = served.call(None, "GET", "/readyz")
            assert (unready.status_code, unready.json()["code"]) == (503, "ledger-unavailable")
            assert str(disk.folder) not in unready.text
            assert served.spent() == 1
            start = time.monotonic()
        assert time.monotonic() - start < 60
        disk.empty()


def test_readiness_is_looked_up_once_a_second() -> None:
    moment, looked_up = [0.0], []

    def require() -> None:
        looked_up.append(moment[0])
        if 1 < moment[0] < 3:
            raise LedgerUnavailable("no", place="here", fix="wait")

    readiness = Readiness(require, lambda: moment[0])
    readiness.require()
    readiness.require()
    moment[0] = 2.0
    for _ in range(2):
        with pytest.raises(LedgerUnavailable):
            readiness.require()
    moment[0] = 3.5
    readiness.require()
    assert looked_up == [0.0, 2.0, 3.5]
