"""The command ``sfumato ledger`` checks, copies and exports the file itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sfumato.cli.exit_codes import EXIT_CODES
from sfumato.errors import OUTCOMES

_file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_out = click.argument("out", type=click.Path(path_type=Path))


@click.group(short_help="Verify, export or back up a ledger file.", epilog=EXIT_CODES)
def command() -> None:
    """Check a ledger file, copy it, or write its lines in a form other programs read.

    \b
    Examples:
      sfumato ledger verify sfumato.ledger
      sfumato ledger export sfumato.ledger lines.csv --format csv
      sfumato ledger backup sfumato.ledger copies/2024-06-01.ledger
    """


@command.command(epilog=EXIT_CODES)
@_file
def verify(file: Path) -> None:
    """Check every line of FILE: its seal, its link to the line before, every total."""
    from sfumato.ledger import Ledger

    with Ledger.open(file) as ledger:
        found = ledger.verify()
    click.secho(str(found), fg="green" if found.holds else "red", err=not found.holds)
    if not found.holds:
        sys.exit(OUTCOMES["ledger-damaged"].exit_code)


@command.command(epilog=EXIT_CODES)
@_file
@_out
@click.option("--format", "form", type=click.Choice(["json", "csv", "arrow"]), default="json", show_default=True)
def export(file: Path, out: Path, form: str) -> None:
    """Write every line of FILE to the new file OUT."""
    from sfumato.ledger import Ledger

    with Ledger.open(file) as ledger:
        ledger.export(form, out)


@command.command(epilog=EXIT_CODES)
@_file
@_out
def backup(file: Path, out: Path) -> None:
    """Copy FILE as it is at this moment to the new file OUT, while others go on using it.

    The users and tokens of a server, FILE.people, are copied to OUT.people.
    """
    from sfumato.ledger import Ledger
    from sfumato.server.people_database import PeopleDatabase, beside

    with Ledger.open(file) as ledger:
        last = next((line.number for line in ledger.latest()), 0)
        ledger.backup(out)
    if not beside(file).exists():
        return
    people = PeopleDatabase(beside(file))
    try:
        people.backup(beside(out), last)
    finally:
        people.close()
