"""What may be lost between a curator and its server: replies, connections, processes, whole servers. No charge is."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import psycopg
import pytest

import sfumato as sf
from ledger.cut_connections import Cutter
from ledger.in_databases import SPENDER, Place
from ledger.small_accounts import BEHIND, account, pure, script
from ledger.test_races import in_processes, in_threads, ledger_is_whole, spend
from postgres_server import MISSING, PostgresServer, installations, pool_before
from sfumato.errors import LedgerInDoubt, WeakLedger
from sfumato.ledger.accounts.reservations import SettledAnswer
from sfumato.ledger.stores import postgres

pytestmark = pytest.mark.filterwarnings(BEHIND)


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place.make(postgres)


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """A server that a test may kill."""
    if not installations():
        pytest.skip(MISSING)
    server = PostgresServer(installations()[0])
    try:
        yield server.make().start()
    finally:
        server.remove()


@pytest.fixture
def cutter(postgres: PostgresServer) -> Iterator[Cutter]:
    found = Cutter(postgres)
    yield found
    found.close()


def charges(place: Place) -> int:
    return int(place.server.execute(f"SELECT count(*) FROM {place.schema}.lines WHERE kind = 'charge'")[0][0])


# ── a reply that never comes ───────────────────────────────────────────────────────────────────


def points(many: int, long: bool) -> list[int]:
    """After which bytes to cut: all of them, or some everywhere and more around COMMIT and its reply."""
    return list(range(1, many + 1)) if long else sorted({*range(1, many, many // 8), *range(many - 60, many + 1, 6)})


def test_a_connection_cut_after_any_byte_leaves_client_and_ledger_agreed(
    place: Place, cutter: Cutter, long: bool
) -> None:
    """The server can be asked again: whoever is told that it charged has charged, and nobody else has."""
    address = place.server.address(user=SPENDER, schema=place.schema, host=cutter.folder)
    with sf.Ledger.open(address) as ledger:
        clinic = account(ledger, sf.Budget(10**6))
        clinic.charge(pure("1"))
        cutter.cut_after(None)
        clinic.charge(pure("1"))
        many = cutter.passed
        refused: list[str] = []
        for point in points(many, long):
            cutter.cut_after(None)
            clinic.charge(pure("1"))  # connected again, and ready
            cutter.cut_after(point)
            before = charges(place)
            try:
                line = clinic.charge(pure("1", question=f"cut at {point}"))
            except LedgerInDoubt:
                pytest.fail(f"the server could be asked: byte {point}")
            except sf.LedgerUnavailable as refusal:
                refused.append(str(refusal))
                assert charges(place) == before, point
            else:
                assert charges(place) == before + 1, point
                assert line.question == f"cut at {point}"
        cutter.cut_after(None)
        assert refused
        assert all("nothing was charged" in words for words in refused)
        assert ledger.verify().holds


def test_an_answer_whose_connection_is_cut_after_any_byte_is_written_once(
    place: Place, cutter: Cutter, long: bool
) -> None:
    """What was paid for is answered: whether COMMIT was sent, and whether its reply was lost, is found out."""
    address = place.server.address(user=SPENDER, schema=place.schema, host=cutter.folder)
    with sf.Ledger.open(address) as ledger:
        clinic = account(ledger, sf.Budget(10**6))
        clinic.answer(clinic.charge(pure("1")), "1", {})
        charge = clinic.charge(pure("1"))
        cutter.cut_after(None)
        clinic.answer(charge, "1", {})
        for number, point in enumerate(points(cutter.passed, long), 2):
            cutter.cut_after(None)
            charge = clinic.charge(pure("1"))
            cutter.cut_after(point)
            answer = clinic.answer(charge, f"[{number}]", {})
            assert ledger.body(answer) == f"[{number}]"
        cutter.cut_after(None)
        kinds = [line.kind for line in ledger.lines()]
        assert kinds.count("answer") == kinds.count("charge")
        assert "stopped" not in kinds
        assert ledger.verify().holds


def test_an_answer_in_doubt_is_not_written_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.open() as ledger:
        clinic = account(ledger)
        charge, attempts = clinic.charge(pure()), []

        def lose(*arguments: object) -> object:
            attempts.append(arguments)
            raise LedgerInDoubt(charge.number + 1, charge.number + 1, None)

        monkeypatch.setattr(clinic, "_append_answer", lose)
        with pytest.raises(LedgerInDoubt):
            clinic.answer(charge, "1", {})
        assert len(attempts) == 1


def test_a_series_goes_on_when_the_connection_is_cut_between_its_lines(place: Place, cutter: Cutter) -> None:
    """What the hold has paid for: its steps, the answers to a workload, and the result computed from them."""
    address = place.server.address(user=SPENDER, schema=place.schema, host=cutter.folder)
    with sf.Ledger.open(address) as ledger:
        clinic = account(ledger, sf.Budget(10**6))
        part = SettledAnswer(sf.Entry(sf.Curve(()), "part", "part", "data"), "1", {})
        passed: list[int] = []
        for series in range(3):
            tab = clinic.ask_tab(pure("1"), sf.Entry(sf.Curve(()), "asked", "plan", "data", request_id=f"r{series}"))
            assert isinstance(tab, sf.Tab)
            steps = (
                partial(tab.settle, [part], more=True),
                partial(tab.step, pure("0.5")),
                partial(clinic.finish, tab, "2"),
            )
            for number, step in enumerate(steps):
                # the last bytes are the lines and COMMIT, and then its reply
                cutter.cut_after(passed[number] - 200 * series if series else None)
                step()
                passed.append(cutter.passed)
        cutter.cut_after(None)
        kinds = [line.kind for line in ledger.lines()]
        assert [kinds.count(kind) for kind in ("step", "answer", "tab-close")] == [6, 6, 3]
        assert ledger.verify().holds


def test_bytes_that_come_late_and_in_pieces_change_no_charge(place: Place, cutter: Cutter) -> None:
    """Thirty-two bytes at a time: messages are cut anywhere, and the other spender is in between."""
    address = place.server.address(user=SPENDER, schema=place.schema, host=cutter.folder)
    with sf.Ledger.open(address) as slow, place.open() as fast:
        accounts = iter([account(ledger, sf.Budget(1)) for ledger in (slow, fast)])
        cutter.piece = 32
        assert in_threads(2, lambda: spend(next(accounts), pure("0.1"))) == 10
        assert ledger_is_whole(fast, 10)


@pytest.mark.parametrize("level", ["serializable", "read uncommitted"])
def test_whatever_the_isolation_level_is_by_default_each_charge_sees_the_last(
    place: Place, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    escaped = level.replace(" ", "\\ ")
    monkeypatch.setenv("PGOPTIONS", f"-c default_transaction_isolation={escaped}")
    with place.open() as one, place.open() as other:
        accounts = [account(ledger, sf.Budget(1)) for ledger in (one, other)]
        for turn in range(10):
            accounts[turn % 2].charge(pure("0.1"))
        for clinic in accounts:
            with pytest.raises(sf.Overspent):
                clinic.charge(pure("0.1"))
        assert ledger_is_whole(one, 10)


def test_while_no_server_can_be_asked_it_is_not_known_whether_it_was_charged(
    place: Place, cutter: Cutter, long: bool
) -> None:
    """Cut for good after any byte: told that it was not charged, or that this is not known, and never that it was."""
    address = place.server.address(user=SPENDER, schema=place.schema, host=cutter.folder)
    with sf.Ledger.open(address, timeout="0.2") as ledger:
        clinic = account(ledger, sf.Budget(10**6))
        unknown, made = [], 0
        for point in range(1, 101, 1 if long else 9):
            cutter.cut_after(None)
            for _ in range(2):
                cutter.cut_after(None)
                clinic.charge(pure("1", request_id=f"cut{point:03}"))
            cutter.cut_after(cutter.passed - point, stays_down=True)
            before = charges(place)
            try:
                clinic.charge(pure("1", request_id=f"cut{point:03}"))
            except LedgerInDoubt as doubt:
                unknown.append(doubt.request_id)
                made += charges(place) - before
            except sf.LedgerUnavailable:
                assert charges(place) == before, point
            else:
                assert point <= 6  # but for the last word all had passed
        cutter.cut_after(None)
        assert all(name.startswith("cut") for name in unknown)
        assert 0 < made < len(unknown)  # both happen, and nobody could tell
        assert ledger.verify().holds


def test_a_question_in_doubt_reads_nothing_and_is_not_paid_twice(place: Place, cutter: Cutter) -> None:
    """Under its request id it was charged, or is charged now: once."""
    address = place.server.address(user=SPENDER, schema=place.schema, host=cutter.folder)
    with sf.Ledger.open(address, timeout="0.2") as ledger:
        clinic = account(ledger, sf.Budget(100))
        entries = [pure("1", plan=f"p{turn}", data="v", request_id=f"r{turn}") for turn in range(8)]
        for turn, entry in enumerate(entries):
            cutter.cut_after(None)
            clinic.charge(pure("0.001"))
            cutter.cut_after(None)
            measured = clinic.ask(pure("0.001", plan=f"m{turn}", data="v", request_id=f"m{turn}"), {})
            assert measured.begin() is None
            many = cutter.passed
            clinic.answer(measured.line, "1", {})
            question = clinic.ask(entry, {})
            cutter.cut_after(many - 8 * turn, stays_down=True)
            with contextlib.suppress(sf.LedgerUnavailable):
                question.begin()
            cutter.cut_after(None)
            question.stop()
            again = clinic.ask(entry, {})
            with contextlib.suppress(sf.Unanswered):
                again.begin(0)
            paid = [line for line in ledger if line.kind == "charge" and line.request_id == f"r{turn}"]
            assert len(paid) == 1
        assert ledger.verify().holds


# ── processes ──────────────────────────────────────────────────────────────────────────────────


def test_a_child_never_ends_its_parents_session(place: Place) -> None:
    """Whether it closes the ledger, collects it, uses it, forks inside a transaction, or just ends."""
    with place.open() as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.01"))
        (session,) = ledger._guarded.store._held
        backend = session._connection.info.backend_pid

        def work(index: int) -> int:
            nonlocal ledger, clinic
            if index == 0:
                ledger.close()
            elif index == 1:
                del ledger, clinic
                gc.unfreeze()
                gc.collect()
            elif index == 2:
                return clinic.charge(pure("0.01")).number
            return 0

        gc.collect()  # what other tests dropped, which must not be collected in a child
        assert all(isinstance(each, int) for each in in_processes(4, work))
        code = "import sys; sys.exit(0)"
        with ledger._guarded.store.writing() as rows:
            child = os.fork()
            if child == 0:
                try:
                    rows.run("SELECT 1")
                except sf.LedgerUnavailable:
                    os._exit(7)
                finally:
                    os._exit(8)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert script(code).returncode == 0
        assert clinic.charge(pure("0.01")).number == 4
        (session,) = ledger._guarded.store._held
        assert session._connection.info.backend_pid == backend


def test_exactly_as_many_win_as_the_budget_pays_for(place: Place, long: bool) -> None:
    """Half of the processes were forked with an open ledger."""
    processes, threads, wanted = (16, 4, 400) if long else (4, 2, 25)
    with place.open() as inherited:
        account(inherited)

        def work(index: int) -> int:
            clinic = account(inherited if index % 2 else place.open())
            return in_threads(threads, lambda: spend(clinic, pure(Fraction(1, wanted))))

        won = in_processes(processes, work)
        assert sum(won) == wanted, won  # type: ignore[arg-type]
        assert ledger_is_whole(inherited, wanted)


FOREVER = """
import os, sys, sfumato as sf
from ledger.small_accounts import account, pure
ledger = sf.Ledger.open(sys.argv[1], timeout=20)
clinic = account(ledger, sf.Budget(10**6))
os.write(1, b"ready\\n")
while True:
    try:
        line = clinic.charge(pure("0.01"))
        os.write(1, b"c%d\\n" % line.number)
    except sf.LedgerUnavailable as refusal:
        os.write(1, b"refused\\n")
