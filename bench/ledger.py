"""The ledger beside a bare durable INSERT on the same disk, in one run; how it stays flat; how long verifying takes.

Run with: .venv/bin/python bench/ledger.py [lines, a million by default]; TMPDIR chooses the disk. With --postgres it is
measured on a PostgreSQL server that is started for it, beside a bare INSERT on the same server.

CPU times compare from one run to another where wall times do not; on a busy machine they are longer too, so each stands
beside what SQLite and SHA-256 alone take for the same lines in the same run.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import sfumato as sf
from sfumato.ledger.proofs.verifying import Verification
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.transaction import Transaction

BLOCK, ROUNDS = 50, 20
NOISE = sf.Laplace(scale=1000)
ENTRY = sf.Entry(sf.Charged(NOISE, 1), "SELECT region, COUNT(*) FROM visits GROUP BY region", "ab" * 32, "v1", "ana")


def milliseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU time of one call, from a block of them."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(BLOCK):
        call()
    return (time.perf_counter() - wall) / BLOCK * 1e3, (time.process_time() - cpu) / BLOCK * 1e3


def bare(path: Path, row: Row) -> Callable[[], object]:
    """The same texts in a table without indexes, chain or rule: one durable transaction each."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute(f"CREATE TABLE lines ({', '.join(Row._fields[1:])})")
    statement = f"INSERT INTO lines VALUES ({', '.join('?' * len(row[1:]))})"
    return lambda: raw.execute(statement, row[1:])


def lengthen(ledger: sf.Ledger, account: sf.Account, lines: int) -> None:
    """Charges as the ledger writes them, but synced once: only the length of the history matters here."""
    cost, columns = account.cost(ENTRY.curve), ENTRY.columns
    with ledger._guarded.store.writing() as rows:  # noqa: SLF001
        transaction = Transaction(rows, ledger._guarded.keyed_hash.origin)  # noqa: SLF001
        for _ in range(lines):
            transaction.append("charge", account.name, columns, cost=cost)


def print_stored_answer(account: sf.Account) -> None:
    """The ledger's part of a question that is asked again: the answer and what the receipt shows, in one look."""
    account.answer(account.charge(ENTRY), '{"n": 1}', {"n": 5})
    where = {"plan": ENTRY.plan, "data": ENTRY.data, "question": ENTRY.question, "analyst": ENTRY.analyst}
    turns = [milliseconds(lambda: account.look_up({"n": 5}, **where)) for _ in range(ROUNDS)]
    print(f"a stored answer: CPU {median(cpu for _, cpu in turns):.3f} ms")


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def print_verification(ledger: sf.Ledger, path: Path) -> None:
    start, cpu = time.perf_counter(), cpu_seconds()
    report = ledger.verify()
    spent, ours, million = time.perf_counter() - start, cpu_seconds() - cpu, report.lines / 1e6
    cpu = cpu_seconds()
    bare_verification(path)
    theirs = cpu_seconds() - cpu
    print(
        f"verifying {report}: {spent:.1f} s; CPU of all processes {ours / million:.1f} s per million "
        f"(on two cores {ours / million / 2:.1f}, target 8), "
        f"reading and hashing alone {theirs / million:.1f}: {ours / theirs:.2f}×"
    )


def bare_verification(path: Path) -> None:
    """Read the lines, hash them, and let SQLite check its pages and indexes."""
    with closing(sqlite3.connect(path)) as raw:
        for row in raw.execute("SELECT * FROM lines"):
            sha256("\0".join(map(str, row)).encode()).hexdigest()
        raw.execute("PRAGMA integrity_check(1)").fetchone()


