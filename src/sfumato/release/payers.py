"""Payers of releases: an account, or a tab that reserves a part of its budget.

Both have one interface: a release is charged when it begins, unless a stored answer is found; it ends with an answer,
or with a notice that none will come.

A ``PurchaseTerms`` holds the terms of a stored answer, so that it can be shown with a receipt years later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from sfumato.errors import InvalidParameter
from sfumato.ledger import Account, Entry, Line, StoredAnswer, Tab
from sfumato.ledger.accounts.account import AccountStatement, AnswerLookup
from sfumato.ledger.accounts.reservations import SettledAnswer
from sfumato.plan import descriptions
from sfumato.privacy import Curve, codec
from sfumato.privacy.numbers import Number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price, weak_price_warnings

if TYPE_CHECKING:
    from sfumato.plan.bounding import BoundedPlan


class Payment(Protocol):
    """One release on its way through the ledger."""

    @property
    def line(self) -> Line:
        """The line of the charge, once ``begin`` has returned None."""
        ...

    def begin(self, seconds: float | None = None, waiting: Callable[[], None] = ...) -> StoredAnswer | None:
        """Return the stored answer, or None once the release has been charged durably."""
        ...

    def is_charged(self) -> bool:
        """Return whether it was charged, whatever was interrupted."""
        ...

    def stop(self) -> None:
        """Record that no answer will come."""
        ...


class Payer(Protocol):
    """What a release is charged to, and where its answer is stored."""

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Payment: ...

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line: ...


class AccountPayer:
    """An account as a payer, for a query whose answer was looked up in vain."""

    def __init__(self, account: Account, lookup: AnswerLookup | None, former_plan: str = "") -> None:
        self._account = account
        self._searched = None if lookup is None else lookup.last_line
        self._former_plan = former_plan
        self.statement: AccountStatement | None = None
        """The state of the account after the answer, once it is stored: what its receipt shows."""

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Payment:
        searched, former_plan = self._searched, self._former_plan
        return self._account.ask(entry, accuracy, fresh=fresh, searched=searched, former_plan=former_plan)

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        recorded = self._account.record_answer(line, body, accuracy)
        self.statement = recorded.statement
        return recorded.line


@dataclass(frozen=True)
class TabPayer:
    """A tab as a payer: each release is a step, charged to the reserved budget.

    No stored answers are looked up and no equal question is waited for: each step of a series is new.
    """

    account: Account
    tab: Tab

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Payment:  # noqa: ARG002
        return _TabStep(self.tab, entry)

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        return self.account.answer(line, body, accuracy)


class _TabStep:
    """One step of a tab, charged when it begins."""

    def __init__(self, tab: Tab, entry: Entry) -> None:
        self._tab = tab
        self._entry = entry
        self._paid: Line | None = None

    @property
    def line(self) -> Line:
        if self._paid is None:
            raise RuntimeError("this release has no line: it is not charged yet")
        return self._paid

    def begin(self, seconds: float | None = None, waiting: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        self._paid = self._tab.step(self._entry)

    def is_charged(self) -> bool:
        return self._paid is not None

    def stop(self) -> None:
        """End the whole series without a refund: why a step failed may depend on private rows."""
        self._tab.forfeit()


@dataclass(frozen=True)
class PrepaidTabPayer:
    """A tab whose mechanism was charged in full when it was opened: its answers cost nothing more, and any other step
    is refused.

    A stopped step leaves the tab open, since no reserved budget could be refunded.
    """

    account: Account
    tab: Tab

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Payment:  # noqa: ARG002
        if entry.columns["parts"] != self.tab.opening.parts:
            rule = "equal to those that the series was opened with"
            raise InvalidParameter("parts", entry.parts, rule, fix="pass the same parts, or open a new series")
        no_loss = Curve((), entry.curve.neighbours)
        return _PrepaidTabStep(self.tab, replace(entry, parts=(no_loss,)))

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        return self.account.answer(line, body, accuracy)


class _PrepaidTabStep(_TabStep):
    """One answer of a mechanism that was charged when its tab was opened."""

    def stop(self) -> None:
        """Leave the tab open: the mechanism's session decides whether it can continue."""


@dataclass(frozen=True)
class BatchQuestion:
    """The ledger entry of one of several questions that are charged together."""

    text: str
    plan: str
    accuracy: Mapping[str, Number]


