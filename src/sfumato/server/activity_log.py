"""The activity log is for whoever runs a server: one JSON line for each call.

It says when, who, which call, how it ended, the line of the ledger and the price. It never says what was asked (a WHERE
may name a person), what was answered, or by which token: it takes no argument in which these could be. What is weak
about the ledger is a line of its own, with a warning: it tells of the database, and of no question.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime


class ActivityLog:
    """An activity log writes to the end of a file that only its owner reads, or to the standard error.

    Each line is one write to the end of the file, so processes may share it.
    """

    def __init__(self, path: str = "") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600) if path else None

    def write(self, *, user: str, route: str, status: int, line: int | None = None, price: str = "") -> None:
        """Write one call down."""
        said = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": user,
            "route": route,
            "status": status,
            "line": line,
            "price": price,
        }
        text = json.dumps(said) + "\n"
        if self._file is None:
            sys.stderr.write(text)
        else:
            os.write(self._file, text.encode())

    def warn(self, warning: str) -> None:
        """Write down, in the file, what is weak about the ledger; the standard error has it in any case."""
        if self._file is not None:
            said = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "warning": warning}
            os.write(self._file, (json.dumps(said, ensure_ascii=False) + "\n").encode(errors="replace"))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
