"""Over a network a real server proves who it is: a certificate that expired, of another authority, for another host,
or none at all ends the session before anything is sent.

The servers listen at addresses of this machine that are not counted among its names: PostgreSQL is reached as 10.9.8.7
through ``hostaddr``, MariaDB at 127.0.0.2.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from deploy.running_proxies import free_port
from mariadb_server import MISSING as MARIADB_MISSING, MariaDBServer, installation
from postgres_server import MISSING, PostgresServer, _other_user, installations
from server.certificates import write_certificate
from sfumato.engine import self_test
from sfumato.errors import InvalidPolicy, WeakLedger
from sfumato.ledger.stores.opening import make_ledger

HOST, LOOPBACK = "10.9.8.7", "127.0.0.2"
COLUMNS: dict[str, Any] = {"ward": {"values": ["north", "south"]}}
RELOAD = "SELECT pg_reload_conf(), pg_sleep(0.2)"
UNVERIFIED = "TLS certificate could not be verified"


@pytest.fixture(autouse=True)
def _proved_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open tables without the proof of the servers' results, which the tests of their meanings let them give."""
    monkeypatch.setattr(self_test, "require_correct_results", lambda *_: None)
    monkeypatch.setattr(self_test, "_changes_case_alike", lambda *_: True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of another authority."""
    folder = tmp_path_factory.mktemp("authority")
    write_certificate(folder, HOST)
    return folder / "own.pem"


class TlsServer:
    """A server whose certificate can be replaced while it runs."""

    def __init__(self, folder: Path, host: str, reload: Callable[[], object]) -> None:
        self.folder, self.host, self._reload = folder, host, reload

    @property
    def root(self) -> Path:
        return self.folder / "own.pem"

    def present(self, host: str | None = None, *, days: int = 1) -> None:
        """Present a new certificate from now on."""
        _write_readable_certificate(self.folder, host or self.host, days)
        self._reload()


def _write_readable_certificate(folder: Path, host: str, days: int = 1) -> None:
    """The server's user alone may read the key, as PostgreSQL demands."""
    write_certificate(folder, host, days=days)
    os.chmod(folder / "own.key", 0o600)
    if _other_user() is not None:
        os.chown(folder / "own.key", *_other_user()[:2])  # type: ignore[index]


# ── PostgreSQL: tables, and a ledger ───────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    if not installations():
        pytest.skip(MISSING)
    port = str(free_port())
    server = PostgresServer(installations()[0], {"listen_addresses": "127.0.0.1", "port": port})
    server.port = int(port)
    try:
        _write_readable_certificate(server.folder, HOST)
        own = {"ssl_cert_file": f"{server.folder}/own.pem", "ssl_key_file": f"{server.folder}/own.key"}
        server.make().start(**own)
        server.execute(
            "ALTER SYSTEM SET ssl = on",
            RELOAD,
            "CREATE TABLE visits (who int, ward text)",
            "INSERT INTO visits SELECT i, 'north' FROM generate_series(1, 500) AS i",
        )
        yield server
    finally:
        server.remove()


@pytest.fixture
def tls_postgres(postgres_server: PostgresServer) -> TlsServer:
    found = TlsServer(postgres_server.folder, HOST, lambda: postgres_server.execute(RELOAD))
    found.present()
    return found


def _postgres_address(server: PostgresServer, **options: object) -> str:
    given = {"hostaddr": "127.0.0.1", **options}
    return f"postgresql://postgres@{HOST}:{server.port}/postgres?" + "&".join(f"{k}={v}" for k, v in given.items())


def _count(source: str, folder: Path) -> float:
    table = sf.Table("visits", source, COLUMNS, id="who", max_rows=1, relation="visits")
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(4), {"visits": table})
    with sf.Curator(policy, folder / "ledger.db") as curator:
        return float(curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=2).rows[0][0])


def _refused(source: str, folder: Path) -> str:
    with pytest.raises(InvalidPolicy) as refusal:
        _count(source, folder)
    return str(refusal.value)


def test_tables_are_read_over_tls(postgres_server: PostgresServer, tls_postgres: TlsServer, tmp_path: Path) -> None:
    source = _postgres_address(postgres_server, sslrootcert=tls_postgres.root)
    assert abs(_count(source, tmp_path) - 500) < 15


