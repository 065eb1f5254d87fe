"""A real MariaDB server for tests: in a temporary folder, on a socket alone.

It is found in ``SFUMATO_MARIADB`` (the folder that packages were unpacked into), or where Debian puts it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MISSING = "MariaDB is not installed: tables on it are NOT tested (apt-get install mariadb-server-core)"
_PATIENCE = 120.0
_OPTIONS = (
    "--no-defaults",
    "--skip-networking",
    "--skip-log-bin",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--performance-schema=OFF",
)


def installation() -> Path | None:
    """The folder that MariaDB's programs are below."""
    places = (os.environ.get("SFUMATO_MARIADB", ""), "/")
    return next((Path(place) for place in places if place and os.access(f"{place}/usr/sbin/mariadbd", os.X_OK)), None)


class MariaDBServer:
    """One server with data in a folder of its own; its administrator is ``root``, and nobody needs a password."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.programs, self._options = folder, options
        self.folder = Path(tempfile.mkdtemp(prefix="my"))
        self.data, self.socket = self.folder / "data", self.folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> MariaDBServer:
        """Make the system's own tables, without help texts and time zones."""
        self.data.mkdir()
        tables = (self.programs / "usr/share/mysql/mysql_system_tables.sql").read_text()
        root = "INSERT INTO global_priv VALUES ('localhost', 'root', '{\"access\":18446744073709551615}');\n"
        made = subprocess.run(
            [*self._command(), "--bootstrap", "--silent-startup"],
            input=f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n{tables}\n{root}",
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        return self

    def _command(self) -> list[str]:
        user = "root" if os.getuid() == 0 else str(os.getuid())
        own = [f"--datadir={self.data}", f"--socket={self.socket}", f"--pid-file={self.folder}/pid", f"--user={user}"]
        own += [f"--lc-messages-dir={self.programs}/usr/share/mysql", f"--tmpdir={self.folder}"]
        own += [f"--character-sets-dir={self.programs}/usr/share/mysql/charsets"]
        return [f"{self.programs}/usr/sbin/mariadbd", *_OPTIONS, *own, *self._options]

    def start(self) -> MariaDBServer:
        """Start it, and wait until it answers."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + _PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return not probe.connect_ex(str(self.socket))

    def connect(self, **options: Any) -> Any:
        import pymysql

        given = {"user": "root", "unix_socket": str(self.socket), "charset": "utf8mb4", "autocommit": True}
        return pymysql.connect(**(given | options))

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)
            self._process = None

    def kill(self) -> None:
        """Kill it at once."""
        self.stop(signal.SIGKILL)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str, user: str = "reader") -> str:
        """Where a policy finds a database, without a password."""
        return f"mariadb://{user}@localhost/{database}?unix_socket={self.socket}"


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    """One server for all tests of a worker, started by the first that needs it."""
    found = installation()
    if found is None:
        pytest.skip(MISSING)
    server = MariaDBServer(found)
    try:
        yield server.make().start()
    finally:
        server.remove()
