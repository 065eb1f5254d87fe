"""The command ``sfumato user`` says who may call a server, and as what."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES


@click.group(short_help="Who may call a server.", epilog=EXIT_CODES)
def command() -> None:
    """Add, disable and list the users of a server: of all policies that share the ledger in this folder.

    They are kept beside the ledger, in a file that only you can read. What you do is written there, too, for ever.

    \b
    Examples:
      sfumato user add ana
      sfumato user add otto --role auditor
      sfumato user disable ana
      sfumato user list
    """


@command.command(epilog=EXIT_CODES)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["owner", "analyst", "auditor"]),
    default="analyst",
    show_default=True,
    help="An owner decides, an analyst asks within a share, an auditor reads all that was done.",
)
@options.ledger_here
def add(name: str, role: str, ledger: Path | str | None) -> None:
    """Add NAME. An analyst may ask the policies whose [analysts] name them, and sees no others."""
    from sfumato.server.people.people_file import people_of, who_runs_this

    with people_of(ledger) as people:
        people.add_user(name, role, by=who_runs_this())
    click.echo(f"added: {name}, {role}")


@command.command(epilog=EXIT_CODES)
@click.argument("name")
@click.option("--again", is_flag=True, help="Let them in again instead.")
@options.ledger_here
def disable(name: str, again: bool, ledger: Path | str | None) -> None:
    """Let NAME in no more, with all tokens and sessions, at once. Their history stays."""
    from sfumato.server.people.people_file import people_of, who_runs_this

    with people_of(ledger) as people:
        people.set_disabled(name, not again, by=who_runs_this())
    click.echo(f"{'enabled' if again else 'disabled'}: {name}")


@command.command("list", epilog=EXIT_CODES)
@options.ledger_here
@options.as_json
def list_users(ledger: Path | str | None, as_json: bool) -> None:
    """List every user: name, role, since when, and whether they are let in."""
    from sfumato.cli.common.output import show
    from sfumato.server.people.people_file import people_of

    with people_of(ledger) as people:
        users = people.users()
    if as_json:
        said = [
            {"name": each.name, "role": each.role.value, "made": each.made.isoformat(), "disabled": each.disabled}
            for each in users
        ]
        click.echo(json.dumps(said, ensure_ascii=False))
    elif users:
        state = {True: "disabled", False: "let in"}
        rows = [(each.name, each.role.value, f"{each.made:%Y-%m-%d}", state[each.disabled]) for each in users]
        show(("name", "role", "since", "state"), rows)
    else:
        click.echo("Nobody has been added yet.")
