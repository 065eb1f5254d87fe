"""A policy is attacked with its whole budget: what an analyst could find out at most, tried out and by theory.

Every attempt is a game of coins. A coin decides one thing about an invented target: whether they are in a table, or
which of two values they have in a column. The attacker knows everybody else's rows, spends the whole account on the
question that tells most, in one of its currencies (``whole_budgets``), and guesses. Under a guarantee of (ε, δ) for the
change that the coin makes, a guess is right with probability at most (e^ε + δ)/(1 + e^ε), and from a release with a
curve of its own with ½(1 + δ(0)) (``attacks.ceilings``): presence is one unit added or removed, a value is one unit
replaced. Runs are independent, so right guesses pass the limit of a binomial with that chance as rarely as it is said.

With the price spent at once, noise is as small as this policy ever allows: the budget bounds what all questions
together tell, however they are shared out. Every private table is attacked, and every column that declares two values
or a range; the others are named, and what there was no time for is said.

A policy is staged over invented people: its own table, limits, neighbours and noise, and nobody's data.

Attackers are assumed to know everything but one thing about one unit. So everybody else is public here: a hundred
invented units of a row each, and a target with as many rows as one unit may have count, all alike but for the target's
value of one column. No source of the policy is opened, and its ledger is neither read nor written.

A whole budget is spent at once, in one of the currencies that its account is kept in, on the noise that tells most.

An account of ε alone pays for Laplace noise of ε. One that also has a δ keeps a second currency, the Rényi divergence
r of one order α (``privacy.budget``): ρ = r/α pays for Gaussian noise, since ρ-zCDP is a divergence of at most ρα at
every order (Bun & Steinke 2016, Definition 1.1). What an account pays for once is the most that it pays for: the
release after it is refused.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.ceilings import account_ceiling, curve_ceiling, guess_ceiling
from sfumato.attacks.findings import Finding, Findings, thrown_away
from sfumato.attacks.policy_pages import Attempt, power_words, undeclared_words
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.mechanisms import bits
from sfumato.plan import written_names
from sfumato.plan.words import literal_words
from sfumato.plots.picture import Picture
from sfumato.policy import Domain, InMemory, Policy, Table, Type, Via, read
from sfumato.privacy import Budget, Curve, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, allowance_units, exact, from_units, text, whole

if TYPE_CHECKING:
    import pyarrow

    from sfumato.curator import Curator
    from sfumato.release.answers.web_pages import HtmlPage


_OTHERS = 100
_MOST_CELLS = 512
"""Cells of what is known of people, at most: each is asked about."""


@dataclass(frozen=True)
class AttackedTable:
    """A stage is one private table of a policy, with the column whose value is secret, if there is one to ask about."""

    policy: Policy
    table: Table
    column: str | None

    def __str__(self) -> str:
        return _written(self.table, self.column)

    @property
    def path(self) -> tuple[Table, ...]:
        """List the tables through which it is found whose a row is, the nearest first; none where a row says it."""
        found, table = [], self.table
        while isinstance(table.id, Via):
            table = self.policy.tables[table.id.via]
            found.append(table)
        return tuple(found)

    @property
    def moves(self) -> bool:
        """Tell whether the secret value says which account pays: a target whose value is replaced moves from the period
        of one account to that of another, and both tell (``ledger.period_accounts``).
        """
        halved = self.policy.per is not None and self.policy.neighbours is Neighbours.REPLACE
        return halved and self.column is not None and self.column == self.policy.period_column(self.table.name)

    @property
    def domain(self) -> Domain:
        """Give what is declared of the secret column."""
        assert self.column is not None
        return self.table.columns[self.column]

    @property
    def listed(self) -> bool:
        """Tell whether the values of the secret column are listed; otherwise it has bounds."""
        return bool(_listed(self.domain))

    @property
    def values(self) -> tuple[Any, Any]:
        """Give the two values of the column that are told apart: the first two, or both ends of the range."""
        first, second = _pair(self.domain)
        return first, second

    @property
    def key(self) -> str:
        """Write in SQL what rows are grouped by so that the two values fall apart."""
        name, ends = quoted(str(self.column)), self.domain.bounds
        return name if ends is None else f"{name} >= {literal_words(ends[1], self.domain.type)}"

    @property
    def keys(self) -> tuple[Any, Any]:
        """Give the groups that the two values fall into."""
        return self.values if self.listed else (False, True)

    def keyed(self, rows: pyarrow.Table) -> list[Any]:
        """Find the group of each row, as SQL does."""
        found, top = rows[str(self.column)].to_pylist(), self.values[1]
        return found if self.listed else [None if each is None else each >= top for each in found]

    @property
    def rows(self) -> int:
        """Say how many rows the target has: as many as count of one unit, in one group."""
        most = 1 if self.table.every_row else self.table.max_rows or 1
        return min(most, self.table.max_rows_per_group or most, self.table.row_ceiling - 1)

    def others(self, count: int = _OTHERS) -> pyarrow.Table:
        """Make up people of a row each: the same ones every time."""
        room = min([self.table.row_ceiling - self.rows, *(each.row_ceiling - 1 for each in self.path)])
        rows = self._alone().dummy(min(count, room))[self.table.name]
        return self.identified(rows, np.arange(rows.num_rows))

    def target(self, others: pyarrow.Table, value: Any = None) -> pyarrow.Table:
        """Make up the target: rows like somebody else's, with an id of its own and this value of the secret column."""
        rows = others.take([0] * self.rows)
        if self.column is not None and value is not None:
            rows = with_column(rows, self.column, [value] * self.rows)
        return self.identified(rows, np.full(self.rows, others.num_rows))

    def identified(self, rows: pyarrow.Table, numbers: NDArray[np.int64]) -> pyarrow.Table:
        """Write whose the rows are, where the table says so or names the row of another that does."""
        return rows if self.table.every_row else with_column(rows, _link(self.table), (numbers + 1).tolist())

    def _alone(self) -> Policy:
        """Give the policy of this table alone, and of those that say whose its rows are."""
        needed = {each.name: each for each in (self.table, *self.path)}
        return replace(self.policy, tables=needed, analysts={}, path=None, per=None, ledger=None)

    @contextmanager
    def curator(self, rows: pyarrow.Table, account: Budget) -> Iterator[Curator]:
        """Open the policy over these rows, with an account that is thrown away."""
        link = None if self.table.every_row else _link(self.table)
        units = rows.num_rows if link is None else len(rows[link].unique())
        held = {self.table.name: rows, **self._owners(units)}
        alone = self._alone()
        staged = replace(
            alone,
            budget=account,
            tables={
                name: replace(alone.tables[name], source=InMemory(own), relation=None) for name, own in held.items()
            },
            size=units if self.policy.size is not None else None,
            account="invented people",
        )
        with thrown_away(staged) as opened:
            yield opened

    def _owners(self, units: int) -> dict[str, pyarrow.Table]:
        """Make up a row for each unit in every table through which owners are found, and name it as rows do."""
        invented = self._alone().dummy(units)
        found, child = {}, self.table
        for each in self.path:
            rows = invented[each.name]
            for name in dict.fromkeys((child.id.key, _link(each))):
                rows = with_column(rows, name, list(range(1, units + 1)))
            found[each.name], child = rows, each
        return found

    def known(self) -> dict[str, tuple[Any, ...]]:
        """Choose columns that an attacker knows of everybody, with their values: as many cells as there is room for."""
        found: dict[str, tuple[Any, ...]] = {}
        cells = 1
        for name, domain in self.table.columns.items():
            values = () if name in (self.column, _link(self.table)) else _listed(domain)
            if len(values) > 1 and cells * len(values) <= _MOST_CELLS:
                found[name] = values
                cells *= len(values)
        return found