"""


@contextlib.contextmanager
def spenders(address: str, many: int) -> Iterator[list[subprocess.Popen[str]]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FOREVER, address]
    found = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(many)]
    try:
        for each in found:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        yield found
    finally:
        for each in found:
            each.send_signal(signal.SIGCONT)
            each.kill()
            each.wait()
            each.stdout.close()  # type: ignore[union-attr]


def said(spender: subprocess.Popen[str]) -> list[int]:
    """The charges that a spender, killed now, was told of."""
    spender.send_signal(signal.SIGCONT)
    spender.kill()
    words = spender.stdout.read().split("\n")[:-1]  # type: ignore[union-attr]
    return [int(word[1:]) for word in words if word.startswith("c")]


def written(place: Place) -> set[int]:
    return {row[0] for row in place.server.execute(f"SELECT number FROM {place.schema}.lines WHERE kind = 'charge'")}


def test_no_acknowledged_charge_is_lost_with_its_server(own: PostgresServer, long: bool) -> None:
    """kill -9 of the postmaster, and of single backends, while spenders charge; they go on when it is back."""
    place = Place.make(own)
    for _ in range(5 if long else 1):
        with spenders(place.address, 3) as found:
            time.sleep(1)
            backends = own.execute(f"SELECT pid FROM pg_stat_activity WHERE usename = '{SPENDER}'")
            if backends:
                os.kill(backends[0][0], signal.SIGKILL)  # the server restarts all of its processes
            time.sleep(1)
            own.kill()
            own.start()
            before = len(written(place))
            end = time.monotonic() + 120
            while len(written(place)) < before + 3 and time.monotonic() < end:
                time.sleep(0.1)
            assert len(written(place)) >= before + 3  # charging goes on
            told = [number for each in found for number in said(each)]
        assert len(told) == len(set(told)) > 0
        assert set(told) <= written(place)
        with place.open() as ledger:
            assert ledger.verify().holds


STUCK = """
import os, sys, sfumato as sf
from ledger.small_accounts import account, pure
ledger = sf.Ledger.open(sys.argv[1])
account(ledger)
with ledger._guarded.writing() as transaction:
    transaction.append("charge", "clinic", {})
    with ledger._guarded.store._lock:
        ledger._guarded.store._open._flush()
    os.write(1, b"inside\\n")
    os.read(0, 1)
