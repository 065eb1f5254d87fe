"""An account is charged before anything is read, and answered before anything is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import groupby
from typing import Self, TypeVar

from sfumato.errors import AlreadyAnswered, InvalidParameter, LedgerDamaged, LedgerInDoubt, SourceTaken, Unanswered
from sfumato.ledger import entries
from sfumato.ledger.accounts import asking, joined_sources
from sfumato.ledger.accounts.asking import Asking, Opening
from sfumato.ledger.accounts.holds import Tab
from sfumato.ledger.accounts.joined_sources import JoinedSource
from sfumato.ledger.accounts.spending_limits import Change, SpendingLimit, amend, epsilon_of, reserved
from sfumato.ledger.entries import Entry, Line, Publication, StoredAnswer
from sfumato.ledger.guarded import GuardedStore, Periods
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NOTHING, read_spending
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Budget, Cost, Curve, PrivacyUnit, codec
from sfumato.privacy.numbers import PROBABILITY, Number, exact, percent, text

T = TypeVar("T")
_MOST = 10**330  # units of 1e-30: the largest number there is (privacy.numbers)


@dataclass(frozen=True)
class Analyst:
    """This is an analyst as an account sees them. A share is a ceiling, not a promise: others may empty the account
    first.
    """

    name: str
    share: Fraction | None
    """The part of every allowance that is theirs at most; None: whatever the account affords."""
    budget: Budget
    """What their share admits now, if they have one; else what the account does."""
    spent: Mapping[str, Fraction | None]

    def __repr__(self) -> str:
        part = "no share of their own" if self.share is None else f"at most {percent(self.share)} of the budget"
        return f"<Analyst {self.name}, {part}; left for ordinary answers: {self.budget.left_words}>"


@dataclass(frozen=True)
class AccountStatement:
    """What a receipt tells of an account, all of one moment."""

    budget: Budget
    epsilons: tuple[Fraction, ...]
    """Every ε the account has had, oldest first; the last is in force."""
    own: Budget | None = None
    """What the share of the analyst who asks admits; None where no analyst does."""


class Account:
    """An account is one population's budget in a ledger. Safe to use from threads and processes alike."""

    def __init__(self, guarded: GuardedStore, name: str, terms: Terms) -> None:
        self.name = name
        self.unit: PrivacyUnit = terms.unit
        self.per = terms.per
        """The period of which each has an account of its own; empty where this is the only account."""
        self.periods: Periods = ()
        """The periods whose accounts pay."""
        self._guarded = guarded
        self._opening = terms
        self.limit: SpendingLimit | None = None
        """What charges are first reserved within, beside the account."""
        self.until: int | None = None
        """The last line that holds an answer which is found again; None where every line may."""

    def limited(self, limit: SpendingLimit, until: int | None = None) -> Self:
        """Give the same account, whose charges are first reserved within this limit. What was answered after the line
        ``until`` is not found there.
        """
        found = copy(self)
        found.limit, found.until = limit, until
        return found

    def __repr__(self) -> str:
        return f"<Account {self.name} protecting {self.unit}; .budget says what is left>"

    # ── where it stands ────────────────────────────────────────────────────────────────────────

    @property
    def budget(self) -> Budget:
        """Give the account now: what open tabs hold counts as spent, as it does when a charge is admitted."""
        with self._guarded.reading() as transaction:
            return self._budget(transaction)

    def _budget(self, transaction: Transaction, analyst: str = "") -> Budget:
        """Return what an analyst's share admits, or the account where they have none or nobody is named."""
        return self._guarded.budgets(transaction, self.name, analyst)[-1][0]

    def statement(self, analyst: str | None = None) -> AccountStatement:
        """Read what a receipt tells of the account, and of the share of the analyst who asks, in one transaction."""
        with self._guarded.reading() as transaction:
            own = None if analyst is None else self._budget(transaction, entries.name(analyst, "analyst"))
            return AccountStatement(self._budget(transaction), self._epsilons(transaction), own)

    def budgets(self, analyst: str | None = None) -> tuple[Budget, ...]:
        """List every budget that must afford a charge now: the account's, and the share of the analyst who asks."""
        with self._guarded.reading() as transaction:
            found = self._guarded.budgets(transaction, self.name, analyst or "")
        return tuple(budget for budget, _ in found)

    @property
    def remaining(self) -> dict[str, Fraction]:
        return self.budget.remaining

    @property
    def spent(self) -> dict[str, Fraction | None]:
        """Give what was spent for good, without what tabs hold."""
        with self._guarded.reading() as transaction:
            spending = read_spending(transaction.last(self.name).totals)
            return self._guarded.terms(transaction, self.name).budget.at(spending.spent).spent

    # ── charging and answering ─────────────────────────────────────────────────────────────────

    def charge(self, entry: Entry) -> Line:
        """Admit this release and write it down, in one step, durable on return; or ``Overspent``, and nothing."""
        entry = Entry.of(entry)
        cost, columns, periods = self.cost(entry.curve), self._guarded.columns(entry), self._paying()

        def write(transaction: Transaction) -> Row:
            asking.requested(transaction, self.name, entry.request_id, entry.analyst, entry.question, entry.plan)
            return self._guarded.pay(transaction, self.name, columns, cost, periods)

        return self._admitted(columns["analyst"], cost, entry.curve, write, Line.of, periods)

    def _admitted(
        self,
        analyst: str,
        cost: Cost,
        curve: Curve | None,
        write: Callable[[Transaction], Row],
        given: Callable[[Row], T],
        periods: Periods = (),
    ) -> T:
        """Charge what fits the limit, where there is one, and the account."""
        if self.limit is None:
            return self._guarded.admitted(self.name, analyst, cost, write, given, periods)
        charged: list[Row] = []

        def writing(transaction: Transaction) -> Row:
            charged.append(write(transaction))
            return charged[0]

        with self._reserving(cost, curve, lambda: bool(charged) and self._guarded.stands(charged[0])):
            return self._guarded.admitted(self.name, analyst, cost, writing, given, periods)

    def _reserving(self, cost: Cost, curve: Curve | None, charged: Callable[[], bool]) -> AbstractContextManager[None]:
        return reserved(self.limit, lambda: epsilon_of(cost, curve, self._opening.budget), charged)

    def ask(self, entry: Entry, accuracy: Mapping[str, Number], *, fresh: bool = False) -> Asking:
        """Ask a question that will be answered with this accuracy: found, joined to an equal one under way, or charged.

        Nothing happens before its ``begin``.
        """
        entry = Entry.of(entry)
        cost, widths = self.cost(entry.curve), entries.widths(accuracy)
        return Asking(
            self._guarded,
            self.name,
            entry,
            cost,
            widths,
            fresh=fresh,
            periods=self._paying(),
            reserving=partial(self._reserving, cost, entry.curve),
            until=self.until,
        )

    def _paying(self) -> Periods:
        """List the periods whose accounts pay; none: this account does."""
        return self.periods

    def cost(self, curve: Curve) -> Cost:
        """Compute a release's price here. Order and neighbours are fixed for life, so no amendment changes it."""
        return self._opening.budget.cost(curve)

    def recomputed(self, line: Line) -> Cost | None:
        """Compute what a line of this account must have cost or held, from what it says was run; None where it says
        nothing. Lines that were written before fractions were kept say whole units, rounded up.
        """
        if line.curve is None:
            return None
        price = self.cost(line.curve)
        earlier = price.in_whole_units()
        return earlier if earlier in (line.cost, line.held) else price

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        """Write down the answer to a charge; it may be shown once this has returned."""
        if not isinstance(line, Line):
            raise InvalidParameter("line", line, "the line of a charge or a step")
        entries.prose(body, "body", entries.BODY)
        detail = entries.write_widths(entries.widths(accuracy))
        written = self._guarded.body(body)
        with self._guarded.writing() as transaction:
            paid = transaction.line(entries.line_number(line.number, "line"))
            known = paid is not None and (paid.hash, paid.account) == (line.hash, self.name)
            if paid is None or not known or paid.kind not in {"charge", "step"}:
                raise InvalidParameter("line", line.number, "the line of a charge or a step of this account")
            if transaction.newest(about=paid.number) is not None:
                raise AlreadyAnswered(
                    "a charge pays for one answer; this one has been answered, or was stopped without an answer",
                    place=f"line {paid.number}",
                    fix="charge again for another answer",
                )
            transaction.end(paid.number)
            copied = {"analyst": paid.analyst, "request": paid.request, "plan": paid.plan, "data": paid.data}
            return Line.of(
                transaction.append("answer", self.name, {**copied, **written, "about": paid.number, "detail": detail})
            )

    def stored(self, *, plan: str, data: str, accuracy: Mapping[str, Number] | None = None) -> StoredAnswer | None:
        """Find the newest answer to this very question on this very data, at least as accurate in every column asked
        for.
        """
        asked = entries.widths(accuracy or {})
        where = {"kind": "answer", "account": self.name}
        where |= {"plan": entries.name(plan, "plan"), "data": self._guarded.data(entries.name(data, "data"))}
        found = asking.stored(self._guarded, where, asked, self.until)
        return None if found is None else self._guarded.stored(found)

    def published(self, shelf: str, *, data: str) -> tuple[Publication, ...]:
        """List all answers on this very data whose plans start with a text, oldest first: what was published of a
        table. No body is read, and each line once by a process, however long the ledger is.
        """
        version = self._guarded.data(entries.name(data, "data"))
        with self._guarded.reading() as transaction:
            return self._guarded.shelves.listed(transaction, self.name, version, entries.name(shelf, "shelf"))

    def read_published(self, publication: Publication) -> StoredAnswer:
        """Read the body of what was published. Raises ``LedgerDamaged`` where its line or its file is gone."""
        with self._guarded.reading() as transaction:
            row = transaction.line(publication.number)
        if row is None or (row.hash, row.account) != (publication.hash, self.name):
            raise LedgerDamaged(publication.number, "it is not the line that was there before")
        return self._guarded.stored(row)

    def requested(
        self, request_id: str, *, analyst: str | None = None, question: str | None = None, plan: str | None = None
    ) -> StoredAnswer | None:
        """Find the answer this request got; None when it got none: ``ask`` tells whether it was charged."""
        entries.name(request_id, "request_id")
        with self._guarded.reading() as transaction:
            found = asking.requested(transaction, self.name, request_id, analyst, question, plan)
        return None if found is None else self._guarded.stored(found)

    # ── what the owner does ────────────────────────────────────────────────────────────────────

    def amend(
        self,
        *,
        reason: str,
        epsilon: Number | None = None,
        delta: Number | None = None,
        reserve: Number | None = None,
    ) -> Line:
        """Change what may be spent. Unit, neighbours and order stay for life: what was spent is counted in them.

        What was answered cannot be taken back, so a budget below what is spent and held is refused. If ε is raised
        after answers were seen, only the largest ε that the owner would ever have allowed is a guarantee: the account's
        theorem is about an ε that no answer decides.
        """
        change = Change(entries.reason(reason), epsilon, delta, reserve)
        with self._guarded.writing() as transaction:
            spent = read_spending(transaction.last(self.name).totals).total
            return Line.of(amend(self._guarded, transaction, self.name, change, spent))

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Every ε the account has had, oldest first; the last is in force."""
        with self._guarded.reading() as transaction:
            return self._epsilons(transaction)

    def _epsilons(self, transaction: Transaction) -> tuple[Fraction, ...]:
        every = [terms.budget.epsilon for terms in self._guarded.every_terms(transaction, self.name)]
        return tuple(epsilon for epsilon, _ in groupby(every))

    def correct(self, more: Curve | Cost, *, reason: str, analyst: str | None = None) -> Line:
        """Add what was spent beyond what was charged, whatever it leaves. There is no line that takes away."""
        cost = self._vector(more, "more") if isinstance(more, Cost) else self.cost(more)
        columns = {
            "question": entries.reason(reason),
            "analyst": "" if analyst is None else entries.name(analyst, "analyst"),
        }
        with self._guarded.writing() as transaction:
            return Line.of(transaction.append("correction", self.name, columns, cost=cost))

    def analyst(self, name: str, share: Number | None = None) -> Analyst:
        """Give an analyst here; with ``share``, limit them to this part of every allowance from now on.

        A charge of theirs must fit both their share and the account: an unspent share may still be refused.
        """
        entries.name(name, "analyst")
        if share is not None:
            self.give_share(name, share)
        with self._guarded.reading() as transaction:
            mine = transaction.newest(account=self.name, analyst=name)
            budget = self._guarded.terms(transaction, self.name).budget
            budgets = self._guarded.budgets(transaction, self.name, name)
        spent = budget.at(read_spending(mine.own if mine else "").spent).spent
        return Analyst(name, Fraction(mine.share) if mine and mine.share else None, budgets[-1][0], spent)

    def give_share(self, name: str, share: Number) -> None:
        """Limit an analyst to this part of every allowance from now on. Nothing is written where it is theirs already:
        then nobody waits for a lock, and the share that is enforced is still that of the ledger, in the transaction
        that charges.
        """
        entries.name(name, "analyst")
        part = text(exact(share, "share", PROBABILITY))
        with self._guarded.reading() as transaction:
            mine = transaction.newest(account=self.name, analyst=name)
        if mine is not None and mine.share == part:
            return
        with self._guarded.writing() as transaction:
            mine = transaction.newest(account=self.name, analyst=name)
            if mine is None or mine.share != part:
                transaction.append("share", self.name, {"analyst": name, "share": part})

    def look(self, *sources: joined_sources.Given, fingerprint: str | None = None) -> list[JoinedSource]:
        """Look at data that may be joined; nothing is written. Content is asked for unless they look as they did."""
        with self._guarded.reading() as transaction:
            known = joined_sources.known(transaction, self.name)
        before = len(known)
        for each in sources:
            known.append(joined_sources.look(each, fingerprint, known, self._guarded.keyed))
        return known[before:]

    def join(self, source: joined_sources.Given | JoinedSource, *, fingerprint: str | None = None) -> JoinedSource:
        """Say that these data, or what was seen of them (``look``), are about this account's people.

        Data that another account knows, by path, content or file, are refused; new content under a known path stays.
        """
        found = source if isinstance(source, JoinedSource) else self.look(source, fingerprint=fingerprint)[0]
        with self._guarded.writing() as transaction:
            taken = joined_sources.taken(joined_sources.joined(transaction), self.name, found, self._guarded.keyed)
            if taken is not None:
                raise SourceTaken(
                    "the same people have one budget, whatever their data are called; "
                    f"these belong to the account {taken!r}",
                    place=f"account {self.name!r}",
                    fix=f"ask for them in {taken!r}",
                )
            if joined_sources.changed(found, joined_sources.known(transaction, self.name)):
                transaction.append("source", self.name, {"detail": codec.dumps(found)})
        return found

    @property
    def sources(self) -> tuple[JoinedSource, ...]:
        """List every version of the data that was joined, oldest first."""
        with self._guarded.reading() as transaction:
            return tuple(joined_sources.known(transaction, self.name))

    @property
    def version(self) -> int:
        """Say which version of the data is joined, as readers may be told: how often they have changed."""
        return joined_sources.version(self.sources)

    # ── tabs ───────────────────────────────────────────────────────────────────────────────────

    def open_tab(
        self, hold: Entry | Cost, *, whole: bool = False, analyst: str | None = None, question: str = ""
    ) -> Tab:
        """Set an amount aside for steps that are charged one by one; what is unspent is free again at the end.

        A mechanism that keeps hidden state between its answers (``AboveThreshold``), and with ``whole`` anything
        else, is charged whole now and gives nothing back. A bare Cost is a hold for steps yet to be chosen.
        """
        entry, vector = self._hold(hold, analyst, question)
        opening = self._opening_line(hold, entry, vector, whole=whole)

        def write(transaction: Transaction) -> Row:
            return transaction.append("tab-open", self.name, opening.columns, cost=opening.spent, left=opening.held)

        def given(row: Row) -> Tab:
            return Tab(self._guarded, Line.of(row), self.cost)

        curve = _run_itself(hold, entry, opening)
        return self._admitted(opening.columns["analyst"], vector, curve, write, given)

    def ask_tab(
        self,
        hold: Entry | Cost,
        asked: Entry,
        *,
        whole: bool = False,
        seconds: float | None = None,
        waiting: Callable[[], None] = lambda: None,
    ) -> Tab | StoredAnswer:
        """Open a tab for a request, as ``open_tab`` does, or find what the same request came to (``finish``).

        ``asked`` says what is asked, by whom and under which id, and leaks nothing itself. The same request under way
        is waited for; one that ended without coming to anything is ``Unanswered``, and opens no second tab.
        """
        entry, vector = self._hold(hold, asked.analyst, asked.question)
        opening = self._opening_line(hold, entry, vector, whole=whole)
        columns = opening.columns | {"request": asked.request_id or "", "plan": asked.plan}
        curve = _run_itself(hold, entry, opening)
        asking = Asking(
            self._guarded,
            self.name,
            asked,
            vector,
            {},
            fresh=True,
            reserving=partial(self._reserving, vector, curve),
            opening=opening._replace(columns=columns),
        )
        try:
            found = asking.begin(seconds, waiting)
            return Tab(self._guarded, asking.line, self.cost) if found is None else found
        except BaseException as error:
            if not asking.stands():
                raise
            asking.stop()
            if isinstance(error, LedgerInDoubt):
                raise
            raise Unanswered(asking.line.number) from None

    def finish(self, tab: Tab, body: str) -> Line:
        """End a tab and write down what its steps came to, as the answer to the request that opened it: both at once,
        so that whoever waits for the request is never told that it has stopped.

        It is made of the steps' answers alone, so nothing more is spent.
        """
        entries.prose(body, "body", entries.BODY)
        written, opening = self._guarded.body(body), tab.opening
        if opening.request_id is None:
            raise InvalidParameter("tab", opening.number, "one that was opened for a request")
        nothing = Curve((), self._opening.budget.neighbours)
        named = (opening.question, opening.plan, "", opening.analyst, opening.request_id)
        columns = self._guarded.columns(Entry(nothing, *named))
        with self._guarded.writing() as transaction:
            if transaction.ended(opening.number) is None:
                transaction.close_tab(opening.number, keep=False)
            paid = transaction.append("charge", self.name, columns, cost=self.cost(nothing))
            copied = {"analyst": paid.analyst, "request": paid.request, "plan": paid.plan, "data": paid.data}
            transaction.end(opening.number)
            answer: dict[str, str | int] = {**copied, **written, "about": paid.number}
            answer["detail"] = entries.write_widths({})
            return Line.of(transaction.append("answer", self.name, answer))

    def _opening_line(self, hold: Entry | Cost, entry: Entry, vector: Cost, *, whole: bool) -> Opening:
        spends = whole or entry.interactive
        columns = self._guarded.columns(entry) | ({"parts": ""} if isinstance(hold, Cost) else {})
        return Opening(vector, NOTHING, columns) if spends else Opening(NOTHING, vector, columns)

    def _hold(self, hold: Entry | Cost, analyst: str | None, question: str) -> tuple[Entry, Cost]:
        if not isinstance(hold, Cost):
            entry = Entry.of(hold)
            return entry, self.cost(entry.curve)
        nothing = Curve((), self._opening.budget.neighbours)
        return Entry(nothing, analyst=analyst, question=question), self._vector(hold, "hold")

    def _vector(self, cost: Cost, what: str) -> Cost:
        if (cost.renyi is None) is not (self._opening.budget.order is None):
            raise InvalidParameter(what, cost, "an amount in every currency of the account")
        if any(amount is not None and amount > _MOST for amount in (cost.pure, cost.renyi, cost.failure)):
            raise InvalidParameter(what, "an amount beyond all bounds", "amounts of at most 1e300")
        return cost.with_short_fractions()

    def open_tabs(self) -> tuple[Line, ...]:
        """List the lines that opened tabs which are not closed; what they hold counts as spent until they are."""
        with self._guarded.reading() as transaction:
            opened = [row for row in transaction.page({"kind": "tab-open"}) if row.account == self.name]
            return tuple(Line.of(row) for row in opened if not _closed(transaction, row.number))

    def abandon(self, tab: int, *, reason: str) -> Line:
        """Close a tab whose process is gone. All it held is spent: nobody knows where it stopped, or why."""
        entries.reason(reason)
        with self._guarded.writing() as transaction:
            last = transaction.newest(tab=entries.line_number(tab, "tab"))
            if last is None or last.account != self.name or last.kind == "tab-close":
                raise InvalidParameter("tab", tab, "the number of an open tab of this account")
            return Line.of(transaction.close_tab(last.tab, keep=True, reason=reason))


def _closed(transaction: Transaction, tab: int) -> bool:
    last = transaction.newest(tab=tab)
    return last is None or last.kind == "tab-close"


def _run_itself(hold: Entry | Cost, entry: Entry, opening: Opening) -> Curve | None:
    """Give the curve of what a tab is opened for where that is run itself, and charged whole.

    Steps have to fit the amounts that are held, and not the curve: they may have a larger ε than it has.
    """
    return None if isinstance(hold, Cost) or opening.spent == NOTHING else entry.curve
