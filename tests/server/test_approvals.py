"""Requests and approval at the gateway: what was approved is what is released, once, by its requester."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from server.small_server import BOTH, COUNT, SmallServer, open_server, questions, write_policies
from sfumato.cli import main
from sfumato.curator.policy_account import read_policy
from sfumato.errors import (
    ApprovalNeeded,
    InvalidParameter,
    NotAllowed,
    NotThere,
    RequestDecided,
    SfumatoError,
    Unsupported,
)
from sfumato.ledger.approval_requests import parse_last_day
from sfumato.ledger.stores.sqlite import SQLiteRows
from sfumato.reports import verify_bundle
from sfumato.reports.account_reports import reviewed_lines
from sfumato.reports.signing_keys import SigningKey
from sfumato.server import approvals
from sfumato.server.approvals import RequestedRelease, ShareTerms
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.users import Caller, Role

PRICE = {"epsilon": "0.2"}
ASKED = RequestedRelease("questions", COUNT, PRICE)
ODA, ODO = Caller("oda", Role.OWNER), Caller("odo", Role.OWNER)


def governed(
    folder: Path,
    rules: str = "approvals = 1",
    epsilon: str = "3",
    rows: Sequence[str] = (),
    relation: str = "add-remove",
    names: Sequence[str] = ("clinic",),
) -> SmallServer:
    """Open a server whose clinic has approval rules, with a second owner; and with these rows where some are given."""
    clinic, _ = write_policies(folder, epsilon)
    if rows:
        (folder / "visits.csv").write_text("\n".join(["patient,region,age", *rows]) + "\n")
    text = clinic.read_text().replace("size = 40", f'size = 40\nneighbours = "{relation}"')
    clinic.write_text(f"{text}\n[approval]\n{rules}\n")
    server = open_server(folder, names, fresh=False)
    for name, role in (
        ("ana", "analyst"),
        ("ben", "analyst"),
        ("olga", "owner"),
        ("otto", "auditor"),
        ("oda", "owner"),
    ):
        server.people.add_user(name, role, by="olga")
    return server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SmallServer]:
    opened = governed(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def beside_a_school(tmp_path: Path) -> Iterator[SmallServer]:
    """The same with a second policy, which has no rules and names ben alone."""
    opened = governed(tmp_path, names=BOTH)
    yield opened
    opened.close()


def file(server: SmallServer, who: Caller | None = None, release: RequestedRelease = ASKED) -> int:
    return server.counter.requests.file(who or server.ana, "clinic", release, "the annual report").number


def buy(server: SmallServer, who: Caller | None = None, key: str = "k1", release: RequestedRelease = ASKED) -> Any:
    return server.counter.release(who or server.ana, "clinic", release.kind, release.spec, release.price, key)


def test_a_request_is_filed_approved_and_released(server: SmallServer) -> None:
    requests = server.counter.requests
    with pytest.raises(ApprovalNeeded, match="every release of this policy needs it"):
        buy(server)
    filed = requests.file(server.ana, "clinic", ASKED, "the annual report")
    assert (filed.state, filed.requester, filed.approvals) == ("filed", "ana", 1)
    assert "SELECT COUNT(*)" in filed.words
    assert "95 % confidence" in filed.words
    with pytest.raises(ApprovalNeeded, match=f"request {filed.number} for it is filed"):
        buy(server)
    approved = requests.approve(server.owner, "clinic", filed.number)
    assert (approved.state, approved.approvers) == ("approved", ("olga",))
    assert "a belief of 1 % becomes at most" in approved.one_person
    assert approved.left_after == "ε = 2.8 of 3"
    answer = requests.release(server.ana, "clinic", filed.number, "k1").wait_for_result()
    assert not answer.free
    shown = requests.show(server.ana, "clinic", filed.number)
    assert (shown.state, len(shown.charges)) == ("released", 1)
    assert server.charges() == 1
    assert server.ledger.verify().holds
    kinds = [line.kind for line in server.ledger.lines()][-5:]
    assert kinds == ["request", "request-step", "charge", "request-step", "answer"]


# ── who may do what, in which state ────────────────────────────────────────────────────────────

STATES = ("filed", "approved", "refused", "withdrawn", "released", "expired")
"""The last is reached by the clock, which goes on for all of them."""
WHO = ("ana", "ben", "owner", "other owner", "auditor")
"""Ana is the requester of all; the owner has approved what is approved, or granted it."""
CALLS: dict[str, Callable[[SmallServer, Caller, int], Any]] = {
    "show": lambda server, who, number: server.counter.requests.show(who, "clinic", number),
    "approve": lambda server, who, number: server.counter.requests.approve(who, "clinic", number),
    "refuse": lambda server, who, number: server.counter.requests.refuse(who, "clinic", number, "too fine"),
    "withdraw": lambda server, who, number: server.counter.requests.withdraw(who, "clinic", number),
    "release": lambda server, who, number: server.counter.requests.release(
        who, "clinic", number, f"key-{number}-{who.user}"
    ).wait_for_result(),
}
NEXT = {
    "filed": {"approve", "refuse", "withdraw"},
    "approved": {"refuse", "withdraw", "release"},
    "released": {"release"},
}
"""The steps that a state allows; a released answer is stored, and shown again for free."""


def of_role(server: SmallServer, who: str) -> Caller:
    return ODA if who == "other owner" else getattr(server, who)  # type: ignore[no-any-return]


class Subjects:
    """Requests of one kind in every state, as many as a table of calls needs."""

    def __init__(self, server: SmallServer, kind: str, *, half: bool = False) -> None:
        self.server, self.kind = server, kind
        self.half = half or kind == "share"
        """Whether the first owner has approved what is filed, and a second one is needed."""
        self._numbers = count(1)
        self._line = 0

    def reach(self, state: str) -> int:
        """Make a request, and take it to a state."""
        filed = self._file()
        steps = {"filed": (), "expired": ("approve",), "approved": ("approve",), "released": ("approve", "release")}
        for step in steps.get(state, ({"refused": "refuse", "withdrawn": "withdraw"}.get(state, ""),)):
            who = "ana" if step in ("withdraw", "release") else "other owner" if self.kind == "share" else "owner"
            CALLS[step](self.server, of_role(self.server, who), filed)
        return filed

    def reach_half(self, state: str) -> int:
        """Make a request that one owner has approved; where it is "lapsed", a third has, too, who is no owner now."""
        filed = self._file()
        if self.kind != "share":
            CALLS["approve"](self.server, self.server.owner, filed)
        if state == "lapsed":
            self.server.people.set_disabled("odo", False, by="olga")
            CALLS["approve"](self.server, ODO, filed)
            self.server.people.set_disabled("odo", True, by="olga")
        return filed

    def _file(self) -> int:
        requests, number = self.server.counter.requests, next(self._numbers)
        if self.kind == "request":
            return file(self.server, release=RequestedRelease("questions", questions(number), PRICE))
        if self.kind == "share":  # granted by one of the two owners that it needs
            terms = ShareTerms("ana", "0.001", 7, ("visits",), ("questions",), f"drafts {number}", ("count",))
            return requests.preapprove_releases(self.server.owner, "clinic", terms).number
        if not self._line:
            self._line = self._buy_an_answer()
        return requests.request_publication(self.server.ana, "clinic", [self._line], f"report {number}").number

    def _buy_an_answer(self) -> int:
        asked = RequestedRelease("questions", questions(70), PRICE)
        self.server.counter.requests.approve(self.server.owner, "clinic", file(self.server, release=asked))
        return int(buy(self.server, key="marked", release=asked).line)

    def expected(self, state: str, call: str, who: str) -> type[SfumatoError] | None:
        """Return the class of the refusal; None if the call succeeds."""
        if call == "show":
            return NotThere if who == "ben" else None
        decides = call in ("approve", "refuse")
        if who == "auditor" or (decides and who not in ("owner", "other owner")):
            return NotAllowed
        if who == "ben" or (call == "release" and (who != "ana" or self.kind != "request")):
            return NotThere
        has_approved = self.half and call == "approve" and who == "owner"  # as whoever grants a share has
        if call in NEXT.get(state, ()) and (call != "withdraw" or who == "ana") and not has_approved:
            return None
        return ApprovalNeeded if call == "release" else RequestDecided


@pytest.mark.parametrize("kind", ["request", "share", "review"])
def test_every_call_of_every_role_in_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Of a request, of a share of counts and of answers that are marked for publication."""
    server = governed(tmp_path, f"approvals = {2 if kind == 'share' else 1}", epsilon="30")
    monkeypatch.setattr(approvals, "MAX_OPEN", 500)
    subjects = Subjects(server, kind)
    for state in STATES if kind == "request" else [each for each in STATES if each != "released"]:
        kept = subjects.reach(state)
        if state == "expired":
            later = server.served.account("clinic").requests.now() + 31 * 86_400_000_000
            monkeypatch.setattr(SQLiteRows, "now", lambda _, later=later: later)
        for call, who in product(CALLS, WHO):
            refusal = subjects.expected(state, call, who)
            if refusal is not None:
                with pytest.raises(refusal):
                    CALLS[call](server, of_role(server, who), kept)
            else:
                CALLS[call](server, of_role(server, who), kept if call == "show" else subjects.reach(state))
        assert server.counter.requests.show(server.owner, "clinic", kept).state == state
    assert server.ledger.verify().holds
    server.close()


