"""The command ``sfumato ask`` asks a published synopsis or model, for nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, warn

_MOST_BYTES = 1 << 20


@click.command(short_help="Ask a published synopsis or model in SQL: free.", epilog=EXIT_CODES)
@options.synopsis
@click.argument("sql")
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every range.")
@click.option("--together", is_flag=True, help="Let all ranges of the answer hold at once.")
@options.as_json
@options.as_csv
@options.plot
@click.option("--receipt", is_flag=True, help="Print the whole receipt below the table.")
def command(
    file: Path,
    sql: str,
    confidence: str,
    together: bool,
    as_json: bool,
    as_csv: bool,
    plot: Path | None,
    receipt: bool,
) -> None:
    """Ask the synopsis or model in FILE one question in SQL ("-" reads it from stdin). Nothing is read or charged.

    A number that was measured is shown with ± its half-width. One that was not is bounded: the truth lies between the
    two ends, and the number after them is a model's.

    \b
    Examples:
      sfumato ask people.sfu "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
      sfumato ask people.sfu "SELECT AVG(age) FROM people WHERE region = 'north'" --json
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    if plot is not None:
        from sfumato.plots import check_picture

        check_picture(plot)
    from sfumato.cli.common.output import show_answer
    from sfumato.publish.published_files import synopsis

    text = sys.stdin.buffer.read(_MOST_BYTES).decode("utf-8", errors="surrogateescape") if sql == "-" else sql
    answer = synopsis(file).sql(text, confidence=confidence, together=together)
    for each in answer.warnings:
        warn(each)
    show_answer(answer, as_json=as_json, as_csv=as_csv, receipt=receipt)
    if plot is not None:
        answer.plot(str(plot))
