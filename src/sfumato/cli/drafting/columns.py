"""Column declarations as an owner types them (bounds, values, bins, cell rules), and notes on what a draft decided.

The notes tell the owner which id column was assumed and which columns were left out, and how to correct that.

Cell rules as an owner types them after a column's type: ``format %d.%m.%Y``, ``decimal , thousands .``.

Each rule is its policy key followed by its value: formats are separated by ``or``, words by commas (a word with a comma
stands between double quotes), ends of ``possible`` by a space, and ``map`` is ``F:female,M:male``; ``trim`` has no
value, and ``space`` stands for a space.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

import click

from sfumato.cli.drafting.interview import DEFAULT_MAX_ROWS, SKIP
from sfumato.policy import Domain, Policy, Type, Via
from sfumato.policy.cell_rules import RULE_KEYS, CellRules
from sfumato.policy.codings import parse_coding
from sfumato.policy.domains import MAX_NAME_LENGTH
from sfumato.policy.toml_files import toml_key
from sfumato.privacy.numbers import format_exact
from sfumato.untrusted import escape_unprintable

_TEXT_KEYS = ("nulls", "case", "trim", "map")
"""The rules of a text: other words after its type are values."""
_LISTS = ("nulls", "true", "false")
AS_STORED = "-"
"""The answer for no rule, and for an empty list of missing cells."""
_ALTERNATIVES = " or "
_QUOTED = r'"(?:[^"]|"")*"'
_QUOTED_WORD = re.compile(_QUOTED)
_WORD = re.compile(rf"(?:(?<=,)|^)(?:\s*{_QUOTED}\s*(?=,|$)|[^,]*)")


def split_bounds_and_rules(kind: Type, declaration: str) -> tuple[str, str]:
    """Split the declaration of a column of this type into its bounds or values, and its rules.

    >>> split_bounds_and_rules(Type.REAL, "0 5000 decimal , currency €")
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
        raise click.UsageError(f"a rule on how cells are written must begin with one of {', '.join(RULE_KEYS)}")
    names, values = pieces[1::2], [piece.strip() for piece in pieces[2::2]]
    if len(set(names)) < len(names):
        raise click.UsageError("a rule appears twice: write each rule once")
    return {name: _parse_value(name, value) for name, value in zip(names, values, strict=True)}


def _parse_value(name: str, value: str) -> Any:
    if name == "trim":
        if value:
            raise click.UsageError("trim takes no value: write trim alone")
        return True
    if name == "format":
        return [part.strip() for part in value.split(_ALTERNATIVES)]
    if name in _LISTS:
        return parse_cell_list(value)
    if name == "map":
        pairs = [part.partition(":") for part in value.split(",")]
        if not all(colon for _, colon, _ in pairs):
            raise click.UsageError("write a map of cells to values as map F:female,M:male")
        return {source.strip(): target.strip() for source, _, target in pairs}
    if name == "possible":
        return value.replace(",", " ").split()
    return " " if value == "space" else value


def parse_cell_list(value: str) -> list[str]:
    """Parse cells separated by commas; ``""`` is the empty cell, and ``-`` alone is no cell, unlike ``"-"``."""
    if value.strip() in ("", AS_STORED):
        return []
    return split_comma_list(value)


def split_comma_list(text: str) -> list[str]:
    """Split a list at its commas; a word between double quotes keeps its commas, and has "" for a quote.

    >>> split_comma_list('north, "south, old town", "5"" pipe"')
    ['north', 'south, old town', '5" pipe']
    """
    words = [match[0].strip() for match in _WORD.finditer(text)]
    return [word[1:-1].replace('""', '"') if _QUOTED_WORD.fullmatch(word) else word for word in words]


def format_cell_list(words: tuple[str, ...] | list[str]) -> str:
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
        return format_cell_list(value) or AS_STORED
    if name == "map":
        return ",".join(f"{source}:{target}" for source, target in value.items())
    if name == "possible":
        return " ".join(str(end) if isinstance(end, dt.date) else format_exact(Fraction(end)) for end in value)
    return "space" if value == " " else str(value)


VALUES, BINS = "values", "bins"
_RUN_FORMAT = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_MAX_RUN = 10_000
"""The most values of a run such as 1..16."""

ColumnDeclaration = Domain | Mapping[str, Any]
"""A column declaration as ``Table`` takes it; one with bins is a mapping, as in a policy file."""


def parse_text_column(answer: str) -> Domain:
    """Parse the values of a text column, separated by commas; one with a comma stands between double quotes."""
    return Domain(Type.TEXT, values=_split_values(answer))


def parse_numeric_column(kind: Type, answer: str) -> ColumnDeclaration:
    """Parse ``0 110``, ``0 110 bins 11``, ``bins 0,18,65``, ``values 0,1``, ``values 1..16``, or an empty answer."""
    first, _, rest = answer.strip().partition(" ")
    if first == VALUES:
        return Domain(kind, values=_parse_values(rest))
    bounds_text, separator, bins_text = f" {answer.strip()} ".partition(f" {BINS} ")
    domain = Domain(kind, bounds=_parse_bounds(kind, bounds_text.strip()))
    if not separator:
        return domain
    cells = _parse_bins(bins_text.strip())
    parse_coding(domain, cells, None)  # refuses invalid bins now, while the owner can answer again
    declaration = {"type": kind.value, "bounds": domain.bounds, "bins": cells}
    return {name: value for name, value in declaration.items() if value is not None}


