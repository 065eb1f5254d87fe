"""After an owner has changed a policy's file or its data, nothing that is seen has a time that rows decide.

Time is not real here: it goes on by opening, as long as a table's rows decide, and by waiting for the clock. So every
moment is exact, on however busy a machine.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covering_cases import covering
from server.small_server import BOTH, COUNT, SmallServer, open_server, questions
from sfumato.curator import Curator
from sfumato.errors import InvalidPolicy, NotThere, Overspent, ServerUnavailable, SfumatoError, outcome
from sfumato.ledger import Ledger
from sfumato.policy import Policy
from sfumato.release.running_work import Progress, ignore_progress
from sfumato.server.releases import answer_clock
from sfumato.server.releases.answer_clock import AnswerClock
from sfumato.server.releases.running_releases import MAX_TEXTS_PER_LINE

EPSILON = {"epsilon": "0.1"}
TOO_MUCH = {"epsilon": "2"}
"""More than ana's share."""
AFTER = 0.5
DUE = 2 * AFTER
"""When a policy of one table that has changed is open again: whoever asked first waits so long."""
READING = {"few rows": DUE / 128, "half of what fits": DUE / 2, "all that fits": DUE}
"""How long the rows of some tables take to be opened."""
PATIENCE = 120


@dataclass
class Time:
    """Time goes on by opening and by waiting; opening lasts until it may end, and what is seen meanwhile is noted. All
    times are sums of powers of two, and so exact.
    """

    now: float = 128.0
    reading: float = 0.0
    joins_unseen: bool = False
    """Whether openings tell nobody before they write to the ledger: a seeded bug."""
    reads: threading.Event = field(default_factory=threading.Event)
    ends: threading.Event = field(default_factory=threading.Event)
    slept: list[int] = field(default_factory=list)
    joined: Callable[[], int] = lambda: 0

    def sleep(self, seconds: float) -> None:
        self.slept.append(self.joined())
        self.now += seconds

    def opened(self, policy: Policy, ledger: Ledger, progress: Progress) -> Curator:
        """Open a policy, which takes as long as its rows decide."""
        self.reads.set()
        assert self.ends.wait(PATIENCE)
        self.now += self.reading
        return Curator(policy, ledger, progress=ignore_progress if self.joins_unseen else progress)


@dataclass
class Changing:
    """A server whose time is not real, and the changes that its owner makes."""

    time: Time
    small: SmallServer

    def change_data(self) -> None:
        with (self.small.folder / "visits.csv").open("a") as file:
            file.write("p99,north,50\n")

    def change_policy(self) -> None:
        with (self.small.folder / "clinic.toml").open("a") as file:
            file.write("\n")

    def sources(self) -> int:
        return sum(line.kind == "source" for line in self.small.ledger.lines())

    def lasts(self, call: Callable[[], Any]) -> float:
        """Make a call, and give how long it took."""
        start = self.time.now
        with suppress(SfumatoError):
            call()
        return self.time.now - start


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Changing]:
    time = Time()
    time.ends.set()
    clock = AnswerClock(AFTER, lambda: time.now, time.sleep)
    small = open_server(tmp_path, BOTH, clock=clock, opening=time.opened)
    found = Changing(time, small)
    time.joined = found.sources
    time.reads.clear()
    yield found
    time.ends.set()
    small.close()


CHANGES = {"the data": Changing.change_data, "the policy": Changing.change_policy}
Call = Callable[[SmallServer, str], Any]


def buying(price: Mapping[str, Any]) -> Call:
    """Make a call that releases something."""
    return lambda small, key: small.counter.release(small.ana, "clinic", "questions", COUNT, price, key)


CALLS: dict[str, tuple[Call, dict[str, float]]] = {
    "what is answered": (buying({**EPSILON, "fresh": True}), dict.fromkeys(CHANGES, DUE + AFTER)),
    "what is refused": (buying(TOO_MUCH), dict.fromkeys(CHANGES, DUE)),
    "what is free": (
        lambda small, _: small.counter.call_free(small.ana, "clinic", "questions", "price", COUNT, {"within": "5"}),
        {"the data": 0.0, "the policy": DUE},
    ),
    "what is left": (
        lambda small, _: small.counter.budget(small.ana, "clinic"),
        {"the data": 0.0, "the policy": DUE},
    ),
    "what there is": (lambda small, _: small.counter.policies(small.ana), dict.fromkeys(CHANGES, 0.0)),
    "what is not there": (
        lambda small, _: small.counter.budget(small.ana, "school"),
        dict.fromkeys(CHANGES, 0.0),
    ),
}


