"""Connections at one socket are handed to the processes of a server in turn.

Where every process accepts for itself, the first one that wakes takes all that wait, and keeps them: a second process
had nothing to do while the first had eight clients. Here one process accepts, and does nothing else.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress

_AT_ONCE = 64


def channel() -> tuple[socket.socket, socket.socket]:
    """Make the two ends of a channel on which connections are handed from one process to another."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    here.setblocking(False)
    there.setblocking(False)
    return here, there


def accepted(listener: socket.socket) -> Iterator[socket.socket]:
    """Accept what waits at a socket that does not block, though not without end."""
    with suppress(OSError):  # none is left, or it was gone again
        for _ in range(_AT_ONCE):
            yield listener.accept()[0]


def hand_over(connection: socket.socket, channels: Iterable[socket.socket]) -> socket.socket | None:
    """Hand a connection to the first process that takes it, and give that one's channel; None where nobody does."""
    with connection:
        for each in channels:
            with suppress(OSError):  # that process has ended, or is handed more than it takes
                socket.send_fds(each, [b"\0"], [connection.fileno()])
                return each
    return None


def handed(channel: socket.socket) -> Iterator[socket.socket]:
    """Take the connections that were handed over, until none is left for now."""
    with suppress(OSError):
        while True:
            said, found, *_ = socket.recv_fds(channel, 1, 1)
            if not said:
                return
            yield from (socket.socket(fileno=each) for each in found)
