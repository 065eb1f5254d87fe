"""``sfumato serve``: serve policies over HTTP until stopped."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.errors import SfumatoError
from sfumato.extras import install_command


@click.command(short_help="Serve policies over HTTP: REST and web pages.", epilog=EXIT_CODES_HELP)
@click.argument("policies", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--settings", type=click.Path(path_type=Path), metavar="FILE", help="The settings file, such as server.toml."
)
@click.option(
    "--listen", metavar="ADDRESS", help="The address to listen on, such as 127.0.0.1:8765 or unix:/run/sfumato.sock."
)
@click.option(
    "--postgres",
    metavar="ADDRESS",
    help="The address for PostgreSQL clients (psql, BI tools), such as 127.0.0.1:5433.  [default: none]",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="The number of server processes.  [default: 1]")
@options.ledger
def serve_command(
    policies: tuple[Path, ...],
    settings: Path | None,
    listen: str | None,
    postgres: str | None,
    processes: int | None,
    ledger: Path | str | None,
) -> None:
    """Serve POLICIES, which share one ledger, until Ctrl-C or SIGTERM; charged work is then finished first.

    A one-time login link for the owner is printed first. By default the server is reachable from this machine only.
    """
    try:
        from sfumato.server.serving import ProcessSettings, serve
        from sfumato.server.settings import ServerSettings, read_settings
    except ImportError:
        raise SfumatoError(
            "the server needs packages that are not installed", place="sfumato serve", fix=install_command("server")
        ) from None
    file_settings = ServerSettings() if settings is None else read_settings(settings)
    effective_settings = replace(
        file_settings,
        listen=listen or file_settings.listen,
        postgres=postgres or file_settings.postgres,
        processes=processes or file_settings.processes,
    )
    sys.exit(serve(ProcessSettings(policies, ledger, effective_settings), _print_link))


def _print_link(link: str) -> None:
    click.echo(f"Owner login, valid once: {link}")
    click.echo("Stop with Ctrl-C: charged questions are answered first.")
    sys.stdout.flush()
