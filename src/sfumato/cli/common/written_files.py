"""No command writes over what it reads: the policy, its tables, or the ledger of what was spent."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sfumato.policy import Policy


def check_written(policy: Policy, ledger: Path | str | None, *files: Path | None) -> None:
    """Refuse files that cannot or must not be written, before anything is spent."""
    from sfumato.curator.accounts.policy_account import ledger_address

    named = [each for each in files if each is not None]
    for each in named:
        target = os.path.realpath(each)
        if target == _real(policy.path):
            raise click.UsageError(f"{each} is the policy: write to another file")
        kept = ledger_address(policy, ledger)
        if isinstance(kept, Path) and target.startswith(os.path.realpath(kept)):
            raise click.UsageError(f"{each} belongs to the ledger: write to another file")
        for table in policy.tables.values():
            source = _real(getattr(table.source, "path", None))
            if source is not None and (target == source or fnmatch(target, source)):
                raise click.UsageError(f"{each} is where {table.name} is read from: write to another file")
    if len({os.path.realpath(each) for each in named}) < len(named):
        raise click.UsageError(f"{named[0]} is named twice: give each a file of its own")


def _real(path: Path | None) -> str | None:
    return None if path is None else os.path.realpath(path)
