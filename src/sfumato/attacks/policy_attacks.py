"""Attack a policy with its whole budget: the success of membership and attribute inference, and the ceiling by theory.

Every attempt is a guess of a fair coin. The coin decides one fact about a simulated target: whether they are in a
table, or which of two values they have in a column. The attacker knows all other rows, spends the whole account on the
most informative question, in ε or in ρ (``account_spendings``), and guesses. Under a guarantee of (ε, δ) for the change
that the coin makes, a guess is correct with probability at most (e^ε + δ)/(1 + e^ε), and from a release with a known
privacy curve at most ½(1 + δ(0)) (``attacks.ceilings``): presence is one unit added or removed, a value is one unit
replaced. Runs are independent, so the count of correct guesses exceeds the binomial limit only with the stated
probability.

Spending the whole price at once gives the least noise that this policy ever allows: the budget bounds what all
questions reveal together, however it is divided. Every private table is attacked, and every column that declares two
values or a range; the others are named, and so is what there was no time for.

The attacked policy keeps its table, limits, neighbours and noise, but over simulated people: a hundred units of a row
each, known to the attacker, and a target with as many rows as are counted for one unit, which differs in the value of
one column. No source of the policy is read, and its ledger is neither read nor written.

An account of ε alone pays for Laplace noise of ε. An account with a δ also has an allowance of Rényi divergence r at
one order α (``privacy.budget``): ρ = r/α pays for Gaussian noise, since ρ-zCDP is a divergence of at most ρα at every
order (Bun & Steinke 2016, Definition 1.1). The account pays for one such release; the next is refused.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import account_guess_ceiling, curve_guess_ceiling, guess_ceiling
from sfumato.attacks.findings import Finding, Findings, temporary_curator
from sfumato.attacks.policy_pages import Attempt, power_words, undeclared_words
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.mechanisms import bits
from sfumato.plan import quoting
from sfumato.plan.descriptions import literal_sql
from sfumato.plots.picture import Picture
from sfumato.policy import Domain, InMemory, Policy, Table, Type, Via, read
from sfumato.privacy import Budget, Curve, Guarantee, Neighbours
from sfumato.privacy.numbers import (
    POSITIVE,
    Number,
    amount_from_units,
    exact,
    exact_integer,
    format_exact,
    units_rounded_down,
)
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow

    from sfumato.curator import Curator
    from sfumato.release.answers.web_pages import HtmlPage


_OTHER_PEOPLE = 100
_MAX_KNOWN_CELLS = 512
"""The most combinations of known values; each is a group of the question."""


@dataclass(frozen=True)
class AttackedTable:
    """One private table of a policy over simulated people, with the secret column if there is one."""

    policy: Policy
    table: Table
    column: str | None

    def __str__(self) -> str:
        return _quoted_table_or_column(self.table, self.column)

    @property
    def path(self) -> tuple[Table, ...]:
        """Return the tables that the unit's id is joined through, nearest first; empty if rows hold the id."""
        tables, table = [], self.table
        while isinstance(table.id, Via):
            table = self.policy.tables[table.id.via]
            tables.append(table)
        return tuple(tables)

    @property
    def secret_selects_account(self) -> bool:
        """Return whether the secret value is the period, which selects the account that pays.

        A replaced target then moves from one period's account to another's, and both reveal it
        (``ledger.period_accounts``).
        """
        per_period_replace = self.policy.per is not None and self.policy.neighbours is Neighbours.REPLACE
        return (
            per_period_replace and self.column is not None and self.column == self.policy.period_column(self.table.name)
        )

    @property
    def domain(self) -> Domain:
        """Return the declared domain of the secret column."""
        assert self.column is not None
        return self.table.columns[self.column]

    @property
    def has_listed_values(self) -> bool:
        """Return whether the secret column lists its values; otherwise it has bounds."""
        return bool(_declared_values(self.domain))

    @property
    def values(self) -> tuple[Any, Any]:
        """Return the two values to distinguish: the first two listed, or both ends of the range."""
        first, second = _two_distinct_values(self.domain)
        return first, second

    @property
    def key(self) -> str:
        """Return the SQL key that separates the two values."""
        name, bounds = quote_identifier(str(self.column)), self.domain.bounds
        return name if bounds is None else f"{name} >= {literal_sql(bounds[1], self.domain.type)}"

    @property
    def keys(self) -> tuple[Any, Any]:
        """Return the groups of the two values."""
        return self.values if self.has_listed_values else (False, True)

    def row_groups(self, rows: pyarrow.Table) -> list[Any]:
        """Return the group of each row, as the SQL key does."""
        cells, upper_value = rows[str(self.column)].to_pylist(), self.values[1]
        return cells if self.has_listed_values else [None if cell is None else cell >= upper_value for cell in cells]

    @property
    def rows(self) -> int:
        """Return the number of the target's rows: as many as are counted for one unit in one group."""
        max_rows = 1 if self.table.every_row else self.table.max_rows or 1
        return min(max_rows, self.table.max_rows_per_group or max_rows, self.table.row_ceiling - 1)

    def others(self, count: int = _OTHER_PEOPLE) -> pyarrow.Table:
        """Generate the other people, a row each; the same ones every time."""
        max_others = min([self.table.row_ceiling - self.rows, *(table.row_ceiling - 1 for table in self.path)])
        rows = self._single_table_policy().dummy(min(count, max_others))[self.table.name]
        return self.with_ids(rows, np.arange(rows.num_rows))

    def target(self, others: pyarrow.Table, value: Any = None) -> pyarrow.Table:
        """Generate the target: rows like another person's, with a new id and this value of the secret column."""
        rows = others.take([0] * self.rows)
        if self.column is not None and value is not None:
            rows = with_column(rows, self.column, [value] * self.rows)
        return self.with_ids(rows, np.full(self.rows, others.num_rows))

    def with_ids(self, rows: pyarrow.Table, numbers: NDArray[np.int64]) -> pyarrow.Table:
        """Set the column that identifies the unit of each row."""
        return rows if self.table.every_row else with_column(rows, _id_column(self.table), (numbers + 1).tolist())

    def _single_table_policy(self) -> Policy:
        """Return the policy restricted to this table and those its id is joined through."""
        needed = {table.name: table for table in (self.table, *self.path)}
        return replace(self.policy, tables=needed, analysts={}, path=None, per=None, ledger=None)

    @contextmanager
    def curator(self, rows: pyarrow.Table, account: Budget) -> Iterator[Curator]:
        """Open the policy over these rows, with a temporary account."""
        id_column = None if self.table.every_row else _id_column(self.table)
        units = rows.num_rows if id_column is None else len(rows[id_column].unique())
        rows_by_table = {self.table.name: rows, **self._owner_tables(units)}
        restricted = self._single_table_policy()
        attacked_policy = replace(
            restricted,
            budget=account,
            tables={
                name: replace(restricted.tables[name], source=InMemory(table_rows), relation=None)
                for name, table_rows in rows_by_table.items()
            },
            size=units if self.policy.size is not None else None,
            account="invented people",
        )
        with temporary_curator(attacked_policy) as curator:
            yield curator

    def _owner_tables(self, units: int) -> dict[str, pyarrow.Table]:
        """Generate a row per unit in every table that the id is joined through."""
        generated = self._single_table_policy().dummy(units)
        tables, child = {}, self.table
        for table in self.path:
            rows = generated[table.name]
            for name in dict.fromkeys((child.id.key, _id_column(table))):
                rows = with_column(rows, name, list(range(1, units + 1)))
            tables[table.name], child = rows, table
        return tables

    def known_columns(self) -> dict[str, tuple[Any, ...]]:
        """Return columns that the attacker knows of everybody, with their values, as many as fit the limit of cells."""
        known_columns: dict[str, tuple[Any, ...]] = {}
        cells = 1
        for name, domain in self.table.columns.items():
            values = () if name in (self.column, _id_column(self.table)) else _declared_values(domain)
            if len(values) > 1 and cells * len(values) <= _MAX_KNOWN_CELLS:
                known_columns[name] = values
                cells *= len(values)
        return known_columns


