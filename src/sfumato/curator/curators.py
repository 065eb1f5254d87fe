"""A curator is the facade of everything below: it opens a policy, answers questions and tells what is left.

A table in memory is protected in one line: a policy is made of what the caller declares, with an account on disk.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from sfumato.curator.checking import CheckReport, check
from sfumato.curator.context import Context, InventedEngine
from sfumato.curator.described_tables import Tables
from sfumato.curator.describing import describe
from sfumato.curator.kinds.workloads import WorkloadSpec
from sfumato.curator.listings import Listing, listed
from sfumato.curator.policy_account import (
    amend_account,
    charges,
    ledger_address,
    lines_of,
    read_policy,
    require_analyst,
    standings_of,
)
from sfumato.curator.previews.rehearsing import proposed_again
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.selected_columns import DeclaredValues
from sfumato.curator.proposals.workloads import Workload
from sfumato.curator.proposing import Proposing
from sfumato.curator.recent_questions import RecentQuestions
from sfumato.curator.release_kinds import Spec, Workspace, kind_of
from sfumato.curator.standings import PeriodStandings, Standing
from sfumato.curator.tables import TableView
from sfumato.engine.opening import open_engine, types_in_memory
from sfumato.engine.seam import Engine
from sfumato.errors import InvalidParameter, LedgerUnavailable, SfumatoError
from sfumato.ledger import Ledger, Line, SpendingLimit
from sfumato.ledger.entries import AccountLines
from sfumato.notebook_html import paragraph
from sfumato.plan.nodes import Query
from sfumato.plan.sql.building import selection
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.statements import parse
from sfumato.plan.sql.text import listing, written
from sfumato.policy import ROW, Domain, Policy, Table, Type, Value
from sfumato.policy.domains import check_keys
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, Number, exact, whole
from sfumato.privacy.pictures import History, Moment
from sfumato.release.releasing import Progress, quietly

P = TypeVar("P")

SECONDS = 600
"""The seconds one question may take unless it is said otherwise: nobody's question stops the others for ever."""


class _Told(NamedTuple):
    """This is a standing that was told, and when: after which line of the ledger, and under which policy."""

    head: tuple[int, str]
    policy: Policy
    standing: Standing | PeriodStandings


