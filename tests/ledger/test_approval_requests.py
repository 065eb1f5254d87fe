"""Requests for approval in the ledger: the state machine, what an approval binds, races, clocks and crashes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from ledger.small_accounts import PATIENT, account, pure
from sfumato.errors import ApprovalNeeded, InvalidParameter, NotThere, RequestDecided, SfumatoError, Unsupported
from sfumato.ledger import Account, Entry
from sfumato.ledger.accounts.approvals import ApprovalCondition, RequestUse
from sfumato.ledger.accounts.period_accounts import PeriodAccounts
from sfumato.ledger.approval_requests import (
    ApprovalRequest,
    GrantedShare,
    ProposedCharge,
    PublicationReview,
    RequestAct,
    RequestRecord,
    RequestState,
    RequestStep,
    count_everyone_as_owner,
)
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.sqlite import SQLiteRows
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import codec

DAY = 86_400_000_000
POLICY = "policy-1"
REQUEST = ApprovalRequest(
    "questions", "{}", "{}", "a report", "how many", "ana", "d" * 64, POLICY, 1, DAY, "", Fraction(1)
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sf.Ledger]:
    with sf.Ledger.open(tmp_path / "l") as opened:
        yield opened


class Peek:
    """A condition that only records the charge."""

    def __init__(self) -> None:
        self.charge: ProposedCharge | None = None

    def require(self, transaction: Transaction, charge: ProposedCharge, epsilon: Fraction | None) -> RequestUse | None:  # noqa: ARG002
        self.charge = charge
        raise ApprovalNeeded("peek", place="here", fix="none")


def release(analyst: str = "ana", epsilon: str = "0.25", plan: str = "p") -> Entry:
    return replace(pure(epsilon, plan=plan, data="v"), analyst=analyst)


def proposed(clinic: Account, entry: Entry) -> ProposedCharge:
    peek = Peek()
    with pytest.raises(ApprovalNeeded):
        clinic.conditioned(peek).charge(entry)
    assert peek.charge is not None
    return peek.charge


def request(clinic: Account, entry: Entry, **changes: Any) -> ApprovalRequest:
    who = changes.get("requester", entry.analyst)
    digest = proposed(clinic, entry).digest(who, changes.get("policy", POLICY))
    expires = clinic.requests.now() + 30 * DAY
    return replace(REQUEST, **{"requester": who, "digest": digest, "expires": expires, **changes})


def condition(requester: str = "ana", policy: str = POLICY, **changes: Any) -> ApprovalCondition:
    tables, measures = frozenset(("visits",)), frozenset(("count",))
    built = ApprovalCondition(
        requester, policy, "", "the rules say so", "questions", tables, measures, count_everyone_as_owner
    )
    return replace(built, **changes)


def assessing(clinic: Account, entry: Entry, requester: str = "ana", policy: str = POLICY, **changes: Any) -> Account:
    """Return the account under the condition of a release that was assessed."""
    assessed = proposed(clinic, entry).digest(requester, policy)
    return clinic.conditioned(condition(requester, policy, assessed=assessed, **changes))


def approve(clinic: Account, number: int, by: str = "olga") -> RequestRecord:
    return clinic.requests.record_step(number, RequestStep(RequestAct.APPROVE, by))


def state(clinic: Account, number: int) -> RequestState:
    return clinic.requests.read(number).state(clinic.requests.now())


def charges(ledger: sf.Ledger) -> int:
    return sum(line.kind == "charge" for line in ledger.lines())


# ── the state machine ──────────────────────────────────────────────────────────────────────────

STATES: dict[RequestState, tuple[RequestStep, ...]] = {
    RequestState.FILED: (),
    RequestState.APPROVED: (RequestStep(RequestAct.APPROVE, "olga"),),
    RequestState.REFUSED: (RequestStep(RequestAct.REFUSE, "olga", "too fine"),),
    RequestState.WITHDRAWN: (RequestStep(RequestAct.WITHDRAW, "ana"),),
    RequestState.RELEASED: (RequestStep(RequestAct.APPROVE, "olga"), RequestStep(RequestAct.RELEASE, "ana", charge=9)),
    RequestState.EXPIRED: (RequestStep(RequestAct.APPROVE, "olga"),),
}
ACTORS = {
    RequestAct.APPROVE: "oda",
    RequestAct.REFUSE: "oda",
    RequestAct.WITHDRAW: "ana",
    RequestAct.RELEASE: "ana",
    RequestAct.LAPSE: "olga",
}
ALLOWED = {
    (RequestState.FILED, RequestAct.APPROVE): RequestState.APPROVED,
    (RequestState.FILED, RequestAct.REFUSE): RequestState.REFUSED,
    (RequestState.FILED, RequestAct.WITHDRAW): RequestState.WITHDRAWN,
    (RequestState.APPROVED, RequestAct.REFUSE): RequestState.REFUSED,
    (RequestState.APPROVED, RequestAct.WITHDRAW): RequestState.WITHDRAWN,
    (RequestState.APPROVED, RequestAct.RELEASE): RequestState.RELEASED,
    (RequestState.APPROVED, RequestAct.LAPSE): RequestState.FILED,
}


def in_state(wanted: RequestState) -> tuple[RequestRecord, int]:
    record = RequestRecord.from_rows(Row(number=4, account="clinic", analyst="ana", detail=codec.dumps(REQUEST)))
    for step in STATES[wanted]:
        record = record.with_step(step, DAY - 1)
    return record, DAY if wanted is RequestState.EXPIRED else DAY - 1


@pytest.mark.parametrize(("start", "act"), [*product(RequestState, RequestAct)])
def test_every_step_in_every_state(start: RequestState, act: RequestAct) -> None:
    record, now = in_state(start)
    assert record.state(now) is start
    step = RequestStep(act, ACTORS[act], "because" if act is RequestAct.REFUSE else "")
    if (start, act) in ALLOWED:
        assert record.with_step(step, now).state(now) is ALLOWED[start, act]
    else:
        nothing_lapses = (start, act) == (RequestState.FILED, RequestAct.LAPSE)
        with pytest.raises(
            RequestDecided,
            match="olga has not approved this request" if nothing_lapses else rf"but request \d+ is {start}",
        ):
            record.with_step(step, now)


@pytest.mark.parametrize(
    ("act", "by", "why"),
    [
        (RequestAct.APPROVE, "ana", "ana filed this request"),
        (RequestAct.REFUSE, "ana", "ana filed this request"),
        (RequestAct.WITHDRAW, "olga", "only the person who filed this request"),
    ],
)
def test_who_may_take_a_step(act: RequestAct, by: str, why: str) -> None:
    record, now = in_state(RequestState.FILED)
    with pytest.raises(RequestDecided, match=why):
        record.with_step(RequestStep(act, by, "because"), now)


def test_two_approvals_are_of_two_people() -> None:
    record = RequestRecord.from_rows(Row(number=4, detail=codec.dumps(replace(REQUEST, approvals=2))))
    once = record.with_step(RequestStep(RequestAct.APPROVE, "olga"), 1)
    assert once.state(1) is RequestState.FILED
    with pytest.raises(RequestDecided, match="olga has already approved this request"):
        once.with_step(RequestStep(RequestAct.APPROVE, "olga"), 1)
    twice = replace(once, steps=once.steps * 2)  # even if the line were there
    assert twice.state(1) is RequestState.FILED
    assert once.with_step(RequestStep(RequestAct.APPROVE, "oda"), 1).state(1) is RequestState.APPROVED


def test_an_approval_counts_while_its_owner_is_one(ledger: sf.Ledger) -> None:
    clinic, entry, owners = account(ledger), release(), {"olga", "oda"}
    requests = clinic.requests.decided_by(lambda name: name in owners)
    number = requests.file(request(clinic, entry, approvals=2), "ana").number
    for name in ("olga", "oda"):
        requests.record_step(number, RequestStep(RequestAct.APPROVE, name))
    paying = clinic.conditioned(condition(is_owner=lambda name: name in owners))
    owners.remove("oda")
    with pytest.raises(ApprovalNeeded, match=f"request {number} for it is filed, since oda, who approved it, is no"):
        paying.charge(entry)
    seen = requests.read(number)
    assert (seen.approvers, seen.lapsed_approvers) == (("olga",), ("oda",))
    assert [line.kind for line in ledger.lines()].count("request-step") == 2  # nobody decided since
    owners.add("otto")
    requests.record_step(number, RequestStep(RequestAct.APPROVE, "otto"))
    owners.add("oda")  # enabled again after the lapse was recorded: approves anew or not at all
    assert requests.read(number).approvers == ("olga", "otto")
    paying.charge(entry)
    steps = [codec.loads_as(RequestStep, line.detail) for line in ledger.lines() if line.kind == "request-step"]
    assert [(step.act.value, step.by) for step in steps[2:]] == [
        ("lapse", "oda"),
        ("approve", "otto"),
        ("release", "ana"),
    ]
    owners.clear()
    assert requests.read(number).state(requests.now()) is RequestState.RELEASED  # what is done stays done
    assert ledger.verify().holds


def test_a_share_lapses_with_its_owner(ledger: sf.Ledger) -> None:
    clinic, entry, owners = account(ledger), release(), {"olga"}
    clinic.requests.file(share(clinic), "ana", approved_by="olga")
    assessing(clinic, entry, is_owner=lambda name: name in owners).charge(entry)
    owners.clear()
    other = release(plan="q")
    with pytest.raises(ApprovalNeeded, match="since olga, who approved it"):
        assessing(clinic, other, is_owner=lambda name: name in owners).charge(other)


def test_an_owner_who_is_disabled_while_a_release_starts_is_asked_for_in_its_transaction(ledger: sf.Ledger) -> None:
    clinic, entry, asked = account(ledger), release(), list[bool]()
    approve(clinic, clinic.requests.file(request(clinic, entry), "ana").number)
    pending = clinic.conditioned(condition(is_owner=lambda _: bool(asked.append(True)))).ask(entry, {})
    assert not asked
    with pytest.raises(ApprovalNeeded):
        pending.begin()
    assert asked
    assert charges(ledger) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"approvals": 0},
        {"approvals": True},
        {"expires": 0},
        {"expires": 10**20},
        {"requester": ""},
        {"purpose": "x" * 2001},
    ],
)
def test_a_request_with_impossible_terms_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        replace(REQUEST, **change)


def test_requests_are_written_and_read_back() -> None:
    share = GrantedShare("ana", Fraction(1, 3), POLICY, 2, DAY, ("visits",), ("questions",), "drafts")
    step = RequestStep(RequestAct.RELEASE, "ana", charge=7, epsilon=Fraction(1, 7))
    gaussian = replace(REQUEST, delta=Fraction(1, 10**6))
    for value in (REQUEST, share, step, gaussian, replace(share, measures=("count",))):
        assert codec.loads(codec.dumps(value)) == value
    assert codec.dumps(step) == '{"act":"release","by":"ana","charge":7,"epsilon":"1/7","kind":"request-step/1"}'


# ── what an approval binds ─────────────────────────────────────────────────────────────────────


def test_the_digest_covers_every_column_the_requester_and_the_policy() -> None:
    charge = ProposedCharge("clinic", "ana", "how many", "p", "[]", "1", 1)
    digests = [charge.digest("ana", POLICY), charge.digest("ben", POLICY), charge.digest("ana", "policy-2")]
    for each in fields(charge):
        other = 2 if each.name == "terms" else "other"
        digests.append(replace(charge, **{each.name: other}).digest("ana", POLICY))
    assert len(set(digests)) == len(digests)


def test_an_approved_charge_is_made_once(ledger: sf.Ledger) -> None:
    clinic, entry = account(ledger), release()
    paying = clinic.conditioned(condition())
    with pytest.raises(ApprovalNeeded, match="the rules say so"):
        paying.charge(entry)
    number = clinic.requests.file(request(clinic, entry), "ana").number
    with pytest.raises(ApprovalNeeded, match=f"request {number} for it is filed"):
        paying.charge(entry)
    approve(clinic, number)
    line = paying.charge(entry)
    assert clinic.requests.read(number).charges == (line.number,)
    with pytest.raises(ApprovalNeeded, match="is released"):
        paying.charge(entry)
    assert charges(ledger) == 1
    assert ledger.verify().holds


OTHERS: dict[str, Callable[[Account], tuple[Account, Entry]]] = {
    "plan": lambda clinic: (clinic.conditioned(condition()), release(plan="q")),
    "lower price": lambda clinic: (clinic.conditioned(condition()), release(epsilon="0.125")),
    "higher price": lambda clinic: (clinic.conditioned(condition()), release(epsilon="0.5")),
    "analyst": lambda clinic: (clinic.conditioned(condition()), release("ben")),
    "requester": lambda clinic: (clinic.conditioned(condition("ben")), release()),
    "older policy": lambda clinic: (clinic.conditioned(condition(policy="policy-2")), release()),
    "question": lambda clinic: (clinic.conditioned(condition()), replace(release(), question="other")),
}


@pytest.mark.parametrize("other", OTHERS)
def test_an_approval_admits_nothing_else(ledger: sf.Ledger, other: str) -> None:
    clinic = account(ledger)
    approve(clinic, clinic.requests.file(request(clinic, release()), "ana").number)
    paying, entry = OTHERS[other](clinic)
    with pytest.raises(ApprovalNeeded):
        paying.charge(entry)
    assert charges(ledger) == 0
    clinic.conditioned(condition()).charge(release())


def test_an_amended_account_needs_new_approvals(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    approve(clinic, clinic.requests.file(request(clinic, release()), "ana").number)
    clinic.amend(reason="a larger study", epsilon=7)
    with pytest.raises(ApprovalNeeded):
        clinic.conditioned(condition()).charge(release())


def test_an_approval_is_of_one_account(ledger: sf.Ledger) -> None:
    clinic, school = account(ledger), account(ledger, name="school")
    approve(clinic, clinic.requests.file(request(clinic, release()), "ana").number)
    with pytest.raises(ApprovalNeeded):
        school.conditioned(condition()).charge(release())
    number = clinic.requests.list()[0].number
    with pytest.raises(NotThere):
        school.requests.read(number)
    with pytest.raises(NotThere):
        clinic.requests.read(1)


def test_tabs_and_questions_need_the_approval_too(ledger: sf.Ledger) -> None:
    clinic, entry = account(ledger), release()
    paying = clinic.conditioned(condition())
    for spend in (lambda: paying.open_tab(entry), lambda: paying.ask(entry, {}).begin(), lambda: paying.charge(entry)):
        with pytest.raises(ApprovalNeeded):
            spend()
    assert [line.kind for line in ledger.lines()] == ["account-open"]
    with pytest.raises(ApprovalNeeded, match="has changed since it was assessed"):
        assessing(clinic, entry, reason="").charge(release(plan="q"))
    assert assessing(clinic, entry, reason="").ask(entry, {}).begin() is None


def test_every_period_pays_for_what_was_approved(ledger: sf.Ledger) -> None:
    clinic = ledger.account("clinic", unit=PATIENT, budget=sf.Budget(1), per="month")
    assert isinstance(clinic, PeriodAccounts)
    months, entry = clinic.for_periods(("2024-03", "2024-04")), release()
    with pytest.raises(ApprovalNeeded):
        months.conditioned(condition()).charge(entry)
    approve(clinic, clinic.requests.file(request(months, entry), "ana").number)
    months.conditioned(condition()).charge(entry)
    kinds = [line.kind for line in ledger.lines()]
    assert kinds[-6:] == ["charge", "account-open", "period", "account-open", "period", "request-step"]
    assert ledger.verify().holds


# ── shares ─────────────────────────────────────────────────────────────────────────────────────


def share(clinic: Account, **changes: Any) -> GrantedShare:
    expires = clinic.requests.now() + DAY
    return replace(GrantedShare("ana", Fraction(1, 2), POLICY, 1, expires, ("visits",), ("questions",)), **changes)


def test_a_share_pays_up_to_its_epsilon(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    record = clinic.requests.file(share(clinic), "ana", approved_by="olga")
    for entry in (release(plan="p1"), release(plan="p2")):
        assessing(clinic, entry).charge(entry)
    with pytest.raises(ApprovalNeeded):
        assessing(clinic, release(plan="p3")).charge(release(plan="p4", epsilon="0.001"))
    with pytest.raises(ApprovalNeeded):
        assessing(clinic, last := release(plan="p3", epsilon="0.001")).charge(last)
    used = clinic.requests.read(record.number)
    assert (used.used, len(used.charges)) == (Fraction(1, 2), 2)
    assert state(clinic, record.number) is RequestState.APPROVED
    assert ledger.verify().holds


@pytest.mark.parametrize(
    ("terms", "use"),
    [
        ({"kinds": ("synthesis",)}, {}),
        ({"tables": ("staff",)}, {}),
        ({"measures": ("sum",)}, {}),
        ({"measures": ("count",)}, {"measures": frozenset(("count", "sum"))}),
        ({"measures": ("count",)}, {"measures": None}),
        ({}, {"tables": frozenset(("visits", "staff"))}),
        ({}, {"tables": None}),
        ({}, {"policy": "policy-2"}),
        ({}, {"requester": "ben"}),
        ({"approvals": 2}, {}),
        ({"epsilon": Fraction(1, 5)}, {}),
    ],
)
def test_a_share_covers_what_it_says(ledger: sf.Ledger, terms: dict[str, Any], use: dict[str, Any]) -> None:
    clinic = account(ledger)
    clinic.requests.file(share(clinic, **terms), "ana", approved_by="olga")
    with pytest.raises(ApprovalNeeded):
        assessing(clinic, release(), **use).charge(release())
    if not terms:
        assessing(clinic, release()).charge(release())
    elsewhere = release(plan="changed since", epsilon="0.01")
    with pytest.raises(ApprovalNeeded):
        assessing(clinic, release()).charge(elsewhere)


def test_nobody_grants_themselves_a_share(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    with pytest.raises(RequestDecided, match="ana filed this request"):
        clinic.requests.file(share(clinic), "ana", approved_by="ana")
    assert clinic.requests.list() == ()


# ── clocks ─────────────────────────────────────────────────────────────────────────────────────


def test_what_has_expired_is_neither_approved_nor_released(ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = account(ledger)
    start = clinic.requests.now()
    approved, filed = (clinic.requests.file(request(clinic, release()), "ana").number for _ in range(2))
    granted = clinic.requests.file(share(clinic, expires=start + 30 * DAY), "ana", approved_by="olga").number
    approve(clinic, approved)
    monkeypatch.setattr(SQLiteRows, "now", lambda _: start + 31 * DAY)
    assert [state(clinic, each) for each in (approved, filed, granted)] == [RequestState.EXPIRED] * 3
    with pytest.raises(ApprovalNeeded, match="is expired"):
        clinic.conditioned(condition()).charge(release())
    with pytest.raises(ApprovalNeeded):
        assessing(clinic, other := release(plan="other")).charge(other)
    with pytest.raises(RequestDecided, match=r"but request \d+ is expired"):
        approve(clinic, filed)
    ledger_line = clinic.charge(release(plan="later"))
    monkeypatch.setattr(SQLiteRows, "now", lambda _: start)  # a clock that jumps back brings nothing back
    assert state(clinic, approved) is RequestState.EXPIRED
    assert ledger_line.number


def last_time(ledger: sf.Ledger) -> int:
    """Return the time of the last line, in microseconds since 1970."""
    return round(list(ledger.lines())[-1].time.timestamp() * 1_000_000)


JUMPS = {
    "an hour forward": (timedelta(hours=1), RequestState.APPROVED),
    "a year forward": (timedelta(days=365), RequestState.EXPIRED),
    "an hour back": (timedelta(hours=-1), RequestState.APPROVED),
    "a year back": (timedelta(days=-365), RequestState.APPROVED),
}


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("kind", ["request", "share"])
def test_a_clock_that_jumps_ends_an_approval_early_and_never_revives_one(
    ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch, jump: str, kind: str
) -> None:
    clinic, entry = account(ledger), release()
    subject = request(clinic, entry) if kind == "request" else share(clinic, expires=clinic.requests.now() + 30 * DAY)
    number = clinic.requests.file(subject, "ana", approved_by="olga").number
    moved, expected = JUMPS[jump]
    written = last_time(ledger)
    clock = [written + moved // timedelta(microseconds=1)]
    monkeypatch.setattr(SQLiteRows, "now", lambda _: clock[0])
    assert state(clinic, number) is expected
    assert clinic.requests.now() >= written  # the ledger's time does not go back behind its last line
    paying = assessing(clinic, entry)
    if expected is RequestState.EXPIRED:
        with pytest.raises(ApprovalNeeded):
            paying.charge(entry)
        clinic.requests.file(request(clinic, release(plan="q")), "ana")  # a line with the time of the wrong clock
        clock[0] = written
        assert state(clinic, number) is RequestState.EXPIRED
        with pytest.raises(ApprovalNeeded):
            paying.charge(entry)
    else:
        paying.charge(entry)
        assert clinic.requests.read(number).charges
    assert ledger.verify().holds


def test_a_clock_that_goes_back_does_not_move_an_expiry(ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted from the ledger's time, so a request that is filed meanwhile expires no earlier and no later."""
    clinic = account(ledger)
    before = last_time(ledger)
    monkeypatch.setattr(SQLiteRows, "now", lambda _: before - 40 * DAY)
    assert clinic.requests.now() == before
    number = clinic.requests.file(request(clinic, release()), "ana", approved_by="olga").number
    assert clinic.requests.read(number).subject.expires == before + 30 * DAY
    monkeypatch.setattr(SQLiteRows, "now", lambda _: before + 29 * DAY)
    assert state(clinic, number) is RequestState.APPROVED
    monkeypatch.setattr(SQLiteRows, "now", lambda _: before + 31 * DAY)
    assert state(clinic, number) is RequestState.EXPIRED


