"""Ed25519 signing keys (RFC 8032) in files that only their owner can read, optionally encrypted with a passphrase.

The private key is stored as PKCS #8 in PEM, which other tools read too. The public key is one line of text.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
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
from sfumato.quick_dataclass import dataclass

_NAME = "sfumato-ed25519"
_LINE = re.compile(rf"{_NAME} ([0-9a-f]{{64}})\n?")
_MAX_BYTES = 10_000
"""The most bytes read from a key file: more than any key has."""


@dataclass(frozen=True)
class PublicKey:
    """A public key, which verifies what its owner signed."""

    raw: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.raw, bytes) or len(self.raw) != 32:
            raise InvalidParameter("key", self.raw, "32 bytes")

    @classmethod
    def read(cls, source: str | os.PathLike[str]) -> PublicKey:
        """Read a public key from its file, or parse the line of text itself."""
        text = (
            source
            if isinstance(source, str) and _LINE.fullmatch(source)
            else _read_file(source).decode(errors="replace")
        )
        match = _LINE.fullmatch(text)
        if match is None:
            raise SfumatoError(
                f"a public key must be one line: {_NAME} and 64 hexadecimal digits",
                place=str(source),
                fix="name the .pub file that sfumato key new wrote beside the private key",
            )
        return cls(bytes.fromhex(match[1]))

    @property
    def line(self) -> str:
        """The public key as a line of text, to publish."""
        return f"{_NAME} {self.raw.hex()}"

    @property
    def fingerprint(self) -> str:
        """The first 128 bits of the key's SHA-256, to read out and compare."""
        digest = hashlib.sha256(self.raw).hexdigest()[:32]
        return " ".join(digest[start : start + 4] for start in range(0, 32, 4))

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Return whether the owner of this key signed exactly this content."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, repr=False)
class SigningKey:
    """An owner's private key. It is never printed."""

    private: Ed25519PrivateKey

    @classmethod
    def new(cls) -> SigningKey:
        """Generate a key from the same randomness as all noise."""
        return cls(Ed25519PrivateKey.from_private_bytes(bits.random_bits(256).to_bytes(32, "big")))

    @classmethod
    def read(cls, path: str | os.PathLike[str], passphrase: str | None = None) -> SigningKey:
        """Read a key from its file; refuse a file that others can read."""
        content = _read_file(path)
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise SfumatoError(
                "this key file can be read by other users, but a signing key must be readable by its owner alone",
                place=str(path),
                fix=f"run chmod 600 {path}; if others may have read the key, make a new one with sfumato key new",
            )
        try:
            private = load_pem_private_key(content, None if passphrase is None else passphrase.encode())
        except TypeError as error:
            if passphrase is None:
                raise _unreadable_key_error(path, "it is encrypted with a passphrase", "give the passphrase") from error
            raise _unreadable_key_error(
                path, "it is not encrypted, but a passphrase was given", "leave out the passphrase"
            ) from error
        except (ValueError, UnsupportedAlgorithm) as error:
            why, fix = "it is not a private key in PEM, or the passphrase is wrong", "check the file and the passphrase"
            raise _unreadable_key_error(path, why, fix) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise _unreadable_key_error(
                path, "it is a key of another type", "make a new one: sfumato key new owner.key"
            )
        return cls(private)

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, content: bytes) -> bytes:
        """Return the Ed25519 signature of the content."""
        return self.private.sign(content)

    def save(self, path: str | os.PathLike[str], passphrase: str | None = None) -> Path:
        """Save the key to a new file with mode 0600, and the public key beside it; return the path of the latter."""
        if passphrase == "":
            raise InvalidParameter(
                "passphrase",
                passphrase,
                "at least one character, or left out",
                fix="leave out passphrase to save the key unencrypted",
            )
        public = Path(f"{os.fspath(path)}.pub")
        if public.exists():
            raise _file_exists_error(public)
        encryption: KeySerializationEncryption = (
            NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
        )
        _create_file(Path(path), self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption), 0o600)
        _create_file(public, f"{self.public.line}\n".encode(), 0o644)
        return public

    def __repr__(self) -> str:
        return f"<SigningKey of {self.public.line}>"


def is_encrypted(path: str | os.PathLike[str]) -> bool:
    """Return whether a key file is encrypted, so that a passphrase is asked for only then."""
    return b"ENCRYPTED" in _read_file(path)


def _create_file(path: Path, content: bytes, mode: int) -> None:
    """Create a new file, with this mode from the start."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise _file_exists_error(path) from None
    except OSError as error:
        raise SfumatoError(
            f"the key cannot be written ({os.strerror(error.errno or 0)})",
            place=str(path),
            fix="name a file in an existing folder that you can write to, on a disk with free space",
        ) from None
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
        file.flush()
        os.fsync(handle)


def _read_file(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except (OSError, ValueError, TypeError) as error:
        raise SfumatoError(
            "the key file cannot be read", place=str(path), fix="check the path; sfumato key new makes a key"
        ) from error


def _file_exists_error(path: Path) -> SfumatoError:
    return SfumatoError(
        "this file already exists, and writing to it could destroy a key",
        place=str(path),
        fix="name another file",
    )


def _unreadable_key_error(path: str | os.PathLike[str], why: str, fix: str) -> SfumatoError:
    return SfumatoError(f"this file cannot be read as an Ed25519 private key: {why}", place=str(path), fix=fix)