@pytest.mark.parametrize("kind", ["request", "share", "review"])
def test_every_call_of_every_role_while_an_approval_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, long: bool
) -> None:
    """One of two approvals was given; or both were, and one has lapsed."""
    server = governed(tmp_path, "approvals = 2", epsilon="30")
    server.people.add_user("odo", "owner", by="olga")
    monkeypatch.setattr(approvals, "MAX_OPEN", 500)
    if kind == "review":  # of an answer that was bought before
        monkeypatch.setattr(Subjects, "_buy_an_answer", bought_with_two_approvals)
    subjects = Subjects(server, kind, half=True)
    for state in ("half-approved", "lapsed") if long else ("lapsed",):  # in which one other counts
        kept = subjects.reach_half(state)
        for call, who in product(CALLS, WHO):
            refusal = subjects.expected("filed", call, who)
            if refusal is not None:
                with pytest.raises(refusal):
                    CALLS[call](server, of_role(server, who), kept)
            else:
                view = CALLS[call](server, of_role(server, who), kept if call == "show" else subjects.reach_half(state))
                if call == "approve":  # the second counts
                    assert (view.state, view.approvers) == ("approved", ("olga", "oda"))
        view = server.counter.requests.show(server.owner, "clinic", kept)
        assert (view.state, view.approvers) == ("filed", ("olga",))
    assert server.ledger.verify().holds
    server.close()


def bought_with_two_approvals(subjects: Subjects) -> int:
    server, asked = subjects.server, RequestedRelease("questions", questions(70), PRICE)
    number = file(server, release=asked)
    for who in (server.owner, ODA):
        server.counter.requests.approve(who, "clinic", number)
    return int(buy(server, key="marked", release=asked).line)


