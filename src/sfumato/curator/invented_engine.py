"""The engine over the invented rows of a policy is opened when it is first wanted, and kept with the curator.

The rows are the same every time and nobody's, so every rehearsal may read them there: each still has an account of its
own, from which nothing is found again.
"""

from __future__ import annotations

import threading

from sfumato.engine.invented_sources import with_invented_rows
from sfumato.engine.opening import open_engine
from sfumato.engine.seam import Engine
from sfumato.policy import Policy


class InventedEngine:
    """This opens the engine once, for all views of one curator. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: Engine | None = None

    def of(self, policy: Policy) -> Engine:
        """Give the engine over the invented rows of the curator's policy."""
        with self._lock:
            if self._opened is None:
                self._opened = open_engine(with_invented_rows(policy))
            return self._opened

    def close(self) -> None:
        """Close the engine; it is opened again where it is wanted again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None
