"""The counter is the one way to a curator from outside: REST, the page and the wire alike come here.

Who calls → which role → which limits → which question → is it stored → single flight → charge → clock → log. A release
that was charged is finished and stored even if nobody waits for it any more. What is told at once needs no rows:
refusals before the charge, and answers that were stored before. Everything else is written down, and then told, when
the clock says so.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from itertools import islice
from typing import Any, TypeVar

from sfumato.curator import Curator, PeriodStandings, Standing
from sfumato.curator.described_tables import Tables
from sfumato.curator.listings import Listing
from sfumato.curator.policy_account import amend_account, latest_lines_of
from sfumato.errors import (
    InvalidParameter,
    NotSignedIn,
    NotThere,
    SfumatoError,
    SourceChanged,
    Unsupported,
    outcome,
)
from sfumato.ledger import Anchor, Line, Verification, entries
from sfumato.plots.picture import Picture
from sfumato.privacy import Budget
from sfumato.privacy.numbers import Number
from sfumato.server.activity_log import ActivityLog
from sfumato.server.people.known_people import Act, Caller, Credentials, Role, Token, User, told
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_limits import ChargePermit, NothingSpent, NotStored
from sfumato.server.releases.answer_clock import AnswerClock, doublings
from sfumato.server.releases.flights import Flight, FlightResult, Flights
from sfumato.server.releases.known_proposals import Proposed, Sent, given_again
from sfumato.server.releases.running_releases import (
    LINES,
    Phase,
    ReleaseKey,
    RunningReleases,
    StoredRelease,
    for_what_is_proposed,
    for_what_was_sent,
    written,
)
from sfumato.server.releases.turns import FreeQuestions, Turns
from sfumato.server.served import HistoryBatch, Served, page_of
from sfumato.server.settings import ServerSettings

T = TypeVar("T")
Propose = Callable[[Curator, str, Mapping[str, Any]], Any]
"""Makes the proposal of a kind from what a caller sent (``server.proposals``)."""
ACTS = ("propose", "columns", "explain", "error", "price", "advise", "plot", "rehearse")
_ASKING = (Role.OWNER, Role.ANALYST)
_SEEING_ALL = (Role.OWNER, Role.AUDITOR)
_LONGEST_PAGE = 1000


@dataclass(frozen=True)
class Progress:
    """This is how far a release is, and the line of its answer once it is done: 0 where nothing was bought."""

    phase: Phase
    line: int | None = None


class Counter:
    """A counter serves the curators of one server. Its methods may be called from any thread.

    ``release`` and ``free`` may take long and are for threads of their own; ``start`` gives a flight that can be waited
    for from an event loop.
    """

    def __init__(
        self,
        settings: ServerSettings,
        people: PeopleFile,
        served: Served,
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
        self._running = RunningReleases(people.database, settings.releases_at_once)
        served.keep_time(self._clock, self._running.count_overrun)
        self._questions = FreeQuestions(settings.free_per_second / settings.processes)
        turns = Turns(settings.releases_at_once, settings.queue, max(4, 2 * (os.cpu_count() or 1)))
        self._flights = Flights(turns, self._clock, self._running)

    # ── who ────────────────────────────────────────────────────────────────────────────────────

    def caller(self, credentials: Credentials, route: str = "caller") -> Caller:
        """Find who calls a route; ``NotSignedIn``, in one text and one time, for whoever is not known."""
        with _telling(None):
            found = self.people.identify(credentials)
        if found is None:
            self._log.write(user="", route=route, status=401)
            raise NotSignedIn
        return found

    def sign_in(self, link: str) -> str:
        """Use a one-time link up, and give the cookie of a new session; ``NotSignedIn`` for a link that is no more."""
        with _telling(None):
            cookie = self.people.sign_in(link, timedelta(hours=self.settings.session_hours))
        self._log.write(user="", route="sign-in", status=401 if cookie is None else 200)
        if cookie is None:
            raise NotSignedIn
        return cookie

    def sign_out(self, caller: Caller, cookie: str) -> None:
        """End a session."""
        with self._logged(caller, "sign-out"):
            self.people.sign_out(cookie)

    # ── what is free ───────────────────────────────────────────────────────────────────────────

    def look(self, caller: Caller) -> None:
        """Count a call that only looks at something as one free question."""
        with self._logged(caller, "look", quiet=True):
            self._questions.take(caller.user)

    def policies(self, caller: Caller) -> tuple[str, ...]:
        """Name the policies that are there for a caller."""
        with self._logged(caller, "policies"):
            return self.served.seen_by(caller)

    def policy(self, caller: Caller, name: str) -> Any:
        """Give the public face of a policy (``Policy.public_face``)."""
        with self._logged(caller, "policy"):
            return self.served.view(caller, name).policy.public_face(self._analyst(caller, name))

    def tables(self, caller: Caller, name: str) -> Tables:
        """Say what there is to ask, from the policy alone, with questions to copy: the same for everybody."""
        with self._logged(caller, "tables"):
            self.served.view(caller, name)
            return self.served.tables(name)

    def is_paused(self, caller: Caller, name: str) -> bool:
        """Tell whether a policy answers nothing new for now."""
        self.served.view(caller, name)
        return name in self.people.paused()

    def spending(self, caller: Caller, name: str) -> Picture:
        """Draw what was spent over time: of the account, or of an analyst's own share of it."""
        with self._logged(caller, "budget"):
            return self.served.view(caller, name).budget.plot()

    def budget(self, caller: Caller, name: str) -> Standing | PeriodStandings:
        """Tell where the account stands, or an analyst's own share of it."""
        with self._logged(caller, "budget"):
            return self.served.view(caller, name).standing()

    def account(self, caller: Caller, name: str) -> tuple[Budget, Fraction | None]:
        """Give the budget as it is counted for whoever asks, and the share of every allowance that is theirs."""
        with self._logged(caller, "account"):
            view = self.served.view(caller, name)
            return view.budget, view.policy.analysts.get(caller.user)

    def free(
        self,
        caller: Caller,
        name: str,
        kind: str,
        act: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any] | None = None,
    ) -> Any:
        """Propose, explain, forecast, price, draw or rehearse, or list columns: nothing is spent, no row is read."""
        with self._logged(caller, act if act in ACTS else "free"):
            caller.require("asking", *_ASKING)
            if act not in ACTS:
                raise InvalidParameter("act", act, f"one of {', '.join(ACTS)}")
            self._questions.take(caller.user, for_what_was_sent(act, spec))
            return self._with_new_data(
                caller, name, lambda: self._acted(caller, name, kind, act, spec, dict(price or {}))
            )

    def _acted(
        self, caller: Caller, name: str, kind: str, act: str, spec: Mapping[str, Any], price: dict[str, Any]
    ) -> Any:
        proposal = self._proposal(caller, name, kind, spec, spends=True)
        if act == "propose":
            return proposal if isinstance(proposal, Listing) else Proposed.of(proposal)
        if act == "columns":
            return proposal.columns
        if not hasattr(proposal, act):
            rule = "an error is drawn against a price, and nothing here has either"
            raise Unsupported("no-picture", rule, fix="ask for it to be explained")
        more = for_what_is_proposed(proposal, act, price, self.settings.free_per_second)
        self._questions.owe(caller.user, more, for_what_was_sent(act, spec))
        return getattr(proposal, act)(**price)

    @contextmanager
    def reading(self, caller: Caller, route: str, *roles: Role) -> Iterator[None]:
        """Let in whoever may make this call, and only then read what they sent; what cannot be read counts as a free
        question, and is written down.
        """
        with self._logged(caller, route, quiet=True):
            caller.require(route, *roles)
            try:
                yield
            except SfumatoError:
                self._questions.take(caller.user)
                raise

    # ── what spends ────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        caller: Caller,
        name: str,
        kind: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
        request_id: str,
    ) -> Flight:
        """Begin a release, or join the same request; its flight tells how far it is, and ends with what was released.

        It is refused at once where that needs no rows, and is done at once where the answer is stored.
        """
        with self._logged(caller, "release", quiet=True):
            caller.require("asking", *_ASKING)
            entries.name(request_id, "request_id")
            self._questions.take(caller.user, for_what_was_sent("release", spec))
            self._require_seen(caller, name)
            request = ReleaseKey(name, caller.user, request_id)
            kept = StoredRelease.asked(kind, spec, price)
            known = self._known(request, kept)
            if known is not None:
                return known
            return self._with_new_data(caller, name, lambda: self._started(caller, request, kept, spec, price))

    def release(
        self,
        caller: Caller,
        name: str,
        kind: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
        request_id: str,
    ) -> FlightResult:
        """Release, and wait for the answer in this thread."""
        return self.start(caller, name, kind, spec, price, request_id).result()

    async def wait(self, flight: Flight) -> FlightResult:
        """Wait for an answer in an event loop. Whoever stops waiting stops nothing."""
        if flight.future.done():  # it was stored
            return flight.result()
        return await asyncio.shield(asyncio.wrap_future(flight.future))

    def progress(self, caller: Caller, name: str, request_id: str) -> Progress:
        """Tell how far a caller's own release is: queued, charged or done. A refusal is told again."""
        with self._logged(caller, "progress"):
            self._require_seen(caller, name)
            request = ReleaseKey(name, caller.user, entries.name(request_id, "request_id"))
            flight = self._flights.find(request)
            if flight is not None:
                now = flight.phase  # it may end meanwhile
                return Progress(now, flight.result().line if now is Phase.DONE else None)
            kept, phase = self._running.kept(request), self._running.phase(request)
            if kept is None and phase is None:
                raise NotThere(f"request {request_id}")
            return Progress(Phase.DONE, kept.line) if phase is None and kept else Progress(phase or Phase.QUEUED)

    def answered(self, caller: Caller, name: str, request_id: str) -> FlightResult:
        """Show again, for nothing, what a caller's own request was answered with: also where that has no line."""
        with self._logged(caller, "released"):
            self._require_seen(caller, name)
            request = ReleaseKey(name, caller.user, entries.name(request_id, "request_id"))
            kept = self._running.kept(request)
            return self._told_again(request, kept, f"request {request_id}")

    def released(self, caller: Caller, name: str, line: int) -> FlightResult:
        """Show an answer again, for nothing: to whom it was given, and to owners and auditors."""
        with self._logged(caller, "released", line=line):
            self._require_seen(caller, name)
            everybody = caller.role in _SEEING_ALL
            found = self._running.kept_line(name, line, None if everybody else caller.user)
            if found is None or not line:
                raise NotThere(f"line {line}")
            return self._told_again(*found, f"line {line}")

    def history(self, caller: Caller, name: str, after: int = 0, limit: int = 100) -> HistoryBatch:
        """List lines of the ledger after a number: all for owners and auditors, their own for analysts."""
        with self._logged(caller, "history"):
            curator = self.served.view(caller, name)
            most = min(max(1, limit), _LONGEST_PAGE)
            self._questions.owe(caller.user, most // LINES)
            analyst = None if caller.role in _SEEING_ALL else caller.user
            reader = self.served.curator(name) if analyst is None else curator
            lines = reader.history(analyst, after=after, limit=most + 1)
            return page_of(self._running, name, lines, most, analyst, curator.policy.analysts)

    def latest(self, caller: Caller, name: str, before: int | None = None, limit: int = 100) -> HistoryBatch:
        """List the last lines before a number, or of all, newest first: as ``history`` shows them."""
        with self._logged(caller, "history"):
            curator = self.served.view(caller, name)
            most = min(max(1, limit), _LONGEST_PAGE)
            self._questions.owe(caller.user, most // LINES)
            analyst = None if caller.role in _SEEING_ALL else caller.user
            every = latest_lines_of(self.served.ledger, curator.policy, analyst, before or 0)
            lines = () if before == 0 else islice(every, most + 1)
            return page_of(self._running, name, lines, most, analyst, curator.policy.analysts)

    # ── what owners do ─────────────────────────────────────────────────────────────────────────

    def users(self, caller: Caller) -> tuple[User, ...]:
        """List every user."""
        with self._as(caller, "users", Role.OWNER):
            return self.people.users()

    def add_user(self, caller: Caller, name: str, role: str) -> User:
        """Add a user, in a role."""
        with self._as(caller, "users", Role.OWNER):
            return self.people.add_user(name, role, by=caller.user)

    def disable_user(self, caller: Caller, name: str, *, disabled: bool = True) -> User:
        """Let a user in no more, or again."""
        with self._as(caller, "users", Role.OWNER):
            if name == caller.user:
                raise InvalidParameter("user", name, "somebody else: nobody shuts themselves out")
            if name not in (each.name for each in self.people.users()):
                raise NotThere(f"user {name}")
            return self.people.set_disabled(name, disabled, by=caller.user)

    def link(self, caller: Caller, name: str) -> str:
        """Make the secret of a link that signs a user in once."""
        with self._as(caller, "users", Role.OWNER):
            return self.people.new_link(name, by=caller.user)

    def tokens(self, caller: Caller, user: str | None = None) -> tuple[Token, ...]:
        """List every token, or those of one user."""
        with self._as(caller, "tokens", Role.OWNER):
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
        """Make a token, and give it with its text: this once."""
        with self._as(caller, "tokens", Role.OWNER):
            return self.people.new_token(user, label=label, expires=expires, most=most, by=caller.user)

    def revoke_token(self, caller: Caller, number: int) -> Token:
        """End a token."""
        with self._as(caller, "tokens", Role.OWNER):
            if number not in (each.number for each in self.people.tokens()):
                raise NotThere(f"token {number}")
            return self.people.revoke_token(number, by=caller.user)

    def shares(self, caller: Caller, name: str) -> dict[str, Standing | PeriodStandings]:
        """Tell where the share of every analyst of a policy stands. What it is, the policy's file says."""
        with self._as(caller, "shares", Role.OWNER):
            curator = self.served.curator(name)
            return {each: curator.standing(each) for each in curator.policy.analysts}

    def amend(self, caller: Caller, name: str, reason: str) -> Line:
        """Make the budget that is written in the policy's file now the account's, for a reason that is kept."""
        with self._as(caller, "amend", Role.OWNER):
            line = amend_account(self.served.account(name), self.served.written(name), reason)
            self.people.record(caller.user, "amended", f"{name}, line {line.number}")
            return line

    def pause(self, caller: Caller, name: str, *, paused: bool = True) -> None:
        """Let a policy answer nothing new, in every process, or let it answer again. What is charged is answered."""
        with self._as(caller, "pause", Role.OWNER):
            self._require_seen(caller, name)
            self.people.pause(name, paused, by=caller.user)

    def acts(self, caller: Caller, after: int = 0, limit: int = 100) -> tuple[Act, ...]:
        """List what owners did, in order."""
        with self._as(caller, "acts", *_SEEING_ALL):
            return self.people.acts(after, min(max(1, limit), _LONGEST_PAGE))

    def require_owner(self, caller: Caller, route: str) -> None:
        """Refuse everybody else what is the owner's to see and no part of any policy."""
        with self._as(caller, route, Role.OWNER):
            pass

    def overruns(self, caller: Caller, name: str) -> int:
        """Count the releases whose rows took longer to read than the clock allowed. PRIVATE: it depends on rows."""
        with self._as(caller, "overruns", Role.OWNER):
            self._require_seen(caller, name)
            return self._running.overruns(name)

    # ── what auditors do ───────────────────────────────────────────────────────────────────────

    def verify(self, caller: Caller) -> Verification:
        """Check every line of the ledger."""
        with self._as(caller, "verify", *_SEEING_ALL):
            self._read_all_lines(caller)
            return self.served.ledger.verify()

    def export(self, caller: Caller, form: str, path: str | os.PathLike[str]) -> None:
        """Write the ledger to a file of the server, in a form that others read."""
        with self._as(caller, "export", *_SEEING_ALL):
            self._read_all_lines(caller)
            self.served.ledger.export(form, path)

    def anchor(self, caller: Caller) -> Anchor:
        """Give what vouches for the ledger as it is now, to be kept elsewhere."""
        with self._as(caller, "anchor", *_SEEING_ALL):
            return self.served.ledger.anchor()

    def _read_all_lines(self, caller: Caller) -> None:
        """Count a call that reads the whole ledger by its lines; of one that is damaged they are told by the call."""
        lines = 0
        with suppress(SfumatoError):
            lines = self.served.ledger.head[0]
        self._questions.owe(caller.user, lines // LINES)

    # ── stopping ───────────────────────────────────────────────────────────────────────────────

    def stop_taking(self) -> None:
        """Take no new releases, from now on and without waiting for anything."""
        self._flights.stop_taking()

    def drain(self, seconds: float | None = None) -> bool:
        """Take no new releases, and wait until those that were taken are answered; tell whether all are."""
        return self._flights.drain(seconds)

    # ── inside ─────────────────────────────────────────────────────────────────────────────────

    def _analyst(self, caller: Caller, name: str) -> str | None:
        return caller.user if caller.user in self.served.curator(name).policy.analysts else None

    def _require_seen(self, caller: Caller, name: str) -> None:
        if name not in self.served.seen_by(caller):
            raise NotThere(f"policy {name}")

    def _known(self, request: ReleaseKey, asked: StoredRelease) -> Flight | None:
        """Find the same request under way here, or answered before; its id names one release for ever."""
        flight = self._flights.find(request)
        if flight is not None and flight.phase is not Phase.DONE:
            flight.asked.require_same(asked)
            return flight
        answer = self._answered(request, asked)
        return None if answer is None else Flight.landed(request, asked, answer)

    def _answered(self, request: ReleaseKey, asked: StoredRelease) -> FlightResult | None:
        """Show again what the same request was answered with, in whatever process; None for a new one."""
        kept = self._running.kept(request)
        if kept is None:
            return None
        kept.require_same(asked)
        return self._told_again(request, kept, f"the answer of request {request.id}")

    def _started(
        self,
        caller: Caller,
        request: ReleaseKey,
        kept: StoredRelease,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
    ) -> Flight:
        stored = self._stored(caller, request.account, kept.kind, spec, price, request.id)
        if stored is not None:
            landed = Flight.landed(request, kept, stored)
            self._running.keep(request, landed.kept(stored))
            self._say(caller, "release", 200, stored)
            return landed
        self.people.require_open(request.account)  # what was answered before is told while a policy is paused
        curator = self._paying(caller, request.account)
        proposal = self._propose(curator, kept.kind, spec)
        given = {**price, "request_id": request.id}

        def buy(progress: Callable[[str], None]) -> Any:
            known = self._answered(request, kept)
            if known is not None:  # another process has answered the same request meanwhile
                return known
            self._require_seen(caller, request.account)
            self.people.require_open(request.account)
            now, opened = self._paying(caller, request.account), self.served.last_opened(request.account)
            written_since = now.policy is not curator.policy  # it is asked as the policy is written now
            asked = self._propose(now, kept.kind, spec) if written_since else proposal
            try:
                return asked.release(**given, progress=progress)
            except SourceChanged:  # said before the charge: the data as they are now are asked
                self.served.renew(caller, request.account, opened)
                again = self._propose(self._paying(caller, request.account), kept.kind, spec)
                return again.release(**given, progress=progress)

        flight = Flight(
            request,
            kept,
            buy,
            doublings(kept.kind, proposal),
            lambda ended: self._ended(caller, ended),
            lambda error: told(error, caller.role),
        )
        return self._flights.take(flight)

    def _ended(self, caller: Caller, flight: Flight) -> None:
        refused = flight.future.exception()
        if refused is None:
            self._say(caller, "release", 200, flight.future.result())
        else:
            self._log.write(user=caller.user, route="release", status=_status(refused))

    def _paying(self, caller: Caller, name: str) -> Curator:
        """Give the curator as a caller has it, whose charges are permitted one by one."""
        return self.served.view(caller, name).limited(ChargePermit(self.people, name, caller))

    def _stored(
        self,
        caller: Caller,
        name: str,
        kind: str,
        spec: Mapping[str, Any],
        price: Mapping[str, Any],
        request_id: str,
    ) -> FlightResult | None:
        """Find an answer that was stored, without charging anything or reading a row.

        It is asked for where nothing can be spent, and given up at the first step towards a charge.
        """
        try:
            proposal = self._proposal(caller, name, kind, spec, spends=False)
        except SourceChanged:
            raise
        except SfumatoError:
            self.people.require_open(name)  # a policy that is paused may be broken: its owner is at work
            raise
        more = for_what_is_proposed(proposal, "release", price, self.settings.free_per_second)
        self._questions.owe(caller.user, more, for_what_was_sent("release", spec))
        self.served.require_files(name)  # what was answered about other data is no answer about these
        return _found(proposal, price, request_id)

    def _proposal(
        self, caller: Caller, name: str, kind: str, spec: Mapping[str, Any], *, spends: bool, until: int | None = None
    ) -> Any:
        """Make a proposal of what a caller sent, or take the one that was made of the same. One that may not spend
        finds answers that were stored, all of them or those until a line.
        """
        view = self.served.view(caller, name)
        sent = Sent(caller.user, kind, written(spec), spends, until)

        def make() -> Any:
            return self._propose(view if spends else view.limited(NothingSpent(), until), kind, spec)

        return self.served.proposals(name).of(sent, view.policy, make)

    def _told_again(self, request: ReleaseKey, kept: StoredRelease | None, what: str) -> FlightResult:
        answer = None if kept is None else self._shown_again(request, kept)
        if answer is None:
            raise NotThere(what)
        return answer

    def _shown_again(self, request: ReleaseKey, kept: StoredRelease) -> FlightResult | None:
        """Show an answer that was given before: a line is one answer, whatever others buy later, and whatever becomes
        of the policy and of who bought it. Of those that an earlier version gave, and of free ones beyond the first
        few of a line, it was not kept how they are shown: they are found as they were asked for, or else as the line
        was shown to the same user first.
        """
        if kept.answer:
            return FlightResult(kept.line, given_again(kept.answer), free=True)
        buyer = Caller(request.user, self.people.user(request.user).role)
        spec, price = json.loads(kept.spec), json.loads(kept.price)
        proposal = self._proposal(buyer, request.account, kept.kind, spec, spends=False, until=kept.line)
        found = _found(proposal, price, request.id)
        if found is not None:
            return replace(found, free=True)
        first = self._running.kept_line(request.account, kept.line, request.user)
        return (
            None
            if first is None or not first[1].answer
            else FlightResult(kept.line, given_again(first[1].answer), True)
        )

    def _with_new_data(self, caller: Caller, name: str, ask: Callable[[], T]) -> T:
        """Ask, and once more of the data as they are now where they have changed since they were opened."""
        opened = self.served.last_opened(name)
        try:
            return ask()
        except SourceChanged:
            self.served.renew(caller, name, opened)
            return ask()

    @contextmanager
    def _as(self, caller: Caller, route: str, *roles: Role) -> Iterator[None]:
        """Write down a call that belongs to these roles."""
        with self._logged(caller, route):
            caller.require(route, *roles)
            yield

    @contextmanager
    def _logged(self, caller: Caller, route: str, *, line: int | None = None, quiet: bool = False) -> Iterator[None]:
        try:
            with _telling(caller.role):
                yield
        except BaseException as error:
            self._log.write(user=caller.user, route=route, status=_status(error), line=line)
            raise
        if not quiet:
            self._log.write(user=caller.user, route=route, status=200, line=line)

    def _say(self, caller: Caller, route: str, status: int, released: FlightResult) -> None:
        price = "" if released.free else str(getattr(getattr(released.answer, "receipt", None), "guarantee", ""))
        self._log.write(user=caller.user, route=route, status=status, line=released.line, price=price)


@contextmanager
def _telling(role: Role | None) -> Iterator[None]:
    """Refuse with what somebody in a role is told."""
    try:
        yield
    except SfumatoError as error:
        said = told(error, role)
        if said is error:
            raise
        raise said from None


def _found(proposal: Any, price: Mapping[str, Any], request_id: str) -> FlightResult | None:
    """Find what was stored for a proposal that may spend nothing."""
    try:
        return FlightResult.of(proposal.release(**price, request_id=request_id, progress=_nothing_new))
    except NotStored:
        return None


def _nothing_new(phase: str) -> None:  # noqa: ARG001
    raise NotStored


def _status(error: BaseException) -> int:
    return outcome(error).http_status if isinstance(error, SfumatoError) else 500
