"""Conversion of values to whole grid steps and back, with noise added in between: nothing wraps or is rounded twice.

Integers are their own steps. Floats need a ``grid``, a power of two: they are rounded to the nearest step, NaN
counts as 0 and infinities as the largest step, so that no value, whatever it is, makes a release fail or look
different.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import POSITIVE, Number, exact, format_exact, format_probability

CHUNK = 1 << 16
_LIMITS = np.iinfo(np.int64)
_LARGEST_STEP = float(1 << 52)


def parse_grid(value: Number | None, name: str = "grid") -> Fraction | None:
    """Parse a grid as an exact power of two, or None for integers."""
    if value is None:
        return None
    # A float that is a power of two means it: its shortest decimal may not be one.
    is_power = isinstance(value, float) and math.frexp(value)[0] == 0.5
    grid = Fraction(value) if is_power else exact(value, name, POSITIVE)
    if grid.numerator & (grid.numerator - 1) or grid.denominator & (grid.denominator - 1):
        raise InvalidParameter(name, value, "a power of two, such as 1/1024 or 0.25")
    if not Fraction(1, 1 << 60) <= grid <= 1 << 60:
        raise InvalidParameter(name, value, "a power of two between 2^-60 and 2^60", fix="for example, write 1/1024")
    return grid


def sensitivity_in_steps(change: Sensitivity, grid: Fraction | None) -> Sensitivity:
    """Return the change in grid steps: a number that moves by Δ moves by at most ⌈Δ/γ⌉ steps once rounded to
    the grid.
    """
    if grid is None:
        return change
    per_group = -(-change.per_group // grid)
    total = change.total // grid + change.groups
    return Sensitivity(change.groups, per_group, total, None, change.neighbours)


def add_noise_on_grid(
    values: Any, grid: Fraction | None, add_noise: Callable[[int], int], draw: Callable[[int, int], Integers]
) -> Any:
    """Add noise to values in grid steps: ``add_noise`` adds it to one number, ``draw(start, count)`` returns the
    noise of a run of elements.
    """
    if type(values) is int or isinstance(values, Fraction):
        if grid is None:
            _require_python_int(values)
            return add_noise(int(values))
        return _clamp_steps(add_noise(_round_and_clamp(Fraction(values) / grid))) * float(
            grid
        )  # 2⁵³ steps at most: a float each, exactly
    numbers = as_numeric_array(values, grid, "values")
    flat = numbers.reshape(-1)
    noisy_flat = np.empty(flat.size, np.int64 if grid is None else np.float64)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        summed = _add_clamped_to_int64(round_to_steps(part, grid), draw(start, part.size))
        noisy_flat[start : start + CHUNK] = summed if grid is None else _steps_to_floats(summed, grid)
    noisy_values = noisy_flat.reshape(numbers.shape)
    return noisy_values[()] if numbers.ndim == 0 else noisy_values


def as_numeric_array(values: Any, grid: Fraction | None, name: str) -> NDArray[Any]:
    """Return an array of integers, or of floats where there is a grid; a refusal names the type, never a value."""
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind in "fO" and isinstance(values, (list, tuple)) and all(type(x) is int for x in values):
            numbers = np.array([min(max(x, _LIMITS.min), _LIMITS.max) for x in values], np.int64)
    except ValueError:
        numbers = np.array(None)
    kind = describe_array(numbers)
    if numbers.dtype.kind not in "iuf" or numbers.dtype.itemsize > 8:
        raise InvalidParameter(name, kind, "integers or floats", fix=f"convert {name} to int64 or float64")
    if numbers.dtype.kind == "f" and grid is None:
        raise InvalidParameter(
            name,
            kind,
            "whole numbers when the mechanism has no grid",
            fix=f"pass a grid such as grid=2**-10 to the mechanism, or round the {name} to integers",
        )
    return numbers


def describe_array(array: NDArray[Any]) -> ValueWords:
    """Describe an array in a refusal: its kind and dimensions, never its values or its size, which may be
    private too.
    """
    nouns = {"i": "whole number", "u": "whole number", "f": "float"}
    noun = nouns.get(array.dtype.kind)
    if array.ndim == 0:
        return ValueWords(f"one {noun}" if noun else "a value that is not a number")
    return ValueWords(f"a {array.ndim}-dimensional array of {f'{noun}s' if noun else 'values that are not numbers'}")


_RATES = Fraction(1, 10**10), Fraction(1000)
"""The range of rates in which draws are exact and bounded in time."""


def require_rate(epsilon: Fraction, rate: Fraction, settings: str) -> None:
    """Refuse an ε at which a candidate's log-weight rises too little or too much with each row."""
    lowest, highest = _RATES
    if lowest <= rate <= highest:
        return
    least, most = (limit * epsilon / rate for limit in _RATES)
    low, high = format_probability(least) if least < 1 else format_exact(least), format_exact(most)
    fix = f"set epsilon to {high} or less" if rate > highest else f"set epsilon to {low} or more"
    raise InvalidParameter("epsilon", epsilon, f"from {low} to {high} for {settings}", fix=fix)


