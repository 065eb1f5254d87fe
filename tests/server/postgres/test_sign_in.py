"""Who is let in: SCRAM by token, TLS, databases; and what those learn who are not."""

from __future__ import annotations

import base64
import socket
import ssl
import struct
import time
from contextlib import suppress
from pathlib import Path

import pytest

from server.certificates import write_certificate
from server.postgres.raw_client import (
    Message,
    RawClient,
    errors_in,
    fields_of,
    framed,
    query,
    raw_connection,
    rows_in,
    signed_in,
    startup,
    text,
)
from server.postgres.wire_server import WireServer, wire_server
from sfumato.errors import InvalidSettings
from sfumato.server.people.scram import (
    ClientFirstMessage,
    ScramExchange,
    ScramFailure,
    ScramVerifier,
    parse_client_first,
)
from sfumato.server.settings import ServerSettings

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)


def salt_for(wire: WireServer, user: str) -> bytes:
    """Return the salt that the server sends for a user."""
    with raw_connection(wire) as client:
        client.send(startup(user))
        client.read_until(b"R")
        data = b"n,,n=,r=abcdefghijkl"
        client.send(framed(b"p", text("SCRAM-SHA-256") + struct.pack("!i", len(data)) + data))
        server_first = client.read()[1][4:].decode()
    return base64.b64decode(dict(part.split("=", 1) for part in server_first.split(","))["s"])


def refused(wire: WireServer, user: str, password: str, **more: str) -> list[Message]:
    with raw_connection(wire) as client:
        return client.sign_in(user, password, **more)


def test_an_unknown_user_looks_like_a_known_one(wire: WireServer) -> None:
    """The salt is stable, of one length and different for each name, known or not; the refusal differs by the name."""
    names = ("ana", "nobody", "olga", "zoe")
    salts = {name: salt_for(wire, name) for name in names}
    assert {name: salt_for(wire, name) for name in names} == salts
    assert len(set(salts.values())) == len(names)
    assert {len(salt) for salt in salts.values()} == {16}
    known, unknown = (refused(wire, user, "sfu_wrong")[0][1] for user in ("ana", "zoe"))
    assert known.replace(b"ana", b"zoe") == unknown
    assert fields_of((b"E", known))["C"] == "28P01"


def test_a_token_from_before_is_refused_with_the_fix(wire: WireServer) -> None:
    _, secret = wire.counter.people.new_token("ben", by="tests")
    with wire.counter.people.database.write_transaction() as rows:
        rows.execute("UPDATE tokens SET scram = '' WHERE number = (SELECT max(number) FROM tokens)")
    told = fields_of(refused(wire, "ben", secret)[0])
    assert told["C"] == "28P01"
    assert "sfumato token new" in told["H"]
    assert refused(wire, "ben", wire.tokens["ben"])[-1][0] == b"Z"  # another token of the same user still works


def test_any_valid_token_of_the_user_works_and_no_other(wire: WireServer) -> None:
    people = wire.counter.people
    second, secret = people.new_token("ana", by="tests")
    assert refused(wire, "ana", secret)[-1][0] == b"Z"
    assert errors_in(refused(wire, "ben", secret)) == ["28P01"]
    people.revoke_token(second.number, by="tests")
    assert errors_in(refused(wire, "ana", secret)) == ["28P01"]
    people.add_user("ida", "analyst", by="tests")
    _, secret = people.new_token("ida", by="tests")
    people.set_disabled("ida", True, by="tests")
    assert errors_in(refused(wire, "ida", secret)) == ["28000"]


@pytest.mark.parametrize(("database", "user"), [("nothing", "ana"), ("clinic_publishe", "ana"), ("", "ana")])
def test_a_database_is_a_policy_that_the_user_may_see(wire: WireServer, database: str, user: str) -> None:
    told = fields_of(refused(wire, user, wire.tokens[user], database=database)[-1])
    assert told["C"] == "3D000"
    assert "clinic" in told["H"]


def test_secrets_are_in_no_log(wire: WireServer) -> None:
    with signed_in(wire) as client:
        client.ask(query("SELECT 1"))
    refused(wire, "ana", "sfu_a-wrong-one")
    log = (wire.folder / "log").read_text()
    assert '"route": "postgres sign-in", "status": 401' in log
    assert not any(secret in log for secret in (*wire.tokens.values(), "sfu_a-wrong-one"))


def test_newer_minor_versions_and_options_are_negotiated(wire: WireServer) -> None:
    with raw_connection(wire) as client:
        client.send(startup("ana", version=3 << 16 | 9, **{"_pq_.surprise": "1"}))
        kind, body = client.read()
        assert (kind, body) == (b"v", struct.pack("!ii", 2, 1) + b"_pq_.surprise\0")
        messages = client.prove(wire.tokens["ana"])
        (key,) = (body for kind, body in messages if kind == b"K")
        assert len(key) == 36


