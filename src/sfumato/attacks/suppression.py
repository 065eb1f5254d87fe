"""Suppression is to withhold the small cells of a published table, and second cells so that no total tells them.

A cell that is withheld alone is what its row has more than the other cells (``differencing``). So offices withhold
more: here, with every small cell, three others, so that the four are the corners of a rectangle. Adding one to two
opposite corners and taking one from the other two changes no total, so nothing that this table tells determines any of
the four (Cox 1980). What is left is an interval: counts are not negative and no larger than their cells, and every
total limits its parts by what is known of the others (Buzzigoli & Giusti 1999).

But second cells are chosen for one table. Another table of the same people, with other rows or columns, tells sums of
cells that the first one withheld or told, and chooses its own second cells: put together they tell the small one again.
Whoever wants to withhold it for good must look at all tables together, those of others and those to come included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import Groups, Sums, Values, even_share, invented_bits, thrown_away, totals
from sfumato.attacks.ceilings import for_replacing, guess_ceiling
from sfumato.attacks.differencing import CrossTable, checked_target, guessed_bits, laid_out, put_together
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, text, whole

NAME = "suppression"
_STREETS, _AGES, _CELL = 4, 4, 20
_LEAST = 5
_COLUMNS = (("street", "age"), ("street", "ages"), ("streets", "age"))
"""What the tables are by: streets and ages; then two ages in one; then two streets in one."""


def suppression(
    towns: int = 400, epsilon: Number = 1, *, neighbours: Neighbours | str = Neighbours.REPLACE
) -> Findings:
    """Guess one person's bit in each of many invented towns from tables whose small cells are withheld: alone, with
    second cells, and with second cells in two and three tables; and from the same tables of a real curator, which are
    bought for ε in all, a third for each.
    """
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    tables = linked_tables(_STREETS, _AGES, _CELL)
    secret = invented_bits(len(tables[0].rows), whole(towns, "towns", at_least=1))
    listed = [_withheld(f"below {_LEAST} withheld, 1 table", tables[:1], secret, second=False)]
    for many in range(1, len(tables) + 1):
        count = f"{many} table{'s' if many > 1 else ''}"
        listed.append(_withheld(f"second cells too, {count}", tables[:many], secret, second=True))
    ceiling = guess_ceiling(for_replacing(Guarantee(price), relation))
    bought = private_tables(tables, secret, Budget(price, neighbours=relation))
    groups = np.concatenate([_cells(each) for each in tables])
    name = f"private, ε = {text(price)}, {len(tables)} tables"
    listed.append(_finding(name, put_together(bought, groups, 0), secret, len(groups), ceiling))
    words = (
        "Bob is alone in a cell of a table by street and age; whether he smokes is secret. Cells below 5 are withheld, "
        "and with each of them three others that are the corners of a rectangle.",
        "2 tables: another has ages in twos. 3 tables: one more has streets in twos.",
    )
    return Findings(NAME, tuple(listed), words)


def linked_tables(streets: int, ages: int, size: int) -> tuple[CrossTable, ...]:
    """Put people into streets and ages, and give three tables of them: with all ages, with two ages in one, and with
    two streets in one. The first person is alone in the first cell.
    """
    fine = laid_out(streets, ages, size)
    return fine, CrossTable(fine.rows, fine.columns // 2), CrossTable(fine.rows // 2, fine.columns)


def suppressed_table(table: CrossTable, values: Any, least: int = _LEAST, *, second: bool = True) -> Sums:
    """Tell all totals of a table, in the order of its groups, for every town; cells below ``least`` are withheld, and
    with ``second`` those cells, too, that they could be found by. What is withheld is not a number.
    """
    secret = np.asarray(values, np.int64)
    if len(secret) != len(table.rows):
        raise InvalidParameter("values", secret.shape, f"one for each of the table's {len(table.rows)} people")
    told = totals(table.groups(), secret.reshape(len(secret), -1))
    high, wide = table.shape
    cells = told[: high * wide].reshape(high, wide, -1)
    hidden = cells < whole(least, "least", at_least=2)
    if second:
        hidden = np.stack([with_second_cells(*each) for each in zip(cells.T, hidden.T, strict=True)]).T
    told[: high * wide] = np.where(hidden, np.nan, cells).reshape(high * wide, -1)
    return told.reshape(-1, *secret.shape[1:])


def with_second_cells(cells: Sums, small: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Choose what is withheld: every small cell, and three others with which it makes a rectangle, those that have
    least in them of what is not withheld already. A table with one row or column has no rectangle, and is withheld
    altogether.
    """
    hidden = small.copy()
    if min(cells.shape) < 2:
        return np.full(cells.shape, bool(small.any()))
    for row, column in np.argwhere(small):
        shown = np.where(hidden, 0.0, cells)
        cost = shown[row] + shown[:, [column]] + shown
        cost[row], cost[:, column] = np.inf, np.inf
        across, along = np.unravel_index(np.argmin(cost), cost.shape)
        hidden[[row, across, across], [along, column, along]] = True
    return hidden


