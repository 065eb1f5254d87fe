"""Requests for approval: what is asked for, and the state that the steps recorded so far leave it in.

A request is about one release, to the byte of its charge; or about a share: releases up to an ε in all, until a date;
or about answers that were bought, and are to be published.
Each step is a sealed line of the ledger, so its state is a pure function of lines and a clock::

    filed ──approve──▶ approved ──release──▶ released
      │ ╲  ◀──lapse──    │ ╲
      │  refuse, withdraw│  refuse, withdraw        (a share stays approved until it is used up)
      └──── time ────────┴──── time ──▶ expired

An approval lapses when whoever gave it is no longer an owner. Who is an owner is not in the ledger, so whoever reads
a request asks for it (``RequestRecord.with_lapses``), and the lapse is recorded before the next decision.

Several servers may share a ledger, each with a people file of its own, in which equal names are different people. A
request belongs to the people file of its requester: it is decided, released and lapses there alone
(``RequestRecord.belongs_to``), and does not exist elsewhere.

*Claim.* An approval admits at most the one release that was approved. The charge is appended in the transaction that
reads the request as approved and appends its release, so of racing releases one finds it approved. The digest covers
every column of the charge that decides what is run and what it costs, and the account, its terms, the analyst, the
requester and the policy. ∎
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256

from sfumato.errors import InvalidParameter, RequestDecided
from sfumato.ledger.entries import (
    checked_line_number,
    checked_name,
    checked_reason,
    checked_text,
    datetime_from_microseconds,
)
from sfumato.ledger.sealed_rows import MAX_TIME, Row
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, exact, format_exact
from sfumato.quick_dataclass import dataclass

REQUEST_LINE, STEP_LINE = "request", "request-step"
MAX_APPROVALS = 20
MAX_PURPOSE = 2_000
MAX_SPEC = 1 << 20
MAX_LINES = 1_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IsOwner = Callable[[str], bool]
"""Returns whether somebody of this name may decide on requests now."""


def count_everyone_as_owner(_: str) -> bool:
    """Count everybody as an owner: for what the lines alone say."""
    return True


class RequestState(StrEnum):
    """The state of a request."""

    FILED = "filed"
    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    RELEASED = "released"


class RequestAct(StrEnum):
    """What a step does to a request."""

    APPROVE = "approve"
    REFUSE = "refuse"
    WITHDRAW = "withdraw"
    RELEASE = "release"
    LAPSE = "lapse"


@dataclass(frozen=True)
class ProposedCharge:
    """A charge before it is appended: the columns that say what is run, what it costs, and who pays."""

    account: str
    analyst: str
    question: str
    plan: str
    parts: str
    cost: str
    """The exact cost as a line writes it."""
    terms: int
    """The line with the account's terms: an amendment changes it."""

    def digest(self, requester: str, policy: str) -> str:
        """Hash what an approval binds; ``policy`` is the hash of the whole policy."""
        bound_columns = [self.account, self.analyst, self.question, self.plan, self.parts, self.cost, self.terms]
        return sha256(json.dumps([*bound_columns, requester, policy]).encode()).hexdigest()


@codec.serialisable("approval-request")
@dataclass(frozen=True)
class ApprovalRequest:
    """A request to approve one release."""

    release_kind: str
    spec: str
    """What is released, as canonical JSON."""
    price: str
    """The arguments of its release, as canonical JSON."""
    purpose: str
    words: str
    """The release in words, made when it was filed."""
    requester: str
    digest: str
    """The digest of the charge (``ProposedCharge.digest``)."""
    policy: str
    """The hash of the policy."""
    approvals: int
    """How many owners must approve."""
    expires: int
    """The microsecond since 1970 from which nothing is approved or released any more."""
    cost: str
    """The exact cost, as a line writes it."""
    epsilon: Fraction | None = None
    """The ε that it counts with; None where no ε bounds it."""
    delta: Fraction | None = None
    """The δ at which that ε holds, for Gaussian noise; None for an ε of its own."""
    people: str = ""
    """The people file that the requester is in, by its id; empty in lines of earlier versions."""

    def __post_init__(self) -> None:
        for name in ("release_kind", "requester", "digest", "policy"):
            checked_name(getattr(self, name), name)
        for name, longest in (("spec", MAX_SPEC), ("price", MAX_SPEC), ("words", MAX_SPEC), ("cost", MAX_SPEC)):
            checked_text(getattr(self, name), name, longest)
        _require_valid_terms(self)
        for name in ("epsilon", "delta"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, exact(getattr(self, name), name, NONNEGATIVE))

    @property
    def is_share(self) -> bool:
        return False


