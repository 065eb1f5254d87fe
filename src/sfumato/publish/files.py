"""A synopsis is kept as one file, people.sfu: a zip of two members, that other programs can open too.

``manifest.json`` holds the plan, the terms, the receipt and the SHA-256 of each member; ``blocks.arrow`` the noisy
whole numbers, one column, in the order of the plan. Both are stored as they are, with fixed times, so equal synopses
are equal files. Whoever reads one checks sizes before anything is made from them, then every byte: members have their
hashes, and the zip around them is written again and compared, so an edit anywhere is found. Nothing in a file is ever
executed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter, SynopsisDamaged
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, exact
from sfumato.publish import zip_files
from sfumato.publish.chains import Integers
from sfumato.publish.faces import TableFace
from sfumato.publish.measuring import Published, packed, shapes_of
from sfumato.publish.planning import Plan
from sfumato.publish.zip_files import MANIFEST, damaged, digest, is_sealed, members_of, sealed, zipped
from sfumato.release.prices import Price
from sfumato.release.purchases import Purchase
from sfumato.release.receipts import Receipt

FORMAT = 1
BLOCKS = "blocks.arrow"
_LONGEST_MANIFEST = 1 << 28
_MOST_NUMBERS = 2 * 10**8
_OVERHEAD = 1 << 16
"""Bytes of an Arrow file beside its numbers: far more than one column needs."""
_UNSAID = "not said in a file"


@codec.value("synopsis-file")
@dataclass(frozen=True)
class Manifest:
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
    zip_files.save(written(published, receipt), path)


def written(published: Published, receipt: Receipt) -> bytes:
    """Give the bytes of the file of a synopsis."""
    blocks = _arrow(_numbers(published))
    return zipped({MANIFEST: _manifest(published, receipt, digest(blocks)).encode(), BLOCKS: blocks})


def _numbers(published: Published) -> Integers:
    """Put all noisy numbers one after the other, in the order of the plan."""
    parts = [each.values.reshape(-1) for each in published.blocks or published.marginals]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _manifest(own: Published, receipt: Receipt, blocks: str) -> str:
    values = charge(own.plan), own.plan, own.table, own.where, replace(own.purchase, salt=""), own.promise, own.face
    found = Manifest(FORMAT, {BLOCKS: blocks, MANIFEST: ""}, *values, public(receipt))
    return sealed(codec.dumps(found))


def public(receipt: Receipt) -> Receipt:
    """Give a receipt as everybody may read it: who bought it and what they have left is not for them.

    The salt of the ledger's line is left out of files for the same reason: whoever knew it could test guesses of what
    else the line says against its hash.
    """
    return replace(receipt, share="", remaining=_UNSAID)


def _arrow(numbers: Integers) -> bytes:
    import pyarrow
    from pyarrow import ipc

    schema = _schema()
    out = pyarrow.BufferOutputStream()
    with ipc.new_file(out, schema) as file:
        file.write_batch(pyarrow.record_batch([pyarrow.array(numbers, pyarrow.int64())], schema=schema))
    return bytes(out.getvalue())


def _schema() -> Any:
    import pyarrow

    return pyarrow.schema([pyarrow.field("value", pyarrow.int64(), nullable=False)])


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read(content: bytes, place: str = "the file") -> tuple[Published, Receipt]:
    """Read what was published from the bytes of its file."""
    members = dict(members_of(content, place))
    if list(members) != [MANIFEST, BLOCKS] or zipped(members) != content:
        raise damaged(place, f"it is not the zip of {MANIFEST} and {BLOCKS} that was written")
    manifest = _read_manifest(members[MANIFEST], place)
    if digest(members[BLOCKS]) != manifest.members[BLOCKS]:
        raise damaged(place, f"{BLOCKS} does not have the hash that {MANIFEST} says")
    numbers = _read_numbers(members[BLOCKS], manifest.plan, place)
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


def _read_manifest(content: bytes, place: str) -> Manifest:
    if len(content) > _LONGEST_MANIFEST:
        raise damaged(place, f"{MANIFEST} has more than {_LONGEST_MANIFEST:,} bytes")
    try:
        text = content.decode()
        stated = json.loads(text, parse_float=str, parse_constant=str)
        number, own = stated["format"], stated["members"][MANIFEST]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise damaged(place, f"{MANIFEST} is not the JSON text that was written") from None
    if type(number) is int and number > FORMAT:
        rule = f"this version reads synopses of format {FORMAT}; the file has format {number}"
        raise SynopsisDamaged(rule, place=place, fix="install a newer sfumato")
    if not is_sealed(text, own):
        raise damaged(place, f"{MANIFEST} does not have the hash that it says")
    try:
        found = codec.loads_as(Manifest, text, longest=_LONGEST_MANIFEST)
    except InvalidParameter as error:
        raise damaged(place, f"{MANIFEST} does not say what a synopsis is ({error.rule})") from error
    if found.charge != charge(found.plan):
        raise damaged(place, "the plan does not cost what the file says")
    return found


def _read_numbers(content: bytes, plan: Plan, place: str) -> Integers:
    """Read as many numbers as the plan has, once the sizes fit."""
    import pyarrow
    from pyarrow import ipc

    count = sum(math.prod(shape) for shape in shapes_of(plan))
    if count > _MOST_NUMBERS or not 0 <= len(content) - 8 * count <= _OVERHEAD:
        raise damaged(place, f"{BLOCKS} does not have the {count:,} numbers of the plan")
    try:
        file = ipc.open_file(pyarrow.BufferReader(content))
        if file.schema != _schema() or file.num_record_batches != 1:
            raise damaged(place, f"{BLOCKS} has other columns than one of whole numbers")
        batch = file.get_batch(0)
        batch.validate(full=True)
        column = batch.column(0)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise damaged(place, f"{BLOCKS} is no Arrow file") from error
    if len(column) != count or column.null_count:
        raise damaged(place, f"{BLOCKS} does not have the {count:,} numbers of the plan")
    # Arrow's own to_numpy imports pandas, which takes as long as all the rest of a question.
    return np.frombuffer(column.buffers()[1], "<i8", count, 8 * column.offset).astype(np.int64)


def _split(numbers: Integers, plan: Plan) -> Iterator[str]:
    at = 0
    for shape in shapes_of(plan):
        size = math.prod(shape)
        yield packed(numbers[at : at + size])
        at += size
