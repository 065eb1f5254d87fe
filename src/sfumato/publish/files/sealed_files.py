"""The sealed format of all published files: a manifest with all hashes, including its own, and at most one member of
numbers beside it.

Sizes are checked before anything is built from them, and hashes before anything but the format is read from a
manifest.

A published file is a canonical zip, so equal contents are equal files: members are stored uncompressed, with one date.
The member ``manifest.json`` contains its own hash. A reader rebuilds the zip and compares it, so an edit anywhere is
detected. The hashes have no key, so a file that somebody made anew is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SynopsisDamaged, ValueWords
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import MALFORMED_INPUT

MANIFEST = "manifest.json"
_MAX_BYTES = 1 << 31
_LOCAL_HEADER, _CENTRAL_HEADER, _END_RECORD = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_DATE = (1 << 5) | 1
"""1 January 1980, the first day that a zip can represent."""


def write_atomically(content: bytes, path: str | os.PathLike[str]) -> None:
    """Write a temporary file beside the target and rename it: the name always refers to a whole file, or to none."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        raise _unwritable_refusal(target, error) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path where no file can be written, before something that will be written there is paid for."""
    target = Path(path)
    probe = target.with_name(f".{target.name}.{os.getpid()}.probe")
    try:
        probe.touch()
    except OSError as error:
        raise _unwritable_refusal(target, error) from error
    finally:
        with suppress(OSError):
            probe.unlink()


def _unwritable_refusal(target: Path, error: OSError) -> SynopsisDamaged:
    fix = "name a file in an existing folder that you can write to, on a disk with free space"
    return SynopsisDamaged(f"the file cannot be written ({os.strerror(error.errno or 0)})", place=str(target), fix=fix)


def seal_manifest(manifest: str) -> str:
    """Fill the manifest's own hash into the entry left empty for it."""
    return manifest.replace(_hash_entry(""), _hash_entry(sha256_hex(manifest.encode())), 1)


def is_sealed(manifest: str, stated_hash: object) -> bool:
    """Return whether a manifest has the hash that it states as its own."""
    return (
        isinstance(stated_hash, str)
        and sha256_hex(manifest.replace(_hash_entry(stated_hash), _hash_entry(""), 1).encode()) == stated_hash
    )


def _hash_entry(hash_text: str) -> str:
    return f'"{MANIFEST}":"{hash_text}"'


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of a member."""
    return hashlib.sha256(content).hexdigest()


def build_zip(members: Mapping[str, bytes]) -> bytes:
    """Build a canonical zip: members stored uncompressed, one date, no optional fields."""
    archive, directory = bytearray(), bytearray()
    for name, content in members.items():
        encoded_name = name.encode()
        header_fields = 20, 0, 0, 0, _DATE, zlib.crc32(content), len(content), len(content), len(encoded_name), 0
        directory += (
            _CENTRAL_HEADER + struct.pack("<H5H3I2H3H2I", 20, *header_fields, 0, 0, 0, 0, len(archive)) + encoded_name
        )
        archive += _LOCAL_HEADER + struct.pack("<5H3I2H", *header_fields) + encoded_name + content
    end = struct.pack("<4H2IH", 0, 0, len(members), len(members), len(directory), len(archive), 0)
    return bytes(archive + directory + _END_RECORD + end)


def read_file_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a file, if it exists and is not too long."""
    place = str(path)
    try:
        if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path):
            fix = "check the path; sfumato publish -o and sfumato synthesize --model write such files"
            raise SynopsisDamaged("there is no such .sfu file", place=place, fix=fix)
        if os.path.getsize(path) > _MAX_BYTES:
            raise damaged_file_error(place, f"it has more than {_MAX_BYTES:,} bytes")
        return Path(path).read_bytes()
    except OSError as error:
        raise SynopsisDamaged(
            "the file cannot be read", place=place, fix="give this user the right to read the file"
        ) from error


def damaged_file_error(file_name: str, why: str) -> SynopsisDamaged:
    """Return the error for a file that is not as it was written."""
    return SynopsisDamaged(
        f"the .sfu file is damaged or was edited: {why}",
        place=file_name,
        fix="get the file again from its publisher",
    )


