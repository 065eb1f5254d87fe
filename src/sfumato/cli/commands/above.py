"""``sfumato above``: compare many counts with one threshold, for one price (the sparse vector technique)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.output import ProgressPrinter
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.curator import ThresholdSession


@click.command(short_help="Find which of many counts exceed a threshold.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--threshold", metavar="NUMBER", required=True, help="The threshold that every count is compared with.")
@click.option(
    "--positives", type=int, default=1, show_default=True, help="Stop after this many counts above the threshold."
)
@click.option(
    "--epsilon",
    metavar="NUMBER",
    required=True,
    help="The price of the whole session: its privacy loss ε, charged at once.",
)
@click.option(
    "--values-epsilon",
    metavar="NUMBER",
    help="The part of --epsilon that pays for noisy values of the counts above the threshold.",
)
@click.option(
    "--sensitivity",
    metavar="NUMBER",
    help="The largest change that one unit can cause in a count.  [default: from the policy]",
)
@click.option(
    "--table", "tables", multiple=True, metavar="NAME", help="Let the questions count rows of this table. Repeatable."
)
@click.option(
    "--file",
    "source",
    type=click.File(encoding="utf-8"),
    help="Read the questions from this file, separated by semicolons.",
)
@options.analyst
@options.ledger
@options.session_id
@options.explain
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
    """Open a session on POLICY that answers "above" or "below" for each question, until --positives of them were above.

    The questions come from --file, or one per line from standard input.

    \b
    Example:
      sfumato above clinic.toml --threshold 100 --positives 3 --epsilon 1 --file questions.sql
    """
    from sfumato.curator import Curator

    with ProgressPrinter() as progress, Curator(policy, ledger, progress=progress) as curator:
        asker = curator if analyst is None else curator.as_analyst(analyst)
        proposal = asker.above(threshold, positives, sensitivity=sensitivity, tables=tables or None)
        if explain:
            explanation = proposal.explain(epsilon, values_epsilon=values_epsilon)
            click.echo(explanation.to_json() if as_json else str(explanation))
            return
        questions = _read_questions() if source is None else iter(proposal.parse_file(source.read()))
        release_options: dict[str, Any] = {"values_epsilon": values_epsilon, "request_id": request_id}
        with progress.exit_on_interrupt(), proposal.release(epsilon, **release_options) as session:
            progress("showing")
            _answer_questions(session, questions, strict=source is not None, as_json=as_json)


def _read_questions() -> Iterator[str]:
    """Yield one question per non-empty line of stdin."""
    for line in sys.stdin:
        question = line.strip().rstrip(";")
        if question:
            yield question


def _answer_questions(session: ThresholdSession, questions: Iterator[str], *, strict: bool, as_json: bool) -> None:
    """Answer until the session ends. A question that is refused costs nothing; it ends a ``strict`` session."""
    for question in questions:
        try:
            answer = session.ask(question)
        except SfumatoError as refusal:
            if strict or not session.remaining:
                raise
            click.echo(str(refusal), err=True)
            continue
        click.echo(answer.to_json() if as_json else f"{answer}  {' '.join(question.split())}")
        if not session.remaining:
            break
    if not as_json:
        click.secho(f"\n{session.receipt.short()}", dim=True)
