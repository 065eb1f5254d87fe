"""How a command ends: refusals as rule, place and fix on stderr, and an exit code for scripts."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click

from sfumato.errors import SfumatoError, WeakPrivacy, outcome

EXIT_CODES = (
    "Exit codes: 0 done, 1 refused (the question, the policy or a file), 2 wrong usage, 3 overspent, 4 charged but "
    "not answered, 5 the ledger is damaged or cannot be used."
)


@contextmanager
def refusals() -> Iterator[None]:
    """Whatever the library refuses ends the command, without a traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", WeakPrivacy)
        warnings.showwarning = lambda message, *_, **__: click.secho(f"warning: {message}", fg="yellow", err=True)
        try:
            yield
        except SfumatoError as refusal:
            click.secho(str(refusal), fg="red", err=True)
            sys.exit(outcome(refusal).exit_code)
