"""Requests and approval: which releases wait for an owner, and what may be charged once one has approved.

A release of a policy with approval rules is assessed by a dry charge, and charged only under a condition that the
ledger checks in the transaction of the charge. Roles are checked by the gateway, which every skin calls.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from sfumato.curator import Curator
from sfumato.curator.dry_charges import DryCharge
from sfumato.curator.release_kinds import contained_kinds, require_known_kinds
from sfumato.curator.request_views import RequestView, request_view
from sfumato.errors import ApprovalNeeded, InvalidParameter, NotThere, SfumatoError, Unsupported
from sfumato.ledger.accounts.approvals import AccountRequests, ApprovalCondition
from sfumato.ledger.approval_requests import (
    MAX_PURPOSE,
    ApprovalRequest,
    GrantedShare,
    IsOwner,
    PublicationReview,
    RequestAct,
    RequestRecord,
    RequestState,
    RequestStep,
    end_of_last_day,
)
from sfumato.ledger.entries import checked_text
from sfumato.plan.readings.total_readings import ReadMeasure
from sfumato.policy.approval_rules import MAX_DAYS, ApprovalRules
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.users import Caller, Role
from sfumato.server.releases.running_releases import canonical_json
from sfumato.server.served_policies import ServedPolicies
from sfumato.untrusted import escape_unprintable

MAX_OPEN = 50
"""Open requests of one person on one policy."""
_MICROSECONDS_PER_DAY = 86_400_000_000
Propose = Callable[[Curator, str, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class RequestedRelease:
    """A release as it is requested: its kind, spec and price."""

    kind: str
    spec: Mapping[str, Any]
    price: Mapping[str, Any]


class ApprovalService:
    """The requests of all served policies. Thread-safe: the ledger decides every race."""

    def __init__(self, served: ServedPolicies, propose: Propose, is_owner: IsOwner, people: str) -> None:
        self._served = served
        self._propose = propose
        self._is_owner = is_owner
        self._people = people
        """The id of the people file: the requests of another server's people do not exist here."""

    # ── the gate ───────────────────────────────────────────────────────────────────────────────

    def with_approval_rules(self, curator: Curator, caller: Caller, release: RequestedRelease) -> Curator:
        """Return the curator with every charge admitted by the approval rules alone; refuse at once what they would
        refuse now.
        """
        rules = curator.policy.approval
        if rules is None:
            return curator
        dry = self._dry_charge(curator, release)
        if dry is None:
            # free now: whatever it would charge later needs approval
            return curator.conditioned(self._approval_condition(caller, curator, release, rules, None))
        condition = self._approval_condition(caller, curator, release, rules, dry)
        self._account_requests(curator.name).require_condition_met(condition, dry.charge, dry.epsilon)
        return curator.conditioned(condition)

    def _approval_condition(
        self,
        caller: Caller,
        curator: Curator,
        release: RequestedRelease,
        rules: ApprovalRules,
        dry: DryCharge | None,
    ) -> ApprovalCondition:
        """Return the condition on a charge that was assessed; without a dry charge it exempts none."""
        policy = curator.policy_hash
        return ApprovalCondition(
            requester=caller.user,
            policy=policy,
            assessed="" if dry is None else dry.charge.digest(caller.user, policy),
            reason="" if dry is None else _reason_for_approval(rules, release, dry) or "",
            kind=release.kind,
            tables=None if dry is None else dry.tables,
            measures=None if dry is None else dry.measures,
            is_owner=self._is_owner,
            people=self._people,
        )

    def _dry_charge(self, curator: Curator, release: RequestedRelease) -> DryCharge | None:
        return curator.dry_charge(
            lambda view, request_id: self._propose(view, release.kind, release.spec).release(
                **release.price, request_id=request_id
            )
        )

    def approval_reason(self, caller: Caller, name: str, release: RequestedRelease) -> str:
        """Return why a release would wait for an approval now; empty if it would not."""
        view = self._served.curator_for(caller, name)
        if view.policy.approval is None:
            return ""
        try:
            self.with_approval_rules(view, caller, release)
        except ApprovalNeeded as refusal:
            return refusal.rule
        return ""

    def has_rules(self, name: str) -> bool:
        """Return whether releases of a policy may need approval."""
        opened = self._served.last_open_policy(name)
        return opened is not None and opened.curator.policy.approval is not None

    # ── steps of requesters ────────────────────────────────────────────────────────────────────

    def file(self, caller: Caller, name: str, release: RequestedRelease, purpose: str, days: int | None) -> RequestView:
        """File a request for a release that needs approval, at exactly this price."""
        view = self._served.curator_for(caller, name)
        rules, dry = _require_rules(view), self._dry_charge(view, release)
        if dry is None:
            rule = "this release needs no approval: it costs nothing, or an answer at least as accurate is stored"
            raise Unsupported("already-bought", rule, fix="release the answer without a request: it is free")
        if _reason_for_approval(rules, release, dry) is None:
            rule = "this release needs no approval"
            raise Unsupported("no-approval-needed", rule, fix="release the answer directly, without a request")
        requests = self._account_requests(name)
        subject = ApprovalRequest(
            release_kind=release.kind,
            spec=canonical_json(release.spec),
            price=canonical_json(release.price),
            purpose=_checked_purpose(purpose),
            words=self._explanation_words(view, release, dry),
            requester=caller.user,
            digest=dry.charge.digest(caller.user, view.policy_hash),
            policy=view.policy_hash,
            approvals=rules.approvals,
            expires=_expiry_in_micros(requests, rules.days if days is None else min(_checked_days(days), rules.days)),
            cost=dry.charge.cost,
            epsilon=dry.epsilon,
            delta=dry.delta,
            people=self._people,
        )
        return self._view_with_budget(caller, name, requests.file(subject, dry.charge.analyst, max_open=MAX_OPEN))

    def request_publication(self, caller: Caller, name: str, lines: Sequence[int], purpose: str) -> RequestView:
        """Request that own answers be published; an owner approves them and signs a bundle."""
        view, requests = self._served.curator_for(caller, name), self._account_requests(name)
        for number in lines:
            line = next(iter(view.history(after=max(0, number - 1), limit=1)), None) if number > 0 else None
            if line is None or line.number != number or line.kind not in ("charge", "answer"):
                raise InvalidParameter(
                    "lines",
                    number,
                    "the numbers of ledger lines with your own answers",
                    fix="find the numbers on the page History or with `sfumato history`",
                )
        rules = view.policy.approval or ApprovalRules()
        subject = PublicationReview(
            caller.user,
            tuple(lines),
            _checked_purpose(purpose),
            view.policy_hash,
            rules.approvals,
            _expiry_in_micros(requests, rules.days),
            self._people,
        )
        analyst = caller.user if caller.user in view.policy.analysts else ""
        return self._view_with_budget(caller, name, requests.file(subject, analyst, max_open=MAX_OPEN))

    def withdraw(self, caller: Caller, name: str, number: int, reason: str = "") -> RequestView:
        """Withdraw an own request that is filed or approved."""
        return self._record_step(caller, name, number, RequestStep(RequestAct.WITHDRAW, caller.user, reason))

    def approved_release(self, caller: Caller, name: str, number: int) -> RequestedRelease:
        """Return the release of an own request, to be released as it was filed."""
        subject = self._visible_request(caller, name, number).subject
        if not isinstance(subject, ApprovalRequest) or subject.requester != caller.user:
            raise NotThere(f"release of request {number}")
        return RequestedRelease(subject.release_kind, json.loads(subject.spec), json.loads(subject.price))

    # ── steps of owners ────────────────────────────────────────────────────────────────────────

    def approve(self, caller: Caller, name: str, number: int, reason: str = "") -> RequestView:
        """Approve a request of somebody else, under the policy that it was filed under."""
        record = self._visible_request(caller, name, number)
        if record.subject.policy != self._served.curator(name).policy_hash:
            rule = "the policy has changed since this request was filed, so an approval would be for the earlier policy"
            raise Unsupported(
                "policy-changed", rule, place=f"request {number}", fix="ask the analyst to file the request again"
            )
        return self._record_step(caller, name, number, RequestStep(RequestAct.APPROVE, caller.user, reason))

    def refuse(self, caller: Caller, name: str, number: int, reason: str) -> RequestView:
        """Refuse a request, or take back an approval that was not yet used."""
        return self._record_step(caller, name, number, RequestStep(RequestAct.REFUSE, caller.user, reason))

    def preapprove_releases(self, caller: Caller, name: str, share: ShareTerms) -> RequestView:
        """Grant a share of releases that need no further request; it counts as this owner's approval."""
        curator, rules = self._served.curator(name), _require_rules(self._served.curator(name))
        requests = self._account_requests(name)
        if share.user == caller.user:
            raise InvalidParameter(
                "user",
                share.user,
                "somebody else, because nobody can approve their own releases",
                fix="ask another owner",
            )
        unknown = [table for table in share.tables if table not in curator.policy.tables]
        if unknown:
            raise InvalidParameter(
                "tables", unknown[0], f"a list of tables of the policy: {', '.join(curator.policy.tables)}"
            )
        require_known_kinds(share.kinds, "kinds")
        _require_valid_measures(share.measures)
        subject = GrantedShare(
            requester=share.user,
            epsilon=exact(share.epsilon, "epsilon", POSITIVE),
            policy=curator.policy_hash,
            approvals=rules.approvals,
            expires=_share_expiry_micros(requests, share),
            tables=share.tables,
            kinds=share.kinds,
            purpose=_checked_purpose(share.purpose),
            measures=share.measures,
            people=self._people,
        )
        analyst = share.user if share.user in curator.policy.analysts else ""
        return self._view_with_budget(caller, name, requests.file(subject, analyst, approved_by=caller.user))

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    def list(self, caller: Caller, name: str) -> tuple[RequestView, ...]:
        """List the requests that a caller may see, newest first: analysts see their own."""
        requests = self._account_requests(name)
        now = requests.now()
        visible = [record for record in requests.list() if _can_see_request(caller, record)]
        return tuple(request_view(record, now) for record in reversed(visible))

    def show(self, caller: Caller, name: str, number: int) -> RequestView:
        """Return one request with what decides on it: what is left after it, and whether it was bought before."""
        return self._view_with_budget(caller, name, self._visible_request(caller, name, number))

    # ── internals ──────────────────────────────────────────────────────────────────────────────

    def _account_requests(self, name: str) -> AccountRequests:
        return self._served.account(name).requests.decided_by(self._is_owner, self._people)

    def _visible_request(self, caller: Caller, name: str, number: int) -> RequestRecord:
        record = self._account_requests(name).read(number)
        if not _can_see_request(caller, record):
            raise NotThere(f"request {number}")
        return record

    def _record_step(self, caller: Caller, name: str, number: int, step: RequestStep) -> RequestView:
        self._visible_request(caller, name, number)
        return self._view_with_budget(caller, name, self._account_requests(name).record_step(number, step))

    def _view_with_budget(self, caller: Caller, name: str, record: RequestRecord) -> RequestView:
        """Return the view of a request; what needs the policy is left out while its file cannot be opened."""
        now = self._account_requests(name).now()
        try:
            curator = self._served.curator(name)
        except SfumatoError:
            return request_view(record, now)
        shows_share = caller.role is Role.ANALYST and record.analyst in curator.policy.analysts
        budget = curator.as_analyst(record.analyst).budget if shows_share else curator.budget
        return request_view(record, now, budget, self._stored_answer_sentence(curator, record))

    def _stored_answer_sentence(self, curator: Curator, record: RequestRecord) -> str:
        """Say whether a release that is still open would be free by now."""
        subject = record.subject
        is_open = record.state(self._account_requests(curator.name).now()) in (
            RequestState.FILED,
            RequestState.APPROVED,
        )
        if not isinstance(subject, ApprovalRequest) or not is_open or subject.policy != curator.policy_hash:
            return ""
        view = curator.as_analyst(record.analyst) if record.analyst else curator
        release = RequestedRelease(subject.release_kind, json.loads(subject.spec), json.loads(subject.price))
        if self._dry_charge(view, release) is None:
            return "an answer at least as accurate is stored, so this release is free"
        return "no answer at least as accurate is stored"

    def _explanation_words(self, view: Curator, release: RequestedRelease, dry: DryCharge) -> str:
        proposal = self._propose(view, release.kind, release.spec)
        accepted = inspect.signature(proposal.explain).parameters
        price = {name: term for name, term in release.price.items() if name in accepted}
        return f"{escape_unprintable(dry.charge.question)}\n{proposal.explain(**price)}"


