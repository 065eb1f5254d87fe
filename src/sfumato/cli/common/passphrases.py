"""A passphrase is typed where nobody sees it, or read from a file: others can read a command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sfumato.reports.signing_keys import SigningKey


def signing_key(path: Path, file: Path | None) -> SigningKey:
    """Read a signing key, and ask for its passphrase where it has one."""
    from sfumato.reports.signing_keys import SigningKey, is_locked

    if not is_locked(path):
        return SigningKey.read(path)
    secret = _first_line(file) if file is not None else click.prompt("passphrase", hide_input=True, err=True)
    return SigningKey.read(path, secret)


def chosen_passphrase(file: Path | None) -> str:
    """Take a new passphrase, typed twice."""
    if file is not None:
        return _first_line(file)
    found: str = click.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return found


def _first_line(file: Path) -> str:
    try:
        found = file.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{file} cannot be read as text") from None
    if not found:
        raise click.UsageError(f"the first line of {file} is empty: write the passphrase there")
    return found
