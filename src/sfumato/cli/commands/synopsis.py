"""``sfumato synopsis`` and ``ask``: read a published synopsis, and query it in SQL."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, REFUSED, print_warning
from sfumato.garbage import exempt_imports
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE


@click.group(short_help="Show, verify or tabulate a published synopsis.", epilog=EXIT_CODES_HELP)
def synopsis_command() -> None:
    """Inspect a published file, without data, curator or ledger. Nothing is charged.

    \b
    Examples:
      sfumato synopsis show people.sfu
      sfumato synopsis verify people.sfu --ledger lines.json
      sfumato synopsis marginal people.sfu sex age
    """


@synopsis_command.command(epilog=EXIT_CODES_HELP)
@options.synopsis_file
def show(file: Path) -> None:
    """Print the columns, cells, marginals, guarantee and receipt of FILE."""
    from sfumato.publish.published_files import synopsis
    from sfumato.untrusted import escape_unprintable

    published = synopsis(file)
    for line in f"{published!r}\n\n{published.receipt}".splitlines():
        click.echo(escape_unprintable(line))


@synopsis_command.command(epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.option(
    "--ledger",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="A JSON export or an anchor of the ledger: also check that it contains the charge for FILE.",
)
def verify(file: Path, ledger: Path | None) -> None:
    """Check every byte of FILE, recompute its charge from its plan, and check its guarantee."""
    from sfumato.errors import InvalidParameter
    from sfumato.publish.marginals.charge_verification import Check
    from sfumato.publish.published_files import FittedModel, synopsis

    published = synopsis(file)
    if isinstance(published, FittedModel):
        raise InvalidParameter(
            "file",
            str(file),
            "a synopsis or a synthetic table: a model fitted by MWEM cannot be verified yet",
            fix="name a file that sfumato publish or sfumato synthesize wrote",
        )
    verification = published.verify(ledger)
    verification = replace(
        verification, checks=(Check("file", True, "format 1; every byte matches its hash"), *verification.checks)
    )
    click.secho(str(verification), fg="green" if verification.holds else "red", err=not verification.holds)
    if not verification.holds:
        sys.exit(REFUSED)


@synopsis_command.command(epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.argument("columns", nargs=-1, required=True)
@click.option("--raw", is_flag=True, help="Print only the unbiased counts, without the consistent ones.")
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
def marginal(
    file: Path,
    columns: tuple[str, ...],
    raw: bool,
    confidence: str,
    together: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Print the counts of all cells of a marginal over COLUMNS of FILE."""
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    from sfumato.cli.common.output import print_answer
    from sfumato.errors import InvalidParameter
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.synopsis import Synopsis

    published = synopsis(file)
    if not isinstance(published, Synopsis):
        fix = f'query it with sfumato ask {file} "SELECT …"'
        raise InvalidParameter("file", str(file), "a synopsis, because a model has no measured counts", fix=fix)
    answer = published.marginal(list(columns), consistent=not raw, confidence=confidence, together=together)
    print_answer(answer, as_json=as_json, as_csv=as_csv)


@synopsis_command.command(epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="The file to write: .html, .md or .json.",
)
@click.option("--name", default="", metavar="TEXT", help="The title of the page.  [default: Synthetic TABLE]")
@click.option("--description", default="", metavar="TEXT", help="What the rows are, and whom they are for.")
@click.option("--licence", default="", metavar="TEXT", help="The licence of the rows, such as CC BY 4.0.")
@click.option("--contact", default="", metavar="TEXT", help="The contact for questions about the rows.")
@click.option(
    "--score",
    "scores",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with a score to show: the text that to_json() returned for a score bought with curator.score. "
    "Repeatable.",
)
def card(
    file: Path, output: Path, name: str, description: str, licence: str, contact: str, scores: tuple[Path, ...]
) -> None:
    """Write a model card of the synthetic table in FILE: what was measured, its price, errors and limits.

    It is computed from what was released, so it may be published with the rows.
    """
    from sfumato.errors import InvalidParameter
    from sfumato.publish.model_cards import card_path
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.scoring import CandidateScore
    from sfumato.publish.synthetic import Synthetic

    card_path(output)
    published = synopsis(file)
    if not isinstance(published, Synthetic):
        fix = "name a file that sfumato synthesize wrote with --model"
        raise InvalidParameter("file", str(file), "a model of a synthetic table", fix=fix)
    bought = [CandidateScore.from_json(score.read_text(encoding="utf-8")) for score in scores]
    published.card(name=name, description=description, licence=licence, contact=contact, scores=bought).save(output)
    click.echo(f"{output}: the card of {file}; nothing was charged")


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
def ask_command(
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
