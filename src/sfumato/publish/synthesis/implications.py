"""Rows keep what the policy says of columns that decide others: the model has no other cells.

A pair of columns of which the first decides the second (``implies``) is measured first, whatever the method. When all
is measured, the model says which cell of the second goes with each cell of the first, as noisy counts do
(``marginals.implied``), and is fitted again with every other pair of cells impossible: no row is drawn there. Where the
policy itself says which goes with which (levels), these cells are impossible from the start.

*Privacy.* The mapping is computed from the model, so from released numbers and the policy alone: post-processing, which
costs nothing (Dwork & Roth 2014, prop. 2.1). The measurements of the pairs are steps that are charged as all are.

A bin of several values, or what is missing, decides nothing: rows in it may have any cell of the second column.

A policy may declare that no row is in some cells: the model has a factor for them that is zero.

Some columns are decided by others and need not be measured: their cells follow from the policy.

A policy says that one column decides another (``implies``), and which value goes with which where the first has levels
whose parts are named as the values of the second: cities in lists called north and south, and a region that is north or
south. Such a column is left out of a model, and put back into every row that is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.policy import Table, Type
from sfumato.publish.cells import answering
from sfumato.publish.graph.models import GraphModel, Potential
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.attributes import Attributes, attribute_of
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.faces import TableFace
from sfumato.publish.marginals.implied import holds_one_value, implied
from sfumato.publish.synthesis.released import ImpliedColumn

Mask = NDArray[np.bool_]
Zeros = tuple[tuple[Set, Mask], ...]
"""Sets of columns, and of each the cells that no row is in."""
Pairs = tuple[tuple[int, int], ...]
"""Places of columns: one that decides, and the one that it decides."""


def deciding_pairs(attributes: Attributes, face: TableFace) -> Pairs:
    """List the declared pairs whose columns are both here, and of which some cell of the first decides."""
    places = {each.name: place for place, each in enumerate(attributes)}
    named = [(places[by], places[decided]) for by, decided in face.implies if by in places and decided in places]
    return tuple(pair for pair in named if deciding_cells(attributes, pair[0]).any())


def deciding_cells(attributes: Attributes, place: int) -> Mask:
    """Tell which cells of a column hold one value."""
    own = attributes[place]
    return np.array([holds_one_value(each, own.type) for each in own.cells])


def required_places(face: TableFace) -> tuple[int, ...]:
    """List the columns that the policy does not call nullable; none where only cells are known."""
    return tuple(place for place, domain in enumerate(face.domains) if not domain.nullable)


def last_cell(attributes: Attributes, place: int) -> tuple[Set, Mask]:
    """Return the cell of a column that holds what is missing or not listed."""
    size = attributes[place].size
    return (place,), np.arange(size) == size - 1


def sets_of(pairs: Pairs) -> list[Set]:
    """List the different sets of columns that pairs are."""
    return list(dict.fromkeys(_rising(pair) for pair in pairs))


def decided_zeros(pair: tuple[int, int], cells: Sequence[int], decides: Mask, size: int) -> tuple[Set, Mask]:
    """List the cells of a pair that no row is in: all but the decided one, where the first column decides."""
    others = (np.arange(size) != np.asarray(cells)[:, None]) & decides[:, None]
    return _rising(pair), others if pair[0] < pair[1] else others.T


def zeros_of_model(
    model: GraphModel, attributes: Attributes, pairs: Pairs, zeros: Zeros = (), required: Sequence[int] = ()
) -> Zeros:
    """Read from a model what columns decide, and list the cells that this rules out.

    No row is decided to be in a cell that is known to be empty (``zeros``), or NULL in a column that never is.
    """
    found = []
    for by, decided in pairs:
        counts = model.marginal((by, decided))
        impossible = np.zeros(counts.shape, bool)
        impossible[:, -1] = decided in required
        for places, cells in zeros:
            if places == _rising((by, decided)):
                impossible |= cells if by < decided else cells.T
        own = implied(counts, attributes[by], impossible=impossible)
        found.append(decided_zeros((by, decided), own.cells.tolist(), own.decides, counts.shape[1]))
    return tuple(found)


def _rising(pair: tuple[int, int]) -> Set:
    return (min(pair), max(pair))


def zeros_of(table: str, attributes: Attributes, face: TableFace) -> Zeros:
    """Find the cells of which every row would meet a condition that no row meets; conditions on columns that are not
    in the model say nothing of it.
    """
    found: dict[Set, NDArray[np.bool_]] = {}
    shown = answering.Face(table, attributes, face.known(attributes), None, None)  # type: ignore[arg-type]
    for each in face.impossible:
        try:
            places, cells = answering.surely(shown, each)
        except Unsupported:
            continue
        if places and cells.any():
            found[places] = found.get(places, np.zeros(cells.shape, bool)) | cells
    return tuple(found.items())


def check_zeros(zeros: Zeros, sizes: Sequence[int], most_cells: int) -> None:
    """Refuse zeros that leave no cell for any row, and such as the model cannot hold."""
    sets = [places for places, _ in zeros]
    if predicted_cells(sets, sizes) > sum(sizes) + most_cells:
        largest = max((math.prod(sizes[place] for place in each) for each in sets), default=1)
        raise Unsupported(
            "too-many-cells",
            f"the model has at most {most_cells:,} cells; the conditions that no row meets need more",
            fix=f"allow more memory, take coarser bins, or remove the condition with {largest:,} cells",
        )
    logs = [Potential(places, np.where(cells, -np.inf, 0.0)) for places, cells in zeros]
    try:
        possible = float(GraphModel.of(sizes, logs, 1.0).beliefs[0].sum()) > 0
    except InvalidParameter:
        possible = False
    if not possible:
        raise Unsupported(
            "contradictory-zeros",
            "some cell is left for rows; together the conditions that no row meets leave none",
            fix="correct the conditions that the policy calls impossible",
        )


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
