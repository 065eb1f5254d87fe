"""``sfumato quality``: compare a synthetic table with the real one, for the owner of the real one."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.command(short_help="Compare a synthetic table with the real one (for the owner).", epilog=EXIT_CODES_HELP)
@click.argument("real", type=click.Path(path_type=Path))
@click.argument("synthetic", type=click.Path(path_type=Path))
@click.option(
    "--policy", type=click.Path(path_type=Path), metavar="FILE", help="Use the values and bins declared in this policy."
)
@click.option("--table", metavar="NAME", help="With --policy: the table.  [default: the only private one]")
@click.option(
    "--columns", metavar="A,B", help="Compare only these columns.  [default: all columns that both tables have]"
)
@click.option(
    "--bins",
    type=int,
    default=20,
    show_default=True,
    help="Without --policy: the number of quantile bins of a numeric column.",
)
@click.option(
    "--target", metavar="COLUMN", help="Also train a model on each table to predict this column (needs scikit-learn)."
)
@click.option(
    "--private-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page with plots to FILE, such as out.html, readable by you alone, instead of printing.",
)
@options.as_json
def quality_command(
    real: Path,
    synthetic: Path,
    policy: Path | None,
    table: str | None,
    columns: str | None,
    bins: int,
    target: str | None,
    private_file: Path | None,
    as_json: bool,
) -> None:
    """Compare the table in SYNTHETIC with the one in REAL (.csv, .parquet or .duckdb), exactly.

    The figures are exact, without noise, and only for the owner of REAL: never log, share or publish them. To publish a
    comparison, buy a private one with curator.score.

    \b
    Examples:
      sfumato quality real.csv synthetic.csv
      sfumato quality real.csv synthetic.csv --policy clinic.toml --target income --private-file out.html
    """
    if private_file is not None and as_json:
        raise click.UsageError("give --private-file or --json, not both")
    if private_file is not None and not private_file.parent.is_dir():
        raise click.UsageError(f"there is no folder {private_file.parent}: create it, or name another folder")
    if private_file is not None and private_file.resolve() in (real.resolve(), synthetic.resolve()):
        raise click.UsageError(f"{private_file} is one of the tables: write to another file")
    from sfumato.quality import compare
    from sfumato.quality.comparing import HEADING

    column_names = None if columns is None else [name.strip() for name in columns.split(",")]
    comparison = compare(real, synthetic, policy=policy, table=table, columns=column_names, bins=bins, target=target)
    if private_file is not None:
        comparison.save(private_file)
        click.secho(HEADING, fg="red", bold=True)
        click.echo(f"{private_file}: the page, readable by you alone")
    elif as_json:
        click.echo(comparison.to_json())
    else:
        click.echo(str(comparison))