@pytest.mark.parametrize("case", ["no authority", "another authority", "another host", "expired", "no TLS"])
def test_tables_of_a_server_that_does_not_prove_itself_are_not_read(
    postgres_server: PostgresServer, tls_postgres: TlsServer, authority: Path, tmp_path: Path, case: str
) -> None:
    root = _break(case, tls_postgres, authority, tmp_path)
    if case == "no TLS":
        postgres_server.execute("ALTER SYSTEM SET ssl = off", RELOAD)
    try:
        assert UNVERIFIED in _refused(_postgres_address(postgres_server, sslrootcert=root), tmp_path)
    finally:
        postgres_server.execute("ALTER SYSTEM SET ssl = on", RELOAD)


def _break(case: str, server: TlsServer, authority: Path, folder: Path) -> Path:
    """Let the server present what a client must not accept; return the authority that the client trusts."""
    if case == "another host":
        server.present("10.9.8.6")
    if case == "expired":
        server.present(days=-2)
    trusted = folder / "trusted.pem"
    shutil.copy(authority if case in ("no authority", "another authority") else server.root, trusted)
    return folder / "missing.pem" if case == "no authority" else trusted


def test_a_ledger_is_charged_over_tls(
    postgres_server: PostgresServer, tls_postgres: TlsServer, authority: Path
) -> None:
    address = _postgres_address(postgres_server, sslrootcert=tls_postgres.root, schema="kept")
    make_ledger(address)
    with pytest.warns(WeakLedger), sf.Ledger.open(address) as ledger:
        assert ledger.verify().holds
    for case in ("another authority", "another host", "expired"):
        tls_postgres.present()
        root = _break(case, tls_postgres, authority, authority.parent)
        with pytest.raises(sf.LedgerUnavailable, match="certificate"):
            sf.Ledger.open(_postgres_address(postgres_server, sslrootcert=root, schema="kept"))


# ── MariaDB ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tls_mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TlsServer, int]]:
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: MariaDB is NOT tested")
    if installation() is None:
        pytest.skip(MARIADB_MISSING)
    folder, port = tmp_path_factory.mktemp("mariadb"), free_port()
    write_certificate(folder, LOOPBACK)
    tls = [f"--ssl-cert={folder}/own.pem", f"--ssl-key={folder}/own.key"]
    server = MariaDBServer(installation(), "--skip-networking=0", f"--bind-address={LOOPBACK}", f"--port={port}", *tls)
    try:
        server.make().start()
        with server.connect() as session, session.cursor() as cursor:
            for statement in (
                "CREATE DATABASE clinic CHARACTER SET utf8mb4",
                "USE clinic",
                "CREATE TABLE clinic.visits (who int, ward varchar(9))",
                "INSERT INTO clinic.visits SELECT seq, 'north' FROM seq_1_to_500",
                "CREATE USER reader@'127.%' REQUIRE SSL",
                "GRANT SELECT ON clinic.* TO reader@'127.%'",
            ):
                cursor.execute(statement)

            def reload() -> None:
                with server.connect() as other, other.cursor() as flushing:
                    flushing.execute("FLUSH SSL")

            yield TlsServer(folder, LOOPBACK, reload), port
    finally:
        server.remove()


def _mariadb_address(port: int, root: Path) -> str:
    return f"mariadb://reader@{LOOPBACK}:{port}/clinic?ssl_ca={root}"


def test_tables_on_mariadb_are_read_over_tls(tls_mariadb: tuple[TlsServer, int], tmp_path: Path) -> None:
    server, port = tls_mariadb
    server.present()
    assert abs(_count(_mariadb_address(port, server.root), tmp_path) - 500) < 15


@pytest.mark.parametrize("case", ["another authority", "another host", "expired"])
def test_a_mariadb_server_that_does_not_prove_itself_is_not_read(
    tls_mariadb: tuple[TlsServer, int], authority: Path, tmp_path: Path, case: str
) -> None:
    server, port = tls_mariadb
    server.present()
    root = _break(case, server, authority, tmp_path)
    assert UNVERIFIED in _refused(_mariadb_address(port, root), tmp_path)
