"""Messages of the PostgreSQL protocol, version 3: decoding what clients send, encoding what the server replies.

Every function is pure and total: bytes that are no message raise ``ProtocolViolation``, whatever they are. Decoding
copies nothing twice and its time is linear in the length of the message, which ``listening`` bounds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field

from sfumato.quick_dataclass import dataclass

PROTOCOL_MAJOR = 3
NEWEST_MINOR = 2
SERVER_VERSION = "15.0"
"""The version that clients are told: they choose their catalog statements by it."""
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
MAX_STARTUP_BYTES = 10_000
MAX_MESSAGE_BYTES = 1 << 20
QUERY, TERMINATE = b"Q", b"X"
STATEMENT_MESSAGES = (QUERY, b"P", b"B", b"D", b"E", b"C")
"""Types of messages about statements, where a mistake inside ends the statement and not the connection."""
_MAX_ITEMS = 32767
"""Parameters or formats of one message: their number is a signed 16-bit integer."""
_CANCEL_KEY_BYTES = (4, 256)


class ProtocolViolation(Exception):
    """Bytes that are no message of the protocol, or not one that may be sent now."""


@dataclass(frozen=True)
class EncryptionRequest:
    """The client's question whether TLS or GSSAPI encryption is offered."""

    gss: bool = False


@dataclass(frozen=True)
class CancelRequest:
    """A request, on a connection of its own, to cancel the statement of another connection."""

    process: int
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Startup:
    """The first message of a session: the protocol's minor version, and parameters such as user and database."""

    minor: int
    parameters: Mapping[str, str]
    unknown_options: tuple[str, ...] = ()
    """Parameters that begin with ``_pq_.``: protocol extensions, none of which is known here."""


@dataclass(frozen=True)
class SimpleQuery:
    """A text of statements, to be run at once."""

    sql: str


@dataclass(frozen=True)
class Parse:
    name: str
    sql: str
    parameter_oids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bind:
    portal: str
    statement: str
    parameter_formats: tuple[int, ...] = ()
    parameters: tuple[bytes | None, ...] = field(default=(), repr=False)
    result_formats: tuple[int, ...] = ()


@dataclass(frozen=True)
class Describe:
    """A question about a prepared statement (``S``) or a portal (``P``)."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    portal: str
    max_rows: int = 0
    """0 for all rows."""


@dataclass(frozen=True)
class Close:
    """Forget a prepared statement (``S``) or a portal (``P``)."""

    kind: str
    name: str


@dataclass(frozen=True)
class Sync:
    pass


@dataclass(frozen=True)
class Flush:
    pass


@dataclass(frozen=True)
class Terminate:
    pass


@dataclass(frozen=True)
class IgnoredCopyMessage:
    """Data of a COPY FROM, which is never started here: ignored, as the protocol asks."""


@dataclass(frozen=True)
class AuthenticationData:
    """The body of a password message: SASL's own messages."""

    body: bytes = field(repr=False)


FrontendMessage = (
    SimpleQuery
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Sync
    | Flush
    | Terminate
    | IgnoredCopyMessage
    | AuthenticationData
)


