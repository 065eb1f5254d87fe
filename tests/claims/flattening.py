"""Turn whatever a function returns into named claims: fields of frozen values, numbers of arrays, figures in texts.

Floats keep ten digits, those of an array relative to its largest number: what cancels to nothing is noise of the last
bits, and machines differ there. Words are not recorded, only the figures in them.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from claims.recorded import Claim
from sfumato.errors import SfumatoError

_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_NAME = re.compile(r".{0,11}|[\w.-]+")
_DIGITS = 10
_LEAST = 1e-14
_LONG = 10**18
_UNRECORDED = frozenset({"time", "hash", "software", "salt", "data", "policy", "version", "secret"})
"""Fields that differ from run to run, or with every release of the package."""


def figures(text: object) -> tuple[str, ...]:
    """List the numbers in a text, in their order."""
    return tuple(each.rstrip(",") for each in _FIGURE.findall(str(text)))


def outcome(run: Callable[[], Any]) -> Any:
    """Return what a call returns, or its refusal by class, code and exact amounts: words may change, these do not."""
    try:
        return run()
    except SfumatoError as refused:
        amounts = [refused.facts[name] for name in refused.amounts]
        return (type(refused).__name__, refused.code, *figures(amounts))


def claims_of(name: str, value: Any, *, words: bool = False) -> dict[str, Claim]:
    """Name every number within a value by the path to it; ``words`` keeps texts as they are."""
    found: dict[str, Claim] = {}
    _gather(name, value, found, words)
    return found


def _gather(name: str, value: Any, found: dict[str, Claim], words: bool) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: getattr(value, each.name) for each in fields(value)}
        parts = {key: part for key, part in named.items() if key not in _UNRECORDED and not key.startswith("_")}
    elif isinstance(value, Mapping):
        parts = {str(key): part for key, part in value.items()}
    else:
        found[name] = _claim(value, words)
        return
    if not parts:
        found[name] = type(value).__name__
    for key, part in parts.items():
        _gather(f"{name} {key}", part, found, words)


def _claim(value: Any, words: bool) -> Claim:
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return _claim(value.item(), words)
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, str):
        return value if words or _NAME.fullmatch(value) else figures(value)
    if isinstance(value, Fraction) and value.denominator > _LONG:  # it came from a float, or is as exact as one
        return _rounded(float(value))
    if value is None or isinstance(value, (bool, int, Fraction)):
        return value
    if isinstance(value, (dt.date, dt.timedelta, Decimal)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted((_claim(each, words) for each in value), key=repr))
    if isinstance(value, (tuple, list)):
        return tuple(_claim(each, words) for each in value)
    if is_dataclass(value) or isinstance(value, Mapping):
        inner = claims_of("", value, words=words)
        return tuple(part for key, each in inner.items() for part in (key.strip(), each))
    raise TypeError(f"a {type(value).__name__} is no claim: name its numbers")


def _array(values: Any) -> Claim:
    if values.dtype.kind == "f" and values.size:
        finite = np.abs(values[np.isfinite(values)])
        largest = float(finite.max()) if finite.size else 0.0
        if largest:
            step = 10.0 ** (math.floor(math.log10(largest)) - _DIGITS)
            values = np.where(np.isfinite(values), np.rint(values / step) * step + 0.0, values)
            return _nested(values.tolist(), lambda each: float(f"{each:.{_DIGITS}g}") if each else 0.0)
    return _nested(values.tolist(), lambda each: each)


def _nested(values: Any, write: Callable[[Any], Claim]) -> Claim:
    if isinstance(values, list):
        return tuple(_nested(each, write) for each in values)
    return write(values)


def _rounded(value: float) -> float:
    if not math.isfinite(value):
        return value
    return float(f"{value:.{_DIGITS}g}") if abs(value) > _LEAST else 0.0
