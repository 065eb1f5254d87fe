"""Small values are spelled as they would be typed, with exact numbers as decimals and no type of ours inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from fractions import Fraction
from typing import Any

from sfumato.privacy.numbers import text

_MOST = 6
"""Parts of a tuple or a mapping that are shown."""


def spelled(item: Any) -> str:
    """Spell a value by its fields: a class takes it as its ``__repr__``."""
    shown = [each.name for each in fields(item) if each.repr]
    return f"{type(item).__name__}({', '.join(f'{name}={_part(getattr(item, name))}' for name in shown)})"


def _part(value: object) -> str:
    if isinstance(value, Fraction):
        return text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        parts = [f"{_part(name)}: {_part(each)}" for name, each in list(value.items())[:_MOST]]
        return f"{{{_joined(parts, len(value))}}}"
    if isinstance(value, tuple):
        return f"({_joined([_part(each) for each in value[:_MOST]], len(value))})"
    return repr(value)


def _joined(parts: list[str], whole: int) -> str:
    return ", ".join(parts) + (", …" if whole > len(parts) else "")
