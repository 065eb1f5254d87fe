"""A signing key is an Ed25519 key (RFC 8032) in a file that only its owner can read, perhaps under a passphrase.

The private key is written as PKCS #8 in PEM, which other tools read, too. The public key is one line of text.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.mechanisms import bits

_NAME = "sfumato-ed25519"
_LINE = re.compile(rf"{_NAME} ([0-9a-f]{{64}})\n?")
_LONGEST = 10_000
"""Bytes of a file that holds a key: more than any has."""


@dataclass(frozen=True)
class PublicKey:
    """A public key checks what its owner signed; anybody may have it."""

    raw: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.raw, bytes) or len(self.raw) != 32:
            raise InvalidParameter("key", self.raw, "32 bytes")

    @classmethod
    def read(cls, given: str | os.PathLike[str]) -> PublicKey:
        """Read a public key from its file, or from the line of text itself."""
        text = given if isinstance(given, str) and _LINE.fullmatch(given) else _content(given).decode(errors="replace")
        found = _LINE.fullmatch(text)
        if found is None:
            raise SfumatoError(
                f"a public key is one line: {_NAME} and 64 hexadecimal digits",
                place=str(given),
                fix="name the file that ends in .pub, which sfumato key new wrote beside the private key",
            )
        return cls(bytes.fromhex(found[1]))

    @property
    def line(self) -> str:
        """Give the line of text that is published."""
        return f"{_NAME} {self.raw.hex()}"

    @property
    def fingerprint(self) -> str:
        """Give a short name that can be read out and compared: the first 128 bits of the key's SHA-256."""
        digest = hashlib.sha256(self.raw).hexdigest()[:32]
        return " ".join(digest[start : start + 4] for start in range(0, 32, 4))

    def signed(self, signature: bytes, content: bytes) -> bool:
        """Tell whether the owner of this key signed this very content."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, repr=False)
class SigningKey:
    """A signing key is its owner's alone: it is never printed."""

    private: Ed25519PrivateKey

    @classmethod
    def new(cls) -> SigningKey:
        """Draw a new key, from where all randomness comes from."""
        return cls(Ed25519PrivateKey.from_private_bytes(bits.integer(256).to_bytes(32, "big")))

    @classmethod
    def read(cls, path: str | os.PathLike[str], passphrase: str | None = None) -> SigningKey:
        """Read a key from its file, which nobody but its owner may be able to read."""
        content = _content(path)
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise SfumatoError(
                "a signing key is read from a file that only its owner can read, and others can read this one",
                place=str(path),
                fix=f"chmod 600 {path}; if others may have read it, make a new key and publish that one",
            )
        try:
            found = load_pem_private_key(content, None if passphrase is None else passphrase.encode())
        except TypeError as error:
            given = "takes no passphrase" if passphrase is not None else "is under a passphrase"
            raise _unreadable(path, f"this one {given}", "run it again, and type the passphrase or none") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise _unreadable(path, "this file holds none, or the passphrase is another", "try again") from error
        if not isinstance(found, Ed25519PrivateKey):
            raise _unreadable(path, "this one is of another kind", "make one: sfumato key new owner.key")
        return cls(found)

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, content: bytes) -> bytes:
        """Give the signature of a content."""
        return self.private.sign(content)

    def save(self, path: str | os.PathLike[str], passphrase: str | None = None) -> Path:
        """Write the key to a new file for its owner's eyes alone, and the public key beside it; the place of that."""
        if passphrase == "":
            raise InvalidParameter("passphrase", passphrase, "left out, or at least one letter")
        public = Path(f"{os.fspath(path)}.pub")
        if public.exists():
            raise _taken(public)
        lock: KeySerializationEncryption = (
            NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
        )
        _create(Path(path), self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock), 0o600)
        _create(public, f"{self.public.line}\n".encode(), 0o644)
        return public

    def __repr__(self) -> str:
        return f"<SigningKey of {self.public.line}>"


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether a key is under a passphrase, so that it is asked for only then."""
    return b"ENCRYPTED" in _content(path)


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a file that was not there, with this mode from its first moment on."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise SfumatoError(
            f"the key cannot be written ({os.strerror(error.errno or 0)})",
            place=str(path),
            fix="name a file in a folder that is there, and can be written to",
        ) from None
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
        file.flush()
        os.fsync(handle)


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST)
    except (OSError, ValueError, TypeError) as error:
        raise SfumatoError(
            "there is no key that can be read", place=str(path), fix="check the path; sfumato key new makes a key"
        ) from error


def _taken(path: Path) -> SfumatoError:
    return SfumatoError(
        "a key is written to a file that is not there yet: another key would be lost",
        place=str(path),
        fix="name another file",
    )


def _unreadable(path: str | os.PathLike[str], why: str, fix: str) -> SfumatoError:
    return SfumatoError(f"an Ed25519 key is read from a PEM file; {why}", place=str(path), fix=fix)
