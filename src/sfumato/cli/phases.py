"""What a slow command is doing: the phase, never a count or a share of the work, which could tell of the data."""

from __future__ import annotations

import sys
import threading
from typing import Self

import click

PATIENCE = 2.0
"""Seconds before anything is said."""


class Phases:
    """Says each phase to a terminal once the command has taken a while; to anything else, nothing."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._phase = "starting"
        self._late = False
        self._timer = threading.Timer(patience, self._begin)
        self._timer.daemon = True

    def __call__(self, phase: str) -> None:
        self._phase = phase
        if self._late:
            self._say()

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
