"""The command ``sfumato ledger`` checks, copies, moves and exports a ledger itself, and makes one in a database."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.options import LedgerAddress
from sfumato.errors import OUTCOMES

_file = click.argument("file", type=LedgerAddress(exists=True))
_out = click.argument("out", type=click.Path(path_type=Path))


@click.group(short_help="Verify, export, back up, make or move a ledger.", epilog=EXIT_CODES)
def command() -> None:
    """Check a ledger, copy it, or write its lines in a form other programs read. FILE is a file, or a database that is
    named by its address: postgresql://host/db.

    \b
    Examples:
      sfumato ledger verify sfumato.ledger
      sfumato ledger init postgresql://host/db --spender curator
      sfumato ledger copy sfumato.ledger postgresql://host/db
      sfumato ledger export sfumato.ledger lines.csv --format csv
      sfumato ledger backup sfumato.ledger copies/2024-06-01.ledger
      sfumato ledger acknowledge sfumato.ledger --reason "restored after the disk failed"
    """


@command.command(epilog=EXIT_CODES)
@_file
def verify(file: Path | str) -> None:
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
@click.option(
    "--complete", is_flag=True, help="With the key and the salts, as JSON: as secret as FILE, and can be copied back."
)
def export(file: Path | str, out: Path, form: str, complete: bool) -> None:
    """Write every line of FILE to the new file OUT, which only you can read.

    A complete export can be made a ledger again, with sfumato ledger copy.
    """
    from sfumato.ledger import Ledger

    with Ledger.open(file) as ledger:
        ledger.export(form, out, complete=complete)
    if complete:
        click.echo(f"{out} is as secret as the ledger: with its key, guesses about rows can be tested.", err=True)


@command.command(epilog=EXIT_CODES)
@_file
@_out
def backup(file: Path | str, out: Path) -> None:
    """Copy FILE as it is at this moment to the new file OUT, while others go on using it.

    The users and tokens of a server, FILE.people, are copied to OUT.people. Of a database OUT is a file, too.
    """
    from sfumato.ledger import Ledger
    from sfumato.server.people.database import PeopleDatabase, beside

    with Ledger.open(file) as ledger:
        last = next((line.number for line in ledger.latest()), 0)
        ledger.backup(out)
    if isinstance(file, str) or not beside(file).exists():
        return
    people = PeopleDatabase(beside(file))
    try:
        people.backup(beside(out), last)
    finally:
        people.close()


@command.command(epilog=EXIT_CODES)
@click.argument("address")
@click.option("--schema", metavar="NAME", help="Where the ledger is in the database.  [default: sfumato]")
@click.option("--spender", metavar="ROLE", help="A role that may charge, and change nothing; made when it is missing.")
def init(address: str, schema: str | None, spender: str | None) -> None:
    """Make a ledger in the database ADDRESS, such as postgresql://host/db, as its owner; lines that are there stay.

    Curators then connect as ROLE. Passwords come from PGPASSWORD, ~/.pgpass or a service, never from the address.
    """
    from sfumato.ledger.stores.opening import make_ledger

    click.echo(f"A ledger is kept here: {make_ledger(address, schema=schema, spender=spender)}")


@command.command(epilog=EXIT_CODES)
@click.argument("source", metavar="FROM", type=LedgerAddress(exists=True))
@click.argument("target", metavar="TO", type=LedgerAddress())
@click.option("--anchor", type=click.Path(path_type=Path), metavar="FILE", help="An anchor of the newest line.")
@click.option("--accept-loss", is_flag=True, help="Accept that charges which only a lost ledger knew are forgotten.")
def copy(source: Path | str, target: Path | str, anchor: Path | None, accept_loss: bool) -> None:
    """Move a ledger: copy every line of FROM, as it is, to TO, which is a new file or an empty ledger in a database.

    Both are verified. Then a last line seals FROM: it can be read for ever, and charges nothing more. Run it again
    after a crash: it finishes what was begun. Connect to a database as the owner of its schema. A backup or a complete
    export, which may lack the newest charges, is copied with an anchor of its last line, or with --accept-loss.
    """
    from sfumato.ledger.moving import copy_ledger

    number, seal = copy_ledger(source, target, anchor=anchor, accept_loss=accept_loss)
    click.secho(f"{number:,} lines are copied; the last has the hash {seal}", fg="green")


@command.command(epilog=EXIT_CODES)
@_file
@click.option("--reason", required=True, metavar="TEXT", help="Why: kept in the ledger for ever.")
@click.option("--anchor", type=click.Path(path_type=Path), metavar="FILE", help="An anchor that was kept elsewhere.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def acknowledge(file: Path | str, reason: str, anchor: Path | None, yes: bool) -> None:
    """Accept, as the owner, that FILE has lost lines which anchors know, after a failover or a restored backup.

    What the anchors know was spent is added to the totals, so no budget is given back; then charging goes on. The
    anchors are those that you keep here, and the one that you name. Every curator that knows lost lines acknowledges
    them where it runs, as the user that it runs as.

    \b
    Example:
      sfumato ledger acknowledge postgresql://curator@host/db --reason "failover on Tuesday"
    """
    from sfumato.ledger import Ledger

    with Ledger.open(file, anchor=anchor) as ledger:
        lost = ledger.lost()
        for each in lost:
            accounts = ", ".join(account.name for account in each.accounts)
            click.echo(f"Line {each.number:,} is lost, and what stood there of the accounts {accounts}.")
        if not lost:
            click.echo("Nothing is lost: every line that an anchor knows is there, or was acknowledged.")
            return
        if not yes:
            click.confirm("Add what is known to the totals, and let charging go on?", abort=True)
        for line in ledger.acknowledge(reason=reason):
            click.echo(f"acknowledged: line {line.number}, account {line.account}")
