"""Cell suppression: withhold the small cells of a published table, and complementary cells that would reveal them.

A single suppressed cell is its row total minus the other cells (``differencing``). So statistical offices also suppress
complementary cells: here three more for every small cell, such that the four are the corners of a rectangle. Adding one
to two opposite corners and subtracting one from the other two changes no total, so this table determines none of the
four (Cox 1980). What remains is an interval: counts are nonnegative and no larger than their cells, and every total
bounds its parts given the others (Buzzigoli & Giusti 1999).

But complementary cells are chosen for one table. Another table of the same people, with other rows or columns,
publishes sums of cells that the first one suppressed, and chooses its own complementary cells: combined they reveal the
small cell again. Reliable suppression would have to consider all tables, including those of others and future ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import Groups, Sums, Values, even_share, group_sums, invented_bits, temporary_curator
from sfumato.attacks.ceilings import guess_ceiling, replacement_guarantee
from sfumato.attacks.differencing import CrossTable, checked_target, combine_totals, lay_out_table, round_to_bits
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy import Budget, Guarantee, Neighbours
from sfumato.privacy.numbers import POSITIVE, Number, exact, exact_integer, format_exact

NAME = "suppression"
_STREETS, _AGES, _CELL = 4, 4, 20
_MIN_COUNT = 5
_COLUMNS = (("street", "age"), ("street", "ages"), ("streets", "age"))
"""The keys of the tables: streets and ages; ages in pairs; streets in pairs."""


def suppression(
    towns: int = 400, epsilon: Number = 1, *, neighbours: Neighbours | str = Neighbours.REPLACE
) -> Findings:
    """Guess one person's bit in each of many simulated towns from tables with suppressed small cells.

    Small cells are suppressed alone, with complementary cells, and with complementary cells in two and three tables.
    The same tables are also released by a real curator for ε in all, a third for each.
    """
    price, relation = exact(epsilon, "epsilon", POSITIVE), Neighbours.of(neighbours)
    tables = linked_tables(_STREETS, _AGES, _CELL)
    secret = invented_bits(len(tables[0].rows), exact_integer(towns, "towns", at_least=1))
    results = [_suppressed_finding(f"below {_MIN_COUNT} withheld, 1 table", tables[:1], secret, second=False)]
    for table_count in range(1, len(tables) + 1):
        table_words = f"{table_count} table{'s' if table_count > 1 else ''}"
        results.append(
            _suppressed_finding(f"second cells too, {table_words}", tables[:table_count], secret, second=True)
        )
    ceiling = guess_ceiling(replacement_guarantee(Guarantee(price), relation))
    private_counts = release_tables(tables, secret, Budget(price, neighbours=relation))
    groups = np.concatenate([_cell_groups(table) for table in tables])
    name = f"private, ε = {format_exact(price)}, {len(tables)} tables"
    results.append(_suppression_finding(name, combine_totals(private_counts, groups, 0), secret, len(groups), ceiling))
    notes = (
        "Bob is alone in a cell of a table by street and age; whether he smokes is secret. Cells below 5 are withheld, "
        "and with each of them three others, so that the four form a rectangle.",
        "2 tables: the second has ages in pairs. 3 tables: the third has streets in pairs.",
    )
    return Findings(NAME, tuple(results), notes)


def linked_tables(streets: int, ages: int, size: int) -> tuple[CrossTable, ...]:
    """Return three tables of the same people: by street and age, with ages in pairs, and with streets in pairs.

    The first person is alone in the first cell.
    """
    full_table = lay_out_table(streets, ages, size)
    return (
        full_table,
        CrossTable(full_table.rows, full_table.columns // 2),
        CrossTable(full_table.rows // 2, full_table.columns),
    )


def suppressed_table(table: CrossTable, values: Any, least: int = _MIN_COUNT, *, second: bool = True) -> Sums:
    """Return all totals of a table, in the order of its groups, for every town, with cells below ``least`` as NaN.

    With ``second``, complementary cells are suppressed too.
    """
    secret = np.asarray(values, np.int64)
    if len(secret) != len(table.rows):
        raise InvalidParameter(
            "values",
            ValueWords(f"an array of the shape {secret.shape}"),
            f"a list with one value for each of the table's {len(table.rows)} people",
            fix=f"pass {len(table.rows)} values",
        )
    published = group_sums(table.groups(), secret.reshape(len(secret), -1))
    height, width = table.shape
    cells = published[: height * width].reshape(height, width, -1)
    hidden = cells < exact_integer(least, "least", at_least=2)
    if second:
        hidden = np.stack([suppress_complementary_cells(*town) for town in zip(cells.T, hidden.T, strict=True)]).T
    published[: height * width] = np.where(hidden, np.nan, cells).reshape(height * width, -1)
    return published.reshape(-1, *secret.shape[1:])


def suppress_complementary_cells(cells: Sums, small: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the suppressed cells: every small cell and three that complete a rectangle with it, of least total count
    not yet suppressed. A table with one row or column has no rectangle and is suppressed entirely.
    """
    hidden = small.copy()
    if min(cells.shape) < 2:
        return np.full(cells.shape, bool(small.any()))
    for row, column in np.argwhere(small):
        visible = np.where(hidden, 0.0, cells)
        cost = visible[row] + visible[:, [column]] + visible
        cost[row], cost[:, column] = np.inf, np.inf
        other_row, other_column = np.unravel_index(np.argmin(cost), cost.shape)
        hidden[[row, other_row, other_row], [other_column, column, other_column]] = True
    return hidden


