"""A check compares a policy with its sources: what is public about them, and what only their owner may see.

Typical questions are timed over the real rows for the owner, who decides when a server answers.

A server answers every release at one time, ``answer_after``, so that how long its rows take tells nothing
(``server.answer_clock``). What is measured here is what the server holds back: a release from its charge to the moment
its answer is written down. It runs over the real rows, from an account that is thrown away, and nobody sees the answer.
How long it takes depends on the rows, so it is PRIVATE; rounded up to a power of two it is the owner's to publish.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from sfumato.curator.context import Context
from sfumato.curator.described_tables import Suggestion
from sfumato.curator.describing import PolicyAlone, domain_words, policy_alone, suggestions
from sfumato.curator.policy_account import PathOrText, read_policy
from sfumato.curator.previews.advising import Advice
from sfumato.curator.proposals.questions import Question
from sfumato.engine.opening import misquoted_lines, open_engine, open_inspector
from sfumato.engine.seam import Engine, Inspection, Inspector
from sfumato.errors import InvalidPolicy, SfumatoError
from sfumato.ledger import Ledger
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.sql.statements import parse
from sfumato.policy import Domain, Policy, Table
from sfumato.policy.codings import cell_words
from sfumato.privacy import Guarantee
from sfumato.release.answers.receipts import for_life


@dataclass(frozen=True)
class ReadingTime:
    """How long a release of one question took here, from its charge on. PRIVATE."""

    question: str
    seconds: float


def answer_after(times: Iterable[ReadingTime]) -> int | None:
    """Propose after how many seconds a server should answer: the least power of two that holds them all, from 1 on;
    None where nothing was measured. PRIVATE until the owner decides to use it.
    """
    longest = max((each.seconds for each in times), default=None)
    return None if longest is None else max(1, 2 ** math.ceil(math.log2(max(longest, 2**-20))))


def reading_times(policy: Policy) -> tuple[ReadingTime, ...]:
    """Measure typical questions of every private table over the rows as they are. PRIVATE.

    They are read with as many threads as a server uses, which leaves one processor to those who ask what is free.
    """
    engine = open_engine(policy, threads=max(1, (os.cpu_count() or 1) - 1))
    try:
        catalog = engine.catalog()
        typical_questions = [
            suggestion
            for table in catalog.tables.values()
            if not table.public
            for suggestion in suggestions(policy, table)
        ]
        timings = (_time_question(policy, engine, catalog, suggestion) for suggestion in typical_questions)
        return tuple(timing for timing in timings if timing is not None)
    finally:
        engine.close()


def _time_question(policy: Policy, engine: Engine, catalog: Catalog, suggestion: Suggestion) -> ReadingTime | None:
    """Release one question and discard its answer; None where this policy refuses it."""
    watch = _Stopwatch()
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "scratch") as ledger:
        budget = policy.account_budget
        account = ledger.account(policy.account_name, unit=policy.unit, budget=budget, per=policy.per or "")
        context = Context(policy, engine, account, watch, "measured", rehearsed=True)
        try:
            query = parse(suggestion.sql, catalog)
            epsilon = min(Fraction(1), budget.epsilon / 2)
            Question(context, suggestion.sql, query, query.plan.limits).release(epsilon=epsilon, delta=suggestion.delta)
        except SfumatoError:
            return None
    return None if watch.seconds is None else ReadingTime(suggestion.sql, watch.seconds)


@dataclass
class _Stopwatch:
    """A progress callback that measures the time between the phases that a server's clock covers."""

    seconds: float | None = None
    _begun: float = field(default=0.0, init=False)

    def __call__(self, phase: str) -> None:
        if phase == "charging":
            self._begun = time.perf_counter()
        elif phase == "writing down":
            self.seconds = time.perf_counter() - self._begun


MOST_LOST = 0.5
"""The share of a column's values that may be made NULL before its owner has to say that this is meant."""


@dataclass(frozen=True)
class CheckedTable:
    """What the policy declares of a table, and what limits and bounds cost."""

    table: Table
    columns: Mapping[str, Domain]
    """Those that questions may name."""
    content: str | None
    """A hash of the rows. PRIVATE unless the table is public: it lets whoever reads it test a guess of them."""
    costs: Inspection | None
    """Exact figures. PRIVATE; None for a public table, and when only what is public was asked for."""
    remarks: tuple[str, ...] = ()
    """What an owner should know of the server that holds the rows; nothing of the rows."""

    def __repr__(self) -> str:
        return f"<CheckedTable {self.table.name}: {self.whose_rows}>"

    @property
    def whose_rows(self) -> str:
        """Describe whose row each row is."""
        table = self.table
        return "public" if table.public else "every row a unit" if table.every_row else f"id {table.id}"

    @property
    def declared(self) -> dict[str, str]:
        """Describe each column that questions may name, as the policy declares it."""
        cells = {name: cell_words(self.table.codings.get(name)) for name in self.columns}
        return {name: "; ".join([domain_words(domain), *cells[name]]) for name, domain in self.columns.items()}

    @property
    def emptied(self) -> dict[str, float]:
        """Return the columns with more than half of their values made NULL, with that share. PRIVATE."""
        costs = {} if self.costs is None else self.costs.columns
        return {f"{self.table.name}.{name}": cost.lost for name, cost in costs.items() if cost.lost > MOST_LOST}


