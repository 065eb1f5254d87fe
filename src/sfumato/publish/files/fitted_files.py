"""Files of fitted models: a zip whose one member, ``manifest.json``, holds what was released.

The model itself is not in it: it is fitted again when the file is read, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy import codec
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import MANIFEST, FileKind
from sfumato.publish.files.synopsis_files import public_receipt
from sfumato.publish.mwem import MwemFit
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt

_FORMAT = 1
_KIND = FileKind("model", _FORMAT, 1 << 28)


@codec.serialisable("fitted-file")
@dataclass(frozen=True)
class FitManifest:
    """The manifest of a model: its format, its own hash, what was released, and the receipt."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of the manifest itself, computed with an empty text in this field."""
    fit: MwemFit
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if not isinstance(self.members, Mapping) or set(self.members) != {MANIFEST}:
            raise sealed_files.unfit_members_error(self.members, [MANIFEST])
        for name, kind in (("fit", MwemFit), ("receipt", Receipt)):
            if not isinstance(getattr(self, name), kind):
                given = ValueWords(f"an object of type {type(getattr(self, name)).__name__}")
                raise InvalidParameter(
                    name, given, f"a {kind.__name__} value", fix="load the .sfu file with sf.synopsis(path)"
                )


KIND = codec.kind_of_class(FitManifest)


def save(fit: MwemFit, receipt: Receipt, path: str | os.PathLike[str]) -> None:
    """Write a model to a temporary file and rename it: the name always refers to a whole file, or to none."""
    sealed_files.write_atomically(to_bytes(fit, receipt), path)


def to_bytes(fit: MwemFit, receipt: Receipt) -> bytes:
    """Return the bytes of a model's file."""
    return sealed_files.to_bytes(FitManifest(_FORMAT, sealed_files.member_hashes(), fit, public_receipt(receipt)))


def read(content: bytes, file_name: str) -> tuple[MwemFit, Receipt]:
    """Read what was released from the bytes of a file; an edited file is refused."""
    manifest, _ = _KIND.read(FitManifest, content, file_name)
    return manifest.fit, manifest.receipt
