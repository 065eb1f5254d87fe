"""A published file is a zip in which nothing is left to choose, so equal contents are equal files.

Members are stored as they are, with one date. One of them, ``manifest.json``, has its own hash inside. Whoever reads a
file writes the zip again and compares, so an edit anywhere is found.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sfumato.errors import SynopsisDamaged

MANIFEST = "manifest.json"
_MOST_BYTES = 1 << 31
_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_DATE = (1 << 5) | 1
"""1 January 1980, the first day that a zip knows."""


def save(content: bytes, path: str | os.PathLike[str]) -> None:
    """Write a file beside its place, and rename: there is always a whole file under the name, or none."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be written: what is written later may have been paid for."""
    target = Path(path)
    probe = target.with_name(f".{target.name}.{os.getpid()}.probe")
    try:
        probe.touch()
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        with suppress(OSError):
            probe.unlink()


def _unwritable(target: Path, error: OSError) -> SynopsisDamaged:
    fix = "give the name of a file in a folder that is there, and can be written to"
    return SynopsisDamaged(f"the file cannot be written ({os.strerror(error.errno or 0)})", place=str(target), fix=fix)


def sealed(manifest: str) -> str:
    """Write the manifest's hash into the place that is left empty for it."""
    return manifest.replace(_own(""), _own(digest(manifest.encode())), 1)


def is_sealed(manifest: str, own: object) -> bool:
    """Tell whether a manifest has the hash that it says is its own."""
    return isinstance(own, str) and digest(manifest.replace(_own(own), _own(""), 1).encode()) == own


def _own(found: str) -> str:
    return f'"{MANIFEST}":"{found}"'


def digest(content: bytes) -> str:
    """Compute the SHA-256 of a member."""
    return hashlib.sha256(content).hexdigest()


def zipped(members: Mapping[str, bytes]) -> bytes:
    """Write a zip in which nothing is left to choose: members as they are, one date, no more fields than needed."""
    found, listed = bytearray(), bytearray()
    for name, content in members.items():
        called = name.encode()
        facts = 20, 0, 0, 0, _DATE, zlib.crc32(content), len(content), len(content), len(called), 0
        listed += _CENTRAL + struct.pack("<H5H3I2H3H2I", 20, *facts, 0, 0, 0, 0, len(found)) + called
        found += _LOCAL + struct.pack("<5H3I2H", *facts) + called + content
    end = struct.pack("<4H2IH", 0, 0, len(members), len(members), len(listed), len(found), 0)
    return bytes(found + listed + _END + end)


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a file, if it is one and not too long."""
    place = str(path)
    try:
        if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path):
            fix = "check the path; sfumato publish -o and sfumato synthesize --model write such files"
            raise SynopsisDamaged("there is no such .sfu file", place=place, fix=fix)
        if os.path.getsize(path) > _MOST_BYTES:
            raise damaged(place, f"it has more than {_MOST_BYTES:,} bytes")
        return Path(path).read_bytes()
    except OSError as error:
        raise SynopsisDamaged("the file cannot be read", place=place, fix="make it readable for this user") from error


def damaged(place: str, why: str) -> SynopsisDamaged:
    """Say that a file is not as it was written."""
    return SynopsisDamaged(
        f"a .sfu file is read only as it was written; {why}",
        place=place,
        fix="fetch the file again from whoever published it",
    )


def members_of(content: bytes, place: str) -> Iterator[tuple[str, bytes]]:
    """Read the members from the start, as far as what they say of their sizes fits what is there."""
    head, at = struct.calcsize("<5H3I2H") + 4, 0
    while content[at : at + 4] == _LOCAL:
        if len(content) < at + head:
            raise damaged(place, "it ends too early")
        *_, size, _, named, more = struct.unpack("<5H3I2H", content[at + 4 : at + head])
        start = at + head + named + more
        if start + size > len(content):
            raise damaged(place, "it ends too early")
        yield content[at + head : at + head + named].decode("ascii", "replace"), content[start : start + size]
        at = start + size
