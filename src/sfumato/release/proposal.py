"""A proposal is whatever can be released: it is explained and priced for free, and only ``release`` spends.

A question and an auction share what stands here: a stored answer is found, what cannot be shown is refused before the
charge, a weak promise is said aloud, the release is made, and a receipt is printed with it.

Work that was charged runs to its end, also where a curator is about to stop: it takes no new work then, and waits.

Nothing is interrupted, because what is charged and stopped has been paid for and answers nothing. What was bought
before is found and given as ever: that is no new work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sfumato.engine.seam import Engine
from sfumato.errors import Draining, InvalidParameter, Unsupported
from sfumato.ledger import Account
from sfumato.ledger.accounts.account import AccountStatement
from sfumato.plan import account_periods
from sfumato.policy import Policy
from sfumato.privacy.budget_words import promised
from sfumato.privacy.numbers import POSITIVE, Number, exact, text
from sfumato.release import releasing
from sfumato.release.answers.receipts import Receipt, paying, promise
from sfumato.release.measurement import Batch
from sfumato.release.payers import Purchase
from sfumato.release.prices import Price, warn_if_weak
from sfumato.release.releasing import Progress, ReleaseRequest, ReleaseStrategy, StoredResult
from sfumato.version import __version__


class RunningWork:
    """This counts the releases that run now, in all threads of a process, and refuses new ones once it is drained."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._draining = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one release from before its charge to its end; refused before the charge where none is taken."""
        with self._changed:
            if self._draining:
                raise Draining
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def drain(self, seconds: float | None = None) -> bool:
        """Take no new release from now on, and wait for those that run; tell whether all have ended in this time."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._running, seconds)


T = TypeVar("T")
S = TypeVar("S")


class Proposal(Protocol):
    """A proposal is something that can be released. All but ``release`` is free and reads no data.

    Each method takes a price in its own keywords; ``release`` also takes those of a ``ReleaseCall``.
    """

    @property
    def identity(self) -> str:
        """Give the hash of what is measured, under which stored answers are found."""
        ...

    @property
    def columns(self) -> Any:
        """List the columns of the answer by name and type, without releasing it."""
        ...

    def rehearse(self, *price: Any, **more: Any) -> Any:
        """Give an answer of the right shape with invented numbers, from the policy alone."""
        ...

    def explain(self, *price: Any, **more: Any) -> Any:
        """Say what happens to whose data, with what noise, at what price."""
        ...

    def error(self, *price: Any, **more: Any) -> Any:
        """Say how wrong the answer may be."""
        ...

    def price(self, within: Any, **more: Any) -> float:
        """Find the least ε at which the error is no larger than this."""
        ...

    def release(self, *price: Any, **more: Any) -> Any:
        """Give the answer with its receipt: it is charged before the first row is read, and free if it was bought
        before.
        """
        ...


class Surroundings(Protocol):
    """This is where a proposal is released: whose data, where they live, who pays, who asks."""

    @property
    def policy(self) -> Policy: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def account(self) -> Account: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def version(self) -> str:
        """Give the version of the data, as readers are told."""
        ...

    @property
    def seconds(self) -> float | None: ...

    @property
    def analyst(self) -> str | None: ...

    @property
    def declared(self) -> str:
        """Give the hash of everything that the policy declares."""
        ...

    @property
    def rehearsed(self) -> bool:
        """Tell whether everything here is invented: nothing that is said of an account is said of the real one."""
        ...

    @property
    def work(self) -> RunningWork: ...


@dataclass(frozen=True)
class ReleaseCall:
    """This says how one release is called for; what is None is as the curator has it."""

    fresh: bool = False
    """Whether nothing is wanted that was stored for another request."""
    request_id: str | None = None
    """Names one release for ever: whoever asks again under it gets what it came to, and is charged nothing."""
    seconds: Number | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            exact(self.seconds, "seconds", POSITIVE)

    def limit(self, otherwise: float | None) -> float | None:
        """Say how long reading may take."""
        if self.seconds is None:
            return otherwise
        return min(float(exact(self.seconds, "seconds", POSITIVE)), threading.TIMEOUT_MAX)


def released(
    kind: ReleaseStrategy[T],
    price: Price,
    show: Callable[[StoredResult[T]], S],
    *,
    question: str,
    plan: str,
    here: Surroundings,
    call: ReleaseCall,
    rehearsed: bool = False,
) -> S:
    """Give what is shown of a release: of one that was bought before if it is good enough, or else of one made now.

    ``rehearsed`` says that the same was rehearsed before: data have no part in it, so once is enough.
    """
    _require_paid(kind.batch, here)
    asked = ReleaseRequest(question, plan, here.engine.identity(), here.analyst, call.request_id)
    found = releasing.stored(kind, asked, here.account, fresh=call.fresh)
    if found is None:
        if not rehearsed:
            rehearse(kind, show)
        warn(price, here)
        with here.work.one():
            found = releasing.release(
                kind,
                asked,
                payer=here.account,
                engine=here.engine,
                fresh=call.fresh,
                seconds=call.limit(here.seconds),
                progress=here.progress if call.progress is None else call.progress,
            )
    return show(found)


def warn(price: Price, here: Surroundings) -> None:
    """Say aloud that a price promises little, unless nothing is promised by it."""
    if not here.rehearsed:
        warn_if_weak(price)


def is_stored(kind: ReleaseStrategy[Any], plan: str, here: Surroundings) -> bool:
    """Tell whether an answer was bought that is as good as this release: asking for it again is free."""
    found = here.account.stored(plan=plan, data=here.engine.identity(), accuracy=kind.good_enough)
    return found is not None


def rehearse(kind: ReleaseStrategy[T], show: Callable[[StoredResult[T]], S]) -> None:
    """Go the whole way of an answer without data: what cannot be computed, written or shown is refused for free."""
    try:
        repr(show(releasing.rehearse(kind)))
    except (InvalidParameter, ArithmeticError):
        raise Unsupported(
            "extreme-numbers",
            "reals are 0 or between 2^-500 and 2^500 in size, and the noise of an answer is between 1e-300 and 1e300",
            fix="scale the values in the question, or declare bounds and a grid of moderate size",
        ) from None


def receipt(
    found: StoredResult[Any],
    bought: Purchase,
    mechanisms: tuple[str, ...],
    *,
    question: str,
    here: Surroundings,
    confidence: Number,
) -> Receipt:
    """Make the receipt of a release, on the terms on which it was bought; ``mechanisms`` says in words what was run."""
    policy, statement = here.policy, here.account.statement(here.analyst)
    return Receipt(
        question=question,
        unit=str(policy.unit),
        neighbours=policy.neighbours.value,
        guarantee=bought.price,
        account=promised(statement.budget.epsilon, statement.budget.delta),
        mechanisms=mechanisms,
        strategy=bought.strategy,
        limits=bought.limits,
        bounds=bought.bounds,
        policy=here.declared,
        data="invented" if here.rehearsed else bought.data,
        software=f"sfumato {__version__}",
        line=0 if here.rehearsed else found.number,
        hash="" if here.rehearsed else found.hash,
        time=found.time.isoformat(),
        free=found.free,
        confidence=text(exact(confidence, "confidence")),
        remaining="not told by a rehearsal" if here.rehearsed else remaining(statement),
        epsilons=tuple(text(epsilon) for epsilon in statement.epsilons),
        share=here.analyst or "",
        periods=paying(policy, here.account.periods),
        promise=promise(policy),
        weak=bought.weak,
        rehearsed=here.rehearsed,
    )


def remaining(statement: AccountStatement) -> str:
    """Say what whoever asks may still spend: of the account, and of their share where they have one."""
    if statement.own is None:
        return statement.budget.left_words
    return statement.own.left_beside(statement.budget)


def _require_paid(batch: Batch, here: Surroundings) -> None:
    """Refuse to read other periods than those whose accounts pay, where every period has one of its own."""
    policy, account = here.policy, here.account
    if policy.per is None:
        return
    periods = account_periods.runs(account.periods, policy.per)
    plans = (each.reading.bounded.plan.source for each in batch.measurements)
    if not all(account_periods.keeps_to(each, policy, periods) for each in plans):
        raise Unsupported(
            "unpaid-periods",
            f"a release reads only the {policy.per}s whose accounts it spends, and this kind does not keep to them",
            fix="ask with SQL or table(…), or keep one account for all in a policy without per",
        )
