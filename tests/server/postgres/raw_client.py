"""A client that sends and receives the protocol's messages as bytes, and signs in with SCRAM by itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from server.postgres.wire_server import WireServer

Message = tuple[bytes, bytes]


def framed(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def startup(user: str, database: str = "clinic", version: int = 196608, **settings: str) -> bytes:
    pairs = {"user": user, "database": database, **{name.replace("__", "."): each for name, each in settings.items()}}
    body = struct.pack("!i", version) + b"".join(text(name) + text(value) for name, value in pairs.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    return framed(b"Q", text(sql))


def parse(sql: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    return framed(b"P", text(name) + text(sql) + struct.pack(f"!h{len(oids)}i", len(oids), *oids))


def bind(portal: str = "", statement: str = "", parameters: tuple[bytes, ...] = (), *, binary: bool = False) -> bytes:
    values = b"".join(struct.pack("!i", len(each)) + each for each in parameters)
    counts = struct.pack("!h", 0) + struct.pack("!h", len(parameters)) + values + struct.pack("!hh", 1, int(binary))
    return framed(b"B", text(portal) + text(statement) + counts)


def describe(kind: str, name: str = "") -> bytes:
    return framed(b"D", kind.encode() + text(name))


def execute(portal: str = "", rows: int = 0) -> bytes:
    return framed(b"E", text(portal) + struct.pack("!i", rows))


SYNC = framed(b"S")


@dataclass
class RawClient:
    """A connection on which bytes are sent and messages are read."""

    connection: socket.socket
    received: list[Message] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def read_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.connection.recv(count - len(data))
            if not more:
                raise ConnectionError(data)
            data += more
        return data

    def read(self) -> Message:
        kind = self.read_exactly(1)
        (length,) = struct.unpack("!i", self.read_exactly(4))
        return kind, self.read_exactly(length - 4)

    def read_until(self, *kinds: bytes) -> list[Message]:
        """Read messages up to the first of these kinds."""
        messages = [self.read()]
        while messages[-1][0] not in kinds:
            messages.append(self.read())
        return messages

    def ask(self, data: bytes) -> list[Message]:
        """Send, and read up to ReadyForQuery."""
        self.send(data)
        return self.read_until(b"Z")

    def sign_in(self, user: str, password: str, **more: str) -> list[Message]:
        """Sign in; return the messages after SASL."""
        self.send(startup(user, **more))
        return self.prove(password)

    def prove(self, password: str) -> list[Message]:
        """Answer the server's SCRAM, and check the server's own proof."""
        self.read_until(b"R")
        nonce = "rOprNGfwEbeRWgbNEkqO"
        bare = f"n=,r={nonce}"
        data = f"n,,{bare}".encode()
        self.send(framed(b"p", text("SCRAM-SHA-256") + struct.pack("!i", len(data)) + data))
        server_first = self.read()[1][4:].decode()
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        assert fields["r"].startswith(nonce)
        assert len(fields["r"]) > len(nonce) + 20
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = f"c=biws,r={fields['r']}"
        signed = f"{bare},{server_first},{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(left ^ right for left, right in zip(client_key, signature, strict=True)))
        self.send(framed(b"p", f"{without_proof},p={proof.decode()}".encode()))
        kind, body = self.read()
        if kind == b"R":
            expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
            assert body[4:] == b"v=" + base64.b64encode(expected)
            return self.read_until(b"Z", b"E")
        return [(kind, body)]


@contextmanager
def raw_connection(server: WireServer) -> Iterator[RawClient]:
    """Connect without signing in."""
    with socket.create_connection((server.host, server.port), 30) as connection:
        yield RawClient(connection)


@contextmanager
def signed_in(server: WireServer, user: str = "ana", **settings: str) -> Iterator[RawClient]:
    """Connect and sign in."""
    with raw_connection(server) as client:
        assert client.sign_in(user, server.tokens[user], **settings)[-1][0] == b"Z"
        yield client


def fields_of(message: Message) -> dict[str, str]:
    """Return the fields of an error or a notice by their letters."""
    parts = message[1].rstrip(b"\0").split(b"\0")
    return {part[:1].decode(): part[1:].decode() for part in parts}


def errors_in(messages: list[Message]) -> list[str]:
    return [fields_of(each)["C"] for each in messages if each[0] == b"E"]


def rows_in(messages: list[Message]) -> list[list[bytes | None]]:
    return [cells(body) for kind, body in messages if kind == b"D"]


def cells(body: bytes) -> list[bytes | None]:
    (count,) = struct.unpack("!h", body[:2])
    found: list[bytes | None] = []
    offset = 2
    for _ in range(count):
        (length,) = struct.unpack("!i", body[offset : offset + 4])
        offset += 4
        found.append(None if length < 0 else body[offset : offset + length])
        offset += max(0, length)
    return found


def kinds_in(messages: list[Message]) -> bytes:
    return b"".join(kind for kind, _ in messages)
