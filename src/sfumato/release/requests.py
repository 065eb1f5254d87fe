"""A request is what a caller asks of a release: a price, or an accuracy that decides it.

A series of steps may be asked for under a request id, as a question may: it is then charged once.

A question is one charge with one answer, and the ledger finds the answer by its request. A series opens a tab, and what
its steps come to is written down whole, under the request, when the series has ended. Whoever asks again gets that; a
series that died or was stopped before that is ``Unanswered`` under its id, for ever, and opens no second tab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from sfumato.errors import AnswerPending, InvalidParameter, LedgerUnavailable, RequestDiffers
from sfumato.ledger import Entry, StoredAnswer, Tab
from sfumato.privacy import Cost, Curve
from sfumato.privacy.numbers import CONFIDENCE, Number, exact
from sfumato.release.answers.receipts import Receipt
from sfumato.release.parts.question_parts import Family, NamedNoise, noise_family
from sfumato.release.prices import Price
from sfumato.release.proposal import ReleaseCall, Surroundings, remaining

Within = Mapping[str, Number] | Number
"""Half-widths by column, or one for every column of numbers."""
Weights = Mapping[str, Number]
"""By column, how much its error counts when the price is split; 1 where nothing is said."""


@dataclass(frozen=True)
class Request:
    """A price is named by ε, (ε, δ) or ρ; or an accuracy is, and the least price that reaches it is paid."""

    epsilon: Number | None = None
    delta: Number = 0
    rho: Number | None = None
    within: Within | None = None
    confidence: Number = "0.95"
    mechanism: NamedNoise | None = None
    weights: Weights | None = None
    range: str | None = None
    """"value" buys, beside every quantile, two numbers between which it lies with this confidence,"""
    joint: bool = False
    """for all of them at once."""

    def __post_init__(self) -> None:
        exact(self.confidence, "confidence", CONFIDENCE)
        noise_family(self.mechanism)
        if self.range not in (None, "value"):
            raise InvalidParameter("range", self.range, 'left out, or "value" for ranges of the values of quantiles')
        if self.within is not None and (self.epsilon is not None or self.rho is not None):
            raise InvalidParameter("within", self.within, "given instead of epsilon or rho")
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise InvalidParameter("weights", self.weights, 'numbers by column, such as {"visits": 2}')

    @property
    def named(self) -> bool:
        """Tell whether the request names a price or an accuracy at all."""
        return not (self.epsilon is None and self.rho is None and self.within is None)

    @property
    def family(self) -> Family | None:
        """Give the family of noise that is named, if any."""
        return noise_family(self.mechanism)

    def around(self, together: int) -> Fraction | None:
        """Give the confidence with which each of so many ranges around quantiles is bought; None where none are."""
        return None if self.range is None else 1 - (1 - exact(self.confidence, "confidence")) / together

    @property
    def price(self) -> Price:
        """Give the price that is named."""
        return Price(self.epsilon, self.delta, self.rho)


class WrittenSeries(Protocol):
    """This is what a series comes to, which can be written down."""

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class RequestedSeries:
    """This is one series of steps: what is asked, and how it is called for."""

    here: Surroundings
    question: str
    plan: str
    """Hash of all that is asked, by which a request id that was used for something else is told."""
    call: ReleaseCall

    def known(self) -> StoredAnswer | None:
        """Find what the same request came to."""
        if self.call.request_id is None:
            return None
        return self.here.account.requested(
            self.call.request_id, analyst=self.here.analyst, question=self.question, plan=self.plan
        )

    def open(self, hold: Entry | Cost, *, whole: bool = False, seconds: float | None = None) -> Tab | StoredAnswer:
        """Open the tab, or find what the same request came to in the meantime; one under way is waited for."""
        here, call = self.here, self.call
        if call.request_id is None:
            return here.account.open_tab(hold, whole=whole, analyst=here.analyst, question=self.question)
        nothing = Curve((), here.policy.neighbours)
        asked = Entry(nothing, self.question, self.plan, "", here.analyst, call.request_id)
        progress = here.progress if call.progress is None else call.progress
        limit = call.limit(here.seconds) if seconds is None else seconds
        waiting: Callable[[], None] = lambda: progress("waiting for an equal question")  # noqa: E731
        return here.account.ask_tab(hold, asked, whole=whole, seconds=limit, waiting=waiting)

    def open_once(self, hold: Entry | Cost) -> Tab:
        """Open the tab of a session that stays open: a request id opens one, and nobody can be given it again."""
        try:
            found = self.open(hold, seconds=0)
        except AnswerPending:
            raise one_session() from None
        if isinstance(found, StoredAnswer):
            raise one_session()
        return found

    def finish(self, tab: Tab, made: WrittenSeries) -> None:
        """Write down what the series came to. Where that cannot be done it is given all the same, this once."""
        if self.call.request_id is not None:
            with suppress(LedgerUnavailable, InvalidParameter):
                self.here.account.finish(tab, made.to_json())


def given_again(receipt: Receipt, here: Surroundings) -> Receipt:
    """Give the receipt of what was bought before, with what is left now."""
    return replace(receipt, free=True, remaining=remaining(here.account.statement(here.analyst)))


def one_session() -> RequestDiffers:
    """Refuse to open a session again: what it keeps secret is with the process that opened it."""
    return RequestDiffers(
        "a request id opens one session, which only the process that opened it can ask; this id has opened one",
        place="request_id",
        fix="ask in that session, or give a new id: that is a new session with its own charge",
    )
