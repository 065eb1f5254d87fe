"""The account of one population: charged before anything is read, answered before anything is shown."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sfumato.errors import AlreadyAnswered, InvalidParameter, RequestDiffers
from sfumato.ledger import entries
from sfumato.ledger.book import Book
from sfumato.ledger.desk import Desk, Terms
from sfumato.ledger.entries import Entry, Line, StoredAnswer
from sfumato.ledger.purse import NOTHING, Purse
from sfumato.ledger.rows import Row
from sfumato.ledger.tabs import Tab
from sfumato.privacy import Budget, Cost, Curve, PrivacyUnit
from sfumato.privacy.numbers import Number

_PAGE = 20


class Account:
    """One population's budget in a ledger. Safe to use from threads and processes alike."""

    def __init__(self, book: Book, name: str, terms: Terms) -> None:
        self.name = name
        self.unit: PrivacyUnit = terms.unit
        self._book = book
        self._opening = terms

    # ── where it stands ────────────────────────────────────────────────────────────────────────

    @property
    def budget(self) -> Budget:
        """The account now: what open tabs hold counts as spent, as it does when a charge is admitted."""
        with self._book.reading() as desk:
            return self._book.purses(desk, self.name)[0][0]

    @property
    def remaining(self) -> dict[str, Fraction]:
        return self.budget.remaining

    @property
    def spent(self) -> dict[str, Fraction | None]:
        """What was spent for good, without what tabs hold."""
        with self._book.reading() as desk:
            purse = Purse.of(self._book.last(desk, self.name).purse)
            return self._book.terms(desk, self.name).budget.at(purse.spent).spent

    # ── charging and answering ─────────────────────────────────────────────────────────────────

    def charge(self, entry: Entry) -> Line:
        """Admit this release and write it down, in one step, durable on return; or ``Overspent``, and nothing."""
        entry = Entry.of(entry)
        cost, columns = self.cost(entry.curve), entry.columns

        def write(desk: Desk) -> Row:
            self._answered(desk, entry.request_id, entry.analyst, entry.question, entry.plan)
            return desk.append("charge", self.name, columns, cost=cost)

        return self._book.admitted(self.name, columns["analyst"], cost, write)

    def cost(self, curve: Curve) -> Cost:
        """A release's price here. Order and neighbours are fixed for life, so no amendment changes it."""
        return self._opening.budget.cost(curve)

    def answer(self, line: Line, body: str, accuracy: Mapping[str, Number]) -> Line:
        """Write down the answer to a charge; it may be shown once this has returned."""
        if not isinstance(line, Line):
            raise InvalidParameter("line", line, "the line of a charge or a step")
        entries.prose(body, "body", entries.BODY)
        detail = entries.write_widths(entries.widths(accuracy))
        with self._book.writing() as desk:
            paid = desk.line(line.number)
            known = paid is not None and (paid.hash, paid.account) == (line.hash, self.name)
            if paid is None or not known or paid.kind not in {"charge", "step"}:
                raise InvalidParameter("line", line.number, "the line of a charge or a step of this account")
            if desk.newest(about=paid.number) is not None:
                raise AlreadyAnswered(
                    "this charge has been answered", place=f"line {paid.number}", fix="charge again for another answer"
                )
            copied = {"analyst": paid.analyst, "request": paid.request, "plan": paid.plan, "data": paid.data}
            return Line.of(
                desk.append("answer", self.name, {**copied, "about": paid.number, "body": body, "detail": detail})
            )

    def stored(self, *, plan: str, data: str, accuracy: Mapping[str, Number] | None = None) -> StoredAnswer | None:
        """The newest answer to this very question on this very data, at least as accurate in every column asked for."""
        asked = entries.widths(accuracy or {})
        where = {"kind": "answer", "account": self.name}
        where |= {"plan": entries.name(plan, "plan"), "data": entries.name(data, "data")}
        before = 0
        while True:
            with self._book.reading() as desk:
                rows = desk.page(where, newest=True, before=before, limit=_PAGE)
            for found in map(StoredAnswer.of, rows):
                if found.within(asked):
                    return found
            if len(rows) < _PAGE:
                return None
            before = rows[-1].number

    def requested(
        self, request_id: str, *, analyst: str | None = None, question: str | None = None, plan: str | None = None
    ) -> StoredAnswer | None:
        """The answer this request got; None when it got none, and then it is a new charge."""
        entries.name(request_id, "request_id")
        with self._book.reading() as desk:
            found = self._answered(desk, request_id, analyst, question, plan)
        return None if found is None else StoredAnswer.of(found)

    def _answered(
        self, desk: Desk, request_id: str | None, analyst: str | None, question: str | None, plan: str | None
    ) -> Row | None:
        """The first answer to a request; a request id names one question for ever, by its plan or else by its text."""
        if request_id is None:
            return None
        where = {"kind": "answer", "account": self.name, "analyst": analyst or "", "request": request_id}
        rows = desk.page(where, limit=1)
        paid = desk.line(rows[0].about) if rows else None
        if paid is None:
            return None
        if (plan != paid.plan) if plan else (question is not None and question != paid.question):
            raise RequestDiffers(
                "this request id was used for another question", place="request_id", fix="give each question its own id"
            )
        return rows[0]

    # ── tabs ───────────────────────────────────────────────────────────────────────────────────

    def open_tab(
        self, hold: Entry | Cost, *, whole: bool = False, analyst: str | None = None, question: str = ""
    ) -> Tab:
        """Set an amount aside for steps that are charged one by one; what is unspent is free again at the end.

        A mechanism that keeps hidden state between its answers (``AboveThreshold``), and with ``whole`` anything
        else, is charged whole now and gives nothing back. A bare Cost is a hold for steps yet to be chosen.
        """
        entry, vector = self._hold(hold, analyst, question)
        spends = bool(whole) or entry.interactive
        columns = entry.columns

        def write(desk: Desk) -> Row:
            cost, left = (vector, NOTHING) if spends else (NOTHING, vector)
            return desk.append("tab-open", self.name, columns, cost=cost, left=left)

        return Tab(self._book, self._book.admitted(self.name, columns["analyst"], vector, write), self.cost)

    def _hold(self, hold: Entry | Cost, analyst: str | None, question: str) -> tuple[Entry, Cost]:
        budget = self._opening.budget
        if not isinstance(hold, Cost):
            entry = Entry.of(hold)
            return entry, self.cost(entry.curve)
        if (hold.renyi is None) is not (budget.order is None):
            raise InvalidParameter("hold", hold, "an amount in every currency of the account")
        return Entry(Curve((), budget.neighbours), analyst=analyst, question=question), hold
