"""A request for approval as its requester and the owners see it: nothing in it depends on rows."""

from __future__ import annotations

import json
from fractions import Fraction

from sfumato.ledger.approval_requests import (
    ApprovalRequest,
    GrantedShare,
    PublicationReview,
    RecordedStep,
    RequestRecord,
    RequestState,
    RequestSubject,
)
from sfumato.ledger.spending import read_cost
from sfumato.privacy import Budget, Cost, Guarantee, codec
from sfumato.privacy.numbers import amount_from_units, exact, format_rounded_up
from sfumato.privacy.reading import reading
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable, single_line

OUTSIDE_THE_PROMISE = (
    "Decide from what is shown here alone: a refusal decided after looking at the data is not covered by the "
    "privacy guarantee."
)


@codec.serialisable("request-view")
@dataclass(frozen=True)
class RequestView:
    """A request for approval, its state and its steps."""

    number: int
    """The ledger line that filed it."""
    state: str
    requester: str
    purpose: str
    words: str
    """The release and its forecast in words, as of the filing, and all of its spec: every question in it."""
    filed: str
    expires: str
    approvals: int
    """How many owners must approve."""
    approvers: tuple[str, ...] = ()
    reason: str = ""
    """Why it was refused or withdrawn."""
    release_kind: str = ""
    """The kind of release; empty for a share."""
    spec: str = ""
    price: str = ""
    epsilon: str = ""
    """The ε that it counts with, which the rules compare; for a share, what may be used in all; empty where no ε
    bounds it.
    """
    delta: str = ""
    """The δ at which that ε holds, for Gaussian noise; empty for an ε of its own."""
    used: str = ""
    """For a share, what was used of it."""
    cost: str = ""
    left_after: str = ""
    """What would be left for ordinary answers after it, in words."""
    one_person: str = ""
    """What the release can reveal about one person, in words."""
    stored: str = ""
    """Whether an answer at least as accurate was bought before."""
    publishes: tuple[int, ...] = ()
    """The lines of answers that are to be published."""
    charges: tuple[int, ...] = ()
    """The ledger lines of the charges that it admitted."""
    steps: tuple[str, ...] = ()
    """Each step: when, who, what, and why."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)

    @property
    def is_share(self) -> bool:
        return not self.release_kind and not self.publishes

    @property
    def epsilon_words(self) -> str:
        """The ε that it counts with in words; for a share, what is used of it."""
        if self.is_share:
            return f"ε = {self.used} of {self.epsilon} used"
        if self.publishes:
            return ""
        return f"ε = {self.epsilon}{f' at δ = {self.delta}' * bool(self.delta)}" if self.epsilon else "no ε bounds it"

    @property
    def is_open(self) -> bool:
        return self.state in (RequestState.FILED, RequestState.APPROVED)

    def to_json(self) -> str:
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> RequestView:
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        lines = [
            f"request {self.number}: {self.state}",
            f"  by        {self.requester}, {self.filed}; expires {self.expires}",
            f"  purpose   {self.purpose}",
            f"  approved  by {', '.join(self.approvers) or 'nobody yet'} ({self.approvals} needed)",
        ]
        facts = (("cost", self.cost), ("left", self.left_after), ("stored", self.stored), ("reason", self.reason))
        lines += [f"  {name:<9} {fact}" for name, fact in facts if fact]
        lines += [f"  | {line}" for line in self.words.splitlines()]  # no line of a requester looks like a fact
        return "\n".join(map(escape_unprintable, lines))

    __repr__ = __str__


def request_view(record: RequestRecord, now: int, budget: Budget | None = None, stored: str = "") -> RequestView:
    """Return the view of a request at a time; ``budget`` is what it would be paid from."""
    subject, state = record.subject, record.state(now)
    payer = budget if state in (RequestState.FILED, RequestState.APPROVED) else None
    return RequestView(
        number=record.number,
        state=state.value,
        requester=subject.requester,
        purpose=subject.purpose,
        words=_subject_words(subject),
        filed=f"{record.filed:%Y-%m-%d %H:%M} UTC",
        expires=f"{record.expires:%Y-%m-%d %H:%M} UTC",
        approvals=subject.approvals,
        approvers=record.approvers,
        reason=record.reason,
        stored=stored,
        charges=record.charges,
        steps=tuple(_step_words(step) for step in record.steps),
        publishes=subject.lines if isinstance(subject, PublicationReview) else (),
        **_view_fields(record, subject, payer),
    )


def _subject_words(subject: RequestSubject) -> str:
    """Return what is decided on in words, each line escaped; for a release with its spec and price, as they are
    released.
    """
    lines = subject.words.splitlines()
    if isinstance(subject, ApprovalRequest):
        lines += [
            f"released  {subject.release_kind} {_readable_json(subject.spec)}",
            f"price     {_readable_json(subject.price)}",
        ]
    return "\n".join(map(escape_unprintable, lines))


def _readable_json(canonical: str) -> str:
    """Return canonical JSON with letters of all languages as they are; line breaks in it stay escaped."""
    return json.dumps(json.loads(canonical), ensure_ascii=False)


def _view_fields(record: RequestRecord, subject: RequestSubject, payer: Budget | None) -> dict[str, str]:
    if isinstance(subject, GrantedShare):
        return _share_view_fields(record, subject)
    return _release_view_fields(subject, payer) if isinstance(subject, ApprovalRequest) else {}


def _release_view_fields(subject: ApprovalRequest, budget: Budget | None) -> dict[str, str]:
    cost, epsilon = read_cost(subject.cost), subject.epsilon
    facts = {
        "release_kind": subject.release_kind,
        "spec": subject.spec,
        "price": subject.price,
        "epsilon": "" if epsilon is None else format_rounded_up(epsilon),
        "delta": "" if subject.delta is None else format_rounded_up(subject.delta),
        "cost": _cost_words(cost, subject),
    }
    if budget is None:
        return facts
    delta = amount_from_units(cost.failure) if cost.pure is not None else subject.delta or exact(budget.delta, "delta")
    after = budget.with_spent(budget.totals + cost)
    left = after.remaining_words if budget.admits(cost) else "the budget can no longer afford it"
    return facts | {"left_after": left, "one_person": _reveal_words(epsilon, delta, budget)}


def _cost_words(cost: Cost, subject: ApprovalRequest) -> str:
    """Return the cost, for Gaussian noise with the ε that the rules compare and its δ."""
    if cost.pure is not None:
        return cost.words
    if subject.epsilon is None:
        return f"{cost.words}, without a bound in ε"
    at_delta = "" if subject.delta is None else f" at δ = {format_rounded_up(subject.delta)}"
    return f"{cost.words}: ε = {format_rounded_up(subject.epsilon)}{at_delta}"


def _reveal_words(epsilon: Fraction | None, delta: Fraction, budget: Budget) -> str:
    if epsilon is None:
        return "No ε limits what it can reveal about one person."
    return str(reading(Guarantee(epsilon, delta), neighbours=budget.neighbours))


def _share_view_fields(record: RequestRecord, share: GrantedShare) -> dict[str, str]:
    return {"epsilon": format_rounded_up(share.epsilon), "used": format_rounded_up(record.used)}


_PAST = {
    "approve": "approved",
    "refuse": "refused",
    "withdraw": "withdrawn",
    "release": "released",
    "lapse": "approval lapsed",
}


def _step_words(recorded: RecordedStep) -> str:
    step = recorded.step
    why = f": {single_line(step.reason)}" if step.reason else f", line {step.charge}" if step.charge else ""
    return f"{recorded.time:%Y-%m-%d %H:%M} UTC, {step.by}, {_PAST[step.act]}{why}"