def stages(policy: Policy, columns: Sequence[str] = ()) -> tuple[AttackedTable, ...]:
    """List what is attacked: every private table, with each of its columns that has two values or more, those whose
    values are listed first; or the ``columns`` that are named, as ``table.column`` or by their name alone, which may
    be that of several.
    """
    private = [each for each in policy.tables.values() if not each.public]
    pairs = [(table, name) for table in private for name in _secrets(policy, table)]
    if not columns:
        bare = [(table, None) for table in private if not _secrets(policy, table)]
        return tuple(AttackedTable(policy, table, name) for table, name in [*pairs, *bare])
    known = ", ".join(_written(table, name) for table, name in pairs[:20]) or "none of this policy"
    found: dict[tuple[str, str], AttackedTable] = {}
    for each in columns:
        named = [pair for pair in pairs if each in _names(*pair)]
        if not named:
            rule = f"a private column of two listed values or more, or with bounds: {known}"
            raise InvalidParameter("column", each, rule)
        found |= {(table.name, name): AttackedTable(policy, table, name) for table, name in named}
    return tuple(found.values())


def undeclared(policy: Policy) -> tuple[str, ...]:
    """Name the columns of private tables that are not attacked: lists, and those without two values or a range. What
    says whose a row is, itself or by the row of another table, is no secret.
    """
    left = [
        (each, {*_secrets(policy, each), *_links(policy, each)}) for each in policy.tables.values() if not each.public
    ]
    return tuple(_written(each, name) for each, but in left for name in (*each.columns, *each.lists) if name not in but)


