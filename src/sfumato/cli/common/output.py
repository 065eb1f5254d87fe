"""Output of commands: aligned tables, answers as table, JSON or CSV, and progress lines.

No command overwrites what it reads: the policy, its data or the ledger.

Progress of a release names the phase, never a count or a percentage, which could reveal something of the data.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from sfumato.cli.common.exit_codes import exit_interrupted

if TYPE_CHECKING:
    from sfumato.policy import Policy
    from sfumato.release.answers.answer import Answer


_PIPE_WIDTH = 10_000
"""The width of a pipe or a file, in characters: wide enough that nothing is folded."""


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = (), pipe_width: int = _PIPE_WIDTH
) -> None:
    """Print a table with aligned columns; cells are shown as plain text, with control characters escaped.

    In a pipe or a file, lines are folded at ``pipe_width`` characters.
    """
    from sfumato.untrusted import escape_unprintable

    header = [escape_unprintable(name) for name in columns]
    cells = [[escape_unprintable(cell) for cell in row] for row in rows]
    numeric = set(numeric)
    right_aligned = [name in numeric for name in columns]
    lines = _align_plain_cells(header, cells, right_aligned, pipe_width)
    click.echo("\n".join(lines or _align_any_cells(header, cells, right_aligned, pipe_width)))


_CONSOLE_VARIABLES = ("COLUMNS", "FORCE_COLOR", "JUPYTER_COLUMNS", "TTY_COMPATIBLE")
"""Variables of the environment that change what a console shows."""
_SINGLE_WIDTH = re.compile(r"[ -~\u00a1-\u00ac\u00ae-\u02ff\u0384-\u03ff\u2012-\u2027\u2260-\u2265\u2500-\u257f]*")
"""Characters that each take one cell of a terminal."""


def _align_plain_cells(
    header: Sequence[str], rows: Sequence[Sequence[str]], right_aligned: Sequence[bool], pipe_width: int
) -> list[str]:
    """Return the lines of a table that needs no folding, as ``_align_any_cells`` does without importing a library that
    takes a twentieth of a short command; none for other tables and consoles.
    """
    if not header or any(len(row) != len(header) for row in rows):
        return []
    is_terminal = sys.stdout.isatty()
    max_width = shutil.get_terminal_size().columns if is_terminal else pipe_width
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    width = sum(widths) + 3 * (len(widths) - 1)
    is_plain = all(
        _SINGLE_WIDTH.fullmatch(cell) and not (cell.startswith(" ") or cell.endswith(" "))
        for cells in (header, *rows)
        for cell in cells
    )
    if not (is_plain and width <= max_width and all(widths)) or any(map(os.environ.get, _CONSOLE_VARIABLES)):
        return []
    aligned = [
        "   ".join(
            cell.rjust(column_width) if is_right else cell.ljust(column_width)
            for cell, column_width, is_right in zip(cells, widths, right_aligned, strict=True)
        )
        for cells in (header, *rows)
    ]
    title, *lines = (line.rstrip() for line in aligned)
    is_styled = is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return [click.style(title, bold=True) if is_styled else title, "─" * width, *lines]


def _align_any_cells(
    header: Sequence[str], rows: Sequence[Sequence[str]], right_aligned: Sequence[bool], pipe_width: int
) -> list[str]:
    """Return the lines of a table whose characters may be wide, and whose lines are folded at the console's width."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=pipe_width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, is_right in zip(header, right_aligned, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as rendered:
        console.print(table)
    return [line.rstrip() for line in rendered.get().splitlines()]


def check_output_files(policy: Policy, ledger: Path | str | None, *files: Path | None) -> None:
    """Refuse, before anything is spent, to write over the policy, its data or its ledger."""
    from sfumato.curator.policy_account import ledger_address

    targets = [file for file in files if file is not None]
    for file in targets:
        target = os.path.realpath(file)
        if target == _real_path(policy.path):
            raise click.UsageError(f"{file} is the policy: write to another file")
        ledger_location = ledger_address(policy, ledger)
        if isinstance(ledger_location, Path) and target.startswith(os.path.realpath(ledger_location)):
            raise click.UsageError(f"{file} belongs to the ledger: write to another file")
        for table in policy.tables.values():
            source = _real_path(getattr(table.source, "path", None))
            if source is not None and (target == source or fnmatch(target, source)):
                raise click.UsageError(f"{file} holds the data of {table.name}: write to another file")
    if len({os.path.realpath(file) for file in targets}) < len(targets):
        raise click.UsageError(f"{targets[0]} is named twice: give each output its own file")


def _real_path(path: Path | None) -> str | None:
    return None if path is None else os.path.realpath(path)


def print_answer(answer: Answer, *, as_json: bool, as_csv: bool, receipt: bool = False) -> None:
    """Print an answer with its short receipt, or with the whole one."""
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        print_table(answer.columns, answer.cells(), answer.intervals)
        for line in answer.caveat_lines():
            click.echo(line)
        click.secho(f"\n{answer.receipt if receipt else answer.short_receipt()}", dim=True)


PROGRESS_DELAY = 2.0
"""Seconds before progress is shown."""
_STORED = ("writing down", "showing")
"""Phases in which an interrupted release has stored its answer, unless it is refused as charged but not answered."""


def slow_progress(patience: float = PROGRESS_DELAY) -> Callable[[str], None]:
    """Return a progress callback that prints on a terminal, from some seconds on and at most once a second. It needs no
    thread, so that its caller may fork.
    """
    next_time = time.monotonic() + patience

    def print_phase(phase: str) -> None:
        nonlocal next_time
        if sys.stderr.isatty() and time.monotonic() >= next_time:
            next_time = time.monotonic() + 1
            click.secho(f"… {phase}", dim=True, err=True)

    return print_phase


class ProgressPrinter:
    """A progress callback that prints each phase of a slow command on a terminal, and nothing elsewhere.

    With ``pipe_seconds`` it also prints to a file or a pipe, at most one phase in so many seconds.
    """

    def __init__(self, patience: float = PROGRESS_DELAY, pipe_seconds: float | None = None) -> None:
        self._phase = "starting"
        self._is_slow = False
        self._pipe_seconds = None if sys.stderr.isatty() else pipe_seconds
        self._is_shown = sys.stderr.isatty() or pipe_seconds is not None
        self._next_time = 0.0
        self._timer = threading.Timer(patience, self._start_printing)
        self._timer.daemon = True

    def __call__(self, phase: str) -> None:
        self._phase = phase
        if self._is_slow:
            self._print_phase()

    @property
    def is_answer_stored(self) -> bool:
        """Whether the answer is already stored in the current phase."""
        return self._phase in _STORED

    @contextmanager
    def exit_on_interrupt(self) -> Iterator[None]:
        """Wrap a release and the printing of its answer: a Ctrl-C exits and says whether the answer is stored."""
        try:
            yield
        except KeyboardInterrupt:
            exit_interrupted(stored=self.is_answer_stored)

    def stop_printing(self) -> None:
        """Print no further phases: a person is being asked something."""
        self._timer.cancel()
        self._is_slow = False

    def _start_printing(self) -> None:
        self._is_slow = True
        self._print_phase()

    def _print_phase(self) -> None:
        if time.monotonic() >= self._next_time:
            self._next_time = time.monotonic() + (self._pipe_seconds or 0.0)
            click.secho(f"… {self._phase}", dim=True, err=True)

    def __enter__(self) -> Self:
        if self._is_shown:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
