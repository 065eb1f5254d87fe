"""Scores are rounded to a public grid: what counts is how many whole steps each lies below the best.

A score s becomes ⌊s/γ + ½⌋ steps of a grid γ, a power of two that belongs to the mechanism: named by the caller, or
derived from Δ and ε alone. Scores that one unit moves by at most Δ then move by at most ⌈Δ/γ⌉ steps, and never the
other way. A step taken from the scores themselves, such as the common denominator of fractions, would let one unit's
row decide how all of them are compared, and that is no privacy at all.

Two cuts keep the steps within 64 bits, both at fixed places: a score beyond ±2⁶² counts as that, NaN as the lowest,
and a candidate further than 2⁶² steps below the best counts as so far below. Neither moves two scores further apart.
What a number becomes depends on its value and never on its type or on the others' types, so that no list of whole
numbers, floats, decimals and fractions is refused or read differently because of what is in it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import grids

Gaps = NDArray[np.uint64]

LARGEST = 1 << 62
FURTHEST = 1 << 62
"""How many steps below the best are told apart."""
_FINE = 1 << 20
_NEGLIGIBLE = -30  # a decimal below 10^-29 is far less than half of any grid's step
_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.float16, np.float32)


def derived_grid(sensitivity: Fraction, epsilon: Fraction) -> Fraction:
    """Choose the largest power of two that is at most 1, so that whole numbers stay what they are, and at most 2⁻²⁰ of
    the sensitivity and of Δ/ε, so that whole numbers stay what they are, and at most 2⁻²⁰ of the sensitivity and of
    Δ/ε, so that rounding is lost in the noise.
    """
    finest = min(Fraction(1), sensitivity / max(Fraction(1), epsilon) / _FINE)
    return Fraction(1, 1 << (math.ceil(1 / finest) - 1).bit_length())


def gaps(scores: Any, grid: Fraction) -> Gaps:
    """Count the steps each score lies below the best, at most ``FURTHEST``; what is refused is named by its kind."""
    array = _as_array(scores)
    if array.ndim != 1 or not array.size:
        raise InvalidParameter("scores", f"{array.ndim} dimensions", "a list of at least one score")
    if array.dtype.kind == "O":
        return _from_numbers(array.tolist(), grid)
    if array.dtype.kind == "f":
        return _from_floats(array.astype(np.float64), grid)
    return _from_integers(np.clip(array, -LARGEST if array.dtype.kind == "i" else 0, LARGEST).astype(np.int64), grid)


def _as_array(scores: Any) -> NDArray[Any]:
    """Read an array of whole numbers or floats, or of objects where numbers of several kinds stand side by side."""
    try:
        array = np.asarray(scores)
        mixed = isinstance(scores, (list, tuple)) and array.dtype.kind == "f"
        if mixed and not all(isinstance(score, (float, np.float16, np.float32)) for score in scores):
            array = np.array(scores, object)  # a large whole number beside a float would be rounded to one
    except ValueError:
        array = np.array(None)
    known = array.dtype.kind in "iuf" and array.dtype.itemsize <= 8
    if not known and not (array.dtype.kind == "O" and all(_is_number(score) for score in array.flat)):
        raise InvalidParameter("scores", grids.described(array), "numbers: whole, float, Decimal or Fraction")
    return array


def _is_number(score: object) -> bool:
    return isinstance(score, _NUMBERS) and not isinstance(score, bool)


def _from_integers(values: NDArray[np.int64], grid: Fraction) -> Gaps:
    """Read whole numbers: of a fine grid every one is a whole number of steps, of a coarse one they are rounded."""
    if grid > 1:
        k = grid.numerator.bit_length() - 1
        values = (values >> k) + ((values >> (k - 1)) & 1)
    k = grid.denominator.bit_length() - 1
    below = values.max().astype(np.uint64) - values.astype(np.uint64)  # what wraps around wraps back
    return np.minimum(below, np.uint64(FURTHEST >> k)) << np.uint64(k)


def _from_floats(values: NDArray[np.float64], grid: Fraction) -> Gaps:
    """Read floats: a power of two scales them exactly, and every whole number of steps they come to is a float.

    Differences of such floats are not: each is split at 2⁶¹, both parts are subtracted as whole numbers, and where the
    upper parts differ by four the difference is beyond 2⁶² whatever the lower ones are.
    """
    steps = np.clip(np.where(np.isnan(values), -np.inf, values), -float(LARGEST), float(LARGEST)) / float(grid)
    down = np.floor(steps)
    steps = down + (steps - down >= 0.5)
    high = np.trunc(steps * 2.0**-61)
    low = (steps - high * 2.0**61).astype(np.int64)
    best = int(np.argmax(steps))
    above = np.minimum(high[best] - high, 4.0).astype(np.uint64) << np.uint64(61)
    below = above + (low[best] - low).astype(np.uint64)
    return np.minimum(below, np.uint64(FURTHEST))


def _from_numbers(values: list[Any], grid: Fraction) -> Gaps:
    steps = [_steps(value, grid) for value in values]
    best = max(steps)
    return np.array([min(best - each, FURTHEST) for each in steps], np.uint64)


def _steps(value: Any, grid: Fraction) -> int:
    """Convert one number, of any kind, into steps."""
    return math.floor(_held(value) / grid + Fraction(1, 2))


def _held(value: Any) -> Fraction:
    """Hold the number exactly, within ±2⁶²; what is no number is the lowest."""
    number = value.item() if isinstance(value, np.generic) else value
    if number.is_nan() if isinstance(number, Decimal) else number != number:
        return Fraction(-LARGEST)
    if isinstance(number, Decimal) and number.adjusted() < _NEGLIGIBLE:
        return Fraction(0)  # its denominator, written out, might fill the memory
    return Fraction(number) if -LARGEST < number < LARGEST else Fraction(LARGEST if number > 0 else -LARGEST)
