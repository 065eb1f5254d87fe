"""A model is kept as one file, people.sfu: what was measured, and the potentials of the model that was fitted to it.

``manifest.json`` holds what was released, the steps that were paid for, the receipt, the columns of every potential and
the cliques of the tree; ``potentials.arrow`` the numbers of the potentials, one column, in that order. Files are
written and read as those of synopses (``files``): sizes are checked before anything is made from them, then every byte;
an edit anywhere is found, and nothing in a file is ever executed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.privacy import codec
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import MANIFEST, FileKind, NumberMember, damaged
from sfumato.publish.files.synopsis_files import public
from sfumato.publish.graph.models import GraphModel, Potential
from sfumato.publish.graph.trees import JunctionTree
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.synthesis.released import Synthesized
from sfumato.release.answers.receipts import Receipt

FORMAT = 1
POTENTIALS = "potentials.arrow"
_KIND = FileKind("model", FORMAT, 1 << 30, POTENTIALS)
_POTENTIALS = NumberMember(POTENTIALS, "logarithm", "float64")
_MOST_CELLS = 1 << 27

Kept = tuple[Synthesized, GraphModel, tuple[Charged, ...], Receipt]


@codec.value("model-file")
@dataclass(frozen=True, eq=False)
class ModelManifest:
    """A manifest says all of a model but the numbers of its potentials."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of each member; of the manifest itself, with an empty text in the place of its own."""
    released: Synthesized
    steps: tuple[Charged, ...]
    """Every step that was paid for, in order."""
    receipt: Receipt
    potentials: tuple[Set, ...]
    """The places of each potential,"""
    cliques: tuple[Set, ...]
    """and of each clique of the tree, parents before children,"""
    parents: tuple[int, ...]
    """and on which clique each hangs; -1 for the first of each part."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if self.format != FORMAT:
            raise InvalidParameter("format", self.format, f"{FORMAT}")
        for name, kind in {"released": Synthesized, "receipt": Receipt}.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(name, getattr(self, name), f"of the kind {codec.kind(kind)}")
        if not isinstance(self.steps, (tuple, list)) or not all(isinstance(each, Charged) for each in self.steps):
            raise InvalidParameter("steps", self.steps, "the steps that were paid for")
        if set(self.members) != {MANIFEST, POTENTIALS} or not all(isinstance(v, str) for v in self.members.values()):
            raise InvalidParameter("members", self.members, f"hashes of {MANIFEST} and {POTENTIALS}")
        object.__setattr__(self, "members", dict(self.members))
        object.__setattr__(self, "steps", tuple(self.steps))
        for name in ("potentials", "cliques"):
            object.__setattr__(self, name, self._sets(getattr(self, name), name))
        object.__setattr__(self, "parents", tuple(self.parents))
        self._check_tree()

    def _check_tree(self) -> None:
        """Refuse what is no junction tree: what a clique shares with those before it is in its parent, and every column
        and every potential is in a clique (Koller & Friedman 2009, ch. 10).
        """
        seen: set[int] = set()
        fits = len(self.parents) == len(self.cliques)
        for index, (clique, parent) in enumerate(zip(self.cliques, self.parents, strict=False)):
            shared = seen & set(clique)
            known = type(parent) is int and -1 <= parent < index
            fits &= known and shared <= (set(self.cliques[parent]) if known and parent >= 0 else set())
            seen |= set(clique)
        cliques = [set(each) for each in self.cliques]
        fits &= len(seen) == len(self.released.attributes)
        fits &= all(any(set(each) <= clique for clique in cliques) for each in self.potentials)
        if not fits:
            raise InvalidParameter("cliques", self.cliques[:3], "those of a tree that holds every potential")

    @property
    def tree(self) -> JunctionTree:
        """Give the tree; what a clique shares with its parent follows."""
        pairs = zip(self.cliques, self.parents, strict=True)
        shared = (tuple(p for p in clique if at >= 0 and p in self.cliques[at]) for clique, at in pairs)
        return JunctionTree(self.cliques, self.parents, tuple(shared))

    def _sets(self, written: Any, name: str) -> tuple[Set, ...]:
        listed = isinstance(written, (tuple, list)) and all(isinstance(each, (tuple, list)) for each in written)
        known = set(range(len(self.released.attributes)))
        for each in written if listed else ():
            if list(each) != sorted(known & {place for place in each if type(place) is int}):
                raise InvalidParameter(name, each, "places of columns, rising")
        if not listed or len({tuple(each) for each in written}) != len(written):
            raise InvalidParameter(name, written, "sets of places, each once")
        return tuple(tuple(each) for each in written)


# ── writing ────────────────────────────────────────────────────────────────────────────────────


KIND = codec.kind(ModelManifest)


def save(kept: Kept, path: str | os.PathLike[str]) -> None:
    """Write a model beside its place, and rename: there is always a whole file under the name, or none."""
    sealed_files.save(written(kept), path)


def written(kept: Kept) -> bytes:
    """Give the bytes of the file of a model."""
    released, model, steps, receipt = kept
    numbers = np.concatenate([np.zeros(0), *(each.logs.reshape(-1) for each in model.potentials)])
    beside = {POTENTIALS: _POTENTIALS.written(numbers)}
    hidden = replace(released, purchase=released.purchase.public)
    sets = tuple(each.places for each in model.potentials), model.tree.cliques, model.tree.parents
    found = ModelManifest(FORMAT, sealed_files.hashes(beside), hidden, steps, public(receipt), *sets)
    return sealed_files.written(found, beside)


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read(content: bytes, place: str = "the file") -> Kept:
    """Read a model from the bytes of its file; whatever was edited is refused."""
    manifest, numbers = _KIND.read(ModelManifest, content, place)
    return manifest.released, _read_model(manifest, numbers, place), manifest.steps, manifest.receipt


def _read_model(manifest: ModelManifest, content: bytes, place: str) -> GraphModel:
    """Build the model once its sizes fit: of the numbers that are there, and of the tables that are made of them."""
    sizes = manifest.released.sizes
    shapes = [tuple(sizes[each] for each in places) for places in manifest.potentials]
    counts = [math.prod(shape) for shape in shapes]
    if sum(counts) > _MOST_CELLS or manifest.tree.cells(sizes) > _MOST_CELLS:
        raise damaged(place, f"its model has more than {_MOST_CELLS:,} cells")
    numbers = _POTENTIALS.read(content, sum(counts), place)
    if np.isnan(numbers).any() or (numbers == np.inf).any():
        raise damaged(place, f"{POTENTIALS} has numbers that are no logarithms of weights")
    parts = np.split(numbers, np.cumsum(counts)[:-1]) if counts else []
    potentials = tuple(
        Potential(places, part.reshape(shape))
        for places, part, shape in zip(manifest.potentials, parts, shapes, strict=True)
    )
    return GraphModel(sizes, manifest.tree, potentials, manifest.released.total)
