"""The command ``sfumato login`` keeps the token by which a server knows you."""

from __future__ import annotations

import sys

import click

from sfumato.cli.common.exit_codes import EXIT_CODES


@click.command(short_help="Keep the token for a server.", epilog=EXIT_CODES)
@click.argument("url")
@click.option("--forget", is_flag=True, help="Keep no token for this server any more.")
@click.option(
    "--certificate",
    metavar="FILE",
    help="Certificates by which the server is known, kept beside the token.  [default: the system's]",
)
def command(url: str, forget: bool, certificate: str | None) -> None:
    """Ask for your token for the server at URL, try it, and keep it in a file that you alone can read (0600).

    The token is typed unseen, or read from stdin where that is no terminal. Whoever has it can spend your share: the
    owner ends it with sfumato token revoke. The environment variable SFUMATO_TOKEN is taken before the file.

    \b
    Examples:
      sfumato login https://data.example.org
      sfumato login https://data.example.org < token.txt
      sfumato login https://data.example.org --certificate authority.pem
      sfumato login https://data.example.org --forget
    """
    from sfumato.client.addresses import Address, keep_token
    from sfumato.client.remote_curators import policies_at

    address = Address.of(url)
    if forget:
        click.echo(f"kept no more: {keep_token(address, None)}")
        return
    token = _token()
    names = policies_at(address, token, certificate=certificate)
    click.echo(f"kept in {keep_token(address, token, certificate)}")
    click.echo(f"policies there: {', '.join(names) or 'none names you yet'}")


def _token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True)).strip()
    return sys.stdin.readline().strip()
