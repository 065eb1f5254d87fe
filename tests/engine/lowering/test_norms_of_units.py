"""Norms that units are scaled to: what fits 64 bits, and the largest totals, by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.engine.lowering import clip_scaling
from sfumato.engine.lowering.clip_scaling import MAX_ROWS, MAX_UNIT_TOTAL, ClipScaling
from sfumato.engine.lowering.relational_form import Reference


@pytest.mark.parametrize("bits", [0, 3])
@pytest.mark.parametrize("beyond", [0, 1])
def test_squares_are_added_up_in_64_bits_where_all_of_them_fit(
    monkeypatch: pytest.MonkeyPatch, bits: int, beyond: int
) -> None:
    monkeypatch.setattr(clip_scaling, "to_wide_integer", lambda reference: ("wide", reference))
    monkeypatch.setattr(clip_scaling, "apply", lambda _, left, right: (left, right))
    monkeypatch.setattr(clip_scaling, "_sum_of", lambda squares: squares)
    monkeypatch.setattr(clip_scaling, "sum_of_group", lambda squares: ("sum", squares))
    most = math.isqrt(MAX_UNIT_TOTAL // 2) >> bits
    scaling: Any = SimpleNamespace(
        squared=True, coordinates=("x", "y"), max_in_group=most + beyond, bits=bits, length="norm"
    )
    values: list[Any] = [Reference("x"), Reference("y")]
    if beyond:
        values = [("wide", value) for value in values]
    assert ClipScaling.norm_column(scaling) == ("norm", ("sum", [(value, value) for value in values]))


def test_the_largest_total_of_a_unit_counts_rows_that_one_row_becomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each total that a measure has."""
    monkeypatch.setattr(clip_scaling.nodes, "max_rows_per_private_row", lambda source: {"rows": 3}[source])
    measures = [SimpleNamespace(size=2, coordinates=2), SimpleNamespace(size=5, coordinates=1)]
    bounded: Any = SimpleNamespace(plan=SimpleNamespace(source="rows"), measures=measures)
    assert clip_scaling.max_unit_totals(bounded) == [MAX_ROWS * 6, MAX_ROWS * 6, MAX_ROWS * 15]
