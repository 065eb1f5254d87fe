"""``sfumato describe``: describe the tables and columns of a policy, without reading data."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.command(short_help="Describe what can be asked.", epilog=EXIT_CODES_HELP)
@options.policy
@click.argument("table", required=False)
def command(policy: Path, table: str | None) -> None:
    """Describe whom POLICY protects and what its tables and columns, or those of one TABLE, may contain.

    Example questions follow, each with its expected error. Only the policy is read: no data, no ledger.

    \b
    Examples:
      sfumato describe clinic.toml
      sfumato describe clinic.toml visits
    """
    from sfumato.curator import describe_policy

    tables = describe_policy(policy)
    click.echo(str(tables if table is None else tables.find(table)))
    described = tables.values() if table is None else [tables.find(table)]
    examples = [question for description in described for question in description.questions]
    if examples:
        line = f"sfumato query {shlex.quote(str(policy))} {shlex.quote(examples[0].sql)} --epsilon 1 --dry-run"
        click.echo(f"\nTry one (without --dry-run it is charged):\n  {line}")
