"""Compare a policy with its sources: figures that are public, and figures for the owner alone.

Typical questions are timed over the real rows, so that the owner can set ``answer_after``: a server answers every
release at that time, so that the duration of reading reveals nothing (``server.answer_clock``). What is measured is
what the server holds back: a release from its charge until its answer is written. It runs over the real rows with a
throw-away account, and its answer is discarded. The duration depends on the rows, so it is PRIVATE; rounded up to a
power of two, the owner may publish it.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from fractions import Fraction
from pathlib import Path

from sfumato.curator.cell_proposals import USUAL_NULLS, SuggestedCellRules, suggest_cell_rules
from sfumato.curator.context import Context
from sfumato.curator.described_tables import ExampleQuestion
from sfumato.curator.describing import PolicyWithoutData, domain_words, example_questions, open_without_data
from sfumato.curator.policy_account import PathOrText, read_policy, require_permitted_delta_of_file
from sfumato.curator.previews.advising import Advice
from sfumato.curator.proposals.questions import Question
from sfumato.curator.weak_policies import exposure_warning, weak_policy_warnings
from sfumato.engine.inspecting import first_misquoted_line_by_file, open_inspector
from sfumato.engine.opening import open_engine
from sfumato.engine.protocols import Engine, Inspection, Inspector
from sfumato.errors import InvalidPolicy, SfumatoError
from sfumato.ledger import Ledger
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.codings import describe_cells
from sfumato.privacy import Guarantee
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import describe_guarantee


@dataclass(frozen=True)
class ReleaseDuration:
    """The duration of one release, from its charge on. PRIVATE."""

    question: str
    seconds: float


def suggested_answer_delay(durations: Iterable[ReleaseDuration]) -> int | None:
    """Propose the seconds after which a server should answer: the least power of two, from 1, above all durations.

    None where nothing was measured. PRIVATE until the owner decides to use it.
    """
    longest = max((timing.seconds for timing in durations), default=None)
    return None if longest is None else max(1, 2 ** math.ceil(math.log2(max(longest, 2**-20))))


def time_typical_questions(policy: Policy) -> tuple[ReleaseDuration, ...]:
    """Time typical questions of every private table over the real rows. PRIVATE.

    They are read with as many threads as a server uses, which keeps one processor for free requests.
    """
    engine = open_engine(policy, threads=max(1, (os.cpu_count() or 1) - 1))
    try:
        catalog = engine.catalog()
        typical_questions = [
            suggestion
            for table in catalog.tables.values()
            if not table.public
            for suggestion in example_questions(policy, table)
        ]
        timings = (_time_question(policy, engine, catalog, suggestion) for suggestion in typical_questions)
        return tuple(timing for timing in timings if timing is not None)
    finally:
        engine.close()


def _time_question(
    policy: Policy, engine: Engine, catalog: Catalog, suggestion: ExampleQuestion
) -> ReleaseDuration | None:
    """Release one question and discard its answer; None where this policy refuses it."""
    from sfumato.plan.sql.statements import parse

    watch = _ChargeToAnswerStopwatch()
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "scratch") as ledger:
        budget = policy.account_budget
        account = ledger.account(policy.account_name, unit=policy.unit, budget=budget, per=policy.per or "")
        context = Context(policy, engine, account, watch, "measured", is_preview=True)
        try:
            query = parse(suggestion.sql, catalog)
            epsilon = min(Fraction(1), budget.epsilon / 2)
            Question(context, suggestion.sql, query, query.plan.limits).release(epsilon=epsilon, delta=suggestion.delta)
        except SfumatoError:
            return None
    return None if watch.seconds is None else ReleaseDuration(suggestion.sql, watch.seconds)


@dataclass
class _ChargeToAnswerStopwatch:
    """A progress callback that measures the time between the phases that a server's clock covers."""

    seconds: float | None = None
    _begun: float = field(default=0.0, init=False)

    def __call__(self, phase: str) -> None:
        if phase == "charging":
            self._begun = time.perf_counter()
        elif phase == "writing down":
            self.seconds = time.perf_counter() - self._begun


MAX_LOST_SHARE = 0.5
"""The share of a column's values that may become NULL before the owner has to confirm it with ``--lossy``."""


