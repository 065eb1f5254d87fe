"""``sfumato ask``: query a published synopsis or model; free."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, print_warning
from sfumato.garbage import exempt_imports
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

_MAX_BYTES = 1 << 20


@click.command(short_help="Query a published synopsis or model in SQL, for free.", epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.argument("sql")
@click.option(
    "--confidence",
    metavar="NUMBER",
    default=DEFAULT_CONFIDENCE,
    show_default=True,
    help="The confidence level of the range given for each number, such as 0.95.",
)
@click.option(
    "--joint",
    "--together",
    "together",
    is_flag=True,
    help="Make all ranges hold together with this confidence, not each by itself.",
)
@options.as_json
@options.as_csv
@options.plot
@options.whole_receipt
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
    """Ask the synopsis or model in FILE one SQL question ("-" reads it from stdin). Free: no data are read.

    A measured number is shown with its ± error. Any other number is shown as two bounds that hold the truth, followed
    by the model's estimate.

    \b
    Examples:
      sfumato ask people.sfu "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
      sfumato ask people.sfu "SELECT AVG(age) FROM people WHERE region = 'north'" --json
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    if plot is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(plot)
    from sfumato.cli.common.output import print_answer
    from sfumato.publish.published_files import synopsis

    text = sys.stdin.buffer.read(_MAX_BYTES).decode("utf-8", errors="surrogateescape") if sql == "-" else sql
    answer = synopsis(file).sql(text, confidence=confidence, together=together)
    for warning in answer.warnings:
        print_warning(warning)
    print_answer(answer, as_json=as_json, as_csv=as_csv, receipt=receipt)
    if plot is not None:
        answer.plot(str(plot))
    exempt_imports()