def iterate_members(content: bytes, file_name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the members from the start, as far as their stated sizes fit the content."""
    header_size, offset = struct.calcsize("<5H3I2H") + 4, 0
    while content[offset : offset + 4] == _LOCAL_HEADER:
        if len(content) < offset + header_size:
            raise damaged_file_error(file_name, "it ends too early")
        *_, size, _, name_size, extra_size = struct.unpack("<5H3I2H", content[offset + 4 : offset + header_size])
        start = offset + header_size + name_size + extra_size
        if start + size > len(content):
            raise damaged_file_error(file_name, "it ends too early")
        yield (
            content[offset + header_size : offset + header_size + name_size].decode("ascii", "replace"),
            content[start : start + size],
        )
        offset = start + size


_OVERHEAD = 1 << 16
"""The most bytes of an Arrow file beside its numbers: far more than one column needs."""


class SealedManifest(Protocol):
    """A manifest: its format, and the SHA-256 of each member; its own is computed with an empty text in that entry."""

    @property
    def format(self) -> int: ...

    @property
    def members(self) -> Mapping[str, str]: ...


M = TypeVar("M", bound=SealedManifest)


def to_bytes(manifest: SealedManifest, members: Mapping[str, bytes] | None = None) -> bytes:
    """Return the bytes of a file: the sealed manifest, and the members beside it."""
    return build_zip({MANIFEST: seal_manifest(codec.dumps(manifest)).encode(), **(members or {})})


def member_hashes(other_members: Mapping[str, bytes] | None = None) -> dict[str, str]:
    """Return the hash of each member, with an empty text for the manifest's own."""
    return {**{name: sha256_hex(content) for name, content in (other_members or {}).items()}, MANIFEST: ""}


def unfit_members_error(members: object, names: Sequence[str]) -> InvalidParameter:
    """Return the refusal of hashes that are not exactly those of the members with these names."""
    got = f"the keys {list(members)!r}" if isinstance(members, Mapping) else "no mapping"
    if isinstance(members, Mapping) and set(members) == set(names):
        got = "a hash that is not text"
    rule = f"a mapping with the hash, as text, of exactly these members: {', '.join(names)}"
    return InvalidParameter("members", ValueWords(got[:200]), rule, fix=_LOAD)


_LOAD = "load the file with sf.synopsis(path), or sf.form(path) for a survey form"


@dataclass(frozen=True)
class FileKind:
    """A kind of file: its name, its newest format, and the member beside the manifest."""

    label: str
    format: int
    max_manifest_bytes: int
    """The most bytes of a manifest."""
    data_member: str | None = None

    def read(self, manifest: type[M], content: bytes, file_name: str) -> tuple[M, bytes]:
        """Read the manifest and the bytes of the member beside it, after every hash is verified."""
        members = dict(iterate_members(content, file_name))
        names = [MANIFEST] if self.data_member is None else [MANIFEST, self.data_member]
        if list(members) != names or build_zip(members) != content:
            raise damaged_file_error(
                file_name, f"it does not consist of exactly {' and '.join(names)}, as they were written"
            )
        parsed = self._parse_manifest(manifest, members[MANIFEST], file_name)
        other = members.get(self.data_member or "", b"")
        if self.data_member is not None and sha256_hex(other) != parsed.members[self.data_member]:
            raise damaged_file_error(file_name, f"the hash of {self.data_member} is not the one stated in {MANIFEST}")
        return parsed, other

    def _parse_manifest(self, manifest: type[M], content: bytes, file_name: str) -> M:
        if len(content) > self.max_manifest_bytes:
            raise damaged_file_error(file_name, f"{MANIFEST} has more than {self.max_manifest_bytes:,} bytes")
        try:
            text = content.decode()
            stated = json.loads(text, parse_float=str, parse_constant=str)
            stated_format, stated_hash = stated["format"], stated["members"][MANIFEST]
        except MALFORMED_INPUT:
            raise damaged_file_error(file_name, f"{MANIFEST} is not the original JSON text") from None
        if type(stated_format) is int and stated_format > self.format:
            rule = f"this version reads a {self.label} of format {self.format}; the file has format {stated_format}"
            raise SynopsisDamaged(rule, place=file_name, fix="install a newer version of sfumato")
        if not is_sealed(text, stated_hash):
            raise damaged_file_error(file_name, f"the hash stated in {MANIFEST} does not fit its content")
        try:
            return codec.loads_as(manifest, text, longest=self.max_manifest_bytes)
        except InvalidParameter as error:
            raise damaged_file_error(
                file_name, f"{MANIFEST} does not describe a {self.label} ({error.rule})"
            ) from error


@dataclass(frozen=True)
class NumberMember:
    """A member of numbers of one type, stored as one column of an Arrow file."""

    member: str
    column: str
    dtype: str
    """int64 or float64."""

    def to_bytes(self, numbers: NDArray[Any]) -> bytes:
        """Return the bytes of the member."""
        import pyarrow
        from pyarrow import ipc

        schema = self._schema()
        out = pyarrow.BufferOutputStream()
        with ipc.new_file(out, schema) as file:
            file.write_batch(pyarrow.record_batch([pyarrow.array(numbers, schema.field(0).type)], schema=schema))
        return bytes(out.getvalue())

    def read(self, content: bytes, count: int, file_name: str) -> NDArray[Any]:
        """Read exactly ``count`` numbers, after the sizes are checked."""
        import pyarrow
        from pyarrow import ipc

        if not 0 <= len(content) - 8 * count <= _OVERHEAD:
            raise damaged_file_error(
                file_name, f"{self.member} must hold {count:,} numbers: its length does not fit them"
            )
        try:
            file = ipc.open_file(pyarrow.BufferReader(content))
            if file.schema != self._schema() or file.num_record_batches != 1:
                raise damaged_file_error(file_name, f"{self.member} does not have exactly one column of numbers")
            batch = file.get_batch(0)
            batch.validate(full=True)
            column = batch.column(0)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise damaged_file_error(file_name, f"{self.member} is not an Arrow file") from error
        if len(column) != count or column.null_count:
            raise damaged_file_error(
                file_name, f"{self.member} must hold {count:,} numbers: its length does not fit them"
            )
        # Arrow's own to_numpy imports pandas, which takes as long as the rest of a question.
        kind = np.dtype(self.dtype).newbyteorder("<")
        return np.frombuffer(column.buffers()[1], kind, count, 8 * column.offset).astype(self.dtype)

    def _schema(self) -> Any:
        import pyarrow

        return pyarrow.schema([pyarrow.field(self.column, pyarrow.type_for_alias(self.dtype), nullable=False)])