def _split_values(answer: str) -> tuple[str, ...] | None:
    return None if answer.strip() in ("", SKIP) else tuple(split_comma_list(answer))


def _parse_values(answer: str) -> tuple[str, ...] | None:
    """Parse a list of numbers, in which 1..16 stands for all whole numbers from 1 to 16."""
    parts = _split_values(answer)
    return None if parts is None else tuple(value for part in parts for value in _expand_integer_range(part))


def _expand_integer_range(part: str) -> tuple[str, ...]:
    run = _RUN_FORMAT.fullmatch(part)
    if run is None:
        return (part,)
    low, high = int(run[1]), int(run[2])
    if not low <= high < low + _MAX_RUN:
        raise click.UsageError(f"write a range from low to high, such as 1..16, with at most {_MAX_RUN:,} values")
    return tuple(map(str, range(low, high + 1)))


def _parse_bins(text: str) -> int | str | tuple[str, ...]:
    """Parse a number of equal bins, bin edges separated by commas, or a calendar period such as month."""
    if "," in text:
        return tuple(part.strip() for part in text.split(","))
    return int(text) if text.isdecimal() else text


def _parse_bounds(kind: Type, answer: str) -> Any:
    """Parse two bounds; refuse a comma between numbers, which could also mean a list of values."""
    if answer in ("", SKIP):
        return None
    if "," in answer and kind.numeric:
        parts = answer.replace(",", " ").split()
        as_values = f"a list of values as {VALUES} {','.join(parts)}"
        as_bounds = f"write bounds as {' '.join(parts)}, or " if len(parts) == 2 else "write "
        raise click.UsageError(as_bounds + as_values)
    bounds = tuple(part.strip() for part in answer.split("," if "," in answer else None))
    if len(bounds) != 2:
        raise click.UsageError("write two bounds, low and high, such as 0 110")
    return bounds


_MAX_LISTED = 40
"""The most columns that a note names."""


def assumed_id_note(table: str, owner: str | Via, unit: str) -> str:
    """Return a note on the id column of a table that was chosen by its name alone."""
    key = f"the same {owner}" if isinstance(owner, str) else f"the same {owner.on}, through the table {owner.via},"
    fix = f"If that is wrong, draft again with --id {quote(table)}=COLUMN"
    return f"Assumed from the column's name: rows of {table} with {key} belong to one {unit}. {fix}."


def assumed_limit_note(tables: Collection[str], unit: str) -> str:
    """Return a note on the tables whose limit of rows per unit is the default, whatever their rows."""
    return (
        f"Assumed without reading: at most {DEFAULT_MAX_ROWS} rows of one {unit} count in {_name_list(tables)}. "
        "sfumato check shows you what other limits keep; draft again with --max-rows NUMBER."
    )


def omitted_columns_note(table: str, columns: Mapping[str, Type | None], output: Path) -> str:
    """Return a note on columns that were left out because of their names, and how to declare one of them."""
    name, kind = next((name, (kind or Type.TEXT).value) for name, kind in columns.items())
    line = f'{toml_key(name)} = {{ type = "{kind}" }}'
    flag = f"--column {quote(name)}={kind}"
    names, them, one = ("Their names suggest", "them", "one") if len(columns) > 1 else ("Its name suggests", "it", "it")
    return (
        f"Left out of {table}: {_name_list(columns)}. {names} a person's name or a key, so nobody can ask about "
        f"{them}. To declare {one}, write a line such as {line} below [tables.{toml_key(table)}.columns] in "
        f"{output.name}, or draft again with {flag}."
    )


def missing_values_note(policy: Policy, output: Path) -> str:
    """Return a note on text columns without values, and what grouping by them needs; empty if there are none."""
    columns = (column for table in policy.tables.values() if not table.public for column in table.columns.items())
    without_values = [name for name, domain in columns if domain.type is Type.TEXT and domain.values is None]
    if not without_values:
        return ""
    need = "which needs a δ and shows only large groups" if policy.budget.delta else "and this budget has no δ for that"
    return (
        f"Without values: {_name_list(without_values)}. GROUP BY on one of these must find its groups in the "
        f"data, {need}. Write values = [...] into {output.name}, from what you know about the subject."
    )


def unusable_names_note(columns: Collection[str]) -> str:
    """Return a note on columns whose names cannot be used in questions, and what a name must be like."""
    return (
        f"left out, because SQL cannot name them: {_name_list(columns)}. A name has at most {MAX_NAME_LENGTH} visible "
        "characters, does not begin with sf_, and differs from other names in more than capitals: rename them first"
    )


def _name_list(names: Iterable[str]) -> str:
    """Join names with control characters escaped, at most ``_MAX_LISTED`` of them."""
    printable_names = [escape_unprintable(name) or '""' for name in islice(names, _MAX_LISTED + 1)]
    return ", ".join(printable_names[:_MAX_LISTED]) + (" …" if len(printable_names) > _MAX_LISTED else "")
