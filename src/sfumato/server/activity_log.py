"""The activity log of a server: one JSON line per call.

A line holds the time, the user, the route, the HTTP status, the ledger line and the price. It never holds the question
(a WHERE clause may name a person), the answer or the token: no method takes them as an argument. Warnings about the
ledger's database get lines of their own.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from sfumato.errors import SfumatoError, outcome


class ActivityLog:
    """A log that appends to a file readable by its owner alone, or to standard error if no path is given.

    Each line is one ``O_APPEND`` write, so several processes may share the file.
    """

    def __init__(self, path: str = "") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600) if path else None

    def write(self, *, user: str, route: str, status: int, line: int | None = None, price: str = "") -> None:
        """Append the record of one call."""
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": user,
            "route": route,
            "status": status,
            "line": line,
            "price": price,
        }
        encoded = json.dumps(record) + "\n"
        if self._file is None:
            sys.stderr.write(encoded)
        else:
            os.write(self._file, encoded.encode())

    def warn(self, warning: str) -> None:
        """Append a warning about the ledger to the file; standard error shows it in any case."""
        if self._file is not None:
            record = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "warning": warning}
            os.write(self._file, (json.dumps(record, ensure_ascii=False) + "\n").encode(errors="replace"))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def http_status_of_error(error: BaseException) -> int:
    """Return the HTTP status of an error; 500 for one that nobody foresaw."""
    return outcome(error).http_status if isinstance(error, SfumatoError) else 500