def cell_bounds(told: Sums, groups: Groups, target: int) -> tuple[int, int]:
    """Bound the total of the people who share all groups with the target, from the totals of one town.

    The interval is the fixed point of bounding the parts of every total by the bounds of the other parts.
    """
    row_index = checked_target(target, groups.shape[1])
    cell_membership, cell_of_person, sizes = np.unique(groups, axis=1, return_inverse=True, return_counts=True)
    is_published = ~np.isnan(told)
    low, high = np.zeros(len(sizes)), sizes.astype(np.float64)
    slack = np.inf
    while (high - low).sum() < slack:
        slack = (high - low).sum()
        for part, total in zip(cell_membership[is_published], told[is_published], strict=True):
            high[part] = np.minimum(high[part], total - low[part].sum() + low[part])
            low[part] = np.maximum(low[part], total - high[part].sum() + high[part])
    target_cell = cell_of_person.ravel()[row_index]
    return int(low[target_cell]), int(high[target_cell])


def release_tables(tables: Sequence[CrossTable], secret: Values, budget: Budget) -> Sums:
    """Release the cells of all three tables of all towns by a real curator with a temporary account, for its whole
    budget: one question per table.
    """
    people, towns = secret.shape
    coordinates = dict(zip(_COLUMNS[0], (tables[0].rows, tables[0].columns), strict=True))
    coordinates |= {"ages": tables[1].columns, "streets": tables[2].rows}
    columns = {name: np.repeat(coordinate, towns) for name, coordinate in coordinates.items()}
    columns |= {"town": np.tile(np.arange(towns), people)}
    declared: dict[str, Any] = {
        name: {"type": "integer", "values": list(range(int(codes.max()) + 1))} for name, codes in columns.items()
    }
    columns |= {"smokes": secret.ravel()}
    declared["smokes"] = {"type": "integer", "bounds": (0, 1)}
    table_counts, price_per_table = [], even_share(budget.epsilon, len(_COLUMNS))
    with temporary_curator(columns, declared, budget) as curator:
        for row, column in _COLUMNS:
            keys = f"town, {row}, {column}"
            query: Any = curator.sql(f"SELECT {keys}, SUM(smokes) AS n FROM people GROUP BY {keys} ORDER BY {keys}")
            rows = query.release(epsilon=price_per_table).rows
            table_counts.append(np.array([cell[-1] for cell in rows], np.float64).reshape(towns, -1).T)
    return np.concatenate(table_counts)


def _cell_groups(table: CrossTable) -> Groups:
    height, width = table.shape
    return table.groups()[: height * width]


def _suppressed_finding(name: str, tables: Sequence[CrossTable], secret: Values, *, second: bool) -> Finding:
    published = np.concatenate([suppressed_table(table, secret, second=second) for table in tables])
    groups = np.concatenate([table.groups() for table in tables])
    return _suppression_finding(name, combine_totals(published, groups, 0), secret, len(groups), None)


def _suppression_finding(name: str, estimates: Sums, secret: Values, questions: int, ceiling: float | None) -> Finding:
    is_correct = round_to_bits(estimates) == secret[0]
    return Finding(NAME, name, int(is_correct.sum()), is_correct.size, 0.5, ceiling, questions)