@pytest.mark.parametrize("state", ["filed", "approved", "refused", "withdrawn", "expired", "lapsed", "used up"])
def test_a_share_of_counts_pays_in_one_state_and_for_counts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    server = governed(tmp_path, "approvals = 2")
    requests, price = server.counter.requests, {"epsilon": "0.1"}
    terms = ShareTerms("ana", "0.1" if state == "used up" else "0.3", 7, purpose="drafts", measures=("count",))
    number = requests.preapprove_releases(server.owner, "clinic", terms).number
    if state != "filed":
        requests.approve(ODA, "clinic", number)
    if state == "refused":
        requests.refuse(server.owner, "clinic", number, "the drafts are done")
    elif state == "withdrawn":
        requests.withdraw(server.ana, "clinic", number)
    elif state == "lapsed":
        server.people.set_disabled("oda", True, by="olga")
    elif state == "used up":
        buy(server, key="first", release=RequestedRelease("questions", questions(1), price))
    elif state == "expired":
        later = server.served.account("clinic").requests.now() + 8 * 86_400_000_000
        monkeypatch.setattr(SQLiteRows, "now", lambda _: later)
    before = server.charges()
    counted = RequestedRelease("questions", questions(2), price)
    for kind, spec in (("questions", {"sql": "SELECT SUM(age) AS s FROM visits"}), ("marginals", {"table": "visits"})):
        if kind == "questions" or state != "approved":  # marginals are counts
            with pytest.raises(ApprovalNeeded):
                buy(server, key=f"other-{kind}", release=RequestedRelease(kind, spec, price))
    if state == "approved":
        assert not buy(server, key="counted", release=counted).free
    else:
        with pytest.raises(ApprovalNeeded):
            buy(server, key="counted", release=counted)
    assert server.charges() - before == (state == "approved")
    server.close()


def own_answer(server: SmallServer, who: Caller) -> int:
    """Buy an answer with an approval, where this role may buy; else the line of nobody's."""
    if who.role is Role.AUDITOR:
        return 1
    asked = RequestedRelease("questions", questions(60 + "ana ben olga".index(who.user)), PRICE)
    server.counter.requests.approve(ODA, "clinic", file(server, who, asked))
    return int(buy(server, who, f"own-{who.user}", asked).line)


OFFERS: dict[str, Callable[[SmallServer, Caller], Any]] = {
    "file": lambda server, who: file(server, who, RequestedRelease("questions", questions(99), PRICE)),
    "list": lambda server, who: server.counter.requests.list(who, "clinic"),
    "grant": lambda server, who: server.counter.requests.preapprove_releases(
        who, "clinic", ShareTerms("ben", "0.1", 7, purpose="drafts")
    ),
    "waiting": lambda server, who: server.counter.requests.approval_reason(who, "clinic", ASKED),
    "publish": lambda server, who: server.counter.requests.request_publication(
        who, "clinic", [own_answer(server, who)], "a report"
    ),
}
ADMITTED = {
    "file": {"ana", "ben", "owner"},
    "list": {"ana", "ben", "owner", "auditor"},
    "grant": {"owner"},
    "waiting": {"ana", "ben", "owner"},
    "publish": {"ana", "ben", "owner"},
}


@pytest.mark.parametrize("offer", OFFERS)
def test_what_needs_no_request_is_offered_by_role(server: SmallServer, offer: str) -> None:
    for who in ("ana", "ben", "owner", "auditor"):
        try:
            OFFERS[offer](server, getattr(server, who))
        except NotAllowed:
            assert who not in ADMITTED[offer], (offer, who)
        else:
            assert who in ADMITTED[offer], (offer, who)


def test_two_servers_on_one_ledger_decide_together(tmp_path: Path) -> None:
    """File at one, approve at the other, and let both release: one of them is charged."""
    one = governed(tmp_path, "approvals = 2")
    two = one.again()
    asked = RequestedRelease("questions", COUNT, {"epsilon": "0.2", "fresh": True})
    try:
        number = file(one, release=asked)
        one.counter.requests.approve(one.owner, "clinic", number)
        with pytest.raises(RequestDecided, match="already approved"):
            two.counter.requests.approve(two.owner, "clinic", number)
        assert two.counter.requests.approve(ODA, "clinic", number).state == "approved"
        ready = threading.Barrier(4)

        def attempt(turn: int) -> bool:
            ready.wait()
            try:
                return not buy((one, two)[turn % 2], key=f"race-{turn}", release=asked).free
            except ApprovalNeeded:
                return False

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(attempt, range(4))) == 1
        assert one.charges() == 1
        assert two.counter.requests.show(two.ana, "clinic", number).state == "released"
        one.people.set_disabled("oda", True, by="olga")
        assert not two.people.is_owner("oda")
    finally:
        two.close()
        one.close()


def with_people_of_its_own(one: SmallServer) -> SmallServer:
    """Open another server on the same ledger, as on another machine: with a people file of its own, in which ana is
    somebody else, and olga and oda are no owners.
    """
    two = open_server(one.folder, fresh=False, people_file=one.folder / "other.people")
    for name, role in (("ana", "analyst"), ("olga", "analyst"), ("oda", "auditor"), ("otis", "owner")):
        two.people.add_user(name, role, by="otis")
    return two


def test_people_files_that_share_a_ledger_keep_their_requests_apart(server: SmallServer) -> None:
    """Nobody at another server sees, decides, lapses or releases a request, though names and the charge are equal."""
    requests, other = server.counter.requests, with_people_of_its_own(server)
    otis = Caller("otis", Role.OWNER)
    try:
        filed = file(server)
        requests.approve(server.owner, "clinic", filed)
        lines = len(list(server.ledger.lines()))
        there = other.counter.requests
        assert there.list(otis, "clinic") == there.list(other.ana, "clinic") == ()
        for call in (
            lambda: there.show(otis, "clinic", filed),
            lambda: there.approve(otis, "clinic", filed),
            lambda: there.refuse(otis, "clinic", filed, "not ours"),
            lambda: there.withdraw(other.ana, "clinic", filed),
            lambda: there.release(other.ana, "clinic", filed, "k2").wait_for_result(),
        ):
            with pytest.raises(NotThere):
                call()
        with pytest.raises(ApprovalNeeded):
            buy(other, key="k2")
        assert len(list(server.ledger.lines())) == lines  # no lapse, and nothing else
        assert requests.show(server.ana, "clinic", filed).approvers == ("olga",)
        second = file(other)
        assert second != filed
        assert there.approve(otis, "clinic", second).approvers == ("otis",)
        assert [view.number for view in requests.list(server.owner, "clinic")] == [filed]
        assert not buy(server).free
        assert requests.show(server.owner, "clinic", filed).state == "released"
        assert there.show(otis, "clinic", second).state == "approved"
        assert server.ledger.verify().holds
    finally:
        other.close()


