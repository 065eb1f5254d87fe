"""Requests: a price, or an accuracy that determines it; and series of steps under one request id.

A question is one charge with one answer, and the ledger finds the answer by its request id. A series of steps opens a
tab; its result is stored under the request id when the series has ended, and a repeated request gets that result. A
series that died or was stopped earlier stays ``Unanswered`` under its id for ever, and opens no second tab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sfumato.errors import AnswerPending, InvalidParameter, LedgerUnavailable, RequestDiffers
from sfumato.ledger import Entry, StoredAnswer, Tab
from sfumato.plan.canonical import PlanKey
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.values.expressions import Expression, Result, WindowResult, columns
from sfumato.privacy import Cost, Curve
from sfumato.privacy.numbers import (
    ACCEPT_DEFAULT,
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    NONNEGATIVE,
    POSITIVE,
    Number,
    exact,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt
from sfumato.release.parts.shares import Family, NamedNoise, noise_family
from sfumato.release.prices import GIVE_ONE_PRICE, ONLY_ONE_PRICE, Price
from sfumato.release.proposal import ReleaseCall, ReleaseContext, remaining_budget_text

Within = Mapping[str, Number] | Number
"""Half-widths by column, or one for every column of numbers."""
Weights = Mapping[str, Number]
"""By column, the weight of its error when the price is split; 1 by default."""
_EVEN_WEIGHT = Fraction(1)


@dataclass(frozen=True)
class PriceRequest:
    """A price in ε, (ε, δ) or ρ; or an accuracy, for which the least price that reaches it is paid."""

    epsilon: Number | None = None
    delta: Number = 0
    rho: Number | None = None
    within: Within | None = None
    confidence: Number = DEFAULT_CONFIDENCE
    mechanism: NamedNoise | None = None
    weights: Weights | None = None
    range: str | None = None
    """"value" buys an interval of values around every quantile, at this confidence."""
    joint: bool = False
    """Whether intervals hold for all numbers at once."""
    sample: Number | None = None
    """The share of the units to read, as a secret random sample; None to read all."""

    def __post_init__(self) -> None:
        exact(self.confidence, "confidence", CONFIDENCE)
        noise_family(self.mechanism)
        if self.range not in (None, "value"):
            raise InvalidParameter(
                "range",
                self.range,
                'left out, or "value" to buy intervals of values around quantiles',
                fix='leave out "range", or write range="value"',
            )
        if self.within is not None and (self.epsilon is not None or self.rho is not None):
            raise InvalidParameter("within", self.within, ONLY_ONE_PRICE, fix=GIVE_ONE_PRICE)
        if self.within is not None and self.sample is not None:
            rule = "left out with sample: the sampling error depends on the size of each group"
            raise InvalidParameter(
                "within", self.within, rule, fix="give epsilon (--epsilon) instead, and look at error() first"
            )
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise InvalidParameter("weights", self.weights, 'a mapping from columns to numbers, such as {"visits": 2}')

    def result_weights(self, finish: Finish, result_count: int) -> tuple[Fraction, ...]:
        """Return the weight of each result: that of the heaviest column computed from it."""
        column_weights = self.weights
        if not column_weights:
            return (_EVEN_WEIGHT,) * result_count
        results_by_column = {output.name: _result_indices(output.expression, finish) for output in finish.outputs}
        noisy_columns = [name for name, indices in results_by_column.items() if indices]
        for name in column_weights:
            if name not in noisy_columns:
                choices = ", ".join(noisy_columns)
                rule = f"a mapping whose keys are columns of noisy numbers ({choices})"
                raise InvalidParameter("weights", name, rule, fix=f"give a weight to one of these: {choices}")
        weights = {name: exact(weight, f"weights for {name!r}", POSITIVE) for name, weight in column_weights.items()}
        return tuple(
            max([weights[name] for name in weights if index in results_by_column[name]], default=_EVEN_WEIGHT)
            for index in range(result_count)
        )

    @property
    def is_stated(self) -> bool:
        """Whether the request states a price or an accuracy."""
        return not (self.epsilon is None and self.rho is None and self.within is None)

    def with_assumed_price(self) -> PriceRequest:
        """Return the request with ε = 1 if it states no price."""
        return self if self.is_stated else replace(self, epsilon=1)

    def with_default_delta(self, delta: Fraction) -> PriceRequest:
        """Return the request with this δ if it states none or accepts the default; a price in ρ has no δ."""
        is_stated = self.rho is not None or self.has_or_accepts_delta
        return self.accept_delta(delta) if is_stated or not delta else replace(self, delta=delta)

    def accept_delta(self, offered: Fraction) -> PriceRequest:
        """Return the request with the offered δ where it accepts the default; a release spends no other offer."""
        return replace(self, delta=offered) if self.delta == ACCEPT_DEFAULT else self

    @property
    def has_or_accepts_delta(self) -> bool:
        """Whether a δ was given, as a number or by accepting the default."""
        return self.delta == ACCEPT_DEFAULT or bool(exact(self.delta, "delta", NONNEGATIVE))

    @property
    def family(self) -> Family | None:
        return noise_family(self.mechanism)

    def interval_confidence(self, together: int) -> Fraction | None:
        """Return the confidence of each of so many bought intervals around quantiles; None where none are bought."""
        return None if self.range is None else 1 - (1 - exact(self.confidence, "confidence")) / together

    @property
    def price(self) -> Price:
        return Price(self.epsilon, self.delta, self.rho)


class WrittenSeries(Protocol):
    """The result of a series, which can be stored."""

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class RequestedSeries:
    """One series of steps: its question and its call options."""

    context: ReleaseContext
    question: str
    plan: PlanKey
    """The key of the question, which detects a request id that was used for another one."""
    call: ReleaseCall

    def find_stored(self) -> StoredAnswer | None:
        """Return the stored result of the same request id."""
        if self.call.request_id is None:
            return None
        return self.context.account.requested(
            self.call.request_id,
            analyst=self.context.analyst,
            question=self.question,
            plan=self.plan.current,
            former_plan=self.plan.former,
        )

    def open(self, hold: Entry | Cost, *, whole: bool = False, seconds: float | None = None) -> Tab | StoredAnswer:
        """Open the tab, or return the stored result of the same request; one under way is waited for."""
        here, call = self.context, self.call
        if call.request_id is None:
            return here.account.open_tab(hold, whole=whole, analyst=here.analyst, question=self.question)
        no_loss = Curve((), here.policy.neighbours)
        entry = Entry(no_loss, self.question, self.plan.current, "", here.analyst, call.request_id)
        progress = here.progress if call.progress is None else call.progress
        limit = call.time_limit(here.seconds) if seconds is None else seconds
        waiting: Callable[[], None] = lambda: progress("waiting for the answer to the same question")  # noqa: E731
        former = self.plan.former
        return here.account.ask_tab(hold, entry, whole=whole, seconds=limit, waiting=waiting, former_plan=former)

    def open_once(self, hold: Entry | Cost) -> Tab:
        """Open the tab of a session that stays open; a request id opens one session, and never a second."""
        try:
            opened = self.open(hold, seconds=0)
        except AnswerPending:
            raise second_session_refusal() from None
        if isinstance(opened, StoredAnswer):
            raise second_session_refusal()
        return opened

    def finish(self, tab: Tab, result: WrittenSeries) -> None:
        """Store the result of the series; where that fails, the caller still gets it this once."""
        if self.call.request_id is not None:
            with suppress(LedgerUnavailable, InvalidParameter):
                self.context.account.finish(tab, result.to_json())


def repeated_receipt(receipt: Receipt, context: ReleaseContext) -> Receipt:
    """Return the receipt of a stored result, with the budget that remains now."""
    return replace(receipt, free=True, remaining=remaining_budget_text(context.account.statement(context.analyst)))


def require_same_ranges(receipts: Sequence[Receipt], confidence: Number, *, joint: bool = False) -> None:
    """Refuse a stored result whose ranges were built for another confidence, or hold jointly where each is asked for.

    A series is stored as it was shown, without the measurements from which other ranges could be built.
    """
    level = exact(confidence, "confidence", CONFIDENCE)
    for receipt in receipts:
        if exact(receipt.confidence, "confidence") != level:
            rule = f"{receipt.confidence}, as in the answer that this request_id bought"
            raise InvalidParameter("confidence", confidence, rule, fix=f"ask with confidence={receipt.confidence}")
    stored_joint = any(receipt.joint for receipt in receipts)
    if stored_joint is not joint:
        rule = f"{stored_joint}, as in the answer that this request_id bought"
        raise InvalidParameter("joint", joint, rule, fix=f"ask with joint={stored_joint}")


def second_session_refusal() -> RequestDiffers:
    """Return the refusal to open a session again: its secret state is in the process that opened it."""
    return RequestDiffers(
        "this request id has already opened a session, and only the process that opened it can ask it questions",
        place="request_id",
        fix="ask in that session, or give a new request id: that opens a new session with its own charge",
    )


def _result_indices(expression: Expression, finish: Finish) -> set[int]:
    """Return the indices of the results that an expression reads, directly or through a window."""
    references = columns(expression)
    arguments = [finish.windows[window.index].argument for window in references if isinstance(window, WindowResult)]
    window_results = (_result_indices(argument, finish) for argument in arguments if argument is not None)
    return {reference.index for reference in references if isinstance(reference, Result)}.union(*window_results)
