"""Connections at one socket are handed to the processes of a server in turn, and each is confirmed.

Where every process accepts for itself, the first one that wakes takes all that wait, and keeps them: a second process
had nothing to do while the first had eight clients. Here one process accepts, and does nothing else. A process that
does not confirm what it was handed hangs: it is handed no more, and where all of them do, connections wait at the
socket.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

MOST_UNCONFIRMED = 16
"""Connections that a process may be handed before it confirms one of them."""


def channel() -> tuple[socket.socket, socket.socket]:
    """Make the two ends of a channel on which connections are handed from one process to another."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    here.setblocking(False)
    there.setblocking(False)
    return here, there


def accepted(listener: socket.socket) -> socket.socket | None:
    """Accept one connection that waits at a socket that does not block; None where none does, or it has gone."""
    with suppress(OSError):
        return listener.accept()[0]
    return None


def hand_over(connection: socket.socket, channel: socket.socket) -> bool:
    """Hand a connection to another process, and tell whether it could be handed over."""
    with suppress(OSError):  # that process has ended
        socket.send_fds(channel, [b"\0"], [connection.fileno()])
        return True
    return False


def handed(channel: socket.socket) -> Iterator[socket.socket]:
    """Take the connections that were handed over, until none is left for now."""
    with suppress(OSError):
        while True:
            said, found, *_ = socket.recv_fds(channel, 1, 1)
            if not said:
                return
            yield from (socket.socket(fileno=each) for each in found)


def confirm(channel: socket.socket) -> None:
    """Say that one connection was taken."""
    with suppress(OSError):  # whoever handed it over has ended
        channel.send(b"\0")


def confirmed(channel: socket.socket) -> int:
    """Count the connections that were confirmed since the last look."""
    with suppress(OSError):  # none was
        return len(channel.recv(MOST_UNCONFIRMED))
    return 0