os.write(1, b"charged\\n")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_spender_that_ends_or_stands_still_inside_a_charge_stops_nobody(place: Place, how: signal.Signals) -> None:
    """It holds the lock, and its line is sent but not committed: others wait, and then go on."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    short = STUCK.replace(
        "import os,", "import sfumato.ledger.stores.postgres as p; p._MIN_IDLE_TIMEOUT = 1.0\nimport os,"
    )
    short = short.replace("open(sys.argv[1])", "open(sys.argv[1], timeout=2)")
    command = [sys.executable, "-c", short, place.address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "inside\n", child.stderr.read()  # type: ignore[union-attr]
        child.send_signal(how)
        try:
            with place.open(timeout=30) as ledger:
                account(ledger).charge(pure("0.1"))
                assert charges(place) == 1
                child.send_signal(signal.SIGCONT)
                output, errors = child.communicate("x")
                assert "charged" not in output
                assert how is signal.SIGKILL or "LedgerUnavailable" in errors
                assert charges(place) == 1
                assert ledger.verify().holds
        finally:
            child.send_signal(signal.SIGCONT)
            child.kill()


# ── other servers ──────────────────────────────────────────────────────────────────────────────


def _a_commit_waits(server: PostgresServer) -> bool:
    """Return whether a commit waits for a standby: sessions know the setting before the server heeds it."""
    waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'COMMENT ON SCHEMA%'"
    commit = threading.Thread(target=server.execute, args=("COMMENT ON SCHEMA public IS 'waits'",))
    commit.start()
    waits = False
    while commit.is_alive():
        waits = bool(server.execute(f"SELECT pg_cancel_backend(pid) {waiting}")) or waits
        commit.join(0.01)
    return waits


@contextlib.contextmanager
def waiting_for_a_missing_standby(place: Place) -> Iterator[None]:
    """Every commit waits for a standby that is not there, until this ends."""
    place.server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        while not _a_commit_waits(place.server):
            time.sleep(0.01)
        yield
    finally:
        place.server.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


@pytest.mark.timeout(120)  # without its deadline a charge would wait for ever
def test_a_server_that_waits_for_a_standby_for_ever_does_not_hold_a_charge_for_ever(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.open(timeout="0.3") as ledger:
        clinic = account(ledger)
        monkeypatch.setattr(postgres, "_MIN_COMMIT_TIMEOUT", 0.3)
        with waiting_for_a_missing_standby(place), pytest.raises(LedgerInDoubt):
            clinic.charge(pure("0.1", request_id="mine"))
    with place.open() as ledger:
        account(ledger, sf.Budget(1)).charge(pure("0.1"))  # behind whoever waited
        assert charges(place) == 2


def test_a_wait_for_a_standby_that_is_cancelled_leaves_a_charge_in_doubt(place: Place) -> None:
    """The server says COMMIT, with a warning: a failover could forget the charge."""
    waiting = f"FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = '{SPENDER}'"
    with place.open() as ledger:
        clinic = account(ledger)
        with waiting_for_a_missing_standby(place):
            cancelled = threading.Event()

            def cancel() -> None:
                while not cancelled.is_set():
                    place.server.execute(f"SELECT pg_cancel_backend(pid) {waiting}")
                    time.sleep(0.05)

            other = threading.Thread(target=cancel)
            other.start()
            try:
                with pytest.raises(LedgerInDoubt):
                    clinic.charge(pure("0.1", request_id="mine"))
            finally:
                cancelled.set()
                other.join()
        clinic.charge(pure("0.1"))


def test_fsync_and_the_like_are_on_or_nothing_is_charged(own: PostgresServer) -> None:
    place = Place.make(own)
    own.stop()
    for name in ("fsync", "full_page_writes"):
        own.start(**{name: "off"})
        with pytest.raises(sf.LedgerUnavailable, match=f"{name} is off"):
            place.open()
        own.stop()
        own.start(**{name: "on"})
        own.stop()


SEGMENT = 2 << 20
"""Bytes of a file of the server's log in a test of full disks."""


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed: a full disk NOT tested")
@pytest.mark.parametrize("full", ["tables", "log"])
def test_a_full_disk_is_told_and_no_acknowledged_charge_is_lost(full: str) -> None:
    """The system lets no file of the server grow further: half a page is written, or no new file of its log. Where the
    log is full the server ends, as PostgreSQL does, and comes back to the same end.
    """
    if not installations():
        pytest.skip(MISSING)
    server = PostgresServer(installations()[0], {"min_wal_size": "4MB", "max_wal_size": "4MB"})
    try:
        place = Place.make(server.make("--wal-segsize=2").start())
        server.stop()
        server.largest = SEGMENT + 4096 if full == "tables" else SEGMENT - 4096
        server.start()
        told, refused = charged_until_full(place, fill_log=full == "log")
        assert told > 1
        assert refused.fix
        if full == "tables":
            assert not isinstance(refused, LedgerInDoubt)
        if full == "tables" and server.installation.version < 16:  # newer ones have no code for it
            assert "the disk is full" in refused.rule
            assert "make room" in refused.fix
        server.kill()  # with a full log it could not end by itself
        server.largest = None
        server.start()
        with place.open() as ledger:
            assert ledger.verify().holds
            assert ledger.head[0] - told in ({0} if full == "tables" else {0, 1})  # one may be in doubt
            account(ledger, sf.Budget(10**6)).charge(pure("1"))  # there is room again
    finally:
        server.remove()


