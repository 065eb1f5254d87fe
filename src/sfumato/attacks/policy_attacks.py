"""A policy is attacked with its whole budget: what an analyst could find out at most, tried out and by theory.

Every attempt is a game of coins. A coin decides one thing about an invented target: whether they are in the table, or
which of two values they have. The attacker knows everybody else's rows, spends the whole ε on the question that tells
most, and guesses. Under a guarantee of (ε, δ) for the change that the coin makes, a guess is right with probability at
most (e^ε + δ)/(1 + e^ε) (``attacks.ceilings``): presence is one unit added or removed, a value is one unit replaced.
Runs are independent, so right guesses pass the limit of a binomial with that chance as rarely as it is said.

With the price spent at once, noise is as small as this policy ever allows: ε bounds what all questions together tell,
however they are shared out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.attacks.attempts import Attempt
from sfumato.attacks.ceilings import for_replacing, guess_ceiling
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.staged_policies import Stage, quoted, stage, with_column
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.mechanisms import bits
from sfumato.plots.picture import Picture
from sfumato.policy import Policy, read
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import text, whole

if TYPE_CHECKING:
    import pyarrow

    from sfumato.release.web_pages import Page

Told = Mapping[tuple[Any, ...], float]
"""An answer: the count of each group, by the values of its keys."""
Ask = Callable[[Any, int], Iterator[Told]]
"""Who is asked so many times about the same rows."""

LEAST_RUNS, MOST_RUNS = 20, 10_000
_EVERYBODY = 50
"""People whose values are guessed at once, at most."""
_MOST_ROWS = 100_000
"""Rows of all of them together: where many rows of one count, they are fewer."""


@dataclass(frozen=True)
class PolicyAttack:
    """An attack on a policy says what was tried with its whole budget, what came of it, and what theory allows."""

    promise: Guarantee
    neighbours: Neighbours
    unit: str
    attempts: tuple[Attempt, ...]

    @property
    def findings(self) -> Findings:
        """List all attempts as findings, exact and private side by side."""
        each_kind = tuple(finding for each in self.attempts for finding in (each.exact, each.private))
        return Findings("the whole budget on one target", each_kind, self._words())

    def _words(self) -> tuple[str, ...]:
        return (
            f"An analyst who spends all of ε = {text(self.promise.epsilon)} at once, and knows everything about "
            "everybody else.",
            "All people are invented: no data of the policy were read, and nothing was spent.",
        )

    @property
    def holds(self) -> bool:
        """Tell whether every ceiling held."""
        return self.findings.holds

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the share of right guesses of each attempt, exact and private, with theory's ceilings."""
        return self.findings.plot(path)

    def page(self) -> Page:
        """Write one web page about it, in words for people who do not ask in SQL."""
        from sfumato.attacks.policy_pages import policy_page

        return policy_page(self.promise, self.neighbours, self.unit, self.attempts, self.findings)

    def to_json(self) -> str:
        """Write the findings as JSON text."""
        return self.findings.to_json()

    def __str__(self) -> str:
        return str(self.findings)

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()


def policy(policy: Policy | str | os.PathLike[str], *, column: str | None = None, runs: int = 100) -> PolicyAttack:
    """Try what an analyst with the whole budget of a policy could find out, on invented people, beside theory's most.

    The policy is all that is read: none of its sources is opened, and its ledger is not touched. ``column`` names the
    secret, such as ``"visits.ward"``; without it, it is the first column whose values are listed.
    """
    many = whole(runs, "runs", at_least=1)
    if not LEAST_RUNS <= many <= MOST_RUNS:
        rule = f"between {LEAST_RUNS} and {MOST_RUNS:,}: fewer would show nothing"
        raise InvalidParameter("runs", runs, rule)
    owned = policy if isinstance(policy, Policy) else read(Path(policy))
    chosen = stage(owned, column)
    if not chosen.epsilon:
        raise InvalidPolicy(
            "an account with ε = 0 answers nothing, so there is nothing to attack",
            place="unit.budget.epsilon",
            fix="attack the policy with the budget that you would open it with",
        )
    attempts = tuple(attempt(chosen, many) for attempt in _attempts(chosen))
    promise = Guarantee(owned.budget.epsilon, owned.budget.delta)
    return PolicyAttack(promise, owned.neighbours, str(owned.unit), attempts)


def _attempts(chosen: Stage) -> Iterator[Callable[[Stage, int], Attempt]]:
    """List what can be guessed: presence where it is not public, a value, and everybody's where they can be told
    apart.
    """
    if chosen.policy.neighbours is Neighbours.ADD_REMOVE:
        yield presence
    if chosen.column is not None:
        yield value
        if prod(map(len, chosen.known().values())) > 1:
            yield everybody
    elif chosen.policy.neighbours is Neighbours.REPLACE:
        raise InvalidPolicy(
            "under replace neighbours a listed value is guessed, and this policy lists none",
            place=f"tables.{chosen.table.name}.columns",
            fix='list the values of a column, such as { values = ["yes", "no"] }, in a copy of the policy',
        )


def presence(chosen: Stage, runs: int) -> Attempt:
    """Guess whether the target is in the table, from how many rows it has."""
    import pyarrow

    others = chosen.others()
    tables = (others, pyarrow.concat_tables([others, chosen.target(others)]))
    least, most = (each.num_rows for each in tables)
    question = f"SELECT COUNT(*) AS rows FROM {quoted(chosen.table.name)}"

    def guess(told: Told) -> bool:
        return _lean(told[()], least, most) > 0

    ceiling = guess_ceiling(Guarantee(chosen.policy.budget.epsilon, chosen.policy.budget.delta))
    right = [_right(ask, tables, guess, runs) for ask in _askers(chosen, question, ())]
    return _attempt(chosen, ("presence", "is in the table"), question, right, runs, ceiling)


