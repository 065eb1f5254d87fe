"""Files of graphical models, such as people.sfu: what was measured, and the potentials of the fitted model.

``manifest.json`` holds what was released, the charged steps, the receipt, the columns of every potential and the
cliques of the tree; ``potentials.arrow`` the numbers of the potentials, one column, in that order. Files are written
and read like those of synopses (``sealed_files``): sizes are checked before anything is built from them, then every
byte; an edit anywhere is detected, and nothing in a file is ever executed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.privacy import codec
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import (
    MANIFEST,
    FileKind,
    NumberMember,
    damaged_file_error,
    unfit_members_error,
)
from sfumato.publish.files.synopsis_files import public_receipt
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.graph.trees import JunctionTree
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.synthesis.released import ReleasedSynthesis
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt

FORMAT = 1
POTENTIALS = "potentials.arrow"
_KIND = FileKind("model", FORMAT, 1 << 30, POTENTIALS)
_POTENTIALS = NumberMember(POTENTIALS, "logarithm", "float64")
_MAX_CELLS = 1 << 27

StoredModel = tuple[ReleasedSynthesis, GraphicalModel, tuple[Charged, ...], Receipt]


@codec.serialisable("model-file")
@dataclass(frozen=True, eq=False)
class ModelManifest:
    """The manifest of a model: all but the numbers of its potentials."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of each member; that of the manifest itself is computed with an empty text in its own entry."""
    released: ReleasedSynthesis
    steps: tuple[Charged, ...]
    """Every charged step, in order."""
    receipt: Receipt
    potentials: tuple[AttributeSet, ...]
    """The column indices of each potential."""
    cliques: tuple[AttributeSet, ...]
    """The column indices of each clique of the tree, parents before children."""
    parents: tuple[int, ...]
    """The index of each clique's parent; -1 for the root of each component."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if self.format != FORMAT:
            raise InvalidParameter("format", self.format, f"{FORMAT}")
        for name, kind in {"released": ReleasedSynthesis, "receipt": Receipt}.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(name, getattr(self, name), f"a {kind.__name__}")
        if not isinstance(self.steps, (tuple, list)) or not all(isinstance(step, Charged) for step in self.steps):
            raise InvalidParameter("steps", self.steps, "a list of charges of the ledger, in the order of payment")
        if set(self.members) != {MANIFEST, POTENTIALS} or not all(isinstance(v, str) for v in self.members.values()):
            raise unfit_members_error(self.members, [MANIFEST, POTENTIALS])
        object.__setattr__(self, "members", dict(self.members))
        object.__setattr__(self, "steps", tuple(self.steps))
        for name in ("potentials", "cliques"):
            object.__setattr__(self, name, self._checked_sets(getattr(self, name), name))
        object.__setattr__(self, "parents", tuple(self.parents))
        self._check_tree()

    def _check_tree(self) -> None:
        """Refuse what is not a junction tree: what a clique shares with earlier ones is in its parent, and every
        column and every potential is in a clique (Koller & Friedman 2009, ch. 10).
        """
        seen: set[int] = set()
        is_valid = len(self.parents) == len(self.cliques)
        for index, (clique, parent) in enumerate(zip(self.cliques, self.parents, strict=False)):
            shared = seen & set(clique)
            has_parent = type(parent) is int and -1 <= parent < index
            is_valid &= has_parent and shared <= (set(self.cliques[parent]) if has_parent and parent >= 0 else set())
            seen |= set(clique)
        cliques = [set(attribute_set) for attribute_set in self.cliques]
        is_valid &= len(seen) == len(self.released.attributes)
        is_valid &= all(any(set(potential) <= clique for clique in cliques) for potential in self.potentials)
        if not is_valid:
            rule = "the cliques of a junction tree, with every potential within one of them"
            raise InvalidParameter("cliques", self.cliques[:3], rule, fix="load the file with sf.synopsis(path)")

    @property
    def tree(self) -> JunctionTree:
        """The junction tree; separators follow from cliques and parents."""
        pairs = zip(self.cliques, self.parents, strict=True)
        separators = (
            tuple(
                attribute_index for attribute_index in clique if parent >= 0 and attribute_index in self.cliques[parent]
            )
            for clique, parent in pairs
        )
        return JunctionTree(self.cliques, self.parents, tuple(separators))

    def _checked_sets(self, decoded: Any, name: str) -> tuple[AttributeSet, ...]:
        are_lists = isinstance(decoded, (tuple, list)) and all(
            isinstance(attribute_set, (tuple, list)) for attribute_set in decoded
        )
        valid_indices = set(range(len(self.released.attributes)))
        for attribute_set in decoded if are_lists else ():
            if list(attribute_set) != sorted(
                valid_indices & {attribute_index for attribute_index in attribute_set if type(attribute_index) is int}
            ):
                raise InvalidParameter(name, attribute_set, "a list of column indices in increasing order")
        if not are_lists or len({tuple(attribute_set) for attribute_set in decoded}) != len(decoded):
            raise InvalidParameter(name, decoded, "a list of different sets of column indices")
        return tuple(tuple(attribute_set) for attribute_set in decoded)


# ── writing ────────────────────────────────────────────────────────────────────────────────────


KIND = codec.kind_of_class(ModelManifest)


def to_bytes(stored_model: StoredModel) -> bytes:
    """Return the bytes of a model's file."""
    released, model, steps, receipt = stored_model
    numbers = np.concatenate([np.zeros(0), *(potential.logs.reshape(-1) for potential in model.potentials)])
    members = {POTENTIALS: _POTENTIALS.to_bytes(numbers)}
    public_release = replace(released, purchase=released.purchase.without_salt)
    sets = tuple(potential.attribute_set for potential in model.potentials), model.tree.cliques, model.tree.parents
    manifest = ModelManifest(
        FORMAT, sealed_files.member_hashes(members), public_release, steps, public_receipt(receipt), *sets
    )
    return sealed_files.to_bytes(manifest, members)


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read(content: bytes, file_name: str = "the file") -> StoredModel:
    """Read a model from the bytes of its file; an edited file is refused."""
    manifest, numbers = _KIND.read(ModelManifest, content, file_name)
    return manifest.released, _read_model(manifest, numbers, file_name), manifest.steps, manifest.receipt


def _read_model(manifest: ModelManifest, content: bytes, file_name: str) -> GraphicalModel:
    """Build the model after its sizes are checked: of the stored numbers, and of the tables built from them."""
    sizes = manifest.released.sizes
    shapes = [tuple(sizes[column] for column in attribute_set) for attribute_set in manifest.potentials]
    counts = [math.prod(shape) for shape in shapes]
    if sum(counts) > _MAX_CELLS or manifest.tree.cell_count(sizes) > _MAX_CELLS:
        raise damaged_file_error(file_name, f"its model has more than {_MAX_CELLS:,} cells")
    numbers = _POTENTIALS.read(content, sum(counts), file_name)
    if np.isnan(numbers).any() or (numbers == np.inf).any():
        raise damaged_file_error(file_name, f"{POTENTIALS} has numbers that no model can have")
    parts = np.split(numbers, np.cumsum(counts)[:-1]) if counts else []
    potentials = tuple(
        Potential(attribute_set, part.reshape(shape))
        for attribute_set, part, shape in zip(manifest.potentials, parts, shapes, strict=True)
    )
    return GraphicalModel(sizes, manifest.tree, potentials, manifest.released.total)
