"""The command ``sfumato token`` makes, lists and ends the tokens by which programs call a server."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES

_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@click.group(short_help="What programs call a server with.", epilog=EXIT_CODES)
def command() -> None:
    """Make, list and revoke tokens of the users of a server.

    \b
    Examples:
      sfumato token new ana --expires 90d --most 0.5 --label tableau
      sfumato token list
      sfumato token revoke 3
    """


def _span(_ctx: click.Context, _parameter: click.Parameter, written: str | None) -> timedelta | None:
    if written is None:
        return None
    found = _SPAN.fullmatch(written)
    if found is None:
        raise click.BadParameter("write a number and h, d or w, such as 90d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@command.command(epilog=EXIT_CODES)
@click.argument("user")
@click.option(
    "--expires", callback=_span, metavar="SPAN", help="How long it is good for: 12h, 90d, 8w.  [default: ever]"
)
@click.option(
    "--most",
    metavar="EPSILON",
    help="All that it may ever spend: the sum of ε over all its releases.  [default: all its user may]",
)
@click.option("--label", default="", metavar="TEXT", help="What it is for, to tell it from others.")
@options.ledger_here
def new(user: str, expires: timedelta | None, most: str | None, label: str, ledger: Path | str | None) -> None:
    """Make a token for USER and print it. It is shown this once, and nowhere kept: only its hash is.

    What a release will spend is reserved of --most before the account is charged. A process that is killed in between
    leaves it spent.
    """
    from sfumato.server.people.people_file import people_of, who_runs_this

    with people_of(ledger) as people:
        token, text = people.new_token(user, label=label, expires=expires, most=most, by=who_runs_this())
    click.echo(text)
    click.echo(f"token {token.number} of {user}: keep it now, it is not shown again", err=True)


@command.command("list", epilog=EXIT_CODES)
@click.option("--user", metavar="NAME", help="Those of one user.")
@options.ledger_here
@options.as_json
def list_tokens(user: str | None, ledger: Path | str | None, as_json: bool) -> None:
    """List every token: number, user, label, until when, the most it may spend, and what it has spent."""
    from sfumato.cli.common.output import show
    from sfumato.errors import at_most
    from sfumato.privacy.numbers import text
    from sfumato.server.people.people_file import people_of

    with people_of(ledger) as people:
        tokens = people.tokens(user)
    if as_json:
        said = [
            {
                "number": each.number,
                "user": each.user,
                "label": each.label,
                "made": each.made.isoformat(),
                "expires": None if each.expires is None else each.expires.isoformat(),
                "most": None if each.most is None else text(each.most),
                "spent": text(each.spent),
                "revoked": each.revoked,
            }
            for each in tokens
        ]
        click.echo(json.dumps(said, ensure_ascii=False))
        return
    if not tokens:
        click.echo("No token has been made yet.")
        return
    rows = [
        (
            str(each.number),
            each.user,
            each.label,
            "revoked" if each.revoked else "ever" if each.expires is None else f"{each.expires:%Y-%m-%d %H:%M}",
            "" if each.most is None else at_most(each.most),
            at_most(each.spent),
        )
        for each in tokens
    ]
    show(("number", "user", "label", "until (UTC)", "most ε", "spent ε"), rows, ("number", "most ε", "spent ε"))


@command.command(epilog=EXIT_CODES)
@click.argument("number", type=int)
@options.ledger_here
def revoke(number: int, ledger: Path | str | None) -> None:
    """End token NUMBER, at once and for ever."""
    from sfumato.server.people.people_file import people_of, who_runs_this

    with people_of(ledger) as people:
        token = people.revoke_token(number, by=who_runs_this())
    click.echo(f"revoked: token {number} of {token.user}")
