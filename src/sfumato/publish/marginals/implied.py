"""Functional dependencies between columns, as city → region: declared by the policy, and read from noisy counts.

Theorem. Let f(c) be the one cell of the decided column that all rows in cell c of the deciding column have, and let
L(c, r) ≤ N(c, r) hold for all pairs of cells at once with probability 1 − β. Then, with that probability, wherever some
L(c, r) > 0 it is r = f(c), and no row is in (c, r′) for any other r′.
Proof. L(c, r) > 0 shows that there is a row in (c, r), and all rows of c share one cell. ∎

A cell has one f(c) if it holds one value: a listed one, or a bin that is one whole number or one day. The last cell
holds what is missing and whatever is not listed, so it decides nothing. Counts are noisy, so what is read from them is
free; privacy rests on no declaration. One that is false makes consistent counts and bounds wrong, and nothing else.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.publish.marginals.attributes import Attribute, Cell, ListedCell, RangeCell
from sfumato.publish.marginals.chains import Floats
from sfumato.quick_dataclass import dataclass

Places = NDArray[np.intp]
Mask = NDArray[np.bool_]

_DAY = dt.timedelta(days=1)
_STEPS: dict[Type, Any] = {Type.INTEGER: 1, Type.DATE: _DAY}


@dataclass(frozen=True, eq=False)
class ImpliedCells:
    """Which cell of the decided column goes with each cell of the deciding one."""

    cells: Places
    """The most likely decided cell for each deciding cell; the most frequent one for a cell that decides nothing."""
    decides: Mask
    """Which cells decide at all: they hold one value."""
    certain: Mask
    """Which of these are certain: noise cannot explain their counts, up to the miss probability."""
    shares: Floats
    """The distribution of each cell's rows over the decided column: concentrated in one cell if the cell decides."""

    @property
    def impossible(self) -> Mask:
        """The pairs of cells, deciding × decided, that no row is in."""
        is_other = np.arange(self.shares.shape[1]) != self.cells[:, None]
        return is_other & self.certain[:, None]


def infer_dependency(
    counts: Floats, deciding: Attribute, *, widths: Floats | float = np.inf, impossible: Mask | None = None
) -> ImpliedCells:
    """Read from noisy counts, deciding × decided, what a column decides; ``widths`` hold for all pairs at once.

    ``impossible`` are pairs that are declared to have no rows: where one alone is left, it is certain without counts.

    >>> from sfumato.publish.marginals.attributes import OtherCell
    >>> city = Attribute("city", "text", (ListedCell("Lyon"), ListedCell("Kyoto"), OtherCell()))
    >>> infer_dependency(np.array([[90.2, -3.0], [1.5, 2.1], [4.0, 4.0]]), city, widths=10.0).certain.tolist()
    [True, False, False]
    """
    if counts.ndim != 2 or len(counts) != deciding.size or not counts.shape[1]:
        raise InvalidParameter(
            "counts", f"shape {counts.shape}", f"an array of {deciding.size} rows and a column for each determined cell"
        )
    ruled_out = np.zeros(counts.shape, bool) if impossible is None else impossible
    is_possible = ~(ruled_out & ~ruled_out.all(1, keepdims=True))
    is_shown = is_possible & (counts - widths > 0)
    has_one_shown = is_shown.sum(1) == 1
    cells = np.where(has_one_shown, is_shown.argmax(1), np.where(is_possible, counts, -np.inf).argmax(1))
    decides = np.array([holds_one_value(cell, deciding.type) for cell in deciding.cells])
    certain = decides & (has_one_shown | (is_possible.sum(1) == 1))
    return ImpliedCells(
        cells,
        decides,
        certain,
        _shares_of_decided_cells(np.where(is_possible, counts, 0.0), is_possible, cells, decides),
    )


def _shares_of_decided_cells(counts: Floats, possible: Mask, cells: Places, decides: Mask) -> Floats:
    """Distribute rows: all to one cell where it is decided, and else as the counts above zero are, or evenly."""
    is_decided = np.arange(counts.shape[1]) == cells[:, None]
    positive = np.maximum(counts, 0.0)
    spread = np.where(positive.sum(1, keepdims=True) > 0, positive, possible)
    weights = np.where(decides[:, None], is_decided, spread)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def holds_one_value(cell: Cell, kind: Type) -> bool:
    """Return whether all rows in a cell have one value: a bin is one whole number or one day, or is more."""
    if isinstance(cell, ListedCell):
        return True
    if not isinstance(cell, RangeCell):
        return False
    if cell.closed:
        return bool(cell.low == cell.high)
    low, high, step = cell.low, cell.high, _STEPS.get(kind)
    return step is not None and bool(high - low == step)  # type: ignore[operator]
