"""Cell rules as an owner types them after a column's type: ``format %d.%m.%Y``, ``decimal , thousands .``.

Each rule is its policy key followed by its value: formats are separated by ``or``, words by commas (a word with a comma
stands between double quotes), ends of ``possible`` by a space, and ``map`` is ``F:female,M:male``; ``trim`` has no
value, and ``space`` stands for a space.
"""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

import click

from sfumato.policy import Type
from sfumato.policy.cell_rules import RULE_KEYS, CellRules
from sfumato.privacy.numbers import format_exact

_TEXT_KEYS = ("nulls", "case", "trim", "map")
"""The rules of a text: other words after its type are values."""
_LISTS = ("nulls", "true", "false")
AS_STORED = "-"
"""The answer for no rule, and for an empty list of missing cells."""
_ALTERNATIVES = " or "
_QUOTED = r'"(?:[^"]|"")*"'
_QUOTED_WORD = re.compile(_QUOTED)
_WORD = re.compile(rf"(?:(?<=,)|^)(?:\s*{_QUOTED}\s*(?=,|$)|[^,]*)")


def split_rules(kind: Type, declaration: str) -> tuple[str, str]:
    """Split the declaration of a column of this type into its bounds or values, and its rules.

    >>> split_rules(Type.REAL, "0 5000 decimal , currency €")
    ('0 5000', 'decimal , currency €')
    """
    keys = _TEXT_KEYS if kind is Type.TEXT else RULE_KEYS
    unquoted = _QUOTED_WORD.sub(lambda quoted: "x" * len(quoted[0]), declaration)  # a quoted word is no key
    first = re.search(rf"(?:^|\s)({'|'.join(keys)})(?=\s|$)", unquoted)
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
    if name == "possible":
        return value.replace(",", " ").split()
    return " " if value == "space" else value


def parse_words_text(value: str) -> list[str]:
    """Parse cells separated by commas; ``""`` is the empty cell, and ``-`` alone is no cell, unlike ``"-"``."""
    if value.strip() in ("", AS_STORED):
        return []
    return split_words(value)


def split_words(text: str) -> list[str]:
    """Split a list at its commas; a word between double quotes keeps its commas, and has "" for a quote.

    >>> split_words('north, "south, old town", "5"" pipe"')
    ['north', 'south, old town', '5" pipe']
    """
    words = [match[0].strip() for match in _WORD.finditer(text)]
    return [word[1:-1].replace('""', '"') if _QUOTED_WORD.fullmatch(word) else word for word in words]


def format_words(words: tuple[str, ...] | list[str]) -> str:
    """Write cells as an owner types them."""
    return ",".join(_quote_word(word) if word in ("", AS_STORED) or set(word) & set(',"') else word for word in words)


def _quote_word(word: str) -> str:
    doubled = word.replace('"', '""')
    return f'"{doubled}"'


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
    if name == "possible":
        return " ".join(str(end) if isinstance(end, dt.date) else format_exact(Fraction(end)) for end in value)
    return "space" if value == " " else str(value)