@codec.serialisable("granted-share")
@dataclass(frozen=True)
class GrantedShare:
    """Releases that are approved in advance: of these kinds, tables and measures, up to an ε in all, until a date."""

    requester: str
    """Who may use it."""
    epsilon: Fraction
    """What all releases under it may cost together."""
    policy: str
    approvals: int
    expires: int
    tables: tuple[str, ...] = ()
    """The tables that may be read; empty: all."""
    kinds: tuple[str, ...] = ()
    """The kinds of release; empty: all."""
    purpose: str = ""
    measures: tuple[str, ...] = ()
    """What may be read of the rows, such as "count" (``plan.readings.ReadMeasure``); empty: everything."""
    people: str = ""
    """The people file that the requester is in, by its id; empty in lines of earlier versions."""

    def __post_init__(self) -> None:
        for name in ("requester", "policy"):
            checked_name(getattr(self, name), name)
        for name in ("tables", "kinds", "measures"):
            names = getattr(self, name)
            if not isinstance(names, (list, tuple)):
                raise InvalidParameter(name, names, "a list of names")
            object.__setattr__(self, name, tuple(checked_name(text, name) for text in names))
        _require_valid_terms(self)
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", POSITIVE))

    @property
    def is_share(self) -> bool:
        return True

    @property
    def words(self) -> str:
        """The terms of the share in words."""
        kinds = f"kinds: {', '.join(self.kinds)}" if self.kinds else "every kind of release"
        tables = f"tables: {', '.join(self.tables)}" if self.tables else "every table"
        limited = f"; {_measure_words(self.measures)}" if self.measures else ""
        return (
            f"{self.requester} may release up to ε = {format_exact(self.epsilon)} in total; {kinds}; {tables}{limited}"
        )


def _measure_words(measures: tuple[str, ...]) -> str:
    return "counts only" if measures == ("count",) else f"measures: {', '.join(measures)}"


@codec.serialisable("publication-review")
@dataclass(frozen=True)
class PublicationReview:
    """Answers that were bought and are marked for publication: an owner approves, and signs a bundle of them."""

    requester: str
    lines: tuple[int, ...]
    """The ledger lines of the answers, or of their charges."""
    purpose: str
    policy: str
    approvals: int
    expires: int
    people: str = ""
    """The people file that the requester is in, by its id; empty in lines of earlier versions."""

    def __post_init__(self) -> None:
        for name in ("requester", "policy"):
            checked_name(getattr(self, name), name)
        if not isinstance(self.lines, (list, tuple)) or not 0 < len(self.lines) <= MAX_LINES:
            raise InvalidParameter("lines", self.lines, f"a list of 1 to {MAX_LINES:,} line numbers")
        object.__setattr__(
            self, "lines", tuple(sorted({checked_line_number(number, "lines") for number in self.lines}))
        )
        _require_valid_terms(self)

    @property
    def is_share(self) -> bool:
        return False

    @property
    def digest(self) -> str:
        """A hash of who marks which answers, for what, under which policy: equal reviews have equal ones."""
        columns = ["publication", self.requester, self.lines, self.purpose, self.policy]
        return sha256(json.dumps(columns).encode()).hexdigest()

    @property
    def words(self) -> str:
        """What is to be published, in words."""
        return f"publish the answers of ledger lines {', '.join(map(str, self.lines))}"


def parse_last_day(until: object) -> date:
    """Parse the last day of something: a date, or a text such as 2027-06-30."""
    if isinstance(until, str) and _DATE.fullmatch(until):
        with suppress(ValueError):
            return date.fromisoformat(until)
    if type(until) is date:
        return until
    raise InvalidParameter("until", until, "a date such as 2027-06-30")


def end_of_last_day(until: date, now: int, max_days: int) -> int:
    """Return the microsecond at which a day ends, in UTC; refuse one that is over, or too far away."""
    days_away = (until - datetime_from_microseconds(now).date()).days
    if not 0 <= days_away < max_days:
        today = datetime_from_microseconds(now).date()
        rule = f"a day from today to {max_days - 1:,} days later, in UTC"
        raise InvalidParameter("until", str(until), rule, fix=f"for example, set until to {today + timedelta(days=30)}")
    end = datetime.combine(until, time.max, UTC) + timedelta(microseconds=1)
    return (end - _EPOCH) // timedelta(microseconds=1)


