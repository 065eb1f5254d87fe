"""Values are written as JSON holds them: numbers stay exact, dates keep their type."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter

_WHOLE = 1 << 53
"""Whole numbers below this are the same to every reader of JSON."""


def sent(value: Any, name: str) -> Any:
    """Write a number, a text, or a list or mapping of such; exact numbers are texts."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item() if getattr(value, "ndim", 1) == 0 else value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _WHOLE else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, (Fraction, Decimal)):
        return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)
    if isinstance(value, Mapping):
        return {str(each): sent(one, f"{name} {each}") for each, one in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [sent(one, name) for one in value]
    raise InvalidParameter(name, value, "numbers, texts, or a list or mapping of them: nothing else is sent")


def named(**given: Any) -> dict[str, Any]:
    """Write what was given by name, without what was left out."""
    return {name: sent(each, name) for name, each in given.items() if each is not None}


def parameters_sent(given: Any) -> Any:
    """Write the values of a question's parameters: those that JSON has no form for keep their type beside them."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(name): _cell(each, str(name)) for name, each in given.items()}
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InvalidParameter("parameters", given, "values in a list, or by name in a dict")
    return [_cell(each, str(place)) for place, each in enumerate(given, 1)]


def _cell(value: Any, name: str) -> Any:
    for kind, cls in (("timestamp", dt.datetime), ("date", dt.date)):
        if isinstance(value, cls):
            return {"type": kind, "value": value.isoformat()}
    if isinstance(value, Decimal):
        return {"type": "decimal", "value": str(value)}
    return sent(value, f"parameters {name}")
