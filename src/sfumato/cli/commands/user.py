"""``sfumato user``: add, disable, enable and list the users of a server, and let them log in."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.group(short_help="Add, disable, enable or list the users of a server.", epilog=EXIT_CODES_HELP)
def command() -> None:
    """Add, disable, enable and list the users of a server, for all policies that share the ledger in this folder.

    Users are stored beside the ledger, in a file that only you can read. Every change is recorded there permanently.

    \b
    Examples:
      sfumato user add ana
      sfumato user add otto --role auditor
      sfumato user link ana
      sfumato user disable ana
      sfumato user list
    """


@command.command(epilog=EXIT_CODES_HELP)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["owner", "analyst", "auditor"]),
    default="analyst",
    show_default=True,
    help="An owner administers, an analyst asks questions within a share of the budget, an auditor reads all records.",
)
@options.ledger_here
def add(name: str, role: str, ledger: Path | str | None) -> None:
    """Add the user NAME. An analyst sees only the policies that name them under [analysts]."""
    from sfumato.server.people.people_file import command_line_user, open_people_file

    with open_people_file(ledger) as people:
        people.add_user(name, role, by=command_line_user())
    click.echo(f"added: {name}, {role}")


@command.command(epilog=EXIT_CODES_HELP)
@click.argument("name")
@options.ledger_here
def disable(name: str, ledger: Path | str | None) -> None:
    """Lock the user NAME out immediately, with all tokens and sessions. Their history stays."""
    _set_disabled(name, True, ledger)
    click.echo(f"disabled: {name}")


@command.command(epilog=EXIT_CODES_HELP)
@click.argument("name")
@options.ledger_here
def enable(name: str, ledger: Path | str | None) -> None:
    """Let the disabled user NAME in again: tokens that were not revoked work again, login links do not."""
    _set_disabled(name, False, ledger)
    click.echo(f"enabled: {name}")


def _set_disabled(name: str, disabled: bool, ledger: Path | str | None) -> None:
    from sfumato.server.people.people_file import command_line_user, open_people_file

    with open_people_file(ledger) as people:
        people.set_disabled(name, disabled, by=command_line_user())


@command.command(epilog=EXIT_CODES_HELP)
@click.argument("name")
@click.option(
    "--url",
    metavar="URL",
    default="http://127.0.0.1:8765",
    show_default=True,
    help="The address at which people open the server.",
)
@options.ledger_here
def link(name: str, url: str, ledger: Path | str | None) -> None:
    """Print a login link for the user NAME. It works once, within 15 minutes."""
    from sfumato.server.people.people_file import command_line_user, open_people_file

    with open_people_file(ledger) as people:
        secret = people.new_link(name, by=command_line_user())
    click.echo(f"{url.rstrip('/')}/login/{secret}")


@command.command("list", epilog=EXIT_CODES_HELP)
@options.ledger_here
@options.as_json
def list_users(ledger: Path | str | None, as_json: bool) -> None:
    """List every user: name, role, date added and state."""
    from sfumato.cli.common.output import print_table
    from sfumato.server.people.people_file import open_people_file

    with open_people_file(ledger) as people:
        users = people.users()
    if as_json:
        records = [
            {"name": user.name, "role": user.role.value, "made": user.made.isoformat(), "disabled": user.disabled}
            for user in users
        ]
        click.echo(json.dumps(records, ensure_ascii=False))
    elif users:
        state = {True: "disabled", False: "enabled"}
        rows = [(user.name, user.role.value, f"{user.made:%Y-%m-%d}", state[user.disabled]) for user in users]
        print_table(("name", "role", "since", "state"), rows)
    else:
        click.echo("There are no users yet.")