@dataclass(frozen=True)
class CheckedTable:
    """The declarations of a table, and what its limits and bounds drop."""

    table: Table
    columns: Mapping[str, Domain]
    """The columns that questions may name."""
    content: str | None
    """A hash of the rows. PRIVATE unless the table is public: a reader could test guesses against it."""
    costs: Inspection | None
    """Exact figures. PRIVATE; None for a public table, or without ``private``."""
    rules: Mapping[str, CellRules] = field(default_factory=dict)
    """The rules by which cells are read."""
    rules_to_add: Mapping[str, SuggestedCellRules] = field(default_factory=dict)
    """For a column that loses cells, the keys that would read them. PRIVATE."""
    remarks: tuple[str, ...] = ()
    """Remarks about the database server, nothing about the rows."""

    def __repr__(self) -> str:
        return f"<CheckedTable {self.table.name}: {self.unit_description}>"

    @property
    def unit_description(self) -> str:
        """Describe how rows map to units."""
        table = self.table
        return "public" if table.public else "every row a unit" if table.every_row else f"id {table.id}"

    @property
    def declared(self) -> dict[str, str]:
        """Describe each column that questions may name, as the policy declares it."""
        described = {}
        for name, domain in self.columns.items():
            rules = self.rules[name].describe() if name in self.rules else []
            described[name] = "; ".join([domain_words(domain), *describe_cells(self.table.codings.get(name)), *rules])
        return described

    @property
    def lost_shares(self) -> dict[str, float]:
        """Return the columns with more than half of their values made NULL, with that share. PRIVATE."""
        costs = {} if self.costs is None else self.costs.columns
        return {
            f"{self.table.name}.{name}": cost.nulled_share
            for name, cost in costs.items()
            if cost.nulled_share > MAX_LOST_SHARE
        }


@dataclass(frozen=True)
class CheckReport:
    """A policy compared with its sources. PRIVATE parts are exact, without noise, for the owner alone."""

    policy: Policy
    tables: tuple[CheckedTable, ...]
    """Empty when a source was refused."""
    refusal: InvalidPolicy | None = None
    misquoted: tuple[tuple[str, int], ...] = ()
    """Files, each with its first line that is not one record: a likely cause of a refusal. PRIVATE."""
    advice: tuple[Advice, ...] = ()
    """The causes of noise in typical questions; from the policy alone, so safe to share."""
    times: tuple[ReleaseDuration, ...] = ()
    """How long typical questions took over the rows, which a server hides. PRIVATE."""

    def __repr__(self) -> str:
        summary = "a source was refused" if self.refusal else f"{len(self.tables)} tables were opened"
        column_lines = [f"{table!r} {name}: {words}" for table in self.tables for name, words in table.declared.items()]
        return "\n".join([f"{summary}; the figures in .tables are exact, for the owner alone", *column_lines])

    @property
    def guarantee(self) -> Guarantee:
        """The policy's lifetime guarantee."""
        return Guarantee(self.policy.budget.epsilon, self.policy.budget.delta)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about declarations that are allowed but probably unintended."""
        zero_epsilon = "With ε = 0 every question is refused: give the budget an ε above 0."
        return (*(() if self.policy.budget.epsilon else (zero_epsilon,)), *weak_policy_warnings(self.policy))

    @property
    def exposure(self) -> str | None:
        """What δ permits over the counted units, where that is dangerous. PRIVATE.

        Tables may be about the same units, so the largest number of units in one table is counted.
        """
        units = max((table.costs.units for table in self.tables if table.costs is not None), default=0)
        return exposure_warning(self.policy, units)

    @property
    def answer_after(self) -> int | None:
        """A proposal for a server's ``answer_after``, in seconds; None if nothing was measured. PRIVATE until used."""
        return suggested_answer_delay(self.times)

    @property
    def promise(self) -> str:
        """The policy's guarantee in words: for life, or for each unit in its period."""
        return describe_guarantee(self.policy)

    def require_values_kept(self, lossy_columns: Collection[str] = ()) -> None:
        """Refuse a policy that makes most values of a column NULL, unless the owner acknowledged it ("visits.ward").

        Whether it is refused depends on the data: it is for the owner alone.
        """
        emptied = {name: share for table in self.tables for name, share in table.lost_shares.items()}
        column_names = [f"{checked.table.name}.{name}" for checked in self.tables for name in checked.columns]
        for name in lossy_columns:
            if name not in column_names:
                fix = f"name one of {', '.join(column_names)}"
                raise InvalidPolicy(f"this policy has no column {name[:130]}", place="acknowledged", fix=fix)
        to_add = {
            f"{checked.table.name}.{name}": keys
            for checked in self.tables
            for name, keys in checked.rules_to_add.items()
        }
        for name, share in emptied.items():
            if name not in lossy_columns:
                correction = f"add {to_add[name]} to it" if name in to_add else "correct its type or values"
                raise InvalidPolicy(
                    f"PRIVATE: {share:.1%} of the values of {name} become NULL, because they do not have the "
                    "declared type or are not among the declared values",
                    place=f"tables.{name.replace('.', '.columns.', 1)}",
                    fix=f"{correction}; or, if this is intended, run check with --lossy {name}",
                )


