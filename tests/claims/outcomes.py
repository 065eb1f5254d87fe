"""What a battery writes down of one call: its numbers, or which parameter was refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from claims.recorded import Claim
from sfumato.errors import InvalidParameter, SfumatoError


def outcome(compute: Callable[[], Any]) -> Claim:
    """Return the numbers of what is computed, or the name of the refused parameter or of the error."""
    try:
        return numbers(compute())
    except InvalidParameter as error:
        return f"refused: {error.parameter}"
    except SfumatoError as error:
        return f"refused: {error.code}"


def outcomes(compute: Callable[[Any], Any], arguments: Iterable[Any]) -> Claim:
    """Return the outcome for each argument."""
    return tuple(outcome(lambda argument=argument: compute(argument)) for argument in arguments)  # type: ignore[misc]


def numbers(value: Any) -> Claim:
    """Return a value as a claim: arrays and complex numbers as tuples, frozen values field by field."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (np.ndarray, np.generic)):
        return numbers(value.tolist())
    if isinstance(value, complex):
        return value.real, value.imag
    if isinstance(value, (list, tuple)):
        return tuple(numbers(part) for part in value)
    if isinstance(value, dict):
        return tuple((str(key), numbers(part)) for key, part in value.items())
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(numbers(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, Fraction):
        return float(value) if _is_computed(value) else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def logarithms(value: Any) -> Claim:
    """Return logarithms as a claim: those below 1 in size as the numbers they are of, since a logarithm that is close
    to 0 has few digits of its own.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return logarithms(value.tolist())
    if isinstance(value, (list, tuple)):
        return tuple(logarithms(part) for part in value)
    if isinstance(value, complex):
        return logarithms(value.real), logarithms(value.imag)
    return math.exp(value) if abs(value) < 1 else float(value)


def to_digits(value: Any, digits: int = 9) -> Claim:
    """Return positive numbers as a claim that compares so many digits: long sums and searches keep fewer than 12.

    A record compares a part in 10¹², and that of 10^(12 − digits) + ln x is an absolute 10^−digits of ln x.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return to_digits(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        return tuple(to_digits(part, digits) for part in value)
    if isinstance(value, float) and 0 < value < math.inf:
        return 10.0 ** (12 - digits) + math.log(value)
    return numbers(value)


def _is_computed(value: Fraction) -> bool:
    """Whether a fraction came from a float, whose last bits differ between machines: a long power of two below."""
    return value.denominator % (1 << 30) == 0 and value.denominator % 5**15 != 0
