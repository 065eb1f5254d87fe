"""``sfumato history``: list the lines of an account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

if TYPE_CHECKING:
    from sfumato.ledger import Line


@click.command(short_help="List what was asked, by whom, at what cost.", epilog=EXIT_CODES_HELP)
@options.policy
@options.analyst
@options.ledger
@options.server
@click.option(
    "--details",
    is_flag=True,
    help="Print the cost as the ledger counts it: pure (ε), renyi (Rényi divergence) and failure (δ).",
)
@options.as_json
def command(
    policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None, details: bool, as_json: bool
) -> None:
    """List every line of POLICY's account: number, time, analyst, kind, question, cost.

    \b
    Example:
      sfumato history clinic.toml --analyst ana
    """
    import json

    from sfumato.cli.common.output import print_table
    from sfumato.ledger.entries import LINE_COLUMNS

    lines = _read_lines(policy, analyst, ledger, server)
    if as_json:
        click.echo(json.dumps([line.summary() for line in lines], ensure_ascii=False))
        return
    rows = [line.words(details=details) for line in lines]
    if rows:
        print_table(LINE_COLUMNS, rows, LINE_COLUMNS[:1])
    else:
        click.echo("Nothing has been asked yet.")


def _read_lines(policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None) -> list[Line]:
    if server is None:
        from sfumato.curator import history

        return list(history(policy, ledger, analyst=analyst))
    with options.connect_to_server(server, policy, analyst, ledger) as curator:
        return list(curator.history())
