"""How a session at a PostgreSQL server is had, what is told of it, and how little arrives from there."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engine.on_postgres import Sessions
from engine.postgres.test_postgres import BY_WARD, SECRET, declared, read, visits as visits
from engine.postgres.test_postgres_hostile_sources import refused
from postgres_server import PostgresServer, installations, pool_before
from sfumato import Curator
from sfumato.engine.opening import open_engine
from sfumato.engine.postgres import connection, stored_relations
from sfumato.engine.postgres.driver import Postgres
from sfumato.errors import SourceTaken
from sfumato.ledger import Ledger
from sfumato.plan.limits import Strategy
from sfumato.policy import Policy


@pytest.fixture(scope="module")
def sessions(postgres: PostgresServer) -> Iterator[Sessions]:
    made = Sessions(postgres)
    yield made
    made.close()


# Passwords


@pytest.fixture(scope="module")
def locked(sessions: Sessions) -> Iterator[PostgresServer]:
    """A server that asks one role for its password, and turns another away."""
    server = sessions.server
    file = server.data / "pg_hba.conf"
    kept = file.read_text()
    sessions.run(
        "DROP ROLE IF EXISTS asked_for_it",
        "DROP ROLE IF EXISTS turned_away",
        "CREATE ROLE asked_for_it LOGIN SUPERUSER PASSWORD 'right'",
        "CREATE ROLE turned_away LOGIN",
    )
    file.write_text(f"local all asked_for_it scram-sha-256\nlocal all turned_away reject\n{kept}")
    sessions.run("SELECT pg_reload_conf()")
    end = time.monotonic() + 120
    with contextlib.suppress(psycopg.OperationalError):
        while time.monotonic() < end:
            psycopg.connect(server.address(user="turned_away")).close()
            time.sleep(0.02)
    yield server
    file.write_text(kept)
    sessions.run("SELECT pg_reload_conf()", "DROP ROLE asked_for_it", "DROP ROLE turned_away")


def test_a_wrong_password_and_none_are_told_as_such(
    locked: PostgresServer, visits: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = declared(locked, visits, source=locked.address(user="asked_for_it"))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    for given in (None, "wrong-4711"):
        monkeypatch.setenv("PGPASSWORD", given) if given else monkeypatch.delenv("PGPASSWORD", raising=False)
        told = refused(policy)
        assert "the server did not accept the password" in told
        assert "4711" not in told
    assert "allow this role to connect" in refused(declared(locked, visits, source=locked.address(user="turned_away")))
    assert "allow this role to connect" in refused(
        declared(locked, visits, source=locked.address(user="nobody_at_all"))
    )


@pytest.mark.parametrize("place", ["environment", "password file", "service"])
def test_a_password_is_read_from_where_it_may_be(
    locked: PostgresServer, visits: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, file = locked.address(user="asked_for_it"), tmp_path / "kept"
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    if place == "environment":
        monkeypatch.setenv("PGPASSWORD", "right")
    elif place == "password file":
        file.write_text("*:*:*:asked_for_it:right\n")
        monkeypatch.setenv("PGPASSFILE", str(file))
    else:
        file.write_text(f"[clinic]\nhost={locked.folder}\nuser=asked_for_it\npassword=right\ndbname=postgres\n")
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        source = "postgresql:///?service=clinic"
    file.touch()
    file.chmod(0o600)
    with contextlib.closing(open_engine(declared(locked, visits, source=source))) as engine:
        assert engine.catalog().tables


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('FATAL:  password authentication failed for user "x"', "did not accept the password"),
        ("fe_sendauth: no password supplied", "did not accept the password"),
        (
            'FATAL:  no pg_hba.conf entry for host "h", user "x", database "d", SSL encryption',
            "allow this role to connect",
        ),
        ('FATAL:  permission denied for database "d"', "allow this role to connect"),
        ('FATAL:  role "x" does not exist', "allow this role to connect"),
        ('FATAL:  database "d" does not exist', "no such database"),
        ("FATAL:  sorry, too many clients already", "no free connection"),
        ("FATAL:  remaining connection slots are reserved", "no free connection"),
        ('root certificate file "/root.crt" does not exist', "certificate could not be verified"),
        ("SSL error: certificate verify failed", "certificate could not be verified"),
        ('server certificate for "a" does not match host name "b"', "certificate could not be verified"),
        ("server does not support SSL, but SSL was required", "certificate could not be verified"),
        ("Connection refused", "cannot be reached"),
    ],
)
def test_why_there_is_no_session_is_told_apart(said: str, told: str) -> None:
    assert told in str(connection._connection_refusal(psycopg.OperationalError(said), "here"))


# Over a network


Certificate = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _certificate(name: str, issuer: Certificate | None = None) -> Certificate:
    """A certificate that vouches for others, or one of a host that another vouches for."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(issuer[0].subject if issuer else named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(1))
        .not_valid_after(now + dt.timedelta(9))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    return made.sign(issuer[1] if issuer else key, hashes.SHA256()), key


