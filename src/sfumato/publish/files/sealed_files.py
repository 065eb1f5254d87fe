"""Every kind of published file is written and read in one way: a manifest that has all hashes, its own too, and at most
one member of numbers beside it.

Sizes are checked before anything is made from them, and hashes before anything is read from a manifest but its format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, SynopsisDamaged
from sfumato.privacy import codec
from sfumato.publish.files.zip_files import MANIFEST, damaged, digest, is_sealed, members_of, sealed, zipped
from sfumato.untrusted import UNFORESEEN

_OVERHEAD = 1 << 16
"""Bytes of an Arrow file beside its numbers: far more than one column needs."""


class Manifest(Protocol):
    """A manifest says its format, and the SHA-256 of each member; of itself, with an empty text in that place."""

    @property
    def format(self) -> int: ...

    @property
    def members(self) -> Mapping[str, str]: ...


M = TypeVar("M", bound=Manifest)


def written(manifest: Manifest, beside: Mapping[str, bytes] | None = None) -> bytes:
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