def value(chosen: Stage, runs: int) -> Attempt:
    """Guess which of two values the target has, from how many rows have each."""
    import pyarrow

    others = chosen.others()
    column, pair = str(chosen.column), chosen.values
    tables = tuple(pyarrow.concat_tables([others, chosen.target(others, each)]) for each in pair)
    question = _grouped(chosen, (column,))
    known = others[column].to_pylist()
    low = [known.count(each) for each in pair]

    def guess(told: Told) -> bool:
        first, second = (_lean(told[each,], own, own + chosen.rows) for each, own in zip(pair, low, strict=True))
        return second > first

    right = [_right(ask, tables, guess, runs) for ask in _askers(chosen, question, (column,))]
    words = f"has {column} = {pair[1]}, not {pair[0]}"
    return _attempt(chosen, ("value", words), question, right, runs, _value_ceiling(chosen))


def everybody(chosen: Stage, runs: int) -> Attempt:
    """Guess a value of many people at once, of whom all other values are known and no two are alike."""
    known = chosen.known()
    cells = list(islice(product(*known.values()), max(2, min(_EVERYBODY, _MOST_ROWS // chosen.rows))))
    columns = (*known, str(chosen.column))
    question = _grouped(chosen, columns)
    rounds = -(-runs // len(cells))
    right = [0, 0]
    for _ in range(rounds):
        secrets = bits.all_below(2, len(cells))
        rows = _people(chosen, known, cells, secrets)
        for place, ask in enumerate(_askers(chosen, question, columns)):
            told = next(ask(rows, 1))
            leans = np.array([told[*cell, chosen.values[1]] - told[*cell, chosen.values[0]] for cell in cells])
            right[place] += int(((leans > 0) == secrets).sum())
    words = f"who of {len(cells)} people have {chosen.column} = {chosen.values[1]}, not {chosen.values[0]}"
    return _attempt(chosen, ("everybody", words), question, right, rounds * len(cells), _value_ceiling(chosen))


def _people(chosen: Stage, known: dict[str, tuple[Any, ...]], cells: list[tuple[Any, ...]], secrets: Any) -> Any:
    """Make up one person for each cell of what is known, with the value that a coin chose in as many rows as count."""
    whose = np.repeat(np.arange(len(cells)), chosen.rows)
    rows: pyarrow.Table = chosen.others().take([0] * len(whose))
    for place, name in enumerate(known):
        rows = with_column(rows, name, [cells[each][place] for each in whose])
    rows = with_column(rows, str(chosen.column), [chosen.values[secrets[each]] for each in whose])
    return chosen.identified(rows, whose)


def _grouped(chosen: Stage, columns: tuple[str, ...]) -> str:
    names = ", ".join(map(quoted, columns))
    return f"SELECT {names}, COUNT(*) AS rows FROM {quoted(chosen.table.name)} GROUP BY {names}"


def _askers(chosen: Stage, question: str, columns: tuple[str, ...]) -> tuple[Ask, Ask]:
    """Give who answers exactly, by counting, and who answers as the policy says."""

    def exactly(rows: Any, times: int) -> Iterator[Told]:
        seen = zip(*(rows[each].to_pylist() for each in columns), strict=True) if columns else [()] * rows.num_rows
        counted = Counter(seen)
        return (counted for _ in range(times))

    def privately(rows: Any, times: int) -> Iterator[Told]:
        with chosen.curator(rows, times) as curator:
            asked: Any = curator.sql(question)
            for _ in range(times):
                answer = asked.release(epsilon=chosen.epsilon, fresh=True)
                yield {row[:-1]: row[-1] for row in answer.rows}

    return exactly, privately


def _right(ask: Ask, tables: Any, guess: Callable[[Told], bool], runs: int) -> int:
    """Toss a coin for each run, ask the table that it chooses, and count right guesses."""
    heads = int(bits.all_below(2, runs).sum())
    return sum(
        guess(told) == bool(side)
        for side, times in enumerate((runs - heads, heads))
        if times
        for told in ask(tables[side], times)
    )


def _lean(told: float, low: float, high: float) -> float:
    """Say which of two counts a noisy one speaks for: the log-likelihood ratio of Laplace noise, up to its scale."""
    return abs(told - low) - abs(told - high)


def _value_ceiling(chosen: Stage) -> float:
    """Bound right guesses of a value; where ε is so large that δ of two units is no probability, by nothing."""
    budget = chosen.policy.budget
    try:
        return guess_ceiling(for_replacing(Guarantee(budget.epsilon, budget.delta), budget.neighbours))
    except InvalidParameter:
        return 1.0


def _attempt(
    chosen: Stage, name: tuple[str, str], question: str, right: list[int], trials: int, ceiling: float
) -> Attempt:
    """Put what came of exact and of private answers side by side."""
    short, words = name
    budget = f"ε = {text(chosen.policy.budget.epsilon)}"
    return Attempt(
        words,
        question,
        Finding(short, f"{short}, exact", right[0], trials, 0.5, None, 1),
        Finding(short, f"{short}, {budget}", right[1], trials, 0.5, ceiling, 1),
    )
