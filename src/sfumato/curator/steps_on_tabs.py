"""A series of steps is paid from one tab: each is a complete release, charged before it reads.

A Ctrl-C within a step of a series waits for the end of the step: what was paid for is then answered and kept, and
what is unspent is free again. A second one does not wait, and the step that it ends is spent with all that was held.

Who presses it knows what was released, and no more; a step that has begun was charged whether it is waited for or not.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from sfumato.curator.context import Context
from sfumato.ledger import Tab
from sfumato.plan.canonical import digest
from sfumato.publish.tab_steps import ReadOnce
from sfumato.release import releasing
from sfumato.release.payers import OnTab
from sfumato.release.proposal import ReleaseCall
from sfumato.release.releasing import ReleaseRequest, ReleaseStrategy

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


T = TypeVar("T")


@dataclass
class StepsOnTab:
    """This releases steps on a tab, one after the other; rows are read once."""

    here: Context
    series: str
    """What the steps are part of, for the hashes of their plans."""
    identity: str
    tab: Tab
    call: ReleaseCall

    def __post_init__(self) -> None:
        self.engine = ReadOnce(self.here.engine)
        self.progress = self.here.progress if self.call.progress is None else self.call.progress
        self._interrupts = Interrupts(self.progress)
        self._done = 0
        self.held_back = 0.0
        """The seconds for which whoever is told of phases has held steps back: no limit of time counts them."""

    def between(self) -> None:
        """End here, before the next step is charged, where a Ctrl-C was held back."""
        self._interrupts.between()

    def released(self, kind: ReleaseStrategy[T], question: str, seconds: float | None) -> T:
        """Charge one step and release it; a Ctrl-C meanwhile waits for its end. Whoever is told of phases is told of
        those of every step: they may hold it back (``release.releasing``).
        """
        here, self._done = self.here, self._done + 1
        # the plan is this tab's alone, so that no later step finds the answer of this one as its own
        plan = digest(self.series, self.tab.opening.hash, self.identity, self._done)
        with self._interrupts.held_back():
            return releasing.release(
                kind,
                ReleaseRequest(question, plan, here.engine.identity(), here.analyst),
                payer=OnTab(here.account, self.tab),
                engine=self.engine,
                seconds=seconds,
                progress=self._tell,
            ).value

    def _tell(self, phase: str) -> None:
        begun = time.monotonic()
        try:
            self.progress(phase)
        finally:
            self.held_back += time.monotonic() - begun