RequestSubject = ApprovalRequest | GrantedShare | PublicationReview


def _require_valid_terms(subject: RequestSubject) -> None:
    checked_text(subject.purpose, "purpose", MAX_PURPOSE)
    checked_text(subject.people, "people", MAX_PURPOSE)
    if type(subject.approvals) is not int or not 1 <= subject.approvals <= MAX_APPROVALS:
        raise InvalidParameter("approvals", subject.approvals, f"a whole number between 1 and {MAX_APPROVALS}")
    if type(subject.expires) is not int or not 0 < subject.expires <= MAX_TIME:
        raise InvalidParameter("expires", subject.expires, "a time in microseconds since 1970")


@codec.serialisable("request-step")
@dataclass(frozen=True)
class RequestStep:
    """One step of a request: who did what, and why."""

    act: RequestAct
    by: str
    reason: str = ""
    charge: int = 0
    """For a release, the line of the charge."""
    epsilon: Fraction | None = None
    """For a release under a share, what it used of it."""

    def __post_init__(self) -> None:
        if self.act not in tuple(RequestAct):
            raise InvalidParameter("act", self.act, f"one of {', '.join(RequestAct)}")
        object.__setattr__(self, "act", RequestAct(self.act))
        checked_name(self.by, "by")
        checked_text(self.reason, "reason", MAX_PURPOSE)
        if self.act is RequestAct.REFUSE:
            checked_reason(self.reason)
        if self.charge:
            checked_line_number(self.charge, "charge")
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", NONNEGATIVE))


@dataclass(frozen=True)
class RecordedStep:
    """A step with the line that holds it."""

    number: int
    time: datetime
    step: RequestStep


