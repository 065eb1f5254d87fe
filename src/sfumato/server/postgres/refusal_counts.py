"""What clients needed and did not get: statements refused with 0A000, counted by user and rule.

Nothing that is not known is guessed, so this list is what to add next. It is kept in memory, and begins anew with the
server's process.
"""

from __future__ import annotations

import threading
from collections import Counter

MAX_RULES = 1_000
"""Rules that are counted for one user: a rule may quote a name that the client made up."""
MAX_USERS = 1_000
"""Users whose refusals are counted."""


class RefusalCounts:
    """The counts of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_user: dict[str, Counter[str]] = {}

    def count(self, user: str, rule: str) -> None:
        with self._lock:
            if user not in self._by_user and len(self._by_user) < MAX_USERS:
                self._by_user[user] = Counter()
            counts = self._by_user.get(user, Counter())
            if rule in counts or len(counts) < MAX_RULES:
                counts[rule] += 1

    def rows(self, user: str | None) -> list[tuple[str, str, int]]:
        """Return user, rule and count, the most frequent first: of one user, or of all."""
        with self._lock:
            rows = [
                (name, rule, count)
                for name, counts in self._by_user.items()
                if user in (None, name)
                for rule, count in counts.items()
            ]
        return sorted(rows, key=lambda row: (-row[2], row[:2]))
