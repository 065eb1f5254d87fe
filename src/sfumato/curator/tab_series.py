"""A series of steps paid from one tab: each is a complete release, charged before it reads.

A Ctrl-C during a step waits for its end: what was paid for is answered and stored, and the unspent rest of the hold is
freed. A second Ctrl-C does not wait: the step is aborted and the whole hold is spent. The step was charged either way,
so pressing it reveals nothing beyond what was released.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

from sfumato.curator.context import Context
from sfumato.ledger import Tab
from sfumato.plan.canonical import digest
from sfumato.publish.tab_steps import CachingReader
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.payers import TabPayer
from sfumato.release.proposal import ReleaseCall
from sfumato.release.releasing import ReleaseRequest, ReleaseStrategy

STOPPING_MESSAGE = "stopping after this step; Ctrl-C again stops at once, and the whole reserved price is then spent"


@dataclass
class DeferredInterrupt:
    """The deferred Ctrl-C of one series of steps."""

    progress: Callable[[str], None]
    pending: bool = False
    """Whether a Ctrl-C was deferred."""

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Defer the first Ctrl-C while a step runs.

        Python delivers signals to the main thread only, and a handler other than Python's own is left in place.
        """
        is_main_thread = threading.current_thread() is threading.main_thread()
        if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._defer)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _defer(self, _number: int, _frame: FrameType | None) -> None:
        self.pending = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(Exception):  # a failing progress callback must not abort the step
            self.progress(STOPPING_MESSAGE)

    def raise_if_pending(self) -> None:
        """Raise KeyboardInterrupt before the next charge if a Ctrl-C was deferred."""
        if self.pending:
            raise KeyboardInterrupt


T = TypeVar("T")


def step_plan_hash(series: str, opening: str, identity: str, number: int) -> str:
    """Return the plan hash of a step: unique to the tab that this line opened, so no later step reuses its answer."""
    return digest(series, opening, identity, number)


@dataclass
class TabSeries:
    """Releases steps on a tab, one after the other; rows are read once."""

    context: Context
    series: str
    """The name of the series, part of the hashes of its plans."""
    identity: str
    tab: Tab
    call: ReleaseCall

    def __post_init__(self) -> None:
        self.engine = CachingReader(self.context.engine)
        self.progress = self.context.progress if self.call.progress is None else self.call.progress
        self._interrupts = DeferredInterrupt(self.progress)
        self._step_count = 0
        self.delayed_seconds = 0.0
        """The seconds that the progress callback delayed the steps; time limits do not count them."""

    def raise_if_pending(self) -> None:
        """Raise KeyboardInterrupt before the next charge if a Ctrl-C was deferred."""
        self._interrupts.raise_if_pending()

    def release_step(self, strategy: ReleaseStrategy[T], question: str, seconds: float | None) -> T:
        """Charge one step and release it, deferring Ctrl-C until it ends.

        The progress callback sees the phases of every step and may delay them (``release.releasing``).
        """
        context, self._step_count = self.context, self._step_count + 1
        plan = step_plan_hash(self.series, self.tab.opening.hash, self.identity, self._step_count)
        with self._interrupts.deferring():
            return releasing.release(
                strategy,
                ReleaseRequest(question, plan, context.engine.identity(), context.analyst),
                payer=TabPayer(context.account, self.tab),
                engine=self.engine,
                seconds=seconds,
                progress=self._report_phase,
            ).value

    def _report_phase(self, phase: str) -> None:
        started = time.monotonic()
        try:
            self.progress(phase)
        finally:
            self.delayed_seconds += time.monotonic() - started
