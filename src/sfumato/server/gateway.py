"""The gateway to the curators: every call of the REST interface and of the pages goes through it.

A call is authenticated, checked against roles and rate limits, and parsed into a proposal. A release then looks for a
stored answer, joins an equal request in flight, is charged, delayed by the answer clock, and logged. Once charged it is
finished and stored even if its client has disconnected. What needs no rows is sent at once: refusals before the charge,
and stored answers. Everything else is written to the ledger, and then sent, when the answer clock says so.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeVar

from sfumato.curator import Curator, PeriodStandings, Standing
from sfumato.curator.described_tables import Tables
from sfumato.curator.listings import Listing
from sfumato.curator.policy_account import amend_account
from sfumato.curator.weak_policies import weak_policy_warnings
from sfumato.errors import (
    InvalidParameter,
    NotSignedIn,
    NotThere,
    SfumatoError,
    SourceChanged,
    Unsupported,
)
from sfumato.ledger import Anchor, Line, Verification, entries
from sfumato.plots.picture import Picture
from sfumato.privacy import Budget
from sfumato.privacy.numbers import Number
from sfumato.server.activity_log import ActivityLog, http_status_of_error
from sfumato.server.approvals import ApprovalService, RequestedRelease
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_spending_limits import ChargePermit, NoSpending
from sfumato.server.people.users import Act, Caller, Credentials, Role, Token, User, redact_error, redacted_errors
from sfumato.server.releases.answer_clock import AnswerClock, FairQueue, QuestionRateLimit, delay_doublings
from sfumato.server.releases.flights import Flight, FlightResult, Flights, find_stored, new_request_id, require_stored
from sfumato.server.releases.running_releases import (
    LINES_PER_QUESTION,
    DescribedQuestion,
    Phase,
    ProposalFacts,
    ProposalKey,
    ReleaseKey,
    ReleaseProgress,
    RunningReleases,
    StoredRelease,
    canonical_json,
    decode_stored_answer,
    proposal_cost_in_questions,
    request_cost_in_questions,
)
from sfumato.server.request_calls import RequestCalls
from sfumato.server.served_policies import (
    HistoryBatch,
    ReadLines,
    ServedPolicies,
    build_history_batch,
    lines_after,
    lines_before,
)
from sfumato.server.settings import ServerSettings

T = TypeVar("T")
Propose = Callable[[Curator, str, Mapping[str, Any]], Any]
"""Builds the proposal of a kind from a caller's spec (``server.requests.proposals``)."""
ACTS = ("propose", "describe", "columns", "explain", "error", "price", "advise", "plot", "preview", "power", "stored")
_ASKING_ROLES = (Role.OWNER, Role.ANALYST)
_READ_ALL_ROLES = (Role.OWNER, Role.AUDITOR)
_MAX_PAGE = 1000