def attacked_tables(policy: Policy, columns: Sequence[str] = ()) -> tuple[AttackedTable, ...]:
    """Return the tables and columns to attack: by default every private table with each column of two values or more,
    listed values first; or the ``columns`` given as ``table.column`` or by a name that several tables may share.
    """
    private = [table for table in policy.tables.values() if not table.public]
    pairs = [(table, name) for table in private for name in _secret_columns(policy, table)]
    if not columns:
        without_secrets = [(table, None) for table in private if not _secret_columns(policy, table)]
        return tuple(AttackedTable(policy, table, name) for table, name in [*pairs, *without_secrets])
    available = ", ".join(_quoted_table_or_column(table, name) for table, name in pairs[:20]) or "none of this policy"
    chosen: dict[tuple[str, str], AttackedTable] = {}
    for requested in columns:
        matching = [pair for pair in pairs if requested in _accepted_column_names(*pair)]
        if not matching:
            rule = f"the name of a private column with bounds or at least two listed values: {available}"
            fix = "" if pairs else 'declare values or bounds for a column in the policy, such as values = ["yes", "no"]'
            raise InvalidParameter("column", requested, rule, fix=fix)
        chosen |= {(table.name, name): AttackedTable(policy, table, name) for table, name in matching}
    return tuple(chosen.values())


