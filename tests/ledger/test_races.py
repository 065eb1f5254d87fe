"""Races for the last of a budget: many processes, many threads, inherited connections, one winner each time."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from ledger.test_crashes import interrupt
from sfumato.privacy.numbers import UNIT

FORK = multiprocessing.get_context("fork")


def in_processes(many: int, work: Callable[[int], object]) -> list[object]:
    """The results of ``work`` in so many forked processes, started together."""
    gate, results = FORK.Barrier(many), FORK.SimpleQueue()

    def run(index: int) -> None:
        gate.wait()
        try:
            results.put(work(index))
        except BaseException as error:
            results.put(repr(error))

    children = [FORK.Process(target=run, args=(index,)) for index in range(many)]
    for child in children:
        child.start()
    found = []
    while len(found) < many:
        if not results.empty():
            found.append(results.get())
        elif not any(child.is_alive() for child in children) and results.empty():
            break  # one died without a word, and its exit code says how
        else:
            time.sleep(0.001)
    for child in children:
        child.join()
        assert child.exitcode == 0
    return found


def in_threads(many: int, work: Callable[[], int]) -> int:
    """The sum of what ``work`` returns in so many threads."""
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == many
    return sum(results)


def spend(clinic: sf.Account, entry: sf.Entry) -> int:
    """Charge until refused."""
    won = 0
    while True:
        try:
            clinic.charge(entry)
        except sf.Overspent:
            return won
        won += 1


def test_exactly_as_many_win_as_the_budget_pays_for(tmp_path: Path, long: bool) -> None:
    """Half the processes open the ledger themselves, half use the one they inherited over fork."""
    processes, rounds = (16, 50) if long else (8, 2)
    for turn in range(rounds):
        path = tmp_path / f"{turn}.db"
        epsilon = f"{1 + turn % 7}/{97 + turn}"
        budget = sf.Budget(1)
        wanted = UNIT // budget.cost(sf.Curve.pure(epsilon)).pure
        with sf.Ledger.open(path) as inherited:
            account(inherited)

            def work(index: int, inherited: sf.Ledger = inherited, path: Path = path, epsilon: str = epsilon) -> int:
                ledger = inherited if index % 2 else sf.Ledger.open(path)
                clinic = account(ledger)
                return in_threads(4, lambda: spend(clinic, pure(epsilon)))

            won = in_processes(processes, work)
            assert all(isinstance(each, int) for each in won), won
            assert sum(won) == wanted, won  # type: ignore[arg-type]
            assert ledger_is_whole(inherited, wanted)


def ledger_is_whole(ledger: sf.Ledger, charges: int) -> bool:
    lines = list(ledger)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert Counter(line.kind for line in lines) == {"account-open": 1, "charge": charges}
    return ledger.verify().holds


def test_an_approximate_budget_is_never_exceeded(tmp_path: Path, long: bool) -> None:
    """Any mixture, any order: every prefix of the lines satisfies the account's rule, and little is left."""
    menu = [sf.Curve.pure("0.05"), sf.Curve.laplace(30), sf.Curve.gaussian(40), sf.Curve.approximate("0.01", "2e-9")]
    budget = sf.Budget(1, "1e-6")
    for turn in range(10 if long else 1):
        path = tmp_path / f"{turn}.db"

        def work(index: int, path: Path = path, turn: int = turn) -> int:
            generator = random.Random(100 * turn + index)
            clinic = account(sf.Ledger.open(path), budget)
            return in_threads(4, lambda: spend_any(clinic, menu, generator))

        assert all(isinstance(each, int) for each in in_processes(8, work))
        with sf.Ledger.open(path) as ledger:
            model = budget
            for line in ledger:
                assert model.admits(line.cost)
                model = model.with_spent(model.totals + line.cost)
            assert account(ledger, budget).budget == model
            assert not model.affords(sf.Curve.pure("0.05"))
            assert ledger.verify().holds


def spend_any(clinic: sf.Account, menu: list[sf.Curve], generator: random.Random) -> int:
    won = misses = 0
    while misses < 4:
        try:
            clinic.charge(sf.Entry(menu[won % 4 if misses == 0 else (won + misses) % 4]))
            won, misses = won + 1, 0
        except sf.Overspent:
            misses += 1
        if generator.random() < 0.1:
            os.sched_yield()
    return won


def test_many_may_open_a_ledger_that_is_not_there_yet(tmp_path: Path, long: bool) -> None:
    for turn in range(20 if long else 2):
        path = tmp_path / f"{turn}.db"
        found = in_processes(8, lambda _, path=path: account(sf.Ledger.open(path)).charge(pure("0.01")).number)
        assert sorted(map(str, found)) == sorted(map(str, range(2, 10)))


