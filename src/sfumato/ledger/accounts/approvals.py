"""The requests of an account, and the condition that admits a charge only with an approval.

A condition is asked in the transaction that would charge, so whatever it reads cannot change before the charge is
appended. What it admits is recorded in the same transaction: no crash leaves a charge without its approval used up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from typing import Protocol

from sfumato.errors import ApprovalNeeded, NotThere, Unsupported
from sfumato.ledger.approval_requests import (
    REQUEST_LINE,
    STEP_LINE,
    GrantedShare,
    IsOwner,
    ProposedCharge,
    RequestAct,
    RequestRecord,
    RequestState,
    RequestStep,
    RequestSubject,
    count_everyone_as_owner,
)
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import write_cost
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Cost, codec
from sfumato.quick_dataclass import dataclass

_CHANGED = "its charge has changed since it was assessed"
_FILE_FIX = "request approval with `sfumato requests file …` or curator.requests.file(…)"


@dataclass(frozen=True)
class RequestUse:
    """The use of an approved request by the charge that is about to be appended."""

    record: RequestRecord
    by: str
    epsilon: Fraction | None

    def append(self, transaction: Transaction, charge: Row) -> None:
        """Append the line that records the use."""
        step = RequestStep(RequestAct.RELEASE, self.by, charge=charge.number, epsilon=self.epsilon)
        _append_step(transaction, self.record, step)


class ChargeCondition(Protocol):
    """A condition on every charge of an account, asked in the transaction that appends it."""

    def require(self, transaction: Transaction, charge: ProposedCharge, epsilon: Fraction | None) -> RequestUse | None:
        """Refuse the charge, or return the approval that it uses up; None if it needs none."""
        ...


@dataclass(frozen=True)
class ConditionalCharge:
    """A charge with the condition on it, if there is one."""

    condition: ChargeCondition | None = None
    epsilon: Fraction | None = None
    """The ε that the charge counts with; computed before the transaction, and only where there is a condition."""

    def append(
        self,
        transaction: Transaction,
        account: str,
        columns: Mapping[str, str],
        cost: Cost,
        append: Callable[[], Row],
    ) -> Row:
        """Append the charge by ``append`` if the condition admits it, and what it uses up."""
        if self.condition is None:
            return append()
        proposed = ProposedCharge(
            account,
            columns["analyst"],
            columns["question"],
            columns["plan"],
            columns["parts"],
            write_cost(cost),
            transaction.last_account_line(account).terms,
        )
        use = self.condition.require(transaction, proposed, self.epsilon)
        charge = append()
        if use is not None:
            use.append(transaction, charge)
        return charge


@dataclass(frozen=True)
class ApprovalCondition:
    """The condition of a policy with approval rules: a charge is exempt, or was approved."""

    requester: str
    policy: str
    """The hash of the policy."""
    assessed: str
    """The digest of the charge that was assessed, to which kind and tables belong; empty if none was."""
    reason: str
    """Why it needs approval; empty if the rules exempt it."""
    kind: str
    tables: Collection[str] | None
    """The tables that are read; None if they are chosen later."""
    measures: Collection[str] | None
    """What is read of the rows; None if it is chosen later."""
    is_owner: IsOwner
    """Whose approvals count, asked in the transaction."""
    people: str = ""
    """The id of the people file that the requester is in: requests of others do not count."""

    def require(self, transaction: Transaction, charge: ProposedCharge, epsilon: Fraction | None) -> RequestUse | None:
        """Find the approval of exactly this charge, or a share that covers it."""
        digest = charge.digest(self.requester, self.policy)
        if digest == self.assessed and not self.reason:
            return None
        now, last, lapsed_share = transaction.next_line_time, None, None
        for record in self._requests_with_current_approvals(transaction, charge.account, digest):
            last = record
            if record.state(now) is RequestState.APPROVED:
                return RequestUse(record, self.requester, None)
        for record in self._requests_with_current_approvals(transaction, charge.account, ""):
            if digest == self.assessed and self._covers_charge(record, epsilon, now):
                return RequestUse(record, self.requester, epsilon)
            if record.lapsed_approvers and record.subject.requester == self.requester:
                lapsed_share = record
        raise self._refusal(charge.account, last or lapsed_share, now)

    def _requests_with_current_approvals(
        self, transaction: Transaction, account: str, digest: str
    ) -> Iterator[RequestRecord]:
        """Yield requests with the approvals that count in this moment."""
        for record in _request_records(transaction, account, plan=digest):
            if record.belongs_to(self.people):
                yield record.with_lapses(self.is_owner, transaction.next_line_time)

    def _refusal(self, account: str, last: RequestRecord | None, now: int) -> ApprovalNeeded:
        state = None if last is None else last.state(now)
        state_text = "" if last is None else f"; {_request_state_words(last, now)}"
        rule = f"this release needs the approval of an owner: {self.reason or _CHANGED}{state_text}"
        fix = "wait until an owner has approved it" if state is RequestState.FILED else _FILE_FIX
        refusal = ApprovalNeeded(rule, place=f"the approval rules of {account}", fix=fix)
        refusal.state = None if state is None else state.value
        return refusal

    def _covers_charge(self, record: RequestRecord, epsilon: Fraction | None, now: int) -> bool:
        share = record.subject
        return (
            isinstance(share, GrantedShare)
            and record.state(now) is RequestState.APPROVED
            and share.requester == self.requester
            and share.policy == self.policy
            and (not share.kinds or self.kind in share.kinds)
            and _is_unlimited_or_subset(self.tables, share.tables)
            and _is_unlimited_or_subset(self.measures, share.measures)
            and epsilon is not None
            and record.used + epsilon <= share.epsilon
        )


def _is_unlimited_or_subset(read: Collection[str] | None, allowed: tuple[str, ...]) -> bool:
    """Return whether all that is read is allowed: nothing named allows everything, what is chosen later may be all."""
    return not allowed or (read is not None and set(read) <= set(allowed))


def _request_state_words(record: RequestRecord, now: int) -> str:
    words = f"request {record.number} {'is' if record.subject.is_share else 'for it is'} {record.state(now)}"
    if not record.lapsed_approvers:
        return words
    owners = "is no longer an enabled owner" if len(record.lapsed_approvers) == 1 else "are no longer enabled owners"
    return f"{words}, since {' and '.join(record.lapsed_approvers)}, who approved it, {owners}"


class AccountRequests:
    """The requests of one account. Safe to use from threads and processes alike."""

    def __init__(
        self,
        guarded: GuardedStore,
        account: str,
        is_owner: IsOwner = count_everyone_as_owner,
        people: str = "",
    ) -> None:
        self._guarded = guarded
        self._account = account
        self._is_owner = is_owner
        self._people = people
        """The id of the people file whose requests these are; empty for those of every server."""

    def decided_by(self, is_owner: IsOwner, people: str = "") -> AccountRequests:
        """Return the requests of one people file with only the approvals of those who are owners now."""
        return AccountRequests(self._guarded, self._account, is_owner, people)

    def file(
        self,
        subject: RequestSubject,
        analyst: str = "",
        *,
        approved_by: str | None = None,
        max_open: int | None = None,
    ) -> RequestRecord:
        """Record a request; ``approved_by`` is the owner who files a share and thereby approves it.

        With ``max_open``, an equal request that is open is returned instead, and one too many of a person is refused.
        """
        with self._guarded.writing() as transaction:
            filed = None if max_open is None else self._same_open_request(transaction, subject, analyst, max_open)
            if filed is not None:
                return filed
            columns: dict[str, str | int] = {
                "analyst": analyst,
                "question": subject.words,
                "plan": _request_digest(subject),
                "about": _opening_line_number(transaction, self._account),
                "detail": codec.dumps(subject),
            }
            record = RequestRecord.from_rows(transaction.append(REQUEST_LINE, self._account, columns))
            if approved_by is not None:
                self._record_step(transaction, record, RequestStep(RequestAct.APPROVE, approved_by))
            return self._read(transaction, record.number)

    def _same_open_request(
        self, transaction: Transaction, subject: RequestSubject, analyst: str, max_open: int
    ) -> RequestRecord | None:
        """Return the open request that equals a new one of the same person; refuse one too many."""
        open_requests = 0
        for record in self._request_records(transaction, analyst=analyst):
            is_open = record.state(transaction.next_line_time) in (RequestState.FILED, RequestState.APPROVED)
            if record.subject.is_share or record.subject.requester != subject.requester or not is_open:
                continue
            if _request_digest(record.subject) == _request_digest(subject):
                return record
            open_requests += 1
        if open_requests >= max_open:
            rule = f"one person can have at most {max_open} open requests on a policy"
            raise Unsupported(
                "many-requests",
                rule,
                fix="withdraw some of your requests, or wait until they are decided",
                place="your requests",
            )
        return None

    def record_step(self, number: int, step: RequestStep) -> RequestRecord:
        """Record a step of a request, or raise ``RequestDecided`` where its state does not allow it."""
        with self._guarded.writing() as transaction:
            self._record_step(transaction, self._read(transaction, number), step)
            return self._read(transaction, number)

    def _record_step(self, transaction: Transaction, record: RequestRecord, step: RequestStep) -> None:
        record.with_step(step, transaction.next_line_time)
        for new_step in (*record.unrecorded_lapses, step):
            _append_step(transaction, record, new_step)

    def require_condition_met(
        self, condition: ChargeCondition, charge: ProposedCharge, epsilon: Fraction | None
    ) -> None:
        """Refuse what a condition would refuse now, unless it was released before: a repeated request learns from the
        ledger how that ended. The charge itself is decided in its own transaction.
        """
        with self._guarded.reading() as transaction:
            try:
                condition.require(transaction, charge, epsilon)
            except ApprovalNeeded as refusal:
                if refusal.state != RequestState.RELEASED:
                    raise

    def read(self, number: int) -> RequestRecord:
        with self._guarded.reading() as transaction:
            return self._read(transaction, number)

    def list(self) -> tuple[RequestRecord, ...]:
        """List every request, oldest first."""
        with self._guarded.reading() as transaction:
            return tuple(self._request_records(transaction))

    def now(self) -> int:
        """Return the ledger's time, in microseconds since 1970: it never runs backwards."""
        with self._guarded.reading() as transaction:
            return transaction.next_line_time

    def _read(self, transaction: Transaction, number: int) -> RequestRecord:
        row = transaction.line(number)
        if row is None or (row.kind, row.account) != (REQUEST_LINE, self._account):
            raise NotThere(f"request {number}")
        record = _request_record(transaction, row)
        if not record.belongs_to(self._people):
            raise NotThere(f"request {number}")
        return record.with_lapses(self._is_owner, transaction.next_line_time)

    def _request_records(self, transaction: Transaction, **columns: str) -> Iterator[RequestRecord]:
        for record in _request_records(transaction, self._account, **columns):
            if record.belongs_to(self._people):
                yield record.with_lapses(self._is_owner, transaction.next_line_time)