class _MessageReader:
    """A cursor over the body of one message."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._offset = 0

    def read_text(self) -> str:
        """Read a text up to its NUL."""
        end = self._body.find(b"\0", self._offset)
        if end < 0:
            raise ProtocolViolation("a string in a message has no end")
        raw, self._offset = self._body[self._offset : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ProtocolViolation("a string in a message is not valid UTF-8") from None

    def read_bytes(self, count: int) -> bytes:
        if count < 0 or count > len(self._body) - self._offset:
            raise ProtocolViolation("a message is shorter than its fields")
        raw = self._body[self._offset : self._offset + count]
        self._offset += count
        return raw

    def read_int16(self) -> int:
        (number,) = struct.unpack("!h", self.read_bytes(2))
        return int(number)

    def read_int32(self) -> int:
        (number,) = struct.unpack("!i", self.read_bytes(4))
        return int(number)

    def read_count(self) -> int:
        number = self.read_int16()
        if not 0 <= number <= _MAX_ITEMS:
            raise ProtocolViolation("a message has a negative number of fields")
        return number

    def require_end(self) -> None:
        if self._offset != len(self._body):
            raise ProtocolViolation("a message is longer than its fields")

    @property
    def remaining(self) -> int:
        return len(self._body) - self._offset


def decode_startup(body: bytes) -> EncryptionRequest | CancelRequest | Startup:
    """Decode the first message of a connection, without its length."""
    fields = _MessageReader(body)
    code = fields.read_int32()
    if code in (SSL_REQUEST, GSS_REQUEST):
        fields.require_end()
        return EncryptionRequest(code == GSS_REQUEST)
    if code == CANCEL_REQUEST:
        process = fields.read_int32()
        least, most = _CANCEL_KEY_BYTES
        if not least <= fields.remaining <= most:
            raise ProtocolViolation("a cancel key must have 4 to 256 bytes")
        return CancelRequest(process, fields.read_bytes(fields.remaining))
    if code >> 16 != PROTOCOL_MAJOR:
        raise ProtocolViolation("only version 3 of the protocol is supported")
    return _decode_startup_parameters(fields, code & 0xFFFF)


def _decode_startup_parameters(fields: _MessageReader, minor: int) -> Startup:
    parameters: dict[str, str] = {}
    unknown = []
    while name := fields.read_text():
        value = fields.read_text()
        if name.startswith("_pq_."):
            unknown.append(name)
        else:
            parameters[name] = value
    fields.require_end()
    return Startup(minor, parameters, tuple(unknown))


def decode_message(kind: bytes, body: bytes) -> FrontendMessage:
    """Decode a message after the start-up, from its type byte and its body."""
    fields = _MessageReader(body)
    match kind:
        case _ if kind == QUERY:
            message: FrontendMessage = SimpleQuery(fields.read_text())
        case b"P":
            message = Parse(
                fields.read_text(), fields.read_text(), tuple(fields.read_int32() for _ in range(fields.read_count()))
            )
        case b"B":
            message = _decode_bind(fields)
        case b"D":
            message = Describe(_read_statement_or_portal_kind(fields), fields.read_text())
        case b"E":
            message = Execute(fields.read_text(), max(0, fields.read_int32()))
        case b"C":
            message = Close(_read_statement_or_portal_kind(fields), fields.read_text())
        case b"S":
            message = Sync()
        case b"H":
            message = Flush()
        case _ if kind == TERMINATE:
            message = Terminate()
        case b"d" | b"c" | b"f":
            return IgnoredCopyMessage()
        case b"p":
            return AuthenticationData(body)
        case _:
            raise ProtocolViolation("a message of an unknown type")
    fields.require_end()
    return message


def _decode_bind(fields: _MessageReader) -> Bind:
    portal, statement = fields.read_text(), fields.read_text()
    formats = tuple(fields.read_int16() for _ in range(fields.read_count()))
    parameters = tuple(_decode_parameter(fields) for _ in range(fields.read_count()))
    result_formats = tuple(fields.read_int16() for _ in range(fields.read_count()))
    if any(format_code not in (0, 1) for format_code in (*formats, *result_formats)):
        raise ProtocolViolation("a format code must be 0 for text or 1 for binary")
    return Bind(portal, statement, formats, parameters, result_formats)


def _decode_parameter(fields: _MessageReader) -> bytes | None:
    length = fields.read_int32()
    return None if length == -1 else fields.read_bytes(length)


def _read_statement_or_portal_kind(fields: _MessageReader) -> str:
    kind = fields.read_bytes(1)
    if kind not in (b"S", b"P"):
        raise ProtocolViolation("Describe and Close must name a statement or a portal")
    return kind.decode()


@dataclass(frozen=True)
class SaslInitial:
    """The first message of the client's authentication: its mechanism and data."""

    mechanism: str
    data: bytes = field(repr=False)


