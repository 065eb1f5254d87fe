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
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.attempts import Attempt, power_words, undeclared_words
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.staged_policies import Stage, quoted, stages, undeclared, with_column
from sfumato.attacks.whole_budgets import Spending, spendings
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.mechanisms import bits
from sfumato.plots.picture import Picture
from sfumato.policy import Policy, read
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, whole

if TYPE_CHECKING:
    import pyarrow

    from sfumato.release.answers.web_pages import Page

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

    def page(self) -> Page:
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


Planned = tuple[str, Stage, Spending, Callable[[Stage, Spending, int], Attempt]]


def _planned(chosen: Sequence[Stage]) -> list[Planned]:
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
    pure = Spending(owned.account_budget)
    return found + [(f"everybody's {each}", each, _of_accounts(each, pure), everybody) for each in apart]


def _of_accounts(chosen: Stage, spent: Spending) -> Spending:
    """Say how many accounts pay for what tells of a value: two, where it decides in which of them the target is."""
    return replace(spent, accounts=2) if chosen.moves else spent


def presence(chosen: Stage, spent: Spending, runs: int) -> Attempt:
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

    asked = _Asked(chosen, spent, question, counted)
    named = "presence", f"{replace(chosen, column=None)}, presence", "is in the table"
    return _attempt(asked, named, asked.right(tables, guess, runs), runs, replaced=False)


def value(chosen: Stage, spent: Spending, runs: int) -> Attempt:
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

    asked = _Asked(chosen, spent, _grouped(chosen, ()), counted)
    named = "value", str(chosen), f"has {chosen.column} = {pair[1]}, not {pair[0]}"
    return _attempt(asked, named, asked.right(tables, guess, runs), runs, replaced=True)


def everybody(chosen: Stage, spent: Spending, runs: int) -> Attempt:
    """Guess a value of many people at once, of whom all other values are known and no two are alike."""
    known = chosen.known()
    cells = list(islice(product(*known.values()), max(2, min(_EVERYBODY, _MOST_ROWS // chosen.rows))))
    rounds = -(-runs // len(cells))
    first, second = chosen.keys

    def counted(rows: pyarrow.Table) -> Told:
        return Counter(zip(*(rows[each].to_pylist() for each in known), chosen.keyed(rows), strict=True))

    asked = _Asked(chosen, spent, _grouped(chosen, tuple(known)), counted)
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


def _people(chosen: Stage, known: dict[str, tuple[Any, ...]], cells: list[tuple[Any, ...]], secrets: Any) -> Any:
    """Make up one person for each cell of what is known, with the value that a coin chose in as many rows as count."""
    whose = np.repeat(np.arange(len(cells)), chosen.rows)
    rows: pyarrow.Table = chosen.others().take([0] * len(whose))
    for place, name in enumerate(known):
        rows = with_column(rows, name, [cells[each][place] for each in whose])
    rows = with_column(rows, str(chosen.column), [chosen.values[secrets[each]] for each in whose])
    return chosen.identified(rows, whose)


def _grouped(chosen: Stage, columns: tuple[str, ...]) -> str:
    """Write the question that counts the rows of each group: of these columns, and of the secret's two values."""
    names = ", ".join([*map(quoted, columns), chosen.key])
    return f"SELECT {names}, COUNT(*) AS rows FROM {quoted(chosen.table.name)} GROUP BY {names}"


@dataclass(frozen=True)
class _Asked:
    """This is a question, with who answers it exactly, by counting, and who answers it as the policy says."""

    stage: Stage
    spent: Spending
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


def _attempt(asked: _Asked, named: tuple[str, str, str], right: list[int], trials: int, *, replaced: bool) -> Attempt:
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