def _request_digest(subject: RequestSubject) -> str:
    """Return what the ``plan`` column of a request holds: nothing for a share, which is about many releases."""
    return "" if isinstance(subject, GrantedShare) else subject.digest


def _append_step(transaction: Transaction, record: RequestRecord, step: RequestStep) -> None:
    columns: dict[str, str | int] = {
        "analyst": record.analyst,
        "question": step.reason,
        "about": record.number,
        "detail": codec.dumps(step),
    }
    transaction.append(STEP_LINE, record.account, columns)


def _request_records(transaction: Transaction, account: str, **columns: str) -> Iterator[RequestRecord]:
    """Yield the requests of an account with these columns, oldest first: no other line is read or decoded.

    The column ``plan`` holds the digest of a request, and nothing for a share.
    """
    where: dict[str, str | int] = {"about": _opening_line_number(transaction, account), "kind": REQUEST_LINE, **columns}
    return (_request_record(transaction, row) for row in transaction.page(where))


def _request_record(transaction: Transaction, row: Row) -> RequestRecord:
    return RequestRecord.from_rows(row, transaction.page({"about": row.number, "kind": STEP_LINE}))


def _opening_line_number(transaction: Transaction, account: str) -> int:
    """Return the line that opened an account: its requests are about it, and found by the index of that column."""
    return transaction.page({"account": account}, limit=1)[0].number
