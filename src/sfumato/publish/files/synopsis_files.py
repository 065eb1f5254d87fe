"""A synopsis is kept as one file, people.sfu: a zip of two members, that other programs can open too.

``manifest.json`` holds the plan, the terms, the receipt and the SHA-256 of each member; ``blocks.arrow`` the noisy
whole numbers, one column, in the order of the plan. Both are stored as they are, with fixed times, so equal synopses
are equal files. Whoever reads one checks sizes before anything is made from them, then every byte: members have their
hashes, and the zip around them is written again and compared, so an edit anywhere is found. Nothing in a file is ever
executed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, exact
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import MANIFEST, FileKind, NumberMember, damaged
from sfumato.publish.marginals.chains import Integers
from sfumato.publish.marginals.faces import TableFace
from sfumato.publish.marginals.measuring import Published, packed, shapes_of
from sfumato.publish.marginals.planning import Plan
from sfumato.release.answers.receipts import Receipt
from sfumato.release.payers import Purchase
from sfumato.release.prices import Price

FORMAT = 1
BLOCKS = "blocks.arrow"
_KIND = FileKind("synopsis", FORMAT, 1 << 28, BLOCKS)
_BLOCKS = NumberMember(BLOCKS, "value", "int64")
_MOST_NUMBERS = 2 * 10**8
_UNSAID = "not said in a file"


@codec.value("synopsis-file")
@dataclass(frozen=True)
class SynopsisManifest:
    """A manifest says all of a synopsis but its numbers."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of each member; of the manifest itself, with an empty text in the place of its own."""
    charge: Fraction
    """What the plan costs: ρ, or ε where the noise is Laplace's."""
    plan: Plan
    table: str
    where: str
    purchase: Purchase
    price: Price
    face: TableFace
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "charge", exact(self.charge, "charge", NONNEGATIVE))
        if self.format != FORMAT:
            raise InvalidParameter("format", self.format, f"{FORMAT}")
        kinds = {"plan": Plan, "purchase": Purchase, "price": Price, "face": TableFace, "receipt": Receipt}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(name, getattr(self, name), f"of the kind {codec.kind(kind)}")
        if set(self.members) != {MANIFEST, BLOCKS} or not all(isinstance(each, str) for each in self.members.values()):
            raise InvalidParameter("members", self.members, f"hashes of {MANIFEST} and {BLOCKS}")
        object.__setattr__(self, "members", dict(self.members))


def charge(plan: Plan) -> Fraction:
    """Compute what a plan costs: ρ of blocks, ε of marginals."""
    return plan.rho if plan.blocks else plan.epsilon


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def save(published: Published, receipt: Receipt, path: str | os.PathLike[str]) -> None:
    """Write a synopsis beside its place, and rename: there is always a whole file under the name, or none."""
    sealed_files.save(written(published, receipt), path)


def written(published: Published, receipt: Receipt) -> bytes:
    """Give the bytes of the file of a synopsis."""
    own = published
    values = charge(own.plan), own.plan, own.table, own.where, own.purchase.public, own.promise, own.face
    beside = {BLOCKS: _BLOCKS.written(_numbers(own))}
    return sealed_files.written(SynopsisManifest(FORMAT, sealed_files.hashes(beside), *values, public(receipt)), beside)


def _numbers(published: Published) -> Integers:
    """Put all noisy numbers one after the other, in the order of the plan."""
    parts = [each.values.reshape(-1) for each in published.blocks or published.marginals]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def public(receipt: Receipt) -> Receipt:
    """Give a receipt as everybody may read it: who bought it and what they have left is not for them.

    The salt of the ledger's line is left out of files for the same reason: whoever knew it could test guesses of what
    else the line says against its hash.
    """
    return replace(receipt, share="", remaining=_UNSAID)


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read(content: bytes, place: str = "the file") -> tuple[Published, Receipt]:
    """Read what was published from the bytes of its file."""
    manifest, blocks = _KIND.read(SynopsisManifest, content, place)
    if manifest.charge != charge(manifest.plan):
        raise damaged(place, "the plan does not cost what the file says")
    count = sum(math.prod(shape) for shape in shapes_of(manifest.plan))
    if count > _MOST_NUMBERS:
        raise damaged(place, f"{BLOCKS} has more than {_MOST_NUMBERS:,} numbers")
    numbers = _BLOCKS.read(blocks, count, place)
    found = Published(
        manifest.plan,
        tuple(_split(numbers, manifest.plan)),
        manifest.table,
        manifest.where,
        manifest.purchase,
        manifest.price,
        manifest.face,
    )
    return found, manifest.receipt


def _split(numbers: Integers, plan: Plan) -> Iterator[str]:
    at = 0
    for shape in shapes_of(plan):
        size = math.prod(shape)
        yield packed(numbers[at : at + size])
        at += size
