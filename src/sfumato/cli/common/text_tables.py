"""Tables are printed in the terminal, in aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

_WIDE = 10_000
"""Columns of a pipe or a file: nothing is folded there."""


def show(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = (), piped: int = _WIDE
) -> None:
    """Print aligned columns with a rule under their names; cells are plain text, whatever they hold. In a pipe or a
    file, lines are folded at ``piped`` columns.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sfumato.safe_text import printable

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=piped)
    right = set(numeric)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(Text(printable(name)), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    with console.capture() as made:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in made.get().splitlines()))