def unattackable_columns(policy: Policy) -> tuple[str, ...]:
    """Return the private columns that are not attacked: lists, and those without two values or a range.

    Columns that identify the unit, directly or by a join, are no secrets.
    """
    private = [table for table in policy.tables.values() if not table.public]
    excluded = [(table, {*_secret_columns(policy, table), *_id_columns(policy, table)}) for table in private]
    return tuple(
        _quoted_table_or_column(table, name)
        for table, names in excluded
        for name in (*table.columns, *table.lists)
        if name not in names
    )


def _quoted_table_or_column(table: Table, column: str | None) -> str:
    """Return a column with its table as quoted SQL, unique within a policy."""
    return ".".join(quoting.quoted(name) for name in (table.name, column) if name is not None)


def _accepted_column_names(table: Table, column: str) -> tuple[str, ...]:
    """Return the names by which a column may be requested."""
    return column, f"{table.name}.{column}", _quoted_table_or_column(table, column)


def _secret_columns(policy: Policy, table: Table) -> list[str]:
    """Return the columns that a person could wish to hide, those with listed values first."""
    id_columns = _id_columns(policy, table)
    secrets = [
        name
        for name, domain in table.columns.items()
        if name not in id_columns and len(_two_distinct_values(domain)) == 2
    ]
    return sorted(secrets, key=lambda name: not _declared_values(table.columns[name]))


def _id_columns(policy: Policy, table: Table) -> set[str]:
    """Return the columns that identify a row's unit, or that other tables join on."""
    paths = [other.id for other in policy.tables.values() if isinstance(other.id, Via)]
    return {_id_column(table), *(path.key for path in paths if path.via == table.name)}


def _id_column(table: Table) -> str:
    """Return the column that identifies a row's unit, directly or by a join."""
    return table.id.on if isinstance(table.id, Via) else str(table.id)


def _two_distinct_values(domain: Domain) -> tuple[Any, ...]:
    """Return two values of a column that differ most, as rows store them; fewer if there are not two."""
    if values := _declared_values(domain):
        return values[:2]
    if domain.bounds is None or domain.bounds[0] == domain.bounds[1]:
        return ()
    return tuple(float(bound) if isinstance(bound, Fraction) else bound for bound in domain.bounds)


def _declared_values(domain: Domain) -> tuple[Any, ...]:
    """Return the listed values of a column, if it has any."""
    if domain.values is None:
        return (False, True) if domain.type is Type.BOOLEAN else ()
    return tuple(float(value) if isinstance(value, Fraction) else value for value in domain.values)


def with_column(rows: pyarrow.Table, name: str, values: list[Any]) -> pyarrow.Table:
    """Replace the values of a column, keeping its type."""
    import pyarrow

    index = rows.schema.get_field_index(name)
    column_type = rows.schema.field(index).type
    as_text = pyarrow.types.is_string(column_type) and not isinstance(values[0], str)
    column = pyarrow.array([str(cell) for cell in values] if as_text else values, column_type)
    return rows.set_column(index, name, column)


