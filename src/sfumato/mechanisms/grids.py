"""Values on a grid: whole steps in, whole steps plus noise out, nothing wraps and nothing is rounded twice.

Integers are their own steps. Floats need a ``grid``, a power of two: they are rounded to the nearest step, NaN
counts as 0 and infinities as the largest step, so that no value, whatever it is, makes a release fail or look
different.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import POSITIVE, Number, exact

Integers = NDArray[np.int64]

CHUNK = 1 << 16
_LIMITS = np.iinfo(np.int64)
_LARGEST_STEP = float(1 << 52)


def power_of_two(value: Number | None, name: str = "grid") -> Fraction | None:
    """A grid as an exact power of two, or None for whole numbers."""
    if value is None:
        return None
    grid = exact(value, name, POSITIVE)
    if grid.numerator & (grid.numerator - 1) or grid.denominator & (grid.denominator - 1):
        raise InvalidParameter(name, value, "a power of two, such as 1/1024 or 0.25")
    if not Fraction(1, 1 << 60) <= grid <= 1 << 60:
        raise InvalidParameter(name, value, "a power of two between 2^-60 and 2^60")
    return grid


def in_steps(change: Sensitivity, grid: Fraction | None) -> Sensitivity:
    """The change in grid steps: a number that moves by Δ moves by at most ⌈Δ/γ⌉ steps once rounded to the grid."""
    if grid is None:
        return change
    per_group = -(-change.per_group // grid)
    total = change.total // grid + change.groups
    return Sensitivity(change.groups, per_group, total, None, change.neighbours)


def noisy(values: Any, grid: Fraction | None, draw_one: Callable[[], int], draw: Callable[[int, int], Integers]) -> Any:
    """Values plus noise in grid steps; ``draw(start, count)`` gives the noise of a run of elements."""
    if isinstance(values, int) and not isinstance(values, bool):
        return values + draw_one() if grid is None else float(_from_steps(_to_steps(values, grid) + draw_one(), grid))
    if isinstance(values, (float, Fraction, np.floating)):
        _need_grid(values, grid)
        steps = _array_steps(np.array([float(values)]), grid)
        return float(_restored(_added(steps, np.array([draw_one()])), grid)[0])
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.dtype == np.float16:
        raise InvalidParameter("values", values, "integers, or floats with a grid", fix="convert them to int64")
    if array.dtype.kind == "f":
        _need_grid(values, grid)
    flat = array.reshape(-1)
    found = np.empty(flat.size, np.int64 if grid is None else np.float64)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        steps = _whole(part) if grid is None else _array_steps(part, grid)
        summed = _added(steps, draw(start, part.size))
        found[start : start + CHUNK] = summed if grid is None else _restored(summed, grid)
    return found.reshape(array.shape)


def _need_grid(values: object, grid: Fraction | None) -> None:
    if grid is None:
        raise InvalidParameter(
            "values",
            values,
            "whole numbers when the mechanism has no grid",
            fix="pass grid=2**-k to the mechanism, or round the values to integers yourself",
        )


def _whole(part: NDArray[Any]) -> Integers:
    if part.dtype == np.uint64:
        return np.minimum(part, np.uint64(_LIMITS.max)).astype(np.int64)
    return part.astype(np.int64, copy=False)


def _array_steps(part: NDArray[Any], grid: Fraction | None) -> Integers:
    assert grid is not None
    with np.errstate(over="ignore"):
        steps = np.rint(np.nan_to_num(part.astype(np.float64), nan=0.0) / float(grid))
    return np.clip(steps, -_LARGEST_STEP, _LARGEST_STEP).astype(np.int64)


def _restored(steps: Integers, grid: Fraction | None) -> NDArray[np.float64]:
    """Back to the grid's own unit; every step count up to 2⁵³ is a float, and scaling by a power of two is exact."""
    assert grid is not None
    return np.clip(steps, -(1 << 53), 1 << 53).astype(np.float64) * float(grid)


def _added(steps: Integers, noise: Integers) -> Integers:
    """The sum, held at the ends of int64 instead of wrapping."""
    total = steps + noise
    wrapped = ((steps ^ total) & (noise ^ total)) < 0
    if wrapped.any():
        total[wrapped] = np.where(steps[wrapped] < 0, _LIMITS.min, _LIMITS.max)
    return total


def _to_steps(value: int, grid: Fraction) -> int:
    return round(value / grid)


def _from_steps(steps: int, grid: Fraction) -> Fraction:
    return steps * grid
