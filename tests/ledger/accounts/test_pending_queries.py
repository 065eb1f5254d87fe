"""Equal questions at once: one pays, the others wait and get its answer, free: in threads, processes, over deaths."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from ledger.test_races import in_processes
from sfumato.ledger import local_files
from sfumato.ledger.accounts import pending_queries

FORK = multiprocessing.get_context("fork")
ENTRY = {"plan": "p", "data": "v"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sf.Ledger]:
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def ask(clinic: sf.Account, body: str = "1", width: object = 5, *, pause: float = 0.2, **rest: object) -> tuple:
    """Ask, and answer after a while if this one pays: whether it was free, and what it got."""
    fresh, seconds, waiting = rest.pop("fresh", False), rest.pop("seconds", None), rest.pop("waiting", lambda: None)
    question = clinic.ask(pure(**{**ENTRY, **rest}), {"n": width}, fresh=bool(fresh))
    found = question.begin(seconds, waiting)
    if found is not None:
        return True, found.body
    time.sleep(pause)
    clinic.answer(question.line, body, {"n": width})
    return False, body


def together(*works: Callable[[], object]) -> list[object]:
    """What each returns or raises, run in threads of their own."""
    found: list[object] = [None] * len(works)

    def run(index: int) -> None:
        try:
            found[index] = works[index]()
        except BaseException as error:
            found[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def kinds(ledger: sf.Ledger) -> list[str]:
    return [line.kind for line in ledger]


def under_way(ledger: sf.Ledger) -> list[object]:
    with ledger._guarded.reading() as transaction:
        return list(transaction.pending_charges({"account": "clinic"}))


# ── who pays ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "rest", [{}, {"request_id": "r", "analyst": "ana"}, {"request_id": "r", "plan": "", "data": ""}]
)
def test_of_four_threads_one_pays(ledger: sf.Ledger, rest: dict[str, object]) -> None:
    clinic = account(ledger)
    found = together(*(lambda body=body: ask(clinic, body, **rest) for body in "1234"))
    paid = [body for free, body in found if not free]
    assert len(paid) == 1
    assert {body for _, body in found} == {paid[0]}
    assert clinic.spent["pure"] == Fraction(1, 10)
    assert kinds(ledger) == ["account-open", "charge", "answer"]
    assert under_way(ledger) == []
    assert ledger.verify().holds


@pytest.mark.parametrize("rest", [{}, {"request_id": "r"}])
def test_of_four_processes_one_pays(tmp_path: Path, rest: dict[str, object]) -> None:
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        account(ledger)
    found = in_processes(4, lambda index: ask(account(sf.Ledger.open(path)), str(index), **rest))
    assert sorted(free for free, _ in found) == [False, True, True, True], found
    assert len({body for _, body in found}) == 1
    with sf.Ledger.open(path) as ledger:
        assert kinds(ledger) == ["account-open", "charge", "answer"]
        assert ledger.verify().holds


def test_those_who_could_not_pay_are_answered_too(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.charge(pure("0.85"))
    assert sorted(together(*(lambda: ask(clinic),) * 3)) == [(False, "1"), (True, "1"), (True, "1")]
    with pytest.raises(sf.Overspent):
        ask(clinic, fresh=True)
    assert under_way(ledger) == []


def test_fresh_questions_join_nobody(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    found = together(*(lambda: ask(clinic, fresh=True),) * 3)
    assert found == [(False, "1")] * 3
    assert ask(clinic, fresh=True, request_id="r") == (False, "1")
    assert ask(clinic, "2", fresh=True, request_id="r") == (True, "1")  # the same request, repeated
    assert ask(clinic, "3", fresh=True, request_id="s") == (False, "3")
    assert clinic.spent["pure"] == Fraction(1, 2)


def test_equal_fresh_requests_at_once_cost_once(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    found = together(*(lambda body=body: ask(clinic, body, fresh=True, request_id="r") for body in "123"))
    assert sorted(free for free, _ in found) == [False, True, True]
    assert len({body for _, body in found}) == 1
    assert clinic.spent["pure"] == Fraction(1, 10)


def test_others_join_a_fresh_question(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    first = clinic.ask(pure(**ENTRY), {"n": 5}, fresh=True)
    assert first.begin() is None
    (found,) = together(lambda: ask(clinic, seconds=0.05))
    assert isinstance(found, sf.AnswerPending)
    clinic.answer(first.line, "1", {"n": 5})
    assert ask(clinic) == (True, "1")


def test_request_ids_are_per_analyst(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    found = together(
        lambda: ask(clinic, "a", plan="one", analyst="ana", request_id="r"),
        lambda: ask(clinic, "b", plan="two", analyst="ben", request_id="r"),
    )
    assert found == [(False, "a"), (False, "b")]


def test_a_request_under_way_names_one_question(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    first = clinic.ask(pure(plan="one", data="v", request_id="r"), {})
    assert first.begin() is None
    for fresh in (True, False):
        with pytest.raises(sf.RequestDiffers):
            clinic.ask(pure(plan="two", data="v", request_id="r"), {}, fresh=fresh).begin()
    assert kinds(ledger) == ["account-open", "charge"]


def test_only_what_will_be_accurate_enough_is_waited_for(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    found = together(lambda: ask(clinic, "coarse", 5), lambda: ask(clinic, "fine", 4))
    assert sorted(found) in (
        [(False, "coarse"), (False, "fine")],  # the coarse one came first
        [(False, "fine"), (True, "fine")],
    )
    first = clinic.ask(pure(plan="q", data="v"), {"n": 5})
    assert first.begin() is None
    assert clinic.ask(pure(plan="q", data="v"), {"n": "4.999"}).begin() is None
    assert clinic.ask(pure(plan="q", data="w"), {"n": 5}).begin() is None
    assert clinic.ask(pure(plan="q", data="v"), {"m": 5}).begin() is None
    with pytest.raises(sf.AnswerPending):
        clinic.ask(pure(plan="q", data="v"), {"n": 5}).begin(0)


def test_questions_without_a_plan_or_an_id_join_nobody(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    found = together(*(lambda: ask(clinic, plan="", data=""),) * 3)
    assert found == [(False, "1")] * 3


def test_plain_charges_are_not_waited_for(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.charge(pure(**ENTRY))
    assert ask(clinic) == (False, "1")


def test_an_answer_that_came_between_looking_and_charging_is_found(
    ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is the transaction's own: a look before it may be out of date."""
    clinic = account(ledger)
    look = pending_queries.PendingQuery._find_answer_and_last_line

    def late(self: pending_queries.PendingQuery) -> object:
        found = look(self)
        monkeypatch.setattr(pending_queries.PendingQuery, "_find_answer_and_last_line", look)
        assert ask(clinic, "other", pause=0) == (False, "other")
        return found

    for rest in ({}, {"plan": "q", "request_id": "r"}):
        monkeypatch.setattr(pending_queries.PendingQuery, "_find_answer_and_last_line", late)
        if rest:
            monkeypatch.setattr(f"{__name__}.ENTRY", {**ENTRY, **rest})
        assert ask(clinic, "mine") == (True, "other")