@dataclass(frozen=True)
class RequestRecord:
    """A request with every step that the ledger has recorded of it."""

    number: int
    """The line that filed it."""
    filed: datetime
    account: str
    analyst: str
    """The analyst whose share pays; empty where the account pays."""
    subject: RequestSubject
    steps: tuple[RecordedStep, ...] = ()

    @classmethod
    def from_rows(cls, row: Row, steps: Iterable[Row] = ()) -> RequestRecord:
        """Read a request from its line and the lines about it."""
        recorded = tuple(
            RecordedStep(row.number, datetime_from_microseconds(row.time), codec.loads_as(RequestStep, row.detail))
            for row in steps
        )
        filed = datetime_from_microseconds(row.time)
        return cls(row.number, filed, row.account, row.analyst, codec.loads(row.detail), recorded)

    @property
    def expires(self) -> datetime:
        return datetime_from_microseconds(self.subject.expires)

    @property
    def approvers(self) -> tuple[str, ...]:
        """The owners whose approvals count, each once."""
        counted: dict[str, None] = {}
        for recorded in self.steps:
            if recorded.step.act is RequestAct.APPROVE:
                counted[recorded.step.by] = None
            elif recorded.step.act is RequestAct.LAPSE:
                counted.pop(recorded.step.by, None)
        return tuple(counted)

    @property
    def lapsed_approvers(self) -> tuple[str, ...]:
        """Those whose approval no longer counts."""
        lapsed = dict.fromkeys(recorded.step.by for recorded in self._steps_with_act(RequestAct.LAPSE))
        return tuple(name for name in lapsed if name not in self.approvers)

    @property
    def unrecorded_lapses(self) -> tuple[RequestStep, ...]:
        """The lapses that no line holds yet."""
        return tuple(recorded.step for recorded in self.steps if not recorded.number)

    def belongs_to(self, people: str) -> bool:
        """Return whether it is decided among the people of this file; an empty id stands for those of every server."""
        return not people or self.subject.people in ("", people)

    def with_lapses(self, is_owner: IsOwner, now: int) -> RequestRecord:
        """Return the request without the approvals of those who are no longer owners; one that is decided stays."""
        if self.state(now) not in (RequestState.FILED, RequestState.APPROVED):
            return self
        lapses = [RequestStep(RequestAct.LAPSE, name, _LAPSED) for name in self.approvers if not is_owner(name)]
        time = datetime_from_microseconds(now)
        return replace(self, steps=(*self.steps, *(RecordedStep(0, time, lapse) for lapse in lapses)))

    @property
    def reason(self) -> str:
        """Why it was refused or withdrawn; empty otherwise."""
        decided = (*self._steps_with_act(RequestAct.REFUSE), *self._steps_with_act(RequestAct.WITHDRAW))
        return decided[0].step.reason if decided else ""

    @property
    def charges(self) -> tuple[int, ...]:
        """The lines of the charges that it admitted."""
        return tuple(recorded.step.charge for recorded in self._steps_with_act(RequestAct.RELEASE))

    @property
    def used(self) -> Fraction:
        """What releases used of a share."""
        return sum(
            (recorded.step.epsilon or Fraction(0) for recorded in self._steps_with_act(RequestAct.RELEASE)), Fraction(0)
        )

    def _steps_with_act(self, act: RequestAct) -> tuple[RecordedStep, ...]:
        return tuple(recorded for recorded in self.steps if recorded.step.act is act)

    def state(self, now: int) -> RequestState:
        """Return the state at a microsecond since 1970."""
        if self._steps_with_act(RequestAct.REFUSE):
            return RequestState.REFUSED
        if self._steps_with_act(RequestAct.WITHDRAW):
            return RequestState.WITHDRAWN
        if self._steps_with_act(RequestAct.RELEASE) and not self.subject.is_share:
            return RequestState.RELEASED
        if now >= self.subject.expires:
            return RequestState.EXPIRED
        return RequestState.APPROVED if len(self.approvers) >= self.subject.approvals else RequestState.FILED

    def with_step(self, step: RequestStep, now: int) -> RequestRecord:
        """Return the request after a step, or raise ``RequestDecided`` where its state does not allow it."""
        state = self.state(now)
        if state not in _ALLOWED_FROM[step.act]:
            allowed = " or ".join(_ALLOWED_FROM[step.act])
            rule = f"{_POSSIBLE[step.act]} while it is {allowed}, but request {self.number} is {state}"
            refile = "file a new request" if step.act in (RequestAct.APPROVE, RequestAct.RELEASE) else ""
            raise self._refusal(rule, _NEXT.get(state, refile))
        is_requester = step.by == self.subject.requester
        if step.act in (RequestAct.APPROVE, RequestAct.REFUSE) and is_requester:
            raise self._refusal(
                f"{step.by} filed this request, so somebody else must decide on it", "ask another owner"
            )
        if step.act in (RequestAct.WITHDRAW, RequestAct.RELEASE) and not is_requester:
            rule = f"only the person who filed this request can {step.act} it"
            raise self._refusal(rule, "refuse it instead, with a reason")
        if step.act is RequestAct.LAPSE and step.by not in self.approvers:
            raise self._refusal(f"{step.by} has not approved this request, so no approval can lapse", "")
        if step.act is RequestAct.APPROVE and step.by in self.approvers:
            raise self._refusal(f"{step.by} has already approved this request", "ask another owner to approve it too")
        recorded = RecordedStep(0, datetime_from_microseconds(now), step)
        return replace(self, steps=(*self.steps, recorded))

    def _refusal(self, rule: str, fix: str) -> RequestDecided:
        return RequestDecided(rule, place=f"request {self.number}", fix=fix)


_ALLOWED_FROM = {
    RequestAct.APPROVE: (RequestState.FILED,),
    RequestAct.REFUSE: (RequestState.FILED, RequestState.APPROVED),
    RequestAct.WITHDRAW: (RequestState.FILED, RequestState.APPROVED),
    RequestAct.RELEASE: (RequestState.APPROVED,),
    RequestAct.LAPSE: (RequestState.FILED, RequestState.APPROVED),
}
_POSSIBLE = {
    RequestAct.APPROVE: "a request can only be approved",
    RequestAct.REFUSE: "a request can only be refused",
    RequestAct.WITHDRAW: "a request can only be withdrawn",
    RequestAct.RELEASE: "a request can only be released",
    RequestAct.LAPSE: "a request can only lose an approval",
}
_LAPSED = "no longer an enabled owner"


_NEXT = {
    RequestState.FILED: "wait until it is approved",
    RequestState.APPROVED: "its requester can release it now",
}
"""What to do in a state that is not the end."""
