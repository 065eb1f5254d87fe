"""A proxy on a socket that delays bytes, or cuts the connection after so many, in whichever direction they went."""

from __future__ import annotations

import contextlib
import selectors
import socket
import tempfile
import threading
import time
from pathlib import Path

from postgres_server import PostgresServer


class Cutter:
    """Connections go through to a server until ``left`` bytes have passed; then all are cut, and while it is
    ``down`` no new one is let in.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cut", dir=server.folder.parent)
        self._target = str(server.folder / f".s.PGSQL.{server.port}")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder.name) / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.left: int | None = None
        self.piece: int | None = None
        """How many bytes pass at once, a moment before the next; None for all that came."""
        self.passed = 0
        self.stays_down = False
        self.down = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def folder(self) -> str:
        return self._folder.name

    def cut_after(self, count: int | None, *, stays_down: bool = False) -> None:
        """Cut after so many bytes from now on; None lets everything through again."""
        with self._lock:
            self.left, self.passed, self.down, self.stays_down = count, 0, False, stays_down

    def close(self) -> None:
        self._ends.set()
        self._listener.close()
        self._cut()
        self._folder.cleanup()

    def _accept(self) -> None:
        while not self._ends.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._pairs.append((client, server))
            threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while not self._ends.is_set():
                for key, _ in ready.select(1.0):
                    data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    if not data:
                        raise OSError
                    allowed = self._allowed(len(data))
                    self._send(key.data, data[:allowed])
                    if allowed < len(data) or self.left == 0:
                        self._cut()
                        raise OSError
        for end in (client, server):
            end.close()

    def _send(self, target: socket.socket, data: bytes) -> None:
        piece = self.piece or max(1, len(data))
        for start in range(0, len(data), piece):
            target.sendall(data[start : start + piece])
            if self.piece is not None:
                time.sleep(0.001)

    def _allowed(self, many: int) -> int:
        with self._lock:
            if self.left is None:
                self.passed += many
                return many
            allowed = min(many, self.left)
            self.left -= allowed
            self.passed += allowed
            return allowed

    def _cut(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self.left, self.down = None, self.stays_down
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
