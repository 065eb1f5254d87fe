"""Files of synopses, such as people.sfu: a zip of two members, which other programs can open too.

``manifest.json`` holds the plan, the terms, the receipt and the SHA-256 of each member; ``blocks.arrow`` the noisy
integers, one column, in the order of the plan. Both are stored uncompressed, with fixed dates, so equal synopses are
equal files. A reader checks sizes before anything is built from them, then every byte: members have their hashes, and
the zip around them is rebuilt and compared, so an edit anywhere is detected. Nothing in a file is ever executed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from fractions import Fraction

import numpy as np

from sfumato.array_types import Integers
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, exact
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import (
    MANIFEST,
    FileKind,
    NumberMember,
    damaged_file_error,
    unfit_members_error,
)
from sfumato.publish.marginals.attributes import PublicTableFacts
from sfumato.publish.marginals.measuring import PublishedMarginals, encode_integers, measured_shapes
from sfumato.publish.marginals.planning import NoisePlan
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt
from sfumato.release.payers import PurchaseTerms
from sfumato.release.prices import Price

FORMAT = 1
BLOCKS = "blocks.arrow"
_KIND = FileKind("synopsis", FORMAT, 1 << 28, BLOCKS)
_BLOCKS = NumberMember(BLOCKS, "value", "int64")
_MAX_NUMBERS = 2 * 10**8
_NOT_IN_FILES = "not said in a file"


@codec.serialisable("synopsis-file")
@dataclass(frozen=True)
class SynopsisManifest:
    """The manifest of a synopsis: all but its numbers."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of each member; that of the manifest itself is computed with an empty text in its own entry."""
    charge: Fraction
    """The cost of the plan: ρ, or ε for Laplace noise."""
    plan: NoisePlan
    table: str
    where: str
    purchase: PurchaseTerms
    price: Price
    face: PublicTableFacts
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "charge", exact(self.charge, "charge", NONNEGATIVE))
        if self.format != FORMAT:
            raise InvalidParameter("format", self.format, f"{FORMAT}")
        kinds = {
            "plan": NoisePlan,
            "purchase": PurchaseTerms,
            "price": Price,
            "face": PublicTableFacts,
            "receipt": Receipt,
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(name, getattr(self, name), f"a {kind.__name__}")
        if set(self.members) != {MANIFEST, BLOCKS} or not all(
            isinstance(digest, str) for digest in self.members.values()
        ):
            raise unfit_members_error(self.members, [MANIFEST, BLOCKS])
        object.__setattr__(self, "members", dict(self.members))


def plan_cost(plan: NoisePlan) -> Fraction:
    """Return the cost of a plan: ρ of blocks, ε of marginals."""
    return plan.rho if plan.blocks else plan.epsilon


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def save(published: PublishedMarginals, receipt: Receipt, path: str | os.PathLike[str]) -> None:
    """Write a synopsis to a temporary file and rename it: the name always refers to a whole file, or to none."""
    sealed_files.write_atomically(to_bytes(published, receipt), path)


def to_bytes(published: PublishedMarginals, receipt: Receipt) -> bytes:
    """Return the bytes of a synopsis's file."""
    terms = (
        plan_cost(published.plan),
        published.plan,
        published.table,
        published.where,
        published.purchase.without_salt,
        published.price_or_plan_cost,
        published.face,
    )
    members = {BLOCKS: _BLOCKS.to_bytes(_all_noisy_numbers(published))}
    return sealed_files.to_bytes(
        SynopsisManifest(FORMAT, sealed_files.member_hashes(members), *terms, public_receipt(receipt)), members
    )


def _all_noisy_numbers(published: PublishedMarginals) -> Integers:
    """Concatenate all noisy numbers, in the order of the plan."""
    parts = [measured.values.reshape(-1) for measured in published.gaussian_blocks or published.laplace_marginals]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def public_receipt(receipt: Receipt) -> Receipt:
    """Return a receipt as everybody may read it, without the buyer and their remaining budget.

    The salt of the ledger's line is left out of files for the same reason: whoever knew it could test guesses of what
    else the line says against its hash.
    """
    return replace(receipt, share="", remaining=_NOT_IN_FILES)


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read(content: bytes, file_name: str = "the file") -> tuple[PublishedMarginals, Receipt]:
    """Read what was published from the bytes of its file."""
    manifest, blocks = _KIND.read(SynopsisManifest, content, file_name)
    if manifest.charge != plan_cost(manifest.plan):
        raise damaged_file_error(file_name, "the plan does not cost what the file states")
    count = sum(math.prod(shape) for shape in measured_shapes(manifest.plan))
    if count > _MAX_NUMBERS:
        raise damaged_file_error(file_name, f"{BLOCKS} has more than {_MAX_NUMBERS:,} numbers")
    numbers = _BLOCKS.read(blocks, count, file_name)
    published = PublishedMarginals(
        manifest.plan,
        tuple(_encoded_parts(numbers, manifest.plan)),
        manifest.table,
        manifest.where,
        manifest.purchase,
        manifest.price,
        manifest.face,
    )
    return published, manifest.receipt


def _encoded_parts(numbers: Integers, plan: NoisePlan) -> Iterator[str]:
    offset = 0
    for shape in measured_shapes(plan):
        size = math.prod(shape)
        yield encode_integers(numbers[offset : offset + size])
        offset += size
