"""A tree of pairs within the memory given: the pairs that a model cannot hold are no candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.synthesis.candidates import BYTES_PER_CELL

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
SIZES = {"a": 3, "b": 3, "c": 40, "d": 40}
LARGEST = ("c", "d")


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sf.Curator]:
    """The two columns of 40 values are equal, so that their pair is chosen where it can be."""
    draw = np.random.default_rng(2)
    long, short = draw.integers(0, 40, 2000), draw.integers(0, 3, 2000)
    rows = pa.table({"a": short, "b": (short + (draw.random(2000) < 0.1)) % 3, "c": long, "d": long})
    columns: dict[str, Any] = {name: {"type": "integer", "values": list(range(size))} for name, size in SIZES.items()}
    table = sf.Table("people", rows, columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(50, "1e-6"), {"people": table}, size=2000)
    with sf.Curator(policy, tmp_path / "people.ledger") as opened:
        yield opened


@pytest.mark.parametrize(("cells", "edges"), [(1 << 18, 3), (200, 2), (20, 1), (1, 0)])
def test_no_pair_is_measured_that_the_model_cannot_hold(clinic: sf.Curator, cells: int, edges: int) -> None:
    """The whole price is spent if any pair fits; the forecast knows of the limit too."""
    proposal = clinic.synthesize("people", "mst", 1, memory=cells * BYTES_PER_CELL)
    forecast = proposal.forecast(epsilon=4)
    released = proposal.release(epsilon=4)
    pairs = [each.columns for each in released.rounds if len(each.columns) == 2]
    assert len(pairs) == edges
    assert (LARGEST in pairs) == (cells > 2000)
    sizes = released.model.sizes
    places = [tuple(map(list(SIZES).index, pair)) for pair in pairs]
    assert predicted_cells([*((place,) for place in range(4)), *places], sizes) <= sum(sizes) + cells
    assert forecast.cells <= sum(sizes) + cells
    spent = clinic._context.account.spent["pure"]
    assert spent == 4 if edges else Fraction(1) < spent < 4


def test_pairs_that_never_fit_are_not_counted(clinic: sf.Curator) -> None:
    proposal = clinic.synthesize("people", "mst", 1, memory=200 * BYTES_PER_CELL)
    assert (2, 3) not in proposal._counted_sets
    assert (0, 1) in proposal._counted_sets


def test_a_pair_that_fits_only_the_bought_cells_is_left_out(tmp_path: Path) -> None:
    """Sixteen bins of each column do not fit together; the few that rows of one value need would, but the reading is
    planned before they are bought. Nothing fails after the charge, and the whole price buys what was planned.
    """
    rows = pa.table({"who": range(500), "age": [30] * 500, "cost": [500] * 500, "sex": ["f", "m"] * 250})
    bounds = {"age": [0, 99], "cost": [0, 999]}
    columns = {name: {"type": "integer", "bounds": ends} for name, ends in bounds.items()}
    table = sf.Table("people", rows, {**columns, "sex": {"values": ["f", "m"]}}, id="who", max_rows=1)
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(50, "1e-6"), {"people": table}, size=500)
    with sf.Curator(policy, tmp_path / "people.ledger") as clinic:
        proposal = clinic.synthesize("people", "mst", 1, memory=200 * BYTES_PER_CELL)
        assert (0, 1) not in proposal._counted_sets
        released = proposal.release(epsilon=20)
        assert math.prod(released.model.sizes[:2]) <= 200
        pairs = {each.columns for each in released.rounds if len(each.columns) == 2}
        assert pairs == {("age", "sex"), ("cost", "sex")}
        assert clinic._context.account.spent["pure"] == 20
