"""A fitted model is kept as one file, like a synopsis: a zip whose one member, ``manifest.json``, holds what was
released.

The model itself is not in it: whoever reads the file fits it again, to the bit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import MANIFEST, FileKind
from sfumato.publish.files.synopsis_files import public
from sfumato.publish.fits import Fit
from sfumato.release.answers.receipts import Receipt

_FORMAT = 1
_KIND = FileKind("model", _FORMAT, 1 << 28)


@codec.value("fitted-file")
@dataclass(frozen=True)
class FitManifest:
    """A manifest of a model says its format, its own hash, what was released, and the receipt."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of the manifest itself, with an empty text in this place."""
    fit: Fit
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if not isinstance(self.members, Mapping) or set(self.members) != {MANIFEST}:
            raise InvalidParameter("members", self.members, f"the hash of {MANIFEST}")
        if not isinstance(self.fit, Fit) or not isinstance(self.receipt, Receipt):
            raise InvalidParameter("fit", type(self.fit).__name__, "what a model was fitted from, and its receipt")


KIND = codec.kind(FitManifest)


def save(fit: Fit, receipt: Receipt, path: str | os.PathLike[str]) -> None:
    """Write a model beside its place, and rename: there is always a whole file under the name, or none."""
    sealed_files.save(written(fit, receipt), path)


def written(fit: Fit, receipt: Receipt) -> bytes:
    """Give the bytes of the file of a model."""
    return sealed_files.written(FitManifest(_FORMAT, sealed_files.hashes(), fit, public(receipt)))


def read(content: bytes, place: str) -> tuple[Fit, Receipt]:
    """Read what was released from the bytes of a file; whatever was edited is refused."""
    found, _ = _KIND.read(FitManifest, content, place)
    return found.fit, found.receipt
