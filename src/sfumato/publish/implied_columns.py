"""Some columns are decided by others and need not be measured: their cells follow from the policy.

A policy says that one column decides another (``implies``), and which value goes with which where the first has levels
whose parts are named as the values of the second: cities in lists called north and south, and a region that is north or
south. Such a column is left out of a model, and put back into every row that is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.policy import Table, Type
from sfumato.publish.marginals.attributes import attribute_of
from sfumato.publish.synthesis.released import ImpliedColumn


def implied_columns(table: Table, names: Sequence[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Find the columns of these that others of them decide as the policy says: by which, and for each of its cells the
    cell that is decided. What decides stays in the model, also where it is decided itself.
    """
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    pairs = [(by, decided) for by, decided in table.implies.items() if by in names and decided in names]
    for by, decided in pairs:
        if decided not in dict(pairs):
            cells = decided_cells(table, by, decided)
            if cells is not None:
                found.setdefault(decided, (by, cells))
    return found


def decided_cells(table: Table, by: str, decided: str) -> tuple[int, ...] | None:
    """Read the cells that are decided from the names of a level; what is missing is missing in both."""
    domain, coding = table.columns[decided], table.codings.get(by)
    if domain.type is not Type.TEXT or domain.values is None or coding is None or coding.starts:
        return None
    places = {value: place for place, value in enumerate(domain.values)}
    for level in coding.levels:
        if level.labels and set(level.labels) <= set(places):
            return (*(places[level.labels[part]] for part in level.parts), len(places))
    return None


def implied_of(table: Table, decided: str, by: int, cells: tuple[int, ...]) -> ImpliedColumn:
    """Say of a column how the cell of another one, at this place of the model, decides its cell."""
    return ImpliedColumn(attribute_of(decided, table.columns[decided], table.codings.get(decided)).flat, by, cells)
