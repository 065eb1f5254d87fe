"""The command ``sfumato limits`` finds how many rows and groups of one unit may count, privately."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options, searching
from sfumato.cli.common.exit_codes import EXIT_CODES


@click.command(short_help="Find limits of one unit, privately.", epilog=EXIT_CODES)
@options.policy
@click.argument("table")
@searching.epsilon
@click.option("--by", multiple=True, metavar="COLUMN", help="A column whose values are groups: limits them too.")
@click.option("--share", metavar="NUMBER", default="0.95", show_default=True, help="Of the units, to be held whole.")
@searching.confidence
@options.analyst
@options.ledger
@options.request_id
@searching.dry_run
@options.as_json
def command(
    policy: Path,
    table: str,
    epsilon: str,
    by: tuple[str, ...],
    share: str,
    confidence: str,
    analyst: str | None,
    ledger: Path | str | None,
    request_id: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Find max_rows, and max_groups with --by, for a TABLE of POLICY. What is found is printed as lines to paste into
    the policy.

    \b
    Example:
      sfumato limits clinic.toml visits --by ward --epsilon 0.1
    """
    searching.search(
        policy,
        ledger,
        analyst,
        lambda curator: curator.limits(table, by=by, share=share),
        (epsilon, confidence),
        request_id,
        dry=dry_run,
        as_json=as_json,
    )
