"""The account of one population: charged before anything is read, and answered before anything is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from fractions import Fraction
from functools import partial
from typing import NamedTuple, Self, TypeVar

from sfumato.errors import (
    AlreadyAnswered,
    InvalidParameter,
    LedgerDamaged,
    LedgerInDoubt,
    SourceTaken,
    Unanswered,
    ValueWords,
)
from sfumato.ledger import entries
from sfumato.ledger.accounts import joined_sources, pending_queries
from sfumato.ledger.accounts.approvals import AccountRequests, ChargeCondition, ConditionalCharge
from sfumato.ledger.accounts.joined_sources import JoinedSource
from sfumato.ledger.accounts.pending_queries import PendingQuery, TabOpening
from sfumato.ledger.accounts.reservations import (
    BudgetChange,
    SpendingLimit,
    Tab,
    append_amendment,
    release_epsilon,
    reserve_while_charging,
)
from sfumato.ledger.entries import Entry, Line, Publication, StoredAnswer
from sfumato.ledger.guarded import GuardedStore, Periods
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NO_COST, read_totals
from sfumato.ledger.stores.store import Where
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Budget, Cost, Curve, PrivacyUnit, codec
from sfumato.privacy.numbers import PROBABILITY, Number, exact, format_exact, format_percent
from sfumato.quick_dataclass import dataclass

T = TypeVar("T")
_MAX_UNITS = 10**330  # units of 1e-30: the largest number there is (privacy.numbers)


@dataclass(frozen=True)
class Analyst:
    """An analyst as an account sees them. A share is a ceiling, not a promise: others may exhaust the account first."""

    name: str
    share: Fraction | None
    """The maximum part of every allowance that they may spend; None: whatever the account affords."""
    budget: Budget
    """What their share admits now, if they have one; else what the account admits."""
    spent: Mapping[str, Fraction | None]

    def __repr__(self) -> str:
        part = "no share of their own" if self.share is None else f"at most {format_percent(self.share)} of the budget"
        return f"<Analyst {self.name}, {part}; left for ordinary answers: {self.budget.remaining_words}>"


@dataclass(frozen=True)
class AccountStatement:
    """The state of an account that a receipt shows, as of one moment."""

    budget: Budget
    epsilons: tuple[Fraction, ...]
    """Every ε the account has had, oldest first; the last is in force."""
    analyst_budget: Budget | None = None
    """What the share of the asking analyst admits; None where there is no analyst."""


class RecordedAnswer(NamedTuple):
    """The line of an answer, and the state of the account after it."""

    line: Line
    statement: AccountStatement


@dataclass(frozen=True)
class AnswerLookup:
    """What one reading transaction shows of a query, before it is charged."""

    answer: StoredAnswer | None
    """The answer that is free; None: it has to be charged."""
    statement: AccountStatement
    last_line: int
    """The last line then: an answer that is not found can only be in a later one."""


class Account:
    """One population's budget in a ledger. Safe to use from threads and processes alike."""

    def __init__(self, guarded: GuardedStore, name: str, terms: Terms) -> None:
        self.name = name
        self.unit: PrivacyUnit = terms.unit
        self.per = terms.per
        """The period with an account each; empty where this is the only account."""
        self.periods: Periods = ()
        """The periods whose accounts pay."""
        self._guarded = guarded
        self._opening_terms = terms
        self.limit: SpendingLimit | None = None
        """A limit beside the account, in which each charge is reserved first."""
        self.until: int | None = None
        """The last line whose answer may be reused; None: any line."""
        self.condition: ChargeCondition | None = None
        """A condition on every charge, asked in the transaction that appends it."""

    def limited(self, limit: SpendingLimit | None, until: int | None = None) -> Self:
        """Return this account with its charges first reserved within a limit, or within none. Answers after the line
        ``until`` are not reused there.
        """
        limited_account = copy(self)
        limited_account.limit, limited_account.until = limit, until
        return limited_account

    def conditioned(self, condition: ChargeCondition) -> Self:
        """Return this account with a condition on every charge."""
        conditioned_account = copy(self)
        conditioned_account.condition = condition
        return conditioned_account

    @property
    def requests(self) -> AccountRequests:
        """The requests for approval that were filed here."""
        return AccountRequests(self._guarded, self.name)

    def _conditional_charge(self, cost: Cost, curve: Curve | None) -> ConditionalCharge:
        if self.condition is None:
            return pending_queries.UNCONDITIONAL
        return ConditionalCharge(self.condition, release_epsilon(cost, curve, self.terms_in_force.budget))

    @property
    def terms_in_force(self) -> Terms:
        """The terms now: at their δ, Gaussian noise counts with an ε where approval is asked for."""
        with self._guarded.reading() as transaction:
            return self._guarded.terms_in_force(transaction, self.name)

    def __repr__(self) -> str:
        return f"<Account {self.name} protecting {self.unit}; .budget shows what is left>"

    # ── state ──────────────────────────────────────────────────────────────────────────────────

    @property
    def budget(self) -> Budget:
        """The budget now: what open tabs hold counts as spent, as it does when a charge is admitted."""
        with self._guarded.reading() as transaction:
            return self._read_budget(transaction)

    def _read_budget(self, transaction: Transaction, analyst: str = "") -> Budget:
        """Return the budget of an analyst's share, or the account's if they have none or nobody is named."""
        return self._guarded.budgets(transaction, self.name, analyst)[-1][0]

    def statement(self, analyst: str | None = None) -> AccountStatement:
        """Read the state of the account that a receipt shows, and the asking analyst's share, in one transaction."""
        if analyst is not None:
            entries.checked_name(analyst, "analyst")
        with self._guarded.reading() as transaction:
            return self._read_statement(transaction, analyst)

    def _read_statement(self, transaction: Transaction, analyst: str | None) -> AccountStatement:
        analyst_budget = None if analyst is None else self._read_budget(transaction, analyst)
        epsilons = self._guarded.epsilon_history(transaction, self.name)
        return AccountStatement(self._read_budget(transaction), epsilons, analyst_budget)

    def budgets(self, analyst: str | None = None) -> tuple[Budget, ...]:
        """Return every budget that must afford a charge now: the account's, and the share of the asking analyst."""
        with self._guarded.reading() as transaction:
            labelled_budgets = self._guarded.budgets(transaction, self.name, analyst or "")
        return tuple(budget for budget, _ in labelled_budgets)

    @property
    def remaining(self) -> dict[str, Fraction]:
        return self.budget.remaining

    @property
    def spent(self) -> dict[str, Fraction | None]:
        """What was spent for good, without what tabs hold."""
        with self._guarded.reading() as transaction:
            spending = read_totals(transaction.last_account_line(self.name).totals)
            return self._guarded.terms_in_force(transaction, self.name).budget.with_spent(spending.spent).spent

    # ── charging and answering ─────────────────────────────────────────────────────────────────

    def charge(self, entry: Entry) -> Line:
        """Admit this release and record it in one step, durable on return; else raise ``Overspent`` and record
        nothing.
        """
        entry = Entry.of(entry)
        cost, columns, periods = self.cost(entry.curve), self._guarded.columns_to_write(entry), self._paying_periods()
        conditional = self._conditional_charge(cost, entry.curve)

        def write(transaction: Transaction) -> Row:
            pending_queries.find_requested_answer(
                transaction, self.name, entry.request_id, entry.analyst, entry.question, (entry.plan,)
            )
            append = partial(self._guarded.append_charge, transaction, self.name, columns, cost, periods)
            return conditional.append(transaction, self.name, columns, cost, append)

        return self._admit(columns["analyst"], cost, entry.curve, write, Line.from_row, periods)

    def _admit(
        self,
        analyst: str,
        cost: Cost,
        curve: Curve | None,
        write: Callable[[Transaction], Row],
        convert: Callable[[Row], T],
        periods: Periods = (),
    ) -> T:
        """Charge what fits the account and the limit beside it, if there is one."""
        if self.limit is None:
            return self._guarded.admit(self.name, analyst, cost, write, convert, periods)
        charged_rows: list[Row] = []

        def write_and_note(transaction: Transaction) -> Row:
            charged_rows.append(write(transaction))
            return charged_rows[0]

        with self._reserve(cost, curve, lambda: bool(charged_rows) and self._guarded.may_be_on_disk(charged_rows[0])):
            return self._guarded.admit(self.name, analyst, cost, write_and_note, convert, periods)

    def _reserve(self, cost: Cost, curve: Curve | None, charged: Callable[[], bool]) -> AbstractContextManager[None]:
        return reserve_while_charging(
            self.limit, lambda: release_epsilon(cost, curve, self._opening_terms.budget), charged
        )

    def ask(
        self,
        entry: Entry,
        accuracy: Mapping[str, Number],
        *,
        fresh: bool = False,
        searched: int | None = None,
        former_plan: str = "",
    ) -> PendingQuery:
        """Prepare a query to be answered with this accuracy: from a stored answer, from an equal query under way, or
        charged. With ``searched`` only the lines after this one can hold its answer (``look_up``). A request id that
        was used for ``former_plan`` is the same request.

        Nothing happens before ``begin`` of the result.
        """
        entry = Entry.of(entry)
        cost, widths = self.cost(entry.curve), entries.checked_widths(accuracy)
        return PendingQuery(
            self._guarded,
            self.name,
            entry,
            cost,
            widths,
            fresh=fresh,
            periods=self._paying_periods(),
            reserving=partial(self._reserve, cost, entry.curve),
            until=self.until,
            searched=searched,
            former_plan=former_plan,
            conditional=self._conditional_charge(cost, entry.curve),
        )

    def _paying_periods(self) -> Periods:
        """Return the periods whose accounts pay; empty: this account pays."""
        return self.periods

    def cost(self, curve: Curve) -> Cost:
        """Compute a release's price here. Order and neighbours are fixed for life, so no amendment changes it."""
        return self._opening_terms.budget.cost(curve)

    def recomputed(self, line: Line) -> Cost | None:
        """Recompute what a line of this account must have cost or held from what it says was run; None where it says
        nothing. Lines from before fractions were stored have whole units, rounded up.
        """
        if line.curve is None:
            return None
        price = self.cost(line.curve)
        rounded_price = price.in_whole_units()
        return rounded_price if rounded_price in (line.cost, line.held) else price

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        """Record the answer to a charge; it may be shown once this has returned."""
        return self.record_answer(line, body, accuracy).line

    def record_answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> RecordedAnswer:
        """Record the answer to a charge, and return its line with the state of the account after it."""
        if not isinstance(line, Line):
            rule = "the Line of the charge"
            raise InvalidParameter("line", line, rule, fix="pass what account.charge(…) or tab.step(…) returned")
        entries.checked_text(body, "body", entries.MAX_BODY_LENGTH)
        detail = entries.write_widths(entries.checked_widths(accuracy))
        entries.checked_line_number(line.number, "line")
        return self._guarded.write_answer(lambda: self._append_answer(line, body, detail))

    def _append_answer(self, line: Line, body: str, detail: str) -> RecordedAnswer:
        body_columns = self._guarded.store_body(body)
        with self._guarded.writing() as transaction:
            charge = transaction.line(line.number)
            is_own_line = charge is not None and (charge.hash, charge.account) == (line.hash, self.name)
            if charge is None or not is_own_line or charge.kind not in {"charge", "step"}:
                raise InvalidParameter(
                    "line",
                    line.number,
                    "the number of a charge or step in this account",
                    fix="find the line's number with `sfumato history`",
                )
            if transaction.newest(about=charge.number) is not None:
                raise AlreadyAnswered(
                    "a charge pays for one answer, and this charge was already answered or stopped",
                    place=f"line {charge.number}",
                    fix="make a new charge with account.charge(…) for another answer",
                )
            transaction.remove_pending_charge(charge.number)
            shared_columns = {
                "analyst": charge.analyst,
                "request": charge.request,
                "plan": charge.plan,
                "data": charge.data,
            }
            columns: Where = {**shared_columns, **body_columns, "about": charge.number, "detail": detail}
            answer_line = Line.from_row(transaction.append("answer", self.name, columns))
            return RecordedAnswer(answer_line, self._read_statement(transaction, answer_line.analyst))

    def _hashed_answer_columns(self, plan: str, data: str) -> dict[str, str]:
        """Return the columns of every answer to this exact query on this exact data."""
        return {
            "kind": "answer",
            "account": self.name,
            "plan": entries.checked_name(plan, "plan"),
            "data": self._guarded.hash_data_version(entries.checked_name(data, "data")),
        }

    def look_up(
        self,
        accuracy: Mapping[str, Number],
        *,
        plan: str,
        data: str,
        question: str,
        analyst: str | None = None,
        request_id: str | None = None,
        fresh: bool = False,
        former_plan: str = "",
    ) -> AnswerLookup:
        """Find the stored answer to a request id or, unless ``fresh``, to the same query on the same data, and read the
        state of the account for its analyst: in one transaction. An answer under ``former_plan`` is the next best.
        """
        plans = (plan, former_plan) if former_plan else (plan,)
        widths = entries.checked_widths(accuracy)
        searches = [] if fresh else [self._hashed_answer_columns(searched_plan, data) for searched_plan in plans]
        for name, value in (("analyst", analyst), ("request_id", request_id)):
            if value is not None:
                entries.checked_name(value, name)
        newest: list[Row | None] = []
        with self._guarded.reading() as transaction:
            row = pending_queries.find_requested_answer(transaction, self.name, request_id, analyst, question, plans)
            if row is None:
                newest = pending_queries.newest_answers(transaction, searches, widths, self.until)
            statement, last_line = self._read_statement(transaction, analyst), transaction.last_number
        for where, newest_row in zip(searches, newest, strict=False):
            row = row or pending_queries.first_accurate_from(self._guarded, where, widths, newest_row)
        return AnswerLookup(None if row is None else self._guarded.read_answer(row), statement, last_line)

    def stored(
        self, *, plan: str, data: str, accuracy: Mapping[str, Number] | None = None, former_plan: str = ""
    ) -> StoredAnswer | None:
        """Return the newest answer to this exact query on this exact data, at least as accurate in every requested
        column; without one, that under ``former_plan``.
        """
        requested_widths = entries.checked_widths(accuracy or {})
        plans = (plan, former_plan) if former_plan else (plan,)
        searches = [self._hashed_answer_columns(searched_plan, data) for searched_plan in plans]
        row = pending_queries.find_stored_answer(self._guarded, searches, requested_widths, self.until)
        return None if row is None else self._guarded.read_answer(row)

    def published(self, shelf: str, *, data: str) -> tuple[Publication, ...]:
        """List all answers on this exact data whose plans start with a text, oldest first: what was published of a
        table. No body is read, and each line once per process, however long the ledger is.
        """
        (publications,) = self.published_on(shelf, data=data)
        return publications

    def published_on(self, *shelves: str, data: str) -> tuple[tuple[Publication, ...], ...]:
        """List what was published on each of several shelves, in one transaction."""
        version = self._guarded.hash_data_version(entries.checked_name(data, "data"))
        names = [entries.checked_name(shelf, "shelf") for shelf in shelves]
        index = self._guarded.shelves
        with self._guarded.reading() as transaction:
            return tuple(index.publications(transaction, self.name, version, name) for name in names)

    def read_published(self, publication: Publication) -> StoredAnswer:
        """Read the body of a publication. Raise ``LedgerDamaged`` if its line or its file is gone."""
        with self._guarded.reading() as transaction:
            row = transaction.line(publication.number)
        if row is None or (row.hash, row.account) != (publication.hash, self.name):
            raise LedgerDamaged(publication.number, "it differs from the line that was read before")
        return self._guarded.read_answer(row)

    def requested(
        self,
        request_id: str,
        *,
        analyst: str | None = None,
        question: str | None = None,
        plan: str | None = None,
        former_plan: str = "",
    ) -> StoredAnswer | None:
        """Return the answer this request got; None if it got none: ``ask`` shows whether it was charged."""
        entries.checked_name(request_id, "request_id")
        plans = tuple(filter(None, (plan, former_plan)))
        with self._guarded.reading() as transaction:
            row = pending_queries.find_requested_answer(transaction, self.name, request_id, analyst, question, plans)
        return None if row is None else self._guarded.read_answer(row)

    # ── the owner's operations ─────────────────────────────────────────────────────────────────

    def amend(
        self,
        *,
        reason: str,
        epsilon: Number | None = None,
        delta: Number | None = None,
        reserve: Number | None = None,
    ) -> Line:
        """Change what may be spent. Unit, neighbours and order stay for life: what was spent is counted in them.

        Answers cannot be taken back, so a budget below what is spent and held is refused. If ε is raised after answers
        were seen, only the largest ε that the owner would ever have allowed is a guarantee: the account's theorem is
        about an ε that no answer decides.
        """
        change = BudgetChange(entries.checked_reason(reason), epsilon, delta, reserve)
        with self._guarded.writing() as transaction:
            spent = read_totals(transaction.last_account_line(self.name).totals).total
            return Line.from_row(append_amendment(self._guarded, transaction, self.name, change, spent))

    @property
    def epsilons(self) -> tuple[Fraction, ...]:
        """Every ε the account has had, oldest first; the last is in force."""
        with self._guarded.reading() as transaction:
            return self._guarded.epsilon_history(transaction, self.name)

    def correct(self, more: Curve | Cost, *, reason: str, analyst: str | None = None) -> Line:
        """Add what was spent beyond what was charged, whatever remains. No line ever subtracts."""
        cost = self._checked_cost(more, "more") if isinstance(more, Cost) else self.cost(more)
        columns = {
            "question": entries.checked_reason(reason),
            "analyst": "" if analyst is None else entries.checked_name(analyst, "analyst"),
        }
        with self._guarded.writing() as transaction:
            return Line.from_row(transaction.append("correction", self.name, columns, cost=cost))

    def analyst(self, name: str, share: Number | None = None) -> Analyst:
        """Return an analyst's standing; with ``share``, limit them to this part of every allowance from now on.

        A charge must fit both their share and the account: an unspent share may still be refused.
        """
        entries.checked_name(name, "analyst")
        if share is not None:
            self.give_share(name, share)
        with self._guarded.reading() as transaction:
            analyst_row = transaction.newest(account=self.name, analyst=name)
            budget = self._guarded.terms_in_force(transaction, self.name).budget
            budgets = self._guarded.budgets(transaction, self.name, name)
        spent = budget.with_spent(read_totals(analyst_row.own if analyst_row else "").spent).spent
        return Analyst(
            name, Fraction(analyst_row.share) if analyst_row and analyst_row.share else None, budgets[-1][0], spent
        )

    def give_share(self, name: str, share: Number) -> None:
        """Limit an analyst to this part of every allowance from now on. Nothing is written if it is already theirs, so
        nothing waits for a lock; the share that is enforced is always the ledger's, in the transaction that charges.
        """
        entries.checked_name(name, "analyst")
        part = format_exact(exact(share, "share", PROBABILITY))
        with self._guarded.reading() as transaction:
            analyst_row = transaction.newest(account=self.name, analyst=name)
        if analyst_row is not None and analyst_row.share == part:
            return
        with self._guarded.writing() as transaction:
            analyst_row = transaction.newest(account=self.name, analyst=name)
            if analyst_row is None or analyst_row.share != part:
                transaction.append("share", self.name, {"analyst": name, "share": part})

    def look(self, *sources: joined_sources.SourceDescription, fingerprint: str | None = None) -> list[JoinedSource]:
        """Describe data that may be joined; nothing is written. Content is hashed unless a change token shows it is
        unchanged.
        """
        with self._guarded.reading() as transaction:
            account_sources = joined_sources.sources_of_account(transaction, self.name)
        joined_before = len(account_sources)
        for source in sources:
            account_sources.append(
                joined_sources.describe_source(source, fingerprint, account_sources, self._guarded.keyed_hash)
            )
        return account_sources[joined_before:]

    def join(
        self, source: joined_sources.SourceDescription | JoinedSource, *, fingerprint: str | None = None
    ) -> JoinedSource:
        """Record that these data, or a description of them (``look``), are about this account's people.

        Data that another account knows, by path, content or file, are refused; new content under a known path is
        accepted.
        """
        joined_source = source if isinstance(source, JoinedSource) else self.look(source, fingerprint=fingerprint)[0]
        with self._guarded.writing() as transaction:
            other_account = joined_sources.other_owning_account(
                joined_sources.joined_sources(transaction), self.name, joined_source, self._guarded.keyed_hash
            )
            if other_account is not None:
                raise SourceTaken(
                    "the same people can have only one budget, and these data already belong to the account "
                    f"{other_account!r}",
                    place=f"account {self.name!r}",
                    fix=f"query these data through {other_account!r}",
                )
            if joined_sources.has_content_changed(
                joined_source, joined_sources.sources_of_account(transaction, self.name)
            ):
                transaction.append("source", self.name, {"detail": codec.dumps(joined_source)})
        return joined_source

    @property
    def sources(self) -> tuple[JoinedSource, ...]:
        """Every version of the data that was joined, oldest first."""
        with self._guarded.reading() as transaction:
            return tuple(joined_sources.sources_of_account(transaction, self.name))

    @property
    def version(self) -> int:
        """The version number of the joined data, as readers may see it: how often the data have changed."""
        return joined_sources.count_content_changes(self.sources)

    # ── tabs ───────────────────────────────────────────────────────────────────────────────────

    def open_tab(
        self, hold: Entry | Cost, *, whole: bool = False, analyst: str | None = None, question: str = ""
    ) -> Tab:
        """Set an amount aside for steps that are charged one by one; what is unspent is released at the end.

        A mechanism with hidden state between its answers (``AboveThreshold``), and with ``whole`` anything else, is
        charged in full now and releases nothing. A bare Cost is a hold for steps yet to be chosen.
        """
        entry, cost = self._entry_and_cost_of_hold(hold, analyst, question)
        opening = self._tab_opening(hold, entry, cost, whole=whole)
        curve = _curve_unless_held(hold, entry, opening)
        conditional, columns = self._conditional_charge(cost, curve), opening.columns

        def write(transaction: Transaction) -> Row:
            append = partial(transaction.append, "tab-open", self.name, columns, cost=opening.spent, left=opening.held)
            return conditional.append(transaction, self.name, columns, cost, append)

        def make_tab(row: Row) -> Tab:
            return Tab(self._guarded, Line.from_row(row), self.cost)

        return self._admit(opening.columns["analyst"], cost, curve, write, make_tab)

    def ask_tab(
        self,
        hold: Entry | Cost,
        asked: Entry,
        *,
        whole: bool = False,
        seconds: float | None = None,
        waiting: Callable[[], None] = lambda: None,
        former_plan: str = "",
    ) -> Tab | StoredAnswer:
        """Open a tab for a request, as ``open_tab`` does, or return the result of the same request (``finish``).

        ``asked`` has the query, the analyst and the request id, and leaks nothing itself. The same request under way is
        waited for; one that ended without a result raises ``Unanswered`` and opens no second tab.
        """
        entry, cost = self._entry_and_cost_of_hold(hold, asked.analyst, asked.question)
        opening = self._tab_opening(hold, entry, cost, whole=whole)
        columns = opening.columns | {"request": asked.request_id or "", "plan": asked.plan}
        curve = _curve_unless_held(hold, entry, opening)
        pending = PendingQuery(
            self._guarded,
            self.name,
            asked,
            cost,
            {},
            fresh=True,
            reserving=partial(self._reserve, cost, curve),
            opening=opening._replace(columns=columns),
            former_plan=former_plan,
            conditional=self._conditional_charge(cost, curve),
        )
        try:
            stored_answer = pending.begin(seconds, waiting)
            return Tab(self._guarded, pending.line, self.cost) if stored_answer is None else stored_answer
        except BaseException as error:
            if not pending.is_charged():
                raise
            pending.stop()
            if isinstance(error, LedgerInDoubt):
                raise
            raise Unanswered(pending.line.number) from None

    def finish(self, tab: Tab, body: str) -> Line:
        """Close a tab and record its result as the answer to the request that opened it, both at once, so that whoever
        waits for the request never sees it as stopped.

        The result is computed from the steps' answers alone, so nothing more is spent.
        """
        entries.checked_text(body, "body", entries.MAX_BODY_LENGTH)
        opening = tab.opening
        if opening.request_id is None:
            fix = "open a new tab with a request_id"
            raise InvalidParameter("tab", opening.number, "one that was opened with a request id", fix=fix)
        return self._guarded.write_answer(lambda: self._append_result(opening, body))

    def _append_result(self, opening: Line, body: str) -> Line:
        body_columns = self._guarded.store_body(body)
        empty_curve = Curve((), self._opening_terms.budget.neighbours)
        request_fields = (opening.question, opening.plan, "", opening.analyst, opening.request_id)
        columns = self._guarded.columns_to_write(Entry(empty_curve, *request_fields))
        with self._guarded.writing() as transaction:
            if transaction.ending_line(opening.number) is None:
                transaction.close_tab(opening.number, spend_rest=False)
            charge = transaction.append("charge", self.name, columns, cost=self.cost(empty_curve))
            shared_columns = {
                "analyst": charge.analyst,
                "request": charge.request,
                "plan": charge.plan,
                "data": charge.data,
            }
            transaction.remove_pending_charge(opening.number)
            answer: dict[str, str | int] = {**shared_columns, **body_columns, "about": charge.number}
            answer["detail"] = entries.write_widths({})
            return Line.from_row(transaction.append("answer", self.name, answer))

    def _tab_opening(self, hold: Entry | Cost, entry: Entry, cost: Cost, *, whole: bool) -> TabOpening:
        charged_now = whole or entry.interactive
        columns = self._guarded.columns_to_write(entry) | ({"parts": ""} if isinstance(hold, Cost) else {})
        return TabOpening(cost, NO_COST, columns) if charged_now else TabOpening(NO_COST, cost, columns)

    def _entry_and_cost_of_hold(self, hold: Entry | Cost, analyst: str | None, question: str) -> tuple[Entry, Cost]:
        if not isinstance(hold, Cost):
            entry = Entry.of(hold)
            return entry, self.cost(entry.curve)
        empty_curve = Curve((), self._opening_terms.budget.neighbours)
        return Entry(empty_curve, analyst=analyst, question=question), self._checked_cost(hold, "hold")

    def _checked_cost(self, cost: Cost, parameter: str) -> Cost:
        if (cost.renyi is None) is not (self._opening_terms.budget.order is None):
            with_renyi, counted = ("with", "") if cost.renyi is None else ("without", "no ")
            rule = f"a cost {with_renyi} an amount for renyi: this account counts {counted}Rényi divergence"
            raise InvalidParameter(parameter, cost, rule, fix="compute the cost with account.cost(…)")
        if any(amount is not None and amount > _MAX_UNITS for amount in (cost.pure, cost.renyi, cost.failure)):
            raise InvalidParameter(parameter, ValueWords("a larger amount"), "a cost with amounts of at most 1e300")
        return cost.with_short_fractions()

    def open_tabs(self) -> tuple[Line, ...]:
        """Return the lines that opened tabs which are still open; what they hold counts as spent until they close."""
        with self._guarded.reading() as transaction:
            tab_rows = [row for row in transaction.page({"kind": "tab-open"}) if row.account == self.name]
            return tuple(Line.from_row(row) for row in tab_rows if not _is_tab_closed(transaction, row.number))

    def abandon(self, tab: int, *, reason: str) -> Line:
        """Close a tab whose process is gone. All it held is spent: where it stopped, and why, is unknown."""
        entries.checked_reason(reason)
        with self._guarded.writing() as transaction:
            last = transaction.newest(tab=entries.checked_line_number(tab, "tab"))
            if last is None or last.account != self.name or last.kind == "tab-close":
                raise InvalidParameter("tab", tab, "the number of an open tab of this account", fix=_OPEN_TABS_FIX)
            return Line.from_row(transaction.close_tab(last.tab, spend_rest=True, reason=reason))


_OPEN_TABS_FIX = "list the open tabs with account.open_tabs()"


def _is_tab_closed(transaction: Transaction, tab: int) -> bool:
    last = transaction.newest(tab=tab)
    return last is None or last.kind == "tab-close"


def _curve_unless_held(hold: Entry | Cost, entry: Entry, opening: TabOpening) -> Curve | None:
    """Return the curve of what a tab was opened for if that is run itself and charged in full; else None.

    Steps have to fit the amounts that are held, not the curve: they may have a larger ε than it has.
    """
    return None if isinstance(hold, Cost) or opening.spent == NO_COST else entry.curve
