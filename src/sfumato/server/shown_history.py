"""Lines of history are shown page by page: whole to whoever sees all of them, and to analysts without what others do.

A line of the ledger says what was spent in all until then, what is held, and the hash of the line before it. All three
tell of the purchases of others, so an analyst's own lines are shown without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sfumato.ledger import Line
from sfumato.ledger.spending import NOTHING
from sfumato.server.releases.running_releases import RunningReleases


@dataclass(frozen=True)
class Page:
    """A page holds lines of history, and the number after which the next page begins; None on the last."""

    lines: tuple[Line, ...]
    next: int | None
    answered: frozenset[int] = frozenset()
    """Those of the lines whose answers ``released`` shows again."""
    bought_by: Mapping[int, str] = field(default_factory=dict)
    """Who bought what the account itself paid for, and no analyst's share: by the number of the line."""

    def buyer(self, line: Line) -> str | None:
        """Name who bought what a line is about."""
        return line.analyst or self.bought_by.get(line.number)


def page_of(
    running: RunningReleases, account: str, lines: Iterable[Line], most: int, analyst: str | None, named: Iterable[str]
) -> Page:
    """Make a page of the first so many lines, for an analyst or for whoever sees all; ``named`` have shares."""
    found = list(lines)
    shown = found[:most]
    after = shown[-1].number if len(found) > most else None
    answered = running.kept_lines(account, (each.number for each in shown), analyst)
    if analyst is not None:
        return Page(tuple(_own(each) for each in shown), after, answered)
    unnamed = {each.number: each.request_id for each in shown if each.analyst is None and each.request_id}
    users = running.users(account, unnamed.values(), besides=named)
    bought_by = {number: users[request] for number, request in unnamed.items() if request in users}
    return Page(tuple(shown), after, answered, bought_by)


def _own(line: Line) -> Line:
    return replace(line, spent=NOTHING, held=NOTHING, previous="")