def charged_until_full(place: Place, *, fill_log: bool) -> tuple[int, sf.LedgerUnavailable]:
    """Charge until that is refused; the last line that was acknowledged, and the refusal."""
    with place.open(timeout=2) as ledger:
        clinic, told = account(ledger, sf.Budget(10**6)), 0
        while True:
            try:
                told = clinic.charge(pure("1", question=os.urandom(30_000).hex())).number
            except sf.LedgerUnavailable as refusal:
                return told, refusal
            assert told < 1000
            if fill_log:
                with contextlib.suppress(psycopg.Error):
                    place.server.execute("SELECT pg_switch_wal()")


KILLED = """
import os, signal, sys, warnings, sfumato as sf
from ledger.small_accounts import account, pure
warnings.simplefilter("ignore")
ledger = sf.Ledger.open(sys.argv[1])
account(ledger).charge(pure(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_promoted_standby_that_was_behind_is_not_charged(own: PostgresServer) -> None:
    """A curator that knew more, and was killed, has left what the next one needs to refuse, until the owner
    acknowledges what was lost.
    """
    place = Place.make(own)
    own.stop()
    standby = PostgresServer(own.installation)
    try:
        own.start(wal_level="replica", max_wal_senders="4", hot_standby="on")
        with place.open() as ledger:
            account(ledger)
        own.stop()
        standby.copy(own)
        (standby.data / "standby.signal").touch()
        shutil.chown(standby.data / "standby.signal", *_owner(standby.data))
        own.start()
        standby.start(primary_conninfo=f"host={own.folder} user=postgres", hot_standby="on")
        _wait(own, "SELECT count(*) FROM pg_stat_replication", 1)
        with pytest.warns(WeakLedger, match="a failover can lose the last charges"):
            ledger = place.open()
        assert "the server waits for no standby" in ledger.durability
        account(ledger).charge(pure("0.1"))
        _wait(standby, f"SELECT count(*) FROM {place.schema}.lines WHERE kind = 'charge'", 1)
        behind = Place(standby, place.schema)
        with pytest.raises(sf.LedgerUnavailable, match="standby"):
            behind.open()
        standby.execute("SELECT pg_wal_replay_pause()")
        os.kill(standby.execute("SELECT pid FROM pg_stat_wal_receiver")[0][0], signal.SIGSTOP)
        ledger.close()
        assert script(KILLED, place.address, "0.4", check=False).returncode == -signal.SIGKILL  # never gets there
        own.kill()
        for pid in standby.execute("SELECT pid FROM pg_stat_wal_receiver"):
            os.kill(pid[0], signal.SIGKILL)
        _promote(standby)
        with behind.open() as promoted:
            clinic = account(promoted)
            with pytest.raises(sf.LedgerBehind):
                clinic.charge(pure("0.1"))
            promoted.acknowledge(reason="the standby was behind")
            assert clinic.remaining == {"pure": Fraction(1, 2)}
            clinic.charge(pure("0.1"))
            assert promoted.verify().holds
    finally:
        standby.remove()


def _promote(standby: PostgresServer) -> None:
    end = time.monotonic() + 120
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            standby.execute("SELECT pg_wal_replay_resume()", "SELECT pg_promote(true, 60)")
            if standby.execute("SELECT pg_is_in_recovery()") == [(False,)]:
                return
        assert time.monotonic() < end
        time.sleep(0.2)


def _owner(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid


def _wait(server: PostgresServer, query: str, wanted: int) -> None:
    end = time.monotonic() + 120
    while server.execute(query) != [(wanted,)]:
        assert time.monotonic() < end, query
        time.sleep(0.1)


def test_behind_a_pool_that_gives_each_transaction_another_connection(place: Place) -> None:
    """PgBouncer in transaction mode, with fewer connections than spenders."""
    with pool_before(place.server, "transaction", SPENDER) as pool:
        address = f"postgresql:///postgres?{pool}&user={SPENDER}&schema={place.schema}"
        with sf.Ledger.open(address) as ledger:
            account(ledger)
            won = in_processes(6, lambda _: spend(account(sf.Ledger.open(address)), pure("0.04")))
            assert sum(won) == 25, won  # type: ignore[arg-type]
            assert ledger_is_whole(ledger, 25)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: syncs of PostgreSQL NOT seen")
def test_the_server_syncs_its_log_before_it_says_that_a_charge_is_made(place: Place, tmp_path: Path) -> None:
    """Seen from outside: between the COMMIT that a backend reads and its reply, the log is synced."""
    with place.open() as ledger:
        clinic = account(ledger)
        clinic.charge(pure("0.1"))
        backend = ledger._guarded.store._held[0]._connection.info.backend_pid
        ((writer,),) = place.server.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
        log = tmp_path / "trace"
        calls = "trace=recvfrom,sendto,fdatasync,fsync,write,pwrite64"
        tracer = subprocess.Popen(
            ["strace", "-f", "-y", "-s", "200", "-o", str(log), "-e", calls, "-p", f"{backend},{writer}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert "attached" in tracer.stderr.readline()  # type: ignore[union-attr]
            clinic.charge(pure("0.1"))
            clinic.charge(pure("0.1"))
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
    text = log.read_text()
    told = list(re.finditer(r"sendto\(.*COMMIT\\0", text))
    assert len(told) == 2, text
    for found in told:
        start = text.rfind("INSERT INTO", 0, found.start())
        assert re.search(r"(fdatasync|fsync)\(\d+<[^>]*pg_wal", text[start : found.start()]), text[start : found.end()]
