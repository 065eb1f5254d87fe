"""The steps of a synthesis on a tab: what is held, and how steps are charged, interrupted and ended by a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sfumato.curator.tab_series import TabSeries
from sfumato.errors import Unanswered, Unsupported
from sfumato.ledger import Account, Charged
from sfumato.privacy import Cost, Curve
from sfumato.privacy.curve import ROUNDED_UP
from sfumato.privacy.numbers import units_rounded_up
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.candidates import Outcome, Step
from sfumato.publish.synthesis.released import SynthesisRound
from sfumato.publish.synthesis.state import StepGenerator
from sfumato.publish.tab_steps import MeasureStep
from sfumato.quick_dataclass import dataclass
from sfumato.release.releasing import ReleaseStrategy


def amount_to_hold(account: Account, curve: Curve, columns: int) -> Cost:
    """Return the amount to hold: slightly more than the leakage of all steps.

    The ledger rounds each step's charge up, by far more than a small step leaks, most at orders near 1. The guarantee
    rests on the exact sum of all steps, and the unspent rest is freed.
    """
    cost, order = account.cost(curve), account.budget.order
    if cost.renyi is None or order is None:
        return cost
    steps = 10 * (columns + 1)  # above the steps of any method
    rounded_up = steps * 2 * Fraction(ROUNDED_UP) / (order - 1)
    return replace(cost, renyi=cost.renyi + cost.renyi // 10**6 + units_rounded_up(rounded_up))


def run_steps(steps: StepGenerator, release: Callable[[Step], Outcome]) -> None:
    """Release every step that a method requests, and send it the outcome."""
    step = next(steps, None)
    while step is not None:
        outcome = release(step)
        try:
            step = steps.send(outcome)
        except StopIteration:
            return


class SynthesisProgress(Protocol):
    """What was measured so far, and its model."""

    @property
    def marginals(self) -> Sequence[MeasuredMarginal]: ...

    @property
    def rounds(self) -> Sequence[SynthesisRound]: ...

    @property
    def has_model(self) -> bool:
        """Whether what was measured is enough to return."""
        ...

    def finish(self) -> None: ...


def step_phase_text(state: SynthesisProgress, step: Step) -> str:
    """Return the progress message of a step: rounds, never scores."""
    if not state.marginals:
        return "counting rows"
    return f"round {len(state.rounds) + 1}: {'measuring' if isinstance(step, MeasureStep) else 'choosing'}"


@dataclass
class SynthesisStepRunner:
    """Runs the steps on a tab, one after the other."""

    tab_series: TabSeries
    question: str
    synthesis: SynthesisProgress

    def __post_init__(self) -> None:
        self.tab = self.tab_series.tab
        self.paid: list[Charged] = []
        limit = self.tab_series.call.time_limit(self.tab_series.context.seconds)
        self._deadline = None if limit is None else time.monotonic() + limit

    def charge_and_run(self, steps: StepGenerator) -> bool:
        """Run all steps; return whether all were run. After an early end, the model so far is used."""
        try:
            run_steps(steps, self._release_step)
            self.synthesis.finish()
        except KeyboardInterrupt:  # between steps, each complete: stopping reveals only what was released
            self.tab.stop()
            if not self.synthesis.has_model:
                raise
        except _TimeLimitReached:
            self._end_at_time_limit()
        except Unsupported:  # a step could not be checked in the remaining time, and was not charged
            if not self.paid:
                self.tab.stop()  # no row was read
                raise
            self._end_at_time_limit()
        except Unanswered:
            if self._remaining_seconds() is None or self._remaining_seconds() > 0 or not self.synthesis.has_model:  # type: ignore[operator]
                raise
        else:
            return True
        return False

    def _end_at_time_limit(self) -> None:
        """End at the time limit and free nothing: how long the steps took may depend on private rows, and so would what
        is freed. Without a model, that is all that is said.
        """
        self.tab.forfeit()
        if not self.synthesis.has_model:
            raise Unanswered(self.tab.opening.number) from None

    def _remaining_seconds(self) -> float | None:
        """Return the remaining time in seconds; delays by the progress callback do not count."""
        return None if self._deadline is None else self._deadline + self.tab_series.delayed_seconds - time.monotonic()

    def _release_step(self, step: Step) -> Outcome:
        remaining = self._remaining_seconds()
        self.tab_series.raise_if_pending()
        if remaining is not None and remaining <= 0 and self.paid:
            raise _TimeLimitReached
        phase = step_phase_text(self.synthesis, step)
        self.tab_series.progress(phase)
        seconds = None if remaining is None else max(remaining, 1e-3)
        strategy: ReleaseStrategy[Outcome] = step
        outcome = self.tab_series.release_step(strategy, f"{phase}, for {self.question}", seconds)
        self.paid += step.batch.mechanism_charges
        return outcome


class _TimeLimitReached(Exception):
    """The time limit was reached between two steps."""
