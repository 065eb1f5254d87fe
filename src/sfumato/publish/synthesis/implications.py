"""Rows keep what the policy says of columns that decide others: the model has no other cells.

A pair of columns of which the first decides the second (``implies``) is measured first, whatever the method. When all
is measured, the model says which cell of the second goes with each cell of the first, as noisy counts do
(``marginals.implied``), and is fitted again with every other pair of cells impossible: no row is drawn there. Where the
policy itself says which goes with which (levels), these cells are impossible from the start.

*Privacy.* The mapping is computed from the model, so from released numbers and the policy alone: post-processing, which
costs nothing (Dwork & Roth 2014, prop. 2.1). The measurements of the pairs are steps that are charged as all are.

A bin of several values, or what is missing, decides nothing: rows in it may have any cell of the second column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.graph.models import GraphModel
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.faces import TableFace
from sfumato.publish.marginals.implied import holds_one_value, implied

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