@dataclass(frozen=True)
class CheckReport:
    """What was found of a policy and its sources. PRIVATE parts are exact, without noise, for the owner alone."""

    policy: Policy
    tables: tuple[CheckedTable, ...]
    """Empty when a source was refused."""
    refusal: InvalidPolicy | None = None
    misquoted: tuple[tuple[str, int], ...] = ()
    """Files with the first line that is not one record: why a source may have been refused. PRIVATE."""
    advice: tuple[Advice, ...] = ()
    """What makes the noise of typical questions: from the policy alone, so it is safe to share."""
    times: tuple[ReadingTime, ...] = ()
    """How long the rows of typical questions took to be read, which a server is to hide. PRIVATE."""

    def __repr__(self) -> str:
        summary = "a source was refused" if self.refusal else f"{len(self.tables)} tables were opened"
        column_lines = [f"{table!r} {name}: {words}" for table in self.tables for name, words in table.declared.items()]
        return "\n".join([f"{summary}; what .tables say of rows is exact, and the owner's alone", *column_lines])

    @property
    def guarantee(self) -> Guarantee:
        """The policy's lifetime guarantee."""
        return Guarantee(self.policy.budget.epsilon, self.policy.budget.delta)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warn of declarations that are allowed but hardly intended."""
        zero_epsilon = "With ε = 0 every question is refused: give the budget an ε above 0."
        return () if self.policy.budget.epsilon else (zero_epsilon,)

    @property
    def answer_after(self) -> int | None:
        """Propose the seconds of a server's ``answer_after``; None where nothing was measured. PRIVATE until used."""
        return answer_after(self.times)

    @property
    def promise(self) -> str:
        """Describe the policy's guarantee: for life, or of each unit in its period."""
        return for_life(self.policy)

    def require_kept(self, acknowledged: Collection[str] = ()) -> None:
        """Refuse a policy that makes most values of a column NULL, unless the owner acknowledged it ("visits.ward").

        Whether it is refused depends on the data: it is for the owner alone.
        """
        emptied = {name: share for table in self.tables for name, share in table.emptied.items()}
        column_names = [f"{checked.table.name}.{name}" for checked in self.tables for name in checked.columns]
        for name in acknowledged:
            if name not in column_names:
                fix = f"name one of {', '.join(column_names)}"
                raise InvalidPolicy(f"{name[:130]} is no column of this policy", place="acknowledged", fix=fix)
        for name, share in emptied.items():
            if name not in acknowledged:
                raise InvalidPolicy(
                    f"PRIVATE: {share:.1%} of the values of {name} are made NULL: they are not of the declared type, "
                    "or not among the declared values",
                    place=f"tables.{name.replace('.', '.columns.', 1)}",
                    fix=f"correct its type or values; or, if this is meant, run check with --lossy {name}",
                )


def check(policy: Policy | PathOrText, *, private: bool = True) -> CheckReport:
    """Open a policy's sources and compare them with what it declares; ``private`` adds exact figures for the owner.

    A policy that is wrong by itself is refused; a source that is wrong is refused in the report, because only the
    owner may be told in which line.
    """
    declared = read_policy(policy)
    try:
        with open_inspector(declared) as sources:
            tables = tuple(_check_table(sources, table, private) for table in declared.tables.values())
    except InvalidPolicy as refusal:
        return CheckReport(declared, (), refusal, tuple(misquoted_lines(declared)) if private else ())
    times = reading_times(declared) if private else ()
    return CheckReport(declared, tables, advice=typical_advice(declared), times=times)


def typical_advice(policy: Policy) -> tuple[Advice, ...]:
    """Advise on typical questions: which limit or bound causes their noise, and what a tighter one would gain.

    No source is opened: the questions are put to the policy alone, over empty tables.
    """
    with policy_alone(policy) as alone:
        private_tables = [table for table in alone.catalog.tables.values() if not table.public]
        return tuple(advice for table in private_tables for advice in _advise_table(alone, table))


def _advise_table(alone: PolicyAlone, table: Described) -> list[Advice]:
    advice = []
    for suggestion in suggestions(alone.context.policy, table):
        try:
            advice.append(alone.question(suggestion.sql).advise(epsilon=1, delta=suggestion.delta))
        except SfumatoError:  # what the policy does not allow is no typical question
            continue
    return advice


def _check_table(sources: Inspector, table: Table, private: bool) -> CheckedTable:
    content = sources.fingerprint(table.name)[:16] if table.public or private else None
    costs = sources.inspect(table.name) if private and not table.public else None
    return CheckedTable(table, sources.columns(table.name), content, costs, sources.remarks(table.name))