# ── who stops ──────────────────────────────────────────────────────────────────────────────────────


def test_those_who_wait_for_a_question_that_fails_are_told_and_not_charged(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    first = clinic.ask(pure(**ENTRY), {"n": 5})
    assert first.begin() is None

    events = [threading.Event(), threading.Event()]

    def fail() -> None:
        assert all(event.wait(60) for event in events)
        first.stop()

    _, *found = together(fail, *(lambda event=event: ask(clinic, waiting=event.set) for event in events))
    assert all(isinstance(each, sf.Unanswered) for each in found), found
    assert [(each.number, each.charged) for each in found] == [(2, False)] * 2
    assert "this request was not charged" in str(found[0])
    assert kinds(ledger) == ["account-open", "charge", "stopped"]
    assert clinic.spent["pure"] == Fraction(1, 10)
    with pytest.raises(sf.AlreadyAnswered):
        clinic.answer(first.line, "late", {"n": 5})
    assert ask(clinic) == (False, "1")  # asked again, it is a new release
    first.stop()
    assert kinds(ledger).count("stopped") == 1
    assert ledger.verify().holds


def test_an_answered_question_is_not_stopped(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    first = clinic.ask(pure(**ENTRY), {"n": 5})
    assert first.begin() is None
    clinic.answer(first.line, "1", {"n": 5})
    first.stop()
    assert kinds(ledger) == ["account-open", "charge", "answer"]


@pytest.mark.parametrize("buried", [True, False])
def test_those_who_wait_for_a_payer_that_is_killed_are_told(tmp_path: Path, buried: bool) -> None:
    """Threads here and a third process wait; the payer is killed with -9. Who asks later pays."""
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        account(ledger)
    payer = FORK.Process(target=lambda: ask(account(sf.Ledger.open(path)), pause=600))
    payer.start()
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger)
        until(lambda: "charge" in kinds(ledger))
        waiting = [threading.Event(), threading.Event()]

        def wait(event: threading.Event) -> object:
            return clinic.ask(pure(**ENTRY), {"n": 5}).begin(waiting=event.set)

        def elsewhere() -> object:
            return in_processes(1, lambda _: ask(account(sf.Ledger.open(path))))[0]

        def kill() -> None:
            for event in waiting:
                event.wait()
            os.kill(payer.pid or 0, signal.SIGKILL)
            if buried:
                payer.join()

        *found, other, _ = together(*(lambda event=event: wait(event) for event in waiting), elsewhere, kill)
        assert [(type(each), each.number, each.charged) for each in found] == [(sf.Unanswered, 2, False)] * 2
        assert "Unanswered" in str(other) or other == (False, "1")  # it may have come after the death
        assert kinds(ledger)[:3] == ["account-open", "charge", "stopped"]
        assert ask(clinic)[0] is (other == (False, "1"))
        assert clinic.spent["pure"] == Fraction(2, 10)
        assert under_way(ledger) == []
        assert ledger.verify().holds
    payer.join()


def test_a_request_that_was_charged_and_stopped_is_told_so_for_ever(ledger: sf.Ledger) -> None:
    """Whoever repeats a request is never charged again; an equal question of others is not held up by it."""
    clinic = account(ledger)
    first = clinic.ask(pure(**ENTRY, request_id="r"), {"n": 5})
    assert first.begin() is None
    first.stop()
    for fresh in (False, True, False):
        with pytest.raises(sf.Unanswered) as stopped:
            ask(clinic, request_id="r", fresh=fresh)
        assert (stopped.value.number, stopped.value.charged) == (2, True)
    with pytest.raises(sf.RequestDiffers):
        ask(clinic, request_id="r", plan="other")
    assert clinic.spent["pure"] == Fraction(1, 10)
    assert kinds(ledger) == ["account-open", "charge", "stopped"]
    assert ask(clinic, "2", pause=0) == (False, "2")
    assert ask(clinic, "3", request_id="s", pause=0) == (True, "2")
    assert ask(clinic, request_id="r") == (True, "2")  # what somebody else bought meanwhile is free for everybody
    assert ledger.verify().holds


def test_a_request_of_a_payer_nobody_knows_of_is_not_charged_again(
    ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic = account(ledger)
    monkeypatch.setattr(local_files, "is_process_alive", lambda _, **__: None)
    first = clinic.ask(pure(**ENTRY, request_id="r"), {"n": 5})
    assert first.begin() is None
    with pytest.raises(sf.AnswerPending):
        ask(clinic, request_id="r", seconds=0)
    monkeypatch.setattr(pending_queries, "MAX_WAIT_SECONDS", 0.0)
    with pytest.raises(sf.Unanswered):
        ask(clinic, request_id="r", seconds=0)
    assert kinds(ledger) == ["account-open", "charge"]
    clinic.answer(first.line, "late", {"n": 5})
    assert ask(clinic, request_id="r") == (True, "late")


def test_who_asks_after_a_crash_pays_at_once_and_who_repeats_the_request_does_not(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with sf.Ledger.open(path) as ledger:
        account(ledger)

    def crash(_: int) -> None:
        clinic = account(sf.Ledger.open(path))
        clinic.ask(pure(**ENTRY, request_id="r"), {"n": 5}).begin()

    in_processes(1, crash)
    with sf.Ledger.open(path) as ledger:
        assert len(under_way(ledger)) == 1
        for _ in range(2):
            with pytest.raises(sf.Unanswered) as stopped:
                ask(account(ledger), request_id="r", seconds=0)
            assert (stopped.value.number, stopped.value.charged) == (2, True)
        assert ask(account(ledger), request_id="s", seconds=0) == (False, "1")
        assert kinds(ledger) == ["account-open", "charge", "stopped", "charge", "answer"]
        assert ledger.verify().holds


def test_waiting_is_bounded_where_nobody_knows_whether_the_payer_lives(
    ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is said of the payer, whose answer still counts; who asks after that time pays."""
    clinic = account(ledger)
    monkeypatch.setattr(local_files, "is_process_alive", lambda _, **__: None)
    monkeypatch.setattr(pending_queries, "MAX_WAIT_SECONDS", 2.0)
    first = clinic.ask(pure(**ENTRY), {"n": 5})
    assert first.begin() is None
    with pytest.raises(sf.AnswerPending, match="this request was not charged"):
        clinic.ask(pure(**ENTRY), {"n": 5}).begin(10**6)
    assert ask(clinic, "second", pause=0) == (False, "second")
    clinic.answer(first.line, "first", {"n": 5})
    assert ask(clinic) == (True, "first")


def test_what_could_not_be_said_is_said_with_the_next_line(ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = account(ledger)
    first = clinic.ask(pure(**ENTRY), {"n": 5})
    assert first.begin() is None
    with monkeypatch.context() as broken:
        broken.setattr(type(ledger._guarded.store), "writing", _full)
        first.stop()
        assert kinds(ledger) == ["account-open", "charge"]
        with pytest.raises(sf.LedgerUnavailable):
            ask(clinic)
    assert ask(clinic) == (False, "1")
    assert kinds(ledger) == ["account-open", "charge", "stopped", "charge", "answer"]
    assert ledger._guarded.unrecorded_stops == {}


def _full(*_: object, **__: object) -> None:
    raise sf.LedgerUnavailable("the disk is full", place="here", fix="make room")


def test_a_stop_that_answers_nothing_or_twice_is_a_bad_line(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    with ledger._guarded.writing() as transaction:
        transaction.append("stopped", "clinic", {"about": 1})
    assert ledger.verify().bad == 2
    assert clinic.spent["pure"] == 0


def test_a_backup_waits_for_nobody(ledger: sf.Ledger, tmp_path: Path) -> None:
    clinic = account(ledger)
    first = clinic.ask(pure(**ENTRY), {"n": 5})
    assert first.begin() is None
    ledger.backup(tmp_path / "copy.db")
    with sf.Ledger.open(tmp_path / "copy.db") as copy:
        assert copy.verify().holds
        assert ask(account(copy), pause=0, seconds=0) == (False, "1")
    clinic.answer(first.line, "1", {"n": 5})


# ── processes ──────────────────────────────────────────────────────────────────────────────────────


def test_a_process_is_alive_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    me = local_files.current_process_name()
    assert local_files.is_process_alive(me) is True
    boot, space, number, start = me.split(" ")
    assert (
        local_files.is_process_alive(f"{boot} {space} {number} {int(start) + 1}") is False
    )  # its number was given to another
    assert local_files.is_process_alive(f"another-boot {space} {number} {start}") is False
    assert local_files.is_process_alive(f"{boot} pid:[1] {number} {start}") is None
    (name,) = in_processes(1, lambda _: local_files.current_process_name())
    assert name != me
    assert local_files.is_process_alive(str(name)) is False
    local_files._process_name.cache_clear()
    monkeypatch.setattr(local_files, "PROCESSES", Path("/nowhere"))
    assert local_files.is_process_alive(me) is None
    assert local_files.is_process_alive(local_files.current_process_name()) is None
    local_files._process_name.cache_clear()


# ── through the curator ────────────────────────────────────────────────────────────────────────────

POLICY = """
[unit]
name = "patient"
budget = { epsilon = 1 }
[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
cost = { type = "integer", bounds = [0, 100] }
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("patient,cost\n" + "".join(f"{each},{each}\n" for each in range(90)))
    (tmp_path / "clinic.toml").write_text(POLICY)
    return tmp_path / "clinic.toml"


def slowly(curator: sf.Curator) -> sf.Curator:
    engine, read = curator._context.engine, curator._context.engine.read

    def slow(*arguments: object) -> object:
        time.sleep(0.4)
        return read(*arguments)  # type: ignore[arg-type]

    engine.read = slow  # type: ignore[method-assign, assignment]
    return curator


@pytest.mark.parametrize("rest", [{}, {"request_id": "r"}])
def test_equal_questions_at_once_cost_once(policy: Path, rest: dict[str, str]) -> None:
    with slowly(sf.open(policy)) as clinic:
        found = together(*(lambda: clinic.sql(COUNT).release(epsilon="0.1", **rest),) * 4)
        assert sorted(answer.receipt.free for answer in found) == [False, True, True, True]
        assert len({answer.rows for answer in found}) == 1
        assert len({answer.receipt.line for answer in found}) == 1
        assert clinic.budget.remaining["pure"] == Fraction(9, 10)
        assert not clinic.sql(COUNT).release(epsilon="0.1", fresh=True).receipt.free


def test_equal_questions_of_several_processes_cost_once(policy: Path) -> None:
    def work(_: int) -> object:
        with slowly(sf.open(policy)) as clinic:
            answer = clinic.sql(COUNT).release(epsilon="0.1", request_id="r")
            return answer.receipt.free, str(answer.rows)

    sf.open(policy).close()
    found = in_processes(4, work)
    assert sorted(free for free, _ in found) == [False, True, True, True], found
    assert len({rows for _, rows in found}) == 1
    with sf.open(policy) as clinic:
        assert clinic.budget.remaining["pure"] == Fraction(9, 10)


def test_equal_questions_of_which_the_first_fails_cost_once(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, waiting = pending_queries.PendingQuery._wait_for_answer, threading.Semaphore(0)
    monkeypatch.setattr(
        pending_queries.PendingQuery, "_wait_for_answer", lambda *given: (waiting.release(), wait(*given))[1]
    )

    def fail(*_: object) -> None:
        """Fail when both others wait for it."""
        assert all(waiting.acquire(timeout=60) for _ in range(2))
        raise MemoryError

    with sf.open(policy) as clinic:
        clinic._context.engine.read = fail  # type: ignore[method-assign, assignment]
        found = together(*(lambda: clinic.sql(COUNT).release(epsilon="0.1"),) * 3)
        assert {type(each) for each in found} == {sf.Unanswered}, found
        assert sorted(each.charged for each in found) == [False, False, True]
        assert clinic.budget.remaining["pure"] == Fraction(9, 10)
        assert [line.kind for line in clinic.ledger][-2:] == ["charge", "stopped"]


@pytest.mark.parametrize("missing", ["plan", "data"])
def test_what_names_no_question_or_no_data_finds_nothing_inside_the_charge_either(
    ledger: sf.Ledger, missing: str
) -> None:
    """An answer that was written between the look and the charge is found there, but only under a plan and its data."""
    clinic = account(ledger)
    part = {name: value for name, value in ENTRY.items() if name != missing}
    assert ask(clinic, "first", pause=0, **{missing: ""}) == (False, "first")
    question = clinic.ask(pure(**part), {"n": 5})
    question._find_answer_and_last_line = lambda: (None, 0)  # type: ignore[method-assign]
    assert question.begin() is None
    assert kinds(ledger).count("charge") == 2
    known = clinic.ask(pure(**ENTRY), {"n": 5})
    clinic.answer(known.line, "known", {"n": 5}) if known.begin() is None else None
    again = clinic.ask(pure(**ENTRY), {"n": 5})
    again._find_answer_and_last_line = lambda: (None, 0)  # type: ignore[method-assign]
    found = again.begin()
    assert found is not None
    assert found.body == "known"


def test_answers_are_found_up_to_the_line_that_is_named_and_not_after(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    ends = []
    for body in ("first", "second"):
        assert ask(clinic, body, pause=0, fresh=True) == (False, body)
        ends.append(max(line.number for line in ledger.lines()))
    for until, body in ((ends[0] - 1, None), (ends[0], "first"), (ends[1] - 1, "first"), (ends[1], "second")):
        view = clinic.limited(clinic.limit, until)
        stored = view.stored(plan="p", data="v", accuracy={"n": 5})
        assert (None if stored is None else stored.body) == body
        if body is not None:
            assert ask(view, "new", pause=0) == (True, body)


def test_a_question_that_stopped_is_recorded_at_once_and_one_that_paid_nothing_is_not(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    question = clinic.ask(pure(**ENTRY), {"n": 5})
    question.stop()
    assert [line.kind for line in ledger if line.kind == "stopped"] == []
    question.begin()
    question.stop()
    assert [line.about for line in ledger if line.kind == "stopped"] == [question.line.number]
    assert not ledger._guarded.unrecorded_stops
