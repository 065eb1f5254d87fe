"""The command ``sfumato history`` prints what was asked, by whom, and at what cost."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli import options
from sfumato.cli.exit_codes import EXIT_CODES


@click.command(short_help="What was asked, by whom, at what cost.", epilog=EXIT_CODES)
@options.policy
@options.analyst
@options.ledger
@options.as_json
def command(policy: Path, analyst: str | None, ledger: Path | None, as_json: bool) -> None:
    """List every line of POLICY's account: number, time, analyst, kind, question, cost.

    \b
    Example:
      sfumato history clinic.toml --analyst ana
    """
    import json

    from sfumato.cli.text_tables import show
    from sfumato.curator import history

    lines = history(policy, ledger, analyst=analyst)
    if as_json:
        click.echo(json.dumps([line.summary() for line in lines], ensure_ascii=False))
        return
    columns = ("number", "time (UTC)", "analyst", "kind", "question", "cost")
    rows = [line.words() for line in lines]
    if rows:
        show(columns, rows, ("number",))
    else:
        click.echo("Nothing has been asked yet.")
