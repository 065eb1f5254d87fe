"""Releases in several steps on one tab: the whole price is held, each step is charged before it reads.

A series of steps paid from one tab: each is a complete release, charged before it reads.

A Ctrl-C during a step waits for its end: what was paid for is answered and stored, and the unspent rest of the hold is
freed. A second Ctrl-C does not wait: the step is aborted and the whole hold is spent. The step was charged either way,
so pressing it reveals nothing beyond what was released.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Any, Generic, TypeVar

from sfumato.curator.context import Context
from sfumato.ledger import StoredAnswer, Tab
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.privacy import Cost, Curve, codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, format_exact
from sfumato.publish.tab_steps import CachingReader
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.answer import Answer
from sfumato.release.payers import TabPayer
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, check_dry_run, warn_of_weak_price
from sfumato.release.releasing import ReleaseRequest, ReleaseStrategy, StoredResult
from sfumato.release.requests import RequestedSeries, repeated_receipt, require_same_ranges

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


A = TypeVar("A", bound=Answer)
S = TypeVar("S")
_LEAST_SECONDS = 1e-3
"""The time limit of a step for which no time is left: it was fixed beforehand, so it is charged, and then fails."""


@dataclass(frozen=True)
class SteppedRelease(Generic[A]):
    """A release whose steps are fixed beforehand: what it is stored as, and what its steps are called."""

    context: Context
    question: str
    plan_key: PlanKey
    series: str
    """The name of the series, part of the hashes of its steps."""
    answer_class: type[A]
    rebuild: Callable[[A, Sequence[Any]], A]
    """Builds a stored answer anew, with the ranges that its receipt states, from the released values of all steps."""
    joint: bool = False
    """Whether ranges hold for all numbers at once."""

    def open_tab_and_run(
        self,
        price: Price,
        curves: Sequence[Curve],
        first: ReleaseStrategy[S],
        later_readings: Sequence[PlanReading[Any]],
        dry_answer: Callable[[StoredResult[S]], A],
        run_steps: Callable[[OpenTabRunner], A],
        call: ReleaseCall,
        confidence: Number,
    ) -> A:
        """Hold the price, run all steps on a tab, and store the answer; the same ``request_id`` returns it, free.

        ``later_readings`` are those of all steps but the first, at values that earlier steps may release. They are
        bound before the hold, so that no step is refused after another was charged, and that approval rules and shares
        are compared with the tables and measures of every step.
        """
        context, series = self.context, RequestedSeries(self.context, self.question, self.plan_key, call)
        check_dry_run(first, dry_answer)
        warn_of_weak_price(price, context)
        context.engine.check(*first.readings, *later_readings).close()
        with context.running_work.running():
            tab_or_stored = series.open(_amount_to_hold(context, curves))
            if isinstance(tab_or_stored, StoredAnswer):
                return self._restore(tab_or_stored, confidence)
            with tab_or_stored as tab:
                limit = call.time_limit(context.seconds)
                deadline = None if limit is None else time.monotonic() + limit
                tab_series = TabSeries(context, self.series, self.plan_key.current, tab, call)
                answer = run_steps(OpenTabRunner(tab_series, self.question, deadline))
                series.finish(tab, answer)
        return answer

    def find_stored(self, call: ReleaseCall, confidence: Number) -> A | None:
        """Return what the same request bought."""
        stored_answer = RequestedSeries(self.context, self.question, self.plan_key, call).find_stored()
        return None if stored_answer is None else self._restore(stored_answer, confidence)

    def _restore(self, stored_answer: StoredAnswer, confidence: Number) -> A:
        """Return a stored answer; at another confidence than it was shown at, from the stored values of its steps."""
        answer = codec.loads_as(self.answer_class, stored_answer.body)
        level = format_exact(exact(confidence, "confidence", CONFIDENCE))
        is_as_shown = (level, self.joint) == (answer.receipt.confidence, answer.receipt.joint)
        values = [] if is_as_shown else self._released_step_values(answer.receipt.hash)
        if values:
            receipt = replace(answer.receipt, confidence=level, joint=self.joint)
            answer = self.rebuild(replace(answer, receipt=receipt), values)
        require_same_ranges([answer.receipt], confidence, joint=self.joint)
        return replace(answer, receipt=repeated_receipt(answer.receipt, self.context))

    def _released_step_values(self, opening_hash: str) -> list[Any]:
        """Return what every step of a tab released, in order; none where the data are others by now."""
        data, identities = self.context.engine.identity(), filter(None, (self.plan_key.current, self.plan_key.former))
        return next(
            filter(None, (self._released_step_values_of(opening_hash, identity, data) for identity in identities)), []
        )

    def _released_step_values_of(self, opening_hash: str, identity: str, data: str) -> list[Any]:
        values: list[Any] = []
        while (
            step := self.context.account.stored(
                plan=step_plan_hash(self.series, opening_hash, identity, len(values) + 1), data=data
            )
        ) is not None:
            values.append(codec.loads(step.body, longest=len(step.body)))
        return values


@dataclass(frozen=True)
class OpenTabRunner:
    """Charges and releases the steps of one release while its tab is open."""

    tab_series: TabSeries
    question: str
    deadline: float | None
    """When all steps must have ended, by the monotonic clock; None without a limit."""

    def with_opening_line(self, value: S) -> StoredResult[S]:
        """Return a released value with the line that opened the tab, which the receipt of all its steps names."""
        line = self.tab_series.tab.opening
        return StoredResult(value, line.number, line.time, line.hash, free=False)

    def charge_and_release(self, step: ReleaseStrategy[S], name: str) -> S:
        """Charge one step and release it; a Ctrl-C between two steps frees the unspent rest."""
        try:
            self.tab_series.raise_if_pending()
        except KeyboardInterrupt:  # between two steps, each complete: stopping reveals only what was released
            self.tab_series.tab.stop()
            raise
        return self.tab_series.release_step(step, f"{name} for {self.question}", self._remaining_seconds)

    @property
    def _remaining_seconds(self) -> float | None:
        """The time that is left for the next step, without what the progress callback took."""
        if self.deadline is None:
            return None
        return max(_LEAST_SECONDS, self.deadline + self.tab_series.delayed_seconds - time.monotonic())


def _amount_to_hold(context: Context, curves: Sequence[Curve]) -> Cost:
    """Return the cost of all steps, added up as they are charged, so that nothing is left over after the last."""
    first, *others = map(context.account.cost, curves)
    for cost in others:
        first = first + cost
    return first
