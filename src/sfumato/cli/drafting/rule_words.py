"""Cell rules as an owner types them after a column's type: ``format %d.%m.%Y``, ``decimal , thousands .``.

Each rule is its policy key followed by its value: formats are separated by ``or``, words by commas, and ``map`` is
``F:female,M:male``; ``trim`` has no value, and ``space`` stands for a space.
"""

from __future__ import annotations

import re
from typing import Any

import click

from sfumato.policy import Type
from sfumato.policy.cell_rules import RULE_KEYS, CellRules

_TEXT_KEYS = ("nulls", "case", "trim", "map")
"""The rules of a text: other words after its type are values."""
_LISTS = ("nulls", "true", "false")
AS_STORED = "-"
"""The answer for no rule, and for an empty list of missing cells."""
_ALTERNATIVES = " or "


def split_rules(kind: Type, declaration: str) -> tuple[str, str]:
    """Split the declaration of a column of this type into its bounds or values, and its rules.

    >>> split_rules(Type.REAL, "0 5000 decimal , currency €")
    ('0 5000', 'decimal , currency €')
    """
    keys = _TEXT_KEYS if kind is Type.TEXT else RULE_KEYS
    first = re.search(rf"(?:^|\s)({'|'.join(keys)})(?=\s|$)", declaration)
    if first is None:
        return declaration.strip(), ""
    return declaration[: first.start(1)].strip(), declaration[first.start(1) :].strip()


def parse_rules_text(text: str) -> dict[str, Any]:
    """Parse typed rules into the keys of a policy."""
    if text.strip() in ("", AS_STORED):
        return {}
    pieces = re.split(rf"(?:^|(?<=\s))({'|'.join(RULE_KEYS)})(?=\s|$)", text.strip())
    if pieces[0].strip():
        raise click.UsageError(f"rules begin with one of {', '.join(RULE_KEYS)}")
    names, values = pieces[1::2], [piece.strip() for piece in pieces[2::2]]
    if len(set(names)) < len(names):
        raise click.UsageError("write each rule once")
    return {name: _parse_value(name, value) for name, value in zip(names, values, strict=True)}


def _parse_value(name: str, value: str) -> Any:
    if name == "trim":
        if value:
            raise click.UsageError("trim has no value")
        return True
    if name == "format":
        return [part.strip() for part in value.split(_ALTERNATIVES)]
    if name in _LISTS:
        return parse_words_text(value)
    if name == "map":
        pairs = [part.partition(":") for part in value.split(",")]
        if not all(colon for _, colon, _ in pairs):
            raise click.UsageError("write map as F:female,M:male")
        return {source.strip(): target.strip() for source, _, target in pairs}
    return " " if value == "space" else value


def parse_words_text(value: str) -> list[str]:
    """Parse cells separated by commas; ``""`` is the empty cell, and ``-`` alone is no cell, unlike ``"-"``."""
    if value.strip() in ("", AS_STORED):
        return []
    parts = [part.strip() for part in value.split(",")]
    return [part[1:-1] if len(part) > 1 and part[0] == part[-1] == '"' else part for part in parts]


def format_words(words: tuple[str, ...] | list[str]) -> str:
    """Write cells as an owner types them."""
    return ",".join(f'"{word}"' if word in ("", AS_STORED) else word for word in words)


def format_rules(rules: CellRules) -> str:
    """Write rules as an owner types them.

    >>> format_rules(CellRules(decimal=",", thousands=" "))
    'decimal , thousands space'
    """
    return " ".join(f"{name} {_format_value(name, value)}".strip() for name, value in rules.keys.items())


def _format_value(name: str, value: Any) -> str:
    if name == "trim":
        return ""
    if name == "format":
        return value if isinstance(value, str) else _ALTERNATIVES.join(value)
    if name in _LISTS:
        return format_words(value) or AS_STORED
    if name == "map":
        return ",".join(f"{source}:{target}" for source, target in value.items())
    return "space" if value == " " else str(value)