def check(policy: Policy | PathOrText, *, private: bool = True) -> CheckReport:
    """Open a policy's sources and compare them with its declarations; ``private`` adds exact figures for the owner.

    An invalid policy is refused; an invalid source is refused in the report, because only the owner may see which line
    is wrong.
    """
    parsed_policy = read_policy(policy)
    if parsed_policy.path is not None or parsed_policy.ledger is not None:
        require_permitted_delta_of_file(parsed_policy)
    return compare_with_sources(parsed_policy, private=private)


def compare_with_sources(policy: Policy, *, private: bool) -> CheckReport:
    """Compare a policy whose account is or may be opened with its sources (``check``)."""
    try:
        with open_inspector(policy) as sources:
            tables = tuple(_check_table(sources, policy, name, private) for name in policy.tables)
    except InvalidPolicy as refusal:
        return CheckReport(policy, (), refusal, tuple(first_misquoted_line_by_file(policy)) if private else ())
    times = time_typical_questions(policy) if private else ()
    return CheckReport(policy, tables, advice=advise_on_example_questions(policy), times=times)


def advise_on_example_questions(policy: Policy) -> tuple[Advice, ...]:
    """Advise on typical questions: which limit or bound causes their noise, and what a tighter one would gain.

    No source is opened: the questions are put to the policy alone, over empty tables.
    """
    with open_without_data(policy) as policy_without_data:
        private_tables = [table for table in policy_without_data.catalog.tables.values() if not table.public]
        return tuple(advice for table in private_tables for advice in _advise_on_table(policy_without_data, table))


def _advise_on_table(policy_without_data: PolicyWithoutData, table: CatalogTable) -> list[Advice]:
    advice = []
    for suggestion in example_questions(policy_without_data.context.policy, table):
        try:
            advice.append(policy_without_data.question(suggestion.sql).advise(epsilon=1, delta=suggestion.delta))
        except SfumatoError:  # skip suggestions that this policy does not allow
            continue
    return advice


def _check_table(sources: Inspector, policy: Policy, name: str, private: bool) -> CheckedTable:
    table, rules = policy.tables[name], policy.cell_rules(name)
    content = sources.fingerprint(name)[:16] if table.public or private else None
    costs = sources.inspect(name) if private and not table.public else None
    to_add = {} if costs is None else _suggested_cell_rules(sources, table, costs, rules)
    return CheckedTable(table, sources.columns(name), content, costs, rules, to_add, sources.remarks(name))


def _suggested_cell_rules(
    sources: Inspector, table: Table, costs: Inspection, rules: Mapping[str, CellRules]
) -> dict[str, SuggestedCellRules]:
    """Return the rules that would read the lost cells of a table's columns. PRIVATE.

    A column of plain text loses no cell, but may hold words that stand for missing ones.
    """
    to_add = {}
    for name, domain in table.columns.items():
        is_plain_text = domain.type is Type.TEXT and domain.values is None
        if is_plain_text or costs.columns[name].nulled or domain.other is not None:
            lost = sources.lost_texts(table.name, name, USUAL_NULLS)
            to_add[name] = suggest_cell_rules(domain, lost, rules.get(name, CellRules()))
    return {name: keys for name, keys in to_add.items() if keys}