def moments(changing: Changing, change: str, call: Call) -> list[float]:
    """Change something, make a call, and give how long it took: for each of the tables."""
    found = []
    for number, reading in enumerate(READING.values()):
        changing.time.reading = reading
        CHANGES[change](changing)
        found.append(changing.lasts(lambda key=f"r{number}": call(changing.small, key)))  # type: ignore[misc]
    return found


@covering({"change": [*CHANGES], "call": [*CALLS]})
def test_who_asks_first_is_answered_at_one_moment_whatever_rows_are_opened(
    changing: Changing, change: str, call: str
) -> None:
    made, due = CALLS[call]
    assert moments(changing, change, made) == [due[change]] * len(READING)


@pytest.mark.parametrize("change", CHANGES)
def test_without_the_clock_the_moment_tells_of_rows(
    changing: Changing, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_clock._DelayedOpening, "wait_for_clock", lambda _: None)
    assert len(set(moments(changing, change, buying(TOO_MUCH)))) == len(READING)


@pytest.mark.parametrize("broken", [False, True])
def test_the_ledgers_line_of_changed_data_is_written_when_that_is_due(changing: Changing, broken: bool) -> None:
    changing.time.joins_unseen = broken
    before = changing.sources()
    changing.change_data()
    changing.lasts(partial(buying(TOO_MUCH), changing.small, "r"))
    assert changing.time.slept == [before + broken]
    assert changing.sources() == before + 1


def test_what_takes_longer_to_open_is_seen_at_a_doubled_time_and_counted_for_the_owner(changing: Changing) -> None:
    for reading, due in ((1.5 * DUE, 2 * DUE), (2 * DUE, 2 * DUE), (2.5 * DUE, 4 * DUE)):
        changing.time.reading = reading
        changing.change_policy()
        assert changing.lasts(lambda: changing.small.counter.budget(changing.small.ana, "clinic")) == due
    assert changing.small.counter.overrun_count(changing.small.owner, "clinic") == 3


def test_what_cannot_be_opened_is_refused_at_one_moment_too(changing: Changing) -> None:
    (changing.small.folder / "visits.csv").write_text("patient,region\nSecretPerson,north\n")
    for reading in READING.values():
        changing.time.reading = reading
        start = changing.time.now
        with pytest.raises(InvalidPolicy, match="the policy cannot be opened"):
            buying(EPSILON)(changing.small, "r")
        assert changing.time.now - start == DUE


def test_what_the_policy_itself_refuses_is_refused_at_once(changing: Changing) -> None:
    changing.time.reading = DUE
    (changing.small.folder / "clinic.toml").write_text("nonsense")
    assert changing.lasts(lambda: changing.small.counter.budget(changing.small.owner, "clinic")) == 0
    assert not changing.time.reads.is_set()


# ── others ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def opening(changing: Changing) -> Iterator[tuple[Changing, Future[Any]]]:
    """Let ana ask after the data have changed, and stand still while they are opened."""
    changing.small.counter.release(changing.small.ben, "clinic", "questions", questions(5), EPSILON, "before")
    changing.change_data()
    changing.time.ends.clear()
    with ThreadPoolExecutor(1) as threads:
        try:
            asked = threads.submit(buying(EPSILON), changing.small, "first")
            assert changing.time.reads.wait(PATIENCE)
            yield changing, asked
        finally:
            changing.time.ends.set()


OTHERS: dict[str, Callable[[SmallServer], Any]] = {
    "names of policies": lambda small: small.counter.policies(small.ben),
    "its budget": lambda small: small.counter.budget(small.ben, "clinic"),
    "its history": lambda small: small.counter.history(small.ben, "clinic"),
    "its tables": lambda small: small.counter.tables(small.ben, "clinic"),
    "a price": lambda small: small.counter.call_free(small.ben, "clinic", "questions", "error", COUNT, EPSILON),
    "an answer of before": lambda small: small.counter.release(
        small.ben, "clinic", "questions", questions(5), EPSILON, "before"
    ),
    "another policy's budget": lambda small: small.counter.budget(small.ben, "school"),
}


def test_others_are_answered_while_rows_are_opened(opening: tuple[Changing, Future[Any]]) -> None:
    changing, asked = opening
    start, lines = changing.time.now, changing.sources()
    with ThreadPoolExecutor(1) as threads:
        for call in OTHERS.values():
            threads.submit(call, changing.small).result(PATIENCE)
        with pytest.raises(NotThere):
            threads.submit(changing.small.counter.budget, changing.small.ana, "school").result(PATIENCE)
    assert (changing.time.now, changing.sources()) == (start, lines)
    assert not asked.done()
    changing.time.ends.set()
    assert asked.result(PATIENCE).answer.receipt.data == "version 2"