class BatchPayer:
    """A payer for several questions: all are charged at once, and each answer is stored under its own question, so that
    asking it alone later finds it.
    """

    def __init__(
        self,
        opening: Callable[[Entry], Tab | StoredAnswer],
        questions: Sequence[BatchQuestion],
        bodies: Callable[[str], Sequence[str]],
        *,
        more: bool = False,
    ) -> None:
        self._opening = opening
        """Opens the tab that is charged in full, or returns the stored answer of the same request."""
        self._questions = questions
        self._bodies = bodies
        """Splits the stored text of all answers into one for each question."""
        self._more = more
        """Whether the tab stays open for a result that is computed from all answers."""
        self.tab: Tab | None = None
        self._entry: Entry | None = None
        self.stored_answer: StoredAnswer | None = None
        self.lines: tuple[Line, ...] = ()
        """The lines of the answers, in the order of the questions."""

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Payment:  # noqa: ARG002
        self._entry = entry
        return self

    @property
    def line(self) -> Line:
        if self.tab is None:
            raise RuntimeError("this release has no line: it is not charged yet")
        return self.tab.opening

    def begin(
        self,
        seconds: float | None = None,  # noqa: ARG002
        waiting: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> StoredAnswer | None:
        assert self._entry is not None
        opened = self._opening(replace(self._entry, plan="", data=""))
        if isinstance(opened, Tab):
            self.tab = opened
        else:
            self.stored_answer = opened
        return self.stored_answer

    def is_charged(self) -> bool:
        return self.tab is not None

    def stop(self) -> None:
        """End the series without a refund: why it failed may depend on private rows."""
        if self.tab is not None:
            self.tab.forfeit()

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:  # noqa: ARG002
        assert self.tab is not None
        assert self._entry is not None
        no_loss, data = Curve((), self._entry.curve.neighbours), self._entry.data
        self.lines = self.tab.settle(
            [
                SettledAnswer(Entry(no_loss, question.text, question.plan, data), answer_body, question.accuracy)
                for question, answer_body in zip(self._questions, self._bodies(body), strict=True)
            ],
            more=self._more,
        )
        return line


@codec.serialisable("purchase")
@dataclass(frozen=True)
class PurchaseTerms:
    """The terms on which an answer was bought; a later reader gets this guarantee, not the one of their own request."""

    price: str = ""
    strategy: str = ""
    """The bounding strategies of the measurements."""
    limits: str = ""
    bounds: tuple[str, ...] = ()
    data: str = ""
    """The version of the data as it is shown to readers."""
    weak: tuple[str, ...] = ()
    """Why the price is a weak guarantee; shown with the answer to every reader."""
    salt: str = ""
    """A random number: receipts print the hash of the ledger line, which must not allow testing guesses of its
    content."""
    sample: str = field(default="", repr=False)
    """The share of the units that was read, as a secret sample; empty where all were."""

    @property
    def without_salt(self) -> PurchaseTerms:
        """The terms without the salt, for display: with the salt, guesses of the line's content could be tested against
        its hash.
        """
        return replace(self, salt="")


NOT_BOUGHT = PurchaseTerms()
"""The terms of a value that was never bought, such as a forecast."""


def purchase_terms(bounded: Sequence[BoundedPlan], price: Price, version: str) -> PurchaseTerms:
    """Return the terms of a new release, measured under these bounded plans."""
    return with_version_and_salt(describe_terms(bounded, price), version)


def with_version_and_salt(terms: PurchaseTerms, version: str) -> PurchaseTerms:
    """Return the described terms as those of a new release of these data, under a salt of its own."""
    from sfumato.mechanisms import bits  # imported here: reading a purchase needs no randomness

    return replace(terms, data=version, salt=f"{bits.random_bits(128):032x}")


def describe_terms(bounded: Sequence[BoundedPlan], price: Price) -> PurchaseTerms:
    """Describe what a release under these bounded plans at this price is bought on, whenever it is released."""
    measured_plans = [plan for plan in bounded if plan.measures]
    bound_texts = (descriptions.describe_bounds(scaled) for plan in measured_plans for scaled in plan.measures)
    return PurchaseTerms(
        str(price),
        _join_distinct(plan.strategy.value for plan in measured_plans),
        _join_distinct(descriptions.describe_enforced_limits(plan) for plan in measured_plans),
        tuple(dict.fromkeys(bound_text for bound_text in bound_texts if bound_text is not None)),
        weak=weak_price_warnings(price),
        sample=_join_distinct(format_percent(plan.sample) for plan in measured_plans if plan.sample is not None),
    )


def _join_distinct(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
