"""Progress says what a slow command is doing: the phase, never a count or a share, which could tell of the data."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import click

from sfumato.cli.common.exit_codes import end_interrupted

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