def test_all_who_need_what_is_opened_wait_for_one_opening_and_not_too_many(
    opening: tuple[Changing, Future[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    changing, asked = opening
    monkeypatch.setattr(answer_clock, "MAX_WAITING", 1)
    asking = partial(changing.small.counter.release, changing.small.ben, "clinic", "questions", COUNT, EPSILON)
    with pytest.raises(ServerUnavailable, match="too many calls are waiting") as refused:
        asking("second")
    assert outcome(refused.value).http_status == 503
    monkeypatch.setattr(answer_clock, "MAX_WAITING", 2)
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(asking, "third")
        changing.time.ends.set()
        assert {each.result(PATIENCE).answer.receipt.data for each in (asked, second)} == {"version 2"}
    assert changing.sources() == 3  # of two policies, and of the change


# ── what was bought of the data as they were ───────────────────────────────────────────────────


def test_what_was_answered_about_other_data_is_not_given_for_these(changing: Changing) -> None:
    counter = changing.small.counter
    bought = counter.release(changing.small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    assert counter.release(changing.small.ben, "clinic", "questions", COUNT, EPSILON, "two").free
    changing.change_data()
    now = counter.release(changing.small.ben, "clinic", "questions", COUNT, EPSILON, "three")
    assert (now.free, now.answer.receipt.data) == (False, "version 2")
    again = counter.release(changing.small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    assert (again.line, again.answer.receipt.data) == (bought.line, "version 1")


def test_a_key_beyond_those_whose_text_is_kept_shows_its_line_after_the_data_have_changed(changing: Changing) -> None:
    counter, ana = changing.small.counter, changing.small.ana
    bought = counter.release(ana, "clinic", "questions", COUNT, EPSILON, "one")
    for number in range(MAX_TEXTS_PER_LINE + 1):
        named = {"sql": f"SELECT COUNT(*) AS n{number} FROM visits"}
        counter.release(ana, "clinic", "questions", named, EPSILON, f"named {number}")
    changing.change_data()
    assert not counter.release(ana, "clinic", "questions", COUNT, EPSILON, "new").free
    for key in ("named 0", f"named {MAX_TEXTS_PER_LINE}"):
        again = counter.answer_of_request(ana, "clinic", key)
        assert (again.line, again.answer.rows, again.free) == (bought.line, bought.answer.rows, True)


def test_a_budget_that_is_spent_refuses_when_what_has_changed_is_due(changing: Changing) -> None:
    changing.change_data()
    with pytest.raises(Overspent):
        buying(TOO_MUCH)(changing.small, "r")
    assert changing.small.charges() == 0


# ── a file that changes while it is opened ─────────────────────────────────────────────────────


def write(changing: Changing, share: str) -> None:
    """Write another policy: with this share of ana's, or without ana."""
    path = changing.small.folder / "clinic.toml"
    kept = [part for part in re.split(r"(?m)^(?=\[)", path.read_text()) if not part.startswith("[analysts.ana]")]
    path.write_text("".join(kept) + (f"\n[analysts.ana]\nshare = {share}\n" if share else "\n"))


def standing_while_opened(changing: Changing, before: str, after: str) -> Any:
    """Let the owner write one policy, which is opened for somebody's call, and then another; and let ana ask."""
    changing.time.ends.clear()
    write(changing, before)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(changing.small.counter.budget, changing.small.owner, "clinic")
        assert changing.time.reads.wait(PATIENCE)
        write(changing, after)
        asked = pool.submit(changing.small.counter.account, changing.small.ana, "clinic")
        until = time.monotonic() + PATIENCE
        while changing.small.served._openings._waiting < 2 and not asked.done() and time.monotonic() < until:
            time.sleep(0.01)
        changing.time.ends.set()
        first.result(PATIENCE)
        return asked.result(PATIENCE)


def test_a_share_that_is_written_while_the_file_is_opened_is_the_one_that_holds(changing: Changing) -> None:
    """Whoever joins an opening of the file as it was before is not served by that: it may not name them."""
    found = standing_while_opened(changing, before="", after="0.5")
    assert found == changing.small.counter.account(changing.small.ana, "clinic")
    assert found[1] == Fraction(1, 2)


def test_whom_the_file_no_longer_names_is_not_served_by_an_opening_that_names_them(changing: Changing) -> None:
    with pytest.raises(NotThere):
        standing_while_opened(changing, before="0.25", after="")
