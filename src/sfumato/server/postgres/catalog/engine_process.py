"""The process in which catalog statements run: DuckDB in memory, under a limit of memory that the kernel enforces.

DuckDB's own limit does not count texts inside of an expression, so nested REPLACE outgrows it. This file is run as
a script with the standard library and DuckDB only; requests and replies are pickles on standard input and output.
"""

from __future__ import annotations

import pickle
import select
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

IDLE_SECONDS = 300.0
"""After so many seconds without a statement the process ends; the next statement starts another."""

OUT_OF_MEMORY = "out of memory"
"""The reply where the address space is at its limit: earlier statements may have left too little of it."""

RESERVE = 64 << 20
"""Bytes of address space without which no statement is begun."""

Rows = list[tuple[Any, ...]]


class StatementLimits(NamedTuple):
    """Seconds of a statement, and rows and letters of its answer."""

    seconds: float
    rows: int
    letters: int


def count_letters(cell: object) -> int:
    """Count the letters of a cell: in arrays and records, those of their items, and one for each item."""
    if isinstance(cell, str):
        return len(cell)
    if isinstance(cell, dict):
        return sum(1 + count_letters(item) for item in cell.values())
    return sum(1 + count_letters(item) for item in cell) if isinstance(cell, (list, tuple)) else 0


def limit_memory(extra_bytes: int) -> None:
    """Bound the address space of this process: what it has now and so many bytes more. Elsewhere than on Linux,
    nothing.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = _address_space() + extra_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def is_address_space_used_up() -> bool:
    """Return whether less than ``RESERVE`` is left: a thread that starts without memory for its stack would wait for
    ever.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        return limit != resource.RLIM_INFINITY and limit - _address_space() < RESERVE
    return False


def _address_space() -> int:
    import resource

    with open("/proc/self/statm", encoding="ascii") as status:
        return int(status.read().split()[0]) * resource.getpagesize()


def run_with_limits(connection: Any, statement: str, limits: StatementLimits) -> tuple[Rows, int] | str | None:
    """Return rows and the number of their letters, no rows beyond the limit of letters; None where the engine fails, or
    ``OUT_OF_MEMORY``.
    """
    import duckdb

    if is_address_space_used_up():
        return OUT_OF_MEMORY
    timer = threading.Timer(limits.seconds, connection.interrupt)
    try:
        timer.start()
        rows = connection.execute(statement).fetchmany(limits.rows + 1)
        letters = sum(map(count_letters, rows))
        return (rows if letters <= limits.letters else []), letters
    except RecursionError:  # of values within values, too many to count their letters
        return None
    except (MemoryError, RuntimeError):  # also of the timer, whose thread needs a stack
        return OUT_OF_MEMORY
    except (duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException):  # the last two close it
        return OUT_OF_MEMORY
    except Exception:  # what the engine says quotes generated SQL, which its reader did not write
        return None
    finally:
        timer.cancel()


def open_database(configuration: dict[str, Any], setup: Iterable[tuple[str, Any]]) -> Any:
    import duckdb

    connection = duckdb.connect(":memory:", config=configuration)
    for statement, parameters in setup:
        connection.execute(statement, parameters)
    return connection


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Open the database of the first request, then run the statements of the others."""
    path, configuration, setup, memory = pickle.load(requests)
    sys.path[:] = path
    connection = open_database(configuration, setup)
    limit_memory(memory)
    send_pickled(replies, None)
    while select.select([requests], [], [], IDLE_SECONDS)[0]:
        statement, *limits = pickle.load(requests)
        send_pickled(replies, run_with_limits(connection, statement, StatementLimits(*limits)))


def send_pickled(stream: BinaryIO, value: object) -> None:
    pickle.dump(value, stream)
    stream.flush()


if __name__ == "__main__":
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer)
