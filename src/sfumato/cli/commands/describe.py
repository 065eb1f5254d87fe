"""The command ``sfumato describe`` says what there is to ask, from the policy alone."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES


@click.command(short_help="What there is to ask, in words.", epilog=EXIT_CODES)
@options.policy
@click.argument("table", required=False)
def command(policy: Path, table: str | None) -> None:
    """Say in words whom POLICY protects, which tables and columns there are, and what they may hold; or this of one
    TABLE. Below stand questions to copy, each with its error. The policy alone is read: no data and no ledger.

    \b
    Examples:
      sfumato describe clinic.toml
      sfumato describe clinic.toml visits
    """
    from sfumato.curator import describe_policy

    tables = describe_policy(policy)
    click.echo(str(tables if table is None else tables.named(table)))
    shown = tables.values() if table is None else [tables.named(table)]
    asked = [each for one in shown for each in one.questions]
    if asked:
        line = f"sfumato query {shlex.quote(str(policy))} {shlex.quote(asked[0].sql)} --epsilon 1 --dry-run"
        click.echo(f"\nAsk one (without --dry-run it is charged):\n  {line}")
