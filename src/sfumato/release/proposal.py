"""Proposals: anything that can be released. Explaining and pricing are free; only ``release`` spends budget.

All kinds of proposals share these steps: look up a stored answer, refuse before the charge what cannot be shown, warn
of a weak guarantee, release, and attach a receipt.

Charged work always runs to its end: a curator that is stopping takes no new releases and waits for those that run. None
is interrupted, because a stopped release has been paid for and answers nothing. Stored answers are still returned then:
they are no new work.
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
    """The releases that run now in all threads of a process; once drained, new ones are refused."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._draining = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one release from before its charge to its end; raise ``Draining`` before the charge once drained."""
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
        """Refuse new releases from now on, and wait for those that run; return whether all ended in this time."""
        with self._changed:
            self._draining = True
            return self._changed.wait_for(lambda: not self._running, seconds)


T = TypeVar("T")
S = TypeVar("S")


class Proposal(Protocol):
    """Something that can be released. All methods but ``release`` are free and read no data.

    Each method takes a price in its own keywords; ``release`` also takes those of a ``ReleaseCall``.
    """

    @property
    def identity(self) -> str:
        """The hash of the measured plan, under which stored answers are found."""
        ...

    @property
    def columns(self) -> Any:
        """The columns of the answer by name and type, without releasing it."""
        ...

    def rehearse(self, *price: Any, **more: Any) -> Any:
        """Return an answer of the right shape with invented numbers, from the policy alone."""
        ...

    def explain(self, *price: Any, **more: Any) -> Any:
        """Describe what is measured, with what noise and at what price, and who is protected."""
        ...

    def error(self, *price: Any, **more: Any) -> Any:
        """Return the errors that the answer may have."""
        ...

    def price(self, within: Any, **more: Any) -> float:
        """Return the least ε at which the error is at most this."""
        ...

    def release(self, *price: Any, **more: Any) -> Any:
        """Return the answer with its receipt: charged before the first row is read, or free if it was bought before."""
        ...


class Surroundings(Protocol):
    """The context of a release: the policy, the engine, the account and the analyst."""

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
        """The version of the data as it is shown to readers."""
        ...

    @property
    def seconds(self) -> float | None: ...

    @property
    def analyst(self) -> str | None: ...

    @property
    def declared(self) -> str:
        """The hash of everything that the policy declares."""
        ...

    @property
    def rehearsed(self) -> bool:
        """Whether everything here is invented; statements about the account are then not about the real one."""
        ...

    @property
    def work(self) -> RunningWork: ...


@dataclass(frozen=True)
class ReleaseCall:
    """The options of one release call; None takes the curator's setting."""

    fresh: bool = False
    """Whether stored answers to other requests are ignored."""
    request_id: str | None = None
    """An idempotency key: a repeated call under it gets the same result and is charged nothing."""
    seconds: Number | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            exact(self.seconds, "seconds", POSITIVE)

    def limit(self, otherwise: float | None) -> float | None:
        """Return the time limit of reading, in seconds."""
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
    """Return a stored answer that is good enough, or else release a new one; ``show`` renders either.

    ``rehearsed`` skips the dry run where the caller has already done it; it reads no data, so once is enough.
    """
    _require_paid(kind.batch, here)
    request = ReleaseRequest(question, plan, here.engine.identity(), here.analyst, call.request_id)
    result = releasing.stored(kind, request, here.account, fresh=call.fresh)
    if result is None:
        if not rehearsed:
            rehearse(kind, show)
        warn(price, here)
        with here.work.one():
            result = releasing.release(
                kind,
                request,
                payer=here.account,
                engine=here.engine,
                fresh=call.fresh,
                seconds=call.limit(here.seconds),
                progress=here.progress if call.progress is None else call.progress,
            )
    return show(result)


def warn(price: Price, here: Surroundings) -> None:
    """Warn of a weak guarantee, except in a preview."""
    if not here.rehearsed:
        warn_if_weak(price)


def is_stored(kind: ReleaseStrategy[Any], plan: str, here: Surroundings) -> bool:
    """Return whether a stored answer is as good as this release, so that asking is free."""
    stored_answer = here.account.stored(plan=plan, data=here.engine.identity(), accuracy=kind.good_enough)
    return stored_answer is not None


def rehearse(kind: ReleaseStrategy[T], show: Callable[[StoredResult[T]], S]) -> None:
    """Compute, encode and render an answer without data: what fails is refused before the charge."""
    try:
        repr(show(releasing.rehearse(kind)))
    except (InvalidParameter, ArithmeticError):
        raise Unsupported(
            "extreme-numbers",
            "numbers are too large or too small: reals are 0 or between 2^-500 and 2^500 in size, and noise is between "
            "1e-300 and 1e300",
            fix="rescale the values in the question, such as x / 1e6, or declare bounds and a grid of moderate size",
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
    """Return the receipt of a release on the terms on which it was bought; ``mechanisms`` describes what was run."""
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
        remaining="not shown in a rehearsal" if here.rehearsed else remaining(statement),
        epsilons=tuple(text(epsilon) for epsilon in statement.epsilons),
        share=here.analyst or "",
        periods=paying(policy, here.account.periods),
        promise=promise(policy),
        weak=bought.weak,
        rehearsed=here.rehearsed,
    )


def remaining(statement: AccountStatement) -> str:
    """Describe what the analyst may still spend: of the account, and of their own share where they have one."""
    if statement.own is None:
        return statement.budget.left_words
    return statement.own.left_beside(statement.budget)


def _require_paid(batch: Batch, here: Surroundings) -> None:
    """Refuse to read periods other than those whose accounts are charged, where every period has its own account."""
    policy, account = here.policy, here.account
    if policy.per is None:
        return
    periods = account_periods.runs(account.periods, policy.per)
    relations = (measurement.reading.bounded.plan.source for measurement in batch.measurements)
    if not all(account_periods.keeps_to(relation, policy, periods) for relation in relations):
        raise Unsupported(
            "unpaid-periods",
            f"this kind of release cannot be limited to the {policy.per}s whose accounts it is charged to",
            fix="ask with SQL or table(…), or use a policy without per, which has one account for all periods",
        )