def cell_bounds(told: Sums, groups: Groups, target: int) -> tuple[int, int]:
    """Bound the total of all who are in the same groups as one person, from the totals of one town: the interval that
    is left when every total has limited its parts by what is known of the others, again and again.
    """
    place = checked_target(target, groups.shape[1])
    kinds, which, sizes = np.unique(groups, axis=1, return_inverse=True, return_counts=True)
    known = ~np.isnan(told)
    low, high = np.zeros(len(sizes)), sizes.astype(np.float64)
    room = np.inf
    while (high - low).sum() < room:
        room = (high - low).sum()
        for part, total in zip(kinds[known], told[known], strict=True):
            high[part] = np.minimum(high[part], total - low[part].sum() + low[part])
            low[part] = np.maximum(low[part], total - high[part].sum() + high[part])
    own = which.ravel()[place]
    return int(low[own]), int(high[own])


def private_tables(tables: Sequence[CrossTable], secret: Values, budget: Budget) -> Sums:
    """Buy the cells of all three tables of all towns from a real curator, whose account is thrown away, for its whole
    budget: one question for each table.
    """
    people, towns = secret.shape
    places = dict(zip(_COLUMNS[0], (tables[0].rows, tables[0].columns), strict=True))
    places |= {"ages": tables[1].columns, "streets": tables[2].rows}
    columns = {name: np.repeat(place, towns) for name, place in places.items()}
    columns |= {"town": np.tile(np.arange(towns), people)}
    declared: dict[str, Any] = {
        name: {"type": "integer", "values": list(range(int(each.max()) + 1))} for name, each in columns.items()
    }
    columns |= {"smokes": secret.ravel()}
    declared["smokes"] = {"type": "integer", "bounds": (0, 1)}
    told, each = [], even_share(budget.epsilon, len(_COLUMNS))
    with thrown_away(columns, declared, budget) as curator:
        for row, column in _COLUMNS:
            keys = f"town, {row}, {column}"
            asked: Any = curator.sql(f"SELECT {keys}, SUM(smokes) AS n FROM people GROUP BY {keys} ORDER BY {keys}")
            rows = asked.release(epsilon=each).rows
            told.append(np.array([own[-1] for own in rows], np.float64).reshape(towns, -1).T)
    return np.concatenate(told)


def _cells(table: CrossTable) -> Groups:
    high, wide = table.shape
    return table.groups()[: high * wide]


def _withheld(name: str, tables: Sequence[CrossTable], secret: Values, *, second: bool) -> Finding:
    told = np.concatenate([suppressed_table(each, secret, second=second) for each in tables])
    groups = np.concatenate([each.groups() for each in tables])
    return _finding(name, put_together(told, groups, 0), secret, len(groups), None)


def _finding(name: str, estimates: Sums, secret: Values, questions: int, ceiling: float | None) -> Finding:
    right = guessed_bits(estimates) == secret[0]
    return Finding(NAME, name, int(right.sum()), right.size, 0.5, ceiling, questions)