def _written(table: Table, column: str | None) -> str:
    """Write a column with its table as SQL does: no two of a policy are written alike, whatever their names hold."""
    return ".".join(written_names.quoted(each) for each in (table.name, column) if each is not None)


def _names(table: Table, column: str) -> tuple[str, ...]:
    """List the ways in which somebody may name a column."""
    return column, f"{table.name}.{column}", _written(table, column)


def _secrets(policy: Policy, table: Table) -> list[str]:
    """List the columns of a table that a person could wish to hide, those with listed values first."""
    links = _links(policy, table)
    found = [name for name, domain in table.columns.items() if name not in links and len(_pair(domain)) == 2]
    return sorted(found, key=lambda name: not _listed(table.columns[name]))


def _links(policy: Policy, table: Table) -> set[str]:
    """List the columns that say whose a row is, or which row of this table others belong to."""
    others = [each.id for each in policy.tables.values() if isinstance(each.id, Via)]
    return {_link(table), *(each.key for each in others if each.via == table.name)}


def _link(table: Table) -> str:
    """Name the column that says whose a row is, itself or by the row of another table."""
    return table.id.on if isinstance(table.id, Via) else str(table.id)


def _pair(domain: Domain) -> tuple[Any, ...]:
    """Give two values of a column that differ most, as its rows hold them; fewer where it has not as many."""
    if listed := _listed(domain):
        return listed[:2]
    if domain.bounds is None or domain.bounds[0] == domain.bounds[1]:
        return ()
    return tuple(float(each) if isinstance(each, Fraction) else each for each in domain.bounds)


def _listed(domain: Domain) -> tuple[Any, ...]:
    """List the values of a column, where it has them."""
    if domain.values is None:
        return (False, True) if domain.type is Type.BOOLEAN else ()
    return tuple(float(each) if isinstance(each, Fraction) else each for each in domain.values)


def with_column(rows: pyarrow.Table, name: str, values: list[Any]) -> pyarrow.Table:
    """Write other values into a column of the same type."""
    import pyarrow

    place = rows.schema.get_field_index(name)
    own = rows.schema.field(place).type
    text = pyarrow.types.is_string(own) and not isinstance(values[0], str)
    made = pyarrow.array([str(each) for each in values] if text else values, own)
    return rows.set_column(place, name, made)


