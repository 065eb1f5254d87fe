"""A policy is written again with the bounds that were bought for it, and a comment that says so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.curator.proposals.found_bounds import Bounds
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy, Table
from sfumato.policy.drafting import drafted


def columns_without_bounds(policy: Policy) -> list[tuple[str, str]]:
    """List the columns that bounds can be found for, by table and name: numbers and dates that declare nothing."""
    return [
        (table.name, name)
        for table in policy.tables.values()
        if not table.public
        for name, domain in table.columns.items()
        if (domain.type.numeric or domain.type.temporal) and domain.range is None and name != table.id
    ]


def write_bounds(policy: Policy, output: Path, found: Mapping[tuple[str, str], Bounds]) -> None:
    """Write a drafted policy again with the bounds that were found; the old file stands until the new one is whole."""
    known = {place: each for place, each in found.items() if each.ends is not None}
    if not known:
        return
    tables = {name: _with_bounds(table, known) for name, table in policy.tables.items()}
    notes = {place: _note(each) for place, each in known.items()}
    text = drafted(replace(policy, tables=tables), output.parent, notes)
    beside = output.with_name(f"{output.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, output)
    except OSError:
        fix = "paste what was printed: " + "; ".join(f"{place[1]}: {each.toml}" for place, each in known.items())
        raise InvalidPolicy("the policy cannot be written again", place=str(output), fix=fix) from None


def _with_bounds(table: Table, known: Mapping[tuple[str, str], Bounds]) -> Table:
    columns: dict[str, Any] = {**table.columns, **table.lists}
    for (name, column), each in known.items():
        if name == table.name:
            columns[column] = replace(table.columns[column], bounds=each.ends)
    return replace(table, columns=columns)


def _note(found: Bounds) -> str:
    bought = "" if found.receipt is None else f", line {found.receipt.line} of the ledger"
    return f"These bounds were not typed: they were found privately for {found.purchase.price}{bought}."
