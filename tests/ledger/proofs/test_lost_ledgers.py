"""A ledger on a server is lost where nobody listens, or its database is gone; what else a server says is no loss."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.ledger.proofs.verifying import require_ledger_gone

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

_ENCRYPTED = {80877103, 80877104}
"""What a client asks first, if it would rather speak TLS or GSSAPI."""
Serve = Callable[[bytes], int]


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _error(said: str, severity: str = "FATAL", code: str = "28000") -> bytes:
    fields = {"S": severity, "V": "FATAL", "C": code, "M": said}
    return _message(b"E", b"".join(f"{name}{value}\0".encode() for name, value in fields.items()) + b"\0")


GONE = _error('database "ledgers" does not exist', code="3D000")
ASKS_FOR_A_PASSWORD = _message(b"R", struct.pack("!i", 3))


def _answer(client: socket.socket, says: bytes) -> None:
    with client, contextlib.suppress(OSError, struct.error):
        client.settimeout(10)
        while says:
            length, code = struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))
            if code not in _ENCRYPTED:
                client.recv(length - 8, socket.MSG_WAITALL)
                client.sendall(says)
                return
            client.sendall(b"N")


def _answer_all(server: socket.socket, says: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            _answer(server.accept()[0], says)


@contextlib.contextmanager
def _serving(server: socket.socket, says: bytes) -> Iterator[None]:
    thread = threading.Thread(target=_answer_all, args=(server, says), daemon=True)
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PGPASSWORD", "PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "no passwords"))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that say one thing to whoever connects, and give the port of each."""
    with contextlib.ExitStack() as open_servers:

        def start(says: bytes) -> int:
            server = socket.create_server(("127.0.0.1", 0))
            open_servers.enter_context(_serving(server, says))
            return int(server.getsockname()[1])

        yield start


def _port_of_nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _refuse(place: str) -> None:
    with pytest.raises(sf.LedgerUnavailable, match="this user may not read the old ledger"):
        require_ledger_gone(place, "key")


@pytest.mark.parametrize(
    ("says", "options"),
    [
        pytest.param(ASKS_FOR_A_PASSWORD, "", id="asks for a password, and none is set"),
        pytest.param(_error('role "database" does not exist'), "", id="knows no role called database"),
        pytest.param(
            _error('role "FATAL:  database "ledgers" does not exist'), "", id="knows no role with a name like an answer"
        ),
        pytest.param(_error('database "others" does not exist', code="3D000"), "", id="lacks another database"),
        pytest.param(_error("роль не существует", "ВАЖНО"), "", id="speaks Russian"),
        pytest.param(b"", "", id="closes at once"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "", id="is no PostgreSQL"),
        pytest.param(GONE, "?sslmode=require", id="has no TLS, and it is required"),
        pytest.param(GONE, "?sslmode=verify-full&sslrootcert=/nowhere/root.crt", id="no root certificate"),
        pytest.param(GONE, "?sslmode=whatever", id="an option that the driver does not know"),
    ],
)
def test_a_server_that_listens_is_not_lost_whatever_it_says(serve: Serve, says: bytes, options: str) -> None:
    _refuse(f"postgresql://curator@127.0.0.1:{serve(says)}/ledgers{options}")


def test_where_nobody_listens_a_ledger_is_lost(tmp_path: Path) -> None:
    require_ledger_gone(f"postgresql://curator@127.0.0.1:{_port_of_nobody()}/ledgers", "key")
    require_ledger_gone(f"postgresql://curator@localhost:{_port_of_nobody()}/ledgers?sslmode=require", "key")
    require_ledger_gone(f"postgresql://curator@/ledgers?host={tmp_path}", "key")
    with socket.create_server(("127.0.0.1", 0)) as server, _serving(server, ASKS_FOR_A_PASSWORD):
        _refuse(f"postgresql://curator@127.0.0.1:{server.getsockname()[1]}/ledgers")


def test_where_a_server_says_that_its_database_is_gone_a_ledger_is_lost(serve: Serve) -> None:
    require_ledger_gone(f"postgresql://curator@127.0.0.1:{serve(GONE)}/ledgers", "key")
    require_ledger_gone(f"postgresql://ledgers@127.0.0.1:{serve(GONE)}", "key")
    _refuse(f"postgresql://curator@127.0.0.1:{serve(GONE)}/others")  # what is gone is another database


def test_of_several_hosts_each_is_asked(serve: Serve) -> None:
    nobody, gone, closed = _port_of_nobody(), serve(GONE), serve(ASKS_FOR_A_PASSWORD)
    require_ledger_gone(f"postgresql://curator@127.0.0.1:{nobody},127.0.0.1:{gone}/ledgers", "key")
    for ports in [(closed, nobody), (nobody, closed), (closed, gone), (gone, closed)]:
        _refuse("postgresql://curator@" + ",".join(f"127.0.0.1:{port}" for port in ports) + "/ledgers")


def test_a_socket_at_which_somebody_listens_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("s")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / ".s.PGSQL.5432"))
    server.listen()
    with _serving(server, ASKS_FOR_A_PASSWORD):
        _refuse(f"postgresql://curator@/ledgers?host={folder}")
        monkeypatch.setenv("PGHOST", str(folder))
        _refuse("postgresql:///ledgers")
    require_ledger_gone(f"postgresql://curator@/ledgers?host={folder}", "key")


def test_the_host_that_a_service_names_is_asked(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "services").write_text(f"[clinic]\nhostaddr=127.0.0.1\nport={serve(ASKS_FOR_A_PASSWORD)}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    (tmp_path / "root.crt").touch()
    _refuse(f"postgresql:///ledgers?service=clinic&sslrootcert={tmp_path}/root.crt")
