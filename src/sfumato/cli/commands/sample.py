"""The command ``sfumato sample`` draws rows from a model's file, for nothing."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.output import ProgressLines


@click.command(short_help="Draw synthetic rows from a model: free.", epilog=EXIT_CODES)
@options.synopsis
@click.option("--rows", metavar="N", help="How many, such as 1e6.  [default: the noisy number of rows]")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="Where they go: .parquet or .csv, written part by part.",
)
def command(file: Path, rows: str | None, output: Path) -> None:
    """Draw rows from the model in FILE, any number of them. No row of anybody is read, and nothing is charged.

    \b
    Example:
      sfumato sample people.sfu --rows 1e6 -o people.parquet
    """
    wanted = options.rows(rows)
    from sfumato.errors import InvalidParameter
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.synthetic import Synthetic, check_rows_file

    check_rows_file(output)
    found = synopsis(file)
    if not isinstance(found, Synthetic):
        fix = f'ask it: sfumato ask {file} "SELECT …"; or buy a model with sfumato synthesize'
        raise InvalidParameter("file", str(file), "a model: a synopsis has marginals, and no rows", fix=fix)
    with ProgressLines() as progress:
        found.write(output, wanted, progress)
    drawn = round(max(1.0, found.total)) if wanted is None else wanted
    click.echo(f"{output}: {drawn:,} rows of {len(found.columns)} columns, drawn from {file}; nothing was charged")
