"""Every kind of published file is written and read in one way: a manifest that has all hashes, its own too, and at most
one member of numbers beside it.

Sizes are checked before anything is made from them, and hashes before anything is read from a manifest but its format.

A published file is a zip in which nothing is left to choose, so equal contents are equal files.

Members are stored as they are, with one date. One of them, ``manifest.json``, has its own hash inside. Whoever reads a
file writes the zip again and compares, so an edit anywhere is found.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SynopsisDamaged
from sfumato.privacy import codec
from sfumato.untrusted import UNFORESEEN

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


_OVERHEAD = 1 << 16
"""Bytes of an Arrow file beside its numbers: far more than one column needs."""


class SealedManifest(Protocol):
    """A manifest says its format, and the SHA-256 of each member; of itself, with an empty text in that place."""

    @property
    def format(self) -> int: ...

    @property
    def members(self) -> Mapping[str, str]: ...


M = TypeVar("M", bound=SealedManifest)


def written(manifest: SealedManifest, beside: Mapping[str, bytes] | None = None) -> bytes:
    """Give the bytes of a file: the manifest, sealed, and what stands beside it."""
    return zipped({MANIFEST: sealed(codec.dumps(manifest)).encode(), **(beside or {})})


def hashes(beside: Mapping[str, bytes] | None = None) -> dict[str, str]:
    """List the hash of each member, with an empty text for the manifest's own."""
    return {**{name: digest(content) for name, content in (beside or {}).items()}, MANIFEST: ""}


@dataclass(frozen=True)
class FileKind:
    """This is how files of one kind look: their name, their newest format, what is beside the manifest."""

    called: str
    format: int
    longest: int
    """The bytes that a manifest has at most."""
    beside: str | None = None

    def read(self, manifest: type[M], content: bytes, place: str) -> tuple[M, bytes]:
        """Read the manifest and the bytes of the member beside it, once every hash holds."""
        members = dict(members_of(content, place))
        names = [MANIFEST] if self.beside is None else [MANIFEST, self.beside]
        if list(members) != names or zipped(members) != content:
            raise damaged(place, f"it is not the zip of {' and '.join(names)} that was written")
        found = self._manifest(manifest, members[MANIFEST], place)
        other = members.get(self.beside or "", b"")
        if self.beside is not None and digest(other) != found.members[self.beside]:
            raise damaged(place, f"{self.beside} does not have the hash that {MANIFEST} says")
        return found, other

    def _manifest(self, manifest: type[M], content: bytes, place: str) -> M:
        if len(content) > self.longest:
            raise damaged(place, f"{MANIFEST} has more than {self.longest:,} bytes")
        try:
            text = content.decode()
            stated = json.loads(text, parse_float=str, parse_constant=str)
            number, own = stated["format"], stated["members"][MANIFEST]
        except UNFORESEEN:
            raise damaged(place, f"{MANIFEST} is not the JSON text that was written") from None
        if type(number) is int and number > self.format:
            rule = f"this version reads a {self.called} of format {self.format}; the file has format {number}"
            raise SynopsisDamaged(rule, place=place, fix="install a newer sfumato")
        if not is_sealed(text, own):
            raise damaged(place, f"{MANIFEST} does not have the hash that it says")
        try:
            return codec.loads_as(manifest, text, longest=self.longest)
        except InvalidParameter as error:
            raise damaged(place, f"{MANIFEST} does not say what a {self.called} is ({error.rule})") from error


@dataclass(frozen=True)
class NumberMember:
    """This is a member of a file that holds numbers of one type, as one column of an Arrow file."""

    member: str
    column: str
    dtype: str
    """int64 or float64."""

    def written(self, numbers: NDArray[Any]) -> bytes:
        """Give the bytes of the member."""
        import pyarrow
        from pyarrow import ipc

        schema = self._schema()
        out = pyarrow.BufferOutputStream()
        with ipc.new_file(out, schema) as file:
            file.write_batch(pyarrow.record_batch([pyarrow.array(numbers, schema.field(0).type)], schema=schema))
        return bytes(out.getvalue())

    def read(self, content: bytes, count: int, place: str) -> NDArray[Any]:
        """Read as many numbers as there must be, once the sizes fit."""
        import pyarrow
        from pyarrow import ipc

        if not 0 <= len(content) - 8 * count <= _OVERHEAD:
            raise damaged(place, f"{self.member} does not have the {count:,} numbers that belong to it")
        try:
            file = ipc.open_file(pyarrow.BufferReader(content))
            if file.schema != self._schema() or file.num_record_batches != 1:
                raise damaged(place, f"{self.member} has other columns than one of numbers")
            batch = file.get_batch(0)
            batch.validate(full=True)
            column = batch.column(0)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise damaged(place, f"{self.member} is no Arrow file") from error
        if len(column) != count or column.null_count:
            raise damaged(place, f"{self.member} does not have the {count:,} numbers that belong to it")
        # Arrow's own to_numpy imports pandas, which takes as long as all the rest of a question.
        kind = np.dtype(self.dtype).newbyteorder("<")
        return np.frombuffer(column.buffers()[1], kind, count, 8 * column.offset).astype(self.dtype)

    def _schema(self) -> Any:
        import pyarrow

        return pyarrow.schema([pyarrow.field(self.column, pyarrow.type_for_alias(self.dtype), nullable=False)])