def test_forks_while_other_threads_are_charging(tmp_path: Path) -> None:
    """A child that inherited SQLite's memory of its parent's locks would wait for ever, or not at all."""
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger)
        won: list[int] = []
        threads = [threading.Thread(target=lambda: won.append(spend(clinic, pure("1/640")))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            found = in_processes(2, lambda _: sum(_wins(clinic, pure("1/640")) for _ in range(5)))
            assert all(isinstance(each, int) for each in found), found
            won += found  # type: ignore[arg-type]
        for thread in threads:
            thread.join()
        assert sum(won) == 640
        assert ledger_is_whole(ledger, 640)


def _wins(clinic: sf.Account, entry: sf.Entry) -> bool:
    try:
        clinic.charge(entry)
    except sf.Overspent:
        return False
    return True


def test_a_child_that_outlives_its_parents_ledger_keeps_its_own_locks(tmp_path: Path) -> None:
    """Parent and child charge in turns; the parent closes while the child goes on; a third process joins in."""
    path = tmp_path / "ledger.db"
    ledger = sf.Ledger.open(path)
    clinic = account(ledger)
    clinic.charge(pure("0.1"))
    to_child, to_parent = FORK.Pipe()

    def work() -> None:
        for _ in range(3):
            to_child.recv()
            clinic.charge(pure("0.1"))
            to_child.send("done")

    child = FORK.Process(target=work)
    child.start()
    for turn in range(3):
        to_parent.send("go")
        assert to_parent.recv() == "done"
        if turn == 0:
            clinic.charge(pure("0.1"))
            ledger.close()
        with sf.Ledger.open(path) as other:
            account(other).charge(pure("0.1"))
    child.join()
    assert child.exitcode == 0
    with sf.Ledger.open(path) as ledger:
        assert ledger_is_whole(ledger, 8)


def test_an_answer_races_with_itself_and_one_wins(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger)
        line = clinic.charge(pure(plan="p", data="v"))

        def answer() -> int:
            try:
                clinic.answer(line, "1", {})
            except sf.AlreadyAnswered:
                return 0
            return 1

        assert in_threads(8, answer) == 1
        assert ledger.verify().holds


def test_identical_questions_at_once_pay_twice(tmp_path: Path) -> None:
    """Two that find no stored answer both pay for a draw of their own; a third finds the newest."""
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger)
        entry = pure(plan="p", data="v")
        first, second = clinic.charge(entry), clinic.charge(entry)
        clinic.answer(second, '"second"', {})
        clinic.answer(first, '"first"', {})
        found = clinic.stored(plan="p", data="v")
        assert found is not None
        assert found.body == '"first"'
        assert clinic.spent["pure"] == sf.Budget(1).charge(sf.Curve.pure("0.2")).spent["pure"]


@pytest.mark.parametrize("busy", [True, False])
def test_threads_of_one_process_wait_for_each_other(tmp_path: Path, busy: bool) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger, sf.Budget(1000))
        read = (lambda: len(list(ledger.lines()))) if busy else (lambda: 0)

        def work() -> int:
            for _ in range(10):
                clinic.charge(pure("0.01"))
                read()
            return 10

        assert in_threads(8, work) == 80
        assert len(list(ledger)) == 81


# ── a thread is interrupted, and others go on ──────────────────────────────────────────────────


def _in_another_thread(work: Callable[[], object]) -> bool:
    """Whether another thread comes to the end of this."""
    done = threading.Event()

    def run() -> None:
        work()
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done.wait(60)


def _interrupted_everywhere(path: Path, places: tuple[str, ...], event: str) -> int:
    """At how many lines or instructions a charge was interrupted, after each of which another thread could charge."""
    with sf.Ledger.open(path) as ledger:
        clinic = account(ledger, sf.Budget(10**6))
        at, outcome = 0, ""
        while outcome != "done":
            at += 1
            outcome = interrupt(lambda: clinic.charge(pure("0.1")), at, *places, event=event)
            assert _in_another_thread(lambda: clinic.charge(pure("0.1"))), (at, outcome)
        assert ledger.verify().holds
    return at


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what was being closed, or written
def test_an_interrupt_at_any_line_leaves_no_other_thread_waiting(tmp_path: Path, long: bool) -> None:
    """Where a ``with`` ends, its lock is not released yet: nobody else would ever have it."""
    places = ("sfumato/ledger/",) if long else ("ledger/guarded.py", "ledger/local_files.py", "ledger/stores/")
    assert _interrupted_everywhere(tmp_path / "ledger.db", places, "line") > 100


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_instruction_of_a_lock_leaves_no_other_thread_waiting(tmp_path: Path) -> None:
    assert _interrupted_everywhere(tmp_path / "ledger.db", ("ledger/local_files.py",), "opcode") > 50
