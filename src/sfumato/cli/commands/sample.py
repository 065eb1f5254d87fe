"""``sfumato sample``: draw synthetic rows from a model file; free."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.output import ProgressPrinter


@click.command(short_help="Draw synthetic rows from a model: free.", epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.option("--rows", metavar="N", help="The number of rows, such as 1e6.  [default: the noisy number of real rows]")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="The file to write: .parquet or .csv.",
)
def command(file: Path, rows: str | None, output: Path) -> None:
    """Draw any number of synthetic rows from the model in FILE. No data are read, nothing is charged.

    \b
    Example:
      sfumato sample people.sfu --rows 1e6 -o people.parquet
    """
    row_count = options.parse_row_count(rows)
    from sfumato.errors import InvalidParameter
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.synthetic import Synthetic, rows_file_path

    rows_file_path(output)
    model = synopsis(file)
    if not isinstance(model, Synthetic):
        fix = f'ask it: sfumato ask {file} "SELECT …"; or buy a model with sfumato synthesize'
        raise InvalidParameter("file", str(file), "a model: a synopsis has marginals and no rows", fix=fix)
    with ProgressPrinter() as progress:
        model.write(output, row_count, progress)
    rows_drawn = round(max(1.0, model.total)) if row_count is None else row_count
    click.echo(f"{output}: {rows_drawn:,} rows of {len(model.columns)} columns, drawn from {file}; nothing was charged")