class Curator(Proposing):
    """A trusted curator answers questions about one population. It is safe to use from threads, and closes its files.

    Whoever holds one in their own process is the owner: the same process can read the same files. ``seconds`` and
    ``memory`` (such as "4GB") are what one question may take, checking and reading each; None is no limit of time, and
    beyond the memory it works on disk. ``threads`` is how many read at once; where nothing is said, one per processor.
    """

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        ledger: Ledger | str | os.PathLike[str] | None = None,
        *,
        seconds: Number | None = SECONDS,
        memory: str | None = None,
        threads: int | None = None,
        progress: Progress = quietly,
    ) -> None:
        self.policy = read_policy(policy)
        self._memory = memory
        self._threads = threads
        allowed = None if seconds is None else min(float(exact(seconds, "seconds", POSITIVE)), threading.TIMEOUT_MAX)
        progress("opening")
        with ExitStack() as opened:  # what was opened is closed again when something else cannot be
            engine = open_engine(self.policy, memory, threads)
            opened.callback(engine.close)
            self._owns_ledger = not isinstance(ledger, Ledger)
            address = ledger if isinstance(ledger, Ledger) else ledger_address(self.policy, ledger)
            self._kept_at = address.absolute() if isinstance(address, Path) else address
            self.ledger = address if isinstance(address, Ledger) else Ledger.open(address)
            if self._owns_ledger:
                opened.callback(self.ledger.close)
            unit, budget, per = self.policy.unit, self.policy.account_budget, self.policy.per or ""
            account = self.ledger.account(self.name, unit=unit, budget=budget, per=per)
            seen = account.look(*engine.data(public=False))
            progress("joining")  # all rows that opening reads have been read, and nothing is written yet
            for source in seen:
                account.join(source)
            for data in engine.data(public=True):
                self.ledger.require_public(data)
            self._context = Context(self.policy, engine, account, progress, f"version {account.version}", allowed)
            self._catalog = engine.catalog()
            self._standings: dict[str | None, _Told] = {}
            self._recent = RecentQuestions()
            opened.pop_all()

    @property
    def name(self) -> str:
        """Give the name of the account: that of the policy's file."""
        return self.policy.account_name

    @property
    def budget(self) -> Budget:
        """Say what may be spent and what has been: of the account, or of the share of the analyst who asks. Where every
        period has an account of its own, it is that of a period of which nothing was asked yet.
        """
        return self._context.budgets[-1].told_by(History(self._charges))

    def _charges(self) -> list[Moment]:
        """List when something was charged to the account, or to the analyst's share of it, and what was spent then."""
        return charges(self.history(), self._context.analyst)

    def sql(self, question: str, parameters: Parameters | None = None) -> Question | Listing:
        """Understand a question in SQL, without asking it yet. This is free.

        ``parameters`` are the values of ``?``, ``$1``, … in a list, or those of ``$name`` and ``:name`` in a dict. SHOW
        TABLES and DESCRIBE are answered at once.
        """
        table = listing(question)
        if table is not None:
            return listed(question, table, self.policy, self._catalog)
        return self._question(question, parameters)

    def _asked(self, text: str, query: Query) -> Question:
        """Answer from the policy what measures nothing, unless its groups are found in the data."""
        asked = Question(self._context, text, query, query.plan.limits)
        if query.plan.measures or asked.found:
            return asked
        return DeclaredValues(self._context, text, query, query.plan.limits)

    def table(self, name: str, alias: str | None = None) -> TableView:
        """Begin a question about a table in Python, step by step: the same as in SQL. This is free."""
        return TableView(self._context, selection(self._catalog, name, alias))

    def propose(self, spec: Spec[P]) -> P:
        """Propose what a spec describes: ``curator.propose(BoundsSpec("visits", "cost"))``. This is free."""
        made: P = kind_of(spec).propose(Workspace(self._context, self._catalog, self.sql, self._question), spec)
        return made

    def workload(
        self, questions: Sequence[str | Question] | Mapping[str, str | Question] | os.PathLike[str]
    ) -> Workload:
        """Propose to ask several questions at one price: a list, a mapping from names, or a .sql file. This is free."""
        return self.propose(WorkloadSpec(questions))

    def _question(self, text: str, parameters: Parameters | None = None) -> Question:
        if parameters is not None or not isinstance(text, str):
            return self._asked(written(text, parameters), parse(text, self._catalog, parameters))
        return self._recent.of(
            text, self._context, lambda: parse(text, self._catalog), lambda query: self._asked(text, query)
        )

    def as_analyst(self, name: str) -> Curator:
        """Give the same curator, asking and paying under an analyst's name, within the share the policy gives them."""
        require_analyst(self.policy, name)
        self._context.account.give_share(name, self.policy.analysts[name])
        view = object.__new__(Curator)
        view.__dict__.update(self.__dict__)
        view._context = replace(self._context, analyst=name)
        return view

    def again(self, proposal: P) -> P:
        """Make a proposal again that was made to another curator: about the tables of this one, and paid by its
        account. Both policies declare the same of every table. This is free.
        """
        return proposed_again(proposal, self._context)

    def limited(self, limit: SpendingLimit, until: int | None = None) -> Curator:
        """Give the same curator, whose charges are first reserved within a limit that is kept elsewhere. What was
        answered after the ledger's line ``until`` is not found there.
        """
        view = object.__new__(Curator)
        view.__dict__.update(self.__dict__)
        view._context = replace(self._context, account=self._context.account.limited(limit, until))
        return view

    def standing(self, analyst: str | None = None) -> Standing | PeriodStandings:
        """Tell where the account stands, or an analyst's share of it. An analyst is told of their own share.

        Where every period has an account of its own, it tells so of each: ``standing()["2024-03"]``. It is computed
        once for each last line of the ledger. A charge never looks at it: the ledger decides in a transaction.
        """
        whose, head = self._whose(analyst), self.ledger.head  # the head first: what is found later is no older
        known = self._standings.get(whose)
        if known is None or known.head != head or known.policy is not self.policy:
            found = standings_of(self.policy, self._context.account, whose)
            known = self._standings[whose] = _Told(head, self.policy, found)
        return known.standing

    def history(self, analyst: str | None = None, *, after: int = 0, limit: int | None = None) -> AccountLines:
        """List every line of the account, oldest first, or those of an analyst. An analyst is shown their own lines.

        ``after`` is the number of the last line that was seen, and ``limit`` how many more are wanted.
        """
        most = None if limit is None else whole(limit, "limit", at_least=1)
        whole(after, "after", at_least=0)
        whose = self._whose(analyst)
        return AccountLines(lambda: islice(lines_of(self.ledger, self.policy, whose, after), most))

    def amend(self, policy: Policy | str | os.PathLike[str] | None = None, *, reason: str) -> Line:
        """Make a policy's budget the account's, for a reason that is kept for ever: the owner's to call.

        Without a policy it is the one in this curator's file, as the file is now. Unit and neighbours stay for life.
        """
        self._require_owner("amend")
        given = self.policy.path if policy is None else policy
        if given is None:
            raise InvalidParameter("policy", policy, "given: this curator's was not read from a file")
        amended = read_policy(given)
        line = amend_account(self._context.account, amended, reason)
        self.policy = replace(self.policy, budget=amended.budget)
        self._context = replace(self._context, policy=self.policy)
        return line

    def check(self, *, private: bool = True) -> CheckReport:
        """Compare the policy with its sources, opened anew. With ``private``, exact figures for the owner alone."""
        self._require_owner("check")
        return check(self.policy, private=private)

    def _whose(self, analyst: str | None) -> str | None:
        own = self._context.analyst
        if own is not None and analyst not in (None, own):
            raise InvalidParameter("analyst", analyst, f"left out, or {own}: others are the owner's to ask about")
        return own if analyst is None else analyst

    def _require_owner(self, call: str) -> None:
        if self._context.analyst is not None:
            raise SfumatoError(
                f"only the owner of the data may call {call}, not an analyst",
                place=f"Curator.{call}",
                fix="ask the owner, or call it on the curator that was opened",
            )

    def reopened(self) -> Curator:
        """Open the same policy again, on its data as they are now: changed data are a new version.

        The account is the same one, under the same terms and with all that was spent; data that belong to another
        account are refused. This curator stays as it is, and is to be closed by itself.
        """
        here, ledger = self._context, self._kept_at
        found = Curator(
            self.policy,
            ledger,
            seconds=here.seconds,
            memory=self._memory,
            threads=self._threads,
            progress=here.progress,
        )
        if here.account.limit is not None:
            found = found.limited(here.account.limit)
        return found if here.analyst is None else found.as_analyst(here.analyst)

    def check_files(self) -> None:
        """Refuse where a file of the data is no longer the one that was opened. No row is read."""
        self._context.engine.check_files()

    def drain(self, seconds: Number | None = None) -> bool:
        """Take no new releases from now on, and wait for those that run; tell whether all have ended within this time.

        It is the owner's to call, before closing. What was bought before is still given, and what is free stays free.
        """
        self._require_owner("drain")
        allowed = None if seconds is None else min(float(exact(seconds, "seconds", NONNEGATIVE)), threading.TIMEOUT_MAX)
        return self._context.work.drain(allowed)

    def close(self) -> None:
        """Close the sources, and the ledger if this curator opened it."""
        self._context.engine.close()
        self._context.invented.close()
        if self._owns_ledger:
            self.ledger.close()

    def close_when_unused(self) -> weakref.finalize[..., Any]:
        """Close the sources, but not the ledger, once nothing is left that was made here: no view, no proposal, no
        release that runs. Calling what is given closes them at once, if they are open, which it tells as ``alive``.
        """
        here = self._context
        return weakref.finalize(here.work, _close, here.engine, here.invented)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tables(self) -> Tables:
        """Say what there is to ask, table by table, from the policy alone, with questions to copy and their errors."""
        return describe(self.policy, self._catalog, self._question)

    def __repr__(self) -> str:
        return describe(self.policy, self._catalog).brief()

    def _repr_html_(self) -> str:
        told = describe(self.policy, self._catalog)._repr_html_()
        try:
            return told + self.budget._repr_html_()
        except LedgerUnavailable as refused:  # a notebook shows a curator that was closed, too
            return told + paragraph(f"What is left of the budget cannot be told: {refused.rule}.")


