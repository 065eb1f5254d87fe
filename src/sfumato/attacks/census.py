"""A census tells many small tables of every block, and together they tell who lives there.

Every published count is a linear equation about the cells of the block's full table. The attack finds the full table
that fits best, and then looks up each person, whose block, sex and age are known from elsewhere, to read off what the
tables were not to tell: here their ancestry (Garfinkel, Abowd & Martindale 2019; Dick et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import even_share, thrown_away
from sfumato.attacks.ceilings import for_replacing, guess_ceiling
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.fitting import least_deviations
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, text, whole

NAME = "census"
SHAPE = (2, 10, 4)
"""Sexes, decades of age, and ancestries, of which the last is secret."""
TABLES = ((0, 1), (0, 2), (1, 2))
"""The tables that are published of every block: by sex and age, by sex and ancestry, by age and ancestry."""
_EMPTY = 0.01
"""How much less one person too many in a cell weighs than one in a published count."""
_COLUMNS = ("sex", "age", "ancestry")

Reals = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Census:
    """A census lists people: the block of each, and their sex, age and ancestry."""

    blocks: int
    block: Places
    cells: Places
    """One row for each person: sex, decade of age, ancestry."""

    def counts(self) -> Reals:
        """Count the people in every cell of every block, exactly."""
        full = np.zeros((self.blocks, *SHAPE))
        np.add.at(full, (self.block, *self.cells.T), 1)
        return full

    def published(self) -> Reals:
        """Give all published counts, exactly: a row for each block."""
        return self.counts().reshape(self.blocks, -1) @ equations().T


def invented_census(blocks: int, people: int) -> Census:
    """Draw so many blocks of so many people each; everything about them is drawn uniformly and alone."""
    many, size = whole(blocks, "blocks", at_least=1), whole(people, "people", at_least=1)
    cells = np.column_stack([bits.all_below(values, many * size) for values in SHAPE])
    return Census(many, np.repeat(np.arange(many), size), cells)


def equations() -> Reals:
    """Say which cells each published count adds up: a row for each count, a column for each cell."""
    places = np.indices(SHAPE).reshape(len(SHAPE), -1)
    rows = []
    for one, other in TABLES:
        key = places[one] * SHAPE[other] + places[other]
        rows.append(key[None, :] == np.arange(SHAPE[one] * SHAPE[other])[:, None])
    return np.concatenate(rows).astype(np.float64)


def fitted_blocks(published: Reals) -> Reals:
    """Find the full table of every block that fits the published counts best; what is withheld is no number, and left
    out. Of tables that fit alike the emptiest is taken: nobody is where no count says so.
    """
    matrix = equations()
    full = np.empty((len(published), matrix.shape[1]))
    for place, told in enumerate(published):
        known = ~np.isnan(told)
        most = max(1.0, float(np.max(told[known], initial=0.0)))
        full[place] = least_deviations(matrix[known], told[known], most, cost=_EMPTY)
    return full.reshape(len(published), *SHAPE)


def guessed_ancestries(published: Reals, census: Census) -> Places:
    """Guess the ancestry of every person from the published counts and their block, sex and age."""
    full = fitted_blocks(published)
    sex, age, _ = census.cells.T
    coins = bits.all_below(1 << 20, full.shape[-1] * len(census.block)).reshape(len(census.block), -1) / (1 << 40)
    return np.argmax(full[census.block, sex, age] + coins, axis=1)


def census(
    blocks: int = 40,
    people: int = 8,
    epsilon: Number = 1,
    *,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Findings:
    """Guess the ancestry of invented people from small tables of their blocks, published in several ways.

    The private tables are bought from a real curator for ε in all, a third for each.
    """
    invented = invented_census(blocks, people)
    exact_counts = invented.published()
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    promise = for_replacing(Guarantee(price), relation)
    ceiling = guess_ceiling(promise, f"1/{SHAPE[-1]}", SHAPE[-1])
    kinds: tuple[tuple[str, Callable[[Reals], Reals]], ...] = (
        ("exact", lambda counts: counts),
        ("rounded to 3s", lambda counts: 3 * np.floor(counts / 3 + 0.5)),
        ("below 3 withheld", lambda counts: np.where(counts < 3, np.nan, counts)),
    )
    findings = [_found(name, how(exact_counts), invented) for name, how in kinds]
    bought = private_tables(invented, Budget(price, neighbours=relation))
    findings.append(_found(f"private, ε = {text(price)}", bought, invented, ceiling))
    words = (
        f"Three small tables of each of {blocks} blocks with {people} people are published; who knows a person's "
        "block, sex and age looks up the ancestry in the table that fits.",
    )
    return Findings(NAME, tuple(findings), words)


def private_tables(people: Census, budget: Budget) -> Reals:
    """Buy all published counts from a real curator, whose account is thrown away, for its whole budget."""
    places = dict(zip(_COLUMNS, people.cells.T, strict=True))
    declared = {
        name: {"type": "integer", "values": list(range(most))} for name, most in zip(_COLUMNS, SHAPE, strict=True)
    }
    declared["block"] = {"type": "integer", "values": list(range(people.blocks))}
    told, each = [], even_share(budget.epsilon, len(TABLES))
    with thrown_away({"block": people.block, **places}, declared, budget) as curator:
        for one, other in TABLES:
            keys = f"block, {_COLUMNS[one]}, {_COLUMNS[other]}"
            asked: Any = curator.sql(f"SELECT {keys}, COUNT(*) AS n FROM people GROUP BY {keys} ORDER BY {keys}")
            rows = asked.release(epsilon=each).rows
            told.append(np.array([row[-1] for row in rows], np.float64).reshape(people.blocks, -1))
    return np.concatenate(told, axis=1)


def _found(answers: str, published: Reals, people: Census, ceiling: float | None = None) -> Finding:
    right = guessed_ancestries(published, people) == people.cells[:, -1]
    known = int((~np.isnan(published)).sum())
    return Finding(NAME, answers, int(right.sum()), right.size, 1 / SHAPE[-1], ceiling, known)
