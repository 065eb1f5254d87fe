"""The counter is the one way in: roles, access, single flight, idempotency, hang-ups, the clock and the log."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from server.small_server import BOTH, COUNT, POLICY, SmallServer, held_server, open_server, questions
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.errors import (
    AccountDiffers,
    Draining,
    InvalidParameter,
    InvalidRequest,
    LedgerUnavailable,
    NotAllowed,
    NotSignedIn,
    NotThere,
    Overspent,
    Paused,
    RequestDiffers,
    ServerUnavailable,
    SfumatoError,
    TooManyRequests,
    Unsupported,
    WeakPrivacy,
    outcome,
)
from sfumato.ledger import Charged, Entry
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.sqlite import SQLiteRows
from sfumato.mechanisms import Laplace
from sfumato.server.gateway import Gateway
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_spending_limits import ChargePermit
from sfumato.server.people.users import Caller, Credentials, Role
from sfumato.server.releases.answer_clock import AnswerClock, QuestionRateLimit
from sfumato.server.releases.running_releases import (
    BYTES,
    MAX_TEXTS_PER_LINE,
    Phase,
    ReleaseKey,
    RunningReleases,
    StoredRelease,
)

EPSILON = {"epsilon": "0.1"}


# ── roles ──────────────────────────────────────────────────────────────────────────────────────

Call = Callable[[Gateway, Caller], Any]
CALLS: dict[str, Call] = {
    "policies": lambda counter, who: counter.policies(who),
    "policy": lambda counter, who: counter.policy(who, "clinic"),
    "budget": lambda counter, who: counter.budget(who, "clinic"),
    "explain": lambda counter, who: counter.call_free(who, "clinic", "questions", "explain", COUNT),
    "error": lambda counter, who: counter.call_free(who, "clinic", "questions", "error", COUNT, EPSILON),
    "price": lambda counter, who: counter.call_free(who, "clinic", "questions", "price", COUNT, {"within": 10}),
    "preview": lambda counter, who: counter.call_free(who, "clinic", "questions", "preview", COUNT, EPSILON),
    "columns": lambda counter, who: counter.call_free(who, "clinic", "questions", "columns", COUNT),
    "propose": lambda counter, who: counter.call_free(who, "clinic", "questions", "propose", COUNT),
    "advise": lambda counter, who: counter.call_free(who, "clinic", "questions", "advise", COUNT, EPSILON),
    "plot": lambda counter, who: counter.call_free(who, "clinic", "questions", "plot", COUNT),
    "account": lambda counter, who: counter.account(who, "clinic"),
    "tables": lambda counter, who: counter.tables(who, "clinic"),
    "release": lambda counter, who: counter.release(who, "clinic", "questions", COUNT, EPSILON, "mine"),
    "progress": lambda counter, who: counter.progress(who, "clinic", "bought"),
    "answer_on_line": lambda counter, who: counter.answer_on_line(who, "clinic", _bought_line(counter)),
    "answer_of_request": lambda counter, who: counter.answer_of_request(who, "clinic", "bought"),
    "history": lambda counter, who: counter.history(who, "clinic"),
    "latest_history": lambda counter, who: counter.latest_history(who, "clinic"),
    "spending_plot": lambda counter, who: counter.spending_plot(who, "clinic"),
    "is_paused": lambda counter, who: counter.is_paused(who, "clinic"),
    "bought_lines": lambda counter, who: counter.bought_lines(who, "clinic", ["questions"]),
    "users": lambda counter, who: counter.users(who),
    "add_user": lambda counter, who: counter.add_user(who, "carl", "analyst"),
    "disable_user": lambda counter, who: counter.disable_user(who, "ben"),
    "new_login_link": lambda counter, who: counter.new_login_link(who, "ana"),
    "tokens": lambda counter, who: counter.tokens(who),
    "new_token": lambda counter, who: counter.new_token(who, "ana", expires=timedelta(days=1)),
    "revoke_token": lambda counter, who: counter.revoke_token(who, 1),
    "shares": lambda counter, who: counter.shares(who, "clinic"),
    "weaknesses": lambda counter, who: counter.weaknesses(who, "clinic"),
    "amend": lambda counter, who: counter.amend(who, "clinic", "second year"),
    "pause": lambda counter, who: counter.pause(who, "clinic"),
    "acts": lambda counter, who: counter.acts(who),
    "latest_acts": lambda counter, who: counter.latest_acts(who, 10**6),
    "overrun_count": lambda counter, who: counter.overrun_count(who, "clinic"),
    "require_owner": lambda counter, who: counter.require_owner(who, "metrics"),
    "verify": lambda counter, who: counter.verify(who),
    "export": lambda counter, who: counter.export(who, "csv", _new_file(counter)),
    "anchor": lambda counter, who: counter.anchor(who),
}
FOR_ALL = ("policies",)
OF_THE_NAMED = (
    *("policy", "budget", "account", "tables", "history", "latest_history", "spending_plot", "is_paused"),
    "bought_lines",
)
ASKING = ("propose", "columns", "explain", "error", "price", "advise", "plot", "preview", "release")
OF_BUYERS = ("progress", "answer_of_request", "answer_on_line")
OWNERS = (
    *("users", "add_user", "disable_user", "new_login_link", "tokens", "new_token", "revoke_token"),
    *("shares", "weaknesses", "amend", "pause", "overrun_count", "require_owner"),
)
AUDITING = ("acts", "latest_acts", "verify", "export", "anchor")
PEOPLE = ("owner", "auditor", "ana", "stranger")


def _bought_line(counter: Gateway) -> int:
    return counter.progress(Caller("ana", Role.ANALYST), "clinic", "bought").line or 0


def _new_file(counter: Gateway) -> Path:
    return counter.served.ledger_path.parent / "exported.csv"


def expected(who: str, call: str) -> type[SfumatoError] | None:
    """Say what the table of roles says."""
    if call in FOR_ALL:
        return None
    if call in OWNERS:
        return None if who == "owner" else NotAllowed
    if call in AUDITING:
        return None if who in ("owner", "auditor") else NotAllowed
    if call in ASKING and who == "auditor":
        return NotAllowed
    if who == "stranger":
        return NotThere
    if call in ("progress", "answer_of_request"):
        return None if who == "ana" else NotThere
    return None


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server of which ana has bought one answer."""
    small = open_server(tmp_path_factory.mktemp("roles"))
    small.people.add_user("stranger", "analyst", by="olga")
    small.people.new_token("ana", by="olga")
    small.counter.release(small.ana, "clinic", "questions", questions(3), EPSILON, "bought")
    yield small
    small.close()