def main(lines: int) -> None:
    with tempfile.TemporaryDirectory() as folder, sf.Ledger.open(Path(folder) / "ledger.db") as ledger:
        account = ledger.account("clinic", unit=sf.PrivacyUnit("patient"), budget=sf.Budget(10**6, "1e-6"))
        account.charge(ENTRY)
        with ledger._guarded.reading() as transaction:  # noqa: SLF001
            assert transaction.head is not None
            insert = bare(Path(folder) / "bare.db", transaction.head)
        done = 0
        for history in (0, lines // 100, lines):
            lengthen(ledger, account, max(0, history - done))
            done = max(done, history)
            turns = [(milliseconds(lambda: account.charge(ENTRY)), milliseconds(insert)) for _ in range(ROUNDS)]
            ours, theirs = (median(turn[side][0] for turn in turns) for side in (0, 1))
            cpu, plain = (median(turn[side][1] for turn in turns) for side in (0, 1))
            print(
                f"after {history:>9,} lines: a charge {ours:.3f} ms ({1000 / ours:,.0f} a second), "
                f"a bare INSERT {theirs:.3f} ms: {ours / theirs:.2f}×; CPU {cpu:.3f} and {plain:.3f} ms, "
                f"{cpu - plain:.3f} beyond it (target 0.35)"
            )
        print_stored_answer(account)
        print_verification(ledger, Path(folder) / "ledger.db")
        start = time.perf_counter()
        sf.Ledger.open(Path(folder) / "ledger.db").close()
        print(f"opening, verified from the last checkpoint: {(time.perf_counter() - start) * 1e3:.1f} ms")


SPENDERS, EACH = 64, 20


def together(work: Callable[[], Callable[[], object]]) -> float:
    """How many calls a second all spenders make, each in a process of its own."""
    fork = multiprocessing.get_context("fork")
    gate, done = fork.Barrier(SPENDERS + 1), fork.Barrier(SPENDERS + 1)

    def run() -> None:
        call = work()
        gate.wait()
        for _ in range(EACH):
            call()
        done.wait()

    children = [fork.Process(target=run) for _ in range(SPENDERS)]
    for child in children:
        child.start()
    gate.wait()
    start = time.perf_counter()
    done.wait()
    spent = time.perf_counter() - start
    for child in children:
        child.join()
    return SPENDERS * EACH / spent


def bare_on_server(address: str, row: Row, *, lock: bool) -> Callable[[], object]:
    """The same texts in a table without indexes: BEGIN, perhaps a lock, INSERT and COMMIT."""
    import psycopg

    raw: Any = psycopg.connect(address, autocommit=True, prepare_threshold=None)
    insert = f"INSERT INTO bare VALUES ({', '.join(['%s'] * len(row))})"

    def call() -> None:
        raw.execute("BEGIN")
        if lock:
            raw.execute("SELECT one FROM bare_lock FOR UPDATE")
        raw.execute(insert, tuple(row))
        raw.execute("COMMIT")

    return call if lock else lambda: raw.execute(insert, tuple(row))


def verified(ledger: sf.Ledger) -> tuple[Verification, float]:
    start = time.perf_counter()
    return ledger.verify(), time.perf_counter() - start


def on_server(lines: int) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from postgres_server import PostgresServer, installations
    from sfumato.ledger.stores.opening import make_ledger

    server = PostgresServer(installations()[0]).make().start()
    try:
        make_ledger(server.address(), spender="spender")
        address = server.address(user="spender")
        with sf.Ledger.open(address) as ledger:
            account = ledger.account("clinic", unit=sf.PrivacyUnit("patient"), budget=sf.Budget(10**6, "1e-6"))
            account.charge(ENTRY)
            with ledger._guarded.reading() as transaction:  # noqa: SLF001
                assert transaction.head is not None
                row = transaction.head
            columns = ", ".join(f'"{name}" text' for name in Row._fields)
            server.execute(f"CREATE TABLE bare ({columns})", "CREATE TABLE bare_lock (one int)")
            server.execute("INSERT INTO bare_lock VALUES (1)", "GRANT ALL ON bare, bare_lock TO spender")
            insert = bare_on_server(address, row, lock=False)
            turns = [(milliseconds(lambda: account.charge(ENTRY)), milliseconds(insert)) for _ in range(ROUNDS)]
            ours, theirs = (median(turn[side][0] for turn in turns) for side in (0, 1))
            print(f"a charge {ours:.3f} ms, a bare INSERT {theirs:.3f} ms: {ours / theirs:.2f}× (target 3)")

        def spender() -> Callable[[], object]:
            mine = sf.Ledger.open(address).account("clinic")
            return lambda: mine.charge(ENTRY)

        plain = together(lambda: bare_on_server(address, row, lock=True))
        rate = together(spender)
        print(f"{SPENDERS} spenders: {rate:,.0f} a second, bare {plain:,.0f}: {rate / plain:.2f}× (target 0.5)")
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            with sf.Ledger.open(address) as ledger:
                lengthen(ledger, ledger.account("clinic"), lines)
                report, ours = verified(ledger)
                ledger.backup(copy)
            with sf.Ledger.open(copy) as ledger:
                same, theirs = verified(ledger)
            assert report == same
            assert report.holds
        print(f"verifying {report}: {ours:.1f} s, in SQLite {theirs:.1f} s: {ours / theirs:.2f}× (target 3)")
        start = time.perf_counter()
        sf.Ledger.open(address).close()
        print(f"opening, verified from the last checkpoint: {time.perf_counter() - start:.3f} s (target 0.5)")
    finally:
        server.remove()


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--postgres"]
    (on_server if "--postgres" in sys.argv else main)(int(given[0]) if given else 1_000_000)
