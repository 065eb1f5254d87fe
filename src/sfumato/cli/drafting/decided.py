"""A draft tells its owner what it decided unasked, and what to write where that is wrong: whose the rows are, and which
columns were left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from shlex import quote

from sfumato.policy import Type, Via
from sfumato.policy.drafting import toml_key
from sfumato.policy.names import LONGEST_NAME
from sfumato.safe_text import printable

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
    return (
        f"Left out of {table}: {_listed(columns)}. They are called as what names a person is, or as a key, and nobody "
        f"can ask about them. To declare one, write a line such as {written} below [tables.{toml_key(table)}.columns] "
        f"in {output.name}, or draft again with {flag}."
    )


def unnamed_words(columns: Collection[str]) -> str:
    """Say which columns of a file no question can name, and how they must be called for that."""
    return (
        f"left out, since no question can name them: {_listed(columns)}. A name is of visible letters, at most "
        f"{LONGEST_NAME}, does not begin with sf_, and is no other column's but for capital letters: rename them first"
    )


def _listed(names: Iterable[str]) -> str:
    """Write names one after the other, as a terminal shows and does not obey them; of very many the first."""
    shown = [printable(each) or '""' for each in islice(names, _LISTED + 1)]
    return ", ".join(shown[:_LISTED]) + (" …" if len(shown) > _LISTED else "")
