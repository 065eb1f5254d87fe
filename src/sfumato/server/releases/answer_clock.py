"""A release is answered when the clock says so, and not when its rows have been read.

How long reading takes may tell of rows: of two tables that differ in one unit with 150,000 rows, an observer tells
which was read in 71 of 100 pairs. So what is charged at s is written down, and with that answered, at s + a, where a is
public: it is ``answer_after`` seconds, doubled for every class of static cost, which the question and the policy
decide. If reading takes longer, it is written down at s + 2a, s + 4a, …: what is seen is one whole number, and a larger
``answer_after`` makes it always 0. How often it was not 0 is told to the owner alone.

*Claim.* Everything that others can see of a release beside its answer has a time that rows do not decide, but for that
whole number: the answer, the number and the time of its line in the ledger, when the same question is found to be
stored, when who waits for an equal one is answered, and whose turn is next. All of it happens after the line is
written, which is when the clock says; before the charge no row is read; and what is done between the steps of a series
is computed from noisy numbers. A session forgets its rows at its end, which takes the longer the more there are: that
has a time of its own. ∎

What reads no rows goes at once: refusals before the charge, and answers that were stored before. Data and policies that
have changed are opened again, which reads rows before any charge, under the same clock (``clocked_openings``).

What the claim leaves out is the processor: while rows are read there is less of it for others (``turns`` and
``reply_ticks`` say what is done about that).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.curator import release_kinds
from sfumato.plan.nodes import Join, PerUnit, SemiJoin, UnitJoin, Unnest, Window, relations

_MOST_DOUBLINGS = 10
_COSTLY = (Join, UnitJoin, SemiJoin, PerUnit, Window, Unnest)
_BEGIN, _END = ("charging", "closing"), ("writing down", "stopping", "closed")
"""The phases between which rows are read (``release.releasing``), or forgotten (``curator.sessions``)."""


@dataclass(frozen=True)
class AnswerClock:
    """A clock says when releases are answered."""

    answer_after: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait(self, started: float, doublings: int) -> int:
        """Wait until what started then may be seen: never before that moment.

        Gives how often the time was doubled beyond what the question's own cost says.
        """
        took = self.now() - started
        first = self.answer_after * 2.0**doublings
        late = 0 if took <= first else math.ceil(math.log2(took / first))
        while first * 2.0**late < took:  # a logarithm may be rounded down
            late += 1
        while (left := started + first * 2.0**late - self.now()) > 0:
            self.sleep(left)
        return late


class ClockedPhases:
    """This is told the phases of one release, or of each step of a series, and holds it back until it may be seen."""

    def __init__(self, clock: AnswerClock, doublings: int, told: Callable[[str], None]) -> None:
        self._clock = clock
        self._doublings = doublings
        self._told = told
        self._started: float | None = None
        self.late = 0
        """How many readings took longer than the clock allowed."""

    def __call__(self, phase: str) -> None:
        self._told(phase)
        if phase in _BEGIN:
            self._started = self._clock.now()
        elif phase in _END and self._started is not None:
            self.late += self._clock.wait(self._started, self._doublings) > 0
            self._started = None


def doublings(kind: str, proposal: Any) -> int:
    """Find the class of a proposal's static cost: a doubling for its kind, for each join, grouping within units, window
    or list of its plan, and for twice as many questions. Neither rows nor answers have a part in it.
    """
    known = release_kinds.all_kinds().get(kind)
    found = 0 if known is None else known.cost_class
    query = getattr(proposal, "query", None)
    if query is not None:
        found += sum(isinstance(node, _COSTLY) for node in relations(query.plan.source))
    several = getattr(proposal, "questions", None)
    if isinstance(several, (list, tuple, dict)):
        found += max(0, len(several) - 1).bit_length()
    return min(found, _MOST_DOUBLINGS)