def quote_identifier(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class WholeSpending:
    """A whole account spent at once, as ε, or as ρ if given."""

    budget: Budget
    rho: Fraction | None = None
    accounts: int = 1
    """How many accounts pay this much each: two if the secret decides which of them answers."""

    @property
    def price(self) -> dict[str, Any]:
        """Return the price as arguments of ``release``."""
        if self.rho is None:
            return {"epsilon": self.budget.epsilon}
        return {"rho": self.rho, "mechanism": "gaussian"}

    def __str__(self) -> str:
        paid = f"ε = {format_exact(self.budget.epsilon)}" if self.rho is None else f"ρ = {float(self.rho):.3g}"
        return paid if self.accounts == 1 else f"{paid} of each of {self.accounts} accounts"

    def account(self, times: int) -> Budget:
        """Return an account that pays this price ``times`` times, in either currency.

        At one order r = ε + c, where c depends on δ (``theorems.renyi_allowance``). If δ is small, c < 0 and r grows
        faster than ε. If δ is large, r > ε, and ``times``·r is an ε that pays for it.
        """
        budget, renyi = self.budget, amount_from_units(self.budget.allowances.renyi or 0)
        epsilon = times * max(budget.epsilon, renyi)
        return Budget(epsilon, budget.delta, reserve=budget.reserve, order=budget.order, neighbours=budget.neighbours)

    def ceiling(self, *, replaced: bool) -> float:
        """Bound correct guesses of a coin that decides a unit's presence, or by whom it is ``replaced``.

        A release priced in ε is bounded by the account's guarantee; one priced in ρ also by its own privacy curve. If ε
        is so large that the δ of two units exceeds 1, there is no bound. Concurrent releases of several accounts
        compose (Lyu 2022, Theorem 1.1; Vadhan & Zhang 2023).
        """
        budget = self.budget
        promise = Guarantee(budget.epsilon * self.accounts, budget.delta * self.accounts)
        account_bound = account_guess_ceiling(promise, budget.neighbours) if replaced else guess_ceiling(promise)
        if self.rho is None:
            return account_bound
        curve = Curve.concentrated(self.rho * self.accounts, budget.neighbours)
        return min(account_bound, curve_guess_ceiling(curve.for_neighbours(Neighbours.REPLACE) if replaced else curve))

    def log_likelihood_ratio(self, noisy_count: float, low: float, high: float) -> float:
        """Return the log-likelihood ratio of the higher to the lower count given a noisy one, up to the noise scale."""
        if self.rho is None:
            return abs(noisy_count - low) - abs(noisy_count - high)
        return (noisy_count - (low + high) / 2) * (high - low)


def account_spendings(budget: Budget) -> Iterator[WholeSpending]:
    """Yield the ways to spend a whole account at once."""
    yield WholeSpending(budget)
    if budget.order is not None and budget.allowances.renyi:
        yield WholeSpending(
            budget, amount_from_units(units_rounded_down(amount_from_units(budget.allowances.renyi) / budget.order))
        )


GroupCounts = Mapping[tuple[Any, ...], float]
"""An answer: the count of each group, by its keys."""
Ask = Callable[[Any, int], Iterator[GroupCounts]]
"""Answers one question ``times`` times about the same rows."""

LEAST_RUNS, MAX_RUNS = 20, 10_000
_MAX_PEOPLE_AT_ONCE = 50
"""The most people whose values are guessed at once."""
_MAX_ROWS = 100_000
"""The most rows of these people together; with many rows per person there are fewer people."""
_TWO_ACCOUNTS_NOTE = (
    "Two accounts pay for guesses of {}, since each period has its own: the ceiling is for both together."
)


@dataclass(frozen=True)
class PolicyAttack:
    """Attacks on a policy with its whole budget: attempts, their success, and the ceilings."""

    promise: Guarantee
    neighbours: Neighbours
    unit: str
    attempts: tuple[Attempt, ...]
    untried: tuple[str, ...] = ()
    """Descriptions of the attempts that there was no time for."""
    undeclared: tuple[str, ...] = ()
    """The columns that cannot be attacked: lists, and those that declare neither two values nor a range."""

    @property
    def findings(self) -> Findings:
        """Return all attempts as findings, exact and private; equal exact ones once."""
        results: list[Finding] = []
        seen_answers: set[str] = set()
        for attempt in self.attempts:
            results += [attempt.private] if attempt.exact.answers in seen_answers else [attempt.exact, attempt.private]
            seen_answers.add(attempt.exact.answers)
        return Findings("the whole budget on one target", tuple(results), self._summary_words())

    def _summary_words(self) -> tuple[str, ...]:
        prices = " or all of ".join(dict.fromkeys(attempt.price for attempt in self.attempts))
        untried_note = f"There was no time to try: {', '.join(self.untried)}." if self.untried else ""
        words = (
            f"An analyst who spends all of {prices} at once, and knows everything about everybody else.",
            "All people are simulated: no data of the policy was read, and no budget was spent.",
            *dict.fromkeys(attempt.private.note for attempt in self.attempts),
            untried_note,
            *undeclared_words(self.undeclared),
            *power_words(self.attempts),
        )
        return tuple(sentence for sentence in words if sentence)

    @property
    def holds(self) -> bool:
        """Return whether every ceiling held."""
        return all(attempt.private.holds for attempt in self.attempts)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Plot the share of correct guesses of each attempt, exact and private, with the ceilings."""
        return self.findings.plot(path)

    def page(self) -> HtmlPage:
        """Return a report page for readers who do not use SQL."""
        from sfumato.attacks.policy_pages import policy_page

        return policy_page(
            self.promise, self.neighbours, self.unit, self.attempts, self.findings, self.untried, self.undeclared
        )

    def to_json(self) -> str:
        """Serialise the findings as JSON."""
        return self.findings.to_json()

    def __str__(self) -> str:
        return str(self.findings)

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()


def policy(
    policy: Policy | str | os.PathLike[str],
    *,
    column: str | Sequence[str] | None = None,
    runs: int = 100,
    minutes: Number = 1,
) -> PolicyAttack:
    """Attack a policy over simulated people with its whole budget, and report success beside the ceiling.

    Only the policy is read: none of its sources is opened, and its ledger is not touched. ``column`` names the secret,
    such as ``"visits.ward"``, or several; by default every column of every private table that declares two values or a
    range is attacked. After ``minutes`` no attempt starts, and what was left out is reported.
    """
    run_count = exact_integer(runs, "runs", at_least=1)
    if not LEAST_RUNS <= run_count <= MAX_RUNS:
        rule = f"between {LEAST_RUNS} and {MAX_RUNS:,}"
        raise InvalidParameter("runs", runs, rule)
    deadline = time.monotonic() + 60 * float(exact(minutes, "minutes", POSITIVE))
    target_policy = policy if isinstance(policy, Policy) else read(Path(policy))
    requested = (column,) if isinstance(column, str) else tuple(column or ())
    attacked = attacked_tables(target_policy, requested)
    if not target_policy.account_budget.epsilon:
        raise InvalidPolicy(
            "an account with ε = 0 answers nothing, so there is nothing to attack",
            place="unit.budget.epsilon",
            fix="give the budget an ε above 0, such as the one you plan to use",
        )
    attempts: list[Attempt] = []
    untried: list[str] = []
    for description, table, spending, attempt in _plan_attempts(attacked):
        if attempts and time.monotonic() >= deadline:
            untried.append(f"{description} with {spending}")
        else:
            attempts.append(attempt(table, spending, run_count))
    promise = Guarantee(target_policy.budget.epsilon, target_policy.budget.delta)
    unattacked = () if requested else unattackable_columns(target_policy)
    return PolicyAttack(
        promise, target_policy.neighbours, str(target_policy.unit), tuple(attempts), tuple(untried), unattacked
    )


Planned = tuple[str, AttackedTable, WholeSpending, Callable[[AttackedTable, WholeSpending, int], Attempt]]


def _plan_attempts(chosen: Sequence[AttackedTable]) -> list[Planned]:
    """Return the planned attempts, the most informative first: presence if it is not public, and one value per table;
    all other values; the same in the other currency; and everybody's values where people can be distinguished.
    """
    first_per_table = list({stage.table.name: stage for stage in reversed(chosen)}.values())[::-1]
    attacked_policy = chosen[0].policy
    presence_tables = first_per_table if attacked_policy.neighbours is Neighbours.ADD_REMOVE else []
    columns = [stage for stage in chosen if stage.column is not None]
    if not presence_tables and not columns:
        raise InvalidPolicy(
            "with replace neighbours the attack can only guess values, but no column declares bounds or at least two "
            "values",
            place=f"tables.{chosen[0].table.name}.columns",
            fix='declare the values of a column, such as values = ["yes", "no"]; to leave the policy as it is, do so '
            "in a copy",
        )
    early, late = (
        [stage for stage in columns if stage in first_per_table],
        [stage for stage in columns if stage not in first_per_table],
    )
    plan: list[Planned] = []
    for spending in account_spendings(attacked_policy.account_budget):
        plan += [
            (f"presence in {replace(stage, column=None)}", stage, spending, attack_presence)
            for stage in presence_tables
        ]
        plan += [(str(stage), stage, _with_second_account(stage, spending), attack_value) for stage in (*early, *late)]
    distinguishable = [
        stage for stage in early if stage.has_listed_values and prod(map(len, stage.known_columns().values())) > 1
    ]
    whole_epsilon = WholeSpending(attacked_policy.account_budget)
    return plan + [
        (f"everybody's {stage}", stage, _with_second_account(stage, whole_epsilon), attack_everybody)
        for stage in distinguishable
    ]


def _with_second_account(stage: AttackedTable, spending: WholeSpending) -> WholeSpending:
    """Charge two accounts if the secret decides which of them the target is in."""
    return replace(spending, accounts=2) if stage.secret_selects_account else spending


def attack_presence(chosen: AttackedTable, spent: WholeSpending, runs: int) -> Attempt:
    """Guess whether the target is in the table from its number of rows."""
    import pyarrow

    others = chosen.others()
    tables = (others, pyarrow.concat_tables([others, chosen.target(others)]))
    rows_without, rows_with = (rows.num_rows for rows in tables)
    question = f"SELECT COUNT(*) AS rows FROM {quote_identifier(chosen.table.name)}"

    def guess(answer: GroupCounts) -> bool:
        return spent.log_likelihood_ratio(answer[()], rows_without, rows_with) > 0

    def count_rows(rows: pyarrow.Table) -> GroupCounts:
        return {(): rows.num_rows}

    query = _AttackQuery(chosen, spent, question, count_rows)
    naming = "presence", f"{replace(chosen, column=None)}, presence", "is in the table"
    return _build_attempt(query, naming, query.count_correct(tables, guess, runs), runs, replaced=False)


def attack_value(chosen: AttackedTable, spent: WholeSpending, runs: int) -> Attempt:
    """Guess which of two values the target has from the number of rows with each."""
    import pyarrow

    others = chosen.others()
    pair, keys = chosen.values, chosen.keys
    tables = tuple(pyarrow.concat_tables([others, chosen.target(others, secret)]) for secret in pair)
    other_counts = Counter(chosen.row_groups(others))

    def guess(answer: GroupCounts) -> bool:
        first, second = (
            spent.log_likelihood_ratio(answer[key,], other_counts[key], other_counts[key] + chosen.rows) for key in keys
        )
        return second > first

    def count_rows(rows: pyarrow.Table) -> GroupCounts:
        return Counter((key,) for key in chosen.row_groups(rows))

    query = _AttackQuery(chosen, spent, _grouped_count_sql(chosen, ()), count_rows)
    naming = "value", str(chosen), f"has {chosen.column} = {pair[1]}, not {pair[0]}"
    return _build_attempt(query, naming, query.count_correct(tables, guess, runs), runs, replaced=True)


def attack_everybody(chosen: AttackedTable, spent: WholeSpending, runs: int) -> Attempt:
    """Guess a value of many people at once, whose other values are known and distinct."""
    known_columns = chosen.known_columns()
    cells = list(islice(product(*known_columns.values()), max(2, min(_MAX_PEOPLE_AT_ONCE, _MAX_ROWS // chosen.rows))))
    rounds = -(-runs // len(cells))
    first, second = chosen.keys

    def count_rows(rows: pyarrow.Table) -> GroupCounts:
        return Counter(zip(*(rows[name].to_pylist() for name in known_columns), chosen.row_groups(rows), strict=True))

    query = _AttackQuery(chosen, spent, _grouped_count_sql(chosen, tuple(known_columns)), count_rows)
    correct = [0, 0]
    for _ in range(rounds):
        secrets = bits.random_array_below(2, len(cells))
        rows = _generate_people(chosen, known_columns, cells, secrets)
        for side, ask in enumerate((query.answer_exactly, query.answer_privately)):
            answer = next(ask(rows, 1))
            count_differences = np.array([answer[*cell, second] - answer[*cell, first] for cell in cells])
            correct[side] += int(((count_differences > 0) == secrets).sum())
    words = f"who of {len(cells)} people have {chosen.column} = {chosen.values[1]}, not {chosen.values[0]}"
    naming = "everybody", f"{chosen}, everybody", words
    return _build_attempt(query, naming, correct, rounds * len(cells), replaced=True)


def _generate_people(
    chosen: AttackedTable, known_columns: dict[str, tuple[Any, ...]], cells: list[tuple[Any, ...]], secrets: Any
) -> Any:
    """Generate a person per cell of the known columns, with the value that a coin chose in all their rows."""
    owner = np.repeat(np.arange(len(cells)), chosen.rows)
    rows: pyarrow.Table = chosen.others().take([0] * len(owner))
    for index, name in enumerate(known_columns):
        rows = with_column(rows, name, [cells[person][index] for person in owner])
    rows = with_column(rows, str(chosen.column), [chosen.values[secrets[person]] for person in owner])
    return chosen.with_ids(rows, owner)


def _grouped_count_sql(chosen: AttackedTable, columns: tuple[str, ...]) -> str:
    """Return the query that counts the rows of each group of these columns and the secret's two values."""
    names = ", ".join([*map(quote_identifier, columns), chosen.key])
    return f"SELECT {names}, COUNT(*) AS rows FROM {quote_identifier(chosen.table.name)} GROUP BY {names}"


@dataclass(frozen=True)
class _AttackQuery:
    """A question with its exact and its private answers."""

    attacked: AttackedTable
    spending: WholeSpending
    question: str
    count_groups: Callable[[Any], GroupCounts]

    def answer_exactly(self, rows: Any, times: int) -> Iterator[GroupCounts]:
        """Yield exact counts of a simulated table."""
        counts = self.count_groups(rows)
        return (counts for _ in range(times))

    def answer_privately(self, rows: Any, times: int) -> Iterator[GroupCounts]:
        """Yield private answers, each for a whole account."""
        with self.attacked.curator(rows, self.spending.account(times)) as curator:
            question: Any = curator.sql(self.question)
            for _ in range(times):
                answer = question.release(**self.spending.price, fresh=True)
                yield {row[:-1]: row[-1] for row in answer.rows}

    def count_correct(self, tables: Any, guess: Callable[[GroupCounts], bool], runs: int) -> list[int]:
        """Return the correct guesses from exact answers and from private ones."""
        return [_count_correct(ask, tables, guess, runs) for ask in (self.answer_exactly, self.answer_privately)]


def _count_correct(ask: Ask, tables: Any, guess: Callable[[GroupCounts], bool], runs: int) -> int:
    """Toss a coin per run, query the table that it selects, and count correct guesses."""
    heads = int(bits.random_array_below(2, runs).sum())
    return sum(
        guess(answer) == bool(side)
        for side, times in enumerate((runs - heads, heads))
        if times
        for answer in ask(tables[side], times)
    )


def _build_attempt(
    query: _AttackQuery, naming: tuple[str, str, str], correct: list[int], trials: int, *, replaced: bool
) -> Attempt:
    """Combine the results of exact and private answers."""
    kind, title, words = naming
    where = str(query.attacked if replaced else replace(query.attacked, column=None))
    ceiling = query.spending.ceiling(replaced=replaced)
    note = _TWO_ACCOUNTS_NOTE.format(where) if query.spending.accounts > 1 else ""
    return Attempt(
        where,
        words,
        str(query.spending),
        query.question,
        Finding(kind, f"{title}, exact", correct[0], trials, 0.5, None, 1),
        Finding(kind, f"{title}, {query.spending}", correct[1], trials, 0.5, ceiling, 1, note),
    )
