"""A server listens on an address and a port, or on a socket file, which is there as long as it listens."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import InvalidSettings
from sfumato.server.settings import ServerSettings

_UNIX = "unix:"


@contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """Listen where the settings say; the file of a socket is removed at the end."""
    if not settings.listen.startswith(_UNIX):
        with _at_address(settings.listen) as listener:
            yield listener
        return
    path = Path(settings.listen.removeprefix(_UNIX))
    with _at_path(path, settings.listen) as listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def address(settings: ServerSettings, listener: socket.socket) -> str:
    """Give the address that people open."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    if listener.family == socket.AF_UNIX:
        return settings.listen
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.certificate else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _at_address(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    # An event loop sends what is written at once only where the protocol is named; else short replies wait for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((name, int(port)))
    except OSError as error:
        listener.close()
        raise _refused(listen, os.strerror(error.errno or 0)) from None
    return listener


def _at_path(path: Path, listen: str) -> socket.socket:
    _remove_left_over(path, listen)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)  # whoever may open the file may try a token: the user and the group
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise _refused(listen, os.strerror(error.errno or 0)) from None
    finally:
        os.umask(before)
    return listener


def _remove_left_over(path: Path, listen: str) -> None:
    """Remove the socket of a server that is gone; a file that is something else stays, and one that is served."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise _refused(listen, "another file is there")
    except OSError:
        return
    with socket.socket(socket.AF_UNIX) as other:
        try:
            other.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)


def _refused(listen: str, why: str) -> InvalidSettings:
    return InvalidSettings(
        f"a server listens at an address or a path that is free; this one is not ({why})",
        place=f"listen = {listen}",
        fix="choose another one with --listen",
    )
