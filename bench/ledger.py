"""The ledger beside a bare durable INSERT on the same disk, in one run; how it stays flat; how long verifying takes.

Run with: .venv/bin/python bench/ledger.py [lines, a million by default]; TMPDIR chooses the disk
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import sfumato as sf
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
        transaction = Transaction(rows, ledger._guarded.keyed.origin)  # noqa: SLF001
        for _ in range(lines):
            transaction.append("charge", account.name, columns, cost=cost)


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
                f"a bare INSERT {theirs:.3f} ms: {ours / theirs:.2f}×; CPU {cpu:.3f} and {plain:.3f} ms"
            )
        start = time.perf_counter()
        report = ledger.verify()
        spent, million = time.perf_counter() - start, report.lines / 1e6
        print(f"verifying {report}: {spent:.1f} s, {spent / million:.1f} s per million (target 10)")
        start = time.perf_counter()
        sf.Ledger.open(Path(folder) / "ledger.db").close()
        print(f"opening, verified from the last checkpoint: {(time.perf_counter() - start) * 1e3:.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
