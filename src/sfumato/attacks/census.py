"""Census reconstruction: infer people's ancestry from the small tables published for their block.

Every published count is a linear equation in the cells of the block's full table. The attack fits the full table, then
looks up each person, whose block, sex and age are known from elsewhere, to read off the secret column, here their
ancestry (Garfinkel, Abowd & Martindale 2019; Dick et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import even_share, temporary_curator
from sfumato.attacks.ceilings import guess_ceiling, replacement_guarantee
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.reconstruction import least_deviations
from sfumato.mechanisms import bits
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

NAME = "census"
SHAPE = (2, 10, 4)
"""The numbers of sexes, age decades and ancestries; the ancestry is secret."""
TABLES = ((0, 1), (0, 2), (1, 2))
"""The tables published per block: by sex and age, by sex and ancestry, by age and ancestry."""
_CELL_COST = 0.01
"""The cost of a person in a cell, relative to an error of one in a published count."""
_COLUMNS = ("sex", "age", "ancestry")

Reals = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Census:
    """Simulated people: the block of each, and their sex, age and ancestry."""

    blocks: int
    block: Places
    cells: Places
    """A row per person: sex, age decade, ancestry."""

    def counts(self) -> Reals:
        """Return the exact count of every cell of every block."""
        full = np.zeros((self.blocks, *SHAPE))
        np.add.at(full, (self.block, *self.cells.T), 1)
        return full

    def published(self) -> Reals:
        """Return all published counts, exactly; a row per block."""
        return self.counts().reshape(self.blocks, -1) @ count_matrix().T


def random_census(blocks: int, people: int) -> Census:
    """Draw blocks of simulated people with independent uniform attributes."""
    block_count, block_size = exact_integer(blocks, "blocks", at_least=1), exact_integer(people, "people", at_least=1)
    cells = np.column_stack([bits.random_array_below(values, block_count * block_size) for values in SHAPE])
    return Census(block_count, np.repeat(np.arange(block_count), block_size), cells)


def count_matrix() -> Reals:
    """Return which cells each published count sums: a row per count, a column per cell."""
    coordinates = np.indices(SHAPE).reshape(len(SHAPE), -1)
    rows = []
    for first_axis, second_axis in TABLES:
        key = coordinates[first_axis] * SHAPE[second_axis] + coordinates[second_axis]
        rows.append(key[None, :] == np.arange(SHAPE[first_axis] * SHAPE[second_axis])[:, None])
    return np.concatenate(rows).astype(np.float64)


def fit_block_tables(published: Reals) -> Reals:
    """Fit the full table of every block to the published counts; withheld ones are NaN and ignored.

    Of equally good fits, the one with the fewest people is chosen.
    """
    matrix = count_matrix()
    full = np.empty((len(published), matrix.shape[1]))
    for block, counts in enumerate(published):
        is_published = ~np.isnan(counts)
        largest_count = max(1.0, float(np.max(counts[is_published], initial=0.0)))
        full[block] = least_deviations(matrix[is_published], counts[is_published], largest_count, cost=_CELL_COST)
    return full.reshape(len(published), *SHAPE)


def guess_ancestries(published: Reals, census: Census) -> Places:
    """Guess every person's ancestry from the published counts and their block, sex and age."""
    full = fit_block_tables(published)
    sex, age, _ = census.cells.T
    coins = bits.random_array_below(1 << 20, full.shape[-1] * len(census.block)).reshape(len(census.block), -1) / (
        1 << 40
    )
    return np.argmax(full[census.block, sex, age] + coins, axis=1)


def census(
    blocks: int = 40,
    people: int = 8,
    epsilon: Number = 1,
    *,
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Findings:
    """Guess the ancestry of simulated people from small tables of their blocks, published in several ways.

    The private tables are released by a real curator for ε in all, a third for each.
    """
    people_drawn = random_census(blocks, people)
    exact_counts = people_drawn.published()
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    promise = replacement_guarantee(Guarantee(price), relation)
    ceiling = guess_ceiling(promise, f"1/{SHAPE[-1]}", SHAPE[-1])
    kinds: tuple[tuple[str, Callable[[Reals], Reals]], ...] = (
        ("exact", lambda counts: counts),
        ("rounded to 3s", lambda counts: 3 * np.floor(counts / 3 + 0.5)),
        ("below 3 withheld", lambda counts: np.where(counts < 3, np.nan, counts)),
    )
    findings = [_census_finding(name, coarsen(exact_counts), people_drawn) for name, coarsen in kinds]
    private_counts = release_tables(people_drawn, Budget(price, neighbours=relation))
    findings.append(_census_finding(f"private, ε = {format_exact(price)}", private_counts, people_drawn, ceiling))
    words = (
        f"Three small tables of each of {blocks} blocks with {people} people are published; whoever knows a person's "
        "block, sex and age looks up the ancestry in the table that fits.",
    )
    return Findings(NAME, tuple(findings), words)


def release_tables(people: Census, budget: Budget) -> Reals:
    """Release all published counts by a real curator with a temporary account, for its whole budget."""
    columns = dict(zip(_COLUMNS, people.cells.T, strict=True))
    declared = {
        name: {"type": "integer", "values": list(range(size))} for name, size in zip(_COLUMNS, SHAPE, strict=True)
    }
    declared["block"] = {"type": "integer", "values": list(range(people.blocks))}
    tables, price_per_table = [], even_share(budget.epsilon, len(TABLES))
    with temporary_curator({"block": people.block, **columns}, declared, budget) as curator:
        for first_axis, second_axis in TABLES:
            keys = f"block, {_COLUMNS[first_axis]}, {_COLUMNS[second_axis]}"
            query: Any = curator.sql(f"SELECT {keys}, COUNT(*) AS n FROM people GROUP BY {keys} ORDER BY {keys}")
            rows = query.release(epsilon=price_per_table).rows
            tables.append(np.array([row[-1] for row in rows], np.float64).reshape(people.blocks, -1))
    return np.concatenate(tables, axis=1)


def _census_finding(answers: str, published: Reals, people: Census, ceiling: float | None = None) -> Finding:
    is_correct = guess_ancestries(published, people) == people.cells[:, -1]
    answer_count = int((~np.isnan(published)).sum())
    return Finding(NAME, answers, int(is_correct.sum()), is_correct.size, 1 / SHAPE[-1], ceiling, answer_count)
