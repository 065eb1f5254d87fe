"""The command ``sfumato above`` tells of many questions which are above a threshold, for one price."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.output import ProgressLines
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.curator import ThresholdSession


@click.command(short_help="Which of many counts are above a threshold.", epilog=EXIT_CODES)
@options.policy
@click.option("--threshold", metavar="NUMBER", required=True, help="What every question is compared with.")
@click.option("--positives", type=int, default=1, show_default=True, help="It ends after so many above.")
@click.option("--epsilon", metavar="NUMBER", required=True, help="The price of the whole session, charged at once.")
@click.option("--values-epsilon", metavar="NUMBER", help="The part of it that pays for the values of those above.")
@click.option("--sensitivity", metavar="NUMBER", help="What one unit may change in any question.")
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Allow counts of rows of this table.")
@click.option("--file", "source", type=click.File(encoding="utf-8"), help="Questions with semicolons between them.")
@options.analyst
@options.ledger
@options.session_id
@click.option("--explain", is_flag=True, help="Only say what would happen, step by step. Spends nothing.")
@options.as_json
def command(
    policy: Path,
    threshold: str,
    positives: int,
    epsilon: str,
    values_epsilon: str | None,
    sensitivity: str | None,
    tables: tuple[str, ...],
    source: TextIO | None,
    analyst: str | None,
    ledger: Path | str | None,
    request_id: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Open a session on POLICY and tell of each question whether it is above the threshold or below it, until so many
    were above. Questions are read from a file, or one from each line of the standard input.

    \b
    Example:
      sfumato above clinic.toml --threshold 100 --positives 3 --epsilon 1 --file questions.sql
    """
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        asking = curator if analyst is None else curator.as_analyst(analyst)
        proposal = asking.above(threshold, positives, sensitivity=sensitivity, tables=tables or None)
        if explain:
            said = proposal.explain(epsilon, values_epsilon=values_epsilon)
            click.echo(said.to_json() if as_json else str(said))
            return
        asked = _lines() if source is None else iter(proposal.written(source.read()))
        how: dict[str, Any] = {"values_epsilon": values_epsilon, "request_id": request_id}
        with progress.until_shown(), proposal.release(epsilon, **how) as session:
            progress("showing")
            _answer(session, asked, strict=source is not None, as_json=as_json)


def _lines() -> Iterator[str]:
    """Read one question from each line that is not empty."""
    for line in sys.stdin:
        question = line.strip().rstrip(";")
        if question:
            yield question


def _answer(session: ThresholdSession, asked: Iterator[str], *, strict: bool, as_json: bool) -> None:
    """Answer until the session ends. A line that cannot be asked is refused by itself, and costs nothing."""
    for question in asked:
        try:
            said = session.ask(question)
        except SfumatoError as refused:
            if strict or not session.left:
                raise
            click.echo(str(refused), err=True)
            continue
        click.echo(said.to_json() if as_json else f"{said}  {' '.join(question.split())}")
        if not session.left:
            break
    if not as_json:
        click.secho(f"\n{session.receipt.short()}", dim=True)
