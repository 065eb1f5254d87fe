"""A real PostgreSQL server for tests: in a temporary folder, under an ordinary user, on a socket alone.

It is found in ``SFUMATO_POSTGRES`` (a folder with ``initdb`` and ``postgres``), where Debian puts it, on the PATH, or
where ``scripts/setup.sh`` has put a newer one. PostgreSQL refuses to run as root: then it runs as another user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

MISSING = "PostgreSQL is not installed: what needs a server is NOT tested (apt-get install postgresql)"
_LONGEST = 60
"""Letters of a folder's name: the path of a socket has at most 107 bytes."""
_PATIENCE = 120.0
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10min",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True)
class Installation:
    """Where the programs of one version are."""

    folder: Path
    version: int
    """The major version."""

    def program(self, name: str) -> str:
        return str(self.folder / name)


@cache
def installations() -> tuple[Installation, ...]:
    """Every version that is found, the one that tests use first."""
    places = [os.environ.get("SFUMATO_POSTGRES", "")]
    places += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), key=_number, reverse=True)
    places += [os.path.dirname(os.path.realpath(shutil.which("postgres") or "")), f"{sys.prefix}/postgres18/bin"]
    found: dict[int, Installation] = {}
    for place in places:
        if place and os.access(f"{place}/initdb", os.X_OK) and os.access(f"{place}/postgres", os.X_OK):
            command = [*_as_user(), f"{place}/postgres", "--version"]
            said = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/").stdout
            version = _number(said.partition(")")[2])
            if version:
                found.setdefault(version, Installation(Path(place), version))
    return tuple(found.values())


def _number(text: str) -> int:
    number = re.search(r"\d+", text)
    return int(number[0]) if number else 0


