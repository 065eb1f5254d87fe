"""The command line: a skin on the library, no logic of its own."""

from __future__ import annotations

import sys

import click

from sfumato import __version__


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