def quoted(name: str) -> str:
    """Write a name in SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class WholeSpending:
    """A spending is the whole of an account at once: as ε, or as ρ where that is given."""

    budget: Budget
    rho: Fraction | None = None
    accounts: int = 1
    """How many accounts pay as much each: two, where the secret decides which of them tells."""

    @property
    def price(self) -> dict[str, Any]:
        """Say how a release is called for at this price."""
        if self.rho is None:
            return {"epsilon": self.budget.epsilon}
        return {"rho": self.rho, "mechanism": "gaussian"}

    def __str__(self) -> str:
        paid = f"ε = {text(self.budget.epsilon)}" if self.rho is None else f"ρ = {float(self.rho):.3g}"
        return paid if self.accounts == 1 else f"{paid} of each of {self.accounts} accounts"

    def account(self, times: int) -> Budget:
        """Give an account that pays so many times over, in either currency.

        At one order r = ε + c, where δ decides c (``theorems.renyi_allowance``). Where δ is small c is below 0, and r
        grows by more than ε does. Where δ is large r is more than ε, and so many times r is an ε that pays for it.
        """
        own, divergence = self.budget, from_units(self.budget.allowances.renyi or 0)
        epsilon = times * max(own.epsilon, divergence)
        return Budget(epsilon, own.delta, reserve=own.reserve, order=own.order, neighbours=own.neighbours)

    def ceiling(self, *, replaced: bool) -> float:
        """Bound right guesses of a coin that decides whether a unit is there, or by which one it is ``replaced``.

        What is bought with ε is beneath what the whole account promises; ρ has a curve of its own, and no more than the
        account's promise. Where ε is so large that δ of two units is no probability, nothing is bounded. What several
        accounts tell at the same time adds up (Lyu 2022, Theorem 1.1; Vadhan & Zhang 2023).
        """
        own = self.budget
        promise = Guarantee(own.epsilon * self.accounts, own.delta * self.accounts)
        most = account_ceiling(promise, own.neighbours) if replaced else guess_ceiling(promise)
        if self.rho is None:
            return most
        curve = Curve.concentrated(self.rho * self.accounts, own.neighbours)
        return min(most, curve_ceiling(curve.for_neighbours(Neighbours.REPLACE) if replaced else curve))

    def lean(self, told: float, low: float, high: float) -> float:
        """Say which of two counts a noisy one speaks for: the log-likelihood ratio of the noise that is paid for, up to
        its scale.
        """
        if self.rho is None:
            return abs(told - low) - abs(told - high)
        return (told - (low + high) / 2) * (high - low)


def spendings(budget: Budget) -> Iterator[WholeSpending]:
    """List the ways to spend all of an account at once."""
    yield WholeSpending(budget)
    if budget.order is not None and budget.allowances.renyi:
        yield WholeSpending(budget, from_units(allowance_units(from_units(budget.allowances.renyi) / budget.order)))


Told = Mapping[tuple[Any, ...], float]
"""An answer: the count of each group, by the values of its keys."""
Ask = Callable[[Any, int], Iterator[Told]]
"""Who is asked so many times about the same rows."""

LEAST_RUNS, MOST_RUNS = 20, 10_000
_EVERYBODY = 50
"""People whose values are guessed at once, at most."""
_MOST_ROWS = 100_000
"""Rows of all of them together: where many rows of one count, they are fewer."""
_TWO_ACCOUNTS = "Two accounts pay where {} is guessed, since each period has its own: the ceiling is of both together."


@dataclass(frozen=True)
class PolicyAttack:
    """An attack on a policy says what was tried with its whole budget, what came of it, and what theory allows."""

    promise: Guarantee
    neighbours: Neighbours
    unit: str
    attempts: tuple[Attempt, ...]
    untried: tuple[str, ...] = ()
    """What there was no time for, in words."""
    undeclared: tuple[str, ...] = ()
    """The columns that cannot be attacked: lists, and those of which no two values and no range are declared."""

    @property
    def findings(self) -> Findings:
        """List all attempts as findings, exact and private side by side; what is exact in either currency, once."""
        listed: list[Finding] = []
        told: set[str] = set()
        for each in self.attempts:
            listed += [each.private] if each.exact.answers in told else [each.exact, each.private]
            told.add(each.exact.answers)
        return Findings("the whole budget on one target", tuple(listed), self._words())

    def _words(self) -> tuple[str, ...]:
        spent = " or all of ".join(dict.fromkeys(each.paid for each in self.attempts))
        left = f"There was no time for: {', '.join(self.untried)}." if self.untried else ""
        words = (
            f"An analyst who spends all of {spent} at once, and knows everything about everybody else.",
            "All people are invented: no data of the policy were read, and nothing was spent.",
            *dict.fromkeys(each.private.note for each in self.attempts),
            left,
            *undeclared_words(self.undeclared),
            *power_words(self.attempts),
        )
        return tuple(each for each in words if each)

    @property
    def holds(self) -> bool:
        """Tell whether every ceiling held."""
        return all(each.private.holds for each in self.attempts)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the share of right guesses of each attempt, exact and private, with theory's ceilings."""
        return self.findings.plot(path)

    def page(self) -> HtmlPage:
        """Write one web page about it, in words for people who do not ask in SQL."""
        from sfumato.attacks.policy_pages import policy_page

        return policy_page(
            self.promise, self.neighbours, self.unit, self.attempts, self.findings, self.untried, self.undeclared
        )

    def to_json(self) -> str:
        """Write the findings as JSON text."""
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
    """Try what an analyst with the whole budget of a policy could find out, on invented people, beside theory's most.

    The policy is all that is read: none of its sources is opened, and its ledger is not touched. ``column`` names the
    secret, such as ``"visits.ward"``, or several; without it, every column of every private table is attacked that
    declares two values or a range. After so many minutes no attempt is begun, and what was left is said.
    """
    many = whole(runs, "runs", at_least=1)
    if not LEAST_RUNS <= many <= MOST_RUNS:
        rule = f"between {LEAST_RUNS} and {MOST_RUNS:,}: fewer would show nothing"
        raise InvalidParameter("runs", runs, rule)
    until = time.monotonic() + 60 * float(exact(minutes, "minutes", POSITIVE))
    owned = policy if isinstance(policy, Policy) else read(Path(policy))
    named = (column,) if isinstance(column, str) else tuple(column or ())
    chosen = stages(owned, named)
    if not owned.account_budget.epsilon:
        raise InvalidPolicy(
            "an account with ε = 0 answers nothing, so there is nothing to attack",
            place="unit.budget.epsilon",
            fix="attack the policy with the budget that you would open it with",
        )
    attempts: list[Attempt] = []
    untried: list[str] = []
    for what, own, spent, attempt in _planned(chosen):
        if attempts and time.monotonic() >= until:
            untried.append(f"{what} with {spent}")
        else:
            attempts.append(attempt(own, spent, many))
    promise = Guarantee(owned.budget.epsilon, owned.budget.delta)
    left = () if named else undeclared(owned)
    return PolicyAttack(promise, owned.neighbours, str(owned.unit), tuple(attempts), tuple(untried), left)


