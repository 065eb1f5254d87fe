"""Seeded bugs in requests and approval: what an approval binds, who gives it, how long and how often it counts."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LEDGER = "ledger/test_approval_requests.py"
_DESK = "server/test_approvals.py"
_DRY = "curator/test_dry_charges.py"
_RULES = "policy/test_approval_rules.py"
_DIGEST = "ledger.approval_requests:ProposedCharge.digest"
_COVERS = "ledger.accounts.approvals:ApprovalCondition._covers"
_STEP = "ledger.approval_requests:RequestRecord.after"

MUTANTS = (
    Mutant("an approval is for any plan", Kind.CONSENT, _DIGEST, "self.plan, ", "", (_LEDGER,)),
    Mutant("an approval is for any mechanisms", Kind.CONSENT, _DIGEST, "self.parts, ", "", (_LEDGER,)),
    Mutant("an approval is for any price", Kind.CONSENT, _DIGEST, "self.cost, ", "", (_LEDGER,)),
    Mutant("an approval outlives an amendment", Kind.CONSENT, _DIGEST, ", self.terms]", "]", (_LEDGER,)),
    Mutant(
        "an approval is for an older policy", Kind.CONSENT, _DIGEST, ", requester, policy]", ", requester]", (_LEDGER,)
    ),
    Mutant("an approval is for whoever asks", Kind.CONSENT, _DIGEST, ", requester, policy]", ", policy]", (_LEDGER,)),
    Mutant(
        "an edited policy keeps its hash",
        Kind.CONSENT,
        "curator.dry_charges:policy_hash",
        "policy.size, shares, rules",
        "policy.size, rules",
        (f"{_DESK}::test_an_edited_policy_needs_a_new_approval",),
    ),
    Mutant(
        "an approval is for rows of any source",
        Kind.CONSENT,
        "curator.dry_charges:policy_hash",
        "rules, sources",
        "rules",
        (f"{_DESK}::test_an_approval_is_for_the_declared_source",),
    ),
    Mutant(
        "an expired approval is used",
        Kind.CONSENT,
        "ledger.approval_requests:RequestRecord.state",
        "now >= self.subject.expires",
        "False",
        (_LEDGER,),
    ),
    Mutant(
        "one approver counts twice",
        Kind.CONSENT,
        "ledger.approval_requests:RequestRecord.approvers",
        "dict.fromkeys((each.step.by for each in self._of(RequestAct.APPROVE)))",
        "each.step.by for each in self._of(RequestAct.APPROVE)",
        (_LEDGER,),
    ),
    Mutant("one approver approves twice", Kind.CONSENT, _STEP, "step.by in self.approvers", "False", (_LEDGER,)),
    Mutant(
        "the requester approves",
        Kind.CONSENT,
        _STEP,
        "(RequestAct.APPROVE, RequestAct.REFUSE) and is_requester",
        "() and is_requester",
        (_LEDGER,),
    ),
    Mutant(
        "others withdraw a request", Kind.CONSENT, _STEP, "(RequestAct.WITHDRAW, RequestAct.RELEASE)", "()", (_LEDGER,)
    ),
    Mutant(
        "one approval is enough where two are needed",
        Kind.CONSENT,
        "ledger.approval_requests:RequestRecord.state",
        "len(self.approvers) >= self.subject.approvals",
        "self.approvers",
        (_LEDGER,),
    ),
    Mutant(
        "an approval is not used up",
        Kind.CHARGE_ORDER,
        "ledger.accounts.approvals:ConditionalCharge.append",
        "use.append(transaction, charge)",
        "pass",
        (_LEDGER,),
    ),
    Mutant(
        "a filed request is as good as an approved one",
        Kind.CONSENT,
        "ledger.accounts.approvals:ApprovalCondition.require",
        "record.state(now) is RequestState.APPROVED",
        "record.state(now) is not RequestState.RELEASED",
        (_LEDGER,),
    ),
    Mutant("a share is never used up", Kind.CHARGE_ORDER, _COVERS, "record.used + epsilon", "epsilon", (_LEDGER,)),
    Mutant("a share is used by others", Kind.CONSENT, _COVERS, "share.requester == self.requester", "True", (_LEDGER,)),
    Mutant("a share outlives its policy", Kind.CONSENT, _COVERS, "share.policy == self.policy", "True", (_LEDGER,)),
    Mutant(
        "an expired share is used",
        Kind.CONSENT,
        _COVERS,
        "record.state(now) is RequestState.APPROVED",
        "True",
        (_LEDGER,),
    ),
    Mutant("a share covers every kind", Kind.CONSENT, _COVERS, "self.kind in share.kinds", "True", (_LEDGER,)),
    Mutant(
        "a share covers tables that are chosen later",
        Kind.CONSENT,
        _COVERS,
        "self.tables is not None and set(self.tables) <= set(share.tables)",
        "self.tables is None or set(self.tables) <= set(share.tables)",
        (_LEDGER,),
    ),
    Mutant(
        "a share covers what was not assessed",
        Kind.CONSENT,
        "ledger.accounts.approvals:ApprovalCondition.require",
        "digest == self.assessed and self._covers(record, epsilon, now)",
        "self._covers(record, epsilon, now)",
        (_LEDGER,),
    ),
    Mutant(
        "what was not assessed is exempt",
        Kind.CONSENT,
        "ledger.accounts.approvals:ApprovalCondition.require",
        "digest == self.assessed and (not self.reason)",
        "not self.reason",
        (_LEDGER,),
    ),
    Mutant(
        "a tab needs no approval",
        Kind.CONSENT,
        "ledger.accounts.account:Account.open_tab",
        "conditional.append(transaction, self.name, columns, cost, append)",
        "append()",
        (_LEDGER,),
    ),
    Mutant(
        "a question needs no approval",
        Kind.CONSENT,
        "ledger.accounts.asking:PendingQuery._charge_or_find",
        "self._conditional.append(transaction, account, columns, cost, pay)",
        "pay()",
        (_LEDGER,),
    ),
    Mutant(
        "verification does not replay requests",
        Kind.CHARGE_ORDER,
        "ledger.proofs.verifying:Checker._other_kind",
        "self._request_step(row)",
        "pass",
        (_LEDGER,),
    ),
    Mutant(
        "the gateway has no gate",
        Kind.CONSENT,
        "server.approvals:ApprovalDesk.gated",
        "rules is None",
        "True",
        (f"{_DESK}::test_a_request_is_filed_approved_and_released",),
    ),
    Mutant(
        "other analysts see a request",
        Kind.CONSENT,
        "server.approvals:_sees",
        "record.subject.requester == caller.user",
        "True",
        (f"{_DESK}::test_other_analysts_see_no_requests",),
    ),
    Mutant(
        "an owner approves under another policy than the request's",
        Kind.CONSENT,
        "server.approvals:ApprovalDesk.approve",
        "record.subject.policy != self._served.curator(name).policy_hash",
        "False",
        (f"{_DESK}::test_an_edited_policy_needs_a_new_approval",),
    ),
    Mutant(
        "an analyst approves",
        Kind.CONSENT,
        "server.request_calls:RequestCalls.approve",
        "_ROUTE, Role.OWNER",
        "_ROUTE, *Role",
        (f"{_DESK}::test_every_call_of_every_role_in_every_state",),
    ),
    Mutant(
        "what no ε bounds needs no approval",
        Kind.CONSENT,
        "policy.approval_rules:ApprovalRules.reason",
        "epsilon is not None and epsilon <= self.above",
        "epsilon is None or epsilon <= self.above",
        (_RULES,),
    ),
    Mutant(
        "tables that are chosen later need no approval",
        Kind.CONSENT,
        "policy.approval_rules:ApprovalRules.reason",
        "self.tables if tables is None else tables",
        "() if tables is None else tables",
        (_RULES,),
    ),
    Mutant(
        "discovered groups are not noticed",
        Kind.CONSENT,
        "curator.dry_charges:_Recorder.dry_charge",
        "isinstance(reading, DiscoveredTotals)",
        "False",
        (f"{_DRY}::test_discovered_groups_are_noticed",),
    ),
    Mutant(
        "a grant whose reply was lost is granted twice",
        Kind.CONSENT,
        "client.wire:Wire.send",
        "repeatable or request_id is not None or method != 'POST'",
        "True",
        ("client/test_connecting.py::test_what_would_be_done_twice_is_sent_once",),
    ),
    Mutant(
        "a dry charge charges",
        Kind.CHARGE_ORDER,
        "curator.dry_charges:_Recorder.require",
        "raise _Charged(charge, epsilon)",
        "return None",
        (_DRY,),
    ),
)

test_the_tests_of_approvals_notice = suite(MUTANTS)
