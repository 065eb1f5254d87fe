"""A payer pays for a release: an account, or a tab that holds a part of one.

Both are asked in the same way. What is asked is charged when it begins, unless an answer is known; whoever paid answers
or says that no answer will come.

A stored answer says this of itself, so that it can be shown years later with a receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sfumato.errors import InvalidParameter
from sfumato.ledger import Account, Entry, Line, StoredAnswer, Tab
from sfumato.ledger.accounts.holds import SettledAnswer
from sfumato.plan import words
from sfumato.privacy import Curve, codec
from sfumato.privacy.numbers import Number
from sfumato.release.prices import Price, weak_words

if TYPE_CHECKING:
    from sfumato.plan.bounding import BoundedPlan


class Paying(Protocol):
    """This is one release on its way through the ledger."""

    @property
    def line(self) -> Line:
        """Give the charge, once ``begin`` has returned without an answer."""
        ...

    def begin(self, seconds: float | None = None, waiting: Callable[[], None] = ...) -> StoredAnswer | None:
        """Give the answer if it is known, or None once the release has been charged, durably."""
        ...

    def stands(self) -> bool:
        """Tell whether it was charged, whatever was interrupted."""
        ...

    def stop(self) -> None:
        """Say that no answer will come."""
        ...


class Payer(Protocol):
    """A payer is what a release is charged to, and where its answer is written down."""

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Paying: ...

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line: ...


@dataclass(frozen=True)
class OnTab:
    """A tab is a payer: each release is a step, charged to what the tab holds.

    Nothing is looked up and nobody is joined: what a series does next is its own business.
    """

    account: Account
    tab: Tab

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Paying:  # noqa: ARG002
        return _Step(self.tab, entry)

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        return self.account.answer(line, body, accuracy)


class _Step:
    """This is one step of a tab."""

    def __init__(self, tab: Tab, entry: Entry) -> None:
        self._tab = tab
        self._entry = entry
        self._paid: Line | None = None

    @property
    def line(self) -> Line:
        if self._paid is None:
            raise RuntimeError("nothing was charged")
        return self._paid

    def begin(self, seconds: float | None = None, waiting: Callable[[], None] = lambda: None) -> None:  # noqa: ARG002
        self._paid = self._tab.step(self._entry)

    def stands(self) -> bool:
        return self._paid is not None

    def stop(self) -> None:
        """End the whole series and give nothing back: why a step failed may depend on rows."""
        self._tab.forfeit()


@dataclass(frozen=True)
class OnPaidTab:
    """A tab is a payer whose mechanism was charged whole when it was opened: an answer of that mechanism costs nothing
    more, and a step of anything else is refused.

    A step that is stopped leaves the tab open, since nothing is held that could be given back.
    """

    account: Account
    tab: Tab

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Paying:  # noqa: ARG002
        if entry.columns["parts"] != self.tab.opening.parts:
            raise InvalidParameter("parts", entry.parts, "those that the tab was opened and charged for")
        paid = Curve((), entry.curve.neighbours)
        return _PaidStep(self.tab, replace(entry, parts=(paid,)))

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        return self.account.answer(line, body, accuracy)


class _PaidStep(_Step):
    """This is one answer of what was charged when its tab was opened."""

    def stop(self) -> None:
        """Leave the tab open: whether it may go on is for the mechanism's own session to say."""


@dataclass(frozen=True)
class PaidQuestion:
    """This says what one of several questions that are paid together is written down as."""

    text: str
    plan: str
    accuracy: Mapping[str, Number]


class AllAtOnce:
    """This pays for several questions: all are charged at once, and each answer is written down as its own, so that it
    is found again by whoever asks for it alone.
    """

    def __init__(
        self,
        opening: Callable[[Entry], Tab | StoredAnswer],
        questions: Sequence[PaidQuestion],
        bodies: Callable[[str], Sequence[str]],
        *,
        more: bool = False,
    ) -> None:
        self._opening = opening
        """Opens the tab that is charged whole, or finds what the same request bought."""
        self._questions = questions
        self._bodies = bodies
        """Splits what is written down of all into what is of each."""
        self._more = more
        """Whether the tab stays open for something that is made of all answers."""
        self.tab: Tab | None = None
        self._entry: Entry | None = None
        self.known: StoredAnswer | None = None
        self.lines: tuple[Line, ...] = ()
        """Of the answers, in the order of the questions."""

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Paying:  # noqa: ARG002
        self._entry = entry
        return self

    @property
    def line(self) -> Line:
        if self.tab is None:
            raise RuntimeError("nothing was charged")
        return self.tab.opening

    def begin(
        self,
        seconds: float | None = None,  # noqa: ARG002
        waiting: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> StoredAnswer | None:
        assert self._entry is not None
        found = self._opening(replace(self._entry, plan="", data=""))
        if isinstance(found, Tab):
            self.tab = found
        else:
            self.known = found
        return self.known

    def stands(self) -> bool:
        return self.tab is not None

    def stop(self) -> None:
        """End the series: why it failed may depend on rows, and nothing is given back."""
        if self.tab is not None:
            self.tab.forfeit()

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:  # noqa: ARG002
        assert self.tab is not None
        assert self._entry is not None
        nothing, data = Curve((), self._entry.curve.neighbours), self._entry.data
        self.lines = self.tab.settle(
            [
                SettledAnswer(Entry(nothing, each.text, each.plan, data), written, each.accuracy)
                for each, written in zip(self._questions, self._bodies(body), strict=True)
            ],
            more=self._more,
        )
        return line


@codec.value("purchase")
@dataclass(frozen=True)
class Purchase:
    """A purchase is the terms on which an answer was bought: whoever reads it later gets this promise, not the one they
    asked for.
    """

    price: str = ""
    strategy: str = ""
    """How a unit's part was limited when it was measured."""
    limits: str = ""
    bounds: tuple[str, ...] = ()
    data: str = ""
    """The version of the data, as readers are told."""
    weak: tuple[str, ...] = ()
    """Why the price promises little, in words: it is told with the answer, whoever reads it."""
    salt: str = ""
    """A random number: the hash of the line that holds this is printed in receipts, and must not let a guess be
    tested."""

    @property
    def public(self) -> Purchase:
        """Give the same without its salt, as it is shown: who knew the salt could test guesses of what else the line
        says against its hash.
        """
        return replace(self, salt="")


NOT_BOUGHT = Purchase()
"""The terms of what was never bought, such as a forecast."""


def purchase(bounded: Sequence[BoundedPlan], price: Price, version: str) -> Purchase:
    """State the terms of a release that is made now, of what is measured under these boundings."""
    from sfumato.mechanisms import bits  # whoever reads a purchase draws nothing

    used = [each for each in bounded if each.measures]
    known = (words.bounds(scaled) for each in used for scaled in each.measures)
    return Purchase(
        str(price),
        _listed(each.strategy.value for each in used),
        _listed(words.enforced(each) for each in used),
        tuple(dict.fromkeys(each for each in known if each is not None)),
        version,
        weak_words(price),
        f"{bits.integer(128):032x}",
    )


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
