"""The command line: a skin on the library, no logic of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from sfumato import __version__
from sfumato.errors import SfumatoError


@contextmanager
def refusals() -> Iterator[None]:
    """A refusal is printed as rule, place and fix, and ends the command with exit code 1."""
    try:
        yield
    except SfumatoError as refusal:
        click.secho(str(refusal), fg="red", err=True)
        sys.exit(1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sfumato")
def main() -> None:
    """Private answers about people, with honest error bars and a budget that holds."""


@main.command()
@click.option("--pause/--no-pause", default=None, help="Wait for Enter between parts (default: when typed at).")
def demo(pause: bool | None) -> None:
    """A one-minute guided look at what a private release leaks."""
    from sfumato.cli.demo import tour

    tour(pause=sys.stdin.isatty() if pause is None else pause)


@main.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("policy.toml"), show_default=True)
@click.option("--relation", help="The table inside DATA when it is a DuckDB database.")
def init(data: Path, output: Path, relation: str | None) -> None:
    """Draft a policy for the table in DATA (.csv, .parquet or .duckdb) by asking you about it.

    The names and types of the columns are shown; no row is read. Bounds and categories are yours to type: taken
    from the data they would tell of the people in it. An existing file is never overwritten.

    Exit codes: 0 written, 1 refused, 2 wrong usage.
    """
    from sfumato.cli.init import interview

    with refusals():
        interview(data, output, relation)


@main.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--public", is_flag=True, help="Only validate and fingerprint: print nothing that is private.")
def check(policy: Path, public: bool) -> None:
    """Validate POLICY and its sources, and tell you, the owner, what bounds and limits cost.

    The figures marked PRIVATE are exact and protected by no noise: never log, share or publish them. They are printed
    and kept nowhere.

    Exit codes: 0 good, 1 the policy or a source is wrong, 2 wrong usage.
    """
    from sfumato.cli.check import report

    with refusals():
        report(policy, private=not public)