def test_verification_replays_the_state_machine(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    number = clinic.requests.file(request(clinic, release()), "ana").number
    detail = codec.dumps(RequestStep(RequestAct.RELEASE, "ana", charge=1))
    with ledger._guarded.writing() as transaction:
        transaction.append("request-step", "clinic", {"analyst": "ana", "about": number, "detail": detail})
    assert not ledger.verify().holds
    assert "not in a state that allows this step" in ledger.verify().why


# ── races ──────────────────────────────────────────────────────────────────────────────────────


def race(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls at once; return what each returned, or its refusal."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except SfumatoError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


def test_releases_that_race_spend_once(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    approve(clinic, clinic.requests.file(request(clinic, release()), "ana").number)
    outcomes = race(*[lambda: clinic.conditioned(condition()).charge(release())] * 8)
    assert sum(isinstance(each, ApprovalNeeded) for each in outcomes) == 7
    assert charges(ledger) == 1


def test_requests_that_race_stay_within_the_bound(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    subjects = [request(clinic, release(plan=f"p{number}")) for number in range(8)]
    file = clinic.requests.file
    outcomes = race(*[lambda each=each: file(each, "ana", max_open=3) for each in subjects])  # type: ignore[misc]
    assert sum(isinstance(each, Unsupported) for each in outcomes) == 5
    assert len(clinic.requests.list()) == 3


def test_equal_requests_that_race_are_one(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    subject = request(clinic, release())
    outcomes = race(*[lambda: clinic.requests.file(subject, "ana", max_open=3)] * 6)
    assert {each.number for each in outcomes} == {clinic.requests.list()[0].number}


def test_shares_and_others_leave_room_for_own_requests(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    clinic.requests.file(share(clinic), "ana", approved_by="olga")
    clinic.requests.file(request(clinic, release(), requester="ben"), "ana", max_open=1)
    clinic.requests.file(request(clinic, release()), "ana", max_open=1)
    with pytest.raises(Unsupported, match="at most 1 open requests"):
        clinic.requests.file(request(clinic, release(plan="q")), "ana", max_open=1)


def test_approvals_that_race_count_once_each(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    number = clinic.requests.file(request(clinic, release(), approvals=2), "ana").number
    outcomes = race(*[lambda: approve(clinic, number)] * 4)
    assert sum(isinstance(each, RequestDecided) for each in outcomes) == 3
    assert state(clinic, number) is RequestState.FILED


@pytest.mark.parametrize("act", [RequestAct.WITHDRAW, RequestAct.REFUSE])
def test_a_release_and_its_end_that_race_have_one_winner(ledger: sf.Ledger, act: RequestAct) -> None:
    clinic = account(ledger)
    for turn in range(4):
        entry = release(plan=f"p{turn}")
        number = clinic.requests.file(request(clinic, entry), "ana").number
        approve(clinic, number)
        step = RequestStep(act, ACTORS[act], "no longer needed")
        race(
            lambda entry=entry: clinic.conditioned(condition()).charge(entry),  # type: ignore[misc]
            lambda number=number, step=step: clinic.requests.record_step(number, step),  # type: ignore[misc]
        )
        record = clinic.requests.read(number)
        assert len(record.steps) == 2
        assert bool(record.charges) == (state(clinic, number) is RequestState.RELEASED)
    assert ledger.verify().holds


def test_an_amendment_that_races_a_release_comes_before_or_after_it(ledger: sf.Ledger) -> None:
    clinic = account(ledger)
    approve(clinic, clinic.requests.file(request(clinic, release()), "ana").number)
    race(
        lambda: clinic.conditioned(condition()).charge(release()),
        lambda: clinic.amend(reason="a larger study", epsilon=7),
    )
    kinds = [line.kind for line in ledger.lines()]
    assert "charge" not in kinds or kinds.index("charge") < kinds.index("amend")


@pytest.mark.parametrize("turn", range(3))
def test_approvals_amendments_and_releases_that_race(ledger: sf.Ledger, turn: int) -> None:
    """Whatever comes first, nothing is charged after the amendment under the approval from before it."""
    clinic = account(ledger)
    number = clinic.requests.file(request(clinic, release(), approvals=2), "ana").number
    approve(clinic, number)
    calls = [
        lambda: approve(clinic, number, "oda"),
        lambda: clinic.amend(reason="a larger study", epsilon=7 + turn),
        lambda: clinic.conditioned(condition()).charge(release()),
    ]
    race(*calls[turn:], *calls[:turn])
    kinds = [line.kind for line in ledger.lines()]
    assert "charge" not in kinds or kinds.index("charge") < kinds.index("amend")
    assert state(clinic, number) is (RequestState.RELEASED if "charge" in kinds else RequestState.APPROVED)
    charged = charges(ledger)
    with pytest.raises(ApprovalNeeded):
        clinic.conditioned(condition()).charge(release())
    assert charges(ledger) == charged
    assert ledger.verify().holds


def test_a_lapse_that_races_a_release_comes_before_or_after_it(ledger: sf.Ledger) -> None:
    clinic, owners = account(ledger), {"olga", "oda", "otto"}
    requests = clinic.requests.decided_by(lambda name: name in owners)
    number = requests.file(request(clinic, release(), approvals=2), "ana").number
    for name in ("olga", "oda"):
        requests.record_step(number, RequestStep(RequestAct.APPROVE, name))
    paying = clinic.conditioned(condition(is_owner=lambda name: name in owners))
    race(lambda: paying.charge(release()), lambda: owners.discard("oda"))
    if charges(ledger):
        assert requests.read(number).state(requests.now()) is RequestState.RELEASED
    else:
        assert requests.read(number).state(requests.now()) is RequestState.FILED
        requests.record_step(number, RequestStep(RequestAct.APPROVE, "otto"))
        paying.charge(release())
    assert ledger.verify().holds


# ── crashes ────────────────────────────────────────────────────────────────────────────────────


def live_to_the_answer(clinic: Account) -> None:
    """A request that two owners approve, and whose release is answered."""
    number = clinic.requests.file(request(clinic, release(), approvals=2), "ana").number
    approve(clinic, number)
    approve(clinic, number, "oda")
    query = clinic.conditioned(condition()).ask(release(), {})
    assert query.begin() is None
    clinic.answer(query.line, "1", {})


def live_through_a_lapse(clinic: Account) -> None:
    """An approver who leaves: the lapse is recorded with the next approval, and then it is released."""
    owners = {"olga", "oda", "otto"}
    requests = clinic.requests.decided_by(lambda name: name in owners)
    number = requests.file(request(clinic, release(), approvals=2), "ana").number
    for name in ("olga", "oda"):
        requests.record_step(number, RequestStep(RequestAct.APPROVE, name))
    owners.remove("oda")
    requests.record_step(number, RequestStep(RequestAct.APPROVE, "otto"))
    clinic.conditioned(condition(is_owner=lambda name: name in owners)).charge(release())


def live_on_a_share(clinic: Account) -> None:
    """A share of counts that two owners grant, that pays twice, lapses, and is refused."""
    owners = {"olga", "oda"}
    requests = clinic.requests.decided_by(lambda name: name in owners)
    number = requests.file(share(clinic, approvals=2, measures=("count",)), "ana", approved_by="olga").number
    requests.record_step(number, RequestStep(RequestAct.APPROVE, "oda"))
    for plan in ("p", "q"):
        entry = release(plan=plan, epsilon="0.1")
        assessing(clinic, entry).charge(entry)
    owners.remove("olga")
    requests.record_step(number, RequestStep(RequestAct.REFUSE, "oda", "the study is over"))


LIVES: dict[str, tuple[Callable[[Account], None], int]] = {
    "answered": (live_to_the_answer, 7),
    "lapsed": (live_through_a_lapse, 8),
    "share": (live_on_a_share, 10),
}
"""By name: what is done, and how many lines that appends with the one that opens the account."""


@pytest.mark.parametrize(
    ("life", "last"), [(name, last) for name, (_, lines) in LIVES.items() for last in range(lines)]
)
def test_killed_at_each_line_of_a_requests_life(tmp_path: Path, life: str, last: int) -> None:
    """After so many lines and one more, which was not committed; what is there is consistent and goes on."""
    path, child = tmp_path / "l", os.fork()
    if not child:
        appended, append = [0], SQLiteRows.append

        def append_or_die(rows: SQLiteRows, row: Row) -> None:
            append(rows, row)
            if appended[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            appended[0] += 1

        SQLiteRows.append = append_or_die  # type: ignore[method-assign]
        try:
            with sf.Ledger.open(path) as ledger:
                LIVES[life][0](account(ledger))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    with sf.Ledger.open(path) as ledger:
        assert ledger.verify().holds
        kinds = [line.kind for line in ledger.lines()]
        steps = [codec.loads_as(RequestStep, line.detail) for line in ledger.lines() if line.kind == "request-step"]
        assert kinds.count("charge") == sum(step.act is RequestAct.RELEASE for step in steps)
        assert not steps or steps[-1].act is not RequestAct.LAPSE  # recorded with the decision after it, or not at all
        assert len(kinds) <= last
        granted = [record for record in account(ledger).requests.list() if record.subject.is_share]
        assert all(record.steps for record in granted)  # never a share without the approval of whoever granted it


def test_the_lives_of_requests_have_so_many_lines(tmp_path: Path) -> None:
    for name, (live, lines) in LIVES.items():
        with sf.Ledger.open(tmp_path / name) as ledger:
            live(account(ledger))
            assert len(list(ledger.lines())) == lines, name


# ── what a charge reads ────────────────────────────────────────────────────────────────────────


def test_a_charge_decodes_its_own_request_and_shares_only(ledger: sf.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic, entry = account(ledger), release()
    own = clinic.requests.file(request(clinic, entry)).number
    approve(clinic, own)
    clinic.requests.file(request(clinic, release(plan="other")))
    expires = clinic.requests.now() + DAY
    clinic.requests.file(PublicationReview("ana", (1, 2), "a report", POLICY, 1, expires))
    share = clinic.requests.file(GrantedShare("ana", Fraction(1, 100), POLICY, 1, expires), approved_by="olga").number
    decoded, of = list[int](), RequestRecord.from_rows
    monkeypatch.setattr(RequestRecord, "from_rows", lambda row, steps=(): decoded.append(row.number) or of(row, steps))
    with pytest.raises(ApprovalNeeded):
        clinic.conditioned(condition()).charge(release(plan="third"))
    assert decoded == [share]
    decoded.clear()
    clinic.conditioned(condition()).charge(entry)
    assert decoded == [own]


def test_a_request_of_an_earlier_version_belongs_to_every_server_and_its_text_is_the_same() -> None:
    """The id of the people file is an optional field: absent where it is empty, and no part of the digest."""
    review = PublicationReview("ana", (3,), "report", POLICY, 1, 10**15)
    for subject in (REQUEST, review, GrantedShare("ana", Fraction(1), POLICY, 1, 10**15)):
        assert "people" not in codec.dumps(subject)
        belonging = replace(subject, people="theirs")
        assert codec.loads(codec.dumps(belonging)) == belonging
        record = RequestRecord(1, datetime.now(UTC), "clinic", "ana", subject)
        assert all(record.belongs_to(people) for people in ("", "ours", "theirs"))
        there = replace(record, subject=belonging)
        assert [there.belongs_to(people) for people in ("", "ours", "theirs")] == [True, False, True]
    assert replace(review, people="theirs").digest == review.digest
