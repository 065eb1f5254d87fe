"""``sfumato ledger``: verify, export, back up, create or move a ledger."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.options import LedgerAddress
from sfumato.cli.common.output import slow_progress
from sfumato.errors import OUTCOMES

_file = click.argument("file", type=LedgerAddress(exists=True))
_out = click.argument("out", type=click.Path(path_type=Path))


@click.group(short_help="Verify, export, back up, create or move a ledger.", epilog=EXIT_CODES_HELP)
def ledger_command() -> None:
    """Verify, export, back up, create or move a ledger. FILE is a file, or a database address: postgresql://host/db.

    \b
    Examples:
      sfumato ledger verify sfumato.ledger
      sfumato ledger init postgresql://host/db --spender curator
      sfumato ledger copy sfumato.ledger postgresql://host/db
      sfumato ledger export sfumato.ledger lines.csv --format csv
      sfumato ledger backup sfumato.ledger copies/2024-06-01.ledger
      sfumato ledger acknowledge sfumato.ledger --reason "restored after the disk failed"
    """


@ledger_command.command(epilog=EXIT_CODES_HELP)
@_file
@click.option("--resume", is_flag=True, help="Continue an interrupted verification: read only the remaining lines.")
def verify(file: Path | str, resume: bool) -> None:
    """Check the seal of every line of FILE, its link to the previous line, and every total.

    A long ledger is read in parts, on all processors.
    """
    from sfumato.ledger import Ledger

    with Ledger.open(file) as ledger:
        verification = ledger.verify(progress=slow_progress(), resume=resume)
    click.secho(str(verification), fg="green" if verification.holds else "red", err=not verification.holds)
    if not verification.holds:
        sys.exit(OUTCOMES["ledger-damaged"].exit_code)


@ledger_command.command(epilog=EXIT_CODES_HELP)
@_file
@_out
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv", "arrow"]),
    default="json",
    show_default=True,
    help="The file format of OUT.",
)
@click.option(
    "--complete",
    is_flag=True,
    help="Include the key and the salts (JSON only), so that a ledger can be restored from OUT. OUT is then as "
    "secret as FILE.",
)
def export(file: Path | str, out: Path, form: str, complete: bool) -> None:
    """Write every line of FILE to the new file OUT, readable by you alone.

    A complete export can be turned into a ledger again with sfumato ledger copy.
    """
    from sfumato.ledger import Ledger

    with Ledger.open(file) as ledger:
        ledger.export(form, out, complete=complete)
    if complete:
        click.echo(
            f"Keep {out} as secret as the ledger: whoever has the key in it can test guesses about rows.", err=True
        )


@ledger_command.command(epilog=EXIT_CODES_HELP)
@_file
@_out
def backup(file: Path | str, out: Path) -> None:
    """Copy the current state of FILE to the new file OUT, while others keep using FILE.

    The users and tokens of a server, FILE.people, are copied to OUT.people. If FILE is a database, OUT is still a file.
    """
    from sfumato.ledger import Ledger
    from sfumato.server.people.database import PeopleDatabase, people_file_path

    with Ledger.open(file) as ledger:
        last_line = next((line.number for line in ledger.latest()), 0)
        ledger.backup(out)
    if isinstance(file, str) or not people_file_path(file).exists():
        return
    people = PeopleDatabase(people_file_path(file))
    try:
        people.backup(people_file_path(out), last_line)
    finally:
        people.close()


@ledger_command.command(epilog=EXIT_CODES_HELP)
@click.argument("address")
@click.option("--schema", metavar="NAME", help="The database schema of the ledger.  [default: sfumato]")
@click.option("--spender", metavar="ROLE", help="A role that may append charges and nothing else; created if missing.")
def init(address: str, schema: str | None, spender: str | None) -> None:
    """Create a ledger in the database ADDRESS, such as postgresql://host/db, as its owner; existing lines stay.

    Curators then connect as ROLE. Passwords come from PGPASSWORD, ~/.pgpass or a service, never from the address.
    """
    from sfumato.ledger.stores.opening import make_ledger

    click.echo(f"The ledger is ready: {make_ledger(address, schema=schema, spender=spender)}")


@ledger_command.command(epilog=EXIT_CODES_HELP)
@click.argument("source", metavar="FROM", type=LedgerAddress(exists=True))
@click.argument("target", metavar="TO", type=LedgerAddress())
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="If FROM is a backup or an export: a file with an anchor of its last line, as proof that no charge is missing "
    "from FROM.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Accept that charges made after the last line of FROM, in a ledger that is now lost, are forgotten.",
)
def copy(source: Path | str, target: Path | str, anchor: Path | None, accept_loss: bool) -> None:
    """Move a ledger: copy every line of FROM unchanged to TO, a new file or an empty ledger in a database.

    Both are verified. A last line then closes FROM: it stays readable and accepts no more charges. After a crash, run
    the command again to finish. Connect to a database as the owner of its schema. A backup or a complete export may
    lack the newest charges: copy it with an --anchor of its last line, or with --accept-loss.
    """
    from sfumato.ledger.moving import copy_ledger
    from sfumato.plan.descriptions import count_with_noun

    line_count, last_hash = copy_ledger(source, target, anchor=anchor, accept_loss=accept_loss)
    click.secho(f"copied {count_with_noun(line_count, 'line')}; the hash of the last line is {last_hash}", fg="green")


@ledger_command.command(epilog=EXIT_CODES_HELP)
@_file
@click.option("--reason", required=True, metavar="TEXT", help="The reason, recorded permanently in the ledger.")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="An anchor file that you saved elsewhere: FILE is also checked for the line that this anchor records.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def acknowledge(file: Path | str, reason: str, anchor: Path | None, yes: bool) -> None:
    """Accept, as the owner, that FILE lost lines recorded in anchors, after a failover or a restored backup.

    The spending recorded in the anchors is added to the totals, so no budget is given back; then charging continues.
    The anchors are those on this machine and the one you name. Run this for every curator that knows of lost lines, on
    its machine and as its user.

    \b
    Example:
      sfumato ledger acknowledge postgresql://curator@host/db --reason "failover on Tuesday"
    """
    from sfumato.ledger import Ledger

    with Ledger.open(file, anchor=anchor) as ledger:
        lost_anchors = ledger.lost()
        for lost_anchor in lost_anchors:
            accounts = ", ".join(account.name for account in lost_anchor.accounts)
            click.echo(f"Line {lost_anchor.number:,} is lost, with its charges to the accounts {accounts}.")
        if not lost_anchors:
            click.echo("There is nothing to acknowledge: every anchored line is present, or was acknowledged as lost.")
            return
        if not yes:
            click.confirm("Add the recorded spending to the totals and continue charging?", abort=True)
        for line in ledger.acknowledge(reason=reason):
            click.echo(f"acknowledged: line {line.number}, account {line.account}")
