"""Invented rows follow from the policy alone: for rehearsals, and to see how long a synthesis takes on this machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits
from sfumato.plan.readings.cell_rows import CodedRows
from sfumato.publish.synthesis.course import Setting

_FOLLOWING = 2
"""In how many of four rows a column follows the one before it, so that there is something to learn."""


def invented(setting: Setting, rows: int) -> CodedRows:
    """Draw rows from the declared cells: low places more often than high ones, and each column partly decided by the
    one before it.
    """
    codes: list[NDArray[np.int64]] = []
    for size in setting.sizes:
        declared = max(1, size - 1)  # without the cell of what is missing
        own = np.minimum(bits.all_below(declared, rows), bits.all_below(declared, rows))
        if codes:
            before = codes[-1] * declared // max(1, int(codes[-1].max(initial=0)) + 1)
            own = np.where(bits.all_below(4, rows) < _FOLLOWING, before, own)
        codes.append(own)
    small = tuple(each.astype(np.min_scalar_type(size - 1)) for each, size in zip(codes, setting.sizes, strict=True))
    return CodedRows(setting.sizes, small, np.full(rows, setting.unit_value.denominator, np.int64))
