"""The command ``sfumato dummy`` writes invented tables from a policy alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES

if TYPE_CHECKING:
    from sfumato.policy import Policy

_FILES = (".csv", ".tsv", ".gz", ".parquet", ".pq", ".duckdb", ".db")


@click.command(short_help="Write invented tables to try code on: free.", epilog=EXIT_CODES)
@options.policy
@click.option("--rows", metavar="N", default="1000", show_default=True, help="How many of each private table.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dummy"),
    show_default=True,
    help="A new folder, in which the policy is found again with tables that are nobody's.",
)
def command(policy: Path, rows: str, output: Path) -> None:
    """Invent a table for each of POLICY's, to write code against: from the policy alone.

    No data are opened and nothing is charged. Types, values, bounds and limits are those of the policy; the rows are
    the same every time, and no statistic of them means anything. Ask the policy in the new folder.

    \b
    Example:
      sfumato dummy clinic.toml --rows 1000 -o dummy
      sfumato query dummy/clinic.toml "SELECT COUNT(*) AS visits FROM visits" --epsilon 0.5
    """
    from sfumato.errors import InvalidPolicy
    from sfumato.policy import read

    if output.suffix.lower() in _FILES:
        raise click.UsageError(f"-o names a new folder for all tables, not a file: -o {output.with_suffix('')}")
    declared = read(policy)
    tables = declared.dummy(options.rows(rows) or 1)
    try:
        output.mkdir(parents=True)
    except OSError:
        raise InvalidPolicy("the folder for dummies is a new one", place=str(output), fix="name another") from None
    verbatim = _relative(declared, policy.parent)
    for name, table in tables.items():
        place = output / verbatim[name] if verbatim else output / f"{_plain(name)}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        _write(table, place, declared.tables[name].relation if verbatim else None)
        click.echo(f"Written: {place}, {table.num_rows:,} invented rows.")
    for name in declared.tables:
        if name not in tables:
            click.echo(f"Left out: {name}, which is public and declares no columns; copy it from its source.")
    if verbatim:
        (output / policy.name).write_bytes(policy.read_bytes())
        click.echo(f"Written: {output / policy.name}, the same policy over them, with an account of its own.")


def _relative(policy: Policy, folder: Path) -> dict[str, Path]:
    """Find where each source lies beside its policy; nothing unless all are files beside it or below."""
    found = {}
    for name, table in policy.tables.items():
        path = Path(str(getattr(table.source, "path", "")))
        if any(letter in path.name for letter in "*?[") or ".." in path.parts:
            return {}
        try:
            found[name] = path.relative_to(folder)
        except ValueError:
            return {}
    return found


def _write(table: Any, place: Path, relation: str | None) -> None:
    from pyarrow import csv, parquet

    if relation is not None:
        from sfumato.engine.opening import write_table

        write_table(table, place, relation)
    elif place.suffix.lower() == ".csv":
        csv.write_csv(table, place)
    else:
        parquet.write_table(table, place)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in " _-" else "_" for letter in name)