def test_the_table_of_roles_names_every_call() -> None:
    told = {*FOR_ALL, *OF_THE_NAMED, *ASKING, *OF_BUYERS, *OWNERS, *AUDITING}
    assert told == set(CALLS)
    not_calls = {
        "caller",
        "caller_of_token",
        "rate_limit_read",
        "sign_in",
        "sign_out",
        "call_free",
        "authorized_parsing",
    }
    not_calls |= {"start", "wait", "drain", "stop_accepting", "require_ready", "turns_begun_if_idle"}
    public = {name for name in vars(Gateway) if not name.startswith("_")}
    assert public - not_calls <= told
    assert not_calls <= public


def test_what_cannot_be_read_is_read_only_of_who_may_and_not_too_often(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=1)
    wrong = InvalidRequest("nonsense", place="the body", fix="send something else")
    with pytest.raises(NotAllowed), small.counter.authorized_parsing(small.auditor, "tell", Role.OWNER, Role.ANALYST):
        raise AssertionError("it was read")
    refused = []
    for _ in range(200):
        try:
            with small.counter.authorized_parsing(small.ana, "tell", Role.OWNER, Role.ANALYST):
                raise wrong
        except SfumatoError as error:
            refused.append(type(error).__name__)
    assert set(refused) == {"InvalidRequest", "TooManyRequests"}
    assert refused[0] == "InvalidRequest"
    with (
        pytest.raises(InvalidRequest),
        small.counter.authorized_parsing(small.ben, "tell", Role.ANALYST),
    ):  # it is her own limit
        raise wrong
    before = len(small.log())
    with small.counter.authorized_parsing(small.ben, "tell", Role.ANALYST):
        pass
    assert len(small.log()) == before == 202  # what can be read is written down by what is done with it
    small.close()


@pytest.mark.parametrize("call", sorted(CALLS))
@pytest.mark.parametrize("who", PEOPLE)
def test_every_call_by_every_role(asked: SmallServer, who: str, call: str) -> None:
    stranger = Caller("stranger", Role.ANALYST)
    caller = {"owner": asked.owner, "auditor": asked.auditor, "ana": asked.ana, "stranger": stranger}[who]
    charges, acts = asked.charges(), asked.people.acts()
    refusal = expected(who, call)
    if refusal is None:
        CALLS[call](asked.counter, caller)
    else:
        with pytest.raises(refusal):
            CALLS[call](asked.counter, caller)
    if refusal is not None:
        assert asked.charges() == charges
        assert asked.people.acts() == acts
    with suppress(InvalidParameter):  # as it was, for the next cell
        asked.people.set_disabled("ben", False, by="olga")
    asked.people.pause("clinic", False, by="olga")
    _new_file(asked.counter).unlink(missing_ok=True)
    with asked.people.database.write_transaction() as rows:
        rows.execute("DELETE FROM users WHERE name = 'carl'")


def test_an_unknown_policy_and_one_that_names_others_are_refused_alike(two_policies: SmallServer) -> None:
    for name in ("school", "nowhere"):
        with pytest.raises(NotThere) as refused:
            two_policies.counter.call_free(two_policies.ana, name, "questions", "explain", COUNT)
        assert str(refused.value).replace(name, "x") == str(NotThere("policy x"))
    assert two_policies.counter.policies(two_policies.ana) == ("clinic",)
    assert two_policies.counter.policies(two_policies.auditor) == ("clinic", "school")


def test_nobody_is_known_by_a_wrong_token(small: SmallServer) -> None:
    texts = set()
    for shown in (Credentials(), Credentials(token="x"), Credentials(cookie="x"), Credentials(token="sfu_" + "a" * 43)):
        with pytest.raises(NotSignedIn) as refused:
            small.counter.caller(shown)
        texts.add(str(refused.value))
    assert len(texts) == 1


def test_an_analyst_sees_their_own_lines_and_budget_alone(small: SmallServer) -> None:
    small.counter.release(small.ana, "clinic", "questions", questions(1), EPSILON, "a")
    bens = small.counter.release(small.ben, "clinic", "questions", questions(2), EPSILON, "b")
    mine = small.counter.history(small.ana, "clinic").lines
    assert {line.analyst for line in mine} == {"ana"}
    every = small.counter.history(small.auditor, "clinic").lines
    assert {"ana", "ben"} <= {line.analyst for line in every}
    assert every == small.counter.history(small.owner, "clinic").lines
    with pytest.raises(NotThere):
        small.counter.answer_on_line(small.ana, "clinic", bens.line)
    with pytest.raises(NotThere):
        small.counter.progress(small.ana, "clinic", "b")
    budget = small.counter.budget(small.ana, "clinic")
    assert budget.left["pure"] == Fraction("1.4")  # type: ignore[union-attr]


def test_an_analysts_lines_tell_nothing_of_what_others_spend(small: SmallServer) -> None:
    """Neither what was spent in all, nor what is held, nor the hash of another's line."""
    found = []
    for epsilon in ("0.1", "0.7"):
        small.counter.release(small.ben, "clinic", "questions", COUNT, {"epsilon": epsilon, "fresh": True}, epsilon)
        mine = small.counter.release(small.ana, "clinic", "questions", COUNT, {**EPSILON, "fresh": True}, epsilon)
        for page in (
            small.counter.history(small.ana, "clinic", mine.line - 1),
            small.counter.latest_history(small.ana, "clinic", limit=1),
        ):
            found.append(page.lines[0])
            assert found[-1].number == mine.line
    told = {(line.spent.pure, line.held.pure, line.previous) for line in found}
    assert told == {(0, 0, "")}
    whole = small.counter.history(small.auditor, "clinic").lines
    assert len({line.spent.pure for line in whole}) > 3
    assert all(line.previous for line in whole[1:])


def test_history_says_who_bought_what_no_share_paid_for(small: SmallServer) -> None:
    bought = small.counter.release(small.owner, "clinic", "questions", COUNT, EPSILON, "one")
    small.counter.release(small.ana, "clinic", "questions", questions(1), EPSILON, "one")
    for page in (small.counter.history(small.auditor, "clinic"), small.counter.latest_history(small.owner, "clinic")):
        buyers = {line.number: page.buyer(line) for line in page.lines if line.request_id}
        assert dict.fromkeys((bought.line - 1, bought.line), "olga").items() <= buyers.items()
        assert sorted(buyers.values()) == ["ana", "ana", "olga", "olga"]


def test_history_is_read_page_by_page(small: SmallServer) -> None:
    for number in range(3):
        small.counter.release(small.ana, "clinic", "questions", questions(number), EPSILON, f"r{number}")
    whole = small.counter.history(small.owner, "clinic").lines
    found, after = [], 0
    while True:
        page = small.counter.history(small.owner, "clinic", after, 2)
        found += page.lines
        if page.next is None:
            break
        after = page.next
    assert tuple(found) == whole
    assert len(whole) > 6


# ── what spends ────────────────────────────────────────────────────────────────────────────────