@pytest.mark.parametrize(
    "bad",
    [
        b"p=tls-server-end-point,,n=,r=abc",
        b"n,a=olga,n=,r=abc",
        b"n,,r=abc",
        b"n,,n=,r=",
        b"\xff\xfe",
        b"",
        b"n,,n=,r=a\x00b",
    ],
)
def test_a_first_message_that_is_not_scram_is_refused(bad: bytes) -> None:
    with pytest.raises(ScramFailure):
        parse_client_first(bad)


def test_the_vector_of_rfc_7677() -> None:
    """SCRAM-SHA-256 as its RFC shows it, with the user name that PostgreSQL's clients leave out."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = ScramExchange(
        ClientFirstMessage("n,,", "n=user,r=rOprNGfwEbeRWgbNEkqO", "rOprNGfwEbeRWgbNEkqO"), nonce, salt
    )
    assert exchange.server_first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    verifiers = [
        ScramVerifier.from_password("another", salt),
        ScramVerifier.from_text(ScramVerifier.from_password("pencil", salt).to_text()),
    ]
    assert exchange.verify(final.encode(), verifiers) == (1, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    for wrong in (final.replace("dHzb", "eHzb"), final.replace(nonce, nonce + "x"), final[:-8], final + "AAAA"):
        with pytest.raises(ScramFailure):
            exchange.verify(wrong.encode(), verifiers)


@pytest.fixture(scope="module")
def tls_wire(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder: Path = tmp_path_factory.mktemp("tls")
    write_certificate(folder)
    own = {"certificate": str(folder / "own.pem"), "certificate_key": str(folder / "own.key")}
    with wire_server(folder, at="0.0.0.0:0", **own) as found:
        found.host = "127.0.0.1"
        yield found


def test_tls_is_needed_where_others_could_listen(tls_wire: WireServer) -> None:
    own = f"sslrootcert={tls_wire.folder}/own.pem"
    assert "1\n(1 row)" in tls_wire.psql("SELECT 1", options=f"sslmode=verify-full {own}")
    assert "this server needs TLS" in tls_wire.psql("SELECT 1", options="sslmode=disable")


def test_tls_can_be_started_directly(tls_wire: WireServer) -> None:
    context = ssl.create_default_context(cafile=str(tls_wire.folder / "own.pem"))
    for protocols, works in ((["postgresql"], True), (["h2"], False)):
        context.set_alpn_protocols(protocols)
        with socket.create_connection((tls_wire.host, tls_wire.port), 20) as plain:
            try:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                    client = RawClient(connection)
                    assert client.sign_in("ana", tls_wire.tokens["ana"])[-1][0] == b"Z"
                    assert rows_in(client.ask(query("SELECT 1"))) == [[b"1"]]
                assert works
            except (ConnectionError, ssl.SSLError):
                assert not works


def test_bytes_before_the_handshake_close_the_connection(tls_wire: WireServer) -> None:
    """What a man in the middle puts in front of the handshake is never taken for the client's own words."""
    with socket.create_connection((tls_wire.host, tls_wire.port), 20) as connection:
        connection.sendall(_SSL_REQUEST + startup("ana"))
        with suppress(ConnectionResetError):
            assert connection.recv(10) == b""


def test_without_a_certificate_tls_is_declined(wire: WireServer) -> None:
    with raw_connection(wire) as client:
        client.send(_SSL_REQUEST)
        assert client.read_exactly(1) == b"N"
        client.send(struct.pack("!ii", 8, 80877104))
        assert client.read_exactly(1) == b"N"
        assert client.sign_in("ana", wire.tokens["ana"])[-1][0] == b"Z"
    with raw_connection(wire) as client:
        client.send(_SSL_REQUEST)
        client.read_exactly(1)
        client.send(_SSL_REQUEST)
        assert errors_in([client.read()]) == ["08P01"]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"postgres": "0.0.0.0:5433"}, "postgres"),
        ({"postgres": "localhost"}, "postgres"),
        ({"postgres": "127.0.0.1:5433", "processes": 2}, "postgres"),
    ],
)
def test_an_unsafe_address_is_refused_with_the_fix(settings: dict[str, object], place: str) -> None:
    with pytest.raises(InvalidSettings) as told:
        ServerSettings(**settings)  # type: ignore[arg-type]
    assert told.value.place == place
    assert told.value.fix


def test_who_does_not_sign_in_is_sent_away(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.server.postgres.listening.SIGN_IN_SECONDS", 0.2)
    started = time.monotonic()
    for sent in (b"", startup("ana")[:6], startup("ana"), _SSL_REQUEST):
        with socket.create_connection((wire.host, wire.port), 20) as connection:
            connection.sendall(sent)
            while connection.recv(1000):
                pass
    assert time.monotonic() - started < 15
