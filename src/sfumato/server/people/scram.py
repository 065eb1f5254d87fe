"""The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding.

A user's tokens share one salt, which is derived from a secret of the people file and the user's name. The server's
first message is therefore the same kind of value for a user with tokens, for one without, and for a name that nobody
has: it tells nothing about who exists. The client's proof is then compared with every verifier of the user, and with
one that nobody's token has, so a failed sign-in of an unknown user does the same work.

A token has 256 random bits, so guessing from a stolen verifier is hopeless at any number of iterations; RFC 7677's
least number is used.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable
from dataclasses import field
from hashlib import pbkdf2_hmac, sha256
from typing import NamedTuple

from sfumato.quick_dataclass import dataclass

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
_NONCE_LETTERS = frozenset(range(0x21, 0x7F)) - {0x2C}


class ScramFailure(Exception):
    """A message that is not valid SCRAM, or a proof that no verifier confirms."""


@dataclass(frozen=True)
class ScramVerifier:
    """What is stored of a password: enough to check a proof, not enough to make one."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def from_password(cls, password: str, salt: bytes) -> ScramVerifier:
        salted = pbkdf2_hmac("sha256", password.encode(errors="surrogatepass"), salt, ITERATIONS)
        return cls(sha256(_hmac(salted, b"Client Key")).digest(), _hmac(salted, b"Server Key"))

    def to_text(self) -> str:
        """Encode the two keys as text."""
        return f"{_base64(self.stored_key)}:{_base64(self.server_key)}"

    @classmethod
    def from_text(cls, text: str) -> ScramVerifier:
        stored_key, _, server_key = text.partition(":")
        return cls(_from_base64(stored_key), _from_base64(server_key))


class ClientFirstMessage(NamedTuple):
    """The client's first message: its GS2 header, the rest, and its nonce."""

    header: str
    bare: str
    nonce: str


def parse_client_first(data: bytes) -> ClientFirstMessage:
    """Parse the client's first message. Its user name is ignored: the start-up message has it."""
    message = _decode_text(data)
    header_parts = message.split(",", 2)
    if len(header_parts) != 3 or header_parts[0] not in ("n", "y") or header_parts[1]:
        raise ScramFailure("channel binding and other authorization identities are not offered")
    attributes = header_parts[2].split(",")
    nonce = attributes[1] if len(attributes) > 1 else ""
    if not attributes[0].startswith("n=") or not nonce.startswith("r=") or not _is_nonce(nonce[2:]):
        raise ScramFailure("the first message has no user or nonce")
    return ClientFirstMessage(f"{header_parts[0]},,", header_parts[2], nonce[2:])


def _is_nonce(nonce: str) -> bool:
    return bool(nonce) and set(nonce.encode()) <= _NONCE_LETTERS


@dataclass(frozen=True)
class ScramExchange:
    """A SCRAM exchange after the client's first message."""

    client: ClientFirstMessage
    nonce: str
    """The client's nonce and the server's."""
    salt: bytes

    @property
    def server_first(self) -> str:
        return f"r={self.nonce},s={_base64(self.salt)},i={ITERATIONS}"

    def verify(self, data: bytes, verifiers: Iterable[ScramVerifier]) -> tuple[int, bytes]:
        """Check the client's final message against every verifier.

        Returns: The index of the verifier that confirms the proof, and the server's final message.
        """
        message = _decode_text(data)
        without_proof, separator, encoded_proof = message.rpartition(",p=")
        expected = f"c={_base64(self.client.header.encode())},r={self.nonce}"
        if not separator or without_proof != expected:
            raise ScramFailure("the final message does not continue this exchange")
        proof = _from_base64(encoded_proof)
        signed = f"{self.client.bare},{self.server_first},{without_proof}".encode()
        confirmed = [index for index, verifier in enumerate(verifiers) if _confirms_proof(verifier, signed, proof)]
        if not confirmed:
            raise ScramFailure("no password of this user matches")
        signature = _hmac(list(verifiers)[confirmed[0]].server_key, signed)
        return confirmed[0], f"v={_base64(signature)}".encode()


def _confirms_proof(verifier: ScramVerifier, signed: bytes, proof: bytes) -> bool:
    signature = _hmac(verifier.stored_key, signed)
    padded_proof = proof.ljust(len(signature), b"\0")
    client_key = bytes(left ^ right for left, right in zip(padded_proof, signature, strict=False))
    return hmac.compare_digest(sha256(client_key).digest(), verifier.stored_key) and len(proof) == len(signature)


def equal_in_constant_time(first: bytes, second: bytes) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(first, second)


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramFailure("a message is not valid base64") from None


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramFailure("a sign-in message (SCRAM) is not valid UTF-8 text") from None
