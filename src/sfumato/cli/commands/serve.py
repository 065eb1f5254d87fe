"""The command ``sfumato serve`` answers over HTTP until it is told to stop."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.errors import SfumatoError, installing


@click.command(short_help="Share policies over HTTP: REST and a page.", epilog=EXIT_CODES)
@click.argument("policies", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--settings", type=click.Path(path_type=Path), metavar="FILE", help="Such as server.toml.")
@click.option("--listen", metavar="ADDRESS", help="Such as 127.0.0.1:8765 or unix:/run/sfumato.sock.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="So many processes answer.  [default: 1]")
@options.ledger
def command(
    policies: tuple[Path, ...],
    settings: Path | None,
    listen: str | None,
    processes: int | None,
    ledger: Path | str | None,
) -> None:
    """Serve POLICIES, which share one ledger, until Ctrl-C or SIGTERM: then charged work ends, and nothing new begins.

    Prints a link that lets the owner in once. Only this machine reaches it, unless the settings say otherwise.
    """
    try:
        from sfumato.server.serving import ProcessSettings, serve
        from sfumato.server.settings import ServerSettings, read_settings
    except ImportError:
        raise SfumatoError("the server is not installed", place="sfumato serve", fix=installing("server")) from None
    found = ServerSettings() if settings is None else read_settings(settings)
    asked = replace(found, listen=listen or found.listen, processes=processes or found.processes)
    sys.exit(serve(ProcessSettings(policies, ledger, asked), _say))


def _say(link: str) -> None:
    click.echo(f"Open this once, as the owner: {link}")
    click.echo("Stop with Ctrl-C: what was charged is answered first.")
    sys.stdout.flush()
