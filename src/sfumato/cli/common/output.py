"""Tables are printed in the terminal, in aligned columns.

No command writes over what it reads: the policy, its tables, or the ledger of what was spent.

Answers from a synopsis are printed as a table, as JSON or as CSV.

Progress says what a slow command is doing: the phase, never a count or a share, which could tell of the data.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from sfumato.cli.common.exit_codes import end_interrupted

if TYPE_CHECKING:
    from sfumato.policy import Policy
    from sfumato.release.answers.answer import Answer


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

    from sfumato.untrusted import printable

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


def check_written(policy: Policy, ledger: Path | str | None, *files: Path | None) -> None:
    """Refuse files that cannot or must not be written, before anything is spent."""
    from sfumato.curator.policy_account import ledger_address

    named = [each for each in files if each is not None]
    for each in named:
        target = os.path.realpath(each)
        if target == _real(policy.path):
            raise click.UsageError(f"{each} is the policy: write to another file")
        kept = ledger_address(policy, ledger)
        if isinstance(kept, Path) and target.startswith(os.path.realpath(kept)):
            raise click.UsageError(f"{each} belongs to the ledger: write to another file")
        for table in policy.tables.values():
            source = _real(getattr(table.source, "path", None))
            if source is not None and (target == source or fnmatch(target, source)):
                raise click.UsageError(f"{each} is where {table.name} is read from: write to another file")
    if len({os.path.realpath(each) for each in named}) < len(named):
        raise click.UsageError(f"{named[0]} is named twice: give each a file of its own")


def _real(path: Path | None) -> str | None:
    return None if path is None else os.path.realpath(path)


def show_answer(answer: Answer, *, as_json: bool, as_csv: bool, receipt: bool = False) -> None:
    """Print an answer, with the lines of its receipt that everybody should read, or all of them."""
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        show(answer.columns, answer.cells(), answer.intervals)
        click.secho(f"\n{answer.receipt if receipt else answer.receipt.short()}", dim=True)


PATIENCE = 2.0
"""Seconds before anything is said."""
_STORED = ("writing down", "showing")
"""Phases in which an interruption, if it is not refused as a release that was charged and stopped, finds the answer
stored.
"""


class ProgressLines:
    """Progress lines tell a terminal each phase once the command has taken a while, and tell anything else nothing."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._phase = "starting"
        self._late = False
        self._timer = threading.Timer(patience, self._begin)
        self._timer.daemon = True

    def __call__(self, phase: str) -> None:
        self._phase = phase
        if self._late:
            self._say()

    @property
    def stored(self) -> bool:
        """Tell whether an interruption now finds the answer stored."""
        return self._phase in _STORED

    @contextmanager
    def until_shown(self) -> Iterator[None]:
        """Tell on a Ctrl-C, around a release and the printing of its answer, whether the answer is stored."""
        try:
            yield
        except KeyboardInterrupt:
            end_interrupted(stored=self.stored)

    def _begin(self) -> None:
        self._late = True
        self._say()

    def _say(self) -> None:
        click.secho(f"… {self._phase}", dim=True, err=True)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