def test_a_release_answers_at_its_time_and_stored_ones_and_refusals_at_once(tmp_path: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    small = open_server(tmp_path, clock=AnswerClock(0.5, sleep=sleep))
    start = time.monotonic()
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    assert time.monotonic() - start >= 0.5
    assert not first.free
    assert len(slept) >= 1
    slept.clear()
    for request in ("r1", "r2"):
        again = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, request)
        assert (again.free, again.line) == (True, first.line)
    with pytest.raises(Overspent):
        small.counter.release(small.ana, "clinic", "questions", COUNT, {"epsilon": 2}, "r3")
    with pytest.raises(Unsupported):
        small.counter.release(small.ana, "clinic", "questions", {"sql": "SELECT * FROM visits"}, EPSILON, "r4")
    assert slept == []
    assert small.charges() == 1
    small.close()


def test_nothing_shows_that_rows_are_read_before_the_answer_is_due(tmp_path: Path) -> None:
    """Between the end of the reading and the moment of the answer nobody sees a line, a stored answer, or a phase."""
    read, due = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        read.set()
        assert due.wait(120)
        moment[0] += 1e6

    moment = [0.0]
    small = open_server(tmp_path, clock=AnswerClock(100.0, lambda: moment[0], sleep))
    flight = small.counter.start(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    assert read.wait(120)
    lines = small.counter.history(small.owner, "clinic").lines
    assert lines[-1].kind == "charge"
    forecast = small.counter.call_free(small.ben, "clinic", "questions", "error", COUNT, EPSILON)
    assert not forecast.stored
    assert small.counter.progress(small.ana, "clinic", "r1").phase is Phase.CHARGED
    joined = small.counter.start(small.ben, "clinic", "questions", COUNT, EPSILON, "r1")
    assert not joined.future.done()
    assert not flight.future.done()
    due.set()
    assert joined.wait_for_result().line == flight.wait_for_result().line
    assert joined.wait_for_result().free
    times = [line.time for line in small.counter.history(small.owner, "clinic").lines[-2:]]
    assert times[1] > times[0]
    assert small.charges() == 1
    small.close()


def test_an_overrun_is_counted_for_the_owner(tmp_path: Path) -> None:
    small = open_server(tmp_path, BOTH, answer_after=0.001)
    small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    assert small.counter.overrun_count(small.owner, "clinic") == 1
    assert small.counter.overrun_count(small.owner, "school") == 0
    small.close()


def test_many_equal_requests_are_one_flight_and_one_charge(small: SmallServer) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(
                lambda _: small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "same"), range(8)
            )
        )
    assert len({each.line for each in found}) == 1
    assert small.charges() == 1


def test_equal_questions_under_different_ids_are_one_charge(small: SmallServer) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(
            threads.map(
                lambda n: small.counter.release(
                    (small.ana, small.ben)[n % 2], "clinic", "questions", COUNT, EPSILON, f"r{n}"
                ),
                range(4),
            )
        )
    assert len({each.line for each in found}) == 1
    assert small.charges() == 1


def test_a_request_id_names_one_release_for_ever(small: SmallServer) -> None:
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "one")
    for spec, price in ((questions(5), EPSILON), (COUNT, {"epsilon": "0.2"})):
        with pytest.raises(RequestDiffers):
            small.counter.release(small.ana, "clinic", "questions", spec, price, "one")
    assert small.charges() == 1
    other = small.counter.release(small.ben, "clinic", "questions", questions(5), EPSILON, "one")
    assert other.line != first.line  # the ids of others are their own
    for bad in ("", " x", "x" * 201, "a\nb"):
        with pytest.raises(InvalidParameter):
            small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, bad)


def test_a_fresh_release_is_bought_once_for_its_id(small: SmallServer) -> None:
    price = {**EPSILON, "fresh": True}
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, price, "f1")
    again = small.counter.release(small.ana, "clinic", "questions", COUNT, price, "f1")
    assert (again.line, again.free) == (first.line, True)
    assert small.charges() == 1
    assert small.counter.release(small.ana, "clinic", "questions", COUNT, price, "f2").line != first.line
    assert small.charges() == 2


def test_a_released_answer_is_shown_again_and_never_bought_again(small: SmallServer) -> None:
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    again = small.counter.answer_on_line(small.ana, "clinic", first.line)
    assert again.answer.to_json().split('"rows"')[1][:50] == first.answer.to_json().split('"rows"')[1][:50]
    for line in (0, first.line - 1, 10**6):
        with pytest.raises(NotThere):
            small.counter.answer_on_line(small.ana, "clinic", line)
    (small.folder / "visits.csv").write_text((small.folder / "visits.csv").read_text() + "p99,north,50\n")
    assert small.counter.answer_on_line(small.ana, "clinic", first.line).line == first.line
    assert small.charges() == 1


