"""Variances of cells, against the coefficients by which each entry of noise reaches them."""

from __future__ import annotations

import numpy as np
import pytest

from publish.worlds import attribute, leveled, rounded
from sfumato.publish.marginals.attributes import Attribute, with_branching_levels

CASES: dict[str, Attribute] = {
    "flat": attribute(4),
    "day": leveled()[1],
    "code": leveled()[2],
    "rounded weights": rounded(),
    "branched": with_branching_levels(attribute(9), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cells_variance_is_the_sum_of_squared_coefficients(name: str) -> None:
    """Noise of deviation s in one entry of y reaches cells through r = y/(a·k), centred and spread."""
    for each in CASES[name].hierarchy.differences:
        unit = np.eye(each.part_count) / each.difference_factors[:, None]
        reached = each.distribute_to_cells(each.centre_among_siblings(unit, 0), 0)  # cells × entries of noise
        assert np.allclose(each.cell_variances, (reached**2).sum(1) * each.scale**2, rtol=1e-12, atol=0)
