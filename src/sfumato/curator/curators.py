"""A curator is the facade: it opens a policy, answers questions and reports the remaining budget.

``protect`` does the same for a table in memory: it builds a policy from the caller's declarations, with an account on
disk.

A cache of recently parsed questions: the meaning of a text follows from the text and the policy.

Nothing cached depends on rows, budget or time; the number and the length of the texts are bounded.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from sfumato.curator.context import Context, PreviewEngine
from sfumato.curator.policy_account import account_lines, ledger_address, open_account, read_policy, require_analyst
from sfumato.curator.proposing import Proposing
from sfumato.curator.weak_policies import warn_if_weak_policy
from sfumato.engine.opening import open_engine
from sfumato.errors import InvalidParameter, LedgerUnavailable, SfumatoError
from sfumato.ledger import Ledger, Line
from sfumato.policy import ROW, Domain, Policy, Table, Type, Value
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, Number, exact, exact_integer
from sfumato.release.running_work import Progress, ignore_progress

if TYPE_CHECKING:
    from sfumato.curator.checking import CheckReport
    from sfumato.curator.described_tables import Tables
    from sfumato.curator.dry_charges import DryCharge
    from sfumato.curator.listings import Listing
    from sfumato.curator.proposals.questions import Question
    from sfumato.curator.proposals.workloads import WorkloadProposal
    from sfumato.curator.release_kinds import Spec
    from sfumato.curator.standings import PeriodStandings, Standing
    from sfumato.curator.tables import TableView
    from sfumato.engine.protocols import Engine
    from sfumato.ledger import SpendingLimit
    from sfumato.ledger.accounts.approvals import ChargeCondition
    from sfumato.ledger.entries import AccountLines
    from sfumato.plan.nodes import Query
    from sfumato.plan.sql.parameters import Parameters
    from sfumato.privacy.pictures import SpendingPoint

_MAX_ENTRIES, _MAX_TEXT_LENGTH, _MAX_GROUPS = 32, 4096, 1000


class _CachedQuestion(NamedTuple):
    query: Query
    context: Context
    question: Question | None
    """None for a question that may hold a long list of groups."""


class QuestionCache:
    """The recent questions of one curator and its views, by their texts. Thread-safe."""

    def __init__(self) -> None:
        self._cache: dict[str, _CachedQuestion] = {}

    def get_or_propose(
        self, text: str, context: Context, parse: Callable[[], Query], propose: Callable[[Query], Question]
    ) -> Question:
        """Return the cached question of a text in this context, or parse and propose it."""
        cached = self._cache.get(text)
        if cached is not None and cached.context is context and cached.question is not None:
            return cached.question
        query = parse() if cached is None else cached.query
        question = propose(query)
        if len(text) <= _MAX_TEXT_LENGTH:
            if len(self._cache) >= _MAX_ENTRIES:
                self._cache.clear()
            self._cache[text] = _CachedQuestion(query, context, question if _has_few_groups(query) else None)
        return question


def _has_few_groups(query: Query) -> bool:
    """Return whether the values declared for its keys, and NULL, make few combinations."""
    counts = [len(key.domain.values or ()) for key in query.plan.keys]
    return all(counts) and math.prod(count + 1 for count in counts) <= _MAX_GROUPS


P = TypeVar("P")
DEFAULT_SECONDS = 600
"""The default time limit of one question, in seconds, so that no question blocks the others for ever."""


class _CachedStanding(NamedTuple):
    """A standing with the ledger head and the policy it was computed for."""

    ledger_head: tuple[int, str]
    policy: Policy
    standing: Standing | PeriodStandings


class Curator(Proposing):
    """A trusted curator that answers questions about one population. Thread-safe; closes its files.

    A curator in one's own process is the owner's: the same process can read the same files. ``seconds`` and ``memory``
    (such as "4GB") limit one question, for checking and for reading each; None is no time limit, and beyond the memory
    the engine spills to disk. ``threads`` is the number of reading threads; by default one per processor.
    """

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        ledger: Ledger | str | os.PathLike[str] | None = None,
        *,
        seconds: Number | None = DEFAULT_SECONDS,
        memory: str | None = None,
        threads: int | None = None,
        progress: Progress = ignore_progress,
    ) -> None:
        self.policy = read_policy(policy)
        if self.policy.approval is not None:
            from sfumato.curator.release_kinds import require_known_kinds

            require_known_kinds(self.policy.approval.kinds, "approval.kinds")
        self._memory = memory
        self._threads = threads
        time_limit = None if seconds is None else min(float(exact(seconds, "seconds", POSITIVE)), threading.TIMEOUT_MAX)
        progress("opening")
        with ExitStack() as cleanup:  # closes what was opened if a later step fails
            engine = open_engine(self.policy, memory, threads)
            cleanup.callback(engine.close)
            self._owns_ledger = not isinstance(ledger, Ledger)
            address = ledger if isinstance(ledger, Ledger) else ledger_address(self.policy, ledger)
            self._ledger_address = address.absolute() if isinstance(address, Path) else address
            self.ledger = address if isinstance(address, Ledger) else Ledger.open(address)
            if self._owns_ledger:
                cleanup.callback(self.ledger.close)
            account = open_account(self.ledger, self.policy)
            warn_if_weak_policy(self.policy)
            sources = account.look(*engine.data(public=False))
            progress("joining")  # all rows that opening reads have been read, and nothing is written yet
            for source in sources:
                account.join(source)
            for data in engine.data(public=True):
                self.ledger.require_public(data)
            self._context = Context(self.policy, engine, account, progress, f"version {account.version}", time_limit)
            self._catalog = engine.catalog()
            self._standings: dict[str | None, _CachedStanding] = {}
            self._recent = QuestionCache()
            cleanup.pop_all()

    @property
    def name(self) -> str:
        """The name of the account, taken from the policy's file."""
        return self.policy.account_name

    @property
    def budget(self) -> Budget:
        """The budget of the account, or of the analyst's share: what may be spent and what was.

        Where every period has an account of its own, it is the budget of a period that was not yet queried.
        """
        from sfumato.privacy.pictures import History

        return self._context.budgets[-1].with_history(History(self._list_charges))

    def _list_charges(self) -> list[SpendingPoint]:
        """List the charges to the account, or to the analyst's share, with their times."""
        from sfumato.curator.policy_account import cumulative_spending

        return cumulative_spending(self.history(), self._context.analyst)

    def sql(self, question: str, parameters: Parameters | None = None) -> Question | Listing:
        """Parse a question in SQL without asking it. This is free.

        ``parameters`` are the values of ``?``, ``$1``, … in a list, or those of ``$name`` and ``:name`` in a dict. SHOW
        TABLES, DESCRIBE and SUMMARIZE are answered at once.
        """
        from sfumato.plan.sql.text import parse_listing

        request = parse_listing(question)
        if request is not None:
            from sfumato.curator.listings import list_declarations

            return list_declarations(question, request, self.policy, self._catalog)
        return self._parse_question(question, parameters)

    def _propose_question(self, text: str, query: Query) -> Question:
        """Return a question; without measures it is answered from the policy, unless its groups are discovered."""
        from sfumato.curator.proposals.questions import Question

        if query.combined is not None:
            from sfumato.curator.proposals.combined_questions import CombinedQuestion

            return CombinedQuestion(self._context, text, query, query.plan.limits)
        if query.value_queries:
            from sfumato.curator.proposals.private_scalars import ScalarQuestion

            return ScalarQuestion(self._context, text, query, query.plan.limits)
        question = Question(self._context, text, query, query.plan.limits)
        if query.plan.measures or question.discovered_keys:
            return question
        from sfumato.curator.proposals.selected_columns import FreeDeclaredValues

        return FreeDeclaredValues(self._context, text, query, query.plan.limits)

    def table(self, name: str, alias: str | None = None) -> TableView:
        """Start a question about a table in Python, step by step, as in SQL. This is free."""
        from sfumato.curator.tables import TableView
        from sfumato.plan.sql.building import start_selection

        return TableView(self._context, start_selection(self._catalog, name, alias))

    def propose(self, spec: Spec[P]) -> P:
        """Propose what a spec describes: ``curator.propose(BoundsSpec("visits", "cost"))``. This is free."""
        from sfumato.curator.release_kinds import Workspace, kind_for_spec

        proposal: P = kind_for_spec(spec).propose(
            Workspace(self._context, self._catalog, self.sql, self._parse_question), spec
        )
        return proposal

    def workload(
        self, questions: Sequence[str | Question] | Mapping[str, str | Question] | os.PathLike[str]
    ) -> WorkloadProposal:
        """Propose to ask several questions at one price: a list, a mapping from names, or a .sql file. This is free."""
        from sfumato.curator.kinds.workloads import WorkloadSpec

        return self.propose(WorkloadSpec(questions))

    def _parse_question(self, text: str, parameters: Parameters | None = None) -> Question:
        from sfumato.plan.sql import statements
        from sfumato.plan.sql.text import text_with_parameters

        if parameters is not None or not isinstance(text, str):
            query = statements.parse(text, self._catalog, parameters)
            return self._propose_question(text_with_parameters(text, parameters), query)
        return self._recent.get_or_propose(
            text,
            self._context,
            lambda: statements.parse(text, self._catalog),
            lambda query: self._propose_question(text, query),
        )

    def as_analyst(self, name: str) -> Curator:
        """Return a view of this curator that asks and pays as an analyst, within that analyst's share."""
        require_analyst(self.policy, name)
        self._context.account.give_share(name, self.policy.analysts[name])
        return self._in_context(replace(self._context, analyst=name))

    def rebind(self, proposal: P) -> P:
        """Rebind a proposal of another curator to this one's tables and account. This is free.

        Both policies must declare the same of every table.
        """
        from sfumato.curator.previews.previewing import rebind_proposal

        return rebind_proposal(proposal, self._context)

    def limited(self, limit: SpendingLimit, until: int | None = None) -> Curator:
        """Return a view whose charges are first reserved within an external spending limit.

        Answers stored after the ledger's line ``until`` are not reused.
        """
        return self._in_context(replace(self._context, account=self._context.account.limited(limit, until)))

    def conditioned(self, condition: ChargeCondition) -> Curator:
        """Return a view with a condition on every charge, asked in the transaction that appends it."""
        return self._in_context(replace(self._context, account=self._context.account.conditioned(condition)))

    def dry_charge(self, release: Callable[[Curator, str], object]) -> DryCharge | None:
        """Return what ``release`` would charge and read if it were called with this curator and a request id; None if
        it costs nothing. Nothing is charged and no row is read.
        """
        from sfumato.curator.dry_charges import dry_charge

        return dry_charge(self._context, lambda context, request_id: release(self._in_context(context), request_id))

    @property
    def policy_hash(self) -> str:
        """The hash of the whole policy, which an approval is bound to."""
        from sfumato.curator.dry_charges import policy_hash

        return policy_hash(self._context)

    def _in_context(self, context: Context) -> Curator:
        view = object.__new__(Curator)
        view.__dict__.update(self.__dict__)
        view._context = context
        return view

    def standing(self, analyst: str | None = None) -> Standing | PeriodStandings:
        """Return the standing of the account, or of an analyst's share. An analyst sees only their own share.

        Where every period has an account of its own, it holds one for each: ``standing()["2024-03"]``. It is cached per
        ledger head. Charges never use it: the ledger decides in a transaction.
        """
        from sfumato.curator.policy_account import compute_standings

        payer = self._resolve_analyst(analyst)
        head = self.ledger.head  # read before the standing, which is then at least as new
        cached = self._standings.get(payer)
        if cached is None or cached.ledger_head != head or cached.policy is not self.policy:
            standing = compute_standings(self.policy, self._context.account, payer)
            cached = self._standings[payer] = _CachedStanding(head, self.policy, standing)
        return cached.standing

    def history(self, analyst: str | None = None, *, after: int = 0, limit: int | None = None) -> AccountLines:
        """List the lines of the account, oldest first, or those of an analyst. Analysts see only their own lines.

        ``after`` is the number of the last line already seen; ``limit`` is the maximal number of further lines.
        """
        from sfumato.ledger.entries import AccountLines

        max_lines = None if limit is None else exact_integer(limit, "limit", at_least=1)
        exact_integer(after, "after", at_least=0)
        payer = self._resolve_analyst(analyst)
        return AccountLines(lambda: islice(account_lines(self.ledger, self.policy, payer, after), max_lines))

    def amend(self, policy: Policy | str | os.PathLike[str] | None = None, *, reason: str) -> Line:
        """Replace the account's budget by the policy's, with a reason that the ledger keeps. For the owner.

        Without a policy, this curator's file is read again. Unit and neighbours cannot change.
        """
        from sfumato.curator.policy_account import amend_account

        self._require_owner("amend")
        source = self.policy.path if policy is None else policy
        if source is None:
            rule = "a Policy or the path of its file, because this curator was not opened from a file"
            raise InvalidParameter("policy", policy, rule, fix="pass the amended policy or the path of its file")
        amended = read_policy(source)
        line = amend_account(self._context.account, amended, reason)
        self.policy = replace(self.policy, budget=amended.budget, allow_large_delta=amended.allow_large_delta)
        self._context = replace(self._context, policy=self.policy)
        return line

    def check(self, *, private: bool = True) -> CheckReport:
        """Compare the policy with its sources, opened anew; ``private`` adds exact figures for the owner alone."""
        from sfumato.curator.checking import compare_with_sources

        self._require_owner("check")
        return compare_with_sources(self.policy, private=private)

    def _resolve_analyst(self, analyst: str | None) -> str | None:
        caller = self._context.analyst
        if caller is not None and analyst not in (None, caller):
            raise InvalidParameter(
                "analyst",
                analyst,
                f"left out or {caller!r}, your own name, because only the owner can see other analysts",
            )
        return caller if analyst is None else analyst

    def _require_owner(self, call: str) -> None:
        if self._context.analyst is not None:
            raise SfumatoError(
                f"only the owner of the data may call {call}, not an analyst",
                place=f"Curator.{call}",
                fix="ask the owner; as the owner, call it on the original curator, not on the one from as_analyst",
            )

    def reopen(self) -> Curator:
        """Open the same policy again on the current data; changed data are a new version.

        The account, its terms and what was spent stay the same; data that belong to another account are refused. This
        curator stays open and has to be closed separately.
        """
        context, ledger = self._context, self._ledger_address
        curator = Curator(
            self.policy,
            ledger,
            seconds=context.seconds,
            memory=self._memory,
            threads=self._threads,
            progress=context.progress,
        )
        if context.account.limit is not None:
            curator = curator.limited(context.account.limit)
        return curator if context.analyst is None else curator.as_analyst(context.analyst)

    def check_files(self) -> None:
        """Refuse if a data file is no longer the one that was opened. No row is read."""
        self._context.engine.check_files()

    def drain(self, seconds: Number | None = None) -> bool:
        """Accept no new releases and wait for the running ones; return whether all ended within this time.

        For the owner, before closing. Stored answers and free calls stay available.
        """
        self._require_owner("drain")
        time_limit = (
            None if seconds is None else min(float(exact(seconds, "seconds", NONNEGATIVE)), threading.TIMEOUT_MAX)
        )
        return self._context.running_work.drain(time_limit)

    def close(self) -> None:
        """Close the sources, and the ledger if this curator opened it."""
        self._context.engine.close()
        self._context.preview_engine.close()
        if self._owns_ledger:
            self.ledger.close()

    def close_when_unused(self) -> weakref.finalize[..., Any]:
        """Close the sources, but not the ledger, when no view, proposal or running release of this curator is left.

        Return the finalizer: calling it closes the sources at once; its ``alive`` says whether they are still open.
        """
        context = self._context
        return weakref.finalize(context.running_work, _close_engines, context.engine, context.preview_engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def tables(self) -> Tables:
        """The tables and columns to ask about, from the policy alone, with example questions and their errors."""
        from sfumato.curator.describing import describe_tables

        return describe_tables(self.policy, self._catalog, self._parse_question)

    def __repr__(self) -> str:
        from sfumato.curator.describing import describe_tables

        return describe_tables(self.policy, self._catalog).brief()

    def _repr_html_(self) -> str:
        from sfumato.curator.describing import describe_tables
        from sfumato.html_fragments import paragraph

        tables_html = describe_tables(self.policy, self._catalog)._repr_html_()
        try:
            return tables_html + self.budget._repr_html_()
        except LedgerUnavailable as refusal:  # a notebook shows a curator that was closed, too
            return tables_html + paragraph(f"The remaining budget is not available: {refusal.rule}.")


def _close_engines(engine: Engine, preview_engine: PreviewEngine) -> None:
    engine.close()
    preview_engine.close()


def open(policy: str | os.PathLike[str], ledger: str | os.PathLike[str] | None = None) -> Curator:
    """Open a policy file, with its ledger beside it."""
    return Curator(policy, ledger)


_NO_COLUMN = "the table has no column of this name"


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
    rules: Mapping[str, Mapping[str, Any]] | None = None,
    delta: Number = 0,
    columns: Sequence[str] | None = None,
    name: str = "data",
    called: str | None = None,
    allow_large_delta: bool = False,
) -> Curator:
    """Open a curator of a pandas, polars or Arrow table: answers do not reveal whether one unit is in it.

    ``unit`` is the column with the unit's id, or "row"; ``called`` is the word for a unit, and ``name`` the table's
    name in questions. Types are those of the columns; ``bounds`` and ``values`` are what you know in advance, never
    what you read off these rows. ``rules`` say how cells are written, by the keys of a policy's column, such as
    ``{"day": {"type": "date", "format": "%d.%m.%Y"}}``. The account is kept in the ``ledger``, a file, so that the
    budget outlives the process. Protecting a copy or an edited table under the same account spends the same budget. A
    new account has a δ of 1/1000 or more only with ``allow_large_delta``.
    """
    from sfumato.engine.inspecting import types_in_memory
    from sfumato.policy.domains import check_keys

    if isinstance(table, (str, os.PathLike)):
        fix = "run sfumato init on a file to draft its policy, and open that: sf.open('policy.toml')"
        raise InvalidParameter("table", os.fspath(table), "a pandas, polars or Arrow table", fix=fix)
    types = types_in_memory(table)
    column_bounds, column_values, column_rules = dict(bounds or {}), dict(values or {}), dict(rules or {})
    if unit != ROW:
        check_keys({unit: None}, types, "unit", _NO_COLUMN, f"name {ROW}, or one of")
    for names, parameter in (
        (column_bounds, "bounds"),
        (column_values, "values"),
        (column_rules, "rules"),
        (dict.fromkeys(columns or ()), "columns"),
    ):
        check_keys(names, types, parameter, _NO_COLUMN, "remove it, or name one of")
    _require_mappings(column_rules)
    _require_fixed_addresses(account=account, ledger=ledger)
    column_names = [
        column for column in (types if columns is None else columns) if column != unit or column in (columns or ())
    ]
    domains = {
        column: _declare_column(
            types[column], column_bounds.get(column), column_values.get(column), column_rules.get(column, {})
        )
        for column in column_names
    }
    protected_table = Table(name, table, domains, id=unit, max_rows=max_rows)
    privacy_unit = PrivacyUnit(called or ("row" if unit == ROW else unit), every_row=unit == ROW)
    budget, tables = Budget(epsilon, delta), {name: protected_table}
    policy = Policy(privacy_unit, budget, tables, account=account, allow_large_delta=allow_large_delta)
    return Curator(policy, ledger)


def _require_mappings(column_rules: Mapping[str, Any]) -> None:
    for column, keys in column_rules.items():
        if not isinstance(keys, Mapping):
            fix = "write rules={'day': {'type': 'date', 'format': '%d.%m.%Y'}}"
            raise InvalidParameter(f"rules of {column}", keys, "a mapping such as {'type': 'date'}", fix=fix)


def _require_fixed_addresses(**addresses: Any) -> None:
    for parameter, address in addresses.items():
        if not isinstance(address, (str, os.PathLike)) or not str(address).strip():
            raise InvalidParameter(
                parameter,
                address,
                "a fixed name or path, so that later runs find what was already spent",
                fix="write account='clinic', ledger='clinic.ledger'",
            )


def _declare_column(column_type: Type, bounds: Any, values: Any, rules: Mapping[str, Any]) -> Any:
    """Declare a column by its stored type, with the given bounds and values; rules may give it another type."""
    lower_upper, value_list = (declared if declared is None else tuple(declared) for declared in (bounds, values))
    if rules:
        limits = {"bounds": lower_upper, "values": value_list}
        return {"type": column_type, **{key: limit for key, limit in limits.items() if limit is not None}, **rules}
    return Domain(column_type, bounds=lower_upper, values=value_list)
