"""A series of steps is paid from one tab: each is a complete release, charged before it reads."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TypeVar

from sfumato.curator.context import Context
from sfumato.curator.steps.interrupts import Interrupts
from sfumato.ledger import Tab
from sfumato.plan.canonical import digest
from sfumato.publish.tab_steps import ReadOnce
from sfumato.release import releasing
from sfumato.release.payers import OnTab
from sfumato.release.proposal import Call
from sfumato.release.releasing import Asked, Kind

T = TypeVar("T")


@dataclass
class StepsOnTab:
    """This releases steps on a tab, one after the other; rows are read once."""

    here: Context
    series: str
    """What the steps are part of, for the hashes of their plans."""
    identity: str
    tab: Tab
    call: Call

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

    def released(self, kind: Kind[T], question: str, seconds: float | None) -> T:
        """Charge one step and release it; a Ctrl-C meanwhile waits for its end. Whoever is told of phases is told of
        those of every step: they may hold it back (``release.releasing``).
        """
        here, self._done = self.here, self._done + 1
        # the plan is this tab's alone, so that no later step finds the answer of this one as its own
        plan = digest(self.series, self.tab.opening.hash, self.identity, self._done)
        with self._interrupts.held_back():
            return releasing.release(
                kind,
                Asked(question, plan, here.engine.identity(), here.analyst),
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