EDITS = {
    "bounds of a column": ("bounds = [0, 110]", "bounds = [0, 120]"),
    "rows of one unit": ("max_rows = 2", "max_rows = 1"),
    "values of a column": ('"north", "south"', '"north", "south", "east"'),
    "a column is gone": ('age = { type = "integer", bounds = [0, 110] }', ""),
    "the share of who bought it": ("[analysts.ana]\nshare = 0.5", "[analysts.ana]\nshare = 0.25"),
    "who bought it is not named": ("[analysts.ana]\nshare = 0.5\n", ""),
    "no policy at all": ("[unit]", "[unit"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_released_answer_is_shown_again_whatever_becomes_of_the_policy(small: SmallServer, edit: str) -> None:
    """As it was bought, to who bought it if they are named, and to those who see everything."""
    spec = {"sql": "SELECT region, SUM(age) AS s FROM visits GROUP BY region"}
    asked = ("clinic", "questions", spec, EPSILON, "r1")
    first = small.counter.release(small.ana, *asked)
    path = small.folder / "clinic.toml"
    (before, after), text = EDITS[edit], path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    out = edit == "who bought it is not named"
    for who in (small.owner, small.auditor, *(() if out else (small.ana,))):
        shown = small.counter.answer_on_line(who, "clinic", first.line)
        assert (shown.line, shown.free, shown.answer.rows) == (first.line, True, first.answer.rows)
        assert shown.answer.receipt == replace(first.answer.receipt, free=True)
    if out:
        with pytest.raises(NotThere):
            small.counter.answer_on_line(small.ana, "clinic", first.line)
    else:
        again = small.counter.release(small.ana, *asked)
        assert (again.line, again.free, again.answer.rows) == (first.line, True, first.answer.rows)
    assert small.charges() == 1


def test_an_answer_of_which_only_the_question_was_kept_is_found_again(small: SmallServer) -> None:
    """As it was by a version before, whose files have no answers."""
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    with small.people.database.write_transaction() as rows:
        rows.execute("UPDATE answers SET answer = ''")
    assert small.counter.answer_on_line(small.auditor, "clinic", first.line).answer.rows == first.answer.rows


def test_a_stored_answer_is_kept_once_for_all_ids_that_ask_for_it(small: SmallServer) -> None:
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    for number in range(20):
        again = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, f"again {number}")
        assert (again.line, again.answer.rows) == (first.line, first.answer.rows)
    assert small.counter.answer_of_request(small.ana, "clinic", "again 19").answer.rows == first.answer.rows
    with small.people.database.read_transaction() as rows:
        kept = [rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("answers", "texts")]
    assert kept == [21, 2]  # as it was bought, and as it is given for nothing


def test_a_stored_answer_under_many_names_of_columns_takes_so_much_room_and_no_more(small: SmallServer) -> None:
    first = small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    for number in range(MAX_TEXTS_PER_LINE + 4):
        named = {"sql": f"SELECT COUNT(*) AS n{number} FROM visits"}
        again = small.counter.release(small.ana, "clinic", "questions", named, EPSILON, f"named {number}")
        assert (again.line, again.free, again.answer.columns) == (first.line, True, (f"n{number}",))
        told = small.counter.answer_of_request(
            small.ana, "clinic", f"named {number}"
        )  # also where only the question is kept
        assert (told.answer.columns, told.answer.rows) == (again.answer.columns, first.answer.rows)
    with small.people.database.read_transaction() as rows:
        assert rows.execute("SELECT count(*) FROM texts").fetchone() == (
            MAX_TEXTS_PER_LINE,
        )  # one of them was paid for


@pytest.mark.parametrize("broken", ["the answer cannot be kept", "the file cannot be used"])
def test_an_answer_that_cannot_be_kept_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Each is stored in the ledger all the same, and its place among the user's releases is free again."""
    small = open_server(tmp_path, releases_at_once=2)
    end = RunningReleases.finish

    def failing(self: RunningReleases, request: ReleaseKey, kept: StoredRelease | None, late: int) -> None:
        if kept is not None or broken == "the file cannot be used":
            raise LedgerUnavailable("no room", place="people", fix="make room")
        end(self, request, kept, late)

    with monkeypatch.context() as patch:
        patch.setattr(RunningReleases, "finish", failing)
        for number in range(2):
            with pytest.raises(LedgerUnavailable):
                small.counter.release(small.ana, "clinic", "questions", questions(number), EPSILON, f"r{number}")
    third = small.counter.start(small.ana, "clinic", "questions", questions(2), EPSILON, "r2")
    assert not third.future.result(20).free
    assert small.counter.release(small.ana, "clinic", "questions", questions(0), EPSILON, "r0").free
    assert small.charges() == 3
    with small.people.database.read_transaction() as rows:
        assert rows.execute("SELECT count(*) FROM running").fetchone() == (0,)
    small.close()


def test_what_was_not_bought_is_told_again_to_who_asked(small: SmallServer) -> None:
    spec = {"sql": "SELECT DISTINCT region FROM visits"}
    first = small.counter.release(small.ana, "clinic", "questions", spec, {}, "free")
    assert small.counter.progress(small.ana, "clinic", "free").line == first.line == 0
    assert small.counter.answer_of_request(small.ana, "clinic", "free").answer.rows == first.answer.rows
    for who, request in ((small.ben, "free"), (small.ana, "other")):
        with pytest.raises(NotThere):
            small.counter.answer_of_request(who, "clinic", request)
    with pytest.raises(NotThere):
        small.counter.answer_on_line(small.ana, "clinic", 0)


def test_marginals_are_released_and_shown_again_in_the_same_way(small: SmallServer) -> None:
    spec = {"table": "visits", "ways": 1}
    first = small.counter.release(small.ana, "clinic", "marginals", spec, EPSILON, "m1")
    again = small.counter.release(small.ana, "clinic", "marginals", spec, EPSILON, "m1")
    assert (again.line, again.free) == (first.line, True)
    assert small.charges() == 1


def test_changed_data_are_asked_as_they_are_now(small: SmallServer) -> None:
    small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    (small.folder / "visits.csv").write_text((small.folder / "visits.csv").read_text() + "p99,north,50\n")
    found = small.counter.release(small.ana, "clinic", "questions", questions(7), EPSILON, "r2")
    assert found.answer.receipt.data == "version 2"


def test_what_was_opened_before_is_let_go_when_nobody_uses_it(tmp_path: Path) -> None:
    gc.freeze()  # what other tests left is not looked through
    small = open_server(tmp_path)
    path = small.folder / "clinic.toml"
    used = small.served.curator("clinic")
    for number in range(5):
        path.write_text(path.read_text() + f"# {number}\n")
        small.counter.tables(small.ana, "clinic")
        small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, f"r{number}")
    gc.collect()
    small.served.reopen(small.owner, "clinic", small.served.last_open_policy("clinic"))
    kept = small.served._closing
    assert len(kept) == 2  # the one that is used here, and the last before this one
    assert kept[0].alive
    assert not used.sql(COUNT["sql"]).release(epsilon="0.1", fresh=True).receipt.free
    del used
    gc.collect()
    assert not kept[0].alive
    small.close()


def test_the_access_list_is_the_one_that_is_written_now(small: SmallServer) -> None:
    path = small.folder / "clinic.toml"
    path.write_text(path.read_text().replace("[analysts.ana]\nshare = 0.5\n", ""))
    with pytest.raises(NotThere):
        small.counter.budget(small.ana, "clinic")
    assert small.counter.policies(small.ana) == ()
    path.write_text("nonsense")
    with pytest.raises(SfumatoError):
        small.counter.budget(small.ben, "clinic")


def test_whoever_hangs_up_stops_nothing(tmp_path: Path) -> None:
    small, due = held_server(tmp_path)

    async def hang_up() -> None:
        flight = small.counter.start(small.ana, "clinic", "questions", COUNT, EPSILON, "left")
        waiting = asyncio.create_task(small.counter.wait(flight))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not flight.future.cancelled()

    asyncio.run(hang_up())
    due.set()
    assert small.counter.drain(120)
    assert small.charges() == 1
    kinds = [line.kind for line in small.ledger.lines(account="clinic")]
    assert kinds[-2:] == ["charge", "answer"]
    assert small.counter.progress(small.ana, "clinic", "left").phase is Phase.DONE
    small.close()


def test_draining_ends_what_was_taken_and_takes_nothing_new(small: SmallServer) -> None:
    flights = [
        small.counter.start(who, "clinic", "questions", questions(n), EPSILON, f"r{n}")
        for n, who in enumerate((small.ana, small.ben, small.ana))
    ]
    assert small.counter.drain(120)
    assert all(flight.future.done() for flight in flights)
    with pytest.raises(Draining):
        small.counter.release(small.ana, "clinic", "questions", questions(9), EPSILON, "late")
    assert small.counter.release(small.ana, "clinic", "questions", questions(0), EPSILON, "again").free


