"""``sfumato sample``: draw synthetic rows from a model file; free."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.output import ProgressPrinter


@click.command(short_help="Draw synthetic rows from a model, for free.", epilog=EXIT_CODES_HELP)
@options.synopsis_file
@click.option("--rows", metavar="N", help="The number of rows, such as 1e6.  [default: the noisy number of real rows]")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="The file to write: .parquet, .csv, .duckdb or .sqlite.",
)
@click.option(
    "--given",
    "conditions",
    multiple=True,
    metavar="A=VALUE",
    help="Draw only rows in which column A is VALUE, from the model's exact conditional distribution. Repeatable; "
    "several values of one column mean any of them.",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="SQL",
    help='Draw no row that breaks this condition, such as "discharge >= admission". Repeatable.',
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="A seed: the same N draws the same rows again. It does not affect the model or its noise.",
)
def command(
    file: Path,
    rows: str | None,
    output: Path,
    conditions: tuple[str, ...],
    constraints: tuple[str, ...],
    seed: int | None,
) -> None:
    """Draw any number of synthetic rows from the model in FILE. No data are read, nothing is charged.

    \b
    Examples:
      sfumato sample people.sfu --rows 1e6 -o people.parquet
      sfumato sample people.sfu --rows 500 --given ward=ICU --constraint "discharge >= admission" -o icu.duckdb
    """
    row_count, given_texts = options.parse_row_count(rows), _parse_conditions(conditions)
    from sfumato.errors import InvalidParameter
    from sfumato.policy import Type
    from sfumato.publish.published_files import synopsis
    from sfumato.publish.row_writers import rows_file_path
    from sfumato.publish.synthetic import Synthetic
    from sfumato.publish.synthetic_tables import SyntheticTables

    rows_file_path(output)
    model = synopsis(file)
    if isinstance(model, SyntheticTables):
        fix = f'write all tables in Python, with sf.synopsis("{file}").write("folder")'
        raise InvalidParameter("file", str(file), "a model of one table, but this file has several", fix=fix)
    if not isinstance(model, Synthetic):
        fix = f'query it with sfumato ask {file} "SELECT …", or buy a model with sfumato synthesize'
        raise InvalidParameter("file", str(file), "a model, because a synopsis has only marginals", fix=fix)
    truth_columns = {attribute.name for attribute in model.attributes if attribute.type is Type.BOOLEAN}
    given_values = {
        name: [_TRUTHS.get(value, value) if name in truth_columns else value for value in values]
        for name, values in given_texts.items()
    }
    with ProgressPrinter() as progress:
        report = model.write(
            output, row_count, progress, conditions=given_values, constraints=list(constraints), seed=seed
        )
    rows_drawn = model.default_rows if row_count is None else row_count
    click.echo(f"{output}: {rows_drawn:,} rows of {len(model.columns)} columns, drawn from {file}; nothing was charged")
    if report is not None:
        click.echo(str(report))


_TRUTHS: dict[str | None, Any] = {"true": True, "false": False}


def _parse_conditions(texts: Sequence[str]) -> dict[str, list[str | None]]:
    """Collect the values of each column; NULL is a missing one."""
    conditions: dict[str, list[str | None]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"write a condition as --given ward=ICU, not {text}")
        conditions.setdefault(name.strip(), []).append(None if value.strip() == "NULL" else value.strip())
    return conditions
