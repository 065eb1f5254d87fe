"""Commands in processes of their own that start quickly: forked from one that knows the modules and has opened nothing.

A fresh interpreter imports for a second what a forked one has already. What an interpreter does where it starts or
ends, such as with a closed stream, is tested with fresh ones (``cli/test_streams.py``).
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from typing import Any

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        *("sfumato.server.serving", "duckdb", "cryptography.x509", "rich.console", "prompt_toolkit"),
        *("sfumato.cli.commands.query", "sfumato.curator.describing", "sfumato.engine.duckdb.driver"),
    ]
)
_SECONDS = 120


def forked_command(
    *arguments: object,
    streams: Sequence[int],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    terminal: bool = False,
) -> BaseProcess:
    """Start ``sfumato`` with these file descriptors as its three streams; the first may be its terminal."""
    here, there = FORKED.Pipe()
    known = dict(os.environ if environment is None else environment)
    given = [*map(str, arguments)], known, str(folder or Path.cwd()), terminal
    process = FORKED.Process(target=_run, args=(there, *given))
    process.start()
    there.close()
    for each in streams:
        send_handle(here, each, process.pid)
    here.close()
    return process


def _run(channel: Connection, words: list[str], environment: dict[str, str], folder: str, terminal: bool) -> None:
    """Be the command, as ``python -m sfumato`` is it."""
    for number in range(3):
        received = recv_handle(channel)
        os.dup2(received, number)
        os.close(received)
    channel.close()
    os.setsid()
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = ["sfumato", *words]
    from sfumato.cli import main

    main()


def run_forked(
    *arguments: object, meanwhile: Callable[[BaseProcess], None] = lambda _: None, **more: Any
) -> CompletedProcess[str]:
    """Run ``sfumato`` to its end, with nothing to read."""
    with Path(os.devnull).open() as nothing, TemporaryFile("w+") as out, TemporaryFile("w+") as said:
        streams = [each.fileno() for each in (nothing, out, said)]
        process = forked_command(*arguments, streams=streams, **more)
        meanwhile(process)
        process.join(_SECONDS)
        assert process.exitcode is not None
        written = [(each.seek(0), each.read())[1] for each in (out, said)]
        return CompletedProcess(arguments, process.exitcode, *written)