def test_a_paused_policy_answers_nothing_new(small: SmallServer) -> None:
    small.counter.pause(small.owner, "clinic")
    with pytest.raises(Paused):
        small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    other = small.again()
    with pytest.raises(Paused):
        other.counter.release(other.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    small.counter.pause(small.owner, "clinic", paused=False)
    assert not other.counter.release(other.ana, "clinic", "questions", COUNT, EPSILON, "r1").free
    other.close()


def test_what_was_answered_is_told_again_while_a_policy_is_paused(two_policies: SmallServer) -> None:
    bought = two_policies.counter.release(two_policies.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    two_policies.counter.pause(two_policies.owner, "clinic")
    other = two_policies.again()
    for counter in (two_policies.counter, other.counter):
        again = counter.release(two_policies.ana, "clinic", "questions", COUNT, EPSILON, "r1")
        assert (again.line, again.free) == (bought.line, True)
        assert counter.release(two_policies.ana, "clinic", "questions", COUNT, EPSILON, "another key").free
    with pytest.raises(NotThere):
        two_policies.counter.release(two_policies.ana, "school", "questions", COUNT, EPSILON, "r1")
    with pytest.raises(Paused):
        two_policies.counter.release(two_policies.ana, "clinic", "questions", questions(7), EPSILON, "r2")
    path = two_policies.folder / "clinic.toml"
    path.write_text(path.read_text() + "nonsense = [")
    with pytest.raises(Paused):
        two_policies.counter.release(two_policies.ana, "clinic", "questions", questions(7), EPSILON, "r3")
    assert two_policies.charges() == 1
    other.close()


def test_others_are_told_to_wait_while_an_owner_changes_a_budget(small: SmallServer) -> None:
    path = small.folder / "clinic.toml"
    path.write_text(path.read_text().replace("epsilon = 3", "epsilon = 4"))
    with pytest.raises(ServerUnavailable, match="cannot be used at the moment") as refused:
        small.counter.budget(small.ana, "clinic")
    assert outcome(refused.value).http_status == 503
    with pytest.raises(AccountDiffers):
        small.counter.budget(small.owner, "clinic")
    small.counter.amend(small.owner, "clinic", "second year")
    small.counter.budget(small.ana, "clinic")


def test_who_runs_out_of_files_is_not_told_that_the_policy_is_wrong(small: SmallServer) -> None:
    path = small.folder / "clinic.toml"
    path.write_text(path.read_text() + "\n")  # it is read again
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (kept, limits[1]))
    os.close(kept)
    try:
        for who in (small.auditor, small.owner):
            with pytest.raises(ServerUnavailable, match="too many open files"):
                small.served.curator_for(who, "clinic")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    small.served.curator_for(small.ana, "clinic")


def test_the_price_of_a_width_counts_as_a_question_for_each_column(small: SmallServer) -> None:
    sql = "SELECT COUNT(*) AS n, SUM(age) AS a, SUM(age + 1) AS b FROM visits"
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small.counter._rate_limit, "withdraw_extra", lambda _, many, __: taken.append(many))
        small.counter.call_free(small.ana, "clinic", "questions", "price", {"sql": sql}, {"within": 500})
        small.counter.call_free(small.ana, "clinic", "questions", "error", {"sql": sql}, {"within": 500})
        small.counter.call_free(small.ana, "clinic", "questions", "error", {"sql": sql}, {"epsilon": 1})
    assert taken == [2, 2, 0]


def test_an_owner_amends_what_the_file_says_now(small: SmallServer) -> None:
    path = small.folder / "clinic.toml"
    path.write_text(path.read_text().replace("epsilon = 3", "epsilon = 5"))
    line, weaknesses = small.counter.amend(small.owner, "clinic", "second year")
    assert weaknesses == ()
    assert line.kind == "amend"
    assert small.counter.budget(small.owner, "clinic").left["pure"] == 5  # type: ignore[union-attr]
    assert small.people.acts()[-1].about == f"clinic, line {line.number}"
    path.write_text(path.read_text().replace("epsilon = 5", "epsilon = 50"))
    with pytest.warns(WeakPrivacy):
        _, weaknesses = small.counter.amend(small.owner, "clinic", "third year")
    assert any("ε = 50 for life is weak privacy" in words for words in weaknesses)


def test_free_questions_are_limited_for_each_user(tmp_path: Path) -> None:
    small = open_server(tmp_path)
    small.counter._rate_limit = QuestionRateLimit(2, lambda: 0.0)
    for _ in range(2):
        small.counter.call_free(small.ana, "clinic", "questions", "columns", COUNT)
    with pytest.raises(TooManyRequests):
        small.counter.call_free(small.ana, "clinic", "questions", "columns", COUNT)
    with pytest.raises(TooManyRequests):
        small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    small.counter.call_free(small.ben, "clinic", "questions", "columns", COUNT)
    small.close()


def test_a_long_rehearsal_counts_as_what_could_be_asked_meanwhile_and_a_longer_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, now = open_server(tmp_path, free_per_second=20), [0.0]
    small.counter._rate_limit = QuestionRateLimit(20, lambda: now[0])
    spec = {"table": "visits", "ways": 1, "columns": ["region"]}
    seconds: list[float] = []
    forecast = SynthesisProposal.forecast

    def forecasting(proposal: SynthesisProposal, **price: Any) -> Any:
        found = forecast(proposal, **price)
        seconds.append(found.seconds)
        return found

    monkeypatch.setattr(SynthesisProposal, "forecast", forecasting)

    def rehearse(**more: Any) -> Any:
        return small.counter.call_free(small.ana, "clinic", "synthesis", "preview", spec, {**EPSILON, **more})

    assert rehearse(rows=100) is not None
    assert small.counter._rate_limit._balances["ana"] == (20 - 5 - int(seconds[0] * 20), 0)
    now[0] += 3600
    monkeypatch.setattr("sfumato.server.releases.running_releases.MAX_PREVIEW_SECONDS", seconds[0] / 100)
    with pytest.raises(Unsupported, match="long-rehearsal"):
        rehearse(rows=100)
    assert small.counter.call_free(small.ana, "clinic", "questions", "preview", COUNT, EPSILON) is not None
    small.close()


def test_each_round_of_a_rehearsed_model_counts_as_a_free_question(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=20)
    small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
    spec = {"table": "visits", "rounds": 7, "columns": ["region"]}
    small.counter.call_free(small.ana, "clinic", "synopses", "preview", spec, EPSILON)
    assert small.counter._rate_limit._balances["ana"] == (20 - 5 - 7, 0)
    small.close()


