"""A Ctrl-C within a step of a series waits for the end of the step: what was paid for is then answered and kept, and
what is unspent is free again. A second one does not wait, and the step that it ends is spent with all that was held.

Who presses it knows what was released, and no more; a step that has begun was charged whether it is waited for or not.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

WAITING = "ending after this step; Ctrl-C again ends at once, and all that was held is spent"


@dataclass
class Interrupts:
    """These are the Ctrl-C of one series of steps, told to who waits."""

    progress: Callable[[str], None]
    asked: bool = False
    """Whether there was one that was held back."""

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Hold the first Ctrl-C back while a step runs.

        Python tells signals to the main thread alone, and a handler that is not Python's own is left as it is.
        """
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(Exception):  # what cannot be told must not end the step
            self.progress(WAITING)

    def between(self) -> None:
        """End here, before the next step is charged, where a Ctrl-C was held back."""
        if self.asked:
            raise KeyboardInterrupt
