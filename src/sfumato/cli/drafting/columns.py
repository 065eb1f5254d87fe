"""Answers about a column of numbers or dates are read here: bounds, a list of values, and bins.

A draft tells its owner what it decided unasked, and what to write where that is wrong: whose the rows are, and which
columns were left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

import click

from sfumato.cli.drafting.interview import SKIP
from sfumato.policy import Domain, Policy, Type, Via
from sfumato.policy.codings import coding_of
from sfumato.policy.domains import LONGEST_NAME
from sfumato.policy.drafting import toml_key
from sfumato.untrusted import printable

VALUES, BINS = "values", "bins"
_RUN = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_LONGEST_RUN = 10_000
"""Values that a run may stand for."""

Declared = Domain | Mapping[str, Any]
"""A column as a table takes it: with bins it is written as a policy file has it."""


def texts(answer: str) -> Domain:
    """Read the values of a column of texts, separated by commas."""
    return Domain(Type.TEXT, values=_split_values(answer))


def numbers(kind: Type, answer: str) -> Declared:
    """Read ``0 110``, ``0 110 bins 11``, ``bins 0,18,65``, ``values 0,1``, ``values 1..16``, or nothing."""
    first, _, rest = answer.strip().partition(" ")
    if first == VALUES:
        return Domain(kind, values=_numbered(rest))
    ends, found, bins = f" {answer.strip()} ".partition(f" {BINS} ")
    domain = Domain(kind, bounds=_ends(kind, ends.strip()))
    if not found:
        return domain
    cells = _bins(bins.strip())
    coding_of(domain, cells, None)  # refuses what are no bins of this column, while its owner can answer again
    written = {"type": kind.value, "bounds": domain.bounds, "bins": cells}
    return {name: each for name, each in written.items() if each is not None}


def _split_values(answer: str) -> tuple[str, ...] | None:
    return None if answer.strip() in ("", SKIP) else tuple(part.strip() for part in answer.split(","))


def _numbered(answer: str) -> tuple[str, ...] | None:
    """Read a list of numbers, in which 1..16 stands for all whole numbers from 1 to 16."""
    listed = _split_values(answer)
    return None if listed is None else tuple(each for part in listed for each in _expanded(part))


def _expanded(part: str) -> tuple[str, ...]:
    ends = _RUN.fullmatch(part)
    if ends is None:
        return (part,)
    low, high = int(ends[1]), int(ends[2])
    if not low <= high < low + _LONGEST_RUN:
        raise click.UsageError(f"a run of values goes up, and has at most {_LONGEST_RUN:,} of them")
    return tuple(map(str, range(low, high + 1)))


def _bins(written: str) -> int | str | tuple[str, ...]:
    """Read a number of equal bins, their edges separated by commas, or a part of the calendar such as month."""
    if "," in written:
        return tuple(part.strip() for part in written.split(","))
    return int(written) if written.isdecimal() else written


def _ends(kind: Type, answer: str) -> Any:
    """Read two bounds; of numbers a comma may as well mean a list, and the wrong one would lose most of a column."""
    if answer in ("", SKIP):
        return None
    if "," in answer and kind.numeric:
        parts = answer.replace(",", " ").split()
        listed = f"a list of values as {VALUES} {','.join(parts)}"
        bounds = f"write bounds as {' '.join(parts)}, and " if len(parts) == 2 else "write "
        raise click.UsageError(bounds + listed)
    found = tuple(part.strip() for part in answer.split("," if "," in answer else None))
    if len(found) != 2:
        raise click.UsageError("a column has two bounds, low and high, such as 0 110")
    return found


_LISTED = 40
"""Columns that are named; of more it is said that there are."""


def assumed_words(table: str, owner: str | Via, unit: str) -> str:
    """Say by which column the rows of a table were given to units, when its name alone decided that."""
    told = f"the same {owner}" if isinstance(owner, str) else f"the same {owner.on}, by the table {owner.via},"
    fix = f"if that is not so, draft again with --id {quote(table)}=COLUMN"
    return f"Rows of {table} with {told} are one {unit}, since the column is called so: {fix}."


def declare_words(table: str, columns: Mapping[str, Type | None], output: Path) -> str:
    """Say which columns of a table were left out because of their names, and how to declare one of them."""
    name, kind = next((name, (kind or Type.TEXT).value) for name, kind in columns.items())
    written = f'{toml_key(name)} = {{ type = "{kind}" }}'
    flag = f"--column {quote(name)}={kind}"
    they, them, one = ("They are", "them", "one") if len(columns) > 1 else ("It is", "it", "it")
    return (
        f"Left out of {table}: {_name_list(columns)}. {they} called as what names a person is, or as a key, and nobody "
        f"can ask about {them}. To declare {one}, write a line such as {written} below "
        f"[tables.{toml_key(table)}.columns] in {output.name}, or draft again with {flag}."
    )


def without_values_words(policy: Policy, output: Path) -> str:
    """Say which columns of texts list no values, and what a group by one needs then; nothing where all of them do."""
    declared = (each for table in policy.tables.values() if not table.public for each in table.columns.items())
    missing = [name for name, domain in declared if domain.type is Type.TEXT and domain.values is None]
    if not missing:
        return ""
    needs = (
        "which takes a δ and shows large groups alone" if policy.budget.delta else "and this budget has no δ for that"
    )
    return (
        f"Without values: {_name_list(missing)}. Groups by these would have to be found in the data, {needs}: write "
        f"values = [...] into {output.name}, from what you know of the field."
    )


def unnamed_words(columns: Collection[str]) -> str:
    """Say which columns of a file no question can name, and how they must be called for that."""
    return (
        f"left out, since no question can name them: {_name_list(columns)}. A name is of visible letters, at most "
        f"{LONGEST_NAME}, does not begin with sf_, and is no other column's but for capital letters: rename them first"
    )


def _name_list(names: Iterable[str]) -> str:
    """Write names one after the other, as a terminal shows and does not obey them; of very many the first."""
    shown = [printable(each) or '""' for each in islice(names, _LISTED + 1)]
    return ", ".join(shown[:_LISTED]) + (" …" if len(shown) > _LISTED else "")
