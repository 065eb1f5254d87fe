"""Functional dependencies and impossible cells: enforce in the model what the policy declares of columns.

A pair of columns of which the first decides the second (``implies``) is measured first, whatever the method. After all
measurements, the mapping from the cells of the first to those of the second is read from the model, as from noisy
counts (``marginals.implied``), and the model is fitted again with every other pair of cells impossible: no row is drawn
there. If the policy itself gives the mapping (levels), these cells are impossible from the start.

*Privacy.* The mapping is computed from the model, so from released numbers and the policy alone: post-processing, which
costs nothing (Dwork & Roth 2014, prop. 2.1). The measurements of the pairs are charged steps like all others.

A bin of several values, or a missing value, decides nothing: rows in it may have any cell of the second column.

A policy may declare cells impossible: the model has a factor that is zero there.

Some columns need not be measured, as their cells follow from others by the policy: it declares that one column decides
another (``implies``), and the first has levels whose parts have the names of the second's values, such as cities in
lists called north and south, and a region that is north or south. Such a column is left out of the model, and added to
every sampled row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.policy import Table, Type
from sfumato.publish.cells import answering
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.attributes import (
    Attributes,
    PublicTableFacts,
    coded_attribute,
    holds_one_value,
    infer_dependency,
)
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.synthesis.released import ImpliedColumn

Mask = NDArray[np.bool_]
Zeros = tuple[tuple[AttributeSet, Mask], ...]
"""Sets of columns, and the cells of each that no row is in."""
Pairs = tuple[tuple[int, int], ...]
"""Indices of columns: a deciding one, and the one that it decides."""


def deciding_pairs(attributes: Attributes, face: PublicTableFacts) -> Pairs:
    """Return the declared pairs whose columns are both here, and of which some cell of the first decides."""
    index_by_name = {attribute.name: attribute_index for attribute_index, attribute in enumerate(attributes)}
    declared = [
        (index_by_name[deciding], index_by_name[decided])
        for deciding, decided in face.implies
        if deciding in index_by_name and decided in index_by_name
    ]
    return tuple(pair for pair in declared if deciding_cells(attributes, pair[0]).any())


def deciding_cells(attributes: Attributes, index: int) -> Mask:
    """Return which cells of a column hold one value."""
    attribute = attributes[index]
    return np.array([holds_one_value(cell, attribute.type) for cell in attribute.cells])


def non_nullable_attributes(face: PublicTableFacts) -> tuple[int, ...]:
    """Return the columns that the policy does not call nullable; none if only cells are known."""
    return tuple(attribute_index for attribute_index, domain in enumerate(face.domains) if not domain.nullable)


def missing_value_cell(attributes: Attributes, index: int) -> tuple[AttributeSet, Mask]:
    """Return the cell of a column for missing or unlisted values."""
    size = attributes[index].size
    return (index,), np.arange(size) == size - 1


def distinct_sets(pairs: Pairs) -> list[AttributeSet]:
    """Return the distinct sets of columns of the pairs."""
    return list(dict.fromkeys(_sorted_pair(pair) for pair in pairs))


def zeros_of_pair(pair: tuple[int, int], cells: Sequence[int], decides: Mask, size: int) -> tuple[AttributeSet, Mask]:
    """Return the cells of a pair that no row is in: all but the decided one, if the first column decides."""
    others = (np.arange(size) != np.asarray(cells)[:, None]) & decides[:, None]
    return _sorted_pair(pair), others if pair[0] < pair[1] else others.T


def zeros_from_model(
    model: GraphicalModel, attributes: Attributes, pairs: Pairs, zeros: Zeros = (), required: Sequence[int] = ()
) -> Zeros:
    """Read from a model what columns decide, and return the cells that this rules out.

    No row is decided to be in a cell that is known to be empty (``zeros``), or NULL in a required column.
    """
    ruled_out = []
    for deciding, decided in pairs:
        counts = model.marginal((deciding, decided))
        impossible = np.zeros(counts.shape, bool)
        impossible[:, -1] = decided in required
        for attribute_set, cells in zeros:
            if attribute_set == _sorted_pair((deciding, decided)):
                impossible |= cells if deciding < decided else cells.T
        mapping = infer_dependency(counts, attributes[deciding], impossible=impossible)
        ruled_out.append(zeros_of_pair((deciding, decided), mapping.cells.tolist(), mapping.decides, counts.shape[1]))
    return tuple(ruled_out)


def _sorted_pair(pair: tuple[int, int]) -> AttributeSet:
    return (min(pair), max(pair))


def zeros_from_policy(table: str, attributes: Attributes, face: PublicTableFacts) -> Zeros:
    """Return the cells of which every row would meet a condition that the policy calls impossible; conditions on
    columns outside the model are ignored.
    """
    zeros: dict[AttributeSet, NDArray[np.bool_]] = {}
    model_face = answering.QueryableTable(table, attributes, face.domains_for(attributes), None, None)  # type: ignore[arg-type]
    for declared in face.impossible:
        try:
            attribute_set, cells = answering.certain_cells(model_face, declared)
        except Unsupported:
            continue
        if attribute_set and cells.any():
            zeros[attribute_set] = zeros.get(attribute_set, np.zeros(cells.shape, bool)) | cells
    return tuple(zeros.items())


def require_possible_rows(zeros: Zeros, sizes: Sequence[int], max_cells: int) -> None:
    """Refuse zeros that leave no cell for any row, or that the model cannot hold."""
    sets = [attribute_set for attribute_set, _ in zeros]
    if predicted_cells(sets, sizes) > sum(sizes) + max_cells:
        largest = max(
            (math.prod(sizes[attribute_index] for attribute_index in attribute_set) for attribute_set in sets),
            default=1,
        )
        raise Unsupported(
            "too-many-cells",
            "the conditions that the policy lists as impossible need a larger model than the memory limit allows",
            fix=f"allow more memory, use coarser bins, or remove the condition that needs {largest:,} cells",
        )
    logs = [Potential(attribute_set, np.where(cells, -np.inf, 0.0)) for attribute_set, cells in zeros]
    try:
        possible = float(GraphicalModel.from_potentials(sizes, logs, 1.0).beliefs[0].sum()) > 0
    except InvalidParameter:
        possible = False
    if not possible:
        raise Unsupported(
            "contradictory-zeros",
            "every possible row meets a condition that the policy lists as impossible",
            fix="remove or narrow a condition listed under impossible in the policy",
        )


def implied_columns(table: Table, names: Sequence[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the columns that others decide by the policy: the deciding column, and the decided cell for each of its
    cells. A deciding column stays in the model, even if it is decided itself.
    """
    implied_by_name: dict[str, tuple[str, tuple[int, ...]]] = {}
    pairs = [
        (deciding, decided) for deciding, decided in table.implies.items() if deciding in names and decided in names
    ]
    for deciding, decided in pairs:
        if decided not in dict(pairs):
            cells = decided_cells(table, deciding, decided)
            if cells is not None:
                implied_by_name.setdefault(decided, (deciding, cells))
    return implied_by_name


def decided_cells(table: Table, by: str, decided: str) -> tuple[int, ...] | None:
    """Read the decided cells from the labels of a level; missing values are missing in both columns."""
    domain, coding = table.columns[decided], table.codings.get(by)
    if domain.type is not Type.TEXT or domain.values is None or coding is None or coding.starts:
        return None
    cell_by_value = {value: cell for cell, value in enumerate(domain.values)}
    for level in coding.levels:
        if level.labels and set(level.labels) <= set(cell_by_value):
            return (*(cell_by_value[level.labels[part]] for part in level.parts), len(cell_by_value))
    return None


def implied_column(table: Table, decided: str, by: int, cells: tuple[int, ...]) -> ImpliedColumn:
    """Return the implied column whose cell is decided by the column at this index of the model."""
    return ImpliedColumn(
        coded_attribute(decided, table.columns[decided], table.codings.get(decided)).without_levels, by, cells
    )