Planned = tuple[str, AttackedTable, WholeSpending, Callable[[AttackedTable, WholeSpending, int], Attempt]]


def _planned(chosen: Sequence[AttackedTable]) -> list[Planned]:
    """List what is guessed, that which tells most first: presence where it is not public and a value of each table; all
    other values; the same in the other currency; and everybody's of each table where people can be told apart.
    """
    first = list({each.table.name: each for each in reversed(chosen)}.values())[::-1]
    owned = chosen[0].policy
    present = first if owned.neighbours is Neighbours.ADD_REMOVE else []
    columns = [each for each in chosen if each.column is not None]
    if not present and not columns:
        raise InvalidPolicy(
            "under replace neighbours a value is guessed, and no column of this policy lists two or has a range",
            place=f"tables.{chosen[0].table.name}.columns",
            fix='list the values of a column, such as { values = ["yes", "no"] }, in a copy of the policy',
        )
    early, late = [each for each in columns if each in first], [each for each in columns if each not in first]
    found: list[Planned] = []
    for spent in spendings(owned.account_budget):
        found += [(f"presence in {replace(each, column=None)}", each, spent, presence) for each in present]
        found += [(str(each), each, _of_accounts(each, spent), value) for each in (*early, *late)]
    apart = [each for each in early if each.listed and prod(map(len, each.known().values())) > 1]
    pure = WholeSpending(owned.account_budget)
    return found + [(f"everybody's {each}", each, _of_accounts(each, pure), everybody) for each in apart]


def _of_accounts(chosen: AttackedTable, spent: WholeSpending) -> WholeSpending:
    """Say how many accounts pay for what tells of a value: two, where it decides in which of them the target is."""
    return replace(spent, accounts=2) if chosen.moves else spent


def presence(chosen: AttackedTable, spent: WholeSpending, runs: int) -> Attempt:
    """Guess whether the target is in the table, from how many rows it has."""
    import pyarrow

    others = chosen.others()
    tables = (others, pyarrow.concat_tables([others, chosen.target(others)]))
    least, most = (each.num_rows for each in tables)
    question = f"SELECT COUNT(*) AS rows FROM {quoted(chosen.table.name)}"

    def guess(told: Told) -> bool:
        return spent.lean(told[()], least, most) > 0

    def counted(rows: pyarrow.Table) -> Told:
        return {(): rows.num_rows}

    asked = _AttackedQuestion(chosen, spent, question, counted)
    named = "presence", f"{replace(chosen, column=None)}, presence", "is in the table"
    return _attempt(asked, named, asked.right(tables, guess, runs), runs, replaced=False)


def value(chosen: AttackedTable, spent: WholeSpending, runs: int) -> Attempt:
    """Guess which of two values the target has, from how many rows have each."""
    import pyarrow

    others = chosen.others()
    pair, keys = chosen.values, chosen.keys
    tables = tuple(pyarrow.concat_tables([others, chosen.target(others, each)]) for each in pair)
    known = Counter(chosen.keyed(others))

    def guess(told: Told) -> bool:
        first, second = (spent.lean(told[each,], known[each], known[each] + chosen.rows) for each in keys)
        return second > first

    def counted(rows: pyarrow.Table) -> Told:
        return Counter((each,) for each in chosen.keyed(rows))

    asked = _AttackedQuestion(chosen, spent, _grouped(chosen, ()), counted)
    named = "value", str(chosen), f"has {chosen.column} = {pair[1]}, not {pair[0]}"
    return _attempt(asked, named, asked.right(tables, guess, runs), runs, replaced=True)


