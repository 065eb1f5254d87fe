"""The command ``sfumato synopsis`` shows and checks what was published: a synopsis, or a model."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, REFUSED


@click.group(short_help="Show, verify or tabulate a published synopsis.", epilog=EXIT_CODES)
def command() -> None:
    """Look into a published file, without data, curator or ledger. Nothing is charged.

    \b
    Examples:
      sfumato synopsis show people.sfu
      sfumato synopsis verify people.sfu --ledger lines.json
      sfumato synopsis marginal people.sfu sex age
    """


@command.command(epilog=EXIT_CODES)
@options.synopsis
def show(file: Path) -> None:
    """Say what FILE has: columns and their cells, marginals, the promise and the receipt."""
    from sfumato.publish.published_files import synopsis
    from sfumato.untrusted import printable

    found = synopsis(file)
    for line in f"{found!r}\n\n{found.receipt}".splitlines():
        click.echo(printable(line))


@command.command(epilog=EXIT_CODES)
@options.synopsis
@click.option(
    "--ledger",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="An export of the ledger (JSON), or an anchor of it: the line must be there.",
)
def verify(file: Path, ledger: Path | None) -> None:
    """Check FILE: every byte, the charge computed again from its plan, and the promise that follows."""
    from sfumato.errors import InvalidParameter
    from sfumato.publish.marginals.verifying import Check
    from sfumato.publish.published_files import FittedModel, synopsis

    published = synopsis(file)
    if isinstance(published, FittedModel):
        raise InvalidParameter(
            "file", str(file), "a synopsis or a synthetic table: what MWEM fitted is not verified yet"
        )
    found = published.verify(ledger)
    found = replace(found, checks=(Check("file", True, "format 1; every byte is as its hashes say"), *found.checks))
    click.secho(str(found), fg="green" if found.holds else "red", err=not found.holds)
    if not found.holds:
        sys.exit(REFUSED)


@command.command(epilog=EXIT_CODES)
@options.synopsis
@click.argument("columns", nargs=-1, required=True)
@click.option("--raw", is_flag=True, help="Leave out the counts that a table could have: only unbiased ones.")
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every range.")
@click.option("--together", is_flag=True, help="Let all ranges hold at once.")
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
    """Print the counts of all cells of some COLUMNS of FILE."""
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    from sfumato.cli.common.output import show_answer
    from sfumato.errors import InvalidParameter
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.synopsis import Synopsis

    published = synopsis(file)
    if not isinstance(published, Synopsis):
        fix = f'ask it: sfumato ask {file} "SELECT …"'
        raise InvalidParameter("file", str(file), "a synopsis: a model has no measured counts of every cell", fix=fix)
    found = published.marginal(list(columns), consistent=not raw, confidence=confidence, together=together)
    show_answer(found, as_json=as_json, as_csv=as_csv)