def test_a_granted_share_and_a_review_stay_at_their_server(server: SmallServer) -> None:
    requests, other = server.counter.requests, with_people_of_its_own(server)
    otis = Caller("otis", Role.OWNER)
    try:
        requests.preapprove_releases(server.owner, "clinic", ShareTerms("ana", "1", 30, purpose="drafts"))
        with pytest.raises(ApprovalNeeded):
            buy(other, key="k2")
        bought = buy(server)
        assert not bought.free
        marked = requests.request_publication(server.ana, "clinic", [bought.line], "the report").number
        requests.approve(server.owner, "clinic", marked)
        assert other.counter.requests.list(otis, "clinic") == ()
        policy = read_policy(server.folder / "clinic.toml")
        assert reviewed_lines(policy, None, server.people.is_owner, server.people.id) == (bought.line,)
        for is_owner, people in ((other.people.is_owner, other.people.id), (lambda _: True, other.people.id)):
            with pytest.raises(SfumatoError, match="no answer is both marked"):
                reviewed_lines(policy, None, is_owner, people)
    finally:
        other.close()


def test_a_people_file_keeps_its_id_in_every_process_and_backup(server: SmallServer) -> None:
    again = server.again()
    server.people.database.backup(server.folder / "copy.people", 0)
    copy, other = PeopleFile(server.folder / "copy.people"), with_people_of_its_own(server)
    try:
        assert server.people.id == again.people.id == copy.id != other.people.id
        assert len(server.people.id) >= 40
        filed = file(server)  # the other process is of the same people
        assert again.counter.requests.approve(again.owner, "clinic", filed).state == "approved"
    finally:
        for opened in (again, copy, other):
            opened.close()


DAY = 86_400_000_000
NOON = 1_800_014_400_000_000
"""2027-01-15 at noon, in UTC."""


