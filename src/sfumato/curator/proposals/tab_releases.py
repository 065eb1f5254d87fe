"""Releases in several steps on one tab: the whole price is held, each step is charged before it reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from sfumato.curator.context import Context
from sfumato.curator.tab_series import TabSeries, step_plan_hash
from sfumato.ledger import StoredAnswer
from sfumato.plan.canonical import PlanKey
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.privacy import Cost, Curve, codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, check_dry_run, warn_of_weak_price
from sfumato.release.releasing import ReleaseStrategy, StoredResult
from sfumato.release.requests import RequestedSeries, repeated_receipt, require_same_ranges

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
