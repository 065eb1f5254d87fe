"""What one unit can make a question cost: its rows, times the caps of plan/costs.py, times a few."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.plan.costs import MAX_BYTES, MAX_STEPS

BENCH = Path(__file__).parents[2] / "bench" / "questions.py"
ROWS = 4_000
STEP = 3e-9
"""Seconds: what a step is said to take."""
TIMES = 4
"""A statement reads a row a few times, and machines differ."""


def measured(what: str, unit: int) -> tuple[float, float, int, int]:
    """Seconds of CPU, the peak in bytes, and the question's steps and bytes for a row."""
    asked = [sys.executable, str(BENCH), what, str(unit)]
    seconds, peak, steps, held = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(peak) * 2**20, int(steps), int(held)


@pytest.mark.long
@pytest.mark.parametrize("what", ["steps", "bytes"])
def test_one_unit_at_the_cap_beside_none(what: str) -> None:
    """All the rows that a unit may have, each as dear as a question can make it, by every way to bound them."""
    none, some = (measured(what, unit) for unit in (0, ROWS))
    _, _, steps, held = some
    assert {"steps": steps / MAX_STEPS, "bytes": held / MAX_BYTES}[what] > 0.95
    assert some[0] - none[0] <= ROWS * MAX_STEPS * STEP * TIMES
    assert some[1] - none[1] <= ROWS * MAX_BYTES * TIMES