def _close(engine: Engine, invented: InventedEngine) -> None:
    engine.close()
    invented.close()


def open(policy: str | os.PathLike[str], ledger: str | os.PathLike[str] | None = None) -> Curator:
    """Open a policy file, with its ledger beside it."""
    return Curator(policy, ledger)


_NO_COLUMN = "the table has no column that is called so"


def protect(
    table: Any,
    *,
    unit: str,
    epsilon: Number,
    account: str,
    ledger: str | os.PathLike[str],
    max_rows: int | None = None,
    bounds: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Sequence[Value]] | None = None,
    delta: Number = 0,
    columns: Sequence[str] | None = None,
    name: str = "data",
    called: str | None = None,
) -> Curator:
    """Open a curator of a pandas, polars or Arrow table: nobody can tell from the answers whether one unit is in it.

    ``unit`` is the column that says whose row it is, or "row"; ``called`` is what a unit is called in words, and
    ``name`` what questions call the table. Types are those of the columns; ``bounds`` and ``values`` are what you know
    of them, never what you read off these rows. The account is kept in the ``ledger``, a file: a budget that ended with
    the process would be none. Whoever protects a copy or an edited table under the same account spends the same budget.
    """
    if isinstance(table, (str, os.PathLike)):
        fix = "run sfumato init on a file to draft its policy, and open that: sf.open('policy.toml')"
        raise InvalidParameter("table", os.fspath(table), "a pandas, polars or Arrow table", fix=fix)
    kinds = types_in_memory(table)
    limits, listed = dict(bounds or {}), dict(values or {})
    if unit != ROW:
        check_keys({unit: None}, kinds, "unit", _NO_COLUMN, f"name {ROW}, or one of")
    for given, place in ((limits, "bounds"), (listed, "values"), (dict.fromkeys(columns or ()), "columns")):
        check_keys(given, kinds, place, _NO_COLUMN, "remove it, or name one of")
    for key, named in (("account", account), ("ledger", ledger)):
        if not isinstance(named, (str, os.PathLike)) or not str(named).strip():
            raise InvalidParameter(key, named, "given, so that what is spent is known when this process has ended")
    asked = [each for each in (kinds if columns is None else columns) if each != unit or each in (columns or ())]
    declared = {each: _domain(kinds[each], limits.get(each), listed.get(each)) for each in asked}
    made = Table(name, table, declared, id=unit, max_rows=max_rows)
    whom = PrivacyUnit(called or ("row" if unit == ROW else unit), every_row=unit == ROW)
    return Curator(Policy(whom, Budget(epsilon, delta), {name: made}, account=account), ledger)


def _domain(kind: Type, bounds: Any, values: Any) -> Domain:
    """Declare a column as it is stored, with what is known of it."""
    ends, listed = (each if each is None else tuple(each) for each in (bounds, values))
    return Domain(kind, bounds=ends, values=listed)