class PostgresServer:
    """One cluster of databases in a folder of its own; its administrator is ``postgres``, and nobody needs a password.

    ``start``, ``stop``, ``kill`` and ``remove`` are for tests that have a server to themselves; others use the fixture
    ``postgres`` and make databases or schemas of their own.
    """

    def __init__(self, installation: Installation, settings: Mapping[str, str] | None = None) -> None:
        self.installation = installation
        self.folder = _folder()
        self.data = self.folder / "data"
        self.port = 5432
        self._settings = {**_SETTINGS, "unix_socket_directories": str(self.folder), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.largest: int | None = None
        """Bytes that no file of it may pass, as though its disk were full there; None for as many as fit."""
        os.chmod(self.folder, 0o755)
        if _other_user() is not None:
            os.chown(self.folder, *_other_user()[:2])  # type: ignore[index]

    def make(self, *more: str) -> PostgresServer:
        """Make an empty cluster."""
        options = ["-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", "postgres", "--no-sync", "--no-instructions"]
        done = self.run(self.installation.program("initdb"), *options, *more, "-D", str(self.data))
        assert done.returncode == 0, done.stderr
        return self

    def copy(self, source: PostgresServer) -> PostgresServer:
        """Take over the files of a server that does not run."""
        shutil.copytree(source.data, self.data, copy_function=shutil.copy2)
        os.chmod(self.data, 0o700)
        if _other_user() is not None:
            for path in (self.data, *self.data.rglob("*")):
                os.chown(path, *_other_user()[:2], follow_symlinks=False)  # type: ignore[index]
        return self

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program as the user that the server runs as."""
        return subprocess.run([*_as_user(), *command], capture_output=True, text=True, check=False, cwd=self.folder)

    def start(self, **settings: str) -> PostgresServer:
        """Start it, and wait until it answers; settings given once stay."""
        self._settings |= settings
        end = time.monotonic() + _PATIENCE
        self._process = self._started()
        while not self._answers():
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)
            if self._process.poll() is not None:  # what is left of a killed one holds its memory for a moment
                self._process = self._started()
        return self

    def _started(self) -> subprocess.Popen[bytes]:
        given = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        limit = [] if self.largest is None else ["prlimit", f"--fsize={self.largest}"]
        program = self.installation.program("postgres")
        command = [*_as_user(dies_with_us=True), *limit, program, "-D", str(self.data), *given]
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address()).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def postmaster(self) -> int:
        """The process that started all others of the server."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop it: sessions are ended, what is committed is on disk."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, OSError):
                os.kill(self.postmaster, how)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:  # it cannot write down that it ends
                self._process.kill()
                self._process.wait(_PATIENCE)
            self._process = None

    def kill(self) -> None:
        """Kill it at once, as a power failure would but for the memory that the system keeps of its files."""
        self.stop(signal.SIGKILL)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str = "postgres", user: str = "postgres", **options: str) -> str:
        """How libpq is told to connect: as an address, without a password."""
        given = {"host": str(self.folder), "port": str(self.port), "user": user, **options}
        return f"postgresql:///{database}?{urlencode(given)}"

    def execute(self, *statements: str, database: str = "postgres", user: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each by itself; the rows of the last."""
        import psycopg

        with psycopg.connect(self.address(database, user), autocommit=True) as connection:
            for statement in statements:
                found = connection.execute(statement)  # type: ignore[call-overload]
            return found.fetchall() if found.description else []


def _folder() -> Path:
    """A new folder whose name is short, in one that every user can enter."""
    for place in (tempfile.gettempdir(), "/dev/shm", "/tmp"):
        real = Path(os.path.realpath(place))
        entered = all(each.stat().st_mode & 0o001 for each in (real, *real.parents)) if real.is_dir() else False
        if entered and os.access(real, os.W_OK) and len(str(real)) <= _LONGEST:
            return Path(tempfile.mkdtemp(prefix="pg", dir=real))
    pytest.skip("no folder with a short name, which every user can enter, was found: PostgreSQL NOT tested")


@cache
def _other_user() -> tuple[int, int, str] | None:
    """Whom the server runs as where we are root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid, name
    pytest.skip("there is no user but root: PostgreSQL NOT tested")


def _as_user(*, dies_with_us: bool = False) -> list[str]:
    other, command = _other_user(), shutil.which("setpriv")
    if command is None:
        assert other is None, "setpriv is missing: apt-get install util-linux"
        return []
    given = [] if other is None else [f"--reuid={other[0]}", f"--regid={other[1]}", "--clear-groups"]
    given += ["--pdeathsig", "INT"] if dies_with_us else []
    return [command, *given] if given else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a worker, started by the first that needs it."""
    if not installations():
        pytest.skip(MISSING)
    server = PostgresServer(installations()[0])
    try:
        yield server.make().start()
    finally:
        server.remove()


# A pool in front of a server

_BOUNCER = """
[databases]
postgres = host={folder} port=5432 dbname=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {own}
listen_port = 6432
auth_type = trust
auth_file = {own}/users
pool_mode = {mode}
default_pool_size = 3
max_client_conn = 100
logfile = {own}/log
pidfile = {own}/pid
"""


@contextlib.contextmanager
def pool_before(server: PostgresServer, mode: str, *users: str) -> Iterator[str]:
    """Start PgBouncer, with fewer connections than clients, and yield the host and port in addresses of it."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed: PostgreSQL behind a pool NOT tested")
    own = server.folder / f"pool of {mode}s".replace(" ", "_")
    own.mkdir()
    (own / "ini").write_text(_BOUNCER.format(folder=server.folder, own=own, mode=mode))
    (own / "users").write_text("".join(f'"{user}" ""\n' for user in (*users, "postgres")))
    owner = server.data.stat()
    for path in (own, own / "ini", own / "users"):
        os.chown(path, owner.st_uid, owner.st_gid)
    with subprocess.Popen([*_as_user(dies_with_us=True), program, "-q", str(own / "ini")]) as pool:
        try:
            end = time.monotonic() + 60
            while not (own / ".s.PGSQL.6432").exists():
                assert time.monotonic() < end
                time.sleep(0.05)
            yield f"host={own}&port=6432"
        finally:
            pool.terminate()
    shutil.rmtree(own)
