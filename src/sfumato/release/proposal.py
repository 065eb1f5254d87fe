"""Proposals: anything that can be released. Explaining and pricing are free; only ``release`` spends budget.

All kinds of proposals share these steps: look up a stored answer, refuse before the charge what cannot be shown, warn
of a weak guarantee, release, and attach a receipt.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from sfumato.engine.protocols import Engine
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.ledger import Account
from sfumato.ledger.accounts.account import AccountStatement
from sfumato.plan import account_periods
from sfumato.plan.canonical import PlanKey
from sfumato.policy import Policy
from sfumato.privacy.amounts import format_guarantee
from sfumato.privacy.numbers import POSITIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.release import releasing
from sfumato.release.answers.receipts import Receipt, describe_charged_periods, describe_period_guarantee
from sfumato.release.measurement import Batch
from sfumato.release.payers import AccountPayer, PurchaseTerms
from sfumato.release.prices import Price, warn_if_weak
from sfumato.release.releasing import ReleaseRequest, ReleaseStrategy, StoredResult
from sfumato.release.running_work import Progress, RunningWork
from sfumato.version import __version__

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

    def preview(self, *price: Any, **more: Any) -> Any:
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


class StoredProposal(ABC):
    """A proposal whose answer is stored under a key and found again."""

    @property
    @abstractmethod
    def plan_key(self) -> PlanKey:
        """The key of what is measured, by which stored answers are found."""

    @property
    def identity(self) -> str:
        """The hash of what is measured, under which an answer is stored."""
        return self.plan_key.current


class ReleaseContext(Protocol):
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
    def policy_version(self) -> str:
        """The hash of everything that the policy declares."""
        ...

    @property
    def is_preview(self) -> bool:
        """Whether everything here is invented; statements about the account are then not about the real one."""
        ...

    @property
    def running_work(self) -> RunningWork: ...


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

    def time_limit(self, default: float | None) -> float | None:
        """Return the time limit of reading, in seconds."""
        if self.seconds is None:
            return default
        return min(float(exact(self.seconds, "seconds", POSITIVE)), threading.TIMEOUT_MAX)


def release_or_find(
    kind: ReleaseStrategy[T],
    price: Price,
    show: Callable[[StoredResult[T]], S],
    *,
    question: str,
    plan: PlanKey,
    context: ReleaseContext,
    call: ReleaseCall,
    skip_dry_run: bool = False,
) -> S:
    """Return a stored answer that is good enough, or else release a new one; ``show`` renders either.

    ``skip_dry_run`` says that the caller has done it already; it reads no data, so once is enough.
    """
    _require_charged_periods(kind.batch, context)
    data = context.engine.identity()
    request = ReleaseRequest(question, plan.current, data, context.analyst, call.request_id, plan.former)
    result, lookup = releasing.find_stored(kind, request, context.account, fresh=call.fresh)
    if result is None:
        if not skip_dry_run:
            check_dry_run(kind, show, None if lookup is None else lookup.statement)
        warn_of_weak_price(price, context)
        with context.running_work.running():
            payer = AccountPayer(context.account, lookup, plan.former)
            result = releasing.release(
                kind,
                request,
                payer=payer,
                engine=context.engine,
                fresh=call.fresh,
                seconds=call.time_limit(context.seconds),
                progress=context.progress if call.progress is None else call.progress,
            )
            result = replace(result, statement=payer.statement)
    return show(result)


def warn_of_weak_price(price: Price, context: ReleaseContext) -> None:
    """Warn of a weak guarantee, except in a preview."""
    if not context.is_preview:
        warn_if_weak(price)


def is_stored(kind: ReleaseStrategy[Any], plan: PlanKey, context: ReleaseContext) -> bool:
    """Return whether a stored answer is as good as this release, so that asking is free."""
    data, widths = context.engine.identity(), kind.accuracy_for_reuse
    return context.account.stored(plan=plan.current, data=data, accuracy=widths, former_plan=plan.former) is not None


def check_dry_run(
    kind: ReleaseStrategy[T], show: Callable[[StoredResult[T]], S], statement: AccountStatement | None = None
) -> None:
    """Compute, encode and render an answer without data: what fails is refused before the charge."""
    try:
        repr(show(releasing.dry_run(kind, statement)))
    except (InvalidParameter, ArithmeticError):
        raise Unsupported(
            "extreme-numbers",
            "numbers are too large or too small: a real must be 0 or between 2^-500 and 2^500 in size, and noise "
            "between 1e-300 and 1e300",
            fix="rescale the values in the question, for example with x / 1e6, or declare bounds of moderate size",
        ) from None


def make_receipt(
    result: StoredResult[Any],
    bought: PurchaseTerms,
    mechanisms: tuple[str, ...],
    *,
    question: str,
    context: ReleaseContext,
    confidence: Number,
    joint: bool = False,
) -> Receipt:
    """Return the receipt of a release on the terms on which it was bought; ``mechanisms`` describes what was run."""
    policy, statement = context.policy, result.statement or context.account.statement(context.analyst)
    return Receipt(
        question=question,
        unit=str(policy.unit),
        neighbours=policy.neighbours.value,
        guarantee=bought.price,
        account=format_guarantee(statement.budget.epsilon, statement.budget.delta),
        mechanisms=mechanisms,
        strategy=bought.strategy,
        limits=bought.limits,
        bounds=bought.bounds,
        policy=context.policy_version,
        data="invented" if context.is_preview else bought.data,
        software=f"sfumato {__version__}",
        line=0 if context.is_preview else result.number,
        hash="" if context.is_preview else result.hash,
        time=result.time.isoformat(),
        free=result.free,
        confidence=format_exact(exact(confidence, "confidence")),
        remaining="not shown in a preview" if context.is_preview else remaining_budget_text(statement),
        epsilons=tuple(format_exact(epsilon) for epsilon in statement.epsilons),
        share=context.analyst or "",
        periods=describe_charged_periods(policy, context.account.periods),
        promise=describe_period_guarantee(policy),
        weak=bought.weak,
        is_preview=context.is_preview,
        joint=joint,
        sample=bought.sample,
    )


def remaining_budget_text(statement: AccountStatement) -> str:
    """Describe what the analyst may still spend: of the account, and of their own share where they have one."""
    if statement.analyst_budget is None:
        return statement.budget.remaining_words
    return statement.analyst_budget.remaining_words_with(statement.budget)


def _require_charged_periods(batch: Batch, context: ReleaseContext) -> None:
    """Refuse to read periods other than those whose accounts are charged, where every period has its own account."""
    policy, account = context.policy, context.account
    if policy.per is None:
        return
    periods = account_periods.parse_periods(account.periods, policy.per)
    relations = (measurement.reading.bounded.plan.source for measurement in batch.measurements)
    if not all(account_periods.reads_only_periods(relation, policy, periods) for relation in relations):
        raise Unsupported(
            "unpaid-periods",
            f"this kind of release reads all {policy.per}s, but here each {policy.per} has an account of its own",
            fix="ask with SQL or table(…), or use a policy with one account for all periods, without per",
        )