def test_what_is_sent_counts_by_its_questions_and_its_bytes_before_anything_is_made_of_it(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=20)
    small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)

    def left(who: Caller, kind: str, act: str, spec: dict[str, Any]) -> float:
        with suppress(SfumatoError):
            small.counter.call_free(who, "clinic", kind, act, spec)
        return 20 - small.counter._rate_limit._balances[who.user][0]

    many = {"questions": [questions(number)["sql"] for number in range(41)]}
    assert left(small.ana, "workloads", "explain", many) == 1 + 10 + len(json.dumps(many)) // BYTES
    long = {"sql": "SELECT COUNT(*) AS n FROM visits -- " + "x" * 5000}
    assert left(small.ben, "questions", "columns", long) == 1 + 5036 // BYTES
    assert left(small.owner, "questions", "columns", {"sql": "not SQL " * 1000}) == 1 + 8000 // BYTES
    small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
    with pytest.raises(Unsupported):
        small.counter.release(small.ana, "clinic", "questions", {"sql": "not SQL " * 1000}, EPSILON, "r")
    assert small.counter._rate_limit._balances["ana"][0] == 20 - 1 - 8000 // BYTES
    small.close()


def test_of_two_costly_questions_at_the_same_time_the_second_is_not_worked_on(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=20)
    small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
    wide = {"sql": "SELECT age, age + 1 AS b, region, COUNT(*) AS n FROM visits GROUP BY ALL"}
    other = {"sql": "SELECT age, age + 2 AS b, region, COUNT(*) AS n FROM visits GROUP BY ALL"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.server.releases.running_releases.GROUPS", 4)
        small.counter.call_free(small.ana, "clinic", "questions", "explain", wide)
        assert small.counter._rate_limit._balances["ana"][0] < 0
        small.counter._rate_limit.withdraw = lambda *_: None  # type: ignore[method-assign] # as if both had begun before
        with pytest.raises(TooManyRequests):
            small.counter.call_free(small.ana, "clinic", "questions", "explain", other)
        small.counter.call_free(small.ana, "clinic", "questions", "columns", other)
    small.close()


def test_a_rehearsal_counts_by_its_groups_and_cells_and_is_refused_where_there_are_too_many(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=20)
    ages = {"sql": "SELECT age, region, COUNT(*) AS n FROM visits GROUP BY ALL"}
    kinds = {"questions": ages, "workloads": {"questions": [ages["sql"]]}, "marginals": {"table": "visits"}}
    counted = {"questions": 555, "workloads": 555, "marginals": 7}  # 222 groups of ages and regions, 3 cells of regions
    for kind, spec in kinds.items():
        for seconds, longest in ((0.125, 1e9), (0.125, 0.2)):
            small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
            with pytest.MonkeyPatch.context() as patch:
                for name in ("_GROUP_SECONDS", "_CELL_SECONDS"):
                    patch.setattr(f"sfumato.server.releases.running_releases.{name}", seconds)
                patch.setattr("sfumato.server.releases.running_releases.MAX_PREVIEW_SECONDS", longest)
                if longest < 1:
                    with pytest.raises(Unsupported, match="long-rehearsal"):
                        small.counter.call_free(small.ana, "clinic", kind, "preview", spec, EPSILON)
                else:
                    small.counter.call_free(small.ana, "clinic", kind, "preview", spec, EPSILON)
                    assert small.counter._rate_limit._balances["ana"][0] == 20 - 5 - counted[kind]
    small.close()


def test_marginals_count_by_their_sets_of_columns(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=20)
    small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.server.releases.running_releases.SETS", 1)
        small.counter.call_free(small.ana, "clinic", "marginals", "explain", {"table": "visits", "ways": 1})
    assert small.counter._rate_limit._balances["ana"][0] == 20 - 1 - 1
    small.close()


def test_who_reads_the_whole_ledger_pays_by_its_lines_and_who_reads_pages_by_their_length(tmp_path: Path) -> None:
    small = open_server(tmp_path, free_per_second=20)
    small.counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "r")
    lines = small.ledger.head[0]
    for call in (lambda: small.counter.verify(small.auditor), lambda: CALLS["export"](small.counter, small.auditor)):
        small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sfumato.server.gateway.LINES_PER_QUESTION", 1)
            call()
        assert small.counter._rate_limit._balances["otto"][0] == 20 - lines
    for limit, counted in ((100, 0), (1000, 5), (10**6, 5)):
        small.counter._rate_limit = QuestionRateLimit(20, lambda: 0.0)
        small.counter.history(small.auditor, "clinic", limit=limit)
        assert small.counter._rate_limit._balances.get("otto", (20, 0))[0] == 20 - counted
    small.close()


def test_two_releases_at_once_in_all_processes(tmp_path: Path) -> None:
    """A second counter on the same files stands for a second process: the third release waits for one of the two."""
    due = threading.Event()
    moment = [0.0]

    def sleep(_: float) -> None:
        assert due.wait(120)
        moment[0] += 1e9

    clock = AnswerClock(100.0, lambda: moment[0], sleep)
    first = open_server(tmp_path, clock=clock)
    second = first.again(clock=clock)
    flights = [
        small.counter.start(small.ana, "clinic", "questions", questions(n), EPSILON, f"r{n}")
        for n, small in enumerate((first, second, first, second))
    ]
    ends = time.monotonic() + 120
    while sum(each.phase is Phase.CHARGED for each in flights) < 2 and time.monotonic() < ends:
        time.sleep(0.01)
    time.sleep(0.2)
    assert sum(each.phase is Phase.CHARGED for each in flights) == 2
    assert first.charges() == 2
    due.set()
    for each in flights:
        each.wait_for_result()
    assert first.charges() == 4
    second.close()
    first.close()


def test_one_request_in_two_processes_is_bought_once_also_where_the_ledger_does_not_know_its_id(tmp_path: Path) -> None:
    due, moment = threading.Event(), [0.0]

    def sleep(_: float) -> None:
        assert due.wait(120)
        moment[0] += 1e9

    clock = AnswerClock(100.0, lambda: moment[0], sleep)
    first = open_server(tmp_path, clock=clock)
    second = first.again(clock=clock)
    spec = {"questions": [questions(1)["sql"], questions(2)["sql"]]}
    flights = [
        small.counter.start(small.ana, "clinic", "workloads", spec, {**EPSILON, "fresh": True}, "same")
        for small in (first, second)
    ]
    time.sleep(0.3)
    due.set()
    for each in flights:
        each.wait_for_result()
    assert first.counter.budget(first.owner, "clinic").left["pure"] == Fraction("2.9")  # type: ignore[union-attr]
    second.close()
    first.close()


