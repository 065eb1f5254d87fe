"""``sfumato token``: create, list and revoke the tokens with which programs call a server."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.errors import InvalidParameter

_SPAN_FORMAT = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_SPAN_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@click.group(short_help="Create, list or revoke the tokens of a server's users.", epilog=EXIT_CODES_HELP)
def command() -> None:
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


@command.command(epilog=EXIT_CODES_HELP)
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


@command.command("list", epilog=EXIT_CODES_HELP)
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


@command.command(epilog=EXIT_CODES_HELP)
@click.argument("number", type=int)
@options.ledger_here
def revoke(number: int, ledger: Path | str | None) -> None:
    """Revoke token NUMBER, immediately and permanently."""
    from sfumato.server.people.people_file import command_line_user, open_people_file

    with open_people_file(ledger) as people:
        token = people.revoke_token(number, by=command_line_user())
    click.echo(f"revoked: token {number} of {token.user}")
