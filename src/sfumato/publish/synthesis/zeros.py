"""A policy may declare that no row is in some cells: the model has a factor for them that is zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.publish.cells import answering
from sfumato.publish.graph.models import GraphModel, Potential
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.faces import TableFace
from sfumato.publish.synthesis.implications import Zeros


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
