"""``sfumato history``: what was asked, by whom, at what cost."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli import options
from sfumato.cli.exits import EXIT_CODES


@click.command(short_help="What was asked, by whom, at what cost.", epilog=EXIT_CODES)
@options.policy
@options.analyst
@options.ledger
@options.as_json
def command(policy: Path, analyst: str | None, ledger: Path | None, as_json: bool) -> None:
    """Every line of POLICY's account: number, time, analyst, kind, question, cost.

    \b
    Example:
      sfumato history clinic.toml --analyst ana
    """
    import json

    from sfumato.cli.tables import show
    from sfumato.curator.bookkeeping import history
    from sfumato.policy.toml_files import read

    lines = history(read(policy), ledger, analyst)
    if as_json:
        click.echo(json.dumps([line.summary() for line in lines], ensure_ascii=False))
        return
    columns = ("number", "time (UTC)", "analyst", "kind", "question", "cost")
    rows = [line.words() for line in lines]
    if rows:
        show(columns, rows, ("number",))
    else:
        click.echo("Nothing has been asked yet.")