class Gateway:
    """The gateway to the curators of one server. Thread-safe.

    ``release`` and ``free`` may block for long and belong in worker threads; ``start`` returns a flight that an event
    loop can await.
    """

    def __init__(
        self,
        settings: ServerSettings,
        people: PeopleFile,
        served: ServedPolicies,
        propose: Propose,
        *,
        log: ActivityLog | None = None,
        clock: AnswerClock | None = None,
    ) -> None:
        self.settings = settings
        self.people = people
        self.served = served
        self._propose = propose
        self._log = ActivityLog(settings.log) if log is None else log
        self._clock = AnswerClock(settings.answer_after) if clock is None else clock
        self._releases = RunningReleases(people.database, settings.releases_at_once)
        served.pace_reopenings(self._clock, self._releases.count_overrun)
        self._rate_limit = QuestionRateLimit(settings.free_per_second / settings.processes)
        turns = FairQueue(settings.releases_at_once, settings.queue, max(4, 2 * (os.cpu_count() or 1)))
        self._flights = Flights(turns, self._clock, self._releases)
        self.requests = RequestCalls(
            ApprovalService(served, propose, people.is_owner, people.id),
            self._log_restricted_call,
            self._require_visible_policy,
            self._rate_limit.withdraw,
            lambda caller, name, release, key: self.start(caller, name, release.kind, release.spec, release.price, key),
            people.is_enabled,
        )

    # ── authentication ─────────────────────────────────────────────────────────────────────────

    def caller(self, credentials: Credentials, route: str = "caller") -> Caller:
        """Authenticate the caller of a route, or raise ``NotSignedIn``, with the same text and timing for every
        reason.
        """
        with redacted_errors(None):
            caller = self.people.authenticate(credentials)
        if caller is None:
            self._log.write(user="", route=route, status=401)
            raise NotSignedIn
        return caller

    def caller_of_token(self, number: int | None, route: str) -> Caller:
        """Authenticate the caller of a token that was proven without being sent; None for a proof that failed."""
        with redacted_errors(None):
            caller = None if number is None else self.people.caller_of_token(number)
        if caller is None:
            self._log.write(user="", route=route, status=401)
            raise NotSignedIn
        return caller

    def sign_in(self, link: str) -> str:
        """Consume a one-time link and return the cookie of a new session; ``NotSignedIn`` if the link is invalid or
        used.
        """
        with redacted_errors(None):
            cookie = self.people.sign_in(link, timedelta(hours=self.settings.session_hours))
        self._log.write(user="", route="sign-in", status=401 if cookie is None else 200)
        if cookie is None:
            raise NotSignedIn
        return cookie

    def sign_out(self, caller: Caller, cookie: str) -> None:
        """End a session."""
        with self._log_call(caller, "sign-out"):
            self.people.sign_out(cookie)

    # ── free calls ─────────────────────────────────────────────────────────────────────────────

    def rate_limit_read(self, caller: Caller) -> None:
        """Count a read-only call against the caller's rate limit."""
        with self._log_call(caller, "look", quiet=True):
            self._rate_limit.withdraw(caller.user)

    def policies(self, caller: Caller) -> tuple[str, ...]:
        """List the names of the policies that the caller may see."""
        with self._log_call(caller, "policies"):
            return self.served.visible_policies(caller)

    def policy(self, caller: Caller, name: str) -> Any:
        """Return the public face of a policy (``Policy.public_face``)."""
        with self._log_call(caller, "policy"):
            return self.served.curator_for(caller, name).policy.public_face(self._analyst_name(caller, name))

    def tables(self, caller: Caller, name: str) -> Tables:
        """Describe the tables, with suggested questions, from the policy alone: the same for every caller."""
        with self._log_call(caller, "tables"):
            self.served.curator_for(caller, name)
            return self.served.table_descriptions(name)

    def is_paused(self, caller: Caller, name: str) -> bool:
        """Return whether the owner has paused new releases on a policy."""
        self.served.curator_for(caller, name)
        return name in self.people.paused_policies()

    def spending_plot(self, caller: Caller, name: str) -> Picture:
        """Plot the spending over time: of the account, or of an analyst's own share."""
        with self._log_call(caller, "budget"):
            return self.served.curator_for(caller, name).budget.plot()

    def budget(self, caller: Caller, name: str, analyst: str | None = None) -> Standing | PeriodStandings:
        """Return the standing of the account, of an analyst's own share, or of the share that an owner names."""
        with self._log_call(caller, "budget"):
            view = self.served.curator_for(caller, name)
            sees_all = analyst is not None and caller.role in _READ_ALL_ROLES
            return (self.served.curator(name) if sees_all else view).standing(analyst)

    def account(self, caller: Caller, name: str) -> tuple[Budget, Fraction | None]:
        """Return the budget as the ledger counts it, and the caller's share of every allowance."""
        with self._log_call(caller, "account"):
            view = self.served.curator_for(caller, name)
            return view.budget, view.policy.analysts.get(caller.user)

    def call_free(
        self,
        caller: Caller,
        name: str,
        kind: str,
        act: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any] | None = None,
    ) -> Any:
        """Propose, explain, forecast, price, plot, preview, list columns or find what is stored: spends nothing and
        reads no row.
        """
        with self._log_call(caller, act if act in ACTS else "free"):
            caller.require("asking", *_ASKING_ROLES)
            if act not in ACTS:
                raise InvalidParameter("act", act, f"one of {', '.join(ACTS)}")
            self._rate_limit.withdraw(caller.user, request_cost_in_questions(act, spec))
            return self._retry_with_new_data(
                caller, name, lambda: self._perform_free(caller, name, kind, act, spec, dict(price or {}))
            )

    def _perform_free(
        self, caller: Caller, name: str, kind: str, act: str, spec: Mapping[str, Any], price: dict[str, Any]
    ) -> Any:
        if act == "stored":
            return require_stored(self._stored_answer(caller, name, kind, spec, price, f"stored-{new_request_id()}"))
        proposal = self._proposal(caller, name, kind, spec, spends=True)
        if act == "propose":
            return proposal if isinstance(proposal, Listing) else ProposalFacts.from_proposal(proposal)
        if act == "describe":
            return DescribedQuestion.from_proposal(proposal)
        if act == "columns":
            return proposal.columns
        if not hasattr(proposal, act):
            rule = "a list of tables or columns has no error and no price to plot"
            raise Unsupported("no-picture", rule, fix="use explain instead")
        extra_cost = proposal_cost_in_questions(proposal, act, price, self.settings.free_per_second)
        self._rate_limit.withdraw_extra(caller.user, extra_cost, request_cost_in_questions(act, spec))
        return getattr(proposal, act)(**price)

    @contextmanager
    def authorized_parsing(self, caller: Caller, route: str, *roles: Role) -> Iterator[None]:
        """Check the role before the body is parsed, so that only callers who may make the call learn what is wrong with
        it. A body that cannot be parsed counts as a free question and is logged.
        """
        with self._log_call(caller, route, quiet=True):
            caller.require(route, *roles)
            try:
                yield
            except SfumatoError:
                self._rate_limit.withdraw(caller.user)
                raise

    # ── releases ───────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        caller: Caller,
        name: str,
        kind: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
        request_id: str,
    ) -> Flight:
        """Start a release, or join the flight of an equal request.

        Refusals that need no rows are raised at once; a stored answer is returned as a flight that is already done.
        """
        with self._log_call(caller, "release", quiet=True):
            caller.require("asking", *_ASKING_ROLES)
            entries.checked_name(request_id, "request_id")
            self._rate_limit.withdraw(caller.user, request_cost_in_questions("release", spec))
            self._require_visible_policy(caller, name)
            request = ReleaseKey(name, caller.user, request_id)
            requested = StoredRelease.requested(kind, spec, price)
            flight = self._find_same_request(request, requested)
            if flight is not None:
                return flight
            return self._retry_with_new_data(
                caller, name, lambda: self._enqueue_new_release(caller, request, requested, spec, price)
            )

    def release(
        self,
        caller: Caller,
        name: str,
        kind: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
        request_id: str,
    ) -> FlightResult:
        """Release, and block this thread until the answer is there."""
        return self.start(caller, name, kind, spec, price, request_id).wait_for_result()

    async def wait(self, flight: Flight) -> FlightResult:
        """Await an answer. Cancelling the wait does not cancel the release."""
        if flight.future.done():  # a stored answer
            return flight.wait_for_result()
        return await asyncio.shield(asyncio.wrap_future(flight.future))

    def progress(self, caller: Caller, name: str, request_id: str) -> ReleaseProgress:
        """Return the phase of a caller's own release: queued, charged or done. A refused release raises its refusal
        again.
        """
        with self._log_call(caller, "progress"):
            self._require_visible_policy(caller, name)
            request = ReleaseKey(name, caller.user, entries.checked_name(request_id, "request_id"))
            flight = self._flights.find(request)
            if flight is not None:
                phase_now = flight.phase  # read once: the flight may end meanwhile
                return ReleaseProgress(phase_now, flight.wait_for_result().line if phase_now is Phase.DONE else None)
            stored, phase = self._releases.stored_release(request), self._releases.phase(request)
            if stored is None and phase is None:
                raise NotThere(f"request {request_id}")
            if phase is None and stored is not None:
                return ReleaseProgress(Phase.DONE, stored.line)
            return ReleaseProgress(phase or Phase.QUEUED)

    def answer_of_request(self, caller: Caller, name: str, request_id: str) -> FlightResult:
        """Return the answer of a caller's own earlier request, for free; also if it has no ledger line."""
        with self._log_call(caller, "released"):
            self._require_visible_policy(caller, name)
            request = ReleaseKey(name, caller.user, entries.checked_name(request_id, "request_id"))
            stored = self._releases.stored_release(request)
            return self._require_stored_answer(request, stored, f"request {request_id}")

    def answer_on_line(self, caller: Caller, name: str, line: int) -> FlightResult:
        """Return the answer on a ledger line again, for free: to its buyer, and to owners and auditors."""
        with self._log_call(caller, "released", line=line):
            self._require_visible_policy(caller, name)
            sees_all = caller.role in _READ_ALL_ROLES
            stored = self._releases.stored_on_line(name, line, None if sees_all else caller.user)
            if stored is None or not line:
                raise NotThere(f"line {line}")
            return self._require_stored_answer(*stored, f"line {line}")

    def bought_lines(self, caller: Caller, name: str, kinds: Iterable[str]) -> tuple[int, ...]:
        """List the ledger lines with releases of some kinds, with the visibility of ``answer_on_line``."""
        with self._log_call(caller, "released", quiet=True):
            self._require_visible_policy(caller, name)
            user = None if caller.role in _READ_ALL_ROLES else caller.user
            return self._releases.lines_of_kinds(name, kinds, user)

    def history(
        self, caller: Caller, name: str, after: int = 0, limit: int = 100, analyst: str | None = None
    ) -> HistoryBatch:
        """List ledger lines after a number: all, or one analyst's, for owners and auditors; their own for analysts."""
        return self._history_batch(caller, name, limit, lines_after(after, analyst))

    def latest_history(self, caller: Caller, name: str, before: int | None = None, limit: int = 100) -> HistoryBatch:
        """List the last ledger lines before a number, newest first: all for owners and auditors, or one's own."""
        return self._history_batch(caller, name, limit, lines_before(before))

    def _history_batch(self, caller: Caller, name: str, limit: int, read: ReadLines) -> HistoryBatch:
        with self._log_call(caller, "history"):
            curator = self.served.curator_for(caller, name)
            page_size = min(max(1, limit), _MAX_PAGE)
            self._rate_limit.withdraw_extra(caller.user, page_size // LINES_PER_QUESTION)
            only_analyst = None if caller.role in _READ_ALL_ROLES else caller.user
            lines = read(self.served.curator(name) if only_analyst is None else curator, only_analyst, page_size + 1)
            return build_history_batch(self._releases, name, lines, page_size, only_analyst, curator.policy.analysts)

    # ── calls of owners ────────────────────────────────────────────────────────────────────────

    def users(self, caller: Caller) -> tuple[User, ...]:
        with self._log_restricted_call(caller, "users", Role.OWNER):
            return self.people.users()

    def add_user(self, caller: Caller, name: str, role: str) -> User:
        with self._log_restricted_call(caller, "users", Role.OWNER):
            return self.people.add_user(name, role, by=caller.user)

    def disable_user(self, caller: Caller, name: str, *, disabled: bool = True) -> User:
        """Disable a user, or enable them again."""
        with self._log_restricted_call(caller, "users", Role.OWNER):
            if name == caller.user:
                raise InvalidParameter(
                    "user", name, "another user, because you cannot disable yourself", fix="ask another owner"
                )
            if name not in (user.name for user in self.people.users()):
                raise NotThere(f"user {name}")
            return self.people.set_disabled(name, disabled, by=caller.user)

    def new_login_link(self, caller: Caller, name: str) -> str:
        """Create the secret of a one-time login link."""
        with self._log_restricted_call(caller, "users", Role.OWNER):
            caller.require_no_other_owner(self.people.user(name))
            return self.people.new_link(name, by=caller.user)

    def tokens(self, caller: Caller, user: str | None = None) -> tuple[Token, ...]:
        """List all tokens, or those of one user."""
        with self._log_restricted_call(caller, "tokens", Role.OWNER):
            return self.people.tokens(user)

    def new_token(
        self,
        caller: Caller,
        user: str,
        *,
        label: str = "",
        expires: timedelta | None = None,
        most: Number | None = None,
    ) -> tuple[Token, str]:
        """Create a token and return it with its secret text, which is never shown again."""
        with self._log_restricted_call(caller, "tokens", Role.OWNER):
            caller.require_no_other_owner(self.people.user(user))
            return self.people.new_token(user, label=label, expires=expires, most=most, by=caller.user)

    def revoke_token(self, caller: Caller, number: int) -> Token:
        with self._log_restricted_call(caller, "tokens", Role.OWNER):
            if number not in (token.number for token in self.people.tokens()):
                raise NotThere(f"token {number}")
            return self.people.revoke_token(number, by=caller.user)

    def shares(self, caller: Caller, name: str) -> dict[str, Standing | PeriodStandings]:
        """Return the standing of every analyst's share of a policy. The shares themselves are set in the policy
        file.
        """
        with self._log_restricted_call(caller, "shares", Role.OWNER):
            curator = self.served.curator(name)
            return {analyst: curator.standing(analyst) for analyst in curator.policy.analysts}

    def weaknesses(self, caller: Caller, name: str) -> tuple[str, ...]:
        """Describe why a policy's guarantee for life is weak, from the policy alone."""
        with self._log_restricted_call(caller, "weaknesses", Role.OWNER):
            return weak_policy_warnings(self.served.curator(name).policy)

    def amend(self, caller: Caller, name: str, reason: str) -> tuple[Line, tuple[str, ...]]:
        """Amend the account to the budget in the current policy file; the ledger keeps the reason. Return the line, and
        why the new guarantee for life is weak, if it is.
        """
        with self._log_restricted_call(caller, "amend", Role.OWNER):
            policy = self.served.read_current_policy(name)
            line = amend_account(self.served.account(name), policy, reason)
            self.people.record(caller.user, "amended", f"{name}, line {line.number}")
            return line, weak_policy_warnings(policy)

    def pause(self, caller: Caller, name: str, *, paused: bool = True) -> None:
        """Pause new releases on a policy, in every process, or resume them. Charged releases are still answered."""
        with self._log_restricted_call(caller, "pause", Role.OWNER):
            self._require_visible_policy(caller, name)
            self.people.pause(name, paused, by=caller.user)

    def acts(self, caller: Caller, after: int = 0, limit: int = 100) -> tuple[Act, ...]:
        """List the recorded acts of owners, oldest first."""
        with self._log_restricted_call(caller, "acts", *_READ_ALL_ROLES):
            return self.people.acts(after, min(max(1, limit), _MAX_PAGE))

    def latest_acts(self, caller: Caller, before: int, limit: int = 100) -> tuple[Act, ...]:
        """List the recorded acts of owners before a number, newest first."""
        with self._log_restricted_call(caller, "acts", *_READ_ALL_ROLES):
            return self.people.latest_acts(before, min(max(1, limit), _MAX_PAGE))

    def require_owner(self, caller: Caller, route: str) -> None:
        """Refuse callers other than owners, for server data that belongs to no policy."""
        with self._log_restricted_call(caller, route, Role.OWNER):
            pass

    def overrun_count(self, caller: Caller, name: str) -> int:
        """Count the releases whose query took longer than the answer clock allows. PRIVATE: it depends on rows."""
        with self._log_restricted_call(caller, "overruns", Role.OWNER):
            self._require_visible_policy(caller, name)
            return self._releases.overrun_count(name)

    # ── calls of auditors ──────────────────────────────────────────────────────────────────────

    def verify(self, caller: Caller) -> Verification:
        """Verify every line of the ledger."""
        with self._log_restricted_call(caller, "verify", *_READ_ALL_ROLES):
            self._rate_limit_all_lines(caller)
            return self.served.ledger.verify()

    def export(self, caller: Caller, form: str, path: str | os.PathLike[str]) -> None:
        """Write the ledger to a file on the server, as JSON, CSV or Arrow."""
        with self._log_restricted_call(caller, "export", *_READ_ALL_ROLES):
            self._rate_limit_all_lines(caller)
            self.served.ledger.export(form, path)

    def anchor(self, caller: Caller) -> Anchor:
        """Return the anchor of the ledger's current head, to be kept elsewhere."""
        with self._log_restricted_call(caller, "anchor", *_READ_ALL_ROLES):
            return self.served.ledger.anchor()

    def _rate_limit_all_lines(self, caller: Caller) -> None:
        """Rate-limit a call that reads the whole ledger by its number of lines; a damaged ledger is reported by the
        call itself.
        """
        lines = 0
        with suppress(SfumatoError):
            lines = self.served.ledger.head[0]
        self._rate_limit.withdraw_extra(caller.user, lines // LINES_PER_QUESTION)

    def require_ready(self) -> None:
        """Raise ``LedgerUnavailable`` while a charge or its answer could not be written; details are not shown."""
        with redacted_errors(None):
            self._flights.require_writable_file()
            self.served.reserve.hold()
            self.served.ledger.head  # noqa: B018 - reads it, so a ledger's server that is away is noticed

    def turns_begun_if_idle(self) -> tuple[int, int] | None:
        """Return another value after each turn in which rows may be read, and None during one."""
        flights, reopenings = self._flights.turns_begun_if_idle(), self.served.turns_begun_if_idle()
        return None if flights is None or reopenings is None else (flights, reopenings)

    # ── stopping ───────────────────────────────────────────────────────────────────────────────

    def stop_accepting(self) -> None:
        """Refuse new releases from now on, without waiting."""
        self._flights.stop_accepting()

    def drain(self, seconds: float | None = None) -> bool:
        """Refuse new releases and wait for those in flight; return whether all are answered."""
        return self._flights.drain(seconds)

    # ── internals ──────────────────────────────────────────────────────────────────────────────

    def _analyst_name(self, caller: Caller, name: str) -> str | None:
        return caller.user if caller.user in self.served.curator(name).policy.analysts else None

    def _require_visible_policy(self, caller: Caller, name: str) -> None:
        if name not in self.served.visible_policies(caller):
            raise NotThere(f"policy {name}")

    def _find_same_request(self, request: ReleaseKey, requested: StoredRelease) -> Flight | None:
        """Find an equal request in flight here or answered before; a request id names one release for ever."""
        flight = self._flights.find(request)
        if flight is not None and flight.phase is not Phase.DONE:
            flight.requested.require_same(requested)
            return flight
        answer = self._find_answer(request, requested)
        return None if answer is None else Flight.completed(request, requested, answer)

    def _find_answer(self, request: ReleaseKey, requested: StoredRelease) -> FlightResult | None:
        """Return the answer of an equal request, from any process; None for a new request."""
        stored = self._releases.stored_release(request)
        if stored is None:
            return None
        stored.require_same(requested)
        return self._require_stored_answer(request, stored, f"the answer of request {request.id}")

    def _enqueue_new_release(
        self,
        caller: Caller,
        request: ReleaseKey,
        requested: StoredRelease,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
    ) -> Flight:
        stored = self._stored_answer(caller, request.account, requested.kind, spec, price, request.id)
        if stored is not None:
            landed = Flight.completed(request, requested, stored)
            self._releases.store_copy(request, landed.to_stored(stored))
            self._log_release(caller, "release", 200, stored)
            return landed
        self.people.require_not_paused(request.account)  # stored answers are shown even while a policy is paused
        release = RequestedRelease(requested.kind, spec, price)

        def propose(curator: Curator) -> Any:
            return self._propose(self.requests.desk.with_approval_rules(curator, caller, release), requested.kind, spec)

        curator = self._charging_curator(caller, request.account)
        proposal = propose(curator)
        release_arguments = {**price, "request_id": request.id}

        def buy(progress: Callable[[str], None]) -> Any:
            earlier_answer = self._find_answer(request, requested)
            if earlier_answer is not None:  # another process has answered an equal request meanwhile
                return earlier_answer
            self._require_visible_policy(caller, request.account)
            self.people.require_not_paused(request.account)
            current_curator = self._charging_curator(caller, request.account)
            opened = self.served.last_open_policy(request.account)
            policy_changed = current_curator.policy is not curator.policy  # propose again under the current policy
            current_proposal = propose(current_curator) if policy_changed else proposal
            self.served.reserve.hold()
            try:
                return current_proposal.release(**release_arguments, progress=progress)
            except SourceChanged:  # raised before the charge: reopen and use the current data
                self.served.reopen(caller, request.account, opened)
                new_proposal = propose(self._charging_curator(caller, request.account))
                return new_proposal.release(**release_arguments, progress=progress)

        flight = Flight(
            request,
            requested,
            buy,
            delay_doublings(requested.kind, proposal),
            lambda ended_flight: self._log_flight_end(caller, ended_flight),
            lambda error: redact_error(error, caller.role),
        )
        return self._flights.enqueue(flight)

    def _log_flight_end(self, caller: Caller, flight: Flight) -> None:
        error = flight.future.exception()
        if error is None:
            self._log_release(caller, "release", 200, flight.future.result())
        else:
            self._log.write(user=caller.user, route="release", status=http_status_of_error(error))

    def _charging_curator(self, caller: Caller, name: str) -> Curator:
        """Return the caller's view of a curator, with every charge checked against their permit and token limit."""
        return self.served.curator_for(caller, name).limited(ChargePermit(self.people, name, caller))

    def _stored_answer(
        self,
        caller: Caller,
        name: str,
        kind: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
        request_id: str,
    ) -> FlightResult | None:
        """Return a stored answer for this proposal, if there is one, without a charge and without reading a row.

        The proposal is released with a spending limit of zero, and abandoned at the first step towards a charge.
        """
        try:
            proposal = self._proposal(caller, name, kind, spec, spends=False)
        except SourceChanged:
            raise
        except SfumatoError:
            self.people.require_not_paused(name)  # a paused policy may be broken while its owner edits it
            raise
        extra_cost = proposal_cost_in_questions(proposal, "release", price, self.settings.free_per_second)
        self._rate_limit.withdraw_extra(caller.user, extra_cost, request_cost_in_questions("release", spec))
        self.served.require_unchanged_files(name)  # an answer stored for other data does not answer this question
        return find_stored(proposal, price, request_id)

    def _proposal(
        self, caller: Caller, name: str, kind: str, spec: Mapping[str, Any], *, spends: bool, until: int | None = None
    ) -> Any:
        """Build the proposal for a caller's spec, or take it from the cache. One that may not spend finds stored
        answers, all of them or those up to the ledger line ``until``.
        """
        view = self.served.curator_for(caller, name)
        cache_key = ProposalKey(caller.user, kind, canonical_json(spec), spends, until)

        def make() -> Any:
            return self._propose(view if spends else view.limited(NoSpending(), until), kind, spec)

        return self.served.proposals(name).get_or_make(cache_key, view.policy, make)

    def _require_stored_answer(self, request: ReleaseKey, stored: StoredRelease | None, what: str) -> FlightResult:
        answer = None if stored is None else self._restore_answer(request, stored)
        if answer is None:
            raise NotThere(what)
        return answer

    def _restore_answer(self, request: ReleaseKey, stored: StoredRelease) -> FlightResult | None:
        """Return an answer that was given before. A line keeps its answer whatever happens later to the policy or to
        its buyer.

        For lines of earlier versions, and for free copies beyond the first few of a line, the answer text was not kept:
        it is found by the stored spec, or else taken from the user's first copy of the line.
        """
        if stored.answer:
            return FlightResult(stored.line, decode_stored_answer(stored.answer), free=True)
        buyer = Caller(request.user, self.people.user(request.user).role)
        spec, price = json.loads(stored.spec), json.loads(stored.price)
        proposal = self._proposal(buyer, request.account, stored.kind, spec, spends=False, until=stored.line)
        result = find_stored(proposal, price, request.id)
        if result is not None:
            return replace(result, free=True)
        first_copy = self._releases.stored_on_line(request.account, stored.line, request.user)
        if first_copy is None or not first_copy[1].answer:
            return None
        return FlightResult(stored.line, decode_stored_answer(first_copy[1].answer), True)

    def _retry_with_new_data(self, caller: Caller, name: str, ask: Callable[[], T]) -> T:
        """Call ``ask``, and once more after reopening the policy if its data files have changed."""
        opened = self.served.last_open_policy(name)
        try:
            return ask()
        except SourceChanged:
            self.served.reopen(caller, name, opened)
            return ask()

    @contextmanager
    def _log_restricted_call(self, caller: Caller, route: str, *roles: Role) -> Iterator[None]:
        """Log a call that is restricted to these roles."""
        with self._log_call(caller, route):
            caller.require(route, *roles)
            yield

    @contextmanager
    def _log_call(self, caller: Caller, route: str, *, line: int | None = None, quiet: bool = False) -> Iterator[None]:
        try:
            with redacted_errors(caller.role):
                yield
        except BaseException as error:
            self._log.write(user=caller.user, route=route, status=http_status_of_error(error), line=line)
            raise
        if not quiet:
            self._log.write(user=caller.user, route=route, status=200, line=line)

    def _log_release(self, caller: Caller, route: str, status: int, released: FlightResult) -> None:
        price = "" if released.free else str(getattr(getattr(released.answer, "receipt", None), "guarantee", ""))
        self._log.write(user=caller.user, route=route, status=status, line=released.line, price=price)