@dataclass(frozen=True)
class ShareTerms:
    """The terms of a share that an owner grants."""

    user: str
    epsilon: Number
    days: int | None = None
    tables: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    purpose: str = ""
    measures: tuple[str, ...] = ()
    until: date | None = None
    """Instead of days: the last day on which it is good, in UTC."""


def _require_valid_measures(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in tuple(ReadMeasure)]
    if unknown:
        raise InvalidParameter("measures", unknown[0], f"one of {', '.join(ReadMeasure)}")


def _can_see_request(caller: Caller, record: RequestRecord) -> bool:
    return caller.role is not Role.ANALYST or record.subject.requester == caller.user


def _reason_for_approval(rules: ApprovalRules, release: RequestedRelease, dry: DryCharge) -> str | None:
    return rules.reason_for_approval(
        release.kind,
        dry.tables,
        discovers_groups=dry.discovers_groups,
        epsilon=dry.epsilon,
        delta=dry.delta,
        contained=contained_kinds(release.kind),
    )


def _require_rules(curator: Curator) -> ApprovalRules:
    rules = curator.policy.approval
    if rules is None:
        rule = "releases of this policy need no approval"
        raise Unsupported(
            "no-approval-needed",
            rule,
            fix="release the answer directly; to require approval, the owner adds [approval] to the policy",
        )
    return rules


def _checked_purpose(purpose: str) -> str:
    if not isinstance(purpose, str) or not purpose.strip():
        raise InvalidParameter("purpose", purpose, "a non-empty string", fix="say what the answer is for")
    return checked_text(purpose.strip(), "purpose", MAX_PURPOSE)


def _checked_days(days: int) -> int:
    if exact_integer(days, "days", at_least=1) > MAX_DAYS:
        raise InvalidParameter("days", days, f"a whole number between 1 and {MAX_DAYS:,}")
    return days


def _share_expiry_micros(requests: AccountRequests, share: ShareTerms) -> int:
    if (share.days is None) is (share.until is None):
        rule = 'given if "until" is left out' if share.days is None else 'left out if "until" is given'
        fix = "give either days=30, or until='2027-06-30' for the last day"
        raise InvalidParameter("days", share.days, rule, fix=fix)
    if share.until is not None:
        return end_of_last_day(share.until, requests.now(), MAX_DAYS)
    assert share.days is not None
    return _expiry_in_micros(requests, _checked_days(share.days))


def _expiry_in_micros(requests: AccountRequests, days: int) -> int:
    return requests.now() + days * _MICROSECONDS_PER_DAY