def test_what_is_charged_is_answered_although_nobody_can_be_told_so_or_it_cannot_be_logged(
    small: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unusable(*_: object, **__: object) -> None:
        raise LedgerUnavailable("it cannot be used now", place="here", fix="wait")

    monkeypatch.setattr(small.counter._releases, "mark_charged", unusable)
    monkeypatch.setattr(small.counter, "_log_release", unusable)
    for number in range(6):  # more than there are threads: none of them has ended
        assert not small.counter.release(
            small.ana, "clinic", "questions", questions(number), EPSILON, f"r{number}"
        ).free


def test_the_log_says_who_and_what_it_cost_and_never_what_was_asked(small: SmallServer) -> None:
    token, text = small.people.new_token("ana", label="tableau", by="olga")
    ana = small.counter.caller(Credentials(token=text))
    spec = {"sql": "SELECT COUNT(*) AS secretname FROM visits WHERE age > 77 AND region = 'north'"}
    found = small.counter.release(ana, "clinic", "questions", spec, {"epsilon": "0.25"}, "key-of-the-request")
    with pytest.raises(SfumatoError):
        small.counter.call_free(ana, "clinic", "questions", "error", {"sql": "SELECT secretname"}, EPSILON)
    with pytest.raises(NotSignedIn):
        small.counter.caller(Credentials(token="sfu_wrong"))
    small.counter.drain(120)
    said = small.log()
    release = next(each for each in said if each["route"] == "release")
    assert (release["user"], release["status"], release["line"]) == ("ana", 200, found.line)
    assert release["price"] == "ε = 0.25"
    assert {each["status"] for each in said} >= {200, 401, 422}
    written = (small.folder / "log").read_text()
    for secret in ("secretname", "visits", "north", text, "sfu_", "key-of-the-request", token.label):
        assert secret not in written


# ── tokens ─────────────────────────────────────────────────────────────────────────────────────


def test_a_token_never_spends_more_than_its_limit(small: SmallServer) -> None:
    ana = small.with_token("ana", most="0.25")
    for number in range(2):
        small.counter.release(ana, "clinic", "questions", questions(number), EPSILON, f"r{number}")
    with pytest.raises(Overspent) as refused:
        small.counter.release(ana, "clinic", "questions", questions(2), EPSILON, "r2")
    assert refused.value.remaining == {"pure": Fraction(1, 20)}
    assert "this token" in str(refused.value)
    small.counter.release(ana, "clinic", "questions", questions(3), {"epsilon": "0.05"}, "r3")
    assert small.charges() == 3
    assert small.people.tokens()[0].spent == Fraction("0.25")
    again = small.counter.release(ana, "clinic", "questions", questions(0), EPSILON, "r9")
    assert again.free  # what was bought is free, also to a token that has spent all
    small.counter.release(small.ana, "clinic", "questions", questions(4), EPSILON, "r4")  # her other ways are not its


def test_what_is_refused_or_stored_gives_its_reservation_back(small: SmallServer) -> None:
    small.counter.release(small.ben, "clinic", "questions", COUNT, EPSILON, "b")
    ana = small.with_token("ana", most=100)
    with pytest.raises(Overspent):
        small.counter.release(ana, "clinic", "questions", questions(1), {"epsilon": 2}, "r1")
    small.counter.release(ana, "clinic", "questions", COUNT, EPSILON, "r2")
    assert small.people.tokens()[0].spent == 0
    with small.people.database.read_transaction() as rows:
        assert rows.execute("SELECT count(*) FROM reservations").fetchone() == (0,)


def test_a_token_that_is_revoked_while_its_release_waits_pays_for_nothing(small: SmallServer) -> None:
    ana = small.with_token("ana", most=1)
    small.people.revoke_token(1, by="olga")
    with pytest.raises(NotSignedIn):
        small.counter.release(ana, "clinic", "questions", COUNT, EPSILON, "r1")
    assert small.charges() == 0


SHUT_OUT: dict[str, tuple[Callable[[SmallServer], Any], type[SfumatoError]]] = {
    "the policy is paused": (lambda small: small.counter.pause(small.owner, "clinic"), Paused),
    "the user is disabled": (lambda small: small.counter.disable_user(small.owner, "ana"), NotSignedIn),
    "the token is revoked": (lambda small: small.counter.revoke_token(small.owner, 1), NotSignedIn),
    "the policy names them no more": (lambda small: _write_out(small), NotThere),
}


def _write_out(small: SmallServer) -> None:
    path = small.folder / "clinic.toml"
    path.write_text(path.read_text().replace("[analysts.ana]\nshare = 0.5\n", ""))


@pytest.mark.parametrize("act", SHUT_OUT)
def test_what_was_queued_before_an_owner_shuts_it_out_is_not_charged_after(tmp_path: Path, act: str) -> None:
    small, due = held_server(tmp_path, releases_at_once=1)
    ana = small.with_token("ana")
    first, second = (
        small.counter.start(ana, "clinic", "questions", questions(number), EPSILON, f"r{number}") for number in (1, 2)
    )
    _wait_for(lambda: first.phase is Phase.CHARGED)
    shut, refusal = SHUT_OUT[act]
    shut(small)
    due.set()
    assert first.wait_for_result().line  # what was charged before is answered
    with pytest.raises(refusal):
        second.wait_for_result()
    assert small.charges() == 1
    small.close()


WRITTEN_ANEW: dict[str, tuple[tuple[str, str], type[SfumatoError]]] = {
    "a smaller share": (("[analysts.ana]\nshare = 0.5\n", "[analysts.ana]\nshare = 0.05\n"), Overspent),
    "a column less": (('age = { type = "integer", bounds = [0, 110] }\n', ""), SfumatoError),
}


@pytest.mark.parametrize("change", WRITTEN_ANEW)
def test_what_waits_while_its_policy_is_written_anew_is_asked_as_it_is_written_now(tmp_path: Path, change: str) -> None:
    small, due = held_server(tmp_path, releases_at_once=1)
    first, second = (
        small.counter.start(small.ana, "clinic", "questions", questions(number), EPSILON, f"r{number}")
        for number in (1, 2)
    )
    _wait_for(lambda: first.phase is Phase.CHARGED)
    (before, after), refusal = WRITTEN_ANEW[change]
    path = small.folder / "clinic.toml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    due.set()
    assert first.wait_for_result().line
    with pytest.raises(refusal):
        second.wait_for_result()
    assert small.charges() == 1
    small.close()


@pytest.mark.parametrize("act", [each for each in SHUT_OUT if "names" not in each])
def test_a_charge_is_permitted_in_the_last_step_before_it(small: SmallServer, act: str) -> None:
    ana = small.with_token("ana")
    permit = ChargePermit(small.people, "clinic", ana)
    permit.reserve(Fraction(1)).settle(charged=False)
    shut, refusal = SHUT_OUT[act]
    shut(small)
    with pytest.raises(refusal):
        permit.reserve(Fraction(1))
    browser = ChargePermit(small.people, "clinic", small.ana)  # who shows no token
    if act == "the token is revoked":
        browser.reserve(Fraction(1)).settle(charged=True)
    else:
        with pytest.raises(refusal):
            browser.reserve(Fraction(1))


def test_a_token_that_expires_while_its_release_waits_pays_for_nothing(small: SmallServer) -> None:
    late = PeopleFile(small.people.database.path, lambda: time.time() + 90_000)
    permit = ChargePermit(small.people, "clinic", small.with_token("ana", expires=timedelta(days=1)))
    permit.reserve(Fraction(1)).settle(charged=False)
    with pytest.raises(NotSignedIn):
        replace(permit, people=late).reserve(Fraction(1))
    late.close()


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# ── a policy that cannot be opened ─────────────────────────────────────────────────────────────

BROKEN = {
    "no TOML": "[unit\nsecret",
    "other terms, and nobody named": POLICY.format(epsilon=4, table="pupils"),
    "no data": POLICY.format(epsilon=3, table="nothing") + "[analysts.ben]\nshare = 1\n",
}


def _said(call: Callable[[], Any]) -> str:
    with pytest.raises(SfumatoError) as refusal:
        call()
    return f"{type(refusal.value).__name__} {refusal.value}"


@pytest.mark.parametrize("broken", BROKEN)
def test_a_policy_that_cannot_be_opened_is_not_there_for_whoever_it_does_not_name(
    two_policies: SmallServer, broken: str
) -> None:
    """It stops nobody else, and is told from one that does not exist by nobody but those whom it names."""
    (two_policies.folder / "school.toml").write_text(BROKEN[broken])
    assert two_policies.counter.policies(two_policies.ana) == ("clinic",)
    assert two_policies.counter.release(two_policies.ana, "clinic", "questions", COUNT, EPSILON, "mine").line
    for call in ("policy", "budget", "history"):
        asked = partial(getattr(two_policies.counter, call), two_policies.ana)
        there, nowhere = (_said(partial(asked, name)) for name in ("school", "nothing"))
        assert there == nowhere.replace("nothing", "school")
    for name in ("school", "nothing"):
        assert "NotThere" in _said(
            partial(two_policies.counter.release, two_policies.ana, name, "questions", COUNT, EPSILON, "other")
        )


@pytest.mark.parametrize("broken", ["no TOML", "no data"])
def test_why_a_policy_cannot_be_opened_is_told_to_its_owner_alone(two_policies: SmallServer, broken: str) -> None:
    (two_policies.folder / "school.toml").write_text(BROKEN[broken])
    told = _said(lambda: two_policies.counter.policy(two_policies.ben, "school"))
    assert "the policy cannot be opened" in told
    assert str(two_policies.folder) not in told
    assert ("TOML" if broken == "no TOML" else "no such file") in _said(
        lambda: two_policies.counter.policy(two_policies.owner, "school")
    )
    assert "clinic" in two_policies.counter.policies(two_policies.ben)


def test_why_changed_data_cannot_be_opened_is_told_to_the_owner_alone(small: SmallServer) -> None:
    (small.folder / "visits.csv").write_text("patient,region\nSecretPerson,north\n")
    buying = ("clinic", "questions", COUNT, EPSILON, "mine")
    assert "the policy cannot be opened" in _said(lambda: small.counter.release(small.ben, *buying))
    assert "age" in _said(lambda: small.counter.release(small.owner, *buying))


def test_whoever_is_written_out_of_a_policy_is_out_although_it_cannot_be_opened(two_policies: SmallServer) -> None:
    (two_policies.folder / "school.toml").write_text(BROKEN["other terms, and nobody named"])
    assert two_policies.counter.policies(two_policies.ben) == ("clinic",)
    assert "NotThere" in _said(lambda: two_policies.counter.policy(two_policies.ben, "school"))


def test_an_answer_that_was_free_is_shown_again_as_it_was_although_a_better_one_was_bought_since(
    small: SmallServer,
) -> None:
    """A request names one release for ever, and a line is one answer: what others buy later changes neither."""
    counter = small.counter
    first = counter.release(small.ben, "clinic", "questions", COUNT, EPSILON, "bens")
    mine = counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "mine")
    assert (mine.free, mine.line) == (True, first.line)
    better = counter.release(small.ben, "clinic", "questions", COUNT, {"epsilon": "1"}, "better")
    assert better.line > first.line
    again = counter.release(small.ana, "clinic", "questions", COUNT, EPSILON, "mine")
    shown = counter.answer_on_line(small.ana, "clinic", first.line)
    for each in (again, shown, counter.answer_on_line(small.owner, "clinic", first.line)):
        assert (each.line, each.answer.receipt.line) == (first.line, first.line)
        assert each.answer.rows == mine.answer.rows