def everybody(chosen: AttackedTable, spent: WholeSpending, runs: int) -> Attempt:
    """Guess a value of many people at once, of whom all other values are known and no two are alike."""
    known = chosen.known()
    cells = list(islice(product(*known.values()), max(2, min(_EVERYBODY, _MOST_ROWS // chosen.rows))))
    rounds = -(-runs // len(cells))
    first, second = chosen.keys

    def counted(rows: pyarrow.Table) -> Told:
        return Counter(zip(*(rows[each].to_pylist() for each in known), chosen.keyed(rows), strict=True))

    asked = _AttackedQuestion(chosen, spent, _grouped(chosen, tuple(known)), counted)
    right = [0, 0]
    for _ in range(rounds):
        secrets = bits.all_below(2, len(cells))
        rows = _people(chosen, known, cells, secrets)
        for place, ask in enumerate((asked.exactly, asked.privately)):
            told = next(ask(rows, 1))
            leans = np.array([told[*cell, second] - told[*cell, first] for cell in cells])
            right[place] += int(((leans > 0) == secrets).sum())
    words = f"who of {len(cells)} people have {chosen.column} = {chosen.values[1]}, not {chosen.values[0]}"
    named = "everybody", f"{chosen}, everybody", words
    return _attempt(asked, named, right, rounds * len(cells), replaced=True)


def _people(
    chosen: AttackedTable, known: dict[str, tuple[Any, ...]], cells: list[tuple[Any, ...]], secrets: Any
) -> Any:
    """Make up one person for each cell of what is known, with the value that a coin chose in as many rows as count."""
    whose = np.repeat(np.arange(len(cells)), chosen.rows)
    rows: pyarrow.Table = chosen.others().take([0] * len(whose))
    for place, name in enumerate(known):
        rows = with_column(rows, name, [cells[each][place] for each in whose])
    rows = with_column(rows, str(chosen.column), [chosen.values[secrets[each]] for each in whose])
    return chosen.identified(rows, whose)


def _grouped(chosen: AttackedTable, columns: tuple[str, ...]) -> str:
    """Write the question that counts the rows of each group: of these columns, and of the secret's two values."""
    names = ", ".join([*map(quoted, columns), chosen.key])
    return f"SELECT {names}, COUNT(*) AS rows FROM {quoted(chosen.table.name)} GROUP BY {names}"


@dataclass(frozen=True)
class _AttackedQuestion:
    """This is a question, with who answers it exactly, by counting, and who answers it as the policy says."""

    stage: AttackedTable
    spent: WholeSpending
    question: str
    counted: Callable[[Any], Told]

    def exactly(self, rows: Any, times: int) -> Iterator[Told]:
        """Count the rows of an invented table."""
        counted = self.counted(rows)
        return (counted for _ in range(times))

    def privately(self, rows: Any, times: int) -> Iterator[Told]:
        """Buy so many answers, each for all of an account."""
        with self.stage.curator(rows, self.spent.account(times)) as curator:
            asked: Any = curator.sql(self.question)
            for _ in range(times):
                answer = asked.release(**self.spent.price, fresh=True)
                yield {row[:-1]: row[-1] for row in answer.rows}

    def right(self, tables: Any, guess: Callable[[Told], bool], runs: int) -> list[int]:
        """Count right guesses from exact answers, and from private ones."""
        return [_right(ask, tables, guess, runs) for ask in (self.exactly, self.privately)]


def _right(ask: Ask, tables: Any, guess: Callable[[Told], bool], runs: int) -> int:
    """Toss a coin for each run, ask the table that it chooses, and count right guesses."""
    heads = int(bits.all_below(2, runs).sum())
    return sum(
        guess(told) == bool(side)
        for side, times in enumerate((runs - heads, heads))
        if times
        for told in ask(tables[side], times)
    )


def _attempt(
    asked: _AttackedQuestion, named: tuple[str, str, str], right: list[int], trials: int, *, replaced: bool
) -> Attempt:
    """Put what came of exact and of private answers side by side."""
    kind, title, words = named
    where = str(asked.stage if replaced else replace(asked.stage, column=None))
    ceiling = asked.spent.ceiling(replaced=replaced)
    note = _TWO_ACCOUNTS.format(where) if asked.spent.accounts > 1 else ""
    return Attempt(
        where,
        words,
        str(asked.spent),
        asked.question,
        Finding(kind, f"{title}, exact", right[0], trials, 0.5, None, 1),
        Finding(kind, f"{title}, {asked.spent}", right[1], trials, 0.5, ceiling, 1, note),
    )
