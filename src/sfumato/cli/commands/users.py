"""Users of a server and their tokens: ``sfumato user``, ``token`` and ``login``."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.errors import InvalidParameter


@click.command(short_help="Save your token for a server.", epilog=EXIT_CODES_HELP)
@click.argument("url")
@click.option("--forget", is_flag=True, help="Delete the saved token of this server.")
@click.option(
    "--certificate",
    metavar="FILE",
    help="A file with the certificates that verify the server, saved with the token.  [default: the system's]",
)
def login_command(url: str, forget: bool, certificate: str | None) -> None:
    """Prompt for your token for the server at URL, test it, and save it in a file that only you can read (0600).

    The token is not echoed; it is read from stdin if that is not a terminal. Anybody who has it can spend your share:
    the owner ends it with sfumato token revoke. The environment variable SFUMATO_TOKEN takes precedence over the file.

    \b
    Examples:
      sfumato login https://data.example.org
      sfumato login https://data.example.org < token.txt
      sfumato login https://data.example.org --certificate authority.pem
      sfumato login https://data.example.org --forget
    """
    from sfumato.client.remote_curators import visible_policies
    from sfumato.client.wire import Address, save_token

    address = Address.parse(url)
    if forget:
        click.echo(f"token deleted from {save_token(address, None)}")
        return
    token = _read_token()
    names = visible_policies(address, token, certificate=certificate)
    click.echo(f"token saved in {save_token(address, token, certificate)}")
    click.echo(f"policies on this server: {', '.join(names) or 'none that lists you yet'}")


def _read_token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True)).strip()
    return sys.stdin.readline().strip()


_SPAN_FORMAT = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_SPAN_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@click.group(short_help="Create, list or revoke the tokens of a server's users.", epilog=EXIT_CODES_HELP)
def token_command() -> None:
    """Create, list and revoke the tokens of a server's users.

    \b
    Examples:
      sfumato token new ana --expires 90d --most 0.5 --label tableau
      sfumato token list
      sfumato token revoke 3
    """


def _parse_span(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = _SPAN_FORMAT.fullmatch(text)
    if match is None:
        raise click.BadParameter("write a number and h (hours), d (days) or w (weeks), such as 90d")
    return timedelta(**{_SPAN_UNITS[match[2]]: int(match[1])})


@token_command.command(epilog=EXIT_CODES_HELP)
@click.argument("user")
@click.option(
    "--expires",
    callback=_parse_span,
    metavar="SPAN",
    help="How long the token is valid, such as 12h, 90d or 8w.  [default: it never expires]",
)
@click.option(
    "--most",
    metavar="EPSILON",
    help="The maximum ε that all releases with this token may spend in total.  [default: as much as its user]",
)
@click.option(
    "--price",
    default="",
    metavar="TERMS",
    help="The price, such as epsilon=0.1 or within=50, of questions from PostgreSQL clients that cannot set one.",
)
@click.option("--label", default="", metavar="TEXT", help="A note on what the token is for.")
@options.ledger_here
def new(
    user: str, expires: timedelta | None, most: str | None, price: str, label: str, ledger: Path | str | None
) -> None:
    """Create a token for USER and print it, this once: only its hash is stored.

    A release reserves its ε from --most before the account is charged. If the process is killed in between, the
    reservation stays spent.
    """
    from sfumato.server.people.people_file import command_line_user, open_people_file

    if price:
        _require_price(price)
    with open_people_file(ledger) as people:
        token, text = people.new_token(
            user, label=label, expires=expires, most=most, price=price, by=command_line_user()
        )
    click.echo(text)
    click.echo(f"token {token.number} of {user}: save it now, it is not shown again", err=True)


def _require_price(price: str) -> None:
    """Refuse a price that no question could have."""
    from sfumato.server.postgres.session_settings import parse_token_price
    from sfumato.server.postgres.statements import SqlRefusal

    try:
        parse_token_price(price)
    except SqlRefusal:
        fix = "for example, write epsilon=0.1, within=50 or rho=0.01"
        raise InvalidParameter("price", price, "an amount such as epsilon=0.1", fix=fix) from None


@token_command.command("list", epilog=EXIT_CODES_HELP)
@click.option("--user", metavar="NAME", help="List only the tokens of this user.")
@options.ledger_here
@options.as_json
def list_tokens(user: str | None, ledger: Path | str | None, as_json: bool) -> None:
    """List every token: number, user, label, expiry, the maximum ε it may spend, and what it has spent."""
    from sfumato.cli.common.output import print_table
    from sfumato.number_formats import format_rounded_down
    from sfumato.privacy.numbers import format_exact
    from sfumato.server.people.people_file import open_people_file

    with open_people_file(ledger) as people:
        tokens = people.tokens(user)
    if as_json:
        records = [
            {
                "number": token.number,
                "user": token.user,
                "label": token.label,
                "made": token.made.isoformat(),
                "expires": None if token.expires is None else token.expires.isoformat(),
                "most": None if token.most is None else format_exact(token.most),
                "spent": format_exact(token.spent),
                "revoked": token.revoked,
            }
            for token in tokens
        ]
        click.echo(json.dumps(records, ensure_ascii=False))
        return
    if not tokens:
        click.echo("There are no tokens yet.")
        return
    now = datetime.now(UTC)
    rows = [
        (
            str(token.number),
            token.user,
            token.label,
            token.end_reason(now) or ("never" if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M}"),
            "" if token.most is None else format_rounded_down(token.most),
            format_rounded_down(token.spent),
        )
        for token in tokens
    ]
    print_table(
        ("number", "user", "label", "expires (UTC)", "ε limit", "ε spent"), rows, ("number", "ε limit", "ε spent")
    )


@token_command.command(epilog=EXIT_CODES_HELP)
@click.argument("number", type=int)
@options.ledger_here
def revoke(number: int, ledger: Path | str | None) -> None:
    """Revoke token NUMBER, immediately and permanently."""
    from sfumato.server.people.people_file import command_line_user, open_people_file

    with open_people_file(ledger) as people:
        token = people.revoke_token(number, by=command_line_user())
    click.echo(f"revoked: token {number} of {token.user}")


@click.group(short_help="Add, disable, enable or list the users of a server.", epilog=EXIT_CODES_HELP)
def user_command() -> None:
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


@user_command.command(epilog=EXIT_CODES_HELP)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["owner", "analyst", "auditor"]),
    default="analyst",
    show_default=True,
    help="An owner administers, an analyst asks questions within a share of the budget, an auditor reads the whole "
    "ledger, but asks nothing.",
)
@options.ledger_here
def add(name: str, role: str, ledger: Path | str | None) -> None:
    """Add the user NAME. An analyst sees only the policies that name them under [analysts]."""
    from sfumato.server.people.people_file import command_line_user, open_people_file

    with open_people_file(ledger) as people:
        people.add_user(name, role, by=command_line_user())
    click.echo(f"added: {name}, {role}")


@user_command.command(epilog=EXIT_CODES_HELP)
@click.argument("name")
@options.ledger_here
def disable(name: str, ledger: Path | str | None) -> None:
    """Lock the user NAME out immediately, with all tokens and sessions. Their history stays."""
    _set_disabled(name, True, ledger)
    click.echo(f"disabled: {name}")


@user_command.command(epilog=EXIT_CODES_HELP)
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


@user_command.command(epilog=EXIT_CODES_HELP)
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


@user_command.command("list", epilog=EXIT_CODES_HELP)
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
