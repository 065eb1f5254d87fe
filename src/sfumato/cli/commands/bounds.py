"""The command ``sfumato bounds`` finds a range for a column of numbers or dates, privately."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options, searching
from sfumato.cli.common.exit_codes import EXIT_CODES


@click.command(short_help="Find bounds for a column, privately.", epilog=EXIT_CODES)
@options.policy
@click.argument("table")
@click.argument("column")
@searching.epsilon
@click.option("--cover", metavar="NUMBER", default="0.99", show_default=True, help="The share of values to cover.")
@searching.confidence
@options.analyst
@options.ledger
@options.request_id
@searching.dry_run
@options.as_json
def command(
    policy: Path,
    table: str,
    column: str,
    epsilon: str,
    cover: str,
    confidence: str,
    analyst: str | None,
    ledger: Path | str | None,
    request_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Find bounds for a COLUMN of a TABLE of POLICY, which need not declare any. What is found is printed as a line to
    paste into the policy.

    \b
    Example:
      sfumato bounds clinic.toml visits cost --epsilon 0.1
    """
    searching.search(
        policy,
        ledger,
        analyst,
        lambda curator: curator.bounds(table, column, cover=cover),
        (epsilon, confidence),
        request_id,
        dry=dry_run,
        as_json=as_json,
    )