def _written(certificate: Certificate, path: Path) -> None:
    path.with_suffix(".crt").write_bytes(certificate[0].public_bytes(serialization.Encoding.PEM))
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.with_suffix(".key").write_bytes(certificate[1].private_bytes(*form))
    path.with_suffix(".key").chmod(0o600)


ELSEWHERE = "127.0.0.2"
"""An address of this machine that is none of the names by which it calls itself."""


@pytest.fixture
def network() -> Iterator[PostgresServer]:
    """A server that is reached over TCP, with a certificate of db.example."""
    if not installations():
        pytest.skip("PostgreSQL is not installed")
    try:
        with socket.create_server((ELSEWHERE, 0)) as free:
            port = free.getsockname()[1]
    except OSError:
        pytest.skip("this machine has no second address of its own: TLS to PostgreSQL NOT tested")
    server = PostgresServer(installations()[0]).make()
    try:
        vouching = _certificate("an authority of our own")
        _written(vouching, server.folder / "authority")
        _written(_certificate("another authority"), server.folder / "other")
        _written(_certificate("db.example", vouching), server.folder / "own")
        owner = server.folder.stat()
        os.chown(server.folder / "own.key", owner.st_uid, owner.st_gid)
        with open(server.data / "pg_hba.conf", "a") as rules:
            rules.write(f"host all all {ELSEWHERE}/32 trust\n")
        server.port = port
        files = {each: str(server.folder / f"own.{end}") for each, end in _FILES.items()}
        yield server.start(listen_addresses=ELSEWHERE, port=str(port), ssl="on", **files)
    finally:
        server.remove()


_FILES = {"ssl_cert_file": "crt", "ssl_key_file": "key"}


@pytest.mark.long
def test_a_server_proves_who_it_is_over_a_network(network: PostgresServer, tmp_path: Path) -> None:
    network.execute("CREATE TABLE public.visits (who int, ward text, age int, note text)")

    def at(host: str, authority: str | None) -> Policy:
        vouched = f"&sslrootcert={network.folder / authority}.crt" if authority else ""
        source = f"postgresql://postgres@{host}:{network.port}/postgres?hostaddr={ELSEWHERE}{vouched}"
        return declared(network, "public.visits", source=source)

    engine = Postgres(at("db.example", "authority"))
    encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    assert engine.server.run(encrypted) == [(True,)]
    engine.close()
    for host, authority in (("db.other", "authority"), ("db.example", "other"), ("db.example", None)):
        assert "certificate could not be verified" in refused(at(host, authority))
    ledger = Ledger.open(tmp_path / "one.ledger")
    with Curator(replace(at("db.example", "authority"), account="first"), ledger):
        pass
    with pytest.raises(SourceTaken), Curator(replace(declared(network, "public.visits"), account="second"), ledger):
        pass  # by its socket it is the same server
    ledger.close()
    network.stop()
    network.start(ssl="off")
    assert "certificate could not be verified" in refused(at("db.example", "authority"))


def test_kerberos_does_not_stand_in_for_a_certificate(sessions: Sessions, visits: str) -> None:
    source = "postgresql://db.example/clinic?gssencmode=prefer"
    assert "certificate must be verified" in refused(declared(sessions.server, visits, source=source))
    assert connection._connection_options("postgresql://db.example/clinic", "here")["gssencmode"] == "disable"
    assert "gssencmode" not in connection._connection_options(sessions.server.address(), "here")


# Rights


def test_a_role_that_can_write_anywhere_is_told_so(sessions: Sessions, visits: str) -> None:
    """Whatever right it has, on the table or on one that a view reads."""
    view, schema = visits.replace("visits", "seen"), visits.partition(".")[0]
    sessions.run(
        "DROP ROLE IF EXISTS reads",
        "CREATE ROLE reads LOGIN",
        f"CREATE VIEW {view} AS SELECT * FROM {visits}",
        f"GRANT USAGE ON SCHEMA {schema} TO reads",
        f"GRANT SELECT ON {visits}, {view} TO reads",
    )
    engine = Postgres(declared(sessions.server, view, source=sessions.server.address(user="reads"), version="1"))
    assert len(engine.remarks("visits")) == 1  # that it is a view
    for right in ("UPDATE (age)", "INSERT (who)", "INSERT", "UPDATE", "DELETE", "TRUNCATE"):
        sessions.run(f"GRANT {right} ON {visits} TO reads")
        for relation in (visits, view):
            assert stored_relations.find_relation(relation, "visits", engine.server.run).writable, right
        sessions.run(f"REVOKE {right} ON {visits} FROM reads")
        assert not stored_relations.find_relation(view, "visits", engine.server.run).writable
    engine.close()
    sessions.run("DROP OWNED BY reads", "DROP ROLE reads")