@pytest.mark.parametrize(
    ("until", "days", "expires"),
    [
        (date(2027, 1, 15), None, NOON + DAY // 2),
        (date(2027, 1, 16), None, NOON + DAY + DAY // 2),
        (date(2037, 1, 11), None, NOON + 3649 * DAY + DAY // 2),
        (None, 1, NOON + DAY),
        (date(2027, 1, 14), None, None),
        (date(2037, 1, 12), None, None),
        (date.max, None, None),
        (date.min, None, None),
        (date(2027, 1, 16), 1, None),
        (None, None, None),
        (None, 0, None),
    ],
)
def test_a_share_is_good_until_the_end_of_its_last_day(
    server: SmallServer, monkeypatch: pytest.MonkeyPatch, until: date | None, days: int | None, expires: int | None
) -> None:
    """The day is included, in UTC, whatever zone the server is in."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    now = [NOON]
    monkeypatch.setattr(SQLiteRows, "now", lambda _: now[0])
    grant = lambda: server.counter.requests.preapprove_releases(  # noqa: E731
        server.owner, "clinic", ShareTerms("ana", "0.5", days, purpose="drafts", until=until)
    )
    if expires is None:
        with pytest.raises(InvalidParameter, match=r"until|days"):
            grant()
        return
    number = grant().number
    for moment, state in ((expires - 1, "approved"), (expires, "expired")):
        now[0] = moment
        assert server.counter.requests.show(server.owner, "clinic", number).state == state


@pytest.mark.parametrize("text", ["2027-6-30", "20270630", "2027-W01-1", "2027-02-30", "tomorrow", "", "٢٠٢٧-٠٦-٣٠", 5])
def test_what_is_no_date_is_refused(text: object) -> None:
    assert parse_last_day("2027-06-30") == parse_last_day(date(2027, 6, 30)) == date(2027, 6, 30)
    for wrong in (text, datetime(2027, 6, 30, tzinfo=UTC)):
        with pytest.raises(InvalidParameter, match="a date such as 2027-06-30"):
            parse_last_day(wrong)


def test_other_analysts_see_no_requests(beside_a_school: SmallServer) -> None:
    server = beside_a_school
    filed = file(server)
    requests = server.counter.requests
    assert [each.number for each in requests.list(server.ana, "clinic")] == [filed]
    assert requests.list(server.ben, "clinic") == ()
    assert [each.number for each in requests.list(server.auditor, "clinic")] == [filed]
    with pytest.raises(NotThere):
        requests.show(server.ben, "clinic", filed)
    with pytest.raises(NotThere):
        requests.list(server.ana, "school")
    lines = server.counter.history(server.ben, "clinic").lines
    assert not [line for line in lines if line.kind.startswith("request")]


def test_the_requester_never_approves(server: SmallServer) -> None:
    filed = file(server, server.owner)
    with pytest.raises(RequestDecided, match="olga filed this request"):
        server.counter.requests.approve(server.owner, "clinic", filed)
    server.counter.requests.approve(ODA, "clinic", filed)
    assert not buy(server, server.owner).free


def test_two_owners_approve_where_the_policy_says_so(tmp_path: Path) -> None:
    server = governed(tmp_path, "approvals = 2")
    try:
        filed = file(server)
        assert server.counter.requests.approve(server.owner, "clinic", filed).state == "filed"
        with pytest.raises(RequestDecided, match="already approved"):
            server.counter.requests.approve(server.owner, "clinic", filed)
        with pytest.raises(ApprovalNeeded):
            buy(server)
        assert server.counter.requests.approve(ODA, "clinic", filed).state == "approved"
        assert not buy(server).free
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["a request", "a share", "a review"])
def test_approvals_of_disabled_owners_do_not_count(tmp_path: Path, kind: str) -> None:
    server = governed(tmp_path, "approvals = 2")
    requests, show = server.counter.requests, server.counter.requests.show
    server.people.add_user("ines", "owner", by="olga")
    try:
        if kind == "a review":
            first = file(server, release=RequestedRelease("questions", questions(5), PRICE))
            requests.approve(server.owner, "clinic", first)
            requests.approve(ODA, "clinic", first)
            line = requests.release(server.ana, "clinic", first, "first").wait_for_result().line
            number = requests.request_publication(server.ana, "clinic", [line], "the report").number
            requests.approve(server.owner, "clinic", number)
        elif kind == "a share":
            number = requests.preapprove_releases(
                server.owner, "clinic", ShareTerms("ana", "0.3", 7, purpose="drafts")
            ).number
        else:
            number = file(server)
            requests.approve(server.owner, "clinic", number)
        assert requests.approve(ODA, "clinic", number).state == "approved"
        server.people.set_disabled("oda", True, by="olga")
        seen = show(server.ana, "clinic", number)
        assert (seen.state, seen.approvers) == ("filed", ("olga",))
        assert seen.steps[-1].endswith("oda, approval lapsed: no longer an enabled owner")
        if kind != "a review":
            with pytest.raises(
                ApprovalNeeded, match=f"request {number} .*filed, since oda, who approved it, is no lon"
            ):
                buy(server)
            assert server.charges() == 0
        requests.approve(Caller("ines", Role.OWNER), "clinic", number)
        server.people.set_disabled("oda", False, by="olga")
        assert show(server.ana, "clinic", number).approvers == ("olga", "ines")
        assert kind == "a review" or not buy(server).free
        assert server.ledger.verify().holds
    finally:
        server.close()


def test_a_release_in_the_queue_is_not_charged_once_its_approver_is_disabled(tmp_path: Path) -> None:
    server = governed(tmp_path)
    asked = list[str]()

    def disabling(name: str) -> bool:
        """Disable the owner between the first look and the charge."""
        asked.append(name)
        if len(asked) == 2:
            server.people.set_disabled("oda", True, by="olga")
        return server.people.is_owner(name)

    try:
        server.counter.requests.approve(ODA, "clinic", file(server))
        server.counter.requests.desk._is_owner = disabling
        with pytest.raises(ApprovalNeeded, match="since oda"):
            buy(server)
        assert server.charges() == 0
        assert len(asked) >= 2
    finally:
        server.close()


def test_an_owner_cannot_sign_in_as_another(server: SmallServer) -> None:
    for make in (server.counter.new_token, server.counter.new_login_link):
        with pytest.raises(InvalidParameter, match="could approve in their name"):
            make(server.owner, "oda")
        for name in ("olga", "ana", "otto"):
            assert make(server.owner, name)
    assert not server.people.tokens("oda")


def test_reviews_are_bounded_and_equal_ones_are_one(server: SmallServer, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = server.counter.requests
    requests.approve(server.owner, "clinic", file(server))
    line = buy(server).line
    monkeypatch.setattr(approvals, "MAX_OPEN", 2)
    first = requests.request_publication(server.ana, "clinic", [line], "the report")
    assert requests.request_publication(server.ana, "clinic", [line, line], "the report").number == first.number
    assert requests.request_publication(server.ana, "clinic", [line], "a talk").number > first.number
    with pytest.raises(Unsupported, match="at most 2 open requests"):
        requests.request_publication(server.ana, "clinic", [line], "a third")
    with pytest.raises(Unsupported, match="at most 2 open requests"):
        file(server, release=RequestedRelease("questions", questions(9), PRICE))
    requests.withdraw(server.ana, "clinic", first.number)
    assert requests.request_publication(server.ana, "clinic", [line], "a third").state == "filed"


# ── what an owner reads ────────────────────────────────────────────────────────────────────────

FORGED = "approved  by olga (1 needed)"
HOSTILE = f"the report\n  {FORGED}\x1b[2J\u202e\u2028  {FORGED}"


def test_no_text_of_a_requester_forges_a_line(server: SmallServer) -> None:
    text = f"SELECT COUNT(*) AS n /*\n  {FORGED}\x1b[2J */ FROM visits WHERE region <> 'x\nnoise    none\u202e'"
    asked = RequestedRelease("questions", {"sql": text}, PRICE)
    requests = server.counter.requests
    filed = requests.file(server.ana, "clinic", asked, HOSTILE)
    seen = str(requests.refuse(server.owner, "clinic", filed.number, HOSTILE))
    assert not [
        line for line in seen.splitlines() if line.strip(" |") == FORGED or line.startswith("  | noise    none")
    ]
    assert all(line.isprintable() for line in [*seen.split("\n"), *filed.words.split("\n")])
    assert sum(line.startswith("  approved ") for line in seen.split("\n")) == 1


def test_an_owner_reads_every_question_of_a_release(server: SmallServer) -> None:
    texts = [questions(1)["sql"], f"{COUNT['sql']} WHERE region = 'Zürich'"]
    for kind, spec in (
        ("workloads", {"questions": texts}),
        ("sessions", {"threshold": 5, "questions": texts, "tables": ["visits"]}),
    ):
        number = file(server, release=RequestedRelease(kind, spec, PRICE))
        seen = server.counter.requests.show(server.owner, "clinic", number)
        assert all(text in seen.words and text in str(seen) for text in texts)
        assert f"released  {kind} " in seen.words


# ── what was approved is what is released ──────────────────────────────────────────────────────


OTHERS = (
    RequestedRelease("questions", questions(7), PRICE),
    RequestedRelease("questions", COUNT, {"epsilon": "0.3"}),
    RequestedRelease("questions", COUNT, {"epsilon": "0.1"}),
    RequestedRelease("workloads", {"questions": [COUNT["sql"]]}, PRICE),
    RequestedRelease("marginals", {"table": "visits"}, PRICE),
)


def test_a_release_by_accuracy_is_filed_approved_and_released(server: SmallServer) -> None:
    """The price is what the accuracy needs: known from the policy, and bound by the approval."""
    requests = server.counter.requests
    asked = RequestedRelease("questions", COUNT, {"within": "20"})
    filed = requests.file(server.ana, "clinic", asked, "the annual report")
    assert (filed.state, filed.price) == ("filed", '{"within": "20"}')
    spent = Fraction(filed.epsilon)
    assert 0 < spent < 1
    for other in ({"within": "10"}, {"epsilon": str(spent * 2)}):
        with pytest.raises(ApprovalNeeded):
            buy(server, key=f"other-{other}", release=RequestedRelease("questions", COUNT, other))
    requests.approve(server.owner, "clinic", filed.number)
    with pytest.raises(ApprovalNeeded):
        buy(server, key="finer", release=RequestedRelease("questions", COUNT, {"within": "10"}))
    released = requests.release(server.ana, "clinic", filed.number, "k1").wait_for_result()
    assert not released.free
    assert requests.show(server.ana, "clinic", filed.number).state == "released"
    charge = next(line for line in server.ledger.lines() if line.kind == "charge")
    assert charge.number in requests.show(server.ana, "clinic", filed.number).charges
    assert charge.cost.pure <= Fraction(filed.epsilon) * 10**30
    assert buy(server, key="again", release=asked).free


def test_what_was_withdrawn_is_not_released_by_the_question_itself(server: SmallServer) -> None:
    requests = server.counter.requests
    for number, approved in enumerate((False, True)):
        asked = RequestedRelease("questions", questions(number), PRICE)
        filed = file(server, release=asked)
        if approved:
            requests.approve(server.owner, "clinic", filed)
        requests.withdraw(server.ana, "clinic", filed)
        with pytest.raises(ApprovalNeeded, match=f"request {filed} for it is withdrawn") as refused:
            buy(server, key=f"plain-{number}", release=asked)
        assert "request approval with" in refused.value.fix
        with pytest.raises(ApprovalNeeded):
            requests.release(server.ana, "clinic", filed, f"again-{number}").wait_for_result()
        second = file(server, release=asked)
        assert second != filed
        requests.approve(server.owner, "clinic", second)
        assert not buy(server, key=f"second-{number}", release=asked).free
        assert requests.show(server.ana, "clinic", filed).state == "withdrawn"
    assert server.charges() == 2


def test_a_bundle_has_the_answers_of_reviews_in_one_state_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approved by as many owners as the policy says, who still are owners, and not expired."""
    server = governed(tmp_path, "approvals = 2", epsilon="30")
    server.people.add_user("odo", "owner", by="olga")
    requests, later, original = server.counter.requests, [0], SQLiteRows.now
    monkeypatch.setattr(SQLiteRows, "now", lambda rows: original(rows) + later[0])
    grant = requests.preapprove_releases(server.owner, "clinic", ShareTerms("ana", "9", 99, purpose="drafts"))
    requests.approve(ODA, "clinic", grant.number)
    marked: dict[str, int] = {}
    states = ("expired", "filed", "half-approved", "lapsed", "approved", "taken back", "refused", "withdrawn")
    for number, state in enumerate(states):
        asked = RequestedRelease("questions", questions(number), PRICE)
        marked[state] = int(buy(server, key=state, release=asked).line)
        review = requests.request_publication(server.ana, "clinic", [marked[state]], "a report").number
        approvers = {"filed": (), "refused": (), "half-approved": (ODA,), "lapsed": (ODA, ODO)}
        for who in approvers.get(state, (server.owner, ODA)):
            requests.approve(who, "clinic", review)
        if state in ("taken back", "refused"):
            requests.refuse(server.owner, "clinic", review, "not yet")
        if state == "withdrawn":
            requests.withdraw(server.ana, "clinic", review)
        later[0] = 31 * 86_400_000_000
    server.people.set_disabled("odo", True, by="olga")
    paid_by = {line.number: line.about for line in server.ledger.lines()}
    server.close()
    key, out = tmp_path / "owner.key", tmp_path / "report.zip"
    SigningKey.new().save(key)
    command = ["bundle", str(tmp_path / "clinic.toml"), "--key", str(key), "--reviewed", "--out", str(out)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    found = verify_bundle(out).bundle
    assert [line.number for line in found.shown_lines] == [paid_by[marked["approved"]]]
    assert [answer.receipt.line for answer in found.answers] == [marked["approved"]]


def test_nothing_else_is_released(server: SmallServer) -> None:
    server.counter.requests.approve(server.owner, "clinic", file(server))
    for number, other in enumerate(OTHERS):
        with pytest.raises(ApprovalNeeded):
            buy(server, release=other, key=f"other-{number}")
    with pytest.raises(ApprovalNeeded):
        buy(server, server.ben, key="ben")
    assert server.charges() == 0
    assert not buy(server).free


def test_an_edited_policy_needs_a_new_approval(server: SmallServer) -> None:
    approved, filed = file(server), file(server, release=RequestedRelease("questions", questions(3), PRICE))
    server.counter.requests.approve(server.owner, "clinic", approved)
    path = server.folder / "clinic.toml"
    path.write_text(path.read_text().replace("share = 0.5", "share = 0.6"))
    with pytest.raises(ApprovalNeeded):
        buy(server)
    with pytest.raises(Unsupported, match="the policy has changed"):
        server.counter.requests.approve(server.owner, "clinic", filed)
    assert server.charges() == 0


def test_an_approval_is_for_the_declared_source(server: SmallServer) -> None:
    server.counter.requests.approve(server.owner, "clinic", file(server))
    (server.folder / "others.csv").write_bytes((server.folder / "visits.csv").read_bytes())
    path = server.folder / "clinic.toml"
    path.write_text(path.read_text().replace('"visits.csv"', '"others.csv"'))
    with pytest.raises(ApprovalNeeded):
        buy(server)
    assert server.charges() == 0


def test_a_stored_answer_needs_no_approval(server: SmallServer) -> None:
    server.counter.requests.approve(server.owner, "clinic", file(server))
    bought = buy(server)
    assert buy(server, server.ben, "k2").line == bought.line
    with pytest.raises(Unsupported, match="needs no approval"):
        file(server, server.ben)


def test_every_kind_of_release_is_filed_and_released(server: SmallServer) -> None:
    released = {
        "workloads": ({"questions": [questions(1)["sql"], questions(2)["sql"]]}, PRICE),
        "marginals": ({"table": "visits"}, PRICE),
        "synthesis": ({"table": "visits", "ways": 1, "columns": ["region"]}, {"epsilon": "0.2"}),
        "synopses": ({"table": "visits", "columns": ["region"], "rounds": 1}, PRICE),
    }
    for kind, (spec, price) in released.items():
        asked = RequestedRelease(kind, spec, price)
        filed = file(server, release=asked)
        with pytest.raises(ApprovalNeeded):
            buy(server, key=f"early-{kind}", release=asked)
        server.counter.requests.approve(server.owner, "clinic", filed)
        server.counter.requests.release(server.ana, "clinic", filed, kind).wait_for_result()
        assert server.counter.requests.show(server.ana, "clinic", filed).state == "released"
    assert server.ledger.verify().holds


def test_releases_that_race_spend_once(server: SmallServer) -> None:
    asked = RequestedRelease("questions", COUNT, {"epsilon": "0.2", "fresh": True})
    server.counter.requests.approve(server.owner, "clinic", file(server, release=asked))
    ready = threading.Barrier(6)

    def attempt(key: int) -> bool:
        ready.wait()
        try:
            return bool(buy(server, key=f"race-{key}", release=asked))
        except ApprovalNeeded:
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(attempt, range(6))) == 1
    assert server.charges() == 1


# ── rules and shares ───────────────────────────────────────────────────────────────────────────


SYNTHESIS = RequestedRelease("synthesis", {"table": "visits", "ways": 1, "columns": ["region"]}, PRICE)


@pytest.mark.parametrize(
    ("rules", "waiting", "free"),
    [
        ("above = 0.15", ASKED, RequestedRelease("questions", COUNT, {"epsilon": "0.15"})),
        ('kinds = ["marginals"]', RequestedRelease("marginals", {"table": "visits"}, PRICE), ASKED),
        (
            'kinds = ["questions"]',
            RequestedRelease("workloads", {"questions": [COUNT["sql"]]}, PRICE),
            RequestedRelease("marginals", {"table": "visits"}, PRICE),
        ),
        ('kinds = ["marginals"]', SYNTHESIS, ASKED),
        ('tables = ["visits"]', ASKED, None),
    ],
)
def test_the_policy_says_what_needs_approval(
    tmp_path: Path, rules: str, waiting: RequestedRelease, free: RequestedRelease | None
) -> None:
    server = governed(tmp_path, rules, names=BOTH)
    try:
        with pytest.raises(ApprovalNeeded):
            buy(server, release=waiting)
        if free is not None:
            assert not buy(server, key="free", release=free).free
            with pytest.raises(Unsupported, match="needs no approval"):
                file(server, server.ben, RequestedRelease(free.kind, free.spec, {"epsilon": "0.12"}))
        assert not server.counter.release(server.ben, "school", "questions", SCHOOL, PRICE, "s").free
    finally:
        server.close()


SCHOOL = {"sql": "SELECT COUNT(*) AS n FROM pupils"}


def test_a_granted_share_is_used_up(server: SmallServer) -> None:
    requests = server.counter.requests
    granted = requests.preapprove_releases(
        server.owner, "clinic", ShareTerms("ana", "0.3", 7, ("visits",), ("questions",), "drafts")
    )
    assert (granted.state, granted.epsilon) == ("approved", "0.3")
    assert not buy(server).free
    with pytest.raises(ApprovalNeeded):
        buy(server, key="k2", release=RequestedRelease("questions", questions(2), PRICE))
    with pytest.raises(ApprovalNeeded):
        buy(server, server.ben, "k3", RequestedRelease("questions", questions(2), {"epsilon": "0.05"}))
    assert requests.show(server.ana, "clinic", granted.number).used == "0.2"
    requests.refuse(server.owner, "clinic", granted.number, "the drafts are done")
    with pytest.raises(ApprovalNeeded):
        buy(server, key="k4", release=RequestedRelease("questions", questions(2), {"epsilon": "0.05"}))


READING = {
    "SELECT COUNT(*) AS n FROM visits": {"count"},
    "SELECT region, COUNT(DISTINCT patient) AS n FROM visits GROUP BY region": {"count"},
    "SELECT SUM(age) AS s FROM visits": {"sum"},
    "SELECT AVG(age) AS a FROM visits": {"count", "sum"},
    "SELECT COUNT(*) AS n, AVG(age) AS a FROM visits": {"count", "sum"},
    "SELECT STDDEV(age) AS a FROM visits": {"count", "sum"},
    "SELECT MEDIAN(age) AS m FROM visits": {"rank"},
    "SELECT COUNT(DISTINCT age) AS d FROM visits": {"distinct"},
    "SELECT MODE(age) AS d FROM visits": {"frequent"},
}


@pytest.mark.parametrize("measures", [("count",), ("count", "sum"), ("rank", "distinct", "frequent")])
def test_a_share_of_counts_covers_counts_only(server: SmallServer, measures: tuple[str, ...]) -> None:
    terms = ShareTerms("ana", "1.5", 7, ("visits",), ("questions",), "drafts", measures)
    granted = server.counter.requests.preapprove_releases(server.owner, "clinic", terms)
    assert granted.words.endswith("counts only" if measures == ("count",) else f"measures: {', '.join(measures)}")
    waiting = server.counter.requests.approval_reason
    for text, read in READING.items():
        asked = RequestedRelease("questions", {"sql": text}, {"epsilon": "0.1"})
        assert bool(waiting(server.ana, "clinic", asked)) == (not read <= set(measures)), text
    asked = RequestedRelease("questions", {"sql": "SELECT SUM(age) AS s FROM visits"}, {"epsilon": "0.1"})
    if "sum" not in measures:
        with pytest.raises(ApprovalNeeded):
            buy(server, release=asked)
    counted = RequestedRelease("questions", questions(4), {"epsilon": "0.1"})
    if "count" in measures:
        assert not buy(server, key="k2", release=counted).free
    assert server.charges() == ("count" in measures)


PEOPLE = """
[tables.people]
source = "people.csv"
id = "patient"
max_rows = 1
[tables.people.columns]
income = { type = "integer", bounds = [0, 100] }
"""
FIRST = "SELECT COUNT(*) AS n FROM visits WHERE age > (SELECT COUNT(*) FROM visits)"
SECOND = f"{FIRST} AND age > (SELECT AVG(income) FROM people)"


def _beside_people(folder: Path, rules: str) -> SmallServer:
    (folder / "people.csv").write_text("patient,income\nclinic1,30\nclinic2,50\n")
    return governed(folder, rules + PEOPLE)


def test_a_released_number_of_another_table_needs_its_approval(tmp_path: Path) -> None:
    server = _beside_people(tmp_path, 'tables = ["people"]')
    try:
        with pytest.raises(ApprovalNeeded):
            buy(server, release=RequestedRelease("questions", {"sql": SECOND}, PRICE))
        assert server.charges() == 0
        assert not buy(server, release=RequestedRelease("questions", {"sql": FIRST}, PRICE)).free
    finally:
        server.close()


@pytest.mark.parametrize(
    ("tables", "measures", "covered"),
    [
        (("visits",), (), False),
        ((), ("count",), False),
        (("visits",), ("count",), False),
        (("visits", "people"), ("count", "sum"), True),
    ],
)
def test_a_share_covers_what_every_released_number_reads(
    tmp_path: Path, tables: tuple[str, ...], measures: tuple[str, ...], covered: bool
) -> None:
    server = _beside_people(tmp_path, "approvals = 1")
    try:
        terms = ShareTerms("ana", "0.4", 7, tables, ("questions",), "drafts", measures)
        server.counter.requests.preapprove_releases(server.owner, "clinic", terms)
        second = RequestedRelease("questions", {"sql": SECOND}, PRICE)
        assert bool(server.counter.requests.approval_reason(server.ana, "clinic", second)) is not covered
        if not covered:
            with pytest.raises(ApprovalNeeded):
                buy(server, release=second)
            second = RequestedRelease("questions", {"sql": FIRST}, PRICE)
        assert not buy(server, key="k2", release=second).free
    finally:
        server.close()


def test_a_session_is_in_no_share_of_counts(server: SmallServer) -> None:
    server.counter.requests.preapprove_releases(
        server.owner, "clinic", ShareTerms("ana", "1.5", 7, purpose="drafts", measures=("count",))
    )
    spec = {"threshold": 5, "questions": [COUNT["sql"]], "tables": ["visits"]}
    with pytest.raises(ApprovalNeeded):
        buy(server, release=RequestedRelease("sessions", spec, PRICE))


def test_gaussian_noise_is_shown_with_the_epsilon_that_the_rule_compares(tmp_path: Path) -> None:
    server = governed(tmp_path, "above = 0.3", "3, delta = 1e-6")
    try:
        asked = RequestedRelease("questions", COUNT, {"rho": "0.005", "mechanism": "gaussian"})
        reason = server.counter.requests.approval_reason(server.ana, "clinic", asked)
        seen = server.counter.requests.file(server.ana, "clinic", asked, "the annual report")
        assert (seen.epsilon, seen.delta) != ("", "")
        at_delta = f"{seen.epsilon} at δ = {seen.delta}"
        assert f"its ε of {at_delta} is above the policy's limit of 0.3" in reason
        assert seen.delta == "0.000001"
        assert seen.cost == f"Gaussian noise: ε = {at_delta}"
        assert seen.epsilon_words == f"ε = {at_delta}"
        record = server.served.account("clinic").requests.read(seen.number)
        assert Fraction(seen.epsilon) >= record.subject.epsilon > Fraction(3, 10)
        assert f"cost      Gaussian noise: ε = {at_delta}" in str(seen)
        assert '"rho": "0.005"' in str(seen)
        assert not server.counter.requests.approval_reason(
            server.ana, "clinic", RequestedRelease("questions", COUNT, {"rho": "0.0005", "mechanism": "gaussian"})
        )
    finally:
        server.close()


IMPOSSIBLE = (
    ShareTerms("ana", "0.3", 7, purpose="x", measures=("counts",)),
    ShareTerms("olga", "0.3", 7, purpose="x"),
    ShareTerms("ana", "0", 7, purpose="x"),
    ShareTerms("ana", "0.3", 0, purpose="x"),
    ShareTerms("ana", "0.3", 10_000, purpose="x"),
    ShareTerms("ana", "0.3", 7, ("nothing",), purpose="x"),
    ShareTerms("ana", "0.3", 7, (), ("question",), purpose="x"),
    ShareTerms("ana", "0.3", 7),
    ShareTerms("nobody", "0.3", 7, purpose="x"),
)


def test_impossible_shares_and_requests_without_a_purpose_are_refused(server: SmallServer) -> None:
    for terms in IMPOSSIBLE:
        with pytest.raises(InvalidParameter):
            server.counter.requests.preapprove_releases(server.owner, "clinic", terms)
    for purpose in ("", "  ", "x" * 3000, "a\0b"):
        with pytest.raises(InvalidParameter, match="purpose"):
            server.counter.requests.file(server.ana, "clinic", ASKED, purpose)
    assert server.counter.requests.list(server.owner, "clinic") == ()


def test_rules_about_a_kind_that_does_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"approval\.kinds must be a list of kinds of release: questions, "):
        governed(tmp_path, 'kinds = ["synthesys"]')


def test_a_policy_without_rules_takes_no_requests(beside_a_school: SmallServer) -> None:
    asked = RequestedRelease("questions", SCHOOL, PRICE)
    with pytest.raises(Unsupported, match="need no approval"):
        beside_a_school.counter.requests.file(beside_a_school.ben, "school", asked, "why not")
