"""Some commands ask a server in place of files: POLICY is then the name of a policy there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sfumato.cli.common.progress import ProgressLines

server = click.option(
    "--server",
    metavar="URL",
    help="Ask the server at this address (https://…, unix:/path), with the token that sfumato login keeps; POLICY is "
    "then the name of a policy there.",
)


@contextmanager
def connected(
    url: str, policy: Path, analyst: str | None, ledger: Path | str | None, progress: ProgressLines | None = None
) -> Iterator[Any]:
    """Open a policy at a server; what says something about files here is refused."""
    if analyst is not None or ledger is not None:
        raise click.UsageError("leave out --analyst and --ledger with --server: the token says who asks")
    from sfumato.client import connect

    with connect(url, str(policy), progress=progress) as curator:
        yield curator
