"""``sfumato login``: save the token that identifies you to a server."""

from __future__ import annotations

import sys

import click

from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.command(short_help="Save your token for a server.", epilog=EXIT_CODES_HELP)
@click.argument("url")
@click.option("--forget", is_flag=True, help="Delete the saved token of this server.")
@click.option(
    "--certificate",
    metavar="FILE",
    help="A file with the certificates that verify the server, saved with the token.  [default: the system's]",
)
def command(url: str, forget: bool, certificate: str | None) -> None:
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
    from sfumato.client.addresses import Address, save_token
    from sfumato.client.remote_curators import visible_policies

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
