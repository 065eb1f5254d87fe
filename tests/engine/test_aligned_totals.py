"""Totals are found by their keys, whatever the order, number and types of the keys."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from sfumato.engine import arrays
from sfumato.engine.arrays import _shared_codes

KEYS: list[list[Any]] = [[0, 1, None], ["a", "b", "c", None], [True, False], [0.5, math.inf, 1.0]]


@pytest.mark.parametrize("columns", [1, 2, 4])
@pytest.mark.parametrize("largest", [arrays.LARGEST_INTEGER, 5])
def test_keys_share_a_number_if_and_only_if_they_are_equal(
    columns: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the number of combinations passes what a number holds, and they are numbered anew."""
    monkeypatch.setattr(arrays, "LARGEST_INTEGER", largest)
    generator = random.Random(columns)
    rows, groups = ([tuple(map(generator.choice, KEYS[:columns])) for _ in range(count)] for count in (40, 60))
    first, second = _shared_codes(list(map(list, zip(*rows, strict=True))), list(map(list, zip(*groups, strict=True))))
    keys, codes = [*rows, *groups], np.concatenate([first, second])
    equal = [[key == other for other in keys] for key in keys]
    assert (np.equal.outer(codes, codes) == equal).all()
    assert (len(first), len(second)) == (40, 60)