def decode_sasl_initial(body: bytes) -> SaslInitial:
    fields = _MessageReader(body)
    mechanism, length = fields.read_text(), fields.read_int32()
    data = b"" if length == -1 else fields.read_bytes(length)
    fields.require_end()
    return SaslInitial(mechanism, data)


# ── replies ────────────────────────────────────────────────────────────────────────────────────


def encode_message(kind: bytes, body: bytes = b"") -> bytes:
    """Frame a message: its type, its length and its body."""
    return kind + struct.pack("!i", len(body) + 4) + body


def encode_text_field(value: str) -> bytes:
    """Encode a text with its NUL; a NUL inside it would end it, and is left out."""
    return value.replace("\0", "").encode(errors="replace") + b"\0"


AUTHENTICATED = encode_message(b"R", struct.pack("!i", 0))
PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = encode_message(b"1"), encode_message(b"2"), encode_message(b"3")
NO_DATA, EMPTY_QUERY, PORTAL_SUSPENDED, COPY_DONE = (
    encode_message(b"n"),
    encode_message(b"I"),
    encode_message(b"s"),
    encode_message(b"c"),
)


def sasl_mechanisms(*names: str) -> bytes:
    return encode_message(b"R", struct.pack("!i", 10) + b"".join(map(encode_text_field, names)) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    return encode_message(b"R", struct.pack("!i", 11) + data)


def sasl_final(data: bytes) -> bytes:
    return encode_message(b"R", struct.pack("!i", 12) + data)


def backend_key(process: int, key: bytes) -> bytes:
    return encode_message(b"K", struct.pack("!i", process) + key)


def negotiate_version(minor: int, unknown: Sequence[str]) -> bytes:
    """Tell the newest minor version spoken here, and the options that are not known."""
    return encode_message(b"v", struct.pack("!ii", minor, len(unknown)) + b"".join(map(encode_text_field, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    return encode_message(b"S", encode_text_field(name) + encode_text_field(value))


def ready_for_query(status: str) -> bytes:
    """Report that the next statement may come: idle (I), in a transaction (T), or in a failed one (E)."""
    return encode_message(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    return encode_message(b"C", encode_text_field(tag))


def encode_report(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """Encode an error (``E``) or a notice (``N``) from its fields by their letters; empty ones are left out."""
    encoded = b"".join(letter.encode() + encode_text_field(value) for letter, value in fields.items() if value)
    return encode_message(kind, encoded + b"\0")


@dataclass(frozen=True)
class FieldDescription:
    """A column of a result, with the format in which its values are sent: 0 for text, 1 for binary."""

    name: str
    oid: int
    size: int
    format: int = 0


def row_description(fields: Sequence[FieldDescription]) -> bytes:
    described = b"".join(
        encode_text_field(description.name)
        + struct.pack("!ihihih", 0, 0, description.oid, description.size, -1, description.format)
        for description in fields
    )
    return encode_message(b"T", struct.pack("!h", len(fields)) + described)


def parameter_description(oids: Sequence[int]) -> bytes:
    return encode_message(b"t", struct.pack(f"!h{len(oids)}i", len(oids), *oids))


def row_body(cells: Sequence[bytes | None]) -> bytes:
    """Encode the cells of a row: also a row of a binary COPY."""
    encoded = b"".join(b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells)
    return struct.pack("!h", len(cells)) + encoded


def data_row(cells: Sequence[bytes | None]) -> bytes:
    return encode_message(b"D", row_body(cells))


def copy_out_response(columns: int, *, binary: bool) -> bytes:
    return encode_message(b"H", struct.pack(f"!bh{columns}h", binary, columns, *([int(binary)] * columns)))


def copy_data(data: bytes) -> bytes:
    return encode_message(b"d", data)
