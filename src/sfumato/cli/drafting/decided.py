"""A draft tells its owner what it decided unasked, and what to write where that is wrong: whose the rows are, and which
columns were left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from shlex import quote

from sfumato.policy import Policy, Type, Via
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
    they, them, one = ("They are", "them", "one") if len(columns) > 1 else ("It is", "it", "it")
    return (
        f"Left out of {table}: {_listed(columns)}. {they} called as what names a person is, or as a key, and nobody "
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
        f"Without values: {_listed(missing)}. Groups by these would have to be found in the data, {needs}: write "
        f"values = [...] into {output.name}, from what you know of the field."
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