def _require_python_int(value: int | Fraction) -> None:
    if not isinstance(value, int):
        as_numeric_array(0.0, None, "values")  # a fraction is refused like a float


def round_to_steps(part: NDArray[Any], grid: Fraction | None) -> Integers:
    """Return integers as they are, and anything on a grid rounded to its nearest step, halves up.

    One rule for all, and no rounding before it: x ↦ ⌊x/γ + ½⌋ moves by at most ⌈Δ/γ⌉ when x moves by Δ; rounding
    halves to even, or rounding twice, would not keep that.
    """
    if grid is None:
        if part.dtype == np.uint64:
            return np.minimum(part, np.uint64(_LIMITS.max)).astype(np.int64)
        return part.astype(np.int64, copy=False)
    if part.dtype.kind == "f":
        with np.errstate(over="ignore"):
            scaled = np.nan_to_num(part.astype(np.float64), nan=0.0) / float(grid)  # a power of two: exact
        clamped = np.clip(scaled, -_LARGEST_STEP, _LARGEST_STEP)
        floors = np.floor(clamped)
        return (floors + (clamped - floors >= 0.5)).astype(np.int64)
    return _integers_to_steps(round_to_steps(part, None), grid)


def _integers_to_steps(values: Integers, grid: Fraction) -> Integers:
    largest_step = 1 << 52
    if grid > 1:
        k = grid.numerator.bit_length() - 1
        return np.clip((values >> k) + ((values >> (k - 1)) & 1), -largest_step, largest_step)
    k = grid.denominator.bit_length() - 1
    largest_value = largest_step >> k
    exact_steps = np.clip(values, -largest_value, largest_value) << k
    return np.where(values > largest_value, largest_step, np.where(values < -largest_value, -largest_step, exact_steps))


def _round_and_clamp(steps: Fraction) -> int:
    """Return ⌊x + ½⌋, clamped to the largest step."""
    return _clamp_steps((2 * steps + 1) // 2, 52)


def _clamp_steps(steps: int, bits: int = 53) -> int:
    largest_step = 1 << bits
    return max(-largest_step, min(largest_step, steps))


def _steps_to_floats(steps: Integers, grid: Fraction | None) -> NDArray[np.float64]:
    """Convert steps back to the grid's unit; every step count up to 2⁵³ is a float, and scaling by a power of two is
    exact.
    """
    assert grid is not None
    return np.clip(steps, -(1 << 53), 1 << 53).astype(np.float64) * float(grid)


def _add_clamped_to_int64(steps: Integers, noise: Integers) -> Integers:
    """Add, and clamp the sum to int64 instead of wrapping."""
    total = steps + noise
    wrapped = ((steps ^ total) & (noise ^ total)) < 0
    if wrapped.any():
        total[wrapped] = np.where(steps[wrapped] < 0, _LIMITS.min, _LIMITS.max)
    return total
