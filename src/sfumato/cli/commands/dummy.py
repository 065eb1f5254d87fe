"""``sfumato dummy``: write invented tables, made from a policy alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

if TYPE_CHECKING:
    from sfumato.policy import Policy

_FILE_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet", ".pq", ".duckdb", ".db")


@click.command(short_help="Write invented tables to test code on, for free.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option(
    "--rows", metavar="N", default="1000", show_default=True, help="The number of rows of each private table."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dummy"),
    show_default=True,
    help="A new folder for the invented tables and a copy of the policy.",
)
def command(policy: Path, rows: str, output: Path) -> None:
    """Invent rows for each table of POLICY, to develop code against. No data are read, nothing is charged.

    Types, values, bounds and limits are those of the policy. The rows are the same every time, and their statistics
    mean nothing. Query the policy in the new folder.

    \b
    Example:
      sfumato dummy clinic.toml --rows 1000 -o dummy
      sfumato query dummy/clinic.toml "SELECT COUNT(*) AS visits FROM visits" --epsilon 0.5
    """
    from sfumato.errors import InvalidPolicy
    from sfumato.policy import read

    if output.suffix.lower() in _FILE_SUFFIXES:
        raise click.UsageError(f"-o names a new folder for all tables, not a file: write -o {output.with_suffix('')}")
    parsed_policy = read(policy)
    tables = parsed_policy.dummy(options.parse_row_count(rows) or 1)
    try:
        output.mkdir(parents=True)
    except OSError:
        raise InvalidPolicy(
            "invented tables need a new folder, and this one already exists or cannot be created",
            place=str(output),
            fix="name another folder with -o",
        ) from None
    relative_paths = _relative_sources(parsed_policy, policy.parent)
    for name, table in tables.items():
        target = output / relative_paths[name] if relative_paths else output / f"{_file_stem(name)}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_table(table, target, parsed_policy.tables[name].relation if relative_paths else None)
        click.echo(f"Written: {target}, {table.num_rows:,} invented rows.")
    for name in parsed_policy.tables:
        if name not in tables:
            click.echo(f"Left out: {name}, a public table without declared columns; copy it from its source.")
    if relative_paths:
        (output / policy.name).write_bytes(policy.read_bytes())
        click.echo(f"Written: {output / policy.name}, the same policy for these tables, with its own account.")


def _relative_sources(policy: Policy, folder: Path) -> dict[str, Path]:
    """Return each source's path relative to the policy; empty unless all are plain files in its folder."""
    relative_paths = {}
    for name, table in policy.tables.items():
        path = Path(str(getattr(table.source, "path", "")))
        if any(letter in path.name for letter in "*?[") or ".." in path.parts:
            return {}
        try:
            relative_paths[name] = path.relative_to(folder)
        except ValueError:
            return {}
    return relative_paths


def _write_table(table: Any, target: Path, relation: str | None) -> None:
    from pyarrow import csv, parquet

    if relation is not None:
        from sfumato.engine.inspecting import write_table

        write_table(table, target, relation)
    elif target.suffix.lower() == ".csv":
        csv.write_csv(table, target)
    else:
        parquet.write_table(table, target)


def _file_stem(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in " _-" else "_" for letter in name)