@pytest.mark.parametrize("checked", ["", " WITH (security_invoker)"])
def test_row_security_below_a_view_is_a_refusal(sessions: Sessions, visits: str, checked: str) -> None:
    """Whether the view reads as its owner or as the role that asks: no question sees some of the rows."""
    view, schema = visits.replace("visits", "seen"), visits.partition(".")[0]
    sessions.run(
        "DROP ROLE IF EXISTS sees_some",
        "CREATE ROLE sees_some LOGIN",
        f"GRANT USAGE, CREATE ON SCHEMA {schema} TO sees_some",
        f"GRANT SELECT ON {visits} TO sees_some",
        f"SET ROLE sees_some; CREATE VIEW {view}{checked} AS SELECT * FROM {visits}; RESET ROLE",
    )
    policy = declared(sessions.server, view, source=sessions.server.address(user="sees_some"))
    open_engine(policy).close()
    sessions.run(
        f"ALTER TABLE {visits} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON {visits} USING (age < 25)",
    )
    assert SECRET not in refused(policy)
    sessions.run("DROP OWNED BY sees_some CASCADE", "DROP ROLE sees_some")


# What arrives


class Recorder:
    """Connections go through to a server; what it sends is kept."""

    def __init__(self, server: PostgresServer) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rec", dir=server.folder.parent)
        os.chmod(self._folder.name, 0o755)
        self._target = str(server.folder / f".s.PGSQL.{server.port}")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder.name) / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self.received = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"postgresql:///postgres?host={self._folder.name}&user=postgres"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            server.connect(self._target)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            with contextlib.suppress(OSError):
                while True:
                    for key, _ in ready.select():
                        if not (data := key.fileobj.recv(1 << 16)):  # type: ignore[union-attr]
                            return
                        if key.fileobj is server:
                            self.received += data
                        key.data.sendall(data)

    def close(self) -> None:
        self._listener.close()
        self._folder.cleanup()


def test_bytes_that_arrive_are_bounded_by_the_groups(sessions: Sessions, visits: str) -> None:
    """Of a hundred times as many rows no more arrive than of few; and no cell of them, at no time."""
    recorder = Recorder(sessions.server)
    engine = Postgres(declared(sessions.server, visits, source=recorder.address))
    asked = (BY_WARD, "SELECT COUNT(*), AVG(age) FROM visits WHERE note LIKE '%secret%'")
    arrived: list[list[int]] = []
    for _ in range(2):
        arrived.append([])
        for text in asked:
            for strategy in (Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE):
                before = len(recorder.received)
                read(engine, text, strategy=strategy)
                arrived[-1].append(len(recorder.received) - before)
        sessions.run(f"INSERT INTO {visits} SELECT i, 'west', i % 3, '{SECRET}' FROM generate_series(100, 12000) AS i")
    assert max(map(max, arrived)) < 10_000, arrived  # what is planned is told too, before it is charged
    assert SECRET.encode() not in recorder.received
    engine.close()
    recorder.close()


# Behind a pool


def test_tables_behind_a_pool_of_transactions_give_the_same_totals(
    sessions: Sessions, visits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PgBouncer in transaction mode: readings of six threads share three connections, and what another client set on
    these reaches no statement of ours.
    """
    monkeypatch.delenv("PGOPTIONS", raising=False)
    direct = open_engine(declared(sessions.server, visits))
    expected = {key: read(direct, BY_WARD, key, Strategy.SAMPLE) for key in range(6)}  # type: ignore[arg-type]
    direct.close()
    with pool_before(sessions.server, "transaction") as pool:
        source = f"postgresql:///postgres?{pool}&user=postgres"
        with psycopg.connect(source, autocommit=True) as other:
            for _ in range(20):
                other.execute("SET search_path = nowhere; SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'German'")
        engine = open_engine(declared(sessions.server, visits, source=source))
        results = dict[int, object]()

        def read_all(key: int) -> None:
            results[key] = read(engine, BY_WARD, key, Strategy.SAMPLE)  # type: ignore[arg-type]

        threads = [threading.Thread(target=read_all, args=(key,)) for key in expected]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.close()
    assert results == expected


def test_a_pool_that_gives_each_statement_another_connection_is_refused(sessions: Sessions, visits: str) -> None:
    """PgBouncer in statement mode: no snapshot lasts from the check to the totals."""
    with pool_before(sessions.server, "statement") as pool:
        told = refused(declared(sessions.server, visits, source=f"postgresql:///postgres?{pool}&user=postgres"))
    assert "not through a connection pool that keeps its own settings" in told
