"""Typical questions are timed over the real rows for the owner, who decides when a server answers.

A server answers every release at one time, ``answer_after``, so that how long its rows take tells nothing
(``server.answer_clock``). What is measured here is what the server holds back: a release from its charge to the moment
its answer is written down. It runs over the real rows, from an account that is thrown away, and nobody sees the answer.
How long it takes depends on the rows, so it is PRIVATE; rounded up to a power of two it is the owner's to publish.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from sfumato.curator.context import Context
from sfumato.curator.described_tables import Suggestion
from sfumato.curator.describing import suggestions
from sfumato.curator.proposals.questions import Question
from sfumato.engine.opening import open_engine
from sfumato.engine.seam import Engine
from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.plan.catalog import Catalog
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy


@dataclass(frozen=True)
class ReadingTime:
    """This is how long a release of one question took here, from its charge on. PRIVATE."""

    question: str
    seconds: float


def answer_after(times: Iterable[ReadingTime]) -> int | None:
    """Propose after how many seconds a server should answer: the least power of two that holds them all, from 1 on;
    None where nothing was measured. PRIVATE until the owner decides to use it.
    """
    longest = max((each.seconds for each in times), default=None)
    return None if longest is None else max(1, 2 ** math.ceil(math.log2(max(longest, 2**-20))))


def reading_times(policy: Policy) -> tuple[ReadingTime, ...]:
    """Measure typical questions of every private table over the rows as they are. PRIVATE.

    They are read with as many threads as a server uses, which leaves one processor to those who ask what is free.
    """
    engine = open_engine(policy, threads=max(1, (os.cpu_count() or 1) - 1))
    try:
        catalog = engine.catalog()
        asked = [each for table in catalog.tables.values() if not table.public for each in suggestions(policy, table)]
        found = (_measured(policy, engine, catalog, each) for each in asked)
        return tuple(each for each in found if each is not None)
    finally:
        engine.close()


def _measured(policy: Policy, engine: Engine, catalog: Catalog, asked: Suggestion) -> ReadingTime | None:
    """Release one question and forget its answer; None for what this policy does not allow."""
    watch = _Stopwatch()
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "scratch") as ledger:
        budget = policy.account_budget
        account = ledger.account(policy.account_name, unit=policy.unit, budget=budget, per=policy.per or "")
        here = Context(policy, engine, account, watch, "measured", rehearsed=True)
        try:
            query = parse(asked.sql, catalog)
            half = min(Fraction(1), budget.epsilon / 2)
            Question(here, asked.sql, query, query.plan.limits).release(epsilon=half, delta=asked.delta)
        except SfumatoError:
            return None
    return None if watch.seconds is None else ReadingTime(asked.sql, watch.seconds)


@dataclass
class _Stopwatch:
    """This is told the phases of a release, and keeps how long it took between those that a server's clock looks at."""

    seconds: float | None = None
    _begun: float = field(default=0.0, init=False)

    def __call__(self, phase: str) -> None:
        if phase == "charging":
            self._begun = time.perf_counter()
        elif phase == "writing down":
            self.seconds = time.perf_counter() - self._begun
