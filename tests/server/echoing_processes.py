"""Processes that answer every connection with their own number: as quick to start as a process can be."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from sfumato.server.worker_processes import WorkerProcesses, confirm_connection, receive_connections


def serve(folder: Path, listener: socket.socket, ready: Connection, patience: float) -> None:
    """Keep two of them, which cannot start while there is a file called broken; what is said is written to a file."""
    sys.stderr = (folder / "said").open("w")
    sys.exit(WorkerProcesses(partial(_answer, folder), listener, 2, 256, patience).run(lambda: ready.send(True)))


def _answer(folder: Path, channel: socket.socket, ready: Connection) -> None:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    if (folder / "broken").exists():
        (folder / "tried").touch()
        sys.exit(1)
    ready.send(True)
    taken = True
    while taken and not told:
        taken = not select.select([channel], [], [], 0.2)[0]  # what is readable and holds nothing has ended
        for each in receive_connections(channel):
            confirm_connection(channel)
            with each:
                each.sendall(str(os.getpid()).encode())
            taken = True
