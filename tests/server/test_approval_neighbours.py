"""Requests, shares and reviews are the same on neighbours, through lapses, refusals and expiry, but for the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server.small_server import COUNT, SmallServer, questions
from server.test_approvals import ASKED, ODA, PRICE, buy, file, governed
from sfumato.errors import SfumatoError
from sfumato.ledger.approval_requests import RequestRecord
from sfumato.ledger.stores.sqlite import SQLiteRows
from sfumato.server.approvals import ApprovalService, RequestedRelease, ShareTerms

START, DAY = 1_800_000_000_000_000, 86_400_000_000
SHARE = ShareTerms("ana", "0.3", 7, ("visits",), ("questions",), "drafts", ("count",))
SUM = RequestedRelease("questions", {"sql": "SELECT SUM(age) AS s FROM visits"}, {"epsilon": "0.1"})
COUNTED = RequestedRelease("questions", questions(4), {"epsilon": "0.1"})
LIMIT = 2
"""The rows of one patient that count."""
OTHERS = [f"p{number // 2},{('north', 'south')[number % 2]},{number}" for number in range(20)]
BEYOND = "one row beyond the limit"
ONE = {
    "at the limit": ["one,north,3"] * LIMIT,
    BEYOND: ["one,south,110"] * (LIMIT + 1),
    "cells that nobody declared": ["one,west,99999", "one,,"],
}
TABLES = {
    "add-remove": {"not there": OTHERS, **{name: [*OTHERS, *rows] for name, rows in ONE.items()}},
    "replace": {name: [*OTHERS, *rows] for name, rows in ONE.items()},
}


class Life:
    """The life of requests, and all that anybody sees of it but the released numbers."""

    def __init__(self, server: SmallServer, clock: list[int]) -> None:
        self.server, self.requests, self.clock = server, server.counter.requests, clock
        self.seen: list[str] = []
        self.numbers: list[int] = []

    def live(self) -> list[str]:
        for step in self._steps():
            try:
                shown = step()
                self.seen.append(str(shown) if hasattr(shown, "steps") else f"line {getattr(shown, 'line', '')}")
                self.numbers += [shown.number] if hasattr(shown, "number") else []
            except SfumatoError as error:
                self.seen.append(f"{error.code} {error}")
            for who in (self.server.ana, self.server.owner):
                self.seen += map(str, self.requests.list(who, "clinic"))
            self.seen.append(self.requests.show(self.server.owner, "clinic", self.numbers[-1]).to_json())
        return self.seen

    def _steps(self) -> Iterator[Callable[[], Any]]:
        server, requests = self.server, self.requests
        yield lambda: requests.file(server.ana, "clinic", ASKED, "why")
        first = self.numbers[0]
        yield lambda: requests.approve(server.owner, "clinic", first)
        # one of two has approved
        yield lambda: requests.release(
            server.ana, "clinic", first, "early"
        ).wait_for_result()  # one of two has approved
        yield lambda: requests.approve(ODA, "clinic", first)
        yield lambda: server.people.set_disabled("oda", True, by="olga")
        yield lambda: requests.release(server.ana, "clinic", first, "lapsed").wait_for_result()
        yield lambda: server.people.set_disabled("oda", False, by="olga")
        yield lambda: requests.release(server.ana, "clinic", first, "key").wait_for_result()
        yield lambda: requests.approve(server.owner, "clinic", first)
        yield lambda: requests.preapprove_releases(server.owner, "clinic", SHARE)
        yield lambda: requests.approve(ODA, "clinic", self.numbers[-1])
        for number, release in enumerate((COUNTED, SUM, RequestedRelease("marginals", {"table": "visits"}, PRICE))):
            yield lambda number=number, release=release: buy(server, key=f"share-{number}", release=release)
        line = buy(server, key="again", release=RequestedRelease("questions", COUNT, PRICE)).line
        yield lambda: requests.request_publication(server.ana, "clinic", [line], "a journal")
        yield lambda: requests.refuse(server.owner, "clinic", self.numbers[-1], "not yet")
        yield lambda: requests.file(server.ana, "clinic", SUM, "later")
        self.clock[0] += 31 * DAY
        yield lambda: requests.approve(server.owner, "clinic", self.numbers[-1])
        yield lambda: requests.withdraw(server.ana, "clinic", self.numbers[-1])


@pytest.mark.parametrize("relation", [pytest.param("add-remove", marks=pytest.mark.long), "replace"])
def test_requests_are_the_same_on_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relation: str, long: bool
) -> None:
    clock = [START]
    monkeypatch.setattr(SQLiteRows, "now", lambda _: clock[0])
    seen, charges = {}, {}
    tables = TABLES[relation]
    for name in tables if long else ("not there" if relation == "add-remove" else "at the limit", BEYOND):
        folder, clock[0] = tmp_path / name, START
        folder.mkdir()
        server = governed(folder, "approvals = 2", rows=tables[name], relation=relation)
        seen[name] = Life(server, clock).live()
        charges[name] = server.charges()
        server.close()
    told = "\n".join(next(iter(seen.values())))
    for state in ("approval lapsed", "released", "counts only", "refused", "expired"):
        assert state in told
    assert len({tuple(each) for each in seen.values()}) == 1
    assert set(charges.values()) == {2}


def test_a_page_that_looks_at_rows_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: what an approver reads depends on the size of the table."""

    def size_of_the_table(_: ApprovalService, curator: Any, record: RequestRecord) -> str:  # noqa: ARG001
        return str((curator.policy.path.parent / "visits.csv").stat().st_size)

    monkeypatch.setattr(SQLiteRows, "now", lambda _: START)
    monkeypatch.setattr(ApprovalService, "_stored_answer_sentence", size_of_the_table)
    seen = set()
    for name in ("not there", "at the limit"):
        folder = tmp_path / name
        folder.mkdir()
        server = governed(folder, rows=TABLES["add-remove"][name])
        seen.add(str(server.counter.requests.show(server.owner, "clinic", file(server))))
        server.close()
    assert len(seen) == 2