def test_the_latest_lines_are_the_history_backwards(small: SmallServer) -> None:
    for number in range(5):
        small.counter.release(small.ana, "clinic", "questions", questions(number), EPSILON, f"r{number}")
    for who in (small.ana, small.auditor):
        every = small.counter.history(who, "clinic").lines
        seen, before = [], None
        while True:
            page = small.counter.latest_history(who, "clinic", before, 3)
            seen += page.lines
            assert {each.number for each in page.lines if each.kind == "answer"} == page.answered
            before = page.next
            if before is None:
                break
        assert seen == list(reversed(every))
    assert not small.counter.history(small.ben, "clinic").answered
    assert all(each.analyst == "ben" for each in small.counter.latest_history(small.ben, "clinic").lines)


def test_the_latest_lines_cost_as_much_however_long_the_ledger_is(
    small: SmallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = small.ledger.account("clinic")
    for number in range(300):
        entry = Entry(Charged(Laplace(10**4), 1), "how many", f"plan {number}", "data", ("ana", "ben")[number % 2])
        account.charge(entry)
    fetched: list[int] = []
    fetch = SQLiteRows._fetch_rows

    def counting(rows: SQLiteRows, text: str, values: list[str | int]) -> list[Row]:
        found = fetch(rows, text, values)
        fetched.append(len(found))
        return found

    monkeypatch.setattr(SQLiteRows, "_fetch_rows", counting)
    for who in (small.owner, small.ana):
        every = small.counter.latest_history(who, "clinic", limit=1000)
        fetched.clear()
        last = small.counter.latest_history(who, "clinic", limit=3)
        assert last.lines == every.lines[:3]
        assert sum(fetched) < 150
        assert small.counter.latest_history(who, "clinic", last.next, limit=200).lines == every.lines[3:203]
        assert small.counter.latest_history(who, "clinic", before=every.lines[-1].number).lines == ()
    assert [line.number for line in small.ledger.latest()] == [line.number for line in small.ledger.lines()][::-1]
