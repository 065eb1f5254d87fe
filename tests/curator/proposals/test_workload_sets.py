"""The sets of columns that a model of a table is fitted to: all that fit, none beyond the memory."""

from __future__ import annotations

import pytest

from sfumato.curator.proposals import mwem
from sfumato.curator.proposals.mwem import fitting_sets_and_dropped_count
from sfumato.errors import InvalidParameter, Unsupported

NAMES, SIZES = ("a", "b", "c", "d"), (2, 3, 5, 7)


def test_sets_of_so_many_columns_that_have_too_many_cells_are_dropped() -> None:
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert fitting_sets_and_dropped_count(2, NAMES, SIZES, 18) == (
        pairs,
        0,
    )  # 5·7 cells are just within 2 + 3 + 5 + 7 + 18
    assert fitting_sets_and_dropped_count(2, NAMES, SIZES, 17) == (pairs[:-1], 1)
    assert fitting_sets_and_dropped_count(9, NAMES, SIZES, 1000) == ([(0, 1, 2, 3)], 0)
    assert fitting_sets_and_dropped_count(1, NAMES, SIZES, -100) == (
        [(0,), (1,), (2,), (3,)],
        0,
    )  # one column is never too many


def test_sets_that_are_named_must_all_fit() -> None:
    assert fitting_sets_and_dropped_count([["a", "b"], ["c"]], NAMES, SIZES, 0) == ([(0, 1), (2,)], 0)
    with pytest.raises(Unsupported, match="at most 17 cells in this memory; c, d have 35 together"):
        fitting_sets_and_dropped_count([["a", "b"], ["c", "d"]], NAMES, SIZES, 0)


def test_very_many_sets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mwem, "_MAX_SETS", 6)
    assert len(fitting_sets_and_dropped_count(2, NAMES, SIZES, 1000)[0]) == 6
    monkeypatch.setattr(mwem, "_MAX_SETS", 5)
    with pytest.raises(InvalidParameter, match="4 columns give 6 sets of 2, and at most 5 are allowed"):
        fitting_sets_and_dropped_count(2, NAMES, SIZES, 1000)
    assert len(fitting_sets_and_dropped_count(3, NAMES, SIZES, 1000)[0]) == 4
