"""Parsers of column declarations (bounds, values, bins), and notes on what a draft decided by default.

The notes tell the owner which id column was assumed and which columns were left out, and how to correct that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

import click

from sfumato.cli.drafting.interview import DEFAULT_MAX_ROWS, SKIP
from sfumato.cli.drafting.rule_words import split_words
from sfumato.policy import Domain, Policy, Type, Via
from sfumato.policy.codings import parse_coding
from sfumato.policy.domains import MAX_NAME_LENGTH
from sfumato.policy.toml_writing import toml_key
from sfumato.untrusted import escape_unprintable

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
    return None if answer.strip() in ("", SKIP) else tuple(split_words(answer))


def _parse_values(answer: str) -> tuple[str, ...] | None:
    """Parse a list of numbers, in which 1..16 stands for all whole numbers from 1 to 16."""
    parts = _split_values(answer)
    return None if parts is None else tuple(value for part in parts for value in _expand_run(part))


def _expand_run(part: str) -> tuple[str, ...]:
    run = _RUN_FORMAT.fullmatch(part)
    if run is None:
        return (part,)
    low, high = int(run[1]), int(run[2])
    if not low <= high < low + _MAX_RUN:
        raise click.UsageError(f"write a run from low to high, such as 1..16, with at most {_MAX_RUN:,} values")
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
        f"Without values: {_name_list(without_values)}. GROUP BY one of these has to find its groups in the data, "
        f"{need}. Write values = [...] into {output.name}, from what you know of the subject."
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
