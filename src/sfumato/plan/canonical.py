"""Canonical hashes of plans: plans with the same meaning have the same digest.

The key of a stored answer is a digest of its plan and of the part of the policy that decides its meaning
(``relevant_policy``). Earlier versions hashed the whole policy, so that any edit made every answer cost again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.policy import Domain
from sfumato.privacy import codec
from sfumato.privacy.numbers import format_exact

_PLAIN = frozenset((str, int, bool, type(None)))
VERSION = 4
"""Raised whenever a node's meaning changes, so that stored answers no longer match new queries."""


@dataclasses.dataclass(frozen=True)
class PlanKey:
    """The text under which an answer is stored and found in the ledger."""

    current: str
    former: str
    """The key under which earlier versions stored it, and under which it is still found."""

    @classmethod
    def combined(cls, keys: Iterable[PlanKey], combine_texts: Callable[..., str]) -> PlanKey:
        """Return the key of what consists of several plans, each of them by its key."""
        members = tuple(keys)
        return cls(combine_texts(*(key.current for key in members)), combine_texts(*(key.former for key in members)))

    def derive(self, derive_text: Callable[[str], str]) -> PlanKey:
        """Return the key of what is computed from this plan."""
        return PlanKey.combined((self,), derive_text)

    def __contains__(self, plan: str) -> bool:
        return plan in (self.current, self.former)


def digest(*parts: object) -> str:
    """Return the hash of frozen nodes and plain values."""
    return digest_beginning(*parts)()


def digest_beginning(*first_parts: object) -> Callable[..., str]:
    """Return ``digest`` with these first parts, written once however often it is called with others."""
    domain_hashes: dict[int, str] = {}
    first = [_canonical_json(part, domain_hashes) for part in first_parts]

    def digest_of_all(*parts: object) -> str:
        hashes: dict[int, str] = {}  # by identity: what was hashed before may be gone
        return _sha256([VERSION, [*first, *(_canonical_json(part, hashes) for part in parts)]])

    return digest_of_all


def _sha256(document: Any) -> str:
    return hashlib.sha256(_ENCODER.encode(document).encode()).hexdigest()


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)


def _canonical_json(node: Any, domain_hashes: dict[int, str]) -> Any:
    """Return a JSON value for a node. ``domain_hashes`` caches the hashes of domains by identity: thousands of parts
    may share a long list of values.
    """
    kind: Any = type(node)
    if kind in _PLAIN:
        return node
    if kind is Domain:
        if id(node) not in domain_hashes:
            domain_hashes[id(node)] = _sha256(_canonical_fields(node, domain_hashes))
        return domain_hashes[id(node)]
    if _compared_fields(kind) is not None:
        return _canonical_fields(node, domain_hashes)
    if isinstance(node, Enum):
        return node.value
    if isinstance(node, (tuple, list)):
        if _PLAIN.issuperset(map(type, node)):
            return node
        # map needs no frame of its own: trees are deep
        return list(map(_canonical_json, node, itertools.repeat(domain_hashes)))
    if isinstance(node, Fraction):
        return ["number", format_exact(node)]
    if isinstance(node, dt.date):
        return ["time", node.isoformat()]
    return node


def _canonical_fields(node: Any, domain_hashes: dict[int, str]) -> list[Any]:
    kind: Any = type(node)
    form = _compared_fields(kind)
    assert form is not None
    tag, names = form
    fields: list[Any] = [tag]
    for name in names:
        value = getattr(node, name)
        fields.append(value if type(value) in _PLAIN else _canonical_json(value, domain_hashes))
    return fields


@cache
def _compared_fields(kind: type[Any]) -> tuple[str, tuple[str, ...]] | None:
    """Return the tag of a dataclass and the names of its fields that are compared; None for other classes."""
    if not dataclasses.is_dataclass(kind):
        return None
    compared = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
    return codec.kind_of_class(kind), compared
